//! From a statement to the verb that runs it.
//!
//! Every way in ends in [`Session::run`]: a plan, its parameters, and whether it commits by itself. What a statement needs
//! besides (a plan found in the cache, made, or made again after the catalog changed) is decided here.

use crate::control::replan::is_stale;
use crate::control::sampling::may_have_password;
use crate::control::short::{is_elsewhere, is_short};
use crate::description::RowDesc;
use crate::error::{AdapterError, Notice};
use crate::plan_cache::{CachedPlan, Exec, ReadThenWriteExec, Roles, SelectExec};
use crate::response::{Response, Rows, RowsTag, Tag};
use crate::session::{Autocommit, Session};
use crate::status::Status;
use crate::transaction::Transaction;
use crate::writing::locking::Selected;
use crate::writing::read_then_write::selection;
use bugs::Bug;
use committer::published::Published;
use compute_client::peek::Bound;
use compute_client::plan::{PeekPlan, peek_plan};
use engine::SessionInfo;
use engine::effort::Effort;
use engine::temporal::query_reads_now;
use repr::sqlstate::SqlState;
use repr::{Datum, PgType, Timestamp};
use sql::bind::Params;
use sql::names::temporary_schema;
use sql::plan::lift::{self, LiteralKind};
use sql::plan::{
    CreateTableAsPlan, ExplainPlan, Plan, PlanContext, ReadPlan, ReadThenWriteKind, Returning, SelectPlan,
};
use sql::vars::canonical_name;
use sql_functions::row::plan_has_long;
use sql_functions::waiting::query_waits;
use sql_syntax::ast::{Deferral, DiscardTarget, SetValue, Statement, TransactionModes};
use sql_syntax::parser::ParsedStatement;
use std::sync::Arc;

/// The parameter that says whether an index is read on the connection's own thread.
const FAST_PATH: &str = "enable_frontend_peek_sequencing";
/// How often a statement is planned again because the catalog changed under it.
const REPLANS_MAX: usize = 10;

