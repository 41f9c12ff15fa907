//! How numerics are stored: the decimal types of Arrow, by precision and scale.

use arrow::datatypes::DataType;
use repr::PgType;
use repr::types::{NUMERIC, NUMERIC_PRECISION, NUMERIC_SCALE, NumericDisplay};

/// The decimal type with this precision and scale.
pub fn decimal(precision: u8, scale: i8) -> DataType {
    if precision <= 38 && scale <= 38 {
        DataType::Decimal128(precision.max(1), scale)
    } else {
        DataType::Decimal256(precision.min(NUMERIC_PRECISION), scale)
    }
}

/// Precision and scale of a decimal type.
pub fn precision_and_scale(data_type: &DataType) -> (u8, i8) {
    match data_type {
        DataType::Decimal128(p, s) | DataType::Decimal256(p, s) => (*p, *s),
        DataType::Int16 => (5, 0),
        DataType::Int32 => (10, 0),
        DataType::Int64 => (19, 0),
        _ => (NUMERIC_PRECISION, NUMERIC_SCALE),
    }
}

/// The decimal type that holds the values of all, and how they are displayed.
pub fn common_decimal(data_types: &[(DataType, PgType)]) -> (DataType, PgType) {
    let mut whole = 0;
    let mut scale = 0;
    for (data_type, _) in data_types {
        let (p, s) = precision_and_scale(data_type);
        whole = whole.max(i16::from(p) - i16::from(s));
        scale = scale.max(s);
    }
    let precision = (whole + i16::from(scale)).clamp(1, NUMERIC_PRECISION.into()) as u8;
    let same_scale = data_types.iter().all(|(data_type, _)| precision_and_scale(data_type).1 == scale);
    let first = data_types.first().map(|(_, ty)| ty.clone());
    let all_quotients = data_types.iter().all(|(_, ty)| *ty == PgType::Numeric(NumericDisplay::Quotient));
    let any_free = data_types
        .iter()
        .any(|(_, ty)| matches!(ty, PgType::Numeric(NumericDisplay::Trimmed | NumericDisplay::Quotient)));
    let all_same = first.as_ref().is_some_and(|first| data_types.iter().all(|(_, ty)| ty == first));
    let ty = if all_quotients || (all_same && same_scale) {
        first.unwrap_or(NUMERIC)
    } else if same_scale && !any_free {
        PgType::Numeric(NumericDisplay::Scale)
    } else {
        NUMERIC
    };
    (decimal(precision, scale), ty)
}
