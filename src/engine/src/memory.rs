//! The account of memory, as DataFusion and Arrow ask for it.
//!
//! What operators keep (sorts, groups, build sides) DataFusion asks for by itself, through [`Pool`]. What functions make, and what
//! scans and whole queries give, are buffers that go from hand to hand: [`claim`] has them counted until they are dropped.

use crate::error::SqlError;
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::{MemoryPool as ArrowPool, MemoryReservation as ArrowReservation};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use ore::memory::{Refused, Reservation, STEP, Share};
use repr::sqlstate::SqlState;
use std::fmt;
use std::sync::Arc;

impl From<Refused> for SqlError {
    fn from(refused: Refused) -> SqlError {
        SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory").with_detail(refused.to_string())
    }
}

/// A share for DataFusion's operators.
#[derive(Debug)]
pub(super) struct Pool(pub(super) Arc<Share>);

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl MemoryPool for Pool {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn grow(&self, _reservation: &MemoryReservation, additional: usize) {
        self.0.grow(additional);
    }

    fn shrink(&self, _reservation: &MemoryReservation, shrink: usize) {
        self.0.shrink(shrink);
    }

    fn try_grow(&self, _reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.0.try_grow(additional).map_err(|refused| DataFusionError::from(SqlError::from(refused)))
    }

    fn reserved(&self) -> usize {
        self.0.used()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.0.limit())
    }
}

/// A share for Arrow's buffers, which take what is allocated already.
#[derive(Debug)]
struct Buffers<'a>(&'a Arc<Share>);

#[derive(Debug)]
struct Buffer(Reservation);

impl ArrowReservation for Buffer {
    fn size(&self) -> usize {
        self.0.bytes()
    }

    fn resize(&mut self, new_size: usize) {
        self.0.resize(new_size);
    }
}

impl ArrowPool for Buffers<'_> {
    fn reserve(&self, size: usize) -> Box<dyn ArrowReservation> {
        Box::new(Buffer(Reservation::of(self.0, size)))
    }

    fn available(&self) -> isize {
        isize::try_from(self.0.limit()).unwrap_or(isize::MAX) - isize::try_from(self.0.used()).unwrap_or(isize::MAX)
    }

    fn used(&self) -> usize {
        self.0.used()
    }

    fn capacity(&self) -> usize {
        self.0.limit()
    }
}

/// Has a column's buffers counted in a share until they are dropped, if it is worth it. They may be counted elsewhere already: then
/// they are counted here from now on.
pub fn claim(column: &ArrayRef, share: &Arc<Share>) {
    if column.get_buffer_memory_size() >= STEP {
        column.claim(&Buffers(share));
    }
}

/// The same for all columns of a batch. Error 53200 if there is no room for them.
pub fn try_claim(batch: &RecordBatch, share: &Arc<Share>) -> std::result::Result<(), SqlError> {
    let large = || batch.columns().iter().filter(|column| column.get_buffer_memory_size() >= STEP);
    let bytes: usize = large().map(|column| column.get_buffer_memory_size()).sum();
    if bytes == 0 {
        return Ok(());
    }
    // Asked for, and given back at once: what is claimed is not refused.
    let mut room = Reservation::empty(share);
    room.try_grow(bytes)?;
    large().for_each(|column| column.claim(&Buffers(share)));
    Ok(())
}
