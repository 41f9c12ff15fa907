//! The connection that sqllogictest drives: simple protocol, text values, SQLSTATE errors.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Mutex;

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

/// How a session answers queries.
#[derive(Clone, Copy)]
pub enum Mode<'a> {
    /// As they are.
    Plain,
    /// From a view of the query that is maintained for that purpose. What cannot be is answered as it is, and the reason is
    /// put down.
    Views(&'a Mutex<Refusals>),
}

/// Why queries could not be maintained: their number by message.
pub type Refusals = BTreeMap<String, usize>;

/// One connection to one database.
pub struct Session<'a> {
    target: &'a Target,
    database: String,
    mode: Mode<'a>,
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
    pub fn open(target: &'a Target, database: &str, mode: Mode<'a>) -> Result<Session<'a>, SessionError> {
        let wire = Wire::start(target.admin_addr(), "mz_system", database)?;
        Ok(Session { target, database: database.to_owned(), mode, wire })
    }

    /// Answers a query from the index on a view of it.
    fn answer_from_view(&mut self, sql: &str, refusals: &Mutex<Refusals>) -> anyhow::Result<Vec<Message>> {
        let query = sql.trim().trim_end_matches(';');
        let mut create = format!("CREATE VIEW {VIEW} AS {query}");
        let mut created = self.wire.query(&create)?;
        if code_of(&created).as_deref() == Some(DUPLICATE_COLUMN) {
            // A view's columns have names of their own; a query's may repeat, or be called `?column?` several times.
            let described = self.wire.query(query)?;
            let columns =
                described.iter().find(|message| message.tag == b'T').map(Message::columns).unwrap_or_default();
            let distinct: BTreeSet<&String> = columns.iter().map(|column| &column.name).collect();
            anyhow::ensure!(distinct.len() < columns.len(), "no name is there twice: {query}");
            let names: Vec<String> = (1..=columns.len()).map(|at| format!("c{at}")).collect();
            create = format!("CREATE VIEW {VIEW} ({}) AS {query}", names.join(", "));
            created = self.wire.query(&create)?;
        }
        if let Some(answer) = self.unless_refused(created, query, refusals)? {
            return Ok(answer);
        }
        let mut answer = None;
        if self.target.is_glimpse() {
            let indexed = self.wire.query(&format!("CREATE DEFAULT INDEX ON {VIEW}"))?;
            answer = self.unless_refused(indexed, query, refusals)?;
        }
        let answer = match answer {
            Some(answer) => answer,
            None => self.wire.query(&format!("SELECT * FROM {VIEW}"))?,
        };
        self.wire.execute(&format!("DROP VIEW {VIEW} CASCADE"))?;
        Ok(answer)
    }

    /// What a failed statement answers to the query; for a refusal, what the query answers without a view.
    fn unless_refused(
        &mut self,
        messages: Vec<Message>,
        query: &str,
        refusals: &Mutex<Refusals>,
    ) -> anyhow::Result<Option<Vec<Message>>> {
        let Some(error) = messages.iter().find_map(Message::error) else { return Ok(None) };
        if error.code != "0A000" {
            return Ok(Some(messages));
        }
        let plain = self.wire.query(query)?;
        if code_of(&plain).as_deref() != Some("0A000") {
            *refusals.lock().expect("no thread panics while it holds the lock").entry(error.message).or_default() += 1;
        }
        Ok(Some(plain))
    }
}

/// The view that a query becomes.
const VIEW: &str = "slt_view";
const DUPLICATE_COLUMN: &str = "42701";

fn code_of(messages: &[Message]) -> Option<String> {
    messages.iter().find_map(Message::error).map(|error| error.code)
}

/// Whether a statement gives rows of a query and can be the query of a view.
fn is_query(sql: &str) -> bool {
    let first = sql.trim_start().trim_start_matches('(').trim_start().split(|c: char| !c.is_alphabetic()).next();
    first.is_some_and(|word| ["select", "with", "values", "table"].contains(&word.to_lowercase().as_str()))
}

impl DB for Session<'_> {
    type Error = SessionError;
    type ColumnType = ColumnKind;

    fn run(&mut self, sql: &str) -> Result<DBOutput<ColumnKind>, SessionError> {
        let answered = match self.mode {
            // Within a transaction no view can be made.
            Mode::Views(refusals) if is_query(sql) && self.wire.is_idle() => self.answer_from_view(sql, refusals),
            _ => self.wire.query(sql),
        };
        let messages = match answered {
            Ok(messages) => messages,
            Err(error) => {
                // The connection is lost; the records that follow deserve a new one.
                self.wire = Session::open(self.target, &self.database, self.mode)?.wire;
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
