//! ALTER TABLE, which changes columns and constraints.

use super::{ColumnDef, Deferral, TableConstraint};
use crate::names::Name;
use repr::PgType;
use sqlparser::ast as sp;

/// ALTER TABLE of columns and constraints.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterTable {
    /// The table.
    pub name: Name,
    /// IF EXISTS.
    pub if_exists: bool,
    /// What is done, as the text orders it.
    pub actions: Vec<TableAction>,
}

/// One action of ALTER TABLE.
#[derive(Clone, Debug, PartialEq)]
pub enum TableAction {
    /// ADD of a constraint.
    Add(TableConstraint),
    /// DROP CONSTRAINT.
    Drop {
        /// Which.
        name: String,
        /// IF EXISTS.
        if_exists: bool,
        /// CASCADE.
        cascade: bool,
    },
    /// ALTER CONSTRAINT.
    SetDeferral {
        /// Its name.
        name: String,
        /// When it is checked.
        deferral: Deferral,
    },
    /// VALIDATE CONSTRAINT.
    Validate(String),
    /// RENAME CONSTRAINT.
    Rename {
        /// Its name.
        from: String,
        /// Its new name.
        to: String,
    },
    /// ADD COLUMN.
    AddColumn {
        /// The column.
        column: Box<ColumnDef>,
        /// Its constraints.
        constraints: Vec<TableConstraint>,
        /// IF NOT EXISTS.
        if_not_exists: bool,
    },
    /// DROP COLUMN.
    DropColumn {
        /// Which.
        name: String,
        /// IF EXISTS.
        if_exists: bool,
        /// CASCADE: what depends on it goes, too.
        cascade: bool,
    },
    /// RENAME COLUMN.
    RenameColumn {
        /// Its name.
        from: String,
        /// Its new name.
        to: String,
    },
    /// ALTER COLUMN … SET DEFAULT; without one, DROP DEFAULT.
    SetDefault {
        /// The column.
        column: String,
        /// DEFAULT.
        default: Option<Box<sp::Expr>>,
    },
    /// ALTER COLUMN … TYPE.
    SetType {
        /// The column.
        column: String,
        /// Its new type.
        ty: PgType,
        /// USING.
        using: Option<Box<sp::Expr>>,
    },
    /// ALTER COLUMN … SET NOT NULL.
    SetNotNull(String),
    /// ALTER COLUMN … DROP NOT NULL.
    DropNotNull(String),
}

impl TableAction {
    /// As messages name it.
    pub fn name(&self) -> &'static str {
        match self {
            TableAction::Add(_) => "ADD CONSTRAINT",
            TableAction::Drop { .. } => "DROP CONSTRAINT",
            TableAction::SetDeferral { .. } => "ALTER CONSTRAINT",
            TableAction::Validate(_) => "VALIDATE CONSTRAINT",
            TableAction::Rename { .. } => "RENAME CONSTRAINT",
            TableAction::AddColumn { .. } => "ADD COLUMN",
            TableAction::DropColumn { .. } => "DROP COLUMN",
            TableAction::RenameColumn { .. } => "RENAME COLUMN",
            TableAction::SetDefault { .. } => "ALTER COLUMN ... SET DEFAULT",
            TableAction::SetType { .. } => "ALTER COLUMN ... SET DATA TYPE",
            TableAction::SetNotNull(_) => "ALTER COLUMN ... SET NOT NULL",
            TableAction::DropNotNull(_) => "ALTER COLUMN ... DROP NOT NULL",
        }
    }
}
