//! One key in a published snapshot: load the slot, find the key, take the row's bytes. In one batch, and in the chain of
//! batches that a table has while it is written to.

use arrangement::allowance::Allowance;
use arrangement::snapshot::cursor::{Hits, seek, value};
use arrangement::snapshot::{Snapshot, SnapshotSlot};
use arrangement::spine::{self, RowBatch, RowUpdate};
use arrow::datatypes::DataType;
use criterion::{Criterion, criterion_group, criterion_main};
use repr::row::write_datum;
use repr::{Datum, Timestamp};
use std::hint::black_box;
use std::ops::Range;

/// Keys of the large batch.
const KEYS: i32 = 1_000_000;

fn key(id: i32) -> Vec<u8> {
    let mut key = Vec::new();
    write_datum(&mut key, &DataType::Int32, &Datum::Int4(id)).expect("an int4 is an Int32");
    key
}

/// A batch of the rows `ids`, each written at `time`.
fn batch(ids: Range<i32>, time: Timestamp) -> RowBatch {
    let update = |id: i32| -> RowUpdate {
        let mut row = key(id);
        let text = Datum::Text(format!("v{id:07}-000").into());
        write_datum(&mut row, &DataType::Utf8View, &text).expect("text is Utf8");
        ((key(id), row), time, 1)
    };
    spine::batch(ids.map(update).collect(), &Allowance::unlimited()).expect("there are updates")
}

fn slot(batches: Vec<RowBatch>, upper: Timestamp) -> SnapshotSlot {
    let slot = SnapshotSlot::default();
    slot.publish(Snapshot::new(batches, Vec::new(), 0, upper));
    slot
}

/// Keys in an order that defeats the caches, as random point reads do.
fn scattered(step: &mut u64) -> i32 {
    *step = step.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (((*step >> 33) * KEYS as u64) >> 31) as i32
}

fn lookups(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("snapshot_lookup");
    let one = slot(vec![batch(0..KEYS, 1)], 2);
    // A table under writes: the large batch, and ten of falling size on top of it.
    let mut chain = vec![batch(0..KEYS, 1)];
    for level in 0..10 {
        let first = KEYS + level * 1_000_000;
        chain.push(batch(first..first + (100_000 >> level), 2 + level as Timestamp));
    }
    let many = slot(chain, 20);
    for (name, slot) in [("one batch", &one), ("eleven batches", &many)] {
        let (mut hits, mut step): (Hits, u64) = (Hits::new(), 1);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let snapshot = slot.load_full();
                let key = key(scattered(&mut step));
                hits.clear();
                seek(&snapshot.oks, &key, snapshot.upper - 1, &mut hits);
                assert_eq!(hits.len(), 1, "each key has one row");
                black_box(value(&snapshot.oks, &hits[0]).len())
            });
        });
    }
    group.finish();
}

criterion_group!(stages, lookups);
criterion_main!(stages);
