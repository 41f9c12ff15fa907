//! What the store is known to hold, told outside of it.
//!
//! SQLite ends its log at the first frame that is not as it was written. Damage in the middle of the log looks like a log that ends
//! there: what was committed behind it is gone, and nothing says so. Pages of the database have no checksums at all. So a
//! file beside the store holds a [`Record`]: a sum over all rows of the store. At start the rows are summed up and compared.
//!
//! The record is written once per transaction, when that is durable, and never synced for it: what a process has written is read by the next one, however
//! the first ended. Only a power cut, which ends the kernel as well, can bring back an older record. So the record says during
//! which run of the kernel it was written; during the same run, and after a clean stop, the rows have to be those of the record. After
//! another end of the kernel, later rows are taken for good, and that is logged.
//!
//! # Invariants
//! * The sum does not depend on the order of rows: each row's hash is added when the row comes and taken away when it goes.
//! * Nobody is told of a commit before the record has it. Until then the record is of what was before: before the last entry of the journal;
//!   or, as the database does not tell that, what was and what will be are both recorded before a transaction that goes past the journal.

use super::Expected;
use super::database::{failed, word};
use crate::consensus::{Payload, Txn};
use crate::error::PersistError;
use crate::shard_id::ShardId;
use repr::{Diff, Timestamp};
use rusqlite::Connection;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use twox_hash::xxhash3_128::Hasher;

/// What the file begins with; the last byte is its version.
const MAGIC: &[u8; 8] = b"GLMPWIT\x01";
const BOOT_BYTES: usize = 16;
const STATE_BYTES: usize = 8 + 8 + 8 + 16;
const CRC_BYTES: usize = 4;
const RECORD_BYTES: usize = MAGIC.len() + 1 + BOOT_BYTES + 2 * STATE_BYTES + CRC_BYTES;

/// What is known of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) epoch: u64,
    upper: Timestamp,
    /// Rows of all tables, net.
    rows: Diff,
    /// Of the hashes of all rows of the store, modulo 2^128.
    sum: u128,
}

/// What the file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    /// Nothing was written after it, and it was synced.
    is_clean: bool,
    /// During which run of the kernel it was written; zeros if that cannot be known.
    boot: [u8; BOOT_BYTES],
    stands: State,
    /// As `stands`, unless a transaction is on its way.
    next: State,
}

/// A row of the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Control,
    Shard(ShardId),
    Batch(u64),
    Meta(String),
}

/// A hash of a row, and the net number of table rows in it.
type Known = (u128, Diff);

/// All rows of the store.
#[derive(Debug, Default)]
pub(super) struct Rows {
    by_key: HashMap<Key, Known>,
    /// The upper in table `control`; that of the state is at least that of all batches, too.
    recorded_upper: Timestamp,
    state: State,
    /// What the transaction on its way has changed: as it was before.
    undo: Vec<(Key, Option<Known>)>,
}

/// The witness of an open store.
#[derive(Debug)]
pub(super) struct Witness {
    file: File,
    boot: [u8; BOOT_BYTES],
    rows: Rows,
    /// State and recorded upper before the transaction on its way.
    before: (State, Timestamp),
    /// It is not known what the last transaction came to.
    is_lost: bool,
}

