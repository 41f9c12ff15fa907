//! The `environmentd` binary: flags, allocator, signals.

use adapter::error::AdapterError;
use anyhow::Context;
use clap::Parser;
use environmentd::Server;
use environmentd::config::Config;
use environmentd::logging::LogFilter;
use ore::exit::{Exit, last_line};
use persist::PersistError;
use repr::sqlstate::SqlState;
use std::io::Write;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What the allocator reads when it starts. Building an index takes several times the memory that it keeps; a thread of
/// the allocator's own gives the rest back after a second, also when nothing else runs.
#[allow(unsafe_code, reason = "the allocator takes its defaults from a symbol of this name")]
// SAFETY: jemalloc reads a pointer to a C string here, and a thin reference to bytes that end with NUL is one.
#[unsafe(export_name = "_rjem_malloc_conf")]
pub(crate) static ALLOCATOR_DEFAULTS: &[u8; 60] = b"background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0\0";

pub(crate) fn main() -> ExitCode {
    match run() {
        Ok(End::Asked) => ExitCode::SUCCESS,
        Ok(End::Replaced) => {
            last_line(&"another process has taken over");
            ExitCode::from(u8::from(Exit::Replaced))
        }
        Err(error) => {
            // With all of its causes, in one line.
            last_line(&format_args!("{error:#}"));
            ExitCode::from(u8::from(exit_of(&error)))
        }
    }
}

/// How a server ended that had started.
enum End {
    Asked,
    Replaced,
}

/// What an error of the start is for whoever supervises the process.
fn exit_of(error: &anyhow::Error) -> Exit {
    let is_damage = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<PersistError>().is_some_and(|error| error.sqlstate() == SqlState::DATA_CORRUPTED)
            || cause.downcast_ref::<AdapterError>().is_some_and(|error| error.sqlstate() == SqlState::DATA_CORRUPTED)
    };
    if error.chain().any(is_damage) { Exit::Damaged } else { Exit::Refused }
}

fn run() -> anyhow::Result<End> {
    let config = Config::parse();
    if let Some(dir) = &config.check_model {
        let is_right = environmentd::check_model::check(dir, &mut std::io::stdout().lock())?;
        return is_right.then_some(End::Asked).ok_or_else(|| anyhow::anyhow!("{} is no model", dir.display()));
    }
    let log_filter = LogFilter::install();
    let signals = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let server = environmentd::start(&config, log_filter)?;
    let (sql, internal) = (server.sql_addr(), server.internal_sql_addr());
    let mut out = std::io::stderr().lock();
    writeln!(out, "glimpse is ready, serving {}", config.data_dir.display())?;
    writeln!(out, "  psql -h {} -p {} -U materialize materialize     as a user", sql.ip(), sql.port())?;
    writeln!(
        out,
        "  psql -h {} -p {} -U mz_system materialize     as the system user",
        internal.ip(),
        internal.port()
    )?;
    writeln!(out, "  SQL by HTTP: http://{}/api/sql", server.http_addr())?;
    writeln!(out, "  Arrow Flight SQL: grpc://{}", server.flight_addr())?;
    writeln!(out, "  metrics, health, profiles: http://{}/", server.internal_http_addr())?;
    if config.hba_file.is_none() {
        writeln!(out, "  without --hba-file, whoever is on this machine is trusted, and nobody else is let in")?;
    }
    drop(out);
    if config.hba_file.is_none() && !(sql.ip().is_loopback() && internal.ip().is_loopback()) {
        tracing::warn!(%sql, %internal, "other machines can connect, but without --hba-file none is let in");
    }
    let is_fenced = signals.block_on(async {
        tokio::select! {
            () = server.fenced() => anyhow::Ok(true),
            stopped = attend(&server) => stopped.map(|()| false).context("cannot wait for signals"),
        }
    })?;
    tracing::info!("stopping");
    server.stop();
    tracing::info!("stopped");
    Ok(if is_fenced { End::Replaced } else { End::Asked })
}

/// Reloads the configuration whenever SIGHUP asks for it; returns when a signal asks for the end.
async fn attend(server: &Server) -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut hangup = signal(SignalKind::hangup())?;
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = hangup.recv() => server.reload(),
        }
    }
}
