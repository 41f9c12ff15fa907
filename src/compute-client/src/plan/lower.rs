//! From DataFusion's optimised plan to a maintained one, or a refusal that names what cannot be maintained.
//!
//! A maintained collection has no session: functions that read the clock, the session or chance are refused, but for
//! `mz_now()` where it bounds the times at which a row is there. Sorting means nothing where rows have no order, so it only
//! matters under LIMIT.

mod group;
mod recursive;
mod temporal;
mod window;

use crate::plan::fold;
use crate::plan::lir::{Join, JoinKind, Lir, LocalId, Node, SortKey, Stage};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, DFSchemaRef, JoinType, NullEquality};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Distinct, Expr, FetchType, Filter, Join as LogicalJoin, LogicalPlan, SkipType, SortExpr, Subquery, TableScan,
    Unnest, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use engine::error::SqlError;
use engine::{CollectionTable, Engine, SessionInfo, recursion};
use repr::row::RowCodec;
use repr::sqlstate::SqlState;
use repr::{GlobalId, Updates};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

/// Lowers a plan. Error 0A000 names the part of it that cannot be maintained.
pub fn lower(plan: &LogicalPlan, engine: &Engine) -> Result<Lir, SqlError> {
    Lowering {
        engine,
        session: SessionInfo::default(),
        subqueries: Cell::new(0),
        locals: RefCell::default(),
        local_count: Cell::new(0),
    }
    .plan(plan)
    .and_then(|lir| without_records(&lir).map(|()| lir))
}

/// No row that an operator gives has a record in it: rows have no encoding of records. Error 0A000.
fn without_records(lir: &Lir) -> Result<(), SqlError> {
    if lir.schema.fields().iter().any(|field| has_record(field.data_type())) {
        return Err(refused("a row as a value that a maintained view keeps"));
    }
    lir.inputs().into_iter().try_for_each(without_records)
}

fn has_record(ty: &DataType) -> bool {
    match ty {
        DataType::Struct(_) => true,
        DataType::List(item) => has_record(item.data_type()),
        _ => false,
    }
}

struct Lowering<'a> {
    engine: &'a Engine,
    session: SessionInfo,
    /// How many scalar subqueries have become columns.
    subqueries: Cell<usize>,
    /// The queries of recursions met last under each name; a query that is read twice is there twice, under one name.
    locals: RefCell<HashMap<String, LocalId>>,
    local_count: Cell<usize>,
}

/// An input whose expressions are compiled over this schema.
struct Input {
    lir: Lir,
    schema: DFSchemaRef,
}

