//! A small catalog, and what the system relations and functions say about it.

use super::functions::BuiltinFunctions;
use super::history::{End, Execution, Outcome, Strategy};
use super::introspection::{
    Arrangement, CollectionStatus, Encryption, Hydration, Live, LockStatus, NothingLive, SessionStatus,
};
use super::{Context, RELATIONS, relation};
use crate::objects::AclItem;
use crate::state::State;
use crate::system::MZ_SYSTEM;
use arrow::array::RecordBatch;
use engine::names::{ClusterId, DatabaseId, ObjectId, Privilege, RoleId, SchemaId};
use engine::{CatalogFunctions, SessionInfo};
use pgrepr::options::Locale;
use pgrepr::types::TYPES;
use repr::datum::{Datum, from_array};
use repr::types::PgType;
use repr::{GlobalId, RelationDesc, Timestamp};
use sql::plan::{
    ClusterRef, DatabaseRef, DefContext, Grantee, IndexDef, IndexKeyDef, ItemKind, ItemRef, MaterializedViewDef,
    RoleRef, SchemaRef, ViewDef, ViewRead,
};
use sql_syntax::ast::KeyOptions;
use sql_syntax::names::{FullName, Name};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, OnceLock};

const USER: RoleId = RoleId(100);
const DATABASE: DatabaseId = DatabaseId(1);
const SCHEMA: SchemaId = SchemaId(100);
const TABLE: GlobalId = GlobalId::User(1);
const TABLE_OID: u32 = 20_003;
const MATERIALIZED_OID: u32 = 20_006;

fn role(id: RoleId, oid: u32, name: &str, superuser: bool) -> RoleRef {
    RoleRef {
        id,
        oid,
        name: name.to_owned(),
        superuser,
        login: true,
        inherit: true,
        create_db: false,
        create_role: false,
        create_cluster: false,
    }
}

fn item(id: u64, oid: u32, name: &str, columns: Vec<(String, PgType, bool)>, kind: ItemKind) -> ItemRef {
    ItemRef {
        id: GlobalId::User(id),
        oid,
        name: FullName { database: Some("materialize".into()), schema: "public".into(), item: name.into() },
        schema: SCHEMA,
        owner: MZ_SYSTEM,
        desc: Arc::new(RelationDesc::new(columns)),
        kind,
    }
}

/// Database `materialize` with `public.t (id int4 not null, name varchar(10) default 'x')`, the view `v` and the materialized
/// view `m` over it, the index `t_name` on it and `m_id` on `m`; SELECT on `t` is granted to `materialize`.
fn state() -> Arc<State> {
    let mut state = super::initial();
    state.put_role(role(MZ_SYSTEM, 10, "mz_system", true));
    state.put_role(role(USER, 20_000, "materialize", false));
    state.put_database(DatabaseRef { id: DATABASE, oid: 20_001, name: "materialize".into(), owner: MZ_SYSTEM });
    state.put_schema(SchemaRef {
        id: SCHEMA,
        oid: 2200,
        database: Some(DATABASE),
        name: "public".into(),
        owner: MZ_SYSTEM,
    });
    state.put_cluster(ClusterRef {
        id: ClusterId(1),
        name: "quickstart".into(),
        owner: MZ_SYSTEM,
        size: "2".into(),
        workers: 2,
        replication_factor: 1,
    });
    let id = ("id".to_owned(), PgType::Int4, false);
    let name = ("name".to_owned(), PgType::Varchar(Some(10)), true);
    let defaults = vec![None, Some("'x'".to_owned())];
    let table = ItemKind::Table { defaults, constraints: Vec::new(), key_index: true, webhook: None };
    state.put_item(item(1, TABLE_OID, "t", vec![id.clone(), name.clone()], table));
    let view = ViewDef {
        query: "SELECT id FROM t".into(),
        context: DefContext {
            database: "materialize".into(),
            search_path: vec!["public".into()],
            locale: Locale::default(),
            reads: vec![ViewRead { name: Name::bare("t"), id: TABLE, columns: 2, names: Vec::new() }],
        },
    };
    state.put_item(item(2, 20_004, "v", vec![id.clone()], ItemKind::View(view.clone())));
    let materialized = MaterializedViewDef { view, cluster: ClusterId(1) };
    let kind = ItemKind::MaterializedView(materialized);
    state.put_item(item(4, MATERIALIZED_OID, "m", vec![id.clone()], kind));
    let key = |column, sql: &str| IndexKeyDef { column, sql: sql.into(), options: KeyOptions::default() };
    let keys = vec![key(Some(0), "id")];
    let index = IndexDef { on: GlobalId::User(4), cluster: Some(ClusterId(1)), unique: false, keys, constraint: None };
    state.put_item(item(5, 20_007, "m_id", vec![id], ItemKind::Index(index)));
    let keys = vec![key(Some(1), "name"), key(None, "id + 1")];
    let sum = ("?column?".to_owned(), PgType::Int4, true);
    let index = IndexDef { on: TABLE, cluster: Some(ClusterId(1)), unique: false, keys, constraint: None };
    state.put_item(item(3, 20_005, "t_name", vec![name, sum], ItemKind::Index(index)));
    let grant =
        AclItem { column: None, grantee: Grantee::Role(USER), privilege: Privilege::Select, grantor: MZ_SYSTEM };
    state.acls.insert(ObjectId::Item(TABLE), BTreeSet::from([grant]));
    let comments = BTreeMap::from([(None, "a table".to_owned()), (Some(1), "a name".to_owned())]);
    state.comments.insert(ObjectId::Item(TABLE), comments);
    state.put_membership(USER, MZ_SYSTEM, MZ_SYSTEM);
    Arc::new(state)
}

