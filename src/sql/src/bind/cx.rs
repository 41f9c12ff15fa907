//! Where an expression is bound.

use crate::bind::scope::{Clause, Frame, fold};
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use sql_functions::TypedExpr;
use sqlparser::ast::{self, NamedWindowDefinition, NamedWindowExpr, WindowSpec};

/// Where an expression is bound.
#[derive(Clone, Copy)]
pub struct Cx<'c> {
    /// The columns it can name.
    pub frame: &'c Frame<'c>,
    /// The clause it stands in.
    pub clause: Clause,
    /// The windows it can name.
    pub windows: &'c NamedWindows<'c>,
    /// Keys of GROUP BY that contain subqueries, bound: no two bindings of a subquery are equal, and what is spelled like a key
    /// is to be that key.
    pub keys: &'c [(ast::Expr, TypedExpr)],
}

static NO_WINDOWS: NamedWindows<'static> = NamedWindows::none();

impl<'c> Cx<'c> {
    /// In a clause, with a scope, without named windows.
    pub fn new(frame: &'c Frame<'c>, clause: Clause) -> Cx<'c> {
        Cx { frame, clause, windows: &NO_WINDOWS, keys: &[] }
    }

    /// The same scope in another clause.
    pub fn within(&self, clause: Clause) -> Cx<'c> {
        Cx { clause, ..*self }
    }
}

/// The WINDOW clause.
#[derive(Clone, Debug, Default)]
pub struct NamedWindows<'a> {
    pub(super) windows: Vec<(String, &'a NamedWindowExpr)>,
}

impl<'a> NamedWindows<'a> {
    /// No named windows.
    pub const fn none() -> NamedWindows<'static> {
        NamedWindows { windows: Vec::new() }
    }

    /// The windows of a WINDOW clause.
    pub fn new(definitions: &'a [NamedWindowDefinition]) -> Result<NamedWindows<'a>, SqlError> {
        let mut windows: Vec<(String, &NamedWindowExpr)> = Vec::new();
        for NamedWindowDefinition(name, definition) in definitions {
            let folded = fold(name);
            if windows.iter().any(|(other, _)| *other == folded) {
                return Err(SqlError::new(
                    SqlState::WINDOWING_ERROR,
                    format!("window \"{folded}\" is already defined"),
                )
                .at(name.span));
            }
            windows.push((folded, definition));
        }
        Ok(NamedWindows { windows })
    }

    pub(super) fn find(&self, name: &ast::Ident) -> Result<&'a WindowSpec, SqlError> {
        let wanted = fold(name);
        match self.windows.iter().find(|(name, _)| *name == wanted) {
            Some((_, NamedWindowExpr::WindowSpec(spec))) => Ok(spec),
            Some((_, NamedWindowExpr::NamedWindow(other))) => self.find(other),
            None => {
                Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("window \"{wanted}\" does not exist"))
                    .at(name.span))
            }
        }
    }
}
