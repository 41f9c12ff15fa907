//! How differential's batches hold rows: all bytes of a column of rows in one buffer, with offsets beside it.

use crate::offsets::Offsets;
use differential_dataflow::trace::implementations::BatchContainer;
use repr::{Diff, Timestamp};
use std::cmp::Ordering;
use std::ops::Range;
use timely::container::PushInto;

/// Keys and values are rows; times and multiplicities are plain numbers.
pub type RowLayout<T = Timestamp> = (Rows, Rows, Vec<T>, Vec<Diff>, Offsets);

/// Rows of up to this many bytes are compared as numbers.
const WORD_BYTES: usize = 16;

/// The rows that are searched around the place where a key should be.
const WINDOW: usize = 16;
/// Lists up to this length are not worth guessing in.
const WINDOW_MIN: usize = 1_024;

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

    /// Makes room for rows of so many bytes.
    pub(crate) fn reserve_bytes(&mut self, bytes: usize) {
        self.bytes.reserve_exact(bytes);
    }

    /// Gives back the memory beyond the rows.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// The width of the rows if it is the same for all of both lists and fits a word.
    fn common_width(&self, other: &Rows) -> Option<usize> {
        let width = self.offsets.stride().filter(|width| (1..=WORD_BYTES).contains(width))?;
        (other.offsets.stride() == Some(width)).then_some(width)
    }

    /// How a row compares with one of another list.
    #[inline]
    pub(crate) fn compare(&self, at: usize, other: &Rows, other_at: usize) -> Ordering {
        match self.common_width(other) {
            Some(width) => self.word_at(at * width, width).cmp(&other.word_at(other_at * width, width)),
            None => self.index(at).cmp(other.index(other_at)),
        }
    }

    /// The first position of a range whose row is not below `key`, or the end of the range; it is expected to be near.
    pub(crate) fn run_below(&self, range: Range<usize>, key: &[u8]) -> usize {
        let end = range.end;
        let found = match self.offsets.stride() {
            Some(width) if width == key.len() && (1..=WORD_BYTES).contains(&width) => {
                let key = word(key);
                range.into_iter().find(|at| self.word_at(at * width, width) >= key)
            }
            _ => range.into_iter().find(|at| self.index(*at) >= key),
        };
        found.unwrap_or(end)
    }

    /// Appends rows of another list.
    pub(crate) fn extend_from(&mut self, other: &Rows, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let start = other.offsets.get(range.start);
        let base = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes[start..other.offsets.get(range.end)]);
        match other.offsets.stride() {
            Some(width) => self.offsets.extend_strided(width, range.len()),
            None => range.for_each(|at| self.offsets.push(base + (other.offsets.get(at + 1) - start))),
        }
    }

    /// The `width` bytes at `start` as a number that compares as they do.
    fn word_at(&self, start: usize, width: usize) -> u128 {
        match self.bytes[start..].first_chunk::<WORD_BYTES>() {
            // What belongs to the rows behind is shifted out.
            Some(chunk) => (u128::from_be_bytes(*chunk) >> ((WORD_BYTES - width) * 8)) << ((WORD_BYTES - width) * 8),
            None => word(&self.bytes[start..start + width]),
        }
    }

    /// Where a key must be if words are spread evenly, as ids often are: a few probes there instead of a search through
    /// memory that is in no cache. `None` if it is not there after all.
    fn window(&self, from: usize, width: usize, key: u128, is_below: impl Fn(usize) -> bool) -> Option<(usize, usize)> {
        let last = self.len().checked_sub(1).filter(|last| last - from.min(*last) > WINDOW_MIN)?;
        let (least, greatest) = (self.word_at(from * width, width), self.word_at(last * width, width));
        let (offset, range) = (key.checked_sub(least)?, greatest.checked_sub(key)?.checked_add(key - least)?);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "a guess, which the probes below check"
        )]
        let guess = from + ((offset as f64 / range as f64) * (last - from) as f64) as usize;
        let low = guess.saturating_sub(WINDOW / 2).max(from);
        let high = (low + WINDOW).min(self.len());
        // Everything before the window is below the key, and nothing behind it is.
        ((low == from || is_below(low - 1)) && (high == self.len() || !is_below(high))).then_some((low, high))
    }

    /// The first position in `[from, len)` whose row is not below `key`; rows must be sorted.
    pub fn lower_bound(&self, from: usize, key: &[u8]) -> usize {
        match self.offsets.stride() {
            // Rows and key fit a word: a probe is a load and a comparison.
            Some(width) if width == key.len() && (1..=WORD_BYTES).contains(&width) => {
                let key = word(key);
                let is_below = |at: usize| self.word_at(at * width, width) < key;
                let (low, high) = self.window(from, width, key, is_below).unwrap_or((from, self.len()));
                partition_point(low, high, is_below)
            }
            // The width is known: a probe touches the row and no offset.
            Some(width) => partition_point(from, self.len(), |at| &self.bytes[at * width..(at + 1) * width] < key),
            None => partition_point(from, self.len(), |at| self.index(at) < key),
        }
    }
}

