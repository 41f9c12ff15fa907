//! Where a bucket is and who asks for it: from an `s3://` URL and the environment variables that all clients of S3 know.
//!
//! `s3://bucket/prefix?endpoint=…&region=…&access_key_id=…&secret_access_key=…&session_token=…&style=path|virtual&ca_bundle=…`. What
//! the URL does not say, `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`, `AWS_REGION`, `AWS_DEFAULT_REGION`, `AWS_ACCESS_KEY_ID`,
//! `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_CA_BUNDLE` and `SSL_CERT_FILE` do. Without a key, credentials are lent: for a web
//! identity, by a container's service, or by the machine's.

use std::path::PathBuf;

use object_store::aws::AmazonS3ConfigKey;
use object_store::path::Path;

use crate::error::PersistError;
use crate::tls::system_certificates;

/// What Amazon's own tools take if nobody says otherwise.
const DEFAULT_REGION: &str = "us-east-1";

/// Who lends credentials, as the library knows it; each is an environment variable in capital letters.
const LENDERS: [AmazonS3ConfigKey; 9] = [
    AmazonS3ConfigKey::WebIdentityTokenFile,
    AmazonS3ConfigKey::RoleArn,
    AmazonS3ConfigKey::RoleSessionName,
    AmazonS3ConfigKey::StsEndpoint,
    AmazonS3ConfigKey::ContainerCredentialsRelativeUri,
    AmazonS3ConfigKey::ContainerCredentialsFullUri,
    AmazonS3ConfigKey::ContainerAuthorizationTokenFile,
    AmazonS3ConfigKey::MetadataEndpoint,
    AmazonS3ConfigKey::ImdsV1Fallback,
];

/// See the module.
#[derive(Clone)]
pub(crate) struct Location {
    /// `http` or `https`.
    pub(crate) scheme: String,
    /// Host and port, the bucket's name included if it belongs there.
    pub(crate) host: String,
    /// Whether the bucket's name is in the path instead.
    pub(crate) by_path: bool,
    pub(crate) bucket: String,
    /// What all keys begin with: empty, or ending with `/`.
    pub(crate) prefix: String,
    pub(crate) region: String,
    pub(crate) credentials: Credentials,
    /// Certificates, in PEM, that lead to whom we trust.
    pub(crate) certificates: Option<PathBuf>,
}

/// Who asks.
#[derive(Clone)]
pub(crate) enum Credentials {
    /// A key, for as long as the process lives.
    Given { key_id: String, secret: String, session_token: Option<String> },
    /// What the environment says of who lends one, which is renewed in time.
    Lent(Vec<(AmazonS3ConfigKey, String)>),
}

impl Credentials {
    pub(crate) fn are_lent(&self) -> bool {
        matches!(self, Credentials::Lent(_))
    }

    /// Whether nobody lends them but the machine, which may be none that does.
    pub(crate) fn is_machine_asked(&self) -> bool {
        let asks_another = |(key, _): &(AmazonS3ConfigKey, String)| {
            !matches!(key, AmazonS3ConfigKey::MetadataEndpoint | AmazonS3ConfigKey::ImdsV1Fallback)
        };
        matches!(self, Credentials::Lent(settings) if !settings.iter().any(asks_another))
    }
}

