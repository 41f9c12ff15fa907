//! Answers a SELECT from the snapshots of one index, on the caller's thread.
//!
//! 1. The caller chooses `as_of` and asks [`open`] for the snapshots of the workers that own the keys; one that lags is
//!    waited for.
//! 2. Errors of the collection are looked at first: any error as of `as_of` is the answer.
//! 3. [`PeekRows`] then walks the hits. Where only stored columns are asked for, its rows go to the wire as they are;
//!    [`evaluate`] runs everything else (filters, expressions, ORDER BY) over Arrow batches.
//!
//! # Invariants
//! - Whoever holds a [`PeekRows`] holds its snapshots: compaction and DROP cannot take them away.
//! - A row's multiplicity is positive, or the read fails: never a wrong answer.

use crate::error::{ComputeError, decode_error};
use crate::plan::{Access, IndexInfo, KeySource, KeyValue, Output, PeekPlan};
use crate::uncommitted::Layer;
use arrangement::snapshot::Snapshot;
use arrangement::snapshot::cursor::{self, Bounds, Hit, Hits, Walk};
use arrangement::spine::RowBatch;
use arrow::array::{AsArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{SortColumn, SortOptions};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ParamValues;
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::PhysicalExpr;
use engine::{Engine, SessionInfo, value};
use pgrepr::length::repadded;
use repr::row::{RowCodec, is_key_exact, write_key_datum};
use repr::{Datum, Diff, Timestamp};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// Hits taken from a walk at a time, unless more rows are asked for.
const HITS_CHUNK: usize = 1_024;
/// Hits taken from a walk at a time at the most.
const HITS_MAX: usize = 8_192;

/// Encoded keys; usually one.
type KeyList = SmallVec<[Vec<u8>; 1]>;

/// Which keys of which workers a peek reads.
#[derive(Debug)]
enum Keys {
    Scan,
    /// Whole keys.
    Exact(KeyList),
    /// First columns of keys.
    Prefix(KeyList),
}

/// The values of a statement's parameters.
#[derive(Clone, Copy, Debug)]
pub struct Bound<'a> {
    /// The values.
    pub values: &'a [Datum<'static>],
    /// As which types the plan knows them.
    pub types: &'a [DataType],
}

impl Bound<'_> {
    /// No parameters.
    pub fn none() -> Bound<'static> {
        Bound { values: &[], types: &[] }
    }
}

/// The rows of a peek, pulled a chunk at a time. A clone goes on from where the original stands, over the same snapshots.
#[derive(Clone)]
pub struct PeekRows {
    plan: Arc<PeekPlan>,
    as_of: Timestamp,
    /// What is still to be read: pairs of a snapshot and the keys in it.
    sources: SmallVec<[Source; 1]>,
    source: usize,
    hits: Hits,
    hit: usize,
    /// Copies of the current hit that were handed out already.
    copies: i64,
    skip: usize,
    remaining: usize,
    /// A chunk in which rows are repeated or left out: one entry per row, all of the current source.
    ready: Vec<Hit>,
}

/// Some rows of a peek, all in one snapshot.
pub struct PeekChunk<'a> {
    plan: &'a Arc<PeekPlan>,
    snapshot: &'a Arc<Snapshot>,
    hits: &'a [Hit],
}

/// The same, for somebody else: it holds its snapshot.
#[derive(Clone)]
pub struct OwnedPeekChunk {
    plan: Arc<PeekPlan>,
    snapshot: Arc<Snapshot>,
    hits: Vec<Hit>,
}

impl OwnedPeekChunk {
    /// The rows.
    pub fn chunk(&self) -> PeekChunk<'_> {
        PeekChunk { plan: &self.plan, snapshot: &self.snapshot, hits: &self.hits }
    }
}

