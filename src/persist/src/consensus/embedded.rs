//! The embedded consensus store: a journal in front of a database.
//!
//! A transaction is one entry of the [`journal`]: one write and one sync. It is in force from then on, as a part of what lies *over* the
//! [`database`] ([`changes`]): reads look there first. From a background thread, in groups, the database is told. It
//! never hears of what came and went meanwhile, as a small batch does that was compacted. A transaction that is
//! too large for the journal goes to the database by itself, and leaves a gap in the journal: without it, what comes behind is not read.
//!
//! A start reads what the journal has and the database has not, compares the two together with what the [`witness`] knows, and puts it
//! into the database; the journal then begins anew.
//!
//! # Invariants
//! * Locks are taken in this order: `commits`, `database` or `reader`, `overlay`. The last is never held across a sync, so that no
//!   reader waits for a commit.
//! * The database has whole transactions up to one position of the journal, and says which. Everything behind it is in the overlay.
//! * What a start finds is what the witness knows of, or the start is refused and changes nothing.
//! * One process has the directory ([`crate::data_dir`]). That another store in it has begun an epoch is read from the witness.

mod changes;
mod database;
mod entry;
mod journal;
mod witness;

use std::fs::File;
use std::ops::ControlFlow::{self, Break, Continue};
use std::path::Path;

use bugs::Bug;
use parking_lot::Mutex;

use self::changes::{Changes, Overlay};
use self::database::{Database, Reader, Snapshot, Unchanged};
use self::journal::{BODY_BYTES_MAX, Found, Journal};
use self::witness::{Rows, Witness};
use super::{Consensus, Loaded, Txn};
use crate::blob::sync_path;
use crate::error::PersistError;
use crate::pauses::in_full;

/// How much of the journal the database is behind at the most before it is told: what that costs is the more the less at a time it is.
const BEHIND_BYTES_MAX: u64 = 2 << 20;

/// See the module.
#[derive(Debug)]
pub struct EmbeddedConsensus {
    commits: Mutex<Commits>,
    database: Mutex<Database>,
    reader: Mutex<Reader>,
    overlay: Mutex<Overlay>,
    /// The witness's, to sync it without holding up whoever commits.
    witness: File,
}

/// Where transactions go, one at a time.
#[derive(Debug)]
struct Commits {
    journal: Journal,
    witness: Witness,
}

/// What a start may find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The store is new, or from a version that kept no witness.
    NoWitness,
    /// The store is that of its witness.
    Same,
    /// The same, but a difference is accepted, and logged.
    Any,
}

impl EmbeddedConsensus {
    /// Opens the database at `path`, creating it if it does not exist and none is expected. The files `journal` and `witness` are beside it.
    ///
    /// Fails with `Loss` if what is there is not what its witness knows it to be, and has changed nothing then.
    pub fn open(path: &Path, expected: Expected) -> Result<EmbeddedConsensus, PersistError> {
        let expected = if bugs::is(Bug::FenceLost) { Expected::Any } else { expected };
        let journal_path = path.with_file_name("journal");
        // What who was killed has written and not synced is on disk before the witness knows it.
        for written in [&journal_path, &path.with_file_name("consensus.db-wal")] {
            if written.exists() {
                sync_path(written).map_err(|error| PersistError::io("syncing the consensus store", error))?;
            }
        }
        let unchanged = Unchanged::open(path, expected)?;
        let found = match unchanged.journal()? {
            Some(start) => journal::read(&journal_path, start)?,
            None => Found::default(),
        };
        if let Some(damage) = found.damage {
            expected.accept(PersistError::loss(&journal_path, damage))?;
        }
        let mut rows = Rows::load(unchanged.connection())?;
        let (mut changes, mut before_last) = (Changes::default(), None);
        for body in found.entries {
            let entry = entry::decode(body)?;
            before_last = Some(rows.state());
            let txn = entry.txn(rows.state().epoch);
            if let Err(error) = rows.apply(&txn) {
                expected.accept(PersistError::loss(&journal_path, in_full(&error)))?;
                break;
            }
            changes.add(&txn);
        }
        let witness = Witness::open(&path.with_file_name("witness"), rows, before_last, expected)?;
        let salt = rand::random();
        let database = unchanged.begin(&changes, salt)?;
        let journal = Journal::begin(&journal_path, salt)?;
        let file = witness.file().map_err(|error| PersistError::io("opening the consensus store", error))?;
        Ok(EmbeddedConsensus {
            commits: Mutex::new(Commits { journal, witness }),
            database: Mutex::new(database),
            reader: Mutex::new(Reader::open(path)?),
            overlay: Mutex::default(),
            witness: file,
        })
    }

