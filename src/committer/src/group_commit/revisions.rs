//! Which revisions of the catalog a change may have been planned by.
//!
//! A change names what it changes by numbers that the catalog which it was planned by has given. It can be carried out under
//! another revision if nothing has been made since, and nothing has gone that it can name: then the temporary tables of
//! sessions that have ended are all that differs. So a transaction that changes the catalog does not fail because another
//! session has ended.

use catalog::transact::Op;
use std::ops::RangeInclusive;

/// Revisions that differ by the temporary tables of sessions that have ended.
#[derive(Debug)]
pub(super) struct Alike(RangeInclusive<u64>);

impl Alike {
    /// The catalog with which the process begins.
    pub(super) fn only(revision: u64) -> Alike {
        Alike(revision..=revision)
    }

    /// Whether what was planned by one revision can be carried out under another.
    pub(super) fn allows(&self, planned: u64, current: u64) -> bool {
        planned == current || (*self.0.end() == current && self.0.contains(&planned))
    }

    /// These changes have made one revision of another.
    pub(super) fn changed(&mut self, before: u64, after: u64, are_temporary: bool) {
        let first = match are_temporary {
            true if *self.0.end() == before => *self.0.start(),
            true => before,
            false => after,
        };
        self.0 = first..=after;
    }
}

/// Whether changes do nothing but let temporary tables go.
pub(super) fn are_temporary(ops: &[Op]) -> bool {
    ops.iter().all(|op| matches!(op, Op::DropTemporary(_)))
}

#[cfg(test)]
mod tests {
    use super::Alike;

    #[test]
    fn temporary_tables_that_go_leave_revisions_alike() {
        let mut alike = Alike::only(1);
        assert!(alike.allows(1, 1) && alike.allows(7, 7), "a revision is like itself");
        alike.changed(1, 2, true);
        alike.changed(2, 3, true);
        assert!(alike.allows(1, 3) && alike.allows(2, 3));
        assert!(!alike.allows(0, 3));
        alike.changed(3, 4, false);
        assert!(!alike.allows(3, 4) && !alike.allows(1, 4));
        alike.changed(4, 5, true);
        assert!(alike.allows(4, 5) && !alike.allows(3, 5));
        // Something else has made a revision meanwhile.
        assert!(!alike.allows(4, 6));
        alike.changed(6, 7, true);
        assert!(alike.allows(6, 7) && !alike.allows(5, 7));
    }
}
