//! sqlx: binary everywhere, named statements from a cache, streams, COPY, savepoints as nested transactions, pools.
//!
//! Where the server is, and who asks, is in the environment, as libpq has it. Prints a line per check, and `ok` at the end.

use futures_util::TryStreamExt;
use sqlx::postgres::types::PgInterval;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions, PgRow};
use sqlx::types::chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use sqlx::types::{Decimal, Json, JsonValue, Uuid};
use sqlx::{Column, ConnectOptions, Connection, Decode, Encode, Executor, Postgres, Row, Type, TypeInfo};
use std::fmt::Debug;

type Done = Result<(), sqlx::Error>;

/// A query that would run for ever.
const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b";

fn check<T: PartialEq + Debug>(what: &str, got: T, expected: T) {
    assert_eq!(got, expected, "{what}");
    println!("  {what}");
}

/// The SQLSTATE with which something failed.
fn code<T>(result: Result<T, sqlx::Error>) -> String {
    match result {
        Ok(_) => "it did not fail".to_owned(),
        Err(error) => match error.as_database_error().and_then(|error| error.code()) {
            Some(code) => code.into_owned(),
            None => panic!("no error of the server: {error}"),
        },
    }
}

/// A value comes back as it was sent, and so does none.
async fn value<T>(connection: &mut PgConnection, ty: &str, value: T) -> Done
where
    T: Clone + PartialEq + Debug + Send + Unpin + Type<Postgres>,
    T: for<'q> Encode<'q, Postgres> + for<'r> Decode<'r, Postgres>,
{
    let sql = format!("SELECT $1::{ty}");
    for sent in [Some(value), None] {
        let got: Option<T> = sqlx::query_scalar(&sql).bind(sent.clone()).fetch_one(&mut *connection).await?;
        assert_eq!(got, sent, "{ty}");
    }
    Ok(())
}

async fn types(connection: &mut PgConnection) -> Done {
    value(connection, "bool", true).await?;
    value(connection, "int2", i16::MIN).await?;
    value(connection, "int4", i32::MIN).await?;
    value(connection, "int8", i64::MIN).await?;
    value(connection, "float4", 1.5_f32).await?;
    value(connection, "float8", -2.5e300_f64).await?;
    value(connection, "text", "é, and \\ and '".to_owned()).await?;
    value(connection, "varchar", "some".to_owned()).await?;
    value(connection, "bytea", b"\0\xff'".to_vec()).await?;
    value(connection, "uuid", Uuid::from_u128(0x1234_5678_9abc_def0)).await?;
    value(connection, "numeric", Decimal::new(-1_234_567, 3)).await?;
    value(connection, "jsonb", Json(serde_json::json!({"a": [1, 2.5, null, "x"]}))).await?;
    value(connection, "json", Json(serde_json::json!([true]))).await?;
    let date = NaiveDate::from_ymd_opt(2024, 2, 29).expect("a date");
    let time = NaiveTime::from_hms_micro_opt(23, 59, 59, 999_999).expect("a time");
    value(connection, "date", date).await?;
    value(connection, "time", time).await?;
    value(connection, "timestamp", NaiveDateTime::new(date, time)).await?;
    value::<DateTime<Utc>>(connection, "timestamptz", NaiveDateTime::new(date, time).and_utc()).await?;
    value(connection, "interval", PgInterval { months: 14, days: -3, microseconds: 4_500_000 }).await?;
    value(connection, "int4[]", vec![1, -2, 3]).await?;
    value(connection, "text[]", vec![Some("a".to_owned()), None, Some("b, \"c\"".to_owned())]).await?;
    value(connection, "timestamptz[]", vec![NaiveDateTime::new(date, time).and_utc()]).await?;
    println!("  values of every type");
    let row = connection.fetch_one("SELECT 1::int4 AS one, 'x' AS two, NULL::jsonb AS three").await?;
    let columns: Vec<_> = row.columns().iter().map(|column| (column.name(), column.type_info().name())).collect();
    check("columns", columns, vec![("one", "INT4"), ("two", "TEXT"), ("three", "JSONB")]);
    check("by name", row.try_get::<Option<JsonValue>, _>("three")?, None);
    Ok(())
}

