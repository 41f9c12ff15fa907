//! SUBSCRIBE: what a query's answer is, and then every change of it.
//!
//! 1. A relation with an index is followed through the index; for anything else the committer starts a dataflow that lives
//!    as long as the subscription.
//! 2. The contents as of the first time come first, then the changes in order, each time whole, as Arrow batches: so they go
//!    to the client, into a cursor or through COPY as any rows do.
//! 3. A change is given when the oracle has reached its time: no other session can then read an older state.
//!
//! A client that does not read makes its connection stop pulling; what is published meanwhile waits in the tail's queue
//! up to [`QUEUE_BYTES_MAX`], and beyond that the subscription ends with an error.

mod lines;

use crate::error::AdapterError;
use crate::reading::subscribe::lines::Lines;
use crate::response::Rows;
use crate::session::Session;
use crate::shared::Shared;
use crate::status::Status;
use arrow::array::RecordBatch;
use committer::plans::Target;
use compute_client::error::{ComputeError, decode_error};
use compute_client::index::IndexHandle;
use compute_client::peek::Bound;
use compute_client::plan::lower::lower;
use compute_client::tail::{At, Contents, Tail};
use datafusion::error::DataFusionError;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use repr::{Datum, GlobalId, Timestamp, Updates};
use sql::plan::privileges::{Right, check_rights};
use sql::plan::{EnvelopePlan, ReadPlan, SubscribePlan, TimePlan};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// What may wait for a client that does not read.
const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Lines of a batch.
const BATCH_LINES: usize = 4_096;
/// How often a subscription that tells its progress looks at the clock.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

impl Session {
    /// Starts a SUBSCRIBE.
    pub(crate) async fn subscribe(&mut self, plan: &ReadPlan, subscribe: &SubscribePlan) -> Result<Rows, AdapterError> {
        if self.reads_own_writes(&plan.select.depends_on) {
            let message = "SUBSCRIBE to what the transaction has written is not supported";
            return Err(AdapterError::with_hint(SqlState::FEATURE_NOT_SUPPORTED, message, "Commit first."));
        }
        let as_of = match &subscribe.as_of {
            Some(time) => self.given_time(time, &plan.select.depends_on).await?,
            None => self.read_ts_for(&plan.select.depends_on).await?,
        };
        let up_to = subscribe.up_to.as_ref().map(|time| self.time(time)).transpose()?;
        let hold = self.shared.holds.acquire(as_of);
        let (handle, dataflow) = match self.followed(subscribe) {
            Some(handle) => (handle, None),
            None => {
                let (handle, dataflow) = self.transient(plan, as_of).await?;
                (handle, Some(dataflow))
            }
        };
        let (contents, tail) = Tail::since(handle, as_of, QUEUE_BYTES_MAX).await.map_err(|error| ended(&error))?;
        drop(hold);
        let lines = Lines::new(plan, subscribe)?;
        let upper = as_of + 1;
        let mut following = Following {
            shared: Arc::clone(&self.shared),
            tail,
            contents: None,
            lines,
            is_progressing: subscribe.progress,
            rights: plan.select.rights.clone(),
            // Of what happened since it was planned, nothing is known.
            revision: u64::MAX,
            waiting: BTreeMap::new(),
            upper,
            told: upper,
            up_to,
            is_over: up_to.is_some_and(|up_to| up_to <= as_of),
            batches: VecDeque::new(),
            _dataflow: dataflow,
        };
        if subscribe.progress && !following.is_over {
            following.lines.progress(as_of);
        }
        if subscribe.snapshot {
            following.contents = Some((as_of, contents));
        } else if let Some(error) = contents.first_error() {
            return Err(error.into());
        }
        let schema = Arc::clone(&plan.desc.schema);
        let batches = futures::stream::try_unfold(following, |mut following| async move {
            let batch = following.next().await.map_err(|error| {
                DataFusionError::External(Box::new(SqlError::new(error.sqlstate(), error.to_string())))
            })?;
            Ok(batch.map(|batch| (batch, following)))
        });
        let stream = Box::pin(RecordBatchStreamAdapter::new(schema, batches));
        Ok(Rows::live(stream, self.interrupt_without_timeout()))
    }

