//! Cubes that take part in a query, and what their members are as expressions over their tables.
//!
//! A cube takes part once for each path of joins that leads to it from where the query begins. A reference from one cube to another
//! follows the path: to the cube itself, to one that the path has come through, or by the fewest joins to one behind it.
//!
//! The SQL of a member is bound in a scope of the columns of its cube, and of one column for each of its references, which stands for
//! whatever that is. So members made of members need nothing more than names do.

use crate::bind::cx::Cx;
use crate::bind::logic::balanced;
use crate::bind::scope::{Clause, Frame, Scope, ScopeColumn};
use crate::bind::{Binder, Settle};
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::JoinType;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Operator, lit, when};
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use repr::{Datum, PgType};
use semantic::model::Model;
use semantic::model::cube::{Cube, Relationship, Source};
use semantic::model::dimension::{Dimension, DimensionValue, Label};
use semantic::model::fragment::{Fragment, Path, marker};
use semantic::model::measure::{Measure, MeasureKind};
use semantic::model::member::Segment;
use semantic::model::offer::Member;
use semantic::model::reference::{Bucket, Reference, Target};
use semantic::report::{Place, Report};
use sql_functions::TypedExpr;
use sqlparser::ast;
use sqlparser::tokenizer::Span;
use std::collections::{BTreeSet, HashMap};

/// The number of an instance: the root is the first.
pub(super) type At = usize;

pub(super) const ROOT: At = 0;

/// The most that members made of members may come to: as deep, and as many pieces.
const VALUE_DEPTH_MAX: usize = 100;
const VALUE_SIZE_MAX: usize = 10_000;

/// The cubes of one query.
pub(super) struct Instances<'b, 't, 'm> {
    /// Binds in the scope of the model.
    pub(super) binder: &'b mut Binder<'t>,
    model: &'m Model,
    all: Vec<Instance<'m>>,
    leaves: Vec<Leaf>,
    /// A measure that was bound, and is over a window around each bucket of time.
    rolling: Option<&'m Measure>,
}

/// A cube at the end of a path of joins.
struct Instance<'m> {
    cube: &'m Cube,
    /// From which instance it is joined, and how many of its rows there are for how many of that one's; none for the root.
    joined: Option<(At, Relationship)>,
    plan: LogicalPlan,
    qualifier: String,
    columns: Vec<ScopeColumn>,
    condition: Option<Expr>,
    values: HashMap<&'m str, TypedExpr>,
}

/// An aggregate of the rows of a cube. Measures are expressions over aggregates, which stand in them as columns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Leaf {
    /// Whose rows it counts.
    pub(super) owner: At,
    pub(super) call: Expr,
    /// Which rows count, over the columns of the query's rows.
    pub(super) filter: Option<Expr>,
    pub(super) name: String,
}

impl Leaf {
    /// The same over fewer rows.
    pub(super) fn but(&self, filter: Option<Expr>) -> Leaf {
        let filter = self.filter.clone().into_iter().chain(filter).reduce(Expr::and);
        Leaf { filter, ..self.clone() }
    }
}

impl<'b, 't, 'm> Instances<'b, 't, 'm> {
    pub(super) fn new(binder: &'b mut Binder<'t>, model: &'m Model, root: &'m Cube) -> Result<Self, SqlError> {
        let mut instances = Instances { binder, model, all: Vec::new(), leaves: Vec::new(), rolling: None };
        instances.add(root, None)?;
        Ok(instances)
    }

