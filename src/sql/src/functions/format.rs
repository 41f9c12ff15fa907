//! `format()`, `to_char` of numbers and times, and the sizes that people read.

use super::registry::Library;
use super::row::Call;
use super::{int, new_text, text};
use crate::error::SqlError;
use pgrepr::calendar::{DAY_US, civil_from_days};
use repr::sqlstate::SqlState;
use repr::{Datum, PgType};

/// Declares the functions of this file.
pub fn declare(library: &mut Library) {
    library.add("format(text) text !null", format);
    library.add("format(text, variadic any) text !null", format);
    library.add("to_char(timestamp, text) text", |_, a| match &a[0] {
        Datum::Timestamp(us) => to_char(*us, text(a, 1)),
        _ => Ok(Datum::Null),
    });
    library.add("to_char(timestamptz, text) text !session", |call, a| match &a[0] {
        Datum::Timestamp(us) => {
            let local = call.context.options.time_zone.to_local(*us).ok_or_else(|| {
                SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range")
            })?;
            to_char(local, text(a, 1))
        }
        _ => Ok(Datum::Null),
    });
    library.add("pg_size_pretty(int8) text", |_, a| Ok(new_text(size_pretty(int(a, 0)))));
}

/// `%s`, `%I` and `%L` with positions and widths.
fn format(call: &Call<'_>, a: &[Datum<'_>]) -> Result<Datum<'static>, SqlError> {
    if a[0].is_null() {
        return Ok(Datum::Null);
    }
    let invalid = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let mut out = String::new();
    let mut chars = text(a, 0).chars().peekable();
    let mut next_arg = 1;
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        if chars.peek() == Some(&'%') {
            chars.next();
            out.push('%');
            continue;
        }
        let mut spec = String::new();
        while chars.peek().is_some_and(|c| c.is_ascii_digit() || matches!(c, '$' | '-' | '*')) {
            spec.extend(chars.next());
        }
        let kind = chars.next().ok_or_else(|| {
            invalid("unterminated format() type specifier".to_owned())
                .with_hint("For a single \"%\" use \"%%\".")
        })?;
        if spec.contains('*') {
            return Err(SqlError::unsupported("a format() width taken from an argument"));
        }
        let (position, flags) = match spec.split_once('$') {
            Some((position, flags)) => (Some(position.parse::<usize>().unwrap_or(0)), flags.to_owned()),
            None => (None, spec),
        };
        let at = position.unwrap_or(next_arg);
        next_arg = at + 1;
        let (left, width) = match flags.strip_prefix('-') {
            Some(width) => (true, width),
            None => (false, flags.as_str()),
        };
        let width: usize = if width.is_empty() { 0 } else { width.parse().unwrap_or(0) };
        if position == Some(0) {
            return Err(invalid("format specifies argument 0, but arguments are numbered from 1".to_owned()));
        }
        let value = a.get(at).ok_or_else(|| invalid("too few arguments for format()".to_owned()))?;
        let ty = call.args.get(at).cloned().unwrap_or(PgType::Text);
        let plain = if value.is_null() { None } else { Some(super::array::output(call, value, &ty)?) };
        let shown = match (kind, plain) {
            ('s', plain) => plain.unwrap_or_default(),
            ('I', Some(plain)) => crate::names::quote_ident(&plain),
            ('I', None) => {
                return Err(SqlError::new(
                    SqlState::NULL_VALUE_NOT_ALLOWED,
                    "null values cannot be formatted as an SQL identifier",
                ));
            }
            ('L', Some(plain)) => super::string::quote_literal(&plain).trim_start().to_owned(),
            ('L', None) => "NULL".to_owned(),
            (other, _) => {
                return Err(invalid(format!("unrecognized format() type specifier \"{other}\""))
                    .with_hint("For a single \"%\" use \"%%\"."));
            }
        };
        let missing = " ".repeat(width.saturating_sub(shown.chars().count()));
        out.push_str(&if left { format!("{shown}{missing}") } else { format!("{missing}{shown}") });
    }
    Ok(new_text(out))
}

const MONTHS: [&str; 12] = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The patterns we write, longest first; others are refused so that nothing is printed wrongly.
const PATTERNS: [&str; 44] = [
    "YYYY", "MONTH", "Month", "month", "HH24", "HH12", "IYYY", "SSSS", "DAY", "Day", "day", "DDD", "MON", "Mon", "mon",
    "YYY", "A.M.", "a.m.", "P.M.", "p.m.", "IDDD", "MM", "DD", "DY", "Dy", "dy", "HH", "MI", "SS", "MS", "US", "AM", "PM", "am",
    "pm", "YY", "IW", "WW", "CC", "ID", "D", "Q", "W", "Y",
];

