//! A blocking client that speaks raw wire bytes and shows every message.
//!
//! Client libraries hide what these tests are about: which messages come, in which order, and what happens after
//! bytes that no library sends. [`Wire`] sends what it is given; [`frontend`] builds well-formed messages;
//! [`message`] reads the server's.

pub mod frontend;
pub mod message;

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, bail};
use rustls::ClientConnection;

pub use message::Message;

/// A read that gets nothing for this long fails the test.
const READ_MAX: Duration = Duration::from_secs(300);

/// One connection.
#[derive(Debug)]
pub struct Wire {
    stream: TcpStream,
    /// What encrypts, after an upgrade.
    tls: Option<ClientConnection>,
    inbox: Vec<u8>,
    /// The server's settings, as last reported.
    pub parameters: BTreeMap<String, String>,
    /// Process id and secret for a CancelRequest.
    pub cancel_key: Option<[u8; 8]>,
    /// What the last ReadyForQuery said.
    status: u8,
}

impl Wire {
    /// Opens a socket and says nothing.
    pub fn connect(addr: SocketAddr) -> anyhow::Result<Wire> {
        let stream = TcpStream::connect(addr).context("connect")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_MAX))?;
        let (inbox, parameters) = (Vec::new(), BTreeMap::new());
        Ok(Wire { stream, tls: None, inbox, parameters, cancel_key: None, status: b'I' })
    }

    /// Does a TLS handshake; everything from here on is encrypted.
    pub fn upgrade(&mut self, mut tls: ClientConnection) -> anyhow::Result<()> {
        while tls.is_handshaking() {
            tls.complete_io(&mut self.stream).context("the TLS handshake")?;
        }
        self.tls = Some(tls);
        Ok(())
    }

    /// The certificate that the server showed, after an upgrade.
    pub fn server_certificate(&self) -> Option<&[u8]> {
        Some(self.tls.as_ref()?.peer_certificates()?.first()?.as_ref())
    }

    /// Opens a session and reads up to the first ReadyForQuery.
    pub fn start(addr: SocketAddr, user: &str, database: &str) -> anyhow::Result<Wire> {
        let mut wire = Wire::connect(addr)?;
        wire.send(&frontend::startup(&[("user", user), ("database", database)]))?;
        wire.finish_startup()?;
        Ok(wire)
    }

    /// Reads the answer to a startup message.
    pub fn finish_startup(&mut self) -> anyhow::Result<Vec<Message>> {
        let messages = self.until_ready()?;
        for message in &messages {
            match message.tag {
                b'S' => {
                    let mut parts = message.body.split(|&byte| byte == 0);
                    let mut text = || String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
                    let (name, value) = (text(), text());
                    self.parameters.insert(name, value);
                }
                b'K' => self.cancel_key = message.body.as_slice().try_into().ok(),
                _ => {}
            }
        }
        match messages.iter().find_map(Message::error) {
            Some(error) => bail!("startup refused: {error}"),
            None => Ok(messages),
        }
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        match &mut self.tls {
            None => self.stream.write_all(bytes),
            Some(tls) => {
                let mut stream = rustls::Stream::new(tls, &mut self.stream);
                stream.write_all(bytes).and_then(|()| stream.flush())
            }
        }
        .context("send")
    }

    /// Reads `count` bytes that are not framed: the answer to SSLRequest.
    pub fn receive_bytes(&mut self, count: usize) -> anyhow::Result<Vec<u8>> {
        self.fill(count)?;
        Ok(self.inbox.drain(..count).collect())
    }

    /// Reads one message.
    pub fn receive(&mut self) -> anyhow::Result<Message> {
        self.fill(5)?;
        let tag = self.inbox[0];
        let length = u32::from_be_bytes(self.inbox[1..5].try_into().expect("four bytes"));
        let end = 1 + usize::try_from(length)?;
        if length < 4 {
            bail!("the server sent a message of length {length}");
        }
        self.fill(end)?;
        let body = self.inbox[5..end].to_vec();
        self.inbox.drain(..end);
        Ok(Message { tag, body })
    }

    /// Reads up to and with the next ReadyForQuery, or to a FATAL error and the end of the stream.
    pub fn until_ready(&mut self) -> anyhow::Result<Vec<Message>> {
        let mut messages = Vec::new();
        loop {
            let message = self.receive()?;
            if message.tag == b'Z' {
                self.status = message.body.first().copied().unwrap_or(b'I');
            }
            let last = message.tag == b'Z' || message.error().is_some_and(|error| error.severity == "FATAL");
            messages.push(message);
            if last {
                return Ok(messages);
            }
        }
    }

    /// Whether the session was outside a transaction when it last said that it is ready.
    pub fn is_idle(&self) -> bool {
        self.status == b'I'
    }

    /// Runs a simple query.
    pub fn query(&mut self, sql: &str) -> anyhow::Result<Vec<Message>> {
        self.send(&frontend::query(sql))?;
        self.until_ready()
    }

    /// Runs a simple query that must succeed, and returns its rows as text.
    pub fn rows(&mut self, sql: &str) -> anyhow::Result<Vec<Vec<Option<String>>>> {
        let messages = self.query(sql)?;
        if let Some(error) = messages.iter().find_map(Message::error) {
            bail!("{sql}: {error}");
        }
        Ok(messages.iter().filter(|message| message.tag == b'D').map(Message::row_text).collect())
    }

    /// Runs a simple query that must succeed.
    pub fn execute(&mut self, sql: &str) -> anyhow::Result<()> {
        self.rows(sql).map(drop)
    }

    /// Runs a simple query and returns the SQLSTATE of its first error.
    pub fn sqlstate(&mut self, sql: &str) -> anyhow::Result<Option<String>> {
        Ok(self.query(sql)?.iter().find_map(Message::error).map(|error| error.code))
    }

    /// Waits for the server to close the connection, and returns what it said before.
    pub fn until_closed(&mut self) -> anyhow::Result<Vec<Message>> {
        let mut messages = Vec::new();
        loop {
            match self.receive() {
                Ok(message) => messages.push(message),
                Err(error) => match error.downcast_ref::<Closed>() {
                    Some(_) => return Ok(messages),
                    None => return Err(error),
                },
            }
        }
    }

    /// Whether the server has closed the connection, which a read found out.
    pub fn is_closed(&mut self) -> bool {
        self.fill(self.inbox.len() + 1).is_err_and(|error| error.is::<Closed>())
    }

    /// Ends the writing half, as a client that dies does.
    pub fn shutdown_write(&self) -> anyhow::Result<()> {
        Ok(self.stream.shutdown(std::net::Shutdown::Write)?)
    }

    /// A second handle to the socket, for a thread that writes while this one reads.
    pub fn try_clone_stream(&self) -> anyhow::Result<TcpStream> {
        Ok(self.stream.try_clone()?)
    }

    fn fill(&mut self, count: usize) -> anyhow::Result<()> {
        let mut chunk = [0; 64 * 1024];
        while self.inbox.len() < count {
            let read = match &mut self.tls {
                None => self.stream.read(&mut chunk),
                Some(tls) => rustls::Stream::new(tls, &mut self.stream).read(&mut chunk),
            };
            let read = match read {
                Ok(read) => read,
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof) => 0,
                Err(error) => return Err(error).context("read"),
            };
            if read == 0 {
                return Err(Closed.into());
            }
            self.inbox.extend_from_slice(&chunk[..read]);
        }
        Ok(())
    }
}

/// The server closed the connection.
#[derive(Debug)]
pub struct Closed;

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the server closed the connection")
    }
}

impl std::error::Error for Closed {}
