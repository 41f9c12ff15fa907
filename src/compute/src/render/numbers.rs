//! Sums of integers and decimals, of the bytes of rows.
//!
//! Most of what is added up are columns, and what `+`, `-` and `*` make of them. Such sums need no Arrow: numbers are read
//! where rows have them and calculated block by block: in 64 bits, or in 128 if anything in the block needs them. A batch in which
//! there is a NULL, or anything that 128 bits do not hold, is left to those who can evaluate everything.

use crate::render::flow::Update;
use crate::render::groups::Groups;
use crate::render::mfp::bytes::{self, Test};
use crate::render::mfp::{narrow, types};
use crate::render::sums::{Slot, Summed, add_narrow};
use crate::render::totals::ROWS;
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, SchemaRef};
use compute_client::plan::lir::{self, Stage};
use compute_client::protocol::KeyExpr;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::expressions::{CastExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use repr::Diff;
use repr::columns::{Cutter, integers};
use repr::row::is_key_exact;
use sql_functions::arith::Arith;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Rows that are calculated with at once.
const BLOCK: usize = 256;
/// Multiplicities below this can be multiplied with numbers of 64 bits and added up, as often as a batch has rows.
const NARROW_DIFF: u64 = 1 << 32;
/// Digits before the point that hold any integer.
const INTEGER_DIGITS: i32 = 19;
/// The first byte of a NULL.
const NULL: u8 = 0;

/// A step of a calculation; its operands are the results of earlier ones.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Column(usize),
    Constant(i128),
    Add(usize, usize),
    Sub(usize, usize),
    Mul(usize, usize),
}

/// A sum to be calculated.
struct Sum {
    /// The step that gives its values.
    step: usize,
    /// Where its parts are among the totals, and how many they are.
    at: usize,
    part_count: usize,
}

/// What is read of rows and calculated.
pub(super) struct Numbers {
    cutter: Cutter,
    /// Which rows count.
    tests: Vec<Test>,
    key: Vec<usize>,
    /// The cuts that must not be NULL besides those of `columns`.
    required: Vec<usize>,
    steps: Vec<Step>,
    /// The steps that are columns, and their cuts.
    columns: Vec<(usize, usize)>,
    /// What steps give for a block, unless a constant needs more bits.
    narrow: Option<Vec<[i64; BLOCK]>>,
    /// The same in 128 bits.
    wide: Vec<[i128; BLOCK]>,
    sums: Vec<Sum>,
    /// Where the totals have another sum's parts once more: from, to, how many.
    repeated: Vec<(usize, usize, usize)>,
    /// Where the totals have numbers of values, each of which is that of the rows.
    counts: Vec<usize>,
}

impl Numbers {
    /// How the totals of rows are calculated, if they can be.
    pub(super) fn new(input: &SchemaRef, stages: &[Stage], key: &[KeyExpr], slots: &[Slot]) -> Option<Numbers> {
        let (comparisons, stages) = bytes::split(input, stages);
        let exprs = narrow::flattened(input, &stages)?;
        let types = types(input);
        let key_column = |key: &KeyExpr| {
            let KeyExpr::Column(column) = key else { return None };
            lir::column(&exprs[*column]).filter(|column| is_key_exact(&types[*column]))
        };
        let key: Vec<usize> = key.iter().map(key_column).collect::<Option<_>>()?;
        let mut program = Program { input, steps: Vec::new(), required: BTreeSet::new() };
        let (mut sums, mut counts) = (Vec::new(), Vec::new());
        for slot in slots {
            let (argument, count_at) = slot.reads()?;
            counts.push(count_at);
            match argument {
                Summed::Counted(columns) => {
                    columns.into_iter().try_for_each(|column| program.require(&exprs[column]))?;
                }
                Summed::Number { column, at, part_count } => {
                    sums.push(Sum { step: program.step(&exprs[column])?, at, part_count });
                }
            }
        }
        let Program { steps, required, .. } = program;
        let compared = comparisons.iter().map(|comparison| comparison.column);
        let cutter = Cutter::new(&types, compared.chain(required.iter().chain(&key).copied()).collect()).ok()?;
        let place = |column: usize| cutter.place(column);
        let (key, required) = (key.into_iter().map(place).collect(), required.into_iter().map(place).collect());
        let tests = comparisons.into_iter().map(|comparison| comparison.of_cut(&cutter)).collect();
        Some(Numbers::of(cutter, tests, key, required, steps, sums, counts))
    }

