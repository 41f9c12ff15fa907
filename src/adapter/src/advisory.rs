//! Advisory locks, as statements take them: numbers on which users agree.

use crate::locks::{Owner, Strength};
use engine::session::{AdvisoryKey, AdvisoryLock, AdvisoryLocks, LockLifetime, LockMode, Waiting};
use std::sync::Arc;
use std::time::Duration;

/// The locks as a statement takes them.
pub(crate) struct StatementLocks {
    pub(crate) session: Arc<Owner>,
    pub(crate) transaction: Arc<Owner>,
    /// `lock_timeout`.
    pub(crate) timeout: Option<Duration>,
}

impl StatementLocks {
    fn owner(&self, lifetime: LockLifetime) -> &Arc<Owner> {
        match lifetime {
            LockLifetime::Session => &self.session,
            LockLifetime::Transaction => &self.transaction,
        }
    }
}

impl AdvisoryLocks for StatementLocks {
    fn lock(&self, lock: AdvisoryLock) -> Waiting {
        let owner = Arc::clone(self.owner(lock.lifetime));
        let (what, timeout) = (owner.advisory(lock.key), self.timeout);
        Box::pin(owner.lock(what, lock.mode.into(), timeout))
    }

    fn try_lock(&self, lock: AdvisoryLock) -> bool {
        let owner = self.owner(lock.lifetime);
        owner.try_lock(owner.advisory(lock.key), Strength::from(lock.mode))
    }

    fn unlock(&self, key: AdvisoryKey, mode: LockMode) -> bool {
        self.session.unlock(key, mode)
    }

    fn unlock_all(&self) {
        self.session.go_back(0);
    }

    fn blocking(&self, pid: i32) -> Vec<i32> {
        self.session.table().blocking(pid.cast_unsigned()).into_iter().map(u32::cast_signed).collect()
    }
}
