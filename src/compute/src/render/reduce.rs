//! Grouping: for each group whose rows change, its aggregates are computed again, unless totals are enough
//! ([`super::accumulate`]).
//!
//! A row is reduced to what the aggregates read of it before it is arranged, so that a group is its key and as many
//! different values as there are, each with a count. Aggregates for which copies do not matter (`min`), or for which the
//! count says all (`count`), see each value once; others see it as often as it is there.

use crate::render::accumulate::are_accumulable;
use crate::render::mfp::{NullKeys, RowPlan, contained, decode, types, without_nulls};
use crate::render::{Builder, Rows, arrange, outcome, reduced};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use compute_client::plan::lir::{Lir, Reduce, Stage};
use compute_client::protocol::KeyExpr;
use datafusion::common::ScalarValue;
use datafusion::error::DataFusionError;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{AggregateFunctionExpr, LoweredAggregate};
use repr::Diff;
use repr::row::{RowCodec, RowError, write_array_value};
use std::ops::Range;
use std::sync::Arc;

/// Marks a value that is a row; the marker of a group that is always there is an empty value.
const ROW: u8 = 1;

/// How an aggregate is computed from the columns that it reads.
#[derive(Clone)]
pub(super) struct Step {
    /// Its arguments, then what it is ordered by, among the value's columns.
    pub(super) columns: Range<usize>,
    /// The column of its FILTER.
    pub(super) filter: Option<usize>,
    pub(super) function: Arc<AggregateFunctionExpr>,
    kind: Kind,
    pub(super) output: DataType,
}

/// What the count of a value means to an aggregate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It is the result: `count`.
    Count,
    /// Nothing: `min`, `max`, `bool_and`, DISTINCT.
    Once,
    /// So many rows.
    Copies,
}

struct Group {
    codec: RowCodec,
    schema: SchemaRef,
    steps: Vec<Step>,
}

impl<'scope> Builder<'scope> {
    /// Renders a grouping.
    pub(super) fn reduce(&mut self, reduce: &Reduce) -> Result<Rows<'scope>, RowError> {
        let input = &reduce.input;
        let (stage, steps) = plan(input, &reduce.aggregates)?;
        let Stage::Project(exprs, schema) = &stage else { unreachable!("made as a projection") };
        // Keys are made of the rows as they come, next to the values: one projection of both.
        let key_fields = reduce.key.iter().enumerate().map(|(at, expr)| {
            let data_type = expr.data_type(&input.schema).map_err(unsupported)?;
            Ok(Field::new(format!("key {at}"), data_type, true))
        });
        let key_fields = key_fields.collect::<Result<Vec<_>, RowError>>()?;
        let all_exprs: Vec<Arc<dyn PhysicalExpr>> = exprs.iter().chain(&reduce.key).cloned().collect();
        let all_fields: Vec<Field> =
            schema.fields().iter().map(|field| field.as_ref().clone()).chain(key_fields).collect();
        let all_schema = Arc::new(Schema::new(all_fields));
        let width = exprs.len();
        let key: Vec<KeyExpr> = (0..reduce.key.len()).map(|at| KeyExpr::Column(width + at)).collect();
        let rows = self.rows(input)?;
        let stages = [Stage::Project(all_exprs, Arc::clone(&all_schema))];
        let keyed = self.keyed(rows, RowPlan::new(&input.schema, &stages, &key, NullKeys::Keep)?);
        let value_types = types(schema);
        let mut keyed = keyed.map(move |(key, row)| {
            // Without the key's columns, which come last.
            let mut rest = row.as_slice();
            for data_type in &value_types {
                repr::row::skip_datum(&mut rest, data_type);
            }
            let length = row.len() - rest.len();
            (key, [&[ROW], &row[..length]].concat())
        });
        if !reduce.always.is_empty() {
            let markers = reduce.always.iter().map(|(key, diff)| (key.to_vec(), diff)).collect();
            keyed = keyed.concat(self.constant(markers).map(|key| (key, Vec::new())));
        }
        if are_accumulable(&steps, schema) {
            return self.accumulate(keyed, schema, steps);
        }
        let group = Group { codec: RowCodec::new(&types(schema))?, schema: Arc::clone(schema), steps };
        let groups = reduced(arrange(keyed, "Reduce input"), "Reduce", move |_, values, output| {
            output.push((outcome(contained(|| group.aggregate(values))), 1));
        });
        let rows = groups.as_collection(|key, value| match value.split_first() {
            // Its key comes before its aggregates.
            Some((&tag, aggregates)) if tag == super::SUCCEEDED => [&[tag], key, aggregates].concat(),
            _ => value.to_vec(),
        });
        Ok(self.outcomes(rows))
    }
}

