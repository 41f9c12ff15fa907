//! What takes the place of an Aggregate node over a cube, or of a scan of one.

use super::ask::{Ask, columns_in};
use super::groups::{Grouped, Part, Rows, conditioned};
use super::instances::{At, Instances, Leaf, ROOT};
use super::measure::measured;
use super::policies::Seen;
use super::{CubeScan, refused};
use crate::bind::Binder;
use crate::bind::aggregate::count_star;
use crate::bind::logic::balanced;
use arrow::datatypes::Field;
use chrono_tz::Tz;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef, ScalarValue, TableReference};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, Projection};
use engine::error::SqlError;
use engine::rewrite::collect;
use repr::RelationDesc;
use repr::sqlstate::SqlState;
use semantic::model::Model;
use semantic::model::measure::MeasureKind;
use semantic::model::offer::{Member, Offer, Offered};
use semantic::query::{self, Condition, Name};
use sql_functions::TypedExpr;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The measure that `count(*)` stands for.
pub(super) const COUNT: &str = "count";

/// A cube that is being asked.
pub(super) struct Asked<'b, 't, 'm> {
    pub(super) instances: Instances<'b, 't, 'm>,
    offer: Offer<'m>,
    /// The columns of the scan in whose place the answer stands, if there is one.
    desc: Option<Arc<RelationDesc>>,
    pub(super) rows: Rows,
    /// Members that the query names: of which instance, and as the cube or view calls them.
    seen: Seen,
    names: BTreeSet<String>,
}

/// The plan that answers a question.
pub(super) fn answer(binder: &mut Binder<'_>, ask: &Ask) -> Result<LogicalPlan, SqlError> {
    let mut asked = Asked::new(binder, &ask.scan, &ask.qualifier)?;
    for expr in ask.keys.iter().chain(&ask.conditions) {
        asked.use_columns(expr)?;
    }
    let calls = ask.calls.iter().map(|call| asked.call(call)).collect::<Result<Vec<_>, _>>()?;
    let mut conditions = ask.conditions.clone();
    conditions.extend(asked.policies()?);
    let part = asked.grouped(&ask.keys, &conditions, &calls)?;
    let exprs = part.keys.iter().cloned().chain(calls.iter().map(|call| part.over(call)));
    under_names(part.plan.clone(), exprs.collect(), &ask.schema)
}

/// The rows of a scan, of which only the columns `used` are looked at: measures are those of the row, as if grouped by the primary
/// key of each cube that takes part.
pub(super) fn rows(
    binder: &mut Binder<'_>,
    scan: &CubeScan,
    qualifier: &str,
    used: &BTreeSet<String>,
) -> Result<LogicalPlan, SqlError> {
    let mut asked = Asked::new(binder, scan, qualifier)?;
    let dimensions = asked.dimensions(used)?;
    let measures: Vec<&String> = used.iter().filter(|name| asked.is_measure(name)).collect();
    if measures.is_empty() {
        let conditions = asked.policies()?;
        if !asked.are_multiplied(&dimensions, &conditions)? {
            return Ok(asked.rows_with_key(&dimensions, &conditions, None)?.0);
        }
    }
    let first = measures.first().or(used.iter().next().as_ref()).map_or("", |name| name.as_str()).to_owned();
    let mut values = Vec::with_capacity(measures.len());
    for name in &measures {
        values.push(asked.measure(name)?);
    }
    let conditions = asked.policies()?;
    let mut keys = dimensions.clone();
    keys.extend(asked.keys_of_rows(&dimensions, &first)?);
    let part = asked.grouped(&keys, &conditions, &values)?;
    let mut known: Vec<(Expr, Expr)> = dimensions.iter().cloned().zip(part.keys.iter().cloned()).collect();
    let measures = measures.iter().map(|name| Expr::Column(asked.column(name)));
    known.extend(measures.zip(&values).map(|(name, value)| (name, part.over(value))));
    let (exprs, schema) = asked.scan_columns(&known)?;
    under_names(part.plan, exprs, &schema)
}