async fn statements(connection: &mut PgConnection) -> Done {
    connection.execute("CREATE TABLE items (id int4 NOT NULL, name text, n numeric(10, 2))").await?;
    for id in 0..200 {
        // One text, which is prepared once, under a name.
        let insert = sqlx::query("INSERT INTO items VALUES ($1, $2, $3)");
        let done =
            insert.bind(id).bind(format!("n{id}")).bind(Decimal::new(id.into(), 2)).execute(&mut *connection).await?;
        assert_eq!(done.rows_affected(), 1);
    }
    check("cached statements", connection.cached_statements_size() > 0, true);
    let by_id = "SELECT name FROM items WHERE id = $1";
    for id in 0..20 {
        let name: String = sqlx::query_scalar(by_id).bind(id).fetch_one(&mut *connection).await?;
        assert_eq!(name, format!("n{id}"));
    }
    connection.execute("CREATE INDEX items_id ON items (id)").await?;
    let name: String = sqlx::query_scalar(by_id).bind(7).fetch_one(&mut *connection).await?;
    check("a cached statement after DDL", name.as_str(), "n7");
    let none: Option<String> = sqlx::query_scalar(by_id).bind(1000).fetch_optional(&mut *connection).await?;
    check("no row", none, None);
    let unnamed = sqlx::query_scalar(by_id).bind(8).persistent(false).fetch_one(&mut *connection).await?;
    check("without a name", unnamed, "n8".to_owned());
    connection.clear_cached_statements().await?;
    check("cleared", connection.cached_statements_size(), 0);
    let many: Vec<i32> = sqlx::query_scalar("SELECT id FROM items WHERE id = ANY($1) ORDER BY id")
        .bind(vec![3, 5, 999])
        .fetch_all(&mut *connection)
        .await?;
    check("a list", many, vec![3, 5]);
    let sql = "INSERT INTO items (id, name) SELECT * FROM unnest($1::int4[], $2::text[]) RETURNING id";
    let ids: Vec<i32> =
        sqlx::query_scalar(sql).bind(vec![500, 501]).bind(vec!["a", "b"]).fetch_all(&mut *connection).await?;
    check("rows from lists", ids, vec![500, 501]);
    let done = sqlx::query("DELETE FROM items WHERE id >= $1").bind(500).execute(&mut *connection).await?;
    check("rows that were deleted", done.rows_affected(), 2);
    let done = sqlx::raw_sql("SELECT 1; SELECT 2; SELECT 'x' AS three").fetch_all(&mut *connection).await?;
    check("several statements", done.len(), 3);
    let row: (i32, Option<String>) =
        sqlx::query_as("SELECT id, name FROM items WHERE id = 3").fetch_one(&mut *connection).await?;
    check("a tuple", row, (3, Some("n3".to_owned())));
    Ok(())
}

async fn streams(connection: &mut PgConnection) -> Done {
    let mut sum = 0;
    {
        let mut rows = sqlx::query("SELECT g::int8 FROM generate_series(1, 5000) g").fetch(&mut *connection);
        while let Some(row) = rows.try_next().await? {
            sum += row.get::<i64, _>(0);
        }
    }
    check("a stream", sum, 5000 * 5001 / 2);
    {
        let mut rows = sqlx::query("SELECT g FROM generate_series(1, 100000) g").fetch(&mut *connection);
        let first: Option<PgRow> = rows.try_next().await?;
        assert!(first.is_some());
    }
    // What is left of a stream that was dropped is read before the next answer.
    let one: i32 = sqlx::query_scalar("SELECT 1").fetch_one(&mut *connection).await?;
    check("after a stream that was left", one, 1);
    Ok(())
}

async fn copying(connection: &mut PgConnection) -> Done {
    let mut copy = connection.copy_in_raw("COPY items (id, name) FROM STDIN").await?;
    for id in 1000..1500 {
        copy.send(format!("{id}\tcopied {id}\n").into_bytes()).await?;
    }
    check("copy in", copy.finish().await?, 500);
    let mut copy = connection.copy_in_raw("COPY items (id) FROM STDIN").await?;
    copy.send(&b"1\nno number\n"[..]).await?;
    check("copy of what is no row", code(copy.finish().await), "22P02".to_owned());
    let copy = connection.copy_in_raw("COPY items (id) FROM STDIN").await?;
    copy.abort("changed my mind").await?;
    let sql = "COPY (SELECT id, name FROM items WHERE id >= 1498 ORDER BY id) TO STDOUT (FORMAT csv)";
    let pieces: Vec<_> = connection.copy_out_raw(sql).await?.try_collect().await?;
    check("copy out", pieces.concat(), b"1498,copied 1498\n1499,copied 1499\n".to_vec());
    connection.execute("DELETE FROM items WHERE id >= 1000").await?;
    Ok(())
}

