//! Random queries: each gives the same rows from the index on its view, run ad hoc, and from PostgreSQL, before and after
//! random changes.
//!
//! Queries come in rounds. A round begins with new rows, makes a view of each of its queries, and compares all of them again
//! after every batch of changes. It has a seed of its own, which a failure prints: `RANDOM_QUERIES_SEED=n` begins with
//! that round, `RANDOM_QUERIES=n` makes it n queries, and `RANDOM_QUERIES=0` goes on until some differ. Without a seed the
//! queries are the same in every run, so that a run that fails is the fault of what was changed. A failing query
//! is printed in a simpler form that fails too. What is refused has to be refused by name, and by one that
//! `random_queries/refused.txt` knows.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use glimpse_test::amount;
use glimpse_test::choices::{Choices, simplest};
use glimpse_test::random_sql::{Changes, Generated, TABLES, generate, setup};
use glimpse_test::views::{Agreement, Answer, Comparison, View, say, setting};

const QUERIES: u64 = 2_000;
const SEED: u64 = 1;
/// Views that are maintained at the same time.
const ROUND: usize = 50;
/// Rounds at the same time, each with servers of its own.
const WORKERS: usize = 2;
/// Batches of changes that a round's views see.
const BATCHES: usize = 2;
const CHANGES: usize = 5;
const ROWS: usize = 9;
/// How much work a failing query is worth.
const TRIES_MAX: usize = 200;
/// Failures that are shown.
const FAILURES_MAX: usize = 5;

/// What cannot be answered or maintained, by message, and why that is so.
fn known_refusals() -> Vec<&'static str> {
    let lines = include_str!("../random_queries/refused.txt").lines();
    let entries = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    entries.map(|line| line.split_once(" -- ").expect("an entry has a reason").0).collect()
}

