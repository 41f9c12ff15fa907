//! What follows from a statement's changes by foreign keys: rows that go or change as well, and what must not be so.
//!
//! 1. A row that goes, or gets another key, has the rows that refer to it go, change or be in the way, as ON DELETE and ON UPDATE
//!    say. They are found by the index of the foreign key, and what happens to them is followed in turn.
//! 2. Rows that are found are locked, and what they refer to is kept from going (`writing/locking.rs`).
//! 3. Rows that are in the way of others' going are looked for at their turn: they make the statement fail, unless another
//!    transaction is about to let them go, which is waited for.
//! 4. Within a transaction a statement fails that makes a reference to nothing, unless the foreign key is deferred. Of what commits by
//!    itself, and at COMMIT, the committer finds that out.

use crate::error::AdapterError;
use crate::locks::{Strength, Taken};
use crate::session::Session;
use crate::transaction::conflict;
use crate::writing::locking::{Looks, ROWS_MAX, referred_to, touched};
use ahash::{AHashMap, AHashSet};
use committer::constraint::{
    CountedKey, NetKeys, Orphan, Reference, TableConstraints, first_duplicate, net_keys, orphan,
};
use committer::expectations::{Expectation, KeyRange};
use compute_client::error::ComputeError;
use compute_client::peek::{Bound, Looked};
use engine::error::SqlError;
use engine::session::Interrupts;
use persist::PersistError;
use pgrepr::length::{LengthRule, fit_text};
use repr::row::{read_datum, skip_datum, split, write_datum};
use repr::sqlstate::SqlState;
use repr::{Datum, Diff, GlobalId, Timestamp, Updates};
use smallvec::{SmallVec, smallvec};
use sql::plan::CatalogView;
use sql_syntax::ast::Action;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::slice::from_ref;
use std::sync::Arc;

/// So many turns a statement's foreign keys have at most.
const TURNS_MAX: usize = 20_000;
/// After so many others have theirs.
const TURNS_AT_ONCE: usize = 16;

/// What a statement does to tables: to the one that it names first.
pub(crate) struct Change {
    pub(crate) tables: Vec<Changed>,
    /// What it was made of.
    pub(crate) expectations: Vec<Expectation>,
    /// Whether it is committed by itself.
    pub(crate) commits_alone: bool,
    /// References to keys that have gone, which must not be there in the end.
    left: Vec<Left>,
    /// By foreign key: how many updates of its table are covered, and what they add and take away by the bytes of what that refers to.
    referring: BTreeMap<u32, (usize, AHashMap<Vec<u8>, BTreeMap<Vec<u8>, Diff>>)>,
}

/// A reference to a key that has gone.
#[derive(Clone)]
struct Left {
    reference: Arc<Reference>,
    key: Vec<u8>,
    /// Whether it may not be there even if the key is there again.
    restricts: bool,
}

/// A foreign key, and the bytes of a reference by it.
pub(crate) type Referring = (Arc<Reference>, Vec<u8>);

/// What a statement does to one table.
pub(crate) struct Changed {
    pub(crate) table: GlobalId,
    pub(crate) constraints: Arc<TableConstraints>,
    pub(crate) updates: Updates,
}

/// A row that goes, or becomes another.
struct Replaced<'u> {
    old: &'u [u8],
    new: Option<&'u [u8]>,
}

/// What a statement took away, and put in its place: after a run of old rows the new ones come in the same order. A statement, and
/// likewise what follows from it in one turn, either replaces all that it takes away or nothing.
fn replaced(updates: &Updates) -> impl Iterator<Item = Replaced<'_>> {
    let is_old = |at: usize| updates.get(at).1 < 0;
    let mut run = 0..0;
    (0..updates.len()).filter(move |at| is_old(*at)).map(move |at| {
        if !run.contains(&at) {
            run = at..(at..updates.len()).find(|at| !is_old(*at)).unwrap_or(updates.len());
        }
        let new = run.end + (at - run.start);
        let new = (new < updates.len() && !is_old(new)).then(|| updates.row(new));
        Replaced { old: updates.row(at), new }
    })
}

