//! Panics on purpose inside a running query: between any two of its operators, at any batch, where `misc/bugs` asks for them.
//!
//! What a test wants to see is that such a query fails, and that nothing of it is answered or committed.

use super::through::{Through, through};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use std::sync::Arc;

/// The plan that runs: every operator of it may panic, if that is wanted.
pub(super) fn with_faults(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if !bugs::are_wanted() {
        return Ok(plan);
    }
    plan.transform_up(|inner| Ok(Transformed::yes(through(inner, Faults)))).data()
}

/// Sometimes panics instead of giving a batch.
#[derive(Debug)]
struct Faults;

impl Through for Faults {
    const NAME: &'static str = "FaultyExec";

    fn through(&self, input: SendableRecordBatchStream, name: &str) -> SendableRecordBatchStream {
        let (name, schema) = (name.to_owned(), input.schema());
        let batches = input.inspect(move |_| bugs::panic_sometimes(&name));
        Box::pin(RecordBatchStreamAdapter::new(schema, batches))
    }
}
