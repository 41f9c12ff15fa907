//! What decodes the bytes of strangers, as functions of bytes, for the fuzzers of `test/fuzz`. A function returns when all is well, and
//! panics when it is not.

use crate::scram::{self, Challenge};
use catalog::verifier::{MockSecret, Verifier};

/// SCRAM: a verifier as text, the client's first message, and its last; separated by NUL.
pub fn scram(bytes: &[u8]) {
    let mut parts = bytes.splitn(3, |&byte| byte == 0);
    let mut part = || parts.next().unwrap_or_default();
    let (text, first, last) = (part(), part(), part());
    if let Some(verifier) = std::str::from_utf8(text).ok().and_then(Verifier::parse) {
        let again = Verifier::parse(&verifier.to_string());
        assert!(again.is_some_and(|again| again == verifier), "a verifier is not read back");
    }
    let nobody = Verifier::mock(&MockSecret::default(), "");
    let plain = Challenge::new(scram::PLAIN, b"n,,n=,r=abc", &nobody, None, "def").expect("well-formed");
    let here = Some(&b"here"[..]);
    let bound = Challenge::new(scram::PLUS, b"p=tls-server-end-point,,n=,r=abc", &nobody, here, "def");
    let given = [(scram::PLAIN, None), (scram::PLAIN, here), (scram::PLUS, here)];
    let given = given.into_iter().filter_map(|(mechanism, end_point)| {
        let challenge = Challenge::new(mechanism, first, &nobody, end_point, "def").ok()?;
        assert!(challenge.message().starts_with("r="), "a challenge without a nonce");
        Some(challenge)
    });
    for challenge in given.chain([plain, bound.expect("well-formed")]) {
        let answer = challenge.verify(last, &nobody);
        assert!(!matches!(answer, Ok(Some(_))), "nobody has logged in");
    }
}
