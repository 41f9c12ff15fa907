//! DataFusion, configured and bound so that it answers as Postgres does.
//!
//! Names and types are ours: `bind` resolves a statement's AST to a typed `LogicalPlan` by Postgres's rules (literals,
//! unknown types, operator and function overloads, output names, scopes, errors). Everything after is DataFusion's:
//! optimisation, physical planning and execution, with our functions in the expressions. DataFusion's own SQL front
//! end and its type coercion are not used, because their rules differ from Postgres's in places that no later pass
//! can mend: by the time a rule sees `1 + '2'` the type of the literal has been decided.
//!
//! # Invariants
//! - A plan holds nothing of a session: what differs per statement is read from [`SessionInfo`] at run time.
//! - Every expression in a plan is completely typed: no cast is left for DataFusion to insert.

pub mod bind;
pub mod cast;
mod checked;
pub mod coerce;
pub mod collection;
mod constants;
pub mod effort;
mod faults;
mod fixpoint;
pub mod memory;
mod pace;
pub mod recursion;
pub mod row_count;
pub mod runtime;
pub mod session;
mod slices;
mod sorts;
mod through;
pub mod types;
pub mod value;

use crate::error::SqlError;
use crate::names::FullName;
use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use pgrepr::options::Locale;
use repr::sqlstate::SqlState;
use repr::{GlobalId, PgType, Reg, RelationDesc};
use sqlparser::ast;
use std::sync::Arc;

pub use bind::{Origin, Read};
pub use collection::{CollectionReader, CollectionTable, ReaderExtension};
pub use runtime::Engine;
pub use session::{CatalogFunctions, SessionInfo, Settings};

/// A bound query: what to run, and what the client sees of it.
#[derive(Clone, Debug)]
pub struct PlannedQuery {
    /// The plan. Its columns are those of `desc`, in order, under names that DataFusion needs to be unique.
    pub plan: LogicalPlan,
    /// The client's view: Postgres's output names (duplicates are legal) and types. Its schema has the same names and
    /// the plan's Arrow types.
    pub desc: RelationDesc,
    /// For each column, the column of a relation of the catalog that it is, if it is nothing else.
    pub origins: Vec<Option<Origin>>,
}

impl PlannedQuery {
    /// The first `columns` of its columns.
    pub fn truncated(self, columns: usize) -> Result<PlannedQuery, SqlError> {
        if columns >= self.desc.arity() {
            return Ok(self);
        }
        let indices: Vec<usize> = (0..columns).collect();
        let mut desc = RelationDesc::from_schema(Arc::new(self.desc.schema.project(&indices)?));
        desc.columns = self.desc.columns[..columns].to_vec();
        let plan = LogicalPlanBuilder::from(self.plan).select(indices)?.build()?;
        let mut origins = self.origins;
        origins.truncate(columns);
        Ok(PlannedQuery { plan, desc, origins })
    }
}

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
}

/// Resolves the names of a statement against the catalog.
pub trait TableResolver: Send + Sync {
    /// The relation called `name` (one to three parts, already folded to lower case where unquoted).
    ///
    /// Errors with 42P01 when there is none; `depends_on` is the implementor's to record.
    fn resolve(&self, name: &[String]) -> Result<ResolvedTable, SqlError>;

    /// The oid of the object that `text` names, for a constant cast to an alias of `oid` (numbers have been handled).
    fn resolve_reg(&self, kind: Reg, text: &str) -> Result<u32, SqlError> {
        Err(SqlError::unsupported(format!("the cast of \"{text}\" to {}", kind.name())))
    }

    /// Told what a query or an expression reads, once it is bound. Errors: 42501, if that is not allowed.
    fn check_reads(&self, _reads: &[Read]) -> Result<(), SqlError> {
        Ok(())
    }

    /// Told of a relation of whose rows a query asks for locks. Errors: 42P01, 42501, 42809.
    fn check_lock(&self, _name: &[String]) -> Result<(), SqlError> {
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

/// The parameters `$1`, `$2`, … of a statement: declared by the client or inferred from their context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params {
    /// The type of each, as far as it is known.
    pub types: Vec<Option<PgType>>,
    /// Whether the statement may use parameters at all.
    pub allowed: bool,
}

impl Params {
    /// No parameters: `$1` is 42P02.
    pub fn none() -> Params {
        Params { types: Vec::new(), allowed: false }
    }

    /// Parameters with the declared types; further ones are inferred.
    pub fn declared(types: Vec<Option<PgType>>) -> Params {
        Params { types, allowed: true }
    }

    /// The types of all parameters once a statement is planned; 42P18 when one could not be determined.
    pub fn finish(&self) -> Result<Vec<PgType>, SqlError> {
        self.types
            .iter()
            .enumerate()
            .map(|(i, ty)| {
                ty.clone().ok_or_else(|| {
                    SqlError::new(
                        SqlState::INDETERMINATE_DATATYPE,
                        format!("could not determine data type of parameter ${}", i + 1),
                    )
                })
            })
            .collect()
    }
}

impl Engine {
    /// Binds a query. Not optimised.
    pub fn plan_query(
        &self,
        query: &ast::Query,
        tables: &dyn TableResolver,
        params: &mut Params,
    ) -> Result<PlannedQuery, SqlError> {
        bind::plan_query(query, tables, params)
    }

    /// Binds a scalar expression over the columns of one relation (defaults, index keys, WHERE, SET, RETURNING).
    ///
    /// Columns resolve by name or as `qualifier.name` as in the schema. Returns the expression and its type.
    pub fn plan_expr(
        &self,
        expr: &ast::Expr,
        schema: &DFSchema,
        params: &mut Params,
        tables: &dyn TableResolver,
    ) -> Result<TypedExpr, SqlError> {
        bind::plan_expr(expr, schema, tables, params)
    }

    /// The name Postgres would give to `expr` as an output column.
    pub fn output_name(&self, expr: &ast::Expr) -> String {
        bind::name::output_name(expr)
    }

    /// The type that an AST type names.
    pub fn plan_type(&self, data_type: &ast::DataType) -> Result<PgType, SqlError> {
        types::from_ast(data_type)
    }

    /// Converts an expression for storage in a column, as INSERT and UPDATE do.
    pub fn assignment_cast(
        &self,
        expr: TypedExpr,
        to: &PgType,
        column: &str,
        params: &mut Params,
        tables: &dyn TableResolver,
    ) -> Result<Expr, SqlError> {
        coerce::assign(expr, to, column, params, tables)
    }
}

/// An expression with the type Postgres gives it.
#[derive(Clone, Debug)]
pub struct TypedExpr {
    /// The expression.
    pub expr: Expr,
    /// Its Postgres type; `Unknown` for an undecorated string literal, NULL or undecided parameter.
    pub ty: PgType,
    /// The Arrow type of its values.
    pub data_type: DataType,
    /// Whether it can be NULL.
    pub nullable: bool,
}
