//! What a large write does to keys, worked out beside the committer, which then asks only for what may have changed since.
//!
//! 1. The committer is asked for a [`Watch`]: from then on it notes there which keys of the table its commits change.
//! 2. The keys of the write are sorted, and looked up in their index once that has everything from before the watch. What is not as it must
//!    be then is *doubtful*.
//! 3. At the commit, all keys are as they must be but for those that are doubtful, and those that have changed since.

use super::{CountedKey, TableConstraints};
use arrow::datatypes::DataType;
use compute_client::index::IndexHandle;
use parking_lot::Mutex;
use repr::updates::by_row;
use repr::{Diff, Timestamp, Updates};
use std::sync::Arc;

/// Keys in their order, each once, with how often a write adds it, less how often it takes it away.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyRun(Updates);

impl KeyRun {
    /// What updates do to a key.
    pub(crate) fn of(types: &[DataType], key: &CountedKey, updates: &Updates) -> KeyRun {
        let mut keys = Updates::with_capacity(updates.len(), updates.len() * 16);
        for (row, diff) in updates.iter() {
            // NULL is like no other.
            let _null = keys.push_with(diff, |out| key.append(types, row, out).ok_or(()));
        }
        let ascends = (1..keys.len()).all(|at| keys.row(at - 1) < keys.row(at));
        if ascends && keys.diffs().iter().all(|diff| *diff != 0) {
            return KeyRun(keys);
        }
        let mut run = Updates::with_capacity(keys.len(), keys.bytes());
        let sorted = by_row(keys.iter().collect());
        for equal in sorted.chunk_by(|one, other| one.0 == other.0) {
            let diff = equal.iter().map(|(_, diff)| diff).sum();
            if diff != 0 {
                run.push(equal[0].0, diff);
            }
        }
        KeyRun(run)
    }

    /// What becomes of a key, if anything does.
    pub(crate) fn get(&self, key: &[u8]) -> Option<Diff> {
        let (mut low, mut high) = (0, self.0.len());
        while low < high {
            let at = low + (high - low) / 2;
            match self.0.row(at).cmp(key) {
                std::cmp::Ordering::Less => low = at + 1,
                std::cmp::Ordering::Greater => high = at,
                std::cmp::Ordering::Equal => return Some(self.0.get(at).1),
            }
        }
        None
    }

    /// The keys, and what becomes of each.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], Diff)> {
        self.0.iter()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// A key that a commit has changed, or many of them, of the constraint with the oid beside it.
pub(crate) enum Changed {
    One(u32, Box<[u8]>),
    Many(u32, Arc<KeyRun>),
}

/// Which keys of a table commits have changed since a time.
pub(crate) struct Watch {
    /// The time: everything until then is durable.
    pub(crate) ts: Timestamp,
    /// The indexes that have the table's keys, by the oids of their constraints.
    pub(crate) indexes: Vec<(u32, Arc<IndexHandle>)>,
    pub(crate) changed: Arc<Mutex<Vec<Changed>>>,
}

/// The keys of one constraint that a large write is about.
pub(crate) struct LookedUp {
    pub(crate) oid: u32,
    pub(crate) run: Arc<KeyRun>,
    /// Where they were looked up.
    pub(crate) index: Option<Arc<IndexHandle>>,
    /// Places of those that are not as they must be.
    doubtful: Vec<usize>,
}

/// The keys of a large write.
pub struct LoadedKeys {
    pub(crate) keys: Vec<LookedUp>,
    changed: Arc<Mutex<Vec<Changed>>>,
}

impl LoadedKeys {
    /// Works out what a write does, and looks it up.
    pub(crate) async fn look_up(table: &TableConstraints, updates: &Updates, watch: Watch) -> LoadedKeys {
        let Watch { ts, indexes, changed } = watch;
        let mut keys = Vec::new();
        for key in table.all_counted() {
            let run = Arc::new(KeyRun::of(&table.types, key, updates));
            let index = indexes.iter().find(|(oid, _)| *oid == key.oid).map(|(_, index)| Arc::clone(index));
            let mut found = LookedUp { oid: key.oid, run, index: None, doubtful: Vec::new() };
            if let Some(index) = index {
                index.wait_until(|index| index.all_complete(ts)).await;
                found.look_up(index);
            }
            keys.push(found);
        }
        LoadedKeys { keys, changed }
    }

