//! SCRAM-SHA-256, the server's half (RFC 5802, RFC 7677), as Postgres speaks it.
//!
//! 1. [`Challenge::new`] reads the client's first message and answers with salt, iterations and our half of the nonce.
//! 2. [`Challenge::verify`] reads its last message, and answers with our signature if the proof is right.
//!
//! With SCRAM-SHA-256-PLUS the client also says which certificate it saw, so that nobody in between, with a certificate of
//! his own, can pass the messages on. A client that says that it could have done so but was not offered it is told of the
//! attack: it was, so somebody has changed our offer.
//!
//! The user's name in the messages is ignored, as in Postgres: the startup packet has it.

use base64::prelude::{BASE64_STANDARD, Engine};
use catalog::verifier::{KEY_BYTES, Verifier};
use repr::sqlstate::SqlState;

/// The mechanism, as it is offered.
pub const PLAIN: &str = "SCRAM-SHA-256";
/// The same, bound to the TLS connection that it happens in.
pub const PLUS: &str = "SCRAM-SHA-256-PLUS";
/// The one way of binding that there is: by the hash of our certificate.
const BINDING: &str = "tls-server-end-point";

/// Why an exchange has ended, as its client is told.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// The class of the error.
    pub sqlstate: SqlState,
    /// What is wrong.
    pub message: String,
}

/// An exchange, between our two messages.
#[derive(Debug)]
pub struct Challenge {
    /// What the client said first, without its header, and what we answered.
    client_first: String,
    server_first: String,
    /// Both halves.
    nonce: String,
    /// What the client has to repeat: its header and, if it is bound, the end point.
    binding: Vec<u8>,
    is_bound: bool,
}

impl Challenge {
    /// Reads the client's first message. `end_point` is what a client may bind itself to: with one, we have offered
    /// [`PLUS`]. Errors: a malformed message, a mechanism that was not offered, or an offer that was tampered with.
    pub fn new(
        mechanism: &str,
        message: &[u8],
        verifier: &Verifier,
        end_point: Option<&[u8]>,
        server_nonce: &str,
    ) -> Result<Challenge, Refused> {
        let is_bound = match mechanism {
            PLAIN => false,
            PLUS if end_point.is_some() => true,
            _ => return Err(violation("client selected an invalid SASL authentication mechanism")),
        };
        let message = std::str::from_utf8(message).map_err(|_| malformed("it is not UTF-8"))?;
        let (flag, rest) = message.split_once(',').ok_or_else(|| malformed("it has no header"))?;
        let (authorization, bare) = rest.split_once(',').ok_or_else(|| malformed("it has no header"))?;
        check_binding(flag, is_bound, end_point.is_some())?;
        if !authorization.is_empty() {
            let message = "client uses authorization identity, but it is not supported".to_owned();
            return Err(Refused { sqlstate: SqlState::FEATURE_NOT_SUPPORTED, message });
        }
        let mut attributes = bare.split(',');
        let user = attributes.next().unwrap_or_default();
        if user.starts_with("m=") {
            let message = "client requires an unsupported SCRAM extension".to_owned();
            return Err(Refused { sqlstate: SqlState::FEATURE_NOT_SUPPORTED, message });
        }
        if !user.starts_with("n=") {
            return Err(malformed("it names no user"));
        }
        let client_nonce = attributes.next().and_then(|nonce| nonce.strip_prefix("r="));
        let client_nonce = client_nonce.filter(|nonce| is_nonce(nonce)).ok_or_else(|| malformed("it has no nonce"))?;
        let nonce = format!("{client_nonce}{server_nonce}");
        let salt = BASE64_STANDARD.encode(verifier.salt());
        let server_first = format!("r={nonce},s={salt},i={}", verifier.iterations());
        let mut binding = message.as_bytes()[..message.len() - bare.len()].to_vec();
        binding.extend_from_slice(end_point.filter(|_| is_bound).unwrap_or_default());
        Ok(Challenge { client_first: bare.to_owned(), server_first, nonce, binding, is_bound })
    }

    /// Our first message.
    pub fn message(&self) -> &str {
        &self.server_first
    }

