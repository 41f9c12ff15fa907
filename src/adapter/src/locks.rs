//! Locks: who holds which, and who waits for it.
//!
//! Rows, tables and numbers that users agree on (`advisory.rs`) are locked by a session, in one of four strengths. What a session takes
//! is written down by its [`Owner`]: one lasts as long as the session, another as long as a transaction, and when an owner ends, so
//! does what it took. A statement that goes on after that, because nobody has told it yet, takes nothing any more.
//!
//! Who has to wait stands in a queue and is handed the lock by whoever gives it up; nobody overtakes a waiter that wants what it
//! wants, unless by the lock that it holds already, or because a row is locked by others who leave room for it. A wait that would close
//! a circle of sessions that wait for each other is refused when it begins.
//!
//! # Invariants
//! - A lock that nobody holds and nobody waits for is not in the table.
//! - A session is in `waiting` for as long as it is in a queue, and for no longer than a moment after.

use crate::error::Notice;
use ahash::AHashSet;
use catalog::builtin::introspection::{LockStatus, Locked};
use engine::error::SqlError;
use engine::session::{AdvisoryKey, LockMode};
use parking_lot::Mutex;
use repr::GlobalId;
use repr::sqlstate::SqlState;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;

/// How many warnings a statement gives.
const WARNINGS_MAX: usize = 1000;

/// What can be locked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Lockable {
    /// A number, in the database with this oid.
    Advisory(u32, AdvisoryKey),
    /// The row of a table that has, or is to have, this key of the constraint with this oid; 0 is for whole rows, of a table without keys.
    Row(GlobalId, u32, Arc<[u8]>),
    /// All rows of a table.
    Table(GlobalId),
}

/// Whom a lock keeps out, as PostgreSQL has it for rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Strength {
    /// Who changes the key, or lets the row go.
    KeyShare,
    /// Who changes the row.
    Share,
    /// Who changes the row, or wants that it does not change.
    NoKeyUpdate,
    /// Everybody.
    Update,
}

impl Strength {
    fn conflicts(self, other: Strength) -> bool {
        self as u8 + other as u8 >= 3
    }
}

impl From<LockMode> for Strength {
    fn from(mode: LockMode) -> Strength {
        match mode {
            LockMode::Share => Strength::Share,
            LockMode::Exclusive => Strength::Update,
        }
    }
}

impl Lockable {
    fn locked(&self) -> Locked {
        match self {
            Lockable::Advisory(database, key) => Locked::Advisory { database: *database, key: *key },
            Lockable::Row(table, ..) => Locked::Row(*table),
            Lockable::Table(table) => Locked::Table(*table),
        }
    }

    /// How many of those who wait for it come before who asks for it now. Of a row none does, as in PostgreSQL: who can have it beside
    /// those that hold it need not wait for who cannot.
    fn ahead(&self, lock: &Lock) -> usize {
        match self {
            Lockable::Row(..) => 0,
            Lockable::Table(_) | Lockable::Advisory(..) => lock.queue.len(),
        }
    }

    /// What PostgreSQL calls a lock of this strength on such a thing.
    fn mode(&self, strength: Strength) -> &'static str {
        match (self, strength) {
            (Lockable::Advisory(..), Strength::Update) => LockMode::Exclusive.name(),
            (Lockable::Advisory(..), _) => LockMode::Share.name(),
            (Lockable::Table(_), Strength::KeyShare) => "RowExclusiveLock",
            (_, Strength::KeyShare) => "AccessShareLock",
            (_, Strength::Share) => "RowShareLock",
            (_, Strength::NoKeyUpdate) => "ExclusiveLock",
            (_, Strength::Update) => "AccessExclusiveLock",
        }
    }
}

impl fmt::Display for Lockable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lockable::Advisory(database, AdvisoryKey { classid, objid, objsubid }) => {
                write!(f, "advisory lock [{database},{classid},{objid},{objsubid}]")
            }
            Lockable::Row(table, ..) => write!(f, "a row of relation {table}"),
            Lockable::Table(table) => write!(f, "relation {table}"),
        }
    }
}

/// All locks that somebody holds.
#[derive(Debug, Default)]
pub(crate) struct LockTable {
    locks: Mutex<Locks>,
}

