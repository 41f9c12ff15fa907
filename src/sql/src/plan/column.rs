//! What a change of a table's columns makes of the table, and of what refers to it.
//!
//! Positions move up when a column goes. Names are in the words of CHECK constraints and of indexes, which are over the
//! table's own columns and get other words. A view keeps its words: it sees the columns under the names that they had when it
//! was created ([`ViewRead::names`](super::ViewRead::names)).

use super::resolver::Dependencies;
use super::sequence::NewSequence;
use super::{ConstraintDef, ConstraintKind, IndexDef, ItemKind, ItemRef, PlanContext, describe_cubes};
use crate::sequence::SequenceDef;
use engine::error::SqlError;
use repr::{PgType, RelationDesc};
use sql_syntax::ast::visit::{visit_expressions, visit_expressions_mut};
use sql_syntax::names::quote_ident;
use sql_syntax::parser::{fold, parse_expr};
use sqlparser::ast as sp;
use std::ops::ControlFlow;
use std::sync::Arc;

/// One change of a table's columns. Columns are given by their position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnChange {
    /// A column comes, behind the others.
    Add {
        /// Its name.
        name: String,
        /// Its type.
        ty: PgType,
        /// False for NOT NULL.
        nullable: bool,
        /// Its DEFAULT as SQL text.
        default: Option<String>,
        /// The sequence that comes with it, if it has no other DEFAULT.
        sequence: Option<NewSequence>,
    },
    /// A column goes, and with it the constraints that are about it. What else depends on it has gone before.
    Drop(usize),
    /// A column gets another name.
    Rename {
        /// Which.
        column: usize,
        /// Its new name.
        to: String,
    },
    /// A column gets another DEFAULT, or none.
    SetDefault {
        /// Which.
        column: usize,
        /// The DEFAULT as SQL text.
        default: Option<String>,
    },
    /// A column gets another type.
    SetType {
        /// Which.
        column: usize,
        /// Its new type.
        ty: PgType,
        /// Its DEFAULT, of the new type.
        default: Option<String>,
    },
    /// A column becomes NOT NULL, or ceases to be. The rows have yet to be checked.
    SetNullable {
        /// Which.
        column: usize,
        /// False for NOT NULL.
        nullable: bool,
    },
}

impl ColumnChange {
    /// Whether every row is another one afterwards.
    pub fn changes_rows(&self) -> bool {
        matches!(self, ColumnChange::Add { .. } | ColumnChange::Drop(_) | ColumnChange::SetType { .. })
    }
}

/// Changes the columns of a table. Errors with an internal error if `table` is none.
pub fn change(table: &mut ItemRef, change: &ColumnChange) -> Result<(), SqlError> {
    let ItemKind::Table { defaults, constraints, .. } = &mut table.kind else {
        return Err(SqlError::internal(format!("{} is not a table", table.name)));
    };
    let described = table.desc.columns.iter();
    let mut columns: Vec<_> =
        described.map(|column| (column.name.clone(), column.ty.clone(), column.nullable)).collect();
    match change {
        ColumnChange::Add { name, ty, nullable, default, .. } => {
            columns.push((name.clone(), ty.clone(), *nullable));
            defaults.push(default.clone());
        }
        ColumnChange::Drop(at) => {
            columns.remove(*at);
            defaults.remove(*at);
            constraints.retain_mut(|constraint| constraint.own_columns_mut().all(|position| position != at));
            let positions = constraints.iter_mut().flat_map(ConstraintDef::own_columns_mut);
            positions.filter(|position| **position > *at).for_each(|position| *position -= 1);
        }
        ColumnChange::Rename { column, to } => {
            for constraint in constraints {
                if let ConstraintKind::Check { sql, columns: read, .. } = &mut constraint.kind
                    && read.contains(column)
                {
                    *sql = renamed(sql, &columns[*column].0, to)?;
                }
            }
            columns[*column].0.clone_from(to);
        }
        ColumnChange::SetDefault { column, default } => defaults[*column].clone_from(default),
        ColumnChange::SetType { column, ty, default } => {
            columns[*column].1.clone_from(ty);
            defaults[*column].clone_from(default);
        }
        ColumnChange::SetNullable { column, nullable } => columns[*column].2 = *nullable,
    }
    table.desc = Arc::new(RelationDesc::new(columns));
    Ok(())
}

