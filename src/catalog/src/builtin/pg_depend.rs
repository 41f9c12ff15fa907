//! `pg_depend` and `pg_rewrite`: what depends on what, as clients look for it.
//!
//! In PostgreSQL it is not a view that depends on what it reads, but the rule that makes it one; whoever looks for the views
//! of a table joins the three. The rules are not stored: each view has one, whose oid follows from the view's.

use super::pg_catalog::PG_CLASS_OID;
use super::{Context, FIRST_USER_OID, Producer, SystemRelation, is_relation, is_view, text};
use arrow::array::RecordBatch;
use repr::datum::Datum;
use sql::error::SqlError;
use sql::plan::{CatalogView, ItemKind, ItemRef};

/// The oid of `pg_rewrite` itself.
const PG_REWRITE_OID: u32 = 2618;
/// What a view's oid and its rule's differ by: no object has an oid this high.
const RULE: u32 = 1 << 31;

pub(super) fn producer(name: &str) -> Option<Producer> {
    Some(match name {
        "pg_depend" => pg_depend,
        "pg_rewrite" => pg_rewrite,
        _ => return None,
    })
}

/// Whether it is what its rule makes of a query.
fn has_rule(item: &ItemRef) -> bool {
    item.oid >= FIRST_USER_OID && (is_view(item) || matches!(item.kind, ItemKind::MaterializedView(_)))
}

/// Indexes depend on their relations, and the rules of views on what those read and on the views themselves.
fn pg_depend(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let row = |class: u32, oid: u32, on: &ItemRef, kind: &str| {
        let oids = [class, oid, PG_CLASS_OID, on.oid].map(Datum::Oid);
        let [class, oid, on_class, on] = oids;
        [class, oid, on_class, on, text(kind)]
    };
    let mut rows = Vec::new();
    for on in context.items().iter().filter(|item| is_relation(item) && item.oid >= FIRST_USER_OID) {
        for id in context.catalog.dependents(on.id) {
            let Some(item) = context.catalog.item(id) else { continue };
            rows.push(match has_rule(&item) {
                true => row(PG_REWRITE_OID, item.oid | RULE, on, "n"),
                false => row(PG_CLASS_OID, item.oid, on, "a"),
            });
        }
        if has_rule(on) {
            rows.push(row(PG_REWRITE_OID, on.oid | RULE, on, "i"));
        }
    }
    relation.batch(["classid", "objid", "refclassid", "refobjid", "deptype"], rows)
}

fn pg_rewrite(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let items = context.items();
    let rule = |item: &&std::sync::Arc<ItemRef>| has_rule(item);
    let rows = items.iter().filter(rule).map(|view| {
        let (oid, class) = (Datum::Oid(view.oid | RULE), Datum::Oid(view.oid));
        [oid, text("_RETURN"), class, text("1"), text("O"), Datum::Bool(true)]
    });
    relation.batch(["oid", "rulename", "ev_class", "ev_type", "ev_enabled", "is_instead"], rows.collect())
}
