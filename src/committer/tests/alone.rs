//! The committer without sessions, workers and a thread of its own: it is asked, takes a step, and has answered. What it says is
//! compared with what is durable.

use arc_swap::ArcSwap;
use catalog::Catalog;
use catalog::system::MZ_SYSTEM;
use catalog::transact::Op;
use compute_client::controller::{Controller, SpawnWorkers, Worker};
use futures::FutureExt;
use glimpse_committer::environment::Environment;
use glimpse_committer::error::CommitError;
use glimpse_committer::expectations::Expectation;
use glimpse_committer::group_commit::Committer;
use glimpse_committer::handle::{Handle, Requests};
use glimpse_committer::metrics::Metrics;
use glimpse_committer::published::{Published, Table};
use glimpse_committer::request::{CatalogChange, Committed, TableWrite};
use ore::clock::ManualClock;
use ore::memory::Share;
use ore::metrics::Registry;
use persist::PersistClient;
use repr::row::write_datum;
use repr::sqlstate::SqlState;
use repr::{Datum, Diff, GlobalId, Timestamp, Updates};
use sql::engine::{Engine, Params, SessionInfo};
use sql::plan::{Plan, PlanContext};
use std::collections::BTreeMap;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use timestamp_oracle::TimestampOracle;
use timestamp_oracle::local::LocalOracle;

/// Clusters without workers: what is maintained publishes nothing.
struct Nobody;

impl SpawnWorkers for Nobody {
    fn spawn(&self, _cluster: &str, _worker_count: usize) -> Vec<Worker> {
        Vec::new()
    }
}

/// A committer over a directory, at a time that stands still unless it is moved.
struct Alone {
    env: Arc<Environment>,
    committer: Committer,
    requests: Requests,
    clock: ManualClock,
    _runtime: tokio::runtime::Runtime,
}

impl Alone {
    fn open(dir: &Path) -> Alone {
        let clock = ManualClock::new(1_000_000);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let persist = PersistClient::open(dir).expect("the directory is ours");
        let catalog = Catalog::open(&persist, &[]).expect("a catalog");
        let oracle: Arc<dyn TimestampOracle> =
            Arc::new(LocalOracle::open(&persist, clock.clock()).expect("the store has its time"));
        let (handle, requests) =
            Handle::new(persist.clone(), Arc::clone(&oracle), clock.clock(), runtime.handle().clone());
        let memory = Share::root(usize::MAX, None);
        let env = Arc::new(Environment {
            engine: Arc::new(Engine::with_memory(Arc::clone(&memory))),
            memory: Arc::clone(&memory),
            published: Arc::new(ArcSwap::from_pointee(Published::empty())),
            oracle,
            persist,
            holds: Arc::default(),
            clock: clock.clock(),
            retain_us: 1_000_000,
            metrics: Metrics::register(&Registry::new()),
            handle,
        });
        let controller = Controller::new(Box::new(Nobody), &memory, usize::MAX);
        let boot_ts = env.oracle.known_ts();
        let committer = Committer::boot(Arc::clone(&env), &catalog, controller, boot_ts).expect("it boots");
        Alone { env, committer, requests, clock, _runtime: runtime }
    }

    /// What the committer answers to something that is asked for at once.
    fn ask<T>(&mut self, question: impl Future<Output = T>) -> T {
        let mut question = pin!(question);
        assert!(question.as_mut().now_or_never().is_none(), "nobody has taken a step");
        assert!(self.committer.step(&self.requests), "it goes on");
        question.now_or_never().expect("it has answered")
    }

    /// Changes the catalog by a statement that creates a table.
    fn create_table(&mut self, sql: &str) -> Result<Committed, CommitError> {
        let published = self.env.published.load_full();
        let statement = sql::parser::parse(sql).expect("it parses").pop().expect("there is one");
        let session = SessionInfo::default();
        let ctx = PlanContext {
            engine: &self.env.engine,
            catalog: published.state.as_ref(),
            session: &session,
            role: MZ_SYSTEM,
            cluster: "",
            from_tables: false,
        };
        let Ok(Plan::CreateTable(plan)) = sql::plan::plan(&ctx, &statement.ast, &mut Params::none()) else {
            panic!("{sql} creates no table")
        };
        let op = Op::CreateTable { plan, owner: MZ_SYSTEM };
        let (handle, revision) = (self.env.handle.clone(), published.state.revision());
        self.ask(handle.change_catalog(CatalogChange::new(revision, vec![op])))
    }

    fn table(&self, name: &str) -> (GlobalId, Table) {
        let published = self.env.published.load();
        let item = published.state.all_items().find(|item| item.name.item == name).expect("the table is there");
        (item.id, published.tables[&item.id].clone())
    }

    /// A write of integers to a table of one column.
    fn write(&self, name: &str, rows: &[(i32, Diff)]) -> TableWrite {
        let (id, table) = self.table(name);
        let mut updates = Updates::new();
        for (value, diff) in rows {
            let pushed =
                updates.push_with(*diff, |out| write_datum(out, &table.constraints.types[0], &Datum::Int4(*value)));
            pushed.expect("it is of the column's type");
        }
        TableWrite::new(id, updates, Some(table.constraints))
    }