impl<'b, 't, 'm> Asked<'b, 't, 'm> {
    pub(super) fn new(binder: &'b mut Binder<'t>, scan: &'m CubeScan, qualifier: &str) -> Result<Self, SqlError> {
        let model = scan.cube.model.as_ref();
        let missing = || SqlError::internal(format!("the model has no cube \"{}\"", scan.cube.name));
        let offer = model.offer(&scan.cube.name).ok_or_else(missing)?;
        let asked = Asked::of(binder, model, offer, qualifier)?;
        Ok(Asked { desc: Some(Arc::clone(&scan.desc)), ..asked })
    }

    /// What is offered, asked for under `qualifier`.
    pub(super) fn of(
        binder: &'b mut Binder<'t>,
        model: &'m Model,
        offer: Offer<'m>,
        qualifier: &str,
    ) -> Result<Self, SqlError> {
        let instances = Instances::new(binder, model, offer.root)?;
        let rows = Rows { qualifier: qualifier.to_owned(), ..Rows::default() };
        Ok(Asked { instances, offer, desc: None, rows, seen: Seen::new(), names: BTreeSet::new() })
    }

    fn is_own(&self, column: &Column) -> bool {
        column.relation.as_ref().is_some_and(|of| of.table() == self.rows.qualifier)
    }

    /// The column of the scan for a member.
    fn column(&self, name: &str) -> Column {
        Column::new(Some(self.rows.qualifier.as_str()), name)
    }

    fn is_measure(&self, name: &str) -> bool {
        self.offer.member(name).is_some_and(|offered| matches!(offered.member, Member::Measure(_)))
    }

    /// Those of the members that are not measures, as columns of the rows.
    pub(super) fn dimensions(&mut self, used: &BTreeSet<String>) -> Result<Vec<Expr>, SqlError> {
        let is_dimension = |name: &&String| self.offer.member(name).is_some() && !self.is_measure(name);
        let columns: Vec<Column> = used.iter().filter(is_dimension).map(|name| self.column(name)).collect();
        columns.iter().try_for_each(|column| self.dimension(column))?;
        Ok(columns.into_iter().map(Expr::Column).collect())
    }

    /// The instances that expressions need, and one more.
    fn tree(&self, exprs: &[Expr], more: Option<At>) -> Result<BTreeSet<At>, SqlError> {
        let used = exprs.iter().flat_map(|expr| self.rows.used_by(&self.instances, expr));
        self.instances.tree(ROOT, used.chain(more).collect::<BTreeSet<At>>())
    }

