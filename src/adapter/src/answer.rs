//! What a door asks for that has no protocol of statements and portals: one statement with values, and its answer.
//!
//! [`Seat::answer`] reads, plans and runs a statement, wherever that may be done, and its rows are pulled as batches. The statement is a
//! transaction of its own, unless BEGIN came before. That it was run, how it ended, and that the session rests then, is noted here: a
//! door cannot forget it.
//! What was planned for the same text before is used again, so that nothing needs to be kept between two calls.

use crate::bindable::Bindable;
use crate::description::RowDesc;
use crate::error::AdapterError;
use crate::reading::batches::Batches;
use crate::reading::waiting::{Awaited, PATIENCE};
use crate::response::{Response, RowsTag, Tag};
use crate::seat::Seat;
use crate::session::Session;
use arrow::array::RecordBatch;
use repr::sqlstate::SqlState;
use repr::{Datum, PgType};
use sql_syntax::parser::ParsedStatement;
use std::sync::Arc;

/// A statement as a door has it.
pub enum Statement {
    /// One that is to be read.
    Text(String),
    /// One that was made, or read, by the door.
    Tree(Box<ParsedStatement>),
}

/// What is known of a statement before it runs.
pub struct Described {
    /// The types of its parameters.
    pub params: Vec<PgType>,
    /// The shape of its rows, if it has some.
    pub rows: Option<Arc<RowDesc>>,
}

/// The answer to a statement.
pub enum Answer<'s> {
    /// Rows, to be pulled.
    Rows(Box<Answering<'s>>),
    /// It has no rows.
    Done(Tag),
    /// There was no statement.
    Empty,
}

/// Rows that a statement answers with.
pub struct Answering<'s> {
    seat: &'s mut Seat,
    batches: Batches,
    /// What has to be built before there are rows.
    awaited: Option<Awaited>,
    tag: RowsTag,
}

impl Seat {
    /// Reads and plans a statement. Errors: those of its syntax and of planning it.
    ///
    /// # Cancellation
    /// As [`Seat::elsewhere`].
    pub async fn describe(&mut self, statement: Statement) -> Result<Described, AdapterError> {
        self.back().await;
        self.begin();
        let describing = self.elsewhere(move |session| {
            Box::pin(async move {
                let bindable = session.prepare_unnamed(statement)?;
                // What is asked for next has its own time.
                session.sync().await?;
                Ok(bindable)
            })
        });
        let prepared = describing.await;
        let bindable = self.noted(prepared)?;
        Ok(Described { params: bindable.params().to_vec(), rows: bindable.desc().cloned() })
    }

    /// Runs a statement. `values` gives the values of its parameters, whose types it is told. The rows come in batches of at most
    /// `bytes_max` bytes, but for a row that has more. Errors: 42601 if there are not as many values as parameters, 0A000 of COPY, and
    /// those of reading, planning and running it.
    ///
    /// # Cancellation
    /// As [`Seat::elsewhere`]: a write that was handed to the committer still commits.
    pub async fn answer(
        &mut self,
        statement: Statement,
        values: impl FnOnce(&Session, &[PgType]) -> Result<Vec<Datum<'static>>, AdapterError> + Send + 'static,
        bytes_max: usize,
    ) -> Result<Answer<'_>, AdapterError> {
        self.back().await;
        self.begin();
        let run = self
            .elsewhere(move |session| {
                Box::pin(async move {
                    let bindable = session.prepare_unnamed(statement)?;
                    let values = values(session, bindable.params())?;
                    if values.len() != bindable.params().len() {
                        let (given, wanted) = (values.len(), bindable.params().len());
                        let message = format!("the statement has {wanted} parameters, and {given} values were given");
                        return Err(AdapterError::new(SqlState::SYNTAX_ERROR, message));
                    }
                    session.bind("", bindable, values);
                    session.sample_portal("");
                    let response = session.execute("", true).await?;
                    session.sync().await?;
                    Ok(response)
                })
            })
            .await;
        match self.noted(run)? {
            Response::Rows { desc, mut rows, tag, .. } => {
                let (awaited, batches) = (rows.take_awaited(), Batches::new(desc, rows, bytes_max));
                Ok(Answer::Rows(Box::new(Answering { seat: self, batches, awaited, tag })))
            }
            Response::Complete(tag) => {
                self.succeeded(None);
                self.rest();
                Ok(Answer::Done(tag))
            }
            Response::Empty => {
                self.rest();
                Ok(Answer::Empty)
            }
            Response::CopyIn(_) | Response::CopyOut { .. } => {
                let message = "COPY needs a protocol for its data, which this door has not";
                self.noted(Err(AdapterError::new(SqlState::FEATURE_NOT_SUPPORTED, message)))
            }
        }
    }

    /// A result, whose error is noted and ends the transaction.
    fn noted<T>(&mut self, result: Result<T, AdapterError>) -> Result<T, AdapterError> {
        if let (Err(error), Some(session)) = (&result, self.here()) {
            session.fail_transaction();
            session.failed(error.sqlstate(), error);
            self.rest();
        }
        result
    }

    /// What was asked to be ended before this was another statement.
    fn begin(&mut self) {
        if let Some(session) = self.here() {
            session.cancel().reset();
        }
    }

    /// A statement has ended: others see that, and locks of its transaction are free.
    fn rest(&mut self) {
        let _status = self.transaction_status();
    }
}

impl Drop for Answering<'_> {
    /// Rows that are not wanted to their end.
    fn drop(&mut self) {
        self.seat.rest();
    }
}

impl Session {
    /// The unnamed statement, which becomes this one.
    fn prepare_unnamed(&mut self, statement: Statement) -> Result<Bindable, AdapterError> {
        match statement {
            Statement::Text(text) => self.parse("", &text, &[])?,
            Statement::Tree(statement) => self.parse_tree("", *statement)?,
        }
        self.to_bind("", "", 0)
    }
}

impl Answering<'_> {
    /// Their shape.
    pub fn desc(&self) -> &Arc<RowDesc> {
        &self.batches.desc
    }

    /// The next rows; `None` at the end. Of rows that are made of something that is being built, what is waited for is among the
    /// session's notices after a second.
    ///
    /// # Cancellation
    /// Safe to drop: no row is taken before it is returned.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>, AdapterError> {
        let next = match self.awaited.take() {
            None => self.batches.next().await,
            Some(awaited) => match tokio::time::timeout(PATIENCE, self.batches.next()).await {
                Ok(next) => next,
                Err(_) => {
                    self.seat.notices.extend(awaited.notice());
                    self.batches.next().await
                }
            },
        };
        let batch = self.seat.noted(next).inspect_err(|_| self.batches.end())?;
        if batch.is_none() {
            self.seat.succeeded(Some(self.batches.given));
        }
        Ok(batch)
    }

    /// The command tag, with the rows so far.
    pub fn tag(&self) -> Tag {
        match self.tag.has_count() {
            true => Tag::Counted(self.tag.text(), u64::try_from(self.batches.given.0).unwrap_or(u64::MAX)),
            false => Tag::Plain(self.tag.text()),
        }
    }
}
