//! What binding asks of the catalog: what the names of a statement stand for.

use super::{CubeRef, PlannedQuery};
use crate::row_locks::RowLocks;
use datafusion::logical_expr::LogicalPlan;
use engine::Read;
use engine::error::SqlError;
use pgrepr::options::Locale;
use repr::{GlobalId, Reg, RelationDesc};
use semantic::security::Security;
use sql_syntax::names::FullName;
use std::sync::Arc;

/// What a table name stands for.
#[derive(Clone, Debug)]
pub enum ResolvedTable {
    /// A stored collection (a table, an index-backed or built-in relation).
    Collection {
        /// Its name, by which the query may say whose a column is. `None` where that does not count, in what is stored: the name may
        /// have become another one since.
        name: Option<FullName>,
        /// Its id.
        id: GlobalId,
        /// Its columns.
        desc: Arc<RelationDesc>,
        /// How many of them are seen, from the first.
        columns: usize,
        /// The names under which they are seen; empty for their own.
        names: Vec<String>,
        /// The positions of the primary key; empty without one.
        primary_key: Vec<usize>,
    },
    /// A view, inlined.
    View {
        /// Its name, by which the query may say whose a column is. `None` where that does not count, in what is stored: the name may
        /// have become another one since.
        name: Option<FullName>,
        /// Its id.
        id: GlobalId,
        /// Its query, bound under its own search path.
        query: Box<PlannedQuery>,
    },
    /// A cube or a view of a semantic model.
    Cube {
        /// Its name, by which the query may say whose a column is. `None` where that does not count.
        name: Option<FullName>,
        /// What it is.
        cube: CubeRef,
        /// Its columns.
        desc: Arc<RelationDesc>,
    },
}

/// Binds what a model says.
pub type BindModel<'b> = &'b mut dyn FnMut(&dyn TableResolver) -> Result<(), SqlError>;

/// Resolves the names of a statement against the catalog.
pub trait TableResolver: Send + Sync {
    /// The relation called `name` (one to three parts, already folded to lower case where unquoted).
    ///
    /// Errors with 42P01 when there is none; `depends_on` is the implementor's to record.
    fn resolve(&self, name: &[String]) -> Result<ResolvedTable, SqlError>;

    /// The name by which [`TableResolver::resolve`] finds the cube that is called so where only cubes are asked for.
    fn cube(&self, name: &str) -> Vec<String> {
        vec![name.to_owned()]
    }

    /// Lets the names in a cube's model be bound: calls back with what they stand for, by the rights of the model's owner.
    fn in_model(&self, cube: GlobalId, _bind: BindModel<'_>) -> Result<(), SqlError> {
        Err(SqlError::internal(format!("{cube} is no cube")))
    }

    /// Told that what is bound depends on who asks.
    fn note_policy(&self) {}

    /// Who asks, for the policies of cubes.
    fn security(&self) -> Security {
        Security::default()
    }

    /// The oid of the object that `text` names, for a constant cast to an alias of `oid` (numbers have been handled).
    fn resolve_reg(&self, kind: Reg, text: &str) -> Result<u32, SqlError> {
        Err(SqlError::unsupported(format!("the cast of \"{text}\" to {}", kind.name())))
    }

    /// Told what a query or an expression reads, once it is bound. Errors: 42501, if that is not allowed.
    fn check_reads(&self, _reads: &[Read]) -> Result<(), SqlError> {
        Ok(())
    }

    /// Told of a relation of whose rows a query asks for locks. Errors: 42P01, 42501, 42809.
    fn check_lock(&self, _name: &[String], _locks: RowLocks) -> Result<(), SqlError> {
        Ok(())
    }

    /// How literals are read.
    fn locale(&self) -> Locale {
        Locale::default()
    }

    /// Told of a query in WITH that is read, and becomes part of the plan once more. Error 54001 if that is too much.
    fn check_copy(&self, _plan: &LogicalPlan) -> Result<(), SqlError> {
        Ok(())
    }

    /// Error 57014 if the statement that is bound is to end early.
    fn check_interrupts(&self) -> Result<(), SqlError> {
        Ok(())
    }
}
