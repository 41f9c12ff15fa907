//! The calls of Flight, and which command of Flight SQL each carries.
//!
//! GetFlightInfo says how rows look and gives a ticket, GetSchema only the first; DoGet runs what the ticket says and sends rows. DoPut takes rows:
//! values of parameters, or those of a table. A command that is no message of Flight SQL is the text of a statement, as clients of plain
//! Flight send it.

use crate::answering::{self, Shapes};
use crate::handshake;
use crate::information::Information;
use crate::ingest::ingest;
use crate::receiving::Received;
use crate::relations::Relation;
use crate::sending::{Messages, encapsulated};
use crate::statement::{Statement, Values};
use crate::told::{malformed, told};
use crate::transaction::{End, Savepoint};
use crate::welcome::{Caller, caller_of, unsupported};
use adapter::error::AdapterError;
use arrow::datatypes::{Schema, SchemaRef};
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::{
    ActionBeginSavepointRequest, ActionBeginSavepointResult, ActionBeginTransactionRequest,
    ActionBeginTransactionResult, ActionCancelQueryRequest, ActionCancelQueryResult,
    ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult,
    ActionEndSavepointRequest, ActionEndTransactionRequest, Any, Command, DoPutPreparedStatementResult,
    DoPutUpdateResult, EndTransaction, ProstMessageExt, TicketStatementQuery,
};
use arrow_flight::{
    Action, ActionType, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, Criteria, Empty, FlightData,
    FlightDescriptor, FlightEndpoint, FlightInfo, HandshakeRequest, HandshakeResponse, PollInfo, PutResult,
    SchemaResult, Ticket,
};
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use prost::Message;
use std::sync::Arc;
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status, Streaming};

/// The actions, and what they are told to be.
const ACTIONS: [(&str, &str); 8] = [
    ("CreatePreparedStatement", "Makes a statement known: ActionCreatePreparedStatementRequest, …Result"),
    ("ClosePreparedStatement", "Forgets what is bound to a statement: ActionClosePreparedStatementRequest"),
    ("BeginTransaction", "Begins a transaction: ActionBeginTransactionRequest, …Result"),
    ("EndTransaction", "Commits a transaction or rolls it back: ActionEndTransactionRequest"),
    ("BeginSavepoint", "Sets a savepoint in a transaction: ActionBeginSavepointRequest, …Result"),
    ("EndSavepoint", "Releases a savepoint or goes back to it: ActionEndSavepointRequest"),
    ("CancelFlightInfo", "Ends what was got by a ticket: CancelFlightInfoRequest, …Result"),
    ("CancelQuery", "The same as older clients have it: ActionCancelQueryRequest, …Result"),
];

/// How a savepoint ends.
const RELEASE: i32 = 1;
const ROLLBACK: i32 = 2;

/// See the module.
pub(crate) struct Flights;

/// What rows are asked for.
pub(crate) enum Asked {
    Statement(Statement),
    /// One with values.
    Prepared(Statement),
    Relation(Relation),
    Information(Information),
}

impl Asked {
    /// What a descriptor or a ticket asks for.
    pub(crate) fn read(bytes: &[u8]) -> Result<Asked, Status> {
        let command = Any::decode(bytes).ok().filter(|any| any.type_url.starts_with("type.googleapis.com/"));
        let Some(command) = command else {
            let text =
                std::str::from_utf8(bytes).map_err(|_| malformed("this is no command of Flight SQL, and no text"))?;
            return Ok(Asked::Statement(Statement::new(text.to_owned(), None::<Bytes>)?));
        };
        Ok(match Command::try_from(command).map_err(|error| malformed(error.to_string()))? {
            Command::CommandStatementQuery(asked) => {
                Asked::Statement(Statement::new(asked.query, asked.transaction_id)?)
            }
            Command::TicketStatementQuery(ticket) => Asked::Statement(Statement::read(&ticket.statement_handle)?),
            Command::CommandPreparedStatementQuery(asked) => {
                Asked::Prepared(Statement::read(&asked.prepared_statement_handle)?)
            }
            Command::CommandGetCatalogs(asked) => Asked::Relation(Relation::Catalogs(asked)),
            Command::CommandGetDbSchemas(asked) => Asked::Relation(Relation::Schemas(asked)),
            Command::CommandGetTables(asked) => Asked::Relation(Relation::Tables(asked)),
            Command::CommandGetTableTypes(_) => Asked::Relation(Relation::TableTypes),
            Command::CommandGetPrimaryKeys(asked) => Asked::Relation(Relation::PrimaryKeys(asked)),
            Command::CommandGetExportedKeys(asked) => Asked::Relation(Relation::ExportedKeys(asked)),
            Command::CommandGetImportedKeys(asked) => Asked::Relation(Relation::ImportedKeys(asked)),
            Command::CommandGetCrossReference(asked) => Asked::Relation(Relation::CrossReference(asked)),
            Command::CommandGetSqlInfo(asked) => Asked::Information(Information::Server(asked)),
            Command::CommandGetXdbcTypeInfo(asked) => Asked::Information(Information::Types(asked)),
            other => return Err(unsupported(named(other.type_url()))),
        })
    }

