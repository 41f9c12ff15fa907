//! CREATE OR REPLACE: what depends on a view stays what it was, or the view stays.

use super::Server;
use crate::error::CatalogError;
use crate::transact::{Op, StateDiff};
use engine::names::{ObjectId, Privilege};
use repr::sqlstate::SqlState;
use sql::plan::{CatalogView, Plan, ViewRead};
use sql_syntax::names::Name;
use std::sync::Arc;

#[test]
fn a_replaced_view_has_its_indexes_built_anew() {
    let mut server = Server::new();
    server.run("CREATE TABLE t (a int, b int)");
    server.run("CREATE VIEW v AS SELECT a FROM t");
    server.run("CREATE VIEW w AS SELECT a FROM v");
    server.run("CREATE INDEX on_v ON v (a)");
    server.run("CREATE INDEX on_w ON w (a)");
    server.run("CREATE INDEX on_t ON t (a)");
    server.run("COMMENT ON INDEX on_w IS 'about on_w'");
    let old = ["v", "on_v", "on_w", "on_t"].map(|name| server.item(name));
    let diff = server.run("CREATE OR REPLACE VIEW v AS SELECT b AS a FROM t");
    let new = ["v", "on_v", "on_w", "on_t"].map(|name| server.item(name));
    let expected = [
        StateDiff::ViewReplaced(old[0].id),
        StateDiff::IndexDropped(old[1].id),
        StateDiff::IndexDropped(old[2].id),
        StateDiff::IndexCreated(new[2].id),
        StateDiff::IndexCreated(new[1].id),
    ];
    assert_eq!(diff, expected);
    assert_eq!((new[0].id, new[3].id), (old[0].id, old[3].id));
    assert_eq!(new[2].oid, old[2].oid);
    assert_eq!(server.state.comment(ObjectId::Item(new[2].id), None).as_deref(), Some("about on_w"));
    assert_eq!(server.state.indexes_on(old[0].id), [Arc::clone(&new[1])]);
    server.check();
}

#[test]
fn a_replaced_materialized_view_takes_what_reads_it_along() {
    let mut server = Server::new();
    server.run("CREATE ROLE r");
    server.run("CREATE TABLE t (a int, b int)");
    server.run("CREATE MATERIALIZED VIEW m AS SELECT a FROM t");
    server.run("CREATE VIEW v AS SELECT a FROM m");
    server.run("CREATE MATERIALIZED VIEW top AS SELECT count(*) AS n FROM v");
    server.run("CREATE INDEX on_m ON m (a)");
    server.run("CREATE INDEX on_top ON top (n)");
    server.run("COMMENT ON COLUMN m.a IS 'about a'");
    server.run("GRANT SELECT ON m TO r");
    let names = ["m", "top", "on_m", "on_top", "v", "t"];
    let old = names.map(|name| server.item(name));
    let diff = server.run("CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT b AS a, a AS c FROM t");
    let new = names.map(|name| server.item(name));
    let [m, top, on_m, on_top, ..] = [0, 1, 2, 3].map(|at| (old[at].id, new[at].id));
    let expected = [
        StateDiff::IndexDropped(on_m.0),
        StateDiff::IndexDropped(on_top.0),
        StateDiff::MaterializedViewDropped(top.0),
        StateDiff::MaterializedViewDropped(m.0),
        StateDiff::MaterializedViewCreated(m.1),
        StateDiff::MaterializedViewCreated(top.1),
        StateDiff::IndexCreated(on_top.1),
        StateDiff::IndexCreated(on_m.1),
    ];
    assert_eq!(diff, expected);
    assert!(old.iter().zip(&new).all(|(old, new)| old.oid == new.oid));
    assert_eq!((new[4].id, new[5].id), (old[4].id, old[5].id));
    assert_eq!(new[4].uses(), [m.1]);
    assert_eq!(new[1].uses(), [new[4].id]);
    assert_eq!(server.state.indexes_on(m.1), [Arc::clone(&new[2])]);
    assert_eq!(server.state.comment(ObjectId::Item(m.1), Some(0)).as_deref(), Some("about a"));
    assert!(server.state.has_privilege(server.role("r"), ObjectId::Item(m.1), Privilege::Select));
    assert_eq!(new[0].desc.arity(), 2);
    server.check();
    // A plain view takes what is materialized above it along as well, and stays what it is.
    server.run("CREATE OR REPLACE VIEW v AS SELECT a FROM t");
    assert_eq!(server.item("v").id, new[4].id);
    assert_eq!((server.item("m").id, server.item("on_m").id), (m.1, on_m.1));
    assert!(server.item("top").id > on_m.1 && server.item("on_top").id > on_m.1);
    server.check();
    for sql in
        ["CREATE OR REPLACE VIEW m AS SELECT 1 AS a, 2 AS c", "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 1 AS a"]
    {
        assert_eq!(server.run_as("mz_system", sql), Err(SqlState::WRONG_OBJECT_TYPE), "{sql}");
    }
}

