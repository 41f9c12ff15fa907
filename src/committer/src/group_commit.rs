//! The one writer of tables, catalog and time.
//!
//! A plain thread takes requests off a channel. All writes that wait there together become one group:
//!
//! 1. Each is checked: its tables exist, and what it read has not changed since it read it.
//! 2. One write timestamp for the group. The dataflows are fed: they work while the disk does. No read is of that time yet.
//! 3. One durable commit over all tables: one fsync.
//! 4. What is known without the dataflows is shown, and the tables' clocks are set. Dataflows that are not done are given a
//!    moment to publish, so that readers do not have to wait for them.
//! 5. The oracle is raised: from here on every read sees the group.
//! 6. The writers are answered.
//!
//! There is no pacing: a lone write costs one fsync, and while that is under way the next group gathers. Where writers come
//! in company, those just answered are about to write again: a group is given as long as a commit takes to become as large
//! as the last one, so that one fsync, and one step of every dataflow, serves them all. DDL goes through the same thread and
//! is a group of its own, so catalog and data change in one order.
//!
//! # Invariants
//! - Durable before visible, visible before acknowledged. A key that is refused is visible: who is told so is told when the group
//!   that has taken it is durable.
//! - What is durable is shown, or the process ends: nobody is told that it has failed.
//! - If the commit fails, the timestamp is not used and nothing of the group is seen: what was fed starts over from what is
//!   durable.

mod admission;
mod claims;
mod company;
mod ddl;
mod put_off;
mod revisions;
mod sequences;

use crate::environment::Environment;
use crate::error::CommitError;
use crate::expectations::{Recent, Tables};
use crate::handle::Requests;
use crate::implications;
use crate::maintain::{Dataflows, Job, maintain};
use crate::materialized::Materialized;
use crate::notes;
use crate::plans::{Durable, Plans, Target};
use crate::published::Published;
use crate::request::{Committed, ProbeRequest, Probed, Request, SubscribeRequest, WriteRequest};
use crate::seat::{Next, Work};
use crate::sequence::Reserving;
use bugs::Bug;
use catalog::Catalog;
use claims::{Claims, Stored};
use company::Company;
use compute_client::controller::Controller;
use compute_client::index::IndexHandle;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use ddl::with_related;
use ore::exit::Exit;
use persist::postgres::in_full;
use persist::{Ahead, MetaWrite, PersistError, ShardAppend};
use put_off::PutOff;
use repr::sqlstate::SqlState;
use repr::{GlobalId, Timestamp, Updates};
use revisions::Alike;
use sql::plan::CatalogView;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use timestamp_oracle::OracleError;

/// How long the committer waits for the indexes it has fed before it lets time advance without them: readers then wait
/// by themselves. Well above a worker's step for a small commit, well below what a writer would notice.
const PUBLISH_PATIENCE: Duration = Duration::from_millis(5);
/// How late a write becomes durable that was shown too early ([`Bug::RaisedBeforeDurable`]): long enough for readers to see it on a
/// busy machine, and for most kills to come meanwhile.
const SLOW_DISK: Duration = Duration::from_millis(50);
/// How long what a materialized view has to write waits for a commit that takes it along.
const CARGO_PATIENCE: Duration = Duration::from_millis(50);
/// How often is looked whether many keys have been published, when there is nothing else to do.
const KEYS_PATIENCE: Duration = Duration::from_millis(50);
/// Rows that have gone from which on time comes to when nobody reads them any more, though nothing happens; and how long after that.
const REMOVED_MANY: usize = 4_096;
const HISTORY_PATIENCE: Duration = Duration::from_secs(1);
/// How often time comes to something that changes with it, at the most: what changes until then changes together.
const CHANGE_EVERY: Duration = Duration::from_millis(10);
/// How long time stands still after it could not go on.
const FAILED_PAUSE: Duration = Duration::from_secs(1);
/// Statements that are committed together at most.
const GROUP_MAX: usize = 4_096;
/// The committer's state.
pub struct Committer {
    env: Arc<Environment>,
    dataflows: Dataflows,
    /// By the dataflow of a subscription: what it depends on.
    subscriptions: BTreeMap<GlobalId, Vec<GlobalId>>,
    next_transient: u64,
    recent: Recent,
    claims: Claims,
    notes: notes::Staged,
    reserving: Reserving,
    /// Time does not come to what changes with it before this, by the monotonic clock.
    changes_from: Duration,
    /// When, by the same clock, time comes to what lets many rows go that nobody reads any more.
    history_goes: Option<Duration>,
    company: Company,
    alike: Alike,
    put_off: PutOff,
    /// What was put off and is looked at anew.
    again: VecDeque<Request>,
}

