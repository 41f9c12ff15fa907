//! Runs a program written by hand: its workers, what goes in, what comes out.

use crate::programs;
use crate::typed::{Customer, Lineitem, Nation, Order, Region, Supplier, TypedRows};
use anyhow::{Context, Result};
use crossbeam_channel::{Receiver, Sender, bounded};
use differential_dataflow::hashable::Hashable;
use differential_dataflow::input::{Input, InputSession};
use differential_dataflow::trace::TraceReader;
use differential_dataflow::{ExchangeData, VecCollection};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use timely::dataflow::ProbeHandle;
use timely::dataflow::operators::Probe;
use timely::worker::Worker;

type Rows<'scope, D> = VecCollection<'scope, u64, D, i64>;
type Session<D> = InputSession<u64, D, i64>;

/// The tables as a program reads them.
pub(crate) struct Inputs<'scope> {
    pub(crate) lineitem: Rows<'scope, Lineitem>,
    pub(crate) orders: Rows<'scope, Order>,
    pub(crate) customer: Rows<'scope, Customer>,
    pub(crate) supplier: Rows<'scope, Supplier>,
    pub(crate) nation: Rows<'scope, Nation>,
    pub(crate) region: Rows<'scope, Region>,
}

/// Where a program's result is arranged and can be seen.
#[derive(Default)]
pub(crate) struct Shown {
    probe: ProbeHandle<u64>,
    columns: Vec<usize>,
    rows: Option<Box<dyn Fn() -> Vec<Vec<String>>>>,
    compact: Option<Box<dyn FnMut(u64)>>,
}

impl Shown {
    /// Arranges a result, as an index does. `columns` are those of the query that `format` gives.
    pub(crate) fn show<K, V>(&mut self, result: Rows<'_, (K, V)>, columns: &[usize], format: fn(&K, &V) -> Vec<String>)
    where
        K: ExchangeData + Hashable,
        V: ExchangeData,
    {
        let found: Rc<RefCell<BTreeMap<(K, V), i64>>> = Rc::default();
        let kept = Rc::clone(&found);
        let arranged = result
            .inspect(move |(row, _, diff)| {
                let mut found = kept.borrow_mut();
                let count = found.entry(row.clone()).or_default();
                *count += diff;
                if *count == 0 {
                    found.remove(row);
                }
            })
            .arrange_by_key();
        arranged.stream.probe_with(&self.probe);
        let mut trace = arranged.trace;
        self.columns = columns.to_vec();
        self.rows = Some(Box::new(move || found.borrow().keys().map(|(key, value)| format(key, value)).collect()));
        self.compact = Some(Box::new(move |ts| {
            let frontier = timely::progress::Antichain::from_elem(ts);
            trace.set_logical_compaction(frontier.borrow());
            trace.set_physical_compaction(frontier.borrow());
        }));
    }
}

/// What the workers are told, all of them the same.
#[derive(Clone)]
enum Command {
    Apply(Arc<TypedRows>),
    Show(Sender<(Vec<usize>, Vec<Vec<String>>)>),
}

/// A program in its threads.
pub(crate) struct ByHand {
    commands: Vec<Sender<Command>>,
    done: Receiver<()>,
}

impl ByHand {
    /// Starts a program and feeds it the first rows.
    pub(crate) fn start(query: u8, workers: usize, rows: &Arc<TypedRows>) -> Result<ByHand> {
        let (commands, receivers): (Vec<_>, Vec<_>) = (0..workers).map(|_| bounded(1)).unzip();
        let receivers = Arc::new(Mutex::new(receivers.into_iter().map(Some).collect::<Vec<_>>()));
        let (finished, done) = bounded(workers);
        let config = if workers == 1 { timely::Config::thread() } else { timely::Config::process(workers) };
        std::thread::spawn(move || {
            let guards = timely::execute(config, move |worker| {
                let mut receivers = receivers.lock().expect("nobody panics with the lock held");
                let commands = receivers[worker.index()].take().expect("each worker takes its own");
                drop(receivers);
                run(query, worker, &commands, &finished);
            });
            drop(guards);
        });
        let mut program = ByHand { commands, done };
        program.apply(rows)?;
        Ok(program)
    }

    /// Feeds a batch and waits until the result is complete.
    pub(crate) fn apply(&mut self, rows: &Arc<TypedRows>) -> Result<()> {
        self.tell(&Command::Apply(Arc::clone(rows)))?;
        for _ in &self.commands {
            self.done.recv().context("the program has ended")?;
        }
        Ok(())
    }

    /// Which columns of the query the program computes, and its rows, sorted.
    pub(crate) fn rows(&mut self) -> Result<(Vec<usize>, Vec<Vec<String>>)> {
        let (sender, receiver) = bounded(self.commands.len());
        self.tell(&Command::Show(sender))?;
        let (mut columns, mut all) = (Vec::new(), Vec::new());
        for _ in &self.commands {
            let (of_query, rows) = receiver.recv().context("the program has ended")?;
            columns = of_query;
            all.extend(rows);
        }
        all.sort();
        Ok((columns, all))
    }

    fn tell(&self, command: &Command) -> Result<()> {
        self.commands.iter().try_for_each(|worker| worker.send(command.clone())).context("the program has ended")
    }
}

/// One worker's life.
fn run(query: u8, worker: &mut Worker, commands: &Receiver<Command>, done: &Sender<()>) {
    let (index, peers) = (worker.index(), worker.peers());
    let mut shown = Shown::default();
    let mut sessions = worker.dataflow::<u64, _, _>(|scope| {
        let (lineitem, lineitem_rows) = scope.new_collection();
        let (orders, orders_rows) = scope.new_collection();
        let (customer, customer_rows) = scope.new_collection();
        let (supplier, supplier_rows) = scope.new_collection();
        let (nation, nation_rows) = scope.new_collection();
        let (region, region_rows) = scope.new_collection();
        let inputs = Inputs {
            lineitem: lineitem_rows,
            orders: orders_rows,
            customer: customer_rows,
            supplier: supplier_rows,
            nation: nation_rows,
            region: region_rows,
        };
        programs::build(query, inputs, &mut shown);
        (lineitem, orders, customer, supplier, nation, region)
    });
    let (lineitem, orders, customer, supplier, nation, region) = &mut sessions;
    let mut ts = 0;
    while let Ok(command) = commands.recv() {
        match command {
            Command::Apply(rows) => {
                ts += 1;
                feed(lineitem, &rows.lineitem, index, peers, ts);
                feed(orders, &rows.orders, index, peers, ts);
                feed(customer, &rows.customer, index, peers, ts);
                feed(supplier, &rows.supplier, index, peers, ts);
                feed(nation, &rows.nation, index, peers, ts);
                feed(region, &rows.region, index, peers, ts);
                worker.step_while(|| shown.probe.less_than(&ts));
                if let Some(compact) = &mut shown.compact {
                    compact(ts);
                }
                if done.send(()).is_err() {
                    return;
                }
            }
            Command::Show(to) => {
                let rows = shown.rows.as_ref().map(|rows| rows()).unwrap_or_default();
                // Who asked waits for it.
                let _gone = to.send((shown.columns.clone(), rows));
            }
        }
    }
}

/// Feeds this worker's share, and ends the time before `ts`.
fn feed<D: ExchangeData>(session: &mut Session<D>, rows: &[(D, i64)], index: usize, peers: usize, ts: u64) {
    for (row, diff) in rows.iter().skip(index).step_by(peers) {
        session.update(row.clone(), *diff);
    }
    session.advance_to(ts);
    session.flush();
}
