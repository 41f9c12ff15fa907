//! ON CONFLICT: which constraints it is about, and what DO UPDATE sets.

use super::assignments;
use super::build::name_of;
use super::rights::{check_columns_read, check_exprs, check_writes};
use crate::bind::scope::Clause;
use crate::bind::subquery::has_subquery;
use crate::bind::{self, Params, coerce, plan_condition};
use crate::plan::constraint::{TableKey, keys};
use crate::plan::dml::defaults::default_expr;
use crate::plan::resolver::Resolver;
use crate::plan::{ConflictUpdate, ItemRef, OnConflictPlan, PlanContext, SelectPlan, query};
use datafusion::common::{Column, DFSchema, TableReference};
use datafusion::logical_expr::Expr;
use engine::error::SqlError;
use engine::names::Privilege;
use repr::PgType;
use repr::sqlstate::SqlState;
use sql_syntax::names::quote_ident;
use sql_syntax::parser::fold;
use sqlparser::ast as sp;
use std::collections::BTreeSet;
use std::sync::Arc;

/// By which DO UPDATE names the row that was to be inserted.
const EXCLUDED: &str = "excluded";

pub(super) fn plan_on_conflict(
    ctx: &PlanContext<'_>,
    table: &ItemRef,
    alias: &str,
    on: Option<&sp::OnInsert>,
    resolver: &Resolver<'_>,
    params: &mut Params,
) -> Result<Option<OnConflictPlan>, SqlError> {
    let Some(sp::OnInsert::OnConflict(on)) = on else { return Ok(None) };
    let arbiters = arbiters(ctx, table, on.conflict_target.as_ref())?;
    if on.conflict_target.is_some() {
        let keys = arbiters.iter().flat_map(|key| key.columns.iter().copied());
        check_columns_read(ctx, table, &keys.collect())?;
    }
    let update = match (&on.action, arbiters.first()) {
        (sp::OnConflictAction::DoNothing, _) => None,
        (sp::OnConflictAction::DoUpdate(_), _) if on.conflict_target.is_none() => {
            let message = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
            let error = SqlError::new(SqlState::SYNTAX_ERROR, message);
            return Err(error.with_hint("For example, ON CONFLICT (column_name)."));
        }
        (sp::OnConflictAction::DoUpdate(_), None) => return Err(no_such_key()),
        (sp::OnConflictAction::DoUpdate(update), Some(key)) => {
            let target = Target { ctx, table, alias, resolver };
            Some(Box::new(target.update(update, &key.columns, params)?))
        }
    };
    Ok(Some(OnConflictPlan { arbiters: arbiters.iter().map(|key| key.oid).collect(), update }))
}

/// The keys that a row may be in conflict with. Errors: 42P10, 42704, 42809, 42703.
fn arbiters(
    ctx: &PlanContext<'_>,
    table: &ItemRef,
    target: Option<&sp::ConflictTarget>,
) -> Result<Vec<TableKey>, SqlError> {
    let mut keys = keys(ctx.catalog, table);
    match target {
        None => Ok(keys),
        Some(sp::ConflictTarget::Columns(columns)) => {
            let mut wanted = BTreeSet::new();
            for column in columns {
                let name = fold(column);
                let position = table.desc.position(&name).ok_or_else(|| {
                    SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"))
                        .at(column.span)
                })?;
                wanted.insert(position);
            }
            keys.retain(|key| key.columns.iter().copied().collect::<BTreeSet<_>>() == wanted);
            if keys.is_empty() { Err(no_such_key()) } else { Ok(keys) }
        }
        Some(sp::ConflictTarget::OnConstraint(name)) => {
            let name = name_of(name)?;
            let mut constraints = table.constraints().iter();
            let constraint = constraints.find(|constraint| constraint.name == name.item()).ok_or_else(|| {
                let table = &table.name.item;
                let message = format!("constraint \"{}\" for table \"{table}\" does not exist", name.item());
                SqlError::new(SqlState::UNDEFINED_OBJECT, message)
            })?;
            if !constraint.is_key() {
                let message = "constraint in ON CONFLICT clause has no associated index";
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            keys.retain(|key| key.oid == constraint.oid);
            Ok(keys)
        }
    }
}

fn no_such_key() -> SqlError {
    let message = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
    SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
}

/// The table that rows are inserted into.
struct Target<'a> {
    ctx: &'a PlanContext<'a>,
    table: &'a ItemRef,
    alias: &'a str,
    resolver: &'a Resolver<'a>,
}

