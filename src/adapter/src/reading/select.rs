//! The read path: from a plan to rows.
//!
//! 1. Ask the oracle for `as_of` (a transaction has asked with its first read): one load, unless the oracle has to ask its
//!    store. That is waited for before the statement begins, so that nothing here waits.
//! 2. A plan that reads one index is a peek: open the index's snapshot, on this thread, and let the rows be pulled from it.
//! 3. A plan without relations is run at once; everything else is run by the ad hoc engine on its own threads, over all
//!    collections as of `as_of`, and its batches come through a bounded channel.
//!
//! The arms part in [`Session::select`] and end in the same [`Rows`].

use crate::cancel::Interrupt;
use crate::error::AdapterError;
use crate::plan_cache::SelectExec;
use crate::reading::admission::Turn;
use crate::reading::reader::StatementReader;
use crate::reading::waiting::{Awaited, is_awaited};
use crate::response::Rows;
use crate::session::Session;
use crate::shared::Shared;
use crate::status::Status;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use catalog::builtin::history::Strategy;
use committer::published::Published;
use compute_client::error::ComputeError;
use compute_client::peek::{self, Bound, Lagging, Looked, Opened};
use compute_client::plan::{IndexInfo, PeekPlan};
use compute_client::read_hold::ReadHold;
use compute_client::uncommitted::Uncommitted;
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableScan, lit};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use engine::error::SqlError;
use engine::memory::try_claim;
use engine::names::RoleId;
use engine::recursion::renamed;
use engine::temporal::query_reads_now;
use engine::{Analysis, CollectionTable, Engine, PlanFormat, SessionInfo, effort};
use futures::{StreamExt, TryStreamExt};
use ore::memory::Reservation;
use ore::task::{spawn_apart, spawn_on};
use repr::sqlstate::SqlState;
use repr::{GlobalId, Timestamp, Updates};
use sql::plan::{How, ItemRef, PlanContext, ReadPlan, SelectPlan, plan_view};
use sql::row_count::RowCount;
use sql_functions::row::plan_has_long;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinError;

/// Batches that the ad hoc engine may be ahead of its reader.
const BATCHES_AHEAD: usize = 4;
/// Rows of an index that are evaluated on a connection's own thread at the most; larger scans would hold up the others.
const EVALUATED_ROWS_MAX: usize = 5_000;
/// Bytes that they have at the most.
const EVALUATED_BYTES_MAX: usize = 256 << 10;

impl Session {
    /// Answers a SELECT. Nothing is waited for here: an index that lags and the ad hoc engine are waited for when the rows
    /// are pulled.
    pub(crate) fn select(
        &mut self,
        plan: &SelectExec,
        params: Bound<'_>,
        now: Timestamp,
    ) -> Result<Rows, AdapterError> {
        let may_peek = self.may_peek(plan);
        // Views may have to be planned anew over what the transaction has written.
        let is_planned = may_peek || !self.reads_own_writes(&plan.select.depends_on);
        self.stay_if(is_planned && self.transaction.staged().is_none())?;
        if let Some(peek) = &plan.peek
            && may_peek
            && !ore::sometimes(10)
        {
            match self.peek(plan, peek, params, now) {
                // The ad hoc engine finds another way to the rows.
                Err(error) if is_dropped(&error) => {}
                Ok(None) => {}
                Ok(Some(rows)) => return Ok(rows),
                Err(error) => return Err(error),
            }
        }
        self.adhoc(plan, params, now)
    }

    /// Reads a query in the way it asks for.
    pub(crate) async fn read(&mut self, plan: &ReadPlan, params: Bound<'_>) -> Result<Rows, AdapterError> {
        match &plan.how {
            How::Now => {
                if query_reads_now(&plan.select.logical) {
                    self.come_to_now().await?;
                }
                let exec = self.select_exec(plan.select.clone());
                let now = self.now().await?;
                self.select(&exec, params, now)
            }
            How::AsOf(time) => {
                let as_of = self.given_time(time, &plan.select.depends_on).await?;
                self.adhoc_as_of(&plan.select, params, as_of, Later::Never)
            }
            How::Subscribe(subscribe) => self.subscribe(plan, subscribe).await,
        }
    }

