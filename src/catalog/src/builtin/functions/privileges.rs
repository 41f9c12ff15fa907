//! `has_…_privilege` and `pg_has_role`.
//!
//! Each comes with and without a role in front; roles and objects are named or numbered. Several privileges separated
//! by commas ask whether the role has any of them. `WITH GRANT OPTION` is what owners have. Who has a privilege on a relation
//! has it on each of its columns.

use super::{Answer, Call, function_of_signature, procs, types};
use crate::builtin::standard::is_system;
use engine::error::SqlError;
use engine::names::{ObjectId, ObjectKind, Privilege, RoleId};
use repr::datum::Datum;
use repr::sqlstate::SqlState;
use sql::names::{resolve_schema, unknown_database, unknown_role};
use sql::plan::privileges::{has_privilege, is_superuser};
use sql::plan::{CatalogView, ItemRef, unknown_column};
use sql_syntax::names::Name;

impl Call<'_> {
    pub(super) fn has_privilege(&self, function: &str) -> Answer {
        let kind = function.trim_start_matches("has_").trim_end_matches("_privilege");
        let plain = if kind == "column" { 3 } else { 2 };
        let first = usize::from(self.args.len() > plain);
        let role = if first == 1 { self.role(0)? } else { self.own_role()? };
        let wanted = self.text(first + plain - 1)?;
        let Some(role) = role else { return Ok(Datum::Bool(false)) };
        let object = match kind {
            "any_column" | "column" => return self.has_column_privilege(role, first, wanted),
            "table" | "sequence" => match self.item(first)? {
                Some(item) if is_system(&item) => return self.has_system_privilege(role, wanted),
                Some(item) if kind == "sequence" && item.object_kind() != ObjectKind::Sequence => {
                    let message = format!("\"{}\" is not a sequence", item.name.item);
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                }
                Some(item) if kind == "sequence" => Some((ObjectId::Item(item.id), ObjectKind::Sequence)),
                Some(item) => Some((ObjectId::Item(item.id), ObjectKind::Table)),
                None => None,
            },
            "schema" => match self.schema(first)? {
                Some((_, true)) => return self.has_system_privilege(role, wanted),
                schema => schema.map(|(object, _)| (object, ObjectKind::Schema)),
            },
            "database" => self.database(first)?.map(|object| (object, ObjectKind::Database)),
            // Types, functions, languages and tablespaces belong to the system, and everybody may use them.
            "type" | "function" | "language" | "tablespace" => return self.may_use_shipped(kind, first),
            _ => {
                return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function {function} does not exist")));
            }
        };
        let Some((object, kind)) = object else { return Ok(Datum::Null) };
        has_any(wanted, Some(Privilege::all_of(kind)), |privilege, grantable| match grantable {
            true => self.owns(role, object),
            false => has_privilege(self.context.catalog, role, object, privilege),
        })
    }

    /// Of one column, if one is asked about, else of any.
    fn has_column_privilege(&self, role: RoleId, first: usize, wanted: &str) -> Answer {
        let Some(item) = self.item(first)? else { return Ok(Datum::Null) };
        let columns = if self.args.len() > first + 2 {
            let Some(column) = self.column(&item, first + 1)? else { return Ok(Datum::Null) };
            column..column + 1
        } else {
            0..item.desc.arity()
        };
        if is_system(&item) {
            return self.has_system_privilege(role, wanted);
        }
        let (catalog, object) = (self.context.catalog, ObjectId::Item(item.id));
        let on_column = |column, privilege| catalog.has_column_privilege(role, item.id, column, privilege);
        has_any(wanted, Some(&Privilege::OF_COLUMN), |privilege, grantable| match grantable {
            true => self.owns(role, object),
            false => {
                has_privilege(catalog, role, object, privilege)
                    || columns.clone().any(|column| on_column(column, privilege))
            }
        })
    }

    /// The position of the column that an argument names or numbers. A name must name one.
    fn column(&self, item: &ItemRef, i: usize) -> Result<Option<usize>, SqlError> {
        if let Datum::Text(name) = self.arg(i)? {
            return match item.desc.position(name) {
                Some(column) => Ok(Some(column)),
                None => Err(unknown_column(item, name)),
            };
        }
        let column = usize::try_from(self.integer(i)? - 1).ok();
        Ok(column.filter(|column| *column < item.desc.arity()))
    }

    /// Whether the role may grant what there is to be granted.
    fn owns(&self, role: RoleId, object: ObjectId) -> bool {
        let catalog = self.context.catalog;
        is_superuser(catalog, role) || catalog.owner(object).is_some_and(|owner| catalog.inherits(role, owner))
    }

    /// Everybody reads what the system ships with, and nobody else changes it.
    fn has_system_privilege(&self, role: RoleId, wanted: &str) -> Answer {
        has_any(wanted, None, |privilege, grantable| {
            let readable = matches!(privilege, Privilege::Select | Privilege::Usage) && !grantable;
            readable || is_superuser(self.context.catalog, role)
        })
    }

    fn may_use_shipped(&self, kind: &str, i: usize) -> Answer {
        let known = match (kind, self.arg(i)?) {
            ("type", Datum::Text(name)) => types::type_named(name).map(|_| true)?,
            ("type", _) => pgrepr::types::from_oid(self.oid(i)?).is_some(),
            ("function", Datum::Text(signature)) => function_of_signature(signature).map(|_| true)?,
            ("function", _) => procs::function_name(self.oid(i)?).is_some(),
            _ => true,
        };
        Ok(if known { Datum::Bool(true) } else { Datum::Null })
    }

    fn own_role(&self) -> Result<Option<RoleId>, SqlError> {
        Ok(self.context.catalog.role_by_name(&self.context.session.user).map(|role| role.id))
    }

    /// The role that an argument names; `None` for an oid that is no role's.
    fn role(&self, i: usize) -> Result<Option<RoleId>, SqlError> {
        match self.arg(i)? {
            Datum::Text(name) => match self.context.catalog.role_by_name(name) {
                Some(role) => Ok(Some(role.id)),
                None => Err(unknown_role(name)),
            },
            _ => {
                let oid = self.oid(i)?;
                Ok(self.role_by_oid(oid).map(|role| role.id))
            }
        }
    }

    /// The schema that an argument names, and whether it is a system schema.
    fn schema(&self, i: usize) -> Result<Option<(ObjectId, bool)>, SqlError> {
        let schema = match self.arg(i)? {
            Datum::Text(name) => {
                let name = Name::bare(name.as_ref());
                Some(resolve_schema(self.context.catalog, self.scope(), &name)?)
            }
            _ => self.schema_by_oid(self.oid(i)?),
        };
        Ok(schema.map(|schema| (ObjectId::Schema(schema.id), schema.database.is_none())))
    }

    fn database(&self, i: usize) -> Result<Option<ObjectId>, SqlError> {
        let found = match self.arg(i)? {
            Datum::Text(name) => match self.context.catalog.database_by_name(name) {
                Some(database) => Some(database),
                None => return Err(unknown_database(name)),
            },
            _ => {
                let oid = self.oid(i)?;
                self.context.catalog.databases().into_iter().find(|database| database.oid == oid)
            }
        };
        Ok(found.map(|database| ObjectId::Database(database.id)))
    }

    pub(super) fn has_role(&self) -> Answer {
        let first = usize::from(self.args.len() > 2);
        let role = if first == 1 { self.role(0)? } else { self.own_role()? };
        let of = self.role(first)?;
        let (mut member, mut usage) = (false, false);
        for word in self.text(first + 1)?.split(',') {
            match word.trim().to_ascii_uppercase().as_str() {
                "MEMBER" => member = true,
                "USAGE" => usage = true,
                // There is no such option, so that only superusers have it.
                "MEMBER WITH GRANT OPTION"
                | "USAGE WITH GRANT OPTION"
                | "MEMBER WITH ADMIN OPTION"
                | "USAGE WITH ADMIN OPTION" => {}
                word => return Err(unrecognized(word)),
            }
        }
        let (Some(role), Some(of)) = (role, of) else { return Ok(Datum::Bool(false)) };
        let catalog = self.context.catalog;
        let has = (member && catalog.is_member(role, of)) || (usage && catalog.inherits(role, of));
        Ok(Datum::Bool(has || is_superuser(catalog, role)))
    }
}

/// Whether any of the privileges, separated by commas, each perhaps `WITH GRANT OPTION`, is had. With a list they must be in it.
fn has_any(wanted: &str, of: Option<&[Privilege]>, has: impl Fn(Privilege, bool) -> bool) -> Answer {
    const OPTION: &str = " WITH GRANT OPTION";
    let parse = |word: &str| {
        let upper = word.trim().to_ascii_uppercase();
        let (name, grantable) = match upper.strip_suffix(OPTION) {
            Some(name) => (name, true),
            None => (upper.as_str(), false),
        };
        let privilege = Privilege::from_name(name).filter(|privilege| of.is_none_or(|of| of.contains(privilege)));
        privilege.map(|privilege| (privilege, grantable)).ok_or_else(|| unrecognized(word.trim()))
    };
    let wanted = wanted.split(',').map(parse).collect::<Result<Vec<_>, _>>()?;
    Ok(Datum::Bool(wanted.into_iter().any(|(privilege, grantable)| has(privilege, grantable))))
}

fn unrecognized(word: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("unrecognized privilege type: \"{word}\""))
}
