//! Hot columns stay decoded: whole chunks, as arrays that are packed ([`Packed`]), within a share of the memory, for all queries.
//!
//! A file is never changed, so what is kept of it is never stale. It is kept with the file ([`Slots`]), and goes when nobody holds the file any
//! more. What has not been used since the last time somebody looked goes when there is no room for something else: each chunk is
//! passed over once for having been used, in the order in which the chunks came.
//!
//! # Invariants
//! * No lock is held while memory is asked for: who is asked may ask for what is kept here.

use crate::packed::Packed;
use ore::memory::{Reservation, Share};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// Decoded chunks of all files.
#[derive(Debug)]
pub struct Cache {
    memory: Arc<Share>,
    /// In the order in which they came, or were passed over.
    kept: Mutex<VecDeque<(Weak<Slots>, usize)>>,
}

/// The chunks of one file, as far as they are kept.
#[derive(Debug)]
pub(crate) struct Slots(Box<[Mutex<Option<Kept>>]>);

#[derive(Debug)]
struct Kept {
    chunk: Packed,
    was_used: bool,
    memory: Reservation,
}

impl Slots {
    /// For so many chunks.
    pub(crate) fn new(count: usize) -> Slots {
        Slots((0..count).map(|_| Mutex::default()).collect())
    }

    /// The chunk in a slot, if it is there.
    pub(crate) fn get(&self, slot: usize) -> Option<Packed> {
        let mut kept = self.0[slot].lock();
        let kept = kept.as_mut()?;
        kept.was_used = true;
        Some(kept.chunk.clone())
    }
}

impl Cache {
    /// One that has no more than a share of the memory.
    pub fn new(memory: Arc<Share>) -> Cache {
        Cache { memory, kept: Mutex::default() }
    }

    /// Keeps a chunk, if there is room for it or can be.
    pub(crate) fn keep(&self, slots: &Arc<Slots>, slot: usize, chunk: &Packed) {
        let bytes = chunk.bytes();
        // Somebody else may have been quicker.
        if bytes > self.memory.limit() || slots.0[slot].lock().is_some() {
            return;
        }
        let mut memory = Reservation::empty(&self.memory);
        // Of its own share others make room for it, of the whole nobody.
        while self.memory.used().saturating_add(bytes) > self.memory.limit() {
            if self.give_up(bytes) == 0 {
                return;
            }
        }
        if memory.try_grow_last(bytes).is_err() {
            return;
        }
        let kept = Kept { chunk: chunk.clone(), was_used: false, memory };
        if slots.0[slot].lock().replace(kept).is_none() {
            let mut all = self.kept.lock();
            if all.len() == all.capacity() {
                // Before the list grows: of files that have gone nothing is there.
                all.retain(|(slots, _)| slots.strong_count() > 0);
            }
            all.push_back((Arc::downgrade(slots), slot));
        }
    }

    /// Gives up chunks that take at least so many bytes, or all; returns how many.
    pub fn give_up(&self, bytes: usize) -> usize {
        let (mut given_up, mut passes) = (0, self.kept.lock().len().saturating_mul(2));
        while given_up < bytes && passes > 0 {
            passes -= 1;
            let Some((slots, slot)) = self.kept.lock().pop_front() else { break };
            // Of a file that is gone everything is.
            let Some(of) = slots.upgrade() else { continue };
            let mut kept = of.0[slot].lock();
            match kept.as_mut() {
                Some(used) if used.was_used => {
                    used.was_used = false;
                    self.kept.lock().push_back((slots, slot));
                }
                _ => given_up += kept.take().map_or(0, |kept| kept.memory.bytes()),
            }
        }
        given_up
    }

    /// How many bytes are kept.
    pub fn used(&self) -> usize {
        self.memory.used()
    }
}

#[cfg(test)]
mod tests {
    use super::{Cache, Slots};
    use crate::packed::Packed;
    use arrow::array::Int64Array;
    use ore::memory::Share;
    use std::sync::Arc;

    #[test]
    fn what_is_not_used_goes_first_and_nobody_has_more_than_there_is() {
        let array = |value: i64| Packed::Plain(Arc::new(Int64Array::from(vec![value; 1_000])));
        let bytes = array(0).bytes();
        let root = Share::root(100 * bytes, None);
        let cache = Cache::new(root.child("decoded columns", 3 * bytes + 1));
        let slots = Arc::new(Slots::new(8));
        (0..3).for_each(|slot| cache.keep(&slots, slot, &array(slot as i64)));
        assert_eq!(cache.used(), 3 * bytes);
        assert_eq!(slots.get(0).expect("it is kept").array(0..1_000, None).expect("fits").len(), 1_000);
        cache.keep(&slots, 3, &array(3));
        assert_eq!((0..4).map(|slot| slots.get(slot).is_some()).collect::<Vec<_>>(), [true, false, true, true]);
        // All have been used since: the one that came first goes after all.
        cache.keep(&slots, 4, &array(4));
        assert_eq!((0..5).filter(|slot| slots.get(*slot).is_some()).count(), 3);
        assert!(slots.get(4).is_some());
        // The same again takes nothing more.
        cache.keep(&slots, 4, &array(4));
        assert_eq!(cache.used(), 3 * bytes);
        // What is larger than everything is not kept, and nothing is given up for it.
        let huge = Packed::Plain(Arc::new(Int64Array::from(vec![1; 10_000])));
        cache.keep(&slots, 5, &huge);
        assert!(slots.get(5).is_none());
        assert_eq!(cache.used(), 3 * bytes);
        assert!(cache.give_up(2 * bytes) >= 2 * bytes);
        assert_eq!(cache.used(), bytes);
        drop(slots);
        assert_eq!(root.used(), 0, "it goes with its file");
        assert_eq!(cache.give_up(1), 0);
    }
}
