//! Reads a file: where everything is, then some columns of a row group at a time.

use crate::cache::{Cache, Slots};
use crate::distinct::Distinct;
use crate::marks::{self, Marks};
use crate::shape::Shape;
use crate::{Error, GRANULE_ROWS};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch, RecordBatchReader, new_null_array,
};
use arrow::compute::{FilterBuilder, FilterPredicate, concat_batches, filter_record_batch};
use arrow::datatypes::{ArrowNativeType, UInt64Type};
use arrow::row::Rows;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::statistics::Statistics;
use repr::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

/// Rows that are decoded at once where all of a group are wanted as rows.
pub const ROWS_AT_ONCE: usize = 8 << 10;

/// Of what part of its rows columns of a group are asked for if decoding all does not pay: one in so many.
const FEW: usize = 128;

/// Where the bytes of a file are.
pub trait Fetch {
    /// Why there are none.
    type Error: From<Error>;

    /// So many bytes from an offset on.
    fn fetch(&mut self, offset: u64, length: usize) -> Result<Bytes, Self::Error>;
}

/// What is known of a file before its rows are read.
#[derive(Debug)]
pub struct File {
    shape: Arc<Shape>,
    metadata: ArrowReaderMetadata,
    /// The same with the schema of what is decoded ([`Shape::decoded`]): statistics need that of the values.
    reading: ArrowReaderMetadata,
    checksums: Vec<u32>,
    pub(crate) marks: Marks,
    groups: Vec<Group>,
    /// By column: a sketch of its values.
    pub(crate) distinct: Vec<Option<Distinct>>,
    /// By row group and column: what of it is kept decoded.
    slots: Arc<Slots>,
}

/// A row group.
#[derive(Clone, Debug)]
pub struct Group {
    /// The position of its first row in the file.
    pub start: u64,
    /// How many rows it has.
    pub rows: usize,
    /// The first and the last time of a row.
    pub times: RangeInclusive<Timestamp>,
    /// Its granules.
    pub(crate) granules: Range<usize>,
}

/// Some columns of a row group, read and found right.
#[derive(Clone, Debug)]
pub struct Chunks {
    group: usize,
    parts: Arc<Vec<(u64, Bytes)>>,
}

/// Which rows of a group are wanted.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// All.
    All,
    /// Those at these positions, which ascend.
    At(&'a [usize]),
    /// Those where this is true of the rows from this one on; none of the others.
    Where(usize, &'a BooleanArray),
}

impl Wanted<'_> {
    /// How many there are, among so many.
    fn count(self, among: usize) -> usize {
        match self {
            Wanted::All => among,
            Wanted::At(rows) => rows.len(),
            Wanted::Where(_, mask) => mask.true_count(),
        }
    }

    /// As a mask over so many rows; `None` if all are wanted.
    fn mask(self, among: usize) -> Option<BooleanArray> {
        match self {
            Wanted::All => None,
            Wanted::At(rows) => {
                let mut mask = BooleanBufferBuilder::new(among);
                mask.append_n(among, false);
                rows.iter().for_each(|row| mask.set_bit(*row, true));
                Some(BooleanArray::new(mask.finish(), None))
            }
            Wanted::Where(start, mask) => {
                let mut all = BooleanBufferBuilder::new(among);
                all.append_n(start, false);
                all.append_buffer(mask.values());
                all.append_n(among - start - mask.len(), false);
                Some(BooleanArray::new(all.finish(), None))
            }
        }
    }

    /// Among so many: a range that all are in, and which of it they are, unless they are all of it.
    fn picked(self, among: usize) -> (Range<usize>, Option<FilterPredicate>) {
        let predicate = |mask: &BooleanArray| FilterBuilder::new(mask).optimize().build();
        match self {
            Wanted::Where(start, mask) => (start..start + mask.len(), Some(predicate(mask))),
            wanted => (0..among, wanted.mask(among).as_ref().map(predicate)),
        }
    }
}

/// Some rows of a group, with their times.
#[derive(Debug)]
pub struct Piece {
    /// The rows.
    pub rows: Rows,
    /// The times.
    pub times: Vec<Timestamp>,
}

