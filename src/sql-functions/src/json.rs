//! json and jsonb, which are stored as checked text: access, editing, building.
//!
//! A stored document is valid, so a part of it is found by skipping over values and given as it stands: json keeps its
//! own spelling, and a part of a canonical jsonb is canonical. What is built for jsonb goes through
//! [`canonical_jsonb`], which orders keys and keeps the last of equal ones.
//!
//! # Invariants
//! - The parts below never parse a document twice; they trust that it was checked when it was made.

mod document;
mod each;
mod element;
mod lax;
pub(crate) mod rows;

use self::element::{as_array, element, position};
use super::call::Call;
use super::library::Library;
use super::{boolean, int, list, new_text, text};
use engine::error::SqlError;
use pgrepr::json::{canonical_jsonb, quote_json};
use pgrepr::options::{DateStyle, EncodeOptions, Locale};
use repr::sqlstate::SqlState;
use repr::{Datum, PgType};

/// PostgreSQL's code for an escape that text cannot hold.
const UNTRANSLATABLE_CHARACTER: SqlState = SqlState("22P05");

/// Declares the functions of this file.
pub(crate) fn declare(library: &mut Library) {
    for ty in ["json", "jsonb"] {
        declare_access(library, ty);
        declare_building(library, ty);
        document::declare(library, ty);
        each::declare(library, ty);
    }
    rows::declare(library);
    declare_editing(library);
    library.add("?(jsonb, text) bool", |_, a| Ok(Datum::Bool(has_key(text(a, 0), text(a, 1))?)));
    library.add("?|(jsonb, text[]) bool", |_, a| {
        let keys = texts(list(a, 1)).flatten();
        Ok(Datum::Bool(keys.map(|key| has_key(text(a, 0), key)).collect::<Result<Vec<_>, _>>()?.contains(&true)))
    });
    library.add("?&(jsonb, text[]) bool", |_, a| {
        let keys = texts(list(a, 1)).flatten();
        Ok(Datum::Bool(!keys.map(|key| has_key(text(a, 0), key)).collect::<Result<Vec<_>, _>>()?.contains(&false)))
    });
    library.add("@>(jsonb, jsonb) bool", |_, a| Ok(Datum::Bool(contains(text(a, 0), text(a, 1), true)?)));
    library.add("<@(jsonb, jsonb) bool", |_, a| Ok(Datum::Bool(contains(text(a, 1), text(a, 0), true)?)));
    library.add("array_to_json(anyarray) json", to_json);
    library.add("json_key(any) text", |call, a| Ok(new_text(key_of(call, &call.args[0], &a[0])?)));
}

