//! COPY's formats. Text and csv: [`reader`] takes a stream of bytes apart into rows of fields, which [`writer`] puts together into lines.
//!
//! Fields are strings here: their types are the business of whoever takes them. The formats are PostgreSQL's, quirks
//! included: a NULL is recognised before escapes are resolved (text) and only unquoted (csv), `\.` alone on a line ends
//! the data, and a stream must keep to the line ending that its first line has. The special bytes of a statement's options are ASCII
//! and differ from each other where they must: whoever accepted the statement has checked that.

pub mod reader;
pub mod writer;

/// What is forced in one field of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForcedField {
    /// FORCE_QUOTE.
    pub quote: bool,
    /// FORCE_NOT_NULL.
    pub not_null: bool,
    /// FORCE_NULL.
    pub null: bool,
}

/// The wire format of a COPY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFormat {
    /// Tab separated with backslash escapes.
    Text,
    /// Comma separated with quotes.
    Csv,
    /// PostgreSQL's binary format.
    Binary,
}

/// How COPY's rows are written, with defaults filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOptions {
    /// Text, csv or binary; what follows is for the first two.
    pub format: CopyFormat,
    /// Between columns.
    pub delimiter: u8,
    /// What stands for NULL.
    pub null: String,
    /// Whether the first line holds the column names.
    pub header: bool,
    /// csv: around values.
    pub quote: u8,
    /// csv: before a quote inside a value.
    pub escape: u8,
    /// csv: what is forced in each field; planning knows the fields. Those beyond the last have nothing.
    pub fields: Vec<ForcedField>,
}

impl CopyOptions {
    /// Postgres's defaults for a format.
    pub fn new(format: CopyFormat) -> CopyOptions {
        let (delimiter, null) = match format {
            CopyFormat::Text => (b'\t', "\\N".to_owned()),
            CopyFormat::Csv => (b',', String::new()),
            CopyFormat::Binary => (0, String::new()),
        };
        CopyOptions { format, delimiter, null, header: false, quote: b'"', escape: b'"', fields: Vec::new() }
    }

    /// Whether rows are lines of csv.
    pub fn is_csv(&self) -> bool {
        self.format == CopyFormat::Csv
    }

    /// What is forced in the field at this place.
    pub fn forced(&self, field: usize) -> ForcedField {
        self.fields.get(field).copied().unwrap_or_default()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::reader::{CopyError, CopyReader};
    use super::writer::{self, Place};
    use super::{CopyFormat, CopyOptions};
    use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};

    pub(crate) fn text() -> CopyOptions {
        CopyOptions::new(CopyFormat::Text)
    }

    pub(crate) fn csv() -> CopyOptions {
        CopyOptions::new(CopyFormat::Csv)
    }

    pub(crate) type Rows = Vec<Vec<Option<String>>>;

    /// What a reader makes of bytes that arrive in the given pieces.
    pub(crate) fn read<'a>(
        syntax: &CopyOptions,
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Rows, CopyError> {
        let mut reader = CopyReader::new(syntax.clone(), 1 << 20);
        let mut rows = Rows::new();
        let mut take = |_line: u64, fields: &[Option<std::borrow::Cow<'_, str>>]| {
            rows.push(fields.iter().map(|field| field.as_deref().map(str::to_owned)).collect());
            Ok::<(), CopyError>(())
        };
        for piece in pieces {
            reader.push(piece, &mut take)?;
        }
        reader.finish(&mut take)?;
        Ok(rows)
    }

    fn fields() -> impl Strategy<Value = Rows> {
        let character = prop_oneof![any::<char>(), prop::sample::select("\t\n\r\\,\"'.N ".chars().collect::<Vec<_>>())];
        let field = prop::collection::vec(character, 0..6)
            .prop_map(|chars| chars.into_iter().filter(|&c| c != '\0').collect::<String>());
        let field = prop_oneof![Just(None), field.prop_map(Some)];
        (1_usize..4).prop_flat_map(move |width| {
            prop::collection::vec(prop::collection::vec(field.clone(), width..=width), 0..6)
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(rows in fields(), odd in any::<bool>()) {
            for mut syntax in [text(), csv()] {
                if odd {
                    (syntax.delimiter, syntax.quote, syntax.escape) = (b'|', b'\'', b'\\');
                    syntax.null = "nil".to_owned();
                }
                let mut out = Vec::new();
                for row in &rows {
                    for (i, field) in row.iter().enumerate() {
                        writer::separator(&mut out, i, &syntax);
                        let place = Place { at: i, count: row.len() };
                        writer::field(&mut out, field.as_deref().map(str::as_bytes), place, &syntax);
                    }
                    out.extend_from_slice(b"\n");
                }
                // Text cannot tell a value that looks like NULL from NULL, when NULL is not an escape.
                let expected: Rows = if odd && !syntax.is_csv() {
                    let blur = |field: &Option<String>| field.clone().filter(|text| *text != syntax.null);
                    rows.iter().map(|row| row.iter().map(blur).collect()).collect()
                } else {
                    rows.clone()
                };
                assert_eq!(read(&syntax, [&out[..]]), Ok(expected), "{:?}", String::from_utf8_lossy(&out));
            }
        }
    }
}
