//! How sessions ask the committer, and what they have in common with it.

use crate::constraint::LoadedKeys;
use crate::error::CommitError;
use crate::expectations::Expectation;
use crate::notes::{Name, Notes};
use crate::plans::Target;
use crate::request::{
    CatalogChange, Committed, DdlRequest, ProbeRequest, Probed, Request, SubscribeRequest, TableWrite, WriteRequest,
};
use crate::seat::Seat;
use crate::sequence::{Asked, Reply, Sequence};
use compute_client::index::IndexHandle;
use crossbeam_channel::{Receiver, Sender};
use engine::session::Position;
use ore::clock::Clock;
use ore::thread::{Beside, give_way};
use parking_lot::Mutex;
use persist::{Blobs, PersistClient, PersistError};
use repr::sqlstate::SqlState;
use repr::{GlobalId, Timestamp, Updates};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use timestamp_oracle::TimestampOracle;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, oneshot};

/// Requests that may wait for the committer: far more than one group.
const REQUESTS_MAX: usize = 16_384;

/// A write of more is not committed by the session itself.
const SMALL_UPDATES: usize = 1_000;

/// A handle on the committer; cheap to clone.
#[derive(Clone)]
pub struct Handle {
    requests: Sender<Request>,
    seat: Arc<Seat>,
    /// Told whenever time has come further.
    raised: Arc<Notify>,
    /// Dataflows of subscriptions that have ended.
    orphans: Arc<Mutex<Vec<GlobalId>>>,
    /// Set when a dataflow was stopped, or has published, of which the committer does not know.
    bell: Arc<AtomicBool>,
    persist: PersistClient,
    oracle: Arc<dyn TimestampOracle>,
    clock: Clock,
    /// Writes what is large before the committer has to.
    beside: Arc<dyn Beside>,
}

/// What the committer is asked for, for the committer.
pub struct Requests(pub(crate) Receiver<Request>);

/// Updates of a table that are being written before there is a commit.
pub struct Run {
    pieces: Arc<Vec<Updates>>,
    written: oneshot::Receiver<Result<Blobs, PersistError>>,
}

impl Run {
    /// The updates, and what was written of them.
    ///
    /// # Cancellation
    /// What is written goes.
    pub async fn written(self) -> Result<(Vec<Updates>, Blobs), CommitError> {
        let blobs = self.written.await.map_err(|_| not_done())??;
        let pieces = Arc::into_inner(self.pieces).ok_or_else(not_done)?;
        Ok((pieces, blobs))
    }
}

fn not_done() -> CommitError {
    CommitError::internal("what comes before a commit was not done")
}

impl Handle {
    /// A handle on a committer that will take the requests.
    pub fn new(
        persist: PersistClient,
        oracle: Arc<dyn TimestampOracle>,
        clock: Clock,
        beside: Arc<dyn Beside>,
    ) -> (Handle, Requests) {
        let (requests, taken) = crossbeam_channel::bounded(REQUESTS_MAX);
        let (seat, raised, orphans, bell) = (Arc::default(), Arc::default(), Arc::default(), Arc::default());
        (Handle { requests, seat, raised, orphans, bell, persist, oracle, clock, beside }, Requests(taken))
    }

    /// Commits writes and waits until they are visible.
    ///
    /// # Cancellation
    /// The write goes on when the future is dropped; only its answer is lost.
    pub fn commit(
        &self,
        writes: Vec<TableWrite>,
        expectations: Vec<Expectation>,
    ) -> impl Future<Output = Result<Committed, CommitError>> {
        self.commit_noted(writes, expectations, Notes::default())
    }

    /// The same with notes, which become durable together with the rows. If one is not as it is required, nothing is done
    /// ([`Committed::Repeated`]).
    ///
    /// # Cancellation
    /// As [`Handle::commit`].
    pub async fn commit_noted(
        &self,
        writes: Vec<TableWrite>,
        expectations: Vec<Expectation>,
        notes: Notes,
    ) -> Result<Committed, CommitError> {
        let writes = self.write_ahead(writes).await?;
        let is_small = writes.iter().map(|write| write.updates.len()).sum::<usize>() <= SMALL_UPDATES;
        let (reply, answer) = oneshot::channel();
        let write = Request::Write(WriteRequest { writes, expectations, notes, reply });
        // In company it is right as well, and tests have the committer's work done on all kinds of threads.
        let is_alone = ore::turns::is_alone() || ore::sometimes(10);
        let left = if is_small && is_alone { self.seat.commit_here(write, &self.requests) } else { Some(write) };
        if let Some(write) = left {
            self.send(write).await?;
        }
        answer.await.map_err(|_| stopping())?
    }

    /// The value of a note, if there is one that has not expired.
    ///
    /// # Cancellation
    /// Safe to drop.
    pub async fn note(&self, name: Name) -> Result<Option<Vec<u8>>, CommitError> {
        self.ask(|reply| Request::Note(name, reply)).await
    }

