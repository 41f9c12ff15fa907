//! `format()`, templates of numbers and times (`to_char`, `to_number`, `to_date`, `to_timestamp`), and sizes for people.
//!
//! A template's pattern that we do not write is refused by name, so that nothing is printed wrongly.

mod interval;
mod number;

use super::call::Call;
use super::interval::parts;
use super::library::Library;
use super::{decimal, int, new_text, text};
use crate::cast::parse_numeric;
use arrow::datatypes::i256;
use engine::error::SqlError;
use pgrepr::calendar::{DAY_US, civil_from_days, days_from_civil, days_in_month};
use pgrepr::numeric::{power_of_ten, rescale};
use repr::sqlstate::SqlState;
use repr::{Datum, PgType};

/// Declares the functions of this file.
pub(crate) fn declare(library: &mut Library) {
    library.add("format(text) text !null !long", format);
    library.add("format(text, variadic any) text !null !long", format);
    library.add("to_char(timestamp, text) text", |_, a| match &a[0] {
        Datum::Timestamp(us) => to_char(*us, text(a, 1)),
        _ => Ok(Datum::Null),
    });
    library.add("to_char(timestamptz, text) text !session", |call, a| match &a[0] {
        Datum::Timestamp(us) => {
            let local = call
                .context
                .options
                .locale
                .time_zone
                .to_local(*us)
                .ok_or_else(|| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range"))?;
            to_char(local, text(a, 1))
        }
        _ => Ok(Datum::Null),
    });
    library.add("to_char(interval, text) text", |_, a| interval::to_char(parts(&a[0]), text(a, 1)));
    number::declare(library);
    library.add("to_date(text, text) date", |_, a| {
        let us = read_time(text(a, 0), text(a, 1))?;
        Ok(Datum::Date(us.div_euclid(DAY_US) as i32))
    });
    library.add("to_timestamp(text, text) timestamptz !session", |call, a| {
        let local = read_time(text(a, 0), text(a, 1))?;
        call.context
            .options
            .locale
            .time_zone
            .to_utc(local)
            .map(Datum::Timestamp)
            .ok_or_else(|| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range"))
    });
    library.add("pg_size_bytes(text) int8", |_, a| size_bytes(text(a, 0)).map(Datum::Int8));
    library.add("pg_size_pretty(int8) text", |_, a| Ok(new_text(size_pretty(int(a, 0)))));
    library.add("pg_size_pretty(numeric) text", |call, a| {
        let (value, scale) = decimal(a, 0);
        let unit = power_of_ten(u32::from(scale.unsigned_abs()));
        let whole = unit.and_then(|unit| value.checked_div(unit)).and_then(i256::to_i128);
        let whole = whole.and_then(|whole| i64::try_from(whole).ok());
        match whole {
            Some(whole) if whole.unsigned_abs() >= 10 * 1024 => Ok(new_text(size_pretty(whole))),
            Some(_) => Ok(new_text(format!("{} bytes", super::array::output(call, &a[0], &call.args[0])?))),
            None => Err(SqlError::unsupported("pg_size_pretty of a number that is no bigint")),
        }
    });
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
            invalid("unterminated format() type specifier".to_owned()).with_hint("For a single \"%\" use \"%%\".")
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
        let width = if width.is_empty() { 0 } else { width_of(width)? };
        if position == Some(0) {
            return Err(invalid("format specifies argument 0, but arguments are numbered from 1".to_owned()));
        }
        let value = a.get(at).ok_or_else(|| invalid("too few arguments for format()".to_owned()))?;
        let ty = call.args.get(at).cloned().unwrap_or(PgType::Text);
        let plain = if value.is_null() { None } else { Some(super::array::output(call, value, &ty)?) };
        let shown = match (kind, plain) {
            ('s', plain) => plain.unwrap_or_default(),
            ('I', Some(plain)) => sql_syntax::names::quote_ident(&plain),
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
        call.check_length(i64::try_from(out.len() + width).unwrap_or(i64::MAX))?;
        let missing = " ".repeat(width.saturating_sub(shown.chars().count()));
        out.push_str(&if left { format!("{shown}{missing}") } else { format!("{missing}{shown}") });
    }
    Ok(new_text(out))
}

/// The width of a specifier. Digits and stray signs are all that reach here.
fn width_of(digits: &str) -> Result<usize, SqlError> {
    let out_of_range = || SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "number is out of range");
    match digits.parse::<i32>() {
        Ok(width) => usize::try_from(width).map_err(|_| out_of_range()),
        Err(_) => Err(out_of_range()),
    }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Every pattern that Postgres knows, in capitals; what is none of them is copied. Of two that fit, the longer one counts.
const PATTERNS: [&str; 51] = [
    "A.D.", "A.M.", "AD", "AM", "B.C.", "BC", "CC", "DAY", "DDD", "DD", "DY", "D", "FF1", "FF2", "FF3", "FF4", "FF5",
    "FF6", "FX", "HH24", "HH12", "HH", "IDDD", "ID", "IW", "IYYY", "IYY", "IY", "I", "J", "MI", "MM", "MONTH", "MON",
    "MS", "OF", "P.M.", "PM", "Q", "RM", "SSSSS", "SSSS", "SS", "TZH", "TZM", "TZ", "US", "WW", "W", "Y,YYY", "YYYY",
];
const SHORT_YEARS: [&str; 3] = ["YYY", "YY", "Y"];
/// Patterns that a template may hold but that we do not write.
const REFUSED: [&str; 5] = ["FX", "OF", "TZH", "TZM", "TZ"];
const ROMAN_MONTHS: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// A piece of a date template.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// The pattern in capitals, as it was spelt, whether blanks and zeros are left out, and the ordinal suffix.
    Field(&'static str, String, bool, Option<String>),
    Literal(String),
}

fn pieces(template: &str) -> Result<Vec<Piece>, SqlError> {
    let mut out = Vec::new();
    let mut literal = String::new();
    let mut rest = template;
    while let Some(c) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').unwrap_or(quoted.len());
            literal.push_str(&quoted[..end]);
            rest = quoted.get(end + 1..).unwrap_or_default();
            continue;
        }
        let starts = |text: &str, pattern: &str| {
            text.get(..pattern.len()).is_some_and(|head| head.eq_ignore_ascii_case(pattern))
        };
        let (fill, mut body) = match starts(rest, "FM") {
            true => (true, &rest[2..]),
            false => (false, rest),
        };
        if starts(body, "TM") {
            return Err(SqlError::unsupported("the template modifier \"TM\""));
        }
        let fits = PATTERNS.iter().chain(&SHORT_YEARS).filter(|pattern| starts(body, pattern));
        let Some(pattern) = fits.max_by_key(|pattern| pattern.len()) else {
            if !fill {
                literal.push(c);
                body = &rest[c.len_utf8()..];
            }
            rest = body;
            continue;
        };
        if REFUSED.contains(pattern) {
            return Err(SqlError::unsupported(format!("the template pattern \"{pattern}\"")));
        }
        if !literal.is_empty() {
            out.push(Piece::Literal(std::mem::take(&mut literal)));
        }
        let spelt = body[..pattern.len()].to_owned();
        rest = &body[pattern.len()..];
        // `Th` is no suffix: `DDThh24` is a day, a letter and an hour.
        let suffix = (rest.starts_with("TH") || rest.starts_with("th")).then(|| rest[..2].to_owned());
        if suffix.is_some() {
            rest = &rest[2..];
        }
        // Numbers in words, which Postgres has not either.
        rest = rest.strip_prefix("SP").unwrap_or(rest);
        out.push(Piece::Field(pattern, spelt, fill, suffix));
    }
    if !literal.is_empty() {
        out.push(Piece::Literal(literal));
    }
    Ok(out)
}

