//! A catalog of a handful of objects, for tests of planning.

use engine::names::{ClusterId, DatabaseId, ObjectId, Privilege, RoleId, SchemaId};
use glimpse_sql::plan::{
    CatalogView, ClusterRef, DatabaseRef, DefContext, IndexDef, IndexKeyDef, ItemKind, ItemRef, MaterializedViewDef,
    RoleRef, SchemaRef, ViewDef,
};
use pgrepr::options::Locale;
use repr::{GlobalId, PgType, RelationDesc};
use sql_syntax::ast::KeyOptions;
use sql_syntax::names::FullName;
use std::sync::Arc;

const SYSTEM: RoleId = RoleId(1);
const MATERIALIZE: RoleId = RoleId(2);
const JOE: RoleId = RoleId(3);
const PG_CATALOG: SchemaId = SchemaId(1);
const PUBLIC: SchemaId = SchemaId(2);
const PRIVATE: SchemaId = SchemaId(3);

/// `t`, `v` and the materialized `m` over it, `secret` and `sv` over that belong to mz_system; `mine` to materialize, `joes` to joe.
pub(crate) struct Catalog {
    database: Arc<DatabaseRef>,
    schemas: Vec<Arc<SchemaRef>>,
    cluster: Arc<ClusterRef>,
    roles: Vec<Arc<RoleRef>>,
    items: Vec<Arc<ItemRef>>,
    grants: Vec<(RoleId, ObjectId, Privilege)>,
}

impl Catalog {
    pub(crate) fn new() -> Catalog {
        let schema = |id, database, name: &str, owner| {
            Arc::new(SchemaRef { id, oid: 100 + id.0 as u32, database, name: name.to_owned(), owner })
        };
        let role = |id, name: &str, superuser| {
            Arc::new(RoleRef {
                id,
                oid: 10 + id.0 as u32,
                name: name.to_owned(),
                superuser,
                login: true,
                inherit: true,
                create_db: false,
                create_role: false,
                create_cluster: false,
            })
        };
        let database = DatabaseRef { id: DatabaseId(1), oid: 90, name: "materialize".to_owned(), owner: SYSTEM };
        let cluster = ClusterRef {
            id: ClusterId(1),
            name: "quickstart".to_owned(),
            owner: SYSTEM,
            size: "1".to_owned(),
            workers: 1,
            replication_factor: 1,
        };
        let item = |id: u64| ObjectId::Item(GlobalId::User(id));
        Catalog {
            database: Arc::new(database),
            schemas: vec![
                schema(PG_CATALOG, None, "pg_catalog", SYSTEM),
                schema(PUBLIC, Some(DatabaseId(1)), "public", SYSTEM),
                schema(PRIVATE, Some(DatabaseId(1)), "private", SYSTEM),
            ],
            cluster: Arc::new(cluster),
            roles: vec![
                role(SYSTEM, "mz_system", true),
                role(MATERIALIZE, "materialize", false),
                role(JOE, "joe", false),
            ],
            items: items(),
            grants: vec![
                (MATERIALIZE, item(1), Privilege::Select),
                (MATERIALIZE, item(1), Privilege::Insert),
                (MATERIALIZE, item(5), Privilege::Select),
                (MATERIALIZE, item(9), Privilege::Select),
                (JOE, item(1), Privilege::Update),
                (JOE, item(1), Privilege::Delete),
            ],
        }
    }
}

fn items() -> Vec<Arc<ItemRef>> {
    let t = vec![
        ("a".to_owned(), PgType::Int4, false),
        ("b".to_owned(), PgType::Text, true),
        ("C d".to_owned(), PgType::Varchar(Some(3)), true),
    ];
    let one = vec![("x".to_owned(), PgType::Int4, true)];
    let table = |defaults: &[Option<&str>]| ItemKind::Table {
        defaults: defaults.iter().map(|default| default.map(str::to_owned)).collect(),
        constraints: Vec::new(),
        key_index: true,
        webhook: None,
    };
    let def = |query: &str| ViewDef {
        query: query.to_owned(),
        context: DefContext {
            database: "materialize".to_owned(),
            search_path: vec!["public".to_owned()],
            locale: Locale::default(),
            reads: Vec::new(),
        },
    };
    let view = |query: &str| ItemKind::View(def(query));
    let materialized =
        |query: &str| ItemKind::MaterializedView(MaterializedViewDef { view: def(query), cluster: ClusterId(1) });
    let index = ItemKind::Index(IndexDef {
        on: GlobalId::User(1),
        cluster: Some(ClusterId(1)),
        unique: false,
        keys: vec![IndexKeyDef { column: Some(0), sql: "a".to_owned(), options: KeyOptions::default() }],
        constraint: None,
    });
    let int = |name: &str| vec![(name.to_owned(), PgType::Int4, true)];
    let item = |id, schema, name: &str, owner, columns: Vec<(String, PgType, bool)>, kind| {
        let schema_name = ["", "pg_catalog", "public", "private"][schema_number(schema)].to_owned();
        let database = (schema != PG_CATALOG).then(|| "materialize".to_owned());
        let name = FullName { database, schema: schema_name, item: name.to_owned() };
        let desc = Arc::new(RelationDesc::new(columns));
        Arc::new(ItemRef { id, oid: 20_000, name, schema, owner, desc, kind })
    };
    vec![
        item(GlobalId::System(1), PG_CATALOG, "pg_class", SYSTEM, int("oid"), ItemKind::SystemTable),
        item(GlobalId::User(1), PUBLIC, "t", SYSTEM, t, table(&[Some("7"), None, Some("'d'")])),
        item(GlobalId::User(2), PUBLIC, "v", SYSTEM, int("n"), view("SELECT a FROM t WHERE b = 'x'")),
        item(GlobalId::User(3), PUBLIC, "t_a_idx", SYSTEM, int("a"), index),
        item(GlobalId::User(4), PUBLIC, "secret", SYSTEM, one.clone(), table(&[None])),
        item(GlobalId::User(5), PUBLIC, "sv", SYSTEM, int("x"), view("SELECT x FROM secret")),
        item(GlobalId::User(6), PUBLIC, "mine", MATERIALIZE, one.clone(), table(&[None])),
        item(GlobalId::User(7), PUBLIC, "joes", JOE, one.clone(), table(&[None])),
        item(GlobalId::User(8), PRIVATE, "p", SYSTEM, one, table(&[None])),
        item(GlobalId::User(9), PUBLIC, "m", SYSTEM, int("n"), materialized("SELECT a FROM t")),
    ]
}