    #[expect(clippy::too_many_arguments, reason = "its parts, of which two are worked out here")]
    fn of(
        cutter: Cutter,
        tests: Vec<Test>,
        key: Vec<usize>,
        required: Vec<usize>,
        steps: Vec<Step>,
        sums: Vec<Sum>,
        counts: Vec<usize>,
    ) -> Numbers {
        let column = |(at, step): (usize, &Step)| match step {
            Step::Column(column) => Some((at, cutter.place(*column))),
            _ => None,
        };
        let columns: Vec<(usize, usize)> = steps.iter().enumerate().filter_map(column).collect();
        let mut required = required;
        required.retain(|cut| !columns.iter().any(|(_, column)| column == cut));
        let mut distinct: Vec<Sum> = Vec::new();
        let mut repeated = Vec::new();
        for sum in sums {
            match distinct.iter().find(|first| (first.step, first.part_count) == (sum.step, sum.part_count)) {
                Some(first) => repeated.push((first.at, sum.at, sum.part_count)),
                None => distinct.push(sum),
            }
        }
        let (narrow, wide) = (constants(&steps), constants(&steps).expect("constants are of 128 bits"));
        Numbers { cutter, tests, key, required, steps, columns, narrow, wide, sums: distinct, repeated, counts }
    }

    /// Adds what rows count for to the totals of their groups, of which none has any yet; false if that cannot be done here.
    pub(super) fn add<T: Ord + Clone>(&mut self, updates: &[Update<'_, T>], groups: &mut Groups<T>) -> bool {
        let width = self.cutter.len();
        let (mut cuts, mut key) = (Vec::with_capacity(width * BLOCK.min(updates.len())), Vec::new());
        // Of each row of a block that counts: its group and how often it counts.
        let (mut of_groups, mut diffs) = ([0; BLOCK], [0; BLOCK]);
        for block in updates.chunks(BLOCK) {
            let mut count = 0;
            cuts.clear();
            for update in block {
                let before = cuts.len();
                self.cutter.cut(update.row, &mut cuts);
                let row = &cuts[before..];
                if !self.tests.iter().all(|test| test.passes(row)) {
                    cuts.truncate(before);
                    continue;
                }
                key.clear();
                self.key.iter().for_each(|cut| key.extend_from_slice(row[*cut]));
                let group = groups.of(&key, update.time);
                groups.totals[group + ROWS] += i128::from(update.diff);
                (of_groups[count], diffs[count]) = (group, update.diff);
                count += 1;
            }
            let column = |cut: usize| cuts.chunks_exact(width.max(1)).map(move |row| row[cut]);
            if self.required.iter().any(|cut| column(*cut).any(|value| value.first() == Some(&NULL))) {
                return false;
            }
            let rows = Rows { columns: &self.columns, column, groups: &of_groups[..count], diffs: &diffs[..count] };
            let is_narrow = diffs[..count].iter().all(|diff| diff.unsigned_abs() < NARROW_DIFF);
            let is_narrow = match &mut self.narrow {
                Some(narrow) if is_narrow => rows.calculate(&self.steps, narrow),
                _ => false,
            };
            match &self.narrow {
                Some(narrow) if is_narrow => {
                    for sum in &self.sums {
                        // All in the first part: it is cut in the end.
                        rows.each(&narrow[sum.step], |value, diff, group| {
                            let total = &mut groups.totals[group + sum.at];
                            *total = total.wrapping_add(i128::from(value) * i128::from(diff));
                        });
                    }
                }
                _ if rows.calculate(&self.steps, &mut self.wide) => {
                    for sum in &self.sums {
                        rows.each(&self.wide[sum.step], |value, diff, group| {
                            add_narrow(value, diff.into(), &mut groups.totals[group + sum.at..][..sum.part_count]);
                        });
                    }
                }
                _ => return false,
            }
        }
        groups.each(|totals| {
            for sum in self.sums.iter().filter(|sum| sum.part_count > 1) {
                let parts = &mut totals[sum.at..][..sum.part_count];
                let all = std::mem::take(&mut parts[0]);
                add_narrow(all, 1, parts);
            }
            self.counts.iter().for_each(|at| totals[*at] = totals[ROWS]);
            self.repeated.iter().for_each(|(from, to, count)| totals.copy_within(*from..from + count, *to));
        });
        true
    }
}

/// The rows of a block that count.
struct Rows<'a, C> {
    /// The steps that are columns, and their cuts.
    columns: &'a [(usize, usize)],
    /// Gives the values of a cut.
    column: C,
    groups: &'a [usize],
    diffs: &'a [Diff],
}

