//! Rows on their way out in a form that is text: pulled as they are, printed, and sent whenever enough have piled up.
//!
//! Stored rows are printed as they are stored. A client that reads slowly makes the outlet wait, and with it whoever produces the rows.

use crate::outlet::{Outlet, PIECE_BYTES};
use adapter::answer::Answering;
use adapter::error::AdapterError;
use adapter::reading::batches::row_bytes;
use adapter::response::{Chunk, StoredRows};
use arrow::array::RecordBatch;
use door::apart::elsewhere;
use ore::memory::Reservation;
use repr::datum::from_array;
use repr::row::{Stored, read_projected};
use repr::sqlstate::SqlState;
use repr::{ColumnDesc, Datum, RelationDesc, Timestamp};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// Bytes from which on a row is printed elsewhere.
const LARGE_ROW: usize = 256 << 10;
/// How much longer than it is stored a value may be when it is printed: bytes in hexadecimal, or control characters.
const PRINTED_TIMES: usize = 6;

/// What a row looks like.
pub(crate) trait Form: Send + 'static {
    /// What comes before a row's first value.
    fn begin(&mut self, out: &mut Vec<u8>);

    /// The value of the column at a place of the row.
    fn value(&mut self, out: &mut Vec<u8>, at: usize, column: &ColumnDesc, datum: &Datum<'_>);

    /// What comes behind a row's last value.
    fn end(&mut self, out: &mut Vec<u8>);

    /// What comes before rows are waited for that come as things happen: all below `upper` were given, if it is known how far they go.
    fn pause(&mut self, _out: &mut Vec<u8>, _upper: Option<Timestamp>) {}

    /// How long none may come before something is said, if anything is.
    const SILENCE: Option<Duration> = None;

    /// What is said then.
    fn silence(&mut self, _out: &mut Vec<u8>) {}
}

/// Sends all rows, and gives back what has printed them. Errors: those of the rows, 0A000 of a value that cannot be printed, 08006 if nobody reads.
///
/// # Cancellation
/// The answer cannot go on.
pub(crate) async fn send<F: Form>(
    rows: &mut Answering<'_>,
    form: F,
    outlet: &mut impl Outlet,
) -> Result<F, AdapterError> {
    let columns = Arc::clone(&rows.desc().desc);
    let is_live = rows.is_live();
    let mut printing = Printing { form, columns, scratch: Vec::new() };
    // What a large row takes until it was sent.
    let mut held = None;
    loop {
        if is_live {
            printing.form.pause(outlet.buffer(), rows.upper());
        }
        if outlet.buffer().len() >= PIECE_BYTES || (is_live && !outlet.buffer().is_empty()) {
            outlet.flush().await?;
            held = None;
            // Others have their turn.
            tokio::task::yield_now().await;
        }
        let chunk = match F::SILENCE {
            None => rows.next_rows().await?,
            Some(patience) => match tokio::time::timeout(patience, rows.next_rows()).await {
                Ok(chunk) => chunk?,
                Err(_) => {
                    printing.form.silence(outlet.buffer());
                    continue;
                }
            },
        };
        let Some(chunk) = chunk else { return Ok(printing.form) };
        let out = outlet.buffer();
        // A large row is the last of its chunk, or a batch of its own.
        let large = match &chunk {
            Chunk::Stored(stored) => {
                let last = stored.rows().len() - 1;
                let is_large = stored.rows().last().is_some_and(|row| row.len() > LARGE_ROW);
                let columns = Stored { types: stored.stored_types(), projection: stored.projection() };
                let before = if is_large { last } else { last + 1 };
                stored.rows().take(before).for_each(|row| printing.stored(out, row, columns));
                is_large.then(|| Large::Stored(StoredRows::of(stored, last)))
            }
            Chunk::Batch(batch, range) if row_bytes(batch, range.start) > LARGE_ROW => {
                Some(Large::Batch(batch.clone(), range.start))
            }
            Chunk::Batch(batch, range) => {
                range.clone().try_for_each(|row| printing.batch(out, batch, row))?;
                None
            }
        };
        if let Some(large) = large {
            let held = held.get_or_insert_with(|| Reservation::empty(rows.session().message_memory()));
            held.try_grow(large.bytes().saturating_mul(PRINTED_TIMES))?;
            let buffer = std::mem::take(outlet.buffer());
            (printing, *outlet.buffer()) = large.print(printing, buffer).await?;
        }
    }
}

/// Rows being printed.
struct Printing<F> {
    form: F,
    columns: Arc<RelationDesc>,
    /// The bytes of a long string, put together from its blocks.
    scratch: Vec<u8>,
}

impl<F: Form> Printing<F> {
    fn stored(&mut self, out: &mut Vec<u8>, row: &[u8], stored: Stored<'_>) {
        let Printing { form, columns, scratch } = self;
        form.begin(out);
        let Ok(()) = read_projected(row, stored, scratch, |at, datum| {
            form.value(out, at, &columns.columns[at], datum);
            Ok::<_, Infallible>(())
        });
        form.end(out);
    }

    fn batch(&mut self, out: &mut Vec<u8>, batch: &RecordBatch, row: usize) -> Result<(), AdapterError> {
        let Printing { form, columns, .. } = self;
        form.begin(out);
        for (at, (column, array)) in columns.columns.iter().zip(batch.columns()).enumerate() {
            let Some(datum) = from_array(array.as_ref(), row) else {
                let message = format!("values of type {} cannot be sent", array.data_type());
                return Err(AdapterError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            };
            form.value(out, at, column, &datum);
        }
        form.end(out);
        Ok(())
    }
}

/// A row so large that printing it would hold up the other connections of a thread.
enum Large {
    Stored(StoredRows),
    Batch(RecordBatch, usize),
}

impl Large {
    /// About how many bytes it has.
    fn bytes(&self) -> usize {
        match self {
            Large::Stored(rows) => rows.chunk().rows().map(<[u8]>::len).sum(),
            Large::Batch(batch, row) => row_bytes(batch, *row),
        }
    }

    /// Prints it on a thread that nobody waits for.
    async fn print<F: Form>(
        self,
        mut printing: Printing<F>,
        mut out: Vec<u8>,
    ) -> Result<(Printing<F>, Vec<u8>), AdapterError> {
        elsewhere(move || {
            match &self {
                Large::Stored(rows) => {
                    let chunk = rows.chunk();
                    let columns = Stored { types: chunk.stored_types(), projection: chunk.projection() };
                    chunk.rows().for_each(|row| printing.stored(&mut out, row, columns));
                }
                Large::Batch(batch, row) => printing.batch(&mut out, batch, *row)?,
            }
            Ok((printing, out))
        })
        .await
    }
}
