//! Aggregates and window functions: Postgres's names and types over DataFusion's accumulators.
//!
//! Where DataFusion's accumulator has other types or digits than Postgres's, an aggregate is composed: `avg` of
//! integers and numerics is `sum / count` by our numeric division; aggregates for which there is no accumulator
//! (standard deviations of numerics, sums of intervals) collect their values in a list and compute over it.

use crate::bind::Binder;
use crate::bind::cube::MEASURE;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction, Sort};
use datafusion::logical_expr::{AggregateUDF, Expr, WindowUDF, lit};
use datafusion::{functions_aggregate as df, functions_window as dfw};
use engine::error::SqlError;
use pgrepr::length::LengthRule;
use repr::PgType;
use repr::sqlstate::SqlState;
use repr::types::{NUMERIC, NUMERIC_PRECISION, NUMERIC_SCALE, NumericDisplay};
use sql_functions::arith::{Arith, ArithOp};
use sql_functions::decimals::{decimal, precision_and_scale};
use sql_functions::framed::{Of, framed};
use sql_functions::registry::function_missing;
use sql_functions::types::{self, is_float, is_integer, is_stringlike};
use sql_functions::{TypedExpr, ordered_set, regression};
use sqlparser::tokenizer::Span;
use std::sync::Arc;

/// A call of an aggregate.
pub struct AggregateArgs<'a> {
    /// The function's name.
    pub name: &'a str,
    /// `count(*)`
    pub star: bool,
    /// DISTINCT, and the order in which it leaves the first argument's values.
    pub distinct: Option<ValueOrder>,
    /// The arguments.
    pub args: Vec<TypedExpr>,
    /// Whether it is over a window.
    pub is_windowed: bool,
}

/// The order of the values of one expression: ORDER BY of a call with DISTINCT, which can be about its arguments only, or that of
/// WITHIN GROUP.
#[derive(Clone, Copy, Debug, Default)]
pub struct ValueOrder {
    /// DESC
    pub descending: bool,
    /// NULLS FIRST
    pub nulls_first: bool,
}

/// Places an accumulator in a group or a window.
pub type Site<'s> = &'s dyn Fn(Arc<AggregateUDF>, Vec<Expr>) -> Expr;

/// Whether a name is an aggregate's.
pub fn is_aggregate(name: &str) -> bool {
    matches!(
        name,
        "count"
            | "sum"
            | "avg"
            | "min"
            | "max"
            | "bool_and"
            | "bool_or"
            | "every"
            | "string_agg"
            | "array_agg"
            | "json_agg"
            | "jsonb_agg"
            | "json_object_agg"
            | "jsonb_object_agg"
            | "stddev"
            | "stddev_samp"
            | "stddev_pop"
            | "variance"
            | "var_samp"
            | "var_pop"
            | "bit_and"
            | "bit_or"
            | "bit_xor"
            | "percentile_cont"
            | "percentile_disc"
            | "mode"
            | MEASURE
    ) || regression::NAMES.contains(&name)
}

/// Whether a name is a window function's.
pub fn is_window(name: &str) -> bool {
    matches!(
        name,
        "row_number"
            | "rank"
            | "dense_rank"
            | "percent_rank"
            | "cume_dist"
            | "ntile"
            | "lag"
            | "lead"
            | "first_value"
            | "last_value"
            | "nth_value"
    )
}

/// `count(*)`, for a query that has HAVING and nothing else.
pub fn count_star() -> Result<Expr, SqlError> {
    Ok(plain(df::count::count_udaf(), vec![lit(1_i64)]))
}

/// `array_agg(expr)` in the order of the input.
pub fn collect_list(expr: Expr) -> Result<Expr, SqlError> {
    Ok(plain(df::array_agg::array_agg_udaf(), vec![expr]))
}

/// `array_agg(expr ORDER BY …)`.
pub fn collect_ordered(expr: Expr, order_by: Vec<Sort>) -> Expr {
    let func = df::array_agg::array_agg_udaf();
    Expr::AggregateFunction(AggregateFunction::new_udf(func, vec![expr], false, None, order_by, None))
}

fn plain(func: Arc<AggregateUDF>, args: Vec<Expr>) -> Expr {
    Expr::AggregateFunction(AggregateFunction::new_udf(func, args, false, None, vec![], None))
}

