//! Statements and their rows.

use crate::sending::{Messages, Outlet, message, streamed};
use crate::statement::{Statement, Values};
use crate::told::told;
use crate::welcome::{Caller, Chair};
use adapter::answer::{self, Answer, Answering, Described, Follows};
use adapter::error::AdapterError;
use adapter::reading::batches::row_bytes;
use adapter::response::Tag;
use adapter::seat::Seat;
use adapter::session::Session;
use adapter::status::Status as Stands;
use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{Schema, SchemaRef};
use arrow_flight::FlightData;
use door::apart::elsewhere;
use door::exchange::Exchange;
use door::intake;
use ore::memory::{Reservation, Share};
use repr::sqlstate::SqlState;
use repr::{Datum, PgType, RelationDesc};
use std::sync::Arc;
use tonic::Status;

/// Bytes of a batch, but for a row that has more. As a message it may have twice as many.
const BATCH_BYTES: usize = 1 << 20;
/// Bytes from which on a batch is made elsewhere.
const LARGE_BATCH: usize = 4 << 20;

/// The shapes of a statement's rows and parameters.
pub(crate) struct Shapes {
    /// If it has some.
    pub(crate) rows: Option<SchemaRef>,
    pub(crate) params: SchemaRef,
}

/// What a statement's rows and parameters are.
pub(crate) async fn shapes(caller: &Caller, statement: &Statement) -> Result<Shapes, Status> {
    let mut chair = caller.seat(statement.transaction.as_deref()).await?;
    let described = chair.describe(answer::Statement::Text(statement.query.clone())).await;
    let Described { params, rows } = chair.leave(described.map_err(|error| told(&error))).await?;
    let rows = rows.map(|rows| Arc::clone(Exchange::of(&rows.desc).schema()));
    let params = params.into_iter().enumerate().map(|(at, ty)| (format!("${}", at + 1), ty, true));
    Ok(Shapes { rows, params: Arc::clone(Exchange::of(&RelationDesc::new(params)).schema()) })
}

/// Runs a statement, for each row of values if there are some, and sends its rows.
pub(crate) fn rows(caller: Caller, statement: Statement, values: Option<Arc<Values>>) -> Messages<FlightData> {
    streamed(caller.message_bytes_max, |outlet| async move {
        let chair = caller.seat(statement.transaction.as_deref()).await?;
        // Who does not read does not see that the session has ended.
        let _watch = Arc::clone(&caller.visitor).watch(chair.shutdown());
        run(&caller, chair, &statement, values.as_deref(), &mut Taker::Rows { outlet, is_begun: false }).await
    })
}

/// Runs a statement, for each row of values if there are some; returns how many rows it has changed.
pub(crate) async fn update(caller: &Caller, statement: &Statement, values: Option<&Values>) -> Result<i64, Status> {
    let chair = caller.seat(statement.transaction.as_deref()).await?;
    let mut count = 0;
    run(caller, chair, statement, values, &mut Taker::Changed(&mut count)).await?;
    Ok(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Runs a statement in a call's session, where it may be cancelled by its number, and commits it unless a transaction goes on.
async fn run(
    caller: &Caller,
    mut chair: Chair,
    statement: &Statement,
    values: Option<&Values>,
    taker: &mut Taker<'_>,
) -> Result<(), Status> {
    let running = caller.shared().run(&statement.number, caller.place.who(), &chair);
    let (ended, is_kept, seat) = (chair.shutdown(), chair.is_kept(), &mut *chair);
    let work = async {
        let once = values.is_none().then_some(None);
        for row in values.into_iter().flat_map(Values::rows).map(Some).chain(once) {
            running.check()?;
            let answer = asked(seat, &statement.query, row).await.map_err(|error| told(&error))?;
            taker.take(answer).await?;
            // Others have their turn, and whoever wants it to end.
            tokio::task::yield_now().await;
        }
        seat.commit().await.map_err(|error| told(&error))?;
        if !is_kept && seat.transaction_status() != Stands::Idle {
            return Err(unended());
        }
        taker.end().await
    };
    let done = Chair::until_ended(ended, work).await;
    // The next statement of the session is another one.
    drop(running);
    chair.leave(done).await
}

fn unended() -> Status {
    told(&AdapterError::with_hint(
        SqlState::ACTIVE_SQL_TRANSACTION,
        "the transaction that the statement has begun is rolled back: calls have sessions of their own",
        "Begin it by the action BeginTransaction.",
    ))
}

/// About how many bytes the values of a row have, whatever they are a part of.
fn bytes_of(row: &RecordBatch) -> usize {
    row.columns().iter().map(|column| column.to_data().get_slice_memory_size().unwrap_or_default()).sum()
}

/// Runs a statement with a row of values.
async fn asked<'s>(
    seat: &'s mut Seat,
    query: &str,
    row: Option<(&RecordBatch, usize)>,
) -> Result<Answer<'s>, AdapterError> {
    let statement = answer::Statement::Text(query.to_owned());
    let row = row.map(|(batch, row)| batch.slice(row, 1));
    let bytes = row.as_ref().map_or(0, bytes_of);
    let decode = move |session: &Session, types: &[PgType]| -> Result<Vec<Datum<'static>>, AdapterError> {
        let Some(row) = row else { return Ok(Vec::new()) };
        match row.num_columns() == types.len() {
            true => intake::values(session.encode_options(), &row, 0, types),
            // It is told by whoever knows how many there are to be.
            false => Ok(vec![Datum::Null; row.num_columns()]),
        }
    };
    Box::pin(seat.answer(statement, answer::Values { bytes, decode }, Follows::Others, BATCH_BYTES)).await
}

