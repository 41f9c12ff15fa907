//! Rows as messages, and streams of them that are made as they are read.

use crate::told::{refused, told};
use adapter::error::AdapterError;
use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow_flight::{FlightData, IpcMessage, SchemaAsIpc};
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use repr::sqlstate::SqlState;
use tokio::sync::mpsc;
use tonic::Status;

/// The messages of a call's answer.
pub(crate) type Messages<T> = BoxStream<'static, Result<T, Status>>;

/// Where messages go.
pub(crate) struct Outlet {
    messages: mpsc::Sender<FlightData>,
    /// Bytes of a message that the client takes.
    bytes_max: usize,
    pub(crate) context: IpcWriteContext,
}

/// The header that says how many bytes of a message a client takes.
pub(crate) const MESSAGE_BYTES_MAX: &str = "glimpse-message-bytes-max";

/// The messages that `work` sends. They are read for the rest to be done; who does not read makes the work wait, and who hangs up ends it.
pub(crate) fn streamed<F>(bytes_max: usize, work: impl FnOnce(Outlet) -> F) -> Messages<FlightData>
where
    F: Future<Output = Result<(), Status>> + Send + 'static,
{
    let (tx, mut rx) = mpsc::channel(1);
    let work = work(Outlet { messages: tx, bytes_max, context: IpcWriteContext::default() });
    let sent = stream::poll_fn(move |context| rx.poll_recv(context)).map(Ok);
    let failed = stream::once(work).filter_map(|done| async { done.err().map(Err) });
    stream::select(sent, failed).boxed()
}

impl Outlet {
    /// Sends the shape of rows.
    pub(crate) async fn schema(&mut self, schema: &Schema) -> Result<(), Status> {
        self.send(FlightData::from(SchemaAsIpc::new(schema, &IpcWriteOptions::default()))).await
    }

    /// Sends rows. Error 54000 of more bytes than a client takes.
    pub(crate) async fn batch(&mut self, batch: &RecordBatch) -> Result<(), Status> {
        let message = message(batch, &mut self.context).map_err(|error| told(&error))?;
        self.send(message).await
    }

    /// Sends a message. Errors: 54000 of more bytes than a client takes, 08006 if nobody reads.
    pub(crate) async fn send(&mut self, message: FlightData) -> Result<(), Status> {
        let bytes = message.data_header.len() + message.data_body.len();
        if bytes > self.bytes_max {
            let error = AdapterError::with_hint(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("a row has {bytes} bytes, and this client takes messages of at most {}", self.bytes_max),
                format!(
                    "Raise what the client takes (ADBC: adbc.flight.sql.client_option.with_max_msg_size), and say so in the header \
                     {MESSAGE_BYTES_MAX}."
                ),
            );
            return Err(told(&error));
        }
        let gone = |_| refused(SqlState::CONNECTION_FAILURE, "the client has gone");
        self.messages.send(message).await.map_err(gone)
    }
}

/// Rows as a message.
pub(crate) fn message(batch: &RecordBatch, context: &mut IpcWriteContext) -> Result<FlightData, AdapterError> {
    // No dictionaries leave: see `door::exchange`.
    let mut tracker = DictionaryTracker::new(false);
    let encoded = IpcDataGenerator::default().encode(batch, &mut tracker, &IpcWriteOptions::default(), context);
    let (_, encoded) = encoded.map_err(|error| AdapterError::internal(format!("a batch cannot be sent: {error}")))?;
    Ok(FlightData::from(encoded))
}

/// A shape as it stands in messages that are no stream.
pub(crate) fn encapsulated(schema: &Schema) -> Result<Bytes, Status> {
    let message = IpcMessage::try_from(SchemaAsIpc::new(schema, &IpcWriteOptions::default()));
    let unwritable = |error| told(&AdapterError::internal(format!("a shape cannot be sent: {error}")));
    message.map(|message| message.0).map_err(unwritable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int32Array, StringArray};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn rows(count: i32) -> RecordBatch {
        RecordBatch::try_from_iter([("a", Arc::new(Int32Array::from_iter_values(0..count)) as _)]).expect("a batch")
    }

    #[tokio::test]
    async fn a_stream_is_whole_or_ends_with_the_error() {
        for end in [Ok(()), Err(Status::aborted("no"))] {
            let is_whole = end.is_ok();
            let sent = streamed(usize::MAX, |mut outlet| async move {
                outlet.schema(&rows(1).schema()).await?;
                for count in 1..10 {
                    outlet.batch(&rows(count)).await?;
                }
                end
            });
            let messages: Vec<_> = sent.collect().await;
            let (right, wrong): (Vec<_>, Vec<_>) = messages.into_iter().partition(Result::is_ok);
            assert_eq!(wrong.len(), usize::from(!is_whole));
            assert!(!is_whole || right.len() == 10);
        }
    }

    #[tokio::test]
    async fn who_does_not_read_makes_the_work_wait() {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let mut sent = streamed(usize::MAX, |mut outlet| async move {
            for _ in 0..100 {
                outlet.batch(&rows(1)).await?;
                counted.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        assert!(sent.next().await.is_some_and(|message| message.is_ok()));
        assert!(count.load(Ordering::Relaxed) <= 3);
        assert_eq!(sent.count().await, 99);
    }

    #[tokio::test]
    async fn a_row_that_is_too_large_is_refused_by_the_name_of_the_option() {
        let cell = RecordBatch::try_from_iter([("a", Arc::new(StringArray::from(vec!["x".repeat(5000)])) as _)]);
        let cell = cell.expect("a batch");
        for (bytes_max, is_sent) in [(4096, false), (8192, true)] {
            let cell = cell.clone();
            let sent = streamed(bytes_max, |mut outlet| async move { outlet.batch(&cell).await });
            let messages: Vec<_> = sent.collect().await;
            match &messages[0] {
                Ok(_) => assert!(is_sent),
                Err(status) => assert!(!is_sent && status.message().contains("with_max_msg_size"), "{status}"),
            }
        }
    }
}
