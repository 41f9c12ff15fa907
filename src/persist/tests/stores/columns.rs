//! Rows that are kept by column: whatever was committed, removed, compacted, described late and opened again, a scan finds what the
//! merge of all updates, row by row, says is there; and damage is damage, never other rows.

use crate::durability::{killed, open};
use arrow::array::{ArrayRef, AsArray, Int32Array, StringViewArray};
use arrow::datatypes::{DataType, Int32Type};
use glimpse_persist::{Ahead, ColumnFacts, MetaWrite, PersistClient, PersistError, Scanned, ShardAppend, ShardId};
use ore::memory::Share;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_oneof, proptest};
use proptest::test_runner::FileFailurePersistence;
use repr::columns::ColumnDecoder;
use repr::row::RowCodec;
use repr::{Diff, Timestamp, Updates};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const A: ShardId = ShardId(3);

fn types() -> Vec<DataType> {
    vec![DataType::Int32, DataType::Utf8View, DataType::Int32]
}

/// The rows of these numbers; some are long.
fn rows(numbers: impl Iterator<Item = i32>) -> Vec<Vec<u8>> {
    let numbers: Vec<i32> = numbers.collect();
    let text = |at: &i32| format!("{at}{}", "x".repeat(usize::from(at.to_be_bytes()[3] / 3)));
    let texts: StringViewArray = numbers.iter().map(|at| (at % 7 != 0).then(|| text(at))).collect();
    let odd: Int32Array = numbers.iter().map(|at| (at % 2 != 0).then_some(at * 3)).collect();
    let columns: [ArrayRef; 3] = [Arc::new(Int32Array::from(numbers)), Arc::new(texts), Arc::new(odd)];
    let rows = RowCodec::new(&types()).expect("supported").encode(&columns).expect("encodes");
    rows.iter().map(|row| row.data().to_vec()).collect()
}

/// One step of a random history. Numbers of rows are taken from those that there are.
#[derive(Clone, Debug)]
enum Step {
    /// Rows from a number on, so many, so many copies of each.
    Add {
        start: i32,
        count: i32,
        copies: Diff,
    },
    /// Of the rows that are there every so manieth, beginning at one, at the most so many; and whether they are put back changed.
    Change {
        every: usize,
        first: usize,
        most: usize,
        put_back: bool,
    },
    Ahead {
        start: i32,
        count: i32,
    },
    Compact,
    /// What the background does, now.
    CompactSome,
    /// What it does when nobody writes any more, now.
    CompactHoles,
    Forget {
        behind: u64,
    },
    Reopen {
        by_kill: bool,
        describe: bool,
    },
    Describe,
    Read {
        behind: u64,
        columns: u8,
        some: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let many = prop_oneof![1 => 1_i32..20, 2 => 500_i32..4_000];
    let change = (1_usize..90, 0_usize..90, prop_oneof![1 => 1_usize..9, 1 => Just(usize::MAX)], any::<bool>());
    prop_oneof![
        4 => (0_i32..6_000, many.clone(), 1_i64..3).prop_map(|(start, count, copies)| Step::Add { start, count, copies }),
        5 => change.prop_map(|(every, first, most, put_back)| Step::Change { every, first, most, put_back }),
        1 => (0_i32..6_000, many).prop_map(|(start, count)| Step::Ahead { start, count }),
        1 => Just(Step::Compact),
        3 => Just(Step::CompactSome),
        2 => Just(Step::CompactHoles),
        2 => (0_u64..5).prop_map(|behind| Step::Forget { behind }),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(by_kill, describe)| Step::Reopen { by_kill, describe }),
        1 => Just(Step::Describe),
        5 => (0_u64..6, 0_u8..8, any::<u64>()).prop_map(|(behind, columns, some)| Step::Read { behind, columns, some }),
    ]
}

#[derive(Default)]
struct Model {
    ts: Timestamp,
    since: Timestamp,
    updates: Vec<(Vec<u8>, Timestamp, Diff)>,
}

impl Model {
    fn contents(&self, as_of: Timestamp) -> BTreeMap<Vec<u8>, Diff> {
        let mut rows: BTreeMap<Vec<u8>, Diff> = BTreeMap::new();
        for (row, _, diff) in self.updates.iter().filter(|(_, ts, _)| *ts <= as_of) {
            *rows.entry(row.clone()).or_default() += diff;
        }
        rows.retain(|_, diff| *diff != 0);
        rows
    }

