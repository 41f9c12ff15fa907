//! `ROW(…)` and whole rows of relations: several values as one.

use super::library::Library;
use crate::TypedExpr;
use arrow::array::{Array, ArrayRef, StructArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use repr::types::TAG_KEY;
use repr::{Datum, PgType};
use std::collections::HashMap;
use std::sync::Arc;

/// Declares the functions of this file.
pub fn declare(library: &mut Library) {
    library.add("record_is_null(any) bool !null !hidden", |_, a| {
        Ok(Datum::Bool(every_field(&a[0], |field| field.is_null())))
    });
    library.add("record_is_not_null(any) bool !null !hidden", |_, a| {
        Ok(Datum::Bool(!a[0].is_null() && every_field(&a[0], |field| !field.is_null())))
    });
}

fn every_field(record: &Datum<'_>, holds: impl Fn(&Datum<'_>) -> bool) -> bool {
    match record {
        Datum::Record(fields) => fields.iter().all(|(_, value)| holds(value)),
        _ => true,
    }
}

/// Makes a record of values of these types.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RowFunction {
    fields: Fields,
    data_type: DataType,
    signature: Signature,
    /// Whether there is no record where all values are NULL.
    can_be_null: bool,
}

/// The values as the fields of a record, which have no names of their own.
pub fn make_row(values: Vec<TypedExpr>) -> TypedExpr {
    let name = |at: usize| format!("f{}", at + 1);
    make_named_row(values.into_iter().enumerate().map(|(at, value)| (name(at), value)).collect())
}

/// The values as the fields of a record, with their names.
pub fn make_named_row(values: Vec<(String, TypedExpr)>) -> TypedExpr {
    row_of(values, false)
}

/// The same of the values of a set, one of which is never NULL: where all are, the set has ended, and beside a longer one stands NULL.
pub fn make_set_row(values: Vec<(String, TypedExpr)>) -> TypedExpr {
    row_of(values, true)
}

fn row_of(values: Vec<(String, TypedExpr)>, can_be_null: bool) -> TypedExpr {
    let field = |(name, value): &(String, TypedExpr)| {
        let field = Field::new(name, value.data_type.clone(), true);
        match value.ty.tag() {
            Some(tag) => field.with_metadata(HashMap::from([(TAG_KEY.to_owned(), tag)])),
            None => field,
        }
    };
    let fields: Fields = values.iter().map(field).collect();
    let data_type = DataType::Struct(fields.clone());
    let signature = match values.len() {
        0 => Signature::nullary(Volatility::Immutable),
        count => Signature::any(count, Volatility::Immutable),
    };
    let udf = ScalarUDF::new_from_impl(RowFunction { fields, data_type: data_type.clone(), signature, can_be_null });
    let args = values.into_iter().map(|(_, value)| value.expr).collect();
    let expr = Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(udf), args));
    TypedExpr { expr, ty: PgType::Record, data_type, nullable: can_be_null }
}

impl ScalarUDFImpl for RowFunction {
    fn name(&self) -> &str {
        "row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _args: &[DataType]) -> DfResult<DataType> {
        Ok(self.data_type.clone())
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        Ok(Arc::new(Field::new("row", self.data_type.clone(), self.can_be_null)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let rows = args.number_rows;
        if self.fields.is_empty() {
            return Ok(ColumnarValue::Array(Arc::new(StructArray::new_empty_fields(rows, None))));
        }
        let columns = self.fields.iter().zip(&args.args).map(|(field, value)| {
            let column = value.to_array(rows)?;
            Ok(if column.data_type() == field.data_type() { column } else { cast(&column, field.data_type())? })
        });
        let columns = columns.collect::<DfResult<Vec<ArrayRef>>>()?;
        let is_there = |at| columns.iter().any(|column| column.is_valid(at));
        let nulls = self.can_be_null.then(|| (0..rows).map(is_there).collect::<NullBuffer>());
        Ok(ColumnarValue::Array(Arc::new(StructArray::try_new(self.fields.clone(), columns, nulls)?)))
    }
}
