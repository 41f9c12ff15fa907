//! Text and bytea.

use super::call::Call;
use super::lengths::check_length;
use super::library::Library;
use super::parts::parts_of;
use super::{boolean, bytes, int, new_text, text};
use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ColumnarValue;
use engine::error::SqlError;
use md5::Md5;
use pgrepr::length::repadded;
use repr::sqlstate::SqlState;
use repr::{Datum, PgType};
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use std::borrow::Cow;
use unicode_normalization::UnicodeNormalization;

/// Declares the functions of this file.
pub(crate) fn declare(library: &mut Library) {
    declare_lengths(library);
    declare_cutting(library);
    declare_changing(library);
    declare_quoting(library);
    declare_bytes(library);
}

fn declare_lengths(library: &mut Library) {
    for name in ["length", "char_length", "character_length"] {
        library.add(&format!("{name}(text) int4"), |_, a| Ok(Datum::Int4(text(a, 0).chars().count() as i32)));
        library.add(&format!("{name}(bpchar) int4"), |_, a| {
            Ok(Datum::Int4(text(a, 0).trim_end_matches(' ').chars().count() as i32))
        });
    }
    library.add("length(bytea) int4", |_, a| Ok(Datum::Int4(bytes(a, 0).len() as i32)));
    library.add("octet_length(text) int4", |_, a| Ok(Datum::Int4(text(a, 0).len() as i32)));
    // char(n) counts its padding here, which it would lose on the way to text.
    library.add("octet_length(bpchar) int4", |_, a| Ok(Datum::Int4(text(a, 0).len() as i32)));
    library.add("octet_length(bytea) int4", |_, a| Ok(Datum::Int4(bytes(a, 0).len() as i32)));
    library.add("bit_length(text) int4", |_, a| Ok(Datum::Int4(text(a, 0).len() as i32 * 8)));
    library.add("bit_length(bytea) int4", |_, a| Ok(Datum::Int4(bytes(a, 0).len() as i32 * 8)));
    library.add("position(text, text) int4", |_, a| Ok(position(text(a, 0), text(a, 1))));
    library.add("strpos(text, text) int4", |_, a| Ok(position(text(a, 0), text(a, 1))));
    library.add("ascii(text) int4", |_, a| Ok(Datum::Int4(text(a, 0).chars().next().map_or(0, |c| c as i32))));
    library.add("starts_with(text, text) bool", |_, a| Ok(Datum::Bool(text(a, 0).starts_with(text(a, 1)))));
    // What char(n) is compared by: its text without the padding, or with as much as that of the other has.
    library.add("bpchar_key(bpchar) text", |_, a| Ok(new_text(text(a, 0).trim_end_matches(' '))));
    library.add("bpchar_padded(bpchar, int4) bpchar", |_, a| {
        let length = u32::try_from(int(a, 1)).unwrap_or(0);
        Ok(Datum::Text(repadded(text(a, 0), length).into_owned().into()))
    });
}

fn position(whole: &str, part: &str) -> Datum<'static> {
    Datum::Int4(whole.find(part).map_or(0, |at| whole[..at].chars().count() as i32 + 1))
}

fn declare_cutting(library: &mut Library) {
    for name in ["substring", "substr"] {
        library.add(&format!("{name}(text, int4) text"), |_, a| substring(text(a, 0), int(a, 1), None));
        library
            .add(&format!("{name}(text, int4, int4) text"), |_, a| substring(text(a, 0), int(a, 1), Some(int(a, 2))));
        library.has_column_body(substrings);
        library.add(&format!("{name}(bytea, int4) bytea"), |_, a| byte_substring(bytes(a, 0), int(a, 1), None));
        library.add(&format!("{name}(bytea, int4, int4) bytea"), |_, a| {
            byte_substring(bytes(a, 0), int(a, 1), Some(int(a, 2)))
        });
    }
    library.add("left(text, int4) text", |_, a| {
        let (whole, n) = (text(a, 0), int(a, 1));
        let length = whole.chars().count() as i64;
        Ok(new_text(prefix(whole, if n < 0 { length + n } else { n })))
    });
    library.add("right(text, int4) text", |_, a| {
        let (whole, n) = (text(a, 0), int(a, 1));
        let length = whole.chars().count() as i64;
        let skip = if n < 0 { -n } else { length - n };
        Ok(new_text(&whole[prefix(whole, skip).len()..]))
    });
    library.add("split_part(text, text, int4) text", split_part);
    library.add("btrim(text) text", |_, a| Ok(new_text(text(a, 0).trim_matches(' '))));
    library.add("ltrim(text) text", |_, a| Ok(new_text(text(a, 0).trim_start_matches(' '))));
    library.add("rtrim(text) text", |_, a| Ok(new_text(text(a, 0).trim_end_matches(' '))));
    library
        .add("btrim(text, text) text !long", |_, a| Ok(new_text(text(a, 0).trim_matches(|c| text(a, 1).contains(c)))));
    library.add("ltrim(text, text) text !long", |_, a| {
        Ok(new_text(text(a, 0).trim_start_matches(|c| text(a, 1).contains(c))))
    });
    library.add("rtrim(text, text) text !long", |_, a| {
        Ok(new_text(text(a, 0).trim_end_matches(|c| text(a, 1).contains(c))))
    });
}

