//! From what SET was given to a parameter's canonical text, and from that to a value.

use super::definitions::{Definition, Kind};
use engine::error::SqlError;
use pgrepr::options::DateStyle;
use pgrepr::timezone::TimeZone;
use repr::sqlstate::SqlState;
use sql_syntax::ast::IsolationLevel;
use sql_syntax::names::{quote_ident, truncate_identifier};

const MILLISECOND_UNITS: [(&str, i64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1)];
const BYTE_UNITS: [(&str, i64); 5] = [("TB", 1 << 40), ("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10), ("B", 1)];

/// The canonical form of the values in SET. A list parameter takes several; any other takes one.
pub(super) fn canonical(definition: &Definition, given: &[String]) -> Result<String, SqlError> {
    match (definition.kind, given) {
        (Kind::Identifiers, _) => Ok(join_identifiers(given)),
        (Kind::DateStyle, _) => canonical_raw(definition, &given.join(", ")),
        (_, [value]) => canonical_raw(definition, value),
        (_, _) => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("SET {} takes only one argument", definition.name),
        )),
    }
}

/// The canonical form of one text.
pub(super) fn canonical_raw(definition: &Definition, value: &str) -> Result<String, SqlError> {
    let invalid = || invalid_value(definition.name, value);
    match definition.kind {
        Kind::Bool => parse_bool(value).map(|on| if on { "on" } else { "off" }.to_owned()).ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("parameter \"{}\" requires a Boolean value", definition.name),
            )
        }),
        Kind::Int(min, max) => {
            let number: i64 = value.trim().parse().map_err(|_| invalid())?;
            in_range(definition.name, number, min, max)?;
            Ok(number.to_string())
        }
        Kind::Milliseconds => {
            let ms = parse_with_unit(value, &MILLISECOND_UNITS, 1).ok_or_else(|| {
                invalid()
                    .with_hint("Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\".")
            })?;
            in_range(definition.name, ms, 0, i64::from(i32::MAX))?;
            Ok(format_with_unit(ms, &MILLISECOND_UNITS))
        }
        Kind::Bytes => {
            let bytes = parse_with_unit(value, &BYTE_UNITS, 1).ok_or_else(|| {
                invalid().with_hint("Valid units for this parameter are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\".")
            })?;
            in_range(definition.name, bytes, 0, i64::MAX)?;
            Ok(format_with_unit(bytes, &BYTE_UNITS))
        }
        Kind::Real(min, max) => {
            let number: f64 = value.trim().parse().map_err(|_| invalid())?;
            if !(min..=max).contains(&number) {
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!(
                        "{number} is outside the valid range for parameter \"{}\" ({min} .. {max})",
                        definition.name
                    ),
                ));
            }
            Ok(number.to_string())
        }
        Kind::Text => Ok(value.to_owned()),
        Kind::Name => Ok(truncate_identifier(value.to_owned())),
        Kind::Identifier if value.is_empty() => Err(invalid()),
        Kind::Identifier => Ok(value.to_owned()),
        Kind::Identifiers => Ok(join_identifiers(&split_identifiers(value).ok_or_else(invalid)?)),
        Kind::Enum(words) => words
            .iter()
            .find(|word| word.eq_ignore_ascii_case(value.trim()))
            .map(|word| (*word).to_owned())
            .ok_or_else(|| invalid().with_hint(format!("Available values: {}.", words.join(", ")))),
        Kind::Only(words) => only(definition.name, words, value),
        Kind::TimeZone => time_zone(value).ok_or_else(invalid),
        Kind::DateStyle => date_style(value, definition.default, definition.default),
        Kind::Encoding => encoding(value),
        Kind::Isolation => IsolationLevel::from_name(value).map(|level| level.as_str().to_owned()).ok_or_else(invalid),
        Kind::Fixed => Err(super::cannot_change(definition.name)),
    }
}