    /// Rows in the place of the scan, and behind its columns those of the key of an instance.
    pub(super) fn rows_with_key(
        &mut self,
        dimensions: &[Expr],
        conditions: &[Expr],
        owner: Option<At>,
    ) -> Result<(LogicalPlan, Vec<Column>), SqlError> {
        let plan = self.rows_where(dimensions, conditions, owner)?;
        let known: Vec<(Expr, Expr)> = dimensions.iter().map(|expr| (expr.clone(), expr.clone())).collect();
        let (exprs, schema) = self.scan_columns(&known)?;
        let mut exprs = named(exprs, &schema);
        let mut parts = Vec::new();
        if let Some(owner) = owner {
            let asked = self.instances.cube(owner).name().to_owned();
            for part in self.instances.key(owner, &asked)? {
                let name = self.instances.binder.internal_name("part");
                let column = self.column(&name);
                exprs.push(part.expr.alias_qualified(column.relation.clone(), &column.name));
                parts.push(column);
            }
        }
        Ok((LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?), parts))
    }

    /// Whether conditions make several rows of one by the joins that they need.
    fn are_multiplied(&self, exprs: &[Expr], conditions: &[Expr]) -> Result<bool, SqlError> {
        let own = self.tree(exprs, None)?;
        let needed: Vec<Expr> = exprs.iter().chain(conditions).cloned().collect();
        let all = self.tree(&needed, None)?;
        Ok(all != own
            && own.iter().any(|at| self.instances.is_multiplied(*at, &all) && !self.instances.is_multiplied(*at, &own)))
    }

    /// Rows that meet conditions, with what expressions need and one more instance.
    pub(super) fn rows_where(
        &self,
        exprs: &[Expr],
        conditions: &[Expr],
        more: Option<At>,
    ) -> Result<LogicalPlan, SqlError> {
        let needed: Vec<Expr> = exprs.iter().chain(conditions).cloned().collect();
        let tree = self.tree(&needed, more)?;
        conditioned(self.rows.of(&self.instances, &tree)?, conditions)
    }

    /// The primary keys of all cubes that expressions need. Error 42803: one has none, and a row of it cannot be `asked` for.
    pub(super) fn keys_of_rows(&mut self, exprs: &[Expr], asked: &str) -> Result<Vec<Expr>, SqlError> {
        let mut keys = Vec::new();
        for at in self.tree(exprs, None)? {
            keys.extend(self.instances.key_of_rows(at, asked)?.into_iter().map(|part| part.expr));
        }
        Ok(keys)
    }

    /// What is offered under a name.
    pub(super) fn member(&self, name: &str) -> Option<&Offered<'m>> {
        self.offer.member(name)
    }

    /// Makes a value a column of the rows.
    pub(super) fn add(&mut self, name: String, value: TypedExpr) -> Expr {
        let column = Expr::Column(self.column(&name));
        self.rows.members.insert(name, value);
        column
    }

    /// A filter as a condition: on rows, or of measures over leaves.
    pub(super) fn filter(&mut self, filter: &query::Filter, zone: Tz) -> Result<Expr, SqlError> {
        let Asked { instances, offer, seen, names, .. } = self;
        let value = &mut |instances: &mut Instances<'b, 't, 'm>, name: &Name, condition: &Condition| {
            let missing = || SqlError::new(SqlState::UNDEFINED_COLUMN, format!("'{name}' not found for path '{name}'"));
            let offered = offer.member(&name.to_string()).ok_or_else(missing)?;
            let at = instances.along(&offered.path)?;
            seen.entry(at).or_default().insert(offered.member.described().name.clone());
            names.insert(offered.name.clone());
            match (condition, offered.member) {
                (Condition::Counted, Member::Measure(measure)) => instances.counted(at, measure),
                (Condition::Counted, _) => Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("measureFilter is of measures, and \"{name}\" is none"),
                )),
                (_, member) => instances.member(at, member),
            }
        };
        let condition = instances.filter(filter, zone, value)?;
        instances.check_no_window()?;
        Ok(condition)
    }

    /// The columns of the scan, of which some are known and nobody looks at the others.
    fn scan_columns(&self, known: &[(Expr, Expr)]) -> Result<(Vec<Expr>, DFSchemaRef), SqlError> {
        let desc = self.desc.as_ref().ok_or_else(|| SqlError::internal("there is no scan"))?;
        let schema = DFSchema::try_from_qualified_schema(self.rows.qualifier.as_str(), &desc.schema)?;
        let value = |(qualifier, field): (Option<&TableReference>, &Arc<Field>)| {
            let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
            match known.iter().find(|(name, _)| *name == column) {
                Some((_, value)) => Ok(value.clone()),
                None => Ok(Expr::Literal(ScalarValue::try_from(field.data_type())?, None)),
            }
        };
        let exprs = schema.iter().map(value).collect::<Result<_, SqlError>>()?;
        Ok((exprs, Arc::new(schema)))
    }

    /// Makes the columns in an expression columns of the rows. Error 42803: one is a measure.
    fn use_columns(&mut self, expr: &Expr) -> Result<(), SqlError> {
        columns_in(expr)
            .iter()
            .filter(|column| self.is_own(column))
            .cloned()
            .collect::<Vec<_>>()
            .iter()
            .try_for_each(|column| self.dimension(column))
    }

    fn dimension(&mut self, column: &Column) -> Result<(), SqlError> {
        if self.rows.members.contains_key(&column.name) {
            return Ok(());
        }
        let missing = || SqlError::internal(format!("the cube has no member \"{}\"", column.name));
        let offered = self.offer.member(&column.name).ok_or_else(missing)?.clone();
        if matches!(offered.member, Member::Measure(_)) {
            return Err(no_value_of_a_row(&column.name));
        }
        let value = self.value(&offered)?;
        let value = self.stored(&column.name, value)?;
        self.rows.members.insert(column.name.clone(), value);
        Ok(())
    }

    /// A member that the query names.
    pub(super) fn value(&mut self, offered: &Offered<'m>) -> Result<TypedExpr, SqlError> {
        let at = self.instances.along(&offered.path)?;
        self.seen.entry(at).or_default().insert(offered.member.described().name.clone());
        self.names.insert(offered.name.clone());
        let value = self.instances.member(at, offered.member)?;
        self.instances.check_no_window()?;
        Ok(value)
    }

    /// What policies demand of the rows.
    pub(super) fn policies(&mut self) -> Result<Vec<Expr>, SqlError> {
        let Asked { instances, offer, names, .. } = self;
        let value = &mut |instances: &mut Instances<'b, 't, 'm>, name: &Name, _: &Condition| {
            let missing = || SqlError::internal(format!("a policy is about {name}, which is no member"));
            let offered = offer.member(&name.member).or_else(|| offer.member(&name.to_string())).ok_or_else(missing)?;
            let at = instances.along(&offered.path)?;
            instances.member(at, offered.member)
        };
        let own_name = format!("{}.", offer.described.name);
        let members: Vec<&str> = names.iter().map(|name| name.strip_prefix(&own_name).unwrap_or(name)).collect();
        let own = instances.demanded(offer.policies, &offer.described.name, &members, value)?;
        let mut conditions = self.instances.policies(&self.seen)?;
        conditions.extend(own);
        self.rows.guard = (!conditions.is_empty()).then(|| balanced(conditions.clone(), Operator::And));
        Ok(conditions)
    }

    /// A member as the catalog's column has it.
    fn stored(&mut self, name: &str, value: TypedExpr) -> Result<TypedExpr, SqlError> {
        let Some(desc) = self.desc.clone() else { return Ok(value) };
        let column = desc.columns.iter().find(|column| column.name == name);
        let column = column.ok_or_else(|| SqlError::internal(format!("there is no column \"{name}\"")))?;
        if value.ty == column.ty && value.data_type == column.data_type {
            return Ok(value);
        }
        let cast = self.instances.binder.coercer.explicit(value, &column.ty)?;
        self.instances.binder.coercer.store_as(cast, &column.ty, &column.data_type)
    }

    /// A measure as an expression over leaves.
    pub(super) fn measure(&mut self, name: &str) -> Result<Expr, SqlError> {
        let missing = || SqlError::internal(format!("the cube has no member \"{name}\""));
        let offered = self.offer.member(name).ok_or_else(missing)?.clone();
        let value = self.value(&offered)?;
        Ok(self.stored(name, value)?.expr)
    }

    /// An expression over leaves as one over leaves of fewer rows.
    pub(super) fn filtered_by(&mut self, value: Expr, filter: &Expr) -> Result<Expr, SqlError> {
        let filtered = value.transform_down(|expr| {
            let Expr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
            let Some(known) = self.instances.leaf_of(column) else { return Ok(Transformed::no(expr)) };
            let Leaf { owner, call, filter, .. } = known.but(Some(filter.clone()));
            let leaf = self.instances.leaf(owner, call, filter);
            Ok(Transformed::new(leaf, true, TreeNodeRecursion::Jump))
        })?;
        Ok(filtered.data)
    }

    /// A measure of the rows that pass.
    fn measure_of(&mut self, name: &str, filter: Option<&Expr>) -> Result<Expr, SqlError> {
        let value = self.measure(name)?;
        let Some(filter) = filter else { return Ok(value) };
        self.use_columns(filter)?;
        self.filtered_by(value, filter)
    }

    /// An aggregate of the question as an expression over leaves.
    fn call(&mut self, call: &Expr) -> Result<Expr, SqlError> {
        let call = call.clone().unalias();
        if let Some((column, filter)) = measured(&call) {
            return self.measure_of(&column.name.clone(), filter);
        }
        let Expr::AggregateFunction(AggregateFunction { func, params }) = &call else {
            return Err(SqlError::internal("an aggregate is a call"));
        };
        let all = params.args.iter().chain(params.filter.as_deref()).chain(params.order_by.iter().map(|by| &by.expr));
        let columns: Vec<Column> = all.flat_map(columns_in).filter(|column| self.is_own(column)).collect();
        if func.name() == "count" && super::ask::is_of_rows(params) {
            return self.count_rows(params.filter.as_deref());
        }
        for column in &columns {
            self.dimension(column)?;
        }
        let owner = self.owner(&call)?;
        Ok(self.instances.leaf(owner, call, None))
    }

    /// `count(*)`: the measure of that name, or the rows of the cube.
    fn count_rows(&mut self, filter: Option<&Expr>) -> Result<Expr, SqlError> {
        let measure = self.offer.member(COUNT).map(|offered| offered.member);
        let is_count = |member| matches!(member, Member::Measure(measure) if measure.kind == MeasureKind::Count);
        if measure.is_some_and(is_count) {
            return self.measure_of(COUNT, filter);
        }
        if self.offer.described.name != self.offer.root.name() {
            return Err(refused(
                format!("count(*) over view \"{}\" does not say of what rows", self.offer.described.name),
                "Ask for a measure: MEASURE(m).",
            ));
        }
        if let Some(filter) = filter {
            self.use_columns(filter)?;
        }
        Ok(self.instances.leaf(ROOT, count_star()?, filter.cloned()))
    }

    /// The instance whose rows an aggregate over dimensions goes through: from there all that it reads is one row.
    fn owner(&self, call: &Expr) -> Result<At, SqlError> {
        let used = self.rows.used_by(&self.instances, call);
        let holds_all = |at: &&At| self.instances.tree(ROOT, [**at]).is_ok_and(|way| used.is_subset(&way));
        match used.iter().rev().find(holds_all) {
            Some(owner) => Ok(*owner),
            None if used.is_empty() => Ok(ROOT),
            None => Err(refused(
                "an aggregate has dimensions of several cubes in it, none of which is on the way to the other",
                "Declare a measure.",
            )),
        }
    }

    /// The leaves in expressions.
    pub(super) fn leaves_in(&self, values: &[Expr]) -> Result<Vec<Leaf>, SqlError> {
        let mut columns = Vec::new();
        for value in values {
            collect(value, &mut columns, |expr| matches!(expr, Expr::Column(_)))?;
        }
        let leaf = |expr: &Expr| expr.try_as_col().and_then(|column| self.instances.leaf_of(column)).cloned();
        Ok(columns.iter().filter_map(leaf).collect())
    }

    pub(super) fn grouped(&mut self, keys: &[Expr], conditions: &[Expr], values: &[Expr]) -> Result<Part, SqlError> {
        let leaves = self.leaves_in(values)?;
        Grouped { rows: &self.rows, keys, conditions, leaves }.plan(&mut self.instances)
    }
}

/// Error 42803: a group or a condition goes by a measure.
pub(super) fn no_value_of_a_row(name: &str) -> SqlError {
    refused(
        format!("measure \"{name}\" is not a value of a row: no group or condition goes by it"),
        "Conditions on measures stand in HAVING. To group by a measure, evaluate it in a sub-query first.",
    )
}

/// A projection to the columns of a schema.
pub(super) fn under_names(plan: LogicalPlan, exprs: Vec<Expr>, schema: &DFSchemaRef) -> Result<LogicalPlan, SqlError> {
    Ok(LogicalPlan::Projection(Projection::try_new(named(exprs, schema), Arc::new(plan))?))
}

fn named(exprs: Vec<Expr>, schema: &DFSchemaRef) -> Vec<Expr> {
    let named = exprs
        .into_iter()
        .zip(schema.iter())
        .map(|(expr, (qualifier, field))| expr.alias_qualified(qualifier.cloned(), field.name()));
    named.collect()
}