#[derive(Debug, Default)]
struct Locks {
    by_what: HashMap<Lockable, Lock>,
    /// By session: what it waits for.
    waiting: BTreeMap<u32, Vec<Lockable>>,
}

#[derive(Debug, Default)]
struct Lock {
    /// Who holds it, once for each strength.
    held: SmallVec<[Hold; 1]>,
    /// The first has waited longest.
    queue: VecDeque<Waiter>,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    session: u32,
    strength: Strength,
    /// How often.
    times: usize,
}

#[derive(Debug)]
struct Waiter {
    session: u32,
    strength: Strength,
    /// Where it hears that it holds the lock.
    granted: oneshot::Sender<()>,
}

/// By lock: the place in its queue, and the strength, of a waiter who does not hold it. Who waits before him, for no more, waits for
/// nobody whom he does not wait for.
type Seen<'a> = HashMap<&'a Lockable, (usize, Strength)>;

impl Lock {
    /// Whom a session has to wait for that wants this strength and has `ahead` waiters before it.
    fn blockers(&self, session: u32, strength: Strength, ahead: usize) -> BTreeSet<u32> {
        let others = self.held.iter().filter(|hold| hold.session != session && hold.strength.conflicts(strength));
        let mut blockers: BTreeSet<u32> = others.map(|hold| hold.session).collect();
        if !self.is_held_by(session) {
            let ahead = self.queue.iter().take(ahead).filter(|waiter| waiter.strength.conflicts(strength));
            blockers.extend(ahead.map(|waiter| waiter.session));
        }
        blockers
    }

    /// Whether there is anybody whom it has to wait for.
    fn must_wait(&self, session: u32, strength: Strength, ahead: usize) -> bool {
        let is_kept_out = |hold: &Hold| hold.session != session && hold.strength.conflicts(strength);
        let is_behind = |waiter: &Waiter| waiter.strength.conflicts(strength);
        self.held.iter().any(is_kept_out) || (!self.is_held_by(session) && self.queue.iter().take(ahead).any(is_behind))
    }

    fn is_held_by(&self, session: u32) -> bool {
        self.held.iter().any(|hold| hold.session == session)
    }

    fn take(&mut self, session: u32, strength: Strength) {
        match self.held.iter_mut().find(|hold| (hold.session, hold.strength) == (session, strength)) {
            Some(hold) => hold.times += 1,
            None => self.held.push(Hold { session, strength, times: 1 }),
        }
    }

    /// Hands the lock to those who need not wait any longer, and returns them.
    fn hand_over(&mut self) -> Vec<u32> {
        let (mut at, mut granted) = (0, Vec::new());
        while let Some(waiter) = self.queue.get(at) {
            let (session, strength) = (waiter.session, waiter.strength);
            if self.must_wait(session, strength, at) {
                at += 1;
                continue;
            }
            self.take(session, strength);
            if let Some(waiter) = self.queue.remove(at) {
                // One that does not wait any more finds out that it holds the lock, and gives it up.
                let _gone = waiter.granted.send(());
                granted.push(session);
            }
        }
        granted
    }
}

impl Locks {
    fn hand_over(&mut self, what: &Lockable) {
        let Some(lock) = self.by_what.get_mut(what) else { return };
        let granted = lock.hand_over();
        let is_over = lock.held.is_empty() && lock.queue.is_empty();
        granted.into_iter().for_each(|session| self.waits_no_longer(session, what));
        if is_over {
            self.by_what.remove(what);
        }
    }

    fn waits_no_longer(&mut self, session: u32, what: &Lockable) {
        if let Some(all) = self.waiting.get_mut(&session) {
            if let Some(at) = all.iter().position(|waits| waits == what) {
                all.swap_remove(at);
            }
            if all.is_empty() {
                self.waiting.remove(&session);
            }
        }
    }

