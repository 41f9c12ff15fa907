//! The journal: what was committed and is not in the database yet.
//!
//! One file of a fixed length, written around and around. A commit is one entry at its end, one write and one sync. The file has its
//! length, and was filled with zeros, before the first entry: so a sync writes those pages and nothing of the file system's own.
//! Pages are written past the kernel's cache where the file system lets us, which spares each commit a copy and the search for what is dirty.
//!
//! An entry is a header and a body, and begins at a multiple of eight bytes. Positions count bytes from the journal's beginning, over
//! all rounds. The header holds a checksum over all that follows it, the length of the body, and the position, to which
//! the journal's *salt* is added: a random number that the database has for each start. So nothing that an
//! earlier round or an earlier start has left in the file can be taken for an entry.
//!
//! # Invariants
//! * An entry is on disk when [`Journal::append`] returns, and not before that does the next one begin. So what is valid *behind* an
//!   entry that is not valid says that this one was damaged, and not cut off while it was written.
//! * Nothing is written over that the database does not have: see [`Journal::has_room`].

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use bytes::Bytes;

use crate::error::PersistError;

/// The length of the file.
const FILE_BYTES: u64 = 8 << 20;
/// What is written as a whole.
const PAGE_BYTES: u64 = 4096;
const HEADER_BYTES: usize = 4 + 4 + 8;
const ALIGNMENT: u64 = 8;

/// What the longest entry has. With one that is longer the journal would be full of it alone.
pub(super) const BODY_BYTES_MAX: usize = 1 << 20;

/// Where the journal of a database begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) salt: u64,
    /// The first position that the database does not have.
    pub(super) applied: u64,
}

/// What a file was found to hold.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The bodies of the entries, in order.
    pub(super) entries: Vec<Bytes>,
    /// What is wrong behind them.
    pub(super) damage: Option<String>,
}

/// A journal that is written.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    salt: u64,
    end: u64,
    /// Begins with what is there already of the page in which the journal ends.
    pages: Pages,
}

/// Reads the journal at `path`. A file that is not there is empty.
pub(super) fn read(path: &Path, start: Start) -> Result<Found, PersistError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(PersistError::io("reading the journal", error)),
    };
    let mut found = Found::default();
    let mut at = start.applied;
    while let Some(body) = entry(&bytes, start.salt, at) {
        at = behind(at, body.len());
        found.entries.push(body);
    }
    let last = start.applied + FILE_BYTES;
    let mut rest = (at..last).step_by(to_usize(ALIGNMENT));
    if let Some(behind) = rest.find(|behind| entry(&bytes, start.salt, *behind).is_some()) {
        let (at, behind) = (at % FILE_BYTES, behind % FILE_BYTES);
        found.damage = Some(format!("at {at} is no entry, but there is one behind it, at {behind}"));
    }
    Ok(found)
}

/// The body of the entry at a position, if there is one.
fn entry(bytes: &[u8], salt: u64, at: u64) -> Option<Bytes> {
    // Words do not go around the end of the file.
    let word = |at: u64| bytes.get(to_usize(at % FILE_BYTES)..)?.first_chunk::<8>();
    if *word(at + 8)? != salt.wrapping_add(at).to_le_bytes() {
        return None;
    }
    let (crc, length) = word(at)?.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(length.try_into().ok()?)).ok()?;
    if length > BODY_BYTES_MAX {
        return None;
    }
    let whole = around(bytes, at, HEADER_BYTES + length)?;
    (crc32fast::hash(&whole[4..]) == u32::from_le_bytes(*crc)).then(|| Bytes::from(whole).slice(HEADER_BYTES..))
}

/// `count` bytes from a position on. What does not fit before the end of the file goes on at its beginning.
fn around(bytes: &[u8], at: u64, count: usize) -> Option<Vec<u8>> {
    let from = to_usize(at % FILE_BYTES);
    let fits = count.min(to_usize(FILE_BYTES) - from);
    Some([bytes.get(from..from + fits)?, bytes.get(..count - fits)?].concat())
}

/// Where the next entry begins.
fn behind(at: u64, body: usize) -> u64 {
    (at + to_u64(HEADER_BYTES + body)).next_multiple_of(ALIGNMENT)
}

impl Journal {
    /// A journal without entries, at its beginning. Makes the file, or as long as it has to be, and durable; not its name.
    pub(super) fn begin(path: &Path, salt: u64) -> Result<Journal, PersistError> {
        let failed = |error| PersistError::io("opening the journal", error);
        let mut file = OpenOptions::new().append(true).create(true).open(path).map_err(failed)?;
        let missing = FILE_BYTES.saturating_sub(file.metadata().map_err(failed)?.len());
        std::io::copy(&mut std::io::repeat(0).take(missing), &mut file).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        Ok(Journal { file: uncached(path).map_err(failed)?, salt, end: 0, pages: Pages::default() })
    }