    /// An index that has all that is followed.
    fn followed(&self, subscribe: &SubscribePlan) -> Option<Arc<IndexHandle>> {
        let published = self.shared.published.load();
        let indexes = published.indexes_on(subscribe.object?);
        let is_readable = |handle: &IndexHandle| handle.is_hydrated() && handle.check().is_ok();
        indexes.iter().map(|index| &index.handle).find(|handle| is_readable(handle)).cloned()
    }

    /// A dataflow of the subscription's own.
    async fn transient(
        &mut self,
        plan: &ReadPlan,
        as_of: Timestamp,
    ) -> Result<(Arc<IndexHandle>, Dataflow), AdapterError> {
        let lir = lower(&plan.select.logical, &self.shared.engine)?;
        let target = Target { plan: lir, cluster: self.settings.vars.cluster().to_owned() };
        let handle = self.shared.committer.subscribe(target, plan.select.depends_on.clone(), as_of).await?;
        let dataflow = Dataflow { id: handle.id, shared: Arc::clone(&self.shared) };
        Ok((handle, dataflow))
    }

    /// The time that AS OF gives, which must be readable.
    pub(crate) async fn given_time(
        &mut self,
        time: &TimePlan,
        collections: &[GlobalId],
    ) -> Result<Timestamp, AdapterError> {
        if self.transaction.status != Status::Idle {
            let message = "AS OF in a transaction block is not supported";
            let hint = "A transaction reads everything as of its first read.";
            return Err(AdapterError::with_hint(SqlState::FEATURE_NOT_SUPPORTED, message, hint));
        }
        let given = self.time(time)?;
        let (since, upper) = (self.since_of(collections), self.now().await?.saturating_add(1));
        let as_of = if time.at_least { given.max(since) } else { given };
        if as_of < since || as_of >= upper {
            return Err(AdapterError::with_detail(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("timestamp {given} is not readable"),
                format!("What is read is readable in [{since}, {upper})."),
            ));
        }
        Ok(as_of)
    }

    fn time(&self, time: &TimePlan) -> Result<Timestamp, AdapterError> {
        let info = self.info(self.shared.oracle.known_ts());
        let micros = match self.evaluate_constant(&time.at, Bound::none(), &info)? {
            Datum::Int8(micros) | Datum::Timestamp(micros) => Timestamp::try_from(micros).ok(),
            _ => None,
        };
        let message = "a time must be a number of microseconds since the epoch or a timestamp after it";
        micros.ok_or_else(|| AdapterError::new(SqlState::INVALID_PARAMETER_VALUE, message))
    }

    /// From which time on all of these are readable.
    fn since_of(&self, collections: &[GlobalId]) -> Timestamp {
        let published = self.shared.published.load();
        let since = |id: &GlobalId| {
            let indexes = published.indexes_on(*id).iter().filter(|index| index.handle.is_hydrated());
            // Indexes are preferred to the shard by whoever reads.
            let of_indexes = indexes.map(|index| index.handle.since()).max();
            of_indexes.or_else(|| self.shared.persist.shard_stats((*id).into()).map(|stats| stats.since))
        };
        collections.iter().filter_map(since).max().unwrap_or(0)
    }
}

/// The dataflow of a subscription; it ends when this is dropped.
struct Dataflow {
    id: GlobalId,
    shared: Arc<Shared>,
}

impl Drop for Dataflow {
    fn drop(&mut self) {
        self.shared.committer.unsubscribe(self.id);
    }
}

fn ended(error: &ComputeError) -> AdapterError {
    match error {
        ComputeError::Dropped(_) => AdapterError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            "subscribe has been terminated because what it follows was dropped",
        ),
        error => error.clone().into(),
    }
}

/// A subscription in progress.
struct Following {
    shared: Arc<Shared>,
    tail: Tail,
    /// What is there as of the first time, until all of it was given.
    contents: Option<(Timestamp, Contents)>,
    lines: Lines,
    is_progressing: bool,
    /// What is read under whose rights, and the revision of the catalog under which these were there.
    rights: Vec<Right>,
    revision: u64,
    /// Changes whose time has not come.
    waiting: BTreeMap<Timestamp, At>,
    /// Everything below is in `waiting` or was given.
    upper: Timestamp,
    /// Everything below was given.
    told: Timestamp,
    up_to: Option<Timestamp>,
    is_over: bool,
    batches: VecDeque<RecordBatch>,
    _dataflow: Option<Dataflow>,
}

