//! Collections for the ad hoc engine, all as of one time.
//!
//! A table with an index is read from the index's snapshot, which is in memory, by its keys where filters say which; without one, and
//! where all of it is read and most is kept by column, from its durable shard. What the session's own transaction has written and not
//! committed lies over it. System relations are made from the catalog.

use crate::introspection;
use crate::shared::Shared;
use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, UInt64Array};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use async_trait::async_trait;
use catalog::builtin::{self, Context};
use columns::file::Wanted as OfGroup;
use committer::constraint::net_rows;
use committer::published::Published;
use committer::sequence::Sequence;
use compute_client::error::ComputeError;
use compute_client::peek::{self, Bound, OwnedPeekChunk, PeekRows};
use compute_client::plan::{Access, IndexInfo, Output, PeekPlan, scan_access};
use compute_client::uncommitted::Uncommitted;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::stats::Precision;
use datafusion::common::{Column, ColumnStatistics, Result, ScalarValue, Statistics};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::Expr;
use engine::error::SqlError;
use engine::{Collection, CollectionReader, InMemory, Morsel, Morsels, Places, SessionInfo, Wanted};
use parking_lot::Mutex;
use persist::{ColumnFacts, ColumnRows, PersistClient, PersistError, Scanned, ShardScan, ShardStats, SnapshotRows};
use repr::columns::ColumnDecoder;
use repr::row::RowError;
use repr::sqlstate::SqlState;
use repr::{Diff, GlobalId, RelationDesc, Timestamp, Updates};
use sql::plan::sequence::COLUMNS;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

/// Rows of a batch at the most.
const BATCH_ROWS: usize = 8_192;
/// Bytes that the rows of a batch have before the last of them, at the most.
const BATCH_BYTES: usize = 4 << 20;

/// Reads collections for one statement.
pub(crate) struct StatementReader {
    shared: Arc<Shared>,
    published: Arc<Published>,
    as_of: Timestamp,
    /// By table: what the session's transaction has written so far.
    overlay: HashMap<GlobalId, Arc<Updates>>,
    session: SessionInfo,
}

impl StatementReader {
    /// A reader as of a time that the oracle gave.
    pub(crate) fn new(
        shared: Arc<Shared>,
        published: Arc<Published>,
        as_of: Timestamp,
        overlay: HashMap<GlobalId, Arc<Updates>>,
        session: SessionInfo,
    ) -> StatementReader {
        StatementReader { shared, published, as_of, overlay, session }
    }

    /// Where the rows of a collection are, and what of the transaction's own lies over them.
    async fn origin(
        &self,
        id: GlobalId,
        filters: &[Expr],
    ) -> Result<(Origin, Option<Arc<Updates>>, Arc<RelationDesc>)> {
        let own = self.overlay.get(&id).cloned();
        // An index that is being built is waited for only if nothing else has the rows.
        let indexes = self.published.indexes_on(id);
        let hydrated = indexes.iter().find(|index| is_readable(index));
        let index = hydrated.or_else(|| indexes.first().filter(|_| !self.published.tables.contains_key(&id)));
        let desc = match (self.published.tables.get(&id), index) {
            (Some(table), _) => Arc::clone(&table.desc),
            (None, Some(index)) => Arc::new(RelationDesc::from_schema(Arc::clone(&index.schema))),
            // The index by which a view was to be read.
            (None, None) => return Err(failed(&ComputeError::Dropped(id))),
        };
        if self.published.created.contains(&id) {
            return Ok((Origin::Empty, own, desc));
        }
        let by_key = self.by_key(id, filters);
        let index = index.filter(|_| by_key.is_some() || !self.is_by_column(id));
        let opened = match index {
            Some(index) => match self.open_index(id, by_key.unwrap_or((Arc::clone(index), Access::Scan))).await {
                // What is dropped or built anew meanwhile is read from where it is durable.
                Err(ComputeError::Dropped(_) | ComputeError::OutOfMemory(_))
                    if self.published.tables.contains_key(&id) =>
                {
                    None
                }
                opened => Some(opened.map_err(|error| failed(&error))?),
            },
            None => None,
        };
        let (origin, overlay) = match opened {
            Some((rows, overlay)) => (Origin::Index(rows), overlay),
            // It went with the table, or with the columns that the table had.
            None if self.shared.persist.shard_stats(id.into()).is_none() => {
                return Err(failed(&ComputeError::Dropped(id)));
            }
            None => {
                let first = self.shared.persist.scan(id.into(), self.as_of).map_err(storage)?;
                let first = Mutex::new(Some(Box::new(first)));
                (Origin::Shard { persist: self.shared.persist.clone(), id, as_of: self.as_of, first }, own)
            }
        };
        Ok((origin, overlay, desc))
    }

