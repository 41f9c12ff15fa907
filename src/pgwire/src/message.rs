//! Frontend messages, decoded in place: what a client said, borrowed from the bytes it said it in.
//!
//! `codec` finds where a message starts and ends; this file reads its body. Every length and count is checked against
//! what is left of the body before it is believed, and a body must be used up exactly. Nothing is allocated for a
//! message with at most [`FEW`] parameters.
//!
//! Two kinds of failure part here. A body that contradicts itself is [`DecodeError::Malformed`]: the peer does not
//! speak the protocol, and its connection ends. A string that is not UTF-8 is [`DecodeError::Encoding`]: the frame is
//! sound, so only the statement fails.
//!
//! # Invariants
//! - No input makes decoding panic, and none allocates more than the body's own length warrants.

use pgrepr::utf8::{InvalidText, text};

/// Messages with no more parameters than this are decoded without the heap.
pub(crate) const FEW: usize = 16;

/// Why a message cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are not a message of their type.
    #[error("{0}")]
    Malformed(&'static str),
    /// A string of the message is not UTF-8.
    #[error(transparent)]
    Encoding(#[from] InvalidText),
}

/// What Describe and Close are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Statement,
    Portal,
}

/// A Parse message.
#[derive(Debug)]
pub(crate) struct Parse<'a> {
    pub(crate) name: &'a str,
    pub(crate) sql: &'a str,
    pub(crate) param_oids: Few<u32>,
}

/// A Bind message.
#[derive(Debug)]
pub(crate) struct Bind<'a> {
    pub(crate) portal: &'a str,
    pub(crate) statement: &'a str,
    pub(crate) param_formats: Codes<'a>,
    pub(crate) params: Few<Option<&'a [u8]>>,
    pub(crate) result_formats: Codes<'a>,
}

/// A list of format codes, as they came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Codes<'a>(&'a [[u8; 2]]);

impl<'a> Codes<'a> {
    /// The codes in order.
    pub(crate) fn iter(self) -> impl ExactSizeIterator<Item = i16> + use<'a> {
        self.0.iter().map(|code| i16::from_be_bytes(*code))
    }
}

/// An Execute message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Execute<'a> {
    pub(crate) portal: &'a str,
    /// `None` for all rows: the protocol's zero, and, as Postgres reads it, anything negative.
    pub(crate) rows_max: Option<usize>,
}

/// Reads a message that is one string: Query, CopyFail.
pub(crate) fn string(body: &[u8]) -> Result<&str, DecodeError> {
    let mut reader = Reader(body);
    let text = reader.string()?;
    reader.end()?;
    Ok(text)
}

/// Checks that a message has no body: Sync, Flush, CopyDone, Terminate.
pub(crate) fn empty(body: &[u8]) -> Result<(), DecodeError> {
    Reader(body).end()
}

/// Reads the body of a Parse message.
pub(crate) fn parse(body: &[u8]) -> Result<Parse<'_>, DecodeError> {
    let mut reader = Reader(body);
    let name = reader.string()?;
    let sql = reader.string()?;
    let count = reader.count()?;
    let mut param_oids = Few::new(0);
    for _ in 0..count {
        param_oids.push(reader.u32()?);
    }
    reader.end()?;
    Ok(Parse { name, sql, param_oids })
}

/// Reads the body of a Bind message.
#[inline]
pub(crate) fn bind(body: &[u8]) -> Result<Bind<'_>, DecodeError> {
    let mut reader = Reader(body);
    let portal = reader.string()?;
    let statement = reader.string()?;
    let param_formats = reader.codes()?;
    let count = reader.count()?;
    let mut params = Few::new(None);
    for _ in 0..count {
        params.push(reader.value()?);
    }
    let result_formats = reader.codes()?;
    reader.end()?;
    Ok(Bind { portal, statement, param_formats, params, result_formats })
}

/// Reads the body of an Execute message.
pub(crate) fn execute(body: &[u8]) -> Result<Execute<'_>, DecodeError> {
    let mut reader = Reader(body);
    let portal = reader.string()?;
    let rows_max = reader.i32()?;
    reader.end()?;
    Ok(Execute { portal, rows_max: usize::try_from(rows_max).ok().filter(|&rows| rows != 0) })
}

