//! Ranges of dates as Cube's clients write them: `["2024-01-01", "2024-01-31"]`, `last 7 days`, `this quarter`, `from 2 weeks ago to now`.
//!
//! A range is of local times, in the query's zone, and holds both of its ends; a date that is an end is the whole day. What is relative is
//! relative to a clock that the caller has read, so that the same text with the same clock is the same range. Weeks begin on Monday.

use crate::model::interval::Unit;
use crate::query::error::QueryError;
use chrono::{DateTime, Datelike, Days, Months, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Timelike, Utc};
use chrono_tz::Tz;
/// A time, wherever.
pub type Instant = DateTime<Utc>;

/// A range of local times, both of which are in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub from: NaiveDateTime,
    /// To the millisecond, as Cube's clients show it: see [`behind`].
    pub last: NaiveDateTime,
}

/// What is relative is relative to this.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// None where a range means the same at any time.
    pub now: Option<DateTime<Utc>>,
    pub zone: Tz,
}

const MILLISECOND: TimeDelta = TimeDelta::milliseconds(1);
const MICROSECOND: TimeDelta = TimeDelta::microseconds(1);
/// No calendar goes further, and no range has to.
const NUMBER_MAX: u32 = 1_000_000;
/// Of four digits, as clients read them.
const YEARS: std::ops::RangeInclusive<i32> = 0..=9999;

impl Range {
    /// The first time that is no longer in it.
    pub fn until(&self) -> NaiveDateTime {
        behind(self.last)
    }

    /// Two ends, or one that is both. An offset from Greenwich is that of the instant, whose digits in Greenwich are then taken for local
    /// ones, as Cube does in a `dateRange`.
    pub fn between(ends: &[&str]) -> Result<Range, QueryError> {
        Range::of(ends, Tz::UTC)
    }

    /// As [`Range::between`], but what has an offset is an instant, as Cube does in filters.
    pub fn between_instants(ends: &[&str], zone: Tz) -> Result<Range, QueryError> {
        Range::of(ends, zone)
    }

    fn of(ends: &[&str], zone: Tz) -> Result<Range, QueryError> {
        match ends {
            [one] => Range::of(&[one, one], zone),
            [from, last] => Ok(Range { from: time(from, End::First, zone)?, last: time(last, End::Last, zone)? }),
            _ => Err(QueryError::invalid("a `dateRange` has one or two dates")),
        }
    }

    /// A range in words, or one date.
    pub fn in_words(text: &str, clock: Clock) -> Result<Range, QueryError> {
        let words = text.to_ascii_lowercase();
        let words: Vec<&str> = words.split_ascii_whitespace().collect();
        let range = match words.as_slice() {
            ["today"] => clock.units(Unit::Day, 0, 0),
            ["yesterday"] => clock.units(Unit::Day, -1, -1),
            ["tomorrow"] => clock.units(Unit::Day, 1, 1),
            ["this", unit] => Unit::named(unit).and_then(|unit| clock.units(unit, 0, 0)),
            ["last", unit] => Unit::named(unit).and_then(|unit| clock.units(unit, -1, -1)),
            ["next", unit] => Unit::named(unit).and_then(|unit| clock.units(unit, 1, 1)),
            ["last", number, unit] => counted(number, unit).and_then(|(number, unit)| clock.units(unit, -number, -1)),
            ["next", number, unit] => counted(number, unit).and_then(|(number, unit)| clock.units(unit, 1, number)),
            ["from", rest @ ..] => {
                let to = rest.iter().position(|word| *word == "to");
                to.and_then(|to| clock.between(&rest[..to], &rest[to + 1..]))
            }
            point => clock.between(point, point),
        };
        // Years that can be written.
        let range = range.filter(|range| YEARS.contains(&range.from.year()) && YEARS.contains(&range.until().year()));
        range.ok_or_else(|| QueryError::invalid(format!("Can't parse date: '{text}'")))
    }
}

impl Clock {
    /// From the beginning of the unit so many after the current one to the end of another.
    fn units(self, unit: Unit, first: i64, last: i64) -> Option<Range> {
        let from = start_of(self.after(unit, first)?, unit)?;
        let end = start_of(self.after(unit, last)?, unit)?;
        Some(Range { from, last: add(end, unit, 1)? - MILLISECOND })
    }