impl Work for Committer {
    fn awaits(&mut self) -> Next {
        self.again.pop_front().map_or_else(|| Next::Awaited(self.patience()), Next::Request)
    }

    // What may be committed together is one group.
    fn proceed(&mut self, next: Result<Request, RecvTimeoutError>, requests: &Receiver<Request>) -> bool {
        let mut next = match next {
            Ok(first) => Some(first),
            Err(RecvTimeoutError::Timeout) => {
                self.do_due();
                None
            }
            Err(RecvTimeoutError::Disconnected) => return false,
        };
        let mut writes = Vec::new();
        while let Some(request) = next.take() {
            match self.not_put_off(request) {
                None => {}
                Some(Request::Write(write)) => writes.push(write),
                Some(request) => {
                    if !request.is_apart() {
                        self.commit_writes(std::mem::take(&mut writes));
                    }
                    if !self.serve(request) {
                        return false;
                    }
                }
            }
            if writes.len() < GROUP_MAX {
                next = self.take(requests).or_else(|| self.company.await_more(writes.len(), requests, &self.env.clock));
            }
        }
        self.commit_writes(writes);
        self.reserve();
        self.free_stopped();
        true
    }

    fn is_quick(&self) -> bool {
        self.again.is_empty() && self.company.is_quick() && !self.env.oracle.may_block()
    }

    fn commit_alone(&mut self, write: Request) {
        match self.not_put_off(write) {
            Some(Request::Write(write)) => self.commit_writes(vec![write]),
            Some(_) => unreachable!("a write is one"),
            None => {}
        }
    }

    fn is_due(&self) -> bool {
        !self.again.is_empty() || self.patience().is_some()
    }
}

impl Committer {
    /// Brings back everything that the catalog names.
    pub fn boot(
        env: Arc<Environment>,
        catalog: &Catalog,
        controller: Controller,
        boot_ts: Timestamp,
    ) -> Result<Committer, CommitError> {
        let mut boot_ts = boot_ts;
        if let Some(mut meta) = catalog.bootstrap_meta() {
            boot_ts = env.oracle.write_ts()?;
            meta.extend(env.oracle.reservation_due(boot_ts));
            env.persist.commit(boot_ts, &[], &meta)?;
            env.oracle.apply_write(boot_ts)?;
        }
        let (state, diff) = catalog.boot();
        let mut dataflows = Dataflows { controller, materialized: Materialized::default() };
        let published =
            implications::apply(&env, &env.published.load(), state, &diff, &mut dataflows, boot_ts, Plans::new())?;
        env.published.store(Arc::new(published));
        let (subscriptions, next_transient) = (BTreeMap::new(), 1);
        let (recent, company, changes_from) = (Recent::default(), Company::none(), Duration::ZERO);
        let alike = Alike::only(env.published.load().state.revision());
        let (claims, reserving) = (Claims::default(), Reserving::default());
        let notes = notes::Staged::over(&env.persist)?;
        Ok(Committer {
            env,
            dataflows,
            subscriptions,
            next_transient,
            recent,
            claims,
            notes,
            reserving,
            changes_from,
            history_goes: None,
            company,
            alike,
            put_off: PutOff::default(),
            again: VecDeque::new(),
        })
    }

