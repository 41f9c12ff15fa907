//! EXPLAIN: plans the statement and asks the adapter to print it.

use super::{ExplainPlan, Plan, PlanContext, plan};
use crate::ast::{Explain, ExplainStage};
use crate::engine::Params;
use crate::error::SqlError;
use repr::{PgType, RelationDesc};
use std::sync::Arc;

pub(super) fn plan_explain(ctx: &PlanContext<'_>, explain: &Explain, params: &mut Params) -> Result<Plan, SqlError> {
    let inner = plan(ctx, &explain.statement, params)?;
    let column = match explain.stage {
        ExplainStage::Default => "QUERY PLAN",
        ExplainStage::Optimized => "Optimized Plan",
        ExplainStage::Physical => "Physical Plan",
        ExplainStage::Timestamp => "Timestamp",
    };
    Ok(Plan::Explain(ExplainPlan {
        stage: explain.stage,
        verbose: explain.verbose,
        format: explain.format,
        plan: Box::new(inner),
        desc: Arc::new(RelationDesc::new([(column.to_owned(), PgType::Text, false)])),
    }))
}
