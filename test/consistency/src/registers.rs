//! Registers: rows that are read, written, and compared and set; and the definition of a view, which DDL writes.
//!
//! Compare-and-set is one UPDATE that finds no row if the value is another: a statement that changes nothing says something
//! about the time at which it was asked, too. A swap is a block that reads and then writes.

use std::sync::atomic::{AtomicU64, Ordering};

use rand::Rng;

use crate::session::{Failure, Session};
use crate::stage::{Actor, Answer, Stage};

/// Registers that there are, in two tables by turns: with an index and without.
const REGISTERS: u64 = 2_000;
/// Registers that clients use at a time.
const ACTIVE: u64 = 6;
/// Operations after which clients use other registers, so that no register's history is long.
const OPERATIONS: u64 = 60;
/// The register that is a view's definition.
const DEFINITION: u64 = u64::MAX;

/// An operation. Times in nanoseconds of one monotonic clock.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Who asked.
    pub client: usize,
    /// Of which register.
    pub key: u64,
    /// What.
    pub action: Action,
    /// When.
    pub call_ns: u64,
    /// When the answer was there; `u64::MAX` if none came.
    pub return_ns: u64,
}

/// What is done to a register. What was found is `None` if there was no answer.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// Its value.
    Read(Option<u64>),
    /// Another value.
    Write(u64),
    /// Another value if it has this one; whether it had.
    CompareAndSet { expected: u64, value: u64, had: Option<bool> },
    /// Its value, and another at once.
    Swap { found: Option<u64>, value: u64 },
}

impl Operation {
    /// As porcupine reads it.
    pub fn json(&self) -> String {
        let (op, value, expected, found) = match self.action {
            Action::Read(found) => ("read", 0, 0, found),
            Action::Write(value) => ("write", value, 0, None),
            Action::CompareAndSet { expected, value, had } => ("cas", value, expected, had.map(u64::from)),
            Action::Swap { found, value } => ("swap", value, 0, found),
        };
        let returned = (self.return_ns != u64::MAX).then_some(self.return_ns);
        let Operation { client, key, call_ns: call, .. } = self;
        serde_json::json!({
            "client": client, "key": key, "op": op, "value": value, "expected": expected, "found": found,
            "call": call, "return": returned,
        })
        .to_string()
    }
}

/// Makes the tables and views.
pub fn prepare(session: &mut Session) -> Result<(), Failure> {
    session.execute_each([
        "CREATE TABLE registers (key int8, value int8)".to_owned(),
        "CREATE INDEX registers_key ON registers (key)".to_owned(),
        "CREATE TABLE bare_registers (key int8, value int8)".to_owned(),
        "CREATE VIEW registers_view AS SELECT key, value, value % 2 AS parity FROM registers".to_owned(),
        "CREATE INDEX registers_view_key ON registers_view (key)".to_owned(),
        "CREATE VIEW bare_registers_view AS SELECT key, value FROM bare_registers".to_owned(),
        "CREATE VIEW definition AS SELECT 0::int8 AS value".to_owned(),
        format!("INSERT INTO registers SELECT n, 0 FROM generate_series(0, {REGISTERS}) AS series(n) WHERE n % 2 = 0"),
        format!(
            "INSERT INTO bare_registers SELECT n, 0 FROM generate_series(0, {REGISTERS}) AS series(n) WHERE n % 2 = 1"
        ),
    ])
}

/// What all clients of one history share.
#[derive(Debug, Default)]
pub struct Registers {
    /// Every write has a value of its own.
    values: AtomicU64,
    operations: AtomicU64,
}

impl Registers {
    /// Runs clients until the end; returns their history.
    pub fn run(&self, stage: &Stage, clients: usize, seed: u64) -> Vec<Operation> {
        stage.clients(clients, seed, |actor| self.operate(actor))
    }

