//! Dates, times and timestamps: arithmetic, fields, truncation, clocks and time zones.

use super::call::Call;
use super::interval::{Parts, negate, out_of_range as interval_out_of_range, parts};
use super::library::Library;
use super::{float, int, text};
use crate::cast::{date_to_us, is_infinite};
use arrow::array::{ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, Date32Type, Decimal128Type, i256};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ColumnarValue;
use engine::error::SqlError;
use pgrepr::calendar::{DAY_US, SECOND_US, civil_from_days, days_from_civil, days_in_month};
use pgrepr::timezone::TimeZone;
use repr::sqlstate::SqlState;
use repr::{Datum, PgType};
use std::sync::Arc;

/// Declares the functions of this file.
pub(crate) fn declare(library: &mut Library) {
    declare_clocks(library);
    declare_dates(library);
    declare_timestamps(library);
    declare_times(library);
    declare_fields(library);
    declare_zones(library);
    declare_making(library);
}

pub(crate) fn out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range")
}

fn date_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range")
}

fn timestamp(value: Option<i64>) -> Result<Datum<'static>, SqlError> {
    value.map(Datum::Timestamp).ok_or_else(out_of_range)
}

fn date(value: i64) -> Result<Datum<'static>, SqlError> {
    let fits = (i64::from(pgrepr::calendar::DATE_MIN)..=i64::from(pgrepr::calendar::DATE_MAX)).contains(&value);
    if fits { Ok(Datum::Date(value as i32)) } else { Err(date_out_of_range()) }
}

/// Microseconds of a date, time or timestamp.
pub(crate) fn us(value: &Datum<'_>) -> i64 {
    match value {
        Datum::Timestamp(us) | Datum::Time(us) => *us,
        Datum::Date(days) => date_to_us(*days).unwrap_or(i64::MAX),
        _ => 0,
    }
}

fn days(value: &Datum<'_>) -> i64 {
    match value {
        Datum::Date(days) => (*days).into(),
        _ => 0,
    }
}

fn declare_clocks(library: &mut Library) {
    for name in ["now", "current_timestamp", "transaction_timestamp"] {
        library.add(&format!("{name}() timestamptz !session"), |call, _| Ok(Datum::Timestamp(call.now_us())));
    }
    for name in ["statement_timestamp", "clock_timestamp"] {
        library.add(&format!("{name}() timestamptz !session"), |call, _| {
            Ok(Datum::Timestamp(call.session()?.statement_now_us))
        });
    }
    library.add("localtimestamp() timestamp !session", |call, _| timestamp(local(call, call.now_us())));
    library.add("current_date() date !session", |call, _| {
        date(local(call, call.now_us()).ok_or_else(out_of_range)?.div_euclid(DAY_US))
    });
    library.add("localtime() time !session", |call, _| {
        Ok(Datum::Time(local(call, call.now_us()).ok_or_else(out_of_range)?.rem_euclid(DAY_US)))
    });
    library.add("current_time() time", |_, _| Err(SqlError::unsupported("type time with time zone")));
}

fn local(call: &Call<'_>, utc: i64) -> Option<i64> {
    if is_infinite(utc) { Some(utc) } else { call.context.options.locale.time_zone.to_local(utc) }
}

fn utc(call: &Call<'_>, local: i64) -> Option<i64> {
    if is_infinite(local) { Some(local) } else { call.context.options.locale.time_zone.to_utc(local) }
}

fn declare_dates(library: &mut Library) {
    library.add("+(date, int4) date", |_, a| date(days(&a[0]) + int(a, 1)));
    library.add("+(int4, date) date", |_, a| date(days(&a[1]) + int(a, 0)));
    library.add("-(date, int4) date", |_, a| date(days(&a[0]) - int(a, 1)));
    library.add("-(date, date) int4", |_, a| {
        if is_infinite(us(&a[0])) || is_infinite(us(&a[1])) {
            return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "cannot subtract infinite dates"));
        }
        i32::try_from(days(&a[0]) - days(&a[1])).map(Datum::Int4).map_err(|_| date_out_of_range())
    });
    library.add("+(date, interval) timestamp", |_, a| timestamp(shift(us(&a[0]), parts(&a[1]))));
    library.add("+(interval, date) timestamp", |_, a| timestamp(shift(us(&a[1]), parts(&a[0]))));
    library.add("-(date, interval) timestamp", |_, a| timestamp(shift(us(&a[0]), negate(parts(&a[1]))?)));
    library.add("+(date, time) timestamp", |_, a| timestamp(us(&a[0]).checked_add(us(&a[1]))));
    library.add("+(time, date) timestamp", |_, a| timestamp(us(&a[1]).checked_add(us(&a[0]))));
}