fn schema_number(schema: SchemaId) -> usize {
    usize::try_from(schema.0).expect("a small number")
}

impl CatalogView for Catalog {
    fn database_by_name(&self, name: &str) -> Option<Arc<DatabaseRef>> {
        (name == self.database.name).then(|| Arc::clone(&self.database))
    }

    fn schema_by_name(&self, database: Option<DatabaseId>, name: &str) -> Option<Arc<SchemaRef>> {
        self.schemas.iter().find(|schema| schema.database == database && schema.name == name).map(Arc::clone)
    }

    fn item_by_name(&self, schema: SchemaId, name: &str) -> Option<Arc<ItemRef>> {
        self.items.iter().find(|item| item.schema == schema && item.name.item == name).map(Arc::clone)
    }

    fn cluster_by_name(&self, name: &str) -> Option<Arc<ClusterRef>> {
        (name == self.cluster.name).then(|| Arc::clone(&self.cluster))
    }

    fn role_by_name(&self, name: &str) -> Option<Arc<RoleRef>> {
        self.roles.iter().find(|role| role.name == name).map(Arc::clone)
    }

    fn database(&self, id: DatabaseId) -> Option<Arc<DatabaseRef>> {
        (id == self.database.id).then(|| Arc::clone(&self.database))
    }

    fn schema(&self, id: SchemaId) -> Option<Arc<SchemaRef>> {
        self.schemas.iter().find(|schema| schema.id == id).map(Arc::clone)
    }

    fn item(&self, id: GlobalId) -> Option<Arc<ItemRef>> {
        self.items.iter().find(|item| item.id == id).map(Arc::clone)
    }

    fn cluster(&self, id: ClusterId) -> Option<Arc<ClusterRef>> {
        (id == self.cluster.id).then(|| Arc::clone(&self.cluster))
    }

    fn role(&self, id: RoleId) -> Option<Arc<RoleRef>> {
        self.roles.iter().find(|role| role.id == id).map(Arc::clone)
    }

    fn databases(&self) -> Vec<Arc<DatabaseRef>> {
        vec![Arc::clone(&self.database)]
    }

    fn schemas(&self, database: Option<DatabaseId>) -> Vec<Arc<SchemaRef>> {
        self.schemas.iter().filter(|schema| schema.database == database).map(Arc::clone).collect()
    }

    fn items(&self, schema: SchemaId) -> Vec<Arc<ItemRef>> {
        self.items.iter().filter(|item| item.schema == schema).map(Arc::clone).collect()
    }

    fn clusters(&self) -> Vec<Arc<ClusterRef>> {
        vec![Arc::clone(&self.cluster)]
    }

    fn roles(&self) -> Vec<Arc<RoleRef>> {
        self.roles.clone()
    }

    fn indexes_on(&self, id: GlobalId) -> Vec<Arc<ItemRef>> {
        self.items
            .iter()
            .filter(|item| matches!(&item.kind, ItemKind::Index(index) if index.on == id))
            .map(Arc::clone)
            .collect()
    }

    fn children(&self, _table: GlobalId) -> Vec<GlobalId> {
        Vec::new()
    }

    fn dependents(&self, id: GlobalId) -> Vec<GlobalId> {
        match id {
            GlobalId::User(1) => vec![GlobalId::User(2), GlobalId::User(3), GlobalId::User(9)],
            GlobalId::User(4) => vec![GlobalId::User(5)],
            _ => Vec::new(),
        }
    }

    fn comment(&self, object: ObjectId, column: Option<usize>) -> Option<String> {
        (object == ObjectId::Item(GlobalId::User(9))).then(|| format!("about m {column:?}"))
    }

    fn owned_by(&self, role: RoleId) -> Vec<ObjectId> {
        self.items.iter().filter(|item| item.owner == role).map(|item| ObjectId::Item(item.id)).collect()
    }

    fn has_privilege(&self, role: RoleId, object: ObjectId, privilege: Privilege) -> bool {
        // PUBLIC may use and create in `public`, and use the cluster.
        let everybody = matches!(object, ObjectId::Schema(PUBLIC) | ObjectId::Cluster(_));
        everybody || self.grants.contains(&(role, object, privilege))
    }

    fn has_column_privilege(&self, _role: RoleId, _item: GlobalId, _column: usize, _privilege: Privilege) -> bool {
        false
    }

    fn is_member(&self, role: RoleId, of: RoleId) -> bool {
        role == of
    }

    fn inherits(&self, role: RoleId, of: RoleId) -> bool {
        role == of
    }

    fn owner(&self, object: ObjectId) -> Option<RoleId> {
        match object {
            ObjectId::Item(id) => self.item(id).map(|item| item.owner),
            ObjectId::Role(_) | ObjectId::System => None,
            _ => Some(SYSTEM),
        }
    }
}
