//! Options that several programs have: where servers are, and how long a run is.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// What Glimpse and a PostgreSQL are started from.
#[derive(Args, Clone, Debug)]
pub struct Places {
    /// Where servers keep their data; it decides which disk is measured.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    pub work_dir: PathBuf,
    /// The server binary, when it is not the one built beside this program.
    #[arg(long)]
    pub environmentd: Option<PathBuf>,
    /// The directory of PostgreSQL's programs, when it is not found by itself.
    #[arg(long)]
    pub pg_bin: Option<PathBuf>,
}

/// The time of one run.
#[derive(Args, Clone, Copy, Debug)]
pub struct Window {
    /// Seconds of each run that are measured.
    #[arg(long, default_value_t = 2.0)]
    duration: f64,
    /// Seconds before them that are not.
    #[arg(long, default_value_t = 0.5)]
    warmup: f64,
}

impl Window {
    /// The measured part.
    pub fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.duration)
    }

    /// The part before it.
    pub fn warmup(&self) -> Duration {
        Duration::from_secs_f64(self.warmup)
    }
}