    /// Lets time come to now, for what asks for it by `mz_now()`. In a transaction that has read, its time stays.
    pub(crate) async fn come_to_now(&mut self) -> Result<(), AdapterError> {
        if !self.reads_anew() {
            self.transaction.reads().note_time();
        }
        if !self.transaction.has_read() {
            self.shared.committer.tick().await?;
        }
        Ok(())
    }

    /// Reads one index; `None` if its rows are too many to be evaluated here, or are not there yet.
    pub(crate) fn peek(
        &mut self,
        exec: &SelectExec,
        plan: &Arc<PeekPlan>,
        params: Bound<'_>,
        now: Timestamp,
    ) -> Result<Option<Rows>, AdapterError> {
        let started = self.shared.metrics.peek_seconds.start();
        let mut now = now;
        let layer = match exec.select.depends_on.as_slice() {
            [table] if self.transaction.written_to(*table).is_some() => self.transaction.layer(*table, &plan.index),
            _ => None,
        };
        let (as_of, opened) = loop {
            let as_of = self.read_at(exec, params, now);
            match (peek::open(plan, params, as_of, layer.clone()), self.transaction.status) {
                // Compaction overtook a reader that was suspended for long: a later time will do outside a block.
                (Err(error @ ComputeError::SinceAdvanced { .. }), Status::Idle) => {
                    now = self.shared.read_ts_fast().ok_or(error)?;
                }
                // The ad hoc engine finds another way to the rows, or says why there is none.
                (Err(ComputeError::OutOfMemory(_)), _) => return Ok(None),
                (opened, _) => break (as_of, opened?),
            }
        };
        let rows = match opened {
            Opened::Rows(rows) if plan.is_direct() => {
                self.shared.metrics.peeks_direct.inc();
                Rows::Peek(rows)
            }
            Opened::Lagging(lagging) if plan.is_direct() => {
                self.shared.metrics.peeks_direct.inc();
                let in_block = self.transaction.status != Status::Idle;
                let otherwise = (self.query(bind(&exec.select.logical, params)?, as_of), self.interrupt());
                let awaited = self.told_of(std::iter::once(&plan.index));
                let work = caught_up(Arc::clone(&self.shared), lagging, in_block, otherwise);
                Rows::pending(self.interrupt(), awaited, work)
            }
            Opened::Rows(mut rows) if rows.update_count() <= EVALUATED_ROWS_MAX => {
                let (engine, info) = (&self.shared.engine, self.info(as_of));
                let Some(batches) = peek::evaluate(&mut rows, EVALUATED_BYTES_MAX, params, engine, &info)? else {
                    return Ok(None);
                };
                self.shared.metrics.peeks_evaluated.inc();
                Rows::ready(batches)
            }
            Opened::Rows(_) | Opened::Lagging(_) => return Ok(None),
        };
        self.note_read(Strategy::FastPath, as_of);
        self.shared.metrics.peek_seconds.stop(started);
        self.shared.metrics.first_row_seconds.stop(started);
        Ok(Some(rows))
    }

    /// Runs a plan with the ad hoc engine.
    fn adhoc(&mut self, plan: &SelectExec, params: Bound<'_>, now: Timestamp) -> Result<Rows, AdapterError> {
        // What reads nothing, not even the time, does not choose it for what follows, which may be about what it has waited for.
        let as_of = match plan.select.depends_on.as_slice() {
            [] if !self.transaction.has_read() && !query_reads_now(&plan.select.logical) => now,
            _ => self.read_at(plan, params, now),
        };
        let later = if self.transaction.is_fresh() { Later::Allowed } else { Later::Never };
        self.adhoc_as_of(&plan.select, params, as_of, later)
    }

