//! A power cut: what was not synced is there, or not, or a part of it, sector by sector and in any order; and a file that was
//! not synced has any part of what was written. Whatever is left, an acknowledged commit is there, and the one that was under way
//! is there as a whole or not at all.
//!
//! Commits that are small enough append to SQLite's log and touch nothing else until it is copied back, so that the length
//! of the log after each commit says what was synced by then. A cut takes an image of the directory, keeps the log up to there, and
//! decides by chance about every sector beyond.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use glimpse_persist::{MetaWrite, PersistClient, ShardAppend, ShardId};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use repr::{Diff, Updates};
use tempfile::TempDir;

const SHARD: ShardId = ShardId(3);
/// Few enough that the log is not copied back meanwhile.
const COMMITS: u64 = 60;
const CUTS: usize = 300;
/// What a disk writes as a whole.
const SECTOR_BYTES: usize = 512;
const LOG: &str = "consensus.db-wal";

fn commit(client: &PersistClient, ts: u64, random: &mut StdRng) {
    // One row says which commit it is; the others make some commits span pages.
    let mut updates: Updates = [(&ts.to_be_bytes()[..], 1)].into_iter().collect();
    for _ in 0..random.random_range(0..60) {
        updates.push(&[ts.to_be_bytes().as_slice(), &random.random::<[u8; 32]>()].concat(), 1);
    }
    client.commit(ts, &[ShardAppend { shard: SHARD, updates: &[Arc::new(updates)] }], &[]).expect("it commits");
}

/// The rows by commit: how many there are.
fn counts(client: &PersistClient) -> Vec<(u64, Diff)> {
    let mut counts: Vec<(u64, Diff)> = Vec::new();
    for batch in client.snapshot(SHARD, client.upper() - 1).expect("readable") {
        for (row, diff) in batch.expect("intact").iter() {
            let ts = u64::from_be_bytes(row[..8].try_into().expect("it begins with its commit"));
            match counts.iter_mut().find(|(of, _)| *of == ts) {
                Some((_, count)) => *count += diff,
                None => counts.push((ts, diff)),
            }
        }
    }
    counts.sort_unstable();
    counts
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("writable");
    for entry in fs::read_dir(from).expect("listable").map(|entry| entry.expect("listable")) {
        let target = to.join(entry.file_name());
        if entry.file_type().expect("known").is_dir() {
            copy(&entry.path(), &target);
        } else if !entry.file_name().to_string_lossy().ends_with("-shm") {
            // What processes share of the log is memory.
            fs::copy(entry.path(), target).expect("writable");
        }
    }
}

#[test]
fn a_power_cut_keeps_what_was_acknowledged_and_tears_nothing() {
    let seed = std::env::var("TORN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random);
    let mut random = StdRng::seed_from_u64(seed);
    let dir = TempDir::new().expect("a temporary directory");
    let client = PersistClient::open(dir.path()).expect("it opens");
    client.commit(1, &[], &[MetaWrite::CreateShard(SHARD)]).expect("it commits");
    let log = dir.path().join(LOG);
    let length = || usize::try_from(fs::metadata(&log).expect("it is there").len()).expect("small");
    let database = fs::read(dir.path().join("consensus.db")).expect("readable");
    // By commit: how long the log was once it was acknowledged.
    let mut synced = vec![length()];
    for ts in 2..2 + COMMITS {
        commit(&client, ts, &mut random);
        synced.push(length());
    }
    let whole = fs::read(&log).expect("readable");
    assert!(
        database == fs::read(dir.path().join("consensus.db")).expect("readable"),
        "the log was copied back: fewer commits"
    );
    assert!(synced.windows(2).all(|pair| pair[0] < pair[1]), "the log grows with every commit");
    let expected = counts(&client);
    let mut torn = 0;
    for cut in 0..CUTS {
        let image = TempDir::new().expect("a temporary directory");
        copy(dir.path(), image.path());
        let last = random.random_range(0..synced.len() - 1);
        let mut left = whole[..synced[last + 1]].to_vec();
        for sector in left[synced[last]..].chunks_mut(SECTOR_BYTES) {
            match random.random_range(0..4) {
                0 | 1 => {}
                2 => sector.fill(0),
                _ => random.fill(sector),
            }
        }
        if random.random_bool(0.5) {
            left.truncate(random.random_range(synced[last]..=left.len()));
        }
        fs::write(image.path().join(LOG), &left).expect("writable");
        let client = PersistClient::open(image.path()).expect("it opens");
        let found = counts(&client);
        let is_whole = found == expected[..last] || found == expected[..last + 1];
        assert!(is_whole, "cut {cut} after {last} acknowledged commits, seed {seed}: {found:?}");
        torn += usize::from(found.len() == last);
        commit(&client, 2 + 2 * COMMITS, &mut random);
        assert_eq!(counts(&client).len(), found.len() + 1, "cut {cut}, seed {seed}: it goes on");
    }
    println!("{CUTS} cuts, {torn} of them without the commit that was under way, seed {seed}");
    assert!(torn > 0, "no cut took anything away, seed {seed}");
}

/// Large batches are files, which are synced before the log refers to them: what is left of a file without a reference is nothing.
#[test]
fn a_power_cut_in_the_middle_of_a_file_leaves_nothing_of_it() {
    let seed = rand::random();
    let mut random = StdRng::seed_from_u64(seed);
    let dir = TempDir::new().expect("a temporary directory");
    let client = PersistClient::open(dir.path()).expect("it opens");
    client.commit(1, &[], &[MetaWrite::CreateShard(SHARD)]).expect("it commits");
    commit(&client, 2, &mut random);
    let before = fs::read(dir.path().join(LOG)).expect("readable");
    let expected = counts(&client);
    let mut large = Updates::new();
    (0..20_000_u64).for_each(|n| large.push(&[3_u64.to_be_bytes(), n.to_be_bytes()].concat(), 1));
    client.commit(3, &[ShardAppend { shard: SHARD, updates: &[Arc::new(large)] }], &[]).expect("it commits");
    let blobs = |dir: &Path| -> Vec<_> {
        fs::read_dir(dir.join("blobs")).expect("listable").map(|entry| entry.expect("listable").path()).collect()
    };
    assert!(!blobs(dir.path()).is_empty(), "a large batch is a file");
    for _ in 0..20 {
        let image = TempDir::new().expect("a temporary directory");
        copy(dir.path(), image.path());
        fs::write(image.path().join(LOG), &before).expect("writable");
        for blob in blobs(image.path()) {
            let bytes = fs::read(&blob).expect("readable");
            fs::write(&blob, &bytes[..random.random_range(0..bytes.len())]).expect("writable");
        }
        let client = PersistClient::open(image.path()).expect("it opens");
        assert_eq!(counts(&client), expected, "seed {seed}");
        assert!(blobs(image.path()).is_empty(), "what nothing refers to is removed, seed {seed}");
    }
}
