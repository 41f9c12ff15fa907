//! The rows of a COPY FROM STDIN as they come in: decoded, checked and kept until the client has sent the last.

use crate::control::short::VALUES_MAX;
use crate::error::AdapterError;
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema;
use committer::constraint::{Wording, not_null};
use committer::error::CommitError;
use committer::handle::{Handle, Run};
use datafusion::physical_expr::PhysicalExpr;
use engine::error::SqlError;
use ore::memory::{Reservation, Share};
use persist::Blobs;
use pgrepr::copy::CopyOptions;
use pgrepr::length::{LengthRule, fit_text};
use pgrepr::options::EncodeOptions;
use pgrepr::plain::plain_value;
use repr::row::write_datum;
use repr::sqlstate::SqlState;
use repr::{ColumnDesc, Datum, GlobalId, RelationDesc, Updates};
use sql::plan::CopyFromPlan;
use sql::plan::sequence::values_taken;
use sql_syntax::names::FullName;
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Bytes of rows that are put aside together.
const PART_BYTES: usize = 1 << 20;

/// Rows, and bytes of them, that are written together while more of them come, at the least: later half of what has come before them, so that
/// of a large load there are few files.
const RUN_ROWS: usize = 8 * 65_536;
const RUN_BYTES: usize = 128 << 20;
/// Runs that are written at once.
const RUNS_AT_ONCE: usize = 2;

/// A COPY that is receiving rows.
pub struct CopyIn {
    /// How lines are written.
    pub options: CopyOptions,
    /// The columns that a line has, in order.
    pub columns: Vec<ColumnDesc>,
    pub(crate) table: GlobalId,
    pub(crate) name: FullName,
    pub(crate) desc: Arc<RelationDesc>,
    /// For each column of the table: the field it comes from, or its default.
    sources: Vec<Source>,
    /// By the oids of sequences: how many values of them a row takes.
    pub(crate) takes: BTreeMap<u32, u64>,
    encode: EncodeOptions,
    /// Whether errors show rows.
    pub(crate) shows_rows: bool,
    /// Whether the table has conditions that may take long.
    pub(crate) has_long_checks: bool,
    /// Rows before those of `updates`, in parts: one that grew for long would be copied again and again, where others wait.
    parts: Vec<Updates>,
    updates: Updates,
    /// Of the parts.
    part_rows: usize,
    part_bytes: usize,
    /// Rows before those that are being written, and those before these that are.
    begun: VecDeque<Run>,
    written: Vec<(Vec<Updates>, Blobs)>,
    /// What the rows take of the memory.
    pub(crate) memory: Reservation,
    pub(crate) lines: Lines,
}

/// The line in which each row was. Few rows are not in the line after that of the row before.
#[derive(Default)]
pub(crate) struct Lines {
    /// Those rows, and their lines.
    jumps: Vec<(usize, u64)>,
    row_count: usize,
    last: u64,
}

impl Lines {
    fn push(&mut self, line: u64) {
        if self.row_count == 0 || line != self.last + 1 {
            self.jumps.push((self.row_count, line));
        }
        (self.last, self.row_count) = (line, self.row_count + 1);
    }

    pub(crate) fn of(&self, row: usize) -> u64 {
        let (start, line) = match self.jumps.partition_point(|(start, _)| *start <= row) {
            0 => (0, 1),
            after => self.jumps[after - 1],
        };
        line + (row - start) as u64
    }
}

/// Where a column comes from.
pub(crate) enum Source {
    /// A field of the row.
    Field(usize),
    /// Its DEFAULT.
    Default(Datum<'static>),
    /// A DEFAULT that gives another value for each row.
    Each(Arc<dyn PhysicalExpr>),
}

impl CopyIn {
    /// No rows yet, for columns that come from there and values that are written like this; errors show none.
    pub(crate) fn new(plan: &CopyFromPlan, sources: Vec<Source>, encode: EncodeOptions, memory: &Arc<Share>) -> CopyIn {
        CopyIn {
            options: plan.options.clone(),
            columns: plan.columns.iter().map(|column| plan.desc.columns[*column].clone()).collect(),
            table: plan.table,
            name: plan.name.clone(),
            desc: Arc::clone(&plan.desc),
            sources,
            takes: values_taken(plan.defaults.iter().map(|(_, default)| default)),
            encode,
            shows_rows: false,
            has_long_checks: false,
            parts: Vec::new(),
            updates: Updates::new(),
            part_rows: 0,
            part_bytes: 0,
            begun: VecDeque::new(),
            written: Vec::new(),
            memory: Reservation::empty(memory),
            lines: Lines::default(),
        }
    }