fn declare_timestamps(library: &mut Library) {
    library.add("+(timestamp, interval) timestamp", |_, a| timestamp(shift(us(&a[0]), parts(&a[1]))));
    library.add("+(interval, timestamp) timestamp", |_, a| timestamp(shift(us(&a[1]), parts(&a[0]))));
    library.add("-(timestamp, interval) timestamp", |_, a| timestamp(shift(us(&a[0]), negate(parts(&a[1]))?)));
    library.add("-(timestamp, timestamp) interval", |_, a| difference(us(&a[0]), us(&a[1])));
    library.add("-(timestamptz, timestamptz) interval", |_, a| difference(us(&a[0]), us(&a[1])));
    library.add("+(timestamptz, interval) timestamptz !session", |call, a| shift_zoned(call, us(&a[0]), parts(&a[1])));
    library.add("+(interval, timestamptz) timestamptz !session", |call, a| shift_zoned(call, us(&a[1]), parts(&a[0])));
    library.add("-(timestamptz, interval) timestamptz !session", |call, a| {
        shift_zoned(call, us(&a[0]), negate(parts(&a[1]))?)
    });
    // By an interval that is known to have neither months nor days.
    library
        .add("timestamptz_plus(timestamptz, interval) timestamptz", |_, a| timestamp(shift(us(&a[0]), parts(&a[1]))));
    library.add("timestamptz_minus(timestamptz, interval) timestamptz", |_, a| {
        timestamp(shift(us(&a[0]), negate(parts(&a[1]))?))
    });
    library.add("age(timestamp, timestamp) interval", |_, a| Ok(age(us(&a[0]), us(&a[1]))));
    library.add("age(timestamptz, timestamptz) interval !session", |call, a| {
        let (a, b) = (local(call, us(&a[0])), local(call, us(&a[1])));
        Ok(age(a.ok_or_else(out_of_range)?, b.ok_or_else(out_of_range)?))
    });
    library.add("age(timestamp) interval !session", |call, a| Ok(age(midnight(call)?, us(&a[0]))));
    library.add("age(timestamptz) interval !session", |call, a| {
        Ok(age(midnight(call)?, local(call, us(&a[0])).ok_or_else(out_of_range)?))
    });
    library.add("isfinite(date) bool", |_, a| Ok(Datum::Bool(!is_infinite(us(&a[0])))));
    library.add("isfinite(timestamp) bool", |_, a| Ok(Datum::Bool(!is_infinite(us(&a[0])))));
    library.add("isfinite(timestamptz) bool", |_, a| Ok(Datum::Bool(!is_infinite(us(&a[0])))));
    library.add("isfinite(interval) bool", |_, _| Ok(Datum::Bool(true)));
    library.add("generate_series(timestamp, timestamp, interval) setof timestamp", |call, a| {
        series(call, us(&a[0]), us(&a[1]), parts(&a[2]), |at, step| shift(at, step).ok_or_else(out_of_range))
    });
    library.add("generate_series(timestamptz, timestamptz, interval) setof timestamptz !session", |call, a| {
        series(call, us(&a[0]), us(&a[1]), parts(&a[2]), |at, step| match shift_zoned(call, at, step)? {
            Datum::Timestamp(at) => Ok(at),
            _ => Err(out_of_range()),
        })
    });
}

fn midnight(call: &Call<'_>) -> Result<i64, SqlError> {
    let local = local(call, call.now_us()).ok_or_else(out_of_range)?;
    Ok(local.div_euclid(DAY_US) * DAY_US)
}