    /// Whether a table is read more quickly where it is durable than in an index, if all of it is read. Where stores may be away, what is
    /// in memory is read.
    fn is_by_column(&self, id: GlobalId) -> bool {
        let stats = self.shared.persist.shard_stats(id.into()).filter(|_| self.published.tables.contains_key(&id));
        self.shared.persist.is_local() && stats.is_some_and(|stats| stats.by_column > stats.update_count / 2)
    }

    /// By which keys of which index the rows are found that filters want, if there are such.
    fn by_key(&self, id: GlobalId, filters: &[Expr]) -> Option<(Arc<IndexInfo>, Access)> {
        let hydrated = self.published.indexes_on(id).iter().filter(|index| is_readable(index));
        scan_access(hydrated.cloned(), filters).filter(|(_, access)| !matches!(access, Access::Scan))
    }

    /// About how many of so many rows have one of the keys that are looked up in an index.
    fn looked_up(&self, id: GlobalId, index: &IndexInfo, access: &Access, all: usize) -> usize {
        let Access::Lookup(values) = access else { return all };
        let facts = self.facts(id);
        let part = index.key.iter().zip(values).map(|(column, values)| {
            let distinct = facts.get((*column)?)?.distinct?;
            Some(values.len() as f64 / distinct.max(1) as f64)
        });
        // Of a column of which nothing is known, any value may be that of all rows.
        let part: f64 = part.map(|part| part.unwrap_or(1.0).min(1.0)).product();
        (all as f64 * part).ceil() as usize
    }

    /// What is known of the values of a table's columns: what its files say, or few rows, if these are at hand, or are read anyway.
    fn facts(&self, id: GlobalId) -> Arc<[ColumnFacts]> {
        let is_at_hand =
            self.shared.persist.is_local() || !self.published.indexes_on(id).iter().any(|of| is_readable(of));
        if is_at_hand { self.shared.persist.column_facts(id.into()) } else { Arc::default() }
    }

    /// How many rows there are, with those of the transaction's own.
    fn counted(&self, id: GlobalId, origin: &Origin) -> Precision<usize> {
        let own: Diff = self.overlay.get(&id).map_or(0, |own| own.diffs().iter().sum());
        let rows = |stored: Diff| usize::try_from(stored + own).unwrap_or(0);
        let stats = self.shared.persist.shard_stats(id.into()).filter(|_| self.published.tables.contains_key(&id));
        match (origin, stats) {
            (Origin::Empty, _) => Precision::Exact(rows(0)),
            (Origin::Index(found), Some(stats)) if matches!(found.plan().access, Access::Scan) => {
                precision(stats, self.as_of, rows)
            }
            (Origin::Index(found), _) => Precision::Inexact(found.update_count()),
            (Origin::Shard { .. }, Some(stats)) => precision(stats, self.as_of, rows),
            (Origin::Shard { .. }, None) => Precision::Absent,
        }
    }