    /// Works until it is told to stop.
    pub fn run(self, requests: Requests) {
        let (handle, clock) = (self.env.handle.clone(), self.env.clock.clone());
        handle.seat().run(Box::new(self), &requests.0, &clock);
    }

    /// Waits for a request, or until something is due without one, and goes on with that. False ends the committer.
    pub fn step(&mut self, Requests(requests): &Requests) -> bool {
        let next = self.awaits().receive(requests, &self.env.clock);
        self.proceed(next, requests)
    }

    /// The next request that is there.
    fn take(&mut self, requests: &Receiver<Request>) -> Option<Request> {
        self.again.pop_front().or_else(|| requests.try_recv().ok())
    }

    /// Does what is asked for beside writes; false ends the committer.
    fn serve(&mut self, request: Request) -> bool {
        match request {
            Request::Write(_) => unreachable!("writes are committed in groups"),
            Request::Ddl(ddl) => self.change_catalog(*ddl),
            Request::WorkedOut(worked_out) => self.worked_out(*worked_out),
            Request::Loaded { table, keys } => self.loaded(table, keys),
            Request::Probe(ProbeRequest { table, keys, reply }) => {
                // A session that has gone does not want the answer.
                let _gone = reply.send(self.probe(table, &keys));
            }
            Request::Watch(table, reply) => {
                let published = self.env.published.load();
                let stored = Stored::of(&self.env, &published);
                let known = published.tables.get(&table).map(|known| &known.constraints);
                // A session that has gone does not want the answer.
                let _gone = reply.send(Ok(known.map(|known| self.claims.watch(stored, table, known))));
            }
            Request::Note(name, reply) => {
                let value = notes::value(&self.env.persist, &name, self.env.clock.now_us());
                // A session that has gone does not want the answer.
                let _gone = reply.send(value);
            }
            Request::Reserve(asked) => self.reserving.ask(asked),
            Request::SetSequence { sequence, to, reply } => reply.send(self.set_sequence(&sequence, to)),
            Request::Progress => self.take_progress(),
            Request::Rebuild(stopped, reply) => {
                // A session that has gone does not want the answer.
                let _gone = reply.send(self.rebuild(stopped));
            }
            Request::Subscribe(request) => {
                let SubscribeRequest { target, depends_on, as_of, reply } = *request;
                // A session that has gone leaves its dataflow to be dropped with what it depends on.
                let _gone = reply.send(self.subscribe(target, depends_on, as_of));
            }
            Request::Tick(at_least, reply) => {
                let has_come = self.env.oracle.known_ts() >= at_least;
                // A session that has gone does not want the answer.
                let _gone = reply.send(if has_come { Ok(()) } else { self.tick() });
            }
            Request::Compared { view, correction } => self.dataflows.materialized.compared(&view, correction),
            Request::Stop => {
                self.give_back();
                self.flush();
                return false;
            }
        }
        true
    }

    /// The request, unless it has to wait for something that takes long.
    fn not_put_off(&mut self, request: Request) -> Option<Request> {
        let published = self.env.published.load();
        if !self.put_off.concerns(&request, with_related(&published, &request)) && !self.closes_to_load(&request) {
            return Some(request);
        }
        self.put_off.put_off(request);
        None
    }

    /// How long a request is waited for, if something is due without one: what changes with time changes when its time has come,
    /// what materialized views have to write waits for a commit, but not for long, many keys are forgotten when they are published, and many
    /// rows that have gone when nobody reads them any more.
    fn patience(&self) -> Option<Duration> {
        let cargo = self.dataflows.materialized.has_cargo().then_some(CARGO_PATIENCE);
        let keys = self.claims.has_many().then_some(KEYS_PATIENCE);
        let history = self.history_goes.map(|at| at.saturating_sub(self.env.clock.monotonic()));
        self.until_change().into_iter().chain(cargo).chain(keys).chain(history).min()
    }