/// Months first, cut to the month's last day, then days, then time.
pub(crate) fn shift(at: i64, (months, plus_days, plus_us): Parts) -> Option<i64> {
    if is_infinite(at) {
        return Some(at);
    }
    let (mut day_number, time) = (at.div_euclid(DAY_US), at.rem_euclid(DAY_US));
    if months != 0 {
        let (year, month, day) = civil_from_days(day_number);
        let month0 = year * 12 + month - 1 + i64::from(months);
        let (year, month) = (month0.div_euclid(12), month0.rem_euclid(12) + 1);
        day_number = days_from_civil(year, month, day.min(days_in_month(year, month)));
    }
    let shifted = (day_number + i64::from(plus_days)).checked_mul(DAY_US)?.checked_add(time)?.checked_add(plus_us)?;
    (!is_infinite(shifted) && shifted >= pgrepr::calendar::TIMESTAMP_MIN).then_some(shifted)
}

/// Months and days move the local clock, time moves the absolute one.
pub(crate) fn shift_zoned(
    call: &Call<'_>,
    at: i64,
    (months, plus_days, plus_us): Parts,
) -> Result<Datum<'static>, SqlError> {
    let moved = if months == 0 && plus_days == 0 {
        at
    } else {
        let local = local(call, at).and_then(|local| shift(local, (months, plus_days, 0)));
        local.and_then(|local| utc(call, local)).ok_or_else(out_of_range)?
    };
    timestamp(shift(moved, (0, 0, plus_us)))
}

fn difference(a: i64, b: i64) -> Result<Datum<'static>, SqlError> {
    if is_infinite(a) || is_infinite(b) {
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "cannot subtract infinite timestamps"));
    }
    let us = a.checked_sub(b).ok_or_else(interval_out_of_range)?;
    Ok(Datum::Interval(0, (us / DAY_US) as i32, us % DAY_US))
}

/// The difference in years, months, days and time, symbolically.
fn age(a: i64, b: i64) -> Datum<'static> {
    let (late, early, sign) = if a >= b { (a, b, 1) } else { (b, a, -1) };
    let (y1, m1, d1) = civil_from_days(late.div_euclid(DAY_US));
    let (y2, m2, d2) = civil_from_days(early.div_euclid(DAY_US));
    let mut us = late.rem_euclid(DAY_US) - early.rem_euclid(DAY_US);
    let mut days = d1 - d2;
    let mut months = (y1 - y2) * 12 + m1 - m2;
    if us < 0 {
        us += DAY_US;
        days -= 1;
    }
    if days < 0 {
        // Days are borrowed from the month of the earlier date.
        days += days_in_month(y2, m2);
        months -= 1;
    }
    Datum::Interval((sign * months) as i32, (sign * days) as i32, sign * us)
}

fn series(
    call: &Call<'_>,
    from: i64,
    to: i64,
    step: Parts,
    next: impl Fn(i64, Parts) -> Result<i64, SqlError>,
) -> Result<Datum<'static>, SqlError> {
    let direction = super::interval::total_us(step.0, step.1, step.2);
    if direction == 0 {
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "step size cannot equal zero"));
    }
    let mut out = Vec::new();
    let mut at = from;
    while if direction > 0 { at <= to } else { at >= to } {
        out.push(Datum::Timestamp(at));
        call.check_elements(out.len() as i64)?;
        at = next(at, step)?;
    }
    Ok(Datum::List(out))
}

fn declare_times(library: &mut Library) {
    library.add("+(time, interval) time", |_, a| {
        Ok(Datum::Time((us(&a[0]) + parts(&a[1]).2.rem_euclid(DAY_US)).rem_euclid(DAY_US)))
    });
    library.add("+(interval, time) time", |_, a| {
        Ok(Datum::Time((us(&a[1]) + parts(&a[0]).2.rem_euclid(DAY_US)).rem_euclid(DAY_US)))
    });
    library.add("-(time, interval) time", |_, a| {
        Ok(Datum::Time((us(&a[0]) - parts(&a[1]).2.rem_euclid(DAY_US)).rem_euclid(DAY_US)))
    });
    library.add("-(time, time) interval", |_, a| Ok(Datum::Interval(0, 0, us(&a[0]) - us(&a[1]))));
}

