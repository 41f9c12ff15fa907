//! INSERT.

use super::on_conflict::plan_on_conflict;
use super::{build, check_writes, default_of, plan_returning, resolve_target, unknown_column};
use crate::bind::{self, Params, TableResolver, coerce};
use crate::plan::dml::defaults::default_expr;
use crate::plan::resolver::Dependencies;
use crate::plan::sequence::{owned_sequences, values_taken};
use crate::plan::{InsertPlan, InsertSource, ItemRef, Plan, PlanContext};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use engine::error::SqlError;
use engine::names::Privilege;
use repr::PgType;
use repr::sqlstate::SqlState;
use sql_syntax::ast::{Identity, Overriding};
use sqlparser::ast as sp;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(in crate::plan) fn plan_insert(
    ctx: &PlanContext<'_>,
    insert: &sp::Insert,
    overriding: Option<Overriding>,
    params: &mut Params,
) -> Result<Plan, SqlError> {
    let sp::TableObject::TableName(name) = &insert.table else {
        return Err(SqlError::unsupported("INSERT into something that is no table"));
    };
    let span = build::span_of(name);
    let table = resolve_target(ctx, &build::name_of(name)?, span, "insert into")?;
    let names = insert
        .columns
        .iter()
        .map(|column| {
            let folded = build::name_of(column)?;
            match folded.parts.as_slice() {
                [name] if table.desc.position(name).is_some() => Ok(name.clone()),
                [first, ..] => Err(unknown_column(&table, first).at(build::span_of(column))),
                [] => Err(SqlError::internal("a column without a name was parsed")),
            }
        })
        .collect::<Result<Vec<_>, _>>()?;
    let columns = target_columns(&table, &names)?;
    let dependencies = Dependencies::new();
    dependencies.add(table.id);
    let resolver = dependencies.resolver(ctx);
    let generated = generated(ctx, &table, overriding);
    let row = RowBuilder {
        ctx,
        table: &table,
        columns: &columns,
        named: !names.is_empty(),
        generated: &generated,
        resolver: &resolver,
    };
    let (source, width) = match insert.source.as_deref() {
        None => (InsertSource::Values { rows: vec![row.defaults()?] }, 0),
        Some(query) => match plain_values(query) {
            Some(values) => row.values(values, params)?,
            None => row.query(query, params)?,
        },
    };
    let alias = match &insert.table_alias {
        Some(alias) => sql_syntax::parser::fold(&alias.alias),
        None => table.name.item.clone(),
    };
    let on_conflict = plan_on_conflict(ctx, &table, &alias, insert.on.as_ref(), &resolver, params)?;
    let returning = plan_returning(ctx, (&table, &alias), insert.returning.as_deref(), &[], &resolver, params)?;
    check_writes(ctx, &table, Privilege::Insert, columns[..width].iter().copied())?;
    let updated = on_conflict.iter().filter_map(|on| on.update.as_ref()).flat_map(|update| &update.values);
    let row_takes = values_taken(updated.chain(returning.iter().flat_map(|returning| &returning.exprs)));
    Ok(Plan::Insert(InsertPlan {
        table: table.id,
        name: table.name.clone(),
        desc: Arc::clone(&table.desc),
        takes: match &source {
            InsertSource::Values { rows } => values_taken(rows.iter().flatten()),
            InsertSource::Query(_) => BTreeMap::new(),
        },
        row_takes,
        source,
        on_conflict,
        returning,
        params: params.finish()?,
        depends_on: dependencies.all(),
    }))
}

/// What becomes of a value that a statement gives to an identity column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given {
    /// The sequence's own takes its place.
    Ignored,
    /// It may give none.
    Refused,
}

/// The identity columns of a table to which a statement may not give just any value.
fn generated(ctx: &PlanContext<'_>, table: &ItemRef, overriding: Option<Overriding>) -> BTreeMap<usize, Given> {
    let given = |identity: Identity| match (overriding, identity) {
        (Some(Overriding::User), _) => Some(Given::Ignored),
        (None, Identity::Always) => Some(Given::Refused),
        (Some(Overriding::System), _) | (None, Identity::ByDefault) => None,
    };
    let owned = owned_sequences(ctx.catalog, table.id).into_iter();
    owned.filter_map(|(_, owner)| Some((owner.column, given(owner.identity?)?))).collect()
}

