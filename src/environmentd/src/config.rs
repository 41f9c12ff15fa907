//! The server's flags. Each is also an environment variable.

use clap::Parser;
use door::token::ROLE_CLAIM;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use timestamp_oracle::shared::Reads;
use web::cube::CubeConfig;

/// Runs the Glimpse database server.
#[derive(Clone, Debug, Parser)]
#[command(name = "environmentd", version, about)]
pub struct Config {
    /// Where tables, catalog and time are kept
    #[arg(long, env = "GLIMPSE_DATA_DIR", default_value = "./mzdata")]
    pub data_dir: PathBuf,
    /// Reads the semantic model in a directory, says what is wrong with it, and exits: with 0 if nothing is, with 1 otherwise. Starts
    /// no server
    #[arg(long, value_name = "DIR")]
    pub check_model: Option<PathBuf>,
    /// A directory with a semantic model, whose cubes are in schema cubes of database materialize for as long as the directory says so; it is
    /// read again when it changes
    #[arg(long, env = "GLIMPSE_MODEL_DIR", value_name = "DIR")]
    pub model_dir: Option<PathBuf>,
    /// Start although the data directory is not what it is known to have been; what is missing is gone. For one start, after
    /// which what is there is what is known
    #[arg(long, env = "GLIMPSE_ACCEPT_LOSS")]
    pub accept_loss: bool,
    /// A PostgreSQL that keeps tables and catalog, as a postgres:// URL. Needs --timestamp-oracle-url
    #[arg(long, env = "GLIMPSE_PERSIST_CONSENSUS_URL", hide_env_values = true, value_name = "URL")]
    pub persist_consensus_url: Option<String>,
    /// Where the large batches are, beside --persist-consensus-url: s3://bucket/prefix or file:///directory; the data directory
    /// if there is none. Every process has to reach it that is to take over
    #[arg(long, env = "GLIMPSE_PERSIST_BLOB_URL", hide_env_values = true, value_name = "URL")]
    pub persist_blob_url: Option<String>,
    /// A PostgreSQL that keeps the time, as a postgres:// URL; the data directory does if there is none
    #[arg(long, env = "GLIMPSE_TIMESTAMP_ORACLE_URL", hide_env_values = true, value_name = "URL")]
    pub timestamp_oracle_url: Option<String>,
    /// The name of the timeline in that PostgreSQL; at any time one process owns it
    #[arg(long, env = "GLIMPSE_TIMESTAMP_ORACLE_TIMELINE", default_value = "main", value_name = "NAME")]
    pub timestamp_oracle_timeline: String,
    /// How long the owner of the timeline may trust that it still is, in milliseconds; a successor waits as long
    #[arg(long, env = "GLIMPSE_TIMESTAMP_ORACLE_LEASE", default_value = "5000", value_name = "MS", value_parser = parse_ms)]
    pub timestamp_oracle_lease: Duration,
    /// Where a read takes its timestamp from: the process's memory while its lease holds, or always the store
    #[arg(long, env = "GLIMPSE_TIMESTAMP_ORACLE_READS", default_value = "lease")]
    pub timestamp_oracle_reads: OracleReads,
    /// Calls for read timestamps that may be under way to the store at a time
    #[arg(long, env = "MZ_TS_ORACLE_MAX_IN_FLIGHT_READ_TS_BATCHES", default_value_t = 3, value_name = "N")]
    pub timestamp_oracle_in_flight_max: usize,
    /// Take over from a process that owns the stores and lives; its sessions end
    #[arg(long, env = "GLIMPSE_TAKEOVER")]
    pub takeover: bool,
    /// How long to wait at start for a store that does not answer, in milliseconds
    #[arg(long, env = "GLIMPSE_STORE_PATIENCE", default_value = "60000", value_name = "MS", value_parser = parse_ms)]
    pub store_patience: Duration,
    /// How long a store may take to answer before it is asked again, in milliseconds
    #[arg(long, env = "GLIMPSE_STORE_TIMEOUT", default_value = "5000", value_name = "MS", value_parser = parse_ms)]
    pub store_timeout: Duration,
    /// SQL for users
    #[arg(long, env = "GLIMPSE_SQL_LISTEN_ADDR", default_value = "127.0.0.1:6875")]
    pub sql_listen_addr: SocketAddr,
    /// SQL for the trusted user mz_system
    #[arg(long, env = "GLIMPSE_INTERNAL_SQL_LISTEN_ADDR", default_value = "127.0.0.1:6877")]
    pub internal_sql_listen_addr: SocketAddr,
    /// HTTP for users: SQL, health
    #[arg(long, env = "GLIMPSE_HTTP_LISTEN_ADDR", default_value = "127.0.0.1:6876")]
    pub http_listen_addr: SocketAddr,
    /// HTTP for operators: metrics, health, profiles, SQL for the trusted user mz_system
    #[arg(long, env = "GLIMPSE_INTERNAL_HTTP_LISTEN_ADDR", default_value = "127.0.0.1:6878")]
    pub internal_http_listen_addr: SocketAddr,
    /// Arrow Flight SQL
    #[arg(long, env = "GLIMPSE_FLIGHT_LISTEN_ADDR", default_value = "127.0.0.1:6879")]
    pub flight_listen_addr: SocketAddr,
    /// An origin (https://example.com) whose pages may send HTTP requests; may be given several times
    #[arg(long = "http-allowed-origin", env = "GLIMPSE_HTTP_ALLOWED_ORIGINS", value_name = "ORIGIN", value_delimiter = ';',
          value_parser = parse_origin)]
    pub http_allowed_origins: Vec<String>,
    /// HTTP requests of one address that may be under way at a time, and as many calls of Flight; any number if 0
    #[arg(long, env = "GLIMPSE_HTTP_REQUESTS_PER_ADDRESS", default_value_t = 4096, value_name = "N")]
    pub http_requests_per_address: usize,
    /// How long what was told to a reader of events is kept after the reader has gone, for one that goes on there
    #[arg(long, env = "GLIMPSE_HTTP_SUBSCRIBE_HISTORY", default_value = "60s", value_parser = parse_ms)]
    pub http_subscribe_history: Duration,
    /// The default of a system parameter, as NAME=VALUE; may be given several times
    #[arg(long = "system-parameter-default", env = "GLIMPSE_SYSTEM_PARAMETER_DEFAULT", value_name = "NAME=VALUE",
          value_parser = parse_pair, value_delimiter = ';')]
    pub system_parameter_defaults: Vec<(String, String)>,
    /// Rows that Cube's API answers in JSON to who does not say how many
    #[arg(long, env = "GLIMPSE_CUBE_DEFAULT_LIMIT", default_value_t = CubeConfig::default().default_limit, value_name = "ROWS")]
    pub cube_default_limit: u64,
    /// The most rows that may be asked for there; Arrow and SQL have no limit
    #[arg(long, env = "GLIMPSE_CUBE_LIMIT_MAX", default_value_t = CubeConfig::default().limit_max, value_name = "ROWS")]
    pub cube_limit_max: u64,
    /// Queries that may be followed by Cube's API at once
    #[arg(long, env = "GLIMPSE_CUBE_SUBSCRIPTIONS_MAX", default_value_t = CubeConfig::default().followed_max, value_name = "NUMBER")]
    pub cube_subscriptions_max: usize,
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
    /// The secret of bearer tokens that are signed by HS256: a file with at least 32 bytes
    #[arg(long, env = "GLIMPSE_JWT_SECRET_FILE", value_name = "FILE")]
    pub jwt_secret_file: Option<PathBuf>,
    /// The public keys of bearer tokens that are signed by RS256 or ES256: a file with a JSON Web Key Set
    #[arg(long, env = "GLIMPSE_JWT_JWKS_FILE", value_name = "FILE")]
    pub jwt_jwks_file: Option<PathBuf>,
    /// Who has to have made a bearer token: its claim iss
    #[arg(long, env = "GLIMPSE_JWT_ISSUER", value_name = "TEXT")]
    pub jwt_issuer: Option<String>,
    /// For whom a bearer token has to be: its claim aud; without it, one that is for somebody is refused
    #[arg(long, env = "GLIMPSE_JWT_AUDIENCE", value_name = "TEXT")]
    pub jwt_audience: Option<String>,
    /// The claim of a bearer token that names the role
    #[arg(long, env = "GLIMPSE_JWT_ROLE_CLAIM", value_name = "NAME", default_value = ROLE_CLAIM)]
    pub jwt_role_claim: String,
    /// The role of bearer tokens that name none; without it, they are refused
    #[arg(long, env = "GLIMPSE_JWT_DEFAULT_ROLE", value_name = "ROLE")]
    pub jwt_default_role: Option<String>,
    /// How long a client may take to introduce itself, in milliseconds
    #[arg(long, env = "GLIMPSE_HANDSHAKE_TIMEOUT", default_value = "30000", value_name = "MS", value_parser = parse_ms)]
    pub handshake_timeout: Duration,
    /// The largest message that a client may send, in bytes
    #[arg(long, env = "GLIMPSE_REQUEST_BYTES_MAX", default_value_t = 256 << 20, value_name = "BYTES")]
    pub request_bytes_max: usize,
    /// How far back reads may go, in milliseconds; a transaction keeps its own time for as long as it lasts
    #[arg(long, env = "GLIMPSE_RETAIN_HISTORY", default_value = "1000", value_name = "MS", value_parser = parse_ms)]
    pub retain_history: Duration,
    /// Threads that serve connections; one per core if 0
    #[arg(long, env = "GLIMPSE_IO_THREADS", default_value_t = 0)]
    pub io_threads: usize,
    /// Threads that run ad hoc queries; one per core if 0
    #[arg(long, env = "GLIMPSE_ADHOC_THREADS", default_value_t = 0)]
    pub adhoc_threads: usize,
    /// Ad hoc statements that compute at once, while others wait for their turn; two per core if 0
    #[arg(long, env = "GLIMPSE_ADHOC_STATEMENTS", default_value_t = 0)]
    pub adhoc_statements: usize,
    /// Memory that the server may use, in MiB; four fifths of what this machine or container has if 0
    #[arg(long, env = "GLIMPSE_MEMORY_LIMIT", default_value_t = 0, value_name = "MIB")]
    pub memory_limit: usize,
    /// Memory that ad hoc queries may use of it together, in MiB; five eighths of it if 0
    #[arg(long, env = "GLIMPSE_ADHOC_MEMORY", default_value_t = 0, value_name = "MIB")]
    pub adhoc_memory: usize,
    /// The part of the disk below the data directory that ad hoc queries leave free when they put aside what does not fit in memory, in
    /// percent; 100 if nothing is to be put aside
    #[arg(long, env = "GLIMPSE_SPILL_RESERVE", default_value_t = 10, value_name = "PERCENT",
          value_parser = clap::value_parser!(u8).range(0..=100))]
    pub spill_reserve: u8,
    /// Memory that indexes and views may use of it together, in MiB; three quarters of it if 0
    #[arg(long, env = "GLIMPSE_MAINTAINED_MEMORY", default_value_t = 0, value_name = "MIB")]
    pub maintained_memory: usize,
}

/// Where a read takes its timestamp from.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum OracleReads {
    /// From memory while the lease holds, else from the store.
    Lease,
    /// From the store.
    Store,
}

impl From<OracleReads> for Reads {
    fn from(reads: OracleReads) -> Reads {
        match reads {
            OracleReads::Lease => Reads::UnderLease,
            OracleReads::Store => Reads::FromStore,
        }
    }
}

fn parse_origin(text: &str) -> Result<String, String> {
    let is_origin = ["http://", "https://"].iter().any(|scheme| {
        let host = text.strip_prefix(scheme).unwrap_or_default();
        !host.is_empty() && !host.contains(['/', '*', '?', '#', '@'])
    });
    if is_origin {
        Ok(text.to_owned())
    } else {
        Err(format!("{text} is not like https://example.com or http://localhost:8080"))
    }
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
