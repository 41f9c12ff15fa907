//! In which order relations are joined.
//!
//! DataFusion joins them as FROM names them. Here a *region*, a tree of inner joins as large as there is one, is taken apart into its
//! relations and the conditions between them, and put together again so that as few rows as possible come out of its joins. Up to
//! [`ALL_ORDERS_MAX`] relations every order is looked at, in trees of any shape; of more, the two are joined next of which the fewest
//! rows come. Where the rows of a relation are not known, FROM's order stays.
//!
//! Conditions that can fail are no conditions of a region: they are evaluated where they were.

use crate::estimate::{Estimate, Known, equal_pairs};
use crate::rules::guard::can_fail;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, NullEquality, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, Filter, Join, JoinConstraint, JoinType, LogicalPlan, Projection};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Relations of which every order is looked at: some thousands of pairs of sets.
const ALL_ORDERS_MAX: usize = 8;
/// Relations that are ordered at all.
const RELATIONS_MAX: usize = 64;

/// The same plan, whose inner joins are in the order that gives the fewest rows by what is known.
pub(crate) fn order_joins(plan: LogicalPlan, known: Known<'_>) -> Result<LogicalPlan> {
    let ordered = plan.transform_down_with_subqueries(|node| {
        let Some(region) = Region::of(&node) else { return Ok(Transformed::no(node)) };
        // Nothing of a region is done before it is known that it will be ordered: what is below would be done again with each join of it.
        let estimates =
            region.relations.iter().map(|relation| Estimate::of(relation, known)).collect::<Option<Vec<_>>>();
        let Some(estimates) = estimates else { return Ok(Transformed::no(node)) };
        let ordered = region.ordered(&estimates, node.schema(), known)?;
        Ok(Transformed::new(ordered, true, TreeNodeRecursion::Jump))
    });
    Ok(ordered?.data)
}

/// A set of relations, by their places.
type Set = u64;

/// A tree of inner joins, taken apart.
#[derive(Default)]
struct Region {
    relations: Vec<LogicalPlan>,
    /// Pairs that have to be equal, each of columns of its own relations.
    equalities: Vec<Equality>,
    /// All other conditions, with the relations that they are about.
    filters: Vec<(Expr, Set)>,
}

/// Two expressions that have to be equal.
struct Equality {
    sides: [Expr; 2],
    /// The relations that each is about.
    of: [Set; 2],
}

impl Region {
    /// The region that a plan is, if it is a join of two relations or more.
    fn of(plan: &LogicalPlan) -> Option<Region> {
        joined_below(plan)?;
        let mut region = Region::default();
        let (mut equalities, mut filters) = (Vec::new(), Vec::new());
        // Joins may be as deep as there are relations.
        let mut left = vec![plan];
        while let Some(plan) = left.pop() {
            let Some(join) = joined_below(plan) else {
                region.relations.push(plan.clone());
                if region.relations.len() > RELATIONS_MAX {
                    return None;
                }
                continue;
            };
            left.extend([join.right.as_ref(), join.left.as_ref()]);
            equalities.extend(join.on.iter().cloned());
            filters.extend(join.filter.iter().flat_map(split_conjunction).cloned());
        }
        // Columns are known by their names: each must be in one relation.
        let all = || region.relations.iter().flat_map(|relation| relation.schema().columns());
        let has = |column: &Column| region.relations.iter().filter(|of| of.schema().has_column(column)).count();
        if all().collect::<HashSet<_>>().len() < all().count() || all().any(|column| has(&column) != 1) {
            return None;
        }
        for (one, other) in equalities {
            let of = [region.about(&one)?, region.about(&other)?];
            // A side that has become a constant joins nothing.
            match (of[0] | of[1]).count_ones() {
                0 | 1 => filters.push(one.eq(other)),
                _ => region.equalities.push(Equality { sides: [one, other], of }),
            }
        }
        for filter in filters {
            let of = region.about(&filter)?;
            region.filters.push((filter, of));
        }
        Some(region)
    }

