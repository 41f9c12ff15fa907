//! What a read waits for that is still being built, and how its client is told.

use crate::error::Notice;
use compute_client::plan::IndexInfo;
use compute_client::progress::Hydrating;
use repr::sqlstate::SqlState;
use std::sync::Arc;
use std::time::Duration;

/// How long a client waits before it is told for what.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// Indexes and views that a read needs and that were not there when it began.
pub struct Awaited(pub(crate) Vec<Arc<IndexInfo>>);

impl Awaited {
    /// What a client is told, unless all of them are there by now.
    pub fn notice(&self) -> Option<Notice> {
        let index = self.0.iter().find(|index| is_awaited(index))?;
        let Hydrating { rows_total, rows_read, took, .. } = index.handle.progress().now();
        Some(Notice {
            severity: "NOTICE",
            sqlstate: SqlState::SUCCESSFUL_COMPLETION,
            message: format!("waiting for {} to be built on cluster \"{}\"", index.name, index.cluster),
            detail: Some(format!(
                "{rows_read} of {rows_total} rows that it is made of were read in {} s.",
                took.as_secs()
            )),
            hint: Some("See mz_internal.mz_maintained_statuses.".to_owned()),
        })
    }
}

/// Whether it is still being built.
pub(crate) fn is_awaited(index: &IndexInfo) -> bool {
    !index.handle.is_hydrated() && index.handle.check().is_ok()
}
