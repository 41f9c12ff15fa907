//! What a seed decides.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use repr::Timestamp;
use std::ops::RangeInclusive;

/// See the module.
pub(crate) struct Choices(StdRng);

impl Choices {
    /// Those of a seed.
    pub(crate) fn of(seed: u64) -> Choices {
        Choices(StdRng::seed_from_u64(seed))
    }

    /// Others, which these decide.
    pub(crate) fn branch(&mut self) -> Choices {
        Choices::of(self.0.random())
    }

    /// A number below this one.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        self.0.random_range(0..count)
    }

    /// True once in so many times.
    pub(crate) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// A time among these.
    pub(crate) fn within(&mut self, times: RangeInclusive<Timestamp>) -> Timestamp {
        self.0.random_range(times)
    }

    /// One of these; `None` of nothing.
    pub(crate) fn of_these<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        (!all.is_empty()).then(|| &all[self.below(all.len())])
    }
}
