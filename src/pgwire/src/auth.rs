//! Who a client is: what its rule asks for, asked and checked.
//!
//! - `trust`: nothing.
//! - `scram-sha-256`: [`door::scram`], bound to the certificate where there is TLS. The password itself is never sent.
//! - `password`: the password in clear, which only rules for TLS may ask for (see `door::hba`).
//!
//! Whatever is wrong with a name or a password, the answer is one, after the same work; the log says what it was.
//!
//! # Invariants
//! - Nothing behind the message being read is taken from the stream.
//! - No length that a client sends is believed before it is compared with what is there.

use crate::encode;
use crate::error::WireError;
use crate::message::{self, Reader};
use crate::packet::{PACKET_BYTES_MAX, malformed, refusal};
use crate::stream::Stream;
use adapter::client::Client;
use adapter::password::Credentials;
use base64::prelude::{BASE64_STANDARD, Engine};
use door::hba::Method;
use door::scram::{self, Challenge};
use rand::Rng;
use repr::sqlstate::SqlState;
use std::net::SocketAddr;
use std::{fmt, io};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The type of every message of a client that is asked who it is.
const ANSWER: u8 = b'p';
/// The bytes of our half of a nonce, before they are text; as Postgres has it.
const NONCE_BYTES: usize = 18;

/// A client that says who it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim<'a> {
    pub(crate) user: &'a str,
    pub(crate) database: &'a str,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) is_encrypted: bool,
    /// The hash of the certificate that it saw, if there is TLS and the hash is known.
    pub(crate) end_point: Option<&'a [u8]>,
}

impl fmt::Display for Claim<'_> {
    /// As Postgres says who is not let in.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.peer.map_or_else(|| "???".to_owned(), |peer| peer.ip().to_canonical().to_string());
        let encryption = if self.is_encrypted { "SSL encryption" } else { "no encryption" };
        write!(f, "host \"{host}\", user \"{}\", database \"{}\", {encryption}", self.user, self.database)
    }
}

/// Asks for what the method wants; there is none if no rule fits. What comes with AuthenticationOk is left in `out`. Errors:
/// 28000 for who is not let in, 28P01 for whatever is wrong with user or password, 08P01 for what is no answer.
///
/// # Cancellation
/// Safe to drop; the connection cannot go on then.
pub(crate) async fn authenticate(
    stream: &mut impl Stream,
    claim: Claim<'_>,
    method: Option<Method>,
    client: &Client,
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    let refused = match method {
        None => return Err(denied(format!("no pg_hba.conf entry for {claim}"))),
        Some(Method::Reject) => return Err(denied(format!("pg_hba.conf rejects connection for {claim}"))),
        Some(Method::Trust) => return Ok(()),
        Some(Method::Password) => password(stream, claim, client, out).await?,
        Some(Method::ScramSha256) => exchange(stream, claim, client, out).await?,
    };
    let Some(why) = refused else { return Ok(()) };
    tracing::info!(user = claim.user, peer = ?claim.peer, why, "a login was refused");
    Err(WireError::Password { user: claim.user.to_owned() })
}

/// Asks for the password. Why it is refused, if it is.
async fn password(
    stream: &mut impl Stream,
    claim: Claim<'_>,
    client: &Client,
    out: &mut Vec<u8>,
) -> Result<Option<&'static str>, WireError> {
    encode::authentication_cleartext_password(out);
    send(stream, out).await?;
    let body = answer(stream, "password").await?;
    let password = message::string(&body).map_err(malformed)?;
    if password.is_empty() {
        return Ok(Some("the password is empty"));
    }
    Ok(client.check_password(claim.user, password.to_owned()).await?.err())
}