impl Session {
    /// Runs a plan if that needs no waiting; `None` if it does. What fails, fails the transaction.
    pub(crate) fn run_at_once(
        &mut self,
        plan: &CachedPlan,
        params: &[Datum<'static>],
    ) -> Option<Result<Response, AdapterError>> {
        let now = self.now_fast().filter(|_| plan.only_reads() && (plan.is_short || self.is_elsewhere))?;
        let result = self.answer(plan, params, now);
        (!is_elsewhere(&result)).then(|| self.concluded(result))
    }

    /// Runs a plan as part of a statement.
    pub(crate) async fn run(
        &mut self,
        plan: &Arc<CachedPlan>,
        params: &[Datum<'static>],
        autocommit: Autocommit,
    ) -> Result<Response, AdapterError> {
        self.stay_if(plan.is_short)?;
        let _memory = match &plan.exec {
            // The query has it.
            Exec::Select(_) => None,
            _ => self.memory_for_params(params)?,
        };
        if !plan.only_reads() {
            // Others see it.
            match may_have_password(plan.name, &plan.text) {
                true => self.begin_statement(&Arc::from(plan.name)),
                false => self.begin_statement(&plan.text),
            }
        }
        match &plan.exec {
            Exec::Select(select) if select.select.locks.is_some() => {
                Box::pin(self.answer_locked(plan, select, params)).await
            }
            Exec::Empty | Exec::Select(_) => {
                let now = self.now().await?;
                self.answer(plan, params, now)
            }
            Exec::ReadThenWrite(write) => {
                self.check_transaction(plan)?;
                let bound = Bound { values: params, types: &plan.param_types };
                // What writes is large, and takes its time: a query's future need not have room for it.
                Box::pin(self.read_then_write(write, plan.desc.as_ref(), bound, autocommit)).await
            }
            Exec::Unplanned(statement) => {
                let result = Box::pin(self.run_parsed(statement, autocommit)).await;
                result.map_err(|error| error.locate(&plan.text))
            }
            Exec::Other(other) => {
                self.check_transaction(plan)?;
                let bound = Bound { values: params, types: &plan.param_types };
                if let Some(select) = selected(other).filter(|select| select.locks.is_some()) {
                    let exec = self.select_exec(select.clone());
                    if let Selected::Skipped = Box::pin(self.lock_selected(&exec, bound)).await? {
                        let message =
                            "SKIP LOCKED of a row that is locked, but in a SELECT of its own, is not supported";
                        return Err(AdapterError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                    }
                    self.time_to_write(&exec.select.depends_on).await?;
                }
                Box::pin(self.run_other(plan, other, bound, autocommit)).await
            }
        }
    }

    /// Answers a query that locks the rows that it gives.
    async fn answer_locked(
        &mut self,
        plan: &CachedPlan,
        select: &SelectExec,
        params: &[Datum<'static>],
    ) -> Result<Response, AdapterError> {
        self.check_transaction(plan)?;
        let bound = Bound { values: params, types: &plan.param_types };
        match self.lock_selected(select, bound).await? {
            Selected::Locked => {
                let now = self.time_to_write(&select.select.depends_on).await?;
                self.answer(plan, params, now)
            }
            Selected::Skipped => {
                let desc = plan.desc.clone().ok_or_else(|| AdapterError::internal("a SELECT without columns"))?;
                Ok(Response::rows(desc, Rows::ready(Vec::new()), RowsTag::Select))
            }
        }
    }

    /// Answers a query.
    pub(crate) fn answer(
        &mut self,
        plan: &CachedPlan,
        params: &[Datum<'static>],
        now: Timestamp,
    ) -> Result<Response, AdapterError> {
        self.check_transaction(plan)?;
        let Exec::Select(select) = &plan.exec else { return Ok(Response::Empty) };
        if select.peek.is_none() {
            self.begin_statement(&plan.text);
        }
        let rows = self.select(select, Bound { values: params, types: &plan.param_types }, now)?;
        if select.peek.is_some() && !rows.is_ready() {
            // What is waited for can be seen.
            self.begin_statement(&plan.text);
        }
        let desc = plan.desc.clone().ok_or_else(|| AdapterError::internal("a SELECT without columns"))?;
        let tag = if plan.name == "SHOW" { RowsTag::Show } else { RowsTag::Select };
        Ok(Response::rows(desc, rows, tag))
    }

    #[expect(clippy::too_many_lines, reason = "a line or two for each statement")]
    async fn run_other(
        &mut self,
        cached: &CachedPlan,
        plan: &Plan,
        params: Bound<'_>,
        autocommit: Autocommit,
    ) -> Result<Response, AdapterError> {
        match plan {
            Plan::Select(_) | Plan::ReadThenWrite(_) => Err(AdapterError::internal("planned as something of its own")),
            Plan::Read(read) => {
                let rows = self.read(read, params).await?;
                let desc = cached.desc.clone().ok_or_else(|| AdapterError::internal("a query without columns"))?;
                Ok(Response::rows(desc, rows, RowsTag::Select))
            }
            Plan::Insert(insert) => self.insert(insert, cached.desc.as_ref(), params, autocommit).await,
            Plan::CreateTableAs(CreateTableAsPlan { table, source: Some(source) }) => {
                self.create_table_as(plan, (table, source), cached.revision).await
            }
            Plan::TruncateSeveral(truncate) => {
                self.truncate_several((truncate, cached.revision), params, autocommit).await
            }
            Plan::CopyFrom(copy) => self.copy_from(copy).await,
            Plan::CopyTo(copy) => {
                let rows = self.read(&copy.read, params).await?;
                let desc = RowDesc::new(Arc::clone(&copy.read.desc), Vec::new());
                Ok(Response::CopyOut { desc, rows, options: Box::new(copy.options.clone()) })
            }
            Plan::Explain(explain) => self.explain(explain, cached.desc.as_ref(), params).await,
            Plan::ShowVariable { variable, .. } => self.show_variable(variable, cached.desc.as_ref()),
            Plan::ShowIsolationLevel { .. } => self.show_isolation_level(cached.desc.as_ref()),
            Plan::ShowAll { .. } => self.show_all(cached.desc.as_ref()),
            Plan::Set { variable, value, .. } if variable.as_str() == FAST_PATH => {
                // A system parameter, which a session may override for itself to compare the two ways of reading.
                let (_, value) = sql::vars::SystemVars::check(FAST_PATH, value)?;
                self.settings.fast_path = value.map(|value| value == "on");
                Ok(Response::Complete(Tag::Plain("SET")))
            }
            Plan::Set { variable, value, local } => {
                if let (Some("role"), SetValue::Values(names)) = (canonical_name(variable), value) {
                    names.iter().try_for_each(|name| self.allowed_role(name).map(drop))?;
                }
                if *local && self.transaction.status == Status::Idle {
                    self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, "SET LOCAL can only be used in transaction blocks");
                }
                let notices = self.settings.vars.set(variable, value, *local)?;
                self.notices.extend(notices.into_iter().map(Notice::from));
                self.refresh_settings();
                Ok(Response::Complete(Tag::Plain("SET")))
            }
            Plan::SetTransaction(modes) => {
                if self.transaction.status == Status::Idle {
                    let message = "SET TRANSACTION can only be used in transaction blocks";
                    self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, message);
                } else {
                    self.settings.vars.set_transaction_modes(modes);
                    self.refresh_settings();
                }
                Ok(Response::Complete(Tag::Plain("SET")))
            }
            Plan::SetConstraints { constraints, to } => {
                if self.transaction.status == Status::Idle {
                    let message = "SET CONSTRAINTS can only be used in transaction blocks";
                    self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, message);
                } else {
                    self.transaction.defer(constraints.as_deref(), *to);
                    if *to == Deferral::Immediate {
                        self.check_deferred().await?;
                    }
                }
                Ok(Response::Complete(Tag::Plain("SET CONSTRAINTS")))
            }
            Plan::SetSessionCharacteristics(modes) => {
                self.settings.vars.set_session_characteristics(modes);
                self.refresh_settings();
                Ok(Response::Complete(Tag::Plain("SET")))
            }
            Plan::Reset(Some(variable)) if variable.as_str() == FAST_PATH => {
                self.settings.fast_path = None;
                Ok(Response::Complete(Tag::Plain("RESET")))
            }
            Plan::Reset(variable) => {
                match variable {
                    Some(variable) => self.settings.vars.reset(variable)?,
                    None => self.settings.vars.reset_all(),
                }
                self.refresh_settings();
                Ok(Response::Complete(Tag::Plain("RESET")))
            }
            Plan::Begin(_) | Plan::Commit { .. } | Plan::Rollback { .. } if self.transaction.is_once => {
                let message = format!("{} cannot run in what is carried out once, which is a transaction", cached.name);
                Err(AdapterError::new(SqlState::INVALID_TRANSACTION_STATE, message))
            }
            Plan::Begin(modes) => Ok(self.begin(modes)),
            Plan::Commit { chain } => self.commit(*chain).await,
            Plan::Rollback { chain } => Ok(self.rollback(*chain)),
            Plan::Savepoint(name) => self.savepoint(name, cached.name),
            Plan::ReleaseSavepoint(name) => self.release_savepoint(name, cached.name),
            Plan::RollbackToSavepoint(name) => self.rollback_to_savepoint(name, cached.name),
            Plan::Prepare { name, types, statement, sql } => {
                self.prepare_statement(name, types.clone(), (statement, sql), &cached.text)?;
                Ok(Response::Complete(Tag::Plain("PREPARE")))
            }
            Plan::Execute { name, arguments } => {
                let plan = self.revalidated(name)?;
                let params = self.evaluate_arguments(&plan, name, arguments)?;
                Box::pin(self.run(&plan, &params, autocommit)).await
            }
            Plan::Deallocate(name) => match name {
                Some(name) if !self.statements.forget(name) => Err(unknown_statement(name)),
                Some(_) => Ok(Response::Complete(Tag::Plain("DEALLOCATE"))),
                None => {
                    self.statements.forget_all();
                    Ok(Response::Complete(Tag::Plain("DEALLOCATE ALL")))
                }
            },
            Plan::Declare { name, binary, hold, read } => {
                let made = self.made(name, Some(&cached.text));
                self.declare(name, (*hold, *binary, made), read, params, autocommit).await
            }
            Plan::Fetch { name, count, skip, timeout } => self.fetch(name, *count, *skip, *timeout).await,
            Plan::Close(name) => {
                match name {
                    Some(name) if self.statements.portals.remove(name).is_none() => return Err(unknown_cursor(name)),
                    Some(_) => {}
                    None => self.statements.portals.clear(),
                }
                Ok(Response::Complete(Tag::Plain(cached.name)))
            }
            Plan::Discard(target) => self.discard(*target, cached.name).await,
            Plan::Rebuild { id, tag, otherwise } => {
                let stopped = self.published().stopped_on(*id);
                match stopped.is_empty() {
                    true => self.notices.push(otherwise.clone().into()),
                    false => {
                        let (interrupt, shared) = (self.interrupt(), Arc::clone(&self.shared));
                        interrupt.guard(shared.committer.rebuild(stopped)).await??;
                    }
                }
                Ok(Response::Complete(Tag::Plain(tag)))
            }
            Plan::NoOp { tag, notices } => {
                self.notices.extend(notices.iter().cloned().map(Notice::from));
                Ok(Response::Complete(Tag::Plain(tag)))
            }
            ddl => self.ddl(ddl, cached.name, cached.revision).await,
        }
    }

    /// Plans a statement without parameters, and runs it.
    pub(crate) async fn run_parsed(
        &mut self,
        statement: &ParsedStatement,
        autocommit: Autocommit,
    ) -> Result<Response, AdapterError> {
        self.check_failed(&statement.ast)?;
        let is_ddl = is_ddl(&statement.ast);
        self.stay_if(!is_ddl)?;
        if autocommit == Autocommit::No && is_ddl && self.transaction.status == Status::Idle {
            // DDL is a transaction of its own: what came before it commits.
            self.end_implicit().await?;
            // Another statement begins, which may be given up.
            self.cancel().begin();
        }
        let shared = Arc::clone(&self.shared);
        let _turn = match is_ddl {
            true => Some(shared.changing.lock().await),
            false => None,
        };
        for _ in 0..REPLANS_MAX {
            let plan = self.plan(&statement.ast, &statement.sql, &mut Params::none())?;
            match self.run(&plan, &[], autocommit).await {
                Err(error) if is_stale(&error) => continue,
                result => return result,
            }
        }
        Err(crate::transaction::conflict())
    }

    // ---- planning

    /// What planning reads: this catalog, and the session as it is.
    pub(crate) fn plan_context<'a>(&'a self, published: &'a Published, session: &'a SessionInfo) -> PlanContext<'a> {
        PlanContext {
            engine: &self.shared.engine,
            catalog: published.state.as_ref(),
            session,
            role: self.rights.role.id,
            cluster: self.settings.vars.cluster(),
            from_tables: false,
        }
    }

