//! What strangers send: nothing of it ends the server, or what others are at.

use crate::{connect, number, start};
use arrow::array::{Int32Array, RecordBatch};
use arrow_flight::sql::{
    CommandPreparedStatementUpdate, CommandStatementIngest, ProstMessageExt, TableDefinitionOptions,
};
use arrow_flight::utils::batches_to_flight_data;
use arrow_flight::{Action, FlightData, FlightDescriptor, Ticket};
use futures::{TryStreamExt, stream};
use glimpse_test::choices::Choices;
use prost::Message;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

/// The messages of an ingestion.
fn messages() -> Vec<FlightData> {
    let numbers = Arc::new(Int32Array::from_iter_values(0..1000));
    let batch = RecordBatch::try_from_iter([("a", numbers as _)]).expect("a batch");
    let mut messages = batches_to_flight_data(&batch.schema(), vec![batch]).expect("messages");
    let options = Some(TableDefinitionOptions { if_exists: 2, if_not_exist: 1 });
    let command =
        CommandStatementIngest { table: "t".to_owned(), table_definition_options: options, ..Default::default() };
    messages[0].flight_descriptor = Some(FlightDescriptor::new_cmd(command.as_any().encode_to_vec()));
    messages
}

#[tokio::test]
async fn messages_that_are_damaged_are_refused() {
    let server = start();
    let mut client = connect(&server).await;
    let mut choices = Choices::random(7);
    let mut refused = 0;
    for _ in 0..200 {
        let mut messages = messages();
        for message in &mut messages {
            let part = if choices.pick(2) == 0 { &mut message.data_header } else { &mut message.data_body };
            let mut bytes = part.to_vec();
            match choices.pick(3) {
                0 if !bytes.is_empty() => {
                    let at = choices.pick(bytes.len());
                    bytes[at] ^= 1 << choices.pick(8);
                }
                1 => bytes.truncate(choices.pick(bytes.len() + 1)),
                _ => bytes.extend(std::iter::repeat_n(0xff, choices.pick(64))),
            }
            *part = bytes.into();
        }
        let sent = client.inner_mut().do_put(stream::iter(messages)).await;
        let done = match sent {
            Ok(answers) => answers.into_inner().try_collect::<Vec<_>>().await.map(drop),
            Err(status) => Err(status),
        };
        refused += usize::from(done.is_err());
    }
    assert!(refused > 50, "{refused} of 200");
    for bytes in [&b""[..], b"\xff\xfe", b"\n\x05abcde"] {
        let _refused = client.inner_mut().get_flight_info(FlightDescriptor::new_cmd(bytes.to_vec())).await;
        let _refused = client.do_get(Ticket { ticket: bytes.to_vec().into() }).await.map(drop);
        for action in ["CreatePreparedStatement", "BeginTransaction", "EndSavepoint", "CancelFlightInfo", "x"] {
            let _refused = client.inner_mut().do_action(Action::new(action, bytes.to_vec())).await.map(drop);
        }
    }
    let handle = CommandPreparedStatementUpdate { prepared_statement_handle: "x".into() }.as_any().encode_to_vec();
    let first = FlightData { flight_descriptor: Some(FlightDescriptor::new_cmd(handle)), ..FlightData::default() };
    assert!(client.inner_mut().do_put(stream::iter([first])).await.is_err());
    assert!(client.inner_mut().do_put(stream::iter([FlightData::default()])).await.is_err());
    assert_eq!(number(&mut client, "SELECT 1::int8").await, 1);
}

#[tokio::test]
async fn who_speaks_something_else_is_not_answered_for_long() {
    let server = start();
    for sent in
        [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", &[0xff; 1000], &[22, 3, 1]]
    {
        let mut stream = TcpStream::connect(server.flight_addr()).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        stream.write_all(sent).expect("it is taken");
        // That is all, if it is not closed already.
        let _closed = stream.shutdown(std::net::Shutdown::Write);
        // Whatever is said, it comes to an end.
        let _said = stream.read_to_end(&mut Vec::new());
    }
    let mut client = connect(&server).await;
    assert_eq!(number(&mut client, "SELECT 1::int8").await, 1);
}
