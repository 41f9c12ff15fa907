//! What a client asks for: the body of a request, and what stands in its address.
//!
//! A body that is not small has memory of the account of large messages as it comes, and as long as it is there; one that does not come on
//! is not waited for.

use crate::told::Refusal;
use adapter::answer::{Statement, Values, texts};
use adapter::error::AdapterError;
use adapter::session::Session;
use axum::body::{Body, HttpBody};
use axum::extract::Query as Parameters;
use axum::http::{StatusCode, Uri};
use bytes::Bytes;
use futures::FutureExt;
use http_body_util::BodyExt;
use ore::memory::{Reservation, Share};
use repr::sqlstate::SqlState;
use repr::{Datum, PgType};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// How long the next part of a body may take.
const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// Bytes of a body that are read although they are not wanted, and for how long: a load that is refused is some megabytes.
const DRAINED_MAX: u64 = 16 << 20;
const DRAIN_PATIENCE: Duration = Duration::from_secs(1);

/// Bytes of a body that no memory is asked for, as none is for a request's head, which may be longer: who reads a row in some
/// microseconds does not write to an account that all threads have.
const SMALL_BODY: usize = 4 << 10;
/// Bytes of a body from which on it is read where nobody waits.
pub(crate) const LARGE_BODY: usize = 256 << 10;
/// Values of a statement, as many as the Postgres protocol can have.
const PARAMS_MAX: usize = 65_535;
/// Bytes of a JSON value in memory, its text not counted.
const VALUE_BYTES: usize = 128;

/// What is asked for in the body.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    query: Option<String>,
    queries: Option<Vec<Given>>,
}

/// One statement with its values, as it stands there.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    query: String,
    #[serde(default)]
    params: Vec<Value>,
}

/// One statement with its values as texts: numbers with the digits that they have, objects and arrays as json.
#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) query: String,
    pub(crate) params: Vec<Option<String>>,
}

/// Values of parameters, or what is wrong with one.
type Decoded = Result<Vec<Datum<'static>>, AdapterError>;

/// Statements.
#[derive(Debug)]
pub(crate) enum Request {
    /// All those of a text.
    Simple(String),
    /// One by one, with values.
    Extended(Vec<Query>),
}

impl Request {
    /// Reads the body of a request. Errors: 400 of what is none.
    pub(crate) fn parse(body: &[u8]) -> Result<Request, Refusal> {
        let asked: Asked = serde_json::from_slice(body)
            .map_err(|error| Refusal::malformed(format!("the body is not a request in JSON: {error}")))?;
        match asked {
            Asked { query: Some(query), queries: None } => Ok(Request::Simple(statement(query)?)),
            Asked { query: None, queries: Some(queries) } => {
                Ok(Request::Extended(queries.into_iter().map(Query::of).collect::<Result<_, _>>()?))
            }
            _ => Err(Refusal::malformed("a request has either \"query\" or \"queries\"")),
        }
    }
}

impl Query {
    fn of(given: Given) -> Result<Query, Refusal> {
        if given.params.len() > PARAMS_MAX {
            return Err(Refusal::malformed(format!("a statement has at most {PARAMS_MAX} values")));
        }
        let text = |value: Value| match value {
            Value::Null => None,
            Value::String(text) => Some(text),
            other => Some(other.to_string()),
        };
        Ok(Query { query: statement(given.query)?, params: given.params.into_iter().map(text).collect() })
    }

    /// The statement and its values, as a session takes them.
    pub(crate) fn asked(self) -> (Statement, Values<impl FnOnce(&Session, &[PgType]) -> Decoded + Send + 'static>) {
        (Statement::Text(self.query), texts(self.params))
    }
}

/// A statement's text. Errors: 400 of one with NUL, which no other door takes.
fn statement(text: String) -> Result<String, Refusal> {
    match text.contains('\0') {
        true => Err(Refusal::malformed("a statement has no NUL")),
        false => Ok(text),
    }
}

/// About how many bytes a body takes beside itself while it is read: each value has some.
pub(crate) fn weight(body: &[u8]) -> usize {
    if body.len() <= LARGE_BODY {
        return 0;
    }
    body.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count().saturating_mul(VALUE_BYTES)
}

/// What stands in the address behind the question mark: parameters of the session, a JSON object, and with some routes what they are of.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Address {
    pub(crate) options: Option<String>,
}

/// The same of who loads rows, and where they go.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Loaded {
    pub(crate) table: String,
    pub(crate) options: Option<String>,
}

/// The same of who follows something: a SUBSCRIBE.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Followed {
    pub(crate) query: String,
    pub(crate) options: Option<String>,
}

