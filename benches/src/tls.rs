//! TLS for the servers that are compared, and for the client that reads from them.
//!
//! All use one certificate, for `localhost`, so that the same keys and, asked by the same client, the same cipher are measured.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use anyhow::{Context, Result, ensure};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::wire;

const CERTIFICATE: &str = include_str!("../../test/tls/server.crt");
const KEY: &str = include_str!("../../test/tls/server.key");
const AUTHORITY: &str = include_str!("../../test/tls/ca.crt");

static CONNECTOR: LazyLock<Result<TlsConnector>> = LazyLock::new(connector);

/// Writes certificate and key into a directory; their paths.
pub fn write_files(directory: &Path) -> Result<[PathBuf; 2]> {
    let files = ["tls.crt", "tls.key"].map(|name| directory.join(name));
    for (file, text) in files.iter().zip([CERTIFICATE, KEY]) {
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
        fs::set_permissions(file, fs::Permissions::from_mode(0o600))?;
    }
    Ok(files)
}

/// Asks the server for TLS, as drivers do, and does the handshake.
pub async fn connect(mut stream: TcpStream) -> Result<TlsStream<TcpStream>> {
    stream.write_all(&wire::SSL_REQUEST).await?;
    ensure!(stream.read_u8().await? == b'S', "the server offers no TLS");
    let connector = CONNECTOR.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?;
    connector.connect(ServerName::try_from("localhost")?, stream).await.context("the handshake failed")
}

fn connector() -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(AUTHORITY.as_bytes())?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth())))
}