impl Piece {
    /// Where each row ends, all of their bytes, and their times.
    pub fn into_parts(self) -> Result<(Vec<usize>, Vec<u8>, Vec<Timestamp>), Error> {
        // Arrow counts the bytes of an array of rows with 31 bits.
        if i32::try_from(self.rows.lengths().sum::<usize>()).is_err() {
            let mut bytes = Vec::new();
            let end = |row: arrow::row::Row<'_>| {
                bytes.extend_from_slice(row.data());
                bytes.len()
            };
            return Ok((self.rows.iter().map(end).collect(), bytes, self.times));
        }
        let (offsets, bytes, _) = self.rows.try_into_binary()?.into_parts();
        let ends = offsets[1..].iter().map(|end| end.as_usize()).collect();
        Ok((ends, bytes.into_vec().unwrap_or_else(|shared| shared.to_vec()), self.times))
    }
}

impl File {
    /// The file that ends with `tail`, whose checksum was found right, and is `length` bytes long.
    pub fn open(tail: Bytes, length: u64) -> Result<File, Error> {
        let start = length - tail.len() as u64;
        let chunks = Tailed { length, start, tail };
        let mut reader = ParquetMetaDataReader::new()
            .with_column_index_policy(PageIndexPolicy::Skip)
            .with_offset_index_policy(PageIndexPolicy::Required);
        reader.try_parse(&chunks)?;
        let metadata = Arc::new(reader.finish()?);
        let metadata = ArrowReaderMetadata::try_new(metadata, ArrowReaderOptions::new())?;
        let pairs = metadata.metadata().file_metadata().key_value_metadata();
        let pairs = pairs.map_or(&[][..], Vec::as_slice);
        let (checksums, marks) = marks::read(pairs)?;
        let shape = Arc::new(Shape::of_file(metadata.schema())?);
        let reading = ArrowReaderOptions::new().with_schema(shape.decoded());
        let reading = ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), reading)?;
        let groups = groups(&metadata, &shape)?;
        let granules = groups.last().map_or(0, |group| group.granules.end);
        let columns = shape.time() + 1;
        if checksums.len() != groups.len() * columns || marks.len() != granules {
            return Err(Error::Damaged("it does not say of all its rows where they are".to_owned()));
        }
        let slots = Arc::new(Slots::new(checksums.len()));
        let distinct = marks::read_distinct(pairs, shape.types().len());
        Ok(File { shape, metadata, reading, checksums, marks, groups, distinct, slots })
    }

    /// What its rows are made of.
    pub fn shape(&self) -> &Arc<Shape> {
        &self.shape
    }

    pub(crate) fn metadata(&self) -> &ArrowReaderMetadata {
        &self.metadata
    }

    /// Its row groups.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Reads some columns of a row group.
    pub fn read<F: Fetch>(&self, from: &mut F, group: usize, columns: &BTreeSet<usize>) -> Result<Chunks, F::Error> {
        self.read_stored(from, group, columns.iter().copied())
    }

    /// Reads the times of the rows of a group.
    pub fn times<F: Fetch>(&self, from: &mut F, group: usize) -> Result<Vec<Timestamp>, F::Error> {
        let of = &self.groups[group];
        if of.times.start() == of.times.end() {
            return Ok(vec![*of.times.start(); of.rows]);
        }
        let chunks = self.read_stored(from, group, [self.shape.time()])?;
        let batch = self.batch(&chunks, [self.shape.time()], None)?;
        Ok(times(&batch)?)
    }

    /// Reads everything of a row group.
    pub(crate) fn read_whole<F: Fetch>(&self, from: &mut F, group: usize) -> Result<Chunks, F::Error> {
        self.read_stored(from, group, 0..=self.shape.time())
    }

    fn read_stored<F: Fetch>(
        &self,
        from: &mut F,
        group: usize,
        columns: impl IntoIterator<Item = usize>,
    ) -> Result<Chunks, F::Error> {
        let of = self.metadata.metadata().row_group(group);
        let mut parts = Vec::new();
        for column in columns {
            let (start, length) = of.column(column).byte_range();
            let length =
                usize::try_from(length).map_err(|_| Error::Damaged("a chunk is longer than memory".to_owned()))?;
            let bytes = from.fetch(start, length)?;
            if crc32fast::hash(&bytes) != self.checksums[group * (self.shape.time() + 1) + column] {
                let what = format!("the checksum of column {column} of row group {group} does not match");
                return Err(Error::Damaged(what).into());
            }
            parts.push((start, bytes));
        }
        Ok(Chunks { group, parts: Arc::new(parts) })
    }

    /// Columns of a row group, in their order. What is kept decoded is not read; where it pays, what has to be read is kept.
    pub fn columns<E: From<Error>>(
        &self,
        group: usize,
        columns: &BTreeSet<usize>,
        wanted: Wanted<'_>,
        cache: Option<&Cache>,
        read: impl FnOnce(&BTreeSet<usize>) -> Result<Chunks, E>,
    ) -> Result<Vec<ArrayRef>, E> {
        let of = self.groups[group].rows;
        let slot = |column: usize| group * (self.shape.time() + 1) + column;
        let (range, picked) = wanted.picked(of);
        let (mut found, mut missing) = (BTreeMap::new(), BTreeSet::new());
        for column in columns {
            match self.slots.get(slot(*column)) {
                Some(kept) => {
                    drop(found.insert(*column, kept.array(range.clone(), picked.as_ref()).map_err(Error::from)?))
                }
                None => drop(missing.insert(*column)),
            }
        }
        if !missing.is_empty() {
            let chunks = read(&missing)?;
            let cache = cache.filter(|_| wanted.count(of) > of / FEW);
            let Some(cache) = cache else {
                found.extend(missing.iter().copied().zip(self.decode(&chunks, &missing, wanted)?));
                return Ok(found.into_values().collect());
            };
            let stored = self.batch(&chunks, missing.iter().copied(), None)?;
            for (column, array) in missing.into_iter().zip(stored.columns()) {
                let chunk = self.shape.to_packed(column, array)?;
                cache.keep(&self.slots, slot(column), &chunk);
                found.insert(column, chunk.array(range.clone(), picked.as_ref()).map_err(Error::from)?);
            }
        }
        Ok(found.into_values().collect())
    }

    /// Decodes columns that were read.
    pub fn decode(
        &self,
        chunks: &Chunks,
        columns: &BTreeSet<usize>,
        wanted: Wanted<'_>,
    ) -> Result<Vec<ArrayRef>, Error> {
        let of = self.groups[chunks.group].rows;
        let (selection, mask) = match wanted {
            // Where most are wanted, leaving out the others afterwards takes less than not decoding them.
            Wanted::At(rows) if rows.len() <= of / 4 => (Some(selection(rows, of)), None),
            wanted => (None, wanted.mask(of)),
        };
        let mut batch = self.batch(chunks, columns.iter().copied(), selection)?;
        if let Some(mask) = mask {
            batch = filter_record_batch(&batch, &mask)?;
        }
        let values = columns.iter().zip(batch.columns()).map(|(column, array)| self.shape.to_value(*column, array));
        values.collect()
    }

    /// Decodes successive rows of a group that was read whole.
    pub(crate) fn decode_range(&self, chunks: &Chunks, range: Range<usize>) -> Result<Piece, Error> {
        let of = self.groups[chunks.group].rows;
        let selection = RowSelection::from_consecutive_ranges(std::iter::once(range), of);
        self.rows_of(&self.batch(chunks, 0..=self.shape.time(), Some(selection))?, None)
    }

    /// The rows of a group that stand at these positions, which ascend.
    pub fn rows_at<F: Fetch>(&self, from: &mut F, group: usize, rows: &[usize]) -> Result<Piece, F::Error> {
        let chunks = self.read_whole(from, group)?;
        let selection = selection(rows, self.groups[group].rows);
        Ok(self.rows_of(&self.batch(&chunks, 0..=self.shape.time(), Some(selection))?, None)?)
    }

    /// The rows of a group, some at a time; with NULL in all columns but these, if some are given.
    pub fn rows<F: Fetch>(
        self: &Arc<File>,
        from: &mut F,
        group: usize,
        columns: Option<&Arc<BTreeSet<usize>>>,
    ) -> Result<RowsOf, F::Error> {
        let stored = (0..=self.shape.time())
            .filter(|at| *at == self.shape.time() || columns.is_none_or(|columns| columns.contains(at)));
        let chunks = self.read_stored(from, group, stored.clone())?;
        let reader = self.reader(&chunks, stored, None, ROWS_AT_ONCE)?;
        Ok(RowsOf { file: Arc::clone(self), reader, columns: columns.cloned() })
    }

    /// Rows that have NULL in all columns but these.
    fn rows_of(&self, batch: &RecordBatch, columns: Option<&BTreeSet<usize>>) -> Result<Piece, Error> {
        let mut stored = batch.columns().iter();
        let values =
            (0..self.shape.time()).map(|column| match columns.is_none_or(|columns| columns.contains(&column)) {
                true => self.shape.to_value(column, stored.next().expect("it was asked for")),
                false => Ok(new_null_array(&self.shape.codec.types()[column], batch.num_rows())),
            });
        let rows = self.shape.codec.encode(&values.collect::<Result<Vec<_>, _>>()?)?;
        Ok(Piece { rows, times: times(batch)? })
    }

    fn batch(
        &self,
        chunks: &Chunks,
        columns: impl IntoIterator<Item = usize>,
        selection: Option<RowSelection>,
    ) -> Result<RecordBatch, Error> {
        let rows = self.groups[chunks.group].rows;
        let reader = self.reader(chunks, columns, selection, rows)?;
        let schema = reader.schema();
        let mut batches = reader.collect::<Result<Vec<_>, _>>()?;
        match batches.len() {
            1 => Ok(batches.swap_remove(0)),
            _ => Ok(concat_batches(&schema, &batches)?),
        }
    }

    fn reader(
        &self,
        chunks: &Chunks,
        columns: impl IntoIterator<Item = usize>,
        selection: Option<RowSelection>,
        rows: usize,
    ) -> Result<ParquetRecordBatchReader, Error> {
        let mask = ProjectionMask::roots(self.reading.parquet_schema(), columns);
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(chunks.clone(), self.reading.clone())
            .with_row_groups(vec![chunks.group])
            .with_projection(mask)
            .with_batch_size(rows);
        Ok(match selection {
            Some(selection) => reader.with_row_selection(selection).build()?,
            None => reader.build()?,
        })
    }
}

