//! What all sessions share, and how a session begins.
//!
//! Everything a statement reads besides its own session is here as an immutable value: [`Published`] holds the catalog with
//! the handles on everything that it names, swapped as one by the committer after each DDL.

use crate::activity::Activity;
use crate::advisory::{LockTable, Owner};
use crate::cancel::Cancel;
use crate::constraint::TableConstraints;
use crate::error::AdapterError;
use crate::group_commit::{Committer, Request};
use crate::history::History;
use crate::introspection;
use crate::metrics::Metrics;
use crate::password::Hashing;
use crate::plan_cache::PlanCache;
use crate::sequence::Sequence;
use crate::session::{Session, allowed_role};
use arc_swap::ArcSwap;
use catalog::Catalog;
use catalog::builtin::functions::BuiltinFunctions;
use catalog::builtin::introspection::{CollectionStatus, Encryption};
use catalog::state::State;
use catalog::transact::{Prepared, StateDiff};
use compute_client::clock::CollectionClock;
use compute_client::controller::{Controller, SpawnWorkers};
use compute_client::index::IndexHandle;
use compute_client::plan::IndexInfo;
use compute_client::read_hold::ReadHolds;
use crossbeam_channel::Sender;
use ore::clock::Clock;
use ore::memory::Share;
use ore::metrics::Registry;
use parking_lot::Mutex;
use persist::PersistClient;
use rand::Rng;
use repr::sqlstate::SqlState;
use repr::{GlobalId, RelationDesc, Timestamp};
use sql::engine::session::{Backends, Signal};
use sql::engine::{CatalogFunctions, Engine};
use sql::error::SqlError;
use sql::names::{ObjectId, Privilege};
use sql::plan::privileges::has_privilege;
use sql::plan::{CatalogView, ItemKind, ItemRef, RoleRef};
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use timestamp_oracle::TimestampOracle;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The user that the internal port trusts with everything.
const SYSTEM_USER: &str = "mz_system";

/// The catalog and the handles on what it names, at one revision.
pub(crate) struct Published {
    /// The catalog.
    pub(crate) state: Arc<State>,
    /// Every table.
    pub(crate) tables: HashMap<GlobalId, Table>,
    /// By relation: its indexes.
    pub(crate) indexes: HashMap<GlobalId, Vec<Arc<IndexInfo>>>,
    /// Every sequence.
    pub(crate) sequences: HashMap<GlobalId, Arc<Sequence>>,
    /// By oid: the sequences.
    pub(crate) sequence_oids: HashMap<u32, GlobalId>,
    /// The functions that only the catalog can answer.
    pub(crate) functions: Arc<dyn CatalogFunctions>,
    /// Whether reads of indexes are answered on their connection's thread.
    pub(crate) fast_path: bool,
    /// What a transaction that has not committed has created: nothing is stored of it yet.
    pub(crate) created: HashSet<GlobalId>,
    /// By the id that it had, the id of a table that has had other columns since.
    pub(crate) successors: HashMap<GlobalId, GlobalId>,
    /// Indexes of tables that were stopped for want of memory: their tables are read without them.
    pub(crate) stopped: Vec<Arc<IndexInfo>>,
}

/// A table as readers and the committer need it.
#[derive(Clone)]
pub(crate) struct Table {
    /// When it was last written.
    pub(crate) clock: Arc<CollectionClock>,
    /// Its columns.
    pub(crate) desc: Arc<RelationDesc>,
    /// What it demands of its rows.
    pub(crate) constraints: Arc<TableConstraints>,
    /// Before this time its rows are not to be had: they were others, under another id.
    pub(crate) readable_from: Timestamp,
}

impl Table {
    /// A table as the catalog has it.
    pub(crate) fn new(
        engine: &Engine,
        state: &State,
        item: &ItemRef,
        clock: Arc<CollectionClock>,
        readable_from: Timestamp,
    ) -> Result<Table, AdapterError> {
        let constraints = TableConstraints::of(engine, state, item)?;
        Ok(Table { clock, desc: Arc::clone(&item.desc), constraints, readable_from })
    }
}

impl Published {
    /// A catalog with nothing in it.
    pub(crate) fn empty() -> Published {
        Published::new(Arc::new(State::empty()), HashMap::new(), HashMap::new(), HashMap::new())
    }

