//! The catalog in durable storage: one key and value for each object, under `catalog/`.
//!
//! A value is a protobuf message ([`proto`]); types are text ([`types`]). A change writes the keys of what it changed and
//! nothing else. Loading reads all keys in the order of [`Key`], in which everything comes after what it refers to.
//!
//! # Invariants
//! - `decode(encode(state)) == state`, revision and command-line defaults apart.
//! - `catalog/version` is checked first: what a newer version wrote is refused and not guessed at.

pub(crate) mod keys;
mod locale;
mod proto;
pub(crate) mod types;
mod webhook;

use crate::builtin;
use crate::error::CatalogError;
use crate::objects::{AclItem, DefaultAcl};
use crate::state::State;
use crate::verifier::{MockSecret, Verifier};
use engine::names::{ObjectId, Privilege, RoleId, SchemaId};
use keys::Key;
use prost::Message;
use proto::{
    AclProto, BytesProto, ClusterProto, CommentsProto, DatabaseProto, DefaultAclProto, ItemProto, MembershipProto,
    NumberProto, RoleProto, SchemaProto, TextProto,
};
use repr::GlobalId;
use sql::plan::{ClusterRef, DatabaseRef, Grantee, ItemKind, ItemRef, RoleRef, SchemaRef};
use std::sync::Arc;

/// The format that this code writes, and the newest that it reads. Since 2 tables have constraints: who does not know of them
/// would not keep them. Since 3 privileges are on columns: who does not know of them would take them for privileges on the whole.
/// Since 4 there are sequences, and views and CHECKs have the styles by which their literals are read. Since 5 an index can be
/// unique: who does not know of it would not keep its key. Since 6 keys have indexes, which are items, in the system's cluster.
/// Since 7 tables have foreign keys. Since 8 there are secrets, and tables that take requests: who does not know of these would let
/// anybody write to them. Since 9 there are semantic models. What is of a format before is read, and becomes this one with its first change.
const FORMAT: u64 = 9;
/// The oldest format that this code reads.
const FORMAT_OLDEST: u64 = 1;

/// What all keys begin with.
pub(crate) const PREFIX: &str = "catalog/";

/// The value of `key`; `None` if the state has nothing there, so that the key has to go.
pub(crate) fn encode(state: &State, key: &Key) -> Option<Vec<u8>> {
    Some(match key {
        Key::Version => NumberProto { number: FORMAT }.encode_to_vec(),
        Key::Next(counter) => NumberProto { number: *state.counters.get(counter)? }.encode_to_vec(),
        Key::MockSecret => BytesProto { bytes: state.mock_secret.bytes()?.to_vec() }.encode_to_vec(),
        Key::Database(id) => {
            let database = state.databases.get(id)?;
            let (oid, name, owner) = (database.oid, database.name.clone(), database.owner.0);
            DatabaseProto { oid, name, owner }.encode_to_vec()
        }
        Key::Schema(id) => {
            let schema = state.schemas.get(id)?;
            let database = schema.database?.0;
            let (oid, name, owner) = (schema.oid, schema.name.clone(), schema.owner.0);
            SchemaProto { oid, database, name, owner }.encode_to_vec()
        }
        Key::Role(id) => encode_role(state, *id)?.encode_to_vec(),
        Key::Cluster(id) => {
            let cluster = state.clusters.get(id)?;
            ClusterProto {
                name: cluster.name.clone(),
                owner: cluster.owner.0,
                size: cluster.size.clone(),
                workers: cluster.workers,
                replication_factor: cluster.replication_factor,
            }
            .encode_to_vec()
        }
        Key::Item(id) => encode_item(state, *id)?.encode_to_vec(),
        Key::Member { member, role } => {
            let grantor = state.memberships.get(member)?.get(role)?.0;
            MembershipProto { grantor }.encode_to_vec()
        }
        Key::Acl(object) => {
            let grants = state.acls.get(object)?.iter().map(encode_grant).collect();
            AclProto { grants }.encode_to_vec()
        }
        Key::DefaultAcl(scope) => {
            let acl = state.default_acls.get(scope)?;
            DefaultAclProto { oid: acl.oid, grants: acl.items.iter().map(encode_grant).collect() }.encode_to_vec()
        }
        Key::Comment(object) => {
            let comments = state.comments.get(object)?.iter();
            let comments =
                comments.map(|(column, text)| proto::CommentProto { column: column.map(number), text: text.clone() });
            CommentsProto { comments: comments.collect() }.encode_to_vec()
        }
        Key::System(name) => {
            let text = state.system.stored().find(|(stored, _)| stored == name)?.1.to_owned();
            TextProto { text }.encode_to_vec()
        }
    })
}

