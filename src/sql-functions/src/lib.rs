//! The function library: Postgres's functions and operators, by name and argument types.
//!
//! A function is declared as one line, its signature in Postgres's words, and a body that computes one value from
//! decoded arguments ([`library`]). [`registry`] has them all and chooses an overload by Postgres's rules; [`row`] runs a body over Arrow
//! columns. What is hot has its own way (arithmetic on numbers, in [`arith`]), or a second body over whole columns. Beside them are the [`types`] with their categories, and
//! the conversions from one to another ([`cast`]).
//!
//! # Invariants
//! - A body is never called with NULL unless its declaration says `!null`.
//! - What reads the session is declared `!session`, which keeps the optimizer from folding it into a shared plan.

mod advisory;
pub mod arith;
mod array;
mod bytea;
pub mod call;
pub mod cast;
mod catalog;
mod datetime;
pub mod decimals;
mod format;
pub mod framed;
mod hash;
pub mod internal;
pub mod interval;
mod json;
mod keywords;
mod lengths;
pub mod library;
mod like;
mod math;
mod numeric;
pub mod order;
pub mod ordered_set;
mod parts;
mod pattern;
mod period;
pub mod record;
pub mod registry;
pub mod regression;
pub mod row;
pub mod sequence;
mod session;
mod signature;
mod strict;
mod string;
mod typed;
pub mod types;
pub mod waiting;

pub use string::decode;
pub use typed::TypedExpr;

use arrow::array::Array;
use arrow::datatypes::i256;
use engine::error::SqlError;
use repr::Datum;
use std::borrow::Cow;

/// The value at a row of a column.
pub fn datum(array: &dyn Array, row: usize) -> Result<Datum<'_>, SqlError> {
    repr::datum::from_array(array, row)
        .ok_or_else(|| SqlError::internal(format!("no value for Arrow type {}", array.data_type())))
}

/// The text in argument `i`.
pub fn text<'d>(args: &'d [Datum<'_>], i: usize) -> &'d str {
    match args.get(i) {
        Some(Datum::Text(text)) => text,
        _ => "",
    }
}

/// The bytes in argument `i`.
pub fn bytes<'d>(args: &'d [Datum<'_>], i: usize) -> &'d [u8] {
    match args.get(i) {
        Some(Datum::Bytes(bytes)) => bytes,
        _ => &[],
    }
}

/// The integer in argument `i`, whatever its width.
pub fn int(args: &[Datum<'_>], i: usize) -> i64 {
    match args.get(i) {
        Some(Datum::Int2(v)) => (*v).into(),
        Some(Datum::Int4(v)) => (*v).into(),
        Some(Datum::Int8(v)) => *v,
        Some(Datum::Oid(v)) => (*v).into(),
        _ => 0,
    }
}

/// The float in argument `i`.
pub fn float(args: &[Datum<'_>], i: usize) -> f64 {
    match args.get(i) {
        Some(Datum::Float8(v)) => *v,
        Some(Datum::Float4(v)) => (*v).into(),
        _ => 0.0,
    }
}

/// The numeric in argument `i`: unscaled value and scale.
pub fn decimal(args: &[Datum<'_>], i: usize) -> (i256, i8) {
    match args.get(i) {
        Some(Datum::Numeric(v, scale)) => (*v, *scale),
        _ => (i256::ZERO, 0),
    }
}

/// The boolean in argument `i`.
pub fn boolean(args: &[Datum<'_>], i: usize) -> bool {
    matches!(args.get(i), Some(Datum::Bool(true)))
}

/// The items of the array in argument `i`.
pub fn list<'d, 'v>(args: &'d [Datum<'v>], i: usize) -> &'d [Datum<'v>] {
    match args.get(i) {
        Some(Datum::List(items)) => items,
        _ => &[],
    }
}

/// A text result.
pub fn new_text(text: impl Into<String>) -> Datum<'static> {
    Datum::Text(Cow::Owned(text.into()))
}