    /// Whether the next step would wait for a request for as long as it takes.
    pub fn is_idle(&self, Requests(requests): &Requests) -> bool {
        self.again.is_empty() && requests.is_empty() && self.patience().is_none()
    }

    /// Does what is due without a request.
    fn do_due(&mut self) {
        if self.claims.has_many() {
            self.claims.forget_published();
        }
        if self.history_goes.is_some_and(|at| at <= self.env.clock.monotonic()) {
            self.history_goes = None;
            self.change();
            self.env.persist.allow_compaction(self.since());
        }
        match self.until_change() {
            Some(Duration::ZERO) => self.change(),
            _ => self.flush(),
        }
    }

    /// How long it is until something changes with time.
    fn until_change(&self) -> Option<Duration> {
        let next = self.dataflows.controller.next_change()?;
        let until_then = Duration::from_micros(next.saturating_sub(self.env.clock.now_us()));
        Some(until_then.max(self.changes_from.saturating_sub(self.env.clock.monotonic())))
    }

    /// Lets time come to what changes with it.
    fn change(&mut self) {
        let pause = match self.tick() {
            Ok(()) => CHANGE_EVERY,
            Err(error) => {
                tracing::error!(%error, "time could not go on; trying again");
                FAILED_PAUSE
            }
        };
        self.changes_from = self.env.clock.monotonic() + pause;
    }

    /// Writes down what materialized views have to, in a commit of its own.
    fn flush(&mut self) {
        while self.dataflows.materialized.has_cargo() {
            if let Err(error) = self.tick() {
                tracing::error!(%error, "materialized views could not be written; trying again with the next commit");
                return;
            }
        }
    }

    /// Starts what a subscription follows.
    fn subscribe(
        &mut self,
        target: Target,
        depends_on: Vec<GlobalId>,
        as_of: Timestamp,
    ) -> Result<Arc<IndexHandle>, CommitError> {
        let published = self.env.published.load_full();
        let cluster = published.state.cluster_by_name(&target.cluster).ok_or_else(|| {
            CommitError::new(SqlState::UNDEFINED_OBJECT, format!("unknown cluster '{}'", target.cluster))
        })?;
        cluster.check_for_users()?;
        if depends_on.iter().any(|id| matches!(id, GlobalId::User(_)) && published.state.item(*id).is_none()) {
            return Err(CommitError::new(SqlState::UNDEFINED_TABLE, "a relation was dropped before it was followed"));
        }
        let id = GlobalId::Transient(self.next_transient);
        self.next_transient += 1;
        let (plan, from) = (target.plan, self.env.oracle.known_ts());
        let job = Job { id, name: "subscribe".to_owned(), cluster: cluster.id, plan, key: Vec::new(), as_of, from };
        let handle = maintain(&self.env, &published, &mut self.dataflows, job, Durable::No)?;
        self.subscriptions.insert(id, depends_on);
        Ok(handle)
    }

    /// Ends subscriptions whose sessions have, and those that depend on what a change of the catalog took away.
    fn end_subscriptions(&mut self, gone: &[GlobalId]) {
        let orphans = self.env.handle.take_orphans();
        let bereft = |(id, depends_on): (&GlobalId, &Vec<GlobalId>)| {
            let is_over = orphans.contains(id) || depends_on.iter().any(|id| gone.contains(id));
            is_over.then_some(*id)
        };
        let over: Vec<GlobalId> = self.subscriptions.iter().filter_map(bereft).collect();
        for id in over {
            self.subscriptions.remove(&id);
            self.dataflows.controller.drop_index(id);
        }
    }

    /// Lets time come to now, though nothing happened.
    fn tick(&mut self) -> Result<(), CommitError> {
        let ts = self.write_ts()?;
        self.make_durable(ts, &[], &[], Vec::new())?;
        self.go_on(ts)?;
        self.raise(ts)
    }