impl<'a> PeekChunk<'a> {
    /// The types of the stored columns.
    pub fn stored_types(&self) -> &'a [DataType] {
        &self.plan.row_types
    }

    /// For each column of the result, the stored column; empty unless the plan [`PeekPlan::is_direct`].
    pub fn projection(&self) -> &'a [usize] {
        match &self.plan.output {
            Output::Columns(columns) => columns,
            Output::Expressions(..) => &[],
        }
    }

    /// The stored rows, duplicates repeated.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let batches = self.snapshot.oks.as_slice();
        self.hits.iter().map(move |hit| cursor::value(batches, hit))
    }

    /// The rows from the one at `start` on.
    pub fn to_owned_from(&self, start: usize) -> OwnedPeekChunk {
        let (plan, snapshot) = (Arc::clone(self.plan), Arc::clone(self.snapshot));
        OwnedPeekChunk { plan, snapshot, hits: self.hits[start..].to_vec() }
    }

    /// The stored rows as an Arrow batch.
    fn decode(&self, codec: &RowCodec, schema: &SchemaRef) -> Result<RecordBatch, ComputeError> {
        let columns = codec.decode(self.rows()).map_err(engine_error)?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.hits.len()));
        RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(engine_error)
    }
}

#[derive(Clone)]
struct Source {
    snapshot: Arc<Snapshot>,
    walk: Option<Box<Walk>>,
}

/// What [`open`] found.
pub enum Opened {
    /// The rows.
    Rows(Box<PeekRows>),
    /// An index that is not complete up to the time yet.
    Lagging(Lagging),
}

impl Opened {
    /// The rows, waited for if need be.
    ///
    /// # Cancellation
    /// Safe to drop at any await.
    pub async fn rows(self) -> Result<Box<PeekRows>, ComputeError> {
        match self {
            Opened::Rows(rows) => Ok(rows),
            Opened::Lagging(lagging) => lagging.wait(lagging.as_of).await,
        }
    }
}

/// A peek that has to wait.
pub struct Lagging {
    plan: Arc<PeekPlan>,
    keys: Keys,
    as_of: Timestamp,
    layer: Option<Layer>,
}

impl Lagging {
    /// The time that the peek was asked for.
    pub fn as_of(&self) -> Timestamp {
        self.as_of
    }

    /// Waits until the index is complete up to a time, that of the peek or a later one, and opens the peek there.
    ///
    /// # Cancellation
    /// Safe to drop at any await.
    pub async fn wait(&self, as_of: Timestamp) -> Result<Box<PeekRows>, ComputeError> {
        loop {
            let complete = |handle: &crate::index::IndexHandle| {
                handle.slots().iter().all(|slot| handle.is_complete(&slot.load(), as_of))
            };
            self.plan.index.handle.wait_until(complete).await;
            if let Some(rows) = try_open(&self.plan, &self.keys, as_of, self.layer.as_ref())? {
                return Ok(rows);
            }
        }
    }
}

/// Opens a peek as of a time that the oracle gave, if the index is complete up to it; over it lies what a transaction has written, if
/// anything does.
pub fn open(
    plan: &Arc<PeekPlan>,
    params: Bound<'_>,
    as_of: Timestamp,
    layer: Option<Layer>,
) -> Result<Opened, ComputeError> {
    let keys = keys(plan, params);
    Ok(match try_open(plan, &keys, as_of, layer.as_ref())? {
        Some(rows) => Opened::Rows(rows),
        None => Opened::Lagging(Lagging { plan: Arc::clone(plan), keys, as_of, layer }),
    })
}

