//! Statements that change the catalog: from a plan to the committer's operations.

use crate::error::AdapterError;
use crate::implications::{context, key_exprs, maintained, maintained_view};
use crate::response::{Response, Tag};
use crate::session::Session;
use crate::transaction::Status;
use catalog::error::CatalogError;
use catalog::state::State;
use catalog::transact::{self, Op, StateDiff};
use repr::sqlstate::SqlState;
use sql::engine::{Engine, SessionInfo};
use sql::plan::{CatalogView, ItemKind, ItemRef, Plan, plan_index_keys};
use std::sync::Arc;

/// The message of the error that asks for the statement to be planned again; no client sees it.
pub(crate) const STALE: &str = "the catalog changed";

impl Session {
    /// Runs a DDL statement that was planned under `revision`.
    pub(crate) async fn ddl(
        &mut self,
        plan: &Plan,
        name: &'static str,
        revision: u64,
    ) -> Result<Response, AdapterError> {
        let in_block = self.transaction.status != Status::Idle;
        if in_block && !self.transaction.is_fresh() && !self.transaction.has_ddl() {
            return Err(AdapterError::with_hint(
                SqlState::ACTIVE_SQL_TRANSACTION,
                format!("{name} cannot run in a transaction that has read or written"),
                "Run it in a transaction of its own.",
            ));
        }
        if !in_block && !self.transaction.is_fresh() {
            self.end_implicit().await?;
        }
        let mut op = Op::from_plan(plan, self.role.id)
            .ok_or_else(|| AdapterError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{name} is not supported")))?;
        let shared = Arc::clone(&self.shared);
        self.notices.extend(shared.seal(plan, &mut op).await?);
        self.check_change(plan, &op, revision)?;
        if let Plan::Drop(drop) = plan {
            self.notices.extend(drop.notices.iter().cloned().map(Into::into));
        }
        if in_block {
            self.transaction.change_catalog(revision, op);
            return Ok(Response::Complete(Tag::Plain(name)));
        }
        if self.shared.change_catalog(revision, vec![op]).await? {
            Ok(Response::Complete(Tag::Plain(name)))
        } else {
            Err(AdapterError::new(SqlState::SERIALIZATION_FAILURE, STALE))
        }
    }

    /// Refuses what could not be carried out, or would leave an index or a materialized view that cannot be maintained:
    /// plans all that the change brings about or builds anew, in the catalog that it leads to. A change in a block, which
    /// COMMIT carries out with those before it, is tried out after those.
    fn check_change(&self, plan: &Plan, op: &Op, revision: u64) -> Result<(), AdapterError> {
        let replaced = match plan {
            Plan::CreateIndex(_) => None,
            Plan::CreateView(view) if view.cluster.is_some() || view.replace.is_some() => view.replace,
            _ if self.transaction.has_ddl() => None,
            _ => return Ok(()),
        };
        let published = self.shared.published.load();
        if published.state.revision() != revision {
            // It will have to be planned again.
            return Ok(());
        }
        let replaced = replaced.and_then(|id| published.state.item(id));
        let mut ops = self.transaction.catalog_changes().to_vec();
        ops.push(op.clone());
        let prepared = transact::prepare(&self.shared.engine, &published.state, ops)?;
        for change in &prepared.diff {
            let (StateDiff::IndexCreated(id) | StateDiff::MaterializedViewCreated(id)) = change else { continue };
            let Some(item) = prepared.state.item(*id) else { continue };
            if let Err(why) = check_item(&self.shared.engine, &prepared.state, &item) {
                return Err(match replaced {
                    // A new id, but the same oid: it is the one that is to be replaced.
                    Some(replaced) if replaced.oid != item.oid => CatalogError::DependentFails {
                        replaced: described(&replaced),
                        dependent: described(&item),
                        why: why.to_string(),
                    }
                    .into(),
                    _ => why,
                });
            }
        }
        Ok(())
    }
}

fn described(item: &ItemRef) -> String {
    format!("{} {}", item.object_kind(), item.name.item)
}

/// Errors: what is maintained by this index or materialized view cannot be.
fn check_item(engine: &Engine, state: &State, item: &ItemRef) -> Result<(), AdapterError> {
    let info = SessionInfo::default();
    let ctx = context(engine, state, &info, item);
    let ItemKind::Index(index) = &item.kind else { return maintained_view(&ctx, item).map(drop) };
    let on = state.item(index.on).ok_or_else(|| AdapterError::internal(format!("{} is on nothing", item.name)))?;
    maintained(&ctx, &on)?;
    key_exprs(engine, &plan_index_keys(&ctx, &on, &index.keys)?, &on, &info).map(drop)
}

/// Whether a plan changes the catalog.
pub(crate) fn is_ddl(plan: &Plan) -> bool {
    matches!(
        plan,
        Plan::CreateDatabase { .. }
            | Plan::CreateSchema { .. }
            | Plan::CreateTable(_)
            | Plan::CreateView(_)
            | Plan::CreateIndex(_)
            | Plan::CreateCluster { .. }
            | Plan::AlterCluster { .. }
            | Plan::CreateRole { .. }
            | Plan::AlterRole { .. }
            | Plan::AlterRoleSet { .. }
            | Plan::AlterOwner { .. }
            | Plan::AlterRename { .. }
            | Plan::AlterSetCluster { .. }
            | Plan::Drop(_)
            | Plan::GrantPrivileges(_)
            | Plan::DefaultPrivileges(_)
            | Plan::GrantRole { .. }
            | Plan::Comment { .. }
            | Plan::AlterSystemSet { .. }
            | Plan::AlterSystemReset(_)
    )
}
