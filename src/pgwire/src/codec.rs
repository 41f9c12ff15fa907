//! Framing: where messages start and end in the bytes that a client sends.
//!
//! A message is a type byte, a length that counts itself but not the type, and a body. [`peek`] looks at the header and
//! says whether the whole message is there; [`Input`] owns the bytes between the socket and the decoder. The buffer
//! starts small, grows as bytes arrive (never because a header promises many), and shrinks again when its connection
//! has been idle.
//!
//! A large message is not kept in the buffer: its body is *gathered* in the pieces in which it comes, as memory that was asked for. To
//! make one piece of them is for whoever needs that, elsewhere.
//!
//! A message of a known type that is larger than requests may be is skipped without being stored, and costs its sender
//! only the statement. Anything else that is wrong with a header means that the stream cannot be trusted any more.
//!
//! # Invariants
//! - [`Input::body`] is the message that [`Input::next`] last found, until the next call of it.
//! - At most `request_bytes_max` plus one read are buffered, and little more than `GATHERED_BYTES_MIN` in one piece.

use bytes::{Buf, Bytes, BytesMut};
use ore::memory::{Refused, Reservation, Share};
use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Type byte and length.
pub(crate) const HEADER_BYTES: usize = 5;
/// The length field counts itself.
const LENGTH_BYTES: usize = 4;
/// Messages whose body is a name or nothing; Postgres uses the same bound.
const SMALL_MESSAGE_BYTES_MAX: usize = 10_000;
/// A length beyond this is no request that grew too large but a stream out of step; Postgres's bound.
const LENGTH_MAX: usize = (1 << 30) - 1;
/// What an idle connection holds for reading.
const IDLE_INPUT_BYTES: usize = 2 << 10;
/// A read buffer that is worth giving back.
const LARGE_INPUT_BYTES: usize = 16 << 10;
/// Messages that are larger are gathered in pieces.
const GATHERED_BYTES_MIN: usize = 256 << 10;
/// How much is read at once from a client that sends much.
const READ_BYTES_MAX: usize = 64 << 10;

/// A header that no Postgres client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The type byte is unknown.
    #[error("invalid frontend message type {0}")]
    Type(u8),
    /// The length is too small, or too large for a message of this type.
    #[error("invalid message length")]
    Length,
}

/// What the header at the front of a buffer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peek {
    /// The message is not there yet; the buffer must hold so many bytes before asking again makes sense.
    Partial { needed_bytes: usize },
    /// The message is there.
    Whole { tag: u8, message_bytes: usize },
    /// The message is larger than a request may be.
    TooLarge { tag: u8, message_bytes: usize },
}

/// Looks at the header at the front of `buffer`.
pub(crate) fn peek(buffer: &[u8], request_bytes_max: usize) -> Result<Peek, FrameError> {
    let Some((&[tag, a, b, c, d], _)) = buffer.split_first_chunk::<HEADER_BYTES>() else {
        // An unknown type is refused at once: its sender may never send the length it does not know about.
        if let Some(&tag) = buffer.first() {
            message_bytes_max(tag, request_bytes_max)?;
        }
        return Ok(Peek::Partial { needed_bytes: HEADER_BYTES });
    };
    let bytes_max = message_bytes_max(tag, request_bytes_max)?;
    let length = i32::from_be_bytes([a, b, c, d]);
    let valid = LENGTH_BYTES..=LENGTH_MAX;
    let length = usize::try_from(length).ok().filter(|length| valid.contains(length)).ok_or(FrameError::Length)?;
    let message_bytes = length + 1;
    match length - LENGTH_BYTES {
        body_bytes if body_bytes <= bytes_max => {}
        _ if bytes_max == request_bytes_max => return Ok(Peek::TooLarge { tag, message_bytes }),
        _ => return Err(FrameError::Length),
    }
    if buffer.len() < message_bytes {
        return Ok(Peek::Partial { needed_bytes: message_bytes });
    }
    Ok(Peek::Whole { tag, message_bytes })
}

/// How large the body of a message of this type may be.
fn message_bytes_max(tag: u8, request_bytes_max: usize) -> Result<usize, FrameError> {
    match tag {
        // Query, Parse, Bind, FunctionCall, CopyData.
        b'Q' | b'P' | b'B' | b'F' | b'd' => Ok(request_bytes_max),
        // Close, Describe, Execute, Flush, Sync, Terminate, CopyDone, CopyFail, and the answers to an authentication
        // request (which, as nobody asked, only comes from a confused client).
        b'C' | b'D' | b'E' | b'H' | b'S' | b'X' | b'c' | b'f' | b'p' => {
            Ok(SMALL_MESSAGE_BYTES_MAX.min(request_bytes_max.saturating_sub(1)))
        }
        tag => Err(FrameError::Type(tag)),
    }
}

