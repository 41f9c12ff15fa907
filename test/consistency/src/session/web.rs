//! A session by HTTP: statements by themselves as requests, blocks by the WebSocket.

use std::net::{SocketAddr, TcpStream};

use glimpse_test::http::Http;
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

use super::{Cells, Failure, PATIENCE, classify};

/// See the module.
pub(super) struct Web {
    http: Http,
    socket: WebSocket<TcpStream>,
    in_block: bool,
}

impl Web {
    pub(super) fn connect(addr: SocketAddr) -> Result<Web, Failure> {
        let lost = |error: anyhow::Error| Failure::Lost(error.to_string());
        let http = Http::connect(addr).map_err(lost)?;
        let stream = TcpStream::connect_timeout(&addr, PATIENCE).map_err(|error| lost(error.into()))?;
        let opened = tungstenite::client(format!("ws://{addr}/api/experimental/sql"), stream);
        let (socket, _) = opened.map_err(|error| Failure::Lost(error.to_string()))?;
        let mut web = Web { http, socket, in_block: false };
        web.said(&json!({ "user": "mz_system", "password": "" }), "the introduction")?;
        Ok(web)
    }

    /// Runs statements; the cells of each result, or how many rows it changed.
    pub(super) fn simple(&mut self, sql: &str) -> Result<Vec<(Cells, u64)>, Failure> {
        let begins = sql.starts_with("BEGIN");
        if begins || self.in_block {
            let done = self.said(&json!({ "query": sql }), sql);
            // One that has failed goes on until it is rolled back.
            self.in_block = begins || !(sql == "COMMIT" || sql == "ROLLBACK");
            return done;
        }
        self.asked(&json!({ "query": sql }), sql)
    }

    /// The rows of a statement with values.
    pub(super) fn prepared(&mut self, sql: &str, params: &[i64]) -> Result<Cells, Failure> {
        let params: Vec<String> = params.iter().map(ToString::to_string).collect();
        let request = json!({ "queries": [{ "query": sql, "params": params }] });
        let results = if self.in_block { self.said(&request, sql) } else { self.asked(&request, sql) };
        Ok(results?.into_iter().flat_map(|(cells, _)| cells).collect())
    }

    fn asked(&mut self, request: &Value, sql: &str) -> Result<Vec<(Cells, u64)>, Failure> {
        let answer = self.http.sql(request).map_err(|error| Failure::Lost(error.to_string()))?;
        let unread = |_| Failure::Lost(format!("{} {}", answer.status, answer.text()));
        let told: Value = if answer.is_whole { answer.json().map_err(unread)? } else { Value::Null };
        let refused = |error: &Value| classify(text(&error["code"]), text(&error["message"]), sql);
        if told["error"].is_object() {
            return Err(refused(&told["error"]));
        }
        let Some(results) = told["results"].as_array() else {
            return Err(Failure::Lost(format!("{} breaks off", answer.status)));
        };
        let result = |result: &Value| match &result["error"] {
            Value::Null => {
                let tag = result.get("tag").unwrap_or(&result["ok"]);
                Ok((
                    result["rows"].as_array().map(Vec::as_slice).unwrap_or_default().iter().map(cells).collect(),
                    count(tag),
                ))
            }
            error => Err(refused(error)),
        };
        results.iter().map(result).collect()
    }

    /// Sends a message by the WebSocket, and reads until it is ready for the next one.
    fn said(&mut self, message: &Value, sql: &str) -> Result<Vec<(Cells, u64)>, Failure> {
        let lost = |error: tungstenite::Error| Failure::Lost(error.to_string());
        self.socket.send(Message::text(message.to_string())).map_err(lost)?;
        let (mut results, mut rows, mut failure) = (Vec::new(), Vec::new(), None);
        loop {
            let Message::Text(said) = self.socket.read().map_err(lost)? else { continue };
            let said: Value = serde_json::from_str(&said).map_err(|error| Failure::Wrong(error.to_string()))?;
            let payload = &said["payload"];
            match text(&said["type"]) {
                "Row" => rows.push(cells(payload)),
                "CommandComplete" => results.push((std::mem::take(&mut rows), count(payload))),
                "Error" => failure = Some(classify(text(&payload["code"]), text(&payload["message"]), sql)),
                "ReadyForQuery" => return failure.map_or(Ok(results), Err),
                _ => {}
            }
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A row's values as texts.
fn cells(row: &Value) -> Vec<Option<String>> {
    let cell = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    row.as_array().map(|row| row.iter().map(cell).collect()).unwrap_or_default()
}

/// The number of a command tag.
fn count(tag: &Value) -> u64 {
    text(tag).rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0)
}
