//! A target with a certificate and host-based rules, in files that a test may change while the server runs.
//!
//! The certificates are those of `test/tls`. Whatever the rules say, the system user gets in: Glimpse trusts its internal
//! port, and PostgreSQL's rules begin with a line for it.

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tempfile::TempDir;

use crate::postgres_server::{self, Postgres};
use crate::server::Server;
use crate::target::Target;
use crate::wire::{Wire, frontend};

/// What PostgreSQL's rules begin with.
const POSTGRES_FIRST: &str = "host all mz_system 127.0.0.1/32 trust\n";

/// A secured target with its files.
#[derive(Debug)]
pub struct Secured {
    /// The server.
    pub target: Target,
    files: TempDir,
}

impl Secured {
    /// Starts a server with a certificate, and with these rules if there are any.
    pub fn start(rules: Option<&str>) -> anyhow::Result<Secured> {
        Secured::start_with(rules, &[])
    }

    /// The same; gives handshakes five seconds, which on a busy machine may be too little for honest ones. PostgreSQL keeps to its
    /// usual minute.
    pub fn start_impatient(rules: Option<&str>) -> anyhow::Result<Secured> {
        Secured::start_with(rules, &["--handshake-timeout=5s"])
    }

    /// Starts it with these flags; PostgreSQL has none of them.
    pub fn start_with(rules: Option<&str>, options: &[&str]) -> anyhow::Result<Secured> {
        let is_postgres = std::env::var("GLIMPSE_TEST_TARGET").is_ok_and(|target| target == "postgres");
        if is_postgres { Secured::start_postgres(rules) } else { Secured::start_glimpse(rules, options) }
    }

    /// Starts the referee.
    pub fn start_postgres(rules: Option<&str>) -> anyhow::Result<Secured> {
        let files = tempfile::tempdir()?;
        postgres_server::give(files.path())?;
        write_certificate(files.path(), "server")?;
        let mut settings = vec!["ssl=on".to_owned()];
        settings.push(format!("ssl_cert_file={}", path(&files, "tls.crt")));
        settings.push(format!("ssl_key_file={}", path(&files, "tls.key")));
        if let Some(rules) = rules {
            write(files.path(), "hba.conf", &format!("{POSTGRES_FIRST}{rules}"))?;
            settings.push(format!("hba_file={}", path(&files, "hba.conf")));
        }
        Ok(Secured { target: Target::Postgres(Postgres::start_with(settings)?), files })
    }

    fn start_glimpse(rules: Option<&str>, options: &[&str]) -> anyhow::Result<Secured> {
        let files = tempfile::tempdir()?;
        write_certificate(files.path(), "server")?;
        let [cert, key, hba] = ["tls.crt", "tls.key", "hba.conf"].map(|name| path(&files, name));
        let mut args = vec!["--tls-cert", &cert, "--tls-key", &key];
        args.extend(options);
        if let Some(rules) = rules {
            write(files.path(), "hba.conf", rules)?;
            args.extend(["--hba-file", &hba]);
        }
        Ok(Secured { target: Target::Glimpse(Server::start_with(&args)?), files })
    }

    /// Puts other files in place of certificate and key, and has the server read them.
    pub fn change_certificate(&self, name: &str) -> anyhow::Result<()> {
        write_certificate(self.files.path(), name)?;
        self.reload()
    }

    /// Puts something in place of the certificate that is none.
    pub fn break_certificate(&self) -> anyhow::Result<()> {
        write(self.files.path(), "tls.crt", "nonsense")?;
        self.reload()
    }

    /// What Glimpse has logged.
    pub fn log(&self) -> String {
        match &self.target {
            Target::Glimpse(server) => server.log(),
            Target::Postgres(_) => String::new(),
        }
    }

    /// Puts other rules in place, and has the server read them.
    pub fn change_rules(&self, rules: &str) -> anyhow::Result<()> {
        let first = if self.target.is_glimpse() { "" } else { POSTGRES_FIRST };
        write(self.files.path(), "hba.conf", &format!("{first}{rules}"))?;
        self.reload()
    }

    /// Sends SIGHUP.
    pub fn reload(&self) -> anyhow::Result<()> {
        match &self.target {
            Target::Glimpse(server) => server.signal("HUP"),
            Target::Postgres(server) => server.signal("HUP"),
        }
    }

    /// The address for users.
    pub fn addr(&self) -> SocketAddr {
        self.target.addr()
    }

    /// Opens a socket, asks for TLS, and does its handshake.
    pub fn encrypted(&self) -> anyhow::Result<Wire> {
        let mut wire = Wire::connect(self.addr())?;
        wire.send(&frontend::ssl_request())?;
        anyhow::ensure!(wire.receive_bytes(1)? == b"S", "the server offers no TLS");
        wire.upgrade(client_tls(None)?)?;
        Ok(wire)
    }
}

/// Where a file of `test/tls` is.
pub fn tls_file(name: &str) -> PathBuf {
    crate::manifest_dir().join("tls").join(name)
}

/// The client's side of TLS, which believes the tests' authority.
pub fn client_config() -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(tls_file("ca.crt"))?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// One connection's, which names this protocol.
pub fn client_tls(alpn: Option<&str>) -> anyhow::Result<ClientConnection> {
    let mut config = client_config()?;
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(ClientConnection::new(Arc::new(config), "localhost".try_into()?)?)
}

fn write_certificate(directory: &Path, name: &str) -> anyhow::Result<()> {
    // That they can be read is checked here, so that a test that fails does so for another reason.
    let (cert, key) = (tls_file(&format!("{name}.crt")), tls_file(&format!("{name}.key")));
    CertificateDer::from_pem_file(&cert)?;
    PrivateKeyDer::from_pem_file(&key)?;
    write(directory, "tls.crt", &std::fs::read_to_string(cert)?)?;
    write(directory, "tls.key", &std::fs::read_to_string(key)?)
}

fn path(files: &TempDir, name: &str) -> String {
    files.path().join(name).display().to_string()
}

fn write(directory: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let path = directory.join(name);
    std::fs::write(&path, text)?;
    std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    if directory_is_given(directory)? { postgres_server::give(&path) } else { Ok(()) }
}

/// Whether the directory belongs to the user that runs PostgreSQL.
fn directory_is_given(directory: &Path) -> anyhow::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    Ok(directory.metadata()?.uid() != Path::new("/proc/self").metadata()?.uid())
}