fn declare_access(library: &mut Library, ty: &str) {
    library.add(&format!("->({ty}, text) {ty}"), |_, a| Ok(part(field(text(a, 0), text(a, 1))?)));
    library.add(&format!("->({ty}, int4) {ty}"), |call, a| {
        Ok(part(element(text(a, 0), int(a, 1)).or_else(|| as_array(call, a))))
    });
    library.add(&format!("->>({ty}, text) text"), |_, a| as_text(field(text(a, 0), text(a, 1))?));
    library.add(&format!("->>({ty}, int4) text"), |call, a| {
        as_text(element(text(a, 0), int(a, 1)).or_else(|| as_array(call, a)))
    });
    for name in ["#>", &format!("{ty}_extract_path")] {
        let more = if name == "#>" { "text[]" } else { "variadic text" };
        library.add(&format!("{name}({ty}, {more}) {ty}"), |_, a| Ok(part(follow(text(a, 0), steps(a))?)));
    }
    for name in ["#>>", &format!("{ty}_extract_path_text")] {
        let more = if name == "#>>" { "text[]" } else { "variadic text" };
        library.add(&format!("{name}({ty}, {more}) text"), |_, a| as_text(follow(text(a, 0), steps(a))?));
    }
    library.add(&format!("{ty}_typeof({ty}) text"), |_, a| Ok(new_text(kind(text(a, 0)).name())));
    library.add(&format!("{ty}_array_length({ty}) int4"), |_, a| match kind(text(a, 0)) {
        Kind::Array => Ok(Datum::Int4(items(text(a, 0)).len() as i32)),
        Kind::Object => Err(wrong("cannot get array length of a non-array")),
        _ => Err(wrong("cannot get array length of a scalar")),
    });
    library.add(&format!("{ty}_array_elements({ty}) setof {ty} !column=value"), |call, a| {
        Ok(Datum::List(elements(call, text(a, 0))?.into_iter().map(new_text).collect()))
    });
    library.add(&format!("{ty}_array_elements_text({ty}) setof text !column=value"), |call, a| {
        let items = elements(call, text(a, 0))?.into_iter().map(|item| as_text(Some(item)));
        Ok(Datum::List(items.collect::<Result<_, _>>()?))
    });
    library.add(&format!("{ty}_object_keys({ty}) setof text"), |call, a| match kind(text(a, 0)) {
        Kind::Object => Ok(Datum::List(members(text(a, 0))?.into_iter().map(|(key, _)| new_text(key)).collect())),
        Kind::Array => Err(wrong(format!("cannot call {} on an array", call.name))),
        _ => Err(wrong(format!("cannot call {} on a scalar", call.name))),
    });
    library.add(&format!("{ty}_strip_nulls({ty}) {ty}"), |call, a| {
        let mut out = String::new();
        strip_nulls(text(a, 0).trim(), &mut out)?;
        finish(call, out)
    });
}

fn declare_building(library: &mut Library, ty: &str) {
    library.add(&format!("to_{ty}(any) {ty}"), to_json);
    library.add(&format!("{ty}_build_array() {ty}"), |_, _| Ok(new_text("[]")));
    library.add(&format!("{ty}_build_array(variadic any) {ty} !null"), |call, a| {
        let mut out = String::from("[");
        for (i, item) in a.iter().enumerate() {
            out.push_str(if i > 0 { ", " } else { "" });
            write(call, &call.args[i], item, &mut out)?;
        }
        out.push(']');
        finish(call, out)
    });
    library.add(&format!("{ty}_build_object() {ty}"), |_, _| Ok(new_text("{}")));
    library.add(&format!("{ty}_build_object(variadic any) {ty} !null"), build_object);
    library.add(&format!("{ty}_object(text[]) {ty}"), |call, a| {
        let pairs = list(a, 0);
        if !pairs.len().is_multiple_of(2) {
            return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, "array must have even number of elements"));
        }
        object_of_texts(call, texts(pairs).step_by(2), texts(pairs).skip(1).step_by(2))
    });
    library.add(&format!("{ty}_object(text[], text[]) {ty}"), |call, a| {
        if list(a, 0).len() != list(a, 1).len() {
            return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, "mismatched array dimensions"));
        }
        object_of_texts(call, texts(list(a, 0)), texts(list(a, 1)))
    });
}

