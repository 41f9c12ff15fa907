//! What survives: reopening, a process that dies at any moment, damage, and a full history of random operations
//! against a model.
//!
//! A death is played by copying the data directory of a running client, which is what the disk would hold after
//! `kill -9`: nothing was closed, flushed or checkpointed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use glimpse_persist::{MetaWrite, PersistClient, PersistError, Scanned, ShardAppend, ShardId};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_oneof, proptest};
use proptest::test_runner::FileFailurePersistence;
use repr::{Diff, Timestamp, Updates};
use tempfile::TempDir;

const A: ShardId = ShardId(3);
const B: ShardId = ShardId(5);

pub(crate) fn open(dir: &TempDir) -> PersistClient {
    PersistClient::open(dir.path()).expect("it opens")
}

/// What `kill -9` would leave of the directory right now.
pub(crate) fn killed(dir: &TempDir) -> TempDir {
    let image = TempDir::new().expect("a temporary directory");
    copy(dir.path(), image.path());
    image
}

fn copy(from: &Path, to: &Path) {
    let mut entries: Vec<_> = fs::read_dir(from).expect("listable").map(|entry| entry.expect("listable")).collect();
    // The log before the database: should a checkpoint run in between, replaying the log again does no harm.
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.file_name()));
    for entry in entries {
        let target = to.join(entry.file_name());
        if entry.file_type().expect("known").is_dir() {
            fs::create_dir_all(&target).expect("writable");
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).expect("writable");
        }
    }
}

fn updates(rows: &[(&[u8], Diff)]) -> Arc<Updates> {
    Arc::new(rows.iter().copied().collect())
}

fn append(client: &PersistClient, ts: Timestamp, shard: ShardId, rows: &[(&[u8], Diff)]) {
    client.commit(ts, &[ShardAppend { shard, updates: &[updates(rows)] }], &[]).expect("it commits");
}

fn contents(client: &PersistClient, shard: ShardId, as_of: Timestamp) -> Vec<(Vec<u8>, Diff)> {
    let snapshot = client.snapshot(shard, as_of).expect("readable");
    let batches: Vec<Updates> = snapshot.collect::<Result<_, _>>().expect("intact");
    let contents: Vec<_> =
        batches.iter().flat_map(|batch| batch.iter().map(|(row, diff)| (row.to_vec(), diff))).collect();
    assert!(contents.is_sorted_by(|one, other| one.0 < other.0), "each row once, in order");
    assert_eq!(rows(client, shard, as_of), repeated(&contents), "the same rows one by one");
    let stats = client.shard_stats(shard).expect("it exists");
    if stats.changed <= as_of {
        assert_eq!(stats.rows, contents.iter().map(|(_, diff)| diff).sum::<Diff>(), "as many as are counted");
    }
    contents
}

/// The rows of a shard, one by one; `None` if one is there less often than not at all.
fn rows(client: &PersistClient, shard: ShardId, as_of: Timestamp) -> Option<Vec<Vec<u8>>> {
    let (mut scan, mut rows) = (client.scan(shard, as_of).expect("readable"), Vec::new());
    loop {
        match scan.next_rows() {
            Ok(Some(Scanned::Rows(some))) => {
                assert_eq!(some.iter().count(), some.len());
                rows.extend(some.iter().map(<[u8]>::to_vec));
            }
            Ok(Some(Scanned::Columns(_))) => panic!("nobody said what rows are made of"),
            Ok(None) => return Some(rows),
            Err(PersistError::Corrupt { .. }) => return None,
            Err(error) => panic!("{error}"),
        }
    }
}

fn repeated(contents: &[(Vec<u8>, Diff)]) -> Option<Vec<Vec<u8>>> {
    let copies = contents.iter().map(|(row, diff)| Some((row, usize::try_from(*diff).ok()?)));
    let copies: Option<Vec<_>> = copies.collect();
    Some(copies?.into_iter().flat_map(|(row, count)| std::iter::repeat_n(row.clone(), count)).collect())
}