    /// The keys of a constraint that have to be looked at again, one by one.
    pub(crate) fn again<E>(&self, of: &LookedUp, mut look: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        of.doubtful.iter().try_for_each(|at| look(of.run.0.row(*at)))?;
        for changed in self.changed.lock().iter() {
            match changed {
                Changed::One(oid, key) if *oid == of.oid && of.run.get(key).is_some() => look(key)?,
                Changed::Many(oid, run) if *oid == of.oid => both(&of.run, run).try_for_each(&mut look)?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// The keys that two runs have both.
pub(crate) fn both<'r>(one: &'r KeyRun, other: &'r KeyRun) -> impl Iterator<Item = &'r [u8]> {
    let (few, many) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    few.iter().map(|(key, _)| key).filter(|key| many.get(key).is_some())
}

impl LookedUp {
    fn look_up(&mut self, index: Arc<IndexHandle>) {
        let is_empty = index.size().0 == 0;
        let is_right = |key: &[u8], diff| {
            let before = if is_empty { 0 } else { index.count(key).0 };
            matches!(before + diff, 0 | 1)
        };
        let doubtful = self.run.iter().enumerate().filter(|(_, (key, diff))| !is_right(key, *diff)).map(|(at, _)| at);
        self.doubtful = doubtful.collect();
        self.index = Some(index);
    }
}

#[cfg(test)]
mod tests {
    use super::{KeyRun, both};
    use crate::constraint::CountedKey;
    use arrow::datatypes::DataType;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};
    use repr::row::write_datum;
    use repr::{Datum, Diff, PgType, RelationDesc, Updates};
    use sql::plan::constraint::TableKey;
    use std::collections::BTreeMap;

    #[test]
    fn a_run_is_what_updates_do_to_each_key_in_their_order() {
        let columns = [("a", PgType::Int4), ("b", PgType::Text)];
        let desc = RelationDesc::new(columns.map(|(name, ty)| (name.to_owned(), ty, true)));
        let types: Vec<DataType> = desc.columns.iter().map(|column| column.data_type.clone()).collect();
        for seed in 0..200 {
            let mut random = SmallRng::seed_from_u64(seed);
            let columns = if random.random() { vec![0, 1] } else { vec![1] };
            let key = CountedKey::new(TableKey { oid: 1, name: "k".to_owned(), columns, index: None }, &desc);
            let mut run = |count: i32, ascends: bool| {
                let (mut updates, mut expected) = (Updates::new(), BTreeMap::<Vec<u8>, Diff>::new());
                for at in 0..count {
                    let a = if ascends { at } else { random.random_range(0..20) };
                    let text = format!("{}{a:030}", "x".repeat(usize::try_from(a % 3).expect("positive")));
                    let b = if a % 7 == 3 { Datum::Null } else { Datum::Text(text.into()) };
                    let diff = if ascends { 1 } else { random.random_range(-1..=1) };
                    let mut row = Vec::new();
                    for (datum, ty) in [Datum::Int4(a), b].iter().zip(&types) {
                        write_datum(&mut row, ty, datum).expect("it is of that type");
                    }
                    if let Some(bytes) = key.of(&types, &row) {
                        *expected.entry(bytes).or_default() += diff;
                    }
                    updates.push(&row, diff);
                }
                expected.retain(|_, diff| *diff != 0);
                let run = KeyRun::of(&types, &key, &updates);
                let found: Vec<_> = run.iter().map(|(key, diff)| (key.to_vec(), diff)).collect();
                assert_eq!(found, expected.clone().into_iter().collect::<Vec<_>>(), "seed {seed}");
                for (bytes, diff) in &expected {
                    assert_eq!(run.get(bytes), Some(*diff));
                    assert_eq!(run.get(&[bytes, &[0][..]].concat()), None);
                }
                (run, expected)
            };
            let ((one, of_one), (other, of_other)) = (run(40, seed % 3 == 0), run(15, false));
            let common: Vec<_> = of_one.into_keys().filter(|key| of_other.contains_key(key)).collect();
            assert_eq!(both(&one, &other).map(<[u8]>::to_vec).collect::<Vec<_>>(), common, "seed {seed}");
        }
    }
}