    /// Plans a statement of the given text under the current catalog.
    pub(crate) fn plan(
        &mut self,
        statement: &Statement,
        text: &str,
        params: &mut Params,
    ) -> Result<Arc<CachedPlan>, AdapterError> {
        self.refresh_settings();
        let published = self.published();
        let effort = Arc::new(if self.is_elsewhere { Effort::any() } else { Effort::small() });
        let info = SessionInfo { effort: Some(Arc::clone(&effort)), ..self.info(0) };
        let ctx = self.plan_context(&published, &info);
        let planned = sql::plan::plan(&ctx, statement, params);
        self.stay_if(!effort.has_refused())?;
        let plan = planned?;
        self.shared.metrics.plan_misses.inc();
        Ok(Arc::new(self.cached_plan(plan, statement.name(), text, &published, params)?))
    }

    fn cached_plan(
        &self,
        plan: Plan,
        name: &'static str,
        text: &str,
        published: &Published,
        params: &Params,
    ) -> Result<CachedPlan, AdapterError> {
        let of_returning = |returning: &Option<Returning>| {
            returning.as_ref().map(|returning| RowDesc::new(Arc::clone(&returning.desc), returning.origins.clone()))
        };
        let desc = match &plan {
            Plan::Fetch { name, skip: false, .. } => {
                self.statements.portals.get(name).and_then(|portal| portal.plan.desc.clone())
            }
            Plan::Execute { name, .. } => {
                self.statements.prepared.get(name).and_then(|prepared| prepared.plan.desc.clone())
            }
            Plan::Select(select) => Some(RowDesc::new(Arc::clone(&select.desc), select.origins.clone())),
            Plan::Read(read) => Some(RowDesc::new(Arc::clone(&read.desc), read.origins().to_vec())),
            Plan::Insert(insert) => of_returning(&insert.returning),
            Plan::ReadThenWrite(write) => of_returning(&write.returning),
            Plan::Explain(ExplainPlan { desc, .. })
            | Plan::ShowVariable { desc, .. }
            | Plan::ShowIsolationLevel { desc }
            | Plan::ShowAll { desc } => Some(RowDesc::new(Arc::clone(desc), Vec::new())),
            _ => None,
        };
        let params = params.finish()?;
        let param_types = params.iter().map(PgType::data_type).collect();
        let exec = match plan {
            // Time has to come to now first, for which it waits.
            Plan::Select(select) if query_reads_now(&select.logical) => Exec::Other(Plan::Read(ReadPlan::now(select))),
            Plan::Select(select) => Exec::Select(self.select_exec_under(select, published)),
            Plan::ReadThenWrite(plan) => {
                let select = self.select_exec_under(selection(&plan), published);
                let reads_now = query_reads_now(&plan.selection);
                Exec::ReadThenWrite(Box::new(ReadThenWriteExec { plan, select, reads_now }))
            }
            other => Exec::Other(other),
        };
        let has_index = |select: &SelectPlan| self.select_exec_under(select.clone(), published).peek.is_some();
        let is_short = is_short(&exec, has_index, |table| published.has_long_checks(table));
        let text = Arc::from(text);
        Ok(CachedPlan { revision: published.state.revision(), params, param_types, desc, name, text, exec, is_short })
    }

