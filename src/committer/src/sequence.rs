//! Sequences: what sessions take values from, and how values are reserved.
//!
//! A value is taken in memory, under a lock that is held for as long as an addition takes. Before, it was reserved: the store
//! says of a sequence where it stands after the last value that was reserved, so that no run of the server gives a value that
//! one before may have given. The committer reserves, along with whatever else it commits:
//!
//! 1. Who finds no reserved value asks for a block, and waits. An INSERT asks beforehand for as many values as its rows take,
//!    without holding up its thread; what runs on the ad hoc engine waits there.
//! 2. The committer computes where the sequence stands after the block, which is durable with the next commit.
//! 3. What others have taken meanwhile is subtracted, and all who wait try again.
//!
//! A block is as large as Postgres's, and larger while blocks are soon used up. A server that stops gives back what was not taken; one
//! that crashes skips it. ROLLBACK gives nothing back, as in Postgres.
//!
//! A sequence that a transaction has made or changed is the transaction's own until COMMIT: its values need no reserve, and where
//! it then stands becomes durable along with the change. If others have taken values meanwhile of one that does not begin again,
//! the transaction cannot commit, as they may be the same values.
//!
//! # Invariants
//! - The committer alone writes what is durable of a sequence, and replaces a sequence by one that gives other values. The old one
//!   is closed then: it gives nothing any more, and who asks for its values is told to look for the new one.

use crate::client::{Published, Shared};
use crate::error::AdapterError;
use crate::group_commit::{Request, stopping};
use crate::session::Session;
use crate::transaction::conflict;
use catalog::state::State as Catalog;
use crossbeam_channel::Sender;
use parking_lot::Mutex;
use persist::{MetaWrite, PersistClient};
use repr::GlobalId;
use repr::sqlstate::SqlState;
use sql::engine::SessionInfo;
use sql::engine::session::Sequences;
use sql::error::SqlError;
use sql::names::{ObjectId, Privilege, RoleId};
use sql::plan::privileges::has_privilege;
use sql::plan::sequence::{Position, SequenceParams};
use sql::plan::{CatalogView, ItemKind, ItemRef};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Values that are reserved beyond those that are asked for, as in Postgres.
const BLOCK_MIN: u64 = 32;
/// The most: what a crash skips.
const BLOCK_MAX: u64 = 8_192;
/// A block that is used up within this time makes the next one larger.
const USED_UP_SOON: Duration = Duration::from_secs(1);

/// A sequence as sessions take values from it.
pub(crate) struct Sequence {
    pub(crate) id: GlobalId,
    params: SequenceParams,
    /// If only one transaction knows it.
    staged: Option<Staged>,
    state: Mutex<State>,
}

/// What a transaction's own sequence comes from.
struct Staged {
    /// Where the one stood that it will take the place of; `None` if the transaction has made it.
    since: Option<Position>,
}

struct State {
    at: Position,
    /// Values after `at` that are reserved, none of which begins again.
    ahead: u64,
    /// How many values were taken so far.
    taken: u64,
    block: u64,
    /// When the block was.
    reserved: Option<Instant>,
    is_closed: bool,
}

/// What taking a value has come to.
enum Taken {
    Value(i64),
    /// None is reserved.
    Wait,
    /// There is none.
    Ended,
}

impl Sequence {
    fn new(id: GlobalId, params: &SequenceParams, at: Position, staged: Option<Staged>) -> Arc<Sequence> {
        let state = State { at, ahead: 0, taken: 0, block: BLOCK_MIN, reserved: None, is_closed: false };
        Arc::new(Sequence { id, params: params.clone(), staged, state: Mutex::new(state) })
    }

    /// What the store says of a sequence; of one that has given no value it need not say anything.
    pub(crate) fn stored(persist: &PersistClient, item: &ItemRef) -> Result<Option<Arc<Sequence>>, AdapterError> {
        let ItemKind::Sequence(def) = &item.kind else { return Ok(None) };
        let at = match persist.meta_get(&key(item.id))? {
            Some(bytes) => decode(&bytes).ok_or_else(|| {
                AdapterError::new(
                    SqlState::DATA_CORRUPTED,
                    format!("where sequence {} stands cannot be read", item.name),
                )
            })?,
            None => def.params.first(),
        };
        Ok(Some(Sequence::new(item.id, &def.params, at, None)))
    }