    /// Lets everybody see what happened up to a time. If another process has taken over, nobody is told that it happened.
    fn raise(&self, ts: Timestamp) -> Result<(), CommitError> {
        self.env.metrics.oracle_applies.inc();
        match self.env.oracle.apply_write(ts) {
            Ok(()) => {
                self.env.handle.tell_raised();
                Ok(())
            }
            Err(error @ OracleError::Fenced { .. }) => Err(error.into()),
            // What is durable can be neither shown nor taken back; a restart finds it.
            Err(error) => self.give_up("a durable write cannot be applied", &error.into()),
        }
    }

    /// Takes what materialized views have published.
    fn take_progress(&mut self) {
        self.end_subscriptions(&[]);
        let (since, Dataflows { controller, materialized }) = (self.since(), &mut self.dataflows);
        if let Err(error) = materialized.take_all(&self.env, controller, since) {
            // What reads them would be wrong from here on.
            self.give_up("a materialized view cannot be followed", &error);
        }
    }

    /// Ends the process, which can go on neither with what has failed nor without.
    fn give_up(&self, what: &str, error: &CommitError) -> ! {
        let exit = match error {
            CommitError::Persist(error) => error.exit(),
            _ => Exit::StorageFailed,
        };
        tracing::error!(error = in_full(error), "{what}; ending the process");
        (self.env.end)(exit, &format_args!("{what}: {}", in_full(error)))
    }

    /// Frees the dataflows that were stopped for want of memory, and lets their tables be read without them.
    fn free_stopped(&mut self) {
        if !self.env.handle.was_rung() {
            return;
        }
        let stopped = self.dataflows.controller.free_stopped();
        if !stopped.is_empty() {
            let published = implications::without(&self.env.published.load(), &stopped);
            self.env.published.store(Arc::new(published));
        }
    }

    fn commit_writes(&mut self, writes: Vec<WriteRequest>) {
        if writes.is_empty() {
            return;
        }
        let started = self.env.clock.monotonic();
        let published = self.env.published.load_full();
        let mut tables: BTreeMap<GlobalId, Vec<Arc<Updates>>> = BTreeMap::new();
        let (mut replies, mut ahead) = (Vec::with_capacity(writes.len()), Vec::new());
        let mut violations = Vec::new();
        for write in writes {
            match self.admit(&published, &tables, &write) {
                Ok(Committed::At) => {
                    for write in write.writes {
                        ahead.extend(write.ahead);
                        if !write.updates.is_empty() {
                            tables.entry(write.table).or_default().push(write.updates);
                        }
                    }
                    replies.push((write.reply, Committed::At));
                }
                // Who is told that a key is taken, or not there, takes that for being so: not before it is.
                Ok(violates @ Committed::Violates(_)) => violations.push((write.reply, violates)),
                refused => {
                    if matches!(refused, Ok(Committed::Conflict)) {
                        self.env.metrics.conflicts.inc();
                    }
                    // A session that has gone does not want the answer.
                    let _gone = write.reply.send(refused);
                }
            }
        }
        self.env.metrics.group_size.observe(f64::from(u32::try_from(replies.len()).unwrap_or(u32::MAX)));
        let is_nothing = tables.is_empty() && self.notes.is_empty();
        let result = if is_nothing { Ok(()) } else { self.append(&published, tables, &ahead) };
        self.claims.forget();
        self.notes.clear();
        let now = self.env.clock.monotonic();
        let took = now.saturating_sub(started);
        self.env.metrics.append_seconds.observe_duration(took);
        let size = replies.len();
        let failure = result.err().map(Arc::new);
        for (reply, committed) in replies.into_iter().chain(violations) {
            let answer = match &failure {
                None => Ok(committed),
                Some(error) => Err(shared_error(error)),
            };
            // A session that has gone does not want the answer.
            let _gone = reply.send(answer);
        }
        self.company.answered(size, took, now);
    }