fn row(index: u32, bytes: usize) -> Vec<u8> {
    let mut row = index.to_be_bytes().to_vec();
    row.resize(bytes, 7);
    row
}

/// Enough to become a blob.
fn many(range: std::ops::Range<u32>, diff: Diff) -> Arc<Updates> {
    let mut updates = Updates::new();
    range.rev().for_each(|index| updates.push(&row(index, 100), diff));
    Arc::new(updates)
}

#[test]
fn a_commit_is_there_after_a_kill_and_so_are_its_keys() {
    let dir = TempDir::new().expect("a temporary directory");
    let client = open(&dir);
    let put = |key: &str, value: &str| MetaWrite::Put { key: key.to_owned(), value: value.into() };
    let meta = [MetaWrite::CreateShard(A), MetaWrite::CreateShard(B), put("catalog/1", "x"), put("oracle", "9")];
    client.commit(10, &[ShardAppend { shard: A, updates: &[updates(&[(b"a", 1), (b"b", 2)])] }], &meta).expect("ok");
    append(&client, 11, A, &[(b"a", -1)]);
    client.commit(12, &[ShardAppend { shard: B, updates: &[many(0..2_000, 1), many(0..10, 1)] }], &[]).expect("ok");
    client.commit(20, &[], &[MetaWrite::Delete { key: "oracle".to_owned() }]).expect("ok");

    let image = killed(&dir);
    let after = open(&image);
    assert_eq!(after.epoch(), client.epoch() + 1);
    for client in [&client, &after] {
        assert_eq!(client.upper(), 21);
        assert_eq!(client.shards(), [A, B]);
        assert_eq!(contents(client, A, 20), [(b"b".to_vec(), 2)]);
        assert_eq!(contents(client, A, 10), [(b"a".to_vec(), 1), (b"b".to_vec(), 2)]);
        assert_eq!(contents(client, A, 9), []);
        let expected: Vec<_> = (0..2_000).map(|i| (row(i, 100), if i < 10 { 2 } else { 1 })).collect();
        assert_eq!(contents(client, B, 12), expected);
        assert_eq!(client.shard_stats(B).expect("exists").rows, 2_010);
        assert_eq!(client.meta_scan("").expect("readable"), [("catalog/1".to_owned(), b"x".to_vec())]);
        assert_eq!(client.meta_get("oracle").expect("readable"), None);
    }
}

#[test]
fn times_and_shards_out_of_range_are_refused_and_change_nothing() {
    let dir = TempDir::new().expect("a temporary directory");
    let client = open(&dir);
    client.commit(10, &[], &[MetaWrite::CreateShard(A)]).expect("ok");
    let rows = [updates(&[(b"a", 1)])];
    let append_to = |shard| [ShardAppend { shard, updates: &rows }];
    let refused = client.commit(10, &append_to(A), &[]).expect_err("too early");
    assert!(matches!(refused, PersistError::UpperMismatch { ts: 10, upper: 11 }));
    let refused = client.commit(11, &append_to(B), &[]).expect_err("no such shard");
    assert!(matches!(refused, PersistError::UnknownShard(B)));
    let refused = client.commit(11, &[], &[MetaWrite::CreateShard(A)]).expect_err("exists");
    assert!(matches!(refused, PersistError::DuplicateShard(A)));
    assert!(matches!(client.snapshot(A, 11), Err(PersistError::AsOfOutOfRange { upper: 11, .. })));
    client.advance_upper(15);
    assert_eq!(contents(&client, A, 14), []);
    assert!(client.commit(14, &append_to(A), &[]).is_err());
    client.commit(15, &append_to(A), &[]).expect("ok");

    client.commit(16, &[], &[MetaWrite::DropShard(A)]).expect("ok");
    assert!(matches!(client.snapshot(A, 16), Err(PersistError::UnknownShard(A))));
    drop(client);
    let client = open(&dir);
    assert_eq!((client.upper(), client.shards()), (17, vec![]));
}