/// What became of a query.
enum Fate {
    Agrees(usize),
    /// PostgreSQL has no answer, or the servers may differ because the order of evaluation is open.
    Left(&'static str),
    Refused(String),
    Differs(String),
}

/// What a run came to.
#[derive(Default)]
struct Tally {
    made: usize,
    compared: usize,
    row_count: usize,
    left: BTreeMap<&'static str, usize>,
    refused: BTreeMap<String, usize>,
    failures: Vec<String>,
}

/// A query and the decisions that it came from.
struct Candidate {
    view: View,
    query: Generated,
    choices: Vec<u32>,
}

impl Candidate {
    fn new(name: &str, mut choices: Choices) -> Candidate {
        let query = generate(&mut choices);
        let view = View { name: name.to_owned(), query: query.sql.clone(), referee: Some(query.sql.clone()) };
        Candidate { view, query, choices: choices.taken().to_vec() }
    }
}

/// Errors of values, which depend on the rows that an expression is evaluated for.
fn is_of_values(answer: &Answer) -> bool {
    matches!(answer, Answer::Error(code, _) if code.starts_with("22") || code.starts_with("21"))
}

/// Compares two answers to one query.
fn judge(query: &Generated, left: &Answer, right: &Answer, what: &str, agreement: Agreement) -> Fate {
    for answer in [left, right] {
        if let Answer::Error(code, message) = answer
            && code == "XX000"
        {
            return Fate::Differs(format!("{what}: an internal error: {message}"));
        }
    }
    // PostgreSQL calculates a scalar subquery when the first row asks for it, and here none does.
    if matches!(left, Answer::Error(code, _) if code == "21000")
        && matches!(right, Answer::Rows(rows) if rows.is_empty())
    {
        return Fate::Left("no row asks for a subquery of several rows");
    }
    if query.order_matters && (is_of_values(left) || is_of_values(right)) {
        return Fate::Left("errors may be met or not");
    }
    match left {
        Answer::Error(code, message) if code == "0A000" => Fate::Refused(message.clone()),
        Answer::Error(code, _) if code == "57014" => Fate::Left("takes too long"),
        left => left.difference(right, what, agreement).map_or(Fate::Agrees(left.row_count()), Fate::Differs),
    }
}

/// Compares the three answers. With `create`, makes the view first.
fn judge_all(both: &mut Comparison, candidate: &Candidate, create: bool) -> anyhow::Result<Fate> {
    let Candidate { view, query, .. } = candidate;
    let expected = both.referee.as_mut().map(|referee| Answer::of(referee, &query.sql)).transpose()?;
    match &expected {
        Some(Answer::Error(code, _)) if code == "0A000" || code == "57014" => {
            return Ok(Fate::Left("PostgreSQL refuses or takes too long"));
        }
        Some(Answer::Error(code, message)) if !expected.as_ref().is_some_and(is_of_values) => {
            return Ok(Fate::Differs(format!("PostgreSQL does not take it: {code} {message}")));
        }
        _ => {}
    }
    let adhoc = Answer::of(&mut both.glimpse, &query.sql)?;
    let expected = expected.as_ref().unwrap_or(&adhoc);
    let fate = judge(query, &adhoc, expected, "ad hoc and PostgreSQL", Agreement::Close);
    if !matches!(fate, Fate::Agrees(_)) {
        return Ok(fate);
    }
    if create {
        let statements =
            [format!("CREATE VIEW {} AS {}", view.name, view.query), format!("CREATE DEFAULT INDEX ON {}", view.name)];
        for sql in statements {
            match Answer::of(&mut both.glimpse, &sql)? {
                Answer::Rows(_) => {}
                Answer::Error(code, message) if code == "0A000" => return Ok(Fate::Refused(message)),
                Answer::Error(code, message) => return Ok(Fate::Differs(format!("{code} {message}: {sql}"))),
            }
        }
    }
    let indexed = both.indexed(view)?;
    Ok(judge(query, &indexed, &adhoc, "index and ad hoc", Agreement::Exact))
}

fn drop_view(both: &mut Comparison, view: &View) -> anyhow::Result<()> {
    both.glimpse.execute(&format!("DROP VIEW IF EXISTS {} CASCADE", view.name))
}

/// A simpler query that differs as well, if it does so from the beginning.
fn simplify(both: &mut Comparison, choices: &[u32]) -> anyhow::Result<String> {
    let mut judged = |choices: &[u32]| {
        let candidate = Candidate::new("simplified", Choices::given(choices.to_vec()));
        let fate = judge_all(both, &candidate, true)?;
        drop_view(both, &candidate.view)?;
        anyhow::Ok(match fate {
            Fate::Differs(found) => Some(format!("{found}\n{}", candidate.query.sql)),
            _ => None,
        })
    };
    let simple = simplest(choices, TRIES_MAX, |choices| matches!(judged(choices), Ok(Some(_))));
    Ok(judged(&simple)?.unwrap_or_else(|| "differs only after changes".to_owned()))
}

/// A round in progress.
struct Round<'r> {
    seed: u64,
    both: &'r mut Comparison,
    tally: &'r Mutex<Tally>,
}

