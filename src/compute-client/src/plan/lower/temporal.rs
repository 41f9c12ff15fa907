//! Lowers temporal filters: conjuncts that compare `mz_now()`, alone, with something.

use super::{Lowering, mfp, refused};
use crate::plan::lir::{Lir, Node, Stage, TimeBound};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::DFSchemaRef;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::utils::conjunction;
use engine::error::SqlError;
use engine::temporal::Comparison;
use std::sync::Arc;

impl Lowering<'_> {
    /// The rows for which a predicate is true, as long as it is. It is over `schema`.
    pub(super) fn filtered(&self, lir: Lir, predicate: Expr, schema: &DFSchemaRef) -> Result<Lir, SqlError> {
        let (temporal, rest) = engine::temporal::split(predicate);
        let stage = conjunction(rest).map(|rest| Ok(Stage::Filter(self.compile(&rest, schema)?)));
        let filtered = mfp(lir, stage.into_iter().collect::<Result<_, SqlError>>()?);
        self.temporal(filtered, temporal, schema)
    }

    /// The rows for as long as all conditions are true of them. The conditions are over `schema`.
    pub(super) fn temporal(
        &self,
        lir: Lir,
        conditions: Vec<Comparison>,
        schema: &DFSchemaRef,
    ) -> Result<Lir, SqlError> {
        if conditions.is_empty() {
            return Ok(lir);
        }
        let bounds = conditions
            .into_iter()
            .map(|Comparison { op, with, .. }| {
                let with = self.compile(&with, schema)?;
                let data_type = with.data_type(schema.as_arrow())?;
                match is_time(&data_type) {
                    true => Ok(TimeBound { op, with }),
                    false => Err(SqlError::internal(format!("mz_now() is compared with a value of type {data_type}"))),
                }
            })
            .collect::<Result<_, SqlError>>()?;
        let schema = Arc::clone(&lir.schema);
        Ok(Lir { schema, node: Node::Temporal { input: Box::new(lir), bounds } })
    }
}

/// Whether values of a type say a time in microseconds since the epoch.
fn is_time(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Int64
            | DataType::Float64
            | DataType::Decimal128(..)
            | DataType::Decimal256(..)
            | DataType::Timestamp(TimeUnit::Microsecond, _)
    )
}

/// Where else `mz_now()` stands it cannot be maintained.
pub(super) fn now_refused() -> SqlError {
    refused("mz_now() in this place in a maintained view").with_hint(
        "Compare mz_now(), on its own and with =, <, <=, > or >=, in a condition of WHERE or HAVING that is joined to the \
         others with AND. Instead of OR use UNION.",
    )
}
