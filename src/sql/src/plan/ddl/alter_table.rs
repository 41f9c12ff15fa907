//! ALTER TABLE of columns and constraints.
//!
//! The actions of a statement are taken in Postgres's order: what goes, what comes, and the rest. Each is planned against the
//! table as those before it make it.

use super::column_type::{check_constraints, check_index, check_no_view_reads, conversion, converted_default};
use super::constraint::{Subject, unknown_for};
use super::default::kept_default;
use super::relation::{check_column_count, check_storable};
use super::sequence::{column_sequence, retyped};
use super::{check_owner, missing};
use crate::names::{resolve_item, unknown_relation};
use crate::plan::column::{self, ColumnChange, index_reads, view_reads};
use crate::plan::constraint::references_to;
use crate::plan::ddl::plural;
use crate::plan::dml::{default_exprs, unknown_column};
use crate::plan::drop::{OfColumn, described, plan_column_drops};
use crate::plan::sequence::{owned_by, owned_sequences};
use crate::plan::{
    AlterTablePlan, ColumnSource, ConstraintDef, ConstraintKind, ItemKind, ItemRef, Plan, PlanContext, TableChange,
};
use engine::error::{PlanNotice, SqlError};
use engine::names::{ObjectId, ObjectKind};
use repr::PgType;
use repr::sqlstate::SqlState;
use sql_syntax::ast::{AlterTable, ColumnDef, Deferral, TableAction, TableConstraint};
use sqlparser::ast as sp;
use std::sync::Arc;

const TAG: &str = "ALTER TABLE";

pub(in crate::plan) fn plan_alter_table(ctx: &PlanContext<'_>, alter: &AlterTable) -> Result<Plan, SqlError> {
    let Some(item) = resolve_item(ctx.catalog, ctx.scope(), &alter.name)? else {
        return missing(ObjectKind::Table, &alter.name, alter.if_exists, TAG, unknown_relation(&alter.name));
    };
    if item.object_kind() != ObjectKind::Table {
        return Err(wrong_kind(&item, &alter.actions));
    }
    check_owner(ctx, ObjectId::Item(item.id), ObjectKind::Table, &item.name.item)?;
    let mut actions: Vec<&TableAction> = alter.actions.iter().collect();
    actions.sort_by_key(|action| pass(action));
    let mut altered = Altered::new(ctx, &item);
    actions.into_iter().try_for_each(|action| altered.take(action))?;
    altered.finish()
}

/// When an action is taken.
fn pass(action: &TableAction) -> usize {
    match action {
        TableAction::Drop { .. }
        | TableAction::DropColumn { .. }
        | TableAction::DropNotNull(_)
        | TableAction::SetDefault { default: None, .. } => 0,
        TableAction::SetType { .. } => 1,
        TableAction::AddColumn { .. } => 2,
        TableAction::SetNotNull(_) => 3,
        TableAction::Add(_)
        | TableAction::Validate(_)
        | TableAction::SetDeferral { .. }
        | TableAction::SetDefault { default: Some(_), .. }
        | TableAction::Rename { .. }
        | TableAction::RenameColumn { .. } => 4,
    }
}

/// A table on its way through a statement.
struct Altered<'a> {
    ctx: &'a PlanContext<'a>,
    /// As the catalog has it.
    before: &'a ItemRef,
    /// As the actions so far leave it.
    table: ItemRef,
    /// The same, for new constraints.
    subject: Subject<'a>,
    /// Where the columns of its rows come from.
    sources: Vec<ColumnSource>,
    /// Which of its columns are identity columns.
    is_identity: Vec<bool>,
    /// The columns that go, and what depends on them.
    dropped: Vec<OfColumn>,
    changes: Vec<TableChange>,
    notices: Vec<PlanNotice>,
}

