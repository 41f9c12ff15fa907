//! The account of memory: a tree of shares in bytes, each with what it may have and what it has.
//!
//! Whoever allocates much (a batch of rows, a build side, what a function makes of its input) asks a [`Share`] first, and is
//! refused where the share, or one above it, would get more than it may have: a refusal ends a statement, never the server.
//!
//! The account knows what was asked for, not what the allocator holds. So the root may have a *gauge*, the allocator's own figure,
//! which whoever asks for much looks at, once per 4 MiB that were asked for: memory that nobody accounted for counts as well.
//!
//! Ask in steps of [`STEP`] or more, and never on a path that is measured in microseconds.
//!
//! # Invariants
//! * What a share has is what its children and its own reservations have together.
//! * [`Share::try_grow`] that fails has changed nothing.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes that are worth asking for.
pub const STEP: usize = 64 << 10;
/// Bytes from which on the gauge is looked at.
const GAUGED: usize = 1 << 20;
/// Bytes that are asked for before it is looked at again, which takes some dozens of microseconds.
const GAUGED_EVERY: usize = 4 << 20;

/// What a process uses by the figure of its allocator, in bytes. It is told how much there may be, and may see to it that what nobody
/// uses is not there either.
pub type Gauge = Box<dyn Fn(usize) -> usize + Send + Sync>;

/// Gives up at least so many bytes of what can be had again, or all there are; returns how many.
pub type GiveUp = Box<dyn Fn(usize) -> usize + Send + Sync>;

/// A part of the memory.
pub struct Share {
    name: String,
    parent: Option<Arc<Share>>,
    used: AtomicUsize,
    limit: usize,
    /// With the bytes that were asked for since it was looked at.
    gauge: Option<(Gauge, AtomicUsize)>,
    /// Of the root: what comes after everything else.
    give_up: OnceLock<GiveUp>,
}

/// Why memory was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{asked} bytes were asked for where {share} has {used} of {limit}")]
pub struct Refused {
    /// The share that has no more.
    pub share: String,
    /// How many bytes were asked for.
    pub asked: usize,
    /// What the share has.
    pub used: usize,
    /// What it may have.
    pub limit: usize,
}

impl Share {
    /// All of a process's memory. The gauge, if there is one, says what of it is in use, accounted for or not.
    pub fn root(limit: usize, gauge: Option<Gauge>) -> Arc<Share> {
        Arc::new(Share::new("the server", None, limit, gauge))
    }

    /// A part of this share that may have at most `limit` bytes of it.
    pub fn child(self: &Arc<Share>, name: impl Into<String>, limit: usize) -> Arc<Share> {
        Arc::new(Share::new(name, Some(Arc::clone(self)), limit, None))
    }

    fn new(name: impl Into<String>, parent: Option<Arc<Share>>, limit: usize, gauge: Option<Gauge>) -> Share {
        let gauge = gauge.map(|gauge| (gauge, AtomicUsize::new(0)));
        Share { name: name.into(), parent, used: AtomicUsize::new(0), limit, gauge, give_up: OnceLock::new() }
    }

    /// Before the whole of which this is a part refuses memory, this is given up. Once for all: later ones are not asked.
    pub fn give_up_by(&self, give_up: GiveUp) {
        match &self.parent {
            Some(parent) => parent.give_up_by(give_up),
            // Who comes second is not asked.
            None => drop(self.give_up.set(give_up)),
        }
    }

    /// What it is called in errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The bytes that it has.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// The bytes that it may have.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// The bytes that it may have if nobody else has any: the least limit of it and those above it.
    pub fn least_limit(&self) -> usize {
        self.parent.as_ref().map_or(self.limit, |parent| parent.least_limit().min(self.limit))
    }

    /// Takes so many bytes more, of this share and those above it.
    pub fn try_grow(&self, bytes: usize) -> Result<(), Refused> {
        self.take_within(bytes, self.limit)?;
        let above = self.parent.as_ref().map_or(Ok(()), |parent| parent.try_grow(bytes));
        above.inspect_err(|_| self.give_back(bytes))
    }

