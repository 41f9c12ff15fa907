//! What a batch of rows adds to the totals of its groups.

use crate::render::ScopeTime;
use crate::render::flow::Update;
use crate::render::mfp::RowPlan;
use crate::render::numbers::Numbers;
use crate::render::sums::Slot;
use crate::render::totals::{KeyTotal, ROWS, Totals, hasher};
use datafusion::error::DataFusionError;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// How rows are added up.
pub(super) struct Tally {
    /// Gives their keys and what the aggregates read.
    pub(super) plan: RowPlan,
    /// Adds up most batches without that.
    pub(super) numbers: Option<Numbers>,
    pub(super) slots: Vec<Slot>,
    /// How many totals a group has.
    pub(super) width: usize,
}

impl Tally {
    /// What rows add, once for each group and time.
    pub(super) fn of<T: ScopeTime>(
        &mut self,
        updates: &[Update<'_, T>],
    ) -> Result<impl Iterator<Item = KeyTotal<T>> + use<T>, DataFusionError> {
        if let Some(numbers) = &mut self.numbers {
            let mut groups = Groups::new(self.width);
            if numbers.add(updates, &mut groups) {
                return Ok(groups.into_totals());
            }
        }
        let updates = &self.plan.passing(updates);
        let mut groups = Groups::new(self.width);
        let evaluated = self.plan.evaluate(updates)?;
        let row_count = evaluated.kept.len();
        let (mut of_rows, mut diffs) = (Vec::with_capacity(row_count), Vec::with_capacity(row_count));
        self.plan.keys(&evaluated, updates, |at, key| {
            let Update { time, diff, .. } = updates[evaluated.kept[at]];
            let group = groups.of(key, time);
            groups.totals[group + ROWS] += i128::from(diff);
            of_rows.push(group);
            diffs.push(diff);
        })?;
        self.slots.iter().for_each(|slot| slot.add(&evaluated.batch, &diffs, &of_rows, &mut groups.totals));
        Ok(groups.into_totals())
    }
}

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

    fn into_totals(self) -> impl Iterator<Item = KeyTotal<T>> + use<T> {
        let Groups { width, keys, totals, .. } = self;
        let all = keys.into_iter().enumerate();
        all.map(move |(group, (key, time))| ((key, ()), time, Totals(totals[group * width..][..width].to_vec())))
    }
}
