//! Tokens by each kind of key, and everything that is none.

use super::{TokenFiles, Tokens};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use ring::hmac;
use serde_json::{Value, json};
use std::path::PathBuf;

const SECRET: &str = "a secret of at least thirty-two bytes";
/// When the tokens expire that do not matter: in 2100.
const LATER: u64 = 4_102_444_800;

/// Three keys: of RS256, of ES256 and of something else. The private ones are nowhere; the tokens were made by OpenSSL.
const JWKS: &str = r#"{"keys": [{"kty": "RSA", "kid": "r1", "use": "sig", "alg": "RS256", "n": "n4NdSMEMkNKNpJexkNwF07wtrJULc6WoC_yy6jOaPFMcxtIbGXP_z74YD1kxPjzruRZIKzvEmgaNNQ1Frvo-0-ERv8cCzQvE4wjk0TPbOjO72W-vyh9HRYHCw4Yov_jqRqVXe62gbWFixCIT-SdMqtpbYPNnKqhWnhSFjI62DL8POs08e0NVmWaIquxKu6iZvLaguUuvaa6-dG7Lb4im7nSlWqT0kZ2gqPqLPMO4qT_x-kyZHfF25dh4fTGwDQzXlOYEnRA2ZYSFpqtUREZNDiRceDRwK2vpm0EoRznuCWv5tMOWBOAKpQfHssN_FAfdN_YlwU0V-KS_jdOhrhXwtw", "e": "AQAB"}, {"kty": "EC", "kid": "e1", "crv": "P-256", "x": "1cua3YQ4_Hh-2s2e_JwokK0swdiwFkWETc5OajdWtG4", "y": "4aKATdfgm3ZtLmq0CvqeaOcmTxbl5hLchUU_wpRmwbk"}, {"kty": "OKP", "crv": "Ed25519", "kid": "o1", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
const BY_RSA: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6InIxIn0.eyJzdWIiOiJqb2UiLCJleHAiOjQxMDI0NDQ4MDB9.QbBwhSsRFRlPT5EJyhVi8XBsjDiWEVxZqc7XrVlW2_hzJynwqk1UrSSrwiM9hDisJgSjM7Ncuq198bVcFeBj8wpLmTaZE-sVoVaNTHbVVK3aaasP-j_Sat5xMWbxt5AsR5IKMi2RjWoqHntidQJKOPxfaOd425Bm2iYZ0_UNpOkhR23Azf0uPUM51bvKSPBKRXJD6AXpUgAF4FhBNY35rBsdk8cvXCUZ6vlatA0nAx6NBe0kEUd7RQ7O4cdTrpZXaGbTmrTYphmWVzuz0k0KtIf2WuBQApkNid4-OGAqYzVwssco3fq3Ia0P46O4RuHeo1uSCloCcGMZnfBuG-HalQ";
const BY_EC: &str = "eyJhbGciOiJFUzI1NiIsImtpZCI6ImUxIn0.eyJzdWIiOiJqb2UiLCJleHAiOjQxMDI0NDQ4MDB9.vULVnO6HyYLWFXK4x8o3AMt7Wd-uTRsaTV5AaZrr-UQh4j1g4C7eWT-RWn-PbpLI_DTjJ9e_Fj1bXSEeQzpK9Q";
/// The same, of 2001.
const EXPIRED: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6InIxIn0.eyJzdWIiOiJqb2UiLCJleHAiOjEwMDAwMDAwMDB9.AoCbj_1QkT3IglzNoNJykKO7srfN5Di-kHocwHBhiFYi2C4-ZL89GnuH9vvZMnfDRRd9yeOqYqgfYp12YcZEmJwBFJdyNNdBBghqZIZF8wxitc6rJLMjTbVGVfHLQFUkaDJgJidnfZ0A2bZ2NTXIqhOxAJ2BzlHLpUqhPnUdhK3_gHh0cUvyHJWEncWO3ZxlTO4-RA5tPD5hP3Vx1tOnHhhaB1tLNxv77utR3qJ34wCrGfM67v-rrI_Ad8_uWCf7cbip3T0UhRbu7OXgj1Cp8of-NX4RbQIX_r_FG-jWih4xwv7qjzz-G-iAmIx2AdZDndV5x7Sx7AABZJ943T7gwQ";

struct Files(PathBuf);

