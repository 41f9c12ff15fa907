//! A plan that no SQL was bound for, made by hand with the engine alone: it is run, explained, asked for what it reads, and maintained,
//! and what is maintained is what running it gives. So a second dialect needs the engine, and no part of the first.

use arrangement::allowance::Allowance;
use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::DataType;
use async_trait::async_trait;
use compute_client::clock::CollectionClock;
use compute_client::controller::Controller;
use compute_client::hydration::Piece;
use compute_client::index::{Clocks, IndexHandle, Schedules};
use compute_client::plan::lower::lower;
use compute_client::protocol::{IndexSpec, KeyExpr};
use compute_client::tail::Tail;
use datafusion::common::{Result, Statistics};
use datafusion::functions_aggregate::expr_fn::{count, sum};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, col, lit};
use engine::reads::{Read, of_plan};
use engine::{Collection, CollectionReader, CollectionTable, Engine, InMemory, SessionInfo};
use futures::TryStreamExt;
use futures::executor::block_on;
use glimpse_compute::LocalWorkers;
use ore::memory::Share;
use ore::thread::OwnThreads;
use repr::datum::from_array;
use repr::row::write_datum;
use repr::{Datum, GlobalId, PgType, RelationDesc, Updates};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const CLUSTER: u64 = 1;
const ORDERS: GlobalId = GlobalId::User(1);
const AS_OF: u64 = 10;

/// Customer and amount.
type Order = (i32, i64);

fn orders() -> Arc<RelationDesc> {
    let columns = [("customer", PgType::Int4), ("amount", PgType::Int8), ("note", PgType::Text)];
    Arc::new(RelationDesc::new(columns.map(|(name, ty)| (name.to_owned(), ty, true))))
}

/// For each customer with an order over 10: how many of these there are, and their sum.
fn plan() -> LogicalPlan {
    let scan = LogicalPlanBuilder::scan("orders", CollectionTable::source(ORDERS, orders()), Some(vec![0, 1]));
    let large = scan.and_then(|scan| scan.filter(col("amount").gt(lit(10_i64))));
    let grouped = large.and_then(|large| {
        let aggregates: [Expr; 2] = [count(lit(1_i64)).alias("orders"), sum(col("amount")).alias("total")];
        large.aggregate([col("customer")], aggregates)
    });
    grouped.and_then(LogicalPlanBuilder::build).expect("the plan is sound")
}

/// Orders as the ad hoc engine reads them.
struct Orders(Vec<Order>);

#[async_trait]
impl CollectionReader for Orders {
    fn row_count(&self, _id: GlobalId, _filters: &[Expr]) -> Option<usize> {
        Some(self.0.len())
    }

    fn statistics(&self, _id: GlobalId) -> Option<Arc<Statistics>> {
        None
    }

    async fn open(&self, id: GlobalId, _filters: &[Expr]) -> Result<Arc<dyn Collection>> {
        assert_eq!(id, ORDERS);
        let customers = Int32Array::from_iter_values(self.0.iter().map(|(customer, _)| *customer));
        let amounts = Int64Array::from_iter_values(self.0.iter().map(|(_, amount)| *amount));
        let notes = StringViewArray::new_null(self.0.len());
        let columns: Vec<ArrayRef> = vec![Arc::new(customers), Arc::new(amounts), Arc::new(notes)];
        Ok(Arc::new(InMemory(RecordBatch::try_new(Arc::clone(&orders().schema), columns)?)))
    }
}

/// What running the plan over these orders gives, as stored rows.
fn run(engine: &Engine, plan: &LogicalPlan, all: &[Order]) -> BTreeSet<Vec<u8>> {
    let session = SessionInfo::default();
    let batches: Vec<RecordBatch> = block_on(async {
        let stream = engine.execute(plan.clone(), &session, Arc::new(Orders(all.to_vec()))).await.expect("it runs");
        stream.try_collect().await.expect("it runs to its end")
    });
    let mut rows = BTreeSet::new();
    for batch in &batches {
        for at in 0..batch.num_rows() {
            let mut row = Vec::new();
            for column in batch.columns() {
                let value = from_array(column, at).expect("a value of a known type");
                write_datum(&mut row, column.data_type(), &value).expect("it can be written");
            }
            assert!(rows.insert(row), "a group is there once");
        }
    }
    rows
}