/// The first `n` characters; none for `n` below one.
fn prefix(whole: &str, n: i64) -> &str {
    match usize::try_from(n) {
        Err(_) => "",
        Ok(n) => whole.char_indices().nth(n).map_or(whole, |(at, _)| &whole[..at]),
    }
}

fn substring(whole: &str, from: i64, length: Option<i64>) -> Result<Datum<'static>, SqlError> {
    Ok(new_text(within(whole, window(from, length)?)))
}

/// What is left of a text of which so many characters are skipped, and so many taken.
fn within(whole: &str, (skip, take): (i64, Option<i64>)) -> &str {
    let tail = &whole[prefix(whole, skip).len()..];
    take.map_or(tail, |take| prefix(tail, take))
}

/// The substrings of a column of texts from one place and of one length.
fn substrings(args: &[ColumnarValue], _of: &DataType) -> Result<Option<ArrayRef>, SqlError> {
    use ScalarValue::Int32;
    let [
        ColumnarValue::Array(texts),
        ColumnarValue::Scalar(Int32(Some(from))),
        ColumnarValue::Scalar(Int32(Some(length))),
    ] = args
    else {
        return Ok(None);
    };
    // What is wrong with a length is only said where there is a text.
    let Ok(window) = window((*from).into(), Some((*length).into())) else { return Ok(None) };
    Ok(texts.as_string_view_opt().map(|texts| parts_of(texts, |whole| within(whole, window))))
}

/// How many characters to skip and to take; positions before the first count against the length.
fn window(from: i64, length: Option<i64>) -> Result<(i64, Option<i64>), SqlError> {
    match length {
        Some(length) if length < 0 => {
            Err(SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"))
        }
        Some(length) => {
            let end = from + length;
            let start = from.max(1);
            Ok((start - 1, Some((end - start).max(0))))
        }
        None => Ok((from.max(1) - 1, None)),
    }
}

fn byte_substring(whole: &[u8], from: i64, length: Option<i64>) -> Result<Datum<'static>, SqlError> {
    let (skip, take) = window(from, length)?;
    let skip = (skip as usize).min(whole.len());
    let end = take.map_or(whole.len(), |take| (skip + take as usize).min(whole.len()));
    Ok(Datum::Bytes(Cow::Owned(whole[skip..end].to_vec())))
}

fn split_part(_: &Call<'_>, a: &[Datum<'_>]) -> Result<Datum<'static>, SqlError> {
    let (whole, delimiter, n) = (text(a, 0), text(a, 1), int(a, 2));
    if n == 0 {
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "field position must not be zero"));
    }
    if delimiter.is_empty() {
        return Ok(new_text(if n == 1 || n == -1 { whole } else { "" }));
    }
    let index = (n.unsigned_abs() - 1) as usize;
    let part = if n > 0 {
        whole.split(delimiter).nth(index)
    } else {
        let parts: Vec<&str> = whole.split(delimiter).collect();
        parts.len().checked_sub(index + 1).map(|at| parts[at])
    };
    Ok(new_text(part.unwrap_or_default()))
}