/// `t` is there; the index `t_name` is behind, and `m` is being built. The user and the system are connected.
struct Going;

impl Live for Going {
    fn locks(&self) -> Vec<LockStatus> {
        Vec::new()
    }

    fn position(&self, _sequence: GlobalId) -> Option<engine::session::Position> {
        None
    }

    fn collections(&self) -> Vec<CollectionStatus> {
        let hydrated = Arrangement {
            is_hydrated: true,
            record_count: 5,
            batch_count: 2,
            byte_count: 640,
            error: Some("too large".to_owned()),
            ..Arrangement::default()
        };
        let hydration = Hydration { rows_total: 10, rows_read: 4, bytes_total: 100, bytes_read: 40, took_us: 7 };
        let building = Arrangement { hydration, memory_used: 3, memory_allowed: 9, ..Arrangement::default() };
        let status = |id, since, upper, lag_us, arrangement| CollectionStatus {
            id: GlobalId::User(id),
            since,
            upper,
            lag_us,
            arrangement,
        };
        vec![
            status(4, 0, 0, None, Some(building)),
            status(3, 50, 90, Some(1_500_000), Some(hydrated)),
            status(1, 60, 101, Some(0), None),
        ]
    }

    fn sessions(&self) -> Vec<SessionStatus> {
        let session = |id, role, state, statement: &str| SessionStatus {
            id,
            role,
            database: "materialize".to_owned(),
            claims: None,
            application_name: "psql".to_owned(),
            peer: Some(([127, 0, 0, 1], 5000).into()),
            encryption: (id == 7).then(|| Encryption {
                version: "TLSv1.3",
                cipher: "TLS_AES_256_GCM_SHA384".to_owned(),
                bits: 256,
            }),
            started_us: 10,
            transaction_us: None,
            statement_us: Some(20),
            changed_us: 30,
            state,
            statement: statement.into(),
            is_waiting_for_turn: false,
        };
        vec![session(8, MZ_SYSTEM, "idle", "SELECT 2"), session(7, USER, "active", "SELECT 1")]
    }

    fn executions(&self) -> Vec<Arc<Execution>> {
        let execution = |session, role, read: Option<(Strategy, Timestamp)>, end: Option<End>| Execution {
            id: [7; 16],
            sample_rate: 0.5,
            session,
            role,
            user: "somebody".to_owned(),
            application_names: ["first".to_owned(), "psql".to_owned()],
            connected_us: 10,
            cluster: "quickstart".to_owned(),
            database: "materialize".to_owned(),
            search_path: vec!["public".to_owned()],
            isolation: "strict serializable".to_owned(),
            params: vec![Some("1".to_owned()), None],
            prepared: Some("s".to_owned()),
            sql: "SELECT $1".into(),
            kind: "CREATE TABLE",
            began_us: 20,
            read: read.map_or_else(OnceLock::new, OnceLock::from),
            end: end.map_or_else(OnceLock::new, OnceLock::from),
        };
        let success = End { us: 30, outcome: Outcome::Success(Some((2, 40))) };
        vec![
            Arc::new(execution(7, USER, Some((Strategy::FastPath, 15)), Some(success))),
            Arc::new(execution(8, MZ_SYSTEM, None, None)),
        ]
    }
}