/// Reads the body of a Describe or Close message.
pub(crate) fn target(body: &[u8]) -> Result<(Target, &str), DecodeError> {
    let mut reader = Reader(body);
    let target = match reader.u8()? {
        b'S' => Target::Statement,
        b'P' => Target::Portal,
        _ => return Err(DecodeError::Malformed("invalid object subtype in message")),
    };
    let name = reader.string()?;
    reader.end()?;
    Ok((target, name))
}

/// A list that stays off the heap while it is short.
#[derive(Debug)]
pub(crate) struct Few<T: Copy> {
    inline: [T; FEW],
    inline_count: usize,
    /// Holds all elements, once there are more than fit inline.
    heap: Vec<T>,
}

impl<T: Copy> Few<T> {
    fn new(filler: T) -> Few<T> {
        Few { inline: [filler; FEW], inline_count: 0, heap: Vec::new() }
    }

    fn push(&mut self, value: T) {
        if self.heap.is_empty() && self.inline_count < FEW {
            self.inline[self.inline_count] = value;
            self.inline_count += 1;
            return;
        }
        if self.heap.is_empty() {
            self.heap.extend_from_slice(&self.inline);
        }
        self.heap.push(value);
    }

    /// The elements in order.
    pub(crate) fn as_slice(&self) -> &[T] {
        if self.heap.is_empty() { &self.inline[..self.inline_count] } else { &self.heap }
    }
}

/// The rest of a body.
#[derive(Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

const SHORT: DecodeError = DecodeError::Malformed("insufficient data left in message");

impl<'a> Reader<'a> {
    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub(crate) fn i32(&mut self) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// A count of things that follow; unsigned, so that 65 535 parameters fit.
    fn count(&mut self) -> Result<usize, DecodeError> {
        Ok(usize::from(u16::from_be_bytes(self.array()?)))
    }

