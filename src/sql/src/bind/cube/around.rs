//! Measures over a join of their cube with other relations.
//!
//! The join says which rows of the cube belong to a group, and a row belongs to it once, however many rows of the others it meets. So the
//! join is made with the cube's dimensions and the key of the cube whose measures are asked for; what it finds is treated as what the
//! model's own joins find. Aggregates of other columns are SQL's, over the rows of the join.

use super::answer::{Asked, under_names};
use super::groups::{Found, Part, aggregated, apart, both};
use super::instances::{At, Leaf, ROOT};
use super::measure::measured_in;
use super::{CubeScan, keeps_both, refused};
use crate::bind::Binder;
use datafusion::common::Column;
use datafusion::logical_expr::{Aggregate, Expr, Filter, LogicalPlan, Projection, SubqueryAlias};
use engine::error::SqlError;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A scan of a cube under an Aggregate node.
pub(super) struct Inside {
    pub(super) scan: CubeScan,
    pub(super) qualifier: String,
    /// Which of its columns anything refers to.
    pub(super) used: BTreeSet<String>,
    /// What of its members each call is.
    pub(super) calls: Vec<Option<String>>,
}

/// The plan of an Aggregate node with measures of one cube among its calls.
pub(super) fn around(binder: &mut Binder<'_>, aggregate: &Aggregate, inside: &Inside) -> Result<LogicalPlan, SqlError> {
    let mut asked = Asked::new(binder, &inside.scan, &inside.qualifier)?;
    let dimensions = asked.dimensions(&inside.used)?;
    let (mut values, mut plain) = (Vec::new(), Vec::new());
    for (call, member) in aggregate.aggr_expr.iter().zip(&inside.calls) {
        values.push(match member {
            Some(member) => {
                let value = asked.measure(member)?;
                let filter = measured_in(call).and_then(|(_, filter)| filter);
                filter.map_or(Ok(value.clone()), |filter| asked.filtered_by(value, filter))?
            }
            None => {
                let leaf = asked.instances.leaf(ROOT, call.clone().unalias(), None);
                plain.push(leaf.clone());
                leaf
            }
        });
    }
    let leaves = asked.leaves_in(&values)?;
    let conditions = asked.policies()?;
    let is_plain =
        |leaf: &Leaf| plain.iter().any(|plain| plain.try_as_col().is_some_and(|name| name.name == leaf.name));
    // A row can be found as one that passes a filter and as one that does not, so that each filter has rows of its own.
    let mut by_owner: Vec<(Option<(At, Option<&Expr>)>, Vec<&Leaf>)> = Vec::new();
    for leaf in &leaves {
        let of = (!is_plain(leaf)).then_some((leaf.owner, leaf.filter.as_ref()));
        match by_owner.iter_mut().find(|(known, _)| *known == of) {
            Some((_, leaves)) => leaves.push(leaf),
            None => by_owner.push((of, vec![leaf])),
        }
    }
    let mut all: Option<Part> = None;
    for (of, leaves) in by_owner {
        let owner = of.map(|(owner, _)| owner);
        let (rows, parts) = asked.rows_with_key(&dimensions, &conditions, owner)?;
        let carried = carried(&aggregate.input, &inside.qualifier, &(rows, parts));
        let Some((plan, parts)) = carried? else {
            return Err(refused(
                "a measure cannot be evaluated over what stands between it and its cube",
                "Evaluate it in a sub-query with GROUP BY over the cube, and go on from its result.",
            ));
        };
        let parts: Vec<Expr> = parts.into_iter().map(Expr::Column).collect();
        let keys = aggregate.group_expr.clone();
        let part = match owner {
            Some(owner) => apart(&mut asked.instances, &asked.rows, Found { plan, keys, parts }, owner, &leaves)?,
            None => {
                let calls = leaves.iter().map(|leaf| leaf.call.clone()).collect();
                let mut exprs = crate::bind::columns::columns_of_plan(&plan);
                let mut named = Vec::with_capacity(keys.len());
                for key in keys {
                    let name = asked.instances.binder.internal_name("key");
                    exprs.push(key.alias(&name));
                    named.push(Expr::Column(Column::from_name(name)));
                }
                let plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?);
                aggregated(plan, named, calls, &leaves)?
            }
        };
        all = Some(match all {
            None => part,
            Some(all) => both(&mut asked.instances, all, part)?,
        });
    }
    let part = all.ok_or_else(|| SqlError::internal("a measure is asked for"))?;
    let exprs = part.keys.iter().cloned().chain(values.iter().map(|value| part.over(value)));
    under_names(part.plan.clone(), exprs.collect(), &aggregate.schema)
}

/// A plan with rows in the place of a scan, and columns of these handed up; None if something is between that hands up none.
fn carried(
    plan: &LogicalPlan,
    scan: &str,
    rows: &(LogicalPlan, Vec<Column>),
) -> Result<Option<(LogicalPlan, Vec<Column>)>, SqlError> {
    Ok(match plan {
        LogicalPlan::TableScan(node) if node.table_name.table() == scan => Some(rows.clone()),
        LogicalPlan::Projection(projection) => match carried(&projection.input, scan, rows)? {
            Some((input, parts)) => {
                let exprs = projection.expr.iter().cloned().chain(parts.iter().cloned().map(Expr::Column)).collect();
                Some((LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?), parts))
            }
            None => None,
        },
        LogicalPlan::SubqueryAlias(alias) => match carried(&alias.input, scan, rows)? {
            Some((input, parts)) => {
                let name = alias.alias.clone();
                let parts = parts.into_iter().map(|part| Column::new(Some(name.clone()), part.name)).collect();
                Some((LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(input), name)?), parts))
            }
            None => None,
        },
        LogicalPlan::Filter(filter) => match carried(&filter.input, scan, rows)? {
            Some((input, parts)) => {
                Some((LogicalPlan::Filter(Filter::try_new(filter.predicate.clone(), Arc::new(input))?), parts))
            }
            None => None,
        },
        // The order of what is grouped is nobody's concern.
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => carried(&sort.input, scan, rows)?,
        LogicalPlan::Join(join) if keeps_both(join.join_type) => {
            let left = carried(&join.left, scan, rows)?;
            let (inputs, parts) = match left {
                Some((left, parts)) => (vec![left, join.right.as_ref().clone()], parts),
                None => match carried(&join.right, scan, rows)? {
                    Some((right, parts)) => (vec![join.left.as_ref().clone(), right], parts),
                    None => return Ok(None),
                },
            };
            Some((plan.with_new_exprs(plan.expressions(), inputs)?, parts))
        }
        _ => None,
    })
}
