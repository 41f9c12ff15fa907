//! The types that texts name.

use engine::error::SqlError;
use repr::sqlstate::SqlState;
use repr::types::{NUMERIC, NUMERIC_PRECISION, NumericDisplay};
use repr::{PgType, Reg};
use sqlparser::ast::{
    self, ArrayElemTypeDef, CharacterLength, DataType as Ast, ExactNumberInfo, ObjectName, TimezoneInfo,
};

/// The type that an AST type names.
pub fn from_ast(data_type: &Ast) -> Result<PgType, SqlError> {
    Ok(match data_type {
        Ast::Bool | Ast::Boolean => PgType::Bool,
        Ast::SmallInt(None) | Ast::Int2(None) => PgType::Int2,
        Ast::Int(None) | Ast::Integer(None) | Ast::Int4(None) => PgType::Int4,
        Ast::BigInt(None) | Ast::Int8(None) => PgType::Int8,
        Ast::Float4 | Ast::Real => PgType::Float4,
        Ast::Float8 | Ast::DoublePrecision => PgType::Float8,
        Ast::Float(ExactNumberInfo::None) => PgType::Float8,
        Ast::Float(ExactNumberInfo::Precision(bits)) => float_of_bits(*bits)?,
        Ast::Numeric(info) | Ast::Decimal(info) | Ast::Dec(info) => numeric(info)?,
        Ast::Text => PgType::Text,
        Ast::Varchar(length) | Ast::CharacterVarying(length) | Ast::CharVarying(length) => {
            PgType::Varchar(char_length("varchar", length)?)
        }
        Ast::Char(length) | Ast::Character(length) => PgType::Bpchar(Some(char_length("char", length)?.unwrap_or(1))),
        Ast::Bytea => PgType::Bytea,
        Ast::Uuid => PgType::Uuid,
        Ast::Date => PgType::Date,
        Ast::Time(precision, zone) => {
            precision_is_micros("time", precision)?;
            match zone {
                TimezoneInfo::None | TimezoneInfo::WithoutTimeZone => PgType::Time,
                _ => return Err(SqlError::unsupported("type time with time zone")),
            }
        }
        Ast::Timestamp(precision, zone) => {
            precision_is_micros("timestamp", precision)?;
            match zone {
                TimezoneInfo::None | TimezoneInfo::WithoutTimeZone => PgType::Timestamp,
                TimezoneInfo::WithTimeZone | TimezoneInfo::Tz => PgType::Timestamptz,
            }
        }
        Ast::Interval { fields: None, precision } => {
            precision_is_micros("interval", precision)?;
            PgType::Interval
        }
        Ast::Interval { .. } => return Err(SqlError::unsupported("interval with fields")),
        Ast::JSON => PgType::Json,
        Ast::JSONB => PgType::Jsonb,
        Ast::Regclass => PgType::Reg(Reg::Class),
        Ast::Array(ArrayElemTypeDef::SquareBracket(item, _)) => match from_ast(item)? {
            PgType::Array(_) => return Err(SqlError::unsupported("an array of more than one dimension")),
            item => PgType::Array(Box::new(item)),
        },
        Ast::Custom(name, modifiers) => custom(name, modifiers)?,
        other => return Err(unknown_type(&other.to_string().to_lowercase())),
    })
}

fn float_of_bits(bits: u64) -> Result<PgType, SqlError> {
    match bits {
        0 => Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "precision for type float must be at least 1 bit")),
        1..=24 => Ok(PgType::Float4),
        25..=53 => Ok(PgType::Float8),
        _ => {
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "precision for type float must be less than 54 bits"))
        }
    }
}

fn numeric(info: &ExactNumberInfo) -> Result<PgType, SqlError> {
    let (precision, scale) = match *info {
        ExactNumberInfo::None => return Ok(NUMERIC),
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    if !(1..=1000).contains(&precision) {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("NUMERIC precision {precision} must be between 1 and 1000"),
        ));
    }
    if precision > u64::from(NUMERIC_PRECISION) {
        return Err(SqlError::unsupported(format!("NUMERIC precision {precision}"))
            .with_detail(format!("The largest precision is {NUMERIC_PRECISION}.")));
    }
    if scale < 0 || scale as u64 > precision {
        return Err(SqlError::unsupported(format!("NUMERIC scale {scale} with precision {precision}"))
            .with_detail("The scale must be between 0 and the precision."));
    }
    Ok(PgType::Numeric(NumericDisplay::Declared(precision as u8, scale as i8)))
}

