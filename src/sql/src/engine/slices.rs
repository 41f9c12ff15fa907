//! Batches in slices: the input of an operator that may make much of little.
//!
//! What `repeat` or `replace` makes of a batch of 8192 rows may be more than there is memory for, where a few rows at a time
//! are no trouble: the operator above takes in what it needs of them.

use super::through::Through;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt};

/// Gives its input's rows in batches of at most so many.
#[derive(Debug)]
pub(super) struct Slices {
    pub(super) rows_max: usize,
}

impl Through for Slices {
    const NAME: &'static str = "SlicesExec";

    fn through(&self, input: SendableRecordBatchStream, _name: &str) -> SendableRecordBatchStream {
        let (rows_max, schema) = (self.rows_max, input.schema());
        let slices = input.map_ok(move |batch| {
            let starts = (0..batch.num_rows()).step_by(rows_max);
            futures::stream::iter(starts.map(move |from| {
                let rows = rows_max.min(batch.num_rows() - from);
                Ok(batch.slice(from, rows))
            }))
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, slices.try_flatten().boxed()))
    }
}
