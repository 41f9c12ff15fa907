//! ALTER TABLE: constraints come, go and are renamed. Whether the rows satisfy a new one is for the committer to see.

use super::{StateDiff, Transaction, missing};
use crate::error::CatalogError;
use repr::GlobalId;
use repr::sqlstate::SqlState;
use sql::error::SqlError;
use sql::names::ObjectId;
use sql::plan::constraint::key_named;
use sql::plan::{CatalogView, ConstraintDef, ConstraintKind, ItemKind, ItemRef, TableChange};
use std::sync::Arc;

impl Transaction {
    /// A constraint with oids of its own.
    pub(super) fn with_oids(&mut self, mut new: ConstraintDef) -> Result<ConstraintDef, CatalogError> {
        new.oid = self.allocate_oid()?;
        if let ConstraintKind::Key { index_oid, .. } = &mut new.kind {
            *index_oid = self.allocate_oid()?;
        }
        Ok(new)
    }

    pub(super) fn alter_table(&mut self, id: GlobalId, changes: Vec<TableChange>) -> Result<(), CatalogError> {
        self.check_not_required(ObjectId::Item(id), "alter")?;
        for change in changes {
            let item = self.state.item(id).ok_or_else(|| missing(ObjectId::Item(id)))?;
            let mut altered = ItemRef::clone(&item);
            let ItemKind::Table { constraints, .. } = &mut altered.kind else {
                return Err(missing(ObjectId::Item(id)));
            };
            match change {
                TableChange::AddConstraint(new) => {
                    self.check_name(&item, &new.name, new.is_key())?;
                    let new = self.with_oids(new)?;
                    if new.is_primary() {
                        let desc = Arc::make_mut(&mut altered.desc);
                        new.columns().iter().for_each(|column| desc.columns[*column].nullable = false);
                    }
                    constraints.push(new);
                }
                TableChange::DropConstraint(name) => {
                    let at = position(&item, &name)?;
                    constraints.remove(at);
                }
                TableChange::RenameConstraint { from, to } => {
                    let at = position(&item, &from)?;
                    self.check_name(&item, &to, constraints[at].is_key())?;
                    constraints[at].name = to;
                }
            }
            self.state.put_item(altered);
        }
        self.touch(ObjectId::Item(id));
        self.diff.push(StateDiff::TableAltered(id));
        Ok(())
    }

    /// A constraint's name is its own within the table, and a key's within the schema's relations as well.
    fn check_name(&self, table: &ItemRef, name: &str, is_key: bool) -> Result<(), CatalogError> {
        let taken = |sqlstate, message| Err(SqlError::new(sqlstate, message).into());
        let relation = || self.state.item_by_name(table.schema, name).is_some();
        if is_key && (relation() || key_named(&self.state, table.schema, name).is_some()) {
            return taken(SqlState::DUPLICATE_TABLE, format!("relation \"{name}\" already exists"));
        }
        if table.constraints().iter().any(|constraint| constraint.name == name) {
            let message = format!("constraint \"{name}\" for relation \"{}\" already exists", table.name.item);
            return taken(SqlState::DUPLICATE_OBJECT, message);
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
