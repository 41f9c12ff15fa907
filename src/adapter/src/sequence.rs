//! The sequences as a session takes values from them; how values are reserved is the committer's affair (`committer::sequence`).

use crate::error::AdapterError;
use crate::shared::Shared;
use crate::transaction::conflict;
use catalog::state::State as Catalog;
use committer::published::Published;
use committer::sequence::{Sequence, Taken, Unreserved};
use engine::SessionInfo;
use engine::error::SqlError;
use engine::names::{ObjectId, Privilege, RoleId};
use engine::session::{Position, Sequences};
use parking_lot::Mutex;
use repr::GlobalId;
use repr::sqlstate::SqlState;
use sql::plan::privileges::has_privilege;
use sql::plan::{CatalogView, ItemRef};
use sql::sequence::SequenceParams;
use std::collections::HashMap;
use std::sync::Arc;

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

    /// Whether it was given nothing.
    pub(crate) fn is_nothing(&self) -> bool {
        self.values.is_empty() && self.last.is_none()
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
}

fn without_context(error: impl Into<AdapterError>) -> SqlError {
    let error = error.into();
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
                Taken::Wait => self.shared.committer.reserve_here(sequence).map_err(without_context)?,
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
                self.shared.committer.set_sequence_here(asked, to).map_err(without_context)?;
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