    /// A catalog with these handles.
    pub(crate) fn new(
        state: Arc<State>,
        tables: HashMap<GlobalId, Table>,
        indexes: HashMap<GlobalId, Vec<Arc<IndexInfo>>>,
        sequences: HashMap<GlobalId, Arc<Sequence>>,
    ) -> Published {
        let functions = Arc::new(BuiltinFunctions::new(Arc::clone(&state)));
        let fast_path = state.system().get_bool("enable_frontend_peek_sequencing");
        let (created, successors) = (HashSet::new(), HashMap::new());
        let (sequence_oids, stopped) = (HashMap::new(), Vec::new());
        let mut published = Published {
            state,
            tables,
            indexes,
            sequences,
            sequence_oids,
            functions,
            fast_path,
            created,
            successors,
            stopped,
        };
        for id in published.sequences.keys().copied().collect::<Vec<_>>() {
            published.note_oid(id);
        }
        published
    }

    /// What comes after it: another state of the catalog, and the same handles.
    pub(crate) fn next(&self, state: Arc<State>) -> Published {
        let (successors, stopped) = (self.successors.clone(), self.stopped.clone());
        let next = Published::new(state, self.tables.clone(), self.indexes.clone(), self.sequences.clone());
        Published { successors, stopped, ..next }
    }

    /// Every index and materialized view that was started, those that were stopped since included.
    pub(crate) fn started(&self) -> impl Iterator<Item = &Arc<IndexInfo>> {
        self.indexes.values().flatten().chain(&self.stopped)
    }

    /// Adds a sequence, or puts it in the place of one before.
    pub(crate) fn put_sequence(&mut self, sequence: Arc<Sequence>) {
        let id = sequence.id;
        self.sequences.insert(id, sequence);
        self.note_oid(id);
    }

    fn note_oid(&mut self, sequence: GlobalId) {
        if let Some(item) = self.state.item(sequence) {
            self.sequence_oids.insert(item.oid, sequence);
        }
    }

    /// What the transaction sees that has made this change and not committed: without handles on what is new, which has no
    /// dataflows yet, and on what has gone.
    pub(crate) fn staged(&self, engine: &Engine, prepared: Prepared, number: u64) -> Result<Published, AdapterError> {
        let state = Arc::new(prepared.state.staged(number));
        let (mut tables, mut indexes, mut sequences) =
            (self.tables.clone(), self.indexes.clone(), self.sequences.clone());
        sequences.retain(|id, _| state.item(*id).is_some());
        tables.retain(|id, _| state.item(*id).is_some());
        indexes.values_mut().for_each(|indexes| indexes.retain(|index| state.item(index.handle.id).is_some()));
        for change in &prepared.diff {
            let restart = match change {
                StateDiff::SequenceAltered(_, restart) => *restart,
                _ => None,
            };
            if let StateDiff::SequenceCreated(id) | StateDiff::SequenceAltered(id, _) = change
                && let Some(item) = state.item(*id)
            {
                sequences.extend(Sequence::staged(&item, sequences.get(id), restart).map(|sequence| (*id, sequence)));
            }
            if let StateDiff::TableCreated(id) | StateDiff::TableAltered(id) = change
                && let Some(item) = state.item(*id)
            {
                let (clock, from) = match tables.get(id) {
                    Some(table) => (Arc::clone(&table.clock), table.readable_from),
                    None => (Arc::default(), 0),
                };
                tables.insert(*id, Table::new(engine, &state, &item, clock, from)?);
            }
        }
        let created = self.created.iter().copied().chain(prepared.created).collect();
        let mut successors = self.successors.clone();
        successors.extend(prepared.rewritten);
        let stopped = self.stopped.clone();
        Ok(Published { created, successors, stopped, ..Published::new(state, tables, indexes, sequences) })
    }

    /// The table that had this id before it got other columns.
    pub(crate) fn successor(&self, id: GlobalId) -> Option<Arc<ItemRef>> {
        let mut id = *self.successors.get(&id)?;
        while let Some(next) = self.successors.get(&id) {
            id = *next;
        }
        self.state.item(id)
    }

