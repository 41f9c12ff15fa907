//! FOREIGN KEY: which table, which key of it, and whether values of the two can be compared.

use super::constraint::Subject;
use crate::names::{effective_search_path, is_temporary, resolve_item, unknown_relation};
use crate::plan::constraint::{TableKey, is_over, key_over, keys};
use crate::plan::privileges::check_item;
use crate::plan::{CatalogView, ConstraintDef, ForeignKey, ItemRef, PlanContext, SchemaRef};
use engine::error::SqlError;
use engine::names::{ObjectKind, Privilege};
use repr::sqlstate::SqlState;
use repr::{ColumnDesc, PgType, RelationDesc};
use sql_syntax::ast::{ForeignSpec, TableConstraint};
use sql_syntax::names::Name;
use std::collections::BTreeSet;
use std::sync::Arc;

/// `42830 invalid_foreign_key`.
const INVALID_FOREIGN_KEY: SqlState = SqlState("42830");

/// What a foreign key refers to: a table that is there, or the one that it is of.
struct Parent {
    other: Option<Arc<ItemRef>>,
    name: String,
    desc: Arc<RelationDesc>,
}

impl Subject<'_> {
    /// A foreign key as the catalog will keep it, and the place of a column that cannot be compared with the one it refers to.
    pub(super) fn foreign(
        &self,
        ctx: &PlanContext<'_>,
        spec: &ForeignSpec,
        stated: &TableConstraint,
    ) -> Result<ForeignKey, SqlError> {
        let parent = self.parent(ctx, spec)?;
        let columns = positions(&self.desc, &spec.columns)?;
        let referred = match spec.referred.as_slice() {
            [] => self.primary_key(&parent)?,
            names => positions(&parent.desc, names)?,
        };
        let invalid = |message: String| SqlError::new(INVALID_FOREIGN_KEY, message);
        if columns.len() != referred.len() {
            return Err(invalid("number of referencing and referenced columns for foreign key disagree".to_owned()));
        }
        if referred.iter().collect::<BTreeSet<_>>().len() < referred.len() {
            return Err(invalid("foreign key referenced-columns list must not contain duplicates".to_owned()));
        }
        let is_key = match &parent.other {
            Some(other) => key_over(ctx.catalog, other, &referred).is_some(),
            None => {
                let own = |constraint: &ConstraintDef| constraint.is_key() && is_over(constraint.columns(), &referred);
                self.constraints.iter().any(own)
                    || self.unique_indexes(ctx).iter().any(|key| is_over(&key.columns, &referred))
            }
        };
        if !is_key {
            let message =
                format!("there is no unique constraint matching given keys for referenced table \"{}\"", parent.name);
            return Err(invalid(message));
        }
        Ok(ForeignKey {
            columns,
            parent: parent.other.map(|parent| parent.id),
            referred,
            is_full: spec.is_full,
            on_delete: spec.on_delete,
            on_update: spec.on_update,
            deferral: stated.deferral,
            is_valid: stated.is_valid,
        })
    }

    fn parent(&self, ctx: &PlanContext<'_>, spec: &ForeignSpec) -> Result<Parent, SqlError> {
        let own = || Parent { other: None, name: self.table.to_owned(), desc: Arc::clone(&self.desc) };
        let found = match self.is_new && self.is_named(ctx, &spec.parent) {
            true => return Ok(own()),
            false => resolve_item(ctx.catalog, ctx.scope(), &spec.parent)?,
        };
        let parent = found.ok_or_else(|| unknown_parent(ctx, &spec.parent))?;
        if parent.name == *self.full_name {
            return Ok(own());
        }
        if parent.object_kind() != ObjectKind::Table {
            let message = format!("referenced relation \"{}\" is not a table", parent.name.item);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        check_item(ctx.catalog, ctx.role, &parent, Privilege::References)?;
        match (is_temporary(&self.full_name.schema), is_temporary(&parent.name.schema)) {
            (false, true) => {
                let message = "constraints on permanent tables may reference only permanent tables";
                Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
            }
            (true, false) => {
                let message = "constraints on temporary tables may reference only temporary tables";
                Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
            }
            _ => {
                let (name, desc) = (parent.name.item.clone(), Arc::clone(&parent.desc));
                Ok(Parent { other: Some(parent), name, desc })
            }
        }
    }

    /// Whether a statement that creates it means it by a name: it is found as if it were there.
    fn is_named(&self, ctx: &PlanContext<'_>, name: &Name) -> bool {
        if let [item] = name.parts.as_slice() {
            let path = effective_search_path(ctx.catalog, ctx.scope());
            let has = |schema: &Arc<SchemaRef>| ctx.catalog.item_by_name(schema.id, item).is_some();
            let own = |schema: &Arc<SchemaRef>| Some(schema.id) == self.schema && item == self.table;
            let first = path.iter().find(|schema| has(schema) || own(schema));
            // A session's first temporary table makes its schema, which comes before others.
            return match self.schema {
                None => item == self.table,
                Some(_) => first.is_some_and(own),
            };
        }
        let own = [self.full_name.database.as_ref(), Some(&self.full_name.schema), Some(&self.full_name.item)];
        let own: Vec<&String> = own.into_iter().flatten().collect();
        name.parts.len() <= own.len()
            && name.parts.iter().rev().zip(own.into_iter().rev()).all(|(part, own)| part == own)
    }

    fn primary_key(&self, parent: &Parent) -> Result<Vec<usize>, SqlError> {
        let constraints = parent.other.as_ref().map_or(self.constraints.as_slice(), |parent| parent.constraints());
        let primary = constraints.iter().find(|constraint| constraint.is_primary());
        primary.map(|constraint| constraint.columns().to_vec()).ok_or_else(|| {
            let message = format!("there is no primary key for referenced table \"{}\"", parent.name);
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        })
    }

    /// Unique keys of a table that is there which are no constraints.
    fn unique_indexes(&self, ctx: &PlanContext<'_>) -> Vec<TableKey> {
        let table = self.schema.and_then(|schema| ctx.catalog.item_by_name(schema, self.table));
        table.map(|table| keys(ctx.catalog, &table)).unwrap_or_default()
    }

    /// Whether the values of a foreign key's columns can be compared with those that they refer to. Errors: 42804; 0A000 for types that
    /// PostgreSQL compares and we do not.
    pub(super) fn check_comparable(
        &self,
        catalog: &dyn CatalogView,
        name: &str,
        foreign: &ForeignKey,
    ) -> Result<(), SqlError> {
        let other = foreign.parent.and_then(|parent| catalog.item(parent));
        let parent = other.as_ref().map_or(&self.desc, |parent| &parent.desc);
        for (column, referred) in foreign.columns.iter().zip(&foreign.referred) {
            let (column, referred) = (&self.desc.columns[*column], &parent.columns[*referred]);
            match comparison(column, referred) {
                Comparison::Equal => {}
                Comparison::Unsupported => {
                    let what =
                        format!("a foreign key from a column of type {} to one of type {}", column.ty, referred.ty);
                    return Err(SqlError::unsupported(what));
                }
                Comparison::None => {
                    let message = format!("foreign key constraint \"{name}\" cannot be implemented");
                    let detail = format!(
                        "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
                        column.name, referred.name, column.ty, referred.ty
                    );
                    return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).with_detail(detail));
                }
            }
        }
        Ok(())
    }
}

