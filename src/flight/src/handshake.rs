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

/// What a token of ours says, before it is known whether that is so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim<'t> {
    token: &'t str,
    /// Whose it is.
    pub(crate) user: String,
    expires: u64,
    /// What it was given for.
    pub(crate) grounds: Grounds,
}

impl<'t> Claim<'t> {
    /// What a token says, if it is one of ours.
    pub(crate) fn read(token: &'t str) -> Option<Claim<'t>> {
        let mut parts = token.strip_prefix(PREFIX)?.strip_prefix('.')?.split('.');
        let user = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(parts.next()?).ok()?).ok()?;
        let (expires, letter) = (parts.next()?.parse().ok()?, parts.next()?);
        let grounds = [Grounds::Password, Grounds::Trust].into_iter().find(|grounds| grounds.letter() == letter)?;
        Some(Claim { token, user, expires, grounds })
    }

    /// Whether that is so, and has not expired, of a role whose passwords are compared with `verifier`; with nothing if it is trusted.
    pub(crate) fn holds(&self, verifier: &str) -> bool {
        let right = written(&self.user, self.expires, self.grounds, verifier);
        self.expires > now() && bool::from(right.as_bytes().ct_eq(self.token.as_bytes()))
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(u64::MAX, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(token: &str, verifier: &str) -> bool {
        Claim::read(token).is_some_and(|claim| claim.holds(verifier))
    }

    #[test]
    fn a_token_is_of_one_role_and_its_password() {
        let token = issued("ada.é", "v1");
        let claim = Claim::read(&token).expect("it is ours");
        assert_eq!((claim.user.as_str(), claim.grounds), ("ada.é", Grounds::Password));
        assert!(holds(&token, "v1") && !holds(&token, "v2"));
        // Another name, a longer life, other grounds.
        let parts: Vec<&str> = token.split('.').collect();
        for (at, part) in [(1, "ZXZl"), (2, "99999999999"), (3, "t"), (4, "AAAA")] {
            let mut changed = parts.clone();
            changed[at] = part;
            assert!(!holds(&changed.join("."), "v1"), "{at}");
        }
        assert!(!holds(&format!("{token}.x"), "v1") && !holds(&format!("{token}x"), "v1"));
        assert!(!holds(&written("ada", now() - 1, Grounds::Password, "v1"), "v1"), "it has expired");
        // Who was trusted has shown nothing, and cannot say otherwise.
        let trusted = entrusted("ada");
        assert!(holds(&trusted, "") && !holds(&trusted.replace(".t.", ".p."), ""));
        for other in ["", "x.y.z", "glimpse", "glimpse.", "glimpse.!.1.p.x", "glimpse.YQ", "glimpse.YQ.1.x.x"] {
            assert_eq!(Claim::read(other), None, "{other}");
        }
    }
}
