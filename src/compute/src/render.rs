//! From an index's plan to its dataflow: tables in, operators, one arrangement of rows and, where evaluation can fail, one
//! of errors.
//!
//! Every operator reads and gives rows as bytes. What fails to evaluate leaves the rows and joins the errors, which all
//! operators share: a view with an error anywhere below it has that error and no answer.

pub mod accumulate;
pub mod extreme;
pub mod first;
pub mod flow;
mod groups;
pub mod join;
pub mod mfp;
pub mod multiply;
mod numbers;
mod pairs;
mod part;
pub mod recursion;
pub mod reduce;
pub mod regroup;
pub mod sums;
mod tally;
pub mod temporal;
pub mod top_k;
pub mod totals;
pub mod window;

use crate::render::first::Logic;
use crate::render::flow::{Chunks, Flow, InputUpdate, PackedBuilder, PackedRows, RowFeed};
use crate::render::mfp::{NullKeys, RowPlan};
use crate::render::totals::{Give, KeyTotals};
use arrangement::allowance::Allowance;
use arrangement::batcher::RowBatcher;
use arrangement::packed::PackedUpdate;
use arrangement::spine::{RowBuilder, RowSpine, RowUpdate};
use arrow::datatypes::SchemaRef;
use compute_client::index::key_hash;
use compute_client::plan::lir::{LetRec, Lir, LocalId, Node, SharedId, Stage, is_same};
use compute_client::protocol::{IndexSpec, KeyExpr};
use compute_client::schedule::Schedule;
use differential_dataflow::collection::concatenate;
use differential_dataflow::input::{Input, InputSession};
use differential_dataflow::lattice::Lattice;
use differential_dataflow::operators::arrange::TraceAgent;
use differential_dataflow::operators::arrange::arrangement::{Arranged, arrange_core};
use differential_dataflow::{AsCollection, ExchangeData, VecCollection};
use repr::row::RowError;
use repr::{Diff, GlobalId, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;
use timely::Container;
use timely::container::{CapacityContainerBuilder, PushInto};
use timely::dataflow::channels::pact::{Exchange, ExchangeCore, Pipeline};
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::operators::vec::ToStream;
use timely::dataflow::{Scope, Stream};
use timely::progress::operate::FrontierInterest;
use timely::worker::Worker;

/// A trace that its worker can read and compact.
pub type Trace<T = Timestamp> = TraceAgent<RowSpine<T>>;
/// Rows on their way between operators.
pub type Rows<'scope, T = Timestamp> = VecCollection<'scope, T, Vec<u8>, Diff>;
/// Rows under keys.
pub type Keyed<'scope, T = Timestamp> = VecCollection<'scope, T, (Vec<u8>, Vec<u8>), Diff>;
/// An arrangement inside a dataflow.
pub type ArrangedRows<'scope, T = Timestamp> = Arranged<'scope, Trace<T>>;

/// The times of a scope: those of the dataflow, or inside recursion those with rounds.
pub trait ScopeTime: timely::progress::Timestamp + Lattice + ExchangeData {
    /// Applies `logic` to the first values of each key, of which there are at least `wanted` copies or which are all.
    fn first<'scope>(
        memory: &Arc<Allowance>,
        arranged: ArrangedRows<'scope, Self>,
        name: &str,
        wanted: Diff,
        logic: impl Logic,
    ) -> Keyed<'scope, Self>;

    /// Renders the collections of a recursion, which become the builder's locals.
    fn let_rec<'scope>(builder: &mut Builder<'scope, Self>, recursion: &LetRec) -> Result<(), RowError>;

    /// The time of the dataflow.
    fn when(&self) -> Timestamp;

    /// The same at another time of the dataflow.
    fn put_off(&self, ts: Timestamp) -> Self;

    /// The rows, with updates of later times held until these have come. Not doing so changes nothing but the cost.
    fn hold<'scope>(_memory: &Arc<Allowance>, rows: Rows<'scope, Self>) -> Rows<'scope, Self> {
        rows
    }

    /// Gives something of each group and its totals.
    fn totals<'scope>(
        _memory: &Arc<Allowance>,
        totals: KeyTotals<'scope, Self>,
        give: impl Give,
    ) -> Keyed<'scope, Self> {
        totals::arranged(totals, give)
    }
}

