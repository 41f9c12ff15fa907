//! ALTER … RENAME: names change everywhere at once, and views go on meaning what they meant.

use super::Server;
use crate::transact::Op;
use engine::names::ObjectId;
use sql::plan::definition;

impl Server {
    /// A view's query as it is printed.
    fn definition(&self, view: &str) -> String {
        definition::view(&self.state, &self.item(view)).expect("it is a view")
    }

    /// Creates every view again from what is printed of it, and compares the two.
    fn check_definitions(&mut self) {
        let views: Vec<_> = self.state.all_items().filter(|item| item.view().is_some()).cloned().collect();
        for view in views {
            let sql = definition::create_sql(&self.state, &view).expect("it is a view");
            let copy = sql.replacen(&view.name.to_string(), "public.copy", 1);
            self.run(&copy);
            let created = self.item("copy");
            assert_eq!(created.desc, view.desc, "{sql}");
            let ids = |of: &sql::plan::ItemRef| of.uses();
            assert_eq!(ids(&created), ids(&view), "{sql}");
            self.apply(vec![Op::Drop { objects: vec![ObjectId::Item(created.id)] }]).expect("nothing depends on it");
        }
    }
}

#[test]
fn renaming_reaches_full_names_and_views() {
    let mut server = Server::new();
    server.run("CREATE DATABASE other");
    server.run("CREATE SCHEMA s");
    server.run("CREATE TABLE s.t (a int, b int)");
    server.run("CREATE TABLE u (b int, c int)");
    server.run("CREATE TABLE other.public.o (a int)");
    let views = [
        ("v1", "SELECT a FROM s.t", "SELECT a FROM s2.t2 AS t"),
        ("v2", "SELECT t.a, u.* FROM s.t, u", "SELECT t.a, u.* FROM s2.t2 AS t, public.u2 AS u"),
        ("v3", "SELECT x.a FROM s.t x (a)", "SELECT x.a FROM s2.t2 AS x (a)"),
        ("v4", "TABLE u", "SELECT * FROM public.u2 AS u"),
        // Names of a WITH are no relations, but what stands in one may be: it is not its own name.
        (
            "v5",
            "WITH u AS (SELECT * FROM u) SELECT * FROM u",
            "WITH u AS (SELECT * FROM public.u2 AS u) SELECT * FROM u",
        ),
        ("v6", "SELECT 1 AS one WHERE EXISTS (SELECT FROM u WHERE b = 1)", ""),
        ("v7", "SELECT o.a FROM other.public.o", "SELECT o.a FROM other2.public.o AS o"),
        ("v8", "SELECT * FROM v1", "SELECT * FROM public.w1 AS v1"),
        ("v9", "SELECT * FROM u AS \"U\" JOIN (SELECT 1 AS b) AS v1 USING (b) UNION TABLE u", ""),
    ];
    for (name, query, _) in views {
        server.run(&format!("CREATE VIEW {name} AS {query}"));
    }
    server.run("CREATE MATERIALIZED VIEW m (x, y) AS SELECT a, b FROM s.t");
    server.check_definitions();
    let columns = views.map(|(name, ..)| server.columns(&format!("SELECT * FROM {name}")));
    for sql in [
        "ALTER TABLE s.t RENAME TO t2",
        "ALTER TABLE u RENAME TO u2",
        "ALTER SCHEMA s RENAME TO s2",
        "ALTER DATABASE other RENAME TO other2",
        "ALTER VIEW v1 RENAME TO w1",
        "ALTER CLUSTER quickstart RENAME TO slow",
        "ALTER ROLE materialize RENAME TO someone",
        // What is called now as others were.
        "CREATE TABLE u (nothing text)",
        "CREATE SCHEMA s",
        "CREATE TABLE s.t (nothing text)",
    ] {
        server.run(sql);
        server.check();
    }
    server.run("ALTER CLUSTER slow RENAME TO quickstart");
    for ((name, query, printed), columns) in views.into_iter().zip(columns) {
        let name = if name == "v1" { "w1" } else { name };
        assert_eq!(server.columns(&format!("SELECT * FROM {name}")), columns, "{query}");
        if !printed.is_empty() {
            assert_eq!(server.definition(name), format!(" {printed};"));
        }
    }
    assert_eq!(server.definition("m"), " SELECT * FROM (SELECT a, b FROM s2.t2 AS t) AS m (x, y);");
    server.check_definitions();
    server.state = server.reloaded();
    server.check_definitions();
}

#[test]
fn a_view_is_printed_with_the_columns_that_it_sees() {
    let mut server = Server::new();
    server.run("CREATE TABLE t (a int, b int)");
    server.run("CREATE VIEW v AS SELECT a FROM t");
    server.run("CREATE VIEW w AS SELECT * FROM v");
    assert_eq!(server.definition("w"), " SELECT * FROM v;");
    server.run("CREATE OR REPLACE VIEW v AS SELECT a, b AS \"B\" FROM t");
    assert_eq!(server.definition("w"), " SELECT * FROM (SELECT a FROM v) AS v;");
    server.run("CREATE VIEW x AS SELECT * FROM v");
    server.run("ALTER VIEW v RENAME TO \"V 2\"");
    assert_eq!(server.definition("w"), " SELECT * FROM (SELECT a FROM public.\"V 2\") AS v;");
    assert_eq!(server.definition("x"), " SELECT * FROM public.\"V 2\" AS v;");
    server.check_definitions();
}

#[test]
fn an_index_survives_the_renaming_of_its_relation() {
    let mut server = Server::new();
    server.run("CREATE TABLE t (a int, b text)");
    server.run("CREATE INDEX i ON t ((t.a + 1), lower(public.t.b), t.b)");
    server.run("ALTER TABLE t RENAME TO t2");
    let item = server.item("i");
    let sql = definition::create_sql(&server.state, &item).expect("it is an index");
    assert_eq!(sql, "CREATE INDEX i IN CLUSTER quickstart ON materialize.public.t2 ((a + 1), (lower(b)), b)");
    server.run(&sql.replace("INDEX i", "INDEX copy"));
    server.check();
}
