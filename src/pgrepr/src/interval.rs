//! interval as text.
//!
//! Output is in the session's style, `1 year 2 mons -3 days +04:05:06.7` unless it chose another. Input is that, PostgreSQL's
//! verbose style, the SQL standard's (`1-2 3 4:05:06`) and ISO 8601's (`P1Y2M3DT4H5M6S`). Fractions flow into smaller units:
//! half a month is 15 days, half a day twelve hours.
//!
//! # Invariants
//! - The time part stays within what nanoseconds in 64 bits can hold, because that is how Arrow stores it.

use crate::calendar::{DAY_US, SECOND_US};
use crate::datetime::{put_fraction, put_two};
use crate::error::PgReprError;
use crate::numeric::is_space;
use crate::options::IntervalStyle;
use bytes::BufMut;
use repr::sqlstate::SqlState;

/// Microseconds of the longest time part.
pub const INTERVAL_US_MAX: i64 = i64::MAX / 1_000;

/// PostgreSQL's code for a field of an interval that is out of range.
const INTERVAL_FIELD_OVERFLOW: SqlState = SqlState("22015");

/// Prints an interval.
pub fn encode_interval(months: i32, days: i32, us: i64, style: IntervalStyle, out: &mut Vec<u8>) {
    match style {
        IntervalStyle::Postgres => put_postgres(months, days, us, out),
        IntervalStyle::PostgresVerbose => put_verbose(&Fields::of(months, days, us), out),
        IntervalStyle::SqlStandard => put_sql_standard(&Fields::of(months, days, us), out),
        IntervalStyle::Iso8601 => put_iso_8601(&Fields::of(months, days, us), out),
    }
}

/// An interval as its fields, each with its sign.
struct Fields {
    years: i64,
    months: i64,
    days: i64,
    hours: i64,
    minutes: i64,
    seconds: i64,
    fraction_us: i64,
}

impl Fields {
    fn of(months: i32, days: i32, us: i64) -> Fields {
        let seconds = us / SECOND_US;
        Fields {
            years: (months / 12).into(),
            months: (months % 12).into(),
            days: days.into(),
            hours: seconds / 3600,
            minutes: seconds / 60 % 60,
            seconds: seconds % 60,
            fraction_us: us % SECOND_US,
        }
    }

    fn all(&self) -> [i64; 7] {
        [self.years, self.months, self.days, self.hours, self.minutes, self.seconds, self.fraction_us]
    }

    fn time(&self) -> [i64; 4] {
        [self.hours, self.minutes, self.seconds, self.fraction_us]
    }

    fn is_negative(fields: &[i64]) -> bool {
        fields.iter().any(|field| *field < 0)
    }

    fn is_positive(fields: &[i64]) -> bool {
        fields.iter().any(|field| *field > 0)
    }
}

