//! `POST /api/sql`: statements in, their results out. A request is a transaction of its own.

use crate::format::Format;
use crate::identify::{self, identify};
use crate::printing::elsewhere;
use crate::request::{Address, LARGE_BODY, Request, drain, read_body, weight};
use crate::results::Results;
use crate::single;
use crate::sink::{Head, Sink, answered};
use crate::told::Refusal;
use crate::visitor::{Place, Seated, Visitor};
use adapter::error::AdapterError;
use axum::Extension;
use axum::extract::{self, Query as Parameters};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Version, header};
use axum::response::Response;
use door::entrance::Entrance;
use ore::memory::Reservation;
use repr::sqlstate::SqlState;
use std::sync::Arc;

/// The handler.
pub(crate) async fn sql(
    Extension(visitor): Extension<Arc<Visitor>>,
    request: extract::Request,
) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let (entrance, place, format) = match welcome(&visitor, &parts).await {
        Ok(welcome) => welcome,
        Err(refusal) => {
            drain(body).await;
            return Err(refusal);
        }
    };
    let (bytes_max, memory) = (visitor.shared.request_bytes_max, entrance.client().message_memory());
    let (body, mut memory) = read_body(body, bytes_max, memory).await?;
    memory.try_grow(weight(&body)).map_err(AdapterError::from)?;
    let request = match body.len() > LARGE_BODY {
        true => elsewhere(move || Request::parse(&body)).await?,
        false => Request::parse(&body)?,
    };
    let seated = visitor.seat(&entrance, place)?;
    let answer = answered(Head::of(format.content_type()), |sink| run(seated, (request, memory), format, sink)).await;
    if door::server::is_crowded() {
        // What others have asked meanwhile is answered first, and then everything sent.
        tokio::task::yield_now().await;
    }
    Ok(answer)
}

/// Whose request it is, where it goes, and which form its answer has, all of which is known before its body comes.
async fn welcome(visitor: &Visitor, parts: &Parts) -> Result<(Arc<Entrance>, Place, Format), Refusal> {
    if parts.version < Version::HTTP_11 {
        // Its bodies end with their connection, whether they are whole or not.
        let message = "HTTP/1.1 or HTTP/2 is needed: an answer that breaks off would look whole";
        return Err(Refusal::new(StatusCode::HTTP_VERSION_NOT_SUPPORTED, SqlState::PROTOCOL_VIOLATION, message));
    }
    let Parameters(address) = Parameters::<Address>::try_from_uri(&parts.uri)
        .map_err(|error| Refusal::malformed(format!("the address: {error}")))?;
    let (database, options) = address.options()?;
    let (entrance, user, database) = identify(visitor, parts, database).await?;
    let format = Format::accepted(&parts.headers)?;
    check_json(&parts.headers)?;
    Ok((entrance, Place { user, database, options }, format))
}

/// Refuses a body that does not say that it is JSON: others a browser sends for anybody's page, without asking us.
fn check_json(headers: &HeaderMap) -> Result<(), Refusal> {
    if let Some(coding) = identify::single(headers, header::CONTENT_ENCODING)?.filter(|coding| *coding != "identity") {
        let message = format!("a body that is compressed ({coding:.20}) is not read");
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    let value = identify::single(headers, header::CONTENT_TYPE)?.unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    match essence.eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => {
            let message = "the body has to be JSON, and to say so: Content-Type: application/json";
            Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, SqlState::PROTOCOL_VIOLATION, message))
        }
    }
}

/// Runs a request, and gives the session back.
async fn run(
    mut seated: Seated,
    (request, _memory): (Request, Reservation),
    format: Format,
    mut sink: Sink,
) -> (Sink, Result<(), Refusal>) {
    let ended = seated.shutdown();
    let answering = async {
        match format {
            Format::Results => Results::new(&mut sink).of(&mut seated, request).await,
            one => Ok(single::answer(&mut seated, request, one, &mut sink).await?),
        }
    };
    let done = tokio::select! {
        biased;
        () = ended.cancelled() => Err(AdapterError::new(SqlState::ADMIN_SHUTDOWN, "the session ends").into()),
        done = answering => done,
    };
    if done.is_ok() || sink.sent() == 0 {
        if let (Err(_), Some(session)) = (&done, seated.here()) {
            session.fail_transaction();
        }
        seated.give_back().await;
    }
    (sink, done)
}
