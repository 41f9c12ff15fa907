//! Claims: which values of a PRIMARY KEY, a UNIQUE constraint or a unique index are taken, and how often FOREIGN KEYs refer to them.
//!
//! The committer sees every write in commit order, so it alone can say whether a key is free:
//!
//! 1. The keys of a table are those in their index, and what the latest commits did to them: those that the index has not
//!    published yet ([`Latest`]). So keys are in memory once, and nobody waits for a dataflow.
//! 2. Where there is no index, or it is not complete yet, its table's keys are read from the shard before the first write to it
//!    after a start, or after a constraint was added, and kept here until there is one.
//! 3. What a write does to the keys is netted: a row that is replaced by one with the same key changes nothing, and rows may
//!    trade their keys. After the write every key is there once, or not at all; else the write is refused. Likewise every key is there
//!    that a new reference is to, and no reference is to a key that has gone.
//!    Of a large write that is worked out and looked up beside ([`LoadedKeys`]), and only what may have changed since is looked at here.
//! 4. What a group does to the keys is *staged*, where its later writes see it. It is settled when the group is durable, and
//!    forgotten if that failed.
//!
//! # Invariants
//! - Between groups nothing is staged, and the claims of a table are the keys of what is durable of it.
//! - An index is asked while nothing is fed to it: what it was fed is durable then, or it is another index.

use crate::constraint::{
    Changed, CountedKey, Duplicate, KeyCounts, KeyRun, LoadedKeys, NetKeys, Orphan, TableConstraints, Validated,
    Violation, Watch, both, first_duplicate, net_keys,
};
use crate::environment::Environment;
use crate::error::CommitError;
use crate::published::Published;
use ahash::AHashMap;
use bugs::Bug;
use compute_client::index::IndexHandle;
use parking_lot::Mutex;
use persist::PersistClient;
use repr::{Diff, GlobalId, Timestamp, Updates};
use smallvec::SmallVec;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Weak};

/// So many keys are forgotten in a moment.
const KEYS_FREED: usize = 10_000;

/// The claims of all tables that were written to.
#[derive(Default)]
pub(super) struct Claims {
    tables: HashMap<GlobalId, Vec<Claim>>,
    /// Who is told which keys of a table have changed, as long as somebody wants to know.
    watches: HashMap<GlobalId, Vec<Weak<Mutex<Vec<Changed>>>>>,
    /// Tables of which something is staged.
    staged: BTreeSet<GlobalId>,
    has_many: bool,
}

/// The keys of one constraint that are taken, or to which those of a foreign key refer.
struct Claim {
    /// The constraint.
    oid: u32,
    durable: Source,
    /// What the group does to them: little of it, and much.
    staged: NetKeys,
    staged_runs: Vec<Arc<KeyRun>>,
}

/// What a write does to the keys of one constraint.
enum Net {
    Few(NetKeys),
    Many(Arc<KeyRun>),
}

impl Net {
    fn get(&self, key: &[u8]) -> Option<Diff> {
        match self {
            Net::Few(keys) => keys.get(key).copied(),
            Net::Many(run) => run.get(key),
        }
    }

    fn iter(&self) -> Box<dyn Iterator<Item = (&[u8], Diff)> + '_> {
        match self {
            Net::Few(keys) => Box::new(keys.iter().map(|(key, diff)| (key.as_slice(), *diff))),
            Net::Many(run) => Box::new(run.iter()),
        }
    }
}

/// Where it is known from which keys are taken by what is durable.
enum Source {
    /// From their index, and what it may not have yet.
    Index(Arc<IndexHandle>, Latest),
    /// From their shard, and what was written since.
    Shard(KeyCounts),
}

/// What the latest commits did to keys.
#[derive(Default)]
struct Latest {
    by_key: AHashMap<Arc<[u8]>, SmallVec<[(Timestamp, Diff); 1]>>,
    /// Oldest first.
    by_time: VecDeque<(Timestamp, Arc<[u8]>)>,
    /// Those that did much.
    runs: VecDeque<(Timestamp, Arc<KeyRun>)>,
}

