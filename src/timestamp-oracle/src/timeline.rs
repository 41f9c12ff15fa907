//! The port to a store of time that several processes share: one row per timeline.
//!
//! A row has the time (`read_ts`, the latest that was applied, and `write_ts`, the latest that was handed out), and who may
//! move it: an *epoch*, which grows whenever the timeline gets another owner, a *beat*, which the owner counts up to show
//! that it lives, and the *term*, how long the owner may trust a beat.
//!
//! # Laws
//! 1. Each call is atomic, and what it did is durable and seen by everybody when it returns.
//! 2. A call with an epoch that is not the row's changes nothing, learns nothing and fails with `Fenced`.
//! 3. Each call tries once. One that fails with anything else may have been carried out; all of them may be repeated.

use std::future::Future;
use std::time::Duration;

use repr::Timestamp;

use crate::OracleError;

/// What a row says of its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Which owner this is; 0 before the first.
    pub epoch: u64,
    /// How often it has shown that it lives.
    pub beat: u64,
    /// How long after it has asked for a beat it may trust it. Zero: it has given the timeline back.
    pub term: Duration,
    /// What it calls itself.
    pub name: String,
}

/// One timeline in a shared store; see the module.
pub trait Timeline: Send + Sync + 'static {
    /// Makes the row if there is none. Fails with `FormatVersion` if a newer version made it.
    fn prepare(&self) -> impl Future<Output = Result<(), OracleError>> + Send;

    /// Whose the timeline is.
    fn owner(&self) -> impl Future<Output = Result<Owner, OracleError>> + Send;

    /// Makes the caller the owner in a new epoch, which is returned, if nothing has changed since `seen`.
    fn take(
        &self,
        seen: &Owner,
        term: Duration,
        name: &str,
    ) -> impl Future<Output = Result<Option<u64>, OracleError>> + Send;

    /// Shows that the owner lives.
    fn beat(&self, epoch: u64) -> impl Future<Output = Result<(), OracleError>> + Send;

    /// Gives the timeline back.
    fn release(&self, epoch: u64) -> impl Future<Output = Result<(), OracleError>> + Send;

    /// The latest time that was applied.
    fn read_ts(&self, epoch: u64) -> impl Future<Output = Result<Timestamp, OracleError>> + Send;

    /// The greater of `now_us` and the time after the latest that was handed out; `AheadOfClock` if that is more than
    /// `ahead_us_max` after `now_us`.
    fn write_ts(
        &self,
        epoch: u64,
        now_us: u64,
        ahead_us_max: u64,
    ) -> impl Future<Output = Result<Timestamp, OracleError>> + Send;

    /// Raises both times to `ts`.
    fn apply_write(&self, epoch: u64, ts: Timestamp) -> impl Future<Output = Result<(), OracleError>> + Send;
}
