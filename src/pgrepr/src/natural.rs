//! What a value says of its type, and a type of how its values are shown, where text and binary forms ask the same.

use repr::datum::Datum;
use repr::types::{NumericDisplay, PgType};

/// The type that a value has by itself, for the fields of records and of arrays of unknown type.
pub(crate) fn natural_type(datum: &Datum<'_>) -> PgType {
    match datum {
        Datum::Null | Datum::Text(_) => PgType::Text,
        Datum::Bool(_) => PgType::Bool,
        Datum::Int2(_) => PgType::Int2,
        Datum::Int4(_) => PgType::Int4,
        Datum::Int8(_) => PgType::Int8,
        Datum::UInt8(_) => PgType::Numeric(NumericDisplay::Scale),
        Datum::Oid(_) => PgType::Oid,
        Datum::Float4(_) => PgType::Float4,
        Datum::Float8(_) => PgType::Float8,
        Datum::Numeric(..) => PgType::Numeric(NumericDisplay::Scale),
        Datum::Bytes(_) => PgType::Bytea,
        Datum::Date(_) => PgType::Date,
        Datum::Time(_) => PgType::Time,
        Datum::Timestamp(_) => PgType::Timestamp,
        Datum::Interval(..) => PgType::Interval,
        Datum::List(items) => PgType::Array(Box::new(items.first().map_or(PgType::Text, natural_type))),
        Datum::Record(_) => PgType::Record,
    }
}

/// How a numeric of this type is displayed.
pub(crate) fn display_of(ty: &PgType) -> NumericDisplay {
    match ty {
        PgType::Numeric(display) => *display,
        _ => NumericDisplay::Scale,
    }
}
