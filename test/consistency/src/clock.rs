//! A wall clock that jumps, for one server: libfaketime reads it from a file whenever the server asks. The monotonic clock goes on.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

/// Where Debian has the library.
const LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// See the module.
#[derive(Debug)]
pub struct WallClock {
    dir: TempDir,
    library: PathBuf,
    /// How far it is ahead of ours.
    ahead: Duration,
}

impl WallClock {
    /// A clock that agrees with ours; `None` if there is no libfaketime, which is said in one line.
    pub fn new() -> anyhow::Result<Option<WallClock>> {
        let Some(library) = LIBRARIES.iter().map(PathBuf::from).find(|path| path.is_file()) else {
            eprintln!("SKIPPED: libfaketime is not installed: clocks do not jump");
            return Ok(None);
        };
        let mut clock = WallClock { dir: tempfile::tempdir()?, library, ahead: Duration::ZERO };
        clock.set(Duration::ZERO)?;
        Ok(Some(clock))
    }

    /// What makes a server ask it.
    pub fn environment(&self) -> Vec<(String, String)> {
        let file = self.dir.path().join("clock").display().to_string();
        let library = self.library.display().to_string();
        let pairs = [
            ("LD_PRELOAD", library.as_str()),
            ("FAKETIME_TIMESTAMP_FILE", &file),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("DONT_FAKE_MONOTONIC", "1"),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    }

    /// Lets it jump to so far ahead of ours.
    pub fn set(&mut self, ahead: Duration) -> anyhow::Result<()> {
        // At once: the server may read it in any moment.
        let temporary = self.dir.path().join("next");
        std::fs::write(&temporary, format!("+{:.3}\n", ahead.as_secs_f64()))?;
        std::fs::rename(temporary, self.dir.path().join("clock"))?;
        self.ahead = ahead;
        Ok(())
    }

    /// How far it is ahead of ours.
    pub fn ahead(&self) -> Duration {
        self.ahead
    }
}

/// What a clock that is so far ahead of ours shows.
pub fn shown(ahead: Duration) -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + ahead
}
