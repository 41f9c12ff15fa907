//! What the committer does for sequences: it reserves their values, and lets them stand where a change of the catalog leaves them.

use super::Committer;
use crate::error::CommitError;
use crate::published::Published;
use crate::rewrite::Rewriting;
use crate::sequence::{Sequence, forget, put};
use catalog::transact::{Prepared, StateDiff};
use engine::session::Position;
use persist::MetaWrite;
use repr::GlobalId;
use sql::plan::sequence::owned_by;
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
            self.reserving.refuse(|| CommitError::new(sqlstate, why.clone()));
        }
    }

    /// Lets a sequence stand elsewhere, if it is still the one that sessions take from.
    pub(super) fn set_sequence(&mut self, sequence: &Arc<Sequence>, to: Position) -> Result<(), CommitError> {
        let published = self.env.published.load_full();
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
        let published = self.env.published.load_full();
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

/// Sequences that a change of the catalog makes others, or ends: closed, and open again unless the change becomes durable.
pub(super) struct Closed(BTreeMap<GlobalId, Arc<Sequence>>);

impl Closed {
    pub(super) fn by(current: &Published, diff: &[StateDiff]) -> Closed {
        let changed = diff.iter().filter_map(|change| match change {
            StateDiff::SequenceAltered(id, _) | StateDiff::SequenceDropped(id) => current.sequences.get(id),
            _ => None,
        });
        let close = |sequence: &Arc<Sequence>| {
            sequence.close();
            (sequence.id, Arc::clone(sequence))
        };
        Closed(changed.map(close).collect())
    }

    /// Leaves them closed, and closes what the transaction took from instead.
    pub(super) fn for_good(mut self, staged: &[Arc<Sequence>]) {
        self.0.clear();
        for sequence in staged {
            sequence.close();
        }
    }

    /// What has to be written of sequences with the change. `left` is where it leaves some of them, besides those that are the
    /// transaction's own; `None` if it took values from one of its own while others took theirs, and it does not begin again.
    pub(super) fn positions(
        &self,
        diff: &[StateDiff],
        staged: &[Arc<Sequence>],
        mut left: BTreeMap<GlobalId, Position>,
    ) -> Option<Vec<MetaWrite>> {
        left.extend(staged.iter().map(|sequence| (sequence.id, sequence.position())));
        for change in diff {
            let StateDiff::SequenceAltered(id, restart) = change else { continue };
            let Some(before) = self.0.get(id).map(|before| before.position()) else { continue };
            let restarts =
                diff.iter().any(|other| matches!(other, StateDiff::SequenceAltered(of, Some(_)) if of == id));
            let own = staged.iter().find(|sequence| sequence.id == *id);
            let at = match (own, restart) {
                (Some(own), _) if restarts => own.position(),
                (Some(own), _) if own.since() == Some(before) => own.position(),
                (Some(own), _) if own.since() == Some(own.position()) => before,
                (Some(_), _) => return None,
                (None, Some(last)) => Position { last: *last, is_called: false },
                (None, None) => before,
            };
            left.insert(*id, at);
        }
        let dropped = diff.iter().filter_map(|change| match change {
            StateDiff::SequenceDropped(id) => Some(*id),
            _ => None,
        });
        let gone: Vec<GlobalId> = dropped.collect();
        let kept = left.into_iter().filter(|(id, _)| !gone.contains(id)).map(|(id, at)| put(id, at));
        Some(kept.chain(gone.iter().map(|id| forget(*id))).collect())
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        self.0.values().for_each(|sequence| sequence.reopen());
    }
}
