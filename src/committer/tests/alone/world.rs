//! A world that a seed makes: sessions that ask for anything, a disk that fails, a clock that jumps, workers that are late, and
//! processes that die. After every step, what is there is compared with what was answered.

use crate::choices::Choices;
use crate::disk::{Died, Fault};
use crate::model::{Change, Model, Row, Rows, encode, encode_key};
use crate::process::{Process, Stores, has_ended};
use crate::requests::{Answer, Asked, Effect, Fresh, Once, Read, Wish, again, any};
use compute_client::index::IndexHandle;
use compute_client::read_hold::ReadHold;
use compute_client::tail::Tail;
use futures::FutureExt;
use glimpse_committer::error::CommitError;
use glimpse_committer::request::Committed;
use glimpse_committer::sequence::Taken;
use ore::clock::ManualClock;
use parking_lot::Mutex;
use repr::sqlstate::SqlState;
use repr::{GlobalId, Timestamp};
use sql::plan::CatalogView;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use timestamp_oracle::local::AHEAD_US_MAX;

/// When every world begins.
const BEGINNING_US: u64 = 1_700_000_000_000_000;
/// What happens in a world, one thing after the other.
const EVENTS: usize = 100;
/// Rounds in which everything that is under way comes to its end.
const ROUNDS_MAX: usize = 200;

/// Stores with a catalog in which nobody has made anything.
static NEW: LazyLock<Stores> = LazyLock::new(|| {
    let (stores, clock) = (Stores::default(), ManualClock::new(BEGINNING_US));
    drop(Process::open(&stores, &clock, Choices::of(0), 0).expect("nothing fails"));
    stores
});

/// See the module.
pub(crate) struct World {
    choices: Choices,
    fresh: Fresh,
    stores: Stores,
    clock: ManualClock,
    process: Process,
    /// How many there have been.
    processes: usize,
    model: Model,
    asked: Vec<Asked>,
    /// What will never be answered.
    unanswered: Vec<Wish>,
    /// Times that are held, with what every table had then.
    holds: Vec<(ReadHold, BTreeMap<GlobalId, Rows>)>,
    /// What follows a table, and how many faults there had been when that began.
    followers: Vec<(Arc<IndexHandle>, String, usize)>,
    /// The latest time of day at which the committer has taken a step: a write may have had it that has failed.
    latest_us: u64,
    /// The latest time that anybody has read.
    seen: Timestamp,
    /// Sequences that may leave values out: those with values that were reserved when a process died.
    gaps: BTreeSet<String>,
    /// What was wrong while something was being written.
    wrong: Arc<Mutex<Vec<String>>>,
    long_updates: u64,
    trace: Vec<String>,
    tally: Tally,
}

/// Says what has happened if that ends in a panic.
impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.trace.join("\n"));
        }
        self.bury();
    }
}

/// How often what has happened.
pub(crate) type Tally = BTreeMap<&'static str, usize>;

/// Lets a world happen.
pub(crate) fn happen(seed: u64) -> Tally {
    let mut choices = Choices::of(seed);
    let (stores, clock) = (NEW.copy(), ManualClock::new(BEGINNING_US));
    // What is large enough to be read beside differs from world to world.
    let long_updates = if choices.one_in(2) { 0 } else { 5 };
    let process = Process::open(&stores, &clock, choices.branch(), long_updates).expect("nothing fails yet");
    let mut world = World {
        choices,
        fresh: Fresh::default(),
        stores,
        clock,
        process,
        processes: 1,
        model: Model::default(),
        asked: Vec::new(),
        unanswered: Vec::new(),
        holds: Vec::new(),
        followers: Vec::new(),
        latest_us: 0,
        seen: 0,
        gaps: BTreeSet::new(),
        wrong: Arc::default(),
        long_updates,
        trace: vec![format!("seed {seed}")],
        tally: Tally::new(),
    };
    world.watch();
    for _ in 0..EVENTS {
        world.event();
    }
    world.come_to_rest();
    world.stop();
    world.come_to_rest();
    std::mem::take(&mut world.tally)
}

