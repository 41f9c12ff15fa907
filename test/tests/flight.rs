//! Arrow Flight SQL: statements and their values, transactions, rows in, what there is, who is let in, and what strangers send.

mod flight {
    mod ingest;
    mod strangers;
    mod transactions;
    mod welcome;
}

use arrow::array::{Array, AsArray, Int32Array, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Int32Type, Int64Type, Schema};
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::sql::{
    CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, CommandGetTables, CommandGetXdbcTypeInfo, CommandStatementQuery,
    CommandStatementSubstraitPlan, ProstMessageExt, SqlInfo,
};
use arrow_flight::{Action, CancelFlightInfoRequest, CancelFlightInfoResult, FlightDescriptor, FlightInfo, Ticket};
use futures::{StreamExt, TryStreamExt};
use glimpse_test::server::Server;
use glimpse_test::wire::Wire;
use prost::Message;
use std::sync::Arc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

/// A client.
pub(crate) type Client = FlightSqlServiceClient<Channel>;

/// A server of ours, whatever is tested otherwise: nobody else has this door.
pub(crate) fn start() -> Server {
    Server::start().expect("the server starts")
}

pub(crate) fn admin(server: &Server) -> Wire {
    Wire::start(server.internal_sql_addr(), "mz_system", "materialize").expect("a session starts")
}

pub(crate) async fn connect(server: &Server) -> Client {
    let endpoint = Endpoint::from_shared(format!("http://{}", server.flight_addr())).expect("an address");
    let channel = endpoint.connect().await.expect("a connection");
    let inner = FlightServiceClient::new(channel).max_decoding_message_size(usize::MAX);
    FlightSqlServiceClient::new_from_inner(inner)
}

/// All rows of what was asked for.
pub(crate) async fn rows(client: &mut Client, info: FlightInfo) -> Result<RecordBatch, FlightError> {
    assert_eq!((info.endpoint.len(), info.total_records), (1, -1));
    let ticket = info.endpoint[0].ticket.clone().expect("a ticket");
    let mut stream = client.do_get(ticket).await?;
    let mut batches = Vec::new();
    while let Some(batch) = stream.next().await {
        batches.push(batch?);
    }
    let schema = stream.schema().cloned().expect("there is a shape");
    match info.schema.is_empty() {
        true => assert!(schema.fields().is_empty()),
        false => assert_eq!(*schema, info.clone().try_decode_schema().expect("it has one"), "what was said before"),
    }
    Ok(concat_batches(&schema, &batches).expect("all have the same shape"))
}

/// All rows of a statement.
pub(crate) async fn query(client: &mut Client, text: &str) -> Result<RecordBatch, FlightError> {
    let info = client.execute(text.to_owned(), None).await?;
    rows(client, info).await
}

/// What a statement's only value is.
pub(crate) async fn number(client: &mut Client, text: &str) -> i64 {
    let rows = query(client, text).await.expect(text);
    assert_eq!((rows.num_rows(), rows.num_columns()), (1, 1), "{text}");
    rows.column(0).as_primitive::<Int64Type>().value(0)
}

/// The code and the SQLSTATE of what has failed.
pub(crate) fn failed<T>(result: Result<T, impl Into<FlightError>>) -> (Code, String) {
    match result.map_err(Into::into) {
        Ok(_) => panic!("it did not fail"),
        Err(error) => {
            let status = status(&error).unwrap_or_else(|| panic!("it is no status: {error:?}"));
            let message = status.message();
            let at = message.find("(SQLSTATE ").unwrap_or_else(|| panic!("no SQLSTATE: {message}"));
            (status.code(), message[at + 10..at + 15].to_owned())
        }
    }
}

/// The status that an error of the client's has in it.
fn status(error: &FlightError) -> Option<Status> {
    match error {
        FlightError::Tonic(status) => Some((**status).clone()),
        _ => None,
    }
}

