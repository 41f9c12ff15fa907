//! CREATE TABLE AS: a table whose columns and rows are what a query gives.

use super::relation::{check_column_count, check_distinct, check_storable};
use crate::bind::{self, Params};
use crate::plan::ddl::name::{already_exists, new_table};
use crate::plan::resolver::Dependencies;
use crate::plan::{CreateTableAsPlan, CreateTablePlan, Plan, PlanContext, SelectPlan};
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use repr::types::{NUMERIC, NumericDisplay};
use repr::{PgType, RelationDesc};
use sql_syntax::ast::CreateTableAs;
use std::sync::Arc;

pub(in crate::plan) fn plan_create_table_as(ctx: &PlanContext<'_>, create: &CreateTableAs) -> Result<Plan, SqlError> {
    let (schema, name, existing) = new_table(ctx, &create.name, create.temporary)?;
    if existing.is_some() {
        return already_exists(&name.item, create.if_not_exists, "CREATE TABLE AS");
    }
    let dependencies = Dependencies::new();
    let resolver = dependencies.resolver(ctx);
    let columns = columns(create, &bind::plan_query(&create.query, &resolver, &mut Params::none())?.desc)?;
    let desc = Arc::new(RelationDesc::new(columns.iter().map(|(name, ty)| (name.clone(), ty.clone(), true))));
    let source = match create.with_data {
        true => {
            let planned = bind::plan_source(&create.query, &columns, &resolver, &mut Params::none())?;
            Some(SelectPlan {
                logical: ctx.engine.optimize(planned.plan, ctx.session)?,
                desc: Arc::clone(&desc),
                origins: Vec::new(),
                params: Vec::new(),
                depends_on: dependencies.all(),
                rights: dependencies.rights(),
                locks: dependencies.locks(),
            })
        }
        false => None,
    };
    let table = CreateTablePlan {
        schema,
        name,
        defaults: vec![None; columns.len()],
        desc,
        constraints: Vec::new(),
        key_index: create.key_index.unwrap_or(true),
        sequences: Vec::new(),
        webhook: None,
        if_not_exists: create.if_not_exists,
    };
    Ok(Plan::CreateTableAs(CreateTableAsPlan { table, source }))
}

/// The table's columns: the query's, of which the first may be called otherwise.
fn columns(create: &CreateTableAs, desc: &RelationDesc) -> Result<Vec<(String, PgType)>, SqlError> {
    if desc.columns.is_empty() {
        return Err(SqlError::unsupported("a table without columns"));
    }
    if create.columns.len() > desc.arity() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "too many column names were specified"));
    }
    check_column_count(desc.arity())?;
    let given = create.columns.iter().map(Some).chain(std::iter::repeat(None));
    let column = |(column, given): (&repr::ColumnDesc, Option<&String>)| {
        (given.unwrap_or(&column.name).clone(), stored_type(&column.ty))
    };
    let columns: Vec<(String, PgType)> = desc.columns.iter().zip(given).map(column).collect();
    check_distinct(columns.iter().map(|(name, _)| name.as_str()))?;
    columns.iter().try_for_each(|(name, ty)| check_storable(name, ty))?;
    Ok(columns)
}

/// A numeric that is computed has no precision that a column could have.
fn stored_type(ty: &PgType) -> PgType {
    match ty {
        PgType::Numeric(NumericDisplay::Scale | NumericDisplay::Quotient) => NUMERIC,
        PgType::Array(item) => PgType::Array(Box::new(stored_type(item))),
        ty => ty.clone(),
    }
}
