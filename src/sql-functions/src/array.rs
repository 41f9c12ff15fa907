//! One-dimensional arrays: their making, subscripts from 1, comparisons with ANY and ALL, and functions on them.

use super::lengths::{check_length, size};
use super::library::Library;
use super::order::{compare, compare_nulls_last, equal, item_type, not_distinct};
use super::{boolean, bytes, int, list, new_text, text};
use crate::call::{Call, ELEMENTS_MAX};
use crate::types::{self, is_stringlike};
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use repr::{Datum, PgType};
use std::cmp::Ordering;

/// Declares the functions of this file.
#[expect(clippy::too_many_lines, reason = "a list of declarations")]
pub(crate) fn declare(library: &mut Library) {
    library.add("make_array(variadic anyelement) anyarray !null !hidden", |_, a| {
        Ok(Datum::List(a.iter().cloned().map(Datum::into_owned).collect()))
    });
    library.add("single_value(anyarray) anyelement !hidden", |_, a| match list(a, 0) {
        [] => Ok(Datum::Null),
        [one] => Ok(one.clone().into_owned()),
        _ => Err(SqlError::new(
            SqlState::CARDINALITY_VIOLATION,
            "more than one row returned by a subquery used as an expression",
        )),
    });
    library.add("array_or_empty(anyarray) anyarray !null", |_, a| {
        Ok(if a[0].is_null() { Datum::List(Vec::new()) } else { a[0].clone().into_owned() })
    });
    library.add("array_subscript(anyarray, int4) anyelement", |_, a| {
        let index = usize::try_from(int(a, 1) - 1).ok();
        Ok(index.and_then(|i| list(a, 0).get(i)).cloned().map_or(Datum::Null, Datum::into_owned))
    });
    // Of the lists of the catalogs, which are counted from 0.
    library.add("vector_array_subscript(anyarray, int4) anyelement", |_, a| {
        let index = usize::try_from(int(a, 1)).ok();
        Ok(index.and_then(|i| list(a, 0).get(i)).cloned().map_or(Datum::Null, Datum::into_owned))
    });
    library.add("vector_generate_subscripts(anyarray, int4) setof int4", |_, a| {
        let length = if int(a, 1) == 1 { list(a, 0).len() } else { 0 };
        Ok(Datum::List((0..length as i32).map(Datum::Int4).collect()))
    });
    library.add("vector_array_lower(anyarray, int4) int4", |_, a| {
        Ok(if int(a, 1) == 1 && !list(a, 0).is_empty() { Datum::Int4(0) } else { Datum::Null })
    });
    library.add("vector_array_upper(anyarray, int4) int4", |_, a| {
        let length = list(a, 0).len();
        Ok(if int(a, 1) == 1 && length > 0 { Datum::Int4(length as i32 - 1) } else { Datum::Null })
    });
    library.add("array_slice(anyarray, int4, int4) anyarray", slice);
    library.add("array_length(anyarray, int4) int4", |_, a| {
        let length = list(a, 0).len();
        Ok(if int(a, 1) == 1 && length > 0 { Datum::Int4(length as i32) } else { Datum::Null })
    });
    library.add("array_upper(anyarray, int4) int4", |_, a| {
        let length = list(a, 0).len();
        Ok(if int(a, 1) == 1 && length > 0 { Datum::Int4(length as i32) } else { Datum::Null })
    });
    library.add("array_lower(anyarray, int4) int4", |_, a| {
        Ok(if int(a, 1) == 1 && !list(a, 0).is_empty() { Datum::Int4(1) } else { Datum::Null })
    });
    library
        .add("array_ndims(anyarray) int4", |_, a| Ok(if list(a, 0).is_empty() { Datum::Null } else { Datum::Int4(1) }));
    library.add("array_dims(anyarray) text", |_, a| {
        let length = list(a, 0).len();
        Ok(if length == 0 { Datum::Null } else { new_text(format!("[1:{length}]")) })
    });
    library.add("trim_array(anyarray, int4) anyarray", |_, a| {
        let (items, count) = (list(a, 0), int(a, 1));
        match usize::try_from(count).ok().and_then(|count| items.len().checked_sub(count)) {
            Some(kept) => Ok(Datum::List(owned(&items[..kept]))),
            None => {
                let message = format!("number of elements to trim must be between 0 and {}", items.len());
                Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message))
            }
        }
    });
    library.add("array_fill(anyelement, int4[]) anyarray !null !long", fill);
    library.add("array_fill(anyelement, int4[], int4[]) anyarray !null !long", |call, a| match list(a, 2) {
        [] | [Datum::Int4(1)] if !a[2].is_null() => fill(call, a),
        bounds if a[2].is_null() || bounds.iter().any(Datum::is_null) => {
            Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "dimension array or low bound array cannot be null"))
        }
        _ => Err(SqlError::unsupported("an array that does not begin at 1")),
    });
    library.add("cardinality(anyarray) int4", |_, a| Ok(Datum::Int4(list(a, 0).len() as i32)));
    library.add("array_append(anyarray, anyelement) anyarray !null", |_, a| {
        let mut items = owned(list(a, 0));
        items.push(a[1].clone().into_owned());
        Ok(Datum::List(items))
    });
    library.add("array_prepend(anyelement, anyarray) anyarray !null", |_, a| {
        let mut items = vec![a[0].clone().into_owned()];
        items.extend(owned(list(a, 1)));
        Ok(Datum::List(items))
    });
    library.add("array_cat(anyarray, anyarray) anyarray !null", |_, a| {
        if a[0].is_null() && a[1].is_null() {
            return Ok(Datum::Null);
        }
        let mut items = owned(list(a, 0));
        items.extend(owned(list(a, 1)));
        Ok(Datum::List(items))
    });
    library.add("array_position(anyarray, anyelement) int4 !null", |call, a| {
        let at = list(a, 0).iter().position(|item| not_distinct(item_type(call, 0), item, &a[1]));
        Ok(at.map_or(Datum::Null, |at| Datum::Int4(at as i32 + 1)))
    });
    library.add("array_position(anyarray, anyelement, int4) int4 !null", |call, a| {
        if a[2].is_null() {
            return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "initial position must not be null"));
        }
        let before = usize::try_from(int(a, 2) - 1).unwrap_or(0);
        let mut items = list(a, 0).iter().enumerate().skip(before);
        let found = items.find(|(_, item)| not_distinct(item_type(call, 0), item, &a[1]));
        Ok(found.map_or(Datum::Null, |(at, _)| Datum::Int4(at as i32 + 1)))
    });
    library.add("array_positions(anyarray, anyelement) int4[] !null", |call, a| {
        if a[0].is_null() {
            return Ok(Datum::Null);
        }
        let found = list(a, 0).iter().enumerate().filter(|(_, item)| not_distinct(item_type(call, 0), item, &a[1]));
        Ok(Datum::List(found.map(|(i, _)| Datum::Int4(i as i32 + 1)).collect()))
    });
    library.add("array_remove(anyarray, anyelement) anyarray !null", |call, a| {
        if a[0].is_null() {
            return Ok(Datum::Null);
        }
        let kept = list(a, 0).iter().filter(|item| !not_distinct(item_type(call, 0), item, &a[1]));
        Ok(Datum::List(kept.cloned().map(Datum::into_owned).collect()))
    });
    library.add("array_replace(anyarray, anyelement, anyelement) anyarray !null !long", |call, a| {
        if a[0].is_null() {
            return Ok(Datum::Null);
        }
        let is_wanted = |item: &Datum<'_>| not_distinct(item_type(call, 0), item, &a[1]);
        check_length(size(&a[2]).saturating_mul(list(a, 0).iter().filter(|item| is_wanted(item)).count() as i64))?;
        let replace = |item: &Datum<'_>| if is_wanted(item) { a[2].clone() } else { item.clone() }.into_owned();
        Ok(Datum::List(list(a, 0).iter().map(replace).collect()))
    });
    library.add("array_to_string(anyarray, text) text !long", |call, a| join(call, list(a, 0), text(a, 1), None));
    library.add("array_to_string(anyarray, text, text) text !null !long", |call, a| {
        if a[0].is_null() || a[1].is_null() {
            return Ok(Datum::Null);
        }
        let null = if a[2].is_null() { None } else { Some(text(a, 2)) };
        join(call, list(a, 0), text(a, 1), null)
    });
    library.add("string_to_array(text, text) text[] !null", |_, a| string_to_array(a, None));
    library.add("string_to_array(text, text, text) text[] !null", |_, a| {
        string_to_array(a, if a[2].is_null() { None } else { Some(text(a, 2)) })
    });
    library.add("string_agg_list(text[], text) text !null !long", |_, a| {
        let parts: Vec<&str> = list(a, 0)
            .iter()
            .filter_map(|item| match item {
                Datum::Text(text) => Some(text.as_ref()),
                _ => None,
            })
            .collect();
        check_joined(parts.iter().map(|part| part.len()), text(a, 1).len())?;
        Ok(if parts.is_empty() { Datum::Null } else { new_text(parts.join(text(a, 1))) })
    });
    library.add("string_agg_list(bytea[], bytea) bytea !null !long", |_, a| {
        let parts: Vec<&[u8]> = list(a, 0)
            .iter()
            .filter_map(|item| match item {
                Datum::Bytes(bytes) => Some(bytes.as_ref()),
                _ => None,
            })
            .collect();
        check_joined(parts.iter().map(|part| part.len()), bytes(a, 1).len())?;
        Ok(if parts.is_empty() { Datum::Null } else { Datum::Bytes(parts.join(bytes(a, 1)).into()) })
    });
    library.add("array_distinct(anyarray, bool, bool) anyarray", distinct);
    library.add("list_min(anyarray) anyelement", |call, a| Ok(extreme(item_type(call, 0), list(a, 0), Ordering::Less)));
    library
        .add("list_max(anyarray) anyelement", |call, a| Ok(extreme(item_type(call, 0), list(a, 0), Ordering::Greater)));
    library.add("@>(anyarray, anyarray) bool !long", |call, a| {
        Ok(Datum::Bool(contains(item_type(call, 0), list(a, 0), list(a, 1))))
    });
    library.add("<@(anyarray, anyarray) bool !long", |call, a| {
        Ok(Datum::Bool(contains(item_type(call, 0), list(a, 1), list(a, 0))))
    });
    library.add("&&(anyarray, anyarray) bool !long", |call, a| {
        let is_item = |x: &Datum<'_>| list(a, 1).iter().any(|y| equal(item_type(call, 0), x, y));
        let overlap = list(a, 0).iter().any(is_item);
        Ok(Datum::Bool(overlap))
    });
    for op in ["=", "<>", "<", "<=", ">", ">="] {
        library.add(&format!("any{op}(anyelement, anyarray) bool !null"), |call, a| any_all(call, a, false));
        library.add(&format!("all{op}(anyelement, anyarray) bool !null"), |call, a| any_all(call, a, true));
    }
    library.add("greatest(variadic anyelement) anyelement !null", |call, a| {
        Ok(extreme(&call.args[0], a, Ordering::Greater))
    });
    library.add("least(variadic anyelement) anyelement !null", |call, a| Ok(extreme(&call.args[0], a, Ordering::Less)));
    library.add("unnest(anyarray) setof anyelement", |_, a| Ok(a[0].clone().into_owned()));
    library.add("generate_subscripts(anyarray, int4) setof int4", |_, a| {
        let length = if int(a, 1) == 1 { list(a, 0).len() } else { 0 };
        Ok(Datum::List((1..=length as i32).map(Datum::Int4).collect()))
    });
    library.add("generate_subscripts(anyarray, int4, bool) setof int4", |_, a| {
        let length = if int(a, 1) == 1 { list(a, 0).len() as i32 } else { 0 };
        let subscripts = (1..=length).map(|i| if boolean(a, 2) { length + 1 - i } else { i });
        Ok(Datum::List(subscripts.map(Datum::Int4).collect()))
    });
    library.add("_pg_expandarray(anyarray) setof (x anyelement, n int4)", |call, a| {
        Ok(match call.column {
            0 => a[0].clone().into_owned(),
            _ => Datum::List((1..=list(a, 0).len() as i32).map(Datum::Int4).collect()),
        })
    });
    library.add("ordinality(variadic any) setof int8 !null !hidden", |_, a| {
        let lengths = a.iter().map(|set| if let Datum::List(items) = set { items.len() } else { 0 });
        Ok(Datum::List((1..=lengths.max().unwrap_or(0) as i64).map(Datum::Int8).collect()))
    });
    library.add("at_least_one(anyarray, variadic any) anyarray !null !hidden", |_, a| {
        let is_empty = |set: &Datum<'_>| !matches!(set, Datum::List(items) if !items.is_empty());
        Ok(if a.iter().all(is_empty) { Datum::List(vec![Datum::Null]) } else { a[0].clone().into_owned() })
    });
    library.add("generate_series(int4, int4) setof int4", series4);
    library.add("generate_series(int4, int4, int4) setof int4", series4);
    library.add("generate_series(int8, int8) setof int8", series8);
    library.add("generate_series(int8, int8, int8) setof int8", series8);
    library.add("string_to_table(text, text) setof text !null", |_, a| string_to_array(a, None));
    library.add("string_to_table(text, text, text) setof text !null", |_, a| {
        string_to_array(a, if a[2].is_null() { None } else { Some(text(a, 2)) })
    });
    library.add("width_bucket(anyelement, anyarray) int4", |call, a| {
        if list(a, 1).iter().any(Datum::is_null) {
            let message = "thresholds array must not contain NULLs";
            return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
        }
        let below = list(a, 1).partition_point(|low| compare(&call.args[0], low, &a[0]) != Some(Ordering::Greater));
        Ok(Datum::Int4(below as i32))
    });
}