#[tokio::test]
async fn rows_come_with_their_shapes() {
    let server = start();
    let mut client = connect(&server).await;
    for (text, count) in [
        ("CREATE TABLE t (a int, b text, c uuid, d jsonb, e numeric(10,2))", 0),
        ("INSERT INTO t SELECT i, 'x' || i, NULL, '{\"a\": 1}', 1.5 FROM generate_series(1, 30000) i", 30_000),
        ("UPDATE t SET b = 'y' WHERE a <= 10", 10),
        ("DELETE FROM t WHERE a > 29990", 10),
    ] {
        assert_eq!(client.execute_update(text.to_owned(), None).await.expect(text), count, "{text}");
    }
    let found = query(&mut client, "SELECT * FROM t ORDER BY a").await.expect("rows");
    let types: Vec<_> = found.schema().fields().iter().map(|field| field.data_type().clone()).collect();
    let uuid = DataType::FixedSizeBinary(16);
    assert_eq!(types, [DataType::Int32, DataType::Utf8, uuid, DataType::Utf8, DataType::Decimal128(10, 2)]);
    let (schema, numbers) = (found.schema(), found.column(0).as_primitive::<Int32Type>());
    assert_eq!(schema.field(3).metadata().get("ARROW:extension:name").map(String::as_str), Some("arrow.json"));
    assert!(numbers.values().iter().copied().eq(1..=29_990));
    assert_eq!(
        (found.column(1).as_string::<i32>().value(9), found.column(1).as_string::<i32>().value(10)),
        ("y", "x11")
    );
    assert_eq!(found.column(2).null_count(), 29_990);
    // Without rows, and without columns.
    let none = query(&mut client, "SELECT a, b FROM t WHERE false").await.expect("rows");
    assert_eq!((none.num_rows(), none.num_columns()), (0, 2));
    let made = query(&mut client, "CREATE VIEW v AS SELECT count(*) AS n FROM t").await.expect("it is made");
    assert_eq!((made.num_rows(), made.num_columns()), (0, 0));
    assert_eq!(number(&mut client, "SELECT n FROM v").await, 29_990);
    let returned = query(&mut client, "INSERT INTO t (a) VALUES (-1), (-2) RETURNING a").await.expect("rows");
    assert_eq!(returned.num_rows(), 2);
    // What was written by one door is read by every other.
    assert_eq!(admin(&server).rows("SELECT count(*) FROM t").expect("a count")[0][0].as_deref(), Some("29992"));
}

#[tokio::test]
async fn what_fails_is_told_with_its_sqlstate() {
    let server = start();
    let mut client = connect(&server).await;
    client.execute_update("CREATE TABLE t (a int PRIMARY KEY)".to_owned(), None).await.expect("it is made");
    for (text, code, sqlstate) in [
        ("SELECT * FROM nobody", Code::NotFound, "42P01"),
        ("SELEC 1", Code::InvalidArgument, "42601"),
        ("SELECT 1; SELECT 2", Code::InvalidArgument, "42601"),
        ("SELECT 1/0 FROM t", Code::InvalidArgument, "22012"),
        ("CREATE TABLE t (a int)", Code::AlreadyExists, "42P07"),
        ("INSERT INTO t VALUES (1), (1)", Code::AlreadyExists, "23505"),
        ("INSERT INTO t VALUES (NULL)", Code::FailedPrecondition, "23502"),
        ("BEGIN", Code::FailedPrecondition, "25001"),
        ("COPY t FROM STDIN", Code::Unimplemented, "0A000"),
        ("SELECT $1::int", Code::InvalidArgument, "42601"),
    ] {
        if text != "SELECT 1/0 FROM t" {
            let (found, state) = failed(query(&mut client, text).await);
            assert_eq!((found, state.as_str()), (code, sqlstate), "{text}");
        }
        let updated = client.execute_update(text.to_owned(), None).await;
        if updated.is_err() {
            assert_eq!(failed(updated).1, sqlstate, "{text}");
        }
    }
    // What is nobody's statement, and what nothing here does.
    let stranger = Ticket {
        ticket: arrow_flight::sql::TicketStatementQuery { statement_handle: "x".into() }
            .as_any()
            .encode_to_vec()
            .into(),
    };
    assert_eq!(failed(client.do_get(stranger).await.map(drop)).0, Code::InvalidArgument);
    let plan = CommandStatementSubstraitPlan::default().as_any().encode_to_vec();
    let refused =
        client.inner_mut().get_flight_info(FlightDescriptor::new_cmd(plan)).await.expect_err("nobody does it");
    assert_eq!(refused.code(), Code::Unimplemented);
    assert!(refused.message().contains("CommandStatementSubstraitPlan"), "{refused}");
    assert_eq!(refused.metadata().get("sqlstate").and_then(|state| state.to_str().ok()), Some("0A000"));
    // All that was an error has changed nothing.
    assert_eq!(number(&mut client, "SELECT count(*) FROM t").await, 0);
}