    /// The table's name, for messages.
    pub fn table_name(&self) -> &str {
        &self.name.item
    }

    /// Adds the row of line `line`, whose fields are texts.
    pub fn push_texts(&mut self, line: u64, fields: &[Option<Cow<'_, str>>]) -> Result<(), AdapterError> {
        self.push(line, fields, |column, text, encode| of_text(column, text, encode))
    }

    /// Adds the row of line `line`: fields, each made a value of its column by `decode`, whose errors come with the field as it is to
    /// be shown. Errors carry the line and the column as their context.
    pub fn push<F>(
        &mut self,
        line: u64,
        fields: &[Option<F>],
        decode: impl for<'a> Fn(&ColumnDesc, &'a F, &EncodeOptions) -> Taken<'a>,
    ) -> Result<(), AdapterError> {
        let (name, table) = (&self.name, &self.name.item);
        let context = |column: Option<&str>| match column {
            Some(column) => format!("COPY {table}, line {line}, column {column}"),
            None => format!("COPY {table}, line {line}"),
        };
        if fields.len() > self.columns.len() {
            let error = AdapterError::new(SqlState::BAD_COPY_FILE_FORMAT, "extra data after last expected column");
            return Err(error.in_context(context(None)));
        }
        if let Some(missing) = self.columns.get(fields.len()) {
            let message = format!("missing data for column \"{}\"", missing.name);
            return Err(AdapterError::new(SqlState::BAD_COPY_FILE_FORMAT, message).in_context(context(None)));
        }
        let (desc, sources, encode, shows_rows) = (&self.desc, &self.sources, &self.encode, self.shows_rows);
        self.updates.push_with(1, |out| {
            let (start, mut missing) = (out.len(), None);
            for (at, (column, source)) in desc.columns.iter().zip(sources).enumerate() {
                let parsed;
                let datum = match source {
                    Source::Default(datum) => datum,
                    Source::Each(default) => {
                        parsed = value_of(default.as_ref()).map_err(|error| error.in_context(context(None)))?;
                        &parsed
                    }
                    Source::Field(field) => {
                        parsed = match &fields[*field] {
                            None => Datum::Null,
                            Some(field) => decode(column, field, encode).map_err(|(error, shown)| {
                                let place = context(Some(&column.name));
                                error.in_context(match shown {
                                    Some(text) => format!("{place}: \"{text}\""),
                                    None => place,
                                })
                            })?,
                        };
                        &parsed
                    }
                };
                if datum.is_null() && !column.nullable {
                    missing = missing.or(Some(at));
                }
                write_datum(out, &column.data_type, datum)?;
            }
            let Some(missing) = missing else { return Ok(()) };
            let wording = Wording { table: name, options: encode, shows_rows: &|| shows_rows };
            Err(AdapterError::from(not_null(desc, missing, &out[start..], wording).in_context(context(None))))
        })?;
        self.lines.push(line);
        if self.updates.bytes() >= PART_BYTES {
            // They are there twice when they are committed.
            let taken = self.memory.try_grow(2 * self.updates.bytes());
            taken.map_err(|refused| AdapterError::from(SqlError::from(refused)).in_context(context(None)))?;
            let next = Updates::with_capacity(self.updates.len(), self.updates.bytes() + PART_BYTES / 16);
            let part = std::mem::replace(&mut self.updates, next);
            self.part_rows += part.len();
            self.part_bytes += part.bytes();
            self.parts.push(part);
        }
        Ok(())
    }