    /// The local time so many units from now. Hours and less are as long as they last, also where the clocks change.
    fn after(self, unit: Unit, number: i64) -> Option<NaiveDateTime> {
        if unit <= Unit::Hour {
            let later = self.now?.naive_utc().checked_add_signed(elapsed(unit, number)?)?;
            return Some(later.and_utc().with_timezone(&self.zone).naive_local());
        }
        add(self.now?.with_timezone(&self.zone).naive_local(), unit, number)
    }

    /// From one point to another, to the finest unit of the clock that either speaks of, or to the day.
    fn between(self, from: &[&str], to: &[&str]) -> Option<Range> {
        let speaks_of = |unit: Unit| from.iter().chain(to).any(|word| Unit::named(word) == Some(unit));
        let fine = [Unit::Second, Unit::Minute, Unit::Hour].into_iter().find(|unit| speaks_of(*unit));
        let unit = fine.unwrap_or(Unit::Day);
        let (from, to) = (start_of(self.point(from)?, unit)?, start_of(self.point(to)?, unit)?);
        Some(Range { from, last: add(to, unit, 1)? - MILLISECOND })
    }

    fn point(self, words: &[&str]) -> Option<NaiveDateTime> {
        match words {
            ["now" | "today"] => self.after(Unit::Day, 0),
            ["yesterday"] => self.after(Unit::Day, -1),
            ["tomorrow"] => self.after(Unit::Day, 1),
            [number, unit, "ago"] => counted(number, unit).and_then(|(number, unit)| self.after(unit, -number)),
            ["in", number, unit] | [number, unit, "from", "now"] | [number, unit, "later"] => {
                counted(number, unit).and_then(|(number, unit)| self.after(unit, number))
            }
            [date] => time(date, End::First, Tz::UTC).ok(),
            [date, clock] => time(&format!("{date}T{clock}"), End::First, Tz::UTC).ok(),
            _ => None,
        }
    }
}

/// Which end of a range a date is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    First,
    Last,
}

/// A date, which is its beginning or its end, or a time, to the millisecond; what has an offset as it is in a zone.
fn time(text: &str, end: End, zone: Tz) -> Result<NaiveDateTime, QueryError> {
    let error = || QueryError::invalid(format!("Can't parse date: '{text}'"));
    // Years of four digits: a millisecond after any of them there is still a time.
    if !text.starts_with(|first: char| first.is_ascii_digit()) || text.find('-') != Some(4) {
        return Err(error());
    }
    if let Ok(date) = NaiveDate::parse_from_str(text, "%Y-%m-%d") {
        let clock = match end {
            End::First => NaiveTime::MIN,
            End::Last => NaiveTime::from_hms_milli_opt(23, 59, 59, 999).expect("there is such a time"),
        };
        return Ok(date.and_time(clock));
    }
    let text = text.trim().replacen(' ', "T", 1).to_ascii_uppercase();
    let with_offset = ["%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%dT%H:%M%#z"];
    let without = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M"];
    let text = text.replacen('Z', "+00", 1);
    let local = without.iter().find_map(|form| NaiveDateTime::parse_from_str(&text, form).ok());
    let time = local.or_else(|| {
        let instant = with_offset.iter().find_map(|form| DateTime::parse_from_str(&text, form).ok());
        instant.map(|instant| instant.with_timezone(&zone).naive_local())
    });
    let time = time.ok_or_else(error)?;
    time.with_nanosecond(time.nanosecond() / 1_000_000 * 1_000_000).ok_or_else(error)
}

/// `7 days`.
fn counted(number: &str, unit: &str) -> Option<(i64, Unit)> {
    let number: u32 = number.parse().ok().filter(|number| *number <= NUMBER_MAX)?;
    Some((i64::from(number), Unit::named(unit)?))
}

fn elapsed(unit: Unit, number: i64) -> Option<TimeDelta> {
    match unit {
        Unit::Second => TimeDelta::try_seconds(number),
        Unit::Minute => TimeDelta::try_minutes(number),
        Unit::Hour => TimeDelta::try_hours(number),
        Unit::Day | Unit::Week | Unit::Month | Unit::Quarter | Unit::Year => None,
    }
}

/// So many units later on the calendar; a day that the month has not is its last one.
fn add(time: NaiveDateTime, unit: Unit, number: i64) -> Option<NaiveDateTime> {
    let count = number.unsigned_abs();
    let days = |count: u64| match number >= 0 {
        true => time.checked_add_days(Days::new(count)),
        false => time.checked_sub_days(Days::new(count)),
    };
    let months = |count: u64| {
        let count = Months::new(u32::try_from(count).ok()?);
        if number >= 0 { time.checked_add_months(count) } else { time.checked_sub_months(count) }
    };
    match unit {
        Unit::Day => days(count),
        Unit::Week => days(count * 7),
        Unit::Month => months(count),
        Unit::Quarter => months(count * 3),
        Unit::Year => months(count * 12),
        unit => time.checked_add_signed(elapsed(unit, number)?),
    }
}

