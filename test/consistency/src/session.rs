//! One connection, by whichever door, and what an error says about what happened.

mod flight;
mod web;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use postgres::types::{ToSql, Type};
use postgres::{Client, Error, NoTls, Row, SimpleQueryMessage, Statement};

/// How long a server may take to accept.
const PATIENCE: Duration = Duration::from_secs(5);

/// How far back reads may go without a hold.
const RETAINED: Duration = Duration::from_secs(1);

/// Why there is no answer.
#[derive(Clone, Debug)]
pub enum Failure {
    /// It certainly did nothing: the server has said so. The SQLSTATE.
    Refused(String),
    /// The connection is gone, or the server will not say. It may have happened.
    Lost(String),
    /// What no server should say to such a statement.
    Wrong(String),
}

/// Where the other doors of a server are.
#[derive(Clone, Copy, Debug)]
pub struct Doors {
    /// HTTP, of operators.
    pub http: SocketAddr,
    /// Flight SQL.
    pub flight: SocketAddr,
}

/// Which door a client comes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// The Postgres protocol.
    Postgres,
    /// HTTP and its WebSocket.
    Web,
    /// Flight SQL.
    Flight,
}

/// Rows, as texts.
type Cells = Vec<Vec<Option<String>>>;

/// A connection as the system user; by Flight as `materialize`.
pub struct Session(Speaks);

struct Postgres {
    client: Client,
    statements: HashMap<String, Statement>,
}

enum Speaks {
    Postgres(Box<Postgres>),
    Web(Box<web::Web>),
    Flight(Box<flight::Flight>),
}

impl Session {
    /// Connects by the Postgres protocol.
    pub fn connect(addr: SocketAddr) -> Result<Session, Failure> {
        let mut config = postgres::Config::new();
        config.host(&addr.ip().to_string()).port(addr.port()).user("mz_system").dbname("materialize");
        config.connect_timeout(PATIENCE);
        let client = config.connect(NoTls).map_err(|error| Failure::Lost(error.to_string()))?;
        Ok(Session(Speaks::Postgres(Box::new(Postgres { client, statements: HashMap::new() }))))
    }

    /// Connects by another door.
    pub fn connect_by(door: Door, addr: SocketAddr, doors: Doors) -> Result<Session, Failure> {
        match door {
            Door::Postgres => Session::connect(addr),
            Door::Web => Ok(Session(Speaks::Web(Box::new(web::Web::connect(doors.http)?)))),
            Door::Flight => Ok(Session(Speaks::Flight(Box::new(flight::Flight::connect(doors.flight)?)))),
        }
    }

    /// Runs statements as one simple query, by Flight one; returns how many rows the last one changed.
    pub fn execute(&mut self, sql: &str) -> Result<u64, Failure> {
        match &mut self.0 {
            Speaks::Postgres(postgres) => {
                let mut count = 0;
                for message in simple(&mut postgres.client, sql)? {
                    if let SimpleQueryMessage::CommandComplete(rows) = message {
                        count = rows;
                    }
                }
                Ok(count)
            }
            Speaks::Web(web) => Ok(web.simple(sql)?.last().map_or(0, |(_, count)| *count)),
            Speaks::Flight(flight) => flight.execute(sql),
        }
    }

    /// Runs statements one after the other, each by itself.
    pub fn execute_each<S: AsRef<str>>(&mut self, statements: impl IntoIterator<Item = S>) -> Result<(), Failure> {
        statements.into_iter().try_for_each(|sql| self.execute(sql.as_ref()).map(drop))
    }

    /// Runs a block. One that is refused is rolled back, so that the session can go on.
    pub fn block<A>(&mut self, steps: impl FnOnce(&mut Session) -> Result<A, Failure>) -> Result<A, Failure> {
        self.or_roll_back(|session| {
            session.execute("BEGIN")?;
            let answer = steps(session)?;
            session.execute("COMMIT")?;
            Ok(answer)
        })
    }

    /// Runs what leaves a block behind if it is refused.
    pub fn or_roll_back<A>(&mut self, steps: impl FnOnce(&mut Session) -> Result<A, Failure>) -> Result<A, Failure> {
        let result = steps(self);
        if matches!(result, Err(Failure::Refused(_))) {
            self.execute("ROLLBACK")?;
        }
        result
    }

    /// The rows of a query, as text.
    pub fn rows(&mut self, sql: &str) -> Result<Cells, Failure> {
        let row = |message| match message {
            SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect()),
            _ => None,
        };
        match &mut self.0 {
            Speaks::Postgres(postgres) => Ok(simple(&mut postgres.client, sql)?.into_iter().filter_map(row).collect()),
            Speaks::Web(web) => Ok(web.simple(sql)?.into_iter().flat_map(|(cells, _)| cells).collect()),
            Speaks::Flight(flight) => flight.rows(sql),
        }
    }

    /// The one value of a query; `None` if there is no row.
    pub fn value(&mut self, sql: &str) -> Result<Option<String>, Failure> {
        Ok(self.rows(sql)?.into_iter().next().and_then(|row| row.into_iter().next()).flatten())
    }

    /// The rows of a statement that is prepared once, whose values are integers and texts.
    pub fn prepared(&mut self, sql: &str, params: &[i64]) -> Result<Cells, Failure> {
        match &mut self.0 {
            Speaks::Postgres(postgres) => {
                let Postgres { client, statements } = postgres.as_mut();
                if !statements.contains_key(sql) {
                    let statement = client.prepare(sql).map_err(|error| of_postgres(&error, sql))?;
                    statements.insert(sql.to_owned(), statement);
                }
                let params: Vec<_> = params.iter().map(|param| param as &(dyn ToSql + Sync)).collect();
                let rows = client.query(&statements[sql], &params).map_err(|error| of_postgres(&error, sql))?;
                Ok(rows.iter().map(|row| (0..row.len()).map(|at| cell(row, at)).collect()).collect())
            }
            Speaks::Web(web) => web.prepared(sql, params),
            Speaks::Flight(flight) => flight.prepared(sql, params),
        }
    }

    /// Does nothing for longer than reads may go back without a hold.
    pub fn think(&self) {
        std::thread::sleep(RETAINED + RETAINED / 2);
    }
}

fn simple(client: &mut Client, sql: &str) -> Result<Vec<SimpleQueryMessage>, Failure> {
    client.simple_query(sql).map_err(|error| of_postgres(&error, sql))
}

/// An integer or a text of a row.
fn cell(row: &Row, at: usize) -> Option<String> {
    match row.columns()[at].type_() {
        &Type::INT8 => row.get::<_, Option<i64>>(at).map(|number| number.to_string()),
        _ => row.get(at),
    }
}

fn of_postgres(error: &Error, sql: &str) -> Failure {
    match error.as_db_error() {
        Some(db) => classify(db.code().code(), db.message(), sql),
        None => Failure::Lost(error.to_string()),
    }
}

/// What an error says about what has happened.
fn classify(sqlstate: &str, message: &str, sql: &str) -> Failure {
    match sqlstate {
        // What others did meanwhile, or the disk, is in the way.
        "40001" | "40P01" | "23503" | "23505" | "53100" => Failure::Refused(sqlstate.to_owned()),
        // The server ends, or another has taken over: what was durable may be seen.
        "57P01" | "57P02" | "57P03" => Failure::Lost(message.to_owned()),
        _ => Failure::Wrong(format!("{sqlstate} {message}: {sql}")),
    }
}
