//! Rows that refer to others, which come, go and get other keys: nobody ever sees one that refers to nothing, by whatever route, and those
//! that lose what they refer to and stay are all there in the end.

use std::collections::BTreeSet;

use rand::Rng;

use crate::session::{Failure, Session};
use crate::stage::{Actor, Answer, Stage};

/// Few, so that clients meet.
const KEYS: u64 = 8;
/// Tables that refer, with what becomes of their rows.
const CHILDREN: [(&str, &str); 4] = [
    ("gone", "ON DELETE CASCADE ON UPDATE CASCADE"),
    ("freed", "ON DELETE SET NULL ON UPDATE CASCADE"),
    ("held", "ON UPDATE CASCADE"),
    ("late", "ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED"),
];

/// Makes the tables and the views.
pub fn prepare(session: &mut Session) -> Result<(), Failure> {
    session.execute("CREATE TABLE parent (id int8 PRIMARY KEY, n int8)")?;
    for (child, actions) in CHILDREN {
        session.execute_each([
            format!("CREATE TABLE {child} (token int8 PRIMARY KEY, p int8 REFERENCES parent {actions})"),
            format!("CREATE VIEW {child}_orphans AS {}", orphans(child)),
            format!("CREATE DEFAULT INDEX ON {child}_orphans"),
        ])?;
    }
    // Rows two steps away.
    session.execute("CREATE TABLE leaf (token int8, of int8 REFERENCES gone ON DELETE CASCADE)").map(drop)
}

fn orphans(child: &str) -> String {
    format!(
        "SELECT c.token FROM {child} c LEFT JOIN parent ON c.p = parent.id WHERE parent.id IS NULL AND c.p IS NOT NULL"
    )
}

/// A row with this token was inserted into a table whose rows stay, or may have been.
#[derive(Clone, Copy, Debug)]
pub enum Deed {
    /// It was.
    Inserted(i64),
    /// Anything else.
    Other,
}

/// Runs clients until the end; returns what they did.
pub fn run(stage: &Stage, clients: usize, seed: u64) -> Vec<Deed> {
    stage.clients(clients, seed, act)
}

/// Looks for orphans by every route, and for what was inserted into tables from which nothing is deleted.
pub fn last_word(session: &mut Session, deeds: &[Deed]) -> Result<(), Failure> {
    (0..ROUTES).try_for_each(|route| none(session, &look(route)))?;
    let rows = session.rows("SELECT token FROM freed UNION ALL SELECT token FROM late")?;
    let stored: BTreeSet<i64> = rows.iter().filter_map(|row| row.first()?.as_ref()?.parse().ok()).collect();
    let inserted = deeds.iter().filter_map(|deed| match deed {
        Deed::Inserted(token) => Some(token),
        Deed::Other => None,
    });
    let lost: Vec<&i64> = inserted.filter(|token| !stored.contains(token)).collect();
    if !lost.is_empty() {
        return Err(Failure::Wrong(format!("rows that nobody deleted are gone: {lost:?}")));
    }
    Ok(())
}

const ROUTES: usize = 2 * CHILDREN.len() + 1;

/// A way to look for orphans.
fn look(route: usize) -> String {
    match CHILDREN.get(route / 2) {
        Some((child, _)) if route.is_multiple_of(2) => orphans(child),
        Some((child, _)) => format!("SELECT token FROM {child}_orphans"),
        None => "SELECT token FROM leaf WHERE of NOT IN (SELECT token FROM gone)".to_owned(),
    }
}

fn none(session: &mut Session, sql: &str) -> Result<(), Failure> {
    match session.rows(sql)?.as_slice() {
        [] => Ok(()),
        rows => Err(Failure::Wrong(format!("rows refer to nothing: {rows:?}: {sql}"))),
    }
}

fn act(actor: &mut Actor<'_>) -> Option<Deed> {
    let random = &mut actor.random;
    let (id, other) = (random.random_range(0..KEYS), random.random_range(0..KEYS));
    let (choice, route, child) =
        (random.random_range(0..100), random.random_range(0..ROUTES), random.random_range(0..CHILDREN.len()));
    let token: i64 = random.random_range(1..i64::MAX);
    let table = CHILDREN[child].0;
    let row = format!("INSERT INTO {table} VALUES ({token}, {id})");
    match choice {
        0..25 => {
            actor.ask(|session| none(session, &look(route)))?;
            Some(Deed::Other)
        }
        25..70 => {
            let asked = actor.ask(|session| insert(session, choice, table, &row, (id, token)))?;
            let stays = matches!(table, "freed" | "late");
            Some(match asked.answer {
                Answer::Given(()) if stays => Deed::Inserted(token),
                _ => Deed::Other,
            })
        }
        _ => {
            let sql = match choice {
                70..82 => {
                    format!("INSERT INTO parent VALUES ({id}, 0) ON CONFLICT (id) DO UPDATE SET n = parent.n + 1")
                }
                82..90 => format!("DELETE FROM parent WHERE id = {id}"),
                90..96 => format!("UPDATE parent SET id = {other} WHERE id = {id}"),
                // So that what is held goes at times.
                _ => format!("BEGIN; DELETE FROM held WHERE p = {id}; DELETE FROM parent WHERE id = {id}; COMMIT"),
            };
            actor.ask(|session| session.or_roll_back(|session| session.execute(&sql)))?;
            Some(Deed::Other)
        }
    }
}

/// Inserts a row in one of the ways that there are.
fn insert(session: &mut Session, choice: u64, table: &str, row: &str, (id, token): (u64, i64)) -> Result<(), Failure> {
    let parent = format!("INSERT INTO parent VALUES ({id}, 0) ON CONFLICT (id) DO NOTHING");
    match choice % 3 {
        0 => session.execute(row).map(drop),
        // What it refers to comes first, or later where that may be.
        1 => session.block(|session| {
            let steps = if table == "late" { [row, &parent] } else { [parent.as_str(), row] };
            session.execute_each(steps)
        }),
        _ => session.block(|session| {
            session.execute(row)?;
            match table {
                "gone" => session.execute(&format!("INSERT INTO leaf VALUES ({token}, {token})")).map(drop),
                _ => Ok(()),
            }
        }),
    }
}
