//! CREATE and ALTER SEMANTIC MODEL.

use crate::names::Name;

/// CREATE SEMANTIC MODEL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateModel {
    /// Its name.
    pub name: Name,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// Its files.
    pub files: Vec<ModelFile>,
}

/// ALTER SEMANTIC MODEL … AS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterModel {
    /// Its name.
    pub name: Name,
    /// IF EXISTS.
    pub if_exists: bool,
    /// Its new files.
    pub files: Vec<ModelFile>,
}

/// A file of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFile {
    /// Its name, which is a relative path.
    pub name: String,
    /// What is in it.
    pub text: String,
}
