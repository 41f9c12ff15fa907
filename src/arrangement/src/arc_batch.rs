//! Differential batches behind `Arc`, so that a batch can be read on any thread while its worker goes on.
//!
//! Differential implements its batch traits for `Rc<B>`; these are the same delegations for a newtype over `Arc<B>`. How one
//! moves through a batch is in [`crate::row_cursor`], how two become one in [`crate::merger`].

use differential_dataflow::trace::{BatchReader, Builder, Description};
use std::ops::Deref;
use std::sync::Arc;

/// A shared, immutable batch.
#[derive(Debug)]
pub struct ArcBatch<B>(Arc<B>);

impl<B> ArcBatch<B> {
    /// Shares a batch.
    pub(crate) fn new(batch: Arc<B>) -> ArcBatch<B> {
        ArcBatch(batch)
    }

    /// The shared batch itself.
    pub fn inner(&self) -> &Arc<B> {
        &self.0
    }
}

impl<B> Clone for ArcBatch<B> {
    fn clone(&self) -> Self {
        ArcBatch(Arc::clone(&self.0))
    }
}

impl<B> Deref for ArcBatch<B> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.0
    }
}

impl<B: BatchReader> BatchReader for ArcBatch<B> {
    type Time = B::Time;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn description(&self) -> &Description<Self::Time> {
        self.0.description()
    }
}

/// Builds a batch and shares it.
pub struct ArcBuilder<B>(B);

impl<B: Builder> Builder for ArcBuilder<B> {
    type Input = B::Input;
    type Time = B::Time;
    type Output = ArcBatch<B::Output>;

    fn with_capacity(keys: usize, vals: usize, upds: usize) -> Self {
        ArcBuilder(B::with_capacity(keys, vals, upds))
    }

    fn push(&mut self, chunk: &mut Self::Input) {
        self.0.push(chunk);
    }

    fn done(self, description: Description<Self::Time>) -> Self::Output {
        ArcBatch(Arc::new(self.0.done(description)))
    }

    fn seal(chain: &mut Vec<Self::Input>, description: Description<Self::Time>) -> Self::Output {
        ArcBatch(Arc::new(B::seal(chain, description)))
    }
}