/// An aggregate call as an expression.
#[expect(clippy::too_many_lines, reason = "a line for each function")]
pub fn build(binder: &mut Binder<'_>, call: AggregateArgs<'_>, site: Site<'_>) -> Result<TypedExpr, SqlError> {
    let actual: Vec<PgType> = call.args.iter().map(|arg| arg.ty.clone()).collect();
    let missing = || function_missing(call.name, &actual);
    if call.star != (call.name == "count" && call.args.is_empty()) {
        return Err(missing());
    }
    if call.star && call.distinct.is_some() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "DISTINCT cannot be applied to *"));
    }
    if call.star {
        let expr = site(df::count::count_udaf(), vec![lit(1_i64)]);
        return Ok(TypedExpr { expr, ty: PgType::Int8, data_type: DataType::Int64, nullable: false });
    }
    let mut args = call.args.clone();
    let arity = match call.name {
        "string_agg" | "json_object_agg" | "jsonb_object_agg" => 2,
        name if regression::NAMES.contains(&name) => 2,
        _ => 1,
    };
    if args.len() != arity {
        return Err(missing());
    }
    let second = if arity == 2 { args.pop() } else { None };
    if matches!(call.name, "json_agg" | "jsonb_agg") && args[0].ty == PgType::Unknown {
        let message = "could not determine polymorphic type because input has type unknown";
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
    }
    // What nothing has decided takes string_agg's type from its delimiter.
    let first = args.remove(0);
    let first = if call.name == "string_agg" { first } else { binder.coercer.settle(first)? };
    if call.distinct.is_some() {
        binder.require_distinct(&first.ty)?;
    }
    let first = match (call.distinct, call.name, &first.ty) {
        (Some(_), "sum" | "avg", PgType::Interval) => {
            return Err(SqlError::unsupported(format!("{} of distinct intervals", call.name)));
        }
        // What DISTINCT compares are bits; the sum with zero has no negative one.
        (Some(_), "count" | "sum" | "avg", PgType::Float4 | PgType::Float8) => {
            let zero = TypedExpr::constant(&repr::Datum::Float8(0.0), PgType::Float8)?;
            let zero = binder.coercer.explicit(zero, &first.ty)?;
            TypedExpr { expr: first.expr + zero.expr, ..first }
        }
        (Some(_), "count", _) => binder.comparison_key(first)?,
        _ => first,
    };
    if call.is_windowed
        && is_float(&first.ty)
        && let Some(of) = of_floats(call.name, &first.ty)
    {
        let ty = if of == Of::NarrowSum { PgType::Float4 } else { PgType::Float8 };
        let arg = binder.coercer.cast(first, &PgType::Float8, LengthRule::Cast)?;
        let result = TypedExpr::new(site(framed(of), vec![arg.expr]), PgType::Float8, DataType::Float64);
        return binder.coercer.cast(result, &ty, LengthRule::Cast);
    }
    match call.name {
        "count" => {
            let expr = site(df::count::count_udaf(), vec![first.expr]);
            Ok(TypedExpr { expr, ty: PgType::Int8, data_type: DataType::Int64, nullable: false })
        }
        "sum" => sum(binder, first, site)?.ok_or_else(missing),
        "avg" => avg(binder, first, site)?.ok_or_else(missing),
        "min" | "max" => extreme(binder, call.name, first, site)?.ok_or_else(missing),
        "bool_and" | "every" | "bool_or" if first.ty == PgType::Bool => {
            let func =
                if call.name == "bool_or" { df::bool_and_or::bool_or_udaf() } else { df::bool_and_or::bool_and_udaf() };
            Ok(TypedExpr::new(site(func, vec![first.expr]), PgType::Bool, DataType::Boolean))
        }
        "bit_and" | "bit_or" | "bit_xor" if is_integer(&first.ty) => {
            let func = match call.name {
                "bit_and" => df::bit_and_or_xor::bit_and_udaf(),
                "bit_or" => df::bit_and_or_xor::bit_or_udaf(),
                _ => df::bit_and_or_xor::bit_xor_udaf(),
            };
            Ok(TypedExpr::new(site(func, vec![first.expr]), first.ty, first.data_type))
        }
        "array_agg" => array_agg(binder, &call, first, site),
        "string_agg" => string_agg(binder, &call, first, second.ok_or_else(missing)?, site),
        "json_agg" | "jsonb_agg" => json_agg(binder, &call, first, site),
        "json_object_agg" | "jsonb_object_agg" => {
            json_object_agg(binder, &call, first, second.ok_or_else(missing)?, site)
        }
        "stddev" | "stddev_samp" | "stddev_pop" | "variance" | "var_samp" | "var_pop" => {
            spread(binder, call.name, first, site)?.ok_or_else(missing)
        }
        MEASURE => {
            let hint = "Write an aggregate of it over the window: sum(MEASURE(m)) OVER (…).";
            Err(SqlError::unsupported("MEASURE over a window").with_hint(hint))
        }
        name if regression::NAMES.contains(&name) => {
            let mut lists = Vec::with_capacity(2);
            for arg in [first, second.ok_or_else(missing)?] {
                let arg = binder.coercer.implicit(arg, &PgType::Float8, name).map_err(|_| missing())?;
                lists.push(list_of(arg, site));
            }
            binder.call(&format!("{name}_list"), lists, Span::empty())
        }
        _ => Err(missing()),
    }
}

