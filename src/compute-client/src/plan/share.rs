//! What is in a plan more than once is made once.
//!
//! A query that reads a subquery twice has it twice in its plan. Each copy would keep arrangements of its own and do the work of
//! each change once more. The plan becomes a graph, in which equal subplans are one node; those that several others read are
//! made into collections of their own. Their arrangements are shared where several joins want them by the same key: that
//! alone is a reason to share what keeps nothing itself, such as the few columns of a table that both sides of a join read.
//!
//! # Invariants
//! - Subplans are equal if they give the same rows: what columns are called in them means nothing.
//! - Recursions stay as they are, and so does what is inside them.

use crate::plan::lir::{Aggregate, Join, Lir, Node, Reduce, Shared, SharedId, SortKey, Stage, is_same};
use datafusion::physical_expr::PhysicalExpr;
use std::sync::Arc;

/// The same plan, with equal subplans made once.
#[must_use]
pub fn share(lir: Lir) -> Lir {
    let mut graph = Graph::default();
    let root = graph.add(lir);
    let body = graph.tree(root);
    if graph.parts.is_empty() {
        return body;
    }
    let schema = Arc::clone(&body.schema);
    Lir { node: Node::Shared(Box::new(Shared { parts: graph.parts, body })), schema }
}

/// The subplans of a plan, each once.
#[derive(Default)]
struct Graph {
    subplans: Vec<Subplan>,
    /// What is shared, as far as the tree has been made anew.
    parts: Vec<(SharedId, Lir)>,
}

struct Subplan {
    /// Its operator, whose inputs are [`Node::GetShared`] with their places in the graph; taken when it is put into the tree.
    lir: Option<Lir>,
    /// Whether it keeps anything, and with that work, below it.
    keeps: bool,
    /// By whom it is read.
    readers: Vec<Reader>,
    shared: Option<SharedId>,
}

/// Who reads a subplan.
enum Reader {
    /// A join, by this key.
    Join(Vec<Arc<dyn PhysicalExpr>>),
    /// Any other operator.
    Other,
}

impl Graph {
    /// Adds a plan, and returns where it is.
    fn add(&mut self, lir: Lir) -> usize {
        let Lir { node, schema } = lir;
        let is_closed = matches!(node, Node::LetRec(_));
        let mut inputs = Vec::new();
        let node = match is_closed {
            true => node,
            false => node.map_inputs(&mut |input| {
                let schema = Arc::clone(&input.schema);
                let at = self.add(input);
                inputs.push(at);
                Lir { node: Node::GetShared(SharedId(at)), schema }
            }),
        };
        let lir = Lir { node, schema };
        let known =
            self.subplans.iter().position(|known| known.lir.as_ref().is_some_and(|known| is_equal(known, &lir)));
        if let Some(known) = known {
            return known;
        }
        for (at, input) in inputs.iter().enumerate() {
            let reader = match &lir.node {
                Node::Join(join) => Reader::Join(key(join, at)),
                _ => Reader::Other,
            };
            self.subplans[*input].readers.push(reader);
        }
        let is_plain = matches!(
            lir.node,
            Node::Constant(_) | Node::Get(_) | Node::GetArranged { .. } | Node::Mfp { .. } | Node::Union(_)
        );
        let keeps = !is_plain || inputs.iter().any(|input| self.subplans[*input].keeps);
        self.subplans.push(Subplan { lir: Some(lir), keeps, readers: Vec::new(), shared: None });
        self.subplans.len() - 1
    }

    /// The subplan as a tree, in which what is shared is read.
    fn tree(&mut self, at: usize) -> Lir {
        if !self.subplans[at].keeps {
            return self.copied(at);
        }
        let Lir { node, schema } = self.subplans[at].lir.take().expect("what keeps something is made once");
        let node = match matches!(node, Node::LetRec(_)) {
            true => node,
            false => node.map_inputs(&mut |input| {
                let Node::GetShared(SharedId(at)) = input.node else { return input };
                Lir { node: self.read(at), schema: input.schema }
            }),
        };
        Lir { node, schema }
    }

    /// A subplan that keeps nothing, once more.
    fn copied(&self, at: usize) -> Lir {
        let Lir { node, schema } = self.subplans[at].lir.as_ref().expect("it stays in the graph");
        let input = |input: &Lir| {
            let Node::GetShared(SharedId(at)) = input.node else { unreachable!("inputs are places in the graph") };
            Lir { schema: Arc::clone(&input.schema), ..self.copied(at) }
        };
        let node = match node {
            Node::Constant(rows) => Node::Constant(Arc::clone(rows)),
            Node::Get(id) => Node::Get(*id),
            Node::GetArranged { table, index, key } => {
                Node::GetArranged { table: *table, index: *index, key: key.clone() }
            }
            Node::Mfp { input: below, stages } => Node::Mfp { input: Box::new(input(below)), stages: stages.clone() },
            Node::Union(inputs) => Node::Union(inputs.iter().map(input).collect()),
            _ => unreachable!("any other operator keeps something"),
        };
        Lir { node, schema: Arc::clone(schema) }
    }

    /// What reads a subplan.
    fn read(&mut self, at: usize) -> Node {
        if !self.subplans[at].is_shared() {
            return self.tree(at).node;
        }
        if let Some(id) = self.subplans[at].shared {
            return Node::GetShared(id);
        }
        let part = self.tree(at);
        let id = SharedId(self.parts.len());
        self.subplans[at].shared = Some(id);
        self.parts.push((id, part));
        Node::GetShared(id)
    }
}