    /// Looks for an index that answers a query.
    pub(crate) fn select_exec(&self, select: SelectPlan) -> SelectExec {
        let published = self.published();
        self.select_exec_under(select, &published)
    }

    fn select_exec_under(&self, select: SelectPlan, published: &Published) -> SelectExec {
        let indexes = |id| published.indexes_on(id).to_vec();
        // This thread must not wait.
        let stays = |_: &PeekPlan| !query_waits(&select.logical) && !plan_has_long(&select.logical);
        let peek = peek_plan(&select.logical, &indexes, self.settings.vars.cluster()).filter(stays).map(Arc::new);
        SelectExec { select, peek }
    }

    /// The cached plan of a simple query and the values of its literals; makes one if the query can have one.
    ///
    /// Errors are those of literals (`out of range`). Where planning fails, the answer is `None`: the statement is then
    /// parsed as it stands, so that errors speak of its own text.
    pub(crate) fn cached(&mut self, sql: &str) -> Result<Option<(Arc<CachedPlan>, Vec<Datum<'static>>)>, AdapterError> {
        if self.transaction.staged().is_some() {
            // What only this transaction knows is not for the cache.
            return Ok(None);
        }
        let mut lifted = std::mem::take(&mut self.statements.lifted);
        let result = if lift::lift(sql, &mut lifted) { self.look_up(sql, &lifted) } else { Ok(None) };
        self.statements.lifted = lifted;
        result
    }

