//! What a statement reads of the relations that it names: the columns that its text refers to, as Postgres counts them.
//!
//! Privileges on columns are checked by it, and columns that a view needs are found by it. A column is read where a name or `*`
//! stands for it, also where nothing comes of that in the end; a relation is read even if none of its columns is. What the
//! plan carries along for its own purposes is not read.
//!
//! # Invariants
//! - A column of a scope becomes an expression through [`ScopeColumn::reference`](super::scope::ScopeColumn::reference) and
//!   nowhere else, which notes it here.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Expr;
use engine::Read;
use repr::GlobalId;
use std::collections::{BTreeSet, HashMap};

/// All that a statement reads, while it is bound.
#[derive(Default)]
pub struct Reads {
    all: Vec<Read>,
    /// By qualifier in the plan: which of them, and what the columns are called there.
    by_qualifier: HashMap<String, (usize, Vec<String>)>,
}

impl Reads {
    /// A relation is mentioned: `qualifier` is it in the plan, and `schema` has its columns.
    pub fn mention(&mut self, qualifier: &str, id: GlobalId, schema: &DFSchema) {
        let names = schema.fields().iter().map(|field| field.name().clone()).collect();
        self.by_qualifier.insert(qualifier.to_owned(), (self.all.len(), names));
        self.all.push(Read { id, columns: BTreeSet::new() });
    }

    /// The relation that a qualifier of the plan stands for.
    pub fn relation(&self, qualifier: &str) -> Option<GlobalId> {
        self.by_qualifier.get(qualifier).map(|(at, _)| self.all[*at].id)
    }

    /// The columns in an expression are read.
    pub fn note(&mut self, expr: &Expr) {
        let Reads { all, by_qualifier } = self;
        expr.apply(|expr| {
            if let Expr::Column(column) | Expr::OuterReferenceColumn(_, column) = expr
                && let Some(relation) = &column.relation
                && let Some((at, names)) = by_qualifier.get(relation.table())
            {
                all[*at].columns.extend(names.iter().position(|name| *name == column.name));
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .expect("the visitor does not fail");
    }

    /// What is read, in the order in which it was mentioned.
    pub fn all(&self) -> &[Read] {
        &self.all
    }

    /// The same.
    pub fn into_all(self) -> Vec<Read> {
        self.all
    }
}
