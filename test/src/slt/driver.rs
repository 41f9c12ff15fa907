//! The connection that sqllogictest drives: simple protocol, text values, SQLSTATE errors.

use std::fmt;

use sqllogictest::{ColumnType, DB, DBOutput};

use super::render;
use crate::target::Target;
use crate::wire::Wire;
use crate::wire::message::Message;

/// A family of types, as one letter in `query IRT`. Exact types are the matter of [`crate::columns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// `I`: int2, int4, int8, oid.
    Integer,
    /// `R`: float4, float8, numeric.
    Real,
    /// `T`: text, varchar, bpchar, name, and NULL literals.
    Text,
    /// `B`: bool.
    Bool,
    /// `D`: date, time, timestamp, timestamptz, interval.
    Temporal,
    /// `J`: json, jsonb.
    Json,
    /// `A`: arrays.
    Array,
    /// `?`: all others; agrees with everything when expected.
    Any,
}

const LETTERS: [(char, ColumnKind); 8] = [
    ('I', ColumnKind::Integer),
    ('R', ColumnKind::Real),
    ('T', ColumnKind::Text),
    ('B', ColumnKind::Bool),
    ('D', ColumnKind::Temporal),
    ('J', ColumnKind::Json),
    ('A', ColumnKind::Array),
    ('?', ColumnKind::Any),
];

impl ColumnType for ColumnKind {
    fn from_char(value: char) -> Option<ColumnKind> {
        LETTERS.iter().find(|(letter, _)| *letter == value).map(|(_, kind)| *kind)
    }

    fn to_char(&self) -> char {
        LETTERS.iter().find(|(_, kind)| kind == self).map_or('?', |(letter, _)| *letter)
    }
}

impl ColumnKind {
    /// The family of a type OID.
    pub fn of(oid: u32) -> ColumnKind {
        match oid {
            20 | 21 | 23 | 26 => ColumnKind::Integer,
            700 | 701 | 1700 => ColumnKind::Real,
            19 | 25 | 1042 | 1043 | 705 => ColumnKind::Text,
            16 => ColumnKind::Bool,
            1082 | 1083 | 1114 | 1184 | 1186 => ColumnKind::Temporal,
            114 | 3802 => ColumnKind::Json,
            199 | 3807 | 2951 => ColumnKind::Array,
            1000..=1028 | 1115 | 1182 | 1183 | 1185 | 1187 | 1231 => ColumnKind::Array,
            _ => ColumnKind::Any,
        }
    }
}

/// Whether an answer has the families that a record expects.
#[allow(clippy::ptr_arg, reason = "the signature is sqllogictest's")]
pub fn kinds_agree(actual: &Vec<ColumnKind>, expected: &Vec<ColumnKind>) -> bool {
    actual.len() == expected.len() && actual.iter().zip(expected).all(|(a, e)| *e == ColumnKind::Any || a == e)
}

/// One connection to one database.
pub struct Session<'a> {
    target: &'a Target,
    database: String,
    wire: Wire,
}

/// A failed statement, or a connection that is gone.
#[derive(Debug)]
pub struct SessionError {
    /// The SQLSTATE, when the server said one.
    pub code: Option<String>,
    message: String,
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_deref().unwrap_or("no sqlstate"), self.message)
    }
}

impl std::error::Error for SessionError {}

impl From<anyhow::Error> for SessionError {
    fn from(error: anyhow::Error) -> SessionError {
        SessionError { code: None, message: format!("{error:#}") }
    }
}

impl<'a> Session<'a> {
    /// Connects as the system user: privileges are not what these files are about.
    pub fn open(target: &'a Target, database: &str) -> Result<Session<'a>, SessionError> {
        let wire = Wire::start(target.admin_addr(), "mz_system", database)?;
        Ok(Session { target, database: database.to_owned(), wire })
    }
}

impl DB for Session<'_> {
    type Error = SessionError;
    type ColumnType = ColumnKind;

    fn run(&mut self, sql: &str) -> Result<DBOutput<ColumnKind>, SessionError> {
        let messages = match self.wire.query(sql) {
            Ok(messages) => messages,
            Err(error) => {
                // The connection is lost; the records that follow deserve a new one.
                self.wire = Session::open(self.target, &self.database)?.wire;
                return Err(error.into());
            }
        };
        output(&messages)
    }

    fn engine_name(&self) -> &str {
        self.target.engine()
    }

    fn error_sql_state(error: &SessionError) -> Option<String> {
        error.code.clone()
    }
}

fn output(messages: &[Message]) -> Result<DBOutput<ColumnKind>, SessionError> {
    if let Some(error) = messages.iter().find_map(Message::error) {
        return Err(SessionError { code: Some(error.code), message: error.message });
    }
    if let Some(description) = messages.iter().find(|message| message.tag == b'T') {
        let types = description.columns().iter().map(|column| ColumnKind::of(column.oid)).collect();
        let rows = messages.iter().filter(|message| message.tag == b'D');
        let render = |row: &Message| row.row().iter().map(|value| render::value(value.as_deref())).collect();
        return Ok(DBOutput::Rows { types, rows: rows.map(render).collect() });
    }
    let tag = messages.iter().find_map(Message::command_tag).unwrap_or_default();
    let count = tag.rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0);
    Ok(DBOutput::StatementComplete(count))
}
