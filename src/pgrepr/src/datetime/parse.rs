//! Reading dates and times in the spellings PostgreSQL accepts.
//!
//! 1. [`token`] cuts the text into numbers, dates (`2020-01-02`, `8-Jan-99`), clock times
//!    (`03:04:05.6`), offsets (`+02`) and words.
//! 2. The tokens are gathered into [`Fields`]: a date, a time, a zone, or one of the special words.
//! 3. Each type takes the fields it has and refuses the text if one that it needs is missing.
//!
//! Not read: Julian years, ordinal dates (`1999.008`) and POSIX zone specifications.

use crate::calendar::{
    DATE_INFINITY, DATE_MAX, DATE_MIN, DATE_NEGATIVE_INFINITY, DAY_US, SECOND_US, TIMESTAMP_INFINITY, TIMESTAMP_MIN,
    TIMESTAMP_NEGATIVE_INFINITY, UNIX_EPOCH_JULIAN, days_from_civil, days_in_month,
};
use crate::datetime::parse::token::{Token, tokens};
use crate::error::PgReprError;
use crate::options::{DateOrder, EncodeOptions};
use crate::timezone::abbreviations::Abbreviation;
use crate::timezone::{OFFSET_SECONDS_MAX, TimeZone};
use repr::sqlstate::SqlState;

pub(crate) mod token;

/// What the text says.
#[derive(Debug, Default)]
struct Fields {
    special: Option<Special>,
    /// Days since the Unix epoch.
    days: Option<i64>,
    /// Microseconds since midnight.
    time_us: Option<i64>,
    zone: Option<TimeZone>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Special {
    Infinity,
    NegativeInfinity,
    Epoch,
    Now,
    /// Days from today.
    Today(i64),
}

/// What the type needs.
#[derive(Clone, Copy, PartialEq)]
enum Expects {
    Date,
    Time,
}

/// Why a text is refused; the caller knows its type's name.
#[derive(Debug)]
enum Refusal {
    Syntax,
    /// A field is out of range.
    Field,
    /// Month or day: perhaps the order is not what the writer meant.
    MonthOrDay,
    Zone(String),
    Displacement,
}

fn refuse(refusal: Refusal, type_name: &str, text: &str) -> PgReprError {
    let overflow = || {
        PgReprError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("date/time field value out of range: \"{text}\""))
    };
    match refusal {
        Refusal::Syntax => syntax(type_name, text),
        Refusal::Field => overflow(),
        Refusal::MonthOrDay => overflow().with_hint("Perhaps you need a different \"datestyle\" setting."),
        Refusal::Zone(name) => PgReprError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("time zone \"{}\" not recognized", name.to_ascii_lowercase()),
        ),
        Refusal::Displacement => PgReprError::new(
            SqlState::INVALID_TIME_ZONE_DISPLACEMENT_VALUE,
            format!("time zone displacement out of range: \"{text}\""),
        ),
    }
}

fn syntax(type_name: &str, text: &str) -> PgReprError {
    PgReprError::new(
        SqlState::INVALID_DATETIME_FORMAT,
        format!("invalid input syntax for type {type_name}: \"{text}\""),
    )
}

fn out_of_range(type_name: &str, text: &str) -> PgReprError {
    PgReprError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{type_name} out of range: \"{text}\""))
}

/// Reads a date: days since the Unix epoch.
pub fn decode_date(text: &str, options: &EncodeOptions) -> Result<i32, PgReprError> {
    const NAME: &str = "date";
    let fields =
        gather(text, options.locale.date.order, Expects::Date).map_err(|refusal| refuse(refusal, NAME, text))?;
    let days = match fields.special {
        None => fields.days.ok_or_else(|| syntax(NAME, text))?,
        Some(Special::Infinity) => return Ok(DATE_INFINITY),
        Some(Special::NegativeInfinity) => return Ok(DATE_NEGATIVE_INFINITY),
        Some(Special::Epoch) => 0,
        Some(Special::Now) => today(options)?,
        Some(Special::Today(offset)) => today(options)? + offset,
    };
    i32::try_from(days).ok().filter(|days| (DATE_MIN..=DATE_MAX).contains(days)).ok_or_else(|| out_of_range(NAME, text))
}

