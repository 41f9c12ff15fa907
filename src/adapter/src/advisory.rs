//! Advisory locks: who holds which, and who waits for it.
//!
//! A lock is held by a session, in one of two modes and any number of times. What a session takes is written down by its
//! [`Owner`]: one lasts as long as the session, the other as long as a transaction, and when an owner ends, so does what it
//! took. A statement that goes on after that, because nobody has told it yet, takes nothing any more.
//!
//! Who has to wait stands in a queue and is handed the lock by whoever gives it up; nobody overtakes a waiter that wants what it
//! wants, unless by the lock that it holds already. A wait that would close a circle of sessions that wait for each other is
//! refused when it begins.

use crate::error::Notice;
use catalog::builtin::introspection::LockStatus;
use engine::error::SqlError;
use engine::session::{AdvisoryKey, AdvisoryLock, AdvisoryLocks, LockLifetime, LockMode, Waiting};
use parking_lot::Mutex;
use repr::sqlstate::SqlState;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;

/// How many warnings a statement gives.
const WARNINGS_MAX: usize = 1000;

/// A database's oid, and what is locked in it.
type Key = (u32, AdvisoryKey);

/// All locks that somebody holds.
#[derive(Debug, Default)]
pub(crate) struct LockTable {
    locks: Mutex<BTreeMap<Key, Lock>>,
}

#[derive(Debug, Default)]
struct Lock {
    /// By session and mode: how often it is held.
    held: BTreeMap<(u32, LockMode), usize>,
    /// The first has waited longest.
    queue: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    session: u32,
    mode: LockMode,
    /// Where it hears that it holds the lock.
    granted: oneshot::Sender<()>,
}

fn conflict(one: LockMode, other: LockMode) -> bool {
    one == LockMode::Exclusive || other == LockMode::Exclusive
}

impl Lock {
    /// Whom a session has to wait for that wants this mode and has `ahead` waiters before it.
    fn blockers(&self, session: u32, mode: LockMode, ahead: usize) -> BTreeSet<u32> {
        let others = self.held.keys().filter(|(holder, held)| *holder != session && conflict(*held, mode));
        let mut blockers: BTreeSet<u32> = others.map(|(holder, _)| *holder).collect();
        if !self.is_held_by(session) {
            let ahead = self.queue.iter().take(ahead).filter(|waiter| conflict(waiter.mode, mode));
            blockers.extend(ahead.map(|waiter| waiter.session));
        }
        blockers
    }

    fn is_held_by(&self, session: u32) -> bool {
        self.held.range((session, LockMode::Share)..=(session, LockMode::Exclusive)).next().is_some()
    }

    fn take(&mut self, session: u32, mode: LockMode) {
        *self.held.entry((session, mode)).or_default() += 1;
    }

    /// Hands the lock to those who need not wait any longer.
    fn hand_over(&mut self) {
        let mut at = 0;
        while let Some(waiter) = self.queue.get(at) {
            let (session, mode) = (waiter.session, waiter.mode);
            if !self.blockers(session, mode, at).is_empty() {
                at += 1;
                continue;
            }
            self.take(session, mode);
            if let Some(waiter) = self.queue.remove(at) {
                // One that does not wait any more finds out that it holds the lock, and gives it up.
                let _gone = waiter.granted.send(());
            }
        }
    }
}

impl LockTable {
    /// Who holds and who waits, by what is locked.
    pub(crate) fn status(&self) -> Vec<LockStatus> {
        let locks = self.locks.lock();
        let mut all = Vec::new();
        for ((database, key), lock) in &*locks {
            let status = |session, mode, granted| LockStatus { database: *database, key: *key, session, mode, granted };
            all.extend(lock.held.keys().map(|(session, mode)| status(*session, *mode, true)));
            all.extend(lock.queue.iter().map(|waiter| status(waiter.session, waiter.mode, false)));
        }
        all
    }

    /// The sessions that a session waits for.
    fn blocking(&self, session: u32) -> BTreeSet<u32> {
        let locks = self.locks.lock();
        let blockers = |lock: &Lock| {
            let waits = lock.queue.iter().enumerate().filter(|(_, waiter)| waiter.session == session);
            waits.flat_map(|(at, waiter)| lock.blockers(session, waiter.mode, at)).collect::<BTreeSet<u32>>()
        };
        locks.values().flat_map(blockers).collect()
    }

