//! Signs requests as Amazon's Signature Version 4 has it, for the service `s3`.
//!
//! A request is brought into one canonical form, of which a keyed hash is sent along; the key is derived from the secret, the
//! day and the region. Pure: the time comes with the request.

use std::fmt::Write;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Who asks.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) key_id: String,
    pub(crate) secret: String,
    /// Of credentials that are lent for a while.
    pub(crate) session_token: Option<String>,
}

/// A request, as far as it is signed.
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    /// The path, encoded by [`encode_path`].
    pub(crate) path: &'a str,
    /// The query, from [`query_string`].
    pub(crate) query: &'a str,
    /// All headers that are signed, sorted by their names, which are in small letters.
    pub(crate) headers: &'a [(&'static str, String)],
    /// The hash of the body, in hexadecimal.
    pub(crate) body_sha256: &'a str,
    /// The time as `YYYYMMDD'T'HHMMSS'Z'`.
    pub(crate) time: &'a str,
    pub(crate) region: &'a str,
}

/// The header `Authorization` of a request.
pub(crate) fn authorization(request: &Request<'_>, credentials: &Credentials) -> String {
    let day = &request.time[..8];
    let scope = format!("{day}/{}/s3/aws4_request", request.region);
    let names: Vec<&str> = request.headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let headers: String = request.headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    let canonical = [request.method, request.path, request.query, &headers, &names, request.body_sha256].join("\n");
    let to_sign = [ALGORITHM, request.time, &scope, &sha256_hex(canonical.as_bytes())].join("\n");
    let secret = format!("AWS4{}", credentials.secret);
    let key = [day, request.region, "s3", "aws4_request"]
        .iter()
        .fold(secret.into_bytes(), |key, part| hmac(&key, part.as_bytes()));
    let signature = hex(&hmac(&key, to_sign.as_bytes()));
    format!("{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={signature}", credentials.key_id)
}

/// The hash of a body, in hexadecimal.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// A path with everything encoded that is not a letter, a digit or one of `-._~/`.
pub(crate) fn encode_path(path: &str) -> String {
    encode(path, b"-._~/")
}

/// A query, encoded, in the order in which it is signed.
pub(crate) fn query_string(parameters: &[(&str, &str)]) -> String {
    let mut encoded: Vec<String> = parameters
        .iter()
        .map(|(name, value)| format!("{}={}", encode(name, b"-._~"), encode(value, b"-._~")))
        .collect();
    encoded.sort();
    encoded.join("&")
}

fn encode(text: &str, kept: &[u8]) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || kept.contains(&byte) {
            true => encoded.push(char::from(byte)),
            false => write!(encoded, "%{byte:02X}").expect("a string grows as needed"),
        }
    }
    encoded
}

fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length will do");
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the service's documentation.
    fn credentials() -> Credentials {
        Credentials {
            key_id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            session_token: None,
        }
    }

    fn signature(path: &str, query: &str, more: &[(&'static str, &str)]) -> String {
        let (time, body_sha256) = ("20130524T000000Z", sha256_hex(b""));
        let mut headers = vec![
            ("host", "examplebucket.s3.amazonaws.com".to_owned()),
            ("x-amz-content-sha256", body_sha256.clone()),
            ("x-amz-date", time.to_owned()),
        ];
        headers.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
        headers.sort();
        let request = Request {
            method: "GET",
            path,
            query,
            headers: &headers,
            body_sha256: &body_sha256,
            time,
            region: "us-east-1",
        };
        let header = authorization(&request, &credentials());
        header.rsplit_once('=').expect("a signature").1.to_owned()
    }

    #[test]
    fn signs_the_documented_request() {
        let signed = signature("/test.txt", "", &[("range", "bytes=0-9")]);
        assert_eq!(signed, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
    }

    #[test]
    fn signs_a_query_as_botocore_does() {
        let query = query_string(&[("list-type", "2"), ("prefix", "a/b c"), ("continuation-token", "x==")]);
        assert_eq!(query, "continuation-token=x%3D%3D&list-type=2&prefix=a%2Fb%20c");
        assert_eq!(signature("/", &query, &[]), "ab5ff63cc8375a4d8453744fc2ca8fd0c2cae3bf9ce486cdd25c252e4706fed7");
    }

    #[test]
    fn paths_keep_their_slashes() {
        assert_eq!(encode_path("a b/c+d%"), "a%20b/c%2Bd%25");
    }
}
