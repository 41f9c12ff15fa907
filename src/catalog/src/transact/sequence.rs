//! CREATE and ALTER SEQUENCE, and the sequences that come and go with columns.

use super::{StateDiff, Transaction, missing};
use crate::error::CatalogError;
use engine::names::{ObjectId, RoleId};
use repr::GlobalId;
use sql::plan::sequence::{COLUMNS, NewSequence, default_sql, defaults_naming, named_in};
use sql::plan::{AlterSequencePlan, CatalogView, CreateSequencePlan, ItemKind, ItemRef};
use sql::sequence::{SequenceDef, SequenceOwner};

impl Transaction {
    pub(super) fn create_sequence(&mut self, plan: CreateSequencePlan, owner: RoleId) -> Result<(), CatalogError> {
        self.check_exists(ObjectId::Role(owner))?;
        let schema = self.schema_for(plan.schema, owner)?;
        if self.is_taken(schema, &plan.name.item, plan.if_not_exists)? {
            return Ok(());
        }
        if let Some(owner) = &plan.sequence.owner {
            self.check_exists(ObjectId::Item(owner.table))?;
        }
        let id = self.create_item(schema, plan.name.item, owner, &COLUMNS, ItemKind::Sequence(plan.sequence))?;
        self.diff.push(StateDiff::SequenceCreated(id));
        Ok(())
    }

    /// The sequence of a column, which has been made, and the column's DEFAULT.
    pub(super) fn create_column_sequence(
        &mut self,
        table: GlobalId,
        column: usize,
        new: NewSequence,
    ) -> Result<(), CatalogError> {
        let NewSequence { name, params, identity } = new;
        let item = self.state.item(table).ok_or_else(|| missing(ObjectId::Item(table)))?;
        self.is_taken(item.schema, &name, false)?;
        let owner = Some(SequenceOwner { table, column, identity });
        let kind = ItemKind::Sequence(SequenceDef { params, owner });
        let id = self.create_item(item.schema, name, item.owner, &COLUMNS, kind)?;
        self.diff.push(StateDiff::SequenceCreated(id));
        let sequence = self.state.item(id).ok_or_else(|| missing(ObjectId::Item(id)))?;
        let mut table = ItemRef::clone(&item);
        if let ItemKind::Table { defaults, .. } = &mut table.kind {
            defaults[column] = Some(default_sql(sequence.oid));
        }
        self.state.put_item(table);
        self.touch(ObjectId::Item(item.id));
        Ok(())
    }

    pub(super) fn alter_sequence(&mut self, plan: AlterSequencePlan) -> Result<(), CatalogError> {
        let AlterSequencePlan { id, sequence, restart } = plan;
        self.check_not_required(ObjectId::Item(id), "alter")?;
        let item = self.state.item(id).ok_or_else(|| missing(ObjectId::Item(id)))?;
        let ItemKind::Sequence(before) = &item.kind else { return Err(missing(ObjectId::Item(id))) };
        if let Some(owner) = &sequence.owner {
            self.check_exists(ObjectId::Item(owner.table))?;
        }
        let is_other = before.params != sequence.params || restart.is_some();
        self.state.put_item(ItemRef { kind: ItemKind::Sequence(sequence), ..ItemRef::clone(&item) });
        self.touch(ObjectId::Item(id));
        self.diff.push(if is_other { StateDiff::SequenceAltered(id, restart) } else { StateDiff::Other });
        Ok(())
    }

    /// Takes the DEFAULTs away that name a sequence which is gone.
    pub(super) fn drop_defaults_naming(&mut self, sequence: u32) {
        for (table, _) in defaults_naming(&self.state, sequence) {
            let mut table = ItemRef::clone(&table);
            if let ItemKind::Table { defaults, .. } = &mut table.kind {
                let names = |default: &Option<String>| {
                    default.as_ref().is_some_and(|default| named_in(default).contains(&sequence))
                };
                defaults.iter_mut().filter(|default| names(default)).for_each(|default| *default = None);
            }
            let id = table.id;
            self.touch(ObjectId::Item(id));
            self.state.put_item(table);
            // SET DEFAULT of a foreign key gives another value.
            self.diff.push(StateDiff::TableAltered(id));
            self.alter_parents(id);
        }
    }
}
