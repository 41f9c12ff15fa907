//! INSERT … ON CONFLICT: which rows are inserted, which are in conflict, and what becomes of those.
//!
//! 1. The committer says which keys of the proposed rows are taken. If none is, this is an INSERT.
//! 2. DO UPDATE reads the rows that have them: by an index on the key if there is one, else all rows of the table.
//! 3. The proposed rows are taken in their order. One whose key is free is inserted; one whose key is taken does nothing, or
//!    updates the row that has it.
//! 4. The commit is conditional: keys that were free are claimed as by any INSERT, and of rows that were in conflict nothing
//!    may have changed. Otherwise all begins again.

use crate::error::AdapterError;
use crate::response::{Chunk, Rows};
use crate::session::Session;
use crate::status::Status;
use crate::transaction::{RETRIES_MAX, conflict};
use crate::writing::insert::push_batch;
use ahash::{AHashMap, AHashSet};
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::DataType;
use committer::constraint::{CountedKey, NetKeys, TableConstraints};
use committer::expectations::{Expectation, KeyRange};
use compute_client::peek::{Bound, Looked, bind as bind_expr};
use compute_client::plan::IndexInfo;
use datafusion::logical_expr::Expr;
use engine::error::SqlError;
use repr::row::RowCodec;
use repr::sqlstate::SqlState;
use repr::{GlobalId, Timestamp, Updates};
use sql::plan::{ConflictUpdate, InsertPlan, OnConflictPlan};
use std::slice::from_ref;
use std::sync::Arc;

/// Keys that are looked up one by one in an index; for more all rows are read.
const LOOKUPS_MAX: usize = 1_000;

/// What an INSERT … ON CONFLICT does.
pub(crate) struct Resolved {
    /// What it writes.
    pub(crate) updates: Updates,
    /// Rows that were inserted or updated.
    pub(crate) count: u64,
    /// What must not change until that is committed.
    pub(crate) expectations: Vec<Expectation>,
}

/// A key of a proposed row: which of the arbiters it is of, and its bytes.
type Key = (usize, Vec<u8>);

/// What becomes of a proposed row.
enum Fate {
    Inserted,
    Nothing,
    /// In conflict with the row that has this key.
    Conflicts(Key),
}

impl Session {
    /// Decides what becomes of the rows that an INSERT proposes.
    pub(crate) async fn resolve_conflicts(
        &mut self,
        plan: &InsertPlan,
        on: &OnConflictPlan,
        proposed: &Updates,
        params: Bound<'_>,
    ) -> Result<Resolved, AdapterError> {
        let constraints = self.constraints_of(plan.table, &plan.name)?;
        // Those of DO UPDATE are over the same columns: one decides for all.
        let deciding = if on.update.is_some() { &on.arbiters[..1] } else { &on.arbiters };
        let arbiters: Option<Vec<CountedKey>> = deciding.iter().map(|oid| constraints.key(*oid).cloned()).collect();
        // The catalog has changed since the statement was planned.
        let arbiters = arbiters.ok_or_else(conflict)?;
        self.check_rows(plan.table, &plan.name, &constraints, &plan.desc, proposed)?;
        let keys: Vec<Vec<Key>> = proposed.iter().map(|(row, _)| keys_of(&constraints, &arbiters, row)).collect();
        let (mut taken, mut ts) = self.taken(plan, &constraints, &arbiters, &keys).await?;
        if on.update.is_none() && !self.commits_alone() && self.transaction.staged().is_none() {
            // What the committer says is of a time at which the transaction may not read yet.
            let written = self.with_changed(from_ref(&plan.table), plan.table);
            for _ in 0..RETRIES_MAX {
                let read_ts = self.time_to_write(&written).await?;
                if read_ts >= ts || !self.were_written(&[plan.table], read_ts) {
                    break;
                }
                (taken, ts) = self.taken(plan, &constraints, &arbiters, &keys).await?;
            }
        }
        let Some(update) = &on.update else {
            let fates = decide(&keys, |key| taken.contains(key));
            let fates = fates.into_iter().map(|fate| if let Fate::Conflicts(_) = fate { Fate::Nothing } else { fate });
            let expectations = self.expect(plan, &constraints, &arbiters, &taken, ts);
            let mut resolved = Resolved { updates: Updates::new(), count: 0, expectations };
            for ((row, _), fate) in proposed.iter().zip(fates) {
                if let Fate::Inserted = fate {
                    resolved.updates.push(row, 1);
                    resolved.count += 1;
                }
            }
            return Ok(resolved);
        };
        let (existing, ts) = self.rows_with(plan, update, &constraints, &arbiters, &taken).await?;
        let fates = decide(&keys, |key| existing.contains_key(&key.1));
        if fates.iter().any(|fate| matches!(fate, Fate::Nothing)) {
            return Err(twice());
        }
        let found: AHashSet<Key> = taken.into_iter().filter(|key| existing.contains_key(&key.1)).collect();
        let expectations = self.expect(plan, &constraints, &arbiters, &found, ts);
        let (updates, count) = self.update_conflicting(plan, update, proposed, &fates, &existing, params)?;
        Ok(Resolved { updates, count, expectations })
    }