    /// What maintains a materialized view.
    pub(crate) fn maintained(&self, id: GlobalId) -> Option<&Arc<IndexHandle>> {
        self.indexes_on(id).iter().map(|index| &index.handle).find(|handle| handle.id == id)
    }

    /// What was stopped of what is maintained under this id, or on the table with it.
    pub(crate) fn stopped_on(&self, id: GlobalId) -> Vec<GlobalId> {
        let is_on = |index: GlobalId| match self.state.item(index).map(|item| item.kind.clone()) {
            Some(ItemKind::Index(index)) => index.on == id,
            _ => false,
        };
        let all = self.started().map(|index| &index.handle).filter(|handle| handle.stopped().is_some());
        all.map(|handle| handle.id).filter(|index| *index == id || is_on(*index)).collect()
    }

    /// The indexes on a relation.
    pub(crate) fn indexes_on(&self, id: GlobalId) -> &[Arc<IndexInfo>] {
        self.indexes.get(&id).map_or(&[], Vec::as_slice)
    }
}

/// What all sessions share.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    /// What statements take of the memory.
    pub(crate) memory: Arc<Share>,
    /// What large messages take of it.
    messages: Arc<Share>,
    pub(crate) published: ArcSwap<Published>,
    pub(crate) oracle: Arc<dyn TimestampOracle>,
    pub(crate) persist: PersistClient,
    pub(crate) holds: Arc<ReadHolds>,
    pub(crate) commits: Sender<Request>,
    pub(crate) plans: PlanCache,
    pub(crate) metrics: Metrics,
    pub(crate) clock: Clock,
    /// Runs ad hoc queries, so that they do not hold up the threads of connections.
    pub(crate) adhoc: Handle,
    pub(crate) sessions: Mutex<HashMap<u32, SessionHandle>>,
    /// When the server started, in microseconds since 1970.
    pub(crate) started_us: i64,
    /// The advisory locks.
    pub(crate) locks: Arc<LockTable>,
    /// Told whenever time has come further.
    pub(crate) raised: Notify,
    /// Dataflows of subscriptions that have ended.
    pub(crate) orphans: Mutex<Vec<GlobalId>>,
    /// Set when a dataflow was stopped that the committer does not know of.
    pub(crate) bell: Arc<AtomicBool>,
    /// Held while a statement that changes the catalog is planned and carried out: sessions that do so at the same time would
    /// make each other's plans stale, and the slower one's again and again.
    pub(crate) changing: tokio::sync::Mutex<()>,
    pub(crate) hashing: Hashing,
    pub(crate) history: History,
    /// How far back reads may go, in microseconds: transactions and slow readers have this long to take a hold.
    pub(crate) retain_us: Timestamp,
    /// The largest number that a transaction was given.
    pub(crate) transaction_numbers: Arc<AtomicI64>,
    next_connection: AtomicU32,
    next_staged: AtomicU64,
    shutdown: CancellationToken,
}

/// What others know of a session, and may do to it.
#[derive(Clone)]
pub(crate) struct SessionHandle {
    /// What a CancelRequest must know.
    pub(crate) secret: u32,
    /// Who logged in.
    pub(crate) role: Arc<RoleRef>,
    pub(crate) cancel: Arc<Cancel>,
    pub(crate) ended: CancellationToken,
    pub(crate) activity: Arc<Activity>,
}

/// How to start an adapter.
pub struct Config {
    /// The opened data directory.
    pub persist: PersistClient,
    /// The timestamp oracle over it.
    pub oracle: Arc<dyn TimestampOracle>,
    /// Starts timely workers.
    pub spawner: Box<dyn SpawnWorkers>,
    /// The runtime of ad hoc queries.
    pub adhoc: Handle,
    /// The memory, of which everything that is accounted for is taken.
    pub memory: Arc<Share>,
    /// What ad hoc queries may use of it, all of them together, in bytes.
    pub adhoc_memory: usize,
    /// What indexes and views may use of it, all of them together, in bytes.
    pub maintained_memory: usize,
    /// The source of wall-clock time.
    pub clock: Clock,
    /// Where metrics are registered.
    pub registry: Registry,
    /// Defaults of system parameters, from the command line.
    pub system_defaults: Vec<(String, String)>,
    /// How far back reads may go without a hold.
    pub retain: Duration,
}

