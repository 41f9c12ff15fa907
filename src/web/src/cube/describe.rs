//! What there is to ask for, and what a query means: `/meta`, `/dry-run`, `/sql`.

use crate::api;
use crate::cube::asked::{Heard, Params, unsupported};
use crate::cube::load::{Asked, limits};
use crate::cube::result::{statement, write};
use crate::format::Format;
use crate::outlet::{Outlet, PIECE_BYTES};
use crate::printing::{Form, send};
use crate::running::{Work, respond};
use crate::shared::Visitor;
use crate::sink::{Head, Sink};
use crate::told::{Refusal, Told};
use adapter::answer::{Answer, Follows, Statement, no_values};
use adapter::error::AdapterError;
use adapter::seat::Seat;
use axum::Extension;
use axum::extract;
use axum::response::Response;
use ore::memory::Reservation;
use repr::{ColumnDesc, Datum};
use semantic::query::{Limits, Query};
use serde_json::{Value, json};
use std::sync::Arc;

/// Parameters of each.
pub(super) const META: [&str; 2] = ["onlyViews", "extended"];
pub(super) const DRY_RUN: [&str; 1] = ["query"];
pub(super) const SQL: [&str; 3] = ["query", "format", "disable_post_processing"];

/// Cubes and views that the session knows by their names alone, of those with one name the first on its path, in the order in which they were
/// made.
const CUBES: &str = "SELECT meta::text FROM ( \
    SELECT DISTINCT ON (c.name) c.oid, c.meta \
    FROM mz_internal.mz_cubes c JOIN mz_catalog.mz_schemas s ON c.schema_id = s.id JOIN mz_catalog.mz_databases d ON s.database_id = d.id \
    WHERE d.name = current_database() AND s.name = ANY(current_schemas(false)) \
    ORDER BY c.name, array_position(current_schemas(false), s.name)) cubes";

fn answered(summary: &str, parameters: &[Value]) -> Value {
    json!({
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "200": { "description": summary, "content": { "application/json": {} } },
            "default": api::refused(),
        },
    })
}

pub(crate) fn meta_told() -> Value {
    answered("Cubes and views with their members", &[api::query("onlyViews", "true: views only")])
}

pub(crate) fn dry_run_told() -> Value {
    answered("What a query in Cube's JSON means", &[api::query("query", "The query")])
}

pub(crate) fn sql_told() -> Value {
    let format = api::query(
        "format",
        "sql: the query is a statement in SQL, which is checked; rest, by default: it is Cube's JSON",
    );
    answered("The statement that gives the rows of a query", &[api::query("query", "The query"), format])
}

/// The handler of `/meta`.
pub(crate) async fn meta(
    Extension(visitor): Extension<Arc<Visitor>>,
    request: extract::Request,
) -> Result<Response, Refusal> {
    described(visitor, request, &META, |params, _| Described::meta(params)).await
}

/// The handler of `/dry-run`.
pub(crate) async fn dry_run(
    Extension(visitor): Extension<Arc<Visitor>>,
    request: extract::Request,
) -> Result<Response, Refusal> {
    described(visitor, request, &DRY_RUN, Described::dry_run).await
}

/// The handler of `/sql`.
pub(crate) async fn sql(
    Extension(visitor): Extension<Arc<Visitor>>,
    request: extract::Request,
) -> Result<Response, Refusal> {
    described(visitor, request, &SQL, Described::sql).await
}

async fn described(
    visitor: Arc<Visitor>,
    request: extract::Request,
    known: &[&str],
    of: impl FnOnce(&Params, Limits) -> Result<Described, Refusal>,
) -> Result<Response, Refusal> {
    let answer = async {
        let Heard { welcome, params, memory, .. } = Heard::of(&visitor, request, known).await?;
        let what = of(&params, limits(&visitor.own))?;
        respond(visitor, welcome, Head::of(Format::Results.content_type()), Describing { what, _memory: memory }).await
    };
    answer.await.map_err(Refusal::in_cubes_words)
}

/// What is asked for.
pub(super) enum Described {
    Meta {
        only_views: bool,
    },
    DryRun(Value, Limits),
    Sql(Value, Limits),
    /// Of a statement in SQL.
    Statement(String),
}

struct Describing {
    what: Described,
    /// What the request takes.
    _memory: Option<Reservation>,
}

impl Work for Describing {
    async fn tell(self, seat: &mut Seat, sink: &mut Sink) -> Result<(), Refusal> {
        Box::pin(self.what.tell(seat, sink)).await?;
        Ok(seat.commit().await?)
    }

