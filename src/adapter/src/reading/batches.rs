//! Rows as Arrow record batches of bounded bytes: for doors that do not encode stored rows by themselves.

use crate::description::RowDesc;
use crate::error::AdapterError;
use crate::response::{Chunk, Rows};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::DataType;
use repr::Timestamp;
use repr::row::RowCodec;
use std::sync::Arc;

/// Rows that are asked for at once.
const ROWS_AT_ONCE: usize = 8_192;
/// Bytes of a value that are not its own: of a fixed width, or where it is.
const WIDTH: usize = 16;

/// Rows being pulled as batches.
pub struct Batches {
    rows: Rows,
    pub(crate) desc: Arc<RowDesc>,
    bytes_max: usize,
    /// What was pulled and not given yet.
    left: Option<RecordBatch>,
    /// How many rows were given, and about how many bytes they have.
    pub(crate) given: (usize, usize),
}

impl Batches {
    /// Rows of this shape in batches of at most so many bytes, but for a row that has more: it is a batch of its own.
    pub fn new(desc: Arc<RowDesc>, rows: Rows, bytes_max: usize) -> Batches {
        Batches { rows, desc, bytes_max, left: None, given: (0, 0) }
    }

    /// Whether they come as things happen.
    pub(crate) fn is_live(&self) -> bool {
        self.rows.is_live()
    }

    /// Of rows that come as things happen, the time below which everything was given, if nothing is left to be given.
    pub(crate) fn upper(&self) -> Option<Timestamp> {
        self.rows.upper().filter(|_| self.left.is_none())
    }

    /// Waits until there are rows, or an end.
    ///
    /// # Cancellation
    /// Safe to drop: nothing is lost.
    pub(crate) async fn wait(&mut self) -> Result<(), AdapterError> {
        self.rows.wait().await
    }

    /// There is nothing more.
    pub(crate) fn end(&mut self) {
        (self.rows, self.left) = (Rows::ready(Vec::new()), None);
    }

    /// The next rows as they are, stored ones too; `None` at the end. Of one that has been taken apart by [`Batches::next`] nothing comes
    /// twice.
    ///
    /// # Cancellation
    /// As [`Batches::next`].
    pub async fn next_rows(&mut self) -> Result<Option<Chunk<'_>>, AdapterError> {
        if self.left.is_none() {
            self.rows.wait().await?;
        }
        if self.left.is_none() && matches!(self.rows, Rows::Peek(_)) {
            let chunk = self.rows.next_within(ROWS_AT_ONCE, self.bytes_max).await?;
            if let Some(Chunk::Stored(stored)) = &chunk {
                let bytes: usize = stored.rows().map(<[u8]>::len).sum();
                self.given = (self.given.0 + stored.rows().len(), self.given.1 + bytes);
            }
            return Ok(chunk);
        }
        Ok(self.next().await?.map(|batch| {
            let rows = batch.num_rows();
            Chunk::Batch(batch, 0..rows)
        }))
    }

    /// The next batch, which has rows; `None` at the end.
    ///
    /// # Cancellation
    /// Safe to drop: no row is taken before it is returned.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>, AdapterError> {
        loop {
            if let Some(batch) = self.left.take() {
                let (count, bytes) = rows_within(&batch, self.bytes_max);
                self.given = (self.given.0 + count, self.given.1 + bytes);
                self.left = (count < batch.num_rows()).then(|| batch.slice(count, batch.num_rows() - count));
                return Ok(Some(batch.slice(0, count)));
            }
            match self.rows.next_within(ROWS_AT_ONCE, self.bytes_max).await? {
                None => return Ok(None),
                Some(chunk) => self.left = Some(chunk.batch(&self.desc)?).filter(|batch| batch.num_rows() > 0),
            }
        }
    }
}

impl Chunk<'_> {
    /// The rows as a batch of this shape.
    pub(crate) fn batch(&self, desc: &RowDesc) -> Result<RecordBatch, AdapterError> {
        let stored = match self {
            Chunk::Batch(batch, range) => return Ok(batch.slice(range.start, range.len())),
            Chunk::Stored(stored) => stored,
        };
        let columns = RowCodec::new(stored.stored_types())?.decode(stored.rows())?;
        let projected: Vec<ArrayRef> = stored.projection().iter().map(|column| Arc::clone(&columns[*column])).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(stored.rows().len()));
        RecordBatch::try_new_with_options(Arc::clone(&desc.desc.schema), projected, &options)
            .map_err(|error| AdapterError::internal(error.to_string()))
    }
}