/// Reads a time of day: microseconds since midnight. A date before it and a zone behind it are ignored.
pub fn decode_time(text: &str, options: &EncodeOptions) -> Result<i64, PgReprError> {
    const NAME: &str = "time";
    let fields =
        gather(text, options.locale.date.order, Expects::Time).map_err(|refusal| refuse(refusal, NAME, text))?;
    match fields.special {
        None => fields.time_us.ok_or_else(|| syntax(NAME, text)),
        Some(Special::Now) => Ok(local_now(options)?.rem_euclid(DAY_US)),
        Some(_) => Err(syntax(NAME, text)),
    }
}

/// Reads a timestamp without time zone: microseconds since the epoch. A zone in the text is ignored.
pub fn decode_timestamp(text: &str, options: &EncodeOptions) -> Result<i64, PgReprError> {
    timestamp("timestamp", text, options, |local, _| Some(local))
}

/// Reads a timestamp with time zone: microseconds since the epoch, in UTC.
pub fn decode_timestamptz(text: &str, options: &EncodeOptions) -> Result<i64, PgReprError> {
    timestamp("timestamp with time zone", text, options, |local, zone| {
        zone.unwrap_or(options.locale.time_zone).to_utc(local)
    })
}

fn timestamp(
    name: &str,
    text: &str,
    options: &EncodeOptions,
    place: impl Fn(i64, Option<TimeZone>) -> Option<i64>,
) -> Result<i64, PgReprError> {
    let fields =
        gather(text, options.locale.date.order, Expects::Date).map_err(|refusal| refuse(refusal, name, text))?;
    let local = match fields.special {
        Some(Special::Infinity) => return Ok(TIMESTAMP_INFINITY),
        Some(Special::NegativeInfinity) => return Ok(TIMESTAMP_NEGATIVE_INFINITY),
        Some(Special::Epoch) => return Ok(0),
        Some(Special::Now) => Some(local_now(options)?),
        Some(Special::Today(offset)) => {
            (today(options)? + offset).checked_mul(DAY_US).and_then(|us| us.checked_add(fields.time_us.unwrap_or(0)))
        }
        None => {
            let days = fields.days.ok_or_else(|| syntax(name, text))?;
            days.checked_mul(DAY_US).and_then(|us| us.checked_add(fields.time_us.unwrap_or(0)))
        }
    };
    local
        .and_then(|local| place(local, fields.zone))
        .filter(|us| (TIMESTAMP_MIN..TIMESTAMP_INFINITY).contains(us))
        .ok_or_else(|| out_of_range("timestamp", text))
}

fn local_now(options: &EncodeOptions) -> Result<i64, PgReprError> {
    let now =
        options.now_us.ok_or_else(|| PgReprError::unsupported("date/time value \"now\" is not supported here"))?;
    Ok(options.locale.time_zone.to_local(now).unwrap_or(now))
}

fn today(options: &EncodeOptions) -> Result<i64, PgReprError> {
    Ok(local_now(options)?.div_euclid(DAY_US))
}

/// The parts of a date as they are written.
#[derive(Default)]
struct DateParts<'a> {
    numbers: Vec<&'a str>,
    month: Option<i64>,
}

