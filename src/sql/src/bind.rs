//! The binder: from a query's AST to a typed logical plan, by Postgres's rules.
//!
//! Steps, in the order in which Postgres's analyser takes them:
//! 1. `query`: WITH, set operations, ORDER BY and LIMIT around a body;
//! 2. `from`: relations and joins make a scope of named, typed columns;
//! 3. `expr`, `operator`, `call`, `subquery`: expressions are resolved bottom up; an undecorated literal stays
//!    `Unknown` until an operator, function, column or output decides its type;
//! 4. `select`: grouping, windows, set-returning functions, DISTINCT and ORDER BY become plan nodes.
//!
//! # Invariants
//! - Every relation in a plan has a qualifier of its own, so that decorrelation cannot confuse inner and outer.
//! - The plan's columns and the client's columns agree in number, order and Arrow type; [`finish`] checks it.

pub mod aggregate;
mod arguments;
pub mod call;
pub mod coerce;
mod columns;
mod cube;
mod cx;
pub mod expr;
pub mod from;
pub mod grouping;
mod json_rows;
pub mod literal;
mod lock;
pub mod logic;
mod matching;
pub mod name;
mod now;
pub mod operator;
mod origin;
mod params;
mod parentheses;
mod planned;
mod presence;
pub mod query;
mod reads;
pub mod recursive;
mod relation;
mod resolver;
mod row;
mod row_in;
pub mod scope;
pub mod select;
pub mod subquery;
pub mod window;

use arrow::datatypes::{DataType, Field, Schema};
use coerce::Coercer;
pub use cube::CubeRef;
pub use cube::describe::{DescribedCube, ModelTypes, describe_model};
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::{Expr, LogicalPlan};
use engine::Read;
use engine::error::SqlError;
pub use origin::Origin;
pub use params::Params;
pub use planned::PlannedQuery;
use reads::Reads;
use repr::sqlstate::SqlState;
use repr::{PgType, RelationDesc};
pub use resolver::{BindModel, ResolvedTable, TableResolver};
use scope::{Clause, Frame, Scope, ScopeColumn};
use sql_functions::TypedExpr;
use sqlparser::ast;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The deepest nesting of expressions and queries that is bound; deeper is 54001.
const DEPTH_MAX: usize = 200;
/// How often an expression that stands in others which are compared several times may stand in the plan.
const COPIES_MAX: usize = 4096;

/// The deepest nesting of subqueries in expressions: DataFusion checks a plan's subqueries in time that doubles with
/// each level.
const SUBQUERY_DEPTH_MAX: usize = 10;

/// A column of a bound query.
#[derive(Clone, Debug)]
pub struct OutputColumn {
    /// Its name for the client.
    pub name: String,
    /// Its Postgres type.
    pub ty: PgType,
    /// Its Arrow type.
    pub data_type: DataType,
}

/// A bound query: the plan's columns are `columns`, in order, under unique names.
#[derive(Clone, Debug)]
pub struct BoundQuery {
    /// The plan.
    pub plan: LogicalPlan,
    /// Its columns.
    pub columns: Vec<OutputColumn>,
}

/// The state of binding one statement.
pub struct Binder<'a> {
    /// Puts casts into expressions; holds the parameters and the catalog.
    pub coercer: Coercer<'a>,
    qualifiers: HashSet<String>,
    reads: Reads,
    /// By qualifier in the plan, the primary keys of the tables in FROM, on which all their columns depend.
    primary_keys: HashMap<String, Vec<Expr>>,
    counter: usize,
    ctes: Vec<HashMap<String, BoundQuery>>,
    /// The queries that are run before the one that is bound, each of which may read those before it.
    once: Vec<(String, LogicalPlan)>,
    /// Of each SELECT that is being bound, the names without a qualifier, which may be those of relations.
    alone: Vec<HashSet<String>>,
    /// Whether cubes are read, and which columns of the plan are measures of them.
    has_cubes: bool,
    measures: cube::Measures,
    /// Who asks, in what stands in the place of cubes; nobody where a model is only looked at.
    asker: Option<&'a dyn TableResolver>,
    /// How many dimensions that are sub-queries are being bound, each in the one before it.
    sub_queries: usize,
    /// How many queries are being bound, each in the one before it.
    queries: usize,
    depth: usize,
    /// How often what is being bound will stand in the plan.
    copies: usize,
}

