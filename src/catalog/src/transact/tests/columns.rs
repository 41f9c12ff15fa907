//! ALTER TABLE of columns: what refers to the table goes on.

use super::Server;
use crate::transact::{Op, StateDiff};
use engine::names::{ObjectId, Privilege};
use repr::sqlstate::SqlState;
use sql::plan::{CatalogView, ConstraintKind, ItemKind, definition};

#[test]
fn a_table_that_gets_a_column_has_a_new_id_and_what_is_made_of_it_too() {
    let mut server = Server::new();
    server.run("CREATE ROLE r");
    server.run("CREATE TABLE t (a int PRIMARY KEY, b int)");
    server.run("CREATE VIEW v AS SELECT * FROM t");
    server.run("CREATE MATERIALIZED VIEW m AS SELECT a FROM v");
    server.run("CREATE INDEX on_t ON t (b)");
    server.run("COMMENT ON COLUMN t.b IS 'about b'");
    server.run("GRANT SELECT ON t TO r");
    let names = ["t", "v", "m", "on_t"];
    let old = names.map(|name| server.item(name));
    let diff = server.run("ALTER TABLE t ADD COLUMN c text DEFAULT 'x'");
    let new = names.map(|name| server.item(name));
    let [t, v, m, on_t] = [0, 1, 2, 3].map(|at| (old[at].id, new[at].id));
    let position =
        |change: StateDiff| diff.iter().position(|other| *other == change).expect("it is part of the difference");
    let order = [
        position(StateDiff::MaterializedViewDropped(m.0)),
        position(StateDiff::TableDropped(t.0)),
        position(StateDiff::TableCreated(t.1)),
        position(StateDiff::MaterializedViewCreated(m.1)),
    ];
    assert!(order.is_sorted(), "{diff:?}");
    assert!(
        position(StateDiff::IndexDropped(on_t.0)) < order[1] && position(StateDiff::IndexCreated(on_t.1)) > order[2]
    );
    assert_eq!(v.0, v.1);
    assert_eq!(new.each_ref().map(|item| item.oid), old.each_ref().map(|item| item.oid));
    assert_eq!(server.state.comment(ObjectId::Item(t.1), Some(1)).as_deref(), Some("about b"));
    assert!(server.state.has_privilege(server.role("r"), ObjectId::Item(t.1), Privilege::Select));
    assert_eq!(server.columns("SELECT * FROM t"), "a b c");
    assert_eq!(server.columns("SELECT * FROM v"), "a b");
    server.check();
}

#[test]
fn what_stands_behind_a_dropped_column_moves_up() {
    let mut server = Server::new();
    server.run("CREATE TABLE t (a int, b int, c int CHECK (c > 0), d int UNIQUE)");
    server.run("CREATE INDEX on_a ON t (a)");
    server.run("CREATE INDEX on_d ON t (d, (c + 1))");
    server.run("CREATE VIEW v AS SELECT d FROM t");
    server.run("COMMENT ON COLUMN t.a IS 'about a'");
    server.run("COMMENT ON COLUMN t.c IS 'about c'");
    assert_eq!(server.run_as("mz_system", "ALTER TABLE t DROP COLUMN d"), Err(SqlState::DEPENDENT_OBJECTS_STILL_EXIST));
    server.run("ALTER TABLE t DROP COLUMN a, DROP COLUMN b");
    server.check();
    assert!(server.find("on_a").is_none());
    let table = server.item("t");
    let columns: Vec<&[usize]> = table.constraints().iter().map(|constraint| constraint.columns()).collect();
    assert_eq!(columns, [[0], [1]]);
    assert_eq!(server.state.comment(ObjectId::Item(table.id), Some(0)).as_deref(), Some("about c"));
    assert_eq!(server.state.comment(ObjectId::Item(table.id), Some(1)), None);
    let ItemKind::Index(index) = &server.item("on_d").kind else { panic!("it is an index") };
    assert_eq!(index.keys[0].column, Some(1));
    assert_eq!(server.columns("SELECT * FROM v"), "d");
    server.run("ALTER TABLE t DROP COLUMN d CASCADE");
    assert!(server.find("v").is_none() && server.find("on_d").is_none());
    assert_eq!(server.item("t").constraints().len(), 1);
    server.check();
}

