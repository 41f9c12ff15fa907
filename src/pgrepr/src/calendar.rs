//! The proleptic Gregorian calendar on 64-bit integers.
//!
//! PostgreSQL's dates reach from 4713 BC to 5874897, beyond what chrono represents, so the conversion between days
//! and year, month, day is done here. The algorithm counts in 400-year eras from 1 March 0000, so that the leap day
//! is the last of its year (Howard Hinnant, "chrono-compatible low-level date algorithms").
//!
//! # Invariants
//! - `civil_from_days(days_from_civil(y, m, d)) == (y, m, d)` for every valid date; no input panics.

/// Microseconds in a second.
pub const SECOND_US: i64 = 1_000_000;
/// Microseconds in a day.
pub const DAY_US: i64 = 86_400 * SECOND_US;
/// Days between the Unix epoch and PostgreSQL's, 2000-01-01.
pub const POSTGRES_EPOCH_DAYS: i32 = 10_957;
/// Microseconds between the Unix epoch and PostgreSQL's.
pub const POSTGRES_EPOCH_US: i64 = 946_684_800 * SECOND_US;
/// The Julian day number of the Unix epoch.
pub const UNIX_EPOCH_JULIAN: i64 = 2_440_588;
/// The first day PostgreSQL can represent, 4714-11-24 BC (Julian day 0).
pub const DATE_MIN: i32 = -2_440_588;
/// The last day PostgreSQL can represent, 5874897-12-31.
pub const DATE_MAX: i32 = 2_145_042_905;
/// `infinity` as a date.
pub const DATE_INFINITY: i32 = i32::MAX;
/// `-infinity` as a date.
pub const DATE_NEGATIVE_INFINITY: i32 = i32::MIN;
/// The first microsecond PostgreSQL can represent.
pub const TIMESTAMP_MIN: i64 = -2_440_588 * DAY_US;
/// `infinity` as a timestamp.
pub const TIMESTAMP_INFINITY: i64 = i64::MAX;
/// `-infinity` as a timestamp.
pub const TIMESTAMP_NEGATIVE_INFINITY: i64 = i64::MIN;

const ERA_DAYS: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_OFFSET: i64 = 719_468;

/// Days since the Unix epoch of a date; the year is astronomical (0 is 1 BC).
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * ERA_DAYS + day_of_era - EPOCH_OFFSET
}

/// The astronomical year, the month and the day of a number of days since the Unix epoch.
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + EPOCH_OFFSET;
    let era = shifted.div_euclid(ERA_DAYS);
    let day_of_era = shifted.rem_euclid(ERA_DAYS);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

/// The number of days of a month.
pub fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::{DATE_MAX, DATE_MIN, civil_from_days, days_from_civil, days_in_month};

    #[test]
    fn known_days() {
        assert_eq!(days_from_civil(1970, 1, 1), 0);
        assert_eq!(days_from_civil(2000, 1, 1), 10_957);
        assert_eq!(civil_from_days(DATE_MIN.into()), (-4713, 11, 24));
        assert_eq!(civil_from_days(DATE_MAX.into()), (5_874_897, 12, 31));
    }

    #[test]
    fn every_day_of_eight_centuries_goes_both_ways() {
        let mut expected = days_from_civil(-400, 1, 1);
        for year in -400..400 {
            for month in 1..=12 {
                for day in 1..=days_in_month(year, month) {
                    assert_eq!(days_from_civil(year, month, day), expected);
                    assert_eq!(civil_from_days(expected), (year, month, day));
                    expected += 1;
                }
            }
        }
    }
}