/// A message found in the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A whole message, whose body is [`Input::body`].
    Message(u8),
    /// A whole message that is large: its body is what [`Input::take_body`] gives.
    Large(u8),
    /// A message for which there is no memory; it is being skipped.
    Refused(u8, Refused),
    /// A message too large to be taken; it is being skipped.
    Skipped { tag: u8, message_bytes: usize },
    /// More bytes are needed.
    None,
}

/// The body of a message, taken out of the input. Its memory is given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Body {
    pieces: Vec<Bytes>,
    memory: Reservation,
}

impl Body {
    /// The pieces, in order.
    pub(crate) fn pieces(&self) -> &[Bytes] {
        &self.pieces
    }

    /// All of it in one piece, which takes as much memory again if there are several.
    pub(crate) fn whole(&mut self) -> Result<Cow<'_, [u8]>, Refused> {
        match self.pieces.as_slice() {
            [piece] => Ok(Cow::Borrowed(piece)),
            pieces => {
                self.memory.try_grow(self.memory.bytes())?;
                Ok(Cow::Owned(pieces.concat()))
            }
        }
    }
}

/// A large message that is not whole yet, or was handed out last.
#[derive(Debug)]
struct Gathering {
    tag: u8,
    missing_bytes: usize,
    body: Body,
}

/// The bytes that came from a client and were not handled yet.
#[derive(Debug)]
pub(crate) struct Input {
    buffer: BytesMut,
    request_bytes_max: usize,
    /// Length of the message at the front that was handed out and is to be removed.
    current_bytes: usize,
    /// Bytes still to come that belong to a message being skipped.
    skip_bytes: usize,
    /// How much room the next read should find.
    read_bytes: usize,
    /// Whether the buffer grew since it was last small.
    is_large: bool,
    gathering: Option<Gathering>,
    memory: Arc<Share>,
}

impl Input {
    /// Nothing yet; large messages are of this memory.
    pub(crate) fn new(request_bytes_max: usize, memory: &Arc<Share>) -> Input {
        Input {
            buffer: BytesMut::with_capacity(IDLE_INPUT_BYTES),
            request_bytes_max,
            current_bytes: 0,
            skip_bytes: 0,
            read_bytes: IDLE_INPUT_BYTES,
            is_large: false,
            gathering: None,
            memory: Arc::clone(memory),
        }
    }

    /// Removes the message handed out last, and looks for the next one.
    pub(crate) fn next(&mut self) -> Result<Next, FrameError> {
        self.buffer.advance(self.current_bytes);
        self.current_bytes = 0;
        self.skip();
        if let Some(next) = self.gather() {
            return Ok(next);
        }
        match peek(&self.buffer, self.request_bytes_max)? {
            Peek::Partial { needed_bytes } if needed_bytes > GATHERED_BYTES_MIN => {
                let (tag, missing_bytes) = (self.buffer[0], needed_bytes - HEADER_BYTES);
                self.buffer.advance(HEADER_BYTES);
                let body = Body { pieces: Vec::new(), memory: Reservation::empty(&self.memory) };
                self.gathering = Some(Gathering { tag, missing_bytes, body });
                Ok(self.gather().unwrap_or(Next::None))
            }
            Peek::Partial { .. } => Ok(Next::None),
            Peek::Whole { tag, message_bytes } => {
                self.current_bytes = message_bytes;
                Ok(Next::Message(tag))
            }
            Peek::TooLarge { tag, message_bytes } => {
                self.skip_bytes = message_bytes;
                self.skip();
                Ok(Next::Skipped { tag, message_bytes })
            }
        }
    }

    /// The body of the message found last.
    pub(crate) fn body(&self) -> &[u8] {
        self.buffer.get(HEADER_BYTES..self.current_bytes).unwrap_or_default()
    }

    /// Takes the message found last out of the input: its body, as it is.
    pub(crate) fn take_body(&mut self) -> Body {
        if let Some(gathering) = self.gathering.take() {
            return gathering.body;
        }
        let mut message = self.buffer.split_to(self.current_bytes);
        self.current_bytes = 0;
        message.advance(HEADER_BYTES.min(message.len()));
        Body { memory: Reservation::of(&self.memory, message.len()), pieces: vec![message.freeze()] }
    }

    /// Whether a large message is coming in.
    pub(crate) fn is_gathering(&self) -> bool {
        self.gathering.is_some()
    }

