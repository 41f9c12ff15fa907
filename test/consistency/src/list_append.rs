//! Whether a history of transactions over lists is strictly serializable, and if not, which anomaly it has.
//!
//! A transaction appends values, each of which is used once, to lists, and reads lists. A list that was read tells the
//! order of all appends before it, so the history tells the dependencies by itself:
//! 1. Every read of a list must be a prefix of the longest one: that is the order of its versions.
//! 2. What was read must have been appended by a transaction that committed, and as the last of what it appended there.
//! 3. Edges: `ww` from a version's writer to the next version's, `wr` from a writer to who read its version, `rw` from
//!    who read a version to the next version's writer, `rt` from a transaction to those that were asked after it was
//!    answered. A committed append that no read shows comes after all that is read.
//! 4. A cycle is an anomaly, named by its weakest kind after Adya: G0 of `ww` alone, G1c of `ww` and `wr`, G-single with
//!    one `rw`, G2 with more; "in real time" if it needs `rt` edges.
//!
//! # Invariants
//! - Nothing sound is reported: a transaction of which nobody knows counts if and only if somebody has read from it.

use std::collections::{HashMap, HashSet};
use std::fmt;

use crate::graph::{Dependency, Graph};

/// A step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Adds a value, which no other step adds, at the end of a list.
    Append {
        /// The list.
        key: u64,
        /// The value.
        value: u64,
    },
    /// Reads a list, the transaction's own appends included.
    Read {
        /// The list.
        key: u64,
        /// What it holds.
        list: Vec<u64>,
    },
}

/// What a client knows of its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was acknowledged.
    Committed,
    /// It certainly did nothing.
    Aborted,
    /// The connection was lost before an answer.
    Unknown,
}

/// A transaction. Times in nanoseconds of one monotonic clock.
#[derive(Clone, Debug)]
pub struct Txn {
    /// Who asked.
    pub client: usize,
    /// When.
    pub call_ns: u64,
    /// When the answer was there; `u64::MAX` if none came.
    pub return_ns: u64,
    /// What the answer was.
    pub outcome: Outcome,
    /// What it did.
    pub steps: Vec<Step>,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A value that nobody appended.
    Garbage,
    /// A value that is there twice.
    Duplicate,
    /// Two reads of which neither is a prefix of the other.
    IncompatibleOrder,
    /// A transaction does not see what it did itself.
    Internal,
    /// A value of a transaction that was refused.
    G1a,
    /// A value that its transaction had followed by another.
    G1b,
    /// A cycle of writes.
    G0,
    /// A cycle of writes and of reads of them.
    G1c,
    /// Two transactions read the same version and both wrote the next.
    LostUpdate,
    /// A cycle with one read that misses a write.
    GSingle,
    /// A cycle with several.
    G2,
}

/// An anomaly with its proof.
#[derive(Clone, Debug)]
pub struct Anomaly {
    /// Which.
    pub kind: Kind,
    /// Whether it is one only because of who was answered before who asked.
    pub in_real_time: bool,
    /// The transactions concerned.
    pub proof: String,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = if self.in_real_time { " in real time" } else { "" };
        write!(f, "{:?}{suffix}: {}", self.kind, self.proof)
    }
}

/// Everything that is wrong with single reads, or else the simplest cycle.
pub fn check(history: &[Txn]) -> Vec<Anomaly> {
    let lists = Lists::new(history);
    let mut found = Vec::new();
    lists.check_reads(&mut found);
    if found.is_empty() {
        found.extend(lists.cycle());
    }
    found
}

/// What the history says about each list.
struct Lists<'a> {
    history: &'a [Txn],
    /// By list and value: who appended it.
    writers: HashMap<(u64, u64), usize>,
    /// By transaction: whether it counts as committed.
    counts: Vec<bool>,
    /// By list: the longest that was read.
    longest: HashMap<u64, &'a [u64]>,
}

