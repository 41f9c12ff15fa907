//! Time zones: names from the IANA database and fixed offsets.
//!
//! Offsets are seconds east of UTC. A local time that a change of clocks skips is read with the offset before the
//! change, one that occurs twice with the offset after it, as PostgreSQL does.
//!
//! The tables of the zones end in 2037. The rules that are in force then go on, and they speak of days of the week: a later moment
//! has the offset of the same one in a year of the table's end whose days of the week fall alike.

pub mod abbreviations;

use crate::calendar::{DAY_US, SECOND_US, civil_from_days, days_from_civil};
use crate::error::PgReprError;
use chrono::{DateTime, NaiveDateTime, Offset, TimeDelta, TimeZone as _, Utc};
use chrono_tz::{OffsetComponents, OffsetName, TZ_VARIANTS, Tz};
use std::borrow::Cow;

/// The largest offset PostgreSQL reads in a timestamp: just under 16 hours.
pub const OFFSET_SECONDS_MAX: i32 = 16 * 3600 - 1;
/// The largest offset of a zone: as POSIX has it, just under a week.
const ZONE_SECONDS_MAX: i32 = 7 * 86_400 - 1;
/// Beyond this many seconds from the epoch (a quarter million years) chrono cannot help; the rules of the time zone
/// are meaningless there anyway, and the offset at the bound is used.
const CHRONO_SECONDS_MAX: i64 = 8_000_000_000_000;

/// Years at the end of the zones' tables in which, before and after February, the year begins on every day of the week.
const LAST_YEARS: std::ops::RangeInclusive<i64> = 2027..=2037;

/// A time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeZone {
    /// Seconds east of UTC, always.
    Fixed(i32),
    /// A zone of the IANA database.
    Named(Tz),
}

impl TimeZone {
    /// Coordinated universal time.
    pub const UTC: TimeZone = TimeZone::Named(Tz::UTC);

    /// Reads the value of `TimeZone`: a zone's name in any case, hours east of UTC, or a zone as POSIX has it.
    pub fn parse(value: &str) -> Result<TimeZone, PgReprError> {
        TimeZone::from_hours(value)
            .or_else(|| TimeZone::from_name(value))
            .ok_or_else(|| PgReprError::invalid_setting("TimeZone", value))
    }

    /// The zone with this name: the IANA database's or POSIX's.
    pub fn from_name(name: &str) -> Option<TimeZone> {
        if let Ok(zone) = name.parse::<Tz>() {
            return Some(TimeZone::Named(zone));
        }
        if ["z", "zulu", "utc", "gmt"].iter().any(|utc| name.eq_ignore_ascii_case(utc)) {
            return Some(TimeZone::UTC);
        }
        let named = TZ_VARIANTS.iter().find(|zone| zone.name().eq_ignore_ascii_case(name));
        named.map(|zone| TimeZone::Named(*zone)).or_else(|| TimeZone::from_posix(name))
    }

    /// A zone of POSIX without a summer time, such as `<+02>-02`, `EST5` or `+05:30`: a word, which may be missing, and an offset
    /// that counts westward.
    fn from_posix(name: &str) -> Option<TimeZone> {
        let offset = match name.strip_prefix('<') {
            Some(quoted) => quoted.split_once('>')?.1,
            None => name.trim_start_matches(|c: char| c.is_ascii_alphabetic()),
        };
        let (west, digits) = match offset.as_bytes() {
            [b'-', ..] => (-1, &offset[1..]),
            [b'+', ..] => (1, &offset[1..]),
            _ => (1, offset),
        };
        let mut parts = digits.split(':').map(|part| match part.len() {
            1..=3 if part.bytes().all(|byte| byte.is_ascii_digit()) => part.parse::<i32>().ok(),
            _ => None,
        });
        let hours = parts.next()??;
        let mut part = || parts.next().map_or(Some(0), |part| part.filter(|part| *part < 60));
        let (minutes, seconds) = (part()?, part()?);
        let east = -west * (hours * 3600 + minutes * 60 + seconds);
        (parts.next().is_none() && east.abs() <= ZONE_SECONDS_MAX).then_some(TimeZone::Fixed(east))
    }