#[test]
fn a_view_is_not_made_of_itself() {
    let mut server = Server::new();
    server.run("CREATE VIEW v AS SELECT 1 AS a");
    server.run("CREATE VIEW w AS SELECT a FROM v");
    let (v, w) = (server.item("v"), server.item("w"));
    let Some(Op::CreateView { mut plan, owner }) =
        server.plan("mz_system", "CREATE OR REPLACE VIEW v AS SELECT 2 AS a").expect("it can be")
    else {
        panic!("it is a view");
    };
    for used in [v.id, w.id] {
        plan.view.context.reads = vec![ViewRead { name: Name::bare("v"), id: used, columns: 1, names: Vec::new() }];
        let error = server.prepare(vec![Op::CreateView { plan: plan.clone(), owner }]).expect_err("it is a cycle");
        assert!(matches!(error, CatalogError::DependencyCycle { .. }), "{error}");
    }
}

#[test]
fn a_view_sees_the_columns_that_were_there_when_it_was_created() {
    let mut server = Server::new();
    server.run("CREATE TABLE t (a int, b int)");
    server.run("CREATE TABLE u (b int, c int)");
    for (kind, replaced, indexed) in [
        ("VIEW", "CREATE OR REPLACE VIEW v AS SELECT a, b, a + b AS c FROM t", false),
        ("VIEW", "CREATE OR REPLACE VIEW v AS SELECT a, b, a + b AS c FROM t", true),
        ("MATERIALIZED VIEW", "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a, b, a + b AS c FROM t", false),
    ] {
        server.run(&format!("CREATE {kind} v AS SELECT a, b FROM t"));
        if indexed {
            server.run("CREATE DEFAULT INDEX ON v");
        }
        let views = [
            ("v1", "SELECT * FROM v", "a b"),
            ("v2", "SELECT x.* FROM public.v AS x", "a b"),
            // `c` would be ambiguous.
            ("v3", "SELECT a, c FROM v, u", "a c"),
            // `c` would join as well.
            ("v4", "SELECT * FROM v NATURAL JOIN u", "b a c"),
            // `c` would be that of `v`.
            ("v5", "SELECT b, (SELECT c FROM v LIMIT 1) AS d FROM u", "b d"),
            ("v6", "SELECT * FROM (SELECT * FROM v1 UNION SELECT * FROM v) AS y", "a b"),
            ("v7", "SELECT * FROM v AS y (e)", "e b"),
        ];
        for (name, query, columns) in views {
            server.run(&format!("CREATE VIEW {name} AS {query}"));
            assert_eq!(server.columns(&format!("SELECT * FROM {name}")), columns);
        }
        server.run(replaced);
        assert_eq!(server.columns("SELECT * FROM v"), "a b c");
        for (name, query, columns) in views {
            assert_eq!(server.columns(&format!("SELECT * FROM {name}")), columns, "{query}");
        }
        server.check();
        server.run(&format!("DROP {kind} v CASCADE"));
    }
}

