//! The relations and functions of the system schemas: what psql, drivers and tools ask about the catalog.
//!
//! A system relation has columns, which never change, and a producer, which makes its rows from the catalog at one
//! revision for one session (`pg_class` shows the current database only). Nothing is stored: a scan makes the whole
//! relation anew, which costs microseconds to a few milliseconds and can never be out of date.
//!
//! The columns are a table of data, `builtin/relations.txt`; rows that are the same in every installation (types and
//! their functions, collations …) are in `builtin/data`. A relation without a producer or data is empty: it describes
//! something that does not exist here, like triggers.
//!
//! # Invariants
//! - A relation's oid and its columns are durable: grants and views refer to them. [`RELATIONS`] is append-only.
//! - The id of a system relation is `GlobalId::System` of its oid.

pub mod acl;
mod attribute;
mod constraints;
pub mod functions;
pub mod history;
mod indexes;
mod information_schema;
pub mod introspection;
mod mz_catalog;
mod pg_catalog;
mod pg_depend;
mod pg_views;
mod sequences;
mod sessions;
mod shipped;
mod standard;

use crate::state::State;
use crate::system::{MZ_SYSTEM, SYSTEM_SCHEMAS, SystemTableDef};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use engine::SessionInfo;
use engine::error::SqlError;
use engine::names::{ObjectKind, RoleId, SchemaId};
use introspection::Live;
use repr::datum::Datum;
use repr::types::PgType;
use repr::{GlobalId, RelationDesc};
use sql::plan::{CatalogView, DatabaseRef, ItemKind, ItemRef, SchemaRef};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// The first oid of objects that users create.
const FIRST_USER_OID: u32 = 16_384;

/// A relation of a system schema.
#[derive(Debug)]
pub struct SystemRelation {
    /// Its id.
    pub id: GlobalId,
    /// Its oid.
    pub oid: u32,
    /// Its schema.
    pub schema: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Whether Postgres has it as a view; `pg_class.relkind` says so then.
    pub is_view: bool,
    /// Its columns.
    pub desc: Arc<RelationDesc>,
    produce: Option<Producer>,
}

type Producer = fn(&Context<'_>, &SystemRelation) -> Result<RecordBatch, SqlError>;

/// What rows are made from.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The catalog at one revision.
    pub catalog: &'a State,
    /// Whose view of it.
    pub session: &'a SessionInfo,
    /// How to find out what is going on.
    pub live: &'a dyn Live,
}

/// Every system relation.
pub static RELATIONS: LazyLock<Vec<SystemRelation>> =
    LazyLock::new(|| include_str!("builtin/relations.txt").lines().filter_map(parse_relation).collect());

static BY_ID: LazyLock<HashMap<GlobalId, &'static SystemRelation>> =
    LazyLock::new(|| RELATIONS.iter().map(|relation| (relation.id, relation)).collect());

/// The system relation with this id.
pub fn relation(id: GlobalId) -> Option<&'static SystemRelation> {
    BY_ID.get(&id).copied()
}

static SYSTEM_TABLES: LazyLock<Vec<SystemTableDef>> = LazyLock::new(|| {
    let definition = |relation: &SystemRelation| SystemTableDef {
        id: relation.id,
        oid: relation.oid,
        schema: relation.schema_id(),
        name: relation.name,
        desc: Arc::clone(&relation.desc),
    };
    RELATIONS.iter().map(definition).collect()
});

/// The catalog that has only what the system ships with, at revision 0.
pub fn initial() -> State {
    State::new(&SYSTEM_TABLES)
}

/// The rows of a relation of the system. Errors: one without rows, which is a bug; whatever making them raises.
pub fn rows(id: GlobalId, context: &Context<'_>) -> Result<RecordBatch, SqlError> {
    match relation(id) {
        Some(relation) => relation.rows(context),
        None => Err(SqlError::internal(format!("{id} is not a relation of the system"))),
    }
}

impl SystemRelation {
    /// Whether it describes something that does not exist here.
    pub fn is_always_empty(&self) -> bool {
        self.produce.is_none()
    }

    /// The id of its schema.
    pub fn schema_id(&self) -> SchemaId {
        let named = SYSTEM_SCHEMAS.iter().find(|(_, _, name)| *name == self.schema);
        named.expect("relations.txt names known schemas").0
    }

    /// All rows, as the session sees them.
    pub fn rows(&self, context: &Context<'_>) -> Result<RecordBatch, SqlError> {
        match self.produce {
            Some(produce) => produce(context, self),
            None => self.batch([], Vec::new()),
        }
    }

    /// A batch from rows of the named columns. The others are NULL, or zero, false or empty where they cannot be.
    fn batch<const N: usize>(
        &self,
        names: [&str; N],
        mut rows: Vec<[Datum<'static>; N]>,
    ) -> Result<RecordBatch, SqlError> {
        for name in names {
            assert!(self.desc.position(name).is_some(), "{} has no column {name}", self.name);
        }
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.desc.arity());
        for column in &self.desc.columns {
            let values: Vec<Datum<'static>> = match names.iter().position(|name| *name == column.name) {
                Some(at) => rows.iter_mut().map(|row| std::mem::replace(&mut row[at], Datum::Null)).collect(),
                None if column.nullable => vec![Datum::Null; rows.len()],
                None => vec![zero(&column.ty); rows.len()],
            };
            columns.push(engine::value::to_array(&values, &column.data_type)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(Arc::clone(&self.desc.schema), columns, &options)
            .map_err(|error| SqlError::internal(format!("{}: {error}", self.name)))
    }
}

/// The value of a column that says nothing here and cannot be NULL.
fn zero(ty: &PgType) -> Datum<'static> {
    match ty {
        PgType::Bool => Datum::Bool(false),
        PgType::Int2 => Datum::Int2(0),
        PgType::Int4 => Datum::Int4(0),
        PgType::Int8 => Datum::Int8(0),
        PgType::Float4 => Datum::Float4(0.0),
        PgType::Oid | PgType::Reg(_) => Datum::Oid(0),
        PgType::Array(_) | PgType::Int2Vector | PgType::OidVector => Datum::List(Vec::new()),
        _ => text(""),
    }
}

