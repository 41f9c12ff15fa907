//! Real clients: tokio-postgres here; psycopg, lib/pq, psql and pgbench as programs.
//!
//! Each makes a table, inserts, selects, updates, deletes, with parameters, transactions and errors. A program that
//! this machine lacks is named on one line that starts with `SKIPPED`, which `bin/test` counts; `bin/test` installs
//! what it may beforehand.

use std::process::Command;

use glimpse_test::programs::{self, client, program, run};
use glimpse_test::target::Target;
use tokio_postgres::types::Type;
use tokio_postgres::{NoTls, SimpleQueryMessage};

fn start() -> Target {
    Target::start().expect("the server starts")
}

#[tokio::test]
async fn tokio_postgres_reads_and_writes() {
    let target = start();
    let config = format!("host=127.0.0.1 port={} user=materialize dbname=materialize", target.addr().port());
    let (mut client, connection) = tokio_postgres::connect(&config, NoTls).await.expect("it connects");
    let task = tokio::spawn(connection);
    client
        .batch_execute(
            "CREATE TABLE rs (id int4 NOT NULL, name text, n int8, f float8, ok bool, raw bytea, tags text[])",
        )
        .await
        .expect("the table is made");
    let insert = client.prepare("INSERT INTO rs VALUES ($1, $2, $3, $4, $5, $6, $7)").await.expect("it is prepared");
    assert_eq!(
        insert.params(),
        [Type::INT4, Type::TEXT, Type::INT8, Type::FLOAT8, Type::BOOL, Type::BYTEA, Type::TEXT_ARRAY]
    );
    let tags = vec![Some("a"), None, Some("b c")];
    let inserted =
        client.execute(&insert, &[&1_i32, &"one", &(1_i64 << 40), &1.5_f64, &true, &&b"\0\xff"[..], &tags]).await;
    assert_eq!(inserted.expect("the row is stored"), 1);
    let none: Option<i64> = None;
    for id in 2..=5_i32 {
        let name = format!("n{id}");
        client
            .execute("INSERT INTO rs (id, name, n) VALUES ($1, $2, $3)", &[&id, &name, &none])
            .await
            .expect("the row is stored");
    }
    let row = client.query_one("SELECT * FROM rs WHERE id = $1", &[&1_i32]).await.expect("one row");
    assert_eq!(row.get::<_, &str>("name"), "one");
    assert_eq!((row.get::<_, i64>(2), row.get::<_, f64>(3), row.get::<_, bool>(4)), (1 << 40, 1.5, true));
    assert_eq!(row.get::<_, &[u8]>(5), b"\0\xff");
    assert_eq!(row.get::<_, Vec<Option<String>>>(6), [Some("a".to_owned()), None, Some("b c".to_owned())]);
    let rows =
        client.query("SELECT id FROM rs WHERE id = ANY($1) ORDER BY id", &[&vec![2_i32, 4, 99]]).await.expect("rows");
    assert_eq!(rows.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [2, 4]);
    assert_eq!(client.execute("UPDATE rs SET name = $1 WHERE id > $2", &[&"new", &3_i32]).await.expect("updated"), 2);
    assert_eq!(client.execute("DELETE FROM rs WHERE name = $1", &[&"new"]).await.expect("deleted"), 2);
    check_transactions_and_errors(&mut client).await;
    client.batch_execute("DROP TABLE rs").await.expect("the table goes");
    drop(client);
    task.await.expect("the task ends").expect("the connection ends cleanly");
}

async fn check_transactions_and_errors(client: &mut tokio_postgres::Client) {
    for commit in [false, true] {
        let transaction = client.transaction().await.expect("it begins");
        transaction.execute("INSERT INTO rs (id) VALUES ($1)", &[&100_i32]).await.expect("the row is stored");
        transaction.execute("INSERT INTO rs (id) VALUES ($1)", &[&101_i32]).await.expect("the row is stored");
        match commit {
            true => transaction.commit().await.expect("it commits"),
            false => transaction.rollback().await.expect("it rolls back"),
        }
        let count = client.query_one("SELECT count(*) FROM rs WHERE id >= 100", &[]).await.expect("the count");
        assert_eq!(count.get::<_, i64>(0), if commit { 2 } else { 0 });
    }
    for (sql, code) in [
        ("SELECT * FROM nosuch_table", "42P01"),
        ("SELECT 1/0", "22012"),
        ("INSERT INTO rs (name) VALUES ('x')", "23502"),
    ] {
        let error = client.query(sql, &[]).await.expect_err("it fails");
        assert_eq!(error.code().expect("a database error").code(), code, "{sql}");
    }
    // Pipelined requests on one connection.
    let answers = [1_i32, 2, 3].map(|n| {
        let client = &*client;
        async move { client.query_one("SELECT $1::int4 * 2", &[&n]).await.map(|row| row.get::<_, i32>(0)) }
    });
    let [a, b, c] = answers;
    let (a, b, c) = tokio::join!(a, b, c);
    assert_eq!((a.expect("a row"), b.expect("a row"), c.expect("a row")), (2, 4, 6));
    let messages = client.simple_query("SELECT 1 AS one; SELECT 'x' AS two").await.expect("two results");
    let rows = messages.iter().filter(|message| matches!(message, SimpleQueryMessage::Row(_))).count();
    assert_eq!(rows, 2);
}

#[test]
fn psycopg_3() {
    python("psycopg");
}