impl ScopeTime for Timestamp {
    fn first<'scope>(
        _memory: &Arc<Allowance>,
        arranged: ArrangedRows<'scope>,
        name: &str,
        wanted: Diff,
        logic: impl Logic,
    ) -> Keyed<'scope> {
        first::first(arranged, name, wanted, logic)
    }

    fn let_rec<'scope>(builder: &mut Builder<'scope>, recursion: &LetRec) -> Result<(), RowError> {
        recursion::let_rec(builder, recursion)
    }

    fn when(&self) -> Timestamp {
        *self
    }

    fn put_off(&self, ts: Timestamp) -> Timestamp {
        ts
    }

    fn hold<'scope>(memory: &Arc<Allowance>, rows: Rows<'scope>) -> Rows<'scope> {
        temporal::hold(memory, rows)
    }

    fn totals<'scope>(memory: &Arc<Allowance>, totals: KeyTotals<'scope, Timestamp>, give: impl Give) -> Keyed<'scope> {
        totals::mapped(memory, totals, give)
    }
}

/// Where encoded errors go in.
pub type Feed = InputSession<Timestamp, Vec<u8>, Diff>;

/// Where what happens in a collection goes in.
pub struct Source {
    /// Its rows.
    pub oks: RowFeed,
    /// Its errors, if it is maintained itself.
    pub errs: Option<Feed>,
}

impl Source {
    /// Declares that nothing more comes in below `ts`.
    pub fn advance_to(&mut self, ts: Timestamp) {
        self.oks.advance_to(ts);
        if let Some(errs) = &mut self.errs {
            errs.advance_to(ts);
            errs.flush();
        }
    }
}

/// The ends of an index's dataflow.
pub struct Rendered {
    /// Where each of its collections goes in.
    pub sources: BTreeMap<GlobalId, Source>,
    /// Nothing goes in here but time; there is one where rows come and go with it.
    pub clock: Option<Feed>,
    /// The arranged rows.
    pub oks: Trace,
    /// The arranged errors, absent where evaluation cannot fail.
    pub errs: Option<Trace>,
    /// How rows are put under keys if all that is done to the collection's rows is that.
    pub arranged_by: RowPlan,
    /// What [`Worker::drop_dataflow`] needs.
    pub dataflow: usize,
}

/// Builds the dataflow of an index, which reads these arrangements of others.
pub fn render(
    worker: &mut Worker,
    spec: &IndexSpec,
    arrangements: BTreeMap<GlobalId, Trace>,
) -> Result<Rendered, RowError> {
    let dataflow = worker.next_dataflow_index();
    let is_first = worker.index() == 0;
    let name = format!("index {} ({})", spec.id, spec.name);
    worker.dataflow_named::<Timestamp, _, _>(&name, |scope: Scope<'_, Timestamp>| {
        let (mut sources, mut tables, mut errs) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let import =
            |(id, mut trace): (GlobalId, Trace)| (id, trace.import_named(scope, &format!("Rows of index {id}")));
        let arrangements = arrangements.into_iter().map(import).collect();
        for id in spec.plan.fed() {
            let (oks, rows) = RowFeed::new(scope);
            tables.insert(id, rows);
            let failed = spec.maintained.contains(&id).then(|| scope.new_collection::<Vec<u8>, Diff>());
            let failed = failed.map(|(feed, errors)| {
                errs.push(errors);
                feed
            });
            sources.insert(id, Source { oks, errs: failed });
        }
        let schedule = spec.handle.own_schedule().cloned();
        let (feed, clock) = schedule.as_ref().map(|_| scope.new_collection::<Vec<u8>, Diff>()).unzip();
        let (locals, level, memory) = (BTreeMap::new(), 0, Arc::clone(spec.handle.allowance()));
        let (shared, arranged) = (BTreeMap::new(), Vec::new());
        let mut builder = Builder {
            scope,
            memory,
            is_first,
            tables,
            arrangements,
            shared,
            arranged,
            locals,
            level,
            clock,
            schedule,
            errs,
        };
        let body = builder.body(&spec.plan)?;
        let oks = builder.arranged_by(body, &spec.key, NullKeys::Keep, "Arrange oks")?.trace;
        let errs = match builder.errs.is_empty() {
            true => None,
            // Under one key, so that one worker has them all.
            false => {
                let errs = concatenate(scope, builder.errs).map(|error| (Vec::new(), error));
                Some(arrange(&builder.memory, errs, "Arrange errs").trace)
            }
        };
        let arranged_by = RowPlan::new(&spec.plan.schema, &[], &spec.key, NullKeys::Keep)?;
        Ok(Rendered { sources, clock: feed, oks, errs, arranged_by, dataflow })
    })
}