#[test]
fn only_one_process_at_a_time() {
    let dir = TempDir::new().expect("a temporary directory");
    let client = open(&dir);
    let error = PersistClient::open(dir.path()).expect_err("it is in use");
    assert!(matches!(error, PersistError::InUse { .. }));
    drop(client);
    open(&dir);
}

#[test]
fn a_torn_blob_is_an_error_and_not_fewer_rows() {
    let dir = TempDir::new().expect("a temporary directory");
    let client = open(&dir);
    client.commit(1, &[], &[MetaWrite::CreateShard(A)]).expect("ok");
    client.commit(2, &[ShardAppend { shard: A, updates: &[many(0..30_000, 1)] }], &[]).expect("ok");
    drop(client);
    let blob = fs::read_dir(dir.path().join("blobs")).expect("listable").next().expect("one").expect("listable").path();
    let mut bytes = fs::read(&blob).expect("readable");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&blob, &bytes).expect("writable");

    let client = open(&dir);
    let mut snapshot = client.snapshot(A, 2).expect("the beginning is intact");
    let error = snapshot.find_map(Result::err).expect("the damage is found");
    assert!(matches!(&error, PersistError::Corrupt { .. }), "{error}");
    assert!(snapshot.next().is_none());
}

#[test]
fn compaction_changes_nothing_that_can_be_seen() {
    let dir = TempDir::new().expect("a temporary directory");
    let client = open(&dir);
    client.commit(1, &[], &[MetaWrite::CreateShard(A)]).expect("ok");
    client.commit(2, &[ShardAppend { shard: A, updates: &[many(0..5_000, 1)] }], &[]).expect("ok");
    client.commit(3, &[ShardAppend { shard: A, updates: &[many(0..4_000, -1)] }], &[]).expect("ok");
    for ts in 4..20 {
        append(&client, ts, A, &[(b"x", 1), (b"y", -1)]);
    }
    let blob_count = || fs::read_dir(dir.path().join("blobs")).expect("listable").count();
    let (at_3, at_9) = (contents(&client, A, 3), contents(&client, A, 9));
    let running = client.snapshot(A, 9).expect("readable");

    // Without leave, nothing is forgotten.
    client.compact(A).expect("ok");
    assert_eq!(client.shard_stats(A).expect("exists").batch_count, 1);
    assert_eq!((contents(&client, A, 3), contents(&client, A, 9)), (at_3, at_9.clone()));

    client.allow_compaction(9);
    client.compact(A).expect("ok");
    let stats = client.shard_stats(A).expect("exists");
    assert_eq!((stats.since, stats.batch_count), (9, 1));
    assert_eq!(stats.update_count, 1_000 + 2 * 11);
    assert_eq!(contents(&client, A, 9), at_9);
    assert!(matches!(client.snapshot(A, 8), Err(PersistError::AsOfOutOfRange { since: 9, .. })));

    // A snapshot taken before any of this still reads what it was promised.
    while blob_count() > 3 {
        // The blob between the first and the second compaction is nobody's; its deletion is the background's.
        std::thread::yield_now();
    }
    assert_eq!(blob_count(), 3);
    let rows: usize = running.map(|batch| batch.expect("intact").len()).sum();
    assert_eq!(rows, at_9.len());

    let at_19 = contents(&client, A, 19);
    drop(client);
    let client = open(&dir);
    assert_eq!(client.shard_stats(A).expect("exists").since, 9);
    assert_eq!(contents(&client, A, 19), at_19);
    assert_eq!(blob_count(), 1);

    // What cancels out entirely leaves nothing.
    client.commit(20, &[ShardAppend { shard: A, updates: &[many(4_000..5_000, -1)] }], &[]).expect("ok");
    append(&client, 21, A, &[(b"x", -16), (b"y", 16)]);
    client.allow_compaction(100);
    client.compact(A).expect("ok");
    assert_eq!(client.shard_stats(A).expect("exists").batch_count, 0);
    drop(client);
    let client = open(&dir);
    assert_eq!((client.upper(), contents(&client, A, 21)), (22, vec![]));
}