    /// The position behind a gap after the last entry.
    pub(super) fn behind_gap(&self) -> u64 {
        self.end + ALIGNMENT
    }

    /// Makes the gap: who does not know of it finds an entry behind something that is none.
    pub(super) fn leave_gap(&mut self) {
        let begun = to_usize(self.end % PAGE_BYTES);
        self.pages.behind(begun, begun + to_usize(ALIGNMENT));
        self.end = self.behind_gap();
    }

    /// Whether an entry can be written without writing over what is at `applied` and behind.
    pub(super) fn has_room(&self, body: usize, applied: u64) -> bool {
        let end = behind(self.end, body).next_multiple_of(PAGE_BYTES);
        end - applied / PAGE_BYTES * PAGE_BYTES <= FILE_BYTES
    }

    /// Writes an entry and syncs it; gives the position behind it. An entry that certainly was not written is written over by the next one.
    pub(super) fn append(&mut self, body: &[u8]) -> Result<u64, PersistError> {
        assert!(body.len() <= BODY_BYTES_MAX, "an entry of {} bytes", body.len());
        let length = u32::try_from(body.len()).expect("it was compared");
        let mut summed = crc32fast::Hasher::new();
        let mark = self.salt.wrapping_add(self.end);
        [&length.to_le_bytes()[..], &mark.to_le_bytes(), body].iter().for_each(|bytes| summed.update(bytes));
        let end = behind(self.end, body.len());
        let begun = to_usize(self.end % PAGE_BYTES);
        let used = begun + to_usize(end - self.end);
        let pages = self.pages.behind(begun, used);
        let entry = &mut pages[begun..];
        entry[..4].copy_from_slice(&summed.finalize().to_le_bytes());
        entry[4..8].copy_from_slice(&length.to_le_bytes());
        entry[8..HEADER_BYTES].copy_from_slice(&mark.to_le_bytes());
        entry[HEADER_BYTES..HEADER_BYTES + body.len()].copy_from_slice(body);
        let from = (self.end - to_u64(begun)) % FILE_BYTES;
        let (fits, around) = pages.split_at(pages.len().min(to_usize(FILE_BYTES - from)));
        self.file.write_all_at(fits, from).and_then(|()| self.file.write_all_at(around, 0)).map_err(failed_write)?;
        self.file.sync_data().map_err(|error| PersistError::indeterminate("syncing the journal", error))?;
        self.pages.keep_last(used);
        self.end = end;
        Ok(end)
    }
}

/// What could not be written for want of room is not there as a whole, and so is no entry. What the kernel holds of a file that it could not
/// write for another reason is not what the next process finds.
fn failed_write(error: std::io::Error) -> PersistError {
    match PersistError::io("writing the journal", error) {
        PersistError::Determinate { context, source } => PersistError::Indeterminate { context, source },
        full => full,
    }
}

/// Opens a file for writing past the kernel's cache, if its file system knows that.
fn uncached(path: &Path) -> std::io::Result<File> {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::OpenOptionsExt;
        let direct = nix::fcntl::OFlag::O_DIRECT.bits();
        let opened = OpenOptions::new().write(true).custom_flags(direct).open(path);
        // Some file systems say so only at the first write. There is no entry yet.
        let written = opened.and_then(|file| file.write_all_at(Pages::default().behind(0, 1), 0).map(|()| file));
        match written {
            Err(error) if error.kind() == ErrorKind::InvalidInput => {}
            written => return written,
        }
    }
    OpenOptions::new().write(true).open(path)
}

/// Pages on their way to the file, at an address at which the kernel takes them past its cache.
#[derive(Debug, Default)]
struct Pages {
    /// A page more than is needed, as it begins anywhere.
    memory: Vec<u8>,
}

impl Pages {
    /// Whole pages for `used` bytes: the first `begun` as they are, and zeros.
    fn behind(&mut self, begun: usize, used: usize) -> &mut [u8] {
        let length = used.next_multiple_of(to_usize(PAGE_BYTES));
        if self.memory.len() < length + to_usize(PAGE_BYTES) {
            let mut memory = vec![0; length + to_usize(PAGE_BYTES)];
            if begun > 0 {
                let (from, to) = (first(&self.memory), first(&memory));
                memory[to..to + begun].copy_from_slice(&self.memory[from..from + begun]);
            }
            self.memory = memory;
        }
        let from = first(&self.memory);
        let pages = &mut self.memory[from..from + length];
        pages[begun..].fill(0);
        pages
    }