    /// The instance at the end of a path of cubes that begins at the root.
    pub(super) fn along(&mut self, path: &[&'m str]) -> Result<At, SqlError> {
        let mut at = ROOT;
        for name in path {
            let missing = || SqlError::internal(format!("the model has no cube \"{name}\""));
            at = self.step(at, self.model.cube(name).ok_or_else(missing)?)?;
        }
        Ok(at)
    }

    /// The instance of a cube to which a reference from another instance leads.
    fn step(&mut self, from: At, to: &'m Cube) -> Result<At, SqlError> {
        let mut on_the_way = Some(from);
        while let Some(at) = on_the_way {
            if self.all[at].cube.name() == to.name() {
                return Ok(at);
            }
            on_the_way = self.all[at].joined.map(|(before, _)| before);
        }
        let way = self.model.joins(self.all[from].cube, to).ok_or_else(|| {
            let (from, to) = (self.all[from].cube.name(), to.name());
            super::refused(
                format!("no join leads from cube \"{from}\" to cube \"{to}\""),
                "Declare a join, or query the cubes apart and join the results.",
            )
        })?;
        let mut at = from;
        for (_, join) in way {
            let known = self.all.iter().position(|other| {
                other.joined.is_some_and(|(before, _)| before == at) && other.cube.name() == join.cube
            });
            at = match known {
                Some(known) => known,
                None => {
                    let cube = self.model.cube(&join.cube).ok_or_else(|| SqlError::internal("joins are checked"))?;
                    let joined = self.add(cube, Some((at, join.relationship)))?;
                    let condition = self.condition(at, &join.sql)?;
                    self.all[joined].condition = Some(condition);
                    joined
                }
            };
        }
        Ok(at)
    }

    fn add(&mut self, cube: &'m Cube, joined: Option<(At, Relationship)>) -> Result<At, SqlError> {
        let (place, relation) = match &cube.source {
            Source::Table(name) => {
                let names = match name.tree.as_ref() {
                    ast::Expr::Identifier(ident) => std::slice::from_ref(ident),
                    ast::Expr::CompoundIdentifier(idents) => idents.as_slice(),
                    _ => return Err(SqlError::internal("the source of a cube is no name")),
                };
                let names: Vec<String> = names.iter().map(crate::bind::scope::fold).collect();
                (&name.place, self.binder.relation(&names, None, Span::empty()))
            }
            Source::Query(query) => {
                let bound = self.binder.query(&query.tree, None, Settle::Text);
                (&query.place, bound.and_then(|bound| self.binder.derived(bound, None, cube.name())))
            }
        };
        let relation = relation.map_err(|error| located(error, cube, place))?;
        let qualifier = relation.scope.columns.first().and_then(|column| match &column.expr {
            Expr::Column(Column { relation: Some(qualifier), .. }) => Some(qualifier.table().to_owned()),
            _ => None,
        });
        let Some(qualifier) = qualifier else {
            return Err(located(SqlError::unsupported("a relation without columns"), cube, place));
        };
        let columns = relation.scope.columns;
        let (plan, condition, values) = (relation.plan, None, HashMap::new());
        self.all.push(Instance { cube, joined, plan, qualifier, columns, condition, values });
        Ok(self.all.len() - 1)
    }

    /// A plan with one row for each row of an instance, as an instance of its own: with columns that are equal to the key's parts, and a
    /// value.
    pub(super) fn attach(&mut self, at: At, plan: LogicalPlan, qualifier: String, condition: Expr) {
        let (cube, columns, values) = (self.all[at].cube, Vec::new(), HashMap::new());
        let (joined, condition) = (Some((at, Relationship::OneToOne)), Some(condition));
        self.all.push(Instance { cube, joined, plan, qualifier, columns, condition, values });
    }

    /// The aggregates that have been asked for.
    pub(super) fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// The model.
    pub(super) fn model(&self) -> &'m Model {
        self.model
    }

    /// A member of the instance as an expression: of the rows if it is a dimension or a segment, of leaves if it is a measure.
    pub(super) fn member(&mut self, at: At, member: Member<'m>) -> Result<TypedExpr, SqlError> {
        match member {
            Member::Dimension(dimension) => self.dimension(at, dimension),
            Member::Measure(measure) => self.measure(at, measure),
            Member::Segment(segment) => self.segment(at, segment),
        }
    }

    fn dimension(&mut self, at: At, dimension: &'m Dimension) -> Result<TypedExpr, SqlError> {
        let name = dimension.described.name.as_str();
        if let Some(known) = self.all[at].values.get(name) {
            return Ok(known.clone());
        }
        let value = match &dimension.value {
            DimensionValue::Sql(sql) => self.value(at, sql, Clause::Expression)?,
            DimensionValue::Case { whens, otherwise } => self.case(at, whens, otherwise.as_ref())?,
            DimensionValue::SubQuery(sql) => self.sub_query(at, sql)?,
        };
        let value = self.binder.coercer.settle(value)?;
        self.check_size(at, &value.expr, name)?;
        self.all[at].values.insert(name, value.clone());
        Ok(value)
    }

