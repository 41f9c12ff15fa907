//! New constraints: checked against the table, and named as Postgres names them.

use super::index::without_qualifiers;
use crate::plan::constraint::{bind_check, check_key_type};
use crate::plan::{CatalogView, ConstraintDef, ConstraintKind, ForeignKey, PlanContext};
use datafusion::common::{DFSchema, TableReference};
use engine::error::SqlError;
use engine::names::SchemaId;
use repr::RelationDesc;
use repr::sqlstate::SqlState;
use sql_syntax::ast::{ConstraintSpec, TableConstraint};
use sql_syntax::names::FullName;
use sqlparser::ast as sp;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Bytes of a name at most.
const NAME_BYTES_MAX: usize = 63;
/// Columns of a key at most.
const KEY_COLUMNS_MAX: usize = 32;
/// `54011 too_many_columns`.
const TOO_MANY_COLUMNS: SqlState = SqlState("54011");

/// The table that gets constraints, as far as it is known.
pub(super) struct Subject<'a> {
    /// Its name.
    pub(super) table: &'a str,
    pub(super) full_name: &'a FullName,
    /// Its schema, if that is there.
    pub(super) schema: Option<SchemaId>,
    /// Whether it is not there yet.
    pub(super) is_new: bool,
    /// Its columns.
    pub(super) desc: Arc<RelationDesc>,
    /// The constraints that it has.
    pub(super) constraints: Vec<ConstraintDef>,
    /// Names that no new constraint is given.
    names: Names,
}

/// Names that are taken in a schema.
struct Names {
    relations: BTreeSet<String>,
    constraints: BTreeSet<String>,
}

impl Names {
    fn of(catalog: &dyn CatalogView, schema: Option<SchemaId>) -> Names {
        let mut names = Names { relations: BTreeSet::new(), constraints: BTreeSet::new() };
        for item in schema.map(|schema| catalog.items(schema)).unwrap_or_default() {
            names.relations.insert(item.name.item.clone());
            item.constraints().iter().for_each(|constraint| names.take(constraint));
        }
        names
    }

    fn take(&mut self, constraint: &ConstraintDef) {
        if constraint.is_key() {
            self.relations.insert(constraint.name.clone());
        }
        self.constraints.insert(constraint.name.clone());
    }

    /// The first of `a_b_label`, `a_b_label1`, … that is not taken.
    fn choose(&self, first: &str, second: Option<&str>, label: &str, kind: &ConstraintSpec) -> String {
        let is_key = matches!(kind, ConstraintSpec::Key { .. });
        let mut name = object_name(first, second, label);
        for pass in 1.. {
            if !(self.constraints.contains(&name) || is_key && self.relations.contains(&name)) {
                break;
            }
            name = object_name(first, second, &format!("{label}{pass}"));
        }
        name
    }
}

/// `first_second_label`, its longer parts cut so that it is not too long.
fn object_name(first: &str, second: Option<&str>, label: &str) -> String {
    let available = NAME_BYTES_MAX.saturating_sub(label.len() + 1 + usize::from(second.is_some()));
    let (mut one, mut two) = (first.len(), second.map_or(0, str::len));
    while one + two > available {
        if one > two { one -= 1 } else { two -= 1 }
    }
    match second {
        Some(second) => format!("{}_{}_{label}", cut(first, one), cut(second, two)),
        None => format!("{}_{label}", cut(first, one)),
    }
}