    /// A counted list of format codes.
    fn codes(&mut self) -> Result<Codes<'a>, DecodeError> {
        let count = self.count()?;
        Ok(Codes(self.bytes(2 * count)?.as_chunks().0))
    }

    /// A value with its length in front; a length of -1 means NULL, and no other may be negative.
    fn value(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        match self.i32()? {
            -1 => Ok(None),
            length => {
                let length =
                    usize::try_from(length).map_err(|_| DecodeError::Malformed("a parameter has a negative length"))?;
                self.bytes(length).map(Some)
            }
        }
    }

    /// A string that ends with NUL.
    pub(crate) fn string(&mut self) -> Result<&'a str, DecodeError> {
        let end = memchr::memchr(0, self.0).ok_or(DecodeError::Malformed("invalid string in message"))?;
        let bytes = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Ok(text(bytes)?)
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(SHORT)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(crate) fn end(&self) -> Result<(), DecodeError> {
        if self.0.is_empty() { Ok(()) } else { Err(DecodeError::Malformed("invalid message format")) }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (bytes, rest) = self.0.split_first_chunk::<N>().ok_or(SHORT)?;
        self.0 = rest;
        Ok(*bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::{DecodeError, Execute, FEW, InvalidText, Target, bind, empty, execute, parse, string, target, text};
    use proptest::prelude::{any, prop, proptest};

    fn bind_body(formats: &[i16], params: &[Option<&[u8]>], results: &[i16]) -> Vec<u8> {
        let count = |n: usize| u16::try_from(n).expect("few").to_be_bytes();
        let mut body = b"portal\0statement\0".to_vec();
        body.extend(count(formats.len()));
        body.extend(formats.iter().flat_map(|code| code.to_be_bytes()));
        body.extend(count(params.len()));
        for param in params {
            match param {
                Some(bytes) => {
                    body.extend(i32::try_from(bytes.len()).expect("short").to_be_bytes());
                    body.extend_from_slice(bytes);
                }
                None => body.extend((-1_i32).to_be_bytes()),
            }
        }
        body.extend(count(results.len()));
        body.extend(results.iter().flat_map(|code| code.to_be_bytes()));
        body
    }

    #[test]
    fn a_query_is_one_string_and_nothing_else() {
        assert_eq!(string(b"select 1\0"), Ok("select 1"));
        assert_eq!(string(b"select 1"), Err(DecodeError::Malformed("invalid string in message")));
        assert_eq!(string(b"select\0 1\0"), Err(DecodeError::Malformed("invalid message format")));
        assert_eq!(empty(b""), Ok(()));
        assert!(empty(b"x").is_err());
    }

    #[test]
    fn bad_utf8_is_the_statements_fault() {
        let error = string(b"select '\xe4\xbd'\0").expect_err("not UTF-8");
        assert_eq!(error.to_string(), "invalid byte sequence for encoding \"UTF8\": 0xe4 0xbd 0x27");
        assert_eq!(text(b"a\0b").expect_err("NUL").to_string(), "invalid byte sequence for encoding \"UTF8\": 0x00");
        assert_eq!(text(b"\xff").expect_err("not UTF-8"), InvalidText(vec![0xFF]));
    }

    #[test]
    fn parse_reads_types() {
        let message = parse(b"s\0select $1\0\x00\x02\x00\x00\x00\x17\x00\x00\x00\x00").expect("well-formed");
        assert_eq!((message.name, message.sql, message.param_oids.as_slice()), ("s", "select $1", &[23, 0][..]));
        assert!(parse(b"s\0select $1\0\x00\x02\x00\x00\x00\x17").is_err());
    }

    #[test]
    fn bind_reads_parameters_of_any_number() {
        for count in [0, 1, FEW, FEW + 1, 65_535] {
            let params = vec![Some(&b"ab"[..]); count];
            let body = bind_body(&[1], &params, &[0, 1]);
            let message = bind(&body).expect("well-formed");
            assert_eq!((message.portal, message.statement), ("portal", "statement"));
            assert_eq!(message.params.as_slice(), params.as_slice());
            assert!(message.param_formats.iter().eq([1]));
            assert!(message.result_formats.iter().eq([0, 1]));
        }
    }

    #[test]
    fn a_negative_length_other_than_null_is_refused() {
        let mut body = bind_body(&[], &[None], &[]);
        assert_eq!(bind(&body).expect("NULL is fine").params.as_slice(), [None]);
        let at = body.len() - 6;
        body[at..at + 4].copy_from_slice(&(-2_i32).to_be_bytes());
        assert_eq!(bind(&body).expect_err("negative"), DecodeError::Malformed("a parameter has a negative length"));
        body[at..at + 4].copy_from_slice(&i32::MAX.to_be_bytes());
        assert!(bind(&body).is_err());
    }

    #[test]
    fn no_rows_max_means_all() {
        let all = |bytes: [u8; 5]| execute(&bytes).expect("well-formed").rows_max;
        assert_eq!(all([0, 0, 0, 0, 0]), None);
        assert_eq!(all([0, 0xFF, 0xFF, 0xFF, 0xFF]), None);
        assert_eq!(all([0, 0x80, 0, 0, 0]), None);
        assert_eq!(execute(b"c\0\0\0\0\x05"), Ok(Execute { portal: "c", rows_max: Some(5) }));
    }

    #[test]
    fn targets_are_statements_or_portals() {
        assert_eq!(target(b"Ss\0"), Ok((Target::Statement, "s")));
        assert_eq!(target(b"P\0"), Ok((Target::Portal, "")));
        assert!(target(b"X\0").is_err());
        assert!(target(b"").is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_decoding_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (string(&body), empty(&body), parse(&body), execute(&body), target(&body), text(&body));
            let _ = bind(&body);
        }

        #[test]
        fn damage_anywhere_is_survived(at in 0_usize..60, byte in any::<u8>(), cut in 0_usize..60) {
            let mut body = bind_body(&[0, 1], &[Some(b"12"), None, Some(b"")], &[1]);
            let last = body.len() - 1;
            body[at.min(last)] = byte;
            body.truncate(body.len() - cut.min(last));
            let _ = bind(&body);
        }
    }
}