    /// Takes a lock that is free for this session, or stands in line for it. Error 40P01.
    fn request(&self, key: Key, session: u32, mode: LockMode, wait: bool) -> Result<Request, SqlError> {
        let mut locks = self.locks.lock();
        let lock = locks.entry(key).or_default();
        if lock.blockers(session, mode, lock.queue.len()).is_empty() {
            lock.take(session, mode);
            return Ok(Request::Taken);
        }
        if !wait {
            return Ok(Request::Refused);
        }
        let (granted, grant) = oneshot::channel();
        lock.queue.push_back(Waiter { session, mode, granted });
        if let Some(circle) = circle(&locks, session) {
            if let Some(lock) = locks.get_mut(&key) {
                lock.queue.pop_back();
            }
            return Err(deadlock(&circle));
        }
        Ok(Request::Waits(grant))
    }

    /// Gives up one hold of a lock.
    fn release(&self, key: Key, session: u32, mode: LockMode) {
        let mut locks = self.locks.lock();
        let Some(lock) = locks.get_mut(&key) else { return };
        if let Some(times) = lock.held.get_mut(&(session, mode)) {
            *times -= 1;
            if *times == 0 {
                lock.held.remove(&(session, mode));
                lock.hand_over();
            }
        }
        if lock.held.is_empty() && lock.queue.is_empty() {
            locks.remove(&key);
        }
    }

    /// Leaves the queue. What was handed over meanwhile is given up.
    fn leave(&self, key: Key, session: u32, mode: LockMode, mut grant: oneshot::Receiver<()>) {
        let mut locks = self.locks.lock();
        grant.close();
        if grant.try_recv().is_ok() {
            drop(locks);
            self.release(key, session, mode);
        } else if let Some(lock) = locks.get_mut(&key) {
            lock.queue.retain(|waiter| !waiter.granted.is_closed());
            // Those behind it may have waited for nobody else.
            lock.hand_over();
        }
    }
}

/// What became of a request.
enum Request {
    Taken,
    Refused,
    Waits(oneshot::Receiver<()>),
}

/// Who waits for whom, from this session back to it, if it is among those that it waits for.
fn circle(locks: &BTreeMap<Key, Lock>, session: u32) -> Option<Vec<Edge>> {
    let mut edges: BTreeMap<u32, Vec<Edge>> = BTreeMap::new();
    for (key, lock) in locks {
        for (at, waiter) in lock.queue.iter().enumerate() {
            let blockers = lock.blockers(waiter.session, waiter.mode, at);
            let edge = |by| Edge { session: waiter.session, mode: waiter.mode, key: *key, by };
            edges.entry(waiter.session).or_default().extend(blockers.into_iter().map(edge));
        }
    }
    // Breadth first: by session, over which edge it was come to.
    let mut came: BTreeMap<u32, Edge> = BTreeMap::new();
    let mut next = VecDeque::from([session]);
    while let Some(waiting) = next.pop_front() {
        for edge in edges.get(&waiting).into_iter().flatten() {
            if came.contains_key(&edge.by) {
                continue;
            }
            came.insert(edge.by, edge.clone());
            if edge.by == session {
                return Some(path(&came, session));
            }
            next.push_back(edge.by);
        }
    }
    None
}

/// The edges of a circle, in order.
fn path(came: &BTreeMap<u32, Edge>, session: u32) -> Vec<Edge> {
    let mut edges = Vec::new();
    let mut at = session;
    while let Some(edge) = came.get(&at) {
        edges.push(edge.clone());
        at = edge.session;
        if at == session {
            break;
        }
    }
    edges.reverse();
    edges
}

/// A session that waits for another.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Edge {
    session: u32,
    mode: LockMode,
    key: Key,
    by: u32,
}

