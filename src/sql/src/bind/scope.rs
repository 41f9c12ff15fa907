//! What names mean: the columns of a FROM clause, and the scopes around it.

use super::reads::Reads;
use arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Expr, when};
use engine::error::SqlError;
use repr::PgType;
use repr::sqlstate::SqlState;
use sql_functions::TypedExpr;
use sql_functions::record::make_named_row;
use sql_syntax::names::FullName;
use sqlparser::ast::Ident;
use std::sync::Arc;

/// The name of the column that numbers the rows of the target of an UPDATE or DELETE that joins it; no user's column can be called
/// so by accident. It is no part of the target's row.
pub const ROW_NUMBER: &str = "?row?";

/// A column that expressions can name.
#[derive(Clone, Debug)]
pub struct ScopeColumn {
    /// The alias of its relation; none for a column merged by USING.
    pub table: Option<String>,
    /// What its relation is, if that is one of the catalog's.
    pub source: Option<Arc<Source>>,
    /// Its name.
    pub name: String,
    /// What it stands for in the plan: a column, or COALESCE of two.
    pub expr: Expr,
    /// Its Postgres type.
    pub ty: PgType,
    /// Its Arrow type.
    pub data_type: DataType,
    /// Whether it can be NULL in a row of its relation.
    pub nullable: bool,
    /// Whether an outer join may leave its relation without a row.
    pub optional: bool,
    /// Whether it can be named without its relation.
    pub unqualified: bool,
    /// Whether `*` includes it.
    pub star: bool,
    /// What it is to its relation.
    pub role: Role,
}

/// A relation of the catalog in FROM.
#[derive(Debug)]
pub struct Source {
    /// Its own name.
    pub name: FullName,
    /// Whether an alias hides that.
    pub is_aliased: bool,
}

/// How an expression names a relation of FROM.
#[derive(Clone, Copy, Debug)]
pub struct RelationName<'n> {
    /// Its database, if that is said.
    pub database: Option<&'n str>,
    /// Its schema, if that is said.
    pub schema: Option<&'n str>,
    /// Its name, or its alias.
    pub table: &'n str,
}

impl<'n> RelationName<'n> {
    /// The name of one to three parts. Error 0A000 if there are more.
    pub fn new(parts: &'n [String]) -> Result<RelationName<'n>, SqlError> {
        Ok(match parts {
            [table] => RelationName { database: None, schema: None, table },
            [schema, table] => RelationName { database: None, schema: Some(schema), table },
            [database, schema, table] => RelationName { database: Some(database), schema: Some(schema), table },
            _ => return Err(SqlError::unsupported(format!("the name {}", parts.join(".")))),
        })
    }

    /// Whether it names the relation of this column. An alias hides in which schema a relation is.
    pub fn is_of(&self, column: &ScopeColumn) -> bool {
        let is_in = |schema: &str| match &column.source {
            Some(source) => {
                let FullName { database, schema: own, .. } = &source.name;
                let is_own = own == schema || (schema == "pg_temp" && own.starts_with("pg_temp_"));
                let is_there = self.database.zip(database.as_deref()).is_none_or(|(said, own)| said == own);
                is_own && is_there && !source.is_aliased
            }
            // The target of a statement, which has been resolved; a subquery.
            None => true,
        };
        column.table.as_deref() == Some(self.table) && self.schema.is_none_or(is_in)
    }
}

/// What a column is to its relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// One of its columns.
    Column,
    /// The value of a function, for which the relation's name stands as well.
    Value,
    /// None that can be named: it is NULL where an outer join has left the relation out.
    Presence,
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
        table: Option<RelationName<'_>>,
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
    pub fn columns(
        &self,
        table: RelationName<'_>,
        ident: &Ident,
        reads: &mut Reads,
    ) -> Result<Vec<TypedExpr>, SqlError> {
        let (mut frame, mut depth) = (Some(self), 0);
        while let Some(current) = frame {
            let of_table = current.scope.columns.iter().filter(|column| column.is_of(table));
            let found: Vec<TypedExpr> = of_table.map(|column| column.reference(depth, reads)).collect();
            if !found.is_empty() {
                return Ok(found);
            }
            (frame, depth) = (current.outer, depth + 1);
        }
        Err(self.missing(Some(table), "*").at(ident.span))
    }

    /// What the name of a relation stands for where a value is asked for: its row, which is NULL where an outer join has
    /// none. `None` if no scope has such a relation.
    pub fn row(&self, table: &str, reads: &mut Reads) -> Result<Option<TypedExpr>, SqlError> {
        let (mut frame, mut depth) = (Some(self), 0);
        while let Some(current) = frame {
            let of_table = current.scope.columns.iter().filter(|column| column.table.as_deref() == Some(table));
            let of_table = of_table.filter(|column| column.name != ROW_NUMBER);
            let (marks, columns): (Vec<_>, Vec<_>) = of_table.partition(|column| column.role == Role::Presence);
            match columns.as_slice() {
                [] => {}
                [value] if value.role == Role::Value => return Ok(Some(value.reference(depth, reads))),
                columns => return row_of(columns, marks.first().copied(), depth, reads).map(Some),
            }
            (frame, depth) = (current.outer, depth + 1);
        }
        Ok(None)
    }