/// The beginning of the unit in which a time is.
fn start_of(time: NaiveDateTime, unit: Unit) -> Option<NaiveDateTime> {
    let (date, clock) = (time.date(), time.time());
    let at = |hour, minute, second| NaiveTime::from_hms_opt(hour, minute, second);
    match unit {
        Unit::Second => Some(date.and_time(at(clock.hour(), clock.minute(), clock.second())?)),
        Unit::Minute => Some(date.and_time(at(clock.hour(), clock.minute(), 0)?)),
        Unit::Hour => Some(date.and_time(at(clock.hour(), 0, 0)?)),
        Unit::Day => Some(date.and_time(NaiveTime::MIN)),
        Unit::Week => {
            let since_monday = u64::from(date.weekday().num_days_from_monday());
            Some(date.checked_sub_days(Days::new(since_monday))?.and_time(NaiveTime::MIN))
        }
        Unit::Month => Some(date.with_day(1)?.and_time(NaiveTime::MIN)),
        Unit::Quarter => {
            let first = date.month0() / 3 * 3;
            Some(date.with_day(1)?.with_month0(first)?.and_time(NaiveTime::MIN))
        }
        Unit::Year => Some(NaiveDate::from_ymd_opt(date.year(), 1, 1)?.and_time(NaiveTime::MIN)),
    }
}

/// The first time behind one that is the last of a range. What ends with a second's last millisecond ends with that second: a row of its
/// last microseconds is in.
pub fn behind(last: NaiveDateTime) -> NaiveDateTime {
    let is_whole = last.nanosecond() == 999_000_000;
    last + if is_whole { MILLISECOND } else { MICROSECOND }
}

/// A time of so many microseconds since 1970, if there is one on the calendar.
pub fn at_micros(micros: i64) -> Option<Instant> {
    DateTime::from_timestamp_micros(micros)
}

/// A local time as Cube's clients read it: to the millisecond, without a zone.
pub fn printed(time: NaiveDateTime) -> String {
    time.format("%Y-%m-%dT%H:%M:%S%.3f").to_string()
}