    /// The rows of an index, and what of the transaction's own is still to be laid over them.
    async fn open_index(
        &self,
        id: GlobalId,
        (index, access): (Arc<IndexInfo>, Access),
    ) -> std::result::Result<(Box<PeekRows>, Option<Arc<Updates>>), ComputeError> {
        let own = self.overlay.get(&id).and_then(|own| Some((own, Uncommitted::of(&index)?)));
        let layer = own.map(|(own, mut arranged)| {
            arranged.cover(own);
            arranged.layer()
        });
        // Rows of the transaction's own must be seen whatever the filters: where they cannot be laid over the index, all of it is read.
        let access = if layer.is_none() && self.overlay.contains_key(&id) { Access::Scan } else { access };
        let overlay = self.overlay.get(&id).filter(|_| layer.is_none()).cloned();
        let width = index.schema.fields().len();
        let plan = PeekPlan::scan(index, access, Output::Columns((0..width).collect()))
            .ok_or_else(|| ComputeError::Engine("an index's schema is not a schema".to_owned()))?;
        let rows = peek::open(&Arc::new(plan), Bound::none(), self.as_of, layer)?.rows().await?;
        Ok((rows, overlay))
    }
}

/// The rows that a shard has now.
fn live_rows(stats: &ShardStats) -> usize {
    usize::try_from(stats.rows).unwrap_or(0)
}

/// The rows of a shard as of a time, which what has come since makes an estimate.
fn precision(stats: ShardStats, as_of: Timestamp, rows: impl Fn(Diff) -> usize) -> Precision<usize> {
    match stats.changed <= as_of {
        true => Precision::Exact(rows(stats.rows)),
        false => Precision::Inexact(rows(stats.rows)),
    }
}

/// Whether an index has rows, and goes on to have them.
fn is_readable(index: &IndexInfo) -> bool {
    index.handle.is_hydrated() && index.handle.check().is_ok()
}

#[async_trait]
impl CollectionReader for StatementReader {
    fn row_count(&self, id: GlobalId, filters: &[Expr]) -> Option<usize> {
        let all = match self.shared.persist.shard_stats(id.into()) {
            Some(stats) => live_rows(&stats),
            None => self.published.indexes_on(id).first().map(|index| index.handle.size().0)?,
        };
        let by_key = if filters.is_empty() { None } else { self.by_key(id, filters) };
        Some(by_key.map_or(all, |(index, access)| self.looked_up(id, &index, &access, all)))
    }

    fn statistics(&self, id: GlobalId) -> Option<Arc<Statistics>> {
        let stored = self.shared.persist.shard_stats(id.into());
        let Some(stats) = stored.filter(|_| self.published.tables.contains_key(&id)) else {
            let num_rows = Precision::Inexact(self.row_count(id, &[])?);
            return Some(Arc::new(Statistics { num_rows, ..Statistics::default() }));
        };
        let rows = live_rows(&stats);
        // As wide as those are that are stored, history included.
        let width =
            stats.bytes.checked_div(stats.update_count).map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        Some(Arc::new(Statistics {
            num_rows: Precision::Inexact(rows),
            total_byte_size: width.map_or(Precision::Absent, |width| Precision::Inexact(rows.saturating_mul(width))),
            column_statistics: self.facts(id).iter().map(column_statistics).collect(),
        }))
    }

    async fn open(&self, id: GlobalId, filters: &[Expr]) -> Result<Arc<dyn Collection>> {
        if let GlobalId::System(_) = id {
            let now = introspection::Now { shared: &self.shared, published: &self.published };
            let context = Context { catalog: &self.published.state, session: &self.session, live: &now };
            return Ok(Arc::new(InMemory(builtin::rows(id, &context).map_err(external)?)));
        }
        if let Some(sequence) = self.published.sequences.get(&id) {
            let row = sequence_row(sequence).map_err(|error| DataFusionError::ArrowError(Box::new(error), None))?;
            return Ok(Arc::new(InMemory(row)));
        }
        let (origin, overlay, desc) = self.origin(id, filters).await?;
        let row_count = self.counted(id, &origin);
        Ok(Arc::new(Stored { desc, origin, overlay, row_count }))
    }
}

/// What is known of a column, as DataFusion says it.
fn column_statistics(facts: &ColumnFacts) -> ColumnStatistics {
    let count = |count: Option<u64>| {
        count.map_or(Precision::Absent, |count| Precision::Inexact(usize::try_from(count).unwrap_or(usize::MAX)))
    };
    let value = |value: &Option<ArrayRef>| {
        let value = value.as_ref().and_then(|array| ScalarValue::try_from_array(array, 0).ok());
        value.map_or(Precision::Absent, Precision::Inexact)
    };
    ColumnStatistics {
        null_count: count(facts.nulls),
        min_value: value(&facts.least),
        max_value: value(&facts.greatest),
        distinct_count: count(facts.distinct),
        ..ColumnStatistics::new_unknown()
    }
}

