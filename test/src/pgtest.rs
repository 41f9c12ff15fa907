//! Scripts of wire messages with the messages that PostgreSQL answered (`pgtest/*.pt`).
//!
//! A block's input is one frontend message per line, sent in one write; its output is one line per backend message
//! ([`Message::render`]) up to as many ReadyForQuery as the input has `query` and `sync` lines. A block without
//! either ends with `until X`: read until a message with type byte X, or an error. ParameterStatus is left out.
//!
//! ```text
//! query "sql"                         parse "name" "sql" 23 25        describe S "name"
//! bind "portal" "stmt" pf=1 rf=0,1 "text" NULL x:0000002a             execute "portal" 10
//! close P "portal"   sync   flush     copydata "1\t2\n"   copydone   copyfail "reason"
//! raw Q x:00                          until D
//! ```

use std::path::PathBuf;

use anyhow::{Context, bail};

use crate::wire::{Wire, frontend};

/// The directory of the files.
pub fn dir() -> PathBuf {
    crate::manifest_dir().join("pgtest")
}

/// Sends the messages of a block and renders the answer.
pub fn run(wire: &mut Wire, input: &[String]) -> anyhow::Result<Vec<String>> {
    let mut bytes = Vec::new();
    let mut ready = 0;
    let mut until = None;
    for line in input {
        let words = words(line)?;
        match &words[0] {
            Word::Bare(word) if word == "until" => until = words[1].bare()?.bytes().next(),
            Word::Bare(word) => {
                ready += usize::from(word == "query" || word == "sync");
                bytes.extend(message(word, &words[1..]).with_context(|| line.clone())?);
            }
            Word::Value(_) => bail!("a line starts with the name of a message: {line}"),
        }
    }
    wire.send(&bytes)?;
    let mut lines = Vec::new();
    while ready > 0 || until.is_some() {
        let message = wire.receive()?;
        if message.tag == b'Z' {
            ready = ready.saturating_sub(1);
        }
        if message.tag != b'S' {
            lines.push(message.render());
        }
        let error = message.error();
        if error.as_ref().is_some_and(|error| error.severity == "FATAL") {
            break;
        }
        if until.is_some_and(|tag| tag == message.tag) || error.is_some() {
            until = None;
        }
    }
    Ok(lines)
}

/// A word of a line: bare, or a value.
#[derive(Debug)]
enum Word {
    Bare(String),
    Value(Vec<u8>),
}

impl Word {
    fn bare(&self) -> anyhow::Result<&str> {
        match self {
            Word::Bare(word) => Ok(word),
            Word::Value(_) => bail!("a bare word is expected"),
        }
    }

    fn text(&self) -> anyhow::Result<&str> {
        match self {
            Word::Bare(_) => bail!("a quoted word is expected"),
            Word::Value(bytes) => Ok(std::str::from_utf8(bytes)?),
        }
    }

    fn bytes(&self) -> anyhow::Result<&[u8]> {
        match self {
            Word::Bare(_) => bail!("a value is expected"),
            Word::Value(bytes) => Ok(bytes),
        }
    }
}

fn message(name: &str, words: &[Word]) -> anyhow::Result<Vec<u8>> {
    let text = |index: usize| words.get(index).context("a word is missing")?.text();
    let kind = || -> anyhow::Result<u8> {
        words.first().context("a word is missing")?.bare()?.bytes().next().context("S or P is missing")
    };
    Ok(match name {
        "query" => frontend::query(text(0)?),
        "parse" => {
            let oids: Result<Vec<u32>, _> =
                words[2..].iter().map(|word| Ok::<_, anyhow::Error>(word.bare()?.parse()?)).collect();
            frontend::parse(text(0)?, text(1)?, &oids?)
        }
        "bind" => bind(text(0)?, text(1)?, &words[2..])?,
        "describe" => frontend::describe(kind()?, text(1)?),
        "close" => frontend::close(kind()?, text(1)?),
        "execute" => frontend::execute(text(0)?, words.get(1).context("max_rows")?.bare()?.parse()?),
        "sync" => frontend::sync(),
        "flush" => frontend::flush(),
        "copydata" => frontend::copy_data(words.first().context("data")?.bytes()?),
        "copydone" => frontend::copy_done(),
        "copyfail" => frontend::copy_fail(text(0)?),
        "raw" => frontend::frame(kind()?, words.get(1).context("body")?.bytes()?),
        other => bail!("no message is called {other}"),
    })
}

fn bind(portal: &str, statement: &str, words: &[Word]) -> anyhow::Result<Vec<u8>> {
    let (mut formats, mut results) = (Vec::new(), Vec::new());
    let mut values = Vec::new();
    let codes = |list: &str| list.split(',').map(str::parse).collect::<Result<Vec<u16>, _>>();
    for word in words {
        match word {
            Word::Value(bytes) => values.push(Some(bytes.as_slice())),
            Word::Bare(word) if word == "NULL" => values.push(None),
            Word::Bare(word) => match word.split_once('=') {
                Some(("pf", list)) => formats = codes(list)?,
                Some(("rf", list)) => results = codes(list)?,
                _ => bail!("{word}: expected pf=, rf=, NULL or a value"),
            },
        }
    }
    Ok(frontend::bind(portal, statement, &formats, &values, &results))
}

fn words(line: &str) -> anyhow::Result<Vec<Word>> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (value, after) = unquote(quoted).with_context(|| format!("an open quote: {line}"))?;
            words.push(Word::Value(value));
            rest = after.trim_start();
            continue;
        }
        let end = rest.find(' ').unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        words.push(match word.strip_prefix("x:") {
            Some(hex) => Word::Value(unhex(hex)?),
            None => Word::Bare(word.to_owned()),
        });
        rest = after.trim_start();
    }
    if words.is_empty() {
        bail!("an empty line");
    }
    Ok(words)
}

/// Reads a quoted word without its first quote; returns its bytes and what follows.
fn unquote(text: &str) -> Option<(Vec<u8>, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value.into_bytes(), &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                't' => value.push('\t'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

fn unhex(hex: &str) -> anyhow::Result<Vec<u8>> {
    let digits = hex.as_bytes();
    if !digits.len().is_multiple_of(2) {
        bail!("an odd number of hex digits: {hex}");
    }
    let pair = |pair: &[u8]| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?);
    digits.chunks(2).map(pair).collect()
}
