//! Statements that change the catalog: from a plan to the committer's operations.

use crate::cancel::committed;
use crate::error::AdapterError;
use crate::response::{Response, Tag};
use crate::session::{Autocommit, Session};
use crate::status::Status;
use crate::writing::write::WriteTarget;
use catalog::error::CatalogError;
use catalog::transact::{self, Op, Prepared, StateDiff};
use committer::constraint::{TableConstraints, Wording, validate};
use committer::plans::{Plans, plan_created};
use committer::published::Published;
use committer::request::{CatalogChange, Committed};
use committer::rewrite::Rewriting;
use engine::session::Position;
use ore::memory::Reservation;
use repr::Updates;
use repr::sqlstate::SqlState;
use sql::plan::sequence::owned_by;
use sql::plan::{CatalogView, CreateTableAsPlan, ItemRef, Plan, TableSchema};
use std::sync::Arc;

impl Session {
    /// Runs a DDL statement that was planned under `revision`.
    pub(crate) async fn ddl(
        &mut self,
        plan: &Plan,
        name: &'static str,
        revision: u64,
    ) -> Result<Response, AdapterError> {
        let in_block = self.transaction.status != Status::Idle;
        if !in_block && !self.transaction.is_fresh() {
            self.end_implicit().await?;
            // Another statement begins, which may be given up.
            self.cancel().begin();
        }
        let mut op = Op::from_plan(plan, self.rights.role.id)
            .ok_or_else(|| AdapterError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{name} is not supported")))?;
        let shared = Arc::clone(&self.shared);
        self.notices.extend(shared.hashing.seal(plan, &mut op).await?);
        let before = self.published();
        if before.state.revision() != revision {
            return Err(AdapterError::Stale);
        }
        let prepared = self.try_out(plan, &op, &before)?;
        self.notices.extend(plan.notices().iter().cloned().map(Into::into));
        let schema = match plan {
            Plan::CreateTable(table) | Plan::CreateTableAs(CreateTableAsPlan { table, .. }) => Some(&table.schema),
            Plan::CreateSequence(sequence) => Some(&sequence.schema),
            _ => None,
        };
        if let Some(TableSchema::Temporary { .. }) = schema {
            self.note_temporary();
        }
        let rewriting = match plan {
            Plan::AlterTable(alter) => self.rewriting(alter, &before)?,
            _ => None,
        };
        if in_block && let Some((prepared, _)) = prepared {
            self.validate_altered(&before, &prepared).await?;
            let rewritten = match rewriting {
                Some(rewriting) => self.rewritten(rewriting, &before, &prepared).await?,
                None => None,
            };
            self.transaction.change_catalog(&shared, &before, op, prepared)?;
            if let Some((table, updates, ends)) = rewritten {
                let published = self.published();
                for (column, at) in ends {
                    let owned = owned_by(published.state.as_ref(), table.id, column);
                    let sequences = owned.iter().filter_map(|(sequence, _)| published.sequences.get(&sequence.id));
                    sequences.for_each(|sequence| sequence.place(at));
                }
                let target = WriteTarget::as_they_are(table.id, &table.name, &table.desc);
                self.write(target, updates, Vec::new(), Autocommit::No).await?;
            }
            return Ok(Response::Complete(Tag::Plain(name)));
        }
        let (prepared, plans) = prepared.map_or_else(Default::default, |(prepared, plans)| (Some(prepared), plans));
        let change = CatalogChange { rewriting, prepared, plans, ..CatalogChange::new(revision, vec![op]) };
        match committed(&self.cancel(), self.shared.committer.change_catalog(change)).await? {
            Committed::At => Ok(Response::Complete(Tag::Plain(name))),
            Committed::Conflict | Committed::Repeated => Err(AdapterError::Stale),
            Committed::Violates(violation) => Err(self.violation(&violation)),
        }
    }

    /// Checks what the transaction sees of tables that get constraints. COMMIT will check what there is then.
    async fn validate_altered(&mut self, before: &Published, prepared: &Prepared) -> Result<(), AdapterError> {
        for change in &prepared.diff {
            let StateDiff::TableAltered(id) = *change else { continue };
            let (Some(item), Some(table)) = (prepared.state.item(id), before.tables.get(&id)) else { continue };
            let after = TableConstraints::of(&self.shared.engine, &prepared.state, &item)?;
            if !after.demands_more_than(&table.constraints) {
                continue;
            }
            // What it reads here may change before COMMIT, which looks again.
            let now = self.now().await?;
            let read_ts = self.transaction.read_ts(&self.shared, now);
            let is_stored = !before.created.contains(&id);
            let own = self.transaction.written_to(id).cloned().unwrap_or_default();
            let (shared, known) = (Arc::clone(&self.shared), Arc::clone(&table.constraints));
            let options = self.encode_options().clone();
            let work = ore::task::spawn_on(&self.shared.adhoc, "validate", async move {
                let stored = is_stored.then(|| shared.persist.snapshot(id.into(), read_ts)).transpose()?;
                let wording = Wording { table: &item.name, options: &options, shows_rows: &|| true };
                validate(&shared.engine, Some(&known), &after, stored, &own, wording).map(drop)
            });
            work.await.map_err(|error| AdapterError::internal(error.to_string()))??;
        }
        Ok(())
    }

    /// The rows, as the transaction sees them, of a table that it gives other columns, the table as it will be, and where the
    /// sequences of its columns then stand that are new.
    async fn rewritten(
        &mut self,
        rewriting: Rewriting,
        before: &Published,
        prepared: &Prepared,
    ) -> Result<Option<(Arc<ItemRef>, Updates, Vec<(usize, Position)>)>, AdapterError> {
        let id = rewriting.table;
        let Some(item) = prepared.rewritten.get(&id).and_then(|new| prepared.state.item(*new)) else { return Ok(None) };
        let read_ts = self.held_ts_for(&[id]).await?;
        let is_stored = !before.created.contains(&id);
        let own = self.transaction.written_to(id).cloned().unwrap_or_default();
        let (persist, mut memory) = (self.shared.persist.clone(), Reservation::empty(&self.shared.memory));
        let work = ore::task::spawn_on(&self.shared.adhoc, "rewrite", async move {
            let stored = is_stored.then(|| persist.snapshot(id.into(), read_ts)).transpose()?;
            let updates = rewriting.rows(stored, &own, &mut memory)?;
            Ok::<_, AdapterError>((updates, rewriting.ends()))
        });
        let (updates, ends) = work.await.map_err(|error| AdapterError::internal(error.to_string()))??;
        Ok(Some((item, updates, ends)))
    }

    /// What a change leads to, if it has to be known before it is carried out: in a block, which goes on with it, and of what
    /// is maintained. Refuses what could not be carried out, or would leave an index or a materialized view that cannot be
    /// maintained: plans all that the change brings about or builds anew, in the catalog that it leads to.
    fn try_out(&self, plan: &Plan, op: &Op, before: &Published) -> Result<Option<(Prepared, Plans)>, AdapterError> {
        let replaced = match plan {
            Plan::CreateIndex(_) => None,
            Plan::CreateView(view) if view.cluster.is_some() || view.replace.is_some() => view.replace,
            Plan::AlterTable(alter) if alter.rewrite.is_some() => Some(alter.id),
            _ if self.transaction.status != Status::Idle => None,
            _ => return Ok(None),
        };
        let replaced = replaced.and_then(|id| before.state.item(id));
        let prepared = transact::prepare(&self.shared.engine, &before.state, vec![op.clone()])?;
        let plans = plan_created(&self.shared.engine, &prepared).map_err(|(item, why)| match replaced {
            // A new id, but the same oid: it is the one that is to be replaced.
            Some(replaced) if replaced.oid != item.oid => CatalogError::DependentFails {
                replaced: described(&replaced),
                dependent: described(&item),
                why: why.to_string(),
            }
            .into(),
            _ => why,
        })?;
        Ok(Some((prepared, plans)))
    }
}

fn described(item: &ItemRef) -> String {
    format!("{} {}", item.object_kind(), item.name.item)
}
