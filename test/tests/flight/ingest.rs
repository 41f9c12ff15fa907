//! Rows in: into tables that are there or have to be made, all of them or none.

use crate::{Client, admin, connect, failed, number, query, start};
use arrow::array::{Array, ArrayRef, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow_flight::error::FlightError;
use arrow_flight::sql::{
    CommandStatementIngest, EndTransaction, TableDefinitionOptions, TableExistsOption, TableNotExistOption,
};
use bytes::Bytes;
use futures::stream;
use std::sync::Arc;

fn command(table: &str, there: TableExistsOption, missing: TableNotExistOption) -> CommandStatementIngest {
    let options = TableDefinitionOptions { if_exists: there.into(), if_not_exist: missing.into() };
    CommandStatementIngest { table: table.to_owned(), table_definition_options: Some(options), ..Default::default() }
}

fn batch(numbers: std::ops::Range<i32>) -> RecordBatch {
    let texts: StringArray = numbers.clone().map(|number| (number % 3 > 0).then(|| format!("x{number}"))).collect();
    let columns: Vec<(&str, ArrayRef)> =
        vec![("a", Arc::new(Int32Array::from_iter_values(numbers))), ("the \"b\"", Arc::new(texts))];
    RecordBatch::try_from_iter(columns).expect("a batch")
}

async fn ingest(
    client: &mut Client,
    command: CommandStatementIngest,
    batches: Vec<RecordBatch>,
) -> Result<i64, FlightError> {
    client.execute_ingest(command, stream::iter(batches.into_iter().map(Ok))).await
}

#[tokio::test]
async fn a_table_is_made_appended_to_and_replaced() {
    use TableExistsOption::{Append, Fail, Replace};
    let server = start();
    let mut client = connect(&server).await;
    let missing = |there| command("the table", there, TableNotExistOption::Create);
    let count = "SELECT count(*) FROM \"the table\"";
    let only = command("the table", Append, TableNotExistOption::Fail);
    assert_eq!(failed(ingest(&mut client, only.clone(), vec![batch(0..3)]).await).1, "42P01");
    assert_eq!(ingest(&mut client, missing(Fail), vec![batch(0..3), batch(3..20_000)]).await.expect("rows"), 20_000);
    assert_eq!(failed(ingest(&mut client, missing(Fail), vec![batch(0..3)]).await).1, "42P07");
    assert_eq!(ingest(&mut client, only, vec![batch(0..5)]).await.expect("rows"), 5);
    assert_eq!(number(&mut client, count).await, 20_005);
    assert_eq!(ingest(&mut client, missing(Append), vec![batch(0..5)]).await.expect("rows"), 5);
    assert_eq!(ingest(&mut client, missing(Replace), vec![batch(0..7)]).await.expect("rows"), 7);
    let found = query(&mut client, "SELECT a, \"the \"\"b\"\"\" FROM \"the table\" ORDER BY a").await.expect("rows");
    assert_eq!(found.columns(), batch(0..7).columns());
}

#[tokio::test]
async fn all_rows_come_in_or_none_and_no_table_is_left() {
    let server = start();
    let mut client = connect(&server).await;
    client
        .execute_update("CREATE TABLE t (a int CHECK (a < 100), \"the \"\"b\"\"\" text)".to_owned(), None)
        .await
        .expect("it is made");
    let into = command("t", TableExistsOption::Append, TableNotExistOption::Fail);
    assert_eq!(failed(ingest(&mut client, into.clone(), vec![batch(0..50), batch(50..101)]).await).1, "23514");
    assert_eq!(number(&mut client, "SELECT count(*) FROM t").await, 0);
    // Columns that the table has not, and a type that nothing here is like.
    let other = RecordBatch::try_from_iter([("z", Arc::new(Int32Array::from(vec![1])) as ArrayRef)]).expect("a batch");
    assert_eq!(failed(ingest(&mut client, into.clone(), vec![other]).await).1, "42703");
    let odd =
        Schema::new(vec![Field::new("a", DataType::Struct(vec![Field::new("x", DataType::Int32, true)].into()), true)]);
    let odd = RecordBatch::new_empty(Arc::new(odd));
    let make = command("odd", TableExistsOption::Fail, TableNotExistOption::Create);
    assert_eq!(failed(ingest(&mut client, make.clone(), vec![odd]).await).1, "0A000");
    // The table is made before its rows come, and goes with them.
    let long = RecordBatch::try_from_iter([(
        "at",
        Arc::new(arrow::array::Date32Array::from(vec![0, i32::MAX - 1])) as ArrayRef,
    )]);
    assert_eq!(failed(ingest(&mut client, make, vec![long.expect("a batch")]).await).1, "22008");
    assert_eq!(failed(query(&mut client, "SELECT * FROM odd").await).1, "42P01");
    // What is not done is refused by its name.
    let temporary = CommandStatementIngest { temporary: true, ..into.clone() };
    assert_eq!(failed(ingest(&mut client, temporary, vec![batch(0..1)]).await).1, "0A000");
    let options = [("x".to_owned(), "y".to_owned())].into();
    assert_eq!(
        failed(ingest(&mut client, CommandStatementIngest { options, ..into }, vec![batch(0..1)]).await).1,
        "0A000"
    );
    // Who may not load is told so.
    admin(&server).execute("CREATE TABLE secret (a int)").expect("it is made");
    let secret = command("secret", TableExistsOption::Append, TableNotExistOption::Fail);
    let one =
        RecordBatch::try_from_iter([("a", Arc::new(Int32Array::from(vec![1])) as Arc<dyn Array>)]).expect("a batch");
    assert_eq!(failed(ingest(&mut client, secret, vec![one]).await).1, "42501");
}

#[tokio::test]
async fn rows_are_loaded_within_a_transaction() {
    let server = start();
    let mut client = connect(&server).await;
    for (how, state) in [(EndTransaction::Rollback, Some("42P01")), (EndTransaction::Commit, None)] {
        let transaction = client.begin_transaction().await.expect("it begins");
        let mut asked = command("t", TableExistsOption::Fail, TableNotExistOption::Create);
        asked.transaction_id = Some(Bytes::clone(&transaction));
        assert_eq!(ingest(&mut client, asked, vec![batch(0..3)]).await.expect("rows"), 3);
        client.execute_update("DELETE FROM t WHERE a = 0".to_owned(), Some(transaction.clone())).await.expect("a row");
        client.end_transaction(transaction, how).await.expect("it ends");
        match state {
            Some(state) => assert_eq!(failed(query(&mut client, "SELECT * FROM t").await).1, state),
            None => assert_eq!(number(&mut client, "SELECT count(*) FROM t").await, 2),
        }
    }
}
