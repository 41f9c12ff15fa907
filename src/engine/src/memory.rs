//! The account of memory, as DataFusion and Arrow ask for it.
//!
//! What operators keep (sorts, groups, build sides) DataFusion asks for by itself, through [`Pool`]. What functions make, and what
//! scans and whole queries give, are buffers that go from hand to hand: [`claim`] has them counted until they are dropped.

use crate::error::SqlError;
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::{MemoryPool as ArrowPool, MemoryReservation as ArrowReservation};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use ore::memory::{Refused, Reservation, STEP, Share};
use parking_lot::Mutex;
use repr::sqlstate::SqlState;
use std::fmt;
use std::sync::Arc;

impl From<Refused> for SqlError {
    fn from(refused: Refused) -> SqlError {
        SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory").with_detail(refused.to_string())
    }
}

/// What part of the memory is for what can be put aside, and for putting that in order: a sort keeps the keys of all that it has once more,
/// which of narrow rows take more than these, and reads as many files at once as there is room for. The rest is for what can not.
const PUT_ASIDE: usize = 4;
const MERGED: usize = 2;

/// Bytes that each of them may have, however many there are, and what part of the memory this is at the most: many of them have nothing
/// yet, or never much; and nobody can do with less than a batch.
const FAIR_MIN: usize = 32 << 20;
const FAIR_PART: usize = 16;

/// What a consumer does that is refused memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It puts aside what it has.
    PutsAside,
    /// It makes do with what it has: DataFusion's name for what puts in order what another one has put aside.
    Merges,
    /// It fails.
    Keeps,
}

impl Kind {
    fn of(consumer: &MemoryConsumer) -> Kind {
        match consumer.can_spill() {
            true => Kind::PutsAside,
            false if consumer.name().starts_with("ExternalSorterMerge") => Kind::Merges,
            false => Kind::Keeps,
        }
    }
}

/// A share for DataFusion's operators. Those that can put aside what they have get no more of it than the others of their kind: one
/// would leave nothing to those that come after it.
#[derive(Debug)]
pub(super) struct Pool {
    share: Arc<Share>,
    /// Whether there is where something can be put aside.
    spills: bool,
    others: Mutex<Others>,
}

/// Who else has a part of the share.
#[derive(Debug, Default)]
struct Others {
    /// How many can put aside what they have.
    spilling: usize,
    /// How many put in order what is put aside.
    merging: usize,
    /// What those have who fail without.
    kept: usize,
}

impl Pool {
    /// One of whose consumers nobody can put anything aside.
    pub(super) fn new(share: Arc<Share>) -> Pool {
        Pool { share, spills: false, others: Mutex::default() }
    }

    /// One of whose consumers some can.
    pub(super) fn that_spills(share: Arc<Share>) -> Pool {
        Pool { spills: true, ..Pool::new(share) }
    }

    /// What a consumer may have before it is to do with what it has.
    fn fair_part(&self, kind: Kind) -> usize {
        if !self.spills || kind == Kind::Keeps {
            return usize::MAX;
        }
        let others = self.others.lock();
        let all = self.share.limit().saturating_sub(others.kept);
        let part = match kind {
            Kind::Merges => all / MERGED / others.merging.max(1),
            _ => all / PUT_ASIDE / others.spilling.max(1),
        };
        part.max(FAIR_MIN.min(self.share.limit() / FAIR_PART))
    }

    /// Operators know by the kind of error that they may put something aside.
    fn refused(&self, refused: Refused) -> DataFusionError {
        match self.spills {
            true => DataFusionError::ResourcesExhausted(refused.to_string()),
            false => DataFusionError::from(SqlError::from(refused)),
        }
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.share)
    }
}

impl MemoryPool for Pool {
    fn name(&self) -> &str {
        self.share.name()
    }

    fn register(&self, consumer: &MemoryConsumer) {
        match Kind::of(consumer) {
            Kind::PutsAside => self.others.lock().spilling += 1,
            Kind::Merges => self.others.lock().merging += 1,
            Kind::Keeps => {}
        }
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        match Kind::of(consumer) {
            Kind::PutsAside => self.others.lock().spilling -= 1,
            Kind::Merges => self.others.lock().merging -= 1,
            Kind::Keeps => {}
        }
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.share.grow(additional);
        if Kind::of(reservation.consumer()) == Kind::Keeps {
            self.others.lock().kept += additional;
        }
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.share.shrink(shrink);
        if Kind::of(reservation.consumer()) == Kind::Keeps {
            self.others.lock().kept -= shrink;
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if additional == 0 {
            return Ok(());
        }
        let kind = Kind::of(reservation.consumer());
        let limit = self.fair_part(kind);
        // Who has nothing cannot do with less.
        if reservation.size() > 0 && reservation.size().saturating_add(additional) > limit {
            let (share, used) = (reservation.consumer().name().to_owned(), reservation.size());
            return Err(self.refused(Refused { share, asked: additional, used, limit }));
        }
        self.share.try_grow(additional).map_err(|refused| self.refused(refused))?;
        if kind == Kind::Keeps {
            self.others.lock().kept += additional;
        }
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.share.used()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.share.limit())
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