    fn look_up(
        &mut self,
        sql: &str,
        lifted: &lift::Lifted,
    ) -> Result<Option<(Arc<CachedPlan>, Vec<Datum<'static>>)>, AdapterError> {
        let revision = self.revision();
        if let Some(shape) = self.statements.plans.get(&lifted.shape)
            && let Some(plan) = shape.find(sql, lifted)
            && (plan.revision == revision || bugs::is(Bug::PlanOutlivesDdl))
        {
            self.shared.metrics.plan_hits.inc();
            let values = self.literal_values(sql, lifted, &shape.roles, plan)?;
            return Ok(Some((Arc::clone(plan), values)));
        }
        let texts: Vec<&str> = lifted.literals.iter().map(|literal| &sql[literal.range.clone()]).collect();
        let kinds: Vec<LiteralKind> = lifted.literals.iter().map(|literal| literal.kind).collect();
        let Ok(parsed) = lift::parse_lifted(&lifted.shape, &texts, &kinds) else { return Ok(None) };
        let mut roles = Roles { parameters: vec![None; lifted.literals.len()] };
        let mut params = Params::declared(Vec::new());
        for parameter in &parsed.parameters {
            roles.parameters[parameter.literal] = Some(parameter.number - 1);
            params.types.push(parameter.ty.clone());
        }
        let settings = Arc::clone(&self.settings.key);
        let shape = self.statements.plans.entry(&lifted.shape, roles);
        let key = shape.shared_key(&settings, sql, lifted);
        let plan = match self.shared.plans.get(&key, revision) {
            Some(plan) => {
                self.shared.metrics.plan_hits.inc();
                plan
            }
            None => {
                let plan = match self.plan(&parsed.statement, &lifted.shape, &mut params) {
                    Ok(plan) => plan,
                    Err(error @ AdapterError::Elsewhere) => return Err(error),
                    Err(_) => return Ok(None),
                };
                let entries = self.shared.plans.insert(key, Arc::clone(&plan));
                self.shared.metrics.plan_entries.set(i64::try_from(entries).unwrap_or(i64::MAX));
                plan
            }
        };
        let roles = Roles {
            parameters: self.statements.plans.get(&lifted.shape).map_or(Vec::new(), |s| s.roles.parameters.clone()),
        };
        let values = self.literal_values(sql, lifted, &roles, &plan);
        self.statements.plans.entry(&lifted.shape, roles).insert(sql, lifted, Arc::clone(&plan));
        match values {
            Ok(values) => Ok(Some((plan, values))),
            Err(_) => Ok(None),
        }
    }