    /// A sequence that a transaction has made, or has changed from what it was.
    pub(crate) fn staged(
        item: &ItemRef,
        before: Option<&Arc<Sequence>>,
        restart: Option<i64>,
    ) -> Option<Arc<Sequence>> {
        let ItemKind::Sequence(def) = &item.kind else { return None };
        let at = match (restart, before) {
            (Some(last), _) => Position { last, is_called: false },
            (None, Some(before)) => before.position(),
            (None, None) => def.params.first(),
        };
        let since = before.and_then(|before| match &before.staged {
            Some(staged) => staged.since,
            None => Some(before.position()),
        });
        Some(Sequence::new(item.id, &def.params, at, Some(Staged { since })))
    }

    /// Whether only one transaction knows it.
    pub(crate) fn is_staged(&self) -> bool {
        self.staged.is_some()
    }

    /// Where the one stood that a transaction has changed into this one.
    pub(crate) fn since(&self) -> Option<Position> {
        self.staged.as_ref()?.since
    }

    /// Where it stands.
    pub(crate) fn position(&self) -> Position {
        self.state.lock().at
    }

    /// Where it stands, and how many values are reserved after that.
    pub(crate) fn standing(&self) -> (Position, u64) {
        let state = self.state.lock();
        (state.at, state.ahead)
    }

    fn take(&self) -> Taken {
        let mut state = self.state.lock();
        if state.is_closed {
            return Taken::Wait;
        }
        let Some(next) = self.params.next(state.at) else { return Taken::Ended };
        if !self.is_staged() {
            match state.ahead.checked_sub(1) {
                Some(ahead) => state.ahead = ahead,
                None => return Taken::Wait,
            }
        }
        (state.at, state.taken) = (next, state.taken + 1);
        Taken::Value(next.last)
    }

    /// The next value whether it is reserved or not: where the sequence then stands becomes durable together with what is
    /// made of the value.
    fn take_unreserved(&self) -> Option<i64> {
        let mut state = self.state.lock();
        let next = self.params.next(state.at)?;
        state.ahead = state.ahead.saturating_sub(1);
        (state.at, state.taken) = (next, state.taken + 1);
        Some(next.last)
    }

    fn has(&self, count: u64) -> bool {
        let state = self.state.lock();
        self.is_staged() || !state.is_closed && state.ahead >= count
    }

    /// Lets it stand elsewhere, with nothing reserved.
    pub(crate) fn place(&self, at: Position) {
        let mut state = self.state.lock();
        (state.at, state.ahead, state.is_closed) = (at, 0, false);
    }

    /// Lets it give no more values; where it stands.
    pub(crate) fn close(&self) -> Position {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.at
    }

    /// Lets it go on, as what it was closed for has failed.
    pub(crate) fn reopen(&self) {
        self.state.lock().is_closed = false;
    }

    fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    fn ended(&self, name: &str) -> SqlError {
        let (what, bound) =
            if self.params.increment > 0 { ("maximum", self.params.max) } else { ("minimum", self.params.min) };
        let message = format!("nextval: reached {what} value of sequence \"{name}\" ({bound})");
        SqlError::new(SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED, message)
    }
}

/// Where the store says where a sequence stands.
fn key(id: GlobalId) -> String {
    format!("sequence/{:016x}", id.to_u64())
}

/// What makes durable where a sequence stands.
pub(crate) fn put(id: GlobalId, at: Position) -> MetaWrite {
    let mut value = at.last.to_be_bytes().to_vec();
    value.push(at.is_called.into());
    MetaWrite::Put { key: key(id), value }
}

/// What makes durable that a sequence is gone.
pub(crate) fn forget(id: GlobalId) -> MetaWrite {
    MetaWrite::Delete { key: key(id) }
}

