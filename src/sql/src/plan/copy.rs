//! COPY.

use super::dml::{check_writes, default_exprs, resolve_target, target_columns, unknown_column};
use super::read::plan_read;
use super::{CopyFromPlan, CopyToPlan, ItemRef, Plan, PlanContext, ReadPlan, query};
use crate::bind::Params;
use crate::names::{resolve_item, unknown_relation};
use engine::error::SqlError;
use engine::names::{ObjectKind, Privilege};
use pgrepr::copy::{CopyOptions, ForcedField};
use repr::sqlstate::SqlState;
use sql_syntax::ast::{Copy, CopyDirection, CopySource, Forced, ForcedColumns};
use sql_syntax::names::{Name, quote_ident};
use sqlparser::tokenizer::Span;
use std::sync::Arc;

pub(super) fn plan_copy(ctx: &PlanContext<'_>, copy: &Copy) -> Result<Plan, SqlError> {
    match (&copy.source, copy.direction) {
        (CopySource::Table { name, columns }, CopyDirection::FromStdin) => {
            let table = resolve_target(ctx, name, Span::empty(), "copy to")?;
            let targets = target_columns(&table, columns)?;
            check_writes(ctx, &table, Privilege::Insert, targets.iter().copied())?;
            Ok(Plan::CopyFrom(CopyFromPlan {
                table: table.id,
                name: table.name.clone(),
                desc: Arc::clone(&table.desc),
                defaults: default_exprs(ctx, &table, &targets)?,
                options: options(copy, |name| field_of(&table, &targets, name), targets.len())?,
                columns: targets,
                depends_on: vec![table.id],
            }))
        }
        (CopySource::Table { name, columns }, CopyDirection::ToStdout) => {
            let (table, targets) = source_table(ctx, name, columns)?;
            let options = options(copy, |name| field_of(&table, &targets, name), targets.len())?;
            Ok(Plan::CopyTo(CopyToPlan { read: ReadPlan::now(plan_table(ctx, &table, &targets)?), options }))
        }
        (CopySource::Query(query), _) => {
            let read = plan_read(ctx, query, &mut Params::none())?;
            let field_of = |name: &str| match read.desc.position(name) {
                Some(field) => Ok(Some(field)),
                None => {
                    let message = format!("column \"{name}\" does not exist");
                    Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message))
                }
            };
            let options = options(copy, field_of, read.desc.arity())?;
            Ok(Plan::CopyTo(CopyToPlan { read, options }))
        }
    }
}

/// The options, with what is forced in each field. Error 42P10: a column is no field.
fn options(
    copy: &Copy,
    field_of: impl Fn(&str) -> Result<Option<usize>, SqlError>,
    field_count: usize,
) -> Result<CopyOptions, SqlError> {
    let mut options = copy.options.clone();
    if copy.forced.is_empty() {
        return Ok(options);
    }
    options.fields = vec![ForcedField::default(); field_count];
    for (forced, columns) in &copy.forced {
        let fields: Vec<usize> = match columns {
            ForcedColumns::All => (0..field_count).collect(),
            ForcedColumns::Named(names) => {
                let field = |name: &String| {
                    field_of(name)?.ok_or_else(|| {
                        let message = format!("{} column \"{name}\" not referenced by COPY", forced.name());
                        SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
                    })
                };
                names.iter().map(field).collect::<Result<_, _>>()?
            }
        };
        for field in fields {
            match forced {
                Forced::Quote => options.fields[field].quote = true,
                Forced::NotNull => options.fields[field].not_null = true,
                Forced::Null => options.fields[field].null = true,
            }
        }
    }
    Ok(options)
}

/// The field in which a column of the table is, if it is in one. Error 42703.
fn field_of(table: &ItemRef, fields: &[usize], name: &str) -> Result<Option<usize>, SqlError> {
    let column = table.desc.position(name).ok_or_else(|| unknown_column(table, name))?;
    Ok(fields.iter().position(|field| *field == column))
}

/// The table that COPY TO reads, and the positions of the columns.
fn source_table(
    ctx: &PlanContext<'_>,
    name: &Name,
    columns: &[String],
) -> Result<(Arc<ItemRef>, Vec<usize>), SqlError> {
    let item = resolve_item(ctx.catalog, ctx.scope(), name)?.ok_or_else(|| unknown_relation(name))?;
    if item.object_kind() != ObjectKind::Table {
        let kind = item.object_kind();
        return Err(SqlError::new(
            SqlState::WRONG_OBJECT_TYPE,
            format!("cannot copy from {kind} \"{}\"", item.name.item),
        )
        .with_hint("Try the COPY (SELECT ...) TO variant."));
    }
    let columns = target_columns(&item, columns)?;
    Ok((item, columns))
}

/// COPY t (columns) TO is COPY (SELECT columns FROM t) TO.
fn plan_table(ctx: &PlanContext<'_>, table: &ItemRef, columns: &[usize]) -> Result<super::SelectPlan, SqlError> {
    let columns: Vec<String> =
        columns.iter().map(|position| quote_ident(&table.desc.columns[*position].name)).collect();
    let text = format!("SELECT {} FROM {}", columns.join(", "), table.name);
    let query = sql_syntax::parser::parse_query(&text)?;
    query::plan_select(ctx, &query, &mut Params::none())
}
