//! Lists of rows with keys, which transactions at either level append to and read, by key and otherwise, locking and not.
//!
//! What a list holds is also in a table of its items, which refer to it: an append is an UPDATE and an INSERT of one transaction.
//!
//! 1. At the default level a transaction is one: its history is judged by [`list_append`].
//! 2. At READ COMMITTED each read is a transaction by itself, at a time of its own, and what the transaction appends is another: the row that
//!    it appends to is locked, so nobody comes between. These are judged together with the others.
//! 3. A transaction fails with 40001 at the default level only, and only if something that it has read without locking has changed
//!    before it ended: what it had looked up by key, if it has, and otherwise anything in the table.
//!
//! # Invariants
//! - Servers take fast paths whenever they apply ([`Setup::is_straight`](crate::deployment::Setup::is_straight)): what is looked up by key
//!   is otherwise at times known as all of its table, and 3 could not be told.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::Rng;
use rand::seq::IndexedRandom;

use crate::list_append::{self, Outcome, Step, Txn};
use crate::lists::parse;
use crate::session::{Failure, Session};
use crate::stage::{Actor, Answer, Asked, Stage};

/// Lists that there are.
const LISTS: u64 = 2_000;
/// Lists that clients use at a time.
const ACTIVE: u64 = 6;
/// Appends after which clients use other lists.
const APPENDS: u64 = 20;
/// What a transaction may do between two statements.
const PAUSE_MAX: Duration = Duration::from_millis(4);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Default,
    ReadCommitted,
}

/// How a list is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Key,
    Items,
    Scan,
    ForUpdate,
    ForShare,
}

const ROUTES: [Route; 5] = [Route::Key, Route::Items, Route::Scan, Route::ForUpdate, Route::ForShare];

/// Makes the tables.
pub fn prepare(session: &mut Session) -> Result<(), Failure> {
    session.execute_each([
        "CREATE TABLE lists (key int8 PRIMARY KEY, items text NOT NULL)".to_owned(),
        "CREATE TABLE items (value int8 PRIMARY KEY, key int8 NOT NULL REFERENCES lists, at int8 NOT NULL)".to_owned(),
        format!("INSERT INTO lists SELECT n, '' FROM generate_series(0, {}) AS series(n)", LISTS - 1),
    ])
}

/// What became of a transaction.
#[derive(Debug)]
pub struct Record {
    /// What it is judged as.
    txns: Vec<Txn>,
    refusal: Option<Refusal>,
}

/// A transaction that was refused with 40001. Times in nanoseconds of the history's clock.
#[derive(Debug)]
struct Refusal {
    client: usize,
    call_ns: u64,
    return_ns: u64,
    reads: Vec<Read>,
}

/// A list that was read, without what the transaction itself had appended.
#[derive(Clone, Debug)]
struct Read {
    route: Route,
    key: u64,
    list: Vec<u64>,
    call_ns: u64,
    return_ns: u64,
}

impl Record {
    fn of(client: usize, level: Level, asked: &Asked<()>, appends: Vec<(u64, u64)>, done: Done) -> Record {
        let (outcome, code) = match &asked.answer {
            Answer::Given(()) => (Outcome::Committed, None),
            Answer::Refused(code) => (Outcome::Aborted, Some(code.as_str())),
            Answer::Lost => (Outcome::Unknown, None),
        };
        let txn = |call_ns, return_ns, outcome, steps| Txn { client, call_ns, return_ns, outcome, steps };
        if level == Level::Default && outcome == Outcome::Committed {
            return Record { txns: vec![txn(asked.call_ns, asked.return_ns, outcome, done.steps)], refusal: None };
        }
        let appended = appends.into_iter().map(|(key, value)| Step::Append { key, value }).collect();
        let mut txns = vec![txn(asked.call_ns, asked.return_ns, outcome, appended)];
        let step = |read: &Read| Step::Read { key: read.key, list: read.list.clone() };
        let alone = |read: &Read| txn(read.call_ns, read.return_ns, Outcome::Committed, vec![step(read)]);
        match (level, done.reads.as_slice()) {
            // What it was answered was of one time, whatever became of it; its first statement has chosen that.
            (Level::Default, [.., last]) => {
                let steps = done.reads.iter().map(step).collect();
                txns.push(txn(asked.call_ns, last.return_ns, Outcome::Committed, steps));
            }
            (_, reads) => txns.extend(reads.iter().map(alone)),
        }
        let refusal = Refusal { client, call_ns: asked.call_ns, return_ns: asked.return_ns, reads: done.reads };
        Record { txns, refusal: (code == Some("40001")).then_some(refusal) }
    }
}