impl<'c, C: Fn(usize) -> I, I: Iterator<Item = &'c [u8]>> Rows<'_, C> {
    /// Calculates everything; false if there is a NULL, or a result has too many bits.
    fn calculate<N: Number>(&self, steps: &[Step], results: &mut [[N; BLOCK]]) -> bool {
        let count = self.groups.len();
        for (step, cut) in self.columns {
            if !integers((self.column)(*cut), &mut results[*step]) {
                return false;
            }
        }
        steps.iter().enumerate().all(|(at, step)| {
            let (before, result) = results.split_at_mut(at);
            let mut each = |left: usize, right: usize, operator: fn(N, N) -> (N, bool)| {
                let operands = before[left][..count].iter().zip(&before[right][..count]);
                !result[0].iter_mut().zip(operands).fold(false, |over, (result, (left, right))| {
                    let (value, too_large) = operator(*left, *right);
                    *result = value;
                    over | too_large
                })
            };
            match step {
                Step::Column(_) | Step::Constant(_) => true,
                Step::Add(left, right) => each(*left, *right, N::plus),
                Step::Sub(left, right) => each(*left, *right, N::minus),
                Step::Mul(left, right) => each(*left, *right, N::times),
            }
        })
    }

    /// Gives each row's value, how often it counts, and where its group's totals begin.
    #[inline]
    fn each<N: Number>(&self, values: &[N; BLOCK], mut give: impl FnMut(N, Diff, usize)) {
        for ((value, diff), group) in values.iter().zip(self.diffs).zip(self.groups) {
            give(*value, *diff, *group);
        }
    }
}

/// Room for the results of steps, with those that are constants; none if one has too many bits.
fn constants<N: Number>(steps: &[Step]) -> Option<Vec<[N; BLOCK]>> {
    let of = |step: &Step| match step {
        Step::Constant(value) => N::try_from(*value).ok().map(|value| [value; BLOCK]),
        _ => Some([N::default(); BLOCK]),
    };
    steps.iter().map(of).collect()
}

/// What is calculated with; each operation also says whether its result has too many bits.
trait Number: Copy + Default + TryFrom<i128> {
    fn plus(self, other: Self) -> (Self, bool);
    fn minus(self, other: Self) -> (Self, bool);
    fn times(self, other: Self) -> (Self, bool);
}

impl Number for i64 {
    fn plus(self, other: i64) -> (i64, bool) {
        self.overflowing_add(other)
    }

    fn minus(self, other: i64) -> (i64, bool) {
        self.overflowing_sub(other)
    }

    fn times(self, other: i64) -> (i64, bool) {
        self.overflowing_mul(other)
    }
}

impl Number for i128 {
    fn plus(self, other: i128) -> (i128, bool) {
        self.overflowing_add(other)
    }