    /// The relations that an expression is about; `None` if one of its columns is in none.
    fn about(&self, expr: &Expr) -> Option<Set> {
        let place =
            |column: &Column| self.relations.iter().position(|of| of.schema().maybe_index_of_column(column).is_some());
        expr.column_refs().into_iter().try_fold(0, |set, column| Some(set | 1 << place(column)?))
    }

    /// The same joined in the best order, with the columns of `schema`.
    fn ordered(mut self, estimates: &[Estimate], schema: &Arc<DFSchema>, known: Known<'_>) -> Result<LogicalPlan> {
        let tree = Graph::new(&self, estimates).best();
        let relations = std::mem::take(&mut self.relations);
        self.relations = relations.into_iter().map(|of| order_joins(of, known)).collect::<Result<_>>()?;
        let wanted = schema.columns();
        let joined = Arc::new(self.joined(&tree, &wanted)?);
        let columns = wanted.into_iter().map(Expr::Column).collect();
        Ok(LogicalPlan::Projection(Projection::try_new_with_schema(columns, joined, Arc::clone(schema))?))
    }

    /// A relation, of which those rows are left that pass the conditions about it alone.
    fn relation(&self, at: usize) -> Result<LogicalPlan> {
        let relation = self.relations[at].clone();
        let own = self.filters.iter().filter(|(_, of)| *of == 1 << at).map(|(filter, _)| filter.clone());
        Ok(match conjunction(own) {
            Some(own) => LogicalPlan::Filter(Filter::try_new(own, Arc::new(relation))?),
            None => relation,
        })
    }

    /// The joins of a tree, which give the wanted columns and those that conditions above need.
    fn joined(&self, tree: &Tree, wanted: &[Column]) -> Result<LogicalPlan> {
        let (left, right) = match tree {
            Tree::Relation(at) => return self.relation(*at),
            Tree::Join(sides) => (&sides.0, &sides.1),
        };
        let (one, other) = (left.set(), right.set());
        let (mut on, mut filters) = (Vec::new(), Vec::new());
        for equality in &self.equalities {
            let [first, second] = &equality.sides;
            match equality.of {
                of if is_within(of[0] | of[1], one) || is_within(of[0] | of[1], other) => {}
                of if is_within(of[0], one) && is_within(of[1], other) => on.push((first.clone(), second.clone())),
                of if is_within(of[1], one) && is_within(of[0], other) => on.push((second.clone(), first.clone())),
                of if is_within(of[0] | of[1], one | other) => filters.push(first.clone().eq(second.clone())),
                _ => {}
            }
        }
        let is_next = |of: Set| is_within(of, one | other) && !is_within(of, one) && !is_within(of, other);
        // What is about nothing is said once, where everything is there.
        let is_root = (one | other).count_ones() as usize == self.relations.len();
        let next = self.filters.iter().filter(|(_, of)| is_next(*of) || (*of == 0 && is_root));
        filters.extend(next.map(|(filter, _)| filter.clone()));
        let (left, right) = (self.joined(left, wanted)?, self.joined(right, wanted)?);
        let (kind, nulls) = (JoinType::Inner, NullEquality::NullEqualsNothing);
        let filter = conjunction(filters);
        let join = Join::try_new(Arc::new(left), Arc::new(right), on, filter, kind, JoinConstraint::On, nulls, false)?;
        let join = LogicalPlan::Join(join);
        if is_root {
            return Ok(join);
        }
        // What conditions above are about, and what comes out in the end.
        let above = self.equalities.iter().filter(|equality| !is_within(equality.of[0] | equality.of[1], one | other));
        let above = above.flat_map(|equality| &equality.sides);
        let above =
            above.chain(self.filters.iter().filter(|(_, of)| !is_within(*of, one | other)).map(|(filter, _)| filter));
        let needed: HashSet<&Column> = above.flat_map(Expr::column_refs).chain(wanted).collect();
        let is_needed = |column: &Column| {
            let by_name = || needed.iter().any(|needed| needed.relation.is_none() && needed.name == column.name);
            needed.contains(column) || by_name()
        };
        let columns: Vec<Column> = join.schema().columns().into_iter().filter(is_needed).collect();
        if columns.len() == join.schema().fields().len() || columns.is_empty() {
            return Ok(join);
        }
        Ok(LogicalPlan::Projection(Projection::try_new(
            columns.into_iter().map(Expr::Column).collect(),
            Arc::new(join),
        )?))
    }
}

