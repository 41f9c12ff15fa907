//! The oracle over a PostgreSQL of its own: the contract, under a lease and without, and what a lost store does.

use std::time::Duration;

use futures::executor::block_on;
use glimpse_test::postgres_server::Postgres;
use glimpse_timestamp_oracle as timestamp_oracle;
use ore::clock::Clock;
use ore::metrics::Registry;
use timestamp_oracle::metrics::Metrics;
use timestamp_oracle::postgres::PostgresTimeline;
use timestamp_oracle::shared::{Options, Reads, SharedOracle};
use timestamp_oracle::{OracleError, TimestampOracle, contract};

type Oracle = SharedOracle<PostgresTimeline>;

fn options(reads: Reads) -> Options {
    let (term, patience) = (Duration::from_secs(2), Duration::from_secs(30));
    Options { term, reads, in_flight_max: 3, takeover: false, patience, name: "test".to_owned() }
}

fn try_open(server: &Postgres, name: &str, options: &Options) -> Result<Oracle, OracleError> {
    let timeline = PostgresTimeline::new(&server.url(), name, options.in_flight_max, Duration::from_secs(5))?;
    let metrics = Metrics::register(&Registry::new());
    SharedOracle::open(timeline, options, Clock::system(), metrics)
}

fn open(server: &Postgres, name: &str, options: &Options) -> Oracle {
    try_open(server, name, options).expect("it opens")
}

#[test]
fn passes_the_contract_under_a_lease_and_without() {
    let server = Postgres::start().expect("a PostgreSQL starts");
    for (name, reads) in [("lease", Reads::UnderLease), ("store", Reads::FromStore)] {
        contract::check(|| open(&server, name, &options(reads)), |oracle| oracle.close());
    }
}

#[test]
fn a_restart_of_the_store_is_waited_for_and_loses_nothing() {
    let mut server = Postgres::start().expect("a PostgreSQL starts");
    let oracle = open(&server, "restart", &options(Reads::FromStore));
    for _ in 0..3 {
        let ts = oracle.write_ts().expect("it is ours");
        oracle.apply_write(ts).expect("it is ours");
        server.kill9().expect("it ends");
        std::thread::scope(|scope| {
            // Asked while nobody listens.
            let reading = scope.spawn(|| block_on(oracle.read_ts()));
            let writing = scope.spawn(|| oracle.write_ts());
            server.restart().expect("it starts again");
            assert_eq!(reading.join().expect("no panic").expect("it is waited for"), ts);
            assert!(writing.join().expect("no panic").expect("it is waited for") > ts);
        });
    }
}

#[test]
fn a_successor_fences_the_owner() {
    let server = Postgres::start().expect("a PostgreSQL starts");
    let old = open(&server, "takeover", &options(Reads::UnderLease));
    let ts = old.write_ts().expect("it is ours");
    old.apply_write(ts).expect("it is ours");
    let new =
        open(&server, "takeover", &Options { takeover: true, name: "new".to_owned(), ..options(Reads::UnderLease) });
    assert_eq!(old.read_ts_fast(), None);
    for refused in [block_on(old.read_ts()).map(drop), old.write_ts().map(drop), old.apply_write(ts + 1)] {
        assert!(matches!(&refused, Err(OracleError::Fenced { by }) if by == "new"), "{refused:?}");
    }
    block_on(old.fenced());
    assert_eq!(new.read_ts_fast(), Some(ts));
    assert!(new.write_ts().expect("it is its own") > ts);
}

#[test]
fn a_table_of_a_newer_version_is_refused() {
    let server = Postgres::start().expect("a PostgreSQL starts");
    open(&server, "format", &options(Reads::UnderLease)).close();
    let mut client = postgres::Client::connect(&server.url(), postgres::NoTls).expect("it connects");
    client.execute("UPDATE glimpse_timeline SET format = 2", &[]).expect("it is there");
    let Err(error) = try_open(&server, "format", &options(Reads::UnderLease)) else { panic!("it is from the future") };
    assert_eq!(error.to_string(), "the timeline's table has format version 2, this version reads 1");
}

#[test]
fn a_time_far_ahead_of_the_clock_is_refused() {
    let server = Postgres::start().expect("a PostgreSQL starts");
    let oracle = open(&server, "ahead", &options(Reads::UnderLease));
    let ahead = Clock::system().now_us() + 3_600_000_000;
    oracle.apply_write(ahead).expect("it is ours");
    let refused = oracle.write_ts().expect_err("an hour ahead");
    assert!(matches!(refused, OracleError::AheadOfClock { .. }), "{refused}");
}