    /// Step 1: the keys that are taken, by what is committed or by the transaction itself, and when that was so.
    async fn taken(
        &mut self,
        plan: &InsertPlan,
        constraints: &Arc<TableConstraints>,
        arbiters: &[CountedKey],
        keys: &[Vec<Key>],
    ) -> Result<(AHashSet<Key>, Timestamp), AdapterError> {
        let distinct: AHashSet<Key> = keys.iter().flatten().cloned().collect();
        let distinct: Vec<Key> = distinct.into_iter().collect();
        let is_new = self.published().created.contains(&plan.table);
        let (stored, ts) = match is_new || distinct.is_empty() {
            true => (vec![false; distinct.len()], self.now().await?),
            false => {
                let asked = distinct.iter().map(|(arbiter, key)| (arbiters[*arbiter].oid, key.clone())).collect();
                let probed = self.probe(plan.table, asked).await?;
                (probed.counts.iter().map(|count| *count > 0).collect(), probed.ts)
            }
        };
        let in_block = !self.commits_alone();
        let mut taken = AHashSet::new();
        for (key, stored) in distinct.into_iter().zip(stored) {
            let own = match in_block {
                true => {
                    let own: &NetKeys = self.transaction.own_keys(plan.table, constraints, &arbiters[key.0]);
                    own.get(&key.1).copied().unwrap_or(0)
                }
                false => 0,
            };
            if i64::from(stored) + own > 0 {
                taken.insert(key);
            }
        }
        Ok((taken, ts))
    }

    /// Step 2: the rows that have these keys, by key, and when that was so.
    async fn rows_with(
        &mut self,
        plan: &InsertPlan,
        update: &ConflictUpdate,
        constraints: &TableConstraints,
        arbiters: &[CountedKey],
        taken: &AHashSet<Key>,
    ) -> Result<(AHashMap<Vec<u8>, Vec<u8>>, Timestamp), AdapterError> {
        let written = self.with_changed(from_ref(&plan.table), plan.table);
        let read_ts = self.time_to_write(&written).await?;
        let mut existing = AHashMap::new();
        let Some(key) = arbiters.first() else { return Ok((existing, read_ts)) };
        if taken.is_empty() {
            return Ok((existing, read_ts));
        }
        let wanted: AHashSet<&Vec<u8>> = taken.iter().map(|(_, key)| key).collect();
        let mut rows = Updates::new();
        let lookup = self.select_exec(update.lookup.clone());
        let by_index = self.may_peek(&lookup) && wanted.len() <= LOOKUPS_MAX;
        if by_index {
            let types: Vec<DataType> = key.columns.iter().map(|column| constraints.types[*column].clone()).collect();
            for wanted in &wanted {
                let values = key.values(&constraints.types, wanted);
                let found = self.select(&lookup, Bound { values: &values, types: &types }, read_ts)?;
                collect_rows(found, plan, &mut rows).await?;
            }
        } else {
            let scan = self.select_exec(update.scan.clone());
            let mut all = self.select(&scan, Bound::none(), read_ts)?;
            while let Some(some) = next_rows(&mut all, plan).await? {
                let is_wanted = |row: &[u8]| key.of(&constraints.types, row).is_some_and(|key| wanted.contains(&key));
                some.iter().filter(|(row, _)| is_wanted(row)).for_each(|(row, diff)| rows.push(row, diff));
            }
        }
        for (row, _) in rows.iter() {
            if let Some(bytes) = key.of(&constraints.types, row) {
                existing.insert(bytes, row.to_vec());
            }
        }
        if !self.commits_alone() && wanted.iter().any(|key| !existing.contains_key(*key)) {
            // Taken by what was committed after the transaction began to read.
            return Err(conflict());
        }
        Ok((existing, read_ts))
    }

