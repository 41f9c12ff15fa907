//! A body that begins before its end is known.
//!
//! Whoever answers writes into a [`Sink`]. While everything fits into a piece nothing has left yet, and an error becomes an answer
//! of its own. Once a piece was sent, the head of the answer is gone with it: what fails then breaks the connection, so that nobody takes
//! half an answer for all of it. The work and its sink go along with the body: who does not read it makes the work wait, and who hangs up
//! ends it.

use crate::outlet::Outlet;
use crate::told::Refusal;
use adapter::error::AdapterError;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::Stream;
use futures::future::BoxFuture;
use repr::sqlstate::SqlState;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc;

/// Bytes of an answer that is kept back until it is whole.
const HELD_BYTES_MAX: usize = 60 << 10;

fn too_long() -> AdapterError {
    AdapterError::with_hint(
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        format!("the answer to a request that is carried out once has at most {HELD_BYTES_MAX} bytes"),
        "It is kept. Ask for fewer rows, or without an Idempotency-Key.",
    )
}

/// What comes before the body.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) headers: HeaderMap,
}

impl Head {
    /// Of a body of this type.
    pub(crate) fn of(content_type: &'static str) -> Head {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        Head { headers }
    }

    fn with(self, body: Body) -> Response {
        let mut response = Response::new(body);
        *response.headers_mut() = self.headers;
        response
    }
}

/// Part of an answer.
#[derive(Debug)]
enum Piece {
    Head(Head),
    Data(Bytes),
}

/// Where an answer is written.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) buffer: Vec<u8>,
    /// Until the first piece is sent.
    head: Option<Head>,
    pieces: mpsc::Sender<Piece>,
    /// How many pieces were sent.
    sent: usize,
    /// What is kept back until the answer is whole, if it is.
    held: Option<Vec<u8>>,
}

impl Sink {
    /// What comes before the body, if that is not gone yet.
    pub(crate) fn head(&mut self) -> Option<&mut Head> {
        self.head.as_mut()
    }

    /// How many pieces were sent.
    pub(crate) fn sent(&self) -> usize {
        self.sent
    }

    /// Keeps everything back until [`Sink::release`], up to [`HELD_BYTES_MAX`].
    pub(crate) fn hold(&mut self) {
        self.held = Some(Vec::new());
    }

    /// Has in the buffer all that was kept back. Error 54000 of too much.
    pub(crate) fn release(&mut self) -> Result<(), AdapterError> {
        if let Some(mut held) = self.held.take() {
            held.append(&mut self.buffer);
            self.buffer = held;
        }
        if self.buffer.len() > HELD_BYTES_MAX { Err(too_long()) } else { Ok(()) }
    }
}

impl Outlet for Sink {
    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    async fn flush(&mut self) -> Result<(), AdapterError> {
        let gone = |_| AdapterError::new(SqlState::CONNECTION_FAILURE, "the client has gone");
        self.sent += 1;
        if let Some(held) = &mut self.held {
            held.append(&mut self.buffer);
            return if held.len() > HELD_BYTES_MAX { Err(too_long()) } else { Ok(()) };
        }
        if let Some(head) = self.head.take() {
            self.pieces.send(Piece::Head(head)).await.map_err(gone)?;
        }
        let data = Bytes::from(std::mem::take(&mut self.buffer));
        if data.is_empty() { Ok(()) } else { self.pieces.send(Piece::Data(data)).await.map_err(gone) }
    }
}

/// Work that writes an answer, and hands back where it wrote.
type Work = BoxFuture<'static, (Sink, Result<(), Refusal>)>;

