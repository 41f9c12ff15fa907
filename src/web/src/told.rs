//! Errors and notices, as they are told: in an answer, or instead of one.
//!
//! The one table of which SQLSTATE is which status of HTTP is [`status_of`].

use adapter::error::{AdapterError, Notice};
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use door::shown::Refused;
use repr::sqlstate::SqlState;
use serde::Serialize;
use serde_json::{Value, json};

/// An error.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Told {
    message: String,
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// Where it happened: for a row of COPY its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<String>,
    /// The 1-based character of the statement.
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<usize>,
}

impl Told {
    pub(crate) fn new(sqlstate: SqlState, message: impl Into<String>) -> Told {
        Told { message: message.into(), code: sqlstate.code(), detail: None, hint: None, context: None, position: None }
    }
}

impl From<&AdapterError> for Told {
    fn from(error: &AdapterError) -> Told {
        Told {
            message: error.to_string(),
            code: error.sqlstate().code(),
            detail: error.detail(),
            hint: error.hint(),
            context: error.context(),
            position: error.position(),
        }
    }
}

/// A notice.
#[derive(Serialize)]
struct ToldNotice<'n> {
    message: &'n str,
    code: &'static str,
    severity: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'n str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'n str>,
}

/// A notice as JSON.
pub(crate) fn notice(notice: &Notice) -> Value {
    json!(ToldNotice {
        message: &notice.message,
        code: notice.sqlstate.code(),
        severity: notice.severity.to_lowercase(),
        detail: notice.detail.as_deref(),
        hint: notice.hint.as_deref(),
    })
}

/// Appends notices, as a JSON array.
pub(crate) fn notices(out: &mut Vec<u8>, notices: &[Notice]) {
    let notices: Vec<_> = notices.iter().map(notice).collect();
    serde_json::to_writer(out, &notices).expect("memory takes whatever is written");
}

/// An answer that is an error and nothing else.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    sqlstate: SqlState,
    told: Told,
    words: Words,
}

/// What Cube's clients take for an order to ask again.
pub(crate) const AGAIN: &str = "Continue wait";

/// In whose words an error is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Words {
    Ours,
    /// `{"error": "…", "type": "UserError"}`, and 403 where others say 401.
    Cubes,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, sqlstate: SqlState, message: impl Into<String>) -> Refusal {
        Refusal { status, sqlstate, told: Told::new(sqlstate, message), words: Words::Ours }
    }

    /// Its SQLSTATE.
    pub(crate) fn sqlstate(&self) -> SqlState {
        self.sqlstate
    }

    /// The error.
    pub(crate) fn told(&self) -> &Told {
        &self.told
    }

    /// The same, as Cube's clients are told of it.
    pub(crate) fn in_cubes_words(self) -> Refusal {
        let status = if self.status == StatusCode::UNAUTHORIZED { StatusCode::FORBIDDEN } else { self.status };
        Refusal { status, words: Words::Cubes, ..self }
    }

    /// What an answer by HTTP would have as its status.
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// What an answer says.
    pub(crate) fn body(&self) -> Value {
        let Told { message, code, detail, hint, position, .. } = &self.told;
        match self.words {
            Words::Ours => json!({ "error": self.told }),
            Words::Cubes => {
                // Cube's clients show this and nothing else.
                let error = hint.as_ref().map_or_else(|| message.clone(), |hint| format!("{message}. {hint}"));
                // Which they take for "ask again" wherever it stands.
                let error = error.replace(AGAIN, "Continue\u{a0}wait");
                let mut body = json!({ "error": error, "code": code });
                let kind = (self.status.is_client_error()).then(|| json!("UserError"));
                for (name, value) in [
                    ("type", kind),
                    ("detail", detail.as_ref().map(|detail| json!(detail))),
                    ("position", position.map(|position| json!(position))),
                ] {
                    if let Some(value) = value {
                        body[name] = value;
                    }
                }
                body
            }
        }
    }

    /// What it says.
    pub(crate) fn message(&self) -> &str {
        &self.told.message
    }

    /// A request that cannot be read.
    pub(crate) fn malformed(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, SqlState::PROTOCOL_VIOLATION, message)
    }
}

impl From<AdapterError> for Refusal {
    fn from(error: AdapterError) -> Refusal {
        let sqlstate = error.sqlstate();
        Refusal { status: status_of(sqlstate), sqlstate, told: Told::from(&error), words: Words::Ours }
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Refusal {
        let status = match refused {
            Refused::Malformed(_) => StatusCode::BAD_REQUEST,
            Refused::Wrong(_) => StatusCode::UNAUTHORIZED,
            Refused::Denied(_) => StatusCode::FORBIDDEN,
            Refused::Failed(error) => return error.into(),
        };
        let (sqlstate, message) = refused.told();
        Refusal::new(status, sqlstate, message)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body().to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Basic realm=\"Glimpse\", charset=\"UTF-8\"");
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

/// The status of an answer that is this error.
pub(crate) fn status_of(sqlstate: SqlState) -> StatusCode {
    match sqlstate {
        SqlState::INVALID_PASSWORD => return StatusCode::UNAUTHORIZED,
        SqlState::INSUFFICIENT_PRIVILEGE | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            return StatusCode::FORBIDDEN;
        }
        SqlState::SNAPSHOT_TOO_OLD => return StatusCode::GONE,
        SqlState::QUERY_CANCELED => return StatusCode::REQUEST_TIMEOUT,
        SqlState::INTERNAL_ERROR => return StatusCode::INTERNAL_SERVER_ERROR,
        _ => {}
    }
    match &sqlstate.code()[..2] {
        // Constraints, and transactions that others were in the way of: what was sent may be right another time.
        "23" | "40" | "55" => StatusCode::CONFLICT,
        // No room, or no server.
        "53" | "57" => StatusCode::SERVICE_UNAVAILABLE,
        "58" | "XX" => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_whose_fault_it_is() {
        for (sqlstate, status) in [
            (SqlState::SYNTAX_ERROR, 400),
            (SqlState::FEATURE_NOT_SUPPORTED, 400),
            (SqlState::INVALID_PASSWORD, 401),
            (SqlState::INSUFFICIENT_PRIVILEGE, 403),
            (SqlState::QUERY_CANCELED, 408),
            (SqlState::SNAPSHOT_TOO_OLD, 410),
            (SqlState::UNIQUE_VIOLATION, 409),
            (SqlState::SERIALIZATION_FAILURE, 409),
            (SqlState::TOO_MANY_CONNECTIONS, 503),
            (SqlState::ADMIN_SHUTDOWN, 503),
            (SqlState::DATA_CORRUPTED, 500),
        ] {
            assert_eq!(status_of(sqlstate).as_u16(), status, "{}", sqlstate.code());
        }
    }
}