fn owned(items: &[Datum<'_>]) -> Vec<Datum<'static>> {
    items.iter().cloned().map(Datum::into_owned).collect()
}

fn extreme(ty: &PgType, items: &[Datum<'_>], wanted: Ordering) -> Datum<'static> {
    let mut best: Option<&Datum<'_>> = None;
    for item in items.iter().filter(|item| !item.is_null()) {
        if best.is_none_or(|best| compare(ty, item, best) == Some(wanted)) {
            best = Some(item);
        }
    }
    best.cloned().map_or(Datum::Null, Datum::into_owned)
}

fn contains(ty: &PgType, outer: &[Datum<'_>], inner: &[Datum<'_>]) -> bool {
    inner.iter().all(|x| outer.iter().any(|y| equal(ty, x, y)))
}

/// Three-valued: a NULL among the items leaves an undecided answer NULL.
fn any_all(call: &Call<'_>, args: &[Datum<'_>], all: bool) -> Result<Datum<'static>, SqlError> {
    let op = &call.name[3..];
    if args[1].is_null() {
        return Ok(Datum::Null);
    }
    let mut unknown = false;
    for item in list(args, 1) {
        let Some(order) = compare(&call.args[0], &args[0], item) else {
            unknown = true;
            continue;
        };
        let holds = match op {
            "=" => order == Ordering::Equal,
            "<>" => order != Ordering::Equal,
            "<" => order == Ordering::Less,
            "<=" => order != Ordering::Greater,
            ">" => order == Ordering::Greater,
            _ => order != Ordering::Less,
        };
        if holds != all {
            return Ok(Datum::Bool(!all));
        }
    }
    Ok(if unknown { Datum::Null } else { Datum::Bool(all) })
}

/// An array of one value, as long as the second argument's only element says.
fn fill(call: &Call<'_>, a: &[Datum<'_>]) -> Result<Datum<'static>, SqlError> {
    let null = |what: &str| SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, format!("{what} cannot be null"));
    if a[1].is_null() {
        return Err(null("dimension array or low bound array"));
    }
    if list(a, 1).iter().any(Datum::is_null) {
        return Err(null("dimension values"));
    }
    let lengths: Vec<i64> = (0..list(a, 1).len()).map(|at| int(list(a, 1), at)).collect();
    let total = lengths.iter().try_fold(1_i64, |total, length| total.checked_mul(*length));
    if lengths.iter().any(|length| *length < 0) || total.is_none_or(|total| total > ELEMENTS_MAX) {
        let message = format!("array size exceeds the maximum allowed ({ELEMENTS_MAX})");
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    match lengths.as_slice() {
        [] => Ok(Datum::List(Vec::new())),
        [length] => {
            call.check_elements(*length)?;
            call.check_length(size(&a[0]).saturating_mul(*length))?;
            Ok(Datum::List(vec![a[0].clone().into_owned(); usize::try_from(*length).unwrap_or(0)]))
        }
        _ => Err(SqlError::unsupported("an array of more than one dimension")),
    }
}

