//! numeric: decimals between Arrow's unscaled 256-bit integers, text, and base-10000 digits on the wire.
//!
//! How many digits are printed is the type's business ([`NumericDisplay`]), so that `1.50::numeric(10,2)` keeps its
//! zero, an unconstrained column shows none, and a quotient shows what PostgreSQL's division would have computed.

use crate::error::PgReprError;
use arrow::datatypes::i256;
use bytes::{Buf, BufMut};
use repr::sqlstate::SqlState;
use repr::types::{NUMERIC_PRECISION, NUMERIC_SCALE, NumericDisplay};
use std::cmp::Ordering;

/// The most decimal digits of a 256-bit integer.
const DIGITS_MAX: usize = 78;
/// Digits that fit one `u128`.
const CHUNK_DIGITS: usize = 38;
const CHUNK: i256 = i256::from_i128(10_i128.pow(38));
/// Significant digits that PostgreSQL guarantees for a quotient.
const QUOTIENT_DIGITS_MIN: i32 = 16;
/// The wire's flags.
const SIGN_POSITIVE: u16 = 0x0000;
const SIGN_NEGATIVE: u16 = 0x4000;
const SIGN_NAN: u16 = 0xC000;
const SIGN_INFINITY: u16 = 0xD000;
const SIGN_NEGATIVE_INFINITY: u16 = 0xF000;

/// The number of digits after the point with which a value of this display is stored.
pub fn stored_scale(display: NumericDisplay) -> i8 {
    match display {
        NumericDisplay::Declared(_, scale) => scale,
        _ => NUMERIC_SCALE,
    }
}

/// 10 to the power of `exponent`, if it fits.
pub fn power_of_ten(exponent: u32) -> Option<i256> {
    if exponent <= 38 {
        return Some(i256::from_i128(10_i128.pow(exponent)));
    }
    if exponent > 76 { None } else { power_of_ten(exponent - 38)?.checked_mul(CHUNK) }
}

/// Moves the point of an unscaled integer from `from` digits to `to` digits, rounding half away from zero.
///
/// `None` means overflow of 256 bits.
pub fn rescale(value: i256, from: i8, to: i8) -> Option<i256> {
    match to.cmp(&from) {
        Ordering::Equal => Some(value),
        _ if value == i256::ZERO => Some(i256::ZERO),
        Ordering::Greater => value.checked_mul(power_of_ten((i32::from(to) - i32::from(from)).unsigned_abs())?),
        Ordering::Less => {
            // A divisor beyond 256 bits is more than twice any value: everything rounds to zero.
            let Some(divisor) = power_of_ten((i32::from(from) - i32::from(to)).unsigned_abs()) else {
                return Some(i256::ZERO);
            };
            let quotient = value.checked_div(divisor)?;
            let remainder = value.checked_rem(divisor)?.checked_abs()?;
            // remainder * 2 >= divisor, without the overflow.
            let rounds_away = remainder >= divisor.checked_sub(remainder)?;
            match (rounds_away, value.is_negative()) {
                (false, _) => Some(quotient),
                (true, false) => quotient.checked_add(i256::ONE),
                (true, true) => quotient.checked_sub(i256::ONE),
            }
        }
    }
}

/// The decimal digits of an absolute value, without leading zeros (zero has none).
struct Digits {
    buffer: [u8; DIGITS_MAX],
    start: usize,
}

impl Digits {
    fn new(value: i256) -> Digits {
        let mut digits = Digits { buffer: [b'0'; DIGITS_MAX], start: DIGITS_MAX };
        if let Some(small) = value.to_i128() {
            digits.push_front(small.unsigned_abs(), false);
            return digits;
        }
        // Remainders are taken before the sign is dropped: the least i256 has no absolute value.
        let mut rest = value;
        while rest != i256::ZERO {
            let chunk = rest.wrapping_rem(CHUNK).to_i128().expect("below 10^38").unsigned_abs();
            rest = rest.wrapping_div(CHUNK);
            digits.push_front(chunk, rest != i256::ZERO);
        }
        digits
    }

