//! Groups, found by their keys, and what is added to their totals.

use crate::render::totals::{KeyTotal, Totals, hasher};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// Groups and what is added to their totals, by time.
pub(super) struct Groups<T> {
    width: usize,
    keys: Vec<(Vec<u8>, T)>,
    by_key: HashTable<usize>,
    /// The group that was asked for last.
    last: usize,
    hasher: FixedState,
    /// The totals of all groups, one after the other.
    pub(super) totals: Vec<i128>,
}

impl<T: Ord + Clone> Groups<T> {
    /// None.
    pub(super) fn new(width: usize) -> Groups<T> {
        Groups { width, keys: Vec::new(), by_key: HashTable::new(), last: 0, hasher: hasher(), totals: Vec::new() }
    }

    /// Where the totals of a group begin.
    pub(super) fn of(&mut self, key: &[u8], time: &T) -> usize {
        let Groups { width, keys, by_key, last, hasher, totals } = self;
        if keys.get(*last).is_some_and(|(known, at)| known == key && at == time) {
            return *last * *width;
        }
        let hash = hasher.hash_one(key);
        let found = by_key.find(hash, |group| keys[*group].0 == key && keys[*group].1 == *time).copied();
        *last = found.unwrap_or_else(|| {
            keys.push((key.to_vec(), time.clone()));
            totals.resize(keys.len() * *width, 0);
            by_key.insert_unique(hash, keys.len() - 1, |group| hasher.hash_one(keys[*group].0.as_slice()));
            keys.len() - 1
        });
        *last * *width
    }

    /// Looks at the totals of each group.
    pub(super) fn each(&mut self, look: impl FnMut(&mut [i128])) {
        self.totals.chunks_mut(self.width).for_each(look);
    }

    /// The totals of all groups.
    pub(super) fn into_totals(self) -> impl Iterator<Item = KeyTotal<T>> + use<T> {
        let Groups { width, keys, totals, .. } = self;
        let all = keys.into_iter().enumerate();
        all.map(move |(group, (key, time))| ((key, ()), time, Totals(totals[group * width..][..width].to_vec())))
    }
}