/// Each value once, in the order that DISTINCT inside of an aggregate leaves: the flags are DESC and NULLS FIRST.
fn distinct(call: &Call<'_>, a: &[Datum<'_>]) -> Result<Datum<'static>, SqlError> {
    let (descending, nulls_first) = (boolean(a, 1), boolean(a, 2));
    let ty = item_type(call, 0);
    let mut items = owned(list(a, 0));
    items.sort_by(|x, y| match (x.is_null(), y.is_null()) {
        (false, false) if descending => compare_nulls_last(ty, y, x),
        (false, false) => compare_nulls_last(ty, x, y),
        (x, y) if nulls_first => y.cmp(&x),
        (x, y) => x.cmp(&y),
    });
    items.dedup_by(|later, kept| not_distinct(ty, later, kept));
    Ok(Datum::List(items))
}

fn slice(_: &Call<'_>, a: &[Datum<'_>]) -> Result<Datum<'static>, SqlError> {
    let items = list(a, 0);
    let (from, to) = (int(a, 1).max(1), int(a, 2).min(items.len() as i64));
    if from > to {
        return Ok(Datum::List(Vec::new()));
    }
    Ok(Datum::List(owned(&items[from as usize - 1..to as usize])))
}

fn join(call: &Call<'_>, items: &[Datum<'_>], delimiter: &str, null: Option<&str>) -> Result<Datum<'static>, SqlError> {
    let item_type = match call.args.first() {
        Some(PgType::Array(item)) => item.as_ref().clone(),
        _ => PgType::Text,
    };
    let mut parts = Vec::new();
    for item in items {
        if item.is_null() {
            parts.extend(null.map(str::to_owned));
        } else {
            parts.push(output(call, item, &item_type)?);
        }
    }
    check_joined(parts.iter().map(String::len), delimiter.len())?;
    Ok(new_text(parts.join(delimiter)))
}

