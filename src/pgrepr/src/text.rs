//! The text format: what `psql` shows, what COPY writes and what a literal is read from.
//!
//! [`encode_text`] decides by the value and asks the type only where one value prints in several ways (a timestamp
//! with or without zone, the digits of a numeric), so it cannot fail: a plan whose types are not quite what its columns
//! claim still prints what is there. [`decode_text`] decides by the type and its result fits the type's Arrow type.

use crate::array::{self, Item};
use crate::bytea::{decode_bytea, decode_uuid, encode_bytea, encode_uuid};
use crate::datetime;
use crate::error::PgReprError;
use crate::float;
use crate::interval;
use crate::json;
use crate::length::{LengthRule, fit_text};
use crate::natural::{display_of, natural_type};
use crate::numeric::{self, is_space};
use crate::options::EncodeOptions;
use crate::type_name::parse_type_name;
use crate::types;
use crate::utf8::InvalidText;
use arrow::datatypes::FieldRef;
use bytes::BufMut;
use repr::datum::Datum;
use repr::sqlstate::SqlState;
use repr::types::{PgType, Reg};
use std::borrow::Cow;

/// Prints a value as PostgreSQL prints one of type `ty`. NULL prints nothing: the caller says that it is NULL.
pub fn encode_text(ty: &PgType, datum: &Datum<'_>, options: &EncodeOptions, out: &mut Vec<u8>) {
    match datum {
        Datum::Null => {}
        Datum::Bool(value) => out.put_u8(if *value { b't' } else { b'f' }),
        Datum::Int2(value) => put_integer(*value, out),
        Datum::Int4(value) => put_integer(*value, out),
        Datum::Int8(value) => put_integer(*value, out),
        Datum::UInt8(value) => put_integer(*value, out),
        Datum::Oid(value) => put_oid(ty, *value, options, out),
        Datum::Float4(value) => float::encode_float4(*value, options.locale.extra_float_digits, out),
        Datum::Float8(value) => float::encode_float8(*value, options.locale.extra_float_digits, out),
        Datum::Numeric(value, scale) => numeric::encode_text(*value, *scale, display_of(ty), out),
        Datum::Text(value) => out.put_slice(value.as_bytes()),
        Datum::Bytes(value) if *ty == PgType::Uuid => encode_uuid(value, out),
        Datum::Bytes(value) => encode_bytea(value, options.locale.bytea, out),
        Datum::Date(days) => datetime::encode_date(*days, options.locale.date, out),
        Datum::Time(us) => datetime::encode_time(*us, out),
        Datum::Timestamp(us) if *ty == PgType::Timestamptz => {
            datetime::encode_timestamptz(*us, &options.locale.time_zone, options.locale.date, out);
        }
        Datum::Timestamp(us) => datetime::encode_timestamp(*us, options.locale.date, out),
        Datum::Interval(months, days, us) => {
            interval::encode_interval(*months, *days, *us, options.locale.interval, out)
        }
        Datum::List(items) => match ty.vector_item() {
            Some(item) => encode_vector(&item, items, options, out),
            None => encode_array(ty, items, options, out),
        },
        Datum::Record(fields) => encode_record(fields, options, out),
    }
}

