//! Postgres's types as the binder sees them: from their names in SQL, and their places in the cast lattice.

use crate::error::SqlError;
use repr::sqlstate::SqlState;
use repr::types::{NUMERIC_PRECISION, NumericDisplay};
use repr::{PgType, Reg};
use sqlparser::ast::{
    self, ArrayElemTypeDef, CharacterLength, DataType as Ast, ExactNumberInfo, ObjectName, TimezoneInfo,
};

/// Unconstrained numeric.
pub const NUMERIC: PgType = PgType::Numeric(NumericDisplay::Trimmed);

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

/// The internal name (`pg_type.typname`), which is also the output name of a cast.
pub fn internal_name(ty: &PgType) -> String {
    match ty {
        PgType::Bool => "bool",
        PgType::Int2 => "int2",
        PgType::Int4 => "int4",
        PgType::Int8 => "int8",
        PgType::Float4 => "float4",
        PgType::Float8 => "float8",
        PgType::Varchar(_) => "varchar",
        PgType::Bpchar(_) => "bpchar",
        PgType::Char => "char",
        PgType::Time => "time",
        PgType::Timestamp => "timestamp",
        PgType::Timestamptz => "timestamptz",
        // An array cast is named after its item.
        PgType::Array(item) => return internal_name(item),
        other => return other.name(),
    }
    .to_owned()
}

/// The type without its modifier.
pub fn base(ty: &PgType) -> PgType {
    match ty {
        PgType::Numeric(_) => NUMERIC,
        PgType::Varchar(_) => PgType::Varchar(None),
        PgType::Bpchar(_) => PgType::Bpchar(None),
        PgType::Array(item) => PgType::Array(Box::new(base(item))),
        other => other.clone(),
    }
}

/// Postgres's type categories, as far as overload resolution needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    /// boolean
    Boolean,
    /// text and its kin
    String,
    /// numbers, and oids
    Numeric,
    /// dates and times
    DateTime,
    /// interval
    Timespan,
    /// arrays
    Array,
    /// undecorated literals
    Unknown,
    /// everything else, each type on its own
    User,
}

/// The category of a type.
pub fn category(ty: &PgType) -> Category {
    match ty {
        PgType::Bool => Category::Boolean,
        PgType::Text | PgType::Varchar(_) | PgType::Bpchar(_) | PgType::Name => Category::String,
        PgType::Int2
        | PgType::Int4
        | PgType::Int8
        | PgType::Float4
        | PgType::Float8
        | PgType::Numeric(_)
        | PgType::Oid
        | PgType::Reg(_) => Category::Numeric,
        PgType::Date | PgType::Time | PgType::Timestamp | PgType::Timestamptz => Category::DateTime,
        PgType::Interval => Category::Timespan,
        PgType::Array(_) | PgType::Int2Vector | PgType::OidVector => Category::Array,
        PgType::Unknown => Category::Unknown,
        _ => Category::User,
    }
}

/// Whether the type is preferred within its category.
pub fn is_preferred(ty: &PgType) -> bool {
    matches!(ty, PgType::Bool | PgType::Text | PgType::Float8 | PgType::Oid | PgType::Timestamptz | PgType::Interval)
}

/// Stored as text.
pub fn is_stringlike(ty: &PgType) -> bool {
    matches!(ty, PgType::Text | PgType::Varchar(_) | PgType::Bpchar(_) | PgType::Name | PgType::Char)
}

/// int2, int4 or int8.
pub fn is_integer(ty: &PgType) -> bool {
    matches!(ty, PgType::Int2 | PgType::Int4 | PgType::Int8)
}

/// float4 or float8.
pub fn is_float(ty: &PgType) -> bool {
    matches!(ty, PgType::Float4 | PgType::Float8)
}

/// A number with arithmetic.
pub fn is_number(ty: &PgType) -> bool {
    is_integer(ty) || is_float(ty) || matches!(ty, PgType::Numeric(_))
}

/// oid or an alias of it.
pub fn is_oidlike(ty: &PgType) -> bool {
    matches!(ty, PgType::Oid | PgType::Reg(_))
}

/// When a cast may be applied without being asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CastContext {
    /// Anywhere.
    Implicit,
    /// Storing into a column.
    Assignment,
    /// Written as a cast.
    Explicit,
}

