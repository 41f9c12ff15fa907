//! Names of types and of the functions that `pg_proc` lists.

use super::Answer;
use crate::builtin::pg_catalog::data;
use crate::builtin::text;
use pgrepr::types;
use repr::datum::Datum;
use repr::sqlstate::SqlState;
use repr::types::PgType;
use sql::error::SqlError;
use sql::names::{Name, quote_ident};
use std::collections::HashMap;
use std::sync::LazyLock;

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
        1263 => "cstring[]",
        325 => "index_am_handler",
        2275 => "cstring",
        2276 => "\"any\"",
        2277 => "anyarray",
        2281 => "internal",
        2283 => "anyelement",
        2776 => "anynonarray",
        5077 => "anycompatible",
        5078 => "anycompatiblearray",
        _ => "???",
    }
}

/// The functions of `pg_proc`.
struct Functions {
    /// Their lines in the data, by oid.
    lines: HashMap<u32, &'static str>,
    /// Their oids, by name.
    oids: HashMap<&'static str, Vec<u32>>,
}

static FUNCTIONS: LazyLock<Functions> = LazyLock::new(|| {
    let (mut lines, mut oids) = (HashMap::new(), HashMap::<_, Vec<u32>>::new());
    for line in data("pg_proc").lines() {
        let mut fields = line.split('\t');
        if let (Some(Ok(oid)), Some(name)) = (fields.next().map(str::parse), fields.next()) {
            lines.insert(oid, line);
            oids.entry(name).or_default().push(oid);
        }
    }
    Functions { lines, oids }
});

/// The name of the function with this oid.
pub(super) fn function_name(oid: u32) -> Option<&'static str> {
    FUNCTIONS.lines.get(&oid).and_then(|line| line.split('\t').nth(field::NAME))
}

/// What finds the function with this oid: its name, and its schema's, too, if there are others of that name.
pub(super) fn function_reference(oid: u32) -> Option<String> {
    let name = function_name(oid)?;
    let is_one = FUNCTIONS.oids.get(name).is_some_and(|oids| oids.len() == 1);
    Some(if is_one { quote_ident(name) } else { format!("pg_catalog.{}", quote_ident(name)) })
}

/// The function with this name, which may be qualified with `pg_catalog`. Errors: 42883, 42725; `written` is shown.
pub(super) fn function_named(name: &Name, written: &str) -> Result<u32, SqlError> {
    let oids = match name.parts.as_slice() {
        [name] => FUNCTIONS.oids.get(name.as_str()),
        [schema, name] if schema == "pg_catalog" => FUNCTIONS.oids.get(name.as_str()),
        _ => None,
    };
    match oids.map(Vec::as_slice) {
        Some([oid]) => Ok(*oid),
        Some(_) => {
            let message = format!("more than one function named \"{written}\"");
            Err(SqlError::new(SqlState::AMBIGUOUS_FUNCTION, message))
        }
        None => {
            let message = format!("function \"{written}\" does not exist");
            Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message))
        }
    }
}

/// Whether the data of a catalog has a row with this oid.
pub(super) fn listed(catalog: &str, oid: u32) -> bool {
    data(catalog).lines().any(|line| line.split('\t').next().and_then(|field| field.parse().ok()) == Some(oid))
}

/// The fields of `pg_proc` that a signature is made from.
mod field {
    pub(super) const NAME: usize = 1;
    pub(super) const KIND: usize = 9;
    pub(super) const SET: usize = 13;
    pub(super) const DEFAULTS_COUNT: usize = 17;
    pub(super) const RESULT: usize = 18;
    pub(super) const ARGUMENTS: usize = 19;
    pub(super) const ALL_ARGUMENTS: usize = 20;
    pub(super) const MODES: usize = 21;
    pub(super) const NAMES: usize = 22;
    pub(super) const DEFAULTS: usize = 23;
}

fn fields(oid: u32) -> Option<Vec<&'static str>> {
    FUNCTIONS.lines.get(&oid).map(|line| line.split('\t').collect())
}

/// The items of an array or a vector as the data has them: no item has a comma or needs quotes.
fn items(field: &str) -> impl Iterator<Item = &str> {
    let is_item = |item: &&str| !item.is_empty() && *item != "\\N";
    field.trim_matches(['{', '}']).split([',', ' ']).map(|item| item.trim_matches('"')).filter(is_item)
}

/// `pg_get_function_result`.
pub(super) fn function_result(oid: u32) -> Answer {
    let Some(fields) = fields(oid) else { return Ok(Datum::Null) };
    let Ok(result) = fields[field::RESULT].parse() else { return Ok(Datum::Null) };
    match format_type(result, None)? {
        Datum::Text(name) if fields[field::SET] == "t" => Ok(text(format!("SETOF {name}"))),
        name => Ok(name),
    }
}

/// `pg_get_function_arguments`, and without defaults `pg_get_function_identity_arguments`.
pub(super) fn function_arguments(oid: u32, with_defaults: bool) -> Answer {
    let Some(fields) = fields(oid) else { return Ok(Datum::Null) };
    let types = match fields[field::ALL_ARGUMENTS] {
        "\\N" => fields[field::ARGUMENTS],
        all => all,
    };
    let modes: Vec<&str> = items(fields[field::MODES]).collect();
    // Of names an empty one is none.
    let names: Vec<&str> = match fields[field::NAMES] {
        "\\N" => Vec::new(),
        names => names.trim_matches(['{', '}']).split(',').map(|name| name.trim_matches('"')).collect(),
    };
    let is_input = |mode: &str| mode != "o";
    let inputs = items(types).enumerate().filter(|(at, _)| is_input(modes.get(*at).unwrap_or(&"i"))).count();
    let defaults_count: usize = fields[field::DEFAULTS_COUNT].parse().unwrap_or(0);
    let mut defaults = fields[field::DEFAULTS].split(", ");
    let (mut arguments, mut input) = (Vec::new(), 0);
    for (at, ty) in items(types).enumerate() {
        let mut argument = Vec::new();
        let mode = modes.get(at).copied().unwrap_or("i");
        match mode {
            "o" => argument.push("OUT".to_owned()),
            "b" => argument.push("INOUT".to_owned()),
            "v" => argument.push("VARIADIC".to_owned()),
            _ => {}
        }
        argument.extend(names.get(at).filter(|name| !name.is_empty()).map(|name| quote_ident(name)));
        if let Datum::Text(name) = format_type(ty.parse().unwrap_or(0), None)? {
            argument.push(name.into_owned());
        }
        if is_input(mode) {
            input += 1;
            if with_defaults && input + defaults_count > inputs {
                argument.extend(defaults.next().map(|default| format!("DEFAULT {default}")));
            }
        }
        arguments.push(argument.join(" "));
    }
    Ok(text(match before_order(&fields) {
        None => arguments.join(", "),
        // The arguments that repeat stand for those of the order, too.
        Some(count) if count == arguments.len() => format!("{0} ORDER BY {0}", arguments.join(", ")),
        Some(count) => {
            let (direct, ordered) = arguments.split_at(count);
            format!("{} ORDER BY {}", direct.join(", "), ordered.join(", ")).trim_start().to_owned()
        }
    }))
}

/// How many arguments of an aggregate over an ordered group stand before the order.
fn before_order(fields: &[&str]) -> Option<usize> {
    match (fields[field::KIND], fields[field::NAME]) {
        ("a", "mode") => Some(0),
        ("a", "percentile_cont" | "percentile_disc" | "rank" | "dense_rank" | "percent_rank" | "cume_dist") => Some(1),
        _ => None,
    }
}
