//! Calls of functions of the library that binding puts into an expression by itself, with types that it has decided.

use crate::registry;
use crate::row::RowFunction;
use crate::typed::TypedExpr;
use arrow::datatypes::DataType;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::ScalarFunction;
use engine::error::SqlError;
use repr::PgType;

/// `ARRAY[…]` of items that have the item type.
pub fn make_array(items: Vec<TypedExpr>, item: &PgType) -> Result<TypedExpr, SqlError> {
    let ty = PgType::Array(Box::new(item.clone()));
    internal("make_array", items, ty.clone(), ty.data_type())
}

/// The one element of a list, NULL of an empty one, and an error of a longer one.
pub fn single_value(list: TypedExpr, ty: &PgType, data_type: &DataType) -> TypedExpr {
    internal("single_value", vec![list.clone()], ty.clone(), data_type.clone()).unwrap_or(list)
}

/// The ordinal numbers of the elements of the longest list.
pub fn ordinality(lists: &[TypedExpr]) -> Result<TypedExpr, SqlError> {
    let ty = PgType::Array(Box::new(PgType::Int8));
    internal("ordinality", lists.to_vec(), ty.clone(), ty.data_type())
}

/// The first of several lists, with one NULL if all of them are empty.
pub fn at_least_one(lists: &[TypedExpr]) -> Result<TypedExpr, SqlError> {
    let (ty, data_type) = (lists[0].ty.clone(), lists[0].data_type.clone());
    internal("at_least_one", lists.to_vec(), ty, data_type)
}

/// `left op ANY (array)` and `left op ALL (array)`, both sides of one type.
pub fn quantified(symbol: &str, all: bool, left: TypedExpr, array: TypedExpr) -> Result<TypedExpr, SqlError> {
    let name = format!("{}{symbol}", if all { "all" } else { "any" });
    if !registry::exists(&name) {
        return Err(SqlError::unsupported(format!("{symbol} ANY/ALL over an array")));
    }
    internal(&name, vec![left, array], PgType::Bool, DataType::Boolean)
}

/// A function of the library whose types the caller has decided.
fn internal(name: &str, args: Vec<TypedExpr>, ty: PgType, data_type: DataType) -> Result<TypedExpr, SqlError> {
    let overload = registry::internal(name)?;
    let declared: Vec<PgType> = args.iter().map(|arg| arg.ty.clone()).collect();
    let udf = RowFunction::udf(overload, &declared, &ty, &data_type);
    let exprs = args.into_iter().map(|arg| arg.expr).collect();
    Ok(TypedExpr::new(Expr::ScalarFunction(ScalarFunction::new_udf(udf, exprs)), ty, data_type))
}

/// Whether every field of a record is NULL, or none is, as `IS [NOT] NULL` asks.
pub fn null_test(record: TypedExpr, is_null: bool) -> Result<TypedExpr, SqlError> {
    let name = if is_null { "record_is_null" } else { "record_is_not_null" };
    internal(name, vec![record], PgType::Bool, DataType::Boolean)
}

/// The value itself, which must be an object or NULL.
pub fn json_object_of(value: TypedExpr) -> Result<TypedExpr, SqlError> {
    let (ty, data_type) = (value.ty.clone(), value.data_type.clone());
    internal("json_object_of", vec![value], ty, data_type)
}
