//! COPY's binary format: a signature, rows of fields behind their lengths, and an end marker.
//!
//! # Invariants
//! - How the data is cut into pieces changes nothing about the rows or the errors.

use pgrepr::copy::reader::CopyError;
use repr::sqlstate::SqlState;

/// What the data begins with: PostgreSQL's mark, flags of which none is set, and no extension.
pub(crate) const SIGNATURE: &[u8; 19] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// What it ends with: where a row would say how many fields it has.
pub(crate) const END: i16 = -1;

/// The part of [`SIGNATURE`] that never differs.
const MARK_BYTES: usize = 11;
/// Flags that a reader must know to go on; those below are for information.
const CRITICAL_FLAGS: u32 = 0xffff_0000;

/// Takes binary COPY data apart: bytes in pieces of any size, rows of fields out.
#[derive(Debug)]
pub(crate) struct BinaryReader {
    row_bytes_max: usize,
    column_count: usize,
    pending: Vec<u8>,
    state: State,
    /// Rows seen so far.
    row: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the signature.
    Start,
    /// This many bytes of an extension are to be skipped.
    Extension(usize),
    Rows,
    /// The end marker was seen.
    Done,
}

impl BinaryReader {
    /// A reader at the start of a stream of rows with so many columns; no row may be longer than `row_bytes_max`.
    pub(crate) fn new(column_count: usize, row_bytes_max: usize) -> BinaryReader {
        BinaryReader { row_bytes_max, column_count, pending: Vec::new(), state: State::Start, row: 0 }
    }

