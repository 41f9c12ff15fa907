//! Locks that a query asks for on the rows that it gives.

/// FOR UPDATE, FOR SHARE and their kin: the strongest, and the least patient, of all that a query says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowLocks {
    /// Whom the locks keep out.
    pub strength: RowStrength,
    /// What becomes of rows that others have locked.
    pub busy: Busy,
}

/// Whom a lock on a row keeps out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowStrength {
    /// FOR SHARE: who changes the row.
    Share,
    /// FOR UPDATE: whoever wants a lock.
    Update,
}

/// What becomes of a row that another transaction has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Busy {
    /// It is waited for.
    Wait,
    /// SKIP LOCKED: it is left out.
    Skip,
    /// NOWAIT: it is an error.
    Fail,
}

impl RowLocks {
    /// What both ask for.
    pub(crate) fn and(self, other: RowLocks) -> RowLocks {
        RowLocks { strength: self.strength.max(other.strength), busy: self.busy.max(other.busy) }
    }
}
