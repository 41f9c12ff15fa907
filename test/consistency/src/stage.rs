//! Where a history takes place: the clients, their clock, where they find a server, and when they stop.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::session::{Door, Doors, Failure, Session};

/// Which doors clients come by, if there are several.
const BY_TURNS: [Door; 3] = [Door::Postgres, Door::Web, Door::Flight];
/// How long a client without a server waits before it looks again.
const RETRY: Duration = Duration::from_millis(10);
/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// See the module. What clients share.
#[derive(Debug)]
pub struct Stage {
    started: Instant,
    /// Where servers are.
    sites: Mutex<Vec<SocketAddr>>,
    /// The other doors of one that stays where it is, if clients come by these as well.
    doors: Option<Doors>,
    is_over: AtomicBool,
    operations: AtomicU64,
    lost: AtomicU64,
    refused: AtomicU64,
    wrong: Mutex<Vec<String>>,
}

/// What clients met with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Operations that were answered, or may have happened.
    pub operations: u64,
    /// Operations of which nobody knows.
    pub lost: u64,
    /// Operations that were refused.
    pub refused: u64,
}

impl Stage {
    /// A stage with these servers.
    pub fn new(sites: Vec<SocketAddr>) -> Stage {
        Stage {
            started: Instant::now(),
            sites: Mutex::new(sites),
            doors: None,
            is_over: AtomicBool::new(false),
            operations: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            wrong: Mutex::default(),
        }
    }

    /// The same, to which clients come by all doors.
    pub fn by_all(self, doors: Doors) -> Stage {
        Stage { doors: Some(doors), ..self }
    }

    /// Nanoseconds of the clock that all clients share.
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).expect("a history is not centuries long")
    }

    /// New connections go to one of these from now on.
    pub fn move_to(&self, sites: Vec<SocketAddr>) {
        *self.sites.lock().expect("nobody panics here") = sites;
    }

    /// Where servers are.
    pub fn sites(&self) -> Vec<SocketAddr> {
        self.sites.lock().expect("nobody panics here").clone()
    }

    /// Clients stop.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    /// Whether clients are to stop.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        let get = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        Counts { operations: get(&self.operations), lost: get(&self.lost), refused: get(&self.refused) }
    }

    /// Notes what no server should say, and ends the history.
    pub fn report(&self, what: String) {
        self.wrong.lock().expect("nobody panics here").push(what);
        self.end();
    }

    /// What was reported.
    pub fn reports(&self) -> Vec<String> {
        self.wrong.lock().expect("nobody panics here").clone()
    }

    /// Runs clients beside something else, which decides when the history ends. Fails if that fails, or if a client has met with
    /// what no server should say.
    pub fn beside<R: Send, T>(
        &self,
        count: usize,
        seed: u64,
        act: impl Fn(&mut Actor<'_>) -> Option<R> + Sync,
        other: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let result = std::thread::scope(|scope| {
            scope.spawn(|| self.clients(count, seed, &act));
            let result = other();
            self.end();
            result
        })?;
        ensure!(self.reports().is_empty(), "{}", self.reports().join("\n"));
        Ok(result)
    }

    /// Waits until something is so. Fails if it does not become so, or if the history ends before.
    pub fn wait_for(&self, what: &str, is_so: impl Fn() -> bool) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        while !is_so() {
            ensure!(!self.is_over(), "{}", self.reports().join("\n"));
            ensure!(Instant::now() < until, "waited in vain until {what}");
            std::thread::sleep(RETRY);
        }
        Ok(())
    }

    /// Runs clients until the end, each with a seed of its own; returns what they recorded.
    pub fn clients<R: Send>(
        &self,
        count: usize,
        seed: u64,
        act: impl Fn(&mut Actor<'_>) -> Option<R> + Sync,
    ) -> Vec<R> {
        let perform = |index: usize| {
            let mut actor = Actor::new(self, index, seed);
            let mut records = Vec::new();
            while !self.is_over() {
                if let Some(record) = act(&mut actor) {
                    self.operations.fetch_add(1, Ordering::SeqCst);
                    records.push(record);
                }
            }
            records
        };
        std::thread::scope(|scope| {
            let perform = &perform;
            let actors: Vec<_> = (0..count).map(|index| scope.spawn(move || perform(index))).collect();
            let join =
                |actor: std::thread::ScopedJoinHandle<'_, Vec<R>>| actor.join().expect("a client does not panic");
            actors.into_iter().flat_map(join).collect()
        })
    }
}

/// A client.
pub struct Actor<'a> {
    /// Which.
    pub index: usize,
    /// What decides what it asks.
    pub random: StdRng,
    /// Where it is.
    pub stage: &'a Stage,
    session: Option<Session>,
}

impl<'a> Actor<'a> {
    /// A client that is not connected yet.
    pub fn new(stage: &'a Stage, index: usize, seed: u64) -> Actor<'a> {
        let salt = u64::try_from(index).expect("few").wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Actor { index, random: StdRng::seed_from_u64(seed ^ salt), stage, session: None }
    }

    /// Its connection, made anew if need be; `None` if the history ends before there is one.
    pub fn session(&mut self) -> Option<&mut Session> {
        while self.session.is_none() {
            if self.stage.is_over() {
                return None;
            }
            let sites = self.stage.sites();
            let site = sites[self.random.random_range(0..sites.len())];
            let session = match self.stage.doors {
                // The first of them does what only the system user may.
                Some(doors) => Session::connect_by(BY_TURNS[self.index % BY_TURNS.len()], site, doors),
                None => Session::connect(site),
            };
            match session {
                Ok(session) => self.session = Some(session),
                Err(_) => std::thread::sleep(RETRY),
            }
        }
        self.session.as_mut()
    }

    /// Asks something; `None` if there is no server until the end. Returns the answer with the times of both, the second
    /// `u64::MAX` if it may or may not have happened.
    pub fn ask<A>(&mut self, question: impl FnOnce(&mut Session) -> Result<A, Failure>) -> Option<Asked<A>> {
        self.session()?;
        let stage = self.stage;
        let session = self.session.as_mut().expect("it was made just now");
        let call_ns = stage.now_ns();
        let answer = question(session);
        let answered_ns = stage.now_ns();
        let (outcome, return_ns) = match answer {
            Ok(answer) => (Answer::Given(answer), answered_ns),
            Err(Failure::Refused(code)) => {
                stage.refused.fetch_add(1, Ordering::SeqCst);
                (Answer::Refused(code), answered_ns)
            }
            Err(Failure::Lost(_)) => {
                stage.lost.fetch_add(1, Ordering::SeqCst);
                self.session = None;
                (Answer::Lost, u64::MAX)
            }
            Err(Failure::Wrong(what)) => {
                stage.report(what);
                self.session = None;
                (Answer::Lost, u64::MAX)
            }
        };
        Some(Asked { call_ns, return_ns, answer: outcome })
    }
}

impl<A> Asked<A> {
    /// Whether it was refused.
    pub fn is_refused(&self) -> bool {
        matches!(self.answer, Answer::Refused(_))
    }
}

/// A question with its answer.
pub struct Asked<A> {
    /// When it was asked.
    pub call_ns: u64,
    /// When it was answered.
    pub return_ns: u64,
    /// The answer.
    pub answer: Answer<A>,
}

/// What became of a question.
pub enum Answer<A> {
    /// It was answered.
    Given(A),
    /// It did nothing. The SQLSTATE.
    Refused(String),
    /// It may have happened.
    Lost,
}