fn declare_fields(library: &mut Library) {
    for ty in ["date", "timestamp", "time", "interval"] {
        library.add(&format!("extract(text, {ty}) numeric:field"), |call, a| numeric(extract(call, a)?));
        if ty == "date" {
            library.has_column_body(fields_of_dates);
        }
        library.add(&format!("date_part(text, {ty}) float8"), |call, a| extract(call, a).map(to_float));
    }
    library.add("extract(text, timestamptz) numeric:field !session", |call, a| numeric(extract(call, a)?));
    library.add("date_part(text, timestamptz) float8 !session", |call, a| extract(call, a).map(to_float));
    library.add("date_trunc(text, timestamp) timestamp", |_, a| timestamp(Some(truncate(text(a, 0), us(&a[1]))?)));
    library.add("date_trunc(text, timestamptz) timestamptz !session", |call, a| {
        let local = local(call, us(&a[1])).ok_or_else(out_of_range)?;
        timestamp(utc(call, truncate(text(a, 0), local)?))
    });
    library.add("date_trunc(text, timestamptz, text) timestamptz", |_, a| {
        let zone = super::session::time_zone(text(a, 2))?;
        let local = zone.to_local(us(&a[1])).ok_or_else(out_of_range)?;
        timestamp(zone.to_utc(truncate(text(a, 0), local)?))
    });
    library.add("date_trunc(text, interval) interval", |_, a| truncate_interval(text(a, 0), parts(&a[1])));
    library.add("date_bin(interval, timestamp, timestamp) timestamp", |_, a| bin(parts(&a[0]), us(&a[1]), us(&a[2])));
    library.add("date_bin(interval, timestamptz, timestamptz) timestamptz", |_, a| {
        bin(parts(&a[0]), us(&a[1]), us(&a[2]))
    });
}

/// A field's value.
enum Field {
    /// Unscaled, and the digits after the point that Postgres shows.
    Number(i128, i8),
    /// Of an infinite time, a field that grows with time.
    Infinite(f64),
    /// Of an infinite time, a field that returns.
    Nothing,
}

fn numeric(field: Field) -> Result<Datum<'static>, SqlError> {
    match field {
        Field::Number(v, scale) => Ok(Datum::Numeric(i256::from_i128(v), scale)),
        Field::Infinite(sign) => {
            Err(SqlError::unsupported(format!("numeric {}Infinity", if sign < 0.0 { "-" } else { "" })))
        }
        Field::Nothing => Ok(Datum::Null),
    }
}

fn to_float(field: Field) -> Datum<'static> {
    match field {
        Field::Number(v, scale) => Datum::Float8(v as f64 / 10_f64.powi(scale.into())),
        Field::Infinite(sign) => Datum::Float8(sign * f64::INFINITY),
        Field::Nothing => Datum::Null,
    }
}

/// A field of an infinite time.
fn infinite_field(name: &str, at: i64) -> Option<Field> {
    match name {
        "year" | "years" | "decade" | "century" | "millennium" | "julian" | "isoyear" | "epoch" => {
            Some(Field::Infinite(if at < 0 { -1.0 } else { 1.0 }))
        }
        _ if date_field(name, 0).is_some() => Some(Field::Nothing),
        _ => None,
    }
}