impl Subplan {
    fn is_shared(&self) -> bool {
        let [first, others @ ..] = self.readers.as_slice() else { return false };
        let same_key = |other: &Reader| match (first, other) {
            (Reader::Join(key), Reader::Join(other)) => !key.is_empty() && are_same(key, other),
            _ => false,
        };
        !others.is_empty() && (self.keeps || others.iter().all(same_key))
    }
}

/// What a join matches its left input by, or its right one.
fn key(join: &Join, input: usize) -> Vec<Arc<dyn PhysicalExpr>> {
    join.on.iter().map(|(left, right)| Arc::clone(if input == 0 { left } else { right })).collect()
}

fn are_same(left: &[Arc<dyn PhysicalExpr>], right: &[Arc<dyn PhysicalExpr>]) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(left, right)| is_same(left, right))
}

/// Whether plans are known to give the same rows, whatever their columns are called.
pub fn is_equal(left: &Lir, right: &Lir) -> bool {
    let same = match (&left.node, &right.node) {
        (Node::Get(left), Node::Get(right)) => left == right,
        (Node::GetArranged { index: left, .. }, Node::GetArranged { index: right, .. }) => left == right,
        (Node::GetShared(left), Node::GetShared(right)) => left == right,
        (Node::Constant(left), Node::Constant(right)) => left == right,
        (Node::Mfp { input: l, stages: left }, Node::Mfp { input: r, stages: right }) => {
            is_equal(l, r) && left.len() == right.len() && left.iter().zip(right).all(|(l, r)| is_same_stage(l, r))
        }
        (Node::Temporal { input: l, bounds: left }, Node::Temporal { input: r, bounds: right }) => {
            is_equal(l, r)
                && left.len() == right.len()
                && left.iter().zip(right).all(|(l, r)| l.op == r.op && is_same(&l.with, &r.with))
        }
        (Node::Join(left), Node::Join(right)) => is_same_join(left, right),
        (Node::Reduce(left), Node::Reduce(right)) => is_same_reduce(left, right),
        (Node::Single(left), Node::Single(right)) => is_equal(left, right),
        (
            Node::TopK { input: left, key, order, skip, fetch },
            Node::TopK { input: right, key: other_key, order: other_order, skip: other_skip, fetch: other_fetch },
        ) => {
            is_equal(left, right)
                && are_same(key, other_key)
                && is_same_order(order, other_order)
                && (skip, fetch) == (other_skip, other_fetch)
        }
        (Node::Union(left), Node::Union(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(l, r)| is_equal(l, r))
        }
        // Recursions, and window functions, which cannot be compared.
        _ => false,
    };
    same && left.types() == right.types()
}

fn is_same_stage(left: &Stage, right: &Stage) -> bool {
    match (left, right) {
        (Stage::Filter(left), Stage::Filter(right)) => is_same(left, right),
        (Stage::Project(left, _), Stage::Project(right, _)) => are_same(left, right),
        (Stage::Expand(left, _), Stage::Expand(right, _)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(l, r)| are_same(l, r))
        }
        (Stage::Unnest(left, _), Stage::Unnest(right, _)) => left == right,
        _ => false,
    }
}

fn is_same_join(left: &Join, right: &Join) -> bool {
    let filters = match (&left.filter, &right.filter) {
        (None, None) => true,
        (Some(left), Some(right)) => is_same(left, right),
        _ => false,
    };
    (left.kind, left.nulls_match) == (right.kind, right.nulls_match)
        && filters
        && (0..2).all(|input| are_same(&key(left, input), &key(right, input)))
        && is_equal(&left.left, &right.left)
        && is_equal(&left.right, &right.right)
}

fn is_same_reduce(left: &Reduce, right: &Reduce) -> bool {
    is_equal(&left.input, &right.input)
        && are_same(&left.key, &right.key)
        && left.always == right.always
        && left.aggregates.len() == right.aggregates.len()
        && left.aggregates.iter().zip(&right.aggregates).all(|(l, r)| is_same_aggregate(l, r))
}

fn is_same_aggregate(left: &Aggregate, right: &Aggregate) -> bool {
    let of = |aggregate: &Aggregate| {
        let function = Arc::clone(&aggregate.call.aggregate);
        let exprs: Vec<_> = function.expressions();
        let order = aggregate.call.order_bys.iter().map(|sort| (Arc::clone(&sort.expr), sort.options));
        let (order, options): (Vec<_>, Vec<_>) = order.unzip();
        let filter: Vec<_> = aggregate.call.filter.iter().cloned().collect();
        let kind = (aggregate.strategy, function.is_distinct(), function.ignore_nulls(), function.is_reversed());
        (function, kind, options, [exprs, order, filter])
    };
    let ((f, kind, options, exprs), (g, other_kind, other_options, other_exprs)) = (of(left), of(right));
    f.fun() == g.fun()
        && f.field().data_type() == g.field().data_type()
        && (kind, options) == (other_kind, other_options)
        && exprs.iter().zip(&other_exprs).all(|(left, right)| are_same(left, right))
}

fn is_same_order(left: &[SortKey], right: &[SortKey]) -> bool {
    let how = |key: &SortKey| (key.descending, key.nulls_first);
    left.len() == right.len() && left.iter().zip(right).all(|(l, r)| how(l) == how(r) && is_same(&l.expr, &r.expr))
}
