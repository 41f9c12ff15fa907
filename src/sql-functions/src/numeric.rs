//! Functions on numerics.
//!
//! Logarithms and exponentials are series in fixed point, [`POINT`] digits behind the point: enough for the 16 significant
//! digits and more that Postgres shows. How many digits a result has follows Postgres's rules; the trailing zeros of an
//! unconstrained numeric are not kept, so they count for nothing.
//!
//! # Invariants
//! - A result that would need more significant digits than the fixed point has is refused, not shown wrong.

use super::arith::{divide, division_by_zero};
use super::call::Call;
use super::library::Library;
use super::{decimal, int, list};
use arrow::datatypes::i256;
use engine::error::SqlError;
use engine::value::overflow;
use pgrepr::numeric::{power_of_ten, rescale};
use repr::sqlstate::SqlState;
use repr::types::NumericDisplay;
use repr::{Datum, PgType};

/// A value and its scale.
type Decimal = (i256, i8);

/// Digits behind the point in the series.
const POINT: i8 = 36;
/// 1 in fixed point.
const UNIT: i128 = 10_i128.pow(36);
/// The natural logarithms of 2 and 10 in fixed point.
const LN_2: i128 = 693_147_180_559_945_309_417_232_121_458_176_568;
const LN_10: i128 = 2_302_585_092_994_045_684_017_991_454_684_364_208;
/// The significant digits that the series get right.
const SIGNIFICANT: i64 = 33;
/// The most digits behind the point of a numeric.
const SCALE_MAX: i64 = 38;
/// Digits that Postgres shows at least.
const SHOWN_MIN: i64 = 16;

