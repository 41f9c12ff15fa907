//! Sorts updates on their way into an arrangement.
//!
//! Chunks are large enough to hold what mostly comes at one time, so that nothing is left to merge, and updates are sorted by
//! the first bytes of their keys, as numbers that lie side by side: rows are looked at only where those are equal.

use crate::spine::RowUpdate;
use std::collections::VecDeque;
use timely::container::{ContainerBuilder, PushInto};

/// Updates of a chunk.
const CHUNK_ROWS: usize = if cfg!(test) { 8 } else { 8_192 };
/// The bytes of a key that become a number.
const PREFIX_BYTES: usize = 16;

/// Turns streams of updates into sorted chunks, in which equal updates are one.
#[derive(Debug)]
pub struct RowChunker<T> {
    pending: Vec<RowUpdate<T>>,
    ready: VecDeque<Vec<RowUpdate<T>>>,
    given: Vec<RowUpdate<T>>,
}

impl<T> Default for RowChunker<T> {
    fn default() -> RowChunker<T> {
        RowChunker { pending: Vec::new(), ready: VecDeque::new(), given: Vec::new() }
    }
}

impl<T: Ord + Clone> RowChunker<T> {
    fn sort(&mut self) {
        self.pending = sorted(std::mem::take(&mut self.pending));
    }

    fn give(&mut self) -> Option<&mut Vec<RowUpdate<T>>> {
        self.given = self.ready.pop_front()?;
        Some(&mut self.given)
    }
}

/// Sorts updates and adds up equal ones.
fn sorted<T: Ord + Clone>(mut updates: Vec<RowUpdate<T>>) -> Vec<RowUpdate<T>> {
    let mut order: Vec<(u128, usize)> =
        updates.iter().enumerate().map(|(at, ((key, _), _, _))| (prefix(key), at)).collect();
    order.sort_unstable_by(|(left, l), (right, r)| {
        left.cmp(right).then_with(|| (&updates[*l].0, &updates[*l].1).cmp(&(&updates[*r].0, &updates[*r].1)))
    });
    let mut sorted: Vec<RowUpdate<T>> = Vec::with_capacity(updates.len());
    for (_, at) in order {
        let (row, time, diff) = &mut updates[at];
        match sorted.last_mut() {
            Some((last, at, sum)) if last == row && at == time => *sum += *diff,
            last => {
                if last.is_some_and(|(_, _, sum)| *sum == 0) {
                    sorted.pop();
                }
                sorted.push((std::mem::take(row), time.clone(), *diff));
            }
        }
    }
    if sorted.last().is_some_and(|(_, _, sum)| *sum == 0) {
        sorted.pop();
    }
    sorted
}

/// A number that compares as a key does, as far as it goes.
fn prefix(key: &[u8]) -> u128 {
    let mut bytes = [0; PREFIX_BYTES];
    let length = key.len().min(PREFIX_BYTES);
    bytes[..length].copy_from_slice(&key[..length]);
    u128::from_be_bytes(bytes)
}

impl<'a, T: Ord + Clone> PushInto<&'a mut Vec<RowUpdate<T>>> for RowChunker<T> {
    fn push_into(&mut self, updates: &'a mut Vec<RowUpdate<T>>) {
        self.pending.append(updates);
        if self.pending.len() >= CHUNK_ROWS {
            self.sort();
            // What cancels out makes room for more.
            if self.pending.len() >= CHUNK_ROWS / 2 {
                self.ready.push_back(std::mem::take(&mut self.pending));
            }
        }
    }
}

impl<T: Ord + Clone + 'static> ContainerBuilder for RowChunker<T> {
    type Container = Vec<RowUpdate<T>>;

    fn extract(&mut self) -> Option<&mut Vec<RowUpdate<T>>> {
        self.give()
    }

    fn finish(&mut self) -> Option<&mut Vec<RowUpdate<T>>> {
        if !self.pending.is_empty() {
            self.sort();
            let pending = std::mem::take(&mut self.pending);
            self.ready.extend((!pending.is_empty()).then_some(pending));
        }
        self.give()
    }
}

#[cfg(test)]
mod tests {
    use super::RowChunker;
    use crate::spine::RowUpdate;
    use differential_dataflow::consolidation::consolidate_updates;
    use proptest::prelude::{prop, proptest};
    use timely::container::{ContainerBuilder, PushInto};

    proptest! {
        #[test]
        fn chunks_are_sorted_and_together_what_was_pushed(
            containers in prop::collection::vec(prop::collection::vec(
                (prop::collection::vec(0_u8..2, 0..20), 0_u8..2, 0_u64..2, -1_i64..2), 0..12), 0..6)) {
            let (mut chunker, mut expected, mut found) = (RowChunker::default(), Vec::new(), Vec::new());
            for container in containers {
                let mut updates: Vec<RowUpdate> =
                    container.into_iter().map(|(key, value, time, diff)| ((key, vec![value]), time, diff)).collect();
                expected.extend(updates.iter().cloned());
                chunker.push_into(&mut updates);
                while let Some(chunk) = chunker.extract() {
                    found.push(std::mem::take(chunk));
                }
            }
            while let Some(chunk) = chunker.finish() {
                found.push(std::mem::take(chunk));
            }
            for chunk in &found {
                let mut consolidated = chunk.clone();
                consolidate_updates(&mut consolidated);
                assert_eq!(chunk, &consolidated);
                assert!(!chunk.is_empty());
            }
            let mut all = found.concat();
            consolidate_updates(&mut all);
            consolidate_updates(&mut expected);
            assert_eq!(all, expected);
        }
    }
}