    /// Error 54001: what members are made of has become too much.
    fn check_size(&self, at: At, expr: &Expr, name: &str) -> Result<(), SqlError> {
        let (mut open, mut size) = (vec![(expr, 1_usize)], 0_usize);
        let mut children = Vec::new();
        while let Some((expr, depth)) = open.pop() {
            size += 1;
            if depth > VALUE_DEPTH_MAX || size > VALUE_SIZE_MAX {
                let cube = self.all[at].cube.name();
                let message = format!("member \"{name}\" of cube \"{cube}\" is made of too many others");
                return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
            }
            expr.apply_children(|child| {
                children.push((child, depth + 1));
                Ok(TreeNodeRecursion::Continue)
            })?;
            open.append(&mut children);
        }
        Ok(())
    }

    /// Whether a row is one of those that a measure counts, by its own filters.
    pub(super) fn counted(&mut self, at: At, measure: &'m Measure) -> Result<TypedExpr, SqlError> {
        let conditions = measure.filters.iter().map(|filter| self.condition(at, filter));
        let conditions = conditions.collect::<Result<Vec<_>, _>>()?;
        let expr = if conditions.is_empty() { lit(true) } else { balanced(conditions, Operator::And) };
        Ok(TypedExpr { expr, ty: PgType::Bool, data_type: PgType::Bool.data_type(), nullable: true })
    }

    fn segment(&mut self, at: At, segment: &'m Segment) -> Result<TypedExpr, SqlError> {
        let expr = self.condition(at, &segment.sql)?;
        Ok(TypedExpr { expr, ty: PgType::Bool, data_type: PgType::Bool.data_type(), nullable: true })
    }

    /// Labels of the first condition that holds.
    fn case(
        &mut self,
        at: At,
        whens: &'m [(Fragment<ast::Expr>, Label)],
        otherwise: Option<&'m Label>,
    ) -> Result<TypedExpr, SqlError> {
        let conditions = whens.iter().map(|(when, _)| self.condition(at, when)).collect::<Result<Vec<_>, _>>()?;
        let mut labels = Vec::with_capacity(whens.len() + 1);
        for label in whens.iter().map(|(_, label)| label).chain(otherwise) {
            labels.push(match label {
                Label::Text(text) => TypedExpr::constant(&Datum::Text(text.clone().into()), PgType::Text)?,
                Label::Sql(sql) => self.value(at, sql, Clause::Expression)?,
            });
        }
        let (mut labels, ty, data_type) = self.binder.coercer.unify(labels, "CASE")?;
        let otherwise = otherwise.and_then(|_| labels.pop()).map(|label| Box::new(label.expr));
        let branches = conditions.into_iter().zip(labels).map(|(when, label)| (Box::new(when), Box::new(label.expr)));
        let case = datafusion::logical_expr::expr::Case::new(None, branches.collect(), otherwise);
        Ok(TypedExpr::new(Expr::Case(case), ty, data_type))
    }

    /// A measure as an expression over leaves.
    fn measure(&mut self, at: At, measure: &'m Measure) -> Result<TypedExpr, SqlError> {
        let name = measure.described.name.as_str();
        if let Some(known) = self.all[at].values.get(name) {
            return Ok(known.clone());
        }
        let cube = self.all[at].cube;
        self.rolling = self.rolling.or_else(|| measure.rolling_window.as_ref().map(|_| measure));
        let (value, filter) = match (&measure.sql, measure.kind) {
            (Some(sql), kind) if !kind.is_aggregate() => (self.value(at, sql, Clause::Select)?, None),
            _ => self.aggregate(at, measure).map_err(|error| located(error, cube, &measure.described.place))?,
        };
        let value = self.binder.coercer.settle(value)?;
        if value.expr.exists(|expr| Ok(matches!(expr, Expr::Unnest(_))))? {
            let error = SqlError::unsupported(format!("a set of values as measure \"{name}\""));
            return Err(located(error, cube, &measure.described.place));
        }
        let expr = self.over_leaves(at, value.expr, filter, name, &measure.described.place)?;
        self.check_size(at, &expr, name)?;
        let value = TypedExpr { expr, nullable: true, ..value };
        self.all[at].values.insert(name, value.clone());
        Ok(value)
    }