impl Latest {
    fn note(&mut self, ts: Timestamp, key: Arc<[u8]>, diff: Diff) {
        self.by_key.entry(Arc::clone(&key)).or_default().push((ts, diff));
        self.by_time.push_back((ts, key));
    }

    /// What commits at or above a time did to a key.
    fn since(&self, upper: Timestamp, key: &[u8]) -> Diff {
        let all = self.by_key.get(key).into_iter().flatten();
        let few: Diff = all.filter(|(ts, _)| *ts >= upper).map(|(_, diff)| diff).sum();
        let runs = self.runs.iter().filter(|(ts, _)| *ts >= upper);
        few + runs.filter_map(|(_, run)| run.get(key)).sum::<Diff>()
    }

    /// Forgets the commits below a time.
    fn forget_below(&mut self, upper: Timestamp) {
        while let Some((_, run)) = self.runs.pop_front_if(|(ts, _)| *ts < upper) {
            free(run.len(), run);
        }
        if self.by_time.back().is_none_or(|(ts, _)| *ts < upper) {
            if self.by_key.len() > KEYS_FREED {
                free(self.by_key.len(), (std::mem::take(&mut self.by_key), std::mem::take(&mut self.by_time)));
            }
            self.by_key.clear();
            return self.by_time.clear();
        }
        while let Some((ts, key)) = self.by_time.pop_front_if(|(ts, _)| *ts < upper) {
            if let Some(commits) = self.by_key.get_mut(&key) {
                commits.retain(|(at, _)| *at != ts);
                if commits.is_empty() {
                    self.by_key.remove(&key);
                }
            }
        }
    }
}

impl Source {
    /// How often a key is there.
    fn count(&self, key: &[u8]) -> Diff {
        match self {
            Source::Shard(counts) => counts.get(key).copied().unwrap_or(0),
            Source::Index(handle, latest) => {
                let (count, upper) = handle.count(key);
                count + latest.since(upper, key)
            }
        }
    }

    /// The same of much.
    fn settle_run(&mut self, ts: Timestamp, run: Arc<KeyRun>) {
        match self {
            Source::Shard(_) => self.settle(ts, run.iter().map(|(key, diff)| (key.to_vec(), diff))),
            Source::Index(_, latest) => latest.runs.push_back((ts, run)),
        }
    }

    /// Whether it has many keys of its own that its index will have.
    fn has_many(&self) -> bool {
        match self {
            // What has been stopped publishes nothing any more.
            Source::Index(handle, latest) => {
                (latest.by_key.len() > KEYS_FREED || !latest.runs.is_empty()) && handle.check().is_ok()
            }
            Source::Shard(_) => false,
        }
    }

    /// Takes over what a commit did to keys.
    fn settle(&mut self, ts: Timestamp, net: impl Iterator<Item = (Vec<u8>, Diff)>) {
        match self {
            Source::Shard(counts) => {
                for (key, diff) in net {
                    let count = counts.get(key.as_slice()).copied().unwrap_or(0) + diff;
                    match count {
                        0 => drop(counts.remove(key.as_slice())),
                        count => drop(counts.insert(key.into(), count)),
                    }
                }
            }
            Source::Index(handle, latest) => {
                latest.forget_below(handle.upper());
                net.for_each(|(key, diff)| latest.note(ts, key.into(), diff));
            }
        }
    }

    /// Forgets what its index has published.
    fn forget_published(&mut self) {
        if let Source::Index(handle, latest) = self {
            latest.forget_below(handle.upper());
        }
    }

    /// How many keys it has of its own.
    fn len(&self) -> usize {
        match self {
            Source::Index(_, latest) => {
                latest.by_key.len() + latest.runs.iter().map(|(_, run)| run.len()).sum::<usize>()
            }
            Source::Shard(counts) => counts.len(),
        }
    }
}

