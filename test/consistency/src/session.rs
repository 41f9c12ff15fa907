//! One connection, and what an error says about what happened.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use postgres::types::ToSql;
use postgres::{Client, Error, NoTls, Row, SimpleQueryMessage, Statement};

/// How long a server may take to accept.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

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

/// A connection as the system user.
pub struct Session {
    client: Client,
    statements: HashMap<String, Statement>,
}

impl Session {
    /// Connects.
    pub fn connect(addr: SocketAddr) -> Result<Session, Failure> {
        let mut config = postgres::Config::new();
        config.host(&addr.ip().to_string()).port(addr.port()).user("mz_system").dbname("materialize");
        config.connect_timeout(CONNECT_PATIENCE);
        let client = config.connect(NoTls).map_err(|error| Failure::Lost(error.to_string()))?;
        Ok(Session { client, statements: HashMap::new() })
    }

    /// Runs statements as one simple query; returns how many rows the last one changed.
    pub fn execute(&mut self, sql: &str) -> Result<u64, Failure> {
        let mut count = 0;
        for message in self.simple(sql)? {
            if let SimpleQueryMessage::CommandComplete(rows) = message {
                count = rows;
            }
        }
        Ok(count)
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
    pub fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Failure> {
        let row = |message| match message {
            SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect()),
            _ => None,
        };
        Ok(self.simple(sql)?.into_iter().filter_map(row).collect())
    }

    /// The one value of a query; `None` if there is no row.
    pub fn value(&mut self, sql: &str) -> Result<Option<String>, Failure> {
        Ok(self.rows(sql)?.into_iter().next().and_then(|row| row.into_iter().next()).flatten())
    }

    /// The rows of a statement that is prepared once.
    pub fn prepared(&mut self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Failure> {
        if !self.statements.contains_key(sql) {
            let statement = self.client.prepare(sql).map_err(|error| classify(&error, sql))?;
            self.statements.insert(sql.to_owned(), statement);
        }
        self.client.query(&self.statements[sql], params).map_err(|error| classify(&error, sql))
    }

    /// Does nothing for longer than reads may go back without a hold.
    pub fn think(&self) {
        std::thread::sleep(RETAINED + RETAINED / 2);
    }

    fn simple(&mut self, sql: &str) -> Result<Vec<SimpleQueryMessage>, Failure> {
        self.client.simple_query(sql).map_err(|error| classify(&error, sql))
    }
}

fn classify(error: &Error, sql: &str) -> Failure {
    let Some(db) = error.as_db_error() else { return Failure::Lost(error.to_string()) };
    match db.code().code() {
        // What others did meanwhile, or the disk, is in the way.
        code @ ("40001" | "40P01" | "23503" | "23505" | "53100") => Failure::Refused(code.to_owned()),
        // The server ends, or another has taken over: what was durable may be seen.
        "57P01" | "57P02" | "57P03" => Failure::Lost(db.message().to_owned()),
        code => Failure::Wrong(format!("{code} {}: {sql}", db.message())),
    }
}
