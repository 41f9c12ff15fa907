//! A committer over stores in memory, at a time that stands still unless it is moved: it is asked, takes a step, and has answered.

use crate::choices::Choices;
use crate::disk::{Died, Disk};
use crate::jobs::Jobs;
use crate::workers::Workers;
use arc_swap::ArcSwap;
use catalog::Catalog;
use catalog::system::MZ_SYSTEM;
use catalog::transact::Op;
use compute_client::controller::Controller;
use engine::{Engine, SessionInfo};
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
use ore::exit::Exit;
use ore::memory::Share;
use ore::metrics::Registry;
use ore::thread::Beside;
use persist::PersistClient;
use persist::blob::memory::MemoryObjects;
use repr::row::write_datum;
use repr::{Datum, Diff, GlobalId, Timestamp, Updates};
use sql::bind::Params;
use sql::plan::PlanContext;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::panic::resume_unwind;
use std::sync::{Arc, LazyLock};
use timestamp_oracle::TimestampOracle;
use timestamp_oracle::local::LocalOracle;

/// Compiling functions takes longer than all else here, and they are the same everywhere.
static ENGINE: LazyLock<Arc<Engine>> = LazyLock::new(|| Arc::new(Engine::new(sql::dialect::DIALECTS)));

/// What outlives a process.
#[derive(Clone, Default)]
pub(crate) struct Stores {
    pub(crate) disk: Disk,
    pub(crate) objects: MemoryObjects,
}

impl Stores {
    /// Others that begin with what is in these.
    pub(crate) fn copy(&self) -> Stores {
        Stores { disk: self.disk.copy(), objects: MemoryObjects::default() }
    }
}

/// See the module.
pub(crate) struct Process {
    pub(crate) env: Arc<Environment>,
    pub(crate) committer: Committer,
    pub(crate) requests: Requests,
    pub(crate) workers: Workers,
    pub(crate) jobs: Jobs,
    pub(crate) clock: ManualClock,
    disk: Disk,
}

thread_local! {
    static HAS_ENDED: Cell<bool> = const { Cell::new(false) };
}

/// The process ends itself: the simulation goes on with what it leaves behind.
fn end(_exit: Exit, _why: &dyn Display) -> ! {
    HAS_ENDED.set(true);
    resume_unwind(Box::new(Died))
}

/// Whether a process has ended itself since this was asked last, also where that was taken for a panic.
pub(crate) fn has_ended() -> bool {
    HAS_ENDED.take()
}

impl Process {
    /// One over these stores, of whose workers nobody is told to publish.
    pub(crate) fn open(
        stores: &Stores,
        clock: &ManualClock,
        choices: Choices,
        long_updates: u64,
    ) -> Result<Process, CommitError> {
        let persist = PersistClient::open_by_hand(Box::new(stores.disk.clone()), Box::new(stores.objects.clone()))?;
        let catalog = Catalog::open(&persist, &[])?;
        let oracle: Arc<dyn TimestampOracle> = Arc::new(LocalOracle::open(&persist, clock.clock())?);
        let (jobs, workers) = (Jobs::default(), Workers::new(choices, clock.clock()));
        let beside: Arc<dyn Beside> = Arc::new(jobs.clone());
        let (handle, requests) = Handle::new(persist.clone(), Arc::clone(&oracle), clock.clock(), Arc::clone(&beside));
        let memory = Share::root(usize::MAX, None);
        let env = Arc::new(Environment {
            engine: Arc::clone(&ENGINE),
            memory: Arc::clone(&memory),
            published: Arc::new(ArcSwap::from_pointee(Published::empty())),
            oracle,
            persist,
            holds: Arc::default(),
            clock: clock.clock(),
            beside: Arc::clone(&beside),
            long_updates,
            end,
            retain_us: 1_000_000,
            metrics: Metrics::register(&Registry::new()),
            handle,
        });
        let controller = Controller::new(Box::new(workers.clone()), beside, &memory, usize::MAX);
        let boot_ts = env.oracle.known_ts();
        let committer = Committer::boot(Arc::clone(&env), &catalog, controller, boot_ts)?;
        Ok(Process { env, committer, requests, workers, jobs, clock: clock.clone(), disk: stores.disk.clone() })
    }

    /// What the committer answers to something that is asked for at once.
    pub(crate) fn ask<T>(&mut self, question: impl Future<Output = T>) -> T {
        self.ask_together([question]).pop().expect("one answer to each question")
    }