    /// The next commit.
    fn next(&mut self, rows: Vec<(Vec<u8>, Diff)>) -> Arc<Updates> {
        self.ts += 1;
        let updates: Updates = rows.iter().map(|(row, diff)| (row.as_slice(), *diff)).collect();
        self.updates.extend(rows.into_iter().map(|(row, diff)| (row, self.ts, diff)));
        Arc::new(updates)
    }

    fn commit(&mut self, client: &PersistClient, rows: Vec<(Vec<u8>, Diff)>) {
        let updates = self.next(rows);
        client.commit(self.ts, &[ShardAppend { shard: A, updates: &[updates] }], &[]).expect("ok");
    }
}

/// All rows of a scan, after whatever is kept by column was compared with itself as rows.
fn scanned(client: &PersistClient, as_of: Timestamp, columns: u8, some: u64) -> Result<Vec<Vec<u8>>, PersistError> {
    let columns = these(columns);
    let decoder = ColumnDecoder::new(&types(), columns.clone()).expect("supported");
    let (mut scan, mut all) = (client.scan(A, as_of)?, Vec::new());
    while let Some(found) = scan.next_rows()? {
        let found = match found {
            Scanned::Rows(rows) => {
                all.extend(rows.iter().map(<[u8]>::to_vec));
                continue;
            }
            Scanned::Columns(found) => found,
        };
        let rows = found.rows()?;
        let rows: Vec<&[u8]> = rows.iter().map(|(row, _)| row).collect();
        assert_eq!(rows.len(), found.len());
        assert!(!rows.is_empty());
        let chosen: Vec<usize> = (0..rows.len()).filter(|at| some >> (at % 64) & 1 == 1).collect();
        for at in [None, Some(chosen.as_slice())] {
            let rows: Vec<&[u8]> = match at {
                Some(at) => at.iter().map(|at| rows[*at]).collect(),
                None => rows.clone(),
            };
            if !columns.is_empty() && !rows.is_empty() {
                let expected = decoder.decode(rows.into_iter()).expect("rows");
                assert_eq!(found.columns(&columns, at)?, expected);
            }
        }
        all.extend(rows.iter().map(|row| row.to_vec()));
    }
    assert!(scan.next_rows()?.is_none(), "it is over");
    all.sort();
    Ok(all)
}

/// What whoever reads all of it is given, of these columns, unless it asks for all.
fn given(client: &PersistClient, as_of: Timestamp, columns: Option<u8>) -> Result<Vec<Vec<u8>>, PersistError> {
    let runs = client.contents(A, as_of, columns.map(these))?.collect::<Result<Vec<_>, _>>()?;
    assert!(runs.iter().all(|run| !run.is_empty()));
    let copies = |(row, diff)| vec![Vec::from(row); usize::try_from(diff).expect("not negative")];
    let mut rows: Vec<Vec<u8>> = runs.iter().flat_map(|run| run.iter().flat_map(copies)).collect();
    if let Some(columns) = columns {
        rows = only(&rows, columns);
    }
    rows.sort();
    Ok(rows)
}

fn these(columns: u8) -> BTreeSet<usize> {
    (0..3).filter(|at| columns >> at & 1 == 1).collect()
}

/// These columns of rows, as rows.
fn only(rows: &[Vec<u8>], columns: u8) -> Vec<Vec<u8>> {
    let columns = these(columns);
    if columns.is_empty() || rows.is_empty() {
        return vec![Vec::new(); rows.len()];
    }
    let narrow: Vec<DataType> = columns.iter().map(|at| types()[*at].clone()).collect();
    let decoder = ColumnDecoder::new(&types(), columns).expect("supported");
    let decoded = decoder.decode(rows.iter().map(Vec::as_slice)).expect("rows");
    let encoded = RowCodec::new(&narrow).expect("supported").encode(&decoded).expect("encodes");
    encoded.iter().map(|row| row.data().to_vec()).collect()
}