/// Orders that come or go, as tables hold them.
fn updates(changes: &[(Order, i64)]) -> Arc<Updates> {
    let mut updates = Updates::new();
    for ((customer, amount), diff) in changes {
        let written = updates.push_with(*diff, |out| {
            write_datum(out, &DataType::Int32, &Datum::Int4(*customer))?;
            write_datum(out, &DataType::Int64, &Datum::Int8(*amount))?;
            write_datum(out, &PgType::Text.data_type(), &Datum::Null)
        });
        written.expect("it can be written");
    }
    Arc::new(updates)
}

/// What is maintained at a time.
fn maintained(handle: &Arc<IndexHandle>, at: u64) -> BTreeSet<Vec<u8>> {
    let (mut contents, _tail) = block_on(Tail::since(Arc::clone(handle), at, usize::MAX)).expect("it is readable");
    let mut rows = BTreeMap::new();
    while let Some(updates) = contents.next_rows(1_000) {
        updates.iter().for_each(|(row, count)| *rows.entry(row.to_vec()).or_insert(0) += count);
    }
    assert!(rows.values().all(|count| *count == 1), "{rows:?}");
    rows.into_keys().collect()
}

#[test]
fn a_plan_made_by_hand_is_run_explained_and_maintained() {
    let engine = Engine::new(&[]);
    let plan = plan();
    let reads = of_plan(&plan).expect("every scan is one of ours");
    assert_eq!(reads, [Read { id: ORDERS, columns: BTreeSet::from([0, 1]) }], "and not the note");

    let plan = engine.optimize(plan, &SessionInfo::default()).expect("it is optimised");
    let explained = plan.display_indent().to_string();
    assert!(explained.contains("TableScan: orders") && explained.contains("sum(orders.amount)"), "{explained}");

    let mut all: Vec<Order> = vec![(1, 5), (1, 11), (2, 20), (2, 30), (3, 1)];
    let lowered = lower(&plan, &engine).expect("it can be maintained");
    assert!(lowered.to_string().contains("u1"), "{lowered}");
    let mut controller =
        Controller::new(Box::new(LocalWorkers), Arc::new(OwnThreads), &Share::root(usize::MAX, None), usize::MAX);
    controller.create_cluster(CLUSTER, "test", 1);
    let clock = Arc::new(CollectionClock::default());
    let clocks = Clocks::from([(ORDERS, Arc::clone(&clock))]);
    let handle = Arc::new(IndexHandle::new(GlobalId::User(2), 1, clocks, Schedules::new(), Allowance::unlimited()));
    let spec = IndexSpec {
        id: handle.id,
        name: "by hand".to_owned(),
        plan: lowered,
        key: vec![KeyExpr::Column(0)],
        maintained: BTreeSet::new(),
        as_of: AS_OF,
        from: AS_OF,
        handle: Arc::clone(&handle),
    };
    let first = updates(&all.iter().map(|order| (*order, 1)).collect::<Vec<_>>());
    let hydrate = move |give: &mut compute_client::controller::Feed<'_>| give(ORDERS, AS_OF, Piece::Oks(first));
    controller.create_index(CLUSTER, spec, None, std::future::ready(()), hydrate).expect("the cluster is there");
    clock.advance(AS_OF);
    let before = run(&engine, &plan, &all);
    assert_eq!(before.len(), 2);
    assert_eq!(maintained(&handle, AS_OF), before);

    // An order comes that makes a group, one goes that was the last of its group, and one that nobody counted.
    let changes = [((3, 100), 1), ((1, 11), -1), ((1, 5), -1), ((2, 40), 1)];
    for (order, diff) in changes {
        match diff {
            1 => all.push(order),
            _ => drop(all.remove(all.iter().position(|known| *known == order).expect("it is there"))),
        }
    }
    clock.advance(AS_OF + 1);
    let writes = Arc::from([(ORDERS, vec![updates(&changes)])]);
    controller.append(AS_OF + 1, 0, &writes).expect("the cluster is there");
    let after = run(&engine, &plan, &all);
    assert_ne!(after, before);
    assert_eq!(maintained(&handle, AS_OF + 1), after);
}
