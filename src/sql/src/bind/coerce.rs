//! Putting casts into expressions.
//!
//! Constants are converted at once, so that their errors come from planning and the optimizer sees plain literals.
//! Casts that Arrow performs exactly as Postgres does become cast expressions; the others become functions.

use crate::bind::{Params, TableResolver};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{Placeholder, ScalarFunction};
use datafusion::logical_expr::{Cast, Expr};
use engine::error::SqlError;
use engine::value::{from_scalar, to_scalar};
use pgrepr::length::LengthRule;
use repr::sqlstate::SqlState;
use repr::types::{NUMERIC, NumericDisplay};
use repr::{Datum, PgType};
use sql_functions::TypedExpr;
use sql_functions::cast::{CastContextInfo, CastFunction, convert, parse_numeric};
use sql_functions::decimals::{common_decimal, precision_and_scale};
use sql_functions::types::{self, CastContext, cast_context, is_float, is_integer, is_oidlike, is_stringlike};
use std::sync::Arc;

/// What coercion needs of the statement.
pub struct Coercer<'a> {
    /// The parameters, whose types coercion decides.
    pub params: &'a mut Params,
    /// The catalog, for names cast to `regclass` and the time zone.
    pub tables: &'a dyn TableResolver,
}

/// Converts an expression for storage in a column, as INSERT and UPDATE do.
pub fn assign(
    expr: TypedExpr,
    to: &PgType,
    column: &str,
    params: &mut Params,
    tables: &dyn TableResolver,
) -> Result<Expr, SqlError> {
    let from = expr.ty.clone();
    let mut coercer = Coercer { params, tables };
    match cast_context(&from, to) {
        Some(CastContext::Implicit | CastContext::Assignment) => {
            let typed = coercer.cast(expr, to, LengthRule::Assign)?;
            Ok(coercer.store_as(typed, to, &to.data_type())?.expr)
        }
        _ => Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!("column \"{column}\" is of type {} but expression is of type {}", to.name(), from.name()),
        )
        .with_hint("You will need to rewrite or cast the expression.")),
    }
}

