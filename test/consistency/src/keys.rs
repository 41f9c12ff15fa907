//! Rows of a table with a primary key that many insert, move and delete: no two have one key, whatever is read and by whatever
//! route, and in the end what was inserted is there, unless it was deleted.

use std::collections::BTreeSet;

use rand::Rng;

use crate::session::{Failure, Session};
use crate::stage::{Actor, Answer, Stage};

/// Few, so that clients meet.
const KEYS: u64 = 12;
/// Ways to look for keys that two rows have.
const TWICE: [&str; 4] = [
    "SELECT id FROM keyed GROUP BY id HAVING count(*) > 1",
    "SELECT a.id FROM keyed a JOIN keyed b ON a.id = b.id AND a.token <> b.token",
    "SELECT id FROM twice_indexed",
    "SELECT id FROM twice_kept",
];

/// Makes the table and the views.
pub fn prepare(session: &mut Session) -> Result<(), Failure> {
    session.execute_each([
        "CREATE TABLE keyed (id int8 PRIMARY KEY, token int8 NOT NULL, n int8 CHECK (n >= 0))",
        "CREATE INDEX keyed_id ON keyed (id)",
        "CREATE VIEW twice_indexed AS SELECT id FROM keyed GROUP BY id HAVING count(*) > 1",
        "CREATE DEFAULT INDEX ON twice_indexed",
        "CREATE MATERIALIZED VIEW twice_kept AS SELECT id FROM keyed GROUP BY id HAVING count(*) > 1",
    ])
}

/// What a client has done.
#[derive(Clone, Debug)]
pub enum Deed {
    /// The row with this token was inserted.
    Inserted(i64),
    /// It may have been.
    MayBeInserted(i64),
    /// These rows were deleted.
    Deleted(Vec<i64>),
    /// A row may have been.
    MayBeDeleted,
    /// Anything else.
    Other,
}

/// Runs clients until the end; returns what they did.
pub fn run(stage: &Stage, clients: usize, seed: u64) -> Vec<Deed> {
    stage.clients(clients, seed, act)
}

/// Compares the table with what was done.
pub fn last_word(session: &mut Session, deeds: &[Deed]) -> Result<(), Failure> {
    TWICE.iter().try_for_each(|sql| none_twice(session, sql))?;
    let rows = session.rows("SELECT token FROM keyed")?;
    let stored: BTreeSet<i64> = rows.iter().filter_map(|row| row.first()?.as_ref()?.parse().ok()).collect();
    let (mut inserted, mut in_doubt, mut deleted, mut doubts) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), 0);
    for deed in deeds {
        match deed {
            Deed::Inserted(token) => drop(inserted.insert(*token)),
            Deed::MayBeInserted(token) => drop(in_doubt.insert(*token)),
            Deed::Deleted(tokens) => deleted.extend(tokens),
            Deed::MayBeDeleted => doubts += 1,
            Deed::Other => {}
        }
    }
    let from_nowhere: Vec<&i64> =
        stored.iter().filter(|token| !inserted.contains(token) && !in_doubt.contains(token)).collect();
    let back: Vec<&i64> = stored.intersection(&deleted).collect();
    let lost: Vec<&i64> = inserted.iter().filter(|token| !stored.contains(token) && !deleted.contains(token)).collect();
    if !from_nowhere.is_empty() || !back.is_empty() || lost.len() > doubts {
        let what = format!(
            "rows that nobody inserted: {from_nowhere:?}, that were deleted: {back:?}, that are gone: {lost:?}, of which \
             {doubts} may have been deleted"
        );
        return Err(Failure::Wrong(what));
    }
    Ok(())
}

fn none_twice(session: &mut Session, sql: &str) -> Result<(), Failure> {
    match session.rows(sql)?.as_slice() {
        [] => Ok(()),
        rows => Err(Failure::Wrong(format!("two rows have one key: {rows:?}: {sql}"))),
    }
}

fn act(actor: &mut Actor<'_>) -> Option<Deed> {
    let random = &mut actor.random;
    let (choice, id, other) = (random.random_range(0..100), random.random_range(0..KEYS), random.random_range(0..KEYS));
    let token: i64 = random.random_range(1..i64::MAX);
    match choice {
        0..25 => {
            let sql = TWICE[random.random_range(0..TWICE.len())];
            actor.ask(|session| none_twice(session, sql))?;
            Some(Deed::Other)
        }
        25..45 => {
            let asked =
                actor.ask(|session| session.rows(&format!("DELETE FROM keyed WHERE id = {id} RETURNING token")))?;
            Some(match asked.answer {
                Answer::Given(rows) => {
                    Deed::Deleted(rows.iter().filter_map(|row| row.first()?.as_ref()?.parse().ok()).collect())
                }
                Answer::Refused(_) => Deed::Other,
                Answer::Lost => Deed::MayBeDeleted,
            })
        }
        45..55 => {
            actor.ask(|session| session.execute(&format!("UPDATE keyed SET id = {other} WHERE id = {id}")))?;
            Some(Deed::Other)
        }
        _ => {
            let asked = actor.ask(|session| insert(session, choice, id, token))?;
            Some(match asked.answer {
                Answer::Given(true) => Deed::Inserted(token),
                Answer::Given(false) | Answer::Refused(_) => Deed::Other,
                Answer::Lost => Deed::MayBeInserted(token),
            })
        }
    }
}

/// Inserts a row in one of the ways that there are; whether it was.
fn insert(session: &mut Session, choice: u64, id: u64, token: i64) -> Result<bool, Failure> {
    let row = format!("INSERT INTO keyed VALUES ({id}, {token}, 0)");
    match choice % 4 {
        0 => Ok(session.execute(&row)? == 1),
        1 => Ok(session.execute(&format!("{row} ON CONFLICT (id) DO NOTHING"))? == 1),
        2 => {
            let sql = format!("{row} ON CONFLICT (id) DO UPDATE SET n = keyed.n + 1 RETURNING token");
            Ok(session.value(&sql)?.and_then(|text| text.parse().ok()) == Some(token))
        }
        _ => session.block(|session| session.execute(&row)).map(|count| count == 1),
    }
}