fn extract(call: &Call<'_>, a: &[Datum<'_>]) -> Result<Field, SqlError> {
    let name = text(a, 0).to_lowercase();
    let ty = call.args.get(1).cloned().unwrap_or(PgType::Timestamp);
    let unsupported = || {
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("unit \"{name}\" not supported for type {}", ty.name()))
    };
    let field = match &a[1] {
        Datum::Interval(m, d, u) => interval_field(&name, (*m, *d, *u)),
        Datum::Time(us) => {
            time_field(&name, *us).or_else(|| (name == "epoch").then_some(Field::Number((*us).into(), 6)))
        }
        Datum::Date(days) => match name.as_str() {
            _ if time_field(&name, 0).is_some() => return Err(unsupported()),
            _ if is_infinite(date_to_us(*days).unwrap_or(0)) => infinite_field(&name, (*days).into()),
            "epoch" => Some(Field::Number(i128::from(*days) * 86_400, 0)),
            _ => date_field(&name, i64::from(*days) * DAY_US),
        },
        Datum::Timestamp(us) if is_infinite(*us) && time_field(&name, 0).is_some() => Some(Field::Nothing),
        Datum::Timestamp(us) if is_infinite(*us) => infinite_field(&name, *us),
        Datum::Timestamp(us) => {
            let zoned = ty == PgType::Timestamptz;
            let at = if zoned { local(call, *us).ok_or_else(out_of_range)? } else { *us };
            match name.as_str() {
                "epoch" => Some(Field::Number((*us).into(), 6)),
                "timezone" if zoned => Some(Field::Number(((at - us) / SECOND_US).into(), 0)),
                "timezone_hour" if zoned => Some(Field::Number(((at - us) / (3_600 * SECOND_US)).into(), 0)),
                "timezone_minute" if zoned => Some(Field::Number(((at - us) / (60 * SECOND_US) % 60).into(), 0)),
                _ => time_field(&name, at.rem_euclid(DAY_US)).or_else(|| date_field(&name, at)),
            }
        }
        _ => None,
    };
    let known = field.is_some() || interval_field(&name, (0, 0, 0)).is_some() || date_field(&name, 0).is_some();
    match field {
        Some(field) => Ok(field),
        None if known || name.starts_with("timezone") => Err(unsupported()),
        None => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("unit \"{name}\" not recognized for type {}", ty.name()),
        )),
    }
}

/// A field of a column of dates that has no digits after the point, if all of the dates are finite.
fn fields_of_dates(args: &[ColumnarValue], of: &DataType) -> Result<Option<ArrayRef>, SqlError> {
    let [ColumnarValue::Scalar(ScalarValue::Utf8View(Some(name))), ColumnarValue::Array(dates)] = args else {
        return Ok(None);
    };
    let name = name.to_lowercase();
    let is_whole = matches!(date_field(&name, 0), Some(Field::Number(_, 0)));
    let (Some(dates), true, DataType::Decimal128(_, 0)) = (dates.as_primitive_opt::<Date32Type>(), is_whole, of) else {
        return Ok(None);
    };
    // What lies under a NULL is a date, too.
    let field = |days: i32| match date_to_us(days).filter(|us| !is_infinite(*us)).and_then(|us| date_field(&name, us)) {
        Some(Field::Number(value, 0)) => Ok(value),
        _ => Err(()),
    };
    let fields: Result<PrimitiveArray<Decimal128Type>, ()> = dates.try_unary(field);
    Ok(fields.ok().map(|fields| Arc::new(fields.with_data_type(of.clone())) as ArrayRef))
}

fn time_field(name: &str, time: i64) -> Option<Field> {
    Some(match name {
        "hour" | "hours" => Field::Number((time / 3_600_000_000).into(), 0),
        "minute" | "minutes" => Field::Number((time / 60_000_000 % 60).into(), 0),
        "second" | "seconds" => Field::Number((time % 60_000_000).into(), 6),
        "millisecond" | "milliseconds" => Field::Number((time % 60_000_000).into(), 3),
        "microsecond" | "microseconds" => Field::Number((time % 60_000_000).into(), 0),
        _ => return None,
    })
}