#[test]
fn privileges_are_those_of_their_column() {
    let mut server = Server::new();
    for sql in ["CREATE ROLE r", "CREATE ROLE s", "CREATE TABLE t (a int, b int, c int)"] {
        server.run(sql);
    }
    server.run("GRANT SELECT (a, c), UPDATE (c), INSERT ON t TO r");
    server.run("GRANT SELECT (c) ON t TO PUBLIC");
    server.check();
    let r = server.role("r");
    let on = |server: &Server, privilege| {
        let id = server.item("t").id;
        let columns = 0..server.item("t").desc.arity();
        columns.filter(|column| server.state.has_column_privilege(r, id, *column, privilege)).collect::<Vec<_>>()
    };
    assert_eq!([Privilege::Select, Privilege::Update].map(|privilege| on(&server, privilege)), [vec![0, 2], vec![2]]);
    // What is on columns is not on the table, nor the other way round.
    let table = |server: &Server| ObjectId::Item(server.item("t").id);
    assert!(!server.state.has_privilege(r, table(&server), Privilege::Select));
    assert!(server.state.has_privilege(r, table(&server), Privilege::Insert));
    assert_eq!(on(&server, Privilege::Insert), Vec::<usize>::new());
    server.run("ALTER TABLE t DROP COLUMN a");
    server.run("ALTER TABLE t RENAME COLUMN c TO a");
    server.check();
    assert_eq!([Privilege::Select, Privilege::Update].map(|privilege| on(&server, privilege)), [vec![1], vec![1]]);
    server.run("ALTER TABLE t OWNER TO s");
    let s = server.role("s");
    assert!(server.state.acls().filter(|(object, _)| *object == table(&server)).all(|(_, item)| item.grantor == s));
    server.run("REVOKE SELECT ON t FROM PUBLIC");
    server.run("REVOKE SELECT ON t FROM r");
    assert_eq!([Privilege::Select, Privilege::Update].map(|privilege| on(&server, privilege)), [vec![], vec![1]]);
    let error = server.prepare(vec![Op::Drop { objects: vec![ObjectId::Role(r)] }]).expect_err("it has privileges");
    assert_eq!(error.detail().as_deref(), Some("privileges for table t\nprivileges for column a of table t"));
    server.run("REVOKE INSERT, UPDATE (a) ON t FROM r");
    server.run("DROP ROLE r");
    server.check();
}

#[test]
fn views_know_a_column_by_the_name_that_it_had() {
    let mut server = Server::new();
    server.run("CREATE TABLE t (a int, b int CHECK (b > a), c int)");
    server.run("CREATE VIEW v AS SELECT * FROM t WHERE b > 0");
    server.run("CREATE INDEX on_t ON t (b, (a + b))");
    let id = server.item("t").id;
    let diff = server.run("ALTER TABLE t RENAME COLUMN b TO \"new B\"");
    assert_eq!(diff, [StateDiff::TableAltered(id), StateDiff::Renamed(ObjectId::Item(id))]);
    server.run("ALTER TABLE t RENAME COLUMN a TO b");
    server.check();
    assert_eq!(server.columns("SELECT * FROM t"), "b new B c");
    assert_eq!(server.columns("SELECT * FROM v"), "a b c");
    let (table, view) = (server.item("t"), server.item("v"));
    let ConstraintKind::Check { sql, .. } = &table.constraints()[0].kind else { panic!("it is a CHECK") };
    assert_eq!(sql, "\"new B\" > b");
    let printed = definition::view(&server.state, &view).expect("it is a view");
    assert_eq!(printed, " SELECT * FROM (SELECT b AS a, \"new B\" AS b, c FROM t) AS t WHERE b > 0;");
    let ItemKind::Index(index) = &server.item("on_t").kind else { panic!("it is an index") };
    assert_eq!(index.keys.iter().map(|key| key.sql.as_str()).collect::<Vec<_>>(), ["\"new B\"", "b + \"new B\""]);
    // The view goes on from there: a column that comes is not one that it had.
    server.run("ALTER TABLE t DROP COLUMN c CASCADE");
    assert!(server.find("v").is_none());
    server.run("CREATE VIEW w AS SELECT \"new B\" FROM t");
    server.run("ALTER TABLE t RENAME COLUMN \"new B\" TO x");
    server.run("ALTER TABLE t DROP COLUMN b, ADD COLUMN \"new B\" text");
    assert_eq!(server.columns("SELECT * FROM w"), "new B");
    assert_eq!(server.columns("SELECT * FROM t"), "x new B");
    server.check();
}