/// The value of an integer, duration (milliseconds) or size (bytes) in canonical form.
pub(super) fn decode_int(definition: &Definition, value: &str) -> Option<i64> {
    match definition.kind {
        Kind::Int(..) => value.parse().ok(),
        Kind::Milliseconds => parse_with_unit(value, &MILLISECOND_UNITS, 1),
        Kind::Bytes => parse_with_unit(value, &BYTE_UNITS, 1),
        _ => None,
    }
}

/// Splits `a, "B c", d` into folded identifiers; `None` when it is not such a list.
pub(super) fn split_identifiers(list: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = list.trim_start();
    while !rest.is_empty() {
        let (name, after) = match rest.strip_prefix('"') {
            Some(quoted) => split_quoted(quoted)?,
            None => {
                let end = rest.find([',', ' ', '\t', '\n']).unwrap_or(rest.len());
                (rest[..end].to_lowercase(), &rest[end..])
            }
        };
        if name.is_empty() && !rest.starts_with('"') {
            return None;
        }
        names.push(truncate_identifier(name));
        rest = after.trim_start();
        if let Some(after_comma) = rest.strip_prefix(',') {
            rest = after_comma.trim_start();
            if rest.is_empty() {
                return None;
            }
        } else if !rest.is_empty() {
            return None;
        }
    }
    Some(names)
}

/// Splits `a."B".c` into folded identifiers; `None` when it is not a dotted name.
pub(super) fn split_qualified(text: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        let (name, after) = match rest.strip_prefix('"') {
            Some(quoted) => split_quoted(quoted)?,
            None => {
                let end = rest.find('.').unwrap_or(rest.len());
                (rest[..end].trim().to_lowercase(), &rest[end..])
            }
        };
        if name.is_empty() {
            return None;
        }
        parts.push(truncate_identifier(name));
        rest = match after.trim_start() {
            "" => return Some(parts),
            after => after.strip_prefix('.')?.trim_start(),
        };
    }
}

/// The name up to its closing quote, and what follows.
fn split_quoted(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut rest = text;
    loop {
        let end = rest.find('"')?;
        name.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => return Some((name, rest)),
        }
    }
}

fn join_identifiers(names: &[String]) -> String {
    names.iter().map(|name| quote_ident(name)).collect::<Vec<_>>().join(", ")
}

/// Booleans as Postgres reads them: any unambiguous prefix.
pub(super) fn parse_bool(value: &str) -> Option<bool> {
    let value = value.trim().to_ascii_lowercase();
    match value.as_str() {
        "" | "o" => None,
        "1" | "on" => Some(true),
        "0" => Some(false),
        word if "true".starts_with(word) || "yes".starts_with(word) => Some(true),
        word if "false".starts_with(word) || "no".starts_with(word) || "off".starts_with(word) => Some(false),
        _ => None,
    }
}

fn parse_with_unit(value: &str, units: &[(&str, i64)], default_factor: i64) -> Option<i64> {
    let value = value.trim();
    let end = value.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(value.len());
    let (number, unit) = (value[..end].trim(), value[end..].trim());
    // Sub-millisecond values round, as in Postgres.
    let factor = match unit {
        "" => default_factor as f64,
        "us" if units[0].0 == "d" => 0.001,
        unit => units.iter().find(|(name, _)| *name == unit)?.1 as f64,
    };
    match number.parse::<i64>() {
        Ok(number) if factor >= 1.0 => number.checked_mul(factor as i64),
        _ => {
            let number = number.parse::<f64>().ok()? * factor;
            (number.is_finite() && number.abs() < 9e18).then(|| number.round() as i64)
        }
    }
}

fn format_with_unit(number: i64, units: &[(&str, i64)]) -> String {
    match units.iter().find(|(_, factor)| number != 0 && number % factor == 0) {
        Some((unit, factor)) => format!("{}{unit}", number / factor),
        None => number.to_string(),
    }
}

fn in_range(name: &str, number: i64, min: i64, max: i64) -> Result<(), SqlError> {
    if (min..=max).contains(&number) {
        return Ok(());
    }
    Err(SqlError::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("{number} is outside the valid range for parameter \"{name}\" ({min} .. {max})"),
    ))
}

