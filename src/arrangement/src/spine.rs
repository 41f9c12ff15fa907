//! The names of differential's trace types over rows. The times are those of a dataflow; inside recursion they have rounds.

use crate::arc_batch::ArcBatch;
use crate::row_layout::RowLayout;
use differential_dataflow::batcher::merge::Sealer;
use differential_dataflow::consolidation::consolidate_updates;
use differential_dataflow::trace::implementations::ord_neu::{OrdValBatch, OrdValBuilder};
use differential_dataflow::trace::implementations::spine_fueled::Spine;
use repr::{Diff, Timestamp};

/// One update on its way into an arrangement: key row, value row, time, multiplicity.
pub type RowUpdate<T = Timestamp> = ((Vec<u8>, Vec<u8>), T, Diff);
/// An immutable, shared batch of updates sorted by key and value. There are some: nothing is no batch.
pub type RowBatch<T = Timestamp> = ArcBatch<OrdValBatch<RowLayout<T>>>;
/// A trace: a logarithmic number of batches, merged as they grow.
pub type RowSpine<T = Timestamp> = Spine<RowBatch<T>>;
/// Builds batches from sorted updates.
pub type RowBuilder<T = Timestamp> = OrdValBuilder<RowLayout<T>, Vec<RowUpdate<T>>>;

/// The batch of some updates, absent if they add up to nothing.
pub fn batch(mut updates: Vec<RowUpdate>) -> Option<RowBatch> {
    consolidate_updates(&mut updates);
    RowBuilder::seal(&mut vec![updates]).map(RowBatch::from)
}
