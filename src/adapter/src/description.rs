//! What rows look like: their columns, and the formats of their values.

use crate::error::AdapterError;
use arrow::datatypes::DataType;
use bytes::Bytes;
use repr::relation::ColumnOrigin;
use repr::sqlstate::SqlState;
use repr::{PgType, RelationDesc};
use std::sync::Arc;

/// A value's form on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// As a person reads it.
    Text,
    /// As Postgres's `*_send` functions write it.
    Binary,
}

impl Format {
    /// The format with this code. Error: 08P01.
    pub fn from_code(code: i16) -> Result<Format, AdapterError> {
        match code {
            0 => Ok(Format::Text),
            1 => Ok(Format::Binary),
            _ => Err(AdapterError::new(SqlState::PROTOCOL_VIOLATION, format!("unsupported format code: {code}"))),
        }
    }
}

/// The formats of values, a result's columns or a statement's parameters: one for all, or one each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Formats {
    /// Every value.
    All(Format),
    /// Value by value.
    Each(Vec<Format>),
}

impl Formats {
    /// From Bind's codes: none means text, one is for all values. Error: 08P01.
    pub fn from_codes(mut codes: impl ExactSizeIterator<Item = i16>) -> Result<Formats, AdapterError> {
        Ok(match codes.len() {
            0 | 1 => Formats::All(codes.next().map_or(Ok(Format::Text), Format::from_code)?),
            _ => Formats::Each(codes.map(Format::from_code).collect::<Result<_, _>>()?),
        })
    }

    /// Text for every value.
    pub fn text() -> Formats {
        Formats::All(Format::Text)
    }

    /// The format of value `index`.
    pub fn of(&self, index: usize) -> Format {
        match self {
            Formats::All(format) => *format,
            Formats::Each(formats) => formats.get(index).copied().unwrap_or(Format::Text),
        }
    }

    /// Error 08P01 if there are neither none, one, nor as many codes as columns.
    pub(crate) fn check(&self, column_count: usize) -> Result<(), AdapterError> {
        match self {
            Formats::Each(formats) if formats.len() != column_count => Err(AdapterError::new(
                SqlState::PROTOCOL_VIOLATION,
                format!("bind message has {} result formats but query has {column_count} columns", formats.len()),
            )),
            _ => Ok(()),
        }
    }
}

/// The shape of a result, shared by every execution of a plan.
#[derive(Debug)]
pub struct RowDesc {
    /// Names and types.
    pub desc: Arc<RelationDesc>,
    /// Which of its columns are those of relations.
    origins: Vec<Option<ColumnOrigin>>,
    /// The whole RowDescription message with every column in text format.
    pub text_row_description: Bytes,
    /// Whether the catalog is needed to print its values.
    pub names_objects: bool,
}

impl RowDesc {
    /// Encodes the description once.
    pub fn new(desc: Arc<RelationDesc>, origins: Vec<Option<ColumnOrigin>>) -> Arc<RowDesc> {
        let text_row_description = describe(&desc, &origins, &Formats::text());
        let names_objects = desc.columns.iter().any(|column| match &column.data_type {
            DataType::Struct(fields) => fields.iter().any(|field| PgType::from_field(field).names_objects()),
            _ => column.ty.names_objects(),
        });
        Arc::new(RowDesc { desc, origins, text_row_description, names_objects })
    }

    /// The RowDescription message with these formats.
    pub fn row_description(&self, formats: &Formats) -> Bytes {
        match formats {
            Formats::All(Format::Text) => self.text_row_description.clone(),
            formats => describe(&self.desc, &self.origins, formats),
        }
    }
}

fn describe(desc: &RelationDesc, origins: &[Option<ColumnOrigin>], formats: &Formats) -> Bytes {
    let mut out = Vec::new();
    let code = |column| match formats.of(column) {
        Format::Text => 0,
        Format::Binary => 1,
    };
    pgrepr::row_description::row_description(desc, origins, code, &mut out);
    out.into()
}