enum Comparison {
    /// Equal values have equal bytes, or bytes that can be made so.
    Equal,
    Unsupported,
    None,
}

fn comparison(column: &ColumnDesc, referred: &ColumnDesc) -> Comparison {
    let is_alike = column.ty == referred.ty && column.data_type == referred.data_type;
    let (column, referred) = (&column.ty, &referred.ty);
    let is_integer = |ty: &PgType| matches!(ty, PgType::Int2 | PgType::Int4 | PgType::Int8);
    let is_text = |ty: &PgType| matches!(ty, PgType::Text | PgType::Varchar(_));
    // Types that are compared with each other, and in which order a value becomes one of the next without being asked.
    let place = |ty: &PgType| match ty {
        PgType::Int2 | PgType::Int4 | PgType::Int8 => (1, 0),
        PgType::Numeric(_) => (1, 1),
        PgType::Float4 | PgType::Float8 => (1, 2),
        PgType::Text | PgType::Varchar(_) | PgType::Bpchar(_) | PgType::Name => (2, 0),
        PgType::Date => (3, 0),
        PgType::Timestamp => (3, 1),
        PgType::Timestamptz => (3, 2),
        _ => (0, 0),
    };
    match (column, referred) {
        (PgType::Float4 | PgType::Float8 | PgType::Jsonb | PgType::Array(_), _) if is_alike => Comparison::Unsupported,
        _ if is_alike || is_integer(column) && is_integer(referred) || is_text(column) && is_text(referred) => {
            Comparison::Equal
        }
        _ if place(column).0 != 0 && place(column).0 == place(referred).0 && place(column) <= place(referred) => {
            Comparison::Unsupported
        }
        _ => Comparison::None,
    }
}

/// 3F000 or 42P01.
fn unknown_parent(ctx: &PlanContext<'_>, name: &Name) -> SqlError {
    let database = ctx.catalog.database_by_name(&ctx.session.database).map(|database| database.id);
    match name.parts.as_slice() {
        [schema, _]
            if [None, database].iter().all(|database| ctx.catalog.schema_by_name(*database, schema).is_none()) =>
        {
            SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{schema}\" does not exist"))
        }
        _ => unknown_relation(name),
    }
}

fn positions(desc: &RelationDesc, names: &[String]) -> Result<Vec<usize>, SqlError> {
    let position = |name: &String| {
        desc.position(name).ok_or_else(|| {
            let message = format!("column \"{name}\" referenced in foreign key constraint does not exist");
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })
    };
    names.iter().map(position).collect()
}
