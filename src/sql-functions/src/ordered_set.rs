//! What ordered-set aggregates make of the values of a group: percentiles, the most frequent value, and the place that a value
//! would have.
//!
//! The values come as a list, in any order and with NULLs among them. A flag says whether the order is descending.

use super::call::Call;
use super::interval::{add, negate, parts, scale};
use super::library::Library;
use super::order::{compare, compare_nulls_last, item_type};
use super::{boolean, float, list};
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use repr::{Datum, PgType};
use std::cmp::Ordering;

/// Declares the functions of this file.
pub fn declare(library: &mut Library) {
    for ty in ["float8", "interval"] {
        library.add(&format!("percentile_cont({ty}[], float8, bool) {ty}"), |call, a| {
            between(&sorted(call, a, boolean(a, 2)), float(a, 1))
        });
        library.add(&format!("percentile_cont({ty}[], float8[], bool) {ty}[]"), |call, a| {
            each_fraction(&sorted(call, a, boolean(a, 2)), list(a, 1), between)
        });
    }
    library.add("percentile_disc(anyarray, float8, bool) anyelement", |call, a| {
        at_fraction(&sorted(call, a, boolean(a, 2)), float(a, 1))
    });
    library.add("percentile_disc(anyarray, float8[], bool) anyarray", |call, a| {
        each_fraction(&sorted(call, a, boolean(a, 2)), list(a, 1), at_fraction)
    });
    library.add("mode(anyarray, bool) anyelement", |call, a| {
        let values = sorted(call, a, boolean(a, 1));
        let runs = values.chunk_by(|x, y| compare(item_type(call, 0), x, y) == Some(Ordering::Equal));
        // The first of those that are equally frequent.
        let best = runs.rev().max_by_key(|run| run.len());
        Ok(best.and_then(|run| run.first()).cloned().unwrap_or(Datum::Null))
    });
    library.add("hypothetical_rank(anyarray, anyelement, bool, bool) int8 !null", |call, a| {
        let before = before(call, a).filter(|order| *order == Ordering::Less).count();
        Ok(Datum::Int8(before as i64 + 1))
    });
    library.add("hypothetical_dense_rank(anyarray, anyelement, bool, bool) int8 !null", |call, a| {
        let mut values: Vec<&Datum<'_>> =
            list(a, 0).iter().filter(|value| place(call, a, value) == Ordering::Less).collect();
        values.sort_by(|x, y| compare_nulls_last(item_type(call, 0), x, y));
        values.dedup_by(|x, y| compare_nulls_last(item_type(call, 0), x, y) == Ordering::Equal);
        Ok(Datum::Int8(values.len() as i64 + 1))
    });
    library.add("hypothetical_percent_rank(anyarray, anyelement, bool, bool) float8 !null", |call, a| {
        let (count, less) = (list(a, 0).len(), before(call, a).filter(|order| *order == Ordering::Less).count());
        Ok(Datum::Float8(if count == 0 { 0.0 } else { less as f64 / count as f64 }))
    });
    library.add("hypothetical_cume_dist(anyarray, anyelement, bool, bool) float8 !null", |call, a| {
        let up_to = before(call, a).filter(|order| *order != Ordering::Greater).count();
        Ok(Datum::Float8((up_to + 1) as f64 / (list(a, 0).len() + 1) as f64))
    });
}

/// The values that are not NULL, in order.
fn sorted(call: &Call<'_>, a: &[Datum<'_>], descending: bool) -> Vec<Datum<'static>> {
    let mut values: Vec<Datum<'static>> =
        list(a, 0).iter().filter(|value| !value.is_null()).cloned().map(Datum::into_owned).collect();
    values.sort_by(|x, y| {
        let order = compare_nulls_last(item_type(call, 0), x, y);
        if descending { order.reverse() } else { order }
    });
    values
}

/// Where each value is, seen from the hypothetical one.
fn before<'a>(call: &'a Call<'_>, a: &'a [Datum<'_>]) -> impl Iterator<Item = Ordering> + 'a {
    list(a, 0).iter().map(move |value| place(call, a, value))
}

/// Where a value is, seen from the hypothetical one: DESC and NULLS FIRST are flags behind it.
fn place(call: &Call<'_>, a: &[Datum<'_>], value: &Datum<'_>) -> Ordering {
    let (descending, nulls_first) = (boolean(a, 2), boolean(a, 3));
    match (value.is_null(), a[1].is_null()) {
        (false, false) if descending => compare_nulls_last(item_type(call, 0), &a[1], value),
        (false, false) => compare_nulls_last(item_type(call, 0), value, &a[1]),
        (x, y) if nulls_first => y.cmp(&x),
        (x, y) => x.cmp(&y),
    }
}

fn each_fraction(
    values: &[Datum<'static>],
    fractions: &[Datum<'_>],
    of: fn(&[Datum<'static>], f64) -> Result<Datum<'static>, SqlError>,
) -> Result<Datum<'static>, SqlError> {
    if values.is_empty() {
        return Ok(Datum::Null);
    }
    let found = fractions.iter().map(|fraction| match fraction {
        Datum::Float8(fraction) => of(values, *fraction),
        _ => Ok(Datum::Null),
    });
    found.collect::<Result<_, _>>().map(Datum::List)
}

fn check_fraction(fraction: f64) -> Result<(), SqlError> {
    if (0.0..=1.0).contains(&fraction) {
        return Ok(());
    }
    let message = format!("percentile value {fraction} is not between 0 and 1");
    Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message))
}

/// The first value that so much of the group is not behind.
fn at_fraction(values: &[Datum<'static>], fraction: f64) -> Result<Datum<'static>, SqlError> {
    check_fraction(fraction)?;
    let row = (fraction * values.len() as f64).ceil() as usize;
    Ok(values.get(row.max(1) - 1).cloned().unwrap_or(Datum::Null))
}

/// The value at a fraction of the way from the first to the last, between two of them if need be.
fn between(values: &[Datum<'static>], fraction: f64) -> Result<Datum<'static>, SqlError> {
    check_fraction(fraction)?;
    let Some(last) = values.len().checked_sub(1) else { return Ok(Datum::Null) };
    let at = fraction * last as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    let rest = at - at.floor();
    match (&values[low], &values[high]) {
        (low_value, _) if low == high => Ok(low_value.clone()),
        (Datum::Float8(low), Datum::Float8(high)) => Ok(Datum::Float8(low + rest * (high - low))),
        (low, high) => {
            let difference = add(parts(high), negate(parts(low))?)?;
            add(parts(&scale(parts(&difference), rest)?), parts(low))
        }
    }
}

/// The functions that these calls become, and whether the direct argument is a hypothetical value.
pub fn function(name: &str) -> Option<(&'static str, bool)> {
    Some(match name {
        "percentile_cont" => ("percentile_cont", false),
        "percentile_disc" => ("percentile_disc", false),
        "mode" => ("mode", false),
        "rank" => ("hypothetical_rank", true),
        "dense_rank" => ("hypothetical_dense_rank", true),
        "percent_rank" => ("hypothetical_percent_rank", true),
        "cume_dist" => ("hypothetical_cume_dist", true),
        _ => return None,
    })
}

/// The type of the values that a percentile is taken between.
pub fn continuous(ty: &PgType) -> PgType {
    if *ty == PgType::Interval { PgType::Interval } else { PgType::Float8 }
}