impl<'a> Altered<'a> {
    fn new(ctx: &'a PlanContext<'a>, table: &'a ItemRef) -> Altered<'a> {
        let (desc, constraints) = (Arc::clone(&table.desc), table.constraints().to_vec());
        let mut is_identity = vec![false; desc.arity()];
        for (_, owner) in owned_sequences(ctx.catalog, table.id) {
            is_identity[owner.column] |= owner.identity.is_some();
        }
        Altered {
            ctx,
            before: table,
            table: table.clone(),
            subject: Subject::new(ctx, Some(table.schema), &table.name, desc, constraints),
            sources: (0..table.desc.arity()).map(ColumnSource::Kept).collect(),
            is_identity,
            dropped: Vec::new(),
            changes: Vec::new(),
            notices: Vec::new(),
        }
    }

    fn take(&mut self, action: &TableAction) -> Result<(), SqlError> {
        match action {
            TableAction::Add(constraint) => self.add_constraint(constraint),
            TableAction::Drop { name, if_exists, cascade } => self.drop_constraint(name, *if_exists, *cascade),
            TableAction::SetDeferral { name, deferral } => self.set_deferral(name, *deferral),
            TableAction::Validate(name) => self.validate(name),
            TableAction::Rename { from, to } => {
                let renamed = self.subject.remove(from);
                let renamed = renamed.map_err(|_| unknown_for(from, "for table", self.subject.table))?;
                self.subject.check_free(to, renamed.is_key())?;
                self.subject.constraints.push(ConstraintDef { name: to.clone(), ..renamed });
                self.set_constraints();
                self.changes.push(TableChange::RenameConstraint { from: from.clone(), to: to.clone() });
                Ok(())
            }
            TableAction::AddColumn { column, constraints, if_not_exists } => {
                self.add_column(column, constraints, *if_not_exists)
            }
            TableAction::DropColumn { name, if_exists, cascade } => self.drop_column(name, *if_exists, *cascade),
            TableAction::RenameColumn { from, to } => {
                let column = self.table.desc.position(from).ok_or_else(|| {
                    SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{from}\" does not exist"))
                })?;
                if self.table.desc.position(to).is_some() {
                    return Err(self.column_exists(to));
                }
                self.change(ColumnChange::Rename { column, to: to.clone() })
            }
            TableAction::SetDefault { column, default } => {
                let at = self.position(column)?;
                self.check_no_identity(at).map_err(|error| match default {
                    Some(_) => error,
                    None => error.with_hint("Use ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY instead."),
                })?;
                let ty = &self.table.desc.columns[at].ty;
                let default = default.as_deref();
                let default = default.map(|default| kept_default(self.ctx, column, ty, default)).transpose()?;
                self.change(ColumnChange::SetDefault { column: at, default })
            }
            TableAction::SetType { column, ty, using } => self.set_type(column, ty, using.as_deref()),
            TableAction::SetNotNull(name) => {
                let column = self.position(name)?;
                self.change(ColumnChange::SetNullable { column, nullable: false })
            }
            TableAction::DropNotNull(name) => {
                let column = self.position(name)?;
                self.check_no_identity(column)?;
                let in_key =
                    |constraint: &&ConstraintDef| constraint.is_primary() && constraint.columns().contains(&column);
                if self.table.constraints().iter().any(|constraint| in_key(&constraint)) {
                    let message = format!("column \"{name}\" is in a primary key");
                    return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
                }
                self.change(ColumnChange::SetNullable { column, nullable: true })
            }
        }
    }

    fn constraint_mut(&mut self, name: &str) -> Result<&mut ConstraintDef, SqlError> {
        let table = self.subject.table;
        let find = |constraint: &&mut ConstraintDef| constraint.name == *name;
        let found = self.subject.constraints.iter_mut().find(find);
        found.ok_or_else(|| unknown_for(name, "of relation", table))
    }

    fn set_deferral(&mut self, name: &str, deferral: Deferral) -> Result<(), SqlError> {
        let table = self.subject.table;
        let ConstraintKind::Foreign(foreign) = &mut self.constraint_mut(name)?.kind else {
            let message = format!("constraint \"{name}\" of relation \"{table}\" is not a foreign key constraint");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        };
        foreign.deferral = deferral;
        self.set_constraints();
        self.changes.push(TableChange::SetDeferral { name: name.to_owned(), deferral });
        Ok(())
    }

    fn validate(&mut self, name: &str) -> Result<(), SqlError> {
        let table = self.subject.table;
        match &mut self.constraint_mut(name)?.kind {
            ConstraintKind::Foreign(foreign) => {
                if !std::mem::replace(&mut foreign.is_valid, true) {
                    self.set_constraints();
                    self.changes.push(TableChange::ValidateConstraint(name.to_owned()));
                }
                Ok(())
            }
            ConstraintKind::Check { .. } => Ok(()),
            ConstraintKind::Key { .. } => {
                let message =
                    format!("constraint \"{name}\" of relation \"{table}\" is not a foreign key or check constraint");
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
        }
    }

    fn add_constraint(&mut self, constraint: &TableConstraint) -> Result<(), SqlError> {
        let constraint = self.subject.add(self.ctx, constraint)?;
        self.set_constraints();
        self.changes.push(TableChange::AddConstraint(constraint));
        Ok(())
    }

    fn drop_constraint(&mut self, name: &str, if_exists: bool, cascade: bool) -> Result<(), SqlError> {
        match self.subject.remove(name) {
            Ok(_) => {
                self.set_constraints();
                self.changes.push(TableChange::DropConstraint { name: name.to_owned(), cascade });
                Ok(())
            }
            Err(error) if if_exists => {
                self.skip(SqlState::SUCCESSFUL_COMPLETION, &error.message);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn add_column(
        &mut self,
        column: &ColumnDef,
        constraints: &[TableConstraint],
        if_not_exists: bool,
    ) -> Result<(), SqlError> {
        let ColumnDef { name, ty, nullable, default, .. } = column;
        if self.table.desc.position(name).is_some() {
            let error = self.column_exists(name);
            if if_not_exists {
                self.skip(error.sqlstate, &error.message);
                return Ok(());
            }
            return Err(error);
        }
        check_column_count(self.table.desc.arity() + 1)?;
        check_storable(name, ty)?;
        let default = default.as_ref().map(|default| kept_default(self.ctx, name, ty, default)).transpose()?;
        let sequence = column_sequence(&mut self.subject, column)?;
        self.is_identity.push(sequence.as_ref().is_some_and(|sequence| sequence.identity.is_some()));
        let params = sequence.as_ref().map(|sequence| sequence.params.clone());
        let (name, ty) = (name.clone(), ty.clone());
        self.change(ColumnChange::Add { name, ty, nullable: *nullable, default, sequence })?;
        let given: Vec<usize> = (0..self.sources.len()).collect();
        let data_type = self.table.desc.columns[given.len()].data_type.clone();
        match params {
            Some(params) => self.sources.push(ColumnSource::Numbered(params, data_type)),
            None => {
                let new = default_exprs(self.ctx, &self.table, &given)?;
                self.sources.extend(new.into_iter().map(|(_, value)| ColumnSource::New(value, data_type.clone())));
            }
        }
        constraints.iter().try_for_each(|constraint| self.add_constraint(constraint))
    }

    fn set_type(&mut self, name: &str, ty: &PgType, using: Option<&sp::Expr>) -> Result<(), SqlError> {
        let at = self.position(name)?;
        let ColumnSource::Kept(column) = self.sources[at] else {
            let message = format!("cannot alter type of column \"{name}\" twice");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        };
        check_storable(name, ty)?;
        if self.is_identity[at] {
            let altered = retyped(self.ctx, self.before.id, column, ty)?;
            self.changes.extend(altered.map(TableChange::Sequence));
        }
        check_no_view_reads(self.ctx, self.before, column)?;
        self.check_no_reference(name, column)?;
        if using.is_none() && self.table.desc.columns[at].ty == *ty {
            return Ok(());
        }
        let values = conversion(self.ctx, self.before, column, ty, using)?;
        let default = converted_default(self.ctx, &self.table, at, ty)?;
        self.change(ColumnChange::SetType { column: at, ty: ty.clone(), default })?;
        check_constraints(self.ctx, &self.table)?;
        let goes = |index: &ItemRef| self.dropped.iter().any(|dropped| dropped.indexes.contains(&index.id));
        for index in self.ctx.catalog.indexes_on(self.before.id).iter().filter(|index| !goes(index)) {
            if let ItemKind::Index(index) = &index.kind {
                check_index(index, column, ty)?;
            }
        }
        self.sources[at] = ColumnSource::New(values, self.table.desc.columns[at].data_type.clone());
        Ok(())
    }

    /// Errors: 0A000 for a column of a foreign key, or one that such a column refers to.
    fn check_no_reference(&self, name: &str, column: usize) -> Result<(), SqlError> {
        let mut own = self.before.foreign_keys().map(|(_, foreign)| &foreign.columns);
        let others = references_to(self.ctx.catalog, self.before);
        if own.any(|columns| columns.contains(&column))
            || others.iter().any(|reference| reference.foreign.referred.contains(&column))
        {
            return Err(SqlError::unsupported(format!("ALTER COLUMN \"{name}\" TYPE of a foreign key's column")));
        }
        Ok(())
    }

    fn drop_column(&mut self, name: &str, if_exists: bool, cascade: bool) -> Result<(), SqlError> {
        let at = match self.position(name) {
            Ok(at) => at,
            Err(error) if if_exists => {
                self.skip(SqlState::SUCCESSFUL_COMPLETION, &error.message);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if self.table.desc.arity() == 1 {
            return Err(SqlError::unsupported("a table without columns"));
        }
        self.is_identity.remove(at);
        if let ColumnSource::Kept(column) = self.sources.remove(at) {
            self.dropped.push(self.dependents(name, column, cascade)?);
        }
        self.change(ColumnChange::Drop(at))
    }

    /// What depends on a column that the catalog has at this position.
    fn dependents(&self, name: &str, column: usize, cascade: bool) -> Result<OfColumn, SqlError> {
        let owned = owned_by(self.ctx.catalog, self.before.id, column);
        let indexes = owned.into_iter().map(|(sequence, _)| sequence.id).collect();
        let references = references_to(self.ctx.catalog, self.before).into_iter().filter(|reference| {
            reference.foreign.referred.contains(&column)
                && !(reference.child.id == self.before.id && reference.foreign.columns.contains(&column))
        });
        let references = references.map(|reference| described(&reference)).collect();
        let mut dropped = OfColumn { column: name.to_owned(), cascade, indexes, views: Vec::new(), references };
        for id in self.ctx.catalog.dependents(self.before.id) {
            let Some(dependent) = self.ctx.catalog.item(id) else { continue };
            match &dependent.kind {
                ItemKind::Index(index) if index_reads(index, self.before, column)? => dropped.indexes.push(id),
                ItemKind::View(_) | ItemKind::MaterializedView(_) | ItemKind::SemanticModel(_)
                    if view_reads(self.ctx, &dependent, self.before, column)? =>
                {
                    dropped.views.push(id);
                }
                _ => {}
            }
        }
        Ok(dropped)
    }

    fn finish(mut self) -> Result<Plan, SqlError> {
        if self.changes.is_empty() {
            return Ok(Plan::NoOp { tag: TAG, notices: self.notices });
        }
        let drops = plan_column_drops(self.ctx, self.before, &self.dropped, &mut self.notices)?;
        let changes_rows =
            |change: &TableChange| matches!(change, TableChange::Column(change) if change.changes_rows());
        let rewrite = self.changes.iter().any(changes_rows).then_some(self.sources);
        let (id, changes, notices) = (self.before.id, self.changes, self.notices);
        Ok(Plan::AlterTable(AlterTablePlan { id, drops, changes, rewrite, notices }))
    }

    /// Makes a change of the columns.
    fn change(&mut self, change: ColumnChange) -> Result<(), SqlError> {
        column::change(&mut self.table, &change)?;
        self.subject.desc = Arc::clone(&self.table.desc);
        for gone in self.subject.constraints.clone() {
            if self.table.constraints().iter().all(|constraint| constraint.name != gone.name) {
                self.subject.remove(&gone.name)?;
            }
        }
        self.subject.constraints = self.table.constraints().to_vec();
        self.changes.push(TableChange::Column(change));
        Ok(())
    }

    /// Gives the table the constraints that it has now.
    fn set_constraints(&mut self) {
        if let ItemKind::Table { constraints, .. } = &mut self.table.kind {
            constraints.clone_from(&self.subject.constraints);
        }
    }

    /// Errors: 42601 for an identity column, which has its DEFAULT and NOT NULL from that.
    fn check_no_identity(&self, at: usize) -> Result<(), SqlError> {
        if self.is_identity[at] {
            let (column, table) = (&self.table.desc.columns[at].name, &self.table.name.item);
            let message = format!("column \"{column}\" of relation \"{table}\" is an identity column");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        Ok(())
    }

    fn position(&self, name: &str) -> Result<usize, SqlError> {
        self.table.desc.position(name).ok_or_else(|| unknown_column(&self.table, name))
    }

    fn column_exists(&self, name: &str) -> SqlError {
        let message = format!("column \"{name}\" of relation \"{}\" already exists", self.table.name.item);
        SqlError::new(SqlState::DUPLICATE_COLUMN, message)
    }

    fn skip(&mut self, sqlstate: SqlState, what: &str) {
        self.notices.push(PlanNotice { sqlstate, message: format!("{what}, skipping"), detail: None });
    }
}

fn wrong_kind(item: &Arc<ItemRef>, actions: &[TableAction]) -> SqlError {
    let (name, kind) = (&item.name.item, item.object_kind());
    let action = actions.first().map_or("", TableAction::name);
    if matches!(actions.first(), Some(TableAction::RenameColumn { .. } | TableAction::SetDefault { .. })) {
        return SqlError::unsupported(format!("{action} of {} {kind}", super::article(kind)));
    }
    SqlError::new(
        SqlState::WRONG_OBJECT_TYPE,
        format!("ALTER action {action} cannot be performed on relation \"{name}\""),
    )
    .with_detail(format!("This operation is not supported for {}.", plural(kind)))
}
