//! How differential's batches hold rows: all bytes of a column of rows in one buffer, with offsets beside it.

use crate::offsets::Offsets;
use differential_dataflow::trace::implementations::BatchContainer;
use repr::{Diff, Timestamp};
use timely::container::PushInto;

/// Keys and values are rows; times and multiplicities are plain numbers.
pub type RowLayout = (Rows, Rows, Vec<Timestamp>, Vec<Diff>, Offsets);

/// A list of rows in one buffer.
pub struct Rows {
    bytes: Vec<u8>,
    /// Where each row starts, and after the last one where it ends.
    offsets: Offsets,
}

impl Rows {
    /// The bytes that the rows and their offsets occupy.
    pub fn byte_count(&self) -> usize {
        self.bytes.capacity() + self.offsets.byte_count()
    }

    /// The first position in `[from, len)` whose row is not below `key`; rows must be sorted.
    pub fn lower_bound(&self, from: usize, key: &[u8]) -> usize {
        match self.offsets.stride() {
            // The width is known beforehand: a probe touches the row and nothing else.
            Some(width) => partition_point(from, self.len(), |at| &self.bytes[at * width..(at + 1) * width] < key),
            None => partition_point(from, self.len(), |at| self.index(at) < key),
        }
    }
}

/// The first position in `[low, high)` for which `is_below` is false; it must be false for all that follow.
fn partition_point(mut low: usize, mut high: usize, is_below: impl Fn(usize) -> bool) -> usize {
    while low < high {
        let middle = low + (high - low) / 2;
        if is_below(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

impl BatchContainer for Rows {
    type Owned = Vec<u8>;
    type ReadItem<'a> = &'a [u8];

    fn into_owned(item: &[u8]) -> Vec<u8> {
        item.to_vec()
    }

    fn clone_onto(item: &[u8], other: &mut Vec<u8>) {
        other.clear();
        other.extend_from_slice(item);
    }

    fn push_ref(&mut self, item: &[u8]) {
        self.bytes.extend_from_slice(item);
        self.offsets.push(self.bytes.len());
    }

    fn push_own(&mut self, item: &Vec<u8>) {
        self.push_ref(item);
    }

    fn clear(&mut self) {
        self.bytes.clear();
        BatchContainer::clear(&mut self.offsets);
        self.offsets.push(0);
    }

    fn with_capacity(size: usize) -> Self {
        let mut offsets = Offsets::with_capacity(size + 1);
        offsets.push(0);
        Rows { bytes: Vec::new(), offsets }
    }

    fn merge_capacity(first: &Self, second: &Self) -> Self {
        let mut rows = Rows::with_capacity(first.len() + second.len());
        rows.bytes.reserve_exact(first.bytes.len() + second.bytes.len());
        rows
    }

    fn reborrow<'b, 'a: 'b>(item: &'a [u8]) -> &'b [u8] {
        item
    }

    fn index(&self, index: usize) -> &[u8] {
        &self.bytes[self.offsets.get(index)..self.offsets.get(index + 1)]
    }

    fn len(&self) -> usize {
        self.offsets.len() - 1
    }
}

impl Default for Rows {
    fn default() -> Self {
        Rows::with_capacity(0)
    }
}

impl PushInto<Vec<u8>> for Rows {
    fn push_into(&mut self, item: Vec<u8>) {
        self.push_ref(&item);
    }
}

impl PushInto<&[u8]> for Rows {
    fn push_into(&mut self, item: &[u8]) {
        self.push_ref(item);
    }
}