impl Following {
    /// The next lines; `None` at the end.
    ///
    /// # Cancellation
    /// Safe to drop: nothing is taken before it is returned.
    async fn next(&mut self) -> Result<Option<RecordBatch>, AdapterError> {
        loop {
            if let Some(batch) = self.batches.pop_front() {
                return Ok(Some(batch));
            }
            if self.is_over {
                return Ok(None);
            }
            if self.contents.is_some() {
                self.start()?;
                continue;
            }
            // Registered before the oracle is asked: a time that comes in between is not missed.
            let shared = Arc::clone(&self.shared);
            let raised = shared.committer.raised();
            tokio::pin!(raised);
            raised.as_mut().enable();
            self.advance()?;
            if self.batches.is_empty() && !self.is_over {
                let clock = self.next_look();
                tokio::select! {
                    () = self.tail.wait() => {}
                    () = &mut raised => {}
                    () = clock => shared.committer.tick().await?,
                }
            }
        }
    }

    /// Gives some of what was there at first.
    fn start(&mut self) -> Result<(), AdapterError> {
        let Some((as_of, contents)) = &mut self.contents else { return Ok(()) };
        let as_of = *as_of;
        if let Some(error) = contents.first_error() {
            return Err(error.into());
        }
        let is_streamed = matches!(self.lines.envelope, EnvelopePlan::Diff);
        let mut rows = Updates::new();
        while let Some(more) = contents.next_rows(BATCH_LINES) {
            if is_streamed {
                self.lines.rows(as_of, &more)?;
                self.lines.flush(&mut self.batches, false)?;
                return Ok(());
            }
            rows.extend(&more);
        }
        self.contents = None;
        self.lines.rows(as_of, &rows)?;
        if self.is_progressing {
            self.lines.progress(as_of + 1);
        }
        self.lines.flush(&mut self.batches, true)
    }

    /// Ends with 42501 once somebody has taken a right away that it needs. Nothing that happened after that is given.
    fn check_rights(&mut self) -> Result<(), AdapterError> {
        let published = self.shared.published.load();
        let revision = published.state.revision();
        if std::mem::replace(&mut self.revision, revision) != revision {
            check_rights(published.state.as_ref(), &self.rights)?;
        }
        Ok(())
    }

    /// Gives what has happened.
    fn advance(&mut self) -> Result<(), AdapterError> {
        let read_ts = self.shared.oracle.known_ts();
        while let Some(changes) = self.tail.take().map_err(|error| ended(&error))? {
            self.upper = changes.upper;
            self.waiting.extend(changes.at);
        }
        // After the time was taken, so that what is given does not come after what took the right away.
        self.check_rights()?;
        // Nothing that the oracle has reached is outstanding if all of it was published.
        let known = if self.tail.is_complete(read_ts) { read_ts + 1 } else { self.upper.min(read_ts + 1) };
        let limit = self.up_to.map_or(known, |up_to| known.min(up_to));
        let later = self.waiting.split_off(&limit);
        for (ts, at) in std::mem::replace(&mut self.waiting, later) {
            if let Some((error, _)) = at.errs.iter().find(|(_, diff)| *diff > 0) {
                return Err(decode_error(error).into());
            }
            self.lines.rows(ts, &at.oks)?;
        }
        if self.is_progressing && limit > self.told {
            self.lines.progress(limit);
        }
        self.told = self.told.max(limit);
        self.is_over = self.up_to.is_some_and(|up_to| limit >= up_to);
        self.lines.flush(&mut self.batches, true)
    }

    /// Completes when the clock is to be looked at although nothing happens.
    fn next_look(&self) -> impl Future<Output = ()> + use<> {
        let now = self.shared.clock.now_us();
        let until = |ts: Timestamp| Duration::from_micros(ts.saturating_sub(now).max(1_000));
        let look = match (self.up_to.map(until), self.is_progressing) {
            (Some(end), true) => Some(end.min(PROGRESS_EVERY)),
            (Some(end), false) => Some(end),
            (None, true) => Some(PROGRESS_EVERY),
            (None, false) => None,
        };
        async move {
            match look {
                Some(look) => tokio::time::sleep(look).await,
                None => std::future::pending().await,
            }
        }
    }
}
