//! What a read waits for that is still being built, and how its client is told.

use crate::error::Notice;
use crate::session::Session;
use compute_client::hydration::Hydrating;
use compute_client::plan::IndexInfo;
use repr::GlobalId;
use repr::sqlstate::SqlState;
use std::sync::Arc;
use std::time::Duration;

/// How long a client waits before it is told for what.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// Indexes and views that a read needs and that were not there when it began.
pub struct Awaited(Vec<Arc<IndexInfo>>);

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

fn is_awaited(index: &IndexInfo) -> bool {
    !index.handle.is_hydrated() && index.handle.check().is_ok()
}

impl Session {
    /// What a read of these waits for, if its client wants to know.
    pub(crate) fn awaited(&self, collections: &[GlobalId]) -> Option<Awaited> {
        let published = self.published();
        let unstored = collections.iter().filter(|id| !published.tables.contains_key(id));
        let indexes = unstored.filter_map(|id| {
            let indexes = published.indexes_on(*id);
            let is_there = indexes.iter().any(|index| index.handle.is_hydrated());
            indexes.first().filter(|_| !is_there)
        });
        self.told_of(indexes)
    }

    /// Those of these that are to be waited for, if the client wants to know.
    pub(crate) fn told_of<'a>(&self, indexes: impl Iterator<Item = &'a Arc<IndexInfo>>) -> Option<Awaited> {
        let awaited = Awaited(indexes.filter(|index| is_awaited(index)).cloned().collect());
        let level = self.vars.get("client_min_messages").unwrap_or_default();
        awaited.notice().is_some_and(|notice| notice.reaches(level)).then_some(awaited)
    }
}