/// The positions of the named columns; all if none are named. Errors: 42703, 42701.
pub(in crate::plan) fn target_columns(table: &ItemRef, names: &[String]) -> Result<Vec<usize>, SqlError> {
    if names.is_empty() {
        return Ok((0..table.desc.arity()).collect());
    }
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let position = table.desc.position(name).ok_or_else(|| unknown_column(table, name))?;
        if columns.contains(&position) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{name}\" specified more than once"),
            ));
        }
        columns.push(position);
    }
    Ok(columns)
}

/// The VALUES of a query that is nothing else.
fn plain_values(query: &sp::Query) -> Option<&sp::Values> {
    let bare = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty();
    match query.body.as_ref() {
        sp::SetExpr::Values(values) if bare => Some(values),
        _ => None,
    }
}

/// Makes rows of the whole table from what a statement gives for some of its columns.
struct RowBuilder<'a> {
    ctx: &'a PlanContext<'a>,
    table: &'a ItemRef,
    /// The columns that are given, in the order of the statement.
    columns: &'a [usize],
    /// Whether the statement names them.
    named: bool,
    /// The identity columns to which it may not give just any value.
    generated: &'a BTreeMap<usize, Given>,
    resolver: &'a dyn TableResolver,
}

impl RowBuilder<'_> {
    fn default(&self, position: usize) -> Result<Expr, SqlError> {
        default_expr(self.ctx, self.table, position, self.resolver)
    }

    /// DEFAULT VALUES.
    fn defaults(&self) -> Result<Vec<Expr>, SqlError> {
        (0..self.table.desc.arity()).map(|position| self.default(position)).collect()
    }

    /// VALUES without subqueries: each value is assigned to its column by itself, as in Postgres. And the number of columns that
    /// are given.
    fn values(&self, values: &sp::Values, params: &mut Params) -> Result<(InsertSource, usize), SqlError> {
        let width = values.rows.first().map_or(0, |row| row.len());
        if values.rows.iter().any(|row| row.len() != width) {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "VALUES lists must all be the same length"));
        }
        self.check_width(width, values.rows.first().and_then(|row| row.get(self.columns.len())))?;
        // What the rows leave out is the same for all of them.
        let mut template: Vec<Option<Expr>> = vec![None; self.table.desc.arity()];
        for (position, slot) in template.iter_mut().enumerate() {
            if !self.columns[..width].contains(&position) {
                *slot = Some(self.default(position)?);
            }
        }
        let empty = DFSchema::empty();
        let mut rows = Vec::with_capacity(values.rows.len());
        for given in &values.rows {
            let mut row = template.clone();
            for (value, position) in given.iter().zip(self.columns) {
                let column = &self.table.desc.columns[*position];
                let is_default = build::is_default(value) || self.is_replaced(*position, value)?;
                row[*position] = Some(if is_default {
                    self.default(*position)?
                } else {
                    let typed = bind::plan_expr(value, &empty, params, self.resolver)?;
                    coerce::assign(typed, &column.ty, &column.name, params, self.resolver)
                        .map_err(|error| error.at(sp::Spanned::span(value)))?
                });
            }
            rows.push(row.into_iter().flatten().collect());
        }
        if rows.iter().flatten().any(reads_relations) {
            let plan = self.ctx.engine.optimize(union_of(rows)?, self.ctx.session)?;
            return Ok((InsertSource::Query(plan), width));
        }
        Ok((InsertSource::Values { rows }, width))
    }

    /// Any other query, likewise.
    fn query(&self, query: &sp::Query, params: &mut Params) -> Result<(InsertSource, usize), SqlError> {
        let with_defaults;
        let query = match query.body.as_ref() {
            sp::SetExpr::Values(values) if values.rows.iter().any(|row| row.iter().any(build::is_default)) => {
                with_defaults = self.inline_defaults(query)?;
                &with_defaults
            }
            _ => query,
        };
        let targets: Vec<(String, PgType)> = self
            .columns
            .iter()
            .map(|position| {
                let column = &self.table.desc.columns[*position];
                (column.name.clone(), column.ty.clone())
            })
            .collect();
        let planned = bind::plan_source(query, &targets, self.resolver, params)?;
        let width = planned.desc.arity();
        self.check_width(width, None)?;
        for position in &self.columns[..width] {
            if self.generated.get(position) == Some(&Given::Refused) {
                return Err(self.refused(*position));
            }
        }
        let schema = Arc::clone(planned.plan.schema());
        let exprs = (0..self.table.desc.arity())
            .map(|position| {
                let name = &self.table.desc.columns[position].name;
                let given = self.columns[..width].iter().position(|column| *column == position);
                match given.filter(|_| !self.generated.contains_key(&position)) {
                    Some(index) => Ok(Expr::Column(Column::from(schema.qualified_field(index))).alias(name)),
                    None => Ok(self.default(position)?.alias(name)),
                }
            })
            .collect::<Result<Vec<_>, SqlError>>()?;
        let plan = LogicalPlanBuilder::from(planned.plan).project(exprs)?.build()?;
        Ok((InsertSource::Query(self.ctx.engine.optimize(plan, self.ctx.session)?), width))
    }

    /// Whether the sequence's own value takes the place of one that is given to a column. Errors: 428C9.
    fn is_replaced(&self, position: usize, value: &sp::Expr) -> Result<bool, SqlError> {
        match self.generated.get(&position) {
            None => Ok(false),
            Some(Given::Ignored) => Ok(true),
            Some(Given::Refused) => Err(self.refused(position).at(sp::Spanned::span(value))),
        }
    }

    fn refused(&self, position: usize) -> SqlError {
        let name = &self.table.desc.columns[position].name;
        let message = format!("cannot insert a non-DEFAULT value into column \"{name}\"");
        SqlError::new(SqlState::GENERATED_ALWAYS, message)
            .with_detail(format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS."))
            .with_hint("Use OVERRIDING SYSTEM VALUE to override.")
    }

    fn check_width(&self, width: usize, first_excess: Option<&sp::Expr>) -> Result<(), SqlError> {
        if width > self.columns.len() {
            let error = SqlError::new(SqlState::SYNTAX_ERROR, "INSERT has more expressions than target columns");
            return Err(match first_excess {
                Some(expr) => error.at(sp::Spanned::span(expr)),
                None => error,
            });
        }
        if width < self.columns.len() && self.named {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "INSERT has more target columns than expressions"));
        }
        Ok(())
    }

    /// Replaces DEFAULT in VALUES by the column's default.
    fn inline_defaults(&self, query: &sp::Query) -> Result<sp::Query, SqlError> {
        let mut query = query.clone();
        if let sp::SetExpr::Values(values) = query.body.as_mut() {
            for row in &mut values.rows {
                for (expr, position) in row.iter_mut().zip(self.columns) {
                    if build::is_default(expr) {
                        *expr = default_of(self.ctx, self.table, *position)?.unwrap_or_else(build::null);
                    }
                }
            }
        }
        Ok(query)
    }
}

/// Whether an expression without columns has a subquery, so that it is no constant.
fn reads_relations(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_))))
        .unwrap_or(true)
}

/// Rows of expressions as a query.
fn union_of(rows: Vec<Vec<Expr>>) -> Result<LogicalPlan, SqlError> {
    let mut plan: Option<LogicalPlanBuilder> = None;
    for row in rows {
        let columns = row.into_iter().enumerate().map(|(position, expr)| expr.alias(format!("column{}", position + 1)));
        let one = LogicalPlanBuilder::empty(true).project(columns)?;
        plan = Some(match plan {
            Some(plan) => plan.union(one.build()?)?,
            None => one,
        });
    }
    Ok(plan.ok_or_else(|| SqlError::internal("VALUES has a row"))?.build()?)
}