/// The first position in `[low, high)` for which `is_below` is false; it must be false for all that follow.
///
/// The loop's only branch is its end, which is predictable: which half a key is in is not.
fn partition_point(low: usize, high: usize, is_below: impl Fn(usize) -> bool) -> usize {
    let (mut base, mut size) = (low, high.saturating_sub(low));
    if size == 0 {
        return low;
    }
    while size > 1 {
        let half = size / 2;
        base = if is_below(base + half) { base + half } else { base };
        size -= half;
    }
    base + usize::from(is_below(base))
}

/// Up to [`WORD_BYTES`] bytes as a number that compares as they do, among those of one width.
fn word(bytes: &[u8]) -> u128 {
    let mut word = [0; WORD_BYTES];
    word[..bytes.len()].copy_from_slice(bytes);
    u128::from_be_bytes(word)
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

#[cfg(test)]
mod tests {
    use super::Rows;
    use differential_dataflow::trace::implementations::BatchContainer;
    use proptest::prelude::{any, prop, proptest};

    fn rows(sorted: &[Vec<u8>]) -> Rows {
        let mut rows = Rows::with_capacity(sorted.len());
        sorted.iter().for_each(|row| rows.push_own(row));
        rows
    }

    #[test]
    fn keys_are_found_where_they_are_spread_evenly_and_where_not() {
        let even = |at: u32| at * 3;
        let uneven = |at: u32| if at < 1_990 { at } else { at * 1_000 };
        let constant = |_| 7;
        for spread in [&even as &dyn Fn(u32) -> u32, &uneven, &constant] {
            let sorted: Vec<Vec<u8>> = (0..2_000).map(|at| spread(at).to_be_bytes().to_vec()).collect();
            let list = rows(&sorted);
            for from in [0, 1, 900, 1_999, 2_000] {
                for key in (0..2_005_u32).flat_map(|at| [spread(at), spread(at) + 1]) {
                    let key = key.to_be_bytes();
                    let expected = from + sorted[from..].partition_point(|row| row.as_slice() < &key[..]);
                    assert_eq!(list.lower_bound(from, &key), expected, "{key:?} from {from}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_lower_bound_is_what_a_scan_finds(
            width in 0_usize..20,
            varied in any::<bool>(),
            bytes in prop::collection::vec(prop::collection::vec(0_u8..4, 20..24), 0..40),
            key in prop::collection::vec(0_u8..4, 0..20),
            from in 0_usize..50) {
            let cut = |row: &Vec<u8>| row[..if varied { row.len() } else { width }].to_vec();
            let mut sorted: Vec<Vec<u8>> = bytes.iter().map(cut).collect();
            sorted.sort();
            let list = rows(&sorted);
            let from = from.min(sorted.len());
            for key in sorted.iter().chain([&key]) {
                let expected = (from..sorted.len()).find(|at| &sorted[*at] >= key).unwrap_or(sorted.len());
                assert_eq!(list.lower_bound(from, key), expected);
            }
        }
    }
}
