//! Cube's API: `/cubejs-api/v1/…`, for its clients as they are.
//!
//! - `asked`: who asks, and what: parameters of an address or of a body;
//! - `load`: rows of a query in Cube's JSON, as JSON (`result`, `cells`) or Arrow;
//! - `describe`: what there is to ask for (`meta`), what a query means (`dry-run`, `sql`);
//! - `cubesql`: rows of a statement in SQL, as lines of JSON;
//! - `socket`: all of these by WebSocket, and queries that are followed.
//!
//! A query becomes one statement over `cube_load` (`adapter::made`), so that members, policies and plans are those of SQL. All that a request
//! asks is read at one time, which the answer tells as `lastRefreshTime`.

pub(crate) mod asked;
mod cells;
mod cubesql;
mod describe;
mod load;
mod result;
mod socket;

use crate::api::Routes;

/// How Cube's API is served.
#[derive(Clone, Copy, Debug)]
pub struct CubeConfig {
    /// Rows of who does not say how many.
    pub default_limit: u64,
    /// More rows than this are refused in JSON.
    pub limit_max: u64,
    /// Queries that may be followed at once.
    pub followed_max: usize,
}

impl Default for CubeConfig {
    /// The limits of Cube, and a thousand followed queries.
    fn default() -> CubeConfig {
        CubeConfig { default_limit: 10_000, limit_max: 50_000, followed_max: 1000 }
    }
}

/// Its routes.
pub(crate) fn routes() -> Routes {
    Routes::default()
        .get_or_post("/cubejs-api/v1/load", load::load, load::told())
        .get_or_post("/cubejs-api/v1/subscribe", load::load, load::told())
        .get_or_post("/cubejs-api/v1/meta", describe::meta, describe::meta_told())
        .get_or_post("/cubejs-api/v1/dry-run", describe::dry_run, describe::dry_run_told())
        .get_or_post("/cubejs-api/v1/sql", describe::sql, describe::sql_told())
        .post("/cubejs-api/v1/cubesql", cubesql::cubesql, cubesql::told())
        .get("/cubejs-api/v1/ws", socket::websocket, socket::told())
        .get("/", socket::websocket, socket::told())
}