/// Where the keys of tables are to be found.
#[derive(Clone, Copy)]
pub(super) struct Stored<'a> {
    published: &'a Published,
    persist: &'a PersistClient,
    /// The time of the latest commit, or a later one.
    now: Timestamp,
}

/// What a write does to the keys of each constraint.
type Nets = Vec<(u32, Net)>;

/// A write to a table whose keys are to be claimed.
pub(super) struct Claimant<'a> {
    pub(super) table: GlobalId,
    pub(super) constraints: Arc<TableConstraints>,
    pub(super) updates: &'a Updates,
    /// What is known of its keys, if they are many.
    pub(super) loaded: Option<&'a LoadedKeys>,
}

impl Claimant<'_> {
    fn nets(&self) -> Nets {
        let net = |key: &CountedKey| {
            let known = self.loaded.into_iter().flat_map(|loaded| &loaded.keys).find(|known| known.oid == key.oid);
            match known {
                Some(known) => Net::Many(Arc::clone(&known.run)),
                None => Net::Few(net_keys(&self.constraints, key, self.updates)),
            }
        };
        self.constraints.all_counted().map(|key| (key.oid, net(key))).collect()
    }
}

/// A write that is looked at: what it does lies over what is staged.
struct Proposed<'p> {
    claims: &'p Claims,
    all: &'p [(&'p Claimant<'p>, Nets)],
}

impl<'a> Stored<'a> {
    pub(super) fn of(env: &'a Environment, published: &'a Published) -> Stored<'a> {
        Stored { published, persist: &env.persist, now: env.oracle.known_ts() }
    }

    /// The index of a key, if it is maintained.
    fn index(&self, table: GlobalId, key: &CountedKey) -> Option<&'a Arc<IndexHandle>> {
        let index = self.published.index_on(table, key.index?)?;
        Some(&index.handle).filter(|handle| handle.check().is_ok())
    }
}

impl Claim {
    /// Takes the keys from where they are best had. False if they are where the claim has them no longer.
    fn turn_to(&mut self, index: Option<&Arc<IndexHandle>>, now: Timestamp) -> bool {
        match (&self.durable, index) {
            (Source::Index(known, _), Some(index)) if Arc::ptr_eq(known, index) => true,
            (_, Some(index)) if index.all_complete(now) => {
                let before = std::mem::replace(&mut self.durable, Source::Index(Arc::clone(index), Latest::default()));
                free(before.len(), before);
                true
            }
            (Source::Shard(_), _) => true,
            (Source::Index(..), _) => false,
        }
    }

    fn new(oid: u32, durable: Source) -> Claim {
        Claim { oid, durable, staged: NetKeys::new(), staged_runs: Vec::new() }
    }

    fn count(&self, key: &[u8]) -> Diff {
        let staged = self.staged.get(key).copied().into_iter();
        self.durable.count(key) + staged.chain(self.staged_runs.iter().filter_map(|run| run.get(key))).sum::<Diff>()
    }

    /// Whether keys that were looked up in this index were looked up where they are.
    fn is_from(&self, index: &Arc<IndexHandle>) -> bool {
        matches!(&self.durable, Source::Index(handle, _) if Arc::ptr_eq(handle, index))
    }
}