    /// Step 4: that the rows with these keys stay as they are.
    fn expect(
        &mut self,
        plan: &InsertPlan,
        constraints: &TableConstraints,
        arbiters: &[CountedKey],
        keys: &AHashSet<Key>,
        read_ts: Timestamp,
    ) -> Vec<Expectation> {
        if !self.reads_anew() {
            for (at, arbiter) in arbiters.iter().enumerate() {
                let keys = keys.iter().filter(|(of, _)| *of == at).map(|(_, key)| key.clone()).collect();
                self.note_keys(plan.table, constraints, arbiter, keys);
            }
        }
        let read_ts = match self.reads_anew() {
            true => read_ts,
            false => self.transaction.read_ts(&self.shared, read_ts),
        };
        let of_arbiter = |(at, arbiter): (usize, &CountedKey)| {
            let keys: Vec<Vec<u8>> = keys.iter().filter(|(of, _)| *of == at).map(|(_, key)| key.clone()).collect();
            if keys.is_empty() {
                return None;
            }
            let range = || KeyRange::new(Arc::clone(&constraints.types), arbiter.columns.clone(), keys);
            let rows = arbiter.is_exact().then(|| Arc::new(range()));
            Some(Expectation { table: plan.table, read_ts, rows })
        };
        arbiters.iter().enumerate().filter_map(of_arbiter).collect()
    }

    /// Notes that rows with these keys were read, by an index of the keys if there is one.
    fn note_keys(&mut self, table: GlobalId, constraints: &TableConstraints, arbiter: &CountedKey, keys: Vec<Vec<u8>>) {
        let (published, width) = (self.published(), arbiter.columns.len());
        let is_of = |index: &&Arc<IndexInfo>| index.key.iter().copied().eq(arbiter.columns.iter().copied().map(Some));
        match published.indexes_on(table).iter().find(is_of).filter(|_| arbiter.is_exact()) {
            _ if keys.is_empty() => {}
            Some(index) => {
                let (index, types) = (Arc::clone(index), Arc::clone(&constraints.types));
                let looked = Looked { index, types, width, keys };
                self.transaction.reads().note_rows(table, looked);
            }
            None => self.transaction.reads().note([table]),
        }
    }

    /// Step 3 of DO UPDATE.
    #[expect(clippy::too_many_arguments, reason = "the rows, those that they meet, and where they come from")]
    fn update_conflicting(
        &self,
        plan: &InsertPlan,
        update: &ConflictUpdate,
        proposed: &Updates,
        fates: &[Fate],
        existing: &AHashMap<Vec<u8>, Vec<u8>>,
        params: Bound<'_>,
    ) -> Result<(Updates, u64), AdapterError> {
        let pairs = proposed.iter().zip(fates).filter_map(|((row, _), fate)| match fate {
            Fate::Conflicts((_, key)) => Some((existing[key].as_slice(), row)),
            _ => None,
        });
        let pairs: Vec<(&[u8], &[u8])> = pairs.collect();
        let (passes, new) = self.evaluate_update(plan, update, &pairs, params)?;
        let (mut updates, mut count) = (Updates::new(), 0);
        let (mut updated, mut pair, mut next) = (AHashSet::new(), 0, 0);
        for ((row, _), fate) in proposed.iter().zip(fates) {
            match fate {
                Fate::Nothing => continue,
                Fate::Inserted => updates.push(row, 1),
                Fate::Conflicts((_, key)) => {
                    pair += 1;
                    if !passes[pair - 1] {
                        continue;
                    }
                    if !updated.insert(key) {
                        return Err(twice());
                    }
                    updates.push(&existing[key], -1);
                    updates.push(new.row(next), 1);
                    next += 1;
                }
            }
            count += 1;
        }
        Ok((updates, count))
    }

