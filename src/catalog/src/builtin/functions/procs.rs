//! The functions that `pg_proc` lists: their names, signatures and definitions.

use super::Answer;
use super::types::{format_type, type_in_signature};
use crate::builtin::shipped::data;
use crate::builtin::text;
use engine::error::SqlError;
use repr::datum::Datum;
use repr::sqlstate::SqlState;
use sql_syntax::names::{Name, quote_ident};
use std::collections::HashMap;
use std::sync::LazyLock;

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
    match functions_named(name) {
        [oid] => Ok(*oid),
        [] => Err(missing(written)),
        _ => {
            let message = format!("more than one function named \"{written}\"");
            Err(SqlError::new(SqlState::AMBIGUOUS_FUNCTION, message))
        }
    }
}

fn functions_named(name: &Name) -> &'static [u32] {
    let oids = match name.parts.as_slice() {
        [name] => FUNCTIONS.oids.get(name.as_str()),
        [schema, name] if schema == "pg_catalog" => FUNCTIONS.oids.get(name.as_str()),
        _ => None,
    };
    oids.map(Vec::as_slice).unwrap_or_default()
}

fn missing(written: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function \"{written}\" does not exist"))
}

/// The name and the types of the arguments of `name(type, …)`, as oids. Errors: 22P02, 42704.
pub(super) fn split_signature(written: &str) -> Result<(&str, Vec<u32>), SqlError> {
    let expected = |what: &str| SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("expected a {what}"));
    let mut quoted = false;
    let open = written.char_indices().find_map(|(at, c)| {
        quoted ^= c == '"';
        (c == '(' && !quoted).then_some(at)
    });
    let (name, rest) = written.split_at(open.ok_or_else(|| expected("left parenthesis"))?);
    let list = rest[1..].trim_end().strip_suffix(')').ok_or_else(|| expected("right parenthesis"))?;
    let (mut arguments, mut begin, mut depth) = (Vec::new(), 0, 0);
    for (at, c) in list.char_indices().chain([(list.len(), ',')]) {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                arguments.push(list[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    if arguments == [""] {
        arguments.clear();
    }
    let oids = arguments.into_iter().map(|argument| match argument {
        "" => Err(expected("type name")),
        argument => type_in_signature(argument),
    });
    Ok((name, oids.collect::<Result<_, _>>()?))
}

/// The function with this name and these types of arguments. Errors: 42883; `written` is shown.
pub(super) fn function_with(name: &Name, arguments: &[u32], written: &str) -> Result<u32, SqlError> {
    let takes =
        |oid: &&u32| fields(**oid).is_some_and(|fields| types(fields[field::ARGUMENTS]).eq(arguments.iter().copied()));
    functions_named(name).iter().find(takes).copied().ok_or_else(|| missing(written))
}

/// `regprocedureout`: what [`split_signature`] reads.
pub(super) fn function_signature(oid: u32) -> Result<Option<String>, SqlError> {
    let Some(fields) = fields(oid) else { return Ok(None) };
    let mut arguments = Vec::new();
    for ty in types(fields[field::ARGUMENTS]) {
        if let Datum::Text(name) = format_type(ty, None)? {
            arguments.push(name.into_owned());
        }
    }
    Ok(Some(format!("{}({})", quote_ident(fields[field::NAME]), arguments.join(","))))
}

/// The fields of `pg_proc` that signatures and definitions are made from.
mod field {
    pub(super) const NAME: usize = 1;
    pub(super) const COST: usize = 5;
    pub(super) const ROWS: usize = 6;
    pub(super) const KIND: usize = 9;
    pub(super) const LEAKPROOF: usize = 11;
    pub(super) const STRICT: usize = 12;
    pub(super) const SET: usize = 13;
    pub(super) const VOLATILE: usize = 14;
    pub(super) const PARALLEL: usize = 15;
    pub(super) const DEFAULTS_COUNT: usize = 17;
    pub(super) const RESULT: usize = 18;
    pub(super) const ARGUMENTS: usize = 19;
    pub(super) const ALL_ARGUMENTS: usize = 20;
    pub(super) const MODES: usize = 21;
    pub(super) const NAMES: usize = 22;
    pub(super) const DEFAULTS: usize = 23;
    pub(super) const SOURCE: usize = 25;
}

fn fields(oid: u32) -> Option<Vec<&'static str>> {
    FUNCTIONS.lines.get(&oid).map(|line| line.split('\t').collect())
}

/// The items of an array or a vector as the data has them: no item has a comma or needs quotes.
fn items(field: &str) -> impl Iterator<Item = &str> {
    let is_item = |item: &&str| !item.is_empty() && *item != "\\N";
    field.trim_matches(['{', '}']).split([',', ' ']).map(|item| item.trim_matches('"')).filter(is_item)
}

/// The oids of a vector or an array of types.
fn types(field: &str) -> impl Iterator<Item = u32> {
    items(field).filter_map(|item| item.parse().ok())
}

/// `pg_get_functiondef`: the command that would make the function. Errors: 42809 for an aggregate.
pub(super) fn function_definition(oid: u32) -> Answer {
    let Some(fields) = fields(oid) else { return Ok(Datum::Null) };
    let name = fields[field::NAME];
    if fields[field::KIND] == "a" {
        let message = format!("\"{name}\" is an aggregate function");
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
    }
    let (Datum::Text(arguments), Datum::Text(result)) = (function_arguments(oid, true)?, function_result(oid)?) else {
        return Err(SqlError::internal("a function has arguments and a result"));
    };
    let (cost, rows) = (fields[field::COST], fields[field::ROWS]);
    let properties = [
        (fields[field::KIND] == "w", " WINDOW"),
        (fields[field::VOLATILE] == "i", " IMMUTABLE"),
        (fields[field::VOLATILE] == "s", " STABLE"),
        (fields[field::PARALLEL] == "s", " PARALLEL SAFE"),
        (fields[field::PARALLEL] == "r", " PARALLEL RESTRICTED"),
        (fields[field::STRICT] == "t", " STRICT"),
        (fields[field::LEAKPROOF] == "t", " LEAKPROOF"),
        (cost != "1", &format!(" COST {cost}")),
        (!matches!(rows, "0" | "1000"), &format!(" ROWS {rows}")),
    ];
    let mut properties: String = properties.iter().filter(|(is, _)| *is).map(|(_, property)| *property).collect();
    if !properties.is_empty() {
        properties.push('\n');
    }
    Ok(text(format!(
        "CREATE OR REPLACE FUNCTION pg_catalog.{}({arguments})\n RETURNS {result}\n LANGUAGE internal\n{properties}AS \
         $function${}$function$\n",
        quote_ident(name),
        fields[field::SOURCE]
    )))
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
