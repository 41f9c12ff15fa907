//! What the sender of a request of HTTP shows, and whether it is let in by it: the name and password of `Authorization: Basic`, or the token
//! of `Bearer`, by the rules that hold for the Postgres door as well.
//!
//! Who names nobody is `materialize`, at the operators' port `mz_system`. A password comes in clear here, and so does a token, so that they
//! are taken over TLS and from this machine only. A password is proved once per connection; after that the connection has a keyed hash of
//! what came. A token is looked at each time: it may have expired.

use crate::entrance::{Arrival, Entrance, Port};
use crate::hba::Method;
use crate::place::Place;
use crate::token::Vouched;
use crate::visitor::Visitor;
use adapter::error::AdapterError;
use adapter::password::Credentials;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, Engine, GeneralPurpose, GeneralPurposeConfig};
use hmac::{Hmac, KeyInit, Mac};
use hyper::header::{HeaderMap, HeaderName};
use repr::sqlstate::SqlState;
use sha2::Sha256;
use std::sync::LazyLock;
use subtle::ConstantTimeEq;

/// Who has not said who it is.
const NOBODY: &str = "materialize";
/// The same at the operators' port.
const OPERATOR: &str = "mz_system";

/// What somebody shows.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub enum Shown {
    /// Nothing.
    Nothing,
    /// A name and a password.
    Password(String, String),
    /// A token, which somebody else has signed.
    Token(String),
    /// A name that it has proved to have before.
    Known(String),
}

/// Why somebody is not let in.
#[derive(Debug)]
pub enum Refused {
    /// What it shows is nothing that can be read.
    Malformed(&'static str),
    /// What it shows is wrong, or missing.
    Wrong(String),
    /// No rule lets it in.
    Denied(String),
    /// It could not be found out.
    Failed(AdapterError),
}

impl Refused {
    /// Its SQLSTATE and what it says.
    pub fn told(&self) -> (SqlState, String) {
        match self {
            Refused::Malformed(why) => (SqlState::PROTOCOL_VIOLATION, (*why).to_owned()),
            Refused::Wrong(why) => (SqlState::INVALID_PASSWORD, why.clone()),
            Refused::Denied(why) => (SqlState::INVALID_AUTHORIZATION_SPECIFICATION, why.clone()),
            Refused::Failed(error) => (error.sqlstate(), error.to_string()),
        }
    }
}

/// Who is let in.
#[derive(Debug)]
pub struct Admitted {
    /// As whom, and to which database, without parameters.
    pub place: Place,
    /// Whether by a rule alone: whoever else has made it send the request has had it let in.
    pub is_trusted: bool,
}

/// Base64 that is filled up or not.
const UNFILLED: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The key of what connections remember of passwords; of this process alone.
static KEY: LazyLock<[u8; 32]> = LazyLock::new(rand::random);

impl Shown {
    /// What the value of `Authorization` shows. Errors: malformed, and wrong of a scheme that is not known.
    pub fn parse(value: &str) -> Result<Shown, Refused> {
        let Some((scheme, encoded)) = value.split_once(' ') else {
            return Err(Refused::Malformed("the header Authorization is malformed"));
        };
        if scheme.eq_ignore_ascii_case("bearer") {
            return Ok(Shown::Token(encoded.trim().to_owned()));
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            let message = format!("Authorization: {scheme:.20} is not known here, Basic and Bearer are");
            return Err(Refused::Wrong(message));
        }
        Shown::basic(encoded.trim())
    }

