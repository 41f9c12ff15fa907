//! What decodes the bytes of strangers, as functions of bytes, for the fuzzers of `test/fuzz`. A function returns when all is well, and
//! panics when it is not.

use crate::api::Routes;
use crate::cube::CubeConfig;
use crate::objects::{fields, object};
use crate::request::{Address, Request, address};
use crate::server::Web;
use crate::shared::Shared;
use axum::http::Uri;
use repr::{ColumnDesc, PgType, RelationDesc};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::sync::Semaphore;

/// The body of `POST /api/sql`.
pub fn request(bytes: &[u8]) {
    if let Ok(Request::Simple(text)) = Request::parse(bytes) {
        assert!(!text.contains('\0'), "a statement with NUL");
    }
}

/// A line of `POST /api/copy`, with columns of types that objects have values of, and the address of a request; separated by a line's end.
pub fn line(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |&byte| byte == b'\n');
    let (line, uri) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    if let Ok(uri) = Uri::try_from(uri) {
        let _address = address::<Address>(&uri);
    }
    let Ok(object) = object(line) else { return };
    let types =
        [PgType::Text, PgType::Jsonb, PgType::Array(Box::new(PgType::Int4)), PgType::Array(Box::new(PgType::Json))];
    let columns = types.into_iter().zip(["a", "b", "c", "d"]).map(|(ty, name)| (name.to_owned(), ty, true));
    let columns: Vec<ColumnDesc> = RelationDesc::new(columns).columns.to_vec();
    if let Ok(fields) = fields(&object, &columns) {
        assert_eq!(fields.len(), columns.len(), "each column has a field");
    }
}

/// A connection, before SQL is served.
pub fn port(bytes: &[u8]) {
    static WEB: LazyLock<Web> = LazyLock::new(|| {
        let shared = Shared {
            entrance: Arc::default(),
            request_bytes_max: 1 << 16,
            origins: vec!["https://example.com".to_owned()],
            cube: CubeConfig::default(),
            followed: Arc::new(Semaphore::new(1)),
            subscribe_history: Duration::ZERO,
            introductions: Semaphore::new(1),
            strangers: Semaphore::new(1),
        };
        Web::new(&Arc::new(shared), Routes::default(), None)
    });
    door::fuzz::port(&*WEB, bytes);
}
