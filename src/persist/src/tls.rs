//! TLS as a client of stores: rustls with ring, as on our own doors. Who shows a certificate that leads to one we trust, for the
//! name that we asked for, is believed, and nobody else.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// Where the certificates are that systems trust, if no variable says.
const CERTIFICATES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Trusts the certificates of a file, in PEM.
pub(crate) fn config(trusted: &Path) -> io::Result<ClientConfig> {
    let invalid = |detail: String| io::Error::new(ErrorKind::InvalidData, format!("{}: {detail}", trusted.display()));
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(trusted).map_err(|error| invalid(error.to_string()))?;
    roots.add_parsable_certificates(certificates.filter_map(Result::ok));
    if roots.is_empty() {
        return Err(invalid("there are no certificates in it".to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| invalid(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// The file of those that the system trusts: what `SSL_CERT_FILE` says, or where it usually is.
pub(crate) fn system_certificates() -> Option<PathBuf> {
    let named = std::env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty()).map(PathBuf::from);
    named.or_else(|| CERTIFICATES.iter().map(PathBuf::from).find(|path| path.exists()))
}