    /// Begins to write updates of a table beside, while more of them come.
    pub fn begin_run(&self, table: GlobalId, pieces: Vec<Updates>) -> Run {
        let (persist, pieces) = (self.persist.clone(), Arc::new(pieces));
        let run = Arc::clone(&pieces);
        let written = self.beside("write-ahead", async move { persist.write_run(table.into(), None, &run) });
        Run { pieces, written }
    }

    /// Works out which keys of its table a write is about, and looks them up, beside: what the committer finds of many keys by itself all
    /// others wait for.
    ///
    /// # Cancellation
    /// Safe to drop.
    pub async fn look_up_keys(&self, write: &mut TableWrite) -> Result<(), CommitError> {
        let Some(constraints) = write.checked.clone().filter(|checked| checked.all_counted().next().is_some()) else {
            return Ok(());
        };
        let Some(watch) = self.ask(|reply| Request::Watch(write.table, reply)).await? else { return Ok(()) };
        let updates = Arc::clone(&write.updates);
        let keys = self.beside("look-up-keys", async move { LoadedKeys::look_up(&constraints, &updates, watch).await });
        write.keys = Some(keys.await.map_err(|_| not_done())?);
        Ok(())
    }

    /// Writes what is large before the committer has to, beside.
    async fn write_ahead(&self, mut writes: Vec<TableWrite>) -> Result<Vec<TableWrite>, CommitError> {
        for write in &mut writes {
            if write.ahead.is_some() || !PersistClient::is_large(&write.updates) {
                continue;
            }
            let (persist, shard, updates) = (self.persist.clone(), write.table.into(), Arc::clone(&write.updates));
            let types = write.types.clone();
            let written =
                self.beside("write-ahead", async move { persist.write_ahead(shard, types.as_deref(), updates) });
            write.ahead = Some(written.await.map_err(|_| not_done())??);
        }
        Ok(writes)
    }

