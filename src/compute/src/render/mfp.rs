//! Map, filter, project and key a batch of rows.
//!
//! The common index takes a table's rows as they are and is keyed by columns: then a key is a concatenation of slices of
//! the row and nothing is decoded. Everything else is decoded into an Arrow batch, evaluated with the same expressions
//! that the ad hoc engine uses, and encoded again. If a batch fails to evaluate, its rows are evaluated one by one, so
//! that only those that fail become errors.

use crate::render::multiply;
use arrangement::spine::RowUpdate;
use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, RecordBatch, RecordBatchOptions,
};
use arrow::datatypes::{DataType, SchemaRef, UInt8Type, UInt16Type, UInt64Type};
use compute_client::error::encode_error;
use compute_client::plan::lir::Stage;
use compute_client::protocol::KeyExpr;
use datafusion::error::DataFusionError;
use datafusion::physical_expr::PhysicalExpr;
use repr::Diff;
use repr::row::{RowCodec, RowError, is_key_exact, skip_datum, write_array_value, write_key_datum};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// One update of an index's input.
pub type InputUpdate<T> = (Vec<u8>, T, Diff);

/// What happens to rows on their way into an arrangement.
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
    stages: Vec<Stage>,
    output: RowCodec,
    key: Vec<KeyExpr>,
    null_keys: NullKeys,
}

/// What becomes of rows whose key has a NULL in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NullKeys {
    /// They are rows like others.
    Keep,
    /// They are left out: NULL equals nothing.
    Drop,
}

impl RowPlan {
    /// Chooses how rows of `input` become rows under keys.
    pub fn new(input: &SchemaRef, stages: &[Stage], key: &[KeyExpr], null_keys: NullKeys) -> Result<RowPlan, RowError> {
        let output = stages.iter().rev().find_map(Stage::schema);
        let (input_types, output_types) = (types(input), types(output.unwrap_or(input)));
        let columns: Option<Vec<usize>> = key
            .iter()
            .map(|key| match key {
                KeyExpr::Column(column) if is_key_exact(&output_types[*column]) => Some(*column),
                _ => None,
            })
            .collect();
        if let Some(key) = columns
            && stages.is_empty()
            && (null_keys == NullKeys::Keep || key.is_empty())
        {
            return Ok(RowPlan::Slice { types: input_types, key });
        }
        Ok(RowPlan::Evaluate(Box::new(Evaluation {
            input: RowCodec::new(&input_types)?,
            input_schema: Arc::clone(input),
            stages: stages.to_vec(),
            output: RowCodec::new(&output_types)?,
            key: key.to_vec(),
            null_keys,
        })))
    }

    /// Whether any row can become an error.
    pub fn can_fail(&self) -> bool {
        matches!(self, RowPlan::Evaluate(_))
    }