    /// An aggregate of the cube's rows, and which of them count, if others say so: a row counts once, however many of these do.
    fn aggregate(&mut self, at: At, measure: &'m Measure) -> Result<(TypedExpr, Option<Expr>), SqlError> {
        let mut conditions = Vec::with_capacity(measure.filters.len());
        for filter in &measure.filters {
            conditions.push(self.condition(at, filter)?);
        }
        let is_own = |condition: &Expr| self.used_by(condition).iter().all(|used| *used == at);
        let (own, of_others): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(is_own);
        let (condition, filter) = (own.into_iter().reduce(Expr::and), of_others.into_iter().reduce(Expr::and));
        let value = match &measure.sql {
            Some(sql) => Some(self.value(at, sql, Clause::Aggregate)?),
            // Where a join has found no row of the cube, its key is NULL.
            None => match self.all[at].cube.primary_key().next() {
                Some(key) => Some(self.dimension(at, key)?),
                None if at == ROOT && condition.is_none() => None,
                None if at == ROOT => Some(TypedExpr::constant(&Datum::Int4(1), PgType::Int4)?),
                None => return Err(self.keyless(at, &measure.described.name)),
            },
        };
        let value = value.map(|value| match condition {
            Some(condition) => {
                let value = self.binder.coercer.settle(value)?;
                Ok::<_, SqlError>(TypedExpr { expr: when(condition, value.expr).end()?, nullable: true, ..value })
            }
            None => Ok(value),
        });
        let call = match measure.kind {
            MeasureKind::Sum => "sum(value)",
            MeasureKind::Avg => "avg(value)",
            MeasureKind::Min => "min(value)",
            MeasureKind::Max => "max(value)",
            MeasureKind::CountDistinct | MeasureKind::CountDistinctApprox => "count(DISTINCT value)",
            _ if value.is_none() => "count(*)",
            _ => "count(value)",
        };
        let value = value.transpose()?.map(|value| ("value", value));
        Ok((self.template(call, value.as_slice())?, filter))
    }

    /// Error 42803: rows of a cube cannot be told apart.
    pub(super) fn keyless(&self, at: At, asked: &str) -> SqlError {
        let cube = self.all[at].cube.name();
        super::refused(
            format!("\"{asked}\" cannot be counted over joined rows, because cube \"{cube}\" has no primary key"),
            format!("Declare a dimension of cube \"{cube}\" with `primary_key: true`."),
        )
    }

    /// The expression with leaves in the place of its aggregates. Error 42803: there is a column of a row in it.
    pub(super) fn over_leaves(
        &mut self,
        at: At,
        expr: Expr,
        filter: Option<Expr>,
        name: &str,
        place: &Place,
    ) -> Result<Expr, SqlError> {
        let replaced = expr.transform_down(|expr| {
            Ok(match expr {
                Expr::AggregateFunction(_) => {
                    let leaf = self.leaf(at, expr, filter.clone());
                    Transformed::new(leaf, true, TreeNodeRecursion::Jump)
                }
                other => Transformed::no(other),
            })
        })?;
        let is_leaf = |column: &&Column| column.relation.is_some();
        if let Some(column) = replaced.data.column_refs().into_iter().find(is_leaf) {
            let error = super::refused(
                format!("\"{name}\" has \"{}\" in it, which is of a row", column.name),
                "Write an aggregate around it, or make it a measure of its own.",
            );
            return Err(located(error, self.all[at].cube, place));
        }
        Ok(replaced.data)
    }

    /// The column that stands for an aggregate of an instance's rows.
    pub(super) fn leaf(&mut self, owner: At, call: Expr, filter: Option<Expr>) -> Expr {
        let known = self.leaves.iter().find(|leaf| leaf.owner == owner && leaf.call == call && leaf.filter == filter);
        let name = match known {
            Some(leaf) => leaf.name.clone(),
            None => {
                let name = self.binder.internal_name("leaf");
                self.leaves.push(Leaf { owner, call, filter, name: name.clone() });
                name
            }
        };
        Expr::Column(Column::from_name(name))
    }

    /// The leaf that a column stands for.
    pub(super) fn leaf_of(&self, column: &Column) -> Option<&Leaf> {
        let is_leaf = column.relation.is_none();
        self.leaves.iter().find(|leaf| is_leaf && leaf.name == column.name)
    }