fn cut(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

impl<'a> Subject<'a> {
    /// The name of a sequence that comes with a column, which is taken from here on.
    pub(super) fn sequence_name(&mut self, column: &str) -> String {
        let mut name = object_name(self.table, Some(column), "seq");
        for pass in 1.. {
            if self.names.relations.insert(name.clone()) {
                break;
            }
            name = object_name(self.table, Some(column), &format!("seq{pass}"));
        }
        name
    }

    pub(super) fn new(
        ctx: &PlanContext<'_>,
        schema: Option<SchemaId>,
        full_name: &'a FullName,
        desc: Arc<RelationDesc>,
        constraints: Vec<ConstraintDef>,
    ) -> Subject<'a> {
        let table = full_name.item.as_str();
        let is_new = schema.is_none_or(|schema| ctx.catalog.item_by_name(schema, table).is_none());
        let mut names = Names::of(ctx.catalog, schema);
        names.relations.insert(table.to_owned());
        Subject { table, full_name, schema, is_new, desc, constraints, names }
    }

    /// Adds a constraint and returns it as the catalog will keep it.
    pub(super) fn add(&mut self, ctx: &PlanContext<'_>, new: &TableConstraint) -> Result<ConstraintDef, SqlError> {
        let kind = match &new.spec {
            ConstraintSpec::Key { primary, columns } => self.key(*primary, columns),
            ConstraintSpec::Check(check) => self.check(ctx, check),
            ConstraintSpec::Foreign(foreign) => self.foreign(ctx, foreign, new).map(ConstraintKind::Foreign),
        };
        let kind = kind.map_err(|error| error.at(new.span))?;
        let name = match &new.name {
            Some(name) => {
                self.check_free(name, matches!(new.spec, ConstraintSpec::Key { .. }))?;
                name.clone()
            }
            None => self.chosen_name(&new.spec, &kind),
        };
        if let ConstraintKind::Foreign(foreign) = &kind {
            self.check_comparable(ctx.catalog, &name, foreign).map_err(|error| error.at(new.span))?;
        }
        let constraint = ConstraintDef { oid: 0, name, kind };
        self.names.take(&constraint);
        self.constraints.push(constraint.clone());
        Ok(constraint)
    }

    fn key(&self, primary: bool, names: &[String]) -> Result<ConstraintKind, SqlError> {
        if primary && self.constraints.iter().any(ConstraintDef::is_primary) {
            return Err(SqlError::new(
                SqlState::INVALID_TABLE_DEFINITION,
                format!("multiple primary keys for table \"{}\" are not allowed", self.table),
            ));
        }
        let what = if primary { "primary key" } else { "unique" };
        let mut columns = Vec::with_capacity(names.len());
        for name in names {
            let position = self.desc.position(name).ok_or_else(|| {
                let message = format!("column \"{name}\" named in key does not exist");
                SqlError::new(SqlState::UNDEFINED_COLUMN, message)
            })?;
            if columns.contains(&position) {
                let message = format!("column \"{name}\" appears twice in {what} constraint");
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            check_key_type(&self.desc.columns[position].ty)?;
            columns.push(position);
        }
        if columns.len() > KEY_COLUMNS_MAX {
            let message = format!("cannot use more than {KEY_COLUMNS_MAX} columns in an index");
            return Err(SqlError::new(TOO_MANY_COLUMNS, message));
        }
        Ok(ConstraintKind::Key { primary, columns })
    }

    fn check(&self, ctx: &PlanContext<'_>, check: &sp::Expr) -> Result<ConstraintKind, SqlError> {
        let qualifier = TableReference::bare(self.table.to_owned());
        let schema = DFSchema::try_from_qualified_schema(qualifier, &self.desc.schema)?;
        let expr = bind_check(ctx, check, &schema)?;
        let read: BTreeSet<usize> =
            expr.column_refs().iter().filter_map(|column| self.desc.position(&column.name)).collect();
        Ok(ConstraintKind::Check {
            sql: without_qualifiers(check).to_string(),
            columns: read.into_iter().collect(),
            locale: ctx.session.locale.for_reading(),
        })
    }

    /// A key's name is also that of a relation. Errors: 42P07, 42710.
    pub(super) fn check_free(&self, name: &str, is_key: bool) -> Result<(), SqlError> {
        if is_key && self.names.relations.contains(name) {
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, format!("relation \"{name}\" already exists")));
        }
        if self.constraints.iter().any(|constraint| constraint.name == name) {
            let message = format!("constraint \"{name}\" for relation \"{}\" already exists", self.table);
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
        }
        Ok(())
    }

    fn chosen_name(&self, spec: &ConstraintSpec, kind: &ConstraintKind) -> String {
        let named = |columns: &[usize]| {
            columns.iter().map(|column| self.desc.columns[*column].name.as_str()).collect::<Vec<_>>().join("_")
        };
        match kind {
            ConstraintKind::Key { primary: true, .. } => self.names.choose(self.table, None, "pkey", spec),
            ConstraintKind::Key { columns, .. } => self.names.choose(self.table, Some(&named(columns)), "key", spec),
            ConstraintKind::Foreign(ForeignKey { columns, .. }) => {
                self.names.choose(self.table, Some(&named(columns)), "fkey", spec)
            }
            ConstraintKind::Check { columns, .. } => {
                let column = (columns.len() == 1).then(|| named(columns));
                self.names.choose(self.table, column.as_deref(), "check", spec)
            }
        }
    }
}

