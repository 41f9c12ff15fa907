//! What operators ask for by HTTP: `/metrics`, `/api/livez`, `/api/readyz`, `/prof/cpu`; and health under the names and in the words that Cube
//! has for it.
//!
//! Served from the first moment on: a server that waits for its stores, or for another that owns them, is alive and not ready.

use adapter::client::Client;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use ore::metrics::{Gauge, GaugeVec, Registry};
use serde_json::json;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use web::api::{self, Routes};
use web::server::Others;

/// Samples per second of a CPU profile: a prime, so as not to beat with anything periodic.
const PROFILE_HZ: i32 = 997;
/// How long a write may take before the server is not ready.
const WRITE_PATIENCE: Duration = Duration::from_secs(5);
/// How long it is known whether writes succeed, however many ask.
const READINESS_AGE_MAX: Duration = Duration::from_secs(1);
/// The longest profile.
const PROFILE_SECONDS_MAX: u64 = 600;

/// What is known of the server.
#[derive(Clone)]
pub struct Health(Arc<Shared>);

struct Shared {
    /// Known when SQL is served.
    client: OnceLock<Client>,
    is_ready: AtomicBool,
    /// Why the model of `--model-dir` is not what the directory says, if it is not.
    wrong_model: Mutex<Option<String>>,
    /// Whether a write succeeded, and if not, why; and when. Whoever asks while one is tried waits for what comes of it.
    written: tokio::sync::Mutex<Option<(Instant, Result<(), String>)>>,
    registry: Registry,
    index_upper: GaugeVec,
    index_since: GaugeVec,
    index_rows: GaugeVec,
    index_bytes: GaugeVec,
    allocated_bytes: Gauge,
    resident_bytes: Gauge,
}

impl Health {
    /// Of a server that is not ready until [`Health::ready`].
    pub fn new(registry: Registry) -> Health {
        Health(Arc::new(Shared {
            index_upper: registry.gauge_vec(
                "mz_index_upper",
                "Microseconds below which an index is complete.",
                &["id", "name"],
            ),
            index_since: registry.gauge_vec(
                "mz_index_since",
                "Microseconds from which an index is readable.",
                &["id", "name"],
            ),
            index_rows: registry.gauge_vec("mz_index_rows", "Updates that an index holds.", &["id", "name"]),
            index_bytes: registry.gauge_vec("mz_index_bytes", "Bytes that an index holds.", &["id", "name"]),
            allocated_bytes: registry.gauge("mz_memory_allocated_bytes", "Bytes that are allocated."),
            resident_bytes: registry.gauge("mz_memory_resident_bytes", "Bytes that the allocator has from the system."),
            client: OnceLock::new(),
            is_ready: AtomicBool::new(false),
            wrong_model: Mutex::default(),
            written: tokio::sync::Mutex::new(None),
            registry,
        }))
    }

    /// What is served: health for everybody, everything for operators.
    pub fn routes(&self) -> Others {
        let told = |summary: &str, form: &str| {
            let content = json!({ form: {} });
            let answered = |description: &str| json!({ "description": description, "content": content });
            json!({ "summary": summary, "security": [{}], "responses": { "200": answered(summary) } })
        };
        let mut readiness = told("Whether SQL is served, reads and writes", "text/plain");
        readiness["responses"]["503"] = json!({ "description": "Why not", "content": { "text/plain": {} } });
        let mut cube_readiness = told("Whether SQL is served, reads and writes, as Cube tells it", "application/json");
        cube_readiness["responses"]["500"] = json!({ "description": "Not", "content": { "application/json": {} } });
        let mut sampled = told("A flame graph of where the server computes", "image/svg+xml");
        sampled["parameters"] = json!([api::query("seconds", "For how long it is looked at")]);
        sampled["responses"]["default"] =
            json!({ "description": "Why there is none", "content": { "text/plain": {} } });
        let health = || {
            let alive_told = told("That the process lives", "text/plain");
            let health = "That the process lives, as Cube tells it";
            Routes::default()
                .get("/api/livez", alive, alive_told)
                .get("/api/readyz", ready, readiness.clone())
                .get("/livez", cube_alive, told(health, "application/json"))
                .get("/readyz", cube_ready, cube_readiness.clone())
        };
        let operators = health().get("/metrics", metrics, told("Metrics, as Prometheus has them", "text/plain")).get(
            "/prof/cpu",
            profile,
            sampled,
        );
        Others {
            external: health().with_state(Arc::clone(&self.0)),
            internal: operators.with_state(Arc::clone(&self.0)),
        }
    }

    /// SQL is served, by `client`.
    pub fn ready(&self, client: Client) {
        // A second client would be a second server.
        let _first = self.0.client.set(client);
        self.0.is_ready.store(true, Ordering::Release);
    }

    /// The model of `--model-dir` is what the directory says, or is not, and why. The server is ready all the same.
    pub(crate) fn model_is_wrong(&self, why: Option<String>) {
        *self.0.wrong_model.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// SQL is not served any more.
    pub fn stopping(&self) {
        self.0.is_ready.store(false, Ordering::Release);
    }
}

/// Whoever can ask is answered yes.
async fn alive() -> &'static str {
    std::future::ready("ok\n").await
}

