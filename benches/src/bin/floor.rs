//! The floor: a Postgres server that answers every query with the same canned bytes.
//!
//! Why: it does what no server can avoid (accept, read, frame, write) and nothing else. What Glimpse costs above it is
//! what Glimpse spends on parsing, planning, time and data. It has the shape that measured best for small queries on few
//! cores: one single-threaded runtime per core, connections dealt round robin, all complete messages of a read answered by
//! one write.
//!
//! How: messages are framed by tag and length; their contents are not looked at. Each extended message gets its own canned
//! reply, so that clients with prepared statements and pipelines run on it too. `--shape` chooses the one row that it knows.

use std::net::{SocketAddr, TcpListener};

use anyhow::Result;
use benches::wire::message;
use clap::{Parser, ValueEnum};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;

/// A Postgres server that answers every query with canned bytes.
#[derive(Parser)]
struct Arguments {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:6970")]
    listen: SocketAddr,
    /// The table whose row is the answer.
    #[arg(long, default_value = "t")]
    shape: Shape,
    /// Runtimes; the number of cores when not given.
    #[arg(long)]
    threads: Option<usize>,
}

/// The rows that the floor can answer with.
#[derive(Clone, Copy, ValueEnum)]
enum Shape {
    /// `(id text, value int4)`: ('hello', 42).
    T,
    /// `(id int4, v text)`: (500000, 'v0500000-000').
    Kv,
}

/// Canned replies, one per kind of message.
struct Canned {
    startup: Vec<u8>,
    query: Vec<u8>,
    parse: Vec<u8>,
    bind: Vec<u8>,
    describe: Vec<u8>,
    execute: Vec<u8>,
    close: Vec<u8>,
    sync: Vec<u8>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    // The replies are made once and live as long as the process.
    let canned: &'static Canned = Box::leak(Box::new(Canned::new(arguments.shape)));
    let threads = arguments.threads.unwrap_or(std::thread::available_parallelism()?.get());
    let runtimes: Vec<_> = (0..threads).map(|_| spawn_runtime(canned)).collect();
    let listener = TcpListener::bind(arguments.listen)?;
    for runtime in runtimes.iter().cycle() {
        let (stream, _) = listener.accept()?;
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        runtime.send(stream)?;
    }
    Ok(())
}

fn spawn_runtime(canned: &'static Canned) -> UnboundedSender<std::net::TcpStream> {
    let (streams_tx, mut streams): (_, UnboundedReceiver<std::net::TcpStream>) = unbounded_channel();
    std::thread::spawn(move || -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        LocalSet::new().block_on(&runtime, async {
            while let Some(stream) = streams.recv().await {
                let stream = TcpStream::from_std(stream)?;
                // A client that misbehaves or leaves ends its own connection, without a word.
                tokio::task::spawn_local(async move {
                    let _ = serve(stream, canned).await;
                });
            }
            Ok(())
        })
    });
    streams_tx
}

/// One connection: startup, then a reply to each complete message; one write per read.
async fn serve(mut stream: TcpStream, canned: &Canned) -> Result<()> {
    let mut input = vec![0; 16 * 1024];
    let mut output = Vec::with_capacity(16 * 1024);
    let (mut end, mut started) = (0, false);
    loop {
        let read = stream.read(&mut input[end..]).await?;
        if read == 0 {
            return Ok(());
        }
        end += read;
        let mut start = 0;
        loop {
            // Startup packets have no tag.
            let head = usize::from(started);
            let received = &input[start..end];
            let Some(length) = received.get(head..head + 4) else {
                break;
            };
            let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize + head;
            if received.len() < length {
                break;
            }
            if started {
                if received[0] == b'X' {
                    return Ok(());
                }
                output.extend_from_slice(canned.reply(received[0]));
            } else if length == 8 {
                output.push(b'N');
            } else {
                started = true;
                output.extend_from_slice(&canned.startup);
            }
            start += length;
        }
        input.copy_within(start..end, 0);
        end -= start;
        if end == input.len() {
            input.resize(input.len() * 2, 0);
        }
        if !output.is_empty() {
            stream.write_all(&output).await?;
            output.clear();
        }
    }
}

impl Canned {
    fn new(shape: Shape) -> Self {
        const INT4: (u32, u16) = (23, 4);
        const TEXT: (u32, u16) = (25, u16::MAX);
        let (columns, fields) = match shape {
            Shape::T => ([("id", TEXT), ("value", INT4)], ["hello", "42"]),
            Shape::Kv => ([("id", INT4), ("v", TEXT)], ["500000", "v0500000-000"]),
        };
        let row_description = message_of(b'T', |out| row_description(out, &columns));
        let complete = message_of(b'C', |out| out.extend_from_slice(b"SELECT 1\0"));
        let execute = [message_of(b'D', |out| data_row(out, &fields)), complete].concat();
        let sync = message_of(b'Z', |out| out.push(b'I'));
        Self {
            startup: [startup(), sync.clone()].concat(),
            query: [row_description.clone(), execute.clone(), sync.clone()].concat(),
            parse: message_of(b'1', |_| ()),
            bind: message_of(b'2', |_| ()),
            describe: row_description,
            execute,
            close: message_of(b'3', |_| ()),
            sync,
        }
    }

    fn reply(&self, tag: u8) -> &[u8] {
        match tag {
            b'Q' => &self.query,
            b'P' => &self.parse,
            b'B' => &self.bind,
            b'D' => &self.describe,
            b'E' => &self.execute,
            b'C' => &self.close,
            b'S' => &self.sync,
            _ => &[],
        }
    }
}

fn message_of(tag: u8, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    message(&mut out, tag, body);
    out
}

/// AuthenticationOk, the parameters that drivers look for, a key that cancels nothing.
fn startup() -> Vec<u8> {
    let mut out = message_of(b'R', |out| out.extend_from_slice(&[0; 4]));
    let parameters = [
        ("server_version", "15.0"),
        ("server_encoding", "UTF8"),
        ("client_encoding", "UTF8"),
        ("DateStyle", "ISO, MDY"),
        ("integer_datetimes", "on"),
        ("standard_conforming_strings", "on"),
    ];
    for (name, value) in parameters {
        message(&mut out, b'S', |out| out.extend_from_slice(format!("{name}\0{value}\0").as_bytes()));
    }
    message(&mut out, b'K', |out| out.extend_from_slice(&[0; 8]));
    out
}

fn row_description(out: &mut Vec<u8>, columns: &[(&str, (u32, u16)); 2]) {
    out.extend_from_slice(&[0, 2]);
    for (name, (oid, size)) in columns {
        out.extend_from_slice(name.as_bytes());
        // The name ends; no table, no column number.
        out.extend_from_slice(&[0; 7]);
        out.extend_from_slice(&oid.to_be_bytes());
        out.extend_from_slice(&size.to_be_bytes());
        // No type modifier; text format.
        out.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0, 0]);
    }
}

fn data_row(out: &mut Vec<u8>, fields: &[&str; 2]) {
    out.extend_from_slice(&[0, 2]);
    for field in fields {
        let length = u32::try_from(field.len()).expect("the fields are short");
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(field.as_bytes());
    }
}