/// Opens a peek if the index is complete up to `as_of` already.
fn try_open(
    plan: &Arc<PeekPlan>,
    keys: &Keys,
    as_of: Timestamp,
    layer: Option<&Layer>,
) -> Result<Option<Box<PeekRows>>, ComputeError> {
    let handle = &plan.index.handle;
    handle.check()?;
    let snapshot = |worker: usize| {
        let found = snapshot(&plan.index, worker, as_of)?;
        Ok::<_, ComputeError>(match (found, layer) {
            (Some(snapshot), Some(layer)) => Some(layer.over(worker, snapshot)),
            (found, _) => found,
        })
    };
    let (mut sources, mut hits) = (SmallVec::new(), Hits::new());
    match keys {
        Keys::Exact(keys) => {
            for key in keys {
                let Some(snapshot) = snapshot(handle.owner(key))? else { return Ok(None) };
                if let [_] = keys.as_slice() {
                    cursor::seek(&snapshot.oks, key, as_of, &mut hits);
                    sources.push(Source { snapshot, walk: None });
                } else {
                    let walk = Some(Box::new(Walk::new(&snapshot.oks, Bounds::Key(key.clone()))));
                    sources.push(Source { snapshot, walk });
                }
            }
        }
        Keys::Prefix(_) | Keys::Scan => {
            for worker in 0..handle.slots().len() {
                let Some(snapshot) = snapshot(worker)? else { return Ok(None) };
                if let (Keys::Scan, [_], Some(settled)) = (keys, handle.slots(), snapshot.settled(as_of)) {
                    hits.extend_from_slice(settled);
                    sources.push(Source { snapshot, walk: None });
                    break;
                }
                let all = [Bounds::All];
                let prefixes: Vec<Bounds>;
                let bounds: &[Bounds] = match keys {
                    Keys::Prefix(keys) => {
                        prefixes = keys.iter().cloned().map(Bounds::Prefix).collect();
                        &prefixes
                    }
                    _ => &all,
                };
                for bounds in bounds {
                    let walk = Some(Box::new(Walk::new(&snapshot.oks, bounds.clone())));
                    sources.push(Source { snapshot: Arc::clone(&snapshot), walk });
                }
            }
        }
    }
    let (skip, remaining) = match plan.is_direct() {
        true => (plan.skip, plan.fetch.unwrap_or(usize::MAX)),
        // Filters, ORDER BY and then LIMIT come after the walk.
        false => (0, usize::MAX),
    };
    Ok(Some(Box::new(PeekRows {
        plan: Arc::clone(plan),
        as_of,
        sources,
        source: 0,
        hits,
        hit: 0,
        copies: 0,
        skip,
        remaining,
        ready: Vec::new(),
    })))
}

/// One worker's snapshot if it can be read as of `as_of`; errors of the collection come first.
fn snapshot(index: &IndexInfo, worker: usize, as_of: Timestamp) -> Result<Option<Arc<Snapshot>>, ComputeError> {
    let handle = &index.handle;
    let snapshot = handle.slots()[worker].load_full();
    if !handle.is_complete(&snapshot, as_of) {
        return Ok(None);
    }
    if snapshot.since > as_of {
        return Err(ComputeError::SinceAdvanced { id: handle.id, since: snapshot.since, as_of });
    }
    // All errors of the collection are with the worker that owns the empty key.
    let keeper = handle.owner(&[]);
    let error = if keeper == worker {
        cursor::first_error(&snapshot, as_of).map(decode_error)
    } else {
        let errors = handle.slots()[keeper].load();
        if !handle.is_complete(&errors, as_of) {
            return Ok(None);
        }
        cursor::first_error(&errors, as_of).map(decode_error)
    };
    if let Some(error) = error {
        return Err(error);
    }
    Ok(Some(snapshot))
}

/// The key bytes to look for. A value that the key's type cannot hold, or NULL, matches nothing.
fn keys(plan: &PeekPlan, params: Bound<'_>) -> Keys {
    let Access::Lookup(columns) = &plan.access else { return Keys::Scan };
    let extend = |key: &mut Vec<u8>, value: &KeyValue| {
        let padded;
        let datum = match &value.source {
            KeySource::Constant(datum) => datum,
            KeySource::Parameter(position) => &params.values[*position],
            KeySource::Padded(position, length) => match &params.values[*position] {
                Datum::Text(text) => {
                    padded = Datum::Text(repadded(text, *length));
                    &padded
                }
                other => other,
            },
        };
        fit(datum, &value.data_type).is_some_and(|datum| write_key_datum(key, &value.data_type, &datum).is_ok())
    };
    let mut keys: KeyList = smallvec![Vec::with_capacity(16)];
    for values in columns {
        match values.as_slice() {
            [value] => keys.retain(|key| extend(key, value)),
            values => {
                let longer = keys.iter().flat_map(|key| {
                    values.iter().filter_map(|value| {
                        let mut key = key.clone();
                        extend(&mut key, value).then_some(key)
                    })
                });
                keys = longer.collect();
            }
        }
    }
    if keys.len() > 1 {
        keys.sort_unstable();
        keys.dedup();
    }
    if columns.len() == plan.index.key.len() { Keys::Exact(keys) } else { Keys::Prefix(keys) }
}

