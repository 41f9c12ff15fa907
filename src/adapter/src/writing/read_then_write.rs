//! UPDATE, DELETE and TRUNCATE: read at the latest time, then write on the condition that nothing has changed.
//!
//! 1. Lock the rows that are free, if they are looked up by the table's key. A lone one that others change is waited for.
//! 2. Read them, by an index if one serves, at a timestamp of the oracle.
//! 3. Old rows become removals, new ones additions.
//! 4. Lock the rows that were found. If that took waiting, or others may have changed them before, begin again.
//! 5. Commit, unless what was read has changed since: then begin again.
//!
//! A statement that finds no row commits nothing; it has been linearized by its read.

use crate::description::RowDesc;
use crate::error::AdapterError;
use crate::locks::Strength;
use crate::plan_cache::ReadThenWriteExec;
use crate::response::{Chunk, Response, RowsTag, Tag};
use crate::session::{Autocommit, Session};
use crate::status::Status;
use crate::transaction::{RETRIES_MAX, conflict};
use crate::writing::insert::{answer, expectations, push_batch, push_unchecked};
use crate::writing::write::WriteTarget;
use arrow::array::ArrayRef;
use arrow::compute::concat;
use arrow::datatypes::DataType;
use bugs::Bug;
use catalog::transact::{self, Op};
use committer::constraint::{Wording, not_null};
use committer::expectations::KeyRange;
use committer::request::Committed;
use compute_client::peek::{Bound, Looked};
use compute_client::plan::PeekPlan;
use engine::error::SqlError;
use ore::memory::Reservation;
use repr::row::split;
use repr::sqlstate::SqlState;
use repr::{ColumnDesc, Timestamp, Updates};
use sql::plan::{ReadThenWriteKind, ReadThenWritePlan, SelectPlan, TruncatePlan};
use std::sync::Arc;

/// Rows that are changed where others wait; found to be more, they are changed elsewhere.
const SMALL_CHANGE: u64 = 1_000;

impl Session {
    /// Runs an UPDATE, DELETE or TRUNCATE.
    pub(crate) async fn read_then_write(
        &mut self,
        exec: &ReadThenWriteExec,
        desc: Option<&Arc<RowDesc>>,
        params: Bound<'_>,
        autocommit: Autocommit,
    ) -> Result<Response, AdapterError> {
        let ReadThenWriteExec { plan, select, reads_now } = exec;
        if *reads_now {
            self.come_to_now().await?;
        }
        let locked_before = self.lock_count();
        let mut locked = 0;
        if let Some(peek) = &select.peek {
            let constraints = self.constraints_of(plan.table, &plan.name)?;
            let strength = match plan.kind {
                ReadThenWriteKind::Update => Strength::NoKeyUpdate,
                ReadThenWriteKind::Delete | ReadThenWriteKind::Truncate => Strength::Update,
            };
            locked = self.lock_looked_up(plan.table, &constraints, peek, params, strength).await?;
        }
        let read_before = self.transaction.reads().len();
        let collections = self.with_changed(&plan.depends_on, plan.table);
        for attempt in 0..RETRIES_MAX {
            let mut read_ts = self.time_to_write(&collections).await?;
            if attempt == 0 && bugs::is(Bug::EmptyUpdateIsStale) {
                read_ts -= 50_000;
            }
            let (updates, count, others, _memory) = self.changed_rows(exec, params, read_ts).await?;
            // What was locked and is not found, or not any more, is others' again.
            if updates.is_empty() {
                self.unlock_after(locked_before);
            } else if attempt > 0 || u64::try_from(locked).unwrap_or(u64::MAX) > count {
                let constraints = self.constraints_of(plan.table, &plan.name)?;
                self.unlock_untouched(locked_before, plan.table, &constraints, &updates);
            }
            let returned = self.returning(plan.returning.as_ref(), &plan.desc, (&updates, others), params)?;
            let mut expectations = expectations(&plan.depends_on, read_ts);
            if let ([expectation], Some(peek)) = (expectations.as_mut_slice(), &select.peek)
                && expectation.table == plan.table
            {
                expectation.rows = looked_up(peek, params);
            }
            let (table, name) = (plan.table, &plan.name);
            // Whatever refers to a table is truncated together with it.
            let is_followed = plan.kind != ReadThenWriteKind::Truncate;
            let target = WriteTarget {
                table,
                name,
                desc: &plan.desc,
                arbiters: &[],
                is_followed,
                locked_before,
                written: Vec::new(),
            };
            if let Committed::Conflict = self.write(target, updates, expectations, autocommit).await? {
                // What is read anew need not be what it was.
                self.transaction.reads().truncate(read_before);
                continue;
            }
            let (rows_tag, tag) = match plan.kind {
                ReadThenWriteKind::Update => (RowsTag::Update, Tag::Counted("UPDATE", count)),
                ReadThenWriteKind::Delete => (RowsTag::Delete, Tag::Counted("DELETE", count)),
                ReadThenWriteKind::Truncate => (RowsTag::Delete, Tag::Plain("TRUNCATE TABLE")),
            };
            return Ok(answer(returned, desc, rows_tag, tag));
        }
        Err(conflict())
    }

