//! A small budget of kills and a full disk: no acknowledged write is lost or doubled. `bin/torture` has a large one.

use std::time::Duration;

use glimpse_consistency::crash::{self, DiskError};
use glimpse_consistency::deployment::{Setup, Store};
use glimpse_consistency::runs::seed;
use glimpse_test::amount;

#[test]
fn acknowledged_writes_survive_kills() {
    for store in [Store::Embedded, Store::Postgres] {
        let seed = seed();
        match crash::kills(&Setup { store, ..Setup::default() }, seed, Duration::from_secs(amount(8))) {
            Ok(report) => println!("{report}, seed {seed}"),
            Err(error) => panic!("{store:?}, seed {seed}: {error:#}"),
        }
    }
}

#[test]
fn a_full_disk_refuses_writers_and_loses_nothing() {
    let seed = seed();
    match crash::full_disk(seed) {
        Ok(report) => println!("{report:?}, seed {seed}"),
        Err(error) => panic!("seed {seed}: {error:#}"),
    }
}

#[test]
fn a_disk_that_fails_loses_nothing() {
    for error in [DiskError::Sync, DiskError::NoRoom] {
        let seed = seed();
        match crash::disk_errors(error, seed) {
            Ok(report) => println!("{error:?}: {report:?}, seed {seed}"),
            Err(failure) => panic!("{error:?}, seed {seed}: {failure:#}"),
        }
    }
}
