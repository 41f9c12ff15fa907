//! Bearer tokens: JWTs that somebody else has signed, and who somebody is by one.
//!
//! A token is signed by HS256 with a secret that we know, or by RS256 or ES256 with a key of a set that its maker has published (JWKS). Which of
//! these is said by the kind of key and never by the token alone: a public key is no secret of HS256. A token has to say when it expires, and
//! by whom and for whom it was made if that is configured; one that is made for somebody else is nobody's here. A claim names the role.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result as JwtResult};
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::signature::{Error as SignatureError, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, Validation, decode, decode_header};
use ring::{hmac, signature};
use serde_json::{Map, Value};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;

/// How far clocks may differ, in seconds.
const LEEWAY: u64 = 10;
/// The least bytes of a secret: those of the hash.
const SECRET_BYTES_MIN: usize = 32;
/// The claim that names the role if nothing else is said.
pub const ROLE_CLAIM: &str = "sub";

/// Which tokens are taken.
#[derive(Clone, Debug, Default)]
pub struct TokenFiles {
    /// The secret of HS256.
    pub secret: Option<PathBuf>,
    /// A set of public keys.
    pub jwks: Option<PathBuf>,
    /// By whom they have to be made.
    pub issuer: Option<String>,
    /// For whom they have to be made.
    pub audience: Option<String>,
    /// The claim that names the role.
    pub role_claim: String,
    /// The role of tokens that name none.
    pub default_role: Option<String>,
}

/// What a token says of whom it was given to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vouched {
    /// As whom it comes in.
    pub role: String,
    /// All that it says but for when: a JSON object.
    pub claims: String,
}

/// Claims that are about the token.
const OF_THE_TOKEN: [&str; 4] = ["exp", "iat", "nbf", "jti"];

/// The keys that tokens are signed with, and what else is asked of one.
pub struct Tokens {
    secret: Option<DecodingKey>,
    keys: Vec<PublicKey>,
    files: TokenFiles,
}

/// A key of the set that is of a kind that we know.
struct PublicKey {
    id: Option<String>,
    algorithm: Algorithm,
    key: DecodingKey,
}

/// Why a token is nobody's: for the log, and for nobody else.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It is no token, expired, or signed by somebody else.
    #[error("{0}")]
    Jwt(#[from] jsonwebtoken::errors::Error),
    /// Its algorithm is not taken, or there is no key for it.
    #[error("there is no key for a token by {0:?}")]
    NoKey(Algorithm),
    /// It names no role.
    #[error("it has no text as \"{0}\"")]
    NoRole(String),
}

impl Tokens {
    /// Reads the keys; `None` if none are configured. Errors: what cannot be used.
    pub fn open(files: TokenFiles) -> io::Result<Option<Tokens>> {
        static INSTALLED: Once = Once::new();
        if files.secret.is_none() && files.jwks.is_none() {
            return Ok(None);
        }
        INSTALLED.call_once(|| {
            // There is one in a process, and this is the only place that uses it.
            let _first = PROVIDER.install_default();
        });
        let secret = files.secret.as_deref().map(read_secret).transpose()?;
        let keys = files.jwks.as_deref().map(read_keys).transpose()?.unwrap_or_default();
        Ok(Some(Tokens { secret, keys, files }))
    }

    /// From where they were read.
    pub fn files(&self) -> &TokenFiles {
        &self.files
    }

    /// What a token says.
    pub fn read(&self, token: &str) -> Result<Vouched, TokenError> {
        let header = decode_header(token)?;
        let key = self.key_for(header.alg, header.kid.as_deref()).ok_or(TokenError::NoKey(header.alg))?;
        let mut validation = Validation::new(header.alg);
        (validation.leeway, validation.validate_nbf) = (LEEWAY, true);
        if let Some(issuer) = &self.files.issuer {
            validation.set_issuer(&[issuer]);
            validation.required_spec_claims.insert("iss".to_owned());
        }
        if let Some(audience) = &self.files.audience {
            validation.set_audience(&[audience]);
            validation.required_spec_claims.insert("aud".to_owned());
        }
        let mut claims = decode::<Map<String, Value>>(token, key, &validation)?.claims;
        let no_role = || TokenError::NoRole(self.files.role_claim.clone());
        let role = match (claims.get(&self.files.role_claim), &self.files.default_role) {
            (None, Some(role)) => role.clone(),
            (Some(Value::String(role)), _) if !role.is_empty() => role.clone(),
            _ => return Err(no_role()),
        };
        claims.retain(|name, _| !OF_THE_TOKEN.contains(&name.as_str()));
        Ok(Vouched { role, claims: Value::Object(claims).to_string() })
    }

