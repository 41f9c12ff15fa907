//! Comparisons of columns with constants, made of their bytes.
//!
//! The bytes of values compare as the values do, so that a row that does not pass is left out before anything is decoded.

use super::{NULL, reused, types};
use arrow::datatypes::{DataType, SchemaRef};
use compute_client::plan::lir::{self, Stage};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, IsNotNullExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use repr::columns::Cutter;
use repr::row::{RowError, is_delimited, is_key_exact, write_array_value};
use std::cmp::Ordering;
use std::sync::Arc;

/// Conditions that a row must meet, all of them.
pub struct ByteFilter {
    cutter: Cutter,
    tests: Vec<Test>,
}

/// A condition that a cut must meet; NULL meets none.
pub struct Test {
    cut: usize,
    accepts: fn(Ordering) -> bool,
    bytes: Vec<u8>,
}

impl Test {
    /// Whether a row with these cuts meets it.
    #[inline]
    pub fn passes(&self, cuts: &[&[u8]]) -> bool {
        let bytes = cuts[self.cut];
        bytes.first() != Some(&NULL) && (self.accepts)(bytes.cmp(&self.bytes))
    }
}

/// A comparison of a column with a constant.
pub struct Comparison {
    /// The column.
    pub column: usize,
    accepts: fn(Ordering) -> bool,
    bytes: Vec<u8>,
}

impl Comparison {
    /// The same of a cut.
    pub fn of_cut(self, cutter: &Cutter) -> Test {
        Test { cut: cutter.place(self.column), accepts: self.accepts, bytes: self.bytes }
    }
}

/// Takes the comparisons off the filters that stages begin with; returns the other stages, too.
pub fn split(input: &SchemaRef, stages: &[Stage]) -> (Vec<Comparison>, Vec<Stage>) {
    let types = types(input);
    let (mut comparisons, mut rest) = (Vec::new(), Vec::new());
    let mut stages = stages.iter();
    for stage in stages.by_ref() {
        let Stage::Filter(predicate) = stage else {
            rest.push(stage.clone());
            break;
        };
        let mut others = Vec::new();
        for condition in split_conjunction(predicate) {
            match comparison(condition, &types) {
                Some(comparison) => comparisons.push(comparison),
                None => others.push(Arc::clone(condition)),
            }
        }
        rest.extend((!others.is_empty()).then(|| Stage::Filter(conjunction(others))));
    }
    rest.extend(stages.cloned());
    (comparisons, rest)
}

impl ByteFilter {
    /// The filter of rows with these types, if there is anything to compare.
    pub fn new(types: &[DataType], comparisons: Vec<Comparison>) -> Result<Option<ByteFilter>, RowError> {
        let cutter = Cutter::new(types, comparisons.iter().map(|comparison| comparison.column).collect())?;
        let tests: Vec<Test> = comparisons.into_iter().map(|comparison| comparison.of_cut(&cutter)).collect();
        Ok((!tests.is_empty()).then_some(ByteFilter { cutter, tests }))
    }

    /// Whether a row meets the conditions.
    pub fn passes(&self, row: &[u8], scratch: &mut Vec<&'static [u8]>) -> bool {
        let mut cuts = reused(std::mem::take(scratch));
        self.cutter.cut(row, &mut cuts);
        let passes = self.tests.iter().all(|test| test.passes(&cuts));
        *scratch = reused(cuts);
        passes
    }
}

/// The comparison that a condition is, if it is one of a column with a constant.
fn comparison(condition: &Arc<dyn PhysicalExpr>, types: &[DataType]) -> Option<Comparison> {
    let column_of = |expr: &Arc<dyn PhysicalExpr>| {
        let column = lir::column(expr)?;
        // Where it is must be known.
        (is_key_exact(&types[column]) && types[..=column].iter().all(is_delimited)).then_some(column)
    };
    if let Some(is_not_null) = condition.downcast_ref::<IsNotNullExpr>() {
        return Some(Comparison { column: column_of(is_not_null.arg())?, accepts: |_| true, bytes: Vec::new() });
    }
    let binary = condition.downcast_ref::<BinaryExpr>()?;
    let (column, literal, op) = match column_of(binary.left()) {
        Some(column) => (column, binary.right(), *binary.op()),
        None => (column_of(binary.right())?, binary.left(), binary.op().swap()?),
    };
    let accepts: fn(Ordering) -> bool = match op {
        Operator::Eq => Ordering::is_eq,
        Operator::NotEq => Ordering::is_ne,
        Operator::Lt => Ordering::is_lt,
        Operator::LtEq => Ordering::is_le,
        Operator::Gt => Ordering::is_gt,
        Operator::GtEq => Ordering::is_ge,
        _ => return None,
    };
    let value = literal.downcast_ref::<Literal>()?.value();
    if value.is_null() || value.data_type() != types[column] {
        return None;
    }
    let mut bytes = Vec::new();
    write_array_value(&mut bytes, value.to_array().ok()?.as_ref(), 0).ok()?;
    Some(Comparison { column, accepts, bytes })
}

