//! `/load`: the rows of a query in Cube's JSON.

use crate::api;
use crate::cube::asked::{Heard, Results, unsupported};
use crate::cube::result::{self, COMPARED, Kind, model, refreshed, statement, total, write};
use crate::format::{Format, Shape};
use crate::outlet::Outlet;
use crate::running::{Work, respond};
use crate::shared::{Shared, Visitor};
use crate::single::{ARROW_BATCH_BYTES, batches};
use crate::sink::{Head, Sink};
use crate::told::Refusal;
use adapter::answer::{Answer, Follows, Statement, no_values};
use adapter::error::AdapterError;
use adapter::seat::Seat;
use adapter::session::Session;
use axum::Extension;
use axum::extract;
use axum::response::Response;
use door::exchange::Exchange;
use ore::memory::Reservation;
use repr::sqlstate::SqlState;
use semantic::query::{Limits, Query, Request, Total};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// Parameters of a request.
const KNOWN: [&str; 4] = ["query", "queryType", "cache", "format"];
/// Where an Arrow stream tells what JSON tells beside the rows.
const RESPONSE: &str = "cube.response";
/// Whatever is asked for in Arrow is told.
const NO_LIMITS: Limits = Limits { default: None, max: None };

/// What is told of it.
pub(crate) fn told() -> Value {
    json!({
        "summary": "Rows of a query in Cube's JSON",
        "parameters": [
            api::query("query", "The query: {\"measures\": [\"orders.count\"], …}"),
            api::query("queryType", "multi: an answer of several results"),
            api::query("cache", "Taken and without effect: answers are always of now"),
            api::query("format", "arrow: a stream of Arrow batches"),
        ],
        "responses": {
            "200": {
                "description": "Rows, and what their members are",
                "content": { "application/json": {}, "application/vnd.apache.arrow.stream": {} },
            },
            "default": api::refused(),
        },
    })
}

/// The handler.
pub(crate) async fn load(
    Extension(visitor): Extension<Arc<Visitor>>,
    request: extract::Request,
) -> Result<Response, Refusal> {
    loaded(visitor, request).await.map_err(Refusal::in_cubes_words)
}

async fn loaded(visitor: Arc<Visitor>, request: extract::Request) -> Result<Response, Refusal> {
    let Heard { welcome, params, headers, memory } = Heard::of(&visitor, request, &KNOWN).await?;
    params.check_cache()?;
    let is_arrow = match params.text("format")? {
        None => Format::accepted(&headers)? == Format::Rows(Shape::Arrow),
        Some("arrow") => true,
        Some("json") => false,
        Some(other) => return Err(Refusal::malformed(format!("\"format\" is json or arrow, not {other:.100}"))),
    };
    let form = if is_arrow { Format::Rows(Shape::Arrow) } else { Format::Results };
    let (query, results) = (params.query()?, params.results()?);
    let work = Load { query, results, is_arrow, limits: limits(&visitor.own), _memory: memory };
    respond(visitor, welcome, Head::of(form.content_type()), work).await
}

/// What is told in JSON to who does not say how much.
pub(super) fn limits(shared: &Shared) -> Limits {
    Limits { default: Some(shared.cube.default_limit), max: Some(shared.cube.limit_max) }
}

struct Load {
    query: Value,
    results: Results,
    is_arrow: bool,
    limits: Limits,
    /// What the request takes.
    _memory: Option<Reservation>,
}

impl Work for Load {
    async fn tell(self, seat: &mut Seat, sink: &mut Sink) -> Result<(), Refusal> {
        if self.is_arrow {
            Box::pin(arrow(seat, &self.query, sink)).await?;
        } else {
            let asked = Asked::read(seat, &self.query, self.limits)?;
            Box::pin(asked.tell(seat, self.results, sink)).await?;
        }
        Ok(seat.commit().await?)
    }

    fn refused(refusal: Refusal) -> Refusal {
        refusal.in_cubes_words()
    }
}