    /// Whether there are as many rows as are to be written together: the next part would be too much.
    pub(crate) fn has_run(&self) -> bool {
        let (rows, bytes) = (self.lines.row_count - self.updates.len(), self.memory.bytes() / 2);
        let (rows_before, bytes_before) = (rows - self.part_rows, bytes.saturating_sub(self.part_bytes));
        self.part_rows + self.part_rows / self.parts.len().max(1) > RUN_ROWS.max(rows_before / 2)
            || self.part_bytes > RUN_BYTES.max(bytes_before / 2)
            || !self.parts.is_empty() && ore::sometimes(5)
    }

    /// How many rows have come.
    pub fn row_count(&self) -> u64 {
        u64::try_from(self.lines.row_count).unwrap_or(u64::MAX)
    }

    /// Begins to write what has come, once what was begun before is through.
    pub(crate) async fn begin_run(&mut self, committer: &Handle) -> Result<(), CommitError> {
        while self.begun.len() >= RUNS_AT_ONCE {
            self.wait_for_run().await?;
        }
        (self.part_rows, self.part_bytes) = (0, 0);
        self.begun.push_back(committer.begin_run(self.table, std::mem::take(&mut self.parts)));
        Ok(())
    }

    async fn wait_for_run(&mut self) -> Result<(), CommitError> {
        let Some(first) = self.begun.pop_front() else { return Ok(()) };
        self.written.push(first.written().await?);
        Ok(())
    }

    /// Whether its rows are few enough, and quickly checked, for [`crate::session::Session::copy_in_finish`] where others wait.
    pub fn is_short(&self) -> bool {
        let has_few = self.parts.is_empty() && self.begun.is_empty() && self.written.is_empty();
        !self.has_long_checks && has_few && self.updates.len() * self.desc.arity() <= VALUES_MAX
    }

    /// All rows, and what is written of them: all or nothing.
    pub(crate) async fn rows(&mut self, committer: &Handle) -> Result<(Updates, Vec<Blobs>), CommitError> {
        if self.parts.is_empty() && self.begun.is_empty() && self.written.is_empty() {
            return Ok((std::mem::take(&mut self.updates), Vec::new()));
        }
        let bytes = self.memory.bytes() / 2 + self.updates.bytes();
        let mut all = Updates::with_capacity(self.lines.row_count, bytes);
        self.parts.push(std::mem::take(&mut self.updates));
        if self.begun.is_empty() && self.written.is_empty() {
            std::mem::take(&mut self.parts).iter().for_each(|part| all.extend(part));
            return Ok((all, Vec::new()));
        }
        let first = self.parts.len() / 2;
        for rest in [self.parts.split_off(first), std::mem::take(&mut self.parts)].into_iter().rev() {
            if rest.iter().any(|part| !part.is_empty()) {
                self.begun.push_back(committer.begin_run(self.table, rest));
            }
        }
        let mut blobs = Vec::new();
        loop {
            for (parts, written) in self.written.drain(..) {
                parts.iter().for_each(|part| all.extend(part));
                blobs.push(written);
            }
            if self.begun.is_empty() {
                return Ok((all, blobs));
            }
            self.wait_for_run().await?;
        }
    }
}

/// A value of a column, or what is wrong with it and how it is shown.
pub type Taken<'a> = Result<Datum<'a>, (AdapterError, Option<String>)>;

/// The value of a column whose text this is.
pub fn of_text<'a>(column: &ColumnDesc, text: &'a str, encode: &EncodeOptions) -> Taken<'a> {
    if let Some(value) = plain_value(&column.ty, text) {
        return Ok(value);
    }
    let fitted = fit_text(&column.ty, text, LengthRule::Assign);
    let decoded = fitted.and_then(|text| pgrepr::text::decode_text(&column.ty, &text, encode));
    decoded.map_err(|error| (error.into(), Some(text.to_string())))
}

/// The value of a compiled expression without columns.
pub(crate) fn value_of(expr: &dyn PhysicalExpr) -> Result<Datum<'static>, AdapterError> {
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let one_row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)
        .map_err(|error| AdapterError::internal(error.to_string()))?;
    let array = expr.evaluate(&one_row).and_then(|value| value.into_array(1)).map_err(SqlError::from)?;
    repr::datum::from_array(array.as_ref(), 0)
        .map(Datum::into_owned)
        .ok_or_else(|| AdapterError::internal(format!("a constant has type {}", array.data_type())))
}
