//! float4 and float8 as text.
//!
//! PostgreSQL prints the shortest digits that read back as the same value, in plain notation where the exponent is
//! at least -4 and below 15 (6 for float4), else in scientific notation with a two-digit exponent. With
//! `extra_float_digits` at zero or below it is C's `%.*g` instead.

use crate::error::PgReprError;
use crate::numeric::is_space;
use bytes::BufMut;
use repr::sqlstate::SqlState;

/// Prints a float8.
pub fn encode_float8(value: f64, extra_float_digits: i32, out: &mut Vec<u8>) {
    if !value.is_finite() {
        return put_special(value.is_nan(), value.is_sign_negative(), out);
    }
    if extra_float_digits > 0 {
        put_laid_out(ryu::Buffer::new().format_finite(value), 15, out);
    } else {
        let digits = precision(15, extra_float_digits);
        put_laid_out(&format!("{value:.*e}", digits - 1), i32::try_from(digits).unwrap_or(15), out);
    }
}

/// Prints a float4.
pub fn encode_float4(value: f32, extra_float_digits: i32, out: &mut Vec<u8>) {
    if !value.is_finite() {
        return put_special(value.is_nan(), value.is_sign_negative(), out);
    }
    if extra_float_digits > 0 {
        put_laid_out(ryu::Buffer::new().format_finite(value), 6, out);
    } else {
        let digits = precision(6, extra_float_digits);
        put_laid_out(&format!("{value:.*e}", digits - 1), i32::try_from(digits).unwrap_or(6), out);
    }
}

fn precision(digits: i32, extra_float_digits: i32) -> usize {
    usize::try_from(digits.saturating_add(extra_float_digits)).unwrap_or(1).max(1)
}

fn put_special(nan: bool, negative: bool, out: &mut Vec<u8>) {
    out.put_slice(match (nan, negative) {
        (true, _) => b"NaN",
        (false, false) => b"Infinity",
        (false, true) => b"-Infinity",
    });
}

/// Lays out the digits of `text` (`-1.25e-7`, `0.001`, `120.0`) in PostgreSQL's notation; exponents from -4 up to
/// `plain_max` are written plainly.
fn put_laid_out(text: &str, plain_max: i32, out: &mut Vec<u8>) {
    let (text, negative) = match text.strip_prefix('-') {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().expect("a formatter's exponent");
    let mut buffer = [0_u8; 64];
    let mut count = 0;
    let mut point = 0;
    let mut seen_point = false;
    for byte in mantissa.bytes() {
        match byte {
            b'.' => seen_point = true,
            b'0' if count == 0 => point -= i32::from(seen_point), // a leading zero is not a digit
            digit => {
                buffer[count] = digit;
                count += 1;
                point += i32::from(!seen_point);
            }
        }
    }
    let digits = trim_zeros(&buffer[..count]);
    if negative {
        out.put_u8(b'-');
    }
    if digits.is_empty() {
        return out.put_u8(b'0');
    }
    // The value is 0.DIGITS times 10 to the `point + exponent`.
    let exponent = point + exponent - 1;
    if (-4..plain_max).contains(&exponent) {
        put_plain(digits, exponent, out);
    } else {
        put_scientific(digits, exponent, out);
    }
}

fn trim_zeros(digits: &[u8]) -> &[u8] {
    let end = digits.iter().rposition(|digit| *digit != b'0').map_or(0, |i| i + 1);
    &digits[..end]
}

fn put_plain(digits: &[u8], exponent: i32, out: &mut Vec<u8>) {
    match usize::try_from(exponent) {
        Err(_) => {
            out.put_slice(b"0.");
            for _ in exponent + 1..0 {
                out.put_u8(b'0');
            }
            out.put_slice(digits);
        }
        Ok(exponent) => {
            let before = exponent + 1;
            out.put_slice(&digits[..before.min(digits.len())]);
            for _ in digits.len()..before {
                out.put_u8(b'0');
            }
            if digits.len() > before {
                out.put_u8(b'.');
                out.put_slice(&digits[before..]);
            }
        }
    }
}

fn put_scientific(digits: &[u8], exponent: i32, out: &mut Vec<u8>) {
    out.put_u8(digits[0]);
    if digits.len() > 1 {
        out.put_u8(b'.');
        out.put_slice(&digits[1..]);
    }
    out.put_slice(if exponent < 0 { b"e-" } else { b"e+" });
    if exponent.abs() < 10 {
        out.put_u8(b'0');
    }
    out.put_slice(itoa::Buffer::new().format(exponent.abs()).as_bytes());
}

/// Reads a float8.
pub fn decode_float8(text: &str) -> Result<f64, PgReprError> {
    let trimmed = text.trim_matches(is_space);
    let value: f64 = trimmed.parse().map_err(|_| PgReprError::invalid_text("double precision", text))?;
    let lost = value.is_infinite() && has_digit(trimmed) || value == 0.0 && has_nonzero_mantissa(trimmed);
    if lost { Err(out_of_range("double precision", text)) } else { Ok(value) }
}

/// Reads a float4.
pub fn decode_float4(text: &str) -> Result<f32, PgReprError> {
    let trimmed = text.trim_matches(is_space);
    let value: f32 = trimmed.parse().map_err(|_| PgReprError::invalid_text("real", text))?;
    let lost = value.is_infinite() && has_digit(trimmed) || value == 0.0 && has_nonzero_mantissa(trimmed);
    if lost { Err(out_of_range("real", text)) } else { Ok(value) }
}

fn has_digit(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

fn has_nonzero_mantissa(text: &str) -> bool {
    text.bytes().take_while(|byte| !matches!(byte, b'e' | b'E')).any(|byte| matches!(byte, b'1'..=b'9'))
}

fn out_of_range(type_name: &str, text: &str) -> PgReprError {
    PgReprError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("\"{text}\" is out of range for type {type_name}"))
}

#[cfg(test)]
mod tests {
    use super::{decode_float8, encode_float4, encode_float8};

    fn float8(value: f64, extra_float_digits: i32) -> String {
        let mut out = Vec::new();
        encode_float8(value, extra_float_digits, &mut out);
        String::from_utf8(out.to_vec()).expect("digits")
    }

    #[test]
    fn notation_changes_where_postgres_changes_it() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (120.0, "120"),
            (0.1, "0.1"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (123_456_789_012_345.0, "123456789012345"),
            (1e15, "1e+15"),
            (1e20, "1e+20"),
            (1.5e300, "1.5e+300"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ];
        for (value, text) in cases {
            assert_eq!(float8(value, 1), text);
        }
        assert_eq!(float8(0.1 + 0.2, 0), "0.3");
        assert_eq!(float8(0.1 + 0.2, 3), "0.30000000000000004");
        let mut out = Vec::new();
        encode_float4(1e6, 1, &mut out);
        assert_eq!(&out[..], b"1e+06");
    }

    #[test]
    fn overflow_and_underflow_are_errors() {
        assert!(decode_float8("1e400").is_err());
        assert!(decode_float8("1e-400").is_err());
        assert_eq!(decode_float8(" 0e10 "), Ok(0.0));
        assert_eq!(decode_float8("-infinity"), Ok(f64::NEG_INFINITY));
        assert!(decode_float8("").is_err());
    }
}
