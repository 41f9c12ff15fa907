//! What the operators of a query did: the query runs, its rows are counted and dropped, and then each operator says what it gave and
//! how long it computed (the time of all its partitions together, without that of what is below it).

use crate::error::SqlError;
use arrow::array::{AsArray, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Float64Type, Schema, UInt64Type};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt};
use ore::clock::Clock;
use std::sync::Arc;
use std::time::Duration;

/// How a plan is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanFormat {
    /// An operator per line, each below the one that it gives rows to.
    Text,
    /// The same, with each partition's figures.
    Partitions,
    /// PostgreSQL's JSON: an object per operator, those below it in `Plans`.
    Json,
}

/// What a query did.
#[derive(Clone, Debug, PartialEq)]
pub struct Analysis {
    /// Its operators.
    pub plan: String,
    /// How many rows it gave.
    pub rows: u64,
    /// The milliseconds that it took from its begin to its last row.
    pub took_ms: f64,
}

impl Analysis {
    /// Takes it from what [`Engine::analyze`](crate::Engine::analyze) gives.
    pub async fn of(analyzed: SendableRecordBatchStream) -> Result<Analysis, SqlError> {
        let batches: Vec<RecordBatch> = analyzed.try_collect().await?;
        let read = |batch: &RecordBatch| {
            Some(Analysis {
                plan: batch.column(0).as_string_opt::<i32>()?.value(0).to_owned(),
                rows: batch.column(1).as_primitive_opt::<UInt64Type>()?.value(0),
                took_ms: batch.column(2).as_primitive_opt::<Float64Type>()?.value(0),
            })
        };
        batches.first().and_then(read).ok_or_else(|| SqlError::internal("a query that was analyzed told nothing"))
    }
}

/// The rows of `running`, which are those of `plan`, counted; in their place comes what the plan did, once it is over.
pub(super) fn analyzed(
    plan: Arc<dyn ExecutionPlan>,
    mut running: SendableRecordBatchStream,
    format: PlanFormat,
    started: Duration,
) -> SendableRecordBatchStream {
    let fields = [("plan", DataType::Utf8), ("rows", DataType::UInt64), ("took_ms", DataType::Float64)];
    let schema = Arc::new(Schema::new(fields.map(|(name, data_type)| Field::new(name, data_type, false)).to_vec()));
    let columns = Arc::clone(&schema);
    let work = async move {
        let mut rows: u64 = 0;
        while let Some(batch) = running.next().await {
            rows += batch?.num_rows() as u64;
        }
        let took_ms = Clock::system().monotonic().saturating_sub(started).as_secs_f64() * 1e3;
        let text = written(plan.as_ref(), format);
        RecordBatch::try_new(
            columns,
            vec![
                Arc::new(StringArray::from(vec![text])),
                Arc::new(UInt64Array::from(vec![rows])),
                Arc::new(Float64Array::from(vec![took_ms])),
            ],
        )
        .map_err(Into::into)
    };
    Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::once(work)))
}

fn written(plan: &dyn ExecutionPlan, format: PlanFormat) -> String {
    let together = DisplayableExecutionPlan::with_metrics(plan);
    match format {
        PlanFormat::Text => together.indent(false).to_string(),
        PlanFormat::Partitions => DisplayableExecutionPlan::with_full_metrics(plan).indent(false).to_string(),
        PlanFormat::Json => together.pgjson(false).to_string(),
    }
}