/// The same of so many microseconds since 1970; None if it is not on the calendar.
pub fn printed_micros(micros: i64) -> Option<String> {
    Some(printed(at_micros(micros)?.naive_utc()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Wednesday.
    fn clock(zone: Tz) -> Clock {
        let now = "2024-03-13T05:06:07.890Z".parse().expect("a time");
        Clock { now: Some(now), zone }
    }

    fn shown(range: Range) -> [String; 2] {
        [printed(range.from), printed(range.last)]
    }

    /// What `dateParser` of `@cubejs-backend/api-gateway` 1.7.43 gives at this time in Berlin.
    #[test]
    fn words_are_ranges() {
        let cases = [
            ("today", "2024-03-13T00:00:00.000", "2024-03-13T23:59:59.999"),
            ("Yesterday", "2024-03-12T00:00:00.000", "2024-03-12T23:59:59.999"),
            ("tomorrow", "2024-03-14T00:00:00.000", "2024-03-14T23:59:59.999"),
            ("this week", "2024-03-11T00:00:00.000", "2024-03-17T23:59:59.999"),
            ("last week", "2024-03-04T00:00:00.000", "2024-03-10T23:59:59.999"),
            ("this month", "2024-03-01T00:00:00.000", "2024-03-31T23:59:59.999"),
            ("last quarter", "2023-10-01T00:00:00.000", "2023-12-31T23:59:59.999"),
            ("next year", "2025-01-01T00:00:00.000", "2025-12-31T23:59:59.999"),
            ("this hour", "2024-03-13T06:00:00.000", "2024-03-13T06:59:59.999"),
            ("last 7 days", "2024-03-06T00:00:00.000", "2024-03-12T23:59:59.999"),
            ("last 1 month", "2024-02-01T00:00:00.000", "2024-02-29T23:59:59.999"),
            ("next 2 weeks", "2024-03-18T00:00:00.000", "2024-03-31T23:59:59.999"),
            ("last 90 minutes", "2024-03-13T04:36:00.000", "2024-03-13T06:05:59.999"),
            ("from 7 days ago to now", "2024-03-06T00:00:00.000", "2024-03-13T23:59:59.999"),
            ("from 2 hours ago to now", "2024-03-13T04:00:00.000", "2024-03-13T06:59:59.999"),
            ("2024-01-05", "2024-01-05T00:00:00.000", "2024-01-05T23:59:59.999"),
        ];
        for (words, from, last) in cases {
            let range = Range::in_words(words, clock(chrono_tz::Europe::Berlin)).map(shown);
            assert_eq!(range, Ok([from.to_owned(), last.to_owned()]), "{words}");
        }
        // Cube takes this for yesterday alone.
        let range = Range::in_words("from 2024-01-05 to yesterday", clock(Tz::UTC)).map(shown);
        assert_eq!(range, Ok(["2024-01-05T00:00:00.000".to_owned(), "2024-03-12T23:59:59.999".to_owned()]));
        for wrong in ["", "last", "last moon", "last x days", "soon", "from now", "last 99999999 years", "2024-13-01"] {
            let error = Range::in_words(wrong, clock(Tz::UTC)).expect_err(wrong);
            assert_eq!(error.to_string(), format!("Can't parse date: '{wrong}'"));
        }
    }

    #[test]
    fn dates_are_whole_days_and_both_are_in() {
        let range = Range::between(&["2024-01-01", "2024-01-31"]).expect("a range");
        assert_eq!(shown(range), ["2024-01-01T00:00:00.000", "2024-01-31T23:59:59.999"]);
        assert_eq!(printed(range.until()), "2024-02-01T00:00:00.000");
        let range = Range::between(&["2024-01-01T06:00:00.000"]).expect("a range");
        assert_eq!(shown(range), ["2024-01-01T06:00:00.000", "2024-01-01T06:00:00.000"]);
        assert_eq!(range.until() - range.from, MICROSECOND);
        let range = Range::between(&["2024-01-01 06:00", "2024-01-01T08:00:00.5Z"]).expect("a range");
        assert_eq!(shown(range), ["2024-01-01T06:00:00.000", "2024-01-01T08:00:00.500"]);
        let range = Range::between(&["2024-01-01T06:00:00+02:00"]).expect("a range");
        assert_eq!(shown(range)[0], "2024-01-01T04:00:00.000");
        let filter =
            Range::between_instants(&["2024-01-01T08:00:00Z"], chrono_tz::America::Los_Angeles).expect("a range");
        assert_eq!(shown(filter)[0], "2024-01-01T00:00:00.000");
        for wrong in ["2024-02-30", "+262142-12-31", "-2024-01-01", "02024-01-01", "é024-01-01", ""] {
            assert!(Range::between(&[wrong]).is_err(), "{wrong}");
        }
        assert!(Range::between(&[]).is_err());
    }

    /// A day of 23 hours: an hour ago is an hour ago.
    #[test]
    fn hours_are_as_long_as_they_last() {
        let clock =
            Clock { now: Some("2024-03-10T10:30:00Z".parse().expect("a time")), zone: chrono_tz::America::Los_Angeles };
        let range = Range::in_words("last 1 hour", clock).map(shown);
        assert_eq!(range, Ok(["2024-03-10T01:00:00.000".to_owned(), "2024-03-10T01:59:59.999".to_owned()]));
        let range = Range::in_words("today", clock).map(shown);
        assert_eq!(range, Ok(["2024-03-10T00:00:00.000".to_owned(), "2024-03-10T23:59:59.999".to_owned()]));
    }

    /// A random time is in the unit that begins where `start_of` says, and that ends at the next one's beginning.
    #[test]
    fn units_follow_each_other() {
        let units =
            [Unit::Second, Unit::Minute, Unit::Hour, Unit::Day, Unit::Week, Unit::Month, Unit::Quarter, Unit::Year];
        let first: NaiveDateTime = "2019-12-30T00:00:00".parse().expect("a time");
        for step in 0..4_000_i64 {
            let time = first + TimeDelta::seconds(step * 40_009);
            for unit in units {
                let start = start_of(time, unit).expect("it is on the calendar");
                let next = add(start, unit, 1).expect("it is on the calendar");
                assert!(start <= time && time < next, "{time} {unit:?}");
                assert_eq!(start_of(next - MILLISECOND, unit), Some(start));
                assert_eq!(start_of(next, unit), Some(next));
            }
        }
    }
}