    /// Has something done on a thread that gives way.
    fn beside<T: Send + 'static>(
        &self,
        name: &str,
        work: impl Future<Output = T> + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (reply, done) = oneshot::channel();
        let job = async move {
            give_way();
            // A session that has gone does not want the answer.
            let _gone = reply.send(work.await);
        };
        self.beside.start(name.to_owned(), Box::pin(job));
        done
    }

    /// Which of these keys of a table, each of the constraint with the oid beside it, are taken.
    ///
    /// # Cancellation
    /// Safe to drop.
    pub async fn probe(&self, table: GlobalId, keys: Vec<(u32, Vec<u8>)>) -> Result<Probed, CommitError> {
        self.ask(|reply| Request::Probe(ProbeRequest { table, keys, reply })).await
    }

    /// Changes the catalog.
    ///
    /// # Cancellation
    /// The change goes on when the future is dropped; only its answer is lost.
    pub async fn change_catalog(&self, change: CatalogChange) -> Result<Committed, CommitError> {
        let change = CatalogChange { writes: self.write_ahead(change.writes).await?, ..change };
        self.ask(|reply| Request::Ddl(Box::new(DdlRequest { change, reply }))).await
    }

    /// Lets the read timestamp come to now, though nothing happened.
    ///
    /// # Cancellation
    /// Safe to drop.
    pub async fn tick(&self) -> Result<(), CommitError> {
        let now = self.clock.now_us();
        if self.oracle.known_ts() >= now {
            return Ok(());
        }
        self.tick_to(now).await
    }

    /// Waits until the committer is through with what it is at: what has gone from the stores is gone from the catalog then.
    ///
    /// # Cancellation
    /// Safe to drop.
    pub async fn settle(&self) -> Result<(), CommitError> {
        self.tick_to(Timestamp::MIN).await
    }

    /// Builds anew what was stopped for want of memory.
    ///
    /// # Cancellation
    /// It goes on when the future is dropped.
    pub async fn rebuild(&self, stopped: Vec<GlobalId>) -> Result<(), CommitError> {
        self.ask(|reply| Request::Rebuild(stopped, reply)).await
    }

    async fn tick_to(&self, at_least: Timestamp) -> Result<(), CommitError> {
        self.ask(|reply| Request::Tick(at_least, reply)).await
    }

    /// Asks, and waits for the answer.
    async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, CommitError>>) -> Request,
    ) -> Result<T, CommitError> {
        let (reply, answer) = oneshot::channel();
        self.send(request(reply)).await?;
        answer.await.map_err(|_| stopping())?
    }

    async fn send(&self, mut request: Request) -> Result<(), CommitError> {
        loop {
            match self.requests.try_send(request) {
                Ok(()) => return Ok(()),
                Err(crossbeam_channel::TrySendError::Disconnected(_)) => return Err(stopping()),
                Err(crossbeam_channel::TrySendError::Full(back)) => {
                    request = back;
                    // The channel holds far more than one group: a moment later there is room.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        }
    }

    /// Starts the dataflow that a subscription follows. Every relation that it reads is in `depends_on`, and the views through
    /// which: when one goes, so does the subscription.
    ///
    /// # Cancellation
    /// The dataflow goes with what it depends on.
    pub async fn subscribe(
        &self,
        target: Target,
        depends_on: Vec<GlobalId>,
        as_of: Timestamp,
    ) -> Result<Arc<IndexHandle>, CommitError> {
        self.ask(|reply| Request::Subscribe(Box::new(SubscribeRequest { target, depends_on, as_of, reply }))).await
    }

    /// Ends the dataflow of a subscription.
    pub fn unsubscribe(&self, dataflow: GlobalId) {
        self.orphans.lock().push(dataflow);
        // A committer with a full channel looks after its next group.
        drop(self.requests.try_send(Request::Progress));
    }

    /// Has values of a sequence reserved.
    ///
    /// # Cancellation
    /// They are reserved all the same.
    pub async fn reserve(&self, sequence: Arc<Sequence>, count: u64) -> Result<(), CommitError> {
        self.ask(|reply| Request::Reserve(Asked { sequence, count, reply: Reply::Task(reply) })).await
    }

    /// Has one value of a sequence reserved, and waits for it on this thread.
    pub fn reserve_here(&self, sequence: Arc<Sequence>) -> Result<(), CommitError> {
        self.ask_here(|reply| Request::Reserve(Asked { sequence, count: 1, reply }))
    }

    /// Lets a sequence stand elsewhere, unless another one has taken its place, and waits for it on this thread.
    pub fn set_sequence_here(&self, sequence: Arc<Sequence>, to: Position) -> Result<(), CommitError> {
        self.ask_here(|reply| Request::SetSequence { sequence, to, reply })
    }

    fn ask_here(&self, request: impl FnOnce(Reply) -> Request) -> Result<(), CommitError> {
        let (reply, answer) = crossbeam_channel::bounded(1);
        match self.requests.send(request(Reply::Thread(reply))) {
            Ok(()) => answer.recv().unwrap_or_else(|_| Err(stopping())),
            Err(_) => Err(stopping()),
        }
    }

    /// Waits until the oracle has come to this time.
    ///
    /// # Cancellation
    /// Safe to drop.
    pub async fn raised_to(&self, ts: Timestamp) {
        raised_to(&self.raised, || self.oracle.known_ts(), ts).await;
    }

    /// Completes when time has come further than it had at the call.
    pub fn raised(&self) -> Notified<'_> {
        self.raised.notified()
    }

    /// Lets the committer end, after what it has been asked for.
    pub fn stop(&self) {
        // A committer that has ended already cannot be asked to.
        let _ended = self.requests.send(Request::Stop);
    }

    /// Where the committer is.
    pub(crate) fn seat(&self) -> &Seat {
        &self.seat
    }

    /// Sends the committer something of its own; one that has stopped wants nothing any more.
    pub(crate) fn report(&self, request: Request) {
        let _gone = self.requests.send(request);
    }

    /// What tells the committer that there is something new to look at.
    pub(crate) fn ring(&self) -> impl Fn() + Send + Sync + 'static {
        let (requests, bell) = (self.requests.clone(), Arc::clone(&self.bell));
        move || {
            bell.store(true, Ordering::Release);
            // A committer with a full channel finds the bell after its next group.
            drop(requests.try_send(Request::Progress));
        }
    }

    /// Whether the bell was rung since it was asked last.
    pub(crate) fn was_rung(&self) -> bool {
        self.bell.swap(false, Ordering::AcqRel)
    }

    /// The dataflows of subscriptions that have ended since it was asked last.
    pub(crate) fn take_orphans(&self) -> Vec<GlobalId> {
        std::mem::take(&mut *self.orphans.lock())
    }

    /// Tells those who wait that time has come further.
    pub(crate) fn tell_raised(&self) {
        self.raised.notify_waiters();
    }
}

fn stopping() -> CommitError {
    CommitError::new(SqlState::ADMIN_SHUTDOWN, "terminating connection due to administrator command")
}

/// Waits until `known`, which is asked again after each notification, has come to `ts`.
async fn raised_to(raised: &Notify, known: impl Fn() -> Timestamp, ts: Timestamp) {
    loop {
        // Registered before it is asked: a time that comes in between is not missed.
        let next = raised.notified();
        tokio::pin!(next);
        next.as_mut().enable();
        if known() >= ts {
            return;
        }
        next.await;
    }
}

#[cfg(test)]
mod tests {
    use super::raised_to;
    use futures::FutureExt;
    use std::cell::Cell;
    use tokio::sync::Notify;

    #[tokio::test]
    async fn a_time_is_waited_for_until_it_has_come_and_no_longer() {
        let (raised, known) = (Notify::new(), Cell::new(5));
        assert!(raised_to(&raised, || known.get(), 5).now_or_never().is_some(), "it has come");
        let mut later = std::pin::pin!(raised_to(&raised, || known.get(), 7));
        for time in [5, 6] {
            known.set(time);
            raised.notify_waiters();
            assert!(later.as_mut().now_or_never().is_none(), "7 has not come at {time}");
        }
        known.set(7);
        raised.notify_waiters();
        assert!(later.now_or_never().is_some(), "7 has come");
    }
}