/// What a request asks.
#[derive(Debug, PartialEq)]
pub(super) struct Asked {
    pub(super) queries: Vec<Query>,
    kind: Kind,
}

impl Asked {
    /// Reads it, as it is meant now. Errors: 400 of what is no query.
    pub(super) fn read(session: &Session, query: &Value, limits: Limits) -> Result<Asked, Refusal> {
        let malformed = |why: &dyn std::fmt::Display| {
            Refusal::from(AdapterError::new(SqlState::INVALID_PARAMETER_VALUE, why.to_string()))
        };
        match Query::read(query, result::now(session), limits).map_err(|error| malformed(&error))? {
            Request::Regular(query) => Ok(Asked { queries: vec![query], kind: Kind::Regular }),
            Request::CompareDateRange(queries) => Ok(Asked { queries, kind: Kind::Comparison }),
        }
    }

    /// What Cube calls it.
    pub(super) fn kind(&self) -> &'static str {
        match self.kind {
            Kind::Regular => "regularQuery",
            Kind::Comparison => "compareDateRangeQuery",
        }
    }

    /// The query by which a client lays out the rows.
    pub(super) fn pivot(&self) -> Map<String, Value> {
        let mut pivot = self.queries.first().map(Query::normalized).unwrap_or_default();
        if let (Kind::Comparison, Some(Value::Array(dimensions))) = (self.kind, pivot.get_mut("dimensions")) {
            dimensions.insert(0, json!(COMPARED));
        }
        pivot.insert("queryType".to_owned(), json!(self.kind()));
        pivot
    }

    /// Writes the answer. Errors: those of the queries and their rows.
    pub(super) async fn tell(
        &self,
        seat: &mut Seat,
        results: Results,
        outlet: &mut impl Outlet,
    ) -> Result<(), Refusal> {
        seat.read_together();
        if results == Results::One {
            let [query] = self.queries.as_slice() else {
                let message =
                    format!("'{}' query type is not supported by the client. Please update the client.", self.kind());
                return Err(AdapterError::new(SqlState::INVALID_PARAMETER_VALUE, message).into());
            };
            return result::tell(seat, query, self.kind, outlet).await;
        }
        let out = outlet.buffer();
        out.extend_from_slice(b"{\"queryType\":");
        write(out, &self.kind());
        out.extend_from_slice(b",\"results\":[");
        for (at, query) in self.queries.iter().enumerate() {
            if at > 0 {
                outlet.buffer().push(b',');
            }
            result::tell(seat, query, self.kind, outlet).await?;
        }
        let out = outlet.buffer();
        out.extend_from_slice(b"],\"pivotQuery\":");
        write(out, &self.pivot());
        out.extend_from_slice(b",\"slowQuery\":false}");
        Ok(())
    }
}

/// Writes the rows as a stream of Arrow batches, all of them.
async fn arrow(seat: &mut Seat, query: &Value, sink: &mut Sink) -> Result<(), Refusal> {
    let asked = Asked::read(seat, query, NO_LIMITS)?;
    let [query] = asked.queries.as_slice() else { return Err(unsupported("compareDateRange in Arrow")) };
    seat.read_together();
    let model = model(seat, query);
    let total = match query.total {
        Total::Asked => json!(total(seat, query).await?),
        Total::NotAsked => Value::Null,
    };
    let answer =
        seat.answer(Statement::Text(statement(query)), no_values(), Follows::Others, ARROW_BATCH_BYTES).await?;
    let Answer::Rows(mut rows) = answer else { return Err(AdapterError::internal("a query has no rows").into()) };
    let response = json!({
        "query": query.normalized(), "annotation": model?.annotation(query), "lastRefreshTime": refreshed(rows.session()),
        "total": total,
    });
    let metadata = HashMap::from([(RESPONSE.to_owned(), response.to_string())]);
    let exchange = Exchange::of(&rows.desc().desc).with_metadata(metadata);
    Ok(batches(&mut rows, exchange, sink).await?)
}
