//! What is stored in place of a password: enough to check one, too little to log in with.
//!
//! A [`Verifier`] is that of SCRAM-SHA-256 (RFC 5802, RFC 7677), in the text form that Postgres stores and tools exchange:
//! `SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey`. From a password it follows by as many rounds of HMAC as it says,
//! which takes milliseconds on purpose; checking a proof takes two.
//!
//! Who has no password gets a verifier all the same ([`Verifier::mock`]): the same one each time, which nothing fits, so
//! that what is not there looks like what is.
//!
//! # Invariants
//! - `Verifier::parse(&verifier.to_string()) == Some(verifier)`.
//! - `Debug` shows nothing of it.

use base64::prelude::{BASE64_STANDARD, Engine};
use hmac::{Hmac, KeyInit, Mac};
use rand::Rng;
use sha2::{Digest, Sha256};
use std::fmt;
use subtle::ConstantTimeEq;

/// How the text form begins.
const NAME: &str = "SCRAM-SHA-256";
/// The rounds of a password that we hash; Postgres's default.
pub const ITERATIONS: u32 = 4096;
/// The most rounds that a verifier may ask for: half a second. Text from a user must not keep a thread busy for hours.
pub const ITERATIONS_MAX: u32 = 1_000_000;
/// The bytes of a salt that we make; as Postgres makes them.
pub const SALT_BYTES: usize = 16;
/// The bytes of a key, a signature and a proof.
pub const KEY_BYTES: usize = 32;

/// What a password is checked against.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: [u8; KEY_BYTES],
    server_key: [u8; KEY_BYTES],
}

impl Verifier {
    /// Hashes a password; slow.
    pub fn derive(password: &str, salt: &[u8], iterations: u32) -> Verifier {
        let salted = salted(password, salt, iterations);
        let client_key = hmac(&salted, &[b"Client Key"]);
        let stored_key = Sha256::digest(client_key).into();
        let server_key = hmac(&salted, &[b"Server Key"]);
        Verifier { iterations, salt: salt.to_vec(), stored_key, server_key }
    }

    /// What a user without a password is asked for, told by a secret of the server from everybody else's. Nothing fits.
    pub fn mock(secret: &MockSecret, user: &str) -> Verifier {
        let part = |what: &str| hmac(&secret.0, &[what.as_bytes(), user.as_bytes()]);
        let salt = part("salt:")[..SALT_BYTES].to_vec();
        Verifier { iterations: ITERATIONS, salt, stored_key: part("stored:"), server_key: part("server:") }
    }

    /// Reads the text form. `None` if it is none, or asks for more than [`ITERATIONS_MAX`] rounds.
    pub fn parse(text: &str) -> Option<Verifier> {
        let (first, keys) = text.strip_prefix(NAME)?.strip_prefix('$')?.split_once('$')?;
        let (iterations, salt) = first.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        let key = |text: &str| <[u8; KEY_BYTES]>::try_from(BASE64_STANDARD.decode(text).ok()?).ok();
        Some(Verifier {
            iterations: iterations.parse().ok().filter(|count| (1..=ITERATIONS_MAX).contains(count))?,
            salt: BASE64_STANDARD.decode(salt).ok()?,
            stored_key: key(stored_key)?,
            server_key: key(server_key)?,
        })
    }

    /// Whether the text means to be a verifier, also one that cannot be read.
    pub fn is_meant(text: &str) -> bool {
        text.strip_prefix(NAME).is_some_and(|rest| rest.starts_with('$') && rest.matches('$').count() == 2)
    }

    /// How often a client has to hash.
    pub fn iterations(&self) -> u32 {
        self.iterations
    }

    /// With what.
    pub fn salt(&self) -> &[u8] {
        &self.salt
    }

    /// Whether this is the password; slow, and as slow if it is not.
    pub fn accepts_password(&self, password: &str) -> bool {
        let given = Verifier::derive(password, &self.salt, self.iterations);
        given.stored_key.ct_eq(&self.stored_key).into()
    }

    /// Whether who made this proof for the exchange `auth_message` knows the password.
    pub fn accepts_proof(&self, auth_message: &[u8], proof: &[u8; KEY_BYTES]) -> bool {
        let signature = hmac(&self.stored_key, &[auth_message]);
        let mut client_key = *proof;
        client_key.iter_mut().zip(signature).for_each(|(byte, mask)| *byte ^= mask);
        Sha256::digest(client_key).ct_eq(&self.stored_key).into()
    }

    /// By what the client knows that we have the verifier.
    pub fn server_signature(&self, auth_message: &[u8]) -> [u8; KEY_BYTES] {
        hmac(&self.server_key, &[auth_message])
    }
}

/// A secret of this server, made once.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct MockSecret([u8; KEY_BYTES]);

