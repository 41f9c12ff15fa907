//! Rows as messages: DataRow and COPY lines, straight from stored bytes or from Arrow batches.
//!
//! A stored row is read column by column, in the order in which it is stored as long as the projection follows it, and
//! each value is printed into the write buffer behind a length that is filled in afterwards: no intermediate row exists.
//!
//! # Invariants
//! - A row that cannot be encoded leaves nothing in the buffer.
//! - No length is written that was not checked to fit its field.

use crate::copy::binary::{END, SIGNATURE};
use crate::error::WireError;
use crate::formats::{Format, Formats};
use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use bytes::BufMut;
use pgrepr::binary::encode_binary;
use pgrepr::copy::CopyOptions;
use pgrepr::copy::writer::{self, Place};
use pgrepr::options::EncodeOptions;
use pgrepr::text::encode_text;
use repr::datum::from_array;
use repr::row::{Stored, read_projected};
use repr::sqlstate::SqlState;
use repr::{ColumnDesc, Datum};

/// The longest row that is sent, together with what waits to be sent before it; PostgreSQL's bound.
const ROW_BYTES_MAX: usize = 1 << 30;

/// What a row of a result looks like on the wire.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// The columns of the result.
    pub columns: &'a [ColumnDesc],
    /// How values are printed.
    pub options: &'a EncodeOptions,
    /// What each row becomes.
    pub target: Target<'a>,
}

impl Shape<'_> {
    /// The format of a column.
    fn format(&self, index: usize) -> Format {
        match self.target {
            Target::DataRow(formats) => formats.of(index),
            Target::Copy(_) => Format::Text,
            Target::CopyBinary => Format::Binary,
        }
    }
}