    fn operate(&self, actor: &mut Actor<'_>) -> Option<Operation> {
        let count = self.operations.fetch_add(1, Ordering::SeqCst);
        // One client changes the definition now and then; all read it.
        let is_ddl = actor.index == 0 && actor.random.random_bool(0.1);
        if is_ddl || actor.random.random_bool(0.1) {
            return self.define(actor, is_ddl);
        }
        let key = (count / OPERATIONS + actor.random.random_range(0..ACTIVE)) % REGISTERS;
        let (choice, prepared) = (actor.random.random_range(0..100), actor.random.random_bool(0.4));
        let by_view = actor.random.random_bool(0.4);
        let table = if key.is_multiple_of(2) { "registers" } else { "bare_registers" };
        let source = if by_view { format!("{table}_view") } else { table.to_owned() };
        let value = self.values.fetch_add(1, Ordering::SeqCst) + 1;
        match choice {
            0..45 => operation(actor, key, |session| read(session, &source, key, prepared), Action::Read),
            45..65 => operation(
                actor,
                key,
                |session| {
                    let changed = session.execute(&format!("UPDATE {table} SET value = {value} WHERE key = {key}"))?;
                    one_row(changed, table, key)
                },
                |_| Action::Write(value),
            ),
            65..90 => {
                // What somebody has seen a moment ago, so that others may have changed it meanwhile.
                let seen = operation(actor, key, |session| read(session, &source, key, prepared), Action::Read)?;
                let Action::Read(Some(expected)) = seen.action else { return None };
                let sql = format!("UPDATE {table} SET value = {value} WHERE key = {key} AND value = {expected}");
                operation(
                    actor,
                    key,
                    |session| session.execute(&sql).map(|changed| changed == 1),
                    |had| Action::CompareAndSet { expected, value, had },
                )
            }
            _ => operation(
                actor,
                key,
                |session| session.block(|session| swap(session, &source, table, key, value)),
                |found| Action::Swap { found, value },
            ),
        }
    }

    /// Reads the definition, or replaces it.
    fn define(&self, actor: &mut Actor<'_>, is_ddl: bool) -> Option<Operation> {
        if !is_ddl {
            let prepared = actor.random.random_bool(0.5);
            let sql = "SELECT value FROM definition";
            return operation(actor, DEFINITION, |session| single(session, sql, prepared), Action::Read);
        }
        let value = self.values.fetch_add(1, Ordering::SeqCst) + 1;
        let sql = format!("CREATE OR REPLACE VIEW definition AS SELECT {value}::int8 AS value");
        operation(actor, DEFINITION, |session| session.execute(&sql), |_| Action::Write(value))
    }
}

/// Asks, and records what was asked if it may have happened. A read without an answer says nothing.
fn operation<A>(
    actor: &mut Actor<'_>,
    key: u64,
    question: impl FnOnce(&mut Session) -> Result<A, Failure>,
    action: impl FnOnce(Option<A>) -> Action,
) -> Option<Operation> {
    let asked = actor.ask(question)?;
    let action = match asked.answer {
        Answer::Given(answer) => action(Some(answer)),
        Answer::Lost => action(None),
        Answer::Refused(_) => return None,
    };
    let (client, call_ns, return_ns) = (actor.index, asked.call_ns, asked.return_ns);
    let says_something = !matches!(action, Action::Read(None));
    says_something.then_some(Operation { client, key, action, call_ns, return_ns })
}

fn swap(session: &mut Session, source: &str, table: &str, key: u64, value: u64) -> Result<u64, Failure> {
    let found = read(session, source, key, false)?;
    let changed = session.execute(&format!("UPDATE {table} SET value = {value} WHERE key = {key}"))?;
    one_row(changed, table, key)?;
    Ok(found)
}

fn read(session: &mut Session, source: &str, key: u64, prepared: bool) -> Result<u64, Failure> {
    if prepared {
        let key = i64::try_from(key).expect("few registers");
        let rows = session.prepared(&format!("SELECT value FROM {source} WHERE key = $1"), &[key])?;
        let values: Vec<i64> = rows.iter().filter_map(|row| row[0].as_deref()?.parse().ok()).collect();
        return only(&values, source);
    }
    single(session, &format!("SELECT value FROM {source} WHERE key = {key}"), false)
}

fn single(session: &mut Session, sql: &str, prepared: bool) -> Result<u64, Failure> {
    let rows = if prepared { session.prepared(sql, &[])? } else { session.rows(sql)? };
    let values: Vec<i64> = rows.iter().filter_map(|row| row[0].as_deref()?.parse().ok()).collect();
    only(&values, sql)
}

fn only(values: &[i64], what: &str) -> Result<u64, Failure> {
    match values {
        [value] => Ok(value.cast_unsigned()),
        others => Err(Failure::Wrong(format!("{what} gives {others:?}, and not one value"))),
    }
}

fn one_row(changed: u64, table: &str, key: u64) -> Result<(), Failure> {
    match changed {
        1 => Ok(()),
        others => Err(Failure::Wrong(format!("a write of register {key} in {table} changed {others} rows"))),
    }
}