fn deadlock(circle: &[Edge]) -> SqlError {
    let line = |edge: &Edge| {
        let (Edge { session, mode, by, .. }, (database, key)) = (edge, edge.key);
        let AdvisoryKey { classid, objid, objsubid } = key;
        let (mode, lock) = (mode.name(), format!("[{database},{classid},{objid},{objsubid}]"));
        format!("Process {session} waits for {mode} on advisory lock {lock}; blocked by process {by}.")
    };
    let lines: Vec<String> = circle.iter().map(line).collect();
    SqlError::new(SqlState::DEADLOCK_DETECTED, "deadlock detected").with_detail(lines.join("\n"))
}

/// Who takes locks: a session, or a transaction of it. What it took ends with it.
#[derive(Debug)]
pub(crate) struct Owner {
    table: Arc<LockTable>,
    session: u32,
    /// The oid of the session's database.
    database: u32,
    taken: Mutex<Taken>,
    /// Whether there are warnings in `taken`.
    warns: AtomicBool,
}

#[derive(Debug, Default)]
struct Taken {
    /// In the order in which they were taken.
    locks: Vec<(AdvisoryKey, LockMode)>,
    /// How it was to give up what it had not taken.
    missing: Vec<LockMode>,
    /// Whether there is no owner any more.
    is_over: bool,
}

impl Owner {
    pub(crate) fn new(table: Arc<LockTable>, session: u32, database: u32) -> Arc<Owner> {
        Arc::new(Owner { table, session, database, taken: Mutex::default(), warns: AtomicBool::new(false) })
    }

    /// Another one of the same session.
    pub(crate) fn another(&self) -> Arc<Owner> {
        Owner::new(Arc::clone(&self.table), self.session, self.database)
    }

    /// How many locks it took.
    pub(crate) fn count(&self) -> usize {
        self.taken.lock().locks.len()
    }

    /// Gives up what it took after the first `count`.
    pub(crate) fn go_back(&self, count: usize) {
        let mut taken = self.taken.lock();
        let count = count.min(taken.locks.len());
        let locks = taken.locks.split_off(count);
        drop(taken);
        for (key, mode) in locks.into_iter().rev() {
            self.table.release((self.database, key), self.session, mode);
        }
    }

    /// Gives up everything, for good.
    pub(crate) fn end(&self) {
        self.taken.lock().is_over = true;
        self.go_back(0);
    }

    fn try_lock(&self, key: AdvisoryKey, mode: LockMode) -> bool {
        let request = self.table.request((self.database, key), self.session, mode, false);
        let is_taken = matches!(request, Ok(Request::Taken));
        if is_taken {
            self.note(key, mode);
        }
        is_taken
    }

    /// Whether there is something to warn of. Costs one load.
    pub(crate) fn warns(&self) -> bool {
        self.warns.load(Ordering::Acquire)
    }

    /// The warnings since the last time.
    pub(crate) fn take_warnings(&self) -> Vec<Notice> {
        self.warns.store(false, Ordering::Release);
        let missing = std::mem::take(&mut self.taken.lock().missing);
        let warning = |mode: LockMode| {
            Notice::warning(SqlState::WARNING, format!("you don't own a lock of type {}", mode.name()))
        };
        missing.into_iter().map(warning).collect()
    }

    /// Gives up one lock; whether it had taken it.
    fn unlock(&self, key: AdvisoryKey, mode: LockMode) -> bool {
        let mut taken = self.taken.lock();
        let Some(at) = taken.locks.iter().rposition(|lock| *lock == (key, mode)) else {
            if taken.missing.len() < WARNINGS_MAX {
                taken.missing.push(mode);
            }
            self.warns.store(true, Ordering::Release);
            return false;
        };
        taken.locks.remove(at);
        drop(taken);
        self.table.release((self.database, key), self.session, mode);
        true
    }

    /// Writes down what it holds now; an owner that has ended gives it up.
    fn note(&self, key: AdvisoryKey, mode: LockMode) {
        let mut taken = self.taken.lock();
        if !taken.is_over {
            taken.locks.push((key, mode));
            return;
        }
        drop(taken);
        self.table.release((self.database, key), self.session, mode);
    }