    fn adhoc_as_of(
        &self,
        plan: &SelectPlan,
        params: Bound<'_>,
        as_of: Timestamp,
        later: Later,
    ) -> Result<Rows, AdapterError> {
        let metrics = &self.shared.metrics;
        if plan.depends_on.is_empty() {
            metrics.peeks_constant.inc();
            self.note_read(Strategy::Constant, as_of);
        } else {
            metrics.peeks_adhoc.inc();
            self.note_read(Strategy::Standard, as_of);
        }
        let started = metrics.first_row_seconds.start();
        let mut query = Query { later, ..self.bound_query(plan, params, as_of)? };
        let (shared, interrupt) = (Arc::clone(&self.shared), self.interrupt());
        let readable_from = self.readable_from(&plan.depends_on);
        Ok(Rows::pending(self.interrupt(), self.awaited(&plan.depends_on), async move {
            query.await_rows(readable_from).await;
            let stream = query.run().await?;
            shared.metrics.first_row_seconds.stop(started);
            Ok(Rows::stream(stream, interrupt))
        }))
    }

    /// A query that the ad hoc engine can run, with these parameters.
    fn bound_query(&self, plan: &SelectPlan, params: Bound<'_>, as_of: Timestamp) -> Result<Query, AdapterError> {
        let logical = self.with_own_writes(bind(&plan.logical, params)?, &plan.depends_on)?;
        let memory = self.memory_for_params(params.values)?;
        Ok(Query { memory, ..self.query(logical, as_of) })
    }

    /// Runs a plan with the ad hoc engine for what its operators do.
    pub(crate) async fn analyze_adhoc(
        &mut self,
        plan: &SelectPlan,
        params: Bound<'_>,
        format: PlanFormat,
    ) -> Result<Analysis, AdapterError> {
        let as_of = self.read_ts_for(&plan.depends_on).await?;
        let mut query = Query { analyzes: Some(format), ..self.bound_query(plan, params, as_of)? };
        let readable_from = self.readable_from(&plan.depends_on);
        let work = async move {
            query.await_rows(readable_from).await;
            Ok::<_, AdapterError>(Analysis::of(query.run().await?).await?)
        };
        self.interrupt().guard(work).await?
    }

    /// A query that the ad hoc engine can run: over all collections as of a time, with the transaction's own writes over them.
    pub(crate) fn query(&self, plan: LogicalPlan, as_of: Timestamp) -> Query {
        let info = self.info(as_of);
        let reader = Reader {
            shared: Arc::clone(&self.shared),
            published: self.published(),
            as_of,
            overlay: self.transaction.overlay(),
            info: SessionInfo { own: Some(self.statements.shown(info.statement_now_us)), ..info },
        };
        let hold = Some(self.shared.holds.acquire(as_of));
        Query {
            reader,
            plan,
            role: self.rights.role.id,
            later: Later::Never,
            analyzes: None,
            memory: None,
            turn: Some(self.turn()),
            hold,
        }
    }

    /// What a query of this session has a turn by, once it has entered.
    fn turn(&self) -> Turn {
        self.shared.admission.turn(self.activity())
    }

    /// A turn for a query. Who makes a change depend on what it reads takes it before the time is chosen: what is written while one
    /// waits for a turn contradicts nothing then.
    pub(crate) async fn entered(&mut self, plan: &LogicalPlan) -> Result<Turn, AdapterError> {
        let mut turn = self.turn();
        if needs_turn(plan) {
            self.interrupt().guard(turn.enter()).await?;
        }
        Ok(turn)
    }

    /// The time at which a statement that begins now reads, if it is to be had without waiting: the transaction's if it has
    /// read, else the oracle's.
    #[inline]
    pub(crate) fn now_fast(&self) -> Option<Timestamp> {
        self.transaction.held_ts().or_else(|| self.shared.read_ts_fast())
    }