    /// The key that a token by this algorithm has to be signed with: of those of a set the one that the token names, or the only one.
    fn key_for(&self, algorithm: Algorithm, id: Option<&str>) -> Option<&DecodingKey> {
        if algorithm == Algorithm::HS256 {
            return self.secret.as_ref();
        }
        let mut fitting = self.keys.iter().filter(|key| key.algorithm == algorithm);
        match id {
            Some(id) => fitting.find(|key| key.id.as_deref() == Some(id)).map(|key| &key.key),
            None => fitting.next().filter(|_| fitting.next().is_none()).map(|key| &key.key),
        }
    }
}

fn unusable(file: &Path, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {why}", file.display()))
}

fn read(file: &Path) -> io::Result<String> {
    std::fs::read_to_string(file).map_err(|error| unusable(file, &error.to_string()))
}

/// The secret of a file: its text, without the end of a line behind it.
fn read_secret(file: &Path) -> io::Result<DecodingKey> {
    let text = read(file)?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.len() < SECRET_BYTES_MIN {
        return Err(unusable(file, &format!("a secret of HS256 has at least {SECRET_BYTES_MIN} bytes")));
    }
    Ok(DecodingKey::from_secret(secret.as_bytes()))
}

/// The keys of a set that are for signatures by RS256 or ES256. Others may be there for others.
fn read_keys(file: &Path) -> io::Result<Vec<PublicKey>> {
    let set: JwkSet = serde_json::from_str(&read(file)?).map_err(|error| unusable(file, &error.to_string()))?;
    let keys: Vec<PublicKey> = set.keys.iter().filter_map(public_key).collect();
    match keys.is_empty() {
        true => Err(unusable(file, "there is no key for RS256 or ES256")),
        false => Ok(keys),
    }
}

fn public_key(jwk: &Jwk) -> Option<PublicKey> {
    if !matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature)) {
        return None;
    }
    let algorithm = match (&jwk.algorithm, jwk.common.key_algorithm) {
        (AlgorithmParameters::RSA(_), None | Some(KeyAlgorithm::RS256)) => Algorithm::RS256,
        (AlgorithmParameters::EllipticCurve(key), None | Some(KeyAlgorithm::ES256))
            if key.curve == EllipticCurve::P256 =>
        {
            Algorithm::ES256
        }
        _ => return None,
    };
    let key = DecodingKey::from_jwk(jwk).ok()?;
    Some(PublicKey { id: jwk.common.key_id.clone(), algorithm, key })
}

/// Signatures by ring.
static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
    verifier_factory: |algorithm, key| Ok(Box::new(Ring::new(*algorithm, key)?)),
    key_utils: KeyUtils::new_unimplemented(),
};

/// A signature's check.
enum Ring {
    Hs256(hmac::Key),
    Rs256(signature::RsaPublicKeyComponents<Vec<u8>>),
    Es256(signature::UnparsedPublicKey<Vec<u8>>),
}

impl Ring {
    fn new(algorithm: Algorithm, key: &DecodingKey) -> JwtResult<Ring> {
        if key.family() != algorithm.family() {
            return Err(ErrorKind::InvalidKeyFormat.into());
        }
        Ok(match (algorithm, key.kind()) {
            (Algorithm::HS256, DecodingKeyKind::SecretOrDer(secret)) => {
                Ring::Hs256(hmac::Key::new(hmac::HMAC_SHA256, secret))
            }
            (Algorithm::RS256, DecodingKeyKind::RsaModulusExponent { n, e }) => {
                Ring::Rs256(signature::RsaPublicKeyComponents { n: n.clone(), e: e.clone() })
            }
            (Algorithm::ES256, DecodingKeyKind::SecretOrDer(point)) => {
                Ring::Es256(signature::UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point.clone()))
            }
            _ => return Err(ErrorKind::UnsupportedAlgorithm.into()),
        })
    }
}

impl Verifier<Vec<u8>> for Ring {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), SignatureError> {
        let is_right = match self {
            Ring::Hs256(key) => hmac::verify(key, message, signature),
            Ring::Rs256(key) => key.verify(&signature::RSA_PKCS1_2048_8192_SHA256, message, signature),
            Ring::Es256(key) => key.verify(message, signature),
        };
        is_right.map_err(|_| SignatureError::new())
    }
}

impl JwtVerifier for Ring {
    fn algorithm(&self) -> Algorithm {
        match self {
            Ring::Hs256(_) => Algorithm::HS256,
            Ring::Rs256(_) => Algorithm::RS256,
            Ring::Es256(_) => Algorithm::ES256,
        }
    }
}

#[cfg(test)]
mod tests;
