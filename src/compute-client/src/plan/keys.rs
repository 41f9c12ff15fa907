//! From predicates to look-ups in an index.

use super::{Access, IndexInfo, KeySource, KeyValue};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{InList, Placeholder};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Operator};
use repr::Datum;
use std::cmp::Reverse;

/// More look-ups than this are slower than a scan would be.
pub const LOOKUPS_MAX: usize = 1_000;

/// The best access to `index` under these predicates, and the positions of the predicates that it makes superfluous.
pub(super) fn access(index: &IndexInfo, predicates: &[Expr]) -> (Access, Vec<usize>) {
    let (mut columns, mut consumed, mut lookup_count) = (Vec::new(), Vec::new(), 1_usize);
    for key in &index.key {
        let Some(found) = key.and_then(|column| {
            predicates.iter().enumerate().find_map(|(at, predicate)| {
                let values = values_of(predicate, column, &index.schema)?;
                (lookup_count * values.len() <= LOOKUPS_MAX).then_some((at, values))
            })
        }) else {
            break;
        };
        let (at, values) = found;
        lookup_count *= values.len();
        consumed.push(at);
        columns.push(values);
    }
    if columns.is_empty() { (Access::Scan, consumed) } else { (Access::Lookup(columns), consumed) }
}

/// How well an access serves: whole keys before prefixes, long prefixes before short, short keys before long.
pub(super) fn rank(access: &Access, index: &IndexInfo) -> (bool, usize, Reverse<usize>) {
    match access {
        Access::Scan => (false, 0, Reverse(index.key.len())),
        Access::Lookup(columns) => (columns.len() == index.key.len(), columns.len(), Reverse(index.key.len())),
    }
}

/// The values to which a predicate restricts a column, if that is all it does.
fn values_of(predicate: &Expr, column: usize, schema: &SchemaRef) -> Option<Vec<KeyValue>> {
    match predicate {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            let value = if is_column(left, column, schema) {
                value_of(right, schema.field(column).data_type())
            } else if is_column(right, column, schema) {
                value_of(left, schema.field(column).data_type())
            } else {
                None
            };
            value.map(|value| vec![value])
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let mut values = values_of(left, column, schema)?;
            values.extend(values_of(right, column, schema)?);
            Some(values)
        }
        Expr::InList(InList { expr, list, negated: false }) if is_column(expr, column, schema) => {
            list.iter().map(|item| value_of(item, schema.field(column).data_type())).collect()
        }
        // `WHERE b` over a boolean column.
        Expr::Column(_) if is_column(predicate, column, schema) => {
            Some(vec![KeyValue { source: KeySource::Constant(Datum::Bool(true)), data_type: DataType::Boolean }])
        }
        Expr::Not(inner) if is_column(inner, column, schema) => {
            Some(vec![KeyValue { source: KeySource::Constant(Datum::Bool(false)), data_type: DataType::Boolean }])
        }
        _ => None,
    }
}

/// Whether an expression is the column, or the column widened to a larger integer, which changes no comparison.
fn is_column(expr: &Expr, column: usize, schema: &SchemaRef) -> bool {
    match expr {
        Expr::Column(name) => schema.index_of(&name.name).is_ok_and(|at| at == column),
        Expr::Cast(Cast { expr, field }) => {
            is_column(expr, column, schema) && widens(schema.field(column).data_type(), field.data_type())
        }
        _ => false,
    }
}

/// A constant or parameter whose value can be looked up in a key column of type `data_type`.
fn value_of(expr: &Expr, data_type: &DataType) -> Option<KeyValue> {
    let value = |source| Some(KeyValue { source, data_type: data_type.clone() });
    match expr {
        Expr::Literal(scalar, _) => {
            let same = scalar.data_type() == *data_type;
            let both_integers = is_integer(&scalar.data_type()) && is_integer(data_type);
            if !(same || both_integers || scalar.is_null()) {
                return None;
            }
            value(KeySource::Constant(datum(scalar)?))
        }
        Expr::Placeholder(Placeholder { id, field }) => {
            let from = field.as_ref()?.data_type();
            let position: usize = id.strip_prefix('$')?.parse().ok()?;
            let fits = from == data_type || (is_integer(from) && is_integer(data_type));
            if fits { value(KeySource::Parameter(position.checked_sub(1)?)) } else { None }
        }
        Expr::Cast(Cast { expr, field }) if is_integer(field.data_type()) => {
            let inner = value_of(expr, data_type)?;
            let from = match expr.as_ref() {
                Expr::Placeholder(Placeholder { field: Some(from), .. }) => from.data_type().clone(),
                Expr::Literal(scalar, _) => scalar.data_type(),
                _ => return None,
            };
            widens(&from, field.data_type()).then_some(inner)
        }
        Expr::ScalarFunction(call) if call.func.name() == "bpchar_padded" => {
            let [Expr::Placeholder(_), Expr::Literal(ScalarValue::Int32(Some(length)), _)] = call.args.as_slice()
            else {
                return None;
            };
            let KeySource::Parameter(position) = value_of(&call.args[0], data_type)?.source else { return None };
            value(KeySource::Padded(position, u32::try_from(*length).ok()?))
        }
        _ => None,
    }
}

fn datum(scalar: &ScalarValue) -> Option<Datum<'static>> {
    let array = scalar.to_array().ok()?;
    repr::datum::from_array(array.as_ref(), 0).map(Datum::into_owned)
}

fn is_integer(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int16 | DataType::Int32 | DataType::Int64)
}

fn widens(from: &DataType, to: &DataType) -> bool {
    from == to
        || matches!(
            (from, to),
            (DataType::Int16, DataType::Int32 | DataType::Int64) | (DataType::Int32, DataType::Int64)
        )
}
