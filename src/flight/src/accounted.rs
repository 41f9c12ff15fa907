//! The body of a call: a large message has memory of the account of large messages before it comes, until the next one does.
//!
//! tonic puts a message together before anybody sees it; how long it is stands in the five bytes before it.

use crate::told::told;
use adapter::error::AdapterError;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use ore::memory::{Reservation, Share};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tonic::Status;

/// Bytes of a message from which on it counts.
const LARGE: usize = 64 << 10;
/// What comes before a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// See the module.
pub(crate) struct Accounted<B = Incoming> {
    body: B,
    messages: Messages,
}

/// Where a stream of messages stands.
struct Messages {
    share: Arc<Share>,
    held: Reservation,
    /// What has come of what comes before a message.
    prefix: Vec<u8>,
    /// Bytes of the message that are still to come.
    left: usize,
    /// More than this is refused by who puts messages together.
    bytes_max: usize,
}

impl<B> Accounted<B> {
    /// A body whose messages have memory of this account, and at most so many bytes.
    pub(crate) fn new(body: B, share: &Arc<Share>, bytes_max: usize) -> Accounted<B> {
        let (share, held) = (Arc::clone(share), Reservation::empty(share));
        Accounted { body, messages: Messages { share, held, prefix: Vec::new(), left: 0, bytes_max } }
    }
}

impl Messages {
    /// Notes bytes that have come. Error 53200.
    fn note(&mut self, mut data: &[u8]) -> Result<(), AdapterError> {
        while !data.is_empty() {
            let within = self.left.min(data.len());
            (self.left, data) = (self.left - within, &data[within..]);
            let (prefix, rest) = data.split_at(data.len().min(PREFIX_BYTES - self.prefix.len()));
            self.prefix.extend_from_slice(prefix);
            data = rest;
            if let Ok([_, length @ ..]) = <[u8; PREFIX_BYTES]>::try_from(self.prefix.as_slice()) {
                self.prefix.clear();
                self.left = u32::from_be_bytes(length) as usize;
                self.held = Reservation::empty(&self.share);
                if self.left > LARGE && self.left <= self.bytes_max {
                    self.held.try_grow(self.left)?;
                }
            }
        }
        Ok(())
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Accounted<B>
where
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        Poll::Ready(frame.map(|frame| {
            let frame = frame.map_err(Into::into)?;
            if let Some(data) = frame.data_ref() {
                self.messages.note(data).map_err(|error| Box::<Status>::from(told(&error)))?;
            }
            Ok(frame)
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: usize) -> Vec<u8> {
        let length = u32::try_from(bytes).expect("it is short").to_be_bytes();
        [&[0], &length[..], &vec![7; bytes]].concat()
    }

    #[test]
    fn a_large_message_has_memory_until_the_next_one() {
        let share = Share::root(1 << 20, None);
        let stream =
            [message(10), message(500 << 10), message(3), message(700 << 10), message(0), message(70)].concat();
        for piece_bytes in [1, 3, 1000, stream.len()] {
            let mut messages = Accounted::new((), &share, 1 << 20).messages;
            let mut most = 0;
            for piece in stream.chunks(piece_bytes) {
                messages.note(piece).expect("there is memory for one at a time");
                most = most.max(messages.held.bytes());
            }
            assert!(most >= 500 << 10 || piece_bytes == stream.len());
            assert_eq!(
                (messages.held.bytes(), messages.left, messages.prefix.len()),
                (0, 0, 0),
                "pieces of {piece_bytes}"
            );
        }
    }

    #[test]
    fn who_has_no_memory_is_refused_before_the_message_comes() {
        let share = Share::root(1 << 20, None);
        let mut first = Accounted::new((), &share, 1 << 20).messages;
        first.note(&message(800 << 10)).expect("there is memory");
        let mut second = Accounted::new((), &share, 1 << 20).messages;
        assert!(second.note(&message(800 << 10)[..5]).is_err());
        drop(first);
        let mut third = Accounted::new((), &share, 1 << 20).messages;
        third.note(&message(800 << 10)).expect("there is memory again");
        // What is larger than any may be is refused by somebody else.
        Accounted::new((), &share, 1 << 10).messages.note(&message(2 << 20)[..5]).expect("it takes none");
    }
}