fn declare_changing(library: &mut Library) {
    library.add("lower(text) text", |_, a| Ok(new_text(mapped(text(a, 0), str::to_ascii_lowercase, lower))));
    library.add("upper(text) text", |_, a| Ok(new_text(mapped(text(a, 0), str::to_ascii_uppercase, upper))));
    library.add("initcap(text) text", |_, a| Ok(new_text(initcap(text(a, 0)))));
    library.add("reverse(text) text", |_, a| Ok(new_text(text(a, 0).chars().rev().collect::<String>())));
    library.add("repeat(text, int4) text !long", |call, a| {
        let n = int(a, 1).max(0);
        call.check_length(text(a, 0).len() as i64 * n)?;
        Ok(new_text(text(a, 0).repeat(n as usize)))
    });
    library.add("replace(text, text, text) text !long", |_, a| {
        let (whole, from, to) = (text(a, 0), text(a, 1), text(a, 2));
        if from.is_empty() {
            return Ok(new_text(whole));
        }
        let count = if to.len() > from.len() { whole.matches(from).count() } else { 0 };
        check_length(whole.len() as i64 + count as i64 * (to.len() as i64 - from.len() as i64))?;
        Ok(new_text(whole.replace(from, to)))
    });
    library.add("translate(text, text, text) text !long", |_, a| {
        let (from, to): (Vec<char>, Vec<char>) = (text(a, 1).chars().collect(), text(a, 2).chars().collect());
        let translated = text(a, 0).chars().filter_map(|c| match from.iter().position(|f| *f == c) {
            Some(at) => to.get(at).copied(),
            None => Some(c),
        });
        Ok(new_text(translated.collect::<String>()))
    });
    library.add("lpad(text, int4) text !long", |call, a| pad(call, text(a, 0), int(a, 1), " ", true));
    library.add("lpad(text, int4, text) text !long", |call, a| pad(call, text(a, 0), int(a, 1), text(a, 2), true));
    library.add("rpad(text, int4) text !long", |call, a| pad(call, text(a, 0), int(a, 1), " ", false));
    library.add("rpad(text, int4, text) text !long", |call, a| pad(call, text(a, 0), int(a, 1), text(a, 2), false));
    library.add("overlay(text, text, int4) text", |_, a| {
        overlay(text(a, 0), text(a, 1), int(a, 2), text(a, 1).chars().count() as i64)
    });
    library.add("overlay(text, text, int4, int4) text", |_, a| overlay(text(a, 0), text(a, 1), int(a, 2), int(a, 3)));
    library.add("chr(int4) text", |_, a| {
        let code = int(a, 0);
        if code == 0 {
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "null character not permitted"));
        }
        if code < 0 {
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "character number must be positive"));
        }
        match u32::try_from(code).ok().and_then(char::from_u32) {
            Some(c) => Ok(new_text(c.to_string())),
            None => Err(SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("requested character too large for encoding: {code}"),
            )),
        }
    });
    library.add("concat(variadic any) text !null", |call, a| concat(call, a, ""));
    library.add("concat_ws(text, variadic any) text !null", |call, a| {
        if a[0].is_null() {
            return Ok(Datum::Null);
        }
        let rest = Call { args: &call.args[1..], ..*call };
        concat(&rest, &a[1..], text(a, 0))
    });
    library.add("num_nulls(variadic any) int4 !null", |_, a| Ok(count(a, |value| value.is_null())));
    library.add("num_nonnulls(variadic any) int4 !null", |_, a| Ok(count(a, |value| !value.is_null())));
    library.add("unistr(text) text", |_, a| unistr(text(a, 0)).map(new_text));
    library.add("text_concat(text, text) text", |_, a| Ok(new_text(format!("{}{}", text(a, 0), text(a, 1)))));
    library.add("to_hex(int4) text", |_, a| Ok(new_text(format!("{:x}", int(a, 0) as i32))));
    library.add("to_hex(int8) text", |_, a| Ok(new_text(format!("{:x}", int(a, 0)))));
    library.add("normalize(text) text", |_, a| Ok(new_text(text(a, 0).nfc().collect::<String>())));
    library.add("normalize(text, text) text", |_, a| normalize(text(a, 0), text(a, 1)).map(new_text));
    library.add("is_normalized(text) bool", |_, a| Ok(Datum::Bool(text(a, 0).nfc().eq(text(a, 0).chars()))));
    library.add("is_normalized(text, text) bool", |_, a| {
        Ok(Datum::Bool(normalize(text(a, 0), text(a, 1))? == text(a, 0)))
    });
}

fn normalize(value: &str, form: &str) -> Result<String, SqlError> {
    Ok(match form.to_ascii_uppercase().as_str() {
        "NFC" => value.nfc().collect(),
        "NFD" => value.nfd().collect(),
        "NFKC" => value.nfkc().collect(),
        "NFKD" => value.nfkd().collect(),
        _ => {
            let message = format!("invalid normalization form: {form}");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
    })
}

fn count(values: &[Datum<'_>], counts: impl Fn(&Datum<'_>) -> bool) -> Datum<'static> {
    Datum::Int4(values.iter().filter(|value| counts(value)).count() as i32)
}

