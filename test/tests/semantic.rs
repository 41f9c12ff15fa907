//! Semantic models, from outside.

use glimpse_test::http::Http;
use glimpse_test::server::{Server, find_binary};
use glimpse_test::wire::Wire;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// What `--check-model` of a directory says, and its exit code.
fn check(dir: &Path) -> (String, i32) {
    let binary = find_binary().expect("the server is built");
    let at = TempDir::new().expect("a directory");
    let output = Command::new(binary).current_dir(at.path()).arg("--check-model").arg(dir).output().expect("it runs");
    // No server was started.
    assert_eq!(std::fs::read_dir(at.path()).expect("it is there").count(), 0);
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).expect("UTF-8"), output.status.code().expect("it ends by itself"))
}

fn directory(files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::new().expect("a directory");
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("it is made");
        std::fs::write(path, text).expect("it is written");
    }
    dir
}

const CUBE: &str = "cubes:\n  - name: c\n    sql_table: t\n    refresh_key: {every: 1 hour}\n";

#[test]
fn a_directory_is_checked_without_a_server() {
    let right = directory(&[
        ("cubes/c.yml", CUBE),
        ("views/v.yaml", "views: [{name: v, cubes: [{join_path: c, includes: \"*\"}]}]\n"),
        (".git/x.yml", "{"),
        ("notes.txt", "{{"),
    ]);
    // A link that leads back.
    std::os::unix::fs::symlink(right.path(), right.path().join("cubes/again")).expect("a link");
    let said = "notice: cubes/c.yml:4:18: `refresh_key` has no effect: answers are always fresh\nnothing is wrong; cubes: 1, views: 1\n";
    assert_eq!(check(right.path()), (said.to_owned(), 0));

    let wrong = directory(&[
        ("c.yml", CUBE),
        ("d.yml", "cubes:\n  - name: d\n    sql_tabel: t\n    measures: [{name: n, type: cuont}]\n"),
    ]);
    let (said, code) = check(wrong.path());
    let errors = [
        "error: d.yml:2:5: a cube has `sql_table` or `sql`, and here is neither\n",
        "error: d.yml:3:5: unknown key of cube `d` `sql_tabel` (did you mean `sql_table`?)\n",
        "error: d.yml:4:32: unknown `type` of measure `n` `cuont` (did you mean `count`?)\nerrors: 3\n",
    ];
    assert!(said.contains(&errors.concat()), "{said}");
    assert_eq!(code, 1);

    let (said, code) = check(directory(&[("notes.txt", "")]).path());
    assert!(said.contains("there is no cube and no view in"), "{said}");
    assert_eq!(code, 1);
    let (said, code) = check(&right.path().join("missing"));
    assert!(said.contains("cannot read directory"), "{said}");
    assert_eq!(code, 1);
}

/// What `/readyz` says.
fn readiness(server: &Server) -> serde_json::Value {
    let mut http = Http::connect(server.http_addr()).expect("a connection");
    http.ask("GET", "/readyz", &[], b"").expect("an answer").json().expect("JSON")
}

