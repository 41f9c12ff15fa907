//! What a statement reads of the relations that it names.
//!
//! A dialect that binds names can say more exactly what a statement's text refers to; [`of_plan`] finds in any plan what its scans take,
//! be it to hand it on or to filter by it.

use crate::collection::CollectionTable;
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{Expr, LogicalPlan};
use repr::GlobalId;
use std::collections::BTreeSet;

/// One mention of a relation in FROM. A relation that is mentioned twice is read twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The relation.
    pub id: GlobalId,
    /// The positions of the columns that are read.
    pub columns: BTreeSet<usize>,
}

/// What a plan and its subqueries scan: each collection, with the columns that its scan hands on or filters by.
pub fn of_plan(plan: &LogicalPlan) -> Result<Vec<Read>> {
    let mut reads = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(table) = CollectionTable::from_source(&scan.source)
        {
            let mut columns: BTreeSet<usize> = match &scan.projection {
                Some(columns) => columns.iter().copied().collect(),
                None => (0..table.desc.arity()).collect(),
            };
            let filtered = scan.filters.iter().flat_map(Expr::column_refs);
            columns.extend(filtered.filter_map(|column| table.desc.position(&column.name)));
            reads.push(Read { id: table.id, columns });
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(reads)
}
