//! The binary format: what drivers exchange when they know the types.
//!
//! Integers are big-endian, dates and timestamps count from 2000-01-01, numerics are base-10000 digits. The type
//! decides the layout, because that is what the client was told.
//!
//! # Invariants
//! - Reading never panics and never allocates more than the bytes it was given account for.

use crate::array;
use crate::calendar::{
    DATE_INFINITY, DATE_MAX, DATE_MIN, DATE_NEGATIVE_INFINITY, DAY_US, POSTGRES_EPOCH_DAYS, POSTGRES_EPOCH_US,
    TIMESTAMP_INFINITY, TIMESTAMP_MIN, TIMESTAMP_NEGATIVE_INFINITY,
};
use crate::error::PgReprError;
use crate::interval;
use crate::json;
use crate::length::{LengthRule, fit_text};
use crate::natural::{display_of, natural_type};
use crate::numeric;
use crate::options::EncodeOptions;
use crate::types;
use crate::utf8;
use arrow::datatypes::FieldRef;
use bytes::{Buf, BufMut};
use repr::datum::Datum;
use repr::sqlstate::SqlState;
use repr::types::{NumericDisplay, PgType};
use std::borrow::Cow;

/// The only version of jsonb's binary format.
const JSONB_VERSION: u8 = 1;
/// The flags of an array's header.
const HAS_NULLS: i32 = 1;

/// Writes a value in the binary format of `ty`, without a length in front. NULL writes nothing.
///
/// Fails for a value that the type's format cannot hold: an unsigned integer beyond int8, an array item beyond 2 GiB,
/// or a value of quite another type. Nothing useful is in `out` then; the caller truncates it.
pub fn encode_binary(
    ty: &PgType,
    datum: &Datum<'_>,
    options: &EncodeOptions,
    out: &mut Vec<u8>,
) -> Result<(), PgReprError> {
    match (ty, datum) {
        (_, Datum::Null) => {}
        (PgType::Bool, Datum::Bool(value)) => out.put_u8(u8::from(*value)),
        (PgType::Int2, _) => out.put_i16(integer(ty, datum)?),
        (PgType::Int4, _) => out.put_i32(integer(ty, datum)?),
        (PgType::Int8, _) => out.put_i64(integer(ty, datum)?),
        (PgType::Oid | PgType::Reg(_), _) => out.put_u32(integer(ty, datum)?),
        (PgType::Float4, Datum::Float4(value)) => out.put_f32(*value),
        (PgType::Float8, Datum::Float8(value)) => out.put_f64(*value),
        (PgType::Float8, Datum::Float4(value)) => out.put_f64((*value).into()),
        (PgType::Numeric(_), Datum::Numeric(value, scale)) => {
            numeric::encode_binary(*value, *scale, display_of(ty), out);
        }
        (PgType::Numeric(_), Datum::UInt8(value)) => {
            numeric::encode_binary(arrow::datatypes::i256::from_i128((*value).into()), 0, NumericDisplay::Scale, out);
        }
        (PgType::Jsonb, Datum::Text(text)) => {
            out.put_u8(JSONB_VERSION);
            out.put_slice(text.as_bytes());
        }
        // An empty "char" is a zero byte.
        (PgType::Char, Datum::Text(text)) => out.put_u8(text.as_bytes().first().copied().unwrap_or(0)),
        (_, Datum::Text(text)) if is_text(ty) => out.put_slice(text.as_bytes()),
        (PgType::Bytea | PgType::Uuid, Datum::Bytes(bytes)) => out.put_slice(bytes),
        (PgType::Date, Datum::Date(days)) => out.put_i32(match *days {
            DATE_INFINITY | DATE_NEGATIVE_INFINITY => *days,
            days => days.saturating_sub(POSTGRES_EPOCH_DAYS),
        }),
        (PgType::Time, Datum::Time(us)) => out.put_i64(*us),
        (PgType::Timestamp | PgType::Timestamptz, Datum::Timestamp(us)) => out.put_i64(match *us {
            TIMESTAMP_INFINITY | TIMESTAMP_NEGATIVE_INFINITY => *us,
            us => us.saturating_sub(POSTGRES_EPOCH_US),
        }),
        (PgType::Interval, Datum::Interval(months, days, us)) => {
            out.put_i64(*us);
            out.put_i32(*days);
            out.put_i32(*months);
        }
        (PgType::Array(item), Datum::List(items)) => encode_array(item, items, 1, options, out)?,
        (PgType::Int2Vector, Datum::List(items)) => encode_array(&PgType::Int2, items, 0, options, out)?,
        (PgType::OidVector, Datum::List(items)) => encode_array(&PgType::Oid, items, 0, options, out)?,
        (PgType::Record, Datum::Record(fields)) => encode_record(fields, options, out)?,
        (PgType::Void, _) => {}
        _ => return Err(mismatch(ty, datum)),
    }
    Ok(())
}

