//! Rows as the Arrow that other programs know: which type each of Postgres's is, and batches of these.
//!
//! | Postgres | Arrow |
//! |---|---|
//! | boolean, int2, int4, int8, float4, float8 | Boolean, Int16, Int32, Int64, Float32, Float64 |
//! | numeric(p,s) of up to 38 digits; of more, and numeric | Decimal128(p,s); Decimal256 |
//! | text, varchar, char, name, "char" | Utf8 |
//! | bytea | Binary |
//! | uuid | FixedSizeBinary(16), the extension `arrow.uuid` |
//! | json, jsonb | Utf8, the extension `arrow.json` |
//! | date, time | Date32, Time64 in microseconds |
//! | timestamp, timestamptz | Timestamp in microseconds, without zone and in UTC |
//! | interval | Interval of months, days, nanoseconds |
//! | oid, regclass and its kin | UInt32: the number |
//! | arrays, int2vector, oidvector | List of what the items are |
//! | records | Struct of what the fields are |
//!
//! A column's name in Postgres's words for its type is in the field's metadata as `postgres.type`.

use adapter::error::AdapterError;
use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use repr::{PgType, RelationDesc};
use std::collections::HashMap;
use std::sync::Arc;

/// What a field's metadata calls the type that Postgres has.
pub const POSTGRES_TYPE: &str = "postgres.type";
/// What Arrow calls an extension.
pub const EXTENSION: &str = "ARROW:extension:name";
const EXTENSION_METADATA: &str = "ARROW:extension:metadata";

/// Makes batches of one shape what other programs know.
#[derive(Clone, Debug)]
pub struct Exchange {
    schema: SchemaRef,
}

impl Exchange {
    /// Of rows of this shape.
    pub fn of(desc: &RelationDesc) -> Exchange {
        let fields: Vec<Field> = desc.schema.fields().iter().map(|field| exchanged(field)).collect();
        Exchange { schema: Arc::new(Schema::new(fields)) }
    }

    /// The same, of which something is told beside its columns.
    #[must_use]
    pub fn with_metadata(self, metadata: HashMap<String, String>) -> Exchange {
        Exchange { schema: Arc::new(self.schema.as_ref().clone().with_metadata(metadata)) }
    }

    /// The shape as other programs have it.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// A batch of that shape. Errors: 0A000 of values that are none of its types.
    pub fn batch(&self, batch: &RecordBatch) -> Result<RecordBatch, AdapterError> {
        let columns = batch.columns().iter().zip(self.schema.fields());
        let columns = columns.map(|(column, field)| exchange(column, field.data_type()));
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| AdapterError::internal(error.to_string()))
    }
}

/// A field as other programs have it.
fn exchanged(field: &Field) -> Field {
    let ty = PgType::from_field(field);
    let mut metadata = HashMap::from([(POSTGRES_TYPE.to_owned(), pgrepr::types::typname(&ty))]);
    let extension = match ty {
        PgType::Uuid => Some("arrow.uuid"),
        PgType::Json | PgType::Jsonb => Some("arrow.json"),
        _ => None,
    };
    if let Some(extension) = extension {
        metadata.insert(EXTENSION.to_owned(), extension.to_owned());
        metadata.insert(EXTENSION_METADATA.to_owned(), String::new());
    }
    Field::new(field.name(), exchanged_type(field.data_type()), true).with_metadata(metadata)
}

fn exchanged_type(ty: &DataType) -> DataType {
    match ty {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Timestamp(_, Some(_)) => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::List(item) => DataType::List(Arc::new(exchanged(item))),
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|field| Arc::new(exchanged(field))).collect::<Fields>())
        }
        other => other.clone(),
    }
}

fn exchange(column: &ArrayRef, ty: &DataType) -> Result<ArrayRef, AdapterError> {
    if column.data_type() == ty {
        return Ok(Arc::clone(column));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(column, ty, &options).map_err(|error| {
        let message = format!("values of type {} cannot be sent as {ty}: {error}", column.data_type());
        AdapterError::new(repr::sqlstate::SqlState::FEATURE_NOT_SUPPORTED, message)
    })
}
