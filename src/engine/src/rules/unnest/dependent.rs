//! A subquery with its keys as columns, for any subquery.
//!
//! Node by node from the top: a node that reads outer columns, or has an input that does, is rewritten to have the keys as
//! columns too, and every reference to an outer column becomes one to such a column. Below the last reference the keys are
//! joined in from the domain, the distinct keys of the outer rows; unless there are equalities with inner columns for all
//! keys, which then are the keys: the subquery is calculated for all their values, and the join with the outer rows
//! picks those that it needs.

mod recursive;

use super::keys::{inward, is_plan_risky, plan_reads, reads, same};
use super::{Result, Unnesting, columns, external, project};
use crate::error::SqlError;
use crate::rewrite::replace;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, DFSchemaRef, JoinType, NullEquality, ScalarValue};
use datafusion::logical_expr::expr::{Sort as SortKey, WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, Filter, Join, Limit, LogicalPlan, LogicalPlanBuilder, Operator, Union,
    Window, WindowFrame, WindowFunctionDefinition, binary_expr, lit, when,
};
use recursive::WorkTable;
use std::sync::Arc;

/// The keys of a subquery and where they come from.
pub(super) struct Domain {
    /// As they stand in the subquery.
    pub(super) keys: Vec<Expr>,
    /// The columns of the outer relation.
    outer: DFSchemaRef,
    /// The distinct keys of the outer rows.
    distinct: LogicalPlan,
    /// Whether keys that the outer query does not have do no harm.
    may_exceed: bool,
    /// The working tables of the recursive queries around, which have the keys.
    work_tables: Vec<WorkTable>,
}

/// A plan with the keys among its columns.
pub(super) struct Keyed {
    /// The plan, with the columns of the subquery.
    pub(super) plan: LogicalPlan,
    /// The keys, over its columns.
    pub(super) keys: Vec<Expr>,
    /// Whether no key is ever NULL, since it comes from an equality.
    pub(super) never_null: bool,
}

impl Domain {
    /// The domain of a subquery's keys.
    pub(super) fn new(keys: Vec<Expr>, outer: &LogicalPlan, subquery: &LogicalPlan) -> Result<Domain> {
        let schema = Arc::clone(outer.schema());
        let may_exceed = !is_plan_risky(subquery);
        // What is likely to fail is calculated for the keys of this copy of the outer rows, also where that makes another choice.
        let rows = if may_exceed { unchosen(outer.clone())? } else { outer.clone() };
        let mut exprs = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            exprs.push(inward(key.clone(), &schema)?.alias(format!("k{at}")));
        }
        let distinct = LogicalPlan::Distinct(Distinct::All(Arc::new(project(rows, exprs)?)));
        Ok(Domain { keys, outer: schema, distinct, may_exceed, work_tables: Vec::new() })
    }

    /// The same inside a recursive query, which might go on for ever with keys that the outer query does not have; with its
    /// working table, in the recursive term.
    pub(super) fn within(&self, work_table: Option<WorkTable>) -> Domain {
        Domain {
            keys: self.keys.clone(),
            outer: Arc::clone(&self.outer),
            distinct: self.distinct.clone(),
            may_exceed: false,
            work_tables: self.work_tables.iter().cloned().chain(work_table).collect(),
        }
    }

    /// The condition under which a row of a keyed relation belongs to an outer row.
    pub(super) fn condition(&self, keys: &[Expr], never_null: bool) -> Result<Vec<Expr>> {
        let pairs = self.keys.iter().zip(keys);
        pairs.map(|(key, column)| Ok(same(inward(key.clone(), &self.outer)?, column.clone(), never_null))).collect()
    }

    fn is_read_by(&self, plan: &LogicalPlan) -> bool {
        plan_reads(plan, &self.outer) || self.work_tables.iter().any(|table| table.is_read_by(plan))
    }

    /// An expression in which keys are columns.
    fn bound(&self, expr: Expr, keys: &[Expr]) -> Result<Expr> {
        let map: Vec<(Expr, Expr)> = self.keys.iter().cloned().zip(keys.iter().cloned()).collect();
        Ok(replace(expr, &map)?)
    }

    fn bound_all(&self, exprs: Vec<Expr>, keys: &[Expr]) -> Result<Vec<Expr>> {
        exprs.into_iter().map(|expr| self.bound(expr, keys)).collect()
    }
}