    /// A zone given as hours, `+2` or `-5.5`; parts of a minute are rounded.
    fn from_hours(value: &str) -> Option<TimeZone> {
        let is_number = value.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'+' | b'-'));
        let hours: f64 = value.parse().ok().filter(|_| is_number)?;
        if hours.abs() >= 168.0 {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "it is in range")]
        let minutes = (hours * 60.0).round() as i32;
        Some(TimeZone::Fixed(minutes * 60))
    }

    /// The value of `TimeZone` for this zone. A fixed offset is a POSIX zone, whose sign counts westward.
    pub fn name(&self) -> String {
        match self {
            TimeZone::Named(zone) => zone.name().to_owned(),
            TimeZone::Fixed(east) => format!("<{}>{}", offset_text(*east, true), offset_text(*east, false)),
        }
    }

    /// Seconds east of UTC at a moment given in microseconds since the epoch.
    pub fn offset_at(&self, utc_us: i64) -> i32 {
        match self {
            TimeZone::Fixed(east) => *east,
            TimeZone::Named(Tz::UTC) => 0,
            TimeZone::Named(zone) => zone.offset_from_utc_datetime(&naive(utc_us, *zone)).fix().local_minus_utc(),
        }
    }

    /// What the zone calls its time at a moment given in microseconds since the epoch: `CEST`; digits where it has no name.
    pub fn abbreviation_at(&self, utc_us: i64) -> Cow<'static, str> {
        match self {
            TimeZone::Fixed(east) => Cow::Owned(offset_text(*east, true)),
            TimeZone::Named(zone) => {
                let offset = zone.offset_from_utc_datetime(&naive(utc_us, *zone));
                let name = offset.abbreviation().map(|name| Cow::Owned(name.to_owned()));
                name.unwrap_or_else(|| Cow::Owned(offset_text(offset.fix().local_minus_utc(), true).replace(':', "")))
            }
        }
    }

    /// Whether clocks show a summer time at a moment given in microseconds since the epoch.
    pub fn is_summer_at(&self, utc_us: i64) -> bool {
        match self {
            TimeZone::Fixed(_) => false,
            TimeZone::Named(zone) => !zone.offset_from_utc_datetime(&naive(utc_us, *zone)).dst_offset().is_zero(),
        }
    }

    /// Every zone of the IANA database.
    pub fn all() -> impl Iterator<Item = TimeZone> {
        TZ_VARIANTS.into_iter().map(TimeZone::Named)
    }

    /// Seconds east of UTC where clocks show `local_us` (microseconds since the epoch as if they showed UTC).
    pub fn offset_at_local(&self, local_us: i64) -> i32 {
        match self {
            TimeZone::Fixed(east) => *east,
            TimeZone::Named(Tz::UTC) => 0,
            TimeZone::Named(zone) => {
                let local = naive(local_us, *zone);
                let offset = match zone.offset_from_local_datetime(&local) {
                    chrono::LocalResult::Single(offset) => offset,
                    chrono::LocalResult::Ambiguous(_, after) => after,
                    chrono::LocalResult::None => {
                        let before = local.checked_sub_signed(TimeDelta::days(1)).unwrap_or(local);
                        zone.offset_from_utc_datetime(&before)
                    }
                };
                offset.fix().local_minus_utc()
            }
        }
    }

    /// The moment at which clocks show `local_us`; `None` where it is out of range.
    pub fn to_utc(&self, local_us: i64) -> Option<i64> {
        local_us.checked_sub(i64::from(self.offset_at_local(local_us)) * SECOND_US)
    }

    /// What clocks show at `utc_us`; `None` where it is out of range.
    pub fn to_local(&self, utc_us: i64) -> Option<i64> {
        utc_us.checked_add(i64::from(self.offset_at(utc_us)) * SECOND_US)
    }
}

