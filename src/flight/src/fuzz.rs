//! What decodes the bytes of strangers, as functions of bytes, for the fuzzers of `test/fuzz`. A function returns when all is well, and
//! panics when it is not.

use crate::handshake::Claim;
use crate::server::router;
use crate::service::Asked;
use crate::statement::Statement;
use axum::body::Body;
use door::http::{Door, HTTP2};
use door::visitor::Visitor;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use prost::Message;
use std::convert::Infallible;
use std::sync::{Arc, LazyLock};

/// A descriptor or a ticket, a handle, a token.
pub fn command(bytes: &[u8]) {
    let _asked = Asked::read(bytes);
    if let Ok(statement) = Statement::read(bytes) {
        assert!(!statement.query.contains('\0'), "a statement with NUL");
        let again = Statement::read(&statement.encode_to_vec());
        assert!(again.is_ok_and(|again| again == statement), "a statement is not read back");
    }
    if let Ok(token) = std::str::from_utf8(bytes)
        && let Some(claim) = Claim::read(token)
    {
        assert!(!claim.holds("verifier"), "nobody has got this token");
    }
}

/// A connection, of a caller of whom nobody asks who it is.
pub fn port(bytes: &[u8]) {
    static OPEN: LazyLock<Open> = LazyLock::new(|| Open { router: router(1 << 16) });
    door::fuzz::port(&*OPEN, bytes);
}

/// What is answered then: messages are read, and nothing is done.
#[derive(Clone)]
struct Open {
    router: axum::Router,
}

impl Door for Open {
    type Own = ();
    type Body = Body;
    const PROTOCOLS: &'static [&'static [u8]] = &[HTTP2];

    fn own(&self) {}

    fn answer(
        &self,
        _visitor: &Arc<Visitor<()>>,
        request: hyper::Request<Incoming>,
        _has_turn: bool,
    ) -> impl Future<Output = Result<axum::response::Response, Infallible>> + Send + use<> {
        TowerToHyperService::new(self.router.clone()).call(request)
    }

    fn left(&self, _own: &()) {}
}
