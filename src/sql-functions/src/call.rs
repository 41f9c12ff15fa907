//! One call of a declared function: what its body may know beside its arguments.

use crate::cast::CastContextInfo;
use crate::lengths::{check_length, too_long};
use engine::error::SqlError;
use engine::session::SessionInfo;
use repr::PgType;
use repr::sqlstate::SqlState;

/// What a body may know beside its arguments.
pub struct Call<'a> {
    /// The session, unless the function runs at planning time.
    pub session: Option<&'a SessionInfo>,
    /// Time zone and formats.
    pub context: &'a CastContextInfo<'a>,
    /// The Postgres types of the arguments.
    pub args: &'a [PgType],
    /// The type of the result; of an item, for a set.
    pub returns: &'a PgType,
    /// The function's name.
    pub name: &'a str,
    /// Which column of its rows is asked for, if they have several.
    pub column: usize,
}

/// The most elements that a function may make at once.
pub const ELEMENTS_MAX: i64 = 50_000_000;
/// The most elements of a set that becomes part of a plan.
const FOLDED_ELEMENTS_MAX: i64 = 1_000;
/// The most bytes of what a function that may make much of little is given, and makes, while a query is planned.
const FOLDED_BYTES_MAX: i64 = 4_096;

impl Call<'_> {
    /// Error 54000 if a set is to have more elements than it may. While a query is planned, few are too many: the call then stays
    /// in the plan, which is kept and shown, and is made on a thread that others wait for.
    pub fn check_elements(&self, count: i64) -> Result<(), SqlError> {
        let most = if self.is_planning() { FOLDED_ELEMENTS_MAX } else { ELEMENTS_MAX };
        if count <= most {
            return Ok(());
        }
        Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a series of this length is not supported")
            .with_detail(format!("A series has at most {most} elements.")))
    }

    /// Error 54000 if no value may have so many bytes; while a query is planned, few are too many likewise.
    pub(crate) fn check_length(&self, length: i64) -> Result<(), SqlError> {
        if self.is_planning() && length > FOLDED_BYTES_MAX {
            return Err(too_long());
        }
        check_length(length)
    }

    /// Whether this is a call with constants that becomes its value.
    pub(crate) fn is_planning(&self) -> bool {
        self.session.is_none_or(|session| session.now_us.is_none())
    }

    /// The session; there is always one where `!session` functions run.
    pub fn session(&self) -> Result<&SessionInfo, SqlError> {
        self.session.ok_or_else(|| SqlError::internal(format!("{} runs without a session", self.name)))
    }

    /// Microseconds since the epoch of the transaction's start.
    pub fn now_us(&self) -> i64 {
        self.session.and_then(|session| session.now_us).unwrap_or(0)
    }
}