fn put_integer(value: impl itoa::Integer, out: &mut Vec<u8>) {
    out.put_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// An OID alias: only types can be named without the catalog.
fn put_oid(ty: &PgType, value: u32, options: &EncodeOptions, out: &mut Vec<u8>) {
    match (ty, &options.names) {
        (_, Some(names)) if ty.names_objects() => out.put_slice(names.name(ty, value).as_bytes()),
        _ => put_unnamed(ty, value, out),
    }
}

fn put_unnamed(ty: &PgType, value: u32, out: &mut Vec<u8>) {
    match ty {
        PgType::Reg(_) if value == 0 => out.put_u8(b'-'),
        PgType::Reg(Reg::Type) => match types::from_oid(value) {
            Some(named) => out.put_slice(named.name().as_bytes()),
            None => put_integer(value, out),
        },
        _ => put_integer(value, out),
    }
}

fn encode_array(ty: &PgType, items: &[Datum<'_>], options: &EncodeOptions, out: &mut Vec<u8>) {
    let item_type = |item: &Datum<'_>| match ty {
        PgType::Array(item) => Cow::Borrowed(&**item),
        _ => Cow::Owned(natural_type(item)),
    };
    let put = |i: usize, out: &mut Vec<u8>| {
        let item: &Datum<'_> = &items[i];
        if item.is_null() {
            return Item::Null;
        }
        let ty = item_type(item);
        encode_text(&ty, item, options, out);
        if matches!(*ty, PgType::Array(_)) { Item::Nested } else { Item::Value }
    };
    array::encode_text(items.len(), put, out);
}

fn encode_vector(item: &PgType, items: &[Datum<'_>], options: &EncodeOptions, out: &mut Vec<u8>) {
    for (i, value) in items.iter().enumerate() {
        if i > 0 {
            out.put_u8(b' ');
        }
        encode_text(item, value, options, out);
    }
}

fn encode_record(fields: &[(FieldRef, Datum<'_>)], options: &EncodeOptions, out: &mut Vec<u8>) {
    out.put_u8(b'(');
    for (i, (field, value)) in fields.iter().enumerate() {
        if i > 0 {
            out.put_u8(b',');
        }
        if value.is_null() {
            continue;
        }
        let start = out.len();
        encode_text(&PgType::from_field(field), value, options, out);
        let text = &out[start..];
        let special =
            |byte: &u8| matches!(byte, b'"' | b'\\' | b'(' | b')' | b',' | b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c);
        if text.is_empty() || text.iter().any(special) {
            let text = text.to_vec();
            out.truncate(start);
            out.put_u8(b'"');
            for byte in text {
                // In a record both are doubled; in an array they take a backslash.
                if matches!(byte, b'"' | b'\\') {
                    out.put_u8(byte);
                }
                out.put_u8(byte);
            }
            out.put_u8(b'"');
        }
    }
    out.put_u8(b')');
}

/// Reads a value of type `ty`. The result has the representation of `ty.data_type()`.
pub fn decode_text(ty: &PgType, text: &str, options: &EncodeOptions) -> Result<Datum<'static>, PgReprError> {
    if text.contains('\0') {
        return Err(InvalidText(vec![0]).into());
    }
    Ok(match ty {
        PgType::Bool => Datum::Bool(decode_bool(text)?),
        PgType::Int2 => Datum::Int2(decode_integer(text, "smallint")?),
        PgType::Int4 => Datum::Int4(decode_integer(text, "integer")?),
        PgType::Int8 => Datum::Int8(decode_integer(text, "bigint")?),
        PgType::Oid => Datum::Oid(decode_oid(text, "oid")?),
        PgType::Reg(_) => Datum::Oid(decode_alias(ty, text, options)?),
        PgType::Float4 => Datum::Float4(float::decode_float4(text)?),
        PgType::Float8 => Datum::Float8(float::decode_float8(text)?),
        PgType::Numeric(display) => {
            Datum::Numeric(numeric::decode_text(text, *display)?, numeric::stored_scale(*display))
        }
        PgType::Text | PgType::Unknown | PgType::Varchar(_) | PgType::Bpchar(_) | PgType::Name | PgType::Char => {
            owned_text(fit_text(ty, text, LengthRule::Assign)?.into_owned())
        }
        PgType::Bytea => Datum::Bytes(Cow::Owned(decode_bytea(text)?)),
        PgType::Uuid => Datum::Bytes(Cow::Owned(decode_uuid(text)?.to_vec())),
        PgType::Date => Datum::Date(datetime::parse::decode_date(text, options)?),
        PgType::Time => Datum::Time(datetime::parse::decode_time(text, options)?),
        PgType::Timestamp => Datum::Timestamp(datetime::parse::decode_timestamp(text, options)?),
        PgType::Timestamptz => Datum::Timestamp(datetime::parse::decode_timestamptz(text, options)?),
        PgType::Interval => {
            let (months, days, us) = interval::decode_interval(text, options.locale.interval)?;
            Datum::Interval(months, days, us)
        }
        PgType::Json => {
            json::check_json(text)?;
            owned_text(text.to_owned())
        }
        PgType::Jsonb => owned_text(json::canonical_jsonb(text)?),
        PgType::Array(item) => {
            let items = array::decode_text(text)?;
            let read = |value: Option<String>| match value {
                None => Ok(Datum::Null),
                Some(value) => decode_text(item, &value, options),
            };
            Datum::List(items.into_iter().map(read).collect::<Result<_, _>>()?)
        }
        PgType::Int2Vector => decode_vector(&PgType::Int2, text, options)?,
        PgType::OidVector => decode_vector(&PgType::Oid, text, options)?,
        PgType::Void => Datum::Text(Cow::Borrowed("")),
        PgType::Record => {
            return Err(PgReprError::unsupported("input of anonymous composite types is not implemented"));
        }
    })
}

fn decode_vector(item: &PgType, text: &str, options: &EncodeOptions) -> Result<Datum<'static>, PgReprError> {
    let items = text.split(is_space).filter(|word| !word.is_empty());
    Ok(Datum::List(items.map(|word| decode_text(item, word, options)).collect::<Result<_, _>>()?))
}

fn owned_text(text: String) -> Datum<'static> {
    Datum::Text(Cow::Owned(text))
}

/// Any unambiguous beginning of `true`, `false`, `yes`, `no`, `on`, `off`, or a digit.
fn decode_bool(text: &str) -> Result<bool, PgReprError> {
    match text.trim_matches(is_space).to_ascii_lowercase().as_str() {
        "t" | "tr" | "tru" | "true" | "y" | "ye" | "yes" | "on" | "1" => Ok(true),
        "f" | "fa" | "fal" | "fals" | "false" | "n" | "no" | "of" | "off" | "0" => Ok(false),
        _ => Err(PgReprError::invalid_text("boolean", text)),
    }
}

fn decode_integer<T: TryFrom<i64>>(text: &str, type_name: &str) -> Result<T, PgReprError> {
    let trimmed = text.trim_matches(is_space);
    let digits = trimmed.strip_prefix(['-', '+']).unwrap_or(trimmed);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(PgReprError::invalid_text(type_name, text));
    }
    trimmed
        .parse::<i64>()
        .ok()
        .and_then(|value| T::try_from(value).ok())
        .ok_or_else(|| PgReprError::out_of_range(type_name, text))
}

