//! Opening the stored catalog, or making the first one.

use crate::durable;
use crate::error::CatalogError;
use crate::state::State;
use crate::transact::{StateDiff, Transaction};
use engine::names::SchemaId;
use persist::{MetaWrite, PersistClient};
use repr::GlobalId;
use sql::names::is_temporary;
use sql::plan::constraint::index_of;
use sql::plan::{ItemKind, ItemRef};
use std::sync::Arc;

/// The catalog as it was when the process began. Keeps no current state: the committer, the one writer, publishes that.
#[derive(Debug)]
pub struct Catalog {
    opened: Arc<State>,
    bootstrap: Option<Vec<MetaWrite>>,
}

impl Catalog {
    /// Reads the catalog of a data directory; a new one gets the catalog that every server begins with, which has to be
    /// committed ([`Catalog::bootstrap_meta`]). `system_defaults` are defaults of parameters, by name, from the command line.
    pub fn open(persist: &PersistClient, system_defaults: &[(String, String)]) -> Result<Catalog, CatalogError> {
        let stored = persist.meta_scan(durable::PREFIX)?;
        let (mut state, bootstrap) = if stored.is_empty() {
            let prepared = Transaction::bootstrap()?;
            (prepared.state, Some(prepared.meta))
        } else {
            let mut state = durable::decode(stored)?;
            // A directory from before there were passwords.
            let secret = state.mock_secret.bytes().is_none().then(|| state.choose_mock_secret());
            let (state, mut meta) = of_this_format(state)?;
            meta.extend(secret);
            (state, (!meta.is_empty()).then_some(meta))
        };
        for (name, value) in system_defaults {
            state.system.set_default(name, value)?;
        }
        state.revision = 1;
        Ok(Catalog { opened: Arc::new(state), bootstrap })
    }

    /// In a new data directory, or one that lacks something, what the committer has to commit before anything else.
    pub fn bootstrap_meta(&self) -> Option<Vec<MetaWrite>> {
        self.bootstrap.clone()
    }

    /// The state that was opened, and the difference from a catalog without users' objects.
    pub fn boot(&self) -> (Arc<State>, Vec<StateDiff>) {
        (Arc::clone(&self.opened), difference_from_empty(&self.opened))
    }
}

/// Drops the temporary tables of sessions that have ended with the process before, and gives keys of a format before their indexes.
pub(crate) fn of_this_format(state: State) -> Result<(State, Vec<MetaWrite>), CatalogError> {
    let left = state.all_schemas().filter(|schema| is_temporary(&schema.name));
    let left: Vec<SchemaId> = left.map(|schema| schema.id).collect();
    let mut transaction = Transaction::new(&state);
    for schema in &left {
        transaction.drop_temporary(*schema)?;
    }
    let lacks_index = |table: &&Arc<ItemRef>| {
        let mut keys = table.constraints().iter().filter(|constraint| constraint.is_key());
        keys.any(|key| index_of(&state, table.id, key.oid).is_none())
    };
    let lacking = state.all_items().filter(|item| !left.contains(&item.schema)).filter(lacks_index);
    let lacking: Vec<GlobalId> = lacking.map(|table| table.id).collect();
    if left.is_empty() && lacking.is_empty() {
        return Ok((state, Vec::new()));
    }
    lacking.into_iter().try_for_each(|table| transaction.create_key_indexes(table))?;
    let prepared = transaction.finish();
    Ok((prepared.state, prepared.meta))
}

/// What a catalog without users' objects has to go through to become `state`.
pub(crate) fn difference_from_empty(state: &State) -> Vec<StateDiff> {
    let created = |of_kind: fn(&ItemKind) -> bool, diff: fn(GlobalId) -> StateDiff| {
        let items = state.items.values().filter(move |item| of_kind(&item.kind));
        items.map(move |item| diff(item.id))
    };
    // What one of them reads may have a greater id.
    let materialized = state
        .with_dependents(state.items.keys().copied())
        .into_iter()
        .filter(|id| state.items.get(id).is_some_and(|item| matches!(item.kind, ItemKind::MaterializedView(_))))
        .map(StateDiff::MaterializedViewCreated);
    state
        .clusters
        .keys()
        .map(|id| StateDiff::ClusterCreated(*id))
        .chain(created(|kind| matches!(kind, ItemKind::Table { .. }), StateDiff::TableCreated))
        .chain(created(|kind| matches!(kind, ItemKind::Sequence(_)), StateDiff::SequenceCreated))
        .chain(created(|kind| matches!(kind, ItemKind::View(_)), StateDiff::ViewCreated))
        .chain(materialized)
        .chain(created(
            |kind| matches!(kind, ItemKind::Index(index) if index.cluster.is_some()),
            StateDiff::IndexCreated,
        ))
        .chain([StateDiff::SystemVarsChanged])
        .collect()
}
