//! Values, rows and their shape in JSON.
//!
//! Nothing is lost: a number is a string, because most readers of JSON have none of 64 bits, and none has decimals. What a value is:
//!
//! | type | JSON |
//! |---|---|
//! | boolean | `true`, `false` |
//! | json, jsonb | itself, with all digits that its numbers have |
//! | arrays | an array of what the items are |
//! | everything else | a string: the value as Postgres prints it |
//! | NULL | `null` |

use crate::printing::Form;
use adapter::description::{Encoding, RowDesc};
use adapter::response::Tag;
use bytes::Bytes;
use pgrepr::options::EncodeOptions;
use pgrepr::text::encode_text;
use pgrepr::types::{oid, typlen, typmod};
use repr::{ColumnDesc, Datum, PgType, RelationDesc};
use std::io::Write;

/// How values are printed, and memory for it that is used again.
#[derive(Debug)]
struct Printer {
    options: EncodeOptions,
    text: Vec<u8>,
}

impl Printer {
    fn new(options: EncodeOptions) -> Printer {
        Printer { options, text: Vec::new() }
    }

    fn value(&mut self, out: &mut Vec<u8>, ty: &PgType, datum: &Datum<'_>) {
        match (datum, ty) {
            (Datum::Null, _) => out.extend_from_slice(b"null"),
            (Datum::Bool(value), _) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
            (Datum::List(items), PgType::Array(item)) => {
                out.push(b'[');
                for (at, datum) in items.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    self.value(out, item, datum);
                }
                out.push(b']');
            }
            (_, PgType::Json | PgType::Jsonb) => {
                let start = out.len();
                encode_text(ty, datum, &self.options, out);
                // Between the tokens of a json, and nowhere else, there may be line ends: what is a line stays one.
                let line_ends = out[start..].iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r'));
                line_ends.for_each(|byte| *byte = b' ');
            }
            (Datum::Text(text), PgType::Text | PgType::Varchar(_) | PgType::Name) => string(out, text),
            _ => {
                out.push(b'"');
                let start = out.len();
                encode_text(ty, datum, &self.options, out);
                if out[start..].iter().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')) {
                    // It is the string, as most are.
                    out.push(b'"');
                } else {
                    self.text.clear();
                    self.text.extend_from_slice(&out[start..]);
                    out.truncate(start - 1);
                    string(out, &String::from_utf8_lossy(&self.text));
                }
            }
        }
    }
}

/// A row as an array, behind a comma but for the first.
#[derive(Debug)]
pub(crate) struct Array {
    printer: Printer,
    is_first: bool,
}

impl Array {
    pub(crate) fn new(options: EncodeOptions) -> Array {
        Array { printer: Printer::new(options), is_first: true }
    }
}

impl Form for Array {
    fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(if std::mem::take(&mut self.is_first) { b"[" } else { b",[" });
    }

    fn value(&mut self, out: &mut Vec<u8>, at: usize, column: &ColumnDesc, datum: &Datum<'_>) {
        if at > 0 {
            out.push(b',');
        }
        self.printer.value(out, &column.ty, datum);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        out.push(b']');
    }
}

/// A row as a message of a WebSocket, and a line.
#[derive(Debug)]
pub(crate) struct Row(Printer);

impl Row {
    pub(crate) fn new(options: EncodeOptions) -> Row {
        Row(Printer::new(options))
    }
}

impl Form for Row {
    fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"type\":\"Row\",\"payload\":[");
    }

    fn value(&mut self, out: &mut Vec<u8>, at: usize, column: &ColumnDesc, datum: &Datum<'_>) {
        if at > 0 {
            out.push(b',');
        }
        self.0.value(out, &column.ty, datum);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"]}\n");
    }
}

/// A row as an object, and a line.
#[derive(Debug)]
pub(crate) struct Line {
    printer: Printer,
    /// For each column its name, as it stands before its value.
    names: Vec<Vec<u8>>,
}

impl Line {
    pub(crate) fn new(desc: &RelationDesc, options: EncodeOptions) -> Line {
        let name = |(at, column): (usize, &ColumnDesc)| {
            let mut name = if at > 0 { b",".to_vec() } else { Vec::new() };
            string(&mut name, &column.name);
            name.push(b':');
            name
        };
        Line { printer: Printer::new(options), names: desc.columns.iter().enumerate().map(name).collect() }
    }
}

