//! Recursion in a logical plan.
//!
//! WITH RECURSIVE is DataFusion's own node. WITH MUTUALLY RECURSIVE is [`LetRec`]: named queries that read each other, evaluated
//! in rounds until no round changes any of them. In a round each query reads what those before it gave in this round, and
//! what it and those behind it gave in the round before; in the first, nothing. What reads a named query is a scan of
//! a [`RecursiveTable`]. A single round is what queries need that are to be run once, and not wherever they are read.

use crate::error::SqlError;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::{DefaultTableSource, TableType, provider_as_source};
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, RecursiveQuery, TableScan, TableSource, UserDefinedLogicalNodeCore,
};
use datafusion::physical_plan::ExecutionPlan;
use repr::sqlstate::SqlState;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// After how many rounds a recursion ends that has not come to its end by itself, if none are named.
///
/// Enough for a path of ten thousand steps; for others it is better to be told than to wait.
pub const ROUNDS_DEFAULT: u64 = 10_000;

/// How long a recursion may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecursionLimit {
    /// How often its queries are evaluated.
    pub rounds: u64,
    /// What happens if the last round still changed something.
    pub then: AtLimit,
}

/// What happens to a recursion at its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AtLimit {
    /// What the last round gave is the result.
    Return,
    /// There is no result but an error.
    Error,
}

impl Default for RecursionLimit {
    fn default() -> RecursionLimit {
        RecursionLimit { rounds: ROUNDS_DEFAULT, then: AtLimit::Error }
    }
}

/// The rows of each named query: an extension of the session's configuration.
pub(crate) type Bindings = HashMap<String, Vec<RecordBatch>>;

/// Queries that read each other, and the one that reads them when they are done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Hash)]
pub struct LetRec {
    /// The names of the queries, unique in the plan.
    pub names: Vec<String>,
    /// Each query, with the columns of its table.
    pub values: Vec<LogicalPlan>,
    /// What is asked for.
    pub body: LogicalPlan,
    /// How many rounds there may be.
    pub limit: RecursionLimit,
}

impl LetRec {
    /// The node in a plan.
    pub fn plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    /// The node that a plan is, if it is one.
    pub fn of(plan: &LogicalPlan) -> Option<&LetRec> {
        match plan {
            LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
            _ => None,
        }
    }
}

impl UserDefinedLogicalNodeCore for LetRec {
    fn name(&self) -> &'static str {
        "LetRec"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        self.values.iter().chain([&self.body]).collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        self.body.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let then = if self.limit.then == AtLimit::Return { "return" } else { "error" };
        write!(f, "LetRec: {} limit={} ({then})", self.names.join(", "), self.limit.rounds)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<LetRec> {
        match inputs.pop() {
            Some(body) if inputs.len() == self.names.len() => {
                Ok(LetRec { names: self.names.clone(), values: inputs, body, limit: self.limit })
            }
            _ => internal_err!("a recursion has its queries and a body"),
        }
    }
}

/// What scans of a named query read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecursiveTable {
    /// The query's name.
    pub name: String,
    /// Its columns.
    pub schema: SchemaRef,
}

impl RecursiveTable {
    /// The table as the planner wants it.
    pub fn source(self) -> Arc<dyn TableSource> {
        provider_as_source(Arc::new(self))
    }
}

#[async_trait]
impl TableProvider for RecursiveTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let bindings = state.config().get_extension::<Bindings>();
        let rows = bindings.as_ref().and_then(|bindings| bindings.get(&self.name)).cloned().unwrap_or_default();
        Ok(MemorySourceConfig::try_new_exec(&[rows], Arc::clone(&self.schema), projection.cloned())?)
    }
}

/// The name of the recursive query that a source of a plan reads, of either kind.
pub fn reads(source: &Arc<dyn TableSource>) -> Option<&str> {
    let source = (source.as_ref() as &dyn std::any::Any).downcast_ref::<DefaultTableSource>()?;
    let provider = source.table_provider.as_ref() as &dyn std::any::Any;
    provider
        .downcast_ref::<RecursiveTable>()
        .map(|table| table.name.as_str())
        .or_else(|| provider.downcast_ref::<CteWorkTable>().map(CteWorkTable::name))
}

/// Whether any of these plans reads the recursive query of this name.
pub fn is_read<'p>(name: &str, plans: impl IntoIterator<Item = &'p LogicalPlan>) -> Result<bool> {
    let mut found = false;
    for plan in plans {
        plan.apply_with_subqueries(|node| {
            found |= matches!(node, LogicalPlan::TableScan(scan) if reads(&scan.source) == Some(name));
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
    }
    Ok(found)
}

/// The plan with other names for its recursive queries, so that it can become part of another plan.
pub fn renamed(plan: LogicalPlan, mut rename: impl FnMut(&str) -> String) -> Result<LogicalPlan> {
    let mut names: HashMap<String, String> = HashMap::new();
    plan.apply_with_subqueries(|node| {
        let defined = match node {
            LogicalPlan::RecursiveQuery(recursive) => std::slice::from_ref(&recursive.name),
            node => LetRec::of(node).map_or(&[][..], |recursion| &recursion.names),
        };
        for name in defined {
            names.insert(name.clone(), rename(name));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if names.is_empty() {
        return Ok(plan);
    }
    let renamed = plan.transform_up_with_subqueries(|node| {
        if let Some(recursion) = LetRec::of(&node) {
            let renamed = recursion.names.iter().map(|name| names[name].clone()).collect();
            return Ok(Transformed::yes(LetRec { names: renamed, ..recursion.clone() }.plan()));
        }
        Ok(match node {
            LogicalPlan::RecursiveQuery(recursive) => {
                let name = names[&recursive.name].clone();
                Transformed::yes(LogicalPlan::RecursiveQuery(RecursiveQuery { name, ..recursive }))
            }
            LogicalPlan::TableScan(scan) => match reads(&scan.source).and_then(|name| names.get(name)) {
                None => Transformed::no(LogicalPlan::TableScan(scan)),
                Some(name) => {
                    let schema = scan.source.schema();
                    let is_ours = is_recursive_table(&scan.source);
                    let source = match is_ours {
                        true => RecursiveTable { name: name.clone(), schema }.source(),
                        false => provider_as_source(Arc::new(CteWorkTable::new(name, schema))),
                    };
                    Transformed::yes(LogicalPlan::TableScan(TableScan { source, ..scan }))
                }
            },
            other => Transformed::no(other),
        })
    })?;
    Ok(renamed.data)
}

fn is_recursive_table(source: &Arc<dyn TableSource>) -> bool {
    let source = (source.as_ref() as &dyn std::any::Any).downcast_ref::<DefaultTableSource>();
    source.is_some_and(|source| (source.table_provider.as_ref() as &dyn std::any::Any).is::<RecursiveTable>())
}

/// What a recursion that did not come to an end says.
pub fn limit_reached(limit: RecursionLimit) -> SqlError {
    let message = format!("a recursive query did not come to an end within {} rounds", limit.rounds);
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).with_hint(
        "Use WITH MUTUALLY RECURSIVE (RECURSION LIMIT n) for more rounds, or (RETURN AT RECURSION LIMIT n) for what \
         there is after them.",
    )
}
