//! ALTER TABLE: columns and constraints come, go and are renamed.
//!
//! Whether the rows satisfy a new constraint is for the committer to see. Where columns come or go, every row is another one:
//! the table gets a new id, under which the committer writes them, and what is computed from it is built anew, as if a view
//! had been replaced. Its oid, and so what users see of it, stays.

use super::{StateDiff, Transaction, missing};
use crate::durable::keys::Key;
use crate::durable::types::normalize;
use crate::error::CatalogError;
use crate::objects::AclItem;
use engine::Engine;
use engine::error::SqlError;
use engine::names::ObjectId;
use repr::GlobalId;
use repr::sqlstate::SqlState;
use sql::plan::column::{self, ColumnChange};
use sql::plan::constraint::{Reference, index_of, references_to};
use sql::plan::{CatalogView, ConstraintDef, ConstraintKind, ItemKind, ItemRef, TableChange};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A primary key that a table had.
struct LostKey {
    name: String,
    /// Whether what needs it goes as well.
    cascade: bool,
}

impl Transaction {
    /// A constraint with an oid of its own.
    pub(super) fn with_oid(&mut self, new: ConstraintDef) -> Result<ConstraintDef, CatalogError> {
        Ok(ConstraintDef { oid: self.allocate_oid()?, ..new })
    }

    pub(super) fn alter_table(
        &mut self,
        id: GlobalId,
        drops: &[ObjectId],
        changes: Vec<TableChange>,
        engine: &Engine,
    ) -> Result<(), CatalogError> {
        self.check_not_required(ObjectId::Item(id), "alter")?;
        self.drop_objects(drops)?;
        let (mut is_rewritten, mut is_renamed) = (false, false);
        let mut lost = Vec::new();
        // What it refers to by foreign keys that go is checked otherwise as well, as is what it refers to by new ones.
        self.alter_parents(id);
        for change in changes {
            self.lose_referring(id, &change)?;
            let item = self.state.item(id).ok_or_else(|| missing(ObjectId::Item(id)))?;
            let mut altered = ItemRef::clone(&item);
            match change {
                TableChange::Sequence(plan) => {
                    self.alter_sequence(plan)?;
                    continue;
                }
                TableChange::Column(change) => {
                    is_rewritten |= change.changes_rows();
                    is_renamed |= matches!(change, ColumnChange::Rename { .. });
                    column::change(&mut altered, &change)?;
                    self.follow(&item, &change)?;
                    if let ColumnChange::Add { sequence: Some(new), .. } = change {
                        let column = altered.desc.arity() - 1;
                        self.state.put_item(altered);
                        self.create_column_sequence(id, column, new)?;
                        continue;
                    }
                }
                change => {
                    lost.extend(self.alter_constraint(&item, &mut altered, change)?);
                }
            }
            self.state.put_item(altered);
            self.create_key_indexes(id)?;
        }
        self.touch(ObjectId::Item(id));
        self.alter_parents(id);
        for LostKey { name, cascade } in lost {
            self.lose_key(id, &name, cascade, engine)?;
        }
        if !is_rewritten && !is_renamed {
            self.diff.push(StateDiff::TableAltered(id));
            return Ok(());
        }
        let affected = self.state.with_dependents([id]);
        self.describe_dependents(id, &affected, engine)?;
        if is_rewritten {
            self.rebuild(&affected);
        } else {
            self.diff.extend([StateDiff::TableAltered(id), StateDiff::Renamed(ObjectId::Item(id))]);
        }
        Ok(())
    }

