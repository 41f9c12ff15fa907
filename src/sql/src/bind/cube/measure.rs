//! Measures in queries: `MEASURE(m)`, or the aggregate that the measure is.

use crate::bind::Binder;
use crate::bind::call::Parsed;
use arrow::datatypes::DataType;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Expr, Signature, Volatility};
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use semantic::model::measure::MeasureKind;
use sql_functions::TypedExpr;
use std::sync::{Arc, LazyLock};

/// The function's name.
pub(in crate::bind) const MEASURE: &str = "measure";

/// The value of a measure, until it is expanded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Measure {
    signature: Signature,
}

static UDAF: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(AggregateUDF::new_from_impl(Measure { signature }))
});

impl AggregateUDFImpl for Measure {
    fn name(&self) -> &str {
        MEASURE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(args[0].clone())
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Err(SqlError::internal("a measure was left in a plan").into())
    }
}

/// The column whose measure a call gives, and the condition on the rows that count.
pub(super) fn measured(expr: &Expr) -> Option<(&Column, Option<&Expr>)> {
    let Expr::AggregateFunction(AggregateFunction { func, params }) = expr else { return None };
    match params.args.as_slice() {
        [Expr::Column(column)] if func.name() == MEASURE => Some((column, params.filter.as_deref())),
        _ => None,
    }
}

/// The same, of a call under a name.
pub(super) fn measured_in(expr: &Expr) -> Option<(&Column, Option<&Expr>)> {
    match expr {
        Expr::Alias(alias) => measured_in(&alias.expr),
        expr => measured(expr),
    }
}

impl Binder<'_> {
    /// An error about an expression that is not grouped, with what to write if the column is a measure.
    pub(in crate::bind) fn with_measure(&self, error: SqlError, expr: &Expr) -> SqlError {
        let is_measure = |column: &&Column| {
            let qualifier = column.relation.as_ref().map(|of| of.table().to_owned());
            qualifier.is_some_and(|of| self.measures.contains_key(&(of, column.name.clone())))
        };
        match expr.column_refs().into_iter().find(is_measure) {
            Some(column) => error.with_hint(format!("Write MEASURE({}).", column.name)),
            None => error,
        }
    }

    /// An aggregate whose argument is a measure, and which is not over a window, is the measure. None if the argument is something else.
    ///
    /// Errors: 42809, the measure is another aggregate, or `MEASURE` is of no measure.
    pub(in crate::bind) fn measure_call(
        &self,
        call: &Parsed<'_>,
        args: &[TypedExpr],
        filter: Option<&Expr>,
    ) -> Result<Option<TypedExpr>, SqlError> {
        let is_explicit = call.name == MEASURE;
        let column = match args {
            [TypedExpr { expr: Expr::Column(column), .. }] => Some(column),
            _ => None,
        };
        let kind = column
            .and_then(|column| self.measures.get(&(column.relation.as_ref()?.table().to_owned(), column.name.clone())));
        let (Some(kind), Some(column), [arg]) = (kind, column, args) else {
            if !is_explicit {
                return Ok(None);
            }
            let message = "the argument of MEASURE is no measure of a cube";
            let hint = "MEASURE takes a column that a semantic model declares as a measure, and nothing around it.";
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).with_hint(hint).at(call.span));
        };
        let is_plain = call.order_by.is_empty() && !(is_explicit && call.distinct);
        if !is_plain {
            return Err(SqlError::unsupported(format!(
                "DISTINCT or ORDER BY in the call of measure \"{}\"",
                column.name
            ))
            .at(call.span));
        }
        if !is_explicit && !is_called_by(*kind, &call.name, call.distinct) {
            let wanted = written(*kind);
            let message = format!(
                "measure aggregation type doesn't match: \"{}\" is {wanted}, and {}({}) was asked for",
                column.name,
                call.name,
                if call.distinct { "DISTINCT" } else { "" }
            );
            let hint = format!("Write MEASURE({}).", column.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).with_hint(hint).at(call.span));
        }
        let filter = filter.map(|filter| Box::new(filter.clone()));
        let call = AggregateFunction::new_udf(Arc::clone(&UDAF), vec![arg.expr.clone()], false, filter, vec![], None);
        Ok(Some(TypedExpr { expr: Expr::AggregateFunction(call), nullable: true, ..arg.clone() }))
    }
}

/// Whether an aggregate stands for a measure of this kind. What is computed from others can be asked for by any.
fn is_called_by(kind: MeasureKind, name: &str, distinct: bool) -> bool {
    match kind {
        // A sum of counts is what tools write that have a column of numbers before them.
        MeasureKind::Count => !distinct && matches!(name, "count" | "sum"),
        MeasureKind::CountDistinct | MeasureKind::CountDistinctApprox => distinct && name == "count",
        MeasureKind::Sum => !distinct && name == "sum",
        MeasureKind::Avg => !distinct && name == "avg",
        MeasureKind::Min => name == "min",
        MeasureKind::Max => name == "max",
        MeasureKind::Number | MeasureKind::Text | MeasureKind::Boolean | MeasureKind::Time => true,
    }
}

fn written(kind: MeasureKind) -> &'static str {
    match kind {
        MeasureKind::Count => "count()",
        MeasureKind::CountDistinct | MeasureKind::CountDistinctApprox => "count(DISTINCT)",
        MeasureKind::Sum => "sum()",
        MeasureKind::Avg => "avg()",
        MeasureKind::Min => "min()",
        MeasureKind::Max => "max()",
        MeasureKind::Number | MeasureKind::Text | MeasureKind::Boolean | MeasureKind::Time => "computed",
    }
}