    /// The page in which `used` bytes end becomes the first.
    fn keep_last(&mut self, used: usize) {
        let (from, page) = (first(&self.memory), to_usize(PAGE_BYTES));
        let last = from + used / page * page;
        self.memory.copy_within(last..last + used % page, from);
        // What one long entry took is not kept for all the short ones.
        if self.memory.len() > 64 * page {
            let kept = self.memory[from..from + used % page].to_vec();
            self.memory = Vec::new();
            self.behind(0, page)[..kept.len()].copy_from_slice(&kept);
        }
    }
}

/// Where pages begin in memory.
fn first(memory: &[u8]) -> usize {
    let page = to_usize(PAGE_BYTES);
    memory.as_ptr().addr().next_multiple_of(page) - memory.as_ptr().addr()
}

fn to_usize(n: u64) -> usize {
    usize::try_from(n).expect("shorter than the file")
}

fn to_u64(n: usize) -> u64 {
    u64::try_from(n).expect("a length fits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    const SALT: u64 = u64::MAX - 7;

    fn file() -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("journal");
        (dir, path)
    }

    fn entries(path: &Path, applied: u64) -> Vec<Bytes> {
        let found = read(path, Start { salt: SALT, applied }).expect("readable");
        assert_eq!(found.damage, None);
        found.entries
    }

    #[test]
    fn what_was_appended_is_found_through_all_rounds() {
        let (_dir, path) = file();
        let mut random = StdRng::seed_from_u64(5);
        let mut journal = Journal::begin(&path, SALT).expect("new");
        let mut kept: Vec<(u64, Bytes)> = Vec::new();
        let mut applied = 0;
        for round in 0..900 {
            let length = match random.random_range(0..20) {
                0 => random.random_range(0..=BODY_BYTES_MAX),
                1..5 => random.random_range(0..20_000),
                _ => random.random_range(0..300),
            };
            let body: Vec<u8> = (0..length).map(|_| random.random()).collect();
            while !journal.has_room(body.len(), applied) {
                let through = random.random_range(1..=kept.len());
                applied = kept.get(through).map_or(journal.end, |(at, _)| *at);
                kept.drain(..through);
            }
            let at = journal.end;
            assert_eq!(journal.append(&body).expect("writable"), journal.end);
            kept.push((at, body.into()));
            if round % 20 == 0 {
                let expected: Vec<Bytes> = kept.iter().map(|(_, body)| body.clone()).collect();
                assert!(entries(&path, applied) == expected, "round {round}");
            }
        }
        assert!(journal.end > 2 * FILE_BYTES, "it went around");
        assert_eq!(std::fs::metadata(&path).expect("it is there").len(), FILE_BYTES);
    }

    #[test]
    fn nothing_of_an_earlier_start_is_an_entry() {
        let (_dir, path) = file();
        let mut journal = Journal::begin(&path, SALT - 1).expect("new");
        (0..100).for_each(|n| assert!(journal.append(&[n; 100]).is_ok()));
        let mut journal = Journal::begin(&path, SALT).expect("it is there");
        assert_eq!(entries(&path, 0), [] as [Bytes; 0]);
        journal.append(b"new").expect("writable");
        assert_eq!(entries(&path, 0), [b"new".as_slice()]);
    }

    #[test]
    fn an_entry_that_is_damaged_is_told_from_one_that_was_cut_off() {
        let (_dir, path) = file();
        let mut journal = Journal::begin(&path, SALT).expect("new");
        let ends: Vec<u64> = (0..9_u8).map(|n| journal.append(&[n; 5_000]).expect("writable")).collect();
        let whole = std::fs::read(&path).expect("readable");
        let found = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("writable");
            read(&path, Start { salt: SALT, applied: 0 }).expect("readable")
        };
        for (index, end) in ends.iter().enumerate() {
            // The padding behind a body is part of no entry.
            let mut flipped = whole.clone();
            flipped[to_usize(*end) - 100] ^= 1;
            let damaged = found(&flipped);
            assert_eq!(damaged.entries.len(), index);
            assert_eq!(damaged.damage.is_some(), index + 1 < ends.len(), "entry {index}: {:?}", damaged.damage);
            let cut = found(&whole[..to_usize(*end) - 100]);
            assert_eq!((cut.entries.len(), cut.damage), (index, None));
        }
    }
}
