//! The table of configuration parameters.
//!
//! Names, defaults, units and descriptions follow Postgres where Postgres has the parameter, and Materialize where it has.

use pgrepr::options::IntervalStyle;

/// What values a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// on or off.
    Bool,
    /// An integer with its range.
    Int(i64, i64),
    /// Milliseconds, written with or without a unit; 0 means never.
    Milliseconds,
    /// Bytes, written with a unit or as plain bytes.
    Bytes,
    /// A number with its range.
    Real(f64, f64),
    /// Any text.
    Text,
    /// Any text, which is cut where an identifier would be.
    Name,
    /// A cluster, database or schema: any text, written as an identifier or a string.
    Identifier,
    /// A list of identifiers.
    Identifiers,
    /// One of these words, in any case.
    Enum(&'static [&'static str]),
    /// One of these and nothing else: the others exist in Postgres and are refused here by name.
    Only(&'static [&'static str]),
    /// A time zone.
    TimeZone,
    /// ISO with month before day.
    DateStyle,
    /// UTF-8 under any of its names.
    Encoding,
    /// An isolation level.
    Isolation,
    /// Cannot be set.
    Fixed,
}

/// Whose parameter it is, and what it affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Of a session, and read by planning.
    Planning,
    /// Of a session.
    Session,
    /// Of the server: ALTER SYSTEM only.
    System,
}

/// One parameter.
#[derive(Debug, PartialEq)]
pub struct Definition {
    /// Its name as SHOW and ParameterStatus print it.
    pub name: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// Its default, in canonical form.
    pub default: &'static str,
    /// Session or system.
    pub level: Level,
    /// Whether clients are told its value.
    pub report: bool,
    /// Whether SHOW ALL leaves it out.
    pub hidden: bool,
    /// For SHOW ALL and pg_settings.
    pub description: &'static str,
}

impl Definition {
    /// Whether nobody can set it.
    pub fn read_only(&self) -> bool {
        self.kind == Kind::Fixed
    }

    const fn new(name: &'static str, kind: Kind, default: &'static str, description: &'static str) -> Definition {
        Definition { name, kind, default, level: Level::Session, report: false, hidden: false, description }
    }

    const fn system(name: &'static str, kind: Kind, default: &'static str, description: &'static str) -> Definition {
        Definition { name, kind, default, level: Level::System, report: false, hidden: false, description }
    }

    const fn reported(mut self) -> Definition {
        self.report = true;
        self
    }

    const fn planning(mut self) -> Definition {
        self.level = Level::Planning;
        self
    }

    const fn hidden(mut self) -> Definition {
        self.hidden = true;
        self
    }
}

/// The version of Postgres whose protocol and SQL we follow, as clients parse it.
pub const SERVER_VERSION: &str = "15.0";
/// The same as a number.
pub const SERVER_VERSION_NUM: &str = "150000";
/// Our own version, as `mz_version` reports it; dbt and others require the parameter, and its form.
pub const MZ_VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"), " (glimpse)");

const MESSAGE_LEVELS: Kind =
    Kind::Enum(&["debug5", "debug4", "debug3", "debug2", "debug1", "debug", "log", "notice", "warning", "error"]);