    /// The same of what cannot be asked for again: it comes before what can. Of the whole it is taken although others have it, up to an
    /// eighth beyond; these are refused more until there is room again.
    pub fn try_grow_first(&self, bytes: usize) -> Result<(), Refused> {
        let Some(parent) = &self.parent else {
            return self.take_within(bytes, self.limit.saturating_add(self.limit / 8));
        };
        self.take_within(bytes, self.limit)?;
        parent.try_grow_first(bytes).inspect_err(|_| self.give_back(bytes))
    }

    /// Takes so many bytes more if nothing has to be given up for them.
    pub fn try_grow_last(&self, bytes: usize) -> Result<(), Refused> {
        self.take_what_is_left(bytes, self.limit)?;
        let above = self.parent.as_ref().map_or(Ok(()), |parent| parent.try_grow_last(bytes));
        above.inspect_err(|_| self.give_back(bytes))
    }

    /// Takes so many bytes more, whether there is room or not: for what is allocated already.
    pub fn grow(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        if let Some(parent) = &self.parent {
            parent.grow(bytes);
        }
    }

    /// Gives back what was taken.
    pub fn shrink(&self, bytes: usize) {
        self.give_back(bytes);
        if let Some(parent) = &self.parent {
            parent.shrink(bytes);
        }
    }

    fn take_within(&self, bytes: usize, limit: usize) -> Result<(), Refused> {
        loop {
            match (self.take_what_is_left(bytes, limit), self.give_up.get()) {
                // Others may take what is given up, and there may be more out than there is.
                (Err(refused), Some(give_up))
                    if give_up(bytes.max((refused.used + bytes).saturating_sub(limit))) == 0 =>
                {
                    return Err(refused);
                }
                (Err(_), Some(_)) => {}
                (taken, _) => return taken,
            }
        }
    }

    fn take_what_is_left(&self, bytes: usize, limit: usize) -> Result<(), Refused> {
        let refused = |used| Refused { share: self.name.clone(), asked: bytes, used, limit };
        if let Some((gauge, since)) = &self.gauge
            && since.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) >= GAUGED_EVERY
            && bytes >= GAUGED
        {
            since.store(0, Ordering::Relaxed);
            let used = gauge(limit.saturating_sub(bytes));
            let is_refused = used.saturating_add(bytes) > limit;
            // Who may have less than this one, or asks after it was refused, looks again.
            if is_refused || limit > self.limit {
                since.store(GAUGED_EVERY, Ordering::Relaxed);
            }
            if is_refused {
                return Err(refused(used));
            }
        }
        let grown = |used: usize| used.checked_add(bytes).filter(|used| *used <= limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).map(drop).map_err(refused)
    }

    fn give_back(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "{} gives back {bytes} bytes of {before}", self.name);
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} of {} bytes)", self.name, self.used(), self.limit())
    }
}

/// Bytes of a share that are given back when this goes away.
#[derive(Debug)]
pub struct Reservation {
    share: Arc<Share>,
    bytes: usize,
}

impl Reservation {
    /// None yet.
    pub fn empty(share: &Arc<Share>) -> Reservation {
        Reservation { share: Arc::clone(share), bytes: 0 }
    }

    /// So many bytes that are allocated already.
    pub fn of(share: &Arc<Share>, bytes: usize) -> Reservation {
        share.grow(bytes);
        Reservation { share: Arc::clone(share), bytes }
    }

