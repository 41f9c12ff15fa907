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

/// The column of a relation that a result's column is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnOrigin {
    /// The oid of the relation, as `pg_class` shows it.
    pub relation: u32,
    /// The number of the column, from 1, as `pg_attribute` shows it.
    pub number: i16,
}

impl RelationDesc {
    /// Describes stored columns: name, type, nullability.
    ///
    /// In the schema every column may be NULL: NOT NULL is checked when a row is written, and a planner that derived from it
    /// that an outer join or an empty subquery has no NULLs would be wrong.
    pub fn new(columns: impl IntoIterator<Item = (String, PgType, bool)>) -> RelationDesc {
        let columns: Vec<_> = columns.into_iter().collect();
        let fields: Vec<Field> = columns.iter().map(|(name, ty, _)| ty.field(name, true)).collect();
        let mut desc = RelationDesc::from_schema(Arc::new(Schema::new(fields)));
        for (column, (_, _, nullable)) in desc.columns.iter_mut().zip(columns) {
            column.nullable = nullable;
        }
        desc
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
