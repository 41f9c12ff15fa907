//! The operator classes that an index's key may name.
//!
//! Text is compared by bytes, so the pattern classes compare it as the default one does. Which of them was named is kept, for
//! those who ask how the index was made.

use engine::error::SqlError;
use repr::sqlstate::SqlState;
use repr::{NumericDisplay, PgType};
use std::mem::discriminant;

/// Classes that are their types' default ones.
const DEFAULTS: [(&str, PgType); 21] = [
    ("bool_ops", PgType::Bool),
    ("int2_ops", PgType::Int2),
    ("int4_ops", PgType::Int4),
    ("int8_ops", PgType::Int8),
    ("oid_ops", PgType::Oid),
    ("float4_ops", PgType::Float4),
    ("float8_ops", PgType::Float8),
    ("numeric_ops", PgType::Numeric(NumericDisplay::Trimmed)),
    ("text_ops", PgType::Text),
    ("varchar_ops", PgType::Text),
    ("bpchar_ops", PgType::Bpchar(None)),
    ("name_ops", PgType::Name),
    ("char_ops", PgType::Char),
    ("bytea_ops", PgType::Bytea),
    ("uuid_ops", PgType::Uuid),
    ("date_ops", PgType::Date),
    ("time_ops", PgType::Time),
    ("timestamp_ops", PgType::Timestamp),
    ("timestamptz_ops", PgType::Timestamptz),
    ("interval_ops", PgType::Interval),
    ("jsonb_ops", PgType::Jsonb),
];
/// Classes that are not.
const PATTERNS: [(&str, PgType); 3] = [
    ("text_pattern_ops", PgType::Text),
    ("varchar_pattern_ops", PgType::Text),
    ("bpchar_pattern_ops", PgType::Bpchar(None)),
];

/// The class that is kept for a key of type `ty`: none for the type's default one. Errors: 42704, 42804.
pub(super) fn operator_class(class: &str, ty: &PgType) -> Result<Option<String>, SqlError> {
    let ty = match ty {
        PgType::Varchar(_) => &PgType::Text,
        ty => ty,
    };
    let of =
        |classes: &[(&str, PgType)]| classes.iter().find(|(name, _)| *name == class).map(|(_, ty)| discriminant(ty));
    match (of(&DEFAULTS), of(&PATTERNS)) {
        (Some(of), _) if of == discriminant(ty) => Ok(None),
        (_, Some(of)) if of == discriminant(ty) => Ok(Some(class.to_owned())),
        (None, None) => {
            let message = format!("operator class \"{class}\" does not exist for access method \"btree\"");
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
        }
        _ => {
            let message = format!("operator class \"{class}\" does not accept data type {}", ty.name());
            Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message))
        }
    }
}
