//! The server: everything below joined, from storage at the bottom to sockets at the top.
//!
//! [`start`] reads like the layer diagram of `doc/architecture.md` from bottom to top; [`Server::stop`] takes it down from
//! the top. This is the only crate that names both `adapter` and `compute`.

pub mod check_model;
pub mod config;
pub mod http;
pub mod logging;
mod memory;
pub mod model_dir;
mod stores;

use adapter::client::{Client, Running};
use adapter::spill::Spill;
use anyhow::Context;
use config::Config;
use door::entrance::Entrance;
use door::server::Threads;
use door::tls::TlsFiles;
use door::token::TokenFiles;
use http::Health;
use logging::LogFilter;
use ore::clock::Clock;
use ore::memory::Share;
use ore::metrics::Registry;
use ore::task::{JoinHandle, spawn_on};
use pgwire::server::{Addresses, ServerConfig};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use stores::Oracle;

/// Threads for statements that have one of their own, as many as there are of these: memory and connections are what limits them.
const APART_MAX: usize = 1 << 20;
/// Address space for the stack of a thread on which statements are planned: a chain of conditions is as deep as it is long in some rules of the
/// optimizer, and the longest that the parser lets pass needs some megabytes.
const STACK_BYTES: usize = 32 << 20;
/// How long ad hoc queries get to end when the server stops.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// A running server.
pub struct Server {
    wire: Addresses,
    web: web::server::Handle,
    flight: SocketAddr,
    /// The threads of all connections.
    server: door::server::Server,
    threads: Threads,
    entrance: Arc<Entrance>,
    health: Health,
    /// Ends with the server.
    _models: Option<JoinHandle<()>>,
    client: Client,
    /// Before the runtime, so that the committer ends while queries still can.
    running: Running,
    oracle: Oracle,
    adhoc: tokio::runtime::Runtime,
}

/// Starts a server.
pub fn start(config: &Config, log_filter: LogFilter) -> anyhow::Result<Server> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let or_cores = |threads: usize| if threads == 0 { cores } else { threads };
    let (clock, registry) = (Clock::system(), Registry::new());

    // Before anything that may have to wait.
    let (server, threads) = door::server::Server::start(or_cores(config.io_threads))?;
    let health = Health::new(registry.clone());
    let web = serve_http(config, &server, &health).context("cannot listen for HTTP")?;
    let (persist, oracle) = stores::open(config, clock.clone(), &registry)?;
    let adhoc = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(or_cores(config.adhoc_threads))
        .thread_name("adhoc")
        .on_thread_start(ore::thread::give_way)
        .thread_stack_size(STACK_BYTES)
        .max_blocking_threads(APART_MAX)
        .enable_time()
        .build()?;
    let memory_limit = match config.memory_limit {
        0 => memory::total().map_or(usize::MAX, |bytes| bytes / 5 * 4),
        mebibytes => mebibytes.saturating_mul(1 << 20),
    };
    let part = |mebibytes: usize, eighths: usize| match mebibytes {
        0 => memory_limit / 8 * eighths,
        mebibytes => mebibytes.saturating_mul(1 << 20),
    };
    let (client, running) = Client::start(adapter::client::Config {
        persist,
        oracle: oracle.handle(),
        spawner: Box::new(compute::LocalWorkers),
        adhoc: adhoc.handle().clone(),
        memory: Share::root(memory_limit, Some(Box::new(memory::used))),
        adhoc_statements: if config.adhoc_statements == 0 { 2 * cores } else { config.adhoc_statements },
        adhoc_memory: part(config.adhoc_memory, 5),
        spill: spill(config)?,
        maintained_memory: part(config.maintained_memory, 6),
        clock,
        registry: registry.clone(),
        system_defaults: system_defaults(config),
        retain: config.retain_history,
    })
    .context("cannot start from what the data directory holds")?;
    log_filter.follow(&client);
    let entrance = Arc::new(entrance(config, client.clone())?);
    let wire = pgwire::server::serve(
        &ServerConfig {
            sql_addr: config.sql_listen_addr,
            internal_addr: config.internal_sql_listen_addr,
            handshake_timeout: config.handshake_timeout,
            request_bytes_max: config.request_bytes_max,
        },
        &server,
        Arc::clone(&entrance),
        pgwire::metrics::Metrics::register(&registry),
    )
    .context("cannot listen for SQL")?;
    let flight = serve_flight(config, &server, &entrance).context("cannot listen for Flight")?;
    web.open(Arc::clone(&entrance));
    health.ready(client.clone());
    let models = config
        .model_dir
        .clone()
        .map(|dir| spawn_on(adhoc.handle(), "model_dir", model_dir::follow(dir, client.clone(), health.clone())));
    Ok(Server { _models: models, wire, web, flight, server, threads, entrance, health, client, running, oracle, adhoc })
}

