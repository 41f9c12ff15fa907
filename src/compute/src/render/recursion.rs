//! Recursion: collections that are defined in terms of each other, rendered in a scope whose times have rounds.
//!
//! 1. For each collection, a variable: what it was in the round before, at first nothing.
//! 2. Each collection is rendered. It reads those before it as they are in this round, the others through their variables.
//! 3. What it gives goes round to its variable, consolidated, so that what cancels out does not go round for ever.
//! 4. Beyond the last round nothing goes round. Whether something would have is whether the recursion has not come to its end.
//!
//! What leaves the scope is what there is after the last round that changed something. All recursion of a dataflow, however it
//! is nested, is in one scope: each level has a round of its own in its times.
//!
//! # Invariants
//! - What failed in one round has failed, even if no later round meets it: the errors go round as well.
//! - Everything that goes round has a bounded number of copies: a recursion that doubles its rows each round ends in an error
//!   and not in a number that overflows. The row itself stays, as often as it may be: without it the next rounds would begin
//!   again, up to the last one, and a later change would have to go through all of them.

use crate::render::first::{Logic, prefix};
use crate::render::{ArrangedRows, Builder, Keyed, Rows, ScopeTime, arrange, outcome, reduced};
use arrangement::allowance::Allowance;
use compute_client::error::encode_error;
use compute_client::plan::lir::{LetRec, Lir, Node};
use datafusion::error::DataFusionError;
use differential_dataflow::AsCollection;
use differential_dataflow::collection::concatenate;
use differential_dataflow::dynamic::feedback_summary;
use differential_dataflow::dynamic::pointstamp::{PointStamp, PointStampSummary};
use differential_dataflow::operators::iterate::Variable;
use engine::recursion::{AtLimit, RecursionLimit};
use repr::row::RowError;
use repr::sqlstate::SqlState;
use repr::{Diff, GlobalId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use timely::dataflow::operators::vec::Filter;
use timely::order::Product;

/// The times of the scope of recursion: when, and in which round of each level.
pub type Rounds = Product<Timestamp, PointStamp<u64>>;

/// More copies of one row than anybody wants; three of them can be multiplied.
const COPIES_MAX: Diff = 1 << 20;

impl ScopeTime for Rounds {
    fn first<'scope>(
        memory: &Arc<Allowance>,
        arranged: ArrangedRows<'scope, Rounds>,
        name: &str,
        wanted: Diff,
        mut logic: impl Logic,
    ) -> Keyed<'scope, Rounds> {
        let first =
            reduced(memory, arranged, name, move |key, values, output| logic(key, prefix(values, wanted), output));
        first.as_collection(|key, value| (key.to_vec(), value.to_vec()))
    }

    fn when(&self) -> Timestamp {
        self.outer
    }

    fn put_off(&self, ts: Timestamp) -> Rounds {
        Product::new(ts, self.inner.clone())
    }

    fn let_rec<'scope>(builder: &mut Builder<'scope, Rounds>, recursion: &LetRec) -> Result<(), RowError> {
        builder.level += 1;
        let level = builder.level;
        builder.go_round(recursion)?;
        builder.level -= 1;
        for (id, _) in &recursion.bindings {
            let rows = builder.locals.remove(id).expect("it was rendered");
            builder.locals.insert(*id, rows.leave_dynamic(level));
        }
        Ok(())
    }
}

/// Renders a recursion that is in no other one: in a scope of its own, of which its collections then are results.
pub(super) fn let_rec(builder: &mut Builder<'_, Timestamp>, recursion: &LetRec) -> Result<(), RowError> {
    let outer = builder.scope;
    let read: BTreeSet<GlobalId> = recursion.bindings.iter().flat_map(|(_, value)| value.tables()).collect();
    outer.scoped::<Rounds, _, _>("Recursion", |scope| {
        let tables = builder.tables.iter().filter(|(id, _)| read.contains(id));
        let tables = tables.map(|(id, rows)| (*id, rows.clone().enter(scope))).collect();
        let locals = builder.locals.iter().map(|(id, rows)| (*id, rows.clone().enter(scope))).collect();
        let is_first = builder.is_first;
        let (clock, schedule) = (builder.clock.clone().map(|clock| clock.enter(scope)), builder.schedule.clone());
        // What is in it makes its own.
        let (arrangements, shared, arranged, errs) = (BTreeMap::new(), BTreeMap::new(), Vec::new(), Vec::new());
        let (level, memory) = (1, Arc::clone(&builder.memory));
        let mut inner = Builder {
            scope,
            memory,
            is_first,
            tables,
            arrangements,
            shared,
            arranged,
            locals,
            level,
            clock,
            schedule,
            errs,
        };
        inner.go_round(recursion)?;
        builder.errs.extend(inner.errs.into_iter().map(|errs| errs.leave(outer)));
        for (id, _) in &recursion.bindings {
            let rows = inner.locals.remove(id).expect("it was rendered");
            builder.locals.insert(*id, rows.leave(outer));
        }
        Ok(())
    })
}

