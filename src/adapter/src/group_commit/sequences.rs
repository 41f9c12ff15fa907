//! What the committer does for sequences: it reserves their values, and lets them stand where a change of the catalog leaves them.

use super::{Committer, Prepared, StateDiff};
use crate::client::Published;
use crate::error::AdapterError;
use crate::rewrite::Rewriting;
use crate::sequence::{Sequence, forget, put};
use persist::MetaWrite;
use repr::GlobalId;
use sql::plan::sequence::{Position, owned_by};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Committer {
    /// Makes durable what no other commit has taken along.
    pub(super) fn reserve(&mut self) {
        if !self.reserving.is_due() {
            return;
        }
        if let Err(error) = self.tick() {
            let (sqlstate, why) = (error.sqlstate(), error.to_string());
            // Whoever waits has been told, unless it did not come to a commit.
            self.reserving.refuse(|| AdapterError::new(sqlstate, why.clone()));
        }
    }

    /// Lets a sequence stand elsewhere, if it is still the one that sessions take from.
    pub(super) fn set_sequence(&mut self, sequence: &Arc<Sequence>, to: Position) -> Result<(), AdapterError> {
        let published = self.shared.published.load_full();
        if !published.sequences.get(&sequence.id).is_some_and(|now| Arc::ptr_eq(now, sequence)) {
            return Ok(());
        }
        sequence.close();
        self.reserving.also.push(put(sequence.id, to));
        match self.tick() {
            Ok(()) => sequence.place(to),
            Err(error) => {
                self.reserving.also.clear();
                sequence.reopen();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Gives back what was reserved and not taken: the next run goes on where this one has ended.
    pub(super) fn give_back(&mut self) {
        let published = self.shared.published.load_full();
        for sequence in published.sequences.values() {
            sequence.close();
            let (at, ahead) = sequence.standing();
            if ahead > 0 {
                self.reserving.also.push(put(sequence.id, at));
            }
        }
        if !self.reserving.also.is_empty()
            && let Err(error) = self.tick()
        {
            tracing::warn!(%error, "reserved values of sequences were not given back and are skipped");
        }
    }
}

/// Where sequences stand of which values were taken while the rows of a table were written anew.
pub(super) fn after_rewriting(rewriting: &Rewriting, prepared: &Prepared) -> BTreeMap<GlobalId, Position> {
    let mut positions = BTreeMap::new();
    if let Some(table) = prepared.rewritten.get(&rewriting.table) {
        for (column, at) in rewriting.ends() {
            positions.extend(owned_by(&prepared.state, *table, column).iter().map(|(sequence, _)| (sequence.id, at)));
        }
    }
    let taken = rewriting.unreserved.lock();
    // What is reserved still is durable already.
    let beyond = taken.values().filter(|sequence| sequence.standing().1 == 0);
    positions.extend(beyond.map(|sequence| (sequence.id, sequence.position())));
    positions
}

/// Closes the sequences that a change of the catalog makes others, or ends.
pub(super) fn close_changed(current: &Published, diff: &[StateDiff]) -> BTreeMap<GlobalId, Arc<Sequence>> {
    let changed = diff.iter().filter_map(|change| match change {
        StateDiff::SequenceAltered(id, _) | StateDiff::SequenceDropped(id) => current.sequences.get(id),
        _ => None,
    });
    changed
        .map(|sequence| {
            sequence.close();
            (sequence.id, Arc::clone(sequence))
        })
        .collect()
}

/// What has to be written of sequences with a change of the catalog. `positions` is where the transaction itself has left them;
/// what others have taken meanwhile of one that does not begin again is taken.
pub(super) fn positions(
    closed: &BTreeMap<GlobalId, Arc<Sequence>>,
    diff: &[StateDiff],
    positions: &BTreeMap<GlobalId, Position>,
) -> Vec<MetaWrite> {
    let mut left = positions.clone();
    for change in diff {
        let StateDiff::SequenceAltered(id, restart) = change else { continue };
        let Some(before) = closed.get(id) else { continue };
        let restarts = diff.iter().any(|other| matches!(other, StateDiff::SequenceAltered(of, Some(_)) if of == id));
        let at = match (restart, left.get(id)) {
            (_, Some(at)) if restarts => *at,
            (Some(last), _) => Position { last: *last, is_called: false },
            (None, Some(at)) => before.further(before.position(), *at),
            (None, None) => before.position(),
        };
        left.insert(*id, at);
    }
    let dropped = diff.iter().filter_map(|change| match change {
        StateDiff::SequenceDropped(id) => Some(*id),
        _ => None,
    });
    let gone: Vec<GlobalId> = dropped.collect();
    let kept = left.into_iter().filter(|(id, _)| !gone.contains(id)).map(|(id, at)| put(id, at));
    kept.chain(gone.iter().map(|id| forget(*id))).collect()
}