    /// The time at which a statement that begins now reads.
    pub(crate) async fn now(&mut self) -> Result<Timestamp, AdapterError> {
        match self.transaction.held_ts() {
            Some(ts) => Ok(ts),
            None => {
                let (interrupt, shared) = (self.interrupt(), Arc::clone(&self.shared));
                interrupt.guard(shared.read_ts()).await?
            }
        }
    }

    /// From which time on the tables among these have rows. The catalog in which a table has other columns is seen a moment
    /// before time comes to its rows.
    fn readable_from(&self, collections: &[GlobalId]) -> Option<Timestamp> {
        let published = self.published();
        collections.iter().filter_map(|id| published.tables.get(id)).map(|table| table.readable_from).max()
    }

    /// The time at which to read all of these collections, which a transaction notes and holds.
    pub(crate) async fn read_ts_for(&mut self, collections: &[GlobalId]) -> Result<Timestamp, AdapterError> {
        match self.reads_anew() {
            true => self.now_for(collections).await,
            false => self.held_ts_for(collections).await,
        }
    }

    /// The same of what must be as it was read, at whatever level. From here on the transaction reads at this time.
    pub(crate) async fn held_ts_for(&mut self, collections: &[GlobalId]) -> Result<Timestamp, AdapterError> {
        let now = self.now_for(collections).await?;
        self.transaction.reads().note(collections.iter().copied());
        Ok(self.transaction.read_ts(&self.shared, now))
    }

    /// Whether a statement reads at a time of its own, and what it has read may change after it: it is the first, outside of a block,
    /// of which only what it writes follows from (`Session::write`) and with which nothing else is read, or READ COMMITTED was asked for
    /// before anything was held.
    pub(crate) fn reads_anew(&self) -> bool {
        let is_first = self.transaction.is_fresh() && !self.transaction.is_together;
        (self.transaction.status == Status::Idle && is_first) || self.reads_committed()
    }

    /// Whether each statement of the transaction reads at a time of its own.
    pub(crate) fn reads_committed(&self) -> bool {
        self.settings.vars.isolation().reads_committed() && self.transaction.held_ts().is_none()
    }

    /// The time at which a statement that begins now can read these collections.
    pub(crate) async fn now_for(&mut self, collections: &[GlobalId]) -> Result<Timestamp, AdapterError> {
        let now = self.now().await?;
        match self.readable_from(collections).filter(|from| *from > now && self.transaction.is_fresh()) {
            Some(from) => {
                let (interrupt, shared) = (self.interrupt(), Arc::clone(&self.shared));
                interrupt.guard(shared.committer.raised_to(from)).await?;
                Ok(from)
            }
            None => Ok(now),
        }
    }

    /// The time at which a query of a statement that began at `now` reads, which a transaction notes: by the keys that are looked up,
    /// whoever does that, or as all of what the query depends on.
    fn read_at(&mut self, exec: &SelectExec, params: Bound<'_>, now: Timestamp) -> Timestamp {
        let collections = exec.select.depends_on.as_slice();
        if self.reads_anew() {
            return now;
        }
        let of_table = match collections {
            [table] if self.published().tables.contains_key(table) => Some(*table),
            _ => None,
        };
        let looked = of_table.and_then(|table| Some((table, Looked::by(exec.peek.as_ref()?, params)?)));
        match looked {
            Some((table, looked)) => self.transaction.reads().note_rows(table, looked),
            None => self.transaction.reads().note(collections.iter().copied()),
        }
        self.transaction.read_ts(&self.shared, now)
    }

