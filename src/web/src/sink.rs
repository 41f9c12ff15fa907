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
use parking_lot::Mutex;
use repr::sqlstate::SqlState;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Bytes that there is room for at first: a short answer.
const SHORT_BYTES: usize = 512;
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

/// Where parts of an answer go from the work to the body. Whoever waits for the body does the work, so that nobody has to be woken.
#[derive(Clone, Debug, Default)]
struct Hatch(Arc<Mutex<Part>>);

/// Part of an answer.
#[derive(Debug, Default)]
struct Part {
    head: Option<Head>,
    data: Option<Bytes>,
}

impl Hatch {
    /// Gives out a part, and returns once it was taken and more is wanted.
    async fn put(&self, part: Part) {
        *self.0.lock() = part;
        let is_taken = || matches!(*self.0.lock(), Part { head: None, data: None });
        poll_fn(|_| if is_taken() { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    fn take_head(&self) -> Option<Head> {
        self.0.lock().head.take()
    }

    fn take_data(&self) -> Option<Bytes> {
        self.0.lock().data.take()
    }
}

/// Where an answer is written.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) buffer: Vec<u8>,
    /// Until the first piece is sent.
    head: Option<Head>,
    hatch: Hatch,
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
        self.sent += 1;
        if let Some(held) = &mut self.held {
            held.append(&mut self.buffer);
            return if held.len() > HELD_BYTES_MAX { Err(too_long()) } else { Ok(()) };
        }
        let data = (!self.buffer.is_empty()).then(|| Bytes::from(std::mem::take(&mut self.buffer)));
        self.hatch.put(Part { head: self.head.take(), data }).await;
        Ok(())
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
    let hatch = Hatch::default();
    let sink =
        Sink { buffer: Vec::with_capacity(SHORT_BYTES), head: Some(head), hatch: hatch.clone(), sent: 0, held: None };
    let mut work: Work = Box::pin(write(sink));
    let began = poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Err(done)),
        Poll::Pending => hatch.take_head().map_or(Poll::Pending, |head| Poll::Ready(Ok(head))),
    });
    match began.await {
        Ok(head) => head.with(Body::from_stream(Pieces { work: Some(work), hatch, _watch: watch() })),
        Err((Sink { head: Some(head), buffer, .. }, Ok(()))) => head.with(Body::from(buffer)),
        // Whoever gives a head out waits until it was taken.
        Err((_, Ok(()))) => {
            tracing::error!("an answer has no head");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
        Err((_, Err(refusal))) => refusal.into_response(),
    }
}

/// A body in pieces.
struct Pieces<W> {
    /// What makes them, until it is done.
    work: Option<Work>,
    hatch: Hatch,
    _watch: W,
}

impl<W: Unpin> Stream for Pieces<W> {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        // The first comes with the head.
        if let Some(data) = self.hatch.take_data() {
            return Poll::Ready(Some(Ok(data)));
        }
        let Some(work) = &mut self.work else { return Poll::Ready(None) };
        let Poll::Ready((Sink { buffer, .. }, done)) = work.as_mut().poll(context) else {
            return self.hatch.take_data().map_or(Poll::Pending, |data| Poll::Ready(Some(Ok(data))));
        };
        self.work = None;
        Poll::Ready(match done {
            Ok(()) => (!buffer.is_empty()).then(|| Ok(Bytes::from(buffer))),
            Err(refusal) => {
                tracing::debug!(?refusal, "an answer breaks off");
                Some(Err(io::Error::other("the answer breaks off")))
            }
        })
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
        let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = Arc::clone(&count);
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
