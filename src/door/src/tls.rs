//! TLS: our certificate and its key, from files that are read again when they have changed.
//!
//! 1. [`Tls::open`] reads both files; a server whose files cannot be used does not start.
//! 2. [`Tls::accept`] does the handshake on a fresh socket. Versions are 1.2 and 1.3. There is no resumption, no early data
//!    and no renegotiation: connections live long, and each of these has been an attack.
//! 3. [`Tls::reload`] reads the files again. Connections keep what they began with; files that cannot be used change nothing.
//!
//! A client that names protocols (ALPN) has to name one of the door's.

use arc_swap::ArcSwap;
use catalog::builtin::introspection::Encryption;
use rustls::ProtocolVersion;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, ServerConfig};
use sha2::{Digest, Sha256, Sha384, Sha512};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Bits of a file's mode that let anybody but its owner at it, and those that let anybody but owner and group.
const MODE_GROUP_AND_OTHERS: u32 = 0o077;
const MODE_OTHERS: u32 = 0o027;

/// Tags of DER.
const DER_SEQUENCE: u8 = 0x30;
const DER_OBJECT_IDENTIFIER: u8 = 0x06;
/// What the identifiers of signatures begin with: 1.2.840.113549.1.1 and 1.2.840.10045.4.
const RSA: [u8; 8] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
const ECDSA: [u8; 6] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04];

/// Where certificate and key are, both in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The server's certificate, and behind it those that lead to one its clients know.
    pub cert: PathBuf,
    /// The key of the first certificate. Nobody but its owner may read it, or root's group if it is root's.
    pub key: PathBuf,
}

/// The server's side of TLS.
pub struct Tls {
    files: TlsFiles,
    current: ArcSwap<Identity>,
}

/// What the files said when they were last read.
#[derive(Debug)]
pub struct Identity {
    config: ServerConfig,
    /// What SCRAM is bound to: the hash of the certificate, with the hash that the certificate is signed with (RFC 5929).
    /// None for a signature without one.
    pub end_point: Option<Vec<u8>>,
}

impl Tls {
    /// Reads certificate and key. Errors: files that are not there, not PEM, do not belong together, or a key that others
    /// may read.
    pub fn open(files: TlsFiles) -> io::Result<Tls> {
        let current = ArcSwap::new(load(&files)?);
        Ok(Tls { files, current })
    }

    /// Reads the files again; what comes from now on is served with them. Errors: as [`Tls::open`], and nothing has changed.
    pub fn reload(&self) -> io::Result<()> {
        self.current.store(load(&self.files)?);
        Ok(())
    }

    /// Does the handshake for a door with these protocols, the one that it likes best first; tells as whom. Errors: whatever the peer does
    /// wrong; it was told by an alert.
    ///
    /// # Cancellation
    /// Safe to drop; the socket goes along.
    pub async fn accept(
        &self,
        stream: TcpStream,
        protocols: &[&[u8]],
    ) -> io::Result<(TlsStream<TcpStream>, Arc<Identity>)> {
        let identity = self.current.load_full();
        let mut config = ServerConfig::clone(&identity.config);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let stream = TlsAcceptor::from(Arc::new(config)).accept(stream).await?;
        Ok((stream, identity))
    }
}

/// Whether the client has named this protocol.
pub fn names(stream: &TlsStream<TcpStream>, protocol: &[u8]) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(protocol)
}

/// What the handshake has agreed on, in OpenSSL's words, which tools know.
pub fn encryption(stream: &TlsStream<TcpStream>) -> Option<Encryption> {
    let connection = stream.get_ref().1;
    let version = match connection.protocol_version()? {
        ProtocolVersion::TLSv1_2 => "TLSv1.2",
        ProtocolVersion::TLSv1_3 => "TLSv1.3",
        _ => return None,
    };
    let (cipher, bits) = cipher(&format!("{:?}", connection.negotiated_cipher_suite()?.suite()));
    Some(Encryption { version, cipher, bits })
}

/// A cipher suite's name and bits by its registered name: `TLS13_AES_256_GCM_SHA384`.
fn cipher(name: &str) -> (String, i32) {
    let bits = if name.contains("AES_128") { 128 } else { 256 };
    let openssl = match (name.strip_prefix("TLS13_"), name.strip_prefix("TLS_")) {
        (Some(rest), _) => format!("TLS_{rest}"),
        // ECDHE_RSA_WITH_AES_256_GCM_SHA384 is ECDHE-RSA-AES256-GCM-SHA384.
        (None, Some(rest)) => {
            let rest = rest.replace("_WITH", "").replace("AES_", "AES").replace("_POLY1305_SHA256", "_POLY1305");
            rest.replace('_', "-")
        }
        (None, None) => name.to_owned(),
    };
    (openssl, bits)
}

