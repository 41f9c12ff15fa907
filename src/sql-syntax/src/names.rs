//! Names as statements write them, and how names and texts are written into statements.
//!
//! A name has one to three parts (`item`, `schema.item`, `database.schema.item`).
//!
//! # Invariants
//! - Names here are folded already: unquoted identifiers in lower case, quoted ones as written, 63 bytes at most.

use std::fmt;

/// The longest identifier; a longer one is cut, as Postgres cuts it.
pub const IDENTIFIER_BYTES_MAX: usize = 63;

/// A name as a statement writes it: one to three folded parts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// The parts, from the outermost to the item.
    pub parts: Vec<String>,
}

impl Name {
    /// A name without qualification.
    pub fn bare(name: impl Into<String>) -> Name {
        Name { parts: vec![name.into()] }
    }

    /// The last part.
    pub fn item(&self) -> &str {
        self.parts.last().map_or("", String::as_str)
    }
}

impl fmt::Display for Name {
    /// The parts joined by dots and not quoted, as Postgres prints names in messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.parts.join("."))
    }
}

/// Where an object is: the full name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FullName {
    /// The database; `None` for what is in a system schema.
    pub database: Option<String>,
    /// The schema.
    pub schema: String,
    /// The object itself.
    pub item: String,
}

impl fmt::Display for FullName {
    /// Quoted where needed, so that it can be read back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(database) = &self.database {
            write!(f, "{}.", quote_ident(database))?;
        }
        write!(f, "{}.{}", quote_ident(&self.schema), quote_ident(&self.item))
    }
}

/// Quotes an identifier unless it reads back as itself without quotes.
pub fn quote_ident(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !crate::keywords::needs_quotes(name);
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Quotes a string as an SQL literal.
pub fn quote_literal(text: &str) -> String {
    if text.contains('\\') {
        format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
    } else {
        format!("'{}'", text.replace('\'', "''"))
    }
}

/// Cuts an identifier at Postgres's limit, on a character boundary.
pub fn truncate_identifier(mut name: String) -> String {
    if name.len() > IDENTIFIER_BYTES_MAX {
        let mut end = IDENTIFIER_BYTES_MAX;
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name.truncate(end);
    }
    name
}