/// The encoded keys, or first columns of keys, that a plan looks up; `None` if it reads everything.
pub fn lookup_keys(plan: &PeekPlan, params: Bound<'_>) -> Option<Vec<Vec<u8>>> {
    match keys(plan, params) {
        Keys::Scan => None,
        Keys::Exact(keys) | Keys::Prefix(keys) => Some(keys.into_vec()),
    }
}

/// Some keys of an index, or first columns of keys, that were looked up.
#[derive(Clone)]
pub struct Looked {
    /// The index.
    pub index: Arc<IndexInfo>,
    /// The types of the table's columns.
    pub types: Arc<[DataType]>,
    /// How many columns of the key they have.
    pub width: usize,
    /// The keys.
    pub keys: Vec<Vec<u8>>,
}

impl Looked {
    /// What a peek looks up, if that can be told from rows as they are stored.
    pub fn by(plan: &PeekPlan, params: Bound<'_>) -> Option<Looked> {
        let keys = lookup_keys(plan, params)?;
        let (index, types, width) = (Arc::clone(&plan.index), Arc::clone(&plan.row_types), plan.lookup_width());
        let mut columns = index.key.iter().take(width);
        let is_exact = columns.all(|column| column.is_some_and(|column| is_key_exact(&plan.row_types[column])));
        is_exact.then_some(Looked { index, types, width, keys })
    }

    /// The rows under the keys, each with how often it is there, as of a time that the oracle gave; over them lies what a transaction
    /// has written.
    ///
    /// # Cancellation
    /// Safe to drop at any await.
    pub async fn rows(&self, as_of: Timestamp, layer: Option<&Layer>) -> Result<Vec<(Vec<u8>, Diff)>, ComputeError> {
        loop {
            self.index.handle.wait_until(|handle| handle.all_complete(as_of)).await;
            self.index.handle.check()?;
            if let Some(rows) = self.find(as_of, layer)? {
                return Ok(rows);
            }
        }
    }

    /// The same, if the index is complete.
    fn find(&self, as_of: Timestamp, layer: Option<&Layer>) -> Result<Option<Vec<(Vec<u8>, Diff)>>, ComputeError> {
        debug_assert_eq!(self.width, self.index.key.len(), "whole keys are looked up");
        let (mut rows, mut hits) = (Vec::new(), Hits::new());
        for key in &self.keys {
            let worker = self.index.handle.owner(key);
            let Some(mut snapshot) = snapshot(&self.index, worker, as_of)? else { return Ok(None) };
            if let Some(layer) = layer {
                snapshot = layer.over(worker, snapshot);
            }
            hits.clear();
            cursor::seek(&snapshot.oks, key, as_of, &mut hits);
            rows.extend(hits.iter().map(|hit| (cursor::value(&snapshot.oks, hit).to_vec(), hit.count)));
        }
        Ok(Some(rows))
    }

    /// The columns of the table that were looked up, in the key's order.
    pub fn columns(&self) -> Vec<usize> {
        self.index.key.iter().take(self.width).copied().flatten().collect()
    }

    /// Whether there are the same rows under the keys at both times, of which the later one comes from the oracle.
    ///
    /// # Cancellation
    /// Safe to drop at any await.
    pub async fn is_unchanged(&self, from: Timestamp, to: Timestamp) -> Result<bool, ComputeError> {
        loop {
            self.index.handle.wait_until(|handle| handle.all_complete(to)).await;
            self.index.handle.check()?;
            if let Some(is_unchanged) = self.compare(from, to)? {
                return Ok(is_unchanged);
            }
        }
    }

