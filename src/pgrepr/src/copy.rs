//! How the rows of COPY are written, and fields as lines ([`writer`]).

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
