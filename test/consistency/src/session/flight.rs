//! A session by Flight SQL: blocks are transactions that calls name.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use arrow::array::{Array, AsArray, Int64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow_flight::FlightInfo;
use arrow_flight::error::FlightError;
use arrow_flight::sql::EndTransaction;
use arrow_flight::sql::client::{FlightSqlServiceClient, PreparedStatement};
use bytes::Bytes;
use futures::TryStreamExt;
use tokio::runtime::{Builder, Runtime};
use tonic::transport::{Channel, Endpoint};

use super::{Cells, Failure, PATIENCE, classify};

/// See the module.
pub(super) struct Flight {
    runtime: Runtime,
    client: FlightSqlServiceClient<Channel>,
    statements: HashMap<String, PreparedStatement<Channel>>,
    transaction: Option<Bytes>,
}

impl Flight {
    pub(super) fn connect(addr: SocketAddr) -> Result<Flight, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let endpoint = Endpoint::from_shared(format!("http://{addr}")).expect("an address").connect_timeout(PATIENCE);
        let channel = runtime.block_on(endpoint.connect()).map_err(|error| Failure::Lost(error.to_string()))?;
        let client = FlightSqlServiceClient::new(channel);
        Ok(Flight { runtime, client, statements: HashMap::new(), transaction: None })
    }

    /// Runs a statement that changes rows; how many.
    pub(super) fn execute(&mut self, sql: &str) -> Result<u64, Failure> {
        let Flight { runtime, client, transaction, .. } = self;
        let done = runtime.block_on(async {
            match sql {
                "BEGIN" => {
                    *transaction = Some(client.begin_transaction().await?);
                    Ok(0)
                }
                "COMMIT" | "ROLLBACK" => {
                    let how = if sql == "COMMIT" { EndTransaction::Commit } else { EndTransaction::Rollback };
                    if let Some(id) = transaction.take() {
                        client.end_transaction(id, how).await?;
                    }
                    Ok(0)
                }
                _ => Ok(client.execute_update(sql.to_owned(), transaction.clone()).await?.cast_unsigned()),
            }
        });
        done.map_err(|error| failure(&error, sql))
    }

    /// The rows of a query.
    pub(super) fn rows(&mut self, sql: &str) -> Result<Cells, Failure> {
        let Flight { runtime, client, transaction, .. } = self;
        let read = runtime.block_on(async {
            let info = client.execute(sql.to_owned(), transaction.clone()).await?;
            got(client, info).await
        });
        read.map_err(|error| failure(&error, sql))
    }

    /// The rows of a statement that is prepared once; in a block by itself, whose it then is.
    pub(super) fn prepared(&mut self, sql: &str, params: &[i64]) -> Result<Cells, Failure> {
        let Flight { runtime, client, transaction, statements } = self;
        let read = runtime.block_on(async {
            let mut statement = match statements.remove(sql).filter(|_| transaction.is_none()) {
                Some(statement) => statement,
                None => client.prepare(sql.to_owned(), transaction.clone()).await?,
            };
            if !params.is_empty() {
                let columns = params.iter().map(|param| Arc::new(Int64Array::from(vec![*param])) as _);
                let names = (1..=params.len()).map(|at| format!("${at}"));
                statement.set_parameters(RecordBatch::try_from_iter(names.zip(columns))?)?;
            }
            let info = statement.execute().await?;
            let cells = got(client, info).await?;
            if transaction.is_none() {
                statements.insert(sql.to_owned(), statement);
            }
            Ok(cells)
        });
        read.map_err(|error| failure(&error, sql))
    }
}

/// The rows of what was asked for, as texts.
async fn got(client: &mut FlightSqlServiceClient<Channel>, info: FlightInfo) -> Result<Cells, FlightError> {
    let mut cells = Vec::new();
    for ticket in info.endpoint.into_iter().filter_map(|endpoint| endpoint.ticket) {
        let mut batches = client.do_get(ticket).await?;
        while let Some(batch) = batches.try_next().await? {
            let columns = batch.columns().iter().map(|column| cast(column, &DataType::Utf8));
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            cells.extend((0..batch.num_rows()).map(|row| {
                let cell = |column: &Arc<dyn Array>| {
                    let texts = column.as_string::<i32>();
                    texts.is_valid(row).then(|| texts.value(row).to_owned())
                };
                columns.iter().map(cell).collect()
            }));
        }
    }
    Ok(cells)
}

fn failure(error: &FlightError, sql: &str) -> Failure {
    let FlightError::Tonic(status) = error else { return Failure::Lost(error.to_string()) };
    match status.metadata().get("sqlstate").and_then(|state| state.to_str().ok()) {
        // The transaction has ended with its server.
        Some("25000") => Failure::Lost(status.message().to_owned()),
        Some(state) => classify(state, status.message(), sql),
        None => Failure::Lost(status.to_string()),
    }
}