/// Declares the functions of this file.
#[expect(clippy::too_many_lines, reason = "a list of declarations")]
pub(crate) fn declare(library: &mut Library) {
    library.add("-(numeric) numeric:same", |_, a| {
        let (v, s) = decimal(a, 0);
        Ok(Datum::Numeric(v.checked_neg().ok_or_else(overflow)?, s))
    });
    library.add("+(numeric) numeric:same", |_, a| Ok(a[0].clone().into_owned()));
    library.add("generate_series(numeric, numeric) setof numeric:free", series);
    library.add("generate_series(numeric, numeric, numeric) setof numeric:free", series);
    library.add("abs(numeric) numeric:same", |_, a| {
        let (v, s) = decimal(a, 0);
        Ok(Datum::Numeric(v.checked_abs().ok_or_else(overflow)?, s))
    });
    library.add("sign(numeric) numeric:integer", |_, a| {
        let (v, _) = decimal(a, 0);
        Ok(Datum::Numeric(v.signum(), 0))
    });
    library.add("round(numeric) numeric:integer", |_, a| round(decimal(a, 0), 0));
    library.add("round(numeric, int4) numeric:digits", |_, a| round(decimal(a, 0), int(a, 1)));
    library.add("trunc(numeric) numeric:integer", |_, a| trunc(decimal(a, 0), 0));
    library.add("trunc(numeric, int4) numeric:digits", |_, a| trunc(decimal(a, 0), int(a, 1)));
    for name in ["ceil", "ceiling"] {
        library.add(&format!("{name}(numeric) numeric:integer"), |_, a| {
            let (v, s) = decimal(a, 0);
            toward(v, s, v > i256::ZERO, i256::ONE)
        });
    }
    library.add("floor(numeric) numeric:integer", |_, a| {
        let (v, s) = decimal(a, 0);
        toward(v, s, v < i256::ZERO, i256::MINUS_ONE)
    });
    library.add("mod(numeric, numeric) numeric", |_, a| {
        let (v, w, scale) = aligned(decimal(a, 0), decimal(a, 1))?;
        if w == i256::ZERO {
            return Err(division_by_zero());
        }
        Ok(Datum::Numeric(v.checked_rem(w).ok_or_else(overflow)?, scale))
    });
    library.add("div(numeric, numeric) numeric:integer", |_, a| {
        let ((v, s), (w, t)) = (decimal(a, 0), decimal(a, 1));
        let scale = s.max(t);
        let (v, w) = (rescale(v, s, scale).ok_or_else(overflow)?, rescale(w, t, scale).ok_or_else(overflow)?);
        if w == i256::ZERO {
            return Err(division_by_zero());
        }
        Ok(Datum::Numeric(v.checked_div(w).ok_or_else(overflow)?, 0))
    });
    library.add("sqrt(numeric) numeric", |call, a| sqrt(shown(call, a, 0)));
    for name in ["power", "pow", "^"] {
        library
            .add(&format!("{name}(numeric, numeric) numeric"), |call, a| power(shown(call, a, 0), shown(call, a, 1)));
    }
    library.add("exp(numeric) numeric", |call, a| {
        let (v, s) = shown(call, a, 0);
        let scale = significant(to_float((v, s)) * std::f64::consts::LOG10_E, s.into());
        exponential(rescale(v, s, POINT).ok_or_else(overflow)?, scale)
    });
    library.add("ln(numeric) numeric", |call, a| {
        let value = shown(call, a, 0);
        let scale = (SHOWN_MIN - logarithm_weight(value)).max(value.1.into());
        fixed(logarithm(value)?, scale)
    });
    for name in ["log", "log10"] {
        library.add(&format!("{name}(numeric) numeric"), |call, a| {
            log_to_base((i256::from_i128(10), 0), shown(call, a, 0))
        });
    }
    library.add("log(numeric, numeric) numeric", |call, a| log_to_base(shown(call, a, 0), shown(call, a, 1)));
    library.add("factorial(int8) numeric:integer", |_, a| factorial(int(a, 0)));
    library.add("gcd(numeric, numeric) numeric", |_, a| {
        let (v, w, scale) = aligned(decimal(a, 0), decimal(a, 1))?;
        Ok(Datum::Numeric(gcd(v, w), scale))
    });
    library.add("lcm(numeric, numeric) numeric", |_, a| {
        let (v, w, scale) = aligned(decimal(a, 0), decimal(a, 1))?;
        let divisor = gcd(v, w);
        if divisor == i256::ZERO {
            return Ok(Datum::Numeric(divisor, scale));
        }
        let multiple = v.wrapping_div(divisor).checked_mul(w).ok_or_else(overflow)?.wrapping_abs();
        Ok(Datum::Numeric(multiple, scale))
    });
    library.add("width_bucket(numeric, numeric, numeric, int4) int4", |_, a| width_bucket(a));
    library.add("scale(numeric) int4", |call, a| Ok(Datum::Int4(shown(call, a, 0).1.into())));
    library.add("min_scale(numeric) int4", |_, a| {
        let (v, s) = decimal(a, 0);
        Ok(Datum::Int4(trimmed(v, s).1.into()))
    });
    library.add("trim_scale(numeric) numeric", |_, a| Ok(a[0].clone().into_owned()));
    library.add("numeric_var_samp(numeric[]) numeric:quotient", |_, a| spread(list(a, 0), true, false));
    library.add("numeric_var_pop(numeric[]) numeric:quotient", |_, a| spread(list(a, 0), false, false));
    library.add("numeric_stddev_samp(numeric[]) numeric", |_, a| spread(list(a, 0), true, true));
    library.add("numeric_stddev_pop(numeric[]) numeric", |_, a| spread(list(a, 0), false, true));
}

/// `generate_series`: from the first to the second, by the third or by 1.
fn series(call: &Call<'_>, a: &[Datum<'_>]) -> Result<Datum<'static>, SqlError> {
    let step = if a.len() > 2 { decimal(a, 2) } else { (i256::ONE, 0) };
    if step.0 == i256::ZERO {
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "step size cannot equal zero"));
    }
    let (from, to, scale) = aligned(decimal(a, 0), decimal(a, 1))?;
    let (step, _, common) = aligned(step, (i256::ZERO, scale))?;
    let to_common = |value| rescale(value, scale, common).ok_or_else(overflow);
    let (mut value, to) = (to_common(from)?, to_common(to)?);
    let mut out = Vec::new();
    while if step > i256::ZERO { value <= to } else { value >= to } {
        out.push(Datum::Numeric(value, common));
        call.check_elements(out.len() as i64)?;
        value = value.checked_add(step).ok_or_else(overflow)?;
    }
    Ok(Datum::List(out))
}

