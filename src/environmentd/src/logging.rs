//! Structured logs on standard error, filtered by the system parameter `log_filter`.

use adapter::client::Client;
use std::time::Duration;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

/// The default, until the catalog has been read.
const DEFAULT: &str = "info";
/// How often the parameter is looked at.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);

/// The handle by which the filter changes while the server runs.
pub struct LogFilter(reload::Handle<EnvFilter, Registry>);

impl LogFilter {
    /// Installs logging for the process.
    pub fn install() -> LogFilter {
        let (filter, handle) = reload::Layer::new(EnvFilter::new(DEFAULT));
        let layer = fmt::layer().with_writer(std::io::stderr).with_target(true);
        // A process that has a subscriber already (a test) keeps it.
        let _installed = tracing_subscriber::registry().with(filter).with(layer).try_init();
        LogFilter(handle)
    }

    /// Applies the parameter now and whenever it changes.
    pub fn follow(self, client: &Client) {
        let client = client.clone();
        let mut current = DEFAULT.to_owned();
        drop(ore::thread::spawn("log-filter", move || {
            loop {
                if let Some(wanted) = client.system_parameter("log_filter")
                    && wanted != current
                {
                    match wanted.parse::<EnvFilter>() {
                        // The layer lives as long as the process.
                        Ok(filter) => drop(self.0.reload(filter)),
                        Err(error) => tracing::warn!(%error, log_filter = wanted, "not a log filter"),
                    }
                    current = wanted;
                }
                std::thread::sleep(FOLLOW_EVERY);
            }
        }));
    }
}
