//! A power cut: what was not synced is there, or not, or a part of it, sector by sector and in any order; and a file that was
//! not synced has any part of what was written. Whatever is left, an acknowledged commit is there, and the one that was under way
//! is there as a whole or not at all.
//!
//! Commits that are small enough go to the end of the journal and touch nothing else until the database is told of them. The
//! file has its length from the start, so what a commit changed says how far it was synced by then. A cut takes an
//! image of the directory, keeps the journal up to there, and decides by chance about every sector of the commit under way: it is
//! written, or as it was before, or zero, or anything; but what was in it before that commit stays, as a disk writes no sector by half. What
//! follows is as it was when the store was opened. The witness, which is not
//! synced, is as any earlier commit left it, and from another run of the kernel.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use glimpse_persist::{MetaWrite, PersistClient, ShardAppend, ShardId};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use repr::{Diff, Updates};
use tempfile::TempDir;

const SHARD: ShardId = ShardId(3);
/// Few enough that the database is not told of them meanwhile.
const COMMITS: u64 = 60;
const CUTS: usize = 100;
/// What a disk writes as a whole.
const SECTOR_BYTES: usize = 512;
const JOURNAL: &str = "journal";
const SHARED: &str = "consensus.db-shm";
const WITNESS: &str = "witness";
/// Entries begin at multiples of it.
const ALIGNMENT: usize = 8;

fn commit(client: &PersistClient, ts: u64, random: &mut StdRng) {
    // One row says which commit it is; the others make some commits span pages.
    let mut updates: Updates = [(&ts.to_be_bytes()[..], 1)].into_iter().collect();
    for _ in 0..random.random_range(0..60) {
        updates.push(&[ts.to_be_bytes().as_slice(), &random.random::<[u8; 32]>()].concat(), 1);
    }
    client.commit(ts, &[ShardAppend { shard: SHARD, updates: &[Arc::new(updates)] }], &[]).expect("it commits");
}

/// Where a journal ends that was `before` and is `after` a commit, which is no earlier than `begin`. The file's own length is more.
fn end(before: &[u8], after: &[u8], begin: usize) -> usize {
    let last = (begin..after.len()).rev().find(|at| before[*at] != after[*at]).expect("a commit writes");
    (last + 1).next_multiple_of(ALIGNMENT)
}

/// A witness as after a power cut: written during another run of the kernel.
fn of_another_boot(witness: &[u8]) -> Vec<u8> {
    let mut bytes = witness[..witness.len() - 4].to_vec();
    bytes[9..25].fill(0xAA);
    let crc = crc32fast::hash(&bytes);
    bytes.extend(crc.to_le_bytes());
    bytes
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
        } else if ![JOURNAL, SHARED].iter().any(|name| entry.file_name() == *name) {
            // What processes share of SQLite's log is memory, and the journal is written by the cut.
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
    let journal = dir.path().join(JOURNAL);
    let read = || fs::read(&journal).expect("readable");
    let database =
        || ["consensus.db", "consensus.db-wal"].map(|name| fs::read(dir.path().join(name)).expect("readable"));
    let told = database();
    commit(&client, 2, &mut random);
    // What commits write over, and by commit, where the journal ended once it was acknowledged.
    let filler = read();
    let (mut synced, mut witnesses, mut before) = (vec![], vec![], filler.clone());
    for ts in 3..3 + COMMITS {
        commit(&client, ts, &mut random);
        let after = read();
        synced.push(end(&before, &after, synced.last().copied().unwrap_or_default()));
        witnesses.push(fs::read(dir.path().join(WITNESS)).expect("readable"));
        before = after;
    }
    let whole = before;
    assert_eq!(whole.len(), filler.len(), "the journal has its length from the start");
    assert!(told == database(), "the database was told: fewer commits");
    assert!(synced.windows(2).all(|pair| pair[0] < pair[1]), "the journal grows with every commit");
    let expected = counts(&client);
    let mut torn = 0;
    for cut in 0..CUTS {
        let image = TempDir::new().expect("a temporary directory");
        copy(dir.path(), image.path());
        let last = random.random_range(0..synced.len() - 1);
        let (from, to) = (synced[last], synced[last + 1]);
        let mut left = [&whole[..to], &filler[to..]].concat();
        let damage = [0.0, 0.05, 0.5][random.random_range(0..3)];
        for at in (from / SECTOR_BYTES * SECTOR_BYTES..to).step_by(SECTOR_BYTES) {
            let sector = at.max(from)..to.min(at + SECTOR_BYTES);
            if !random.random_bool(damage) {
                continue;
            }
            match random.random_range(0..3) {
                0 => left[sector.clone()].copy_from_slice(&filler[sector]),
                1 => left[sector].fill(0),
                _ => random.fill(&mut left[sector]),
            }
        }
        if random.random_bool(0.2) {
            left.truncate(random.random_range(from..=to));
        }
        fs::write(image.path().join(JOURNAL), &left).expect("writable");
        let witness = &witnesses[random.random_range(0..=last)];
        fs::write(image.path().join(WITNESS), of_another_boot(witness)).expect("writable");
        let client = PersistClient::open(image.path()).expect("it opens");
        let found = counts(&client);
        // The first commit made the filler durable and is not cut.
        let acknowledged = last + 2;
        let is_whole = found == expected[..acknowledged] || found == expected[..acknowledged + 1];
        assert!(is_whole, "cut {cut} after {acknowledged} acknowledged commits, seed {seed}: {found:?}");
        torn += usize::from(found.len() == acknowledged);
        commit(&client, 3 + 2 * COMMITS, &mut random);
        assert_eq!(counts(&client).len(), found.len() + 1, "cut {cut}, seed {seed}: it goes on");
    }
    println!("{CUTS} cuts, {torn} of them without the commit that was under way, seed {seed}");
    assert!(torn > 0, "no cut took anything away, seed {seed}");
    assert!(torn < CUTS, "every cut took a commit away, seed {seed}");
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
    let [before, witness] = [JOURNAL, WITNESS].map(|name| fs::read(dir.path().join(name)).expect("readable"));
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
        fs::write(image.path().join(JOURNAL), &before).expect("writable");
        fs::write(image.path().join(WITNESS), of_another_boot(&witness)).expect("writable");
        for blob in blobs(image.path()) {
            let bytes = fs::read(&blob).expect("readable");
            fs::write(&blob, &bytes[..random.random_range(0..bytes.len())]).expect("writable");
        }
        let client = PersistClient::open(image.path()).expect("it opens");
        assert_eq!(counts(&client), expected, "seed {seed}");
        assert!(blobs(image.path()).is_empty(), "what nothing refers to is removed, seed {seed}");
    }
}