impl Change {
    pub(crate) fn of(
        table: GlobalId,
        constraints: Arc<TableConstraints>,
        updates: Updates,
        expectations: Vec<Expectation>,
    ) -> Change {
        Change {
            tables: vec![Changed { table, constraints, updates }],
            expectations,
            commits_alone: false,
            left: Vec::new(),
            referring: BTreeMap::new(),
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.tables.iter().all(|changed| changed.updates.is_empty())
    }

    fn add(&mut self, table: GlobalId, constraints: &Arc<TableConstraints>, updates: &Updates) {
        match self.tables.iter_mut().find(|changed| changed.table == table) {
            Some(changed) => changed.updates.extend(updates),
            None => {
                let (constraints, updates) = (Arc::clone(constraints), updates.clone());
                self.tables.push(Changed { table, constraints, updates });
            }
        }
    }

    /// What has become of rows of a foreign key's table that refer to these keys.
    fn that_refer<'c>(
        &'c mut self,
        reference: &Reference,
        child: &TableConstraints,
        keys: &'c [Vec<u8>],
    ) -> impl Iterator<Item = (&'c [u8], Diff)> {
        let changed = self.tables.iter().find(|changed| changed.table == reference.child);
        let (covered, by_key) = self.referring.entry(reference.key.oid).or_default();
        for updates in changed.iter().map(|changed| &changed.updates) {
            for at in std::mem::replace(covered, updates.len())..updates.len() {
                let (row, diff) = updates.get(at);
                let rows = by_key.entry(columns_of(child, &reference.key.columns, row)).or_default();
                let net = rows.entry(row.to_vec()).or_default();
                *net += diff;
                if *net == 0 {
                    rows.remove(row);
                }
            }
        }
        let rows = keys.iter().filter_map(|key| by_key.get(key)).flatten();
        rows.map(|(row, diff)| (row.as_slice(), *diff))
    }

    fn updates(&self, table: GlobalId) -> Option<&Updates> {
        self.tables.iter().find(|changed| changed.table == table).map(|changed| &changed.updates)
    }
}

/// The turn of a foreign key to do something about changes of rows that it refers to.
struct Turn {
    reference: Arc<Reference>,
    parent: Arc<TableConstraints>,
    updates: Arc<Updates>,
}

fn turns(parent: &Arc<TableConstraints>, updates: Updates) -> VecDeque<Turn> {
    let updates = Arc::new(updates);
    let turn = |reference: &Arc<Reference>| {
        let (reference, parent, updates) = (Arc::clone(reference), Arc::clone(parent), Arc::clone(&updates));
        Turn { reference, parent, updates }
    };
    parent.referenced.iter().map(turn).collect()
}