fn date_field(name: &str, at: i64) -> Option<Field> {
    let days = at.div_euclid(DAY_US);
    let (year, month, day) = civil_from_days(days);
    let weekday = (days + 4).rem_euclid(7);
    // There is no year zero: 1 BC is -1.
    let signed = |year: i64| if year > 0 { year } else { year - 1 };
    let whole = |v: i64| Some(Field::Number(v.into(), 0));
    match name {
        "year" | "years" => whole(signed(year)),
        "month" | "months" => whole(month),
        "day" | "days" => whole(day),
        "quarter" => whole((month - 1) / 3 + 1),
        "decade" => whole(year.div_euclid(10)),
        "century" => whole(if year > 0 { (year + 99) / 100 } else { -((99 - (year - 1)) / 100) }),
        "millennium" => whole(if year > 0 { (year + 999) / 1000 } else { -((999 - (year - 1)) / 1000) }),
        "dow" => whole(weekday),
        "isodow" => whole(if weekday == 0 { 7 } else { weekday }),
        "doy" => whole(days - days_from_civil(year, 1, 1) + 1),
        "week" => whole(iso_week(days).1),
        "isoyear" => whole(signed(iso_week(days).0)),
        "julian" => {
            let time = at.rem_euclid(DAY_US);
            (time == 0).then_some(Field::Number((days + pgrepr::calendar::UNIX_EPOCH_JULIAN).into(), 0))
        }
        _ => None,
    }
}

fn interval_field(name: &str, (months, days, us): Parts) -> Option<Field> {
    let whole = |v: i64| Some(Field::Number(v.into(), 0));
    let months = i64::from(months);
    match name {
        "year" | "years" => whole(months / 12),
        "month" | "months" => whole(months % 12),
        "day" | "days" => whole(days.into()),
        "quarter" => whole(months % 12 / 3 + 1),
        "decade" => whole(months / 120),
        "century" => whole(months / 1_200),
        "millennium" => whole(months / 12_000),
        "hour" | "hours" => whole(us / 3_600_000_000),
        "minute" | "minutes" => whole(us / 60_000_000 % 60),
        "second" | "seconds" => Some(Field::Number((us % 60_000_000).into(), 6)),
        "millisecond" | "milliseconds" => Some(Field::Number((us % 60_000_000).into(), 3)),
        "microsecond" | "microseconds" => whole(us % 60_000_000),
        "epoch" => {
            // A year counts for 365.25 days here, a month for 30.
            let seconds = i128::from(months / 12) * 31_557_600 + i128::from(months % 12) * 2_592_000;
            let seconds = seconds + i128::from(days) * 86_400;
            Some(Field::Number(seconds * 1_000_000 + i128::from(us), 6))
        }
        _ => None,
    }
}

/// The ISO year and week of a day.
pub(crate) fn iso_week(days: i64) -> (i64, i64) {
    // The week belongs to the year of its Thursday.
    let weekday = (days + 3).rem_euclid(7);
    let thursday = days - weekday + 3;
    let (year, ..) = civil_from_days(thursday);
    (year, (thursday - days_from_civil(year, 1, 1)) / 7 + 1)
}

fn truncate(unit: &str, at: i64) -> Result<i64, SqlError> {
    if is_infinite(at) {
        return Ok(at);
    }
    let unit = unit.to_lowercase();
    let day_number = at.div_euclid(DAY_US);
    let (year, month, _) = civil_from_days(day_number);
    let floor = |unit_us: i64| at.div_euclid(unit_us) * unit_us;
    let start = |year: i64, month: i64| days_from_civil(year, month, 1) * DAY_US;
    Ok(match unit.as_str() {
        "microseconds" | "microsecond" => at,
        "milliseconds" | "millisecond" => floor(1_000),
        "second" | "seconds" => floor(SECOND_US),
        "minute" | "minutes" => floor(60 * SECOND_US),
        "hour" | "hours" => floor(3_600 * SECOND_US),
        "day" | "days" => floor(DAY_US),
        "week" | "weeks" => (day_number - (day_number + 3).rem_euclid(7)) * DAY_US,
        "month" | "months" => start(year, month),
        "quarter" => start(year, (month - 1) / 3 * 3 + 1),
        "year" | "years" => start(year, 1),
        "decade" | "decades" => start(year.div_euclid(10) * 10, 1),
        "century" | "centuries" => start((year - 1).div_euclid(100) * 100 + 1, 1),
        "millennium" | "millennia" => start((year - 1).div_euclid(1000) * 1000 + 1, 1),
        _ => {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("unit \"{unit}\" not recognized for type timestamp without time zone"),
            ));
        }
    })
}

