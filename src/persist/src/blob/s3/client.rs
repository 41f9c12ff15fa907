//! Requests to an S3-compatible service: signed, with time limits, tried again when that may help.
//!
//! Every request may be repeated: the same bytes go to the same name. So whatever may pass (a lost connection, a service that
//! starts or is overloaded) is tried again with growing pauses until patience ends.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use ore::clock::Clock;

use crate::blob::s3::http::{self, Http};
use crate::blob::s3::location::Location;
use crate::blob::s3::signature::{self, authorization, encode_path, query_string, sha256_hex};
use crate::error::PersistError;
use crate::pauses::Pauses;

/// See the module.
pub(crate) struct Client {
    pub(crate) location: Location,
    http: Http,
    clock: Clock,
}

/// A request.
#[derive(Clone, Copy, Default)]
pub(crate) struct Call<'a> {
    pub(crate) method: &'static str,
    /// The key within the bucket; empty for the bucket itself.
    pub(crate) key: &'a str,
    pub(crate) query: &'a [(&'a str, &'a str)],
    /// The first and the last byte that is asked for.
    pub(crate) range: Option<(u64, u64)>,
    pub(crate) body: &'a [u8],
}

/// An answer: what was asked for, or that it is not there.
pub(crate) struct Answer {
    /// 200 and its like, 404, or 416 if a range is beyond the end.
    pub(crate) status: u16,
    pub(crate) body: Bytes,
    /// The length of the whole object, if a range was asked for.
    pub(crate) total_length: Option<u64>,
    pub(crate) etag: Option<String>,
}

/// What a service said.
#[derive(Debug)]
struct Refusal {
    store: String,
    said: String,
}

impl Client {
    /// Nothing is asked yet. Connecting may take `timeout`, and each piece of a request and of an answer.
    pub(crate) fn new(location: Location, timeout: Duration) -> Result<Client, PersistError> {
        let trusted = match location.scheme.as_str() {
            "https" => Some(location.certificates.as_deref().ok_or("no certificates were found: set SSL_CERT_FILE")),
            _ => None,
        };
        let http = trusted
            .transpose()
            .map_err(str::to_owned)
            .and_then(|trusted| Http::new(&location.host, trusted, timeout).map_err(|error| error.to_string()));
        let http = http.map_err(|detail| PersistError::StoreUrl { detail })?;
        Ok(Client { location, http, clock: Clock::system() })
    }

    /// Asks until there is an answer, an error that stays, or `patience` is at its end.
    pub(crate) fn call(&self, what: &'static str, patience: Duration, call: &Call<'_>) -> Result<Answer, PersistError> {
        let mut pauses = Pauses::new(what, patience);
        loop {
            match self.attempt(call) {
                Err(error @ PersistError::Unreachable { .. }) => match pauses.next(&error) {
                    Some(pause) => std::thread::sleep(pause),
                    None => return Err(error),
                },
                answer => {
                    pauses.end();
                    return answer;
                }
            }
        }
    }

    /// Asks once.
    pub(crate) fn attempt(&self, call: &Call<'_>) -> Result<Answer, PersistError> {
        let response = self.send(call).map_err(|error| self.failed(error))?;
        let header = |name: &str| response.header(name).map(str::to_owned);
        let (etag, status) = (header("etag"), response.status);
        let total_length = header("content-range").and_then(|range| range.rsplit_once('/')?.1.parse().ok());
        let body = response.body;
        match status {
            200..300 | 404 | 416 => {}
            _ => return Err(self.refused(status, &body)),
        }
        if status == 404 && element(&String::from_utf8_lossy(&body), "Code").as_deref() == Some("NoSuchBucket") {
            return Err(self.refused(status, &body));
        }
        Ok(Answer { status, body: Bytes::from(body), total_length, etag })
    }

