//! The names of differential's trace types over rows.

use crate::arc_batch::{ArcBatch, ArcBuilder};
use crate::row_layout::RowLayout;
use differential_dataflow::trace::implementations::chunker::ContainerChunker;
use differential_dataflow::trace::implementations::merge_batcher::MergeBatcher;
use differential_dataflow::trace::implementations::merge_batcher::vec::VecMerger;
use differential_dataflow::trace::implementations::ord_neu::{OrdValBatch, OrdValBuilder};
use differential_dataflow::trace::implementations::spine_fueled::Spine;
use repr::{Diff, Timestamp};

/// One update on its way into an arrangement: key row, value row, time, multiplicity.
pub type RowUpdate = ((Vec<u8>, Vec<u8>), Timestamp, Diff);
/// An immutable, shared batch of updates sorted by key and value.
pub type RowBatch = ArcBatch<OrdValBatch<RowLayout>>;
/// A trace: a logarithmic number of batches, merged as they grow.
pub type RowSpine = Spine<RowBatch>;
/// Turns streams of updates into sorted chunks.
pub type RowChunker = ContainerChunker<Vec<RowUpdate>>;
/// Sorts chunks until their times are complete.
pub type RowBatcher = MergeBatcher<VecMerger<(Vec<u8>, Vec<u8>), Timestamp, Diff>>;
/// Builds batches from sorted chunks.
pub type RowBuilder = ArcBuilder<OrdValBuilder<RowLayout, Vec<RowUpdate>>>;