/// An argument with the digits that it shows.
fn shown(call: &Call<'_>, a: &[Datum<'_>], i: usize) -> Decimal {
    let (v, s) = decimal(a, i);
    match call.args.get(i) {
        Some(PgType::Numeric(NumericDisplay::Trimmed)) => trimmed(v, s),
        _ => (v, s),
    }
}

/// Both values at the larger of their scales.
fn aligned((v, s): Decimal, (w, t): Decimal) -> Result<(i256, i256, i8), SqlError> {
    let scale = s.max(t);
    Ok((rescale(v, s, scale).ok_or_else(overflow)?, rescale(w, t, scale).ok_or_else(overflow)?, scale))
}

fn digits(wanted: i64) -> i8 {
    wanted.clamp(-76, 38) as i8
}

fn round((v, s): (i256, i8), wanted: i64) -> Result<Datum<'static>, SqlError> {
    let to = digits(wanted);
    let rounded = rescale(v, s, to).ok_or_else(overflow)?;
    if to >= 0 {
        return Ok(Datum::Numeric(rounded, to));
    }
    Ok(Datum::Numeric(rescale(rounded, to, 0).ok_or_else(overflow)?, 0))
}

fn trunc((v, s): (i256, i8), wanted: i64) -> Result<Datum<'static>, SqlError> {
    let to = digits(wanted);
    if to >= s {
        return Ok(Datum::Numeric(rescale(v, s, to).ok_or_else(overflow)?, to));
    }
    let unit = power_of_ten((i32::from(s) - i32::from(to)).unsigned_abs());
    let cut = match unit {
        Some(unit) => v.checked_div(unit).ok_or_else(overflow)?,
        None => i256::ZERO,
    };
    if to >= 0 { Ok(Datum::Numeric(cut, to)) } else { Ok(Datum::Numeric(rescale(cut, to, 0).ok_or_else(overflow)?, 0)) }
}

/// The integer part, one further where there is a fraction on the given side.
fn toward(v: i256, s: i8, outward: bool, step: i256) -> Result<Datum<'static>, SqlError> {
    let unit = power_of_ten(s.max(0).unsigned_abs().into()).ok_or_else(overflow)?;
    let whole = v.checked_div(unit).ok_or_else(overflow)?;
    let fraction = v.checked_rem(unit).ok_or_else(overflow)? != i256::ZERO;
    let value = if fraction && outward { whole.checked_add(step).ok_or_else(overflow)? } else { whole };
    Ok(Datum::Numeric(value, 0))
}

/// Digits before the point of a positive value; zero or less below one.
fn whole_digits(v: i256, s: i8) -> i64 {
    v.wrapping_abs().to_string().len() as i64 - i64::from(s)
}

/// Newton's method on integers: the root with as many digits as Postgres gives.
fn sqrt((v, s): (i256, i8)) -> Result<Datum<'static>, SqlError> {
    if v < i256::ZERO {
        return Err(SqlError::new(
            SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
            "cannot take square root of a negative number",
        ));
    }
    if v == i256::ZERO {
        return Ok(Datum::Numeric(v, s));
    }
    // Sixteen significant digits, counted from the groups of four that Postgres stores.
    let scale = (SHOWN_MIN + 1 - 2 * (group_weight(v, s) + 1)).max(s.into()).clamp(0, 36);
    let shift = 2 * (scale + 1) - i64::from(s);
    let factor = power_of_ten(shift.max(0) as u32).ok_or_else(overflow)?;
    let target = v.checked_mul(factor).ok_or_else(overflow)?;
    let root = integer_sqrt(target);
    // The extra digit rounds.
    Ok(Datum::Numeric(rescale(root, (scale + 1) as i8, scale as i8).ok_or_else(overflow)?, scale as i8))
}

