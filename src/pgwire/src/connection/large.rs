//! Rows so large that encoding one would hold up the other connections of a thread: what is needed to do it elsewhere.

use crate::encode::rows::{RowEncoder, Shape, Target};
use crate::error::WireError;
use crate::formats::Formats;
use adapter::reading::batches::row_bytes;
use adapter::response::StoredRows;
use arrow::array::RecordBatch;
use pgrepr::copy::CopyOptions;
use pgrepr::options::EncodeOptions;
use repr::ColumnDesc;
use repr::row::Stored;
use std::ops::Range;

/// Rows that hold what they are in.
pub(super) enum Large {
    /// As they are stored, from the one at a place on.
    Stored(StoredRows, usize),
    /// Of a batch.
    Batch(RecordBatch, Range<usize>),
}

impl Large {
    /// About how many bytes the next row has; `None` if there is none.
    pub(super) fn next_bytes(&self) -> Option<usize> {
        match self {
            Large::Stored(chunk, at) => chunk.chunk().rows().nth(*at).map(<[u8]>::len),
            Large::Batch(batch, range) => range.clone().next().map(|row| row_bytes(batch, row)),
        }
    }

    /// Encodes the next row, if there is one.
    pub(super) fn encode(
        &mut self,
        encoder: &mut RowEncoder,
        out: &mut Vec<u8>,
        shape: Shape<'_>,
    ) -> Result<(), WireError> {
        match self {
            Large::Stored(chunk, at) => {
                let chunk = chunk.chunk();
                let stored = Stored { types: chunk.stored_types(), projection: chunk.projection() };
                let Some(row) = chunk.rows().nth(*at) else { return Ok(()) };
                *at += 1;
                encoder.stored(out, row, stored, shape)
            }
            Large::Batch(batch, range) => match range.next() {
                Some(row) => encoder.batch_row(out, batch, row, shape),
                None => Ok(()),
            },
        }
    }
}

/// A [`Shape`] that holds what it refers to.
pub(super) struct OwnedShape {
    columns: Vec<ColumnDesc>,
    options: EncodeOptions,
    target: OwnedTarget,
}

enum OwnedTarget {
    DataRow(Formats),
    Copy(CopyOptions),
    CopyBinary,
}

impl OwnedShape {
    pub(super) fn of(shape: &Shape<'_>) -> OwnedShape {
        let target = match shape.target {
            Target::DataRow(formats) => OwnedTarget::DataRow(formats.clone()),
            Target::Copy(syntax) => OwnedTarget::Copy(syntax.clone()),
            Target::CopyBinary => OwnedTarget::CopyBinary,
        };
        OwnedShape { columns: shape.columns.to_vec(), options: shape.options.clone(), target }
    }

    pub(super) fn shape(&self) -> Shape<'_> {
        let target = match &self.target {
            OwnedTarget::DataRow(formats) => Target::DataRow(formats),
            OwnedTarget::Copy(syntax) => Target::Copy(syntax),
            OwnedTarget::CopyBinary => Target::CopyBinary,
        };
        Shape { columns: &self.columns, options: &self.options, target }
    }
}
