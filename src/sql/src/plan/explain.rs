//! EXPLAIN: plans the statement and asks the adapter to print it.

use super::{ExplainPlan, Explained, Plan, PlanContext, plan};
use crate::bind::Params;
use crate::names::{resolve_item, unknown_relation};
use engine::error::SqlError;
use repr::{PgType, RelationDesc};
use sql_syntax::ast::{Explain, ExplainFormat, ExplainOf, ExplainStage};
use std::sync::Arc;

pub(super) fn plan_explain(ctx: &PlanContext<'_>, explain: &Explain, params: &mut Params) -> Result<Plan, SqlError> {
    let of = match &explain.of {
        ExplainOf::Statement(statement) => Explained::Plan(Box::new(plan(ctx, statement, params)?)),
        ExplainOf::Object(name) => {
            let item = resolve_item(ctx.catalog, ctx.scope(), name)?.ok_or_else(|| unknown_relation(name))?;
            Explained::Object(item.id)
        }
    };
    let column = match explain.stage {
        ExplainStage::Default | ExplainStage::Analyze => "QUERY PLAN",
        ExplainStage::Optimized => "Optimized Plan",
        ExplainStage::Physical => "Physical Plan",
        ExplainStage::Timestamp => "Timestamp",
    };
    let column_type = match explain.format {
        ExplainFormat::Text => PgType::Text,
        ExplainFormat::Json => PgType::Json,
    };
    Ok(Plan::Explain(ExplainPlan {
        stage: explain.stage,
        verbose: explain.verbose,
        format: explain.format,
        of,
        desc: Arc::new(RelationDesc::new([(column.to_owned(), column_type, false)])),
    }))
}