fn declare_editing(library: &mut Library) {
    library.add("jsonb_concat(jsonb, jsonb) jsonb", |_, a| concat(text(a, 0), text(a, 1)));
    library.add("-(jsonb, text) jsonb", |_, a| remove(text(a, 0), &[text(a, 1)]));
    library.add("-(jsonb, text[]) jsonb", |_, a| {
        let keys: Vec<&str> = texts(list(a, 1)).flatten().collect();
        remove(text(a, 0), &keys)
    });
    library.add("-(jsonb, int4) jsonb", |_, a| match kind(text(a, 0)) {
        Kind::Array => {
            let mut kept = items(text(a, 0));
            if let Some(at) = position(kept.len(), int(a, 1)) {
                kept.remove(at);
            }
            Ok(new_text(joined_items(&kept)))
        }
        Kind::Object => Err(wrong("cannot delete from object using integer index")),
        _ => Err(wrong("cannot delete from scalar")),
    });
    library.add("#-(jsonb, text[]) jsonb", |_, a| edit_root(text(a, 0), list(a, 1), Edit::Delete, ""));
    library.add("jsonb_set(jsonb, text[], jsonb) jsonb", |_, a| {
        edit_root(text(a, 0), list(a, 1), Edit::Set { create: true }, text(a, 2))
    });
    library.add("jsonb_set(jsonb, text[], jsonb, bool) jsonb", |_, a| {
        edit_root(text(a, 0), list(a, 1), Edit::Set { create: boolean(a, 3) }, text(a, 2))
    });
    lax::declare(library);
    library.add("jsonb_insert(jsonb, text[], jsonb) jsonb", |_, a| {
        edit_root(text(a, 0), list(a, 1), Edit::Insert { after: false }, text(a, 2))
    });
    library.add("jsonb_insert(jsonb, text[], jsonb, bool) jsonb", |_, a| {
        edit_root(text(a, 0), list(a, 1), Edit::Insert { after: boolean(a, 3) }, text(a, 2))
    });
    library.add("jsonb_pretty(jsonb) text !long", |_, a| {
        let mut out = String::new();
        pretty(text(a, 0), 0, &mut out)?;
        Ok(new_text(out))
    });
}

fn wrong(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Object,
    Array,
    String,
    Number,
    Boolean,
    Null,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Object => "object",
            Kind::Array => "array",
            Kind::String => "string",
            Kind::Number => "number",
            Kind::Boolean => "boolean",
            Kind::Null => "null",
        }
    }
}

fn kind(document: &str) -> Kind {
    match document.trim_start().as_bytes().first() {
        Some(b'{') => Kind::Object,
        Some(b'[') => Kind::Array,
        Some(b'"') => Kind::String,
        Some(b't' | b'f') => Kind::Boolean,
        Some(b'n') => Kind::Null,
        _ => Kind::Number,
    }
}

/// The end of the string that begins at `at`.
fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while let Some(byte) = bytes.get(end) {
        match byte {
            b'"' => return end + 1,
            b'\\' => end += 2,
            _ => end += 1,
        }
    }
    bytes.len()
}

/// The end of the value that begins at `at`.
fn value_end(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at) {
        Some(b'"') => string_end(bytes, at),
        Some(b'{' | b'[') => {
            let (mut end, mut depth) = (at, 0);
            while let Some(byte) = bytes.get(end) {
                match byte {
                    b'"' => {
                        end = string_end(bytes, end);
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                end += 1;
                if depth == 0 {
                    return end;
                }
            }
            end
        }
        _ => {
            let plain = bytes[at..]
                .iter()
                .take_while(|b| !matches!(b, b',' | b'}' | b']' | b':' | b' ' | b'\t' | b'\n' | b'\r'));
            at + plain.count()
        }
    }
}

/// The values and keys directly inside a container, in order of writing.
fn inner(document: &str) -> Vec<&str> {
    let document = document.trim();
    let bytes = document.as_bytes();
    let mut parts = Vec::new();
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' | b',' | b':' => at += 1,
            b'}' | b']' => break,
            _ => {
                let end = value_end(bytes, at);
                parts.push(&document[at..end]);
                at = end.max(at + 1);
            }
        }
    }
    parts
}

/// The items of an array.
fn items(document: &str) -> Vec<&str> {
    inner(document)
}

/// The members of an object, keys unescaped.
fn members(document: &str) -> Result<Vec<(String, &str)>, SqlError> {
    inner(document).chunks_exact(2).map(|pair| Ok((unquoted(pair[0])?, pair[1]))).collect()
}

