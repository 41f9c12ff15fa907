//! A timeline in memory whose calls take as long as those to a store that is far away: for tests.

use std::time::Duration;

use parking_lot::Mutex;
use rand::Rng;
use repr::Timestamp;

use crate::OracleError;
use crate::timeline::{Owner, Timeline};

/// How often a task steps back while it waits for an answer, at the most.
const ROUND_TRIP_YIELDS_MAX: u32 = 300;

/// See the module.
pub(crate) struct MemoryTimeline(Mutex<Row>);

struct Row {
    read_ts: Timestamp,
    write_ts: Timestamp,
    owner: Owner,
}

impl Default for MemoryTimeline {
    fn default() -> MemoryTimeline {
        let owner = Owner { epoch: 0, beat: 0, term: Duration::ZERO, name: String::new() };
        MemoryTimeline(Mutex::new(Row { read_ts: 0, write_ts: 0, owner }))
    }
}

impl MemoryTimeline {
    /// Does something under an epoch; the answer takes its time to come back.
    async fn under<T>(&self, epoch: u64, f: impl FnOnce(&mut Row) -> T) -> Result<T, OracleError> {
        let result = {
            let mut row = self.0.lock();
            match row.owner.epoch == epoch {
                true => Ok(f(&mut row)),
                false => Err(OracleError::Fenced { by: row.owner.name.clone() }),
            }
        };
        // Not a timer: those that end together would keep all callers in step.
        let yields = rand::rng().random_range(0..ROUND_TRIP_YIELDS_MAX);
        for _ in 0..yields {
            tokio::task::yield_now().await;
        }
        result
    }

    fn take_now(&self, seen: &Owner, term: Duration, name: &str) -> Option<u64> {
        let mut row = self.0.lock();
        (row.owner == *seen).then(|| {
            row.owner = Owner { epoch: seen.epoch + 1, beat: 0, term, name: name.to_owned() };
            row.owner.epoch
        })
    }
}

impl Timeline for MemoryTimeline {
    async fn prepare(&self) -> Result<(), OracleError> {
        std::future::ready(Ok(())).await
    }

    async fn owner(&self) -> Result<Owner, OracleError> {
        let owner = self.0.lock().owner.clone();
        std::future::ready(Ok(owner)).await
    }

    async fn take(&self, seen: &Owner, term: Duration, name: &str) -> Result<Option<u64>, OracleError> {
        let taken = self.take_now(seen, term, name);
        std::future::ready(Ok(taken)).await
    }

    async fn beat(&self, epoch: u64) -> Result<(), OracleError> {
        self.under(epoch, |row| row.owner.beat += 1).await
    }

    async fn release(&self, epoch: u64) -> Result<(), OracleError> {
        let release = |row: &mut Row| {
            row.owner.beat += 1;
            row.owner.term = Duration::ZERO;
        };
        self.under(epoch, release).await
    }

    async fn read_ts(&self, epoch: u64) -> Result<Timestamp, OracleError> {
        self.under(epoch, |row| row.read_ts).await
    }

    async fn write_ts(&self, epoch: u64, now_us: u64, ahead_us_max: u64) -> Result<Timestamp, OracleError> {
        let next = |row: &mut Row| {
            let next = now_us.max(row.write_ts + 1);
            if next > now_us.saturating_add(ahead_us_max) {
                return Err(OracleError::AheadOfClock { ahead_us: next - now_us, bound_us: ahead_us_max });
            }
            row.write_ts = next;
            Ok(next)
        };
        self.under(epoch, next).await?
    }

    async fn apply_write(&self, epoch: u64, ts: Timestamp) -> Result<(), OracleError> {
        let apply = |row: &mut Row| {
            row.read_ts = row.read_ts.max(ts);
            row.write_ts = row.write_ts.max(ts);
        };
        self.under(epoch, apply).await
    }
}
