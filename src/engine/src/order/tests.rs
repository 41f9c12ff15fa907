//! The order is the best of all, and whatever it is, the rows are the same.

use super::{Edge, Graph, Set, Tree, is_within, members};
use crate::collection::{CollectionReader, CollectionTable};
use crate::morsels::{Collection, InMemory};
use crate::{Engine, SessionInfo};
use arrow::array::{AsArray, Int32Array, RecordBatch};
use arrow::datatypes::Int32Type;
use async_trait::async_trait;
use datafusion::common::stats::Precision;
use datafusion::common::{JoinType, NullEquality, Result, Statistics};
use datafusion::logical_expr::{Expr, Join, JoinConstraint, LogicalPlan, LogicalPlanBuilder, TableScan, col, lit};
use futures::TryStreamExt;
use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
use repr::{GlobalId, PgType, RelationDesc};
use std::sync::Arc;

/// What a tree takes, by the same account.
fn cost(graph: &Graph, tree: &Tree) -> f64 {
    match tree {
        Tree::Relation(_) => 0.0,
        Tree::Join(sides) => {
            let of_sides = cost(graph, &sides.0) + cost(graph, &sides.1);
            of_sides + graph.cost(sides.0.set(), sides.1.set())
        }
    }
}

fn halves(set: Set) -> impl Iterator<Item = (Set, Set)> {
    (1..set)
        .filter(move |one| is_within(*one, set))
        .map(move |one| (one, set & !one))
        .filter(|(one, other)| one < other)
}

/// Every tree of a set that joins what has something in common, or what has nothing in common with all the rest.
fn all_trees(graph: &Graph, set: Set) -> Vec<Tree> {
    if set.count_ones() == 1 {
        return members(set).map(Tree::Relation).collect();
    }
    let can_be_joined =
        |one: Set, other: Set| graph.are_connected(one, other) || (graph.is_apart(one) && graph.is_apart(other));
    let mut trees = Vec::new();
    for (one, other) in halves(set).filter(|(one, other)| can_be_joined(*one, *other)) {
        let (left, right) = (all_trees(graph, one), all_trees(graph, other));
        let pairs = left.iter().flat_map(|left| right.iter().map(move |right| (left.clone(), right.clone())));
        trees.extend(pairs.map(|sides| Tree::Join(Box::new(sides))));
    }
    trees
}

const ROWS_MAX: usize = 5;

/// Relations `r0`, `r1`, … with columns `a` and `b`, of which more or less is said than there is.
#[derive(Clone, Debug)]
struct Relations {
    rows: Vec<Vec<(i32, i32)>>,
    said: Vec<Option<usize>>,
}

fn desc() -> Arc<RelationDesc> {
    Arc::new(RelationDesc::new(["a", "b"].map(|name| (name.to_owned(), PgType::Int4, false))))
}

fn at(id: GlobalId) -> usize {
    match id {
        GlobalId::User(id) => usize::try_from(id).expect("few"),
        _ => unreachable!("all are a user's"),
    }
}

#[async_trait]
impl CollectionReader for Relations {
    fn row_count(&self, id: GlobalId, _filters: &[Expr]) -> Option<usize> {
        Some(self.rows[at(id)].len())
    }

    fn statistics(&self, id: GlobalId) -> Option<Arc<Statistics>> {
        let num_rows = Precision::Inexact(self.said[at(id)]?);
        Some(Arc::new(Statistics { num_rows, total_byte_size: Precision::Absent, column_statistics: Vec::new() }))
    }

    async fn open(&self, id: GlobalId, _filters: &[Expr]) -> Result<Arc<dyn Collection>> {
        let rows = &self.rows[at(id)];
        let (a, b): (Vec<i32>, Vec<i32>) = rows.iter().copied().unzip();
        let columns: Vec<arrow::array::ArrayRef> = vec![Arc::new(Int32Array::from(a)), Arc::new(Int32Array::from(b))];
        Ok(Arc::new(InMemory(RecordBatch::try_new(Arc::clone(&desc().schema), columns)?)))
    }
}

async fn run(plan: &LogicalPlan, relations: Relations) -> Vec<Vec<i32>> {
    let (engine, session) = (Engine::new(&[]), SessionInfo::default());
    let plan = engine.optimize(plan.clone(), &session).expect("it is a plan");
    let stream = engine.execute(plan, &session, Arc::new(relations)).await.expect("it runs");
    let batches: Vec<RecordBatch> = stream.try_collect().await.expect("it runs to its end");
    let row = |batch: &RecordBatch, at: usize| {
        batch.columns().iter().map(|column| column.as_primitive::<Int32Type>().value(at)).collect()
    };
    let mut rows: Vec<Vec<i32>> =
        batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|at| row(batch, at))).collect();
    rows.sort();
    rows
}

/// FROM r0, r1, … with some conditions between them: each says a column of one equals, or is less than, one of another.
fn joined(count: usize, conditions: &[(usize, usize, bool, bool, bool)]) -> LogicalPlan {
    let scan = |at: usize| {
        let id = GlobalId::User(u64::try_from(at).expect("few"));
        LogicalPlanBuilder::scan(format!("r{at}"), CollectionTable::source(id, desc()), None).expect("a table")
    };
    let others = (1..count).try_fold(scan(0), |joined, at| joined.cross_join(scan(at).build()?));
    let column = |at: usize, first: bool| col(format!("r{}.{}", at % count, if first { "a" } else { "b" }));
    let mut plan = others.expect("sound");
    for (one, other, of_one, of_other, is_equal) in conditions {
        let (one, other) = (column(*one, *of_one), column(*other, *of_other));
        plan = plan.filter(if *is_equal { one.eq(other) } else { one.lt_eq(other) }).expect("sound");
    }
    let wanted: Vec<Expr> = (0..count).map(|at| column(at, at % 2 == 0)).collect();
    plan.project(wanted).and_then(LogicalPlanBuilder::build).expect("sound")
}

