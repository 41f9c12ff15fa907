//! The forms in which rows come to an operator, and the operators that take them as they lie.
//!
//! Rows of a table come as the run in which they were committed, those of a join and of a map/filter/project packed into one
//! buffer. Other operators give them one by one.

use crate::render::{BATCH_ROWS, Keyed, Rows, ScopeTime};
use arrangement::packed::Packed;
use differential_dataflow::{AsCollection, VecCollection};
use repr::{Diff, Timestamp, Updates};
use std::sync::Arc;
use timely::Container;
use timely::container::{CapacityContainerBuilder, ContainerBuilder};
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::Operator;
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::operators::vec::Input;
use timely::dataflow::operators::vec::input::Handle;
use timely::dataflow::{Scope, Stream};
use timely::progress::operate::FrontierInterest;

/// The part that one worker takes of a run of updates that all are sent.
#[derive(Clone)]
pub struct Chunk {
    /// The run.
    pub updates: Arc<Updates>,
    /// Which worker takes them.
    pub me: usize,
    /// Among how many.
    pub peers: usize,
}

impl Chunk {
    fn iter(&self) -> impl Iterator<Item = (&[u8], Diff)> {
        self.updates.iter().skip(self.me).step_by(self.peers)
    }
}

/// Where the rows of a collection go in.
pub struct RowFeed(Handle<Timestamp, (Chunk, Timestamp, Diff)>);

impl RowFeed {
    /// The end of a dataflow, and what goes in there.
    pub fn new<'scope>(scope: Scope<'scope, Timestamp>) -> (RowFeed, Chunks<'scope>) {
        let (handle, chunks) = scope.new_input();
        (RowFeed(handle), chunks.as_collection())
    }

    /// Feeds the updates of a run, which are of one time, now or later.
    pub fn put(&mut self, chunk: Chunk, ts: Timestamp) {
        debug_assert!(*self.0.time() <= ts, "times only advance");
        self.0.send((chunk, ts, 1));
    }

    /// Lets the dataflow have what was fed.
    pub fn flush(&mut self) {
        self.0.flush();
    }

    /// Declares that nothing more comes below `ts`.
    pub fn advance_to(&mut self, ts: Timestamp) {
        self.0.flush();
        if *self.0.time() < ts {
            self.0.advance_to(ts);
        }
    }
}

/// Chunks; the times and multiplicities are those of their updates.
pub type Chunks<'scope, T = Timestamp> = VecCollection<'scope, T, Chunk, Diff>;
/// Rows under keys, packed.
pub type PackedRows<'scope, T = Timestamp> = Stream<'scope, T, Packed<T>>;
/// What packs rows.
pub type PackedBuilder<T> = CapacityContainerBuilder<Packed<T>>;

/// One update of an index's input.
pub type InputUpdate<T> = (Vec<u8>, T, Diff);

/// An update of a row, where it lies.
pub struct Update<'a, T> {
    /// The row.
    pub row: &'a [u8],
    /// When it changes.
    pub time: &'a T,
    /// By how much.
    pub diff: Diff,
}

impl<T> Clone for Update<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Update<'_, T> {}

/// A container of updates of rows.
pub trait Lies<T>: Container {
    /// Appends its updates.
    fn lie<'a>(&'a self, updates: &mut Vec<Update<'a, T>>);
}

impl<T: 'static> Lies<T> for Vec<(Vec<u8>, T, Diff)> {
    fn lie<'a>(&'a self, updates: &mut Vec<Update<'a, T>>) {
        updates.extend(self.iter().map(|(row, time, diff)| Update { row, time, diff: *diff }));
    }
}

impl<T: 'static> Lies<T> for Vec<(Chunk, T, Diff)> {
    fn lie<'a>(&'a self, updates: &mut Vec<Update<'a, T>>) {
        for (chunk, time, copies) in self {
            updates.extend(chunk.iter().map(|(row, diff)| Update { row, time, diff: diff * copies }));
        }
    }
}

impl<T: 'static> Lies<T> for Packed<T> {
    fn lie<'a>(&'a self, updates: &mut Vec<Update<'a, T>>) {
        updates.extend((0..self.len()).map(|at| Update {
            row: self.row(at).1,
            time: self.time(at),
            diff: self.diff(at),
        }));
    }
}

