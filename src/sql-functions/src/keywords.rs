//! `pg_get_keywords`: the parser's key words, as clients ask for them that quote names.

use super::call::Call;
use super::library::Library;
use super::new_text;
use engine::error::SqlError;
use repr::Datum;
use sql_syntax::keywords::{Category, Keyword, keywords};

/// Declares the functions of this file.
pub(crate) fn declare(library: &mut Library) {
    library.add(
        "pg_get_keywords() setof (word text, catcode \"char\", barelabel bool, catdesc text, baredesc text)",
        get_keywords,
    );
}

fn get_keywords(call: &Call<'_>, _: &[Datum<'_>]) -> Result<Datum<'static>, SqlError> {
    let field = |keyword: &Keyword| {
        let (code, description) = match keyword.category {
            Category::Unreserved => ("U", "unreserved"),
            Category::ColumnName => ("C", "unreserved (cannot be function or type name)"),
            Category::TypeOrFunction => ("T", "reserved (can be function or type name)"),
            Category::Reserved => ("R", "reserved"),
        };
        match call.column {
            0 => new_text(keyword.word),
            1 => new_text(code),
            2 => Datum::Bool(keyword.is_bare_label),
            3 => new_text(description),
            _ => new_text(if keyword.is_bare_label { "can be bare label" } else { "requires AS" }),
        }
    };
    Ok(Datum::List(keywords().iter().map(field).collect()))
}