    /// The edges from a session to those that it waits for, but for those that lead where `seen` has led.
    fn edges<'a>(&'a self, session: u32, seen: &mut Seen<'a>) -> Vec<Edge> {
        let mut edges = Vec::new();
        for what in self.waiting.get(&session).into_iter().flatten() {
            let Some(lock) = self.by_what.get(what) else { continue };
            let waits = lock.queue.iter().enumerate().filter(|(_, waiter)| waiter.session == session);
            for (at, Waiter { strength, .. }) in waits {
                if seen.get(what).is_some_and(|(behind, before)| at <= *behind && strength <= before) {
                    continue;
                }
                if !lock.is_held_by(session) {
                    seen.insert(what, (at, *strength));
                }
                let mode = what.mode(*strength);
                let edge = |by| Edge { session, mode, what: what.clone(), by };
                edges.extend(lock.blockers(session, *strength, at).into_iter().map(edge));
            }
        }
        edges
    }

    /// Who waits for whom, from this session back to it, if it is among those that it waits for.
    fn circle(&self, session: u32) -> Option<Vec<Edge>> {
        // Breadth first: by session, over which edge it was come to.
        let mut came: BTreeMap<u32, Edge> = BTreeMap::new();
        let (mut next, mut seen) = (VecDeque::from([session]), Seen::new());
        while let Some(waiting) = next.pop_front() {
            for edge in self.edges(waiting, &mut seen) {
                if came.contains_key(&edge.by) {
                    continue;
                }
                let by = edge.by;
                came.insert(by, edge);
                if by == session {
                    return Some(path(&came, session));
                }
                if self.waiting.contains_key(&by) {
                    next.push_back(by);
                }
            }
        }
        None
    }
}

impl LockTable {
    /// Who holds and who waits, by what is locked.
    pub(crate) fn status(&self) -> Vec<LockStatus> {
        let locks = self.locks.lock();
        let mut all = Vec::new();
        for (what, lock) in &locks.by_what {
            let status = |session, strength, granted| {
                let (what, mode) = (what.locked(), what.mode(strength));
                LockStatus { what, session, mode, granted }
            };
            all.extend(lock.held.iter().map(|hold| status(hold.session, hold.strength, true)));
            all.extend(lock.queue.iter().map(|waiter| status(waiter.session, waiter.strength, false)));
        }
        all
    }

    /// The sessions that a session waits for.
    pub(crate) fn blocking(&self, session: u32) -> BTreeSet<u32> {
        self.locks.lock().edges(session, &mut Seen::new()).into_iter().map(|edge| edge.by).collect()
    }

    /// Takes a lock that is free for this session, or stands in line for it. Error 40P01.
    fn request(
        &self,
        what: &Lockable,
        session: u32,
        strength: Strength,
        otherwise: Otherwise,
    ) -> Result<Request, SqlError> {
        let mut locks = self.locks.lock();
        let lock = locks.by_what.entry(what.clone()).or_default();
        if !lock.must_wait(session, strength, what.ahead(lock)) {
            lock.take(session, strength);
            return Ok(Request::Taken);
        }
        if otherwise == Otherwise::Refuse {
            return Ok(Request::Refused);
        }
        let (granted, grant) = oneshot::channel();
        lock.queue.push_back(Waiter { session, strength, granted });
        locks.waiting.entry(session).or_default().push(what.clone());
        if let Some(circle) = locks.circle(session) {
            if let Some(lock) = locks.by_what.get_mut(what) {
                lock.queue.pop_back();
            }
            locks.waits_no_longer(session, what);
            return Err(deadlock(&circle));
        }
        Ok(Request::Waits(grant))
    }

    /// Takes those of these locks, in their order, that the session does not hold as strongly already; up to the first that is not
    /// free. Returns how many of them it has then, and which of those are new.
    fn take_all(&self, session: u32, wanted: &[(Lockable, Strength)]) -> (usize, Vec<(Lockable, Strength)>) {
        let mut locks = self.locks.lock();
        let mut new = Vec::new();
        for (at, (what, strength)) in wanted.iter().enumerate() {
            let lock = locks.by_what.entry(what.clone()).or_default();
            if lock.held.iter().any(|hold| hold.session == session && hold.strength >= *strength) {
                continue;
            }
            if lock.must_wait(session, *strength, what.ahead(lock)) {
                return (at, new);
            }
            lock.take(session, *strength);
            new.push((what.clone(), *strength));
        }
        (wanted.len(), new)
    }

    /// Whether another session holds a lock at least so strongly.
    fn is_others(&self, what: &Lockable, session: u32, strength: Strength) -> bool {
        let is_others = |hold: &Hold| hold.session != session && hold.strength >= strength;
        self.locks.lock().by_what.get(what).is_some_and(|lock| lock.held.iter().any(is_others))
    }