/// An ordered-set aggregate: `name(direct) WITHIN GROUP (ORDER BY value)`. DESC and NULLS FIRST are those of `order`.
pub fn ordered_set(
    binder: &mut Binder<'_>,
    name: &str,
    direct: Vec<TypedExpr>,
    value: TypedExpr,
    order: ValueOrder,
    site: Site<'_>,
) -> Result<TypedExpr, SqlError> {
    let actual: Vec<PgType> = direct.iter().chain([&value]).map(|arg| arg.ty.clone()).collect();
    let missing = || function_missing(name, &actual);
    let (function, hypothetical) = ordered_set::function(name).ok_or_else(missing)?;
    if direct.len() != usize::from(name != "mode") {
        return Err(missing());
    }
    let value = binder.coercer.settle(value)?;
    binder.require_distinct(&value.ty)?;
    let value = match name {
        "percentile_cont" => {
            let ty = ordered_set::continuous(&value.ty);
            binder.coercer.implicit(value, &ty, name).map_err(|_| missing())?
        }
        _ => value,
    };
    let item = types::base(&value.ty);
    let value = binder.coercer.store_as(value, &item, &item.data_type())?;
    let mut args = vec![list_of(value, site)];
    for direct in direct {
        let to = match (&direct.ty, hypothetical) {
            (_, true) => item.clone(),
            (PgType::Array(_), false) => PgType::Array(Box::new(PgType::Float8)),
            _ => PgType::Float8,
        };
        let direct = binder.coercer.implicit(direct, &to, name).map_err(|_| missing())?;
        args.push(binder.coercer.store_as(direct, &to, &to.data_type())?);
    }
    let flag = |flag: bool| TypedExpr::constant(&repr::Datum::Bool(flag), PgType::Bool);
    args.push(flag(order.descending)?);
    if hypothetical {
        args.push(flag(order.nulls_first)?);
    }
    binder.call(function, args, Span::empty())
}

/// What an aggregate computes of floats over a window.
fn of_floats(name: &str, ty: &PgType) -> Option<Of> {
    Some(match name {
        "sum" if *ty == PgType::Float4 => Of::NarrowSum,
        "sum" => Of::Sum,
        "avg" => Of::Avg,
        "var_pop" => Of::VarPop,
        "variance" | "var_samp" => Of::VarSamp,
        "stddev_pop" => Of::StddevPop,
        "stddev" | "stddev_samp" => Of::StddevSamp,
        _ => return None,
    })
}

/// Sums are wide enough never to wrap: integers in int8 or numeric, numerics ten digits wider.
fn sum(binder: &mut Binder<'_>, arg: TypedExpr, site: Site<'_>) -> Result<Option<TypedExpr>, SqlError> {
    let func = df::sum::sum_udaf();
    Ok(Some(match &arg.ty {
        PgType::Int2 | PgType::Int4 => {
            let arg = binder.coercer.cast(arg, &PgType::Int8, LengthRule::Cast)?;
            TypedExpr::new(site(func, vec![arg.expr]), PgType::Int8, DataType::Int64)
        }
        PgType::Int8 | PgType::Numeric(_) => numeric_sum(binder, arg, site)?,
        PgType::Float8 => TypedExpr::new(site(func, vec![arg.expr]), PgType::Float8, DataType::Float64),
        PgType::Float4 => {
            let wide = binder.coercer.cast(arg, &PgType::Float8, LengthRule::Cast)?;
            let total = TypedExpr::new(site(func, vec![wide.expr]), PgType::Float8, DataType::Float64);
            binder.coercer.cast(total, &PgType::Float4, LengthRule::Cast)?
        }
        PgType::Interval | PgType::Time => {
            let arg = binder.coercer.cast(arg, &PgType::Interval, LengthRule::Cast)?;
            over_list(binder, "interval_sum", arg, site)?
        }
        _ => return Ok(None),
    }))
}

