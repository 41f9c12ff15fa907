//! Rows as JSON and JSON as rows: objects whose members are fields.

use super::{Kind, finish, kind, write, wrong};
use crate::call::Call;
use crate::library::Library;
use crate::{boolean, text};
use arrow::datatypes::FieldRef;
use engine::error::SqlError;
use pgrepr::json::quote_json;
use repr::{Datum, PgType};

/// Declares the functions of this file.
pub(super) fn declare(library: &mut Library) {
    library.add("row_to_json(record) json", row_to_json);
    library.add("row_to_json(record, bool) json", row_to_json);
    library.add("json_object_of(any) text !hidden", |_, a| match kind(text(a, 0)) {
        Kind::Object => Ok(a[0].clone().into_owned()),
        Kind::Array => Err(wrong("cannot call populate_composite on an array")),
        _ => Err(wrong("cannot call populate_composite on a scalar")),
    });
}

/// Appends a record as an object: its fields by their names.
pub(super) fn write_record(
    call: &Call<'_>,
    fields: &[(FieldRef, Datum<'_>)],
    separator: &str,
    out: &mut String,
) -> Result<(), SqlError> {
    out.push('{');
    for (i, (field, value)) in fields.iter().enumerate() {
        out.push_str(if i > 0 { separator } else { "" });
        quote_json(field.name(), out);
        out.push(':');
        write(call, &PgType::from_field(field), value, out)?;
    }
    out.push('}');
    Ok(())
}

/// A record as JSON, each field in a line of its own if the second argument says so.
fn row_to_json(call: &Call<'_>, a: &[Datum<'_>]) -> Result<Datum<'static>, SqlError> {
    let Datum::Record(fields) = &a[0] else { return Err(SqlError::internal("a row is a record")) };
    let mut out = String::new();
    write_record(call, fields, if a.len() > 1 && boolean(a, 1) { ",\n " } else { "," }, &mut out)?;
    finish(call, out)
}
