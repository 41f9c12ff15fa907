//! Whether an outer join has found a row of a relation, for those whose name stands for their whole row: a column that is
//! never NULL is joined with them.

use super::Binder;
use super::columns::columns_of_plan;
use super::scope::{Role, Scope, ScopeColumn, fold};
use crate::bind::relation::Relation;
use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use engine::error::SqlError;
use repr::{Datum, PgType};
use sql_functions::TypedExpr;
use sql_syntax::ast::visit::walk;
use sqlparser::ast::{self, JoinOperator, OrderByExpr, Select, TableFactor, TableWithJoins, Visitor};
use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;

impl Binder<'_> {
    /// The relation, or several that were joined, with what tells for each that may be named alone that it is there.
    pub(super) fn with_presence(&mut self, relation: Relation) -> Result<Relation, SqlError> {
        let tables = |has_role: fn(Role) -> bool| -> BTreeSet<String> {
            let columns = relation.scope.columns.iter().filter(|column| has_role(column.role));
            columns.filter_map(|column| column.table.clone()).collect()
        };
        let mut missing = tables(|role| role != Role::Presence);
        let marked = tables(|role| role == Role::Presence);
        missing.retain(|table| !marked.contains(table) && self.alone.last().is_some_and(|names| names.contains(table)));
        if missing.is_empty() {
            return Ok(relation);
        }
        let name = self.internal_name("presence");
        let mut exprs = columns_of_plan(&relation.plan);
        exprs.push(TypedExpr::constant(&Datum::Bool(true), PgType::Bool)?.nullable().expr.alias(&name));
        let mut columns = relation.scope.columns;
        let plan = LogicalPlanBuilder::from(relation.plan).project(exprs)?.build()?;
        for table in missing {
            let value = TypedExpr::new(Expr::Column(Column::from_name(&name)), PgType::Bool, PgType::Bool.data_type());
            let column = ScopeColumn::new(Some(table), name.clone(), value);
            columns.push(ScopeColumn { unqualified: false, star: false, role: Role::Presence, ..column });
        }
        Ok(Relation { plan, scope: Scope { columns } })
    }
}

/// The names without a qualifier in a SELECT that has an outer join, its subqueries and its ORDER BY.
pub(super) fn names_alone(select: &Select, order_by: &[OrderByExpr]) -> HashSet<String> {
    let mut names = Names::default();
    if select.from.iter().any(has_outer_join) {
        let _walked = walk(select, &mut names);
        order_by.iter().for_each(|item| {
            let _walked = walk(item, &mut names);
        });
    }
    names.0
}

fn has_outer_join(item: &TableWithJoins) -> bool {
    let is_outer = |operator: &JoinOperator| {
        !matches!(operator, JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_))
    };
    let is_nested = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => has_outer_join(table_with_joins),
        _ => false,
    };
    is_nested(&item.relation)
        || item.joins.iter().any(|join| is_outer(&join.join_operator) || is_nested(&join.relation))
}

#[derive(Default)]
struct Names(HashSet<String>);

impl Visitor for Names {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
        if let ast::Expr::Identifier(name) = expr {
            self.0.insert(fold(name));
        }
        ControlFlow::Continue(())
    }
}
