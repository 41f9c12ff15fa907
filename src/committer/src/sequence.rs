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

use crate::error::CommitError;
use crossbeam_channel::Sender;
use engine::error::SqlError;
use engine::session::Position;
use parking_lot::Mutex;
use persist::{MetaWrite, PersistClient};
use repr::GlobalId;
use repr::sqlstate::SqlState;
use sql::plan::{ItemKind, ItemRef};
use sql::sequence::SequenceParams;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Values that are reserved beyond those that are asked for, as in Postgres.
const BLOCK_MIN: u64 = 32;
/// The most: what a crash skips.
const BLOCK_MAX: u64 = 8_192;
/// A block that is used up within this time makes the next one larger.
const USED_UP_SOON: Duration = Duration::from_secs(1);

/// A sequence as sessions take values from it.
pub struct Sequence {
    pub id: GlobalId,
    /// Its bounds and steps.
    pub params: SequenceParams,
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
    /// When the block was, by the monotonic clock.
    reserved: Option<Duration>,
    is_closed: bool,
}

/// What taking a value has come to.
pub enum Taken {
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
    pub(crate) fn stored(persist: &PersistClient, item: &ItemRef) -> Result<Option<Arc<Sequence>>, CommitError> {
        let ItemKind::Sequence(def) = &item.kind else { return Ok(None) };
        let at = match persist.meta_get(&key(item.id))? {
            Some(bytes) => decode(&bytes).ok_or_else(|| {
                CommitError::new(
                    SqlState::DATA_CORRUPTED,
                    format!("where sequence {} stands cannot be read", item.name),
                )
            })?,
            None => def.params.first(),
        };
        Ok(Some(Sequence::new(item.id, &def.params, at, None)))
    }

    /// A sequence that a transaction has made, or has changed from what it was.
    pub fn staged(item: &ItemRef, before: Option<&Arc<Sequence>>, restart: Option<i64>) -> Option<Arc<Sequence>> {
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
    pub fn is_staged(&self) -> bool {
        self.staged.is_some()
    }

    /// Where the one stood that a transaction has changed into this one.
    pub fn since(&self) -> Option<Position> {
        self.staged.as_ref()?.since
    }

    /// Where it stands.
    pub fn position(&self) -> Position {
        self.state.lock().at
    }

    /// Where it stands, and how many values are reserved after that.
    pub fn standing(&self) -> (Position, u64) {
        let state = self.state.lock();
        (state.at, state.ahead)
    }

    /// The next value, if it is reserved.
    pub fn take(&self) -> Taken {
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
    pub fn take_unreserved(&self) -> Option<i64> {
        let mut state = self.state.lock();
        let next = self.params.next(state.at)?;
        state.ahead = state.ahead.saturating_sub(1);
        (state.at, state.taken) = (next, state.taken + 1);
        Some(next.last)
    }

    /// Whether so many values can be taken without asking.
    pub fn has(&self, count: u64) -> bool {
        let state = self.state.lock();
        self.is_staged() || !state.is_closed && state.ahead >= count
    }

    /// Lets it stand elsewhere, with nothing reserved.
    pub fn place(&self, at: Position) {
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

    /// Whether it gives no more values.
    pub fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// 2200H: it has no more values.
    pub fn ended(&self, name: &str) -> SqlError {
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

/// The sequences of which a statement's rows took values that were not reserved: for the commit of the rows.
pub type Unreserved = Arc<Mutex<BTreeMap<GlobalId, Arc<Sequence>>>>;

/// Who is told when values are reserved, or that this has failed.
pub(crate) enum Reply {
    /// A thread that waits.
    Thread(Sender<Result<(), CommitError>>),
    /// A task that does.
    Task(oneshot::Sender<Result<(), CommitError>>),
}

impl Reply {
    /// Who has gone does not want the answer.
    pub(crate) fn send(self, answer: Result<(), CommitError>) {
        match self {
            Reply::Thread(reply) => drop(reply.send(answer)),
            Reply::Task(reply) => drop(reply.send(answer)),
        }
    }
}

/// A question for values of a sequence.
pub(crate) struct Asked {
    pub sequence: Arc<Sequence>,
    pub count: u64,
    pub reply: Reply,
}

/// What the committer has to reserve, and what it is about to.
#[derive(Default)]
pub(crate) struct Reserving {
    asked: Vec<Asked>,
    /// What is to be written besides.
    pub also: Vec<MetaWrite>,
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

    /// Step 2: what the next commit has to write, if these are the sequences as they are now, by the monotonic clock.
    pub(crate) fn due(&mut self, current: &HashMap<GlobalId, Arc<Sequence>>, now: Duration) -> Vec<MetaWrite> {
        let mut writes = std::mem::take(&mut self.also);
        let mut wanted: BTreeMap<GlobalId, (Arc<Sequence>, u64)> = BTreeMap::new();
        for Asked { sequence, count, reply } in std::mem::take(&mut self.asked) {
            let is_current = current.get(&sequence.id).is_some_and(|now| Arc::ptr_eq(now, &sequence));
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
            let soon = state.reserved.is_some_and(|reserved| now.saturating_sub(reserved) < USED_UP_SOON);
            state.block = if soon { (state.block * 2).min(BLOCK_MAX) } else { BLOCK_MIN };
            state.reserved = Some(now);
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
    pub(crate) fn refuse(&mut self, failure: impl Fn() -> CommitError) {
        for Asked { reply, .. } in self.asked.drain(..) {
            reply.send(Err(failure()));
        }
    }

    /// Step 3, once that is durable, or has failed.
    pub(crate) fn settle(&mut self, failure: Option<impl Fn() -> CommitError>) {
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

#[cfg(test)]
mod tests {
    use super::{MetaWrite, Sequence, Staged, Taken, decode, put};
    use engine::session::Position;
    use repr::{GlobalId, PgType};
    use sql::sequence::SequenceParams;
    use sql_syntax::ast::SequenceOptions;

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
