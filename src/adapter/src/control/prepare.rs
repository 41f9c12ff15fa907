//! What is prepared, by a message or by PREPARE, and the portals that run it.

use crate::bindable::{Bindable, Portal};
use crate::control::execute::{ends_transaction, failed_transaction, is_ddl, returns_by_name, unknown_statement};
use crate::control::replan::is_stale;
use crate::control::short::is_elsewhere;
use crate::error::AdapterError;
use crate::plan_cache::{CachedPlan, Exec, Made, Prepared};
use crate::response::{Response, Rows, RowsTag};
use crate::session::{Autocommit, Session, unknown_portal};
use crate::status::Status;
use bugs::Bug;
use repr::sqlstate::SqlState;
use repr::{Datum, PgType};
use sql::bind::Params;
use sql_syntax::ast::Statement;
use sql_syntax::parser::ParsedStatement;
use std::sync::Arc;

impl Session {
    pub(crate) fn prepare(&mut self, name: &str, sql: &str, param_oids: &[u32]) -> Result<(), AdapterError> {
        if !name.is_empty() && self.statements.prepared.contains_key(name) {
            return Err(duplicate_statement(name));
        }
        if let Some(prepared) = self.parsed(sql, param_oids) {
            let made = self.made(name, None);
            self.statements.keep(name, Prepared { made, ..prepared });
            return Ok(());
        }
        let declared = param_oids.iter().map(|oid| declared_type(*oid)).collect::<Result<Vec<_>, _>>()?;
        let mut statements = sql_syntax::parser::parse(sql)?;
        if statements.len() > 1 {
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(AdapterError::new(SqlState::SYNTAX_ERROR, message));
        }
        let prepared = self.prepare_tree(name, statements.pop(), sql, declared).map_err(|error| error.locate(sql))?;
        // What is followed has no end, so that a session does not ask for it again and again.
        let is_followed = prepared.statement.as_ref().is_some_and(|of| matches!(of.ast, Statement::Subscribe(_)));
        if !is_followed && !returns_by_name(&prepared.plan) {
            self.statements.plans.remember(sql, param_oids, prepared);
        }
        Ok(())
    }

    /// Keeps a statement, which is in a text, under a name, with parameters of the types that are declared.
    pub(crate) fn prepare_tree(
        &mut self,
        name: &str,
        statement: Option<ParsedStatement>,
        text: &str,
        declared: Vec<Option<PgType>>,
    ) -> Result<Prepared, AdapterError> {
        if let Some(statement) = &statement {
            self.check_failed(&statement.ast)?;
        }
        let prepared = match statement {
            Some(statement) if !is_planned_ahead(&statement.ast) => {
                let (kind, params) = (statement.ast.name(), Params::declared(declared).finish()?);
                self.unplanned(kind, text, params, Exec::Unplanned(Box::new(statement)))
            }
            Some(statement) => self.prepared(Arc::new(statement), declared)?,
            None => self.unplanned("", "", Vec::new(), Exec::Empty),
        };
        let made = self.made(name, None);
        self.statements.keep(name, Prepared { made, ..prepared.clone() });
        Ok(prepared)
    }

    /// What an earlier Parse of the same text and types in this session gave, if it still holds.
    fn parsed(&self, sql: &str, param_oids: &[u32]) -> Option<Prepared> {
        let prepared = self.statements.plans.recall(sql, param_oids)?;
        let revision = self.revision();
        let holds = prepared.plan.revision == revision && self.transaction.status != Status::Failed;
        (holds && prepared.settings == self.settings.key).then(|| {
            self.shared.metrics.plan_hits.inc();
            prepared.clone()
        })
    }

    /// A statement that has no plan which the catalog could leave behind.
    fn unplanned(&self, name: &'static str, text: &str, params: Vec<PgType>, exec: Exec) -> Prepared {
        let param_types = params.iter().map(PgType::data_type).collect();
        let plan = CachedPlan {
            revision: 0,
            params,
            param_types,
            desc: None,
            name,
            text: Arc::from(text),
            exec,
            is_short: true,
        };
        let settings = Arc::clone(&self.settings.key);
        Prepared { statement: None, plan: Arc::new(plan), settings, made: Made::default() }
    }

