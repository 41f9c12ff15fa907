//! Relations whose rows are the same in every installation.

use crate::builtin::{Context, SystemRelation};
use arrow::array::RecordBatch;
use engine::error::SqlError;
use repr::datum::Datum;
use repr::types::PgType;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

/// The rows that are the same in every installation, as COPY wrote them.
pub(super) fn data(name: &str) -> &'static str {
    match name {
        "pg_type" => include_str!("data/pg_type.tsv"),
        "pg_proc" => include_str!("data/pg_proc.tsv"),
        "pg_am" => include_str!("data/pg_am.tsv"),
        "pg_collation" => include_str!("data/pg_collation.tsv"),
        "pg_tablespace" => include_str!("data/pg_tablespace.tsv"),
        "pg_language" => include_str!("data/pg_language.tsv"),
        "pg_opclass" => include_str!("data/pg_opclass.tsv"),
        "pg_opfamily" => include_str!("data/pg_opfamily.tsv"),
        _ => "",
    }
}

/// What [`shipped`] has made: by the name of the relation, and the oid of its owner.
static SHIPPED: Mutex<BTreeMap<(&str, u32), RecordBatch>> = Mutex::new(BTreeMap::new());

/// A relation from its data, owned by the role that owns the system schemas. It is read once.
pub(super) fn shipped(context: &Context<'_>, relation: &SystemRelation) -> Result<RecordBatch, SqlError> {
    let owner = context.system_owner();
    let mut made = SHIPPED.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(match made.entry((relation.name, owner)) {
        Entry::Occupied(found) => found.get().clone(),
        Entry::Vacant(place) => place.insert(read_shipped(relation, owner)?).clone(),
    })
}

fn read_shipped(relation: &SystemRelation, owner: u32) -> Result<RecordBatch, SqlError> {
    let options = pgrepr::options::EncodeOptions::default();
    let mut columns: Vec<Vec<Datum<'static>>> = vec![Vec::new(); relation.desc.arity()];
    for line in data(relation.name).lines() {
        for ((column, values), field) in relation.desc.columns.iter().zip(&mut columns).zip(line.split('\t')) {
            values.push(match field {
                "\\N" => Datum::Null,
                _ if column.ty == PgType::Oid && column.name.ends_with("owner") => Datum::Oid(owner),
                field => pgrepr::text::decode_text(&column.ty, field, &options)
                    .map_err(|error| SqlError::internal(format!("{}: {error}", relation.name)))?,
            });
        }
    }
    let arrays = columns
        .iter()
        .zip(&relation.desc.columns)
        .map(|(values, column)| engine::value::to_array(values, &column.data_type))
        .collect::<Result<_, _>>()?;
    RecordBatch::try_new(Arc::clone(&relation.desc.schema), arrays)
        .map_err(|error| SqlError::internal(format!("{}: {error}", relation.name)))
}