/// Text in other letters: one for each, and at once where all are of ASCII.
fn mapped(whole: &str, ascii: fn(&str) -> String, letter: fn(char) -> char) -> String {
    if whole.is_ascii() { ascii(whole) } else { whole.chars().map(letter).collect() }
}

/// A character's small form, if that is one character.
fn lower(c: char) -> char {
    alone(c.to_lowercase()).unwrap_or(c)
}

/// A character's capital form, if that is one character: `ß` stays as it is.
fn upper(c: char) -> char {
    alone(c.to_uppercase()).unwrap_or(c)
}

fn alone(mut chars: impl Iterator<Item = char>) -> Option<char> {
    chars.next().filter(|_| chars.next().is_none())
}

fn initcap(whole: &str) -> String {
    let mut out = String::with_capacity(whole.len());
    let mut inside = false;
    for c in whole.chars() {
        if inside {
            out.push(lower(c));
        } else {
            out.push(upper(c));
        }
        inside = c.is_alphanumeric();
    }
    out
}

fn pad(call: &Call<'_>, whole: &str, length: i64, fill: &str, left: bool) -> Result<Datum<'static>, SqlError> {
    let have = whole.chars().count() as i64;
    let length = length.max(0);
    call.check_length(length * 4)?;
    if have >= length || fill.is_empty() {
        return Ok(new_text(prefix(whole, length)));
    }
    let padding: String = fill.chars().cycle().take((length - have) as usize).collect();
    Ok(new_text(if left { format!("{padding}{whole}") } else { format!("{whole}{padding}") }))
}

fn overlay(whole: &str, part: &str, from: i64, length: i64) -> Result<Datum<'static>, SqlError> {
    if from < 1 {
        return Err(SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"));
    }
    let head = prefix(whole, from - 1);
    let tail = &whole[prefix(whole, from - 1 + length).len()..];
    Ok(new_text(format!("{head}{part}{tail}")))
}

fn concat(call: &Call<'_>, a: &[Datum<'_>], separator: &str) -> Result<Datum<'static>, SqlError> {
    let mut parts = Vec::with_capacity(a.len());
    for (value, ty) in a.iter().zip(call.args) {
        if !value.is_null() {
            parts.push(super::array::output(call, value, ty)?);
        }
    }
    Ok(new_text(parts.join(separator)))
}

