//! The rows of a table whose columns come, go or get other types: each made of a stored one.
//!
//! A stored row is its columns' bytes one after the other, so what is kept of it is cut out. The DEFAULT of a new column is
//! evaluated once for all rows, or for each if it gives another value every time, as in Postgres. What a column of another type
//! becomes is evaluated over the stored row.
//!
//! Outside a block the rows are made while nobody may write to the table; so ALTER TABLE neither loses to writers nor misses one.
//! In a block the session does, from what the transaction sees, and COMMIT fails if the table was written meanwhile.

use crate::constraint::{TableConstraints, net_rows};
use crate::error::CommitError;
use crate::sequence::Unreserved;
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::DataType;
use arrow::row::Rows;
use datafusion::physical_expr::PhysicalExpr;
use engine::error::SqlError;
use engine::session::Position;
use ore::memory::Reservation;
use parking_lot::Mutex;
use persist::ShardSnapshot;
use repr::row::{RowCodec, split, write_datum};
use repr::sqlstate::SqlState;
use repr::{Datum, Diff, GlobalId, Updates};
use sql::sequence::SequenceParams;
use std::collections::HashMap;
use std::sync::Arc;

/// Rows that are made at once.
const ROWS_AT_ONCE: usize = 8_192;

/// How the rows of a table become others.
pub struct Rewriting {
    /// The table as it is.
    pub table: GlobalId,
    /// Its columns.
    before: Arc<TableConstraints>,
    columns: Vec<Column>,
    /// The sequences of which the committer has taken values for them.
    pub unreserved: Unreserved,
}

/// Where a column of the new rows comes from.
pub enum Column {
    /// The old row.
    Kept(usize),
    /// A value for all rows, encoded.
    Same(Vec<u8>),
    /// A value of this type for each row, of which it is made.
    Each(Arc<dyn PhysicalExpr>, DataType),
    /// The next value of a new sequence for each row, in this type.
    Numbered(SequenceParams, DataType, Mutex<Position>),
}

impl Rewriting {
    /// Makes the rows of a table, which has been like `before`, ones of these columns.
    pub fn new(
        table: GlobalId,
        before: Arc<TableConstraints>,
        columns: Vec<Column>,
        unreserved: Unreserved,
    ) -> Rewriting {
        Rewriting { table, before, columns, unreserved }
    }

    /// What becomes of the rows of `stored`, with `own` over them, in memory that is asked for. Errors: 53200.
    pub fn rows(
        &self,
        stored: Option<ShardSnapshot>,
        own: &Updates,
        memory: &mut Reservation,
    ) -> Result<Updates, CommitError> {
        let mut new = Updates::new();
        let mut own: HashMap<&[u8], Diff> = net_rows(own);
        for rows in stored.into_iter().flatten() {
            let rows = rows?;
            let counted = rows.iter().map(|(row, diff)| (row, diff + own.remove(row).unwrap_or(0)));
            self.push(&mut new, counted)?;
            // A list that grows is there twice for a moment.
            memory.cover(2 * new.memory()).map_err(SqlError::from)?;
        }
        self.push(&mut new, own.into_iter())?;
        Ok(new)
    }

    /// By the position of their columns: where new sequences stand after the rows that were made.
    pub fn ends(&self) -> Vec<(usize, Position)> {
        let end = |(at, column): (usize, &Column)| match column {
            Column::Numbered(_, _, position) => Some((at, *position.lock())),
            _ => None,
        };
        self.columns.iter().enumerate().filter_map(end).collect()
    }

    fn push<'r>(&self, new: &mut Updates, rows: impl Iterator<Item = (&'r [u8], Diff)>) -> Result<(), CommitError> {
        let rows = rows.filter(|(_, copies)| *copies > 0);
        if !self.columns.iter().any(|column| matches!(column, Column::Each(..) | Column::Numbered(..))) {
            for (row, copies) in rows {
                self.push_row(new, row, copies, &[], 0)?;
            }
            return Ok(());
        }
        // Copies of a row may become different rows.
        let each: Vec<&[u8]> =
            rows.flat_map(|(row, copies)| std::iter::repeat_n(row, usize::try_from(copies).unwrap_or(0))).collect();
        for chunk in each.chunks(ROWS_AT_ONCE) {
            let values = self.values(chunk)?;
            for (at, row) in chunk.iter().enumerate() {
                self.push_row(new, row, 1, &values, at)?;
            }
        }
        Ok(())
    }

    /// One row, with the values at `at` in the columns that are evaluated for each.
    fn push_row(
        &self,
        new: &mut Updates,
        row: &[u8],
        copies: Diff,
        values: &[Rows],
        at: usize,
    ) -> Result<(), CommitError> {
        let slices = split(row, &self.before.types);
        let mut values = values.iter();
        new.push_with(copies, |out| {
            for column in &self.columns {
                match column {
                    Column::Kept(from) => out.extend_from_slice(slices[*from]),
                    Column::Same(bytes) => out.extend_from_slice(bytes),
                    Column::Numbered(params, data_type, at) => {
                        let mut at = at.lock();
                        *at = params.next(*at).ok_or_else(|| {
                            let message = "a new column has more values than its sequence";
                            CommitError::new(SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED, message)
                        })?;
                        write_datum(out, data_type, &integer(at.last, data_type)?)?;
                    }
                    Column::Each(..) => {
                        let values = values.next().ok_or_else(|| CommitError::internal("a column has no values"))?;
                        out.extend_from_slice(values.row(at).as_ref());
                    }
                }
            }
            Ok(())
        })
    }

    /// Encoded values of each column that has one for each row.
    fn values(&self, rows: &[&[u8]]) -> Result<Vec<Rows>, CommitError> {
        let internal = |error: arrow::error::ArrowError| CommitError::internal(error.to_string());
        let count = rows.len();
        let stored = RowCodec::new(&self.before.types)?.decode(rows.iter().copied())?;
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let schema = Arc::clone(&self.before.desc.schema);
        let rows = RecordBatch::try_new_with_options(schema, stored, &options).map_err(internal)?;
        let evaluated = self.columns.iter().filter_map(|column| match column {
            Column::Each(expr, data_type) => Some((expr, data_type)),
            Column::Kept(_) | Column::Same(_) | Column::Numbered(..) => None,
        });
        evaluated
            .map(|(expr, data_type)| {
                let array = expr.evaluate(&rows).and_then(|value| value.into_array(count)).map_err(SqlError::from)?;
                // Only the spelling of a type may differ here (a view of strings, a time zone's name).
                let array = arrow::compute::cast(&array, data_type).map_err(internal)?;
                Ok(RowCodec::new(std::slice::from_ref(data_type))?.encode(&[array])?)
            })
            .collect()
    }
}

/// An integer as a value of a column of this type.
fn integer(value: i64, data_type: &DataType) -> Result<Datum<'static>, CommitError> {
    let beyond = |_| CommitError::internal("a sequence has values beyond its type");
    Ok(match data_type {
        DataType::Int16 => Datum::Int2(i16::try_from(value).map_err(beyond)?),
        DataType::Int32 => Datum::Int4(i32::try_from(value).map_err(beyond)?),
        _ => Datum::Int8(value),
    })
}
