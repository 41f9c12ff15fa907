//! Operators: which one the operands' types choose, and the expression that computes it.
//!
//! Comparisons of plain types become DataFusion's own, which the optimizer and the index paths understand; types whose
//! Arrow order or equality is not Postgres's (interval, char(n), floats with negative zero) are compared by a key.
//! Arithmetic on numbers is typed here and computed by `sql_functions::arith`; everything else is looked up by symbol in
//! the function library.

use super::Binder;
use crate::bind::coerce;
use crate::bind::cx::Cx;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, Operator, binary_expr};
use engine::error::SqlError;
use engine::value::from_scalar;
use pgrepr::length::LengthRule;
use repr::sqlstate::SqlState;
use repr::types::{NUMERIC, NUMERIC_PRECISION, NUMERIC_SCALE, NumericDisplay};
use repr::{Datum, PgType};
use sql_functions::TypedExpr;
use sql_functions::arith::{Arith, ArithOp};
use sql_functions::decimals::{common_decimal, decimal, precision_and_scale};
use sql_functions::order::is_exact;
use sql_functions::registry::operator_missing;
use sql_functions::types::{self, category, is_float, is_integer, is_number, is_oidlike, is_stringlike};
use sqlparser::ast::{self, BinaryOperator, Spanned, Value, ValueWithSpan};
use sqlparser::tokenizer::Span;