/// Rows in one of their forms.
#[derive(Clone)]
pub enum Flow<'scope, T: ScopeTime> {
    /// As they were committed.
    Chunks(Chunks<'scope, T>),
    /// Packed; their keys are nothing to whoever reads them.
    Packed(PackedRows<'scope, T>),
    /// One by one.
    Rows(Rows<'scope, T>),
}

impl<'scope, T: ScopeTime> Flow<'scope, T> {
    /// The rows, one by one.
    pub fn rows(self) -> Rows<'scope, T> {
        match self {
            Flow::Chunks(chunks) => single_rows(chunks),
            Flow::Packed(packed) => rows(packed),
            Flow::Rows(rows) => rows,
        }
    }

    /// An operator on batches of one time, whose results go one way and whose errors another.
    pub fn evaluated<B: ContainerBuilder<Container: Container + Clone> + 'static>(
        self,
        name: &str,
        logic: impl FnMut(&[Update<'_, T>], &mut B, &mut dyn FnMut(InputUpdate<T>)) + 'static,
    ) -> (Stream<'scope, T, B::Container>, Rows<'scope, T>) {
        match self {
            Flow::Chunks(chunks) => evaluated(chunks.inner, name, logic),
            Flow::Packed(packed) => evaluated(packed, name, logic),
            Flow::Rows(rows) => evaluated(rows.inner, name, logic),
        }
    }
}

fn evaluated<'scope, T: ScopeTime, C: Lies<T> + Clone, B: ContainerBuilder<Container: Container + Clone> + 'static>(
    input: Stream<'scope, T, C>,
    name: &str,
    mut logic: impl FnMut(&[Update<'_, T>], &mut B, &mut dyn FnMut(InputUpdate<T>)) + 'static,
) -> (Stream<'scope, T, B::Container>, Rows<'scope, T>) {
    let mut builder = OperatorBuilder::new(name.to_owned(), input.scope());
    let mut input = builder.new_input(input, Pipeline);
    builder.set_notify_for(0, FrontierInterest::Never);
    let (oks, ok_stream) = builder.new_output();
    let (errs, err_stream) = builder.new_output();
    let mut oks = OutputBuilder::<_, B>::from(oks);
    let mut errs = OutputBuilder::<_, CapacityContainerBuilder<Vec<InputUpdate<T>>>>::from(errs);
    builder.build(move |_| {
        let mut buffer: Vec<Update<'static, T>> = Vec::new();
        move |_| {
            let (mut oks, mut errs) = (oks.activate(), errs.activate());
            input.for_each_stamp(|time, containers| {
                let (mut oks, mut errs) = (oks.session_with_builder(&time), errs.session(&time));
                let mut fail = |error| errs.give(error);
                let mut updates = reused(std::mem::take(&mut buffer));
                for container in containers {
                    container.lie(&mut updates);
                    if updates.len() >= BATCH_ROWS {
                        logic(&updates, oks.builder(), &mut fail);
                        oks.extract_and_send();
                        updates.clear();
                    }
                }
                if !updates.is_empty() {
                    logic(&updates, oks.builder(), &mut fail);
                    oks.extract_and_send();
                }
                buffer = reused(updates);
            });
        }
    });
    (ok_stream, err_stream.as_collection())
}

/// A list's memory, for updates that lie elsewhere.
fn reused<'to, T>(mut list: Vec<Update<'_, T>>) -> Vec<Update<'to, T>> {
    list.clear();
    list.into_iter().map(|_| -> Update<'to, T> { unreachable!("the list is empty") }).collect()
}

/// The rows of chunks, one by one.
pub fn single_rows<'scope, T: ScopeTime>(chunks: Chunks<'scope, T>) -> Rows<'scope, T> {
    let rows =
        chunks.inner.unary::<CapacityContainerBuilder<Vec<InputUpdate<T>>>, _, _, _>(Pipeline, "Rows", |_, _| {
            move |input, output| {
                input.for_each(|capability, chunks| {
                    let mut session = output.session(&capability);
                    for (chunk, time, copies) in chunks.iter() {
                        let row = |(row, diff): (&[u8], Diff)| (row.to_vec(), time.clone(), diff * copies);
                        session.give_iterator(chunk.iter().map(row));
                    }
                });
            }
        });
    rows.as_collection()
}

/// The rows of what is packed, one by one, without their keys.
pub fn rows<'scope, T: ScopeTime>(packed: PackedRows<'scope, T>) -> Rows<'scope, T> {
    each(packed, |_, row| row.to_vec())
}

/// What is packed, one by one.
pub fn keyed<'scope, T: ScopeTime>(packed: PackedRows<'scope, T>) -> Keyed<'scope, T> {
    each(packed, |key, row| (key.to_vec(), row.to_vec()))
}

/// What is made of each key and row of what is packed.
pub fn each<'scope, T: ScopeTime, D: Clone + 'static>(
    packed: PackedRows<'scope, T>,
    make: impl Fn(&[u8], &[u8]) -> D + 'static,
) -> VecCollection<'scope, T, D, Diff> {
    let each = packed.unary::<CapacityContainerBuilder<Vec<(D, T, Diff)>>, _, _, _>(Pipeline, "Unpack", move |_, _| {
        move |input, output| {
            input.for_each(|capability, packed: &mut Packed<T>| {
                let update = |at| {
                    let (key, row) = packed.row(at);
                    (make(key, row), packed.time(at).clone(), packed.diff(at))
                };
                output.session(&capability).give_iterator((0..packed.len()).map(update));
            });
        }
    });
    each.as_collection()
}
