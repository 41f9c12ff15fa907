//! The shape of a relation: named, typed columns.

use crate::types::PgType;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;

/// One column of a relation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDesc {
    /// The name as a client sees it.
    pub name: String,
    /// The type as a client sees it.
    pub ty: PgType,
    /// The type in which its values are stored or computed.
    pub data_type: DataType,
    /// Whether NULL may occur.
    pub nullable: bool,
}

/// The columns of a table, a view or a result, with the Arrow schema they come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelationDesc {
    /// The columns in order.
    pub columns: Vec<ColumnDesc>,
    /// The Arrow schema, tagged, with the same columns.
    pub schema: SchemaRef,
}

impl RelationDesc {
    /// Describes stored columns: name, type, nullability.
    pub fn new(columns: impl IntoIterator<Item = (String, PgType, bool)>) -> RelationDesc {
        let fields: Vec<Field> =
            columns.into_iter().map(|(name, ty, nullable)| ty.field(&name, nullable)).collect();
        RelationDesc::from_schema(Arc::new(Schema::new(fields)))
    }

    /// Describes what an Arrow schema holds.
    pub fn from_schema(schema: SchemaRef) -> RelationDesc {
        let columns = schema
            .fields()
            .iter()
            .map(|field| ColumnDesc {
                name: field.name().clone(),
                ty: PgType::from_field(field),
                data_type: field.data_type().clone(),
                nullable: field.is_nullable(),
            })
            .collect();
        RelationDesc { columns, schema }
    }

    /// The position of the column called `name`.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The number of columns.
    pub fn arity(&self) -> usize {
        self.columns.len()
    }
}
