//! What `json_agg`, `json_object_agg` and their jsonb forms make of the lists that they collect.

use super::{finish, texts, write, wrong};
use crate::library::Library;
use crate::{list, text};
use engine::error::SqlError;
use pgrepr::json::quote_json;
use repr::PgType;

/// Declares the functions of this file, for `json` or `jsonb`.
pub(super) fn declare(library: &mut Library, ty: &str) {
    library.add(&format!("{ty}_document(json[], text) {ty}"), |call, a| {
        let items: Vec<&str> = texts(list(a, 0)).map(|item| item.unwrap_or("null")).collect();
        finish(call, format!("[{}]", items.join(text(a, 1))))
    });
    library.add(&format!("to_{ty}_document(anyarray) {ty}"), |call, a| {
        let mut out = String::from("[");
        for (i, item) in list(a, 0).iter().enumerate() {
            out.push_str(if i > 0 { ", " } else { "" });
            let PgType::Array(ty) = &call.args[0] else { return Err(SqlError::internal("a list of values")) };
            write(call, ty, item, &mut out)?;
        }
        out.push(']');
        finish(call, out)
    });
    library.add(&format!("{ty}_object_document(text[], json[]) {ty}"), |call, a| {
        let mut members = Vec::new();
        for (key, value) in texts(list(a, 0)).zip(texts(list(a, 1))) {
            let key = key.ok_or_else(|| wrong("null value not allowed for object key"))?;
            let mut member = String::new();
            quote_json(key, &mut member);
            members.push(format!("{member} : {}", value.unwrap_or("null")));
        }
        finish(call, format!("{{ {} }}", members.join(", ")))
    });
}
