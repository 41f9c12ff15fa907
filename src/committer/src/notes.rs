//! Notes: what a write leaves in the store beside its rows, and requires of what is there.
//!
//! A note is a key with a small value: that a request was carried out and what was answered, or how far a source was read. It becomes
//! durable with the rows of its write, or the change of the catalog, or not at all. A write can *require* that a note has a value, or
//! that there is none; if that is not so, it is repeated, and not done. So whoever repeats a write of which it does not know what became
//! finds out, and nothing is written twice.
//!
//! Whether it is so is asked of the store, and of the group that is being committed: nothing is kept in memory. A note may expire; it
//! is gone then, and its bytes go with a later commit.
//!
//! # Invariants
//! - Between groups nothing is staged.
//! - A note with an expiry has an entry among the expiries, and no other has one.

use crate::error::CommitError;
use persist::{MetaWrite, PersistClient, PersistError};
use repr::sqlstate::SqlState;
use std::collections::BTreeMap;

/// Bytes of a note's key, and of its value, at the most.
const KEY_BYTES_MAX: usize = 256;
const VALUE_BYTES_MAX: usize = 64 << 10;
/// Expired notes that go with one commit, if there are as many.
const SWEPT_MIN: usize = 16;

/// Whose notes they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespace(pub &'static str);

/// The name of a note.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(String);

impl Name {
    /// A note of this namespace. Error 54000 if the key is too long.
    pub fn new(namespace: Namespace, key: &str) -> Result<Name, CommitError> {
        if key.len() > KEY_BYTES_MAX {
            return Err(too_large("key", key.len(), KEY_BYTES_MAX));
        }
        Ok(Name(format!("{}/{key}", namespace.0)))
    }

    fn stored(&self) -> String {
        format!("{NOTES}{}", self.0)
    }
}

/// Where notes are in the store, and when they expire: `when/name`.
const NOTES: &str = "note/";
const EXPIRIES: &str = "note-expiry/";

/// A note's value, and when it expires, in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    value: Vec<u8>,
    expires_us: Option<u64>,
}

impl Note {
    /// A note. Error 54000 if the value is too long.
    pub fn new(value: Vec<u8>, expires_us: Option<u64>) -> Result<Note, CommitError> {
        match value.len() > VALUE_BYTES_MAX {
            true => Err(too_large("value", value.len(), VALUE_BYTES_MAX)),
            false => Ok(Note { value, expires_us }),
        }
    }

    fn encode(&self) -> Vec<u8> {
        [&self.expires_us.unwrap_or(u64::MAX).to_be_bytes()[..], &self.value].concat()
    }

    fn decode(bytes: &[u8]) -> Option<Note> {
        let (expires, value) = bytes.split_first_chunk()?;
        let expires_us = Some(u64::from_be_bytes(*expires)).filter(|at| *at != u64::MAX);
        Some(Note { value: value.to_vec(), expires_us })
    }

    fn is_there(&self, now_us: u64) -> bool {
        self.expires_us.is_none_or(|at| at > now_us)
    }
}

fn too_large(what: &str, bytes: usize, bytes_max: usize) -> CommitError {
    let message = format!("the {what} of a note has {bytes} bytes, and may have {bytes_max}");
    CommitError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}

/// What a write does to notes, and requires of them.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// What they become; `None` is gone.
    pub puts: Vec<(Name, Option<Note>)>,
    /// The values that they must have before; `None` is none.
    pub requires: Vec<(Name, Option<Vec<u8>>)>,
}

impl Notes {
    /// Whether there is nothing to be done.
    pub fn is_empty(&self) -> bool {
        self.puts.is_empty() && self.requires.is_empty()
    }
}

/// The notes of the group that is being committed, and which expire next.
pub(crate) struct Staged {
    /// What they become, and when they expired before.
    notes: BTreeMap<Name, (Option<Note>, Option<u64>)>,
    /// No note expires before this.
    next_expiry_us: u64,
}

impl Staged {
    /// None, over a store that may have some.
    pub(crate) fn over(persist: &PersistClient) -> Result<Staged, PersistError> {
        let first = persist.meta_first(EXPIRIES, 1)?;
        let next_expiry_us = first.first().map_or(u64::MAX, |(key, _)| expiry_of(key));
        Ok(Staged { notes: BTreeMap::new(), next_expiry_us })
    }

    /// What [`Staged::stage`] has to know, which cannot fail: when those that a write puts expired before. `None` if its requirements do not
    /// hold, after those that are staged.
    pub(crate) fn admit(
        &self,
        persist: &PersistClient,
        notes: &Notes,
        now_us: u64,
    ) -> Result<Option<Vec<Option<u64>>>, CommitError> {
        for (name, required) in &notes.requires {
            let there = match self.notes.get(name) {
                Some((staged, _)) => staged.clone(),
                None => stored(persist, name)?,
            };
            if there.filter(|note| note.is_there(now_us)).map(|note| note.value) != *required {
                return Ok(None);
            }
        }
        let before = |(name, _): &(Name, Option<Note>)| match self.notes.get(name) {
            Some((_, before)) => Ok(*before),
            None => Ok(stored(persist, name)?.and_then(|note| note.expires_us)),
        };
        notes.puts.iter().map(before).collect::<Result<_, CommitError>>().map(Some)
    }

