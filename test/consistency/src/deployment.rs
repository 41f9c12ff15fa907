//! Servers and stores, as a history needs them.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use bugs::Bug;
use glimpse_test::postgres_server::Postgres;
use glimpse_test::server::{Launch, Server};

use crate::clock::WallClock;
use crate::proxy::Proxy;
use crate::session::{Doors, Failure, Session};

/// What is to be deployed.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Where time is kept.
    pub store: Store,
    /// The bug that the server has on purpose; it then is the program that can have one.
    pub bug: Option<Bug>,
    /// The program, if not the usual one.
    pub binary: Option<PathBuf>,
    /// More flags.
    pub args: Vec<String>,
    /// Where data is kept, if not in the usual place for temporary files.
    pub data_in: Option<PathBuf>,
    /// Whether the server has a wall clock of its own.
    pub jumping_clock: bool,
    /// Whether clients come by all doors: that of the Postgres protocol, HTTP and Flight.
    pub all_doors: bool,
    /// Whether fast paths are taken whenever they apply, so that what was looked up by key is known by that key.
    pub is_straight: bool,
}

/// Where time is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Store {
    /// In the data directory.
    #[default]
    Embedded,
    /// In a PostgreSQL.
    Postgres,
}

/// Running servers.
#[derive(Debug)]
pub struct Deployment {
    /// The server that clients should find.
    pub server: Server,
    /// The PostgreSQL that keeps its time.
    pub store: Option<Postgres>,
    /// Between the server and that PostgreSQL.
    pub store_network: Option<Proxy>,
    /// Between clients and server.
    pub network: Proxy,
    /// One that should not have started: on the same data as the other.
    pub second: Option<Server>,
    /// What the server takes for the time of day, if that is not ours.
    pub clock: Option<WallClock>,
    /// How far that was ahead of ours at the most, in seconds.
    pub clock_furthest: f64,
}

/// How long the owner of a shared timeline may trust that it still is, in milliseconds.
pub const LEASE_MS: &str = "1000";

impl Deployment {
    /// Starts everything, on new data.
    pub fn start(setup: &Setup) -> anyhow::Result<Deployment> {
        let (mut args, mut store, mut store_network) = (setup.args.clone(), None, None);
        if setup.store == Store::Postgres {
            let postgres = Postgres::start()?;
            let proxy = Proxy::start(postgres.addr())?;
            let url = store_url(&postgres, &proxy);
            let flags = ["--timestamp-oracle-url", &url, "--timestamp-oracle-lease", LEASE_MS];
            args.extend(flags.map(str::to_owned));
            (store, store_network) = (Some(postgres), Some(proxy));
        }
        let mut environment = Vec::new();
        environment.extend(setup.bug.map(|bug| ("GLIMPSE_BUG".to_owned(), bug.name().to_owned())));
        environment.extend(setup.is_straight.then(|| ("GLIMPSE_SOMETIMES".to_owned(), "never".to_owned())));
        let clock = if setup.jumping_clock { WallClock::new()? } else { None };
        environment.extend(clock.iter().flat_map(WallClock::environment));
        let (binary, data_in) = (setup.binary.clone(), setup.data_in.clone());
        let launch = Launch { binary, args, environment, data_in, archive: None };
        let server = Server::launch(launch)?;
        let network = Proxy::start(server.internal_sql_addr())?;
        Ok(Deployment { server, store, store_network, network, second: None, clock, clock_furthest: 0.0 })
    }

    /// Where its time is kept.
    pub fn store_url(&self) -> anyhow::Result<String> {
        let store = self.store.as_ref().zip(self.store_network.as_ref());
        store.map(|(postgres, proxy)| store_url(postgres, proxy)).context("it has a store")
    }

    /// Where the doors beside that of the Postgres protocol are.
    pub fn doors(&self) -> Doors {
        Doors { http: self.server.internal_http_addr(), flight: self.server.flight_addr() }
    }

    /// A connection that is there: the server answers, sooner or later.
    pub fn session(&self) -> anyhow::Result<Session> {
        connect(self.server.internal_sql_addr())
    }

    /// Fails with the server's log if it has panicked.
    pub fn check_log(&self) -> anyhow::Result<()> {
        let log = self.server.log();
        let line = log.lines().position(|line| line.contains("panicked at"));
        match line {
            None => Ok(()),
            Some(at) => {
                let lines: Vec<&str> = log.lines().skip(at).take(8).collect();
                anyhow::bail!("the server panicked:\n{}", lines.join("\n"))
            }
        }
    }
}

fn store_url(postgres: &Postgres, proxy: &Proxy) -> String {
    postgres.url().replace(&postgres.addr().to_string(), &proxy.addr.to_string())
}

/// A session with a server that runs.
pub fn connect(addr: SocketAddr) -> anyhow::Result<Session> {
    Session::connect(addr).map_err(|failure| wrong(&failure)).context("connect")
}

/// A failure where none may be.
pub fn wrong(failure: &Failure) -> anyhow::Error {
    anyhow::anyhow!("{failure:?}")
}