/// Seconds east of UTC as hours and minutes, with their sign or with the opposite one.
fn offset_text(east: i32, eastward: bool) -> String {
    let sign = if (east < 0) == eastward { '-' } else { '+' };
    match (east.abs() / 3600, east.abs() / 60 % 60, east.abs() % 60) {
        (hours, 0, 0) => format!("{sign}{hours:02}"),
        (hours, minutes, 0) => format!("{sign}{hours:02}:{minutes:02}"),
        (hours, minutes, seconds) => format!("{sign}{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

/// A moment, or one of the table's years that is like it.
fn naive(us: i64, zone: Tz) -> NaiveDateTime {
    // Their tables go on, because the clocks follow the moon.
    let is_tabled = matches!(zone, Tz::Africa__Casablanca | Tz::Africa__El_Aaiun);
    let us = if is_tabled { us } else { in_table(us) };
    let seconds = us.div_euclid(SECOND_US).clamp(-CHRONO_SECONDS_MAX, CHRONO_SECONDS_MAX);
    DateTime::<Utc>::from_timestamp(seconds, 0).unwrap_or_default().naive_utc()
}

/// The same moment in a year that the tables have, on the same day of the week.
fn in_table(us: i64) -> i64 {
    let day = us.div_euclid(DAY_US);
    let (year, month, day_of_month) = civil_from_days(day);
    if year <= *LAST_YEARS.end() {
        return us;
    }
    // The leap day is like the one before it.
    let day_of_month = if month == 2 { day_of_month.min(28) } else { day_of_month };
    let wanted = days_from_civil(year, month, day_of_month).rem_euclid(7);
    let alike = LAST_YEARS.map(|year| days_from_civil(year, month, day_of_month));
    let found = alike.into_iter().find(|day| day.rem_euclid(7) == wanted).unwrap_or(day);
    found * DAY_US + us.rem_euclid(DAY_US)
}

#[cfg(test)]
mod tests {
    use super::TimeZone;
    use crate::calendar::{SECOND_US, days_from_civil};

    fn local(year: i64, month: i64, day: i64, hour: i64, minute: i64) -> i64 {
        (days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60) * SECOND_US
    }

    #[test]
    fn names_and_offsets() {
        assert_eq!(TimeZone::parse("utc"), Ok(TimeZone::UTC));
        assert_eq!(TimeZone::parse("europe/berlin").map(|zone| zone.name()), Ok("Europe/Berlin".to_owned()));
        assert_eq!(TimeZone::parse("+2"), Ok(TimeZone::Fixed(7200)));
        assert_eq!(TimeZone::parse("-5.5"), Ok(TimeZone::Fixed(-19_800)));
        assert_eq!(TimeZone::Fixed(19_800).name(), "<+05:30>-05:30");
        for (name, east) in
            [("<+05:30>-05:30", 19_800), ("+05:30", -19_800), ("EST5", -18_000), ("utc-3", 10_800), ("X0:0:1", -1)]
        {
            assert_eq!(TimeZone::parse(name), Ok(TimeZone::Fixed(east)), "{name}");
        }
        for name in ["EST", "<+02>", "X5:60", "X5:", "X168", "EST5EDT4", "X1:2:3:4", "1e1", "nan"] {
            let fixed = TimeZone::parse(name).ok().filter(|zone| matches!(zone, TimeZone::Fixed(_)));
            assert_eq!(fixed, None, "{name}");
        }
        assert!(TimeZone::parse("Mars/Phobos").is_err());
        for (value, east) in
            [("<-07>+07", -25_200), ("UTC+3", -10_800), ("-02:00", 7_200), ("NOSUCH0", 0), ("+17", 61_200)]
        {
            assert_eq!(TimeZone::parse(value), Ok(TimeZone::Fixed(east)), "{value}");
        }
        for value in ["168", "168:00", "-02:60", "a-b3", "1.5x", "NOSUCH", "<a", "+-2", "1e1", "nan"] {
            assert!(TimeZone::parse(value).is_err(), "{value}");
        }
        assert!(TimeZone::parse("").is_err());
    }

    #[test]
    fn changes_of_clocks() {
        let berlin = TimeZone::parse("Europe/Berlin").expect("a zone");
        assert_eq!(berlin.offset_at_local(local(2024, 3, 31, 2, 30)), 3600); // skipped: before
        assert_eq!(berlin.offset_at_local(local(2024, 10, 27, 2, 30)), 3600); // twice: after
        assert_eq!(berlin.offset_at_local(local(2024, 7, 1, 0, 0)), 7200);
        // After the table's end, by its last rules.
        for year in [2038, 2100, 2400, 2500] {
            assert_eq!(berlin.offset_at(local(year, 1, 15, 0, 0)), 3600, "{year}");
            assert_eq!(berlin.offset_at(local(year, 7, 15, 0, 0)), 7200, "{year}");
        }
        // 2100-03-28 is the last Sunday of March.
        assert_eq!(berlin.offset_at(local(2100, 3, 28, 0, 59)), 3600);
        assert_eq!(berlin.offset_at(local(2100, 3, 28, 1, 0)), 7200);
        assert_eq!(berlin.offset_at_local(local(2100, 3, 28, 2, 30)), 3600);
        assert_eq!(berlin.offset_at(local(2100, 2, 29, 0, 0)), 3600);
        // Far outside chrono's years.
        assert_eq!(TimeZone::UTC.offset_at(i64::MIN), 0);
        berlin.offset_at(i64::MAX);
    }
}
