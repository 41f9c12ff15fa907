//! date, time, timestamp and timestamptz as text; reading is in [`parse`].
//!
//! Output is in the session's date style, ISO unless it chose another: `2020-01-02 03:04:05.678+02`, with `BC` behind years
//! before 1, fractions without trailing zeros, and offsets no longer than they need to be. The other styles have the zone's
//! abbreviation in place of its offset.

pub mod parse;

use crate::calendar::{
    DATE_INFINITY, DATE_NEGATIVE_INFINITY, DAY_US, SECOND_US, TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY,
    civil_from_days,
};
use crate::options::{DateForm, DateOrder, DateStyle};
use crate::timezone::TimeZone;
use bytes::BufMut;

/// Sunday first.
const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Prints a date, days since the Unix epoch.
pub fn encode_date(days: i32, style: DateStyle, out: &mut Vec<u8>) {
    match days {
        DATE_INFINITY => out.put_slice(b"infinity"),
        DATE_NEGATIVE_INFINITY => out.put_slice(b"-infinity"),
        days => {
            let (year, month, day) = civil_from_days(days.into());
            put_date(year, month, day, style, out);
            put_era(year, out);
        }
    }
}

/// Prints a time of day, microseconds since midnight.
pub fn encode_time(us: i64, out: &mut Vec<u8>) {
    put_time(us, out);
}

/// Prints a timestamp without time zone, microseconds since the epoch.
pub fn encode_timestamp(us: i64, style: DateStyle, out: &mut Vec<u8>) {
    if !put_infinity(us, out) {
        let year = put_date_time(us, style, out);
        put_era(year, out);
    }
}

/// Prints a timestamp with time zone as clocks in `zone` show it, with their offset or what the zone calls it.
pub fn encode_timestamptz(us: i64, zone: &TimeZone, style: DateStyle, out: &mut Vec<u8>) {
    if put_infinity(us, out) {
        return;
    }
    let offset = zone.offset_at(us);
    // At the very ends of time the local clock is out of range; it is shown in UTC.
    let (local, offset, zone) = match us.checked_add(i64::from(offset) * SECOND_US) {
        Some(local) => (local, offset, zone),
        None => (us, 0, &TimeZone::UTC),
    };
    let year = put_date_time(local, style, out);
    match style.form {
        DateForm::Iso => put_offset(offset, out),
        DateForm::Sql | DateForm::Postgres | DateForm::German => {
            out.put_u8(b' ');
            out.put_slice(zone.abbreviation_at(us).as_bytes());
        }
    }
    put_era(year, out);
}

fn put_infinity(us: i64, out: &mut Vec<u8>) -> bool {
    match us {
        TIMESTAMP_INFINITY => out.put_slice(b"infinity"),
        TIMESTAMP_NEGATIVE_INFINITY => out.put_slice(b"-infinity"),
        _ => return false,
    }
    true
}

/// Prints a date and a time, and says in which year that is.
fn put_date_time(us: i64, style: DateStyle, out: &mut Vec<u8>) -> i64 {
    let (days, time) = (us.div_euclid(DAY_US), us.rem_euclid(DAY_US));
    let (year, month, day) = civil_from_days(days);
    if style.form != DateForm::Postgres {
        put_date(year, month, day, style, out);
        out.put_u8(b' ');
        put_time(time, out);
        return year;
    }
    // The epoch was a Thursday.
    let weekday = WEEKDAYS[usize::try_from((days + 4).rem_euclid(7)).expect("below seven")];
    let month = MONTHS[usize::try_from(month - 1).expect("a month")];
    out.put_slice(weekday.as_bytes());
    out.put_u8(b' ');
    if style.order == DateOrder::Dmy {
        put_two(day, out);
        out.put_u8(b' ');
        out.put_slice(month.as_bytes());
    } else {
        out.put_slice(month.as_bytes());
        out.put_u8(b' ');
        put_two(day, out);
    }
    out.put_u8(b' ');
    put_time(time, out);
    out.put_u8(b' ');
    put_year(year, out);
    year
}