/// What all clients of one history share.
#[derive(Debug, Default)]
pub struct Levels {
    /// Every append has a value of its own.
    values: AtomicU64,
}

impl Levels {
    /// Runs clients until the end; returns what became of their transactions.
    pub fn run(&self, stage: &Stage, clients: usize, seed: u64) -> Vec<Record> {
        stage.clients(clients, seed, |actor| self.transact(actor))
    }

    fn transact(&self, actor: &mut Actor<'_>) -> Option<Record> {
        let plan = self.plan(actor);
        let appends: Vec<(u64, u64)> = plan.iter().filter_map(Planned::append).collect();
        let (level, in_block) = match actor.random.random_range(0..10) {
            0..5 => (Level::Default, true),
            5 if plan.len() == 1 && appends.is_empty() => (Level::Default, false),
            _ => (Level::ReadCommitted, true),
        };
        let pause = PAUSE_MAX.mul_f64(if actor.random.random_bool(0.5) { 0.0 } else { actor.random.random() });
        let (stage, mut done) = (actor.stage, Done::default());
        let asked = actor.ask(|session| {
            if !in_block {
                return plan[0].run(session, stage, &mut done);
            }
            session.or_roll_back(|session| {
                session.execute(match level {
                    Level::Default => "BEGIN",
                    Level::ReadCommitted => "BEGIN ISOLATION LEVEL READ COMMITTED",
                })?;
                for planned in &plan {
                    planned.run(session, stage, &mut done)?;
                    std::thread::sleep(pause);
                }
                session.execute("COMMIT").map(drop)
            })
        })?;
        if let Answer::Refused(code) = &asked.answer {
            let may_be = match code.as_str() {
                "40001" => level == Level::Default && plan.iter().any(Planned::locks),
                code => code == "40P01",
            };
            if !may_be {
                stage.report(format!("{level:?}: {plan:?} of client {} is refused: {code}", actor.index));
            }
        }
        Some(Record::of(actor.index, level, &asked, appends, done))
    }

    fn plan(&self, actor: &mut Actor<'_>) -> Vec<Planned> {
        let random = &mut actor.random;
        let (count, appends) = match random.random_range(0..100) {
            0..15 => (1, 1.0),
            15..30 => (1, 0.0),
            30..40 => (random.random_range(2..5), 0.0),
            40..55 => (random.random_range(2..4), 1.0),
            _ => (random.random_range(2..5), 0.5),
        };
        let base = self.values.load(Ordering::SeqCst) / APPENDS;
        let planned = |_| {
            let key = (base + random.random_range(0..ACTIVE)) % LISTS;
            match random.random_bool(appends) {
                true => Planned::Append { key, value: self.values.fetch_add(1, Ordering::SeqCst) + 1 },
                false => Planned::Read { key, route: *ROUTES.choose(random).expect("some") },
            }
        };
        (0..count).map(planned).collect()
    }
}

/// A step that is to be done.
#[derive(Clone, Copy, Debug)]
enum Planned {
    Append { key: u64, value: u64 },
    Read { key: u64, route: Route },
}

/// What a transaction has done so far.
#[derive(Debug, Default)]
struct Done {
    /// Reads with what it had appended itself.
    steps: Vec<Step>,
    /// Reads without.
    reads: Vec<Read>,
}

impl Planned {
    fn append(&self) -> Option<(u64, u64)> {
        match self {
            Planned::Append { key, value } => Some((*key, *value)),
            Planned::Read { .. } => None,
        }
    }

    /// Whether it may have to go on at a later time.
    fn locks(&self) -> bool {
        !matches!(self, Planned::Read { route: Route::Key | Route::Items | Route::Scan, .. })
    }

