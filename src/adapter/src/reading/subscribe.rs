//! SUBSCRIBE: what a query's answer is, and then every change of it.
//!
//! 1. A relation with an index is followed through the index; for anything else the committer starts a dataflow. Who follows the same
//!    in the same form follows it together ([`stream`]), and the dataflow ends after the last of them.
//! 2. The contents as of the first time come first, then the changes in order, each time whole, as Arrow batches: so they go
//!    to the client, into a cursor or through COPY as any rows do.
//! 3. A change is given when the oracle has reached its time: no other session can then read an older state.
//!
//! A client that does not read makes its connection stop pulling; what happens meanwhile waits in the stream's history as far as there is
//! room, and beyond that the subscription ends with an error. One that breaks off goes on from the history
//! (`WITH (SNAPSHOT = false) AS OF` the last time that it has seen) as long as `subscribe_history` says.

mod lines;
pub(crate) mod stream;

use crate::error::AdapterError;
use crate::reading::subscribe::lines::Lines;
use crate::reading::subscribe::stream::{Dataflow, Followed, Follower, Started, Stream, Subject};
use crate::response::Rows;
use crate::session::Session;
use crate::shared::Shared;
use crate::status::Status;
use arrow::array::RecordBatch;
use committer::plans::Target;
use compute_client::error::ComputeError;
use compute_client::index::IndexHandle;
use compute_client::peek::Bound;
use compute_client::plan::lower::lower;
use compute_client::tail::{Contents, Tail};
use datafusion::error::DataFusionError;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use repr::{Datum, GlobalId, Timestamp, Updates};
use sql::plan::privileges::{Right, check_rights};
use sql::plan::{EnvelopePlan, ReadPlan, SubscribePlan, TimePlan};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The longest `subscribe_history`.
const KEEP_MAX: Duration = Duration::from_secs(3600);
/// What may wait for a stream's task.
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
        if self.transaction.is_once {
            let message = "SUBSCRIBE has no end, and cannot be carried out once";
            return Err(AdapterError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let keep = self.settings.vars.subscribe_history().unwrap_or_default();
        if keep > KEEP_MAX {
            let message = format!("subscribe_history is {} s at most", KEEP_MAX.as_secs());
            return Err(AdapterError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        let up_to = subscribe.up_to.as_ref().map(|time| self.time(time)).transpose()?;
        let Begun { as_of, contents, follower } = loop {
            if let Some(begun) = self.begin_to_follow(plan, subscribe, keep).await? {
                break begun;
            }
        };
        let upper = as_of + 1;
        let mut following = Following {
            shared: Arc::clone(&self.shared),
            follower,
            contents: None,
            lines: Lines::new(plan, subscribe)?,
            is_progressing: subscribe.progress,
            rights: plan.select.rights.clone(),
            // Of what happened since it was planned, nothing is known.
            revision: u64::MAX,
            told: upper,
            up_to,
            is_over: up_to.is_some_and(|up_to| up_to <= as_of),
            batches: VecDeque::new(),
            given: Arc::new(AtomicU64::new(0)),
        };
        if subscribe.progress && !following.is_over {
            following.lines.progress(as_of);
            // Before what a stream has told already.
            following.lines.flush(&mut following.batches, true)?;
        }
        match contents {
            Some(contents) if subscribe.snapshot => following.contents = Some((as_of, contents)),
            Some(contents) => contents.first_error().map_or(Ok(()), Err)?,
            None => {}
        }
        if !following.is_over {
            following.start()?;
            following.note_given();
        }
        let given = Arc::clone(&following.given);
        let schema = Arc::clone(&plan.desc.schema);
        let batches = futures::stream::try_unfold(following, |mut following| async move {
            let batch = following.next().await.map_err(|error| {
                DataFusionError::External(Box::new(SqlError::new(error.sqlstate(), error.to_string())))
            })?;
            Ok(batch.map(|batch| (batch, following)))
        });
        let stream = Box::pin(RecordBatchStreamAdapter::new(schema, batches));
        Ok(Rows::live(stream, given, self.interrupt_without_timeout()))
    }

    /// Begins to follow, together with whoever follows the same; `None` if that is to be tried again, because in this moment they have
    /// stopped, or what was wanted was forgotten.
    async fn begin_to_follow(
        &mut self,
        plan: &ReadPlan,
        subscribe: &SubscribePlan,
        keep: Duration,
    ) -> Result<Option<Begun>, AdapterError> {
        let (shared, interrupt) = (Arc::clone(&self.shared), self.interrupt());
        let stream = shared.streams.of(self.subject(plan, subscribe)?);
        if let (Some(time), false) = (&subscribe.as_of, subscribe.snapshot) {
            // What was told may be older than what is readable.
            let after = self.time_of_statement(time)?;
            if let Some(follower) = stream.resume(keep, after) {
                return Ok(Some(Begun { as_of: after, contents: None, follower }));
            }
        }
        let mut as_of = self.first_time(plan, subscribe).await?;
        let mut hold = shared.holds.acquire(as_of);
        let starting = stream.follow(keep, || start(&shared, &stream, plan, subscribe, as_of));
        let Some(mut follower) = interrupt.guard(starting).await?? else { return Ok(None) };
        if follower.base() > as_of {
            // It has begun since, or has forgotten.
            as_of = self.first_time(plan, subscribe).await?;
            hold = shared.holds.acquire(as_of);
        }
        if follower.base() > as_of {
            // A time of the past, or a transaction's.
            let alone = shared.streams.alone(self.subject(plan, subscribe)?);
            let starting = alone.follow(Duration::ZERO, || start(&shared, &alone, plan, subscribe, as_of));
            let Some(own) = interrupt.guard(starting).await?? else { return Ok(None) };
            follower = own;
        }
        let contents = interrupt.guard(Contents::of(follower.handle(), as_of)).await?;
        let contents = contents.map_err(|error| ended(&error))?;
        drop(hold);
        // What it may have forgotten meanwhile is looked for anew.
        let has_all = follower.skip(as_of);
        Ok(has_all.then_some(Begun { as_of, contents: Some(contents), follower }))
    }

    /// Where a subscription begins.
    async fn first_time(&mut self, plan: &ReadPlan, subscribe: &SubscribePlan) -> Result<Timestamp, AdapterError> {
        match &subscribe.as_of {
            Some(time) => self.given_time(time, &plan.select.depends_on).await,
            None => self.read_ts_for(&plan.select.depends_on).await,
        }
    }

    /// What is followed, and how.
    fn subject(&self, plan: &ReadPlan, subscribe: &SubscribePlan) -> Result<Subject, AdapterError> {
        let followed = match subscribe.object {
            Some(object) => Followed::Object(object),
            None => Followed::Query(lower(&plan.select.logical, &self.shared.engine)?),
        };
        Ok(Subject {
            followed,
            cluster: self.settings.vars.cluster().to_owned(),
            depends_on: plan.select.depends_on.clone(),
            envelope: subscribe.envelope.clone(),
            schema: Arc::clone(&plan.desc.schema),
        })
    }

    /// The time that AS OF gives, which must be readable.
    pub(crate) async fn given_time(
        &mut self,
        time: &TimePlan,
        collections: &[GlobalId],
    ) -> Result<Timestamp, AdapterError> {
        let given = self.time_of_statement(time)?;
        let (since, upper) = (self.since_of(collections), self.now().await?.saturating_add(1));
        let as_of = if time.at_least { given.max(since) } else { given };
        if as_of < since || as_of >= upper {
            let is_past = as_of < since;
            return Err(AdapterError::with_detail(
                if is_past { SqlState::SNAPSHOT_TOO_OLD } else { SqlState::INVALID_PARAMETER_VALUE },
                format!("timestamp {given} is not readable"),
                format!("What is read is readable in [{since}, {upper})."),
            ));
        }
        Ok(as_of)
    }

    /// The time that AS OF gives, whether it is readable or not.
    fn time_of_statement(&self, time: &TimePlan) -> Result<Timestamp, AdapterError> {
        if self.transaction.status != Status::Idle {
            let message = "AS OF in a transaction block is not supported";
            let hint = "A transaction reads everything as of its first read.";
            return Err(AdapterError::with_hint(SqlState::FEATURE_NOT_SUPPORTED, message, hint));
        }
        self.time(time)
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

/// Starts a stream of everything after a time.
async fn start(
    shared: &Arc<Shared>,
    stream: &Stream,
    plan: &ReadPlan,
    subscribe: &SubscribePlan,
    as_of: Timestamp,
) -> Result<Started, AdapterError> {
    let (handle, dataflow) = match index_on(shared, subscribe) {
        Some(handle) => (handle, None),
        None => {
            let cluster = stream.subject.cluster.clone();
            let target = Target { plan: lower(&plan.select.logical, &shared.engine)?, cluster };
            let handle = shared.committer.subscribe(target, plan.select.depends_on.clone(), as_of).await?;
            let dataflow = Dataflow { id: handle.id, committer: shared.committer.clone() };
            (handle, Some(dataflow))
        }
    };
    let (_, tail) = Tail::since(handle, as_of, QUEUE_BYTES_MAX).await.map_err(|error| ended(&error))?;
    Ok(Started::new(tail, as_of, Lines::new(plan, subscribe)?, &shared.streams, dataflow))
}

/// An index that has all that is followed.
fn index_on(shared: &Shared, subscribe: &SubscribePlan) -> Option<Arc<IndexHandle>> {
    let published = shared.published.load();
    let indexes = published.indexes_on(subscribe.object?);
    let is_readable = |handle: &IndexHandle| handle.is_hydrated() && handle.check().is_ok();
    indexes.iter().map(|index| &index.handle).find(|handle| is_readable(handle)).cloned()
}

/// Where a subscription begins.
struct Begun {
    as_of: Timestamp,
    /// What was there then, unless that was told before.
    contents: Option<Contents>,
    follower: Follower,
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
    follower: Follower,
    /// What is there as of the first time, until all of it was given.
    contents: Option<(Timestamp, Contents)>,
    lines: Lines,
    is_progressing: bool,
    /// What is read under whose rights, and the revision of the catalog under which these were there.
    rights: Vec<Right>,
    revision: u64,
    /// Everything below was given.
    told: Timestamp,
    up_to: Option<Timestamp>,
    is_over: bool,
    batches: VecDeque<RecordBatch>,
    /// For whoever reads: below this time everything has been given.
    given: Arc<AtomicU64>,
}

impl Following {
    /// The next lines; `None` at the end.
    ///
    /// # Cancellation
    /// Safe to drop: nothing is taken before it is returned.
    async fn next(&mut self) -> Result<Option<RecordBatch>, AdapterError> {
        loop {
            if let Some(batch) = self.batches.pop_front() {
                self.note_given();
                return Ok(Some(batch));
            }
            if self.is_over {
                return Ok(None);
            }
            if self.contents.is_some() {
                self.start()?;
                continue;
            }
            // Registered before it is looked for: what happens in between is not missed.
            let followed = self.follower.started();
            let happened = followed.happened();
            tokio::pin!(happened);
            happened.as_mut().enable();
            self.gather()?;
            self.note_given();
            if self.batches.is_empty() && !self.is_over {
                let clock = self.next_look();
                tokio::select! {
                    () = happened => {}
                    () = clock => {
                        self.shared.committer.tick().await?;
                        self.follower.advance();
                    }
                }
            }
        }
    }

    /// Tells how far what was given goes, if nothing is left to be given.
    fn note_given(&self) {
        if self.batches.is_empty() && self.contents.is_none() {
            self.given.store(self.told, Ordering::Relaxed);
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
        while self.batches.is_empty() {
            let Some(more) = contents.next_rows(BATCH_LINES) else {
                self.contents = None;
                self.lines.rows(as_of, &rows)?;
                if self.is_progressing {
                    self.lines.progress(as_of + 1);
                }
                return self.lines.flush(&mut self.batches, true);
            };
            if is_streamed {
                self.lines.rows(as_of, &more)?;
                self.lines.flush(&mut self.batches, false)?;
            } else {
                rows.extend(&more);
            }
        }
        Ok(())
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
    fn gather(&mut self) -> Result<(), AdapterError> {
        let taken = self.follower.take(self.up_to)?;
        // After that was taken, so that what is given does not come after what took the right away.
        self.check_rights()?;
        self.batches.extend(taken.batches);
        let limit = self.up_to.map_or(taken.upper, |up_to| taken.upper.min(up_to));
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