    /// Takes all updates out of `batch` and gives what becomes of each.
    pub fn apply<T: Clone>(
        &self,
        batch: &mut Vec<InputUpdate<T>>,
        mut give: impl FnMut(Result<RowUpdate<T>, RowUpdate<T>>),
    ) {
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
    fn evaluate<T: Clone>(
        &self,
        updates: &[InputUpdate<T>],
        give: &mut impl FnMut(Result<RowUpdate<T>, RowUpdate<T>>),
    ) -> Result<(), DataFusionError> {
        // Nothing is given before all of it is evaluated.
        let (kept, keys, rows) = contained(|| self.batch(updates))?;
        for (at, index) in kept.into_iter().enumerate() {
            if self.null_keys == NullKeys::Drop && keys.iter().any(|column| column.is_null(at)) {
                continue;
            }
            let mut key = Vec::new();
            for column in &keys {
                write_key(&mut key, column.as_ref(), at).map_err(external)?;
            }
            let (_, time, diff) = &updates[index];
            give(Ok(((key, rows.get(at).to_vec()), time.clone(), *diff)));
        }
        Ok(())
    }

    /// The positions of the rows that stay, their key columns, and what they become.
    fn batch<T>(&self, updates: &[InputUpdate<T>]) -> Result<(Vec<usize>, Vec<ArrayRef>, Encoded), DataFusionError> {
        let rows = updates.iter().map(|(row, _, _)| row.as_slice());
        let mut batch = decode(&self.input, &self.input_schema, rows)?;
        let mut kept: Vec<usize> = (0..updates.len()).collect();
        for stage in &self.stages {
            match stage {
                Stage::Filter(predicate) => {
                    let mask = is_true(predicate.as_ref(), &batch)?;
                    kept = kept
                        .into_iter()
                        .zip(mask.iter())
                        .filter(|(_, is)| *is == Some(true))
                        .map(|(at, _)| at)
                        .collect();
                    batch = arrow::compute::filter_record_batch(&batch, &mask)?;
                }
                Stage::Project(expressions, schema) => {
                    let columns = evaluate_all(expressions, &batch)?;
                    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                    batch = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?;
                }
                Stage::Expand(rows, schema) => {
                    batch = multiply::expand(rows, schema, &batch)?;
                    kept = kept.repeat(rows.len());
                }
                Stage::Unnest(lists, schema) => {
                    let sources;
                    (batch, sources) = multiply::unnest(lists, schema, &batch)?;
                    kept = sources.values().iter().map(|at| kept[*at as usize]).collect();
                }
            }
        }
        let keys = self.keys(&batch)?;
        let rows = encode(&self.output, &batch)?;
        Ok((kept, keys, rows))
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

/// The types of a schema's columns.
pub fn types(schema: &SchemaRef) -> Vec<DataType> {
    schema.fields().iter().map(|field| field.data_type().clone()).collect()
}

/// Rows as a batch.
pub fn decode<'a>(
    codec: &RowCodec,
    schema: &SchemaRef,
    rows: impl ExactSizeIterator<Item = &'a [u8]>,
) -> Result<RecordBatch, DataFusionError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let columns = if schema.fields().is_empty() { Vec::new() } else { codec.decode(rows).map_err(external)? };
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// The rows of a batch as bytes.
pub enum Encoded {
    /// Rows without columns.
    Empty,
    /// Any other.
    Rows(arrow::row::Rows),
}

impl Encoded {
    /// One of them.
    pub fn get(&self, at: usize) -> &[u8] {
        match self {
            Encoded::Empty => &[],
            Encoded::Rows(rows) => rows.row(at).data(),
        }
    }
}

/// A batch as rows.
pub fn encode(codec: &RowCodec, batch: &RecordBatch) -> Result<Encoded, DataFusionError> {
    if batch.num_columns() == 0 {
        return Ok(Encoded::Empty);
    }
    // Only the spelling of a type may differ here (a view of strings, a time zone's name).
    let columns = batch
        .columns()
        .iter()
        .zip(codec.types())
        .map(
            |(array, ty)| if array.data_type() == ty { Ok(Arc::clone(array)) } else { arrow::compute::cast(array, ty) },
        )
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Encoded::Rows(codec.encode(&columns).map_err(external)?))
}

/// For which rows a predicate is true: neither false nor NULL.
pub fn is_true(predicate: &dyn PhysicalExpr, batch: &RecordBatch) -> Result<BooleanArray, DataFusionError> {
    Ok(without_nulls(predicate.evaluate(batch)?.into_array(batch.num_rows())?.as_boolean()))
}

/// A mask in which NULL is false.
pub fn without_nulls(mask: &BooleanArray) -> BooleanArray {
    if mask.null_count() == 0 { mask.clone() } else { arrow::compute::prep_null_mask_filter(mask) }
}

/// Evaluates; a panic in the expression engine is an error of what was evaluated and not the end of the worker.
pub fn contained<T>(evaluate: impl FnOnce() -> Result<T, DataFusionError>) -> Result<T, DataFusionError> {
    catch_unwind(AssertUnwindSafe(evaluate)).unwrap_or_else(|_| {
        let error = sql::error::SqlError::internal("evaluating an expression of a maintained view panicked");
        Err(DataFusionError::External(Box::new(error)))
    })
}

fn external(error: RowError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Evaluates several expressions over one batch, each as an array of the type that it declares.
pub fn evaluate_all(
    expressions: &[Arc<dyn PhysicalExpr>],
    batch: &RecordBatch,
) -> Result<Vec<ArrayRef>, DataFusionError> {
    expressions.iter().map(|expression| expression.evaluate(batch)?.into_array(batch.num_rows())).collect()
}

/// Appends a column's value to a key.
pub fn write_key(key: &mut Vec<u8>, column: &dyn Array, at: usize) -> Result<(), RowError> {
    match column.data_type() {
        DataType::Float32 | DataType::Float64 => {
            let datum = repr::datum::from_array(column, at)
                .ok_or_else(|| RowError::UnsupportedType(column.data_type().clone()))?;
            write_key_datum(key, column.data_type(), &datum)
        }
        // No table has these types: the number of a row is of such a type until it is cast, and so is that of a grouping set.
        DataType::UInt8 => write_unsigned(key, column.as_primitive::<UInt8Type>(), at, |value| value.to_be_bytes()),
        DataType::UInt16 => write_unsigned(key, column.as_primitive::<UInt16Type>(), at, |value| value.to_be_bytes()),
        DataType::UInt64 => write_unsigned(key, column.as_primitive::<UInt64Type>(), at, |value| value.to_be_bytes()),
        _ => write_array_value(key, column, at),
    }
}

fn write_unsigned<T: ArrowPrimitiveType, const N: usize>(
    key: &mut Vec<u8>,
    column: &PrimitiveArray<T>,
    at: usize,
    bytes: fn(T::Native) -> [u8; N],
) -> Result<(), RowError> {
    key.push(u8::from(column.is_valid(at)));
    key.extend(if column.is_valid(at) { bytes(column.value(at)) } else { [0; N] });
    Ok(())
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
