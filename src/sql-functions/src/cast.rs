//! Converting values from one Postgres type to another.
//!
//! A cast that Arrow performs exactly as Postgres does stays an ordinary cast expression, which the optimizer
//! understands; the binder (`sql::bind::coerce`) decides. Every other cast is a function of ours, made for one pair of types,
//! that converts value by value through [`convert`].

use super::parts::parts_of;
use super::types::{self, is_float, is_integer, is_oidlike, is_stringlike};
use arrow::array::AsArray;
use arrow::datatypes::{DataType, Field, FieldRef, i256};
use datafusion::common::Result as DfResult;
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use engine::error::SqlError;
use engine::session::SessionInfo;
use engine::value::{first_scalar, overflow, to_array};
use pgrepr::calendar::DAY_US;
use pgrepr::length::{LengthRule, fit_text};
use pgrepr::options::{EncodeOptions, Locale};
use repr::sqlstate::SqlState;
use repr::types::NUMERIC;
use repr::{Datum, PgType};
use std::borrow::Cow;
use std::sync::Arc;

/// What a conversion may know of the session.
#[derive(Clone, Debug)]
pub struct CastContextInfo<'a> {
    /// The session's locale and clock.
    pub options: EncodeOptions,
    /// The session, at run time.
    pub session: Option<&'a SessionInfo>,
}

impl<'a> CastContextInfo<'a> {
    /// For constants at planning time.
    pub fn planning(locale: Locale) -> CastContextInfo<'static> {
        CastContextInfo { options: EncodeOptions { locale, ..EncodeOptions::default() }, session: None }
    }

    /// For a running statement.
    pub fn running(config: &'a ConfigOptions) -> CastContextInfo<'a> {
        let session = SessionInfo::from_config(config);
        let options = match session {
            Some(session) => {
                EncodeOptions { locale: session.locale, now_us: session.now_us, ..EncodeOptions::default() }
            }
            None => EncodeOptions::default(),
        };
        CastContextInfo { options, session }
    }
}

/// One cast as a function: `from` to `to`, by the length rule of its context.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CastFunction {
    from: PgType,
    to: PgType,
    data_type: DataType,
    assignment: bool,
    signature: Signature,
}

impl CastFunction {
    /// The function that casts `from` to `to`, giving values of `data_type`.
    pub fn udf(from: &PgType, to: &PgType, data_type: &DataType, rule: LengthRule) -> Arc<ScalarUDF> {
        let volatility = if depends_on_session(from, to) { Volatility::Volatile } else { Volatility::Immutable };
        Arc::new(ScalarUDF::new_from_impl(CastFunction {
            from: from.clone(),
            to: to.clone(),
            data_type: data_type.clone(),
            assignment: rule == LengthRule::Assign,
            signature: Signature::any(1, volatility),
        }))
    }

    /// Whether this is what it casts.
    pub fn is(&self, from: &PgType, to: &PgType) -> bool {
        self.from == *from && self.to == *to
    }

    /// Whether the session's styles may decide the result.
    fn is_styled(&self) -> bool {
        (is_stringlike(&self.from) && has_styles(&self.to)) || (is_stringlike(&self.to) && has_styles(&self.from))
    }
}

/// Whether the text of a type's values is a matter of style.
fn has_styles(ty: &PgType) -> bool {
    match ty {
        PgType::Array(item) => has_styles(item),
        PgType::Date | PgType::Timestamp | PgType::Timestamptz | PgType::Interval | PgType::Bytea => true,
        ty => is_float(ty),
    }
}

/// Whether the session's time zone or the catalog decides the result.
fn depends_on_session(from: &PgType, to: &PgType) -> bool {
    let zoned = |ty: &PgType| *ty == PgType::Timestamptz;
    let named = |ty: &PgType| is_oidlike(ty) && *ty != PgType::Oid;
    match (from, to) {
        (PgType::Array(from), PgType::Array(to)) => depends_on_session(from, to),
        _ => zoned(from) != zoned(to) || (is_stringlike(to) && named(from)) || (is_stringlike(from) && named(to)),
    }
}

impl ScalarUDFImpl for CastFunction {
    fn name(&self) -> &str {
        "cast"
    }

