//! json and jsonb, which are stored as text: field access and the functions that need no more than a parse.

use super::registry::Library;
use super::row::Call;
use super::{int, list, new_text, text};
use crate::error::SqlError;
use repr::sqlstate::SqlState;
use repr::Datum;
use serde_json::Value;

/// Declares the functions of this file.
pub fn declare(library: &mut Library) {
    for ty in ["json", "jsonb"] {
        library.add(&format!("->({ty}, text) {ty}"), |call, a| Ok(shown(field(a)?, call)));
        library.add(&format!("->({ty}, int4) {ty}"), |call, a| Ok(shown(element(a)?, call)));
        library.add(&format!("->>({ty}, text) text"), |_, a| Ok(as_text(field(a)?)));
        library.add(&format!("->>({ty}, int4) text"), |_, a| Ok(as_text(element(a)?)));
        library.add(&format!("#>({ty}, text[]) {ty}"), |call, a| Ok(shown(path(a)?, call)));
        library.add(&format!("#>>({ty}, text[]) text"), |_, a| Ok(as_text(path(a)?)));
        library.add(&format!("{ty}_typeof({ty}) text"), |_, a| Ok(new_text(type_name(&parse(text(a, 0))?))));
        library.add(&format!("{ty}_array_length({ty}) int4"), |_, a| match parse(text(a, 0))? {
            Value::Array(items) => Ok(Datum::Int4(items.len() as i32)),
            Value::Object(_) => Err(wrong("cannot get array length of a non-array")),
            _ => Err(wrong("cannot get array length of a scalar")),
        });
        library.add(&format!("{ty}_array_elements({ty}) setof {ty}"), |call, a| elements(call, a));
        library.add(&format!("{ty}_array_elements_text({ty}) setof text"), |_, a| {
            Ok(Datum::List(array_items(a)?.into_iter().map(|item| as_text(Some(item))).collect()))
        });
        library.add(&format!("{ty}_object_keys({ty}) setof text"), |_, a| match parse(text(a, 0))? {
            Value::Object(fields) => Ok(Datum::List(fields.keys().map(|key| new_text(key.clone())).collect())),
            Value::Array(_) => Err(wrong("cannot call json_object_keys on an array")),
            _ => Err(wrong("cannot call json_object_keys on a scalar")),
        });
    }
    library.add("?(jsonb, text) bool", |_, a| {
        Ok(Datum::Bool(match parse(text(a, 0))? {
            Value::Object(fields) => fields.contains_key(text(a, 1)),
            Value::Array(items) => items.iter().any(|item| item.as_str() == Some(text(a, 1))),
            Value::String(value) => value == text(a, 1),
            _ => false,
        }))
    });
    library.add("@>(jsonb, jsonb) bool", |_, a| Ok(Datum::Bool(contains(&parse(text(a, 0))?, &parse(text(a, 1))?, true))));
    library.add("<@(jsonb, jsonb) bool", |_, a| Ok(Datum::Bool(contains(&parse(text(a, 1))?, &parse(text(a, 0))?, true))));
}

fn wrong(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn parse(whole: &str) -> Result<Value, SqlError> {
    serde_json::from_str(whole).map_err(|_| {
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json")
    })
}

fn field(a: &[Datum<'_>]) -> Result<Option<Value>, SqlError> {
    Ok(match parse(text(a, 0))? {
        Value::Object(mut fields) => fields.shift_remove(text(a, 1)),
        _ => None,
    })
}

fn element(a: &[Datum<'_>]) -> Result<Option<Value>, SqlError> {
    Ok(match parse(text(a, 0))? {
        Value::Array(items) => nth(items, int(a, 1)),
        _ => None,
    })
}

/// Negative positions count from the end.
fn nth(mut items: Vec<Value>, n: i64) -> Option<Value> {
    let at = if n < 0 { items.len() as i64 + n } else { n };
    let at = usize::try_from(at).ok().filter(|at| *at < items.len())?;
    Some(items.swap_remove(at))
}

fn path(a: &[Datum<'_>]) -> Result<Option<Value>, SqlError> {
    let mut current = parse(text(a, 0))?;
    for step in list(a, 1) {
        let Datum::Text(step) = step else { return Ok(None) };
        let next = match current {
            Value::Object(mut fields) => fields.shift_remove(step.as_ref()),
            Value::Array(items) => step.parse().ok().and_then(|n| nth(items, n)),
            _ => None,
        };
        match next {
            Some(next) => current = next,
            None => return Ok(None),
        }
    }
    Ok(Some(current))
}

/// A value as jsonb prints it, with a blank after each comma and colon; json keeps its own text where it can.
fn shown(value: Option<Value>, call: &Call<'_>) -> Datum<'static> {
    let is_json = call.args.first() == Some(&repr::PgType::Json);
    value.map_or(Datum::Null, |value| new_text(if is_json { value.to_string() } else { print(&value) }))
}

fn print(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(print).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(key, value)| format!("{}: {}", Value::from(key.as_str()), print(value))).collect();
            format!("{{{}}}", fields.join(", "))
        }
        scalar => scalar.to_string(),
    }
}

fn as_text(value: Option<Value>) -> Datum<'static> {
    match value {
        None | Some(Value::Null) => Datum::Null,
        Some(Value::String(text)) => new_text(text),
        Some(other) => new_text(print(&other)),
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn array_items(a: &[Datum<'_>]) -> Result<Vec<Value>, SqlError> {
    match parse(text(a, 0))? {
        Value::Array(items) => Ok(items),
        Value::Object(_) => Err(wrong("cannot extract elements from an object")),
        _ => Err(wrong("cannot extract elements from a scalar")),
    }
}

fn elements(call: &Call<'_>, a: &[Datum<'_>]) -> Result<Datum<'static>, SqlError> {
    Ok(Datum::List(array_items(a)?.into_iter().map(|item| shown(Some(item), call)).collect()))
}

/// jsonb's containment; at the top, an array also contains a bare scalar.
fn contains(outer: &Value, inner: &Value, top: bool) -> bool {
    match (outer, inner) {
        (Value::Object(outer), Value::Object(inner)) => {
            inner.iter().all(|(key, value)| outer.get(key).is_some_and(|o| contains(o, value, false)))
        }
        (Value::Array(outer), Value::Array(inner)) => {
            inner.iter().all(|value| outer.iter().any(|o| contains(o, value, false)))
        }
        (Value::Array(outer), scalar) if top && !scalar.is_object() => outer.contains(scalar),
        (outer, inner) => outer == inner,
    }
}