/// Reads a line of relations.txt: `schema name oid kind column:type[!] …`.
fn parse_relation(line: &'static str) -> Option<SystemRelation> {
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let mut words = line.split(' ');
    let mut word = || words.next().expect("relations.txt is well formed");
    let (schema, name, oid, kind) = (word(), word(), word(), word());
    let oid: u32 = oid.parse().expect("an oid");
    let columns = words.map(|column| {
        let (name, ty) = column.split_once(':').expect("a column and its type");
        let (ty, nullable) = match ty.strip_suffix('!') {
            Some(ty) => (ty, false),
            None => (ty, true),
        };
        (name.to_owned(), pgrepr::type_name::parse_type_name(ty).expect("a type"), nullable)
    });
    Some(SystemRelation {
        id: GlobalId::System(oid.into()),
        oid,
        schema,
        name,
        is_view: kind == "v",
        desc: Arc::new(RelationDesc::new(columns)),
        produce: producer(schema, name),
    })
}

fn producer(schema: &str, name: &str) -> Option<Producer> {
    let of_both = constraints::producer(schema, name).or_else(|| sequences::producer(schema, name));
    if of_both.is_some() {
        return of_both;
    }
    match schema {
        "pg_catalog" => {
            let tables = pg_catalog::producer(name).or_else(|| pg_depend::producer(name));
            let views = tables.or_else(|| pg_views::producer(name)).or_else(|| sessions::producer(name));
            views.or_else(|| introspection::producer(name))
        }
        "information_schema" => information_schema::producer(name),
        _ => {
            let producer = mz_catalog::producer(name).or_else(|| introspection::producer(name));
            producer.or_else(|| sessions::producer(name)).or_else(|| history::producer(name))
        }
    }
}

impl<'a> Context<'a> {
    /// The current database.
    fn database(&self) -> Option<Arc<DatabaseRef>> {
        self.catalog.database_by_name(&self.session.database)
    }

    /// The system schemas and those of the current database.
    fn schemas(&self) -> Vec<Arc<SchemaRef>> {
        let mut schemas = self.catalog.schemas(None);
        if let Some(database) = self.database() {
            schemas.extend(self.catalog.schemas(Some(database.id)));
        }
        schemas
    }

    /// What is in those schemas that PostgreSQL's catalogs would show.
    fn items(&self) -> Vec<Arc<ItemRef>> {
        let schemas = self.schemas();
        let all = schemas.iter().flat_map(|schema| self.catalog.items(schema.id));
        all.filter(|item| {
            !item.serves_foreign_key()
                && item.object_kind() != ObjectKind::Secret
                && item.object_kind() != ObjectKind::SemanticModel
        })
        .collect()
    }

    /// Whether the item has an index.
    fn has_index(&self, item: &ItemRef) -> bool {
        self.catalog.indexes_on(item.id).iter().any(|index| !index.serves_foreign_key())
    }

    fn role_oid(&self, role: RoleId) -> u32 {
        self.catalog.role(role).map_or(0, |role| role.oid)
    }

    fn role_name(&self, role: RoleId) -> String {
        self.catalog.role(role).map_or_else(|| "unknown".to_owned(), |role| role.name.clone())
    }

    fn schema_oid(&self, schema: SchemaId) -> u32 {
        self.catalog.schema(schema).map_or(0, |schema| schema.oid)
    }

    /// The oid of the role that owns what the system ships with.
    fn system_owner(&self) -> u32 {
        self.role_oid(MZ_SYSTEM)
    }
}

/// Whether the item is a view, also as Postgres has it.
fn is_view(item: &ItemRef) -> bool {
    matches!(item.kind, ItemKind::View(_) | ItemKind::Cube(_))
        || relation(item.id).is_some_and(|relation| relation.is_view)
}

/// Whether the item is a table, also as Postgres has it.
fn is_table(item: &ItemRef) -> bool {
    item.object_kind() == ObjectKind::Table && !is_view(item)
}

/// Whether the item has rows: a table or a view, materialized or not.
fn is_relation(item: &ItemRef) -> bool {
    !matches!(item.kind, ItemKind::Index(_) | ItemKind::Secret(_) | ItemKind::SemanticModel(_))
}

fn text(value: impl Into<String>) -> Datum<'static> {
    Datum::Text(Cow::Owned(value.into()))
}

fn maybe<T>(value: Option<T>, datum: impl FnOnce(T) -> Datum<'static>) -> Datum<'static> {
    value.map_or(Datum::Null, datum)
}

fn texts(values: impl IntoIterator<Item = String>) -> Datum<'static> {
    Datum::List(values.into_iter().map(text).collect())
}

/// A position in a relation, from 1, as the catalogs count.
fn position(index: usize) -> i16 {
    i16::try_from(index + 1).unwrap_or(i16::MAX)
}

#[cfg(test)]
mod tests;
