//! A small budget of races: readers, DDL, compaction, restarts. `bin/torture` has a large one.

use std::time::Duration;

use glimpse_consistency::deployment::{Setup, Store};
use glimpse_consistency::runs::seed;
use glimpse_consistency::{races, takeover};
use glimpse_test::amount;

#[test]
fn readers_are_right_whatever_else_happens() {
    let seed = seed();
    match races::run(&Setup::default(), seed, Duration::from_secs(amount(8))) {
        Ok(report) => println!("{report}, seed {seed}"),
        Err(error) => panic!("seed {seed}: {error:#}"),
    }
}

#[test]
fn a_stopped_server_that_was_replaced_answers_no_read() {
    let seed = seed();
    match takeover::run(&Setup { store: Store::Postgres, ..Setup::default() }, seed) {
        Ok(report) => println!("{report:?}, seed {seed}"),
        Err(error) => panic!("seed {seed}: {error:#}"),
    }
}
