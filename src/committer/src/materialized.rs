//! Materialized views as the committer sees them: what happens in one is fed to what reads it, and written down.
//!
//! A view's dataflow is like an index's. Here its changes are taken as they are published, sent on to the clusters that read
//! the view, and kept until a commit takes them along: the committer is the one writer of shards, and a view costs no
//! commit of its own as long as there are others. Its shard is for the next run: what it held when the server stopped is shown
//! until the dataflow has caught up, if nothing was written since that it has not seen. A *mark* in the store says so.
//!
//! When a dataflow starts, its first contents are compared with the shard and the difference is written: whatever a crash
//! left there is corrected, and doing it twice is harmless.
//!
//! # Invariants
//! - A mark is durable only while the shard is what the view is as of the latest commit: the commit that touches a table
//!   below the view removes it. A view whose rows come and go with time has none.

use crate::environment::Environment;
use crate::error::CommitError;
use crate::request::Request;
use compute_client::controller::Controller;
use compute_client::index::IndexHandle;
use compute_client::tail::{At, Changes, Tail};
use ore::exit::End;
use persist::{MetaWrite, PersistClient, PersistError, ShardSnapshot};
use repr::{Diff, GlobalId, Timestamp, Updates};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// Updates in a piece; a commit takes at most [`PIECES_MAX`] of each view.
const PIECE_UPDATES: usize = 32_768;
const PIECES_MAX: usize = 4;
/// The first byte of a shard's row says what the rest is.
const OK: u8 = 0;
const ERR: u8 = 1;

const LOST: &str = "a materialized view's shard is damaged and no longer written; the view itself is served";

/// All materialized views.
#[derive(Default)]
pub(crate) struct Materialized {
    views: BTreeMap<GlobalId, View>,
}

struct View {
    tail: Tail,
    /// What has been taken from the tail ends here.
    upper: Timestamp,
    /// The latest time to which the view was told to come.
    due: Timestamp,
    shard: Shard,
    /// What is still to be written.
    pending: VecDeque<Arc<Updates>>,
    /// Whether the mark is durable.
    is_marked: bool,
}

/// What is known of a view's shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shard {
    /// Nothing yet; the dataflow has not published.
    Unknown,
    /// It is being compared with what the dataflow has published first.
    Compared,
    /// With what is pending, it is the view.
    Known,
    /// It cannot be read, and so not be brought up to date either.
    Lost,
}

/// What a commit takes along.
#[derive(Default)]
pub(crate) struct Cargo {
    /// Updates by view.
    pub(crate) updates: Vec<(GlobalId, Vec<Arc<Updates>>)>,
    /// Marks that are set or removed.
    pub(crate) meta: Vec<MetaWrite>,
    marks: Vec<(GlobalId, bool)>,
}

impl Materialized {
    /// A view whose dataflow is about to start.
    pub(crate) fn add(&mut self, id: GlobalId, tail: Tail, is_marked: bool) {
        let view = View { tail, upper: 0, due: 0, shard: Shard::Unknown, pending: VecDeque::new(), is_marked };
        self.views.insert(id, view);
    }

    /// A view that is gone.
    pub(crate) fn remove(&mut self, id: GlobalId) {
        self.views.remove(&id);
    }

    /// Takes what a view that was told to come to a time has published, and feeds what reads it. A view that has more to come
    /// is rung for.
    pub(crate) fn take(
        &mut self,
        id: GlobalId,
        due: Timestamp,
        env: &Arc<Environment>,
        controller: &Controller,
        since: Timestamp,
    ) -> Result<(), CommitError> {
        let Some(view) = self.views.get_mut(&id) else { return Ok(()) };
        view.due = view.due.max(due);
        if let Some(changes) = view.published() {
            view.take(id, changes, env, controller, since)?;
        }
        if view.upper <= view.due {
            view.tail.handle().set_alarm();
            // What was published before the bell was set.
            if let Some(changes) = view.published() {
                view.take(id, changes, env, controller, since)?;
            }
        }
        Ok(())
    }