fn decode(bytes: &[u8]) -> Option<Position> {
    let (last, rest) = bytes.split_first_chunk()?;
    match rest {
        [called @ (0 | 1)] => Some(Position { last: i64::from_be_bytes(*last), is_called: *called == 1 }),
        _ => None,
    }
}

/// Who is told when values are reserved, or that this has failed.
pub(crate) enum Reply {
    /// A thread that waits.
    Thread(Sender<Result<(), AdapterError>>),
    /// A task that does.
    Task(oneshot::Sender<Result<(), AdapterError>>),
}

impl Reply {
    /// Who has gone does not want the answer.
    pub(crate) fn send(self, answer: Result<(), AdapterError>) {
        match self {
            Reply::Thread(reply) => drop(reply.send(answer)),
            Reply::Task(reply) => drop(reply.send(answer)),
        }
    }
}

/// A question for values of a sequence.
pub(crate) struct Asked {
    pub(crate) sequence: Arc<Sequence>,
    pub(crate) count: u64,
    pub(crate) reply: Reply,
}

/// What the committer has to reserve, and what it is about to.
#[derive(Default)]
pub(crate) struct Reserving {
    asked: Vec<Asked>,
    /// What is to be written besides.
    pub(crate) also: Vec<MetaWrite>,
    under_way: Vec<Block>,
    answers: Vec<Reply>,
}

/// Values that the next commit reserves.
struct Block {
    sequence: Arc<Sequence>,
    /// Values after where the sequence stood then, and how many had been taken before that.
    count: u64,
    taken: u64,
}

impl Reserving {
    pub(crate) fn ask(&mut self, asked: Asked) {
        self.asked.push(asked);
    }

    /// Whether somebody waits for a commit.
    pub(crate) fn is_due(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Step 2: what the next commit has to write.
    pub(crate) fn due(&mut self, published: &Published) -> Vec<MetaWrite> {
        let mut writes = std::mem::take(&mut self.also);
        let mut wanted: BTreeMap<GlobalId, (Arc<Sequence>, u64)> = BTreeMap::new();
        for Asked { sequence, count, reply } in std::mem::take(&mut self.asked) {
            let is_current = published.sequences.get(&sequence.id).is_some_and(|now| Arc::ptr_eq(now, &sequence));
            if is_current && sequence.state.lock().is_closed {
                // Another one is about to take its place.
                self.asked.push(Asked { sequence, count, reply });
                continue;
            }
            self.answers.push(reply);
            if is_current {
                wanted.entry(sequence.id).or_insert_with(|| (sequence, 0)).1 += count;
            }
        }
        for (id, (sequence, count)) in wanted {
            let mut state = sequence.state.lock();
            let ahead = state.ahead;
            let Some(more) = count.checked_sub(ahead).filter(|more| *more > 0) else { continue };
            let soon = state.reserved.is_some_and(|reserved| reserved.elapsed() < USED_UP_SOON);
            state.block = if soon { (state.block * 2).min(BLOCK_MAX) } else { BLOCK_MIN };
            state.reserved = Some(Instant::now());
            let count = ahead.saturating_add(more.max(state.block + 1));
            let Some((end, count)) = sequence.params.advance(state.at, count) else { continue };
            if count > ahead {
                writes.push(put(id, end));
                let taken = state.taken;
                drop(state);
                self.under_way.push(Block { sequence, count, taken });
            }
        }
        writes
    }

    /// Tells all who wait that there will be no commit.
    pub(crate) fn refuse(&mut self, failure: impl Fn() -> AdapterError) {
        for Asked { reply, .. } in self.asked.drain(..) {
            reply.send(Err(failure()));
        }
    }

    /// Step 3, once that is durable, or has failed.
    pub(crate) fn settle(&mut self, failure: Option<impl Fn() -> AdapterError>) {
        for Block { sequence, count, taken } in self.under_way.drain(..) {
            let mut state = sequence.state.lock();
            if failure.is_none() {
                // More may have been taken meanwhile than were reserved, by who makes them durable.
                state.ahead = count.saturating_sub(state.taken - taken);
            }
        }
        for reply in self.answers.drain(..) {
            reply.send(failure.as_ref().map_or(Ok(()), |failure| Err(failure())));
        }
    }
}

impl Session {
    /// Has values reserved of each of these sequences, by their oids, that are not a transaction's own: for so many rows what one
    /// takes, as far as there are so many.
    pub(crate) async fn reserve(&mut self, row: &BTreeMap<u32, u64>, rows: u64) -> Result<(), AdapterError> {
        if row.is_empty() {
            return Ok(());
        }
        let published = self.published();
        for (oid, count) in row {
            let (id, count) = (published.sequence_oids.get(oid), count.saturating_mul(rows));
            let sequence = id.and_then(|id| published.sequences.get(id));
            let Some(sequence) = sequence.filter(|sequence| !sequence.has(count)) else { continue };
            let (reply, answer) = oneshot::channel();
            let asked = Asked { sequence: Arc::clone(sequence), count, reply: Reply::Task(reply) };
            self.shared.send(Request::Reserve(asked)).await?;
            self.interrupt().guard(answer).await?.map_err(|_| stopping())??;
        }
        Ok(())
    }
}

/// What a session was given.
#[derive(Default)]
pub(crate) struct Given {
    values: HashMap<u32, GivenValue>,
    /// The sequence of which it was given a value last.
    last: Option<u32>,
}

/// The last value that a session was given of a sequence.
struct GivenValue {
    value: i64,
    /// Whether the sequence was made by a transaction that has not ended: another one may get its oid.
    is_of_new: bool,
}

impl Given {
    fn note(&mut self, oid: u32, value: i64, sequence: &Sequence) {
        let is_of_new = sequence.is_staged() && sequence.since().is_none();
        self.values.insert(oid, GivenValue { value, is_of_new });
    }