impl Binder<'_> {
    /// A binary operator other than AND and OR.
    pub fn binary(
        &mut self,
        op: &BinaryOperator,
        left: TypedExpr,
        right: TypedExpr,
        span: Span,
    ) -> Result<TypedExpr, SqlError> {
        use BinaryOperator as B;
        let comparison = match op {
            B::Eq => Some(Operator::Eq),
            B::NotEq => Some(Operator::NotEq),
            B::Lt => Some(Operator::Lt),
            B::LtEq => Some(Operator::LtEq),
            B::Gt => Some(Operator::Gt),
            B::GtEq => Some(Operator::GtEq),
            _ => None,
        };
        if let Some(comparison) = comparison {
            return self.compare(comparison, left, right, span);
        }
        let symbol = match op {
            B::PGCustomBinaryOperator(parts) => {
                let symbol = parts.last().cloned().unwrap_or_default();
                return self.custom_operator(&symbol, left, right, span);
            }
            B::Custom(symbol) => return self.custom_operator(symbol, left, right, span),
            B::PGExp | B::BitwiseXor => "^".to_owned(),
            B::PGBitwiseXor => "#".to_owned(),
            B::PGLikeMatch => "~~".to_owned(),
            B::PGNotLikeMatch => "!~~".to_owned(),
            B::PGILikeMatch => "~~*".to_owned(),
            B::PGNotILikeMatch => "!~~*".to_owned(),
            other => other.to_string(),
        };
        self.operator_by_symbol(&symbol, left, right, span)
    }

    /// `OPERATOR(pg_catalog.~)`
    fn custom_operator(
        &mut self,
        symbol: &str,
        left: TypedExpr,
        right: TypedExpr,
        span: Span,
    ) -> Result<TypedExpr, SqlError> {
        match symbol {
            "=" => self.compare(Operator::Eq, left, right, span),
            "<>" | "!=" => self.compare(Operator::NotEq, left, right, span),
            "<" => self.compare(Operator::Lt, left, right, span),
            "<=" => self.compare(Operator::LtEq, left, right, span),
            ">" => self.compare(Operator::Gt, left, right, span),
            ">=" => self.compare(Operator::GtEq, left, right, span),
            other => self.operator_by_symbol(other, left, right, span),
        }
    }

    fn operator_by_symbol(
        &mut self,
        symbol: &str,
        left: TypedExpr,
        right: TypedExpr,
        span: Span,
    ) -> Result<TypedExpr, SqlError> {
        let arith = match symbol {
            "+" => Some(ArithOp::Add),
            "-" => Some(ArithOp::Sub),
            "*" => Some(ArithOp::Mul),
            "/" => Some(ArithOp::Div),
            "%" => Some(ArithOp::Rem),
            _ => None,
        };
        if let Some(op) = arith {
            let (l, r) = (&left.ty, &right.ty);
            let both_undecided = *l == PgType::Unknown && *r == PgType::Unknown;
            let numbers = |a: &PgType, b: &PgType| is_number(a) && (is_number(b) || *b == PgType::Unknown);
            if !both_undecided && (numbers(l, r) || numbers(r, l)) {
                return self.arithmetic(op, left, right, span);
            }
        }
        if let Some((name, negated)) = pattern_operator(symbol) {
            let (l, r) = (left.ty.clone(), right.ty.clone());
            let left = if name == "starts_with" { left } else { with_blanks(left) };
            let matched = self.call(name, vec![left, right], span).map_err(|error| match error.sqlstate {
                SqlState::UNDEFINED_FUNCTION => operator_missing(symbol, &l, &r).at(span),
                _ => error,
            })?;
            let expr = if negated { Expr::Not(Box::new(matched.expr)) } else { matched.expr };
            return Ok(TypedExpr { expr, ..matched });
        }
        if symbol == "||" {
            return self.concat(left, right, span);
        }
        let shifted = match symbol {
            "+" if left.ty == PgType::Timestamptz && is_time_alone(&right) => {
                Some(("timestamptz_plus", left.clone(), right.clone()))
            }
            "+" if right.ty == PgType::Timestamptz && is_time_alone(&left) => {
                Some(("timestamptz_plus", right.clone(), left.clone()))
            }
            "-" if left.ty == PgType::Timestamptz && is_time_alone(&right) => {
                Some(("timestamptz_minus", left.clone(), right.clone()))
            }
            _ => None,
        };
        if let Some((name, at, by)) = shifted {
            return self.call(name, vec![at, by], span);
        }
        self.call(symbol, vec![left, right], span)
    }

    /// `+ - * / %` on numbers.
    fn arithmetic(
        &mut self,
        op: ArithOp,
        left: TypedExpr,
        right: TypedExpr,
        span: Span,
    ) -> Result<TypedExpr, SqlError> {
        // An undecided operand takes the other's type.
        let (left, right) = match (left.ty == PgType::Unknown, right.ty == PgType::Unknown) {
            (true, false) => (self.coercer.cast(left, &types::base(&right.ty), LengthRule::Cast)?, right),
            (false, true) => {
                let to = types::base(&left.ty);
                (left, self.coercer.cast(right, &to, LengthRule::Cast)?)
            }
            _ => (left, right),
        };
        let Some(ty) = arithmetic_type(&left.ty, &right.ty) else {
            return Err(operator_missing(op.symbol(), &left.ty, &right.ty).at(span));
        };
        if op == ArithOp::Rem && is_float(&ty) {
            return Err(operator_missing(op.symbol(), &left.ty, &right.ty).at(span));
        }
        let left = self.coercer.cast(left, &ty, LengthRule::Cast)?;
        let right = self.coercer.cast(right, &ty, LengthRule::Cast)?;
        let (result, data_type) = match ty {
            PgType::Numeric(_) => numeric_result(op, &left, &right),
            ref ty => (ty.clone(), ty.data_type()),
        };
        let udf = Arith::udf(op, &result, &data_type);
        let nullable = left.nullable || right.nullable;
        let expr = Expr::ScalarFunction(ScalarFunction::new_udf(udf, vec![left.expr, right.expr]));
        Ok(TypedExpr { expr, ty: result, data_type, nullable })
    }

    /// A comparison, after bringing both sides to one type.
    pub fn compare(
        &mut self,
        op: Operator,
        left: TypedExpr,
        right: TypedExpr,
        span: Span,
    ) -> Result<TypedExpr, SqlError> {
        let symbol = match op {
            Operator::IsDistinctFrom | Operator::IsNotDistinctFrom => "=".to_owned(),
            op => op.to_string(),
        };
        let symbol = if symbol == "!=" { "<>".to_owned() } else { symbol };
        let left = self.now_beside(left, &right)?;
        let right = self.now_beside(right, &left)?;
        let target = comparison_type(&left.ty, &right.ty)
            .ok_or_else(|| operator_missing(&symbol, &left.ty, &right.ty).at(span))?;
        let ordered =
            !matches!(op, Operator::Eq | Operator::NotEq | Operator::IsDistinctFrom | Operator::IsNotDistinctFrom);
        if !has_equality(&target) {
            return Err(operator_missing(&symbol, &left.ty, &right.ty).at(span));
        }
        let declared = [left.ty.clone(), right.ty.clone()];
        let left = self.coercer.cast(left, &target, LengthRule::Cast).map_err(|error| error.at(span))?;
        let right = self.coercer.cast(right, &target, LengthRule::Cast).map_err(|error| error.at(span))?;
        let (left, right) = match target {
            PgType::Numeric(_) => self.same_decimal(left, right)?,
            _ => (left, right),
        };
        let (left, right) = match ordered {
            true => (self.order_key(left)?, self.order_key(right)?),
            false => {
                let mut keys = self.comparison_keys(vec![left, right], &declared)?;
                let right = keys.remove(1);
                (keys.remove(0).expr, right.expr)
            }
        };
        let expr = binary_expr(left, op, right);
        Ok(TypedExpr::new(expr, PgType::Bool, DataType::Boolean))
    }

    fn same_decimal(&mut self, left: TypedExpr, right: TypedExpr) -> Result<(TypedExpr, TypedExpr), SqlError> {
        if left.data_type == right.data_type {
            return Ok((left, right));
        }
        let both = [(left.data_type.clone(), left.ty.clone()), (right.data_type.clone(), right.ty.clone())];
        let (data_type, ty) = common_decimal(&both);
        // A constant that fits the column's type exactly leaves the column alone.
        for (column, constant) in [(&left, &right), (&right, &left)] {
            if constant.as_literal().is_some()
                && let Ok(exact) = self.coercer.store_exactly(constant.clone(), &column.data_type)
            {
                let column = column.clone();
                return Ok(if std::ptr::eq(constant, &right) { (column, exact) } else { (exact, column) });
            }
        }
        Ok((self.coercer.store_as(left, &ty, &data_type)?, self.coercer.store_as(right, &ty, &data_type)?))
    }

    /// What expressions of one type are matched by. They had the `declared` types before they were brought to it: of char(n)
    /// the longest stay as they are, so that an index of a column is of use.
    pub fn comparison_keys(&mut self, exprs: Vec<TypedExpr>, declared: &[PgType]) -> Result<Vec<TypedExpr>, SqlError> {
        let length = |ty: &PgType| if let PgType::Bpchar(length) = ty { *length } else { None };
        let longest = declared.iter().filter_map(length).max();
        let key = |(typed, declared): (TypedExpr, &PgType)| match (&typed.ty, longest) {
            (PgType::Bpchar(_), Some(longest)) if length(declared) == Some(longest) => Ok(typed),
            (PgType::Bpchar(_), Some(longest)) => {
                let longest = TypedExpr::constant(&Datum::Int4(longest.cast_signed()), PgType::Int4)?;
                self.call("bpchar_padded", vec![typed, longest], Span::empty())
            }
            _ => self.comparison_key(typed),
        };
        exprs.into_iter().zip(declared).map(key).collect()
    }

    /// What an expression is matched and grouped by: equal where it is equal, and nowhere else.
    pub fn comparison_key(&mut self, typed: TypedExpr) -> Result<TypedExpr, SqlError> {
        match typed.ty {
            PgType::Bpchar(None) => self.call("bpchar_key", vec![typed], Span::empty()),
            PgType::Interval => self.call("interval_key", vec![typed], Span::empty()),
            ref ty if !is_exact(ty) => self.call("order_key", vec![typed], Span::empty()),
            _ => Ok(typed),
        }
    }

    /// What an expression is sorted by.
    pub fn order_key(&mut self, typed: TypedExpr) -> Result<Expr, SqlError> {
        if !has_equality(&typed.ty) {
            return Err(SqlError::new(
                SqlState::UNDEFINED_FUNCTION,
                format!("could not identify an ordering operator for type {}", typed.ty.name()),
            )
            .with_hint("Use an explicit ordering operator or modify the query."));
        }
        match typed.ty {
            PgType::Array(_) => Ok(self.call("order_key", vec![typed], Span::empty())?.expr),
            PgType::Bpchar(_) => Ok(self.call("bpchar_key", vec![typed], Span::empty())?.expr),
            _ => Ok(self.comparison_key(typed)?.expr),
        }
    }

    /// 42883 for types without equality.
    pub fn require_equality(&self, left: &PgType, right: &PgType) -> Result<(), SqlError> {
        if has_equality(left) { Ok(()) } else { Err(operator_missing("=", left, right)) }
    }

    /// 42883 for types whose values cannot be told from their equals.
    pub fn require_distinct(&self, ty: &PgType) -> Result<(), SqlError> {
        if has_equality(ty) {
            return Ok(());
        }
        let message = format!("could not identify an equality operator for type {}", ty.name());
        Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message))
    }

    /// `||`: text with anything, arrays with arrays and items, jsonb and bytea with themselves.
    fn concat(&mut self, left: TypedExpr, right: TypedExpr, span: Span) -> Result<TypedExpr, SqlError> {
        let (left, right) = (left.vector_as_array(), right.vector_as_array());
        let stringy = |ty: &PgType| is_stringlike(ty) || *ty == PgType::Unknown;
        let is_array = |ty: &PgType| matches!(ty, PgType::Array(_));
        match (&left.ty, &right.ty) {
            (l, r) if is_array(l) || is_array(r) => self.concat_arrays(left, right, span),
            (PgType::Bytea, PgType::Bytea | PgType::Unknown) | (PgType::Unknown, PgType::Bytea) => {
                self.call("bytea_concat", vec![left, right], span)
            }
            (PgType::Jsonb, PgType::Jsonb | PgType::Unknown) | (PgType::Unknown, PgType::Jsonb) => {
                self.call("jsonb_concat", vec![left, right], span)
            }
            (l, r) if stringy(l) || stringy(r) => {
                let left = self.text_operand(left)?;
                let right = self.text_operand(right)?;
                self.call("text_concat", vec![left, right], span)
            }
            (l, r) => Err(operator_missing("||", l, r).at(span)),
        }
    }

    fn text_operand(&mut self, typed: TypedExpr) -> Result<TypedExpr, SqlError> {
        if matches!(typed.ty, PgType::Bpchar(_)) {
            // char(n) loses its blanks on the way to text.
            return self.coercer.cast(typed, &PgType::Text, LengthRule::Cast);
        }
        self.coercer.cast(typed, &PgType::Text, LengthRule::Cast)
    }

    fn concat_arrays(&mut self, left: TypedExpr, right: TypedExpr, span: Span) -> Result<TypedExpr, SqlError> {
        let (name, args) = match (&left.ty, &right.ty) {
            (PgType::Array(_), PgType::Array(_) | PgType::Unknown) | (PgType::Unknown, PgType::Array(_)) => {
                ("array_cat", vec![left, right])
            }
            (PgType::Array(_), _) => ("array_append", vec![left, right]),
            _ => ("array_prepend", vec![left, right]),
        };
        self.call(name, args, span)
    }

    /// LIKE, ILIKE and SIMILAR TO with an optional ESCAPE.
    #[expect(clippy::too_many_arguments, reason = "the parts of what was written, and where it is bound")]
    pub fn like(
        &mut self,
        expr: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ValueWithSpan>,
        name: &str,
        negated: bool,
        cx: &Cx<'_>,
    ) -> Result<TypedExpr, SqlError> {
        let value = self.expr(expr, cx)?;
        let declared = value.ty.clone();
        let mut args = vec![with_blanks(value), self.expr(pattern, cx)?];
        if let Some(escape) = escape {
            match &escape.value {
                Value::SingleQuotedString(_) => args.push(self.literal(escape)?),
                _ => return Err(SqlError::unsupported("ESCAPE of an expression").at(escape.span)),
            }
        }
        let (name, symbol) = match (name, negated) {
            ("like", false) => ("like", "~~"),
            ("like", true) => ("like", "!~~"),
            ("ilike", false) => ("ilike", "~~*"),
            ("ilike", true) => ("ilike", "!~~*"),
            (_, false) => ("similar_to", "~"),
            (_, true) => ("similar_to", "!~"),
        };
        let (left, right) = (declared, args[1].ty.clone());
        let matched = self.call(name, args, pattern.span()).map_err(|error| match error.sqlstate {
            SqlState::UNDEFINED_FUNCTION => operator_missing(symbol, &left, &right).at(expr.span()),
            _ => error,
        })?;
        let expr = if negated { Expr::Not(Box::new(matched.expr)) } else { matched.expr };
        Ok(TypedExpr { expr, ..matched })
    }
}

