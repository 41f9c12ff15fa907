//! The handshake: from a fresh socket to a session, or to nothing.
//!
//! 1. A client that begins with TLS, or asks for it with SSLRequest, is answered by [`Introduction::Upgrade`]: the caller does
//!    the TLS handshake, and goes on with [`introduce_encrypted`]. Without a certificate, and to GSSENCRequest, the answer
//!    is `N`, each at most once. A client must wait for these answers, so bytes behind such a request are an attempt to
//!    smuggle plaintext past an upgrade, and end the connection.
//! 2. A packet is read, exactly as long as it says and no longer than [`PACKET_BYTES_MAX`].
//! 3. CancelRequest is carried out, and the connection ends without a word.
//! 4. A startup packet names a user, a database and settings. Minor versions and `_pq_.` options that are not spoken
//!    here are negotiated down.
//! 5. The rules say what such a user from such a place has to show, and [`auth`] asks for it.
//! 6. The session is opened; AuthenticationOk, the reported settings and the cancel key go out with the first
//!    ReadyForQuery in one write.
//!
//! The caller puts one deadline around all of it. What comes in from this machine through the internal port is believed: the
//! port is for whoever runs the server. Everything else goes by the rules.
//!
//! # Invariants
//! - Nothing behind the packet being read is taken from the socket, so nothing of it can be believed by mistake.

use crate::auth::{self, Claim};
use crate::encode::{self, PROTOCOL_NEWEST};
use crate::error::WireError;
use crate::message::Reader;
use crate::packet::{PACKET_BYTES_MAX, malformed, refusal};
use crate::shared::Shared;
use crate::stream::Stream;
use adapter::session::Session;
use door::entrance::Arrival;
use door::place::Place;
use repr::sqlstate::SqlState;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// A length and a code.
const PACKET_BYTES_MIN: usize = 8;

const CANCEL_REQUEST: u32 = 80_877_102;
const SSL_REQUEST: u32 = 80_877_103;
const GSSENC_REQUEST: u32 = 80_877_104;
/// The first byte of a TLS handshake, which no packet begins with: it would be far too long.
const TLS_HANDSHAKE: u8 = 0x16;
/// Cancel keys are 4 bytes in protocol 3.0 and up to 256 in 3.2; ours always have 4.
const CANCEL_KEY_BYTES_MAX: usize = 256;

/// A packet of the handshake.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Packet {
    /// A wish for TLS or GSSAPI encryption.
    Encryption(Encryption),
    /// A wish to cancel what another connection is doing; without the secret, if it has a shape that is not ours.
    Cancel { connection_id: u32, secret: Option<u32> },
    /// The wish for a session.
    Startup(Startup),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encryption {
    Ssl,
    Gss,
}

/// A startup packet's contents.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Startup {
    pub(crate) user: String,
    pub(crate) database: Option<String>,
    /// Settings, those from `options` included, in the order given.
    pub(crate) settings: Vec<(String, String)>,
    /// Whether the client asked for a minor version that is not spoken here.
    pub(crate) is_newer: bool,
    /// Protocol options (`_pq_.`) that are not known here.
    pub(crate) unknown_options: Vec<String>,
}

/// How a client came to TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upgrade {
    /// It asked with SSLRequest.
    Asked,
    /// It began with TLS.
    Direct,
}

/// What is said to a client that begins with TLS and does not name our protocol: what was meant for another server is not taken for
/// ours.
pub(crate) const NOT_OURS: &str = "received direct SSL connection request without ALPN protocol negotiation extension";

/// How a connection goes on after its first packets.
#[derive(Debug)]
pub(crate) enum Introduction {
    /// As it is; this is what it came for.
    Packet(Packet),
    /// With a TLS handshake, which the client may begin now or has begun.
    Upgrade(Upgrade),
}

