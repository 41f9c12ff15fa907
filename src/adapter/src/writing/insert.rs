//! INSERT: rows from expressions or from a query, checked, encoded, committed.
//!
//! The common INSERT has a constant or a parameter in every place: its row is encoded straight from the bound values. Any
//! other expression is evaluated by the engine over one empty row.

use crate::description::RowDesc;
use crate::error::AdapterError;
use crate::reading::select::{bind, collect};
use crate::response::{Response, Rows, RowsTag, Tag};
use crate::session::{Autocommit, Session};
use crate::transaction::{RETRIES_MAX, conflict};
use crate::writing::copy_in::value_of;
use crate::writing::locking::Looks;
use crate::writing::write::WriteTarget;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema};
use committer::constraint::{Wording, not_null};
use committer::expectations::Expectation;
use committer::request::Committed;
use compute_client::peek::{Bound, bind as bind_expr};
use datafusion::common::DFSchema;
use datafusion::logical_expr::Expr;
use engine::error::SqlError;
use engine::session::Interrupts;
use engine::temporal::query_reads_now;
use engine::{SessionInfo, value};
use ore::memory::Reservation;
use repr::row::{RowCodec, write_datum};
use repr::{ColumnDesc, Datum, GlobalId, RelationDesc, Updates};
use sql::plan::{InsertPlan, InsertSource, Returning};
use std::sync::Arc;

impl Session {
    /// Runs an INSERT.
    pub(crate) async fn insert(
        &mut self,
        plan: &InsertPlan,
        desc: Option<&Arc<RowDesc>>,
        params: Bound<'_>,
        autocommit: Autocommit,
    ) -> Result<Response, AdapterError> {
        if let InsertSource::Query(query) = &plan.source
            && query_reads_now(query)
        {
            self.come_to_now().await?;
        }
        if plan.on_conflict.as_ref().is_some_and(|on| on.update.is_some()) {
            // Else rows are looked up by an index.
            self.stay_if(!self.reads_own_writes(&[plan.table]) && self.transaction.staged().is_none())?;
        }
        let (read_before, locked_before) = (self.transaction.reads().len(), self.lock_count());
        let target = |arbiters| {
            let (table, name, desc) = (plan.table, &plan.name, &plan.desc);
            WriteTarget { table, name, desc, arbiters, is_followed: true, locked_before, written: Vec::new() }
        };
        for _ in 0..RETRIES_MAX {
            // What is read anew need not be what it was.
            self.transaction.reads().truncate(read_before);
            self.reserve(&plan.takes, 1).await?;
            let mut memory = Reservation::empty(&self.shared.memory);
            let (mut updates, mut expectations) = match &plan.source {
                InsertSource::Values { rows } => (self.value_rows(plan, rows, params)?, Vec::new()),
                InsertSource::Query(query) => {
                    let turn = self.entered(query).await?;
                    let read_ts = self.read_ts_for(&plan.depends_on).await?;
                    let query = self.with_own_writes(bind(query, params)?, &plan.depends_on)?;
                    let reading = self.query(query, read_ts).within(turn).run();
                    let batches = self.interrupt().guard(async { collect(reading.await?).await }).await??;
                    let mut updates = Updates::new();
                    let shows = || self.may_select(plan.table);
                    for batch in &batches {
                        push_batch(&mut updates, batch.columns(), 1, &plan.desc, self.wording(&plan.name, &shows))?;
                        // They are there twice while they grow.
                        memory.cover(2 * updates.bytes()).map_err(SqlError::from)?;
                    }
                    (updates, expectations(&plan.depends_on, read_ts))
                }
            };
            let mut count = u64::try_from(updates.len()).unwrap_or(u64::MAX);
            self.reserve(&plan.row_takes, count).await?;
            let mut arbiters: &[u32] = &[];
            if let Some(on) = &plan.on_conflict {
                let (constraints, locked) = (self.constraints_of(plan.table, &plan.name)?, self.lock_count());
                self.lock_touched(plan.table, locked_before, &constraints, &updates, Looks::Later).await?;
                let resolved = self.resolve_conflicts(plan, on, &updates, params).await?;
                self.unlock_untouched(locked, plan.table, &constraints, &resolved.updates);
                expectations.extend(resolved.expectations);
                (updates, count, arbiters) = (resolved.updates, resolved.count, &on.arbiters);
            }
            let returned = self.returning(plan.returning.as_ref(), &plan.desc, (&updates, Vec::new()), params)?;
            if let Committed::Conflict = self.write(target(arbiters), updates, expectations, autocommit).await? {
                continue;
            }
            return Ok(answer(returned, desc, RowsTag::Insert, Tag::Counted("INSERT 0", count)));
        }
        Err(conflict())
    }