fn numeric_sum(binder: &mut Binder<'_>, arg: TypedExpr, site: Site<'_>) -> Result<TypedExpr, SqlError> {
    Ok(sum_of(summand(binder, arg)?, site))
}

fn sum_of(arg: TypedExpr, site: Site<'_>) -> TypedExpr {
    TypedExpr::new(site(df::sum::sum_udaf(), vec![arg.expr]), arg.ty, arg.data_type)
}

/// A number in the type that its sum has.
fn summand(binder: &mut Binder<'_>, arg: TypedExpr) -> Result<TypedExpr, SqlError> {
    let arg = binder.coercer.cast(arg, &NUMERIC, LengthRule::Cast)?;
    let (precision, scale) = precision_and_scale(&arg.data_type);
    let ty = match &arg.ty {
        PgType::Numeric(NumericDisplay::Declared(..)) => PgType::Numeric(NumericDisplay::Scale),
        other => other.clone(),
    };
    // DataFusion widens by ten digits up to the maximum of the type it is given.
    let storage = decimal(precision.saturating_add(10), scale);
    let storage = match storage {
        DataType::Decimal128(..) => DataType::Decimal128(38, scale),
        _ => DataType::Decimal256(NUMERIC_PRECISION, scale),
    };
    match Arith::widened(&arg.expr, &storage) {
        Some(expr) => Ok(TypedExpr { expr, ty, data_type: storage, ..arg }),
        None => binder.coercer.store_as(arg, &ty, &storage),
    }
}

/// The average of exact numbers is a numeric quotient.
fn avg(binder: &mut Binder<'_>, arg: TypedExpr, site: Site<'_>) -> Result<Option<TypedExpr>, SqlError> {
    if is_float(&arg.ty) {
        let arg = binder.coercer.cast(arg, &PgType::Float8, LengthRule::Cast)?;
        let expr = site(df::average::avg_udaf(), vec![arg.expr]);
        return Ok(Some(TypedExpr::new(expr, PgType::Float8, DataType::Float64)));
    }
    if arg.ty == PgType::Interval {
        return Ok(Some(over_list(binder, "interval_avg", arg, site)?));
    }
    if !is_integer(&arg.ty) && !matches!(arg.ty, PgType::Numeric(_)) {
        return Ok(None);
    }
    let summed = summand(binder, arg.clone())?;
    // What is calculated is calculated once, a column is counted as it is.
    let counted = if matches!(summed.expr, Expr::ScalarFunction(_)) { &summed } else { &arg };
    let count = site(df::count::count_udaf(), vec![counted.expr.clone()]);
    let count = TypedExpr::new(count, PgType::Int8, DataType::Int64);
    let total = sum_of(summed, site);
    // No rows give NULL, not a division by zero.
    let count = binder.call("nonzero", vec![count], Span::empty())?;
    let count = binder.coercer.cast(count, &NUMERIC, LengthRule::Cast)?;
    let quotient = PgType::Numeric(NumericDisplay::Quotient);
    let data_type = DataType::Decimal256(NUMERIC_PRECISION, NUMERIC_SCALE);
    let udf = Arith::udf(ArithOp::Div, &quotient, &data_type);
    let expr = Expr::ScalarFunction(ScalarFunction::new_udf(udf, vec![total.expr, count.expr]));
    Ok(Some(TypedExpr::new(expr, quotient, data_type)))
}

