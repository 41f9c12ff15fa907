//! interval: arithmetic by months, days and microseconds, which are kept apart.

use super::library::Library;
use super::{float, int, list};
use engine::error::SqlError;
use pgrepr::calendar::DAY_US;
use repr::Datum;
use repr::sqlstate::SqlState;

/// Days that a month counts for when intervals are compared.
const MONTH_DAYS: i128 = 30;

/// Declares the functions of this file.
pub fn declare(library: &mut Library) {
    library.add("interval_key(interval) numeric:integer", |_, a| {
        let (m, d, u) = parts(&a[0]);
        Ok(Datum::Numeric(arrow::datatypes::i256::from_i128(total_us(m, d, u)), 0))
    });
    // What a RANGE is measured along, in microseconds.
    library.add("range_key(time) int8", |_, a| match a[0] {
        Datum::Time(us) => Ok(Datum::Int8(us)),
        _ => Ok(Datum::Null),
    });
    library.add("range_key(interval) int8", |_, a| {
        let (m, d, u) = parts(&a[0]);
        i64::try_from(total_us(m, d, u)).map(Datum::Int8).map_err(|_| out_of_range())
    });
    library.add("+(interval, interval) interval", |_, a| add(parts(&a[0]), parts(&a[1])));
    library.add("-(interval, interval) interval", |_, a| add(parts(&a[0]), negate(parts(&a[1]))?));
    library.add("-(interval) interval", |_, a| {
        let (m, d, u) = negate(parts(&a[0]))?;
        Ok(Datum::Interval(m, d, u))
    });
    library.add("+(interval) interval", |_, a| Ok(a[0].clone().into_owned()));
    library.add("*(interval, float8) interval", |_, a| scale(parts(&a[0]), float(a, 1)));
    library.add("*(float8, interval) interval", |_, a| scale(parts(&a[1]), float(a, 0)));
    library.add("/(interval, float8) interval", |_, a| {
        if float(a, 1) == 0.0 {
            return Err(super::arith::division_by_zero());
        }
        divide(parts(&a[0]), float(a, 1))
    });
    library.add("interval_sum(interval[]) interval", |_, a| sum(list(a, 0)));
    library.add("interval_avg(interval[]) interval", |_, a| {
        let count = list(a, 0).iter().filter(|item| !item.is_null()).count();
        match sum(list(a, 0))? {
            Datum::Null => Ok(Datum::Null),
            total => divide(parts(&total), count as f64),
        }
    });
    library.add("justify_days(interval) interval", |_, a| {
        let (m, d, u) = parts(&a[0]);
        let (months, days) = months_and_days(m.checked_add(d / 30).ok_or_else(out_of_range)?, d % 30, 0);
        Ok(Datum::Interval(months, days, u))
    });
    library.add("justify_hours(interval) interval", |_, a| {
        let (m, d, u) = parts(&a[0]);
        let days = d.checked_add((u / DAY_US) as i32).ok_or_else(out_of_range)?;
        let (days, us) = days_and_time(days, u % DAY_US);
        Ok(Datum::Interval(m, days, us))
    });
    library.add("justify_interval(interval) interval", |_, a| {
        let (m, d, u) = parts(&a[0]);
        let days = d.checked_add((u / DAY_US) as i32).ok_or_else(out_of_range)?;
        let months = m.checked_add(days / 30).ok_or_else(out_of_range)?;
        let (months, days) = months_and_days(months, days % 30, u % DAY_US);
        let (days, us) = days_and_time(days, u % DAY_US);
        Ok(Datum::Interval(months, days, us))
    });
    library.add("make_interval(int4, int4, int4, int4, int4, int4, float8) interval", |_, a| {
        let n = |i| int(a, i) as i32;
        let months = n(0).checked_mul(12).and_then(|years| years.checked_add(n(1))).ok_or_else(out_of_range)?;
        let days = n(2).checked_mul(7).and_then(|weeks| weeks.checked_add(n(3))).ok_or_else(out_of_range)?;
        let us = int(a, 4) * 3_600_000_000 + int(a, 5) * 60_000_000 + (float(a, 6) * 1e6).round() as i64;
        Ok(Datum::Interval(months, days, us))
    });
}

