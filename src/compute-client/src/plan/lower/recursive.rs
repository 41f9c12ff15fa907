//! Lowers recursion.
//!
//! WITH RECURSIVE is a [`LetRec`] of one collection: what its terms give together, each row once for UNION. That is what
//! Postgres computes as long as the recursive term gives, for more rows, the same rows and more; where a term that Postgres
//! allows does not do so, it is refused.

use super::{Lowering, nullable, refused};
use crate::plan::lir::{JoinKind, LetRec, Lir, LocalId, Node};
use datafusion::logical_expr::RecursiveQuery;
use engine::error::SqlError;
use engine::recursion::{self, RecursionLimit};
use std::sync::Arc;

impl Lowering<'_> {
    /// The collection of a recursion that a scan reads.
    pub(super) fn local(&self, name: &str) -> Result<LocalId, SqlError> {
        let locals = self.locals.borrow();
        locals.get(name).copied().ok_or_else(|| SqlError::internal("a scan of a recursive query outside of it"))
    }

    fn new_local(&self, name: &str) -> LocalId {
        let id = LocalId(self.local_count.replace(self.local_count.get() + 1));
        self.locals.borrow_mut().insert(name.to_owned(), id);
        id
    }

    /// WITH MUTUALLY RECURSIVE.
    pub(super) fn let_rec(&self, recursion: &recursion::LetRec) -> Result<Lir, SqlError> {
        let ids: Vec<LocalId> = recursion.names.iter().map(|name| self.new_local(name)).collect();
        let values = recursion.values.iter().map(|value| self.plan(value)).collect::<Result<Vec<_>, _>>()?;
        let body = self.plan(&recursion.body)?;
        let schema = Arc::clone(&body.schema);
        let bindings = ids.into_iter().zip(values).collect();
        Ok(Lir { schema, node: Node::LetRec(Box::new(LetRec { bindings, limit: recursion.limit, body })) })
    }

    /// WITH RECURSIVE.
    pub(super) fn recursive_query(&self, recursive: &RecursiveQuery) -> Result<Lir, SqlError> {
        let id = self.new_local(&recursive.name);
        let schema = nullable(recursive.schema.inner());
        let step = self.plan(&recursive.recursive_term)?;
        check(&step, id, recursive.is_distinct)?;
        let terms = vec![self.plan(&recursive.static_term)?, step];
        let mut value = Lir { node: Node::Union(terms), schema: Arc::clone(&schema) };
        if recursive.is_distinct {
            value = self.distinct(value)?;
        }
        let body = Lir { node: Node::GetLocal(id), schema: Arc::clone(&schema) };
        let recursion = LetRec { bindings: vec![(id, value)], limit: RecursionLimit::default(), body };
        Ok(Lir { schema, node: Node::LetRec(Box::new(recursion)) })
    }
}

/// Refuses a recursive term of which the sum of its rounds is not what it gives for the sum of their rows.
fn check(term: &Lir, id: LocalId, is_distinct: bool) -> Result<(), SqlError> {
    if !term.reads(id) {
        return Ok(());
    }
    let what = match &term.node {
        Node::GetLocal(_) => return Ok(()),
        Node::Mfp { input, .. } | Node::Temporal { input, .. } => return check(input, id, is_distinct),
        Node::Union(inputs) => return inputs.iter().try_for_each(|input| check(input, id, is_distinct)),
        Node::Join(join) if join.left.reads(id) && join.right.reads(id) => {
            "a recursive term that joins its query to itself"
        }
        Node::Join(join) if join.kind == JoinKind::Inner => {
            check(&join.left, id, is_distinct)?;
            return check(&join.right, id, is_distinct);
        }
        Node::Join(join) if join.kind != JoinKind::Full && join.left.reads(id) => {
            return check(&join.left, id, is_distinct);
        }
        Node::Reduce(reduce) if reduce.aggregates.is_empty() && is_distinct => {
            return check(&reduce.input, id, is_distinct);
        }
        Node::Reduce(_) => "DISTINCT or GROUP BY in the recursive term",
        Node::TopK { .. } => "LIMIT in the recursive term",
        Node::Window { .. } => "a window function in the recursive term",
        _ => "this recursive term",
    };
    Err(refused(&format!("{what} in a maintained view")).with_hint("Use WITH MUTUALLY RECURSIVE."))
}