fn extreme(binder: &mut Binder<'_>, name: &str, arg: TypedExpr, site: Site<'_>) -> Result<Option<TypedExpr>, SqlError> {
    let refused = matches!(
        arg.ty,
        PgType::Bool | PgType::Uuid | PgType::Bytea | PgType::Json | PgType::Jsonb | PgType::Record | PgType::Void
    );
    if refused {
        return Ok(None);
    }
    if matches!(arg.ty, PgType::Interval | PgType::Array(_)) {
        let over = if name == "min" { "list_min" } else { "list_max" };
        return Ok(Some(over_list(binder, over, arg, site)?));
    }
    let arg = match arg.ty {
        PgType::Varchar(_) | PgType::Name => binder.coercer.cast(arg, &PgType::Text, LengthRule::Cast)?,
        PgType::Bpchar(_) => TypedExpr { ty: PgType::Bpchar(None), ..arg },
        PgType::Numeric(NumericDisplay::Declared(..)) => {
            TypedExpr { ty: PgType::Numeric(NumericDisplay::Scale), ..arg }
        }
        _ => arg,
    };
    let func = if name == "min" { df::min_max::min_udaf() } else { df::min_max::max_udaf() };
    Ok(Some(TypedExpr::new(site(func, vec![arg.expr]), arg.ty, arg.data_type)))
}

/// Collects the values and computes over the list.
fn over_list(binder: &mut Binder<'_>, function: &str, arg: TypedExpr, site: Site<'_>) -> Result<TypedExpr, SqlError> {
    let item = types::base(&arg.ty);
    let arg = binder.coercer.store_as(arg, &item, &item.data_type())?;
    binder.call(function, vec![list_of(arg, site)], Span::empty())
}

fn array_agg(
    binder: &mut Binder<'_>,
    call: &AggregateArgs<'_>,
    arg: TypedExpr,
    site: Site<'_>,
) -> Result<TypedExpr, SqlError> {
    if matches!(arg.ty, PgType::Array(_) | PgType::Record) {
        return Err(SqlError::unsupported("array_agg of arrays"));
    }
    let item = types::base(&arg.ty);
    let arg = binder.coercer.store_as(arg, &item, &item.data_type())?;
    let list = list_of(arg, site);
    let Some(order) = call.distinct else { return Ok(list) };
    // DISTINCT sorts in Postgres, where it hashes what is stored in DataFusion.
    let flag = |flag: bool| TypedExpr::constant(&repr::Datum::Bool(flag), PgType::Bool);
    let args = vec![list, flag(order.descending)?, flag(order.nulls_first)?];
    binder.call("array_distinct", args, Span::empty())
}

fn string_agg(
    binder: &mut Binder<'_>,
    call: &AggregateArgs<'_>,
    arg: TypedExpr,
    delimiter: TypedExpr,
    site: Site<'_>,
) -> Result<TypedExpr, SqlError> {
    let stringy = |ty: &PgType| is_stringlike(ty) || *ty == PgType::Unknown;
    let bytes = |ty: &PgType| matches!(ty, PgType::Bytea | PgType::Unknown);
    let ty = match (&arg.ty, &delimiter.ty) {
        (arg, delimiter) if stringy(arg) && stringy(delimiter) => PgType::Text,
        (arg, delimiter) if bytes(arg) && bytes(delimiter) => PgType::Bytea,
        _ => return Err(function_missing("string_agg", &[arg.ty, delimiter.ty])),
    };
    let arg = binder.coercer.cast(arg, &ty, LengthRule::Cast)?;
    let delimiter = binder.coercer.cast(delimiter, &ty, LengthRule::Cast)?;
    if delimiter.as_literal().is_none() {
        return Err(SqlError::unsupported("string_agg with a delimiter that is not a constant"));
    }
    let list = array_agg(binder, call, arg, site)?;
    binder.call("string_agg_list", vec![list, delimiter], Span::empty())
}

/// `json_agg` and `jsonb_agg`: every value becomes JSON by itself, and the list of these one document.
fn json_agg(
    binder: &mut Binder<'_>,
    call: &AggregateArgs<'_>,
    arg: TypedExpr,
    site: Site<'_>,
) -> Result<TypedExpr, SqlError> {
    let json = if call.name == "json_agg" { "json" } else { "jsonb" };
    if call.distinct.is_some() {
        // What is distinct are the values, not how JSON writes them.
        let list = array_agg(binder, call, arg, site)?;
        return binder.call(&format!("to_{json}_document"), vec![list], Span::empty());
    }
    // Documents of several lines break between items that have parts.
    let separator = if matches!(arg.ty, PgType::Array(_) | PgType::Record) { ", \n " } else { ", " };
    let separator = TypedExpr::constant(&repr::Datum::Text(separator.into()), PgType::Text)?;
    let list = json_list(binder, arg, site)?;
    binder.call(&format!("{json}_document"), vec![list, separator], Span::empty())
}

