//! Batches in slices: the input of an operator that may make much of little.
//!
//! What `repeat` or `replace` makes of a batch of 8192 rows may be more than there is memory for, where a few rows at a time
//! are no trouble: the operator above takes in what it needs of them. How many are few, the time tells that it takes with them:
//! who makes hundreds of megabytes of a row is given one at a time.

use super::through::Through;
use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use ore::clock::Clock;
use std::time::Duration;

/// What an operator should take for a slice.
const SLICE_TIME: Duration = Duration::from_millis(2);

/// Gives its input's rows in batches of at most so many.
#[derive(Debug)]
pub(super) struct Slices {
    pub(super) rows_max: usize,
}

/// What is left of a batch, and how it is cut.
struct Slicing {
    input: SendableRecordBatchStream,
    rest: Option<RecordBatch>,
    rows_max: usize,
    rows: usize,
    /// When the last slice was handed out.
    handed_out: Option<Duration>,
    clock: Clock,
}

impl Slicing {
    async fn next(&mut self) -> Option<Result<RecordBatch>> {
        if let Some(took) = self.handed_out.take().map(|at| self.clock.monotonic().saturating_sub(at)) {
            self.rows = match took < SLICE_TIME {
                true => (self.rows * 2).min(self.rows_max),
                false => (self.rows / 2).max(1),
            };
        }
        let batch = match self.rest.take() {
            Some(rest) => rest,
            None => match self.input.next().await? {
                Ok(batch) => batch,
                failed => return Some(failed),
            },
        };
        let rows = self.rows.min(batch.num_rows());
        if rows < batch.num_rows() {
            self.rest = Some(batch.slice(rows, batch.num_rows() - rows));
        }
        self.handed_out = Some(self.clock.monotonic());
        Some(Ok(batch.slice(0, rows)))
    }
}

impl Through for Slices {
    const NAME: &'static str = "SlicesExec";

    fn through(&self, input: SendableRecordBatchStream, _name: &str) -> SendableRecordBatchStream {
        let schema = input.schema();
        let (rows_max, clock) = (self.rows_max, Clock::system());
        let slicing = Slicing { input, rest: None, rows_max, rows: 1, handed_out: None, clock };
        let slices = futures::stream::unfold(slicing, |mut slicing| async move {
            let slice = slicing.next().await?;
            Some((slice, slicing))
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, slices))
    }
}

#[cfg(test)]
mod tests {
    use super::{SLICE_TIME, Slices};
    use crate::through::Through;
    use arrow::array::{ArrayRef, AsArray, Int32Array, RecordBatch};
    use arrow::datatypes::Int32Type;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use futures::StreamExt;
    use std::sync::Arc;

    #[tokio::test]
    async fn every_row_comes_once_and_in_order_however_long_it_takes() {
        for slow in [false, true] {
            let batch = |from: i32, to: i32| {
                let values: ArrayRef = Arc::new(Int32Array::from_iter_values(from..to));
                RecordBatch::try_from_iter([("a", values)]).expect("it is a batch")
            };
            let batches = vec![batch(0, 100), batch(100, 100), batch(100, 107)];
            let schema = batches[0].schema();
            let input = futures::stream::iter(batches.into_iter().map(Ok));
            let input = Box::pin(RecordBatchStreamAdapter::new(schema, input));
            let mut slices = Slices { rows_max: 16 }.through(input, "input");
            let (mut found, mut sizes) = (Vec::new(), Vec::new());
            while let Some(slice) = slices.next().await {
                let slice = slice.expect("nothing fails");
                found.extend(slice.column(0).as_primitive::<Int32Type>().values().iter().copied());
                sizes.push(slice.num_rows());
                if slow {
                    std::thread::sleep(SLICE_TIME);
                }
            }
            assert_eq!(found, (0..107).collect::<Vec<_>>());
            assert!(sizes.iter().all(|rows| *rows <= if slow { 1 } else { 16 }), "{sizes:?}");
        }
    }
}