impl Unnesting {
    /// A subquery with its keys.
    pub(super) fn keyed(&mut self, plan: LogicalPlan, domain: &Domain) -> Result<Keyed> {
        if !domain.is_read_by(&plan) {
            return self.crossed(plan, domain);
        }
        match plan {
            LogicalPlan::Projection(projection) => {
                let input = self.keyed(Arc::unwrap_or_clone(projection.input), domain)?;
                let exprs = domain.bound_all(projection.expr, &input.keys)?;
                self.projected(input, exprs)
            }
            LogicalPlan::Filter(filter) => self.keyed_filter(filter, domain),
            LogicalPlan::SubqueryAlias(alias) => {
                let shown = columns(&alias.input);
                let input = self.keyed(Arc::unwrap_or_clone(alias.input), domain)?;
                let input = self.projected(input, shown)?;
                let positions = positions(&input.plan, &input.keys)?;
                let plan = LogicalPlanBuilder::from(input.plan).alias(alias.alias)?.build()?;
                Ok(Keyed { keys: at(&plan, &positions), plan, never_null: input.never_null })
            }
            LogicalPlan::Aggregate(aggregate) => self.keyed_aggregate(aggregate, domain),
            LogicalPlan::Join(join) => self.keyed_join(join, domain),
            LogicalPlan::Union(union) => self.keyed_union(union, domain),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let input = self.keyed(Arc::unwrap_or_clone(input), domain)?;
                Ok(Keyed { plan: LogicalPlan::Distinct(Distinct::All(Arc::new(input.plan))), ..input })
            }
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                // An order within something that has none, but a LIMIT above it has been here first.
                self.keyed(Arc::unwrap_or_clone(sort.input), domain)
            }
            LogicalPlan::Limit(limit) => self.keyed_limit(limit, domain),
            LogicalPlan::Window(window) => {
                let input = self.keyed(Arc::unwrap_or_clone(window.input), domain)?;
                let exprs = domain.bound_all(window.window_expr, &input.keys)?;
                let exprs = exprs.into_iter().map(|expr| partitioned(expr, &input.keys)).collect::<Result<_>>()?;
                Ok(Keyed { plan: LogicalPlan::Window(Window::try_new(exprs, Arc::new(input.plan))?), ..input })
            }
            LogicalPlan::Unnest(unnest) => {
                let input = self.keyed(Arc::unwrap_or_clone(unnest.input), domain)?;
                let plan = LogicalPlanBuilder::from(input.plan)
                    .unnest_columns_with_options(unnest.exec_columns, unnest.options)?
                    .build()?;
                Ok(Keyed { plan, ..input })
            }
            LogicalPlan::Values(values) => {
                let union = super::rows_as_projections(values)?;
                self.keyed(union, domain)
            }
            LogicalPlan::RecursiveQuery(query) => self.keyed_recursion(query, domain),
            LogicalPlan::TableScan(scan) => match domain.work_tables.iter().find(|table| table.is(&scan)) {
                Some(table) => table.keyed(columns(&LogicalPlan::TableScan(scan))),
                None => Err(SqlError::internal("a relation reads no outer column")),
            },
            other => Err(SqlError::unsupported(format!("{} that refers to an outer query", other.display()))),
        }
    }

    /// Every row with every key: what reads no outer column.
    fn crossed(&mut self, plan: LogicalPlan, domain: &Domain) -> Result<Keyed> {
        let (keys, columns) = self.domain(domain)?;
        let plan = match plan {
            // SELECT without FROM.
            LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => keys,
            plan => LogicalPlanBuilder::from(keys).cross_join(plan)?.build()?,
        };
        Ok(Keyed { plan, keys: columns, never_null: false })
    }

    /// The domain under names of its own, of which several may meet.
    fn domain(&mut self, domain: &Domain) -> Result<(LogicalPlan, Vec<Expr>)> {
        let (mut exprs, mut names) = (Vec::new(), Vec::new());
        for column in columns(&domain.distinct) {
            let name = self.name("key")?;
            exprs.push(column.alias(&name));
            names.push(Expr::Column(Column::from_name(name)));
        }
        Ok((project(domain.distinct.clone(), exprs)?, names))
    }

    /// A projection that keeps the keys, under names that meet no other.
    fn projected(&mut self, input: Keyed, mut exprs: Vec<Expr>) -> Result<Keyed> {
        let mut keys = Vec::new();
        for key in input.keys {
            let name = self.name("key")?;
            exprs.push(key.alias(&name));
            keys.push(Expr::Column(Column::from_name(name)));
        }
        Ok(Keyed { plan: project(input.plan, exprs)?, keys, never_null: input.never_null })
    }

    fn keyed_filter(&mut self, filter: Filter, domain: &Domain) -> Result<Keyed> {
        let conditions = split_conjunction_owned(filter.predicate);
        if domain.may_exceed
            && !domain.is_read_by(&filter.input)
            && let Some(inner) = equals_of(&domain.keys, &conditions, &domain.outer)
        {
            return self.keyed_by_equality(Arc::unwrap_or_clone(filter.input), conditions, inner, domain);
        }
        let input = self.keyed(Arc::unwrap_or_clone(filter.input), domain)?;
        let conditions = domain.bound_all(conditions, &input.keys)?;
        let predicate = conjunction(conditions).unwrap_or_else(|| lit(true));
        Ok(Keyed { plan: LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(input.plan))?), ..input })
    }

    /// The keys are the inner expressions that they are equal to.
    fn keyed_by_equality(
        &mut self,
        input: LogicalPlan,
        conditions: Vec<Expr>,
        inner: Vec<Expr>,
        domain: &Domain,
    ) -> Result<Keyed> {
        let is_equality = |condition: &Expr| {
            let pairs = domain.keys.iter().zip(&inner);
            pairs.into_iter().any(|(key, inner)| equal_to(condition, key) == Some(inner))
        };
        let conditions = conditions.into_iter().filter(|condition| !is_equality(condition)).collect();
        let mut conditions = domain.bound_all(conditions, &inner)?;
        conditions.extend(inner.iter().map(|inner| inner.clone().is_not_null()));
        let predicate = conjunction(conditions).unwrap_or_else(|| lit(true));
        let mut exprs = columns(&input);
        let mut keys = Vec::new();
        for inner in inner {
            keys.push(match inner {
                Expr::Column(_) => inner,
                inner => {
                    let name = self.name("key")?;
                    exprs.push(inner.alias(&name));
                    Expr::Column(Column::from_name(name))
                }
            });
        }
        let filtered = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(input))?);
        Ok(Keyed { plan: project(filtered, exprs)?, keys, never_null: true })
    }

    fn keyed_aggregate(&mut self, aggregate: Aggregate, domain: &Domain) -> Result<Keyed> {
        if aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) {
            return Err(SqlError::unsupported("grouping sets in a subquery that refers to an outer query"));
        }
        let is_global = aggregate.group_expr.is_empty();
        let shown = columns(&LogicalPlan::Aggregate(aggregate.clone()));
        let defaults = aggregate.aggr_expr.iter().map(default_of).collect::<Result<Vec<_>>>()?;
        let keyed = self.grouped(aggregate, domain)?;
        if !is_global {
            return Ok(keyed);
        }
        // A group for every key, with rows or without.
        let (keys, names) = self.domain(domain)?;
        let positions = positions(&keyed.plan, &keyed.keys)?;
        let (groups, mut columns) = self.aliased(keyed.plan, "groups")?;
        let same_keys = names.iter().zip(&positions).map(|(key, at)| same(key.clone(), columns[*at].clone(), false));
        let same_keys: Vec<Expr> = same_keys.collect();
        let joined = LogicalPlanBuilder::from(keys).join_on(groups, JoinType::Left, same_keys)?.build()?;
        // Behind the keys.
        let values = columns.split_off(columns.len() - shown.len());
        let mut exprs = Vec::new();
        for ((shown, value), default) in shown.into_iter().zip(values).zip(defaults) {
            let Expr::Column(column) = shown else { continue };
            exprs.push(or_default(value, default)?.alias_qualified(column.relation, column.name));
        }
        exprs.extend(names.iter().cloned());
        Ok(Keyed { plan: project(joined, exprs)?, keys: names, never_null: false })
    }

    /// An aggregate by the keys as well, which has no rows for keys without rows.
    pub(super) fn grouped(&mut self, aggregate: Aggregate, domain: &Domain) -> Result<Keyed> {
        let input = self.keyed(Arc::unwrap_or_clone(aggregate.input), domain)?;
        let mut groups = domain.bound_all(aggregate.group_expr, &input.keys)?;
        groups.extend(input.keys.iter().cloned());
        let aggregates = domain.bound_all(aggregate.aggr_expr, &input.keys)?;
        let aggregate = Aggregate::try_new(Arc::new(input.plan), distinct_columns(groups), aggregates)?;
        Ok(Keyed { plan: LogicalPlan::Aggregate(aggregate), keys: input.keys, never_null: input.never_null })
    }

    fn keyed_join(&mut self, join: Join, domain: &Domain) -> Result<Keyed> {
        let needs_left = !matches!(join.join_type, JoinType::Inner | JoinType::Right)
            || domain.is_read_by(&join.left)
            || !domain.is_read_by(&join.right);
        let needs_right = matches!(join.join_type, JoinType::Right | JoinType::Full) || domain.is_read_by(&join.right);
        let shown = match join.join_type {
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => None,
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {
                Some(columns(&LogicalPlan::Join(join.clone())))
            }
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                return Err(SqlError::internal("a semi join whose right side remains"));
            }
        };
        let mut conditions: Vec<Expr> = join.filter.map(split_conjunction_owned).unwrap_or_default();
        for (left, right) in join.on {
            conditions.push(same(left, right, join.null_equality == NullEquality::NullEqualsNothing));
        }
        // NOT IN asks about all right rows; with keys, about those of the key.
        let null_aware = join.null_aware && !needs_right;
        if join.null_aware && needs_right {
            conditions = conditions.into_iter().map(Expr::is_not_false).collect();
        }
        let (left, right) = (Arc::unwrap_or_clone(join.left), Arc::unwrap_or_clone(join.right));
        let left = if needs_left { self.keyed(left, domain)? } else { unkeyed(left) };
        let right = if needs_right { self.keyed(right, domain)? } else { unkeyed(right) };
        let never_null = left.never_null || right.never_null;
        let pairs = left.keys.iter().zip(&right.keys);
        let same_keys: Vec<Expr> = pairs.map(|(l, r)| same(l.clone(), r.clone(), never_null)).collect();
        let known = if needs_left { &left.keys } else { &right.keys };
        let mut all = same_keys;
        all.extend(domain.bound_all(conditions, known)?);
        let condition = conjunction(all).unwrap_or_else(|| lit(true));
        let joined = LogicalPlanBuilder::from(left.plan).join_on(right.plan, join.join_type, [condition])?.build()?;
        let plan = match joined {
            LogicalPlan::Join(joined) => LogicalPlan::Join(Join { null_aware, ..joined }),
            other => other,
        };
        let (keys, never_null) = match join.join_type {
            JoinType::Full => {
                let pairs = left.keys.iter().zip(&right.keys);
                let either = |(l, r): (&Expr, &Expr)| {
                    when(l.clone().is_not_null(), l.clone()).otherwise(r.clone()).map_err(SqlError::from)
                };
                (pairs.map(either).collect::<Result<Vec<_>>>()?, left.never_null && right.never_null)
            }
            JoinType::Right => (right.keys, right.never_null),
            _ if needs_left => (left.keys, left.never_null),
            _ => (right.keys, right.never_null),
        };
        let (plan, keys) = self.named_keys(plan, shown, keys)?;
        Ok(Keyed { plan, keys, never_null })
    }

    /// A plan whose keys are columns, if they are expressions; with these columns, or with its own.
    fn named_keys(
        &mut self,
        plan: LogicalPlan,
        shown: Option<Vec<Expr>>,
        keys: Vec<Expr>,
    ) -> Result<(LogicalPlan, Vec<Expr>)> {
        if keys.iter().all(|key| matches!(key, Expr::Column(_))) {
            return Ok((plan, keys));
        }
        let exprs = shown.unwrap_or_else(|| columns(&plan));
        let Keyed { plan, keys, .. } = self.projected(Keyed { plan, keys, never_null: false }, exprs)?;
        Ok((plan, keys))
    }

    fn keyed_union(&mut self, union: Union, domain: &Domain) -> Result<Keyed> {
        let width = union.schema.fields().len();
        let names = (0..domain.keys.len()).map(|_| self.name("key")).collect::<Result<Vec<_>>>()?;
        let (mut inputs, mut never_null) = (Vec::new(), true);
        for input in union.inputs {
            let mut exprs = columns(&input);
            let input = self.keyed(Arc::unwrap_or_clone(input), domain)?;
            exprs.extend(input.keys.into_iter().zip(&names).map(|(key, name)| key.alias(name)));
            never_null &= input.never_null;
            inputs.push(Arc::new(project(input.plan, exprs)?));
        }
        let plan = LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?);
        let keys = columns(&plan).split_off(width);
        Ok(Keyed { plan, keys, never_null })
    }

    /// LIMIT and OFFSET count the rows of each key.
    fn keyed_limit(&mut self, limit: Limit, domain: &Domain) -> Result<Keyed> {
        // Over the columns that the order is over.
        let (input, order) = match Arc::unwrap_or_clone(limit.input) {
            LogicalPlan::Projection(projection) => {
                let limited = LogicalPlan::Limit(Limit { input: projection.input, ..limit });
                return self.keyed(project(limited, projection.expr)?, domain);
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let limited = LogicalPlan::Limit(Limit { input: alias.input, ..limit });
                let plan = LogicalPlanBuilder::from(limited).alias(alias.alias)?.build()?;
                return self.keyed(plan, domain);
            }
            LogicalPlan::Sort(sort) => (Arc::unwrap_or_clone(sort.input), sort.expr),
            other => (other, Vec::new()),
        };
        let input = self.keyed(input, domain)?;
        let shown = columns(&input.plan);
        let order_by = order
            .into_iter()
            .map(|key| Ok(SortKey { expr: domain.bound(key.expr, &input.keys)?, ..key }))
            .collect::<Result<Vec<_>>>()?;
        let name = self.name("number")?;
        let call = WindowFunction {
            fun: WindowFunctionDefinition::WindowUDF(datafusion::functions_window::row_number::row_number_udwf()),
            params: WindowFunctionParams {
                args: Vec::new(),
                partition_by: input.keys.clone(),
                window_frame: WindowFrame::new((!order_by.is_empty()).then_some(false)),
                order_by,
                filter: None,
                null_treatment: None,
                distinct: false,
            },
        };
        let number = Expr::WindowFunction(Box::new(call)).alias(&name);
        let plan = LogicalPlan::Window(Window::try_new(vec![number], Arc::new(input.plan))?);
        let number =
            datafusion::logical_expr::cast(Expr::Column(Column::from_name(name)), arrow::datatypes::DataType::Int64);
        let mut conditions = Vec::new();
        let skip = limit.skip.map(|skip| *skip);
        if let Some(skip) = &skip {
            conditions.push(number.clone().gt(skip.clone()));
        }
        if let Some(fetch) = limit.fetch {
            let last = match (skip, *fetch) {
                (None, fetch) => fetch,
                (
                    Some(Expr::Literal(ScalarValue::Int64(Some(skip)), _)),
                    Expr::Literal(ScalarValue::Int64(Some(fetch)), _),
                ) => lit(skip.saturating_add(fetch)),
                (Some(skip), fetch) => binary_expr(skip, Operator::Plus, fetch),
            };
            conditions.push(number.lt_eq(last));
        }
        let predicate = conjunction(conditions).unwrap_or_else(|| lit(true));
        let plan = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(plan))?);
        Ok(Keyed { plan: project(plan, shown)?, ..input })
    }
}

