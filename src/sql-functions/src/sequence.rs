//! `nextval`, `currval`, `lastval` and `setval`: what a session takes from sequences.
//!
//! Each call is evaluated for each row, and never folded: a value that was given is given to nobody else.

use super::call::Call;
use super::library::Library;
use super::{boolean, int};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;
use engine::error::SqlError;
use engine::session::{Sequences, SessionInfo};
use repr::Datum;
use repr::sqlstate::SqlState;

/// Declares the functions of this file.
pub fn declare(library: &mut Library) {
    library.add("nextval(regclass) int8 !session !each", |call, a| {
        let (session, sequences) = of(call)?;
        sequences.next(oid(a)?, false, session).map(Datum::Int8)
    });
    // For the DEFAULT of an identity column: whoever may write the column needs no privilege on its sequence.
    library.add("nextval_of_identity(regclass) int8 !session !each !hidden", |call, a| {
        let (session, sequences) = of(call)?;
        sequences.next(oid(a)?, true, session).map(Datum::Int8)
    });
    library.add("currval(regclass) int8 !session !each", |call, a| {
        let (session, sequences) = of(call)?;
        sequences.current(oid(a)?, session).map(Datum::Int8)
    });
    library.add("lastval() int8 !session !each", |call, _| {
        let (session, sequences) = of(call)?;
        sequences.last(session).map(Datum::Int8)
    });
    library.add("pg_sequence_last_value(regclass) int8 !session !each", |call, a| {
        let (_, sequences) = of(call)?;
        Ok(sequences.last_value(oid(a)?)?.map_or(Datum::Null, Datum::Int8))
    });
    library.add("setval(regclass, int8) int8 !session !each", |call, a| set(call, a, true));
    library.add("setval(regclass, int8, bool) int8 !session !each", |call, a| set(call, a, boolean(a, 2)));
}

/// The oid of the sequence, if that is a constant, of a call that takes a value.
pub fn nextval_of(expr: &Expr) -> Option<Option<u32>> {
    let Expr::ScalarFunction(call) = expr else { return None };
    matches!(call.name(), "nextval" | "nextval_of_identity").then(|| match call.args.first() {
        Some(Expr::Literal(ScalarValue::UInt32(oid), _)) => *oid,
        _ => None,
    })
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
