//! The messages. A number once given to a field is never given to another.

use super::locale::{decode_locale, encode_locale};
use super::webhook::{self, WebhookProto};
use crate::durable::types::ColumnProto;
use engine::names::ClusterId;
use pgrepr::options::Locale;
use repr::GlobalId;
use sql::plan::{
    ConstraintDef, ConstraintKind, CubeDef, DefContext, ForeignKey, IndexDef, IndexKeyDef, ItemKind,
    MaterializedViewDef, ModelDef, ViewDef, ViewRead,
};
use sql::secret::SecretBytes;
use sql::sequence::{SequenceDef, SequenceOwner, SequenceParams};
use sql_syntax::ast::{Action, Deferral, Identity, KeyOptions};
use sql_syntax::names::Name;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct NumberProto {
    #[prost(uint64, tag = "1")]
    pub(super) number: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TextProto {
    #[prost(string, tag = "1")]
    pub(super) text: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DatabaseProto {
    #[prost(uint32, tag = "1")]
    pub(super) oid: u32,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(uint64, tag = "3")]
    pub(super) owner: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SchemaProto {
    #[prost(uint32, tag = "1")]
    pub(super) oid: u32,
    #[prost(uint64, tag = "2")]
    pub(super) database: u64,
    #[prost(string, tag = "3")]
    pub(super) name: String,
    #[prost(uint64, tag = "4")]
    pub(super) owner: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ClusterProto {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(uint64, tag = "2")]
    pub(super) owner: u64,
    #[prost(string, tag = "3")]
    pub(super) size: String,
    #[prost(uint64, tag = "4")]
    pub(super) workers: u64,
    #[prost(uint64, tag = "5")]
    pub(super) replication_factor: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RoleProto {
    #[prost(uint32, tag = "1")]
    pub(super) oid: u32,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(bool, tag = "3")]
    pub(super) superuser: bool,
    #[prost(bool, tag = "4")]
    pub(super) login: bool,
    #[prost(bool, tag = "5")]
    pub(super) inherit: bool,
    #[prost(bool, tag = "6")]
    pub(super) create_db: bool,
    #[prost(bool, tag = "7")]
    pub(super) create_role: bool,
    #[prost(bool, tag = "8")]
    pub(super) create_cluster: bool,
    #[prost(message, repeated, tag = "9")]
    pub(super) settings: Vec<SettingProto>,
    #[prost(string, optional, tag = "10")]
    pub(super) verifier: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct BytesProto {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) bytes: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SettingProto {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) value: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MembershipProto {
    #[prost(uint64, tag = "1")]
    pub(super) grantor: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AclProto {
    #[prost(message, repeated, tag = "1")]
    pub(super) grants: Vec<GrantProto>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DefaultAclProto {
    #[prost(uint32, tag = "1")]
    pub(super) oid: u32,
    #[prost(message, repeated, tag = "2")]
    pub(super) grants: Vec<GrantProto>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct GrantProto {
    /// A role; absent for everybody.
    #[prost(uint64, optional, tag = "1")]
    pub(super) grantee: Option<u64>,
    /// As in GRANT.
    #[prost(string, tag = "2")]
    pub(super) privilege: String,
    #[prost(uint64, tag = "3")]
    pub(super) grantor: u64,
    /// From 0; absent for the object itself.
    #[prost(uint64, optional, tag = "4")]
    pub(super) column: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CommentsProto {
    #[prost(message, repeated, tag = "1")]
    pub(super) comments: Vec<CommentProto>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CommentProto {
    /// From 0; absent for the object itself.
    #[prost(uint64, optional, tag = "1")]
    pub(super) column: Option<u64>,
    #[prost(string, tag = "2")]
    pub(super) text: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ItemProto {
    #[prost(uint32, tag = "1")]
    pub(super) oid: u32,
    #[prost(uint64, tag = "2")]
    pub(super) schema: u64,
    #[prost(string, tag = "3")]
    pub(super) name: String,
    #[prost(uint64, tag = "4")]
    pub(super) owner: u64,
    #[prost(message, repeated, tag = "5")]
    pub(super) columns: Vec<ColumnProto>,
    /// Words of global ids.
    #[prost(uint64, repeated, tag = "6")]
    pub(super) depends_on: Vec<u64>,
    #[prost(oneof = "KindProto", tags = "7, 8, 9, 10, 11, 12, 13, 14")]
    pub(super) kind: Option<KindProto>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum KindProto {
    #[prost(message, tag = "7")]
    Table(TableProto),
    #[prost(message, tag = "8")]
    View(ViewProto),
    #[prost(message, tag = "9")]
    Index(IndexProto),
    #[prost(message, tag = "10")]
    MaterializedView(MaterializedViewProto),
    /// From format 4 on.
    #[prost(message, tag = "11")]
    Sequence(SequenceProto),
    /// From format 8 on.
    #[prost(message, tag = "12")]
    Secret(BytesProto),
    /// From format 9 on.
    #[prost(message, tag = "13")]
    SemanticModel(ModelProto),
    /// The word of the id of its model; from format 9 on.
    #[prost(uint64, tag = "14")]
    Cube(u64),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SequenceProto {
    /// As in `pg_type`.
    #[prost(string, tag = "1")]
    pub(super) ty: String,
    #[prost(int64, tag = "2")]
    pub(super) start: i64,
    #[prost(int64, tag = "3")]
    pub(super) increment: i64,
    #[prost(int64, tag = "4")]
    pub(super) min: i64,
    #[prost(int64, tag = "5")]
    pub(super) max: i64,
    #[prost(int64, tag = "6")]
    pub(super) cache: i64,
    #[prost(bool, tag = "7")]
    pub(super) cycle: bool,
    #[prost(message, optional, tag = "8")]
    pub(super) owner: Option<SequenceOwnerProto>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SequenceOwnerProto {
    /// The word of a global id.
    #[prost(uint64, tag = "1")]
    pub(super) table: u64,
    /// From 0.
    #[prost(uint64, tag = "2")]
    pub(super) column: u64,
    /// Of an identity column: whether always. Absent of others.
    #[prost(bool, optional, tag = "3")]
    pub(super) always: Option<bool>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TableProto {
    #[prost(message, repeated, tag = "1")]
    pub(super) defaults: Vec<DefaultProto>,
    /// From format 2 on.
    #[prost(message, repeated, tag = "2")]
    pub(super) constraints: Vec<ConstraintProto>,
    /// From format 6 on.
    #[prost(bool, tag = "3")]
    pub(super) without_key_index: bool,
    /// From format 8 on.
    #[prost(message, optional, tag = "4")]
    pub(super) webhook: Option<WebhookProto>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ConstraintProto {
    #[prost(uint32, tag = "1")]
    pub(super) oid: u32,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    /// Positions.
    #[prost(uint64, repeated, tag = "3")]
    pub(super) columns: Vec<u64>,
    #[prost(oneof = "ConstraintKindProto", tags = "4, 5, 6")]
    pub(super) kind: Option<ConstraintKindProto>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum ConstraintKindProto {
    #[prost(message, tag = "4")]
    Key(KeyProto),
    #[prost(message, tag = "5")]
    Check(CheckProto),
    /// From format 7 on.
    #[prost(message, tag = "6")]
    Foreign(ForeignProto),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ForeignProto {
    /// None for the table itself.
    #[prost(uint64, optional, tag = "1")]
    pub(super) parent: Option<u64>,
    /// Positions.
    #[prost(uint64, repeated, tag = "2")]
    pub(super) referred: Vec<u64>,
    #[prost(bool, tag = "3")]
    pub(super) is_full: bool,
    /// Places in [`Action::ALL`].
    #[prost(uint64, tag = "4")]
    pub(super) on_delete: u64,
    #[prost(uint64, tag = "5")]
    pub(super) on_update: u64,
    #[prost(bool, tag = "6")]
    pub(super) is_deferrable: bool,
    #[prost(bool, tag = "7")]
    pub(super) is_deferred: bool,
    #[prost(bool, tag = "8")]
    pub(super) is_valid: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct KeyProto {
    /// Tag 2 was the oid of an index that was shown and not there, before format 6.
    #[prost(bool, tag = "1")]
    pub(super) primary: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CheckProto {
    #[prost(string, tag = "1")]
    pub(super) sql: String,
    #[prost(string, tag = "2")]
    pub(super) time_zone: String,
    /// These two are empty for what is usual.
    #[prost(string, tag = "3")]
    pub(super) date_style: String,
    #[prost(string, tag = "4")]
    pub(super) interval_style: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DefaultProto {
    #[prost(string, optional, tag = "1")]
    pub(super) sql: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ViewProto {
    #[prost(string, tag = "1")]
    pub(super) query: String,
    #[prost(string, tag = "2")]
    pub(super) database: String,
    #[prost(string, repeated, tag = "3")]
    pub(super) search_path: Vec<String>,
    /// Not empty unless the view is older than this field.
    #[prost(string, tag = "4")]
    pub(super) time_zone: String,
    #[prost(message, repeated, tag = "5")]
    pub(super) reads: Vec<ViewReadProto>,
    /// These two are empty for what is usual.
    #[prost(string, tag = "6")]
    pub(super) date_style: String,
    #[prost(string, tag = "7")]
    pub(super) interval_style: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ViewReadProto {
    #[prost(string, repeated, tag = "1")]
    pub(super) name: Vec<String>,
    /// The word of a global id.
    #[prost(uint64, tag = "2")]
    pub(super) id: u64,
    #[prost(uint64, tag = "3")]
    pub(super) columns: u64,
    #[prost(string, repeated, tag = "4")]
    pub(super) names: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ModelProto {
    #[prost(message, repeated, tag = "1")]
    pub(super) files: Vec<SettingProto>,
    /// A view without a query.
    #[prost(message, required, tag = "2")]
    pub(super) context: ViewProto,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MaterializedViewProto {
    #[prost(message, required, tag = "1")]
    pub(super) view: ViewProto,
    #[prost(uint64, tag = "2")]
    pub(super) cluster: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct IndexProto {
    /// The word of a global id.
    #[prost(uint64, tag = "1")]
    pub(super) on: u64,
    /// Without one, an index of which only the committer knows the keys.
    #[prost(uint64, optional, tag = "2")]
    pub(super) cluster: Option<u64>,
    #[prost(message, repeated, tag = "3")]
    pub(super) keys: Vec<IndexKeyProto>,
    #[prost(bool, tag = "4")]
    pub(super) unique: bool,
    /// The oid of a constraint; from format 6 on.
    #[prost(uint32, optional, tag = "5")]
    pub(super) constraint: Option<u32>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct IndexKeyProto {
    #[prost(uint64, optional, tag = "1")]
    pub(super) column: Option<u64>,
    #[prost(string, tag = "2")]
    pub(super) sql: String,
    #[prost(string, optional, tag = "3")]
    pub(super) class: Option<String>,
    #[prost(bool, tag = "4")]
    pub(super) descending: bool,
    #[prost(bool, tag = "5")]
    pub(super) nulls_first: bool,
}

/// What a kind is when stored; a relation of the system never is.
pub(super) fn encode_kind(kind: &ItemKind) -> Option<KindProto> {
    Some(match kind {
        ItemKind::SystemTable => return None,
        ItemKind::Table { defaults, constraints, key_index, webhook } => KindProto::Table(TableProto {
            defaults: defaults.iter().map(|sql| DefaultProto { sql: sql.clone() }).collect(),
            constraints: constraints.iter().map(encode_constraint).collect(),
            without_key_index: !key_index,
            webhook: webhook.as_deref().map(webhook::encode),
        }),
        ItemKind::Sequence(sequence) => KindProto::Sequence(encode_sequence(sequence)),
        ItemKind::Secret(value) => KindProto::Secret(BytesProto { bytes: value.reveal().to_vec() }),
        ItemKind::SemanticModel(model) => KindProto::SemanticModel(ModelProto {
            files: model
                .files
                .iter()
                .map(|(name, text)| SettingProto { name: name.to_string(), value: text.clone() })
                .collect(),
            context: encode_view("", &model.context),
        }),
        ItemKind::Cube(cube) => KindProto::Cube(cube.model.to_u64()),
        ItemKind::View(view) => KindProto::View(encode_view(&view.query, &view.context)),
        ItemKind::MaterializedView(materialized) => KindProto::MaterializedView(MaterializedViewProto {
            view: encode_view(&materialized.view.query, &materialized.view.context),
            cluster: materialized.cluster.0,
        }),
        ItemKind::Index(index) => KindProto::Index(IndexProto {
            on: index.on.to_u64(),
            cluster: index.cluster.map(|cluster| cluster.0),
            keys: index
                .keys
                .iter()
                .map(|key| IndexKeyProto {
                    column: key.column.map(super::number),
                    sql: key.sql.clone(),
                    class: key.options.class.clone(),
                    descending: key.options.descending,
                    nulls_first: key.options.nulls_first,
                })
                .collect(),
            unique: index.unique,
            constraint: index.constraint,
        }),
    })
}

/// The inverse of [`encode_kind`]; `uses` are the words of what the item refers to.
pub(super) fn decode_kind(proto: KindProto, uses: &[u64]) -> Result<ItemKind, &'static str> {
    Ok(match proto {
        KindProto::Table(table) => ItemKind::Table {
            defaults: table.defaults.into_iter().map(|default| default.sql).collect(),
            constraints: table.constraints.into_iter().map(decode_constraint).collect::<Result<_, _>>()?,
            key_index: !table.without_key_index,
            webhook: table.webhook.map(webhook::decode).transpose()?.map(Box::new),
        },
        KindProto::Sequence(sequence) => ItemKind::Sequence(decode_sequence(sequence)?),
        KindProto::Secret(BytesProto { bytes }) => ItemKind::Secret(SecretBytes::new(bytes)),
        KindProto::SemanticModel(ModelProto { files, context }) => {
            let files = files.into_iter().map(|file| (file.name.into(), file.value)).collect();
            ItemKind::SemanticModel(ModelDef::stored(files, decode_view(context, uses)?.context))
        }
        KindProto::Cube(model) => ItemKind::Cube(CubeDef { model: GlobalId::from_u64(model) }),
        KindProto::View(view) => ItemKind::View(decode_view(view, uses)?),
        KindProto::MaterializedView(MaterializedViewProto { view, cluster }) => {
            let view = decode_view(view, uses)?;
            ItemKind::MaterializedView(MaterializedViewDef { view, cluster: ClusterId(cluster) })
        }
        KindProto::Index(index) => {
            let key = |key: IndexKeyProto| {
                let IndexKeyProto { column, sql, class, descending, nulls_first } = key;
                let options = KeyOptions { class, descending, nulls_first };
                IndexKeyDef { column: column.map(super::position), sql, options }
            };
            let keys = index.keys.into_iter().map(key).collect();
            let (on, cluster) = (GlobalId::from_u64(index.on), index.cluster.map(ClusterId));
            ItemKind::Index(IndexDef { on, cluster, unique: index.unique, keys, constraint: index.constraint })
        }
    })
}

fn encode_sequence(SequenceDef { params, owner }: &SequenceDef) -> SequenceProto {
    SequenceProto {
        ty: super::types::encode_type(&params.ty),
        start: params.start,
        increment: params.increment,
        min: params.min,
        max: params.max,
        cache: params.cache,
        cycle: params.cycle,
        owner: owner.map(|owner| SequenceOwnerProto {
            table: owner.table.to_u64(),
            column: super::number(owner.column),
            always: owner.identity.map(|identity| identity == Identity::Always),
        }),
    }
}

fn decode_sequence(proto: SequenceProto) -> Result<SequenceDef, &'static str> {
    let SequenceProto { ty, start, increment, min, max, cache, cycle, owner } = proto;
    let ty = super::types::decode_type(&ty).ok_or("a sequence is of an unknown type")?;
    let owner = owner.map(|SequenceOwnerProto { table, column, always }| SequenceOwner {
        table: GlobalId::from_u64(table),
        column: super::position(column),
        identity: always.map(|always| if always { Identity::Always } else { Identity::ByDefault }),
    });
    Ok(SequenceDef { params: SequenceParams { ty, start, increment, min, max, cache, cycle }, owner })
}

fn encode_constraint(constraint: &ConstraintDef) -> ConstraintProto {
    let kind = match &constraint.kind {
        ConstraintKind::Key { primary, .. } => ConstraintKindProto::Key(KeyProto { primary: *primary }),
        ConstraintKind::Check { sql, locale, .. } => {
            let [time_zone, date_style, interval_style] = encode_locale(*locale);
            ConstraintKindProto::Check(CheckProto { sql: sql.clone(), time_zone, date_style, interval_style })
        }
        ConstraintKind::Foreign(foreign) => ConstraintKindProto::Foreign(ForeignProto {
            parent: foreign.parent.map(|parent| parent.to_u64()),
            referred: foreign.referred.iter().copied().map(super::number).collect(),
            is_full: foreign.is_full,
            on_delete: encode_action(foreign.on_delete),
            on_update: encode_action(foreign.on_update),
            is_deferrable: foreign.deferral != Deferral::Never,
            is_deferred: foreign.deferral == Deferral::Deferred,
            is_valid: foreign.is_valid,
        }),
    };
    ConstraintProto {
        oid: constraint.oid,
        name: constraint.name.clone(),
        columns: constraint.columns().iter().copied().map(super::number).collect(),
        kind: Some(kind),
    }
}

fn encode_action(action: Action) -> u64 {
    super::number(Action::ALL.iter().position(|known| *known == action).unwrap_or_default())
}

fn decode_action(place: u64) -> Result<Action, &'static str> {
    Action::ALL.get(super::position(place)).copied().ok_or("a foreign key has an unknown action")
}

fn decode_constraint(proto: ConstraintProto) -> Result<ConstraintDef, &'static str> {
    let ConstraintProto { oid, name, columns, kind } = proto;
    let columns = columns.into_iter().map(super::position).collect();
    let kind = match kind.ok_or("a constraint has no kind")? {
        ConstraintKindProto::Key(KeyProto { primary }) => ConstraintKind::Key { primary, columns },
        ConstraintKindProto::Check(CheckProto { sql, time_zone, date_style, interval_style }) => {
            let locale = decode_locale([&time_zone, &date_style, &interval_style])?;
            ConstraintKind::Check { sql, columns, locale }
        }
        ConstraintKindProto::Foreign(foreign) => ConstraintKind::Foreign(ForeignKey {
            columns,
            parent: foreign.parent.map(GlobalId::from_u64),
            referred: foreign.referred.into_iter().map(super::position).collect(),
            is_full: foreign.is_full,
            on_delete: decode_action(foreign.on_delete)?,
            on_update: decode_action(foreign.on_update)?,
            deferral: match (foreign.is_deferrable, foreign.is_deferred) {
                (false, _) => Deferral::Never,
                (true, false) => Deferral::Immediate,
                (true, true) => Deferral::Deferred,
            },
            is_valid: foreign.is_valid,
        }),
    };
    Ok(ConstraintDef { oid, name, kind })
}

fn encode_view(query: &str, context: &DefContext) -> ViewProto {
    let reads = context.reads.iter().map(|read| ViewReadProto {
        name: read.name.parts.clone(),
        id: read.id.to_u64(),
        columns: super::number(read.columns),
        names: read.names.clone(),
    });
    let [time_zone, date_style, interval_style] = encode_locale(context.locale);
    ViewProto {
        query: query.to_owned(),
        database: context.database.clone(),
        search_path: context.search_path.clone(),
        time_zone,
        reads: reads.collect(),
        date_style,
        interval_style,
    }
}

/// What of a locale literals are read by: its time zone and its styles.
fn decode_view(proto: ViewProto, uses: &[u64]) -> Result<ViewDef, &'static str> {
    let ViewProto { query, database, search_path, time_zone, reads, date_style, interval_style } = proto;
    let read = |ViewReadProto { name, id, columns, names }| ViewRead {
        name: Name { parts: name },
        id: GlobalId::from_u64(id),
        columns: super::position(columns),
        names,
    };
    if time_zone.is_empty() {
        // From before names were kept: they are looked up along the search path, and no name in a query has no parts.
        let read = |id: &u64| read(ViewReadProto { name: Vec::new(), id: *id, columns: 0, names: Vec::new() });
        let reads = uses.iter().map(read).collect();
        let context = DefContext { database, search_path, locale: Locale::default(), reads };
        return Ok(ViewDef { query, context });
    }
    let locale = decode_locale([&time_zone, &date_style, &interval_style])?;
    let context = DefContext { database, search_path, locale, reads: reads.into_iter().map(read).collect() };
    Ok(ViewDef { query, context })
}