/// See [`File::rows`].
#[derive(Debug)]
pub struct RowsOf {
    file: Arc<File>,
    reader: ParquetRecordBatchReader,
    columns: Option<Arc<BTreeSet<usize>>>,
}

impl Iterator for RowsOf {
    type Item = Result<Piece, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.reader.next()?;
        Some(batch.map_err(Error::from).and_then(|batch| self.file.rows_of(&batch, self.columns.as_deref())))
    }
}

fn groups(metadata: &ArrowReaderMetadata, shape: &Shape) -> Result<Vec<Group>, Error> {
    let (mut granule, mut next) = (0, 0);
    let group = |of: &parquet::file::metadata::RowGroupMetaData| {
        let rows = usize::try_from(of.num_rows()).unwrap_or_default();
        let times = match of.column(shape.time()).statistics() {
            Some(Statistics::Int64(times)) => times.min_opt().zip(times.max_opt()),
            _ => None,
        };
        let (Some((first, last)), true) = (times, rows > 0) else {
            return Err(Error::Damaged("it does not say when its rows came".to_owned()));
        };
        let (first_granule, start) = (granule, next);
        granule += rows.div_ceil(GRANULE_ROWS);
        next += rows as u64;
        Ok(Group { start, rows, times: first.cast_unsigned()..=last.cast_unsigned(), granules: first_granule..granule })
    };
    metadata.metadata().row_groups().iter().map(group).collect()
}

