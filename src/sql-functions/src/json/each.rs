//! `json_each` and its like: the members of an object as rows of a key and a value.

use super::{Kind, as_text, kind, members, part, wrong};
use crate::call::Call;
use crate::library::Library;
use crate::{new_text, text};
use engine::error::SqlError;
use repr::{Datum, PgType};

/// Declares the functions of this file, for `json` or `jsonb`.
pub(super) fn declare(library: &mut Library, ty: &str) {
    library.add(&format!("{ty}_each({ty}) setof (key text, value {ty})"), |call, a| {
        each(call, text(a, 0), |value| Ok(part(Some(value))))
    });
    library.add(&format!("{ty}_each_text({ty}) setof (key text, value text)"), |call, a| {
        each(call, text(a, 0), |value| as_text(Some(value)))
    });
}

fn each(
    call: &Call<'_>,
    document: &str,
    value_of: impl Fn(&str) -> Result<Datum<'static>, SqlError>,
) -> Result<Datum<'static>, SqlError> {
    match kind(document) {
        Kind::Object => {}
        _ if call.args.first() == Some(&PgType::Jsonb) => {
            return Err(wrong(format!("cannot call {} on a non-object", call.name)));
        }
        Kind::Array => return Err(wrong("cannot deconstruct an array as an object")),
        _ => return Err(wrong("cannot deconstruct a scalar")),
    }
    let members = members(document)?.into_iter();
    let fields = members.map(|(key, value)| if call.column == 0 { Ok(new_text(key)) } else { value_of(value) });
    Ok(Datum::List(fields.collect::<Result<_, _>>()?))
}