    /// The same, if the index is complete.
    fn compare(&self, from: Timestamp, to: Timestamp) -> Result<Option<bool>, ComputeError> {
        let handle = &self.index.handle;
        let is_whole = self.width == self.index.key.len();
        for key in &self.keys {
            let (workers, bounds) = match is_whole {
                true => (handle.owner(key)..handle.owner(key) + 1, Bounds::Key(key.clone())),
                false => (0..handle.slots().len(), Bounds::Prefix(key.clone())),
            };
            for worker in workers {
                let Some(snapshot) = snapshot(&self.index, worker, to)? else { return Ok(None) };
                if snapshot.since > from {
                    return Err(ComputeError::SinceAdvanced { id: handle.id, since: snapshot.since, as_of: from });
                }
                let rows = |as_of| {
                    let mut hits = Hits::new();
                    Walk::new(&snapshot.oks, bounds.clone()).take(&snapshot.oks, as_of, usize::MAX, &mut hits);
                    hits
                };
                if rows(from) != rows(to) {
                    return Ok(Some(false));
                }
            }
        }
        Ok(Some(true))
    }
}

/// A value of a key in another type of key, if it has one: integers of different widths are each other's.
pub fn fit<'a>(datum: &Datum<'a>, data_type: &DataType) -> Option<Datum<'a>> {
    let integer = match datum {
        Datum::Null => return None,
        Datum::Int2(v) => i64::from(*v),
        Datum::Int4(v) => i64::from(*v),
        Datum::Int8(v) => *v,
        other => return Some(other.clone()),
    };
    match data_type {
        DataType::Int16 => i16::try_from(integer).ok().map(Datum::Int2),
        DataType::Int32 => i32::try_from(integer).ok().map(Datum::Int4),
        DataType::Int64 => Some(Datum::Int8(integer)),
        _ => Some(datum.clone()),
    }
}

impl PeekRows {
    /// The plan whose rows these are.
    pub fn plan(&self) -> &PeekPlan {
        &self.plan
    }

    /// An upper bound on the rows that are still to come: those found already, and all updates of the snapshots that are
    /// to be walked.
    pub fn update_count(&self) -> usize {
        let walked: usize = self
            .sources
            .iter()
            .filter(|source| source.walk.is_some() && matches!(self.plan.access, Access::Scan))
            .map(|source| source.snapshot.update_count())
            .sum();
        self.hits.len() + walked
    }