    /// Reads the client's last message, and gives ours; `None` if the proof is wrong. Errors: a malformed message, another
    /// nonce, or another certificate.
    pub fn verify(&self, message: &[u8], verifier: &Verifier) -> Result<Option<String>, Refused> {
        let message = std::str::from_utf8(message).map_err(|_| malformed("it is not UTF-8"))?;
        let (without_proof, proof) = message.rsplit_once(",p=").ok_or_else(|| malformed("it has no proof"))?;
        let mut attributes = without_proof.split(',');
        let binding = attributes.next().and_then(|binding| binding.strip_prefix("c="));
        let binding = binding.ok_or_else(|| malformed("it repeats no header"))?;
        if BASE64_STANDARD.decode(binding).ok().as_ref() != Some(&self.binding) {
            return Err(match self.is_bound {
                true => denied("SCRAM channel binding check failed"),
                false => violation("unexpected SCRAM channel-binding attribute in client-final-message"),
            });
        }
        if attributes.next().and_then(|nonce| nonce.strip_prefix("r=")) != Some(&self.nonce) {
            return Err(violation("invalid SCRAM response: the nonce does not match"));
        }
        let proof = BASE64_STANDARD.decode(proof).ok().and_then(|proof| <[u8; KEY_BYTES]>::try_from(proof).ok());
        let proof = proof.ok_or_else(|| malformed("its proof is malformed"))?;
        let exchange = format!("{},{},{without_proof}", self.client_first, self.server_first);
        let signature = || format!("v={}", BASE64_STANDARD.encode(verifier.server_signature(exchange.as_bytes())));
        Ok(verifier.accepts_proof(exchange.as_bytes(), &proof).then(signature))
    }
}

/// The client's word on channel binding agrees with the mechanism that it chose and with what we have offered.
fn check_binding(flag: &str, is_bound: bool, is_offered: bool) -> Result<(), Refused> {
    match (flag, is_bound) {
        ("n", false) => Ok(()),
        // It can, and believes that we cannot.
        ("y", false) if is_offered => Err(denied("SCRAM channel binding negotiation error")),
        ("y", false) => Ok(()),
        ("n" | "y", true) => Err(malformed("SCRAM-SHA-256-PLUS was chosen without channel binding data")),
        _ => match flag.strip_prefix("p=") {
            Some(BINDING) if is_bound => Ok(()),
            Some(_) if is_bound => Err(violation("unsupported SCRAM channel-binding type")),
            Some(_) => Err(malformed("SCRAM-SHA-256 was chosen with channel binding data")),
            None => Err(malformed("its channel binding flag is unknown")),
        },
    }
}

/// Printable ASCII; a comma cannot get here.
fn is_nonce(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| matches!(byte, 0x21..=0x7e))
}

fn malformed(why: &str) -> Refused {
    violation(&format!("malformed SCRAM message: {why}"))
}

fn violation(message: &str) -> Refused {
    Refused { sqlstate: SqlState::PROTOCOL_VIOLATION, message: message.to_owned() }
}

