//! `nextval`, `currval`, `lastval` and `setval`: what a session takes from sequences.
//!
//! Each call is evaluated for each row, and never folded: a value that was given is given to nobody else.

use super::registry::Library;
use super::row::Call;
use super::{boolean, int};
use crate::engine::session::{Sequences, SessionInfo};
use crate::error::SqlError;
use repr::Datum;
use repr::sqlstate::SqlState;

/// Declares the functions of this file.
pub fn declare(library: &mut Library) {
    library.add("nextval(regclass) int8 !session !each", |call, a| {
        let (session, sequences) = of(call)?;
        sequences.next(oid(a)?, session).map(Datum::Int8)
    });
    library.add("currval(regclass) int8 !session !each", |call, a| {
        let (session, sequences) = of(call)?;
        sequences.current(oid(a)?, session).map(Datum::Int8)
    });
    library.add("lastval() int8 !session !each", |call, _| {
        let (session, sequences) = of(call)?;
        sequences.last(session).map(Datum::Int8)
    });
    library.add("setval(regclass, int8) int8 !session !each", |call, a| set(call, a, true));
    library.add("setval(regclass, int8, bool) int8 !session !each", |call, a| set(call, a, boolean(a, 2)));
}

fn set(call: &Call<'_>, args: &[Datum<'_>], is_called: bool) -> Result<Datum<'static>, SqlError> {
    let (session, sequences) = of(call)?;
    let value = int(args, 1);
    sequences.set(oid(args)?, value, is_called, session)?;
    Ok(Datum::Int8(value))
}

fn oid(args: &[Datum<'_>]) -> Result<u32, SqlError> {
    match args.first() {
        Some(Datum::Oid(oid)) => Ok(*oid),
        _ => Err(SqlError::internal("a sequence is named by an oid")),
    }
}

fn of<'a>(call: &'a Call<'_>) -> Result<(&'a SessionInfo, &'a dyn Sequences), SqlError> {
    let session = call.session()?;
    let sequences = session.sequences.as_deref();
    sequences.map(|sequences| (session, sequences)).ok_or_else(|| {
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("function {} is not supported here", call.name))
    })
}
