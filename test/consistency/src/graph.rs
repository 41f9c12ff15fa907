//! Dependencies between transactions, and the simplest cycle among them.
//!
//! Who was answered before who asked is an order of intervals: drawn edge by edge it would be quadratic. So each answer is a
//! *moment*, a node of its own, and moments form a chain: a transaction leads to the moment of its answer, and the last
//! moment before a question leads to the transaction that was asked.

use std::collections::VecDeque;
use std::fmt;

use crate::list_append::Kind;

/// Why one transaction comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependency {
    /// It wrote the version before, of this list.
    Ww(u64),
    /// It wrote what the other read.
    Wr(u64),
    /// It read the version before that which the other wrote.
    Rw(u64),
    /// It was answered before the other was asked.
    Rt,
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dependency::Ww(key) => write!(f, "wrote before, on {key},"),
            Dependency::Wr(key) => write!(f, "wrote what was read, on {key}, by"),
            Dependency::Rw(key) => write!(f, "did not see, on {key},"),
            Dependency::Rt => f.write_str("was answered before it was asked:"),
        }
    }
}

/// Which edges a cycle may have.
#[derive(Clone, Copy)]
struct Allowed {
    wr: bool,
    rw: bool,
    rt: bool,
}

impl Allowed {
    fn has(self, dependency: Dependency) -> bool {
        match dependency {
            Dependency::Ww(_) => true,
            Dependency::Wr(_) => self.wr,
            Dependency::Rw(_) => self.rw,
            Dependency::Rt => self.rt,
        }
    }
}

/// A cycle: each transaction, and why it comes before the next.
type Cycle = Vec<(usize, Dependency)>;

/// See the module.
pub struct Graph {
    txn_count: usize,
    edges: Vec<Vec<(usize, Dependency)>>,
}

impl Graph {
    /// Transactions without dependencies.
    pub fn new(txn_count: usize) -> Graph {
        Graph { txn_count, edges: vec![Vec::new(); txn_count] }
    }

    /// One comes before another. A transaction may well depend on itself.
    pub fn add(&mut self, from: usize, to: usize, dependency: Dependency) {
        if from != to {
            self.edges[from].push((to, dependency));
        }
    }

    /// Transactions with the times of question and answer.
    pub fn add_real_time(&mut self, txns: impl Iterator<Item = (usize, u64, u64)>) {
        let txns: Vec<_> = txns.collect();
        let mut answers: Vec<(u64, usize)> = txns.iter().map(|(at, _, answered)| (*answered, *at)).collect();
        answers.retain(|(answered, _)| *answered != u64::MAX);
        answers.sort_unstable();
        let first = self.edges.len();
        self.edges.resize(first + answers.len(), Vec::new());
        for (moment, (_, at)) in answers.iter().enumerate() {
            self.edges[*at].push((first + moment, Dependency::Rt));
            if moment > 0 {
                self.edges[first + moment - 1].push((first + moment, Dependency::Rt));
            }
        }
        for (at, asked, _) in txns {
            let before = answers.partition_point(|(answered, _)| *answered < asked);
            if before > 0 {
                self.edges[first + before - 1].push((at, Dependency::Rt));
            }
        }
    }

    /// The kind of the simplest cycle, whether it needs real time, and a short one of that kind.
    pub fn simplest_cycle(&self) -> Option<(Kind, bool, Cycle)> {
        let all = Allowed { wr: true, rw: true, rt: true };
        self.components(all).iter().any(|component| component.len() > 1).then_some(())?;
        for rt in [false, true] {
            let (writes, reads) = (Allowed { wr: false, rw: false, rt }, Allowed { wr: true, rw: false, rt });
            let kinds = [
                (Kind::G0, self.cycle(writes)),
                (Kind::G1c, self.cycle(reads)),
                (Kind::GSingle, self.single_cycle(reads)),
                (Kind::G2, self.cycle(Allowed { rw: true, ..reads })),
            ];
            for (kind, cycle) in kinds {
                if let Some(cycle) = cycle {
                    return Some((kind, rt, self.without_moments(&cycle)));
                }
            }
        }
        None
    }

