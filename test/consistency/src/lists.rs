//! Lists that transactions append to and read, by every route that leads to a table, and that a SUBSCRIBE follows.
//!
//! A change that a subscription has told of has been seen: whoever asks afterwards must see it too. So its transaction
//! counts as answered in that moment, if not before.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::Rng;

use crate::list_append::{Outcome, Step, Txn};
use crate::session::{Failure, Session};
use crate::stage::{Actor, Answer, Stage};

/// Lists that there are.
const LISTS: u64 = 2_000;
/// Lists that clients use at a time.
const ACTIVE: u64 = 5;
/// Appends after which clients use other lists: their reads tell of all of it.
const APPENDS: u64 = 20;
/// Where a list can be read.
const ROUTES: [&str; 4] = ["lists", "lists_bare", "lists_view", "lists_copy"];

/// Makes the tables and views.
pub fn prepare(session: &mut Session) -> Result<(), Failure> {
    session.execute_each([
        "CREATE TABLE lists (key int8, items text)".to_owned(),
        "CREATE INDEX lists_key ON lists (key)".to_owned(),
        "CREATE VIEW lists_bare AS SELECT key + 0 AS key, items FROM lists".to_owned(),
        "CREATE VIEW lists_view AS SELECT key, items, length(items) AS bytes FROM lists".to_owned(),
        "CREATE INDEX lists_view_key ON lists_view (key)".to_owned(),
        "CREATE MATERIALIZED VIEW lists_copy AS SELECT key, items FROM lists".to_owned(),
        format!("INSERT INTO lists SELECT n, '' FROM generate_series(0, {}) AS series(n)", LISTS - 1),
    ])
}

/// What all clients of one history share.
#[derive(Debug, Default)]
pub struct Lists {
    /// Every append has a value of its own.
    values: AtomicU64,
    /// By value: when a subscription has told of it.
    told: Mutex<HashMap<u64, u64>>,
}

impl Lists {
    /// Runs clients until the end; returns their history.
    pub fn run(&self, stage: &Stage, clients: usize, seed: u64) -> Vec<Txn> {
        let mut history = std::thread::scope(|scope| {
            scope.spawn(|| self.follow(stage, seed));
            stage.clients(clients, seed, |actor| self.transact(actor))
        });
        let told = self.told.lock().expect("nobody panics here");
        for txn in &mut history {
            let values = txn.steps.iter().filter_map(|step| match step {
                Step::Append { value, .. } => told.get(value).copied(),
                Step::Read { .. } => None,
            });
            if let Some(first) = values.min() {
                (txn.return_ns, txn.outcome) = (txn.return_ns.min(first), Outcome::Committed);
            }
        }
        history
    }

    /// One read of every list that was used, after everything.
    pub fn last_word(&self, stage: &Stage, session: &mut Session) -> Result<Vec<Txn>, Failure> {
        let mut history = Vec::new();
        for route in ROUTES {
            let call_ns = stage.now_ns();
            let rows = session.rows(&format!("SELECT key, items FROM {route} WHERE items <> ''"))?;
            let step = |row: &Vec<Option<String>>| {
                let text = |at: usize| row[at].as_deref().expect("it is not null");
                Step::Read { key: text(0).parse().expect("a number"), list: parse(text(1)) }
            };
            let steps = rows.iter().map(step).collect();
            let (client, outcome) = (usize::MAX, Outcome::Committed);
            history.push(Txn { client, call_ns, return_ns: stage.now_ns(), outcome, steps });
        }
        Ok(history)
    }

