//! A trial door: lines of text in, lines of JSON out.
//!
//! No server has it. It is there to show that a door needs nothing but the statement API (`adapter::seat`, `adapter::answer`), and to
//! fail where that is not so any more; and to be read before one builds a door.
//!
//! A line is a statement, with a tab and a JSON array of the values of its parameters behind it if it has some. What comes back, each in
//! a line: `{"session":[ID,SECRET]}` when the connection begins; then for each statement its rows as objects, its notices as
//! `{"notice":MESSAGE}`, and at last `{"done":TAG}` or `{"error":{…}}`. The line `\cancel ID SECRET` cancels what another session
//! runs.
//!
//! Deliberately absent: who may come in, encryption, limits; everybody is who it says it is.

use adapter::answer::{Answer, Answering, Follows, Statement, Values};
use adapter::client::Client;
use adapter::error::AdapterError;
use adapter::seat::Seat;
use adapter::session::Session;
use adapter::startup::StartupParams;
use arrow_json::LineDelimitedWriter;
use ore::task::spawn;
use repr::sqlstate::SqlState;
use repr::{Datum, PgType};
use serde_json::{Value, json};
use std::io;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, BufWriter};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};

/// Bytes of rows that are encoded and written at once.
const BATCH_BYTES_MAX: usize = 64 << 10;

/// Serves whoever connects, for ever.
///
/// # Cancellation
/// Connections go on when this is dropped.
pub async fn serve(listener: TcpListener, client: Client) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let client = client.clone();
                spawn("trial", async move {
                    if let Err(error) = connection(stream, client).await {
                        tracing::debug!(%error, "a connection has ended");
                    }
                })
                .detach();
            }
            Err(error) => tracing::warn!(%error, "a connection was not accepted"),
        }
    }
}

/// Serves one connection, from its first line to its last.
async fn connection(stream: TcpStream, client: Client) -> io::Result<()> {
    let startup = StartupParams {
        user: "materialize".to_owned(),
        database: None,
        internal: false,
        options: Vec::new(),
        claims: None,
        peer: stream.peer_addr().ok(),
        local: stream.local_addr().ok(),
        encryption: None,
    };
    let (lines, out) = stream.into_split();
    let (mut lines, mut out) = (BufReader::new(lines).lines(), BufWriter::new(out));
    let mut seat = match client.connect(startup) {
        Ok(session) => Seat::new(session),
        Err(error) => return say(&mut out, &told(&error)).await,
    };
    let ended = seat.shutdown();
    say(&mut out, &json!({ "session": seat.backend_key() })).await?;
    let served = tokio::select! {
        biased;
        () = ended.cancelled() => say(&mut out, &json!({ "error": { "sqlstate": "57P01", "message": "the session ends" } })).await,
        served = async {
            while let Some(line) = lines.next_line().await? {
                match line.strip_prefix("\\cancel ") {
                    Some(key) => cancel(&client, key),
                    None => statement(&mut seat, &line, &mut out).await?,
                }
            }
            Ok(())
        } => served,
    };
    seat.close().await;
    served
}

fn cancel(client: &Client, key: &str) {
    let mut numbers = key.split(' ').map(str::parse);
    if let (Some(Ok(id)), Some(Ok(secret))) = (numbers.next(), numbers.next()) {
        client.cancel(id, secret);
    }
}

/// Runs the statement of a line, and says what comes of it.
async fn statement(seat: &mut Seat, line: &str, out: &mut BufWriter<OwnedWriteHalf>) -> io::Result<()> {
    let (text, values) = line.split_once('\t').map_or((line, None), |(text, values)| (text, Some(values.to_owned())));
    let values = values.unwrap_or_else(|| "[]".to_owned());
    let (bytes, decode) = (values.len(), move |session: &Session, types: &[PgType]| params(session, types, &values));
    let (statement, values) = (Statement::Text(text.to_owned()), Values { bytes, decode });
    let ended = match seat.answer(statement, values, Follows::Nothing, BATCH_BYTES_MAX).await {
        Ok(Answer::Rows(mut rows)) => send(&mut rows, out).await?,
        Ok(Answer::Done(tag)) => Ok(tag.to_string()),
        Ok(Answer::Empty) => Ok(String::new()),
        Err(error) => Err(error),
    };
    for notice in seat.here().map(Session::take_notices).unwrap_or_default() {
        say(out, &json!({ "notice": notice.message })).await?;
    }
    match ended {
        Ok(tag) => say(out, &json!({ "done": tag })).await,
        Err(error) => say(out, &told(&error)).await,
    }
}

/// Sends rows as they come; the tag at the end.
async fn send(
    rows: &mut Answering<'_>,
    out: &mut BufWriter<OwnedWriteHalf>,
) -> io::Result<Result<String, AdapterError>> {
    loop {
        let batch = match rows.next().await {
            Ok(Some(batch)) => batch,
            Ok(None) => return Ok(Ok(rows.tag().to_string())),
            Err(error) => return Ok(Err(error)),
        };
        let mut lines = LineDelimitedWriter::new(Vec::new());
        if let Err(error) = lines.write(&batch).and_then(|()| lines.finish()) {
            return Ok(Err(AdapterError::new(SqlState::FEATURE_NOT_SUPPORTED, error.to_string())));
        }
        out.write_all(&lines.into_inner()).await?;
        out.flush().await?;
    }
}

/// Values that are given in JSON, as those of parameters of these types.
fn params(session: &Session, types: &[PgType], values: &str) -> Result<Vec<Datum<'static>>, AdapterError> {
    let malformed = |why: serde_json::Error| {
        AdapterError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("the values are no JSON array: {why}"))
    };
    let values: Vec<Value> = serde_json::from_str(values).map_err(malformed)?;
    if values.len() != types.len() {
        // It is told by whoever knows how many there are to be.
        return Ok(vec![Datum::Null; values.len()]);
    }
    let datum = |(value, ty): (&Value, &PgType)| match value {
        Value::Null => Ok(Datum::Null),
        Value::String(text) => session.decode_text(ty, text),
        other => session.decode_text(ty, &other.to_string()),
    };
    values.iter().zip(types).map(datum).collect()
}

fn told(error: &AdapterError) -> Value {
    json!({
        "error": {
            "sqlstate": error.sqlstate().code(),
            "message": error.to_string(),
            "detail": error.detail(),
            "hint": error.hint(),
            "position": error.position(),
        }
    })
}

async fn say(out: &mut BufWriter<OwnedWriteHalf>, what: &Value) -> io::Result<()> {
    out.write_all(format!("{what}\n").as_bytes()).await?;
    out.flush().await
}
