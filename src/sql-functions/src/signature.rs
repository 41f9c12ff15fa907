//! Digests by name, and what signatures of messages are made and compared by. These are pgcrypto's and Materialize's functions.

use super::library::Library;
use super::{bytes, text};
use engine::error::SqlError;
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use repr::Datum;
use repr::sqlstate::SqlState;
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use std::borrow::Cow;
use subtle::ConstantTimeEq;

/// Declares the functions of this file.
pub(crate) fn declare(library: &mut Library) {
    library.add("digest(text, text) bytea", |_, a| digest(text(a, 0).as_bytes(), text(a, 1)));
    library.add("digest(bytea, text) bytea", |_, a| digest(bytes(a, 0), text(a, 1)));
    library.add("hmac(text, text, text) bytea", |_, a| hmac(text(a, 0).as_bytes(), text(a, 1).as_bytes(), text(a, 2)));
    library.add("hmac(bytea, bytea, text) bytea", |_, a| hmac(bytes(a, 0), bytes(a, 1), text(a, 2)));
    // In a time that tells nothing but whether they have the same length.
    library.add("constant_time_eq(text, text) bool", |_, a| {
        Ok(Datum::Bool(text(a, 0).as_bytes().ct_eq(text(a, 1).as_bytes()).into()))
    });
    library.add("constant_time_eq(bytea, bytea) bool", |_, a| Ok(Datum::Bool(bytes(a, 0).ct_eq(bytes(a, 1)).into())));
}

fn owned(bytes: &[u8]) -> Result<Datum<'static>, SqlError> {
    Ok(Datum::Bytes(Cow::Owned(bytes.to_vec())))
}

fn unknown(algorithm: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("Cannot use \"{algorithm}\": No such hash algorithm"))
}

fn digest(data: &[u8], algorithm: &str) -> Result<Datum<'static>, SqlError> {
    match algorithm.to_ascii_lowercase().as_str() {
        "md5" => owned(&Md5::digest(data)),
        "sha1" => owned(&Sha1::digest(data)),
        "sha224" => owned(&Sha224::digest(data)),
        "sha256" => owned(&Sha256::digest(data)),
        "sha384" => owned(&Sha384::digest(data)),
        "sha512" => owned(&Sha512::digest(data)),
        _ => Err(unknown(algorithm)),
    }
}

fn hmac(data: &[u8], key: &[u8], algorithm: &str) -> Result<Datum<'static>, SqlError> {
    match algorithm.to_ascii_lowercase().as_str() {
        "md5" => signed(Hmac::<Md5>::new_from_slice(key), data),
        "sha1" => signed(Hmac::<Sha1>::new_from_slice(key), data),
        "sha224" => signed(Hmac::<Sha224>::new_from_slice(key), data),
        "sha256" => signed(Hmac::<Sha256>::new_from_slice(key), data),
        "sha384" => signed(Hmac::<Sha384>::new_from_slice(key), data),
        "sha512" => signed(Hmac::<Sha512>::new_from_slice(key), data),
        _ => Err(unknown(algorithm)),
    }
}

fn signed<M: Mac, E>(mac: Result<M, E>, data: &[u8]) -> Result<Datum<'static>, SqlError> {
    let Ok(mut mac) = mac else { return Err(SqlError::internal("a key of any length is one")) };
    mac.update(data);
    owned(&mac.finalize().into_bytes())
}