/// Whether a join may be taken apart: it is an inner one, and none of its conditions can fail.
fn can_be_taken(join: &Join) -> bool {
    join.join_type == JoinType::Inner
        && join.null_equality == NullEquality::NullEqualsNothing
        && !join.filter.iter().chain(join.on.iter().flat_map(|(one, other)| [one, other])).any(can_fail)
}

/// The join that can be taken apart here, under a projection that only chooses columns, which is seen to anew.
fn joined_below(plan: &LogicalPlan) -> Option<&Join> {
    match plan {
        LogicalPlan::Join(join) => Some(join).filter(|join| can_be_taken(join)),
        LogicalPlan::Projection(projection) if projection.expr.iter().all(|expr| matches!(expr, Expr::Column(_))) => {
            match projection.input.as_ref() {
                LogicalPlan::Join(join) => Some(join).filter(|join| can_be_taken(join)),
                _ => None,
            }
        }
        _ => None,
    }
}

fn is_within(set: Set, of: Set) -> bool {
    set & !of == 0
}

/// How relations are joined.
#[derive(Clone, Debug, PartialEq)]
enum Tree {
    Relation(usize),
    Join(Box<(Tree, Tree)>),
}

impl Tree {
    fn set(&self) -> Set {
        match self {
            Tree::Relation(at) => 1 << at,
            Tree::Join(sides) => sides.0.set() | sides.1.set(),
        }
    }
}

/// What an order is chosen by: how many rows there are, and how many pairs of them are equal.
struct Graph {
    /// By relation.
    rows: Vec<f64>,
    edges: Vec<Edge>,
    /// What part of the rows passes the filters about some relations.
    filters: Vec<(f64, Set)>,
}

/// Equalities between two relations.
struct Edge {
    set: Set,
    /// What part of all pairs is equal.
    passing: f64,
}

impl Graph {
    fn new(region: &Region, estimates: &[Estimate]) -> Graph {
        let rows: Vec<f64> = estimates.iter().map(|estimate| estimate.rows.max(1.0)).collect();
        let distinct = |expr: &Expr, set: Set| {
            let at = usize::try_from(set.trailing_zeros()).expect("few bits");
            estimates[at].distinct(region.relations[at].schema(), expr)
        };
        // Several equalities of the same two relations are one key, which has no more values than there are rows.
        let mut pairs: BTreeMap<(Set, Set), Vec<(f64, f64)>> = BTreeMap::new();
        let mut filters: Vec<(f64, Set)> = Vec::new();
        for Equality { sides: [one, other], of: [left, right] } in &region.equalities {
            match (left.count_ones(), right.count_ones()) {
                (1, 1) if left != right => {
                    let (one, other) = (distinct(one, *left), distinct(other, *right));
                    let (key, values) =
                        if left < right { ((*left, *right), (one, other)) } else { ((*right, *left), (other, one)) };
                    pairs.entry(key).or_default().push(values);
                }
                _ => filters.push((FILTER, left | right)),
            }
        }
        filters.extend(region.filters.iter().map(|(_, set)| (FILTER, *set)));
        let edge = |((one, other), key): ((Set, Set), Vec<(f64, f64)>)| {
            let row_count = |set: Set| rows[usize::try_from(set.trailing_zeros()).expect("few bits")];
            Edge { set: one | other, passing: equal_pairs(key.into_iter(), row_count(one), row_count(other)) }
        };
        let edges = pairs.into_iter().map(edge).collect();
        Graph { edges, filters, rows }
    }

    /// How many rows the join of some relations has, in whatever order.
    fn rows(&self, set: Set) -> f64 {
        let all: f64 = members(set).map(|at| self.rows[at]).product();
        let edges = self.edges.iter().filter(|edge| is_within(edge.set, set)).map(|edge| edge.passing);
        let filters = self.filters.iter().filter(|(_, of)| is_within(*of, set)).map(|(passing, _)| passing);
        (all * edges.product::<f64>() * filters.product::<f64>()).max(1.0)
    }