impl Witness {
    /// Compares the store with what is known of it: its rows, and what they were before the last entry of the journal. Writes
    /// nothing if that is something else.
    pub(super) fn open(
        path: &Path,
        mut rows: Rows,
        before_last: Option<State>,
        expected: Expected,
    ) -> Result<Witness, PersistError> {
        // There is nothing to go back to, nor room to be kept for it.
        rows.undo = Vec::new();
        if expected != Expected::NoWitness
            && let Err(error) = compare(path, &rows.state, before_last, boot())
        {
            expected.accept(error)?;
        }
        let io = |error| PersistError::io("opening the witness of the consensus store", error);
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path).map_err(io)?;
        let before = (rows.state, rows.recorded_upper);
        let witness = Witness { file, boot: boot(), rows, before, is_lost: false };
        witness.write(false, witness.rows.state).map_err(io)?;
        witness.file.sync_all().map_err(io)?;
        Ok(witness)
    }

    /// The latest epoch, whoever has begun it.
    pub(super) fn epoch(&self) -> Result<u64, PersistError> {
        let mut bytes = [0; RECORD_BYTES];
        let read = self.file.read_exact_at(&mut bytes, 0);
        read.map_err(|error| PersistError::io("reading the witness of the consensus store", error))?;
        let record = Record::decode(&bytes);
        record
            .map(|record| record.stands.epoch)
            .ok_or_else(|| PersistError::corrupt("the witness", "it is not what was written"))
    }

    /// A transaction begins. A change that fails has changed nothing.
    pub(super) fn change(
        &mut self,
        change: impl FnOnce(&mut Rows) -> Result<(), PersistError>,
    ) -> Result<(), PersistError> {
        if self.is_lost {
            return Err(PersistError::Poisoned);
        }
        assert!(self.rows.undo.is_empty(), "one transaction at a time");
        self.before = (self.rows.state, self.rows.recorded_upper);
        change(&mut self.rows)
    }

    /// What became of something that the transaction needs. If it has failed, the transaction did not happen; or nobody knows
    /// whether it did, and the record goes on saying so.
    pub(super) fn outcome<T>(&mut self, done: Result<T, PersistError>) -> Result<T, PersistError> {
        match &done {
            Ok(_) => {}
            Err(error) if error.is_indeterminate() => self.is_lost = true,
            Err(_) => {
                self.rows.roll_back();
                (self.rows.state, self.rows.recorded_upper) = self.before;
            }
        }
        done
    }

    /// Records what the transaction is going to change: a start cannot know, of the database alone, what was there before.
    pub(super) fn announce(&self) -> Result<(), PersistError> {
        self.write(false, self.before.0)
            .map_err(|error| PersistError::io("writing the witness of the consensus store", error))
    }

    /// Records that the transaction is durable.
    pub(super) fn confirm(&mut self) -> Result<(), PersistError> {
        self.rows.undo.clear();
        let written = self.write(false, self.rows.state);
        let context = "writing the witness of the consensus store";
        self.outcome(written.map_err(|error| PersistError::indeterminate(context, error)))
    }

    /// Makes a record durable that nothing comes after.
    pub(super) fn close(&self) -> std::io::Result<()> {
        if self.is_lost {
            return Ok(());
        }
        assert!(self.rows.undo.is_empty(), "nothing is on its way");
        self.write(true, self.rows.state)?;
        self.file.sync_data()
    }

    /// A second handle on the file, to sync it without holding up whoever writes.
    pub(super) fn file(&self) -> std::io::Result<File> {
        self.file.try_clone()
    }

    /// As on a disk that can only be read any more.
    #[cfg(test)]
    pub(super) fn become_unwritable(&mut self, path: &Path) {
        self.file = File::open(path).expect("it is there");
    }

    fn write(&self, is_clean: bool, stands: State) -> std::io::Result<()> {
        let record = Record { is_clean, boot: self.boot, stands, next: self.rows.state };
        self.file.write_all_at(&record.encode(), 0)
    }
}

/// Compares the record at `path` with a store's state.
fn compare(path: &Path, found: &State, before_last: Option<State>, boot: [u8; BOOT_BYTES]) -> Result<(), PersistError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(PersistError::loss(path, "it is not there, and every start leaves one"));
        }
        Err(error) => return Err(PersistError::io("reading the witness of the consensus store", error)),
    };
    let record = Record::decode(&bytes).ok_or_else(|| PersistError::loss(path, "it is not what was written"))?;
    // Whoever ended the last process may have done so before the last entry of the journal was recorded.
    let is_before_last = before_last.is_some_and(|before| before.sum == record.stands.sum);
    if is_before_last || [record.stands.sum, record.next.sum].contains(&found.sum) {
        return Ok(());
    }
    let is_later = (found.epoch, found.upper) >= (record.stands.epoch, record.stands.upper);
    if !record.is_clean && record.boot != boot && is_later {
        tracing::warn!(
            upper = found.upper,
            witnessed = record.stands.upper,
            "the machine went down without a clean stop; the consensus store is ahead of its witness and is taken as it is"
        );
        return Ok(());
    }
    let store = path.with_file_name("consensus.db");
    Err(PersistError::loss(&store, difference(&record.stands, found)))
}

