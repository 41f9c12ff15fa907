//! Decisions of a random generator, recorded so that what it made can be made again, and made simpler.
//!
//! A generator asks for one small number after the other; 0 is always its simplest alternative. Whoever finds that the
//! result fails can leave out or lower some of the numbers and generate again: what comes out is another valid result,
//! and a simpler one ([`simplest`]). So a generator needs no code of its own for making its results smaller.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Where decisions come from.
#[derive(Debug)]
pub struct Choices {
    /// For decisions behind the given ones; without it they are all 0.
    random: Option<StdRng>,
    taken: Vec<u32>,
    given: Vec<u32>,
}

impl Choices {
    /// Random ones.
    pub fn random(seed: u64) -> Choices {
        Choices { random: Some(StdRng::seed_from_u64(seed)), taken: Vec::new(), given: Vec::new() }
    }

    /// These, and the simplest alternative from there on.
    pub fn given(given: Vec<u32>) -> Choices {
        Choices { random: None, taken: Vec::new(), given }
    }

    /// A number below `count`.
    pub fn pick(&mut self, count: usize) -> usize {
        let count = u32::try_from(count.max(1)).expect("alternatives are few");
        let number = match (self.given.get(self.taken.len()), &mut self.random) {
            (Some(given), _) => given % count,
            (None, Some(random)) => random.random_range(0..count),
            (None, None) => 0,
        };
        self.taken.push(number);
        number as usize
    }

    /// Whether to do what makes the result larger, in so many cases of a hundred.
    pub fn chance(&mut self, percent: usize) -> bool {
        // 0 says no.
        self.pick(100) >= 100 - percent
    }

    /// One of these.
    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.pick(all.len())]
    }

    /// All decisions so far.
    pub fn taken(&self) -> &[u32] {
        &self.taken
    }
}

/// Simpler decisions than `choices` that still fail, found with at most `tries_max` tests.
pub fn simplest(choices: &[u32], tries_max: usize, mut fails: impl FnMut(&[u32]) -> bool) -> Vec<u32> {
    let mut best = choices.to_vec();
    let mut tries_left = tries_max;
    let mut attempt = |best: &mut Vec<u32>, candidate: Vec<u32>| {
        if tries_left == 0 || candidate == *best {
            return false;
        }
        tries_left -= 1;
        let better = fails(&candidate);
        if better {
            *best = candidate;
        }
        better
    };
    loop {
        let before = best.clone();
        for size in [64, 16, 4, 2, 1] {
            let mut end = best.len();
            while end > 0 {
                let start = end.saturating_sub(size);
                let without = [&best[..start], &best[end.min(best.len())..]].concat();
                if !attempt(&mut best, without) {
                    let mut zeroed = best.clone();
                    zeroed[start..end].fill(0);
                    attempt(&mut best, zeroed);
                }
                end = start.min(best.len());
            }
        }
        for at in 0..best.len() {
            let mut halved = best.clone();
            if let Some(number) = halved.get_mut(at) {
                *number /= 2;
            }
            attempt(&mut best, halved);
        }
        if best == before {
            return best;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Choices, simplest};

    #[test]
    fn given_choices_repeat_and_then_are_simple() {
        let mut random = Choices::random(5);
        let first: Vec<usize> = (0..20).map(|_| random.pick(7)).collect();
        let mut again = Choices::given(random.taken().to_vec());
        assert_eq!((0..20).map(|_| again.pick(7)).collect::<Vec<_>>(), first);
        assert_eq!(again.pick(7), 0);
        assert!(!again.chance(99));
    }

    #[test]
    fn what_does_not_matter_goes_away() {
        let choices: Vec<u32> = (0..200).map(|at| at % 13).collect();
        let simple = simplest(&choices, 10_000, |choices| choices.contains(&7) && choices.contains(&9));
        assert_eq!(simple.len(), 2, "{simple:?}");
    }
}
