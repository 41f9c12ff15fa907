//! Evaluating the stages of a map/filter/project on a batch of rows.

use super::narrow::{self, Step};
use super::{Encoded, encode, evaluate_all, external, is_true, types};
use crate::render::multiply;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, SchemaRef};
use compute_client::plan::lir::Stage;
use compute_client::protocol::KeyExpr;
use datafusion::error::DataFusionError;
use repr::columns::ColumnDecoder;
use repr::row::{RowCodec, RowError};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The pieces of an evaluation over Arrow batches.
pub(super) struct Evaluation {
    input: ColumnDecoder,
    input_schema: SchemaRef,
    steps: Vec<Step>,
    /// Columns behind the last step that become parts of the row.
    computed: Vec<usize>,
    pub(super) output: RowCodec,
    /// Parts of the key that are no cuts, over the columns behind the last step.
    key: Vec<KeyExpr>,
}

/// What became of a batch of rows.
pub struct Evaluated {
    /// For each row, which row of the input it comes from.
    pub kept: Vec<usize>,
    /// The evaluated columns, a row for each.
    pub batch: RecordBatch,
    /// The parts of the keys that are no cuts.
    pub(super) key: Vec<ArrayRef>,
}

impl Evaluation {
    /// Evaluates what is needed for the `wanted` columns behind the last stage, of which some are encoded, and for the keys.
    pub(super) fn new(
        input: &SchemaRef,
        stages: &[Stage],
        wanted: &BTreeSet<usize>,
        encoded: &BTreeSet<usize>,
        output_types: &[DataType],
        key: &[&KeyExpr],
    ) -> Result<Evaluation, RowError> {
        let (decoded, steps) = narrow::narrow(stages, wanted);
        let key = key.iter().map(|key| match key {
            KeyExpr::Column(column) => KeyExpr::Column(narrow::place(*column, wanted)),
            KeyExpr::Expr(expr, ty) => KeyExpr::Expr(narrow::over(expr, wanted), ty.clone()),
        });
        let encoded_types: Vec<DataType> = encoded.iter().map(|at| output_types[*at].clone()).collect();
        Ok(Evaluation {
            input_schema: narrow::project(input, &decoded),
            input: ColumnDecoder::new(&types(input), decoded)?,
            steps,
            computed: encoded.iter().map(|at| narrow::place(*at, wanted)).collect(),
            output: RowCodec::new(&encoded_types)?,
            key: key.collect(),
        })
    }

    /// The positions of the rows that stay, the evaluated columns, and those of the key that are none of the input's.
    pub(super) fn run<'a>(&self, rows: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<Evaluated, DataFusionError> {
        let mut kept: Vec<usize> = (0..rows.len()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let columns = self.input.decode(rows).map_err(external)?;
        let mut batch = RecordBatch::try_new_with_options(Arc::clone(&self.input_schema), columns, &options)?;
        for step in &self.steps {
            match step {
                Step::Filter(predicate, columns) => {
                    let mask = is_true(predicate.as_ref(), &batch)?;
                    if columns.len() < batch.num_columns() {
                        batch = batch.project(columns)?;
                    }
                    if mask.true_count() < mask.len() {
                        let is_kept = kept.into_iter().zip(mask.iter()).filter(|(_, is)| *is == Some(true));
                        kept = is_kept.map(|(at, _)| at).collect();
                        batch = arrow::compute::filter_record_batch(&batch, &mask)?;
                    }
                }
                Step::Project(expressions, schema) => {
                    let columns = evaluate_all(expressions, &batch)?;
                    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                    batch = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?;
                }
                Step::Expand(rows, schema) => {
                    batch = multiply::expand(rows, schema, &batch)?;
                    kept = kept.repeat(rows.len());
                }
                Step::Unnest(lists, schema, columns) => {
                    let sources;
                    (batch, sources) = multiply::unnest(lists, schema, &batch)?;
                    kept = sources.values().iter().map(|at| kept[*at as usize]).collect();
                    batch = batch.project(columns)?;
                }
            }
        }
        let key = self.keys(&batch)?;
        Ok(Evaluated { kept, batch, key })
    }

    /// The encoded columns of evaluated rows.
    pub(super) fn encode(&self, batch: &RecordBatch) -> Result<Encoded, DataFusionError> {
        match self.computed.len() == batch.num_columns() {
            true => encode(&self.output, batch),
            false => encode(&self.output, &batch.project(&self.computed)?),
        }
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
