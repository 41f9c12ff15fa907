//! What a door asks for that has no protocol of statements and portals: statements, and their answers.
//!
//! [`Seat::answer`] reads, plans and runs one statement with values; [`Seat::ask`] takes a text of several apart, whose answers
//! [`Seat::next_answer`] gives. Rows are pulled, as batches. What is short happens on the thread of the connection and the rest elsewhere,
//! and that a statement was run, how it ended, and that the session rests then, is noted: a door cannot forget any of these.
//! What was planned for the same text before is used again, so that nothing needs to be kept between two calls.

use crate::bindable::Bindable;
use crate::control::short::is_elsewhere;
use crate::description::RowDesc;
use crate::error::AdapterError;
use crate::reading::batches::Batches;
use crate::reading::waiting::{Awaited, PATIENCE};
use crate::response::{Chunk, Response, RowsTag, Tag};
use crate::seat::Seat;
use crate::session::{Script, Session};
use crate::writing::copy_in::CopyIn;
use arrow::array::RecordBatch;
use repr::sqlstate::SqlState;
use repr::{Datum, PgType, Timestamp};
use sql_syntax::parser::ParsedStatement;
use std::fmt::Display;
use std::sync::Arc;

/// A statement as a door has it.
pub enum Statement {
    /// One that is to be read.
    Text(String),
    /// One that was made, or read, by the door.
    Tree(Box<ParsedStatement>),
}

/// The values of a statement's parameters.
pub struct Values<V> {
    /// About how many bytes they have as they came.
    pub bytes: usize,
    /// Gives them, and is told their types.
    pub decode: V,
}

/// No values, of a statement that has no parameters.
pub fn no_values() -> Values<fn(&Session, &[PgType]) -> Result<Vec<Datum<'static>>, AdapterError>> {
    Values { bytes: 0, decode: |_, _| Ok(Vec::new()) }
}

/// Values that are texts, as many as there are to be: numbers with the digits that they have, `None` of NULL.
pub fn texts(
    values: Vec<Option<String>>,
) -> Values<impl FnOnce(&Session, &[PgType]) -> Result<Vec<Datum<'static>>, AdapterError> + Send + 'static> {
    let bytes = values.iter().flatten().map(String::len).sum();
    let decode = move |session: &Session, types: &[PgType]| {
        if values.len() != types.len() {
            // It is told by whoever knows how many there are to be.
            return Ok(vec![Datum::Null; values.len()]);
        }
        let value = |(text, ty): (&Option<String>, &PgType)| match text {
            None => Ok(Datum::Null),
            Some(text) => session.decode_text(ty, text),
        };
        values.iter().zip(types).map(value).collect()
    };
    Values { bytes, decode }
}

/// Whether something of the same transaction follows a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// Nothing: outside a block the statement commits.
    Nothing,
    /// Other statements, and then [`Seat::commit`]. A SUBSCRIBE commits what came before it.
    Others,
}

/// Statements of one text, of which some may have been answered. Outside a block they are one transaction.
pub struct Asked {
    /// Until it is over.
    script: Option<Script>,
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
    follows: Follows,
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

    /// Runs a statement. The rows come in batches of at most `bytes_max` bytes, but for a row that has more. Errors: 42601 if there are not
    /// as many values as parameters, 0A000 of COPY, and those of reading, planning and running it.
    ///
    /// # Cancellation
    /// As [`Seat::elsewhere`]: a write that was handed to the committer still commits.
    pub async fn answer<V>(
        &mut self,
        statement: Statement,
        values: Values<V>,
        follows: Follows,
        bytes_max: usize,
    ) -> Result<Answer<'_>, AdapterError>
    where
        V: FnOnce(&Session, &[PgType]) -> Result<Vec<Datum<'static>>, AdapterError> + Send + 'static,
    {
        self.back().await;
        self.begin();
        let response = match self.bound(statement, values).await {
            Ok(()) => self.executed(follows).await,
            Err(error) => Err(error),
        };
        let response = self.noted(response)?;
        self.answered(response, follows, bytes_max)
    }

    /// Begins a COPY FROM STDIN. Errors: 0A000 of any other statement, those of planning it.
    ///
    /// # Cancellation
    /// As [`Seat::elsewhere`].
    pub async fn copy_in(&mut self, statement: Statement) -> Result<Box<CopyIn>, AdapterError> {
        self.back().await;
        self.begin();
        let response = match self.bound(statement, no_values()).await {
            Ok(()) => self.executed(Follows::Others).await,
            Err(error) => Err(error),
        };
        let begun = response.and_then(|response| match response {
            Response::CopyIn(copy) => Ok(copy),
            _ => Err(AdapterError::new(SqlState::FEATURE_NOT_SUPPORTED, "only COPY FROM STDIN takes rows")),
        });
        self.noted(begun)
    }