    fn schema_name(&self, args: &[datafusion::logical_expr::Expr]) -> DfResult<String> {
        let arg = args.first().map(|arg| arg.schema_name().to_string()).unwrap_or_default();
        Ok(format!("cast({arg} as {} {})", self.to, self.data_type))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _args: &[DataType]) -> DfResult<DataType> {
        Ok(self.data_type.clone())
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        Ok(Arc::new(Field::new("cast", self.data_type.clone(), true)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn evaluate_bounds(&self, _args: &[&Interval]) -> DfResult<Interval> {
        // Of the right type, without which comparisons of the result have no properties at all.
        Interval::make_unbounded(&self.data_type)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let context = CastContextInfo::running(&args.config_options);
        let rule = if self.assignment { LengthRule::Assign } else { LengthRule::Cast };
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let array = args.args[0].to_array(if scalar { 1 } else { args.number_rows })?;
        if let (false, PgType::Bpchar(_), PgType::Text, Some(texts)) =
            (scalar, &self.from, &self.to, array.as_string_view_opt())
        {
            return Ok(ColumnarValue::Array(parts_of(texts, without_padding)));
        }
        let mut out = Vec::with_capacity(array.len());
        for row in 0..array.len() {
            let value = crate::datum(array.as_ref(), row)?;
            if context.session.is_none() && self.is_styled() && !value.is_null() {
                let message = format!("a cast of {} has no style outside a session", self.from.name());
                return Err(SqlError::internal(message).into());
            }
            out.push(convert(&value, &self.from, &self.to, rule, &context)?.into_owned());
        }
        let array = to_array(&out, &self.data_type)?;
        if scalar {
            return Ok(ColumnarValue::Scalar(first_scalar(&array)?));
        }
        Ok(ColumnarValue::Array(array))
    }
}

/// Converts one value.
pub fn convert<'a>(
    value: &Datum<'a>,
    from: &PgType,
    to: &PgType,
    rule: LengthRule,
    context: &CastContextInfo<'_>,
) -> Result<Datum<'a>, SqlError> {
    if value.is_null() {
        return Ok(Datum::Null);
    }
    if is_stringlike(to) {
        let text = to_text(value, from, to, context)?;
        return Ok(Datum::Text(Cow::Owned(fit_text(to, &text, rule)?.into_owned())));
    }
    if is_stringlike(from) || *from == PgType::Unknown {
        return from_text(value, to, rule, context);
    }
    match (from, to) {
        (PgType::Array(from), PgType::Array(to)) => {
            let Datum::List(items) = value else { return Err(impossible(value, to)) };
            let items = items.iter().map(|item| convert(item, from, to, rule, context)).collect::<Result<_, _>>()?;
            Ok(Datum::List(items))
        }
        (_, to) if is_integer(to) => to_integer(value, from, to),
        (_, PgType::Numeric(display)) => to_numeric(value, *display),
        (_, to) if is_float(to) => to_float(value, to),
        (_, to) if is_oidlike(to) => to_oid(value),
        (_, PgType::Bool) => match value {
            Datum::Int4(v) => Ok(Datum::Bool(*v != 0)),
            Datum::Text(text) if *from == PgType::Jsonb => match text.as_ref() {
                "true" => Ok(Datum::Bool(true)),
                "false" => Ok(Datum::Bool(false)),
                _ => Err(json_cast(text, to)),
            },
            other => Err(impossible(other, to)),
        },
        (PgType::Json | PgType::Jsonb, PgType::Json | PgType::Jsonb) => from_text(value, to, rule, context),
        _ => date_time(value, from, to, context),
    }
}

fn impossible(value: &Datum<'_>, to: &PgType) -> SqlError {
    SqlError::new(SqlState::CANNOT_COERCE, format!("cannot cast {value:?} to {}", to.name()))
}

fn json_cast(text: &str, to: &PgType) -> SqlError {
    let kind = match text.as_bytes().first() {
        Some(b'"') => "string",
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ => "numeric",
    };
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("cannot cast jsonb {kind} to type {}", to.name()))
}

/// What a `char(n)` is but for its padding.
fn without_padding(text: &str) -> &str {
    text.trim_end_matches(' ')
}

/// The text of a value, as `::text` gives it.
pub fn to_text<'v>(
    value: &'v Datum<'_>,
    from: &PgType,
    to: &PgType,
    context: &CastContextInfo<'_>,
) -> Result<Cow<'v, str>, SqlError> {
    match (value, from) {
        (Datum::Text(text), PgType::Bpchar(_)) if !matches!(to, PgType::Bpchar(_)) => {
            Ok(Cow::Borrowed(without_padding(text)))
        }
        (Datum::Text(text), _) => Ok(Cow::Borrowed(text)),
        // The cast says it in full, where the output function prints one letter.
        (Datum::Bool(v), _) => Ok(Cow::Borrowed(if *v { "true" } else { "false" })),
        (Datum::Oid(oid), from) if is_oidlike(from) && *from != PgType::Oid => reg_text(*oid, from, context),
        (Datum::Int4(v), _) if *to == PgType::Char => {
            let byte = u8::try_from(*v).ok().filter(u8::is_ascii);
            byte.map(|b| Cow::Owned(char::from(b).to_string()))
                .ok_or_else(|| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "\"char\" out of range"))
        }
        _ => {
            let mut out = Vec::new();
            pgrepr::text::encode_text(from, value, &context.options, &mut out);
            String::from_utf8(out.to_vec())
                .map(Cow::Owned)
                .map_err(|_| SqlError::internal("a value's text is not UTF-8"))
        }
    }
}

