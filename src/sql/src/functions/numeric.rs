//! Functions on numerics.

use super::arith::{divide, division_by_zero};
use super::registry::Library;
use super::{decimal, int, list};
use crate::engine::value::overflow;
use crate::error::SqlError;
use arrow::datatypes::i256;
use pgrepr::numeric::{power_of_ten, rescale};
use repr::Datum;
use repr::sqlstate::SqlState;

/// Declares the functions of this file.
pub fn declare(library: &mut Library) {
    library.add("-(numeric) numeric:same", |_, a| {
        let (v, s) = decimal(a, 0);
        Ok(Datum::Numeric(v.checked_neg().ok_or_else(overflow)?, s))
    });
    library.add("+(numeric) numeric:same", |_, a| Ok(a[0].clone().into_owned()));
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
        let ((v, s), (w, t)) = (decimal(a, 0), decimal(a, 1));
        let scale = s.max(t);
        let (v, w) = (rescale(v, s, scale).ok_or_else(overflow)?, rescale(w, t, scale).ok_or_else(overflow)?);
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
    library.add("sqrt(numeric) numeric", |_, a| sqrt(decimal(a, 0)));
    for name in ["power", "pow", "^"] {
        library.add(&format!("{name}(numeric, numeric) numeric"), |_, a| power(decimal(a, 0), decimal(a, 1)));
    }
    library.add("scale(numeric) int4", |_, a| Ok(Datum::Int4(decimal(a, 0).1.into())));
    library.add("trim_scale(numeric) numeric", |_, a| Ok(a[0].clone().into_owned()));
    library.add("numeric_var_samp(numeric[]) numeric", |_, a| spread(list(a, 0), true, false));
    library.add("numeric_var_pop(numeric[]) numeric", |_, a| spread(list(a, 0), false, false));
    library.add("numeric_stddev_samp(numeric[]) numeric", |_, a| spread(list(a, 0), true, true));
    library.add("numeric_stddev_pop(numeric[]) numeric", |_, a| spread(list(a, 0), false, true));
    // Transcendental functions of numerics have digits that a float does not; asking for floats is explicit.
    for declaration in ["exp(numeric)", "ln(numeric)", "log(numeric)", "log10(numeric)", "log(numeric, numeric)"] {
        library.add(&format!("{declaration} numeric"), |call, _| {
            Err(SqlError::unsupported(format!("{} of numeric", call.name))
                .with_hint("Cast the argument to double precision."))
        });
    }
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
    // Sixteen significant digits, counted from the result's weight.
    let weight = (whole_digits(v, s) - 1).div_euclid(2) + 1;
    let scale = (16 - weight).max(s.into()).clamp(0, 30);
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

/// Integer powers exactly; others are refused, because a float's digits are not Postgres's.
fn power((v, s): (i256, i8), (e, t): (i256, i8)) -> Result<Datum<'static>, SqlError> {
    let error = |message: &str| SqlError::new(SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION, message);
    let exponent = rescale(e, t, 0).filter(|whole| rescale(*whole, 0, t) == Some(e));
    let Some(exponent) = exponent.and_then(|whole| whole.to_i128()) else {
        if v < i256::ZERO {
            return Err(error("a negative number raised to a non-integer power yields a complex result"));
        }
        return Err(SqlError::unsupported("power of numeric with a fraction in the exponent")
            .with_hint("Cast the arguments to double precision."));
    };
    if v == i256::ZERO && exponent < 0 {
        return Err(error("zero raised to a negative power is undefined"));
    }
    let count = u32::try_from(exponent.unsigned_abs()).map_err(|_| overflow())?;
    let mut product = i256::ONE;
    for _ in 0..count.min(1_000) {
        product = product.checked_mul(v).ok_or_else(overflow)?;
    }
    if count > 1_000 && product.wrapping_abs() > i256::ONE {
        return Err(overflow());
    }
    let scale = i32::from(s) * count as i32;
    let scale = i8::try_from(scale).map_err(|_| overflow())?;
    if exponent < 0 {
        let (quotient, digits) = divide((i256::ONE, 0), (product, scale))?;
        return Ok(Datum::Numeric(quotient, digits));
    }
    // Postgres keeps sixteen significant digits at least, and the base's own.
    let wanted = (16 - whole_digits(product, scale).max(1) + 1).max(s.into()).clamp(0, 38) as i8;
    Ok(Datum::Numeric(rescale(product, scale, wanted.min(scale)).ok_or_else(overflow)?, wanted.min(scale)))
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
