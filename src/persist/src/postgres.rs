//! Connections to a PostgreSQL that several processes share.
//!
//! What is kept there is small and asked for often: the row of a timeline, the transactions of consensus. So a few
//! connections are kept open, each with its statements prepared once, and whoever asks takes one, or opens one if there are
//! not yet as many as may be. A connection goes back only after an answer: one that was given up on, by a timeout or because
//! nobody wants the answer any more, is closed, for nobody knows what it would say next.
//!
//! Every attempt has a time limit, on the server as `statement_timeout` and here for what a network swallows. Nothing is
//! tried again by itself: whether that is safe is known only to who asks, who then uses [`retry`].
//!
//! # Invariants
//! * At most as many connections are open as there are permits.
//! * `synchronous_commit` is on, whatever the server's configuration says: what was answered is durable.

mod tls;

use std::collections::HashMap;
use std::error::Error;
use std::future::Future;
use std::time::Duration;

use ore::task::JoinHandle;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::PersistError;
use crate::pauses::Pauses;
pub use crate::pauses::in_full;

/// Errors that may go away when the same is asked again.
pub trait Transient: Error {
    /// Whether this one may.
    fn is_transient(&self) -> bool;
}

impl Transient for PersistError {
    fn is_transient(&self) -> bool {
        matches!(self, PersistError::Unreachable { .. })
    }
}

/// Asks again, with growing pauses, until there is an answer, an error that stays, or `patience` is at its end.
///
/// # Cancellation
/// As safe to drop as an attempt.
pub async fn retry<T, E: Transient, F: Future<Output = Result<T, E>>>(
    what: &'static str,
    patience: Duration,
    mut attempt: impl FnMut() -> F,
) -> Result<T, E> {
    let mut pauses = Pauses::new(what, patience);
    loop {
        match attempt().await {
            Err(error) if error.is_transient() => match pauses.next(&error) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(error),
            },
            answer => {
                pauses.end();
                return answer;
            }
        }
    }
}

/// See the module.
pub struct Pool {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    /// How long an attempt may take, connecting included.
    timeout: Duration,
    idle: Mutex<Vec<Connection>>,
    permits: Semaphore,
}

/// One session of the server.
struct Connection {
    client: Client,
    prepared: HashMap<&'static str, Statement>,
    /// It is not to be used again.
    is_broken: bool,
    /// Moves its bytes; ends with it.
    _driver: JoinHandle<()>,
}

