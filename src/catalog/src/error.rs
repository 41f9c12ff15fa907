//! What can be wrong with a catalog change or with the stored catalog, worded as Postgres words it.

use engine::error::SqlError;
use engine::names::ObjectKind;
use persist::PersistError;
use repr::sqlstate::SqlState;

/// A failure of this crate.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// The stored catalog could not be read.
    #[error(transparent)]
    Persist(#[from] PersistError),
    /// A system parameter that does not exist, or a value it cannot have.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// A newer version of this software wrote the catalog, or none that we know.
    #[error("the catalog has format version {found}, this version reads {supported}")]
    FormatVersion {
        /// The version found.
        found: u64,
        /// The newest version that can be read.
        supported: u64,
    },
    /// The stored catalog is not what was written.
    #[error("the catalog is corrupt at \"{key}\": {detail}")]
    Corrupt {
        /// The key in durable storage.
        key: String,
        /// What is wrong there.
        detail: String,
    },
    /// The name is taken.
    #[error("{} \"{name}\" already exists", noun(*kind))]
    AlreadyExists {
        /// What kind of object was to be created.
        kind: ObjectKind,
        /// Its name.
        name: String,
    },
    /// The object is not there, any more or at all.
    #[error("{} \"{name}\" does not exist", noun(*kind))]
    Missing {
        /// What kind of object.
        kind: ObjectKind,
        /// Its name, or its id where that is all that is left of it.
        name: String,
    },
    /// Something that stays refers to what should go.
    #[error("cannot drop {object} because other objects depend on it")]
    DependentsExist {
        /// Kind and name of the object.
        object: String,
        /// One line for each dependency.
        dependents: Vec<String>,
    },
    /// A role still owns something, or has privileges on it.
    #[error("role \"{role}\" cannot be dropped because some objects depend on it")]
    RoleInUse {
        /// Its name.
        role: String,
        /// One line for each dependency.
        dependents: Vec<String>,
    },
    /// The object is part of the system.
    #[error("cannot {action} {object} because it is required by the database system")]
    Required {
        /// What was to be done.
        action: &'static str,
        /// Kind and name of the object.
        object: String,
    },
    /// The name is kept for the system.
    #[error("{} name \"{name}\" is reserved", kind)]
    ReservedName {
        /// What kind of object.
        kind: ObjectKind,
        /// The name.
        name: String,
    },
    /// A relation would be defined by itself.
    #[error("view \"{name}\" cannot depend on itself")]
    DependencyCycle {
        /// The view.
        name: String,
    },
    /// A view cannot be replaced by one over which what depends on it does not work.
    #[error("cannot replace {replaced} because {dependent} depends on it")]
    DependentFails {
        /// Kind and name of the view.
        replaced: String,
        /// Kind and name of what depends on it.
        dependent: String,
        /// What is wrong with that over the new view.
        why: String,
    },
    /// A role would be a member of itself.
    #[error("role \"{role}\" is a member of role \"{member}\"")]
    MembershipCycle {
        /// The role that was to be granted.
        role: String,
        /// To whom.
        member: String,
    },
}

impl CatalogError {
    /// The SQLSTATE.
    pub fn sqlstate(&self) -> SqlState {
        match self {
            CatalogError::Persist(error) => error.sqlstate(),
            CatalogError::Sql(error) => error.sqlstate,
            CatalogError::FormatVersion { .. } => SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            CatalogError::Corrupt { .. } => SqlState::DATA_CORRUPTED,
            CatalogError::AlreadyExists { kind, .. } => match kind {
                ObjectKind::Table
                | ObjectKind::View
                | ObjectKind::MaterializedView
                | ObjectKind::Index
                | ObjectKind::Sequence
                | ObjectKind::Source
                | ObjectKind::Secret
                | ObjectKind::SemanticModel
                | ObjectKind::Cube => SqlState::DUPLICATE_TABLE,
                ObjectKind::Schema => SqlState::DUPLICATE_SCHEMA,
                ObjectKind::Database => SqlState::DUPLICATE_DATABASE,
                ObjectKind::Cluster | ObjectKind::Role | ObjectKind::System => SqlState::DUPLICATE_OBJECT,
            },
            CatalogError::Missing { kind, .. } => match kind {
                ObjectKind::Table
                | ObjectKind::View
                | ObjectKind::MaterializedView
                | ObjectKind::Index
                | ObjectKind::Sequence
                | ObjectKind::Source
                | ObjectKind::Secret
                | ObjectKind::SemanticModel
                | ObjectKind::Cube => SqlState::UNDEFINED_TABLE,
                ObjectKind::Schema => SqlState::INVALID_SCHEMA_NAME,
                ObjectKind::Database => SqlState::INVALID_CATALOG_NAME,
                ObjectKind::Cluster | ObjectKind::Role | ObjectKind::System => SqlState::UNDEFINED_OBJECT,
            },
            CatalogError::DependentsExist { .. } | CatalogError::RoleInUse { .. } | CatalogError::Required { .. } => {
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST
            }
            CatalogError::ReservedName { .. } => SqlState::RESERVED_NAME,
            CatalogError::DependencyCycle { .. } => SqlState::INVALID_OBJECT_DEFINITION,
            CatalogError::DependentFails { .. } => SqlState::FEATURE_NOT_SUPPORTED,
            CatalogError::MembershipCycle { .. } => SqlState::INVALID_GRANT_OPERATION,
        }
    }

    /// DETAIL.
    pub fn detail(&self) -> Option<String> {
        match self {
            CatalogError::Sql(error) => error.detail.clone(),
            CatalogError::DependentsExist { dependents, .. } | CatalogError::RoleInUse { dependents, .. } => {
                Some(dependents.join("\n"))
            }
            CatalogError::DependentFails { dependent, why, .. } => Some(format!("{dependent}: {why}")),
            CatalogError::ReservedName { .. } => {
                Some("The names \"public\" and \"none\" and the prefixes \"pg_\" and \"mz_\" are reserved.".to_owned())
            }
            _ => None,
        }
    }

    /// HINT.
    pub fn hint(&self) -> Option<String> {
        match self {
            CatalogError::Sql(error) => error.hint.clone(),
            CatalogError::DependentsExist { .. } => {
                Some("Use DROP ... CASCADE to drop the dependent objects too.".to_owned())
            }
            CatalogError::DependentFails { dependent, .. } => Some(format!("Drop {dependent} first.")),
            _ => None,
        }
    }
}

/// Postgres speaks of relations where the kind of one does not matter.
fn noun(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Table
        | ObjectKind::View
        | ObjectKind::MaterializedView
        | ObjectKind::Index
        | ObjectKind::Sequence
        | ObjectKind::Source
        | ObjectKind::Secret
        | ObjectKind::SemanticModel
        | ObjectKind::Cube => "relation",
        ObjectKind::Schema => "schema",
        ObjectKind::Database => "database",
        ObjectKind::Cluster => "cluster",
        ObjectKind::Role => "role",
        ObjectKind::System => "system",
    }
}