impl Claims {
    /// Stages what a write does to the keys of its tables, or finds what it may not do and stages nothing.
    pub(super) fn stage(
        &mut self,
        stored: Stored<'_>,
        claimants: &[Claimant<'_>],
    ) -> Result<Option<Violation>, CommitError> {
        let mut all = Vec::with_capacity(claimants.len());
        for claimant in claimants {
            let Claimant { table, constraints, .. } = claimant;
            self.load(stored, *table, constraints)?;
            for related in constraints.related() {
                if let Some(known) = stored.published.tables.get(&related) {
                    self.load(stored, related, &known.constraints)?;
                }
            }
            all.push((claimant, claimant.nets()));
        }
        let found = Proposed { claims: self, all: &all }.violation()?;
        if found.is_none() {
            all.into_iter().for_each(|(claimant, nets)| self.add(claimant.table, nets));
        }
        Ok(found)
    }

    /// Adds to what is staged of a table.
    fn add(&mut self, table: GlobalId, nets: Nets) {
        let Some(claims) = self.tables.get_mut(&table) else { return };
        for (oid, net) in nets {
            let Some(claim) = claims.iter_mut().find(|claim| claim.oid == oid) else { continue };
            match net {
                Net::Few(net) => net.into_iter().for_each(|(key, diff)| *claim.staged.entry(key).or_default() += diff),
                Net::Many(run) => claim.staged_runs.push(run),
            }
        }
        self.staged.insert(table);
    }

    /// From here on it is noted which keys of a table commits change.
    pub(super) fn watch(&mut self, stored: Stored<'_>, table: GlobalId, constraints: &TableConstraints) -> Watch {
        let changed = Arc::default();
        self.watches.entry(table).or_default().push(Arc::downgrade(&changed));
        // For one that hydrates nobody waits: the claims are not there either.
        let is_soon_complete = |index: &&Arc<IndexHandle>| index.is_hydrated() && !index.is_seeded();
        let index = |key: &CountedKey| {
            let index = stored.index(table, key).filter(is_soon_complete)?;
            Some((key.oid, Arc::clone(index)))
        };
        Watch { ts: stored.now, indexes: constraints.all_counted().filter_map(index).collect(), changed }
    }

    /// Tells who wants to know which keys of a table change.
    fn tell(&mut self, table: GlobalId) {
        let Some(watches) = self.watches.get_mut(&table) else { return };
        watches.retain(|watch| {
            let Some(changed) = watch.upgrade() else { return false };
            let mut changed = changed.lock();
            for claim in self.tables.get(&table).into_iter().flatten() {
                changed.extend(claim.staged.keys().map(|key| Changed::One(claim.oid, key.as_slice().into())));
                changed.extend(claim.staged_runs.iter().map(|run| Changed::Many(claim.oid, Arc::clone(run))));
            }
            true
        });
        if watches.is_empty() {
            self.watches.remove(&table);
        }
    }

    /// How often a key is there, with what is staged.
    fn count(&self, table: GlobalId, constraint: u32, key: &[u8]) -> Diff {
        self.claim(table, constraint).map_or(0, |claim| claim.count(key))
    }

    fn claim(&self, table: GlobalId, constraint: u32) -> Option<&Claim> {
        self.tables.get(&table)?.iter().find(|claim| claim.oid == constraint)
    }

    /// How often each of these keys, of the constraint with the oid beside it, is there by what is durable.
    pub(super) fn counts(
        &mut self,
        stored: Stored<'_>,
        table: GlobalId,
        constraints: &TableConstraints,
        keys: &[(u32, Vec<u8>)],
    ) -> Result<Vec<Diff>, CommitError> {
        self.load(stored, table, constraints)?;
        Ok(keys.iter().map(|(oid, key)| self.count(table, *oid, key)).collect())
    }

    /// The constraints, by their oids, of which the keys have to be read from the shard.
    pub(super) fn unknown(&mut self, stored: Stored<'_>, table: GlobalId, constraints: &TableConstraints) -> Vec<u32> {
        if constraints.all_counted().next().is_none() {
            return Vec::new();
        }
        let claims = self.tables.entry(table).or_default();
        let is_unknown = |key: &&CountedKey| {
            let index = stored.index(table, key);
            if let Some(at) = claims.iter().position(|claim| claim.oid == key.oid) {
                // What is staged of a claim stays with it until its keys are installed anew.
                return !claims[at].turn_to(index, stored.now);
            }
            match index.filter(|index| index.all_complete(stored.now)) {
                Some(index) => {
                    let durable = Source::Index(Arc::clone(index), Latest::default());
                    claims.push(Claim::new(key.oid, durable));
                    false
                }
                None => true,
            }
        };
        constraints.all_counted().filter(is_unknown).map(|key| key.oid).collect()
    }

    /// Step 2, for the keys that are not known yet; those of large tables were read before ([`super::put_off`]).
    fn load(&mut self, stored: Stored<'_>, table: GlobalId, constraints: &TableConstraints) -> Result<(), CommitError> {
        let unknown = self.unknown(stored, table, constraints);
        if !unknown.is_empty() {
            let keys = constraints.stored_keys(stored.persist, table, &unknown)?;
            self.install(table, keys);
        }
        Ok(())
    }

    /// Takes over the keys of constraints that are new.
    pub(super) fn install(&mut self, table: GlobalId, keys: Validated) {
        let claims = self.tables.entry(table).or_default();
        for (oid, counts) in keys {
            let durable = Source::Shard(counts);
            match claims.iter_mut().find(|known| known.oid == oid) {
                Some(known) => known.durable = durable,
                None => claims.push(Claim::new(oid, durable)),
            }
        }
    }

    /// What was staged is durable, of this time.
    pub(super) fn settle(&mut self, ts: Timestamp) {
        for table in std::mem::take(&mut self.staged) {
            self.tell(table);
            for claim in self.tables.get_mut(&table).into_iter().flatten() {
                for run in claim.staged_runs.drain(..) {
                    claim.durable.settle_run(ts, run);
                    self.has_many = true;
                }
                let count = claim.staged.len();
                claim.durable.settle(ts, claim.staged.drain().filter(|(_, diff)| *diff != 0));
                if count > KEYS_FREED {
                    claim.staged = NetKeys::new();
                    self.has_many = true;
                }
            }
        }
    }

    /// Whether a commit has left many keys here, which is over when their index has published them.
    pub(super) fn has_many(&self) -> bool {
        self.has_many
    }

    /// Forgets what the indexes have published by now.
    pub(super) fn forget_published(&mut self) {
        self.has_many = false;
        for claim in self.tables.values_mut().flatten() {
            claim.durable.forget_published();
            self.has_many |= claim.durable.has_many();
        }
    }

    /// What was staged has not come about.
    pub(super) fn forget(&mut self) {
        for table in std::mem::take(&mut self.staged) {
            for claim in self.tables.get_mut(&table).into_iter().flatten() {
                claim.staged.clear();
                claim.staged_runs.clear();
            }
        }
    }

    /// Keeps the claims of a table's constraints that it still has.
    pub(super) fn retain(&mut self, table: GlobalId, constraints: Option<&TableConstraints>) {
        let Some(constraints) = constraints else {
            self.watches.remove(&table);
            if let Some(gone) = self.tables.remove(&table) {
                free(gone.iter().map(|claim| claim.durable.len()).sum(), gone);
            }
            return;
        };
        if let Some(claims) = self.tables.get_mut(&table) {
            let gone = claims.extract_if(.., |claim| constraints.counted(claim.oid).is_none());
            let gone: Vec<Claim> = gone.collect();
            free(gone.iter().map(|claim| claim.durable.len()).sum(), gone);
        }
    }
}

impl Proposed<'_> {
    /// How often a key is there then.
    fn count(&self, table: GlobalId, constraint: u32, key: &[u8]) -> Diff {
        let of_table = self.all.iter().filter(|(claimant, _)| claimant.table == table).flat_map(|(_, nets)| nets);
        let nets = of_table.filter(|(oid, _)| *oid == constraint).filter_map(|(_, net)| net.get(key));
        self.claims.count(table, constraint, key) + nets.sum::<Diff>()
    }

