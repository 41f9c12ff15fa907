//! The plan of a question: aggregates of the rows of cubes, by the same keys.
//!
//! Aggregates are computed together where the same joins do for them. An aggregate whose rows the joins would multiply is computed
//! apart: the keys of its cube's rows are found for each group, each once, and the rows are joined to these. All groups are then the
//! same in every part, because joins keep all rows of the cube from which they begin, and the parts are joined by them.

use super::instances::{At, Instances, Leaf, ROOT, equal};
use crate::bind::columns::{alias_plan, columns_of_plan};
use crate::bind::logic::balanced;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, NullEquality};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, Filter, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, Projection, when,
};
use engine::error::SqlError;
use sql_functions::TypedExpr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Members of rows as columns: names in the query, and what they are.
#[derive(Default)]
pub(super) struct Rows {
    /// The qualifier of the columns.
    pub(super) qualifier: String,
    pub(super) members: BTreeMap<String, TypedExpr>,
    /// What policies demand: members of other rows are NULL. Whatever a query computes of them, and whenever that is done, it is not
    /// computed of a row that may not be seen, and no error tells of one.
    pub(super) guard: Option<Expr>,
}

/// What is asked of rows, in terms of their columns and of those of the instances.
pub(super) struct Grouped<'q> {
    pub(super) rows: &'q Rows,
    pub(super) keys: &'q [Expr],
    pub(super) conditions: &'q [Expr],
    pub(super) leaves: Vec<Leaf>,
}

/// A plan, and where in it keys and leaves are.
pub(super) struct Part {
    pub(super) plan: LogicalPlan,
    pub(super) keys: Vec<Expr>,
    pub(super) leaves: BTreeMap<String, Expr>,
}

/// How some leaves are computed: from the rows of a tree, or of one instance, whose rows the tree only finds.
#[derive(Clone, PartialEq, Eq)]
struct Way {
    tree: BTreeSet<At>,
    apart: Option<At>,
    /// Which of the rows that the tree finds count. A row can be found once as one that does and once as one that does not, so that
    /// nothing else goes by the same rows.
    passes: Option<Expr>,
}

impl Grouped<'_> {
    /// One row for each group, with keys and leaves.
    pub(super) fn plan(&self, instances: &mut Instances<'_, '_, '_>) -> Result<Part, SqlError> {
        let mut ways: Vec<(Way, Vec<&Leaf>)> = Vec::new();
        for leaf in &self.leaves {
            let way = self.way(instances, leaf)?;
            match ways.iter_mut().find(|(known, _)| *known == way) {
                Some((_, leaves)) => leaves.push(leaf),
                None => ways.push((way, vec![leaf])),
            }
        }
        if ways.is_empty() {
            let tree = instances.tree(ROOT, self.used(instances, None))?;
            ways.push((Way { tree, apart: None, passes: None }, Vec::new()));
        }
        let mut all: Option<Part> = None;
        for (way, leaves) in &ways {
            let part = match way.apart {
                None => self.together(instances, &way.tree, leaves)?,
                Some(owner) => self.apart(instances, &way.tree, owner, leaves)?,
            };
            all = Some(match all {
                None => part,
                Some(all) => both(instances, all, part)?,
            });
        }
        all.ok_or_else(|| SqlError::internal("a question has a part"))
    }

    /// The instances that keys, conditions and the filter of a leaf need.
    fn used(&self, instances: &Instances<'_, '_, '_>, leaf: Option<&Leaf>) -> BTreeSet<At> {
        let exprs = self.keys.iter().chain(self.conditions).chain(leaf.and_then(|leaf| leaf.filter.as_ref()));
        exprs.flat_map(|expr| self.rows.used_by(instances, expr)).collect()
    }

    fn way(&self, instances: &Instances<'_, '_, '_>, leaf: &Leaf) -> Result<Way, SqlError> {
        let mut used = self.used(instances, Some(leaf));
        used.insert(leaf.owner);
        let with_arguments = used.iter().copied().chain(self.rows.used_by(instances, &leaf.call));
        let whole = instances.tree(ROOT, with_arguments)?;
        if ignores_copies(&leaf.call) || !instances.is_multiplied(leaf.owner, &whole) {
            return Ok(Way { tree: whole, apart: None, passes: None });
        }
        let tree = instances.tree(ROOT, used)?;
        Ok(Way { tree, apart: Some(leaf.owner), passes: leaf.filter.clone() })
    }

    /// The rows of a tree that meet the conditions, with the columns of its instances and of the members that are there.
    fn conditioned(&self, instances: &Instances<'_, '_, '_>, tree: &BTreeSet<At>) -> Result<LogicalPlan, SqlError> {
        conditioned(self.rows.of(instances, tree)?, self.conditions)
    }

    fn together(
        &self,
        instances: &mut Instances<'_, '_, '_>,
        tree: &BTreeSet<At>,
        leaves: &[&Leaf],
    ) -> Result<Part, SqlError> {
        let plan = self.conditioned(instances, tree)?;
        let mut exprs = columns_of_plan(&plan);
        let mut keys = Vec::with_capacity(self.keys.len());
        for key in self.keys {
            let name = instances.binder.internal_name("key");
            exprs.push(key.clone().alias(&name));
            keys.push(Expr::Column(Column::from_name(name)));
        }
        let plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?);
        let mut calls = Vec::with_capacity(leaves.len());
        for leaf in leaves {
            let is_there = if leaf.owner == ROOT { None } else { Some(instances.is_there(leaf.owner)?) };
            calls.push(filtered(leaf, leaf.filter.clone().into_iter().chain(is_there).reduce(Expr::and)));
        }
        aggregated(plan, keys, calls, leaves)
    }

    fn apart(
        &self,
        instances: &mut Instances<'_, '_, '_>,
        tree: &BTreeSet<At>,
        owner: At,
        leaves: &[&Leaf],
    ) -> Result<Part, SqlError> {
        let asked = instances.cube(owner).name().to_owned();
        let parts = instances.key(owner, &asked)?.into_iter().map(|part| part.expr).collect();
        let found = Found { plan: self.conditioned(instances, tree)?, keys: self.keys.to_vec(), parts };
        apart(instances, self.rows, found, owner, leaves)
    }
}