/// The weakest context in which `from` converts to `to`, if there is a cast.
pub fn cast_context(from: &PgType, to: &PgType) -> Option<CastContext> {
    use CastContext::{Assignment, Explicit, Implicit};
    use PgType as T;
    if let (Some(item), T::Array(_)) = (from.vector_item(), to) {
        return cast_context(&T::Array(Box::new(item)), to);
    }
    if base(from) == base(to) || *from == T::Unknown {
        return Some(Implicit);
    }
    let rank = |ty: &T| match ty {
        T::Int2 => Some(1),
        T::Int4 => Some(2),
        T::Int8 => Some(3),
        T::Numeric(_) => Some(4),
        T::Float4 => Some(5),
        T::Float8 => Some(6),
        _ => None,
    };
    if let (Some(a), Some(b)) = (rank(from), rank(to)) {
        return Some(if a < b { Implicit } else { Assignment });
    }
    Some(match (from, to) {
        (T::Int4, T::Bool) | (T::Bool, T::Int4) => Explicit,
        (T::Int2 | T::Int4 | T::Int8, to) if is_oidlike(to) => Implicit,
        (from, T::Int4 | T::Int8) if is_oidlike(from) => Assignment,
        (T::Oid, to) if is_oidlike(to) => Implicit,
        (from, T::Oid) if is_oidlike(from) => Implicit,
        (T::Reg(Reg::Proc), T::Reg(Reg::Procedure)) | (T::Reg(Reg::Procedure), T::Reg(Reg::Proc)) => Implicit,
        (T::Char, T::Int4) | (T::Int4, T::Char) => Explicit,
        (T::Char, T::Text) => Implicit,
        (T::Char, T::Varchar(_) | T::Bpchar(_)) => Assignment,
        (T::Text | T::Varchar(_) | T::Bpchar(_), T::Char) => Assignment,
        (T::Text | T::Varchar(_) | T::Bpchar(_), T::Reg(Reg::Class)) => Implicit,
        (T::Text, T::Varchar(_) | T::Bpchar(_) | T::Name) => Implicit,
        (T::Varchar(_), T::Text | T::Bpchar(_) | T::Name) => Implicit,
        (T::Bpchar(_), T::Text | T::Varchar(_) | T::Name) => Implicit,
        (T::Name, T::Text) => Implicit,
        (T::Name, T::Varchar(_) | T::Bpchar(_)) => Assignment,
        (T::Date, T::Timestamp | T::Timestamptz) => Implicit,
        (T::Timestamp, T::Timestamptz) => Implicit,
        (T::Timestamp, T::Date | T::Time) => Assignment,
        (T::Timestamptz, T::Timestamp | T::Date | T::Time) => Assignment,
        (T::Time, T::Interval) => Implicit,
        (T::Interval, T::Time) => Assignment,
        (T::Json, T::Jsonb) | (T::Jsonb, T::Json) => Assignment,
        (T::Jsonb, T::Bool) | (T::Jsonb, T::Int2 | T::Int4 | T::Int8 | T::Numeric(_) | T::Float4 | T::Float8) => {
            Explicit
        }
        (T::Array(a), T::Array(b)) => return cast_context(a, b),
        // Through text: assignable to a string type, castable from one.
        (_, to) if category(to) == Category::String => Assignment,
        (from, _) if category(from) == Category::String => Explicit,
        _ => return None,
    })
}

/// Whether a value may be used as the other type without a cast.
pub fn implicitly(from: &PgType, to: &PgType) -> bool {
    cast_context(from, to) == Some(CastContext::Implicit)
}

/// The type to which all of several expressions convert (UNION, CASE, COALESCE, VALUES, ARRAY, IN).
///
/// `context` names the construct in the error.
pub fn common(types: &[PgType], context: &str) -> Result<PgType, SqlError> {
    let Some(first) = types.iter().find(|ty| **ty != PgType::Unknown) else { return Ok(PgType::Text) };
    if types.iter().all(|ty| ty == first) {
        return Ok(first.clone());
    }
    let mut chosen = base(first);
    for ty in types.iter().filter(|ty| **ty != PgType::Unknown) {
        let ty = base(ty);
        if ty == chosen {
            continue;
        }
        if category(&ty) != category(&chosen) {
            return Err(mismatch(context, &chosen, &ty));
        }
        if !is_preferred(&chosen) && implicitly(&chosen, &ty) && !implicitly(&ty, &chosen) {
            chosen = ty;
        }
    }
    for ty in types {
        if !implicitly(ty, &chosen) {
            return Err(mismatch(context, &chosen, ty));
        }
    }
    Ok(chosen)
}

fn mismatch(context: &str, left: &PgType, right: &PgType) -> SqlError {
    SqlError::new(
        SqlState::DATATYPE_MISMATCH,
        format!("{context} types {} and {} cannot be matched", left.name(), right.name()),
    )
}