impl Location {
    /// Reads an `s3://` URL, beside the values of environment variables.
    pub(crate) fn parse(url: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Location, PersistError> {
        let unusable = |detail: String| PersistError::StoreUrl { detail };
        let rest = url.strip_prefix("s3://").ok_or_else(|| unusable("it does not begin with s3://".to_owned()))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if bucket.is_empty() || !bucket.chars().all(is_name) {
            return Err(unusable("it names no bucket".to_owned()));
        }
        let mut asked = Parameters::parse(query).map_err(unusable)?;
        let env = |names: &[&str]| names.iter().find_map(|name| env(name).filter(|value| !value.is_empty()));
        let endpoint = asked.take("endpoint").or_else(|| env(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]));
        let region = asked.take("region").or_else(|| env(&["AWS_REGION", "AWS_DEFAULT_REGION"]));
        let region = region.unwrap_or_else(|| DEFAULT_REGION.to_owned());
        let key_id = asked.take("access_key_id").or_else(|| env(&["AWS_ACCESS_KEY_ID"]));
        let secret = asked.take("secret_access_key").or_else(|| env(&["AWS_SECRET_ACCESS_KEY"]));
        let session_token = asked.take("session_token").or_else(|| env(&["AWS_SESSION_TOKEN"]));
        let lacks = |name: &str, variable: &str| {
            unusable(format!("there are no credentials: set {variable}, or {name} in the URL"))
        };
        let credentials = match (key_id, secret) {
            (Some(key_id), Some(secret)) => Credentials::Given { key_id, secret, session_token },
            (Some(_), None) => return Err(lacks("secret_access_key", "AWS_SECRET_ACCESS_KEY")),
            (None, Some(_)) => return Err(lacks("access_key_id", "AWS_ACCESS_KEY_ID")),
            (None, None) => {
                let setting = |key: &AmazonS3ConfigKey| Some((*key, env(&[&key.as_ref().to_uppercase()])?));
                Credentials::Lent(LENDERS.iter().filter_map(setting).collect())
            }
        };
        // Amazon wants the bucket in the host; others often know but one host. A dot would not fit Amazon's certificates.
        let by_path = match asked.take("style").as_deref() {
            None => endpoint.is_some() || bucket.contains('.'),
            Some("path") => true,
            Some("virtual") => false,
            Some(other) => return Err(unusable(format!("its style {other} is neither path nor virtual"))),
        };
        let certificates = asked.take("ca_bundle").or_else(|| env(&["AWS_CA_BUNDLE"]));
        asked.end().map_err(unusable)?;
        let endpoint = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let (scheme, host) = endpoint.split_once("://").unwrap_or_default();
        let host = host.trim_end_matches('/');
        if !["http", "https"].contains(&scheme) || host.is_empty() || host.contains(['/', '@', '?', '#', ' ']) {
            return Err(unusable(format!("its endpoint {endpoint} is not http(s)://host[:port]")));
        }
        let prefix = decode(prefix.trim_matches('/')).map_err(unusable)?;
        Path::parse(&prefix).map_err(|error| unusable(format!("its prefix cannot be one of objects: {error}")))?;
        Ok(Location {
            scheme: scheme.to_owned(),
            host: if by_path { host.to_owned() } else { format!("{bucket}.{host}") },
            by_path,
            bucket: bucket.to_owned(),
            prefix: if prefix.is_empty() { prefix } else { format!("{prefix}/") },
            region,
            credentials,
            certificates: certificates.map(PathBuf::from).or_else(system_certificates),
        })
    }

    /// Where the service is.
    pub(crate) fn endpoint(&self) -> String {
        format!("{}://{}", self.scheme, self.host)
    }

    /// The URL of the bucket itself.
    pub(crate) fn bucket_url(&self) -> String {
        let (endpoint, bucket) = (self.endpoint(), &self.bucket);
        if self.by_path { format!("{endpoint}/{bucket}") } else { format!("{endpoint}/") }
    }

    /// Where it is, without secrets.
    pub(crate) fn address(&self) -> String {
        format!("s3://{}/{} at {}", self.bucket, self.prefix, self.endpoint())
    }
}

/// The query of a URL, of which everything has to be understood.
struct Parameters(Vec<(String, String)>);

impl Parameters {
    fn parse(query: &str) -> Result<Parameters, String> {
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').ok_or_else(|| format!("its parameter {pair} has no value"))?;
            Ok((name.to_owned(), decode(value)?))
        });
        pairs.collect::<Result<_, _>>().map(Parameters)
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(found, _)| found == name)?;
        Some(self.0.remove(at).1)
    }

    fn end(self) -> Result<(), String> {
        self.0.first().map_or(Ok(()), |(name, _)| Err(format!("it has an unknown parameter {name}")))
    }
}

