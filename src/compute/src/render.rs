//! From an index's specification to its dataflow: input rows, map/filter/project and keys, one arrangement of rows and,
//! where evaluation can fail, one of errors.

pub mod mfp;

use crate::render::mfp::RowPlan;
use arrangement::spine::{RowBatcher, RowBuilder, RowChunker, RowSpine, RowUpdate};
use compute_client::index::key_hash;
use compute_client::protocol::IndexSpec;
use differential_dataflow::input::{Input, InputSession};
use differential_dataflow::operators::arrange::TraceAgent;
use differential_dataflow::operators::arrange::arrangement::arrange_core;
use repr::row::RowError;
use repr::{Diff, Timestamp};
use timely::container::CapacityContainerBuilder;
use timely::dataflow::Scope;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::Operator;
use timely::dataflow::operators::vec::ResultStream;
use timely::worker::Worker;

/// A trace that its worker can read and compact.
pub type Trace = TraceAgent<RowSpine>;

/// The two ends of an index's dataflow.
pub struct Rendered {
    /// Where the input's rows go in.
    pub input: InputSession<Timestamp, Vec<u8>, Diff>,
    /// The arranged rows.
    pub oks: Trace,
    /// The arranged errors, absent where evaluation cannot fail.
    pub errs: Option<Trace>,
    /// What [`Worker::drop_dataflow`] needs.
    pub dataflow: usize,
}

/// Builds the dataflow of an index.
pub fn render(worker: &mut Worker, spec: &IndexSpec) -> Result<Rendered, RowError> {
    let plan = RowPlan::new(spec)?;
    let dataflow = worker.next_dataflow_index();
    let name = format!("index {} ({})", spec.id, spec.name);
    let (input, oks, errs) = worker.dataflow_named::<Timestamp, _, _>(&name, |scope: Scope<'_, Timestamp>| {
        let (input, rows) = scope.new_collection::<Vec<u8>, Diff>();
        let can_fail = plan.can_fail();
        let evaluated = evaluate(rows.inner, plan);
        if can_fail {
            let (oks, errs) = (evaluated.clone().ok(), evaluated.err());
            (input, arrange(oks, "Arrange oks"), Some(arrange(errs, "Arrange errs")))
        } else {
            (input, arrange(evaluated.ok(), "Arrange"), None)
        }
    });
    Ok(Rendered { input, oks, errs, dataflow })
}

type Updates<T> = Vec<(T, Timestamp, Diff)>;
type Outcome = Result<RowUpdate, RowUpdate>;

/// Applies the plan to each batch of input rows: what becomes of each is a keyed row, nothing, or an error.
fn evaluate<'scope>(
    rows: Stream<'scope, Timestamp, Updates<Vec<u8>>>,
    plan: RowPlan,
) -> Stream<'scope, Timestamp, Vec<Outcome>> {
    rows.unary::<CapacityContainerBuilder<Vec<Outcome>>, _, _, _>(Pipeline, "MapFilterProject", move |_, _| {
        move |input, output| {
            input.for_each(|capability, batch| {
                let mut session = output.session(&capability);
                plan.apply(batch, |outcome| session.give(outcome));
            });
        }
    })
}

fn arrange<'scope>(stream: Stream<'scope, Timestamp, Vec<RowUpdate>>, name: &str) -> Trace {
    let by_key = Exchange::new(|((key, _), _, _): &RowUpdate| key_hash(key));
    arrange_core::<_, _, RowChunker, RowBatcher, RowBuilder, RowSpine>(stream, by_key, name).trace
}