fn to_char(us: i64, pattern: &str) -> Result<Datum<'static>, SqlError> {
    if crate::engine::cast::is_infinite(us) {
        return Ok(Datum::Null);
    }
    let mut out = String::new();
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').unwrap_or(quoted.len());
            out.push_str(&quoted[..end]);
            rest = quoted.get(end + 1..).unwrap_or_default();
            continue;
        }
        if !c.is_ascii_alphabetic() {
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let fill = rest.strip_prefix("FM");
        let body = fill.unwrap_or(rest);
        let found = PATTERNS.iter().filter(|p| body.starts_with(*p)).max_by_key(|p| p.len());
        let Some(found) = found else {
            return Err(SqlError::unsupported(format!("to_char with the pattern \"{rest}\"")));
        };
        let mut written = field(us, found);
        if fill.is_some() {
            written = match written.trim().trim_start_matches('0') {
                "" => "0".to_owned(),
                trimmed if written.starts_with('0') => trimmed.to_owned(),
                _ => written.trim().to_owned(),
            };
        }
        out.push_str(&written);
        rest = &body[found.len()..];
        if rest.starts_with("th") || rest.starts_with("TH") {
            return Err(SqlError::unsupported("to_char with an ordinal suffix"));
        }
    }
    Ok(new_text(out))
}

fn field(us: i64, pattern: &str) -> String {
    let days = us.div_euclid(DAY_US);
    let time = us.rem_euclid(DAY_US);
    let (year, month, day) = civil_from_days(days);
    let (hour, minute, second) = (time / 3_600_000_000, time / 60_000_000 % 60, time / 1_000_000 % 60);
    let weekday = (days + 4).rem_euclid(7) as usize;
    let day_of_year = days - pgrepr::calendar::days_from_civil(year, 1, 1) + 1;
    let (iso_year, iso_week) = super::datetime::iso_week(days);
    let month_name = MONTHS[(month - 1).clamp(0, 11) as usize];
    let day_name = DAYS[weekday];
    let twelve = if hour % 12 == 0 { 12 } else { hour % 12 };
    let shown_year = if year <= 0 { 1 - year } else { year };
    match pattern {
        "YYYY" => format!("{shown_year:04}"),
        "YYY" => format!("{:03}", shown_year % 1000),
        "YY" => format!("{:02}", shown_year % 100),
        "Y" => format!("{}", shown_year % 10),
        "IYYY" => format!("{iso_year:04}"),
        "CC" => format!("{:02}", (year - 1).div_euclid(100) + 1),
        "MONTH" => format!("{:9}", month_name.to_uppercase()),
        "Month" => format!("{month_name:9}"),
        "month" => format!("{:9}", month_name.to_lowercase()),
        "MON" => month_name[..3].to_uppercase(),
        "Mon" => month_name[..3].to_owned(),
        "mon" => month_name[..3].to_lowercase(),
        "MM" => format!("{month:02}"),
        "DAY" => format!("{:9}", day_name.to_uppercase()),
        "Day" => format!("{day_name:9}"),
        "day" => format!("{:9}", day_name.to_lowercase()),
        "DY" => day_name[..3].to_uppercase(),
        "Dy" => day_name[..3].to_owned(),
        "dy" => day_name[..3].to_lowercase(),
        "DDD" => format!("{day_of_year:03}"),
        "IDDD" => format!("{:03}", (iso_week - 1) * 7 + if weekday == 0 { 7 } else { weekday as i64 }),
        "DD" => format!("{day:02}"),
        "D" => format!("{}", weekday + 1),
        "ID" => format!("{}", if weekday == 0 { 7 } else { weekday }),
        "W" => format!("{}", (day - 1) / 7 + 1),
        "WW" => format!("{:02}", (day_of_year - 1) / 7 + 1),
        "IW" => format!("{iso_week:02}"),
        "Q" => format!("{}", (month - 1) / 3 + 1),
        "HH24" => format!("{hour:02}"),
        "HH12" | "HH" => format!("{twelve:02}"),
        "MI" => format!("{minute:02}"),
        "SS" => format!("{second:02}"),
        "SSSS" => format!("{}", time / 1_000_000),
        "MS" => format!("{:03}", time / 1_000 % 1_000),
        "US" => format!("{:06}", time % 1_000_000),
        "AM" | "PM" => if hour < 12 { "AM" } else { "PM" }.to_owned(),
        "am" | "pm" => if hour < 12 { "am" } else { "pm" }.to_owned(),
        "A.M." | "P.M." => if hour < 12 { "A.M." } else { "P.M." }.to_owned(),
        _ => if hour < 12 { "a.m." } else { "p.m." }.to_owned(),
    }
}

/// Bytes in the unit that leaves fewer than 10240 of it.
fn size_pretty(bytes: i64) -> String {
    let limit = 10 * 1024;
    if bytes.abs() < limit {
        return format!("{bytes} bytes");
    }
    // One bit more than the unit is kept, for rounding.
    let mut half_units = bytes >> 9;
    for unit in ["kB", "MB", "GB", "TB"] {
        if half_units.abs() < 2 * limit - 1 || unit == "TB" {
            let rounded = if half_units >= 0 { (half_units + 1) / 2 } else { (half_units - 1) / 2 };
            return format!("{rounded} {unit}");
        }
        half_units >>= 10;
    }
    format!("{bytes} bytes")
}
