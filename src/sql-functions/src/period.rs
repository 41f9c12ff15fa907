//! OVERLAPS: whether two periods have a moment in common.
//!
//! A period is two moments in any order, or a moment and how long it lasts; its end belongs to it only if it is its start, too.

use super::call::Call;
use super::datetime::{shift, shift_zoned, us};
use super::interval::parts;
use super::library::Library;
use engine::error::SqlError;
use pgrepr::calendar::DAY_US;
use repr::{Datum, PgType};

/// Declares the functions of this file.
pub(crate) fn declare(library: &mut Library) {
    for (moment, session) in [("timestamptz", " !session"), ("timestamp", ""), ("time", "")] {
        for first in [moment, "interval"] {
            for second in [moment, "interval"] {
                let declaration = format!("overlaps({moment}, {first}, {moment}, {second}) bool !null{session}");
                library.add(&declaration, |call, a| {
                    let (first, second) = (period(call, a, 0)?, period(call, a, 2)?);
                    Ok(overlap(first, second).map_or(Datum::Null, Datum::Bool))
                });
            }
        }
    }
}

/// A start, and an end that is not before it, or that is not known; `None` of a period of which nothing is known.
type Period = Option<(i64, Option<i64>)>;

/// What the arguments `i` and `i + 1` say.
fn period(call: &Call<'_>, a: &[Datum<'_>], i: usize) -> Result<Period, SqlError> {
    let moment = |value: &Datum<'_>| (!value.is_null()).then(|| us(value));
    let start = moment(&a[i]);
    let end = match (&a[i + 1], start) {
        (Datum::Interval(..), Some(start)) => Some(after(call, i, start, &a[i + 1])?),
        (Datum::Interval(..), None) => None,
        (end, _) => moment(end),
    };
    Ok(match (start, end) {
        (Some(start), Some(end)) => Some((start.min(end), Some(start.max(end)))),
        (start, end) => start.or(end).map(|known| (known, None)),
    })
}

/// A moment of the type of argument `i`, an interval later.
fn after(call: &Call<'_>, i: usize, start: i64, interval: &Datum<'_>) -> Result<i64, SqlError> {
    let interval = parts(interval);
    match call.args.get(i) {
        Some(PgType::Time) => Ok((start + interval.2.rem_euclid(DAY_US)).rem_euclid(DAY_US)),
        Some(PgType::Timestamptz) => Ok(us(&shift_zoned(call, start, interval)?)),
        _ => shift(start, interval).ok_or_else(super::datetime::out_of_range),
    }
}

/// `None` if what is not known decides.
fn overlap(first: Period, second: Period) -> Option<bool> {
    let (mut early, mut late) = (first?, second?);
    if early.0 == late.0 {
        return early.1.and(late.1).map(|_| true);
    }
    if early.0 > late.0 {
        std::mem::swap(&mut early, &mut late);
    }
    match (early.1, late.1) {
        (Some(end), _) if late.0 < end => Some(true),
        (Some(_), Some(_)) => Some(false),
        _ => None,
    }
}
