//! A disk that fails when it is told to, and is looked at while it works.

use parking_lot::Mutex;
use persist::PersistError;
use persist::consensus::memory::MemoryConsensus;
use persist::consensus::{Consensus, Loaded, Txn};
use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::Arc;

/// What becomes of something that is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There is no room, and everybody knows.
    Full,
    /// It is not written, and nobody knows.
    Lost,
    /// It is written, and nobody knows.
    Kept,
    /// The process dies before it is written.
    DeathBefore,
    /// The process dies once it is written.
    DeathAfter,
}

/// With this a process unwinds that has died, or has ended itself.
pub(crate) struct Died;

/// See the module. Each clone is the same disk.
#[derive(Clone, Default)]
pub(crate) struct Disk {
    stored: MemoryConsensus,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// What becomes of the next transactions: none, or a fault.
    coming: VecDeque<Option<Fault>>,
    /// Reads that fail from now on.
    failing_reads: usize,
    fault_count: usize,
    /// Called while a transaction is on its way.
    watch: Option<Box<dyn Fn() + Send>>,
}

impl Disk {
    /// Another disk that begins with what is on this one, and has no faults to come.
    pub(crate) fn copy(&self) -> Disk {
        Disk { stored: self.stored.copy(), state: Arc::default() }
    }

    /// So many transactions from now there will be a fault.
    pub(crate) fn fail(&self, after: usize, fault: Fault) {
        let mut state = self.state.lock();
        state.coming = std::iter::repeat_n(None, after).chain([Some(fault)]).collect();
    }

    /// The next reads of what is in batches will fail.
    pub(crate) fn fail_reads(&self, count: usize) {
        self.state.lock().failing_reads = count;
    }

    /// What is read here does not fail.
    pub(crate) fn spare<T>(&self, read: impl FnOnce() -> T) -> T {
        let failing = std::mem::take(&mut self.state.lock().failing_reads);
        let done = read();
        self.state.lock().failing_reads = failing;
        done
    }

    /// There are no more faults to come.
    pub(crate) fn mend(&self) {
        let mut state = self.state.lock();
        (state.coming, state.failing_reads) = (VecDeque::new(), 0);
    }

    /// How many faults there have been.
    pub(crate) fn fault_count(&self) -> usize {
        self.state.lock().fault_count
    }

    /// Has this called while a transaction is on its way.
    pub(crate) fn watch(&self, look: impl Fn() + Send + 'static) {
        self.state.lock().watch = Some(Box::new(look));
    }

    /// Has nothing called any more.
    pub(crate) fn unwatch(&self) {
        self.state.lock().watch = None;
    }

    fn next(&self) -> Option<Fault> {
        let mut state = self.state.lock();
        if let Some(look) = &state.watch {
            look();
        }
        let fault = state.coming.pop_front().flatten();
        state.fault_count += usize::from(fault.is_some());
        fault
    }
}

impl Consensus for Disk {
    fn fence(&self) -> Result<u64, PersistError> {
        self.stored.fence()
    }

    fn load(&self) -> Result<Loaded, PersistError> {
        self.stored.load()
    }

    fn transact(&self, txn: &Txn<'_>) -> Result<(), PersistError> {
        let unknown = || PersistError::Indeterminate { context: "the simulation", source: "it is told so".into() };
        match self.next() {
            None => self.stored.transact(txn),
            Some(Fault::Full) => Err(PersistError::DiskFull { source: "it is told so".into() }),
            Some(Fault::Lost) => Err(unknown()),
            Some(Fault::Kept) => self.stored.transact(txn).and(Err(unknown())),
            Some(Fault::DeathBefore) => resume_unwind(Box::new(Died)),
            Some(Fault::DeathAfter) => {
                self.stored.transact(txn)?;
                resume_unwind(Box::new(Died))
            }
        }
    }

    fn payloads(&self, seqs: &[u64]) -> Result<Vec<Option<Vec<u8>>>, PersistError> {
        let mut state = self.state.lock();
        if let Some(left) = state.failing_reads.checked_sub(1) {
            (state.failing_reads, state.fault_count) = (left, state.fault_count + 1);
            return Err(PersistError::Determinate { context: "the simulation", source: "it is told so".into() });
        }
        self.stored.payloads(seqs)
    }

    fn meta_get(&self, key: &str) -> Result<Option<Vec<u8>>, PersistError> {
        self.stored.meta_get(key)
    }

    fn meta_scan(&self, prefix: &str, limit: usize) -> Result<Vec<(String, Vec<u8>)>, PersistError> {
        self.stored.meta_scan(prefix, limit)
    }

    fn maintain(&self) -> Result<(), PersistError> {
        self.stored.maintain()
    }
}
