//! A small budget of histories: nothing that clients see while servers are killed and stopped contradicts strict
//! serializability. `bin/torture` has a large one.

use std::time::Duration;

use glimpse_consistency::deployment::{Setup, Store};
use glimpse_consistency::faults::{Extent, Fault};
use glimpse_consistency::runs::{Report, Workload, history, seed};
use glimpse_test::amount;

fn explained(workload: Workload, store: Store, fault: Fault) -> Report {
    run(workload, &Setup { store, ..Setup::default() }, fault)
}

fn run(workload: Workload, setup: &Setup, fault: Fault) -> Report {
    let extent = Extent { duration: Duration::from_secs(amount(5)), operations: 500 };
    history(workload, setup, fault, seed(), extent).unwrap_or_else(|error| panic!("{error:#}"))
}

#[test]
fn registers_are_linearizable() {
    println!("{}", explained(Workload::Registers, Store::Embedded, Fault::Kill));
    println!("{}", explained(Workload::Registers, Store::Postgres, Fault::StoreRestart));
}

#[test]
fn what_one_door_has_committed_every_other_sees() {
    let setup = Setup { all_doors: true, ..Setup::default() };
    println!("{}", run(Workload::Registers, &setup, Fault::Kill));
    println!("{}", run(Workload::Lists, &setup, Fault::Calm));
    println!("{}", run(Workload::Bank, &setup, Fault::Kill));
}

#[test]
fn lists_are_strictly_serializable() {
    println!("{}", explained(Workload::Lists, Store::Embedded, Fault::Kill));
    println!("{}", explained(Workload::Lists, Store::Embedded, Fault::Pause));
}

#[test]
fn both_levels_hold_what_they_promise() {
    println!("{}", explained(Workload::Levels, Store::Embedded, Fault::Kill));
    println!("{}", explained(Workload::Levels, Store::Embedded, Fault::Calm));
}

#[test]
fn money_is_neither_made_nor_lost() {
    println!("{}", explained(Workload::Bank, Store::Embedded, Fault::Kill));
    println!("{}", explained(Workload::Bank, Store::Postgres, Fault::Network));
}

#[test]
fn no_row_refers_to_nothing() {
    println!("{}", explained(Workload::References, Store::Embedded, Fault::Kill));
    println!("{}", explained(Workload::References, Store::Embedded, Fault::Calm));
}

#[test]
fn no_two_rows_have_one_key() {
    println!("{}", explained(Workload::Keys, Store::Embedded, Fault::Kill));
    println!("{}", explained(Workload::Keys, Store::Embedded, Fault::Calm));
}