fn integer_sqrt(target: i256) -> i256 {
    let mut x = i256::from_f64(target.to_string().parse::<f64>().unwrap_or(1.0).sqrt()).unwrap_or(i256::ONE);
    for _ in 0..200 {
        if x == i256::ZERO {
            return x;
        }
        let next = x.wrapping_add(target.wrapping_div(x)).wrapping_div(i256::from_i128(2));
        let step = next.wrapping_sub(x);
        x = next;
        if step >= i256::MINUS_ONE && step <= i256::ONE {
            break;
        }
    }
    while x.checked_mul(x).is_none_or(|square| square > target) {
        x = x.wrapping_sub(i256::ONE);
    }
    x
}

/// The place of the first group of four digits, as Postgres stores numerics; 0 is the group before the point.
fn group_weight(v: i256, s: i8) -> i64 {
    (whole_digits(v, s) + 3).div_euclid(4) - 1
}

fn to_float((v, s): Decimal) -> f64 {
    format!("{v}e-{s}").parse().unwrap_or(0.0)
}

/// The scale that shows sixteen significant digits of about 10^`magnitude`, and no fewer than an argument shows.
fn significant(magnitude: f64, least: i64) -> i64 {
    (SHOWN_MIN - magnitude.clamp(-2_000.0, 2_000.0).trunc() as i64).max(least).clamp(0, SCALE_MAX)
}

fn power_error(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION, message)
}

/// Integer powers exactly where they fit; others by way of the logarithm.
fn power((v, s): Decimal, (e, t): Decimal) -> Result<Datum<'static>, SqlError> {
    let whole = rescale(e, t, 0).filter(|whole| rescale(*whole, 0, t) == Some(e));
    if v == i256::ZERO && e < i256::ZERO {
        return Err(power_error("zero raised to a negative power is undefined"));
    }
    if v < i256::ZERO && whole.is_none() {
        return Err(power_error("a negative number raised to a non-integer power yields a complex result"));
    }
    if e == i256::ZERO || v == i256::ZERO {
        return Ok(Datum::Numeric(if e == i256::ZERO { i256::ONE } else { i256::ZERO }, 0));
    }
    let base = (v.checked_abs().ok_or_else(overflow)?, s);
    let is_odd = whole.is_some_and(|whole| whole.wrapping_rem(i256::from_i128(2)) != i256::ZERO);
    // Integer powers have sixteen digits behind the point whatever their size; others have significant ones.
    let scale = match whole {
        Some(_) => SHOWN_MIN.max(s.into()).min(SCALE_MAX),
        None => significant(to_float(base).log10() * to_float((e, t)), s.max(t).into()),
    };
    let value = match whole.and_then(|whole| exact_power(base, whole.to_i128()?, scale)) {
        Some(value) => Datum::Numeric(value, scale as i8),
        None => {
            let product = logarithm(base)?.checked_mul(e).ok_or_else(overflow)?;
            exponential(rescale(product, POINT.saturating_add(t), POINT).ok_or_else(overflow)?, scale)?
        }
    };
    match value {
        Datum::Numeric(value, scale) if v < i256::ZERO && is_odd => Ok(Datum::Numeric(value.wrapping_neg(), scale)),
        value => Ok(value),
    }
}

/// An integer power at a scale, if all its digits fit.
fn exact_power((v, s): Decimal, exponent: i128, scale: i64) -> Option<i256> {
    let count = u32::try_from(exponent.unsigned_abs()).ok()?;
    let product = v.checked_pow(count)?;
    let digits = i64::from(s).checked_mul(count.into())?;
    if exponent > 0 {
        return rescale(product, i8::try_from(digits).ok()?, scale as i8);
    }
    // 1 / product with one digit more, which rounds.
    let quotient = power_of_ten(u32::try_from(scale + 1 + digits).ok()?)?.checked_div(product)?;
    rescale(quotient, scale as i8 + 1, scale as i8)
}

