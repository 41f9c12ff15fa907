//! CREATE TABLE AS: the table and its rows in one commit, or nothing.
//!
//! 1. Read the rows at a timestamp of the oracle.
//! 2. Commit the change of the catalog together with them, unless what was read has been written since: then begin again.
//!
//! In a block both are kept back, as those of CREATE TABLE and INSERT are.

use crate::cancel::committed;
use crate::error::AdapterError;
use crate::reading::admission::Turn;
use crate::reading::select::collect;
use crate::response::{Response, Tag};
use crate::session::{Autocommit, Session};
use crate::status::Status;
use crate::transaction::{RETRIES_MAX, conflict};
use crate::writing::insert::{expectations, push_batch};
use crate::writing::write::WriteTarget;
use catalog::transact::{self, Op};
use committer::constraint::Wording;
use committer::request::{CatalogChange, Committed, TableWrite};
use engine::error::SqlError;
use engine::temporal::query_reads_now;
use ore::memory::Reservation;
use repr::{Timestamp, Updates};
use sql::plan::{CreateTablePlan, Plan, SelectPlan, TableSchema};
use std::sync::Arc;

impl Session {
    /// Runs a CREATE TABLE AS that was planned under `revision`.
    pub(crate) async fn create_table_as(
        &mut self,
        plan: &Plan,
        (table, source): (&CreateTablePlan, &SelectPlan),
        revision: u64,
    ) -> Result<Response, AdapterError> {
        let in_block = self.transaction.status != Status::Idle;
        if !in_block && !self.transaction.is_fresh() {
            self.end_implicit().await?;
            // Another statement begins, which may be given up.
            self.cancel().begin();
        }
        if query_reads_now(&source.logical) {
            self.come_to_now().await?;
        }
        for _ in 0..RETRIES_MAX {
            let turn = self.entered(&source.logical).await?;
            let read_ts = self.read_ts_for(&source.depends_on).await?;
            let (updates, _memory) = self.source_rows(table, source, read_ts, turn).await?;
            let tag = Tag::Counted("SELECT", u64::try_from(updates.len()).unwrap_or(u64::MAX));
            let before = self.published();
            if before.state.revision() != revision {
                return Err(AdapterError::Stale);
            }
            let op = Op::from_plan(plan, self.rights.role.id)
                .ok_or_else(|| AdapterError::internal("no catalog is changed"))?;
            let prepared = transact::prepare(&self.shared.engine, &before.state, vec![op.clone()])?;
            let id = *prepared.created.last().ok_or_else(|| AdapterError::internal("no table was made"))?;
            if let TableSchema::Temporary { .. } = table.schema {
                self.note_temporary();
            }
            if in_block {
                let shared = Arc::clone(&self.shared);
                self.transaction.change_catalog(&shared, &before, op, prepared)?;
                let target = WriteTarget::as_they_are(id, &table.name, &table.desc);
                self.write(target, updates, Vec::new(), Autocommit::No).await?;
                return Ok(Response::Complete(tag));
            }
            let write = TableWrite::of_new(id, updates, &table.desc);
            let expectations = expectations(&source.depends_on, read_ts);
            let change = CatalogChange { writes: vec![write], expectations, ..CatalogChange::new(revision, vec![op]) };
            match committed(&self.cancel(), self.shared.committer.change_catalog(change)).await? {
                Committed::At => return Ok(Response::Complete(tag)),
                Committed::Conflict | Committed::Repeated => {}
                Committed::Violates(violation) => return Err(self.violation(&violation)),
            }
        }
        Err(conflict())
    }

    /// Step 1: the rows, as the table will store them, and what they take of the memory.
    async fn source_rows(
        &mut self,
        table: &CreateTablePlan,
        source: &SelectPlan,
        read_ts: Timestamp,
        turn: Turn,
    ) -> Result<(Updates, Reservation), AdapterError> {
        let query = self.with_own_writes(source.logical.clone(), &source.depends_on)?;
        let reading = self.query(query, read_ts).within(turn).run();
        let batches = self.interrupt().guard(async { collect(reading.await?).await }).await??;
        let wording = Wording { table: &table.name, options: self.encode_options(), shows_rows: &|| true };
        let mut updates = Updates::new();
        let mut memory = Reservation::empty(&self.shared.memory);
        for batch in &batches {
            push_batch(&mut updates, batch.columns(), 1, &table.desc, wording)?;
            // They are there twice while they grow.
            memory.cover(2 * updates.bytes()).map_err(SqlError::from)?;
        }
        Ok((updates, memory))
    }
}