#[test]
fn psycopg_2() {
    python("psycopg2");
}

fn python(module: &str) {
    let Some(python) = programs::python(module) else { return };
    let target = start();
    let script = glimpse_test::manifest_dir().join("drivers/psycopg_test.py");
    let said = run(client(&python, &target).arg(script).arg(module));
    assert!(said.trim_end().ends_with("ok"), "{said}");
}

#[test]
fn lib_pq() {
    let Some(go) = program("go", "GLIMPSE_GO") else { return };
    let directory = glimpse_test::manifest_dir().join("drivers/libpq");
    let fetched = Command::new(&go).current_dir(&directory).args(["mod", "download"]).output();
    if !fetched.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: lib/pq could not be downloaded");
        return;
    }
    let target = start();
    run(client(&go, &target).current_dir(&directory).args(["test", "-count=1", "./..."]));
}

#[test]
fn psql_meta_commands() {
    let Some(psql) = program("psql", "GLIMPSE_PSQL") else { return };
    let target = start();
    let ask = |arguments: &[&str]| {
        let mut command = client(&psql, &target);
        command.args(["-X", "-v", "ON_ERROR_STOP=1"]);
        for argument in arguments {
            command.args(["-c", argument]);
        }
        run(&mut command)
    };
    ask(&["CREATE TABLE things (id int4 NOT NULL, name text DEFAULT 'x', price numeric(10,2), at timestamptz)"]);
    ask(&["CREATE INDEX things_id ON things (id)", "CREATE VIEW cheap AS SELECT id FROM things WHERE price < 10"]);
    let said = ask(&["\\d"]);
    assert!(said.contains("things") && said.contains("cheap") && said.contains("view"), "{said}");
    let said = ask(&["\\dt"]);
    assert!(said.contains("things") && !said.contains("cheap"), "{said}");
    let said = ask(&["\\d things"]);
    for part in [
        "id",
        "integer",
        "not null",
        "name",
        "text",
        "'x'",
        "price",
        "numeric(10,2)",
        "timestamp with time zone",
        "things_id",
    ] {
        assert!(said.contains(part), "\\d things has no {part}:\n{said}");
    }
    let said = ask(&["\\d cheap"]);
    assert!(said.contains("id") && said.contains("integer"), "{said}");
    for command in ["\\dv", "\\di", "\\dt+", "\\df nosuch", "\\dT nosuch", "\\dx", "\\dp"] {
        ask(&[command]);
    }
    assert!(ask(&["\\dv"]).contains("cheap"));
    assert!(ask(&["\\di"]).contains("things_id"));
    assert!(ask(&["\\l"]).contains("materialize"));
    assert!(ask(&["\\dn"]).contains("public"));
    let said = ask(&["\\du"]);
    assert!(said.contains("materialize") && said.contains("mz_system"), "{said}");
    assert!(ask(&["\\timing on", "SELECT 1"]).contains("Time:"));
    assert!(ask(&["\\conninfo"]).contains("materialize"));
    let said = ask(&["\\x", "SELECT 1 AS one"]);
    assert!(said.contains("one | 1"), "{said}");
    ask(&["INSERT INTO things VALUES (1, 'a', 1.50, NULL), (2, NULL, 20, '2024-01-01 00:00:00+00')"]);
    assert_eq!(ask(&["\\copy (SELECT id, name FROM things ORDER BY id) TO STDOUT"]), "1\ta\n2\t\\N\n");
    let script = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(script.path(), "SELECT id, name FROM things WHERE id = 1 \\gdesc\n").expect("written");
    let said = run(client(&psql, &target).args(["-X", "-f"]).arg(script.path()));
    assert!(said.contains("integer") && said.contains("text"), "{said}");
    ask(&["DROP VIEW cheap", "DROP TABLE things"]);
}

#[test]
fn pgbench_in_all_modes() {
    let Some(pgbench) = program("pgbench", "GLIMPSE_PGBENCH") else { return };
    let target = start();
    let mut wire = target.wire().expect("a session starts");
    wire.execute("CREATE TABLE bench (id int4, n int8)").expect("the table is made");
    wire.execute("CREATE INDEX bench_id ON bench (id)").expect("the index is made");
    wire.execute("INSERT INTO bench SELECT g, 0 FROM generate_series(1, 100) g(g)").expect("the rows are stored");
    let directory = tempfile::tempdir().expect("a directory");
    let point = directory.path().join("point.sql");
    std::fs::write(&point, "\\set id random(1, 100)\nSELECT n FROM bench WHERE id = :id;\n").expect("written");
    let mixed = directory.path().join("mixed.sql");
    let script = "\\set id random(1, 100)\nINSERT INTO bench VALUES (:id + 1000, 1);\nSELECT count(*) FROM bench WHERE id = :id + 1000;\n";
    std::fs::write(&mixed, script).expect("written");
    for mode in ["simple", "extended", "prepared"] {
        for script in [&point, &mixed] {
            let mut command = client(&pgbench, &target);
            command.args(["-n", "-M", mode, "-c", "4", "-j", "2", "-t", "25", "-f"]).arg(script);
            let said = run(&mut command);
            assert!(said.contains("number of transactions actually processed: 100/100"), "{mode}: {said}");
        }
    }
    let rows = wire.rows("SELECT count(*) FROM bench WHERE id > 1000").expect("the count");
    assert_eq!(rows[0][0].as_deref(), Some("300"));
}
