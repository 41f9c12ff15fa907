//! Constraints as the catalog keeps them: the conditions that rows are checked by, and their text.

use super::{
    CatalogView, ConstraintDef, ConstraintKind, ForeignKey, IndexDef, IndexKeyDef, ItemKind, ItemRef, PlanContext,
};
use crate::bind::scope::Clause;
use crate::bind::subquery::has_subquery;
use crate::bind::{Params, plan_condition};
use crate::plan::dml::default_exprs;
use crate::plan::resolver::Dependencies;
use datafusion::common::DFSchema;
use datafusion::logical_expr::Expr;
use engine::SessionInfo;
use engine::error::SqlError;
use engine::names::ClusterId;
use engine::temporal::reads_now;
use repr::sqlstate::SqlState;
use repr::{GlobalId, PgType, RelationDesc};
use sql_syntax::ast::{Action, Deferral, KeyOptions};
use sql_syntax::names::quote_ident;
use sqlparser::ast as sp;
use std::sync::Arc;

/// A CHECK constraint, bound.
#[derive(Clone, Debug)]
pub struct Check {
    /// The constraint's oid.
    pub oid: u32,
    /// Its name.
    pub name: String,
    /// The condition, over the table's columns without a qualifier.
    pub expr: Expr,
}

/// The CHECK constraints of a table in the order in which they are checked: by name, as in Postgres.
pub fn plan_checks(ctx: &PlanContext<'_>, table: &ItemRef) -> Result<Vec<Check>, SqlError> {
    let schema = DFSchema::try_from(Arc::clone(&table.desc.schema))?;
    let mut checks = Vec::new();
    for constraint in table.constraints() {
        let ConstraintKind::Check { sql, locale, .. } = &constraint.kind else { continue };
        let session = SessionInfo { locale: *locale, ..ctx.session.clone() };
        let ctx = PlanContext { session: &session, ..*ctx };
        let expr = bind_check(&ctx, &sql_syntax::parser::parse_expr(sql)?, &schema)?;
        checks.push(Check { oid: constraint.oid, name: constraint.name.clone(), expr });
    }
    checks.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(checks)
}

/// Binds the condition of a CHECK. Errors: 0A000, 42803, 42P20, 42804 for what cannot be one.
pub(super) fn bind_check(ctx: &PlanContext<'_>, check: &sp::Expr, schema: &DFSchema) -> Result<Expr, SqlError> {
    if has_subquery(check) {
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "cannot use subquery in check constraint"));
    }
    let dependencies = Dependencies::new();
    let resolver = dependencies.resolver(ctx);
    let expr = plan_condition(check, schema, (Clause::Check, "CHECK"), &resolver, &mut Params::none())?;
    if reads_now(&expr) {
        return Err(SqlError::unsupported("mz_now() in a CHECK constraint"));
    }
    Ok(expr)
}

/// Whether equal values of a type have equal bytes in a key, once the key has made them so.
pub(super) fn check_key_type(ty: &PgType) -> Result<(), SqlError> {
    let refuse = || Err(SqlError::unsupported(format!("a unique key over a column of type {}", ty.name())));
    match ty {
        PgType::Json | PgType::Void | PgType::Record | PgType::Unknown => Err(SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("data type {} has no default operator class for access method \"btree\"", ty.name()),
        )
        .with_hint(
            "You must specify an operator class for the index or define a default operator class for the data type.",
        )),
        PgType::Interval => refuse(),
        PgType::Array(item) => match item.as_ref() {
            PgType::Float4 | PgType::Float8 | PgType::Bpchar(_) | PgType::Interval | PgType::Jsonb => refuse(),
            item => check_key_type(item),
        },
        _ => Ok(()),
    }
}

/// Columns of a table in which no two rows have the same values, unless one of the values is NULL.
#[derive(Clone, Debug)]
pub struct TableKey {
    /// The oid of the constraint, or of the unique index.
    pub oid: u32,
    /// Its name.
    pub name: String,
    /// The columns' positions.
    pub columns: Vec<usize>,
    /// Its index, if it has one.
    pub index: Option<GlobalId>,
}