    /// Puts into the database what lies over it, or a part of that if an earlier attempt has failed.
    fn settle(&self, database: &mut Database) -> Result<(), PersistError> {
        let (changes, end) = self.overlay.lock().freeze();
        database.write(&changes, end)?;
        self.overlay.lock().thaw();
        Ok(())
    }

    /// The same of everything, while nobody commits.
    fn settle_all(&self, _commits: &Commits, database: &mut Database) -> Result<(), PersistError> {
        while self.overlay.lock().bytes() > 0 {
            self.settle(database)?;
        }
        Ok(())
    }

    /// Commits by an entry of the journal.
    fn append(&self, commits: &mut Commits, txn: &Txn<'_>, body: &[u8]) -> Result<(), PersistError> {
        while !commits.journal.has_room(body.len(), self.overlay.lock().applied()) {
            self.settle(&mut self.database.lock())?;
        }
        let Commits { journal, witness } = commits;
        witness.change(|rows| rows.apply(txn))?;
        let end = witness.outcome(journal.append(body))?;
        // The database does not get it before: of what it has, no entry says what was there before.
        witness.confirm()?;
        self.overlay.lock().add(txn, end);
        Ok(())
    }

    /// Commits past the journal: `change` says the same of the witness's rows as `changes` of the database's.
    fn write_through(
        &self,
        commits: &mut Commits,
        changes: &Changes,
        change: impl FnOnce(&mut Rows) -> Result<(), PersistError>,
    ) -> Result<(), PersistError> {
        let mut database = self.database.lock();
        self.settle_all(commits, &mut database)?;
        let Commits { journal, witness } = commits;
        witness.change(change)?;
        let behind = journal.behind_gap();
        let written = witness.announce().and_then(|()| database.write(changes, behind));
        witness.outcome(written)?;
        journal.leave_gap();
        self.overlay.lock().leave_gap(behind);
        witness.confirm()
    }

    /// Reads what lies over the database, and if that is not all, the database, as both are at one moment: so either all or none of a
    /// replaced run of batches is seen.
    fn read<T, O>(
        &self,
        over: impl FnOnce(&Overlay) -> ControlFlow<T, O>,
        under: impl FnOnce(O, &Snapshot<'_>) -> Result<T, PersistError>,
    ) -> Result<T, PersistError> {
        let mut reader = self.reader.lock();
        let overlay = self.overlay.lock();
        let over = match over(&overlay) {
            Break(found) => return Ok(found),
            Continue(over) => over,
        };
        let database = reader.snapshot()?;
        drop(overlay);
        under(over, &database)
    }
}

impl Expected {
    /// What to do about a difference.
    fn accept(self, error: PersistError) -> Result<(), PersistError> {
        if self != Expected::Any {
            return Err(error);
        }
        tracing::warn!(%error, "this is accepted, as was asked for");
        Ok(())
    }
}

impl Consensus for EmbeddedConsensus {
    fn fence(&self) -> Result<u64, PersistError> {
        let mut commits = self.commits.lock();
        let epoch = commits.witness.epoch()? + 1;
        let changes = Changes { epoch: Some(epoch), ..Changes::default() };
        self.write_through(&mut commits, &changes, |rows| {
            rows.set_epoch(epoch);
            Ok(())
        })?;
        Ok(epoch)
    }