/// Builds a state from all that is stored. Errors: `FormatVersion`, `Corrupt`.
pub(crate) fn decode(stored: Vec<(String, Vec<u8>)>) -> Result<State, CatalogError> {
    let mut entries = Vec::with_capacity(stored.len());
    let mut version = None;
    for (text, value) in &stored {
        if Key::Version.to_string() == *text {
            version = Some(read::<NumberProto>(text, value)?.number);
        }
    }
    match version {
        Some(FORMAT_OLDEST..=FORMAT) => {}
        found => return Err(CatalogError::FormatVersion { found: found.unwrap_or(0), supported: FORMAT }),
    }
    for (text, value) in stored {
        let key = Key::parse(&text).ok_or_else(|| corrupt(&text, "the key is unknown"))?;
        entries.push((key, text, value));
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    let mut state = builtin::initial();
    for (key, text, value) in entries {
        apply(&mut state, key, &text, &value)?;
    }
    Ok(state)
}

fn apply(state: &mut State, key: Key, text: &str, value: &[u8]) -> Result<(), CatalogError> {
    match key {
        Key::Version => {}
        Key::Next(counter) => {
            let next = read::<NumberProto>(text, value)?.number;
            state.counters.insert(counter, next);
        }
        Key::MockSecret => {
            let bytes = read::<BytesProto>(text, value)?.bytes;
            state.mock_secret = MockSecret::from_bytes(&bytes).ok_or_else(|| corrupt(text, "it has another length"))?;
        }
        Key::Database(id) => {
            let DatabaseProto { oid, name, owner } = read(text, value)?;
            state.put_database(DatabaseRef { id, oid, name, owner: RoleId(owner) });
        }
        Key::Schema(id) => {
            let SchemaProto { oid, database, name, owner } = read(text, value)?;
            let database = engine::names::DatabaseId(database);
            if !state.databases.contains_key(&database) {
                return Err(corrupt(text, format!("database {database} does not exist")));
            }
            state.put_schema(SchemaRef { id, oid, database: Some(database), name, owner: RoleId(owner) });
        }
        Key::Role(id) => decode_role(state, id, read(text, value)?).map_err(|detail| corrupt(text, detail))?,
        Key::Cluster(id) => {
            let ClusterProto { name, owner, size, workers, replication_factor } = read(text, value)?;
            state.put_cluster(ClusterRef { id, name, owner: RoleId(owner), size, workers, replication_factor });
        }
        Key::Item(id) => {
            let item = decode_item(state, id, read(text, value)?).map_err(|detail| corrupt(text, detail))?;
            state.put_item(item);
        }
        Key::Member { member, role } => {
            let MembershipProto { grantor } = read(text, value)?;
            state.put_membership(member, role, RoleId(grantor));
        }
        Key::Acl(object) => {
            let AclProto { grants } = read(text, value)?;
            let acl = grants.iter().map(decode_grant).collect::<Option<_>>();
            state.acls.insert(object, acl.ok_or_else(|| corrupt(text, "unknown privilege"))?);
        }
        Key::DefaultAcl(scope) => {
            let DefaultAclProto { oid, grants } = read(text, value)?;
            let items = grants.iter().map(decode_grant).collect::<Option<_>>();
            let items = items.ok_or_else(|| corrupt(text, "unknown privilege"))?;
            state.default_acls.insert(scope, DefaultAcl { oid, items });
        }
        Key::Comment(object) => {
            for comment in read::<CommentsProto>(text, value)?.comments {
                let column = comment.column.map(position);
                state.set_comment(object, column, Some(comment.text));
            }
        }
        Key::System(name) => {
            let TextProto { text } = read(text, value)?;
            state.system.apply(&name, Some(text));
        }
    }
    Ok(())
}

fn encode_role(state: &State, id: RoleId) -> Option<RoleProto> {
    let role = state.roles.get(&id)?;
    let settings = state.role_settings.get(&id).into_iter().flatten();
    Some(RoleProto {
        oid: role.oid,
        name: role.name.clone(),
        superuser: role.superuser,
        login: role.login,
        inherit: role.inherit,
        create_db: role.create_db,
        create_role: role.create_role,
        create_cluster: role.create_cluster,
        settings: settings
            .map(|(name, value)| proto::SettingProto { name: name.clone(), value: value.clone() })
            .collect(),
        verifier: state.verifier(id).map(Verifier::to_string),
    })
}

fn decode_role(state: &mut State, id: RoleId, proto: RoleProto) -> Result<(), &'static str> {
    state.put_role(RoleRef {
        id,
        oid: proto.oid,
        name: proto.name,
        superuser: proto.superuser,
        login: proto.login,
        inherit: proto.inherit,
        create_db: proto.create_db,
        create_role: proto.create_role,
        create_cluster: proto.create_cluster,
    });
    for setting in proto.settings {
        state.set_role_setting(id, setting.name, Some(setting.value));
    }
    if let Some(verifier) = proto.verifier {
        state.verifiers.insert(id, Verifier::parse(&verifier).ok_or("its verifier cannot be read")?);
    }
    Ok(())
}