    fn push_front(&mut self, value: u128, padded: bool) {
        if value == 0 && !padded {
            return;
        }
        let mut buffer = itoa::Buffer::new();
        let text = buffer.format(value).as_bytes();
        let width = if padded { CHUNK_DIGITS } else { text.len() };
        self.start -= width;
        let end = self.start + width;
        self.buffer[end - text.len()..end].copy_from_slice(text);
    }

    fn as_slice(&self) -> &[u8] {
        &self.buffer[self.start..]
    }
}

/// The scale with which a value of this display is shown, and its unscaled integer at that scale.
fn displayed(value: i256, scale: i8, display: NumericDisplay) -> (i256, i8) {
    let shown = match display {
        NumericDisplay::Declared(_, declared) => declared.max(0),
        NumericDisplay::Scale => scale.max(0),
        NumericDisplay::Quotient => quotient_scale(value, scale),
        NumericDisplay::Trimmed => {
            let (value, scale) = trim(value, scale);
            return match rescale(value, scale, scale.max(0)) {
                Some(value) => (value, scale.max(0)),
                None => (value, scale),
            };
        }
    };
    // A value that does not fit with more digits is shown with those it has.
    match rescale(value, scale, shown) {
        Some(value) => (value, shown),
        None => (value, scale),
    }
}

/// Drops trailing zeros after the point.
fn trim(mut value: i256, mut scale: i8) -> (i256, i8) {
    if let Some(small) = value.to_i128() {
        let mut small = small;
        while scale > 0 && small % 10 == 0 {
            small /= 10;
            scale -= 1;
        }
        return (i256::from_i128(small), scale);
    }
    let ten = i256::from_i128(10);
    while scale > 0 && value.wrapping_rem(ten) == i256::ZERO {
        value = value.wrapping_div(ten);
        scale -= 1;
    }
    (value, scale)
}

/// The display scale that PostgreSQL's `select_div_scale` gives a quotient, judged by the quotient itself.
///
/// It counts base-10000 digits: 16 significant ones, and one group more where the first group of the dividend is not
/// above the divisor's. That comparison is lost by the time we print; it fails for certain when the quotient is within
/// `[1, 1 + 1/9999)` times a power of 10000, which is where the leading groups were (nearly) equal.
pub fn quotient_scale(value: i256, scale: i8) -> i8 {
    let digits = Digits::new(value);
    let digits = digits.as_slice();
    let weight = if digits.is_empty() {
        -1
    } else {
        let exponent = i32::try_from(digits.len()).unwrap_or(i32::MAX) - 1 - i32::from(scale);
        let weight = exponent.div_euclid(4);
        let leads_with_one = exponent.rem_euclid(4) == 0 && digits[0] == b'1';
        if leads_with_one && below_next_group(&digits[1..]) { weight - 1 } else { weight }
    };
    let shown = (QUOTIENT_DIGITS_MIN - 4 * weight).clamp(0, i32::from(NUMERIC_SCALE));
    i8::try_from(shown).unwrap_or(NUMERIC_SCALE)
}

/// Whether `0.<digits>` is below 1/9999 = 0.000100010001…
fn below_next_group(digits: &[u8]) -> bool {
    for (i, digit) in digits.iter().enumerate() {
        let bound = if i % 4 == 3 { b'1' } else { b'0' };
        if *digit != bound {
            return *digit < bound;
        }
    }
    true
}

/// Prints a numeric.
pub fn encode_text(value: i256, scale: i8, display: NumericDisplay, out: &mut Vec<u8>) {
    let (value, scale) = displayed(value, scale, display);
    let digits = Digits::new(value);
    let digits = digits.as_slice();
    if value.is_negative() && !digits.is_empty() {
        out.put_u8(b'-');
    }
    let after = usize::try_from(scale).unwrap_or(0);
    if digits.len() > after {
        out.put_slice(&digits[..digits.len() - after]);
    } else {
        out.put_u8(b'0');
    }
    // Only a value that overflowed its rescaling still has a negative scale.
    for _ in scale..0 {
        out.put_u8(b'0');
    }
    if after > 0 {
        out.put_u8(b'.');
        for _ in digits.len()..after {
            out.put_u8(b'0');
        }
        out.put_slice(&digits[digits.len().saturating_sub(after)..]);
    }
}