/// How a store differs from what it is known to be.
fn difference(known: &State, found: &State) -> String {
    let mut parts = Vec::new();
    if found.upper < known.upper {
        let missing = known.upper - found.upper;
        parts.push(format!(
            "it ends at time {}, commits up to {} were acknowledged ({}.{:03} s later)",
            found.upper,
            known.upper,
            missing / 1_000_000,
            missing / 1_000 % 1_000
        ));
    }
    if found.rows != known.rows {
        parts.push(format!("it has {} rows, {} are known", found.rows, known.rows));
    }
    if parts.is_empty() {
        parts.push("its contents have changed".to_owned());
    }
    parts.join("; ")
}

impl Record {
    fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = Vec::with_capacity(RECORD_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.push(u8::from(self.is_clean));
        bytes.extend_from_slice(&self.boot);
        for state in [&self.stands, &self.next] {
            bytes.extend_from_slice(&state.epoch.to_le_bytes());
            bytes.extend_from_slice(&state.upper.to_le_bytes());
            bytes.extend_from_slice(&state.rows.to_le_bytes());
            bytes.extend_from_slice(&state.sum.to_le_bytes());
        }
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        bytes.try_into().expect("every field has its length")
    }

    fn decode(bytes: &[u8]) -> Option<Record> {
        if bytes.len() != RECORD_BYTES {
            return None;
        }
        let (body, crc) = bytes.split_last_chunk::<CRC_BYTES>()?;
        let mut rest = body.strip_prefix(MAGIC).filter(|_| crc32fast::hash(body) == u32::from_le_bytes(*crc))?;
        let [is_clean] = take(&mut rest)?;
        let boot = take(&mut rest)?;
        let mut state = || {
            Some(State {
                epoch: u64::from_le_bytes(take(&mut rest)?),
                upper: u64::from_le_bytes(take(&mut rest)?),
                rows: Diff::from_le_bytes(take(&mut rest)?),
                sum: u128::from_le_bytes(take(&mut rest)?),
            })
        };
        Some(Record { is_clean: is_clean == 1, boot, stands: state()?, next: state()? })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, behind) = rest.split_first_chunk::<N>()?;
    *rest = behind;
    Some(*taken)
}

/// Which run of the kernel this is.
fn boot() -> [u8; BOOT_BYTES] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).unwrap_or(0).to_be_bytes()
}

