//! `jsonb_set_lax`: `jsonb_set` where NULL is a value, too.

use super::{Edit, edit_root, wrong};
use crate::call::Call;
use crate::library::Library;
use crate::{boolean, list, text};
use engine::error::SqlError;
use repr::Datum;
use repr::sqlstate::SqlState;

/// Declares the functions of this file.
pub(super) fn declare(library: &mut Library) {
    for args in ["", ", bool", ", bool, text"] {
        library.add(&format!("jsonb_set_lax(jsonb, text[], jsonb{args}) jsonb !null"), set_lax);
    }
}

/// The last argument says what NULL stands for.
fn set_lax(_: &Call<'_>, a: &[Datum<'_>]) -> Result<Datum<'static>, SqlError> {
    if a[..2].iter().any(Datum::is_null) || a.get(3).is_some_and(Datum::is_null) {
        return Ok(Datum::Null);
    }
    if a.get(4).is_some_and(Datum::is_null) {
        return Err(null_treatment());
    }
    let create = a.len() < 4 || boolean(a, 3);
    let value = match (a[2].is_null(), a.get(4)) {
        (false, _) => text(a, 2),
        (true, treatment) => match treatment.map_or("use_json_null", |_| text(a, 4)) {
            "use_json_null" => "null",
            "delete_key" => return edit_root(text(a, 0), list(a, 1), Edit::Delete, ""),
            "return_target" => return Ok(a[0].clone().into_owned()),
            "raise_exception" => {
                return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "JSON value must not be null")
                    .with_detail("Exception was raised because null_value_treatment is \"raise_exception\".")
                    .with_hint("To avoid, either change the null_value_treatment argument or ensure that an SQL NULL is not passed."));
            }
            _ => return Err(null_treatment()),
        },
    };
    edit_root(text(a, 0), list(a, 1), Edit::Set { create }, value)
}

fn null_treatment() -> SqlError {
    wrong("null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", or \"raise_exception\"")
}