/// The keys of a table: PRIMARY KEY and UNIQUE, and unique indexes, by age.
pub fn keys(catalog: &dyn CatalogView, table: &ItemRef) -> Vec<TableKey> {
    let constraints = table.constraints().iter().filter(|constraint| constraint.is_key()).map(|constraint| TableKey {
        oid: constraint.oid,
        name: constraint.name.clone(),
        columns: constraint.columns().to_vec(),
        index: index_of(catalog, table.id, constraint.oid).map(|index| index.id),
    });
    let mut keys: Vec<TableKey> = constraints.collect();
    for index in catalog.indexes_on(table.id) {
        if let ItemKind::Index(IndexDef { unique: true, constraint: None, keys: parts, .. }) = &index.kind {
            let columns = parts.iter().filter_map(|part| part.column).collect();
            let (oid, name, index) = (index.oid, index.name.item.clone(), Some(index.id));
            keys.push(TableKey { oid, name, columns, index });
        }
    }
    keys.sort_by_key(|key| key.oid);
    keys
}

/// The key of a table that these columns of it are, in any order.
pub fn key_over(catalog: &dyn CatalogView, table: &ItemRef, columns: &[usize]) -> Option<TableKey> {
    keys(catalog, table).into_iter().find(|key| is_over(&key.columns, columns))
}

/// Whether a key is of these columns, in any order.
pub(super) fn is_over(key: &[usize], columns: &[usize]) -> bool {
    key.len() == columns.len() && columns.iter().all(|at| key.contains(at))
}

/// A FOREIGN KEY with what it refers to.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The constraint's oid.
    pub oid: u32,
    /// Its name.
    pub name: String,
    /// The table that has it.
    pub child: Arc<ItemRef>,
    /// The table that it refers to.
    pub parent: Arc<ItemRef>,
    /// The key that it refers to.
    pub key: TableKey,
    /// The positions of the columns, in the order of the key's.
    pub columns: Vec<usize>,
    /// The constraint.
    pub foreign: ForeignKey,
}

/// The foreign keys of a table.
pub fn references(catalog: &dyn CatalogView, child: &ItemRef) -> Vec<Reference> {
    if child.foreign_keys().next().is_none() {
        return Vec::new();
    }
    let child = Arc::new(child.clone());
    let reference = |(constraint, foreign): (&ConstraintDef, &ForeignKey)| {
        let parent = match foreign.parent {
            Some(parent) => catalog.item(parent)?,
            None => Arc::clone(&child),
        };
        let key = key_over(catalog, &parent, &foreign.referred)?;
        let place = |column: &usize| foreign.referred.iter().position(|referred| referred == column);
        let columns = key.columns.iter().filter_map(|column| Some(foreign.columns[place(column)?])).collect();
        let (oid, name, child, foreign) =
            (constraint.oid, constraint.name.clone(), Arc::clone(&child), foreign.clone());
        Some(Reference { oid, name, child, parent, key, columns, foreign })
    };
    child.foreign_keys().filter_map(reference).collect()
}

/// The foreign keys by which tables refer to one, other tables' and its own, by age.
pub fn references_to(catalog: &dyn CatalogView, parent: &ItemRef) -> Vec<Reference> {
    let others = catalog.children(parent.id).into_iter().filter_map(|child| catalog.item(child));
    let all = others.flat_map(|child| references(catalog, &child)).chain(references(catalog, parent));
    let mut all: Vec<Reference> = all.filter(|reference| reference.parent.id == parent.id).collect();
    all.sort_by_key(|reference| reference.oid);
    all
}

/// What the columns of a foreign key get by SET DEFAULT, if it says so anywhere.
pub fn set_defaults(ctx: &PlanContext<'_>, child: &ItemRef, foreign: &ForeignKey) -> Result<Vec<Expr>, SqlError> {
    if ![foreign.on_delete, foreign.on_update].contains(&Action::SetDefault) {
        return Ok(Vec::new());
    }
    let others: Vec<usize> = (0..child.desc.arity()).filter(|column| !foreign.columns.contains(column)).collect();
    let defaults = default_exprs(ctx, child, &others)?;
    let of = |column: &usize| defaults.iter().find(|(at, _)| at == column).map(|(_, default)| default.clone());
    Ok(foreign.columns.iter().filter_map(of).collect())
}

/// The index of a constraint of a table.
pub fn index_of(catalog: &dyn CatalogView, table: GlobalId, constraint: u32) -> Option<Arc<ItemRef>> {
    let is_of =
        |item: &Arc<ItemRef>| matches!(&item.kind, ItemKind::Index(index) if index.constraint == Some(constraint));
    catalog.indexes_on(table).into_iter().find(is_of)
}

