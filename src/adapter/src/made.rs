//! Statements, and parts of them, that a door makes of what it was asked for in another way than by a statement: what is to be followed from where, and
//! where rows are to go.

use crate::answer::Statement;
use crate::error::AdapterError;
use pgrepr::copy::CopyOptions;
use repr::Timestamp;
use repr::sqlstate::SqlState;
use sql_syntax::ast::{self, CopyDirection, CopySource};
use sql_syntax::names::{quote_ident, quote_literal};
use sql_syntax::parser::{ParsedStatement, parse};

/// A name of these parts, as SQL has it.
pub fn named<'n>(parts: impl IntoIterator<Item = &'n str>) -> String {
    parts.into_iter().map(quote_ident).collect::<Vec<_>>().join(".")
}

/// A query in Cube's JSON, in FROM.
pub fn cube_load(query: &str) -> String {
    format!("cube_load({})", quote_literal(query))
}

/// A file of CREATE SEMANTIC MODEL.
pub fn model_file(name: &str, text: &str) -> String {
    format!("FILE {} {}", quote_literal(name), quote_literal(text))
}

/// One SUBSCRIBE without lines of progress.
pub struct Followed {
    statement: ParsedStatement,
    /// Whether what is there comes first.
    pub has_snapshot: bool,
}

impl Followed {
    /// What this text follows, from where it says or from behind a time. Errors: those of its syntax, 0A000 of anything else.
    pub fn parse(text: &str, after: Option<Timestamp>) -> Result<Followed, AdapterError> {
        let refused = |message| AdapterError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
        let mut statements = parse(text)?;
        let statement = statements.pop().filter(|_| statements.is_empty());
        let Some(mut statement) = statement else { return Err(refused(ONE_SUBSCRIBE)) };
        let ast::Statement::Subscribe(subscribe) = &mut statement.ast else { return Err(refused(ONE_SUBSCRIBE)) };
        if subscribe.progress {
            return Err(refused("WITH (PROGRESS) is not for events, which say themselves what is complete"));
        }
        if let Some(after) = after {
            subscribe.go_on(after);
        }
        let has_snapshot = subscribe.snapshot;
        Ok(Followed { statement, has_snapshot })
    }

    /// The statement.
    pub fn statement(self) -> Statement {
        Statement::Tree(Box::new(self.statement))
    }
}

const ONE_SUBSCRIBE: &str = "events are those of one SUBSCRIBE";

/// A table that rows are loaded into.
pub struct Table {
    statement: ParsedStatement,
}

impl Table {
    /// A table as SQL names it, with the columns that rows are to have or without: `t`, `s.t`, `t(a, b)`. Error 42601.
    pub fn parse(name: &str) -> Result<Table, AdapterError> {
        let refused = || AdapterError::new(SqlState::SYNTAX_ERROR, "a table's name is like t, s.t or t(a, b)");
        let mut statements = parse(&format!("COPY {name} FROM STDIN")).map_err(|_| refused())?;
        let statement = statements.pop().filter(|_| statements.is_empty()).ok_or_else(refused)?;
        match &statement.ast {
            ast::Statement::Copy(ast::Copy {
                source: CopySource::Table { .. },
                direction: CopyDirection::FromStdin,
                ..
            }) => Ok(Table { statement }),
            _ => Err(refused()),
        }
    }

    /// An error in a line of the rows that are loaded into it, as COPY tells it.
    pub fn in_context(&self, error: AdapterError, line: u64) -> AdapterError {
        let name = match &self.statement.ast {
            ast::Statement::Copy(ast::Copy { source: CopySource::Table { name, .. }, .. }) => name.item(),
            _ => "",
        };
        error.in_context(format!("COPY {name}, line {line}"))
    }

    /// Whether it says itself which columns rows have.
    pub fn has_columns(&self) -> bool {
        matches!(&self.statement.ast, ast::Statement::Copy(copy)
            if matches!(&copy.source, CopySource::Table { columns, .. } if !columns.is_empty()))
    }

    /// The statement that loads rows into it, which have these columns unless it says others; all of them if neither does.
    pub fn copied(&self, names: Option<Vec<String>>, options: CopyOptions) -> Statement {
        let mut statement = self.statement.clone();
        if let ast::Statement::Copy(copy) = &mut statement.ast {
            (copy.options, copy.forced) = (options, Vec::new());
            if let (CopySource::Table { columns, .. }, Some(names)) = (&mut copy.source, names)
                && columns.is_empty()
            {
                *columns = names;
            }
        }
        Statement::Tree(Box::new(statement))
    }
}