fn only(name: &str, words: &[&str], value: &str) -> Result<String, SqlError> {
    // Booleans among the words are read as booleans.
    let value = match parse_bool(value) {
        Some(true) if words.contains(&"on") => "on",
        Some(false) if words.contains(&"off") || words.contains(&"on") => "off",
        _ => value.trim(),
    };
    match words.iter().find(|word| word.eq_ignore_ascii_case(value)) {
        Some(word) => Ok((*word).to_owned()),
        None => Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("the value \"{value}\" of parameter \"{name}\" is not supported"),
        )
        .with_hint(format!("Available values: {}.", words.join(", ")))),
    }
}

/// An IANA name in its usual case, or a fixed zone as POSIX writes it: as it was given, or made from a number of hours.
fn time_zone(value: &str) -> Option<String> {
    let value = value.trim();
    if let Some(zone) = chrono_tz::TZ_VARIANTS.iter().find(|zone| zone.name().eq_ignore_ascii_case(value)) {
        return Some(zone.name().to_owned());
    }
    match TimeZone::parse(value).ok()? {
        TimeZone::Fixed(_) if value.parse::<f64>().is_err() => Some(value.to_ascii_uppercase()),
        zone @ TimeZone::Fixed(_) => Some(zone.name()),
        TimeZone::Named(_) => None,
    }
}

/// What `DateStyle` becomes by a value that may say half of it: the rest is as it was. `default` is what RESET gives.
pub(super) fn date_style(value: &str, current: &str, reset: &str) -> Result<String, SqlError> {
    let reset = DateStyle::default().changed(reset, DateStyle::default())?;
    Ok(DateStyle::default().changed(current, reset)?.changed(value, reset)?.name())
}

fn encoding(value: &str) -> Result<String, SqlError> {
    let folded: String = value.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    match folded.as_str() {
        "utf8" | "unicode" => Ok("UTF8".to_owned()),
        "sqlascii" | "win1252" | "win1251" | "win1250" | "euccn" | "eucjp" | "euckr" | "sjis" | "big5" | "gbk"
        | "gb18030" | "koi8r" => Err(unsupported_encoding(value)),
        latin if latin.starts_with("latin") || latin.starts_with("iso8859") => Err(unsupported_encoding(value)),
        _ => Err(invalid_value("client_encoding", value)),
    }
}

fn unsupported_encoding(value: &str) -> SqlError {
    SqlError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        format!("conversion between {} and UTF8 is not supported", value.to_ascii_uppercase()),
    )
}

fn invalid_value(name: &str, value: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid value for parameter \"{name}\": \"{value}\""))
}

#[cfg(test)]
mod tests {
    use super::{canonical_raw, split_identifiers};
    use crate::vars::definitions::{SESSION_VARS, SYSTEM_VARS, find};
    use crate::vars::{SessionVars, SystemVars};
    use sql_syntax::ast::{SetValue, TransactionModes};

    fn session() -> SessionVars {
        SessionVars::new(&SystemVars::new(), "ada", "materialize", false, &[], &[]).expect("the defaults are valid")
    }

    fn set(vars: &mut SessionVars, name: &str, value: &str, local: bool) {
        vars.set(name, &SetValue::Values(vec![value.to_owned()]), local).expect("a valid value");
    }

    #[test]
    fn reset_all_leaves_the_defaults() {
        let isolation = "default_transaction_isolation";
        for name in [isolation, "transaction_isolation"] {
            let mut vars = session();
            let usual = vars.get(isolation).expect("it is known").to_owned();
            set(&mut vars, name, "read committed", false);
            set(&mut vars, "DateStyle", "German", false);
            assert_eq!(vars.get(isolation), Some("read committed"), "{name}");
            vars.reset_all();
            assert_eq!(
                (vars.get(isolation), vars.get("DateStyle")),
                (Some(usual.as_str()), Some("ISO, MDY")),
                "{name}"
            );
        }
    }