/// A fixed-point value at a scale.
fn fixed(value: i256, scale: i64) -> Result<Datum<'static>, SqlError> {
    let scale = scale.clamp(0, i64::from(POINT) - 2) as i8;
    Ok(Datum::Numeric(rescale(value, POINT, scale).ok_or_else(overflow)?, scale))
}

fn times(a: i256, b: i256) -> i256 {
    a.wrapping_mul(b).wrapping_div(i256::from_i128(UNIT))
}

fn ratio(a: i256, b: i256) -> i256 {
    a.wrapping_mul(i256::from_i128(UNIT)).wrapping_div(b)
}

/// The natural logarithm in fixed point: powers of ten and two are taken out, the rest is 2 artanh((m − 1) / (m + 1)).
fn logarithm((v, s): Decimal) -> Result<i256, SqlError> {
    let error = |message: &str| SqlError::new(SqlState::INVALID_ARGUMENT_FOR_LOGARITHM, message);
    if v == i256::ZERO {
        return Err(error("cannot take logarithm of zero"));
    }
    if v < i256::ZERO {
        return Err(error("cannot take logarithm of a negative number"));
    }
    let unit = i256::from_i128(UNIT);
    let length = v.to_string().len() as i8;
    let mut rest = rescale(v, length, POINT).ok_or_else(overflow)?;
    let mut sum = i256::from_i128(LN_10).wrapping_mul(i256::from_i128(i128::from(length) - i128::from(s)));
    while rest < i256::from_i128(UNIT / 10 * 7) {
        rest = rest.wrapping_add(rest);
        sum = sum.wrapping_sub(i256::from_i128(LN_2));
    }
    let t = ratio(rest.wrapping_sub(unit), rest.wrapping_add(unit));
    let square = times(t, t);
    let (mut term, mut n) = (t.wrapping_add(t), 1);
    while term != i256::ZERO {
        sum = sum.wrapping_add(term.wrapping_div(i256::from_i128(n)));
        term = times(term, square);
        n += 2;
    }
    Ok(sum)
}

/// The place of the logarithm's first digit, estimated as Postgres does.
fn logarithm_weight((v, s): Decimal) -> i64 {
    let value = to_float((v, s));
    if !(0.9..=1.1).contains(&value) {
        return if value > 0.0 { value.ln().abs().log10().trunc() as i64 } else { 0 };
    }
    let Some(one) = power_of_ten(s.max(0).unsigned_abs().into()) else { return 0 };
    let x = v.wrapping_sub(one).wrapping_abs();
    if x == i256::ZERO {
        return 0;
    }
    // The first digit's place within its group of four decides nothing but how many digits the group has.
    whole_digits(x, s) - 1
}

fn log_to_base(base: Decimal, value: Decimal) -> Result<Datum<'static>, SqlError> {
    let scale = SHOWN_MIN - (logarithm_weight(value) - logarithm_weight(base));
    let (base_log, value_log) = (logarithm(base)?, logarithm(value)?);
    if base_log == i256::ZERO {
        return Err(division_by_zero());
    }
    fixed(ratio(value_log, base_log), scale.max(base.1.into()).max(value.1.into()))
}