/// An OID; a negative number wraps, as it always has.
fn decode_oid(text: &str, type_name: &str) -> Result<u32, PgReprError> {
    let value: i64 = decode_integer(text, type_name)?;
    u32::try_from(value)
        .or_else(|_| i32::try_from(value).map(|value| u32::from_ne_bytes(value.to_ne_bytes())))
        .map_err(|_| PgReprError::out_of_range(type_name, text))
}

/// A number, `-` for none, or the name of a type; other names need the catalog, which is asked before we are.
fn decode_alias(ty: &PgType, text: &str, options: &EncodeOptions) -> Result<u32, PgReprError> {
    let trimmed = text.trim_matches(is_space);
    if trimmed == "-" {
        return Ok(0);
    }
    if trimmed.bytes().all(|byte| byte.is_ascii_digit()) && !trimmed.is_empty() {
        return decode_oid(text, "oid");
    }
    if let Some(names) = &options.names {
        return names.oid(ty, trimmed);
    }
    let missing = |code, what: &str| PgReprError::new(code, format!("{what} \"{trimmed}\" does not exist"));
    Err(match ty {
        PgType::Reg(Reg::Type) => return parse_type_name(trimmed).map(|ty| types::oid(&ty)),
        PgType::Reg(Reg::Proc | Reg::Procedure) => missing(SqlState::UNDEFINED_FUNCTION, "function"),
        PgType::Reg(Reg::Namespace) => missing(SqlState::INVALID_SCHEMA_NAME, "schema"),
        PgType::Reg(Reg::Role) => missing(SqlState::UNDEFINED_OBJECT, "role"),
        _ => missing(SqlState::UNDEFINED_TABLE, "relation"),
    })
}