/// An operator without the map/filter/project on top of it, and that.
fn source(lir: &Lir) -> (&Lir, &[Stage]) {
    match &lir.node {
        Node::Mfp { input, stages } => (input, stages),
        _ => (lir, &[]),
    }
}

/// The rows below a map/filter/project.
pub struct Below<'scope, 'lir, T: ScopeTime> {
    /// The rows.
    pub rows: Flow<'scope, T>,
    /// Their columns.
    pub schema: &'lir SchemaRef,
    /// What is left to be done to them.
    pub stages: &'lir [Stage],
}

/// A dataflow under construction.
pub struct Builder<'scope, T: ScopeTime = Timestamp> {
    scope: Scope<'scope, T>,
    /// What it may hold.
    memory: Arc<Allowance>,
    /// Whether this is the worker that constants begin at.
    is_first: bool,
    tables: BTreeMap<GlobalId, Chunks<'scope, T>>,
    /// What other indexes hold.
    arrangements: BTreeMap<GlobalId, ArrangedRows<'scope, T>>,
    /// What is made once and read several times.
    shared: BTreeMap<SharedId, Flow<'scope, T>>,
    /// Arrangements of that and of tables.
    arranged: Vec<(Arrangement, ArrangedRows<'scope, T>)>,
    /// The collections of the recursions around what is rendered.
    locals: BTreeMap<LocalId, Rows<'scope, T>>,
    /// In how many recursions that is.
    level: usize,
    /// No rows, but time as far as everything is known.
    clock: Option<Rows<'scope, T>>,
    /// Where temporal filters note what is to come.
    schedule: Option<Arc<Schedule>>,
    /// What has failed anywhere.
    errs: Vec<Rows<'scope, T>>,
}

/// Whose rows are arranged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Table(GlobalId),
    Shared(SharedId),
}

/// What an arrangement is of.
struct Arrangement {
    rows: Origin,
    key: Vec<KeyExpr>,
    null_keys: NullKeys,
}

impl Arrangement {
    /// That of an operator's rows, if others may read the same ones.
    fn of(lir: &Lir, key: &[KeyExpr], null_keys: NullKeys) -> Option<Arrangement> {
        let rows = match lir.node {
            Node::Get(table) => Origin::Table(table),
            Node::GetShared(shared) => Origin::Shared(shared),
            _ => return None,
        };
        Some(Arrangement { rows, key: key.to_vec(), null_keys })
    }

    fn is(&self, other: &Arrangement) -> bool {
        let is_same_key = |(left, right): (&KeyExpr, &KeyExpr)| match (left, right) {
            (KeyExpr::Expr(left, ty), KeyExpr::Expr(right, other)) => ty == other && is_same(left, right),
            _ => left.as_column().is_some_and(|column| right.as_column() == Some(column)),
        };
        (self.rows, self.null_keys) == (other.rows, other.null_keys)
            && self.key.len() == other.key.len()
            && self.key.iter().zip(&other.key).all(is_same_key)
    }
}