/// Reads packets until one is not about encryption, or encryption begins.
///
/// # Cancellation
/// Safe to drop at any time; the connection cannot go on then.
pub(crate) async fn introduce(stream: &mut TcpStream, has_tls: bool) -> Result<Introduction, WireError> {
    let mut first = [0];
    if has_tls && stream.peek(&mut first).await? == 1 && first == [TLS_HANDSHAKE] {
        return Ok(Introduction::Upgrade(Upgrade::Direct));
    }
    let mut refused = Vec::with_capacity(2);
    loop {
        let body = read_packet(stream).await?;
        match packet(&body)? {
            Packet::Encryption(wish) if !refused.contains(&wish) => {
                nothing_behind(stream)?;
                if has_tls && wish == Encryption::Ssl {
                    stream.write_all(b"S").await?;
                    return Ok(Introduction::Upgrade(Upgrade::Asked));
                }
                stream.write_all(b"N").await?;
                refused.push(wish);
            }
            Packet::Encryption(_) => return Err(refusal("encryption was refused already")),
            other => return Ok(Introduction::Packet(other)),
        }
    }
}

/// Reads what a client came for, once it speaks TLS.
///
/// # Cancellation
/// As [`introduce`].
pub(crate) async fn introduce_encrypted(stream: &mut impl Stream) -> Result<Packet, WireError> {
    match packet(&read_packet(stream).await?)? {
        Packet::Encryption(_) => Err(refusal("the connection is encrypted already")),
        other => Ok(other),
    }
}

/// A connection while it is not known yet who comes.
#[derive(Clone, Copy)]
pub(crate) struct Visit<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) arrival: &'a Arrival,
    /// Of everything up to the session. It is never set anew: each step takes from what the steps before have left.
    pub(crate) deadline: Instant,
}

/// Does what a client came for. `None` when it only came to cancel something.
///
/// # Cancellation
/// Safe to drop at any time; a session that was opened is closed by its own drop.
pub(crate) async fn open(
    stream: &mut impl Stream,
    packet: Packet,
    visit: Visit<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Session>, WireError> {
    let Visit { shared: Shared { entrance, .. }, arrival, .. } = visit;
    let client = entrance.client();
    let startup = match packet {
        Packet::Startup(startup) => startup,
        Packet::Cancel { connection_id, secret } => {
            if let Some(secret) = secret {
                client.cancel(connection_id, secret);
            }
            return Ok(None);
        }
        Packet::Encryption(_) => unreachable!("answered by introduce"),
    };
    if startup.is_newer || !startup.unknown_options.is_empty() {
        encode::negotiate_protocol_version(out, &startup.unknown_options);
    }
    let database = client.database_for(&startup.user, startup.database);
    let claim = Claim {
        user: &startup.user,
        database: &database,
        peer: arrival.peer,
        is_encrypted: arrival.is_encrypted,
        end_point: arrival.end_point.as_deref(),
    };
    let method = entrance.method_for(arrival, &startup.user, &database);
    auth::authenticate(stream, claim, method, client, out).await?;
    let place = Place { user: startup.user, database, options: startup.settings, claims: None };
    let session = entrance.connect(arrival, place)?;
    encode::authentication_ok(out);
    for (name, value) in session.parameter_statuses() {
        encode::parameter_status(out, name, &value);
    }
    let (connection_id, secret) = session.backend_key();
    encode::backend_key_data(out, connection_id, secret);
    Ok(Some(session))
}

/// Reads one packet, without its length.
async fn read_packet(stream: &mut impl Stream) -> Result<Vec<u8>, WireError> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length).await {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(WireError::Closed),
        Err(error) => return Err(error.into()),
    }
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if !(PACKET_BYTES_MIN..=PACKET_BYTES_MAX).contains(&length) {
        return Err(refusal("invalid length of startup packet"));
    }
    let mut body = vec![0; length - 4];
    stream.read_exact(&mut body).await?;
    Ok(body)
}

