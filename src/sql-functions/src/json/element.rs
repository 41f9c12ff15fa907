//! Elements of arrays, by number.

use super::{Kind, items, kind};
use crate::call::Call;
use crate::{int, text};
use repr::{Datum, PgType};

pub(super) fn element(document: &str, n: i64) -> Option<&str> {
    if kind(document) != Kind::Array {
        return None;
    }
    let items = items(document);
    position(items.len(), n).map(|at| items[at])
}

/// A scalar is an array of itself, in jsonb.
pub(super) fn as_array<'d>(call: &Call<'_>, a: &'d [Datum<'_>]) -> Option<&'d str> {
    let document = text(a, 0);
    let is_scalar = !matches!(kind(document), Kind::Array | Kind::Object);
    (is_scalar && call.args.first() == Some(&PgType::Jsonb) && matches!(int(a, 1), 0 | -1)).then_some(document)
}

/// Negative positions count from the end.
pub(super) fn position(length: usize, n: i64) -> Option<usize> {
    let at = if n < 0 { length as i64 + n } else { n };
    usize::try_from(at).ok().filter(|at| *at < length)
}