/// Whether SQL is served, reads and writes.
async fn ready(State(shared): State<Arc<Shared>>) -> (StatusCode, String) {
    let client = shared.client.get().filter(|_| shared.is_ready.load(Ordering::Acquire));
    let answer = match client {
        None => Err("SQL is not served".to_owned()),
        Some(client) => shared.write(client).await,
    };
    match answer {
        Ok(()) => (StatusCode::OK, shared.wrong_model().map_or("ok\n".to_owned(), |why| format!("ok\nmodel: {why}\n"))),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why + "\n"),
    }
}

/// A form of an answer.
const JSON: [(header::HeaderName, &str); 1] = [(header::CONTENT_TYPE, "application/json")];

/// The same for who asks as Cube is asked.
async fn cube_alive() -> impl IntoResponse {
    std::future::ready((JSON, json!({ "health": "HEALTH" }).to_string())).await
}

/// The same for who asks as Cube is asked.
async fn cube_ready(state: State<Arc<Shared>>) -> impl IntoResponse {
    let wrong_model = state.wrong_model();
    match ready(state).await {
        (StatusCode::OK, _) => {
            let healthy = wrong_model
                .map_or_else(|| json!({ "health": "HEALTH" }), |why| json!({ "health": "HEALTH", "model": why }));
            (StatusCode::OK, JSON, healthy.to_string())
        }
        (_, why) => {
            let down = json!({ "health": "DOWN", "why": why.trim_end() });
            (StatusCode::INTERNAL_SERVER_ERROR, JSON, down.to_string())
        }
    }
}

impl Shared {
    fn wrong_model(&self) -> Option<String> {
        self.wrong_model.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tries to write, unless somebody has a moment ago.
    async fn write(&self, client: &Client) -> Result<(), String> {
        let mut written = self.written.lock().await;
        if let Some((at, outcome)) = written.as_ref()
            && at.elapsed() < READINESS_AGE_MAX
        {
            return outcome.clone();
        }
        let outcome = match tokio::time::timeout(WRITE_PATIENCE, client.tick()).await {
            Ok(outcome) => outcome.map_err(|error| format!("writes fail: {error}")),
            Err(_) => Err(format!("a write has not been answered for {} s", WRITE_PATIENCE.as_secs())),
        };
        written.insert((Instant::now(), outcome)).1.clone()
    }
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let as_gauge = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    for index in shared.client.get().map(Client::index_statistics).unwrap_or_default() {
        let id = index.id.to_string();
        let labels = [id.as_str(), index.name.as_str()];
        shared.index_upper.with(&labels).set(as_gauge(index.upper));
        shared.index_since.with(&labels).set(as_gauge(index.since));
        shared.index_rows.with(&labels).set(as_gauge(index.rows as u64));
        shared.index_bytes.with(&labels).set(as_gauge(index.bytes as u64));
    }
    // Statistics of the allocator are as of its last epoch.
    if tikv_jemalloc_ctl::epoch::advance().is_ok() {
        let bytes = |result: Result<usize, tikv_jemalloc_ctl::Error>| as_gauge(result.unwrap_or(0) as u64);
        shared.allocated_bytes.set(bytes(tikv_jemalloc_ctl::stats::allocated::read()));
        shared.resident_bytes.set(bytes(tikv_jemalloc_ctl::stats::resident::read()));
    }
    let text = shared.registry.gather_text();
    std::future::ready(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()).await
}

/// A flamegraph of the next `seconds` (10 by default).
async fn profile(Query(parameters): Query<HashMap<String, String>>) -> Response {
    let seconds = parameters.get("seconds").map_or(Ok(10), |text| text.parse::<u64>());
    let Ok(seconds @ 1..=PROFILE_SECONDS_MAX) = seconds else {
        return (StatusCode::BAD_REQUEST, format!("seconds must be from 1 to {PROFILE_SECONDS_MAX}\n")).into_response();
    };
    let (tx, rx) = tokio::sync::oneshot::channel();
    // Names are looked up for some hundred milliseconds, while connections are served here.
    ore::thread::spawn("profile", move || tx.send(flamegraph(seconds)));
    let Ok(made) = rx.await else { return StatusCode::INTERNAL_SERVER_ERROR.into_response() };
    match made {
        Ok(svg) if svg.is_empty() => {
            (StatusCode::SERVICE_UNAVAILABLE, "the server was idle: no samples\n").into_response()
        }
        Ok(svg) => ([(header::CONTENT_TYPE, "image/svg+xml")], svg).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

fn flamegraph(seconds: u64) -> anyhow::Result<Vec<u8>> {
    let guard = pprof::ProfilerGuardBuilder::default().frequency(PROFILE_HZ).build()?;
    std::thread::sleep(Duration::from_secs(seconds));
    let report = guard.report().build()?;
    let mut svg = Vec::new();
    report.flamegraph(&mut svg)?;
    Ok(svg)
}