/// Asks until an answer is this; whatever comes until then.
fn eventually<T: PartialEq + std::fmt::Debug>(what: &str, expected: &T, mut ask: impl FnMut() -> T) {
    let start = std::time::Instant::now();
    loop {
        let found = ask();
        if found == *expected {
            return;
        }
        assert!(start.elapsed().as_secs() < 60, "{what}: {found:?}, not {expected:?}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

const ORDERS: &str = "cubes:
  - name: orders
    sql_table: orders
    dimensions: [{name: city, sql: city, type: string}]
    measures: [{name: count, type: count}]
";

#[test]
fn a_directory_is_the_model_of_a_server() {
    let dir = directory(&[("cubes/orders.yml", ORDERS)]);
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("it is written");
    let path = dir.path().to_str().expect("a path").to_owned();
    let mut server = Server::start_with(&["--model-dir", &path]).expect("a server");
    let session = |server: &Server| Wire::start(server.sql_addr(), "materialize", "materialize").expect("a session");
    // Its tables are not there yet: that is said, and the server is ready.
    eventually("readyz", &true, || readiness(&server)["model"].as_str().is_some_and(|why| why.contains("\"orders\"")));
    let mut wire = session(&server);
    wire.execute(
        "CREATE TABLE orders (id int, city text); INSERT INTO orders VALUES (1, 'Bern'), (2, 'Bern'), (3, 'Zug')",
    )
    .expect("a table");
    eventually("the model", &serde_json::json!({"health": "HEALTH"}), || readiness(&server));
    // A table of that name comes first in SQL, and a cube where only cubes are asked for; in a CTE's presence as well.
    let count = |wire: &mut Wire, sql: &str| {
        wire.rows(sql).map(|rows| rows[0][0].clone().unwrap_or_default()).unwrap_or_else(|error| error.to_string())
    };
    assert_eq!(count(&mut wire, "SELECT count(city) FROM orders"), "3");
    assert_eq!(count(&mut wire, "SELECT MEASURE(count) FROM cubes.orders WHERE city = 'Bern'"), "2");
    let json = "WITH orders AS (SELECT 1) SELECT * FROM cube_load('{\"measures\": [\"orders.count\"]}')";
    assert_eq!(count(&mut wire, json), "3");
    wire.execute("CREATE VIEW v AS SELECT \"orders.count\" AS n FROM cube_load('{\"measures\": [\"orders.count\"]}')")
        .expect("a view");
    let cubes = |server: &Server| {
        let mut http = Http::connect(server.http_addr()).expect("a connection");
        let meta = http.ask("GET", "/cubejs-api/v1/meta", &[], b"").expect("an answer").json().expect("JSON");
        let names = meta["cubes"].as_array().expect("cubes").iter();
        names.map(|cube| cube["name"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(cubes(&server), ["orders"]);
    // While a view stands on it, it does not change; what is wrong is said, and what was there stays.
    write(
        "cubes/orders.yml",
        &ORDERS.replace(
            "[{name: count, type: count}]",
            "[{name: count, type: count}, {name: cities, sql: city, type: count_distinct}]",
        ),
    );
    eventually("a refusal", &true, || {
        readiness(&server)["model"].as_str().is_some_and(|why| why.contains("view v depends on cube orders"))
    });
    wire.execute("DROP VIEW v").expect("it is dropped");
    eventually("a change", &"2".to_owned(), || count(&mut wire, "SELECT MEASURE(cities) FROM cubes.orders"));
    write("cubes/more.yml", "cubes: [{name: more, sql_tabel: orders}]\n");
    eventually("a mistake", &true, || {
        readiness(&server)["model"].as_str().is_some_and(|why| why.contains("did you mean `sql_table`?"))
    });
    assert_eq!(count(&mut wire, "SELECT MEASURE(cities) FROM cubes.orders"), "2");
    write("cubes/more.yml", "cubes: [{name: more, sql_table: orders, measures: [{name: n, type: count}]}]\n");
    eventually("another cube", &vec!["orders".to_owned(), "more".to_owned()], || cubes(&server));
    // Nobody else changes it, and what is granted stays.
    for sql in [
        "DROP SEMANTIC MODEL cubes.model_dir",
        "ALTER SEMANTIC MODEL cubes.model_dir AS $$cubes: []$$",
        "CREATE VIEW cubes.v AS SELECT 1",
    ] {
        let refused = wire.execute(sql).expect_err(sql).to_string();
        assert!(refused.contains("42501"), "{sql}: {refused}");
    }
    let mut admin = Wire::start(server.internal_sql_addr(), "mz_system", "materialize").expect("a session");
    admin.execute("REVOKE SELECT ON cubes.more FROM PUBLIC").expect("it is revoked");
    server.kill9().expect("it is killed");
    server.restart().expect("it starts");
    let mut wire = session(&server);
    assert_eq!(count(&mut wire, "SELECT MEASURE(cities) FROM cubes.orders"), "2");
    std::fs::remove_file(dir.path().join("cubes/orders.yml")).expect("it is removed");
    eventually("no cube", &true, || count(&mut wire, "SELECT MEASURE(cities) FROM cubes.orders").contains("42P01"));
    assert!(count(&mut wire, "SELECT MEASURE(n) FROM cubes.more").contains("42501"));
}
