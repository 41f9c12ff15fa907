//! `ROW(…)`: several values as one.

use arrow::array::{ArrayRef, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use repr::PgType;
use repr::types::TAG_KEY;
use std::collections::HashMap;
use std::sync::Arc;

use crate::engine::TypedExpr;

/// Makes a record of values of these types.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RowFunction {
    fields: Fields,
    data_type: DataType,
    signature: Signature,
}

/// The values as the fields of a record.
pub fn make_row(values: Vec<TypedExpr>) -> TypedExpr {
    let field = |(at, value): (usize, &TypedExpr)| {
        let field = Field::new(format!("f{}", at + 1), value.data_type.clone(), true);
        match value.ty.tag() {
            Some(tag) => field.with_metadata(HashMap::from([(TAG_KEY.to_owned(), tag)])),
            None => field,
        }
    };
    let fields: Fields = values.iter().enumerate().map(field).collect();
    let data_type = DataType::Struct(fields.clone());
    let signature = match values.len() {
        0 => Signature::nullary(Volatility::Immutable),
        count => Signature::any(count, Volatility::Immutable),
    };
    let udf = ScalarUDF::new_from_impl(RowFunction { fields, data_type: data_type.clone(), signature });
    let args = values.into_iter().map(|value| value.expr).collect();
    let expr = Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(udf), args));
    TypedExpr { expr, ty: PgType::Record, data_type, nullable: false }
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
        Ok(Arc::new(Field::new("row", self.data_type.clone(), false)))
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
        Ok(ColumnarValue::Array(Arc::new(StructArray::try_new(self.fields.clone(), columns, None)?)))
    }
}