/// The text that a JSON string stands for.
fn unquoted(string: &str) -> Result<String, SqlError> {
    if !string.contains('\\') {
        return Ok(string.trim_matches('"').to_owned());
    }
    let value: String = serde_json::from_str(string).map_err(|_| {
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json")
            .with_detail("Unicode low surrogate must follow a high surrogate.")
    })?;
    if value.contains('\0') {
        return Err(SqlError::new(UNTRANSLATABLE_CHARACTER, "unsupported Unicode escape sequence")
            .with_detail("\\u0000 cannot be converted to text."));
    }
    Ok(value)
}

/// The member with a key; of equal keys the last.
fn field<'d>(document: &'d str, key: &str) -> Result<Option<&'d str>, SqlError> {
    if kind(document) != Kind::Object {
        return Ok(None);
    }
    Ok(members(document)?.into_iter().rev().find(|(name, _)| name == key).map(|(_, value)| value))
}

fn texts<'d>(items: &'d [Datum<'_>]) -> impl Iterator<Item = Option<&'d str>> {
    items.iter().map(|item| match item {
        Datum::Text(text) => Some(text.as_ref()),
        _ => None,
    })
}

/// The path in an array argument, or in all arguments behind the first.
fn steps<'d>(a: &'d [Datum<'_>]) -> &'d [Datum<'d>] {
    match a.get(1) {
        Some(Datum::List(_)) => list(a, 1),
        _ => &a[1..],
    }
}

fn follow<'d>(document: &'d str, path: &[Datum<'_>]) -> Result<Option<&'d str>, SqlError> {
    let mut current = document.trim();
    for step in texts(path) {
        let Some(step) = step else { return Ok(None) };
        let next = match kind(current) {
            Kind::Object => field(current, step)?,
            Kind::Array => step.trim_start().parse().ok().and_then(|n: i32| element(current, n.into())),
            _ => None,
        };
        match next {
            Some(next) => current = next,
            None => return Ok(None),
        }
    }
    Ok(Some(current))
}

fn part(value: Option<&str>) -> Datum<'static> {
    value.map_or(Datum::Null, new_text)
}

fn as_text(value: Option<&str>) -> Result<Datum<'static>, SqlError> {
    Ok(match value {
        None => Datum::Null,
        Some(value) => match kind(value) {
            Kind::Null => Datum::Null,
            Kind::String => new_text(unquoted(value.trim())?),
            _ => new_text(value),
        },
    })
}

fn elements<'d>(call: &Call<'_>, document: &'d str) -> Result<Vec<&'d str>, SqlError> {
    let is_json = call.args.first() == Some(&PgType::Json);
    match kind(document) {
        Kind::Array => Ok(items(document)),
        Kind::Object if is_json && call.name == "json_array_elements" => {
            Err(wrong(format!("cannot call {} on a non-array", call.name)))
        }
        Kind::Object => Err(wrong("cannot extract elements from an object")),
        _ if is_json => Err(wrong(format!("cannot call {} on a scalar", call.name))),
        _ => Err(wrong("cannot extract elements from a scalar")),
    }
}

fn has_key(document: &str, key: &str) -> Result<bool, SqlError> {
    let is_key = |value: &str| Ok(kind(value) == Kind::String && unquoted(value)? == key);
    match kind(document) {
        Kind::Object => Ok(field(document, key)?.is_some()),
        Kind::Array => {
            Ok(items(document).into_iter().map(is_key).collect::<Result<Vec<_>, SqlError>>()?.contains(&true))
        }
        _ => is_key(document),
    }
}

/// jsonb's containment; at the top, an array also contains a bare scalar.
fn contains(outer: &str, inner: &str, top: bool) -> Result<bool, SqlError> {
    match (kind(outer), kind(inner)) {
        (Kind::Object, Kind::Object) => {
            for (key, value) in members(inner)? {
                match field(outer, &key)? {
                    Some(found) if contains(found, value, false)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        (Kind::Array, Kind::Array) => {
            let held = items(outer);
            for wanted in items(inner) {
                let found = held.iter().map(|item| contains(item, wanted, false)).collect::<Result<Vec<_>, _>>()?;
                if !found.contains(&true) {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Kind::Array, Kind::Object) => Ok(false),
        (Kind::Array, _) if top => Ok(items(outer).into_iter().any(|item| same_scalar(item, inner))),
        _ => Ok(same_scalar(outer, inner)),
    }
}

/// Canonical scalars are equal as text, numbers up to zeros at the end.
fn same_scalar(a: &str, b: &str) -> bool {
    let number = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    match (kind(a), kind(b)) {
        (Kind::Number, Kind::Number) => number(a) == number(b),
        (Kind::Object | Kind::Array, _) => false,
        _ => a == b,
    }
}

/// A built document in the result's type.
fn finish(call: &Call<'_>, document: String) -> Result<Datum<'static>, SqlError> {
    match call.returns {
        PgType::Jsonb => Ok(new_text(canonical_jsonb(&document)?)),
        _ => Ok(new_text(document)),
    }
}

fn to_json(call: &Call<'_>, a: &[Datum<'_>]) -> Result<Datum<'static>, SqlError> {
    let mut out = String::new();
    write(call, &call.args[0], &a[0], &mut out)?;
    finish(call, out)
}

/// A value as its output function prints it; dates as ISO has them, whatever the session likes.
fn encoded(call: &Call<'_>, ty: &PgType, value: &Datum<'_>) -> String {
    let locale = Locale { date: DateStyle::default(), ..call.context.options.locale };
    let mut bytes = Vec::new();
    pgrepr::text::encode_text(ty, value, &EncodeOptions { locale, ..EncodeOptions::default() }, &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Appends a value of any type as JSON.
fn write(call: &Call<'_>, ty: &PgType, value: &Datum<'_>, out: &mut String) -> Result<(), SqlError> {
    match (value, ty) {
        (Datum::Null, _) => out.push_str("null"),
        (Datum::Bool(value), _) => out.push_str(if *value { "true" } else { "false" }),
        (Datum::Record(fields), _) => rows::write_record(call, fields, ",", out)?,
        (Datum::List(items), PgType::Array(item_type)) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                write(call, item_type, item, out)?;
            }
            out.push(']');
        }
        (Datum::Text(document), PgType::Json | PgType::Jsonb) => out.push_str(document),
        (Datum::Timestamp(_), _) => quote_json(&iso(&encoded(call, ty, value)), out),
        (
            Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) | Datum::Float4(_) | Datum::Float8(_) | Datum::Numeric(..),
            _,
        ) => {
            let number = encoded(call, ty, value);
            match number.ends_with(|c: char| c.is_ascii_digit()) {
                true => out.push_str(&number),
                false => quote_json(&number, out),
            }
        }
        _ => quote_json(&encoded(call, ty, value), out),
    }
    Ok(())
}

/// A timestamp as ISO 8601 has it: a T before the time, minutes in the offset.
fn iso(timestamp: &str) -> String {
    let (body, era) = match timestamp.strip_suffix(" BC") {
        Some(body) => (body, " BC"),
        None => (timestamp, ""),
    };
    let Some((date, time)) = body.split_once(' ') else { return timestamp.to_owned() };
    let minutes = match time.rfind(['+', '-']) {
        Some(sign) if !time[sign..].contains(':') => ":00",
        _ => "",
    };
    format!("{date}T{time}{minutes}{era}")
}

fn build_object(call: &Call<'_>, a: &[Datum<'_>]) -> Result<Datum<'static>, SqlError> {
    if !a.len().is_multiple_of(2) {
        return Err(wrong("argument list must have even number of elements")
            .with_hint(format!("The arguments of {}() must consist of alternating keys and values.", call.name)));
    }
    let mut out = String::from("{");
    for (i, pair) in a.chunks_exact(2).enumerate() {
        let key_type = &call.args[2 * i];
        if pair[0].is_null() {
            return Err(match call.returns {
                PgType::Jsonb => wrong(format!("argument {}: key must not be null", 2 * i + 1)),
                _ => wrong(format!("argument {} cannot be null", 2 * i + 1)).with_hint("Object keys should be text."),
            });
        }
        if matches!(key_type, PgType::Array(_) | PgType::Json | PgType::Jsonb | PgType::Record) {
            return Err(wrong("key value must be scalar, not array, composite, or json"));
        }
        out.push_str(if i > 0 { ", " } else { "" });
        quote_json(&key_of(call, key_type, &pair[0])?, &mut out);
        out.push_str(" : ");
        write(call, &call.args[2 * i + 1], &pair[1], &mut out)?;
    }
    out.push('}');
    finish(call, out)
}

/// A value as the key of an object.
fn key_of(call: &Call<'_>, ty: &PgType, value: &Datum<'_>) -> Result<String, SqlError> {
    let mut key = String::new();
    write(call, ty, value, &mut key)?;
    if key.starts_with('"') { unquoted(&key) } else { Ok(key) }
}

fn object_of_texts<'d>(
    call: &Call<'_>,
    keys: impl Iterator<Item = Option<&'d str>>,
    values: impl Iterator<Item = Option<&'d str>>,
) -> Result<Datum<'static>, SqlError> {
    let mut out = String::from("{");
    for (i, (key, value)) in keys.zip(values).enumerate() {
        let Some(key) = key else {
            return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "null value not allowed for object key"));
        };
        out.push_str(if i > 0 { ", " } else { "" });
        quote_json(key, &mut out);
        out.push_str(" : ");
        match value {
            Some(value) => quote_json(value, &mut out),
            None => out.push_str("null"),
        }
    }
    out.push('}');
    finish(call, out)
}

