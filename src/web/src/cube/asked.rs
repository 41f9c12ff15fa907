//! Who asks by Cube's API, and what: parameters that stand in the address, or in a body of JSON.
//!
//! Cube's clients show a token without the word `Bearer` before it, and show it as `X-Cube-Authorization` where others on the way need
//! `Authorization` for themselves.

use crate::identify::{admit, check_visit, single};
use crate::request::{before, read_body};
use crate::running::Welcome;
use crate::shared::Visitor;
use crate::sql::{check_identity, check_json, check_version};
use crate::told::Refusal;
use axum::body::Body;
use axum::extract::{self, Query as Parameters};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, header};
use door::shown::Shown;
use ore::memory::Reservation;
use repr::sqlstate::SqlState;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Wins over `Authorization`.
pub(crate) const CUBE_AUTHORIZATION: HeaderName = HeaderName::from_static("x-cube-authorization");
/// What Cube's clients call a request; it is theirs to find it in their logs.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// What JavaScript makes of a token that is not there.
const NO_TOKEN: [&str; 3] = ["", "undefined", "null"];

/// What Cube's clients may say of what is kept. Nothing is, so that there is nothing to choose between.
const CACHE_MODES: [&str; 4] = ["stale-if-slow", "stale-while-revalidate", "must-revalidate", "no-cache"];

/// A request.
pub(crate) struct Heard {
    pub(crate) welcome: Welcome,
    pub(crate) params: Params,
    /// What its head says.
    pub(crate) headers: HeaderMap,
    /// What its body takes.
    pub(crate) memory: Option<Reservation>,
}

/// How many results a client takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Results {
    /// One, which is the answer.
    One,
    /// Any number, in a list.
    Any,
}

/// What is asked for, by name.
pub(crate) struct Params(Map<String, Value>);

impl Heard {
    /// Reads a request whose parameters are among these. Errors: 403 of who is not let in, 400 of what is none of them.
    pub(crate) async fn of(visitor: &Visitor, request: extract::Request, known: &[&str]) -> Result<Heard, Refusal> {
        let (parts, body) = request.into_parts();
        let found = welcomed(visitor, &parts).await;
        if parts.method == Method::GET || parts.method == Method::HEAD {
            let welcome = found?;
            let params = Params::of_address(&parts)?.only(known)?;
            return Ok(Heard { welcome, params, headers: parts.headers, memory: None });
        }
        let found = found.and_then(|welcome| check_json(&parts.headers).map(|()| welcome));
        let (welcome, body): (Welcome, Body) = before(body, found).await?;
        let (bytes_max, memory) = (visitor.own.request_bytes_max, welcome.entrance.client().message_memory());
        let (body, memory) = read_body(body, bytes_max, memory).await?;
        let params = match serde_json::from_slice(&body) {
            Ok(Value::Object(params)) => Params(params).only(known)?,
            Ok(_) => return Err(Refusal::malformed("the body is no JSON object")),
            Err(error) => return Err(Refusal::malformed(format!("the body is not JSON: {error}"))),
        };
        Ok(Heard { welcome, params, headers: parts.headers, memory })
    }
}

/// Whose request it is.
async fn welcomed(visitor: &Visitor, parts: &Parts) -> Result<Welcome, Refusal> {
    check_version(parts)?;
    check_identity(&parts.headers)?;
    let host = check_visit(visitor, parts)?;
    let own = single(&parts.headers, CUBE_AUTHORIZATION)?;
    let value = own.map_or_else(|| single(&parts.headers, header::AUTHORIZATION), |value| Ok(Some(value)))?;
    let (entrance, place) = admit(visitor, host, shown(value.unwrap_or_default())?, None).await?;
    Ok(Welcome { entrance, place })
}

