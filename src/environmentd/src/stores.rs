//! Where the flags want what is durable to be kept, and where time comes from: in the data directory, or in a PostgreSQL that
//! other processes reach as well.
//!
//! Whoever owns the timeline may fence those who wrote to the consensus store before; so the timeline comes first, unless the
//! consensus store is the data directory's, of which a lock decides who has it. Then time comes to what is durable. Shared stores
//! are looked at before either: one that cannot be used must not cost the owner its life.

use crate::config::Config;
use anyhow::{Context, ensure};
use futures::future::{BoxFuture, FutureExt, pending};
use ore::clock::Clock;
use ore::metrics::Registry;
use persist::PersistClient;
use persist::client::SharedStores;
use persist::consensus::postgres::PostgresConsensus;
use std::sync::Arc;
use timestamp_oracle::TimestampOracle;
use timestamp_oracle::local::LocalOracle;
use timestamp_oracle::metrics::Metrics;
use timestamp_oracle::postgres::PostgresTimeline;
use timestamp_oracle::shared::{Options, SharedOracle};

/// Where time comes from.
pub(crate) enum Oracle {
    /// From this process.
    Local(Arc<LocalOracle>),
    /// From a store, under a lease.
    Shared(Arc<SharedOracle<PostgresTimeline>>),
}

/// Opens the stores. Waits for those that do not answer, and for the end of another process that owns the timeline.
pub(crate) fn open(config: &Config, clock: Clock, registry: &Registry) -> anyhow::Result<(PersistClient, Oracle)> {
    let Some(oracle_url) = &config.timestamp_oracle_url else {
        ensure!(config.persist_consensus_url.is_none(), "--persist-consensus-url needs --timestamp-oracle-url");
        ensure!(config.persist_blob_url.is_none(), "--persist-blob-url needs --persist-consensus-url");
        let persist = open_data_dir(config)?;
        let local = LocalOracle::open(&persist, clock).context("cannot restore the time")?;
        return Ok((persist, Oracle::Local(Arc::new(local))));
    };
    let (persist, oracle) = match &config.persist_consensus_url {
        None => {
            ensure!(config.persist_blob_url.is_none(), "--persist-blob-url needs --persist-consensus-url");
            let persist = open_data_dir(config)?;
            (persist, open_timeline(config, oracle_url, clock, registry)?)
        }
        Some(url) => {
            ensure!(!config.accept_loss, "--accept-loss is of the data directory, not of --persist-consensus-url");
            // What cannot be used is found out before anybody is replaced.
            let stores = open_shared(config, url)?;
            let oracle = open_timeline(config, oracle_url, clock, registry)?;
            (PersistClient::open_shared(stores).context("cannot take over the shared stores")?, oracle)
        }
    };
    oracle.apply_write(persist.upper().saturating_sub(1)).context("cannot restore the time")?;
    // What is read first is readable.
    persist.advance_upper(oracle.known_ts() + 1);
    Ok((persist, Oracle::Shared(Arc::new(oracle))))
}

impl Oracle {
    /// What sessions and the committer ask.
    pub(crate) fn handle(&self) -> Arc<dyn TimestampOracle> {
        match self {
            Oracle::Local(oracle) => Arc::clone(oracle) as Arc<dyn TimestampOracle>,
            Oracle::Shared(oracle) => Arc::clone(oracle) as Arc<dyn TimestampOracle>,
        }
    }

    /// Completes when another process has taken over.
    pub(crate) fn fenced(&self) -> BoxFuture<'static, ()> {
        match self {
            Oracle::Local(_) => pending().boxed(),
            Oracle::Shared(oracle) => oracle.fenced().boxed(),
        }
    }

    /// Lets the next owner begin at once, after the last write.
    pub(crate) fn close(&self) {
        if let Oracle::Shared(oracle) = self {
            oracle.close();
        }
    }
}

fn open_data_dir(config: &Config) -> anyhow::Result<PersistClient> {
    let open = if config.accept_loss { PersistClient::open_with_loss } else { PersistClient::open };
    open(&config.data_dir).with_context(|| format!("cannot open the data directory {}", config.data_dir.display()))
}

fn open_shared(config: &Config, url: &str) -> anyhow::Result<SharedStores> {
    let (timeout, patience) = (config.store_timeout, config.store_patience);
    let consensus =
        PostgresConsensus::open(url, timeout, patience).context("cannot open the store of --persist-consensus-url")?;
    let blobs = match &config.persist_blob_url {
        Some(url) => persist::blob::open(url, timeout, patience).context("cannot open the store of --persist-blob-url"),
        None => persist::blob::directory(&config.data_dir)
            .with_context(|| format!("cannot keep blobs in {}", config.data_dir.display())),
    }?;
    let (address, blob_address) = (consensus.address(), blobs.address());
    tracing::info!(address, blobs = blob_address, "everything durable is in shared stores");
    SharedStores::new(consensus, blobs)
        .with_context(|| format!("cannot use the consensus store {address} with blobs in {blob_address}"))
}

fn open_timeline(
    config: &Config,
    url: &str,
    clock: Clock,
    registry: &Registry,
) -> anyhow::Result<SharedOracle<PostgresTimeline>> {
    let options = Options {
        term: config.timestamp_oracle_lease,
        reads: config.timestamp_oracle_reads.into(),
        in_flight_max: config.timestamp_oracle_in_flight_max,
        takeover: config.takeover,
        patience: config.store_patience,
        name: own_name(),
    };
    let name = &config.timestamp_oracle_timeline;
    let timeline = PostgresTimeline::new(url, name, options.in_flight_max, config.store_timeout)
        .context("cannot use --timestamp-oracle-url")?;
    let address = timeline.address();
    tracing::info!(address, timeline = name, "taking the time from a shared store");
    SharedOracle::open(timeline, &options, clock, Metrics::register(registry))
        .with_context(|| format!("cannot take the time from {address}"))
}

/// What others are told of us: machine and process.
fn own_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", host.trim(), std::process::id())
}