/// The parameters of a session.
pub static SESSION_VARS: &[Definition] = &[
    Definition::new(
        "application_name",
        Kind::Name,
        "",
        "Sets the application name to be reported in statistics and logs.",
    )
    .reported(),
    Definition::new("bytea_output", Kind::Enum(&["escape", "hex"]), "hex", "Sets the output format for bytea.")
        .planning(),
    Definition::new("check_function_bodies", Kind::Bool, "on", "Check routine bodies at creation; there are none."),
    Definition::new("client_encoding", Kind::Encoding, "UTF8", "Sets the client's character set encoding.").reported(),
    Definition::new(
        "client_min_messages",
        MESSAGE_LEVELS,
        "notice",
        "Sets the message levels that are sent to the client.",
    ),
    Definition::new("cluster", Kind::Identifier, "quickstart", "Sets the cluster that runs queries.").planning(),
    Definition::new("database", Kind::Identifier, "materialize", "Sets the current database.").planning(),
    Definition::new("DateStyle", Kind::DateStyle, "ISO, MDY", "Sets the display format for date and time values.")
        .reported()
        .planning(),
    Definition::new(
        "default_table_access_method",
        Kind::Only(&["heap"]),
        "heap",
        "Sets the default table access method.",
    ),
    Definition::new(
        "default_tablespace",
        Kind::Only(&[""]),
        "",
        "Sets the default tablespace to create tables and indexes in.",
    ),
    Definition::new(
        "default_transaction_deferrable",
        Kind::Bool,
        "off",
        "Sets the default deferrable status of new transactions.",
    ),
    Definition::new(
        "default_transaction_isolation",
        Kind::Isolation,
        "strict serializable",
        "Sets the isolation level of new transactions.",
    ),
    Definition::new(
        "default_transaction_read_only",
        Kind::Bool,
        "off",
        "Sets the default read-only status of new transactions.",
    )
    .reported(),
    Definition::new(
        "escape_string_warning",
        Kind::Bool,
        "on",
        "Warn about backslash escapes in ordinary string literals.",
    ),
    Definition::new(
        "extra_float_digits",
        Kind::Int(-15, 3),
        "1",
        "Sets the number of digits displayed for floating-point values.",
    )
    .planning(),
    Definition::new(
        "idle_in_transaction_session_timeout",
        Kind::Milliseconds,
        "0",
        "Sets the maximum allowed idle time between queries, when in a transaction.",
    ),
    Definition::new(
        "idle_session_timeout",
        Kind::Milliseconds,
        "0",
        "Sets the maximum allowed idle time between queries, when not in a transaction.",
    ),
    Definition::new("in_hot_standby", Kind::Fixed, "off", "Shows whether hot standby is currently active.").reported(),
    Definition::new("integer_datetimes", Kind::Fixed, "on", "Shows whether datetimes are integer based.").reported(),
    Definition::new(
        "IntervalStyle",
        Kind::Enum(IntervalStyle::NAMES),
        "postgres",
        "Sets the display format for interval values.",
    )
    .reported()
    .planning(),
    Definition::new("is_superuser", Kind::Fixed, "off", "Shows whether the current user is a superuser.")
        .reported()
        .hidden(),
    Definition::new("lc_collate", Kind::Fixed, "C", "Shows the collation order locale."),
    Definition::new("lc_ctype", Kind::Fixed, "C", "Shows the character classification and case conversion locale."),
    Definition::new(
        "lc_messages",
        Kind::Only(&["C", "en_US.UTF-8", ""]),
        "C",
        "Sets the language in which messages are displayed.",
    ),
    Definition::new(
        "lc_monetary",
        Kind::Only(&["C", "en_US.UTF-8", ""]),
        "C",
        "Sets the locale for formatting monetary amounts.",
    ),
    Definition::new(
        "lc_numeric",
        Kind::Only(&["C", "en_US.UTF-8", ""]),
        "C",
        "Sets the locale for formatting numbers.",
    ),
    Definition::new(
        "lc_time",
        Kind::Only(&["C", "en_US.UTF-8", ""]),
        "C",
        "Sets the locale for formatting date and time values.",
    ),
    Definition::new(
        "lock_timeout",
        Kind::Milliseconds,
        "0",
        "Sets the maximum allowed duration of any wait for an advisory lock.",
    ),
    Definition::new("max_identifier_length", Kind::Fixed, "63", "Shows the maximum identifier length."),
    Definition::new("max_index_keys", Kind::Fixed, "32", "Shows the maximum number of index keys."),
    Definition::new("mz_version", Kind::Fixed, MZ_VERSION, "Shows the version of this server.").reported(),
    Definition::new(
        "password_encryption",
        Kind::Only(&["scram-sha-256"]),
        "scram-sha-256",
        "Chooses the algorithm for encrypting passwords.",
    ),
    Definition::new(
        "quote_all_identifiers",
        Kind::Only(&["off"]),
        "off",
        "When generating SQL fragments, quote all identifiers.",
    ),
    Definition::new("role", Kind::Identifier, "none", "Sets the current role.").planning().hidden(),
    Definition::new("row_security", Kind::Only(&["on", "off"]), "on", "Enable row security; there are no policies."),
    Definition::new(
        "search_path",
        Kind::Identifiers,
        "public",
        "Sets the schema search order for names that are not schema-qualified.",
    )
    .planning(),
    Definition::new("server_encoding", Kind::Fixed, "UTF8", "Shows the server (database) character set encoding.")
        .reported(),
    Definition::new("server_version", Kind::Fixed, SERVER_VERSION, "Shows the server version.").reported(),
    Definition::new("server_version_num", Kind::Fixed, SERVER_VERSION_NUM, "Shows the server version as an integer."),
    Definition::new("session_authorization", Kind::Fixed, "", "Shows the session user name.").reported().hidden(),
    Definition::new(
        "standard_conforming_strings",
        Kind::Only(&["on"]),
        "on",
        "Causes '...' strings to treat backslashes literally.",
    )
    .reported(),
    Definition::new(
        "statement_logging_sample_rate",
        Kind::Real(0.0, 1.0),
        "0.01",
        "Sets the share of statements that mz_recent_activity_log has.",
    ),
    Definition::new(
        "statement_timeout",
        Kind::Milliseconds,
        "0",
        "Sets the maximum allowed duration of any statement.",
    ),
    Definition::new(
        "subscribe_history",
        Kind::Milliseconds,
        "0",
        "Sets how long what a SUBSCRIBE has told is kept after it broke off, for one that goes on from there.",
    ),
    Definition::new(
        "synchronous_commit",
        Kind::Enum(&["on", "off", "local", "remote_write", "remote_apply"]),
        "on",
        "Sets the current transaction's synchronization level; every commit is durable whatever it is.",
    ),
    Definition::new(
        "TimeZone",
        Kind::TimeZone,
        "UTC",
        "Sets the time zone for displaying and interpreting time stamps.",
    )
    .reported()
    .planning(),
    Definition::new(
        "transaction_deferrable",
        Kind::Bool,
        "off",
        "Whether to defer a read-only serializable transaction.",
    )
    .hidden(),
    Definition::new(
        "transaction_isolation",
        Kind::Isolation,
        "strict serializable",
        "Sets the current transaction's isolation level.",
    )
    .planning(),
    Definition::new("transaction_read_only", Kind::Bool, "off", "Sets the current transaction's read-only status."),
    Definition::new(
        "xmloption",
        Kind::Enum(&["content", "document"]),
        "content",
        "Sets whether XML data is to be considered as documents or content fragments; there is no XML.",
    ),
];

