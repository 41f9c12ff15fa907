//! What a statement may do with the table that it changes, column by column.
//!
//! UPDATE and DELETE are bound as queries of whole rows of their target, for which SELECT on it is not asked. Whoever lacks that
//! privilege has the statement's own expressions bound once more, in a query that reads of the target what they read.

use super::build::Reading;
use crate::bind::{self, Params, TableResolver};
use crate::plan::privileges::{check_columns, has_privilege};
use crate::plan::resolver::Dependencies;
use crate::plan::{ItemRef, PlanContext};
use datafusion::logical_expr::Expr;
use engine::error::SqlError;
use engine::names::{ObjectId, Privilege};
use std::collections::BTreeSet;

/// The role may write to these columns; if there are none, to any. Errors: 42501.
pub(in crate::plan) fn check_writes(
    ctx: &PlanContext<'_>,
    table: &ItemRef,
    privilege: Privilege,
    columns: impl IntoIterator<Item = usize>,
) -> Result<(), SqlError> {
    check_columns(ctx.catalog, ctx.role, table, privilege, &columns.into_iter().collect())
}

/// The role may read what an UPDATE or DELETE, which has been bound, reads beside the rows that it changes. Errors: 42501.
pub(super) fn check_reading(
    ctx: &PlanContext<'_>,
    table: &ItemRef,
    reading: Reading<'_>,
    params: &Params,
) -> Result<(), SqlError> {
    if has_privilege(ctx.catalog, ctx.role, ObjectId::Item(table.id), Privilege::Select) {
        return Ok(());
    }
    let dependencies = Dependencies::new();
    let resolver = dependencies.resolver(ctx);
    let reads = bind::reads(&reading.query(), &resolver, &mut params.clone())?;
    let (target, others) = reads.split_first().ok_or_else(|| SqlError::internal("the target is read first"))?;
    check_columns_read(ctx, table, &target.columns)?;
    resolver.check_reads(others)
}

/// The role may read what expressions over the rows of the table, called `alias`, read of them. Errors: 42501.
pub(super) fn check_exprs<'e>(
    ctx: &PlanContext<'_>,
    table: &ItemRef,
    alias: &str,
    exprs: impl IntoIterator<Item = &'e Expr>,
) -> Result<(), SqlError> {
    let of_table = |relation: &datafusion::common::TableReference| relation.table() == alias;
    let columns = exprs.into_iter().flat_map(Expr::column_refs);
    let columns = columns.filter(|column| column.relation.as_ref().is_some_and(of_table));
    check_columns_read(ctx, table, &columns.filter_map(|column| table.desc.position(&column.name)).collect())
}

/// The role may read these columns of the table, of which it need not read any. Errors: 42501.
pub(super) fn check_columns_read(
    ctx: &PlanContext<'_>,
    table: &ItemRef,
    columns: &BTreeSet<usize>,
) -> Result<(), SqlError> {
    if columns.is_empty() {
        return Ok(());
    }
    check_columns(ctx.catalog, ctx.role, table, Privilege::Select, columns)
}