impl Coercer<'_> {
    /// The context for converting constants.
    pub fn context(&self) -> CastContextInfo<'static> {
        CastContextInfo::planning(self.tables.locale())
    }

    /// Converts where Postgres would without being asked; 42804 otherwise, blaming `what`.
    pub fn implicit(&mut self, expr: TypedExpr, to: &PgType, what: &str) -> Result<TypedExpr, SqlError> {
        if types::implicitly(&expr.ty, to) {
            return self.cast(expr, to, LengthRule::Cast);
        }
        Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!("{what} must be type {}, not type {}", to.name(), expr.ty.name()),
        ))
    }

    /// Converts as an assignment would; 42804 otherwise, blaming `what`.
    pub fn implicit_or_assign(&mut self, expr: TypedExpr, to: &PgType, what: &str) -> Result<TypedExpr, SqlError> {
        match cast_context(&expr.ty, to) {
            Some(CastContext::Implicit | CastContext::Assignment) => self.cast(expr, to, LengthRule::Cast),
            _ => self.implicit(expr, to, what),
        }
    }

    /// An explicit cast; 42846 when there is none.
    pub fn explicit(&mut self, expr: TypedExpr, to: &PgType) -> Result<TypedExpr, SqlError> {
        match cast_context(&expr.ty, to) {
            Some(_) => self.cast(expr, to, LengthRule::Cast),
            None => Err(SqlError::new(
                SqlState::CANNOT_COERCE,
                format!("cannot cast type {} to {}", expr.ty.name(), to.name()),
            )),
        }
    }

    /// Gives an expression of undecided type the type that Postgres falls back to.
    pub fn settle(&mut self, expr: TypedExpr) -> Result<TypedExpr, SqlError> {
        if expr.ty == PgType::Unknown { self.cast(expr, &PgType::Text, LengthRule::Cast) } else { Ok(expr) }
    }

    /// Brings several expressions to one type.
    pub fn unify(
        &mut self,
        exprs: Vec<TypedExpr>,
        context: &str,
    ) -> Result<(Vec<TypedExpr>, PgType, DataType), SqlError> {
        let all: Vec<PgType> = exprs.iter().map(|expr| expr.ty.clone()).collect();
        let target = types::common(&all, context)?;
        let mut cast = Vec::with_capacity(exprs.len());
        for expr in exprs {
            cast.push(self.cast(expr, &target, LengthRule::Cast)?);
        }
        let (data_type, ty) = common_storage(&cast, &target);
        let unified = cast.into_iter().map(|expr| self.store_as(expr, &ty, &data_type)).collect::<Result<_, _>>()?;
        Ok((unified, ty, data_type))
    }

    /// Converts to a type, by whichever means; the caller has checked that there is a cast.
    pub fn cast(&mut self, expr: TypedExpr, to: &PgType, rule: LengthRule) -> Result<TypedExpr, SqlError> {
        let expr = if matches!(to, PgType::Array(_)) { expr.vector_as_array() } else { expr };
        if expr.ty == *to {
            return Ok(expr);
        }
        if expr.ty == PgType::Unknown {
            return self.cast_unknown(expr, to, rule);
        }
        if *to == NUMERIC && matches!(expr.ty, PgType::Numeric(_)) {
            return Ok(expr);
        }
        if let (Expr::Literal(scalar, _), false) = (&expr.expr, self.at_run_time(&expr.ty, to)) {
            let value = from_scalar(scalar)?;
            return self.constant(&value, &expr.ty, to, rule);
        }
        let data_type = cast_data_type(&expr, to);
        let ty = cast_type(&expr, to);
        let cast = if relabels(&expr.ty, to) {
            expr.expr
        } else if is_native(&expr.ty, &expr.data_type, to, &data_type) {
            native(expr.expr, &expr.data_type, &data_type)
        } else {
            let udf = CastFunction::udf(&expr.ty, to, &data_type, rule);
            Expr::ScalarFunction(ScalarFunction::new_udf(udf, vec![expr.expr]))
        };
        Ok(TypedExpr { expr: cast, ty, data_type, nullable: expr.nullable })
    }

    /// Whether the conversion of a constant has to wait for the session.
    fn at_run_time(&self, from: &PgType, to: &PgType) -> bool {
        matches!(from, PgType::Reg(_)) && is_stringlike(to)
    }

    fn constant(
        &mut self,
        value: &Datum<'_>,
        from: &PgType,
        to: &PgType,
        rule: LengthRule,
    ) -> Result<TypedExpr, SqlError> {
        if let (Datum::Text(text), PgType::Reg(kind)) = (value, to) {
            let oid = match text.trim().parse::<u32>() {
                Ok(oid) => oid,
                Err(_) if text.as_ref() == "-" => 0,
                Err(_) => self.tables.resolve_reg(*kind, text)?,
            };
            return TypedExpr::constant(&Datum::Oid(oid), to.clone());
        }
        let converted = convert(value, from, to, rule, &self.context())?;
        match (&converted, to) {
            (Datum::Numeric(v, scale), PgType::Numeric(NumericDisplay::Declared(..))) => {
                let mut typed = TypedExpr::numeric(*v, *scale)?;
                typed.data_type = to.data_type();
                typed.expr = Expr::Literal(to_scalar(&converted, &typed.data_type)?, None);
                typed.ty = to.clone();
                Ok(typed)
            }
            (Datum::Numeric(v, scale), _) => TypedExpr::numeric(*v, *scale),
            _ => TypedExpr::constant(&converted, to.clone()),
        }
    }

    fn cast_unknown(&mut self, expr: TypedExpr, to: &PgType, rule: LengthRule) -> Result<TypedExpr, SqlError> {
        match &expr.expr {
            Expr::Literal(scalar, _) if scalar.is_null() => TypedExpr::constant(&Datum::Null, to.clone()),
            Expr::Literal(ScalarValue::Utf8View(Some(text)), _) => {
                let text = text.clone();
                if *to == NUMERIC {
                    let (value, scale) = parse_numeric(&text)?;
                    return TypedExpr::numeric(value, scale);
                }
                self.constant(&Datum::Text(text.into()), &PgType::Unknown, to, rule)
            }
            Expr::Placeholder(placeholder) => self.parameter(&placeholder.id.clone(), to, rule),
            // Undecided columns of a subquery hold text.
            _ => {
                let text = TypedExpr { ty: PgType::Text, ..expr };
                self.cast(text, to, rule)
            }
        }
    }

    /// Decides the type of a parameter.
    fn parameter(&mut self, id: &str, to: &PgType, rule: LengthRule) -> Result<TypedExpr, SqlError> {
        let index = id.trim_start_matches('$').parse::<usize>().unwrap_or(1) - 1;
        let declared = types::base(to);
        if let Some(slot) = self.params.types.get_mut(index) {
            match slot {
                Some(known) if *known != declared => {
                    let known = known.clone();
                    return self.cast(parameter(id, &known), to, rule);
                }
                slot => *slot = Some(declared.clone()),
            }
        }
        let typed = parameter(id, &declared);
        if declared == *to { Ok(typed) } else { self.cast(typed, to, rule) }
    }

    /// Changes only how values are stored (the scale of a decimal), not what they are.
    pub fn store_as(&mut self, expr: TypedExpr, ty: &PgType, data_type: &DataType) -> Result<TypedExpr, SqlError> {
        if expr.data_type == *data_type {
            return Ok(TypedExpr { ty: ty.clone(), ..expr });
        }
        if let DataType::Struct(_) = data_type {
            return Err(SqlError::unsupported("rows of different types in one place"));
        }
        if let Expr::Literal(scalar, _) = &expr.expr {
            let scalar = to_scalar(&from_scalar(scalar)?, data_type)?;
            let expr = TypedExpr { expr: Expr::Literal(scalar, None), ..expr };
            return Ok(TypedExpr { ty: ty.clone(), data_type: data_type.clone(), ..expr });
        }
        let stored = if widens(&expr.data_type, data_type) {
            native(expr.expr, &expr.data_type, data_type)
        } else {
            let udf = CastFunction::udf(&expr.ty, &expr.ty, data_type, LengthRule::Cast);
            Expr::ScalarFunction(ScalarFunction::new_udf(udf, vec![expr.expr]))
        };
        Ok(TypedExpr { expr: stored, ty: ty.clone(), data_type: data_type.clone(), nullable: expr.nullable })
    }
}