impl Session {
    /// Some collections, and the tables that a change of one may change as well.
    pub(crate) fn with_changed<'c>(&self, collections: &'c [GlobalId], table: GlobalId) -> Cow<'c, [GlobalId]> {
        let published = self.published();
        let (mut found, mut at): (SmallVec<[GlobalId; 4]>, usize) = (smallvec![table], 0);
        while let Some(parent) = found.get(at) {
            for reference in published.tables.get(parent).iter().flat_map(|known| &known.constraints.referenced) {
                if reference.acts() && !found.contains(&reference.child) {
                    found.push(reference.child);
                }
            }
            at += 1;
        }
        match &found[1..] {
            [] => Cow::Borrowed(collections),
            children => Cow::Owned([collections, children].concat()),
        }
    }

    /// Steps 1 and 2.
    pub(crate) async fn follow(
        &mut self,
        change: &mut Change,
        locked_before: usize,
        looks: Looks,
    ) -> Result<Taken, AdapterError> {
        let Some(read_ts) = change.expectations.first().map(|expected| expected.read_ts) else {
            return Ok(Taken::Nothing);
        };
        let [Changed { constraints, updates, .. }] = change.tables.as_slice() else {
            return Err(AdapterError::internal("what follows from a change is added to it once"));
        };
        let locked = updates.len();
        // As in PostgreSQL the foreign keys that refer to a table have their turns in the order of their making, and what follows from what
        // they do comes after those that are waiting.
        let mut turns = turns(constraints, updates.clone());
        let mut count = 0;
        while let Some(Turn { reference, parent, updates }) = turns.pop_front() {
            self.interrupt().check()?;
            count += 1;
            if count > TURNS_MAX {
                let message = "foreign keys change each other's rows without end";
                return Err(AdapterError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
            }
            if count % TURNS_AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
            let left_before = change.left.len();
            let changed = self.act(change, (&reference, &parent, &updates), read_ts).await?;
            if self.awaits_what_leaves(change, left_before, read_ts).await? {
                return Ok(Taken::Waited);
            }
            if let Some(updates) = changed {
                let child = self.known(reference.child)?;
                change.add(reference.child, &child, &updates);
                turns.extend(self::turns(&child, updates));
            }
        }
        let mut taken = Taken::Nothing;
        // Those of the table itself are locked, unless there are more of them now.
        let first = usize::from(change.tables[0].updates.len() == locked);
        for Changed { table, constraints, updates } in &change.tables[first..] {
            taken = taken.max(self.lock_touched(*table, locked_before, constraints, updates, looks).await?);
        }
        Ok(taken)
    }

    /// Looks for rows that keep others from going, before what comes after that is looked at. Error 23503; but if all that are in the way
    /// are about to go, true after it is known what has become of one of them.
    async fn awaits_what_leaves(
        &mut self,
        change: &mut Change,
        from: usize,
        read_ts: Timestamp,
    ) -> Result<bool, AdapterError> {
        let is_due = |left: &&Left| left.restricts || !self.transaction.is_deferred(&left.reference);
        let left = change.left[from..].iter().filter(is_due).cloned().collect();
        let found = self.find_orphan(Asked { new: Vec::new(), left }, Some(change)).await?;
        let Some(orphan) = found else { return Ok(false) };
        // Keys are looked at when a row is written, before what refers to it.
        if let Some(twice) = self.first_twice(change).await? {
            return Err(twice);
        }
        let (table, child) = (orphan.reference.child, self.known(orphan.reference.child)?);
        let key = BTreeMap::from([(orphan.key.clone(), (Action::NoAction, None))]);
        let rows = self.rows_that_refer(change, &orphan.reference, &child, &key, read_ts).await?;
        let (owner, mut locks) = (self.transaction.locks(&self.locks), Vec::new());
        for (row, ..) in &rows {
            let mut gone = Updates::new();
            gone.push(row, -1);
            let of_row = touched(table, &child, &gone);
            if !of_row.iter().any(|(what, _)| owner.is_leaving(what)) {
                return Err(self.orphan(&orphan));
            }
            locks.extend(of_row.into_iter().map(|(what, _)| (what, Strength::KeyShare)));
        }
        if locks.is_empty() {
            return Err(self.orphan(&orphan));
        }
        self.lock(&locks).await?;
        Ok(true)
    }

    /// 23505 of a row that is changed, if there is one.
    async fn first_twice(&mut self, change: &Change) -> Result<Option<AdapterError>, AdapterError> {
        for Changed { table, constraints, updates } in &change.tables {
            let of_key = |(place, key): (usize, &CountedKey)| {
                let new = net_keys(constraints, key, updates).into_iter().filter(|(_, diff)| *diff > 0);
                new.map(|(bytes, _)| (place, key.oid, bytes)).collect::<Vec<_>>()
            };
            let new: Vec<_> = constraints.keys.iter().enumerate().flat_map(of_key).collect();
            let asked = new.iter().map(|(_, oid, bytes)| (*oid, bytes.clone())).collect();
            let counts = self.counts(*table, asked, Some(change)).await?;
            let places = new.iter().map(|(place, ..)| *place).zip(counts);
            let after: AHashMap<(usize, Vec<u8>), Diff> =
                places.map(|(place, ((_, bytes), count))| ((place, bytes), count)).collect();
            let copies_after = |place: usize, key: &[u8]| after.get(&(place, key.to_vec())).copied().unwrap_or(0);
            if let Some(duplicate) = first_duplicate(*table, constraints, updates, copies_after) {
                return Ok(Some(self.duplicate(&duplicate)));
            }
        }
        Ok(None)
    }

    fn known(&self, table: GlobalId) -> Result<Arc<TableConstraints>, AdapterError> {
        let known = self.published().tables.get(&table).map(|table| Arc::clone(&table.constraints));
        known.ok_or(AdapterError::Stale)
    }

    /// What a foreign key does about changes of rows that it refers to: the changes of those that refer to them.
    async fn act(
        &mut self,
        change: &mut Change,
        (reference, parent, updates): (&Arc<Reference>, &TableConstraints, &Updates),
        read_ts: Timestamp,
    ) -> Result<Option<Updates>, AdapterError> {
        let Some(key) = parent.key(reference.parent_key) else { return Err(AdapterError::Stale) };
        // By the bytes under which those that refer to it are found: what is done about them.
        let mut found: BTreeMap<Vec<u8>, (Action, Option<Vec<u8>>)> = BTreeMap::new();
        for Replaced { old, new } in replaced(updates) {
            let Some(gone) = key.of(&parent.types, old) else { continue };
            let comes = new.map(|new| key.of(&parent.types, new));
            if comes.as_ref().is_some_and(|comes| comes.as_ref() == Some(&gone)) {
                continue;
            }
            let action = if new.is_some() { reference.foreign.on_update } else { reference.foreign.on_delete };
            if matches!(action, Action::NoAction | Action::Restrict) {
                if let Some(gone) = reference.to_child(&gone) {
                    let (reference, key) = (Arc::clone(reference), gone.into_owned());
                    change.left.push(Left { reference, key, restricts: action == Action::Restrict });
                }
                continue;
            }
            // A row may be stored in other words than its key: char(n) is with its blanks.
            let Some(stored) = reference.to_child(&columns_of(parent, &reference.parent_columns, old)).map(Into::into)
            else {
                continue;
            };
            let new = match (action, new) {
                (Action::Cascade, Some(new)) => {
                    let new = columns_of(parent, &reference.parent_columns, new);
                    let new = reference.to_child(&new).ok_or_else(out_of_range)?;
                    Some(self.fitted(reference, &new)?)
                }
                _ => None,
            };
            found.insert(stored, (action, new));
        }
        if found.is_empty() {
            return Ok(None);
        }
        let child = self.known(reference.child)?;
        let rows = self.rows_that_refer(change, reference, &child, &found, read_ts).await?;
        if rows.is_empty() {
            return Ok(None);
        }
        let (defaults, mut step) = (self.defaults(reference, &child)?, Updates::new());
        for (row, copies, (action, new)) in rows {
            let deletes = *action == Action::Cascade && new.is_none();
            for _ in 0..copies {
                step.push(&row, -1);
                if !deletes {
                    let values = match (action, new) {
                        (Action::Cascade, Some(new)) => Some(new),
                        (Action::SetDefault, _) => Some(&defaults),
                        _ => None,
                    };
                    push_with_columns(&mut step, &row, &child, &reference.key.columns, values.map(Vec::as_slice))?;
                }
            }
        }
        let published = self.published();
        let item = published.state.item(reference.child).ok_or(AdapterError::Stale)?;
        let shows = || self.may_select(reference.child);
        let info = self.info(self.shared.oracle.known_ts());
        child.check_rows(&self.shared.engine, &info, &step, self.wording(&item.name, &shows))?;
        Ok(Some(step))
    }

    /// Values as the columns of a foreign key take them. Errors: 22001 for one that is too long.
    fn fitted(&self, reference: &Reference, values: &[u8]) -> Result<Vec<u8>, AdapterError> {
        let child = self.known(reference.child)?;
        let (mut rest, mut fitted) = (values, Vec::with_capacity(values.len()));
        for column in reference.key.columns.iter().map(|column| &child.desc.columns[*column]) {
            let bytes = skip_datum(&mut rest, &column.data_type);
            match read_datum(&mut { bytes }, &column.data_type, &mut Vec::new()) {
                Datum::Text(text) => {
                    let text = fit_text(&column.ty, &text, LengthRule::Assign)?;
                    write_datum(&mut fitted, &column.data_type, &Datum::Text(text))?;
                }
                _ => fitted.extend_from_slice(bytes),
            }
        }
        Ok(fitted)
    }

    /// The rows that refer to keys, as the statement has left them so far, with how often each is there. That they are all is expected
    /// from here on.
    async fn rows_that_refer<'f>(
        &mut self,
        change: &mut Change,
        reference: &Reference,
        child: &Arc<TableConstraints>,
        found: &'f BTreeMap<Vec<u8>, (Action, Option<Vec<u8>>)>,
        read_ts: Timestamp,
    ) -> Result<Vec<(Vec<u8>, Diff, &'f (Action, Option<Vec<u8>>))>, AdapterError> {
        let (published, columns, table) = (self.published(), &reference.key.columns, reference.child);
        let keys: Vec<Vec<u8>> = found.keys().cloned().collect();
        let index = reference.index.and_then(|id| published.index_on(table, id));
        let index = index.filter(|index| index.handle.stopped().is_none());
        let of = |row: &[u8]| found.get(&columns_of(child, columns, row));
        let mut rows: BTreeMap<Vec<u8>, Diff> = BTreeMap::new();
        let mut add = |row: &[u8], diff: Diff| {
            if of(row).is_some() {
                *rows.entry(row.to_vec()).or_default() += diff;
            }
        };
        let layer = index.and_then(|index| self.transaction.layer(table, index));
        let has_own = self.transaction.written_to(table).is_some();
        match index.filter(|_| !has_own || layer.is_some()) {
            Some(index) => {
                let (types, width) = (Arc::clone(&child.types), columns.len());
                let looked = Looked { index: Arc::clone(index), types, width, keys: keys.clone() };
                let all = match self.interrupt().guard(looked.rows(read_ts, layer.as_ref())).await? {
                    // The index was made after the transaction had begun to read.
                    Err(ComputeError::SinceAdvanced { .. }) => return Err(conflict()),
                    all => all?,
                };
                all.iter().for_each(|(row, copies)| add(row, *copies));
                if !self.reads_anew() {
                    self.transaction.reads().note_rows(table, looked);
                }
            }
            // The index is not there yet: the foreign key was made by the same transaction.
            None => {
                if !published.created.contains(&table) {
                    let (persist, all) = (self.shared.persist.clone(), AHashSet::from_iter(keys.iter().cloned()));
                    let (child, columns) = (Arc::clone(child), columns.clone());
                    let read = ore::task::spawn_on(&self.shared.adhoc, "rows that refer", async move {
                        let mut rows = Updates::new();
                        for some in persist.snapshot(table.into(), read_ts)? {
                            let some = some?;
                            let refers = |row: &[u8]| all.contains(&columns_of(&child, &columns, row));
                            some.iter().filter(|(row, _)| refers(row)).for_each(|(row, diff)| rows.push(row, diff));
                        }
                        Ok::<Updates, PersistError>(rows)
                    });
                    let read = read.await.map_err(|error| AdapterError::internal(error.to_string()))?;
                    read?.iter().for_each(|(row, copies)| add(row, copies));
                }
                let own = self.transaction.written_to(table).into_iter().flat_map(Updates::iter);
                own.for_each(|(row, diff)| add(row, diff));
                if !self.reads_anew() {
                    self.transaction.reads().note([table]);
                }
            }
        }
        change.that_refer(reference, child, &keys).for_each(|(row, diff)| add(row, diff));
        let range = KeyRange::new(Arc::clone(&child.types), columns.clone(), keys);
        change.expectations.push(Expectation { table, read_ts, rows: Some(Arc::new(range)) });
        let there = rows.into_iter().filter(|(_, copies)| *copies > 0);
        Ok(there.filter_map(|(row, copies)| of(&row).map(|what| (row, copies, what))).collect())
    }

    /// What SET DEFAULT gives the columns of a foreign key, in the order of the key that they refer to.
    fn defaults(&self, reference: &Reference, child: &TableConstraints) -> Result<Vec<u8>, AdapterError> {
        let (mut bytes, info) = (Vec::new(), self.info(self.shared.oracle.known_ts()));
        if reference.defaults.is_empty() {
            return Ok(bytes);
        }
        for column in &reference.key.columns {
            let stated = reference.foreign.columns.iter().position(|stated| stated == column);
            let default = stated.and_then(|stated| reference.defaults.get(stated));
            let default = default.ok_or_else(|| AdapterError::internal("a column has no default"))?;
            let value = self.evaluate_constant(default, Bound::none(), &info)?;
            write_datum(&mut bytes, &child.types[*column], &value)?;
        }
        Ok(bytes)
    }

    /// What a change newly refers to, as far as that is looked at before COMMIT; whoever else refers to the same has it in the same order.
    pub(crate) fn new_references(&self, change: &Change) -> Vec<Referring> {
        let mut all = Vec::new();
        for Changed { constraints, updates, .. } in &change.tables {
            for reference in &constraints.references {
                if change.commits_alone || !self.transaction.is_deferred(reference) {
                    let new = net_keys(constraints, &reference.key, updates).into_iter().filter(|(_, diff)| *diff > 0);
                    all.extend(new.map(|(key, _)| (Arc::clone(reference), key)));
                }
            }
        }
        all.sort_unstable_by(|(one, a), (other, b)| {
            (one.parent, one.parent_key, a).cmp(&(other.parent, other.parent_key, b))
        });
        all
    }

    /// Step 2, of what new references are to: keeps it from going. Who has to wait for that is told at once if it is not there: another
    /// may be about to insert it, and has not. Error 23503.
    pub(crate) async fn lock_referred(&mut self, change: &Change, new: &[Referring]) -> Result<(), AdapterError> {
        if new.is_empty() || new.len() > ROWS_MAX {
            return Ok(());
        }
        let (wanted, locks): (Vec<&Referring>, Vec<_>) =
            new.iter().filter_map(|it| Some((it, referred_to(&it.0, &it.1)?))).unzip();
        let (locks, owner) = (locks.as_flattened(), self.transaction.locks(&self.locks));
        let mut rest = locks;
        loop {
            rest = &rest[owner.take_free(rest).0..];
            let Some(busy) = rest.first() else { return Ok(()) };
            let referring = wanted[(locks.len() - rest.len()) / 2];
            let asked = Asked { new: vec![referring.clone()], left: Vec::new() };
            let orphan = self.find_orphan(asked, Some(change)).await?;
            orphan.map_or(Ok(()), |orphan| Err(self.orphan(&orphan)))?;
            self.lock(from_ref(busy)).await?;
        }
    }

    /// Step 4, of what a statement of a transaction has written: whatever is not deferred. Error 23503.
    pub(crate) async fn check_references(&mut self, mut new: Vec<Referring>) -> Result<(), AdapterError> {
        // The oldest foreign key is looked at first.
        new.sort_by_key(|(reference, _)| reference.key.oid);
        let orphan = self.find_orphan(Asked { new, left: Vec::new() }, None).await?;
        orphan.map_or(Ok(()), |orphan| Err(self.orphan(&orphan)))
    }

    /// SET CONSTRAINTS … IMMEDIATE: all that the transaction has deferred of foreign keys that are not any more. Error 23503.
    pub(crate) async fn check_deferred(&mut self) -> Result<(), AdapterError> {
        let (published, mut asked) = (self.published(), Asked::default());
        let tables: Vec<GlobalId> = self.transaction.written().copied().collect();
        for table in tables {
            let Some(constraints) = published.tables.get(&table).map(|table| &table.constraints) else { continue };
            for reference in &constraints.references {
                if self.transaction.is_deferred(reference) {
                    continue;
                }
                let own = self.transaction.own_keys(table, constraints, &reference.key).iter();
                let new = own.filter(|(_, diff)| **diff > 0).map(|(key, _)| (Arc::clone(reference), key.clone()));
                asked.new.extend(new);
            }
            for reference in &constraints.referenced {
                let key = constraints.key(reference.parent_key);
                let Some(key) = key.filter(|_| !self.transaction.is_deferred(reference)) else { continue };
                let own = self.transaction.own_keys(table, constraints, key).iter();
                let gone = own.filter(|(_, diff)| **diff < 0).filter_map(|(key, _)| reference.to_child(key));
                let left = |key: Cow<'_, [u8]>| {
                    let (reference, key) = (Arc::clone(reference), key.into_owned());
                    Left { reference, key, restricts: false }
                };
                asked.left.extend(gone.map(left));
            }
        }
        let orphan = self.find_orphan(asked, None).await?;
        orphan.map_or(Ok(()), |orphan| Err(self.orphan(&orphan)))
    }

    /// A reference to nothing among what is to be looked at. What the transaction has done to keys is known, but for a change `beside`.
    async fn find_orphan(&mut self, asked: Asked, beside: Option<&Change>) -> Result<Option<Orphan>, AdapterError> {
        if asked.new.is_empty() && asked.left.is_empty() {
            return Ok(None);
        }
        let mut wanted: BTreeMap<GlobalId, BTreeSet<(u32, Vec<u8>)>> = BTreeMap::new();
        let mut want = |table: GlobalId, oid: u32, key: &[u8]| {
            wanted.entry(table).or_default().insert((oid, key.to_vec()));
        };
        let new = asked.new.iter().map(|(reference, key)| (reference, key));
        for (reference, key) in new.chain(asked.left.iter().map(|left| (&left.reference, &left.key))) {
            if let Some(parent) = reference.to_parent(key) {
                want(reference.parent, reference.parent_key, &parent);
            }
        }
        asked.left.iter().for_each(|Left { reference, key, .. }| want(reference.child, reference.key.oid, key));
        let mut counts: AHashMap<(GlobalId, u32, Vec<u8>), Diff> = AHashMap::new();
        for (table, keys) in wanted {
            let keys: Vec<(u32, Vec<u8>)> = keys.into_iter().collect();
            for ((oid, key), count) in self.counts(table, keys, beside).await? {
                counts.insert((table, oid, key), count);
            }
        }
        let count = |table, oid, key: &[u8]| counts.get(&(table, oid, key.to_vec())).copied().unwrap_or(0);
        let is_there = |reference: &Reference, key: &[u8]| {
            let parent = reference.to_parent(key);
            parent.is_some_and(|key| count(reference.parent, reference.parent_key, &key) > 0)
        };
        for (reference, key) in asked.new {
            if !is_there(&reference, &key) {
                return Ok(Some(Orphan { reference, key, is_new: true }));
            }
        }
        for Left { reference, key, restricts } in asked.left {
            let is_again = !restricts && is_there(&reference, &key);
            if !is_again && count(reference.child, reference.key.oid, &key) > 0 {
                return Ok(Some(Orphan { reference, key, is_new: false }));
            }
        }
        Ok(None)
    }

    /// How often keys of a table are there: by what is committed, what the transaction has written, and a change beside that.
    async fn counts(
        &mut self,
        table: GlobalId,
        keys: Vec<(u32, Vec<u8>)>,
        beside: Option<&Change>,
    ) -> Result<Vec<((u32, Vec<u8>), Diff)>, AdapterError> {
        let published = self.published();
        let committed = match published.created.contains(&table) {
            true => vec![0; keys.len()],
            false => self.probe(table, keys.clone()).await?.counts,
        };
        let constraints = self.known(table)?;
        // Before its first write a transaction has done nothing.
        let has_written = beside.is_none() || !self.commits_alone();
        let mut nets: BTreeMap<u32, NetKeys> = BTreeMap::new();
        let mut own = |oid: u32, key: &[u8]| -> Diff {
            let Some(of) = constraints.counted(oid) else { return 0 };
            let known = match has_written {
                true => self.transaction.own_keys(table, &constraints, of).get(key).copied().unwrap_or(0),
                false => 0,
            };
            let updates = beside.and_then(|change| change.updates(table));
            let net = updates.map(|updates| nets.entry(oid).or_insert_with(|| net_keys(&constraints, of, updates)));
            known + net.and_then(|net| net.get(key)).copied().unwrap_or(0)
        };
        let with_own = |((oid, key), count): ((u32, Vec<u8>), Diff)| {
            let count = count + own(oid, &key);
            ((oid, key), count)
        };
        Ok(keys.into_iter().zip(committed).map(with_own).collect())
    }

    /// 23503.
    pub(crate) fn orphan(&self, found: &Orphan) -> AdapterError {
        let published = self.published();
        let of = if found.is_new { found.reference.child } else { found.reference.parent };
        let are_there =
            [found.reference.child, found.reference.parent].iter().all(|id| published.state.item(*id).is_some());
        let Some(item) = published.state.item(of).filter(|_| are_there) else { return conflict() };
        let shows = || self.may_select(of);
        orphan(published.state.as_ref(), found, self.wording(&item.name, &shows)).into()
    }
}

