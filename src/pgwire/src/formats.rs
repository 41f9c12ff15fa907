//! The formats of values on the wire: those that a client sends, and those that it wants.

use adapter::description::{Encoding, RowDesc};
use adapter::error::AdapterError;
use adapter::session::Session;
use ahash::AHashMap;
use bytes::Bytes;
use pgrepr::error::PgReprError;
use repr::sqlstate::SqlState;
use repr::{Datum, PgType};

/// A value's form on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// As a person reads it.
    Text,
    /// As Postgres's `*_send` functions write it.
    Binary,
}

impl Format {
    /// The format with this code. Error: 08P01.
    pub fn from_code(code: i16) -> Result<Format, AdapterError> {
        match code {
            0 => Ok(Format::Text),
            1 => Ok(Format::Binary),
            _ => Err(violation(format!("unsupported format code: {code}"))),
        }
    }
}

/// The formats of values, a result's columns or a statement's parameters: one for all, or one each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Formats {
    /// Every value.
    All(Format),
    /// Value by value.
    Each(Vec<Format>),
}

impl Formats {
    /// From Bind's codes: none means text, one is for all values. Error: 08P01.
    #[inline]
    pub fn from_codes(mut codes: impl ExactSizeIterator<Item = i16>) -> Result<Formats, AdapterError> {
        Ok(match codes.len() {
            0 | 1 => Formats::All(codes.next().map_or(Ok(Format::Text), Format::from_code)?),
            _ => Formats::Each(codes.map(Format::from_code).collect::<Result<_, _>>()?),
        })
    }

    /// Text for every value.
    pub fn text() -> Formats {
        Formats::All(Format::Text)
    }

    /// The format of value `index`.
    pub fn of(&self, index: usize) -> Format {
        match self {
            Formats::All(format) => *format,
            Formats::Each(formats) => formats.get(index).copied().unwrap_or(Format::Text),
        }
    }

    /// Error 08P01 if there are neither none, one, nor as many codes as columns.
    #[inline]
    pub(crate) fn check(&self, column_count: usize) -> Result<(), AdapterError> {
        match self {
            Formats::Each(formats) if formats.len() != column_count => Err(violation(format!(
                "bind message has {} result formats but query has {column_count} columns",
                formats.len()
            ))),
            _ => Ok(()),
        }
    }
}

/// The formats in which the rows of portals are wanted, each with the number that its portal has: another one of its name has others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    unnamed: Option<(u64, Formats)>,
    named: AHashMap<Box<str>, (u64, Formats)>,
}

/// Named portals from which on it is looked which of them there still are.
const NAMED_MAX: usize = 64;

impl Wanted {
    /// Those of the portal that was bound with this number.
    #[inline]
    pub(crate) fn put(&mut self, session: &Session, portal: &str, number: u64, formats: Formats) {
        if portal.is_empty() {
            self.unnamed = Some((number, formats));
            return;
        }
        if self.named.len() >= NAMED_MAX {
            self.named.retain(|name, (number, _)| session.portal_number(name) == Some(*number));
        }
        self.named.insert(portal.into(), (number, formats));
    }

    /// Those of a portal with this number; text of one that was not bound here, a cursor.
    #[inline]
    pub(crate) fn of(&self, portal: &str, number: u64) -> Formats {
        let known = if portal.is_empty() { self.unnamed.as_ref() } else { self.named.get(portal) };
        known.filter(|(of, _)| *of == number).map_or_else(Formats::text, |(_, formats)| formats.clone())
    }
}

/// The RowDescription message of rows in these formats. That of text is encoded once for all executions of a plan.
pub(crate) fn row_description(desc: &RowDesc, formats: &Formats) -> Bytes {
    match formats {
        Formats::All(Format::Text) => desc.encoded(Encoding::Message, || describe(desc, formats)).clone(),
        formats => describe(desc, formats),
    }
}

fn describe(desc: &RowDesc, formats: &Formats) -> Bytes {
    let mut out = Vec::new();
    let code = |column| match formats.of(column) {
        Format::Text => 0,
        Format::Binary => 1,
    };
    pgrepr::row_description::row_description(&desc.desc, &desc.origins, code, &mut out);
    out.into()
}

/// 08P01.
fn violation(message: String) -> AdapterError {
    AdapterError::new(SqlState::PROTOCOL_VIOLATION, message)
}

/// Bind's values, as those of the parameters of a statement.
#[inline]
pub(crate) fn decode(
    session: &Session,
    statement: &str,
    types: &[PgType],
    formats: &Formats,
    values: &[Option<&[u8]>],
) -> Result<Vec<Datum<'static>>, AdapterError> {
    if values.len() != types.len() {
        return Err(violation(format!(
            "bind message supplies {} parameters, but prepared statement \"{statement}\" requires {}",
            values.len(),
            types.len()
        )));
    }
    let decode = |(index, (value, ty)): (usize, (&Option<&[u8]>, &PgType))| {
        let Some(bytes) = value else { return Ok(Datum::Null) };
        Ok(match formats.of(index) {
            Format::Binary => pgrepr::binary::decode_binary(ty, bytes, session.encode_options())?,
            Format::Text => session.decode_text(ty, pgrepr::utf8::text(bytes).map_err(PgReprError::from)?)?,
        })
    };
    values.iter().zip(types).enumerate().map(decode).collect()
}