/// `expects` says what a run of six or four digits is when no date came before it.
fn gather(text: &str, order: DateOrder, expects: Expects) -> Result<Fields, Refusal> {
    let mut fields = Fields::default();
    let mut loose = DateParts::default();
    let mut civil: Option<(i64, i64, i64)> = None;
    let mut before_christ: Option<bool> = None;
    let mut afternoon: Option<bool> = None;
    let mut after_t = false;
    let mut julian = false;
    let all = tokens(text).ok_or(Refusal::Syntax)?;
    for token in &all {
        match token {
            Token::Date(parts) => {
                if civil.is_some() {
                    return Err(Refusal::Syntax);
                }
                civil = Some(date_of(parts, order)?);
            }
            Token::Time(clock) => set(&mut fields.time_us, clock_time(clock)?)?,
            Token::Number(digits) if julian => {
                julian = false;
                let day: i64 = digits.parse().map_err(|_| Refusal::Syntax)?;
                set(&mut fields.days, day - UNIX_EPOCH_JULIAN)?;
            }
            Token::Number(digits) => {
                let dated = civil.is_some() || fields.days.is_some() || expects == Expects::Time;
                let role = match (after_t, dated) {
                    (true, _) => Role::Hours,
                    (false, true) => Role::Clock,
                    (false, false) => Role::Date,
                };
                number(digits, role, &mut civil, &mut fields, &mut loose)?;
            }
            Token::Offset(offset) => set(&mut fields.zone, TimeZone::Fixed(displacement(offset)?))?,
            Token::Word("t") => after_t = true,
            Token::Word("j" | "jd" | "julian") => julian = true,
            Token::Word(word @ ("ad" | "bc")) => set(&mut before_christ, *word == "bc")?,
            Token::Word(word @ ("am" | "pm")) => set(&mut afternoon, *word == "pm")?,
            Token::Word("at" | "on" | "dst") => {}
            Token::Word("allballs") => {
                set(&mut fields.time_us, 0)?;
                fields.zone = Some(TimeZone::UTC);
            }
            Token::Word(word) => word_field(word, &mut fields, &mut loose)?,
        }
    }
    if julian {
        return Err(Refusal::Syntax);
    }
    if civil.is_none() && (loose.month.is_some() || !loose.numbers.is_empty()) {
        civil = Some(date_of_words(&loose)?);
    } else if loose.month.is_some() || !loose.numbers.is_empty() {
        return Err(Refusal::Syntax);
    }
    if let Some(afternoon) = afternoon {
        fields.time_us = Some(half_day(fields.time_us.ok_or(Refusal::Syntax)?, afternoon)?);
    }
    if let Some((year, month, day)) = civil {
        let days = checked_days(year, month, day, before_christ == Some(true))?;
        set(&mut fields.days, days)?;
    } else if before_christ.is_some() {
        return Err(Refusal::Syntax);
    }
    if fields.special.is_some() && fields.days.is_some() {
        return Err(Refusal::Syntax);
    }
    let alone = matches!(fields.special, Some(special) if !matches!(special, Special::Today(_)));
    if alone && fields.time_us.is_some() || all.is_empty() { Err(Refusal::Syntax) } else { Ok(fields) }
}

fn set<T>(field: &mut Option<T>, value: T) -> Result<(), Refusal> {
    if field.is_some() {
        return Err(Refusal::Syntax);
    }
    *field = Some(value);
    Ok(())
}

/// What a run of digits may be where it stands.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// A date, or a part of one.
    Date,
    /// `HHMM` or `HHMMSS`.
    Clock,
    /// Behind a `T`, hours may stand alone.
    Hours,
}

/// A run of digits on its own: a whole date, a whole time, or a part of a date with a month in words.
fn number<'a>(
    digits: &'a str,
    role: Role,
    civil: &mut Option<(i64, i64, i64)>,
    fields: &mut Fields,
    loose: &mut DateParts<'a>,
) -> Result<(), Refusal> {
    let (whole, _) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = &digits[whole.len()..];
    let int = |range: std::ops::Range<usize>| whole[range].parse::<i64>().map_err(|_| Refusal::Syntax);
    let clock = role != Role::Date && matches!(whole.len(), 4 | 6) || role == Role::Hours && whole.len() == 2;
    if clock && fields.time_us.is_none() {
        let minute = if whole.len() >= 4 { int(2..4)? } else { 0 };
        let second = if whole.len() == 6 { int(4..6)? } else { 0 };
        return set(&mut fields.time_us, time_of(int(0..2)?, minute, second, fraction)?);
    }
    if !fraction.is_empty() {
        return Err(Refusal::Syntax);
    }
    match whole.len() {
        8 if loose.month.is_none() && role == Role::Date => set(civil, (int(0..4)?, int(4..6)?, int(6..8)?)),
        6 if loose.month.is_none() && role == Role::Date => set(civil, (century(int(0..2)?), int(2..4)?, int(4..6)?)),
        _ if loose.numbers.len() < 2 => {
            loose.numbers.push(whole);
            Ok(())
        }
        _ => Err(Refusal::Syntax),
    }
}

