//! Values that are written as most are: what loads many rows need not look for everything else that an input function takes.
//!
//! A number is digits, a date is `2024-02-29`, a timestamp that and `23:59:59.999999`, a text is itself. Whatever is written otherwise (blanks
//! around it, exponents, words, other date styles), too long, or out of range is [`text::decode_text`](crate::text::decode_text)'s, which
//! reads all that is read here as the same value.

use crate::calendar::{DAY_US, SECOND_US, days_from_civil, days_in_month};
use crate::length::padded;
use arrow::datatypes::i256;
use repr::datum::Datum;
use repr::types::{NumericDisplay, PgType};
use std::borrow::Cow;

/// Digits that any 64-bit integer can have.
const DIGITS_MAX: usize = 18;

/// The value of a type whose text this is, without a NUL in it, if it is written plainly: as
/// [`decode_text`](crate::text::decode_text) has it after [`fit_text`](crate::length::fit_text).
pub fn plain_value<'a>(ty: &PgType, text: &'a str) -> Option<Datum<'a>> {
    debug_assert!(!text.contains('\0'), "{text:?}");
    let fits = |limit: &u32| usize::try_from(*limit).is_ok_and(|limit| text.len() <= limit);
    Some(match ty {
        PgType::Int2 => Datum::Int2(integer(text)?.try_into().ok()?),
        PgType::Int4 => Datum::Int4(integer(text)?.try_into().ok()?),
        PgType::Int8 => Datum::Int8(integer(text)?),
        PgType::Numeric(NumericDisplay::Declared(precision, scale)) => {
            Datum::Numeric(i256::from_i128(decimal(text, *precision, *scale)?.into()), *scale)
        }
        PgType::Text | PgType::Varchar(None) => Datum::Text(Cow::Borrowed(text)),
        PgType::Varchar(Some(limit)) if fits(limit) => Datum::Text(Cow::Borrowed(text)),
        PgType::Bpchar(Some(limit)) if fits(limit) => Datum::Text(padded(text, *limit)),
        PgType::Bool if text == "t" || text == "f" => Datum::Bool(text == "t"),
        PgType::Date => Datum::Date(days(text.as_bytes())?.try_into().ok()?),
        PgType::Timestamp => Datum::Timestamp(timestamp(text.as_bytes())?),
        _ => return None,
    })
}

/// A few digits.
fn digits(text: &[u8]) -> Option<i64> {
    let of = |value: i64, byte: &u8| byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0'));
    if text.is_empty() || text.len() > DIGITS_MAX { None } else { text.iter().try_fold(0, of) }
}

fn signed(text: &str) -> (i64, &[u8]) {
    match text.as_bytes() {
        [b'-', rest @ ..] => (-1, rest),
        rest => (1, rest),
    }
}

fn integer(text: &str) -> Option<i64> {
    let (sign, rest) = signed(text);
    Some(sign * digits(rest)?)
}

/// A decimal in units of its last place.
fn decimal(text: &str, precision: u8, scale: i8) -> Option<i64> {
    let (sign, rest) = signed(text);
    let scale = usize::try_from(scale).ok()?;
    let (whole, fraction) = match rest.iter().position(|byte| *byte == b'.') {
        None => (rest, &rest[rest.len()..]),
        Some(at) => (&rest[..at], &rest[at + 1..]),
    };
    let missing = scale.checked_sub(fraction.len())?;
    let digit_count = whole.len() + scale;
    if digit_count > DIGITS_MAX || digit_count > usize::from(precision) {
        return None;
    }
    let places = if fraction.is_empty() { 0 } else { digits(fraction)? };
    let of = |value: i64, count: usize| (0..count).fold(value, |value, _| value * 10);
    let whole = of(digits(whole)?, fraction.len());
    Some(sign * of(whole + places, missing))
}

/// Days since the Unix epoch.
fn days(text: &[u8]) -> Option<i64> {
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = *text else { return None };
    let (year, month, day) = (digits(&[y0, y1, y2, y3])?, digits(&[m0, m1])?, digits(&[d0, d1])?);
    let is_date = year > 0 && (1..=12).contains(&month) && day > 0 && day <= days_in_month(year, month);
    is_date.then(|| days_from_civil(year, month, day))
}

/// Microseconds since the Unix epoch.
fn timestamp(text: &[u8]) -> Option<i64> {
    let (date, time) = text.split_at_checked(10)?;
    let ([b' ', h0, h1, b':', m0, m1, b':', s0, s1], fraction) = time.split_first_chunk::<9>()? else { return None };
    let (hour, minute, second) = (digits(&[*h0, *h1])?, digits(&[*m0, *m1])?, digits(&[*s0, *s1])?);
    let micros = match fraction {
        [] => 0,
        [b'.', places @ ..] if places.len() <= 6 => (places.len()..6).fold(digits(places)?, |value, _| value * 10),
        _ => return None,
    };
    let is_time = hour < 24 && minute < 60 && second < 60;
    let seconds = hour * 3600 + minute * 60 + second;
    let date = days(date)?;
    is_time.then(|| date * DAY_US + seconds * SECOND_US + micros)
}

#[cfg(test)]
mod tests {
    use super::plain_value;
    use crate::length::{LengthRule, fit_text};
    use crate::options::EncodeOptions;
    use crate::text::decode_text;
    use proptest::prelude::*;
    use repr::types::{NumericDisplay, PgType};

    const TYPES: [PgType; 14] = [
        PgType::Int2,
        PgType::Int4,
        PgType::Int8,
        PgType::Numeric(NumericDisplay::Declared(15, 2)),
        PgType::Numeric(NumericDisplay::Declared(5, 5)),
        PgType::Numeric(NumericDisplay::Declared(38, 0)),
        PgType::Numeric(NumericDisplay::Declared(3, -2)),
        PgType::Text,
        PgType::Varchar(Some(4)),
        PgType::Bpchar(Some(12)),
        PgType::Bool,
        PgType::Date,
        PgType::Timestamp,
        PgType::Float8,
    ];

    /// What is plain is what it is for everybody; returns how much of it was.
    fn same(text: &str) -> usize {
        let options = EncodeOptions::default();
        let known = TYPES.iter().filter_map(|ty| {
            let plain = plain_value(ty, text)?;
            let general = fit_text(ty, text, LengthRule::Assign).and_then(|text| decode_text(ty, &text, &options));
            assert_eq!(Ok(plain), general.map_err(|error| error.to_string()), "{text:?} as {ty:?}");
            Some(())
        });
        known.count()
    }

    #[test]
    fn what_is_plain_is_known() {
        for (text, count) in [
            ("1", 8),
            ("-32768", 7),
            ("0.5", 4),
            ("-17.25", 3),
            ("t", 4),
            ("2024-02-29", 3),
            ("2023-02-29", 2),
            ("0000-01-01", 2),
            ("1998-12-01 23:59:59.5", 2),
            ("1998-12-01 23:59:60", 1),
            ("", 3),
            ("ää", 3),
            (" 1", 3),
            ("1.", 5),
            (".5", 3),
            ("1e3", 3),
        ] {
            assert_eq!(same(text), count, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn numbers(text in "[-+]?[0-9]{0,20}(\\.[0-9]{0,7})?") {
            same(&text);
        }

        #[test]
        fn dates(text in "[0-9]{4}-[0-3][0-9]-[0-3][0-9]( [0-9]{2}:[0-6][0-9]:[0-6][0-9](\\.[0-9]{0,7})?)?") {
            same(&text);
        }

        #[test]
        fn anything(text in "[^\0]{0,14}") {
            same(&text);
        }
    }
}
