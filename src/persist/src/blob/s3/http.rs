//! HTTP below the library that speaks to S3: whom it trusts, and what answers mean.
//!
//! The library tries again by itself, and tells of it in its own words. Here one loop does that for all stores that are shared
//! (`postgres::retry`), and it has to know what may pass; so an answer that is no help is made an error that says.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use reqwest::redirect::Policy;
use rustls::ClientConfig;
use serde::Deserialize;

/// Makes clients.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    /// Whom to trust; `None` where nothing is asked over TLS.
    pub(crate) tls: Option<Arc<ClientConfig>>,
    /// How long connecting may take.
    pub(crate) timeout: Duration,
}

/// A client whose answers are help.
#[derive(Debug)]
struct Answers(HttpClient);

/// An answer that is none.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Whether asking again may help.
    may_pass: bool,
    said: String,
}

/// What a service says is wrong.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Complaint {
    code: String,
    message: Option<String>,
}

/// The same within a document, as services that lend credentials have it.
#[derive(Deserialize)]
struct Complaints {
    #[serde(rename = "Error")]
    complaint: Complaint,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allows_http = options.get_config_value(&ClientConfigKey::AllowHttp).as_deref() == Some("true");
        let builder = reqwest::Client::builder()
            .user_agent("glimpse")
            .connect_timeout(self.timeout)
            .https_only(!allows_http)
            .http1_only()
            .no_proxy()
            // Elsewhere is another region: whoever set it up has to know.
            .redirect(Policy::none());
        let builder = match &self.tls {
            Some(config) => builder.use_preconfigured_tls(config.as_ref().clone()),
            None => builder.tls_built_in_root_certs(false),
        };
        let client = builder.build().map_err(generic)?;
        Ok(HttpClient::new(Answers(HttpClient::new(client))))
    }
}

#[async_trait]
impl HttpService for Answers {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let is_post = request.method() == "POST";
        // The library writes a space in a query as forms do, and signs it as `%20`: not every service sees that it is the same.
        if request.uri().query().is_some_and(|query| query.contains('+')) {
            let uri = request.uri().to_string().replace('+', "%20");
            *request.uri_mut() = uri.parse().expect("it was one before");
        }
        let response = self.0.execute(request).await?;
        let status = response.status().as_u16();
        // What is posted may begin with 200 and end with an error.
        if (200..300).contains(&status) && !is_post {
            return Ok(response);
        }
        let (head, body) = response.into_parts();
        let body = body.bytes().await?;
        match judge(status, &body) {
            None => Ok(HttpResponse::from_parts(head, body.into())),
            Some(refusal) => Err(HttpError::new(HttpErrorKind::Unknown, refusal)),
        }
    }
}

/// What is wrong with an answer. That there is no such object, or not so much of it, is for the library to tell.
fn judge(status: u16, body: &Bytes) -> Option<Refusal> {
    let text = String::from_utf8_lossy(body);
    let complaint = quick_xml::de::from_str::<Complaint>(&text).ok();
    let is_help = match status {
        200..300 => complaint.is_none(),
        404 => complaint.as_ref().is_none_or(|complaint| complaint.code != "NoSuchBucket"),
        416 => true,
        _ => false,
    };
    if is_help {
        return None;
    }
    let within = || quick_xml::de::from_str::<Complaints>(&text).ok().map(|complaints| complaints.complaint);
    let said = match complaint.or_else(within) {
        Some(Complaint { code, message: Some(message) }) => format!("it answered {status} {code}: {message}"),
        Some(Complaint { code, message: None }) => format!("it answered {status} {code}"),
        None => format!("it answered {status}"),
    };
    Some(Refusal { may_pass: matches!(status, 200..300 | 408 | 429 | 500 | 502 | 503 | 504), said })
}

/// An error of the library's kind.
pub(crate) fn generic(error: impl Into<Box<dyn Error + Send + Sync>>) -> object_store::Error {
    object_store::Error::Generic { store: "S3", source: error.into() }
}

/// Whether asking again may help: if there was no answer, unless it is the certificate that we do not believe, or if the answer
/// was of that kind.
pub(crate) fn may_pass(error: &object_store::Error) -> bool {
    let refusal = causes(error).find_map(|cause| cause.downcast_ref::<Refusal>());
    let is_stranger = |cause: &(dyn Error + 'static)| {
        let tls = cause.downcast_ref();
        matches!(tls, Some(rustls::Error::InvalidCertificate(_) | rustls::Error::InvalidMessage(_)))
    };
    match refusal {
        Some(refusal) => refusal.may_pass,
        None => causes(error).any(|cause| cause.is::<HttpError>()) && !causes(error).any(is_stranger),
    }
}

/// An error and what led to it.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let cause = |error: &&'a (dyn Error + 'static)| {
        let error: &'a (dyn Error + 'static) = *error;
        // An I/O error tells of the cause of what is within, and not of that.
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(within) => Some(within as &'a (dyn Error + 'static)),
            None => error.source(),
        }
    };
    std::iter::successors(Some(error), cause)
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said)
    }
}

impl Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_answers_mean() {
        let error = |code: &str| {
            format!("<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code><Message>a &lt; b</Message></Error>")
        };
        let cases = [
            (200, "<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>".to_owned(), None),
            (200, "<DeleteResult><Error><Code>x</Code></Error></DeleteResult>".to_owned(), None),
            (200, error("InternalError"), Some((true, "it answered 200 InternalError: a < b"))),
            (404, error("NoSuchKey"), None),
            (404, String::new(), None),
            (404, error("NoSuchBucket"), Some((false, "it answered 404 NoSuchBucket: a < b"))),
            (416, error("InvalidRange"), None),
            (
                400,
                "<ErrorResponse><Error><Code>InvalidIdentityToken</Code></Error></ErrorResponse>".to_owned(),
                Some((false, "it answered 400 InvalidIdentityToken")),
            ),
            (403, "<Error><Code>AccessDenied</Code></Error>".to_owned(), Some((false, "it answered 403 AccessDenied"))),
            (301, error("PermanentRedirect"), Some((false, "it answered 301 PermanentRedirect: a < b"))),
            (503, "<html>busy".to_owned(), Some((true, "it answered 503"))),
        ];
        for (status, body, expected) in cases {
            let found = judge(status, &Bytes::from(body.clone()));
            let found = found.as_ref().map(|refusal| (refusal.may_pass, refusal.said.as_str()));
            assert_eq!(found, expected, "{status} {body}");
        }
    }
}