fn char_length(name: &str, length: &Option<CharacterLength>) -> Result<Option<u32>, SqlError> {
    match length {
        None => Ok(None),
        Some(CharacterLength::IntegerLength { length: 0, .. }) => {
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("length for type {name} must be at least 1")))
        }
        Some(CharacterLength::IntegerLength { length, .. }) if *length > 10_485_760 => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("length for type {name} cannot exceed 10485760"),
        )),
        Some(CharacterLength::IntegerLength { length, .. }) => Ok(Some(*length as u32)),
        Some(CharacterLength::Max) => Err(SqlError::unsupported(format!("{name}(max)"))),
    }
}

fn precision_is_micros(name: &str, precision: &Option<u64>) -> Result<(), SqlError> {
    match precision {
        None | Some(6) => Ok(()),
        Some(p) => Err(SqlError::unsupported(format!("type {name}({p})"))),
    }
}

fn custom(name: &ObjectName, modifiers: &[String]) -> Result<PgType, SqlError> {
    let parts: Vec<&ast::Ident> = name.0.iter().filter_map(|part| part.as_ident()).collect();
    let last = match parts.as_slice() {
        [last] => *last,
        [schema, last] if schema.value.eq_ignore_ascii_case("pg_catalog") => *last,
        _ => return Err(unknown_type(&name.to_string())),
    };
    let folded = if last.quote_style.is_some() { last.value.clone() } else { last.value.to_lowercase() };
    if last.quote_style.is_some() && folded == "char" {
        return Ok(PgType::Char);
    }
    let ty = match by_name(&folded) {
        Some(ty) => ty,
        None => return Err(unknown_type(&folded).at(last.span)),
    };
    let number = |text: &String| text.parse::<u64>().ok();
    match (ty, modifiers) {
        (ty, []) => Ok(ty),
        (PgType::Varchar(_), [n]) => Ok(PgType::Varchar(number(n).map(|n| n as u32))),
        (PgType::Bpchar(_), [n]) => Ok(PgType::Bpchar(number(n).map(|n| n as u32))),
        (PgType::Numeric(_), [p]) => numeric(&ExactNumberInfo::Precision(number(p).unwrap_or(0))),
        (PgType::Numeric(_), [p, s]) => {
            numeric(&ExactNumberInfo::PrecisionAndScale(number(p).unwrap_or(0), s.parse().unwrap_or(-1)))
        }
        (ty, [p]) if p == "6" && matches!(ty, PgType::Timestamp | PgType::Timestamptz | PgType::Time) => Ok(ty),
        (ty, _) => Err(SqlError::unsupported(format!("a modifier of type {}", ty.name()))),
    }
}

/// The type with an internal or an SQL name, without modifiers.
pub fn by_name(name: &str) -> Option<PgType> {
    if let Some(item) = name.strip_suffix("[]") {
        return by_name(item).map(|item| PgType::Array(Box::new(item)));
    }
    if let Some(item) = name.strip_prefix('_') {
        return by_name(item).map(|item| PgType::Array(Box::new(item)));
    }
    Some(match name {
        "bool" | "boolean" => PgType::Bool,
        "int2" | "smallint" => PgType::Int2,
        "int4" | "int" | "integer" => PgType::Int4,
        "int8" | "bigint" => PgType::Int8,
        "oid" | "xid" | "cid" => PgType::Oid,
        "float4" | "real" => PgType::Float4,
        "float8" | "double precision" | "float" => PgType::Float8,
        "numeric" | "decimal" => NUMERIC,
        "text" => PgType::Text,
        "varchar" | "character varying" => PgType::Varchar(None),
        "bpchar" | "character" => PgType::Bpchar(None),
        "name" => PgType::Name,
        "\"char\"" => PgType::Char,
        "bytea" => PgType::Bytea,
        "uuid" => PgType::Uuid,
        "date" => PgType::Date,
        "time" | "time without time zone" => PgType::Time,
        "timestamp" | "timestamp without time zone" => PgType::Timestamp,
        "timestamptz" | "timestamp with time zone" => PgType::Timestamptz,
        "interval" => PgType::Interval,
        "json" => PgType::Json,
        "jsonb" => PgType::Jsonb,
        "int2vector" => PgType::Int2Vector,
        "oidvector" => PgType::OidVector,
        "void" => PgType::Void,
        "record" => PgType::Record,
        name => PgType::Reg(Reg::named(name)?),
    })
}

fn unknown_type(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"))
}