fn truncate_interval(unit: &str, (months, days, us): Parts) -> Result<Datum<'static>, SqlError> {
    let unit = unit.to_lowercase();
    let cut = |unit_us: i64| Datum::Interval(months, days, us / unit_us * unit_us);
    let cut_months = |n: i32| Datum::Interval(months / n * n, 0, 0);
    Ok(match unit.as_str() {
        "microseconds" | "microsecond" => cut(1),
        "milliseconds" | "millisecond" => cut(1_000),
        "second" | "seconds" => cut(SECOND_US),
        "minute" | "minutes" => cut(60 * SECOND_US),
        "hour" | "hours" => cut(3_600 * SECOND_US),
        "day" | "days" => Datum::Interval(months, days, 0),
        "month" | "months" => cut_months(1),
        "quarter" => cut_months(3),
        "year" | "years" => cut_months(12),
        "decade" | "decades" => cut_months(120),
        "century" | "centuries" => cut_months(1_200),
        "millennium" | "millennia" => cut_months(12_000),
        _ => {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("unit \"{unit}\" not supported for type interval"),
            ));
        }
    })
}

fn bin((months, days, us): Parts, at: i64, origin: i64) -> Result<Datum<'static>, SqlError> {
    if months != 0 {
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "timestamps cannot be binned into intervals containing months or years",
        ));
    }
    let stride =
        i64::from(days).checked_mul(DAY_US).and_then(|d| d.checked_add(us)).ok_or_else(interval_out_of_range)?;
    if stride <= 0 {
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "stride must be greater than zero"));
    }
    if is_infinite(at) {
        return Ok(Datum::Timestamp(at));
    }
    if is_infinite(origin) {
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "origin out of range"));
    }
    let since = at.checked_sub(origin).ok_or_else(out_of_range)?;
    timestamp(origin.checked_add(since.div_euclid(stride) * stride))
}

fn declare_zones(library: &mut Library) {
    library.add("timezone(text, timestamp) timestamptz", |_, a| zoned(text(a, 0), us(&a[1]), TimeZone::to_utc));
    library.add("timezone(text, timestamptz) timestamp", |_, a| zoned(text(a, 0), us(&a[1]), TimeZone::to_local));
    library.add("timezone(interval, timestamp) timestamptz", |_, a| {
        timestamp(us(&a[1]).checked_sub(zone_offset(parts(&a[0]))?))
    });
    library.add("timezone(interval, timestamptz) timestamp", |_, a| {
        timestamp(us(&a[1]).checked_add(zone_offset(parts(&a[0]))?))
    });
}

/// An interval as a time zone: hours east of UTC.
fn zone_offset((months, days, us): Parts) -> Result<i64, SqlError> {
    if months != 0 || days != 0 {
        let mut shown = Vec::new();
        let interval = Datum::Interval(months, days, us);
        pgrepr::text::encode_text(&PgType::Interval, &interval, &pgrepr::options::EncodeOptions::default(), &mut shown);
        let message =
            format!("interval time zone \"{}\" must not include months or days", String::from_utf8_lossy(&shown));
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    Ok(us)
}

fn zoned(name: &str, at: i64, convert: fn(&TimeZone, i64) -> Option<i64>) -> Result<Datum<'static>, SqlError> {
    let zone = super::session::time_zone(name)?;
    if is_infinite(at) { Ok(Datum::Timestamp(at)) } else { timestamp(convert(&zone, at)) }
}