impl coerce::Coercer<'_> {
    /// A constant under another Arrow type, if that changes nothing of its value.
    pub fn store_exactly(&mut self, typed: TypedExpr, data_type: &DataType) -> Result<TypedExpr, SqlError> {
        let original = typed.as_literal().cloned().unwrap_or(ScalarValue::Null);
        let (_, from) = precision_and_scale(&typed.data_type);
        let (_, to) = precision_and_scale(data_type);
        let ty = typed.ty.clone();
        let stored = self.store_as(typed, &ty, data_type)?;
        if to >= from {
            return Ok(stored);
        }
        let back = from_scalar(stored.as_literal().unwrap_or(&ScalarValue::Null))?;
        let scalar = engine::value::to_scalar(&back, &original.data_type())?;
        if scalar == original { Ok(stored) } else { Err(SqlError::internal("not exact")) }
    }
}

/// Whether this is an interval without months and days: it means the same in every time zone.
fn is_time_alone(typed: &TypedExpr) -> bool {
    let value = typed.as_literal().filter(|_| typed.ty == PgType::Interval);
    value.is_some_and(|value| matches!(from_scalar(value), Ok(Datum::Interval(0, 0, _))))
}

/// What a pattern is matched with: a char(n) with the blanks that fill it up, which count nowhere else.
fn with_blanks(value: TypedExpr) -> TypedExpr {
    match value.ty {
        PgType::Bpchar(_) => TypedExpr { ty: PgType::Text, ..value },
        _ => value,
    }
}