/// At least the rows of a plan, without the choice that a filter makes by their numbers: of equals, another may be the first
/// when the plan is calculated a second time.
fn unchosen(plan: LogicalPlan) -> Result<LogicalPlan> {
    let through = |input: Arc<LogicalPlan>| unchosen(Arc::unwrap_or_clone(input)).map(Arc::new);
    Ok(match plan {
        LogicalPlan::Filter(filter) if has_numbers(&filter.input) => unchosen(Arc::unwrap_or_clone(filter.input))?,
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => unchosen(Arc::unwrap_or_clone(sort.input))?,
        LogicalPlan::Filter(_) | LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => {
            plan.map_children(|input| Ok(Transformed::yes(unchosen(input).map_err(external)?)))?.data
        }
        LogicalPlan::Join(join) => {
            let keeps_left = !matches!(join.join_type, JoinType::Right | JoinType::Full);
            let left = if keeps_left { through(join.left)? } else { join.left };
            let right = if join.join_type == JoinType::Inner { through(join.right)? } else { join.right };
            LogicalPlan::Join(Join { left, right, ..join })
        }
        plan => plan,
    })
}

/// Whether a plan's columns can be numbers of its rows.
fn has_numbers(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Window(_) => true,
        LogicalPlan::Filter(Filter { input, .. }) => has_numbers(input),
        LogicalPlan::Sort(sort) => has_numbers(&sort.input),
        LogicalPlan::Projection(projection) => has_numbers(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_numbers(&alias.input),
        _ => false,
    }
}

