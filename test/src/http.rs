//! HTTP as far as the tests need it: one GET per connection, and the values of metrics.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::Context;

/// GETs a path; returns the status line and the body.
pub fn get(addr: SocketAddr, path: &str) -> anyhow::Result<(String, String)> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("a head and a body")?;
    Ok((head.lines().next().unwrap_or_default().to_owned(), body.to_owned()))
}

/// The value of a metric of the server, by its name with its labels as they are printed.
pub fn metric(addr: SocketAddr, series: &str) -> anyhow::Result<f64> {
    let (_, body) = get(addr, "/metrics")?;
    let line = body.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    Ok(line.with_context(|| format!("no metric {series}"))?.parse()?)
}