/// Text whose escapes become the characters of their numbers: a backslash, then four hexadecimal digits, or six behind `+`, four
/// behind `u`, eight behind `U`.
fn unistr(escaped: &str) -> Result<String, SqlError> {
    let unpaired = || SqlError::new(SqlState::SYNTAX_ERROR, "invalid Unicode surrogate pair");
    let (mut out, mut rest) = (String::new(), escaped);
    while let Some((before, behind)) = rest.split_once('\\') {
        out.push_str(before);
        if let Some(behind) = behind.strip_prefix('\\') {
            out.push('\\');
            rest = behind;
            continue;
        }
        let (mut code, mut behind) = escaped_number(behind)?;
        if (0xd800..0xe000).contains(&code) {
            let (low, after) = escaped_number(behind.strip_prefix('\\').ok_or_else(unpaired)?)?;
            let halves = [code, low].map(|half| u16::try_from(half).unwrap_or_default());
            code = char::decode_utf16(halves).next().and_then(Result::ok).ok_or_else(unpaired)?.into();
            behind = after;
        }
        let c = char::from_u32(code).filter(|c| *c != '\0').ok_or_else(|| {
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid Unicode code point: {code:04X}"))
        })?;
        out.push(c);
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

/// The number of an escape, from behind its backslash, and what follows.
fn escaped_number(escape: &str) -> Result<(u32, &str), SqlError> {
    let (mark, length) = match escape.as_bytes().first() {
        Some(b'u') => (1, 4),
        Some(b'+') => (1, 6),
        Some(b'U') => (1, 8),
        _ => (0, 4),
    };
    let number = escape.get(mark..mark + length).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
    let number = number.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    number.map(|number| (number, &escape[mark + length..])).ok_or_else(|| {
        SqlError::new(SqlState::SYNTAX_ERROR, "invalid Unicode escape")
            .with_hint("Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX.")
    })
}

fn declare_quoting(library: &mut Library) {
    library.add("quote_ident(text) text", |_, a| Ok(new_text(sql_syntax::names::quote_ident(text(a, 0)))));
    library.add("quote_literal(text) text", |_, a| Ok(new_text(quote_literal(text(a, 0)))));
    library.add("quote_literal(any) text", |call, a| {
        let ty = call.args.first().cloned().unwrap_or(PgType::Text);
        Ok(new_text(quote_literal(&super::array::output(call, &a[0], &ty)?)))
    });
    library.add("quote_nullable(text) text !null", |_, a| {
        Ok(new_text(if a[0].is_null() { "NULL".to_owned() } else { quote_literal(text(a, 0)) }))
    });
    library.add("quote_nullable(any) text !null", |call, a| {
        if a[0].is_null() {
            return Ok(new_text("NULL"));
        }
        let ty = call.args.first().cloned().unwrap_or(PgType::Text);
        Ok(new_text(quote_literal(&super::array::output(call, &a[0], &ty)?)))
    });
    library.add("parse_ident(text) text[]", |_, a| parse_ident(text(a, 0), true));
    library.add("parse_ident(text, bool) text[]", |_, a| parse_ident(text(a, 0), boolean(a, 1)));
}

/// A string literal; backslashes need the escape form.
pub(crate) fn quote_literal(value: &str) -> String {
    let doubled = value.replace('\'', "''");
    if value.contains('\\') { format!("E'{}'", doubled.replace('\\', "\\\\")) } else { format!("'{doubled}'") }
}

/// The parts of a qualified name; what follows them is an error if `strict`.
fn parse_ident(whole: &str, strict: bool) -> Result<Datum<'static>, SqlError> {
    let invalid =
        || SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("string is not a valid identifier: \"{whole}\""));
    let mut parts = Vec::new();
    let mut rest = whole.trim();
    loop {
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').ok_or_else(invalid)?;
            parts.push(new_text(&quoted[..end]));
            rest = quoted[end + 1..].trim_start();
        } else {
            let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            if end == 0 || rest.starts_with(|c: char| c.is_ascii_digit()) {
                return Err(invalid());
            }
            parts.push(new_text(rest[..end].to_lowercase()));
            rest = rest[end..].trim_start();
        }
        match rest.strip_prefix('.') {
            Some(next) => rest = next.trim_start(),
            None if rest.is_empty() || !strict => return Ok(Datum::List(parts)),
            None => return Err(invalid()),
        }
    }
}

fn declare_bytes(library: &mut Library) {
    library.add("bytea_concat(bytea, bytea) bytea", |_, a| {
        Ok(Datum::Bytes(Cow::Owned([bytes(a, 0), bytes(a, 1)].concat())))
    });
    library.add("md5(text) text", |_, a| Ok(new_text(hex(&Md5::digest(text(a, 0))))));
    library.add("md5(bytea) text", |_, a| Ok(new_text(hex(&Md5::digest(bytes(a, 0))))));
    library.add("sha224(bytea) bytea", |_, a| digest::<Sha224>(bytes(a, 0)));
    library.add("sha256(bytea) bytea", |_, a| digest::<Sha256>(bytes(a, 0)));
    library.add("sha384(bytea) bytea", |_, a| digest::<Sha384>(bytes(a, 0)));
    library.add("sha512(bytea) bytea", |_, a| digest::<Sha512>(bytes(a, 0)));
    library.add("encode(bytea, text) text", |_, a| match text(a, 1).to_ascii_lowercase().as_str() {
        "hex" => Ok(new_text(hex(bytes(a, 0)))),
        "base64" => Ok(new_text(base64(bytes(a, 0)))),
        "escape" => Ok(new_text(escape(bytes(a, 0)))),
        _ => Err(unknown_encoding(text(a, 1))),
    });
    library.add("decode(text, text) bytea", |_, a| Ok(Datum::Bytes(Cow::Owned(decode(text(a, 0), text(a, 1))?))));
    library.add("convert_from(bytea, name) text", |_, a| {
        if !["utf8", "utf-8"].contains(&text(a, 1).to_ascii_lowercase().as_str()) {
            return Err(SqlError::unsupported(format!("encoding \"{}\"", text(a, 1))));
        }
        String::from_utf8(bytes(a, 0).to_vec()).map(new_text).map_err(|_| {
            SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, "invalid byte sequence for encoding \"UTF8\"")
        })
    });
    library.add("convert_to(text, name) bytea", |_, a| {
        if !["utf8", "utf-8"].contains(&text(a, 1).to_ascii_lowercase().as_str()) {
            return Err(SqlError::unsupported(format!("encoding \"{}\"", text(a, 1))));
        }
        Ok(Datum::Bytes(Cow::Owned(text(a, 0).as_bytes().to_vec())))
    });
}

