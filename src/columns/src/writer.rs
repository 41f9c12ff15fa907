//! Writes a file, a row group at a time.

use crate::distinct::Distinct;
use crate::marks::{self, Marks};
use crate::shape::Shape;
use crate::{Error, GRANULE_ROWS, GROUP_ROWS};
use arrow::array::{ArrayRef, AsArray, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Decimal128Type};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use repr::Timestamp;
use std::sync::Arc;

/// Rows that are decoded at once: few enough that what is cut out of them stays in the cache.
const ROWS_AT_ONCE: usize = 1 << 12;
/// Rows of a page: what is decompressed for one row.
const PAGE_ROWS: usize = 2 << 10;

/// Bytes of a dictionary: what has more different values is kept without one, so that a row is found without decoding them.
const DICTIONARY_BYTES: usize = 16 << 10;

/// A file being written. What is written comes out in pieces, whose concatenation is the file.
pub struct Writer {
    shape: Arc<Shape>,
    file: ArrowWriter<Vec<u8>>,
    /// How many bytes have come out.
    length: u64,
    checksums: Vec<u32>,
    marks: Marks,
    /// By column, where its values are counted.
    distinct: Vec<Option<Distinct>>,
}

/// How a file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The length of the file.
    pub length: u64,
    /// How many bytes at its end say where everything is: what [`crate::File::open`] wants.
    pub tail: u64,
    /// Their CRC-32.
    pub checksum: u32,
}

impl Writer {
    /// Begins a file.
    pub fn new(shape: Arc<Shape>) -> Result<Writer, Error> {
        let file = ArrowWriter::try_new(Vec::new(), Arc::clone(&shape.stored), Some(properties()))?;
        let distinct = shape.types().iter().map(Distinct::of).collect();
        Ok(Writer { shape, file, length: 0, checksums: Vec::new(), marks: Marks::default(), distinct })
    }

    /// Writes a row group, of at least one row and at most [`GROUP_ROWS`], and gives the bytes that come next. Rows ascend, and
    /// none is below those of the groups before. Fails only where the rows are none of this shape.
    pub fn write(&mut self, rows: &[&[u8]], times: &[Timestamp]) -> Result<Vec<u8>, Error> {
        assert!((1..=GROUP_ROWS).contains(&rows.len()) && rows.len() == times.len(), "a group of {} rows", rows.len());
        debug_assert!(rows.is_sorted(), "rows ascend");
        rows.iter().step_by(GRANULE_ROWS).for_each(|row| self.marks.push(row));
        for (rows, times) in rows.chunks(ROWS_AT_ONCE).zip(times.chunks(ROWS_AT_ONCE)) {
            let mut arrays = Vec::with_capacity(self.shape.time() + 1);
            for (column, array) in self.shape.codec.decode(rows.iter().copied())?.into_iter().enumerate() {
                check_digits(&array)?;
                if let Some(distinct) = &mut self.distinct[column] {
                    distinct.add(&array);
                }
                arrays.push(self.shape.to_stored(column, array)?);
            }
            arrays.push(Arc::new(UInt64Array::from(times.to_vec())));
            self.file.write(&RecordBatch::try_new(Arc::clone(&self.shape.stored), arrays)?)?;
        }
        self.file.flush()?;
        self.file.sync().map_err(|error| Error::Damaged(error.to_string()))?;
        let bytes = std::mem::take(self.file.inner_mut());
        let group = self.file.flushed_row_groups().last().expect("it was flushed");
        for chunk in group.columns() {
            let (start, length) = chunk.byte_range();
            let start = usize::try_from(start - self.length).expect("it was just written");
            let length = usize::try_from(length).expect("it is in memory");
            self.checksums.push(crc32fast::hash(&bytes[start..start + length]));
        }
        self.length += bytes.len() as u64;
        Ok(bytes)
    }

    /// The bytes that end the file.
    pub fn finish(mut self) -> Result<(Vec<u8>, Tail), Error> {
        for pair in marks::write(&self.checksums, &self.marks, &self.distinct) {
            self.file.append_key_value_metadata(pair);
        }
        let bytes = self.file.into_inner()?;
        let (tail, checksum) = (bytes.len() as u64, crc32fast::hash(&bytes));
        Ok((bytes, Tail { length: self.length + tail, tail, checksum }))
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("length", &self.length).finish_non_exhaustive()
    }
}

fn properties() -> WriterProperties {
    WriterProperties::builder()
        .set_created_by("glimpse".to_owned())
        .set_compression(Compression::LZ4_RAW)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_write_batch_size(PAGE_ROWS)
        .set_dictionary_page_size_limit(DICTIONARY_BYTES)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .build()
}

/// A decimal is kept in as many bytes as its precision says: one that has more digits would be another afterwards.
fn check_digits(array: &ArrayRef) -> Result<(), Error> {
    if let DataType::Decimal128(precision, _) = array.data_type() {
        array.as_primitive::<Decimal128Type>().validate_decimal_precision(*precision)?;
    }
    Ok(())
}
