//! Bearer tokens as somebody else would sign them: JWTs by HS256.

use crate::wire::Wire;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::Value;

/// A part of a token.
pub fn encoded(text: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(text)
}

/// A token with these claims, signed by a server's own functions.
///
/// # Panics
/// If the session gives no signature.
pub fn signed(session: &mut Wire, secret: &str, claims: &Value) -> String {
    let message = format!("{}.{}", encoded("{\"alg\":\"HS256\"}"), encoded(&claims.to_string()));
    let sql = format!("SELECT encode(hmac('{message}', '{secret}', 'sha256'), 'base64')");
    let signature = session.rows(&sql).expect("a signature")[0][0].clone().expect("not NULL");
    format!("{message}.{}", signature.trim_end_matches('=').replace('+', "-").replace('/', "_"))
}