proptest! {
    #[test]
    fn no_order_takes_less(
        rows in prop::collection::vec(1_u32..1_000_000, 2..=6),
        edges in prop::collection::vec((0_usize..6, 0_usize..6, 1_u32..1_000_000), 0..9)) {
        let count = rows.len();
        let edges = edges.into_iter().map(|(one, other, keys)| (one % count, other % count, keys));
        let edges = edges.filter(|(one, other, _)| one != other);
        let edges = edges.map(|(one, other, keys)| Edge { set: 1 << one | 1 << other, passing: 1.0 / f64::from(keys) });
        let graph = Graph { rows: rows.into_iter().map(f64::from).collect(), edges: edges.collect(), filters: Vec::new() };
        let all = (1 << count) - 1;
        let least = all_trees(&graph, all).iter().map(|tree| cost(&graph, tree)).fold(f64::INFINITY, f64::min);
        let (best, next_best) = (graph.best_of_all(), graph.next_best());
        prop_assert!((cost(&graph, &best) - least).abs() <= least * 1e-9, "{} instead of {}", cost(&graph, &best), least);
        prop_assert_eq!((best.set(), next_best.set()), (all, all));
        prop_assert!(cost(&graph, &next_best) >= least * (1.0 - 1e-9));
    }

    #[test]
    fn rows_are_those_of_the_order_in_from(
        rows in prop::collection::vec(prop::collection::vec((0_i32..3, 0_i32..3), 0..ROWS_MAX), 2..=6),
        conditions in prop::collection::vec(
            (0_usize..6, 0_usize..6, any::<bool>(), any::<bool>(), prop::bool::weighted(0.8)), 1..8),
        said in prop::collection::vec(0_usize..1_000_000, 6)) {
        let conditions: Vec<_> = conditions.into_iter().filter(|(one, other, ..)| one % rows.len() != other % rows.len()).collect();
        let plan = joined(rows.len(), &conditions);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("it starts");
        let nothing = Relations { said: vec![None; 6], rows: rows.clone() };
        let expected = runtime.block_on(run(&plan, nothing));
        let something = Relations { said: said.into_iter().map(Some).collect(), rows };
        prop_assert_eq!(runtime.block_on(run(&plan, something)), expected);
    }
}

/// A key of which one side has become a constant is a condition on the other side.
#[test]
fn a_condition_about_one_relation_is_kept() {
    let scan = |at: u64| {
        let source = CollectionTable::source(GlobalId::User(at), desc());
        LogicalPlanBuilder::scan(format!("r{at}"), source, None).expect("a table")
    };
    let other = scan(1).build().expect("sound");
    let on = (vec![lit(5)], vec![col("r1.a")]);
    let join = Join::try_new(
        Arc::new(scan(0).build().expect("sound")),
        Arc::new(other),
        on.0.into_iter().zip(on.1).collect(),
        Some(col("r0.b").eq(lit(7))),
        JoinType::Inner,
        JoinConstraint::On,
        NullEquality::NullEqualsNothing,
        false,
    );
    let known = |_: &TableScan| {
        let num_rows = Precision::Inexact(10);
        Some(Arc::new(Statistics { num_rows, total_byte_size: Precision::Absent, column_statistics: Vec::new() }))
    };
    let ordered = super::order_joins(LogicalPlan::Join(join.expect("sound")), &known).expect("it is a plan");
    let text = ordered.display_indent().to_string();
    assert!(text.contains("Int32(5) = r1.a") && text.contains("r0.b = Int32(7)"), "{text}");
}

/// Outer joins, groups and what is nested stay where they are; what is below them is ordered.
#[test]
fn what_is_no_inner_join_bounds_a_region() {
    let scan = |at: u64| {
        let source = CollectionTable::source(GlobalId::User(at), desc());
        LogicalPlanBuilder::scan(format!("r{at}"), source, None).expect("a table")
    };
    let inner = scan(0).join(scan(1).build().expect("sound"), JoinType::Inner, (vec!["r0.a"], vec!["r1.a"]), None);
    let outer =
        inner.and_then(|inner| inner.join(scan(2).build()?, JoinType::Left, (vec!["r1.b"], vec!["r2.b"]), None));
    let plan =
        outer.and_then(|outer| outer.join(scan(3).build()?, JoinType::Inner, (vec!["r2.a"], vec!["r3.a"]), None));
    let plan = plan.and_then(LogicalPlanBuilder::build).expect("sound");
    let known = |scan: &TableScan| {
        let id = CollectionTable::from_source(&scan.source).expect("a table").id;
        let num_rows = Precision::Inexact([1_000, 10, 100, 1][at(id)]);
        Some(Arc::new(Statistics { num_rows, total_byte_size: Precision::Absent, column_statistics: Vec::new() }))
    };
    let ordered = super::order_joins(plan, &known).expect("it is a plan");
    let text = ordered.display_indent().to_string();
    let places: Vec<usize> = ["TableScan: r3", "Left Join", "TableScan: r1", "TableScan: r0", "TableScan: r2"]
        .map(|what| text.find(what).expect(what))
        .into();
    assert!(places.is_sorted(), "{text}");
}