#[cfg(test)]
mod tests {
    use super::{decode_text, encode_text};
    use crate::options::EncodeOptions;
    use repr::datum::Datum;
    use repr::types::{NumericDisplay, PgType, Reg};
    use std::borrow::Cow;
    use std::sync::Arc;

    fn round(ty: &PgType, text: &str) -> Result<String, String> {
        let options = EncodeOptions::default();
        let datum = decode_text(ty, text, &options).map_err(|error| error.to_string())?;
        let mut out = Vec::new();
        encode_text(ty, &datum, &options, &mut out);
        Ok(String::from_utf8(out.to_vec()).expect("text"))
    }

    #[test]
    fn messages() {
        let message = |ty: PgType, text: &str| round(&ty, text).expect_err(text);
        assert_eq!(message(PgType::Int4, "x"), "invalid input syntax for type integer: \"x\"");
        assert_eq!(message(PgType::Int4, "99999999999"), "value \"99999999999\" is out of range for type integer");
        assert_eq!(
            message(PgType::Int8, &"9".repeat(30)),
            format!("value \"{}\" is out of range for type bigint", "9".repeat(30))
        );
        assert_eq!(message(PgType::Bool, ""), "invalid input syntax for type boolean: \"\"");
        assert_eq!(message(PgType::Text, "a\0"), "invalid byte sequence for encoding \"UTF8\": 0x00");
        assert_eq!(message(PgType::Date, "2020-13-01"), "date/time field value out of range: \"2020-13-01\"");
    }

    #[test]
    fn arrays_and_records() {
        let text_array = PgType::Array(Box::new(PgType::Text));
        let text = "{a,NULL,\"NULL\",\"\",\"a b\",\"\\\"\\\\\"}";
        assert_eq!(round(&text_array, text).as_deref(), Ok(text));
        let numerics = PgType::Array(Box::new(PgType::Numeric(NumericDisplay::Declared(5, 2))));
        assert_eq!(round(&numerics, "{1, 2.005}").as_deref(), Ok("{1.00,2.01}"));
        let vectors = "{\"\",NULL,\"1 2\"}";
        assert_eq!(round(&PgType::Array(Box::new(PgType::OidVector)), vectors).as_deref(), Ok(vectors));
        let field = |ty: &PgType, value| (Arc::new(ty.field("f", true)), value);
        let int_array = PgType::Array(Box::new(PgType::Int4));
        let record = Datum::Record(vec![
            field(&PgType::Int4, Datum::Int4(1)),
            field(&PgType::Int4, Datum::Null),
            field(&PgType::Text, Datum::Text(Cow::Borrowed("a \"b\""))),
            field(&int_array, Datum::List(vec![Datum::Int4(1), Datum::Int4(2)])),
            field(&PgType::Timestamptz, Datum::Timestamp(0)),
        ]);
        let mut out = Vec::new();
        encode_text(&PgType::Record, &record, &EncodeOptions::default(), &mut out);
        assert_eq!(&out[..], b"(1,,\"a \"\"b\"\"\",\"{1,2}\",\"1970-01-01 00:00:00+00\")");
    }

    #[test]
    fn aliases() {
        assert_eq!(round(&PgType::Reg(Reg::Type), "int4").as_deref(), Ok("integer"));
        assert_eq!(round(&PgType::Oid, "-1").as_deref(), Ok("4294967295"));
        assert_eq!(round(&PgType::Reg(Reg::Class), "-").as_deref(), Ok("-"));
        assert!(round(&PgType::Reg(Reg::Class), "pg_class").is_err());
    }
}
