//! SHOW, the cursors of SQL, and the arguments of EXECUTE: what a session answers from its own state.

use crate::bindable::Portal;
use crate::control::execute::unknown_cursor;
use crate::description::RowDesc;
use crate::error::AdapterError;
use crate::plan_cache::{CachedPlan, Exec, Made};
use crate::response::{Response, Rows, RowsTag, Tag};
use crate::session::{Autocommit, Session};
use crate::status::Status;
use arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use compute_client::peek::Bound;
use futures::FutureExt;
use repr::Datum;
use repr::sqlstate::SqlState;
use sql::plan::{ReadPlan, plan_argument};
use sql_syntax::ast::IsolationLevel;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

impl Session {
    /// SHOW of a variable.
    pub(crate) fn show_variable(&self, variable: &str, desc: Option<&Arc<RowDesc>>) -> Result<Response, AdapterError> {
        let published = self.shared.published.load();
        let value = self
            .settings
            .vars
            .get(variable)
            .or_else(|| published.state.system().get(variable))
            .ok_or_else(|| sql::vars::unrecognized(variable))?;
        text_rows(desc, RowsTag::Show, vec![vec![value.to_owned()]])
    }

    /// SHOW TRANSACTION ISOLATION LEVEL, in the standard's terms.
    pub(crate) fn show_isolation_level(&self, desc: Option<&Arc<RowDesc>>) -> Result<Response, AdapterError> {
        let level = self.settings.vars.get("transaction_isolation").unwrap_or_default();
        let standard = IsolationLevel::from_name(level).map(|level| level.standard().to_owned());
        text_rows(desc, RowsTag::Show, vec![vec![standard.unwrap_or_else(|| level.to_owned())]])
    }