/// Defaults of system parameters. The cubes of a directory are found by their names alone, behind everybody's tables.
fn system_defaults(config: &Config) -> Vec<(String, String)> {
    let mut defaults = config.system_parameter_defaults.clone();
    if config.model_dir.is_some() {
        defaults.insert(0, ("search_path".to_owned(), format!("public, {}", model_dir::SCHEMA)));
    }
    defaults
}

/// Opens the HTTP door, in which there is no SQL yet.
fn serve_http(config: &Config, server: &door::server::Server, health: &Health) -> std::io::Result<web::server::Handle> {
    let cube = web::cube::CubeConfig {
        default_limit: config.cube_default_limit,
        limit_max: config.cube_limit_max,
        followed_max: config.cube_subscriptions_max,
    };
    let web = web::server::Config {
        addr: config.http_listen_addr,
        internal_addr: config.internal_http_listen_addr,
        request_bytes_max: config.request_bytes_max,
        origins: config.http_allowed_origins.clone(),
        requests_per_address: config.http_requests_per_address,
        subscribe_history: config.http_subscribe_history,
        cube,
    };
    web::server::serve(web, server, health.routes())
}

/// Opens the Flight door.
fn serve_flight(
    config: &Config,
    server: &door::server::Server,
    entrance: &Arc<Entrance>,
) -> std::io::Result<SocketAddr> {
    let flight = flight::server::Config {
        addr: config.flight_listen_addr,
        request_bytes_max: config.request_bytes_max,
        requests_per_address: config.http_requests_per_address,
    };
    flight::server::serve(&flight, server, Arc::clone(entrance))
}

/// Who may come in.
fn entrance(config: &Config, client: Client) -> std::io::Result<Entrance> {
    let tls = config.tls_cert.clone().zip(config.tls_key.clone()).map(|(cert, key)| TlsFiles { cert, key });
    let tokens = TokenFiles {
        secret: config.jwt_secret_file.clone(),
        jwks: config.jwt_jwks_file.clone(),
        issuer: config.jwt_issuer.clone(),
        audience: config.jwt_audience.clone(),
        role_claim: config.jwt_role_claim.clone(),
        default_role: config.jwt_default_role.clone(),
    };
    Entrance::open(client, tls, config.hba_file.clone(), tokens)
}

/// Where ad hoc queries put aside what does not fit in memory. Nothing that is found there is anybody's any more.
fn spill(config: &Config) -> anyhow::Result<Option<Spill>> {
    if config.spill_reserve >= 100 {
        return Ok(None);
    }
    let directory = config.data_dir.join("spill");
    let clean = || {
        std::fs::create_dir_all(&directory)?;
        std::fs::read_dir(&directory)?.try_for_each(|entry| {
            let entry = entry?;
            if entry.file_type()?.is_file() { std::fs::remove_file(entry.path()) } else { Ok(()) }
        })
    };
    clean().with_context(|| format!("cannot use {} for what does not fit in memory", directory.display()))?;
    Ok(Some(Spill::new(directory, config.spill_reserve)))
}

impl Server {
    /// Where users connect.
    pub fn sql_addr(&self) -> SocketAddr {
        self.wire.sql
    }

    /// Where the system user connects.
    pub fn internal_sql_addr(&self) -> SocketAddr {
        self.wire.internal
    }

    /// Where users come by HTTP.
    pub fn http_addr(&self) -> SocketAddr {
        self.web.addr()
    }

    /// Where Flight is.
    pub fn flight_addr(&self) -> SocketAddr {
        self.flight
    }

    /// Where metrics and profiles are.
    pub fn internal_http_addr(&self) -> SocketAddr {
        self.web.internal_addr()
    }

    /// Reads again what may change while the server runs: its certificate and its rules. What cannot be used is logged and
    /// changes nothing.
    pub fn reload(&self) {
        match self.entrance.reload() {
            Ok(()) => tracing::info!("the configuration was read again"),
            Err(error) => tracing::error!(%error, "the configuration is left as it was"),
        }
    }

    /// Completes when another process has taken over: this one can answer nothing any more, and should be stopped.
    pub fn fenced(&self) -> impl Future<Output = ()> + Send + use<> {
        self.oracle.fenced()
    }

    /// Accepts no more, ends sessions with 57P01, finishes the commits that were begun, and frees everything.
    pub fn stop(self) {
        let Server { server, threads, health, client, running, oracle, adhoc, .. } = self;
        health.stopping();
        client.shutdown();
        adhoc.block_on(server.shutdown(|| client.shutdown()));
        threads.end();
        drop(running);
        oracle.close();
        adhoc.shutdown_timeout(STOP_PATIENCE);
    }
}
