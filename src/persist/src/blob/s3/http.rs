//! As much HTTP/1.1 as a client of an object store needs: whole requests, whole answers, over TCP or TLS, on connections that are
//! kept.
//!
//! Written out because the libraries that do it bring features of shared dependencies with them, which would build most of
//! the workspace again, for a protocol of which we use a page.
//!
//! # Invariants
//! * A connection is kept only if its last answer was read to the end and did not say otherwise. One that was kept may have
//!   been closed meanwhile, so a request that fails on it is sent once more on a new one: requests are repeatable.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::tls;

/// Connections that are kept while nobody uses them.
const IDLE_MAX: usize = 8;
/// The most that the head of an answer may take.
const HEAD_BYTES_MAX: u64 = 64 << 10;
/// The most that is believed of an announced length.
const BODY_BYTES_MAX: u64 = 1 << 30;

/// Requests to one host.
pub(crate) struct Http {
    /// The name without a port.
    name: String,
    port: u16,
    tls: Option<Arc<ClientConfig>>,
    /// How long connecting may take, and each read and write.
    timeout: Duration,
    idle: Mutex<Vec<Connection>>,
}

/// A request.
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    /// Path and query, encoded.
    pub(crate) target: &'a str,
    /// All headers but the length of the body.
    pub(crate) headers: &'a [(&'static str, String)],
    pub(crate) body: &'a [u8],
}

/// An answer, read to the end.
#[derive(Debug, Default)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Names are in small letters.
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

type Connection = BufReader<Stream>;

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Http {
    /// Requests to `host`, a name with or without a port. Over TLS whoever shows a certificate that one in the PEM file
    /// `trusted` leads to is believed.
    pub(crate) fn new(host: &str, trusted: Option<&Path>, timeout: Duration) -> io::Result<Http> {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => {
                let port =
                    port.parse().map_err(|_| io::Error::new(ErrorKind::InvalidInput, "its port is no number"))?;
                (name, port)
            }
            _ => (host, if trusted.is_some() { 443 } else { 80 }),
        };
        let name = name.trim_matches(['[', ']']).to_owned();
        let tls = trusted.map(tls::config).transpose()?;
        Ok(Http { name, port, tls, timeout, idle: Mutex::default() })
    }

    /// Sends a request and reads the answer.
    pub(crate) fn send(&self, request: &Request<'_>) -> io::Result<Response> {
        let kept = self.idle.lock().pop();
        if let Some(connection) = kept {
            match self.exchange(connection, request) {
                Ok(response) => return Ok(response),
                // The others are no younger.
                Err(_) => self.idle.lock().clear(),
            }
        }
        self.exchange(BufReader::new(self.connect()?), request)
    }

    fn connect(&self) -> io::Result<Stream> {
        let mut failed = io::Error::new(ErrorKind::NotFound, "the name has no address");
        for address in (self.name.as_str(), self.port).to_socket_addrs()? {
            let stream = match TcpStream::connect_timeout(&address, self.timeout) {
                Ok(stream) => stream,
                Err(error) => {
                    failed = error;
                    continue;
                }
            };
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(self.timeout))?;
            stream.set_write_timeout(Some(self.timeout))?;
            let Some(config) = &self.tls else { return Ok(Stream::Plain(stream)) };
            let name = ServerName::try_from(self.name.clone()).map_err(invalid)?;
            let session = ClientConnection::new(Arc::clone(config), name).map_err(invalid)?;
            return Ok(Stream::Tls(Box::new(StreamOwned::new(session, stream))));
        }
        Err(failed)
    }

    fn exchange(&self, mut connection: Connection, request: &Request<'_>) -> io::Result<Response> {
        let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.target);
        for (name, value) in request.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", request.body.len()));
        let stream = connection.get_mut();
        stream.write_all(head.as_bytes())?;
        stream.write_all(request.body)?;
        stream.flush()?;
        let (response, is_reusable) = read_response(&mut connection, request.method)?;
        if is_reusable {
            let mut idle = self.idle.lock();
            if idle.len() < IDLE_MAX {
                idle.push(connection);
            }
        }
        Ok(response)
    }
}

