//! WITH queries that would give other rows if they were run again: they call `nextval`, `random()` and their like.
//!
//! As in Postgres, such a query is run once, whatever reads it, and not at all if nothing does. It is a query of a [`LetRec`]
//! of a single round around the whole statement, or around the subquery of an expression that is bound by itself.

use super::table_schema;
use crate::bind::columns::{columns_of, project, unique_names};
use crate::bind::subquery::free_references;
use crate::bind::{Binder, BoundQuery};
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use engine::error::SqlError;
use engine::recursion::{AtLimit, LetRec, RecursionLimit, RecursiveTable, is_read, reads};
use sql_functions::row::gives_new_values;

/// As often as they are run.
const ONCE: RecursionLimit = RecursionLimit { rounds: 1, then: AtLimit::Return };

impl Binder<'_> {
    /// What reads this query from now on. Errors: 0A000 if it cannot be run before all else.
    pub(super) fn once(&mut self, name: &str, bound: BoundQuery) -> Result<BoundQuery, SqlError> {
        if !free_references(&bound.plan)?.is_empty() || self.reads_recursion(&bound.plan)? {
            let message = "a WITH query with volatile functions that reads the query around it";
            return Err(SqlError::unsupported(message));
        }
        let table = self.qualifier(name);
        let source = RecursiveTable { name: table.clone(), schema: table_schema(&bound.columns) }.source();
        let scan = LogicalPlanBuilder::scan(table.clone(), source, None)?.build()?;
        let names = unique_names(bound.columns.iter().map(|column| column.name.as_str()));
        let exprs = columns_of(&bound).into_iter().map(|column| column.expr).collect();
        self.once.push((table, project(bound.plan, exprs, &names)?));
        Ok(BoundQuery { plan: scan, columns: bound.columns })
    }

    /// Whether a query reads one that is recursive and around it.
    fn reads_recursion(&self, plan: &LogicalPlan) -> Result<bool> {
        let (mut read, mut known) = (Vec::new(), Vec::new());
        plan.apply_with_subqueries(|node| {
            match node {
                LogicalPlan::TableScan(scan) => read.extend(reads(&scan.source).map(str::to_owned)),
                LogicalPlan::RecursiveQuery(recursive) => known.push(recursive.name.clone()),
                node => known.extend(LetRec::of(node).into_iter().flat_map(|recursion| recursion.names.clone())),
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        known.extend(self.once.iter().map(|(name, _)| name.clone()));
        Ok(read.iter().any(|name| !known.contains(name)))
    }

    /// A query with the queries that are run once, as far as it reads them.
    pub(in crate::bind) fn after_once(&mut self, body: LogicalPlan) -> Result<LogicalPlan> {
        let (mut names, mut values): (Vec<String>, Vec<LogicalPlan>) = (Vec::new(), Vec::new());
        // Each may read those before it.
        for (name, value) in std::mem::take(&mut self.once).into_iter().rev() {
            if is_read(&name, values.iter().chain([&body]))? {
                names.insert(0, name);
                values.insert(0, value);
            }
        }
        if names.is_empty() {
            return Ok(body);
        }
        Ok(LetRec { names, values, body, limit: ONCE }.plan())
    }
}

/// Whether a query would give other rows if it were run again.
pub(super) fn gives_new_rows(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= expr.exists(|expr| Ok(gives_new_values(expr)))?;
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(found)
}