    /// For pairs of a row that is there and one that was proposed: whether WHERE is true of them, and the rows that SET makes of
    /// those of which it is.
    fn evaluate_update(
        &self,
        plan: &InsertPlan,
        update: &ConflictUpdate,
        pairs: &[(&[u8], &[u8])],
        params: Bound<'_>,
    ) -> Result<(Vec<bool>, Updates), AdapterError> {
        let mut new = Updates::new();
        if pairs.is_empty() {
            return Ok((Vec::new(), new));
        }
        let internal = |error: &dyn std::fmt::Display| AdapterError::internal(error.to_string());
        let types: Vec<DataType> = plan.desc.columns.iter().map(|column| column.data_type.clone()).collect();
        let codec = RowCodec::new(&types)?;
        let mut columns = codec.decode(pairs.iter().map(|(old, _)| *old))?;
        columns.extend(codec.decode(pairs.iter().map(|(_, proposed)| *proposed))?);
        let options = RecordBatchOptions::new().with_row_count(Some(pairs.len()));
        let schema = Arc::clone(update.schema.inner());
        let batch = RecordBatch::try_new_with_options(schema, columns, &options).map_err(|error| internal(&error))?;
        let info = self.info(self.shared.oracle.known_ts());
        let evaluate = |expr: &Expr, batch: &RecordBatch| -> Result<ArrayRef, AdapterError> {
            let bound = bind_expr(expr.clone(), params)?;
            let physical = self.shared.engine.create_physical_expr(&bound, &update.schema, &info)?;
            let evaluated = physical.evaluate(batch).and_then(|value| value.into_array(batch.num_rows()));
            Ok(evaluated.map_err(SqlError::from)?)
        };
        let (passes, batch) = match &update.filter {
            None => (vec![true; pairs.len()], batch),
            Some(filter) => {
                let passes = evaluate(filter, &batch)?;
                let passes = passes.as_any().downcast_ref::<BooleanArray>();
                let passes = passes.ok_or_else(|| AdapterError::internal("WHERE is no condition"))?;
                let kept = filter_record_batch(&batch, passes).map_err(|error| internal(&error))?;
                ((0..pairs.len()).map(|at| passes.is_valid(at) && passes.value(at)).collect(), kept)
            }
        };
        if batch.num_rows() > 0 {
            let values: Vec<ArrayRef> =
                update.values.iter().map(|expr| evaluate(expr, &batch)).collect::<Result<_, _>>()?;
            let shows = || self.may_select(plan.table);
            push_batch(&mut new, &values, 1, &plan.desc, self.wording(&plan.name, &shows))?;
        }
        Ok((passes, new))
    }

    /// Whether a statement commits by itself, and not with others of a transaction.
    pub(crate) fn commits_alone(&self) -> bool {
        self.transaction.status == Status::Idle && self.transaction.is_fresh()
    }
}

/// The keys of a row that could be in conflict.
fn keys_of(constraints: &TableConstraints, arbiters: &[CountedKey], row: &[u8]) -> Vec<Key> {
    let key = |(at, arbiter): (usize, &CountedKey)| Some((at, arbiter.of(&constraints.types, row)?));
    arbiters.iter().enumerate().filter_map(key).collect()
}

/// Step 3: what becomes of rows with these keys. [`Fate::Nothing`] is that of a row in conflict with one before it.
fn decide(rows: &[Vec<Key>], is_taken: impl Fn(&Key) -> bool) -> Vec<Fate> {
    let mut inserted: AHashSet<&Key> = AHashSet::new();
    let decide = |keys: &Vec<Key>| -> Option<Fate> {
        keys.iter().find(|key| is_taken(key)).map(|key| Fate::Conflicts(key.clone()))
    };
    let mut fates = Vec::with_capacity(rows.len());
    for keys in rows {
        fates.push(match decide(keys) {
            _ if keys.iter().any(|key| inserted.contains(key)) => Fate::Nothing,
            Some(conflicts) => conflicts,
            None => {
                inserted.extend(keys);
                Fate::Inserted
            }
        });
    }
    fates
}

/// 21000.
fn twice() -> AdapterError {
    AdapterError::with_hint(
        SqlState::CARDINALITY_VIOLATION,
        "ON CONFLICT DO UPDATE command cannot affect row a second time",
        "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
    )
}

/// Adds all rows, as they are stored.
async fn collect_rows(mut rows: Rows, plan: &InsertPlan, out: &mut Updates) -> Result<(), AdapterError> {
    while let Some(some) = next_rows(&mut rows, plan).await? {
        out.extend(&some);
    }
    Ok(())
}

/// The next rows, as they are stored.
async fn next_rows(rows: &mut Rows, plan: &InsertPlan) -> Result<Option<Updates>, AdapterError> {
    let mut out = Updates::new();
    match rows.next(usize::MAX).await? {
        None => return Ok(None),
        Some(Chunk::Stored(stored)) => stored.rows().for_each(|row| out.push(row, 1)),
        Some(Chunk::Batch(batch, range)) => {
            let batch = batch.slice(range.start, range.len());
            crate::writing::insert::push_unchecked(&mut out, batch.columns(), 1, &plan.desc)?;
        }
    }
    Ok(Some(out))
}