/// Has a SCRAM exchange. Why it is refused, if it is.
async fn exchange(
    stream: &mut impl Stream,
    claim: Claim<'_>,
    client: &Client,
    out: &mut Vec<u8>,
) -> Result<Option<&'static str>, WireError> {
    let Credentials { verifier, refusal } = client.credentials(claim.user);
    let mechanisms: &[&str] = if claim.end_point.is_some() { &[scram::PLUS, scram::PLAIN] } else { &[scram::PLAIN] };
    encode::authentication_sasl(out, mechanisms);
    send(stream, out).await?;
    let body = answer(stream, "SASL").await?;
    let (mechanism, first) = initial_response(&body)?;
    let (mechanism, first) = match first {
        Some(first) => (mechanism, first.to_vec()),
        // It wants to be asked once more.
        None => {
            encode::authentication_sasl_continue(out, "");
            send(stream, out).await?;
            (mechanism, answer(stream, "SASL").await?)
        }
    };
    let nonce = BASE64_STANDARD.encode(rand::rng().random::<[u8; NONCE_BYTES]>());
    let challenge = Challenge::new(mechanism, &first, &verifier, claim.end_point, &nonce)?;
    encode::authentication_sasl_continue(out, challenge.message());
    send(stream, out).await?;
    let last = answer(stream, "SASL").await?;
    match challenge.verify(&last, &verifier)? {
        None => Ok(Some(refusal.unwrap_or("the password is wrong"))),
        Some(signature) if refusal.is_none() => {
            encode::authentication_sasl_final(out, &signature);
            Ok(None)
        }
        Some(_) => Ok(refusal),
    }
}

/// SASLInitialResponse: the mechanism, and the first message unless it comes later.
pub(crate) fn initial_response(body: &[u8]) -> Result<(&str, Option<&[u8]>), WireError> {
    let mut reader = Reader(body);
    let mechanism = reader.string().map_err(malformed)?;
    let length = reader.u32().map_err(malformed)?;
    match length {
        u32::MAX if reader.0.is_empty() => Ok((mechanism, None)),
        length if usize::try_from(length).is_ok_and(|length| length == reader.0.len()) => {
            Ok((mechanism, Some(reader.0)))
        }
        _ => Err(refusal("invalid length in SASL response")),
    }
}

async fn send(stream: &mut impl Stream, out: &mut Vec<u8>) -> Result<(), WireError> {
    stream.write_all(out).await?;
    out.clear();
    Ok(stream.flush().await?)
}

/// Reads the body of one answer.
async fn answer(stream: &mut impl Stream, what: &str) -> Result<Vec<u8>, WireError> {
    let mut header = [0; 5];
    match stream.read_exact(&mut header).await {
        Ok(_) => {}
        // A client without a password hangs up to ask its user for one.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(WireError::Closed),
        Err(error) => return Err(error.into()),
    }
    let [tag, length @ ..] = header;
    if tag != ANSWER {
        return Err(refusal(&format!("expected {what} response, got message type {tag}")));
    }
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if !(4..=PACKET_BYTES_MAX).contains(&length) {
        return Err(refusal("invalid message length"));
    }
    let mut body = vec![0; length - 4];
    stream.read_exact(&mut body).await?;
    Ok(body)
}

/// A rule, or there being none, keeps somebody out.
fn denied(message: String) -> WireError {
    WireError::Startup { sqlstate: SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message }
}

#[cfg(test)]
mod tests {
    use super::initial_response;

    /// CVE-2026-6664: a length is compared with what is there, and nothing is added to it.
    #[test]
    fn lengths_in_sasl_answers_are_not_believed() {
        let body = |length: u32, data: &[u8]| [b"SCRAM-SHA-256\0", &length.to_be_bytes()[..], data].concat();
        assert_eq!(initial_response(&body(3, b"abc")).expect("well-formed"), ("SCRAM-SHA-256", Some(&b"abc"[..])));
        assert_eq!(initial_response(&body(u32::MAX, b"")).expect("well-formed"), ("SCRAM-SHA-256", None));
        for (length, data) in [(2, "abc"), (4, "abc"), (u32::MAX, "abc"), (u32::MAX - 1, ""), (1 << 31, ""), (1, "")] {
            assert!(initial_response(&body(length, data.as_bytes())).is_err(), "{length}");
        }
        for body in [&b""[..], b"SCRAM", b"SCRAM\0", b"SCRAM\0\0\0\0", b"\xff\0\0\0\0\0"] {
            assert!(initial_response(body).is_err(), "{body:?}");
        }
    }
}
