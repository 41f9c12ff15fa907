//! HTTP as far as the tests need it: a client that shows what came, also where an answer breaks off; and the values of metrics.
//!
//! Real clients are tested by `clients`; this one sends what they would not.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, bail, ensure};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection that is kept.
pub struct Http {
    stream: BufReader<TcpStream>,
}

/// An answer whose head came.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// What came of its body.
    pub body: Vec<u8>,
    /// Whether that is all of it.
    pub is_whole: bool,
}

impl Answer {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub fn json(&self) -> anyhow::Result<serde_json::Value> {
        serde_json::from_slice(&self.body).with_context(|| self.text())
    }
}

impl Http {
    /// Connects.
    pub fn connect(addr: SocketAddr) -> anyhow::Result<Http> {
        let stream = TcpStream::connect(addr)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Http { stream: BufReader::new(stream) })
    }

    /// Sends a request with these headers, beside Host and Content-Length unless they are among them.
    pub fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> anyhow::Result<()> {
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        for (name, value) in [("Host", "localhost"), ("Content-Length", &body.len().to_string())] {
            if !headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)) {
                head += &format!("{name}: {value}\r\n");
            }
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        let request = [head.as_bytes(), b"\r\n", body].concat();
        Ok(self.stream.get_mut().write_all(&request)?)
    }

    /// The head of the answer to what was sent.
    pub fn head(&mut self) -> anyhow::Result<Answer> {
        let status = self.line()?;
        let status = status.split(' ').nth(1).with_context(|| format!("no status: {status:?}"))?.parse()?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_lowercase(), value.trim().to_owned()));
        }
        Ok(Answer { status, headers, body: Vec::new(), is_whole: true })
    }

    /// The answer to what was sent.
    pub fn answer(&mut self) -> anyhow::Result<Answer> {
        let mut answer = self.head()?;
        answer.is_whole = match (answer.header("transfer-encoding"), answer.header("content-length")) {
            (Some("chunked"), _) => self.chunks(&mut answer.body).is_ok(),
            (None, Some(length)) => {
                let length = length.parse()?;
                (&mut self.stream).take(length).read_to_end(&mut answer.body)? as u64 == length
            }
            (coding, _) => bail!("a body of unknown length: {coding:?}"),
        };
        Ok(answer)
    }

    /// Sends a request and takes its answer.
    pub fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> anyhow::Result<Answer> {
        self.send(method, path, headers, body)?;
        self.answer()
    }

    /// Sends statements as JSON.
    pub fn sql(&mut self, request: &serde_json::Value) -> anyhow::Result<Answer> {
        let headers = [("Content-Type", "application/json")];
        self.ask("POST", "/api/sql", &headers, request.to_string().as_bytes())
    }

    /// The lines of a body without an end, as they come, of the answer to what was sent. Errors: an answer with another status than 200.
    pub fn lines(mut self) -> anyhow::Result<impl Iterator<Item = anyhow::Result<String>>> {
        let status = self.line()?;
        ensure!(status.contains(" 200 "), "{status}");
        while !self.line()?.is_empty() {}
        let mut pending = Vec::new();
        Ok(std::iter::from_fn(move || {
            loop {
                if let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = pending.drain(..=end).collect();
                    return Some(Ok(String::from_utf8_lossy(&line[..end]).into_owned()));
                }
                match self.chunk(&mut pending) {
                    Ok(true) => {}
                    Ok(false) => return None,
                    Err(error) => return Some(Err(error)),
                }
            }
        }))
    }

    /// Below it: to send what is no request, or to read slowly.
    pub fn stream(&mut self) -> &mut TcpStream {
        self.stream.get_mut()
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        ensure!(line.ends_with('\n'), "the connection ends");
        Ok(line.trim_end().to_owned())
    }

    fn chunks(&mut self, body: &mut Vec<u8>) -> anyhow::Result<()> {
        while self.chunk(body)? {}
        Ok(())
    }

    /// Takes a chunk of a body; whether there was one.
    fn chunk(&mut self, body: &mut Vec<u8>) -> anyhow::Result<bool> {
        let length = u64::from_str_radix(&self.line()?, 16)?;
        let read = (&mut self.stream).take(length).read_to_end(body)?;
        ensure!(read as u64 == length && self.line()?.is_empty(), "a chunk breaks off");
        Ok(length > 0)
    }
}

/// GETs a path; returns the status line and the body.
pub fn get(addr: SocketAddr, path: &str) -> anyhow::Result<(String, String)> {
    let answer = Http::connect(addr)?.ask("GET", path, &[("Connection", "close")], b"")?;
    Ok((answer.status.to_string(), answer.text()))
}

/// The value of a metric of the server, by its name with its labels as they are printed.
pub fn metric(addr: SocketAddr, series: &str) -> anyhow::Result<f64> {
    let (_, body) = get(addr, "/metrics")?;
    let line = body.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    Ok(line.with_context(|| format!("no metric {series}"))?.parse()?)
}