fn unkeyed(plan: LogicalPlan) -> Keyed {
    Keyed { plan, keys: Vec::new(), never_null: false }
}

/// For every key, the inner expression that a condition says it is equal to.
fn equals_of(keys: &[Expr], conditions: &[Expr], outer: &DFSchema) -> Option<Vec<Expr>> {
    keys.iter()
        .map(|key| {
            let found = conditions.iter().filter_map(|condition| equal_to(condition, key));
            let mut inner = found.filter(|inner| !reads(inner, outer) && !inner.column_refs().is_empty());
            inner.next().cloned()
        })
        .collect()
}

/// What an equality says a key is equal to.
fn equal_to<'e>(condition: &'e Expr, key: &Expr) -> Option<&'e Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else { return None };
    if left.as_ref() == key {
        Some(right)
    } else if right.as_ref() == key {
        Some(left)
    } else {
        None
    }
}

/// A window function, within each key.
fn partitioned(expr: Expr, keys: &[Expr]) -> Result<Expr> {
    let partitioned = expr.transform_up(|expr| {
        Ok(match expr {
            Expr::WindowFunction(mut call) => {
                call.params.partition_by.extend(keys.iter().cloned());
                Transformed::yes(Expr::WindowFunction(call))
            }
            other => Transformed::no(other),
        })
    })?;
    Ok(partitioned.data)
}

