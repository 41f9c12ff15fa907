//! A request's work: done in a session of whoever asks, which is given back afterwards.

use crate::shared::{Seated, Visitor};
use crate::sink::{Head, Sink, answered};
use crate::told::Refusal;
use adapter::error::AdapterError;
use adapter::seat::Seat;
use axum::response::Response;
use door::entrance::Entrance;
use door::place::Place;
use repr::sqlstate::SqlState;
use std::pin::pin;
use std::sync::Arc;

/// Who asks, and where.
pub(crate) struct Welcome {
    pub(crate) entrance: Arc<Entrance>,
    pub(crate) place: Place,
}

/// What is done for a request.
pub(crate) trait Work: Send + 'static {
    /// Writes the answer. Errors: instead of an answer, if nothing of it was sent.
    fn tell(self, seat: &mut Seat, sink: &mut Sink) -> impl Future<Output = Result<(), Refusal>> + Send;

    /// An error in the words in which it is told here.
    fn refused(refusal: Refusal) -> Refusal {
        refusal
    }
}

/// Answers a request. Errors: those of a session that cannot begin.
pub(crate) async fn respond(
    visitor: Arc<Visitor>,
    Welcome { entrance, place }: Welcome,
    head: Head,
    work: impl Work,
) -> Result<Response, Refusal> {
    let seated = visitor.seat(&entrance, place)?;
    let ended = seated.shutdown();
    let write = |sink| run(seated, work, sink);
    let answer = answered(head, write, || visitor.watch(ended)).await;
    if door::server::is_crowded() {
        // What others have asked meanwhile is answered first, and then everything sent.
        tokio::task::yield_now().await;
    }
    Ok(answer)
}

/// Does it, and gives the session back.
async fn run<W: Work>(mut seated: Seated, work: W, mut sink: Sink) -> (Sink, Result<(), Refusal>) {
    let ended = seated.shutdown();
    let done = {
        let answering = pin!(work.tell(&mut seated, &mut sink));
        tokio::select! {
            biased;
            // What is answered at once waits for nothing.
            done = answering => done,
            () = ended.cancelled() => Err(AdapterError::new(SqlState::ADMIN_SHUTDOWN, "the session ends").into()),
        }
    };
    if done.is_ok() || sink.head().is_some() {
        if let (Err(_), Some(session)) = (&done, seated.here()) {
            session.fail_transaction();
        }
        seated.give_back().await;
    }
    (sink, done.map_err(W::refused))
}