/// The projection to what the aggregates read, and how each finds it there.
fn plan(input: &Lir, aggregates: &[LoweredAggregate]) -> Result<(Stage, Vec<Step>), RowError> {
    let (mut exprs, mut fields, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    for aggregate in aggregates {
        let first = exprs.len();
        exprs.extend(aggregate.aggregate.expressions());
        exprs.extend(aggregate.order_bys.iter().map(|key| Arc::clone(&key.expr)));
        let columns = first..exprs.len();
        let filter = aggregate.filter.as_ref().map(|filter| {
            exprs.push(Arc::clone(filter));
            exprs.len() - 1
        });
        let function = Arc::clone(&aggregate.aggregate);
        let kind = match function.fun().name() {
            _ if function.is_distinct() => Kind::Once,
            "count" => Kind::Count,
            "min" | "max" | "bool_and" | "bool_or" | "bit_and" | "bit_or" => Kind::Once,
            _ => Kind::Copies,
        };
        let output = function.field().data_type().clone();
        steps.push(Step { columns, filter, function, kind, output });
    }
    for (at, expr) in exprs.iter().enumerate() {
        fields.push(Field::new(at.to_string(), expr.data_type(&input.schema).map_err(unsupported)?, true));
    }
    Ok((Stage::Project(exprs, Arc::new(Schema::new(fields))), steps))
}

fn unsupported(_: DataFusionError) -> RowError {
    RowError::UnsupportedType(DataType::Null)
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
        let copies = match self.steps.iter().any(|step| step.kind == Kind::Copies) {
            true if rows.iter().any(|(_, count)| *count > 1) => {
                let copied: Vec<&[u8]> =
                    rows.iter().flat_map(|(row, count)| std::iter::repeat_n(*row, *count)).collect();
                Some(decode(&self.codec, &self.schema, copied.into_iter())?)
            }
            _ => None,
        };
        let mut out = Vec::new();
        for step in &self.steps {
            let value = match step.kind {
                Kind::Count => step.count(&once, &rows)?,
                Kind::Once => step.accumulate(&once)?,
                Kind::Copies => step.accumulate(copies.as_ref().unwrap_or(&once))?,
            };
            let array = value.to_array()?;
            let array =
                if *array.data_type() == step.output { array } else { arrow::compute::cast(&array, &step.output)? };
            write_array_value(&mut out, array.as_ref(), 0)
                .map_err(|error| DataFusionError::External(Box::new(error)))?;
        }
        Ok(out)
    }
}

impl Step {
    fn count(&self, batch: &RecordBatch, rows: &[(&[u8], usize)]) -> Result<ScalarValue, DataFusionError> {
        let filter = self.filter.map(|column| batch.column(column).as_boolean());
        let counts = (0..rows.len()).filter(|at| {
            let passes = filter.is_none_or(|mask| mask.is_valid(*at) && mask.value(*at));
            passes && self.columns.clone().all(|column| batch.column(column).is_valid(*at))
        });
        let total: usize = counts.map(|at| rows[at].1).sum();
        Ok(ScalarValue::Int64(i64::try_from(total).ok()))
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

pub(super) fn negative() -> DataFusionError {
    let message = "a group has rows that were taken away more often than they were added";
    DataFusionError::External(Box::new(sql::error::SqlError::internal(message)))
}