/// A parameter of a known type.
pub fn parameter(id: &str, ty: &PgType) -> TypedExpr {
    let field = Arc::new(ty.field(id, true));
    let expr = Expr::Placeholder(Placeholder::new_with_field(id.to_owned(), Some(field)));
    TypedExpr::new(expr, ty.clone(), ty.data_type())
}

/// The Arrow type and display that several expressions of one Postgres type share.
fn common_storage(exprs: &[TypedExpr], target: &PgType) -> (DataType, PgType) {
    match target {
        PgType::Numeric(_) => {
            // A NULL has no scale of its own.
            let typed: Vec<_> = exprs
                .iter()
                .filter(|expr| !matches!(&expr.expr, Expr::Literal(scalar, _) if scalar.is_null()))
                .map(|expr| (expr.data_type.clone(), expr.ty.clone()))
                .collect();
            if typed.is_empty() { (target.data_type(), target.clone()) } else { common_decimal(&typed) }
        }
        PgType::Array(item) if matches!(**item, PgType::Numeric(_)) => (target.data_type(), target.clone()),
        _ => (target.data_type(), target.clone()),
    }
}

/// The Arrow type of a cast's result.
fn cast_data_type(expr: &TypedExpr, to: &PgType) -> DataType {
    match to {
        PgType::Numeric(NumericDisplay::Declared(..)) => to.data_type(),
        PgType::Numeric(_) if is_integer(&expr.ty) => {
            let (precision, _) = precision_and_scale(&expr.data_type);
            DataType::Decimal128(precision, 0)
        }
        _ => to.data_type(),
    }
}

fn cast_type(expr: &TypedExpr, to: &PgType) -> PgType {
    match to {
        PgType::Numeric(NumericDisplay::Declared(..)) => to.clone(),
        PgType::Numeric(_) if is_integer(&expr.ty) => PgType::Numeric(NumericDisplay::Scale),
        _ => to.clone(),
    }
}

/// Whether the two types store every value alike, so that a cast changes nothing.
fn relabels(from: &PgType, to: &PgType) -> bool {
    use PgType as T;
    matches!(
        (from, to),
        (T::Text | T::Varchar(_) | T::Name, T::Text | T::Varchar(None) | T::Bpchar(None))
            | (T::Bpchar(_), T::Bpchar(None))
            | (T::Char, T::Text)
            | (T::Jsonb, T::Json)
    ) || (is_oidlike(from) && is_oidlike(to))
}

/// Whether Arrow's cast gives what Postgres gives for every value.
fn is_native(from: &PgType, from_type: &DataType, to: &PgType, to_type: &DataType) -> bool {
    use PgType as T;
    match (from, to) {
        (T::Int2, T::Int4 | T::Int8) | (T::Int4, T::Int8) => true,
        (from, to) if is_integer(from) && is_float(to) => true,
        (T::Float4, T::Float8) => true,
        (from, T::Numeric(_)) if is_integer(from) => widens(from_type, to_type),
        (T::Numeric(_), T::Numeric(_)) => widens(from_type, to_type),
        _ => false,
    }
}

/// Whether every value of the one number type has a place in the other.
fn widens(from: &DataType, to: &DataType) -> bool {
    let ((p, s), (q, t)) = (precision_and_scale(from), precision_and_scale(to));
    let is_number = |ty: &DataType| {
        matches!(
            ty,
            DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Decimal128(..) | DataType::Decimal256(..)
        )
    };
    is_number(from) && is_number(to) && t >= s && i16::from(q) - i16::from(t) >= i16::from(p) - i16::from(s)
}

fn native(expr: Expr, from: &DataType, to: &DataType) -> Expr {
    if from == to {
        return expr;
    }
    Expr::Cast(Cast::new(Box::new(expr), to.clone()))
}
