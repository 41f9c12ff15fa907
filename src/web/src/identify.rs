//! Who sends a request, and whether a page of somebody else's has made a browser send it.
//!
//! Who: the name and password of `Authorization: Basic`, or the token of `Bearer`, by the rules that hold for the Postgres door as well. Who
//! names nobody is `materialize`, at the operators' port `mz_system`. A password comes in clear here, and so does a token, so that they are
//! taken over TLS and from this machine only. A password is proved once per connection; after that the connection has a keyed hash of what
//! came. A token is looked at each time: it may have expired.
//!
//! Whose page: a browser that was given our name by a stranger (`Host`), or sends what a stranger's page asks for (`Origin`), acts for its
//! user, who may be trusted by rule. Both are refused unless configured.

use crate::shared::Shared;
use crate::told::Refusal;
use crate::visitor::Visitor;
use adapter::password::Credentials;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use base64::prelude::{BASE64_STANDARD, Engine};
use door::entrance::{Arrival, Entrance, Port};
use door::hba::Method;
use hmac::{Hmac, KeyInit, Mac};
use repr::sqlstate::SqlState;
use sha2::Sha256;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use subtle::ConstantTimeEq;

/// Who has not said who it is.
const NOBODY: &str = "materialize";
/// The same at the operators' port.
const OPERATOR: &str = "mz_system";

/// Where a browser says that the page is that sends a request.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What somebody shows.
#[derive(PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(crate) enum Shown {
    /// Nothing.
    Nothing,
    /// A name and a password.
    Password(String, String),
    /// A token, which somebody else has signed.
    Token(String),
}

/// The key of what connections remember of passwords; of this process alone.
static KEY: LazyLock<[u8; 32]> = LazyLock::new(rand::random);

/// How the client has called us, unless a page of a stranger has made a browser send it, which is refused.
pub(crate) fn check_visit<'r>(visitor: &Visitor, request: &'r Parts) -> Result<&'r str, Refusal> {
    let host = host(request)?;
    check_origin(&visitor.shared, &visitor.arrival, host, &request.headers)?;
    Ok(host)
}

/// Who sends a request, and where it wants to go. Errors: those of [`check_visit`] and [`admit`], 400 of a header that is none.
pub(crate) async fn identify(
    visitor: &Visitor,
    request: &Parts,
    database: Option<String>,
) -> Result<(Arc<Entrance>, String, String), Refusal> {
    let host = check_visit(visitor, request)?;
    admit(visitor, host, shown(&request.headers)?, database).await
}

/// Who it is by what it shows, and where it wants to go. Errors: 401 of what is wrong or missing, 403 of who is not let in, 503 before SQL is
/// served.
pub(crate) async fn admit(
    visitor: &Visitor,
    host: &str,
    shown: Shown,
    database: Option<String>,
) -> Result<(Arc<Entrance>, String, String), Refusal> {
    let entrance = visitor.shared.entrance()?;
    let arrival = &visitor.arrival;
    let user = match (&shown, arrival.port) {
        (Shown::Password(user, _), _) => user.clone(),
        (Shown::Token(token), _) => vouched_for(arrival, entrance, token)?,
        (Shown::Nothing, Port::External) => NOBODY.to_owned(),
        (Shown::Nothing, Port::Internal) => OPERATOR.to_owned(),
    };
    let database = entrance.client().database_for(&user, database);
    match entrance.method_for(arrival, &user, &database) {
        None | Some(Method::Reject) => {
            let from = arrival.peer.map_or_else(|| "???".to_owned(), |peer| peer.ip().to_canonical().to_string());
            let message = format!("no rule lets user \"{user}\" in from host \"{from}\" to database \"{database}\"");
            Err(denied(message))
        }
        // No page of a stranger has a token.
        Some(_) if matches!(shown, Shown::Token(_)) => Ok((Arc::clone(entrance), user, database)),
        Some(Method::Trust) => {
            check_host(&visitor.shared, host)?;
            Ok((Arc::clone(entrance), user, database))
        }
        Some(Method::ScramSha256 | Method::Password) => {
            let Shown::Password(user, password) = shown else {
                return Err(wrong("a name and a password are needed, or a token".to_owned()));
            };
            prove(visitor, entrance, &user, password).await?;
            Ok((Arc::clone(entrance), user, database))
        }
    }
}