/// The row that a sequence has: where it stands, and how many values are reserved after that.
fn sequence_row(sequence: &Sequence) -> std::result::Result<RecordBatch, ArrowError> {
    let (at, ahead) = sequence.standing();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![at.last])),
        Arc::new(Int64Array::from(vec![i64::try_from(ahead).unwrap_or(i64::MAX)])),
        Arc::new(BooleanArray::from(vec![at.is_called])),
    ];
    RecordBatch::try_new(Arc::clone(&COLUMNS.schema), columns)
}

/// Where stored rows come from; each execution of a scan begins there anew (a recursive query runs its scans many times).
enum Origin {
    /// A table that the transaction has created itself.
    Empty,
    Index(Box<PeekRows>),
    Shard {
        persist: PersistClient,
        id: GlobalId,
        as_of: Timestamp,
        /// The scan of whoever reads first: it was begun while the query held its time.
        first: Mutex<Option<Box<ShardScan>>>,
    },
}

impl Origin {
    fn open(&self) -> Result<RowSource> {
        Ok(match self {
            Origin::Empty => RowSource::Empty,
            Origin::Index(rows) => RowSource::Index(rows.clone()),
            Origin::Shard { persist, id, as_of, first } => {
                let first = first.lock().take();
                RowSource::Shard(match first {
                    Some(first) => first,
                    None => Box::new(persist.scan((*id).into(), *as_of).map_err(storage)?),
                })
            }
        })
    }
}

/// One reading of stored rows.
enum RowSource {
    Empty,
    Index(Box<PeekRows>),
    Shard(Box<ShardScan>),
}

/// Stored rows, where they are.
enum Found {
    Index(OwnedPeekChunk),
    Shard(SnapshotRows),
    Columns(ColumnRows),
    Own(Updates),
}

impl RowSource {
    /// The next rows; `None` at the end.
    fn next(&mut self) -> std::result::Result<Option<Found>, SqlError> {
        Ok(match self {
            RowSource::Empty => None,
            RowSource::Index(rows) => {
                let chunk = rows
                    .next_chunk_within(BATCH_ROWS, BATCH_BYTES)
                    .map_err(|error| SqlError::new(error.sqlstate(), error.to_string()))?;
                chunk.map(|chunk| Found::Index(chunk.to_owned_from(0)))
            }
            RowSource::Shard(scan) => {
                let rows = scan.next_rows().map_err(|error| SqlError::new(error.sqlstate(), error.to_string()))?;
                rows.map(|rows| match rows {
                    Scanned::Rows(rows) => Found::Shard(rows),
                    Scanned::Columns(rows) => Found::Columns(rows),
                })
            }
        })
    }
}

impl Found {
    fn len(&self) -> usize {
        match self {
            Found::Index(chunk) => chunk.chunk().rows().len(),
            Found::Shard(rows) => rows.len(),
            Found::Columns(rows) => rows.len(),
            Found::Own(rows) => rows.len(),
        }
    }

    /// The rows, or those at these positions, which ascend; or what has them by column.
    fn rows(&self, at: Option<&[usize]>) -> std::result::Result<Vec<&[u8]>, &ColumnRows> {
        match self {
            Found::Index(chunk) => Ok(picked(chunk.chunk().rows(), at)),
            Found::Shard(rows) => Ok(picked(rows.iter(), at)),
            Found::Own(rows) => Ok(picked(rows.iter().map(|(row, _)| row), at)),
            Found::Columns(columns) => Err(columns),
        }
    }

    /// What a stage wants of the rows, or of those at these positions.
    fn decode(&self, stage: &Stage, at: Option<&[usize]>) -> Result<Vec<ArrayRef>> {
        match self.rows(at) {
            Ok(rows) => stage.decoder.decode(rows.into_iter()).map_err(internal),
            Err(by_column) => by_column.columns(&stage.columns, at).map_err(storage),
        }
    }
}

