//! `+ - * / %` on numbers, vectorised and checked.
//!
//! Overflow is 22003 and never wraps, a zero divisor is 22012, for floats too. Numerics are calculated on their
//! unscaled integers: where both operands' values fit 64 bits without checks, else in 128 bits where the result's precision
//! fits, else in 256.

mod short;

use crate::strict::null_of_null;
use arrow::array::{ArrayRef, AsArray, PrimitiveArray};
use arrow::compute::try_binary;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, Decimal256Type, DecimalType, Field, FieldRef, Float32Type,
    Float64Type, Int16Type, Int32Type, Int64Type, i256,
};
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use engine::error::SqlError;
use engine::value::overflow;
use pgrepr::numeric::{fits, power_of_ten, rescale};
use repr::PgType;
use repr::sqlstate::SqlState;
use std::sync::Arc;

/// An arithmetic operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ArithOp {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Rem,
}

impl ArithOp {
    /// As it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            ArithOp::Add => "+",
            ArithOp::Sub => "-",
            ArithOp::Mul => "*",
            ArithOp::Div => "/",
            ArithOp::Rem => "%",
        }
    }
}

/// An arithmetic operator for one result type; both operands are of that type, numerics with their own scales.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Arith {
    op: ArithOp,
    ty: PgType,
    data_type: DataType,
    signature: Signature,
}

impl Arith {
    /// The function for an operator and a result type.
    pub fn udf(op: ArithOp, ty: &PgType, data_type: &DataType) -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::new_from_impl(Arith {
            op,
            ty: ty.clone(),
            data_type: data_type.clone(),
            signature: Signature::any(2, Volatility::Immutable),
        }))
    }

    /// A sum, a difference or a product of numerics, calculated at once as another type of the same scale, which holds more digits;
    /// `None` if `expr` is none. To calculate wide takes less than to widen what was calculated.
    pub fn widened(expr: &Expr, data_type: &DataType) -> Option<Expr> {
        let Expr::ScalarFunction(call) = expr else { return None };
        let arith = call.func.inner().downcast_ref::<Arith>()?;
        if !matches!(arith.op, ArithOp::Add | ArithOp::Sub | ArithOp::Mul) {
            return None;
        }
        match (&arith.data_type, data_type) {
            (DataType::Decimal128(_, from), DataType::Decimal256(_, to)) if from == to => {
                let udf = Arith::udf(arith.op, &arith.ty, data_type);
                Some(Expr::ScalarFunction(ScalarFunction::new_udf(udf, call.args.clone())))
            }
            _ => None,
        }
    }
}

impl ScalarUDFImpl for Arith {
    fn name(&self) -> &str {
        self.op.symbol()
    }

    fn schema_name(&self, args: &[Expr]) -> DfResult<String> {
        let args: Vec<String> = args.iter().map(|arg| arg.schema_name().to_string()).collect();
        Ok(format!("({} :: {})", args.join(self.op.symbol()), self.data_type))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _args: &[DataType]) -> DfResult<DataType> {
        Ok(self.data_type.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.op.symbol(), self.data_type.clone(), nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn simplify(&self, args: Vec<Expr>, _info: &SimplifyContext) -> DfResult<ExprSimplifyResult> {
        null_of_null(args, &self.data_type)
    }

    fn evaluate_bounds(&self, _args: &[&Interval]) -> DfResult<Interval> {
        // Of the right type, without which comparisons of the result have no properties at all.
        Interval::make_unbounded(&self.data_type)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        // The optimizer asks what becomes of NULL with columns that have no other type.
        if args.args.iter().any(|arg| arg.data_type() == DataType::Null) {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from(&self.data_type)?));
        }
        let scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let (left, right) = (&args.args[0], &args.args[1]);
        let array = match short::calculate(self.op, &self.data_type, left, right) {
            Some(array) => array,
            None => calculate(self.op, &self.ty, &self.data_type, &left.to_array(rows)?, &right.to_array(rows)?)?,
        };
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?));
        }
        Ok(ColumnarValue::Array(array))
    }
}