/// Checks that a client waits for the answer to its wish for encryption.
fn nothing_behind(stream: &TcpStream) -> Result<(), WireError> {
    match stream.try_read(&mut [0; 1]) {
        Ok(0) => Err(WireError::Closed),
        Ok(_) => Err(refusal("received unencrypted data after encryption request")),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Reads the body of a packet.
pub(crate) fn packet(body: &[u8]) -> Result<Packet, WireError> {
    let mut reader = Reader(body);
    let code = reader.u32().map_err(malformed)?;
    match code {
        SSL_REQUEST | GSSENC_REQUEST => {
            reader.end().map_err(malformed)?;
            Ok(Packet::Encryption(if code == SSL_REQUEST { Encryption::Ssl } else { Encryption::Gss }))
        }
        CANCEL_REQUEST => {
            let connection_id = reader.u32().map_err(malformed)?;
            let key = reader.0;
            if key.is_empty() || key.len() > CANCEL_KEY_BYTES_MAX {
                return Err(refusal("invalid length of cancel request packet"));
            }
            Ok(Packet::Cancel { connection_id, secret: key.try_into().ok().map(u32::from_be_bytes) })
        }
        version if version >> 16 == PROTOCOL_NEWEST >> 16 => {
            startup(reader, version > PROTOCOL_NEWEST).map(Packet::Startup)
        }
        version => Err(WireError::Startup {
            sqlstate: SqlState::FEATURE_NOT_SUPPORTED,
            message: format!(
                "unsupported frontend protocol {}.{}: server supports 3.0 to 3.0",
                version >> 16,
                version & 0xFFFF
            ),
        }),
    }
}

fn startup(mut reader: Reader<'_>, is_newer: bool) -> Result<Startup, WireError> {
    let mut found = Startup { is_newer, ..Startup::default() };
    loop {
        let name = reader.string().map_err(malformed)?;
        if name.is_empty() {
            break;
        }
        let value = reader.string().map_err(malformed)?;
        match name {
            "user" => found.user = value.to_owned(),
            "database" => found.database = Some(value.to_owned()).filter(|name| !name.is_empty()),
            "options" => command_line(value, &mut found.settings)?,
            "replication" => refuse_replication(value)?,
            option if option.starts_with("_pq_.") => found.unknown_options.push(option.to_owned()),
            setting => found.settings.push((setting.to_owned(), value.to_owned())),
        }
    }
    reader.end().map_err(malformed)?;
    if found.user.is_empty() {
        return Err(WireError::Startup {
            sqlstate: SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
            message: "no PostgreSQL user name specified in startup packet".to_owned(),
        });
    }
    Ok(found)
}

fn refuse_replication(value: &str) -> Result<(), WireError> {
    match value.to_ascii_lowercase().as_str() {
        "false" | "off" | "no" | "0" => Ok(()),
        _ => Err(WireError::Startup {
            sqlstate: SqlState::FEATURE_NOT_SUPPORTED,
            message: "replication connections are not supported".to_owned(),
        }),
    }
}

/// Reads the settings of a server command line: `-c name=value` and `--name=value`, backslash escaping a space.
fn command_line(text: &str, settings: &mut Vec<(String, String)>) -> Result<(), WireError> {
    let mut words = split_words(text).into_iter();
    while let Some(word) = words.next() {
        let assignment = match word.strip_prefix("--") {
            Some(rest) => Some(rest.to_owned()),
            None => match word.strip_prefix("-c") {
                Some("") => words.next(),
                Some(rest) => Some(rest.to_owned()),
                None => None,
            },
        };
        let pair = assignment.as_deref().and_then(|text| text.split_once('='));
        let Some((name, value)) = pair else {
            return Err(WireError::Startup {
                sqlstate: SqlState::SYNTAX_ERROR,
                message: format!("invalid command-line argument for server process: {word}"),
            });
        };
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(())
}

fn split_words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut in_word) = (Vec::new(), String::new(), false);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character.is_ascii_whitespace() {
            if std::mem::take(&mut in_word) {
                words.push(std::mem::take(&mut word));
            }
            continue;
        }
        in_word = true;
        word.extend(if character == '\\' { characters.next() } else { Some(character) });
    }
    if in_word {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::{Encryption, Packet, Startup, packet};
    use crate::error::WireError;
    use proptest::prelude::{any, prop, proptest};

    fn body(code: u32, rest: &[u8]) -> Vec<u8> {
        [&code.to_be_bytes(), rest].concat()
    }

    fn fails(bytes: &[u8]) -> (&'static str, String) {
        let error: WireError = packet(bytes).expect_err("refused");
        assert!(error.is_fatal());
        (error.sqlstate().code(), error.to_string())
    }

    #[test]
    fn a_startup_packet_names_user_database_and_settings() {
        let bytes =
            body(3 << 16, b"user\0u\0database\0d\0options\0-c a=1 --b-c=x\\ y -cd=\0application_name\0psql\0\0");
        let setting = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = Startup {
            user: "u".to_owned(),
            database: Some("d".to_owned()),
            settings: vec![
                setting("a", "1"),
                setting("b_c", "x y"),
                setting("d", ""),
                setting("application_name", "psql"),
            ],
            ..Startup::default()
        };
        assert_eq!(packet(&bytes).expect("well-formed"), Packet::Startup(expected));
    }

    #[test]
    fn newer_minors_and_unknown_options_are_negotiated() {
        let bytes = body((3 << 16) | 9999, b"user\0u\0_pq_.test_protocol_negotiation\0\0\0");
        let Packet::Startup(startup) = packet(&bytes).expect("well-formed") else { panic!("not a startup") };
        assert!(startup.is_newer);
        assert_eq!(startup.unknown_options, ["_pq_.test_protocol_negotiation"]);
    }

    #[test]
    fn requests_without_a_session() {
        assert_eq!(packet(&body(80_877_103, b"")).expect("SSL"), Packet::Encryption(Encryption::Ssl));
        assert_eq!(packet(&body(80_877_104, b"")).expect("GSS"), Packet::Encryption(Encryption::Gss));
        let cancel = body(80_877_102, b"\0\0\0\x07\0\0\0\x09");
        assert_eq!(packet(&cancel).expect("cancel"), Packet::Cancel { connection_id: 7, secret: Some(9) });
        let long = [&cancel[..], &[1; 28]].concat();
        assert_eq!(packet(&long).expect("cancel"), Packet::Cancel { connection_id: 7, secret: None });
        let longer = [&cancel[..], &[1; 300]].concat();
        assert_eq!(fails(&longer).0, "08P01");
    }

    #[test]
    fn what_cannot_be_accepted_is_refused_by_name() {
        assert_eq!(
            fails(&body(2 << 16, b"\0")),
            ("0A000", "unsupported frontend protocol 2.0: server supports 3.0 to 3.0".to_owned())
        );
        assert_eq!(fails(&body(3 << 16, b"\0")).0, "28000");
        assert_eq!(fails(&body(3 << 16, b"user\0u\0")).0, "08P01");
        assert_eq!(fails(&body(3 << 16, b"user\0u\0\0x")).0, "08P01");
        assert_eq!(fails(&body(3 << 16, b"user\0\xff\0\0")).0, "22021");
        assert_eq!(fails(&body(3 << 16, b"user\0u\0replication\0database\0\0")).0, "0A000");
        assert_eq!(fails(&body(3 << 16, b"user\0u\0options\0-x 1\0\0")).0, "42601");
        assert_eq!(fails(&body(80_877_103, b"extra")).0, "08P01");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(code in prop::sample::select(vec![3 << 16, 80_877_102, 80_877_103, 7]),
            rest in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = packet(&body(code, &rest));
            let _ = packet(&rest);
        }
    }
}