    /// How many there are.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes so many more.
    pub fn try_grow(&mut self, bytes: usize) -> Result<(), Refused> {
        self.share.try_grow(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// The same before others ([`Share::try_grow_first`]).
    pub fn try_grow_first(&mut self, bytes: usize) -> Result<(), Refused> {
        self.share.try_grow_first(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// The same if nothing has to be given up for it ([`Share::try_grow_last`]).
    pub fn try_grow_last(&mut self, bytes: usize) -> Result<(), Refused> {
        self.share.try_grow_last(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Has at least so many afterwards; asks for [`STEP`] more than that, so that it rarely has to ask.
    pub fn cover(&mut self, bytes: usize) -> Result<(), Refused> {
        if bytes <= self.bytes {
            return Ok(());
        }
        self.try_grow(bytes - self.bytes + STEP)
    }

    /// Has so many afterwards, whether there is room or not.
    pub fn resize(&mut self, bytes: usize) {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.share.grow(more),
            None => self.share.shrink(self.bytes - bytes),
        }
        self.bytes = bytes;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.share.shrink(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::{Reservation, STEP, Share};
    use std::sync::Arc;

    #[test]
    fn a_share_has_no_more_than_it_may_and_no_more_than_those_above() {
        let root = Share::root(100, None);
        let (left, right) = (root.child("left", 80), root.child("right", 80));
        left.try_grow(70).expect("there is room");
        let refused = left.try_grow(11).expect_err("left has no room");
        assert_eq!((refused.share.as_str(), refused.used, refused.limit), ("left", 70, 80));
        let refused = right.try_grow(31).expect_err("all have no room");
        assert_eq!((refused.share.as_str(), refused.used, refused.limit), ("the server", 70, 100));
        assert_eq!((root.used(), right.used()), (70, 0), "what was refused is not taken anywhere");
        right.try_grow(30).expect("there is room");
        left.shrink(70);
        assert_eq!((root.used(), left.used(), right.used()), (30, 0, 30));
    }

    #[test]
    fn what_cannot_be_asked_for_again_comes_first() {
        let root = Share::root(80, None);
        let (statements, dataflows) = (root.child("statements", 80), root.child("dataflows", 60));
        statements.try_grow(70).expect("there is room");
        dataflows.try_grow_first(20).expect("of the whole there is an eighth more for it");
        assert!(dataflows.try_grow_first(1).is_err() && statements.try_grow(1).is_err());
        statements.shrink(70);
        assert_eq!(
            (dataflows.try_grow_first(41).map_err(|refused| refused.share), root.used()),
            (Err("dataflows".to_owned()), 20)
        );
        dataflows.try_grow_first(40).expect("it may have so much");
    }

    #[test]
    fn a_reservation_gives_back_what_it_has() {
        let root = Share::root(10 * STEP, None);
        {
            let mut reservation = Reservation::empty(&root);
            reservation.cover(1).expect("there is room");
            assert_eq!(root.used(), STEP + 1);
            reservation.cover(STEP).expect("nothing has to be asked for");
            assert_eq!(root.used(), STEP + 1);
            assert!(reservation.cover(10 * STEP).is_err());
            reservation.resize(11 * STEP);
            assert_eq!(root.used(), 11 * STEP, "what is there already is not refused");
            reservation.resize(5);
            assert_eq!(root.used(), 5);
        }
        assert_eq!(root.used(), 0);
    }

    #[test]
    fn what_can_be_had_again_is_given_up_before_anything_is_refused() {
        let root = Share::root(100, None);
        let (cache, statements) = (root.child("cache", 80), root.child("statements", 90));
        let gives = Arc::clone(&cache);
        cache.give_up_by(Box::new(move |bytes| {
            let given_up = bytes.min(gives.used());
            gives.shrink(given_up);
            given_up
        }));
        cache.try_grow(70).expect("there is room");
        statements.try_grow(60).expect("there is room when the cache gives up its own");
        assert_eq!((cache.used(), statements.used(), root.used()), (10, 60, 70));
        let refused = statements.try_grow(31).expect_err("its own limit is what it is");
        assert_eq!((refused.share.as_str(), cache.used()), ("statements", 10));
        statements.try_grow(30).expect("there is room");
        assert!(cache.try_grow_last(1).is_err() && cache.used() == 10, "what comes last takes nothing from others");
        assert!(root.try_grow(10).is_ok() && root.try_grow(1).is_err(), "all is given up");
    }

    #[test]
    fn what_nobody_accounted_for_counts_where_much_is_asked_for() {
        let root = Share::root(10 << 20, Some(Box::new(|_| 9 << 20)));
        root.try_grow(1 << 20).expect("there is room");
        root.try_grow((2 << 20) - 1).expect("it was not looked at");
        assert!(root.try_grow((1 << 20) + 1).is_err(), "together they are much");
        assert!(root.try_grow((1 << 20) + 1).is_err(), "what was refused is looked at again");
        root.try_grow(STEP).expect("the gauge is for much");
        root.try_grow(1 << 20).expect("there is room for so much");
        root.try_grow(2 << 20).expect("nothing was asked for since");
    }
}