    #[test]
    fn what_is_as_it_was_has_not_changed() {
        let mut vars = session();
        vars.begin_transaction();
        let saved = vars.clone();
        set(&mut vars, "DateStyle", "German", false);
        vars.reset("DateStyle").expect("it can be reset");
        let (_told, epoch) = (vars.take_changes(), vars.epoch());
        vars.restore(&saved);
        assert_eq!((vars.take_changes(), vars.epoch()), (Vec::new(), epoch));
        // Nothing is told of what is as it began.
        vars.reset_all();
        assert_eq!(vars.take_changes(), Vec::new());
    }

    #[test]
    fn defaults_are_canonical() {
        for definition in SESSION_VARS.iter().chain(SYSTEM_VARS).filter(|d| !d.read_only()) {
            assert_eq!(
                canonical_raw(definition, definition.default).as_deref(),
                Ok(definition.default),
                "{}",
                definition.name
            );
        }
    }

    #[test]
    fn values_are_read_as_postgres_reads_them() {
        let cases = [
            ("statement_timeout", "90s", Ok("90s")),
            ("statement_timeout", "60000", Ok("1min")),
            ("statement_timeout", "1500", Ok("1500ms")),
            ("statement_timeout", "-1", Err("22023")),
            ("statement_timeout", "3 parsecs", Err("22023")),
            ("TimeZone", "europe/berlin", Ok("Europe/Berlin")),
            ("TimeZone", "-7", Ok("<-07>+07")),
            ("TimeZone", "5.5", Ok("<+05:30>-05:30")),
            ("TimeZone", "-02:00", Ok("-02:00")),
            ("TimeZone", "utc+3", Ok("UTC+3")),
            ("TimeZone", "Mars/Base", Err("22023")),
            ("DateStyle", "ISO, MDY", Ok("ISO, MDY")),
            ("DateStyle", "german", Ok("German, DMY")),
            ("DateStyle", "sql, iso", Err("22023")),
            ("client_encoding", "utf-8", Ok("UTF8")),
            ("client_encoding", "latin1", Err("0A000")),
            ("client_encoding", "klingon", Err("22023")),
            ("standard_conforming_strings", "true", Ok("on")),
            ("standard_conforming_strings", "off", Err("0A000")),
            ("extra_float_digits", "4", Err("22023")),
            ("default_transaction_read_only", "tru", Ok("on")),
            ("transaction_isolation", "Repeatable Read", Ok("repeatable read")),
            ("max_result_size", "1048576", Ok("1MB")),
            ("statement_logging_max_sample_rate", "0", Ok("0")),
            ("statement_logging_max_sample_rate", "1.5", Err("22023")),
            ("search_path", "a, \"B c\" ,d", Ok("a, \"B c\", d")),
            ("search_path", "a b", Err("22023")),
        ];
        for (name, value, expected) in cases {
            let definition = find(name).expect("a known parameter");
            let actual = canonical_raw(definition, value).map_err(|error| error.sqlstate.code());
            assert_eq!(actual.as_deref().map_err(|code| *code), expected, "{name} = {value}");
        }
        assert_eq!(split_identifiers("\"a\"\"b\""), Some(vec!["a\"b".to_owned()]));
    }

    #[test]
    fn the_locale_follows_each_of_its_parameters() {
        let usual = session().locale();
        for (name, value) in [
            ("TimeZone", "Europe/Berlin"),
            ("DateStyle", "German"),
            ("IntervalStyle", "iso_8601"),
            ("bytea_output", "escape"),
            ("extra_float_digits", "0"),
        ] {
            let mut vars = session();
            vars.begin_transaction();
            vars.set_raw(name, value, false).expect("it is a value of it");
            let changed = vars.locale();
            assert_ne!(changed, usual, "{name}");
            let startup = [(name.to_owned(), value.to_owned())];
            let told = SessionVars::new(&SystemVars::new(), "ada", "materialize", false, &[], &startup).expect(name);
            assert_eq!(told.locale(), changed, "{name} from the client");
            vars.end_transaction(false);
            assert_eq!(vars.locale(), usual, "{name} after a rollback");
            vars.begin_transaction();
            let saved = vars.clone();
            vars.set_raw(name, value, true).expect("it is a value of it");
            assert_eq!(vars.locale(), changed, "{name} in a transaction");
            vars.restore(&saved);
            assert_eq!(vars.locale(), usual, "{name} after a rollback to a savepoint");
        }
    }