/// Undoes percent encoding.
fn decode(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = rest.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or("it has a % without two hexadecimal digits after it")?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str, env: &[(&str, &str)]) -> Result<Location, String> {
        let lookup = |name: &str| env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Location::parse(url, &lookup).map_err(|error| error.to_string())
    }

    const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "s3cr3t")];

    #[test]
    fn amazon_is_asked_by_the_name_of_the_bucket() {
        let location = parse("s3://b-1/a/b%20c/", &KEYS).expect("usable");
        let (host, prefix) = ("b-1.s3.us-east-1.amazonaws.com", "a/b c/");
        assert_eq!((location.host.as_str(), location.by_path, location.prefix.as_str()), (host, false, prefix));
        assert_eq!(location.bucket_url(), format!("https://{host}/"));
    }

    #[test]
    fn the_url_wins_over_the_environment() {
        let env = [("AWS_ENDPOINT_URL", "http://other:1"), ("AWS_REGION", "eu-north-1")];
        let url = "s3://b?endpoint=http://localhost:9000/&access_key_id=x&secret_access_key=a%2Fb%2Bc&session_token=t";
        let location = parse(url, &env).expect("usable");
        assert_eq!(
            (location.bucket_url().as_str(), location.region.as_str()),
            ("http://localhost:9000/b", "eu-north-1")
        );
        let Credentials::Given { secret, session_token, .. } = &location.credentials else { panic!("they are given") };
        assert_eq!((secret.as_str(), session_token.as_deref()), ("a/b+c", Some("t")));
        assert_eq!(location.address(), "s3://b/ at http://localhost:9000");
    }

    #[test]
    fn a_url_that_cannot_be_used_is_refused_without_its_secrets() {
        let cases = [
            ("s3://", "names no bucket"),
            ("s3:///prefix", "names no bucket"),
            ("s3://b?regin=x", "unknown parameter regin"),
            ("s3://b?style=odd", "neither path nor virtual"),
            ("s3://b?endpoint=localhost:9000&secret_access_key=hidden", "is not http(s)://host[:port]"),
            ("s3://b/%zz", "without two hexadecimal digits"),
            ("s3://b/a//b", "empty path segment"),
            ("s3://b/a/../b", "cannot be one of objects"),
        ];
        for (url, expected) in cases {
            let Err(error) = parse(url, &KEYS) else { panic!("{url} is refused") };
            assert!(error.contains(expected) && !error.contains("hidden"), "{url}: {error}");
        }
        let Err(error) = parse("s3://b", &KEYS[..1]) else { panic!("it is refused") };
        assert!(error.contains("there are no credentials: set AWS_SECRET_ACCESS_KEY"), "{error}");
    }

    #[test]
    fn credentials_that_are_not_given_are_lent() {
        let machine = parse("s3://b", &[("AWS_METADATA_ENDPOINT", "http://h")]).expect("usable").credentials;
        assert!(machine.are_lent() && machine.is_machine_asked());
        let identity =
            [("AWS_WEB_IDENTITY_TOKEN_FILE", "/f"), ("AWS_ROLE_ARN", "arn"), ("AWS_ENDPOINT_URL_STS", "https://s")];
        let identity = parse("s3://b", &identity).expect("usable").credentials;
        assert!(identity.are_lent() && !identity.is_machine_asked());
        let Credentials::Lent(settings) = identity else { panic!("they are lent") };
        let expected = [
            (AmazonS3ConfigKey::WebIdentityTokenFile, "/f"),
            (AmazonS3ConfigKey::RoleArn, "arn"),
            (AmazonS3ConfigKey::StsEndpoint, "https://s"),
        ];
        assert_eq!(settings, expected.map(|(key, value)| (key, value.to_owned())));
        assert!(!parse("s3://b", &KEYS).expect("usable").credentials.are_lent());
    }
}
