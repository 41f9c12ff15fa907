//! Type names as people write them: `int4`, `integer`, `varchar(3)`, `timestamp with time zone`, `text[]`.

use crate::error::PgReprError;
use crate::types::{TYPES, TypeInfo};
use repr::sqlstate::SqlState;
use repr::types::{NUMERIC_PRECISION, NumericDisplay, PgType};

/// The longest varchar or char, as in PostgreSQL.
pub const LENGTH_MAX: u32 = 10_485_760;

/// Reads a type name, with its modifier and array brackets.
pub fn parse_type_name(text: &str) -> Result<PgType, PgReprError> {
    let unknown = || PgReprError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{}\" does not exist", text.trim()));
    let mut rest = text.trim();
    let mut array = false;
    while let Some(before) = rest.strip_suffix(']') {
        let open = before.rfind('[').ok_or_else(unknown)?;
        if !before[open + 1..].trim().bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(unknown());
        }
        rest = before[..open].trim_end();
        array = true;
    }
    let words = words(rest).ok_or_else(unknown)?;
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    if words.last() == Some(&"array") && words.len() > 1 {
        words.pop();
        array = true;
    }
    if let ["pg_catalog", ".", name @ ..] = &words[..] {
        words = name.to_vec();
    }
    let ty = match &words[..] {
        [name, tail @ ..] if name.starts_with('_') => {
            let item = named(&name[1..], tail).ok_or_else(unknown)??;
            array = true;
            item
        }
        [name, tail @ ..] => named(name, tail).ok_or_else(unknown)??,
        [] => return Err(unknown()),
    };
    Ok(if array { PgType::Array(Box::new(ty)) } else { ty })
}

/// The type that `typname` names, as `pg_type` has it.
pub fn from_typname(name: &str) -> Option<PgType> {
    let find = |name: &str| TYPES.iter().find(|info: &&TypeInfo| info.name == name).map(|info| info.ty.clone());
    match name.strip_prefix('_') {
        Some(item) => find(item).map(|item| PgType::Array(Box::new(item))),
        None => find(name),
    }
}

/// Lower-cased words, quoted names (with their quotes), numbers and punctuation.
fn words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            c if c.is_whitespace() => {
                rest = rest.trim_start();
                continue;
            }
            '"' => rest[1..].find('"')? + 2,
            c if c.is_alphanumeric() || c == '_' => {
                rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len())
            }
            '(' | ')' | ',' | '.' | '-' => 1,
            _ => return None,
        };
        let word = &rest[..length];
        words.push(match word {
            "\"char\"" => word.to_owned(),
            quoted if quoted.starts_with('"') => quoted.trim_matches('"').to_owned(),
            plain => plain.to_lowercase(),
        });
        rest = &rest[length..];
    }
    Some(words)
}

/// The type of a name and what follows it: `None` for an unknown type, an error for a bad modifier.
fn named(name: &str, tail: &[&str]) -> Option<Result<PgType, PgReprError>> {
    let plain = |ty: PgType| if tail.is_empty() { Some(Ok(ty)) } else { None };
    match name {
        "bool" | "boolean" => plain(PgType::Bool),
        "int2" | "smallint" => plain(PgType::Int2),
        "int4" | "integer" | "int" => plain(PgType::Int4),
        "int8" | "bigint" => plain(PgType::Int8),
        "float4" | "real" => plain(PgType::Float4),
        "float8" => plain(PgType::Float8),
        "double" => (tail == ["precision"]).then_some(Ok(PgType::Float8)),
        "float" => Some(float(&arguments(tail)?)),
        "numeric" | "decimal" | "dec" => Some(numeric(&arguments(tail)?)),
        "\"char\"" => plain(PgType::Char),
        "string" => plain(PgType::Text),
        "varchar" => Some(varying(&arguments(tail)?)),
        "bpchar" => Some(fixed(&arguments(tail)?, None)),
        "char" | "character" | "nchar" => match tail {
            ["varying", tail @ ..] => Some(varying(&arguments(tail)?)),
            tail => Some(fixed(&arguments(tail)?, Some(1))),
        },
        "national" => match tail {
            ["character" | "char", tail @ ..] => named("character", tail),
            _ => None,
        },
        "time" | "timestamp" | "timestamptz" | "interval" => temporal(name, tail),
        name => plain(TYPES.iter().find(|info| info.name == name).map(|info| info.ty.clone())?),
    }
}

/// The numbers of `(a, b)`; empty without parentheses.
fn arguments(tail: &[&str]) -> Option<Vec<i64>> {
    let inner = match tail {
        [] => return Some(Vec::new()),
        ["(", inner @ .., ")"] => inner.concat(),
        _ => return None,
    };
    inner.split(',').map(|number| number.parse().ok()).collect()
}

