//! The server's flags. Each is also an environment variable.

use clap::Parser;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Runs the Glimpse database server.
#[derive(Clone, Debug, Parser)]
#[command(name = "environmentd", version, about)]
pub struct Config {
    /// Where tables, catalog and time are kept
    #[arg(long, env = "GLIMPSE_DATA_DIR", default_value = "./mzdata")]
    pub data_dir: PathBuf,
    /// SQL for users
    #[arg(long, env = "GLIMPSE_SQL_LISTEN_ADDR", default_value = "127.0.0.1:6875")]
    pub sql_listen_addr: SocketAddr,
    /// SQL for the trusted user mz_system
    #[arg(long, env = "GLIMPSE_INTERNAL_SQL_LISTEN_ADDR", default_value = "127.0.0.1:6877")]
    pub internal_sql_listen_addr: SocketAddr,
    /// HTTP: health
    #[arg(long, env = "GLIMPSE_HTTP_LISTEN_ADDR", default_value = "127.0.0.1:6876")]
    pub http_listen_addr: SocketAddr,
    /// HTTP for operators: metrics, health, profiles
    #[arg(long, env = "GLIMPSE_INTERNAL_HTTP_LISTEN_ADDR", default_value = "127.0.0.1:6878")]
    pub internal_http_listen_addr: SocketAddr,
    /// The default of a system parameter, as NAME=VALUE; may be given several times
    #[arg(long = "system-parameter-default", env = "GLIMPSE_SYSTEM_PARAMETER_DEFAULT", value_name = "NAME=VALUE",
          value_parser = parse_pair, value_delimiter = ';')]
    pub system_parameter_defaults: Vec<(String, String)>,
    /// The certificate that clients see, and behind it those that lead to one they know; PEM
    #[arg(long, env = "GLIMPSE_TLS_CERT", requires = "tls_key", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key; PEM
    #[arg(long, env = "GLIMPSE_TLS_KEY", requires = "tls_cert", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Who may come from where and what they have to show, in the syntax of pg_hba.conf; without it, this machine is trusted
    /// and nobody else is let in
    #[arg(long, env = "GLIMPSE_HBA_FILE", value_name = "FILE")]
    pub hba_file: Option<PathBuf>,
    /// How long a client may take to introduce itself, in milliseconds
    #[arg(long, env = "GLIMPSE_HANDSHAKE_TIMEOUT", default_value = "30000", value_name = "MS", value_parser = parse_ms)]
    pub handshake_timeout: Duration,
    /// The largest message that a client may send, in bytes
    #[arg(long, env = "GLIMPSE_REQUEST_BYTES_MAX", default_value_t = 256 << 20, value_name = "BYTES")]
    pub request_bytes_max: usize,
    /// Threads that serve connections; one per core if 0
    #[arg(long, env = "GLIMPSE_IO_THREADS", default_value_t = 0)]
    pub io_threads: usize,
    /// Threads that run ad hoc queries; one per core if 0
    #[arg(long, env = "GLIMPSE_ADHOC_THREADS", default_value_t = 0)]
    pub adhoc_threads: usize,
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("{text} is not NAME=VALUE"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn parse_ms(text: &str) -> Result<Duration, String> {
    let text = text.strip_suffix("ms").unwrap_or(text);
    match text.strip_suffix('s') {
        Some(seconds) => seconds.trim().parse().map(Duration::from_secs),
        None => text.trim().parse().map(Duration::from_millis),
    }
    .map_err(|_| format!("{text} is not a number of milliseconds"))
}
