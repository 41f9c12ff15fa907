//! A dataflow that wants more memory than its cluster has is stopped alone.

use arrow::datatypes::{DataType, Field, Schema};
use compute_client::clock::CollectionClock;
use compute_client::controller::{Controller, Feed};
use compute_client::error::ComputeError;
use compute_client::hydration::Piece;
use compute_client::index::{Clocks, IndexHandle, Schedules};
use compute_client::plan::lir::{Lir, Node};
use compute_client::protocol::{IndexSpec, KeyExpr};
use futures::executor::block_on;
use glimpse_compute::LocalWorkers;
use ore::memory::Share;
use ore::thread::OwnThreads;
use repr::row::write_datum;
use repr::{Datum, GlobalId, Timestamp, Updates};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const CLUSTER: u64 = 1;
const AS_OF: Timestamp = 10;
const WORKERS: usize = 2;

fn rows(values: std::ops::Range<i32>) -> Arc<Updates> {
    let mut updates = Updates::new();
    for value in values {
        let write = |out: &mut Vec<u8>| write_datum(out, &DataType::Int32, &Datum::Int4(value));
        updates.push_with(1, write).expect("an int4 can be written");
    }
    Arc::new(updates)
}

/// An index over a table of its own, which holds so many rows.
fn create(controller: &mut Controller, id: u64, row_count: i32, rings: &Arc<AtomicUsize>) -> Arc<IndexHandle> {
    let (id, table) = (GlobalId::User(id), GlobalId::User(id + 100));
    let clocks = Clocks::from([(table, Arc::new(CollectionClock::default()))]);
    let allowance = controller.allowance(CLUSTER, &id.to_string()).expect("the cluster is there");
    let rings = Arc::clone(rings);
    let ring = move || {
        rings.fetch_add(1, Ordering::SeqCst);
    };
    let handle = IndexHandle::new(id, WORKERS, clocks, Schedules::new(), allowance).with_alarm(false, ring);
    let handle = Arc::new(handle);
    let spec = IndexSpec {
        id,
        name: id.to_string(),
        plan: Lir {
            node: Node::Get(table),
            schema: Arc::new(Schema::new(vec![Field::new("value", DataType::Int32, true)])),
        },
        key: vec![KeyExpr::Column(0)],
        maintained: BTreeSet::new(),
        as_of: AS_OF,
        from: AS_OF,
        handle: Arc::clone(&handle),
    };
    let hydrate = move |give: &mut Feed<'_>| {
        let mut starts = (0..row_count).step_by(1_000);
        starts.try_for_each(|start| give(table, AS_OF, Piece::Oks(rows(start..start + 1_000))))
    };
    controller.create_index(CLUSTER, spec, None, std::future::ready(()), hydrate).expect("the cluster is there");
    handle
}

/// Waits until no more than this is used.
fn await_memory(memory: &Share, bytes: usize) {
    while memory.used() > bytes {
        std::thread::yield_now();
    }
}

fn await_it(handle: &IndexHandle) -> Result<(), ComputeError> {
    block_on(handle.wait_until(IndexHandle::is_hydrated));
    handle.check()
}

#[test]
fn a_dataflow_that_wants_too_much_is_stopped_alone() {
    let memory = Share::root(usize::MAX, None);
    let mut controller = Controller::new(Box::new(LocalWorkers), Arc::new(OwnThreads), &memory, 16 << 20);
    controller.create_cluster(CLUSTER, "test", WORKERS);
    let rings = Arc::new(AtomicUsize::new(0));
    let small = create(&mut controller, 1, 50_000, &rings);
    await_it(&small).expect("it is small");
    let used = memory.used();
    assert!(used > 50_000 * 4, "{used}");

    let large = create(&mut controller, 2, 5_000_000, &rings);
    let Err(ComputeError::OutOfMemory(why)) = await_it(&large) else { panic!("there is not so much memory") };
    assert_eq!((why.refused.limit, why.refused.share.as_str()), (16 << 20, "cluster \"test\""));
    while rings.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    assert_eq!(controller.free_stopped(), [GlobalId::User(2)]);
    assert!(controller.free_stopped().is_empty(), "once");

    // The other one goes on, and a third finds the memory that the second had.
    let writes = Arc::from([(GlobalId::User(101), vec![rows(0..10)])]);
    let touched = controller.append(20, AS_OF, &writes).expect("the cluster is there");
    assert_eq!(touched.iter().map(|handle| handle.id).collect::<Vec<_>>(), [GlobalId::User(1)]);
    block_on(small.wait_until(|handle| handle.upper() > 20));
    small.check().expect("it goes on");
    await_memory(&memory, used + (1 << 20));
    let third = create(&mut controller, 3, 50_000, &rings);
    await_it(&third).expect("there is room");
    controller.drop_index(GlobalId::User(2));
    drop(controller);
    drop((small, large, third, touched));
    await_memory(&memory, 0);
}