fn reg_text<'v>(oid: u32, from: &PgType, context: &CastContextInfo<'_>) -> Result<Cow<'v, str>, SqlError> {
    let named = context.session.filter(|session| session.catalog.is_some());
    if let Some(session) = named {
        let name = format!("{}out", types::internal_name(from));
        if let Datum::Text(text) = session.call_catalog(&name, &[Datum::Oid(oid)])? {
            return Ok(Cow::Owned(text.into_owned()));
        }
    }
    Ok(Cow::Owned(if oid == 0 { "-".to_owned() } else { oid.to_string() }))
}

fn from_text<'a>(
    value: &Datum<'a>,
    to: &PgType,
    rule: LengthRule,
    context: &CastContextInfo<'_>,
) -> Result<Datum<'a>, SqlError> {
    let Datum::Text(text) = value else { return Err(impossible(value, to)) };
    if matches!(to, PgType::Reg(_)) && text.parse::<u32>().is_err() {
        return match context.session {
            Some(session) => {
                session.call_catalog(&format!("{}in", types::internal_name(to)), std::slice::from_ref(value))
            }
            None => Err(SqlError::unsupported(format!("the cast of \"{text}\" to {}", to.name()))),
        };
    }
    if let PgType::Numeric(_) = to {
        // Keep all digits that are written; the declared precision is applied below.
        let (unscaled, scale) = parse_numeric(text)?;
        return to_numeric(&Datum::Numeric(unscaled, scale), display_of(to));
    }
    let datum = pgrepr::text::decode_text(to, text, &context.options)?.into_owned();
    match (&datum, rule) {
        (Datum::Text(text), rule) => Ok(Datum::Text(Cow::Owned(fit_text(to, text, rule)?.into_owned()))),
        _ => Ok(datum),
    }
}

fn display_of(ty: &PgType) -> repr::types::NumericDisplay {
    match ty {
        PgType::Numeric(display) => *display,
        _ => repr::types::NumericDisplay::Trimmed,
    }
}

/// Reads a numeric with the scale it is written with.
pub fn parse_numeric(text: &str) -> Result<(i256, i8), SqlError> {
    let invalid = || {
        SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("invalid input syntax for type numeric: \"{text}\""),
        )
    };
    let trimmed = text.trim();
    let (negative, digits) = match trimmed.as_bytes().first() {
        Some(b'-') => (true, &trimmed[1..]),
        Some(b'+') => (false, &trimmed[1..]),
        _ => (false, trimmed),
    };
    let lower = digits.to_ascii_lowercase();
    if ["nan", "infinity", "inf"].contains(&lower.as_str()) {
        return Err(SqlError::unsupported(format!("numeric {trimmed}")));
    }
    let (mantissa, exponent) = match lower.split_once('e') {
        Some((mantissa, exponent)) => (mantissa.to_owned(), exponent.parse::<i32>().map_err(|_| invalid())?),
        None => (lower.clone(), 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa.as_str(), ""));
    let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !all_digits(whole) || !all_digits(fraction) {
        return Err(invalid());
    }
    let scale = fraction.len() as i32 - exponent;
    let mut text = format!("{whole}{fraction}");
    if scale < 0 {
        let zeros = usize::try_from(-scale).unwrap_or(0);
        if zeros > 200 && text.bytes().any(|b| b != b'0') {
            return Err(overflow());
        }
        text.push_str(&"0".repeat(zeros.min(200)));
    }
    let scale = scale.max(0);
    let significant = text.trim_start_matches('0');
    if significant.len() > 76 || scale > 76 {
        return Err(SqlError::unsupported(format!("numeric {trimmed}")).with_detail("A numeric has at most 76 digits."));
    }
    let value =
        if significant.is_empty() { i256::ZERO } else { i256::from_string(significant).ok_or_else(overflow)? };
    Ok((if negative { value.wrapping_neg() } else { value }, scale as i8))
}