#[tokio::test]
async fn plain_text_is_a_statement() {
    let server = start();
    let mut client = connect(&server).await;
    let descriptor = FlightDescriptor::new_cmd("SELECT 7::int8 AS seven");
    let info = client.inner_mut().get_flight_info(descriptor.clone()).await.expect("it is told").into_inner();
    let found = rows(&mut client, info).await.expect("rows");
    assert_eq!(found.column(0).as_primitive::<Int64Type>().value(0), 7);
    let schema = client.inner_mut().get_schema(descriptor).await.expect("a shape").into_inner();
    assert_eq!(Schema::try_from(&schema).expect("it is one").field(0).name(), "seven");
    let command = CommandStatementQuery { query: "SELECT 1 AS one".to_owned(), transaction_id: None }.as_any();
    let schema = client.inner_mut().get_schema(FlightDescriptor::new_cmd(command.encode_to_vec())).await;
    assert_eq!(Schema::try_from(&schema.expect("a shape").into_inner()).expect("it is one").field(0).name(), "one");
}

#[tokio::test]
async fn statements_are_prepared_and_have_values() {
    let server = start();
    let mut client = connect(&server).await;
    client.execute_update("CREATE TABLE t (a int, b text)".to_owned(), None).await.expect("it is made");
    let mut insert = client.prepare("INSERT INTO t VALUES ($1, $2)".to_owned(), None).await.expect("it is prepared");
    let params = insert.parameter_schema().expect("a shape").clone();
    let types: Vec<_> = params.fields().iter().map(|field| (field.name().as_str(), field.data_type())).collect();
    assert_eq!(types, [("$1", &DataType::Int32), ("$2", &DataType::Utf8)]);
    assert_eq!(insert.dataset_schema().expect("a shape").fields().len(), 0);
    // A row of values is a statement, and all of them are one transaction.
    let values = |numbers: Vec<Option<i32>>, texts: Vec<&str>| {
        let columns: Vec<(&str, Arc<dyn Array>)> =
            vec![("$1", Arc::new(Int32Array::from(numbers))), ("$2", Arc::new(StringArray::from(texts)))];
        RecordBatch::try_from_iter(columns).expect("a batch")
    };
    insert.set_parameters(values(vec![Some(1), None, Some(3)], vec!["x", "y", "z"])).expect("they fit");
    assert_eq!(insert.execute_update().await.expect("it is done"), 3);
    assert_eq!(number(&mut client, "SELECT sum(a) FROM t").await, 4);

    let mut select = client.prepare("SELECT a, b FROM t WHERE a >= $1".to_owned(), None).await.expect("it is prepared");
    assert_eq!(select.dataset_schema().expect("a shape").fields().len(), 2);
    let one =
        |number: i64| RecordBatch::try_from_iter([("$1", Arc::new(arrow::array::Int64Array::from(vec![number])) as _)]);
    for (from, count) in [(1, 2), (2, 1), (4, 0)] {
        // Of another width than the parameter's: it is taken as it is nearest.
        select.set_parameters(one(from).expect("a batch")).expect("they fit");
        let info = select.execute().await.expect("it is told");
        assert_eq!(rows(&mut client, info).await.expect("rows").num_rows(), count, "from {from}");
    }
    let twice = RecordBatch::try_from_iter([("$1", Arc::new(Int32Array::from(vec![1, 3])) as _)]).expect("a batch");
    select.set_parameters(twice).expect("they fit");
    let info = select.execute().await.expect("it is told");
    assert_eq!(rows(&mut client, info).await.expect("rows").num_rows(), 3, "those of each row of values");
    // Too many values, one that does not fit, none.
    select.set_parameters(values(vec![Some(1)], vec!["x"])).expect("they are sent");
    let info = select.execute().await.expect("it is told");
    assert_eq!(failed(rows(&mut client, info).await).1, "42601");
    select.set_parameters(one(1 << 40).expect("a batch")).expect("they are sent");
    let info = select.execute().await.expect("it is told");
    assert_eq!(failed(rows(&mut client, info).await).1, "22003");
    let bare = client.prepare("SELECT $1::int".to_owned(), None).await.expect("it is prepared").execute().await;
    assert_eq!(failed(rows(&mut client, bare.expect("it is told")).await).1, "42601");
    insert.set_parameters(values(vec![Some(7), Some(8)], vec!["x", "y"])).expect("they fit");
    insert.close().await.expect("it is closed");
    select.close().await.expect("it is closed");
}

/// Rows as texts, with blanks between their values.
fn told(batch: &RecordBatch) -> Vec<String> {
    let texts = batch.columns().iter().map(|column| arrow::compute::cast(column, &DataType::Utf8).expect("texts"));
    let texts: Vec<_> = texts.collect();
    let value = |row: usize, at: usize| match texts[at].is_null(row) {
        true => "-",
        false => texts[at].as_string::<i32>().value(row),
    };
    (0..batch.num_rows()).map(|row| (0..texts.len()).map(|at| value(row, at)).collect::<Vec<_>>().join(" ")).collect()
}