    fn minus(self, other: i128) -> (i128, bool) {
        self.overflowing_sub(other)
    }

    fn times(self, other: i128) -> (i128, bool) {
        // Most factors are of 64 bits.
        match (i64::try_from(self), i64::try_from(other)) {
            (Ok(left), Ok(right)) => (i128::from(left) * i128::from(right), false),
            _ => self.overflowing_mul(other),
        }
    }
}

/// Steps under construction; their columns are the input's.
struct Program<'a> {
    input: &'a SchemaRef,
    steps: Vec<Step>,
    required: BTreeSet<usize>,
}

impl Program<'_> {
    /// Adds a step that nobody has added yet.
    fn push(&mut self, step: Step) -> usize {
        self.steps.iter().position(|other| *other == step).unwrap_or_else(|| {
            self.steps.push(step);
            self.steps.len() - 1
        })
    }

    /// Notes that a column or constant is counted.
    fn require(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Option<()> {
        match (lir::column(expr), expr.downcast_ref::<Literal>()) {
            (Some(column), _) => {
                self.required.insert(column);
                Some(())
            }
            (None, Some(literal)) => (!literal.value().is_null()).then_some(()),
            (None, None) => None,
        }
    }

    /// The step that gives the value of an expression, as an integer of its last digit.
    fn step(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
        let ty = expr.data_type(self.input).ok()?;
        if let Some(column) = lir::column(expr) {
            let is_number =
                matches!(ty, DataType::Decimal128(..) | DataType::Int16 | DataType::Int32 | DataType::Int64);
            self.required.extend(is_number.then_some(column));
            return is_number.then(|| self.push(Step::Column(column)));
        }
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            return Some(self.push(Step::Constant(constant(literal.value())?)));
        }
        if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            let from = cast.expr().data_type(self.input).ok()?;
            let value = self.step(cast.expr())?;
            return match (digits(&from)?, digits(&ty)?) {
                // Whether it fits need not be asked.
                ((whole, scale), (more, same)) if whole <= more && scale == same => Some(value),
                ((whole, 0), (more, scale)) if whole <= more => self.scaled(value, scale),
                _ => None,
            };
        }
        let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
        call.fun().inner().downcast_ref::<Arith>()?;
        let [left, right] = call.args() else { return None };
        let (left_type, right_type) = (left.data_type(self.input).ok()?, right.data_type(self.input).ok()?);
        let is_narrow = |ty: &DataType| matches!(ty, DataType::Decimal128(..));
        let scale = match &ty {
            DataType::Decimal128(_, scale) if is_narrow(&left_type) && is_narrow(&right_type) => *scale,
            // Anything of 128 bits fits.
            DataType::Decimal256(precision, scale) if *precision > DECIMAL128_MAX_PRECISION => *scale,
            _ => return None,
        };
        let (left_scale, right_scale) = (decimal_scale(&left_type)?, decimal_scale(&right_type)?);
        let (left, right) = (self.step(left)?, self.step(right)?);
        let operator = call.fun().name();
        if operator == "*" {
            let is_exact = i32::from(left_scale) + i32::from(right_scale) == i32::from(scale);
            return is_exact.then(|| self.push(Step::Mul(left, right)));
        }
        let (left, right) = (self.scaled(left, scale - left_scale)?, self.scaled(right, scale - right_scale)?);
        match operator {
            "+" => Some(self.push(Step::Add(left, right))),
            "-" => Some(self.push(Step::Sub(left, right))),
            _ => None,
        }
    }

    /// A step's value with so many more digits behind the point.
    fn scaled(&mut self, value: usize, digits: i8) -> Option<usize> {
        if digits == 0 {
            return Some(value);
        }
        let factor = self.push(Step::Constant(10_i128.checked_pow(u32::try_from(digits).ok()?)?));
        Some(self.push(Step::Mul(value, factor)))
    }
}

