//! Everything that can end a statement, as a client sees it.

use catalog::error::CatalogError;
use compute_client::error::ComputeError;
use persist::PersistError;
use pgrepr::error::PgReprError;
use repr::row::RowError;
use repr::sqlstate::SqlState;
use sql::error::SqlError;
use std::sync::Arc;
use timestamp_oracle::OracleError;

/// An error with everything that goes into an ErrorResponse.
///
/// Two words long: every verb of a session hands back a result, and hardly ever is it an error.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// From the parser, planner or expression engine.
    #[error(transparent)]
    Sql(Box<SqlError>),
    /// From reading or printing a value.
    #[error(transparent)]
    Value(Box<PgReprError>),
    /// From the catalog's own checks.
    #[error(transparent)]
    Catalog(Box<CatalogError>),
    /// From an index.
    #[error(transparent)]
    Compute(Box<ComputeError>),
    /// From durable storage.
    #[error("{0}")]
    Persist(Arc<PersistError>),
    /// From a value that does not fit its column: only a bug of ours.
    #[error(transparent)]
    Row(Box<RowError>),
    /// A prepared statement's columns are others now. Drivers that know it by its routine prepare it again.
    #[error("cached plan must not change result type")]
    ResultChanged,
    /// The statement is not known to be short, and nothing of it has happened: [`crate::seat::Seat::elsewhere`] does it.
    #[error("the statement has to run elsewhere")]
    Elsewhere,
    /// Raised here.
    #[error(transparent)]
    Raised(Box<Raised>),
}

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Raised {
    sqlstate: SqlState,
    pub(crate) message: String,
    detail: Option<String>,
    hint: Option<String>,
    /// Where it happened, as COPY reports it.
    context: Option<String>,
    subject: Option<Subject>,
}

/// What of a table an error is about. Clients tell by it which constraint was violated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The table's schema.
    pub schema: String,
    /// The table.
    pub table: String,
    /// The column or constraint.
    pub part: Part,
    /// Which of the rows that the statement adds, if one does not fit: COPY knows the line that it was in.
    pub row: Option<usize>,
}

/// A part of a table, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A column that is NOT NULL.
    Column(String),
    /// A PRIMARY KEY, UNIQUE or CHECK constraint.
    Constraint(String),
}

impl AdapterError {
    /// An error of this crate.
    pub fn new(sqlstate: SqlState, message: impl Into<String>) -> AdapterError {
        Raised::new(sqlstate, message.into()).into()
    }

    /// A violated constraint, with DETAIL if rows may be shown.
    pub(crate) fn violation(
        sqlstate: SqlState,
        message: String,
        detail: Option<String>,
        subject: Subject,
    ) -> AdapterError {
        Raised { detail, subject: Some(subject), ..Raised::new(sqlstate, message) }.into()
    }

    /// An error of this crate with DETAIL.
    pub fn with_detail(sqlstate: SqlState, message: impl Into<String>, detail: impl Into<String>) -> AdapterError {
        Raised { detail: Some(detail.into()), ..Raised::new(sqlstate, message.into()) }.into()
    }

    /// An error of this crate with a HINT.
    pub fn with_hint(sqlstate: SqlState, message: impl Into<String>, hint: impl Into<String>) -> AdapterError {
        Raised { hint: Some(hint.into()), ..Raised::new(sqlstate, message.into()) }.into()
    }

    /// A bug of ours.
    pub fn internal(message: impl Into<String>) -> AdapterError {
        AdapterError::new(SqlState::INTERNAL_ERROR, message)
    }

    /// What the client asked for by CancelRequest.
    pub fn canceled() -> AdapterError {
        AdapterError::new(SqlState::QUERY_CANCELED, "canceling statement due to user request")
    }

    /// Adds where it happened.
    pub fn in_context(self, context: String) -> AdapterError {
        let raised = Raised {
            sqlstate: self.sqlstate(),
            message: self.to_string(),
            detail: self.detail(),
            hint: self.hint(),
            context: Some(context),
            subject: self.subject().cloned(),
        };
        raised.into()
    }