/// The index of a constraint of a table that has its rows under these columns.
pub fn index_over(catalog: &dyn CatalogView, table: GlobalId, columns: &[usize]) -> Option<Arc<ItemRef>> {
    let is_over = |item: &Arc<ItemRef>| match &item.kind {
        ItemKind::Index(IndexDef { constraint: Some(_), cluster: Some(_), keys, .. }) => {
            keys.iter().map(|key| key.column).eq(columns.iter().copied().map(Some))
        }
        _ => false,
    };
    catalog.indexes_on(table).into_iter().find(is_over)
}

/// The index that a key constraint or a foreign key gets, over these columns of its table; and its columns.
pub fn key_index(
    table: &ItemRef,
    constraint: &ConstraintDef,
    columns: &[usize],
    cluster: Option<ClusterId>,
) -> (IndexDef, RelationDesc) {
    let columns = || columns.iter().map(|column| (*column, &table.desc.columns[*column]));
    let keys = columns().map(|(at, column)| IndexKeyDef {
        column: Some(at),
        sql: quote_ident(&column.name),
        options: KeyOptions::default(),
    });
    let (keys, unique, constraint) = (keys.collect(), constraint.is_key(), Some(constraint.oid));
    let desc =
        RelationDesc::new(columns().map(|(_, column)| (column.name.clone(), column.ty.clone(), column.nullable)));
    (IndexDef { on: table.id, cluster, unique, keys, constraint }, desc)
}

impl ConstraintDef {
    /// Whether it is a PRIMARY KEY or UNIQUE.
    pub fn is_key(&self) -> bool {
        matches!(self.kind, ConstraintKind::Key { .. })
    }

    /// Whether it is the PRIMARY KEY.
    pub fn is_primary(&self) -> bool {
        matches!(self.kind, ConstraintKind::Key { primary: true, .. })
    }

    /// The positions of the columns that it is about.
    pub fn columns(&self) -> &[usize] {
        match &self.kind {
            ConstraintKind::Key { columns, .. }
            | ConstraintKind::Check { columns, .. }
            | ConstraintKind::Foreign(ForeignKey { columns, .. }) => columns,
        }
    }

    /// The positions of the columns that it is about, and those of the columns of the same table that it refers to.
    pub fn own_columns_mut(&mut self) -> impl Iterator<Item = &mut usize> {
        let none = &mut [][..];
        let (columns, referred) = match &mut self.kind {
            ConstraintKind::Key { columns, .. } | ConstraintKind::Check { columns, .. } => (columns, none),
            ConstraintKind::Foreign(ForeignKey { columns, referred, parent: None, .. }) => (columns, &mut referred[..]),
            ConstraintKind::Foreign(ForeignKey { columns, .. }) => (columns, none),
        };
        columns.iter_mut().chain(referred)
    }

    /// As `pg_get_constraintdef` prints it. `name` says what a table is called.
    pub fn definition(&self, catalog: &dyn CatalogView, table: &ItemRef, name: impl Fn(&ItemRef) -> String) -> String {
        let desc = &table.desc;
        match &self.kind {
            ConstraintKind::Key { primary, columns, .. } => {
                let kind = if *primary { "PRIMARY KEY" } else { "UNIQUE" };
                format!("{kind} ({})", column_list(desc, columns))
            }
            ConstraintKind::Check { sql, .. } => format!("CHECK (({sql}))"),
            ConstraintKind::Foreign(foreign) => {
                let other = foreign.parent.and_then(|parent| catalog.item(parent));
                let parent = other.as_deref().unwrap_or(table);
                let (columns, referred) =
                    (column_list(desc, &foreign.columns), column_list(&parent.desc, &foreign.referred));
                let mut sql = format!("FOREIGN KEY ({columns}) REFERENCES {}({referred})", name(parent));
                if foreign.is_full {
                    sql.push_str(" MATCH FULL");
                }
                for (on, action) in [("UPDATE", foreign.on_update), ("DELETE", foreign.on_delete)] {
                    if action != Action::NoAction {
                        sql.push_str(&format!(" ON {on} {}", action.sql()));
                    }
                }
                sql.push_str(match foreign.deferral {
                    Deferral::Never => "",
                    Deferral::Immediate => " DEFERRABLE",
                    Deferral::Deferred => " DEFERRABLE INITIALLY DEFERRED",
                });
                if !foreign.is_valid {
                    sql.push_str(" NOT VALID");
                }
                sql
            }
        }
    }
}

/// Names of columns, quoted where that is needed.
pub fn column_list(desc: &RelationDesc, columns: &[usize]) -> String {
    let names: Vec<String> = columns.iter().map(|column| quote_ident(&desc.columns[*column].name)).collect();
    names.join(", ")
}