impl Response {
    /// The value of a header, whose name is given in small letters.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

/// Reads an answer; also whether the connection can be used again.
fn read_response(connection: &mut impl BufRead, method: &str) -> io::Result<(Response, bool)> {
    loop {
        let (status, is_1_1, headers) = read_head(connection)?;
        // An interim answer: the answer follows.
        if (100..200).contains(&status) {
            continue;
        }
        let mut response = Response { status, headers, body: Vec::new() };
        let length = response.header("content-length").map(str::parse::<u64>).transpose().map_err(invalid)?;
        let is_chunked = response.header("transfer-encoding").is_some_and(|value| value.ends_with("chunked"));
        let keeps = match response.header("connection").map(str::to_ascii_lowercase).as_deref() {
            Some("close") => false,
            Some("keep-alive") => true,
            _ => is_1_1,
        };
        let has_body = method != "HEAD" && !matches!(status, 204 | 304);
        let is_delimited = match (has_body, is_chunked, length) {
            (false, ..) => true,
            (true, true, _) => {
                read_chunks(connection, &mut response.body)?;
                true
            }
            (true, false, Some(length)) => {
                read_exactly(connection, length, &mut response.body)?;
                true
            }
            (true, false, None) => {
                connection.take(BODY_BYTES_MAX).read_to_end(&mut response.body)?;
                false
            }
        };
        return Ok((response, keeps && is_delimited));
    }
}

/// Status, whether it is HTTP/1.1, headers.
fn read_head(connection: &mut impl BufRead) -> io::Result<(u16, bool, Vec<(String, String)>)> {
    let mut head = connection.take(HEAD_BYTES_MAX);
    let line = read_line(&mut head)?;
    let mut words = line.split(' ');
    let version = words.next().unwrap_or_default();
    let status = words.next().and_then(|word| word.parse().ok());
    let status = status.filter(|_| version.starts_with("HTTP/1.")).ok_or_else(|| invalid("it does not speak HTTP"))?;
    let mut headers = Vec::new();
    loop {
        let line = read_line(&mut head)?;
        if line.is_empty() {
            return Ok((status, version == "HTTP/1.1", headers));
        }
        let (name, value) = line.split_once(':').ok_or_else(|| invalid("a header without a value"))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

fn read_chunks(connection: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let line = read_line(&mut connection.take(HEAD_BYTES_MAX))?;
        let length = u64::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16).map_err(invalid)?;
        if length == 0 {
            // What is said after the last chunk ends as a head does.
            while !read_line(&mut connection.take(HEAD_BYTES_MAX))?.is_empty() {}
            return Ok(());
        }
        read_exactly(connection, length, body)?;
        read_line(&mut connection.take(HEAD_BYTES_MAX))?;
    }
}

fn read_exactly(connection: &mut impl BufRead, length: u64, body: &mut Vec<u8>) -> io::Result<()> {
    if length > BODY_BYTES_MAX {
        return Err(invalid("an answer is too long"));
    }
    let read = connection.take(length).read_to_end(body)?;
    if read as u64 == length { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
}

/// A line without its end.
fn read_line(connection: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    connection.read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    String::from_utf8(line).map_err(invalid)
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.write(buffer),
            Stream::Tls(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(stream) => stream.flush(),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &str, mut text: &str) -> io::Result<(u16, String, bool)> {
        let mut bytes = Vec::new();
        while let Some((line, rest)) = text.split_once('\n') {
            bytes.extend_from_slice(line.as_bytes());
            bytes.extend_from_slice(b"\r\n");
            text = rest;
        }
        bytes.extend_from_slice(text.as_bytes());
        let (response, is_reusable) = read_response(&mut bytes.as_slice(), method)?;
        Ok((response.status, String::from_utf8(response.body).expect("text"), is_reusable))
    }

    #[test]
    fn bodies_end_in_each_of_the_ways_there_are() {
        let cases = [
            ("GET", "HTTP/1.1 200 OK\nContent-Length: 3\n\nabcde", (200, "abc", true)),
            ("GET", "HTTP/1.1 200 OK\nContent-Length: 3\nConnection: close\n\nabc", (200, "abc", false)),
            ("GET", "HTTP/1.0 200 OK\nContent-Length: 0\n\n", (200, "", false)),
            ("GET", "HTTP/1.0 200 OK\nConnection: Keep-Alive\ncontent-length: 1\n\nx", (200, "x", true)),
            (
                "GET",
                "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n2;x=y\nab\nA\n0123456789\n0\nT: v\n\n",
                (200, "ab0123456789", true),
            ),
            ("GET", "HTTP/1.1 500 No\n\nuntil the end", (500, "until the end", false)),
            ("DELETE", "HTTP/1.1 204 No Content\n\n", (204, "", true)),
            ("HEAD", "HTTP/1.1 200 OK\nContent-Length: 30\n\n", (200, "", true)),
            ("PUT", "HTTP/1.1 100 Continue\n\nHTTP/1.1 200 OK\nContent-Length: 1\n\ny", (200, "y", true)),
        ];
        for (method, text, (status, body, is_reusable)) in cases {
            assert_eq!(read(method, text).expect(text), (status, body.to_owned(), is_reusable), "{text}");
        }
    }

    #[test]
    fn what_is_cut_short_or_no_http_is_an_error() {
        for text in [
            "",
            "HTTP/1.1 200 OK",
            "HTTP/1.1 200 OK\nContent-Length: 3\n\nab",
            "HTTP/1.1 200 OK\nContent-Length: x\n\n",
            "HTTP/1.1 200 OK\nContent-Length: 99999999999\n\nab",
            "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\nab",
            "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n2\nab\n",
            "SSH-2.0-OpenSSH_9.2\n",
            "HTTP/1.1 200 OK\nnonsense\n\n",
        ] {
            assert!(read("GET", text).is_err(), "{text}");
        }
    }

    #[test]
    fn hosts_have_ports() {
        let second = Duration::from_secs(1);
        for (host, expected) in
            [("a.b", ("a.b", 80)), ("h:9000", ("h", 9000)), ("[::1]", ("::1", 80)), ("[::1]:7", ("::1", 7))]
        {
            let http = Http::new(host, None, second).expect(host);
            assert_eq!((http.name.as_str(), http.port), expected);
        }
        assert!(Http::new("h:x", None, second).is_err());
    }
}