/// What becomes of answers.
enum Taker<'t> {
    /// Their rows are sent, and before the first their shape.
    Rows { outlet: Outlet, is_begun: bool },
    /// The rows that were changed are counted.
    Changed(&'t mut u64),
}

impl Taker<'_> {
    async fn take(&mut self, answer: Answer<'_>) -> Result<(), Status> {
        match self {
            Taker::Rows { outlet, is_begun } => match answer {
                Answer::Rows(mut rows) => send(&mut rows, is_begun, outlet).await,
                Answer::Done(_) | Answer::Empty => Ok(()),
            },
            Taker::Changed(count) => {
                **count += changed(answer).await.map_err(|error| told(&error))?;
                Ok(())
            }
        }
    }

    /// All is done and committed: of what has no rows that is told by a shape without columns, and not before.
    async fn end(&mut self) -> Result<(), Status> {
        match self {
            Taker::Rows { outlet, is_begun: false } => outlet.schema(&Schema::empty()).await,
            Taker::Rows { .. } | Taker::Changed(_) => Ok(()),
        }
    }
}

/// How many rows a statement has changed, once it is through.
async fn changed(answer: Answer<'_>) -> Result<u64, AdapterError> {
    let tag = match answer {
        Answer::Done(tag) => tag,
        Answer::Empty => return Ok(0),
        Answer::Rows(mut rows) => {
            if rows.is_live() {
                let message = "SUBSCRIBE has no end, and changes nothing";
                return Err(AdapterError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            while rows.next().await?.is_some() {}
            rows.tag()
        }
    };
    Ok(match tag {
        Tag::Counted("SELECT" | "FETCH" | "MOVE", _) | Tag::Plain(_) => 0,
        Tag::Counted(_, count) => count,
    })
}

/// Sends an answer's rows, and before the first their shape.
async fn send(rows: &mut Answering<'_>, is_begun: &mut bool, outlet: &mut Outlet) -> Result<(), Status> {
    let exchange = Exchange::of(&rows.desc().desc);
    let memory = Arc::clone(rows.session().message_memory());
    if !std::mem::replace(is_begun, true) {
        outlet.schema(exchange.schema()).await?;
    }
    while let Some(batch) = rows.next().await.map_err(|error| told(&error))? {
        // Until it was sent.
        let (message, _held) = messaged(&memory, &exchange, batch, outlet).await.map_err(|error| told(&error))?;
        outlet.send(message).await?;
        // Others have their turn.
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// A batch as a message.
async fn messaged(
    memory: &Arc<Share>,
    exchange: &Exchange,
    batch: RecordBatch,
    outlet: &mut Outlet,
) -> Result<(FlightData, Reservation), AdapterError> {
    let mut held = Reservation::empty(memory);
    // One row of more bytes than a batch has is a batch of its own.
    let bytes = row_bytes(&batch, 0);
    if bytes < LARGE_BATCH {
        return Ok((message(&exchange.batch(&batch)?, &mut outlet.context)?, held));
    }
    held.try_grow(bytes.saturating_mul(2))?;
    let exchange = exchange.clone();
    let made = elsewhere(move || message(&exchange.batch(&batch)?, &mut Default::default())).await?;
    Ok((made, held))
}

/// Sends rows that are there already.
pub(crate) async fn send_batches(mut outlet: Outlet, schema: &Schema, batches: Vec<RecordBatch>) -> Result<(), Status> {
    outlet.schema(schema).await?;
    for batch in batches {
        outlet.batch(&batch).await?;
    }
    Ok(())
}
