//! The indexes of keys: they come, are renamed, are built anew and go with their constraints, and never otherwise.

use super::*;
use crate::catalog::of_this_format;
use sql::plan::constraint::index_of;
use sql::plan::{IndexDef, ItemKind};

/// Each key of each table with its index, whose name and columns are the key's; and no index of a key that is not there.
fn check_keys(server: &Server) {
    server.check();
    let (mut keys, mut indexes) = (0, 0);
    for item in server.state.all_items() {
        for key in item.constraints().iter().filter(|constraint| constraint.is_key()) {
            let index = index_of(&server.state, item.id, key.oid).unwrap_or_else(|| panic!("{} has none", key.name));
            let ItemKind::Index(IndexDef { keys: columns, unique, .. }) = &index.kind else { panic!("it is an index") };
            assert_eq!((&index.name.item, index.owner, unique), (&key.name, item.owner, &true));
            assert_eq!(columns.iter().filter_map(|key| key.column).collect::<Vec<_>>(), key.columns());
            keys += 1;
        }
        indexes += usize::from(matches!(&item.kind, ItemKind::Index(index) if index.constraint.is_some()));
    }
    assert_eq!(keys, indexes);
}

fn cluster_of(server: &Server, name: &str) -> Option<engine::names::ClusterId> {
    server.item(name).cluster()
}

#[test]
fn a_key_has_an_index_for_as_long_as_it_is_there() {
    let mut server = Server::new();
    let diff = server.run("CREATE TABLE t (a int PRIMARY KEY, b text UNIQUE, c int CHECK (c > 0))");
    let (t, pkey) = (server.item("t").id, server.item("t_pkey").id);
    assert_eq!(
        diff,
        [StateDiff::TableCreated(t), StateDiff::IndexCreated(pkey), StateDiff::IndexCreated(server.item("t_b_key").id)]
    );
    assert_eq!(cluster_of(&server, "t_pkey"), Some(SYSTEM_CLUSTER));
    check_keys(&server);
    for sql in [
        "ALTER TABLE t ADD CONSTRAINT two UNIQUE (b, a)",
        "ALTER TABLE t RENAME CONSTRAINT two TO pair",
        "ALTER INDEX t_b_key RENAME TO name",
        "ALTER TABLE t RENAME COLUMN a TO id",
        "ALTER TABLE t ALTER COLUMN c TYPE bigint",
        "CREATE UNIQUE INDEX u ON t (c)",
        "ALTER TABLE t OWNER TO materialize",
        "ALTER TABLE t ADD COLUMN d int UNIQUE",
        "ALTER TABLE t DROP COLUMN b",
    ] {
        server.run(sql);
        check_keys(&server);
    }
    assert_eq!(server.find("pair").map(|item| item.id), None, "it went with one of its columns");
    assert_eq!(server.item("t").constraints().iter().filter(|constraint| constraint.is_key()).count(), 2);
    let rebuilt = server.item("t_pkey").id;
    assert_ne!(rebuilt, pkey, "all rows are others since");
    let refused = |sql: &str| server.plan_any("mz_system", sql).map(|_| ()).expect_err("it is refused");
    assert_eq!(refused("DROP INDEX t_pkey").sqlstate, SqlState::DEPENDENT_OBJECTS_STILL_EXIST);
    assert_eq!(refused("DROP INDEX t_pkey CASCADE").sqlstate, SqlState::DEPENDENT_OBJECTS_STILL_EXIST);
    assert_eq!(refused("CREATE TABLE t_pkey (a int)").sqlstate, SqlState::DUPLICATE_TABLE);
    assert_eq!(refused("ALTER INDEX t_pkey SET CLUSTER quickstart").sqlstate, SqlState::FEATURE_NOT_SUPPORTED);
    assert_eq!(
        server.run("ALTER TABLE t DROP CONSTRAINT t_pkey"),
        [
            StateDiff::TableAltered(server.item("t").id),
            StateDiff::IndexDropped(rebuilt),
            StateDiff::TableAltered(server.item("t").id)
        ]
    );
    check_keys(&server);
    server.run("DROP TABLE t");
    assert_eq!(server.find("t_d_key").map(|item| item.id), None);
    server.check();
}

#[test]
fn a_name_is_that_of_one_constraint() {
    let mut server = Server::new();
    server.run("CREATE TABLE t (a int PRIMARY KEY, CONSTRAINT positive CHECK (a > 0))");
    assert_eq!(server.run_as("mz_system", "ALTER INDEX t_pkey RENAME TO positive"), Err(SqlState::DUPLICATE_OBJECT));
}

#[test]
fn a_table_can_do_without_indexes_of_its_keys() {
    let mut server = Server::new();
    server.run("CREATE TABLE t (a int PRIMARY KEY, b int) WITH (KEY INDEX = off)");
    server.run("ALTER TABLE t ADD UNIQUE (b)");
    check_keys(&server);
    assert_eq!((cluster_of(&server, "t_pkey"), cluster_of(&server, "t_b_key")), (None, None));
    let diff = server.run("ALTER TABLE t ADD COLUMN c int");
    assert!(!diff.iter().any(|change| matches!(change, StateDiff::IndexCreated(_))), "{diff:?}");
    check_keys(&server);
}

#[test]
fn the_system_cluster_is_the_systems() {
    let mut server = Server::new();
    server.run("CREATE TABLE t (a int)");
    for sql in
        ["CREATE INDEX IN CLUSTER mz_system ON t (a)", "CREATE MATERIALIZED VIEW m IN CLUSTER mz_system AS SELECT 1"]
    {
        assert_eq!(server.run_as("mz_system", sql), Err(SqlState::INSUFFICIENT_PRIVILEGE), "{sql}");
    }
    for sql in ["DROP CLUSTER mz_system CASCADE", "ALTER CLUSTER mz_system SET (SIZE '2')"] {
        assert!(server.run_as("mz_system", sql).is_err(), "{sql}");
    }
}

/// Before format 6 nothing was stored of the indexes of keys.
#[test]
fn keys_of_a_format_before_get_indexes() {
    let mut server = Server::new();
    server.run("CREATE TABLE t (a int PRIMARY KEY, b int UNIQUE)");
    let mut old = server.reloaded();
    for index in ["t_pkey", "t_b_key"].map(|name| server.item(name).id) {
        old.remove_item(index);
        server.stored.remove(&format!("catalog/item/{index}"));
    }
    let (state, meta) = of_this_format(old).expect("it can be");
    server.state = state;
    server.store(&meta);
    check_keys(&server);
    assert_eq!(of_this_format(server.reloaded()).expect("it can be").1, []);
}