fn calculate(
    op: ArithOp,
    ty: &PgType,
    data_type: &DataType,
    left: &ArrayRef,
    right: &ArrayRef,
) -> Result<ArrayRef, SqlError> {
    match data_type {
        DataType::Int16 => {
            let (l, r) = (left.as_primitive::<Int16Type>(), right.as_primitive::<Int16Type>());
            integers(op, ty, l, r, i16::checked_add, i16::checked_sub, i16::checked_mul, i16::checked_div, |a, b| {
                a.wrapping_rem(b)
            })
        }
        DataType::Int32 => {
            let (l, r) = (left.as_primitive::<Int32Type>(), right.as_primitive::<Int32Type>());
            integers(op, ty, l, r, i32::checked_add, i32::checked_sub, i32::checked_mul, i32::checked_div, |a, b| {
                a.wrapping_rem(b)
            })
        }
        DataType::Int64 => {
            let (l, r) = (left.as_primitive::<Int64Type>(), right.as_primitive::<Int64Type>());
            integers(op, ty, l, r, i64::checked_add, i64::checked_sub, i64::checked_mul, i64::checked_div, |a, b| {
                a.wrapping_rem(b)
            })
        }
        DataType::Float32 => {
            let (l, r) = (left.as_primitive::<Float32Type>(), right.as_primitive::<Float32Type>());
            let out: PrimitiveArray<Float32Type> = try_binary(l, r, |a, b| {
                float(op, a.into(), b.into(), |v| f64::from(v as f32)).map(|v| v as f32).map_err(Into::into)
            })?;
            Ok(Arc::new(out))
        }
        DataType::Float64 => {
            let (l, r) = (left.as_primitive::<Float64Type>(), right.as_primitive::<Float64Type>());
            let out: PrimitiveArray<Float64Type> = try_binary(l, r, |a, b| float(op, a, b, |v| v).map_err(Into::into))?;
            Ok(Arc::new(out))
        }
        DataType::Decimal128(_, scale) if is_narrow(left) && is_narrow(right) && op != ArithOp::Div => {
            narrow(op, data_type, *scale, left, right)
        }
        DataType::Decimal128(..) | DataType::Decimal256(..) => wide(op, data_type, left, right),
        other => Err(SqlError::internal(format!("no arithmetic on {other}"))),
    }
}

type Checked<N> = fn(N, N) -> Option<N>;

#[expect(clippy::too_many_arguments, reason = "the checked operations of three integer types share no trait")]
fn integers<T: ArrowPrimitiveType>(
    op: ArithOp,
    ty: &PgType,
    left: &PrimitiveArray<T>,
    right: &PrimitiveArray<T>,
    add: Checked<T::Native>,
    sub: Checked<T::Native>,
    mul: Checked<T::Native>,
    div: Checked<T::Native>,
    rem: fn(T::Native, T::Native) -> T::Native,
) -> Result<ArrayRef, SqlError> {
    let out_of_range = || SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{} out of range", ty.name()));
    let zero = T::default_value();
    let checked = |f: Checked<T::Native>| {
        try_binary::<_, _, _, T>(left, right, move |a, b| f(a, b).ok_or_else(|| out_of_range().into()))
    };
    let out: PrimitiveArray<T> = match op {
        ArithOp::Add => checked(add)?,
        ArithOp::Sub => checked(sub)?,
        ArithOp::Mul => checked(mul)?,
        ArithOp::Div => try_binary(left, right, |a, b| {
            if b == zero { Err(division_by_zero().into()) } else { div(a, b).ok_or_else(|| out_of_range().into()) }
        })?,
        ArithOp::Rem => {
            try_binary(left, right, |a, b| if b == zero { Err(division_by_zero().into()) } else { Ok(rem(a, b)) })?
        }
    };
    Ok(Arc::new(out))
}

