//! What decodes the bytes of strangers, each as a function of bytes, for the fuzzers of `test/fuzz`.
//!
//! These are calls of what the connection calls, with what must hold for any bytes asserted; nothing here is used by a server.
//! A function returns when all is well, and panics when it is not.

use crate::auth;
use crate::codec::{Input, Next};
use crate::copy::binary::{BinaryReader, SIGNATURE};
use crate::message;
use crate::startup;
use futures::FutureExt;
use ore::memory::Share;
use pgrepr::copy::reader::{CopyError, CopyReader};
use pgrepr::copy::{CopyFormat, CopyOptions};
use std::borrow::Cow;

/// The largest request, and the largest row, in these tests.
const BYTES_MAX: usize = 4096;

/// Frames, and the bodies in them: a stream that arrives whole, and in pieces whose sizes its first byte decides.
pub fn frames(bytes: &[u8]) {
    let Some((&size, stream)) = bytes.split_first() else { return };
    let whole = messages(stream, stream.len().max(1));
    let pieces = messages(stream, usize::from(size).max(1));
    assert_eq!(whole, pieces, "pieces of {size} bytes differ from the whole");
}

/// The type and length of each message of a stream, or how it ended.
fn messages(stream: &[u8], piece_bytes: usize) -> Vec<Result<(u8, usize), String>> {
    let mut input = Input::new(BYTES_MAX, &Share::root(usize::MAX, None));
    let mut found = Vec::new();
    for mut piece in stream.chunks(piece_bytes) {
        while !piece.is_empty() {
            let read = input.fill(&mut piece).now_or_never().expect("memory does not wait");
            assert!(read.expect("memory does not fail") > 0, "nothing was read of a piece");
        }
        loop {
            match input.next() {
                Ok(Next::Message(tag)) => {
                    body(tag, input.body());
                    found.push(Ok((tag, input.body().len())));
                }
                Ok(Next::Large(tag)) => {
                    let mut whole = input.take_body();
                    let whole = whole.whole().expect("there is memory");
                    body(tag, &whole);
                    found.push(Ok((tag, whole.len())));
                }
                Ok(Next::Refused(..)) => unreachable!("there is memory"),
                Ok(Next::Skipped { tag, message_bytes }) => found.push(Ok((tag, message_bytes))),
                Ok(Next::None) => break,
                Err(error) => {
                    found.push(Err(error.to_string()));
                    return found;
                }
            }
        }
    }
    found
}

/// One message: its type and its body.
pub fn bodies(bytes: &[u8]) {
    if let Some((&tag, rest)) = bytes.split_first() {
        body(tag, rest);
    }
}

fn body(tag: u8, body: &[u8]) {
    match tag {
        b'P' => drop(message::parse(body)),
        b'B' => {
            if let Ok(bind) = message::bind(body) {
                let values = bind.params.as_slice().iter().flatten().map(|value| value.len()).sum::<usize>();
                assert!(values <= body.len(), "values are longer than the message that has them");
            }
        }
        b'E' => drop(message::execute(body)),
        b'D' | b'C' => drop(message::target(body)),
        b'Q' | b'f' => drop(message::string(body)),
        b'p' => drop(auth::initial_response(body)),
        b'd' => drop(pgrepr::utf8::text(body)),
        _ => drop(message::empty(body)),
    }
}

/// What is sent before there is a session.
pub fn packets(bytes: &[u8]) {
    drop(startup::packet(bytes));
}

/// COPY's text format; the first byte is the size of pieces.
pub fn copy_text(bytes: &[u8]) {
    let syntax = |header| CopyOptions { header, ..CopyOptions::new(CopyFormat::Text) };
    lines(bytes, syntax);
}

/// COPY's csv format; the first byte is the size of pieces.
pub fn copy_csv(bytes: &[u8]) {
    let escape = |odd| if odd { b'\\' } else { b'"' };
    let syntax = |odd| CopyOptions { header: odd, escape: escape(odd), ..CopyOptions::new(CopyFormat::Csv) };
    lines(bytes, syntax);
}

fn lines(bytes: &[u8], syntax: impl Fn(bool) -> CopyOptions) {
    let Some((&size, data)) = bytes.split_first() else { return };
    let syntax = syntax(size % 2 == 1);
    let read = |piece_bytes: usize| {
        let mut reader = CopyReader::new(syntax.clone(), BYTES_MAX);
        let mut rows = Vec::new();
        let mut take = |line: u64, fields: &[Option<Cow<'_, str>>]| {
            rows.push((line, fields.iter().map(|field| field.as_deref().map(str::to_owned)).collect::<Vec<_>>()));
            Ok::<(), CopyError>(())
        };
        let result = data.chunks(piece_bytes).try_for_each(|piece| reader.push(piece, &mut take));
        let result = result.and_then(|()| reader.finish(&mut take));
        (rows, result)
    };
    assert_eq!(read(data.len().max(1)), read(usize::from(size).max(1)), "pieces of {size} bytes differ from the whole");
}

/// COPY's binary format behind its signature; the first byte is the size of pieces.
pub fn copy_binary(bytes: &[u8]) {
    let Some((&size, data)) = bytes.split_first() else { return };
    // Half of the time, the signature is damaged along with the rest.
    let data = if size % 2 == 1 { data.to_vec() } else { [&SIGNATURE[..], data].concat() };
    let read = |piece_bytes: usize| {
        let mut reader = BinaryReader::new(2, BYTES_MAX);
        let mut rows = Vec::new();
        let mut take = |row: u64, fields: &[Option<&[u8]>]| {
            rows.push((row, fields.iter().map(|field| field.map(<[u8]>::to_vec)).collect::<Vec<_>>()));
            Ok::<(), CopyError>(())
        };
        let result = data.chunks(piece_bytes).try_for_each(|piece| reader.push(piece, &mut take));
        let result = result.and_then(|()| reader.finish());
        (rows, result)
    };
    assert_eq!(read(data.len().max(1)), read(usize::from(size).max(1)), "pieces of {size} bytes differ from the whole");
}