    /// Whether something has to be equal between two sets.
    fn are_connected(&self, one: Set, other: Set) -> bool {
        self.edges.iter().any(|edge| is_within(edge.set, one | other) && edge.set & one != 0 && edge.set & other != 0)
    }

    /// What it takes to join two sets whose rows are there: the rows that come out, and those that are kept meanwhile.
    fn cost(&self, one: Set, other: Set) -> f64 {
        self.rows(one | other) + self.rows(one).min(self.rows(other))
    }

    fn best(&self) -> Tree {
        match self.rows.len() <= ALL_ORDERS_MAX {
            true => self.best_of_all(),
            false => self.next_best(),
        }
    }

    /// The tree that takes the least of all that join what has something in common. What has nothing in common with the rest is joined
    /// by itself, and then with the rest.
    fn best_of_all(&self) -> Tree {
        let all = (1 << self.rows.len()) - 1;
        let mut best: BTreeMap<Set, (f64, Tree)> =
            (0..self.rows.len()).map(|at| (1 << at, (0.0, Tree::Relation(at)))).collect();
        for set in (1..=all).filter(|set: &Set| set.count_ones() > 1) {
            let is_apart = self.is_apart(set);
            let mut found: Option<(f64, Set)> = None;
            // Each pair once: the half that has the first relation.
            let first = set & set.wrapping_neg();
            let mut one = (set - 1) & set;
            while one > 0 {
                let other = set & !one;
                let can_be_joined = || self.are_connected(one, other) || (is_apart && self.is_apart(one));
                if one & first != 0
                    && let (Some((of_one, _)), Some((of_other, _))) = (best.get(&one), best.get(&other))
                    && can_be_joined()
                {
                    let cost = of_one + of_other + self.cost(one, other);
                    if found.is_none_or(|(least, _)| cost < least) {
                        found = Some((cost, one));
                    }
                }
                one = (one - 1) & set;
            }
            if let Some((cost, one)) = found {
                let tree = self.join(best[&one].1.clone(), best[&(set & !one)].1.clone());
                best.insert(set, (cost, tree));
            }
        }
        best.remove(&all).expect("all relations can be joined").1
    }

    /// Whether nothing has to be equal between a set and the rest.
    fn is_apart(&self, set: Set) -> bool {
        self.edges.iter().all(|edge| is_within(edge.set, set) || edge.set & set == 0)
    }

    /// The tree whose next join is always the one that gives the fewest rows.
    fn next_best(&self) -> Tree {
        let mut trees: Vec<Tree> = (0..self.rows.len()).map(Tree::Relation).collect();
        while trees.len() > 1 {
            let pairs = (0..trees.len()).flat_map(|one| (one + 1..trees.len()).map(move |other| (one, other)));
            let measured = pairs.map(|(one, other)| {
                let (left, right) = (trees[one].set(), trees[other].set());
                (!self.are_connected(left, right), self.rows(left | right), one, other)
            });
            let next = measured.min_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
            let (_, _, one, other) = next.expect("there are two");
            let (right, left) = (trees.swap_remove(other), std::mem::replace(&mut trees[one], Tree::Relation(0)));
            trees[one] = self.join(left, right);
        }
        trees.pop().expect("there are relations")
    }

    /// The smaller side comes first: its rows are kept.
    fn join(&self, one: Tree, other: Tree) -> Tree {
        let is_ordered = self.rows(one.set()) <= self.rows(other.set());
        Tree::Join(Box::new(if is_ordered { (one, other) } else { (other, one) }))
    }
}

/// What part of pairs of rows passes a condition that is no equality.
const FILTER: f64 = 0.25;

fn members(set: Set) -> impl Iterator<Item = usize> {
    (0..usize::try_from(Set::BITS).expect("few bits")).filter(move |at| set >> at & 1 == 1)
}

#[cfg(test)]
mod tests;