fn to_char(us: i64, template: &str) -> Result<Datum<'static>, SqlError> {
    if crate::cast::is_infinite(us) || template.is_empty() {
        return Ok(Datum::Null);
    }
    let mut out = String::new();
    for piece in pieces(template)? {
        match piece {
            Piece::Literal(text) => out.push_str(&text),
            Piece::Field(pattern, spelt, fill, suffix) => {
                let mut written = field(us, pattern);
                if fill {
                    written = match written.trim_end().trim_start_matches('0') {
                        "" => "0".to_owned(),
                        _ if pattern == "MS" || pattern == "US" || pattern.starts_with("FF") => written,
                        trimmed => trimmed.to_owned(),
                    };
                }
                let is_word = written.starts_with(|c: char| c.is_ascii_alphabetic());
                if is_word {
                    written = cased(&written, &spelt);
                } else if let Some(suffix) = suffix {
                    let ordinal = ordinal(&written);
                    written.push_str(&if suffix == "TH" { ordinal.to_uppercase() } else { ordinal.to_owned() });
                }
                out.push_str(&written);
            }
        }
    }
    Ok(new_text(out))
}

/// A word in the case its pattern is written in.
fn cased(word: &str, spelt: &str) -> String {
    let mut letters = spelt.chars().filter(char::is_ascii_alphabetic);
    match (letters.next(), letters.next()) {
        (Some(first), _) if first.is_ascii_lowercase() => word.to_lowercase(),
        (Some(_), Some(second)) if second.is_ascii_lowercase() => {
            let (head, tail) = word.split_at(1);
            format!("{}{}", head.to_uppercase(), tail.to_lowercase())
        }
        _ => word.to_uppercase(),
    }
}

