//! The messages of an Arrow stream, whole: how long each is is known before it is read, and that it is not compressed, so that nothing
//! unpacks to more than was sent; and the batches in them, of which no stranger's bytes are a reason to panic.

use adapter::error::AdapterError;
use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::error::ArrowError;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::{MessageHeader, root_as_message};
use repr::sqlstate::SqlState;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What comes before the length of a message.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// That, and the length.
const PREFIX_BYTES: usize = 8;

/// Bytes that are no message yet.
pub struct Messages {
    /// What has come.
    pub pending: Vec<u8>,
    bytes_max: usize,
}

impl Messages {
    /// None yet; no message may have more bytes.
    pub fn new(bytes_max: usize) -> Messages {
        Messages { pending: Vec::new(), bytes_max }
    }

    /// The messages that a piece completes. Errors: 22P04 of what is none, 0A000 of one that is compressed, 54000 of one that is too long.
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<Vec<u8>>, AdapterError> {
        self.pending.extend_from_slice(piece);
        let (mut messages, mut start) = (Vec::new(), 0);
        while let Some(length) = self.length(&self.pending[start..])? {
            if self.pending.len() - start < length {
                break;
            }
            messages.push(self.pending[start..start + length].to_vec());
            start += length;
        }
        self.pending.drain(..start);
        Ok(messages)
    }

    /// How long the message is that these bytes begin with, once that is known.
    fn length(&self, bytes: &[u8]) -> Result<Option<usize>, AdapterError> {
        let Some((mark, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
        let Some(length) = rest.first_chunk::<4>() else { return Ok(None) };
        if *mark != CONTINUATION {
            return Err(malformed("the body is no Arrow stream"));
        }
        let without = || malformed("a message of the Arrow stream has no length");
        let length = usize::try_from(i32::from_le_bytes(*length)).map_err(|_| without())?;
        let end = length + PREFIX_BYTES;
        if length == 0 {
            return Ok(Some(end));
        }
        check(end, self.bytes_max)?;
        let Some(metadata) = bytes.get(PREFIX_BYTES..end) else { return Ok(None) };
        let all = end.saturating_add(body_length(metadata)?);
        check(all, self.bytes_max)?;
        Ok(Some(all))
    }
}

/// How long the body of a message is, by its metadata. Errors: 22P04 of what is damaged, 0A000 of a batch that is compressed.
fn body_length(metadata: &[u8]) -> Result<usize, AdapterError> {
    let message = root_as_message(metadata).map_err(|_| malformed("a message of the Arrow stream is damaged"))?;
    let batch = match message.header_type() {
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        MessageHeader::DictionaryBatch => message.header_as_dictionary_batch().and_then(|batch| batch.data()),
        _ => None,
    };
    if batch.is_some_and(|batch| batch.compression().is_some()) {
        let text = "batches of an Arrow stream that are compressed are not read";
        return Err(AdapterError::new(SqlState::FEATURE_NOT_SUPPORTED, text));
    }
    usize::try_from(message.bodyLength()).map_err(|_| malformed("a message of the Arrow stream has no length"))
}

fn check(bytes: usize, bytes_max: usize) -> Result<(), AdapterError> {
    match bytes > bytes_max {
        true => {
            let message = format!("a batch has more than {bytes_max} bytes");
            Err(AdapterError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message))
        }
        false => Ok(()),
    }
}

/// A message of a stream, by its metadata and its body. Errors: those of [`Messages::push`], 22P04 of a body of another length than is said.
pub fn joined(metadata: &[u8], body: &[u8], bytes_max: usize) -> Result<Vec<u8>, AdapterError> {
    let bytes = PREFIX_BYTES + metadata.len() + body.len();
    check(bytes, bytes_max)?;
    if body_length(metadata)? != body.len() {
        return Err(malformed("a message of the Arrow stream has not the length that it says"));
    }
    let length = i32::try_from(metadata.len()).map_err(|_| malformed("a message of the Arrow stream is damaged"))?;
    let mut message = Vec::with_capacity(bytes);
    message.extend_from_slice(&CONTINUATION);
    message.extend_from_slice(&length.to_le_bytes());
    message.extend_from_slice(metadata);
    message.extend_from_slice(body);
    Ok(message)
}

/// What a message gives, if it is a batch. Errors: 22P04 of one that is damaged.
pub fn decoded(
    mut decoder: StreamDecoder,
    message: Vec<u8>,
) -> (StreamDecoder, Result<Option<RecordBatch>, AdapterError>) {
    let mut buffer = Buffer::from(message);
    let decoded = guarded(|| {
        let mut batch = None;
        while !buffer.is_empty() && batch.is_none() {
            batch = decoder.decode(&mut buffer)?;
        }
        Ok::<_, ArrowError>(batch)
    });
    let flat = decoded.and_then(|decoded| decoded.map_err(|error| malformed(&format!("the Arrow stream: {error}"))));
    (decoder, flat)
}

/// What `read` makes of a stranger's bytes, which must be no reason to panic. Error 22P04.
pub fn guarded<T>(read: impl FnOnce() -> T) -> Result<T, AdapterError> {
    catch_unwind(AssertUnwindSafe(read)).map_err(|_| malformed("the body is damaged"))
}

fn malformed(message: &str) -> AdapterError {
    AdapterError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}