/// What a client shows: a token with or without a word before it, or a name and a password as elsewhere.
pub(crate) fn shown(value: &str) -> Result<Shown, Refusal> {
    let value = value.trim();
    match value.split_once(' ') {
        _ if NO_TOKEN.contains(&value) => Ok(Shown::Nothing),
        None => Ok(Shown::Token(value.to_owned())),
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("basic") => Ok(Shown::parse(value)?),
        Some((_, token)) if NO_TOKEN.contains(&token.trim()) => Ok(Shown::Nothing),
        Some((_, token)) => Ok(Shown::Token(token.trim().to_owned())),
    }
}

impl Params {
    /// Those of a message that came by a WebSocket.
    pub(crate) fn of_message(params: Map<String, Value>, known: &[&str]) -> Result<Params, Refusal> {
        Params(params).only(known)
    }

    fn of_address(parts: &Parts) -> Result<Params, Refusal> {
        let address: Result<Parameters<BTreeMap<String, String>>, _> = Parameters::try_from_uri(&parts.uri);
        let Parameters(all) = address.map_err(|error| Refusal::malformed(format!("the address: {error}")))?;
        Ok(Params(all.into_iter().map(|(name, text)| (name, Value::String(text))).collect()))
    }

    fn only(self, known: &[&str]) -> Result<Params, Refusal> {
        match self.0.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(self),
            Some(name) => {
                Err(Refusal::malformed(format!("\"{name:.100}\" is not known here, but {}", known.join(", "))))
            }
        }
    }

    /// The query, which is an object or its text.
    pub(crate) fn query(&self) -> Result<Value, Refusal> {
        match self.0.get("query") {
            None | Some(Value::Null) => Err(Refusal::malformed("Query param is required")),
            Some(Value::String(text)) => serde_json::from_str(text)
                .map_err(|error| Refusal::malformed(format!("Unable to decode query param as JSON, error: {error}"))),
            Some(query) => Ok(query.clone()),
        }
    }

    /// A parameter that is a text.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, Refusal> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Refusal::malformed(format!("\"{name}\" is a text"))),
        }
    }

    /// A parameter that is true or not.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Refusal> {
        match self.0.get(name) {
            None | Some(Value::Null | Value::Bool(false)) => Ok(false),
            Some(Value::Bool(true)) => Ok(true),
            Some(Value::String(text)) if text == "true" => Ok(true),
            Some(Value::String(text)) if matches!(text.as_str(), "false" | "") => Ok(false),
            Some(_) => Err(Refusal::malformed(format!("\"{name}\" is true or false"))),
        }
    }

    /// Error 400 of a word for what is kept that is none.
    pub(crate) fn check_cache(&self) -> Result<(), Refusal> {
        match self.text("cache")?.filter(|mode| !CACHE_MODES.contains(mode)) {
            None => Ok(()),
            Some(mode) => {
                let message = format!("\"cache\" is one of {}, not {mode:.100}", CACHE_MODES.join(", "));
                Err(Refusal::malformed(message))
            }
        }
    }

    /// How many results may be answered with. Error 400 of another word.
    pub(crate) fn results(&self) -> Result<Results, Refusal> {
        match self.text("queryType")? {
            None => Ok(Results::One),
            Some("multi") => Ok(Results::Any),
            Some(other) => Err(Refusal::malformed(format!("\"queryType\" is \"multi\", not {other:.100}"))),
        }
    }
}

/// A feature of Cube's that is not here.
pub(crate) fn unsupported(what: &str) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, SqlState::FEATURE_NOT_SUPPORTED, format!("{what} is not supported"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_needs_no_word_before_it() {
        let token = || Shown::Token("x.y.z".to_owned());
        for (value, expected) in [
            ("x.y.z", token()),
            ("Bearer x.y.z", token()),
            ("bearer  x.y.z ", token()),
            ("JWT x.y.z", token()),
            ("", Shown::Nothing),
            ("undefined", Shown::Nothing),
            ("Bearer undefined", Shown::Nothing),
        ] {
            assert!(shown(value).is_ok_and(|shown| shown == expected), "{value}");
        }
        assert!(shown("Basic YWRhOng=").is_ok_and(|shown| shown == Shown::Password("ada".to_owned(), "x".to_owned())));
        assert!(shown("Basic !").is_err());
    }
}