    /// SHOW ALL.
    pub(crate) fn show_all(&self, desc: Option<&Arc<RowDesc>>) -> Result<Response, AdapterError> {
        let published = self.shared.published.load();
        let all = self.settings.vars.all(published.state.system());
        let column = |value: &dyn Fn(&(String, String, &'static str)) -> String| all.iter().map(value).collect();
        let columns = vec![column(&|row| row.0.clone()), column(&|row| row.1.clone()), column(&|row| row.2.to_owned())];
        text_rows(desc, RowsTag::Show, columns)
    }

    /// DECLARE: a portal that FETCH reads.
    pub(crate) async fn declare(
        &mut self,
        name: &str,
        (hold, is_binary, made): (bool, bool, Made),
        read: &ReadPlan,
        params: Bound<'_>,
        autocommit: Autocommit,
    ) -> Result<Response, AdapterError> {
        if self.transaction.status == Status::Idle && autocommit == Autocommit::Yes && !hold {
            return Err(AdapterError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "DECLARE CURSOR can only be used in transaction blocks",
            ));
        }
        if self.statements.portals.contains_key(name) {
            return Err(AdapterError::new(SqlState::DUPLICATE_CURSOR, format!("cursor \"{name}\" already exists")));
        }
        let mut rows = self.read(read, params).await?;
        if !rows.is_live() {
            // Begun now, while its time is readable.
            rows.wait().await?;
        }
        let exec = self.select_exec(read.select.clone());
        let plan = CachedPlan {
            revision: self.revision(),
            params: Vec::new(),
            param_types: Vec::new(),
            desc: Some(RowDesc::new(Arc::clone(&read.desc), read.origins().to_vec())),
            name: "SELECT",
            text: Arc::from("FETCH"),
            exec: Exec::Select(exec),
            is_short: true,
        };
        let portal = Portal {
            plan: Arc::new(plan),
            params: Vec::new(),
            number: 0,
            rows: Some(rows),
            started: true,
            is_small: true,
            hold,
            is_binary,
            savepoints: self.transaction.savepoint_count(),
            made,
        };
        self.statements.portals.insert(name.to_owned(), portal);
        Ok(Response::Complete(Tag::Plain("DECLARE CURSOR")))
    }

    /// FETCH and MOVE.
    pub(crate) async fn fetch(
        &mut self,
        name: &str,
        count: Option<u64>,
        skip: bool,
        timeout: Option<Duration>,
    ) -> Result<Response, AdapterError> {
        self.start_portal(name).await?;
        let portal = self.statements.portals.get_mut(name).ok_or_else(|| unknown_cursor(name))?;
        let desc = portal.plan.desc.clone().ok_or_else(|| unknown_cursor(name))?;
        let wanted = count.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX));
        let mut batches = Vec::new();
        let mut taken = 0;
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        if let Some(rows) = &mut portal.rows {
            while taken < wanted {
                if rows.is_live() {
                    // Rows that come as things happen: those that are there, once there are any or time is up.
                    let waited = match deadline {
                        Some(deadline) => tokio::time::timeout_at(deadline, rows.wait()).await.ok(),
                        None if taken == 0 => Some(rows.wait().await),
                        None => rows.wait().now_or_never(),
                    };
                    let Some(waited) = waited else { break };
                    waited?;
                }
                let Some(chunk) = rows.next(wanted - taken).await? else { break };
                let batch = chunk.batch(&desc)?;
                taken += batch.num_rows();
                batches.push(batch);
            }
        }
        if skip {
            return Ok(Response::Complete(Tag::Counted("MOVE", u64::try_from(taken).unwrap_or(u64::MAX))));
        }
        let is_binary = portal.is_binary;
        Ok(Response::Rows { desc, rows: Rows::ready(batches), tag: RowsTag::Fetch, is_binary, portal: 0 })
    }

    /// Runs a query that a client has bound under this name and not executed yet: FETCH and MOVE go on in its rows.
    async fn start_portal(&mut self, name: &str) -> Result<(), AdapterError> {
        self.stay_if(self.statements.portals.get(name).is_none_or(|portal| portal.is_small))?;
        let Some(portal) =
            self.statements.portals.get_mut(name).filter(|portal| !portal.started && portal.plan.only_reads())
        else {
            return Ok(());
        };
        let (plan, params) = (Arc::clone(&portal.plan), portal.params.clone());
        let response = Box::pin(self.run(&plan, &params, Autocommit::No)).await;
        let Some(portal) = self.statements.portals.get_mut(name) else { return Ok(()) };
        portal.started = !matches!(response, Err(AdapterError::Elsewhere));
        if let Response::Rows { rows, .. } = response? {
            portal.rows = Some(rows);
        }
        Ok(())
    }

    /// The arguments of EXECUTE as values of the statement's parameters.
    pub(crate) fn evaluate_arguments(
        &self,
        plan: &CachedPlan,
        name: &str,
        arguments: &[sqlparser::ast::Expr],
    ) -> Result<Vec<Datum<'static>>, AdapterError> {
        if arguments.len() != plan.params.len() {
            return Err(AdapterError::with_detail(
                SqlState::SYNTAX_ERROR,
                format!("wrong number of parameters for prepared statement \"{name}\""),
                format!("Expected {} parameters but got {}.", plan.params.len(), arguments.len()),
            ));
        }
        let published = self.published();
        let info = self.info(self.shared.oracle.known_ts());
        let ctx = self.plan_context(&published, &info);
        arguments
            .iter()
            .zip(&plan.params)
            .map(|(argument, ty)| {
                let expr = plan_argument(&ctx, argument, ty)?;
                self.evaluate_constant(&expr, Bound::none(), &info)
            })
            .collect()
    }
}

/// Columns of text as a result.
pub(crate) fn text_rows(
    desc: Option<&Arc<RowDesc>>,
    tag: RowsTag,
    columns: Vec<Vec<String>>,
) -> Result<Response, AdapterError> {
    let desc = desc.ok_or_else(|| AdapterError::internal("a result without a shape"))?;
    let columns = columns.into_iter().map(|column| Arc::new(StringViewArray::from(column)) as ArrayRef).collect();
    let batch = RecordBatch::try_new(Arc::clone(&desc.desc.schema), columns)
        .map_err(|error| AdapterError::internal(error.to_string()))?;
    Ok(Response::rows(Arc::clone(desc), Rows::ready(vec![batch]), tag))
}