/// The digits of a number before and behind the point.
fn digits(ty: &DataType) -> Option<(i32, i8)> {
    match ty {
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            Some((i32::from(*precision) - i32::from(*scale), *scale))
        }
        DataType::Int16 => Some((5, 0)),
        DataType::Int32 => Some((10, 0)),
        DataType::Int64 => Some((INTEGER_DIGITS, 0)),
        _ => None,
    }
}

fn decimal_scale(ty: &DataType) -> Option<i8> {
    match ty {
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => Some(*scale),
        _ => None,
    }
}

fn constant(value: &ScalarValue) -> Option<i128> {
    match value {
        ScalarValue::Decimal128(value, ..) => *value,
        ScalarValue::Decimal256(value, ..) => value.and_then(|value| value.to_i128()),
        ScalarValue::Int16(value) => value.map(i128::from),
        ScalarValue::Int32(value) => value.map(i128::from),
        ScalarValue::Int64(value) => value.map(i128::from),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{NULL, Numbers, Program, Sum};
    use crate::render::flow::Update;
    use crate::render::groups::Groups;
    use crate::render::totals::{FIRST, ROWS};
    use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Int32Array, RecordBatch};
    use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, Field, Schema};
    use datafusion::common::ScalarValue;
    use datafusion::common::config::ConfigOptions;
    use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
    use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
    use proptest::prelude::{prop, proptest};
    use repr::PgType;
    use repr::columns::Cutter;
    use repr::row::RowCodec;
    use sql_functions::arith::{Arith, ArithOp};
    use std::collections::BTreeSet;
    use std::sync::Arc;

    fn arith(
        op: ArithOp,
        left: &Arc<dyn PhysicalExpr>,
        right: &Arc<dyn PhysicalExpr>,
        ty: &DataType,
    ) -> Arc<dyn PhysicalExpr> {
        let udf = Arith::udf(op, &PgType::from_data_type(ty), ty);
        let field = Arc::new(Field::new("f", ty.clone(), true));
        let args = vec![Arc::clone(left), Arc::clone(right)];
        Arc::new(ScalarFunctionExpr::new(op.symbol(), udf, args, field, Arc::new(ConfigOptions::default())))
    }

    /// Expressions over a price, a discount, both of two digits behind the point, and an integer.
    fn expressions() -> Vec<Arc<dyn PhysicalExpr>> {
        let decimal = DataType::Decimal128;
        let column = |at: usize| Arc::new(Column::new("c", at)) as Arc<dyn PhysicalExpr>;
        let one: Arc<dyn PhysicalExpr> = Arc::new(Literal::new(ScalarValue::Decimal128(Some(1), 1, 0)));
        let (price, discount) = (column(0), column(1));
        let rest = arith(ArithOp::Sub, &one, &discount, &decimal(16, 2));
        let discounted = arith(ArithOp::Mul, &price, &rest, &decimal(31, 4));
        let more = arith(ArithOp::Add, &one, &discount, &decimal(16, 2));
        let charge = arith(ArithOp::Mul, &discounted, &more, &DataType::Decimal256(47, 6));
        let whole: Arc<dyn PhysicalExpr> = Arc::new(CastExpr::new(column(2), decimal(12, 2), None));
        let sum = arith(ArithOp::Add, &whole, &charge, &DataType::Decimal256(48, 6));
        vec![price, rest, discounted, charge, whole, sum]
    }

    proptest! {
        #[test]
        fn sums_are_those_of_evaluated_values(
            rows in prop::collection::vec((-1_000_000_i64..1_000_000, -200_i64..200, -9_i32..9, 0_usize..3, -2_i64..3), 1..600),
            large in prop::option::of(0_usize..600),
            null in prop::option::of(0_usize..600)) {
            let decimals = |values: Vec<Option<i128>>| {
                let array: Decimal128Array = values.into_iter().collect();
                Arc::new(array.with_precision_and_scale(15, 2).expect("fits")) as ArrayRef
            };
            let price = |(at, row): (usize, &(i64, i64, i32, usize, i64))| match (null, large) {
                (Some(null), _) if null == at => None,
                (_, Some(large)) if large == at => Some(999_999_999_999_999),
                _ => Some(row.0.into()),
            };
            let columns = [
                decimals(rows.iter().enumerate().map(price).collect()),
                decimals(rows.iter().map(|row| Some(row.1.into())).collect()),
                Arc::new(rows.iter().map(|row| Some(row.2)).collect::<Int32Array>()) as ArrayRef,
                Arc::new(rows.iter().map(|row| i32::try_from(row.3).ok()).collect::<Int32Array>()) as ArrayRef,
            ];
            let types: Vec<DataType> = columns.iter().map(|column| column.data_type().clone()).collect();
            let fields: Vec<Field> = types.iter().map(|ty| Field::new("c", ty.clone(), true)).collect();
            let schema = Arc::new(Schema::new(fields));
            let batch = RecordBatch::try_new(Arc::clone(&schema), columns.to_vec()).expect("they fit");
            let mut program = Program { input: &schema, steps: Vec::new(), required: BTreeSet::new() };
            let expressions = expressions();
            let mut sums = Vec::new();
            for (at, expr) in expressions.iter().enumerate() {
                let step = program.step(expr).expect("it can be calculated");
                sums.push(Sum { step, at: FIRST + at, part_count: 1 });
            }
            // One sum is asked for twice.
            let again = Sum { step: sums[3].step, at: FIRST + expressions.len(), part_count: 1 };
            sums.push(again);
            // The columns are all there is in the rows, in their order.
            let Program { steps, .. } = program;
            let cutter = Cutter::new(&types, (0..4).collect()).expect("supported");
            let mut numbers = Numbers::of(cutter, Vec::new(), vec![3], vec![0, 1, 2], steps, sums, Vec::new());
            let encoded = RowCodec::new(&types).expect("supported").encode(&columns).expect("encodes");
            let update = |(at, row): (usize, &(i64, i64, i32, usize, i64))| (encoded.row(at), row.4);
            let updates: Vec<_> = rows.iter().enumerate().map(update).collect();
            let updates: Vec<Update<'_, u64>> =
                updates.iter().map(|(row, diff)| Update { row: row.data(), time: &0, diff: *diff }).collect();
            let width = FIRST + expressions.len() + 1;
            let mut groups = Groups::new(width);
            let is_done = numbers.add(&updates, &mut groups);
            assert_eq!(is_done, updates.iter().all(|update| update.row.first() != Some(&NULL)));
            if !is_done {
                return Ok(());
            }
            let mut expected = vec![vec![0; width]; 3];
            for row in &rows {
                expected[row.3][ROWS] += i128::from(row.4);
            }
            for (at, expr) in expressions.iter().enumerate() {
                let values = expr.evaluate(&batch).and_then(|value| value.into_array(rows.len())).expect("it evaluates");
                for (row, (_, _, _, group, diff)) in rows.iter().enumerate() {
                    let value = match values.as_primitive_opt::<Decimal128Type>() {
                        Some(values) => values.value(row),
                        None => values.as_primitive::<Decimal256Type>().value(row).to_i128().expect("it fits"),
                    };
                    expected[*group][FIRST + at] += value * i128::from(*diff);
                }
            }
            expected.iter_mut().for_each(|totals| totals[width - 1] = totals[FIRST + 3]);
            for (group, expected) in (0_i32..).zip(expected) {
                let is_there = rows.iter().any(|row| i32::try_from(row.3) == Ok(group));
                let at = rows.iter().position(|row| i32::try_from(row.3) == Ok(group));
                let found = at.map(|at| {
                    let mut cuts = Vec::new();
                    numbers.cutter.cut(updates[at].row, &mut cuts);
                    let base = groups.of(cuts[3], &0);
                    groups.totals[base..][..width].to_vec()
                });
                assert_eq!(found, is_there.then_some(expected));
            }
        }
    }
}
