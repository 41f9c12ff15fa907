//! Objects in a bucket of an S3-compatible service.
//!
//! A small object is one PUT; a large one goes in parts as it is made, so that its writer holds one part in memory, and is
//! there when the last request, which joins them, was answered. Reading asks for ranges, some megabytes at a time.
//!
//! A client of our own, because the requests are few and that of `object_store` would set features of shared dependencies,
//! by which most of the workspace would be built again.
//!
//! # Invariants
//! * An answer that was lost does no harm: the same request again has the same effect, or none.

mod client;
mod http;
mod location;
mod signature;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::blob::s3::client::{Call, Client, element, elements};
use crate::blob::s3::location::Location;
use crate::blob::store::{Object, ObjectStore, Upload};
use crate::encoding::length_to_u64;
use crate::error::PersistError;

/// How long a service that does not answer is waited for, when the server runs.
const PATIENCE: Duration = Duration::from_secs(30);

/// A part of an upload. The service takes 10,000 of at least 5 MiB.
const UPLOAD_PART_BYTES: usize = 8 << 20;

/// What is asked for at once, at least: a few parts of a blob.
const WINDOW_BYTES: usize = 4 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct Bucket {
    client: Arc<Client>,
}

/// What was written and not sent yet, and the parts that were.
#[derive(Debug)]
struct BucketUpload {
    client: Arc<Client>,
    name: String,
    buffer: Vec<u8>,
    /// Once there is more than one part.
    parts: Option<Parts>,
}

#[derive(Debug)]
struct Parts {
    id: String,
    etags: Vec<String>,
    length: u64,
}

/// An object, a window of which is in memory.
#[derive(Debug)]
struct BucketObject {
    client: Arc<Client>,
    name: String,
    length: u64,
    window_at: u64,
    window: Bytes,
}

impl Bucket {
    /// The objects below an `s3://` URL. Waits up to `patience` for a service that does not answer; an answer may take up to
    /// `timeout` to begin.
    pub(crate) fn open(url: &str, timeout: Duration, patience: Duration) -> Result<Bucket, PersistError> {
        let location = Location::parse(url, &|name| std::env::var(name).ok())?;
        let bucket = Bucket { client: Arc::new(Client::new(location, timeout)?) };
        let query = [("list-type", "2"), ("max-keys", "1"), ("prefix", bucket.client.location.prefix.as_str())];
        let call = Call { method: "GET", query: &query, ..Call::default() };
        let answer = bucket.client.call("opening the blob store", patience, &call)?;
        match answer.status {
            200 => Ok(bucket),
            status => Err(bucket.client.refused(status, &answer.body)),
        }
    }

    fn call(&self, what: &'static str, call: &Call<'_>) -> Result<String, PersistError> {
        let answer = self.client.call(what, PATIENCE, call)?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        if answer.status >= 400 {
            return Err(self.client.refused(answer.status, &answer.body));
        }
        Ok(text)
    }
}

