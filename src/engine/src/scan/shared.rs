//! One reading of a collection, shared by the partitions of its scan.
//!
//! A plan may be run again while it lives, and each run is a reading of its own: the partitions that begin for the n-th time have the
//! n-th one in common.

use crate::morsels::Morsels;
use datafusion::common::Result;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A reading that several take from.
pub(super) type Reading = Arc<Mutex<Box<dyn Morsels>>>;

/// The readings of a scan.
pub(super) struct Readings {
    state: Mutex<State>,
}

struct State {
    /// How often each partition has begun.
    begun: Vec<usize>,
    /// The readings that some partitions are still to join, and how many of them.
    open: BTreeMap<usize, (Reading, usize)>,
}

impl Readings {
    /// Of a scan with so many partitions.
    pub(super) fn new(partitions: usize) -> Readings {
        Readings { state: Mutex::new(State { begun: vec![0; partitions], open: BTreeMap::new() }) }
    }

    /// The reading of a partition that begins; the first of its partitions begins the reading.
    pub(super) fn join(&self, partition: usize, begin: impl FnOnce() -> Result<Box<dyn Morsels>>) -> Result<Reading> {
        let mut state = self.state.lock();
        let State { begun, open } = &mut *state;
        let (run, partitions) = (begun[partition], begun.len());
        let (reading, missing) = match open.remove(&run) {
            Some(of_others) => of_others,
            None => (Arc::new(Mutex::new(begin()?)), partitions),
        };
        begun[partition] += 1;
        if missing > 1 {
            open.insert(run, (Arc::clone(&reading), missing - 1));
        }
        Ok(reading)
    }
}

impl fmt::Debug for Readings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Readings")
    }
}