    /// The plan over tables alone if the transaction has written to any of them, or has changed the catalog: the index of a
    /// view has what is committed.
    pub(crate) fn with_own_writes(
        &self,
        plan: LogicalPlan,
        depends_on: &[GlobalId],
    ) -> Result<LogicalPlan, AdapterError> {
        if !self.reads_own_writes(depends_on) && self.transaction.staged().is_none() {
            return Ok(plan);
        }
        let (published, info) = (self.published(), self.info(0));
        let ctx = PlanContext { from_tables: true, ..self.plan_context(&published, &info) };
        Ok(over_tables(plan, &ctx, &published).map_err(SqlError::from)?)
    }

    /// What a read of these waits for, if its client wants to know.
    pub(crate) fn awaited(&self, collections: &[GlobalId]) -> Option<Awaited> {
        let published = self.published();
        let unstored = collections.iter().filter(|id| !published.tables.contains_key(id));
        let indexes = unstored.filter_map(|id| {
            let indexes = published.indexes_on(*id);
            let is_there = indexes.iter().any(|index| index.handle.is_hydrated());
            indexes.first().filter(|_| !is_there)
        });
        self.told_of(indexes)
    }

    /// Those of these that are to be waited for, if the client wants to know.
    pub(crate) fn told_of<'a>(&self, indexes: impl Iterator<Item = &'a Arc<IndexInfo>>) -> Option<Awaited> {
        let awaited = Awaited(indexes.filter(|index| is_awaited(index)).cloned().collect());
        let level = self.settings.vars.get("client_min_messages").unwrap_or_default();
        awaited.notice().is_some_and(|notice| notice.reaches(level)).then_some(awaited)
    }

    /// Whether the transaction has written to any of these, or to a table below a materialized view among them.
    pub(crate) fn reads_own_writes(&self, depends_on: &[GlobalId]) -> bool {
        if self.transaction.written().next().is_none() {
            return false;
        }
        let published = self.published();
        let is_below = |table: &GlobalId| {
            let mut maintained = depends_on.iter().filter_map(|id| published.maintained(*id));
            depends_on.contains(table) || maintained.any(|handle| handle.clocks().contains_key(table))
        };
        self.transaction.written().any(is_below)
    }

    /// Whether a peek may answer: the fast path is on, and what the transaction has written can be laid over the index.
    pub(crate) fn may_peek(&self, plan: &SelectExec) -> bool {
        let sees_own = |peek: &PeekPlan| match plan.select.depends_on.as_slice() {
            [table] => self.transaction.written_to(*table).is_some() && Uncommitted::fits(&peek.index),
            _ => false,
        };
        let has_all = |peek| !self.reads_own_writes(&plan.select.depends_on) || sees_own(peek);
        self.fast_path_enabled() && plan.peek.as_deref().is_some_and(has_all)
    }
}

/// The same plan over tables alone, as they are now: views, materialized or not, are what their queries say.
fn over_tables(
    plan: LogicalPlan,
    ctx: &PlanContext<'_>,
    published: &Published,
) -> datafusion::error::Result<LogicalPlan> {
    let expanded = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::TableScan(scan) = &node else { return Ok(Transformed::no(node)) };
        let Some(collection) = CollectionTable::from_source(&scan.source) else { return Ok(Transformed::no(node)) };
        if let Some(table) = published.successor(collection.id) {
            return Ok(Transformed::yes(over_successor(scan, &collection, &table)?));
        }
        let view = ctx.catalog.item(collection.id).filter(|item| item.view().is_some());
        let Some(view) = view else { return Ok(Transformed::no(node)) };
        let inner = over_tables(plan_view(ctx, &view)?.logical, ctx, published)?;
        let inner = renamed(inner, |name| format!("{name} of {}", view.id))?;
        let schema = Arc::clone(inner.schema());
        let all: Vec<usize> = (0..schema.fields().len()).collect();
        // Its filters are hints; what they are for stands above it.
        let columns = scan.projection.as_ref().unwrap_or(&all).iter().map(|at| {
            let name = collection.desc.schema.field(*at).name();
            let column = Expr::Column(Column::from(schema.qualified_field(*at)));
            column.alias_qualified(Some(scan.table_name.clone()), name)
        });
        Ok(Transformed::yes(LogicalPlanBuilder::from(inner).project(columns.collect::<Vec<_>>())?.build()?))
    });
    Ok(expanded?.data)
}