/// The pattern-matching operators and the functions behind them.
fn pattern_operator(symbol: &str) -> Option<(&'static str, bool)> {
    Some(match symbol {
        "~~" => ("like", false),
        "!~~" => ("like", true),
        "~~*" => ("ilike", false),
        "!~~*" => ("ilike", true),
        "~" => ("regex_match", false),
        "!~" => ("regex_match", true),
        "~*" => ("regex_imatch", false),
        "!~*" => ("regex_imatch", true),
        "^@" => ("starts_with", false),
        _ => return None,
    })
}

/// The type in which two numbers are calculated with.
fn arithmetic_type(left: &PgType, right: &PgType) -> Option<PgType> {
    if !is_number(left) || !is_number(right) {
        return None;
    }
    if types::base(left) == types::base(right) {
        return Some(types::base(left));
    }
    if is_float(left) || is_float(right) {
        return Some(PgType::Float8);
    }
    if matches!(left, PgType::Numeric(_)) || matches!(right, PgType::Numeric(_)) {
        return Some(NUMERIC);
    }
    Some(if *left == PgType::Int8 || *right == PgType::Int8 { PgType::Int8 } else { PgType::Int4 })
}

/// Scale, precision and display of the result of numeric arithmetic.
fn numeric_result(op: ArithOp, left: &TypedExpr, right: &TypedExpr) -> (PgType, DataType) {
    let ((p1, s1), (p2, s2)) = (precision_and_scale(&left.data_type), precision_and_scale(&right.data_type));
    let free = |ty: &PgType| matches!(ty, PgType::Numeric(NumericDisplay::Trimmed | NumericDisplay::Quotient));
    let ty = if free(&left.ty) || free(&right.ty) { NUMERIC } else { PgType::Numeric(NumericDisplay::Scale) };
    let (whole1, whole2) = (i16::from(p1) - i16::from(s1), i16::from(p2) - i16::from(s2));
    let clamp = |precision: i16| precision.clamp(1, NUMERIC_PRECISION.into()) as u8;
    match op {
        ArithOp::Add | ArithOp::Sub => {
            let scale = s1.max(s2);
            (ty, decimal(clamp(whole1.max(whole2) + 1 + i16::from(scale)), scale))
        }
        ArithOp::Mul => {
            let scale = s1.saturating_add(s2).min(s1.max(s2).max(2 * NUMERIC_SCALE));
            (ty, decimal(clamp(whole1 + whole2 + i16::from(scale)), scale))
        }
        ArithOp::Rem => {
            let scale = s1.max(s2);
            (ty, decimal(clamp(whole1.max(whole2) + i16::from(scale)), scale))
        }
        ArithOp::Div => {
            (PgType::Numeric(NumericDisplay::Quotient), DataType::Decimal256(NUMERIC_PRECISION, NUMERIC_SCALE))
        }
    }
}