    fn refused(refusal: Refusal) -> Refusal {
        refusal.in_cubes_words()
    }
}

impl Described {
    pub(super) fn meta(params: &Params) -> Result<Described, Refusal> {
        if params.flag("extended")? {
            return Err(unsupported("\"extended\", which tells how members are made,"));
        }
        Ok(Described::Meta { only_views: params.flag("onlyViews")? })
    }

    pub(super) fn dry_run(params: &Params, limits: Limits) -> Result<Described, Refusal> {
        Ok(Described::DryRun(params.query()?, limits))
    }

    pub(super) fn sql(params: &Params, limits: Limits) -> Result<Described, Refusal> {
        params.flag("disable_post_processing")?;
        match params.text("format")? {
            None | Some("rest") => Ok(Described::Sql(params.query()?, limits)),
            Some("sql") => {
                let text = params.text("query")?.ok_or_else(|| Refusal::malformed("Query param is required"))?;
                Ok(Described::Statement(text.to_owned()))
            }
            Some(other) => Err(Refusal::malformed(format!("\"format\" is sql or rest, not {other:.100}"))),
        }
    }

    /// Writes it. Errors: those of what is asked.
    pub(super) async fn tell(self, seat: &mut Seat, outlet: &mut impl Outlet) -> Result<(), Refusal> {
        match self {
            Described::Meta { only_views } => cubes(seat, only_views, outlet).await?,
            Described::DryRun(query, limits) => {
                let asked = planned(seat, &query, limits).await?;
                let told = json!({
                    "queryType": asked.kind(),
                    "normalizedQueries": asked.queries.iter().map(Query::normalized).collect::<Vec<_>>(),
                    "queryOrder": asked.queries.iter().map(Query::order_by_name).collect::<Vec<_>>(),
                    "transformedQueries": [],
                    "pivotQuery": asked.pivot(),
                });
                write(outlet.buffer(), &told);
            }
            Described::Sql(query, limits) => {
                let asked = planned(seat, &query, limits).await?;
                let all: Vec<Value> = asked.queries.iter().map(told).collect();
                match all.as_slice() {
                    [one] => write(outlet.buffer(), one),
                    several => write(outlet.buffer(), &several),
                }
            }
            Described::Statement(text) => {
                let told = match seat.describe(Statement::Text(text.clone())).await {
                    Ok(_) => json!({"status": "ok", "sql": [text, []], "query_type": "regular"}),
                    Err(error) => json!({"status": "error", "error": error.to_string(), "details": Told::from(&error)}),
                };
                write(outlet.buffer(), &json!({"sql": told}));
            }
        }
        Ok(())
    }
}

/// What is asked, if it can be planned.
async fn planned(seat: &mut Seat, query: &Value, limits: Limits) -> Result<Asked, Refusal> {
    let asked = Asked::read(seat, query, limits)?;
    for query in &asked.queries {
        seat.describe(Statement::Text(statement(query))).await?;
    }
    Ok(asked)
}

/// The statement that gives the same rows to any client of SQL, as Cube's clients are told of it.
fn told(query: &Query) -> Value {
    json!({"sql": {
        "sql": [statement(query), []],
        "order": query.order_by_name(),
        "dataSource": "default",
        "external": false,
        "preAggregations": [],
    }})
}

async fn cubes(seat: &mut Seat, only_views: bool, outlet: &mut impl Outlet) -> Result<(), AdapterError> {
    let views = if only_views { " WHERE meta->>'type' = 'view'" } else { "" };
    let text = format!("{CUBES}{views} ORDER BY oid");
    let answer = seat.answer(Statement::Text(text), no_values(), Follows::Others, PIECE_BYTES).await?;
    let Answer::Rows(mut rows) = answer else { return Err(AdapterError::internal("a query has no rows")) };
    outlet.buffer().extend_from_slice(b"{\"cubes\":[");
    send(&mut rows, Raw { is_first: true }, outlet).await?;
    outlet.buffer().extend_from_slice(b"]}");
    Ok(())
}

/// Rows of one text that is JSON, as items of a list.
struct Raw {
    is_first: bool,
}

impl Form for Raw {
    fn begin(&mut self, out: &mut Vec<u8>) {
        if !std::mem::take(&mut self.is_first) {
            out.push(b',');
        }
    }

    fn value(&mut self, out: &mut Vec<u8>, _: usize, _: &ColumnDesc, datum: &Datum<'_>) {
        match datum {
            Datum::Text(text) => out.extend_from_slice(text.as_bytes()),
            _ => out.extend_from_slice(b"null"),
        }
    }

    fn end(&mut self, _: &mut Vec<u8>) {}
}