    /// Takes a piece of the stream and hands on the rows that it completes, each with its number.
    pub(crate) fn push<E: From<CopyError>>(
        &mut self,
        piece: &[u8],
        row: &mut impl FnMut(u64, &[Option<&[u8]>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut bytes = std::mem::take(&mut self.pending);
        bytes.extend_from_slice(piece);
        let mut rest = bytes.as_slice();
        while self.step(&mut rest, row)? {}
        if rest.len() > self.row_bytes_max {
            let message = format!("a row of COPY data is longer than {} bytes", self.row_bytes_max);
            return Err(self.error(SqlState::PROGRAM_LIMIT_EXCEEDED, message).into());
        }
        self.pending = rest.to_vec();
        Ok(())
    }

    /// Ends the stream, which may lack the end marker.
    pub(crate) fn finish(&self) -> Result<(), CopyError> {
        match self.state {
            State::Start => Err(self.bad_format("COPY file signature not recognized")),
            // As PostgreSQL has it, what cannot say how many fields it has is no row.
            State::Rows | State::Done if self.pending.len() < 2 => Ok(()),
            _ => Err(self.bad_format("unexpected EOF in COPY data")),
        }
    }

    /// Takes the next part off the bytes. Whether there may be another.
    fn step<E: From<CopyError>>(
        &mut self,
        rest: &mut &[u8],
        row: &mut impl FnMut(u64, &[Option<&[u8]>]) -> Result<(), E>,
    ) -> Result<bool, E> {
        match self.state {
            State::Start => {
                let known = rest.len().min(MARK_BYTES);
                if rest[..known] != SIGNATURE[..known] {
                    return Err(self.bad_format("COPY file signature not recognized").into());
                }
                let Some(header) = rest.split_off(..SIGNATURE.len()) else { return Ok(false) };
                let flags = u32::from_be_bytes([header[11], header[12], header[13], header[14]]);
                let extension = i32::from_be_bytes([header[15], header[16], header[17], header[18]]);
                if flags & CRITICAL_FLAGS != 0 {
                    return Err(self.bad_format("unrecognized critical flags in COPY file header").into());
                }
                let Ok(extension) = usize::try_from(extension) else {
                    return Err(self.bad_format("invalid COPY file header (missing length)").into());
                };
                self.state = State::Extension(extension);
                Ok(true)
            }
            State::Extension(bytes) => {
                let skipped = bytes.min(rest.len());
                *rest = &rest[skipped..];
                let left = bytes - skipped;
                self.state = if left == 0 { State::Rows } else { State::Extension(left) };
                Ok(left == 0)
            }
            State::Rows => {
                let Some((&count, after)) = rest.split_first_chunk() else { return Ok(false) };
                let count = i16::from_be_bytes(count);
                if count == END {
                    (*rest, self.state) = (after, State::Done);
                    return Ok(true);
                }
                if usize::try_from(count) != Ok(self.column_count) {
                    let message = format!("row field count is {count}, expected {}", self.column_count);
                    return Err(self.error(SqlState::BAD_COPY_FILE_FORMAT, message).into());
                }
                let Some((fields, after)) = self.fields(after)? else { return Ok(false) };
                self.row += 1;
                *rest = after;
                row(self.row, &fields)?;
                Ok(true)
            }
            State::Done if rest.is_empty() => Ok(false),
            State::Done => Err(self.bad_format("received copy data after EOF marker").into()),
        }
    }

    /// The fields of a row, and what follows it; `None` if it is not all there yet.
    #[allow(clippy::type_complexity, reason = "fields and the rest")]
    fn fields<'b>(&self, bytes: &'b [u8]) -> Result<Option<(Vec<Option<&'b [u8]>>, &'b [u8])>, CopyError> {
        let (mut fields, mut rest) = (Vec::with_capacity(self.column_count), bytes);
        for _ in 0..self.column_count {
            let Some((&length, after)) = rest.split_first_chunk() else { return Ok(None) };
            let length = i32::from_be_bytes(length);
            rest = after;
            fields.push(match usize::try_from(length) {
                Ok(length) => match rest.split_off(..length) {
                    Some(field) => Some(field),
                    None => return Ok(None),
                },
                Err(_) if length == -1 => None,
                Err(_) => return Err(self.bad_format("invalid field size")),
            });
        }
        Ok(Some((fields, rest)))
    }

    fn bad_format(&self, message: &'static str) -> CopyError {
        self.error(SqlState::BAD_COPY_FILE_FORMAT, message.to_owned())
    }

    fn error(&self, sqlstate: SqlState, message: String) -> CopyError {
        CopyError { sqlstate, message: message.into(), hint: None, line: self.row + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::{BinaryReader, CopyError, SIGNATURE};

    type Rows = Vec<Vec<Option<Vec<u8>>>>;

    fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Rows, CopyError> {
        let mut reader = BinaryReader::new(2, 100);
        let mut rows = Rows::new();
        let mut take = |_: u64, fields: &[Option<&[u8]>]| {
            rows.push(fields.iter().map(|field| field.map(<[u8]>::to_vec)).collect());
            Ok::<(), CopyError>(())
        };
        for piece in pieces {
            reader.push(piece, &mut take)?;
        }
        reader.finish()?;
        Ok(rows)
    }

    /// Reads what follows a signature whole and cut at every position, which must not differ.
    fn check(data: &[u8]) -> Result<Rows, String> {
        let data = [&SIGNATURE[..], data].concat();
        let whole = read([&data[..]]);
        for at in 0..=data.len() {
            assert_eq!(read([&data[..at], &data[at..]]), whole, "cut at {at}");
        }
        assert_eq!(read(data.chunks(1)), whole, "byte by byte");
        whole.map_err(|error| error.to_string())
    }

    #[test]
    fn rows_are_fields_behind_their_lengths() {
        let row = b"\0\x02\0\0\0\x01a\xff\xff\xff\xff";
        let expected = vec![Some(b"a".to_vec()), None];
        assert_eq!(check(b""), Ok(vec![]));
        assert_eq!(check(b"\xff\xff"), Ok(vec![]));
        assert_eq!(check(row), Ok(vec![expected.clone()]));
        assert_eq!(check(&[&row[..], row, b"\xff\xff"].concat()), Ok(vec![expected.clone(), expected]));
        let long = [&b"\0\x02\0\0\0\0\0\0\0\x50"[..], &[7; 0x50]].concat();
        assert_eq!(check(&long), Ok(vec![vec![Some(vec![]), Some(vec![7; 0x50])]]));
    }

    #[test]
    fn what_is_no_row_is_refused() {
        let fails = |data: &[u8]| check(data).expect_err("malformed");
        assert_eq!(fails(b"\0\x03"), "row field count is 3, expected 2");
        assert_eq!(check(b"\0"), Ok(vec![]));
        assert_eq!(fails(b"\0\x02\0\0\0\x02a"), "unexpected EOF in COPY data");
        assert_eq!(fails(b"\0\x02\xff\xff\xff\xfe"), "invalid field size");
        assert_eq!(fails(b"\xff\xffx"), "received copy data after EOF marker");
        assert_eq!(fails(b"\0\x02\x7f\xff\xff\xff"), "unexpected EOF in COPY data");
        let text = |data: &[u8]| read([data]).expect_err("malformed").to_string();
        assert_eq!(text(b"1\t2\n"), "COPY file signature not recognized");
        assert_eq!(text(b""), "COPY file signature not recognized");
        let mut flagged = *SIGNATURE;
        flagged[12] = 1;
        assert_eq!(text(&flagged), "unrecognized critical flags in COPY file header");
    }

    #[test]
    fn an_extension_is_skipped_and_a_row_without_end_is_refused_in_time() {
        let mut extended = SIGNATURE.to_vec();
        extended[18] = 3;
        extended.extend_from_slice(b"abc\0\x02\xff\xff\xff\xff\xff\xff\xff\xff");
        assert_eq!(read(extended.chunks(2)), Ok(vec![vec![None, None]]));
        let endless = [&SIGNATURE[..], b"\0\x02\x7f\xff\xff\xff", &[0; 200]].concat();
        let error = read(endless.chunks(10)).expect_err("refused");
        assert_eq!(error.message, "a row of COPY data is longer than 100 bytes");
    }
}