fn invalid(message: String) -> PgReprError {
    PgReprError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn float(arguments: &[i64]) -> Result<PgType, PgReprError> {
    match arguments {
        [] | [25..=53] => Ok(PgType::Float8),
        [1..=24] => Ok(PgType::Float4),
        [(..=0)] => Err(invalid("precision for type float must be at least 1 bit".to_owned())),
        _ => Err(invalid("precision for type float must be less than 54 bits".to_owned())),
    }
}

/// `numeric(p, s)`, checked.
fn numeric(arguments: &[i64]) -> Result<PgType, PgReprError> {
    let (precision, scale) = match arguments {
        [] => return Ok(PgType::Numeric(NumericDisplay::Trimmed)),
        [precision] => (*precision, 0),
        [precision, scale] => (*precision, *scale),
        _ => return Err(invalid("invalid NUMERIC type modifier".to_owned())),
    };
    if !(1..=1000).contains(&precision) {
        return Err(invalid(format!("NUMERIC precision {precision} must be between 1 and 1000")));
    }
    if !(-1000..=1000).contains(&scale) {
        return Err(invalid(format!("NUMERIC scale {scale} must be between -1000 and 1000")));
    }
    let unsupported = || {
        PgReprError::unsupported(format!("numeric({precision},{scale}) is not supported")).with_detail(format!(
            "The precision may be at most {NUMERIC_PRECISION}, the scale at least 0 and at most the precision."
        ))
    };
    match (u8::try_from(precision), i8::try_from(scale)) {
        (Ok(p), Ok(s)) if p <= NUMERIC_PRECISION && (0..=precision).contains(&scale) => {
            Ok(PgType::Numeric(NumericDisplay::Declared(p, s)))
        }
        _ => Err(unsupported()),
    }
}

fn varying(arguments: &[i64]) -> Result<PgType, PgReprError> {
    match arguments {
        [] => Ok(PgType::Varchar(None)),
        [length] => length_limit(*length, "varchar").map(|n| PgType::Varchar(Some(n))),
        _ => Err(invalid("invalid type modifier".to_owned())),
    }
}

fn fixed(arguments: &[i64], default: Option<u32>) -> Result<PgType, PgReprError> {
    match arguments {
        [] => Ok(PgType::Bpchar(default)),
        [length] => length_limit(*length, "char").map(|n| PgType::Bpchar(Some(n))),
        _ => Err(invalid("invalid type modifier".to_owned())),
    }
}

/// Checks the length of `varchar(n)` or `char(n)`.
pub fn length_limit(length: i64, name: &str) -> Result<u32, PgReprError> {
    match u32::try_from(length) {
        Ok(0) | Err(_) if length < 1 => Err(invalid(format!("length for type {name} must be at least 1"))),
        Ok(n) if n <= LENGTH_MAX => Ok(n),
        _ => Err(invalid(format!("length for type {name} cannot exceed {LENGTH_MAX}"))),
    }
}

/// Times, with or without zone. Only the full precision of six digits is stored.
fn temporal(name: &str, tail: &[&str]) -> Option<Result<PgType, PgReprError>> {
    let close = tail.iter().position(|word| *word == ")").map_or(0, |at| at + 1);
    let (modifier, suffix) = if tail.first() == Some(&"(") { tail.split_at(close) } else { (&tail[..0], tail) };
    let precision = arguments(modifier)?;
    let ty = match (name, suffix) {
        ("time", [] | ["without", "time", "zone"]) => PgType::Time,
        ("time", ["with", "time", "zone"]) => {
            return Some(Err(PgReprError::unsupported("type time with time zone is not supported")));
        }
        ("timestamp", [] | ["without", "time", "zone"]) => PgType::Timestamp,
        ("timestamp", ["with", "time", "zone"]) | ("timestamptz", []) => PgType::Timestamptz,
        ("interval", []) => PgType::Interval,
        ("interval", ["year" | "month" | "day" | "hour" | "minute" | "second", ..]) => {
            return Some(Err(PgReprError::unsupported("interval field restrictions are not supported")));
        }
        _ => return None,
    };
    Some(match precision[..] {
        [] | [6] => Ok(ty),
        _ => Err(PgReprError::unsupported(format!("a precision for type {ty} other than 6 is not supported"))),
    })
}

#[cfg(test)]
mod tests {
    use super::{from_typname, parse_type_name};
    use repr::types::{NumericDisplay, PgType, Reg};

    #[test]
    fn spellings() {
        let cases = [
            ("int4", PgType::Int4),
            (" INTEGER ", PgType::Int4),
            ("pg_catalog.int8", PgType::Int8),
            ("double precision", PgType::Float8),
            ("float(10)", PgType::Float4),
            ("varchar(3)", PgType::Varchar(Some(3))),
            ("character varying ( 3 )", PgType::Varchar(Some(3))),
            ("char", PgType::Bpchar(Some(1))),
            ("\"char\"", PgType::Char),
            ("numeric(10, 2)", PgType::Numeric(NumericDisplay::Declared(10, 2))),
            ("decimal", PgType::Numeric(NumericDisplay::Trimmed)),
            ("timestamp with time zone", PgType::Timestamptz),
            ("timestamp(6) without time zone", PgType::Timestamp),
            ("text[]", PgType::Array(Box::new(PgType::Text))),
            ("int4[3][]", PgType::Array(Box::new(PgType::Int4))),
            ("_text", PgType::Array(Box::new(PgType::Text))),
            ("integer array", PgType::Array(Box::new(PgType::Int4))),
            ("regclass", PgType::Reg(Reg::Class)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_type_name(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn refusals() {
        let code = |text: &str| parse_type_name(text).expect_err(text).sqlstate.code();
        assert_eq!(code("foo"), "42704");
        assert_eq!(code(""), "42704");
        assert_eq!(code("int4("), "42704");
        assert_eq!(code("varchar(0)"), "22023");
        assert_eq!(code("varchar(99999999)"), "22023");
        assert_eq!(code("numeric(1001)"), "22023");
        assert_eq!(code("numeric(100)"), "0A000");
        assert_eq!(code("timestamp(3)"), "0A000");
        assert_eq!(from_typname("_int4"), Some(PgType::Array(Box::new(PgType::Int4))));
        assert_eq!(from_typname("integer"), None);
    }
}