    /// Takes what all views have published.
    pub(crate) fn take_all(
        &mut self,
        env: &Arc<Environment>,
        controller: &Controller,
        since: Timestamp,
    ) -> Result<(), CommitError> {
        let ids: Vec<GlobalId> = self.views.keys().copied().collect();
        ids.into_iter().try_for_each(|id| self.take(id, 0, env, controller, since))
    }

    /// How a view's shard differs from what its dataflow has published first. A shard of which that cannot be told is left as it
    /// is. What was found out for a dataflow that another has replaced since says nothing.
    pub(crate) fn compared(&mut self, handle: &Arc<IndexHandle>, correction: Option<Updates>) {
        let view = self.views.get_mut(&handle.id).filter(|view| Arc::ptr_eq(view.tail.handle(), handle));
        if let Some(view) = view.filter(|view| view.shard == Shard::Compared) {
            let Some(correction) = correction else {
                view.give_up();
                return;
            };
            view.shard = Shard::Known;
            for piece in split(&correction).rev() {
                view.pending.push_front(piece);
            }
        }
    }

    /// Whether anything waits for a commit.
    pub(crate) fn has_cargo(&self) -> bool {
        self.views.values().any(|view| view.shard == Shard::Known && (!view.pending.is_empty() || view.wants_mark()))
    }

    /// What a commit that writes to these tables takes along.
    pub(crate) fn cargo<'a>(&self, written: impl Iterator<Item = &'a GlobalId> + Clone) -> Cargo {
        let mut cargo = Cargo::default();
        for (id, view) in &self.views {
            let taken: Vec<Arc<Updates>> = match view.shard {
                Shard::Known => view.pending.iter().take(PIECES_MAX).cloned().collect(),
                Shard::Unknown | Shard::Compared | Shard::Lost => Vec::new(),
            };
            let is_touched = written.clone().any(|table| view.tail.handle().clocks().contains_key(table));
            let is_current = !is_touched && taken.len() == view.pending.len() && view.is_current();
            if is_current != view.is_marked {
                let key = mark(*id);
                cargo.meta.push(match is_current {
                    true => MetaWrite::Put { key, value: Vec::new() },
                    false => MetaWrite::Delete { key },
                });
                cargo.marks.push((*id, is_current));
            }
            if !taken.is_empty() {
                cargo.updates.push((*id, taken));
            }
        }
        cargo
    }

    /// What a commit took along is durable.
    pub(crate) fn delivered(&mut self, cargo: &Cargo) {
        for (id, taken) in &cargo.updates {
            if let Some(view) = self.views.get_mut(id) {
                view.pending.drain(..taken.len());
            }
        }
        for (id, is_marked) in &cargo.marks {
            if let Some(view) = self.views.get_mut(id) {
                view.is_marked = *is_marked;
            }
        }
    }
}

impl Cargo {
    /// Leaves everything for a later commit but what is no longer true: marks of views that this one outdates.
    pub(crate) fn leave(&mut self) {
        self.updates.clear();
        self.meta.retain(|write| matches!(write, MetaWrite::Delete { .. }));
        self.marks.retain(|(_, is_marked)| !is_marked);
    }
}

impl View {
    fn published(&mut self) -> Option<Changes> {
        // When its cluster has gone nothing will come.
        self.tail.take().unwrap_or_default()
    }

    fn take(
        &mut self,
        id: GlobalId,
        changes: Changes,
        env: &Arc<Environment>,
        controller: &Controller,
        since: Timestamp,
    ) -> Result<(), CommitError> {
        self.upper = changes.upper;
        let changes = Arc::new(changes);
        controller.follow(id, since, &changes)?;
        let updates = pieces(changes.at.values());
        match self.shard {
            Shard::Unknown => {}
            Shard::Lost => return Ok(()),
            Shard::Compared | Shard::Known => {
                self.pending.extend(updates);
                return Ok(());
            }
        }
        self.shard = Shard::Compared;
        let snapshot = match env.persist.snapshot(id.into(), env.persist.upper().saturating_sub(1)) {
            Err(error) if error.is_damage() => {
                tracing::error!(%id, %error, "{LOST}");
                self.give_up();
                return Ok(());
            }
            snapshot => snapshot?,
        };
        let (committer, view, end) = (env.handle.clone(), Arc::clone(self.tail.handle()), env.end);
        let compare = async move {
            let correction = ore::thread::survive("comparison", || correction(id, &updates, snapshot, end)).flatten();
            committer.report(Request::Compared { view, correction });
        };
        env.beside.start(format!("compare-{id}"), Box::pin(compare));
        Ok(())
    }

