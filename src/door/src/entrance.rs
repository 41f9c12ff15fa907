//! Who may come in: certificate and rules, from files that are read again when they have changed, and the sessions that are opened.

use crate::hba::{Guest, Method, Rules};
use crate::place::Place;
use crate::tls::{Identity, Tls, TlsFiles, encryption};
use crate::token::{TokenFiles, Tokens};
use adapter::client::Client;
use adapter::error::AdapterError;
use adapter::session::Session;
use adapter::startup::StartupParams;
use arc_swap::{ArcSwap, ArcSwapOption};
use catalog::builtin::introspection::Encryption;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// See the module.
pub struct Entrance {
    client: Client,
    tls: Option<Tls>,
    rules: ArcSwap<Rules>,
    hba_file: Option<PathBuf>,
    tokens: ArcSwapOption<Tokens>,
}

/// At which of a door's addresses somebody comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// Everybody's.
    External,
    /// That of system users, whose clients on this machine are trusted.
    Internal,
}

/// How somebody has come in, of whom nobody knows yet who it is.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Where it is.
    pub peer: Option<SocketAddr>,
    /// At which address of ours it came in.
    pub local: Option<SocketAddr>,
    /// Which one that is.
    pub port: Port,
    /// Whether what it says is encrypted.
    pub is_encrypted: bool,
    /// The hash of the certificate that it saw, if there is TLS and the hash is known.
    pub end_point: Option<Vec<u8>>,
    encryption: Option<Encryption>,
}

impl Arrival {
    /// Through a socket.
    pub fn new(stream: &TcpStream, port: Port) -> Arrival {
        let (peer, local) = (stream.peer_addr().ok(), stream.local_addr().ok());
        Arrival { peer, local, port, is_encrypted: false, end_point: None, encryption: None }
    }

    /// Through nothing.
    pub(crate) fn nowhere(port: Port) -> Arrival {
        Arrival { peer: None, local: None, port, is_encrypted: false, end_point: None, encryption: None }
    }

    /// The same, once it speaks TLS with one that is known as this.
    #[must_use]
    pub fn encrypted(self, stream: &TlsStream<TcpStream>, identity: &Identity) -> Arrival {
        let (encryption, end_point) = (encryption(stream), identity.end_point.clone());
        Arrival { is_encrypted: true, end_point, encryption, ..self }
    }
}

impl Entrance {
    /// Reads certificate, rules and the keys of tokens; without rules this machine is trusted, and nobody else is let in. Errors: what cannot
    /// be used.
    pub fn open(
        client: Client,
        tls: Option<TlsFiles>,
        hba_file: Option<PathBuf>,
        tokens: TokenFiles,
    ) -> io::Result<Entrance> {
        let tls = tls.map(Tls::open).transpose()?;
        let rules = ArcSwap::from_pointee(read_rules(hba_file.as_deref())?);
        let tokens = ArcSwapOption::from_pointee(Tokens::open(tokens)?);
        Ok(Entrance { client, tls, rules, hba_file, tokens })
    }

    /// Whose sessions are opened.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The server's side of TLS, if it has a certificate.
    pub fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// Reads the rules, the certificate and the keys of tokens again, for connections to come. Errors: what cannot be used is left as it
    /// was.
    pub fn reload(&self) -> io::Result<()> {
        let rules = read_rules(self.hba_file.as_deref()).map(|rules| self.rules.store(Arc::new(rules)));
        let tokens = match self.tokens.load().as_deref() {
            Some(tokens) => Tokens::open(tokens.files().clone()).map(|tokens| self.tokens.store(tokens.map(Arc::new))),
            None => Ok(()),
        };
        rules.and(tokens).and(self.tls.as_ref().map_or(Ok(()), Tls::reload))
    }

    /// Whose tokens are taken, if anybody's are.
    pub fn tokens(&self) -> Option<Arc<Tokens>> {
        self.tokens.load_full()
    }

    /// What this user has to show here; `None` if no rule lets it in.
    pub fn method_for(&self, arrival: &Arrival, user: &str, database: &str) -> Option<Method> {
        if arrival.port == Port::Internal && arrival.peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback()) {
            return Some(Method::Trust);
        }
        let (peer, local) = (arrival.peer.map(|peer| peer.ip()), arrival.local.map(|local| local.ip()));
        let guest = Guest { user, database, peer, local, is_encrypted: arrival.is_encrypted };
        self.rules.load().method_for(guest, |user, group| self.client.is_member(user, group))
    }

    /// Opens a session for a user who has shown what it has to. Errors: those of [`Client::connect`].
    pub fn connect(&self, arrival: &Arrival, place: Place) -> Result<Session, AdapterError> {
        let Place { user, database, options, claims } = place;
        self.client.connect(StartupParams { options, claims, ..startup(arrival, user, database) })
    }
}

/// What a session is asked for by somebody who has come in, without parameters.
pub fn startup(arrival: &Arrival, user: String, database: String) -> StartupParams {
    let Arrival { peer, local, port, encryption, .. } = arrival.clone();
    let (database, internal, options) = (Some(database), port == Port::Internal, Vec::new());
    StartupParams { user, database, internal, options, claims: None, peer, local, encryption }
}

fn read_rules(file: Option<&Path>) -> io::Result<Rules> {
    let Some(file) = file else { return Ok(Rules::local()) };
    let unusable = |why: String| io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| unusable(error.to_string()))?;
    Rules::parse(&text).map_err(unusable)
}
