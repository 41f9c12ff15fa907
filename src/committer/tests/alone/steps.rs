//! One thing after the other: what the committer says to each is compared with what is durable.

use crate::choices::Choices;
use crate::disk::{Died, Fault};
use crate::process::{Process, Stores};
use futures::FutureExt;
use glimpse_committer::environment::LONG_UPDATES;
use glimpse_committer::notes::{Name, Namespace, Note, Notes};
use glimpse_committer::request::{CatalogChange, Committed, TableWrite};
use ore::clock::ManualClock;
use repr::GlobalId;
use repr::sqlstate::SqlState;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

fn open(stores: &Stores) -> Process {
    Process::open(stores, &ManualClock::new(1_000_000), Choices::of(0), LONG_UPDATES).expect("the stores are ours")
}

#[test]
fn what_waits_together_is_one_group_at_one_time() {
    let stores = Stores::default();
    let mut alone = open(&stores);
    assert!(matches!(alone.run("CREATE TABLE t (a int)"), Ok(Committed::At)));
    let (before, handle) = (alone.env.oracle.known_ts(), alone.env.handle.clone());
    let writes = [alone.write("t", &[(1, 1)]), alone.write("t", &[(2, 1)]), alone.write("t", &[(1, -1), (3, 2)])];
    let mut answers: Vec<_> =
        writes.into_iter().map(|write| Box::pin(handle.commit(vec![write], Vec::new()))).collect();
    assert!(answers.iter_mut().all(|answer| answer.as_mut().now_or_never().is_none()));
    assert_eq!(alone.env.oracle.known_ts(), before, "asking moves nothing");
    alone.clock.advance(Duration::from_millis(5));
    assert!(alone.committer.step(&alone.requests));
    for answer in answers {
        assert!(matches!(answer.now_or_never(), Some(Ok(Committed::At))), "all of the group are answered");
    }
    let times = alone.written_after("t", before);
    assert_eq!(times, [alone.env.oracle.known_ts()], "one time for all, and the oracle is at it");
    assert_eq!(alone.table("t").1.clock.last_write(), times[0]);
    assert_eq!(alone.durable("t").values().copied().collect::<Vec<_>>(), [1, 2], "2 once and 3 twice");
}

#[test]
fn what_was_read_and_written_since_is_a_conflict() {
    let stores = Stores::default();
    let mut alone = open(&stores);
    for sql in ["CREATE TABLE t (a int)", "CREATE TABLE other (a int)"] {
        assert!(matches!(alone.run(sql), Ok(Committed::At)), "{sql}");
    }
    let (read_ts, handle) = (alone.env.oracle.known_ts(), alone.env.handle.clone());
    let (write, expected) = (alone.write("t", &[(1, 1)]), alone.unwritten_since("t", read_ts));
    let answer = alone.ask(handle.commit(vec![write], vec![expected.clone()]));
    assert!(matches!(answer, Ok(Committed::At)), "nothing was written since: {answer:?}");
    for name in ["t", "other"] {
        let (write, before) = (alone.write(name, &[(2, 1)]), alone.durable(name));
        let answer = alone.ask(handle.commit(vec![write], vec![expected.clone()]));
        assert!(matches!(answer, Ok(Committed::Conflict)), "{name}: {answer:?}");
        assert_eq!(alone.durable(name), before, "nothing of {name} is written");
    }
    // Of two in one group that have both read what the other writes, the first is committed.
    let read_ts = alone.env.oracle.known_ts();
    let writes = [alone.write("t", &[(3, 1)]), alone.write("t", &[(4, 1)])];
    let expected = alone.unwritten_since("t", read_ts);
    let answers = alone.ask_together(writes.map(|write| handle.commit(vec![write], vec![expected.clone()])));
    assert!(matches!(answers[..], [Ok(Committed::At), Ok(Committed::Conflict)]), "{answers:?}");
}

#[test]
fn a_key_is_taken_once_in_a_group_and_after_it() {
    let stores = Stores::default();
    let mut alone = open(&stores);
    assert!(matches!(alone.run("CREATE TABLE t (a int PRIMARY KEY)"), Ok(Committed::At)));
    let handle = alone.env.handle.clone();
    let writes = [alone.write("t", &[(1, 1)]), alone.write("t", &[(1, 1)])];
    let answers = alone.ask_together(writes.map(|write| handle.commit(vec![write], Vec::new())));
    assert!(matches!(answers[..], [Ok(Committed::At), Ok(Committed::Violates(_))]), "{answers:?}");
    let (again, moved) = (alone.write("t", &[(1, 1)]), alone.write("t", &[(1, -1), (2, 1)]));
    assert!(matches!(alone.ask(handle.commit(vec![again], Vec::new())), Ok(Committed::Violates(_))));
    assert!(matches!(alone.ask(handle.commit(vec![moved], Vec::new())), Ok(Committed::At)));
    let freed = alone.write("t", &[(1, 1)]);
    assert!(matches!(alone.ask(handle.commit(vec![freed], Vec::new())), Ok(Committed::At)), "1 is free again");
    assert_eq!(alone.durable("t").len(), 2);
}