fn rows(state: &State, schema: &str, name: &str) -> RecordBatch {
    let relation = RELATIONS.iter().find(|relation| relation.schema == schema && relation.name == name).expect(name);
    relation.rows(&Context { catalog: state, session: &SessionInfo::default(), live: &Going }).expect(name)
}

/// The named columns of the rows that have `value` in the column `key`.
fn pick(batch: &RecordBatch, key: &str, value: &Datum<'_>, columns: &[&str]) -> Vec<Vec<Datum<'static>>> {
    let get = |name: &str, row: usize| {
        from_array(batch.column_by_name(name).expect(name), row).expect("a value").into_owned()
    };
    (0..batch.num_rows())
        .filter(|row| get(key, *row) == *value)
        .map(|row| columns.iter().map(|column| get(column, row)).collect())
        .collect()
}

fn text(value: &str) -> Datum<'static> {
    Datum::Text(Cow::Owned(value.to_owned()))
}

fn call(name: &str, args: &[Datum<'_>]) -> Result<Datum<'static>, String> {
    let functions = BuiltinFunctions::new(state());
    functions.call(name, args, &SessionInfo::default()).map_err(|error| error.sqlstate.code().to_owned())
}

#[test]
fn every_relation_has_rows_of_its_shape() {
    let state = state();
    let mut names = HashSet::new();
    let mut oids = HashSet::new();
    for relation in RELATIONS.iter() {
        assert!(names.insert((relation.schema, relation.name)), "{} is listed twice", relation.name);
        assert!(oids.insert(relation.oid), "the oid of {} is taken", relation.name);
        let batch = rows(&state, relation.schema, relation.name);
        assert_eq!(batch.schema(), relation.desc.schema, "{}", relation.name);
    }
    assert_eq!(relation(GlobalId::System(1259)).map(|relation| relation.name), Some("pg_class"));
}

#[test]
fn pg_type_says_what_the_wire_says() {
    let batch = rows(&super::initial(), "pg_catalog", "pg_type");
    let columns = [
        "typname",
        "typlen",
        "typbyval",
        "typcategory",
        "typispreferred",
        "typtype",
        "typalign",
        "typstorage",
        "typarray",
    ];
    for info in TYPES {
        let expected = vec![
            text(info.name),
            Datum::Int2(info.len),
            Datum::Bool(info.by_value),
            text(&info.category.to_string()),
            Datum::Bool(info.preferred),
            text(&info.kind.to_string()),
            text(&info.align.to_string()),
            text(&info.storage.to_string()),
            Datum::Oid(info.array_oid),
        ];
        assert_eq!(pick(&batch, "oid", &Datum::Oid(info.oid), &columns), vec![expected]);
        if info.array_oid != 0 && info.kind == 'b' {
            let array = pick(&batch, "oid", &Datum::Oid(info.array_oid), &["typelem", "typcategory"]);
            assert_eq!(array, vec![vec![Datum::Oid(info.oid), text("A")]], "{}[]", info.name);
        }
    }
    let collations = pick(&batch, "typname", &text("text"), &["typcollation", "typinput"]);
    assert_eq!(collations, vec![vec![Datum::Oid(100), Datum::Oid(46)]]);
}

#[test]
fn tables_views_and_indexes() {
    let state = state();
    let class = rows(&state, "pg_catalog", "pg_class");
    let columns = ["oid", "relkind", "relhasindex", "relnatts", "relnamespace"];
    let table = vec![Datum::Oid(TABLE_OID), text("r"), Datum::Bool(true), Datum::Int2(2), Datum::Oid(2200)];
    assert_eq!(pick(&class, "relname", &text("t"), &columns), vec![table]);
    assert_eq!(pick(&class, "relname", &text("v"), &["relkind"]), vec![vec![text("v")]]);
    assert_eq!(pick(&class, "relname", &text("t_name"), &["relkind"]), vec![vec![text("i")]]);
    assert_eq!(pick(&class, "relname", &text("pg_tables"), &["relkind"]), vec![vec![text("v")]]);
    let acl = Datum::List(vec![text("materialize=r/mz_system")]);
    assert_eq!(pick(&class, "relname", &text("t"), &["relacl"]), vec![vec![acl]]);

    let attribute = rows(&state, "pg_catalog", "pg_attribute");
    let columns = ["attname", "attnum", "atttypid", "atttypmod", "attnotnull", "atthasdef"];
    let id = vec![text("id"), Datum::Int2(1), Datum::Oid(23), Datum::Int4(-1), Datum::Bool(true), Datum::Bool(false)];
    let name =
        vec![text("name"), Datum::Int2(2), Datum::Oid(1043), Datum::Int4(14), Datum::Bool(false), Datum::Bool(true)];
    assert_eq!(pick(&attribute, "attrelid", &Datum::Oid(TABLE_OID), &columns), vec![id, name]);

    let index = rows(&state, "pg_catalog", "pg_index");
    let key = Datum::List(vec![Datum::Int2(2), Datum::Int2(0)]);
    let expected = vec![Datum::Oid(20_005), key, text("id + 1")];
    assert_eq!(pick(&index, "indrelid", &Datum::Oid(TABLE_OID), &["indexrelid", "indkey", "indexprs"]), vec![expected]);
    // As clients look for the views of a table: by the rules that make them views.
    let depend = rows(&state, "pg_catalog", "pg_depend");
    let rules = rows(&state, "pg_catalog", "pg_rewrite");
    let mut views = Vec::new();
    for rule in pick(&depend, "refobjid", &Datum::Oid(TABLE_OID), &["objid"]) {
        views.extend(pick(&rules, "oid", &rule[0], &["ev_class"]));
    }
    let class_of = |name| pick(&class, "relname", &text(name), &["oid"])[0].clone();
    assert_eq!(views, vec![class_of("v"), vec![Datum::Oid(MATERIALIZED_OID)]]);
    let own = pick(&depend, "refobjid", &Datum::Oid(MATERIALIZED_OID), &["deptype"]);
    assert!(own.contains(&vec![text("i")]) && own.contains(&vec![text("a")]), "its rule and its index: {own:?}");
}

#[test]
fn sessions() {
    let state = state();
    let columns = ["datname", "usename", "client_port", "query_start", "state", "query"];
    let seen = |asking: &str, pid: i32| {
        let relation = RELATIONS.iter().find(|relation| relation.name == "pg_stat_activity").expect("it is there");
        let session = SessionInfo { user: asking.to_owned(), ..SessionInfo::default() };
        let batch = relation.rows(&Context { catalog: &state, session: &session, live: &Going }).expect("its rows");
        pick(&batch, "pid", &Datum::Int4(pid), &columns)
    };
    let everything = |user: &str, state: &str, statement: &str| {
        let (port, start) = (Datum::Int4(5000), Datum::Timestamp(20));
        vec![vec![text("materialize"), text(user), port, start, text(state), text(statement)]]
    };
    assert_eq!(seen("mz_system", 7), everything("materialize", "active", "SELECT 1"));
    assert_eq!(seen("materialize", 7), everything("materialize", "active", "SELECT 1"));
    let hidden = [text("materialize"), text("mz_system"), Datum::Null, Datum::Null, Datum::Null];
    let hidden: Vec<_> = hidden.into_iter().chain([text("<insufficient privilege>")]).collect();
    assert_eq!(seen("nobody", 8), vec![hidden]);
    let sessions = rows(&state, "mz_internal", "mz_sessions");
    assert_eq!(pick(&sessions, "connection_id", &Datum::Int8(8), &["role_id", "client_ip"])[0][1], text("127.0.0.1"));
}

#[test]
fn history_is_shown_to_whom_it_concerns() {
    let state = state();
    let relation = |name: &str| RELATIONS.iter().find(|relation| relation.name == name).expect("it is there");
    let seen = |name: &str, asking: &str| {
        let session = SessionInfo { user: asking.to_owned(), ..SessionInfo::default() };
        relation(name).rows(&Context { catalog: &state, session: &session, live: &Going }).expect("its rows")
    };
    let log = seen("mz_recent_activity_log", "materialize");
    let columns = ["execution_strategy", "rows_returned", "result_size", "finished_status", "statement_type", "sql"];
    let row = vec![
        text("fast-path"),
        Datum::Int8(2),
        Datum::Int8(40),
        text("success"),
        text("create_table"),
        text("SELECT $1"),
    ];
    assert_eq!(pick(&log, "session_id", &text("7"), &columns), vec![row]);
    assert_eq!(log.num_rows(), 2, "it is a member of the other's role");
    let log = seen("mz_recent_activity_log", "mz_system");
    assert_eq!(log.num_rows(), 2);
    assert_eq!(pick(&log, "session_id", &text("8"), &["finished_at", "finished_status"]), vec![vec![Datum::Null; 2]]);
    assert_eq!(seen("mz_recent_activity_log", "nobody").num_rows(), 0);
    let columns = ["ssl", "version", "bits"];
    let encrypted = vec![Datum::Bool(true), text("TLSv1.3"), Datum::Int4(256)];
    assert_eq!(pick(&seen("pg_stat_ssl", "materialize"), "pid", &Datum::Int4(7), &columns), vec![encrypted]);
    assert_eq!(seen("pg_stat_ssl", "mz_system").num_rows(), 2);
    assert_eq!(seen("pg_stat_ssl", "nobody").num_rows(), 0);
}

#[test]
fn materialized_views() {
    let state = state();
    let class = rows(&state, "pg_catalog", "pg_class");
    let columns = ["relkind", "relam", "relhasindex", "relispopulated", "relreplident"];
    let expected = vec![text("m"), Datum::Oid(2), Datum::Bool(true), Datum::Bool(true), text("d")];
    assert_eq!(pick(&class, "relname", &text("m"), &columns), vec![expected]);
    let attribute = rows(&state, "pg_catalog", "pg_attribute");
    let nullable = pick(&attribute, "attrelid", &Datum::Oid(MATERIALIZED_OID), &["attname", "attnotnull"]);
    assert_eq!(nullable, vec![vec![text("id"), Datum::Bool(false)]], "only a table's columns have constraints");

    let views = rows(&state, "pg_catalog", "pg_matviews");
    let columns = ["schemaname", "matviewowner", "tablespace", "hasindexes", "ispopulated", "definition"];
    let mut expected = vec![text("public"), text("mz_system"), Datum::Null, Datum::Bool(true), Datum::Bool(true)];
    expected.push(text(" SELECT id FROM t;"));
    assert_eq!(pick(&views, "matviewname", &text("m"), &columns), vec![expected]);
    assert_eq!(views.num_rows(), 1);
    let indexes = rows(&state, "pg_catalog", "pg_indexes");
    assert_eq!(pick(&indexes, "tablename", &text("m"), &["indexname"]), vec![vec![text("m_id")]]);
    assert_eq!(call("pg_get_viewdef", &[Datum::Oid(MATERIALIZED_OID)]), Ok(text(" SELECT id FROM t;")));
    let statistics = rows(&state, "pg_catalog", "pg_stat_user_tables");
    assert_eq!(statistics.num_rows(), 2, "t and m");

    let views = rows(&state, "mz_catalog", "mz_materialized_views");
    let columns = ["id", "name", "cluster_id", "definition", "owner_id", "create_sql"];
    let sql = "CREATE MATERIALIZED VIEW materialize.public.m IN CLUSTER quickstart AS SELECT id FROM t";
    let expected = ["u4", "m", "u1", " SELECT id FROM t;", "s1", sql].map(text);
    assert_eq!(pick(&views, "oid", &Datum::Oid(MATERIALIZED_OID), &columns), vec![expected.to_vec()]);
    let objects = rows(&state, "mz_catalog", "mz_objects");
    let expected = vec![text("materialized-view"), text("u1")];
    assert_eq!(pick(&objects, "name", &text("m"), &["type", "cluster_id"]), vec![expected]);

    // None of these is what a materialized view is, in Postgres either.
    for (schema, name, key) in [
        ("pg_catalog", "pg_tables", "tablename"),
        ("pg_catalog", "pg_views", "viewname"),
        ("information_schema", "tables", "table_name"),
        ("information_schema", "columns", "table_name"),
        ("information_schema", "views", "table_name"),
        ("information_schema", "table_privileges", "table_name"),
        ("mz_catalog", "mz_tables", "name"),
        ("mz_catalog", "mz_views", "name"),
    ] {
        assert!(pick(&rows(&state, schema, name), key, &text("m"), &[key]).is_empty(), "{name}");
    }
}

#[test]
fn what_is_going_on() {
    let state = state();
    let all = |schema: &str, name: &str, columns: &[&str]| {
        let batch = rows(&state, schema, name);
        let of = |id: &str| pick(&batch, "object_id", &text(id), columns);
        ["u1", "u3", "u4"].map(|id| of(id).into_iter().next())
    };
    // As a numeric without a scale is stored.
    let number = |n: i128| Datum::Numeric(arrow::datatypes::i256::from_i128(n * 10_i128.pow(20)), 20);
    let hydration = all("mz_internal", "mz_hydration_statuses", &["replica_id", "hydrated"]);
    let status = |hydrated| Some(vec![text("u1-r1"), Datum::Bool(hydrated)]);
    assert_eq!(hydration, [None, status(true), status(false)], "a table is not hydrated");
    let replicas = rows(&state, "mz_catalog", "mz_cluster_replicas");
    assert_eq!(pick(&replicas, "id", &text("u1-r1"), &["name"]), vec![vec![text("r1")]]);
    let frontiers = all("mz_internal", "mz_frontiers", &["read_frontier", "write_frontier"]);
    let between = |since, upper| Some(vec![number(since), number(upper)]);
    assert_eq!(frontiers, [between(60, 101), between(50, 90), between(0, 0)]);
    let lag = all("mz_internal", "mz_wallclock_global_lag", &["lag"]);
    let interval = |us| Some(vec![Datum::Interval(0, 0, us)]);
    assert_eq!(lag, [interval(0), interval(1_500_000), Some(vec![Datum::Null])]);
    let sizes = all("mz_introspection", "mz_arrangement_sizes", &["records", "batches", "size"]);
    let size = |counts: [i64; 3]| Some(counts.map(Datum::Int8).to_vec());
    assert_eq!(sizes, [None, size([5, 2, 640]), size([0, 0, 0])]);
    let statuses =
        all("mz_internal", "mz_maintained_statuses", &["name", "type", "status", "error", "rows_read", "memory_used"]);
    let status = |name, kind, status, error, rows, memory| {
        Some(vec![text(name), text(kind), text(status), error, Datum::Int8(rows), Datum::Int8(memory)])
    };
    let failed = status("t_name", "index", "failed", text("too large"), 0, 0);
    assert_eq!(statuses, [None, failed, status("m", "materialized-view", "hydrating", Datum::Null, 4, 3)]);
}

#[test]
fn another_database_does_not_show() {
    let state = state();
    let session = SessionInfo { database: "other".into(), ..SessionInfo::default() };
    let relation = relation(GlobalId::System(1259)).expect("pg_class");
    let batch = relation.rows(&Context { catalog: &state, session: &session, live: &NothingLive }).expect("pg_class");
    assert!(pick(&batch, "relname", &text("t"), &["oid"]).is_empty());
    assert_eq!(pick(&rows(&state, "mz_catalog", "mz_tables"), "name", &text("t"), &["id"]), vec![vec![text("u1")]]);
}

#[test]
fn information_schema_shows_what_the_role_may_use() {
    let state = state();
    let columns = rows(&state, "information_schema", "columns");
    let wanted = ["column_name", "data_type", "character_maximum_length", "is_nullable", "column_default"];
    let id = vec![text("id"), text("integer"), Datum::Null, text("NO"), Datum::Null];
    let name = vec![text("name"), text("character varying"), Datum::Int4(10), text("YES"), text("'x'")];
    assert_eq!(pick(&columns, "table_name", &text("t"), &wanted), vec![id, name]);
    let privileges = rows(&state, "information_schema", "table_privileges");
    let granted = pick(&privileges, "grantee", &text("materialize"), &["privilege_type", "table_name"]);
    assert_eq!(granted, vec![vec![text("SELECT"), text("t")]]);
}

#[test]
fn definitions() {
    let index = text("CREATE INDEX t_name ON public.t USING btree (name, (id + 1))");
    assert_eq!(call("pg_get_indexdef", &[Datum::Oid(20_005)]), Ok(index));
    let second = [Datum::Oid(20_005), Datum::Int4(2), Datum::Bool(true)];
    assert_eq!(call("pg_get_indexdef", &second), Ok(text("(id + 1)")));
    assert_eq!(call("pg_get_indexdef", &[Datum::Oid(1)]), Ok(Datum::Null));
    assert_eq!(call("pg_get_viewdef", &[Datum::Oid(20_004)]), Ok(text(" SELECT id FROM t;")));
    assert_eq!(call("pg_get_viewdef", &[text("v")]), Ok(text(" SELECT id FROM t;")));
    let tables = rows(&state(), "mz_catalog", "mz_tables");
    let sql = "CREATE TABLE materialize.public.t (id integer NOT NULL, name character varying(10) DEFAULT 'x')";
    assert_eq!(pick(&tables, "name", &text("t"), &["create_sql"]), vec![vec![text(sql)]]);
}

#[test]
fn names_of_types_and_oids() {
    let format = |oid, typmod| call("format_type", &[Datum::Oid(oid), typmod]);
    assert_eq!(format(1043, Datum::Int4(14)), Ok(text("character varying(10)")));
    assert_eq!(format(1043, Datum::Null), Ok(text("character varying")));
    assert_eq!(format(1042, Datum::Int4(-1)), Ok(text("bpchar")));
    assert_eq!(format(1007, Datum::Int4(-1)), Ok(text("integer[]")));
    assert_eq!(format(1700, Datum::Int4(655_366)), Ok(text("numeric(10,2)")));
    assert_eq!(format(0, Datum::Null), Ok(text("-")));
    assert_eq!(format(99, Datum::Null), Ok(text("???")));
    assert_eq!(call("format_type", &[Datum::Null, Datum::Null]), Ok(Datum::Null));
    assert_eq!(call("regclassin", &[text("t")]), Ok(Datum::Oid(TABLE_OID)));
    assert_eq!(call("regclassin", &[text("public.\"t\"")]), Ok(Datum::Oid(TABLE_OID)));
    assert_eq!(call("regclassin", &[text("nothing")]), Err("42P01".into()));
    assert_eq!(call("regclassin", &[text("a b")]), Err("42602".into()));
    assert_eq!(call("to_regclass", &[text("nothing")]), Ok(Datum::Null));
    assert_eq!(call("regclassout", &[Datum::Oid(1259)]), Ok(text("pg_class")));
    assert_eq!(call("regclassout", &[Datum::Oid(5)]), Ok(text("5")));
    assert_eq!(call("regtypein", &[text("int8")]), Ok(Datum::Oid(20)));
    assert_eq!(call("to_regtype", &[text("nothing")]), Ok(Datum::Null));
    assert_eq!(call("regprocin", &[text("pg_catalog.array_in")]), Ok(Datum::Oid(750)));
    assert_eq!(call("regprocout", &[Datum::Oid(2400)]), Ok(text("array_recv")));
    assert_eq!(call("regnamespaceout", &[Datum::Oid(2200)]), Ok(text("public")));
    for signature in ["lower(text)", "count(\"any\")", "json_build_object()", "regexp_replace(text,text,text,integer)"]
    {
        let Ok(oid) = call("regprocedurein", &[text(signature)]) else { panic!("{signature} is a function") };
        assert_eq!(call("regprocedureout", &[oid]), Ok(text(signature)));
    }
    assert_eq!(call("regprocedurein", &[text(" pg_catalog.Lower ( varchar(3) ) ")]), Err("42883".into()));
    assert_eq!(call("regprocedurein", &[text("\"lower\"(TEXT)")]), Ok(Datum::Oid(870)));
    for (signature, error) in
        [("lower", "22P02"), ("lower(text", "22P02"), ("lower(text,)", "22P02"), ("lower(nosuch)", "42704")]
    {
        assert_eq!(call("regprocedurein", &[text(signature)]), Err(error.into()), "{signature}");
    }
    assert_eq!(call("to_regprocedure", &[text("nothing(text)")]), Ok(Datum::Null));
    assert_eq!(call("regrolein", &[text("mz_system")]), Ok(Datum::Oid(10)));
    assert_eq!(call("regroleout", &[Datum::Oid(10)]), Ok(text("mz_system")));
    assert_eq!(call("regrolein", &[text("nobody")]), Err("42704".into()));
    assert_eq!(call("regrolein", &[text("a.b")]), Err("42602".into()));
    assert_eq!(
        call("pg_get_functiondef", &[Datum::Oid(870)]),
        Ok(text(
            "CREATE OR REPLACE FUNCTION pg_catalog.lower(text)\n RETURNS text\n LANGUAGE internal\n IMMUTABLE PARALLEL \
             SAFE STRICT\nAS $function$lower$function$\n"
        ))
    );
    // An aggregate, and no function.
    assert_eq!(call("pg_get_functiondef", &[Datum::Oid(2147)]), Err("42809".into()));
    assert_eq!(call("pg_get_functiondef", &[Datum::Oid(1)]), Ok(Datum::Null));
    assert_eq!(call("pg_get_userbyid", &[Datum::Oid(10)]), Ok(text("mz_system")));
    assert_eq!(call("pg_get_userbyid", &[Datum::Oid(7)]), Ok(text("unknown (OID=7)")));
    assert_eq!(call("pg_get_function_arguments", &[Datum::Oid(750)]), Ok(text("cstring, oid, integer")));
}

#[test]
fn visibility() {
    let visible = |oid| call("pg_table_is_visible", &[Datum::Oid(oid)]);
    assert_eq!(visible(TABLE_OID), Ok(Datum::Bool(true)));
    assert_eq!(visible(1259), Ok(Datum::Bool(true)));
    assert_eq!(visible(7), Ok(Datum::Null));
    // Found through the implicit end of the search path, and not listed by \d all the same.
    let mz_tables = RELATIONS.iter().find(|relation| relation.name == "mz_tables").expect("listed");
    assert_eq!(visible(mz_tables.oid), Ok(Datum::Bool(false)));
    let path = |implicit| call("current_schemas", &[Datum::Bool(implicit)]);
    let first = ["pg_catalog", "mz_catalog", "mz_internal", "mz_introspection"];
    assert_eq!(path(true), Ok(Datum::List(first.into_iter().chain(["public"]).map(text).collect())));
    assert_eq!(path(false), Ok(Datum::List(vec![text("public")])));
    assert_eq!(call("current_schema", &[]), Ok(text("public")));
}

#[test]
fn comments() {
    assert_eq!(call("obj_description", &[Datum::Oid(TABLE_OID), text("pg_class")]), Ok(text("a table")));
    assert_eq!(call("obj_description", &[Datum::Oid(TABLE_OID), text("pg_namespace")]), Ok(Datum::Null));
    assert_eq!(call("col_description", &[Datum::Oid(TABLE_OID), Datum::Int4(2)]), Ok(text("a name")));
    assert_eq!(call("col_description", &[Datum::Oid(TABLE_OID), Datum::Int4(0)]), Ok(Datum::Null));
}

#[test]
fn privileges() {
    let has = |table: &str, privilege: &str| call("has_table_privilege", &[text(table), text(privilege)]);
    let system = |privilege: &str| call("has_table_privilege", &[text("mz_system"), text("v"), text(privilege)]);
    assert_eq!(has("t", "select"), Ok(Datum::Bool(true)));
    assert_eq!(has("pg_class", "SELECT"), Ok(Datum::Bool(true)));
    assert_eq!(has("t", "nonsense"), Err("22023".into()));
    assert_eq!(has("t", "USAGE"), Err("22023".into()));
    assert_eq!(has("nothing", "SELECT"), Err("42P01".into()));
    assert_eq!(system("INSERT, UPDATE"), Ok(Datum::Bool(true)));
    assert_eq!(call("has_table_privilege", &[text("nobody"), text("t"), text("SELECT")]), Err("42704".into()));
    assert_eq!(call("has_table_privilege", &[Datum::Oid(7), text("SELECT")]), Ok(Datum::Null));
    assert_eq!(call("pg_has_role", &[text("mz_system"), text("MEMBER")]), Ok(Datum::Bool(true)));
}
