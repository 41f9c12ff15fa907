//! Tokens for who has shown a password: it is proved once, and the token afterwards says whose call it is.
//!
//! A token is a name, when it expires, on what grounds it was given, and a keyed hash of these and of what the role's passwords are compared with:
//! nothing is kept of it, and it ends with the password that it was given for. One that was given to somebody whom a rule trusts says no
//! more than the name: the rules have to trust whoever shows it. The key is this process's own.

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

/// What a token was given for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grounds {
    /// A password.
    Password,
    /// Nothing.
    Trust,
}

impl Grounds {
    fn letter(self) -> &'static str {
        match self {
            Grounds::Password => "p",
            Grounds::Trust => "t",
        }
    }
}

/// A token for a role who has shown a password, which is compared with `verifier`.
pub(crate) fn issued(user: &str, verifier: &str) -> String {
    written(user, now() + LIFETIME.as_secs(), Grounds::Password, verifier)
}

/// A token for a role who is trusted.
pub(crate) fn entrusted(user: &str) -> String {
    written(user, now() + LIFETIME.as_secs(), Grounds::Trust, "")
}

fn written(user: &str, expires: u64, grounds: Grounds, verifier: &str) -> String {
    let letter = grounds.letter();
    let mac = keyed_hash(&*KEY, &[user, &expires.to_string(), letter, verifier]);
    let encoded = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    format!("{PREFIX}.{}.{expires}.{letter}.{}", encoded(user.as_bytes()), encoded(&mac))
}

/// Whose token it says to be, and on what grounds, if it is one of ours.
pub(crate) fn claimed(token: &str) -> Option<(String, Grounds)> {
    let mut parts = token.strip_prefix(PREFIX)?.strip_prefix('.')?.split('.');
    let user = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(parts.next()?).ok()?).ok()?;
    let letter = parts.nth(1)?;
    let grounds = [Grounds::Password, Grounds::Trust].into_iter().find(|grounds| grounds.letter() == letter)?;
    Some((user, grounds))
}

/// Whether it is this role's, and not expired.
pub(crate) fn is_of(token: &str, user: &str, verifier: &str) -> bool {
    let expires = token.split('.').nth(2).and_then(|text| text.parse::<u64>().ok());
    let Some(expires) = expires.filter(|expires| *expires > now()) else { return false };
    let Some((_, grounds)) = claimed(token) else { return false };
    written(user, expires, grounds, verifier).as_bytes().ct_eq(token.as_bytes()).into()
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
        assert_eq!(claimed(&token), Some(("ada.é".to_owned(), Grounds::Password)));
        assert!(is_of(&token, "ada.é", "v1"));
        assert!(!is_of(&token, "ada.é", "v2") && !is_of(&token, "eve", "v1"));
        let mut longer: Vec<&str> = token.split('.').collect();
        longer[2] = "99999999999";
        assert!(!is_of(&longer.join("."), "ada.é", "v1"));
        assert!(!is_of(&written("ada", now() - 1, Grounds::Password, "v1"), "ada", "v1"), "it has expired");
        // Who was trusted has shown nothing, and cannot say otherwise.
        let trusted = entrusted("ada");
        assert!(is_of(&trusted, "ada", "") && !is_of(&trusted.replace(".t.", ".p."), "ada", ""));
        assert_eq!(claimed(&trusted), Some(("ada".to_owned(), Grounds::Trust)));
        for other in ["", "x.y.z", "glimpse", "glimpse.", "glimpse.!.1.x", "glimpse.YQ"] {
            assert!(!is_of(other, "a", "v1"), "{other}");
        }
    }
}
