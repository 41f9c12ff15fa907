//! What all sessions share.

use crate::activity::Activity;
use crate::cancel::Cancel;
use crate::error::AdapterError;
use crate::history::History;
use crate::locks::LockTable;
use crate::metrics::Metrics;
use crate::password::Hashing;
use crate::plan_cache::PlanCache;
use crate::reading::admission::Admission;
use crate::reading::subscribe::stream::Streams;
use crate::writing::webhook::Webhooks;
use arc_swap::ArcSwap;
use catalog::state::State;
use committer::error::CommitError;
use committer::handle::Handle;
use committer::published::Published;
use committer::request::TableWrite;
use compute_client::read_hold::ReadHolds;
use engine::Engine;
use engine::SessionInfo;
use engine::error::SqlError;
use engine::session::{Backends, Signal};
use ore::clock::Clock;
use ore::memory::Share;
use parking_lot::Mutex;
use persist::PersistClient;
use repr::Timestamp;
use repr::sqlstate::SqlState;
use sql::plan::{CatalogView, RoleRef};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use timestamp_oracle::TimestampOracle;
use tokio::runtime::Handle as Runtime;
use tokio_util::sync::CancellationToken;

/// Updates of a table from which on their keys are looked up before they are committed.
const KEYS_MANY: usize = 4_096;

/// What all sessions share.
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    /// What statements take of the memory.
    pub(crate) memory: Arc<Share>,
    /// What large messages take of it.
    pub(crate) messages: Arc<Share>,
    pub(crate) published: Arc<ArcSwap<Published>>,
    pub(crate) oracle: Arc<dyn TimestampOracle>,
    pub(crate) persist: PersistClient,
    pub(crate) holds: Arc<ReadHolds>,
    pub(crate) committer: Handle,
    pub(crate) plans: PlanCache,
    pub(crate) webhooks: Webhooks,
    /// What is followed.
    pub(crate) streams: Arc<Streams>,
    pub(crate) metrics: Metrics,
    pub(crate) clock: Clock,
    /// Runs ad hoc queries, so that they do not hold up the threads of connections.
    pub(crate) adhoc: Runtime,
    /// How many of them compute at once.
    pub(crate) admission: Admission,
    pub(crate) sessions: Mutex<HashMap<u32, SessionHandle>>,
    /// When the server started, in microseconds since 1970.
    pub(crate) started_us: i64,
    /// The advisory locks.
    pub(crate) locks: Arc<LockTable>,
    /// Held while a statement that changes the catalog is planned and carried out: sessions that do so at the same time would
    /// make each other's plans stale, and the slower one's again and again.
    pub(crate) changing: tokio::sync::Mutex<()>,
    pub(crate) hashing: Hashing,
    pub(crate) history: History,
    /// The largest number that a transaction was given.
    pub(crate) transaction_numbers: Arc<AtomicI64>,
    pub(crate) next_connection: AtomicU32,
    pub(crate) next_staged: AtomicU64,
    pub(crate) shutdown: CancellationToken,
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

impl Shared {
    /// Whether keys are many enough to be looked up before the commit.
    pub(crate) fn has_many_keys(write: &TableWrite) -> bool {
        write.updates.len() > KEYS_MANY || ore::sometimes(10)
    }

    /// Looks up the keys of those writes that have many.
    ///
    /// # Cancellation
    /// Safe to drop.
    pub(crate) async fn look_up_keys(&self, writes: &mut [TableWrite]) -> Result<(), CommitError> {
        for write in writes.iter_mut().filter(|write| Shared::has_many_keys(write)) {
            self.committer.look_up_keys(write).await?;
        }
        Ok(())
    }

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
    fn signal(&self, pid: i32, signal: Signal, by: &SessionInfo) -> Result<bool, SqlError> {
        let published = self.0.published.load();
        let sessions = self.0.sessions.lock();
        let Some(session) = u32::try_from(pid).ok().and_then(|pid| sessions.get(&pid)) else { return Ok(false) };
        let is_known = by.may_know_of(session.activity.claims());
        if !is_known || !may_signal(&published.state, &by.user, session.role.as_ref()) {
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