/// The times, which are the last column.
fn times(batch: &RecordBatch) -> Result<Vec<Timestamp>, Error> {
    let column = batch.columns().last().and_then(|column| column.as_primitive_opt::<UInt64Type>());
    match column {
        Some(column) if column.null_count() == 0 => Ok(column.values().to_vec()),
        _ => Err(Error::Damaged("its times are none".to_owned())),
    }
}

/// Rows at these positions, which ascend, among so many.
fn selection(rows: &[usize], among: usize) -> RowSelection {
    let runs = rows.chunk_by(|one, next| one + 1 == *next).map(|run| run[0]..run[0] + run.len());
    RowSelection::from_consecutive_ranges(runs, among)
}

/// The end of a file, which Parquet reads as if the rest were there.
struct Tailed {
    length: u64,
    start: u64,
    tail: Bytes,
}

impl Length for Tailed {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Tailed {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(bytes::Buf::reader(within(self.start, &self.tail, start).ok_or_else(elsewhere)?))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let bytes = within(self.start, &self.tail, start).ok_or_else(elsewhere)?;
        if bytes.len() < length { Err(elsewhere()) } else { Ok(bytes.slice(..length)) }
    }
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.parts.iter().map(|(start, bytes)| start + bytes.len() as u64).max().unwrap_or(0)
    }
}