/// Error 54000 if parts of these lengths are too much for one value with a delimiter of that length between them.
fn check_joined(parts: impl Iterator<Item = usize>, delimiter: usize) -> Result<(), SqlError> {
    check_length(parts.map(|part| (part + delimiter) as i64).sum())
}

/// A value as its output function prints it.
pub(crate) fn output(call: &Call<'_>, value: &Datum<'_>, ty: &PgType) -> Result<String, SqlError> {
    if let Datum::Text(text) = value
        && is_stringlike(ty)
    {
        return Ok(text.clone().into_owned());
    }
    if types::is_oidlike(ty) && *ty != PgType::Oid {
        return Ok(crate::cast::to_text(value, ty, &PgType::Text, call.context)?.into_owned());
    }
    let mut out = Vec::new();
    pgrepr::text::encode_text(ty, value, &call.context.options, &mut out);
    String::from_utf8(out.to_vec()).map_err(|_| SqlError::internal("a value's text is not UTF-8"))
}

fn string_to_array(a: &[Datum<'_>], null: Option<&str>) -> Result<Datum<'static>, SqlError> {
    if a[0].is_null() {
        return Ok(Datum::Null);
    }
    let whole = text(a, 0);
    let item = |part: &str| if null == Some(part) { Datum::Null } else { new_text(part) };
    if whole.is_empty() {
        return Ok(Datum::List(Vec::new()));
    }
    if a[1].is_null() {
        return Ok(Datum::List(whole.chars().map(|c| item(c.encode_utf8(&mut [0; 4]))).collect()));
    }
    let delimiter = text(a, 1);
    if delimiter.is_empty() {
        return Ok(Datum::List(vec![item(whole)]));
    }
    Ok(Datum::List(whole.split(delimiter).map(item).collect()))
}

fn series4(call: &Call<'_>, a: &[Datum<'_>]) -> Result<Datum<'static>, SqlError> {
    series(call, a, |v| Datum::Int4(v as i32))
}

fn series8(call: &Call<'_>, a: &[Datum<'_>]) -> Result<Datum<'static>, SqlError> {
    series(call, a, Datum::Int8)
}

fn series(call: &Call<'_>, a: &[Datum<'_>], item: impl Fn(i64) -> Datum<'static>) -> Result<Datum<'static>, SqlError> {
    let (from, to) = (int(a, 0), int(a, 1));
    let step = if a.len() > 2 { int(a, 2) } else { 1 };
    if step == 0 {
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "step size cannot equal zero"));
    }
    let span = if step > 0 { to.checked_sub(from) } else { from.checked_sub(to) };
    let count = match span {
        Some(span) if span < 0 => 0,
        Some(span) => span / step.saturating_abs() + 1,
        None => i64::MAX,
    };
    call.check_elements(count)?;
    let mut out = Vec::with_capacity(count as usize);
    let mut value = from;
    for i in 0..count {
        out.push(item(value));
        if i + 1 < count {
            value += step;
        }
    }
    Ok(Datum::List(out))
}
