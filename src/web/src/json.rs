//! Values, rows and their shape in JSON.
//!
//! Nothing is lost: a number is a string, because most readers of JSON have none of 64 bits, and none has decimals. What a value is:
//!
//! | type | JSON |
//! |---|---|
//! | boolean | `true`, `false` |
//! | json, jsonb | itself, with all digits that its numbers have |
//! | arrays | an array of what the items are |
//! | everything else | a string: the value as Postgres prints it |
//! | NULL | `null` |

use adapter::error::AdapterError;
use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use pgrepr::options::EncodeOptions;
use pgrepr::text::encode_text;
use pgrepr::types::{oid, typlen, typmod};
use repr::datum::from_array;
use repr::row::read_projected;
use repr::sqlstate::SqlState;
use repr::{ColumnDesc, Datum, PgType, RelationDesc};
use std::convert::Infallible;
use std::io::Write;

/// How values are printed, and memory for it that is used again.
#[derive(Debug)]
pub(crate) struct Printer {
    options: EncodeOptions,
    text: Vec<u8>,
    /// The bytes of a long string, put together from its blocks.
    scratch: Vec<u8>,
}

/// Where the columns of a result are in a stored row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored<'s> {
    /// The types of the stored columns.
    pub(crate) types: &'s [DataType],
    /// For each column of the result, the stored column.
    pub(crate) projection: &'s [usize],
}

impl Printer {
    pub(crate) fn new(options: EncodeOptions) -> Printer {
        Printer { options, text: Vec::new(), scratch: Vec::new() }
    }

    /// Appends a stored row of these columns as an array.
    pub(crate) fn stored_row(&mut self, out: &mut Vec<u8>, row: &[u8], stored: Stored<'_>, columns: &[ColumnDesc]) {
        out.push(b'[');
        let mut scratch = std::mem::take(&mut self.scratch);
        let Ok(()) = read_projected(row, stored.types, stored.projection, &mut scratch, |at, datum| {
            if at > 0 {
                out.push(b',');
            }
            self.value(out, &columns[at].ty, datum);
            Ok::<_, Infallible>(())
        });
        self.scratch = scratch;
        out.push(b']');
    }

    /// Appends a row of a batch of these columns as an array. Errors: 0A000 of a value that cannot be printed.
    pub(crate) fn row(
        &mut self,
        out: &mut Vec<u8>,
        batch: &RecordBatch,
        row: usize,
        columns: &[ColumnDesc],
    ) -> Result<(), AdapterError> {
        out.push(b'[');
        for (at, column) in columns.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            self.cell(out, batch, (row, at), &column.ty)?;
        }
        out.push(b']');
        Ok(())
    }

    fn cell(
        &mut self,
        out: &mut Vec<u8>,
        batch: &RecordBatch,
        (row, column): (usize, usize),
        ty: &PgType,
    ) -> Result<(), AdapterError> {
        let array = batch.column(column);
        let Some(datum) = from_array(array.as_ref(), row) else {
            let message = format!("values of type {} cannot be sent", array.data_type());
            return Err(AdapterError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        };
        self.value(out, ty, &datum);
        Ok(())
    }

    fn value(&mut self, out: &mut Vec<u8>, ty: &PgType, datum: &Datum<'_>) {
        match (datum, ty) {
            (Datum::Null, _) => out.extend_from_slice(b"null"),
            (Datum::Bool(value), _) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
            (Datum::List(items), PgType::Array(item)) => {
                out.push(b'[');
                for (at, datum) in items.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    self.value(out, item, datum);
                }
                out.push(b']');
            }
            (_, PgType::Json | PgType::Jsonb) => {
                let start = out.len();
                encode_text(ty, datum, &self.options, out);
                // Between the tokens of a json, and nowhere else, there may be line ends: what is a line stays one.
                let line_ends = out[start..].iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r'));
                line_ends.for_each(|byte| *byte = b' ');
            }
            (Datum::Text(text), PgType::Text | PgType::Varchar(_) | PgType::Name) => string(out, text),
            _ => {
                self.text.clear();
                encode_text(ty, datum, &self.options, &mut self.text);
                string(out, &String::from_utf8_lossy(&self.text));
            }
        }
    }
}

/// Appends a string.
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("memory takes whatever is written");
}

/// Appends the shape of rows.
pub(crate) fn description(out: &mut Vec<u8>, desc: &RelationDesc) {
    out.extend_from_slice(b"{\"columns\":[");
    for (at, column) in desc.columns.iter().enumerate() {
        out.extend_from_slice(if at > 0 { b",{\"name\":" } else { b"{\"name\":" });
        string(out, &column.name);
        let (oid, length, modifier) = (oid(&column.ty), typlen(&column.ty), typmod(&column.ty));
        write!(out, ",\"type_oid\":{oid},\"type_len\":{length},\"type_mod\":{modifier}}}")
            .expect("memory takes whatever is written");
    }
    out.extend_from_slice(b"]}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(ty: &PgType, datum: &Datum<'_>) -> String {
        let mut out = Vec::new();
        Printer::new(EncodeOptions::default()).value(&mut out, ty, datum);
        let text = String::from_utf8(out).expect("JSON is UTF-8");
        serde_json::from_str::<serde_json::Value>(&text).expect("what is printed is JSON");
        text
    }

    #[test]
    fn values_lose_nothing() {
        let text = |text: &'static str| Datum::Text(text.into());
        assert_eq!(printed(&PgType::Int8, &Datum::Int8(i64::MAX)), "\"9223372036854775807\"");
        assert_eq!(printed(&PgType::Float8, &Datum::Float8(f64::NAN)), "\"NaN\"");
        assert_eq!(printed(&PgType::Bool, &Datum::Bool(true)), "true");
        assert_eq!(printed(&PgType::Text, &Datum::Null), "null");
        assert_eq!(
            printed(&PgType::Text, &text("a \"b\"\n\u{1}\u{2028}é\\")),
            "\"a \\\"b\\\"\\n\\u0001\u{2028}é\\\\\""
        );
        assert_eq!(printed(&PgType::Bytea, &Datum::Bytes(b"\x00\xff"[..].into())), "\"\\\\x00ff\"");
        assert_eq!(
            printed(&PgType::Json, &text("{\"a\":\r\n 1.000000000000000000001}")),
            "{\"a\":   1.000000000000000000001}"
        );
        let list = Datum::List(vec![Datum::Int4(1), Datum::Null]);
        assert_eq!(printed(&PgType::Array(Box::new(PgType::Int4)), &list), "[\"1\",null]");
        assert_eq!(printed(&PgType::Timestamp, &Datum::Timestamp(1)), "\"1970-01-01 00:00:00.000001\"");
    }
}