fn ordinal(number: &str) -> &'static str {
    let teen = number.len() > 1 && number.as_bytes().get(number.len() - 2) == Some(&b'1');
    match number.as_bytes().last() {
        Some(b'1') if !teen => "st",
        Some(b'2') if !teen => "nd",
        Some(b'3') if !teen => "rd",
        _ => "th",
    }
}

fn field(us: i64, pattern: &str) -> String {
    let days = us.div_euclid(DAY_US);
    let time = us.rem_euclid(DAY_US);
    let (year, month, day) = civil_from_days(days);
    let (hour, minute, second) = (time / 3_600_000_000, time / 60_000_000 % 60, time / 1_000_000 % 60);
    let weekday = (days + 4).rem_euclid(7) as usize;
    let iso_weekday = if weekday == 0 { 7 } else { weekday as i64 };
    let day_of_year = days - days_from_civil(year, 1, 1) + 1;
    let (iso_year, iso_week) = super::datetime::iso_week(days);
    let month_index = (month - 1).clamp(0, 11) as usize;
    let shown = |year: i64| if year <= 0 { 1 - year } else { year };
    match pattern {
        "YYYY" => format!("{:04}", shown(year)),
        "YYY" => format!("{:03}", shown(year) % 1000),
        "YY" => format!("{:02}", shown(year) % 100),
        "Y" => format!("{}", shown(year) % 10),
        "Y,YYY" => format!("{},{:03}", shown(year) / 1000, shown(year) % 1000),
        "IYYY" => format!("{:04}", shown(iso_year)),
        "IYY" => format!("{:03}", shown(iso_year) % 1000),
        "IY" => format!("{:02}", shown(iso_year) % 100),
        "I" => format!("{}", shown(iso_year) % 10),
        "CC" if year > 0 => format!("{:02}", (year - 1) / 100 + 1),
        "CC" => format!("-{:02}", (shown(year) - 1) / 100 + 1),
        "AD" | "BC" => if year <= 0 { "BC" } else { "AD" }.to_owned(),
        "A.D." | "B.C." => if year <= 0 { "B.C." } else { "A.D." }.to_owned(),
        "MONTH" => format!("{:9}", MONTHS[month_index]),
        "MON" => MONTHS[month_index][..3].to_owned(),
        "MM" => format!("{month:02}"),
        "RM" => format!("{:4}", ROMAN_MONTHS[month_index]),
        "DAY" => format!("{:9}", DAYS[weekday]),
        "DY" => DAYS[weekday][..3].to_owned(),
        "DDD" => format!("{day_of_year:03}"),
        "IDDD" => format!("{:03}", (iso_week - 1) * 7 + iso_weekday),
        "DD" => format!("{day:02}"),
        "D" => format!("{}", weekday + 1),
        "ID" => iso_weekday.to_string(),
        "J" => (days + JULIAN_EPOCH).to_string(),
        "W" => format!("{}", (day - 1) / 7 + 1),
        "WW" => format!("{:02}", (day_of_year - 1) / 7 + 1),
        "IW" => format!("{iso_week:02}"),
        "Q" => format!("{}", (month - 1) / 3 + 1),
        "HH24" => format!("{hour:02}"),
        "HH12" | "HH" => format!("{:02}", if hour % 12 == 0 { 12 } else { hour % 12 }),
        "MI" => format!("{minute:02}"),
        "SS" => format!("{second:02}"),
        "SSSS" | "SSSSS" => format!("{}", time / 1_000_000),
        "MS" => format!("{:03}", time / 1_000 % 1_000),
        "US" => format!("{:06}", time % 1_000_000),
        "AM" | "PM" => if hour < 12 { "AM" } else { "PM" }.to_owned(),
        "A.M." | "P.M." => if hour < 12 { "A.M." } else { "P.M." }.to_owned(),
        fraction => {
            let digits = fraction.as_bytes().last().map_or(6, |digit| usize::from(digit - b'0'));
            format!("{:06}", time % 1_000_000)[..digits.min(6)].to_owned()
        }
    }
}

