//! The configuration parameters that a statement reads: the session's as they are when it begins, and the system's.

use crate::shared::Shared;
use engine::Settings;
use engine::error::SqlError;
use sql::vars::SessionVars;
use std::sync::Arc;

/// The parameters of one session.
pub(crate) struct CurrentSettings {
    /// The session's own.
    pub(crate) vars: SessionVars,
    /// Where the system's are.
    pub(crate) shared: Arc<Shared>,
}

impl Settings for CurrentSettings {
    fn get(&self, name: &str) -> Option<String> {
        let system = || self.shared.published.load().state.system().get(name).map(str::to_owned);
        self.vars.get(name).map(str::to_owned).or_else(system)
    }

    fn check(&self, name: &str, value: Option<&str>) -> Result<String, SqlError> {
        SessionVars::check_raw(name, value, self.get(&name.to_lowercase()).as_deref())
    }
}