/// What the same change of `table`, given as it was before, makes of an item that refers to it directly.
pub fn follow(dependent: &mut ItemRef, table: &ItemRef, change: &ColumnChange) -> Result<(), SqlError> {
    if let ItemKind::Index(index) = &mut dependent.kind {
        return match change {
            ColumnChange::Drop(at) => {
                let positions = index.keys.iter_mut().filter_map(|key| key.column.as_mut());
                positions.filter(|position| **position > *at).for_each(|position| *position -= 1);
                Ok(())
            }
            ColumnChange::Rename { column, to } => rename_in_index(dependent, table, *column, to),
            _ => Ok(()),
        };
    }
    if let ItemKind::Sequence(SequenceDef { owner: Some(owner), .. }) = &mut dependent.kind {
        if let ColumnChange::Drop(at) = change
            && owner.column > *at
        {
            owner.column -= 1;
        }
        return Ok(());
    }
    if let ItemKind::Table { constraints, .. } = &mut dependent.kind {
        for constraint in constraints {
            if let ConstraintKind::Foreign(foreign) = &mut constraint.kind
                && foreign.parent == Some(table.id)
                && let ColumnChange::Drop(at) = change
            {
                let positions = foreign.referred.iter_mut().filter(|position| **position > *at);
                positions.for_each(|position| *position -= 1);
            }
        }
        return Ok(());
    }
    let reads = dependent.context_mut().into_iter().flat_map(|context| &mut context.reads);
    for read in reads.filter(|read| read.id == table.id) {
        match change {
            ColumnChange::Drop(at) if *at < read.columns => {
                read.columns -= 1;
                if !read.names.is_empty() {
                    read.names.remove(*at);
                }
            }
            ColumnChange::Rename { column, .. } if *column < read.columns && read.names.is_empty() => {
                read.names = table.desc.columns.iter().take(read.columns).map(|column| column.name.clone()).collect();
            }
            _ => {}
        }
    }
    Ok(())
}

fn rename_in_index(index: &mut ItemRef, table: &ItemRef, column: usize, to: &str) -> Result<(), SqlError> {
    let ItemKind::Index(IndexDef { keys, .. }) = &mut index.kind else { return Ok(()) };
    let described = index.desc.columns.iter();
    let mut columns: Vec<_> =
        described.map(|column| (column.name.clone(), column.ty.clone(), column.nullable)).collect();
    for (key, described) in keys.iter_mut().zip(&mut columns) {
        match key.column {
            Some(of) if of == column => {
                key.sql = quote_ident(to);
                to.clone_into(&mut described.0);
            }
            Some(_) => {}
            None => key.sql = renamed(&key.sql, &table.desc.columns[column].name, to)?,
        }
    }
    index.desc = Arc::new(RelationDesc::new(columns));
    Ok(())
}

/// Whether an index's key has a column of its table in it.
pub fn index_reads(index: &IndexDef, table: &ItemRef, column: usize) -> Result<bool, SqlError> {
    let name = &table.desc.columns[column].name;
    for key in &index.keys {
        let reads = match key.column {
            Some(of) => of == column,
            None => mentions(&key.sql, name)?,
        };
        if reads {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the query of a view, or the SQL of a semantic model, reads a column of a table that it names. Errors: it cannot be bound.
pub fn view_reads(ctx: &PlanContext<'_>, view: &ItemRef, table: &ItemRef, column: usize) -> Result<bool, SqlError> {
    let ctx = PlanContext { from_tables: true, ..*ctx };
    let reads = match (view.view(), &view.kind) {
        (Some(def), _) => Dependencies::new().trusted(&ctx).reads(def, view.owner)?,
        (None, ItemKind::SemanticModel(_)) => describe_cubes(&ctx, view)?.reads,
        _ => return Ok(false),
    };
    Ok(reads.iter().any(|read| read.id == table.id && read.columns.contains(&column)))
}

/// Whether an expression over a table's own columns has the one of this name in it.
fn mentions(sql: &str, name: &str) -> Result<bool, SqlError> {
    let found = visit_expressions(&parse_expr(sql)?, |expr| match expr {
        sp::Expr::Identifier(ident) if fold(ident) == name => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    Ok(found.is_break())
}

/// An expression over a table's own columns, of which one is called otherwise now.
fn renamed(sql: &str, from: &str, to: &str) -> Result<String, SqlError> {
    let mut expr = parse_expr(sql)?;
    let new = match quote_ident(to) == to {
        true => sp::Ident::new(to),
        false => sp::Ident::with_quote('"', to),
    };
    let _done = visit_expressions_mut(&mut expr, |expr| {
        if let sp::Expr::Identifier(ident) = expr
            && fold(ident) == from
        {
            *ident = new.clone();
        }
        ControlFlow::<()>::Continue(())
    });
    Ok(expr.to_string())
}