    /// Gives up one hold of each of these locks.
    fn release(&self, session: u32, what: impl IntoIterator<Item = (Lockable, Strength)>) {
        let mut locks = self.locks.lock();
        for (what, strength) in what {
            let Some(lock) = locks.by_what.get_mut(&what) else { continue };
            let mut holds = lock.held.iter_mut();
            let Some(at) = holds.position(|hold| (hold.session, hold.strength) == (session, strength)) else {
                continue;
            };
            lock.held[at].times -= 1;
            if lock.held[at].times == 0 {
                lock.held.swap_remove(at);
                locks.hand_over(&what);
            }
        }
    }

    /// Leaves the queue. What was handed over meanwhile is given up.
    fn leave(&self, what: &Lockable, session: u32, strength: Strength, mut grant: oneshot::Receiver<()>) {
        let mut locks = self.locks.lock();
        grant.close();
        if grant.try_recv().is_ok() {
            drop(locks);
            self.release(session, [(what.clone(), strength)]);
        } else if let Some(lock) = locks.by_what.get_mut(what) {
            lock.queue.retain(|waiter| !waiter.granted.is_closed());
            locks.waits_no_longer(session, what);
            // Those behind it may have waited for nobody else.
            locks.hand_over(what);
        }
    }
}

/// What becomes of who would have to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Otherwise {
    Wait,
    Refuse,
}

/// What became of a request.
enum Request {
    Taken,
    Refused,
    Waits(oneshot::Receiver<()>),
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
    mode: &'static str,
    what: Lockable,
    by: u32,
}

fn deadlock(circle: &[Edge]) -> SqlError {
    let line = |Edge { session, mode, what, by }: &Edge| {
        format!("Process {session} waits for {mode} on {what}; blocked by process {by}.")
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
    taken: Mutex<Owned>,
    /// Whether there are warnings in `taken`.
    warns: AtomicBool,
}

#[derive(Debug, Default)]
struct Owned {
    /// In the order in which they were taken.
    locks: Vec<(Lockable, Strength)>,
    /// How it was to give up what it had not taken.
    missing: Vec<LockMode>,
    /// Whether there is no owner any more.
    is_over: bool,
}

/// What it took to have some locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Taken {
    /// It had them.
    Nothing,
    /// Some were free.
    Free,
    /// Some were others'.
    Waited,
}

impl Owner {
    pub(crate) fn new(table: Arc<LockTable>, session: u32, database: u32) -> Arc<Owner> {
        Arc::new(Owner { table, session, database, taken: Mutex::default(), warns: AtomicBool::new(false) })
    }

    /// Another one of the same session.
    pub(crate) fn another(&self) -> Arc<Owner> {
        Owner::new(Arc::clone(&self.table), self.session, self.database)
    }

    /// All locks of all sessions.
    pub(crate) fn table(&self) -> &LockTable {
        &self.table
    }

    /// A number that users agree on in the session's database.
    pub(crate) fn advisory(&self, key: AdvisoryKey) -> Lockable {
        Lockable::Advisory(self.database, key)
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
        self.table.release(self.session, locks.into_iter().rev());
    }

    /// Gives up the rows of a table that it took after the first `count` but for these.
    pub(crate) fn keep_after(&self, count: usize, table: GlobalId, kept: &[(Lockable, Strength)]) {
        let mut taken = self.taken.lock();
        let kept: AHashSet<&Lockable> = kept.iter().map(|(what, _)| what).collect();
        let mut at = 0;
        let given_up: Vec<_> = taken
            .locks
            .extract_if(.., |(what, _)| {
                at += 1;
                at > count && matches!(what, Lockable::Row(of, ..) if *of == table) && !kept.contains(what)
            })
            .collect();
        drop(taken);
        self.table.release(self.session, given_up);
    }

    /// Gives up everything, for good.
    pub(crate) fn end(&self) {
        self.taken.lock().is_over = true;
        self.go_back(0);
    }

    /// Whether another may have changed what is locked.
    pub(crate) fn is_at_stake(&self, what: &Lockable) -> bool {
        self.table.is_others(what, self.session, Strength::NoKeyUpdate)
    }

