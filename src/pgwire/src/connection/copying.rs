//! COPY FROM STDIN: the client's data, taken apart and handed to the session row by row.
//!
//! While data comes in, only CopyData, CopyDone and CopyFail mean anything. Flush and Sync are ignored, because a client
//! of the extended protocol may have sent its Sync ahead; anything else ends the COPY with an error. What is left of the
//! data after an error is skipped by the connection's loop, which ignores COPY messages that nobody waits for.

use super::{Connection, results};
use crate::codec::Next;
use crate::copy::binary::BinaryReader;
use crate::error::WireError;
use crate::formats::Format;
use crate::metrics::MessageKind;
use crate::stream::Stream;
use crate::{encode, message};
use adapter::error::AdapterError;
use adapter::seat::Seat;
use adapter::writing::copy_in::{CopyIn, Taken};
use pgrepr::copy::reader::{CopyError, CopyReader};
use pgrepr::length::{LengthRule, fit_text};
use pgrepr::options::EncodeOptions;
use repr::{ColumnDesc, Datum};
use std::borrow::Cow;

/// What can be wrong with a row: its line, or the values in it.
enum RowError {
    Line(CopyError),
    Session(AdapterError),
}

impl From<CopyError> for RowError {
    fn from(error: CopyError) -> RowError {
        RowError::Line(error)
    }
}

/// Takes the data apart, by its format.
enum Reader {
    Lines(CopyReader),
    Binary(BinaryReader),
}

impl Reader {
    fn push(&mut self, piece: &[u8], copy: &mut CopyIn) -> Result<(), RowError> {
        match self {
            Reader::Lines(reader) => reader.push(piece, &mut |line: u64, fields: &[Option<Cow<'_, str>>]| {
                copy.push_texts(line, fields).map_err(RowError::Session)
            }),
            Reader::Binary(reader) => reader.push(piece, &mut |line: u64, fields: &[Option<&[u8]>]| {
                copy.push(line, fields, binary_value).map_err(RowError::Session)
            }),
        }
    }

    /// As many rows as end in a piece, or more.
    fn rows_max(&self, piece: &[u8], column_count: usize) -> u64 {
        let rows = match self {
            Reader::Lines(_) => memchr::memchr2_iter(b'\n', b'\r', piece).count(),
            // A row has at least the number of its fields, and the length of each.
            Reader::Binary(_) => piece.len() / (2 + 4 * column_count),
        };
        // One may have begun before, and the last needs no end.
        rows as u64 + 2
    }

    fn finish(&mut self, copy: &mut CopyIn) -> Result<(), RowError> {
        match self {
            Reader::Lines(reader) => reader.finish(&mut |line: u64, fields: &[Option<Cow<'_, str>>]| {
                copy.push_texts(line, fields).map_err(RowError::Session)
            }),
            Reader::Binary(reader) => Ok(reader.finish()?),
        }
    }
}

fn binary_value<'a>(column: &ColumnDesc, bytes: &'a &[u8], encode: &EncodeOptions) -> Taken<'a> {
    let decoded = pgrepr::binary::decode_binary(&column.ty, bytes, encode).and_then(|datum| match datum {
        Datum::Text(text) => {
            fit_text(&column.ty, &text, LengthRule::Assign).map(|text| Datum::Text(text.into_owned().into()))
        }
        other => Ok(other),
    });
    decoded.map_err(|error| (error.into(), None))
}

impl<S: Stream> Connection<S> {
    /// Receives COPY data until the client ends it, and commits the rows.
    pub(super) async fn copy_in(&mut self, session: &mut Seat, mut copy: Box<CopyIn>) -> Result<(), WireError> {
        let (column_count, format) = (copy.columns.len(), results::format(&copy.options));
        encode::copy_in_response(&mut self.output.buffer, column_count, format);
        self.output.flush(&mut self.stream).await?;
        let mut reader = match format {
            Format::Text => Reader::Lines(CopyReader::new(copy.options.clone(), self.request_bytes_max)),
            Format::Binary => Reader::Binary(BinaryReader::new(column_count, self.request_bytes_max)),
        };
        loop {
            let result = match self.input.next()? {
                Next::Message(b'd') => {
                    session.copy_in_rows(&mut copy, reader.rows_max(self.input.body(), column_count)).await?;
                    reader.push(self.input.body(), &mut copy)
                }
                Next::Large(b'd') => {
                    let body = self.input.take_body();
                    let mut pushed = Ok(());
                    for piece in body.pieces() {
                        session.copy_in_rows(&mut copy, reader.rows_max(piece, column_count)).await?;
                        pushed = pushed.and_then(|()| reader.push(piece, &mut copy));
                        tokio::task::yield_now().await;
                    }
                    pushed
                }
                Next::Message(b'c') => {
                    message::empty(self.input.body())?;
                    reader.finish(&mut copy).map_err(|error| failed(error, &copy))?;
                    break;
                }
                Next::Message(b'f') => {
                    return Err(WireError::CopyFailed(message::string(self.input.body())?.to_owned()));
                }
                Next::Message(b'H' | b'S') => Ok(()),
                Next::Message(b'X') => return Err(WireError::Closed),
                Next::Refused(_, refused) => return Err(super::no_memory(refused)),
                Next::Message(tag) | Next::Large(tag) => {
                    let text = format!("unexpected message type 0x{tag:02X} during COPY from stdin");
                    return Err(WireError::Protocol(text));
                }
                Next::Skipped { message_bytes, .. } => {
                    let bytes_max = self.request_bytes_max;
                    return Err(WireError::RequestTooLarge { bytes: message_bytes, bytes_max });
                }
                Next::None => {
                    self.fill().await?;
                    // A client that sends as fast as it can always has more.
                    tokio::task::yield_now().await;
                    Ok(())
                }
            };
            result.map_err(|error| failed(error, &copy))?;
        }
        let tag = if copy.is_short() {
            self.attend(MessageKind::CopyIn, Box::pin(session.copy_in_finish(copy))).await?
        } else {
            let finishing = session.elsewhere(move |session| Box::pin(session.copy_in_finish(copy)));
            self.attend(MessageKind::CopyIn, Box::pin(finishing)).await?
        };
        self.output.notices(session);
        encode::command_complete(&mut self.output.buffer, tag);
        session.succeeded(None);
        Ok(())
    }
}

fn failed(error: RowError, copy: &CopyIn) -> WireError {
    match error {
        RowError::Line(error) => WireError::Copy { error: Box::new(error), table: copy.table_name().to_owned() },
        RowError::Session(error) => WireError::Session(error),
    }
}