fn picked<'r>(rows: impl Iterator<Item = &'r [u8]>, at: Option<&[usize]>) -> Vec<&'r [u8]> {
    let Some(at) = at else { return rows.collect() };
    let (mut rows, mut next) = (rows, 0);
    let mut pick = |at: usize| {
        let row = rows.nth(at - next).expect("a position of a row");
        next = at + 1;
        row
    };
    at.iter().map(|at| pick(*at)).collect()
}

/// The uncommitted updates of one table, net.
struct Overlay {
    /// Rows that are gone, and how many copies of each.
    removed: HashMap<Vec<u8>, Diff>,
    /// Rows that were added, one entry per copy, in the order in which they were.
    added: std::vec::IntoIter<Vec<u8>>,
}

impl Overlay {
    fn new(updates: &Updates) -> Overlay {
        let mut net = net_rows(updates);
        let mut added = Vec::new();
        for (row, diff) in updates.iter() {
            if let Some(left) = net.get_mut(row) {
                let copies = diff.min(*left).max(0);
                *left -= copies;
                added.extend((0..copies).map(|_| row.to_vec()));
            }
        }
        let removed = net.into_iter().filter(|(_, diff)| *diff < 0).map(|(row, diff)| (row.to_vec(), -diff)).collect();
        Overlay { removed, added: added.into_iter() }
    }

    /// Where the rows are among those found that were not removed; `None` if all are there.
    fn left(&mut self, found: &Found) -> Result<Option<Vec<usize>>> {
        if self.removed.is_empty() {
            return Ok(None);
        }
        let decoded: Updates;
        let rows = match found.rows(None) {
            Ok(rows) => rows,
            Err(by_column) => {
                decoded = by_column.rows().map_err(storage)?;
                picked(decoded.iter().map(|(row, _)| row), None)
            }
        };
        let mut is_there = |row: &[u8]| match self.removed.get_mut(row) {
            Some(copies) if *copies > 0 => {
                *copies -= 1;
                false
            }
            _ => true,
        };
        let left: Vec<usize> = (0..rows.len()).filter(|at| is_there(rows[*at])).collect();
        Ok((left.len() < rows.len()).then_some(left))
    }

    /// Some of the rows that were added; `None` after the last.
    fn next_added(&mut self) -> Option<Updates> {
        let mut rows = Updates::new();
        while rows.len() < BATCH_ROWS
            && rows.bytes() < BATCH_BYTES
            && let Some(row) = self.added.next()
        {
            rows.push(&row, 1);
        }
        (!rows.is_empty()).then_some(rows)
    }
}

/// Stored rows as a collection.
struct Stored {
    desc: Arc<RelationDesc>,
    origin: Origin,
    overlay: Option<Arc<Updates>>,
    row_count: Precision<usize>,
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stored")
    }
}

impl Collection for Stored {
    fn schema(&self) -> &SchemaRef {
        &self.desc.schema
    }

    fn row_count(&self) -> Precision<usize> {
        self.row_count
    }

    fn read(&self, stages: &[BTreeSet<usize>], wanted: &Wanted) -> Result<Box<dyn Morsels>> {
        let types: Vec<_> = self.desc.columns.iter().map(|column| column.data_type.clone()).collect();
        let stage = |columns: &BTreeSet<usize>| {
            Ok(Stage { decoder: ColumnDecoder::new(&types, columns.clone())?, columns: columns.clone() })
        };
        let stages = stages.iter().map(stage).collect::<std::result::Result<_, RowError>>().map_err(internal)?;
        let overlay = self.overlay.as_ref().map(|updates| Overlay::new(updates));
        let mut source = self.origin.open()?;
        let left_out = match &mut source {
            RowSource::Shard(scan) => scan.only(|file| wanted.among(&Groups { file, schema: &self.desc.schema })),
            _ => (0, 0),
        };
        Ok(Box::new(Reading { source, overlay, stages, left_out }))
    }
}

/// The row groups of a file, as conditions see them.
struct Groups<'a> {
    file: &'a columns::File,
    schema: &'a SchemaRef,
}