impl ObjectStore for Bucket {
    fn address(&self) -> String {
        self.client.location.address()
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, PersistError> {
        let root = &self.client.location.prefix;
        let (from, mut names, mut token) = (format!("{root}{prefix}"), Vec::new(), None::<String>);
        loop {
            let mut query = vec![("list-type", "2"), ("prefix", from.as_str())];
            query.extend(token.as_deref().map(|token| ("continuation-token", token)));
            let text = self.call("listing blobs", &Call { method: "GET", query: &query, ..Call::default() })?;
            let keys = elements(&text, "Contents").filter_map(|inside| element(inside, "Key"));
            names.extend(keys.filter_map(|key| Some(key.strip_prefix(root.as_str())?.to_owned())));
            token = element(&text, "NextContinuationToken");
            if token.is_none() {
                return Ok(names);
            }
        }
    }

    fn create(&self, name: &str) -> Result<Box<dyn Upload>, PersistError> {
        let (client, name) = (Arc::clone(&self.client), name.to_owned());
        Ok(Box::new(BucketUpload { client, name, buffer: Vec::new(), parts: None }))
    }

    fn open(&self, name: &str) -> Result<Option<Box<dyn Object>>, PersistError> {
        let range = Some((0, length_to_u64(WINDOW_BYTES) - 1));
        let answer = self.client.call(
            "opening a blob",
            PATIENCE,
            &Call { method: "GET", key: name, range, ..Call::default() },
        )?;
        let (length, window) = match answer.status {
            404 => return Ok(None),
            // Nothing is within any range of an empty object.
            416 => (0, Bytes::new()),
            _ => (answer.total_length.unwrap_or(length_to_u64(answer.body.len())), answer.body),
        };
        let (client, name) = (Arc::clone(&self.client), name.to_owned());
        Ok(Some(Box::new(BucketObject { client, name, length, window_at: 0, window })))
    }

    fn delete(&self, name: &str) -> Result<(), PersistError> {
        self.client
            .call("removing a blob", PATIENCE, &Call { method: "DELETE", key: name, ..Call::default() })
            .map(drop)
    }

    fn forget_unfinished(&self, prefix: &str) -> Result<(), PersistError> {
        let root = &self.client.location.prefix;
        let from = format!("{root}{prefix}");
        let query = [("uploads", ""), ("prefix", from.as_str())];
        let text = self.call("listing unfinished blobs", &Call { method: "GET", query: &query, ..Call::default() })?;
        for upload in elements(&text, "Upload") {
            let (key, id) = (element(upload, "Key").unwrap_or_default(), element(upload, "UploadId"));
            let (Some(name), Some(id)) = (key.strip_prefix(root.as_str()), id) else { continue };
            if name.starts_with(prefix) {
                tracing::info!(blob = name, "forgetting an unfinished blob");
                let query = [("uploadId", id.as_str())];
                let call = Call { method: "DELETE", key: name, query: &query, ..Call::default() };
                self.client.call("forgetting an unfinished blob", PATIENCE, &call)?;
            }
        }
        Ok(())
    }
}

impl Upload for BucketUpload {
    fn write(&mut self, bytes: &[u8]) -> Result<(), PersistError> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= UPLOAD_PART_BYTES { self.send_part() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> Result<(), PersistError> {
        if self.parts.is_none() {
            let call = Call { method: "PUT", key: &self.name, body: &self.buffer, ..Call::default() };
            let answer = self.client.call("writing a blob", PATIENCE, &call)?;
            return self.expect(answer.status == 200, answer.status, &answer.body);
        }
        if !self.buffer.is_empty() {
            self.send_part()?;
        }
        self.join_parts()?;
        self.parts = None;
        Ok(())
    }
}

impl BucketUpload {
    fn send_part(&mut self) -> Result<(), PersistError> {
        if self.parts.is_none() {
            let call = Call { method: "POST", key: &self.name, query: &[("uploads", "")], ..Call::default() };
            let answer = self.client.call("beginning a blob", PATIENCE, &call)?;
            let id = element(&String::from_utf8_lossy(&answer.body), "UploadId");
            self.expect(id.is_some(), answer.status, &answer.body)?;
            self.parts = id.map(|id| Parts { id, etags: Vec::new(), length: 0 });
        }
        let parts = self.parts.as_ref().expect("it was just made");
        let number = (parts.etags.len() + 1).to_string();
        let query = [("partNumber", number.as_str()), ("uploadId", parts.id.as_str())];
        let call = Call { method: "PUT", key: &self.name, query: &query, body: &self.buffer, ..Call::default() };
        let answer = self.client.call("writing a part of a blob", PATIENCE, &call)?;
        self.expect(answer.status == 200 && answer.etag.is_some(), answer.status, &answer.body)?;
        let length = length_to_u64(self.buffer.len());
        self.buffer.clear();
        let parts = self.parts.as_mut().expect("it was just used");
        parts.length += length;
        parts.etags.extend(answer.etag);
        Ok(())
    }

    /// Makes the parts one object. If the answer is lost, the next one is that there is no such upload, and the object tells.
    fn join_parts(&self) -> Result<(), PersistError> {
        let Parts { id, etags, length } = self.parts.as_ref().expect("there are parts");
        let listed: String = etags
            .iter()
            .enumerate()
            .map(|(at, etag)| format!("<Part><PartNumber>{}</PartNumber><ETag>{etag}</ETag></Part>", at + 1))
            .collect();
        let body = format!("<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>");
        let query = [("uploadId", id.as_str())];
        let call = Call { method: "POST", key: &self.name, query: &query, body: body.as_bytes(), ..Call::default() };
        let answer = self.client.call("finishing a blob", PATIENCE, &call)?;
        if answer.status == 404 {
            let store = Bucket { client: Arc::clone(&self.client) };
            let is_whole = store.open(&self.name)?.is_some_and(|object| object.length() == *length);
            return self.expect(is_whole, answer.status, &answer.body);
        }
        // It may begin with 200 and end with an error.
        let is_error = elements(&String::from_utf8_lossy(&answer.body), "Error").next().is_some();
        self.expect(answer.status == 200 && !is_error, answer.status, &answer.body)
    }

