//! `Idempotency-Key`: a request that is carried out once, however often it comes.
//!
//! What was answered is committed with what was done (`adapter::once`), and given to whoever sends the same request with the same key
//! within a day: then a client that does not know what became of a request sends it again. Another request with a key that was used is
//! refused (422). Of one that failed nothing is kept: nothing was done. A key is its role's own.

use crate::identify::single;
use crate::single::COMMAND_TAG;
use crate::sink::Sink;
use crate::told::Refusal;
use adapter::error::AdapterError;
use adapter::once::KEY_BYTES_MAX;
use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use repr::sqlstate::SqlState;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The key of a request.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Says that an answer is that of the first time.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// What tells a request from others: a hash of its method, its address, what it says of its body and its answer, and of the body.
#[derive(Clone)]
pub(crate) struct Print(Arc<Mutex<Sha256>>);

impl Print {
    /// The key of a request, if it has one, and what tells it from others, its body left out. Errors: 400 of a key that is none.
    pub(crate) fn of(parts: &Parts) -> Result<Option<(String, Print)>, Refusal> {
        let Some(key) = single(&parts.headers, IDEMPOTENCY_KEY)? else { return Ok(None) };
        if key.is_empty() || key.len() > KEY_BYTES_MAX || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            let message = format!("an {IDEMPOTENCY_KEY} has 1 to {KEY_BYTES_MAX} characters of ASCII, and no spaces");
            return Err(Refusal::malformed(message));
        }
        let mut hash = Sha256::new();
        let said =
            [header::ACCEPT, header::CONTENT_TYPE].map(|name| parts.headers.get(name).map(HeaderValue::as_bytes));
        let address = parts.uri.path_and_query().map_or("", |address| address.as_str());
        let [accepted, sent] = said.map(Option::unwrap_or_default);
        for part in [parts.method.as_str().as_bytes(), address.as_bytes(), accepted, sent] {
            hash.update(part);
            // No part has this.
            hash.update(b"\n");
        }
        Ok(Some((key.to_owned(), Print(Arc::new(Mutex::new(hash))))))
    }

    /// Takes part of the body.
    pub(crate) fn push(&self, data: &[u8]) {
        self.0.lock().update(data);
    }

    /// A body whose parts are taken as they come.
    pub(crate) fn over(&self, body: Body) -> Body {
        let print = self.clone();
        Body::new(body.map_frame(move |frame| {
            if let Some(data) = frame.data_ref() {
                print.push(data);
            }
            frame
        }))
    }

    fn value(&self) -> [u8; 32] {
        self.0.lock().clone().finalize().into()
    }
}

/// What is kept of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Of the request.
    print: [u8; 32],
    /// The value of the header `Command-Tag`; empty if there is none.
    tag: String,
    body: Vec<u8>,
}

impl Record {
    /// Of the answer to a request: its body, and its tag, if it has one.
    pub(crate) fn of(print: &Print, tag: &str, body: Vec<u8>) -> Record {
        Record { print: print.value(), tag: tag.to_owned(), body }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let tag_bytes = u8::try_from(self.tag.len()).expect("a command's tag is short");
        [&self.print[..], &[tag_bytes], self.tag.as_bytes(), &self.body].concat()
    }

    /// The answer of the first time, if that was to the same request. Errors: 422 if it was not.
    pub(crate) fn decode(bytes: &[u8], print: &Print) -> Result<Record, Refusal> {
        let read = || {
            let (print, rest) = bytes.split_first_chunk()?;
            let (tag_bytes, rest) = rest.split_first()?;
            let (tag, body) = rest.split_at_checked(usize::from(*tag_bytes))?;
            Some(Record { print: *print, tag: String::from_utf8(tag.to_vec()).ok()?, body: body.to_vec() })
        };
        let unreadable = || AdapterError::new(SqlState::DATA_CORRUPTED, "what was answered before cannot be read");
        let record: Record = read().ok_or_else(unreadable)?;
        if record.print != print.value() {
            let message = format!("the {IDEMPOTENCY_KEY} was used for another request");
            return Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, SqlState::INVALID_PARAMETER_VALUE, message));
        }
        Ok(record)
    }

    /// Has this be the answer.
    pub(crate) fn put(self, sink: &mut Sink) {
        sink.buffer = self.body;
        let Some(head) = sink.head() else { return };
        mark(&mut head.headers);
        if let (false, Ok(tag)) = (self.tag.is_empty(), self.tag.try_into()) {
            head.headers.insert(COMMAND_TAG, tag);
        }
    }

    /// The body alone.
    pub(crate) fn into_body(self) -> Vec<u8> {
        self.body
    }
}

/// Says that an answer is that of the first time.
pub(crate) fn mark(headers: &mut HeaderMap) {
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    fn print(uri: &str, accept: &str, key: &str, body: &[u8]) -> Option<Print> {
        let request = Request::post(uri).header("accept", accept).header("idempotency-key", key).body(());
        let (parts, ()) = request.expect("it is one").into_parts();
        let (_, print) = Print::of(&parts).ok()??;
        print.push(body);
        Some(print)
    }

    #[test]
    fn an_answer_is_of_one_request() {
        let first = print("/api/sql", "text/csv", "k", b"{}").expect("it has a key");
        let record = Record::of(&first, "INSERT 0 1", b"x".to_vec());
        let bytes = record.encode();
        assert_eq!(Record::decode(&bytes, &first).expect("it is the same"), record);
        for other in [
            print("/api/sql?options={}", "text/csv", "k", b"{}"),
            print("/api/sql", "application/json", "k", b"{}"),
            print("/api/sql", "text/csv", "k", b"{} "),
        ] {
            let refusal = Record::decode(&bytes, &other.expect("it has a key")).expect_err("it is another");
            assert_eq!(refusal.sqlstate(), SqlState::INVALID_PARAMETER_VALUE);
        }
        let broken = Record::decode(&bytes[..33], &first).expect_err("the tag is missing");
        assert_eq!(broken.sqlstate(), SqlState::DATA_CORRUPTED);
    }

    #[test]
    fn a_key_is_a_short_word() {
        assert!(print("/", "*/*", "\"8e03978e-40d5\"", b"").is_some());
        for key in ["", "a b", "\u{e9}", &"x".repeat(KEY_BYTES_MAX + 1)] {
            assert!(print("/", "*/*", key, b"").is_none(), "{key}");
        }
    }
}