fn to_integer<'a>(value: &Datum<'_>, from: &PgType, to: &PgType) -> Result<Datum<'a>, SqlError> {
    let out_of_range = || SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{} out of range", to.name()));
    let wide: i64 = match value {
        Datum::Int2(v) => (*v).into(),
        Datum::Int4(v) => (*v).into(),
        Datum::Int8(v) => *v,
        Datum::UInt8(v) => i64::try_from(*v).map_err(|_| out_of_range())?,
        Datum::Bool(v) => (*v).into(),
        // int4 sees the bits of an oid, int8 its value.
        Datum::Oid(v) if *to == PgType::Int4 => (*v as i32).into(),
        Datum::Oid(v) => (*v).into(),
        Datum::Float4(v) => float_to_integer(f64::from(*v)).ok_or_else(out_of_range)?,
        Datum::Float8(v) => float_to_integer(*v).ok_or_else(out_of_range)?,
        Datum::Numeric(v, scale) => {
            let v = pgrepr::numeric::rescale(*v, *scale, 0).ok_or_else(out_of_range)?;
            v.to_i128().and_then(|v| i64::try_from(v).ok()).ok_or_else(out_of_range)?
        }
        Datum::Text(text) if *from == PgType::Jsonb => {
            let (v, scale) = parse_numeric(text).map_err(|_| json_cast(text, to))?;
            return to_integer(&Datum::Numeric(v, scale), &NUMERIC, to);
        }
        Datum::Text(text) if *from == PgType::Char => text.bytes().next().unwrap_or(0).into(),
        other => return Err(impossible(other, to)),
    };
    match to {
        PgType::Int2 => i16::try_from(wide).map(Datum::Int2).map_err(|_| out_of_range()),
        PgType::Int4 => i32::try_from(wide).map(Datum::Int4).map_err(|_| out_of_range()),
        _ => Ok(Datum::Int8(wide)),
    }
}

fn float_to_integer(value: f64) -> Option<i64> {
    let rounded = value.round_ties_even();
    // 2^63 itself is out of range and is exactly representable.
    (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded).then_some(rounded as i64)
}

fn to_numeric<'a>(value: &Datum<'_>, display: repr::types::NumericDisplay) -> Result<Datum<'a>, SqlError> {
    let (unscaled, scale) = match value {
        Datum::Int2(v) => (i256::from_i128((*v).into()), 0),
        Datum::Int4(v) => (i256::from_i128((*v).into()), 0),
        Datum::Int8(v) => (i256::from_i128((*v).into()), 0),
        Datum::UInt8(v) => (i256::from_i128((*v).into()), 0),
        Datum::Numeric(v, scale) => (*v, *scale),
        Datum::Float4(v) => float_to_numeric(f64::from(*v), 6)?,
        Datum::Float8(v) => float_to_numeric(*v, 15)?,
        Datum::Text(text) => parse_numeric(text).map_err(|_| json_cast(text, &NUMERIC))?,
        other => return Err(impossible(other, &NUMERIC)),
    };
    match display {
        repr::types::NumericDisplay::Declared(_, target) => {
            Ok(Datum::Numeric(pgrepr::numeric::fit(unscaled, scale, display)?, target))
        }
        _ => Ok(Datum::Numeric(unscaled, scale)),
    }
}

/// A float's value in the number of significant digits that Postgres keeps.
fn float_to_numeric(value: f64, digits: usize) -> Result<(i256, i8), SqlError> {
    if !value.is_finite() {
        return Err(SqlError::unsupported(format!("numeric {value}")));
    }
    let text = format!("{:.*e}", digits - 1, value);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let mantissa = if mantissa.contains('.') { mantissa.trim_end_matches('0').trim_end_matches('.') } else { mantissa };
    parse_numeric(&format!("{sign}{mantissa}e{exponent}"))
}

fn to_float<'a>(value: &Datum<'_>, to: &PgType) -> Result<Datum<'a>, SqlError> {
    let wide = match value {
        Datum::Int2(v) => (*v).into(),
        Datum::Int4(v) => (*v).into(),
        Datum::Int8(v) => *v as f64,
        Datum::UInt8(v) => *v as f64,
        Datum::Float4(v) if *to == PgType::Float4 => return Ok(Datum::Float4(*v)),
        Datum::Float4(v) => (*v).into(),
        Datum::Float8(v) => *v,
        Datum::Numeric(v, scale) => numeric_to_f64(*v, *scale),
        Datum::Text(text) => text.parse().map_err(|_| json_cast(text, to))?,
        other => return Err(impossible(other, to)),
    };
    if *to == PgType::Float8 {
        return Ok(Datum::Float8(wide));
    }
    let narrow = wide as f32;
    if narrow.is_infinite() && wide.is_finite() {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow"));
    }
    if narrow == 0.0 && wide != 0.0 {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: underflow"));
    }
    Ok(Datum::Float4(narrow))
}

