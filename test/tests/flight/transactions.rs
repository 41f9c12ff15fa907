//! Transactions: what is done in one is seen by others when it is committed, and by nobody if it is not.

use crate::{admin, connect, failed, number, query, rows, start};
use arrow_flight::Action;
use arrow_flight::sql::{
    ActionBeginSavepointRequest, ActionBeginSavepointResult, ActionEndSavepointRequest, Any, EndTransaction,
    ProstMessageExt,
};
use bytes::Bytes;
use futures::TryStreamExt;
use glimpse_test::server::Server;
use prost::Message;
use std::time::Duration;
use tonic::Code;

use crate::Client;

const RELEASE: i32 = 1;
const ROLLBACK: i32 = 2;

/// A client of a server that has a table of these columns.
async fn with_table(columns: &str) -> (Server, Client) {
    let server = start();
    let mut client = connect(&server).await;
    client.execute_update(format!("CREATE TABLE t ({columns})"), None).await.expect("it is made");
    (server, client)
}

async fn act(
    client: &mut Client,
    action: &str,
    body: Vec<u8>,
) -> Result<Option<Any>, arrow_flight::error::FlightError> {
    let answers = client.inner_mut().do_action(Action::new(action, body)).await?.into_inner();
    let answers: Vec<_> = answers.try_collect().await?;
    Ok(answers.into_iter().next().map(|answer| Any::decode(answer.body).expect("a message")))
}

async fn savepoint(client: &mut Client, transaction: &Bytes, name: &str) -> Bytes {
    let asked = ActionBeginSavepointRequest { transaction_id: transaction.clone(), name: name.to_owned() };
    let answer = act(client, "BeginSavepoint", asked.as_any().encode_to_vec()).await.expect("it is set");
    let answer = answer.expect("an answer").unpack::<ActionBeginSavepointResult>().expect("it is one");
    answer.expect("it is one").savepoint_id
}

async fn end(client: &mut Client, savepoint: &Bytes, action: i32) -> Result<(), arrow_flight::error::FlightError> {
    let asked = ActionEndSavepointRequest { savepoint_id: savepoint.clone(), action };
    act(client, "EndSavepoint", asked.as_any().encode_to_vec()).await.map(drop)
}

#[tokio::test]
async fn a_transaction_is_all_or_nothing() {
    let (_server, mut client) = with_table("a int").await;
    for (how, count) in [(EndTransaction::Rollback, 0), (EndTransaction::Commit, 2)] {
        let transaction = client.begin_transaction().await.expect("it begins");
        for value in [1, 2] {
            let text = format!("INSERT INTO t VALUES ({value})");
            assert_eq!(client.execute_update(text, Some(transaction.clone())).await.expect("a row"), 1);
        }
        // It sees what it has written, and nobody else does.
        let info = client.execute("SELECT a FROM t".to_owned(), Some(transaction.clone())).await.expect("it is told");
        assert_eq!(rows(&mut client, info).await.expect("rows").num_rows(), 2);
        let mut prepared =
            client.prepare("SELECT a FROM t".to_owned(), Some(transaction.clone())).await.expect("it is");
        let info = prepared.execute().await.expect("it is told");
        assert_eq!(rows(&mut client, info).await.expect("rows").num_rows(), 2);
        assert_eq!(number(&mut client, "SELECT count(*) FROM t").await, 0);
        client.end_transaction(transaction.clone(), how).await.expect("it ends");
        assert_eq!(number(&mut client, "SELECT count(*) FROM t").await, count);
        // It is over.
        let text = "INSERT INTO t VALUES (9)".to_owned();
        assert_eq!(failed(client.execute_update(text, Some(transaction.clone())).await).1, "25000");
        assert_eq!(failed(client.end_transaction(transaction, how).await).1, "25000");
    }
}

#[tokio::test]
async fn what_has_failed_is_not_committed() {
    let (_server, mut client) = with_table("a int").await;
    let transaction = client.begin_transaction().await.expect("it begins");
    let within = Some(transaction.clone());
    client.execute_update("INSERT INTO t VALUES (1)".to_owned(), within.clone()).await.expect("a row");
    assert_eq!(failed(client.execute_update("INSERT INTO t VALUES (1/0)".to_owned(), within.clone()).await).1, "22012");
    assert_eq!(failed(client.execute_update("INSERT INTO t VALUES (2)".to_owned(), within).await).1, "25P02");
    let ended = failed(client.end_transaction(transaction, EndTransaction::Commit).await);
    assert_eq!(ended, (Code::FailedPrecondition, "25P02".to_owned()));
    assert_eq!(number(&mut client, "SELECT count(*) FROM t").await, 0);
}

#[tokio::test]
async fn savepoints_are_gone_back_to() {
    let (_server, mut client) = with_table("a int").await;
    let transaction = client.begin_transaction().await.expect("it begins");
    let within = Some(transaction.clone());
    client.execute_update("INSERT INTO t VALUES (1)".to_owned(), within.clone()).await.expect("a row");
    let first = savepoint(&mut client, &transaction, "a \"name\"").await;
    client.execute_update("INSERT INTO t VALUES (2)".to_owned(), within.clone()).await.expect("a row");
    failed(client.execute_update("INSERT INTO t VALUES (1/0)".to_owned(), within.clone()).await);
    end(&mut client, &first, ROLLBACK).await.expect("it goes back");
    client.execute_update("INSERT INTO t VALUES (3)".to_owned(), within.clone()).await.expect("a row");
    let second = savepoint(&mut client, &transaction, "second").await;
    client.execute_update("INSERT INTO t VALUES (4)".to_owned(), within).await.expect("a row");
    end(&mut client, &second, RELEASE).await.expect("it is released");
    assert_eq!(failed(end(&mut client, &second, RELEASE).await).1, "3B001");
    end(&mut client, &first, ROLLBACK).await.expect("the transaction has failed, and it can go back");
    client.end_transaction(transaction, EndTransaction::Rollback).await.expect("it ends");
    assert_eq!(number(&mut client, "SELECT count(*) FROM t").await, 0);
}