    fn load(&self) -> Result<Loaded, PersistError> {
        let commits = self.commits.lock();
        let mut database = self.database.lock();
        self.settle_all(&commits, &mut database)?;
        database.load()
    }

    fn transact(&self, txn: &Txn<'_>) -> Result<(), PersistError> {
        let body = entry::encode(txn);
        let mut commits = self.commits.lock();
        let current = commits.witness.epoch()?;
        if current != txn.epoch && !bugs::is(Bug::FenceLost) {
            return Err(PersistError::Fenced { ours: txn.epoch, current });
        }
        if body.len() <= BODY_BYTES_MAX {
            return self.append(&mut commits, txn, &body);
        }
        let mut changes = Changes::default();
        changes.add(txn);
        self.write_through(&mut commits, &changes, |rows| rows.apply(txn))
    }

    fn payloads(&self, seqs: &[u64]) -> Result<Vec<Option<Vec<u8>>>, PersistError> {
        let over = |overlay: &Overlay| {
            let over: Vec<_> = seqs.iter().map(|seq| overlay.payload(*seq)).collect();
            if over.iter().all(Option::is_some) { Break(over.into_iter().flatten().collect()) } else { Continue(over) }
        };
        self.read(over, |over, database| {
            over.into_iter().zip(seqs).map(|(over, seq)| over.map_or_else(|| database.payload(*seq), Ok)).collect()
        })
    }

    fn meta_get(&self, key: &str) -> Result<Option<Vec<u8>>, PersistError> {
        self.read(|overlay| overlay.meta(key).map_or(Continue(()), Break), |(), database| database.meta(key))
    }

    fn meta_scan(&self, prefix: &str, limit: usize) -> Result<Vec<(String, Vec<u8>)>, PersistError> {
        self.read(
            |overlay| Continue(overlay.metas(prefix)),
            |over, database| {
                let mut found = database.metas(prefix, limit, |key| !over.contains_key(key))?;
                found.extend(over.into_iter().filter_map(|(key, value)| value.map(|value| (key, value))));
                found.sort_unstable();
                found.truncate(limit);
                Ok(found)
            },
        )
    }

    fn is_newly_behind(&self) -> bool {
        self.overlay.lock().is_newly_behind(BEHIND_BYTES_MAX)
    }

    fn maintain(&self) -> Result<(), PersistError> {
        let mut database = self.database.lock();
        if self.overlay.lock().bytes() >= BEHIND_BYTES_MAX {
            self.settle(&mut database)?;
        }
        if database.checkpoint()? {
            let synced = self.witness.sync_data();
            synced.map_err(|error| PersistError::indeterminate("syncing the witness of the consensus store", error))?;
        }
        Ok(())
    }