/// The nearest float.
pub fn numeric_to_f64(value: i256, scale: i8) -> f64 {
    format!("{value}e{}", -i32::from(scale)).parse().unwrap_or(f64::NAN)
}

fn to_oid<'a>(value: &Datum<'_>) -> Result<Datum<'a>, SqlError> {
    match value {
        Datum::Oid(v) => Ok(Datum::Oid(*v)),
        Datum::Int2(v) => Ok(Datum::Oid(i32::from(*v) as u32)),
        Datum::Int4(v) => Ok(Datum::Oid(*v as u32)),
        Datum::Int8(v) => u32::try_from(*v)
            .map(Datum::Oid)
            .map_err(|_| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "OID out of range")),
        other => Err(impossible(other, &PgType::Oid)),
    }
}

fn date_time<'a>(
    value: &Datum<'_>,
    from: &PgType,
    to: &PgType,
    context: &CastContextInfo<'_>,
) -> Result<Datum<'a>, SqlError> {
    let zone = &context.options.locale.time_zone;
    let out_of_range = || SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range");
    let to_utc = |local: i64| if is_infinite(local) { Some(local) } else { zone.to_utc(local) };
    let to_local = |utc: i64| if is_infinite(utc) { Some(utc) } else { zone.to_local(utc) };
    match (value, from, to) {
        (Datum::Date(days), _, PgType::Timestamp) => date_to_us(*days).map(Datum::Timestamp).ok_or_else(out_of_range),
        (Datum::Date(days), _, PgType::Timestamptz) => {
            date_to_us(*days).and_then(to_utc).map(Datum::Timestamp).ok_or_else(out_of_range)
        }
        (Datum::Timestamp(us), PgType::Timestamp, PgType::Timestamptz) => {
            to_utc(*us).map(Datum::Timestamp).ok_or_else(out_of_range)
        }
        (Datum::Timestamp(us), PgType::Timestamptz, PgType::Timestamp) => {
            to_local(*us).map(Datum::Timestamp).ok_or_else(out_of_range)
        }
        (Datum::Timestamp(us), from, PgType::Date) => {
            let local = if *from == PgType::Timestamptz { to_local(*us).ok_or_else(out_of_range)? } else { *us };
            Ok(Datum::Date(match local {
                i64::MAX => i32::MAX,
                i64::MIN => i32::MIN,
                local => local.div_euclid(DAY_US) as i32,
            }))
        }
        (Datum::Timestamp(us), from, PgType::Time) => {
            let local = if *from == PgType::Timestamptz { to_local(*us).ok_or_else(out_of_range)? } else { *us };
            if is_infinite(local) { Ok(Datum::Null) } else { Ok(Datum::Time(local.rem_euclid(DAY_US))) }
        }
        (Datum::Time(us), _, PgType::Interval) => Ok(Datum::Interval(0, 0, *us)),
        (Datum::Interval(_, _, us), _, PgType::Time) => Ok(Datum::Time(us.rem_euclid(DAY_US))),
        (other, _, to) => Err(impossible(other, to)),
    }
}

/// The infinities of timestamps.
pub fn is_infinite(us: i64) -> bool {
    us == i64::MAX || us == i64::MIN
}

/// Midnight of a day; the infinities map to each other.
pub fn date_to_us(days: i32) -> Option<i64> {
    match days {
        i32::MAX => Some(i64::MAX),
        i32::MIN => Some(i64::MIN),
        days => i64::from(days).checked_mul(DAY_US),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::common::ScalarValue;
    use datafusion::logical_expr::lit;
    use engine::fold::fold;

    /// The optimizer asks what a condition is where a column is NULL, in no session: whatever the style, that is known.
    #[test]
    fn a_style_is_needed_for_values_alone() {
        let text = CastFunction::udf(&PgType::Date, &PgType::Text, &PgType::Text.data_type(), LengthRule::Cast);
        let of = |date: Option<i32>| fold(&text.call(vec![lit(ScalarValue::Date32(date))]));
        assert!(of(None).is_some_and(|value| value.is_null()));
        assert_eq!(of(Some(0)), None, "DateStyle says how it is written");
    }
}