impl Groups<'_> {
    fn bounds(&self, column: &Column) -> Option<columns::Bounds> {
        self.file.bounds(self.schema.index_of(column.name()).ok()?)
    }
}

impl PruningStatistics for Groups<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        Some(self.bounds(column)?.least)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        Some(self.bounds(column)?.greatest)
    }

    fn num_containers(&self) -> usize {
        self.file.groups().len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        Some(self.bounds(column)?.nulls)
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(UInt64Array::from_iter_values(self.file.groups().iter().map(|group| group.rows as u64))))
    }

    fn contained(&self, _column: &Column, _values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

/// A reading in progress.
struct Reading {
    source: RowSource,
    overlay: Option<Overlay>,
    stages: Arc<[Stage]>,
    left_out: (usize, usize),
}

/// Which columns are wanted at once, and how they are taken out of rows.
struct Stage {
    columns: BTreeSet<usize>,
    decoder: ColumnDecoder,
}

impl Morsels for Reading {
    fn next(&mut self) -> Result<Option<Box<dyn Morsel>>> {
        let stored = self.source.next().map_err(external)?;
        let found = stored.or_else(|| self.overlay.as_mut()?.next_added().map(Found::Own));
        let Some(found) = found else { return Ok(None) };
        let left = match (&mut self.overlay, &found) {
            (_, Found::Own(_)) | (None, _) => None,
            (Some(overlay), stored) => overlay.left(stored)?,
        };
        Ok(Some(Box::new(StoredRows { found, left, stages: Arc::clone(&self.stages) })))
    }

    fn left_out(&self) -> (usize, usize) {
        self.left_out
    }
}

/// Stored rows on their way to be decoded.
struct StoredRows {
    found: Found,
    /// Those that the transaction has not removed, unless these are all.
    left: Option<Vec<usize>>,
    stages: Arc<[Stage]>,
}

impl Morsel for StoredRows {
    fn len(&self) -> usize {
        self.left.as_ref().map_or_else(|| self.found.len(), Vec::len)
    }

    fn columns(&self, stage: usize, rows: Option<&[usize]>) -> Result<Vec<ArrayRef>> {
        let among_left: Vec<usize>;
        let at = match (&self.left, rows) {
            (Some(left), Some(rows)) => {
                among_left = rows.iter().map(|row| left[*row]).collect();
                Some(among_left.as_slice())
            }
            (left, rows) => rows.or(left.as_deref()),
        };
        self.found.decode(&self.stages[stage], at)
    }

    fn kept(&self, stage: usize) -> Result<Option<(Vec<ArrayRef>, Option<BooleanArray>)>> {
        match (&self.found, &self.left) {
            (Found::Columns(rows), None) => rows.kept(&self.stages[stage].columns).map_err(storage),
            _ => Ok(None),
        }
    }

    fn kept_some(&self, stage: usize, places: Places<'_>) -> Result<Vec<ArrayRef>> {
        let Found::Columns(rows) = &self.found else {
            return Err(internal("rows that are none of columns are kept so"));
        };
        let places = match places {
            Places::Where(start, mask) => OfGroup::Where(start, mask),
            Places::At(rows) => OfGroup::At(rows),
        };
        rows.kept_some(&self.stages[stage].columns, places).map_err(storage)
    }
}

fn internal(error: impl fmt::Display) -> DataFusionError {
    external(SqlError::internal(error.to_string()))
}

fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

fn failed(error: &ComputeError) -> DataFusionError {
    external(SqlError::new(error.sqlstate(), error.to_string()))
}

/// A shard that has gone, or has no rows of that time, is that of a table that was dropped or got other columns after the
/// statement was planned.
fn storage(error: PersistError) -> DataFusionError {
    external(match error {
        PersistError::UnknownShard(_) | PersistError::AsOfOutOfRange { .. } => {
            let message = "a table was dropped or changed while it was read";
            SqlError::new(SqlState::SERIALIZATION_FAILURE, message)
                .with_hint("The transaction might succeed if retried.")
        }
        error => SqlError::new(error.sqlstate(), error.to_string()),
    })
}