    /// The next rows, at most `rows_max` and at least one, or `None` at the end. For a plan that
    /// [`PeekPlan::is_direct`], LIMIT and OFFSET are already applied.
    pub fn next_chunk(&mut self, rows_max: usize) -> Result<Option<PeekChunk<'_>>, ComputeError> {
        self.next_chunk_within(rows_max, usize::MAX)
    }

    /// The same; the rows before the last of the chunk have fewer bytes than `bytes_max`.
    pub fn next_chunk_within(
        &mut self,
        rows_max: usize,
        bytes_max: usize,
    ) -> Result<Option<PeekChunk<'_>>, ComputeError> {
        let rows_max = rows_max.min(self.remaining);
        if rows_max == 0 {
            return Ok(None);
        }
        loop {
            if self.hit == self.hits.len() && !self.refill(rows_max) {
                return Ok(None);
            }
            let start = self.hit;
            let single = match (self.skip, self.copies) {
                (0, 0) => {
                    let mut room = Room::new(&self.sources[self.source], bytes_max);
                    let found = self.hits[start..].iter().take(rows_max);
                    found.take_while(|hit| hit.count == 1 && room.take(hit)).count()
                }
                _ => 0,
            };
            self.hit += single;
            if single == 0 {
                self.repeat(rows_max, bytes_max)?;
                if self.ready.is_empty() {
                    continue;
                }
            }
            let hits = if single == 0 { &self.ready[..] } else { &self.hits[start..self.hit] };
            self.remaining -= hits.len();
            let snapshot = &self.sources[self.source].snapshot;
            return Ok(Some(PeekChunk { plan: &self.plan, snapshot, hits }));
        }
    }

    /// Makes a chunk of the hits that are there, each as often as its row occurs, without those that OFFSET leaves out.
    fn repeat(&mut self, rows_max: usize, bytes_max: usize) -> Result<(), ComputeError> {
        self.ready.clear();
        let mut room = Room::new(&self.sources[self.source], bytes_max);
        while self.ready.len() < rows_max
            && let Some(hit) = self.hits.get(self.hit).copied()
        {
            if hit.count < 0 {
                return Err(ComputeError::NegativeMultiplicity(self.plan.index.handle.id));
            }
            if self.copies == hit.count {
                (self.hit, self.copies) = (self.hit + 1, 0);
                continue;
            }
            if self.skip == 0 && !room.take(&hit) {
                break;
            }
            self.copies += 1;
            if self.skip > 0 {
                self.skip -= 1;
            } else {
                self.ready.push(hit);
            }
        }
        Ok(())
    }

    /// Takes more hits from the current source, for so many rows, or goes on to the next; false at the end.
    fn refill(&mut self, rows: usize) -> bool {
        self.hits.clear();
        (self.hit, self.copies) = (0, 0);
        while let Some(source) = self.sources.get_mut(self.source) {
            if let Some(walk) = &mut source.walk {
                let count = rows.clamp(HITS_CHUNK, HITS_MAX);
                walk.take(&source.snapshot.oks, self.as_of, count, &mut self.hits);
                if !self.hits.is_empty() {
                    return true;
                }
            }
            if self.source + 1 == self.sources.len() {
                return false;
            }
            self.source += 1;
        }
        false
    }
}

/// How many bytes of rows a chunk may still have.
struct Room<'a> {
    batches: &'a [RowBatch],
    left: usize,
    is_bounded: bool,
}

impl Room<'_> {
    fn new(source: &Source, bytes_max: usize) -> Room<'_> {
        Room { batches: &source.snapshot.oks, left: bytes_max, is_bounded: bytes_max < usize::MAX }
    }

    /// Whether there is any left, which the row of a hit takes then.
    fn take(&mut self, hit: &Hit) -> bool {
        let is_left = self.left > 0;
        if self.is_bounded && is_left {
            self.left = self.left.saturating_sub(cursor::value(self.batches, hit).len());
        }
        is_left
    }
}