/// The constraints of a new table, in Postgres's order: CHECK first, then the keys, the primary one before the others, then the foreign
/// keys. A key over the same columns as one before it is that one.
pub(super) fn plan_constraints(
    ctx: &PlanContext<'_>,
    subject: &mut Subject<'_>,
    stated: &[TableConstraint],
) -> Result<(), SqlError> {
    let is_primary =
        |constraint: &&TableConstraint| matches!(constraint.spec, ConstraintSpec::Key { primary: true, .. });
    let of_key = |constraint: &&TableConstraint| matches!(constraint.spec, ConstraintSpec::Key { .. });
    let is_check = |constraint: &&TableConstraint| matches!(constraint.spec, ConstraintSpec::Check(_));
    let is_foreign = |constraint: &&TableConstraint| matches!(constraint.spec, ConstraintSpec::Foreign(_));
    for check in stated.iter().filter(is_check) {
        subject.add(ctx, check)?;
    }
    let primary = stated.iter().filter(is_primary);
    let others = stated.iter().filter(|constraint| of_key(constraint) && !is_primary(constraint));
    let mut keys: Vec<TableConstraint> = Vec::new();
    for key in primary.chain(others) {
        let same = |before: &&mut TableConstraint| match (&before.spec, &key.spec) {
            (ConstraintSpec::Key { columns: before, .. }, ConstraintSpec::Key { columns, primary }) => {
                before == columns && !primary
            }
            _ => false,
        };
        match keys.iter_mut().find(same) {
            Some(before) if before.name.is_none() => before.name.clone_from(&key.name),
            Some(_) => {}
            None => keys.push(key.clone()),
        }
    }
    // Of a new table there is no row that could be against them.
    let foreign = stated.iter().filter(is_foreign).map(|foreign| TableConstraint { is_valid: true, ..foreign.clone() });
    keys.into_iter().chain(foreign).try_for_each(|constraint| subject.add(ctx, &constraint).map(drop))
}

/// The columns as the primary key among `constraints` makes them: NOT NULL.
pub(super) fn with_primary_key(desc: &RelationDesc, constraints: &[ConstraintDef]) -> RelationDesc {
    let mut desc = desc.clone();
    for column in constraints.iter().filter(|constraint| constraint.is_primary()).flat_map(ConstraintDef::columns) {
        desc.columns[*column].nullable = false;
    }
    desc
}

impl Subject<'_> {
    /// Takes a constraint away. Error 42704.
    pub(super) fn remove(&mut self, name: &str) -> Result<ConstraintDef, SqlError> {
        let at = self.constraints.iter().position(|constraint| constraint.name == name);
        let removed = self.constraints.remove(at.ok_or_else(|| unknown_for(name, "of relation", self.table))?);
        self.names.constraints.remove(name);
        if removed.is_key() {
            self.names.relations.remove(name);
        }
        Ok(removed)
    }
}

/// 42704.
pub(super) fn unknown_for(name: &str, what: &str, table: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("constraint \"{name}\" {what} \"{table}\" does not exist"))
}
