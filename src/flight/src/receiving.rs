//! The batches that a client sends. No bytes of a stranger are a reason to panic, and nothing unpacks to more than was sent
//! ([`door::messages`]).

use crate::told::{malformed, refused, told};
use adapter::error::AdapterError;
use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow_flight::FlightData;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::{MessageHeader, root_as_message};
use bytes::Bytes;
use door::apart::elsewhere;
use door::messages::{decoded, guarded, joined};
use ore::memory::{Reservation, Share};
use repr::sqlstate::SqlState;
use std::sync::Arc;
use std::time::Duration;
use tonic::{Status, Streaming};

/// How long the next message may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes of a batch in memory, its values not counted.
const BATCH_BYTES: usize = 1 << 10;

/// See the module.
pub(crate) struct Received {
    stream: Streaming<FlightData>,
    /// The first message, until it was taken.
    first: Option<FlightData>,
    decoder: StreamDecoder,
    /// Of the batches, once a message had it; the decoder knows it when it sees the next one.
    schema: Option<SchemaRef>,
    bytes_max: usize,
    share: Arc<Share>,
    /// Of the message that is at work.
    memory: Reservation,
    /// Of dictionaries, which stay.
    dictionaries: Reservation,
}

impl Received {
    /// Of a stream, up to the command that it begins with.
    pub(crate) async fn begin(
        mut stream: Streaming<FlightData>,
        bytes_max: usize,
        share: &Arc<Share>,
    ) -> Result<(Bytes, Received), Status> {
        let first = next(&mut stream).await?.ok_or_else(|| malformed("nothing was sent"))?;
        let command = first.flight_descriptor.as_ref().map(|descriptor| descriptor.cmd.clone());
        let command = command.ok_or_else(|| malformed("the first message has no descriptor"))?;
        let received = Received {
            stream,
            first: Some(first),
            decoder: StreamDecoder::new(),
            schema: None,
            bytes_max,
            share: Arc::clone(share),
            memory: Reservation::empty(share),
            dictionaries: Reservation::empty(share),
        };
        Ok((command, received))
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

    /// All batches, of which the messages have at most as many bytes as one may have, and their memory.
    pub(crate) async fn all(mut self) -> Result<(Vec<RecordBatch>, Reservation), Status> {
        let (mut batches, mut held) = (Vec::new(), Reservation::empty(&self.share));
        while let Some(batch) = self.next().await? {
            held.try_grow(self.memory.bytes() + BATCH_BYTES).map_err(|error| told(&AdapterError::from(error)))?;
            if held.bytes() > self.bytes_max {
                let message = format!("the values have more than {} bytes", self.bytes_max);
                return Err(refused(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
            }
            batches.push(batch);
        }
        held.try_grow(self.dictionaries.bytes()).map_err(|error| told(&AdapterError::from(error)))?;
        Ok((batches, held))
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
        self.memory = Reservation::empty(&self.share);
        self.memory.try_grow(bytes).map_err(|error| told(&AdapterError::from(error)))?;
        if is_dictionary(&data.data_header) {
            self.dictionaries.try_grow(bytes).map_err(|error| told(&AdapterError::from(error)))?;
            if self.dictionaries.bytes() > self.bytes_max {
                let message = format!("the dictionaries have more than {} bytes", self.bytes_max);
                return Err(refused(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
            }
        }
        let (decoder, bytes_max) = (std::mem::take(&mut self.decoder), self.bytes_max);
        let read = elsewhere(move || {
            let (decoder, batch) = decoded(decoder, joined(&data.data_header, &data.data_body, bytes_max)?);
            batch.map(|batch| (decoder, batch))
        });
        let (decoder, batch) = read.await.map_err(|error: AdapterError| told(&error))?;
        self.decoder = decoder;
        Ok(Some(batch))
    }
}

/// Whether a message has values that others refer to.
fn is_dictionary(header: &[u8]) -> bool {
    root_as_message(header).is_ok_and(|message| message.header_type() == MessageHeader::DictionaryBatch)
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