/// Reads an address. Errors: 400 of one that is none of these.
pub(crate) fn address<T: DeserializeOwned>(uri: &Uri) -> Result<T, Refusal> {
    let Parameters(address) =
        Parameters::try_from_uri(uri).map_err(|error| Refusal::malformed(format!("the address: {error}")))?;
    Ok(address)
}

/// Reads a body of at most so many bytes, and takes memory for one that is not small. Errors: 413, 408, 503 without memory, 400 of one that
/// breaks off.
///
/// # Cancellation
/// Safe to drop; the request is over then.
pub(crate) async fn read_body(
    mut body: Body,
    bytes_max: usize,
    memory: &Arc<Share>,
) -> Result<(Vec<u8>, Option<Reservation>), Refusal> {
    let (mut bytes, mut held) = (Vec::new(), None);
    while let Some(data) = next_piece(&mut body).await? {
        if bytes.len() + data.len() > bytes_max {
            let message = format!("the body has more than {bytes_max} bytes");
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        if bytes.capacity() < bytes.len() + data.len() {
            // It grows by half at least, which moves it.
            let wanted = (bytes.len() + data.len()).max(bytes.capacity() / 2 * 3);
            if wanted > SMALL_BODY {
                let held = held.get_or_insert_with(|| Reservation::empty(memory));
                held.cover(wanted).map_err(AdapterError::from)?;
            }
            bytes.reserve_exact(wanted - bytes.len());
        }
        bytes.extend_from_slice(&data);
    }
    Ok((bytes, held))
}

/// The next piece of a body; `None` at its end. Errors: 408 if it does not come on, 400 if it breaks off.
///
/// # Cancellation
/// Safe to drop.
pub(crate) async fn next_piece(body: &mut Body) -> Result<Option<Bytes>, Refusal> {
    loop {
        // Most is here with the head, and nobody looks at the time for that.
        let frame = match body.frame().now_or_never() {
            Some(frame) => Ok(frame),
            None => tokio::time::timeout(BODY_PATIENCE, body.frame()).await,
        };
        let frame = match frame {
            Ok(None) => return Ok(None),
            Ok(Some(frame)) => frame.map_err(|error| Refusal::malformed(format!("the body breaks off: {error}")))?,
            Err(_) => {
                let message = format!("nothing more of the body came for {} s", BODY_PATIENCE.as_secs());
                return Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, SqlState::CONNECTION_FAILURE, message));
            }
        };
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}

/// What was found out before a body is read, and the body.
pub(crate) async fn before<T>(body: Body, found: Result<T, Refusal>) -> Result<(T, Body), Refusal> {
    match found {
        Ok(found) => Ok((found, body)),
        Err(refusal) => {
            Box::pin(drain(body)).await;
            Err(refusal)
        }
    }
}

/// Reads a body of no great size that nobody wants: some clients lose the answer to a request whose body was not taken.
pub(crate) async fn drain(mut body: Body) {
    if body.size_hint().upper().is_some_and(|bytes| bytes <= DRAINED_MAX) {
        let all = async { while body.frame().await.is_some_and(|frame| frame.is_ok()) {} };
        let _slow = tokio::time::timeout(DRAIN_PATIENCE, all).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_one_of_two() {
        assert!(matches!(Request::parse(br#"{"query":"SELECT 1"}"#), Ok(Request::Simple(text)) if text == "SELECT 1"));
        let body = br#"{"queries":[{"query":"a","params":["x",null,1.10,true,{"b":[1]}]},{"query":"c"}]}"#;
        let Ok(Request::Extended(queries)) = Request::parse(body) else { panic!("it is one") };
        let params = ["x", "", "1.10", "true", r#"{"b":[1]}"#].map(|text| Some(text.to_owned()));
        let params = params.map(|param| param.filter(|text| !text.is_empty()));
        assert_eq!((queries[0].params.clone(), queries[0].query.as_str()), (params.to_vec(), "a"));
        assert_eq!((queries[1].params.clone(), queries[1].query.as_str()), (Vec::new(), "c"));
        for body in [
            "",
            "[]",
            "{}",
            "\"SELECT 1\"",
            "{\"query\":1}",
            "{\"query\":\"a\",\"queries\":[]}",
            "{\"query\":\"a\",\"x\":1}",
            "{\"queries\":[{\"params\":[]}]}",
            "{\"query\":\"a\\u0000b\"}",
            "{\"query\":\"a\"} ",
            "{\"query\":\"a\"}{}",
        ] {
            assert_eq!(Request::parse(body.as_bytes()).is_ok(), body == "{\"query\":\"a\"} ", "{body}");
        }
    }
}