    /// Moves what there is of a large message to its pieces; `None` if none is coming in.
    fn gather(&mut self) -> Option<Next> {
        let gathering = self.gathering.as_mut().filter(|gathering| gathering.missing_bytes > 0);
        let Some(Gathering { tag, missing_bytes, body }) = gathering else {
            // One that was handed out is done with.
            self.gathering = None;
            return None;
        };
        let piece = self.buffer.split_to(self.buffer.len().min(*missing_bytes));
        if piece.is_empty() {
            return Some(Next::None);
        }
        *missing_bytes -= piece.len();
        if let Err(refused) = body.memory.try_grow(piece.len()) {
            let tag = *tag;
            self.skip_bytes = *missing_bytes;
            self.gathering = None;
            self.skip();
            return Some(Next::Refused(tag, refused));
        }
        body.pieces.push(piece.freeze());
        Some(if *missing_bytes == 0 { Next::Large(*tag) } else { Next::None })
    }

    /// Whether the message after the one found last is there already and is a Sync.
    pub(crate) fn sync_follows(&self) -> bool {
        self.buffer.get(self.current_bytes..self.current_bytes + HEADER_BYTES) == Some(b"S\0\0\0\x04")
    }

    /// Reads what the socket has, or waits until it has something. `Ok(0)` is the end of the stream.
    ///
    /// # Cancellation
    /// Nothing is lost when this is dropped.
    pub(crate) async fn fill(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<usize> {
        self.make_room();
        let room_bytes = self.buffer.capacity() - self.buffer.len();
        let count = stream.read_buf(&mut self.buffer).await?;
        if count == room_bytes {
            // There is more to come: read more at once.
            self.read_bytes = (self.read_bytes * 4).min(READ_BYTES_MAX);
        }
        Ok(count)
    }

    /// Whether [`Input::shrink`] has something to give back.
    pub(crate) fn is_large(&self) -> bool {
        self.is_large
    }

    /// Gives back what a large request took, if nothing is waiting in it.
    pub(crate) fn shrink(&mut self) {
        if self.buffer.len() <= IDLE_INPUT_BYTES / 2 {
            let mut small = BytesMut::with_capacity(IDLE_INPUT_BYTES);
            small.extend_from_slice(&self.buffer);
            self.buffer = small;
            self.read_bytes = IDLE_INPUT_BYTES;
            self.is_large = false;
        }
    }

    /// Makes sure that the next read has room; usually by moving to the front of the same allocation.
    fn make_room(&mut self) {
        if self.buffer.capacity() - self.buffer.len() < self.read_bytes / 2 {
            self.buffer.reserve(self.read_bytes);
        }
        self.is_large |= self.buffer.capacity() > LARGE_INPUT_BYTES;
    }

    fn skip(&mut self) {
        let count = self.skip_bytes.min(self.buffer.len());
        self.buffer.advance(count);
        self.skip_bytes -= count;
    }
}

#[cfg(test)]
mod tests {
    use super::{FrameError, Input, Next, Peek, peek};
    use ore::memory::Share;
    use proptest::prelude::{Just, any, prop, prop_oneof, proptest};

    const MAX: usize = 1 << 20;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let length = i32::try_from(body.len() + 4).expect("short");
        [&[tag], &length.to_be_bytes()[..], body].concat()
    }

    fn input() -> Input {
        Input::new(MAX, &Share::root(usize::MAX, None))
    }

    /// Feeds bytes in the given pieces and returns the messages found.
    fn messages(pieces: &[&[u8]]) -> Result<Vec<(u8, Vec<u8>)>, FrameError> {
        let mut input = input();
        let mut found = Vec::new();
        for piece in pieces {
            input.buffer.extend_from_slice(piece);
            loop {
                match input.next()? {
                    Next::Message(tag) => found.push((tag, input.body().to_vec())),
                    Next::Large(tag) => {
                        found.push((tag, input.take_body().whole().expect("there is memory").into_owned()))
                    }
                    Next::Refused(tag, _) => found.push((tag, b"refused".to_vec())),
                    Next::Skipped { tag, .. } => found.push((tag, b"skipped".to_vec())),
                    Next::None => break,
                }
            }
        }
        Ok(found)
    }

    #[test]
    fn a_message_is_found_when_it_is_whole() {
        let query = message(b'Q', b"select 1\0");
        for end in 0..query.len() {
            assert!(matches!(peek(&query[..end], MAX), Ok(Peek::Partial { .. })), "{end}");
        }
        assert_eq!(peek(&query, MAX), Ok(Peek::Whole { tag: b'Q', message_bytes: query.len() }));
    }

    #[test]
    fn lengths_that_no_message_has_are_refused() {
        for length in [i32::MIN, -1, 0, 3, i32::MAX] {
            let header = [&b"Q"[..], &length.to_be_bytes()].concat();
            assert_eq!(peek(&header, MAX), Err(FrameError::Length), "{length}");
        }
        // A Sync has no body, and certainly none of ten kilobytes.
        let header = [&b"S"[..], &20_000_i32.to_be_bytes()].concat();
        assert_eq!(peek(&header, MAX), Err(FrameError::Length));
    }

