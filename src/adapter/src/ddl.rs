//! Statements that change the catalog: from a plan to the committer's operations.

use crate::error::AdapterError;
use crate::implications::{key_exprs, maintained};
use crate::response::{Response, Tag};
use crate::session::Session;
use crate::transaction::Status;
use catalog::transact::Op;
use compute_client::plan::lower::lower;
use repr::GlobalId;
use repr::sqlstate::SqlState;
use sql::plan::{CatalogView, Plan, PlanContext, plan_view_def};

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
        self.check_index_source(plan)?;
        let owner = self.role.id;
        let op = Op::from_plan(plan, owner)
            .ok_or_else(|| AdapterError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{name} is not supported")))?;
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

    /// Refuses what would leave an index that cannot be maintained, before it is durable.
    fn check_index_source(&self, plan: &Plan) -> Result<(), AdapterError> {
        let published = self.shared.published.load_full();
        match plan {
            Plan::CreateIndex(index) => {
                let Some(on) = published.state.item(index.on) else { return Ok(()) };
                let info = self.info(0);
                let ctx = PlanContext { role: on.owner, ..self.plan_context(&published, &info) };
                maintained(&ctx, &on)?;
                key_exprs(&self.shared.engine, &index.keys, &on, &info).map(drop)
            }
            Plan::CreateView(view) => {
                if view.cluster.is_some() {
                    let info = self.info(0);
                    let select = plan_view_def(&self.plan_context(&published, &info), &view.view)?;
                    lower(&select.logical, &self.shared.engine)?;
                }
                match view.replace {
                    Some(id) if is_under_maintained(published.state.as_ref(), id) => Err(AdapterError::with_hint(
                        SqlState::FEATURE_NOT_SUPPORTED,
                        format!("cannot replace view \"{}\" because what is maintained depends on it", view.name.item),
                        "Drop the indexes and materialized views over it first.",
                    )),
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
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
            | Plan::GrantRole { .. }
            | Plan::Comment { .. }
            | Plan::AlterSystemSet { .. }
            | Plan::AlterSystemReset(_)
    )
}

/// Whether an index or a materialized view depends on a relation, directly or not.
fn is_under_maintained(catalog: &dyn CatalogView, id: GlobalId) -> bool {
    catalog.dependents(id).into_iter().any(|dependent| {
        catalog.item(dependent).is_some_and(|item| item.cluster().is_some()) || is_under_maintained(catalog, dependent)
    })
}