    /// Runs a TRUNCATE of several tables, which is a transaction if it is not part of one. Sequences that begin again are a change
    /// of the catalog, which becomes durable together with the rows' going.
    pub(crate) async fn truncate_several(
        &mut self,
        (truncate, revision): (&TruncatePlan, u64),
        params: Bound<'_>,
        autocommit: Autocommit,
    ) -> Result<Response, AdapterError> {
        let TruncatePlan { tables, restarts } = truncate;
        let shared = Arc::clone(&self.shared);
        let _turn = match restarts.is_empty() {
            true => None,
            false => {
                // Before the turn: nobody changes the catalog while this waits for somebody who may want to.
                self.lock_tables(tables.iter().map(|plan| plan.table)).await?;
                Some(shared.changing.lock().await)
            }
        };
        let ends = autocommit == Autocommit::Yes && self.transaction.status == Status::Idle;
        let attempts = if ends && self.transaction.is_fresh() { RETRIES_MAX } else { 1 };
        for _ in 0..attempts {
            if !restarts.is_empty() && self.revision() != revision {
                return Err(AdapterError::Stale);
            }
            for restart in restarts {
                let (before, op) = (self.published(), Op::AlterSequence(restart.clone()));
                let prepared = transact::prepare(&shared.engine, &before.state, vec![op.clone()])?;
                self.transaction.change_catalog(&shared, &before, op, prepared)?;
            }
            for plan in tables {
                let (plan, select) = (plan.clone(), self.select_exec(selection(plan)));
                let exec = ReadThenWriteExec { plan, select, reads_now: false };
                Box::pin(self.read_then_write(&exec, None, params, Autocommit::No)).await?;
            }
            if ends && let Err(error) = self.end_implicit().await {
                match error.sqlstate() {
                    SqlState::SERIALIZATION_FAILURE => continue,
                    _ => return Err(error),
                }
            }
            return Ok(Response::Complete(Tag::Plain("TRUNCATE TABLE")));
        }
        Err(conflict())
    }

    /// Steps 2 and 3: the updates, the number of rows that the statement changes, what RETURNING tells of other relations, and what
    /// the updates take of the memory.
    async fn changed_rows(
        &mut self,
        exec: &ReadThenWriteExec,
        params: Bound<'_>,
        read_ts: Timestamp,
    ) -> Result<(Updates, u64, Vec<ArrayRef>, Reservation), AdapterError> {
        let ReadThenWriteExec { plan, select, .. } = exec;
        let mut rows = self.select(select, params, read_ts)?;
        let width = plan.desc.arity();
        let (mut updates, mut count) = (Updates::new(), 0_u64);
        let mut memory = Reservation::empty(&self.shared.memory);
        let is_update = plan.kind == ReadThenWriteKind::Update;
        let others_from = if is_update { 2 * width } else { width };
        let mut others = Vec::new();
        while let Some(chunk) = rows.next(usize::MAX).await? {
            self.stay_if(count <= SMALL_CHANGE)?;
            // They are there twice while they grow.
            memory.cover(2 * updates.bytes()).map_err(SqlError::from)?;
            let shows = || self.may_select(plan.table);
            let wording = self.wording(&plan.name, &shows);
            match chunk {
                Chunk::Stored(stored) => {
                    // The old row is the stored one; a new one that only moves columns is made of its pieces.
                    let new = is_update.then(|| &stored.projection()[width..others_from]);
                    for row in stored.rows() {
                        updates.push(row, -1);
                        if let Some(columns) = new {
                            push_moved(&mut updates, row, columns, plan, (stored.stored_types(), wording))?;
                        }
                        count += 1;
                    }
                }
                Chunk::Batch(batch, range) => {
                    let batch = batch.slice(range.start, range.len());
                    // New rows are checked; old ones passed when they were written.
                    push_unchecked(&mut updates, &batch.columns()[..width], -1, &plan.desc)?;
                    if is_update {
                        push_batch(&mut updates, &batch.columns()[width..others_from], 1, &plan.desc, wording)?;
                    }
                    if batch.num_columns() > others_from {
                        others.push(batch.columns()[others_from..].to_vec());
                    }
                    count += u64::try_from(range.len()).unwrap_or(u64::MAX);
                }
            }
        }
        Ok((updates, count, joined(&others)?, memory))
    }
}

/// The columns of several batches, one after the other.
fn joined(batches: &[Vec<ArrayRef>]) -> Result<Vec<ArrayRef>, AdapterError> {
    let width = batches.first().map_or(0, Vec::len);
    let column = |at: usize| concat(&batches.iter().map(|batch| batch[at].as_ref()).collect::<Vec<_>>());
    let columns = (0..width).map(column).collect::<Result<_, _>>();
    columns.map_err(|error| AdapterError::internal(error.to_string()))
}

/// The query that finds the rows.
pub(crate) fn selection(plan: &ReadThenWritePlan) -> SelectPlan {
    SelectPlan {
        logical: plan.selection.clone(),
        desc: Arc::clone(&plan.desc),
        origins: Vec::new(),
        params: plan.params.clone(),
        depends_on: plan.depends_on.clone(),
        locks: None,
        rights: Vec::new(),
    }
}

/// Adds the row that has these columns of another.
fn push_moved(
    updates: &mut Updates,
    row: &[u8],
    columns: &[usize],
    plan: &ReadThenWritePlan,
    (types, wording): (&[DataType], Wording<'_>),
) -> Result<(), AdapterError> {
    let slices = split(row, types);
    updates.push_with(1, |out| {
        let start = out.len();
        columns.iter().for_each(|from| out.extend_from_slice(slices[*from]));
        // NULL of any type begins with a zero.
        let is_missing = |(column, from): (&ColumnDesc, &usize)| !column.nullable && slices[*from].first() == Some(&0);
        match plan.desc.columns.iter().zip(columns).position(is_missing) {
            Some(missing) => Err(not_null(&plan.desc, missing, &out[start..], wording).into()),
            None => Ok(()),
        }
    })
}

/// The rows that a look-up reads, if they can be told from others.
fn looked_up(plan: &PeekPlan, params: Bound<'_>) -> Option<Arc<KeyRange>> {
    let mut looked = Looked::by(plan, params)?;
    let keys = std::mem::take(&mut looked.keys);
    Some(Arc::new(KeyRange::as_looked_up(&looked, keys)))
}