    fn value_rows(&self, plan: &InsertPlan, rows: &[Vec<Expr>], params: Bound<'_>) -> Result<Updates, AdapterError> {
        let mut updates = Updates::new();
        let (mut info, interrupt) = (None, self.interrupt());
        for row in rows {
            interrupt.check()?;
            updates.push_with(1, |out| {
                let (start, mut missing) = (out.len(), None);
                for (at, (column, expr)) in plan.desc.columns.iter().zip(row).enumerate() {
                    let computed;
                    let datum = match direct(expr, &column.data_type, params) {
                        Some(datum) => datum,
                        None => {
                            let info = info.get_or_insert_with(|| self.info(self.shared.oracle.known_ts()));
                            computed = self.evaluate_constant(expr, params, info)?;
                            &computed
                        }
                    };
                    if datum.is_null() && !column.nullable {
                        missing = missing.or(Some(at));
                    }
                    write_datum(out, &column.data_type, datum)?;
                }
                let Some(missing) = missing else { return Ok(()) };
                let shows = || self.may_select(plan.table);
                Err(AdapterError::from(not_null(&plan.desc, missing, &out[start..], self.wording(&plan.name, &shows))))
            })?;
        }
        Ok(updates)
    }

    /// The value of an expression without columns.
    pub(crate) fn evaluate_constant(
        &self,
        expr: &Expr,
        params: Bound<'_>,
        info: &SessionInfo,
    ) -> Result<Datum<'static>, AdapterError> {
        if let Expr::Literal(scalar, _) = expr {
            return Ok(value::from_scalar(scalar)?);
        }
        let bound = bind_expr(expr.clone(), params)?;
        let physical = self.shared.engine.create_physical_expr(&bound, &DFSchema::empty(), info)?;
        value_of(physical.as_ref())
    }

    /// RETURNING over the rows that `updates` add, or remove if it adds none, each with what was found beside it.
    pub(crate) fn returning(
        &self,
        returning: Option<&Returning>,
        desc: &RelationDesc,
        (updates, others): (&Updates, Vec<ArrayRef>),
        params: Bound<'_>,
    ) -> Result<Option<Vec<RecordBatch>>, AdapterError> {
        let Some(returning) = returning else { return Ok(None) };
        let adds = updates.iter().any(|(_, diff)| diff > 0);
        let rows: Vec<&[u8]> = updates.iter().filter(|(_, diff)| (*diff > 0) == adds).map(|(row, _)| row).collect();
        let types: Vec<DataType> = desc.columns.iter().map(|column| column.data_type.clone()).collect();
        let internal = |error: &dyn std::fmt::Display| AdapterError::internal(error.to_string());
        let count = rows.len();
        let mut columns = RowCodec::new(&types)?.decode(rows)?;
        let fields = &returning.schema.fields()[columns.len()..];
        for (column, field) in others.iter().zip(fields) {
            columns.push(cast(column, field.data_type()).map_err(|error| internal(&error))?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let schema = returning.schema.inner();
        let batch = match count {
            // Of no row there are no columns of other relations.
            0 => RecordBatch::new_empty(Arc::clone(schema)),
            _ => RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
                .map_err(|error| internal(&error))?,
        };
        let info = self.info(self.shared.oracle.known_ts());
        let outputs = returning
            .exprs
            .iter()
            .map(|expr| {
                let bound = bind_expr(expr.clone(), params)?;
                let physical = self.shared.engine.create_physical_expr(&bound, &returning.schema, &info)?;
                let evaluated = physical.evaluate(&batch).and_then(|value| value.into_array(count));
                Ok(evaluated.map_err(SqlError::from)?)
            })
            .collect::<Result<Vec<ArrayRef>, AdapterError>>()?;
        let fields: Vec<_> = returning
            .desc
            .schema
            .fields()
            .iter()
            .zip(&outputs)
            .map(|(field, array)| field.as_ref().clone().with_data_type(array.data_type().clone()).with_nullable(true))
            .collect();
        let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), outputs, &options)
            .map_err(|error| internal(&error))?;
        Ok(Some(vec![batch]))
    }
}