    fn run(&self, session: &mut Session, stage: &Stage, done: &mut Done) -> Result<(), Failure> {
        match *self {
            Planned::Append { key, value } => {
                let sql =
                    format!("UPDATE lists SET items = items || '{value},' WHERE key = {key} RETURNING length(items)");
                let Some(at) = session.value(&sql)? else {
                    return Err(Failure::Wrong(format!("list {key} is not there to be appended to")));
                };
                session.execute(&format!("INSERT INTO items VALUES ({value}, {key}, {at})"))?;
                done.steps.push(Step::Append { key, value });
            }
            Planned::Read { key, route } => {
                let call_ns = stage.now_ns();
                let mut list = read(session, key, route)?;
                let return_ns = stage.now_ns();
                done.steps.push(Step::Read { key, list: list.clone() });
                let own = |step: &Step| match step {
                    Step::Append { key: of, value } if *of == key => Some(*value),
                    _ => None,
                };
                let own: Vec<u64> = done.steps.iter().filter_map(own).collect();
                if !list.ends_with(&own) {
                    return Err(Failure::Wrong(format!(
                        "{route:?} of list {key} is {list:?}, without its own {own:?}"
                    )));
                }
                list.truncate(list.len() - own.len());
                done.reads.push(Read { route, key, list, call_ns, return_ns });
            }
        }
        Ok(())
    }
}

fn read(session: &mut Session, key: u64, route: Route) -> Result<Vec<u64>, Failure> {
    let condition = match route {
        Route::Items => {
            let rows = session.rows(&format!("SELECT value FROM items WHERE key = {key} ORDER BY at"))?;
            let values = rows.iter().map(|row| row[0].as_deref().expect("it is not null"));
            return Ok(values.map(|value| value.parse().expect("a number")).collect());
        }
        Route::Key => format!("key = {key}"),
        Route::Scan => format!("key + 0 = {key}"),
        Route::ForUpdate => format!("key = {key} FOR UPDATE"),
        Route::ForShare => format!("key = {key} FOR SHARE"),
    };
    match session.value(&format!("SELECT items FROM lists WHERE {condition}"))? {
        Some(items) => Ok(parse(&items)),
        None => Err(Failure::Wrong(format!("list {key} is not there: {route:?}"))),
    }
}

/// One read of every list that was used, after everything.
pub fn last_word(stage: &Stage, session: &mut Session) -> Result<Record, Failure> {
    let call_ns = stage.now_ns();
    let number = |value: &Option<String>| value.as_deref().and_then(|text| text.parse().ok()).expect("a number");
    let mut steps = Vec::new();
    let mut items: HashMap<u64, Vec<u64>> = HashMap::new();
    for row in session.rows("SELECT key, value FROM items ORDER BY key, at")? {
        items.entry(number(&row[0])).or_default().push(number(&row[1]));
    }
    for row in session.rows("SELECT key, items FROM lists WHERE items <> ''")? {
        let (key, list) = (number(&row[0]), parse(row[1].as_deref().expect("it is not null")));
        if items.remove(&key).as_ref() != Some(&list) {
            return Err(Failure::Wrong(format!("list {key} has other items than {list:?}")));
        }
        steps.push(Step::Read { key, list });
    }
    if !items.is_empty() {
        return Err(Failure::Wrong(format!("items of lists that have none: {items:?}")));
    }
    let txn = Txn { client: usize::MAX, call_ns, return_ns: stage.now_ns(), outcome: Outcome::Committed, steps };
    Ok(Record { txns: vec![txn], refusal: None })
}

/// Everything that is wrong with a history, of which the last record is the last word.
pub fn check(history: &[Record]) -> Vec<String> {
    let txns: Vec<Txn> = history.iter().flat_map(|record| &record.txns).cloned().collect();
    let anomalies = list_append::check(&txns);
    if !anomalies.is_empty() {
        return anomalies.iter().map(ToString::to_string).collect();
    }
    let changes = Changes::of(&txns);
    let refusals = history.iter().filter_map(|record| record.refusal.as_ref());
    let groundless = refusals.filter(|refusal| !refusal.reads.iter().any(|read| changes.overtake(read, refusal)));
    let said = |Refusal { client, return_ns, reads, .. }: &Refusal| {
        format!("client {client} is told 40001 at {return_ns} ns, and nothing that it has read has changed: {reads:?}")
    };
    groundless.map(said).collect()
}