/// Binds a query. Not optimised.
pub fn plan_query(
    query: &ast::Query,
    tables: &dyn TableResolver,
    params: &mut Params,
) -> Result<PlannedQuery, SqlError> {
    let mut binder = Binder::new(tables, params);
    let bound = binder.query(query, None, Settle::Text)?;
    binder.check_reads()?;
    finish(&binder, bound)
}

/// The columns of a query, for which no privilege is asked.
pub fn describe(query: &ast::Query, tables: &dyn TableResolver, params: &mut Params) -> Result<PlannedQuery, SqlError> {
    let mut binder = Binder::new(tables, params);
    let bound = binder.query(query, None, Settle::Text)?;
    finish(&binder, bound)
}

/// Binds the source of an INSERT: its columns are converted to `targets` as assignments.
pub fn plan_source(
    query: &ast::Query,
    targets: &[(String, PgType)],
    tables: &dyn TableResolver,
    params: &mut Params,
) -> Result<PlannedQuery, SqlError> {
    let mut binder = Binder::new(tables, params);
    let bound = binder.query(query, None, Settle::Assign(targets))?;
    binder.check_reads()?;
    finish(&binder, bound)
}

/// What a query reads of the relations that it names, in the order in which it names them. Nobody is told of it.
pub fn reads(query: &ast::Query, tables: &dyn TableResolver, params: &mut Params) -> Result<Vec<Read>, SqlError> {
    let mut binder = Binder::new(tables, params);
    binder.query(query, None, Settle::Text)?;
    Ok(binder.reads.into_all())
}

/// Binds a scalar expression over the columns of one relation (defaults, index keys, WHERE, SET, RETURNING).
///
/// Columns resolve by name or as `qualifier.name` as in the schema.
pub fn plan_expr(
    expr: &ast::Expr,
    schema: &DFSchema,
    params: &mut Params,
    tables: &dyn TableResolver,
) -> Result<TypedExpr, SqlError> {
    let scope = scope_of(schema);
    let mut binder = Binder::new(tables, params);
    let bound = binder.expr(expr, &cx::Cx::new(&Frame { scope: &scope, outer: None }, Clause::Expression))?;
    binder.check_reads()?;
    Ok(bound)
}

/// Binds a condition over the columns of `schema` that stands in a clause outside of a query.
pub fn plan_condition(
    expr: &ast::Expr,
    schema: &DFSchema,
    (clause, what): (Clause, &str),
    tables: &dyn TableResolver,
    params: &mut Params,
) -> Result<Expr, SqlError> {
    let scope = scope_of(schema);
    let mut binder = Binder::new(tables, params);
    let bound = binder.expr(expr, &cx::Cx::new(&Frame { scope: &scope, outer: None }, clause))?;
    let condition = binder.boolean(bound, what, expr)?.expr;
    binder.check_reads()?;
    Ok(condition)
}

/// The columns of a schema as names.
fn scope_of(schema: &DFSchema) -> Scope {
    let columns = schema
        .iter()
        .map(|(qualifier, field)| {
            let value = TypedExpr {
                expr: Expr::Column(Column::new(qualifier.cloned(), field.name())),
                ty: PgType::from_field(field),
                data_type: field.data_type().clone(),
                nullable: field.is_nullable(),
            };
            ScopeColumn::new(qualifier.map(|q| q.table().to_owned()), field.name().clone(), value)
        })
        .collect();
    Scope { columns }
}

