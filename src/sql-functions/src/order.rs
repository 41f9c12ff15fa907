//! When two values of a type are equal, and which comes first.
//!
//! Arrow orders most types as Postgres does. Where it does not, a value is compared by its *key*: bytes that are equal for
//! equal values, and that `memcmp` orders as Postgres orders the values. `1.0` and `1` in a jsonb have one key, as have
//! `'a'` and `'a  '` of type char(n); in an array NULL comes last.
//!
//! A key is self-delimiting, so that the key of an array is those of its items in a row.

use super::library::Library;
use crate::call::Call;
use engine::error::SqlError;
use pgrepr::json::order::{order_key as jsonb_key, write_number};
use repr::types::NumericDisplay;
use repr::{Datum, PgType};
use std::borrow::Cow;
use std::cmp::Ordering;

/// Ends a list, and comes before whatever continues a longer one.
const END: u8 = 0;
/// Begins an item.
const ITEM: u8 = 1;
/// Stands for NULL, behind all items.
const NULL: u8 = 2;

/// Declares the functions of this file.
pub fn declare(library: &mut Library) {
    library.add("order_key(any) bytea", |call, a| {
        let mut key = Vec::new();
        write(&call.args[0], &a[0], &mut key)?;
        Ok(Datum::Bytes(Cow::Owned(key)))
    });
}

/// Whether equal values of a type are stored alike, zeros of floats aside.
pub fn is_exact(ty: &PgType) -> bool {
    match ty {
        // Whatever makes a char(n) pads it to its n.
        PgType::Bpchar(length) => length.is_some(),
        PgType::Interval | PgType::Jsonb => false,
        // Functions make arrays of items without their length, and Arrow compares the zeros in arrays by their bits.
        PgType::Array(item) => is_exact(item) && !matches!(**item, PgType::Bpchar(_) | PgType::Float4 | PgType::Float8),
        _ => true,
    }
}

/// Whether values of a type come in the order of what is stored.
pub fn is_ordered_as_stored(ty: &PgType) -> bool {
    // Blanks at the end count for nothing, and yet what comes before a blank comes before them.
    is_exact(ty) && !matches!(ty, PgType::Array(_) | PgType::Bpchar(_))
}

/// The item type of the array in the first argument of a call; of any other, its own.
pub fn item_type<'c>(call: &'c Call<'_>, arg: usize) -> &'c PgType {
    match call.args.get(arg) {
        Some(PgType::Array(item)) => item,
        Some(ty) => ty,
        None => &PgType::Unknown,
    }
}

