//! The name of a shard.

use repr::GlobalId;
use std::fmt;

/// Names a shard: the word of the catalog object whose data it holds. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u64);

impl From<GlobalId> for ShardId {
    fn from(id: GlobalId) -> ShardId {
        ShardId(id.to_u64())
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        GlobalId::from_u64(self.0).fmt(f)
    }
}
