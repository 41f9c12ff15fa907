//! Batches that own what they hold, and not much more: the input of an operator that keeps them.
//!
//! A scan's batch is as large as what it was decoded from, and views of texts hold whole buffers, however few of their texts they are
//! about; what was read from a file is one buffer for all columns. Who keeps such batches is counted for all of that with each of them, so a
//! sort would have no room for a second one. So batches come in pieces, of which what holds more than its values is copied.

use super::through::Through;
use arrow::array::{Array, ArrayRef, AsArray, MutableArrayData, RecordBatch, make_array};
use arrow::datatypes::DataType;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt};
use std::sync::Arc;

/// Rows of a piece, and bytes of its texts if it has more than one row, at the most.
const PIECE_ROWS: usize = 8_192;
const PIECE_BYTES: usize = 1 << 20;

/// Gives its input's rows in pieces of their own.
#[derive(Debug)]
pub(super) struct Compact;

impl Compact {
    /// Whether a column may hold more than its values.
    pub(super) fn is_for(ty: &DataType) -> bool {
        matches!(ty, DataType::Utf8View | DataType::BinaryView)
    }
}

impl Through for Compact {
    const NAME: &'static str = "CompactExec";

    fn through(&self, input: SendableRecordBatchStream, _name: &str) -> SendableRecordBatchStream {
        let schema = input.schema();
        let pieces = input.map_ok(|batch| futures::stream::iter(pieces(&batch).into_iter().map(Ok))).try_flatten();
        Box::pin(RecordBatchStreamAdapter::new(schema, pieces.boxed()))
    }
}

fn pieces(batch: &RecordBatch) -> Vec<RecordBatch> {
    let mut left = vec![batch.clone()];
    let mut pieces = Vec::new();
    while let Some(piece) = left.pop() {
        let rows = piece.num_rows();
        if rows > PIECE_ROWS || rows > 1 && piece.columns().iter().map(text_bytes).sum::<usize>() > PIECE_BYTES {
            let half = rows / 2;
            left.extend([piece.slice(half, rows - half), piece.slice(0, half)]);
            continue;
        }
        let columns = piece.columns().iter().map(owned).collect();
        pieces.push(RecordBatch::try_new(piece.schema(), columns).expect("the same columns"));
    }
    pieces
}

fn text_bytes(column: &ArrayRef) -> usize {
    let views = match column.data_type() {
        DataType::Utf8View => column.as_string_view().views(),
        DataType::BinaryView => column.as_binary_view().views(),
        _ => return 0,
    };
    // The length is the lower half of the lower half.
    views.iter().map(|view| *view as u32 as usize).sum()
}

fn owned(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()),
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        _ => {
            let data = column.to_data();
            let values = data.get_slice_memory_size().unwrap_or(usize::MAX);
            if column.get_buffer_memory_size() / 2 <= values {
                return Arc::clone(column);
            }
            let mut copied = MutableArrayData::new(vec![&data], false, data.len());
            copied.try_extend(0, 0, data.len()).expect("no more than there is");
            make_array(copied.freeze())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PIECE_BYTES, PIECE_ROWS, pieces};
    use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringViewArray};
    use arrow::compute::concat_batches;
    use std::sync::Arc;

    #[test]
    fn pieces_are_the_batch_and_hold_no_more() {
        for (count, length) in [(0, 0), (1, 3 << 20), (5, 700_000), (30_000, 100), (20_000, 3)] {
            let text = |at: usize| (!at.is_multiple_of(7)).then(|| "x".repeat(length - length.min(at % 3)));
            let texts: StringViewArray = (0..count + 1_000).map(text).collect();
            // Of which the batch is a small part.
            let numbers = Int32Array::from_iter_values(0..i32::try_from(count + 1_000_000).expect("few"));
            let numbers = numbers.slice(1_000_000, count);
            let columns: [(&str, ArrayRef); 2] = [("a", Arc::new(numbers)), ("t", Arc::new(texts.slice(1_000, count)))];
            let batch = RecordBatch::try_from_iter(columns).expect("a batch");
            let found = pieces(&batch);
            for piece in &found {
                let bytes = piece.get_array_memory_size();
                assert!(
                    piece.num_rows() <= PIECE_ROWS && (piece.num_rows() == 1 || bytes <= 2 * PIECE_BYTES),
                    "{bytes}"
                );
            }
            assert_eq!(concat_batches(&batch.schema(), &found).expect("one schema"), batch);
        }
    }
}
