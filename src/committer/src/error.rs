//! What can go wrong with a write, a change of the catalog, and what sessions do besides: what they all stand on.

use catalog::error::CatalogError;
use compute_client::error::ComputeError;
use engine::error::SqlError;
use persist::PersistError;
use pgrepr::error::PgReprError;
use repr::row::RowError;
use repr::sqlstate::SqlState;
use repr::subject::Subject;
use std::sync::Arc;
use timestamp_oracle::OracleError;

/// An error with everything that a client is told of it. Two words long: hardly ever is a result one.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
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
    /// Raised here.
    #[error(transparent)]
    Raised(Box<Raised>),
}

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Raised {
    sqlstate: SqlState,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
    /// Where it happened, as COPY reports it.
    context: Option<String>,
    subject: Option<Subject>,
}

impl CommitError {
    /// An error of this crate.
    pub fn new(sqlstate: SqlState, message: impl Into<String>) -> CommitError {
        Raised::new(sqlstate, message.into()).into()
    }

    /// A violated constraint, with DETAIL if rows may be shown.
    pub fn violation(sqlstate: SqlState, message: String, detail: Option<String>, subject: Subject) -> CommitError {
        Raised { detail, subject: Some(subject), ..Raised::new(sqlstate, message) }.into()
    }

    /// An error of this crate with DETAIL.
    pub fn with_detail(sqlstate: SqlState, message: impl Into<String>, detail: impl Into<String>) -> CommitError {
        Raised { detail: Some(detail.into()), ..Raised::new(sqlstate, message.into()) }.into()
    }

    /// An error of this crate with a HINT.
    pub fn with_hint(sqlstate: SqlState, message: impl Into<String>, hint: impl Into<String>) -> CommitError {
        Raised { hint: Some(hint.into()), ..Raised::new(sqlstate, message.into()) }.into()
    }

    /// A bug of ours.
    pub fn internal(message: impl Into<String>) -> CommitError {
        CommitError::new(SqlState::INTERNAL_ERROR, message)
    }

    /// Adds where it happened.
    pub fn in_context(self, context: String) -> CommitError {
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
            CommitError::Sql(error) => error.sqlstate,
            CommitError::Value(error) => error.sqlstate(),
            CommitError::Catalog(error) => error.sqlstate(),
            CommitError::Compute(error) => error.sqlstate(),
            CommitError::Persist(error) => error.sqlstate(),
            CommitError::Row(_) => SqlState::INTERNAL_ERROR,
            CommitError::Raised(raised) => raised.sqlstate,
        }
    }

    /// DETAIL.
    pub fn detail(&self) -> Option<String> {
        match self {
            CommitError::Sql(error) => error.detail.clone(),
            CommitError::Value(error) => error.detail().map(str::to_owned),
            CommitError::Catalog(error) => error.detail(),
            CommitError::Raised(raised) => raised.detail.clone(),
            _ => None,
        }
    }

    /// HINT.
    pub fn hint(&self) -> Option<String> {
        match self {
            CommitError::Sql(error) => error.hint.clone(),
            CommitError::Value(error) => error.hint().map(str::to_owned),
            CommitError::Catalog(error) => error.hint(),
            CommitError::Raised(raised) => raised.hint.clone(),
            _ => None,
        }
    }

    /// CONTEXT.
    pub fn context(&self) -> Option<String> {
        match self {
            CommitError::Raised(raised) => raised.context.clone(),
            _ => None,
        }
    }

    /// What of a table it is about.
    pub fn subject(&self) -> Option<&Subject> {
        match self {
            CommitError::Raised(raised) => raised.subject.as_ref(),
            _ => None,
        }
    }
}

impl Raised {
    fn new(sqlstate: SqlState, message: String) -> Raised {
        Raised { sqlstate, message, detail: None, hint: None, context: None, subject: None }
    }
}

impl From<Raised> for CommitError {
    fn from(raised: Raised) -> CommitError {
        CommitError::Raised(Box::new(raised))
    }
}

impl From<SqlError> for CommitError {
    fn from(error: SqlError) -> CommitError {
        CommitError::Sql(Box::new(error))
    }
}

impl From<PgReprError> for CommitError {
    fn from(error: PgReprError) -> CommitError {
        CommitError::Value(Box::new(error))
    }
}

impl From<CatalogError> for CommitError {
    fn from(error: CatalogError) -> CommitError {
        CommitError::Catalog(Box::new(error))
    }
}

impl From<ComputeError> for CommitError {
    fn from(error: ComputeError) -> CommitError {
        CommitError::Compute(Box::new(error))
    }
}

impl From<RowError> for CommitError {
    fn from(error: RowError) -> CommitError {
        CommitError::Row(Box::new(error))
    }
}

impl From<PersistError> for CommitError {
    fn from(error: PersistError) -> CommitError {
        CommitError::Persist(Arc::new(error))
    }
}

impl From<OracleError> for CommitError {
    fn from(error: OracleError) -> CommitError {
        Raised { hint: error.hint().map(str::to_owned), ..Raised::new(error.sqlstate(), error.to_string()) }.into()
    }
}
