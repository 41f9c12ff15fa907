//! Differential's batches behind `Arc`, so that a batch can be read on any thread while its worker goes on.
//!
//! How one moves through a batch is in [`crate::row_cursor`], how two become one in [`crate::merger`].

use crate::allowance::Held;
use crate::row_layout::RowLayout;
use differential_dataflow::lattice::Lattice;
use differential_dataflow::trace::implementations::ord_neu::OrdValBatch;
use differential_dataflow::trace::implementations::ord_neu::val_batch::OrdValStorage;
use repr::Diff;
use std::ops::Deref;
use std::sync::Arc;
use timely::progress::Timestamp;

/// A shared, immutable batch. Its memory is its dataflow's until nobody reads it any more.
#[derive(Debug)]
pub struct ArcBatch<B>(Arc<Owned<B>>);

#[derive(Debug)]
struct Owned<B> {
    batch: B,
    held: Held,
}

impl<B> ArcBatch<B> {
    /// A batch, and the memory that it takes.
    pub fn new(batch: B, held: Held) -> ArcBatch<B> {
        ArcBatch(Arc::new(Owned { batch, held }))
    }

    /// The memory that it takes.
    pub fn held(&self) -> &Held {
        &self.0.held
    }
}

impl<T: Timestamp + Lattice> ArcBatch<OrdValBatch<RowLayout<T>>> {
    /// The bytes that it occupies, without allocator overhead.
    pub fn byte_count(&self) -> usize {
        byte_count(&self.storage)
    }
}

/// The bytes that a batch occupies, without allocator overhead.
pub(crate) fn byte_count<T: Timestamp + Lattice>(storage: &OrdValStorage<RowLayout<T>>) -> usize {
    storage.keys.byte_count()
        + storage.vals.vals.byte_count()
        + storage.vals.offs.byte_count()
        + storage.upds.offs.byte_count()
        + storage.upds.times.capacity() * size_of::<T>()
        + storage.upds.diffs.capacity() * size_of::<Diff>()
}

impl<B> Clone for ArcBatch<B> {
    fn clone(&self) -> Self {
        ArcBatch(Arc::clone(&self.0))
    }
}

impl<B> Deref for ArcBatch<B> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.0.batch
    }
}