/// Runs what is left of a plan after the walk: filters, ORDER BY, LIMIT, output expressions. `None` if the rows to look at have
/// more than `bytes_max` bytes.
pub fn evaluate(
    rows: &mut PeekRows,
    bytes_max: usize,
    params: Bound<'_>,
    engine: &Engine,
    session: &SessionInfo,
) -> Result<Option<Vec<RecordBatch>>, ComputeError> {
    let plan = Arc::clone(&rows.plan);
    let compile = |expr: &Expr| compile(expr, &plan, params, engine, session);
    let predicates = plan.residual.iter().map(compile).collect::<Result<Vec<_>, _>>()?;
    let codec = RowCodec::new(&plan.row_types).map_err(engine_error)?;
    let wanted = plan.fetch.map(|fetch| fetch.saturating_add(plan.skip)).filter(|_| plan.sort.is_empty());
    let (mut kept, mut kept_count) = (Vec::new(), 0);
    let mut bytes_left = bytes_max;
    while let Some(chunk) = rows.next_chunk_within(HITS_CHUNK, bytes_left.saturating_add(1))? {
        let Some(left) = bytes_left.checked_sub(chunk.rows().map(<[u8]>::len).sum()) else { return Ok(None) };
        bytes_left = left;
        let mut batch = chunk.decode(&codec, &plan.index.schema)?;
        for predicate in &predicates {
            let mask = array(predicate, &batch)?;
            batch = arrow::compute::filter_record_batch(&batch, mask.as_boolean()).map_err(engine_error)?;
        }
        kept_count += batch.num_rows();
        kept.push(batch);
        if wanted.is_some_and(|wanted| kept_count >= wanted) {
            break;
        }
    }
    let mut batch = arrow::compute::concat_batches(&plan.index.schema, &kept).map_err(engine_error)?;
    if !plan.sort.is_empty() {
        let columns = plan
            .sort
            .iter()
            .map(|key| {
                let options = SortOptions { descending: !key.asc, nulls_first: key.nulls_first };
                Ok(SortColumn { values: array(&compile(&key.expr)?, &batch)?, options: Some(options) })
            })
            .collect::<Result<Vec<_>, ComputeError>>()?;
        let limit = plan.fetch.map(|fetch| fetch.saturating_add(plan.skip));
        let order = arrow::compute::lexsort_to_indices(&columns, limit).map_err(engine_error)?;
        batch = arrow::compute::take_record_batch(&batch, &order).map_err(engine_error)?;
    }
    let start = plan.skip.min(batch.num_rows());
    let length = plan.fetch.unwrap_or(usize::MAX).min(batch.num_rows() - start);
    batch = batch.slice(start, length);
    let batch = match &plan.output {
        Output::Columns(columns) => batch.project(columns).map_err(engine_error)?,
        Output::Expressions(expressions, schema) => {
            let columns = expressions
                .iter()
                .map(|expr| array(&compile(expr)?, &batch))
                .collect::<Result<Vec<_>, ComputeError>>()?;
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(engine_error)?
        }
    };
    Ok(Some(vec![batch]))
}

fn array(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<arrow::array::ArrayRef, ComputeError> {
    expr.evaluate(batch).and_then(|value| value.into_array(batch.num_rows())).map_err(evaluation_error)
}

fn compile(
    expr: &Expr,
    plan: &PeekPlan,
    params: Bound<'_>,
    engine: &Engine,
    session: &SessionInfo,
) -> Result<Arc<dyn PhysicalExpr>, ComputeError> {
    let bound;
    let has_parameter = |expr: &Expr| expr.exists(|expr| Ok(matches!(expr, Expr::Placeholder(_)))).unwrap_or(true);
    let expr = if params.values.is_empty() || !has_parameter(expr) {
        expr
    } else {
        bound = bind(expr.clone(), params)?;
        &bound
    };
    engine
        .create_physical_expr(expr, &plan.schema, session)
        .map_err(|error| ComputeError::Evaluation { sqlstate: error.sqlstate, message: error.message })
}

/// Replaces parameters by their values.
pub fn bind(expr: Expr, params: Bound<'_>) -> Result<Expr, ComputeError> {
    let values = param_values(params)?;
    expr.transform_up(|node| match &node {
        Expr::Placeholder(placeholder) => {
            let value: ScalarAndMetadata = values.get_placeholders_with_values(&placeholder.id)?;
            Ok(Transformed::yes(Expr::Literal(value.value, value.metadata)))
        }
        _ => Ok(Transformed::no(node)),
    })
    .map(|transformed| transformed.data)
    .map_err(evaluation_error)
}

/// Parameters as DataFusion wants them.
pub fn param_values(params: Bound<'_>) -> Result<ParamValues, ComputeError> {
    let values = params
        .values
        .iter()
        .zip(params.types)
        .map(|(datum, data_type)| value::to_scalar(datum, data_type))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| ComputeError::Evaluation { sqlstate: error.sqlstate, message: error.message })?;
    Ok(ParamValues::from(values))
}

fn evaluation_error(error: datafusion::error::DataFusionError) -> ComputeError {
    let error = engine::error::SqlError::from(error);
    ComputeError::Evaluation { sqlstate: error.sqlstate, message: error.message }
}

fn engine_error(error: impl std::fmt::Display) -> ComputeError {
    ComputeError::Engine(error.to_string())
}