/// Writes the wire's base-10000 form.
pub fn encode_binary(value: i256, scale: i8, display: NumericDisplay, out: &mut Vec<u8>) {
    let (value, scale) = displayed(value, scale, display);
    let all = Digits::new(value);
    let all = all.as_slice();
    let scale = usize::try_from(scale).unwrap_or(0);
    // Decimal digits are aligned to groups of four on both sides of the point.
    let before = all.len().saturating_sub(scale);
    let lead = (4 - before % 4) % 4;
    let skipped = scale.saturating_sub(all.len()); // zeros after the point that `all` does not have
    let digit_at = |position: usize| -> u16 {
        // Position 0 is the first of the aligned integer digits; the point follows `lead + before`.
        let Some(index) = position.checked_sub(lead) else { return 0 };
        match index.checked_sub(before) {
            None => u16::from(all[index] - b'0'),
            Some(fraction) if fraction < skipped => 0,
            Some(fraction) => all.get(before + fraction - skipped).map_or(0, |d| u16::from(d - b'0')),
        }
    };
    let integer_groups = (lead + before) / 4;
    let groups = integer_groups + scale.div_ceil(4);
    let mut words = [0_u16; DIGITS_MAX];
    for (i, word) in words.iter_mut().take(groups).enumerate() {
        *word = (0..4).fold(0, |word, k| word * 10 + digit_at(4 * i + k));
    }
    let first = words[..groups].iter().position(|word| *word != 0).unwrap_or(groups);
    let last = words[..groups].iter().rposition(|word| *word != 0).map_or(first, |i| i + 1);
    let weight = if first == groups { 0 } else { as_i16(integer_groups) - 1 - as_i16(first) };
    out.put_i16(as_i16(last - first));
    out.put_i16(weight);
    out.put_u16(if value.is_negative() { SIGN_NEGATIVE } else { SIGN_POSITIVE });
    out.put_i16(as_i16(scale));
    for word in &words[first..last] {
        out.put_u16(*word);
    }
}

fn as_i16(count: usize) -> i16 {
    i16::try_from(count).expect("a 256-bit integer has at most 78 digits, a scale at most 127")
}

/// Reads the wire's base-10000 form at the scale of `display`.
pub fn decode_binary(mut bytes: &[u8], display: NumericDisplay) -> Result<i256, PgReprError> {
    let invalid = |what: &str| PgReprError::invalid_binary(format!("invalid {what} in external \"numeric\" value"));
    if bytes.len() < 8 {
        return Err(invalid("length"));
    }
    let count = bytes.get_u16();
    let weight = bytes.get_i16();
    let sign = bytes.get_u16();
    let dscale = bytes.get_u16();
    match sign {
        SIGN_POSITIVE | SIGN_NEGATIVE => {}
        SIGN_NAN | SIGN_INFINITY | SIGN_NEGATIVE_INFINITY => return Err(not_finite()),
        _ => return Err(invalid("sign")),
    }
    if dscale > 0x3fff {
        return Err(invalid("scale"));
    }
    if bytes.len() != usize::from(count) * 2 {
        return Err(invalid("length"));
    }
    let mut decimal = Decimal::new(sign == SIGN_NEGATIVE);
    for _ in 0..count {
        let word = bytes.get_u16();
        if word >= 10_000 {
            return Err(invalid("digit"));
        }
        for place in [1000, 100, 10, 1] {
            decimal.push(u8::try_from(word / place % 10).expect("below ten"));
        }
    }
    let exponent = 4 * (i64::from(weight) + 1 - i64::from(count));
    decimal.finish(exponent, display)
}