    /// What it may not do: a key is there twice, or a reference is to none.
    fn violation(&self) -> Result<Option<Violation>, CommitError> {
        for (claimant, nets) in self.all {
            if let Some(duplicate) = self.duplicate(claimant, nets)? {
                return Ok(Some(Violation::Duplicate(duplicate)));
            }
        }
        let orphan = self.all.iter().find_map(|(Claimant { constraints, .. }, nets)| self.orphan(constraints, nets));
        Ok(orphan.map(Violation::Orphan))
    }

    /// The first row whose key is there twice.
    fn duplicate(&self, claimant: &Claimant<'_>, nets: &Nets) -> Result<Option<Duplicate>, CommitError> {
        if bugs::is(Bug::KeysUnclaimed) {
            return Ok(None);
        }
        let Claimant { table, constraints, updates, .. } = claimant;
        let mut is_refused = false;
        for (key, (_, net)) in constraints.keys.iter().zip(nets) {
            self.questionable(claimant, key.oid, net, |bytes| {
                match self.count(*table, key.oid, bytes) {
                    0 | 1 => {}
                    copies if copies > 1 => is_refused = true,
                    _ => return Err(CommitError::internal(format!("a key of {} was given up twice", key.name))),
                }
                Ok(())
            })?;
        }
        if !is_refused {
            return Ok(None);
        }
        let copies_after = |place: usize, key: &[u8]| match nets[place].1.get(key) {
            Some(_) => self.count(*table, constraints.keys[place].oid, key),
            None => 0,
        };
        match first_duplicate(*table, constraints, updates, copies_after) {
            Some(duplicate) => Ok(Some(duplicate)),
            None => Err(CommitError::internal("a key that is there twice is of no row")),
        }
    }