impl ChunkReader for Chunks {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let bytes = self.parts.iter().find_map(|(of, bytes)| within(*of, bytes, start)).ok_or_else(elsewhere)?;
        Ok(bytes::Buf::reader(bytes))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let mut within = self.parts.iter().filter_map(|(of, bytes)| within(*of, bytes, start));
        let bytes = within.find(|bytes| bytes.len() >= length).ok_or_else(elsewhere)?;
        Ok(bytes.slice(..length))
    }
}

/// What begins at `at` of bytes that begin at `start`.
fn within(start: u64, bytes: &Bytes, at: u64) -> Option<Bytes> {
    let offset = usize::try_from(at.checked_sub(start)?).ok()?;
    (offset < bytes.len()).then(|| bytes.slice(offset..))
}

fn elsewhere() -> ParquetError {
    ParquetError::General("it says that something stands where it was not read".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::{Finder, Found};
    use crate::{GROUP_ROWS, Writer};
    use arrow::array::Scalar;
    use arrow::array::{
        BinaryViewArray, Date32Array, Decimal128Array, Decimal256Array, FixedSizeBinaryArray, Float32Array,
        Float64Array, Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, ListArray, StringViewArray,
        Time64MicrosecondArray, TimestampMicrosecondArray, UInt32Array,
    };
    use arrow::compute::kernels::cmp::{gt, lt};
    use arrow::datatypes::{DataType, Int32Type, IntervalMonthDayNano, i256};
    use ore::memory::Share;
    use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
    use repr::columns::ColumnDecoder;

    /// A file in memory.
    pub(crate) struct InMemory(pub(crate) Bytes);

    impl Fetch for InMemory {
        type Error = Error;

        fn fetch(&mut self, offset: u64, length: usize) -> Result<Bytes, Error> {
            let offset = usize::try_from(offset).expect("it is in memory");
            Ok(self.0.slice(offset..offset + length))
        }
    }

    /// Values of every type, chosen by a number; some are NULL.
    fn columns(choices: &[u32]) -> Vec<ArrayRef> {
        let some = |shift: u32| {
            move |choice: &u32| (choice >> shift & 7 != 0).then_some(i64::from(choice.rotate_right(shift)))
        };
        fn of<T, A: FromIterator<Option<T>>>(
            choices: &[u32],
            some: impl Fn(&u32) -> Option<i64>,
            value: impl Fn(i64) -> T,
        ) -> A {
            choices.iter().map(|choice| some(choice).map(&value)).collect()
        }
        let floats = [0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, 1.5, -2.25e300, f64::MIN_POSITIVE];
        let float = |value: i64| floats[usize::try_from(value % 8).expect("small")];
        let text = |value: i64| "añ€𐍈".repeat(usize::try_from(value % 13).expect("small"));
        let lists = choices.iter().map(|choice| {
            some(4)(choice).map(|value| (0..value % 4).map(|at| (at > 0).then_some(at as i32)).collect::<Vec<_>>())
        });
        let interval = |value: i64| IntervalMonthDayNano::new(value as i32 - 7, value as i32 % 9, value - 99);
        let bytes = choices.iter().map(|choice| some(5)(choice).map(|value| [value as u8; 16]));
        let decimals: Decimal128Array = of(choices, some(6), |value| i128::from(value) - 77);
        let wide: Decimal128Array = of(choices, some(6), |value| i128::from(value) << 60);
        let huge: Decimal256Array = of(choices, some(7), |value| i256::from_i128(i128::from(value) << 70));
        vec![
            Arc::new(of::<_, BooleanArray>(choices, some(0), |value| value % 2 == 0)),
            Arc::new(of::<_, Int16Array>(choices, some(1), |value| value as i16)),
            Arc::new(of::<_, Int32Array>(choices, some(2), |value| value as i32)),
            Arc::new(of::<_, Int64Array>(choices, some(3), |value| value - (1 << 31))),
            Arc::new(of::<_, UInt32Array>(choices, some(4), |value| value as u32)),
            Arc::new(of::<_, Float32Array>(choices, some(5), |value| float(value) as f32)),
            Arc::new(of::<_, Float64Array>(choices, some(6), float)),
            Arc::new(decimals.with_precision_and_scale(15, 2).expect("fits")),
            Arc::new(wide.with_precision_and_scale(38, 5).expect("fits")),
            Arc::new(huge.with_precision_and_scale(76, 20).expect("fits")),
            Arc::new(of::<_, StringViewArray>(choices, some(8), text)),
            Arc::new(of::<_, BinaryViewArray>(choices, some(9), |value| vec![value as u8; (value % 40) as usize])),
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes, 16).expect("fits")),
            Arc::new(of::<_, Date32Array>(choices, some(2), |value| value as i32)),
            Arc::new(of::<_, Time64MicrosecondArray>(choices, some(3), |value| value)),
            Arc::new(of::<_, TimestampMicrosecondArray>(choices, some(4), |value| -value)),
            Arc::new(of::<_, TimestampMicrosecondArray>(choices, some(5), |value| value).with_timezone("+00:00")),
            Arc::new(of::<_, IntervalMonthDayNanoArray>(choices, some(6), interval)),
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)),
        ]
    }

    /// A file of rows, in groups of so many, and what it ends with.
    fn write(shape: &Arc<Shape>, rows: &[(Vec<u8>, Timestamp)], group: usize) -> (InMemory, Bytes) {
        let mut writer = Writer::new(Arc::clone(shape)).expect("it begins");
        let mut bytes = Vec::new();
        for group in rows.chunks(group) {
            let (rows, times): (Vec<&[u8]>, Vec<_>) = group.iter().map(|(row, time)| (row.as_slice(), *time)).unzip();
            bytes.extend(writer.write(&rows, &times).expect("rows of this shape"));
        }
        let (end, tail) = writer.finish().expect("it ends");
        bytes.extend(&end);
        assert_eq!((bytes.len() as u64, end.len() as u64), (tail.length, tail.tail));
        assert_eq!(crc32fast::hash(&end), tail.checksum);
        (InMemory(bytes.into()), end.into())
    }

    fn random(choices: &[u32], chosen: &BTreeSet<usize>) -> (Vec<DataType>, Vec<(Vec<u8>, Timestamp)>) {
        let all = columns(choices);
        let arrays: Vec<ArrayRef> = chosen.iter().map(|at| Arc::clone(&all[*at])).collect();
        let types: Vec<DataType> = arrays.iter().map(|array| array.data_type().clone()).collect();
        let encoded = repr::row::RowCodec::new(&types).expect("supported").encode(&arrays).expect("encodes");
        let mut rows: Vec<_> =
            (0..choices.len()).map(|at| (encoded.row(at).data().to_vec(), u64::from(choices[at] % 5))).collect();
        rows.sort();
        (types, rows)
    }

    proptest! {
        #[test]
        fn a_file_gives_back_what_was_written(
            choices in prop::collection::vec(prop::sample::select((0..400_u32).map(|at| at.wrapping_mul(2_654_435_761)).collect::<Vec<_>>()), 1..600),
            chosen in prop::collection::btree_set(0_usize..19, 1..19), wanted in any::<u32>(), group in 1_usize..300,
            bit in any::<prop::sample::Index>()) {
            let (types, rows) = random(&choices, &chosen);
            let shape = Arc::new(Shape::new(&types).expect("supported"));
            let (mut bytes, tail) = write(&shape, &rows, group);
            let file = Arc::new(File::open(tail.clone(), bytes.0.len() as u64).expect("it was just written"));
            prop_assert_eq!(file.shape().types(), types.as_slice());
            // As rows.
            let mut read = Vec::new();
            for at in 0..file.groups().len() {
                let mut of_group = Vec::new();
                for piece in file.rows(&mut bytes, at, None).expect("intact") {
                    let Piece { rows, times } = piece.expect("intact");
                    of_group.extend(rows.iter().zip(&times).map(|(row, time)| (row.data().to_vec(), *time)));
                }
                let times: Vec<_> = of_group.iter().map(|(_, time)| *time).collect();
                prop_assert_eq!(&file.times(&mut bytes, at).expect("intact"), &times);
                let range = *times.iter().min().expect("rows")..=*times.iter().max().expect("rows");
                prop_assert_eq!(&file.groups()[at].times, &range);
                read.extend(of_group);
            }
            prop_assert_eq!(&read, &rows);
            // As columns, some of them, of some rows.
            let cache = Cache::new(Share::root(usize::MAX, None));
            let wanted: BTreeSet<usize> = (0..types.len()).filter(|at| wanted >> at & 1 == 1).collect();
            let decoder = ColumnDecoder::new(&types, wanted.clone()).expect("supported");
            for (at, of_group) in rows.chunks(group).enumerate() {
                let few: Vec<usize> = (0..of_group.len()).filter(|row| choices[row % choices.len()] >> 9 & 1 == 1).collect();
                // In a stretch in which they all are.
                let start = few.first().copied().unwrap_or(0) / 2;
                let end = few.last().map_or(start, |last| last + 1);
                let mask: BooleanArray = (start..end).map(|row| Some(few.contains(&row))).collect();
                for some in [Wanted::All, Wanted::At(&few), Wanted::Where(start, &mask)] {
                    let expected: Vec<&[u8]> = match some {
                        Wanted::All => of_group.iter().map(|(row, _)| row.as_slice()).collect(),
                        _ => few.iter().map(|row| of_group[*row].0.as_slice()).collect(),
                    };
                    if !expected.is_empty() && !wanted.is_empty() {
                        let chunks = file.read(&mut bytes, at, &wanted).expect("intact");
                        let decoded = file.decode(&chunks, &wanted, some).expect("intact");
                        let expected = decoder.decode(expected.into_iter()).expect("decodes");
                        prop_assert_eq!(&decoded, &expected);
                        // The first time some may be read, the second time none has to be.
                        for is_first in [true, false] {
                            let mut read = false;
                            let found = file.columns(at, &wanted, some, Some(&cache), |missing| {
                                read = true;
                                file.read(&mut bytes, at, missing)
                            });
                            prop_assert_eq!(&found.expect("intact"), &expected);
                            prop_assert!(!read || is_first || few.len() <= of_group.len() / FEW);
                        }
                    }
                }
            }
            // By looking for them.
            let mut finder = Finder::new(file);
            for same in rows.chunk_by(|one, next| one.0 == next.0) {
                let start = rows.iter().position(|row| row == &same[0]).expect("it is there");
                let places = (start..).zip(same).map(|(at, (_, time))| Found { group: at / group, row: at % group, time: *time });
                prop_assert_eq!(finder.find(&mut bytes, &same[0].0).expect("intact"), places.collect::<Vec<_>>());
                let absent = [&same[0].0[..], &[1]].concat();
                prop_assert_eq!(finder.find(&mut bytes, &absent).expect("intact"), vec![]);
            }
            // Whatever bit is wrong before the tail, it is noticed by who reads it, and by nobody else.
            let at = bit.index(bytes.0.len() - tail.len());
            let mut damaged = bytes.0.to_vec();
            damaged[at] ^= 1 << (choices[0] % 8);
            let mut damaged = InMemory(damaged.into());
            let file = Arc::new(File::open(tail, bytes.0.len() as u64).expect("it was just written"));
            let damage: Vec<usize> = (0..file.groups().len()).filter(|at| file.rows(&mut damaged, *at, None).is_err()).collect();
            // Parquet's own magic at the beginning belongs to no chunk.
            prop_assert!(damage.len() == usize::from(at >= 4), "{damage:?} of {}", file.groups().len());
        }

        #[test]
        fn no_value_is_out_of_its_bounds(
            choices in prop::collection::vec(any::<u32>(), 1..400), chosen in prop::collection::btree_set(0_usize..19, 1..19),
            group in 1_usize..300) {
            let (types, rows) = random(&choices, &chosen);
            let (mut bytes, tail) = write(&Arc::new(Shape::new(&types).expect("supported")), &rows, group);
            let file = Arc::new(File::open(tail, bytes.0.len() as u64).expect("it was just written"));
            for (column, ty) in types.iter().enumerate() {
                prop_assert!(file.distinct(column).is_none_or(|of| of.estimate() <= 2 * choices.len() as u64));
                let Some(bounds) = file.bounds(column) else { continue };
                for at in 0..file.groups().len() {
                    let of = BTreeSet::from([column]);
                    let chunks = file.read(&mut bytes, at, &of).expect("intact");
                    let values = file.decode(&chunks, &of, Wanted::All).expect("intact").remove(0);
                    prop_assert_eq!(bounds.nulls.as_primitive::<UInt64Type>().value(at), values.null_count() as u64);
                    let (least, greatest) = (bounds.least.slice(at, 1), bounds.greatest.slice(at, 1));
                    prop_assert!(least.is_valid(0) || values.null_count() == values.len(), "{ty:?}");
                    prop_assert_eq!(lt(&values, &Scalar::new(least)).expect("of one type").true_count(), 0);
                    prop_assert_eq!(gt(&values, &Scalar::new(greatest)).expect("of one type").true_count(), 0);
                }
            }
        }
    }

    #[test]
    fn a_group_that_is_full() {
        let choices: Vec<u32> = (0..(GROUP_ROWS as u32 + 5_000)).map(|at| at.wrapping_mul(2_654_435_761)).collect();
        let (types, rows) = random(&choices, &BTreeSet::from([2, 10]));
        let (mut bytes, tail) = write(&Arc::new(Shape::new(&types).expect("supported")), &rows, GROUP_ROWS);
        let file = Arc::new(File::open(tail, bytes.0.len() as u64).expect("it was just written"));
        assert_eq!(file.groups().iter().map(|group| group.rows).collect::<Vec<_>>(), [GROUP_ROWS, 5_000]);
        // Anybody's tools read it.
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes.0.clone()).expect("it is Parquet").build();
        let batches: Vec<RecordBatch> = reader.expect("readable").collect::<Result<_, _>>().expect("intact");
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), rows.len());
        assert_eq!(batches[0].schema().fields(), file.metadata.schema().fields());
        let mut finder = Finder::new(Arc::clone(&file));
        for at in (0..rows.len()).step_by(977) {
            let found = finder.find(&mut bytes, &rows[at].0).expect("intact");
            assert!(found.iter().any(|found| found.group * GROUP_ROWS + found.row == at), "{at}: {found:?}");
        }
        let columns = BTreeSet::from([1]);
        let chunks = file.read(&mut bytes, 0, &columns).expect("intact");
        let all = file.decode(&chunks, &columns, Wanted::All).expect("intact");
        let few: Vec<usize> = (0..GROUP_ROWS).filter(|at| at % 5_001 < 3).collect();
        let some = file.decode(&chunks, &columns, Wanted::At(&few)).expect("intact");
        let positions = arrow::array::UInt64Array::from_iter_values(few.iter().map(|at| *at as u64));
        assert_eq!(&some[0], &arrow::compute::take(&all[0], &positions, None).expect("positions of rows"));
    }

    #[test]
    fn what_parquet_does_not_keep_is_not_kept() {
        use arrow::datatypes::{Field, IntervalUnit};
        let interval = DataType::Interval(IntervalUnit::MonthDayNano);
        assert!(Shape::new(&[]).is_none());
        assert!(Shape::new(&[DataType::Int32, interval.clone()]).is_some());
        assert!(Shape::new(&[DataType::List(Arc::new(Field::new("item", interval, true)))]).is_none());
    }

    #[test]
    fn a_number_with_more_digits_than_its_type_is_refused() {
        let types = [DataType::Decimal128(4, 0)];
        let mut row = Vec::new();
        repr::row::write_datum(&mut row, &types[0], &repr::Datum::Numeric(i256::from_i128(12_345), 0)).expect("a row");
        let mut writer = Writer::new(Arc::new(Shape::new(&types).expect("supported"))).expect("it begins");
        assert!(writer.write(&[&row], &[1]).is_err());
    }
}