fn put_number(value: i64, out: &mut Vec<u8>) {
    out.put_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Prints `H:MM:SS.f` without its sign.
fn put_clock(fields: &Fields, out: &mut Vec<u8>) {
    put_number(fields.hours.abs(), out);
    out.put_u8(b':');
    put_two(fields.minutes.abs(), out);
    out.put_u8(b':');
    put_two(fields.seconds.abs(), out);
    put_fraction(fields.fraction_us.abs(), out);
}

/// `@ 1 year 2 mons -3 days 4 hours 5 mins 6.7 secs`, and `ago` behind it if the first is negative.
fn put_verbose(fields: &Fields, out: &mut Vec<u8>) {
    out.put_u8(b'@');
    let is_ago = fields.all().into_iter().find(|field| *field != 0).is_some_and(|first| first < 0);
    let turned = |value: i64| if is_ago { -value } else { value };
    let units = [
        (fields.years, "year"),
        (fields.months, "mon"),
        (fields.days, "day"),
        (fields.hours, "hour"),
        (fields.minutes, "min"),
    ];
    for (value, unit) in units {
        if value != 0 {
            out.put_u8(b' ');
            put_number(turned(value), out);
            out.put_u8(b' ');
            out.put_slice(unit.as_bytes());
            out.put_slice(if turned(value) == 1 { b"" } else { b"s" });
        }
    }
    let (seconds, fraction) = (turned(fields.seconds), turned(fields.fraction_us));
    if seconds != 0 || fraction != 0 {
        out.put_slice(if seconds < 0 || fraction < 0 { b" -" } else { b" " });
        put_number(seconds.abs(), out);
        put_fraction(fraction.abs(), out);
        out.put_slice(if seconds.abs() == 1 && fraction == 0 { b" sec" } else { b" secs" });
    }
    if fields.all() == [0; 7] {
        out.put_slice(b" 0");
    }
    if is_ago {
        out.put_slice(b" ago");
    }
}

/// `1-2` or `3 4:05:06`, which is all that the standard has; with a sign for each part if it is more than that.
fn put_sql_standard(fields: &Fields, out: &mut Vec<u8>) {
    let all = fields.all();
    let (has_months, has_time) = (all[..2] != [0; 2], all[2..] != [0; 5]);
    if !has_months && !has_time {
        return out.put_u8(b'0');
    }
    let is_mixed = Fields::is_negative(&all) && Fields::is_positive(&all);
    if is_mixed || (has_months && has_time) {
        let sign = |fields: &[i64]| if Fields::is_negative(fields) { b'-' } else { b'+' };
        out.put_u8(sign(&all[..2]));
        put_number(fields.years.abs(), out);
        out.put_u8(b'-');
        put_number(fields.months.abs(), out);
        out.put_slice(&[b' ', sign(&[fields.days])]);
        put_number(fields.days.abs(), out);
        out.put_slice(&[b' ', sign(&fields.time())]);
        return put_clock(fields, out);
    }
    if Fields::is_negative(&all) {
        out.put_u8(b'-');
    }
    if has_months {
        put_number(fields.years.abs(), out);
        out.put_u8(b'-');
        return put_number(fields.months.abs(), out);
    }
    if fields.days != 0 {
        put_number(fields.days.abs(), out);
        out.put_u8(b' ');
    }
    put_clock(fields, out);
}

/// `P1Y2M-3DT4H5M6.7S`.
fn put_iso_8601(fields: &Fields, out: &mut Vec<u8>) {
    if fields.all() == [0; 7] {
        return out.put_slice(b"PT0S");
    }
    let put = |value: i64, unit: u8, out: &mut Vec<u8>| {
        if value != 0 {
            put_number(value, out);
            out.put_u8(unit);
        }
    };
    out.put_u8(b'P');
    put(fields.years, b'Y', out);
    put(fields.months, b'M', out);
    put(fields.days, b'D', out);
    if fields.time() != [0; 4] {
        out.put_u8(b'T');
    }
    put(fields.hours, b'H', out);
    put(fields.minutes, b'M', out);
    if fields.seconds != 0 || fields.fraction_us != 0 {
        if fields.seconds < 0 || fields.fraction_us < 0 {
            out.put_u8(b'-');
        }
        put_number(fields.seconds.abs(), out);
        put_fraction(fields.fraction_us.abs(), out);
        out.put_u8(b'S');
    }
}

/// `1 year 2 mons -3 days +04:05:06.7`.
fn put_postgres(months: i32, days: i32, us: i64, out: &mut Vec<u8>) {
    let start = out.len();
    let mut before = false;
    for (value, unit) in [(months / 12, "year"), (months % 12, "mon"), (days, "day")] {
        if value == 0 {
            continue;
        }
        if out.len() > start {
            out.put_u8(b' ');
        }
        // After a negative field a positive one carries its sign.
        if before && value > 0 {
            out.put_u8(b'+');
        }
        before = value < 0;
        out.put_slice(itoa::Buffer::new().format(value).as_bytes());
        out.put_u8(b' ');
        out.put_slice(unit.as_bytes());
        if value != 1 {
            out.put_u8(b's');
        }
    }
    if us == 0 && out.len() > start {
        return;
    }
    if out.len() > start {
        out.put_u8(b' ');
    }
    if us < 0 {
        out.put_u8(b'-');
    } else if before {
        out.put_u8(b'+');
    }
    // The least i64 has no absolute value; work on the negative side.
    let us = if us > 0 { -us } else { us };
    let seconds = us / SECOND_US;
    put_two(-(seconds / 3600), out);
    out.put_u8(b':');
    put_two(-(seconds / 60 % 60), out);
    out.put_u8(b':');
    put_two(-(seconds % 60), out);
    put_fraction(-(us % SECOND_US), out);
}

/// Reads an interval: months, days, microseconds.
pub fn decode_interval(text: &str, style: IntervalStyle) -> Result<(i32, i32, i64), PgReprError> {
    let trimmed = text.trim_matches(is_space);
    let sum = if trimmed.starts_with(['P', 'p']) { iso_8601(trimmed) } else { verbose(trimmed, style) };
    let sum = sum.map_err(|refusal| match refusal {
        Refusal::Syntax => PgReprError::new(
            SqlState::INVALID_DATETIME_FORMAT,
            format!("invalid input syntax for type interval: \"{text}\""),
        ),
        Refusal::Field => {
            PgReprError::new(INTERVAL_FIELD_OVERFLOW, format!("interval field value out of range: \"{text}\""))
        }
    })?;
    check_range(sum.months, sum.days, sum.us)
}

/// Checks that the parts fit their fields.
pub(crate) fn check_range(months: i128, days: i128, us: i128) -> Result<(i32, i32, i64), PgReprError> {
    let out_of_range = || PgReprError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range");
    let months = i32::try_from(months).map_err(|_| out_of_range())?;
    let days = i32::try_from(days).map_err(|_| out_of_range())?;
    let us = i64::try_from(us).map_err(|_| out_of_range())?;
    if us.unsigned_abs() > INTERVAL_US_MAX.unsigned_abs() { Err(out_of_range()) } else { Ok((months, days, us)) }
}

enum Refusal {
    Syntax,
    Field,
}

#[derive(Default)]
struct Sum {
    months: i128,
    days: i128,
    us: i128,
}

/// A decimal: sign, whole part, and the fraction in billionths.
#[derive(Clone, Copy)]
struct Amount {
    negative: bool,
    whole: i128,
    billionths: i128,
}

const BILLION: i128 = 1_000_000_000;

impl Amount {
    /// Reads digits with an optional sign and fraction.
    fn parse(text: &str) -> Result<Amount, Refusal> {
        let (negative, digits) = match text.as_bytes() {
            [b'-', ..] => (true, &text[1..]),
            [b'+', ..] => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() && fraction.is_empty() || !all_digits(whole) || !all_digits(fraction) {
            return Err(Refusal::Syntax);
        }
        let whole = if whole.is_empty() { 0 } else { whole.parse::<i64>().map_err(|_| Refusal::Field)? };
        let billionths = (0..9).fold(0, |sum, place| {
            sum * 10 + fraction.as_bytes().get(place).map_or(0, |digit| i128::from(digit - b'0'))
        });
        Ok(Amount { negative, whole: whole.into(), billionths })
    }

    fn signed(self, value: i128) -> i128 {
        if self.negative { -value } else { value }
    }
}

impl Sum {
    fn add(&mut self, amount: Amount, unit: Unit) {
        match unit {
            Unit::Us(us) => {
                let scaled = (amount.whole * BILLION + amount.billionths) * i128::from(us);
                self.us += amount.signed((scaled + BILLION / 2) / BILLION);
            }
            Unit::Days(days) => {
                let days = i128::from(days);
                self.days += amount.signed(amount.whole * days);
                self.add_day_billionths(amount, amount.billionths * days);
            }
            Unit::Months(months) => {
                let months = i128::from(months);
                self.months += amount.signed(amount.whole * months);
                if months == 1 {
                    self.add_day_billionths(amount, amount.billionths * 30);
                } else {
                    // PostgreSQL rounds the fraction of a year and more to months.
                    self.months += amount.signed((amount.billionths * months + BILLION / 2) / BILLION);
                }
            }
        }
    }

    /// Days and longer units are counted in 32 bits.
    fn add_checked(&mut self, amount: Amount, unit: Unit) -> Result<(), Refusal> {
        if !matches!(unit, Unit::Us(_)) && amount.whole > i128::from(i32::MAX) {
            return Err(Refusal::Field);
        }
        self.add(amount, unit);
        Ok(())
    }

    fn add_day_billionths(&mut self, amount: Amount, billionths: i128) {
        self.days += amount.signed(billionths / BILLION);
        self.us += amount.signed((billionths % BILLION * i128::from(DAY_US) + BILLION / 2) / BILLION);
    }

    fn negate(&mut self) {
        *self = Sum { months: -self.months, days: -self.days, us: -self.us };
    }
}

#[derive(Clone, Copy)]
enum Unit {
    Us(i64),
    Days(i64),
    Months(i64),
}

fn unit_named(word: &str) -> Option<Unit> {
    Some(match word {
        "us" | "usec" | "usecs" | "useconds" | "microsecond" | "microseconds" | "microsecon" => Unit::Us(1),
        "ms" | "msec" | "msecs" | "mseconds" | "millisecond" | "milliseconds" | "millisecon" => Unit::Us(1_000),
        "s" | "sec" | "secs" | "second" | "seconds" => Unit::Us(SECOND_US),
        "m" | "min" | "mins" | "minute" | "minutes" => Unit::Us(60 * SECOND_US),
        "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Us(3600 * SECOND_US),
        "d" | "day" | "days" => Unit::Days(1),
        "w" | "week" | "weeks" => Unit::Days(7),
        "mon" | "mons" | "month" | "months" => Unit::Months(1),
        "y" | "yr" | "yrs" | "year" | "years" => Unit::Months(12),
        "dec" | "decs" | "decade" | "decades" => Unit::Months(120),
        "c" | "cent" | "century" | "centuries" => Unit::Months(1200),
        "mil" | "mils" | "millennia" | "millennium" => Unit::Months(12_000),
        _ => return None,
    })
}

/// `1 year 2 mons -3 days 04:05:06 ago` and the SQL standard's `1-2 3 4:05:06`.
fn verbose(text: &str, style: IntervalStyle) -> Result<Sum, Refusal> {
    let mut sum = Sum::default();
    let mut pending: Option<Amount> = None;
    let mut any = false;
    let words = pieces(text)?;
    // To the SQL standard, a sign at the beginning that is the only one is that of the whole.
    let is_signed = |word: &&str| word.starts_with(['-', '+']);
    let is_negative = style == IntervalStyle::SqlStandard
        && words.first().is_some_and(|first| first.starts_with('-'))
        && !words[1..].iter().any(is_signed);
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        let mut lower = word.to_ascii_lowercase();
        if is_negative && lower.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            lower.insert(0, '-');
        }
        let starts_amount = matches!(lower.as_bytes()[0], b'0'..=b'9' | b'+' | b'-' | b'.');
        if !starts_amount {
            match (lower.as_str(), pending.take()) {
                ("@" | "and", None) => {}
                ("ago", None) if any && words.peek().is_none() => sum.negate(),
                (unit, Some(amount)) => sum.add_checked(amount, unit_named(unit).ok_or(Refusal::Syntax)?)?,
                _ => return Err(Refusal::Syntax),
            }
            continue;
        }
        any = true;
        // An amount without a unit before a clock time is days.
        if let Some(days) = pending.take() {
            if !lower.contains(':') {
                return Err(Refusal::Syntax);
            }
            sum.add(days, Unit::Days(1));
        }
        if lower.contains(':') {
            clock(&lower, &mut sum)?;
        } else if let Some(dash) = lower[1..].find('-').map(|at| at + 1) {
            let years = Amount::parse(&lower[..dash])?;
            let months = Amount::parse(&lower[dash + 1..])?;
            if months.whole >= 12 || months.negative {
                return Err(Refusal::Field);
            }
            sum.add(years, Unit::Months(12));
            sum.add(Amount { negative: years.negative, ..months }, Unit::Months(1));
        } else {
            pending = Some(Amount::parse(&lower)?);
        }
    }
    // A last amount without a unit is seconds.
    if let Some(seconds) = pending {
        sum.add(seconds, Unit::Us(SECOND_US));
    }
    if any { Ok(sum) } else { Err(Refusal::Syntax) }
}