fn denied(message: &str) -> Refused {
    Refused { sqlstate: SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::{BASE64_STANDARD, Challenge, Engine, PLAIN, PLUS};
    use catalog::verifier::{MockSecret, Verifier};
    use proptest::prelude::{any, prop, prop_oneof, proptest};

    const END_POINT: &[u8] = b"certificate";

    fn verifier() -> Verifier {
        Verifier::derive("pencil", &BASE64_STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64"), 4096)
    }

    fn challenge(mechanism: &str, first: &str, end_point: Option<&[u8]>) -> Result<Challenge, &'static str> {
        let nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        Challenge::new(mechanism, first.as_bytes(), &verifier(), end_point, nonce)
            .map_err(|error| error.sqlstate.code())
    }

    #[test]
    fn the_exchange_of_the_standard() {
        let challenge = challenge(PLAIN, "n,,n=user,r=rOprNGfwEbeRWgbNEkqO", None).expect("a challenge");
        let server_first = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        assert_eq!(challenge.message(), server_first);
        let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let answer = challenge.verify(last.as_bytes(), &verifier()).expect("well-formed");
        assert_eq!(answer.as_deref(), Some("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        let wrong = last.replace("dHzb", "dHzc");
        assert_eq!(challenge.verify(wrong.as_bytes(), &verifier()).expect("well-formed"), None);
    }

    #[test]
    fn what_the_client_says_of_channel_binding_has_to_agree() {
        let first = |flag: &str| format!("{flag},,n=,r=abc");
        for (mechanism, flag, end_point, expected) in [
            (PLAIN, "n", None, None),
            (PLAIN, "y", None, None),
            (PLAIN, "n", Some(END_POINT), None),
            (PLUS, "p=tls-server-end-point", Some(END_POINT), None),
            // Somebody has taken PLUS out of our offer.
            (PLAIN, "y", Some(END_POINT), Some("28000")),
            (PLUS, "n", Some(END_POINT), Some("08P01")),
            (PLUS, "y", Some(END_POINT), Some("08P01")),
            (PLUS, "p=tls-unique", Some(END_POINT), Some("08P01")),
            (PLAIN, "p=tls-server-end-point", Some(END_POINT), Some("08P01")),
            (PLAIN, "x", None, Some("08P01")),
            // Not offered.
            (PLUS, "p=tls-server-end-point", None, Some("08P01")),
            ("SCRAM-SHA-1", "n", None, Some("08P01")),
        ] {
            let refused = challenge(mechanism, &first(flag), end_point).err();
            assert_eq!(refused, expected, "{mechanism} {flag}");
        }
    }

    #[test]
    fn the_last_message_repeats_what_was_agreed() {
        let challenge = challenge(PLUS, "p=tls-server-end-point,,n=,r=abc", Some(END_POINT)).expect("a challenge");
        let proof = BASE64_STANDARD.encode([0; 32]);
        let code = |header: &[u8], nonce: &str, proof: &str| {
            let last = format!("c={},r={nonce},p={proof}", BASE64_STANDARD.encode(header));
            challenge.verify(last.as_bytes(), &verifier()).map_err(|error| error.sqlstate.code())
        };
        let (header, nonce) = (b"p=tls-server-end-point,,certificate", "abc%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0");
        assert_eq!(code(header, nonce, &proof), Ok(None));
        assert_eq!(code(b"p=tls-server-end-point,,another", nonce, &proof), Err("28000"));
        assert_eq!(code(b"p=tls-server-end-point,,", nonce, &proof), Err("28000"));
        assert_eq!(code(b"n,,", nonce, &proof), Err("28000"));
        assert_eq!(code(header, "abc", &proof), Err("08P01"));
        assert_eq!(code(header, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", &proof), Err("08P01"));
        for proof in ["", "AAAA", "!", &format!("{proof}AAAA")] {
            assert_eq!(code(header, nonce, proof), Err("08P01"), "{proof}");
        }
    }

    #[test]
    fn what_is_asked_for_beyond_that_is_refused() {
        assert_eq!(challenge(PLAIN, "n,a=other,n=,r=abc", None).err(), Some("0A000"));
        assert_eq!(challenge(PLAIN, "n,,m=ext,n=,r=abc", None).err(), Some("0A000"));
        for first in ["", "n", "n,", "n,,", "n,,n=", "n,,n=,r=", "n,,r=abc", "n,,n=,r=a c", "n,,n=,x=abc"] {
            assert_eq!(challenge(PLAIN, first, None).err(), Some("08P01"), "{first}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            first in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..60),
                prop::collection::vec(prop::sample::select(b"npyrcm=,a".to_vec()), 0..20),
            ],
            last in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..60),
                prop::collection::vec(prop::sample::select(b"crp=,ab".to_vec()), 0..20),
            ]) {
            let verifier = Verifier::mock(&MockSecret::default(), "");
            for mechanism in [PLAIN, PLUS] {
                let _ = Challenge::new(mechanism, &first, &verifier, Some(END_POINT), "n");
            }
            let challenge = Challenge::new(PLAIN, b"n,,n=,r=abc", &verifier, None, "n").expect("well-formed");
            let _ = challenge.verify(&last, &verifier);
        }
    }
}
