//! Map, filter, project and key a batch of rows.
//!
//! The common index takes a table's rows as they are and is keyed by columns: then a key is a concatenation of slices of
//! the row and nothing is decoded. Everything else is decoded into an Arrow batch, evaluated with the same expressions
//! that the ad hoc engine uses, and encoded again. If a batch fails to evaluate, its rows are evaluated one by one, so
//! that only those that fail become errors.

use arrangement::spine::RowUpdate;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use compute_client::error::encode_error;
use compute_client::protocol::{IndexSpec, KeyExpr};
use datafusion::error::DataFusionError;
use datafusion::physical_expr::PhysicalExpr;
use repr::row::{RowCodec, RowError, is_key_exact, skip_datum, write_array_value, write_key_datum};
use repr::{Diff, Timestamp};
use std::sync::Arc;

/// One update of an index's input.
pub type InputUpdate = (Vec<u8>, Timestamp, Diff);

/// What happens to the rows of one index.
pub enum RowPlan {
    /// The row stays as it is; the key is made of these of its columns.
    Slice {
        /// The types of the row's columns.
        types: Vec<DataType>,
        /// The key's columns.
        key: Vec<usize>,
    },
    /// The row is decoded and evaluated.
    Evaluate(Box<Evaluation>),
}

/// The pieces of an evaluation over Arrow batches.
pub struct Evaluation {
    input: RowCodec,
    input_schema: SchemaRef,
    predicates: Vec<Arc<dyn PhysicalExpr>>,
    /// `None` leaves the input's columns as they are.
    projection: Option<(Vec<Arc<dyn PhysicalExpr>>, SchemaRef)>,
    output: RowCodec,
    key: Vec<KeyExpr>,
}

impl RowPlan {
    /// Chooses how an index's rows are made.
    pub fn new(spec: &IndexSpec) -> Result<RowPlan, RowError> {
        let input_types: Vec<DataType> =
            spec.table_schema.fields().iter().map(|field| field.data_type().clone()).collect();
        let columns: Option<Vec<usize>> = spec
            .key
            .iter()
            .map(|key| match key {
                KeyExpr::Column(column) if is_key_exact(&spec.row_types[*column]) => Some(*column),
                _ => None,
            })
            .collect();
        if let (None, Some(key)) = (&spec.mfp, columns) {
            return Ok(RowPlan::Slice { types: input_types, key });
        }
        let (predicates, projection) = match &spec.mfp {
            Some(mfp) => (mfp.predicates.clone(), Some((mfp.projection.clone(), Arc::clone(&mfp.schema)))),
            None => (Vec::new(), None),
        };
        Ok(RowPlan::Evaluate(Box::new(Evaluation {
            input: RowCodec::new(&input_types)?,
            input_schema: Arc::clone(&spec.table_schema),
            predicates,
            projection,
            output: RowCodec::new(&spec.row_types)?,
            key: spec.key.clone(),
        })))
    }

    /// Whether any row can become an error.
    pub fn can_fail(&self) -> bool {
        matches!(self, RowPlan::Evaluate(_))
    }

    /// Takes all updates out of `batch` and gives what becomes of each.
    pub fn apply(&self, batch: &mut Vec<InputUpdate>, mut give: impl FnMut(Result<RowUpdate, RowUpdate>)) {
        match self {
            RowPlan::Slice { types, key } => {
                for (row, time, diff) in batch.drain(..) {
                    give(Ok(((slice_key(&row, types, key), row), time, diff)));
                }
            }
            RowPlan::Evaluate(evaluation) => match evaluation.evaluate(batch, &mut give) {
                Ok(()) => batch.clear(),
                Err(_) => {
                    for update in batch.drain(..) {
                        let one = [update];
                        if let Err(error) = evaluation.evaluate(&one, &mut give) {
                            let [(_, time, diff)] = one;
                            // Under one key, so that one worker has them all.
                            give(Err(((Vec::new(), encode_error(error)), time, diff)));
                        }
                    }
                }
            },
        }
    }
}

impl Evaluation {
    /// Evaluates a batch; gives nothing unless all of it succeeds.
    fn evaluate(
        &self,
        updates: &[InputUpdate],
        give: &mut impl FnMut(Result<RowUpdate, RowUpdate>),
    ) -> Result<(), DataFusionError> {
        let external = |error: RowError| DataFusionError::External(Box::new(error));
        let columns = self.input.decode(updates.iter().map(|(row, _, _)| row.as_slice())).map_err(external)?;
        let mut batch = RecordBatch::try_new(Arc::clone(&self.input_schema), columns)?;
        let mut kept: Vec<usize> = (0..updates.len()).collect();
        for predicate in &self.predicates {
            let mask = predicate.evaluate(&batch)?.into_array(batch.num_rows())?;
            // NULL is not true.
            let mask = match mask.as_boolean() {
                mask if mask.null_count() == 0 => mask.clone(),
                mask => arrow::compute::prep_null_mask_filter(mask),
            };
            kept = kept.into_iter().enumerate().filter(|(at, _)| mask.value(*at)).map(|(_, index)| index).collect();
            batch = arrow::compute::filter_record_batch(&batch, &mask)?;
        }
        if let Some((expressions, schema)) = &self.projection {
            let columns = evaluate_all(expressions, &batch)?;
            batch = RecordBatch::try_new(Arc::clone(schema), columns)?;
        }
        let keys = self.keys(&batch)?;
        let rows = self.output.encode(batch.columns()).map_err(external)?;
        for (at, index) in kept.into_iter().enumerate() {
            let mut key = Vec::new();
            for column in &keys {
                write_key(&mut key, column.as_ref(), at).map_err(external)?;
            }
            let (_, time, diff) = &updates[index];
            give(Ok(((key, rows.row(at).as_ref().to_vec()), *time, *diff)));
        }
        Ok(())
    }

    fn keys(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>, DataFusionError> {
        self.key
            .iter()
            .map(|key| match key {
                KeyExpr::Column(column) => Ok(Arc::clone(batch.column(*column))),
                KeyExpr::Expr(expression, data_type) => {
                    let array = expression.evaluate(batch)?.into_array(batch.num_rows())?;
                    Ok(arrow::compute::cast(&array, data_type)?)
                }
            })
            .collect()
    }
}

/// Evaluates several expressions over one batch.
fn evaluate_all(expressions: &[Arc<dyn PhysicalExpr>], batch: &RecordBatch) -> Result<Vec<ArrayRef>, DataFusionError> {
    expressions.iter().map(|expression| expression.evaluate(batch)?.into_array(batch.num_rows())).collect()
}

fn write_key(key: &mut Vec<u8>, column: &dyn Array, at: usize) -> Result<(), RowError> {
    match column.data_type() {
        DataType::Float32 | DataType::Float64 => {
            let datum = repr::datum::from_array(column, at)
                .ok_or_else(|| RowError::UnsupportedType(column.data_type().clone()))?;
            write_key_datum(key, column.data_type(), &datum)
        }
        _ => write_array_value(key, column, at),
    }
}

/// Concatenates the bytes of some of a row's columns.
fn slice_key(row: &[u8], types: &[DataType], key: &[usize]) -> Vec<u8> {
    if let [0] = key {
        return skip_datum(&mut &*row, &types[0]).to_vec();
    }
    let mut slices = Vec::with_capacity(types.len());
    let mut rest = row;
    for data_type in types {
        slices.push(skip_datum(&mut rest, data_type));
    }
    let mut bytes = Vec::new();
    for column in key {
        bytes.extend_from_slice(slices[*column]);
    }
    bytes
}