impl Pool {
    /// A pool of up to `connections_max` connections to `url`, whose attempts may take up to `timeout`. Opens none yet.
    pub fn new(url: &str, connections_max: usize, timeout: Duration) -> Result<Pool, PersistError> {
        let unusable = |detail: String| PersistError::StoreUrl { detail };
        let (url, tls) = tls::split(url).map_err(unusable)?;
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| unusable(in_full(&error)))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(unusable("it names no host".to_owned()));
        }
        // A process that is stopped within a transaction must not keep its locks.
        let ms = timeout.as_millis();
        let ours =
            format!("-c statement_timeout={ms} -c idle_in_transaction_session_timeout={ms} -c synchronous_commit=on");
        let options = match config.get_options() {
            Some(theirs) => format!("{theirs} {ours}"),
            None => ours,
        };
        config.options(options).connect_timeout(timeout).tcp_user_timeout(timeout);
        config.application_name("glimpse").target_session_attrs(TargetSessionAttrs::ReadWrite);
        Ok(Pool { config, tls, timeout, idle: Mutex::default(), permits: Semaphore::new(connections_max) })
    }

    /// Where it connects to, for logs: hosts and database, no secrets.
    pub fn address(&self) -> String {
        let host = |(index, host): (usize, &Host)| {
            let ports = self.config.get_ports();
            let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
            match host {
                Host::Tcp(name) => format!("{name}:{port}"),
                Host::Unix(path) => format!("{}:{port}", path.display()),
            }
        };
        let hosts: Vec<String> = self.config.get_hosts().iter().enumerate().map(host).collect();
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        format!("{}/{database}", hosts.join(","))
    }

    /// Runs one statement, which is a transaction of its own. It is prepared once per connection.
    ///
    /// Errors: `Unreachable` if nobody knows what became of it, `Determinate` if the server refused it.
    ///
    /// # Cancellation
    /// Safe to drop; whether the statement is run is then unknown.
    pub async fn query(&self, sql: &'static str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, PersistError> {
        self.within_timeout(async {
            let mut connection = self.connection().await?;
            let answer = connection.query(sql, params).await;
            self.give_back(connection, &answer);
            answer
        })
        .await
    }

    /// Sends BEGIN and all of these statements at once, and COMMIT if the first of them gave a number; otherwise ROLLBACK.
    ///
    /// # Cancellation
    /// As for [`Pool::query`].
    pub(crate) async fn transact(&self, steps: &[(&'static str, Vec<&(dyn ToSql + Sync)>)]) -> Transacted {
        let mut sent_commit = None;
        let result = self
            .within_timeout(async {
                let mut connection = self.connection().await?;
                let answer = connection.transact(steps, &mut sent_commit).await;
                self.give_back(connection, &answer);
                answer
            })
            .await;
        match (result, sent_commit) {
            (Ok(Some(_)), _) => Transacted::Committed,
            (Ok(None), _) => Transacted::RolledBack,
            (Err(error), Some(count)) => Transacted::InDoubt(count, error),
            (Err(error), None) => Transacted::Failed(error),
        }
    }

    /// Runs statements without parameters or answers, in one message.
    ///
    /// # Cancellation
    /// As for [`Pool::query`].
    pub async fn execute_batch(&self, sql: &str) -> Result<(), PersistError> {
        self.within_timeout(async {
            let connection = self.connection().await?;
            let answer = connection.client.batch_execute(sql).await;
            self.give_back(connection, &answer);
            answer
        })
        .await
    }

    async fn within_timeout<T>(
        &self,
        attempt: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, PersistError> {
        let permitted = async {
            let _permit = self.permits.acquire().await.expect("the semaphore is never closed");
            attempt.await
        };
        match tokio::time::timeout(self.timeout, permitted).await {
            Ok(answer) => answer.map_err(failed),
            Err(elapsed) => Err(PersistError::Unreachable { source: elapsed.into() }),
        }
    }

    /// A connection that nobody else uses.
    async fn connection(&self) -> Result<Connection, tokio_postgres::Error> {
        while let Some(connection) = self.idle_connection() {
            if !connection.client.is_closed() {
                return Ok(connection);
            }
        }
        let (client, driver) = match self.tls.clone() {
            None => self.config.connect(NoTls).await.map(|(client, driver)| (client, drive(driver)))?,
            Some(tls) => self.config.connect(tls).await.map(|(client, driver)| (client, drive(driver)))?,
        };
        Ok(Connection { client, prepared: HashMap::new(), is_broken: false, _driver: driver })
    }

    fn idle_connection(&self) -> Option<Connection> {
        self.idle.lock().pop()
    }

    /// Keeps a connection that still works. An error that is not the server's word on the statement is taken as one of the
    /// server: the others are given up as well.
    fn give_back<T>(&self, connection: Connection, answer: &Result<T, tokio_postgres::Error>) {
        let is_sound = answer.as_ref().err().is_none_or(|error| error.as_db_error().is_some());
        let mut idle = self.idle.lock();
        match is_sound && !connection.is_broken && !connection.client.is_closed() {
            true => idle.push(connection),
            false => idle.clear(),
        }
    }
}

/// Moves the bytes of a connection until it ends.
fn drive(connection: impl Future<Output = Result<(), tokio_postgres::Error>> + Send + 'static) -> JoinHandle<()> {
    ore::task::spawn("store connection", async move {
        // Whoever uses the connection is told as well.
        if let Err(error) = connection.await {
            tracing::debug!(error = in_full(&error), "a connection to the shared store ended");
        }
    })
}

/// What became of a transaction.
pub(crate) enum Transacted {
    /// It is durable.
    Committed,
    /// Its first statement found no row.
    RolledBack,
    /// It certainly is not.
    Failed(PersistError),
    /// COMMIT was sent and not answered; with the number that the first statement gave.
    InDoubt(i64, PersistError),
}

impl Connection {
    async fn transact(
        &mut self,
        steps: &[(&'static str, Vec<&(dyn ToSql + Sync)>)],
        sent_commit: &mut Option<i64>,
    ) -> Result<Option<i64>, tokio_postgres::Error> {
        for (sql, _) in steps {
            self.prepare(sql).await?;
        }
        // Requests go out in the order in which they are polled first.
        let run = steps.iter().map(|(sql, params)| self.client.query(&self.prepared[sql], params));
        let all = futures::future::try_join_all(run);
        let (begun, answers) = futures::future::join(self.client.batch_execute("BEGIN"), all).await;
        let answers = match begun.and(answers) {
            Ok(answers) => answers,
            Err(error) => {
                // The error that matters is the first; a connection that cannot be told is closed.
                if self.client.batch_execute("ROLLBACK").await.is_err() {
                    self.is_broken = true;
                }
                return Err(error);
            }
        };
        let Some(count) = answers.first().and_then(|rows| rows.first()).map(|row| row.get(0)) else {
            self.client.batch_execute("ROLLBACK").await?;
            return Ok(None);
        };
        *sent_commit = Some(count);
        match self.client.batch_execute("COMMIT").await {
            Ok(()) => Ok(Some(count)),
            Err(error) => {
                // What the server says of COMMIT is certain; that it says nothing is not.
                if error.as_db_error().is_some_and(|refusal| !refusal.code().code().starts_with("57")) {
                    *sent_commit = None;
                }
                self.is_broken = true;
                Err(error)
            }
        }
    }

    async fn prepare(&mut self, sql: &'static str) -> Result<(), tokio_postgres::Error> {
        if !self.prepared.contains_key(sql) {
            let statement = self.client.prepare(sql).await?;
            self.prepared.insert(sql, statement);
        }
        Ok(())
    }

    async fn query(
        &mut self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        self.prepare(sql).await?;
        self.client.query(&self.prepared[sql], params).await
    }
}

/// Sorts errors: what asking again may mend, and what it will not.
fn failed(error: tokio_postgres::Error) -> PersistError {
    let is_refusal = match error.as_db_error() {
        Some(refusal) if *refusal.code() == SqlState::DISK_FULL => true,
        // Lost connections, lack of resources, lost races, a server that starts or stops, one that is read-only because
        // another has taken its place: they pass.
        Some(refusal) => {
            !["08", "40", "53", "55", "57", "25"].iter().any(|class| refusal.code().code().starts_with(class))
        }
        None => is_permanent(&error),
    };
    match is_refusal {
        true => PersistError::Determinate { context: "asking the shared store", source: error.into() },
        false => PersistError::Unreachable { source: error.into() },
    }
}

/// Errors of this end that do not come from the network.
fn is_permanent(error: &tokio_postgres::Error) -> bool {
    let text = error.to_string();
    ["serializing", "deserializing", "configuration", "TLS", "authentication", "column", "parameters"]
        .iter()
        .any(|kind| text.contains(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(url: &str) -> Result<Pool, PersistError> {
        Pool::new(url, 1, Duration::from_secs(1))
    }

    #[test]
    fn a_url_that_cannot_be_used_is_refused() {
        for url in ["postgres://", "http://localhost/db", "nonsense", "postgres://h/db?sslmode=nonsense"] {
            let Err(error) = pool(url) else { panic!("{url} is refused") };
            assert!(matches!(error, PersistError::StoreUrl { .. }), "{url}: {error}");
        }
    }

    #[test]
    fn an_address_has_no_secrets() {
        let pool = pool("postgres://me:secret@db.example:6432/time").expect("usable");
        assert_eq!(pool.address(), "db.example:6432/time");
    }

    #[tokio::test]
    async fn a_store_that_is_not_there_is_asked_again_until_patience_ends() {
        // Nobody listens on the port of a listener that is gone.
        let pool = pool("postgres://me@127.0.0.1:1/time").expect("usable");
        let attempts = Mutex::new(0);
        let error = retry("testing", Duration::from_millis(200), || {
            *attempts.lock() += 1;
            pool.query("SELECT 1", &[])
        })
        .await
        .expect_err("nobody answers");
        assert!(matches!(error, PersistError::Unreachable { .. }), "{error}");
        assert!(*attempts.lock() > 1, "one attempt is no retry");
    }

    #[tokio::test]
    async fn what_stays_wrong_is_not_asked_again() {
        let attempts = Mutex::new(0);
        let error = retry("testing", Duration::MAX, || {
            *attempts.lock() += 1;
            std::future::ready(Err::<(), _>(PersistError::Poisoned))
        })
        .await
        .expect_err("it stays wrong");
        assert!(matches!(error, PersistError::Poisoned) && *attempts.lock() == 1);
    }
}
