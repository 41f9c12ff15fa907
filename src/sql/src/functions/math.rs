//! Functions on integers and floats.

use super::registry::Library;
use super::{float, int};
use crate::error::SqlError;
use repr::Datum;
use repr::sqlstate::SqlState;

/// Declares the functions of this file.
pub fn declare(library: &mut Library) {
    declare_signs(library);
    declare_bits(library);
    declare_rounding(library);
    declare_powers(library);
    declare_circles(library);
}

fn out_of_range(what: &str) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{what} out of range"))
}

fn int2(v: i64) -> Result<Datum<'static>, SqlError> {
    i16::try_from(v).map(Datum::Int2).map_err(|_| out_of_range("smallint"))
}

fn int4(v: i64) -> Result<Datum<'static>, SqlError> {
    i32::try_from(v).map(Datum::Int4).map_err(|_| out_of_range("integer"))
}

fn int8(v: Option<i64>) -> Result<Datum<'static>, SqlError> {
    v.map(Datum::Int8).ok_or_else(|| out_of_range("bigint"))
}

/// A float result; infinity from finite arguments is overflow.
fn checked(result: f64, args: &[f64]) -> Result<Datum<'static>, SqlError> {
    if result.is_infinite() && args.iter().all(|v| v.is_finite()) {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow"));
    }
    Ok(Datum::Float8(result))
}

fn declare_signs(library: &mut Library) {
    library.add("-(int2) int2", |_, a| int2(-int(a, 0)));
    library.add("-(int4) int4", |_, a| int4(-int(a, 0)));
    library.add("-(int8) int8", |_, a| int8(int(a, 0).checked_neg()));
    library.add("-(float4) float4", |_, a| Ok(Datum::Float4(-(float(a, 0) as f32))));
    library.add("-(float8) float8", |_, a| Ok(Datum::Float8(-float(a, 0))));
    for (ty, name) in [("int2", "+"), ("int4", "+"), ("int8", "+"), ("float4", "+"), ("float8", "+")] {
        library.add(&format!("{name}({ty}) {ty}"), |_, a| Ok(a[0].clone().into_owned()));
    }
    library.add("abs(int2) int2", |_, a| int2(int(a, 0).abs()));
    library.add("abs(int4) int4", |_, a| int4(int(a, 0).abs()));
    library.add("abs(int8) int8", |_, a| int8(int(a, 0).checked_abs()));
    library.add("abs(float4) float4", |_, a| Ok(Datum::Float4(float(a, 0).abs() as f32)));
    library.add("abs(float8) float8", |_, a| Ok(Datum::Float8(float(a, 0).abs())));
    library.add("sign(float8) float8", |_, a| {
        let v = float(a, 0);
        Ok(Datum::Float8(if v == 0.0 || v.is_nan() { v } else { v.signum() }))
    });
    library.add("mod(int2, int2) int2", |_, a| int2(remainder(int(a, 0), int(a, 1))?));
    library.add("mod(int4, int4) int4", |_, a| int4(remainder(int(a, 0), int(a, 1))?));
    library.add("mod(int8, int8) int8", |_, a| int8(Some(remainder(int(a, 0), int(a, 1))?)));
    library.add("gcd(int4, int4) int4", |_, a| int4(gcd(int(a, 0), int(a, 1)) as i64));
    library.add("gcd(int8, int8) int8", |_, a| int8(i64::try_from(gcd(int(a, 0), int(a, 1))).ok()));
    library.add("lcm(int4, int4) int4", |_, a| int4(lcm(int(a, 0), int(a, 1)).ok_or_else(|| out_of_range("integer"))?));
    library.add("lcm(int8, int8) int8", |_, a| int8(lcm(int(a, 0), int(a, 1))));
}

fn remainder(a: i64, b: i64) -> Result<i64, SqlError> {
    if b == 0 { Err(super::arith::division_by_zero()) } else { Ok(a.wrapping_rem(b)) }
}

fn gcd(a: i64, b: i64) -> u64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn lcm(a: i64, b: i64) -> Option<i64> {
    match gcd(a, b) {
        0 => Some(0),
        divisor => (a.unsigned_abs() / divisor).checked_mul(b.unsigned_abs()).and_then(|v| i64::try_from(v).ok()),
    }
}

fn declare_bits(library: &mut Library) {
    library.add("&(int2, int2) int2", |_, a| int2(int(a, 0) & int(a, 1)));
    library.add("&(int4, int4) int4", |_, a| int4(int(a, 0) & int(a, 1)));
    library.add("&(int8, int8) int8", |_, a| int8(Some(int(a, 0) & int(a, 1))));
    library.add("|(int2, int2) int2", |_, a| int2(int(a, 0) | int(a, 1)));
    library.add("|(int4, int4) int4", |_, a| int4(int(a, 0) | int(a, 1)));
    library.add("|(int8, int8) int8", |_, a| int8(Some(int(a, 0) | int(a, 1))));
    library.add("#(int2, int2) int2", |_, a| int2(int(a, 0) ^ int(a, 1)));
    library.add("#(int4, int4) int4", |_, a| int4(int(a, 0) ^ int(a, 1)));
    library.add("#(int8, int8) int8", |_, a| int8(Some(int(a, 0) ^ int(a, 1))));
    library.add("~(int2) int2", |_, a| int2(!int(a, 0)));
    library.add("~(int4) int4", |_, a| int4(!int(a, 0)));
    library.add("~(int8) int8", |_, a| int8(Some(!int(a, 0))));
    // Shifts drop bits and take their distance modulo the width, as the processor does.
    library.add("<<(int4, int4) int4", |_, a| Ok(Datum::Int4((int(a, 0) as i32).wrapping_shl(int(a, 1) as u32))));
    library.add("<<(int8, int4) int8", |_, a| Ok(Datum::Int8(int(a, 0).wrapping_shl(int(a, 1) as u32))));
    library.add(">>(int4, int4) int4", |_, a| Ok(Datum::Int4((int(a, 0) as i32).wrapping_shr(int(a, 1) as u32))));
    library.add(">>(int8, int4) int8", |_, a| Ok(Datum::Int8(int(a, 0).wrapping_shr(int(a, 1) as u32))));
}

