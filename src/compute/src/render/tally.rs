//! What a batch of rows adds to the totals of its groups.

use crate::render::ScopeTime;
use crate::render::flow::Update;
use crate::render::groups::Groups;
use crate::render::mfp::RowPlan;
use crate::render::numbers::Numbers;
use crate::render::sums::Slot;
use crate::render::totals::{KeyTotal, ROWS};
use datafusion::error::DataFusionError;

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