/// Checks a password, unless this connection has shown it before.
async fn prove(visitor: &Visitor, entrance: &Entrance, user: &str, password: String) -> Result<(), Refusal> {
    let arrival = &visitor.arrival;
    check_unheard(arrival, "a password")?;
    // A password that was changed since, or has run out, is not known any more.
    let Credentials { verifier, refusal } = entrance.client().credentials(user);
    let hash = keyed_hash(user, &password, &verifier.to_string());
    let is_known = visitor.proved.lock().as_ref().is_some_and(|(of, known)| of == user && known.ct_eq(&hash).into());
    if is_known && refusal.is_none() {
        return Ok(());
    }
    let refused = match password.is_empty() {
        true => Some("the password is empty"),
        false => entrance.client().check_password(user, password).await?.err(),
    };
    match refused {
        None => {
            *visitor.proved.lock() = Some((user.to_owned(), hash));
            Ok(())
        }
        Some(why) => {
            tracing::info!(user, peer = ?arrival.peer, why, "a login was refused");
            Err(wrong(format!("password authentication failed for user \"{user}\"")))
        }
    }
}

/// Refuses what others on the way could have heard.
fn check_unheard(arrival: &Arrival, what: &str) -> Result<(), Refusal> {
    match arrival.is_encrypted || arrival.peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback()) {
        true => Ok(()),
        false => Err(denied(format!("{what} is taken over TLS only: use https"))),
    }
}

/// The role that a token names. Errors: 401 of one that is nobody's.
fn vouched_for(arrival: &Arrival, entrance: &Entrance, token: &str) -> Result<String, Refusal> {
    check_unheard(arrival, "a token")?;
    let Some(tokens) = entrance.tokens() else { return Err(wrong("nobody's tokens are taken here".to_owned())) };
    tokens.role_of(token).map_err(|why| {
        tracing::info!(peer = ?arrival.peer, %why, "a token was refused");
        wrong("the token is not valid".to_owned())
    })
}

/// Of what was shown, and what it was compared with.
fn keyed_hash(user: &str, password: &str, verifier: &str) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(&*KEY).expect("a key of any length will do");
    for part in [user, password, verifier] {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part.as_bytes());
    }
    mac.finalize().into_bytes().into()
}

fn denied(message: String) -> Refusal {
    Refusal::new(StatusCode::FORBIDDEN, SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message)
}

fn wrong(message: String) -> Refusal {
    Refusal::new(StatusCode::UNAUTHORIZED, SqlState::INVALID_PASSWORD, message)
}

/// What a request shows. Errors: 400 of a header that is none, 401 of a scheme that is not known.
fn shown(headers: &HeaderMap) -> Result<Shown, Refusal> {
    let Some(value) = single(headers, header::AUTHORIZATION)? else { return Ok(Shown::Nothing) };
    let Some((scheme, encoded)) = value.split_once(' ') else {
        return Err(Refusal::malformed("the header Authorization is malformed"));
    };
    if scheme.eq_ignore_ascii_case("bearer") {
        return Ok(Shown::Token(encoded.trim().to_owned()));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(wrong(format!("Authorization: {scheme:.20} is not known here, Basic and Bearer are")));
    }
    let malformed = || Refusal::malformed("Authorization: Basic is not followed by a name and a password in base64");
    let decoded = BASE64_STANDARD.decode(encoded.trim()).map_err(|_| malformed())?;
    let decoded = String::from_utf8(decoded).map_err(|_| malformed())?;
    let (user, password) = decoded.split_once(':').ok_or_else(malformed)?;
    Ok(Shown::Password(user.to_owned(), password.to_owned()))
}

