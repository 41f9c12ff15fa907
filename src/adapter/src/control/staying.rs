//! What a session does where others wait, and what it refuses to do there ([`super::short`]).

use crate::control::short::{SMALL_PARAMS, SMALL_TEXT};
use crate::error::AdapterError;
use crate::session::Session;
use crate::status::Status;
use engine::error::SqlError;
use ore::memory::Reservation;
use repr::Datum;

/// How often a parameter is there while its statement runs, at the most.
const PARAM_COPIES: usize = 5;

impl Session {
    /// What a text that is not small takes of the memory. Error 53200.
    pub(crate) fn memory_for(&self, sql: &str) -> Result<Option<Reservation>, AdapterError> {
        if sql.len() <= SMALL_TEXT {
            return Ok(None);
        }
        let mut memory = Reservation::empty(&self.shared.memory);
        memory.try_grow(sql_syntax::parser::estimated_bytes(sql)).map_err(SqlError::from)?;
        Ok(Some(memory))
    }

    /// What parameters that are not small take of the memory until a statement has run: they are part of its plan then, in several
    /// forms. Error 53200.
    pub(crate) fn memory_for_params(&self, params: &[Datum<'_>]) -> Result<Option<Reservation>, AdapterError> {
        let bytes = params.iter().map(Datum::heap_bytes).sum::<usize>();
        if bytes <= SMALL_PARAMS {
            return Ok(None);
        }
        let mut memory = Reservation::empty(&self.shared.memory);
        memory.try_grow(bytes.saturating_mul(PARAM_COPIES)).map_err(SqlError::from)?;
        Ok(Some(memory))
    }

    /// Goes on only if what comes is known to be short, or nobody waits for this thread. Error [`AdapterError::Elsewhere`].
    pub(crate) fn stay_if(&self, is_short: bool) -> Result<(), AdapterError> {
        if is_short || self.is_elsewhere { Ok(()) } else { Err(AdapterError::Elsewhere) }
    }

    /// For ReadyForQuery, should what is done now fail.
    pub(crate) fn status_after_failure(&self) -> Status {
        if self.transaction.status == Status::Idle { Status::Idle } else { Status::Failed }
    }
}