    /// The values of a text's literals in the types of the plan's parameters.
    fn literal_values(
        &self,
        sql: &str,
        lifted: &lift::Lifted,
        roles: &Roles,
        plan: &CachedPlan,
    ) -> Result<Vec<Datum<'static>>, AdapterError> {
        let mut values = vec![Datum::Null; plan.params.len()];
        for (literal, role) in lifted.literals.iter().zip(&roles.parameters) {
            if let Some(parameter) = role {
                let text = lift::literal_text(&sql[literal.range.clone()], literal.kind);
                values[*parameter] = self.decode_text(&plan.params[*parameter], &text)?;
            }
        }
        Ok(values)
    }

    // ---- transactions

    pub(crate) fn begin(&mut self, modes: &TransactionModes) -> Response {
        if self.transaction.status == Status::Idle {
            self.transaction.status = Status::InBlock;
            self.transaction.started_us = Some(self.now_us());
            self.settings.vars.begin_transaction();
        } else {
            self.warn(SqlState::ACTIVE_SQL_TRANSACTION, "there is already a transaction in progress");
        }
        self.settings.vars.set_transaction_modes(modes);
        self.refresh_settings();
        Response::Complete(Tag::Plain("BEGIN"))
    }

    async fn commit(&mut self, chain: bool) -> Result<Response, AdapterError> {
        match self.transaction.status {
            Status::Failed => Ok(self.rollback(chain)),
            status => {
                if status == Status::Idle {
                    self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
                }
                let result = self.end_implicit().await;
                self.settings.vars.end_transaction(result.is_ok());
                self.refresh_settings();
                result?;
                if chain {
                    self.begin(&TransactionModes::default());
                }
                Ok(Response::Complete(Tag::Plain("COMMIT")))
            }
        }
    }

    /// Ends a block by COMMIT.
    pub(crate) async fn commit_block(&mut self) -> Result<(), AdapterError> {
        self.commit(false).await.map(drop)
    }

    /// Ends a block by ROLLBACK.
    pub(crate) fn roll_back_block(&mut self) {
        self.rollback(false);
    }

    fn rollback(&mut self, chain: bool) -> Response {
        if self.transaction.status == Status::Idle {
            self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
        }
        self.transaction = Transaction::new();
        self.given.lock().undone(None);
        self.statements.end_transaction();
        self.settings.vars.end_transaction(false);
        self.refresh_settings();
        if chain {
            self.begin(&TransactionModes::default());
        }
        Response::Complete(Tag::Plain("ROLLBACK"))
    }

    fn savepoint(&mut self, name: &str, tag: &'static str) -> Result<Response, AdapterError> {
        self.check_in_block("SAVEPOINT")?;
        self.transaction.save(name, &self.settings.vars);
        Ok(Response::Complete(Tag::Plain(tag)))
    }

    fn release_savepoint(&mut self, name: &str, tag: &'static str) -> Result<Response, AdapterError> {
        self.check_in_block("RELEASE SAVEPOINT")?;
        let at = self.transaction.savepoint(name)?;
        self.transaction.release(at);
        for portal in self.statements.portals.values_mut() {
            portal.savepoints = portal.savepoints.min(at);
        }
        Ok(Response::Complete(Tag::Plain(tag)))
    }

    fn rollback_to_savepoint(&mut self, name: &str, tag: &'static str) -> Result<Response, AdapterError> {
        self.check_in_block("ROLLBACK TO SAVEPOINT")?;
        let at = self.transaction.savepoint(name)?;
        self.settings.vars.restore(self.transaction.go_back(at));
        self.given.lock().undone(self.transaction.staged().map(Arc::as_ref));
        self.statements.portals.retain(|_, portal| portal.savepoints <= at);
        self.refresh_settings();
        Ok(Response::Complete(Tag::Plain(tag)))
    }

    fn check_in_block(&self, what: &str) -> Result<(), AdapterError> {
        if self.transaction.status != Status::Idle {
            return Ok(());
        }
        let message = format!("{what} can only be used in transaction blocks");
        Err(AdapterError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message))
    }

    fn check_transaction(&self, plan: &CachedPlan) -> Result<(), AdapterError> {
        if self.transaction.status == Status::Failed && !ends_transaction(plan) {
            return Err(failed_transaction());
        }
        let refused = |name: &str| {
            let message = format!("cannot execute {name} in a read-only transaction");
            Err(AdapterError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message))
        };
        if self.settings.vars.read_only() && locks(&plan.exec) {
            return refused("SELECT FOR UPDATE/SHARE");
        }
        if self.settings.vars.read_only() && writes(&plan.exec, &temporary_schema(self.backend_key().0)) {
            return refused(plan.name);
        }
        Ok(())
    }

    pub(crate) fn check_failed(&self, statement: &Statement) -> Result<(), AdapterError> {
        let ends = matches!(
            statement,
            Statement::Commit { .. } | Statement::Rollback { .. } | Statement::RollbackToSavepoint(_)
        );
        if self.transaction.status == Status::Failed && !ends { Err(failed_transaction()) } else { Ok(()) }
    }

    async fn discard(&mut self, target: DiscardTarget, name: &'static str) -> Result<Response, AdapterError> {
        match target {
            DiscardTarget::All => {
                if self.transaction.status != Status::Idle {
                    let message = "DISCARD ALL cannot run inside a transaction block";
                    return Err(AdapterError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
                }
                self.statements.portals.clear();
                self.statements.forget_all();
                self.settings.vars.reset_all();
                self.settings.vars.reset("role")?;
                self.refresh_settings();
                self.given.lock().discard();
                self.locks.go_back(0);
                self.drop_temporary().await?;
            }
            DiscardTarget::Plans => self.statements.plans.clear(),
            DiscardTarget::Temporary => {
                if self.settings.has_temporary && self.transaction.status != Status::Idle {
                    return Err(AdapterError::new(
                        SqlState::FEATURE_NOT_SUPPORTED,
                        "DISCARD TEMP in a transaction block is not supported",
                    ));
                }
                self.drop_temporary().await?;
            }
            DiscardTarget::Sequences => self.given.lock().discard(),
        }
        Ok(Response::Complete(Tag::Plain(name)))
    }

    pub(crate) fn warn(&mut self, sqlstate: SqlState, message: &str) {
        self.notices.push(Notice::warning(sqlstate, message));
    }
}