    /// What is durable of a table as of now, by encoded row.
    fn durable(&self, name: &str) -> BTreeMap<Vec<u8>, Diff> {
        let (id, _) = self.table(name);
        let mut rows = BTreeMap::new();
        for part in self.env.persist.snapshot(id.into(), self.env.oracle.known_ts()).expect("it is readable") {
            for (row, diff) in part.expect("it is readable").iter() {
                *rows.entry(row.to_vec()).or_default() += diff;
            }
        }
        rows.retain(|_, diff| *diff != 0);
        rows
    }

    /// The times at which something was written to a table after `ts`.
    fn written_after(&self, name: &str, ts: Timestamp) -> Vec<Timestamp> {
        let (id, _) = self.table(name);
        let now = self.env.oracle.known_ts();
        self.env.persist.changes(id.into(), ts, now).expect("it is readable").into_keys().collect()
    }

    /// What expects that a table has not been written since `ts`.
    fn unwritten_since(&self, name: &str, ts: Timestamp) -> Expectation {
        Expectation { table: self.table(name).0, read_ts: ts, rows: None }
    }
}

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

#[test]
fn what_waits_together_is_one_group_at_one_time() {
    let dir = dir();
    let mut alone = Alone::open(dir.path());
    assert!(matches!(alone.create_table("CREATE TABLE t (a int)"), Ok(Committed::At)));
    let (before, handle) = (alone.env.oracle.known_ts(), alone.env.handle.clone());
    let writes = [alone.write("t", &[(1, 1)]), alone.write("t", &[(2, 1)]), alone.write("t", &[(1, -1), (3, 2)])];
    let mut answers: Vec<_> =
        writes.into_iter().map(|write| Box::pin(handle.commit(vec![write], Vec::new()))).collect();
    assert!(answers.iter_mut().all(|answer| answer.as_mut().now_or_never().is_none()));
    assert_eq!(alone.env.oracle.known_ts(), before, "asking moves nothing");
    alone.clock.advance(Duration::from_millis(5));
    assert!(alone.committer.step(&alone.requests));
    for answer in answers {
        assert!(matches!(answer.now_or_never(), Some(Ok(Committed::At))), "all of the group are answered");
    }
    let times = alone.written_after("t", before);
    assert_eq!(times, [alone.env.oracle.known_ts()], "one time for all, and the oracle is at it");
    assert_eq!(alone.table("t").1.clock.last_write(), times[0]);
    assert_eq!(alone.durable("t").values().copied().collect::<Vec<_>>(), [1, 2], "2 once and 3 twice");
}

#[test]
fn what_was_read_and_written_since_is_a_conflict() {
    let dir = dir();
    let mut alone = Alone::open(dir.path());
    for sql in ["CREATE TABLE t (a int)", "CREATE TABLE other (a int)"] {
        assert!(matches!(alone.create_table(sql), Ok(Committed::At)), "{sql}");
    }
    let (read_ts, handle) = (alone.env.oracle.known_ts(), alone.env.handle.clone());
    let (write, expected) = (alone.write("t", &[(1, 1)]), alone.unwritten_since("t", read_ts));
    let answer = alone.ask(handle.commit(vec![write], vec![expected.clone()]));
    assert!(matches!(answer, Ok(Committed::At)), "nothing was written since: {answer:?}");
    for name in ["t", "other"] {
        let (write, before) = (alone.write(name, &[(2, 1)]), alone.durable(name));
        let answer = alone.ask(handle.commit(vec![write], vec![expected.clone()]));
        assert!(matches!(answer, Ok(Committed::Conflict)), "{name}: {answer:?}");
        assert_eq!(alone.durable(name), before, "nothing of {name} is written");
    }
    // Of two in one group that have both read what the other writes, the first is committed.
    let read_ts = alone.env.oracle.known_ts();
    let writes = [alone.write("t", &[(3, 1)]), alone.write("t", &[(4, 1)])];
    let expected = alone.unwritten_since("t", read_ts);
    let mut answers: Vec<_> =
        writes.into_iter().map(|write| Box::pin(handle.commit(vec![write], vec![expected.clone()]))).collect();
    assert!(answers.iter_mut().all(|answer| answer.as_mut().now_or_never().is_none()));
    assert!(alone.committer.step(&alone.requests));
    let answers: Vec<_> = answers.into_iter().map(|answer| answer.now_or_never().expect("answered")).collect();
    assert!(matches!(answers[..], [Ok(Committed::At), Ok(Committed::Conflict)]), "{answers:?}");
}

