//! One client connection: buffers, framing, the end of a reply.
//!
//! Why not a driver crate: the client shares the machine with the server that it measures, so each query must cost it one
//! write, one read and no allocation.
//!
//! # Invariants
//! - `input[start..end]` holds what was received and not yet consumed.
//! - A frame handed out by [`Connection::next_frame`] stays in `input` until the next [`Connection::fill`].

use std::net::SocketAddr;
use std::ops::Range;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::{tls, wire};

/// Room for a reply; grows when a frame is larger.
const INPUT_BYTES: usize = 16 * 1024;

/// Where a server listens, and as whom to connect.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The address of its SQL port.
    pub address: SocketAddr,
    /// The role to connect as; the servers under test trust it.
    pub user: String,
    /// The database to connect to.
    pub database: String,
    /// Whether over TLS.
    pub tls: bool,
}

impl Endpoint {
    /// The same as a URL.
    pub fn url(&self) -> String {
        format!("postgres://{}@{}/{}", self.user, self.address, self.database)
    }
}

/// What a reply consisted of, up to ReadyForQuery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// DataRow messages.
    pub rows: u32,
    /// CommandComplete messages.
    pub completed: u32,
    /// The row counts of their tags, added up.
    pub affected: u64,
}

/// What bytes go through.
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connected session; dropping it closes the socket.
pub struct Connection {
    stream: Stream,
    input: Vec<u8>,
    start: usize,
    end: usize,
    /// Messages to send: append with [`wire`], then [`Connection::send`].
    pub output: Vec<u8>,
}

impl Connection {
    /// Connects and finishes the handshake, without a password.
    pub async fn connect(endpoint: &Endpoint) -> Result<Self> {
        let stream = TcpStream::connect(endpoint.address)
            .await
            .with_context(|| format!("cannot connect to {}", endpoint.address))?;
        stream.set_nodelay(true)?;
        let stream = match endpoint.tls {
            false => Stream::Plain(stream),
            true => Stream::Tls(Box::new(tls::connect(stream).await?)),
        };
        let mut connection =
            Self { stream, input: vec![0; INPUT_BYTES], start: 0, end: 0, output: Vec::with_capacity(INPUT_BYTES) };
        wire::startup(&mut connection.output, &endpoint.user, &endpoint.database);
        connection.send().await?;
        connection.reply(|_| Ok(())).await.context("during startup")?;
        Ok(connection)
    }

    /// Writes everything in `output`.
    pub async fn send(&mut self) -> Result<()> {
        self.stream.write(&self.output).await.context("the server closed the connection")?;
        self.output.clear();
        Ok(())
    }

    /// Reads up to ReadyForQuery and calls `on_row` with the body of each DataRow. An ErrorResponse is an error.
    pub async fn reply(&mut self, mut on_row: impl FnMut(&[u8]) -> Result<()>) -> Result<Reply> {
        let mut reply = Reply::default();
        loop {
            while let Some((tag, body)) = self.next_frame()? {
                match tag {
                    b'D' => {
                        reply.rows += 1;
                        on_row(&self.input[body])?;
                    }
                    b'C' => {
                        reply.completed += 1;
                        reply.affected += affected(&self.input[body]);
                    }
                    b'Z' => {
                        ensure!(self.start == self.end, "the server sent more than was asked for");
                        return Ok(reply);
                    }
                    b'E' => bail!("the server reported: {}", wire::error_text(&self.input[body])),
                    b'R' => ensure!(self.input[body] == [0; 4], "the server asks for a password"),
                    b'T' | b'1' | b'2' | b'3' | b'n' | b's' | b't' | b'S' | b'K' | b'N' | b'I' => (),
                    other => bail!("an unexpected message, {:?}", other as char),
                }
            }
            self.fill().await?;
        }
    }

    /// Begins to copy lines into a table.
    pub async fn begin_copy(&mut self, table: &str) -> Result<()> {
        let sql = format!("copy {table} from stdin");
        wire::query(&mut self.output, |out| out.extend_from_slice(sql.as_bytes()));
        self.send().await?;
        self.copy_in_response().await
    }

    /// Ends that.
    pub async fn end_copy(&mut self, table: &str) -> Result<()> {
        wire::copy_done(&mut self.output);
        self.send().await?;
        self.reply(|_| Ok(())).await.with_context(|| format!("copying into {table}"))?;
        Ok(())
    }

    /// Reads until CopyInResponse.
    pub async fn copy_in_response(&mut self) -> Result<()> {
        loop {
            match self.next_frame()? {
                Some((b'G', _)) => return Ok(()),
                Some((b'E', body)) => bail!("the server reported: {}", wire::error_text(&self.input[body])),
                Some((b'N', _)) => (),
                Some((other, _)) => bail!("{:?} in place of CopyInResponse", other as char),
                None => self.fill().await?,
            }
        }
    }

    /// Runs one simple query; its rows as text.
    pub async fn simple(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
        wire::query(&mut self.output, |out| out.extend_from_slice(sql.as_bytes()));
        self.send().await?;
        let mut rows = Vec::new();
        self.reply(|row| {
            rows.push(wire::text_columns(row)?);
            Ok(())
        })
        .await
        .with_context(|| format!("running {sql}"))?;
        Ok(rows)
    }

    /// The tag and the place of the body of the next complete frame.
    fn next_frame(&mut self) -> Result<Option<(u8, Range<usize>)>> {
        let received = &self.input[self.start..self.end];
        let &[tag, a, b, c, d, ..] = received else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        ensure!(length >= 4, "a frame of {length} bytes");
        if received.len() <= length {
            return Ok(None);
        }
        let body = self.start + 5..self.start + 1 + length;
        self.start = body.end;
        Ok(Some((tag, body)))
    }

    /// Reads once, after moving what is left to the front of the buffer.
    async fn fill(&mut self) -> Result<()> {
        self.input.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end == self.input.len() {
            self.input.resize(self.input.len() * 2, 0);
        }
        let read = self.stream.read(&mut self.input[self.end..]).await?;
        ensure!(read > 0, "the server closed the connection");
        self.end += read;
        Ok(())
    }
}

impl Stream {
    async fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Self::Plain(stream) => stream.write_all(bytes).await,
            Self::Tls(stream) => {
                stream.write_all(bytes).await?;
                stream.flush().await
            }
        }
    }

    async fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(room).await,
            Self::Tls(stream) => stream.read(room).await,
        }
    }
}

/// The number at the end of a CommandComplete tag, zero when there is none.
fn affected(tag: &[u8]) -> u64 {
    let mut scale = 1;
    let mut count = 0;
    for digit in tag.iter().rev().skip(1).take_while(|byte| byte.is_ascii_digit()) {
        count += u64::from(digit - b'0') * scale;
        scale *= 10;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::affected;

    #[test]
    fn tags_carry_counts() {
        assert_eq!(affected(b"INSERT 0 120\0"), 120);
        assert_eq!(affected(b"UPDATE 1\0"), 1);
        assert_eq!(affected(b"CREATE TABLE\0"), 0);
    }
}