fn joined_items(items: &[impl AsRef<str>]) -> String {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    format!("[{}]", items.join(", "))
}

/// A canonical object of these members.
fn joined_members(members: &[(String, impl AsRef<str>)]) -> Result<String, SqlError> {
    let mut out = String::from("{");
    for (i, (key, value)) in members.iter().enumerate() {
        out.push_str(if i > 0 { ", " } else { "" });
        quote_json(key, &mut out);
        out.push_str(": ");
        out.push_str(value.as_ref());
    }
    out.push('}');
    Ok(canonical_jsonb(&out)?)
}

/// Objects merge, everything else becomes one array.
fn concat(left: &str, right: &str) -> Result<Datum<'static>, SqlError> {
    if (kind(left), kind(right)) == (Kind::Object, Kind::Object) {
        let mut all = members(left)?;
        all.extend(members(right)?);
        return Ok(new_text(joined_members(&all)?));
    }
    let as_items = |document| if kind(document) == Kind::Array { items(document) } else { vec![document] };
    let mut all = as_items(left);
    all.extend(as_items(right));
    Ok(new_text(joined_items(&all)))
}

/// Without the members or string items of these names.
fn remove(document: &str, names: &[&str]) -> Result<Datum<'static>, SqlError> {
    match kind(document) {
        Kind::Object => {
            let mut kept = members(document)?;
            kept.retain(|(key, _)| !names.contains(&key.as_str()));
            Ok(new_text(joined_members(&kept)?))
        }
        Kind::Array => {
            let mut kept = Vec::new();
            for item in items(document) {
                if kind(item) != Kind::String || !names.contains(&unquoted(item)?.as_str()) {
                    kept.push(item);
                }
            }
            Ok(new_text(joined_items(&kept)))
        }
        _ => Err(wrong("cannot delete from scalar")),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Edit {
    Set { create: bool },
    Insert { after: bool },
    Delete,
}

fn edit_root(document: &str, path: &[Datum<'_>], edit: Edit, value: &str) -> Result<Datum<'static>, SqlError> {
    if !matches!(kind(document), Kind::Object | Kind::Array) {
        let verb = if edit == Edit::Delete { "delete" } else { "set" };
        return Err(wrong(format!("cannot {verb} path in scalar")));
    }
    let mut steps = Vec::with_capacity(path.len());
    for (i, step) in texts(path).enumerate() {
        let null =
            || SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, format!("path element at position {} is null", i + 1));
        steps.push(step.ok_or_else(null)?);
    }
    if steps.is_empty() {
        return Ok(new_text(document));
    }
    Ok(new_text(edit_at(document, &steps, 0, edit, value)?))
}

fn edit_at(document: &str, path: &[&str], level: usize, edit: Edit, value: &str) -> Result<String, SqlError> {
    match kind(document) {
        Kind::Object => edit_object(document, path, level, edit, value),
        Kind::Array => edit_array(document, path, level, edit, value),
        _ => Ok(document.to_owned()),
    }
}

fn edit_object(document: &str, path: &[&str], level: usize, edit: Edit, value: &str) -> Result<String, SqlError> {
    let mut all: Vec<(String, String)> =
        members(document)?.into_iter().map(|(key, value)| (key, value.to_owned())).collect();
    let last = level + 1 == path.len();
    match (all.iter().position(|(key, _)| key == path[level]), edit) {
        (Some(at), _) if !last => all[at].1 = edit_at(&all[at].1, path, level + 1, edit, value)?,
        (Some(at), Edit::Set { .. }) => all[at].1 = value.to_owned(),
        (Some(at), Edit::Delete) => {
            all.remove(at);
        }
        (Some(_), Edit::Insert { .. }) => {
            return Err(wrong("cannot replace existing key")
                .with_hint("Try using the function jsonb_set to replace key value."));
        }
        (None, Edit::Set { create: true } | Edit::Insert { .. }) if last => {
            all.push((path[level].to_owned(), value.to_owned()));
        }
        (None, _) => {}
    }
    joined_members(&all)
}

fn edit_array(document: &str, path: &[&str], level: usize, edit: Edit, value: &str) -> Result<String, SqlError> {
    let step = path[level];
    let index: i32 = step.trim_start().parse().map_err(|_| {
        SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("path element at position {} is not an integer: \"{step}\"", level + 1),
        )
    })?;
    let mut all: Vec<String> = items(document).into_iter().map(str::to_owned).collect();
    let last = level + 1 == path.len();
    match (position(all.len(), index.into()), edit) {
        (Some(at), _) if !last => all[at] = edit_at(&all[at], path, level + 1, edit, value)?,
        (Some(at), Edit::Set { .. }) => all[at] = value.to_owned(),
        (Some(at), Edit::Insert { after }) => all.insert(at + usize::from(after), value.to_owned()),
        (Some(at), Edit::Delete) => {
            all.remove(at);
        }
        // Beyond either end, a new item goes to that end.
        (None, Edit::Set { create: true } | Edit::Insert { .. }) if last => {
            let at = if index < 0 { 0 } else { all.len() };
            all.insert(at, value.to_owned());
        }
        (None, _) => {}
    }
    Ok(joined_items(&all))
}

/// Without members that are null, at every depth; without blanks, as json has it.
fn strip_nulls(document: &str, out: &mut String) -> Result<(), SqlError> {
    match kind(document) {
        Kind::Object => {
            out.push('{');
            let mut first = true;
            for (key, value) in members(document)?.into_iter().filter(|(_, value)| kind(value) != Kind::Null) {
                out.push_str(if first { "" } else { "," });
                first = false;
                quote_json(&key, out);
                out.push(':');
                strip_nulls(value, out)?;
            }
            out.push('}');
        }
        Kind::Array => {
            out.push('[');
            for (i, item) in items(document).into_iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                strip_nulls(item, out)?;
            }
            out.push(']');
        }
        _ => out.push_str(document),
    }
    Ok(())
}

