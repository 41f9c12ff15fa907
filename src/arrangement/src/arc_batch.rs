//! Differential batches behind `Arc`, so that a batch can be read on any thread while its worker goes on.
//!
//! Differential implements its batch traits for `Rc<B>`; these are the same delegations for a newtype over `Arc<B>`.

use differential_dataflow::trace::cursor::Cursor;
use differential_dataflow::trace::{Batch, BatchReader, Builder, Description, Merger, Navigable};
use std::ops::Deref;
use std::sync::Arc;
use timely::progress::{Antichain, frontier::AntichainRef};

/// A shared, immutable batch.
#[derive(Debug)]
pub struct ArcBatch<B>(Arc<B>);

impl<B> ArcBatch<B> {
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

impl<B: Batch> Batch for ArcBatch<B> {
    type Merger = ArcMerger<B>;

    fn empty(lower: Antichain<Self::Time>, upper: Antichain<Self::Time>) -> Self {
        ArcBatch(Arc::new(B::empty(lower, upper)))
    }
}

/// Merges two shared batches into a new one.
pub struct ArcMerger<B: Batch>(B::Merger);

impl<B: Batch> Merger<ArcBatch<B>> for ArcMerger<B> {
    fn new(first: &ArcBatch<B>, second: &ArcBatch<B>, compaction: AntichainRef<B::Time>) -> Self {
        ArcMerger(B::begin_merge(first, second, compaction))
    }

    fn work(&mut self, first: &ArcBatch<B>, second: &ArcBatch<B>, fuel: &mut isize) {
        self.0.work(first, second, fuel);
    }

    fn done(self) -> ArcBatch<B> {
        ArcBatch(Arc::new(self.0.done()))
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

impl<B: BatchReader + Navigable> Navigable for ArcBatch<B> {
    type Cursor = ArcCursor<B::Cursor>;

    fn cursor(&self) -> Self::Cursor {
        ArcCursor(self.0.cursor())
    }
}

/// A cursor over a shared batch.
pub struct ArcCursor<C>(C);

impl<C: Cursor> Cursor for ArcCursor<C> {
    type Storage = ArcBatch<C::Storage>;
    type Key<'a> = C::Key<'a>;
    type ValOwn = C::ValOwn;
    type Val<'a> = C::Val<'a>;
    type Time = C::Time;
    type TimeGat<'a> = C::TimeGat<'a>;
    type Diff = C::Diff;
    type DiffGat<'a> = C::DiffGat<'a>;
    type KeyContainer = C::KeyContainer;
    type ValContainer = C::ValContainer;
    type TimeContainer = C::TimeContainer;
    type DiffContainer = C::DiffContainer;

    fn key_valid(&self, storage: &Self::Storage) -> bool {
        self.0.key_valid(storage)
    }

    fn val_valid(&self, storage: &Self::Storage) -> bool {
        self.0.val_valid(storage)
    }

    fn key<'a>(&self, storage: &'a Self::Storage) -> Self::Key<'a> {
        self.0.key(storage)
    }

    fn val<'a>(&self, storage: &'a Self::Storage) -> Self::Val<'a> {
        self.0.val(storage)
    }

    fn get_key<'a>(&self, storage: &'a Self::Storage) -> Option<Self::Key<'a>> {
        self.0.get_key(storage)
    }

    fn get_val<'a>(&self, storage: &'a Self::Storage) -> Option<Self::Val<'a>> {
        self.0.get_val(storage)
    }

    fn map_times<L: FnMut(Self::TimeGat<'_>, Self::DiffGat<'_>)>(&mut self, storage: &Self::Storage, logic: L) {
        self.0.map_times(storage, logic);
    }

    fn step_key(&mut self, storage: &Self::Storage) {
        self.0.step_key(storage);
    }

    fn seek_key(&mut self, storage: &Self::Storage, key: Self::Key<'_>) {
        self.0.seek_key(storage, key);
    }

    fn step_val(&mut self, storage: &Self::Storage) {
        self.0.step_val(storage);
    }

    fn seek_val(&mut self, storage: &Self::Storage, val: Self::Val<'_>) {
        // A list of cursors seeks with all of them, also with those that have come to the end of their keys.
        if self.0.key_valid(storage) {
            self.0.seek_val(storage, val);
        }
    }

    fn rewind_keys(&mut self, storage: &Self::Storage) {
        self.0.rewind_keys(storage);
    }

    fn rewind_vals(&mut self, storage: &Self::Storage) {
        self.0.rewind_vals(storage);
    }
}
