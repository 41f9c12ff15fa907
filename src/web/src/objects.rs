//! Lines of JSON objects as rows: values by the names of columns, as texts that COPY reads.

use adapter::error::AdapterError;
use pgrepr::error::PgReprError;
use pgrepr::utf8;
use repr::sqlstate::SqlState;
use repr::{ColumnDesc, PgType};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The object that a line is. Errors: 22P04.
pub(crate) fn object(line: &[u8]) -> Result<Map<String, Value>, AdapterError> {
    serde_json::from_slice(line).map_err(|error| malformed(format!("the line is no JSON object: {error}")))
}

/// The fields of a row, NULL where the object has none. Errors: 22P04 of a name that is no column.
pub(crate) fn fields<'o>(
    object: &'o Map<String, Value>,
    columns: &[ColumnDesc],
) -> Result<Vec<Option<Cow<'o, str>>>, AdapterError> {
    let field = |column: &ColumnDesc| object.get(&column.name).and_then(|value| text(value, &column.ty));
    let fields: Vec<_> = columns.iter().map(field).collect();
    if let Some(error) = fields.iter().flatten().find_map(|text| utf8::text(text.as_bytes()).err()) {
        return Err(PgReprError::from(error).into());
    }
    let is_column = |name: &str| columns.iter().any(|column| column.name == name);
    match object.keys().find(|name| !is_column(name)) {
        None => Ok(fields),
        Some(name) => Err(malformed(format!("\"{name}\" is none of the columns that are copied"))),
    }
}

/// A value as its text; `None` of NULL.
fn text<'o>(value: &'o Value, ty: &PgType) -> Option<Cow<'o, str>> {
    match (value, ty) {
        (Value::Null, _) => None,
        (value, PgType::Json | PgType::Jsonb) => Some(value.to_string().into()),
        (Value::String(text), _) => Some(text.into()),
        (Value::Array(items), PgType::Array(item)) => {
            let mut out = String::new();
            array(items, item, &mut out);
            Some(out.into())
        }
        (other, _) => Some(other.to_string().into()),
    }
}

/// An array as Postgres writes it.
fn array(items: &[Value], item: &PgType, out: &mut String) {
    out.push('{');
    for (at, value) in items.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        match (value, text(value, item)) {
            (Value::Array(inner), _) if !matches!(item, PgType::Json | PgType::Jsonb) => array(inner, item, out),
            (_, None) => out.push_str("NULL"),
            (_, Some(text)) => {
                out.push('"');
                for character in text.chars() {
                    if matches!(character, '"' | '\\') {
                        out.push('\\');
                    }
                    out.push(character);
                }
                out.push('"');
            }
        }
    }
    out.push('}');
}

fn malformed(message: String) -> AdapterError {
    AdapterError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use repr::RelationDesc;

    #[test]
    fn values_are_texts_of_columns() {
        let desc = RelationDesc::new([
            ("n".to_owned(), PgType::Int8, true),
            ("t".to_owned(), PgType::Text, true),
            ("j".to_owned(), PgType::Jsonb, true),
            ("a".to_owned(), PgType::Array(Box::new(PgType::Text)), true),
        ]);
        let of = |line: &str| {
            let object = object(line.as_bytes())?;
            let fields = fields(&object, &desc.columns)?;
            let shown = fields.iter().map(|field| field.as_deref().unwrap_or("NULL").to_owned());
            Ok::<_, AdapterError>(shown.collect::<Vec<_>>().join(" "))
        };
        for (line, expected) in [
            (
                r#"{"n":9223372036854775807,"t":"x","j":{"b":1.10},"a":["x",null,"a\"b\\"]}"#,
                r#"9223372036854775807 x {"b":1.10} {"x",NULL,"a\"b\\"}"#,
            ),
            (r#"{"t":true,"n":"7"}"#, "7 true NULL NULL"),
            (r#"{"j":"x","t":{"a":[1]},"a":[[1],[2]]}"#, r#"NULL {"a":[1]} "x" {{"1"},{"2"}}"#),
            ("{}", "NULL NULL NULL NULL"),
        ] {
            assert_eq!(of(line).expect(line), expected, "{line}");
        }
        for line in ["", "[]", "{", "{\"x\":1}", "{} {}"] {
            assert!(of(line).is_err(), "{line}");
        }
    }
}