impl<'scope, T: ScopeTime> Builder<'scope, T> {
    /// Renders what a plan makes once, and gives what it makes of that.
    fn body<'lir>(&mut self, plan: &'lir Lir) -> Result<&'lir Lir, RowError> {
        let Node::Shared(shared) = &plan.node else { return Ok(plan) };
        for (id, part) in &shared.parts {
            let flow = self.flow(part)?;
            self.shared.insert(*id, flow);
        }
        Ok(&shared.body)
    }

    /// The rows of an operator.
    pub fn rows(&mut self, lir: &Lir) -> Result<Rows<'scope, T>, RowError> {
        match &lir.node {
            Node::Constant(rows) => Ok(self.constant(rows.iter().map(|(row, diff)| (row.to_vec(), diff)).collect())),
            Node::Get(id) => Ok(flow::single_rows(self.tables[id].clone())),
            Node::GetArranged { index, .. } => {
                Ok(self.arrangements[index].clone().as_collection(|_, row| row.to_vec()))
            }
            Node::GetLocal(id) => Ok(self.locals[id].clone()),
            Node::GetShared(id) => Ok(self.shared[id].clone().rows()),
            Node::Shared(_) => {
                let body = self.body(lir)?;
                self.rows(body)
            }
            Node::LetRec(recursion) => {
                T::let_rec(self, recursion)?;
                self.rows(&recursion.body)
            }
            Node::Mfp { .. } => Ok(flow::rows(self.packed_by(lir, &[], NullKeys::Keep)?)),
            Node::Temporal { input, bounds } => self.temporal(input, bounds),
            Node::Join(join) => self.join(join),
            Node::Reduce(reduce) => self.reduce(reduce),
            Node::Single(input) => self.single(input),
            Node::TopK { input, key, order, skip, fetch } => self.top_k(input, key, order, *skip, *fetch),
            Node::Window { input, functions } => self.window(input, functions, &lir.schema),
            Node::Union(inputs) => {
                let inputs = inputs.iter().map(|input| self.rows(input)).collect::<Result<Vec<_>, _>>()?;
                Ok(concatenate(self.scope, inputs))
            }
        }
    }

    /// Rows that are there from the beginning of time.
    pub fn constant(&mut self, mut rows: Vec<(Vec<u8>, Diff)>) -> Rows<'scope, T> {
        if !self.is_first {
            rows.clear();
        }
        let updates = rows.into_iter().map(|(row, diff)| (row, T::minimum(), diff));
        updates.to_stream(self.scope).as_collection()
    }

    /// An operator's rows in the form that costs least.
    pub fn flow(&mut self, lir: &Lir) -> Result<Flow<'scope, T>, RowError> {
        match &lir.node {
            Node::Get(id) => Ok(Flow::Chunks(self.tables[id].clone())),
            Node::GetShared(id) => Ok(self.shared[id].clone()),
            Node::Mfp { .. } => Ok(Flow::Packed(self.packed_by(lir, &[], NullKeys::Keep)?)),
            Node::Join(join) if join.is_plain() => Ok(Flow::Packed(self.plain_pairs(join)?)),
            _ => Ok(Flow::Rows(self.rows(lir)?)),
        }
    }

    /// The rows below a map/filter/project. What leaves out or cuts the pairs of a join is done while they are made.
    pub fn below<'lir>(&mut self, lir: &'lir Lir) -> Result<Below<'scope, 'lir, T>, RowError> {
        let (source, stages) = source(lir);
        if let Node::Join(join) = &source.node
            && join.is_plain()
        {
            for count in (1..=stages.len()).rev() {
                let (cuts, stages) = stages.split_at(count);
                let plan = RowPlan::new(&source.schema, cuts, &[], NullKeys::Keep)?;
                if !plan.can_fail() {
                    let schema = cuts.iter().rev().find_map(Stage::schema).unwrap_or(&source.schema);
                    return Ok(Below { rows: Flow::Packed(self.pairs_by(join, plan)?), schema, stages });
                }
            }
        }
        Ok(Below { rows: self.flow(source)?, schema: &source.schema, stages })
    }

    /// An operator's rows under keys. The last map/filter/project makes the keys as well, and where nothing is computed, so do
    /// joins.
    pub fn packed_by(
        &mut self,
        lir: &Lir,
        key: &[KeyExpr],
        null_keys: NullKeys,
    ) -> Result<PackedRows<'scope, T>, RowError> {
        let (source, stages) = source(lir);
        if let Node::Join(join) = &source.node
            && join.is_plain()
        {
            let plan = RowPlan::new(&source.schema, stages, key, null_keys)?;
            if !plan.can_fail() {
                return self.pairs_by(join, plan);
            }
        }
        let Below { rows, schema, stages } = self.below(lir)?;
        let plan = RowPlan::new(schema, stages, key, null_keys)?;
        Ok(self.packed(rows, plan))
    }

    /// An operator's rows under a key, arranged.
    pub fn arranged_by(
        &mut self,
        lir: &Lir,
        key: &[KeyExpr],
        null_keys: NullKeys,
        name: &str,
    ) -> Result<ArrangedRows<'scope, T>, RowError> {
        if let Node::GetArranged { index, key: held, .. } = &lir.node
            && let Some(wanted) = key.iter().map(KeyExpr::as_column).collect::<Option<Vec<_>>>()
            && wanted == *held
        {
            return Ok(self.arrangements[index].clone());
        }
        let arrangement = Arrangement::of(lir, key, null_keys);
        let known = |arrangement: &Arrangement| self.arranged.iter().find(|(known, _)| known.is(arrangement));
        if let Some((_, arranged)) = arrangement.as_ref().and_then(known) {
            return Ok(arranged.clone());
        }
        let keyed = self.packed_by(lir, key, null_keys)?;
        let arranged = arrange_packed(&self.memory, keyed, name);
        self.arranged.extend(arrangement.map(|arrangement| (arrangement, arranged.clone())));
        Ok(arranged)
    }

    /// Rows mapped, filtered and put under keys; what fails joins the errors.
    pub fn packed(&mut self, rows: Flow<'scope, T>, plan: RowPlan) -> PackedRows<'scope, T> {
        let can_fail = plan.can_fail();
        let (keyed, errs) = rows.evaluated("MapFilterProject", move |updates, output: &mut PackedBuilder<T>, fail| {
            plan.apply(
                updates,
                |key, row, update| output.push_into((key, row, update.time.clone(), update.diff)),
                |error, update| fail((error, update.time.clone(), update.diff)),
            );
        });
        if can_fail {
            self.errs.push(errs);
        }
        keyed
    }

    /// The same, each by itself.
    pub fn keyed(&mut self, rows: Flow<'scope, T>, plan: RowPlan) -> Keyed<'scope, T> {
        flow::keyed(self.packed(rows, plan))
    }

    /// Takes apart what an operator gave as [`outcome`]s.
    pub fn outcomes(&mut self, outcomes: Rows<'scope, T>) -> Rows<'scope, T> {
        let (rows, errs) = fallible(outcomes.inner, "Outcomes", |batch: &mut Vec<(Vec<u8>, T, Diff)>, give| {
            for (mut row, time, diff) in batch.drain(..) {
                let is_row = row.remove(0) == SUCCEEDED;
                give(if is_row { Ok((row, time, diff)) } else { Err((row, time, diff)) });
            }
        });
        self.errs.push(errs);
        rows.as_collection()
    }
}

const SUCCEEDED: u8 = 0;
const FAILED: u8 = 1;

/// A row or an error, as one kind of value.
pub fn outcome(result: Result<Vec<u8>, datafusion::error::DataFusionError>) -> Vec<u8> {
    let (tag, bytes) = match result {
        Ok(row) => (SUCCEEDED, row),
        Err(error) => (FAILED, compute_client::error::encode_error(error)),
    };
    [&[tag][..], &bytes].concat()
}

/// Batches of more rows than this are not put together for the sake of fewer batches.
const BATCH_ROWS: usize = 4_096;

/// An operator on batches of one time, whose results go one way and whose errors another.
pub fn fallible<'scope, T: ScopeTime, D: 'static, O: Clone + 'static>(
    input: Stream<'scope, T, Vec<D>>,
    name: &str,
    mut logic: impl FnMut(&mut Vec<D>, &mut dyn FnMut(Result<O, InputUpdate<T>>)) + 'static,
) -> (Stream<'scope, T, Vec<O>>, Rows<'scope, T>)
where
    Vec<D>: Container,
{
    let mut builder = OperatorBuilder::new(name.to_owned(), input.scope());
    let mut input = builder.new_input(input, Pipeline);
    builder.set_notify_for(0, FrontierInterest::Never);
    let (oks, ok_stream) = builder.new_output();
    let (errs, err_stream) = builder.new_output();
    let mut oks = OutputBuilder::<_, CapacityContainerBuilder<Vec<O>>>::from(oks);
    let mut errs = OutputBuilder::<_, CapacityContainerBuilder<Vec<InputUpdate<T>>>>::from(errs);
    builder.build(move |_| {
        move |_| {
            let (mut oks, mut errs) = (oks.activate(), errs.activate());
            input.for_each_stamp(|time, containers| {
                let (mut oks, mut errs) = (oks.session(&time), errs.session(&time));
                let mut give = |result| match result {
                    Ok(row) => oks.give(row),
                    Err(error) => errs.give(error),
                };
                let mut batch = Vec::new();
                for container in containers {
                    if batch.is_empty() {
                        std::mem::swap(&mut batch, container);
                    } else {
                        batch.append(container);
                    }
                    if batch.len() >= BATCH_ROWS {
                        logic(&mut batch, &mut give);
                        batch.clear();
                    }
                }
                if !batch.is_empty() {
                    logic(&mut batch, &mut give);
                }
            });
        }
    });
    (ok_stream, err_stream.as_collection())
}

/// Arranges keyed rows, each key on the worker that owns it.
pub fn arrange<'scope, T: ScopeTime>(
    memory: &Arc<Allowance>,
    keyed: Keyed<'scope, T>,
    name: &str,
) -> ArrangedRows<'scope, T> {
    let by_key = Exchange::new(|((key, _), _, _): &RowUpdate<T>| key_hash(key));
    arrange_core(keyed.inner, by_key, name, |_, _| RowBatcher::new(memory))
}

