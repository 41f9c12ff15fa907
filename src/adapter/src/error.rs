//! Everything that can end a statement, as a client sees it.

use catalog::error::CatalogError;
use committer::error::CommitError;
use compute_client::error::ComputeError;
use engine::error::SqlError;
use ore::memory::Refused;
use persist::PersistError;
use pgrepr::error::PgReprError;
use repr::row::RowError;
use repr::sqlstate::SqlState;
use repr::subject::Subject;
use timestamp_oracle::OracleError;

/// An error with everything that goes into an ErrorResponse.
///
/// Two words long: every verb of a session hands back a result, and hardly ever is it an error.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// From what sessions stand on, or raised here.
    #[error(transparent)]
    Failed(CommitError),
    /// A prepared statement's columns are others now. Drivers that know it by its routine prepare it again.
    #[error("cached plan must not change result type")]
    ResultChanged,
    /// The catalog has changed since the statement was planned: it is planned again, if it can be.
    #[error("the catalog changed")]
    Stale,
    /// The statement is not known to be short, and nothing of it has happened: [`crate::seat::Seat::elsewhere`] does it.
    #[error("the statement has to run elsewhere")]
    Elsewhere,
}

impl AdapterError {
    /// An error of this crate.
    pub fn new(sqlstate: SqlState, message: impl Into<String>) -> AdapterError {
        CommitError::new(sqlstate, message).into()
    }

    /// An error of this crate with DETAIL.
    pub fn with_detail(sqlstate: SqlState, message: impl Into<String>, detail: impl Into<String>) -> AdapterError {
        CommitError::with_detail(sqlstate, message, detail).into()
    }

    /// An error of this crate with a HINT.
    pub fn with_hint(sqlstate: SqlState, message: impl Into<String>, hint: impl Into<String>) -> AdapterError {
        CommitError::with_hint(sqlstate, message, hint).into()
    }

    /// A bug of ours.
    pub fn internal(message: impl Into<String>) -> AdapterError {
        CommitError::internal(message).into()
    }

    /// What the client asked for by CancelRequest.
    pub fn canceled() -> AdapterError {
        AdapterError::new(SqlState::QUERY_CANCELED, "canceling statement due to user request")
    }

    /// Adds where it happened.
    pub fn in_context(self, context: String) -> AdapterError {
        match self {
            AdapterError::Failed(error) => error.in_context(context).into(),
            other => other,
        }
    }

    /// The SQLSTATE.
    pub fn sqlstate(&self) -> SqlState {
        match self {
            AdapterError::Failed(error) => error.sqlstate(),
            AdapterError::ResultChanged => SqlState::FEATURE_NOT_SUPPORTED,
            AdapterError::Stale => SqlState::SERIALIZATION_FAILURE,
            AdapterError::Elsewhere => SqlState::INTERNAL_ERROR,
        }
    }

    /// DETAIL.
    pub fn detail(&self) -> Option<String> {
        self.failed().and_then(CommitError::detail)
    }

    /// HINT.
    pub fn hint(&self) -> Option<String> {
        self.failed().and_then(CommitError::hint)
    }

    /// With the place in the text of the statement, if planning knows it.
    pub(crate) fn locate(self, text: &str) -> AdapterError {
        match self {
            AdapterError::Failed(CommitError::Sql(error)) => error.locate(text).into(),
            other => other,
        }
    }

    /// The 1-based character of the statement at which the error is.
    pub fn position(&self) -> Option<usize> {
        match self {
            AdapterError::Failed(CommitError::Sql(error)) => error.position,
            _ => None,
        }
    }

    /// CONTEXT.
    pub fn context(&self) -> Option<String> {
        self.failed().and_then(CommitError::context)
    }

    /// What of a table it is about.
    pub fn subject(&self) -> Option<&Subject> {
        self.failed().and_then(CommitError::subject)
    }

    /// PostgreSQL's name for the place in the source, where clients go by it.
    pub fn routine(&self) -> Option<&'static str> {
        match self {
            AdapterError::ResultChanged => Some("RevalidateCachedQuery"),
            _ => None,
        }
    }

    /// Whether the session ends with it.
    pub fn is_fatal(&self) -> bool {
        matches!(
            self.sqlstate(),
            SqlState::ADMIN_SHUTDOWN
                | SqlState::CANNOT_CONNECT_NOW
                | SqlState::TOO_MANY_CONNECTIONS
                | SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
                | SqlState::IDLE_SESSION_TIMEOUT
                | SqlState::INVALID_AUTHORIZATION_SPECIFICATION
        )
    }

    fn failed(&self) -> Option<&CommitError> {
        match self {
            AdapterError::Failed(error) => Some(error),
            AdapterError::ResultChanged | AdapterError::Stale | AdapterError::Elsewhere => None,
        }
    }
}

impl From<CommitError> for AdapterError {
    fn from(error: CommitError) -> AdapterError {
        AdapterError::Failed(error)
    }
}

impl From<SqlError> for AdapterError {
    fn from(error: SqlError) -> AdapterError {
        AdapterError::Failed(error.into())
    }
}

impl From<Refused> for AdapterError {
    fn from(refused: Refused) -> AdapterError {
        SqlError::from(refused).into()
    }
}

impl From<PgReprError> for AdapterError {
    fn from(error: PgReprError) -> AdapterError {
        AdapterError::Failed(error.into())
    }
}

impl From<CatalogError> for AdapterError {
    fn from(error: CatalogError) -> AdapterError {
        AdapterError::Failed(error.into())
    }
}

impl From<ComputeError> for AdapterError {
    fn from(error: ComputeError) -> AdapterError {
        AdapterError::Failed(error.into())
    }
}

impl From<RowError> for AdapterError {
    fn from(error: RowError) -> AdapterError {
        AdapterError::Failed(error.into())
    }
}

impl From<PersistError> for AdapterError {
    fn from(error: PersistError) -> AdapterError {
        AdapterError::Failed(error.into())
    }
}

impl From<OracleError> for AdapterError {
    fn from(error: OracleError) -> AdapterError {
        AdapterError::Failed(error.into())
    }
}

/// Something a client is told beside its answer.
#[derive(Clone, Debug)]
pub struct Notice {
    /// NOTICE, WARNING, ….
    pub severity: &'static str,
    /// The SQLSTATE.
    pub sqlstate: SqlState,
    /// The message.
    pub message: String,
    /// More about it.
    pub detail: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Notice {
    /// A warning.
    pub fn warning(sqlstate: SqlState, message: impl Into<String>) -> Notice {
        Notice { severity: "WARNING", sqlstate, message: message.into(), detail: None, hint: None }
    }

    /// Whether a client is told that wants to hear of `level` and what is more severe.
    pub(crate) fn reaches(&self, level: &str) -> bool {
        match level {
            "error" => false,
            "warning" => self.severity == "WARNING",
            _ => true,
        }
    }
}

impl From<engine::error::PlanNotice> for Notice {
    fn from(notice: engine::error::PlanNotice) -> Notice {
        Notice {
            severity: "NOTICE",
            sqlstate: notice.sqlstate,
            message: notice.message,
            detail: notice.detail,
            hint: None,
        }
    }
}