    fn prepared(
        &mut self,
        statement: Arc<ParsedStatement>,
        declared: Vec<Option<PgType>>,
    ) -> Result<Prepared, AdapterError> {
        let mut params = Params::declared(declared);
        let plan = self.plan(&statement.ast, &statement.sql, &mut params)?;
        let settings = Arc::clone(&self.settings.key);
        Ok(Prepared { statement: Some(statement), plan, settings, made: Made::default() })
    }

    pub(crate) fn prepare_statement(
        &mut self,
        name: &str,
        types: Vec<Option<PgType>>,
        (statement, sql): (&Statement, &str),
        text: &Arc<str>,
    ) -> Result<(), AdapterError> {
        if self.statements.prepared.contains_key(name) {
            return Err(duplicate_statement(name));
        }
        let parsed = ParsedStatement { ast: statement.clone(), sql: sql.to_owned() };
        let prepared = self.prepared(Arc::new(parsed), types)?;
        self.statements.keep(name, Prepared { made: self.made(name, Some(text)), ..prepared });
        Ok(())
    }

    /// A prepared statement's plan, made again if the catalog or the settings have changed. Errors: 26000; 0A000 if its
    /// result would now have another shape.
    pub(crate) fn revalidated(&mut self, name: &str) -> Result<Arc<CachedPlan>, AdapterError> {
        let Some(prepared) = self.statements.prepared.get(name) else { return Err(unknown_statement(name)) };
        let revision = self.revision();
        let same_settings =
            Arc::ptr_eq(&prepared.settings, &self.settings.key) || prepared.settings == self.settings.key;
        let Some(statement) = &prepared.statement else { return Ok(Arc::clone(&prepared.plan)) };
        let is_current = prepared.plan.revision == revision || bugs::is(Bug::PlanOutlivesDdl);
        if is_current && same_settings && !returns_by_name(&prepared.plan) {
            self.shared.metrics.plan_hits.inc();
            return Ok(Arc::clone(&prepared.plan));
        }
        let declared = prepared.plan.params.iter().cloned().map(Some).collect();
        let (statement, before, made) = (Arc::clone(statement), Arc::clone(&prepared.plan), prepared.made.clone());
        let renewed = self.prepared(statement, declared)?;
        let shape = |plan: &CachedPlan| plan.desc.as_ref().map(|desc| desc.desc.columns.clone());
        // The rows of FETCH are those of whatever cursor has the name then.
        if shape(&before) != shape(&renewed.plan) && !returns_by_name(&renewed.plan) {
            return Err(AdapterError::ResultChanged);
        }
        let plan = Arc::clone(&renewed.plan);
        self.statements.keep(name, Prepared { made, ..renewed });
        Ok(plan)
    }

    /// The plan that a statement has for values that are to be bound.
    pub(crate) fn bindable(&mut self, portal: &str, statement: &str) -> Result<Arc<CachedPlan>, AdapterError> {
        if !portal.is_empty() && self.statements.portals.contains_key(portal) {
            return Err(AdapterError::new(SqlState::DUPLICATE_CURSOR, format!("cursor \"{portal}\" already exists")));
        }
        let plan = self.revalidated(statement)?;
        if self.transaction.status == Status::Failed && !ends_transaction(&plan) {
            return Err(failed_transaction());
        }
        Ok(plan)
    }

    pub(crate) fn bind_portal(&mut self, portal: &str, bindable: Bindable, params: Vec<Datum<'static>>) -> u64 {
        let Bindable { plan, is_small } = bindable;
        let number = self.statements.next_portal();
        let (savepoints, made) = (self.transaction.savepoint_count(), self.made(portal, None));
        let (started, hold, is_binary) = (false, false, false);
        let bound = Portal { plan, params, number, rows: None, started, is_small, hold, is_binary, savepoints, made };
        match self.statements.portals.get_mut(portal) {
            Some(slot) => *slot = bound,
            None => {
                self.statements.portals.insert(portal.to_owned(), bound);
            }
        }
        number
    }

