//! `cube_load('{"measures": ["orders.count"], …}')`: a query in Cube's JSON, in FROM.
//!
//! It is answered as what is asked in SQL is: members, conditions and policies are the same, and so are the plans. What differs is
//! Cube's way to ask: times are local times of the query's zone, ranges of dates include their last day, an order that nobody gives
//! is Cube's.

use super::answer::Asked;
use super::groups::conditioned;
use super::{CubeRef, CubeScan, refused};
use crate::bind::relation::Relation;
use crate::bind::{Binder, BoundQuery, OutputColumn};
use datafusion::common::Column;
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::{Expr, Limit as Rest, LogicalPlan, LogicalPlanBuilder, Projection, lit};
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use semantic::model::Model;
use semantic::model::cube::Cube;
use semantic::model::dimension::{Dimension, DimensionKind};
use semantic::model::offer::{Member, Offer, Offered};
use semantic::query::{Condition, Direction, Filter, Key, Limit, Limits, Name, Query, Request, Rows, TimeDimension};
use semantic::report::Report;
use sql_functions::TypedExpr;
use sqlparser::ast::{self, TableAlias};
use sqlparser::tokenizer::Span;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The function's name.
pub(in crate::bind) const LOAD: &str = "cube_load";

/// Conditions of a query: no client has so many, and plans are made of each. The tokens of a statement do not show how many there are.
const FILTERS_MAX: usize = 500;

/// SQL cuts no result.
const LIMITS: Limits = Limits { default: None, max: None };

impl Binder<'_> {
    /// The rows of a query in Cube's JSON. Errors: 22023 of what is no query, 42P01 and 42703 of what is not there, those of asking a cube.
    pub(in crate::bind) fn cube_load(
        &mut self,
        args: &[&ast::Expr],
        alias: Option<&TableAlias>,
        span: Span,
    ) -> Result<Relation, SqlError> {
        let invalid =
            |why: &dyn std::fmt::Display| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, why.to_string()).at(span);
        let [text] = args else { return Err(invalid(&format!("{LOAD} takes one text"))) };
        let text = match text {
            ast::Expr::Value(value) => value.value.clone().into_string(),
            _ => None,
        };
        let text = text.ok_or_else(|| {
            SqlError::unsupported(format!("a query of {LOAD} that is not written out"))
                .with_hint("Write the JSON as a string.")
        })?;
        let json = serde_json::from_str(&text).map_err(|error| invalid(&error))?;
        let query = match Query::read(&json, None, LIMITS).map_err(|error| invalid(&error))? {
            Request::Regular(query) => query,
            Request::CompareDateRange(_) => {
                return Err(SqlError::unsupported(format!("compareDateRange in {LOAD}"))
                    .with_hint("Write a query for each of the ranges."));
            }
        };
        let count = query.filters.iter().map(|filter| filter.names().len()).sum::<usize>();
        if count > FILTERS_MAX {
            let message = format!("a query has at most {FILTERS_MAX} filters, and this one has {count}");
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message)
                .with_hint("One filter can have many values.")
                .at(span));
        }
        let cubes = self.cubes_of(&query, span)?;
        let [first, ..] = cubes.as_slice() else { return Err(invalid(&"the query has no members")) };
        let (id, model) = (first.id, Arc::clone(&first.model));
        let names: Vec<&str> = cubes.iter().map(|cube| cube.name.as_str()).collect();
        let bound = self.in_model(id, |binder| {
            let offer = offer_of(&model, &names)?;
            Load { asked: Asked::of(binder, &model, offer, LOAD)?, query: &query }.bound()
        })?;
        self.derived(bound, alias, LOAD)
    }

    /// The cubes and views that a query names, of whose members it reads those that it names.
    fn cubes_of(&mut self, query: &Query, span: Span) -> Result<Vec<CubeRef>, SqlError> {
        let mut cubes: Vec<(CubeRef, Relation)> = Vec::new();
        for name in query.names() {
            if cubes.iter().all(|(cube, _)| cube.name != name.cube) {
                let found = self.coercer.tables.cube(&name.cube);
                let relation = self.relation(&found, None, span)?;
                let Some(scan) = CubeScan::of(&relation.plan) else {
                    let message = format!("\"{}\" is not a cube", name.cube);
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).at(span));
                };
                if cubes.iter().any(|(cube, _)| !Arc::ptr_eq(&cube.model, &scan.cube.model)) {
                    return Err(
                        refused("the query names cubes of several models", "Write a query for each model.").at(span)
                    );
                }
                cubes.push((scan.cube.clone(), relation));
            }
            let (_, relation) = cubes.iter().find(|(cube, _)| cube.name == name.cube).expect("it was just looked up");
            match relation.scope.columns.iter().find(|column| column.name == name.member) {
                Some(column) => drop(column.reference(0, &mut self.reads)),
                None => {
                    let message = format!("'{name}' not found for path '{name}'");
                    return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message).at(span));
                }
            }
        }
        Ok(cubes.into_iter().map(|(cube, _)| cube).collect())
    }
}

