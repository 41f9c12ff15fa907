//! What a connection asks for when it begins.

use catalog::builtin::introspection::Encryption;
use std::net::SocketAddr;
use std::sync::Arc;

/// What a connection asks for when it begins.
#[derive(Clone, Debug)]
pub struct StartupParams {
    /// The role.
    pub user: String,
    /// The database; the user's name if absent, as libpq has it, or the default if there is none of that name.
    pub database: Option<String>,
    /// Whether it came in on the internal port, which is trusted.
    pub internal: bool,
    /// All other parameters, `options=-c …` taken apart.
    pub options: Vec<(String, String)>,
    /// What is vouched for by the token that it has shown, a JSON object.
    pub claims: Option<Arc<str>>,
    /// Where it came from.
    pub peer: Option<SocketAddr>,
    /// At which address of the server it came in.
    pub local: Option<SocketAddr>,
    /// How it is encrypted, if it is.
    pub encryption: Option<Encryption>,
}
