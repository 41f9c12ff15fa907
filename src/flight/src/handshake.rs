//! Tokens for who has shown a password: it is proved once, and the token afterwards says whose call it is.
//!
//! A token is a name, when it expires, and a keyed hash of both and of what the role's passwords are compared with: nothing is kept of it, and
//! it ends with the password that it was given for. The key is this process's own.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use door::shown::keyed_hash;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};
use subtle::ConstantTimeEq;

/// How tokens of ours begin.
const PREFIX: &str = "glimpse";
/// How long a token is taken.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);

static KEY: LazyLock<[u8; 32]> = LazyLock::new(rand::random);

/// A token for a role, whose passwords are compared with `verifier`.
pub(crate) fn issued(user: &str, verifier: &str) -> String {
    let expires = now() + LIFETIME.as_secs();
    written(user, expires, verifier)
}

fn written(user: &str, expires: u64, verifier: &str) -> String {
    let mac = keyed_hash(&*KEY, &[user, &expires.to_string(), verifier]);
    let encoded = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    format!("{PREFIX}.{}.{expires}.{}", encoded(user.as_bytes()), encoded(&mac))
}

/// Whose token it says to be, if it is one of ours.
pub(crate) fn claimed(token: &str) -> Option<String> {
    let mut parts = token.strip_prefix(PREFIX)?.strip_prefix('.')?.split('.');
    String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(parts.next()?).ok()?).ok()
}

/// Whether it is this role's, and not expired.
pub(crate) fn is_of(token: &str, user: &str, verifier: &str) -> bool {
    let expires = token.split('.').nth(2).and_then(|text| text.parse::<u64>().ok());
    let Some(expires) = expires.filter(|expires| *expires > now()) else { return false };
    written(user, expires, verifier).as_bytes().ct_eq(token.as_bytes()).into()
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(u64::MAX, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_of_one_role_and_its_password() {
        let token = issued("ada.é", "v1");
        assert_eq!(claimed(&token).as_deref(), Some("ada.é"));
        assert!(is_of(&token, "ada.é", "v1"));
        assert!(!is_of(&token, "ada.é", "v2") && !is_of(&token, "eve", "v1"));
        let mut longer: Vec<&str> = token.split('.').collect();
        longer[2] = "99999999999";
        assert!(!is_of(&longer.join("."), "ada.é", "v1"));
        assert!(!is_of(&written("ada", now() - 1, "v1"), "ada", "v1"), "it has expired");
        for other in ["", "x.y.z", "glimpse", "glimpse.", "glimpse.!.1.x", "glimpse.YQ"] {
            assert!(!is_of(other, "a", "v1"), "{other}");
        }
    }
}