/// How columns of undecided type leave a query.
#[derive(Clone, Copy)]
pub enum Settle<'t> {
    /// As text.
    Text,
    /// Undecided: a set operation or VALUES around it will decide.
    Later,
    /// Assigned to the columns of a table.
    Assign(&'t [(String, PgType)]),
}

impl<'a> Binder<'a> {
    fn new(tables: &'a dyn TableResolver, params: &'a mut Params) -> Binder<'a> {
        Binder {
            coercer: Coercer { params, tables },
            qualifiers: HashSet::new(),
            reads: Reads::default(),
            primary_keys: HashMap::new(),
            counter: 0,
            ctes: Vec::new(),
            once: Vec::new(),
            alone: Vec::new(),
            has_cubes: false,
            measures: cube::Measures::new(),
            asker: None,
            sub_queries: 0,
            queries: 0,
            depth: 0,
            copies: 1,
        }
    }

    /// A qualifier that no other relation of this statement has, after `name`.
    pub fn qualifier(&mut self, name: &str) -> String {
        let mut candidate = name.to_owned();
        while !self.qualifiers.insert(candidate.clone()) {
            self.counter += 1;
            candidate = format!("{name}_{}", self.counter);
        }
        candidate
    }

    /// A column name that no column of this statement has.
    pub fn internal_name(&mut self, kind: &str) -> String {
        self.counter += 1;
        format!("__{kind}_{}", self.counter)
    }

    /// Goes one level down; every `deeper` that succeeds is followed by `shallower`.
    fn deeper(&mut self) -> Result<(), SqlError> {
        if self.depth == DEPTH_MAX {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
                .with_detail(format!("Expressions and queries nest at most {DEPTH_MAX} deep.")));
        }
        self.depth += 1;
        Ok(())
    }

    /// Binds an operand that will stand in the plan several times. Such constructs in each other multiply: error 54001 if there
    /// are too many.
    fn copied(&mut self, times: usize, expr: &ast::Expr, cx: &cx::Cx<'_>) -> Result<TypedExpr, SqlError> {
        let around = self.copies;
        self.copies = around.saturating_mul(times);
        if around > 1 && self.copies > COPIES_MAX {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
                .with_detail("Too many expressions that are compared more than once nest in each other."));
        }
        let bound = self.expr(expr, cx);
        self.copies = around;
        bound
    }

    fn shallower(&mut self) {
        self.depth -= 1;
    }

    fn check_reads(&self) -> Result<(), SqlError> {
        self.coercer.tables.check_reads(self.reads.all())
    }

    fn cte(&self, name: &str) -> Option<&BoundQuery> {
        self.ctes.iter().rev().find_map(|level| level.get(name))
    }
}

/// The result for the client.
fn finish(binder: &Binder<'_>, bound: BoundQuery) -> Result<PlannedQuery, SqlError> {
    let BoundQuery { plan, columns } = bound;
    let planned = plan.schema();
    if planned.fields().len() != columns.len() {
        return Err(SqlError::internal("the plan's columns are not the query's"));
    }
    let mut fields = Vec::with_capacity(columns.len());
    for (column, field) in columns.iter().zip(planned.fields()) {
        if *field.data_type() != column.data_type {
            return Err(SqlError::internal(format!(
                "column \"{}\" was bound as {} and planned as {}",
                column.name,
                column.data_type,
                field.data_type()
            )));
        }
        let tagged: Field = column.ty.field(&column.name, field.is_nullable());
        fields.push(tagged.with_data_type(column.data_type.clone()));
    }
    let mut desc = RelationDesc::from_schema(Arc::new(Schema::new(fields)));
    for (described, column) in desc.columns.iter_mut().zip(columns) {
        described.ty = column.ty;
    }
    let origins = binder.origins(&plan);
    Ok(PlannedQuery { plan, desc, origins })
}