fn word_field(word: &str, fields: &mut Fields, loose: &mut DateParts<'_>) -> Result<(), Refusal> {
    if let Some(month) = month_named(word) {
        return set(&mut loose.month, month);
    }
    if weekday(word) {
        return Ok(());
    }
    let special = match word {
        "infinity" | "+infinity" => Special::Infinity,
        "-infinity" => Special::NegativeInfinity,
        "epoch" => Special::Epoch,
        "now" => Special::Now,
        "today" => Special::Today(0),
        "tomorrow" => Special::Today(1),
        "yesterday" => Special::Today(-1),
        name => {
            let zone = Abbreviation::named(name).map(|known| known.zone).or_else(|| TimeZone::from_name(name));
            return match zone {
                Some(zone) => set(&mut fields.zone, zone),
                None if name.contains('/') => Err(Refusal::Zone(name.to_owned())),
                None => Err(Refusal::Syntax),
            };
        }
    };
    set(&mut fields.special, special)
}

/// A month by its name or the first three letters of it.
pub(crate) fn month_named(word: &str) -> Option<i64> {
    let names = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let index =
        names.iter().position(|name| word == *name || word == &name[..3] || word == "sept" && *name == "september")?;
    i64::try_from(index + 1).ok()
}

fn weekday(word: &str) -> bool {
    let names = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
    names.iter().any(|name| word == *name || word == &name[..3])
        || matches!(word, "tues" | "wednes" | "weds" | "thur" | "thurs")
}

fn date_of(parts: &[&str], order: DateOrder) -> Result<(i64, i64, i64), Refusal> {
    let [a, b, c] = parts else { return Err(Refusal::Syntax) };
    let number = |text: &str| text.parse::<i64>().map_err(|_| Refusal::Syntax);
    let is_word = |text: &str| text.bytes().any(|byte| byte.is_ascii_alphabetic());
    let month = |text: &str| month_named(&text.to_ascii_lowercase()).ok_or(Refusal::Syntax);
    // A month in words leaves only the question where the year is.
    if is_word(a) {
        return Ok((year_of(c)?, month(a)?, number(b)?));
    }
    if is_word(b) {
        let year_first = a.len() > 2 || (order == DateOrder::Ymd && c.len() <= 2);
        let (year, day) = if year_first { (a, c) } else { (c, a) };
        return Ok((year_of(year)?, month(b)?, number(day)?));
    }
    if a.len() > 2 {
        return Ok((year_of(a)?, number(b)?, number(c)?));
    }
    match order {
        DateOrder::Mdy => Ok((year_of(c)?, number(a)?, number(b)?)),
        DateOrder::Dmy => Ok((year_of(c)?, number(b)?, number(a)?)),
        DateOrder::Ymd => Ok((year_of(a)?, number(b)?, number(c)?)),
    }
}

/// A date whose month is a word of its own: `January 8, 1999`, `8 Jan 1999`, `1999 Jan 8`.
fn date_of_words(loose: &DateParts<'_>) -> Result<(i64, i64, i64), Refusal> {
    let (Some(month), [a, b]) = (loose.month, &loose.numbers[..]) else { return Err(Refusal::Syntax) };
    let (year, day) = if a.len() > 2 { (a, b) } else { (b, a) };
    Ok((year_of(year)?, month, day.parse().map_err(|_| Refusal::Syntax)?))
}

fn year_of(text: &str) -> Result<i64, Refusal> {
    let year: i64 = text.parse().map_err(|_| Refusal::Syntax)?;
    Ok(if text.len() <= 2 { century(year) } else { year })
}

/// Two digits of a year mean 1970 to 2069.
fn century(year: i64) -> i64 {
    if year < 70 { year + 2000 } else { year + 1900 }
}

fn checked_days(year: i64, month: i64, day: i64, before_christ: bool) -> Result<i64, Refusal> {
    // There is no year zero.
    if !(1..=6_000_000).contains(&year) {
        return Err(Refusal::Field);
    }
    let year = if before_christ { 1 - year } else { year };
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return Err(Refusal::MonthOrDay);
    }
    if day > days_in_month(year, month) {
        return Err(Refusal::Field);
    }
    Ok(days_from_civil(year, month, day))
}

