//! Buckets of time: units, and granularities of a model's own.
//!
//! All buckets of a granularity are of one length, in months or in time that passes, and begin at an origin; without one they begin
//! where the longer unit does that they divide, so that any beginning of one will do.

use super::instances::Instances;
use chrono::{Days, Months, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta};
use chrono_tz::Tz;
use engine::error::SqlError;
use repr::{Datum, PgType};
use semantic::model::dimension::{Granularity, Origin};
use semantic::model::interval::{Interval, Unit};
use semantic::model::reference::Bucket;
use sql_functions::TypedExpr;

/// How long buckets are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Months(i32),
    /// In seconds.
    Time(i64),
}

impl Instances<'_, '_, '_> {
    /// The beginning of the bucket that a date or a time is in, in the session's time zone.
    pub(super) fn cut_off(&mut self, value: TypedExpr, bucket: Bucket<'_>) -> Result<TypedExpr, SqlError> {
        match bucket {
            Bucket::Unit(unit) => self.template(trunc(unit), &[("value", value)]),
            Bucket::Own(granularity) => {
                let ty = value.ty.clone();
                let local = self.binder.coercer.explicit(value, &PgType::Timestamp)?;
                let begins = self.begins(local, granularity)?;
                self.binder.coercer.explicit(begins, if ty == PgType::Date { &PgType::Timestamp } else { &ty })
            }
        }
    }

    /// A time as the local one of a zone. What has no zone is of Greenwich, as for Cube.
    pub(super) fn local(&mut self, value: TypedExpr, zone: Tz) -> Result<TypedExpr, SqlError> {
        let instant = match value.ty {
            PgType::Timestamptz => value,
            _ => {
                let time = self.binder.coercer.explicit(value, &PgType::Timestamp)?;
                if zone == Tz::UTC {
                    return Ok(time);
                }
                self.template("value AT TIME ZONE 'UTC'", &[("value", time)])?
            }
        };
        let zone = TypedExpr::constant(&Datum::Text(zone.name().into()), PgType::Text)?;
        self.template("value AT TIME ZONE zone", &[("value", instant), ("zone", zone)])
    }

    /// The beginning of the bucket of a model's own that a local time is in.
    fn begins(&mut self, local: TypedExpr, granularity: &Granularity) -> Result<TypedExpr, SqlError> {
        let origin = origin(granularity).and_utc().timestamp_micros();
        let origin = TypedExpr::constant(&Datum::Timestamp(origin), PgType::Timestamp)?;
        let number = |number: f64| TypedExpr::constant(&Datum::Float8(number), PgType::Float8);
        match length(&granularity.interval) {
            Some(Length::Time(seconds)) => {
                #[expect(clippy::cast_precision_loss, reason = "as many seconds as a model writes are exact")]
                let seconds = number(seconds as f64)?;
                let values = [("seconds", seconds), ("value", local), ("origin", origin)];
                self.template("date_bin(seconds * interval '1 second', value, origin)", &values)
            }
            Some(Length::Months(months)) => {
                let between = "(12 * (extract(year FROM value) - extract(year FROM origin)) \
                               + extract(month FROM value) - extract(month FROM origin))::float8";
                let begun = self.template(between, &[("value", local.clone()), ("origin", origin.clone())])?;
                let values =
                    [("begun", begun), ("value", local), ("origin", origin), ("length", number(f64::from(months))?)];
                let whole = "origin + length * floor((begun - CASE WHEN origin + begun * interval '1 month' > value \
                             THEN 1 ELSE 0 END) / length) * interval '1 month'";
                self.template(whole, &values)
            }
            None => {
                let name = &granularity.name;
                Err(SqlError::unsupported(format!("granularity \"{name}\" of months and a shorter time together")))
            }
        }
    }
}

fn trunc(unit: Unit) -> &'static str {
    match unit {
        Unit::Second => "date_trunc('second', value)",
        Unit::Minute => "date_trunc('minute', value)",
        Unit::Hour => "date_trunc('hour', value)",
        Unit::Day => "date_trunc('day', value)",
        Unit::Week => "date_trunc('week', value)",
        Unit::Month => "date_trunc('month', value)",
        Unit::Quarter => "date_trunc('quarter', value)",
        Unit::Year => "date_trunc('year', value)",
    }
}

/// None of months and a shorter time together: such buckets have no one length.
fn length(interval: &Interval) -> Option<Length> {
    let (mut months, mut seconds) = (0_i32, 0_i64);
    for (number, unit) in &interval.0 {
        match in_months(*unit) {
            Some(each) => months = months.checked_add(number.checked_mul(each)?)?,
            None => seconds = seconds.checked_add(i64::from(*number) * in_seconds(*unit))?,
        }
    }
    match (months, seconds) {
        (months, 0) if months > 0 => Some(Length::Months(months)),
        (0, seconds) if seconds > 0 => Some(Length::Time(seconds)),
        _ => None,
    }
}

fn in_months(unit: Unit) -> Option<i32> {
    match unit {
        Unit::Month => Some(1),
        Unit::Quarter => Some(3),
        Unit::Year => Some(12),
        Unit::Second | Unit::Minute | Unit::Hour | Unit::Day | Unit::Week => None,
    }
}

fn in_seconds(unit: Unit) -> i64 {
    match unit {
        Unit::Minute => 60,
        Unit::Hour => 3_600,
        Unit::Day => 86_400,
        Unit::Week => 7 * 86_400,
        Unit::Second | Unit::Month | Unit::Quarter | Unit::Year => 1,
    }
}

/// A beginning of a bucket. 2000 began a year, a month, a day and an hour; its first Monday was the third of January.
fn origin(granularity: &Granularity) -> NaiveDateTime {
    let offset = match &granularity.origin {
        Origin::At(time) => return *time,
        Origin::Offset(offset) => offset.as_ref(),
    };
    let is_weeks = granularity.interval.0.iter().any(|(_, unit)| *unit == Unit::Week);
    let day = NaiveDate::from_ymd_opt(2000, 1, if is_weeks { 3 } else { 1 }).unwrap_or_default();
    let begins = day.and_time(NaiveTime::MIN);
    offset.and_then(|offset| after(begins, offset)).unwrap_or(begins)
}

/// A time so much later.
fn after(time: NaiveDateTime, interval: &Interval) -> Option<NaiveDateTime> {
    interval.0.iter().try_fold(time, |time, (number, unit)| match (in_months(*unit), unit) {
        (Some(each), _) => {
            let months = number.checked_mul(each)?;
            let size = Months::new(months.unsigned_abs());
            if months < 0 { time.checked_sub_months(size) } else { time.checked_add_months(size) }
        }
        (None, Unit::Day | Unit::Week) => {
            let days = i64::from(*number) * in_seconds(*unit) / 86_400;
            let size = Days::new(days.unsigned_abs());
            if days < 0 { time.checked_sub_days(size) } else { time.checked_add_days(size) }
        }
        (None, _) => time.checked_add_signed(TimeDelta::try_seconds(i64::from(*number) * in_seconds(*unit))?),
    })
}
