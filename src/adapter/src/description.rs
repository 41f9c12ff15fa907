//! What rows look like: their columns.

use arrow::datatypes::DataType;
use bytes::Bytes;
use repr::relation::ColumnOrigin;
use repr::{PgType, RelationDesc};
use std::sync::{Arc, OnceLock};

/// The shape of a result, shared by every execution of a plan.
#[derive(Debug)]
pub struct RowDesc {
    /// Names and types.
    pub desc: Arc<RelationDesc>,
    /// Which of its columns are those of relations.
    pub origins: Vec<Option<ColumnOrigin>>,
    /// Whether the catalog is needed to print its values.
    pub names_objects: bool,
    /// By [`Encoding`].
    encoded: [OnceLock<Bytes>; 2],
}

/// What doors tell the shape of a result in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// A message of the Postgres protocol, in which all columns are text.
    Message,
    /// JSON.
    Json,
}

impl RowDesc {
    /// The shape of rows of these columns.
    pub fn new(desc: Arc<RelationDesc>, origins: Vec<Option<ColumnOrigin>>) -> Arc<RowDesc> {
        let names_objects = desc.columns.iter().any(|column| match &column.data_type {
            DataType::Struct(fields) => fields.iter().any(|field| PgType::from_field(field).names_objects()),
            _ => column.ty.names_objects(),
        });
        Arc::new(RowDesc { desc, origins, names_objects, encoded: Default::default() })
    }

    /// What `encode` makes of it: once, and kept as long as the plan is, because a door says so for every execution.
    pub fn encoded(&self, encoding: Encoding, encode: impl FnOnce() -> Bytes) -> &Bytes {
        self.encoded[encoding as usize].get_or_init(encode)
    }
}