impl Lowering<'_> {
    fn plan(&self, plan: &LogicalPlan) -> Result<Lir, SqlError> {
        match plan {
            LogicalPlan::TableScan(scan) => self.scan(scan, plan.schema()),
            LogicalPlan::SubqueryAlias(alias) => self.plan(&alias.input),
            LogicalPlan::Projection(projection) => {
                let (input, exprs) = self.input(&projection.input, projection.expr.clone())?;
                self.project(input, &exprs, plan.schema())
            }
            LogicalPlan::Filter(filter) => {
                if let Some(numbered) = self.numbered(filter)? {
                    let schema = Arc::clone(filter.input.schema());
                    return self.filtered(numbered, filter.predicate.clone(), &schema);
                }
                let Some(predicate) = untested(filter) else { return self.plan(&filter.input) };
                let (input, exprs) = self.input(&filter.input, vec![predicate])?;
                let width = filter.input.schema().fields().len();
                let predicate = exprs.into_iter().next().unwrap_or_default();
                let filtered = self.filtered(input.lir, predicate, &input.schema)?;
                if input.schema.fields().len() == width {
                    return Ok(filtered);
                }
                // Without the columns of its subqueries.
                Ok(mfp(filtered, vec![self.columns(&input.schema, 0..width)?]))
            }
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            LogicalPlan::Distinct(Distinct::All(input)) => self.distinct(self.plan(input)?),
            LogicalPlan::Union(union) => {
                let inputs = union.inputs.iter().map(|input| self.plan(input)).collect::<Result<Vec<_>, _>>()?;
                let schema = nullable(union.schema.inner());
                let types = |lir: &Lir| lir.types();
                let expected: Vec<DataType> = schema.fields().iter().map(|field| field.data_type().clone()).collect();
                if inputs.iter().any(|input| types(input) != expected) {
                    return Err(SqlError::internal("the branches of a UNION have different types"));
                }
                Ok(Lir { node: Node::Union(inputs), schema })
            }
            LogicalPlan::Sort(sort) => match sort.fetch {
                None => self.plan(&sort.input),
                Some(fetch) => self.top_k(&sort.input, &sort.expr, 0, Some(fetch)),
            },
            LogicalPlan::Limit(limit) => {
                let (Ok(SkipType::Literal(skip)), Ok(FetchType::Literal(fetch))) =
                    (limit.get_skip_type(), limit.get_fetch_type())
                else {
                    return Err(refused("a LIMIT or OFFSET that is not a constant in a maintained view"));
                };
                self.limit(&limit.input, skip, fetch)
            }
            LogicalPlan::EmptyRelation(empty) => {
                let mut rows = Updates::new();
                if empty.produce_one_row {
                    rows.push(&[], 1);
                }
                Ok(Lir { node: Node::Constant(Arc::new(rows)), schema: nullable(empty.schema.inner()) })
            }
            LogicalPlan::Values(values) => {
                let schema = nullable(values.schema.inner());
                let mut rows = Updates::new();
                for row in &values.values {
                    self.constant_row(row, &schema, &mut rows)?;
                }
                Ok(Lir { node: Node::Constant(Arc::new(rows)), schema })
            }
            LogicalPlan::Window(window) => self.window(window, None),
            LogicalPlan::Unnest(unnest) => self.unnest(unnest),
            LogicalPlan::RecursiveQuery(recursive) => self.recursive_query(recursive),
            other => match recursion::LetRec::of(other) {
                Some(recursion) => self.let_rec(recursion),
                None => Err(refused(&format!("{} in a maintained view", other.display()))),
            },
        }
    }

    /// A table, or a query of a recursion around this.
    fn scan(&self, scan: &TableScan, schema: &DFSchemaRef) -> Result<Lir, SqlError> {
        let columns = scan.source.schema();
        let node = match recursion::reads(&scan.source) {
            Some(name) => Node::GetLocal(self.local(name)?),
            None => {
                let table = CollectionTable::from_source(&scan.source)
                    .ok_or_else(|| refused("a table function in a maintained view"))?;
                if !matches!(table.id, GlobalId::User(_)) {
                    return Err(refused("a system relation in a maintained view"));
                }
                Node::Get(table.id)
            }
        };
        let get = Lir { node, schema: nullable(&columns) };
        let stored =
            fold::stored_schema(&columns).ok_or_else(|| SqlError::internal("a table's schema is not a schema"))?;
        let mut stages = Vec::new();
        for filter in &scan.filters {
            let filter = fold::unqualified(filter.clone())
                .ok_or_else(|| SqlError::internal("a filter of a scan is not over its table"))?;
            stages.push(Stage::Filter(self.compile(&filter, &stored)?));
        }
        if let Some(projection) = &scan.projection {
            let columns = projection.iter().map(|at| Expr::Column(Column::new_unqualified(columns.field(*at).name())));
            let columns = columns.map(|column| self.compile(&column, &stored)).collect::<Result<_, _>>()?;
            stages.push(Stage::Project(columns, nullable(schema.inner())));
        }
        Ok(mfp(get, stages))
    }

    /// Lowers a node's input together with the scalar subqueries of the node's expressions, each of which becomes a
    /// column behind the input's own.
    fn input(&self, plan: &LogicalPlan, exprs: Vec<Expr>) -> Result<(Input, Vec<Expr>), SqlError> {
        let mut lir = self.plan(plan)?;
        let mut schema = Arc::clone(plan.schema());
        let mut rewritten = Vec::with_capacity(exprs.len());
        for expr in exprs {
            let mut subqueries: Vec<(Subquery, Column)> = Vec::new();
            let expr = expr.transform_down(|node| match node {
                Expr::ScalarSubquery(subquery) => {
                    self.subqueries.set(self.subqueries.get() + 1);
                    let column = Column::new_unqualified(format!("scalar subquery {}", self.subqueries.get()));
                    subqueries.push((subquery, column.clone()));
                    Ok(Transformed::yes(Expr::Column(column)))
                }
                other => Ok(Transformed::no(other)),
            });
            rewritten.push(expr?.data);
            for (subquery, column) in subqueries {
                if !subquery.outer_ref_columns.is_empty() {
                    return Err(refused("this correlated subquery in a maintained view"));
                }
                let value = self.plan(&subquery.subquery)?;
                let field = value.schema.field(0).clone().with_name(&column.name);
                let single =
                    Lir { schema: Arc::new(Schema::new(vec![field.clone()])), node: Node::Single(Box::new(value)) };
                let pair = concatenated(&lir.schema, &single.schema);
                let on = DFSchema::try_from(Schema::new(vec![field]))?;
                schema = Arc::new(schema.join(&on)?);
                lir = Lir {
                    schema: Arc::clone(&pair),
                    node: Node::Join(Box::new(Join {
                        kind: JoinKind::Inner,
                        left: lir,
                        right: single,
                        on: Vec::new(),
                        nulls_match: false,
                        filter: None,
                        pair,
                    })),
                };
            }
        }
        Ok((Input { lir, schema }, rewritten))
    }

    fn project(&self, input: Input, exprs: &[Expr], schema: &DFSchemaRef) -> Result<Lir, SqlError> {
        let exprs = exprs
            .iter()
            .map(|expr| self.compile(&expr.clone().unalias_nested().data, &input.schema))
            .collect::<Result<_, _>>()?;
        Ok(mfp(input.lir, vec![Stage::Project(exprs, nullable(schema.inner()))]))
    }

    /// One row per item of lists.
    fn unnest(&self, unnest: &Unnest) -> Result<Lir, SqlError> {
        let is_flat = unnest.struct_type_columns.is_empty()
            && unnest.list_type_columns.iter().all(|(_, list)| list.depth == 1)
            && unnest.dependency_indices.iter().copied().eq(0..unnest.input.schema().fields().len());
        if !is_flat || unnest.options.preserve_nulls() {
            return Err(refused("this kind of unnest in a maintained view"));
        }
        let lists = unnest.list_type_columns.iter().map(|(column, _)| *column).collect();
        Ok(mfp(self.plan(&unnest.input)?, vec![Stage::Unnest(lists, nullable(unnest.schema.inner()))]))
    }

    fn every_column(&self, schema: &DFSchemaRef) -> Result<Vec<Arc<dyn PhysicalExpr>>, SqlError> {
        let columns = schema.columns().into_iter().map(Expr::Column);
        columns.map(|column| self.compile(&column, schema)).collect()
    }

    /// Some columns of a row and no others.
    fn columns(&self, schema: &DFSchemaRef, columns: std::ops::Range<usize>) -> Result<Stage, SqlError> {
        let fields: Vec<_> = columns.clone().map(|at| Arc::clone(schema.field(at))).collect();
        let exprs = columns
            .map(|at| self.compile(&Expr::Column(Column::from(schema.qualified_field(at))), schema))
            .collect::<Result<_, _>>()?;
        Ok(Stage::Project(exprs, nullable(&Arc::new(Schema::new(fields)))))
    }

    fn join(&self, join: &LogicalJoin) -> Result<Lir, SqlError> {
        let flipped =
            matches!(join.join_type, JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark);
        let kind = match join.join_type {
            JoinType::Inner => JoinKind::Inner,
            JoinType::Left | JoinType::Right => JoinKind::Left,
            JoinType::Full => JoinKind::Full,
            JoinType::LeftSemi | JoinType::RightSemi => JoinKind::Semi,
            JoinType::LeftAnti if join.null_aware => JoinKind::NotIn,
            JoinType::LeftAnti | JoinType::RightAnti => JoinKind::Anti,
            JoinType::LeftMark | JoinType::RightMark => JoinKind::Mark,
        };
        // Whether a NULL is among the right keys, and whether there are any, is asked of all right rows together.
        if kind == JoinKind::NotIn && (join.filter.is_some() || join.on.len() > 1) {
            return Err(refused("this correlated NOT IN in a maintained view"));
        }
        let (left, right) = if flipped { (&join.right, &join.left) } else { (&join.left, &join.right) };
        let (left_keys, right_keys): (Vec<Expr>, Vec<Expr>) =
            join.on.iter().cloned().map(|(l, r)| if flipped { (r, l) } else { (l, r) }).unzip();
        let (left_width, right_width) = (left.schema().fields().len(), right.schema().fields().len());
        let (left, mut left_exprs) = self.input(left, left_keys.into_iter().chain(join.filter.clone()).collect())?;
        let (right, right_keys) = self.input(right, right_keys)?;
        let filter = if join.filter.is_some() { left_exprs.pop() } else { None };
        let keys = left_exprs.iter().zip(&right_keys);
        let on = keys
            .map(|(l, r)| Ok((self.compile(l, &left.schema)?, self.compile(r, &right.schema)?)))
            .collect::<Result<Vec<_>, SqlError>>()?;
        let pair = Arc::new(left.schema.join(&right.schema)?);
        // Of the pairs of an inner join the optimizer makes a condition of the join.
        let (temporal, filter) = match filter {
            Some(filter) if kind == JoinKind::Inner => {
                let (temporal, rest) = engine::temporal::split(filter);
                (temporal, conjunction(rest))
            }
            filter => (Vec::new(), filter),
        };
        let filter = filter.map(|filter| self.compile(&filter, &pair)).transpose()?;
        let pair_schema = pair;
        let pair = nullable(pair_schema.inner());
        let widened = left.schema.fields().len();
        let (left, right) = (left.lir, right.lir);
        // Without the columns of its subqueries; and if the right columns came first, they go behind.
        let (lefts, rights) = (0..left_width, widened..widened + right_width);
        let (schema, shown): (_, Vec<usize>) = match kind {
            JoinKind::Inner | JoinKind::Left | JoinKind::Full if join.join_type == JoinType::Right => {
                (Arc::clone(&pair), rights.chain(lefts).collect())
            }
            JoinKind::Inner | JoinKind::Left | JoinKind::Full => (Arc::clone(&pair), lefts.chain(rights).collect()),
            JoinKind::Semi | JoinKind::Anti | JoinKind::NotIn => (Arc::clone(&left.schema), lefts.collect()),
            JoinKind::Mark => {
                let mark = Schema::new(vec![Field::new("mark", DataType::Boolean, true)]);
                (concatenated(&left.schema, &Arc::new(mark)), lefts.chain([widened]).collect())
            }
        };
        let nulls_match = join.null_equality == NullEquality::NullEqualsNull;
        let all: Vec<usize> = (0..schema.fields().len()).collect();
        let joined =
            Lir { schema, node: Node::Join(Box::new(Join { kind, left, right, on, nulls_match, filter, pair })) };
        let joined = self.temporal(joined, temporal, &pair_schema)?;
        if shown == all {
            return Ok(joined);
        }
        let stored = fold::stored_schema(&positional(&joined.schema))
            .ok_or_else(|| SqlError::internal("a schema is not a schema"))?;
        let exprs = shown
            .into_iter()
            .map(|at| self.compile(&Expr::Column(Column::from(stored.qualified_field(at))), &stored))
            .collect::<Result<_, _>>()?;
        Ok(mfp(joined, vec![Stage::Project(exprs, nullable(join.schema.inner()))]))
    }

    /// LIMIT takes its order from the Sort below, if nothing but projections is between.
    fn limit(&self, plan: &LogicalPlan, skip: usize, fetch: Option<usize>) -> Result<Lir, SqlError> {
        match plan {
            LogicalPlan::Sort(sort) => self.top_k(&sort.input, &sort.expr, skip, fetch),
            LogicalPlan::SubqueryAlias(alias) => self.limit(&alias.input, skip, fetch),
            LogicalPlan::Projection(projection) if !projection.expr.iter().any(has_subquery) => {
                let lir = self.limit(&projection.input, skip, fetch)?;
                let input = Input { lir, schema: Arc::clone(projection.input.schema()) };
                self.project(input, &projection.expr, plan.schema())
            }
            other => self.top_k(other, &[], skip, fetch),
        }
    }

    fn top_k(
        &self,
        plan: &LogicalPlan,
        order: &[SortExpr],
        skip: usize,
        fetch: Option<usize>,
    ) -> Result<Lir, SqlError> {
        let width = plan.schema().fields().len();
        let (input, exprs) = self.input(plan, order.iter().map(|key| key.expr.clone()).collect())?;
        let keys = exprs
            .iter()
            .zip(order)
            .map(|(expr, key)| {
                let expr = self.compile(expr, &input.schema)?;
                Ok(SortKey { expr, descending: !key.asc, nulls_first: key.nulls_first })
            })
            .collect::<Result<Vec<_>, SqlError>>()?;
        let schema = Arc::clone(&input.lir.schema);
        let stages = match schema.fields().len() > width {
            true => vec![self.columns(&input.schema, 0..width)?],
            false => Vec::new(),
        };
        let top =
            Lir { schema, node: Node::TopK { input: Box::new(input.lir), key: Vec::new(), order: keys, skip, fetch } };
        Ok(mfp(top, stages))
    }

    /// Appends a row of constants.
    fn constant_row(&self, row: &[Expr], schema: &SchemaRef, rows: &mut Updates) -> Result<(), SqlError> {
        let empty = Arc::new(DFSchema::empty());
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let nothing = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)
            .map_err(|error| SqlError::internal(error.to_string()))?;
        let columns = row
            .iter()
            .map(|expr| Ok(self.compile(expr, &empty)?.evaluate(&nothing)?.into_array(1)?))
            .collect::<Result<Vec<ArrayRef>, SqlError>>()?;
        let types: Vec<DataType> = schema.fields().iter().map(|field| field.data_type().clone()).collect();
        let internal = |error: &dyn std::fmt::Display| SqlError::internal(error.to_string());
        let codec = RowCodec::new(&types).map_err(|error| internal(&error))?;
        let encoded = codec.encode(&columns).map_err(|error| internal(&error))?;
        rows.push(encoded.row(0).as_ref(), 1);
        Ok(())
    }

    fn compile(&self, expr: &Expr, schema: &DFSchemaRef) -> Result<Arc<dyn PhysicalExpr>, SqlError> {
        self.check(expr)?;
        self.engine.create_physical_expr(expr, schema, &self.session)
    }

    /// Refuses what gives another value for the same row at another time, and subqueries that did not become joins.
    fn check(&self, expr: &Expr) -> Result<(), SqlError> {
        let mut found = None;
        expr.apply(|node| {
            match node {
                Expr::ScalarFunction(call) if engine::temporal::is_name_of_now(call.name()) => {
                    found = Some(temporal::now_refused());
                }
                Expr::ScalarFunction(call) if call.func.signature().volatility != Volatility::Immutable => {
                    found = Some(
                        refused(&format!("{}() in a maintained view", call.name())).with_hint(varies(call.name())),
                    );
                }
                Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) | Expr::OuterReferenceColumn(..) => {
                    found = Some(refused("this correlated subquery in a maintained view"));
                }
                Expr::Placeholder(_) => {
                    found = Some(SqlError::new(SqlState::UNDEFINED_PARAMETER, "a maintained view has no parameters"));
                }
                _ => {}
            }
            Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
        })?;
        found.map_or(Ok(()), Err)
    }
}