/// A client of a server that has something of everything.
async fn with_relations(server: &Server) -> Client {
    let mut client = connect(server).await;
    for text in [
        "CREATE SCHEMA s",
        "CREATE TABLE s.p (a int NOT NULL, b text, PRIMARY KEY (b, a))",
        "CREATE TABLE c (x int, y text, z timestamptz, CONSTRAINT ref FOREIGN KEY (y, x) REFERENCES s.p (b, a) ON DELETE CASCADE)",
        "CREATE VIEW v AS SELECT x FROM c",
        "CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM c",
    ] {
        client.execute_update(text.to_owned(), None).await.expect(text);
    }
    client
}

#[tokio::test]
async fn what_there_is_is_told() {
    let server = start();
    let mut client = with_relations(&server).await;
    let info = client.get_catalogs().await.expect("catalogs");
    assert!(told(&rows(&mut client, info).await.expect("rows")).contains(&"materialize".to_owned()));
    let asked = CommandGetDbSchemas { catalog: None, db_schema_filter_pattern: Some("s%".to_owned()) };
    let info = client.get_db_schemas(asked).await.expect("schemas");
    assert_eq!(told(&rows(&mut client, info).await.expect("rows")), ["materialize s"]);
    let asked = |schema: &str, types: &[&str]| CommandGetTables {
        catalog: Some("materialize".to_owned()),
        db_schema_filter_pattern: Some(schema.to_owned()),
        table_name_filter_pattern: None,
        table_types: types.iter().map(|ty| (*ty).to_owned()).collect(),
        include_schema: false,
    };
    let info = client.get_tables(asked("public", &[])).await.expect("tables");
    let expected =
        ["materialize public c TABLE", "materialize public m MATERIALIZED VIEW", "materialize public v VIEW"];
    assert_eq!(told(&rows(&mut client, info).await.expect("rows")), expected);
    let info = client.get_tables(asked("public", &["VIEW"])).await.expect("tables");
    assert_eq!(told(&rows(&mut client, info).await.expect("rows")), expected[2..]);
    // Whose columns are not for everybody is there, without them.
    admin(&server).execute("CREATE TABLE s.secret (a int)").expect("it is made");
    let info = client.get_tables(CommandGetTables { include_schema: true, ..asked("s", &[]) }).await.expect("tables");
    let tables = rows(&mut client, info).await.expect("rows");
    let shape = tables.column(4).as_binary::<i32>().value(0);
    let shape = arrow_ipc::convert::try_schema_from_ipc_buffer(shape).expect("a shape");
    let columns: Vec<_> = shape.fields().iter().map(|field| (field.name().as_str(), field.is_nullable())).collect();
    assert_eq!(columns, [("a", false), ("b", false)]);
    assert_eq!(tables.column(2).as_string::<i32>().value(1), "secret");
    let info = client.get_table_types().await.expect("types");
    assert_eq!(rows(&mut client, info).await.expect("rows").num_rows(), 5);
    let info = client.get_sql_info(vec![SqlInfo::FlightSqlServerName, SqlInfo::FlightSqlServerTransaction]).await;
    assert_eq!(rows(&mut client, info.expect("it is told")).await.expect("rows").num_rows(), 2);
    let info = client.get_xdbc_type_info(CommandGetXdbcTypeInfo { data_type: None }).await.expect("it is told");
    assert!(rows(&mut client, info).await.expect("rows").num_rows() > 10);
    let actions: Vec<_> = client
        .inner_mut()
        .list_actions(arrow_flight::Empty {})
        .await
        .expect("they are told")
        .into_inner()
        .try_collect()
        .await
        .expect("all");
    assert!(actions.iter().any(|action| action.r#type == "BeginSavepoint"));
}

#[tokio::test]
async fn keys_are_told() {
    let server = start();
    let mut client = with_relations(&server).await;
    let asked = CommandGetPrimaryKeys { catalog: None, db_schema: Some("s".to_owned()), table: "p".to_owned() };
    let info = client.get_primary_keys(asked).await.expect("keys");
    let keys = told(&rows(&mut client, info).await.expect("rows"));
    assert_eq!(keys, ["materialize s p b p_pkey 1", "materialize s p a p_pkey 2"]);
    let references = [
        "materialize s p b materialize public c y 1 ref p_pkey 3 0",
        "materialize s p a materialize public c x 2 ref p_pkey 3 0",
    ];
    let asked = CommandGetExportedKeys { catalog: None, db_schema: Some("s".to_owned()), table: "p".to_owned() };
    let info = client.get_exported_keys(asked).await.expect("keys");
    assert_eq!(told(&rows(&mut client, info).await.expect("rows")), references);
    let asked = CommandGetImportedKeys { catalog: None, db_schema: None, table: "c".to_owned() };
    let info = client.get_imported_keys(asked).await.expect("keys");
    assert_eq!(told(&rows(&mut client, info).await.expect("rows")), references);
    let cross = |pk: &str, fk: &str| CommandGetCrossReference {
        pk_table: pk.to_owned(),
        fk_table: fk.to_owned(),
        ..Default::default()
    };
    for (asked, count) in [(cross("p", "c"), 2), (cross("c", "p"), 0)] {
        let info = client.get_cross_reference(asked).await.expect("keys");
        assert_eq!(rows(&mut client, info).await.expect("rows").num_rows(), count);
    }
}

#[tokio::test]
async fn a_statement_is_cancelled() {
    let server = start();
    let mut client = connect(&server).await;
    let mut other = client.clone();
    let endless = "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b";
    let info = client.execute(endless.to_owned(), None).await.expect("it is told");
    let asked = Action::new("CancelFlightInfo", CancelFlightInfoRequest::new(info.clone()).encode_to_vec());
    let running = tokio::spawn(async move { rows(&mut client, info).await });
    loop {
        let answers: Vec<_> =
            other.do_action(asked.clone()).await.expect("it is taken").try_collect().await.expect("all");
        let said = CancelFlightInfoResult::decode(answers[0].body.clone()).expect("it is one");
        if said.status() == arrow_flight::CancelStatus::Cancelling {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(failed(running.await.expect("it ends")), (Code::Cancelled, "57014".to_owned()));
    // Who hangs up ends what it has asked for.
    let mut info = other.execute(endless.to_owned(), None).await.expect("it is told");
    let ticket = info.endpoint.remove(0).ticket.expect("a ticket");
    let mut gone = other.clone();
    let running = tokio::spawn(async move {
        let stream = gone.do_get(ticket).await.expect("it begins");
        let count = stream.map(|batch| eprintln!("{batch:?}")).count().await;
        panic!("it has ended after {count} batches");
    });
    let mut admin = admin(&server);
    let is_running =
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT count(*) FROM generate%'";
    let mut count = || admin.rows(is_running).expect("a count")[0][0].clone().expect("a number") == "1";
    while !count() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    running.abort();
    drop(running);
    drop(other);
    while count() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn what_is_followed_has_no_end() {
    let server = start();
    let mut client = connect(&server).await;
    client.execute_update("CREATE TABLE t (a int)".to_owned(), None).await.expect("it is made");
    let followed = "SUBSCRIBE (SELECT a FROM t) WITH (SNAPSHOT = false)".to_owned();
    let mut info = client.execute(followed.clone(), None).await.expect("it is told");
    let mut changes = client.do_get(info.endpoint.remove(0).ticket.expect("a ticket")).await.expect("it begins");
    let mut other = connect(&server).await;
    for value in 1..=3 {
        other.execute_update(format!("INSERT INTO t VALUES ({value})"), None).await.expect("a row");
        let change = changes.next().await.expect("it goes on").expect("a batch");
        assert_eq!(change.column(change.num_columns() - 1).as_primitive::<Int32Type>().values()[..], [value]);
    }
    assert_eq!(failed(client.execute_update(followed, None).await).1, "0A000");
}

#[tokio::test]
async fn results_have_any_size_and_a_row_the_clients() {
    let server = start();
    let mut client = connect(&server).await;
    // 140 MB, or a gigabyte.
    let count = if glimpse_test::is_long() { 1_000_000 } else { 135_000 };
    let many = format!("SELECT i, repeat(lpad(i::text, 8, '0'), 128) AS x FROM generate_series(1, {count}) i");
    let many = query(&mut client, &many).await.expect("rows");
    let (numbers, values) = (many.column(0).as_primitive::<Int32Type>(), many.column(1).as_string::<i32>());
    for (at, row) in (1..=count).enumerate() {
        assert!((numbers.value(at), values.value(at)) == (row, &format!("{row:08}").repeat(128)), "row {row}");
    }
    assert_eq!(many.num_rows(), usize::try_from(count).expect("a count"));
    let large = "SELECT repeat('y', 20000000) AS cell";
    let refused = query(&mut client, large).await.expect_err("it is too large");
    let message = status(&refused).expect("a status").message().to_owned();
    assert!(message.contains("with_max_msg_size") && message.contains("54000"), "{message}");
    client.set_header("glimpse-message-bytes-max", "67108864");
    let whole = query(&mut client, large).await.expect("rows");
    assert_eq!(whole.column(0).as_string::<i32>().value(0).len(), 20_000_000);
}
