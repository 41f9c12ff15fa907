//! One value to bytes and back, in both of the protocol's formats, exactly as PostgreSQL 15 reads and prints it.
//!
//! Where it sits: above `repr` (a [`repr::datum::Datum`] holds Arrow's representation), below everything that talks to
//! a client or reads a literal. It is pure: no clock (`now` arrives in [`options::EncodeOptions`]), no I/O, no catalog.
//!
//! Entry points: [`text::encode_text`], [`text::decode_text`], [`binary::encode_binary`], [`binary::decode_binary`],
//! [`row_description::row_description`], and [`types`] for OIDs, type modifiers and type names.
//!
//! Deliberately absent: the catalog (the names behind `regclass` and its kin arrive in [`options::EncodeOptions`] too;
//! without them those are numbers), arrays of more than one dimension, and every date style but ISO.
//!
//! # Invariants
//! - Decoding never panics, whatever the bytes: proptest feeds it garbage.
//! - What `encode` prints, `decode` reads back as the same value.

#![deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)]

pub mod array;
pub mod binary;
pub mod bytea;
pub mod calendar;
pub mod copy;
pub mod datetime;
pub mod error;
pub mod float;
pub mod interval;
pub mod json;
pub mod length;
mod natural;
pub mod numeric;
pub mod options;
pub mod plain;
pub mod row_description;
pub mod text;
pub mod timezone;
pub mod type_name;
pub mod types;
pub mod utf8;