/// What to do instead of a call that does not give the same for the same arguments.
fn varies(function: &str) -> &'static str {
    match function {
        "now"
        | "current_timestamp"
        | "transaction_timestamp"
        | "statement_timestamp"
        | "clock_timestamp"
        | "localtimestamp"
        | "localtime"
        | "current_date" => "Compare with mz_now() in WHERE or HAVING: rows then come and go as time passes.",
        "random" | "gen_random_uuid" => {
            "Store the value in a table: a maintained view must be the same whenever it is computed."
        }
        _ => "A maintained view must give the same rows whenever it is computed, and in every session.",
    }
}

/// What is left of a filter's condition when its input has tested what it was told of as a hint.
fn untested(filter: &Filter) -> Option<Expr> {
    let known: Vec<Expr> = match filter.input.as_ref() {
        LogicalPlan::TableScan(scan) => scan.filters.iter().cloned().filter_map(fold::unqualified).collect(),
        _ => Vec::new(),
    };
    let conjuncts = split_conjunction_owned(filter.predicate.clone()).into_iter();
    conjunction(
        conjuncts
            .filter(|conjunct| !fold::unqualified(conjunct.clone()).is_some_and(|conjunct| known.contains(&conjunct))),
    )
}

fn has_subquery(expr: &Expr) -> bool {
    expr.exists(|node| Ok(matches!(node, Expr::ScalarSubquery(_)))).unwrap_or(true)
}