/// Reads a numeric at the scale of `display`.
pub fn decode_text(text: &str, display: NumericDisplay) -> Result<i256, PgReprError> {
    let trimmed = text.trim_matches(is_space);
    let invalid = || PgReprError::invalid_text("numeric", text);
    let (negative, rest) = match trimmed.as_bytes() {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if [&b"nan"[..], b"inf", b"infinity"].iter().any(|word| rest.eq_ignore_ascii_case(word)) {
        return if rest.eq_ignore_ascii_case(b"nan") && trimmed.len() != 3 {
            Err(invalid())
        } else {
            Err(not_finite())
        };
    }
    let mut decimal = Decimal::new(negative);
    let mut exponent: i64 = 0;
    let mut digits = 0;
    let mut point = false;
    let mut position = 0;
    while let Some(byte) = rest.get(position) {
        match byte {
            b'0'..=b'9' => {
                decimal.push(byte - b'0');
                digits += 1;
                exponent -= i64::from(point);
            }
            b'.' if !point => point = true,
            b'e' | b'E' if digits > 0 => {
                exponent = exponent.saturating_add(parse_exponent(&rest[position + 1..]).ok_or_else(invalid)?);
                position = rest.len();
                continue;
            }
            _ => return Err(invalid()),
        }
        position += 1;
    }
    if digits == 0 { Err(invalid()) } else { decimal.finish(exponent, display) }
}

/// White space as PostgreSQL's input functions see it.
pub(crate) fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

fn parse_exponent(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0_i64, |v, d| (v * 10 + i64::from(d - b'0')).min(1_000_000));
    Some(if negative { -value } else { value })
}

fn not_finite() -> PgReprError {
    PgReprError::unsupported("NaN and infinite numeric values are not supported")
}

/// Collects decimal digits, as many as can matter, and scales them at the end.
struct Decimal {
    negative: bool,
    value: i256,
    count: usize,
    /// Digits that came after the value was full.
    dropped: i64,
    /// The first dropped digit decides the rounding.
    round_up: bool,
}

impl Decimal {
    fn new(negative: bool) -> Decimal {
        Decimal { negative, value: i256::ZERO, count: 0, dropped: 0, round_up: false }
    }

    fn push(&mut self, digit: u8) {
        if self.count < usize::from(NUMERIC_PRECISION) {
            let grown = self.value.wrapping_mul(i256::from_i128(10));
            self.value = grown.wrapping_add(i256::from_i128(i128::from(digit)));
            self.count += usize::from(self.value != i256::ZERO);
        } else {
            if self.dropped == 0 {
                self.round_up = digit >= 5;
            }
            self.dropped += 1;
        }
    }

    /// The value, times 10 to the `exponent`, at the scale of `display`, within its precision.
    fn finish(self, exponent: i64, display: NumericDisplay) -> Result<i256, PgReprError> {
        let scale = stored_scale(display);
        let shift = exponent.saturating_add(self.dropped).saturating_add(i64::from(scale));
        let magnitude = if self.value == i256::ZERO {
            Some(i256::ZERO)
        } else if shift >= 0 {
            // A full value has 76 digits; rounding its last one by a 77th is only right if none of them is shifted.
            let rounded =
                if self.round_up && shift == 0 { self.value.checked_add(i256::ONE) } else { Some(self.value) };
            let factor = u32::try_from(shift).ok().and_then(power_of_ten);
            rounded.and_then(|value| value.checked_mul(factor?))
        } else {
            let from = i8::try_from(-shift).unwrap_or(i8::MAX);
            rescale(self.value, from, 0)
        };
        let value = magnitude.filter(|value| fits(*value, precision(display))).ok_or_else(|| overflow(display))?;
        Ok(if self.negative { value.wrapping_neg() } else { value })
    }
}

/// Whether the value has at most `precision` digits.
pub fn fits(value: i256, precision: u8) -> bool {
    power_of_ten(precision.into()).is_some_and(|bound| value < bound && value > bound.wrapping_neg())
}

fn precision(display: NumericDisplay) -> u8 {
    match display {
        NumericDisplay::Declared(precision, _) => precision.min(NUMERIC_PRECISION),
        _ => NUMERIC_PRECISION,
    }
}

/// The error for a value that its numeric type cannot hold.
pub fn overflow(display: NumericDisplay) -> PgReprError {
    let error = |message: &str| PgReprError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message);
    match display {
        NumericDisplay::Declared(p, s) => {
            let bound = match i32::from(p) - i32::from(s) {
                0 => "1".to_owned(),
                digits => format!("10^{digits}"),
            };
            error("numeric field overflow").with_detail(format!(
                "A field with precision {p}, scale {s} must round to an absolute value less than {bound}."
            ))
        }
        _ => error("value overflows numeric format"),
    }
}

