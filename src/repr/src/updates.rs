//! A run of updates that share one timestamp: the unit that is committed and handed to the dataflows.
//!
//! Flat on purpose: one allocation for all rows, one for where they end and one for their diffs, whatever their
//! number. Built by one thread, then shared behind an `Arc` by the committer, which makes it durable, and by the
//! workers, which feed it to their dataflows.

use crate::Diff;

/// Rows as bytes, each with a diff. Neither sorted nor consolidated unless who made it says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Updates {
    /// Where each row ends in `bytes`; its start is the end of the row before it.
    ends: Vec<usize>,
    bytes: Vec<u8>,
    diffs: Vec<Diff>,
}

impl Updates {
    /// No updates.
    pub fn new() -> Updates {
        Updates::default()
    }

    /// No updates, with room for `rows` rows of `bytes` bytes in total.
    pub fn with_capacity(rows: usize, bytes: usize) -> Updates {
        Updates { ends: Vec::with_capacity(rows), bytes: Vec::with_capacity(bytes), diffs: Vec::with_capacity(rows) }
    }

    /// Rows that are added once each, of which is given where they end.
    ///
    /// # Panics
    /// If the last of them ends anywhere but where all end.
    pub fn once_each(ends: Vec<usize>, bytes: Vec<u8>) -> Updates {
        assert_eq!(ends.last().copied().unwrap_or(0), bytes.len(), "where rows end");
        let diffs = vec![1; ends.len()];
        Updates { ends, bytes, diffs }
    }

    /// Adds one update.
    pub fn push(&mut self, row: &[u8], diff: Diff) {
        self.bytes.extend_from_slice(row);
        self.ends.push(self.bytes.len());
        self.diffs.push(diff);
    }

    /// Adds an update whose row `write` encodes in place; nothing is added when it fails.
    ///
    /// # Errors
    /// Those of `write`.
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

    /// Adds all updates of `other`.
    pub fn extend(&mut self, other: &Updates) {
        let base = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.ends.extend(other.ends.iter().map(|end| base + end));
        self.diffs.extend_from_slice(&other.diffs);
    }

    /// Forgets all updates but the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.ends.truncate(len);
        self.diffs.truncate(len);
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }

    /// The update at `index`.
    ///
    /// # Panics
    /// If there is none.
    pub fn get(&self, index: usize) -> (&[u8], Diff) {
        (self.row(index), self.diffs[index])
    }

    /// The row at `index`.
    ///
    /// # Panics
    /// If there is none.
    pub fn row(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }

    /// All updates in the order in which they were added.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], Diff)> + '_ {
        (0..self.len()).map(|index| self.get(index))
    }

    /// The diffs alone, in order.
    pub fn diffs(&self) -> &[Diff] {
        &self.diffs
    }

    /// The number of updates.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The total length of all rows.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes of memory that they take, their rows included.
    pub fn memory(&self) -> usize {
        self.bytes.len() + self.ends.len() * (size_of::<usize>() + size_of::<Diff>())
    }

    /// Forgets all updates and keeps the memory.
    pub fn clear(&mut self) {
        self.ends.clear();
        self.bytes.clear();
        self.diffs.clear();
    }
}

impl<'a> FromIterator<(&'a [u8], Diff)> for Updates {
    fn from_iter<I: IntoIterator<Item = (&'a [u8], Diff)>>(updates: I) -> Updates {
        let mut collected = Updates::new();
        for (row, diff) in updates {
            collected.push(row, diff);
        }
        collected
    }
}

/// Updates in the order of their rows; those of one row stay in theirs.
pub fn by_row(updates: Vec<(&[u8], Diff)>) -> Vec<(&[u8], Diff)> {
    // Most rows differ in their first bytes: these are compared as a number, where they stand.
    let first = |row: &[u8]| {
        let mut first = [0; 16];
        let length = row.len().min(first.len());
        first[..length].copy_from_slice(&row[..length]);
        u128::from_be_bytes(first)
    };
    let mut keyed: Vec<_> = updates.into_iter().map(|(row, diff)| (first(row), row, diff)).collect();
    // Bulk loads often come in order; this sort notices.
    keyed.sort_by(|(one, one_row, _), (other, other_row, _)| one.cmp(other).then_with(|| one_row.cmp(other_row)));
    keyed.into_iter().map(|(_, row, diff)| (row, diff)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_pushed_comes_back_in_order() {
        let mut updates = Updates::with_capacity(2, 3);
        updates.push(b"ab", 1);
        updates.push(b"", -2);
        updates.push(b"c", 3);
        let expected: Vec<(&[u8], Diff)> = vec![(b"ab", 1), (b"", -2), (b"c", 3)];
        assert_eq!(updates.iter().collect::<Vec<_>>(), expected);
        assert_eq!((updates.len(), updates.bytes()), (3, 3));

        let mut twice = updates.clone();
        twice.extend(&updates);
        assert_eq!(twice.iter().collect::<Vec<_>>(), [expected.clone(), expected].concat());
        twice.truncate(4);
        assert_eq!((twice.len(), twice.bytes(), twice.get(3)), (4, 5, (&b"ab"[..], 1)));
        twice.truncate(9);
        assert_eq!(twice.len(), 4);
        twice.truncate(0);
        assert!(twice.is_empty() && twice.bytes() == 0);
        twice.extend(&updates);
        twice.clear();
        assert!(twice.is_empty());
    }
}