/// Rows in which there are, for each group, the rows of a cube by their key.
pub(super) struct Found {
    pub(super) plan: LogicalPlan,
    pub(super) keys: Vec<Expr>,
    /// The parts of the cube's key.
    pub(super) parts: Vec<Expr>,
}

/// Leaves over the rows of an instance that are found for each group, each once. They have one filter, over the rows in which these are
/// found.
pub(super) fn apart(
    instances: &mut Instances<'_, '_, '_>,
    rows: &Rows,
    found: Found,
    owner: At,
    leaves: &[&Leaf],
) -> Result<Part, SqlError> {
    let asked = instances.cube(owner).name().to_owned();
    let own_key = instances.key(owner, &asked)?;
    let mut exprs = Vec::new();
    let mut named = |kind: &str, expr: &Expr| {
        let name = instances.binder.internal_name(kind);
        exprs.push(expr.clone().alias(&name));
        name
    };
    let keys: Vec<String> = found.keys.iter().map(|key| named("key", key)).collect();
    let parts: Vec<String> = found.parts.iter().map(|part| named("part", part)).collect();
    let filter = leaves.first().and_then(|leaf| leaf.filter.as_ref());
    debug_assert!(leaves.iter().all(|leaf| leaf.filter.as_ref() == filter), "rows are found for one filter");
    let passes = filter.map(|filter| named("passes", filter));
    let found = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(found.plan))?);
    let found = LogicalPlan::Distinct(Distinct::All(Arc::new(found)));
    let qualifier = instances.binder.qualifier("found");
    let found = alias_plan(found, &qualifier)?;
    let column = |name: &String| Expr::Column(Column::new(Some(qualifier.as_str()), name));
    let arguments = leaves.iter().flat_map(|leaf| rows.used_by(instances, &leaf.call));
    let tree = instances.tree(owner, arguments)?;
    let own = rows.of(instances, &tree)?;
    let on = parts.iter().zip(own_key).map(|(part, own)| equal(column(part), own.expr));
    let plan = LogicalPlanBuilder::from(found).join_on(own, JoinType::Left, on)?.build()?;
    let counts = passes.as_ref().map(column).into_iter().chain([instances.is_there(owner)?]).reduce(Expr::and);
    let calls = leaves.iter().map(|leaf| filtered(leaf, counts.clone())).collect();
    aggregated(plan, keys.iter().map(column).collect(), calls, leaves)
}

impl Part {
    /// An expression over leaves as one over the columns of this part.
    pub(super) fn over(&self, expr: &Expr) -> Expr {
        let column_of = |expr: &Expr| match expr {
            Expr::Column(Column { relation: None, name, .. }) => self.leaves.get(name).cloned(),
            _ => None,
        };
        let replaced = expr.clone().transform_down(|expr| {
            Ok(match column_of(&expr) {
                Some(column) => Transformed::new(column, true, TreeNodeRecursion::Jump),
                None => Transformed::no(expr),
            })
        });
        replaced.expect("the visitor does not fail").data
    }
}

