//! The adapter from outside: how it is started, and how a session begins.

use crate::activity::Activity;
use crate::error::AdapterError;
use crate::history::History;
use crate::introspection;
use crate::locks::Owner;
use crate::metrics::Metrics;
use crate::password::{self, Credentials, Hashing};
use crate::plan_cache::PlanCache;
use crate::reading::admission::Admission;
use crate::reading::subscribe::stream::Streams;
use crate::rights::allowed_role;
use crate::session::Session;
use crate::shared::{SessionHandle, Shared};
use crate::spill::Spill;
use crate::startup::StartupParams;
use crate::writing::webhook::Webhooks;
use arc_swap::ArcSwap;
use catalog::Catalog;
use catalog::builtin::introspection::CollectionStatus;
use catalog::state::State;
use committer::environment::{Environment, LONG_UPDATES};
use committer::group_commit::Committer;
use committer::handle::Handle;
use committer::published::Published;
use compute_client::controller::{Controller, SpawnWorkers};
use compute_client::plan::IndexInfo;
use compute_client::read_hold::ReadHolds;
use engine::Engine;
use engine::names::{ObjectId, Privilege};
use ore::clock::Clock;
use ore::exit;
use ore::memory::Share;
use ore::metrics::Registry;
use ore::thread::{Beside, OwnThreads};
use parking_lot::Mutex;
use persist::PersistClient;
use rand::Rng;
use repr::sqlstate::SqlState;
use repr::{GlobalId, Timestamp};
use sql::plan::privileges::has_privilege;
use sql::plan::{CatalogView, DatabaseRef, RoleRef};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use timestamp_oracle::TimestampOracle;
use tokio::runtime::Handle as Runtime;
use tokio_util::sync::CancellationToken;

/// The user that the internal port trusts with everything.
const SYSTEM_USER: &str = "mz_system";

