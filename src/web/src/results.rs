//! The results of any number of statements, as Materialize has them: one JSON object.
//!
//! What statements with rows gave is `{"desc","rows","tag","notices"}`, what others did `{"ok","notices"}`, and the first error
//! `{"error","notices"}`, behind which nothing is run.

use crate::json;
use crate::printing::send;
use crate::request::Request;
use crate::single::{check_ended, endless, options};
use crate::sink::Sink;
use crate::statements::{Teller, tell};
use crate::told::{self, Refusal, Told};
use adapter::answer::Answer;
use adapter::error::AdapterError;
use adapter::seat::Seat;
use adapter::session::Session;

/// Results on their way out.
pub(crate) struct Results<'s> {
    sink: &'s mut Sink,
    /// How many there are that are whole.
    count: usize,
    /// Where in the buffer the next one begins, or begins to be written.
    begins: usize,
    /// How many pieces had been sent then.
    sent: usize,
}

impl Results<'_> {
    pub(crate) fn new(sink: &mut Sink) -> Results<'_> {
        Results { sink, count: 0, begins: 0, sent: 0 }
    }

    /// All results of a request. Errors: those of a statement of whose result part was sent.
    pub(crate) async fn of(mut self, seat: &mut Seat, request: Request) -> Result<(), Refusal> {
        self.sink.buffer.extend_from_slice(b"{\"results\":[");
        self.begins = self.sink.buffer.len();
        let done = tell(seat, request, &mut self).await.and_then(|()| check_ended(seat));
        if let Err(error) = done {
            self.failed(seat, error)?;
        }
        self.sink.buffer.extend_from_slice(b"]}\n");
        Ok(())
    }

    /// A result begins.
    fn begins_with(&mut self, text: &[u8]) {
        let out = &mut self.sink.buffer;
        if self.count > 0 {
            out.push(b',');
        }
        out.extend_from_slice(text);
    }

    /// The result of what failed takes the place of what there is of another, if that has not left.
    fn failed(&mut self, seat: &mut Seat, error: AdapterError) -> Result<(), Refusal> {
        if let Some(session) = seat.here() {
            session.fail_transaction();
        }
        if self.sent != self.sink.sent() {
            return Err(error.into());
        }
        self.sink.buffer.truncate(self.begins);
        self.begins_with(b"{\"error\":");
        let error = serde_json::to_vec(&Told::from(&error)).expect("it is text and numbers");
        self.sink.buffer.extend_from_slice(&error);
        self.end(seat, true);
        Ok(())
    }
}

impl Teller for Results<'_> {
    /// Whether there is a result: of an empty statement there is none.
    type Left = bool;

    async fn answer(&mut self, answer: Answer<'_>) -> Result<bool, AdapterError> {
        match answer {
            Answer::Empty => return Ok(false),
            Answer::Done(tag) => {
                self.begins_with(b"{\"ok\":");
                json::tag(&mut self.sink.buffer, &tag);
            }
            Answer::Rows(rows) if rows.is_live() => return Err(endless()),
            Answer::Rows(mut rows) => {
                self.begins_with(b"{\"desc\":");
                let out = &mut self.sink.buffer;
                json::description(out, rows.desc());
                out.extend_from_slice(b",\"rows\":[");
                let form = json::Array::new(options(&rows));
                send(&mut rows, form, self.sink).await?;
                self.sink.buffer.extend_from_slice(b"],\"tag\":");
                json::tag(&mut self.sink.buffer, &rows.tag());
            }
        }
        Ok(true)
    }

    fn end(&mut self, seat: &mut Seat, is_told: bool) {
        if is_told {
            let told = seat.here().map(Session::take_notices).unwrap_or_default();
            let out = &mut self.sink.buffer;
            out.extend_from_slice(b",\"notices\":");
            told::notices(out, &told);
            out.push(b'}');
            self.begins = out.len();
            self.sent = self.sink.sent();
            self.count += 1;
        }
    }
}