    #[test]
    fn an_unknown_type_is_refused_before_its_length_arrives() {
        assert_eq!(peek(b"x", MAX), Err(FrameError::Type(b'x')));
        assert_eq!(peek(b"\x16\x03\x01\x00\x05", MAX), Err(FrameError::Type(0x16)));
    }

    #[test]
    fn a_request_that_is_too_large_is_skipped() {
        let mut bytes = message(b'Q', &vec![b'x'; MAX + 1]);
        bytes.extend(message(b'S', b""));
        for size in [1 << 14, bytes.len()] {
            let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
            let expected = vec![(b'Q', b"skipped".to_vec()), (b'S', Vec::new())];
            assert_eq!(messages(&pieces), Ok(expected));
        }
    }

    #[test]
    fn a_large_message_is_gathered_in_pieces_and_what_follows_is_found() {
        let large: Vec<u8> = (0..=250).cycle().take(MAX).collect();
        let bytes = [message(b'S', b""), message(b'd', &large), message(b'S', b""), message(b'Q', b"x\0")].concat();
        let expected = || Ok(vec![(b'S', vec![]), (b'd', large.clone()), (b'S', vec![]), (b'Q', b"x\0".to_vec())]);
        for size in [1_000, 70_001, bytes.len()] {
            assert_eq!(messages(&bytes.chunks(size).collect::<Vec<_>>()), expected(), "in pieces of {size}");
        }
    }

    #[test]
    fn a_large_message_for_which_there_is_no_memory_is_skipped() {
        let share = Share::root(MAX / 2, None);
        let mut input = Input::new(MAX, &share);
        let bytes = [message(b'Q', &vec![b'x'; MAX]), message(b'S', b"")].concat();
        let mut found = Vec::new();
        for piece in bytes.chunks(60_000) {
            input.buffer.extend_from_slice(piece);
            loop {
                match input.next().expect("it is framed") {
                    Next::None => break,
                    next => found.push(next),
                }
            }
        }
        assert!(matches!(found.as_slice(), [Next::Refused(b'Q', _), Next::Message(b'S')]), "{found:?}");
        assert_eq!(share.used(), 0, "what had come of it is given back");
    }

    #[test]
    fn a_sync_is_seen_coming() {
        let mut input = input();
        input.buffer.extend_from_slice(&[message(b'E', b"\0\0\0\0\0"), message(b'S', b"")].concat());
        assert_eq!(input.next(), Ok(Next::Message(b'E')));
        assert!(input.sync_follows());
        assert_eq!(input.next(), Ok(Next::Message(b'S')));
        assert!(!input.sync_follows());
    }

    #[test]
    fn a_large_buffer_shrinks_and_keeps_its_bytes() {
        let mut input = input();
        input.buffer.extend_from_slice(&message(b'Q', &vec![b'x'; 100_000]));
        input.buffer.extend_from_slice(b"S\0\0");
        input.make_room();
        assert!(input.is_large());
        assert_eq!(input.next(), Ok(Next::Message(b'Q')));
        assert_eq!(input.next(), Ok(Next::None));
        input.shrink();
        assert!(!input.is_large());
        input.buffer.extend_from_slice(b"\0\x04");
        assert_eq!(input.next(), Ok(Next::Message(b'S')));
        assert!(input.body().is_empty());
    }

    #[tokio::test]
    async fn what_there_is_much_of_is_read_in_few_pieces() {
        let sent = message(b'Q', &[7; 100]).repeat(10_000);
        let (mut input, mut stream, mut reads, mut messages) = (input(), sent.as_slice(), 0, 0);
        while input.fill(&mut stream).await.expect("memory can be read") > 0 {
            reads += 1;
            while let Next::Message(_) = input.next().expect("there are only messages") {
                messages += 1;
            }
        }
        assert_eq!(messages, 10_000);
        // Four times as much each time, up to the most at once.
        assert!(reads <= 8 + sent.len() / super::READ_BYTES_MAX, "{reads} reads");
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_are_survived(pieces in prop::collection::vec(
            prop::collection::vec(prop_oneof![any::<u8>(), Just(0), Just(b'Q'), Just(b'S')], 0..40), 0..10)) {
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let _ = messages(&pieces);
        }

        #[test]
        fn pieces_do_not_matter(
            bodies in prop::collection::vec((prop::sample::select(b"QPBEdCHSX".to_vec()), prop::collection::vec(any::<u8>(), 0..50)), 0..8),
            cuts in prop::collection::vec(1_usize..30, 1..60)) {
            let bytes: Vec<u8> = bodies.iter().flat_map(|(tag, body)| message(*tag, body)).collect();
            let (mut rest, mut pieces) = (bytes.as_slice(), Vec::new());
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, tail) = rest.split_at((*cut).min(rest.len()));
                pieces.push(piece);
                rest = tail;
            }
            assert_eq!(messages(&pieces), Ok(bodies));
        }
    }
}