    /// The transaction has committed.
    pub(crate) fn committed(&mut self) {
        self.values.values_mut().for_each(|given| given.is_of_new = false);
    }

    /// The transaction was undone, up to where it had this catalog if it had one of its own.
    pub(crate) fn undone(&mut self, left: Option<&Published>) {
        let is_left = |oid: &u32| left.is_some_and(|left| left.sequence_oids.contains_key(oid));
        self.values.retain(|oid, given| !given.is_of_new || is_left(oid));
    }

    /// DISCARD SEQUENCES.
    pub(crate) fn discard(&mut self) {
        *self = Given::default();
    }
}

/// The sequences of which a statement's rows took values that were not reserved: for the commit of the rows.
pub(crate) type Unreserved = Arc<Mutex<BTreeMap<GlobalId, Arc<Sequence>>>>;

/// The sequences for one statement of a session.
pub(crate) struct SessionSequences {
    pub(crate) shared: Arc<Shared>,
    /// The catalog, if it is the transaction's own.
    pub(crate) staged: Option<Arc<Published>>,
    pub(crate) role: RoleId,
    pub(crate) read_only: bool,
    pub(crate) given: Arc<Mutex<Given>>,
    /// Where the committer itself makes the rows, which cannot wait for itself.
    pub(crate) unreserved: Option<Unreserved>,
    /// The sequence of which values may be taken, as was found out, and whether for an identity column.
    pub(crate) allowed: Mutex<Option<(u32, bool, Arc<Sequence>)>>,
}

impl SessionSequences {
    fn published(&self) -> Arc<Published> {
        self.staged.clone().unwrap_or_else(|| self.shared.published.load_full())
    }