/// `json_object_agg` and `jsonb_object_agg`: a list of keys and one of values.
fn json_object_agg(
    binder: &mut Binder<'_>,
    call: &AggregateArgs<'_>,
    key: TypedExpr,
    value: TypedExpr,
    site: Site<'_>,
) -> Result<TypedExpr, SqlError> {
    if call.distinct.is_some() {
        return Err(SqlError::unsupported(format!("{} with DISTINCT", call.name)));
    }
    if matches!(key.ty, PgType::Array(_) | PgType::Json | PgType::Jsonb | PgType::Record) {
        let message = "key value must be scalar, not array, composite, or json";
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    let key = binder.call("json_key", vec![key], Span::empty())?;
    let key = binder.coercer.store_as(key, &PgType::Text, &DataType::Utf8View)?;
    let keys = list_of(key, site);
    let value = binder.coercer.settle(value)?;
    let values = json_list(binder, value, site)?;
    let object = if call.name == "json_object_agg" { "json_object_document" } else { "jsonb_object_document" };
    binder.call(object, vec![keys, values], Span::empty())
}

/// Each value as JSON, in a list.
fn json_list(binder: &mut Binder<'_>, arg: TypedExpr, site: Site<'_>) -> Result<TypedExpr, SqlError> {
    let json = binder.call("to_json", vec![arg], Span::empty())?;
    Ok(list_of(json, site))
}

/// The values in a list.
fn list_of(arg: TypedExpr, site: Site<'_>) -> TypedExpr {
    let data_type = DataType::new_list(arg.data_type, true);
    let list = site(df::array_agg::array_agg_udaf(), vec![arg.expr]);
    TypedExpr::new(list, PgType::Array(Box::new(arg.ty)), data_type)
}

/// Variances and standard deviations: float8 for floats, numeric for exact numbers.
fn spread(binder: &mut Binder<'_>, name: &str, arg: TypedExpr, site: Site<'_>) -> Result<Option<TypedExpr>, SqlError> {
    if is_integer(&arg.ty) || matches!(arg.ty, PgType::Numeric(_)) {
        let arg = binder.coercer.cast(arg, &NUMERIC, LengthRule::Cast)?;
        let function = match name {
            "stddev" | "stddev_samp" => "numeric_stddev_samp",
            "stddev_pop" => "numeric_stddev_pop",
            "variance" | "var_samp" => "numeric_var_samp",
            _ => "numeric_var_pop",
        };
        return Ok(Some(over_list(binder, function, arg, site)?));
    }
    if !is_float(&arg.ty) {
        return Ok(None);
    }
    let arg = binder.coercer.cast(arg, &PgType::Float8, LengthRule::Cast)?;
    let func = match name {
        "stddev" | "stddev_samp" => df::stddev::stddev_udaf(),
        "stddev_pop" => df::stddev::stddev_pop_udaf(),
        "variance" | "var_samp" => df::variance::var_samp_udaf(),
        _ => df::variance::var_pop_udaf(),
    };
    Ok(Some(TypedExpr::new(site(func, vec![arg.expr]), PgType::Float8, DataType::Float64)))
}

/// The parts of a window call: function, arguments, type, Arrow type, and a cast to put around it.
pub type WindowParts = (Arc<WindowUDF>, Vec<Expr>, PgType, DataType, Option<DataType>);

/// A window function by name.
#[expect(clippy::too_many_lines, reason = "a line for each function")]
pub fn window(binder: &mut Binder<'_>, name: &str, args: Vec<TypedExpr>) -> Result<WindowParts, SqlError> {
    let actual: Vec<PgType> = args.iter().map(|arg| arg.ty.clone()).collect();
    let missing = || function_missing(name, &actual);
    let bigint = |udf: Arc<WindowUDF>| (udf, vec![], PgType::Int8, DataType::Int64, Some(DataType::Int64));
    let fraction = |udf: Arc<WindowUDF>| (udf, vec![], PgType::Float8, DataType::Float64, None);
    let arity = match name {
        "ntile" | "first_value" | "last_value" => 1..=1,
        "nth_value" => 2..=2,
        "lag" | "lead" => 1..=3,
        _ => 0..=0,
    };
    if !arity.contains(&args.len()) {
        return Err(missing());
    }
    Ok(match name {
        "row_number" => bigint(dfw::row_number::row_number_udwf()),
        "rank" => bigint(dfw::rank::rank_udwf()),
        "dense_rank" => bigint(dfw::rank::dense_rank_udwf()),
        "percent_rank" => fraction(dfw::rank::percent_rank_udwf()),
        "cume_dist" => fraction(dfw::cume_dist::cume_dist_udwf()),
        // A NULL in the place of a number leaves nothing to show.
        "ntile" if is_null(&args[0]) => nothing(PgType::Int4, DataType::Int32)?,
        "nth_value" | "lag" | "lead" if args.get(1).is_some_and(is_null) => {
            let value = binder.coercer.settle(args[0].clone())?;
            nothing(value.ty, value.data_type)?
        }
        "ntile" => {
            let buckets = constant(binder, args[0].clone(), "ntile", &missing)?;
            if matches!(&buckets, Expr::Literal(ScalarValue::Int64(Some(n)), _) if *n <= 0) {
                return Err(SqlError::new(SqlState("22014"), "argument of ntile must be greater than zero"));
            }
            let udf = dfw::ntile::ntile_udwf();
            (udf, vec![buckets], PgType::Int4, DataType::Int32, Some(DataType::Int32))
        }
        "first_value" | "last_value" | "nth_value" => {
            let value = binder.coercer.settle(args[0].clone())?;
            let udf = match name {
                "first_value" => dfw::nth_value::first_value_udwf(),
                "last_value" => dfw::nth_value::last_value_udwf(),
                _ => dfw::nth_value::nth_value_udwf(),
            };
            let mut exprs = vec![value.expr];
            if let Some(n) = args.get(1) {
                let n = constant(binder, n.clone(), name, &missing)?;
                if matches!(&n, Expr::Literal(ScalarValue::Int64(Some(n)), _) if *n <= 0) {
                    return Err(SqlError::new(SqlState("22016"), "argument of nth_value must be greater than zero"));
                }
                exprs.push(n);
            }
            (udf, exprs, value.ty, value.data_type, None)
        }
        "lag" | "lead" => {
            let udf = if name == "lag" { dfw::lead_lag::lag_udwf() } else { dfw::lead_lag::lead_udwf() };
            let (value, default) = match args.get(2) {
                None => (binder.coercer.settle(args[0].clone())?, None),
                Some(default) => {
                    let (mut pair, ..) = binder
                        .coercer
                        .unify(vec![args[0].clone(), default.clone()], "argument")
                        .map_err(|_| missing())?;
                    let default = pair.remove(1);
                    (pair.remove(0), Some(default))
                }
            };
            let mut exprs = vec![value.expr];
            if let Some(offset) = args.get(1) {
                exprs.push(constant(binder, offset.clone(), name, &missing)?);
            }
            if let Some(default) = default {
                if default.as_literal().is_none() {
                    return Err(SqlError::unsupported(format!("{name} with a default that is not a constant")));
                }
                exprs.push(default.expr);
            }
            (udf, exprs, value.ty, value.data_type, None)
        }
        _ => return Err(missing()),
    })
}

fn is_null(arg: &TypedExpr) -> bool {
    arg.as_literal().is_some_and(ScalarValue::is_null)
}

/// A window function that is NULL in every row.
fn nothing(ty: PgType, data_type: DataType) -> Result<WindowParts, SqlError> {
    let null = Expr::Literal(ScalarValue::try_from(&data_type)?, None);
    Ok((dfw::nth_value::first_value_udwf(), vec![null], ty, data_type, None))
}

/// A number that Postgres takes as an integer, constant here and as wide as DataFusion's.
fn constant(
    binder: &mut Binder<'_>,
    arg: TypedExpr,
    name: &str,
    missing: &dyn Fn() -> SqlError,
) -> Result<Expr, SqlError> {
    if !types::implicitly(&arg.ty, &PgType::Int4) {
        return Err(missing());
    }
    let arg = binder.coercer.cast(arg, &PgType::Int4, LengthRule::Cast)?;
    let arg = binder.coercer.cast(arg, &PgType::Int8, LengthRule::Cast)?;
    match arg.as_literal() {
        Some(_) => Ok(arg.expr),
        None => Err(SqlError::unsupported(format!("{name} with an argument that is not a constant"))),
    }
}