/// What rows are turned into.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// DataRow messages with values in these formats.
    DataRow(&'a Formats),
    /// CopyData messages with one line each.
    Copy(&'a CopyOptions),
    /// CopyData messages with one binary row each, the first behind the signature.
    CopyBinary,
}

/// Memory that encoding rows reuses.
#[derive(Debug, Default)]
pub struct RowEncoder {
    /// The bytes of a long string, put together from its blocks.
    scratch: Vec<u8>,
    /// The text of a value that has to be escaped.
    text: Vec<u8>,
    /// Whether the binary COPY that was begun has not sent its signature.
    signature_due: bool,
}

impl RowEncoder {
    /// Appends a stored row. Errors: a row that no message can hold, a value that has no binary form.
    pub fn stored(
        &mut self,
        out: &mut Vec<u8>,
        row: &[u8],
        stored: Stored<'_>,
        shape: Shape<'_>,
    ) -> Result<(), WireError> {
        let RowEncoder { scratch, text, signature_due } = self;
        framed(out, shape, signature_due, |out| {
            read_projected(row, stored, scratch, |index, datum| value(out, text, datum, index, shape))
        })
    }

    /// Appends row `row` of a batch. Errors: as [`RowEncoder::stored`].
    pub fn batch_row(
        &mut self,
        out: &mut Vec<u8>,
        batch: &RecordBatch,
        row: usize,
        shape: Shape<'_>,
    ) -> Result<(), WireError> {
        let RowEncoder { text, signature_due, .. } = self;
        framed(out, shape, signature_due, |out| {
            for index in 0..shape.columns.len() {
                let array = batch.column(index);
                let datum = from_array(array.as_ref(), row).ok_or_else(|| unprintable(array.data_type()))?;
                value(out, text, &datum, index, shape)?;
            }
            Ok(())
        })
    }

    /// Appends a COPY line with the columns' names, in which nothing is forced.
    pub fn header(&mut self, out: &mut Vec<u8>, syntax: &CopyOptions, shape: Shape<'_>) -> Result<(), WireError> {
        let syntax = &CopyOptions { fields: Vec::new(), ..syntax.clone() };
        framed(out, shape, &mut false, |out| {
            for (index, column) in shape.columns.iter().enumerate() {
                writer::separator(out, index, syntax);
                let place = Place { at: index, count: shape.columns.len() };
                writer::field(out, Some(column.name.as_bytes()), place, syntax);
            }
            Ok(())
        })
    }

    /// Begins a binary COPY. PostgreSQL sends the signature in one message with the first row, and there are clients that
    /// rely on it.
    pub fn begin_binary_copy(&mut self) {
        self.signature_due = true;
    }

    /// Ends a binary COPY.
    pub fn end_binary_copy(&mut self, out: &mut Vec<u8>) {
        let signature: &[u8] = if std::mem::take(&mut self.signature_due) { SIGNATURE } else { &[] };
        out.put_u8(b'd');
        out.put_i32(if signature.is_empty() { 6 } else { 25 });
        out.put_slice(signature);
        out.put_i16(END);
    }

    /// Gives memory back that large values took.
    pub fn shrink(&mut self) {
        *self = RowEncoder::default();
    }
}

/// Puts what `values` writes into a message of the shape's kind.
fn framed(
    out: &mut Vec<u8>,
    shape: Shape<'_>,
    signature_due: &mut bool,
    values: impl FnOnce(&mut Vec<u8>) -> Result<(), WireError>,
) -> Result<(), WireError> {
    let start = out.len();
    let result = (|| {
        match shape.target {
            Target::DataRow(_) | Target::CopyBinary => {
                let is_copy = matches!(shape.target, Target::CopyBinary);
                out.put_u8(if is_copy { b'd' } else { b'D' });
                out.put_i32(0);
                if is_copy && std::mem::take(signature_due) {
                    out.put_slice(SIGNATURE);
                }
                out.put_i16(i16::try_from(shape.columns.len()).map_err(|_| WireError::ResultTooLarge)?);
                values(out)?;
            }
            Target::Copy(_) => {
                out.put_u8(b'd');
                out.put_i32(0);
                values(out)?;
                out.put_u8(b'\n');
            }
        }
        fill_length(out, start + 1, 0)
    })();
    if result.is_err() {
        out.truncate(start);
    }
    result
}

/// Appends one value.
fn value(
    out: &mut Vec<u8>,
    text: &mut Vec<u8>,
    datum: &Datum<'_>,
    index: usize,
    shape: Shape<'_>,
) -> Result<(), WireError> {
    let ty = &shape.columns[index].ty;
    match shape.target {
        Target::DataRow(_) | Target::CopyBinary if datum.is_null() => out.put_i32(-1),
        Target::DataRow(_) | Target::CopyBinary => {
            let start = out.len();
            out.put_i32(0);
            match shape.format(index) {
                Format::Text => encode_text(ty, datum, shape.options, out),
                Format::Binary => encode_binary(ty, datum, shape.options, out)?,
            }
            fill_length(out, start, 4)?;
        }
        Target::Copy(syntax) => {
            writer::separator(out, index, syntax);
            let field = if datum.is_null() {
                None
            } else {
                text.clear();
                encode_text(ty, datum, shape.options, text);
                Some(&text[..])
            };
            writer::field(out, field, Place { at: index, count: shape.columns.len() }, syntax);
        }
    }
    // Before the next value, not after the last: a row of many long values would have filled the memory by then.
    if out.len() > ROW_BYTES_MAX { Err(WireError::ResultTooLarge) } else { Ok(()) }
}

/// Fills the length field at `at` with the number of bytes from it to the end, less `excluded`.
fn fill_length(out: &mut [u8], at: usize, excluded: usize) -> Result<(), WireError> {
    let length = i32::try_from(out.len() - at - excluded).map_err(|_| WireError::ResultTooLarge)?;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

fn unprintable(ty: &DataType) -> WireError {
    WireError::from(pgrepr::error::PgReprError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        format!("values of type {ty} cannot be sent"),
    ))
}

#[cfg(test)]
mod tests {
    use super::{ROW_BYTES_MAX, RowEncoder, Shape, Target, fill_length};
    use crate::error::WireError;
    use crate::formats::{Format, Formats};
    use arrow::array::{Int32Array, RecordBatch, StringViewArray};
    use arrow::datatypes::DataType;
    use pgrepr::copy::{CopyFormat, CopyOptions};
    use pgrepr::options::EncodeOptions;
    use repr::row::{Stored, write_array_value};
    use repr::{ColumnDesc, PgType, RelationDesc};
    use std::sync::Arc;

    const LONG: &str = "a string that is stored in more than one block, and then in one of the larger ones too";

    /// Three columns and two rows, as a batch.
    fn batch() -> (RelationDesc, RecordBatch) {
        let column = |name: &str, ty| (name.to_owned(), ty, true);
        let desc = RelationDesc::new([column("a", PgType::Int4), column("b", PgType::Text), column("c", PgType::Text)]);
        let ints = Int32Array::from(vec![Some(-7), None]);
        let texts = StringViewArray::from(vec![Some("x"), Some("")]);
        let longs = StringViewArray::from(vec![None, Some(LONG)]);
        let columns = vec![Arc::new(ints) as _, Arc::new(texts) as _, Arc::new(longs) as _];
        let batch = RecordBatch::try_new(Arc::clone(&desc.schema), columns).expect("the types agree");
        (desc, batch)
    }

    fn stored_row(batch: &RecordBatch, row: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for column in batch.columns() {
            write_array_value(&mut bytes, column.as_ref(), row).expect("storable");
        }
        bytes
    }

    #[test]
    fn stored_rows_and_batches_look_alike_under_any_projection() {
        let (desc, batch) = batch();
        let types: Vec<DataType> = batch.columns().iter().map(|column| column.data_type().clone()).collect();
        let options = EncodeOptions::default();
        let mut encoder = RowEncoder::default();
        for projection in [&[0, 1, 2][..], &[2, 1, 0], &[1], &[], &[2, 2, 0, 0], &[0, 2]] {
            let columns: Vec<ColumnDesc> = projection.iter().map(|&at| desc.columns[at].clone()).collect();
            let projected = batch.project(projection).expect("in range");
            for format in [Format::Text, Format::Binary] {
                let formats = Formats::All(format);
                let shape = Shape { columns: &columns, options: &options, target: Target::DataRow(&formats) };
                for row in 0..batch.num_rows() {
                    let (mut one, mut other) = (Vec::new(), Vec::new());
                    let stored = Stored { types: &types, projection };
                    encoder.stored(&mut one, &stored_row(&batch, row), stored, shape).expect("encodes");
                    encoder.batch_row(&mut other, &projected, row, shape).expect("encodes");
                    assert_eq!(one, other, "row {row} of {projection:?}");
                }
            }
        }
    }

    #[test]
    fn a_data_row_is_lengths_and_values() {
        let (desc, batch) = batch();
        let (options, formats) = (EncodeOptions::default(), Formats::text());
        let shape = Shape { columns: &desc.columns, options: &options, target: Target::DataRow(&formats) };
        let mut out = Vec::new();
        RowEncoder::default().batch_row(&mut out, &batch, 0, shape).expect("encodes");
        assert_eq!(&out[..], b"D\0\0\0\x15\0\x03\0\0\0\x02-7\0\0\0\x01x\xff\xff\xff\xff");
    }

    /// CVE-2024-27304: a length that wraps would make the rest of a value a message of its own.
    #[test]
    fn a_row_that_no_length_can_hold_is_refused() {
        let (desc, batch) = batch();
        let options = EncodeOptions::default();
        let formats = Formats::text();
        let copy = CopyOptions::new(CopyFormat::Text);
        for target in [Target::DataRow(&formats), Target::Copy(&copy), Target::CopyBinary] {
            let shape = Shape { columns: &desc.columns, options: &options, target };
            // Zeroes that nobody touches take no memory.
            let mut out = vec![0; ROW_BYTES_MAX];
            let refused = RowEncoder::default().batch_row(&mut out, &batch, 0, shape);
            assert!(matches!(refused, Err(WireError::ResultTooLarge)), "{refused:?}");
            assert_eq!(out.len(), ROW_BYTES_MAX, "of a row that is refused nothing is left");
        }
        for length in [1_usize << 31, (1 << 32) - 4, 1 << 32, (1 << 32) + 9] {
            let refused = fill_length(&mut vec![0; length + 4], 0, 4);
            assert!(matches!(refused, Err(WireError::ResultTooLarge)), "{length}");
        }
    }

    #[test]
    fn a_binary_copy_begins_and_ends_with_its_marks() {
        let (desc, batch) = batch();
        let options = EncodeOptions::default();
        let shape = Shape { columns: &desc.columns, options: &options, target: Target::CopyBinary };
        let (mut out, mut encoder) = (Vec::new(), RowEncoder::default());
        encoder.begin_binary_copy();
        encoder.batch_row(&mut out, &batch, 0, shape).expect("encodes");
        encoder.end_binary_copy(&mut out);
        let signature = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
        let row = b"\0\x03\0\0\0\x04\xff\xff\xff\xf9\0\0\0\x01x\xff\xff\xff\xff";
        let expected = [&b"d\0\0\0\x2a"[..], signature, row, b"d\0\0\0\x06\xff\xff"].concat();
        assert_eq!(&out[..], expected);
        out.clear();
        encoder.begin_binary_copy();
        encoder.end_binary_copy(&mut out);
        assert_eq!(&out[..], [&b"d\0\0\0\x19"[..], signature, b"\xff\xff"].concat());
    }

    #[test]
    fn a_copy_line_is_one_message() {
        let (desc, batch) = batch();
        let options = EncodeOptions::default();
        let syntax = CopyOptions { header: true, ..CopyOptions::new(CopyFormat::Csv) };
        let shape = Shape { columns: &desc.columns, options: &options, target: Target::Copy(&syntax) };
        let (mut out, mut encoder) = (Vec::new(), RowEncoder::default());
        encoder.header(&mut out, &syntax, shape).expect("encodes");
        encoder.batch_row(&mut out, &batch, 0, shape).expect("encodes");
        assert_eq!(&out[..], b"d\0\0\0\x0aa,b,c\nd\0\0\0\x0a-7,x,\n");
    }
}
