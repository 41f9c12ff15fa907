//! WITH: queries by name, recursive ones among them.
//!
//! WITH RECURSIVE follows Postgres ([`rules`]). WITH MUTUALLY RECURSIVE has no such rules: its queries declare their columns,
//! see each other, and mean what their rounds give ([`LetRec`]). Other queries are copied to where they are read, unless a copy
//! would give other rows ([`once`]).

mod once;
mod rules;

use super::query::rename;
use super::scope::{Frame, fold};
use super::{Binder, BoundQuery, OutputColumn, Settle};
use crate::bind::coerce::assign;
use crate::bind::columns::{columns_of, project, unique_names};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, RecursiveQuery};
use engine::error::SqlError;
use engine::recursion::{LetRec, RecursionLimit, RecursiveTable, renamed};
use repr::sqlstate::SqlState;
use sql_functions::types;
use sql_syntax::ast::limit_of;
use sql_syntax::types::from_ast;
use sqlparser::ast::{Cte, SetQuantifier, With};
use std::collections::HashMap;
use std::sync::Arc;

/// The queries of a WITH MUTUALLY RECURSIVE, of which the query behind them is the body.
pub(super) struct Recursion {
    names: Vec<String>,
    values: Vec<LogicalPlan>,
    limit: RecursionLimit,
}

impl Recursion {
    /// The body with the queries that it reads.
    pub(super) fn around(self, body: LogicalPlan) -> LogicalPlan {
        LetRec { names: self.names, values: self.values, body, limit: self.limit }.plan()
    }
}