/// The value of a header that may come once.
pub(crate) fn single(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Refusal> {
    let mut values = headers.get_all(&name).iter();
    let (first, second) = (values.next(), values.next());
    if second.is_some() {
        return Err(Refusal::malformed(format!("the header {name} came more than once")));
    }
    let text = first.map(|value| value.to_str()).transpose();
    text.map_err(|_| Refusal::malformed(format!("the header {name} is no text")))
}

/// The name by which the client has called us: HTTP/2 has it in the address.
fn host(request: &Parts) -> Result<&str, Refusal> {
    match request.uri.authority() {
        Some(authority) => Ok(authority.as_str()),
        None => Ok(single(&request.headers, header::HOST)?.unwrap_or_default()),
    }
}

/// Refuses what a page of another origin has made a browser send, unless that is configured.
fn check_origin(shared: &Shared, arrival: &Arrival, host: &str, headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(origin) = single(headers, header::ORIGIN)? else {
        // An image or a frame of a page has none.
        return match single(headers, SEC_FETCH_SITE)? {
            Some("cross-site") => Err(denied("other pages may not send requests".to_owned())),
            _ => Ok(()),
        };
    };
    let scheme = if arrival.is_encrypted { "https" } else { "http" };
    let is_own = format!("{scheme}://{host}").eq_ignore_ascii_case(origin);
    if is_own || shared.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin)) {
        return Ok(());
    }
    Err(denied(format!("pages of {origin:.100} may not send requests: --http-allowed-origin lets them")))
}

/// Refuses, where nothing has to be proved, what was sent to a name that may be a stranger's.
fn check_host(shared: &Shared, host: &str) -> Result<(), Refusal> {
    let is_allowed =
        shared.origins.iter().any(|allowed| allowed.split_once("://").is_some_and(|(_, name)| name == host));
    match is_address(host) || is_allowed {
        true => Ok(()),
        false => Err(denied(format!(
            "who is trusted has to call this server by its address or as localhost, not as {host:.100}: --http-allowed-origin adds names"
        ))),
    }
}

/// Whether a host is this machine's name for itself, or an address: nobody else can have chosen it.
fn is_address(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || inner.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn headers(values: &[(HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in values {
            headers.append(name, HeaderValue::from_str(value).expect("it is one"));
        }
        headers
    }

    #[test]
    fn names_and_passwords_are_taken_apart() {
        let of = |value: &str| shown(&headers(&[(header::AUTHORIZATION, value)]));
        let password = |user: &str, password: &str| Shown::Password(user.to_owned(), password.to_owned());
        let encoded = |text: &str| format!("Basic {}", BASE64_STANDARD.encode(text));
        for (text, user, word) in [("ada:x", "ada", "x"), ("a::b:", "a", ":b:"), ("é:ü", "é", "ü"), (":", "", "")] {
            assert_eq!(of(&encoded(text)).expect("well-formed"), password(user, word), "{text}");
        }
        assert_eq!(of(&encoded("a:b").replace("Basic", "bAsIc")).expect("well-formed"), password("a", "b"));
        assert_eq!(of("bearer x.y.z").expect("well-formed"), Shown::Token("x.y.z".to_owned()));
        assert_eq!(shown(&HeaderMap::new()).expect("nothing is there"), Shown::Nothing);
        for value in ["", "Basic", "Basic ", "Basic !!!", "Basic YQ==", "Bearer", "Digest x", "Basic /w=="] {
            assert!(of(value).is_err(), "{value}");
        }
        let twice = headers(&[(header::AUTHORIZATION, &encoded("a:b")), (header::AUTHORIZATION, &encoded("c:d"))]);
        assert!(shown(&twice).is_err());
    }

    #[test]
    fn addresses_are_nobodys_names() {
        for host in ["localhost", "LOCALHOST:6876", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:6876", "10.0.0.1"] {
            assert!(is_address(host), "{host}");
        }
        for host in
            ["", "evil.example", "evil.example:6876", "localhost.evil.example", "127.0.0.1.evil.example", "::x", "[::1"]
        {
            assert!(!is_address(host), "{host}");
        }
    }

    #[test]
    fn a_hash_is_of_name_password_and_verifier() {
        assert_eq!(keyed_hash("a", "b", "c"), keyed_hash("a", "b", "c"));
        for (user, password, verifier) in
            [("a", "c", "c"), ("b", "b", "c"), ("ab", "", "c"), ("", "ab", "c"), ("a", "b", "d")]
        {
            assert_ne!(keyed_hash("a", "b", "c"), keyed_hash(user, password, verifier));
        }
    }
}