/// What several cubes offer together, or one cube or view: members as `cube.member`.
fn offer_of<'m>(model: &'m Model, names: &[&str]) -> Result<Offer<'m>, SqlError> {
    let missing = |name: &str| SqlError::internal(format!("the model has no cube \"{name}\""));
    let mut offers =
        names.iter().map(|name| model.offer(name).ok_or_else(|| missing(name))).collect::<Result<Vec<_>, _>>()?;
    let qualified = |offer: &Offer<'m>, root: Option<&'m Cube>| {
        let of = &offer.described.name;
        let members = offer.members.iter().cloned().map(|member| Offered {
            name: format!("{of}.{}", member.name),
            path: root.map(Cube::name).into_iter().chain(member.path).collect(),
            ..member
        });
        members.collect::<Vec<_>>()
    };
    if let [one] = offers.as_mut_slice() {
        one.members = qualified(one, None);
        return Ok(one.clone());
    }
    let cubes: Option<Vec<&Cube>> = names.iter().map(|name| model.cube(name)).collect();
    let cubes = cubes.ok_or_else(|| refused("the query names a view and something else", "Ask the view alone."))?;
    // The cube from which the fewest joins lead to all others; of several the first that is named.
    let joins = |root: &&'m Cube| {
        let mut all = BTreeSet::new();
        for cube in &cubes {
            let way = model.joins(root, cube)?;
            all.extend(way.into_iter().map(|(from, join)| (from.name(), join.cube.as_str())));
        }
        Some(all.len())
    };
    let root = cubes.iter().filter_map(|cube| Some((joins(cube)?, *cube))).min_by_key(|(joins, _)| *joins);
    let (_, root) = root.ok_or_else(|| {
        refused(
            format!("Can't find join path to join '{}'", names.join("', '")),
            "Declare joins between the cubes, or ask them apart.",
        )
    })?;
    let members = offers.iter().flat_map(|offer| qualified(offer, Some(root))).collect();
    let root_offer = model.offer(root.name()).ok_or_else(|| missing(root.name()))?;
    Ok(Offer { members, ..root_offer })
}

/// A query that is being bound.
struct Load<'q, 'b, 't, 'm> {
    asked: Asked<'b, 't, 'm>,
    query: &'q Query,
}

/// A column of the result.
struct Output {
    name: String,
    value: TypedExpr,
    key: Key,
}

