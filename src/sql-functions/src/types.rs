//! Postgres's types as the binder sees them: their names, categories and places in the cast lattice.

use engine::error::SqlError;
use repr::sqlstate::SqlState;
use repr::types::NUMERIC;
use repr::{PgType, Reg};

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
