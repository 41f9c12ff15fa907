//! Access privileges as Postgres prints them: `grantee=arwd/grantor`.

use super::Context;
use crate::objects::AclItem;
use engine::names::{ObjectId, Privilege, RoleId};
use repr::GlobalId;
use repr::datum::Datum;
use sql::plan::Grantee;
use sql_syntax::names::quote_ident;
use std::collections::BTreeMap;

/// The order of the letters in an aclitem.
const LETTERS: &str = "arwdDxtXUCTcRBN";

/// The grants on an object as aclitems; empty where nothing was granted.
pub fn items(context: &Context<'_>, object: ObjectId) -> Vec<String> {
    aclitems(context, context.catalog.acl(object))
}

/// Grants as aclitems.
pub(super) fn aclitems<'a>(context: &Context<'_>, grants: impl Iterator<Item = &'a AclItem>) -> Vec<String> {
    let mut letters: BTreeMap<(Grantee, RoleId), Vec<Privilege>> = BTreeMap::new();
    for grant in grants {
        letters.entry((grant.grantee, grant.grantor)).or_default().push(grant.privilege);
    }
    let name = |role: RoleId| quote_ident(&context.role_name(role));
    letters
        .into_iter()
        .map(|((grantee, grantor), privileges)| {
            let letters: String = LETTERS.chars().filter(|c| privileges.iter().any(|p| p.acl_char() == *c)).collect();
            let grantee = match grantee {
                Grantee::Public => String::new(),
                Grantee::Role(role) => name(role),
            };
            format!("{grantee}={letters}/{}", name(grantor))
        })
        .collect()
}

/// The grants on a column by itself as a value: NULL where nothing was granted.
pub(super) fn column_acl(context: &Context<'_>, relation: GlobalId, column: usize) -> Datum<'static> {
    or_null(aclitems(context, context.catalog.column_acl(relation, column)))
}

/// The grants on an object as a value: NULL where nothing was granted, which means the defaults.
pub(super) fn acl(context: &Context<'_>, object: ObjectId) -> Datum<'static> {
    or_null(items(context, object))
}

fn or_null(items: Vec<String>) -> Datum<'static> {
    if items.is_empty() { Datum::Null } else { super::texts(items) }
}

/// The same as a value that is never NULL.
pub(super) fn privileges(context: &Context<'_>, object: ObjectId) -> Datum<'static> {
    super::texts(items(context, object))
}
