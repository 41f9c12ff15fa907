//! EXPLAIN: which executor answers, by which index and key, at which time, and the plan.

use crate::description::RowDesc;
use crate::error::AdapterError;
use crate::plan_cache::SelectExec;
use crate::reading::select::bind;
use crate::reading::show::text_rows;
use crate::response::{Response, RowsTag};
use crate::session::Session;
use crate::writing::read_then_write::selection;
use committer::plans::{described, maintained, maintained_view};
use compute_client::peek::Bound;
use compute_client::plan::lir::Lir;
use compute_client::plan::reuse::reuse;
use compute_client::plan::share::share;
use datafusion::logical_expr::LogicalPlan;
use engine::temporal::query_reads_now;
use engine::{Analysis, PlanFormat};
use repr::sqlstate::SqlState;
use repr::{GlobalId, Timestamp};
use sql::plan::{
    CatalogView, ExplainPlan, Explained, InsertSource, ItemKind, Plan, PlanContext, SelectPlan, plan_view,
};
use sql_syntax::ast::{ExplainFormat, ExplainStage};
use std::sync::Arc;
use std::time::Instant;

/// Rows of a query that is analyzed which are pulled at once.
const ANALYZED_AT_ONCE: usize = 8_192;

impl Session {
    /// Runs an EXPLAIN.
    pub(crate) async fn explain(
        &mut self,
        plan: &ExplainPlan,
        desc: Option<&Arc<RowDesc>>,
        params: Bound<'_>,
    ) -> Result<Response, AdapterError> {
        let inner = match &plan.of {
            Explained::Plan(inner) => inner.as_ref(),
            Explained::Object(id) => {
                let text = self.explain_object(plan.stage, *id)?;
                let lines = text.lines().map(str::to_owned).collect();
                return text_rows(desc, RowsTag::Explain, vec![lines]);
            }
        };
        let text = match (&plan.stage, inner) {
            (ExplainStage::Timestamp, Plan::Select(select)) => self.explain_timestamp(select).await?,
            (ExplainStage::Analyze, Plan::Select(select)) => {
                let exec = self.select_exec(select.clone());
                return text_rows(desc, RowsTag::Explain, vec![self.analyze(&exec, params, plan).await?]);
            }
            (ExplainStage::Analyze, other) => {
                let message = format!("EXPLAIN ANALYZE of this statement is not supported: {}", kind(other));
                return Err(AdapterError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            (_, Plan::Select(select)) => {
                let exec = self.select_exec(select.clone());
                self.explain_select(plan.stage, &exec, params).await?
            }
            (ExplainStage::Timestamp, _) => {
                let message = "EXPLAIN TIMESTAMP is for SELECT only";
                return Err(AdapterError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            (_, Plan::Insert(insert)) => match &insert.source {
                InsertSource::Values { rows } => {
                    format!("Insert into {}\n  {} row(s) of values", insert.name, rows.len())
                }
                InsertSource::Query(query) => format!("Insert into {}\n{}", insert.name, indent(query)),
            },
            (stage, Plan::ReadThenWrite(write)) => {
                let exec = self.select_exec(selection(write));
                let read = self.explain_select(*stage, &exec, params).await?;
                format!("{:?} on {}\n{}", write.kind, write.name, read)
            }
            (_, other) => {
                let message = format!("EXPLAIN of this statement is not supported: {}", kind(other));
                return Err(AdapterError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
        };
        let lines = match plan.format {
            ExplainFormat::Text => text.lines().map(str::to_owned).collect(),
            ExplainFormat::Json => {
                return Err(AdapterError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "EXPLAIN (FORMAT JSON) is not supported",
                ));
            }
        };
        std::future::ready(text_rows(desc, RowsTag::Explain, vec![lines])).await
    }

    async fn explain_select(
        &mut self,
        stage: ExplainStage,
        exec: &SelectExec,
        params: Bound<'_>,
    ) -> Result<String, AdapterError> {
        let logical = bind(&exec.select.logical, params)?;
        Ok(match stage {
            ExplainStage::Optimized => logical.display_indent().to_string(),
            _ => {
                let (executor, index) = self.executor(exec);
                let is_adhoc = index.is_none();
                let index = index.map_or_else(String::new, |index| format!("\nIndex: {index}"));
                let plan = match stage {
                    ExplainStage::Physical if is_adhoc => {
                        let as_of = self.now().await?;
                        let logical = self.with_own_writes(logical, &exec.select.depends_on)?;
                        let (query, interrupt) = (self.query(logical, as_of), self.interrupt());
                        let text = interrupt.guard(query.explain()).await??;
                        indented(&text)
                    }
                    _ => indent(&logical),
                };
                format!("Executor: {executor}{index}\n{plan}")
            }
        })
    }

    /// Which executor answers a query, and by what of which index if it reads that alone.
    fn executor(&self, exec: &SelectExec) -> (&'static str, Option<String>) {
        match exec.peek.as_ref().filter(|_| self.may_peek(exec)) {
            Some(peek) => {
                let how = if peek.is_direct() { "peek" } else { "peek, evaluated" };
                (how, Some(peek.describe()))
            }
            None if exec.select.depends_on.is_empty() => ("constant", None),
            None => ("ad hoc", None),
        }
    }

    /// Runs a query, and says what was done for its rows, which are dropped: line by line, or as one document.
    async fn analyze(
        &mut self,
        exec: &SelectExec,
        params: Bound<'_>,
        ExplainPlan { format, verbose, .. }: &ExplainPlan,
    ) -> Result<Vec<String>, AdapterError> {
        if query_reads_now(&exec.select.logical) {
            self.come_to_now().await?;
        }
        let (executor, index) = self.executor(exec);
        let peeked = if index.is_some() { self.analyze_peek(exec, params, *format).await? } else { None };
        let (executor, index, found) = match peeked {
            Some(found) => (executor, index, found),
            None => {
                let format = match format {
                    ExplainFormat::Json => PlanFormat::Json,
                    ExplainFormat::Text if *verbose => PlanFormat::Partitions,
                    ExplainFormat::Text => PlanFormat::Text,
                };
                let executor = if exec.select.depends_on.is_empty() { "constant" } else { "ad hoc" };
                (executor, None, self.analyze_adhoc(&exec.select, params, format).await?)
            }
        };
        shown(executor, index.as_deref(), &found, *format)
    }

    /// The same by its index; `None` if that is not how it is answered now, because its rows are too many or not there yet.
    async fn analyze_peek(
        &mut self,
        exec: &SelectExec,
        params: Bound<'_>,
        format: ExplainFormat,
    ) -> Result<Option<Analysis>, AdapterError> {
        let started = Instant::now();
        let now = self.now().await?;
        let Some(peek) = &exec.peek else { return Ok(None) };
        let Some(mut pulled) = self.peek(exec, peek, params, now)? else { return Ok(None) };
        let mut rows = 0;
        while let Some(chunk) = pulled.next(ANALYZED_AT_ONCE).await? {
            rows += chunk.len() as u64;
        }
        let took_ms = started.elapsed().as_secs_f64() * 1e3;
        let logical = bind(&exec.select.logical, params)?;
        let plan = match format {
            ExplainFormat::Text => logical.display_indent().to_string(),
            ExplainFormat::Json => logical.display_pg_json().to_string(),
        };
        Ok(Some(Analysis { plan, rows, took_ms }))
    }

    /// How a view, materialized or not, or the relation of an index, is maintained, or would be if it were indexed.
    fn explain_object(&self, stage: ExplainStage, id: GlobalId) -> Result<String, AdapterError> {
        let published = self.published();
        let missing = || AdapterError::internal(format!("{id} was dropped"));
        let item = published.state.item(id).ok_or_else(missing)?;
        let (on, heading) = match &item.kind {
            ItemKind::Index(index) => {
                let on = published.state.item(index.on).ok_or_else(missing)?;
                let key: Vec<String> = index
                    .keys
                    .iter()
                    .map(|key| match key.column {
                        Some(column) => on.desc.columns[column].name.clone(),
                        None => key.sql.clone(),
                    })
                    .collect();
                let heading = format!("{} on {}, arranged by ({}):\n", item.name, on.name, key.join(", "));
                (on, heading)
            }
            _ => (Arc::clone(&item), format!("{}:\n", item.name)),
        };
        let info = self.info(0);
        let ctx = PlanContext { role: on.owner, from_tables: true, ..self.plan_context(&published, &info) };
        // What it is maintained in, if it is, can be read if it is older.
        let cluster = match item.cluster().and_then(|cluster| published.state.cluster(cluster)) {
            Some(cluster) => cluster.name.clone(),
            None => self.settings.vars.cluster().to_owned(),
        };
        let reader = if item.cluster().is_some() { id } else { GlobalId::Transient(0) };
        let reused = |plan: Lir| {
            let arrangements = |table| {
                let indexes = published.indexes_on(table).iter().filter(|_| published.tables.contains_key(&table));
                let here = indexes.filter(|index| index.cluster == cluster && index.handle.id < reader);
                let columns = |key: &[Option<usize>]| key.iter().copied().collect::<Option<Vec<_>>>();
                let by_columns = here.filter_map(|index| Some((index.handle.id, columns(&index.key)?)));
                described(&published, table, by_columns)
            };
            share(reuse(plan, &arrangements)).to_string()
        };
        // An index on a materialized view reads its rows; the materialized view itself follows from its query.
        let by_query = matches!(on.kind, ItemKind::View(_)) || item.view().is_some();
        let text = match stage {
            ExplainStage::Optimized if by_query => plan_view(&ctx, &on)?.logical.display_indent().to_string(),
            _ if by_query => reused(maintained_view(&ctx, &on)?),
            _ => reused(maintained(&ctx, &on)?),
        };
        Ok(heading + &indented(&text))
    }

    async fn explain_timestamp(&mut self, select: &SelectPlan) -> Result<String, AdapterError> {
        let as_of = self.read_ts_for(&select.depends_on).await?;
        let oracle = self.shared.oracle.known_ts();
        let published = self.published();
        let mut lines = vec![
            format!("                query timestamp: {}", show(as_of)),
            format!("          oracle read timestamp: {}", show(oracle)),
            format!("            isolation level: {:?}", self.settings.vars.isolation()),
        ];
        for id in &select.depends_on {
            let Some(item) = published.state.item(*id) else { continue };
            lines.push(format!("\nsource {} ({id}):", item.name));
            for index in published.indexes_on(*id) {
                let (since, upper) = (index.handle.since(), index.handle.upper());
                lines.push(format!(
                    "  index {}: read frontier [{}], write frontier [{}]",
                    index.name,
                    show(since),
                    show(upper)
                ));
            }
            if let (GlobalId::User(_), Some(stats)) = (id, self.shared.persist.shard_stats((*id).into())) {
                lines.push(format!(
                    "  storage: read frontier [{}], write frontier [{}]",
                    show(stats.since),
                    show(stats.upper)
                ));
            }
        }
        Ok(lines.join("\n"))
    }
}

/// What a query did, as it is shown.
fn shown(
    executor: &str,
    index: Option<&str>,
    found: &Analysis,
    format: ExplainFormat,
) -> Result<Vec<String>, AdapterError> {
    if format == ExplainFormat::Json {
        let unreadable = |error: serde_json::Error| AdapterError::internal(format!("a plan is no JSON: {error}"));
        let mut document: serde_json::Value = serde_json::from_str(&found.plan).map_err(unreadable)?;
        if let Some(statement) = document.get_mut(0).and_then(serde_json::Value::as_object_mut) {
            statement.insert("Executor".to_owned(), executor.into());
            statement.extend(index.map(|index| ("Index".to_owned(), index.into())));
            statement.insert("Actual Rows".to_owned(), found.rows.into());
            statement.insert("Execution Time".to_owned(), found.took_ms.into());
        }
        return Ok(vec![serde_json::to_string_pretty(&document).map_err(unreadable)?]);
    }
    let mut lines = vec![format!("Executor: {executor}")];
    lines.extend(index.map(|index| format!("Index: {index}")));
    lines.extend(indented(&found.plan).lines().map(str::to_owned));
    lines.push(format!("Rows: {}", found.rows));
    lines.push(format!("Execution Time: {:.3} ms", found.took_ms));
    Ok(lines)
}

/// A timestamp as it is shown: milliseconds, with the microseconds as a fraction.
fn show(ts: Timestamp) -> String {
    format!("{}.{:03}", ts / 1_000, ts % 1_000)
}

fn indent(plan: &LogicalPlan) -> String {
    indented(&plan.display_indent().to_string())
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

fn kind(plan: &Plan) -> String {
    let debug = format!("{plan:?}");
    debug.split(['(', ' ', '{']).next().unwrap_or_default().to_owned()
}
