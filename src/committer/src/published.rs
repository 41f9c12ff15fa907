//! Everything that a statement reads besides its own session, as an immutable value: the catalog with the handles on everything that
//! it names, swapped as one by the committer after each change of the catalog.

use crate::constraint::TableConstraints;
use crate::error::CommitError;
use crate::sequence::Sequence;
use catalog::builtin::functions::BuiltinFunctions;
use catalog::state::State;
use catalog::transact::{Prepared, StateDiff};
use compute_client::clock::CollectionClock;
use compute_client::index::IndexHandle;
use compute_client::plan::IndexInfo;
use engine::{CatalogFunctions, Engine};
use repr::{GlobalId, RelationDesc, Timestamp};
use sql::plan::{CatalogView, ItemKind, ItemRef};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The catalog and the handles on what it names, at one revision.
pub struct Published {
    /// The catalog.
    pub state: Arc<State>,
    /// Every table.
    pub tables: HashMap<GlobalId, Table>,
    /// By relation: its indexes.
    pub indexes: HashMap<GlobalId, Vec<Arc<IndexInfo>>>,
    /// Every sequence.
    pub sequences: HashMap<GlobalId, Arc<Sequence>>,
    /// By oid: the sequences.
    pub sequence_oids: HashMap<u32, GlobalId>,
    /// The functions that only the catalog can answer.
    pub functions: Arc<dyn CatalogFunctions>,
    /// Whether reads of indexes are answered on their connection's thread.
    pub fast_path: bool,
    /// What a transaction that has not committed has created: nothing is stored of it yet.
    pub created: HashSet<GlobalId>,
    /// By the id that it had, the id of a table that has had other columns since.
    pub successors: HashMap<GlobalId, GlobalId>,
    /// Indexes of tables that were stopped for want of memory: their tables are read without them.
    pub stopped: Vec<Arc<IndexInfo>>,
}

/// A table as readers and the committer need it.
#[derive(Clone)]
pub struct Table {
    /// When it was last written.
    pub clock: Arc<CollectionClock>,
    /// Its columns.
    pub desc: Arc<RelationDesc>,
    /// What it demands of its rows.
    pub constraints: Arc<TableConstraints>,
    /// Before this time its rows are not to be had: they were others, under another id.
    pub readable_from: Timestamp,
}

impl Table {
    /// A table as the catalog has it.
    pub fn new(
        engine: &Engine,
        state: &State,
        item: &ItemRef,
        clock: Arc<CollectionClock>,
        readable_from: Timestamp,
    ) -> Result<Table, CommitError> {
        let constraints = TableConstraints::of(engine, state, item)?;
        Ok(Table { clock, desc: Arc::clone(&item.desc), constraints, readable_from })
    }
}

impl Published {
    /// A catalog with nothing in it.
    pub fn empty() -> Published {
        Published::new(Arc::new(catalog::builtin::initial()), HashMap::new(), HashMap::new(), HashMap::new())
    }

    /// A catalog with these handles.
    pub fn new(
        state: Arc<State>,
        tables: HashMap<GlobalId, Table>,
        indexes: HashMap<GlobalId, Vec<Arc<IndexInfo>>>,
        sequences: HashMap<GlobalId, Arc<Sequence>>,
    ) -> Published {
        let functions = Arc::new(BuiltinFunctions::new(Arc::clone(&state)));
        let fast_path = state.system().get_bool("enable_frontend_peek_sequencing");
        let (created, successors) = (HashSet::new(), HashMap::new());
        let (sequence_oids, stopped) = (HashMap::new(), Vec::new());
        let mut published = Published {
            state,
            tables,
            indexes,
            sequences,
            sequence_oids,
            functions,
            fast_path,
            created,
            successors,
            stopped,
        };
        for id in published.sequences.keys().copied().collect::<Vec<_>>() {
            published.note_oid(id);
        }
        published
    }

    /// What comes after it: another state of the catalog, and the same handles.
    pub fn next(&self, state: Arc<State>) -> Published {
        let (successors, stopped) = (self.successors.clone(), self.stopped.clone());
        let next = Published::new(state, self.tables.clone(), self.indexes.clone(), self.sequences.clone());
        Published { successors, stopped, ..next }
    }