impl Drop for Files {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

impl Files {
    fn new(name: &str) -> Files {
        let dir = std::env::temp_dir().join(format!("glimpse-token-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        std::fs::write(dir.join("secret"), format!("{SECRET}\n")).expect("a file");
        std::fs::write(dir.join("jwks"), JWKS).expect("a file");
        Files(dir)
    }

    fn tokens(&self, secret: bool, jwks: bool, change: impl FnOnce(&mut TokenFiles)) -> Tokens {
        let mut files = TokenFiles {
            secret: secret.then(|| self.0.join("secret")),
            jwks: jwks.then(|| self.0.join("jwks")),
            role_claim: "sub".to_owned(),
            ..TokenFiles::default()
        };
        change(&mut files);
        Tokens::open(files).expect("they can be used").expect("there are some")
    }
}

/// A token, signed by HS256 with some secret, whatever its header says.
fn token(header: &Value, claims: &Value, secret: &[u8]) -> String {
    let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", part(header), part(claims));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message.as_bytes());
    format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}

fn by_secret(claims: &Value) -> String {
    token(&json!({ "alg": "HS256", "typ": "JWT" }), claims, SECRET.as_bytes())
}

#[test]
fn who_signs_is_known_by_the_key() {
    let files = Files::new("signed");
    let all = files.tokens(true, true, |_| ());
    let good = by_secret(&json!({ "sub": "joe", "exp": LATER }));
    for token in [&good, BY_RSA, BY_EC] {
        assert_eq!(all.read(token).expect("it is right").role, "joe");
    }
    let (secret, public) = (files.tokens(true, false, |_| ()), files.tokens(false, true, |_| ()));
    assert!(secret.read(BY_RSA).is_err() && public.read(&good).is_err());
    // With nothing behind it, another signature, other claims, another key, another secret.
    let claims = json!({ "sub": "mz_system", "exp": LATER });
    let mut parts: Vec<&str> = good.split('.').collect();
    let other = by_secret(&claims);
    parts[1] = other.split('.').nth(1).expect("claims");
    let swapped = parts.join(".");
    let unsigned = {
        let part = |value: Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.", part(json!({ "alg": "none" })), part(claims.clone()))
    };
    let hs256 = |secret: &[u8]| token(&json!({ "alg": "HS256" }), &claims, secret);
    let key: Value = serde_json::from_str(JWKS).expect("JSON");
    let modulus = key["keys"][0]["n"].as_str().expect("a text");
    let forged = [
        swapped,
        unsigned,
        good[..good.len() - 4].to_owned(),
        format!("{good}x"),
        format!("{good}.x"),
        String::new(),
        "..".to_owned(),
        // A public key is no secret.
        hs256(modulus.as_bytes()),
        hs256(&BASE64_URL_SAFE_NO_PAD.decode(modulus).expect("a number")),
        hs256(JWKS.as_bytes()),
        hs256(b""),
        token(&json!({ "alg": "RS256", "kid": "r1" }), &claims, SECRET.as_bytes()),
        token(&json!({ "alg": "HS512" }), &claims, SECRET.as_bytes()),
        BY_RSA.replacen('A', "B", 1),
        format!("{}A{}", &BY_EC[..BY_EC.len() - 10], &BY_EC[BY_EC.len() - 9..]),
    ];
    for token in &forged {
        assert!(all.read(token).is_err(), "{token}");
    }
    // The key that a token names, and no other.
    let named = BY_RSA.split_once('.').expect("two parts").1;
    let header = BASE64_URL_SAFE_NO_PAD.encode(json!({ "alg": "RS256", "kid": "e1" }).to_string());
    assert!(all.read(&format!("{header}.{named}")).is_err());
}

#[test]
fn a_token_is_for_a_time_and_for_us() {
    let files = Files::new("claims");
    let tokens = files.tokens(true, true, |_| ());
    let role = |tokens: &Tokens, claims: Value| tokens.read(&by_secret(&claims)).ok().map(|vouched| vouched.role);
    assert!(tokens.read(EXPIRED).is_err());
    for claims in [
        json!({ "sub": "joe" }),
        json!({ "sub": "joe", "exp": 1_000_000_000 }),
        json!({ "sub": "joe", "exp": "later" }),
        json!({ "sub": "joe", "exp": LATER, "nbf": LATER - 1 }),
        json!({ "sub": "joe", "exp": LATER, "aud": "others" }),
        json!({ "exp": LATER }),
        json!({ "sub": "", "exp": LATER }),
        json!({ "sub": ["joe"], "exp": LATER }),
        json!(["joe"]),
    ] {
        assert_eq!(role(&tokens, claims.clone()), None, "{claims}");
    }
    let strict = files.tokens(true, false, |files| {
        files.issuer = Some("https://issuer".to_owned());
        files.audience = Some("glimpse".to_owned());
        files.role_claim = "https://glimpse/role".to_owned();
    });
    let claims = |issuer: &str, audience: Value| json!({ "sub": "x", "https://glimpse/role": "joe", "iss": issuer, "aud": audience, "exp": LATER });
    assert_eq!(role(&strict, claims("https://issuer", json!("glimpse"))).as_deref(), Some("joe"));
    assert_eq!(role(&strict, claims("https://issuer", json!(["a", "glimpse"]))).as_deref(), Some("joe"));
    assert_eq!(role(&strict, claims("https://other", json!("glimpse"))), None);
    assert_eq!(role(&strict, claims("https://issuer", json!("other"))), None);
    assert_eq!(role(&strict, json!({ "https://glimpse/role": "joe", "exp": LATER })), None, "both are needed");
}

#[test]
fn keys_that_cannot_be_used_are_refused() {
    let files = Files::new("keys");
    assert!(Tokens::open(TokenFiles::default()).expect("none are asked for").is_none());
    let open = |secret: Option<&str>, jwks: Option<&str>| {
        let file = |name: &str, text: Option<&str>| {
            text.map(|text| {
                let path = files.0.join(name);
                std::fs::write(&path, text).expect("a file");
                path
            })
        };
        let (secret, jwks) = (file("s", secret), file("j", jwks));
        Tokens::open(TokenFiles { secret, jwks, role_claim: "sub".to_owned(), ..TokenFiles::default() })
    };
    assert!(open(Some("short"), None).is_err());
    assert!(open(None, Some("{}")).is_err());
    assert!(open(None, Some("{\"keys\":[]}")).is_err());
    assert!(open(None, Some("no JSON")).is_err());
    assert!(Tokens::open(TokenFiles { secret: Some(files.0.join("nowhere")), ..TokenFiles::default() }).is_err());
    // What is not for signatures, or not for these.
    let only = |change: &str, to: &str| {
        let set = JWKS.replace(change, to).replace("\"crv\": \"P-256\"", "\"crv\": \"P-384\"");
        open(None, Some(&set)).is_err()
    };
    assert!(only("\"use\": \"sig\"", "\"use\": \"enc\""));
    assert!(only("\"alg\": \"RS256\"", "\"alg\": \"RS512\""));
    assert!(!only("", ""));
}