/// A handle on the adapter; cheap to clone.
#[derive(Clone)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
}

/// What a connection asks for when it begins.
#[derive(Clone, Debug)]
pub struct StartupParams {
    /// The role.
    pub user: String,
    /// The database; the user's name if absent, as libpq has it, or the default if there is none of that name.
    pub database: Option<String>,
    /// Whether it came in on the internal port, which is trusted.
    pub internal: bool,
    /// All other parameters, `options=-c …` taken apart.
    pub options: Vec<(String, String)>,
    /// Where it came from.
    pub peer: Option<SocketAddr>,
    /// At which address of the server it came in.
    pub local: Option<SocketAddr>,
    /// How it is encrypted, if it is.
    pub encryption: Option<Encryption>,
}

/// Stops the committer when dropped, after it has finished what it had begun.
pub struct Running {
    shared: Arc<Shared>,
    committer: Option<std::thread::JoinHandle<()>>,
}

impl Client {
    /// Loads the catalog, starts the clusters, rehydrates the indexes and starts the committer.
    pub fn start(config: Config) -> Result<(Client, Running), AdapterError> {
        let catalog = Catalog::open(&config.persist, &config.system_defaults)?;
        let (commits, requests) = crossbeam_channel::bounded(16_384);
        let boot_ts = config.oracle.known_ts();
        let memory = config.memory.child("ad hoc queries", config.adhoc_memory);
        let messages = config.memory.child("large messages", config.memory.limit() / 2);
        let shared = Arc::new(Shared {
            engine: Engine::with_memory(Arc::clone(&memory)),
            memory,
            messages,
            published: ArcSwap::from_pointee(Published::empty()),
            oracle: config.oracle,
            persist: config.persist,
            holds: Arc::new(ReadHolds::default()),
            commits,
            plans: PlanCache::default(),
            metrics: Metrics::register(&config.registry),
            started_us: i64::try_from(config.clock.now_us()).unwrap_or(i64::MAX),
            clock: config.clock,
            adhoc: config.adhoc,
            sessions: Mutex::new(HashMap::new()),
            locks: Arc::default(),
            raised: Notify::new(),
            orphans: Mutex::default(),
            bell: Arc::default(),
            changing: tokio::sync::Mutex::default(),
            hashing: Hashing::default(),
            history: History::default(),
            retain_us: Timestamp::try_from(config.retain.as_micros()).unwrap_or(Timestamp::MAX),
            // Above all numbers of earlier runs, of which there was less than one in a microsecond.
            transaction_numbers: Arc::new(AtomicI64::new(i64::try_from(boot_ts).unwrap_or(i64::MAX))),
            next_connection: AtomicU32::new(1),
            next_staged: AtomicU64::new(0),
            shutdown: CancellationToken::new(),
        });
        let controller = Controller::new(config.spawner, &config.memory, config.maintained_memory);
        let committer = Committer::boot(Arc::clone(&shared), &catalog, controller, boot_ts)?;
        let thread = ore::thread::spawn_critical("committer", move || committer.run(&requests));
        let running = Running { shared: Arc::clone(&shared), committer: Some(thread) };
        Ok((Client { shared }, running))
    }

    /// What large messages, and the rows of large results, take of the memory.
    pub fn message_memory(&self) -> &Arc<Share> {
        &self.shared.messages
    }