    fn send(&self, call: &Call<'_>) -> std::io::Result<http::Response> {
        let Location { host, root, prefix, region, credentials, .. } = &self.location;
        let path = match call.key {
            "" => root.clone(),
            key => format!("{root}{}", encode_path(&format!("{prefix}{key}"))),
        };
        let (query, body_sha256) = (query_string(call.query), sha256_hex(call.body));
        let now_us = i64::try_from(self.clock.now_us()).unwrap_or(i64::MAX);
        let now = chrono::DateTime::from_timestamp_micros(now_us).unwrap_or_default();
        let time = now.format("%Y%m%dT%H%M%SZ").to_string();
        let mut headers = vec![("host", host.clone())];
        headers.extend(call.range.map(|(first, last)| ("range", format!("bytes={first}-{last}"))));
        headers.push(("x-amz-content-sha256", body_sha256.clone()));
        headers.push(("x-amz-date", time.clone()));
        headers.extend(credentials.session_token.clone().map(|token| ("x-amz-security-token", token)));
        let signed = signature::Request {
            method: call.method,
            path: &path,
            query: &query,
            headers: &headers,
            body_sha256: &body_sha256,
            time: &time,
            region,
        };
        let authorization = authorization(&signed, credentials);
        headers.push(("authorization", authorization));
        let target = if query.is_empty() { path } else { format!("{path}?{query}") };
        self.http.send(&http::Request { method: call.method, target: &target, headers: &headers, body: call.body })
    }

    /// No answer. Asking again may help, unless it is the certificate that we do not believe.
    fn failed(&self, error: std::io::Error) -> PersistError {
        let is_refused = error.get_ref().is_some_and(|cause| {
            matches!(
                cause.downcast_ref(),
                Some(rustls::Error::InvalidCertificate(_) | rustls::Error::InvalidMessage(_))
            )
        });
        let source = Refusal { store: self.location.address(), said: error.to_string() };
        match is_refused {
            false => PersistError::Unreachable { source: source.into() },
            true => PersistError::Determinate { context: "asking the blob store", source: source.into() },
        }
    }

    /// An answer that is no help: whether asking again may be.
    pub(crate) fn refused(&self, status: u16, body: &[u8]) -> PersistError {
        let text = String::from_utf8_lossy(body);
        let said = match (element(&text, "Code"), element(&text, "Message")) {
            (Some(code), Some(message)) => format!("it answered {status} {code}: {message}"),
            (Some(code), None) => format!("it answered {status} {code}"),
            _ => format!("it answered {status}"),
        };
        let source = Refusal { store: self.location.address(), said };
        // A 200 that is none: some requests end with an error though they began well.
        match matches!(status, 200 | 408 | 429 | 500 | 502 | 503 | 504) {
            true => PersistError::Unreachable { source: source.into() },
            false => PersistError::Determinate { context: "asking the blob store", source: source.into() },
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("location", &self.location.address()).finish_non_exhaustive()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.store, self.said)
    }
}

impl Error for Refusal {}

/// The text of the first element of that name in an XML document.
pub(crate) fn element(xml: &str, name: &str) -> Option<String> {
    elements(xml, name).next().map(unescape)
}

/// What is inside of all elements of that name, none of which is within another.
pub(crate) fn elements<'a>(xml: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut rest = xml;
    std::iter::from_fn(move || {
        let inside = &rest[rest.find(&open)? + open.len()..];
        let end = inside.find(&close)?;
        rest = &inside[end + close.len()..];
        Some(&inside[..end])
    })
}

fn unescape(text: &str) -> String {
    let pairs = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#34;", "\""), ("&apos;", "'"), ("&#39;", "'")];
    let text = pairs.iter().fold(text.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain));
    text.replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_an_answer() {
        let xml = "<L><C><Key>a&amp;lt;b</Key><N>1</N></C><C><Key>c</Key></C><Next>x</Next></L>";
        let keys: Vec<_> = elements(xml, "C").map(|inside| element(inside, "Key").expect("a key")).collect();
        assert_eq!(keys, ["a&lt;b", "c"]);
        assert_eq!(element(xml, "Next").as_deref(), Some("x"));
        assert_eq!(element(xml, "None"), None);
    }
}