    /// A name and a password in base64, as Basic has them; some clients leave out what fills it up (Go's of Flight).
    fn basic(encoded: &str) -> Result<Shown, Refused> {
        let malformed =
            || Refused::Malformed("Authorization: Basic is not followed by a name and a password in base64");
        let decoded = UNFILLED.decode(encoded).map_err(|_| malformed())?;
        let decoded = String::from_utf8(decoded).map_err(|_| malformed())?;
        let (user, password) = decoded.split_once(':').ok_or_else(malformed)?;
        Ok(Shown::Password(user.to_owned(), password.to_owned()))
    }
}

/// The value of a header that may come once. Errors: what is wrong with it.
pub fn single(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, String> {
    let mut values = headers.get_all(&name).iter();
    let (first, second) = (values.next(), values.next());
    if second.is_some() {
        return Err(format!("the header {name} came more than once"));
    }
    first.map(|value| value.to_str().map_err(|_| format!("the header {name} is no text"))).transpose()
}

/// Who it is by what it shows, and where it wants to go.
pub async fn admit<T>(
    visitor: &Visitor<T>,
    entrance: &Entrance,
    shown: Shown,
    database: Option<String>,
) -> Result<Admitted, Refused> {
    let arrival = &visitor.arrival;
    let (user, claims) = match (&shown, arrival.port) {
        (Shown::Password(user, _) | Shown::Known(user), _) => (user.clone(), None),
        (Shown::Token(token), _) => {
            let Vouched { role, claims } = vouched_for(arrival, entrance, token)?;
            (role, Some(claims.into()))
        }
        (Shown::Nothing, Port::External) => (NOBODY.to_owned(), None),
        (Shown::Nothing, Port::Internal) => (OPERATOR.to_owned(), None),
    };
    let database = entrance.client().database_for(&user, database);
    let is_trusted = match entrance.method_for(arrival, &user, &database) {
        None | Some(Method::Reject) => {
            let from = arrival.peer.map_or_else(|| "???".to_owned(), |peer| peer.ip().to_canonical().to_string());
            let message = format!("no rule lets user \"{user}\" in from host \"{from}\" to database \"{database}\"");
            return Err(Refused::Denied(message));
        }
        // No page of a stranger has a token.
        Some(_) if matches!(shown, Shown::Token(_) | Shown::Known(_)) => false,
        Some(Method::Trust) => true,
        Some(Method::ScramSha256 | Method::Password) => {
            let Shown::Password(user, password) = shown else {
                return Err(Refused::Wrong("a name and a password are needed, or a token".to_owned()));
            };
            // In room of its own: most requests have nothing to prove.
            Box::pin(prove(visitor, entrance, &user, password)).await?;
            false
        }
    };
    Ok(Admitted { place: Place { user, database, options: Vec::new(), claims }, is_trusted })
}

/// Checks a password, unless this connection has shown it before.
async fn prove<T>(visitor: &Visitor<T>, entrance: &Entrance, user: &str, password: String) -> Result<(), Refused> {
    let arrival = &visitor.arrival;
    check_unheard(arrival, "a password")?;
    // A password that was changed since, or has run out, is not known any more.
    let Credentials { verifier, refusal } = entrance.client().credentials(user);
    let hash = keyed_hash(&*KEY, &[user, &password, &verifier.to_string()]);
    let is_known = visitor.proved.lock().as_ref().is_some_and(|(of, known)| of == user && known.ct_eq(&hash).into());
    if is_known && refusal.is_none() {
        return Ok(());
    }
    let refused = match password.is_empty() {
        true => Some("the password is empty"),
        false => entrance.client().check_password(user, password).await.map_err(Refused::Failed)?.err(),
    };
    match refused {
        None => {
            *visitor.proved.lock() = Some((user.to_owned(), hash));
            Ok(())
        }
        Some(why) => {
            tracing::info!(user, peer = ?arrival.peer, why, "a login was refused");
            Err(Refused::Wrong(format!("password authentication failed for user \"{user}\"")))
        }
    }
}

/// Refuses what others on the way could have heard.
pub fn check_unheard(arrival: &Arrival, what: &str) -> Result<(), Refused> {
    match arrival.is_encrypted || arrival.peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback()) {
        true => Ok(()),
        false => Err(Refused::Denied(format!("{what} is taken over TLS only: use https"))),
    }
}

/// What a token says. Errors: 401 of one that is nobody's.
fn vouched_for(arrival: &Arrival, entrance: &Entrance, token: &str) -> Result<Vouched, Refused> {
    check_unheard(arrival, "a token")?;
    let Some(tokens) = entrance.tokens() else {
        return Err(Refused::Wrong("nobody's tokens are taken here".to_owned()));
    };
    tokens.read(token).map_err(|why| {
        tracing::info!(peer = ?arrival.peer, %why, "a token was refused");
        Refused::Wrong("the token is not valid".to_owned())
    })
}

/// Of texts, none of which can be taken for a part of its neighbour.
pub fn keyed_hash(key: &[u8], parts: &[&str]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length will do");
    for part in parts {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part.as_bytes());
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::prelude::BASE64_STANDARD;

    #[test]
    fn names_and_passwords_are_taken_apart() {
        let password = |user: &str, password: &str| Shown::Password(user.to_owned(), password.to_owned());
        let encoded = |text: &str| format!("Basic {}", BASE64_STANDARD.encode(text));
        for (text, user, word) in [("ada:x", "ada", "x"), ("a::b:", "a", ":b:"), ("é:ü", "é", "ü"), (":", "", "")] {
            assert_eq!(Shown::parse(&encoded(text)).expect("well-formed"), password(user, word), "{text}");
        }
        for text in ["ada:x", "ada:xy", "ada:xyz"] {
            let unfilled = encoded(text).trim_end_matches('=').to_owned();
            assert_eq!(Shown::parse(&unfilled).expect("well-formed"), password("ada", &text[4..]), "{unfilled}");
        }
        let mixed = encoded("a:b").replace("Basic", "bAsIc");
        assert_eq!(Shown::parse(&mixed).expect("well-formed"), password("a", "b"));
        assert_eq!(Shown::parse("bearer x.y.z").expect("well-formed"), Shown::Token("x.y.z".to_owned()));
        for value in ["", "Basic", "Basic ", "Basic !!!", "Basic YQ==", "Bearer", "Digest x", "Basic /w=="] {
            assert!(Shown::parse(value).is_err(), "{value}");
        }
    }

    #[test]
    fn a_hash_is_of_name_password_and_verifier() {
        let hash = |parts: &[&str]| keyed_hash(b"key", parts);
        assert_eq!(hash(&["a", "b", "c"]), hash(&["a", "b", "c"]));
        assert_ne!(hash(&["a", "b", "c"]), keyed_hash(b"yek", &["a", "b", "c"]));
        for parts in [["a", "c", "c"], ["b", "b", "c"], ["ab", "", "c"], ["", "ab", "c"], ["a", "b", "d"]] {
            assert_ne!(hash(&["a", "b", "c"]), hash(&parts));
        }
    }
}