impl Target<'_> {
    fn update(&self, update: &sp::DoUpdate, key: &[usize], params: &mut Params) -> Result<ConflictUpdate, SqlError> {
        let Target { ctx, table, alias, resolver } = self;
        let qualified =
            |name: &str| DFSchema::try_from_qualified_schema(TableReference::bare(name.to_owned()), &table.desc.schema);
        let schema = qualified(alias)?.join(&qualified(EXCLUDED)?)?;
        let assigned = assignments(ctx, table, &update.assignments)?;
        let mut values = Vec::with_capacity(table.desc.arity());
        for (position, column) in table.desc.columns.iter().enumerate() {
            let given = assigned.iter().find(|(assigned, _)| *assigned == position);
            values.push(match given {
                None => Expr::Column(Column::new(Some(TableReference::bare(alias.to_string())), &column.name)),
                Some((_, None)) => default_expr(ctx, table, position, *resolver)?,
                Some((_, Some(value))) => {
                    refuse_subquery(value)?;
                    let typed = bind::plan_expr(value, &schema, params, *resolver)?;
                    coerce::assign(typed, &column.ty, &column.name, params, *resolver)
                        .map_err(|error| error.at(sp::Spanned::span(value)))?
                }
            });
        }
        let filter = match &update.selection {
            None => None,
            Some(filter) => {
                refuse_subquery(filter)?;
                Some(plan_condition(filter, &schema, (Clause::Where, "WHERE"), *resolver, params)?)
            }
        };
        check_writes(ctx, table, Privilege::Update, assigned.iter().map(|(position, _)| *position))?;
        let computed = assigned.iter().filter(|(_, value)| value.is_some()).map(|(position, _)| &values[*position]);
        let read: Vec<&Expr> = computed.chain(&filter).collect();
        check_exprs(ctx, table, alias, read.iter().copied())?;
        check_exprs(ctx, table, EXCLUDED, read)?;
        let (lookup, scan) = (self.select(Some(key))?, self.select(None)?);
        Ok(ConflictUpdate { values, filter, schema: Arc::new(schema), lookup, scan })
    }

    /// The table's rows, or those whose key has the values of `$1`, `$2`, ….
    fn select(&self, key: Option<&[usize]>) -> Result<SelectPlan, SqlError> {
        let Target { ctx, table, .. } = self;
        let columns = &table.desc.columns;
        let conditions = key.into_iter().flatten().enumerate();
        let conditions: Vec<String> = conditions
            .map(|(number, column)| format!("{} = ${}", quote_ident(&columns[*column].name), number + 1))
            .collect();
        let filter = if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) };
        let types: Vec<Option<PgType>> =
            key.into_iter().flatten().map(|column| Some(columns[*column].ty.clone())).collect();
        let text = format!("SELECT * FROM {}{filter}", table.name);
        let query = sql_syntax::parser::parse_query(&text)?;
        // Who may insert and update here finds out what is in conflict, and no more.
        query::plan_trusted(ctx, &query, &mut Params::declared(types))
    }
}

fn refuse_subquery(expr: &sp::Expr) -> Result<(), SqlError> {
    if has_subquery(expr) {
        return Err(SqlError::unsupported("a subquery in ON CONFLICT DO UPDATE"));
    }
    Ok(())
}