    #[test]
    fn a_rollback_undoes_what_the_transaction_set() {
        let mut vars = session();
        set(&mut vars, "application_name", "before", false);
        vars.take_changes();
        vars.begin_transaction();
        set(&mut vars, "application_name", "inside", false);
        set(&mut vars, "app.user", "ada", false);
        assert_eq!(vars.take_changes(), [("application_name", "inside".to_owned())]);
        vars.end_transaction(false);
        assert_eq!(vars.get("application_name"), Some("before"));
        assert_eq!(vars.get("app.user"), Some(""));
        assert_eq!(vars.take_changes(), [("application_name", "before".to_owned())]);
    }

    #[test]
    fn local_values_end_with_the_transaction() {
        let mut vars = session();
        let notices = vars.set("search_path", &SetValue::Values(vec!["x".to_owned()]), true).expect("only a warning");
        assert_eq!(notices.len(), 1);
        assert_eq!(vars.search_path(), ["public"]);
        vars.begin_transaction();
        set(&mut vars, "search_path", "x", true);
        assert_eq!(vars.search_path(), ["x"]);
        vars.end_transaction(true);
        assert_eq!(vars.search_path(), ["public"]);
    }

    #[test]
    fn modes_of_a_transaction_and_of_a_session() {
        let mut vars = session();
        let read_only = TransactionModes { read_only: Some(true), ..TransactionModes::default() };
        vars.begin_transaction();
        assert!(!vars.read_only());
        vars.set_transaction_modes(&read_only);
        assert!(vars.read_only());
        vars.end_transaction(true);
        assert!(!vars.read_only());
        vars.set_session_characteristics(&read_only);
        vars.begin_transaction();
        assert!(vars.read_only());
    }

    #[test]
    fn unknown_and_fixed_parameters_are_refused() {
        let mut vars = session();
        let code = |vars: &mut SessionVars, name: &str| {
            vars.set(name, &SetValue::Values(vec!["x".to_owned()]), false).map_err(|e| e.sqlstate.code())
        };
        assert_eq!(code(&mut vars, "nonsense"), Err("42704"));
        assert_eq!(code(&mut vars, "server_version"), Err("55P02"));
        assert_eq!(code(&mut vars, "max_connections"), Err("55P02"));
        assert_eq!(code(&mut vars, "my.own"), Ok(Vec::new()));
        assert_eq!(vars.get("MY.OWN"), Some("x"));
    }

    #[test]
    fn planning_parameters_move_the_epoch() {
        let mut vars = session();
        let before = vars.epoch();
        set(&mut vars, "application_name", "x", false);
        assert_eq!(vars.epoch(), before);
        set(&mut vars, "search_path", "x", false);
        assert_ne!(vars.epoch(), before);
    }

    #[test]
    fn system_values_become_session_defaults() {
        let mut system = SystemVars::new();
        system.set_default("log_filter", "debug").expect("valid");
        let (name, value) = SystemVars::check("cluster", &SetValue::Values(vec!["c1".to_owned()])).expect("valid");
        system.apply(name, value);
        assert_eq!(system.get("log_filter"), Some("debug"));
        let vars = SessionVars::new(&system, "ada", "db", true, &[], &[]).expect("valid");
        assert_eq!((vars.cluster(), vars.database()), ("c1", "db"));
        assert_eq!(vars.get("is_superuser"), Some("on"));
        assert!(system.get_bool("enable_frontend_peek_sequencing"));
        assert_eq!(system.get_int("max_result_size"), Some(1 << 30));
    }
}