    /// Every index and materialized view that was started, those that were stopped since included.
    pub fn started(&self) -> impl Iterator<Item = &Arc<IndexInfo>> {
        self.indexes.values().flatten().chain(&self.stopped)
    }

    /// Adds a sequence, or puts it in the place of one before.
    pub fn put_sequence(&mut self, sequence: Arc<Sequence>) {
        let id = sequence.id;
        self.sequences.insert(id, sequence);
        self.note_oid(id);
    }

    fn note_oid(&mut self, sequence: GlobalId) {
        if let Some(item) = self.state.item(sequence) {
            self.sequence_oids.insert(item.oid, sequence);
        }
    }

    /// What the transaction sees that has made this change and not committed: without handles on what is new, which has no
    /// dataflows yet, and on what has gone.
    pub fn staged(&self, engine: &Engine, prepared: Prepared, number: u64) -> Result<Published, CommitError> {
        let state = Arc::new(prepared.state.staged(number));
        let (mut tables, mut indexes, mut sequences) =
            (self.tables.clone(), self.indexes.clone(), self.sequences.clone());
        sequences.retain(|id, _| state.item(*id).is_some());
        tables.retain(|id, _| state.item(*id).is_some());
        indexes.values_mut().for_each(|indexes| indexes.retain(|index| state.item(index.handle.id).is_some()));
        for change in &prepared.diff {
            let restart = match change {
                StateDiff::SequenceAltered(_, restart) => *restart,
                _ => None,
            };
            if let StateDiff::SequenceCreated(id) | StateDiff::SequenceAltered(id, _) = change
                && let Some(item) = state.item(*id)
            {
                sequences.extend(Sequence::staged(&item, sequences.get(id), restart).map(|sequence| (*id, sequence)));
            }
            if let StateDiff::TableCreated(id) | StateDiff::TableAltered(id) = change
                && let Some(item) = state.item(*id)
            {
                let (clock, from) = match tables.get(id) {
                    Some(table) => (Arc::clone(&table.clock), table.readable_from),
                    None => (Arc::default(), 0),
                };
                tables.insert(*id, Table::new(engine, &state, &item, clock, from)?);
            }
        }
        let created = self.created.iter().copied().chain(prepared.created).collect();
        let mut successors = self.successors.clone();
        successors.extend(prepared.rewritten);
        let stopped = self.stopped.clone();
        Ok(Published { created, successors, stopped, ..Published::new(state, tables, indexes, sequences) })
    }

    /// The table that had this id before it got other columns.
    pub fn successor(&self, id: GlobalId) -> Option<Arc<ItemRef>> {
        let mut id = *self.successors.get(&id)?;
        while let Some(next) = self.successors.get(&id) {
            id = *next;
        }
        self.state.item(id)
    }

    /// What maintains a materialized view.
    pub fn maintained(&self, id: GlobalId) -> Option<&Arc<IndexHandle>> {
        self.indexes_on(id).iter().map(|index| &index.handle).find(|handle| handle.id == id)
    }

    /// What was stopped of what is maintained under this id, or on the table with it.
    pub fn stopped_on(&self, id: GlobalId) -> Vec<GlobalId> {
        let is_on = |index: GlobalId| match self.state.item(index).map(|item| item.kind.clone()) {
            Some(ItemKind::Index(index)) => index.on == id,
            _ => false,
        };
        let all = self.started().map(|index| &index.handle).filter(|handle| handle.stopped().is_some());
        all.map(|handle| handle.id).filter(|index| *index == id || is_on(*index)).collect()
    }

    /// Whether a table has conditions that may take long.
    pub fn has_long_checks(&self, table: GlobalId) -> bool {
        self.tables.get(&table).is_some_and(|table| table.constraints.has_long_checks)
    }

    /// The index with this id on a relation.
    pub fn index_on(&self, relation: GlobalId, id: GlobalId) -> Option<&Arc<IndexInfo>> {
        self.indexes_on(relation).iter().find(|index| index.handle.id == id)
    }

    /// The indexes on a relation.
    pub fn indexes_on(&self, id: GlobalId) -> &[Arc<IndexInfo>] {
        self.indexes.get(&id).map_or(&[], Vec::as_slice)
    }
}