/// What was read at `read_ts` and must not have changed.
pub(crate) fn expectations(collections: &[GlobalId], read_ts: repr::Timestamp) -> Vec<Expectation> {
    let tables = collections.iter().filter(|id| matches!(id, GlobalId::User(_)));
    tables.map(|table| Expectation { table: *table, read_ts, rows: None }).collect()
}

/// Rows that were asked for with RETURNING, or the tag.
pub(crate) fn answer(
    returned: Option<Vec<RecordBatch>>,
    desc: Option<&Arc<RowDesc>>,
    rows_tag: RowsTag,
    tag: Tag,
) -> Response {
    match (returned, desc) {
        (Some(batches), Some(desc)) => Response::rows(Arc::clone(desc), Rows::ready(batches), rows_tag),
        _ => Response::Complete(tag),
    }
}

/// Encodes the rows of a batch, each with multiplicity `diff`. Error 23502.
pub(crate) fn push_batch(
    updates: &mut Updates,
    columns: &[ArrayRef],
    diff: repr::Diff,
    desc: &RelationDesc,
    wording: Wording<'_>,
) -> Result<(), AdapterError> {
    let before = updates.len();
    push_unchecked(updates, columns, diff, desc)?;
    let of_column = |(at, (column, array)): (usize, (&ColumnDesc, &ArrayRef))| {
        let row = if column.nullable { None } else { array.nulls().and_then(|nulls| nulls.iter().position(|v| !v)) };
        row.map(|row| (row, at))
    };
    match desc.columns.iter().zip(columns).enumerate().filter_map(of_column).min() {
        None => Ok(()),
        Some((row, column)) => Err(not_null(desc, column, updates.row(before + row), wording).into()),
    }
}

/// The same without a look at NOT NULL.
pub(crate) fn push_unchecked(
    updates: &mut Updates,
    columns: &[ArrayRef],
    diff: repr::Diff,
    desc: &RelationDesc,
) -> Result<(), AdapterError> {
    let types: Vec<DataType> = desc.columns.iter().map(|column| column.data_type.clone()).collect();
    let columns = columns
        .iter()
        .zip(&types)
        .map(|(array, data_type)| match array.data_type() == data_type {
            true => Ok(Arc::clone(array)),
            // Only the spelling of a type may differ here (a view of strings, a time zone's name).
            false => cast(array, data_type),
        })
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| AdapterError::internal(error.to_string()))?;
    let rows = RowCodec::new(&types)?.encode(&columns)?;
    for row in &rows {
        updates.push(row.as_ref(), diff);
    }
    Ok(())
}

/// A constant or parameter that is a value of the column as it stands.
fn direct<'a>(expr: &Expr, data_type: &DataType, params: Bound<'a>) -> Option<&'a Datum<'a>> {
    let Expr::Placeholder(placeholder) = expr else { return None };
    let position: usize = placeholder.id.strip_prefix('$')?.parse().ok()?;
    let position = position.checked_sub(1)?;
    (params.types.get(position)? == data_type).then(|| &params.values[position])
}