    /// Begins a session of a user who has proved who it is, if that was asked for. Errors: unknown database 3D000, no
    /// CONNECT on it 42501, unknown role or one that may not log in 28000, too many connections 53300, stopping 57P03, bad
    /// settings 22023.
    pub fn connect(&self, startup: StartupParams) -> Result<Session, AdapterError> {
        let shared = &self.shared;
        if shared.shutdown.is_cancelled() {
            return Err(AdapterError::new(SqlState::CANNOT_CONNECT_NOW, "the server is shutting down"));
        }
        let published = shared.published.load_full();
        let state = &published.state;
        let refused = |message: String| AdapterError::new(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message);
        let role = state
            .role_by_name(&startup.user)
            .ok_or_else(|| refused(format!("role \"{}\" does not exist", startup.user)))?;
        if startup.user == SYSTEM_USER && !startup.internal {
            return Err(refused(format!("role \"{SYSTEM_USER}\" may log in on the internal port only")));
        }
        if !role.login {
            return Err(refused(format!("role \"{}\" is not permitted to log in", startup.user)));
        }
        let database = self.database_for(&startup.user, startup.database.clone());
        let Some(found) = state.database_by_name(&database) else {
            let message = format!("database \"{database}\" does not exist");
            return Err(AdapterError::new(SqlState::INVALID_CATALOG_NAME, message));
        };
        if !has_privilege(state.as_ref(), role.id, ObjectId::Database(found.id), Privilege::Connect) {
            return Err(AdapterError::with_detail(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("permission denied for database \"{database}\""),
                "User does not have CONNECT privilege.",
            ));
        }
        let role_defaults = state.role_settings(role.id);
        let vars = sql::vars::SessionVars::new(
            state.system(),
            &startup.user,
            &database,
            role.superuser,
            &role_defaults,
            &startup.options,
        )?;
        allowed_role(state, &role, vars.get("role").unwrap_or_default())?;
        let (id, secret) = (shared.next_connection.fetch_add(1, Ordering::Relaxed), rand::rng().random());
        let now = i64::try_from(shared.clock.now_us()).unwrap_or(i64::MAX);
        let handle = SessionHandle {
            secret,
            activity: Arc::new(Activity::new(role.id, &database, &startup, now)),
            role,
            cancel: Arc::default(),
            ended: shared.shutdown.child_token(),
        };
        self.register(id, handle.clone())?;
        let locks = Owner::new(Arc::clone(&shared.locks), id, found.oid);
        let mut session = Session::new(Arc::clone(shared), vars, locks, (id, handle));
        session.notices.extend(sql::vars::startup_notices(&startup.options).into_iter().map(Into::into));
        Ok(session)
    }

    /// The database that a user means: one that was named, or the user's, or the default.
    pub fn database_for(&self, user: &str, named: Option<String>) -> String {
        let state = &self.shared.published.load().state;
        match named {
            Some(name) => name,
            None if state.database_by_name(user).is_some() => user.to_owned(),
            None => state.system().get("database").unwrap_or("materialize").to_owned(),
        }
    }

    /// Cancels what the session with this key runs; a wrong key is ignored.
    pub fn cancel(&self, connection_id: u32, secret: u32) {
        if let Some(session) = self.shared.sessions.lock().get(&connection_id)
            && session.secret == secret
        {
            session.cancel.request();
        }
    }

    /// Ends all sessions with 57P01 and accepts no more.
    pub fn shutdown(&self) {
        self.shared.shutdown.cancel();
    }

    /// How many sessions are open.
    pub fn session_count(&self) -> usize {
        self.shared.sessions.lock().len()
    }

    /// The value of a system parameter.
    pub fn system_parameter(&self, name: &str) -> Option<String> {
        self.shared.published.load().state.system().get(name).map(str::to_owned)
    }

    /// Lets time come to now, which is a write that changes nothing. Errors: that of every write.
    ///
    /// # Cancellation
    /// Safe to drop.
    pub async fn tick(&self) -> Result<(), AdapterError> {
        self.shared.tick().await
    }

    /// For every index and materialized view: id, name, upper, since, rows, bytes; for `/metrics`.
    pub fn index_statistics(&self) -> Vec<IndexStatistics> {
        let published = self.shared.published.load();
        let read_ts = self.shared.oracle.known_ts();
        let statistics = |index: &Arc<IndexInfo>| {
            let status = introspection::maintained(&self.shared, &index.handle, read_ts);
            let CollectionStatus { id, since, upper, arrangement, .. } = status;
            let (rows, bytes) = arrangement.map_or((0, 0), |held| (held.record_count, held.byte_count));
            IndexStatistics { id, name: index.name.clone(), upper, since, rows, bytes }
        };
        published.indexes.values().flatten().map(statistics).collect()
    }