fn is_text(ty: &PgType) -> bool {
    matches!(ty, PgType::Text | PgType::Varchar(_) | PgType::Bpchar(_) | PgType::Name | PgType::Json | PgType::Unknown)
}

fn mismatch(ty: &PgType, datum: &Datum<'_>) -> PgReprError {
    let actual = natural_type(datum);
    PgReprError::new(SqlState::INTERNAL_ERROR, format!("a value of type {actual} cannot be sent as {ty}"))
}

fn integer<T: TryFrom<i128>>(ty: &PgType, datum: &Datum<'_>) -> Result<T, PgReprError> {
    let value: i128 = match datum {
        Datum::Int2(value) => (*value).into(),
        Datum::Int4(value) => (*value).into(),
        Datum::Int8(value) => (*value).into(),
        Datum::UInt8(value) => (*value).into(),
        Datum::Oid(value) => (*value).into(),
        other => return Err(mismatch(ty, other)),
    };
    T::try_from(value).map_err(|_| PgReprError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{ty} out of range")))
}

/// Writes a value with its length in front, or -1 for NULL.
fn put_field(ty: &PgType, datum: &Datum<'_>, options: &EncodeOptions, out: &mut Vec<u8>) -> Result<(), PgReprError> {
    if datum.is_null() {
        out.put_i32(-1);
        return Ok(());
    }
    let start = out.len();
    out.put_i32(0);
    encode_binary(ty, datum, options, out)?;
    let length = i32_length(out.len() - start - 4)?;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

fn i32_length(length: usize) -> Result<i32, PgReprError> {
    i32::try_from(length)
        .map_err(|_| PgReprError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "value is too large for the protocol"))
}

fn encode_array(
    item: &PgType,
    items: &[Datum<'_>],
    lower_bound: i32,
    options: &EncodeOptions,
    out: &mut Vec<u8>,
) -> Result<(), PgReprError> {
    if items.iter().any(|item| matches!(item, Datum::List(_))) {
        return Err(array::multidimensional());
    }
    let has_nulls = items.iter().any(Datum::is_null);
    out.put_i32(i32::from(!items.is_empty()));
    out.put_i32(if has_nulls { HAS_NULLS } else { 0 });
    out.put_u32(types::oid(item));
    if items.is_empty() {
        return Ok(());
    }
    out.put_i32(i32_length(items.len())?);
    out.put_i32(lower_bound);
    items.iter().try_for_each(|datum| put_field(item, datum, options, out))
}

fn encode_record(
    fields: &[(FieldRef, Datum<'_>)],
    options: &EncodeOptions,
    out: &mut Vec<u8>,
) -> Result<(), PgReprError> {
    out.put_i32(i32_length(fields.len())?);
    for (field, value) in fields {
        let ty = PgType::from_field(field);
        out.put_u32(types::oid(&ty));
        put_field(&ty, value, options, out)?;
    }
    Ok(())
}

/// Reads a value of type `ty`. The result has the representation of `ty.data_type()`.
pub fn decode_binary(ty: &PgType, bytes: &[u8], options: &EncodeOptions) -> Result<Datum<'static>, PgReprError> {
    let mut rest = bytes;
    Ok(match ty {
        PgType::Bool => Datum::Bool(fixed::<1>(bytes)?[0] != 0),
        PgType::Int2 => Datum::Int2(i16::from_be_bytes(fixed(bytes)?)),
        PgType::Int4 => Datum::Int4(i32::from_be_bytes(fixed(bytes)?)),
        PgType::Int8 => Datum::Int8(i64::from_be_bytes(fixed(bytes)?)),
        PgType::Oid | PgType::Reg(_) => Datum::Oid(u32::from_be_bytes(fixed(bytes)?)),
        PgType::Float4 => Datum::Float4(f32::from_be_bytes(fixed(bytes)?)),
        PgType::Float8 => Datum::Float8(f64::from_be_bytes(fixed(bytes)?)),
        PgType::Numeric(display) => {
            Datum::Numeric(numeric::decode_binary(bytes, *display)?, numeric::stored_scale(*display))
        }
        PgType::Text | PgType::Unknown | PgType::Varchar(_) | PgType::Bpchar(_) | PgType::Name => {
            owned_text(fit_text(ty, utf8::text(bytes)?, LengthRule::Assign)?.into_owned())
        }
        PgType::Char => owned_text(char_text(fixed(bytes)?)?),
        PgType::Bytea => Datum::Bytes(Cow::Owned(bytes.to_vec())),
        PgType::Uuid => Datum::Bytes(Cow::Owned(fixed::<16>(bytes)?.to_vec())),
        PgType::Date => Datum::Date(date(i32::from_be_bytes(fixed(bytes)?))?),
        PgType::Time => {
            let us = i64::from_be_bytes(fixed(bytes)?);
            if !(0..=DAY_US).contains(&us) {
                return Err(PgReprError::new(SqlState::DATETIME_FIELD_OVERFLOW, "time out of range"));
            }
            Datum::Time(us)
        }
        PgType::Timestamp | PgType::Timestamptz => Datum::Timestamp(timestamp(i64::from_be_bytes(fixed(bytes)?))?),
        PgType::Interval => {
            fixed::<16>(bytes)?;
            let (us, days, months) = (rest.get_i64(), rest.get_i32(), rest.get_i32());
            let (months, days, us) = interval::check_range(months.into(), days.into(), us.into())?;
            Datum::Interval(months, days, us)
        }
        PgType::Json => {
            let text = utf8::text(bytes)?;
            json::check_json(text)?;
            owned_text(text.to_owned())
        }
        PgType::Jsonb => match bytes {
            [JSONB_VERSION, text @ ..] => owned_text(json::canonical_jsonb(utf8::text(text)?)?),
            [version, ..] => {
                return Err(PgReprError::invalid_binary(format!("unsupported jsonb version number {version}")));
            }
            [] => return Err(malformed()),
        },
        PgType::Array(item) => decode_array(item, rest, options)?,
        PgType::Int2Vector => decode_array(&PgType::Int2, rest, options)?,
        PgType::OidVector => decode_array(&PgType::Oid, rest, options)?,
        PgType::Void => Datum::Text(Cow::Borrowed("")),
        PgType::Record => {
            return Err(PgReprError::unsupported("input of anonymous composite types is not implemented"));
        }
    })
}

fn malformed() -> PgReprError {
    PgReprError::invalid_binary("incorrect binary data format")
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N], PgReprError> {
    bytes.try_into().map_err(|_| malformed())
}

fn owned_text(text: String) -> Datum<'static> {
    Datum::Text(Cow::Owned(text))
}

/// One byte of "char"; only ASCII can be kept as text.
fn char_text(byte: [u8; 1]) -> Result<String, PgReprError> {
    if byte == [0] { Ok(String::new()) } else { Ok(utf8::text(&byte)?.to_owned()) }
}

fn date(days: i32) -> Result<i32, PgReprError> {
    match days {
        DATE_INFINITY | DATE_NEGATIVE_INFINITY => Ok(days),
        days => days
            .checked_add(POSTGRES_EPOCH_DAYS)
            .filter(|days| (DATE_MIN..=DATE_MAX).contains(days))
            .ok_or_else(|| PgReprError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range")),
    }
}

fn timestamp(us: i64) -> Result<i64, PgReprError> {
    match us {
        TIMESTAMP_INFINITY | TIMESTAMP_NEGATIVE_INFINITY => Ok(us),
        us => us
            .checked_add(POSTGRES_EPOCH_US)
            .filter(|us| (TIMESTAMP_MIN..TIMESTAMP_INFINITY).contains(us))
            .ok_or_else(|| PgReprError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range")),
    }
}

fn decode_array(item: &PgType, mut bytes: &[u8], options: &EncodeOptions) -> Result<Datum<'static>, PgReprError> {
    if bytes.len() < 12 {
        return Err(malformed());
    }
    let (dimensions, flags, oid) = (bytes.get_i32(), bytes.get_i32(), bytes.get_u32());
    if !(0..=1).contains(&flags) {
        return Err(PgReprError::invalid_binary("invalid array flags"));
    }
    check_item_type(item, oid)?;
    match dimensions {
        0 if bytes.is_empty() => return Ok(Datum::List(Vec::new())),
        1 if bytes.len() >= 8 => {}
        2.. => return Err(array::multidimensional()),
        ..0 => return Err(PgReprError::invalid_binary(format!("invalid number of dimensions: {dimensions}"))),
        _ => return Err(malformed()),
    }
    let (count, _lower_bound) = (bytes.get_i32(), bytes.get_i32());
    // Each item takes at least the four bytes of its length.
    let count = usize::try_from(count).ok().filter(|count| *count <= bytes.len() / 4).ok_or_else(malformed)?;
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        items.push(decode_field(item, &mut bytes, options)?);
    }
    if bytes.is_empty() { Ok(Datum::List(items)) } else { Err(malformed()) }
}

fn decode_field(item: &PgType, bytes: &mut &[u8], options: &EncodeOptions) -> Result<Datum<'static>, PgReprError> {
    if bytes.len() < 4 {
        return Err(malformed());
    }
    let length = bytes.get_i32();
    if length == -1 {
        return Ok(Datum::Null);
    }
    let length = usize::try_from(length).ok().filter(|length| *length <= bytes.len()).ok_or_else(malformed)?;
    let (field, rest) = bytes.split_at(length);
    *bytes = rest;
    decode_binary(item, field, options)
}

/// The items' type must be the expected one, or one with the same bytes.
fn check_item_type(item: &PgType, oid: u32) -> Result<(), PgReprError> {
    let expected = types::oid(item);
    let same_bytes = |ty: &PgType| matches!(ty, PgType::Unknown) || is_text(ty) && !matches!(ty, PgType::Json);
    if oid == expected || same_bytes(item) && types::from_oid(oid).is_some_and(|sent| same_bytes(&sent)) {
        return Ok(());
    }
    let sent = types::from_oid(oid).map_or_else(|| "???".to_owned(), |ty| ty.name());
    Err(PgReprError::new(
        SqlState::DATATYPE_MISMATCH,
        format!("binary data has array element type {oid} ({sent}) instead of expected {expected} ({})", item.name()),
    ))
}

#[cfg(test)]
mod tests {
    use super::{decode_binary, encode_binary};
    use crate::options::EncodeOptions;
    use repr::datum::Datum;
    use repr::types::PgType;
    use std::borrow::Cow;

    fn bytes(ty: &PgType, datum: &Datum<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        encode_binary(ty, datum, &EncodeOptions::default(), &mut out).expect("a value of the type");
        out.to_vec()
    }

    #[test]
    fn layouts() {
        assert_eq!(bytes(&PgType::Date, &Datum::Date(10_957)), [0, 0, 0, 0]);
        assert_eq!(bytes(&PgType::Timestamp, &Datum::Timestamp(946_684_800_000_001)), [0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(bytes(&PgType::Jsonb, &Datum::Text(Cow::Borrowed("1"))), [1, b'1']);
        let array = PgType::Array(Box::new(PgType::Int2));
        let items = Datum::List(vec![Datum::Int2(7), Datum::Null]);
        let expected =
            [0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 21, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 7, 255, 255, 255, 255];
        assert_eq!(bytes(&array, &items), expected);
        assert_eq!(decode_binary(&array, &expected, &EncodeOptions::default()), Ok(items));
    }

    #[test]
    fn an_unsigned_integer_that_does_not_fit_is_an_error() {
        let mut out = Vec::new();
        let error = encode_binary(&PgType::Int8, &Datum::UInt8(u64::MAX), &EncodeOptions::default(), &mut out)
            .expect_err("beyond int8");
        assert_eq!(error.sqlstate.code(), "22003");
    }

    #[test]
    fn an_array_that_claims_too_much_is_refused() {
        let array = PgType::Array(Box::new(PgType::Int4));
        let claim = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 0x7f, 255, 255, 255, 0, 0, 0, 1];
        let error = decode_binary(&array, &claim, &EncodeOptions::default()).expect_err("no items follow");
        assert_eq!(error.sqlstate.code(), "22P03");
    }
}