    /// The sequence with this oid, with which the role may do one of these, if any is needed. Errors: 42P01, 42809, 42501.
    fn find(&self, oid: u32, privileges: &[Privilege]) -> Result<(Arc<Sequence>, Arc<ItemRef>), SqlError> {
        let published = self.published();
        let state: &Catalog = &published.state;
        let id = published.sequence_oids.get(&oid);
        let found = id.and_then(|id| Some((published.sequences.get(id)?, state.item(*id)?)));
        let Some((sequence, item)) = found else {
            return Err(match state.all_items().find(|item| item.oid == oid) {
                Some(item) => {
                    let message = format!("\"{}\" is not a sequence", item.name.item);
                    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                }
                None => SqlError::new(SqlState::UNDEFINED_TABLE, format!("could not open relation with OID {oid}")),
            });
        };
        let may = |privilege: &Privilege| has_privilege(state, self.role, ObjectId::Item(item.id), *privilege);
        if !privileges.is_empty() && !privileges.iter().any(may) {
            let message = format!("permission denied for sequence {}", item.name.item);
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        Ok((Arc::clone(sequence), item))
    }

    /// Whether the transaction's own catalog has a sequence whose place another one has taken, or none.
    fn has_gone(&self, sequence: &Arc<Sequence>) -> bool {
        if sequence.is_staged() {
            return sequence.is_closed();
        }
        let published = self.shared.published.load();
        let now = published.sequences.get(&sequence.id);
        self.staged.is_some() && !now.is_some_and(|now| Arc::ptr_eq(now, sequence))
    }

    /// Errors: 25006, but for a sequence of the session's temporary ones.
    fn check_writable(&self, function: &str, oid: u32, session: &SessionInfo) -> Result<(), SqlError> {
        let is_temporary = |item: &ItemRef| session.temporary.as_deref() == Some(item.name.schema.as_str());
        if self.read_only && !self.find(oid, &[]).is_ok_and(|(_, item)| is_temporary(&item)) {
            let message = format!("cannot execute {function}() in a read-only transaction");
            return Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message));
        }
        Ok(())
    }

    /// Asks the committer, and waits for its answer on this thread.
    fn ask(&self, request: impl FnOnce(Reply) -> Request) -> Result<(), SqlError> {
        let (reply, answer) = crossbeam_channel::bounded(1);
        let sent = self.shared.commits.send(request(Reply::Thread(reply)));
        let answer = match sent {
            Ok(()) => answer.recv().unwrap_or_else(|_| Err(stopping())),
            Err(_) => Err(stopping()),
        };
        answer.map_err(without_context)
    }
}

fn without_context(error: AdapterError) -> SqlError {
    SqlError::new(error.sqlstate(), error.to_string())
}

impl Sequences for SessionSequences {
    fn next(&self, oid: u32, of_identity: bool, session: &SessionInfo) -> Result<i64, SqlError> {
        self.check_writable("nextval", oid, session)?;
        let needed: &[Privilege] = if of_identity { &[] } else { &[Privilege::Usage, Privilege::Update] };
        let mut known = match &*self.allowed.lock() {
            Some((known, was_identity, sequence)) if (*known, *was_identity) == (oid, of_identity) => {
                Some(Arc::clone(sequence))
            }
            _ => None,
        };
        loop {
            let sequence = match known.take() {
                Some(sequence) => sequence,
                None => {
                    let (sequence, _) = self.find(oid, needed)?;
                    *self.allowed.lock() = Some((oid, of_identity, Arc::clone(&sequence)));
                    sequence
                }
            };
            let taken = match &self.unreserved {
                Some(unreserved) => {
                    unreserved.lock().insert(sequence.id, Arc::clone(&sequence));
                    sequence.take_unreserved().map_or(Taken::Ended, Taken::Value)
                }
                None => sequence.take(),
            };
            match taken {
                Taken::Value(value) => {
                    let mut given = self.given.lock();
                    given.note(oid, value, &sequence);
                    given.last = Some(oid);
                    return Ok(value);
                }
                // Such a transaction cannot commit any more.
                Taken::Wait if self.has_gone(&sequence) => return Err(without_context(conflict())),
                Taken::Wait => self.ask(|reply| Request::Reserve(Asked { sequence, count: 1, reply }))?,
                Taken::Ended => {
                    let (_, item) = self.find(oid, needed)?;
                    return Err(sequence.ended(&item.name.item));
                }
            }
        }
    }

