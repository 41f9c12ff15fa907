//! Advisory locks: what sessions lock under numbers that mean something to their users only.
//!
//! Those that wait for a lock are in [`super::waiting`].

use super::call::Call;
use super::library::Library;
use engine::error::SqlError;
use engine::session::{AdvisoryKey, AdvisoryLock, LockLifetime, LockMode, SessionInfo, Waiting};
use repr::Datum;
use std::borrow::Cow;

/// The arguments that name a lock. One number and two are of different spaces.
pub(crate) const KEYS: [&str; 2] = ["int8", "int4, int4"];

/// Declares the functions of this file.
pub(crate) fn declare(library: &mut Library) {
    for key in KEYS {
        library.add(&format!("pg_try_advisory_lock({key}) bool !session !each"), |call, a| {
            try_lock(call, a, LockMode::Exclusive, LockLifetime::Session)
        });
        library.add(&format!("pg_try_advisory_lock_shared({key}) bool !session !each"), |call, a| {
            try_lock(call, a, LockMode::Share, LockLifetime::Session)
        });
        library.add(&format!("pg_try_advisory_xact_lock({key}) bool !session !each"), |call, a| {
            try_lock(call, a, LockMode::Exclusive, LockLifetime::Transaction)
        });
        library.add(&format!("pg_try_advisory_xact_lock_shared({key}) bool !session !each"), |call, a| {
            try_lock(call, a, LockMode::Share, LockLifetime::Transaction)
        });
        library.add(&format!("pg_advisory_unlock({key}) bool !session !each"), |call, a| {
            unlock(call, a, LockMode::Exclusive)
        });
        library.add(&format!("pg_advisory_unlock_shared({key}) bool !session !each"), |call, a| {
            unlock(call, a, LockMode::Share)
        });
    }
    library.add("pg_advisory_unlock_all() void !session !each", |call, _| {
        if let Some(locks) = &call.session()?.locks {
            locks.unlock_all();
        }
        Ok(Datum::Text(Cow::Borrowed("")))
    });
}

/// Waits for a lock; `None` where there are none.
pub(crate) fn lock(
    session: &SessionInfo,
    args: &[Datum<'_>],
    mode: LockMode,
    lifetime: LockLifetime,
) -> Option<Waiting> {
    let locks = session.locks.as_ref()?;
    Some(locks.lock(AdvisoryLock { key: key(args)?, mode, lifetime }))
}

fn try_lock(
    call: &Call<'_>,
    args: &[Datum<'_>],
    mode: LockMode,
    lifetime: LockLifetime,
) -> Result<Datum<'static>, SqlError> {
    let (Some(locks), Some(key)) = (&call.session()?.locks, key(args)) else { return Err(refused(call)) };
    Ok(Datum::Bool(locks.try_lock(AdvisoryLock { key, mode, lifetime })))
}

fn unlock(call: &Call<'_>, args: &[Datum<'_>], mode: LockMode) -> Result<Datum<'static>, SqlError> {
    let (Some(locks), Some(key)) = (&call.session()?.locks, key(args)) else { return Err(refused(call)) };
    Ok(Datum::Bool(locks.unlock(key, mode)))
}

fn refused(call: &Call<'_>) -> SqlError {
    SqlError::unsupported(format!("function {} here", call.name))
}

/// What the arguments name, in the way that `pg_locks` shows it.
fn key(args: &[Datum<'_>]) -> Option<AdvisoryKey> {
    Some(match args {
        [Datum::Int8(number)] => AdvisoryKey { classid: (*number >> 32) as u32, objid: *number as u32, objsubid: 1 },
        [Datum::Int4(first), Datum::Int4(second)] => {
            AdvisoryKey { classid: *first as u32, objid: *second as u32, objsubid: 2 }
        }
        _ => return None,
    })
}