fn declare_making(library: &mut Library) {
    library.add("make_date(int4, int4, int4) date", |_, a| {
        Ok(Datum::Date(checked_days(int(a, 0), int(a, 1), int(a, 2))?))
    });
    library.add("make_time(int4, int4, float8) time", |_, a| {
        Ok(Datum::Time(checked_time(int(a, 0), int(a, 1), float(a, 2))?))
    });
    library.add("make_timestamp(int4, int4, int4, int4, int4, float8) timestamp", |_, a| {
        timestamp(Some(made_timestamp(a)?))
    });
    library.add("make_timestamptz(int4, int4, int4, int4, int4, float8) timestamptz !session", |call, a| {
        timestamp(utc(call, made_timestamp(a)?))
    });
    library.add("make_timestamptz(int4, int4, int4, int4, int4, float8, text) timestamptz", |_, a| {
        // A number counts eastward, as in a timestamp's text, and not as in the name of a zone.
        match text(a, 6) {
            offset if offset.starts_with(['+', '-']) || offset.starts_with(|c: char| c.is_ascii_digit()) => {
                let east = i64::from(pgrepr::datetime::parse::offset(offset)?) * 1_000_000;
                timestamp(made_timestamp(a)?.checked_sub(east))
            }
            zone => zoned(zone, made_timestamp(a)?, TimeZone::to_utc),
        }
    });
    library.add("to_timestamp(float8) timestamptz", |_, a| {
        let us = (float(a, 0) * 1e6).round_ties_even();
        timestamp((us.abs() < 9.2e18).then_some(us as i64))
    });
}

/// Microseconds of a year, month, day, hour, minute and second.
fn made_timestamp(a: &[Datum<'_>]) -> Result<i64, SqlError> {
    let days = checked_days(int(a, 0), int(a, 1), int(a, 2))?;
    let time = checked_time(int(a, 3), int(a, 4), float(a, 5))?;
    date_to_us(days).and_then(|us| us.checked_add(time)).ok_or_else(out_of_range)
}

fn checked_days(year: i64, month: i64, day: i64) -> Result<i32, SqlError> {
    let civil = if year < 0 { year + 1 } else { year };
    let valid = year != 0 && (1..=12).contains(&month) && day >= 1 && day <= days_in_month(civil, month);
    if !valid {
        return Err(SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("date field value out of range: {year}-{month:02}-{day:02}"),
        ));
    }
    match date(days_from_civil(civil, month, day))? {
        Datum::Date(days) => Ok(days),
        _ => Err(date_out_of_range()),
    }
}

fn checked_time(hour: i64, minute: i64, second: f64) -> Result<i64, SqlError> {
    let us = (second * 1e6).round_ties_even();
    let valid = (0..=24).contains(&hour) && (0..60).contains(&minute) && (0.0..=60.0).contains(&second);
    let total = hour * 3_600_000_000 + minute * 60_000_000 + us as i64;
    if valid && total <= DAY_US {
        return Ok(total);
    }
    Err(SqlError::new(
        SqlState::DATETIME_FIELD_OVERFLOW,
        format!("time field value out of range: {hour}:{minute:02}:{second:02}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::fields_of_dates;
    use arrow::array::{ArrayRef, AsArray, Date32Array};
    use arrow::datatypes::{DataType, Decimal128Type};
    use datafusion::common::ScalarValue;
    use datafusion::logical_expr::ColumnarValue;
    use std::sync::Arc;

    #[test]
    fn columns_of_dates_have_whole_fields() {
        let fields = |name: &str, dates: &[Option<i32>]| -> Option<ArrayRef> {
            let name = ColumnarValue::Scalar(ScalarValue::Utf8View(Some(name.to_owned())));
            let dates = ColumnarValue::Array(Arc::new(Date32Array::from(dates.to_vec())));
            fields_of_dates(&[name, dates], &DataType::Decimal128(38, 0)).expect("nothing is wrong")
        };
        let dates = [Some(0), None, Some(-719_163), Some(10_957)];
        let numbers = |name| {
            let fields = fields(name, &dates).expect("it is a whole field of finite dates");
            fields.as_primitive::<Decimal128Type>().iter().collect::<Vec<_>>()
        };
        // 1970-01-01, 0001-12-31 BC and 2000-01-01 on PostgreSQL 15.
        assert_eq!(numbers("year"), [Some(1970), None, Some(-1), Some(2000)]);
        assert_eq!(numbers("MONTH"), [Some(1), None, Some(12), Some(1)]);
        assert_eq!(numbers("isodow"), [Some(4), None, Some(7), Some(6)]);
        // What is wrong, infinite or no whole number is another body's.
        assert!(fields("year", &[Some(i32::MAX)]).is_none());
        assert!(fields("epoch", &dates).is_none());
        assert!(fields("hour", &dates).is_none());
        assert!(fields("nothing", &dates).is_none());
    }
}