/// How many of the first rows of a batch have no more than so many bytes together, one at least; and how many bytes they have.
fn rows_within(batch: &RecordBatch, bytes_max: usize) -> (usize, usize) {
    let (fixed, mut within) = (WIDTH * batch.num_columns(), (0, 0));
    for row in 0..batch.num_rows() {
        let bytes = within.1 + fixed + row_bytes(batch, row);
        if row > 0 && bytes > bytes_max {
            break;
        }
        within = (row + 1, bytes);
    }
    within
}

/// About how many bytes a row of a batch has, values of a fixed width not counted.
pub fn row_bytes(batch: &RecordBatch, row: usize) -> usize {
    batch.columns().iter().map(|column| value_bytes(column, row)).sum()
}

fn value_bytes(column: &ArrayRef, row: usize) -> usize {
    if column.is_null(row) {
        return 0;
    }
    match column.data_type() {
        DataType::Utf8View => column.as_string_view().value(row).len(),
        DataType::BinaryView => column.as_binary_view().value(row).len(),
        DataType::List(_) => {
            let items = column.as_list::<i32>().value(row);
            // Each item is printed, whatever its width.
            items.len() * 8 + (0..items.len()).map(|item| value_bytes(&items, item)).sum::<usize>()
        }
        DataType::Struct(_) => column.as_struct().columns().iter().map(|field| value_bytes(field, row)).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::Interrupt;
    use arrow::array::{Int32Array, StringViewArray};
    use arrow::datatypes::{Field, Int32Type, Schema};
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use futures::FutureExt;
    use ore::abandon::{at_every_poll, polled};
    use repr::RelationDesc;
    use std::task::Poll;

    fn batches(lengths: &[usize], bytes_max: usize) -> Batches {
        let fields = vec![Field::new("n", DataType::Int32, true), Field::new("t", DataType::Utf8View, true)];
        let schema = Arc::new(Schema::new(fields));
        let numbers = Int32Array::from_iter_values((0..).take(lengths.len()));
        let texts = StringViewArray::from_iter_values(lengths.iter().map(|length| "x".repeat(*length)));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(numbers), Arc::new(texts)]);
        let desc = Arc::new(RelationDesc { columns: Vec::new(), schema });
        Batches::new(RowDesc::new(desc, Vec::new()), Rows::ready(vec![batch.expect("it is one")]), bytes_max)
    }

    fn row_counts(mut batches: Batches) -> Vec<usize> {
        let next = || batches.next().now_or_never().expect("the rows are there").expect("nothing fails");
        std::iter::from_fn(next).map(|batch| batch.num_rows()).collect()
    }

    /// The batches of these numbers of rows, numbered through, before each of which the stream is not ready.
    fn coming(counts: &'static [i32]) -> Batches {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int32, true)]));
        let (mut left, mut first, mut is_ready) = (counts.iter().copied(), 0, false);
        let of = Arc::clone(&schema);
        let stream = futures::stream::poll_fn(move |_| {
            is_ready = !is_ready;
            if is_ready {
                return Poll::Pending;
            }
            let batch = left.next().map(|count| {
                let numbers = Int32Array::from_iter_values(first..first + count);
                first += count;
                Ok(RecordBatch::try_new(Arc::clone(&of), vec![Arc::new(numbers)])?)
            });
            Poll::Ready(batch)
        });
        let stream = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), stream));
        let desc = Arc::new(RelationDesc { columns: Vec::new(), schema });
        let rows = Rows::stream(stream, Interrupt::new(Arc::default(), None));
        Batches::new(RowDesc::new(desc, Vec::new()), rows, 4 * WIDTH)
    }

    #[test]
    fn who_gives_up_waiting_for_rows_loses_none() {
        let polls = at_every_poll(10, |times| {
            let mut batches = coming(&[3, 0, 10, 1]);
            let first = polled(batches.next(), times, || {});
            let is_done = first.is_some();
            let mut numbers: Vec<i32> = Vec::new();
            let mut note = |batch: RecordBatch| {
                numbers.extend(batch.column(0).as_primitive::<Int32Type>().values().iter().copied());
            };
            if let Some(first) = first {
                first.expect("nothing fails").map(&mut note);
            }
            while let Some(batch) = polled(batches.next(), 10, || {}).expect("it ends").expect("nothing fails") {
                note(batch);
            }
            assert_eq!(numbers, (0..14).collect::<Vec<_>>(), "given up after {times} polls");
            is_done
        });
        assert_eq!(polls, 2);
    }

    #[test]
    fn batches_have_no_more_bytes_than_they_may() {
        assert_eq!(row_counts(batches(&[68; 10], 300)), [3, 3, 3, 1], "100 bytes each");
        assert_eq!(row_counts(batches(&[68; 10], 10_000)), [10]);
        assert_eq!(row_counts(batches(&[10, 10_000, 10, 10], 100)), [1, 1, 2], "a large row is alone");
        assert!(row_counts(batches(&[], 100)).is_empty());
    }
}
