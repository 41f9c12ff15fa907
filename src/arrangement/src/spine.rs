//! The names of differential's trace types over rows. The times are those of a dataflow; inside recursion they have rounds.

use crate::allowance::Allowance;
use crate::arc_batch::{ArcBatch, byte_count};
use crate::row_layout::RowLayout;
use differential_dataflow::consolidation::consolidate_updates;
use differential_dataflow::lattice::Lattice;
use differential_dataflow::trace::Builder;
use differential_dataflow::trace::implementations::ord_neu::{OrdValBatch, OrdValBuilder};
use differential_dataflow::trace::implementations::spine_fueled::Spine;
use repr::{Diff, Timestamp};
use std::sync::Arc;

/// One update on its way into an arrangement: key row, value row, time, multiplicity.
pub type RowUpdate<T = Timestamp> = ((Vec<u8>, Vec<u8>), T, Diff);
/// An immutable, shared batch of updates sorted by key and value. There are some: nothing is no batch.
pub type RowBatch<T = Timestamp> = ArcBatch<OrdValBatch<RowLayout<T>>>;
/// A trace: a logarithmic number of batches, merged as they grow.
pub type RowSpine<T = Timestamp> = Spine<RowBatch<T>>;

/// Sorted updates, and whose memory the batch of them takes.
pub struct Sorted<T> {
    /// The updates.
    pub updates: Vec<RowUpdate<T>>,
    /// Of the dataflow; there is one as soon as there are updates.
    pub allowance: Option<Arc<Allowance>>,
}

impl<T> Default for Sorted<T> {
    fn default() -> Sorted<T> {
        Sorted { updates: Vec::new(), allowance: None }
    }
}

/// Builds batches from sorted updates.
pub struct RowBuilder<T: timely::progress::Timestamp + Lattice = Timestamp> {
    builder: OrdValBuilder<RowLayout<T>, Vec<RowUpdate<T>>>,
    allowance: Option<Arc<Allowance>>,
}

impl<T: timely::progress::Timestamp + Lattice> Default for RowBuilder<T> {
    fn default() -> RowBuilder<T> {
        RowBuilder { builder: OrdValBuilder::default(), allowance: None }
    }
}

impl<T: timely::progress::Timestamp + Lattice> Builder for RowBuilder<T> {
    type Input = Sorted<T>;
    type Time = T;
    type Output = RowBatch<T>;

    fn push(&mut self, chunk: &mut Sorted<T>) {
        self.builder.push(&mut chunk.updates);
        if self.allowance.is_none() {
            self.allowance = chunk.allowance.take();
        }
    }

    fn done(self) -> Option<RowBatch<T>> {
        let (batch, allowance) = (self.builder.done()?, self.allowance?);
        let held = allowance.hold(byte_count(&batch.storage));
        held.map(|held| RowBatch::new(batch, held))
    }
}

/// The batch of some updates, absent if they add up to nothing.
pub fn batch(mut updates: Vec<RowUpdate>, allowance: &Arc<Allowance>) -> Option<RowBatch> {
    consolidate_updates(&mut updates);
    let mut builder = RowBuilder::default();
    builder.push(&mut Sorted { updates, allowance: Some(Arc::clone(allowance)) });
    builder.done()
}