/// The same of rows that are packed.
pub fn arrange_packed<'scope, T: ScopeTime>(
    memory: &Arc<Allowance>,
    keyed: PackedRows<'scope, T>,
    name: &str,
) -> ArrangedRows<'scope, T> {
    let by_key = ExchangeCore::<PackedBuilder<T>, _>::new_core(|(key, ..): &PackedUpdate<'_, T>| key_hash(key));
    arrange_core(keyed, by_key, name, |_, _| RowBatcher::new(memory))
}

/// Applies `logic` to each key whose values change: its values with their counts in, and what it gives out.
pub fn reduced<'scope, T: ScopeTime>(
    memory: &Arc<Allowance>,
    arranged: ArrangedRows<'scope, T>,
    name: &str,
    mut logic: impl Logic,
) -> ArrangedRows<'scope, T> {
    let memory = Arc::clone(memory);
    arranged.reduce_abelian::<_, RowBuilder<T>, RowSpine<T>, _, _>(
        name,
        move |key, values, output| logic(key, values, output),
        move |sorted, key, updates| {
            sorted.allowance.get_or_insert_with(|| Arc::clone(&memory));
            sorted.updates.extend(updates.drain(..).map(|(value, time, diff)| ((key.to_vec(), value), time, diff)));
        },
    )
}