    /// Commits the rows of a COPY: all or none.
    ///
    /// # Cancellation
    /// A write that was handed to the committer still commits.
    pub async fn copy_done(&mut self, copy: Box<CopyIn>) -> Result<Tag, AdapterError> {
        let finished = match copy.is_short() {
            true => self.copy_in_finish(copy).await,
            false => self.elsewhere(move |session| Box::pin(session.copy_in_finish(copy))).await,
        };
        let tag = self.noted(finished)?;
        self.succeeded(None);
        self.commit().await?;
        Ok(tag)
    }

    /// Notes that what the session is at has failed outside of it: a COPY whose rows are wrong.
    pub fn gave_up(&mut self, sqlstate: SqlState, why: &dyn Display) {
        if let Some(session) = self.here() {
            session.fail_transaction();
            session.failed(sqlstate, why);
            self.rest();
        }
    }

    /// Takes a text apart. Errors: those of its syntax.
    ///
    /// # Cancellation
    /// As [`Seat::elsewhere`].
    pub async fn ask(&mut self, text: String) -> Result<Asked, AdapterError> {
        self.back().await;
        self.begin();
        let mut script = self.start_script(&text);
        if is_elsewhere(&script) {
            let starting = self.elsewhere(move |session| Box::pin(async move { session.start_script(&text) }));
            script = Box::pin(starting).await;
        }
        Ok(Asked { script: Some(self.noted(script)?) })
    }

