//! Who sends a request, and whether a page of somebody else's has made a browser send it.
//!
//! Who: see [`door::shown`].
//!
//! Whose page: a browser that was given our name by a stranger (`Host`), or sends what a stranger's page asks for (`Origin`), acts for its
//! user, who may be trusted by rule. Both are refused unless configured.

use crate::shared::{Shared, Visitor};
use crate::told::Refusal;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use door::entrance::{Arrival, Entrance};
use door::place::Place;
use door::shown::{self, Admitted, Shown};
use repr::sqlstate::SqlState;
use std::net::IpAddr;
use std::sync::Arc;

/// Where a browser says that the page is that sends a request.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// How the client has called us, unless a page of a stranger has made a browser send it, which is refused.
pub(crate) fn check_visit<'r>(visitor: &Visitor, request: &'r Parts) -> Result<&'r str, Refusal> {
    let host = host(request)?;
    check_origin(&visitor.own, &visitor.arrival, host, &request.headers)?;
    Ok(host)
}

/// Who sends a request, and where it wants to go, without parameters. Errors: those of [`check_visit`] and [`admit`], 400 of a header that is none.
pub(crate) async fn identify(
    visitor: &Visitor,
    request: &Parts,
    database: Option<String>,
) -> Result<(Arc<Entrance>, Place), Refusal> {
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
) -> Result<(Arc<Entrance>, Place), Refusal> {
    let entrance = visitor.own.entrance()?;
    let Admitted { place, is_trusted } = shown::admit(visitor, entrance, shown, database).await?;
    if is_trusted {
        check_host(&visitor.own, host)?;
    }
    Ok((Arc::clone(entrance), place))
}

fn denied(message: String) -> Refusal {
    Refusal::new(StatusCode::FORBIDDEN, SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message)
}

/// What a request shows. Errors: 400 of a header that is none, 401 of a scheme that is not known.
fn shown(headers: &HeaderMap) -> Result<Shown, Refusal> {
    match single(headers, header::AUTHORIZATION)? {
        Some(value) => Ok(Shown::parse(value)?),
        None => Ok(Shown::Nothing),
    }
}

/// The value of a header that may come once. Error 400.
pub(crate) fn single(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Refusal> {
    shown::single(headers, name).map_err(Refusal::malformed)
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
    fn who_shows_two_things_shows_none() {
        assert!(shown(&HeaderMap::new()).is_ok_and(|shown| shown == Shown::Nothing));
        let twice = headers(&[(header::AUTHORIZATION, "Bearer a"), (header::AUTHORIZATION, "Bearer b")]);
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
}