impl Rows {
    /// Those of the database.
    pub(super) fn load(store: &Connection) -> Result<Rows, PersistError> {
        Rows::read(store).map_err(|error| failed("reading the consensus store", error))
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    pub(super) fn set_epoch(&mut self, epoch: u64) {
        self.set_control(epoch, self.recorded_upper);
    }

    fn read(store: &Connection) -> rusqlite::Result<Rows> {
        let mut rows = Rows::default();
        let mut select = store.prepare("SELECT epoch, upper FROM control")?;
        let (epoch, upper) = select.query_row([], |row| Ok((word(row, 0)?, word(row, 1)?)))?;
        rows.set_control(epoch, upper);
        let mut select = store.prepare("SELECT id, since FROM shard")?;
        let mut found = select.query([])?;
        while let Some(row) = found.next()? {
            rows.set_shard(ShardId(word(row, 0)?), word(row, 1)?);
        }
        let mut select = store.prepare(
            "SELECT seq, shard, ts_max, rows, update_count, bytes, is_blob, payload FROM batch ORDER BY seq",
        )?;
        let mut found = select.query([])?;
        while let Some(row) = found.next()? {
            let words = [word(row, 1)?, word(row, 2)?, word(row, 4)?, word(row, 5)?];
            rows.set_batch(word(row, 0)?, words, row.get(3)?, row.get(6)?, row.get_ref(7)?.as_blob()?);
        }
        let mut select = store.prepare("SELECT key, value FROM meta")?;
        let mut found = select.query([])?;
        while let Some(row) = found.next()? {
            rows.set_meta(row.get_ref(0)?.as_str()?, Some(row.get_ref(1)?.as_blob()?));
        }
        Ok(rows)
    }

    /// Does what the transaction does to the store; nothing if it adds a key that is taken.
    pub(super) fn apply(&mut self, txn: &Txn<'_>) -> Result<(), PersistError> {
        let created = txn.create.iter().map(|(shard, _)| Key::Shard(*shard));
        let inserted = txn.insert.iter().map(|batch| Key::Batch(batch.seq));
        if let Some(taken) = created.chain(inserted).find(|key| self.by_key.contains_key(key)) {
            let source = format!("{taken:?} is there already").into();
            return Err(PersistError::Determinate { context: "writing a transaction", source });
        }
        for (shard, since) in &txn.create {
            self.set_shard(*shard, *since);
        }
        for batch in &txn.insert {
            let (is_blob, payload) = match &batch.payload {
                Payload::Inline(payload) => (false, payload),
                Payload::Blob(reference) => (true, reference),
            };
            let words = [batch.shard.0, batch.ts_max, batch.update_count, batch.bytes];
            self.set_batch(batch.seq, words, batch.rows, is_blob, payload);
        }
        for seq in &txn.delete {
            self.set(Key::Batch(*seq), None);
        }
        for (shard, since) in &txn.since {
            if self.by_key.contains_key(&Key::Shard(*shard)) {
                self.set_shard(*shard, *since);
            }
        }
        for shard in &txn.drop {
            self.set(Key::Shard(*shard), None);
        }
        for (key, value) in &txn.meta {
            self.set_meta(key, *value);
        }
        if let Some(upper) = txn.upper {
            self.set_control(self.state.epoch, self.recorded_upper.max(upper));
        }
        Ok(())
    }

    fn roll_back(&mut self) {
        while let Some((key, known)) = self.undo.pop() {
            match known {
                Some(known) => self.by_key.insert(key, known),
                None => self.by_key.remove(&key),
            };
        }
    }

    fn set_control(&mut self, epoch: u64, upper: Timestamp) {
        (self.state.epoch, self.recorded_upper) = (epoch, upper);
        self.state.upper = self.state.upper.max(upper);
        self.set(Key::Control, Some((hash(0, &[epoch, upper], &[]), 0)));
    }

    fn set_shard(&mut self, shard: ShardId, since: Timestamp) {
        self.set(Key::Shard(shard), Some((hash(1, &[shard.0, since], &[]), 0)));
    }

    /// `words` are its shard, its latest time, its number of updates and their bytes.
    fn set_batch(&mut self, seq: u64, words: [u64; 4], rows: Diff, is_blob: bool, payload: &[u8]) {
        let [shard, ts_max, update_count, bytes] = words;
        let words = [seq, shard, ts_max, rows.cast_unsigned(), update_count, bytes, u64::from(is_blob)];
        self.state.upper = self.state.upper.max(ts_max.saturating_add(1));
        self.set(Key::Batch(seq), Some((hash(2, &words, &[payload]), rows)));
    }

    fn set_meta(&mut self, key: &str, value: Option<&[u8]>) {
        let length = u64::try_from(key.len()).expect("a length fits");
        let known = value.map(|value| (hash(3, &[length], &[key.as_bytes(), value]), 0));
        self.set(Key::Meta(key.to_owned()), known);
    }

    fn set(&mut self, key: Key, known: Option<Known>) {
        let before = match known {
            Some(known) => self.by_key.insert(key.clone(), known),
            None => self.by_key.remove(&key),
        };
        if let Some((hash, rows)) = before {
            self.state.sum = self.state.sum.wrapping_sub(hash);
            self.state.rows = self.state.rows.wrapping_sub(rows);
        }
        if let Some((hash, rows)) = known {
            self.state.sum = self.state.sum.wrapping_add(hash);
            self.state.rows = self.state.rows.wrapping_add(rows);
        }
        self.undo.push((key, before));
    }
}

/// The hash of a row of one table of the store.
fn hash(table: u8, words: &[u64], bytes: &[&[u8]]) -> u128 {
    let mut hasher = Hasher::new();
    hasher.write(&[table]);
    words.iter().for_each(|word| hasher.write(&word.to_le_bytes()));
    bytes.iter().for_each(|bytes| hasher.write(bytes));
    hasher.finish_128()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consensus::embedded::EmbeddedConsensus;
    use crate::consensus::{BatchRow, Consensus};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use std::fs;
    use std::path::PathBuf;

    fn store(dir: &Path) -> PathBuf {
        dir.join("consensus.db")
    }

    fn open(dir: &Path, expected: Expected) -> Result<EmbeddedConsensus, PersistError> {
        EmbeddedConsensus::open(&store(dir), expected)
    }

    /// A transaction that does some of everything; of another one's keys, too, and of some that are not there.
    fn random_txn(random: &mut StdRng, store: &EmbeddedConsensus, epoch: u64, seq: &mut u64) {
        let loaded = store.load().expect("works");
        let mut some = |count: usize| random.random_range(0..=count);
        let is_taken = |shard: &ShardId| loaded.shards.iter().any(|(taken, _)| taken == shard);
        let created: Vec<_> =
            (0..3).map(|_| ShardId(some(20) as u64)).filter(|shard| !is_taken(shard)).take(1).collect();
        let keys: Vec<String> = (0..some(3)).map(|_| format!("key/{}", some(9))).collect();
        let values: Vec<Option<Vec<u8>>> = keys.iter().map(|_| (some(3) > 0).then(|| vec![7; some(99)])).collect();
        let mut batch = |seq: &mut u64| {
            *seq += 1;
            let payload = vec![u8::try_from(some(255)).expect("a byte"); some(200)];
            BatchRow {
                seq: *seq,
                shard: ShardId(1),
                ts_max: 10 * *seq,
                rows: Diff::try_from(some(9)).expect("small") - 4,
                update_count: some(9) as u64,
                bytes: some(9) as u64,
                payload: if some(4) == 0 { Payload::Blob(payload) } else { Payload::Inline(payload) },
            }
        };
        let txn = Txn {
            epoch,
            insert: vec![batch(seq), batch(seq)],
            delete: loaded
                .batches
                .iter()
                .map(|batch| batch.seq)
                .filter(|seq| seq % 3 == 0)
                .chain([u64::MAX >> 1])
                .collect(),
            since: created.iter().map(|shard| (*shard, 5)).chain([(ShardId(99), 1)]).collect(),
            create: created.iter().map(|shard| (*shard, 3)).collect(),
            drop: loaded.shards.iter().map(|(shard, _)| *shard).filter(|shard| shard.0 % 5 == 4).collect(),
            meta: keys.iter().map(String::as_str).zip(values.iter().map(Option::as_deref)).collect(),
            upper: Some(11 * *seq),
        };
        store.transact(&txn).expect("works");
        // What fails leaves nothing, here as there.
        let clash = Txn { meta: vec![("key/0", Some(b"never"))], create: vec![(ShardId(50), 0)], ..Txn::default() };
        let clash = Txn { epoch, insert: vec![batch(&mut { *seq - 1 }), batch(seq)], ..clash };
        store.transact(&Txn { epoch: epoch + 1, ..Txn::default() }).expect_err("of another epoch");
        store.transact(&clash).expect_err("the key is taken");
    }

    #[test]
    fn the_sum_is_that_of_the_rows_however_they_came() {
        let mut random = StdRng::seed_from_u64(7);
        let dir = tempfile::tempdir().expect("a temporary directory");
        drop(open(dir.path(), Expected::NoWitness).expect("new"));
        let mut seq = 0;
        for round in 0..20 {
            let store = open(dir.path(), Expected::Same).expect("it is as it was left");
            let epoch = store.fence().expect("works");
            for _ in 0..10 {
                random_txn(&mut random, &store, epoch, &mut seq);
            }
            if round % 2 == 0 {
                // As a process leaves it that is killed.
                std::mem::forget(store);
            }
        }
    }

    /// Leaves a store with three keys as a process does that is killed; gives the files as they were after so many of them.
    fn advanced(dir: &Path, after: usize) -> Vec<(PathBuf, Vec<u8>)> {
        // Elsewhere: what a process has open in a file, SQLite shares within the process.
        let lived = tempfile::tempdir().expect("a temporary directory");
        let store = open(lived.path(), Expected::NoWitness).expect("new");
        let epoch = store.fence().expect("works");
        let files = || {
            let entries = ["consensus.db", "consensus.db-wal", "journal", "witness"].into_iter();
            entries
                .map(|name| (dir.join(name), fs::read(lived.path().join(name)).expect("readable")))
                .collect::<Vec<_>>()
        };
        let states = ["a", "b", "c"].map(|key| {
            let txn = Txn { epoch, meta: vec![(key, Some(b"v"))], upper: Some(9), ..Txn::default() };
            store.transact(&txn).expect("works");
            files()
        });
        put_back(&states[2], |_| true);
        states[after - 1].clone()
    }

    fn put_back(files: &[(PathBuf, Vec<u8>)], wanted: impl Fn(&str) -> bool) {
        for (path, bytes) in files {
            if wanted(&path.file_name().expect("a file").to_string_lossy()) {
                fs::write(path, bytes).expect("writable");
            }
        }
    }

    fn refused(dir: &Path) -> String {
        let error = open(dir, Expected::Same).expect_err("it is not what it was");
        assert!(matches!(error, PersistError::Loss { .. }), "{error}");
        error.to_string()
    }

    #[test]
    fn a_store_of_an_earlier_time_is_refused_until_that_is_accepted() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let before = advanced(dir.path(), 1);
        put_back(&before, |name| name != "witness");
        let log = fs::read(dir.path().join("consensus.db-wal")).expect("it is there");
        assert!(refused(dir.path()).contains("consensus.db"));
        assert_eq!(fs::read(dir.path().join("consensus.db-wal")).expect("it is left"), log, "nothing has changed");
        drop(open(dir.path(), Expected::Any).expect("accepted"));
        drop(open(dir.path(), Expected::Same).expect("known from then on"));
    }