    /// The shard cannot be brought up to date: what was to be written to it is forgotten.
    fn give_up(&mut self) {
        self.shard = Shard::Lost;
        self.pending.clear();
    }

    /// Whether shard and pending updates are what the view is as of the latest commit.
    fn is_current(&self) -> bool {
        let handle = self.tail.handle();
        self.shard == Shard::Known && self.upper > handle.last_write() && !handle.is_temporal()
    }

    fn wants_mark(&self) -> bool {
        !self.is_marked && self.is_current()
    }
}

/// Where the store says that a view's shard is current.
fn mark(id: GlobalId) -> String {
    format!("current/{:016x}", id.to_u64())
}

/// Whether a view's shard is what the view was when the server stopped.
pub(crate) fn is_marked(persist: &PersistClient, id: GlobalId) -> Result<bool, PersistError> {
    Ok(persist.meta_get(&mark(id))?.is_some())
}

/// What makes durable that a view is gone.
pub(crate) fn unmark(id: GlobalId) -> MetaWrite {
    MetaWrite::Delete { key: mark(id) }
}

/// The rows of a view's shard; `None` if there are errors among them.
pub(crate) fn rows(snapshot: ShardSnapshot) -> Result<Option<Vec<Updates>>, PersistError> {
    let mut all = Vec::new();
    for updates in snapshot {
        let mut rows = Updates::new();
        for (row, diff) in updates?.iter() {
            match row.split_first() {
                Some((&OK, row)) => rows.push(row, diff),
                _ => return Ok(None),
            }
        }
        all.push(rows);
    }
    Ok(Some(all))
}

/// Updates as a shard has them, in pieces.
fn pieces<'a>(all: impl Iterator<Item = &'a At>) -> Vec<Arc<Updates>> {
    let mut tagged = Updates::new();
    for at in all {
        for (tag, updates) in [(OK, &at.oks), (ERR, &at.errs)] {
            updates.iter().for_each(|(row, diff)| tagged.push(&[&[tag][..], row].concat(), diff));
        }
    }
    split(&tagged).collect()
}

fn split(updates: &Updates) -> impl DoubleEndedIterator<Item = Arc<Updates>> {
    let starts = (0..updates.len()).step_by(PIECE_UPDATES);
    starts.map(|start| {
        let mut piece = Updates::new();
        for at in start..updates.len().min(start + PIECE_UPDATES) {
            let (row, diff) = updates.get(at);
            piece.push(row, diff);
        }
        Arc::new(piece)
    })
}

/// What has to be written to a shard so that it holds `desired`; `None` if it is damaged, as it is if this panics.
fn correction(id: GlobalId, desired: &[Arc<Updates>], persisted: ShardSnapshot, end: End) -> Option<Updates> {
    let mut net: HashMap<Vec<u8>, Diff> = HashMap::new();
    for (row, diff) in desired.iter().flat_map(|piece| piece.iter()) {
        *net.entry(row.to_vec()).or_default() += diff;
    }
    for piece in persisted {
        let piece = match piece {
            Ok(piece) => piece,
            Err(error) if error.is_damage() => {
                tracing::error!(%id, %error, "{LOST}");
                return None;
            }
            Err(error) => {
                tracing::error!(%id, %error, "a materialized view's shard cannot be read; ending the process");
                end(error.exit(), &error)
            }
        };
        for (row, diff) in piece.iter() {
            *net.entry(row.to_vec()).or_default() -= diff;
        }
    }
    let mut updates = Updates::new();
    net.into_iter().filter(|(_, diff)| *diff != 0).for_each(|(row, diff)| updates.push(&row, diff));
    Some(updates)
}
