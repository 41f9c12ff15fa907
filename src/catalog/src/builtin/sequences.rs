//! What the catalogs show of sequences, and of the columns whose values come from them.

use super::{Context, Producer, SystemRelation, is_view, maybe, text};
use crate::builtin::standard::{database, numeric, role, yes_or_no};
use arrow::array::RecordBatch;
use engine::error::SqlError;
use engine::names::{ObjectId, ObjectKind, Privilege};
use pgrepr::types;
use repr::datum::Datum;
use sql::names::{effective_search_path, is_temporary};
use sql::plan::privileges::has_privilege;
use sql::plan::sequence::{self, owned_by};
use sql::plan::{CatalogView, ItemKind, ItemRef};
use sql::sequence::{SequenceDef, SequenceParams};
use sql_syntax::ast::Identity;
use sql_syntax::names::quote_ident;
use std::sync::Arc;

pub(super) fn producer(schema: &str, name: &str) -> Option<Producer> {
    Some(match (schema, name) {
        ("pg_catalog", "pg_sequence") => pg_sequence,
        ("pg_catalog", "pg_sequences") => pg_sequences,
        ("information_schema", "sequences") => sequences,
        _ => return None,
    })
}

/// The sequences of the current database.
fn all(context: &Context<'_>) -> Vec<(Arc<ItemRef>, SequenceDef)> {
    let of = |item: Arc<ItemRef>| match &item.kind {
        ItemKind::Sequence(sequence) => {
            let sequence = sequence.clone();
            Some((item, sequence))
        }
        _ => None,
    };
    context.items().into_iter().filter_map(of).collect()
}

fn pg_sequence(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let row = |(item, SequenceDef { params, .. }): (Arc<ItemRef>, SequenceDef)| {
        [
            Datum::Oid(item.oid),
            Datum::Oid(types::oid(&params.ty)),
            Datum::Int8(params.start),
            Datum::Int8(params.increment),
            Datum::Int8(params.max),
            Datum::Int8(params.min),
            Datum::Int8(params.cache),
            Datum::Bool(params.cycle),
        ]
    };
    let rows = all(context).into_iter().map(row).collect();
    relation
        .batch(["seqrelid", "seqtypid", "seqstart", "seqincrement", "seqmax", "seqmin", "seqcache", "seqcycle"], rows)
}

/// Whether the session's role has one of these privileges on a sequence.
fn may(context: &Context<'_>, item: &ItemRef, privileges: &[Privilege]) -> bool {
    let Some(role) = role(context) else { return false };
    let has = |privilege: &Privilege| has_privilege(context.catalog, role.id, ObjectId::Item(item.id), *privilege);
    privileges.iter().any(has)
}

fn pg_sequences(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let row = |(item, SequenceDef { params, .. }): (Arc<ItemRef>, SequenceDef)| {
        let is_readable = may(context, &item, &[Privilege::Select, Privilege::Usage]);
        let position = context.live.position(item.id).filter(|at| is_readable && at.is_called);
        [
            text(&item.name.schema),
            text(&item.name.item),
            text(context.role_name(item.owner)),
            Datum::Oid(types::oid(&params.ty)),
            Datum::Int8(params.start),
            Datum::Int8(params.min),
            Datum::Int8(params.max),
            Datum::Int8(params.increment),
            Datum::Bool(params.cycle),
            Datum::Int8(params.cache),
            maybe(position, |at| Datum::Int8(at.last)),
        ]
    };
    let rows = all(context).into_iter().map(row).collect();
    relation.batch(
        [
            "schemaname",
            "sequencename",
            "sequenceowner",
            "data_type",
            "start_value",
            "min_value",
            "max_value",
            "increment_by",
            "cycle",
            "cache_size",
            "last_value",
        ],
        rows,
    )
}

/// Those of identity columns are none of the standard's sequences.
fn sequences(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let all = all(context).into_iter().filter(|(item, sequence)| {
        let is_identity = sequence.owner.is_some_and(|owner| owner.identity.is_some());
        !is_identity && !is_temporary(&item.name.schema) && may(context, item, Privilege::all_of(ObjectKind::Sequence))
    });
    let row = |(item, SequenceDef { params, .. }): (Arc<ItemRef>, SequenceDef)| {
        let (precision, radix, scale) = numeric(&params.ty);
        let int = |value: Option<i32>| maybe(value, Datum::Int4);
        [
            database(context),
            text(&item.name.schema),
            text(&item.name.item),
            text(params.ty.name()),
            int(precision),
            int(radix),
            int(scale),
            text(params.start.to_string()),
            text(params.min.to_string()),
            text(params.max.to_string()),
            text(params.increment.to_string()),
            yes_or_no(params.cycle),
        ]
    };
    let rows = all.map(row).collect();
    relation.batch(
        [
            "sequence_catalog",
            "sequence_schema",
            "sequence_name",
            "data_type",
            "numeric_precision",
            "numeric_precision_radix",
            "numeric_scale",
            "start_value",
            "minimum_value",
            "maximum_value",
            "increment",
            "cycle_option",
        ],
        rows,
    )
}

/// Whether a column is an identity column, and of which kind.
pub(super) fn identity(context: &Context<'_>, item: &ItemRef, column: usize) -> Option<Identity> {
    let has_default = matches!(&item.kind, ItemKind::Table { defaults, .. } if defaults[column].is_some());
    has_default.then(|| sequence::identity(context.catalog, item.id, column)).flatten()
}

/// What `information_schema.columns` says of identity: whether it is one, and the seven columns from its generation on.
pub(super) fn identity_columns(context: &Context<'_>, item: &ItemRef, column: usize) -> [Datum<'static>; 7] {
    let owned = match &item.kind {
        ItemKind::Table { .. } if !is_view(item) => owned_by(context.catalog, item.id, column),
        _ => Vec::new(),
    };
    let of_identity = owned.iter().find_map(|(sequence, owner)| match &sequence.kind {
        ItemKind::Sequence(SequenceDef { params, .. }) => Some((params, owner.identity?)),
        _ => None,
    });
    let value = |of: fn(&SequenceParams) -> i64| maybe(of_identity, |(params, _)| text(of(params).to_string()));
    let generation = maybe(of_identity, |(_, identity)| {
        text(match identity {
            Identity::Always => "ALWAYS",
            Identity::ByDefault => "BY DEFAULT",
        })
    });
    [
        yes_or_no(of_identity.is_some()),
        generation,
        value(|params| params.start),
        value(|params| params.increment),
        value(|params| params.max),
        value(|params| params.min),
        yes_or_no(of_identity.is_some_and(|(params, _)| params.cycle)),
    ]
}

/// The DEFAULT of a column as the session sees it; that of an identity column is none.
pub(super) fn shown_default(context: &Context<'_>, item: &ItemRef, column: usize) -> Option<String> {
    let ItemKind::Table { defaults, .. } = &item.kind else { return None };
    let default = defaults.get(column)?.as_ref()?;
    identity(context, item, column).is_none().then(|| shown(context, default))
}

/// An expression in which sequences have the names by which the session finds them.
pub(super) fn shown(context: &Context<'_>, expr: &str) -> String {
    sequence::shown(expr, |oid| {
        let item = context.items().into_iter().find(|item| item.oid == oid)?;
        let path = effective_search_path(context.catalog, context.session.scope());
        let found = path.iter().find_map(|schema| context.catalog.item_by_name(schema.id, &item.name.item));
        let name = quote_ident(&item.name.item);
        Some(match found.is_some_and(|found| found.id == item.id) {
            true => name,
            false => format!("{}.{name}", quote_ident(&item.name.schema)),
        })
    })
}
