//! Names of types and of the functions that `pg_proc` lists.

use super::Answer;
use crate::builtin::pg_catalog::{data, functions};
use crate::builtin::text;
use pgrepr::types;
use repr::datum::Datum;
use repr::types::PgType;
use sql::names::Name;

/// `format_type`: the name with the modifier; NULL for the modifier asks for the bare name.
pub(super) fn format_type(oid: u32, typmod: Option<&Datum<'_>>) -> Answer {
    let typmod = match typmod {
        Some(Datum::Int4(typmod)) => Some(*typmod),
        _ => None,
    };
    Ok(text(match (types::from_oid_and_typmod(oid, typmod.unwrap_or(-1)), typmod) {
        _ if oid == 0 => "-".to_owned(),
        // Without a length it is not `character`, which would mean one character.
        (Some(PgType::Bpchar(None)), Some(_)) => "bpchar".to_owned(),
        (Some(ty), _) => ty.to_string(),
        (None, _) => pseudo_type(oid).to_owned(),
    }))
}

/// Types that only occur in the signatures of `pg_proc`.
fn pseudo_type(oid: u32) -> &'static str {
    match oid {
        269 => "table_am_handler",
        325 => "index_am_handler",
        2275 => "cstring",
        2276 => "\"any\"",
        2277 => "anyarray",
        2281 => "internal",
        _ => "???",
    }
}

/// The function with this oid.
pub(super) fn function_name(oid: u32) -> Option<&'static str> {
    functions().find_map(|(found, name)| (found == oid).then_some(name))
}

/// The function with this name, which may be qualified with `pg_catalog`.
pub(super) fn function_named(name: &Name) -> Option<u32> {
    let name = match name.parts.as_slice() {
        [name] => name,
        [schema, name] if schema == "pg_catalog" => name,
        _ => return None,
    };
    functions().find_map(|(oid, found)| (found == name).then_some(oid))
}

/// Whether the data of a catalog has a row with this oid.
pub(super) fn listed(catalog: &str, oid: u32) -> bool {
    data(catalog).lines().any(|line| line.split('\t').next().and_then(|field| field.parse().ok()) == Some(oid))
}

/// The fields of `pg_proc` that a signature is made from: `prorettype` and `proargtypes`.
const RESULT_FIELD: usize = 18;
const ARGUMENTS_FIELD: usize = 19;

fn function_field(oid: u32, field: usize) -> Option<&'static str> {
    let row = data("pg_proc")
        .lines()
        .find(|line| line.split('\t').next().and_then(|field| field.parse().ok()) == Some(oid))?;
    row.split('\t').nth(field)
}

/// `pg_get_function_result`.
pub(super) fn function_result(oid: u32) -> Answer {
    match function_field(oid, RESULT_FIELD).and_then(|field| field.parse().ok()) {
        Some(result) => format_type(result, None),
        None => Ok(Datum::Null),
    }
}

/// `pg_get_function_arguments`.
pub(super) fn function_arguments(oid: u32) -> Answer {
    let Some(field) = function_field(oid, ARGUMENTS_FIELD) else { return Ok(Datum::Null) };
    let mut names = Vec::new();
    for argument in field.split(' ').filter_map(|argument| argument.parse().ok()) {
        if let Datum::Text(name) = format_type(argument, None)? {
            names.push(name.into_owned());
        }
    }
    Ok(text(names.join(", ")))
}
