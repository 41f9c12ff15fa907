//! Ascending offsets that mostly need no memory.
//!
//! Rows of one width start at multiples of it, and a key has mostly one value and a value one update: the offsets of such
//! columns are `0, w, 2w, …`, perhaps with the last one repeated (differential's mark for "the same update as the one
//! before"). Only what does not go on that way is stored. A look-up in such a column costs a multiplication where a list
//! would cost a cache miss.

use differential_dataflow::trace::implementations::BatchContainer;

/// A list of offsets: a strided run, copies of its last element, and the rest as numbers.
#[derive(Debug, Default)]
pub struct Offsets {
    /// The distance of the elements of the run.
    stride: usize,
    /// The elements of the run, which starts at 0.
    strided: usize,
    /// Copies of the run's last element behind it.
    repeated: usize,
    /// What follows as long as it fits.
    small: Vec<u32>,
    /// What follows from the first element that does not.
    large: Vec<u64>,
    /// How many elements were announced.
    expected: usize,
}

impl Offsets {
    /// The distance between any two neighbours, if it is the same for all.
    pub fn stride(&self) -> Option<usize> {
        (self.repeated == 0 && self.small.is_empty() && self.large.is_empty()).then_some(self.stride)
    }

    /// The offset at a position.
    #[inline]
    pub fn get(&self, index: usize) -> usize {
        if index < self.strided {
            return index * self.stride;
        }
        let index = index - self.strided;
        if index < self.repeated {
            return (self.strided - 1) * self.stride;
        }
        let index = index - self.repeated;
        match self.small.get(index) {
            Some(offset) => *offset as usize,
            None => usize::try_from(self.large[index - self.small.len()]).expect("was a usize"),
        }
    }

    /// Appends an offset.
    #[inline]
    pub fn push(&mut self, offset: usize) {
        if self.small.is_empty() && self.large.is_empty() {
            if self.strided == 1 && self.repeated == 0 {
                self.stride = offset;
            }
            if self.repeated == 0 && offset == self.strided * self.stride {
                self.strided += 1;
                return;
            }
            if self.strided > 0 && offset == (self.strided - 1) * self.stride {
                self.repeated += 1;
                return;
            }
            self.small.reserve_exact(self.expected.saturating_sub(self.strided + self.repeated));
        }
        match u32::try_from(offset) {
            Ok(small) if self.large.is_empty() => self.small.push(small),
            _ => self.large.push(u64::try_from(offset).expect("a usize has no more than 64 bits")),
        }
    }

    /// Appends `count` offsets, each `distance` behind the one before.
    pub fn extend_strided(&mut self, distance: usize, count: usize) {
        if self.strided > 1 && self.stride() == Some(distance) {
            self.strided += count;
            return;
        }
        let last = self.len().checked_sub(1).map_or(0, |last| self.get(last));
        (1..=count).for_each(|step| self.push(last + step * distance));
    }

    /// The number of offsets.
    pub fn len(&self) -> usize {
        self.strided + self.repeated + self.small.len() + self.large.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that they occupy.
    pub fn byte_count(&self) -> usize {
        self.small.capacity() * size_of::<u32>() + self.large.capacity() * size_of::<u64>()
    }
}

impl BatchContainer for Offsets {
    type Owned = usize;
    type ReadItem<'a> = usize;

    fn into_owned(item: usize) -> usize {
        item
    }

    fn push_ref(&mut self, item: usize) {
        self.push(item);
    }

    fn push_own(&mut self, item: &usize) {
        self.push(*item);
    }

    fn clear(&mut self) {
        *self = Offsets { small: std::mem::take(&mut self.small), expected: self.expected, ..Offsets::default() };
        self.small.clear();
    }

    fn with_capacity(size: usize) -> Offsets {
        Offsets { expected: size, ..Offsets::default() }
    }

    fn merge_capacity(first: &Offsets, second: &Offsets) -> Offsets {
        Offsets::with_capacity(first.len() + second.len())
    }

    fn reborrow<'b, 'a: 'b>(item: usize) -> usize {
        item
    }

    fn index(&self, index: usize) -> usize {
        self.get(index)
    }

    fn len(&self) -> usize {
        Offsets::len(self)
    }
}

#[cfg(test)]
mod tests {
    use super::Offsets;
    use proptest::prelude::{prop, proptest};

    fn list(offsets: &[usize]) -> Offsets {
        let mut list = Offsets::default();
        offsets.iter().for_each(|offset| list.push(*offset));
        list
    }

    #[test]
    fn regular_offsets_take_no_memory() {
        let rows = list(&(0..1_000).map(|n| n * 5).collect::<Vec<_>>());
        assert_eq!((rows.byte_count(), rows.stride()), (0, Some(5)));
        // One update, then as many like it as there are values.
        let singletons = list(&[0, 1, 1, 1, 1, 1]);
        assert_eq!((singletons.byte_count(), singletons.stride()), (0, None));
        assert_eq!(list(&[0]).stride(), Some(0));
    }

    #[test]
    fn offsets_beyond_32_bits_are_kept() {
        let far = usize::try_from(u64::from(u32::MAX) + 7).expect("64 bits");
        let offsets = [0, 3, 4, far, far + 1];
        let list = list(&offsets);
        assert_eq!((0..list.len()).map(|at| list.get(at)).collect::<Vec<_>>(), offsets);
    }

    proptest! {
        #[test]
        fn strides_are_offsets_one_by_one(runs in prop::collection::vec((0_usize..4, 0_usize..5), 0..6)) {
            let (mut list, mut expected) = (list(&[0]), vec![0]);
            for (distance, count) in runs {
                list.extend_strided(distance, count);
                for _ in 0..count {
                    expected.push(expected[expected.len() - 1] + distance);
                }
            }
            assert_eq!((0..list.len()).map(|at| list.get(at)).collect::<Vec<_>>(), expected);
        }

        #[test]
        fn what_is_pushed_is_read(steps in prop::collection::vec(prop::sample::select(vec![0_usize, 1, 1, 1, 5, 5, 7]), 0..60), first in 0_usize..2) {
            let offsets: Vec<usize> = steps.iter().scan(first, |at, step| { let now = *at; *at += step; Some(now) }).collect();
            let list = list(&offsets);
            assert_eq!((0..list.len()).map(|at| list.get(at)).collect::<Vec<_>>(), offsets);
            if let (Some(stride), true) = (list.stride(), offsets.len() > 1) {
                assert!(offsets.windows(2).all(|pair| pair[1] - pair[0] == stride));
            }
        }
    }
}
