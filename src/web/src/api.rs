//! The routes of a port, and what `GET /api/openapi.json` tells of them: a route has to say what it is, and there is no other way to add one
//! (`clippy.toml`).

use axum::Router;
use axum::handler::Handler;
use axum::http::header;
use axum::routing::{MethodRouter, get, post};
use bytes::Bytes;
use serde_json::{Value, json};
use utoipa::openapi::path::{HttpMethod, Operation, Paths};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, Info, OpenApi};

/// Where the document is.
const PATH: &str = "/api/openapi.json";

/// Routes that share a state, each with what is told of it.
pub struct Routes<S = ()> {
    router: Router<S>,
    paths: Paths,
}

impl<S: Clone + Send + Sync + 'static> Default for Routes<S> {
    fn default() -> Routes<S> {
        Routes { router: Router::new(), paths: Paths::new() }
    }
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// Adds a route for GET. `told` is an operation as OpenAPI 3.1 has them.
    ///
    /// # Panics
    /// If that is none.
    #[must_use]
    pub fn get<T: 'static>(self, path: &str, handler: impl Handler<T, S>, told: Value) -> Routes<S> {
        self.route(path, HttpMethod::Get, get(handler), told)
    }

    /// The same for POST.
    #[must_use]
    pub fn post<T: 'static>(self, path: &str, handler: impl Handler<T, S>, told: Value) -> Routes<S> {
        self.route(path, HttpMethod::Post, post(handler), told)
    }

    /// The same for either.
    #[must_use]
    pub(crate) fn get_or_post<T: 'static>(self, path: &str, handler: impl Handler<T, S>, told: Value) -> Routes<S> {
        self.get(path, handler.clone(), told.clone()).post(path, handler, told)
    }

    #[expect(clippy::disallowed_methods, reason = "the one place where routes are added")]
    fn route(mut self, path: &str, method: HttpMethod, handler: MethodRouter<S>, told: Value) -> Routes<S> {
        let operation: Operation =
            serde_json::from_value(told).unwrap_or_else(|why| panic!("{path} is not told: {why}"));
        self.paths.add_path_operation(path, vec![method], operation);
        Routes { router: self.router.route(path, handler), paths: self.paths }
    }

    /// The same with this state.
    pub fn with_state(self, state: S) -> Routes {
        Routes { router: self.router.with_state(state), paths: self.paths }
    }
}

impl Routes {
    /// The same and others.
    #[must_use]
    pub fn merge(mut self, other: Routes) -> Routes {
        self.paths.merge(other.paths);
        Routes { router: self.router.merge(other.router), paths: self.paths }
    }

    /// The routes, and one for the document that tells of them.
    pub(crate) fn into_router(self) -> Router {
        let told = json!({
            "summary": "This document",
            "security": [{}],
            "responses": { "200": { "description": "OpenAPI 3.1", "content": { "application/json": {} } } },
        });
        // Its own route is in it before it is written.
        let Routes { paths, .. } = Routes::<()>::default().get(PATH, || async {}, told.clone());
        let mut all = self.paths.clone();
        all.merge(paths);
        let mut document = OpenApi::new(Info::new("Glimpse", env!("CARGO_PKG_VERSION")), all);
        let scheme = |scheme| SecurityScheme::Http(Http::new(scheme));
        let schemes = ComponentsBuilder::new()
            .security_scheme("basic", scheme(HttpAuthScheme::Basic))
            .security_scheme("bearer", scheme(HttpAuthScheme::Bearer));
        document.components = Some(schemes.build());
        let none: [&str; 0] = [];
        document.security = Some(vec![
            SecurityRequirement::default(),
            SecurityRequirement::new("basic", none),
            SecurityRequirement::new("bearer", none),
        ]);
        let text = Bytes::from(serde_json::to_vec(&document).expect("it is texts and numbers"));
        let answer = move || std::future::ready(([(header::CONTENT_TYPE, "application/json")], text.clone()));
        self.get(PATH, answer, told).router
    }
}

/// A parameter in the address, behind the question mark.
pub fn query(name: &str, description: &str) -> Value {
    json!({
        "name": name, "in": "query", "required": false, "description": description,
        "schema": { "type": "string" },
    })
}

/// The same of one that has to be there.
pub(crate) fn required_query(name: &str, description: &str) -> Value {
    let mut query = query(name, description);
    query["required"] = json!(true);
    query
}

/// `?options=`.
pub(crate) fn options() -> Value {
    query("options", "Parameters of the session, a JSON object: {\"database\": \"d\", \"statement_timeout\": \"5s\"}")
}

/// The header `Idempotency-Key`.
pub(crate) fn idempotency_key() -> Value {
    json!({
        "name": "Idempotency-Key", "in": "header", "required": false,
        "description": "A word of 1 to 200 characters: with the same word the request is carried out once",
        "schema": { "type": "string" },
    })
}

/// An answer that is an error and nothing else.
pub(crate) fn refused() -> Value {
    let text = || json!({ "type": "string" });
    json!({
        "description": "An error",
        "content": { "application/json": { "schema": {
            "type": "object",
            "properties": { "error": {
                "type": "object",
                "required": ["message", "code"],
                "properties": { "message": text(), "code": text(), "detail": text(), "hint": text(), "context": text(),
                                "position": { "type": "integer" } },
            } },
        } } },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_what_is_there() {
        let told = || json!({ "summary": "x", "parameters": [options()], "responses": { "default": refused() } });
        let others = Routes::<u8>::default().get("/b", || async {}, told()).with_state(7);
        let routes = Routes::default().post("/a", || async {}, told()).merge(others);
        let paths: Vec<_> = routes.paths.paths.keys().cloned().collect();
        assert_eq!(paths, ["/a", "/b"]);
        let _router = routes.into_router();
    }
}