    /// Adds, changes or takes away a constraint of a table. Returns a primary key that is lost.
    fn alter_constraint(
        &mut self,
        item: &ItemRef,
        altered: &mut ItemRef,
        change: TableChange,
    ) -> Result<Option<LostKey>, CatalogError> {
        let ItemKind::Table { constraints, .. } = &mut altered.kind else {
            return Err(missing(ObjectId::Item(item.id)));
        };
        match change {
            TableChange::AddConstraint(new) => {
                self.check_name(item, &new.name, new.is_key())?;
                let new = self.with_oid(new)?;
                if new.is_primary() {
                    let desc = Arc::make_mut(&mut altered.desc);
                    new.columns().iter().for_each(|column| desc.columns[*column].nullable = false);
                }
                constraints.push(new);
            }
            TableChange::SetDeferral { name, deferral } => {
                let at = position(item, &name)?;
                if let ConstraintKind::Foreign(foreign) = &mut constraints[at].kind {
                    foreign.deferral = deferral;
                }
            }
            TableChange::ValidateConstraint(name) => {
                let at = position(item, &name)?;
                if let ConstraintKind::Foreign(foreign) = &mut constraints[at].kind {
                    foreign.is_valid = true;
                }
            }
            TableChange::DropConstraint { name, cascade } => {
                let dropped = constraints.remove(position(item, &name)?);
                let index = index_of(&self.state, item.id, dropped.oid);
                index.iter().for_each(|it| self.drop_object(ObjectId::Item(it.id)));
                return Ok(dropped.is_primary().then_some(LostKey { name, cascade }));
            }
            TableChange::RenameConstraint { from, to } => {
                let at = position(item, &from)?;
                self.check_name(item, &to, constraints[at].is_key())?;
                constraints[at].name.clone_from(&to);
                let index = match constraints[at].is_key() {
                    true => to,
                    false => self.free_name(item.schema, &format!("{to}_idx")),
                };
                index_of(&self.state, item.id, constraints[at].oid).iter().for_each(|it| self.rename_item(it, &index));
            }
            TableChange::Column(_) | TableChange::Sequence(_) => {}
        }
        Ok(None)
    }

    /// Views that group by a primary key need it for the columns beside it: without it they go as well, or are in the way. Error
    /// 2BP01.
    fn lose_key(&mut self, table: GlobalId, key: &str, cascade: bool, engine: &Engine) -> Result<(), CatalogError> {
        let mut needing = Vec::new();
        for id in self.state.with_dependents([table]) {
            if let Some(item) = self.state.item(id).filter(|item| item.view().is_some())
                && self.described(&item, engine).is_err()
            {
                needing.push(id);
            }
        }
        if cascade {
            let doomed = self.state.with_dependents(needing).into_iter().rev().map(ObjectId::Item);
            return self.drop_objects(&doomed.collect::<Vec<_>>());
        }
        let object = format!("constraint {key} on {}", self.state.describe(ObjectId::Item(table)));
        let depends = |id| format!("{} depends on {object}", self.state.describe(ObjectId::Item(id)));
        let dependents: Vec<String> = needing.into_iter().map(depends).collect();
        if dependents.is_empty() { Ok(()) } else { Err(CatalogError::DependentsExist { object, dependents }) }
    }

    /// What a table refers to by foreign keys is checked otherwise from here on.
    pub(super) fn alter_parents(&mut self, child: GlobalId) {
        let parents: Vec<GlobalId> = self.state.item(child).iter().flat_map(|item| item.parents()).collect();
        self.diff.extend(parents.into_iter().map(StateDiff::TableAltered));
    }

    /// Takes away the foreign keys that refer to a table, as far as `goes` says so.
    pub(super) fn lose_references(&mut self, parent: &ItemRef, goes: impl Fn(&Reference) -> bool) {
        for reference in references_to(&self.state, parent).into_iter().filter(goes) {
            let Some(child) = self.state.item(reference.child.id) else { continue };
            let mut item = ItemRef::clone(&child);
            if let ItemKind::Table { constraints, .. } = &mut item.kind {
                constraints.retain(|constraint| constraint.oid != reference.oid);
            }
            self.state.put_item(item);
            self.touch(ObjectId::Item(child.id));
            self.diff.extend([child.id, parent.id].map(StateDiff::TableAltered));
            let index = index_of(&self.state, child.id, reference.oid);
            index.iter().for_each(|index| self.drop_object(ObjectId::Item(index.id)));
        }
    }

