//! Aggregates that are computed again from the rows of each group that changes, with the ad hoc engine's accumulators.
//!
//! A group is its key and as many different values as there are, each with a count. Aggregates for which copies do not
//! matter (DISTINCT, `bit_and`) see each value once; others see it as often as it is there.

use crate::render::mfp::{decode, types, without_nulls};
use crate::render::part::{Part, Step, negative};
use crate::render::reduce::outcome_of;
use crate::render::{Builder, Keyed, ScopeTime, arrange, reduced};
use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::error::DataFusionError;
use repr::Diff;
use repr::row::{RowCodec, RowError, write_array_value};
use std::sync::Arc;

struct Group {
    codec: RowCodec,
    schema: SchemaRef,
    steps: Vec<Step>,
}

impl<'scope, T: ScopeTime> Builder<'scope, T> {
    /// Rows under their group's key to one outcome per group.
    pub(super) fn regroup(&mut self, keyed: Keyed<'scope, T>, part: &Part) -> Result<Keyed<'scope, T>, RowError> {
        let (schema, steps) = (Arc::clone(&part.schema), part.steps.clone());
        let group = Group { codec: RowCodec::new(&types(&schema))?, schema, steps };
        let groups = reduced(
            &self.memory,
            arrange(&self.memory, keyed, "Regroup input"),
            "Regroup",
            move |_, values, output| {
                output.push((outcome_of(|| group.aggregate(values)), 1));
            },
        );
        Ok(groups.as_collection(|key, value| (key.to_vec(), value.to_vec())))
    }
}

impl Group {
    /// The row of a group's aggregates.
    fn aggregate(&self, values: &[(&[u8], Diff)]) -> Result<Vec<u8>, DataFusionError> {
        let rows: Vec<(&[u8], usize)> = values
            .iter()
            .filter(|(value, _)| !value.is_empty())
            .map(|(value, count)| Ok((&value[1..], usize::try_from(*count).map_err(|_| negative())?)))
            .collect::<Result<_, DataFusionError>>()?;
        let once = decode(&self.codec, &self.schema, rows.iter().map(|(row, _)| *row))?;
        let copies = match self.steps.iter().any(Step::counts_copies) {
            true if rows.iter().any(|(_, count)| *count > 1) => {
                let copied: Vec<&[u8]> =
                    rows.iter().flat_map(|(row, count)| std::iter::repeat_n(*row, *count)).collect();
                Some(decode(&self.codec, &self.schema, copied.into_iter())?)
            }
            _ => None,
        };
        let mut out = Vec::new();
        for step in &self.steps {
            let batch = if step.counts_copies() { copies.as_ref().unwrap_or(&once) } else { &once };
            let array = step.accumulate(batch)?.to_array()?;
            let array =
                if *array.data_type() == step.output { array } else { arrow::compute::cast(&array, &step.output)? };
            write_array_value(&mut out, array.as_ref(), 0)
                .map_err(|error| DataFusionError::External(Box::new(error)))?;
        }
        Ok(out)
    }
}

impl Step {
    /// Whether a row that is there twice is seen twice.
    fn counts_copies(&self) -> bool {
        !self.function.is_distinct() && !matches!(self.function.fun().name(), "min" | "max" | "bit_and" | "bit_or")
    }

    fn accumulate(&self, batch: &RecordBatch) -> Result<ScalarValue, DataFusionError> {
        let mut columns: Vec<ArrayRef> = batch.columns()[self.columns.clone()].to_vec();
        if let Some(filter) = self.filter {
            let mask = without_nulls(batch.column(filter).as_boolean());
            columns = columns
                .iter()
                .map(|column| arrow::compute::filter(column.as_ref(), &mask))
                .collect::<Result<_, _>>()?;
        }
        let order = self.function.order_bys();
        if !order.is_empty() {
            let first = columns.len() - order.len();
            let keys: Vec<_> = columns[first..]
                .iter()
                .zip(order)
                .map(|(values, key)| arrow::compute::SortColumn {
                    values: Arc::clone(values),
                    options: Some(key.options),
                })
                .collect();
            let indices = arrow::compute::lexsort_to_indices(&keys, None)?;
            columns = columns
                .iter()
                .map(|column| arrow::compute::take(column.as_ref(), &indices, None))
                .collect::<Result<_, _>>()?;
        }
        let mut accumulator = self.function.create_accumulator()?;
        accumulator.update_batch(&columns)?;
        accumulator.evaluate()
    }
}
