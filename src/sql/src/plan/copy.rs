//! COPY.

use super::dml::{check_writes, default_exprs, resolve_target, target_columns};
use super::read::plan_read;
use super::{CopyFromPlan, CopyToPlan, Plan, PlanContext, ReadPlan, query};
use crate::ast::{Copy, CopyDirection, CopySource};
use crate::engine::Params;
use crate::error::SqlError;
use crate::names::{Name, ObjectKind, Privilege, quote_ident, resolve_item, unknown_relation};
use datafusion::sql::sqlparser::tokenizer::Span;
use repr::sqlstate::SqlState;
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
                columns: targets,
                options: copy.options.clone(),
                depends_on: vec![table.id],
            }))
        }
        (CopySource::Table { name, columns }, CopyDirection::ToStdout) => {
            let read = ReadPlan::now(plan_table(ctx, name, columns)?);
            Ok(Plan::CopyTo(CopyToPlan { read, options: copy.options.clone() }))
        }
        (CopySource::Query(query), _) => {
            let read = plan_read(ctx, query, &mut Params::none())?;
            Ok(Plan::CopyTo(CopyToPlan { read, options: copy.options.clone() }))
        }
    }
}

/// COPY t (columns) TO is COPY (SELECT columns FROM t) TO.
fn plan_table(ctx: &PlanContext<'_>, name: &Name, columns: &[String]) -> Result<super::SelectPlan, SqlError> {
    let item = resolve_item(ctx.catalog, ctx.scope(), name)?.ok_or_else(|| unknown_relation(name))?;
    if item.object_kind() != ObjectKind::Table {
        let kind = item.object_kind();
        return Err(SqlError::new(
            SqlState::WRONG_OBJECT_TYPE,
            format!("cannot copy from {kind} \"{}\"", item.name.item),
        )
        .with_hint("Try the COPY (SELECT ...) TO variant."));
    }
    let columns: Vec<String> = target_columns(&item, columns)?
        .into_iter()
        .map(|position| quote_ident(&item.desc.columns[position].name))
        .collect();
    let text = format!("SELECT {} FROM {}", columns.join(", "), item.name);
    let query = crate::parser::parse_query(&text)?;
    query::plan_select(ctx, &query, &mut Params::none())
}