impl Form for Line {
    fn begin(&mut self, out: &mut Vec<u8>) {
        out.push(b'{');
    }

    fn value(&mut self, out: &mut Vec<u8>, at: usize, column: &ColumnDesc, datum: &Datum<'_>) {
        out.extend_from_slice(&self.names[at]);
        self.printer.value(out, &column.ty, datum);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"}\n");
    }
}

/// Appends a string.
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("memory takes whatever is written");
}

/// Appends a command tag, which is words and a number.
pub(crate) fn tag(out: &mut Vec<u8>, tag: &Tag) {
    write!(out, "\"{tag}\"").expect("memory takes whatever is written");
}

/// Appends the shape of rows.
pub(crate) fn description(out: &mut Vec<u8>, desc: &RowDesc) {
    out.extend_from_slice(desc.encoded(Encoding::Json, || describe(&desc.desc)));
}

fn describe(desc: &RelationDesc) -> Bytes {
    let mut out = Vec::new();
    out.extend_from_slice(b"{\"columns\":[");
    for (at, column) in desc.columns.iter().enumerate() {
        out.extend_from_slice(if at > 0 { b",{\"name\":" } else { b"{\"name\":" });
        string(&mut out, &column.name);
        let (oid, typlen, typmod) = (oid(&column.ty), typlen(&column.ty), typmod(&column.ty));
        write!(out, ",\"type_oid\":{oid},\"type_len\":{typlen},\"type_mod\":{typmod}}}")
            .expect("memory takes whatever is written");
    }
    out.extend_from_slice(b"]}");
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(ty: &PgType, datum: &Datum<'_>) -> String {
        let mut out = Vec::new();
        Printer::new(EncodeOptions::default()).value(&mut out, ty, datum);
        let text = String::from_utf8(out).expect("JSON is UTF-8");
        serde_json::from_str::<serde_json::Value>(&text).expect("what is printed is JSON");
        text
    }

    #[test]
    fn values_lose_nothing() {
        let text = |text: &'static str| Datum::Text(text.into());
        assert_eq!(printed(&PgType::Int8, &Datum::Int8(i64::MAX)), "\"9223372036854775807\"");
        assert_eq!(printed(&PgType::Float8, &Datum::Float8(f64::NAN)), "\"NaN\"");
        assert_eq!(printed(&PgType::Bool, &Datum::Bool(true)), "true");
        assert_eq!(printed(&PgType::Text, &Datum::Null), "null");
        let odd = "a \"b\"\n\u{1}\u{2028}é\\";
        assert_eq!(printed(&PgType::Text, &text(odd)), "\"a \\\"b\\\"\\n\\u0001\u{2028}é\\\\\"");
        assert_eq!(printed(&PgType::Bytea, &Datum::Bytes(b"\x00\xff"[..].into())), "\"\\\\x00ff\"");
        let json = "{\"a\":\r\n 1.000000000000000000001}";
        assert_eq!(printed(&PgType::Json, &text(json)), "{\"a\":   1.000000000000000000001}");
        let list = Datum::List(vec![Datum::Int4(1), Datum::Null]);
        assert_eq!(printed(&PgType::Array(Box::new(PgType::Int4)), &list), "[\"1\",null]");
        assert_eq!(printed(&PgType::Timestamp, &Datum::Timestamp(1)), "\"1970-01-01 00:00:00.000001\"");
    }

    #[test]
    fn a_line_is_an_object() {
        let desc =
            RelationDesc::new([("a \"b\"".to_owned(), PgType::Int4, true), ("c".to_owned(), PgType::Text, true)]);
        let (mut line, mut out) = (Line::new(&desc, EncodeOptions::default()), Vec::new());
        for value in [Datum::Int4(1), Datum::Null] {
            line.begin(&mut out);
            line.value(&mut out, 0, &desc.columns[0], &value);
            line.value(&mut out, 1, &desc.columns[1], &Datum::Text("x\ny".into()));
            line.end(&mut out);
        }
        let expected = "{\"a \\\"b\\\"\":\"1\",\"c\":\"x\\ny\"}\n{\"a \\\"b\\\"\":null,\"c\":\"x\\ny\"}\n";
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }
}
