//! TLS: our certificate and its key, from files that are read again when they have changed.
//!
//! 1. [`Tls::open`] reads both files; a server whose files cannot be used does not start.
//! 2. [`Tls::accept`] does the handshake on a fresh socket. Versions are 1.2 and 1.3. There is no resumption, no early data
//!    and no renegotiation: connections live long, and each of these has been an attack.
//! 3. [`Tls::reload`] reads the files again. Connections keep what they began with; files that cannot be used change nothing.
//!
//! A client that names protocols (ALPN) has to name `postgresql`; one that begins with TLS and asks no question before must
//! name it, so that what was meant for another server is not taken for ours.

use crate::error::WireError;
use arc_swap::ArcSwap;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, ServerConfig};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The protocol's name in ALPN.
const ALPN: &[u8] = b"postgresql";
/// What is said to a client that begins with TLS and does not name it.
pub(crate) const NOT_OURS: &str = "received direct SSL connection request without ALPN protocol negotiation extension";
/// Bits of a file's mode that let anybody but its owner at it, and those that let anybody but owner and group.
const MODE_GROUP_AND_OTHERS: u32 = 0o077;
const MODE_OTHERS: u32 = 0o027;

/// Where certificate and key are, both in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The server's certificate, and behind it those that lead to one its clients know.
    pub cert: PathBuf,
    /// The key of the first certificate. Nobody but its owner may read it, or root's group if it is root's.
    pub key: PathBuf,
}

/// How a client came to TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upgrade {
    /// It asked with SSLRequest.
    Asked,
    /// It began with TLS.
    Direct,
}

/// The server's side of TLS.
pub(crate) struct Tls {
    files: TlsFiles,
    current: ArcSwap<ServerConfig>,
}

impl Tls {
    /// Reads certificate and key. Errors: files that are not there, not PEM, do not belong together, or a key that others
    /// may read.
    pub(crate) fn open(files: TlsFiles) -> io::Result<Tls> {
        let current = ArcSwap::new(load(&files)?);
        Ok(Tls { files, current })
    }

    /// Reads the files again; what comes from now on is served with them. Errors: as [`Tls::open`], and nothing has changed.
    pub(crate) fn reload(&self) -> io::Result<()> {
        self.current.store(load(&self.files)?);
        Ok(())
    }

    /// Does the handshake. Errors: whatever the peer does wrong; it was told by an alert.
    ///
    /// # Cancellation
    /// Safe to drop; the socket goes along.
    pub(crate) async fn accept(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, WireError> {
        Ok(TlsAcceptor::from(self.current.load_full()).accept(stream).await?)
    }
}

/// Whether the client has named our protocol.
pub(crate) fn is_ours(stream: &TlsStream<TcpStream>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(ALPN)
}

fn load(files: &TlsFiles) -> io::Result<Arc<ServerConfig>> {
    let chain = CertificateDer::pem_file_iter(&files.cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable(&files.cert, error))?;
    check_private(&files.key)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| unusable(&files.key, error))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| unusable(&files.cert, error))?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// A key that others can read is no secret: Postgres refuses it as well, by the same rules.
fn check_private(key: &Path) -> io::Result<()> {
    let metadata = fs::metadata(key).map_err(|error| unusable(key, error))?;
    let forbidden = if metadata.uid() == 0 { MODE_OTHERS } else { MODE_GROUP_AND_OTHERS };
    if metadata.mode() & forbidden != 0 {
        return Err(unusable(key, "others may read this private key: give it mode 0600, or 0640 if it is root's"));
    }
    Ok(())
}

fn unusable(path: &Path, reason: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {reason}", path.display()))
}
