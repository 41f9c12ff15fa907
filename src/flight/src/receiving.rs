//! The batches that a client sends. No bytes of a stranger are a reason to panic, and nothing unpacks to more than was sent
//! ([`door::messages`]).

use crate::told::{malformed, refused, told};
use adapter::error::AdapterError;
use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow_flight::FlightData;
use arrow_ipc::reader::StreamDecoder;
use bytes::Bytes;
use door::apart::apart;
use door::messages::{Messages, decoded, framed, guarded};
use ore::memory::{Reservation, Share};
use repr::sqlstate::SqlState;
use std::sync::Arc;
use std::time::Duration;
use tonic::{Status, Streaming};

/// How long the next message may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// See the module.
pub(crate) struct Received {
    stream: Streaming<FlightData>,
    /// The first message, until it was taken.
    first: Option<FlightData>,
    decoder: StreamDecoder,
    /// Of the batches, once a message had it; the decoder knows it when it sees the next one.
    schema: Option<SchemaRef>,
    bytes_max: usize,
    /// Of the message that is at work.
    memory: Reservation,
}

impl Received {
    /// Of a stream, up to the command that it begins with.
    pub(crate) async fn begin(
        mut stream: Streaming<FlightData>,
        bytes_max: usize,
        memory: &Arc<Share>,
    ) -> Result<(Bytes, Received), Status> {
        let first = next(&mut stream).await?.ok_or_else(|| malformed("nothing was sent"))?;
        let command = first.flight_descriptor.as_ref().map(|descriptor| descriptor.cmd.clone());
        let command = command.ok_or_else(|| malformed("the first message has no descriptor"))?;
        let memory = Reservation::empty(memory);
        Ok((
            command,
            Received { stream, first: Some(first), decoder: StreamDecoder::new(), schema: None, bytes_max, memory },
        ))
    }

    /// The next batch; `None` at the end. Errors: 22P04 of what is damaged, 0A000 of what is compressed, 54000 of what is too large.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>, Status> {
        loop {
            match self.message().await? {
                None => return Ok(None),
                Some(Some(batch)) => return Ok(Some(batch)),
                Some(None) => {}
            }
        }
    }

    /// Reads on until the shape is known or all was read.
    pub(crate) async fn begun(&mut self) -> Result<Option<SchemaRef>, Status> {
        while self.schema.is_none() {
            match self.message().await? {
                None => return Ok(None),
                Some(None) => {}
                Some(Some(_)) => return Err(malformed("a batch came before its schema")),
            }
        }
        Ok(self.schema.clone())
    }

    /// What the next message gives, if there is one.
    async fn message(&mut self) -> Result<Option<Option<RecordBatch>>, Status> {
        let data = match self.first.take() {
            Some(first) => Some(first),
            None => next(&mut self.stream).await?,
        };
        let Some(data) = data else { return Ok(None) };
        if data.data_header.is_empty() {
            return Ok(Some(None));
        }
        if self.schema.is_none() {
            let read = guarded(|| Schema::try_from(&data)).map_err(|error| told(&error))?;
            self.schema = Some(Arc::new(read.map_err(|_| malformed("the first message has no schema"))?));
        }
        // As it is read; as it came it has memory already (`accounted`).
        let bytes = data.data_header.len() + data.data_body.len();
        self.memory.cover(bytes).map_err(|error| told(&AdapterError::from(error)))?;
        let (decoder, bytes_max) = (std::mem::take(&mut self.decoder), self.bytes_max);
        let read = apart(move || {
            let framed = framed(&data.data_header, &data.data_body);
            let message = match Messages::new(bytes_max).push(&framed) {
                Ok(mut whole) if whole.len() == 1 => whole.pop(),
                Ok(_) => None,
                Err(error) => return (decoder, Err(error)),
            };
            let damaged =
                || AdapterError::new(SqlState::BAD_COPY_FILE_FORMAT, "a message has not the length that it says");
            match message.filter(|message| message.len() == framed.len()) {
                Some(message) => decoded(decoder, message),
                None => (decoder, Err(damaged())),
            }
        });
        let stops = || refused(SqlState::ADMIN_SHUTDOWN, "the server stops");
        let (decoder, batch) = read.await.ok_or_else(stops)?;
        self.decoder = decoder;
        batch.map(Some).map_err(|error| told(&error))
    }
}

async fn next(stream: &mut Streaming<FlightData>) -> Result<Option<FlightData>, Status> {
    match tokio::time::timeout(PATIENCE, stream.message()).await {
        Ok(message) => message,
        Err(_) => {
            let message = format!("nothing more came for {} s", PATIENCE.as_secs());
            Err(refused(SqlState::CONNECTION_FAILURE, message))
        }
    }
}
