//! Objects in a bucket of an S3-compatible service.
//!
//! A small object is one PUT; a large one goes in parts as it is made, so that its writer holds one part in memory, and is
//! there when the last request, which joins them, was answered. Reading asks for ranges, some megabytes at a time.
//!
//! Signatures, credentials and XML are the concern of the library `object_store`; waiting for a service that does not answer, and what
//! that means for a write, is ours, as it is for the consensus store.
//!
//! # Invariants
//! * An answer that was lost does no harm: the same request again has the same effect, or none.

mod client;
mod http;
mod location;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::multipart::{MultipartStore, PartId};
use object_store::{GetOptions, MultipartId, ObjectStore as _, ObjectStoreExt, PutPayload};

use crate::blob::BLOBS;
use crate::blob::s3::client::Client;
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
    id: MultipartId,
    sent: Vec<PartId>,
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
    /// The objects below an `s3://` URL. Waits up to `patience` for a service that does not answer; an attempt may take up to
    /// `timeout`, and longer if it carries much.
    pub(crate) fn open(url: &str, timeout: Duration, patience: Duration) -> Result<Bucket, PersistError> {
        Bucket::open_in(url, &|name| std::env::var(name).ok(), timeout, patience)
    }

    /// The same with other environment variables.
    fn open_in(
        url: &str,
        env: &dyn Fn(&str) -> Option<String>,
        timeout: Duration,
        patience: Duration,
    ) -> Result<Bucket, PersistError> {
        let client = Client::new(Location::parse(url, env)?, timeout)?;
        if client.location.credentials.are_lent() {
            client.check_credentials(patience)?;
        }
        let bucket = Bucket { client: Arc::new(client) };
        bucket.page("opening the blob store", patience, BLOBS, None, Some(1))?;
        Ok(bucket)
    }

    /// The names of some objects that begin with `prefix`, and how to ask for more.
    fn page(
        &self,
        what: &'static str,
        patience: Duration,
        prefix: &str,
        page_token: Option<String>,
        max_keys: Option<usize>,
    ) -> Result<(Vec<String>, Option<String>), PersistError> {
        let root = &self.client.location.prefix;
        let from = format!("{root}{prefix}");
        let asked = self.client.call(what, patience, 0, || {
            let page_token = page_token.clone();
            let options = PaginatedListOptions { page_token, max_keys, ..PaginatedListOptions::default() };
            self.client.store.list_paginated(Some(&from), options)
        })?;
        let keys = asked.result.objects.iter().map(|object| object.location.as_ref());
        let names = keys.filter_map(|key| key.strip_prefix(root.as_str()).filter(|name| name.starts_with(prefix)));
        Ok((names.map(str::to_owned).collect(), asked.page_token))
    }
}