#[test]
fn what_was_answered_is_there_after_a_restart_and_time_goes_on() {
    let stores = Stores::default();
    let (ts, rows) = {
        let mut alone = open(&stores);
        assert!(matches!(alone.run("CREATE TABLE t (a int)"), Ok(Committed::At)));
        let handle = alone.env.handle.clone();
        for value in 0..50 {
            let write = alone.write("t", &[(value, 1), (value - 1, -i64::from(value % 3 == 1))]);
            assert!(matches!(alone.ask(handle.commit(vec![write], Vec::new())), Ok(Committed::At)));
        }
        (alone.env.oracle.known_ts(), alone.durable("t"))
    };
    let mut alone = open(&stores);
    assert!(alone.env.oracle.known_ts() >= ts, "time does not go back");
    assert_eq!(alone.durable("t"), rows);
    let (before, handle, write) = (alone.env.oracle.known_ts(), alone.env.handle.clone(), alone.write("t", &[(99, 1)]));
    assert!(matches!(alone.ask(handle.commit(vec![write], Vec::new())), Ok(Committed::At)));
    assert!(alone.env.oracle.known_ts() > before);
}

#[test]
fn many_rows_that_have_gone_are_let_go_though_nothing_else_happens() {
    let stores = Stores::default();
    let mut alone = open(&stores);
    assert!(matches!(alone.run("CREATE TABLE t (a int)"), Ok(Committed::At)));
    let handle = alone.env.handle.clone();
    let rows = |diff| (0..5_000).map(|value| (value, diff)).collect::<Vec<_>>();
    for (diff, is_idle) in [(1, true), (-1, false)] {
        let write = alone.write("t", &rows(diff));
        let mut commit = Box::pin(handle.commit(vec![write], Vec::new()));
        assert!(commit.as_mut().now_or_never().is_none());
        alone.jobs.go_on_all();
        assert!(matches!(alone.ask(commit), Ok(Committed::At)));
        assert_eq!(alone.committer.is_idle(&alone.requests), is_idle);
    }
    let gone = alone.env.oracle.known_ts();
    alone.clock.advance(Duration::from_secs(3));
    assert!(alone.committer.step(&alone.requests));
    assert!(alone.committer.is_idle(&alone.requests), "once");
    assert!(alone.env.oracle.known_ts() > gone + alone.env.retain_us, "nobody reads them any more");
}

#[test]
fn a_change_of_another_catalog_is_a_conflict_and_a_table_that_has_gone_too() {
    let stores = Stores::default();
    let mut alone = open(&stores);
    let old = alone.env.published.load().state.revision();
    assert!(matches!(alone.run("CREATE TABLE t (a int)"), Ok(Committed::At)));
    let handle = alone.env.handle.clone();
    assert!(matches!(alone.ask(handle.change_catalog(CatalogChange::new(old, Vec::new()))), Ok(Committed::Conflict)));
    let nowhere = TableWrite::new(GlobalId::User(999_999), alone.write("t", &[(1, 1)]).updates.as_ref().clone(), None);
    assert!(matches!(alone.ask(handle.commit(vec![nowhere], Vec::new())), Ok(Committed::Conflict)));
}

#[test]
fn one_that_has_stopped_says_so() {
    let stores = Stores::default();
    let mut alone = open(&stores);
    let handle = alone.env.handle.clone();
    handle.stop();
    assert!(!alone.committer.step(&alone.requests), "it has ended");
    drop((alone.committer, alone.requests));
    let error = handle.settle().now_or_never().expect("nobody is waited for").expect_err("there is nobody");
    assert_eq!(error.sqlstate(), SqlState::ADMIN_SHUTDOWN);
}

#[test]
fn nothing_of_a_commit_that_failed_is_seen() {
    let stores = Stores::default();
    let mut alone = open(&stores);
    assert!(matches!(alone.run("CREATE TABLE t (a int PRIMARY KEY)"), Ok(Committed::At)));
    let handle = alone.env.handle.clone();
    let write = alone.write("t", &[(1, 1)]);
    assert!(matches!(alone.ask(handle.commit(vec![write], Vec::new())), Ok(Committed::At)));
    let seen =
        |alone: &Process| (alone.env.oracle.known_ts(), alone.table("t").1.clock.last_write(), alone.durable("t"));
    let before = seen(&alone);
    // From here on the store takes nothing.
    alone.env.persist.close();
    alone.clock.advance(Duration::from_secs(1));
    let write = alone.write("t", &[(2, 1)]);
    assert!(alone.ask(handle.commit(vec![write], Vec::new())).is_err());
    assert_eq!(seen(&alone), before);
    assert!(alone.run("CREATE TABLE u (a int)").is_err());
    assert!(alone.env.published.load().state.all_items().all(|item| item.name.item != "u"));
    drop((alone, handle));
    assert_eq!(open(&stores).durable("t"), before.2);
}