    /// Waits for a lock, no longer than `timeout`. Errors: 40P01, 55P03.
    ///
    /// # Cancellation
    /// Dropping the future leaves the queue.
    async fn lock(
        self: Arc<Self>,
        key: AdvisoryKey,
        mode: LockMode,
        timeout: Option<Duration>,
    ) -> Result<(), SqlError> {
        let place = (self.database, key);
        match self.table.request(place, self.session, mode, true)? {
            Request::Taken => {}
            Request::Refused => return Err(SqlError::internal("a request that waits is not refused")),
            Request::Waits(grant) => {
                let mut waits = Waits { owner: &self, key, mode, grant: Some(grant) };
                waits.until_granted(timeout).await?;
            }
        }
        self.note(key, mode);
        Ok(())
    }
}

/// A place in a queue. Dropping it leaves the queue, unless the lock was handed over and that was heard.
struct Waits<'a> {
    owner: &'a Owner,
    key: AdvisoryKey,
    mode: LockMode,
    grant: Option<oneshot::Receiver<()>>,
}

impl Waits<'_> {
    async fn until_granted(&mut self, timeout: Option<Duration>) -> Result<(), SqlError> {
        let Some(grant) = &mut self.grant else { return Ok(()) };
        let granted = match timeout {
            Some(timeout) => tokio::time::timeout(timeout, grant).await.map_err(|_| timed_out())?,
            None => grant.await,
        };
        granted.map_err(|_| SqlError::internal("a waiter was forgotten"))?;
        self.grant = None;
        Ok(())
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if let Some(grant) = self.grant.take() {
            let (owner, key) = (self.owner, (self.owner.database, self.key));
            owner.table.leave(key, owner.session, self.mode, grant);
        }
    }
}

fn timed_out() -> SqlError {
    SqlError::new(SqlState::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout")
}

/// A transaction's owner, which ends with it.
#[derive(Debug)]
pub(crate) struct OfTransaction(pub(crate) Arc<Owner>);

impl Drop for OfTransaction {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The locks as a statement takes them.
pub(crate) struct StatementLocks {
    pub(crate) session: Arc<Owner>,
    pub(crate) transaction: Arc<Owner>,
    /// `lock_timeout`.
    pub(crate) timeout: Option<Duration>,
}

impl StatementLocks {
    fn owner(&self, lifetime: LockLifetime) -> &Arc<Owner> {
        match lifetime {
            LockLifetime::Session => &self.session,
            LockLifetime::Transaction => &self.transaction,
        }
    }
}

impl AdvisoryLocks for StatementLocks {
    fn lock(&self, lock: AdvisoryLock) -> Waiting {
        Box::pin(Arc::clone(self.owner(lock.lifetime)).lock(lock.key, lock.mode, self.timeout))
    }

    fn try_lock(&self, lock: AdvisoryLock) -> bool {
        self.owner(lock.lifetime).try_lock(lock.key, lock.mode)
    }

    fn unlock(&self, key: AdvisoryKey, mode: LockMode) -> bool {
        self.session.unlock(key, mode)
    }

    fn unlock_all(&self) {
        self.session.go_back(0);
    }

    fn blocking(&self, pid: i32) -> Vec<i32> {
        self.session.table.blocking(pid.cast_unsigned()).into_iter().map(u32::cast_signed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ore::abandon::{at_every_poll, polled};

    const KEY: AdvisoryKey = AdvisoryKey { classid: 0, objid: 7, objsubid: 1 };

    /// Who gives up waiting holds nothing and stands in nobody's way, whenever that is: before the lock is free, when it has become
    /// free and is handed over, and never.
    #[test]
    fn who_gives_up_waiting_holds_nothing() {
        let polls = at_every_poll(10, |times| {
            let table = Arc::new(LockTable::default());
            let owner = |session| Owner::new(Arc::clone(&table), session, 1);
            let (first, second, third) = (owner(1), owner(2), owner(3));
            assert!(first.try_lock(KEY, LockMode::Exclusive));
            let waits = Arc::clone(&second).lock(KEY, LockMode::Exclusive, None);
            let taken = polled(waits, times, || first.end());
            first.end();
            let is_done = taken.is_some_and(|taken| taken.is_ok());
            assert_eq!(second.count(), usize::from(is_done), "given up after {times} polls");
            assert_eq!(third.try_lock(KEY, LockMode::Exclusive), !is_done, "given up after {times} polls");
            is_done
        });
        assert_eq!(polls, 2, "it has to wait, and is handed the lock");
    }
}