/// Words, and amounts cut off from the units that stick to them (`1day2h`).
fn pieces(text: &str) -> Result<Vec<&str>, Refusal> {
    let mut pieces = Vec::new();
    for word in text.split(|c: char| is_space(c) || c == ',').filter(|word| !word.is_empty()) {
        if !word.is_ascii() {
            return Err(Refusal::Syntax);
        }
        let mut start = 0;
        let kind = |byte: u8| {
            if byte.is_ascii_alphabetic() {
                0
            } else if byte == b'@' {
                1
            } else {
                2
            }
        };
        for at in 1..word.len() {
            if kind(word.as_bytes()[at]) != kind(word.as_bytes()[at - 1]) {
                pieces.push(&word[start..at]);
                start = at;
            }
        }
        pieces.push(&word[start..]);
    }
    Ok(pieces)
}

/// `HH:MM`, `HH:MM:SS.f`, or `MM:SS.f` when the second part has a fraction.
fn clock(text: &str, sum: &mut Sum) -> Result<(), Refusal> {
    let negative = text.starts_with('-');
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let parts: Vec<&str> = digits.split(':').collect();
    let hour = 3600 * SECOND_US;
    let units = match parts[..] {
        [_, seconds] if seconds.contains('.') => vec![60 * SECOND_US, SECOND_US],
        [_, _] => vec![hour, 60 * SECOND_US],
        [_, _, _] => vec![hour, 60 * SECOND_US, SECOND_US],
        _ => return Err(Refusal::Syntax),
    };
    for (i, (part, unit)) in parts.iter().zip(units).enumerate() {
        if !part.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(Refusal::Syntax);
        }
        let amount = Amount::parse(part)?;
        if i > 0 && amount.whole > 59 && !(unit == SECOND_US && amount.whole == 60) {
            return Err(Refusal::Field);
        }
        if unit != SECOND_US && part.contains('.') {
            return Err(Refusal::Syntax);
        }
        sum.add(Amount { negative, ..amount }, Unit::Us(unit));
    }
    Ok(())
}

