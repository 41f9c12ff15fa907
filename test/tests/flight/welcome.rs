//! Who is let in, and as whom.

use crate::{Client, admin, connect, failed, number, query};
use arrow::array::AsArray;
use arrow_flight::error::FlightError;
use arrow_flight::sql::EndTransaction;
use base64::prelude::{BASE64_STANDARD, Engine};
use glimpse_test::server::Server;
use glimpse_test::tokens::signed;
use serde_json::json;
use tonic::Code;

/// A server with this rule for everybody who is not of the system.
fn guarded(dir: &tempfile::TempDir, flags: &[&str]) -> Server {
    let rules = dir.path().join("rules");
    std::fs::write(&rules, "host all joe,ann 127.0.0.0/8 scram-sha-256\nhost all eve 127.0.0.0/8 trust\n")
        .expect("a file");
    let rules = ["--hba-file", rules.to_str().expect("a path")];
    let server = Server::start_with(&[&rules[..], flags].concat()).expect("the server starts");
    let mut own = admin(&server);
    for role in ["joe LOGIN PASSWORD 'pass'", "ann LOGIN PASSWORD 'word'", "eve LOGIN"] {
        own.execute(&format!("CREATE ROLE {role}")).expect("it is made");
    }
    server
}

const SECRET: &str = "a secret of at least thirty-two bytes";

/// The same, which takes tokens that are signed with this secret.
fn trusting(dir: &tempfile::TempDir) -> Server {
    let secret = dir.path().join("secret");
    std::fs::write(&secret, SECRET).expect("a file");
    guarded(dir, &["--jwt-secret-file", secret.to_str().expect("a path")])
}

async fn user(client: &mut Client) -> Result<String, FlightError> {
    let found = query(client, "SELECT current_user::text").await?;
    Ok(found.column(0).as_string::<i32>().value(0).to_owned())
}

fn basic(client: &mut Client, text: &str) {
    client.set_header("authorization", format!("Basic {}", BASE64_STANDARD.encode(text)));
}

#[tokio::test]
async fn a_password_is_shown_once_and_then_a_token() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = guarded(&dir, &[]);
    let mut client = connect(&server).await;
    assert_eq!(failed(user(&mut client).await).1, "28000", "materialize has no rule");
    assert!(client.handshake("joe", "wrong").await.is_err());
    client.handshake("joe", "pass").await.expect("a token");
    assert_eq!(user(&mut client).await.expect("a name"), "joe");
    // The token is good on another connection, as long as the password is what it was.
    let mut other = connect(&server).await;
    other.set_token(client.token().expect("it has one").clone());
    assert_eq!(user(&mut other).await.expect("a name"), "joe");
    let token = client.token().expect("it has one").clone();
    for wrong in
        [format!("{token}x"), token.replace(".am9l.", ".YW5u."), "glimpse.am9l.1.x".to_owned(), "x.y.z".to_owned()]
    {
        other.set_token(wrong.clone());
        assert_eq!(failed(user(&mut other).await), (Code::Unauthenticated, "28P01".to_owned()), "{wrong}");
    }
    admin(&server).execute("ALTER ROLE joe PASSWORD 'other'").expect("it is changed");
    assert_eq!(failed(user(&mut client).await), (Code::Unauthenticated, "28P01".to_owned()));
    // Who is trusted gets one as well, which says no more than the name.
    let mut trusted = connect(&server).await;
    trusted.handshake("eve", "anything").await.expect("a token");
    assert_eq!(user(&mut trusted).await.expect("a name"), "eve");
    // With each call.
    let mut each = connect(&server).await;
    for (shown, name) in
        [("ann:word", Some("ann")), ("ann:pass", None), ("eve:", Some("eve")), ("joe:", None), ("nobody:x", None)]
    {
        basic(&mut each, shown);
        match name {
            Some(name) => assert_eq!(user(&mut each).await.expect("a name"), name),
            None => assert!(user(&mut each).await.is_err(), "{shown}"),
        }
    }
}

