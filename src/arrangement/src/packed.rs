//! Updates of rows under keys on their way between operators: all their bytes in one buffer, and no allocation for any of
//! them.

use repr::{Diff, Timestamp};
use timely::Accountable;
use timely::container::{DrainContainer, PushInto, SizableContainer};
use timely::dataflow::channels::ContainerBytes;

/// A container is sent on when it has so many updates …
const ROWS_MAX: usize = 1_024;
/// … or so many bytes; what allocators keep at hand ends here.
const BYTES_MAX: usize = 32 << 10;
/// An update counts once more for so many bytes: a join pauses when what it has made counts too much.
const WEIGHED: usize = 64;

/// An update where it lies: key row, value row, time, multiplicity.
pub type PackedUpdate<'a, T> = (&'a [u8], &'a [u8], T, Diff);

/// A list of updates.
#[derive(Clone, Debug)]
pub struct Packed<T = Timestamp> {
    bytes: Vec<u8>,
    entries: Vec<Entry<T>>,
    /// What the updates count together.
    weight: usize,
}

/// An update, whose key begins where the one before ends.
#[derive(Clone, Debug)]
struct Entry<T> {
    key_end: usize,
    end: usize,
    time: T,
    diff: Diff,
}

impl<T> Default for Packed<T> {
    fn default() -> Packed<T> {
        Packed { bytes: Vec::new(), entries: Vec::new(), weight: 0 }
    }
}

impl<T> Packed<T> {
    /// The number of updates.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The bytes of memory that they take.
    pub fn byte_count(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry<T>>()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Appends an update.
    #[inline]
    pub fn push(&mut self, key: &[u8], value: &[u8], time: T, diff: Diff) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.entries.push(Entry { key_end, end: self.bytes.len(), time, diff });
        self.weight += 1 + (key.len() + value.len()) / WEIGHED;
    }

    /// The key and the value of an update.
    ///
    /// # Panics
    /// When there is no such update.
    #[inline]
    pub fn row(&self, at: usize) -> (&[u8], &[u8]) {
        let start = if at == 0 { 0 } else { self.entries[at - 1].end };
        let entry = &self.entries[at];
        (&self.bytes[start..entry.key_end], &self.bytes[entry.key_end..entry.end])
    }

    /// The time of an update.
    ///
    /// # Panics
    /// When there is no such update.
    #[inline]
    pub fn time(&self, at: usize) -> &T {
        &self.entries[at].time
    }

    /// The multiplicity of an update.
    ///
    /// # Panics
    /// When there is no such update.
    #[inline]
    pub fn diff(&self, at: usize) -> Diff {
        self.entries[at].diff
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.weight = 0;
    }
}

impl<T> Accountable for Packed<T> {
    // Of any partition of the updates the sum is the same.
    fn record_count(&self) -> i64 {
        i64::try_from(self.weight).expect("fits")
    }
}

impl<T> SizableContainer for Packed<T> {
    fn at_capacity(&self) -> bool {
        self.entries.len() >= ROWS_MAX || self.bytes.len() >= BYTES_MAX - BYTES_MAX / 16
    }

    fn ensure_capacity(&mut self, stash: &mut Option<Self>) {
        if self.entries.capacity() == 0 {
            *self = stash.take().unwrap_or_default();
            self.clear();
        }
    }
}

impl<T> PushInto<PackedUpdate<'_, T>> for Packed<T> {
    #[inline]
    fn push_into(&mut self, (key, value, time, diff): PackedUpdate<'_, T>) {
        self.push(key, value, time, diff);
    }
}

impl<T: Clone + 'static> DrainContainer for Packed<T> {
    type Item<'a> = PackedUpdate<'a, T>;
    type DrainIter<'a> = Drain<'a, T>;

    fn drain(&mut self) -> Drain<'_, T> {
        Drain { updates: self, at: 0 }
    }
}

/// The updates of a list, one after the other.
pub struct Drain<'a, T> {
    updates: &'a Packed<T>,
    at: usize,
}

impl<'a, T: Clone> Iterator for Drain<'a, T> {
    type Item = PackedUpdate<'a, T>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.updates.entries.get(self.at)?;
        let (key, value) = self.updates.row(self.at);
        self.at += 1;
        Some((key, value, entry.time.clone(), entry.diff))
    }
}

/// Workers are threads of one process, between which containers are passed as they are.
impl<T> ContainerBytes for Packed<T> {
    fn from_bytes(_: timely::bytes::arc::Bytes) -> Self {
        unreachable!("workers are threads of one process")
    }

    fn length_in_bytes(&self) -> usize {
        unreachable!("workers are threads of one process")
    }

    fn into_bytes<W: std::io::Write>(&self, _: &mut W) {
        unreachable!("workers are threads of one process")
    }
}

#[cfg(test)]
mod tests {
    use super::{Packed, WEIGHED};
    use timely::Accountable;

    #[test]
    fn what_updates_count_is_the_sum_of_what_each_counts() {
        let lengths = [0, 1, WEIGHED - 1, WEIGHED, 3 * WEIGHED, 1_000];
        let packed = |lengths: &[usize]| {
            let mut packed = Packed::default();
            lengths
                .iter()
                .for_each(|length| packed.push(&vec![1; length / 3], &vec![2; length - length / 3], 7_u64, 1));
            packed.record_count()
        };
        // As an exchange deals them out.
        for at in 0..=lengths.len() {
            let (some, others) = lengths.split_at(at);
            assert_eq!(packed(some) + packed(others), packed(&lengths));
        }
        assert!(packed(&[1_000]) > packed(&[10]), "a large one counts more");
    }
}