/// What is to be looked at.
#[derive(Default)]
struct Asked {
    /// References that are new.
    new: Vec<Referring>,
    left: Vec<Left>,
}

/// Some columns of a row, as they are stored.
fn columns_of(constraints: &TableConstraints, columns: &[usize], row: &[u8]) -> Vec<u8> {
    let slices = split(row, &constraints.types);
    columns.iter().flat_map(|column| slices[*column]).copied().collect()
}

/// Adds a row that has other values, or NULL, in some of its columns.
fn push_with_columns(
    updates: &mut Updates,
    row: &[u8],
    constraints: &TableConstraints,
    columns: &[usize],
    values: Option<&[u8]>,
) -> Result<(), SqlError> {
    let types: Vec<_> = columns.iter().map(|column| constraints.types[*column].clone()).collect();
    let values = values.map(|values| split(values, &types));
    let slices = split(row, &constraints.types);
    updates.push_with(1, |out| {
        for (at, slice) in slices.iter().enumerate() {
            match (columns.iter().position(|column| *column == at), &values) {
                (None, _) => out.extend_from_slice(slice),
                (Some(place), Some(values)) => out.extend_from_slice(values[place]),
                (Some(_), None) => {
                    write_datum(out, &constraints.types[at], &Datum::Null)
                        .map_err(|error| SqlError::internal(error.to_string()))?;
                }
            }
        }
        Ok(())
    })
}

fn out_of_range() -> AdapterError {
    AdapterError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range")
}