/// The rows of a plan that meet all conditions.
pub(super) fn conditioned(plan: LogicalPlan, conditions: &[Expr]) -> Result<LogicalPlan, SqlError> {
    if conditions.is_empty() {
        return Ok(plan);
    }
    let all = balanced(conditions.to_vec(), Operator::And);
    Ok(LogicalPlan::Filter(Filter::try_new(all, Arc::new(plan))?))
}

impl Rows {
    /// The rows of a tree with the columns of its instances, and the members that are made of these.
    pub(super) fn of(&self, instances: &Instances<'_, '_, '_>, tree: &BTreeSet<At>) -> Result<LogicalPlan, SqlError> {
        let plan = instances.joined(tree)?;
        let mut exprs = columns_of_plan(&plan);
        let guard = self.guard.as_ref().filter(|guard| instances.used_by(guard).is_subset(tree));
        for (name, member) in &self.members {
            if instances.used_by(&member.expr).is_subset(tree) {
                let value = match guard {
                    Some(guard) => when(guard.clone(), member.expr.clone()).end()?,
                    None => member.expr.clone(),
                };
                exprs.push(value.alias_qualified(Some(self.qualifier.as_str()), name));
            }
        }
        Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?))
    }

    /// The instances behind an expression over these columns and those of instances.
    pub(super) fn used_by(&self, instances: &Instances<'_, '_, '_>, expr: &Expr) -> BTreeSet<At> {
        let mut used = instances.used_by(expr);
        for column in super::ask::columns_in(expr) {
            if column.relation.as_ref().is_some_and(|of| of.table() == self.qualifier)
                && let Some(member) = self.members.get(&column.name)
            {
                used.extend(instances.used_by(&member.expr));
            }
        }
        used
    }
}

/// Whether an aggregate is the same if rows come several times.
fn ignores_copies(call: &Expr) -> bool {
    let Expr::AggregateFunction(call) = call else { return false };
    call.params.distinct || matches!(call.func.name(), "min" | "max" | "bool_and" | "bool_or" | "bit_and" | "bit_or")
}

/// The call of a leaf over the rows that pass.
fn filtered(leaf: &Leaf, passes: Option<Expr>) -> Expr {
    let mut call = leaf.call.clone();
    if let (Expr::AggregateFunction(AggregateFunction { params, .. }), Some(passes)) = (&mut call, passes) {
        let both = match params.filter.take() {
            Some(filter) => filter.and(passes),
            None => passes,
        };
        params.filter = Some(Box::new(both));
    }
    call
}

pub(super) fn aggregated(
    plan: LogicalPlan,
    keys: Vec<Expr>,
    calls: Vec<Expr>,
    leaves: &[&Leaf],
) -> Result<Part, SqlError> {
    let named = calls.into_iter().zip(leaves).map(|(call, leaf)| call.alias(&leaf.name)).collect();
    let plan = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(plan), keys.clone(), named)?);
    let column = |leaf: &&Leaf| (leaf.name.clone(), Expr::Column(Column::from_name(&leaf.name)));
    Ok(Part { plan, keys, leaves: leaves.iter().map(column).collect() })
}

/// Two parts as one: each group of the one with the same of the other.
pub(super) fn both(instances: &mut Instances<'_, '_, '_>, left: Part, right: Part) -> Result<Part, SqlError> {
    let [left, right] = [left, right].map(|part| under(instances, part));
    let (left, right) = (left?, right?);
    let plan = LogicalPlanBuilder::from(left.plan);
    let columns = |keys: &[Expr]| keys.iter().filter_map(Expr::try_as_col).cloned().collect::<Vec<Column>>();
    let plan = match left.keys.is_empty() {
        true => plan.cross_join(right.plan)?,
        false => {
            let keys = (columns(&left.keys), columns(&right.keys));
            plan.join_detailed(right.plan, JoinType::Inner, keys, None, NullEquality::NullEqualsNull)?
        }
    };
    let mut leaves = left.leaves;
    leaves.extend(right.leaves);
    Ok(Part { plan: plan.build()?, keys: left.keys, leaves })
}

/// A part under a qualifier of its own.
fn under(instances: &mut Instances<'_, '_, '_>, part: Part) -> Result<Part, SqlError> {
    let qualifier = instances.binder.qualifier("part");
    let plan = alias_plan(part.plan, &qualifier)?;
    let renamed = |expr: &Expr| match expr {
        Expr::Column(column) => Expr::Column(Column::new(Some(qualifier.as_str()), &column.name)),
        other => other.clone(),
    };
    let keys = part.keys.iter().map(renamed).collect();
    let leaves = part.leaves.iter().map(|(name, expr)| (name.clone(), renamed(expr))).collect();
    Ok(Part { plan, keys, leaves })
}