/// One value a line, four blanks a level.
fn pretty(document: &str, level: usize, out: &mut String) -> Result<(), SqlError> {
    let line = |level: usize, out: &mut String| {
        out.push('\n');
        out.push_str(&"    ".repeat(level));
    };
    match kind(document) {
        Kind::Object => {
            out.push('{');
            for (i, (key, value)) in members(document)?.into_iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                line(level + 1, out);
                quote_json(&key, out);
                out.push_str(": ");
                pretty(value, level + 1, out)?;
            }
            line(level, out);
            out.push('}');
        }
        Kind::Array => {
            out.push('[');
            for (i, item) in items(document).into_iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                line(level + 1, out);
                pretty(item, level + 1, out)?;
            }
            line(level, out);
            out.push(']');
        }
        _ => out.push_str(document),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Edit, as_text, concat, contains, edit_root, field, follow, iso, new_text, pretty, same_scalar};
    use repr::Datum;

    fn path(steps: &[&str]) -> Vec<Datum<'static>> {
        steps.iter().map(|step| new_text(*step)).collect()
    }

    #[test]
    fn parts_keep_their_spelling() {
        assert_eq!(field(r#"{ "a" : [1 ,2] , "a":3.10}"#, "a"), Ok(Some("3.10")));
        assert_eq!(field(r#"{ "a" : [1 ,"}"] }"#, "a"), Ok(Some(r#"[1 ,"}"]"#)));
        assert_eq!(follow(r#"[1, {"b": 2}]"#, &path(&["-1", "b"])), Ok(Some("2")));
        assert_eq!(as_text(Some(r#""\u00e9\"""#)), Ok(new_text("é\"")));
        assert_eq!(as_text(Some("null")), Ok(Datum::Null));
    }

    #[test]
    fn containment_is_postgres_s() {
        for (outer, inner, expected) in [
            ("[1, [2]]", "[2]", false),
            ("[1, 2]", "1", true),
            ("[[1]]", "[[]]", true),
            ("\"a\"", "[\"a\"]", false),
            ("[{\"a\": 1}]", "[{}]", true),
            ("[{\"a\": 1}]", "{\"a\": 1}", false),
            ("[]", "{}", false),
        ] {
            assert_eq!(contains(outer, inner, true), Ok(expected), "{outer} @> {inner}");
        }
        assert!(same_scalar("1.00", "1"));
        assert!(!same_scalar("100", "1"));
    }

    #[test]
    fn edits_are_postgres_s() {
        let set = |document, steps: &[&str], create| edit_root(document, &path(steps), Edit::Set { create }, "9");
        assert_eq!(set(r#"{"a": {"b": 1}}"#, &["a", "c"], true), Ok(new_text(r#"{"a": {"b": 1, "c": 9}}"#)));
        assert_eq!(set(r#"{"a": {"b": 1}}"#, &["a", "c"], false), Ok(new_text(r#"{"a": {"b": 1}}"#)));
        assert_eq!(set("[1, 2]", &["-5"], true), Ok(new_text("[9, 1, 2]")));
        assert_eq!(set("[1, 2]", &["5"], true), Ok(new_text("[1, 2, 9]")));
        assert!(set("[1]", &["a"], true).is_err());
        assert_eq!(concat(r#"{"bb": 1}"#, r#"{"a": 2}"#), Ok(new_text(r#"{"a": 2, "bb": 1}"#)));
        assert_eq!(concat("1", "[2]"), Ok(new_text("[1, 2]")));
    }

    #[test]
    fn documents_print_pretty() {
        let mut out = String::new();
        pretty(r#"{"a": [1], "c": {}}"#, 0, &mut out).expect("a document");
        assert_eq!(out, "{\n    \"a\": [\n        1\n    ],\n    \"c\": {\n    }\n}");
    }

    #[test]
    fn timestamps_are_iso() {
        assert_eq!(iso("2020-01-02 03:04:05+00"), "2020-01-02T03:04:05+00:00");
        assert_eq!(iso("2020-01-02 03:04:05.6"), "2020-01-02T03:04:05.6");
        assert_eq!(iso("infinity"), "infinity");
    }
}