impl MockSecret {
    /// A new one.
    pub fn random() -> MockSecret {
        MockSecret(rand::rng().random())
    }

    /// Reads what [`MockSecret::bytes`] gave.
    pub fn from_bytes(bytes: &[u8]) -> Option<MockSecret> {
        bytes.try_into().ok().map(MockSecret)
    }

    /// What is stored of it; `None` if none was made yet.
    pub fn bytes(&self) -> Option<&[u8]> {
        (self.0 != [0; KEY_BYTES]).then_some(&self.0)
    }
}

impl fmt::Debug for MockSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MockSecret")
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| BASE64_STANDARD.encode(bytes);
        let (salt, stored_key, server_key) = (text(&self.salt), text(&self.stored_key), text(&self.server_key));
        write!(f, "{NAME}${}:{salt}${stored_key}:{server_key}", self.iterations)
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}

/// SaltedPassword: PBKDF2 with one block. As Postgres has it, a password that SASLprep refuses is taken as it is.
fn salted(password: &str, salt: &[u8], iterations: u32) -> [u8; KEY_BYTES] {
    let prepared = stringprep::saslprep(password).unwrap_or(password.into());
    let keyed = keyed(prepared.as_bytes());
    let sign = |parts: &[&[u8]]| {
        let mut mac = keyed.clone();
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes()
    };
    let mut round = sign(&[salt, &1_u32.to_be_bytes()]);
    let mut result = round;
    for _ in 1..iterations {
        round = sign(&[&round]);
        result.iter_mut().zip(round).for_each(|(byte, other)| *byte ^= other);
    }
    result.into()
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; KEY_BYTES] {
    let mut mac = keyed(key);
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

#[cfg(test)]
mod tests {
    use super::{BASE64_STANDARD, Engine, ITERATIONS, MockSecret, SALT_BYTES, Verifier};

    /// What PostgreSQL stored for the password `pencil`.
    const POSTGRES: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

    #[test]
    fn a_verifier_is_what_postgres_makes() {
        let salt = BASE64_STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
        let verifier = Verifier::derive("pencil", &salt, ITERATIONS);
        assert_eq!(verifier.to_string(), POSTGRES);
        assert_eq!(Verifier::parse(POSTGRES), Some(verifier.clone()));
        assert!(verifier.accepts_password("pencil"));
        for wrong in ["", "pencil ", "Pencil"] {
            assert!(!verifier.accepts_password(wrong), "{wrong}");
        }
    }

    #[test]
    fn passwords_are_normalised() {
        let verifier = |password| Verifier::derive(password, b"salt", 1);
        // The examples of RFC 4013; what it forbids is taken as it stands.
        assert_eq!(verifier("I\u{ad}X"), verifier("IX"));
        assert_eq!(verifier("\u{aa}"), verifier("a"));
        assert_eq!(verifier("\u{2168}"), verifier("IX"));
        assert_ne!(verifier("a\u{7}"), verifier("a"));
    }

    #[test]
    fn a_proof_is_checked_against_what_is_stored() {
        // The exchange of RFC 7677.
        let verifier = Verifier::parse(POSTGRES).expect("a verifier");
        let message = "n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let decode = |text: &str| BASE64_STANDARD.decode(text).expect("base64").try_into().expect("32 bytes");
        let mut proof: [u8; 32] = decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        assert!(verifier.accepts_proof(message.as_bytes(), &proof));
        let signature: [u8; 32] = decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        assert_eq!(verifier.server_signature(message.as_bytes()), signature);
        proof[31] ^= 1;
        assert!(!verifier.accepts_proof(message.as_bytes(), &proof));
    }

    #[test]
    fn what_is_no_verifier_is_none() {
        for text in [
            "",
            "pencil",
            "md5d41d8cd98f00b204e9800998ecf8427e",
            "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==",
            "SCRAM-SHA-256$0:W22Z$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=",
            "SCRAM-SHA-256$2147483647:W22Z$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=",
            "SCRAM-SHA-256$4096:W22Z$WG5d8oPm:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=",
        ] {
            assert_eq!(Verifier::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_mock_is_one_of_a_kind_and_fits_nothing() {
        let (secret, other) = (MockSecret::random(), MockSecret::random());
        let mock = Verifier::mock(&secret, "a");
        assert_eq!(mock, Verifier::mock(&secret, "a"));
        assert_ne!(mock.salt(), Verifier::mock(&secret, "b").salt());
        assert_ne!(mock.salt(), Verifier::mock(&other, "a").salt());
        assert!(!mock.accepts_password(""));
        assert_eq!((mock.iterations(), mock.salt().len()), (ITERATIONS, SALT_BYTES));
        assert_eq!(format!("{mock:?} {secret:?}"), "Verifier MockSecret");
        assert_eq!(secret.bytes().and_then(MockSecret::from_bytes), Some(secret));
    }
}
