//! CREATE and ALTER SECRET.

use super::{StateDiff, Transaction, missing};
use crate::error::CatalogError;
use engine::names::{ObjectId, RoleId};
use repr::RelationDesc;
use sql::plan::{AlterSecretPlan, CatalogView, CreateSecretPlan, ItemKind, ItemRef};

impl Transaction {
    pub(super) fn create_secret(&mut self, plan: CreateSecretPlan, owner: RoleId) -> Result<(), CatalogError> {
        self.check_exists(ObjectId::Role(owner))?;
        if self.is_taken(plan.schema, &plan.name.item, plan.if_not_exists)? {
            return Ok(());
        }
        let (columns, kind) = (RelationDesc::new([]), ItemKind::Secret(plan.value));
        self.create_item(plan.schema, plan.name.item, owner, &columns, kind)?;
        self.diff.push(StateDiff::Other);
        Ok(())
    }

    pub(super) fn alter_secret(&mut self, AlterSecretPlan { id, value }: AlterSecretPlan) -> Result<(), CatalogError> {
        let item = self.state.item(id).ok_or_else(|| missing(ObjectId::Item(id)))?;
        self.state.put_item(ItemRef { kind: ItemKind::Secret(value), ..ItemRef::clone(&item) });
        self.touch(ObjectId::Item(id));
        self.diff.push(StateDiff::Other);
        Ok(())
    }
}