/// The type in which two values are compared.
pub fn comparison_type(left: &PgType, right: &PgType) -> Option<PgType> {
    use PgType as T;
    let (l, r) = (types::base(left), types::base(right));
    if l == r {
        return Some(if l == T::Unknown || matches!(l, T::Varchar(_)) { T::Text } else { l });
    }
    match (&l, &r) {
        (T::Unknown, other) | (other, T::Unknown) => {
            return Some(match other {
                T::Varchar(_) => T::Text,
                other => (*other).clone(),
            });
        }
        _ => {}
    }
    let as_array = |ty: &T| ty.vector_item().map(|item| T::Array(Box::new(item)));
    if as_array(&l).is_some() || as_array(&r).is_some() {
        return comparison_type(&as_array(&l).unwrap_or(l), &as_array(&r).unwrap_or(r));
    }
    if is_number(&l) && is_number(&r) {
        return arithmetic_type(&l, &r);
    }
    if is_oidlike(&l) && (is_oidlike(&r) || is_integer(&r)) || is_oidlike(&r) && is_integer(&l) {
        return Some(T::Oid);
    }
    match (&l, &r) {
        (T::Bpchar(_), T::Varchar(_)) | (T::Varchar(_), T::Bpchar(_)) => Some(T::Bpchar(None)),
        (l, r) if is_stringlike(l) && is_stringlike(r) => Some(T::Text),
        (T::Date, T::Timestamp) | (T::Timestamp, T::Date) => Some(T::Timestamp),
        (T::Date | T::Timestamp, T::Timestamptz) | (T::Timestamptz, T::Date | T::Timestamp) => Some(T::Timestamptz),
        (T::Time, T::Interval) | (T::Interval, T::Time) => Some(T::Interval),
        (T::Array(a), T::Array(b)) => {
            let same = category(a) == category(b);
            comparison_type(a, b).filter(|_| same).map(|item| T::Array(Box::new(item)))
        }
        _ => None,
    }
}

/// Whether `=` exists, and with it an order.
pub fn has_equality(ty: &PgType) -> bool {
    match ty {
        PgType::Json | PgType::Void | PgType::Record => false,
        PgType::Array(item) => has_equality(item),
        _ => true,
    }
}