impl Round<'_> {
    fn tally(&self) -> std::sync::MutexGuard<'_, Tally> {
        self.tally.lock().expect("no thread panics while it holds the lock")
    }

    /// Whether a query agrees; if not, why, for the tally.
    fn settle(&mut self, candidate: &Candidate, when: &str, fate: Fate) -> anyhow::Result<bool> {
        match fate {
            Fate::Agrees(row_count) => {
                self.tally().row_count += row_count;
                return Ok(true);
            }
            Fate::Left(reason) => *self.tally().left.entry(reason).or_default() += 1,
            Fate::Refused(message) => *self.tally().refused.entry(message).or_default() += 1,
            Fate::Differs(found) => {
                let simple = simplify(self.both, &candidate.choices)?;
                let (seed, sql) = (self.seed, &candidate.query.sql);
                let failure = format!("RANDOM_QUERIES_SEED={seed} {when}: {found}\n{sql}\nsimplified: {simple}\n");
                say(&failure);
                self.tally().failures.push(failure);
            }
        }
        Ok(false)
    }

    fn is_enough(&self) -> bool {
        self.tally().failures.len() >= FAILURES_MAX
    }

    /// Queries that agree become views, and are compared again after changes.
    fn run(&mut self) -> anyhow::Result<()> {
        let mut changes = Changes::new(self.seed);
        for (table, (name, _)) in TABLES.iter().enumerate() {
            self.both.execute(&format!("DELETE FROM {name}"))?;
            self.both.execute(&changes.insert(table, ROWS))?;
        }
        let mut kept = Vec::new();
        let mut seed = self.seed.wrapping_mul(1_000_003);
        while kept.len() < ROUND && !self.is_enough() {
            self.tally().made += 1;
            seed = seed.wrapping_add(1);
            let candidate = Candidate::new(&format!("v{}", kept.len()), Choices::random(seed));
            let fate = judge_all(self.both, &candidate, true).with_context(|| candidate.query.sql.clone())?;
            match self.settle(&candidate, "new", fate)? {
                true => kept.push(candidate),
                false => drop_view(self.both, &candidate.view)?,
            }
        }
        self.tally().compared += kept.len();
        for batch in 1..=BATCHES {
            for _ in 0..CHANGES {
                self.both.execute(&changes.change())?;
            }
            for candidate in &kept {
                let fate = judge_all(self.both, candidate, false).with_context(|| candidate.query.sql.clone())?;
                self.settle(candidate, &format!("after changes {batch}"), fate)?;
            }
        }
        for candidate in &kept {
            drop_view(self.both, &candidate.view)?;
        }
        Ok(())
    }
}

/// Runs rounds until there are none left, or enough failures.
fn work(seed: u64, next: &AtomicU64, rounds: u64, tally: &Mutex<Tally>) -> anyhow::Result<()> {
    let mut both = Comparison::start()?;
    both.glimpse.execute("SET statement_timeout = '20s'")?;
    if let Some(referee) = &mut both.referee {
        referee.execute("SET statement_timeout = '5s'")?;
    }
    for sql in setup() {
        both.execute(&sql)?;
    }
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let mut round = Round { seed: seed.wrapping_add(number), both: &mut both, tally };
        if number >= rounds || round.is_enough() {
            return Ok(());
        }
        round.run().with_context(|| format!("RANDOM_QUERIES_SEED={}", round.seed))?;
    }
}

#[test]
fn random_queries_agree() {
    let seed: u64 = setting("RANDOM_QUERIES_SEED").unwrap_or(SEED);
    let rounds = match setting("RANDOM_QUERIES").unwrap_or_else(|| amount(QUERIES)) {
        0 => u64::MAX,
        queries => queries.div_ceil(ROUND as u64),
    };
    let (next, tally) = (AtomicU64::new(0), Mutex::new(Tally::default()));
    let errors: Vec<anyhow::Error> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(|| work(seed, &next, rounds, &tally))).collect();
        let ended = workers.into_iter().map(|worker| worker.join().expect("a worker does not panic"));
        ended.filter_map(Result::err).collect()
    });
    let Tally { made, compared, row_count, left, refused, failures } =
        tally.into_inner().expect("no thread panics while it holds the lock");
    say(&format!("RANDOM_QUERIES_SEED={seed}: {compared} of {made} queries compared, {row_count} rows"));
    for (reason, count) in left {
        say(&format!("{count} left: {reason}"));
    }
    for (message, count) in &refused {
        say(&format!("{count} refused: {message}"));
    }
    for error in &errors {
        say(&format!("{error:#}"));
    }
    assert!(errors.is_empty(), "{} workers ended early", errors.len());
    assert!(failures.is_empty(), "{} queries differ", failures.len());
    let known = known_refusals();
    let unknown: Vec<&String> =
        refused.keys().filter(|message| !known.iter().any(|known| message.contains(known))).collect();
    assert!(unknown.is_empty(), "refused for reasons that refused.txt does not list: {unknown:?}");
}
