//! The columns of plans: what they are called, and projections of them.

use crate::bind::BoundQuery;
use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, SubqueryAlias};
use engine::error::SqlError;
use sql_functions::TypedExpr;
use std::collections::HashMap;
use std::sync::Arc;

/// The columns of a bound query as expressions over its plan.
pub(super) fn columns_of(bound: &BoundQuery) -> Vec<TypedExpr> {
    let planned = bound.plan.schema();
    planned
        .iter()
        .zip(&bound.columns)
        .map(|((qualifier, field), column)| TypedExpr {
            expr: Expr::Column(Column::new(qualifier.cloned(), field.name())),
            ty: column.ty.clone(),
            data_type: column.data_type.clone(),
            nullable: field.is_nullable(),
        })
        .collect()
}

/// Names for plan columns: the clients' names, numbered where they repeat.
pub(super) fn unique_names<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut unique = Vec::new();
    for name in names {
        let mut candidate = name.to_owned();
        while let Some(count) = seen.get_mut(&candidate) {
            *count += 1;
            candidate = format!("{candidate}_{count}");
        }
        seen.insert(candidate.clone(), 0);
        unique.push(candidate);
    }
    unique
}

/// A projection to unqualified columns; columns that have their name already stay as they are.
pub(super) fn project(input: LogicalPlan, exprs: Vec<Expr>, names: &[String]) -> Result<LogicalPlan, SqlError> {
    let aliased: Vec<Expr> = exprs
        .into_iter()
        .zip(names)
        .map(|(expr, name)| match expr {
            Expr::Column(column) if column.name == *name => Expr::Column(column),
            expr => expr.alias(name),
        })
        .collect();
    Ok(LogicalPlan::Projection(Projection::try_new(aliased, Arc::new(input))?))
}

/// A plan under one qualifier.
pub(super) fn alias_plan(plan: LogicalPlan, qualifier: &str) -> Result<LogicalPlan, SqlError> {
    let qualifier = datafusion::common::TableReference::bare(qualifier);
    Ok(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(plan), qualifier)?))
}

/// The output columns of a plan.
pub(super) fn columns_of_plan(plan: &LogicalPlan) -> Vec<Expr> {
    plan.schema().iter().map(|(q, field)| Expr::Column(Column::new(q.cloned(), field.name()))).collect()
}