/// e to a fixed-point power, at a scale: powers of two are taken out, the rest is the series.
fn exponential(x: i256, scale: i64) -> Result<Datum<'static>, SqlError> {
    let magnitude = to_float((x, POINT)) * std::f64::consts::LOG10_E;
    if magnitude > 76.0 {
        return Err(overflow());
    }
    if magnitude < -(SCALE_MAX as f64) - 1.0 {
        return Ok(Datum::Numeric(i256::ZERO, 0));
    }
    if magnitude as i64 + scale > SIGNIFICANT {
        return Err(SqlError::unsupported(format!(
            "a power of numeric with more than {SIGNIFICANT} significant digits"
        ))
        .with_hint("Cast the arguments to double precision."));
    }
    let ln_2 = i256::from_i128(LN_2);
    let twos = x.wrapping_div(ln_2).to_i128().ok_or_else(overflow)?;
    let rest = x.wrapping_sub(ln_2.wrapping_mul(i256::from_i128(twos)));
    let (mut term, mut sum, mut n) = (i256::from_i128(UNIT), i256::ZERO, 1);
    while term != i256::ZERO {
        sum = sum.wrapping_add(term);
        term = times(term, rest).wrapping_div(i256::from_i128(n));
        n += 1;
    }
    let factor = i256::from_i128(2).checked_pow(twos.unsigned_abs() as u32).ok_or_else(overflow)?;
    let (value, digits) = if twos >= 0 {
        (sum.checked_mul(factor).ok_or_else(overflow)?, POINT)
    } else {
        // More digits first, so that as many significant ones remain.
        let widened = rescale(sum, 0, SCALE_MAX as i8).ok_or_else(overflow)?;
        (widened.wrapping_div(factor), POINT + SCALE_MAX as i8)
    };
    Ok(Datum::Numeric(rescale(value, digits, scale as i8).ok_or_else(overflow)?, scale as i8))
}

fn factorial(n: i64) -> Result<Datum<'static>, SqlError> {
    if n < 0 {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "factorial of a negative number is undefined"));
    }
    let mut product = i256::ONE;
    for factor in 2..=n {
        product = product.checked_mul(i256::from_i128(factor.into())).ok_or_else(overflow)?;
    }
    Ok(Datum::Numeric(product, 0))
}

fn gcd(v: i256, w: i256) -> i256 {
    let (mut v, mut w) = (v.wrapping_abs(), w.wrapping_abs());
    while w != i256::ZERO {
        (v, w) = (w, v.wrapping_rem(w));
    }
    v
}

