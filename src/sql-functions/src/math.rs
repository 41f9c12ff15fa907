//! Functions on integers and floats.

use super::library::Library;
use super::{float, int};
use engine::error::SqlError;
use repr::Datum;
use repr::sqlstate::SqlState;

/// Declares the functions of this file.
pub(crate) fn declare(library: &mut Library) {
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

fn out_of_range_as(how: &str) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("value out of range: {how}"))
}

/// A float result; infinity from finite arguments is overflow.
fn checked(result: f64, args: &[f64]) -> Result<Datum<'static>, SqlError> {
    if result.is_infinite() && args.iter().all(|v| v.is_finite()) {
        return Err(out_of_range_as("overflow"));
    }
    Ok(Datum::Float8(result))
}

fn underflow() -> SqlError {
    out_of_range_as("underflow")
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
    // What an average is divided by: NULL if there is nothing.
    library.add("nonzero(int8) int8", |_, a| Ok(if int(a, 0) == 0 { Datum::Null } else { Datum::Int8(int(a, 0)) }));
    library.add("abs(int2) int2", |_, a| int2(int(a, 0).abs()));
    library.add("abs(int4) int4", |_, a| int4(int(a, 0).abs()));
    library.add("abs(int8) int8", |_, a| int8(int(a, 0).checked_abs()));
    library.add("abs(float4) float4", |_, a| Ok(Datum::Float4(float(a, 0).abs() as f32)));
    library.add("abs(float8) float8", |_, a| Ok(Datum::Float8(float(a, 0).abs())));
    library.add("sign(float8) float8", |_, a| {
        let v = float(a, 0);
        Ok(Datum::Float8(if v == 0.0 || v.is_nan() { 0.0 } else { v.signum() }))
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
    for op in ["<<", ">>"] {
        // int2 is shifted as an integer and cut to its sixteen bits.
        let shift: super::library::Body = match op {
            "<<" => |_, a| Ok(Datum::Int2((int(a, 0) as i32).wrapping_shl(int(a, 1) as u32) as i16)),
            _ => |_, a| Ok(Datum::Int2((int(a, 0) as i32).wrapping_shr(int(a, 1) as u32) as i16)),
        };
        library.add(&format!("{op}(int2, int4) int2"), shift);
    }
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
        let bucket = if share < 0.0 {
            0.0
        } else if share >= 1.0 {
            count as f64 + 1.0
        } else {
            (share * count as f64).floor() + 1.0
        };
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
    library.add("exp(float8) float8", |_, a| {
        let (v, result) = (float(a, 0), float(a, 0).exp());
        if result == 0.0 && v.is_finite() { Err(underflow()) } else { checked(result, &[v]) }
    });
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
    let result = base.powf(exponent);
    if result == 0.0 && base != 0.0 && base.is_finite() && exponent.is_finite() {
        return Err(underflow());
    }
    checked(result, &[base, exponent])
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
    library.add("asinh(float8) float8", |_, a| Ok(Datum::Float8(float(a, 0).asinh())));
    library.add("acosh(float8) float8", |_, a| {
        if float(a, 0) < 1.0 { Err(input_out_of_range()) } else { Ok(Datum::Float8(float(a, 0).acosh())) }
    });
    library.add("atanh(float8) float8", |_, a| inverse(float(a, 0), f64::atanh));
    library.add("sind(float8) float8", |_, a| trig(float(a, 0), sine_of_degrees));
    library.add("cosd(float8) float8", |_, a| trig(float(a, 0), cosine_of_degrees));
    library.add("tand(float8) float8", |_, a| trig(float(a, 0), tangent_of_degrees));
    library.add("cotd(float8) float8", |_, a| trig(float(a, 0), |v| tangent_of_degrees(90.0 - v % 180.0)));
    library.add("asind(float8) float8", |_, a| inverse(float(a, 0), |v| 90.0 - arc_cosine_in_degrees(v)));
    library.add("acosd(float8) float8", |_, a| inverse(float(a, 0), arc_cosine_in_degrees));
    library.add("atand(float8) float8", |_, a| Ok(Datum::Float8(arc_tangent_in_degrees(float(a, 0), 1.0))));
    library.add("atan2d(float8, float8) float8", |_, a| {
        Ok(Datum::Float8(arc_tangent_in_degrees(float(a, 0), float(a, 1))))
    });
}

/// The sine of an angle between 0 and 90 degrees, exact where it is a simple fraction.
fn first_quadrant(degrees: f64) -> f64 {
    match degrees {
        30.0 => 0.5,
        90.0 => 1.0,
        _ => degrees.to_radians().sin(),
    }
}

fn sine_of_degrees(degrees: f64) -> f64 {
    let (angle, sign) = if degrees < 0.0 { (-degrees % 360.0, -1.0) } else { (degrees % 360.0, 1.0) };
    let (angle, sign) = if angle > 180.0 { (360.0 - angle, -sign) } else { (angle, sign) };
    sign * first_quadrant(if angle > 90.0 { 180.0 - angle } else { angle })
}

fn cosine_of_degrees(degrees: f64) -> f64 {
    let angle = degrees.abs() % 360.0;
    let angle = if angle > 180.0 { 360.0 - angle } else { angle };
    if angle > 90.0 { -first_quadrant(angle - 90.0) } else { first_quadrant(90.0 - angle) }
}

fn tangent_of_degrees(degrees: f64) -> f64 {
    let angle = degrees % 180.0;
    match angle.abs() {
        45.0 => 1.0_f64.copysign(angle),
        135.0 => -(1.0_f64.copysign(angle)),
        _ => sine_of_degrees(angle) / cosine_of_degrees(angle),
    }
}

fn arc_cosine_in_degrees(value: f64) -> f64 {
    match value {
        0.0 => 90.0,
        0.5 => 60.0,
        -0.5 => 120.0,
        _ => value.acos().to_degrees(),
    }
}

fn arc_tangent_in_degrees(y: f64, x: f64) -> f64 {
    y.atan2(x).to_degrees()
}

fn input_out_of_range() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range")
}

fn trig(value: f64, f: fn(f64) -> f64) -> Result<Datum<'static>, SqlError> {
    if value.is_infinite() { Err(input_out_of_range()) } else { Ok(Datum::Float8(f(value))) }
}