/// Who has appended what, and in which order.
struct Changes<'a> {
    appending: Vec<&'a Txn>,
    /// By list and value.
    writers: HashMap<(u64, u64), &'a Txn>,
    /// By list: what it holds in the end.
    last: HashMap<u64, &'a [u64]>,
}

impl<'a> Changes<'a> {
    fn of(txns: &'a [Txn]) -> Changes<'a> {
        let (mut appending, mut writers) = (Vec::new(), HashMap::new());
        for txn in txns.iter().filter(|txn| txn.outcome != Outcome::Aborted) {
            let appends = txn.steps.iter().filter_map(|step| match step {
                Step::Append { key, value } => Some(((*key, *value), txn)),
                Step::Read { .. } => None,
            });
            writers.extend(appends.clone());
            appending.extend(appends.map(|(_, txn)| txn).next());
        }
        let last = txns.last().map_or(&[][..], |last| &last.steps);
        let list = |step: &'a Step| match step {
            Step::Read { key, list } => Some((*key, list.as_slice())),
            Step::Append { .. } => None,
        };
        Changes { appending, writers, last: last.iter().filter_map(list).collect() }
    }

    /// Whether what was read had changed before a transaction was refused, or may have.
    fn overtake(&self, read: &Read, refusal: &Refusal) -> bool {
        match read.route {
            Route::Key | Route::Items => {
                let next = self.last.get(&read.key).and_then(|list| list.get(read.list.len()));
                next.is_some_and(|value| self.writers[&(read.key, *value)].call_ns < refusal.return_ns)
            }
            Route::Scan => {
                // All its reads are of the time that its first statement has chosen.
                let beside = |txn: &&&Txn| txn.call_ns < refusal.return_ns && txn.return_ns > refusal.call_ns;
                self.appending.iter().any(|txn| beside(&txn))
            }
            Route::ForUpdate | Route::ForShare => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn txn(call_ns: u64, return_ns: u64, steps: Vec<Step>) -> Record {
        Record { txns: vec![Txn { client: 0, call_ns, return_ns, outcome: Outcome::Committed, steps }], refusal: None }
    }

    fn refused(route: Route, key: u64, list: &[u64]) -> Record {
        let read = Read { route, key, list: list.to_vec(), call_ns: 20, return_ns: 25 };
        Record { txns: Vec::new(), refusal: Some(Refusal { client: 1, call_ns: 10, return_ns: 40, reads: vec![read] }) }
    }

    fn last(key: u64, list: &[u64]) -> Record {
        txn(100, 101, vec![Step::Read { key, list: list.to_vec() }])
    }

    #[test]
    fn who_was_overtaken_may_be_refused() {
        let append = |call_ns, value| txn(call_ns, call_ns + 5, vec![Step::Append { key: 1, value }]);
        for route in [Route::Key, Route::Items, Route::Scan] {
            let history = [append(1, 7), append(30, 8), refused(route, 1, &[7]), last(1, &[7, 8])];
            assert_eq!(check(&history), Vec::<String>::new(), "{route:?}");
        }
    }

    #[test]
    fn who_was_overtaken_between_its_statements_may_be_refused() {
        let append = txn(12, 17, vec![Step::Append { key: 2, value: 8 }]);
        let history = [append, refused(Route::Scan, 1, &[]), last(2, &[8])];
        assert_eq!(check(&history), Vec::<String>::new(), "it reads the table as of before");
    }

    #[test]
    fn who_was_not_overtaken_may_not() {
        let append = |call_ns, key, value| txn(call_ns, call_ns + 5, vec![Step::Append { key, value }]);
        let later = [append(1, 1, 7), append(50, 1, 8), refused(Route::Key, 1, &[7]), last(1, &[7, 8])];
        assert_eq!(check(&later).len(), 1, "the change came after it");
        let other = [append(1, 1, 7), append(30, 2, 8), refused(Route::Key, 1, &[7]), last(1, &[7])];
        assert_eq!(check(&other).len(), 1, "another row has changed");
        let locked = [append(1, 1, 7), append(30, 1, 8), refused(Route::ForUpdate, 1, &[7]), last(1, &[7, 8])];
        assert_eq!(check(&locked).len(), 1, "what is locked does not change");
        let before = [append(1, 1, 7), refused(Route::Scan, 1, &[7]), last(1, &[7])];
        assert_eq!(check(&before).len(), 1, "nothing has changed since");
    }
}
