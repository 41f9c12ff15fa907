//! A recursive query that reads outer columns, with its keys as columns.
//!
//! The keys go round with the rows: the non-recursive term has them, so the working table does, and the recursive term finds
//! them there. What is a row of its own for one key, and what UNION takes for the same row, is so decided within each key.

use super::super::{Result, Unnesting, columns, project};
use super::{Domain, Keyed};
use arrow::datatypes::Schema;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, TableReference};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, RecursiveQuery, TableScan};
use std::sync::Arc;

/// A working table that has the keys.
#[derive(Clone)]
pub(in crate::rules::unnest) struct WorkTable {
    name: TableReference,
    /// A scan of it.
    scan: LogicalPlan,
    /// What the keys are called.
    keys: Vec<String>,
}

impl WorkTable {
    /// Whether a scan is of the table as it was without keys.
    pub(super) fn is(&self, scan: &TableScan) -> bool {
        scan.table_name == self.name
    }

    /// Whether a plan reads it.
    pub(super) fn is_read_by(&self, plan: &LogicalPlan) -> bool {
        let reads = plan.exists(|node| Ok(matches!(node, LogicalPlan::TableScan(scan) if self.is(scan))));
        reads.unwrap_or(true)
    }

    /// These columns of it, and the keys.
    pub(super) fn keyed(&self, mut shown: Vec<Expr>) -> Result<Keyed> {
        let key = |name: &String| Expr::Column(Column::new(Some(self.name.clone()), name));
        let keys: Vec<Expr> = self.keys.iter().map(key).collect();
        shown.extend(keys.iter().cloned());
        Ok(Keyed { plan: project(self.scan.clone(), shown)?, keys, never_null: false })
    }
}

impl Unnesting {
    /// A recursive query with its keys.
    pub(super) fn keyed_recursion(&mut self, query: RecursiveQuery, domain: &Domain) -> Result<Keyed> {
        let RecursiveQuery { name, static_term, recursive_term, is_distinct, .. } = query;
        let keys = (0..domain.keys.len()).map(|_| self.name("key")).collect::<Result<Vec<_>>>()?;
        let first = self.term(Arc::unwrap_or_clone(static_term), &keys, &domain.within(None))?;
        // What the recursive term gives may be NULL where the other never is.
        let fields = first.schema().fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let source = provider_as_source(Arc::new(CteWorkTable::new(&name, schema)));
        // The name is read as it was when the query was bound.
        let table = TableReference::from(name.as_str());
        let scan = LogicalPlanBuilder::scan(table.clone(), source, None)?.build()?;
        let work_table = WorkTable { name: table, scan, keys };
        let next = self.term(
            Arc::unwrap_or_clone(recursive_term),
            &work_table.keys,
            &domain.within(Some(work_table.clone())),
        )?;
        let recursive = RecursiveQuery::try_new(name, Arc::new(first), Arc::new(next), is_distinct)?;
        let plan = LogicalPlan::RecursiveQuery(recursive);
        let keys = columns(&plan).split_off(plan.schema().fields().len() - domain.keys.len());
        Ok(Keyed { plan, keys, never_null: false })
    }

    /// A term with its own columns, and the keys under these names behind them.
    fn term(&mut self, term: LogicalPlan, names: &[String], domain: &Domain) -> Result<LogicalPlan> {
        let mut shown = columns(&term);
        let Keyed { plan, keys, .. } = self.keyed(term, domain)?;
        shown.extend(keys.into_iter().zip(names).map(|(key, name)| key.alias(name)));
        project(plan, shown)
    }
}
