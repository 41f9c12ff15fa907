//! The names of things in durable storage.
//!
//! # Invariants
//! - `parse(key.to_string()) == Some(key)`.
//! - In the order of the variants, everything comes after what it refers to.

use crate::objects::Counter;
use engine::names::{ClusterId, DatabaseId, ObjectId, RoleId, SchemaId};
use repr::GlobalId;
use sql::plan::DefaultScope;
use sql_syntax::ast::DefaultKind;
use std::fmt;

/// What is stored under one key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// The format's version.
    Version,
    /// The next number of a kind.
    Next(Counter),
    /// From what the verifiers of those are made who have no password.
    MockSecret,
    Role(RoleId),
    Database(DatabaseId),
    Schema(SchemaId),
    Cluster(ClusterId),
    Item(GlobalId),
    /// That a role is a member of another.
    Member {
        member: RoleId,
        role: RoleId,
    },
    /// The privileges on an object.
    Acl(ObjectId),
    /// What is granted on objects that are created.
    DefaultAcl(DefaultScope),
    /// The comments on an object and its columns.
    Comment(ObjectId),
    /// A system parameter.
    System(String),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(super::PREFIX)?;
        match self {
            Key::Version => f.write_str("version"),
            Key::Next(counter) => write!(f, "next/{}", counter.name()),
            Key::MockSecret => f.write_str("mock_secret"),
            Key::Database(id) => write!(f, "database/{id}"),
            Key::Schema(id) => write!(f, "schema/{id}"),
            Key::Role(id) => write!(f, "role/{id}"),
            Key::Cluster(id) => write!(f, "cluster/{id}"),
            Key::Item(id) => write!(f, "item/{id}"),
            Key::Member { member, role } => write!(f, "member/{member}/{role}"),
            Key::Acl(object) => write!(f, "acl/{}", ObjectText(*object)),
            Key::DefaultAcl(DefaultScope { role, schema, kind }) => {
                write!(f, "default_acl/{}/{role}/", default_kind(*kind))?;
                schema.map_or(Ok(()), |schema| write!(f, "{schema}"))
            }
            Key::Comment(object) => write!(f, "comment/{}", ObjectText(*object)),
            Key::System(name) => write!(f, "system/{name}"),
        }
    }
}

impl Key {
    /// Reads what `to_string` wrote.
    pub(crate) fn parse(text: &str) -> Option<Key> {
        let (kind, rest) = match text.strip_prefix(super::PREFIX)?.split_once('/') {
            Some((kind, rest)) => (kind, rest),
            None => (text.strip_prefix(super::PREFIX)?, ""),
        };
        Some(match kind {
            "version" => Key::Version,
            "next" => Key::Next(Counter::ALL.into_iter().find(|counter| counter.name() == rest)?),
            "mock_secret" => Key::MockSecret,
            "database" => Key::Database(DatabaseId(rest.parse().ok()?)),
            "schema" => Key::Schema(SchemaId(rest.parse().ok()?)),
            "role" => Key::Role(RoleId(rest.parse().ok()?)),
            "cluster" => Key::Cluster(ClusterId(rest.parse().ok()?)),
            "item" => Key::Item(parse_global_id(rest)?),
            "member" => {
                let (member, role) = rest.split_once('/')?;
                Key::Member { member: RoleId(member.parse().ok()?), role: RoleId(role.parse().ok()?) }
            }
            "acl" => Key::Acl(parse_object(rest)?),
            "default_acl" => Key::DefaultAcl(parse_default_scope(rest)?),
            "comment" => Key::Comment(parse_object(rest)?),
            "system" => Key::System(rest.to_owned()),
            _ => return None,
        })
    }
}

/// `tables/role/schema`; in any schema if there is none.
fn parse_default_scope(text: &str) -> Option<DefaultScope> {
    let (kind, rest) = text.split_once('/')?;
    let kind = [DefaultKind::Tables, DefaultKind::Schemas].into_iter().find(|known| default_kind(*known) == kind)?;
    let (role, schema) = rest.split_once('/')?;
    let schema = if schema.is_empty() { None } else { Some(SchemaId(schema.parse().ok()?)) };
    Some(DefaultScope { role: RoleId(role.parse().ok()?), schema, kind })
}

fn default_kind(kind: DefaultKind) -> &'static str {
    match kind {
        DefaultKind::Tables => "tables",
        DefaultKind::Schemas => "schemas",
    }
}

struct ObjectText(ObjectId);

impl fmt::Display for ObjectText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ObjectId::System => f.write_str("system"),
            ObjectId::Database(id) => write!(f, "database/{id}"),
            ObjectId::Schema(id) => write!(f, "schema/{id}"),
            ObjectId::Cluster(id) => write!(f, "cluster/{id}"),
            ObjectId::Role(id) => write!(f, "role/{id}"),
            ObjectId::Item(id) => write!(f, "item/{id}"),
        }
    }
}

fn parse_object(text: &str) -> Option<ObjectId> {
    if text == "system" {
        return Some(ObjectId::System);
    }
    let (kind, id) = text.split_once('/')?;
    Some(match kind {
        "database" => ObjectId::Database(DatabaseId(id.parse().ok()?)),
        "schema" => ObjectId::Schema(SchemaId(id.parse().ok()?)),
        "cluster" => ObjectId::Cluster(ClusterId(id.parse().ok()?)),
        "role" => ObjectId::Role(RoleId(id.parse().ok()?)),
        "item" => ObjectId::Item(parse_global_id(id)?),
        _ => return None,
    })
}

fn parse_global_id(text: &str) -> Option<GlobalId> {
    let number = text.get(1..)?.parse().ok()?;
    match text.as_bytes().first()? {
        b'u' => Some(GlobalId::User(number)),
        b's' => Some(GlobalId::System(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::Key;
    use crate::objects::Counter;
    use engine::names::{ClusterId, DatabaseId, ObjectId, RoleId, SchemaId};
    use repr::GlobalId;
    use sql::plan::DefaultScope;
    use sql_syntax::ast::DefaultKind;

    #[test]
    fn keys_round_trip() {
        let objects = [
            ObjectId::System,
            ObjectId::Database(DatabaseId(3)),
            ObjectId::Schema(SchemaId(4)),
            ObjectId::Cluster(ClusterId(5)),
            ObjectId::Role(RoleId(6)),
            ObjectId::Item(GlobalId::User(7)),
            ObjectId::Item(GlobalId::System(8)),
        ];
        let mut keys = vec![
            Key::Version,
            Key::MockSecret,
            Key::Role(RoleId(1)),
            Key::Database(DatabaseId(2)),
            Key::Schema(SchemaId(3)),
            Key::Cluster(ClusterId(4)),
            Key::Item(GlobalId::User(12)),
            Key::Member { member: RoleId(9), role: RoleId(10) },
            Key::System("max_connections".to_owned()),
            Key::DefaultAcl(DefaultScope { role: RoleId(1), schema: None, kind: DefaultKind::Schemas }),
            Key::DefaultAcl(DefaultScope { role: RoleId(1), schema: Some(SchemaId(2)), kind: DefaultKind::Tables }),
        ];
        keys.extend(Counter::ALL.map(Key::Next));
        keys.extend(objects.map(Key::Acl));
        keys.extend(objects.map(Key::Comment));
        for key in keys {
            assert_eq!(Key::parse(&key.to_string()), Some(key));
        }
    }

    #[test]
    fn strange_keys_are_refused() {
        for text in ["catalog/item/x1", "catalog/item/", "catalog/what/1", "other/version", "catalog/next/foo"] {
            assert_eq!(Key::parse(text), None, "{text}");
        }
    }
}