fn clock_time(clock: &str) -> Result<i64, Refusal> {
    let (whole, _) = clock.split_once('.').unwrap_or((clock, ""));
    let fraction = &clock[whole.len()..];
    let mut parts = whole.split(':').map(|part| part.parse::<i64>().map_err(|_| Refusal::Syntax));
    let hour = parts.next().ok_or(Refusal::Syntax)??;
    let minute = parts.next().ok_or(Refusal::Syntax)??;
    let second = parts.next().unwrap_or(Ok(0))?;
    if parts.next().is_some() { Err(Refusal::Syntax) } else { time_of(hour, minute, second, fraction) }
}

fn time_of(hour: i64, minute: i64, second: i64, fraction: &str) -> Result<i64, Refusal> {
    let fraction_us = fraction_us(fraction).ok_or(Refusal::Syntax)?;
    if minute > 59 || second > 60 || hour > 24 {
        return Err(Refusal::Field);
    }
    let us = (hour * 3600 + minute * 60 + second) * SECOND_US + fraction_us;
    if us > DAY_US { Err(Refusal::Field) } else { Ok(us) }
}

/// Microseconds of `.123456789`, zero for nothing; rounded as a float is, halves to even.
#[allow(clippy::cast_possible_truncation, reason = "it is at most a million")]
pub(crate) fn fraction_us(fraction: &str) -> Option<i64> {
    let digits = fraction.strip_prefix('.').unwrap_or(fraction);
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let seconds: f64 = format!("0.{digits}").parse().ok()?;
    Some((seconds * SECOND_US as f64).round_ties_even() as i64)
}

fn half_day(us: i64, afternoon: bool) -> Result<i64, Refusal> {
    let hour = us / (3600 * SECOND_US);
    match (hour, afternoon) {
        (13.., _) => Err(Refusal::Field),
        (12, false) => Ok(us - DAY_US / 2),
        (12, true) | (_, false) => Ok(us),
        (_, true) => Ok(us + DAY_US / 2),
    }
}

/// Seconds east of UTC of a zone that is a number. Error 22023.
pub fn offset(zone: &str) -> Result<i32, PgReprError> {
    let error = |message: String| PgReprError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let syntax = || error(format!("invalid input syntax for type numeric time zone: \"{zone}\""));
    if !zone.is_ascii() || !zone.starts_with(['+', '-']) {
        return Err(syntax().with_hint("Numeric time zones must have \"-\" or \"+\" as first character."));
    }
    displacement(zone).map_err(|refusal| match refusal {
        Refusal::Displacement => error(format!("numeric time zone \"{zone}\" out of range")),
        _ => syntax(),
    })
}

/// Seconds east of UTC of `+HH`, `+HHMM`, `+HH:MM` or `+HH:MM:SS`.
fn displacement(offset: &str) -> Result<i32, Refusal> {
    let (negative, digits) = (offset.starts_with('-'), &offset[1..]);
    let number = |text: &str| text.parse::<i32>().map_err(|_| Refusal::Syntax);
    let (hours, minutes, seconds) = if digits.contains(':') {
        let mut parts = digits.split(':');
        let mut next = || parts.next().map_or(Ok(0), number);
        let fields = (next()?, next()?, next()?);
        if parts.next().is_some() {
            return Err(Refusal::Syntax);
        }
        fields
    } else {
        match digits.len() {
            1 | 2 => (number(digits)?, 0, 0),
            3 | 4 => (number(&digits[..digits.len() - 2])?, number(&digits[digits.len() - 2..])?, 0),
            6 => (number(&digits[..2])?, number(&digits[2..4])?, number(&digits[4..])?),
            _ => return Err(Refusal::Syntax),
        }
    };
    if !(0..=15).contains(&hours) || !(0..60).contains(&minutes) || !(0..60).contains(&seconds) {
        return Err(Refusal::Displacement);
    }
    let east = (hours * 3600 + minutes * 60 + seconds).min(OFFSET_SECONDS_MAX);
    Ok(if negative { -east } else { east })
}