    /// Binds a piece of the model's SQL in an instance.
    pub(super) fn value(
        &mut self,
        at: At,
        sql: &'m Fragment<ast::Expr>,
        clause: Clause,
    ) -> Result<TypedExpr, SqlError> {
        let scope = self.scope(at, &sql.references, &sql.place, clause)?;
        let frame = Frame { scope: &scope, outer: None };
        let bound = self.binder.expr(&sql.tree, &Cx::new(&frame, clause));
        bound.map_err(|error| located(error, self.all[at].cube, &sql.place))
    }

    fn condition(&mut self, at: At, sql: &'m Fragment<ast::Expr>) -> Result<Expr, SqlError> {
        let bound = self.value(at, sql, Clause::Where)?;
        let checked = self.binder.boolean(bound, "WHERE", &sql.tree);
        checked.map(|bound| bound.expr).map_err(|error| located(error, self.all[at].cube, &sql.place))
    }

    /// What names mean in an instance: its columns, and the references.
    fn scope(&mut self, at: At, references: &'m [Path], place: &'m Place, clause: Clause) -> Result<Scope, SqlError> {
        let name = self.all[at].cube.name();
        let mut columns: Vec<ScopeColumn> = self.all[at].columns.clone();
        columns.iter_mut().for_each(|column| column.table = Some(name.to_owned()));
        for (index, path) in references.iter().enumerate() {
            let mut report = Report::default();
            let found = self.model.resolve(self.all[at].cube, place, path, &mut report);
            let Reference { through, target } =
                found.ok_or_else(|| SqlError::internal(format!("{path} was checked")))?;
            let mut there = at;
            for cube in through {
                there = self.step(there, cube)?;
            }
            let value = match target {
                Target::Cube(_) => {
                    let marked = self.all[there].columns.iter().map(|column| ScopeColumn {
                        table: Some(marker(index)),
                        unqualified: false,
                        optional: there != ROOT,
                        source: None,
                        ..column.clone()
                    });
                    let marked: Vec<ScopeColumn> = marked.collect();
                    columns.extend(marked);
                    continue;
                }
                Target::Dimension(dimension) => self.dimension(there, dimension)?,
                Target::TimeBucket(dimension, bucket) => self.bucket(there, dimension, bucket)?,
                Target::Segment(segment) => self.segment(there, segment)?,
                Target::Measure(measure) if clause == Clause::Select => self.measure(there, measure)?,
                Target::Measure(measure) => {
                    let error = SqlError::unsupported(format!("measure \"{}\" of a row", measure.described.name));
                    return Err(located(error, self.all[at].cube, place));
                }
            };
            columns.push(ScopeColumn::new(None, marker(index), value));
        }
        Ok(Scope { columns })
    }

    /// A time dimension cut off to a bucket.
    pub(super) fn bucket(
        &mut self,
        at: At,
        dimension: &'m Dimension,
        bucket: Bucket<'m>,
    ) -> Result<TypedExpr, SqlError> {
        let value = self.dimension(at, dimension)?;
        let place = match bucket {
            Bucket::Own(own) => &own.place,
            Bucket::Unit(_) => &dimension.described.place,
        };
        self.cut_off(value, bucket).map_err(|error| located(error, self.all[at].cube, place))
    }

    /// An expression over values under the names by which it calls them.
    pub(super) fn template(&mut self, sql: &'static str, values: &[(&str, TypedExpr)]) -> Result<TypedExpr, SqlError> {
        let expr = sql_syntax::parser::parse_expr(sql)?;
        let column = |(name, value): &(&str, TypedExpr)| ScopeColumn::new(None, (*name).to_owned(), value.clone());
        let scope = Scope { columns: values.iter().map(column).collect() };
        self.binder.expr(&expr, &Cx::new(&Frame { scope: &scope, outer: None }, Clause::Select))
    }

    /// The key by which rows of an instance are told apart. Error 42803.
    pub(super) fn key(&mut self, at: At, asked: &str) -> Result<Vec<TypedExpr>, SqlError> {
        let parts: Vec<&'m Dimension> = self.all[at].cube.primary_key().collect();
        if parts.is_empty() {
            return Err(self.keyless(at, asked));
        }
        parts.into_iter().map(|part| self.dimension(at, part)).collect()
    }

    /// Whether a row of an instance is there, where joins may have found none. Error 42803.
    pub(super) fn is_there(&mut self, at: At) -> Result<Expr, SqlError> {
        let asked = self.all[at].cube.name().to_owned();
        let parts = self.key(at, &asked)?.into_iter().map(|part| part.expr.is_not_null());
        parts.reduce(Expr::or).ok_or_else(|| SqlError::internal("a key has parts"))
    }