async fn transactions(connection: &mut PgConnection) -> Done {
    let count = "SELECT count(*) FROM items WHERE id >= 3000";
    let mut outer = connection.begin().await?;
    outer.execute("INSERT INTO items (id) VALUES (3000)").await?;
    let mut inner = outer.begin().await?;
    inner.execute("INSERT INTO items (id) VALUES (3001)").await?;
    check("an error inside", code(inner.execute("SELECT 1/0").await), "22012".to_owned());
    inner.rollback().await?;
    let mut inner = outer.begin().await?;
    inner.execute("INSERT INTO items (id) VALUES (3002)").await?;
    inner.commit().await?;
    outer.commit().await?;
    check("savepoints", sqlx::query_scalar::<_, i64>(count).fetch_one(&mut *connection).await?, 2);
    {
        let mut left = connection.begin().await?;
        left.execute("INSERT INTO items (id) VALUES (3003)").await?;
        // It is rolled back when the connection is used next.
    }
    check("a transaction that was left", sqlx::query_scalar::<_, i64>(count).fetch_one(&mut *connection).await?, 2);
    let mut failed = connection.begin().await?;
    let _ = failed.execute("SELECT 1/0").await;
    check("in a failed transaction", code(failed.execute("SELECT 1").await), "25P02".to_owned());
    failed.rollback().await?;
    Ok(())
}

async fn errors(connection: &mut PgConnection) -> Done {
    for (sql, expected) in [
        ("SELECT * FROM nosuch_table", "42P01"),
        ("SELEC 1", "42601"),
        ("SELECT 1/0", "22012"),
        ("INSERT INTO items (name) VALUES ('x')", "23502"),
    ] {
        check(sql, code(sqlx::query(sql).execute(&mut *connection).await), expected.to_owned());
    }
    connection.execute("CREATE TABLE keyed (id int4 PRIMARY KEY, n int4 CHECK (n > 0))").await?;
    let insert = |id: i32, n: i32| sqlx::query("INSERT INTO keyed VALUES ($1, $2)").bind(id).bind(n);
    insert(1, 1).execute(&mut *connection).await?;
    let error = insert(1, 2).execute(&mut *connection).await.expect_err("the key is taken");
    let error = error.as_database_error().expect("an error of the server");
    check(
        "a duplicate",
        (error.is_unique_violation(), error.constraint(), error.table()),
        (true, Some("keyed_pkey"), Some("keyed")),
    );
    let error = insert(2, -1).execute(&mut *connection).await.expect_err("the check fails");
    check("a check", error.as_database_error().is_some_and(|error| error.is_check_violation()), true);
    connection.execute("SET statement_timeout = '200ms'").await?;
    check("a timeout", code(connection.execute(ENDLESS).await), "57014".to_owned());
    connection.execute("RESET statement_timeout").await?;
    connection.ping().await
}

async fn pools(options: PgConnectOptions) -> Done {
    let pool = PgPoolOptions::new().max_connections(4).connect_with(options).await?;
    let tasks: Vec<_> = (0..16_i64)
        .map(|n| {
            let pool = pool.clone();
            tokio::spawn(
                async move { sqlx::query_scalar::<_, i64>("SELECT $1::int8 * 2").bind(n).fetch_one(&pool).await },
            )
        })
        .collect();
    let mut sum = 0;
    for task in tasks {
        sum += task.await.expect("the task ends")?;
    }
    check("a pool", sum, 240);
    pool.close().await;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done {
    let options = PgConnectOptions::new().application_name("sqlx");
    let mut connection = options.connect().await?;
    types(&mut connection).await?;
    statements(&mut connection).await?;
    streams(&mut connection).await?;
    copying(&mut connection).await?;
    transactions(&mut connection).await?;
    errors(&mut connection).await?;
    connection.execute("DROP TABLE items, keyed").await?;
    connection.close().await?;
    pools(options).await?;
    println!("ok");
    Ok(())
}