#[test]
fn nobody_is_told_of_a_key_that_is_not_durable() {
    let stores = Stores::default();
    let mut alone = open(&stores);
    assert!(matches!(alone.run("CREATE TABLE t (a int PRIMARY KEY)"), Ok(Committed::At)));
    let handle = alone.env.handle.clone();
    let writes = [alone.write("t", &[(1, 1)]), alone.write("t", &[(1, 1)])];
    stores.disk.fail(0, Fault::Full);
    for answer in alone.ask_together(writes.map(|write| handle.commit(vec![write], Vec::new()))) {
        let error = answer.expect_err("the key is not there");
        assert_eq!(error.sqlstate(), SqlState::DISK_FULL);
    }
    assert!(alone.durable("t").is_empty());
    let write = alone.write("t", &[(1, 1)]);
    assert!(matches!(alone.ask(handle.commit(vec![write], Vec::new())), Ok(Committed::At)), "it is free");
}

#[test]
fn a_change_that_is_durable_and_cannot_be_shown_ends_the_process() {
    let stores = Stores::default();
    let mut alone = open(&stores);
    assert!(matches!(alone.run("CREATE TABLE t (a int)"), Ok(Committed::At)));
    let (handle, write) = (alone.env.handle.clone(), alone.write("t", &[(1, 1)]));
    assert!(matches!(alone.ask(handle.commit(vec![write], Vec::new())), Ok(Committed::At)));
    let mut change = alone.change("CREATE INDEX i ON t (a)").expect("it can be planned");
    change.writes = vec![alone.write("t", &[(2, 1)])];
    let mut answer = Box::pin(handle.change_catalog(change));
    assert!(answer.as_mut().now_or_never().is_none());
    // Its plan is made beside.
    assert!(alone.committer.step(&alone.requests));
    alone.jobs.go_on_all();
    // What the index begins with is read when the change is durable.
    stores.disk.fail_reads(1);
    let stepped = catch_unwind(AssertUnwindSafe(|| alone.committer.step(&alone.requests)));
    assert!(stepped.is_err_and(|why| why.is::<Died>()), "it ends itself");
    let error = answer.now_or_never().expect("nobody is there who might").expect_err("nobody has answered");
    assert_eq!(error.sqlstate(), SqlState::ADMIN_SHUTDOWN, "nobody is told that it failed");
    drop(alone);
    let alone = open(&stores);
    assert!(alone.id("i").is_some(), "the change is there");
    assert_eq!(alone.durable("t").len(), 2);
}

#[test]
fn who_waits_for_the_keys_of_a_table_that_goes_looks_again() {
    let stores = Stores::default();
    {
        let mut alone = open(&stores);
        assert!(matches!(alone.run("CREATE TABLE t (a int PRIMARY KEY)"), Ok(Committed::At)));
        let (handle, write) = (alone.env.handle.clone(), alone.write("t", &[(1, 1)]));
        assert!(matches!(alone.ask(handle.commit(vec![write], Vec::new())), Ok(Committed::At)));
    }
    // One by which every table is large.
    let clock = ManualClock::new(2_000_000);
    let mut alone = Process::open(&stores, &clock, Choices::of(0), 0).expect("the stores are ours");
    let (handle, write) = (alone.env.handle.clone(), alone.write("t", &[(2, 1)]));
    let mut answer = Box::pin(handle.commit(vec![write], Vec::new()));
    assert!(answer.as_mut().now_or_never().is_none());
    assert!(alone.committer.step(&alone.requests));
    assert!(matches!(alone.run("DROP TABLE t"), Ok(Committed::At)), "it does not wait for the keys");
    alone.jobs.go_on_all();
    assert!(alone.committer.step(&alone.requests));
    assert!(matches!(answer.now_or_never(), Some(Ok(Committed::Conflict))));
}