/// The answer that `write` writes, from its first piece on. Its body has to be read for the rest to be done: of one that goes on,
/// `watch` is kept meanwhile.
///
/// # Cancellation
/// Ends the work.
pub(crate) async fn answered<F, W>(head: Head, write: impl FnOnce(Sink) -> F, watch: impl FnOnce() -> W) -> Response
where
    W: Send + Unpin + 'static,
    F: Future<Output = (Sink, Result<(), Refusal>)> + Send + 'static,
{
    let (tx, mut pieces) = mpsc::channel(1);
    let mut work: Work =
        Box::pin(write(Sink { buffer: Vec::new(), head: Some(head), pieces: tx, sent: 0, held: None }));
    tokio::select! {
        biased;
        piece = pieces.recv() => match piece {
            Some(Piece::Head(head)) => {
                head.with(Body::from_stream(Pieces { state: State::Working(work), pieces, _watch: watch() }))
            }
            Some(Piece::Data(_)) | None => {
                tracing::error!("an answer has no head");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        },
        (sink, done) = &mut work => match (done, sink.head) {
            (Ok(()), Some(head)) => head.with(Body::from(sink.buffer)),
            // The head was sent, and not received yet.
            (Ok(()), None) => match pieces.try_recv() {
                Ok(Piece::Head(head)) => head.with(Body::from(sink.buffer)),
                _ => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            },
            (Err(refusal), _) => refusal.into_response(),
        },
    }
}

/// A body in pieces.
struct Pieces<W> {
    state: State,
    pieces: mpsc::Receiver<Piece>,
    _watch: W,
}

/// Where the rest of a body comes from, once the pieces that were sent are taken.
enum State {
    /// From the work that makes it.
    Working(Work),
    /// The work is done, and has left this.
    Done(Vec<u8>),
    /// There is nothing more.
    Over,
}

impl<W: Unpin> Stream for Pieces<W> {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            match self.pieces.poll_recv(context) {
                Poll::Ready(Some(Piece::Data(data))) => return Poll::Ready(Some(Ok(data))),
                Poll::Ready(Some(Piece::Head(_))) => continue,
                Poll::Ready(None) | Poll::Pending => {}
            }
            match &mut self.state {
                // What it sends wakes whoever waits for pieces.
                State::Working(work) => match ready!(work.as_mut().poll(context)) {
                    (sink, Ok(())) => self.state = State::Done(sink.buffer),
                    (_, Err(refusal)) => {
                        tracing::debug!(?refusal, "an answer breaks off");
                        self.state = State::Over;
                        return Poll::Ready(Some(Err(io::Error::other("the answer breaks off"))));
                    }
                },
                State::Done(rest) => {
                    let rest = Bytes::from(std::mem::take(rest));
                    self.state = State::Over;
                    if !rest.is_empty() {
                        return Poll::Ready(Some(Ok(rest)));
                    }
                }
                State::Over => return Poll::Ready(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal() -> Refusal {
        Refusal::new(StatusCode::CONFLICT, SqlState::UNIQUE_VIOLATION, "no")
    }

    /// What comes of pieces that are flushed, a rest that is not, and an end.
    async fn come(pieces: &'static [usize], rest: usize, end: Result<(), Refusal>) -> (StatusCode, Result<usize, ()>) {
        let write = |mut sink: Sink| async move {
            for piece in pieces {
                sink.buffer.resize(*piece, b'x');
                sink.flush().await.expect("somebody reads");
                tokio::task::yield_now().await;
            }
            sink.buffer.resize(rest, b'y');
            (sink, end)
        };
        let response = answered(Head::of("text/plain"), write, || ()).await;
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await;
        (status, body.map(|bytes| bytes.len()).map_err(drop))
    }

    #[tokio::test]
    async fn an_answer_is_whole_or_breaks_off() {
        assert_eq!(come(&[], 5, Ok(())).await, (StatusCode::OK, Ok(5)));
        assert_eq!(come(&[], 0, Ok(())).await, (StatusCode::OK, Ok(0)));
        assert_eq!(come(&[10], 0, Ok(())).await, (StatusCode::OK, Ok(10)));
        assert_eq!(come(&[10, 20, 30], 5, Ok(())).await, (StatusCode::OK, Ok(65)));
        assert_eq!(come(&[0], 5, Ok(())).await, (StatusCode::OK, Ok(5)));
        assert_eq!(come(&[], 5, Err(refusal())).await.0, StatusCode::CONFLICT);
        assert_eq!(come(&[10], 5, Err(refusal())).await, (StatusCode::OK, Err(())));
        assert_eq!(come(&[10, 20], 0, Err(refusal())).await, (StatusCode::OK, Err(())));
    }

    #[tokio::test]
    async fn who_does_not_read_makes_the_work_wait() {
        let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = std::sync::Arc::clone(&count);
        let write = |mut sink: Sink| async move {
            for _ in 0..100 {
                sink.buffer.push(b'x');
                sink.flush().await.expect("somebody reads");
                counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
            (sink, Ok(()))
        };
        let response = answered(Head::of("text/plain"), write, || ()).await;
        tokio::task::yield_now().await;
        assert!(count.load(std::sync::atomic::Ordering::Relaxed) <= 2);
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("it is whole");
        assert_eq!((body.len(), count.load(std::sync::atomic::Ordering::Relaxed)), (100, 100));
    }
}
