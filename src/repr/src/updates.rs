//! A batch of row updates at one timestamp, flat in memory.
//!
//! What a statement writes, what the log stores and what dataflows are fed is the same value, shared by `Arc`.

use crate::Diff;

/// Rows and the number of copies that each adds or removes, in the order in which they were pushed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Updates {
    bytes: Vec<u8>,
    /// Where each row ends in `bytes`.
    ends: Vec<usize>,
    diffs: Vec<Diff>,
}

impl Updates {
    /// No updates.
    pub fn new() -> Updates {
        Updates::default()
    }

    /// Appends an update.
    pub fn push(&mut self, row: &[u8], diff: Diff) {
        self.bytes.extend_from_slice(row);
        self.ends.push(self.bytes.len());
        self.diffs.push(diff);
    }

    /// Appends an update whose row `write` encodes in place; nothing is appended when it fails.
    pub fn push_with<E>(&mut self, diff: Diff, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        let start = self.bytes.len();
        if let Err(error) = write(&mut self.bytes) {
            self.bytes.truncate(start);
            return Err(error);
        }
        self.ends.push(self.bytes.len());
        self.diffs.push(diff);
        Ok(())
    }

    /// Appends all of `other`.
    pub fn extend(&mut self, other: &Updates) {
        for (row, diff) in other.iter() {
            self.push(row, diff);
        }
    }

    /// The updates in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], Diff)> {
        (0..self.diffs.len()).map(|index| self.get(index))
    }

    /// The update at `index`.
    ///
    /// # Panics
    /// When `index` is not below [`Updates::len`].
    pub fn get(&self, index: usize) -> (&[u8], Diff) {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        (&self.bytes[start..self.ends[index]], self.diffs[index])
    }

    /// How many updates there are.
    pub fn len(&self) -> usize {
        self.diffs.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.diffs.is_empty()
    }

    /// The bytes of all rows together.
    pub fn byte_count(&self) -> usize {
        self.bytes.len()
    }
}