impl<'a> Lists<'a> {
    fn new(history: &'a [Txn]) -> Lists<'a> {
        let mut writers = HashMap::new();
        for (at, txn) in history.iter().enumerate() {
            for (key, value) in txn.appends() {
                let before = writers.insert((key, value), at);
                assert!(before.is_none(), "value {value} is appended twice to list {key}: not a history of this kind");
            }
        }
        let mut lists = Lists { history, writers, counts: vec![false; history.len()], longest: HashMap::new() };
        lists.find_committed();
        let mut longest: HashMap<u64, &[u64]> = HashMap::new();
        for (key, list) in lists.committed().flat_map(|(_, txn)| txn.reads()) {
            let longest = longest.entry(key).or_insert(list);
            if list.len() > longest.len() {
                *longest = list;
            }
        }
        lists.longest = longest;
        lists
    }

    /// Those that were acknowledged, and of the unknown ones those of which somebody has read.
    fn find_committed(&mut self) {
        let history = self.history;
        let is_committed = |at: &usize| history[*at].outcome == Outcome::Committed;
        let mut todo: Vec<usize> = (0..history.len()).filter(is_committed).collect();
        todo.iter().for_each(|at| self.counts[*at] = true);
        while let Some(at) = todo.pop() {
            for (key, list) in history[at].reads() {
                for value in list {
                    let Some(&writer) = self.writers.get(&(key, *value)) else { continue };
                    if history[writer].outcome == Outcome::Unknown && !self.counts[writer] {
                        self.counts[writer] = true;
                        todo.push(writer);
                    }
                }
            }
        }
    }

    fn committed(&self) -> impl Iterator<Item = (usize, &'a Txn)> + use<'a, '_> {
        let history = self.history;
        history.iter().enumerate().filter(|(at, _)| self.counts[*at])
    }

    /// Steps 1 and 2.
    fn check_reads(&self, found: &mut Vec<Anomaly>) {
        let mut report = |kind, proof| found.push(Anomaly { kind, in_real_time: false, proof });
        for (key, longest) in &self.longest {
            let mut seen = HashSet::new();
            if let Some(twice) = longest.iter().find(|value| !seen.insert(**value)) {
                report(Kind::Duplicate, format!("value {twice} is twice in list {key}: {longest:?}"));
            }
        }
        for (at, txn) in self.committed() {
            if let Some(proof) = txn.contradicts_itself() {
                report(Kind::Internal, proof);
            }
            for (key, list) in txn.reads() {
                let longest = self.longest[&key];
                if !longest.starts_with(list) {
                    report(Kind::IncompatibleOrder, format!("{txn}: {list:?} is no prefix of {longest:?}"));
                }
                for value in list {
                    match self.writers.get(&(key, *value)) {
                        None => report(Kind::Garbage, format!("{txn}: nobody appended {value} to {key}")),
                        Some(&writer) if self.history[writer].outcome == Outcome::Aborted => {
                            report(Kind::G1a, format!("{txn} has read {value} of {}", self.history[writer]));
                        }
                        Some(_) => {}
                    }
                }
                let Some(last) = list.last() else { continue };
                let Some(&writer) = self.writers.get(&(key, *last)) else { continue };
                let finally = self.history[writer].appends().rfind(|(of, _)| *of == key);
                if writer != at && finally != Some((key, *last)) {
                    report(Kind::G1b, format!("{txn} has read {last} in the middle of {}", self.history[writer]));
                }
            }
        }
    }

    /// Steps 3 and 4.
    fn cycle(&self) -> Option<Anomaly> {
        let graph = self.graph();
        let (kind, in_real_time, cycle) = graph.simplest_cycle()?;
        let kind = if self.is_lost_update(&cycle) { Kind::LostUpdate } else { kind };
        let lines = cycle.iter().map(|(at, by)| format!("\n  {} {by}", self.history[*at]));
        Some(Anomaly { kind, in_real_time, proof: lines.collect() })
    }

    /// Whether a cycle is two transactions that have read the same version of a list and both appended to it.
    fn is_lost_update(&self, cycle: &[(usize, Dependency)]) -> bool {
        let [(first, by), (second, _)] = cycle else { return false };
        let (Dependency::Rw(key) | Dependency::Ww(key)) = by else { return false };
        let (first, second) = (&self.history[*first], &self.history[*second]);
        let appends = |txn: &Txn| txn.appends().any(|(of, _)| of == *key);
        let version = |txn: &Txn| txn.versions().into_iter().find(|(of, _)| of == key).map(|(_, list)| list.len());
        appends(first) && appends(second) && version(first).is_some() && version(first) == version(second)
    }

    fn graph(&self) -> Graph {
        let mut graph = Graph::new(self.history.len());
        // By list: committed appends that no read shows.
        let mut unseen: HashMap<u64, Vec<usize>> = HashMap::new();
        for (at, txn) in self.committed() {
            for (key, value) in txn.appends() {
                if !self.longest.get(&key).is_some_and(|list| list.contains(&value)) {
                    unseen.entry(key).or_default().push(at);
                }
            }
        }
        let writer = |key: u64, value: u64| self.writers[&(key, value)];
        for (&key, longest) in &self.longest {
            for pair in longest.windows(2) {
                graph.add(writer(key, pair[0]), writer(key, pair[1]), Dependency::Ww(key));
            }
            if let Some(last) = longest.last() {
                for &next in unseen.get(&key).into_iter().flatten() {
                    graph.add(writer(key, *last), next, Dependency::Ww(key));
                }
            }
        }
        for (at, txn) in self.committed() {
            for (&key, list) in &txn.versions() {
                if let Some(last) = list.last() {
                    graph.add(writer(key, *last), at, Dependency::Wr(key));
                }
                match self.longest[&key].get(list.len()) {
                    Some(next) => graph.add(at, writer(key, *next), Dependency::Rw(key)),
                    None => {
                        for &next in unseen.get(&key).into_iter().flatten() {
                            graph.add(at, next, Dependency::Rw(key));
                        }
                    }
                }
            }
        }
        graph.add_real_time(self.committed().map(|(at, txn)| (at, txn.call_ns, txn.return_ns)));
        graph
    }
}

impl Txn {
    fn appends(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        self.steps.iter().filter_map(|step| match step {
            Step::Append { key, value } => Some((*key, *value)),
            Step::Read { .. } => None,
        })
    }

