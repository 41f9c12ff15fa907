//! Takes COPY data apart: bytes in pieces of any size, rows of fields out.
//!
//! The work is done line by line. A scanner finds where a line ends (which in csv depends on quotes, and everywhere on
//! the line ending that the stream has chosen), keeping its state across pieces, so that every byte is looked at once
//! however the client cuts its data; then the whole line is split into fields, which borrow from it where no escape is
//! in the way.
//!
//! # Invariants
//! - How the data is cut into pieces changes nothing about the rows or the errors.

use crate::copy::CopyOptions;
use crate::utf8::{self, InvalidText};
use memchr::{memchr, memchr3};
use repr::sqlstate::SqlState;
use smallvec::SmallVec;
use std::borrow::Cow;

/// Data that is not in the format it claims to be in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CopyError {
    /// The class of the error.
    pub sqlstate: SqlState,
    /// What is wrong, as PostgreSQL words it.
    pub message: Cow<'static, str>,
    /// What to do about it.
    pub hint: Option<&'static str>,
    /// The line it was found in, counted from 1.
    pub line: u64,
}

/// Bytes that are not a line yet, and how far the search for its end has come.
#[derive(Debug)]
pub struct CopyReader {
    syntax: CopyOptions,
    line_bytes_max: usize,
    pending: Vec<u8>,
    scanner: Scanner,
    /// Lines seen so far, including those inside of quoted fields.
    line: u64,
    skip_header: bool,
    /// Whether the end marker was seen; whatever follows it is ignored.
    is_done: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineEnding {
    Unknown,
    Lf,
    Cr,
    CrLf,
}

/// Whether more bytes may follow those at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum More {
    Maybe,
    No,
}

/// A line found: its bytes without the line ending, and where the next one starts.
#[derive(Clone, Copy, Debug)]
struct Line {
    end: usize,
    next: usize,
}

impl CopyReader {
    /// A reader at the start of a stream; no line may be longer than `line_bytes_max`.
    pub fn new(syntax: CopyOptions, line_bytes_max: usize) -> CopyReader {
        let skip_header = syntax.header;
        let scanner = Scanner { at: 0, ending: LineEnding::Unknown, in_quote: false, escaped: false, inner_lines: 0 };
        CopyReader { syntax, line_bytes_max, pending: Vec::new(), scanner, line: 0, skip_header, is_done: false }
    }

