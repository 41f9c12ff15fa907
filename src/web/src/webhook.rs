//! `POST /api/webhook/DATABASE/SCHEMA/NAME`: a request becomes rows of a webhook (`adapter::writing::webhook`), and 200 says that they are
//! durable.
//!
//! A webhook with a CHECK takes what satisfies that, whoever sends it; at one without, a request is its role's as any other is, which needs
//! INSERT. With an `Idempotency-Key` a request is taken once.

use crate::api;
use crate::identify::identify;
use crate::once::{self, Print, Record};
use crate::request::{Address, address, before, read_body};
use crate::shared::Visitor;
use crate::sql::check_identity;
use crate::told::Refusal;
use adapter::client::Client;
use adapter::error::AdapterError;
use adapter::once::Key;
use adapter::startup::StartupParams;
use adapter::writing::webhook::{Sent, Webhook};
use axum::Extension;
use axum::body::Body;
use axum::extract::{self, Path};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use door::apart::elsewhere;
use door::entrance::startup;
use ore::memory::Reservation;
use repr::Updates;
use repr::sqlstate::SqlState;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is told of it.
pub(crate) fn told() -> Value {
    let part = |name: &str| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } });
    json!({
        "summary": "Appends what is sent to a webhook",
        "parameters": [part("database"), part("schema"), part("name"), api::idempotency_key()],
        "requestBody": { "required": true, "content": { "*/*": {} } },
        "responses": { "200": { "description": "It is durable" }, "default": api::refused() },
    })
}

/// The handler.
pub(crate) async fn webhook(
    Extension(visitor): Extension<Arc<Visitor>>,
    Path(name): Path<[String; 3]>,
    request: extract::Request,
) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let ((who, once), body) = before(body, admitted(&visitor, &parts, &name).await).await?;
    let client = visitor.own.entrance()?.client();
    let (body, memory) = read_body(body, visitor.own.request_bytes_max, client.message_memory()).await?;
    let mut memory = memory.unwrap_or_else(|| Reservation::empty(client.message_memory()));
    // As it is now: a body may take its time.
    let webhook = client.webhook(&name).map_err(not_found)?;
    check(client, &webhook, who.as_ref())?;
    let headers = if webhook.reads_headers() { headers(&parts.headers)? } else { Vec::new() };
    let (sent, print) = (Sent { headers, body }, once.as_ref().map(|(_, print)| print.clone()));
    let (reader, is_long) = (Arc::clone(&webhook), webhook.is_long(&sent));
    let read = move || {
        // Who may not send learns nothing of keys either.
        let rows = reader.rows(&sent, &mut memory)?;
        if let Some(print) = print {
            print.push(&sent.body);
        }
        Ok::<_, AdapterError>((rows, memory))
    };
    let (rows, _memory) = if is_long { elsewhere(read).await? } else { read()? };
    let once = match once {
        Some((key, print)) => Some((client.webhook_key(&webhook, &key)?, print)),
        None => None,
    };
    if let Some((key, print)) = &once
        && let Some(answer) = again(key, print).await?
    {
        return Ok(answer);
    }
    append(client, &webhook, rows, once).await
}

/// Who sends a request, if the webhook has no CHECK that says so, and the request's key.
async fn admitted(
    visitor: &Arc<Visitor>,
    parts: &Parts,
    name: &[String; 3],
) -> Result<(Option<StartupParams>, Option<(String, Print)>), Refusal> {
    let Address { options } = address(&parts.uri)?;
    if options.is_some() {
        return Err(Refusal::malformed("a webhook has no session, and takes no options"));
    }
    check_identity(&parts.headers)?;
    let client = visitor.own.entrance()?.client();
    let found = client.webhook(name);
    // Whether there is one is told to who may come in.
    let who = match &found {
        Ok(webhook) if webhook.has_check() => None,
        _ => {
            let (_, place) = identify(visitor, parts, Some(name[0].clone())).await?;
            let who = startup(&visitor.arrival, place.user, place.database);
            client.check_insert(&who, found.as_deref().ok())?;
            Some(who)
        }
    };
    found.map_err(not_found)?;
    Ok((who, Print::of(parts)?))
}

/// Refuses who may not send to a webhook as it is now.
fn check(client: &Client, webhook: &Webhook, who: Option<&StartupParams>) -> Result<(), AdapterError> {
    match who {
        _ if webhook.has_check() => Ok(()),
        Some(who) => client.check_insert(who, Some(webhook)),
        None => {
            let message = "the source was made anew, without a CHECK";
            Err(AdapterError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
        }
    }
}

/// 404 of what is not there.
fn not_found(error: AdapterError) -> Refusal {
    match error.sqlstate() {
        SqlState::UNDEFINED_TABLE => Refusal::new(StatusCode::NOT_FOUND, error.sqlstate(), error.to_string()),
        _ => error.into(),
    }
}

/// Makes rows durable, and then says so.
async fn append(
    client: &Client,
    webhook: &Webhook,
    rows: Updates,
    once: Option<(Key, Print)>,
) -> Result<Response, Refusal> {
    let answer = once.as_ref().map(|(key, print)| (key, Record::of(print, "", Vec::new()).encode()));
    let appended = client.append(webhook, rows, answer).await;
    match (appended, once) {
        (Ok(()), _) => Ok(StatusCode::OK.into_response()),
        // Somebody may have been quicker, with the same.
        (Err(error), Some((key, print))) => again(&key, &print).await?.ok_or_else(|| error.into()),
        (Err(error), None) => Err(error.into()),
    }
}

/// The answer to the request with this key, if it was taken before. Errors: 422 if that was another request.
async fn again(key: &Key, print: &Print) -> Result<Option<Response>, Refusal> {
    let Some(bytes) = key.answered_before().await? else { return Ok(None) };
    let mut answer = Body::from(Record::decode(&bytes, print)?.into_body()).into_response();
    once::mark(answer.headers_mut());
    Ok(Some(answer))
}

/// The headers of a request as texts, those of a name together.
fn headers(headers: &HeaderMap) -> Result<Vec<(String, String)>, Refusal> {
    let mut by_name: BTreeMap<&str, String> = BTreeMap::new();
    for (name, value) in headers {
        let value = std::str::from_utf8(value.as_bytes());
        let value = value.map_err(|_| Refusal::malformed(format!("the header {name} is no text in UTF-8")))?;
        let all = by_name.entry(name.as_str()).or_default();
        if !all.is_empty() {
            all.push_str(", ");
        }
        all.push_str(value);
    }
    Ok(by_name.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