/// Of values between -1 and 1.
fn inverse(value: f64, f: fn(f64) -> f64) -> Result<Datum<'static>, SqlError> {
    if value.abs() > 1.0 { Err(input_out_of_range()) } else { Ok(Datum::Float8(f(value))) }
}

#[cfg(test)]
mod tests {
    use super::{cosine_of_degrees, gcd, lcm, logarithm, power, sine_of_degrees, tangent_of_degrees};
    use repr::Datum;
    use repr::sqlstate::SqlState;

    #[test]
    fn powers_out_of_range_are_errors() {
        let code = |base: f64, exponent: f64| power(base, exponent).err().map(|error| error.sqlstate);
        assert_eq!(power(2.0, 10.0), Ok(Datum::Float8(1024.0)));
        assert_eq!(code(10.0, 400.0), Some(SqlState::NUMERIC_VALUE_OUT_OF_RANGE));
        assert_eq!(code(10.0, -400.0), Some(SqlState::NUMERIC_VALUE_OUT_OF_RANGE));
        assert_eq!(code(0.0, -1.0), Some(SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION));
        assert_eq!(code(-8.0, 0.5), Some(SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION));
        let logarithm_code = logarithm(0.0, f64::ln).err().map(|error| error.sqlstate);
        assert_eq!(logarithm_code, Some(SqlState::INVALID_ARGUMENT_FOR_LOGARITHM));
    }

    #[test]
    fn common_angles_are_exact() {
        assert_eq!((sine_of_degrees(30.0), sine_of_degrees(390.0), sine_of_degrees(-30.0)), (0.5, 0.5, -0.5));
        assert_eq!((cosine_of_degrees(60.0), cosine_of_degrees(-120.0)), (0.5, -0.5));
        assert_eq!((tangent_of_degrees(45.0), tangent_of_degrees(135.0)), (1.0, -1.0));
    }

    #[test]
    fn divisors_and_multiples() {
        assert_eq!(gcd(i64::MIN, 0), 1 << 63);
        assert_eq!((gcd(12, 18), lcm(4, 6), lcm(0, 0)), (6, Some(12), Some(0)));
        assert_eq!(lcm(i64::MAX, 2), None);
    }
}