#[test]
fn a_name_in_a_view_stays_what_it_was() {
    let mut server = Server::new();
    server.run("CREATE SCHEMA first");
    server.run("ALTER ROLE mz_system SET search_path = first, public");
    server.run("CREATE TABLE t (a int)");
    server.run("CREATE VIEW v AS SELECT * FROM t");
    // Found before the other one by whoever searches now.
    server.run("CREATE TABLE pg_catalog_t (x int)");
    let mut view = (*server.item("v")).clone();
    let sql::plan::ItemKind::View(def) = &mut view.kind else { panic!("it is a view") };
    def.context.search_path.insert(0, "first".to_owned());
    server.state.put_item(view);
    server.run("CREATE TABLE first.t (b int, c int)");
    assert_eq!(server.columns("SELECT * FROM v"), "a");
}

#[test]
fn how_dependents_are_stored_follows() {
    let mut server = Server::new();
    server.run("CREATE TABLE t (a numeric(10,2), b numeric)");
    server.run("CREATE VIEW v AS SELECT b AS n FROM t");
    server.run("CREATE VIEW w AS SELECT n, n * 2 AS m FROM v");
    server.run("CREATE MATERIALIZED VIEW top AS SELECT sum(m) AS s FROM w");
    server.run("CREATE INDEX i ON top (s)");
    let types = |server: &Server, name: &str| -> Vec<_> {
        server.item(name).desc.columns.iter().map(|column| (column.ty.clone(), column.data_type.clone())).collect()
    };
    let old = ["w", "top"].map(|name| types(&server, name));
    server.run("CREATE OR REPLACE VIEW v AS SELECT a * b / 3 AS n FROM t");
    let new = ["w", "top"].map(|name| types(&server, name));
    assert!(old[0] != new[0], "a quotient is stored otherwise: {new:?}");
    for name in ["v", "w", "top"] {
        let planned = match server.plan_any("mz_system", &format!("SELECT * FROM {name}")) {
            Ok(Plan::Select(select)) => Arc::clone(&select.desc),
            other => panic!("{other:?}"),
        };
        let planned: Vec<_> = planned.columns.iter().map(|column| column.data_type.clone()).collect();
        assert_eq!(types(&server, name).into_iter().map(|(_, ty)| ty).collect::<Vec<_>>(), planned, "{name}");
    }
    server.check();
    for (sql, error) in [
        ("CREATE OR REPLACE VIEW v AS SELECT a AS n FROM t", SqlState::INVALID_TABLE_DEFINITION),
        ("CREATE OR REPLACE VIEW v AS SELECT 1 AS n FROM t", SqlState::INVALID_TABLE_DEFINITION),
    ] {
        assert_eq!(server.run_as("mz_system", sql), Err(error), "{sql}");
    }
}

#[test]
fn a_view_is_not_replaced_under_what_would_fail() {
    let mut server = Server::new();
    let chain = |server: &mut Server, letter: char, count: usize| {
        for i in 1..=count {
            server.run(&format!("CREATE VIEW {letter}{i} AS SELECT * FROM {letter}{}", i - 1));
        }
    };
    server.run("CREATE VIEW a0 AS SELECT 1 AS a");
    server.run("CREATE VIEW b0 AS SELECT 2 AS a");
    chain(&mut server, 'a', 50);
    chain(&mut server, 'b', 40);
    let before = server.state.clone();
    let op = server.plan("mz_system", "CREATE OR REPLACE VIEW b0 AS SELECT * FROM a40").expect("it can be planned");
    let error = server.prepare(op.into_iter().collect()).expect_err("b23 would be too deep");
    assert_eq!(error.to_string(), "cannot replace view b0 because view b23 depends on it");
    assert_eq!(error.detail().as_deref(), Some("view b23: views are nested too deeply"));
    assert_eq!(error.sqlstate(), SqlState::FEATURE_NOT_SUPPORTED);
    assert_eq!(server.state, before);
    server.run("CREATE OR REPLACE VIEW b0 AS SELECT * FROM a20");
    server.check();
}
