//! Arguments of functions by their names, and those that may be left out.

use super::scope::fold;
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use sqlparser::ast::{BinaryOperator, Expr, FunctionArg, FunctionArgExpr, Ident, Value};
use std::sync::LazyLock;

/// Functions whose arguments have names that programs use.
const NAMED: [(&str, &[&str]); 7] = [
    ("make_interval", &["years", "months", "weeks", "days", "hours", "mins", "secs"]),
    ("make_date", &["year", "month", "day"]),
    ("make_time", &["hour", "min", "sec"]),
    ("make_timestamp", &["year", "month", "mday", "hour", "min", "sec"]),
    ("make_timestamptz", &["year", "month", "mday", "hour", "min", "sec", "timezone"]),
    ("jsonb_set", &["jsonb_in", "path", "replacement", "create_if_missing"]),
    ("jsonb_insert", &["jsonb_in", "path", "replacement", "insert_after"]),
];

/// What stands for an argument of `make_interval` that is left out.
static ZERO: LazyLock<Expr> = LazyLock::new(|| Expr::value(Value::Number("0".to_owned(), false)));

/// The arguments of a call, in the order of its parameters. Errors: 42883 for a name that no parameter has, 42601 for what comes
/// twice or out of place.
pub(super) fn in_order<'a>(function: &str, args: &'a [FunctionArg]) -> Result<Vec<&'a Expr>, SqlError> {
    let parameters = NAMED.iter().find(|(name, _)| *name == function).map(|(_, parameters)| *parameters);
    let mut ordered: Vec<Option<&'a Expr>> = Vec::with_capacity(args.len());
    let mut is_named = false;
    for arg in args {
        let (name, value) = parts(arg).ok_or_else(|| SqlError::unsupported("this form of an argument"))?;
        let Some(name) = name else {
            if is_named {
                let message = "positional argument cannot follow named argument";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            ordered.push(Some(value));
            continue;
        };
        let parameters = parameters.ok_or_else(|| missing(function))?;
        is_named = true;
        let name = fold(name);
        let Some(at) = parameters.iter().position(|parameter| *parameter == name) else {
            return Err(missing(function));
        };
        ordered.resize(ordered.len().max(at + 1), None);
        if ordered[at].replace(value).is_some() {
            let message = format!("argument name \"{name}\" used more than once");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
    }
    if function == "make_interval" {
        ordered.resize(ordered.len().max(7), None);
        return Ok(ordered.into_iter().map(|value| value.unwrap_or(&ZERO)).collect());
    }
    ordered.into_iter().map(|value| value.ok_or_else(|| missing(function))).collect()
}

/// An argument's name, if it has one, and its value.
fn parts(arg: &FunctionArg) -> Option<(Option<&Ident>, &Expr)> {
    let (name, value) = match arg {
        // To the parser, `:=` is an operator.
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp { left, op: BinaryOperator::Assignment, right })) => {
            return match left.as_ref() {
                Expr::Identifier(name) => Some((Some(name), right)),
                _ => None,
            };
        }
        FunctionArg::Unnamed(value) => (None, value),
        FunctionArg::Named { name, arg, .. } => (Some(name), arg),
        FunctionArg::ExprNamed { name: Expr::Identifier(name), arg, .. } => (Some(name), arg),
        FunctionArg::ExprNamed { .. } => return None,
    };
    match value {
        FunctionArgExpr::Expr(value) => Some((name, value)),
        _ => None,
    }
}

fn missing(function: &str) -> SqlError {
    let message = format!("function {function} with arguments of these names does not exist");
    SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
}