/// The rows kept by column that are in row groups for which this bit of their place says so.
fn of_groups(client: &PersistClient, as_of: Timestamp, some: u64, is_wanted: bool) -> Vec<Vec<u8>> {
    let (mut scan, mut found) = (client.scan(A, as_of).expect("readable"), Vec::new());
    let mut said = (0, 0);
    let left_out = scan.only(|file| {
        let wanted: Vec<bool> = (0..file.groups().len()).map(|at| (some >> (at % 64) & 1 == 1) == is_wanted).collect();
        said = (said.0 + wanted.iter().filter(|is_wanted| !**is_wanted).count(), said.1 + wanted.len());
        Some(wanted)
    });
    assert_eq!(left_out, said);
    while let Some(rows) = scan.next_rows().expect("intact") {
        if let Scanned::Columns(rows) = rows {
            found.extend(rows.rows().expect("intact").iter().map(|(row, _)| row.to_vec()));
        }
    }
    found
}

/// Numbers that are said to be the least and the greatest of the first column are.
fn check_facts(facts: &[ColumnFacts], by_column: &[Vec<u8>]) {
    let decoder = ColumnDecoder::new(&types(), BTreeSet::from([0])).expect("supported");
    if by_column.is_empty() {
        return;
    }
    let numbers = decoder.decode(by_column.iter().map(Vec::as_slice)).expect("rows").remove(0);
    let number = facts.first().expect("there are files");
    let bound = |bound: &Option<ArrayRef>| bound.as_ref().map(|bound| bound.as_primitive::<Int32Type>().value(0));
    for value in numbers.as_primitive::<Int32Type>().values() {
        assert!(bound(&number.least).is_some_and(|least| least <= *value));
        assert!(bound(&number.greatest).is_some_and(|greatest| greatest >= *value));
    }
    assert!(number.nulls == Some(0) && number.distinct.is_some());
}

fn check(client: &PersistClient, model: &Model, as_of: Timestamp, columns: u8, some: u64) {
    let expected = model.contents(as_of);
    let merged: Vec<Updates> = client.snapshot(A, as_of).expect("readable").collect::<Result<_, _>>().expect("intact");
    let merged: Vec<(Vec<u8>, Diff)> =
        merged.iter().flat_map(|batch| batch.iter().map(|(row, diff)| (row.to_vec(), diff))).collect();
    assert!(merged.iter().eq(expected.iter().map(|(row, diff)| (row.clone(), *diff)).collect::<Vec<_>>().iter()));
    let copies = |(row, diff): (&Vec<u8>, &Diff)| vec![row.clone(); usize::try_from(*diff).expect("not negative")];
    let expected: Vec<Vec<u8>> = expected.iter().flat_map(copies).collect();
    // The second time it is known what has gone.
    for _ in 0..2 {
        assert!(scanned(client, as_of, columns, some).expect("intact") == expected, "as of {as_of} of {}", model.ts);
    }
    assert!(given(client, as_of, None).expect("intact") == expected, "as of {as_of} of {}", model.ts);
    let mut narrow = only(&expected, columns);
    narrow.sort();
    assert!(given(client, as_of, Some(columns)).expect("intact") == narrow, "as of {as_of} of {}", model.ts);
    // Compaction goes on meanwhile: as long as the files are the same, so is what is known of them.
    let (facts, halves, whole) = loop {
        let facts = client.column_facts(A);
        let (mut halves, mut whole) = (of_groups(client, as_of, some, true), of_groups(client, as_of, u64::MAX, true));
        halves.extend(of_groups(client, as_of, some, false));
        if Arc::ptr_eq(&facts, &client.column_facts(A)) {
            halves.sort();
            whole.sort();
            break (facts, halves, whole);
        }
    };
    assert!(halves == whole);
    check_facts(&facts, &whole);
    let changes = client.changes(A, as_of, model.ts).expect("readable");
    let net = |updates: Vec<(Vec<u8>, Timestamp, Diff)>| {
        let mut net: BTreeMap<(Timestamp, Vec<u8>), Diff> = BTreeMap::new();
        updates.into_iter().for_each(|(row, ts, diff)| *net.entry((ts, row)).or_default() += diff);
        net.retain(|_, diff| *diff != 0);
        net
    };
    let changes =
        changes.iter().flat_map(|(ts, updates)| updates.iter().map(|(row, diff)| (row.to_vec(), *ts, diff))).collect();
    assert!(net(changes) == net(model.updates.iter().filter(|(_, ts, _)| *ts > as_of).cloned().collect()));
}