#[test]
fn the_background_keeps_up_with_many_small_commits() {
    let dir = TempDir::new().expect("a temporary directory");
    let client = open(&dir);
    client.commit(1, &[], &[MetaWrite::CreateShard(A)]).expect("ok");
    for ts in 2..4_002_u64 {
        client.allow_compaction(ts - 1);
        append(&client, ts, A, &[(&(ts % 10).to_be_bytes(), 1)]);
        if ts % 500 == 0 {
            let copies: Diff = contents(&client, A, ts).iter().map(|(_, diff)| diff).sum();
            assert_eq!(copies, Diff::try_from(ts - 1).expect("small"));
        }
    }
    // It works beside us, so how far it is now depends on the scheduler; that it gets there does not.
    while client.shard_stats(A).expect("exists").batch_count >= 1_000 {
        std::thread::yield_now();
    }
    assert_eq!(contents(&client, A, 4_001), (0..10_u64).map(|i| (i.to_be_bytes().to_vec(), 400)).collect::<Vec<_>>());
}

#[test]
fn readers_see_whole_commits_while_compaction_runs() {
    let dir = TempDir::new().expect("a temporary directory");
    let client = open(&dir);
    client.commit(1, &[], &[MetaWrite::CreateShard(A), MetaWrite::CreateShard(B)]).expect("ok");
    let last = 6_000_u64;
    let read = |client: &PersistClient| {
        let mut read_count = 0;
        while client.upper() <= last {
            let as_of = client.upper() - 1;
            // Each commit moves one copy of a row, and puts one copy of its time into the other shard.
            match client.snapshot(A, as_of) {
                Ok(snapshot) => {
                    let batches: Vec<Updates> = snapshot.collect::<Result<_, _>>().expect("intact");
                    let live: Vec<_> = batches.iter().flat_map(Updates::iter).collect();
                    assert_eq!(live.len(), usize::from(as_of > 1), "as of {as_of}");
                    assert!(live.iter().all(|(row, diff)| *row == as_of.to_be_bytes() && *diff == 1), "as of {as_of}");
                    read_count += 1;
                }
                // We were slower than a hundred commits.
                Err(PersistError::AsOfOutOfRange { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        read_count
    };
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(&client));
        for ts in 2..=last {
            let (old, new) = ((ts - 1).to_be_bytes(), ts.to_be_bytes());
            let moved = if ts == 2 { updates(&[(&new, 1)]) } else { updates(&[(&old, -1), (&new, 1)]) };
            let filler = updates(&[(&[7; 3_000], 1)]);
            let appends = [ShardAppend { shard: A, updates: &[moved] }, ShardAppend { shard: B, updates: &[filler] }];
            client.commit(ts, &appends, &[]).expect("ok");
            client.allow_compaction(ts.saturating_sub(100));
        }
        assert!(reader.join().expect("no assertion failed") > 0);
    });
    drop(client);
    let client = open(&dir);
    assert_eq!(contents(&client, A, last), [(last.to_be_bytes().to_vec(), 1)]);
    let copies = Diff::try_from(last - 1).expect("small");
    assert_eq!(contents(&client, B, last), [(vec![7; 3_000], copies)]);
}

/// One step of a random history.
#[derive(Clone, Debug)]
enum Step {
    Commit { rows: Vec<(u8, i8)>, is_large: bool },
    Compact,
    AllowCompaction { behind: u64 },
    Reopen { by_kill: bool },
    ReadBack { behind: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let rows = prop::collection::vec((0_u8..8, any::<i8>()), 0..6);
    prop_oneof![
        6 => (rows, prop::bool::weighted(0.2)).prop_map(|(rows, is_large)| Step::Commit { rows, is_large }),
        2 => Just(Step::Compact),
        2 => (0_u64..5).prop_map(|behind| Step::AllowCompaction { behind }),
        1 => any::<bool>().prop_map(|by_kill| Step::Reopen { by_kill }),
        3 => (0_u64..6).prop_map(|behind| Step::ReadBack { behind }),
    ]
}

/// The model: every update ever committed.
type Model = Vec<(Vec<u8>, Timestamp, Diff)>;

fn model_contents(model: &Model, as_of: Timestamp) -> Vec<(Vec<u8>, Diff)> {
    let mut rows: BTreeMap<Vec<u8>, Diff> = BTreeMap::new();
    for (row, _, diff) in model.iter().filter(|(_, ts, _)| *ts <= as_of) {
        *rows.entry(row.clone()).or_default() += diff;
    }
    rows.into_iter().filter(|(_, diff)| *diff != 0).collect()
}

fn check_history(steps: Vec<Step>) {
    let mut dir = TempDir::new().expect("a temporary directory");
    let mut client = open(&dir);
    client.commit(1, &[], &[MetaWrite::CreateShard(A)]).expect("ok");
    let (mut ts, mut since, mut model) = (1, 0, Model::new());
    for step in steps {
        match step {
            Step::Commit { rows, is_large } => {
                ts += 1;
                let bytes = if is_large { 20_000 } else { 8 };
                let rows: Vec<_> = rows.iter().map(|(i, diff)| (row(u32::from(*i), bytes), i64::from(*diff))).collect();
                let updates: Updates = rows.iter().map(|(row, diff)| (row.as_slice(), *diff)).collect();
                client.commit(ts, &[ShardAppend { shard: A, updates: &[Arc::new(updates)] }], &[]).expect("ok");
                model.extend(rows.into_iter().map(|(row, diff)| (row, ts, diff)));
            }
            Step::Compact => client.compact(A).expect("ok"),
            Step::AllowCompaction { behind } => {
                since = since.max(ts.saturating_sub(behind));
                client.allow_compaction(since);
            }
            Step::Reopen { by_kill } => {
                if by_kill {
                    let image = killed(&dir);
                    drop(client);
                    dir = image;
                } else {
                    drop(client);
                }
                client = open(&dir);
                // Empty commits leave nothing behind but their time.
                assert_eq!(client.upper(), ts + 1);
            }
            Step::ReadBack { behind } => {
                let as_of = ts.saturating_sub(behind).max(since);
                assert_eq!(contents(&client, A, as_of), model_contents(&model, as_of));
                let live: Diff = model_contents(&model, ts).iter().map(|(_, diff)| diff).sum();
                assert_eq!(client.shard_stats(A).expect("exists").rows, live);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]
    #[test]
    fn agrees_with_a_model_through_reopening(steps in prop::collection::vec(step(), 1..40)) {
        check_history(steps);
    }
}

/// Prints how long a million rows take in and out:
/// `cargo test -p glimpse-persist --test durability -- --ignored --nocapture bulk_rate`.
#[test]
#[ignore = "a measurement, not a test"]
fn bulk_rate() {
    let dir = tempfile::tempdir_in(".").expect("a temporary directory on a real disk");
    let client = open(&dir);
    client.commit(1, &[], &[MetaWrite::CreateShard(A)]).expect("ok");
    let mut updates = Updates::new();
    // In an order that is neither sorted nor reversed.
    (0..1_000_000_u32).for_each(|index| updates.push(&row(index.wrapping_mul(2_654_435_761), 24), 1));
    let updates = [Arc::new(updates)];
    let started = std::time::Instant::now();
    client.commit(2, &[ShardAppend { shard: A, updates: &updates }], &[]).expect("ok");
    eprintln!("commit of a million rows: {:?}", started.elapsed());
    let started = std::time::Instant::now();
    let rows: usize = client.snapshot(A, 2).expect("readable").map(|batch| batch.expect("intact").len()).sum();
    eprintln!("snapshot of {rows} rows: {:?}", started.elapsed());
    assert_eq!(rows, 1_000_000);
}

/// Prints how many commits of one row one thread gets through in a second:
/// `cargo test -p glimpse-persist --test durability -- --ignored --nocapture commit_rate`.
#[test]
#[ignore = "a measurement, not a test"]
fn commit_rate() {
    let dir = tempfile::tempdir_in(".").expect("a temporary directory on a real disk");
    let client = open(&dir);
    client.commit(1, &[], &[MetaWrite::CreateShard(A)]).expect("ok");
    let mut latencies_us = Vec::new();
    let started = std::time::Instant::now();
    for ts in 2..20_002_u64 {
        let one = std::time::Instant::now();
        client.allow_compaction(ts - 1);
        append(&client, ts, A, &[(&ts.to_be_bytes(), 1)]);
        latencies_us.push(one.elapsed().as_micros());
    }
    let elapsed = started.elapsed();
    latencies_us.sort_unstable();
    let percentile = |p: usize| latencies_us[latencies_us.len() * p / 1_000];
    eprintln!(
        "{} commits in {elapsed:?}: {:.0}/s, p50 {} us, p99 {} us, p99.9 {} us, max {} us",
        latencies_us.len(),
        20_000.0 / elapsed.as_secs_f64(),
        percentile(500),
        percentile(990),
        percentile(999),
        latencies_us[latencies_us.len() - 1],
    );
}

#[test]
fn what_is_written_ahead_is_committed_with_the_rest_at_its_time_or_goes() {
    let dir = TempDir::new().expect("a temporary directory");
    let client = open(&dir);
    client.commit(5, &[], &[MetaWrite::CreateShard(A)]).expect("ok");
    let (large, small, other) = (many(0..5_000, 1), many(5_000..5_010, 1), many(6_000..11_000, 1));
    let ahead = [client.write_ahead(A, None, Arc::clone(&large)).expect("ok")];
    let given_up = client.write_ahead(A, None, Arc::clone(&other)).expect("ok");
    let given_up_before = client.write_run(A, None, std::slice::from_ref(&other)).expect("ok");
    let image = killed(&dir);
    let all = [Arc::clone(&large), small, Arc::clone(&other)];
    client.commit_ahead(10, &[ShardAppend { shard: A, updates: &all }], &ahead, &[]).expect("ok");
    drop((ahead, given_up, given_up_before));
    client.commit(20, &[ShardAppend { shard: A, updates: &[many(0..4_999, -1)] }], &[]).expect("ok");
    let check = |client: &PersistClient| {
        assert_eq!(contents(client, A, 9).len(), 0);
        assert_eq!(contents(client, A, 10).len(), 10_010);
        assert_eq!(contents(client, A, 20).len(), 5_011);
        let times: Vec<_> = client.changes(A, 5, 20).expect("readable").into_keys().collect();
        assert_eq!(times, [10, 20]);
    };
    check(&client);
    drop(client);
    let client = open(&dir);
    client.advance_upper(21);
    check(&client);
    client.allow_compaction(20);
    client.compact(A).expect("ok");
    assert_eq!(contents(&client, A, 20).len(), 5_011);
    drop(client);
    drop(open(&dir));
    // Of what was written when the process died, and of what was given up, nothing is left.
    let blobs = |dir: &TempDir| fs::read_dir(dir.path().join("blobs")).expect("listable").count();
    assert_eq!(blobs(&dir), 1, "one that holds all");
    let before = open(&image);
    assert_eq!(contents(&before, A, 5).len(), 0);
    assert_eq!(blobs(&image), 0);
}