/// The order of two values of one type; NULL is not comparable.
pub fn compare(ty: &PgType, left: &Datum<'_>, right: &Datum<'_>) -> Option<Ordering> {
    Some(match (ty, left, right) {
        (_, Datum::Null, _) | (_, _, Datum::Null) => return None,
        (PgType::Bpchar(_), Datum::Text(a), Datum::Text(b)) => {
            a.trim_end_matches(' ').as_bytes().cmp(b.trim_end_matches(' ').as_bytes())
        }
        (PgType::Jsonb, Datum::Text(a), Datum::Text(b)) => jsonb_key(a).cmp(&jsonb_key(b)),
        (_, Datum::Bool(a), Datum::Bool(b)) => a.cmp(b),
        (_, Datum::Int2(a), Datum::Int2(b)) => a.cmp(b),
        (_, Datum::Int4(a), Datum::Int4(b)) => a.cmp(b),
        (_, Datum::Int8(a), Datum::Int8(b)) => a.cmp(b),
        (_, Datum::Oid(a), Datum::Oid(b)) => a.cmp(b),
        (_, Datum::Float4(a), Datum::Float4(b)) => compare_floats((*a).into(), (*b).into()),
        (_, Datum::Float8(a), Datum::Float8(b)) => compare_floats(*a, *b),
        (_, Datum::Numeric(a, s), Datum::Numeric(b, t)) => compare_numerics((*a, *s), (*b, *t)),
        (_, Datum::Text(a), Datum::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (_, Datum::Bytes(a), Datum::Bytes(b)) => a.cmp(b),
        (_, Datum::Date(a), Datum::Date(b)) => a.cmp(b),
        (_, Datum::Time(a), Datum::Time(b)) | (_, Datum::Timestamp(a), Datum::Timestamp(b)) => a.cmp(b),
        (_, Datum::Interval(m, d, u), Datum::Interval(n, e, v)) => {
            super::interval::total_us(*m, *d, *u).cmp(&super::interval::total_us(*n, *e, *v))
        }
        (PgType::Array(item), Datum::List(a), Datum::List(b)) => {
            let differing = a.iter().zip(b).map(|(x, y)| compare_nulls_last(item, x, y));
            differing.into_iter().find(|order| *order != Ordering::Equal).unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        _ => return None,
    })
}

/// The order of two values of one type, NULL behind all others.
pub fn compare_nulls_last(ty: &PgType, left: &Datum<'_>, right: &Datum<'_>) -> Ordering {
    compare(ty, left, right).unwrap_or_else(|| left.is_null().cmp(&right.is_null()))
}

/// Whether two values are equal; NULL is equal to nothing.
pub fn equal(ty: &PgType, left: &Datum<'_>, right: &Datum<'_>) -> bool {
    compare(ty, left, right) == Some(Ordering::Equal)
}

/// Whether two values are equal, or both NULL.
pub fn not_distinct(ty: &PgType, left: &Datum<'_>, right: &Datum<'_>) -> bool {
    (left.is_null() && right.is_null()) || equal(ty, left, right)
}

fn compare_floats(a: f64, b: f64) -> Ordering {
    // NaN equals itself and is larger than everything; the zeros are equal.
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn compare_numerics((a, s): (arrow::datatypes::i256, i8), (b, t): (arrow::datatypes::i256, i8)) -> Ordering {
    let scale = s.max(t);
    match (pgrepr::numeric::rescale(a, s, scale), pgrepr::numeric::rescale(b, t, scale)) {
        (Some(a), Some(b)) => a.cmp(&b),
        // Only a number too large for the other's scale fails.
        (None, _) => a.cmp(&arrow::datatypes::i256::ZERO),
        (_, None) => arrow::datatypes::i256::ZERO.cmp(&b),
    }
}

/// Appends the key of a value that is not NULL.
fn write(ty: &PgType, value: &Datum<'_>, key: &mut Vec<u8>) -> Result<(), SqlError> {
    match (ty, value) {
        (PgType::Bpchar(_), Datum::Text(text)) => write_text(text.trim_end_matches(' '), key),
        (PgType::Jsonb, Datum::Text(text)) => key.extend(jsonb_key(text)),
        (_, Datum::Text(text)) => write_text(text, key),
        (_, Datum::Bool(value)) => key.push((*value).into()),
        (_, Datum::Int2(value)) => write_int((*value).into(), key),
        (_, Datum::Int4(value) | Datum::Date(value)) => write_int((*value).into(), key),
        (_, Datum::Int8(value) | Datum::Time(value) | Datum::Timestamp(value)) => write_int((*value).into(), key),
        (_, Datum::Oid(value)) => write_int((*value).into(), key),
        (_, Datum::UInt8(value)) => write_int((*value).into(), key),
        (_, Datum::Float4(value)) => write_float((*value).into(), key),
        (_, Datum::Float8(value)) => write_float(*value, key),
        (_, Datum::Numeric(value, scale)) => {
            let mut digits = Vec::new();
            pgrepr::numeric::encode_text(*value, *scale, NumericDisplay::Scale, &mut digits);
            write_number(&String::from_utf8_lossy(&digits), key);
        }
        (_, Datum::Interval(m, d, u)) => write_int(super::interval::total_us(*m, *d, *u), key),
        (_, Datum::Bytes(bytes)) => {
            for byte in bytes.iter() {
                // A zero would end the bytes.
                key.extend_from_slice(if *byte == 0 { &[0, 1] } else { std::slice::from_ref(byte) });
            }
            key.extend_from_slice(&[0, 0]);
        }
        (PgType::Array(item), Datum::List(items)) => {
            for value in items {
                if value.is_null() {
                    key.push(NULL);
                } else {
                    key.push(ITEM);
                    write(item, value, key)?;
                }
            }
            key.push(END);
        }
        (ty, _) => return Err(SqlError::internal(format!("no order of type {}", ty.name()))),
    }
    Ok(())
}

/// Text has no zero bytes.
fn write_text(text: &str, key: &mut Vec<u8>) {
    key.extend_from_slice(text.as_bytes());
    key.push(END);
}

fn write_int(value: i128, key: &mut Vec<u8>) {
    key.extend_from_slice(&(value ^ i128::MIN).to_be_bytes());
}

fn write_float(value: f64, key: &mut Vec<u8>) {
    let value = if value.is_nan() { f64::NAN } else { value + 0.0 };
    let bits = value.to_bits();
    let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    key.extend_from_slice(&ordered.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::{compare_nulls_last, write};
    use arrow::datatypes::i256;
    use repr::{Datum, PgType};

    #[test]
    fn keys_are_ordered_as_values_are() {
        let numeric = |value: i128, scale: i8| Datum::Numeric(i256::from_i128(value), scale);
        let list = |items: &[Datum<'static>]| Datum::List(items.to_vec());
        let int = PgType::Array(Box::new(PgType::Int4));
        let (one, two) = (Datum::Int4(1), Datum::Int4(2));
        let ascending: [(PgType, Vec<Datum<'static>>); 6] = [
            (
                PgType::Float8,
                [f64::NEG_INFINITY, -1.5, 0.0, 1e-300, 2.0, f64::INFINITY, f64::NAN].map(Datum::Float8).into(),
            ),
            (
                repr::types::NUMERIC,
                vec![numeric(-105, 1), numeric(-10, 0), numeric(0, 3), numeric(5, 2), numeric(15, 0)],
            ),
            (PgType::Interval, vec![Datum::Interval(0, -1, 0), Datum::Interval(0, 29, 5), Datum::Interval(1, 0, 0)]),
            (PgType::Bpchar(None), ["", "a", "a b", "b"].map(|text| Datum::Text(text.into())).into()),
            (
                int,
                vec![
                    list(&[]),
                    list(std::slice::from_ref(&one)),
                    list(&[one.clone(), two.clone()]),
                    list(&[one.clone(), Datum::Null]),
                    list(&[two]),
                    list(&[Datum::Null]),
                ],
            ),
            (PgType::Bytea, [&b""[..], b"\0", b"\0\0", b"\0a", b"a"].map(|bytes| Datum::Bytes(bytes.into())).into()),
        ];
        for (ty, values) in ascending {
            let key = |value: &Datum<'_>| {
                let mut key = Vec::new();
                write(&ty, value, &mut key).expect("a value of the type");
                key
            };
            for (i, a) in values.iter().enumerate() {
                for (j, b) in values.iter().enumerate() {
                    assert_eq!(compare_nulls_last(&ty, a, b), i.cmp(&j), "{a:?} and {b:?}");
                    assert_eq!(key(a).cmp(&key(b)), i.cmp(&j), "the keys of {a:?} and {b:?}");
                }
            }
        }
    }

    #[test]
    fn equal_values_have_equal_keys() {
        let key = |ty: &PgType, value: Datum<'_>| {
            let mut key = Vec::new();
            write(ty, &value, &mut key).expect("a value of the type");
            key
        };
        assert_eq!(key(&PgType::Float8, Datum::Float8(-0.0)), key(&PgType::Float8, Datum::Float8(0.0)));
        assert_eq!(
            key(&PgType::Bpchar(None), Datum::Text("a  ".into())),
            key(&PgType::Bpchar(None), Datum::Text("a".into()))
        );
        assert_eq!(key(&PgType::Jsonb, Datum::Text("1.0".into())), key(&PgType::Jsonb, Datum::Text("1".into())));
        assert_eq!(key(&PgType::Interval, Datum::Interval(1, 0, 0)), key(&PgType::Interval, Datum::Interval(0, 30, 0)));
    }
}