fn declare_rounding(library: &mut Library) {
    for name in ["ceil", "ceiling"] {
        library.add(&format!("{name}(float8) float8"), |_, a| Ok(Datum::Float8(float(a, 0).ceil())));
    }
    library.add("floor(float8) float8", |_, a| Ok(Datum::Float8(float(a, 0).floor())));
    library.add("round(float8) float8", |_, a| Ok(Datum::Float8(float(a, 0).round_ties_even())));
    library.add("trunc(float8) float8", |_, a| Ok(Datum::Float8(float(a, 0).trunc())));
    library.add("width_bucket(float8, float8, float8, int4) int4", |_, a| {
        let (value, low, high, count) = (float(a, 0), float(a, 1), float(a, 2), int(a, 3));
        let invalid = |message: &str| SqlError::new(SqlState("2201G"), message);
        if count <= 0 {
            return Err(invalid("count must be greater than zero"));
        }
        if low == high {
            return Err(invalid("lower bound cannot equal upper bound"));
        }
        let share = (value - low) / (high - low);
        let bucket = if share < 0.0 { 0.0 } else if share >= 1.0 { count as f64 + 1.0 } else { (share * count as f64).floor() + 1.0 };
        int4(bucket as i64)
    });
}

fn declare_powers(library: &mut Library) {
    library.add("sqrt(float8) float8", |_, a| {
        if float(a, 0) < 0.0 {
            return Err(power_error("cannot take square root of a negative number"));
        }
        Ok(Datum::Float8(float(a, 0).sqrt()))
    });
    library.add("cbrt(float8) float8", |_, a| Ok(Datum::Float8(float(a, 0).cbrt())));
    library.add("exp(float8) float8", |_, a| checked(float(a, 0).exp(), &[float(a, 0)]));
    library.add("ln(float8) float8", |_, a| logarithm(float(a, 0), f64::ln));
    for name in ["log", "log10"] {
        library.add(&format!("{name}(float8) float8"), |_, a| logarithm(float(a, 0), f64::log10));
    }
    for name in ["power", "pow", "^"] {
        library.add(&format!("{name}(float8, float8) float8"), |_, a| power(float(a, 0), float(a, 1)));
    }
}

fn power_error(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION, message)
}

fn power(base: f64, exponent: f64) -> Result<Datum<'static>, SqlError> {
    if base == 0.0 && exponent < 0.0 {
        return Err(power_error("zero raised to a negative power is undefined"));
    }
    if base < 0.0 && exponent.is_finite() && exponent.fract() != 0.0 {
        return Err(power_error("a negative number raised to a non-integer power yields a complex result"));
    }
    checked(base.powf(exponent), &[base, exponent])
}

fn logarithm(value: f64, f: fn(f64) -> f64) -> Result<Datum<'static>, SqlError> {
    let error = |message: &str| SqlError::new(SqlState::INVALID_ARGUMENT_FOR_LOGARITHM, message);
    if value == 0.0 {
        return Err(error("cannot take logarithm of zero"));
    }
    if value < 0.0 {
        return Err(error("cannot take logarithm of a negative number"));
    }
    Ok(Datum::Float8(f(value)))
}

fn declare_circles(library: &mut Library) {
    library.add("pi() float8", |_, _| Ok(Datum::Float8(std::f64::consts::PI)));
    library.add("degrees(float8) float8", |_, a| checked(float(a, 0).to_degrees(), &[float(a, 0)]));
    library.add("radians(float8) float8", |_, a| Ok(Datum::Float8(float(a, 0).to_radians())));
    library.add("sin(float8) float8", |_, a| trig(float(a, 0), f64::sin));
    library.add("cos(float8) float8", |_, a| trig(float(a, 0), f64::cos));
    library.add("tan(float8) float8", |_, a| trig(float(a, 0), f64::tan));
    library.add("cot(float8) float8", |_, a| trig(float(a, 0), |v| 1.0 / v.tan()));
    library.add("asin(float8) float8", |_, a| inverse(float(a, 0), f64::asin));
    library.add("acos(float8) float8", |_, a| inverse(float(a, 0), f64::acos));
    library.add("atan(float8) float8", |_, a| Ok(Datum::Float8(float(a, 0).atan())));
    library.add("atan2(float8, float8) float8", |_, a| Ok(Datum::Float8(float(a, 0).atan2(float(a, 1)))));
    library.add("sinh(float8) float8", |_, a| Ok(Datum::Float8(float(a, 0).sinh())));
    library.add("cosh(float8) float8", |_, a| Ok(Datum::Float8(float(a, 0).cosh())));
    library.add("tanh(float8) float8", |_, a| Ok(Datum::Float8(float(a, 0).tanh())));
}

fn input_out_of_range() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range")
}

fn trig(value: f64, f: fn(f64) -> f64) -> Result<Datum<'static>, SqlError> {
    if value.is_infinite() { Err(input_out_of_range()) } else { Ok(Datum::Float8(f(value))) }
}

fn inverse(value: f64, f: fn(f64) -> f64) -> Result<Datum<'static>, SqlError> {
    if value.abs() > 1.0 { Err(input_out_of_range()) } else { Ok(Datum::Float8(f(value))) }
}