/// The scan of a table that has got other columns since, over these. Error 40001 if some of its own are not among them.
fn over_successor(scan: &TableScan, before: &CollectionTable, now: &ItemRef) -> datafusion::error::Result<LogicalPlan> {
    let (name, source) = (scan.table_name.clone(), CollectionTable::source(now.id, Arc::clone(&now.desc)));
    let all: Vec<usize> = (0..before.desc.arity()).collect();
    let columns = scan.projection.as_ref().unwrap_or(&all).iter().map(|at| {
        let column = &before.desc.columns[*at];
        let kept = now.desc.columns.iter().any(|new| new.name == column.name && new.data_type == column.data_type);
        let expr = Expr::Column(Column::new(Some(name.clone()), &column.name));
        kept.then_some(expr)
            .ok_or_else(|| SqlError::new(SqlState::SERIALIZATION_FAILURE, AdapterError::Stale.to_string()).into())
    });
    let columns = columns.collect::<datafusion::error::Result<Vec<Expr>>>()?;
    LogicalPlanBuilder::scan(scan.table_name.clone(), source, None)?.project(columns)?.build()
}

/// The rows of a peek once its index has caught up.
async fn caught_up(
    shared: Arc<Shared>,
    lagging: Lagging,
    in_block: bool,
    (query, interrupt): (Query, Interrupt),
) -> Result<Rows, AdapterError> {
    let mut as_of = lagging.as_of();
    loop {
        match lagging.wait(as_of).await {
            Ok(rows) => return Ok(Rows::Peek(rows)),
            Err(ComputeError::Dropped(_) | ComputeError::OutOfMemory(_)) => {
                return Ok(Rows::stream(query.run().await?, interrupt));
            }
            Err(ComputeError::SinceAdvanced { .. }) if !in_block => as_of = shared.read_ts().await?,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether an index was dropped, or is built anew, after a plan had chosen it.
fn is_dropped(error: &AdapterError) -> bool {
    error.sqlstate() == ComputeError::Dropped(GlobalId::Transient(0)).sqlstate()
}

/// A plan with what it reads.
pub(crate) struct Query {
    reader: Reader,
    plan: LogicalPlan,
    role: RoleId,
    later: Later,
    /// Whether it gives what its operators did instead of its rows, and in which form.
    analyzes: Option<PlanFormat>,
    /// What its parameters take.
    memory: Option<Reservation>,
    turn: Option<Turn>,
    /// On the time as of which it reads, until what it reads has been opened: snapshots keep themselves.
    hold: Option<ReadHold>,
}

/// Whether a query may read as of a later time than it was to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Later {
    /// It stands for itself, and has just begun.
    Allowed,
    /// What else is done goes by the time.
    Never,
}

impl Query {
    /// The same with a turn that was taken before.
    pub(crate) fn within(self, turn: Turn) -> Query {
        Query { turn: Some(turn), ..self }
    }

    /// Runs it on the ad hoc runtime; over tables alone, and as they are now, if what it was made for has gone. Its batches come through
    /// a bounded channel: a slow reader slows it down. Error 40001 if that cannot be, because a table has gone or has not its columns
    /// any more.
    ///
    /// # Cancellation
    /// Dropping the future or the stream ends the query.
    pub(crate) async fn run(self) -> Result<SendableRecordBatchStream, AdapterError> {
        let (tx, rx) = mpsc::channel(BATCHES_AHEAD);
        let (started_tx, started_rx) = oneshot::channel();
        let adhoc = self.reader.shared.adhoc.clone();
        let is_apart = !effort::is_small(&self.plan) || plan_has_long(&self.plan);
        let wanted = self.turn.as_ref().map(Turn::wanted);
        let work = async move {
            let gone = tx.clone();
            tokio::select! {
                biased;
                // Nobody wants what it would give.
                () = gone.closed() => {}
                () = self.give(&tx, started_tx) => {}
            }
        };
        // What may go on for long without giving others a turn has a thread of its own.
        let task = match is_apart {
            true => spawn_apart(&adhoc, "adhoc", work),
            false => spawn_on(&adhoc, "adhoc", work),
        };
        let schema = match started_rx.await {
            Ok(started) => started?,
            Err(_) => match task.await {
                Ok(()) => unreachable!("a task that ends has said how it started"),
                Err(ended) => return Err(stopped(&ended).into()),
            },
        };
        let batches = futures::stream::unfold(Some((rx, task, wanted)), |running| async move {
            let (mut rx, task, wanted) = running?;
            match rx.recv().await {
                Some(batch) => Some((batch, Some((rx, task, wanted)))),
                // The end of the channel is no success: only the task says whether these were all rows.
                None => task.await.err().map(|ended| (Err(stopped(&ended).into()), None)),
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    /// The operators that would run, one per line.
    pub(crate) async fn explain(self) -> Result<String, AdapterError> {
        self.reader.explain(self.plan).await
    }

    /// Gives what it starts with, and its batches, when it has a turn.
    async fn give(
        mut self,
        batches: &mpsc::Sender<datafusion::error::Result<RecordBatch>>,
        started: oneshot::Sender<Result<SchemaRef, AdapterError>>,
    ) {
        let memory = Arc::clone(&self.reader.shared.memory);
        let mut turn = self.turn.take().filter(|_| needs_turn(&self.plan));
        if let Some(turn) = &mut turn {
            turn.enter().await;
        }
        let (_params, hold) = (self.memory.take(), self.hold.take());
        // A session that has gone is not told.
        let mut stream = match during(&mut turn, Box::pin(self.start())).await {
            Ok(stream) => stream,
            Err(error) => return drop(started.send(Err(error))),
        };
        drop(hold);
        drop(started.send(Ok(stream.schema())));
        while let Some(batch) = during(&mut turn, stream.next()).await {
            let batch = batch.and_then(|batch| Ok(try_claim(&batch, &memory).map(|()| batch)?));
            if during(&mut turn, batches.send(batch)).await.is_err() {
                return;
            }
        }
    }

    /// Opens what it reads, and begins to run.
    async fn start(mut self) -> Result<SendableRecordBatchStream, AdapterError> {
        match self.reader.execute(self.plan.clone(), self.analyzes).await {
            Err(error) if is_dropped(&error) => {}
            result => return result,
        }
        self.reader.shared.committer.settle().await?;
        let published = self.reader.shared.published.load_full();
        let readable_from = published.tables.values().map(|table| table.readable_from).max();
        self.await_rows(readable_from).await;
        let Query { reader, plan, role, analyzes, .. } = self;
        let plan = {
            let (engine, catalog, session) = (&reader.shared.engine, published.state.as_ref(), &reader.info);
            let ctx = PlanContext { engine, catalog, session, role, cluster: "", from_tables: true };
            over_tables(plan, &ctx, &published).map_err(SqlError::from)?
        };
        match (Reader { published, ..reader }).execute(plan, analyzes).await {
            Err(error) if is_dropped(&error) => Err(AdapterError::Stale),
            result => result,
        }
    }

    /// Waits for the rows of tables that are not to be had before this time, and reads as of it, if it may.
    async fn await_rows(&mut self, readable_from: Option<Timestamp>) {
        if let Some(from) = readable_from.filter(|from| *from > self.reader.as_of && self.later == Later::Allowed) {
            self.reader.shared.committer.raised_to(from).await;
            self.reader.as_of = from;
        }
    }
}

/// Whether a query reads what users have, or calls what may take long.
fn needs_turn(plan: &LogicalPlan) -> bool {
    let mut reads = false;
    let walked = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let collection = CollectionTable::from_source(&scan.source);
            reads |= collection.is_none_or(|collection| matches!(collection.id, GlobalId::User(_)));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    reads || walked.is_err() || plan_has_long(plan)
}

/// Does a part of a query's work in its turn, if it needs one.
async fn during<T>(turn: &mut Option<Turn>, work: impl Future<Output = T>) -> T {
    match turn {
        Some(turn) => turn.during(work).await,
        None => work.await,
    }
}

/// What a run of the ad hoc engine reads.
#[derive(Clone)]
pub(crate) struct Reader {
    shared: Arc<Shared>,
    published: Arc<Published>,
    as_of: Timestamp,
    overlay: HashMap<GlobalId, Arc<Updates>>,
    info: SessionInfo,
}

impl Reader {
    /// Begins to run an optimised plan.
    async fn execute(
        &self,
        plan: LogicalPlan,
        analyzes: Option<PlanFormat>,
    ) -> Result<SendableRecordBatchStream, AdapterError> {
        let engine = &self.shared.engine;
        let plan = counted(plan, engine, &self.info)?;
        Ok(match analyzes {
            Some(format) => engine.analyze(plan, &self.info, self.collections(), format).await?,
            None => engine.execute(plan, &self.info, self.collections()).await?,
        })
    }

    /// The operators that would run an optimised plan.
    async fn explain(&self, plan: LogicalPlan) -> Result<String, AdapterError> {
        let plan = counted(plan, &self.shared.engine, &self.info)?;
        Ok(self.shared.engine.explain(plan, &self.info, self.collections()).await?)
    }

    fn collections(&self) -> Arc<StatementReader> {
        let Reader { shared, published, as_of, overlay, info } = self.clone();
        Arc::new(StatementReader::new(shared, published, as_of, overlay, info))
    }
}

/// The error of a query whose task did not come to its end.
fn stopped(ended: &JoinError) -> SqlError {
    if ended.is_panic() {
        return SqlError::internal("the execution of the query panicked").with_hint("The server's log says where.");
    }
    SqlError::new(SqlState::ADMIN_SHUTDOWN, "the server is shutting down")
}

/// Replaces a plan's parameters by their values.
pub(crate) fn bind(plan: &LogicalPlan, params: Bound<'_>) -> Result<LogicalPlan, AdapterError> {
    if params.values.is_empty() {
        return Ok(plan.clone());
    }
    let values = peek::param_values(params)?;
    Ok(plan.clone().replace_params_with_values(&values).map_err(SqlError::from)?)
}

/// The same plan with numbers in place of what LIMIT and OFFSET compute. Errors: those of computing it, and negative numbers.
fn counted(plan: LogicalPlan, engine: &Engine, info: &SessionInfo) -> Result<LogicalPlan, AdapterError> {
    let count = |expr: Option<Box<Expr>>, what: RowCount| -> Result<_, SqlError> {
        match expr {
            Some(expr) if !matches!(*expr, Expr::Literal(..)) => {
                Ok(what.of(&engine.compute(&expr, info)?)?.map(|rows| Box::new(lit(rows))))
            }
            number => Ok(number),
        }
    };
    let counted = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Limit(mut limit) => {
            limit.skip = count(limit.skip, RowCount::Offset)?;
            limit.fetch = count(limit.fetch, RowCount::Limit)?;
            Ok(Transformed::yes(LogicalPlan::Limit(limit)))
        }
        other => Ok(Transformed::no(other)),
    });
    Ok(counted.map_err(SqlError::from)?.data)
}

/// All rows of a run, in memory.
pub(crate) async fn collect(stream: SendableRecordBatchStream) -> Result<Vec<RecordBatch>, AdapterError> {
    Ok(stream.try_collect().await.map_err(SqlError::from)?)
}