    /// Steps 2 to 5.
    fn append(
        &mut self,
        published: &Published,
        tables: BTreeMap<GlobalId, Vec<Arc<Updates>>>,
        ahead: &[Ahead],
    ) -> Result<(), CommitError> {
        let ts = self.write_ts()?;
        let tables: Tables = tables.into_iter().collect();
        let fed = self.dataflows.controller.append(ts, self.since(), &tables)?;
        if bugs::is(Bug::RaisedBeforeDurable) && self.env.oracle.reservation_due(ts).is_none() {
            self.show(published, ts, &tables);
            self.raise(ts)?;
            std::thread::sleep(self.env.clock.sleep_for(SLOW_DISK));
        }
        if let Err(error) = self.make_durable(ts, &tables, ahead, Vec::new()) {
            self.start_over(&fed);
            return Err(error.into());
        }
        self.claims.settle(ts);
        if removes_many(&tables) {
            // Without another commit time would stay, and what has gone with it.
            self.history_goes =
                Some(self.env.clock.monotonic() + Duration::from_micros(self.env.retain_us) + HISTORY_PATIENCE);
        }
        self.show(published, ts, &tables);
        self.recent.remember(ts, &tables);
        self.await_published(ts, &fed);
        self.raise(bugs::late(Bug::AcknowledgedBeforeRaised, ts))
    }

    /// Shows what has become durable where that can be done without the workers, and sets the tables' clocks.
    fn show(&mut self, published: &Published, ts: Timestamp, tables: &Tables) {
        self.dataflows.controller.show(ts, tables);
        for (table, _) in tables.iter() {
            published.tables[table].clock.advance(ts);
        }
    }

    /// Waits for a moment until the dataflows have published, each before what reads it.
    fn await_published(&mut self, ts: Timestamp, fed: &[Arc<IndexHandle>]) {
        let (since, mut patience) = (self.since(), PUBLISH_PATIENCE);
        for handle in fed {
            let Dataflows { controller, materialized } = &mut self.dataflows;
            patience = controller.await_published(handle, ts, patience);
            if let Err(error) = materialized.take(handle.id, ts, &self.env, controller, since) {
                self.give_up("a materialized view cannot be followed", &error);
            }
        }
    }

    /// Lets the dataflows in which something changes with time come to a time at which nothing is written.
    fn go_on(&mut self, ts: Timestamp) -> Result<(), CommitError> {
        let fed = self.dataflows.controller.append(ts, self.since(), &Tables::default())?;
        self.dataflows.controller.show(ts, &Tables::default());
        self.await_published(ts, &fed);
        Ok(())
    }

    /// Builds anew what was fed something that has not become durable.
    fn start_over(&mut self, fed: &[Arc<IndexHandle>]) {
        if let Err(error) = self.build_anew(fed.iter().map(|handle| handle.id).collect()) {
            self.give_up("what was fed an uncommitted write cannot be built anew", &error);
        }
    }

    /// Builds anew what was stopped and still is.
    fn rebuild(&mut self, mut stopped: Vec<GlobalId>) -> Result<(), CommitError> {
        let published = self.env.published.load_full();
        stopped.retain(|id| published.started().any(|it| it.handle.id == *id && it.handle.stopped().is_some()));
        if stopped.is_empty() { Ok(()) } else { self.build_anew(stopped) }
    }

    fn build_anew(&mut self, ids: Vec<GlobalId>) -> Result<(), CommitError> {
        let (before, ts) = (self.env.published.load_full(), self.env.oracle.known_ts());
        let after = implications::start_over(&self.env, &before, ids, &mut self.dataflows, ts)?;
        self.env.published.store(Arc::new(after));
        Ok(())
    }