    /// Foreign keys that refer to what a change of a table takes away go before it, or are in the way. Error 2BP01.
    fn lose_referring(&mut self, id: GlobalId, change: &TableChange) -> Result<(), CatalogError> {
        let Some(table) = self.state.item(id) else { return Ok(()) };
        let (key, cascade) = match change {
            TableChange::Column(ColumnChange::Drop(at)) => {
                self.lose_references(&table, |reference| reference.foreign.referred.contains(at));
                return Ok(());
            }
            TableChange::DropConstraint { name, cascade } => {
                (table.constraints().iter().find(|constraint| constraint.name == *name), *cascade)
            }
            _ => return Ok(()),
        };
        let Some(ConstraintDef { oid, name, .. }) = key.filter(|key| key.is_key()) else { return Ok(()) };
        let refers = |reference: &Reference| reference.key.oid == *oid;
        if cascade {
            self.lose_references(&table, refers);
            return Ok(());
        }
        let depends =
            |it: Reference| format!("constraint {} on table {} depends on index {name}", it.name, it.child.name.item);
        let dependents: Vec<String> =
            references_to(&self.state, &table).into_iter().filter(refers).map(depends).collect();
        let object = format!("constraint {name} on {}", self.state.describe(ObjectId::Item(id)));
        if dependents.is_empty() { Ok(()) } else { Err(CatalogError::DependentsExist { object, dependents }) }
    }

    /// Changes what refers to a table as a change of its columns demands.
    fn follow(&mut self, table: &ItemRef, change: &ColumnChange) -> Result<(), CatalogError> {
        for id in self.state.dependents(table.id).into_iter().chain(self.state.children(table.id)) {
            let Some(item) = self.state.item(id) else { continue };
            let mut followed = ItemRef::clone(&item);
            column::follow(&mut followed, table, change)?;
            if followed != *item {
                followed.desc = Arc::new(normalize(&followed.desc));
                self.state.put_item(followed);
                self.touch(ObjectId::Item(id));
            }
        }
        if let ColumnChange::Drop(at) = change {
            self.drop_column_comment(table.id, *at);
            self.drop_column_acl(table.id, *at);
        }
        Ok(())
    }

    /// The comments on the columns behind one that goes are on one before.
    fn drop_column_comment(&mut self, table: GlobalId, at: usize) {
        let object = ObjectId::Item(table);
        let Some(comments) = self.state.comments.remove(&object) else { return };
        let kept = comments.into_iter().filter_map(|(column, text)| match column {
            Some(column) if column == at => None,
            Some(column) if column > at => Some((Some(column - 1), text)),
            column => Some((column, text)),
        });
        let kept: BTreeMap<Option<usize>, String> = kept.collect();
        if !kept.is_empty() {
            self.state.comments.insert(object, kept);
        }
        self.dirty.insert(Key::Comment(object));
    }

    /// Likewise the privileges.
    fn drop_column_acl(&mut self, table: GlobalId, at: usize) {
        self.change_acl(ObjectId::Item(table), |item| match item.column {
            Some(column) if column == at => None,
            Some(column) if column > at => Some(AclItem { column: Some(column - 1), ..item }),
            _ => Some(item),
        });
    }

    /// A constraint's name is its own within the table, and a key's within the schema's relations as well.
    fn check_name(&self, table: &ItemRef, name: &str, is_key: bool) -> Result<(), CatalogError> {
        if is_key && self.state.item_by_name(table.schema, name).is_some() {
            let message = format!("relation \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message).into());
        }
        self.check_constraint_name(table, name)
    }

    /// Errors: 42710.
    pub(super) fn check_constraint_name(&self, table: &ItemRef, name: &str) -> Result<(), CatalogError> {
        if table.constraints().iter().any(|constraint| constraint.name == name) {
            let message = format!("constraint \"{name}\" for relation \"{}\" already exists", table.name.item);
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message).into());
        }
        Ok(())
    }
}

fn position(table: &ItemRef, name: &str) -> Result<usize, CatalogError> {
    let at = table.constraints().iter().position(|constraint| constraint.name == name);
    at.ok_or_else(|| {
        let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name.item);
        SqlError::new(SqlState::UNDEFINED_OBJECT, message).into()
    })
}