/// Brings a value to the scale and within the precision of `display`, as assignment to such a column does.
pub fn fit(value: i256, scale: i8, display: NumericDisplay) -> Result<i256, PgReprError> {
    rescale(value, scale, stored_scale(display))
        .filter(|value| fits(*value, precision(display)))
        .ok_or_else(|| overflow(display))
}

#[cfg(test)]
mod tests {
    use super::{decode_binary, decode_text, encode_binary, encode_text, rescale};
    use arrow::datatypes::i256;
    use repr::types::NumericDisplay;

    fn shown(value: i128, scale: i8, display: NumericDisplay) -> String {
        let mut out = Vec::new();
        encode_text(i256::from_i128(value), scale, display, &mut out);
        String::from_utf8(out.to_vec()).expect("digits")
    }

    #[test]
    fn displays() {
        assert_eq!(shown(150, 2, NumericDisplay::Scale), "1.50");
        assert_eq!(shown(-5, 3, NumericDisplay::Scale), "-0.005");
        assert_eq!(shown(0, 2, NumericDisplay::Scale), "0.00");
        assert_eq!(shown(150, 2, NumericDisplay::Trimmed), "1.5");
        assert_eq!(shown(0, 20, NumericDisplay::Trimmed), "0");
        assert_eq!(shown(100, 0, NumericDisplay::Trimmed), "100");
        assert_eq!(shown(1005, 3, NumericDisplay::Declared(5, 2)), "1.01");
        assert_eq!(shown(12, -2, NumericDisplay::Scale), "1200");
        assert_eq!(shown(0, -2, NumericDisplay::Declared(5, -2)), "0");
    }

    #[test]
    fn quotients_have_postgres_scale() {
        let quotient = |text: &str| {
            let value = decode_text(text, NumericDisplay::Quotient).expect("a number");
            let mut out = Vec::new();
            encode_text(value, 20, NumericDisplay::Quotient, &mut out);
            String::from_utf8(out.to_vec()).expect("digits")
        };
        assert_eq!(quotient("1.5"), "1.5000000000000000");
        assert_eq!(quotient("0.33333333333333333333"), "0.33333333333333333333");
        assert_eq!(quotient("1"), "1.00000000000000000000");
        assert_eq!(quotient("33333.33333333333333333333"), "33333.333333333333");
        assert_eq!(quotient("0"), "0.00000000000000000000");
    }

    #[test]
    fn rounding_is_half_away_from_zero() {
        let at = |value: i128| rescale(i256::from_i128(value), 1, 0).and_then(|v| v.to_i128());
        assert_eq!((at(15), at(-15), at(14), at(-14), at(25)), (Some(2), Some(-2), Some(1), Some(-1), Some(3)));
        assert_eq!(rescale(i256::MAX, 0, 1), None);
        assert_eq!(rescale(i256::MAX, 127, -128), Some(i256::ZERO));
    }

    #[test]
    fn wire_form() {
        let mut out = Vec::new();
        encode_binary(i256::from_i128(-1_234_567_800), 4, NumericDisplay::Scale, &mut out);
        // -123456.7800 is 12|3456|.7800
        assert_eq!(&out[..], &[0, 3, 0, 1, 0x40, 0, 0, 4, 0, 12, 0x0d, 0x80, 0x1e, 0x78]);
        let back = decode_binary(&out, NumericDisplay::Declared(20, 4)).expect("our own bytes");
        assert_eq!(back, i256::from_i128(-1_234_567_800));
    }

    #[test]
    fn overflow_says_what_fits() {
        let error = decode_text("999.999", NumericDisplay::Declared(5, 2)).expect_err("rounds to 1000");
        assert_eq!(error.message, "numeric field overflow");
        assert_eq!(
            error.detail(),
            Some("A field with precision 5, scale 2 must round to an absolute value less than 10^3.")
        );
        assert!(decode_text("1e60", NumericDisplay::Trimmed).is_err());
        assert!(decode_text("1e400000", NumericDisplay::Trimmed).is_err());
        assert_eq!(decode_text("1e-400000", NumericDisplay::Trimmed), Ok(i256::ZERO));
    }
}