    /// How often these keys are there, by what is committed.
    fn probe(&mut self, table: GlobalId, keys: &[(u32, Vec<u8>)]) -> Result<Probed, CommitError> {
        let (published, now) = (self.env.published.load(), self.env.oracle.known_ts());
        let stored = Stored::of(&self.env, &published);
        let counts = match published.tables.get(&table) {
            Some(known) => self.claims.counts(stored, table, &known.constraints, keys)?,
            None => vec![0; keys.len()],
        };
        Ok(Probed { ts: now, counts })
    }

    fn write_ts(&self) -> Result<Timestamp, CommitError> {
        self.env.metrics.oracle_writes.inc();
        Ok(self.env.oracle.write_ts()?)
    }

    /// Commits updates to tables, and what materialized views have to write. These
    /// do not come along with a change of the catalog, which may drop them.
    fn make_durable(
        &mut self,
        ts: Timestamp,
        tables: &[(GlobalId, Vec<Arc<Updates>>)],
        ahead: &[Ahead],
        meta: Vec<MetaWrite>,
    ) -> Result<(), PersistError> {
        let mut cargo = self.dataflows.materialized.cargo(tables.iter().map(|(table, _)| table));
        if !meta.is_empty() {
            cargo.leave();
        }
        let all = tables.iter().chain(&cargo.updates);
        let appends: Vec<ShardAppend<'_>> =
            all.map(|(id, updates)| ShardAppend { shard: (*id).into(), updates }).collect();
        // What the change says of a materialized view's mark comes last.
        cargo.meta.extend(meta);
        self.commit(ts, &appends, ahead, std::mem::take(&mut cargo.meta))?;
        self.dataflows.materialized.delivered(&cargo);
        Ok(())
    }

    fn commit(
        &mut self,
        ts: Timestamp,
        appends: &[ShardAppend<'_>],
        ahead: &[Ahead],
        mut meta: Vec<MetaWrite>,
    ) -> Result<(), PersistError> {
        meta.extend(self.env.oracle.reservation_due(ts));
        meta.extend(self.notes.writes(&self.env.persist, self.env.clock.now_us())?);
        meta.extend(self.reserving.due(&self.env.published.load().sequences, self.env.clock.monotonic()));
        let committed = self.env.persist.commit_ahead(ts, appends, ahead, &meta);
        let failure = committed.as_ref().err().map(|error| (error.sqlstate(), error.to_string()));
        self.reserving.settle(failure.map(|(sqlstate, why)| move || CommitError::new(sqlstate, why.clone())));
        committed.inspect_err(|error| {
            self.notes.failed();
            self.env.metrics.append_failures.inc();
            tracing::error!(%error, "commit failed");
            if error.is_indeterminate() {
                // Whether it is durable is known only after the directory has been opened again, and nobody may be told
                // either way before.
                (self.env.end)(Exit::StorageFailed, &in_full(error));
            }
        })?;
        self.env.persist.allow_compaction(self.since());
        Ok(())
    }

    /// Reads below this time are over.
    fn since(&self) -> Timestamp {
        let read_ts = self.env.oracle.known_ts();
        let held = self.env.holds.oldest().filter(|_| !bugs::is(Bug::TransactionsHoldNothing));
        held.map_or(read_ts, |held| held.min(read_ts)).saturating_sub(self.env.retain_us)
    }
}

/// Whether updates take away so many rows that these are worth some work.
fn removes_many(tables: &[(GlobalId, Vec<Arc<Updates>>)]) -> bool {
    let all = || tables.iter().flat_map(|(_, updates)| updates);
    all().map(|updates| updates.len()).sum::<usize>() >= REMOVED_MANY
        && all().flat_map(|updates| updates.diffs()).filter(|diff| **diff < 0).nth(REMOVED_MANY - 1).is_some()
}

/// The same failure for every member of a group.
fn shared_error(error: &Arc<CommitError>) -> CommitError {
    match error.as_ref() {
        CommitError::Persist(error) => CommitError::Persist(Arc::clone(error)),
        other => CommitError::new(other.sqlstate(), other.to_string()),
    }
}