/// The Julian day of 1970-01-01.
const JULIAN_EPOCH: i64 = 2_440_588;

/// Reads a date and time by a template: local microseconds since the epoch.
#[expect(clippy::too_many_lines, reason = "a line or two for each pattern")]
fn read_time(value: &str, template: &str) -> Result<i64, SqlError> {
    let pieces = pieces(template)?;
    let (mut year, mut month, mut day, mut hour, mut minute, mut second, mut us) = (0_i64, 1_i64, 1_i64, 0, 0, 0, 0);
    let (mut afternoon, mut before_christ, mut day_of_year, mut twelve) = (None, false, None, false);
    let mut rest = value.trim_start();
    for (i, piece) in pieces.iter().enumerate() {
        let Piece::Field(pattern, spelt, ..) = piece else {
            // Anything between fields that is not a letter or digit passes for the template's separator.
            rest = rest.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '"');
            if let Piece::Literal(text) = piece {
                let word = text.trim_matches(|c: char| !c.is_alphanumeric());
                let skipped = rest.char_indices().nth(word.chars().count()).map_or(rest.len(), |(at, _)| at);
                rest = rest[skipped..].trim_start_matches(|c: char| !c.is_alphanumeric());
            }
            continue;
        };
        rest = rest.trim_start();
        if rest.is_empty() {
            break;
        }
        let before_field = matches!(pieces.get(i + 1), Some(Piece::Field(..)));
        let number = |rest: &mut &str, width: usize| read_number(rest, if before_field { width } else { 9 }, spelt);
        match *pattern {
            "YYYY" => year = number(&mut rest, 4)?,
            "YYY" | "YY" | "Y" => {
                year = match number(&mut rest, pattern.len())? {
                    n @ 0..70 => n + 2000,
                    n @ 70..100 => n + 1900,
                    n @ 100..520 => n + 2000,
                    n @ 520..1000 => n + 1000,
                    n => n,
                }
            }
            "MM" => month = number(&mut rest, 2)?,
            "DD" => day = number(&mut rest, 2)?,
            "DDD" => day_of_year = Some(number(&mut rest, 3)?),
            "HH24" => hour = number(&mut rest, 2)?,
            "HH12" | "HH" => {
                hour = number(&mut rest, 2)?;
                twelve = true;
            }
            "MI" => minute = number(&mut rest, 2)?,
            "SS" => second = number(&mut rest, 2)?,
            "MS" => us += read_fraction(&mut rest, 3, spelt)?,
            "US" | "FF6" => us += read_fraction(&mut rest, 6, spelt)?,
            "MONTH" => month = read_name(&mut rest, &MONTHS, false, spelt)? as i64 + 1,
            "MON" => month = read_name(&mut rest, &MONTHS, true, spelt)? as i64 + 1,
            "DAY" => read_name(&mut rest, &DAYS, false, spelt).map(drop)?,
            "DY" => read_name(&mut rest, &DAYS, true, spelt).map(drop)?,
            "AM" | "PM" => afternoon = Some(read_name(&mut rest, &["AM", "PM"], false, spelt)? == 1),
            "A.M." | "P.M." => afternoon = Some(read_name(&mut rest, &["A.M.", "P.M."], false, spelt)? == 1),
            "AD" | "BC" => before_christ = read_name(&mut rest, &["AD", "BC"], false, spelt)? == 1,
            other => return Err(SqlError::unsupported(format!("reading the template pattern \"{other}\""))),
        }
    }
    let out_of_range =
        || SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("date/time field value out of range: \"{value}\""));
    if twelve && !(1..=12).contains(&hour) {
        return Err(SqlError::new(
            SqlState::INVALID_DATETIME_FORMAT,
            format!("hour \"{hour}\" is invalid for the 12-hour clock"),
        )
        .with_hint("Use the 24-hour clock, or give an hour between 1 and 12."));
    }
    match afternoon {
        Some(true) if hour < 12 => hour += 12,
        Some(false) if hour == 12 => hour = 0,
        _ => {}
    }
    if before_christ && year > 0 {
        year = 1 - year;
    }
    let is_time = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
    let is_date = (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
    if !is_time || !is_date || year.abs() > 290_000 {
        return Err(out_of_range());
    }
    let days = match day_of_year {
        Some(n) if (1..=366).contains(&n) => days_from_civil(year, 1, 1) + n - 1,
        Some(_) => return Err(out_of_range()),
        None => days_from_civil(year, month, day),
    };
    Ok(days * DAY_US + ((hour * 60 + minute) * 60 + second) * 1_000_000 + us)
}

