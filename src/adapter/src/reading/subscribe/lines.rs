//! The lines of a subscription's result: what happened at a time, in the form that was asked for.

use super::BATCH_LINES;
use crate::error::AdapterError;
use arrow::array::{ArrayRef, BooleanArray, Decimal128Array, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::{SortColumn as ArrowSortColumn, SortOptions, lexsort_to_indices};
use arrow::datatypes::{DataType, SchemaRef};
use repr::row::{RowCodec, RowError, split, write_datum};
use repr::{Datum, Diff, Timestamp, Updates};
use sql::plan::{EnvelopePlan, Keyed, ReadPlan, SortColumn, SubscribePlan};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Lines, gathered into batches.
pub(super) struct Lines {
    pub(super) envelope: EnvelopePlan,
    schema: SchemaRef,
    has_progress: bool,
    /// The types of the query's rows.
    types: Vec<DataType>,
    /// Of the result's columns after those of the subscription itself.
    codec: RowCodec,
    /// NULLs for all of them.
    nulls: Vec<u8>,
    /// NULLs for the columns of a row that are not its key's.
    value_nulls: Vec<u8>,
    pending: Vec<Line>,
}

/// One line.
struct Line {
    ts: Timestamp,
    /// `mz_diff` or `mz_state`; none in a line that only tells the progress.
    what: Option<What>,
    /// The columns, encoded one after the other.
    row: Vec<u8>,
}

#[derive(Clone, Copy)]
enum What {
    Diff(Diff),
    State(&'static str),
}

impl Lines {
    pub(super) fn new(plan: &ReadPlan, subscribe: &SubscribePlan) -> Result<Lines, AdapterError> {
        let own = if subscribe.progress { 3 } else { 2 };
        let of = |fields: &arrow::datatypes::Fields, skip: usize| -> Vec<DataType> {
            fields.iter().skip(skip).map(|field| field.data_type().clone()).collect()
        };
        let (types, result) = (of(plan.select.desc.schema.fields(), 0), of(plan.desc.schema.fields(), own));
        let value: Vec<DataType> = match &subscribe.envelope {
            EnvelopePlan::Upsert(keyed) | EnvelopePlan::Debezium(keyed) => {
                keyed.value.iter().map(|at| types[*at].clone()).collect()
            }
            EnvelopePlan::Diff | EnvelopePlan::Within(_) => Vec::new(),
        };
        Ok(Lines {
            envelope: subscribe.envelope.clone(),
            schema: Arc::clone(&plan.desc.schema),
            has_progress: subscribe.progress,
            types,
            codec: RowCodec::new(&result)?,
            nulls: nulls(&result)?,
            value_nulls: nulls(&value)?,
            pending: Vec::new(),
        })
    }

    /// Says that nothing below `ts` comes any more.
    pub(super) fn progress(&mut self, ts: Timestamp) {
        self.pending.push(Line { ts, what: None, row: self.nulls.clone() });
    }

    /// All changes of one time.
    pub(super) fn rows(&mut self, ts: Timestamp, rows: &Updates) -> Result<(), AdapterError> {
        match &self.envelope {
            EnvelopePlan::Diff => {
                let line = |(row, diff): (&[u8], Diff)| Line { ts, what: Some(What::Diff(diff)), row: row.to_vec() };
                self.pending.extend(rows.iter().map(line));
            }
            EnvelopePlan::Within(order) => {
                let order = order.clone();
                for at in self.sorted(rows, &order)? {
                    let (row, diff) = rows.get(at);
                    self.pending.push(Line { ts, what: Some(What::Diff(diff)), row: row.to_vec() });
                }
            }
            EnvelopePlan::Upsert(keyed) | EnvelopePlan::Debezium(keyed) => {
                let is_upsert = matches!(self.envelope, EnvelopePlan::Upsert(_));
                let lines = by_key(rows, keyed, &self.types).into_iter().map(|(key, change)| {
                    let (state, row) = change.line(&key, is_upsert, &self.value_nulls);
                    Line { ts, what: Some(What::State(state)), row }
                });
                self.pending.extend(lines);
            }
        }
        Ok(())
    }

    /// The positions of rows in an order.
    fn sorted(&self, rows: &Updates, order: &[(SortColumn, SortOptions)]) -> Result<Vec<usize>, AdapterError> {
        let internal = |error: arrow::error::ArrowError| AdapterError::internal(error.to_string());
        let columns = self.codec.decode(rows.iter().map(|(row, _)| row))?;
        let diffs: ArrayRef = Arc::new(Int64Array::from(rows.diffs().to_vec()));
        let by = |(column, options): &(SortColumn, SortOptions)| ArrowSortColumn {
            values: match column {
                SortColumn::Diff => Arc::clone(&diffs),
                SortColumn::Row(at) => Arc::clone(&columns[*at]),
            },
            options: Some(*options),
        };
        let by: Vec<ArrowSortColumn> = order.iter().map(by).collect();
        let indices = lexsort_to_indices(&by, None).map_err(internal)?;
        Ok(indices.values().iter().map(|at| *at as usize).collect())
    }

    /// Makes batches of the lines, of the last as well if `all`: otherwise some are left, so that the last batch is known to be that.
    pub(super) fn flush(&mut self, batches: &mut VecDeque<RecordBatch>, all: bool) -> Result<(), AdapterError> {
        let whole = self.pending.len().saturating_sub(1) / BATCH_LINES * BATCH_LINES;
        let lines = match all {
            true => std::mem::take(&mut self.pending),
            false => self.pending.drain(..whole).collect(),
        };
        for lines in lines.chunks(BATCH_LINES) {
            batches.push_back(self.batch(lines)?);
        }
        Ok(())
    }

    fn batch(&self, lines: &[Line]) -> Result<RecordBatch, AdapterError> {
        let times = lines.iter().map(|line| i128::from(line.ts));
        let times = Decimal128Array::from_iter_values(times).with_data_type(self.schema.field(0).data_type().clone());
        let mut columns: Vec<ArrayRef> = vec![Arc::new(times)];
        if self.has_progress {
            columns.push(Arc::new(BooleanArray::from_iter(lines.iter().map(|line| Some(line.what.is_none())))));
        }
        let diff = |line: &Line| match line.what {
            Some(What::Diff(diff)) => Some(diff),
            _ => None,
        };
        let state = |line: &Line| match line.what {
            Some(What::State(state)) => Some(state),
            _ => None,
        };
        columns.push(match &self.envelope {
            EnvelopePlan::Diff | EnvelopePlan::Within(_) => Arc::new(Int64Array::from_iter(lines.iter().map(diff))),
            _ => Arc::new(StringViewArray::from_iter(lines.iter().map(state))),
        });
        columns.extend(self.codec.decode(lines.iter().map(|line| line.row.as_slice()))?);
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .map_err(|error| AdapterError::internal(error.to_string()))
    }
}

/// What happened under one key at one time.
#[derive(Default)]
struct Change {
    before: Option<Vec<u8>>,
    after: Option<Vec<u8>>,
    /// More than one row before or after.
    is_violation: bool,
}

impl Change {
    /// The state and the encoded columns: key and value, or key, value before and value after.
    fn line(&self, key: &[u8], is_upsert: bool, nulls: &[u8]) -> (&'static str, Vec<u8>) {
        let value = |value: &Option<Vec<u8>>| match value {
            Some(value) if !self.is_violation => value.clone(),
            _ => nulls.to_vec(),
        };
        let state = match (&self.before, &self.after) {
            _ if self.is_violation => "key_violation",
            (_, Some(_)) if is_upsert => "upsert",
            (Some(_), Some(_)) => "upsert",
            (None, Some(_)) => "insert",
            _ => "delete",
        };
        let row = match is_upsert {
            true => [key, &value(&self.after)].concat(),
            false => [key, &value(&self.before), &value(&self.after)].concat(),
        };
        (state, row)
    }
}

/// The changes of one time by key, which and whose rows are encoded.
fn by_key(rows: &Updates, keyed: &Keyed, types: &[DataType]) -> BTreeMap<Vec<u8>, Change> {
    let mut changes: BTreeMap<Vec<u8>, Change> = BTreeMap::new();
    for (row, diff) in rows.iter() {
        let slices = split(row, types);
        let of = |columns: &[usize]| columns.iter().map(|at| slices[*at]).collect::<Vec<_>>().concat();
        let change = changes.entry(of(&keyed.key)).or_default();
        let side = if diff > 0 { &mut change.after } else { &mut change.before };
        change.is_violation |= diff.abs() > 1 || side.is_some();
        *side = Some(of(&keyed.value));
    }
    changes
}

/// A NULL of each type, encoded.
fn nulls(types: &[DataType]) -> Result<Vec<u8>, RowError> {
    let mut row = Vec::new();
    types.iter().try_for_each(|data_type| write_datum(&mut row, data_type, &Datum::Null))?;
    Ok(row)
}