    /// Looks at the keys of a write that may be there twice by then: all of them, or, where they were looked up before, those that were or
    /// that have changed since.
    fn questionable(
        &self,
        claimant: &Claimant<'_>,
        oid: u32,
        net: &Net,
        mut look: impl FnMut(&[u8]) -> Result<(), CommitError>,
    ) -> Result<(), CommitError> {
        let known = claimant.loaded.and_then(|loaded| {
            let known = loaded.keys.iter().find(|known| known.oid == oid)?;
            let claim = self.claims.claim(claimant.table, oid)?;
            claim.is_from(known.index.as_ref()?).then_some((loaded, known, claim))
        });
        let Some((loaded, known, claim)) = known else {
            return net.iter().try_for_each(|(key, _)| look(key));
        };
        loaded.again(known, &mut look)?;
        let staged = claim.staged.keys().map(Vec::as_slice).filter(|key| known.run.get(key).is_some());
        staged.chain(claim.staged_runs.iter().flat_map(|run| both(&known.run, run))).try_for_each(look)
    }

    /// A reference to a key that is not there, by what a write did to the keys and the references of a table.
    fn orphan(&self, constraints: &TableConstraints, nets: &Nets) -> Option<Orphan> {
        if bugs::is(Bug::OrphansCommitted) {
            return None;
        }
        let net = |oid: u32| nets.iter().find(|(of, _)| *of == oid).into_iter().flat_map(|(_, net)| net.iter());
        for reference in &constraints.references {
            let new = net(reference.key.oid).filter(|(_, diff)| *diff > 0).map(|(key, _)| key);
            let is_there = |key: &[u8]| {
                let parent = reference.to_parent(key);
                parent.is_some_and(|key| self.count(reference.parent, reference.parent_key, &key) > 0)
            };
            if let Some(key) = new.filter(|key| !is_there(key)).min() {
                return Some(Orphan { reference: Arc::clone(reference), key: key.to_vec(), is_new: true });
            }
        }
        for reference in &constraints.referenced {
            let gone = net(reference.parent_key)
                .filter(|(key, diff)| *diff < 0 && self.count(reference.parent, reference.parent_key, key) == 0);
            let gone = gone.filter_map(|(key, _)| reference.to_child(key));
            let is_referred_to = |key: &[u8]| self.count(reference.child, reference.key.oid, key) > 0;
            if let Some(key) = gone.filter(|key| is_referred_to(key)).min() {
                return Some(Orphan { reference: Arc::clone(reference), key: key.into_owned(), is_new: false });
            }
        }
        None
    }
}

/// Frees the memory of keys; where it is in many pieces, on a thread of its own.
fn free(keys: usize, memory: impl Send + 'static) {
    if keys > KEYS_FREED {
        drop(ore::thread::spawn("forget", move || drop(memory)));
    }
}
