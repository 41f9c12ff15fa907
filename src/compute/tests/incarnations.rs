//! An index that is built anew under its id hears nothing of what was sent for the one before.

use arrangement::allowance::Allowance;
use arrow::datatypes::{DataType, Field, Schema};
use compute_client::clock::CollectionClock;
use compute_client::controller::{Controller, Feed};
use compute_client::hydration::Piece;
use compute_client::index::{Clocks, IndexHandle, Schedules};
use compute_client::plan::lir::{Lir, Node};
use compute_client::protocol::{IndexSpec, KeyExpr};
use compute_client::tail::Tail;
use crossbeam_channel::{Receiver, Sender, bounded};
use futures::executor::block_on;
use glimpse_compute::LocalWorkers;
use ore::memory::Share;
use ore::thread::OwnThreads;
use repr::row::write_datum;
use repr::{Datum, GlobalId, Timestamp, Updates};
use std::collections::BTreeSet;
use std::sync::Arc;

const CLUSTER: u64 = 1;
const TABLE: GlobalId = GlobalId::User(1);

fn row(value: i32) -> Arc<Updates> {
    let mut updates = Updates::new();
    updates
        .push_with(1, |out| write_datum(out, &DataType::Int32, &Datum::Int4(value)))
        .expect("an int4 can be written");
    Arc::new(updates)
}

/// A hydration that is held: it says when it has begun, and goes on when it is let.
struct Held {
    handle: Arc<IndexHandle>,
    begun: Receiver<()>,
    go: Sender<()>,
}

/// Starts an index over the table, which holds `value` as of `as_of`.
fn create(
    controller: &mut Controller,
    id: GlobalId,
    clock: &Arc<CollectionClock>,
    as_of: Timestamp,
    value: i32,
) -> Held {
    let clocks = Clocks::from([(TABLE, Arc::clone(clock))]);
    let handle = Arc::new(IndexHandle::new(id, 1, clocks, Schedules::new(), Allowance::unlimited()));
    let schema = Arc::new(Schema::new(vec![Field::new("value", DataType::Int32, true)]));
    let spec = IndexSpec {
        id,
        name: id.to_string(),
        plan: Lir { node: Node::Get(TABLE), schema },
        key: vec![KeyExpr::Column(0)],
        maintained: BTreeSet::new(),
        as_of,
        from: as_of,
        handle: Arc::clone(&handle),
    };
    let ((begins, begun), (go, goes)) = (bounded(1), bounded::<()>(1));
    let hydrate = move |give: &mut Feed<'_>| {
        begins.send(()).expect("the test listens");
        goes.recv().expect("the test lets every hydration go");
        give(TABLE, as_of, Piece::Oks(row(value)))
    };
    controller.create_index(CLUSTER, spec, None, std::future::ready(()), hydrate).expect("the cluster is there");
    Held { handle, begun, go }
}

fn rows_as_of(handle: &Arc<IndexHandle>, as_of: Timestamp) -> Vec<Vec<u8>> {
    let (mut contents, _tail) = block_on(Tail::since(Arc::clone(handle), as_of, usize::MAX)).expect("it is readable");
    let mut rows = Vec::new();
    while let Some(updates) = contents.next_rows(1_000) {
        rows.extend(updates.iter().map(|(row, count)| (row.to_vec(), count)));
    }
    assert!(rows.iter().all(|(_, count)| *count == 1), "{rows:?}");
    rows.into_iter().map(|(row, _)| row).collect()
}

#[test]
fn a_late_hydration_does_not_reach_the_next_incarnation() {
    let mut controller =
        Controller::new(Box::new(LocalWorkers), Arc::new(OwnThreads), &Share::root(usize::MAX, None), usize::MAX);
    controller.create_cluster(CLUSTER, "test", 1);
    let clock = Arc::new(CollectionClock::default());
    let (index, other) = (GlobalId::User(2), GlobalId::User(3));

    let first = create(&mut controller, index, &clock, 10, 1);
    first.begun.recv().expect("it begins");
    controller.drop_index(index);
    let second = create(&mut controller, index, &clock, 20, 2);
    second.begun.recv().expect("it begins");

    // Two are hydrated at once, so that the third begins when the first has sent everything.
    let third = create(&mut controller, other, &clock, 20, 2);
    first.go.send(()).expect("it waits");
    third.begun.recv().expect("it begins");
    second.go.send(()).expect("it waits");
    third.go.send(()).expect("it waits");

    clock.advance(30);
    let writes = Arc::from([(TABLE, vec![row(3)])]);
    controller.append(30, 0, &writes).expect("the cluster is there");
    let expected: Vec<Vec<u8>> = [2, 3].into_iter().map(|value| row(value).row(0).to_vec()).collect();
    for held in [&second, &third] {
        assert_eq!(rows_as_of(&held.handle, 30), expected, "index {}", held.handle.id);
    }
    assert!(first.handle.check().is_err(), "it was dropped");
}
