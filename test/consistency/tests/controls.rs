//! Each bug that a server has on purpose is found within a minute, and nothing is found without it.

use bugs::Bug;
use glimpse_consistency::controls::control;
use glimpse_consistency::runs::seed;

#[test]
fn every_bug_is_found() {
    let (only, seed) = (std::env::var("CONTROLS_ONLY").ok(), seed());
    let bugs: Vec<Bug> =
        Bug::ALL.into_iter().filter(|bug| only.as_ref().is_none_or(|only| only == bug.name())).collect();
    assert!(!bugs.is_empty(), "no bug is called {only:?}");
    let mut missed = Vec::new();
    for bug in bugs {
        match control(bug, seed) {
            Ok(found) => println!("{found}"),
            Err(error) => missed.push(format!("{error:#}")),
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
