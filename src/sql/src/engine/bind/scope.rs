//! What names mean: the columns of a FROM clause, and the scopes around it.

use crate::error::SqlError;
use arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::Expr;
use datafusion::sql::sqlparser::ast::Ident;
use repr::PgType;
use repr::sqlstate::SqlState;
use std::sync::Arc;

use super::reads::Reads;
use crate::engine::TypedExpr;

/// A column that expressions can name.
#[derive(Clone, Debug)]
pub struct ScopeColumn {
    /// The alias of its relation; none for a column merged by USING.
    pub table: Option<String>,
    /// Its name.
    pub name: String,
    /// What it stands for in the plan: a column, or COALESCE of two.
    pub expr: Expr,
    /// Its Postgres type.
    pub ty: PgType,
    /// Its Arrow type.
    pub data_type: DataType,
    /// Whether it can be NULL.
    pub nullable: bool,
    /// Whether it can be named without its relation.
    pub unqualified: bool,
    /// Whether `*` includes it.
    pub star: bool,
}

/// The columns of one FROM clause.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// In the order of `*`.
    pub columns: Vec<ScopeColumn>,
}

/// A scope and those around it.
#[derive(Clone, Copy)]
pub struct Frame<'s> {
    /// The innermost.
    pub scope: &'s Scope,
    /// The next one out.
    pub outer: Option<&'s Frame<'s>>,
}

/// Where an expression stands, which decides what it may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clause {
    /// The select list.
    Select,
    /// WHERE
    Where,
    /// JOIN … ON
    JoinOn,
    /// GROUP BY
    GroupBy,
    /// HAVING
    Having,
    /// ORDER BY or DISTINCT ON
    OrderBy,
    /// LIMIT or OFFSET
    Limit,
    /// VALUES
    Values,
    /// A function in FROM
    From,
    /// The argument or FILTER of an aggregate
    Aggregate,
    /// PARTITION BY, ORDER BY or an argument of a window function
    Window,
    /// CHECK
    Check,
    /// An expression outside any query
    Expression,
}

impl Clause {
    /// As the error messages name it.
    pub fn name(self) -> &'static str {
        match self {
            Clause::Select => "SELECT",
            Clause::Where => "WHERE",
            Clause::JoinOn => "JOIN conditions",
            Clause::GroupBy => "GROUP BY",
            Clause::Having => "HAVING",
            Clause::OrderBy => "ORDER BY",
            Clause::Limit => "LIMIT",
            Clause::Values => "VALUES",
            Clause::From => "functions in FROM",
            Clause::Aggregate => "aggregate arguments",
            Clause::Window => "window definitions",
            Clause::Check => "check constraints",
            Clause::Expression => "this expression",
        }
    }
}

/// An identifier as Postgres folds it.
pub fn fold(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

impl Frame<'_> {
    /// The column `name`, of the relation `table` if one is named, in the innermost scope that has it.
    pub fn resolve(
        &self,
        table: Option<&str>,
        name: &str,
        ident: &Ident,
        reads: &mut Reads,
    ) -> Result<TypedExpr, SqlError> {
        let mut frame = Some(self);
        let mut depth = 0;
        while let Some(current) = frame {
            if let Some(column) = current.scope.find(table, name, ident)? {
                return Ok(column.reference(depth, reads));
            }
            frame = current.outer;
            depth += 1;
        }
        Err(self.missing(table, name).at(ident.span))
    }

    /// All columns of the relation `table`. Error 42P01.
    pub fn columns(&self, table: &str, ident: &Ident, reads: &mut Reads) -> Result<Vec<TypedExpr>, SqlError> {
        let (mut frame, mut depth) = (Some(self), 0);
        while let Some(current) = frame {
            let of_table = current.scope.columns.iter().filter(|column| column.table.as_deref() == Some(table));
            let found: Vec<TypedExpr> = of_table.map(|column| column.reference(depth, reads)).collect();
            if !found.is_empty() {
                return Ok(found);
            }
            (frame, depth) = (current.outer, depth + 1);
        }
        Err(self.missing(Some(table), "*").at(ident.span))
    }

    /// The number of scopes.
    pub fn depth(&self) -> usize {
        1 + self.outer.map_or(0, Frame::depth)
    }

    /// Whether any scope has a relation of that name.
    pub fn has_table(&self, table: &str) -> bool {
        let here = self.scope.columns.iter().any(|column| column.table.as_deref() == Some(table));
        here || self.outer.is_some_and(|outer| outer.has_table(table))
    }

    fn missing(&self, table: Option<&str>, name: &str) -> SqlError {
        match table {
            Some(table) if self.has_table(table) => {
                SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column {table}.{name} does not exist"))
            }
            Some(table) => {
                SqlError::new(SqlState::UNDEFINED_TABLE, format!("missing FROM-clause entry for table \"{table}\""))
            }
            None => SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist")),
        }
    }
}

impl Scope {
    /// The one column of that name; 42702 when there are several.
    pub fn find(&self, table: Option<&str>, name: &str, ident: &Ident) -> Result<Option<&ScopeColumn>, SqlError> {
        let mut found = self.columns.iter().filter(|column| {
            column.name == name
                && match table {
                    Some(table) => column.table.as_deref() == Some(table),
                    None => column.unqualified,
                }
        });
        let first = found.next();
        if found.next().is_some() {
            return Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, format!("column reference \"{name}\" is ambiguous"))
                .at(ident.span));
        }
        Ok(first)
    }

    /// The client's name of a plan column, for errors.
    pub fn describe(&self, expr: &Expr) -> String {
        match self.columns.iter().find(|column| column.expr == *expr) {
            Some(ScopeColumn { table: Some(table), name, .. }) => format!("{table}.{name}"),
            Some(column) => column.name.clone(),
            None => expr.to_string(),
        }
    }
}

impl ScopeColumn {
    /// The column as an expression `depth` scopes further in, which so reads it.
    pub fn reference(&self, depth: usize, reads: &mut Reads) -> TypedExpr {
        reads.note(&self.expr);
        let expr = if depth == 0 { self.expr.clone() } else { outer(&self.expr, &self.data_type, self.nullable) };
        TypedExpr { expr, ty: self.ty.clone(), data_type: self.data_type.clone(), nullable: self.nullable }
    }
}

fn outer(expr: &Expr, data_type: &DataType, nullable: bool) -> Expr {
    expr.clone()
        .transform_up(|expr| {
            Ok(match expr {
                Expr::Column(column) => {
                    let field = Field::new(column.name.clone(), data_type.clone(), nullable);
                    Transformed::yes(Expr::OuterReferenceColumn(Arc::new(field), column))
                }
                other => Transformed::no(other),
            })
        })
        .map(|transformed| transformed.data)
        .unwrap_or_else(|_| expr.clone())
}