    /// The number of scopes.
    pub fn depth(&self) -> usize {
        1 + self.outer.map_or(0, Frame::depth)
    }

    /// A column of any scope of which this is true.
    fn any(&self, is: &dyn Fn(&ScopeColumn) -> bool) -> Option<&ScopeColumn> {
        self.scope.columns.iter().find(|column| is(column)).or_else(|| self.outer.and_then(|outer| outer.any(is)))
    }

    fn missing(&self, table: Option<RelationName<'_>>, name: &str) -> SqlError {
        match table {
            Some(of) if name != "*" && self.any(&|column| of.is_of(column)).is_some() => {
                SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column {}.{name} does not exist", of.table))
            }
            Some(of) => self.missing_relation(of, name),
            None => SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist")),
        }
    }

    /// Error 42P01: no relation is called so, or there is one whose name is hidden by its alias, or that is in another schema.
    /// 0A000: the relation is that of another database.
    pub fn missing_relation(&self, of: RelationName<'_>, column: &str) -> SqlError {
        let RelationName { database, schema, table } = of;
        let is_own = |column: &ScopeColumn| {
            let name = column.source.as_ref().map(|source| &source.name);
            name.is_some_and(|name| name.database.as_deref() == database)
        };
        if let (Some(database), Some(schema)) = (database, schema)
            && self.any(&is_own).is_none()
        {
            let message =
                format!("cross-database references are not implemented: {database}.{schema}.{table}.{column}");
            return SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
        }
        let error = |what: &str| SqlError::new(SqlState::UNDEFINED_TABLE, format!("{what} for table \"{table}\""));
        let is_called = |column: &ScopeColumn| match &column.source {
            Some(source) if source.name.item == table => true,
            _ => column.table.as_deref() == Some(table),
        };
        match self.any(&is_called) {
            None => error("missing FROM-clause entry"),
            Some(column) => match (&column.source, &column.table) {
                (Some(source), Some(alias)) if source.is_aliased && alias != table => {
                    let hint = format!("Perhaps you meant to reference the table alias \"{alias}\".");
                    error("invalid reference to FROM-clause entry").with_hint(hint)
                }
                _ => error("invalid reference to FROM-clause entry"),
            },
        }
    }
}

impl Scope {
    /// The one column of that name; 42702 when there are several.
    pub fn find(
        &self,
        table: Option<RelationName<'_>>,
        name: &str,
        ident: &Ident,
    ) -> Result<Option<&ScopeColumn>, SqlError> {
        let mut found = self.columns.iter().filter(|column| {
            column.name == name
                && match table {
                    Some(table) => table.is_of(column),
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
    /// A column of a relation, or of none.
    pub fn new(table: Option<String>, name: String, value: TypedExpr) -> ScopeColumn {
        let TypedExpr { expr, ty, data_type, nullable } = value;
        let (optional, unqualified, star, role) = (false, true, true, Role::Column);
        ScopeColumn { table, source: None, name, expr, ty, data_type, nullable, optional, unqualified, star, role }
    }

    /// Whether it is one of the columns of that relation.
    pub fn is_of(&self, table: RelationName<'_>) -> bool {
        table.is_of(self) && self.role != Role::Presence
    }

    /// The column as an expression `depth` scopes further in, which so reads it.
    pub fn reference(&self, depth: usize, reads: &mut Reads) -> TypedExpr {
        reads.note(&self.expr);
        let nullable = self.nullable || self.optional;
        let expr = if depth == 0 { self.expr.clone() } else { outer(&self.expr, &self.data_type, nullable) };
        TypedExpr { expr, ty: self.ty.clone(), data_type: self.data_type.clone(), nullable }
    }
}

fn row_of(
    columns: &[&ScopeColumn],
    mark: Option<&ScopeColumn>,
    depth: usize,
    reads: &mut Reads,
) -> Result<TypedExpr, SqlError> {
    let fields = columns.iter().map(|column| (column.name.clone(), column.reference(depth, reads))).collect();
    let row = make_named_row(fields);
    match mark {
        Some(mark) => {
            let expr = when(mark.reference(depth, reads).expr.is_not_null(), row.expr).end()?;
            Ok(TypedExpr { expr, nullable: true, ..row })
        }
        None if columns.iter().any(|column| column.optional) => {
            Err(SqlError::unsupported("the whole row of a function's rows that an outer join may leave out"))
        }
        None => Ok(row),
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