    /// How the rows look, if there are some.
    async fn schema(&self, caller: &Caller) -> Result<Option<SchemaRef>, Status> {
        match self {
            Asked::Statement(statement) | Asked::Prepared(statement) => {
                Ok(answering::shapes(caller, statement).await?.rows)
            }
            Asked::Relation(relation) => Ok(Some(relation.schema())),
            Asked::Information(information) => information.schema().map(Some),
        }
    }

    /// What gets the rows.
    fn ticket(&self, command: Bytes) -> Ticket {
        let ticket = match self {
            // As it was asked for it has no number to be cancelled by.
            Asked::Statement(statement) => TicketStatementQuery { statement_handle: statement.encode_to_vec().into() }
                .as_any()
                .encode_to_vec()
                .into(),
            _ => command,
        };
        Ticket { ticket }
    }

    /// Sends the rows.
    fn rows(self, caller: Caller) -> Messages<FlightData> {
        match self {
            Asked::Statement(statement) => answering::rows(caller, statement, None),
            Asked::Prepared(statement) => {
                let values = caller.visitor.own.bound.of(&statement.number);
                answering::rows(caller, statement, values)
            }
            Asked::Relation(relation) => relation.rows(caller),
            Asked::Information(information) => information.rows(caller.message_bytes_max),
        }
    }
}

/// How rows look, as it stands in a message; nothing if there are none.
fn shape(schema: Option<SchemaRef>) -> Result<Bytes, Status> {
    schema.map_or_else(|| Ok(Bytes::new()), |schema| encapsulated(&schema))
}

/// A message's name in its address.
fn named(url: &str) -> &str {
    url.rsplit(['/', '.']).next().unwrap_or(url)
}

/// Messages that are known.
fn listed<T: Send + 'static>(messages: Vec<T>) -> Messages<T> {
    stream::iter(messages.into_iter().map(Ok)).boxed()
}

#[tonic::async_trait]
impl FlightService for Flights {
    type HandshakeStream = Messages<HandshakeResponse>;
    type ListFlightsStream = Messages<FlightInfo>;
    type DoGetStream = Messages<FlightData>;
    type DoPutStream = Messages<PutResult>;
    type DoExchangeStream = Messages<FlightData>;
    type DoActionStream = Messages<arrow_flight::Result>;
    type ListActionsStream = Messages<ActionType>;

