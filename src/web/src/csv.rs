//! Rows as lines of CSV, as COPY writes them: NULL is nothing, an empty text is quoted.

use crate::printing::Form;
use pgrepr::copy::writer::{self, Place};
use pgrepr::copy::{CopyFormat, CopyOptions};
use pgrepr::options::EncodeOptions;
use pgrepr::text::encode_text;
use repr::{ColumnDesc, Datum, RelationDesc};

/// A row as a line.
#[derive(Debug)]
pub(crate) struct Line {
    options: EncodeOptions,
    syntax: CopyOptions,
    count: usize,
    text: Vec<u8>,
}

impl Line {
    pub(crate) fn new(desc: &RelationDesc, options: EncodeOptions) -> Line {
        Line { options, syntax: CopyOptions::new(CopyFormat::Csv), count: desc.arity(), text: Vec::new() }
    }

    /// The line of the columns' names.
    pub(crate) fn header(&self, out: &mut Vec<u8>, desc: &RelationDesc) {
        for (at, column) in desc.columns.iter().enumerate() {
            writer::separator(out, at, &self.syntax);
            writer::field(out, Some(column.name.as_bytes()), Place { at, count: self.count }, &self.syntax);
        }
        out.push(b'\n');
    }
}

impl Form for Line {
    fn begin(&mut self, _: &mut Vec<u8>) {}

    fn value(&mut self, out: &mut Vec<u8>, at: usize, column: &ColumnDesc, datum: &Datum<'_>) {
        writer::separator(out, at, &self.syntax);
        let field = match datum {
            Datum::Null => None,
            datum => {
                self.text.clear();
                encode_text(&column.ty, datum, &self.options, &mut self.text);
                Some(&self.text[..])
            }
        };
        writer::field(out, field, Place { at, count: self.count }, &self.syntax);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        out.push(b'\n');
    }
}
