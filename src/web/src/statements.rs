//! The statements of a request, one after the other, whatever their answers are told in.

use crate::outlet::PIECE_BYTES;
use crate::request::Request;
use adapter::answer::{Answer, Follows};
use adapter::error::AdapterError;
use adapter::seat::Seat;

/// Who tells answers.
pub(crate) trait Teller: Send {
    /// What is left to be told of a statement whose answer was.
    type Left: Send;

    /// A statement's answer, as far as its session is needed for nothing else. Errors: those of its rows, and that nobody reads.
    fn answer(&mut self, answer: Answer<'_>) -> impl Future<Output = Result<Self::Left, AdapterError>> + Send;

    /// What a statement ends with.
    fn end(&mut self, seat: &mut Seat, left: Self::Left);
}

/// Runs a request's statements; outside a block they are one transaction. Errors: the first that there is, behind which nothing is run.
///
/// # Cancellation
/// As [`Seat::elsewhere`].
pub(crate) async fn tell(seat: &mut Seat, request: Request, teller: &mut impl Teller) -> Result<(), AdapterError> {
    match request {
        Request::Simple(text) => {
            let mut asked = seat.ask(text).await?;
            loop {
                let Some(answer) = seat.next_answer(&mut asked, PIECE_BYTES).await? else { return Ok(()) };
                let left = teller.answer(answer).await?;
                teller.end(seat, left);
            }
        }
        Request::Extended(queries) => {
            for query in queries {
                let (statement, values) = query.asked();
                let answer = seat.answer(statement, values, Follows::Others, PIECE_BYTES).await?;
                let left = teller.answer(answer).await?;
                teller.end(seat, left);
            }
            seat.commit().await
        }
    }
}