/// The bytes that a text stands for. Errors: 22023, 22P02.
pub fn decode(text: &str, encoding: &str) -> Result<Vec<u8>, SqlError> {
    match encoding.to_ascii_lowercase().as_str() {
        "hex" => pgrepr::bytea::decode_bytea(&format!("\\x{text}"))
            .map_err(|error| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, error.to_string())),
        "escape" if text.starts_with("\\x") => {
            Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type bytea"))
        }
        "escape" => Ok(pgrepr::bytea::decode_bytea(text)?),
        "base64" => unbase64(text),
        _ => Err(unknown_encoding(encoding)),
    }
}

fn digest<D: Digest>(bytes: &[u8]) -> Result<Datum<'static>, SqlError> {
    Ok(Datum::Bytes(Cow::Owned(D::digest(bytes).to_vec())))
}

fn unknown_encoding(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("unrecognized encoding: \"{name}\""))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn escape(bytes: &[u8]) -> String {
    let mut out = String::new();
    for byte in bytes {
        match byte {
            b'\\' => out.push_str("\\\\"),
            0 | 0x80.. => out.push_str(&format!("\\{byte:03o}")),
            byte => out.push(char::from(*byte)),
        }
    }
    out
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Lines of 76 characters, as Postgres breaks them.
fn base64(bytes: &[u8]) -> String {
    let mut out = String::new();
    for (i, chunk) in bytes.chunks(3).enumerate() {
        let word = chunk.iter().fold(0_u32, |word, byte| (word << 8) | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for k in 0..4 {
            let digit = BASE64[(word >> (18 - 6 * k)) as usize & 63];
            out.push(if k <= chunk.len() { char::from(digit) } else { '=' });
        }
        if i % 19 == 18 && chunk.len() == 3 {
            out.push('\n');
        }
    }
    out
}

fn unbase64(whole: &str) -> Result<Vec<u8>, SqlError> {
    let invalid = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let (mut out, mut word, mut bits) = (Vec::new(), 0_u32, 0);
    let mut digits = 0;
    for c in whole.chars().filter(|c| !c.is_ascii_whitespace()) {
        digits += 1;
        if c == '=' {
            continue;
        }
        let digit = u8::try_from(c).ok().and_then(|c| BASE64.iter().position(|d| *d == c));
        let digit =
            digit.ok_or_else(|| invalid(format!("invalid symbol \"{c}\" found while decoding base64 sequence")))?;
        word = (word << 6) | digit as u32;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((word >> bits) as u8);
            word &= (1 << bits) - 1;
        }
    }
    if digits % 4 != 0 {
        return Err(invalid("invalid base64 end sequence".to_owned())
            .with_hint("Input data is missing padding, is truncated, or is otherwise corrupted."));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::{substring, substrings};
    use arrow::array::{AsArray, StringViewArray};
    use arrow::datatypes::DataType;
    use datafusion::common::ScalarValue;
    use datafusion::logical_expr::ColumnarValue;
    use proptest::prelude::{any, prop, prop_assert_eq, proptest};
    use repr::Datum;
    use std::sync::Arc;

    proptest! {
        #[test]
        fn columns_have_the_substrings_of_their_values(
            texts in prop::collection::vec(prop::option::of("[aä ]{0,20}"), 0..20), from in -5..25_i32, length in -1..25_i32,
            far in any::<i32>()) {
            for (from, length) in [(from, length), (far, length), (from, far)] {
                let number = |of: i32| ColumnarValue::Scalar(ScalarValue::Int32(Some(of)));
                let column = ColumnarValue::Array(Arc::new(texts.iter().map(Option::as_ref).collect::<StringViewArray>()));
                let found = substrings(&[column, number(from), number(length)], &DataType::Utf8View).expect("texts are there or not");
                let one = |text: &Option<String>| {
                    text.as_ref().map(|text| substring(text, from.into(), Some(length.into()))).transpose()
                };
                let Ok(expected) = texts.iter().map(one).collect::<Result<Vec<_>, _>>() else { continue };
                let Some(found) = found else { continue };
                let expected = expected.into_iter().map(|of| of.map(|of| match of {
                    Datum::Text(of) => of.into_owned(),
                    other => format!("{other:?}"),
                }));
                let found = found.as_string_view().iter().map(|of| of.map(str::to_owned)).collect::<Vec<_>>();
                prop_assert_eq!(found, expected.collect::<Vec<_>>());
            }
        }
    }
}