    #[test]
    fn a_store_that_is_gone_or_a_witness_that_is_not_one_is_refused() {
        for (name, broken) in [
            ("consensus.db", None),
            ("consensus.db", Some(Vec::new())),
            ("consensus.db-wal", None),
            ("journal", None),
            ("journal", Some(Vec::new())),
            ("witness", None),
            ("witness", Some(vec![0; RECORD_BYTES])),
        ] {
            let dir = tempfile::tempdir().expect("a temporary directory");
            advanced(dir.path(), 3);
            let path = dir.path().join(name);
            match broken {
                None => fs::remove_file(&path).expect("it is there"),
                Some(bytes) => fs::write(&path, bytes).expect("writable"),
            }
            refused(dir.path());
        }
    }

    #[test]
    fn after_a_power_cut_the_store_may_be_ahead_of_its_witness() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let before = advanced(dir.path(), 1);
        put_back(&before, |name| name == "witness");
        assert!(refused(dir.path()).contains("its contents have changed"));
        let path = dir.path().join("witness");
        let record = Record::decode(&fs::read(&path).expect("it is there")).expect("it is one");
        let elsewhere = Record { boot: [1; BOOT_BYTES], ..record };
        // Behind a clean stop nothing can have happened.
        fs::write(&path, Record { is_clean: true, ..elsewhere }.encode()).expect("writable");
        refused(dir.path());
        // An earlier time is one of before the record.
        let later = State { epoch: 9, ..record.stands };
        fs::write(&path, Record { stands: later, next: later, ..elsewhere }.encode()).expect("writable");
        refused(dir.path());
        fs::write(&path, elsewhere.encode()).expect("writable");
        drop(open(dir.path(), Expected::Same).expect("it is ahead"));
    }

    #[test]
    fn a_commit_that_is_on_its_way_may_or_may_not_have_come() {
        // Past the journal, which is announced.
        let dir = tempfile::tempdir().expect("a temporary directory");
        let before = advanced(dir.path(), 1);
        let path = dir.path().join("witness");
        let decoded = |bytes: &[u8]| Record::decode(bytes).expect("it is one");
        let earlier = before.iter().find(|(name, _)| *name == path).expect("it is there");
        let on_its_way = Record { stands: decoded(&earlier.1).stands, ..decoded(&fs::read(&path).expect("readable")) };
        fs::write(&path, on_its_way.encode()).expect("writable");
        drop(open(dir.path(), Expected::Same).expect("it has come"));
        put_back(&before, |name| name != "witness");
        fs::write(&path, on_its_way.encode()).expect("writable");
        drop(open(dir.path(), Expected::Same).expect("it has not"));

        // By the journal: who was killed may not have recorded the last entry.
        let dir = tempfile::tempdir().expect("a temporary directory");
        let before = advanced(dir.path(), 2);
        put_back(&before, |name| name == "witness");
        drop(open(dir.path(), Expected::Same).expect("it has come"));
    }
}
