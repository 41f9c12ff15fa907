//! Isolation levels: their names, ours and the SQL standard's.

/// Isolation levels. As in PostgreSQL, READ UNCOMMITTED is READ COMMITTED; the others are strict serializable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the variants are the levels' own names")]
pub enum IsolationLevel {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
    StrictSerializable,
}

impl IsolationLevel {
    /// As SHOW transaction_isolation prints it.
    pub fn as_str(self) -> &'static str {
        match self {
            IsolationLevel::ReadUncommitted => "read uncommitted",
            IsolationLevel::ReadCommitted => "read committed",
            IsolationLevel::RepeatableRead => "repeatable read",
            IsolationLevel::Serializable => "serializable",
            IsolationLevel::StrictSerializable => "strict serializable",
        }
    }

    /// Whether each statement of a transaction reads at a time of its own.
    pub fn reads_committed(self) -> bool {
        matches!(self, IsolationLevel::ReadUncommitted | IsolationLevel::ReadCommitted)
    }

    /// As the standard's SHOW TRANSACTION ISOLATION LEVEL prints it, whose readers know the standard's levels only: the strict
    /// one is at least as strong as any of them.
    pub fn standard(self) -> &'static str {
        match self {
            IsolationLevel::StrictSerializable => IsolationLevel::Serializable.as_str(),
            level => level.as_str(),
        }
    }

    /// Reads what [`IsolationLevel::as_str`] prints, in any case.
    pub fn from_name(name: &str) -> Option<IsolationLevel> {
        [
            IsolationLevel::ReadUncommitted,
            IsolationLevel::ReadCommitted,
            IsolationLevel::RepeatableRead,
            IsolationLevel::Serializable,
            IsolationLevel::StrictSerializable,
        ]
        .into_iter()
        .find(|level| level.as_str().eq_ignore_ascii_case(name.trim()))
    }
}