    /// Whether another may have let go what is locked.
    pub(crate) fn is_leaving(&self, what: &Lockable) -> bool {
        self.table.is_others(what, self.session, Strength::Update)
    }

    pub(crate) fn try_lock(&self, what: Lockable, strength: Strength) -> bool {
        let request = self.table.request(&what, self.session, strength, Otherwise::Refuse);
        let is_taken = matches!(request, Ok(Request::Taken));
        if is_taken {
            self.note([(what, strength)]);
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

    /// Gives up one advisory lock; whether it had taken it.
    pub(crate) fn unlock(&self, key: AdvisoryKey, mode: LockMode) -> bool {
        let lock = (self.advisory(key), Strength::from(mode));
        let mut taken = self.taken.lock();
        let Some(at) = taken.locks.iter().rposition(|known| *known == lock) else {
            if taken.missing.len() < WARNINGS_MAX {
                taken.missing.push(mode);
            }
            self.warns.store(true, Ordering::Release);
            return false;
        };
        taken.locks.remove(at);
        drop(taken);
        self.table.release(self.session, [lock]);
        true
    }

    /// Writes down what it holds now; an owner that has ended gives it up.
    fn note(&self, locks: impl IntoIterator<Item = (Lockable, Strength)>) {
        let mut taken = self.taken.lock();
        if !taken.is_over {
            taken.locks.extend(locks);
            return;
        }
        drop(taken);
        self.table.release(self.session, locks);
    }

    /// Waits for a lock, no longer than `timeout`. Errors: 40P01, 55P03.
    ///
    /// # Cancellation
    /// Dropping the future leaves the queue.
    pub(crate) async fn lock(
        self: Arc<Self>,
        what: Lockable,
        strength: Strength,
        timeout: Option<Duration>,
    ) -> Result<(), SqlError> {
        match self.table.request(&what, self.session, strength, Otherwise::Wait)? {
            Request::Taken => {}
            Request::Refused => return Err(SqlError::internal("a request that waits is not refused")),
            Request::Waits(grant) => {
                let mut waits = Waits { owner: &self, what: &what, strength, grant: Some(grant) };
                waits.until_granted(timeout).await?;
            }
        }
        self.note([(what, strength)]);
        Ok(())
    }

    /// Takes those of these locks that it does not hold as strongly already, up to the first that is not free. Returns how many it has
    /// then, and whether any is new.
    pub(crate) fn take_free(&self, wanted: &[(Lockable, Strength)]) -> (usize, Taken) {
        let (count, new) = self.table.take_all(self.session, wanted);
        let taken = if new.is_empty() { Taken::Nothing } else { Taken::Free };
        self.note(new);
        (count, taken)
    }

    /// Waits for all of these locks that it does not hold as strongly already, one after the other, for none longer than `timeout`.
    /// Errors: 40P01, 55P03.
    ///
    /// # Cancellation
    /// Dropping the future leaves the queue; what was taken stays taken until the owner ends.
    pub(crate) async fn lock_all(
        self: Arc<Self>,
        wanted: &[(Lockable, Strength)],
        timeout: Option<Duration>,
    ) -> Result<Taken, SqlError> {
        let (mut rest, mut taken) = (wanted, Taken::Nothing);
        loop {
            let (count, free) = self.take_free(rest);
            taken = taken.max(free);
            let Some((what, strength)) = rest.get(count) else { return Ok(taken) };
            Arc::clone(&self).lock(what.clone(), *strength, timeout).await?;
            (rest, taken) = (&rest[count + 1..], Taken::Waited);
        }
    }
}

/// A place in a queue. Dropping it leaves the queue, unless the lock was handed over and that was heard.
struct Waits<'a> {
    owner: &'a Owner,
    what: &'a Lockable,
    strength: Strength,
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
            self.owner.table.leave(self.what, self.owner.session, self.strength, grant);
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

#[cfg(test)]
mod tests {
    use super::*;
    use ore::abandon::{at_every_poll, polled};

    fn row(key: u8) -> Lockable {
        Lockable::Row(GlobalId::User(1), 7, Arc::from([key]))
    }

    fn owners<const N: usize>() -> (Arc<LockTable>, [Arc<Owner>; N]) {
        let table = Arc::new(LockTable::default());
        let owners = std::array::from_fn(|at| Owner::new(Arc::clone(&table), u32::try_from(at).expect("few"), 1));
        (table, owners)
    }

    /// Who gives up waiting holds nothing and stands in nobody's way, whenever that is: before the lock is free, when it has become
    /// free and is handed over, and never.
    #[test]
    fn who_gives_up_waiting_holds_nothing() {
        let polls = at_every_poll(10, |times| {
            let (table, [first, second, third]) = owners();
            assert!(first.try_lock(row(1), Strength::Update));
            let waits = Arc::clone(&second).lock(row(1), Strength::Update, None);
            let taken = polled(waits, times, || first.end());
            first.end();
            let is_done = taken.is_some_and(|taken| taken.is_ok());
            assert_eq!(second.count(), usize::from(is_done), "given up after {times} polls");
            assert_eq!(third.try_lock(row(1), Strength::Update), !is_done, "given up after {times} polls");
            assert!(table.locks.lock().waiting.is_empty(), "given up after {times} polls");
            is_done
        });
        assert_eq!(polls, 2, "it has to wait, and is handed the lock");
    }

    /// As PostgreSQL's table of row-level locks has it.
    #[test]
    fn strengths_conflict_as_in_postgresql() {
        use Strength::{KeyShare, NoKeyUpdate, Share, Update};
        let conflicts = [
            (KeyShare, vec![Update]),
            (Share, vec![NoKeyUpdate, Update]),
            (NoKeyUpdate, vec![Share, NoKeyUpdate, Update]),
            (Update, vec![KeyShare, Share, NoKeyUpdate, Update]),
        ];
        for (one, with) in conflicts {
            for other in [KeyShare, Share, NoKeyUpdate, Update] {
                assert_eq!(one.conflicts(other), with.contains(&other), "{one:?} and {other:?}");
            }
        }
    }

    #[test]
    fn what_is_held_is_not_taken_twice_and_all_of_it_is_given_back() {
        let (table, [first, second]) = owners();
        let wanted = [(row(1), Strength::NoKeyUpdate), (row(2), Strength::Update)];
        for round in 0..3 {
            let waited = futures::executor::block_on(Arc::clone(&first).lock_all(&wanted, None));
            let expected = if round == 0 { Taken::Free } else { Taken::Nothing };
            assert_eq!(waited.expect("nobody is in the way"), expected);
        }
        assert_eq!(first.count(), 2);
        assert!(second.try_lock(row(1), Strength::KeyShare) && !second.try_lock(row(2), Strength::KeyShare));
        // A stronger lock is one more.
        let wanted = [(row(1), Strength::Update)];
        let waits = Arc::clone(&first).lock_all(&wanted, None);
        assert!(futures::FutureExt::now_or_never(waits).is_none(), "another shares it");
        second.end();
        let stronger = futures::executor::block_on(Arc::clone(&first).lock_all(&wanted, None));
        assert_eq!((stronger.expect("it is free"), first.count()), (Taken::Free, 3));
        first.go_back(2);
        assert!(second.try_lock(row(1), Strength::KeyShare));
        first.end();
        second.end();
        assert!(table.locks.lock().by_what.is_empty());
    }

    #[test]
    fn a_circle_is_refused_to_who_closes_it() {
        let (_table, [first, second, third]) = owners();
        for (owner, key) in [(&first, 1), (&second, 2), (&third, 3)] {
            assert!(owner.try_lock(row(key), Strength::Update));
        }
        let mut waits = [(&first, 2), (&second, 3)]
            .map(|(owner, key)| Box::pin(Arc::clone(owner).lock(row(key), Strength::NoKeyUpdate, None)));
        for wait in &mut waits {
            assert!(futures::FutureExt::now_or_never(wait.as_mut()).is_none());
        }
        let closing = futures::executor::block_on(Arc::clone(&third).lock(row(1), Strength::NoKeyUpdate, None));
        assert_eq!(closing.expect_err("it closes a circle").sqlstate, SqlState::DEADLOCK_DETECTED);
        third.end();
        assert!(futures::FutureExt::now_or_never(waits[1].as_mut()).is_some(), "it was waited for, and has gone");
    }
}