    fn current(&self, oid: u32, _session: &SessionInfo) -> Result<i64, SqlError> {
        let (_, item) = self.find(oid, &[Privilege::Usage, Privilege::Select])?;
        self.given.lock().values.get(&oid).map(|given| given.value).ok_or_else(|| {
            let message = format!("currval of sequence \"{}\" is not yet defined in this session", item.name.item);
            SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        })
    }

    fn last(&self, _session: &SessionInfo) -> Result<i64, SqlError> {
        let undefined = || {
            let message = "lastval is not yet defined in this session";
            SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        };
        let last = {
            let given = self.given.lock();
            given.last.and_then(|oid| Some((oid, given.values.get(&oid)?.value)))
        };
        let (oid, value) = last.ok_or_else(undefined)?;
        match self.find(oid, &[Privilege::Usage, Privilege::Select]) {
            Ok(_) => Ok(value),
            Err(error) if error.sqlstate == SqlState::INSUFFICIENT_PRIVILEGE => Err(error),
            Err(_) => Err(undefined()),
        }
    }

    fn last_value(&self, oid: u32) -> Result<Option<i64>, SqlError> {
        let (sequence, _) = self.find(oid, &[Privilege::Usage, Privilege::Select])?;
        let at = sequence.position();
        Ok(at.is_called.then_some(at.last))
    }

    fn set(&self, oid: u32, value: i64, is_called: bool, session: &SessionInfo) -> Result<(), SqlError> {
        self.check_writable("setval", oid, session)?;
        let to = Position { last: value, is_called };
        loop {
            let (sequence, item) = self.find(oid, &[Privilege::Update])?;
            let SequenceParams { min, max, .. } = sequence.params;
            if !(min..=max).contains(&value) {
                let name = &item.name.item;
                let message = format!("setval: value {value} is out of bounds for sequence \"{name}\" ({min}..{max})");
                return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
            }
            if self.unreserved.is_some() {
                return Err(SqlError::unsupported("function setval here"));
            }
            if self.has_gone(&sequence) {
                return Err(without_context(conflict()));
            }
            if sequence.is_staged() {
                sequence.place(to);
            } else {
                let asked = Arc::clone(&sequence);
                self.ask(|reply| Request::SetSequence { sequence: asked, to, reply })?;
                let (now, _) = self.find(oid, &[Privilege::Update])?;
                if !Arc::ptr_eq(&now, &sequence) || self.has_gone(&sequence) {
                    continue;
                }
            }
            if is_called {
                self.given.lock().note(oid, value, &sequence);
            }
            return Ok(());
        }
    }

    fn position(&self, id: GlobalId) -> Option<Position> {
        self.published().sequences.get(&id).map(|sequence| sequence.position())
    }
}

#[cfg(test)]
mod tests {
    use super::{MetaWrite, Sequence, Staged, Taken, decode, put};
    use repr::{GlobalId, PgType};
    use sql::ast::SequenceOptions;
    use sql::plan::sequence::{Position, SequenceParams};

    #[test]
    fn positions_round_trip() {
        for at in [Position { last: i64::MIN, is_called: false }, Position { last: 7, is_called: true }] {
            let MetaWrite::Put { value, .. } = put(GlobalId::User(3), at) else { panic!("it is a value") };
            assert_eq!(decode(&value), Some(at));
        }
        assert_eq!(decode(&[0; 8]), None);
        assert_eq!(decode(&[2; 9]), None);
    }

    #[test]
    fn nothing_is_given_that_is_not_reserved() {
        let params = SequenceParams::new(&SequenceOptions::default(), PgType::Int8).expect("the defaults are sound");
        let sequence = Sequence::new(GlobalId::User(1), &params, params.first(), None);
        assert!(matches!(sequence.take(), Taken::Wait));
        let staged = Sequence::new(GlobalId::User(1), &params, params.first(), Some(Staged { since: None }));
        assert!(matches!(staged.take(), Taken::Value(1)), "only its transaction knows of it");
    }
}