/// Opens a directory, with too little memory for all columns to stay decoded.
fn open_cached(dir: &TempDir) -> PersistClient {
    let client = open(dir);
    client.keep_decoded(Share::root(100 << 10, None));
    client
}

/// A shard of which nobody has said anything, and what is in it.
fn begun() -> (TempDir, PersistClient, Model) {
    let dir = TempDir::new().expect("a temporary directory");
    let client = open_cached(&dir);
    client.commit(1, &[], &[MetaWrite::CreateShard(A)]).expect("ok");
    (dir, client, Model { ts: 1, ..Model::default() })
}

/// The same updates, of which two runs are written before there are all, the second one in two pieces.
fn in_runs(client: &PersistClient, updates: &Arc<Updates>) -> Ahead {
    let piece = |range: Range<usize>| {
        let mut piece = Updates::new();
        range.map(|at| updates.get(at)).for_each(|(row, diff)| piece.push(row, diff));
        piece
    };
    let (half, most) = (updates.len() / 2, updates.len() / 2 + updates.len() / 5);
    let runs = [vec![piece(0..half)], vec![piece(half..most), piece(most..updates.len())]];
    let blobs = runs.map(|run| client.write_run(A, Some(&types()), &run).expect("ok"));
    Ahead::new(A, Arc::clone(updates), blobs.into())
}

fn check_history(steps: Vec<Step>) {
    let (mut dir, mut client, mut model) = begun();
    for step in steps {
        match step {
            Step::Add { start, count, copies } => {
                model.commit(&client, rows(start..start + count).into_iter().map(|row| (row, copies)).collect());
            }
            Step::Change { every, first, most, put_back } => {
                let there = model.contents(model.ts);
                let gone = there.iter().skip(first).step_by(every).take(most);
                let changed = gone.clone().filter(|_| put_back).map(|(row, diff)| (row.clone(), diff + 1));
                let changed: Vec<_> = gone.map(|(row, diff)| (row.clone(), -diff)).chain(changed).collect();
                if !changed.is_empty() {
                    model.commit(&client, changed);
                }
            }
            Step::Ahead { start, count } => {
                let updates = model.next(rows(start..start + count).into_iter().map(|row| (row, 1)).collect());
                let ahead = match start % 2 {
                    0 => client.write_ahead(A, Some(&types()), Arc::clone(&updates)).expect("ok"),
                    _ => in_runs(&client, &updates),
                };
                let appends = [ShardAppend { shard: A, updates: &[updates] }];
                client.commit_ahead(model.ts, &appends, &[ahead], &[]).expect("ok");
            }
            Step::Compact => client.compact(A).expect("ok"),
            Step::CompactSome => client.compact_some(A).expect("ok"),
            Step::CompactHoles => while client.compact_holes(A).expect("ok") {},
            Step::Forget { behind } => {
                model.since = model.since.max(model.ts.saturating_sub(behind));
                client.allow_compaction(model.since);
            }
            Step::Reopen { by_kill, describe } => {
                let image = by_kill.then(|| killed_between_swaps(&dir));
                drop(client);
                dir = image.unwrap_or(dir);
                client = open_cached(&dir);
                if describe {
                    client.describe(A, &types());
                }
            }
            Step::Describe => client.describe(A, &types()),
            Step::Read { behind, columns, some } => {
                let as_of = model.ts.saturating_sub(behind).max(model.since);
                check(&client, &model, as_of, columns, some);
                let live: Diff = model.contents(model.ts).values().sum();
                assert_eq!(client.shard_stats(A).expect("exists").rows, live);
            }
        }
    }
    check(&client, &model, model.ts, 7, u64::MAX / 3);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]
    #[test]
    fn a_scan_is_what_the_merge_row_by_row_says(steps in prop::collection::vec(step(), 1..30)) {
        check_history(steps);
    }
}

fn blobs(dir: &TempDir) -> Vec<PathBuf> {
    let Ok(blobs) = fs::read_dir(dir.path().join("blobs")) else { return Vec::new() };
    let mut blobs: Vec<_> = blobs.map(|entry| entry.expect("listable").path()).collect();
    blobs.sort();
    blobs
}

