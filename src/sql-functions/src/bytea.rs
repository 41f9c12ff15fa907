//! The parts of a bytea: its bytes and bits, and what is cut off or put in.
//!
//! Bit `n` is bit `n % 8` of byte `n / 8`, counted from the least significant.

use super::library::Library;
use super::{bytes, int};
use engine::error::SqlError;
use repr::Datum;
use repr::sqlstate::SqlState;
use std::borrow::Cow;

/// Declares the functions of this file.
pub(crate) fn declare(library: &mut Library) {
    library.add("position(bytea, bytea) int4", |_, a| Ok(Datum::Int4(position(bytes(a, 0), bytes(a, 1)))));
    library.add("bit_count(bytea) int8", |_, a| {
        Ok(Datum::Int8(bytes(a, 0).iter().map(|byte| i64::from(byte.count_ones())).sum()))
    });
    declare_items(library);
    declare_ends(library);
    library.add("overlay(bytea, bytea, int4) bytea", |_, a| {
        overlay(bytes(a, 0), bytes(a, 1), int(a, 2), bytes(a, 1).len() as i64)
    });
    library
        .add("overlay(bytea, bytea, int4, int4) bytea", |_, a| overlay(bytes(a, 0), bytes(a, 1), int(a, 2), int(a, 3)));
}

fn declare_items(library: &mut Library) {
    library.add("get_byte(bytea, int4) int4", |_, a| {
        let all = bytes(a, 0);
        Ok(Datum::Int4(all[index(int(a, 1), all.len())?].into()))
    });
    library.add("set_byte(bytea, int4, int4) bytea", |_, a| {
        let mut all = bytes(a, 0).to_vec();
        let at = index(int(a, 1), all.len())?;
        all[at] = int(a, 2) as u8;
        Ok(owned(all))
    });
    library.add("get_bit(bytea, int8) int4", |_, a| {
        let all = bytes(a, 0);
        let at = index(int(a, 1), all.len() * 8)?;
        Ok(Datum::Int4((all[at / 8] >> (at % 8) & 1).into()))
    });
    library.add("set_bit(bytea, int8, int4) bytea", |_, a| {
        let mut all = bytes(a, 0).to_vec();
        let at = index(int(a, 1), all.len() * 8)?;
        match int(a, 2) {
            0 => all[at / 8] &= !(1 << (at % 8)),
            1 => all[at / 8] |= 1 << (at % 8),
            _ => return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "new bit must be 0 or 1")),
        }
        Ok(owned(all))
    });
}

fn declare_ends(library: &mut Library) {
    library.add("btrim(bytea, bytea) bytea", |_, a| {
        Ok(owned(without_end(without_start(bytes(a, 0), bytes(a, 1)), bytes(a, 1)).to_vec()))
    });
    library.add("ltrim(bytea, bytea) bytea", |_, a| Ok(owned(without_start(bytes(a, 0), bytes(a, 1)).to_vec())));
    library.add("rtrim(bytea, bytea) bytea", |_, a| Ok(owned(without_end(bytes(a, 0), bytes(a, 1)).to_vec())));
}

fn owned(bytes: Vec<u8>) -> Datum<'static> {
    Datum::Bytes(Cow::Owned(bytes))
}

/// The index of one of `count` items. Error 2202E: there is none.
fn index(n: i64, count: usize) -> Result<usize, SqlError> {
    usize::try_from(n).ok().filter(|n| *n < count).ok_or_else(|| {
        let message = format!("index {n} out of valid range, 0..{}", count as i64 - 1);
        SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
    })
}

/// Where `part` begins in `whole`, counted from one; zero where it does not.
fn position(whole: &[u8], part: &[u8]) -> i32 {
    match part.len() {
        0 => 1,
        length => whole.windows(length).position(|window| window == part).map_or(0, |at| at as i32 + 1),
    }
}

fn without_start<'d>(mut whole: &'d [u8], set: &[u8]) -> &'d [u8] {
    while let [first, rest @ ..] = whole {
        if !set.contains(first) {
            break;
        }
        whole = rest;
    }
    whole
}

fn without_end<'d>(mut whole: &'d [u8], set: &[u8]) -> &'d [u8] {
    while let [rest @ .., last] = whole {
        if !set.contains(last) {
            break;
        }
        whole = rest;
    }
    whole
}

/// Puts `part` where `length` bytes are, from byte `from`, counted from one.
fn overlay(whole: &[u8], part: &[u8], from: i64, length: i64) -> Result<Datum<'static>, SqlError> {
    if from <= 0 {
        return Err(SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"));
    }
    let clamped = |at: i64| usize::try_from(at).map_or(0, |at| at.min(whole.len()));
    let (before, after) = (&whole[..clamped(from - 1)], &whole[clamped(from + length - 1)..]);
    Ok(owned([before, part, after].concat()))
}