    /// One transaction.
    fn transact(&self, actor: &mut Actor<'_>) -> Option<Txn> {
        let plan = self.plan(actor);
        let mut steps = Vec::new();
        let in_block = plan.len() > 1 || actor.random.random_bool(0.1);
        let prepared = actor.random.random_bool(0.3);
        // A block that thinks needs its hold: compaction goes on meanwhile.
        let thinks = in_block && plan.iter().all(|step| !step.appends) && actor.random.random_bool(0.02);
        let asked = actor.ask(|session| {
            if !in_block {
                return plan[0].run(session, prepared, &mut steps);
            }
            session.block(|session| {
                for (at, planned) in plan.iter().enumerate() {
                    if thinks && at > 0 {
                        session.think();
                    }
                    planned.run(session, false, &mut steps)?;
                }
                Ok(())
            })
        })?;
        if asked.is_refused() && plan.iter().all(|step| !step.appends) {
            actor.stage.report(format!("a transaction that only reads is refused: {steps:?}"));
        }
        let outcome = match asked.answer {
            Answer::Given(()) => Outcome::Committed,
            Answer::Refused(_) => Outcome::Aborted,
            Answer::Lost => Outcome::Unknown,
        };
        if outcome != Outcome::Committed {
            // What was not asked for any more when it failed was not done: but the last step asked for may have been.
            steps = plan.iter().filter_map(Planned::append).collect();
        }
        let (client, call_ns, return_ns) = (actor.index, asked.call_ns, asked.return_ns);
        Some(Txn { client, call_ns, return_ns, outcome, steps })
    }

    fn plan(&self, actor: &mut Actor<'_>) -> Vec<Planned> {
        let random = &mut actor.random;
        let (count, appends) = match random.random_range(0..100) {
            0..35 => (1, 1.0),
            35..70 => (1, 0.0),
            70..85 => (random.random_range(2..5), 0.0),
            85..92 => (random.random_range(1..3), 1.0),
            _ => (random.random_range(2..5), 0.4),
        };
        let base = self.values.load(Ordering::SeqCst) / APPENDS;
        let mut planned = Vec::with_capacity(count);
        for _ in 0..count {
            let appends = random.random_bool(appends);
            let value = if appends { self.values.fetch_add(1, Ordering::SeqCst) + 1 } else { 0 };
            let key = (base + random.random_range(0..ACTIVE)) % LISTS;
            planned.push(Planned { appends, key, value, route: ROUTES[random.random_range(0..ROUTES.len())] });
        }
        planned
    }

    /// Follows the table, and notes when it was told of each value. A subscription that is lost begins again.
    fn follow(&self, stage: &Stage, seed: u64) {
        let mut actor = Actor::new(stage, usize::MAX, seed);
        while !stage.is_over() {
            let _ended_or_lost = actor.ask(|session| {
                session.execute(
                    "BEGIN; DECLARE follow CURSOR FOR SUBSCRIBE (SELECT items FROM lists WHERE items <> '')",
                )?;
                while !stage.is_over() {
                    let rows = session.rows("FETCH ALL follow WITH (TIMEOUT = '100ms')")?;
                    let now_ns = stage.now_ns();
                    let mut told = self.told.lock().expect("nobody panics here");
                    for row in rows.iter().filter(|row| row[1].as_deref() == Some("1")) {
                        for value in parse(row[2].as_deref().expect("it is not null")) {
                            told.entry(value).or_insert(now_ns);
                        }
                    }
                }
                session.execute("COMMIT").map(drop)
            });
        }
    }
}

/// A step that is to be done.
struct Planned {
    appends: bool,
    key: u64,
    value: u64,
    route: &'static str,
}

impl Planned {
    fn append(&self) -> Option<Step> {
        self.appends.then_some(Step::Append { key: self.key, value: self.value })
    }

    fn run(&self, session: &mut Session, prepared: bool, steps: &mut Vec<Step>) -> Result<(), Failure> {
        let Planned { key, value, route, .. } = self;
        if let Some(step) = self.append() {
            let changed =
                session.execute(&format!("UPDATE lists SET items = items || '{value},' WHERE key = {key}"))?;
            if changed != 1 {
                return Err(Failure::Wrong(format!("an append to list {key} changed {changed} rows")));
            }
            steps.push(step);
            return Ok(());
        }
        let items: Vec<String> = if prepared {
            let key = i64::try_from(*key).expect("few lists");
            let rows = session.prepared(&format!("SELECT items FROM {route} WHERE key = $1"), &[key])?;
            rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect()
        } else {
            let rows = session.rows(&format!("SELECT items FROM {route} WHERE key = {key}"))?;
            rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect()
        };
        match items.as_slice() {
            [items] => steps.push(Step::Read { key: *key, list: parse(items) }),
            others => return Err(Failure::Wrong(format!("list {key} in {route} is {others:?}"))),
        }
        Ok(())
    }
}

/// The items of a list.
pub(crate) fn parse(items: &str) -> Vec<u64> {
    items.split_terminator(',').map(|value| value.parse().expect("a list of numbers")).collect()
}