#[cfg(test)]
mod tests {
    use super::{ByteFilter, split};
    use crate::render::mfp::is_true;
    use arrow::array::{ArrayRef, Date32Array, Decimal128Array, Int32Array, RecordBatch, StringViewArray};
    use arrow::datatypes::{DataType, Field, Schema};
    use compute_client::plan::lir::Stage;
    use datafusion::common::ScalarValue;
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{BinaryExpr, Column, IsNotNullExpr, Literal};
    use datafusion::physical_expr::{PhysicalExpr, conjunction};
    use proptest::prelude::{any, prop, proptest};
    use repr::row::RowCodec;
    use std::sync::Arc;

    const OPERATORS: [Operator; 6] =
        [Operator::Eq, Operator::NotEq, Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq];

    proptest! {
        #[test]
        fn bytes_pass_where_values_do(
            rows in prop::collection::vec((prop::option::of(-3_i32..3), prop::option::of("[ab]{0,2}"), prop::option::of(-3_i32..3)), 1..20),
            conditions in prop::collection::vec((0_usize..4, 0_usize..7, -3_i32..3, "[ab]{0,2}", any::<bool>()), 1..4)) {
            let decimals: Decimal128Array = rows.iter().map(|(_, _, day)| day.map(i128::from)).collect();
            let columns: [ArrayRef; 4] = [
                Arc::new(rows.iter().map(|(int, _, _)| *int).collect::<Int32Array>()),
                Arc::new(rows.iter().map(|(_, text, _)| text.clone()).collect::<StringViewArray>()),
                Arc::new(rows.iter().map(|(_, _, day)| *day).collect::<Date32Array>()),
                Arc::new(decimals.with_precision_and_scale(9, 2).expect("fits")),
            ];
            let types: Vec<DataType> = columns.iter().map(|column| column.data_type().clone()).collect();
            let fields: Vec<Field> = types.iter().map(|ty| Field::new("c", ty.clone(), true)).collect();
            let schema = Arc::new(Schema::new(fields));
            let batch = RecordBatch::try_new(Arc::clone(&schema), columns.to_vec()).expect("they fit");
            let conditions = conditions.into_iter().map(|(column, op, number, text, is_swapped)| {
                let value = match column {
                    0 => ScalarValue::Int32(Some(number)),
                    1 => ScalarValue::Utf8View(Some(text)),
                    2 => ScalarValue::Date32(Some(number)),
                    _ => ScalarValue::Decimal128(Some(number.into()), 9, 2),
                };
                let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("c", column));
                let literal: Arc<dyn PhysicalExpr> = Arc::new(Literal::new(value));
                let (left, right) = if is_swapped { (literal, column) } else { (column, literal) };
                match OPERATORS.get(op) {
                    Some(op) => Arc::new(BinaryExpr::new(left, *op, right)) as Arc<dyn PhysicalExpr>,
                    None => Arc::new(IsNotNullExpr::new(if is_swapped { right } else { left })),
                }
            });
            let predicate = conjunction(conditions);
            let expected = is_true(predicate.as_ref(), &batch).expect("it evaluates");
            let (comparisons, rest) = split(&schema, &[Stage::Filter(predicate)]);
            assert!(rest.is_empty());
            let filter = ByteFilter::new(&types, comparisons).expect("supported").expect("there are conditions");
            let encoded = RowCodec::new(&types).expect("supported").encode(&columns).expect("encodes");
            let mut scratch = Vec::new();
            for at in 0..rows.len() {
                assert_eq!(filter.passes(encoded.row(at).data(), &mut scratch), expected.value(at));
            }
        }
    }
}