#[test]
fn a_key_is_taken_once_in_a_group_and_after_it() {
    let dir = dir();
    let mut alone = Alone::open(dir.path());
    assert!(matches!(alone.create_table("CREATE TABLE t (a int PRIMARY KEY)"), Ok(Committed::At)));
    let handle = alone.env.handle.clone();
    let writes = [alone.write("t", &[(1, 1)]), alone.write("t", &[(1, 1)])];
    let mut answers: Vec<_> =
        writes.into_iter().map(|write| Box::pin(handle.commit(vec![write], Vec::new()))).collect();
    assert!(answers.iter_mut().all(|answer| answer.as_mut().now_or_never().is_none()));
    assert!(alone.committer.step(&alone.requests));
    let answers: Vec<_> = answers.into_iter().map(|answer| answer.now_or_never().expect("answered")).collect();
    assert!(matches!(answers[..], [Ok(Committed::At), Ok(Committed::Duplicate(_))]), "{answers:?}");
    let (again, moved) = (alone.write("t", &[(1, 1)]), alone.write("t", &[(1, -1), (2, 1)]));
    assert!(matches!(alone.ask(handle.commit(vec![again], Vec::new())), Ok(Committed::Duplicate(_))));
    assert!(matches!(alone.ask(handle.commit(vec![moved], Vec::new())), Ok(Committed::At)));
    let freed = alone.write("t", &[(1, 1)]);
    assert!(matches!(alone.ask(handle.commit(vec![freed], Vec::new())), Ok(Committed::At)), "1 is free again");
    assert_eq!(alone.durable("t").len(), 2);
}

#[test]
fn what_was_answered_is_there_after_a_restart_and_time_goes_on() {
    let dir = dir();
    let (ts, rows) = {
        let mut alone = Alone::open(dir.path());
        assert!(matches!(alone.create_table("CREATE TABLE t (a int)"), Ok(Committed::At)));
        let handle = alone.env.handle.clone();
        for value in 0..50 {
            let write = alone.write("t", &[(value, 1), (value - 1, -i64::from(value % 3 == 1))]);
            assert!(matches!(alone.ask(handle.commit(vec![write], Vec::new())), Ok(Committed::At)));
        }
        (alone.env.oracle.known_ts(), alone.durable("t"))
    };
    let mut alone = Alone::open(dir.path());
    assert!(alone.env.oracle.known_ts() >= ts, "time does not go back");
    assert_eq!(alone.durable("t"), rows);
    let (before, handle, write) = (alone.env.oracle.known_ts(), alone.env.handle.clone(), alone.write("t", &[(99, 1)]));
    assert!(matches!(alone.ask(handle.commit(vec![write], Vec::new())), Ok(Committed::At)));
    assert!(alone.env.oracle.known_ts() > before);
}

#[test]
fn a_change_of_another_catalog_is_a_conflict_and_a_table_that_has_gone_too() {
    let dir = dir();
    let mut alone = Alone::open(dir.path());
    let old = alone.env.published.load().state.revision();
    assert!(matches!(alone.create_table("CREATE TABLE t (a int)"), Ok(Committed::At)));
    let handle = alone.env.handle.clone();
    assert!(matches!(alone.ask(handle.change_catalog(CatalogChange::new(old, Vec::new()))), Ok(Committed::Conflict)));
    let nowhere = TableWrite::new(GlobalId::User(999_999), alone.write("t", &[(1, 1)]).updates.as_ref().clone(), None);
    assert!(matches!(alone.ask(handle.commit(vec![nowhere], Vec::new())), Ok(Committed::Conflict)));
}

#[test]
fn one_that_has_stopped_says_so() {
    let dir = dir();
    let mut alone = Alone::open(dir.path());
    let handle = alone.env.handle.clone();
    handle.stop();
    assert!(!alone.committer.step(&alone.requests), "it has ended");
    drop((alone.committer, alone.requests));
    let error = handle.settle().now_or_never().expect("nobody is waited for").expect_err("there is nobody");
    assert_eq!(error.sqlstate(), SqlState::ADMIN_SHUTDOWN);
}

#[test]
fn nothing_of_a_commit_that_failed_is_seen() {
    let dir = dir();
    let mut alone = Alone::open(dir.path());
    assert!(matches!(alone.create_table("CREATE TABLE t (a int PRIMARY KEY)"), Ok(Committed::At)));
    let handle = alone.env.handle.clone();
    let write = alone.write("t", &[(1, 1)]);
    assert!(matches!(alone.ask(handle.commit(vec![write], Vec::new())), Ok(Committed::At)));
    let seen = |alone: &Alone| (alone.env.oracle.known_ts(), alone.table("t").1.clock.last_write(), alone.durable("t"));
    let before = seen(&alone);
    // From here on the store takes nothing.
    alone.env.persist.close();
    alone.clock.advance(Duration::from_secs(1));
    let write = alone.write("t", &[(2, 1)]);
    assert!(alone.ask(handle.commit(vec![write], Vec::new())).is_err());
    assert_eq!(seen(&alone), before);
    assert!(alone.create_table("CREATE TABLE u (a int)").is_err());
    assert!(alone.env.published.load().state.all_items().all(|item| item.name.item != "u"));
    drop((alone, handle));
    assert_eq!(Alone::open(dir.path()).durable("t"), before.2);
}
