//! The `environmentd` binary: flags, allocator, signals.

use anyhow::Context;
use clap::Parser;
use environmentd::Server;
use environmentd::config::Config;
use environmentd::logging::LogFilter;
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
    let Err(error) = run() else { return ExitCode::SUCCESS };
    // With all of its causes, in one line.
    let _unheard = writeln!(std::io::stderr(), "environmentd: {error:#}");
    ExitCode::FAILURE
}

fn run() -> anyhow::Result<()> {
    let config = Config::parse();
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
    anyhow::ensure!(!is_fenced, "another process has taken over");
    Ok(())
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