    /// The key of an instance that is a cube with rows of its own; nothing of a sub-query, which has one row for each of its cube's.
    pub(super) fn key_of_rows(&mut self, at: At, asked: &str) -> Result<Vec<TypedExpr>, SqlError> {
        if self.has_rows(at) { self.key(at, asked) } else { Ok(Vec::new()) }
    }

    /// The instances whose columns are in an expression.
    pub(super) fn used_by(&self, expr: &Expr) -> BTreeSet<At> {
        let is_of = |at: &At, columns: &[&Column]| {
            let qualifier = &self.all[*at].qualifier;
            columns.iter().any(|column| column.relation.as_ref().is_some_and(|of| of.table() == qualifier))
        };
        let columns = super::ask::columns_in(expr);
        let columns: Vec<&Column> = columns.iter().collect();
        (0..self.all.len()).filter(|at| is_of(at, &columns)).collect()
    }

    /// The instances, and all on the way to them from `from`. Error 0A000: one of them is not behind it.
    pub(super) fn tree(&self, from: At, used: impl IntoIterator<Item = At>) -> Result<BTreeSet<At>, SqlError> {
        let mut tree = BTreeSet::from([from]);
        for at in used {
            let mut next = at;
            while tree.insert(next) {
                let Some((before, _)) = self.all[next].joined else {
                    return Err(SqlError::unsupported(format!(
                        "a measure of cube \"{}\" over rows of cube \"{}\", which is not joined from it,",
                        self.all[from].cube.name(),
                        self.all[at].cube.name()
                    )));
                };
                next = before;
            }
        }
        Ok(tree)
    }

    /// Whether the joins of a tree can make several rows of one of an instance's.
    pub(super) fn is_multiplied(&self, of: At, tree: &BTreeSet<At>) -> bool {
        let own = self.tree(ROOT, [of]).unwrap_or_default();
        tree.iter().any(|at| match self.all[*at].joined {
            // Seen from behind the join, its rows are those that are joined.
            Some((_, relationship)) if own.contains(at) => relationship == Relationship::ManyToOne,
            Some((_, relationship)) => relationship == Relationship::OneToMany,
            None => false,
        })
    }

    /// The rows of a tree of instances.
    pub(super) fn joined(&self, tree: &BTreeSet<At>) -> Result<LogicalPlan, SqlError> {
        let mut plan: Option<LogicalPlan> = None;
        // An instance is joined after the one that it is joined from: that has the smaller number.
        for at in tree {
            let instance = &self.all[*at];
            plan = Some(match (plan, &instance.condition) {
                (Some(plan), Some(condition)) => LogicalPlanBuilder::from(plan)
                    .join_on(instance.plan.clone(), JoinType::Left, [condition.clone()])?
                    .build()?,
                _ => instance.plan.clone(),
            });
        }
        plan.ok_or_else(|| SqlError::internal("a tree has a root"))
    }

    /// Error 0A000: a measure was bound that has no value for a group alone.
    pub(super) fn check_no_window(&self) -> Result<(), SqlError> {
        self.rolling.map_or(Ok(()), |measure| {
            Err(SqlError::unsupported(format!(
                "the rolling window of measure \"{}\" in a query",
                measure.described.name
            )))
        })
    }

    /// How many take part.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// Whether it is a cube, and no sub-query beside one.
    pub(super) fn has_rows(&self, at: At) -> bool {
        !self.all[at].columns.is_empty()
    }

    /// The cube of an instance.
    pub(super) fn cube(&self, at: At) -> &'m Cube {
        self.all[at].cube
    }
}

/// An error in the SQL of a model, with its place there.
fn located(mut error: SqlError, cube: &Cube, place: &Place) -> SqlError {
    if error.sqlstate != SqlState::INTERNAL_ERROR && !error.message.contains(" of cube \"") {
        error.message = format!("{}, at {place} of cube \"{}\"", error.message, cube.name());
    }
    error.location = None;
    error.position = None;
    error
}

/// `left = right`, of columns that have the same values.
pub(super) fn equal(left: Expr, right: Expr) -> Expr {
    crate::bind::from::operator(left, Operator::Eq, right)
}
