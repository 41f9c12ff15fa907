//! Dates that are compared with a constant timestamp are compared as dates.
//!
//! Postgres compares the two without a cast, so no date is out of range there; and a comparison of a column with a constant
//! cannot fail, reaches the index paths, and goes down to where the column is read.

use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, binary_expr, lit};
use engine::error::SqlError;
use engine::fold::fold;
use engine::rules::guard::is_immutable;
use pgrepr::calendar::DAY_US;
use repr::PgType;
use sql_functions::cast::CastFunction;

/// Rewrites the comparisons in filters.
pub(crate) fn compare_dates(plan: LogicalPlan) -> Result<LogicalPlan, SqlError> {
    let rewritten = plan.transform_up_with_subqueries(|plan| match plan {
        LogicalPlan::Filter(mut filter) => {
            let predicate = filter.predicate.transform_up(|expr| {
                Ok(match &expr {
                    Expr::BinaryExpr(comparison) => match of_dates(comparison) {
                        Some(dates) => Transformed::yes(dates),
                        None => Transformed::no(expr),
                    },
                    _ => Transformed::no(expr),
                })
            })?;
            filter.predicate = predicate.data;
            Ok(Transformed::new_transformed(LogicalPlan::Filter(filter), predicate.transformed))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(rewritten.data)
}

/// A comparison of a date, cast to a timestamp, with a constant as one of dates.
fn of_dates(comparison: &BinaryExpr) -> Option<Expr> {
    let (date, op, constant) = match (date_of(&comparison.left), date_of(&comparison.right)) {
        (Some(date), None) => (date, comparison.op, &comparison.right),
        (None, Some(date)) => (date, comparison.op.swap()?, &comparison.left),
        _ => return None,
    };
    if !is_immutable(constant) {
        return None;
    }
    let ScalarValue::TimestampMicrosecond(Some(at), None) = fold(constant)? else { return None };
    if at == i64::MIN || at == i64::MAX {
        return None;
    }
    let day = i32::try_from(at.div_euclid(DAY_US)).ok()?;
    let is_midnight = at.rem_euclid(DAY_US) == 0;
    let op = match op {
        // Of the days, all until this one have begun before a later moment of it.
        Operator::Lt if !is_midnight => Operator::LtEq,
        Operator::GtEq if !is_midnight => Operator::Gt,
        Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => op,
        Operator::Eq | Operator::NotEq if is_midnight => op,
        _ => return None,
    };
    Some(binary_expr(date.clone(), op, lit(ScalarValue::Date32(Some(day)))))
}

/// The date of which an expression is the first moment.
fn date_of(expr: &Expr) -> Option<&Expr> {
    let Expr::ScalarFunction(call) = expr else { return None };
    let cast = call.func.inner().downcast_ref::<CastFunction>()?;
    cast.is(&PgType::Date, &PgType::Timestamp).then(|| call.args.first()).flatten()
}