    fn close(&self) -> Result<(), PersistError> {
        let commits = self.commits.lock();
        self.settle_all(&commits, &mut self.database.lock())?;
        let closed = commits.witness.close();
        closed.map_err(|error| PersistError::io("closing the witness of the consensus store", error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consensus::memory::MemoryConsensus;
    use crate::consensus::{BatchRow, Payload, contract};
    use crate::shard_id::ShardId;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use rusqlite::Connection;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn new() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("consensus.db");
        (dir, path)
    }

    fn open(path: &Path) -> EmbeddedConsensus {
        let expected = if path.exists() { Expected::Same } else { Expected::NoWitness };
        EmbeddedConsensus::open(path, expected).expect("it opens")
    }

    fn bytes(path: &Path) -> u64 {
        std::fs::metadata(path).map_or(0, |metadata| metadata.len())
    }

    fn inline(seq: u64, payload: Vec<u8>) -> BatchRow<Vec<u8>> {
        let payload = Payload::Inline(payload);
        BatchRow { seq, shard: ShardId(seq % 3), ts_max: seq, rows: 1, update_count: 1, bytes: 1, payload }
    }

    #[test]
    fn passes_the_contract() {
        let (_dir, path) = new();
        contract(&|| Box::new(open(&path)));
    }

    #[test]
    fn a_newer_schema_is_refused() {
        let (_dir, path) = new();
        drop(open(&path));
        let connection = Connection::open(&path).expect("it opens");
        connection.pragma_update(None, "user_version", 3).expect("writable");
        drop(connection);
        let error = EmbeddedConsensus::open(&path, Expected::Same).expect_err("it is from the future");
        assert_eq!(error.to_string(), "consensus store has format version 3, this version reads 2");
    }

    #[test]
    fn a_store_of_before_the_journal_goes_on() {
        let (_dir, path) = new();
        let store = open(&path);
        let epoch = store.fence().expect("works");
        store.transact(&Txn { epoch, meta: vec![("k", Some(b"v"))], ..Txn::default() }).expect("works");
        store.close().expect("works");
        drop(store);
        // What the first version left: no columns of a journal, and no file.
        let connection = Connection::open(&path).expect("it opens");
        let first =
            "ALTER TABLE control DROP COLUMN salt; ALTER TABLE control DROP COLUMN applied; PRAGMA user_version = 1";
        connection.execute_batch(first).expect("writable");
        drop(connection);
        std::fs::remove_file(path.with_file_name("journal")).expect("it is there");
        for _ in 0..2 {
            let store = open(&path);
            assert_eq!(store.meta_get("k").expect("works").as_deref(), Some(b"v".as_slice()));
            assert_eq!(store.fence().expect("works").cmp(&epoch), std::cmp::Ordering::Greater);
        }
    }

    #[test]
    fn files_stay_small_beside_a_busy_writer() {
        let (_dir, path) = new();
        let [log, journal] = ["consensus.db-wal", "journal"].map(|name| path.with_file_name(name));
        let store = open(&path);
        let epoch = store.fence().expect("works");
        assert_eq!(bytes(&journal), 8 << 20, "it has its length from the start");
        let value = vec![7; 1 << 19];
        for round in 0..128_u8 {
            let key = format!("k{}", round % 4);
            store.transact(&Txn { epoch, meta: vec![(&key, Some(&value))], ..Txn::default() }).expect("works");
            if round >= 64 {
                store.maintain().expect("works");
            }
        }
        assert_eq!(bytes(&journal), 8 << 20, "64 MiB were written");
        assert!(bytes(&log) < 16 << 20, "it starts over: {} bytes", bytes(&log));
        drop(store);
        assert!(bytes(&path) < 4 << 20, "what was written over is in the database: {} bytes", bytes(&path));
    }

    #[test]
    fn the_database_gets_nothing_that_the_witness_does_not_know() {
        let (_dir, path) = new();
        let store = open(&path);
        let epoch = store.fence().expect("works");
        let txn = |key| Txn { epoch, meta: vec![(key, Some(b"v".as_slice()))], ..Txn::default() };
        store.transact(&txn("a")).expect("works");
        store.commits.lock().witness.become_unwritable(&path.with_file_name("witness"));
        assert!(store.transact(&txn("b")).expect_err("nobody could tell a start of it").is_indeterminate());
        assert!(matches!(store.transact(&txn("c")), Err(PersistError::Poisoned)));
        store.settle(&mut store.database.lock()).expect("works");
        std::mem::forget(store);
        let store = open(&path);
        assert_eq!(store.meta_scan("", 9).expect("works").len(), 2, "it is there all the same");
    }

    #[test]
    fn what_comes_behind_a_transaction_that_is_gone_is_not_read() {
        let (dir, path) = new();
        let store = open(&path);
        let epoch = store.fence().expect("works");
        let put = |key, value| store.transact(&Txn { epoch, meta: vec![(key, Some(value))], ..Txn::default() });
        put("a", b"v").expect("works");
        store.load().expect("works");
        let log = path.with_file_name("consensus.db-wal");
        let before = std::fs::read(&log).expect("readable");
        put("large", &BYTES).expect("works");
        put("b", b"v").expect("works");
        let image = tempfile::tempdir().expect("a temporary directory");
        for name in ["consensus.db", "journal", "witness"] {
            std::fs::copy(dir.path().join(name), image.path().join(name)).expect("copied");
        }
        std::fs::write(image.path().join("consensus.db-wal"), before).expect("writable");
        let error =
            EmbeddedConsensus::open(&image.path().join("consensus.db"), Expected::Same).expect_err("one is gone");
        assert!(error.to_string().contains("journal"), "{error}");
    }

    #[test]
    fn a_store_that_was_replaced_does_not_touch_the_database() {
        let (_dir, path) = new();
        let store = open(&path);
        let epoch = store.fence().expect("works");
        store.transact(&Txn { epoch, meta: vec![("a", Some(b"v"))], ..Txn::default() }).expect("works");
        let newer = open(&path);
        let current = newer.fence().expect("works");
        let error = store.settle(&mut store.database.lock()).expect_err("it is not its database any more");
        assert!(matches!(error, PersistError::Fenced { current: found, .. } if found == current), "{error}");
    }

    const KEYS: [&str; 6] = ["a", "a/1", "a/2", "a/3", "b/1", "c"];
    static BYTES: [u8; 2 << 20] = [7; 2 << 20];

    /// Some of everything, of shards and batches with few keys, and now and then more than the journal takes.
    fn random_txn(random: &mut StdRng, epoch: u64, there: &Loaded) -> Txn<'static> {
        let mut some = |count: u64| random.random_range(0..=count);
        let is_there = |shard: ShardId| there.shards.iter().any(|(other, _)| *other == shard);
        let create = Some(ShardId(some(5))).filter(|shard| !is_there(*shard)).map(|shard| (shard, shard.0));
        let mut insert: Vec<BatchRow<Vec<u8>>> = Vec::new();
        for _ in 0..some(3) {
            let payload = vec![u8::try_from(some(255)).expect("a byte"); usize::try_from(some(9_000)).expect("small")];
            let mut row = inline(some(30), payload.clone());
            if some(4) == 0 {
                row.payload = Payload::Blob(payload);
            }
            let is_taken = there.batches.iter().any(|batch| batch.seq == row.seq);
            if !is_taken && insert.iter().all(|other| other.seq != row.seq) {
                insert.push(row);
            }
        }
        let mut meta = Vec::new();
        for _ in 0..some(3) {
            let key = KEYS[usize::try_from(some(5)).expect("small")];
            let length = if some(60) == 0 { BYTES.len() } else { usize::try_from(some(9_000)).expect("small") };
            meta.push((key, (some(3) > 0).then(|| &BYTES[..length])));
        }
        Txn {
            epoch,
            create: create.into_iter().collect(),
            insert,
            delete: (0..some(3)).map(|_| some(30)).collect(),
            since: (0..some(1)).map(|_| (ShardId(some(5)), 10 + some(90))).collect(),
            drop: (0..some(1)).map(|_| ShardId(some(5))).collect(),
            meta,
            upper: (some(2) == 0).then(|| some(99)),
        }
    }

    #[test]
    fn is_what_a_store_in_memory_is_however_it_ends_and_begins() {
        let seed = std::env::var("EMBEDDED_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random);
        println!("EMBEDDED_SEED={seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let (_dir, path) = new();
        let model = MemoryConsensus::default();
        let mut store = open(&path);
        let mut epoch = store.fence().expect("works");
        model.fence().expect("works");
        let mut starts = 0;
        for step in 0..1_500 {
            let txn = random_txn(&mut random, epoch, &model.load().expect("works"));
            model.transact(&txn).expect("possible");
            store.transact(&txn).unwrap_or_else(|error| panic!("step {step}: {error:?}"));
            match random.random_range(0..40) {
                // As while the database is told, and as when that fails.
                0..3 => drop(store.overlay.lock().freeze()),
                3..6 => store.settle(&mut store.database.lock()).expect("works"),
                6 => store.maintain().expect("works"),
                7 => {
                    let [found, expected] = [&store as &dyn Consensus, &model].map(|it| it.load().expect("works"));
                    assert_eq!(found.upper, expected.upper, "step {step}");
                    assert_eq!(found.shards, expected.shards, "step {step}");
                    assert!(found.batches == expected.batches, "step {step}");
                }
                8 => {
                    if random.random_bool(0.5) {
                        store.close().expect("works");
                        drop(store);
                    } else {
                        // As who is killed leaves it.
                        std::mem::forget(store);
                    }
                    store = open(&path);
                    starts += 1;
                    if random.random_bool(0.8) {
                        epoch = store.fence().expect("works");
                        assert_eq!(model.fence().expect("works"), epoch);
                    }
                }
                _ => {}
            }
            let seqs: Vec<u64> = (0..=31).collect();
            assert!(store.payloads(&seqs).expect("works") == model.payloads(&seqs).expect("works"), "step {step}");
            let key = KEYS[random.random_range(0..KEYS.len())];
            assert!(store.meta_get(key).expect("works") == model.meta_get(key).expect("works"), "step {step}: {key}");
            for (prefix, limit) in [("", usize::MAX), ("a/", 2), ("a", 1), ("d", 9)] {
                let [found, expected] =
                    [&store as &dyn Consensus, &model].map(|it| it.meta_scan(prefix, limit).expect("works"));
                assert!(found == expected, "step {step}: {prefix} {limit}");
            }
        }
        assert!(starts > 10, "{starts} starts");
    }

    #[test]
    fn nothing_that_was_not_put_into_the_database_does_not_come_after_a_gap() {
        let (_dir, path) = new();
        let store = open(&path);
        let epoch = store.fence().expect("works");
        // As when housekeeping finds nothing to do, and fails at that.
        drop(store.overlay.lock().freeze());
        let large = Txn { epoch, insert: vec![inline(1, vec![7; 2 << 20])], ..Txn::default() };
        store.transact(&large).expect("works");
        store.settle(&mut store.database.lock()).expect("works");
        let small = Txn { epoch, insert: vec![inline(2, vec![8])], ..Txn::default() };
        store.transact(&small).expect("works");
        drop(store);
        let payloads = open(&path).payloads(&[1, 2]).expect("works");
        assert!(payloads == [Some(vec![7; 2 << 20]), Some(vec![8])]);
    }

    #[test]
    fn who_reads_beside_sees_one_moment() {
        let (_dir, path) = new();
        let store = open(&path);
        let epoch = store.fence().expect("works");
        let last = AtomicU64::new(1);
        let commit = |seq: u64| {
            let txn = Txn { epoch, insert: vec![inline(seq, vec![1])], delete: vec![seq - 1], ..Txn::default() };
            store.transact(&txn).expect("works");
            last.store(seq, Ordering::SeqCst);
        };
        commit(1);
        std::thread::scope(|scope| {
            scope.spawn(|| (2..600).for_each(commit));
            scope.spawn(|| {
                while last.load(Ordering::SeqCst) < 599 {
                    store.settle(&mut store.database.lock()).expect("works");
                }
            });
            let mut seen = 0;
            while last.load(Ordering::SeqCst) < 599 {
                let from = last.load(Ordering::SeqCst);
                let seqs: Vec<u64> = (from..from + 50).collect();
                let found = store.payloads(&seqs).expect("works").iter().flatten().count();
                let has_gone_on = last.load(Ordering::SeqCst) >= from + 49;
                assert!(found == 1 || found == 0 && has_gone_on, "{found} of the batches that take each other's place");
                seen += 1;
            }
            assert!(seen > 0);
        });
    }
}