    /// The SQLSTATE.
    pub fn sqlstate(&self) -> SqlState {
        match self {
            AdapterError::Sql(error) => error.sqlstate,
            AdapterError::Value(error) => error.sqlstate(),
            AdapterError::Catalog(error) => error.sqlstate(),
            AdapterError::Compute(error) => error.sqlstate(),
            AdapterError::Persist(error) => error.sqlstate(),
            AdapterError::Row(_) => SqlState::INTERNAL_ERROR,
            AdapterError::ResultChanged => SqlState::FEATURE_NOT_SUPPORTED,
            AdapterError::Elsewhere => SqlState::INTERNAL_ERROR,
            AdapterError::Raised(raised) => raised.sqlstate,
        }
    }

    /// DETAIL.
    pub fn detail(&self) -> Option<String> {
        match self {
            AdapterError::Sql(error) => error.detail.clone(),
            AdapterError::Value(error) => error.detail().map(str::to_owned),
            AdapterError::Catalog(error) => error.detail(),
            AdapterError::Raised(raised) => raised.detail.clone(),
            _ => None,
        }
    }

    /// HINT.
    pub fn hint(&self) -> Option<String> {
        match self {
            AdapterError::Sql(error) => error.hint.clone(),
            AdapterError::Value(error) => error.hint().map(str::to_owned),
            AdapterError::Catalog(error) => error.hint(),
            AdapterError::Raised(raised) => raised.hint.clone(),
            _ => None,
        }
    }

    /// With the place in the text of the statement, if planning knows it.
    pub(crate) fn locate(self, text: &str) -> AdapterError {
        match self {
            AdapterError::Sql(error) => error.locate(text).into(),
            other => other,
        }
    }

    /// The 1-based character of the statement at which the error is.
    pub fn position(&self) -> Option<usize> {
        match self {
            AdapterError::Sql(error) => error.position,
            _ => None,
        }
    }

    /// CONTEXT.
    pub fn context(&self) -> Option<String> {
        match self {
            AdapterError::Raised(raised) => raised.context.clone(),
            _ => None,
        }
    }

    /// What of a table it is about.
    pub fn subject(&self) -> Option<&Subject> {
        match self {
            AdapterError::Raised(raised) => raised.subject.as_ref(),
            _ => None,
        }
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
}

impl Raised {
    fn new(sqlstate: SqlState, message: String) -> Raised {
        Raised { sqlstate, message, detail: None, hint: None, context: None, subject: None }
    }
}

impl From<Raised> for AdapterError {
    fn from(raised: Raised) -> AdapterError {
        AdapterError::Raised(Box::new(raised))
    }
}

impl From<SqlError> for AdapterError {
    fn from(error: SqlError) -> AdapterError {
        AdapterError::Sql(Box::new(error))
    }
}

impl From<PgReprError> for AdapterError {
    fn from(error: PgReprError) -> AdapterError {
        AdapterError::Value(Box::new(error))
    }
}

impl From<CatalogError> for AdapterError {
    fn from(error: CatalogError) -> AdapterError {
        AdapterError::Catalog(Box::new(error))
    }
}

impl From<ComputeError> for AdapterError {
    fn from(error: ComputeError) -> AdapterError {
        AdapterError::Compute(Box::new(error))
    }
}

impl From<RowError> for AdapterError {
    fn from(error: RowError) -> AdapterError {
        AdapterError::Row(Box::new(error))
    }
}

impl From<PersistError> for AdapterError {
    fn from(error: PersistError) -> AdapterError {
        AdapterError::Persist(Arc::new(error))
    }
}

impl From<OracleError> for AdapterError {
    fn from(error: OracleError) -> AdapterError {
        Raised { hint: error.hint().map(str::to_owned), ..Raised::new(error.sqlstate(), error.to_string()) }.into()
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

impl From<sql::plan::PlanNotice> for Notice {
    fn from(notice: sql::plan::PlanNotice) -> Notice {
        Notice {
            severity: "NOTICE",
            sqlstate: notice.sqlstate,
            message: notice.message,
            detail: notice.detail,
            hint: None,
        }
    }
}