fn encode_item(state: &State, id: GlobalId) -> Option<ItemProto> {
    let item = state.items.get(&id)?;
    Some(ItemProto {
        oid: item.oid,
        schema: item.schema.0,
        name: item.name.item.clone(),
        owner: item.owner.0,
        columns: types::encode_columns(&item.desc),
        depends_on: item.uses().iter().map(|id| id.to_u64()).collect(),
        kind: Some(proto::encode_kind(&item.kind)?),
    })
}

fn decode_item(state: &State, id: GlobalId, proto: ItemProto) -> Result<ItemRef, String> {
    let schema = SchemaId(proto.schema);
    let name = state.full_name(schema, proto.name).ok_or_else(|| format!("schema {schema} does not exist"))?;
    let kind = proto::decode_kind(proto.kind.ok_or("the item has no kind")?, &proto.depends_on)?;
    let desc = Arc::new(types::decode_columns(&proto.columns)?);
    let item = ItemRef { id, oid: proto.oid, name, schema, owner: RoleId(proto.owner), desc, kind };
    check_item(state, &item)?;
    Ok(item)
}

/// What refers to something has something to refer to.
fn check_item(state: &State, item: &ItemRef) -> Result<(), String> {
    if let Some(cluster) = item.cluster()
        && !state.clusters.contains_key(&cluster)
    {
        return Err(format!("cluster {cluster} does not exist"));
    }
    match &item.kind {
        ItemKind::Table { defaults, .. } if defaults.len() != item.desc.arity() => {
            Err(format!("{} defaults for {} columns", defaults.len(), item.desc.arity()))
        }
        ItemKind::Table { constraints, .. } => {
            let arity = item.desc.arity();
            let beyond = constraints.iter().find(|constraint| constraint.columns().iter().any(|at| *at >= arity));
            match beyond {
                Some(constraint) => Err(format!("constraint {} is about a column that is not there", constraint.name)),
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

fn encode_grant(item: &AclItem) -> proto::GrantProto {
    proto::GrantProto {
        grantee: match item.grantee {
            Grantee::Public => None,
            Grantee::Role(role) => Some(role.0),
        },
        privilege: item.privilege.name().to_owned(),
        grantor: item.grantor.0,
        column: item.column.map(number),
    }
}

fn decode_grant(proto: &proto::GrantProto) -> Option<AclItem> {
    Some(AclItem {
        column: proto.column.map(position),
        grantee: proto.grantee.map_or(Grantee::Public, |role| Grantee::Role(RoleId(role))),
        privilege: Privilege::from_name(&proto.privilege)?,
        grantor: RoleId(proto.grantor),
    })
}

/// The key under which an object itself is stored.
pub(crate) fn key_of(object: ObjectId) -> Option<Key> {
    match object {
        ObjectId::System => None,
        ObjectId::Database(id) => Some(Key::Database(id)),
        ObjectId::Schema(id) => Some(Key::Schema(id)),
        ObjectId::Cluster(id) => Some(Key::Cluster(id)),
        ObjectId::Role(id) => Some(Key::Role(id)),
        ObjectId::Item(id) => Some(Key::Item(id)),
    }
}

/// Every key that the state has a value for; `version` included.
#[cfg(test)]
pub(crate) fn all_keys(state: &State) -> Vec<Key> {
    let mut keys = vec![Key::Version];
    keys.extend(crate::objects::Counter::ALL.map(Key::Next));
    keys.extend(state.mock_secret.bytes().map(|_| Key::MockSecret));
    keys.extend(state.databases.keys().copied().map(Key::Database));
    keys.extend(state.schemas.values().filter(|schema| schema.database.is_some()).map(|schema| Key::Schema(schema.id)));
    keys.extend(state.roles.keys().copied().map(Key::Role));
    keys.extend(state.clusters.keys().copied().filter(|id| *id != crate::system::SYSTEM_CLUSTER).map(Key::Cluster));
    keys.extend(state.items.keys().copied().filter(|id| !crate::objects::is_system_item(*id)).map(Key::Item));
    keys.extend(state.memberships().map(|m| Key::Member { member: m.member, role: m.role }));
    keys.extend(state.acls.keys().copied().map(Key::Acl));
    keys.extend(state.default_acls.keys().copied().map(Key::DefaultAcl));
    keys.extend(state.comments.keys().copied().map(Key::Comment));
    keys.extend(state.system.stored().map(|(name, _)| Key::System(name.to_owned())));
    keys
}

fn read<M: Message + Default>(key: &str, value: &[u8]) -> Result<M, CatalogError> {
    M::decode(value).map_err(|error| corrupt(key, error.to_string()))
}

fn corrupt(key: &str, detail: impl Into<String>) -> CatalogError {
    CatalogError::Corrupt { key: key.to_owned(), detail: detail.into() }
}

fn number(position: usize) -> u64 {
    u64::try_from(position).expect("positions of columns are small")
}

fn position(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