impl Binder<'_> {
    /// Binds the queries of a WITH clause and makes them known to what follows.
    pub(super) fn with(&mut self, with: &With, outer: Option<&Frame<'_>>) -> Result<Option<Recursion>, SqlError> {
        if let Some(limit) = limit_of(with) {
            return self.mutually_recursive(&with.cte_tables[1..], limit, outer).map(Some);
        }
        let names = rules::names(&with.cte_tables)?;
        let ordered = match with.recursive {
            true => rules::in_order(&with.cte_tables, &names)?,
            false => with.cte_tables.iter().enumerate().map(|(at, cte)| (at, cte, false)).collect(),
        };
        for (at, cte, is_recursive) in ordered {
            let bound = if is_recursive {
                self.recursive_cte(cte, &names[at], outer)?
            } else {
                let mut bound = self.query(&cte.query, outer, Settle::Text)?;
                rename(&mut bound.columns, &alias_columns(cte), &names[at])?;
                bound
            };
            let bound = if once::gives_new_rows(&bound.plan)? { self.once(&names[at], bound)? } else { bound };
            self.define(names[at].clone(), bound);
        }
        Ok(None)
    }

    fn define(&mut self, name: String, bound: BoundQuery) {
        if let Some(level) = self.ctes.last_mut() {
            level.insert(name, bound);
        }
    }

    /// A query that reads itself.
    fn recursive_cte(&mut self, cte: &Cte, name: &str, outer: Option<&Frame<'_>>) -> Result<BoundQuery, SqlError> {
        let rules::Terms { with, quantifier, base, step } = rules::terms(cte, name)?;
        if let Some(with) = with {
            self.ctes.push(HashMap::new());
            if self.with(with, outer)?.is_some() {
                return Err(SqlError::unsupported("WITH MUTUALLY RECURSIVE in a recursive query"));
            }
        }
        let mut base = self.set_expr(base, outer, Settle::Text)?;
        rename(&mut base.columns, &alias_columns(cte), name)?;
        let names = unique_names(base.columns.iter().map(|column| column.name.as_str()));
        let exprs = columns_of(&base).into_iter().map(|column| column.expr).collect();
        let static_term = project(base.plan, exprs, &names)?;
        let table = self.qualifier(name);
        let work_table = provider_as_source(Arc::new(CteWorkTable::new(&table, table_schema(&base.columns))));
        let work = LogicalPlanBuilder::scan(table.clone(), work_table, None)?.build()?;
        self.define(name.to_owned(), BoundQuery { plan: work, columns: base.columns.clone() });
        let step = self.set_expr(step, outer, Settle::Later)?;
        if let Some(level) = self.ctes.last_mut() {
            level.remove(name);
        }
        if with.is_some() {
            self.ctes.pop();
        }
        if step.columns.len() != base.columns.len() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "each UNION query must have the same number of columns"));
        }
        let mut exprs = Vec::new();
        for (i, (expr, column)) in columns_of(&step).into_iter().zip(&base.columns).enumerate() {
            let from = expr.ty.clone();
            if !types::implicitly(&from, &column.ty) {
                return Err(SqlError::new(
                    SqlState::DATATYPE_MISMATCH,
                    format!(
                        "recursive query \"{name}\" column {} has type {} in non-recursive term but type {} overall",
                        i + 1,
                        column.ty.name(),
                        from.name()
                    ),
                ));
            }
            let cast = self.coercer.cast(expr, &column.ty, pgrepr::length::LengthRule::Cast)?;
            exprs.push(self.coercer.store_as(cast, &column.ty, &column.data_type)?.expr);
        }
        let step = project(step.plan, exprs, &names)?;
        let is_distinct = !matches!(quantifier, SetQuantifier::All);
        let recursive = RecursiveQuery::try_new(table, Arc::new(static_term), Arc::new(step), is_distinct)?;
        Ok(BoundQuery { plan: LogicalPlan::RecursiveQuery(recursive), columns: base.columns })
    }

    /// Queries that read each other: all are known to all, with the columns that they declare.
    fn mutually_recursive(
        &mut self,
        ctes: &[Cte],
        limit: RecursionLimit,
        outer: Option<&Frame<'_>>,
    ) -> Result<Recursion, SqlError> {
        let mut recursion = Recursion { names: Vec::new(), values: Vec::new(), limit };
        let mut declared = Vec::with_capacity(ctes.len());
        for (cte, name) in ctes.iter().zip(rules::names(ctes)?) {
            let columns = declared_columns(cte)?;
            let table = self.qualifier(&name);
            let source = RecursiveTable { name: table.clone(), schema: table_schema(&columns) }.source();
            let plan = LogicalPlanBuilder::scan(table.clone(), source, None)?.build()?;
            self.define(name, BoundQuery { plan, columns: columns.clone() });
            recursion.names.push(table);
            declared.push(columns);
        }
        for (cte, columns) in ctes.iter().zip(declared) {
            let bound = self.query(&cte.query, outer, Settle::Later)?;
            recursion.values.push(self.as_declared(cte, bound, &columns)?);
        }
        if recursion.values.iter().any(|value| !value.all_out_ref_exprs().is_empty()) {
            return Err(SqlError::unsupported("a correlated WITH MUTUALLY RECURSIVE"));
        }
        Ok(recursion)
    }

    /// The columns of a mutually recursive query, converted to what was declared.
    fn as_declared(&mut self, cte: &Cte, bound: BoundQuery, columns: &[OutputColumn]) -> Result<LogicalPlan, SqlError> {
        if bound.columns.len() != columns.len() {
            let message = format!(
                "WITH MUTUALLY RECURSIVE query \"{}\" declares {} columns but gives {}",
                fold(&cte.alias.name),
                columns.len(),
                bound.columns.len()
            );
            return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message).at(cte.alias.name.span));
        }
        let mut exprs = Vec::with_capacity(columns.len());
        for (expr, column) in columns_of(&bound).into_iter().zip(columns) {
            exprs.push(assign(expr, &column.ty, &column.name, self.coercer.params, self.coercer.tables)?);
        }
        let names = unique_names(columns.iter().map(|column| column.name.as_str()));
        project(bound.plan, exprs, &names)
    }

    /// A plan of its own as part of this statement's: its recursive queries get names that no other one has.
    pub(super) fn adopted(&mut self, plan: LogicalPlan) -> Result<LogicalPlan, SqlError> {
        Ok(renamed(plan, |name| self.qualifier(name))?)
    }
}

/// The columns of a recursive query, as scans of it have them.
fn table_schema(columns: &[OutputColumn]) -> SchemaRef {
    let names = unique_names(columns.iter().map(|column| column.name.as_str()));
    let fields = columns.iter().zip(names).map(|(column, name)| Field::new(name, column.data_type.clone(), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn alias_columns(cte: &Cte) -> Vec<String> {
    cte.alias.columns.iter().map(|column| fold(&column.name)).collect()
}

fn declared_columns(cte: &Cte) -> Result<Vec<OutputColumn>, SqlError> {
    let columns = cte.alias.columns.iter().map(|column| {
        let ty = column.data_type.as_ref().ok_or_else(|| undeclared(cte))?;
        let ty = from_ast(ty)?;
        let data_type = ty.data_type();
        Ok(OutputColumn { name: fold(&column.name), ty, data_type })
    });
    let columns = columns.collect::<Result<Vec<_>, SqlError>>()?;
    if columns.is_empty() { Err(undeclared(cte)) } else { Ok(columns) }
}

fn undeclared(cte: &Cte) -> SqlError {
    let name = fold(&cte.alias.name);
    let message = format!("WITH MUTUALLY RECURSIVE query \"{name}\" must declare its columns with their types");
    SqlError::new(SqlState::SYNTAX_ERROR, message).at(cte.alias.name.span)
}