/// 22012
pub fn division_by_zero() -> SqlError {
    SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

/// Float arithmetic with Postgres's errors: an infinite result of finite operands is overflow.
fn float(op: ArithOp, a: f64, b: f64, round: impl Fn(f64) -> f64) -> Result<f64, SqlError> {
    let value = round(match op {
        ArithOp::Add => a + b,
        ArithOp::Sub => a - b,
        ArithOp::Mul => a * b,
        ArithOp::Div if b == 0.0 && !a.is_nan() => return Err(division_by_zero()),
        ArithOp::Div => a / b,
        ArithOp::Rem => a % b,
    });
    if value.is_infinite() && a.is_finite() && b.is_finite() {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow"));
    }
    let underflow = match op {
        ArithOp::Mul => a != 0.0 && b != 0.0,
        ArithOp::Div => a != 0.0 && b.is_finite(),
        _ => false,
    };
    if value == 0.0 && underflow {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: underflow"));
    }
    Ok(value)
}

fn is_narrow(array: &ArrayRef) -> bool {
    matches!(array.data_type(), DataType::Decimal128(..))
}

fn scale_of(array: &ArrayRef) -> i8 {
    match array.data_type() {
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => *scale,
        _ => 0,
    }
}

/// In 128 bits. The result's precision was chosen so that sums and products of legal operands fit.
fn narrow(
    op: ArithOp,
    data_type: &DataType,
    scale: i8,
    left: &ArrayRef,
    right: &ArrayRef,
) -> Result<ArrayRef, SqlError> {
    let (l, r) = (left.as_primitive::<Decimal128Type>(), right.as_primitive::<Decimal128Type>());
    let factor = |from: i8| 10_i128.pow((i32::from(scale) - i32::from(from)).max(0).unsigned_abs());
    let (fl, fr) = (factor(scale_of(left)), factor(scale_of(right)));
    let checked = |v: Option<i128>| v.ok_or_else(|| overflow().into());
    let out: PrimitiveArray<Decimal128Type> = match op {
        ArithOp::Add if fl == 1 && fr == 1 => try_binary(l, r, |a, b| checked(a.checked_add(b)))?,
        ArithOp::Sub if fl == 1 && fr == 1 => try_binary(l, r, |a, b| checked(a.checked_sub(b)))?,
        ArithOp::Mul if scale_of(left) + scale_of(right) == scale => {
            try_binary(l, r, |a: i128, b| checked(a.checked_mul(b)))?
        }
        ArithOp::Rem => try_binary(l, r, |a: i128, b: i128| {
            let (a, b) = (a.checked_mul(fl), b.checked_mul(fr));
            match (a, b) {
                (_, Some(0)) => Err(division_by_zero().into()),
                (Some(a), Some(b)) => Ok(a.wrapping_rem(b)),
                _ => Err(overflow().into()),
            }
        })?,
        ArithOp::Add => try_binary(l, r, |a: i128, b: i128| {
            checked(a.checked_mul(fl).and_then(|a| a.checked_add(b.checked_mul(fr)?)))
        })?,
        ArithOp::Sub => try_binary(l, r, |a: i128, b: i128| {
            checked(a.checked_mul(fl).and_then(|a| a.checked_sub(b.checked_mul(fr)?)))
        })?,
        _ => return wide(op, data_type, left, right),
    };
    Ok(Arc::new(out.with_data_type(data_type.clone())))
}

/// In 256 bits, checked against the result's precision.
fn wide(op: ArithOp, data_type: &DataType, left: &ArrayRef, right: &ArrayRef) -> Result<ArrayRef, SqlError> {
    let (precision, scale) = match data_type {
        DataType::Decimal128(p, s) | DataType::Decimal256(p, s) => (*p, *s),
        other => return Err(SqlError::internal(format!("no decimal {other}"))),
    };
    let (sl, sr) = (scale_of(left), scale_of(right));
    let is_product = op == ArithOp::Mul && i32::from(sl) + i32::from(sr) == i32::from(scale);
    if is_product && precision > Decimal128Type::MAX_PRECISION && is_narrow(left) && is_narrow(right) {
        let (l, r) = (left.as_primitive::<Decimal128Type>(), right.as_primitive::<Decimal128Type>());
        let out: PrimitiveArray<Decimal256Type> = try_binary(l, r, |a, b| {
            // What fits 128 bits has no more digits than the result may have.
            if let Some(product) = a.checked_mul(b) {
                return Ok(i256::from_i128(product));
            }
            let product =
                i256::from_i128(a).checked_mul(i256::from_i128(b)).filter(|product| fits(*product, precision));
            product.ok_or_else(|| overflow().into())
        })?;
        return Ok(Arc::new(out.with_data_type(data_type.clone())));
    }
    let l = in_256_bits(left)?;
    let r = in_256_bits(right)?;
    let out: PrimitiveArray<Decimal256Type> = try_binary(&l, &r, |a, b| {
        let value = wide_one(op, (a, sl), (b, sr), scale)?;
        if fits(value, precision) { Ok(value) } else { Err(overflow().into()) }
    })?;
    match data_type {
        DataType::Decimal128(..) => {
            let narrow: PrimitiveArray<Decimal128Type> =
                out.try_unary(|v| v.to_i128().ok_or_else(|| arrow::error::ArrowError::from(overflow())))?;
            Ok(Arc::new(narrow.with_data_type(data_type.clone())))
        }
        _ => Ok(Arc::new(out.with_data_type(data_type.clone()))),
    }
}

fn in_256_bits(array: &ArrayRef) -> Result<PrimitiveArray<Decimal256Type>, SqlError> {
    match array.data_type() {
        DataType::Decimal256(..) => Ok(array.as_primitive::<Decimal256Type>().clone()),
        DataType::Decimal128(_, scale) => {
            let wide: PrimitiveArray<Decimal256Type> = array.as_primitive::<Decimal128Type>().unary(i256::from_i128);
            Ok(wide.with_data_type(DataType::Decimal256(Decimal256Type::MAX_PRECISION, *scale)))
        }
        other => Err(SqlError::internal(format!("no decimal {other}"))),
    }
}

fn wide_one(op: ArithOp, (a, sa): (i256, i8), (b, sb): (i256, i8), scale: i8) -> Result<i256, SqlError> {
    match op {
        ArithOp::Add | ArithOp::Sub => {
            let (a, b) = (rescale(a, sa, scale).ok_or_else(overflow)?, rescale(b, sb, scale).ok_or_else(overflow)?);
            if op == ArithOp::Add { a.checked_add(b) } else { a.checked_sub(b) }.ok_or_else(overflow)
        }
        ArithOp::Mul => {
            let product = a.checked_mul(b).ok_or_else(overflow)?;
            rescale(product, sa.saturating_add(sb), scale).ok_or_else(overflow)
        }
        ArithOp::Rem => {
            let (a, b) = (rescale(a, sa, scale).ok_or_else(overflow)?, rescale(b, sb, scale).ok_or_else(overflow)?);
            if b == i256::ZERO { Err(division_by_zero()) } else { a.checked_rem(b).ok_or_else(overflow) }
        }
        ArithOp::Div => {
            let (quotient, digits) = divide((a, sa), (b, sb))?;
            rescale(quotient, digits, scale).ok_or_else(overflow)
        }
    }
}

/// The quotient rounded to as many digits as Postgres computes, and their number.
///
/// Postgres keeps at least 16 significant digits, counted in groups of four, and never fewer than the operands show.
/// Our numerics end at 38 digits after the point.
pub fn divide((a, sa): (i256, i8), (b, sb): (i256, i8)) -> Result<(i256, i8), SqlError> {
    if b == i256::ZERO {
        return Err(division_by_zero());
    }
    let (wa, da) = leading_group(a, sa);
    let (wb, db) = leading_group(b, sb);
    let mut weight = wa - wb;
    if da <= db {
        weight -= 1;
    }
    let digits = (16 - weight * 4).max(sa.into()).max(sb.into()).clamp(0, 38) as i8;
    // a / 10^sa / (b / 10^sb) in units of 10^-digits
    let shift = i32::from(digits) + i32::from(sb) - i32::from(sa);
    let (numerator, denominator) = if shift >= 0 {
        let factor = power_of_ten(shift.unsigned_abs()).ok_or_else(overflow)?;
        (a.checked_mul(factor).ok_or_else(overflow)?, b)
    } else {
        let factor = power_of_ten(shift.unsigned_abs()).ok_or_else(overflow)?;
        (a, b.checked_mul(factor).ok_or_else(overflow)?)
    };
    let quotient = numerator.checked_div(denominator).ok_or_else(overflow)?;
    let remainder = numerator.checked_rem(denominator).ok_or_else(overflow)?.wrapping_abs();
    let half = denominator.wrapping_abs().wrapping_sub(remainder);
    if remainder >= half {
        let one = if (numerator < i256::ZERO) == (denominator < i256::ZERO) { i256::ONE } else { i256::MINUS_ONE };
        return Ok((quotient.checked_add(one).ok_or_else(overflow)?, digits));
    }
    Ok((quotient, digits))
}

/// The weight and value of the first group of four digits, as Postgres stores numerics.
fn leading_group(value: i256, scale: i8) -> (i32, u32) {
    if value == i256::ZERO {
        return (0, 0);
    }
    let magnitude = value.wrapping_abs();
    // Its first digits, and how many there are in all.
    let (first, first_digits, digits) = match magnitude.to_i128() {
        Some(magnitude) => (magnitude, magnitude.ilog10() + 1, magnitude.ilog10() + 1),
        None => {
            let text = magnitude.to_string();
            (text[..4].parse().unwrap_or(0), 4, text.len() as u32)
        }
    };
    let whole_digits = digits as i32 - i32::from(scale);
    // The group that the first digit is in, counted from the point.
    let weight = (whole_digits + 3).div_euclid(4) - 1;
    let in_group = (whole_digits - weight * 4).unsigned_abs();
    let group = match first_digits.checked_sub(in_group) {
        Some(rest) => first / 10_i128.pow(rest),
        None => first * 10_i128.pow(in_group - first_digits),
    };
    (weight, u32::try_from(group).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::{divide, leading_group};
    use arrow::datatypes::i256;

    #[test]
    fn leading_groups_are_counted_from_the_point() {
        let group = |v: i128, scale| leading_group(i256::from_i128(v), scale);
        assert_eq!(group(12_345, 0), (1, 1));
        assert_eq!(group(-12_345, 2), (0, 123));
        assert_eq!(group(5, 1), (-1, 5_000));
        assert_eq!(group(5, 6), (-2, 500));
        assert_eq!(group(1, -3), (0, 1_000));
        let wide = i256::from_i128(i128::MAX).wrapping_mul(i256::from_i128(1_000_000));
        assert_eq!(leading_group(wide, 0), (11, 1));
        assert_eq!(leading_group(wide, 2), (10, 170));
    }

    #[test]
    fn quotients_have_postgres_digits() {
        let int = |v: i128| i256::from_i128(v);
        // 1/3, 10/3, 1.0/1.0 and 2/0.3 on PostgreSQL 15.
        assert_eq!(divide((int(1), 0), (int(3), 0)), Ok((int(33_333_333_333_333_333_333), 20)));
        assert_eq!(divide((int(10), 0), (int(3), 0)), Ok((int(33_333_333_333_333_333), 16)));
        assert_eq!(divide((int(10), 1), (int(10), 1)).map(|(_, digits)| digits), Ok(20));
    }
}
