//! `mz_recent_activity_log`: statements that were run, or are.
//!
//! Who keeps the history ([`Live::executions`](super::introspection::Live::executions)) keeps a sample of it, and of that what is
//! newest. Everybody sees what their own sessions have run and those of roles that they are members of; superusers see all.

use super::{Context, Producer, SystemRelation, maybe, mz_catalog, text, texts};
use crate::builtin::standard::may_see;
use arrow::array::RecordBatch;
use arrow::datatypes::i256;
use engine::error::SqlError;
use engine::names::RoleId;
use repr::Timestamp;
use repr::datum::Datum;
use sha2::{Digest, Sha256};
use sql::plan::CatalogView;
use sql::vars::definitions::MZ_VERSION;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// A statement that began. Times are microseconds since the epoch.
#[derive(Debug)]
pub struct Execution {
    /// Its own number, as a UUID.
    pub id: [u8; 16],
    /// Of how many statements, at the time, one was noted.
    pub sample_rate: f64,
    /// `pg_backend_pid()` of its session.
    pub session: u32,
    /// Who logged in.
    pub role: RoleId,
    /// What that role was called.
    pub user: String,
    /// What the client called itself at first, and then.
    pub application_names: [String; 2],
    /// When its session began.
    pub connected_us: i64,
    /// The cluster of its session.
    pub cluster: String,
    /// The database of its session.
    pub database: String,
    /// Where its session looks for names.
    pub search_path: Vec<String>,
    /// The isolation level.
    pub isolation: String,
    /// The values of its parameters, as text.
    pub params: Vec<Option<String>>,
    /// The name of its prepared statement; `None` if it was not prepared.
    pub prepared: Option<String>,
    /// Its text.
    pub sql: Arc<str>,
    /// What it is called in messages: `CREATE TABLE`.
    pub kind: &'static str,
    /// When it began.
    pub began_us: i64,
    /// How a query is answered, and as of when; not of everything.
    pub read: OnceLock<(Strategy, Timestamp)>,
    /// How it ended; nothing while it is being run.
    pub end: OnceLock<End>,
}

/// How a query is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Without any relation.
    Constant,
    /// From an index, where it is.
    FastPath,
    /// By the ad hoc engine.
    Standard,
}

/// How a statement ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// When.
    pub us: i64,
    /// How.
    pub outcome: Outcome,
}

/// What became of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did what it should; with how many rows, of how many bytes, if it returns rows.
    Success(Option<(u64, u64)>),
    /// It failed.
    Error(String),
    /// Somebody ended it, or its time was up.
    Canceled(String),
    /// Its session ended.
    Aborted,
}

impl Execution {
    /// About how much memory it takes.
    pub fn bytes(&self) -> usize {
        let params = self.params.iter().flatten().map(String::len).sum::<usize>();
        size_of::<Execution>() + self.sql.len() + params
    }
}

impl Strategy {
    fn name(self) -> &'static str {
        match self {
            Strategy::Constant => "constant",
            Strategy::FastPath => "fast-path",
            Strategy::Standard => "standard",
        }
    }
}

pub(super) fn producer(name: &str) -> Option<Producer> {
    (name == "mz_recent_activity_log").then_some(recent_activity_log as Producer)
}

#[expect(clippy::too_many_lines, reason = "a line for each column")]
fn recent_activity_log(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let row = |execution: &Arc<Execution>| {
        let [initial_application_name, application_name] = &execution.application_names;
        let cluster = context.catalog.cluster_by_name(&execution.cluster);
        let (read, end) = (execution.read.get(), execution.end.get());
        let (status, error, result) = match end.map(|end| &end.outcome) {
            None => (None, None, None),
            Some(Outcome::Success(result)) => (Some("success"), None, *result),
            Some(Outcome::Error(message)) => (Some("error"), Some(message), None),
            Some(Outcome::Canceled(message)) => (Some("canceled"), Some(message), None),
            Some(Outcome::Aborted) => (Some("aborted"), None, None),
        };
        let count = |count: u64| Datum::Int8(i64::try_from(count).unwrap_or(i64::MAX));
        let number = |number: u64| Datum::Numeric(i256::from_i128(number.into()), 0);
        let params = execution.params.iter().map(|param| maybe(param.as_ref(), text)).collect();
        [
            Datum::Bytes(Cow::Owned(execution.id.to_vec())),
            Datum::Float8(execution.sample_rate),
            maybe(cluster, |cluster| mz_catalog::cluster_id(cluster.id)),
            text(application_name),
            text(&execution.cluster),
            text(&execution.database),
            texts(execution.search_path.iter().cloned()),
            text(&execution.isolation),
            maybe(read, |(_, as_of)| number(*as_of)),
            Datum::List(params),
            text(MZ_VERSION),
            Datum::Timestamp(execution.began_us),
            maybe(end, |end| Datum::Timestamp(end.us)),
            maybe(status, text),
            maybe(error, text),
            maybe(result, |(_, bytes)| count(bytes)),
            maybe(result, |(rows, _)| count(rows)),
            maybe(read, |(strategy, _)| text(strategy.name())),
            Datum::Bytes(Cow::Owned(Sha256::digest(execution.sql.as_bytes()).to_vec())),
            maybe(execution.prepared.as_ref(), text),
            text(execution.session.to_string()),
            text(execution.kind.to_lowercase().replace(' ', "_")),
            number(0),
            Datum::Timestamp(execution.connected_us),
            text(initial_application_name),
            text(&execution.user),
            text(execution.sql.as_ref()),
        ]
    };
    let seen = context.live.executions();
    // Who has a token is one of many of one role, and what was run says no more than the role.
    let may_know = |role| context.session.claims.is_none() && may_see(context, role);
    let rows = seen.iter().filter(|execution| may_know(execution.role)).map(row).collect();
    relation.batch(
        [
            "execution_id",
            "sample_rate",
            "cluster_id",
            "application_name",
            "cluster_name",
            "database_name",
            "search_path",
            "transaction_isolation",
            "execution_timestamp",
            "params",
            "mz_version",
            "began_at",
            "finished_at",
            "finished_status",
            "error_message",
            "result_size",
            "rows_returned",
            "execution_strategy",
            "sql_hash",
            "prepared_statement_name",
            "session_id",
            "statement_type",
            "throttled_count",
            "connected_at",
            "initial_application_name",
            "authenticated_user",
            "sql",
        ],
        rows,
    )
}
