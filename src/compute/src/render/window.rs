//! Window functions: each partition whose rows change is computed again.

use crate::render::mfp::{NullKeys, contained, decode, evaluate_all, types};
use crate::render::{Builder, Rows, ScopeTime, outcome, reduced};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::SortColumn;
use arrow::datatypes::{DataType, SchemaRef};
use compute_client::plan::lir::Lir;
use compute_client::protocol::KeyExpr;
use datafusion::error::DataFusionError;
use datafusion::physical_expr::window::WindowExpr;
use repr::Diff;
use repr::row::{RowCodec, RowError};
use std::sync::Arc;

/// What is computed of a partition.
struct Partition {
    codec: RowCodec,
    schema: SchemaRef,
    /// All of them over the same order.
    functions: Vec<Arc<dyn WindowExpr>>,
    /// Their results.
    results: RowCodec,
}

impl<'scope, T: ScopeTime> Builder<'scope, T> {
    /// Renders window functions that have partition and order in common; their results come behind the input's columns.
    pub(super) fn window(
        &mut self,
        input: &Lir,
        functions: &[Arc<dyn WindowExpr>],
        schema: &SchemaRef,
    ) -> Result<Rows<'scope, T>, RowError> {
        let unsupported = |_| RowError::UnsupportedType(DataType::Null);
        let key = functions
            .first()
            .map_or(&[][..], |first| first.partition_by())
            .iter()
            .map(|expr| Ok(KeyExpr::Expr(Arc::clone(expr), expr.data_type(&input.schema).map_err(unsupported)?)))
            .collect::<Result<Vec<_>, RowError>>()?;
        let partitions = self.arranged_by(input, &key, NullKeys::Keep, "Window input")?;
        let partition = Partition {
            codec: RowCodec::new(&types(&input.schema))?,
            schema: Arc::clone(&input.schema),
            functions: functions.to_vec(),
            results: RowCodec::new(&types(schema)[input.schema.fields().len()..])?,
        };
        let results = reduced(&self.memory, partitions, "Window", move |_, values, output| {
            match contained(|| partition.evaluate(values)) {
                Ok(rows) => output.extend(rows),
                Err(error) => output.push((outcome(Err(error)), 1)),
            }
        });
        Ok(self.outcomes(results.as_collection(|_, value| value.to_vec())))
    }
}

impl Partition {
    /// The partition's rows with their results, each as an outcome with its number of copies.
    fn evaluate(&self, values: &[(&[u8], Diff)]) -> Result<Vec<(Vec<u8>, Diff)>, DataFusionError> {
        let mut rows = Vec::new();
        for (value, count) in values {
            let count = usize::try_from(*count).map_err(|_| crate::render::part::negative())?;
            rows.extend(std::iter::repeat_n(*value, count));
        }
        let batch = decode(&self.codec, &self.schema, rows.iter().copied())?;
        let (batch, rows) = self.ordered(batch, rows)?;
        let results = self
            .functions
            .iter()
            .zip(self.results.types())
            .map(|(function, ty)| {
                let array = function.evaluate(&batch)?;
                if array.data_type() == ty { Ok(array) } else { Ok(arrow::compute::cast(&array, ty)?) }
            })
            .collect::<Result<Vec<ArrayRef>, DataFusionError>>()?;
        let mut outcomes = Vec::with_capacity(rows.len());
        // In bulk: a result may be of a type that no column has, as the number of a row is.
        let results = self.results.encode(&results).map_err(|error| DataFusionError::External(Box::new(error)))?;
        for (at, row) in rows.into_iter().enumerate() {
            outcomes.push((outcome(Ok([row, results.row(at).data()].concat())), 1));
        }
        differential_dataflow::consolidation::consolidate(&mut outcomes);
        Ok(outcomes)
    }

    /// In the functions' order; rows that are equal in it come in the order of their bytes, in which they are.
    fn ordered<'a>(
        &self,
        batch: RecordBatch,
        rows: Vec<&'a [u8]>,
    ) -> Result<(RecordBatch, Vec<&'a [u8]>), DataFusionError> {
        let order = self.functions.first().map_or(&[][..], |first| first.order_by());
        if order.is_empty() {
            return Ok((batch, rows));
        }
        let exprs: Vec<_> = order.iter().map(|key| Arc::clone(&key.expr)).collect();
        let columns = evaluate_all(&exprs, &batch)?;
        let mut keys: Vec<SortColumn> = columns
            .into_iter()
            .zip(order)
            .map(|(values, key)| SortColumn { values, options: Some(key.options) })
            .collect();
        let positions = arrow::array::UInt64Array::from_iter_values(0..u64::try_from(rows.len()).unwrap_or(u64::MAX));
        keys.push(SortColumn { values: Arc::new(positions), options: None });
        let indices = arrow::compute::lexsort_to_indices(&keys, None)?;
        let rows: Vec<&[u8]> = indices.values().iter().map(|at| rows[*at as usize]).collect();
        // The batch may be without columns: then only the number of its rows counts.
        let columns = batch.columns().iter().map(|column| arrow::compute::take(column.as_ref(), &indices, None));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        Ok((RecordBatch::try_new_with_options(batch.schema(), columns, &options)?, rows))
    }
}