#[tokio::test]
async fn a_token_of_somebody_else_is_a_role() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = trusting(&dir);
    let mut own = admin(&server);
    let mut token = |secret: &str, claims| signed(&mut own, secret, &claims);
    let mut client = connect(&server).await;
    client.set_token(token(SECRET, json!({ "sub": "joe", "exp": 4_102_444_800_u64 })));
    assert_eq!(user(&mut client).await.expect("a name"), "joe");
    // By another, expired, of nobody whom a rule lets in, without a signature.
    for (wrong, code) in [
        (token(&SECRET.to_uppercase(), json!({ "sub": "joe", "exp": 4_102_444_800_u64 })), Code::Unauthenticated),
        (token(SECRET, json!({ "sub": "joe", "exp": 1_000_000_000 })), Code::Unauthenticated),
        (token(SECRET, json!({ "sub": "materialize", "exp": 4_102_444_800_u64 })), Code::PermissionDenied),
        ("eyJhbGciOiJub25lIn0.eyJzdWIiOiJqb2UiLCJleHAiOjQxMDI0NDQ4MDB9.".to_owned(), Code::Unauthenticated),
    ] {
        client.set_token(wrong);
        assert_eq!(failed(user(&mut client).await).0, code);
    }
}

#[tokio::test]
async fn a_transaction_is_its_roles() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = guarded(&dir, &[]);
    let mut client = connect(&server).await;
    basic(&mut client, "joe:pass");
    let transaction = client.begin_transaction().await.expect("it begins");
    basic(&mut client, "ann:word");
    assert_eq!(failed(client.execute_update("SELECT 1".to_owned(), Some(transaction.clone())).await).1, "25000");
    basic(&mut client, "joe:pass");
    client.end_transaction(transaction, EndTransaction::Commit).await.expect("it ends");
}

#[tokio::test]
async fn a_session_is_where_the_headers_say() {
    let server = crate::start();
    let mut client = connect(&server).await;
    admin(&server).execute("CREATE DATABASE other").expect("it is made");
    client.set_header("database", "other");
    client.set_header("options", "{\"application_name\": \"a test\", \"statement_timeout\": \"50ms\"}");
    let found =
        query(&mut client, "SELECT current_database()::text || ' ' || current_setting('application_name')").await;
    assert_eq!(found.expect("rows").column(0).as_string::<i32>().value(0), "other a test");
    let endless = "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b";
    assert_eq!(failed(query(&mut client, endless).await), (Code::Cancelled, "57014".to_owned()));
    for (name, value) in
        [("options", "[]"), ("options", "{\"nobody\": 1}"), ("database", "nobody"), ("glimpse-message-bytes-max", "x")]
    {
        let mut client = connect(&server).await;
        client.set_header(name, value);
        assert!(query(&mut client, "SELECT 1").await.is_err(), "{name} {value}");
    }
    let mut page = connect(&server).await;
    page.set_header("origin", "https://example.com");
    assert_eq!(failed(query(&mut page, "SELECT 1").await).0, Code::PermissionDenied);
}

/// Two of one role, by what their tokens say: each sees its rows, and neither goes on with what the other has begun.
#[tokio::test]
async fn claims_say_what_somebody_sees() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = trusting(&dir);
    let mut own = admin(&server);
    let model = "cubes:
  - name: c
    sql_table: raw.t
    dimensions: [{name: tenant, sql: tenant, type: string}]
    measures: [{name: n, type: count}]
    access_policy:
      - {group: '*', row_level: {filters: [{member: tenant, operator: equals, values: ['{ security_context.tenant }']}]}}
";
    own.execute("CREATE SCHEMA raw; CREATE TABLE raw.t (tenant text); INSERT INTO raw.t VALUES ('a'), ('a'), ('b')")
        .expect("rows");
    own.execute(&format!("CREATE SEMANTIC MODEL m AS $${model}$$")).expect("a model");
    own.execute("GRANT SELECT ON c TO joe").expect("it is granted");
    let mut token =
        |tenant: &str| signed(&mut own, SECRET, &json!({ "sub": "joe", "tenant": tenant, "exp": 4_102_444_800_u64 }));
    let tokens = [token("a"), token("b")];
    // Over one connection, in turns.
    let mut client = connect(&server).await;
    for _ in 0..2 {
        for (token, count) in tokens.iter().zip([2, 1]) {
            client.set_token(token.clone());
            assert_eq!(number(&mut client, "SELECT MEASURE(n) FROM c").await, count);
        }
    }
    client.set_token(tokens[0].clone());
    let begun = client.begin_transaction().await.expect("a transaction");
    client.execute("SELECT MEASURE(n) FROM c".to_owned(), Some(begun.clone())).await.expect("its own");
    client.set_token(tokens[1].clone());
    let other = client.execute("SELECT MEASURE(n) FROM c".to_owned(), Some(begun)).await;
    assert!(other.is_err(), "it is somebody else's");
}