    fn expect(&self, is_so: bool, status: u16, body: &[u8]) -> Result<(), PersistError> {
        if is_so { Ok(()) } else { Err(self.client.refused(status, body)) }
    }
}

impl Drop for BucketUpload {
    fn drop(&mut self) {
        if let Some(Parts { id, .. }) = &self.parts {
            let query = [("uploadId", id.as_str())];
            let call = Call { method: "DELETE", key: &self.name, query: &query, ..Call::default() };
            // Once: who opens the store next forgets it otherwise.
            let forgotten = self.client.attempt(&call).is_ok();
            tracing::warn!(blob = self.name, forgotten, "an unfinished blob was given up");
        }
    }
}

impl Object for BucketObject {
    fn length(&self) -> u64 {
        self.length
    }

    fn read(&mut self, offset: u64, length: usize) -> Result<Bytes, PersistError> {
        if let Some(found) = self.in_window(offset, length) {
            return Ok(found);
        }
        let asked = length_to_u64(length.max(WINDOW_BYTES));
        let last = (offset + asked).min(self.length).saturating_sub(1);
        let call = Call { method: "GET", key: &self.name, range: Some((offset, last)), ..Call::default() };
        let answer = self.client.call("reading a blob", PATIENCE, &call)?;
        if answer.status == 206 {
            (self.window_at, self.window) = (offset, answer.body.clone());
        }
        let gone = || PersistError::corrupt(format!("blob {}", self.name), "it was removed while it was read");
        match answer.status {
            404 => Err(gone()),
            status => self.in_window(offset, length).ok_or_else(|| self.client.refused(status, &answer.body)),
        }
    }
}

impl BucketObject {
    fn in_window(&self, offset: u64, length: usize) -> Option<Bytes> {
        let start = usize::try_from(offset.checked_sub(self.window_at)?).ok()?;
        let end = start.checked_add(length)?;
        (end <= self.window.len()).then(|| self.window.slice(start..end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob::store::contract;
    use glimpse_test::s3_server::S3;

    fn open(url: &str) -> Result<Bucket, PersistError> {
        let second = Duration::from_secs(1);
        Bucket::open(url, 10 * second, second)
    }

    #[test]
    fn passes_the_contract() {
        let Some(server) = S3::start().expect("the emulator starts") else { return };
        contract(&|| Box::new(open(&server.url("below/a prefix")).expect("it opens")));
    }

    #[test]
    fn passes_the_contract_over_tls() {
        let Some(server) = S3::start_secured().expect("the emulator starts") else { return };
        contract(&|| Box::new(open(&server.url("p")).expect("it opens")));
        // Whom the system trusts has not signed the certificate.
        let url = server.url("p");
        let (trusted, _) = url.split_once("&ca_bundle=").expect("the file is named last");
        let error =
            open(&format!("{trusted}&ca_bundle=/etc/ssl/certs/ca-certificates.crt")).expect_err("it is a stranger");
        assert!(crate::pauses::in_full(&error).contains("certificate"), "{error}");
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said_at_once() {
        let Some(server) = S3::start().expect("the emulator starts") else { return };
        let error = |url: &str| {
            let error = open(url).expect_err("it cannot be used");
            assert!(!matches!(error, PersistError::Unreachable { .. }), "{error}");
            crate::pauses::in_full(&error)
        };
        let url = server.url("");
        assert!(error(&url.replace("s3://glimpse", "s3://another")).contains("NoSuchBucket"));
        let wrong = error(&url.replace("secret_access_key=", "secret_access_key=not"));
        assert!(wrong.contains("SignatureDoesNotMatch"), "{wrong}");
    }

    #[test]
    fn a_service_that_does_not_answer_is_asked_again() {
        // Nobody listens on port 1.
        let url = "s3://b?endpoint=http://127.0.0.1:1&access_key_id=a&secret_access_key=b";
        let error = open(url).expect_err("nobody answers");
        assert!(matches!(error, PersistError::Unreachable { .. }), "{error}");
    }
}
