//! tokio-postgres, in this process: without TLS, for which it needs a connector, but with a password.

use tokio_postgres::types::Type;
use tokio_postgres::{NoTls, SimpleQueryMessage};

#[tokio::test]
async fn tokio_postgres_reads_and_writes() {
    let server = crate::server("host all all 127.0.0.1/32 scram-sha-256\n");
    let port = server.addr().port();
    let config = format!("host=127.0.0.1 port={port} user=materialize dbname=materialize password={}", crate::PASSWORD);
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
