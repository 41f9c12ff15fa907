//! `min` and `max`: the first value of a group, in one order or the other.
//!
//! The bytes of a value compare as the value does. For `max` they are inverted, which turns the order around because no
//! value's bytes are the beginning of another's. What counts for nothing, NULLs and rows that a FILTER leaves out, comes behind
//! all values: it still says that the group exists.

use crate::render::first::Counted;
use crate::render::part::{Part, negative};
use crate::render::reduce::{cut, normal, outcome_of, passes};
use crate::render::{Builder, Keyed, ScopeTime, arrange};
use arrow::datatypes::DataType;
use repr::Datum;
use repr::row::{RowError, write_datum};

/// A row that gives no value. No value begins with it, inverted or not.
const NOTHING: &[u8] = &[0xFF];
/// The marker of a group that is always there, behind every row.
const MARKER: &[u8] = &[0xFF, 0xFF];
/// The first byte of a NULL.
const NULL: u8 = 0;

/// The order in which the value that is wanted comes first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Ascending,
    Descending,
}

impl<'scope, T: ScopeTime> Builder<'scope, T> {
    /// Rows under their group's key to the least or greatest value of each group.
    pub(super) fn extreme(&mut self, keyed: Keyed<'scope, T>, part: &Part) -> Result<Keyed<'scope, T>, RowError> {
        let step = part.steps[0].clone();
        let order = if step.function.fun().name() == "max" { Order::Descending } else { Order::Ascending };
        let mut null = Vec::new();
        write_datum(&mut null, &step.output, &Datum::Null)?;
        let types = crate::render::mfp::types(&part.schema);
        let values = keyed.map(move |(key, value)| {
            let Some((_, row)) = value.split_first() else { return (key, MARKER.to_vec()) };
            let is_in = step.filter.is_none_or(|filter| passes(cut(row, &types, filter..filter + 1)));
            let at = step.columns.start;
            let bytes =
                if is_in { sortable(cut(row, &types, at..at + 1), &types[at], order) } else { NOTHING.to_vec() };
            (key, bytes)
        });
        let logic = move |_: &[u8], values: &[Counted<'_>], output: &mut Vec<(Vec<u8>, repr::Diff)>| {
            output.push((outcome_of(|| first_value(values, order, &null)), 1));
        };
        Ok(T::first(&self.memory, arrange(&self.memory, values, "Extreme input"), "Extreme", 1, logic))
    }
}

/// A value's bytes so that what is wanted compares least.
fn sortable(value: &[u8], ty: &DataType, order: Order) -> Vec<u8> {
    if value.first() == Some(&NULL) {
        return NOTHING.to_vec();
    }
    let mut bytes = normal(value, ty);
    invert(&mut bytes, order);
    bytes
}

fn invert(bytes: &mut [u8], order: Order) {
    if order == Order::Descending {
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
    }
}

fn first_value(
    values: &[Counted<'_>],
    order: Order,
    null: &[u8],
) -> Result<Vec<u8>, datafusion::error::DataFusionError> {
    match values.first() {
        Some((_, ..=0)) => Err(negative()),
        None => Err(negative()),
        Some((NOTHING | MARKER, _)) => Ok(null.to_vec()),
        Some((value, _)) => {
            let mut value = value.to_vec();
            invert(&mut value, order);
            Ok(value)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MARKER, NOTHING, Order, invert, sortable};
    use arrow::datatypes::DataType;
    use proptest::prelude::{any, prop, proptest};
    use repr::Datum;
    use repr::row::write_datum;

    fn bytes(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_datum(&mut bytes, &DataType::Utf8View, &Datum::Text(text.into())).expect("text");
        bytes
    }

    proptest! {
        #[test]
        fn both_orders_are_the_values_order(texts in prop::collection::vec(any::<String>(), 2..20)) {
            let mut sorted = texts;
            sorted.sort();
            for (order, reversed) in [(Order::Ascending, false), (Order::Descending, true)] {
                let mut keys: Vec<Vec<u8>> =
                    sorted.iter().map(|text| sortable(&bytes(text), &DataType::Utf8View, order)).collect();
                if reversed {
                    keys.reverse();
                }
                assert!(keys.is_sorted());
                assert!(keys.iter().all(|key| key.as_slice() < NOTHING && key.as_slice() < MARKER));
                keys.iter_mut().for_each(|key| invert(key, order));
                assert!(sorted.iter().all(|text| keys.contains(&bytes(text))));
            }
        }
    }

    #[test]
    fn floats_are_normal() {
        let float = |value: f64| {
            let mut bytes = Vec::new();
            write_datum(&mut bytes, &DataType::Float64, &Datum::Float8(value)).expect("a float");
            sortable(&bytes, &DataType::Float64, Order::Ascending)
        };
        assert_eq!(float(-0.0), float(0.0));
        assert!(float(-f64::NAN) > float(f64::INFINITY));
        assert!(float(f64::NEG_INFINITY) < float(-1.0));
    }
}