#[tokio::test]
async fn a_transaction_ends_with_its_connection_and_its_session() {
    let server = start();
    let (mut client, mut other) = (connect(&server).await, connect(&server).await);
    other.execute_update("CREATE TABLE t (a int PRIMARY KEY)".to_owned(), None).await.expect("it is made");
    other.execute_update("INSERT INTO t VALUES (1)".to_owned(), None).await.expect("a row");
    let transaction = client.begin_transaction().await.expect("it begins");
    let within = Some(transaction.clone());
    client.execute_update("UPDATE t SET a = 2".to_owned(), within).await.expect("a row");
    // It is another connection's.
    let stolen = other.execute_update("SELECT 1".to_owned(), Some(transaction)).await;
    assert_eq!(failed(stolen).1, "25000");
    drop(client);
    // Waits for the row, and gets it once the connection is gone.
    assert_eq!(other.execute_update("UPDATE t SET a = 3 WHERE a = 1".to_owned(), None).await.expect("it is free"), 1);

    let transaction = other.begin_transaction().await.expect("it begins");
    other.execute_update("UPDATE t SET a = 4".to_owned(), Some(transaction.clone())).await.expect("a row");
    let ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'";
    assert_eq!(admin(&server).rows(ended).expect("it is told"), [[Some("t".to_owned())]]);
    let mut third = connect(&server).await;
    assert_eq!(third.execute_update("UPDATE t SET a = 5 WHERE a = 3".to_owned(), None).await.expect("it is free"), 1);
    let state = failed(other.end_transaction(transaction, EndTransaction::Commit).await).1;
    assert!(state == "25000" || state == "57P01", "{state}");
}

#[tokio::test]
async fn a_transaction_that_nobody_goes_on_with_ends() {
    let (server, mut client) = with_table("a int").await;
    client.set_header("options", "{\"idle_in_transaction_session_timeout\": \"300ms\"}");
    let transaction = client.begin_transaction().await.expect("it begins");
    client.execute_update("INSERT INTO t VALUES (1)".to_owned(), Some(transaction.clone())).await.expect("a row");
    let mut admin = admin(&server);
    let is_idle = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'";
    while admin.rows(is_idle).expect("a count")[0][0].as_deref() != Some("0") {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(failed(client.end_transaction(transaction, EndTransaction::Commit).await).1, "25000");
    assert_eq!(query(&mut client, "SELECT a FROM t").await.expect("rows").num_rows(), 0);
}

#[tokio::test]
async fn what_could_not_be_told_is_not_committed() {
    let (_server, mut client) = with_table("a text").await;
    let transaction = client.begin_transaction().await.expect("it begins");
    let text = "INSERT INTO t VALUES (repeat('x', 20000000)) RETURNING a".to_owned();
    let info = client.execute(text, Some(transaction.clone())).await.expect("it is told");
    assert_eq!(failed(rows(&mut client, info).await).1, "54000");
    assert_eq!(failed(client.end_transaction(transaction, EndTransaction::Commit).await).1, "25P02");
    assert_eq!(number(&mut client, "SELECT count(*) FROM t").await, 0);
}

#[tokio::test]
async fn what_a_statement_has_ended_has_ended() {
    let (_server, mut client) = with_table("a int").await;
    for (ends, count) in [("ROLLBACK", 0), ("COMMIT", 1)] {
        let transaction = client.begin_transaction().await.expect("it begins");
        let within = Some(transaction.clone());
        client.execute_update("INSERT INTO t VALUES (1)".to_owned(), within.clone()).await.expect("a row");
        client.execute_update(ends.to_owned(), within.clone()).await.expect("it ends");
        // What comes now would be none of the transaction.
        assert_eq!(failed(client.execute_update("INSERT INTO t VALUES (2)".to_owned(), within).await).1, "25000");
        assert_eq!(failed(client.end_transaction(transaction, EndTransaction::Rollback).await).1, "25000");
        assert_eq!(number(&mut client, "SELECT count(*) FROM t").await, count);
    }
}

#[tokio::test]
async fn a_connection_has_so_many_transactions() {
    let (_server, mut client) = with_table("a int").await;
    let mut begun = Vec::new();
    for _ in 0..99 {
        begun.push(client.begin_transaction().await.expect("it begins"));
    }
    client.set_header("options", "{\"idle_in_transaction_session_timeout\": \"300ms\"}");
    client.begin_transaction().await.expect("it begins");
    // The last one ends by itself, though nothing was ever done in it, and then is none.
    while let Err(refused) = client.begin_transaction().await.map(|id| begun.push(id)) {
        assert_eq!(failed::<()>(Err(refused)), (Code::ResourceExhausted, "53400".to_owned()));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    client.end_transaction(begun.remove(0), EndTransaction::Rollback).await.expect("it ends");
}