impl World {
    fn event(&mut self) {
        match self.choices.below(32) {
            0..12 => (0..=self.choices.below(3)).for_each(|_| self.ask()),
            12..22 => self.step(),
            22..24 => {
                self.process.workers.publish_some();
                self.check();
            }
            24..26 => self.job(),
            26 => self.clock.advance(Duration::from_millis(self.choices.below(1_500) as u64)),
            27 => self.jump(),
            28 => self.fault(),
            29 => self.hold(),
            30 => self.compact(),
            _ => match self.choices.below(3) {
                0 => self.stop(),
                1 => self.die(),
                _ => {}
            },
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    fn say(&mut self, what: impl FnOnce() -> String) {
        self.trace.push(what());
    }

    fn ask(&mut self) {
        let Some((wish, answer)) = any(&self.process, &self.model, &mut self.choices, &mut self.fresh) else { return };
        let revision = self.process.env.published.load().state.revision();
        let (log_at, faults) = (self.model.log.len(), self.stores.disk.fault_count());
        self.say(|| format!("asked: {}", describe(&wish)));
        self.asked.push(Asked { wish, answer, log_at, faults, revision });
        // Otherwise what was read grows old before anything is asked for.
        if !self.choices.one_in(4) {
            self.settle(false);
        }
    }

    /// Lets the committer take a step, unless it would wait.
    fn step(&mut self) {
        let Process { committer, requests, .. } = &self.process;
        if committer.is_idle(requests) {
            return;
        }
        self.latest_us = self.latest_us.max(self.clock.clock().now_us());
        let was_behind = self.is_behind();
        let Process { committer, requests, .. } = &mut self.process;
        let stepped = catch_unwind(AssertUnwindSafe(|| committer.step(requests)));
        self.after(stepped, was_behind);
    }

    /// Whether the clock is so far behind what it was that a write gets no time.
    fn is_behind(&self) -> bool {
        let latest = self.latest_us.max(self.process.env.oracle.known_ts());
        self.clock.clock().now_us() + AHEAD_US_MAX <= latest
    }

    /// Something beside the committer goes on.
    fn job(&mut self) {
        let count = self.process.jobs.count();
        if count == 0 {
            return;
        }
        let (jobs, at) = (&self.process.jobs, self.choices.below(count));
        let worked = catch_unwind(AssertUnwindSafe(|| jobs.go_on(at))).map(|_| true);
        self.after(worked, false);
    }

    /// What follows from something that the process did: `Ok(false)` if that was its last.
    fn after(&mut self, done: std::thread::Result<bool>, was_behind: bool) {
        let goes_on = match done {
            Ok(goes_on) => Some(goes_on).filter(|_| !has_ended()),
            Err(payload) if payload.is::<Died>() => None,
            Err(payload) => resume_unwind(payload),
        };
        let known = self.process.env.oracle.known_ts();
        self.say(|| format!("the process goes on: {goes_on:?}, at {known}"));
        self.settle(was_behind);
        match goes_on {
            Some(true) => self.check(),
            Some(false) => self.restart(),
            None => self.die(),
        }
    }

    fn jump(&mut self) {
        let by = self.choices.below(30_000_000) as u64;
        let now = self.clock.clock().now_us();
        let to = if self.choices.one_in(2) { now + by } else { (now - by).max(BEGINNING_US) };
        self.say(|| format!("the clock jumps from {now} to {to}"));
        self.clock.set_now_us(to);
    }

    fn fault(&mut self) {
        if self.choices.one_in(4) {
            self.say(|| "reads will fail".to_owned());
            return self.stores.disk.fail_reads(1 + self.choices.below(2));
        }
        let faults = [Fault::Full, Fault::Full, Fault::Lost, Fault::Kept, Fault::DeathBefore, Fault::DeathAfter];
        let (after, fault) = (self.choices.below(3), faults[self.choices.below(faults.len())]);
        self.say(|| format!("after {after} transactions: {fault:?}"));
        self.stores.disk.fail(after, fault);
    }

    /// Takes a hold, as a transaction does with its first read, or lets one go.
    fn hold(&mut self) {
        if !self.holds.is_empty() && self.choices.one_in(3) {
            self.holds.remove(self.choices.below(self.holds.len()));
            return;
        }
        let hold = self.process.env.holds.acquire(self.process.env.oracle.known_ts());
        let ids = self.model.tables.keys().filter_map(|name| Some((self.process.id(name)?, self.model.rows(name))));
        self.holds.push((hold, ids.collect()));
    }

    fn compact(&mut self) {
        let shards = self.process.env.persist.shards();
        if let Some(shard) = self.choices.of_these(&shards) {
            let persist = &self.process.env.persist;
            let compacted = catch_unwind(AssertUnwindSafe(|| persist.compact(*shard)));
            let is_over = match compacted {
                Ok(Err(error)) => error.is_indeterminate(),
                Ok(Ok(())) => false,
                Err(payload) if payload.is::<Died>() => true,
                Err(payload) => resume_unwind(payload),
            };
            self.say(|| format!("{shard} is compacted; that is its end: {is_over}"));
            if is_over { self.die() } else { self.check() }
        }
    }

    /// The server is told to stop.
    fn stop(&mut self) {
        self.say(|| "it is told to stop".to_owned());
        self.count("processes stopped");
        self.process.env.handle.stop();
        let (faults, processes) = (self.stores.disk.fault_count(), self.processes);
        // What was asked for before is done before.
        while self.processes == processes {
            self.step();
        }
        // What was reserved is given back if that can be written.
        if self.stores.disk.fault_count() > faults || self.is_behind() {
            self.gaps.extend(self.model.sequences.keys().cloned());
        }
    }

    /// The process is gone from one moment to the next.
    fn die(&mut self) {
        self.say(|| "it dies".to_owned());
        self.count("processes died");
        self.gaps.extend(self.model.sequences.keys().cloned());
        self.restart();
    }

    /// What the process leaves behind in memory goes.
    fn bury(&mut self) {
        self.stores.disk.unwatch();
        self.process.jobs.clear();
        self.holds.clear();
        self.followers.clear();
    }

    /// Another process takes over what is durable.
    fn restart(&mut self) {
        self.settle(true);
        self.unanswered.extend(self.asked.drain(..).map(|asked| asked.wish));
        self.bury();
        self.stores.disk.mend();
        let choices = self.choices.branch();
        self.process = Process::open(&self.stores, &self.clock, choices, self.long_updates).expect("nothing fails");
        self.say(|| "a process begins".to_owned());
        self.processes += 1;
        self.watch();
        self.find_out();
        self.check();
    }

    /// Has somebody read while something is being written.
    fn watch(&self) {
        let (oracle, persist) = (Arc::clone(&self.process.env.oracle), self.process.env.persist.clone());
        let wrong = Arc::clone(&self.wrong);
        self.stores.disk.watch(move || {
            let (known, upper) = (oracle.known_ts(), persist.upper());
            if known >= upper {
                wrong.lock().push(format!("readers are told {known} while what is durable ends at {upper}"));
            }
        });
    }

    /// What has become of what was not answered: all of it is there, or nothing.
    fn find_out(&mut self) {
        let (mut may_drop, mut doubtful) = (false, Vec::new());
        for wish in std::mem::take(&mut self.unanswered) {
            let (changes, once) = match &wish {
                Wish::Write { changes, once, .. } => (changes, once),
                Wish::Define { effect, changes } => {
                    may_drop |= matches!(effect, Effect::Drop { .. });
                    if !self.has_come_about(effect) {
                        self.assert_none(changes);
                        continue;
                    }
                    self.define(effect);
                    changes.iter().for_each(|change| self.model.apply(change));
                    continue;
                }
                _ => continue,
            };
            if let Some(once) = once.as_ref().filter(|once| once.has_happened) {
                // It has happened before it was asked for again, and others may have taken a part of it away since; that it has not
                // happened once more is seen when all rows are looked at.
                doubtful.push((changes.clone(), once.clone()));
                continue;
            }
            let has_happened = changes.iter().all(|change| self.is_there(change));
            if has_happened {
                self.count("unanswered, and there");
                changes.iter().for_each(|change| self.model.apply(change));
            } else {
                self.count("unanswered, and not there");
                self.assert_none(changes);
            }
            if let Some(once) = once {
                doubtful.push((changes.clone(), Once { has_happened, ..once.clone() }));
            }
        }
        if !may_drop {
            let names = self.model.tables.keys().chain(self.model.views.keys()).chain(self.model.sequences.keys());
            names.for_each(|name| assert!(self.process.id(name).is_some(), "{name} has gone"));
        }
        let process = &self.process;
        self.model.keep(|name| process.id(name).is_some());
        doubtful.into_iter().for_each(|(changes, once)| self.ask_again(changes, once));
    }

    /// Who does not know what became of something that is to happen once asks for it again.
    fn ask_again(&mut self, changes: Vec<Change>, once: Once) {
        let Some(answer) = again(&self.process, &mut self.choices, &changes, &once) else { return };
        self.count("asked again");
        let revision = self.process.env.published.load().state.revision();
        let (log_at, faults) = (self.model.log.len(), self.stores.disk.fault_count());
        let wish = Wish::Write { changes, read: None, once: Some(once) };
        self.say(|| format!("asked again: {}", describe(&wish)));
        self.asked.push(Asked { wish, answer, log_at, faults, revision });
    }

    fn has_come_about(&self, effect: &Effect) -> bool {
        match effect {
            Effect::Table { name, .. }
            | Effect::View { name, .. }
            | Effect::Unique { name, .. }
            | Effect::Index { name }
            | Effect::Sequence { name } => self.process.id(name).is_some(),
            Effect::Drop { name } => self.process.id(name).is_none(),
        }
    }

    /// Whether what a change adds is there, all of it, and what it takes away is not.
    fn is_there(&self, change: &Change) -> bool {
        let Some(rows) = self.durable(&change.table) else { return false };
        let there = change.new.iter().filter(|row| rows.contains_key(&encode(**row))).count();
        assert!(there == 0 || there == change.new.len(), "a part of {change:?} is there");
        there > 0
    }

    fn assert_none(&self, changes: &[Change]) {
        for change in changes {
            assert!(!self.is_there(change), "{change:?} is there without the rest");
        }
    }

    fn durable(&self, table: &str) -> Option<Rows> {
        let (id, known) = (self.process.id(table)?, self.process.env.oracle.known_ts());
        Some(self.process.durable_at(id, known).expect("readers are told what is readable"))
    }

    fn define(&mut self, effect: &Effect) {
        match effect.clone() {
            Effect::Table { name, is_keyed } => {
                if is_keyed {
                    self.model.unique.insert(name.clone(), name.clone());
                }
                self.model.tables.insert(name, BTreeSet::new());
            }
            Effect::View { name, of } => drop(self.model.views.insert(name, of)),
            Effect::Unique { name, on } => drop(self.model.unique.insert(name, on)),
            Effect::Sequence { name } => drop(self.model.sequences.insert(name, 0)),
            Effect::Index { .. } | Effect::Drop { .. } => {}
        }
    }

    /// Takes what has been answered by now, and looks whether it may be so.
    fn settle(&mut self, was_behind: bool) {
        let (before, mut answered) = (self.model.log.len(), Vec::new());
        for mut asked in std::mem::take(&mut self.asked) {
            match asked.answer.as_mut().now_or_never() {
                Some(answer) if is_of_the_dead(&answer) => self.unanswered.push(asked.wish),
                Some(answer) => answered.push((asked, answer)),
                None => self.asked.push(asked),
            }
        }
        if answered.is_empty() {
            return;
        }
        let mut rows = self.model.tables.clone();
        let mut committed: Vec<(Wish, usize)> = Vec::new();
        for (asked, answer) in &answered {
            self.say(|| format!("answered: {}: {}", describe(&asked.wish), outcome(answer)));
            self.count(kind(answer));
            if let Answer::Committed(Ok(Committed::At)) = answer {
                match &asked.wish {
                    Wish::Write { changes, .. } => changes.iter().for_each(|change| self.model.apply(change)),
                    Wish::Define { effect, changes } => {
                        assert!(self.has_come_about(effect), "{effect:?}");
                        self.define(effect);
                        changes.iter().for_each(|change| self.model.apply(change));
                        let process = &self.process;
                        self.model.keep(|name| process.id(name).is_some());
                    }
                    _ => unreachable!("it is not committed"),
                }
                committed.push((asked.wish.clone(), asked.log_at));
            }
        }
        self.assert_in_order(&committed, before);
        // All that have been there, for a moment as well.
        for change in &self.model.log[before..] {
            rows.entry(change.table.clone()).or_default().extend(&change.new);
        }
        for (asked, answer) in answered {
            let is_excused = was_behind || self.stores.disk.fault_count() > asked.faults;
            self.judge(asked, answer, &rows, is_excused);
        }
    }

    /// What was committed had read what was there: nothing of it was written by what had been committed before, and of two that have
    /// been committed since, one can have come before the other.
    fn assert_in_order(&self, committed: &[(Wish, usize)], before: usize) {
        let touches = |wish: &Wish, read: &Read| match wish {
            Wish::Write { changes, .. } | Wish::Define { changes, .. } => {
                changes.iter().any(|change| change.touches(&read.table, read.key))
            }
            _ => false,
        };
        for (at, (wish, log_at)) in committed.iter().enumerate() {
            let Wish::Write { read: Some(read), .. } = wish else { continue };
            let since = &self.model.log[(*log_at).min(before)..before];
            assert!(!since.iter().any(|change| change.touches(&read.table, read.key)), "{read:?} was written since");
            for (other, _) in &committed[..at] {
                let Wish::Write { read: Some(other_read), .. } = other else { continue };
                assert!(!(touches(other, read) && touches(wish, other_read)), "{read:?} and {other_read:?}");
            }
        }
    }

    /// Whether what was answered is right. `rows` are those that were there at any moment of the step.
    fn judge(&mut self, asked: Asked, answer: Answer, rows: &BTreeMap<String, BTreeSet<Row>>, is_excused: bool) {
        match answer {
            Answer::Committed(result) => return self.judge_write(&asked, result, rows, is_excused),
            Answer::Probed(Err(error)) | Answer::Done(Err(error)) => return assert!(is_excused, "{error}"),
            _ => {}
        }
        let Asked { wish, faults, .. } = asked;
        match answer {
            Answer::Probed(Ok(probed)) => {
                let Wish::Probe { table, constraint, key } = wish else { panic!("nobody asked for keys") };
                let published = self.process.env.published.load();
                let known = published.tables.get(&table).and_then(|table| table.constraints.key(constraint));
                // Of a constraint that has gone no key is taken.
                if let (Ok(rows), Some(_)) = (self.process.durable_at(table, probed.ts), known) {
                    let is_taken = rows.keys().any(|row| row.starts_with(&encode_key(key)));
                    assert_eq!(probed.counts, [i64::from(is_taken)], "key {key} of {table} at {}", probed.ts);
                }
            }
            Answer::Done(Ok(())) => {
                if let Wish::Reserve { name, sequence, count } = wish {
                    self.take_values(&name, &sequence, count);
                }
            }
            Answer::Followed(Ok(handle)) => {
                let Wish::Subscribe { table } = wish else { panic!("nobody wants to follow") };
                self.followers.push((handle, table, faults));
            }
            Answer::Followed(Err(error)) => {
                let Wish::Subscribe { table } = wish else { panic!("nobody wants to follow") };
                assert!(is_excused || self.process.id(&table).is_none(), "{error}");
            }
            Answer::Committed(_) | Answer::Probed(Err(_)) | Answer::Done(Err(_)) => unreachable!("it was judged"),
        }
    }

    fn judge_write(
        &mut self,
        asked: &Asked,
        answer: Result<Committed, CommitError>,
        rows: &BTreeMap<String, BTreeSet<Row>>,
        is_excused: bool,
    ) {
        let wish = &asked.wish;
        match answer {
            Ok(Committed::At) => {
                let is_twice = matches!(wish, Wish::Write { once: Some(once), .. } if once.has_happened);
                assert!(!is_twice, "{} has happened twice", describe(wish));
            }
            Ok(Committed::Violates(_)) => {
                let (Wish::Write { changes, .. } | Wish::Define { changes, .. }) = wish else {
                    panic!("nothing is written")
                };
                let is_taken = |change: &Change| {
                    let (mut keys, mut own) = (change.new.iter().map(|row| row.0), BTreeSet::new());
                    let is_there = |key| rows.get(&change.table).into_iter().flatten().any(|row| row.0 == key);
                    keys.any(|key| !own.insert(key) || is_there(key))
                };
                assert!(changes.iter().any(is_taken), "no key of it was taken");
            }
            Ok(Committed::Repeated) => {
                let has_happened = matches!(wish, Wish::Write { once: Some(once), .. } if once.has_happened);
                assert!(has_happened, "it was not done before: {}", describe(wish));
                self.count("not done twice");
            }
            Ok(Committed::Conflict) => {
                let now = self.process.env.published.load().state.revision();
                let is_justified = match wish {
                    Wish::Write { changes, read, .. } => {
                        let written = |read: &Read| {
                            self.model.log[asked.log_at..].iter().any(|it| it.touches(&read.table, read.key))
                        };
                        read.as_ref().is_some_and(written)
                            || changes.iter().any(|change| self.process.id(&change.table).is_none())
                    }
                    Wish::Define { .. } => now != asked.revision,
                    _ => false,
                };
                assert!(is_justified || is_excused, "there is nothing that it contradicts: {}", describe(wish));
            }
            Err(error) => {
                let is_violated = match wish {
                    Wish::Define { effect: Effect::Unique { on, .. }, changes } => {
                        let own = changes.iter().filter(|change| change.table == *on).flat_map(|change| &change.new);
                        let (mut all, mut keys) = (rows.get(on).into_iter().flatten().chain(own), BTreeSet::new());
                        !all.all(|row| keys.insert(row.0))
                    }
                    _ => false,
                };
                let is_justified = is_violated && error.sqlstate() == SqlState::UNIQUE_VIOLATION;
                assert!(is_excused || is_justified, "{error}");
            }
        }
    }

    /// Takes reserved values: each is the next, unless a process has died that had reserved some.
    fn take_values(&mut self, name: &str, sequence: &glimpse_committer::sequence::Sequence, count: u64) {
        for _ in 0..count {
            let Taken::Value(value) = sequence.take() else { return };
            let Some(last) = self.model.sequences.get_mut(name) else { return };
            let is_right = if self.gaps.remove(name) { value > *last } else { value == *last + 1 };
            assert!(is_right, "{name} gives {value} after {last}");
            *last = value;
        }
    }

    /// Compares what is there with what has to be.
    fn check(&mut self) {
        let wrong = std::mem::take(&mut *self.wrong.lock());
        assert!(wrong.is_empty(), "{wrong:?}");
        let (env, known) = (&self.process.env, self.process.env.oracle.known_ts());
        assert!(known >= self.seen, "time goes back from {} to {known}", self.seen);
        self.seen = known;
        assert!(known < env.persist.upper(), "readers are told {known}, which is not readable");
        self.latest_us = self.latest_us.max(self.clock.clock().now_us());
        assert!(
            known <= self.latest_us + AHEAD_US_MAX,
            "it is {known} where it never was later than {}",
            self.latest_us
        );
        let published = env.published.load_full();
        for name in self.model.tables.keys() {
            let (id, table) = self.process.table(name);
            let durable = self.process.durable_at(id, known).expect("it is readable");
            assert_eq!(durable, self.model.rows(name), "{name} as of {known}");
            assert!(table.clock.last_write() <= known, "{name} was written after {known}");
        }
        for (unique, table) in &self.model.unique {
            assert!(self.model.is_unique(table), "{unique}: {:?}", self.model.tables[table]);
        }
        for (on, indexes) in &published.indexes {
            let Some(item) = published.state.item(*on) else { panic!("{on} has indexes and is nothing") };
            let rows = self.model.rows(&item.name.item);
            indexes.iter().for_each(|index| assert_shown(&index.handle, known, &rows));
        }
        for (id, as_of, shown) in self.process.workers.take_seeds() {
            let name = published.state.item(id).map(|item| item.name.item.clone());
            // Of what has gone, or was compacted since, nobody knows any more.
            let Some(expected) = name.and_then(|name| self.rows_at(&name, as_of)) else { continue };
            let mut rows = Rows::new();
            shown.iter().flat_map(|part| part.iter()).for_each(|(row, n)| *rows.entry(row.to_vec()).or_default() += n);
            rows.retain(|_, count| *count != 0);
            assert_eq!(rows, expected, "what {id} shows of the run before as of {as_of}");
            *self.tally.entry("views that show the run before").or_default() += 1;
        }
        let faults = self.stores.disk.fault_count();
        self.followers.retain(|(handle, table, before)| {
            if handle.check().is_ok() {
                assert_shown(handle, known, &self.model.rows(table));
                assert!(self.model.tables.contains_key(table), "{table} has gone, and is followed");
                return true;
            }
            assert!(faults > *before || !self.model.tables.contains_key(table), "{table} is not followed any more");
            false
        });
        for (hold, tables) in &self.holds {
            for (id, rows) in tables {
                if published.tables.contains_key(id) {
                    let durable = self.process.durable_at(*id, hold.ts()).expect("it is held");
                    assert_eq!(durable, *rows, "{id} as of {}", hold.ts());
                }
            }
        }
    }

    /// What a relation is made of by what is durable as of a time.
    fn rows_at(&self, relation: &str, ts: Timestamp) -> Option<Rows> {
        let Some(parts) = self.model.views.get(relation) else {
            return self.process.durable_at(self.process.id(relation)?, ts).ok();
        };
        let mut all = Rows::new();
        for part in parts {
            self.rows_at(part, ts)?.into_iter().for_each(|(row, count)| *all.entry(row).or_default() += count);
        }
        Some(all)
    }

    /// Nothing fails any more, and everything that is under way comes to its end.
    fn come_to_rest(&mut self) {
        self.say(|| "everything comes to rest".to_owned());
        self.stores.disk.mend();
        self.clock.set_now_us(self.clock.clock().now_us().max(self.latest_us).max(self.seen));
        for _ in 0..ROUNDS_MAX {
            self.process.jobs.go_on_all();
            self.process.workers.publish_all();
            self.settle(false);
            let Process { committer, requests, jobs, .. } = &self.process;
            if committer.is_idle(requests) && self.asked.is_empty() && jobs.count() == 0 {
                return self.check_rest();
            }
            self.step();
        }
        let waiting: Vec<String> = self.asked.iter().map(|asked| describe(&asked.wish)).collect();
        panic!("it does not come to rest; without an answer: {waiting:?}; at work: {:?}", self.process.jobs.names());
    }

    /// Everything that is maintained is there, and what is written down of materialized views.
    fn check_rest(&mut self) {
        self.check();
        let (published, known) = (self.process.env.published.load_full(), self.process.env.oracle.known_ts());
        for index in published.indexes.values().flatten() {
            assert!(index.handle.check().is_ok() && index.handle.all_complete(known), "{} is not there", index.name);
        }
        for name in self.model.views.keys() {
            let id = self.process.id(name).expect("it is there");
            let durable = self.process.durable_at(id, known).expect("it is readable");
            let rows = self.model.rows(name).into_iter().map(|(row, count)| ([&[0][..], &row].concat(), count));
            assert_eq!(durable, rows.collect::<Rows>(), "what is written down of {name}");
        }
    }
}

/// Whether an answer is what the channel says when nobody has answered; a client would have lost its connection.
fn is_of_the_dead(answer: &Answer) -> bool {
    let error = match answer {
        Answer::Committed(result) => result.as_ref().err(),
        Answer::Probed(result) => result.as_ref().err(),
        Answer::Done(result) => result.as_ref().err(),
        Answer::Followed(result) => result.as_ref().err(),
    };
    error.is_some_and(|error| error.sqlstate() == SqlState::ADMIN_SHUTDOWN)
}

/// What something maintained shows as of a time, if that is known.
fn assert_shown(handle: &Arc<IndexHandle>, known: Timestamp, expected: &Rows) {
    if handle.check().is_err() || !handle.all_complete(known) {
        return;
    }
    let tail = Tail::since(Arc::clone(handle), known, usize::MAX).now_or_never().expect("it is complete");
    let (mut contents, _tail) = tail.expect("it is readable");
    let mut shown = Rows::new();
    while let Some(rows) = contents.next_rows(100) {
        rows.iter().for_each(|(row, count)| *shown.entry(row.to_vec()).or_default() += count);
    }
    shown.retain(|_, count| *count != 0);
    assert_eq!(shown, *expected, "what {} shows as of {known}", handle.id);
}

fn describe(wish: &Wish) -> String {
    match wish {
        Wish::Write { changes, read, once } => format!("write {changes:?}, having read {read:?}, {once:?}"),
        Wish::Define { effect, changes } => format!("define {effect:?} with {changes:?}"),
        Wish::Probe { table, key, .. } => format!("probe {key} of {table}"),
        Wish::Tick => "tick".to_owned(),
        Wish::Reserve { name, count, .. } => format!("reserve {count} of {name}"),
        Wish::Subscribe { table } => format!("follow {table}"),
    }
}

fn kind(answer: &Answer) -> &'static str {
    match answer {
        Answer::Committed(Ok(Committed::At)) => "committed",
        Answer::Committed(Ok(Committed::Conflict)) => "conflicts",
        Answer::Committed(Ok(Committed::Repeated)) => "repeated",
        Answer::Committed(Ok(Committed::Violates(_))) => "duplicates",
        Answer::Probed(Ok(_)) => "keys looked up",
        Answer::Done(Ok(())) => "done",
        Answer::Followed(Ok(_)) => "followed",
        Answer::Committed(Err(_)) | Answer::Probed(Err(_)) | Answer::Done(Err(_)) | Answer::Followed(Err(_)) => {
            "failed"
        }
    }
}

fn outcome(answer: &Answer) -> String {
    let error = |error: &CommitError| error.to_string();
    match answer {
        Answer::Committed(result) => result.as_ref().map_or_else(error, |committed| format!("{committed:?}")),
        Answer::Probed(result) => result.as_ref().map_or_else(error, |probed| format!("{:?}", probed.counts)),
        Answer::Done(result) => result.as_ref().map_or_else(error, |()| "done".to_owned()),
        Answer::Followed(result) => result.as_ref().map_or_else(error, |handle| handle.id.to_string()),
    }
}
