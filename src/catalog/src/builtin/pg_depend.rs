//! `pg_depend` and `pg_rewrite`: what depends on what, as clients look for it.
//!
//! In PostgreSQL it is not a view that depends on what it reads, but the rule that makes it one; whoever looks for the views
//! of a table joins the three. The rules are not stored: each view has one, whose oid follows from the view's.

use super::pg_catalog::{PG_CLASS_OID, default_oid};
use super::{Context, FIRST_USER_OID, Producer, SystemRelation, is_relation, is_view, position, sequences, text};
use arrow::array::RecordBatch;
use engine::error::SqlError;
use repr::datum::Datum;
use sql::plan::sequence::named_in;
use sql::plan::{CatalogView, IndexDef, ItemKind, ItemRef};
use sql::sequence::SequenceDef;

/// The oid of `pg_attrdef` itself.
const PG_ATTRDEF_OID: u32 = 2604;
/// The oid of `pg_constraint` itself.
const PG_CONSTRAINT_OID: u32 = 2606;
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

/// Indexes depend on their relations, or on the constraints that they came with, constraints on columns, sequences on the columns that own them, the DEFAULTs of columns on the sequences that they
/// name, and the rules of views on what those read and on the views themselves.
fn pg_depend(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let row = |class: u32, oid: u32, on: &ItemRef, kind: &str| {
        let oids = [class, oid, PG_CLASS_OID, on.oid].map(Datum::Oid);
        let [class, oid, on_class, on] = oids;
        [class, oid, Datum::Int4(0), on_class, on, Datum::Int4(0), text(kind)]
    };
    let mut rows = Vec::new();
    for on in context.items().iter().filter(|item| is_relation(item) && item.oid >= FIRST_USER_OID) {
        for id in context.catalog.dependents(on.id) {
            let Some(item) = context.catalog.item(id) else { continue };
            let mut depends = match has_rule(&item) {
                true => row(PG_REWRITE_OID, item.oid | RULE, on, "n"),
                false => row(PG_CLASS_OID, item.oid, on, "a"),
            };
            match &item.kind {
                ItemKind::Sequence(SequenceDef { owner: Some(owner), .. }) => {
                    depends[5] = Datum::Int4(position(owner.column).into());
                    depends[6] = text(if owner.identity.is_some() { "i" } else { "a" });
                }
                ItemKind::Index(IndexDef { constraint: Some(constraint), .. }) => {
                    depends[3] = Datum::Oid(PG_CONSTRAINT_OID);
                    depends[4] = Datum::Oid(*constraint);
                    depends[6] = text("i");
                }
                _ => {}
            }
            rows.push(depends);
        }
        for constraint in on.constraints() {
            for column in constraint.columns() {
                let mut depends = row(PG_CONSTRAINT_OID, constraint.oid, on, "a");
                depends[5] = Datum::Int4(position(*column).into());
                rows.push(depends);
            }
        }
        if has_rule(on) {
            rows.push(row(PG_REWRITE_OID, on.oid | RULE, on, "i"));
        }
    }
    rows.extend(defaults(context));
    relation.batch(["classid", "objid", "objsubid", "refclassid", "refobjid", "refobjsubid", "deptype"], rows)
}

/// The DEFAULTs that name sequences.
fn defaults(context: &Context<'_>) -> Vec<[Datum<'static>; 7]> {
    let mut rows = Vec::new();
    for table in context.items() {
        let ItemKind::Table { defaults, .. } = &table.kind else { continue };
        for (column, default) in defaults.iter().enumerate().filter_map(|(at, default)| Some((at, default.as_ref()?))) {
            if sequences::identity(context, &table, column).is_some() {
                continue;
            }
            let default_oid = default_oid(table.oid, column);
            let row = |oid| {
                let [class, default, on_class, on] = [PG_ATTRDEF_OID, default_oid, PG_CLASS_OID, oid].map(Datum::Oid);
                [class, default, Datum::Int4(0), on_class, on, Datum::Int4(0), text("n")]
            };
            rows.extend(named_in(default).into_iter().map(row));
        }
    }
    rows
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