    /// A short cycle of the allowed edges.
    fn cycle(&self, allowed: Allowed) -> Option<Cycle> {
        let component = self.components(allowed).into_iter().find(|component| component.len() > 1)?;
        let starts = component.iter().filter(|at| **at < self.txn_count).take(50);
        let cycles = starts.filter_map(|&start| {
            let next = self.edges[start].iter().filter(|(_, dependency)| allowed.has(*dependency));
            next.filter_map(|&(to, by)| self.path(to, start, allowed).map(|path| [vec![(start, by)], path].concat()))
                .min_by_key(Vec::len)
        });
        cycles.min_by_key(Vec::len)
    }

    /// A short cycle with one `rw` edge and otherwise the allowed ones.
    fn single_cycle(&self, others: Allowed) -> Option<Cycle> {
        let components = self.components(Allowed { rw: true, ..others });
        let mut component_of = vec![0; self.edges.len()];
        for (index, component) in components.iter().enumerate() {
            component.iter().for_each(|at| component_of[*at] = index);
        }
        let mut shortest: Option<Cycle> = None;
        for from in 0..self.txn_count {
            for &(to, by) in &self.edges[from] {
                if matches!(by, Dependency::Rw(_))
                    && component_of[from] == component_of[to]
                    && let Some(path) = self.path(to, from, others)
                    && shortest.as_ref().is_none_or(|shortest| path.len() + 1 < shortest.len())
                {
                    shortest = Some([vec![(from, by)], path].concat());
                    if shortest.as_ref().is_some_and(|cycle| cycle.len() <= 3) {
                        return shortest;
                    }
                }
            }
        }
        shortest
    }

    /// The shortest path, without its end.
    fn path(&self, from: usize, to: usize, allowed: Allowed) -> Option<Cycle> {
        let mut came: Vec<Option<(usize, Dependency)>> = vec![None; self.edges.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            if at == to {
                let (mut path, mut at) = (Vec::new(), to);
                while at != from {
                    let (before, by) = came[at].expect("it was reached from somewhere");
                    path.push((before, by));
                    at = before;
                }
                path.reverse();
                return Some(path);
            }
            for &(next, by) in &self.edges[at] {
                if allowed.has(by) && next != from && came[next].is_none() {
                    came[next] = Some((at, by));
                    queue.push_back(next);
                }
            }
        }
        None
    }

    /// The same cycle of transactions alone.
    fn without_moments(&self, cycle: &[(usize, Dependency)]) -> Cycle {
        cycle.iter().copied().filter(|(at, _)| *at < self.txn_count).collect()
    }

    /// Strongly connected components, after Tarjan, with a stack of its own instead of recursion.
    fn components(&self, allowed: Allowed) -> Vec<Vec<usize>> {
        const UNSEEN: usize = usize::MAX;
        let count = self.edges.len();
        let (mut order, mut low, mut on_stack) = (vec![UNSEEN; count], vec![0; count], vec![false; count]);
        let (mut stack, mut next, mut components) = (Vec::new(), 0, Vec::new());
        for root in 0..count {
            if order[root] != UNSEEN {
                continue;
            }
            let mut calls = vec![(root, 0)];
            while let Some((at, edge)) = calls.pop() {
                if edge == 0 {
                    (order[at], low[at], on_stack[at]) = (next, next, true);
                    next += 1;
                    stack.push(at);
                }
                match self.edges[at].get(edge) {
                    Some(&(to, by)) => {
                        calls.push((at, edge + 1));
                        if !allowed.has(by) {
                            continue;
                        }
                        if order[to] == UNSEEN {
                            calls.push((to, 0));
                        } else if on_stack[to] {
                            low[at] = low[at].min(order[to]);
                        }
                    }
                    None => {
                        if low[at] == order[at] {
                            let from = stack.iter().rposition(|other| *other == at).expect("it is on the stack");
                            let component = stack.split_off(from);
                            component.iter().for_each(|member| on_stack[*member] = false);
                            components.push(component);
                        }
                        if let Some((caller, _)) = calls.last() {
                            low[*caller] = low[*caller].min(low[at]);
                        }
                    }
                }
            }
        }
        components
    }
}