#[test]
fn notes_come_with_their_rows_and_go_when_they_expire() {
    let stores = Stores::default();
    let mut alone = open(&stores);
    assert!(matches!(alone.run("CREATE TABLE t (a int)"), Ok(Committed::At)));
    let handle = alone.env.handle.clone();
    let name = |key: &str| Name::new(Namespace("steps"), key).expect("it is short");
    let note = |value: &[u8], expires_us| Some(Note::new(value.to_vec(), expires_us).expect("it is short"));
    let required = |key: &str, value: Option<&[u8]>| vec![(name(key), value.map(<[u8]>::to_vec))];
    let now_us = alone.clock.clock().now_us();
    let first = Notes {
        puts: vec![(name("a"), note(b"1", None)), (name("b"), note(b"2", Some(now_us + 1_000)))],
        requires: required("a", None),
    };
    // Of two in one group that want the same note, the first has it.
    let writes = [alone.write("t", &[(1, 1)]), alone.write("t", &[(2, 1)])];
    let answers = alone.ask_together(writes.map(|write| handle.commit_noted(vec![write], Vec::new(), first.clone())));
    assert!(matches!(answers[..], [Ok(Committed::At), Ok(Committed::Repeated)]), "{answers:?}");
    assert_eq!(alone.durable("t").len(), 1);
    // Nothing of a commit that fails is there.
    let moved = Notes { puts: vec![(name("a"), note(b"2", None))], requires: required("a", Some(b"1")) };
    stores.disk.fail(0, Fault::Full);
    let write = alone.write("t", &[(3, 1)]);
    assert!(alone.ask(handle.commit_noted(vec![write], Vec::new(), moved.clone())).is_err());
    assert_eq!(alone.ask(handle.note(name("a"))).expect("it is readable").as_deref(), Some(&b"1"[..]));
    // A write needs no rows to move a note.
    assert!(matches!(alone.ask(handle.commit_noted(Vec::new(), Vec::new(), moved.clone())), Ok(Committed::At)));
    assert!(matches!(alone.ask(handle.commit_noted(Vec::new(), Vec::new(), moved)), Ok(Committed::Repeated)));
    drop(alone);
    let mut alone = open(&stores);
    let (handle, persist) = (alone.env.handle.clone(), alone.env.persist.clone());
    let values = |alone: &mut Process| {
        ["a", "b"].map(|key| alone.ask(handle.note(name(key))).expect("it is readable").map(|value| value.len()))
    };
    assert_eq!(values(&mut alone), [Some(1), Some(1)], "they are durable");
    alone.clock.advance(Duration::from_millis(1));
    assert_eq!(values(&mut alone), [Some(1), None], "one has expired");
    assert_eq!(persist.meta_scan("note").expect("it is readable").len(), 3, "its bytes are still there");
    let again = Notes { puts: vec![(name("b"), note(b"new", None))], requires: required("b", None) };
    assert!(matches!(alone.ask(handle.commit_noted(Vec::new(), Vec::new(), again)), Ok(Committed::At)));
    assert_eq!(values(&mut alone), [Some(1), Some(3)]);
    // A change of the catalog leaves notes as well, and requires them.
    for (sql, is_done) in [("CREATE TABLE u (a int)", true), ("CREATE TABLE v (a int)", false)] {
        let mut change = alone.change(sql).expect("it makes sense");
        change.notes = Notes { puts: vec![(name("c"), note(b"", None))], requires: required("c", None) };
        let answer = alone.ask(handle.change_catalog(change));
        assert!(matches!(answer, Ok(Committed::At)) == is_done, "{answer:?}");
        assert!(is_done || matches!(answer, Ok(Committed::Repeated)), "{answer:?}");
    }
    assert!(alone.id("u").is_some() && alone.id("v").is_none());
    let gone = Notes { puts: vec![(name("c"), None)], requires: required("c", Some(b"")) };
    assert!(matches!(alone.ask(handle.commit_noted(Vec::new(), Vec::new(), gone)), Ok(Committed::At)));
    let gone = Notes { puts: vec![(name("a"), None), (name("b"), None)], requires: required("b", Some(b"new")) };
    assert!(matches!(alone.ask(handle.commit_noted(Vec::new(), Vec::new(), gone)), Ok(Committed::At)));
    assert_eq!(persist.meta_scan("note").expect("it is readable"), [], "nothing is left of any");
}

#[test]
fn expired_notes_go_with_later_commits_some_at_a_time() {
    let stores = Stores::default();
    let mut alone = open(&stores);
    let (handle, now_us) = (alone.env.handle.clone(), alone.clock.clock().now_us());
    for count in 0..40 {
        let name = Name::new(Namespace("steps"), &count.to_string()).expect("it is short");
        let note = Note::new(Vec::new(), Some(now_us + 1 + count)).expect("it is short");
        let notes = Notes { puts: vec![(name, Some(note))], requires: Vec::new() };
        assert!(matches!(alone.ask(handle.commit_noted(Vec::new(), Vec::new(), notes)), Ok(Committed::At)));
    }
    let left = |alone: &Process| alone.env.persist.meta_scan("note/").expect("it is readable").len();
    assert_eq!(left(&alone), 40);
    alone.clock.advance(Duration::from_millis(1));
    for expected in [24, 8, 0, 0] {
        // Whatever commits next takes some along.
        alone.clock.advance(Duration::from_millis(1));
        alone.ask(handle.tick()).expect("time goes on");
        assert_eq!(left(&alone), expected);
    }
}