impl ObjectStore for Bucket {
    fn address(&self) -> String {
        self.client.location.address()
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, PersistError> {
        let (mut names, mut token) = (Vec::new(), None);
        loop {
            let (found, next) = self.page("listing blobs", PATIENCE, prefix, token, None)?;
            names.extend(found);
            if next.is_none() {
                return Ok(names);
            }
            token = next;
        }
    }

    fn create(&self, name: &str) -> Result<Box<dyn Upload>, PersistError> {
        let (client, name) = (Arc::clone(&self.client), name.to_owned());
        Ok(Box::new(BucketUpload { client, name, buffer: Vec::new(), parts: None }))
    }

    fn open(&self, name: &str) -> Result<Option<Box<dyn Object>>, PersistError> {
        let (client, name) = (Arc::clone(&self.client), name.to_owned());
        let opened = match client.read("opening a blob", &name, 0..length_to_u64(WINDOW_BYTES)) {
            // Nothing is within any range of an empty object.
            Err(error @ PersistError::Determinate { .. }) => match client.length(&name)? {
                Some(0) => Some((0, Bytes::new())),
                _ => return Err(error),
            },
            opened => opened?,
        };
        let Some((length, window)) = opened else { return Ok(None) };
        Ok(Some(Box::new(BucketObject { client, name, length, window_at: 0, window })))
    }

    fn delete(&self, name: &str) -> Result<(), PersistError> {
        let path = self.client.path(name);
        self.client.find("removing a blob", PATIENCE, 0, || self.client.store.delete(&path)).map(drop)
    }

    fn forget_unfinished(&self, prefix: &str) -> Result<(), PersistError> {
        let root = &self.client.location.prefix;
        let from = format!("{root}{prefix}");
        let ask = || self.client.unfinished(&from);
        for upload in self.client.call("listing unfinished blobs", PATIENCE, 0, ask)? {
            let Some(name) = upload.key.strip_prefix(root.as_str()).filter(|name| name.starts_with(prefix)) else {
                continue;
            };
            tracing::info!(blob = name, "forgetting an unfinished blob");
            self.client.forget("forgetting an unfinished blob", PATIENCE, name, &upload.upload_id)?;
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
            let (path, bytes) = (self.client.path(&self.name), self.buffer.len());
            let payload = PutPayload::from(std::mem::take(&mut self.buffer));
            let ask = || self.client.store.put(&path, payload.clone());
            return self.client.call("writing a blob", PATIENCE, bytes, ask).map(drop);
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
        let (client, path) = (&self.client, self.client.path(&self.name));
        let parts = match &mut self.parts {
            Some(parts) => parts,
            none => {
                let id = client.call("beginning a blob", PATIENCE, 0, || client.store.create_multipart(&path))?;
                none.insert(Parts { id, sent: Vec::new(), length: 0 })
            }
        };
        let (at, bytes) = (parts.sent.len(), self.buffer.len());
        let payload = PutPayload::from(std::mem::take(&mut self.buffer));
        let ask = || client.store.put_part(&path, &parts.id, at, payload.clone());
        let sent = client.call("writing a part of a blob", PATIENCE, bytes, ask)?;
        parts.length += length_to_u64(bytes);
        parts.sent.push(sent);
        Ok(())
    }

    /// Makes the parts one object. If the answer is lost, the next one is that there is no such upload, and the object tells.
    fn join_parts(&self) -> Result<(), PersistError> {
        let Parts { id, sent, length } = self.parts.as_ref().expect("there are parts");
        let path = self.client.path(&self.name);
        let ask = || self.client.store.complete_multipart(&path, id, sent.clone());
        if self.client.find("finishing a blob", PATIENCE, 0, ask)?.is_some() {
            return Ok(());
        }
        match self.client.length(&self.name)? == Some(*length) {
            true => Ok(()),
            false => Err(self.client.determinate("a blob cannot be finished: its upload is gone".to_owned())),
        }
    }
}

impl Drop for BucketUpload {
    fn drop(&mut self) {
        if let Some(Parts { id, .. }) = &self.parts {
            // Once: who opens the store next forgets it otherwise.
            let forgotten = self.client.forget("giving a blob up", Duration::ZERO, &self.name, id).is_ok();
            tracing::warn!(blob = self.name, forgotten, "an unfinished blob was given up");
        }
    }
}

impl Client {
    /// The length of an object, and what is in a range of it; `None` if there is none of that name.
    fn read(&self, what: &'static str, name: &str, range: Range<u64>) -> Result<Option<(u64, Bytes)>, PersistError> {
        let path = self.path(name);
        let bytes = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        self.find(what, PATIENCE, bytes, || async {
            let options = GetOptions { range: Some(range.clone().into()), ..GetOptions::default() };
            let found = self.store.get_opts(&path, options).await?;
            Ok((found.meta.size, found.bytes().await?))
        })
    }

    fn length(&self, name: &str) -> Result<Option<u64>, PersistError> {
        let path = self.path(name);
        let found = self.find("looking at a blob", PATIENCE, 0, || self.store.head(&path))?;
        Ok(found.map(|found| found.size))
    }

    /// Gives an upload up, if it is there.
    fn forget(&self, what: &'static str, patience: Duration, name: &str, id: &str) -> Result<(), PersistError> {
        let (path, id) = (self.path(name), id.to_owned());
        self.find(what, patience, 0, || self.store.abort_multipart(&path, &id)).map(drop)
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
        let range = offset..(offset + asked).min(self.length);
        let read = self.client.read("reading a blob", &self.name, range)?;
        let gone = || PersistError::corrupt(format!("blob {}", self.name), "it was removed while it was read");
        (self.window_at, self.window) = (offset, read.ok_or_else(gone)?.1);
        let cut = || self.client.determinate("an answer is shorter than what was asked for".to_owned());
        self.in_window(offset, length).ok_or_else(cut)
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
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicUsize, Ordering};

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
    fn unfinished_uploads_are_forgotten() {
        let Some(server) = S3::start().expect("the emulator starts") else { return };
        let bucket = open(&server.url("p")).expect("it opens");
        let unfinished = || {
            let ask = || bucket.client.unfinished("p/");
            let found = bucket.client.call("looking", PATIENCE, 0, ask).expect("the service answers");
            let mut keys: Vec<String> = found.into_iter().map(|upload| upload.key).collect();
            keys.sort();
            keys
        };
        let begin = |name: &str| {
            let mut upload = bucket.create(name).expect("works");
            upload.write(&vec![0; UPLOAD_PART_BYTES]).expect("works");
            upload
        };
        std::mem::forget(begin("blobs/torn & more"));
        std::mem::forget(begin("others/torn"));
        drop(begin("blobs/given-up"));
        assert_eq!(unfinished(), ["p/blobs/torn & more", "p/others/torn"]);
        bucket.forget_unfinished("blobs/").expect("works");
        assert_eq!(unfinished(), ["p/others/torn"]);
    }

    #[test]
    fn who_has_no_credentials_is_told_so_at_once() {
        let env = |name: &str| (name == "AWS_METADATA_ENDPOINT").then(|| "http://127.0.0.1:1".to_owned());
        let (minute, url) = (Duration::from_secs(60), "s3://b?endpoint=http://127.0.0.1:1");
        let error = Bucket::open_in(url, &env, minute, minute).expect_err("nobody lends any");
        assert!(matches!(error, PersistError::StoreUrl { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("set AWS_ACCESS_KEY_ID") && text.contains("the machine lends none"), "{text}");
    }

    /// What the service of a container answers, always; how often it was asked so far.
    fn lender(body: String) -> (String, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}/credentials", listener.local_addr().expect("it listens"));
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        ore::thread::spawn("lender", move || {
            for mut stream in listener.incoming().flatten() {
                let mut head = [0; 4096];
                let read = stream.read(&mut head).expect("readable");
                assert!(String::from_utf8_lossy(&head[..read]).contains("authorization: let-me-in"));
                count.fetch_add(1, Ordering::SeqCst);
                let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
                stream.write_all(format!("{head}{body}").as_bytes()).expect("writable");
            }
        });
        (url, asked)
    }

    #[test]
    fn lent_credentials_are_used_and_renewed() {
        let Some(server) = S3::start().expect("the emulator starts") else { return };
        let location = Location::parse(&server.url("p"), &|_| None).expect("usable");
        let [key_id, secret, token] = server.lent();
        // So near to its end, a loan is not trusted.
        let end = "2000-01-01T00:00:00Z";
        let (lender, asked) = lender(format!(
            "{{\"AccessKeyId\":\"{key_id}\",\"SecretAccessKey\":\"{secret}\",\"Token\":\"{token}\",\"Expiration\":\"{end}\"}}"
        ));
        let word = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(word.path(), "let-me-in").expect("writable");
        let path = word.path().display().to_string();
        let env = |name: &str| match name {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI" => Some(lender.clone()),
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE" => Some(path.clone()),
            _ => None,
        };
        let (second, url) = (Duration::from_secs(1), format!("s3://glimpse/p?endpoint={}", location.endpoint()));
        let bucket = Bucket::open_in(&url, &env, 10 * second, second).expect("it opens");
        bucket.put("blobs/a", b"text").expect("works");
        let before = asked.load(Ordering::SeqCst);
        assert_eq!(bucket.list("").expect("works"), ["blobs/a"]);
        assert!(asked.load(Ordering::SeqCst) > before, "it was asked for {before} times at first, and not again");
    }

    #[test]
    fn a_service_that_does_not_answer_is_asked_again() {
        // Nobody listens on port 1.
        let url = "s3://b?endpoint=http://127.0.0.1:1&access_key_id=a&secret_access_key=b";
        let error = open(url).expect_err("nobody answers");
        assert!(matches!(error, PersistError::Unreachable { .. }), "{error}");
    }
}