    /// Gives a token to who has shown who it is.
    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        let caller = caller_of(&request)?;
        let user = &caller.place.user;
        let token = match &caller.token {
            Some(token) => token.clone(),
            None if caller.is_trusted => handshake::entrusted(user),
            None => {
                let credentials = caller.shared().entrance.client().credentials(user);
                handshake::issued(user, &credentials.verifier.to_string())
            }
        };
        let value = MetadataValue::try_from(format!("Bearer {token}"));
        let value = value.map_err(|_| told(&AdapterError::internal("a token is no header")))?;
        let payload = token.into_bytes().into();
        let mut response = Response::new(listed(vec![HandshakeResponse { protocol_version: 0, payload }]));
        response.metadata_mut().insert("authorization", value);
        Ok(response)
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        Err(unsupported("ListFlights"))
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
        let caller = caller_of(&request)?;
        let descriptor = request.into_inner();
        let asked = Asked::read(&descriptor.cmd)?;
        // What has no shape has to be got before a client takes it to be done.
        let schema = shape(asked.schema(&caller).await?)?;
        let ticket = asked.ticket(descriptor.cmd.clone());
        Ok(Response::new(FlightInfo {
            schema,
            flight_descriptor: Some(descriptor),
            endpoint: vec![FlightEndpoint { ticket: Some(ticket), ..FlightEndpoint::default() }],
            // Nobody knows before.
            total_records: -1,
            total_bytes: -1,
            ordered: true,
            app_metadata: Bytes::new(),
        }))
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        Err(unsupported("PollFlightInfo"))
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        let caller = caller_of(&request)?;
        let schema = Asked::read(&request.into_inner().cmd)?.schema(&caller).await?;
        let schema = schema.unwrap_or_else(|| Arc::new(Schema::empty()));
        Ok(Response::new(SchemaResult { schema: encapsulated(&schema)? }))
    }

    async fn do_get(&self, request: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        let caller = caller_of(&request)?;
        Ok(Response::new(Asked::read(&request.into_inner().ticket)?.rows(caller)))
    }

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> Result<Response<Self::DoPutStream>, Status> {
        let caller = caller_of(&request)?;
        let shared = caller.shared();
        let (bytes_max, memory) = (shared.request_bytes_max, shared.entrance.client().message_memory());
        let (command, received) = Received::begin(request.into_inner(), bytes_max, memory).await?;
        let command = Any::decode(command).map_err(|error| malformed(error.to_string()))?;
        let app_metadata = match Command::try_from(command).map_err(|error| malformed(error.to_string()))? {
            Command::CommandStatementUpdate(asked) => {
                let statement = Statement::new(asked.query, asked.transaction_id)?;
                updated(answering::update(&caller, &statement, None).await?)
            }
            Command::CommandPreparedStatementUpdate(asked) => {
                let statement = Statement::read(&asked.prepared_statement_handle)?;
                // Some clients bind them before.
                let values = all_values(received).await?.map(Arc::new);
                let values = values.or_else(|| caller.visitor.own.bound.of(&statement.number));
                updated(answering::update(&caller, &statement, values.as_deref()).await?)
            }
            Command::CommandPreparedStatementQuery(asked) => {
                let statement = Statement::read(&asked.prepared_statement_handle)?;
                match all_values(received).await? {
                    Some(values) => caller.visitor.own.bound.bind(&statement.number, values)?,
                    None => caller.visitor.own.bound.forget(&statement.number),
                }
                let handle = Some(asked.prepared_statement_handle);
                DoPutPreparedStatementResult { prepared_statement_handle: handle }.encode_to_vec()
            }
            Command::CommandStatementIngest(asked) => updated(ingest(&caller, asked, received).await?),
            other => return Err(unsupported(named(other.type_url()))),
        };
        Ok(Response::new(listed(vec![PutResult { app_metadata: app_metadata.into() }])))
    }

    async fn do_exchange(&self, _: Request<Streaming<FlightData>>) -> Result<Response<Self::DoExchangeStream>, Status> {
        Err(unsupported("DoExchange"))
    }

    async fn do_action(&self, request: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        let caller = caller_of(&request)?;
        let Action { r#type, body } = request.into_inner();
        let answer = act(&caller, &r#type, body).await?;
        Ok(Response::new(listed(answer.map(|body| arrow_flight::Result { body: body.into() }).into_iter().collect())))
    }

    async fn list_actions(&self, _: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        let action = |(name, what): (&str, &str)| ActionType { r#type: name.to_owned(), description: what.to_owned() };
        Ok(Response::new(listed(ACTIONS.map(action).into())))
    }
}

/// All values that were sent, if there are some.
async fn all_values(received: Received) -> Result<Option<Values>, Status> {
    let (batches, memory) = received.all().await?;
    let values = Values::new(batches, memory);
    Ok((values.row_count() > 0).then_some(values))
}

fn updated(record_count: i64) -> Vec<u8> {
    DoPutUpdateResult { record_count }.encode_to_vec()
}

/// A message of Flight SQL, which stands in another one.
fn unpacked<M: ProstMessageExt>(body: Bytes) -> Result<M, Status> {
    let any = Any::decode(body).map_err(|error| malformed(error.to_string()))?;
    let message = any.unpack::<M>().map_err(|error| malformed(error.to_string()))?;
    message.ok_or_else(|| malformed(format!("the body is no {}", named(M::type_url()))))
}

/// Does what an action says; what it answers, if that is something.
async fn act(caller: &Caller, action: &str, body: Bytes) -> Result<Option<Vec<u8>>, Status> {
    let (own, who) = (&caller.visitor.own, &caller.place.who());
    match action {
        "CreatePreparedStatement" => {
            let asked = unpacked::<ActionCreatePreparedStatementRequest>(body)?;
            let statement = Statement::new(asked.query, asked.transaction_id)?;
            let Shapes { rows, params } = answering::shapes(caller, &statement).await?;
            let made = ActionCreatePreparedStatementResult {
                prepared_statement_handle: statement.encode_to_vec().into(),
                // A statement without rows is known by that.
                dataset_schema: shape(rows)?,
                parameter_schema: shape(Some(params).filter(|params| !params.fields().is_empty()))?,
            };
            Ok(Some(made.as_any().encode_to_vec()))
        }
        "ClosePreparedStatement" => {
            let asked = unpacked::<ActionClosePreparedStatementRequest>(body)?;
            own.bound.forget(&Statement::read(&asked.prepared_statement_handle)?.number);
            Ok(None)
        }
        "BeginTransaction" => {
            unpacked::<ActionBeginTransactionRequest>(body)?;
            let seated = caller.visitor.seat(&caller.shared().entrance, caller.place.clone());
            let seat = seated.map_err(|error| told(&error))?.take();
            let id = own.transactions.begin(who, seat).await?;
            Ok(Some(ActionBeginTransactionResult { transaction_id: id.into() }.as_any().encode_to_vec()))
        }
        "EndTransaction" => {
            let asked = unpacked::<ActionEndTransactionRequest>(body)?;
            let how = match asked.action() {
                EndTransaction::Commit => End::Commit,
                EndTransaction::Rollback => End::Rollback,
                EndTransaction::Unspecified => return Err(malformed("a transaction ends by COMMIT or ROLLBACK")),
            };
            own.transactions.end(&asked.transaction_id, who, how).await?;
            Ok(None)
        }
        "BeginSavepoint" => {
            let asked = unpacked::<ActionBeginSavepointRequest>(body)?;
            let savepoint = Savepoint { transaction: asked.transaction_id.to_vec(), name: asked.name };
            savepoint.say(&own.transactions, who, "SAVEPOINT").await?;
            let id = savepoint.encode_to_vec().into();
            Ok(Some(ActionBeginSavepointResult { savepoint_id: id }.as_any().encode_to_vec()))
        }
        "EndSavepoint" => {
            let asked = unpacked::<ActionEndSavepointRequest>(body)?;
            let savepoint = Savepoint::decode(asked.savepoint_id).map_err(|error| malformed(error.to_string()))?;
            let what = match asked.action {
                RELEASE => "RELEASE SAVEPOINT",
                ROLLBACK => "ROLLBACK TO SAVEPOINT",
                _ => return Err(malformed("a savepoint ends by RELEASE or ROLLBACK")),
            };
            savepoint.say(&own.transactions, who, what).await?;
            Ok(None)
        }
        "CancelFlightInfo" => {
            let asked = CancelFlightInfoRequest::decode(body).map_err(|error| malformed(error.to_string()))?;
            let status = cancel(caller, asked.info.unwrap_or_default())?;
            Ok(Some(CancelFlightInfoResult { status: status.into() }.encode_to_vec()))
        }
        "CancelQuery" => {
            let asked = unpacked::<ActionCancelQueryRequest>(body)?;
            let info = FlightInfo::decode(asked.info).map_err(|error| malformed(error.to_string()))?;
            // Its results are numbered as those of the other.
            let result = cancel(caller, info)?.into();
            Ok(Some(ActionCancelQueryResult { result }.as_any().encode_to_vec()))
        }
        other => Err(unsupported(&format!("the action {other:.100}"))),
    }
}

/// Asks what is got by these tickets to end.
fn cancel(caller: &Caller, info: FlightInfo) -> Result<CancelStatus, Status> {
    let mut status = CancelStatus::NotCancellable;
    for ticket in info.endpoint.into_iter().filter_map(|endpoint| endpoint.ticket) {
        if let Asked::Statement(statement) | Asked::Prepared(statement) = Asked::read(&ticket.ticket)?
            && caller.shared().cancel(&statement.number, &caller.place.who())
        {
            status = CancelStatus::Cancelling;
        }
    }
    Ok(status)
}
