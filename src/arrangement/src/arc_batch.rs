//! Differential's batches behind `Arc`, so that a batch can be read on any thread while its worker goes on.
//!
//! How one moves through a batch is in [`crate::row_cursor`], how two become one in [`crate::merger`].

use std::ops::Deref;
use std::sync::Arc;

/// A shared, immutable batch.
#[derive(Debug)]
pub struct ArcBatch<B>(Arc<B>);

impl<B> From<B> for ArcBatch<B> {
    fn from(batch: B) -> ArcBatch<B> {
        ArcBatch(Arc::new(batch))
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