    /// Runs a portal from its start, or goes on where it was suspended.
    pub(crate) fn execute_portal_at_once(&mut self, name: &str) -> Option<Result<Response, AdapterError>> {
        let now = self.now_fast();
        let Some(portal) = self.statements.portals.get_mut(name) else {
            return Some(self.concluded(Err(unknown_portal(name))));
        };
        if !portal.started {
            let is_short = (portal.plan.is_short && portal.is_small) || self.is_elsewhere;
            let (true, Some(now)) = (portal.plan.only_reads() && is_short, now) else { return None };
            portal.started = true;
            let (plan, number) = (Arc::clone(&portal.plan), portal.number);
            let params = std::mem::take(&mut portal.params);
            let result = self.answer(&plan, &params, now).map(|response| response.of_portal(number));
            if is_elsewhere(&result) {
                self.not_started(name, params);
                return None;
            }
            return Some(self.concluded(result));
        }
        let (plan, number) = (Arc::clone(&portal.plan), portal.number);
        let result = match plan.desc.clone() {
            _ if self.transaction.status == Status::Failed => Err(failed_transaction()),
            // A portal that has run to its end gives no more rows.
            Some(desc) => {
                let rows = portal.rows.take().unwrap_or_else(|| Rows::ready(Vec::new()));
                Ok(Response::rows(desc, rows, RowsTag::Select).of_portal(number))
            }
            None => {
                let message = format!("portal \"{name}\" cannot be run");
                Err(AdapterError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message))
            }
        };
        Some(self.concluded(result))
    }

    pub(crate) async fn execute_portal(
        &mut self,
        name: &str,
        autocommit: Autocommit,
    ) -> Result<Response, AdapterError> {
        if let Some(result) = self.execute_portal_at_once(name) {
            return result;
        }
        self.stay_if(self.statements.portals.get(name).is_none_or(|portal| portal.is_small))?;
        let portal = self.statements.portals.get_mut(name).ok_or_else(|| unknown_portal(name))?;
        portal.started = true;
        let (plan, number) = (Arc::clone(&portal.plan), portal.number);
        let params = std::mem::take(&mut portal.params);
        let mut result = self.run(&plan, &params, autocommit).await;
        if result.as_ref().is_err_and(is_stale)
            && let Some(renewed) = self.renewed(&plan)
        {
            result = self.run(&renewed, &params, autocommit).await;
        }
        if is_elsewhere(&result) {
            self.not_started(name, params);
        }
        self.concluded(result).map(|response| response.of_portal(number))
    }

    /// A portal of which nothing has happened after all.
    fn not_started(&mut self, name: &str, params: Vec<Datum<'static>>) {
        if let Some(portal) = self.statements.portals.get_mut(name) {
            (portal.started, portal.params) = (false, params);
        }
    }
}

fn declared_type(oid: u32) -> Result<Option<PgType>, AdapterError> {
    match oid {
        0 | 705 => Ok(None),
        oid => match pgrepr::types::from_oid(oid) {
            Some(ty) => Ok(Some(ty)),
            None => Err(AdapterError::new(SqlState::UNDEFINED_OBJECT, format!("type with OID {oid} does not exist"))),
        },
    }
}

/// Whether a statement is planned before it runs. What changes the catalog is not, as in PostgreSQL: it may be sent together with
/// what it builds on. What else reads a query is.
fn is_planned_ahead(statement: &Statement) -> bool {
    !is_ddl(statement) || matches!(statement, Statement::CreateTableAs(_))
}

fn duplicate_statement(name: &str) -> AdapterError {
    AdapterError::new(SqlState::DUPLICATE_PREPARED_STATEMENT, format!("prepared statement \"{name}\" already exists"))
}