    /// The answer to the next of these statements; `None` once all were answered and are committed. Errors: those of planning and running
    /// it, after which there is no next one.
    ///
    /// # Cancellation
    /// As [`Seat::elsewhere`].
    pub async fn next_answer(
        &mut self,
        asked: &mut Asked,
        bytes_max: usize,
    ) -> Result<Option<Answer<'_>>, AdapterError> {
        let Some(mut script) = asked.script.take() else { return Ok(None) };
        if script.is_done() {
            let ended = match self.must_finish(&script) {
                true => Box::pin(self.finish_script(&script)).await,
                false => Ok(()),
            };
            self.noted(ended)?;
            self.rest();
            return Ok(None);
        }
        let mut response = match self.next_at_once(&mut script) {
            Some(response) => response,
            None => Box::pin(self.next_in_script(&mut script)).await,
        };
        if is_elsewhere(&response) {
            let running = self.elsewhere(move |session| {
                Box::pin(async move {
                    let response = session.next_in_script(&mut script).await?;
                    Ok((script, response))
                })
            });
            match Box::pin(running).await {
                Ok((back, answer)) => (script, response) = (back, Ok(answer)),
                Err(error) => return self.noted(Err(error)),
            }
        }
        let response = self.noted(response)?;
        asked.script = Some(script);
        self.answered(response, Follows::Others, bytes_max).map(Some)
    }

    /// Ends the transaction of statements that others followed. Errors: those of a commit.
    ///
    /// # Cancellation
    /// A write that was handed to the committer still commits.
    pub async fn commit(&mut self) -> Result<(), AdapterError> {
        self.back().await;
        let ended = match self.sync_at_once() {
            true => Ok(()),
            false => Box::pin(self.sync()).await,
        };
        self.noted(ended)?;
        self.rest();
        Ok(())
    }

    /// Has the unnamed portal be of a statement with these values.
    async fn bound<V>(&mut self, statement: Statement, values: Values<V>) -> Result<(), AdapterError>
    where
        V: FnOnce(&Session, &[PgType]) -> Result<Vec<Datum<'static>>, AdapterError> + Send + 'static,
    {
        let Values { bytes, decode } = values;
        // A tree is given away when it is read.
        if let Statement::Text(text) = &statement {
            match self.parse("", text, &[]).and_then(|()| self.to_bind("", "", bytes)) {
                Err(AdapterError::Elsewhere) => {}
                bindable => return self.bind_values(bindable?, decode),
            }
        }
        let binding = self.elsewhere(move |session| {
            Box::pin(async move {
                let bindable = session.prepare_unnamed(statement)?;
                session.bind_values(bindable, decode)
            })
        });
        Box::pin(binding).await
    }

    /// Executes the unnamed portal.
    async fn executed(&mut self, follows: Follows) -> Result<Response, AdapterError> {
        let is_last = follows == Follows::Nothing;
        let mut response = match self.execute_at_once("") {
            Some(response) => response,
            None => Box::pin(self.execute("", is_last)).await,
        };
        if is_elsewhere(&response) {
            let running = self.elsewhere(move |session| Box::pin(async move { session.execute("", is_last).await }));
            response = Box::pin(running).await;
        }
        // What has no end would keep its transaction for ever.
        let is_live = matches!(&response, Ok(Response::Rows { rows, .. }) if rows.is_live());
        if (is_last || is_live) && response.is_ok() && !self.sync_at_once() {
            Box::pin(self.sync()).await?;
        }
        if is_live && let Some(session) = self.here() {
            // A thousand who follow something would keep a thousand plans of it.
            session.statements.forget("");
        }
        response
    }

    /// A response as a door gets it.
    fn answered(&mut self, response: Response, follows: Follows, bytes_max: usize) -> Result<Answer<'_>, AdapterError> {
        match response {
            Response::Rows { desc, mut rows, tag, .. } => {
                let (awaited, batches) = (rows.take_awaited(), Batches::new(desc, rows, bytes_max));
                Ok(Answer::Rows(Box::new(Answering { seat: self, batches, awaited, tag, follows })))
            }
            Response::Complete(tag) => {
                self.succeeded(None);
                self.rest_after(follows);
                Ok(Answer::Done(tag))
            }
            Response::Empty => {
                self.rest_after(follows);
                Ok(Answer::Empty)
            }
            Response::CopyIn(_) | Response::CopyOut { .. } => {
                let message = "COPY needs a protocol for its data, which this door has not";
                self.noted(Err(AdapterError::new(SqlState::FEATURE_NOT_SUPPORTED, message)))
            }
        }
    }

    /// A result, whose error is noted and ends the transaction.
    pub(crate) fn noted<T>(&mut self, result: Result<T, AdapterError>) -> Result<T, AdapterError> {
        if let Err(error) = &result {
            self.gave_up(error.sqlstate(), error);
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
    pub(crate) fn rest(&mut self) {
        let _status = self.transaction_status();
    }

    /// The same, unless others of its transaction follow.
    fn rest_after(&mut self, follows: Follows) {
        if follows == Follows::Nothing {
            self.rest();
        }
    }
}

impl Drop for Answering<'_> {
    /// Rows that are not wanted to their end.
    fn drop(&mut self) {
        self.seat.rest_after(self.follows);
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

    /// Gives the unnamed statement its values.
    fn bind_values(
        &mut self,
        bindable: Bindable,
        decode: impl FnOnce(&Session, &[PgType]) -> Result<Vec<Datum<'static>>, AdapterError>,
    ) -> Result<(), AdapterError> {
        let values = decode(self, bindable.params())?;
        if values.len() != bindable.params().len() {
            let (given, wanted) = (values.len(), bindable.params().len());
            let message = format!("the statement has {wanted} parameters, and {given} values were given");
            return Err(AdapterError::new(SqlState::SYNTAX_ERROR, message));
        }
        self.bind("", bindable, values);
        Ok(())
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
        let next = match self.ready().await {
            Ok(()) => self.batches.next().await,
            Err(error) => Err(error),
        };
        let batch = self.seat.noted(next).inspect_err(|_| self.batches.end())?;
        if batch.is_none() {
            self.seat.succeeded(Some(self.batches.given));
        }
        Ok(batch)
    }

    /// The same; rows that are stored come as they are.
    ///
    /// # Cancellation
    /// As [`Answering::next`].
    pub async fn next_rows(&mut self) -> Result<Option<Chunk<'_>>, AdapterError> {
        if let Err(error) = self.ready().await {
            self.batches.end();
            return self.seat.noted(Err(error));
        }
        let given = self.batches.given;
        // Not by `next`: its batches would have to be made of what is stored.
        match self.batches.next_rows().await {
            Ok(Some(chunk)) => Ok(Some(chunk)),
            Ok(None) => {
                self.seat.succeeded(Some(given));
                Ok(None)
            }
            Err(error) => self.seat.noted(Err(error)),
        }
    }

    /// Waits for a moment for what has to be built, and says so if it takes longer.
    async fn ready(&mut self) -> Result<(), AdapterError> {
        let Some(awaited) = self.awaited.take() else { return Ok(()) };
        if let Ok(waited) = tokio::time::timeout(PATIENCE, self.batches.wait()).await {
            return waited;
        }
        self.seat.notices.extend(awaited.notice());
        Ok(())
    }

    /// Whether they come as things happen, and have no end.
    pub fn is_live(&self) -> bool {
        self.batches.is_live()
    }

    /// Of rows that come as things happen, the time below which all were given; `None` if some that have happened are left.
    pub fn upper(&self) -> Option<Timestamp> {
        self.batches.upper()
    }

    /// Whose answer it is.
    pub fn session(&self) -> &Session {
        self.seat
    }

    /// The command tag, with the rows so far.
    pub fn tag(&self) -> Tag {
        match self.tag.has_count() {
            true => Tag::Counted(self.tag.text(), u64::try_from(self.batches.given.0).unwrap_or(u64::MAX)),
            false => Tag::Plain(self.tag.text()),
        }
    }
}
