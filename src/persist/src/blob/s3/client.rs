//! Requests to an S3-compatible service, by the library `object_store`: with time limits, tried again when that may help.
//!
//! Every request may be repeated: the same bytes go to the same name. So whatever may pass (a lost connection, a service that
//! starts or is overloaded) is tried again with growing pauses until patience ends.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AwsAuthorizer};
use object_store::client::{HttpClient, HttpConnector, HttpRequest, HttpRequestBody};
use object_store::path::Path;
use object_store::{ClientOptions, RetryConfig};
use reqwest::Url;
use serde::Deserialize;

use crate::background::Background;
use crate::blob::s3::http::{Connector, generic, may_pass};
use crate::blob::s3::location::{Credentials, Location};
use crate::encoding::length_to_u64;
use crate::error::PersistError;
use crate::pauses::in_full;
use crate::postgres::retry;
use crate::tls;

/// See the module.
pub(crate) struct Client {
    pub(crate) location: Location,
    pub(crate) store: AmazonS3,
    /// For what the library does not ask.
    http: HttpClient,
    timeout: Duration,
    background: Background,
}

/// What went wrong, and where.
#[derive(Debug)]
struct Trouble {
    store: String,
    said: String,
}

/// The uploads that were begun and neither finished nor given up; a thousand of them at the most.
#[derive(Deserialize)]
struct Unfinished {
    #[serde(rename = "Upload", default)]
    uploads: Vec<UnfinishedUpload>,
}

/// One of them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct UnfinishedUpload {
    pub(crate) key: String,
    pub(crate) upload_id: String,
}

impl Client {
    /// Nothing is asked yet. An attempt may take `timeout`, and the longer the more it carries.
    pub(crate) fn new(location: Location, timeout: Duration) -> Result<Client, PersistError> {
        let unusable = |detail: String| PersistError::StoreUrl { detail };
        let is_http = location.scheme == "http";
        // Who lends credentials may be asked over TLS even if the service is not.
        let trusted = location.certificates.as_deref().filter(|_| !is_http || location.credentials.are_lent());
        let tls = trusted.map(tls::config).transpose().map_err(|error| unusable(error.to_string()))?.map(Arc::new);
        if tls.is_none() && !is_http {
            return Err(unusable("no certificates were found: set SSL_CERT_FILE".to_owned()));
        }
        let connector = Connector { tls, timeout };
        let options = ClientOptions::new().with_allow_http(is_http);
        let http = connector.connect(&options).map_err(|error| unusable(in_full(&error)))?;
        let builder = AmazonS3Builder::new()
            .with_bucket_name(&location.bucket)
            .with_region(&location.region)
            .with_endpoint(location.endpoint())
            .with_virtual_hosted_style_request(!location.by_path)
            .with_client_options(options)
            .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() })
            .with_http_connector(connector);
        let builder = match &location.credentials {
            Credentials::Given { key_id, secret, session_token } => {
                let builder = builder.with_access_key_id(key_id).with_secret_access_key(secret);
                session_token.iter().fold(builder, |builder, token| builder.with_token(token))
            }
            Credentials::Lent(settings) => {
                settings.iter().fold(builder, |builder, (key, value)| builder.with_config(*key, value))
            }
        };
        let store = builder.build().map_err(|error| unusable(in_full(&error)))?;
        let background = Background::start("blobs")?;
        Ok(Client { location, store, http, timeout, background })
    }

    /// Fails if nobody lends us credentials, where none were given.
    pub(crate) fn check_credentials(&self, patience: Duration) -> Result<(), PersistError> {
        let ask = || async { self.store.credentials().get_credential().await.map(drop) };
        let asked = |patience| self.call("asking for credentials", patience, 0, ask);
        match self.location.credentials.is_machine_asked() {
            false => asked(patience),
            // It answers at once, or there is no such machine.
            true => asked(Duration::ZERO).map_err(|error| PersistError::StoreUrl {
                detail: format!(
                    "there are no credentials: set AWS_ACCESS_KEY_ID, or access_key_id in the URL; and the machine lends none: {}",
                    in_full(&error)
                ),
            }),
        }
    }

    /// The object of a name.
    pub(crate) fn path(&self, name: &str) -> Path {
        Path::parse(format!("{}{name}", self.location.prefix)).expect("prefix and names are those of objects")
    }

    /// Asks until there is an answer, an error that stays, or `patience` is at its end. `bytes` is what the question or the
    /// answer carries at the most.
    pub(crate) fn call<T, F>(
        &self,
        what: &'static str,
        patience: Duration,
        bytes: usize,
        ask: impl Fn() -> F,
    ) -> Result<T, PersistError>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        let found = self.find(what, patience, bytes, ask)?;
        found.ok_or_else(|| self.determinate(format!("there is no such thing ({what})")))
    }

    /// The same for what may not be there.
    pub(crate) fn find<T, F>(
        &self,
        what: &'static str,
        patience: Duration,
        bytes: usize,
        ask: impl Fn() -> F,
    ) -> Result<Option<T>, PersistError>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        // A network carries a byte in a microsecond, at the least.
        let limit = self.timeout + Duration::from_micros(length_to_u64(bytes));
        let attempt = || async {
            match tokio::time::timeout(limit, ask()).await {
                Ok(Ok(answer)) => Ok(Some(answer)),
                Ok(Err(object_store::Error::NotFound { .. })) => Ok(None),
                Ok(Err(error)) if may_pass(&error) => Err(self.unreachable(in_full(&error))),
                Ok(Err(error)) => Err(self.determinate(in_full(&error))),
                Err(_) => Err(self.unreachable(format!("no answer within {limit:?}"))),
            }
        };
        self.background.wait(retry(what, patience, attempt))
    }

    /// The uploads below a key that were begun and not finished. The library cannot ask for them.
    pub(crate) async fn unfinished(&self, from: &str) -> object_store::Result<Vec<UnfinishedUpload>> {
        let url = Url::parse_with_params(&self.location.bucket_url(), [("uploads", ""), ("prefix", from)]);
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.uri_mut() = url.map_err(generic)?.as_str().parse().map_err(|error| generic(format!("{error}")))?;
        let credential = self.store.credentials().get_credential().await?;
        AwsAuthorizer::new(&credential, "s3", &self.location.region).authorize(&mut request, None);
        let response = self.http.execute(request).await.map_err(generic)?;
        let body = response.into_body().bytes().await.map_err(generic)?;
        let unfinished: Unfinished = quick_xml::de::from_str(&String::from_utf8_lossy(&body)).map_err(generic)?;
        Ok(unfinished.uploads)
    }

    fn unreachable(&self, said: String) -> PersistError {
        PersistError::Unreachable { source: self.trouble(said).into() }
    }

    /// A failure that stays.
    pub(crate) fn determinate(&self, said: String) -> PersistError {
        PersistError::Determinate { context: "asking the blob store", source: self.trouble(said).into() }
    }

    fn trouble(&self, said: String) -> Trouble {
        Trouble { store: self.location.address(), said }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("location", &self.location.address()).finish_non_exhaustive()
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.store, self.said)
    }
}

impl Error for Trouble {}