    /// Takes a piece of the stream and hands on the rows that it completes, each with its line number.
    pub fn push<E: From<CopyError>>(
        &mut self,
        piece: &[u8],
        row: &mut impl FnMut(u64, &[Option<Cow<'_, str>>]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.is_done {
            return Ok(());
        }
        if self.pending.is_empty() {
            let used = self.lines(piece, More::Maybe, row)?;
            self.pending.extend_from_slice(&piece[used..]);
        } else {
            let mut bytes = std::mem::take(&mut self.pending);
            bytes.extend_from_slice(piece);
            let used = self.lines(&bytes, More::Maybe, row)?;
            bytes.drain(..used);
            self.pending = bytes;
        }
        if self.pending.len() > self.line_bytes_max {
            return Err(self.too_long().into());
        }
        Ok(())
    }

    /// Ends the stream and hands on its last row, which may lack a line ending.
    pub fn finish<E: From<CopyError>>(
        &mut self,
        row: &mut impl FnMut(u64, &[Option<Cow<'_, str>>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let bytes = std::mem::take(&mut self.pending);
        let used = self.lines(&bytes, More::No, row)?;
        match &bytes[used..] {
            rest if rest.is_empty() || self.is_done => Ok(()),
            rest => self.line(rest, row),
        }
    }

    /// Handles all lines of `bytes`, and returns how many bytes those were.
    fn lines<E: From<CopyError>>(
        &mut self,
        bytes: &[u8],
        more: More,
        row: &mut impl FnMut(u64, &[Option<Cow<'_, str>>]) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut start = 0;
        while !self.is_done {
            let rest = &bytes[start..];
            let found = self.scanner.next(rest, &self.syntax, more);
            let Some(line) = found.map_err(|(message, hint)| self.error(message, hint))? else {
                return Ok(start);
            };
            if line.end > self.line_bytes_max {
                return Err(self.too_long().into());
            }
            self.line(&rest[..line.end], row)?;
            start += line.next;
        }
        Ok(bytes.len())
    }

    /// Handles one whole line.
    fn line<E: From<CopyError>>(
        &mut self,
        line: &[u8],
        row: &mut impl FnMut(u64, &[Option<Cow<'_, str>>]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.line += 1 + std::mem::take(&mut self.scanner.inner_lines);
        let is_unterminated = std::mem::take(&mut self.scanner.in_quote);
        if line == b"\\." {
            self.is_done = true;
            return Ok(());
        }
        if std::mem::take(&mut self.skip_header) {
            return Ok(());
        }
        if is_unterminated {
            return Err(CopyError { line: self.line, ..bad_format("unterminated CSV quoted field", None) }.into());
        }
        let mut fields = Fields::new();
        let split = if self.syntax.is_csv() { split_csv } else { split_text };
        let text = utf8::text(line).map_err(SplitError::from);
        match text.and_then(|line| split(line, &self.syntax, &mut fields)) {
            Ok(()) => row(self.line, &fields),
            Err(SplitError::Encoding(error)) => Err(CopyError {
                sqlstate: SqlState::CHARACTER_NOT_IN_REPERTOIRE,
                message: error.to_string().into(),
                hint: None,
                line: self.line,
            }
            .into()),
            Err(SplitError::Format(message)) => Err(CopyError { line: self.line, ..bad_format(message, None) }.into()),
        }
    }

    /// An error in the line that is being looked for.
    fn error(&self, message: &'static str, hint: Option<&'static str>) -> CopyError {
        CopyError { line: self.line + 1 + self.scanner.inner_lines, ..bad_format(message, hint) }
    }

    fn too_long(&self) -> CopyError {
        CopyError {
            sqlstate: SqlState::PROGRAM_LIMIT_EXCEEDED,
            message: format!("a line of COPY data is longer than {} bytes", self.line_bytes_max).into(),
            hint: None,
            line: self.line + 1,
        }
    }
}

fn bad_format(message: &'static str, hint: Option<&'static str>) -> CopyError {
    CopyError { sqlstate: SqlState::BAD_COPY_FILE_FORMAT, message: message.into(), hint, line: 0 }
}

/// Finds the ends of lines.
#[derive(Debug)]
struct Scanner {
    /// How many bytes of the line were looked at.
    at: usize,
    ending: LineEnding,
    in_quote: bool,
    /// Whether the byte before `at` was an escape that is in force (csv with an escape other than the quote).
    escaped: bool,
    /// Line feeds inside of quotes, in this line.
    inner_lines: u64,
}

type Misplaced = (&'static str, Option<&'static str>);

impl Scanner {
    /// The first line of `bytes`, of which the first `self.at` were looked at before.
    fn next(&mut self, bytes: &[u8], syntax: &CopyOptions, more: More) -> Result<Option<Line>, Misplaced> {
        let found = if syntax.is_csv() { self.next_csv(bytes, syntax, more) } else { self.next_text(bytes, more) }?;
        if found.is_some() {
            self.at = 0;
            self.escaped = false;
        }
        Ok(found)
    }

    fn next_text(&mut self, bytes: &[u8], more: More) -> Result<Option<Line>, Misplaced> {
        while let Some(offset) = memchr3(b'\n', b'\r', b'\\', &bytes[self.at..]) {
            let at = self.at + offset;
            if bytes[at] == b'\\' {
                // What follows a backslash never ends a line. A step beyond the end waits for the next piece.
                if at + 1 >= bytes.len() {
                    self.at = at;
                    return Ok(None);
                }
                self.at = at + 2;
                continue;
            }
            self.at = at;
            return self.line_end(bytes, false, more);
        }
        self.at = bytes.len();
        Ok(None)
    }

    fn next_csv(&mut self, bytes: &[u8], syntax: &CopyOptions, more: More) -> Result<Option<Line>, Misplaced> {
        // A quote that is escaped by doubling needs no look at the escape: it closes and opens at once.
        let escape = (syntax.escape != syntax.quote).then_some(syntax.escape);
        while let Some(&byte) = bytes.get(self.at) {
            if matches!(byte, b'\n' | b'\r') && !self.in_quote {
                return self.line_end(bytes, true, more);
            }
            self.inner_lines += u64::from(byte == b'\n');
            if self.in_quote && Some(byte) == escape {
                self.escaped = !self.escaped;
            } else {
                if byte == syntax.quote && !self.escaped {
                    self.in_quote = !self.in_quote;
                }
                self.escaped = false;
            }
            self.at += 1;
        }
        Ok(None)
    }

    /// Decides about the carriage return or line feed at `self.at`.
    fn line_end(&mut self, bytes: &[u8], is_csv: bool, more: More) -> Result<Option<Line>, Misplaced> {
        let end = self.at;
        let is_return = bytes[end] == b'\r';
        let follower = bytes.get(end + 1);
        if is_return && matches!(self.ending, LineEnding::Unknown | LineEnding::CrLf) && follower.is_none() {
            match more {
                More::Maybe => return Ok(None),
                More::No => {}
            }
        }
        if self.ending == LineEnding::Unknown {
            self.ending = match (is_return, follower) {
                (false, _) => LineEnding::Lf,
                (true, Some(b'\n')) => LineEnding::CrLf,
                (true, _) => LineEnding::Cr,
            };
        }
        let next = match (self.ending, is_return, follower) {
            (LineEnding::Lf, false, _) | (LineEnding::Cr, true, _) => end + 1,
            (LineEnding::CrLf, true, Some(b'\n')) => end + 2,
            (_, true, _) => return Err(misplaced_return(is_csv)),
            (_, false, _) => return Err(misplaced_feed(is_csv)),
        };
        Ok(Some(Line { end, next }))
    }
}

fn misplaced_return(is_csv: bool) -> Misplaced {
    if is_csv {
        ("unquoted carriage return found in data", Some("Use quoted CSV field to represent carriage return."))
    } else {
        ("literal carriage return found in data", Some("Use \"\\r\" to represent carriage return."))
    }
}

fn misplaced_feed(is_csv: bool) -> Misplaced {
    if is_csv {
        ("unquoted newline found in data", Some("Use quoted CSV field to represent newline."))
    } else {
        ("literal newline found in data", Some("Use \"\\n\" to represent newline."))
    }
}

/// The fields of a line: of most tables they need no memory of their own.
type Fields<'l> = SmallVec<[Option<Cow<'l, str>>; 16]>;

#[derive(Debug)]
enum SplitError {
    Encoding(InvalidText),
    Format(&'static str),
}

impl From<InvalidText> for SplitError {
    fn from(error: InvalidText) -> SplitError {
        SplitError::Encoding(error)
    }
}

/// Splits a line of the text format into fields.
fn split_text<'l>(line: &'l str, syntax: &CopyOptions, fields: &mut Fields<'l>) -> Result<(), SplitError> {
    let mut rest = line;
    loop {
        let (field, tail, has_escape) = cut_text(rest, syntax.delimiter);
        fields.push(if field == syntax.null {
            None
        } else if has_escape {
            Some(Cow::Owned(unescape(field.as_bytes())?))
        } else {
            Some(Cow::Borrowed(field))
        });
        match tail {
            Some(tail) => rest = tail,
            None => return Ok(()),
        }
    }
}

/// The field at the front of a line, what follows its delimiter, and whether it holds a backslash.
fn cut_text(line: &str, delimiter: u8) -> (&str, Option<&str>, bool) {
    let (bytes, mut at, mut has_escape) = (line.as_bytes(), 0, false);
    while let Some(offset) = memchr::memchr2(delimiter, b'\\', &bytes[at..]) {
        at += offset;
        if bytes[at] == delimiter {
            return (&line[..at], Some(&line[at + 1..]), has_escape);
        }
        has_escape = true;
        at = (at + 2).min(bytes.len());
    }
    (line, None, has_escape)
}

/// Resolves the backslashes of a field.
fn unescape(field: &[u8]) -> Result<String, SplitError> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some(at) = memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        let Some((&byte, tail)) = rest.split_first() else {
            // A lone backslash at the end of the data stands for itself.
            out.push(b'\\');
            break;
        };
        rest = tail;
        match byte {
            b'b' => out.push(0x08),
            b'f' => out.push(0x0C),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(0x0B),
            b'0'..=b'7' => {
                let (value, tail) = digits(byte - b'0', rest, 2, 8);
                out.push(value);
                rest = tail;
            }
            b'x' if rest.first().is_some_and(u8::is_ascii_hexdigit) => {
                let (value, tail) = digits(0, rest, 2, 16);
                out.push(value);
                rest = tail;
            }
            b'.' => return Err(SplitError::Format("end-of-copy marker is not alone on its line")),
            other => out.push(other),
        }
    }
    out.extend_from_slice(rest);
    utf8::text(&out)?;
    Ok(String::from_utf8(out).expect("just checked"))
}

/// Reads up to `count_max` more digits of a byte's value, which wraps as PostgreSQL's does.
fn digits(start: u8, bytes: &[u8], count_max: usize, radix: u8) -> (u8, &[u8]) {
    let (mut value, mut count) = (start, 0);
    for &byte in bytes.iter().take(count_max) {
        let Some(digit) = char::from(byte).to_digit(u32::from(radix)).and_then(|digit| u8::try_from(digit).ok()) else {
            break;
        };
        value = value.wrapping_mul(radix).wrapping_add(digit);
        count += 1;
    }
    (value, &bytes[count..])
}

/// Splits a line of the csv format, whose quotes are balanced, into fields.
fn split_csv<'l>(line: &'l str, syntax: &CopyOptions, fields: &mut Fields<'l>) -> Result<(), SplitError> {
    let mut rest = line;
    loop {
        let forced = syntax.forced(fields.len());
        let plain = memchr::memchr2(syntax.delimiter, syntax.quote, rest.as_bytes());
        let (field, tail) = match plain {
            Some(at) if rest.as_bytes()[at] == syntax.quote => {
                let (text, tail) = unquote(rest, syntax);
                utf8::text(&text)?;
                let is_null = forced.null && text == syntax.null.as_bytes();
                let text = String::from_utf8(text).expect("just checked");
                (if is_null { None } else { Some(Cow::Owned(text)) }, tail)
            }
            plain => {
                let field = &rest[..plain.unwrap_or(rest.len())];
                let is_null = !forced.not_null && field == syntax.null;
                let text = if is_null { None } else { Some(Cow::Borrowed(field)) };
                (text, plain.map(|at| &rest[at + 1..]))
            }
        };
        fields.push(field);
        match tail {
            Some(tail) => rest = tail,
            None => return Ok(()),
        }
    }
}

/// The value of a field that is quoted somewhere, and what follows its delimiter.
fn unquote<'l>(line: &'l str, syntax: &CopyOptions) -> (Vec<u8>, Option<&'l str>) {
    let (bytes, mut out, mut in_quote, mut at) = (line.as_bytes(), Vec::new(), false, 0);
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        if !in_quote {
            if byte == syntax.delimiter {
                return (out, Some(&line[at..]));
            }
            if byte == syntax.quote {
                in_quote = true;
            } else {
                out.push(byte);
            }
            continue;
        }
        let follower = bytes.get(at).copied();
        if byte == syntax.escape && follower.is_some_and(|next| next == syntax.escape || next == syntax.quote) {
            out.extend(follower);
            at += 1;
        } else if byte == syntax.quote {
            in_quote = false;
        } else {
            out.push(byte);
        }
    }
    (out, None)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{csv, read, text};
    use super::{CopyError, CopyReader};
    use crate::copy::{CopyOptions, ForcedField};
    use proptest::prelude::{any, prop, prop_oneof, proptest};
    use repr::sqlstate::SqlState;

    /// Reads the data whole and cut at every position, which must not differ; shows rows as `a|NULL|b`.
    fn check(syntax: &CopyOptions, data: &[u8]) -> Result<Vec<String>, CopyError> {
        let whole = read(syntax, [data]);
        for at in 0..=data.len() {
            assert_eq!(read(syntax, [&data[..at], &data[at..]]), whole, "cut at {at}");
        }
        assert_eq!(read(syntax, data.chunks(1)), whole, "byte by byte");
        let show = |field: Option<String>| field.unwrap_or_else(|| "NULL".to_owned());
        whole.map(|rows| rows.into_iter().map(|row| row.into_iter().map(show).collect::<Vec<_>>().join("|")).collect())
    }

    #[test]
    fn text_lines() {
        let rows = |data: &str| check(&text(), data.as_bytes()).expect("well-formed");
        assert_eq!(rows("1\ta\n2\t\\N\n"), ["1|a", "2|NULL"]);
        assert_eq!(rows("1\ta\r\n2\tb\r\n"), ["1|a", "2|b"]);
        assert_eq!(rows("1\ta\r2\tb\r"), ["1|a", "2|b"]);
        assert_eq!(rows("no end"), ["no end"]);
        assert_eq!(rows("\n"), [""]);
        assert_eq!(rows(""), Vec::<String>::new());
        assert_eq!(rows("a\\tb\\nc\\\\d\te\\\nf\n"), ["a\tb\nc\\d|e\nf"]);
        assert_eq!(rows("\\101\\x42\\7q\\xg\n"), ["AB\u{7}qxg"]);
        assert_eq!(rows("x\n\\.\nignored\n"), ["x"]);
        assert_eq!(rows("x\n\\."), ["x"]);
        assert_eq!(rows("x\\N\ty\n"), ["xN|y"]);
    }

    #[test]
    fn csv_lines() {
        let rows = |data: &str| check(&csv(), data.as_bytes()).expect("well-formed");
        assert_eq!(rows("1,a\n2,\n3,\"\"\n"), ["1|a", "2|NULL", "3|"]);
        assert_eq!(rows("\"a,\"\"b\"\"\nc\",d\n"), ["a,\"b\"\nc|d"]);
        assert_eq!(rows("a\"b,c\"d,e\r\nf,g\r\n"), ["ab,cd|e", "f|g"]);
        assert_eq!(rows("\"x\r\ny\"\n"), ["x\r\ny"]);
        assert_eq!(rows("x\n\\.\ny\n"), ["x"]);
        let escaped = CopyOptions { escape: b'\\', ..csv() };
        assert_eq!(check(&escaped, b"\"a\\\"b\\\\\",\"\\c\"\n").expect("well-formed"), ["a\"b\\|\\c"]);
    }

    #[test]
    fn what_is_null_can_be_forced() {
        let [null, not_null] = [(true, false), (false, true)].map(|(null, not_null)| ForcedField {
            null,
            not_null,
            ..ForcedField::default()
        });
        let both = ForcedField { null: true, ..not_null };
        let syntax = CopyOptions { fields: vec![ForcedField::default(), null, not_null, both], ..csv() };
        let rows = check(&syntax, b",,,,\n\"\",\"\",\"\",\"\",\"\"\n").expect("well-formed");
        assert_eq!(rows, ["NULL|NULL|||NULL", "|NULL||NULL|"]);
    }

    #[test]
    fn a_header_is_skipped_even_when_it_has_two_lines() {
        let syntax = CopyOptions { header: true, ..csv() };
        assert_eq!(check(&syntax, b"\"two\nlines\",b\n1,2\n").expect("well-formed"), ["1|2"]);
    }

    #[test]
    fn errors_name_their_line() {
        let fails = |syntax: &CopyOptions, data: &[u8]| {
            let error = check(syntax, data).expect_err("malformed");
            (error.sqlstate, error.message.into_owned(), error.line)
        };
        let format = |message: &str, line| (SqlState::BAD_COPY_FILE_FORMAT, message.to_owned(), line);
        assert_eq!(fails(&text(), b"a\nb\rc\n"), format("literal carriage return found in data", 2));
        assert_eq!(fails(&text(), b"a\r\nb\nc"), format("literal newline found in data", 2));
        assert_eq!(fails(&csv(), b"a\nb\rc\n"), format("unquoted carriage return found in data", 2));
        assert_eq!(fails(&csv(), b"a\n\"b"), format("unterminated CSV quoted field", 2));
        assert_eq!(fails(&text(), b"a\nb\\.c\n"), format("end-of-copy marker is not alone on its line", 2));
        let encoding = "invalid byte sequence for encoding \"UTF8\": 0xff".to_owned();
        assert_eq!(fails(&text(), b"a\n\xff\n"), (SqlState::CHARACTER_NOT_IN_REPERTOIRE, encoding.clone(), 2));
        assert_eq!(fails(&text(), b"\\xff\n"), (SqlState::CHARACTER_NOT_IN_REPERTOIRE, encoding, 1));
    }

    #[test]
    fn a_line_without_end_is_refused_in_time() {
        let mut reader = CopyReader::new(text(), 100);
        let mut nothing = |_: u64, _: &[Option<std::borrow::Cow<'_, str>>]| Ok::<(), CopyError>(());
        let error = (0..11).find_map(|_| reader.push(&[b'x'; 10], &mut nothing).err()).expect("refused");
        assert_eq!(error.sqlstate, SqlState::PROGRAM_LIMIT_EXCEEDED);
    }

    proptest! {
        #[test]
        fn any_bytes_cut_anywhere_read_alike(data in prop::collection::vec(
            prop_oneof![prop::sample::select(b"\n\r\\\t,\"'.Nx".to_vec()), any::<u8>()], 0..30)) {
            for syntax in [text(), csv(), CopyOptions { escape: b'\\', header: true, ..csv() }] {
                let _ = check(&syntax, &data);
            }
        }
    }
}
