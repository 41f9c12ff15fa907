//! CREATE and ALTER SEMANTIC MODEL: a model, and its cubes, which come and go with it.

use super::{StateDiff, Transaction, missing};
use crate::durable::keys::Key;
use crate::durable::types::normalize;
use crate::error::CatalogError;
use crate::objects::AclItem;
use crate::state::State;
use engine::error::SqlError;
use engine::names::{ObjectId, RoleId};
use engine::{Engine, SessionInfo};
use repr::sqlstate::SqlState;
use repr::{GlobalId, RelationDesc};
use sql::bind::DescribedCube;
use sql::plan::{
    AlterModelPlan, CatalogView, CreateModelPlan, CubeDef, ItemKind, ItemRef, PlanContext, describe_cubes,
};
use std::sync::Arc;

impl State {
    /// The cubes of a semantic model.
    pub(crate) fn cubes_of(&self, model: GlobalId) -> Vec<Arc<ItemRef>> {
        let dependents = self.dependents(model).into_iter().filter_map(|id| self.item(id));
        dependents.filter(|item| matches!(item.kind, ItemKind::Cube(_))).collect()
    }
}

impl Transaction {
    pub(super) fn create_model(&mut self, plan: CreateModelPlan, owner: RoleId) -> Result<(), CatalogError> {
        self.check_exists(ObjectId::Role(owner))?;
        for read in &plan.model.context.reads {
            self.check_exists(ObjectId::Item(read.id))?;
        }
        if self.is_taken(plan.schema, &plan.name.item, plan.if_not_exists)? {
            return Ok(());
        }
        let (columns, kind) = (RelationDesc::new([]), ItemKind::SemanticModel(plan.model));
        let id = self.create_item(plan.schema, plan.name.item, owner, &columns, kind)?;
        let model = self.state.item(id).expect("it was just created");
        for cube in plan.cubes.iter() {
            self.create_cube(&model, cube)?;
        }
        self.diff.push(StateDiff::Other);
        Ok(())
    }

    /// Cubes that stay keep their ids and privileges. Nothing depends on any of them.
    pub(super) fn alter_model(&mut self, plan: AlterModelPlan) -> Result<(), CatalogError> {
        let model = self.state.item(plan.id).ok_or_else(|| missing(ObjectId::Item(plan.id)))?;
        let old = self.state.cubes_of(plan.id);
        let stays = |cube: &ItemRef| plan.cubes.iter().any(|new| new.name == cube.name.item);
        let gone: Vec<ObjectId> = old.iter().filter(|cube| !stays(cube)).map(|cube| ObjectId::Item(cube.id)).collect();
        self.drop_objects(&gone)?;
        let model = ItemRef { kind: ItemKind::SemanticModel(plan.model), ..ItemRef::clone(&model) };
        self.state.put_item(model.clone());
        self.touch(ObjectId::Item(plan.id));
        for cube in plan.cubes.iter() {
            match old.iter().find(|old| old.name.item == cube.name) {
                Some(old) => {
                    let desc = Arc::new(normalize(&cube.desc));
                    self.move_column_privileges(old, &desc);
                    self.state.put_item(ItemRef { desc, ..ItemRef::clone(old) });
                    self.touch(ObjectId::Item(old.id));
                    self.state.comments.remove(&ObjectId::Item(old.id));
                    self.say_what_it_is(old.id, cube);
                }
                None => self.create_cube(&model, cube)?,
            }
        }
        self.diff.push(StateDiff::Other);
        Ok(())
    }

    /// Privileges on members stay with these, wherever their columns are now, and go with them.
    fn move_column_privileges(&mut self, old: &ItemRef, new: &RelationDesc) {
        let object = ObjectId::Item(old.id);
        let Some(acl) = self.state.acls.get_mut(&object) else { return };
        let moved = std::mem::take(acl).into_iter().filter_map(|item| match item.column {
            None => Some(item),
            Some(column) => {
                let column = new.position(&old.desc.columns.get(column)?.name)?;
                Some(AclItem { column: Some(column), ..item })
            }
        });
        *acl = moved.collect();
        self.dirty.insert(Key::Acl(object));
    }

    fn create_cube(&mut self, model: &ItemRef, cube: &DescribedCube) -> Result<(), CatalogError> {
        self.is_taken(model.schema, &cube.name, false)?;
        let kind = ItemKind::Cube(CubeDef { model: model.id });
        let id = self.create_item(model.schema, cube.name.clone(), model.owner, &cube.desc, kind)?;
        self.say_what_it_is(id, cube);
        self.diff.push(StateDiff::Other);
        Ok(())
    }

    /// The model's words about a cube and its members are its comments.
    fn say_what_it_is(&mut self, id: GlobalId, cube: &DescribedCube) {
        let object = ObjectId::Item(id);
        let (own, columns) = &cube.comments;
        self.state.set_comment(object, None, own.clone());
        for (at, comment) in columns.iter().enumerate() {
            self.state.set_comment(object, Some(at), comment.clone());
        }
        self.dirty.insert(Key::Comment(object));
    }

    /// Binds a model over what has replaced something that it reads. Its cubes keep their columns, but how those are stored follows from
    /// what they are computed from. Errors: it cannot be bound, or has other columns.
    pub(super) fn describe_cubes(&mut self, model: &ItemRef, engine: &Engine) -> Result<(), SqlError> {
        let (catalog, session) = (&self.state, SessionInfo::default());
        let ctx = PlanContext { engine, catalog, session: &session, role: model.owner, cluster: "", from_tables: true };
        let cubes = describe_cubes(&ctx, model)?.cubes;
        for old in self.state.cubes_of(model.id) {
            let new = cubes.iter().find(|cube| cube.name == old.name.item).map(|cube| Arc::new(normalize(&cube.desc)));
            let columns = |desc: &RelationDesc| {
                desc.columns.iter().map(|column| (column.name.clone(), column.ty.to_string())).collect::<Vec<_>>()
            };
            match new {
                Some(new) if columns(&new) == columns(&old.desc) => {
                    self.state.put_item(ItemRef { desc: new, ..ItemRef::clone(&old) });
                    self.touch(ObjectId::Item(old.id));
                }
                _ => {
                    let message = format!("the columns of cube {} would change", old.name);
                    return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
                }
            }
        }
        Ok(())
    }
}