pub(crate) fn ends_transaction(plan: &CachedPlan) -> bool {
    matches!(&plan.exec, Exec::Other(Plan::Commit { .. } | Plan::Rollback { .. } | Plan::RollbackToSavepoint(_)))
}

/// Whether what a plan returns is the affair of the cursor or statement that has a name when it runs.
pub(crate) fn returns_by_name(plan: &CachedPlan) -> bool {
    matches!(&plan.exec, Exec::Other(Plan::Fetch { .. } | Plan::Execute { .. }))
}

/// The query of what is not just a query.
fn selected(plan: &Plan) -> Option<&SelectPlan> {
    match plan {
        Plan::Read(read) => Some(&read.select),
        Plan::Declare { read, .. } => Some(&read.select),
        Plan::CopyTo(copy) => Some(&copy.read.select),
        _ => None,
    }
}

/// Whether a query asks for locks on rows that others see.
fn locks(exec: &Exec) -> bool {
    match exec {
        Exec::Select(exec) => exec.select.locks.is_some(),
        Exec::Other(other) => selected(other).is_some_and(|select| select.locks.is_some()),
        _ => false,
    }
}

/// Whether a plan changes the catalog, or tables other than rows of those in the session's schema of temporary ones.
fn writes(exec: &Exec, temporary: &str) -> bool {
    match exec {
        Exec::Empty | Exec::Select(_) | Exec::Unplanned(_) => false,
        Exec::ReadThenWrite(exec) => {
            exec.plan.kind == ReadThenWriteKind::Truncate || exec.plan.name.schema != temporary
        }
        Exec::Other(Plan::Insert(plan)) => plan.name.schema != temporary,
        Exec::Other(Plan::CopyFrom(plan)) => plan.name.schema != temporary,
        Exec::Other(Plan::TruncateSeveral(_)) => true,
        Exec::Other(plan) => plan.changes_catalog(),
    }
}

pub(crate) fn is_ddl(statement: &Statement) -> bool {
    let name = statement.name();
    ["CREATE", "ALTER", "DROP", "GRANT", "REVOKE", "COMMENT"].iter().any(|verb| name.starts_with(verb))
}

pub(crate) fn failed_transaction() -> AdapterError {
    AdapterError::new(
        SqlState::IN_FAILED_SQL_TRANSACTION,
        "current transaction is aborted, commands ignored until end of transaction block",
    )
}

pub(crate) fn unknown_statement(name: &str) -> AdapterError {
    let message = match name {
        "" => "unnamed prepared statement does not exist".to_owned(),
        name => format!("prepared statement \"{name}\" does not exist"),
    };
    AdapterError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
}

pub(crate) fn unknown_cursor(name: &str) -> AdapterError {
    AdapterError::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist"))
}