impl<'m> Load<'_, '_, '_, 'm> {
    fn bound(mut self) -> Result<BoundQuery, SqlError> {
        let query = self.query;
        let mut keys = Vec::new();
        for name in &query.dimensions {
            let value = self.dimension(name)?;
            keys.push(self.output(name, None, value));
        }
        for of in query.time_dimensions.iter().filter(|of| of.granularity.is_some()) {
            let value = self.bucket(of)?;
            keys.push(self.output(&of.dimension, of.granularity.clone(), value));
        }
        let mut measures = Vec::new();
        for name in &query.measures {
            let value = self.measure(name)?;
            measures.push(Output { name: name.to_string(), value, key: Key { name: name.clone(), granularity: None } });
        }
        let (mut conditions, mut having) = (Vec::new(), Vec::new());
        for filter in &query.filters {
            let of_measures = self.is_of_measures(filter)?;
            let condition = self.filter(filter)?;
            if of_measures { having.push(condition) } else { conditions.push(condition) }
        }
        for of in &query.time_dimensions {
            if let Some(range) = &of.range {
                let filter = Filter::Member(of.dimension.clone(), Condition::In(*range));
                conditions.push(self.filter(&filter)?);
            }
        }
        for name in &query.segments {
            let offered = self.offered(name)?;
            if !matches!(offered.member, Member::Segment(_)) {
                return Err(wrong_kind(name, "no segment", "segment"));
            }
            conditions.push(self.asked.value(&offered)?.expr);
        }
        conditions.extend(self.asked.policies()?);
        let plan = self.answered(&keys, &measures, &conditions, having)?;
        let key_count = keys.len();
        let outputs: Vec<Output> = keys.into_iter().chain(measures).collect();
        let plan = self.arranged(plan, &outputs, key_count)?;
        let columns = outputs.into_iter().map(|output| OutputColumn {
            name: output.name,
            ty: output.value.ty,
            data_type: output.value.data_type,
        });
        Ok(BoundQuery { plan, columns: columns.collect() })
    }

    fn offered(&self, name: &Name) -> Result<Offered<'m>, SqlError> {
        let missing = || SqlError::new(SqlState::UNDEFINED_COLUMN, format!("'{name}' not found for path '{name}'"));
        self.asked.member(&name.to_string()).cloned().ok_or_else(missing)
    }

    fn output(&mut self, name: &Name, granularity: Option<String>, value: TypedExpr) -> Output {
        let key = Key { name: name.clone(), granularity };
        let named = key.to_string();
        let column = self.asked.add(named.clone(), value.clone());
        Output { name: named, value: TypedExpr { expr: column, ..value }, key }
    }

    /// A dimension or a segment, times as local ones.
    fn dimension(&mut self, name: &Name) -> Result<TypedExpr, SqlError> {
        let offered = self.offered(name)?;
        let value = match offered.member {
            Member::Measure(_) => return Err(wrong_kind(name, "a measure", "dimension")),
            Member::Dimension(_) | Member::Segment(_) => self.asked.value(&offered)?,
        };
        match offered.member {
            Member::Dimension(Dimension { kind: DimensionKind::Time, .. }) => {
                self.asked.instances.local(value, self.query.zone)
            }
            _ => Ok(value),
        }
    }

    fn bucket(&mut self, of: &TimeDimension) -> Result<TypedExpr, SqlError> {
        let offered = self.offered(&of.dimension)?;
        let Member::Dimension(dimension @ Dimension { kind: DimensionKind::Time, .. }) = offered.member else {
            return Err(wrong_kind(&of.dimension, "no dimension of time", "time dimension"));
        };
        let mut report = Report::default();
        let name = of.granularity.as_deref().unwrap_or_default();
        let Some(bucket) = dimension.bucket(&dimension.described.place, name, &mut report) else {
            let message = format!("Granularity \"{name}\" does not exist in dimension {}", of.dimension);
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        };
        let value = self.asked.value(&offered)?;
        let local = self.asked.instances.local(value, self.query.zone)?;
        self.asked.instances.cut_off(local, bucket)
    }

    fn measure(&mut self, name: &Name) -> Result<TypedExpr, SqlError> {
        let offered = self.offered(name)?;
        match offered.member {
            Member::Measure(_) => self.asked.value(&offered),
            Member::Dimension(_) | Member::Segment(_) => Err(wrong_kind(name, "no measure", "measure")),
        }
    }

    /// Whether a filter is about measures. Error 22023: about both.
    fn is_of_measures(&self, filter: &Filter) -> Result<bool, SqlError> {
        match filter {
            Filter::Member(_, Condition::Counted) => Ok(false),
            Filter::Member(name, _) => Ok(matches!(self.offered(name)?.member, Member::Measure(_))),
            Filter::And(filters) | Filter::Or(filters) => {
                let kinds =
                    filters.iter().map(|filter| self.is_of_measures(filter)).collect::<Result<BTreeSet<_>, _>>()?;
                match kinds.len() {
                    2 => Err(SqlError::new(
                        SqlState::INVALID_PARAMETER_VALUE,
                        "You cannot use dimension and measure filters in one logical operator",
                    )),
                    _ => Ok(kinds.contains(&true)),
                }
            }
        }
    }

    fn filter(&mut self, filter: &Filter) -> Result<Expr, SqlError> {
        self.asked.filter(filter, self.query.zone)
    }

    /// Groups, or a row for each row of the cubes, which are groups by their primary keys if there is something to compute.
    fn answered(
        &mut self,
        keys: &[Output],
        measures: &[Output],
        conditions: &[Expr],
        having: Vec<Expr>,
    ) -> Result<LogicalPlan, SqlError> {
        let mut groups: Vec<Expr> = keys.iter().map(|key| key.value.expr.clone()).collect();
        if self.query.rows == Rows::Ungrouped && measures.is_empty() && having.is_empty() {
            let plan = self.asked.rows_where(&groups, conditions, None)?;
            return named(plan, keys, groups);
        }
        if self.query.rows == Rows::Ungrouped {
            let needed: Vec<Expr> = groups.iter().chain(conditions).cloned().collect();
            let asked = self.query.names().next().map(ToString::to_string).unwrap_or_default();
            groups.extend(self.asked.keys_of_rows(&needed, &asked)?);
        }
        let values: Vec<Expr> =
            measures.iter().map(|measure| measure.value.expr.clone()).chain(having.clone()).collect();
        let part = self.asked.grouped(&groups, conditions, &values)?;
        let having: Vec<Expr> = having.iter().map(|condition| part.over(condition)).collect();
        let plan = conditioned(part.plan.clone(), &having)?;
        let values = part.keys.iter().take(keys.len()).cloned();
        let values = values.chain(measures.iter().map(|measure| part.over(&measure.value.expr))).collect();
        named(plan, keys.iter().chain(measures), values)
    }

    /// The rows in their order, and as many as are asked for. What an order leaves open is decided by the keys, which come first among the
    /// outputs: whoever asks twice for the first ten sees the same ten.
    fn arranged(&mut self, plan: LogicalPlan, outputs: &[Output], key_count: usize) -> Result<LogicalPlan, SqlError> {
        let mut order = Vec::with_capacity(outputs.len());
        for (key, direction) in &self.query.order {
            let is_it =
                |output: &&Output| output.key == *key || (key.granularity.is_none() && output.key.name == key.name);
            let Some(output) = outputs.iter().find(is_it) else {
                let message = format!("\"{key}\" is ordered by and not asked for");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            };
            order.push((output, *direction == Direction::Ascending));
        }
        if !order.is_empty() {
            let open = if self.query.rows == Rows::Grouped { key_count } else { outputs.len() };
            order.extend(outputs[..open].iter().map(|output| (output, true)));
        }
        let (mut sorts, mut named) = (Vec::with_capacity(order.len()), BTreeSet::new());
        for (output, asc) in order.into_iter().filter(|(output, _)| named.insert(output.name.as_str())) {
            let column = TypedExpr { expr: Expr::Column(Column::from_name(&output.name)), ..output.value.clone() };
            sorts.push(Sort { expr: self.asked.instances.binder.order_key(column)?, asc, nulls_first: !asc });
        }
        let plan = if sorts.is_empty() { plan } else { LogicalPlanBuilder::from(plan).sort(sorts)?.build()? };
        let fetch = match self.query.limit {
            Limit::Asked(limit) => Some(limit),
            Limit::Default(limit) => limit,
        };
        let count = |count: u64| i64::try_from(count).map(|count| Box::new(lit(count))).ok();
        let skip = (self.query.offset > 0).then(|| count(self.query.offset)).flatten();
        let fetch = fetch.and_then(count);
        Ok(match (&skip, &fetch) {
            (None, None) => plan,
            _ => LogicalPlan::Limit(Rest { skip, fetch, input: Arc::new(plan) }),
        })
    }
}

/// A projection of values to the columns of a result.
fn named<'o>(
    plan: LogicalPlan,
    outputs: impl IntoIterator<Item = &'o Output>,
    values: Vec<Expr>,
) -> Result<LogicalPlan, SqlError> {
    let exprs = values.into_iter().zip(outputs).map(|(value, output)| value.alias(&output.name)).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?))
}

fn wrong_kind(name: &Name, is: &str, asked_as: &str) -> SqlError {
    let message = format!("\"{name}\" is {is}, and is asked for as a {asked_as}");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}