fn load(files: &TlsFiles) -> io::Result<Arc<Identity>> {
    let chain = CertificateDer::pem_file_iter(&files.cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable(&files.cert, error))?;
    check_private(&files.key)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| unusable(&files.key, error))?;
    let end_point = chain.first().and_then(|certificate| end_point(certificate));
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| unusable(&files.cert, error))?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(Identity { config, end_point }))
}

/// `tls-server-end-point` of a certificate in DER.
fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    // Certificate ::= SEQUENCE { tbsCertificate SEQUENCE, signatureAlgorithm SEQUENCE { OBJECT IDENTIFIER, … }, … }
    let (whole, _) = der(certificate, DER_SEQUENCE)?;
    let (_, rest) = der(whole, DER_SEQUENCE)?;
    let (algorithm, _) = der(rest, DER_SEQUENCE)?;
    let (oid, _) = der(algorithm, DER_OBJECT_IDENTIFIER)?;
    match (oid.strip_prefix(&RSA[..]), oid.strip_prefix(&ECDSA[..])) {
        // With SHA-256; and with MD5 or SHA-1, for which SHA-256 stands in.
        (Some([4 | 5 | 11]), _) | (_, Some([3, 2] | [1])) => Some(Sha256::digest(certificate).to_vec()),
        (Some([12]), _) | (_, Some([3, 3])) => Some(Sha384::digest(certificate).to_vec()),
        (Some([13]), _) | (_, Some([3, 4])) => Some(Sha512::digest(certificate).to_vec()),
        _ => None,
    }
}

/// The content of the first element of some DER, which has this tag, and what is behind it.
fn der(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[first, length], rest) = bytes.split_first_chunk::<2>()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        // The number of bytes of the length, which follow.
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    (first == tag).then(|| rest.split_at_checked(length)).flatten()
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

#[cfg(test)]
mod tests {
    use super::{cipher, der, end_point};
    use proptest::prelude::{any, prop, proptest};

    /// A certificate with nothing in it but its algorithm.
    fn certificate(oid: &[u8]) -> Vec<u8> {
        let element = |tag: u8, body: &[u8]| [&[tag, u8::try_from(body.len()).expect("short")], body].concat();
        let algorithm = element(0x30, &element(6, oid));
        element(0x30, &[element(0x30, b"whom it is for"), algorithm, element(3, b"signature")].concat())
    }

    #[test]
    fn the_end_point_is_hashed_as_the_certificate_was_signed() {
        let (rsa, ecdsa) = ([0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1], [0x2a, 0x86, 0x48, 0xce, 0x3d, 4]);
        for (oid, bytes) in [
            ([&rsa[..], &[5]].concat(), Some(32)),
            ([&rsa[..], &[11]].concat(), Some(32)),
            ([&rsa[..], &[12]].concat(), Some(48)),
            ([&rsa[..], &[13]].concat(), Some(64)),
            // RSA-PSS says elsewhere by what it hashes, Ed25519 nowhere.
            ([&rsa[..], &[10]].concat(), None),
            (vec![0x2b, 0x65, 0x70], None),
            ([&ecdsa[..], &[3, 2]].concat(), Some(32)),
            ([&ecdsa[..], &[3, 3]].concat(), Some(48)),
            ([&ecdsa[..], &[3, 4]].concat(), Some(64)),
            (Vec::new(), None),
        ] {
            assert_eq!(end_point(&certificate(&oid)).map(|hash| hash.len()), bytes, "{oid:?}");
        }
    }

    #[test]
    fn ciphers_have_the_names_that_openssl_gives_them() {
        for (name, expected) in [
            ("TLS13_AES_256_GCM_SHA384", ("TLS_AES_256_GCM_SHA384", 256)),
            ("TLS13_AES_128_GCM_SHA256", ("TLS_AES_128_GCM_SHA256", 128)),
            ("TLS13_CHACHA20_POLY1305_SHA256", ("TLS_CHACHA20_POLY1305_SHA256", 256)),
            ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", ("ECDHE-RSA-AES256-GCM-SHA384", 256)),
            ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", ("ECDHE-ECDSA-CHACHA20-POLY1305", 256)),
        ] {
            assert_eq!(cipher(name), (expected.0.to_owned(), expected.1));
        }
    }

    #[test]
    fn lengths_of_der_are_not_believed() {
        assert_eq!(der(&[0x30, 1, 7, 8], 0x30), Some((&[7][..], &[8][..])));
        assert_eq!(der(&[0x30, 0x82, 0, 1, 7, 8], 0x30), Some((&[7][..], &[8][..])));
        for bytes in
            [&[0x30][..], &[0x30, 2, 7], &[0x30, 0x80], &[0x30, 0x84, 255, 255, 255, 255], &[0x30, 0x85, 0], &[6, 0]]
        {
            assert_eq!(der(bytes, 0x30), None, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn no_certificate_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = end_point(&bytes);
        }
    }
}