/// Months, days and microseconds.
pub type Parts = (i32, i32, i64);

/// The parts of an interval datum.
pub fn parts(value: &Datum<'_>) -> Parts {
    match value {
        Datum::Interval(m, d, u) => (*m, *d, *u),
        _ => (0, 0, 0),
    }
}

/// What an interval is compared by.
pub fn total_us(months: i32, days: i32, us: i64) -> i128 {
    (i128::from(months) * MONTH_DAYS + i128::from(days)) * i128::from(DAY_US) + i128::from(us)
}

/// 22008
pub fn out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range")
}

/// The negated parts.
pub fn negate((m, d, u): Parts) -> Result<Parts, SqlError> {
    match (m.checked_neg(), d.checked_neg(), u.checked_neg()) {
        (Some(m), Some(d), Some(u)) => Ok((m, d, u)),
        _ => Err(out_of_range()),
    }
}

/// The sum, part by part.
pub fn add((m, d, u): Parts, (n, e, v): Parts) -> Result<Datum<'static>, SqlError> {
    match (m.checked_add(n), d.checked_add(e), u.checked_add(v)) {
        (Some(m), Some(d), Some(u)) => Ok(Datum::Interval(m, d, u)),
        _ => Err(out_of_range()),
    }
}

fn sum(items: &[Datum<'_>]) -> Result<Datum<'static>, SqlError> {
    let mut total = Datum::Null;
    for item in items.iter().filter(|item| !item.is_null()) {
        total = if total.is_null() { item.clone().into_owned() } else { add(parts(&total), parts(item))? };
    }
    Ok(total)
}

/// Multiplies; what is left of a month goes to the days, of a day to the time.
pub fn scale((months, days, us): Parts, factor: f64) -> Result<Datum<'static>, SqlError> {
    spread(f64::from(months) * factor, f64::from(days) * factor, us as f64 * factor)
}

fn divide((months, days, us): Parts, divisor: f64) -> Result<Datum<'static>, SqlError> {
    spread(f64::from(months) / divisor, f64::from(days) / divisor, us as f64 / divisor)
}

fn spread(months: f64, days: f64, us: f64) -> Result<Datum<'static>, SqlError> {
    if !months.is_finite() || !days.is_finite() || !us.is_finite() {
        return Err(out_of_range());
    }
    let whole_months = months.trunc();
    let month_rest = microround((months - whole_months) * 30.0);
    let whole_days = days.trunc();
    let mut seconds = microround((days - whole_days + month_rest - month_rest.trunc()) * 86_400.0);
    let mut total_days = whole_days + month_rest.trunc();
    if seconds.abs() >= 86_400.0 {
        total_days += (seconds / 86_400.0).trunc();
        seconds -= (seconds / 86_400.0).trunc() * 86_400.0;
    }
    let total_us = (us + seconds * 1e6).round_ties_even();
    let fits = whole_months.abs() < 2_147_483_648.0 && total_days.abs() < 2_147_483_648.0 && total_us.abs() < 9.2e18;
    if !fits {
        return Err(out_of_range());
    }
    Ok(Datum::Interval(whole_months as i32, total_days as i32, total_us as i64))
}

fn microround(value: f64) -> f64 {
    (value * 1e6).round_ties_even() / 1e6
}

/// Makes the sign of the months that of what is behind them.
fn months_and_days(months: i32, days: i32, us: i64) -> (i32, i32) {
    if months > 0 && (days < 0 || (days == 0 && us < 0)) {
        (months - 1, days + 30)
    } else if months < 0 && (days > 0 || (days == 0 && us > 0)) {
        (months + 1, days - 30)
    } else {
        (months, days)
    }
}

/// Makes the signs of days and time agree.
fn days_and_time(days: i32, us: i64) -> (i32, i64) {
    if days > 0 && us < 0 {
        (days - 1, us + DAY_US)
    } else if days < 0 && us > 0 {
        (days + 1, us - DAY_US)
    } else {
        (days, us)
    }
}