    fn register(&self, id: u32, handle: SessionHandle) -> Result<(), AdapterError> {
        let limit =
            |name| self.shared.published.load().state.system().get_int(name).and_then(|n| usize::try_from(n).ok());
        let max = limit("max_connections").unwrap_or(usize::MAX);
        let reserved = limit("superuser_reserved_connections").unwrap_or(0);
        let mut sessions = self.shared.sessions.lock();
        let free_for_all = max.saturating_sub(reserved);
        if sessions.len() >= max || (!handle.role.superuser && sessions.len() >= free_for_all) {
            let message = if handle.role.superuser {
                "sorry, too many clients already"
            } else {
                "remaining connection slots are reserved for superusers"
            };
            return Err(AdapterError::new(SqlState::TOO_MANY_CONNECTIONS, message));
        }
        sessions.insert(id, handle);
        self.shared.metrics.sessions.set(i64::try_from(sessions.len()).unwrap_or(i64::MAX));
        Ok(())
    }
}

/// What `/metrics` shows of an index.
#[derive(Clone, Debug)]
pub struct IndexStatistics {
    /// The index.
    pub id: GlobalId,
    /// Its name.
    pub name: String,
    /// Complete below this time.
    pub upper: Timestamp,
    /// Readable from this time.
    pub since: Timestamp,
    /// Updates held.
    pub rows: usize,
    /// Bytes held.
    pub bytes: usize,
}

impl Shared {
    /// The current read timestamp, at or above every acknowledged write, if it can be had without waiting.
    #[inline]
    pub(crate) fn read_ts_fast(&self) -> Option<Timestamp> {
        let ts = self.oracle.read_ts_fast();
        if ts.is_some() {
            self.metrics.oracle_fast_reads.inc();
        }
        ts
    }

    /// The current read timestamp, at or above every acknowledged write.
    ///
    /// # Cancellation
    /// Safe to drop.
    pub(crate) async fn read_ts(&self) -> Result<Timestamp, AdapterError> {
        match self.read_ts_fast() {
            Some(ts) => Ok(ts),
            None => {
                self.metrics.oracle_slow_reads.inc();
                Ok(self.oracle.read_ts().await?)
            }
        }
    }

    /// A number for a catalog that only one transaction knows.
    pub(crate) fn next_staged(&self) -> u64 {
        self.next_staged.fetch_add(1, Ordering::Relaxed)
    }

    /// Forgets a session.
    pub(crate) fn unregister(&self, connection_id: u32) {
        let mut sessions = self.sessions.lock();
        sessions.remove(&connection_id);
        self.metrics.sessions.set(i64::try_from(sessions.len()).unwrap_or(i64::MAX));
    }
}

/// The server's sessions, for one of them.
pub(crate) struct Others(pub(crate) Arc<Shared>);

impl Backends for Others {
    fn signal(&self, pid: i32, signal: Signal, user: &str) -> Result<bool, SqlError> {
        let published = self.0.published.load();
        let sessions = self.0.sessions.lock();
        let Some(session) = u32::try_from(pid).ok().and_then(|pid| sessions.get(&pid)) else { return Ok(false) };
        if !may_signal(&published.state, user, session.role.as_ref()) {
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, refusal(signal, session.role.superuser)));
        }
        match signal {
            Signal::Cancel => session.cancel.request(),
            Signal::Terminate => {
                session.cancel.end();
                session.ended.cancel();
            }
        }
        Ok(true)
    }
}

/// Superusers may end everybody's work, others that of the roles whose members they are.
fn may_signal(state: &State, user: &str, target: &RoleRef) -> bool {
    state.role_by_name(user).is_some_and(|role| {
        role.superuser || (!target.superuser && (role.id == target.id || state.is_member(role.id, target.id)))
    })
}

fn refusal(signal: Signal, of_superuser: bool) -> &'static str {
    match (signal, of_superuser) {
        (Signal::Cancel, true) => "must be a superuser to cancel superuser query",
        (Signal::Cancel, false) => {
            "must be a member of the role whose query is being canceled or member of pg_signal_backend"
        }
        (Signal::Terminate, true) => "must be a superuser to terminate superuser process",
        (Signal::Terminate, false) => {
            "must be a member of the role whose process is being terminated or member of pg_signal_backend"
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.shutdown.cancel();
        // A committer that has ended already cannot be asked to.
        let _ended = self.shared.commits.send(Request::Stop);
        if let Some(thread) = self.committer.take() {
            // Its panic has ended the process already.
            let _panicked = thread.join();
        }
        self.shared.persist.close();
    }
}