impl<'scope> Builder<'scope, Rounds> {
    /// Renders the collections of a recursion at the builder's level; they become its locals.
    fn go_round(&mut self, recursion: &LetRec) -> Result<(), RowError> {
        let (level, limit) = (self.level, recursion.limit);
        let before = std::mem::take(&mut self.errs);
        let (mut variables, mut unfinished) = (BTreeMap::new(), Vec::new());
        for (id, _) in &recursion.bindings {
            let (variable, rows) = Variable::new(self.scope, step(level));
            let goes_on = move |time: &Rounds| round(time, level) < limit.rounds;
            self.locals.insert(*id, rows.inner.clone().filter(move |(_, time, _)| goes_on(time)).as_collection());
            if limit.then == AtLimit::Error {
                let over = rows.inner.filter(move |(_, time, _)| !goes_on(time)).as_collection();
                unfinished.push(self.unfinished(over.leave_dynamic(level), limit));
            }
            variables.insert(*id, variable);
        }
        for (id, value) in &recursion.bindings {
            let rows = self.rows(value)?;
            let rows = self.consolidated(rows, value);
            let variable = variables.remove(id).expect("each collection has one");
            variable.set(rows.clone());
            self.locals.insert(*id, rows);
        }
        let inside = std::mem::replace(&mut self.errs, before);
        if !inside.is_empty() {
            let errs = self.of_any_round(concatenate(self.scope, inside));
            self.errs.push(errs.leave_dynamic(level));
        }
        self.errs.extend(unfinished);
        Ok(())
    }

    /// The errors of this round and of all before it.
    fn of_any_round(&self, errs: Rows<'scope, Rounds>) -> Rows<'scope, Rounds> {
        let (variable, earlier) = Variable::new(self.scope, step(self.level));
        let known = arrange(&self.memory, errs.concat(earlier).map(|error| (error, Vec::new())), "Recursion errors");
        let known = reduced(&self.memory, known, "Recursion errors", |_, _, output| output.push((Vec::new(), 1)));
        let known = known.as_collection(|error, _| error.to_vec());
        variable.set(known.clone());
        known
    }

    /// The rows without what cancels out, and an error for each of which there are too many.
    fn consolidated(&mut self, rows: Rows<'scope, Rounds>, value: &Lir) -> Rows<'scope, Rounds> {
        // A grouping gives one row per group, and no change that is none.
        if matches!(value.node, Node::Reduce(_)) {
            return rows;
        }
        let by_row = arrange(&self.memory, rows.map(|row| (row, Vec::new())), "Recursion");
        let counted = reduced(&self.memory, by_row, "Recursion", |row, values, output| {
            let count = values.iter().map(|(_, count)| *count).sum::<Diff>();
            output.push((outcome(Ok(row.to_vec())), count.clamp(-COPIES_MAX, COPIES_MAX)));
            if count.abs() > COPIES_MAX {
                output.push((outcome(Err(too_many_copies())), 1));
            }
        });
        self.outcomes(counted.as_collection(|_, outcome| outcome.to_vec()))
    }

    /// An error if anything is left of what would have gone round once more.
    fn unfinished(&self, over: Rows<'scope, Rounds>, limit: RecursionLimit) -> Rows<'scope, Rounds> {
        let by_row = arrange(&self.memory, over.map(|row| (row, Vec::new())), "Recursion limit");
        let left = reduced(&self.memory, by_row, "Recursion limit", |_, _, output| output.push((Vec::new(), 1)));
        left.as_collection(move |_, _| {
            let error = engine::recursion::limit_reached(limit);
            encode_error(DataFusionError::External(Box::new(error)))
        })
    }
}

/// From a round of a level to the next one.
fn step(level: usize) -> Product<<Timestamp as timely::progress::Timestamp>::Summary, PointStampSummary<u64>> {
    Product::new(Default::default(), feedback_summary::<u64>(level, 1))
}

/// The round of a level in a time.
fn round(time: &Rounds, level: usize) -> u64 {
    time.inner.get(level - 1).copied().unwrap_or(0)
}

fn too_many_copies() -> DataFusionError {
    let message = format!("a recursive query gives the same row more than {COPIES_MAX} times");
    let error = engine::error::SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message);
    DataFusionError::External(Box::new(error))
}