    fn reads(&self) -> impl Iterator<Item = (u64, &[u64])> {
        self.steps.iter().filter_map(|step| match step {
            Step::Read { key, list } => Some((*key, list.as_slice())),
            Step::Append { .. } => None,
        })
    }

    /// What it found of each list that it read: without its own appends.
    fn versions(&self) -> HashMap<u64, &[u64]> {
        let (mut own, mut versions) = (HashMap::new(), HashMap::new());
        for step in &self.steps {
            match step {
                Step::Append { key, .. } => *own.entry(*key).or_insert(0_usize) += 1,
                Step::Read { key, list } => {
                    let length = list.len().saturating_sub(own.get(key).copied().unwrap_or_default());
                    versions.entry(*key).or_insert(&list[..length]);
                }
            }
        }
        versions
    }

    /// Whether a read lacks what the transaction appended before it, or shows another version than an earlier one.
    fn contradicts_itself(&self) -> Option<String> {
        let (mut own, versions) = (HashMap::<u64, Vec<u64>>::new(), self.versions());
        for step in &self.steps {
            match step {
                Step::Append { key, value } => own.entry(*key).or_default().push(*value),
                Step::Read { key, list } => {
                    let mine = own.get(key).map_or(&[][..], Vec::as_slice);
                    if list[..] != [versions[key], mine].concat() {
                        return Some(format!("{self}: has read {list:?} where {mine:?} is its own"));
                    }
                }
            }
        }
        None
    }
}

impl fmt::Display for Txn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |ns: u64| ns / 1_000;
        write!(f, "[client {} {}..", self.client, us(self.call_ns))?;
        match self.return_ns {
            u64::MAX => f.write_str("?")?,
            return_ns => write!(f, "{} us", us(return_ns))?,
        }
        for step in &self.steps {
            match step {
                Step::Append { key, value } => write!(f, "; append {value} to {key}")?,
                Step::Read { key, list } => {
                    let from = list.len().saturating_sub(5);
                    let dots = if from > 0 { ".. " } else { "" };
                    write!(f, "; read {key}: {} values {dots}{:?}", list.len(), &list[from..])?;
                }
            }
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests;