    /// Stages what a write does to notes, which expired before when `expired` says.
    pub(crate) fn stage(&mut self, notes: &Notes, expired: Vec<Option<u64>>) {
        for ((name, note), before) in notes.puts.iter().zip(expired) {
            self.notes.insert(name.clone(), (note.clone(), before));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    /// What a commit has to write: the notes that are staged, and before them the end of some that have expired.
    pub(crate) fn writes(&mut self, persist: &PersistClient, now_us: u64) -> Result<Vec<MetaWrite>, PersistError> {
        let mut writes = Vec::new();
        if self.next_expiry_us <= now_us {
            // More than come, or there would be more and more.
            let swept_max = SWEPT_MIN.max(2 * self.notes.len());
            let first = persist.meta_first(EXPIRIES, swept_max + 1)?;
            let expired = first.iter().take(swept_max).take_while(|(key, _)| expiry_of(key) <= now_us).count();
            for (key, _) in &first[..expired] {
                let name = key.splitn(3, '/').nth(2).unwrap_or_default();
                writes.extend([delete(format!("{NOTES}{name}")), delete(key.clone())]);
            }
            self.next_expiry_us = first.get(expired).map_or(u64::MAX, |(key, _)| expiry_of(key));
        }
        for (name, (note, before)) in &self.notes {
            writes.extend(before.map(|at| delete(expiry(at, name))));
            match note {
                None => writes.push(delete(name.stored())),
                Some(note) => {
                    writes.push(MetaWrite::Put { key: name.stored(), value: note.encode() });
                    if let Some(at) = note.expires_us {
                        writes.push(MetaWrite::Put { key: expiry(at, name), value: Vec::new() });
                        self.next_expiry_us = self.next_expiry_us.min(at);
                    }
                }
            }
        }
        Ok(writes)
    }

    /// What was staged is durable, or has not come about.
    pub(crate) fn clear(&mut self) {
        self.notes.clear();
    }

    /// What was to be written was not: what has expired is looked for again.
    pub(crate) fn failed(&mut self) {
        self.next_expiry_us = 0;
    }
}

/// The value of a note, as far as writes have been committed.
pub(crate) fn value(persist: &PersistClient, name: &Name, now_us: u64) -> Result<Option<Vec<u8>>, CommitError> {
    Ok(stored(persist, name)?.filter(|note| note.is_there(now_us)).map(|note| note.value))
}

fn stored(persist: &PersistClient, name: &Name) -> Result<Option<Note>, CommitError> {
    let Some(bytes) = persist.meta_get(&name.stored())? else { return Ok(None) };
    let unreadable = || CommitError::new(SqlState::DATA_CORRUPTED, format!("the note {} cannot be read", name.0));
    Note::decode(&bytes).map(Some).ok_or_else(unreadable)
}

fn expiry(at_us: u64, name: &Name) -> String {
    format!("{EXPIRIES}{at_us:016x}/{}", name.0)
}

fn expiry_of(key: &str) -> u64 {
    let at = key.strip_prefix(EXPIRIES).and_then(|rest| rest.split('/').next());
    at.and_then(|at| u64::from_str_radix(at, 16).ok()).unwrap_or(0)
}

fn delete(key: String) -> MetaWrite {
    MetaWrite::Delete { key }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_round_trip_and_expire() {
        let name = Name::new(Namespace("tests"), "a/b").expect("it is short");
        for expires_us in [None, Some(7)] {
            let note = Note::new(b"done".to_vec(), expires_us).expect("it is short");
            assert_eq!(Note::decode(&note.encode()), Some(note.clone()));
            assert_eq!((note.is_there(6), note.is_there(7)), (true, expires_us.is_none()));
        }
        assert_eq!(Note::decode(b"short"), None);
        assert_eq!(expiry_of(&expiry(7, &name)), 7);
        assert_eq!(expiry(7, &name).splitn(3, '/').nth(2), Some(name.0.as_str()), "a key may have slashes");
        assert!(expiry(9, &name) < expiry(10, &name), "the first to expire is the first in the store");
    }

    #[test]
    fn what_is_too_large_is_refused() {
        let code = |result: Result<(), CommitError>| result.expect_err("it is too large").sqlstate();
        let long = "x".repeat(KEY_BYTES_MAX + 1);
        assert_eq!(code(Name::new(Namespace("tests"), &long).map(drop)), SqlState::PROGRAM_LIMIT_EXCEEDED);
        assert_eq!(code(Note::new(vec![0; VALUE_BYTES_MAX + 1], None).map(drop)), SqlState::PROGRAM_LIMIT_EXCEEDED);
        assert!(Name::new(Namespace("tests"), &long[1..]).is_ok() && Note::new(vec![0; VALUE_BYTES_MAX], None).is_ok());
    }
}