fn read_number(rest: &mut &str, width: usize, pattern: &str) -> Result<i64, SqlError> {
    let end = rest.bytes().take(width).take_while(u8::is_ascii_digit).count();
    let (digits, tail) = rest.split_at(end);
    let number = digits.parse().map_err(|_| {
        let found: String = rest.chars().take(width.min(pattern.len())).collect();
        SqlError::new(SqlState::INVALID_DATETIME_FORMAT, format!("invalid value \"{found}\" for \"{pattern}\""))
            .with_detail("Value must be an integer.")
    })?;
    *rest = tail;
    Ok(number)
}

/// Digits after a second's point, as microseconds.
fn read_fraction(rest: &mut &str, digits: usize, pattern: &str) -> Result<i64, SqlError> {
    let before = rest.len();
    let number = read_number(rest, digits, pattern)?;
    let read = (before - rest.len()).min(6) as u32;
    Ok(number * 10_i64.pow(6 - read))
}

fn read_name(rest: &mut &str, names: &[&str], short: bool, pattern: &str) -> Result<usize, SqlError> {
    for (i, name) in names.iter().enumerate() {
        let name = if short { &name[..3] } else { name };
        if rest.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name)) {
            *rest = &rest[name.len()..];
            return Ok(i);
        }
    }
    let found = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    Err(SqlError::new(SqlState::INVALID_DATETIME_FORMAT, format!("invalid value \"{found}\" for \"{pattern}\""))
        .with_detail("The given value did not match any of the allowed values for this field."))
}

/// The bytes of a size such as `1.5 GB`.
fn size_bytes(size: &str) -> Result<i64, SqlError> {
    let invalid = || SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid size: \"{size}\""));
    let trimmed = size.trim();
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | '+' | '-');
    let mut end = trimmed.find(|c: char| !is_number(c)).unwrap_or(trimmed.len());
    // An exponent, unless it begins a unit.
    if let Some(exponent) = trimmed[end..].strip_prefix(['e', 'E']) {
        let digits = exponent.trim_start_matches(['+', '-']);
        let count = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        if count > 0 {
            end = trimmed.len() - digits.len() + count;
        }
    }
    let (number, scale) = parse_numeric(&trimmed[..end]).map_err(|_| invalid())?;
    let unit = trimmed[end..].trim();
    let power = match unit.to_ascii_lowercase().as_str() {
        "" | "bytes" => 0,
        "kb" => 10,
        "mb" => 20,
        "gb" => 30,
        "tb" => 40,
        "pb" => 50,
        _ => {
            return Err(invalid()
                .with_detail(format!("Invalid size unit: \"{unit}\"."))
                .with_hint("Valid units are \"bytes\", \"kB\", \"MB\", \"GB\", \"TB\", and \"PB\"."));
        }
    };
    let bytes = number.checked_mul(i256::from_i128(1 << power)).and_then(|bytes| rescale(bytes, scale, 0));
    bytes
        .and_then(|bytes| i64::try_from(bytes.to_i128()?).ok())
        .ok_or_else(|| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "bigint out of range"))
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

#[cfg(test)]
mod tests {
    use super::{pieces, read_time, to_char};
    use repr::Datum;

    #[test]
    fn times_as_postgresql_15_writes_them() {
        let us = read_time("2020-01-02 03:04:05.006", "YYYY-MM-DD HH24:MI:SS.MS").expect("a time");
        let template =
            "yyyy-mm-ddThh24:mi:ss.ms FMDDth FMMonth FMHH12:FMMI AM Y,YYY J RM rm BC Dy DAY ID IYYY-IW SSSSS ff3 foo|";
        let expected = "2020-01-02T03:04:05.006 2nd January 3:4 AM 2,020 2458851 I    i    AD Thu THURSDAY  4 2020-01 11045 006 foo|";
        assert_eq!(to_char(us, template), Ok(Datum::Text(expected.into())));
        assert!(pieces("TZ").is_err());
        assert_eq!(read_time("20200102", "YYYYMMDD"), read_time("2 Jan 2020", "DD Mon YYYY"));
        assert!(read_time("2020-02-30", "YYYY-MM-DD").is_err());
    }
}