/// What `kill -9` would leave. A copy takes its time, so it is taken again if blobs came or went meanwhile.
fn killed_between_swaps(dir: &TempDir) -> TempDir {
    loop {
        let before = blobs(dir);
        if let (Ok(image), true) = (std::panic::catch_unwind(|| killed(dir)), blobs(dir) == before) {
            return image;
        }
    }
}

/// Whether there is a file of columns: another may have been removed meanwhile.
fn is_columns(path: &PathBuf) -> bool {
    fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"PAR1"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
    #[test]
    fn damage_is_an_error_with_a_name_and_never_other_rows(
        places in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..8), 1..4), columns in 1_u8..8) {
        let (dir, client, mut model) = begun();
        client.describe(A, &types());
        model.commit(&client, rows(0..3_000).into_iter().map(|row| (row, 1)).collect());
        model.commit(&client, rows((0..3_000).step_by(100)).into_iter().map(|row| (row, -1)).collect());
        drop(client);
        let [blob] = blobs(&dir).try_into().expect("one blob");
        assert!(is_columns(&blob));
        let mut bytes = fs::read(&blob).expect("readable");
        for (place, bit) in places {
            let at = place.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        fs::write(&blob, &bytes).expect("writable");
        let client = open(&dir);
        let all: Vec<Vec<u8>> = model.contents(model.ts).into_keys().collect();
        let mut narrow = only(&all, columns);
        narrow.sort();
        let found = [scanned(&client, model.ts, columns, 3), given(&client, model.ts, None), given(&client, model.ts, Some(columns))];
        for (found, expected) in found.into_iter().zip([&all, &all, &narrow]) {
            match found {
                Ok(found) => assert!(found == *expected),
                Err(PersistError::Corrupt { what, detail }) => {
                    let name = blob.file_name().expect("it has one").to_string_lossy().into_owned();
                    assert!(what == format!("shard {A}") && detail.starts_with(&format!("blob {name}: ")), "{what}: {detail}");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn what_was_kept_as_rows_is_rewritten_by_itself() {
    let (dir, client, mut model) = begun();
    for start in [0, 2_000, 4_000] {
        model.commit(&client, rows(start..start + 2_500).into_iter().map(|row| (row, 1)).collect());
    }
    drop(client);
    assert!(!blobs(&dir).iter().any(is_columns), "nobody said what rows are made of");
    let client = open(&dir);
    client.describe(A, &types());
    while blobs(&dir).iter().any(|blob| !is_columns(blob)) {
        std::thread::yield_now();
    }
    check(&client, &model, model.ts, 7, 5);
    check(&client, &model, 2, 7, 5);
}

#[test]
fn what_is_small_by_itself_stays_inline_together() {
    let (dir, client, mut model) = begun();
    client.describe(A, &types());
    // Rows that come and go, of which history tells: 40 kB each time.
    model.commit(&client, rows(0..500).into_iter().map(|row| (row, 1)).collect());
    model.commit(&client, rows(0..500).into_iter().map(|row| (row, -1)).collect());
    client.compact(A).expect("ok");
    assert!(blobs(&dir).is_empty());
    (2..=model.ts).for_each(|as_of| check(&client, &model, as_of, 7, 5));
    client.allow_compaction(model.ts);
    client.compact(A).expect("ok");
    assert_eq!(client.shard_stats(A).expect("exists").batch_count, 0);
}

#[test]
fn several_row_groups() {
    let (dir, client, mut model) = begun();
    client.describe(A, &types());
    model.commit(&client, rows((0..300_000).step_by(2)).into_iter().map(|row| (row, 1)).collect());
    model.commit(&client, rows((0..300_000).step_by(6_002)).into_iter().map(|row| (row, -1)).collect());
    // Between those, and half of them go again.
    model.commit(&client, rows((140_001..180_001).step_by(6)).into_iter().map(|row| (row, 2)).collect());
    model.commit(&client, rows((140_001..180_001).step_by(12)).into_iter().map(|row| (row, -2)).collect());
    for as_of in 2..=model.ts {
        check(&client, &model, as_of, 5, 1 << 9 | 1);
    }
    // What has gone is known by position from here on, and the file stays.
    let is_list = |blob: &PathBuf| fs::metadata(blob).expect("it is there").len() < 32_000 && !is_columns(blob);
    let file = blobs(&dir).swap_remove(0);
    while client.shard_stats(A).expect("exists").batch_count > 3 || !blobs(&dir).iter().any(is_list) {
        client.compact_some(A).expect("ok");
    }
    assert!(file.exists());
    for as_of in 2..=model.ts {
        check(&client, &model, as_of, 5, 1 << 9 | 1);
    }
    // When nobody writes any more, the file of which much has gone is rewritten, as soon as history lets that go.
    let holed = blobs(&dir).into_iter().find(|blob| is_columns(blob) && *blob != file).expect("another file");
    assert!(!client.compact_holes(A).expect("ok"), "somebody may read it");
    client.allow_compaction(model.ts);
    assert!(client.compact_holes(A).expect("ok"));
    assert!(!client.compact_holes(A).expect("ok"), "of the other one few rows have gone");
    // What nobody refers to any more goes in the background.
    while holed.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(file.exists());
    check(&client, &model, model.ts, 5, 1 << 9 | 1);
    client.compact(A).expect("ok");
    check(&client, &model, model.ts, 5, 1 << 9 | 1);
    // Who has seen enough leaves threads that are ahead.
    let mut contents = client.contents(A, model.ts, None).expect("readable");
    assert!(contents.next().expect("there are rows").expect("intact").len() < model.contents(model.ts).len());
    drop(contents);
}

#[test]
fn few_rows_say_what_their_values_are() {
    let (_dir, client, mut model) = begun();
    assert!(client.column_facts(A).is_empty(), "nobody said what rows are made of");
    client.describe(A, &types());
    // Each row is there in 3 copies, which count as one value.
    model.commit(&client, rows(10..50).into_iter().map(|row| (row, 3)).collect());
    let bound = |bound: &Option<ArrayRef>| bound.as_ref().map(|bound| bound.as_primitive::<Int32Type>().value(0));
    let facts = client.column_facts(A);
    let [number, text, odd] = facts.as_ref() else { panic!("of three columns") };
    assert_eq!((bound(&number.least), bound(&number.greatest), number.nulls), (Some(10), Some(49), Some(0)));
    assert_eq!((bound(&odd.least), bound(&odd.greatest), odd.nulls), (Some(33), Some(147), Some(60)));
    assert_eq!(text.nulls, Some(3 * 6));
    // Estimated, by a sketch.
    assert!(number.distinct.is_some_and(|distinct| distinct.abs_diff(40) <= 3), "{number:?}");
    assert!(odd.distinct.is_some_and(|distinct| distinct.abs_diff(20) <= 2), "{odd:?}");
    // One row more is little; twice as many are counted again, those that have gone are not.
    model.commit(&client, rows(50..51).into_iter().map(|row| (row, 1)).collect());
    assert!(Arc::ptr_eq(&facts, &client.column_facts(A)));
    model.commit(&client, rows(10..30).into_iter().map(|row| (row, -3)).collect());
    assert_eq!(bound(&client.column_facts(A)[0].least), Some(30));
    // Compaction may leave as many updates as were counted before, of other values.
    let changed = rows(30..50).into_iter().map(|row| (row, -3)).chain(rows(110..140).into_iter().map(|row| (row, 3)));
    model.commit(&client, changed.collect());
    assert_eq!(bound(&client.column_facts(A)[0].least), Some(50));
    client.compact(A).expect("ok");
    assert_eq!(bound(&client.column_facts(A)[0].least), Some(50));
    model.commit(&client, rows(50..51).into_iter().map(|row| (row, -1)).collect());
    client.allow_compaction(model.ts);
    client.compact(A).expect("ok");
    assert_eq!(bound(&client.column_facts(A)[0].least), Some(110));
    // Many are in a file at once, which says so.
    model.commit(&client, rows(0..3_000).into_iter().map(|row| (row, 1)).collect());
    assert_eq!(bound(&client.column_facts(A)[0].least), Some(0));
}

#[test]
fn a_row_that_is_there_less_often_than_not_at_all_is_damage() {
    let (_dir, client, mut model) = begun();
    client.describe(A, &types());
    model.commit(&client, rows(0..3_000).into_iter().map(|row| (row, 1)).collect());
    model.commit(&client, vec![(rows(7..8).swap_remove(0), -2)]);
    let error = scanned(&client, model.ts, 7, 0).expect_err("a row was removed twice");
    assert!(error.to_string().contains("less often than not at all"), "{error}");
}
