//! tokio-postgres, in this process: with its connector for rustls, and a password that is bound to the channel.

use std::fmt::Debug;
use std::pin::pin;

use bytes::Bytes;
use chrono::{NaiveDate, NaiveTime};
use futures::{SinkExt, TryStreamExt};
use glimpse_test::secured::client_config;
use tokio_postgres::config::{ChannelBinding, SslMode};
use tokio_postgres::types::{FromSql, ToSql, Type};
use tokio_postgres::{Config, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

#[tokio::test]
async fn tokio_postgres_reads_and_writes() {
    let server = crate::server(crate::RULES);
    let port = server.addr().port();
    let config = format!("host=localhost port={port} user=materialize dbname=materialize password={}", crate::PASSWORD);
    let mut config: Config = config.parse().expect("a configuration");
    config.ssl_mode(SslMode::Require).channel_binding(ChannelBinding::Require);
    let tls = MakeRustlsConnect::new(client_config().expect("the certificate is read"));
    let (mut client, connection) = config.connect(tls.clone()).await.expect("it connects");
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
    check_types(&client).await;
    check_transactions_and_errors(&mut client).await;
    check_portals_and_copy(&mut client).await;
    check_cancel(&client, tls).await;
    client.batch_execute("DROP TABLE rs").await.expect("the table goes");
    drop(client);
    task.await.expect("the task ends").expect("the connection ends cleanly");
}

/// A value of a type, and arrays of it, there and back.
async fn check_type<T>(client: &tokio_postgres::Client, ty: &str, value: T)
where
    T: ToSql + for<'a> FromSql<'a> + PartialEq + Debug + Sync + Clone,
{
    let sql = format!("SELECT $1::{ty}, $2::{ty}[], $3::{ty}, pg_typeof($1)::text");
    let values = vec![Some(value.clone()), None];
    let row = client.query_one(&sql, &[&value, &values, &None::<T>]).await.expect("one row");
    assert_eq!(row.get::<_, T>(0), value, "{ty}");
    assert_eq!(row.get::<_, Vec<Option<T>>>(1), values, "{ty}");
    assert_eq!(row.get::<_, Option<T>>(2), None, "{ty}");
    assert_eq!(row.get::<_, &str>(3), ty);
}

async fn check_types(client: &tokio_postgres::Client) {
    let date = NaiveDate::from_ymd_opt(1999, 12, 31).expect("a date");
    let time = NaiveTime::from_hms_micro_opt(23, 59, 58, 123_456).expect("a time");
    let json: serde_json::Value = serde_json::from_str(r#"{"a": [1, null, "x"]}"#).expect("json");
    check_type(client, "boolean", true).await;
    check_type(client, "smallint", i16::MIN).await;
    check_type(client, "integer", i32::MAX).await;
    check_type(client, "bigint", i64::MIN).await;
    check_type(client, "real", 1.5e-7_f32).await;
    check_type(client, "double precision", f64::NEG_INFINITY).await;
    check_type(client, "oid", u32::MAX).await;
    check_type(client, "text", "naïve \u{1F600}".to_owned()).await;
    check_type(client, "character varying", String::new()).await;
    check_type(client, "bytea", vec![0_u8, 255, b'\\']).await;
    check_type(client, "date", date).await;
    check_type(client, "time without time zone", time).await;
    check_type(client, "timestamp without time zone", date.and_time(time)).await;
    check_type(client, "timestamp with time zone", date.and_time(time).and_utc()).await;
    check_type(client, "uuid", uuid::Uuid::from_u128(0xa0ee_bc99_9c0b_4ef8_bb6d_6bb9_bd38_0a11)).await;
    check_type(client, "json", json.clone()).await;
    check_type(client, "jsonb", json).await;
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

/// Rows a few at a time, and COPY both ways.
async fn check_portals_and_copy(client: &mut tokio_postgres::Client) {
    client.batch_execute("CREATE TABLE copied (id int4, name text)").await.expect("the table is made");
    let sink = client.copy_in::<_, Bytes>("COPY copied FROM STDIN (FORMAT csv)").await.expect("it begins");
    let mut sink = pin!(sink);
    for chunk in ["1,on", "e\n2,\n", "3,\"a \"\"b\"\"\"\n"] {
        sink.send(Bytes::from(chunk)).await.expect("it is taken");
    }
    assert_eq!(sink.finish().await.expect("it is stored"), 3);
    let stream = client.copy_out("COPY (SELECT * FROM copied ORDER BY id) TO STDOUT").await.expect("it begins");
    let chunks: Vec<Bytes> = stream.try_collect().await.expect("it ends");
    assert_eq!(chunks.concat(), b"1\tone\n2\t\\N\n3\ta \"b\"\n");
    let transaction = client.transaction().await.expect("it begins");
    let portal = transaction.bind("SELECT id FROM copied ORDER BY id", &[]).await.expect("it is bound");
    for expected in [&[1, 2][..], &[3], &[]] {
        let rows = transaction.query_portal(&portal, 2).await.expect("rows");
        assert_eq!(rows.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), expected);
    }
    transaction.commit().await.expect("it commits");
}

/// A query that would not end is cancelled over a connection with TLS of its own.
async fn check_cancel(client: &tokio_postgres::Client, tls: MakeRustlsConnect) {
    let token = client.cancel_token();
    let endless =
        client.simple_query("SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b");
    let mut endless = pin!(endless);
    let error = loop {
        // The request may overtake its query, and then ends nothing.
        tokio::select! {
            answer = &mut endless => break answer.expect_err("it was cancelled"),
            () = tokio::time::sleep(std::time::Duration::from_millis(200)) => {
                token.cancel_query(tls.clone()).await.expect("the request is sent");
            }
        }
    };
    assert_eq!(error.code().expect("a database error").code(), "57014");
}
