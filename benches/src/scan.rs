//! All rows of a table, as Arrow by HTTP and by Flight, and as PostgreSQL's binary COPY. What comes is counted and its keys are added up, so that a
//! row that is missing or twice is found; nothing else is done with it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use arrow_flight::FlightDescriptor;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_ipc::reader::StreamReader;
use futures::TryStreamExt;
use tokio::runtime::Builder;

use crate::admin::Session;
use crate::connection::Endpoint;
use crate::procfs::status_bytes;
use crate::servers::Server;
use crate::wire;

/// The query.
const SCAN: &str = "SELECT a, b, c, d, e FROM scanned";

/// Rows that came, and the sum of their first column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Came {
    /// Rows.
    pub rows: u64,
    sum: i64,
}

impl Came {
    /// All rows of a table of so many.
    pub fn all(rows: u64) -> Came {
        let rows = rows.cast_signed();
        Came { rows: rows.cast_unsigned(), sum: rows * (rows + 1) / 2 }
    }

    fn batch(&mut self, batch: &RecordBatch) {
        self.rows += batch.num_rows() as u64;
        self.sum += batch.column(0).as_primitive::<Int64Type>().values().iter().sum::<i64>();
    }
}

/// Makes the table: five columns of numbers, times and texts.
pub fn make(endpoint: &Endpoint, rows: u64) -> Result<()> {
    let mut session = Session::connect(endpoint)?;
    session.execute("CREATE TABLE scanned (a int8 NOT NULL, b int4, c float8, d timestamp, e text)")?;
    session.execute(&format!(
        "INSERT INTO scanned SELECT i, (i % 1000)::int4, i / 7.0, timestamp '2024-01-01' + i * interval '1 second', 'row ' || i \
         FROM generate_series(1, {rows}) i"
    ))?;
    Ok(())
}

/// The most memory that a server has taken beyond what it had, while something was done.
pub fn growth<T>(server: &Server, done: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let pid = server.pid();
    // The peak begins anew.
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5")?;
    let before = status_bytes(pid, "VmRSS")? as f64;
    let done = done()?;
    Ok((done, status_bytes(pid, "VmHWM")? as f64 - before))
}

/// By HTTP.
pub fn by_http(server: SocketAddr) -> Result<(Came, Duration)> {
    let body = serde_json::json!({ "query": SCAN }).to_string();
    let start = Instant::now();
    let mut stream = TcpStream::connect(server)?;
    write!(
        stream,
        "POST /api/sql HTTP/1.1\r\nHost: {server}\r\nContent-Type: application/json\r\nAccept: application/vnd.apache.arrow.stream\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut reader = BufReader::with_capacity(1 << 20, stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    ensure!(line.starts_with("HTTP/1.1 200"), "{line}");
    while line.trim_end() != "" {
        line.clear();
        reader.read_line(&mut line)?;
    }
    let mut came = Came::default();
    let batches = StreamReader::try_new(Chunks { reader, left: 0, is_over: false }, None)?;
    for batch in batches {
        came.batch(&batch?);
    }
    Ok((came, start.elapsed()))
}

/// A body in chunks.
struct Chunks<R> {
    reader: R,
    left: usize,
    is_over: bool,
}

impl<R: BufRead> Read for Chunks<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let mut line = String::new();
        while self.left == 0 && !self.is_over {
            line.clear();
            self.reader.read_line(&mut line)?;
            if line.trim_end().is_empty() {
                continue;
            }
            self.left = usize::from_str_radix(line.trim_end(), 16).map_err(std::io::Error::other)?;
            self.is_over = self.left == 0;
        }
        let wanted = out.len().min(self.left);
        let read = self.reader.read(&mut out[..wanted])?;
        self.left -= read;
        Ok(read)
    }
}

/// By Flight.
pub fn by_flight(server: SocketAddr) -> Result<(Came, Duration)> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let start = Instant::now();
        let channel = tonic::transport::Endpoint::from_shared(format!("http://{server}"))?
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(1 << 20)
            .connect()
            .await?;
        let inner = FlightServiceClient::new(channel).max_decoding_message_size(usize::MAX);
        let mut client = FlightSqlServiceClient::new_from_inner(inner);
        let info = client.inner_mut().get_flight_info(FlightDescriptor::new_cmd(SCAN)).await?.into_inner();
        let ticket = info.endpoint.into_iter().next().and_then(|endpoint| endpoint.ticket).context("a ticket")?;
        let mut stream = client.do_get(ticket).await?;
        let mut came = Came::default();
        while let Some(batch) = stream.try_next().await? {
            came.batch(&batch);
        }
        Ok((came, start.elapsed()))
    })
}

/// By a binary COPY.
pub fn by_copy(endpoint: &Endpoint) -> Result<(Came, Duration)> {
    let mut out = Vec::new();
    wire::startup(&mut out, &endpoint.user, &endpoint.database);
    wire::query(&mut out, |text| text.extend_from_slice(format!("COPY ({SCAN}) TO STDOUT (FORMAT binary)").as_bytes()));
    let start = Instant::now();
    let mut stream = TcpStream::connect(endpoint.address)?;
    stream.write_all(&out)?;
    let mut reader = BufReader::with_capacity(1 << 20, stream);
    let (mut came, mut head, mut body) = (Came::default(), [0; 5], Vec::new());
    let mut is_first = true;
    loop {
        reader.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        body.resize(length - 4, 0);
        reader.read_exact(&mut body)?;
        match head[0] {
            b'd' => {
                // The first message has the signature before its row, or alone.
                let row = if std::mem::take(&mut is_first) { &body[19..] } else { &body[..] };
                // Two bytes of a count, four of a length; the last has no row.
                if let Some(key) = row.get(6..14) {
                    came.rows += 1;
                    came.sum += i64::from_be_bytes(key.try_into()?);
                }
            }
            b'C' => return Ok((came, start.elapsed())),
            b'E' => bail!("{}", String::from_utf8_lossy(&body)),
            _ => {}
        }
    }
}