/// Which of `count` equal buckets between two bounds a value falls into; the bounds may be in descending order.
fn width_bucket(a: &[Datum<'_>]) -> Result<Datum<'static>, SqlError> {
    let invalid = |message: &str| SqlError::new(SqlState("2201G"), message);
    let count = int(a, 3);
    if count <= 0 {
        return Err(invalid("count must be greater than zero"));
    }
    let (low, high, scale) = aligned(decimal(a, 1), decimal(a, 2))?;
    let (value, low, finest) = aligned(decimal(a, 0), (low, scale))?;
    let high = rescale(high, scale, finest).ok_or_else(overflow)?;
    if low == high {
        return Err(invalid("lower bound cannot equal upper bound"));
    }
    let (into, width) = match low < high {
        true => (value.checked_sub(low), high.checked_sub(low)),
        false => (low.checked_sub(value), low.checked_sub(high)),
    };
    let (into, width) = (into.ok_or_else(overflow)?, width.ok_or_else(overflow)?);
    let bucket = if into < i256::ZERO {
        0
    } else if into >= width {
        i128::from(count) + 1
    } else {
        let scaled = into.checked_mul(i256::from_i128(count.into())).ok_or_else(overflow)?;
        scaled.wrapping_div(width).to_i128().ok_or_else(overflow)? + 1
    };
    i32::try_from(bucket)
        .map(Datum::Int4)
        .map_err(|_| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range"))
}

/// Variance and standard deviation: n Σx² − (Σx)², over n² or n (n − 1).
fn spread(items: &[Datum<'_>], sample: bool, root: bool) -> Result<Datum<'static>, SqlError> {
    let values: Vec<(i256, i8)> = items
        .iter()
        .filter_map(|item| match item {
            Datum::Numeric(v, s) => Some(trimmed(*v, *s)),
            _ => None,
        })
        .collect();
    let count = values.len() as i128;
    if count == 0 || (sample && count == 1) {
        return Ok(Datum::Null);
    }
    let scale = values.iter().map(|(_, s)| *s).max().unwrap_or(0);
    let (mut sum, mut squares) = (i256::ZERO, i256::ZERO);
    for (v, s) in values {
        let v = rescale(v, s, scale).ok_or_else(overflow)?;
        sum = sum.checked_add(v).ok_or_else(overflow)?;
        squares = squares.checked_add(v.checked_mul(v).ok_or_else(overflow)?).ok_or_else(overflow)?;
    }
    let n = i256::from_i128(count);
    let scaled = squares.checked_mul(n).ok_or_else(overflow)?;
    let difference = scaled.checked_sub(sum.checked_mul(sum).ok_or_else(overflow)?).ok_or_else(overflow)?;
    let divisor = i256::from_i128(if sample { count * (count - 1) } else { count * count });
    if difference <= i256::ZERO {
        return Ok(Datum::Numeric(i256::ZERO, 0));
    }
    let (variance, digits) = divide((difference, 2 * scale), (divisor, 0))?;
    if root { sqrt((variance, digits)) } else { Ok(Datum::Numeric(variance, digits)) }
}

fn trimmed(mut v: i256, mut s: i8) -> (i256, i8) {
    let ten = i256::from_i128(10);
    while s > 0 && v.wrapping_rem(ten) == i256::ZERO {
        v = v.wrapping_div(ten);
        s -= 1;
    }
    (v, s)
}

#[cfg(test)]
mod tests {
    use super::{Decimal, exponential, fixed, logarithm, power, rescale, sqrt, width_bucket};
    use arrow::datatypes::i256;
    use repr::Datum;

    fn number(text: &str) -> Decimal {
        let scale = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        (i256::from_string(&text.replace('.', "")).expect("a number"), scale as i8)
    }

    fn result(text: &str) -> Datum<'static> {
        let (value, scale) = number(text);
        Datum::Numeric(value, scale)
    }

    // The expected values are PostgreSQL 15's.
    #[test]
    fn roots_and_powers_have_postgres_digits() {
        for (value, root) in
            [("2.0", "1.414213562373095"), ("0.5", "0.70710678118654752"), ("16.0", "4.000000000000000")]
        {
            assert_eq!(sqrt(number(value)), Ok(result(root)), "sqrt({value})");
        }
        for (base, exponent, expected) in [
            ("2.5", "-2", "0.1600000000000000"),
            ("2", "0.5", "1.4142135623730950"),
            ("-2.0", "3", "-8.0000000000000000"),
            ("1.0525", "40", "7.7425528823131274"),
            ("10.0", "-3", "0.0010000000000000"),
        ] {
            assert_eq!(power(number(base), number(exponent)), Ok(result(expected)), "{base} ^ {exponent}");
        }
    }

    #[test]
    fn series_have_postgres_digits() {
        assert_eq!(logarithm(number("2.0")).and_then(|v| fixed(v, 16)), Ok(result("0.6931471805599453")));
        assert_eq!(logarithm(number("0.001")).and_then(|v| fixed(v, 16)), Ok(result("-6.9077552789821371")));
        let exp = |text: &str, scale| {
            let (value, from) = number(text);
            exponential(rescale(value, from, 36).expect("fixed point"), scale)
        };
        assert_eq!(exp("1.0", 16), Ok(result("2.7182818284590452")));
        assert_eq!(exp("10.0", 12), Ok(result("22026.465794806717")));
        assert_eq!(exp("-5.5", 18), Ok(result("0.004086771438464067")));
        assert!(exp("100.0", 1).is_err());
    }

    #[test]
    fn buckets_are_counted_from_either_bound() {
        let bucket = |v, low, high, n| width_bucket(&[result(v), result(low), result(high), Datum::Int4(n)]);
        assert_eq!(bucket("5.35", "0.024", "10.06", 5), Ok(Datum::Int4(3)));
        assert_eq!(bucket("3.0", "10", "0", 5), Ok(Datum::Int4(4)));
        assert_eq!(bucket("11", "10", "0", 5), Ok(Datum::Int4(0)));
        assert!(bucket("1.0", "2", "2", 3).is_err());
    }
}