/// Puts stages behind an operator, in the same step if it is one of that kind already.
pub(super) fn mfp(input: Lir, stages: Vec<Stage>) -> Lir {
    let schema = Arc::clone(stages.iter().rev().find_map(Stage::schema).unwrap_or(&input.schema));
    match input.node {
        _ if stages.is_empty() => input,
        Node::Mfp { input, stages: mut all } => {
            all.extend(stages);
            Lir { schema, node: Node::Mfp { input, stages: all } }
        }
        node => {
            let input = Box::new(Lir { node, schema: input.schema });
            Lir { schema, node: Node::Mfp { input, stages } }
        }
    }
}

/// The same columns, every one of which may be NULL.
fn nullable(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The same columns under names that are surely different.
fn positional(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().enumerate();
    Arc::new(Schema::new(
        fields.map(|(at, field)| field.as_ref().clone().with_name(at.to_string())).collect::<Vec<_>>(),
    ))
}

pub(super) fn concatenated(left: &SchemaRef, right: &SchemaRef) -> SchemaRef {
    let fields = left.fields().iter().chain(right.fields().iter());
    nullable(&Arc::new(Schema::new(fields.map(|field| field.as_ref().clone()).collect::<Vec<_>>())))
}

fn refused(what: &str) -> SqlError {
    SqlError::unsupported(what)
}