/// `P1Y2M3W4DT5H6M7.8S` and the alternative `P0001-02-03T04:05:06`.
fn iso_8601(text: &str) -> Result<Sum, Refusal> {
    let (date, time) = match text[1..].split_once(['T', 't']) {
        Some((date, time)) => (date, Some(time)),
        None => (&text[1..], None),
    };
    if date.is_empty() && time.is_none() {
        return Err(Refusal::Syntax);
    }
    let mut sum = Sum::default();
    if date.bytes().skip(1).any(|byte| byte == b'-') && !date.bytes().any(|byte| byte.is_ascii_alphabetic()) {
        let mut parts = date.split('-').map(Amount::parse);
        for unit in [Unit::Months(12), Unit::Months(1), Unit::Days(1)] {
            if let Some(amount) = parts.next() {
                sum.add(amount?, unit);
            }
        }
        if parts.next().is_some() {
            return Err(Refusal::Syntax);
        }
    } else {
        designated(date, &mut sum, |unit| match unit {
            'y' => Some(Unit::Months(12)),
            'm' => Some(Unit::Months(1)),
            'w' => Some(Unit::Days(7)),
            'd' => Some(Unit::Days(1)),
            _ => None,
        })?;
    }
    match time {
        Some(time) if time.contains(':') => clock(time, &mut sum)?,
        Some(time) => designated(time, &mut sum, |unit| match unit {
            'h' => Some(Unit::Us(3600 * SECOND_US)),
            'm' => Some(Unit::Us(60 * SECOND_US)),
            's' => Some(Unit::Us(SECOND_US)),
            _ => None,
        })?,
        None => {}
    }
    Ok(sum)
}

