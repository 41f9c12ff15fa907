//! The server that a suite runs against: Glimpse, or the referee when `GLIMPSE_TEST_TARGET=postgres`.

use std::net::SocketAddr;
use std::process::ExitStatus;

use crate::postgres_server::Postgres;
use crate::server::Server;
use crate::wire::Wire;

/// One of the two servers, with the operations that they share.
#[derive(Debug)]
pub enum Target {
    /// The server of this workspace.
    Glimpse(Server),
    /// The referee.
    Postgres(Postgres),
}

impl Target {
    /// Starts the server that the environment names.
    pub fn start() -> anyhow::Result<Target> {
        Target::start_with(&[])
    }

    /// Starts the server with more flags, which only Glimpse takes.
    pub fn start_with(glimpse_args: &[&str]) -> anyhow::Result<Target> {
        match std::env::var("GLIMPSE_TEST_TARGET").as_deref() {
            Ok("postgres") => Ok(Target::Postgres(Postgres::start()?)),
            _ => Ok(Target::Glimpse(Server::start_with(glimpse_args)?)),
        }
    }

    /// The name that `skipif` and `onlyif` know.
    pub fn engine(&self) -> &'static str {
        match self {
            Target::Glimpse(_) => "glimpse",
            Target::Postgres(_) => "postgres",
        }
    }

    /// Whether this is Glimpse.
    pub fn is_glimpse(&self) -> bool {
        matches!(self, Target::Glimpse(_))
    }

    /// The address for users.
    pub fn addr(&self) -> SocketAddr {
        match self {
            Target::Glimpse(server) => server.sql_addr(),
            Target::Postgres(server) => server.addr(),
        }
    }

    /// The address for the system user.
    pub fn admin_addr(&self) -> SocketAddr {
        match self {
            Target::Glimpse(server) => server.internal_sql_addr(),
            Target::Postgres(server) => server.addr(),
        }
    }

    /// A raw connection as `materialize`.
    pub fn wire(&self) -> anyhow::Result<Wire> {
        Wire::start(self.addr(), "materialize", "materialize")
    }

    /// A raw connection as the system user.
    pub fn admin(&self) -> anyhow::Result<Wire> {
        Wire::start(self.admin_addr(), "mz_system", "materialize")
    }

    /// A connection of the `postgres` crate as `materialize`.
    pub fn client(&self) -> anyhow::Result<postgres::Client> {
        Ok(self.config().connect(postgres::NoTls)?)
    }

    /// The settings of such a connection.
    pub fn config(&self) -> postgres::Config {
        let mut config = postgres::Config::new();
        config.host("127.0.0.1").port(self.addr().port()).user("materialize").dbname("materialize");
        config
    }

    /// Ends the server without a chance to tidy up.
    pub fn kill9(&mut self) -> anyhow::Result<()> {
        match self {
            Target::Glimpse(server) => server.kill9(),
            Target::Postgres(server) => server.kill9(),
        }
    }

    /// Sends the killing signal and leaves the process to [`Target::reap_killed`], for tests whose threads still use
    /// the server.
    pub fn signal_kill(&self) -> anyhow::Result<()> {
        match self {
            Target::Glimpse(server) => server.signal("KILL"),
            Target::Postgres(server) => server.signal("QUIT"),
        }
    }

    /// Waits for the end of a server that was sent the killing signal.
    pub fn reap_killed(&mut self) -> anyhow::Result<()> {
        match self {
            Target::Glimpse(server) => server.reap().map(drop),
            Target::Postgres(server) => server.reap().map(drop),
        }
    }

    /// Asks the server to stop.
    pub fn sigterm(&mut self) -> anyhow::Result<ExitStatus> {
        match self {
            Target::Glimpse(server) => server.sigterm(),
            Target::Postgres(server) => server.sigterm(),
        }
    }

    /// Starts it again on the same data.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        match self {
            Target::Glimpse(server) => server.restart(),
            Target::Postgres(server) => server.restart(),
        }
    }
}