/// How to start an adapter.
pub struct Config {
    /// The opened data directory.
    pub persist: PersistClient,
    /// The timestamp oracle over it.
    pub oracle: Arc<dyn TimestampOracle>,
    /// Starts timely workers.
    pub spawner: Box<dyn SpawnWorkers>,
    /// The runtime of ad hoc queries.
    pub adhoc: Runtime,
    /// The memory, of which everything that is accounted for is taken.
    pub memory: Arc<Share>,
    /// How many ad hoc statements compute at once.
    pub adhoc_statements: usize,
    /// What ad hoc queries may use of it, all of them together, in bytes.
    pub adhoc_memory: usize,
    /// Where these queries put aside what does not fit, if they may.
    pub spill: Option<Spill>,
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

/// Stops the committer when dropped, after it has finished what it had begun.
pub struct Running {
    shared: Arc<Shared>,
    committer: Option<std::thread::JoinHandle<()>>,
}

/// A role and a database, if the one may have a session of the other.
pub(crate) fn may_log_in(
    state: &State,
    StartupParams { user, internal, .. }: &StartupParams,
    database: &str,
) -> Result<(Arc<RoleRef>, Arc<DatabaseRef>), AdapterError> {
    let refused = |message: String| AdapterError::new(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message);
    let role = state.role_by_name(user).ok_or_else(|| refused(format!("role \"{user}\" does not exist")))?;
    if user == SYSTEM_USER && !*internal {
        return Err(refused(format!("role \"{SYSTEM_USER}\" may log in on the internal port only")));
    }
    if !role.login {
        return Err(refused(format!("role \"{user}\" is not permitted to log in")));
    }
    let Some(found) = state.database_by_name(database) else {
        let message = format!("database \"{database}\" does not exist");
        return Err(AdapterError::new(SqlState::INVALID_CATALOG_NAME, message));
    };
    if !has_privilege(state, role.id, ObjectId::Database(found.id), Privilege::Connect) {
        return Err(AdapterError::with_detail(
            SqlState::INSUFFICIENT_PRIVILEGE,
            format!("permission denied for database \"{database}\""),
            "User does not have CONNECT privilege.",
        ));
    }
    Ok((role, found))
}

impl Client {
    /// Loads the catalog, starts the clusters, rehydrates the indexes and starts the committer.
    pub fn start(config: Config) -> Result<(Client, Running), AdapterError> {
        let catalog = Catalog::open(&config.persist, &config.system_defaults)?;
        let boot_ts = config.oracle.known_ts();
        config.persist.keep_decoded(config.memory.child("decoded columns", config.memory.limit() / 4));
        let memory = config.memory.child("ad hoc queries", config.adhoc_memory);
        let beside: Arc<dyn Beside> = Arc::new(OwnThreads);
        let partitions = config.adhoc.metrics().num_workers();
        let (persist, clock) = (config.persist.clone(), config.clock.clone());
        let (handle, requests) = Handle::new(persist, Arc::clone(&config.oracle), clock, Arc::clone(&beside));
        let environment = Environment {
            engine: Arc::new(Engine::with(
                sql::dialect::DIALECTS,
                Arc::clone(&memory),
                partitions,
                config.spill.map(|spill| Arc::new(spill) as _),
            )),
            memory: Arc::clone(&memory),
            published: Arc::new(ArcSwap::from_pointee(Published::empty())),
            oracle: Arc::clone(&config.oracle),
            persist: config.persist.clone(),
            holds: Arc::new(ReadHolds::default()),
            clock: config.clock.clone(),
            beside: Arc::clone(&beside),
            long_updates: LONG_UPDATES,
            end: exit::end,
            // Transactions and slow readers have this long to take a hold.
            retain_us: Timestamp::try_from(config.retain.as_micros()).unwrap_or(Timestamp::MAX),
            metrics: committer::metrics::Metrics::register(&config.registry),
            handle: handle.clone(),
        };
        let messages = config.memory.child("large messages", config.memory.limit() / 2);
        let streams = Streams::new(
            Arc::clone(&config.oracle),
            handle.clone(),
            Arc::clone(&environment.published),
            Arc::clone(&messages),
            &config.registry,
        );
        let shared = Arc::new(Shared {
            engine: Arc::clone(&environment.engine),
            memory,
            messages,
            published: Arc::clone(&environment.published),
            oracle: config.oracle,
            persist: config.persist,
            holds: Arc::clone(&environment.holds),
            committer: handle,
            plans: PlanCache::default(),
            webhooks: Webhooks::default(),
            streams,
            metrics: Metrics::register(&config.registry),
            started_us: i64::try_from(config.clock.now_us()).unwrap_or(i64::MAX),
            clock: config.clock,
            hashing: Hashing::on(config.adhoc.clone()),
            adhoc: config.adhoc,
            admission: Admission::new(config.adhoc_statements),
            sessions: Mutex::new(HashMap::new()),
            locks: Arc::default(),
            changing: tokio::sync::Mutex::default(),
            history: History::default(),
            // Above all numbers of earlier runs, of which there was less than one in a microsecond.
            transaction_numbers: Arc::new(AtomicI64::new(i64::try_from(boot_ts).unwrap_or(i64::MAX))),
            next_connection: AtomicU32::new(1),
            next_staged: AtomicU64::new(0),
            shutdown: CancellationToken::new(),
        });
        let controller = Controller::new(config.spawner, beside, &config.memory, config.maintained_memory);
        let committer = Committer::boot(Arc::new(environment), &catalog, controller, boot_ts)?;
        let thread = ore::thread::spawn_critical("committer", move || committer.run(requests));
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
        let database = self.database_for(&startup.user, startup.database.clone());
        let (role, found) = may_log_in(state, &startup, &database)?;
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
        let mut session = Session::new(Arc::clone(shared), vars, locks, (id, handle), startup.claims);
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

    /// What a password of this user is checked against, whether there is such a user or not.
    pub fn credentials(&self, user: &str) -> Credentials {
        password::credentials(&self.shared.published.load().state, user)
    }

    /// Whether this is the user's password; takes the same time whatever it is. Errors: the runtime has stopped.
    pub async fn check_password(&self, user: &str, password: String) -> Result<Result<(), &'static str>, AdapterError> {
        let Credentials { verifier, refusal } = self.credentials(user);
        let is_right = self.shared.hashing.hash(move || verifier.accepts_password(&password)).await?;
        Ok(match refusal {
            Some(refusal) => Err(refusal),
            None if is_right => Ok(()),
            None => Err("the password is wrong"),
        })
    }

    /// Whether there is a role `group` and `user` is one of its members, directly or not, or the role itself.
    pub fn is_member(&self, user: &str, group: &str) -> bool {
        let state = &self.shared.published.load().state;
        match (state.role_by_name(user), state.role_by_name(group)) {
            (Some(user), Some(group)) => state.is_member(user.id, group.id),
            _ => false,
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
        Ok(self.shared.committer.tick().await?)
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

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.shutdown.cancel();
        self.shared.committer.stop();
        if let Some(thread) = self.committer.take() {
            // Its panic has ended the process already.
            let _panicked = thread.join();
        }
        self.shared.persist.close();
    }
}