    /// What it answers to several that are there when it takes its step.
    pub(crate) fn ask_together<T>(&mut self, questions: impl IntoIterator<Item = impl Future<Output = T>>) -> Vec<T> {
        let mut questions: Vec<_> = questions.into_iter().map(Box::pin).collect();
        let is_open = questions.iter_mut().all(|question| question.as_mut().now_or_never().is_none());
        assert!(is_open, "nobody has taken a step");
        assert!(self.committer.step(&self.requests), "it goes on");
        questions.into_iter().map(|question| question.now_or_never().expect("it has answered")).collect()
    }

    /// The change of the catalog that a statement asks for.
    pub(crate) fn change(&self, sql: &str) -> Result<CatalogChange, CommitError> {
        let published = self.env.published.load_full();
        let statement = sql_syntax::parser::parse(sql)?.pop().expect("there is one");
        let session = SessionInfo::default();
        let ctx = PlanContext {
            engine: &self.env.engine,
            catalog: published.state.as_ref(),
            session: &session,
            role: MZ_SYSTEM,
            cluster: "quickstart",
            from_tables: false,
        };
        let plan = sql::plan::plan(&ctx, &statement.ast, &mut Params::none())?;
        let op = Op::from_plan(&plan, MZ_SYSTEM).expect("it changes the catalog");
        Ok(CatalogChange::new(published.state.revision(), vec![op]))
    }

    /// Changes the catalog by a statement.
    pub(crate) fn run(&mut self, sql: &str) -> Result<Committed, CommitError> {
        let (change, handle) = (self.change(sql)?, self.env.handle.clone());
        self.ask(handle.change_catalog(change))
    }

    /// What has a name in the catalog.
    pub(crate) fn id(&self, name: &str) -> Option<GlobalId> {
        let published = self.env.published.load();
        published.state.all_items().find(|item| item.name.item == name).map(|item| item.id)
    }

    pub(crate) fn table(&self, name: &str) -> (GlobalId, Table) {
        let id = self.id(name).expect("the table is there");
        (id, self.env.published.load().tables[&id].clone())
    }

    /// A write of integers to a table of one column.
    pub(crate) fn write(&self, name: &str, rows: &[(i32, Diff)]) -> TableWrite {
        let rows: Vec<([i32; 1], Diff)> = rows.iter().map(|(value, diff)| ([*value], *diff)).collect();
        self.write_rows(name, &rows)
    }

    /// A write to a table of integers.
    pub(crate) fn write_rows<const N: usize>(&self, name: &str, rows: &[([i32; N], Diff)]) -> TableWrite {
        let (id, table) = self.table(name);
        let mut updates = Updates::new();
        for (row, diff) in rows {
            let pushed = updates.push_with(*diff, |out| {
                let columns = row.iter().zip(table.constraints.types.iter());
                columns.into_iter().try_for_each(|(value, ty)| write_datum(out, ty, &Datum::Int4(*value)))
            });
            pushed.expect("it is of the column's type");
        }
        TableWrite::new(id, updates, Some(table.constraints))
    }

    /// What is durable of a table as of a time, by encoded row.
    pub(crate) fn durable_at(&self, table: GlobalId, ts: Timestamp) -> Result<BTreeMap<Vec<u8>, Diff>, CommitError> {
        self.disk.spare(|| {
            let mut rows = BTreeMap::new();
            for part in self.env.persist.snapshot(table.into(), ts)? {
                for (row, diff) in part?.iter() {
                    *rows.entry(row.to_vec()).or_default() += diff;
                }
            }
            rows.retain(|_, diff| *diff != 0);
            Ok(rows)
        })
    }

    /// What is durable of a table as of now.
    pub(crate) fn durable(&self, name: &str) -> BTreeMap<Vec<u8>, Diff> {
        self.durable_at(self.table(name).0, self.env.oracle.known_ts()).expect("it is readable")
    }

    /// The times at which something was written to a table after `ts`.
    pub(crate) fn written_after(&self, name: &str, ts: Timestamp) -> Vec<Timestamp> {
        let (id, _) = self.table(name);
        let now = self.env.oracle.known_ts();
        self.env.persist.changes(id.into(), ts, now).expect("it is readable").into_keys().collect()
    }

    /// What expects that a table has not been written since `ts`.
    pub(crate) fn unwritten_since(&self, name: &str, ts: Timestamp) -> Expectation {
        Expectation { table: self.table(name).0, read_ts: ts, rows: None }
    }
}