/// The parameters of the server.
pub static SYSTEM_VARS: &[Definition] = &[
    Definition::system(
        "enable_frontend_peek_sequencing",
        Kind::Bool,
        "on",
        "Answer reads that an index can serve on the connection's own thread.",
    ),
    Definition::system("log_filter", Kind::Text, "info", "Which log events are written, as tracing directives."),
    Definition::system(
        "max_connections",
        Kind::Int(1, 1_000_000),
        "5000",
        "Sets the maximum number of concurrent connections.",
    ),
    Definition::system(
        "max_result_size",
        Kind::Bytes,
        "1GB",
        "Sets the largest result of one query that is held in memory.",
    ),
    Definition::system("max_query_bytes", Kind::Bytes, "128MB", "Sets the largest request that is accepted."),
    Definition::system(
        "plan_cache_entries",
        Kind::Int(0, 10_000_000),
        "10000",
        "Sets how many plans the shared plan cache holds.",
    ),
    Definition::system(
        "statement_logging_default_sample_rate",
        Kind::Real(0.0, 1.0),
        "0.01",
        "Sets the share of statements that a session logs by default.",
    ),
    Definition::system(
        "statement_logging_max_sample_rate",
        Kind::Real(0.0, 1.0),
        "1",
        "Sets the largest share of statements that are logged.",
    ),
    Definition::system(
        "superuser_reserved_connections",
        Kind::Int(0, 262_143),
        "3",
        "Sets the number of connection slots reserved for superusers.",
    ),
    Definition::system(
        "log_min_duration_statement",
        Kind::Milliseconds,
        "0",
        "Sets the execution time above which statements are logged; 0 logs none.",
    ),
];

/// The session parameter called `name`, in any case, and its position.
pub fn find_session(name: &str) -> Option<(usize, &'static Definition)> {
    SESSION_VARS.iter().enumerate().find(|(_, definition)| definition.name.eq_ignore_ascii_case(name))
}

/// The parameter called `name`, in any case.
pub fn find(name: &str) -> Option<&'static Definition> {
    SESSION_VARS.iter().chain(SYSTEM_VARS).find(|definition| definition.name.eq_ignore_ascii_case(name))
}

/// The position of a session parameter that exists.
///
/// # Panics
/// When it does not: callers pass literals, and a test reads each.
pub(super) fn index_of(name: &str) -> usize {
    SESSION_VARS
        .iter()
        .position(|definition| definition.name == name)
        .expect("the parameter is in the table, as callers pass names from it")
}