/// What an aggregate is of no rows.
pub(super) fn default_of(expr: &Expr) -> Result<Option<ScalarValue>> {
    let Expr::AggregateFunction(call) = expr.clone().unalias() else { return Ok(None) };
    // Only a count is something; asked for with the type that a count has.
    let default = call.func.default_value(&arrow::datatypes::DataType::Int64)?;
    Ok((!default.is_null()).then_some(default))
}

/// A value of a group that may not be there.
pub(super) fn or_default(expr: Expr, default: Option<ScalarValue>) -> Result<Expr> {
    match default {
        None => Ok(expr),
        Some(default) => Ok(when(expr.clone().is_null(), Expr::Literal(default, None)).otherwise(expr)?),
    }
}

/// Columns once each; other expressions as they are.
fn distinct_columns(exprs: Vec<Expr>) -> Vec<Expr> {
    let mut seen: Vec<Expr> = Vec::with_capacity(exprs.len());
    for expr in exprs {
        if !matches!(expr, Expr::Column(_)) || !seen.contains(&expr) {
            seen.push(expr);
        }
    }
    seen
}

/// Where the keys stand among a plan's columns.
pub(super) fn positions(plan: &LogicalPlan, keys: &[Expr]) -> Result<Vec<usize>> {
    let columns = columns(plan);
    let position = |key: &Expr| {
        columns.iter().position(|column| column == key).ok_or_else(|| SqlError::internal("a key is a column"))
    };
    keys.iter().map(position).collect()
}

fn at(plan: &LogicalPlan, positions: &[usize]) -> Vec<Expr> {
    let columns = columns(plan);
    positions.iter().map(|at| columns[*at].clone()).collect()
}