fn designated(text: &str, sum: &mut Sum, unit_of: impl Fn(char) -> Option<Unit>) -> Result<(), Refusal> {
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| c.is_ascii_alphabetic()).ok_or(Refusal::Syntax)?;
        let unit = char::from(rest.as_bytes()[end]).to_ascii_lowercase();
        sum.add(Amount::parse(&rest[..end])?, unit_of(unit).ok_or(Refusal::Syntax)?);
        rest = &rest[end + 1..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{decode_interval, encode_interval};
    use crate::options::IntervalStyle;

    fn shown(months: i32, days: i32, us: i64) -> String {
        let mut out = Vec::new();
        encode_interval(months, days, us, IntervalStyle::Postgres, &mut out);
        String::from_utf8(out.to_vec()).expect("ASCII")
    }

    #[test]
    fn prints() {
        assert_eq!(shown(0, 0, 0), "00:00:00");
        assert_eq!(shown(14, 3, 14_706_700_000), "1 year 2 mons 3 days 04:05:06.7");
        assert_eq!(shown(-1, 1, -1), "-1 mons +1 day -00:00:00.000001");
        assert_eq!(shown(0, -1, 3_600_000_000), "-1 days +01:00:00");
        assert_eq!(shown(0, 0, i64::MIN), "-2562047788:00:54.775808");
    }

    #[test]
    fn reads() {
        let cases = [
            ("1 day 02:00:00", (0, 1, 7_200_000_000)),
            ("1 year 2 mons", (14, 0, 0)),
            ("P1DT2H", (0, 1, 7_200_000_000)),
            ("P0001-02-03T04:05:06", (14, 3, 14_706_000_000)),
            ("1.5 months", (1, 15, 0)),
            ("0.5 day", (0, 0, 43_200_000_000)),
            ("1 day ago", (0, -1, 0)),
            ("@ 1 minute", (0, 0, 60_000_000)),
            ("1-2 3 4:05:06", (14, 3, 14_706_000_000)),
            ("-1-2", (-14, 0, 0)),
            ("5", (0, 0, 5_000_000)),
            ("1day2h", (0, 1, 7_200_000_000)),
            ("1:30.5", (0, 0, 90_500_000)),
        ];
        for (text, expected) in cases {
            assert_eq!(decode_interval(text, IntervalStyle::Postgres), Ok(expected), "{text}");
        }
        for text in ["", "x", "1 x", "day", "1 2 day", "P", "P1", "1:2:3:4", "1 day ago 2", "ä"] {
            assert!(decode_interval(text, IntervalStyle::Postgres).is_err(), "{text}");
        }
    }
}
