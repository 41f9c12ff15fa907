//! Where a session stands.

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Outside any block.
    Idle,
    /// In a block.
    InBlock,
    /// In a block that has failed: only its end, or the way back to a savepoint, is accepted.
    Failed,
}