/// Prints a date by its numbers.
fn put_date(year: i64, month: i64, day: i64, style: DateStyle, out: &mut Vec<u8>) {
    let separator = match style.form {
        DateForm::Iso => {
            put_year(year, out);
            out.put_u8(b'-');
            put_two(month, out);
            out.put_u8(b'-');
            return put_two(day, out);
        }
        DateForm::Sql => b'/',
        DateForm::Postgres => b'-',
        DateForm::German => b'.',
    };
    let day_first = style.form == DateForm::German || style.order == DateOrder::Dmy;
    let (first, second) = if day_first { (day, month) } else { (month, day) };
    put_two(first, out);
    out.put_u8(separator);
    put_two(second, out);
    out.put_u8(separator);
    put_year(year, out);
}

/// Prints a year, with at least four digits; without its era.
fn put_year(year: i64, out: &mut Vec<u8>) {
    let shown = if year <= 0 { 1 - year } else { year };
    let mut buffer = itoa::Buffer::new();
    let text = buffer.format(shown).as_bytes();
    for _ in text.len()..4 {
        out.put_u8(b'0');
    }
    out.put_slice(text);
}

fn put_era(year: i64, out: &mut Vec<u8>) {
    if year <= 0 {
        out.put_slice(b" BC");
    }
}

fn put_time(us: i64, out: &mut Vec<u8>) {
    let seconds = us.div_euclid(SECOND_US);
    put_two(seconds.div_euclid(3600), out);
    out.put_u8(b':');
    put_two(seconds.rem_euclid(3600) / 60, out);
    out.put_u8(b':');
    put_two(seconds.rem_euclid(60), out);
    put_fraction(us.rem_euclid(SECOND_US), out);
}

/// Prints `.` and up to six digits of a fraction of a second, nothing for zero.
pub(crate) fn put_fraction(us: i64, out: &mut Vec<u8>) {
    if us == 0 {
        return;
    }
    let mut digits = *b".000000";
    let mut rest = us;
    for digit in digits[1..].iter_mut().rev() {
        *digit = digit_of(rest % 10);
        rest /= 10;
    }
    let end = digits.iter().rposition(|digit| *digit != b'0').map_or(0, |i| i + 1);
    out.put_slice(&digits[..end]);
}

/// Prints a number with at least two digits.
pub(crate) fn put_two(value: i64, out: &mut Vec<u8>) {
    if (0..100).contains(&value) {
        out.put_slice(&[digit_of(value / 10), digit_of(value % 10)]);
    } else {
        out.put_slice(itoa::Buffer::new().format(value).as_bytes());
    }
}

fn digit_of(value: i64) -> u8 {
    b'0' + u8::try_from(value).expect("one decimal digit")
}

fn put_offset(seconds: i32, out: &mut Vec<u8>) {
    out.put_u8(if seconds < 0 { b'-' } else { b'+' });
    let seconds = i64::from(seconds).abs();
    put_two(seconds / 3600, out);
    if seconds % 3600 != 0 {
        out.put_u8(b':');
        put_two(seconds / 60 % 60, out);
        if seconds % 60 != 0 {
            out.put_u8(b':');
            put_two(seconds % 60, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{encode_date, encode_time, encode_timestamp, encode_timestamptz};
    use crate::options::DateStyle;
    use crate::timezone::TimeZone;

    fn shown(print: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        print(&mut out);
        String::from_utf8(out.to_vec()).expect("ASCII")
    }

    #[test]
    fn forms() {
        let iso = DateStyle::default();
        assert_eq!(shown(|out| encode_date(0, iso, out)), "1970-01-01");
        assert_eq!(shown(|out| encode_date(-719_163, iso, out)), "0001-12-31 BC");
        assert_eq!(shown(|out| encode_date(i32::MAX, iso, out)), "infinity");
        assert_eq!(shown(|out| encode_time(86_400_000_000, out)), "24:00:00");
        assert_eq!(shown(|out| encode_timestamp(-1, iso, out)), "1969-12-31 23:59:59.999999");
        assert_eq!(shown(|out| encode_timestamp(1_500_000, iso, out)), "1970-01-01 00:00:01.5");
        let zone = TimeZone::parse("Asia/Kolkata").expect("a zone");
        assert_eq!(shown(|out| encode_timestamptz(0, &zone, iso, out)), "1970-01-01 05:30:00+05:30");
        assert_eq!(shown(|out| encode_timestamptz(0, &TimeZone::Fixed(-3600), iso, out)), "1969-12-31 23:00:00-01");
        // Nothing is out of range for printing.
        for us in [i64::MIN + 1, i64::MAX - 1] {
            shown(|out| encode_timestamptz(us, &zone, iso, out));
        }
    }
}
