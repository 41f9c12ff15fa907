//! One HTTP GET over a plain socket: enough to ask a server for its profile.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// The body of `http://host:port/path`; an error unless the status is 200.
pub fn get(url: &str, timeout: Duration) -> Result<Vec<u8>> {
    let rest = url.strip_prefix("http://").with_context(|| format!("{url} is not an http:// address"))?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream = TcpStream::connect(host).with_context(|| format!("cannot connect to {host}"))?;
    stream.set_read_timeout(Some(timeout))?;
    // HTTP/1.0: the server neither chunks the body nor keeps the connection.
    write!(stream, "GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n")?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response).with_context(|| format!("no answer from {url}"))?;
    let end = response.windows(4).position(|window| window == b"\r\n\r\n").context("an answer without headers")?;
    let head = String::from_utf8_lossy(&response[..end]).into_owned();
    let status = head.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let body = response.split_off(end + 4);
    if status != "200" {
        bail!("{url} answered {status}: {}", String::from_utf8_lossy(&body).trim_end());
    }
    ensure!(!head.to_ascii_lowercase().contains("transfer-encoding"), "{url} answered in chunks");
    Ok(body)
}
