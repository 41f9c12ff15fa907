//! Collections for the ad hoc engine, all as of one time.
//!
//! A table with an index is read from the index's snapshot, which is in memory; without one, from its durable shard. What
//! the session's own transaction has written and not committed lies over it. System relations are made from the catalog.

use crate::introspection;
use crate::shared::Shared;
use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use async_trait::async_trait;
use catalog::builtin::{self, Context};
use committer::constraint::net_rows;
use committer::published::Published;
use committer::sequence::Sequence;
use compute_client::error::ComputeError;
use compute_client::peek::{self, Bound, PeekRows};
use compute_client::plan::{Access, IndexInfo, Output, PeekPlan, scan_access};
use compute_client::uncommitted::Uncommitted;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use engine::error::SqlError;
use engine::{CollectionReader, SessionInfo};
use persist::{PersistClient, PersistError, ShardSnapshot};
use repr::row::RowCodec;
use repr::sqlstate::SqlState;
use repr::{Diff, GlobalId, RelationDesc, Timestamp, Updates};
use sql::plan::sequence::COLUMNS;
use std::collections::HashMap;
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
        let opened = match index {
            _ if self.published.created.contains(&id) => return Ok((Origin::Empty, own, desc)),
            Some(index) => match self.open_index(id, index, filters).await {
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
            None => (Origin::Shard(self.shared.persist.clone(), id, self.as_of), own),
        };
        Ok((origin, overlay, desc))
    }

    /// The rows of an index, and what of the transaction's own is still to be laid over them.
    async fn open_index(
        &self,
        id: GlobalId,
        first: &Arc<IndexInfo>,
        filters: &[Expr],
    ) -> std::result::Result<(Box<PeekRows>, Option<Arc<Updates>>), ComputeError> {
        let hydrated = self.published.indexes_on(id).iter().filter(|index| is_readable(index));
        let (index, access) = scan_access(hydrated.cloned(), filters).unwrap_or((Arc::clone(first), Access::Scan));
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

/// Whether an index has rows, and goes on to have them.
fn is_readable(index: &IndexInfo) -> bool {
    index.handle.is_hydrated() && index.handle.check().is_ok()
}

#[async_trait]
impl CollectionReader for StatementReader {
    async fn scan(
        &self,
        id: GlobalId,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
        _state: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if let GlobalId::System(_) = id {
            let now = introspection::Now { shared: &self.shared, published: &self.published };
            let context = Context { catalog: &self.published.state, session: &self.session, live: &now };
            let batch = builtin::rows(id, &context).map_err(external)?;
            let schema = batch.schema();
            return Ok(MemorySourceConfig::try_new_exec(&[vec![batch]], schema, projection.cloned())?);
        }
        if let Some(sequence) = self.published.sequences.get(&id) {
            let batch = sequence_row(sequence).map_err(|error| DataFusionError::ArrowError(Box::new(error), None))?;
            let schema = batch.schema();
            return Ok(MemorySourceConfig::try_new_exec(&[vec![batch]], schema, projection.cloned())?);
        }
        let (origin, overlay, desc) = self.origin(id, filters).await?;
        let partition = CollectionStream { desc: Arc::clone(&desc), origin, overlay };
        let exec = StreamingTableExec::try_new(
            Arc::clone(&desc.schema),
            vec![Arc::new(partition)],
            projection,
            std::iter::empty(),
            false,
            limit.filter(|_| filters.is_empty()),
        )?;
        Ok(Arc::new(exec))
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
    Shard(PersistClient, GlobalId, Timestamp),
}

impl Origin {
    fn open(&self) -> Result<RowSource> {
        Ok(match self {
            Origin::Empty => RowSource::Empty,
            Origin::Index(rows) => RowSource::Index(rows.clone()),
            Origin::Shard(persist, id, as_of) => {
                let snapshot = persist.snapshot((*id).into(), *as_of).map_err(storage)?;
                RowSource::Shard { snapshot: Box::new(snapshot), pending: Arc::default(), at: 0, copies: 0 }
            }
        })
    }
}

/// One reading of stored rows.
enum RowSource {
    Empty,
    Index(Box<PeekRows>),
    Shard { snapshot: Box<ShardSnapshot>, pending: Arc<Updates>, at: usize, copies: Diff },
}

impl RowSource {
    /// Takes the rows of a batch; none are left when it takes none.
    fn take(&mut self, mut row: impl FnMut(&[u8])) -> std::result::Result<usize, SqlError> {
        match self {
            RowSource::Empty => Ok(0),
            RowSource::Index(rows) => {
                let chunk = rows
                    .next_chunk_within(BATCH_ROWS, BATCH_BYTES)
                    .map_err(|error| SqlError::new(error.sqlstate(), error.to_string()))?;
                Ok(chunk.map_or(0, |chunk| chunk.rows().map(&mut row).count()))
            }
            RowSource::Shard { snapshot, pending, at, copies } => {
                let (mut count, mut size) = (0, 0);
                while count < BATCH_ROWS && size < BATCH_BYTES {
                    if *at == pending.len() {
                        let next = snapshot
                            .next_batch()
                            .map_err(|error| SqlError::new(error.sqlstate(), error.to_string()))?;
                        let Some(next) = next else { return Ok(count) };
                        (*pending, *at, *copies) = (Arc::new(next), 0, 0);
                        continue;
                    }
                    let (bytes, diff) = pending.get(*at);
                    if diff < 0 {
                        return Err(SqlError::internal("a table holds a row with a negative multiplicity"));
                    }
                    if *copies == diff {
                        (*at, *copies) = (*at + 1, 0);
                        continue;
                    }
                    row(bytes);
                    *copies += 1;
                    count += 1;
                    size += bytes.len();
                }
                Ok(count)
            }
        }
    }
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
}

/// One scan in progress.
struct Scan {
    source: RowSource,
    overlay: Option<Overlay>,
    codec: RowCodec,
    schema: SchemaRef,
}

impl Scan {
    fn next_batch(&mut self) -> std::result::Result<Option<RecordBatch>, SqlError> {
        let mut rows = Updates::new();
        while rows.is_empty() {
            let overlay = &mut self.overlay;
            let taken = self.source.take(|row| {
                if let Some(copies) = overlay.as_mut().and_then(|overlay| overlay.removed.get_mut(row))
                    && *copies > 0
                {
                    *copies -= 1;
                } else {
                    rows.push(row, 1);
                }
            })?;
            if taken == 0 {
                let mut added = self.overlay.iter_mut().flat_map(|overlay| overlay.added.by_ref());
                while rows.len() < BATCH_ROWS
                    && rows.bytes() < BATCH_BYTES
                    && let Some(row) = added.next()
                {
                    rows.push(&row, 1);
                }
                if rows.is_empty() {
                    return Ok(None);
                }
            }
        }
        let internal = |error: &dyn fmt::Display| SqlError::internal(error.to_string());
        let columns = self.codec.decode(rows.iter().map(|(row, _)| row)).map_err(|error| internal(&error))?;
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map(Some).map_err(|error| internal(&error))
    }
}

/// A scan as DataFusion runs it.
struct CollectionStream {
    desc: Arc<RelationDesc>,
    origin: Origin,
    overlay: Option<Arc<Updates>>,
}

impl CollectionStream {
    fn open(&self) -> Result<Scan> {
        let types: Vec<_> = self.desc.columns.iter().map(|column| column.data_type.clone()).collect();
        let codec = RowCodec::new(&types).map_err(|error| DataFusionError::External(Box::new(error)))?;
        let overlay = self.overlay.as_ref().map(|updates| Overlay::new(updates));
        Ok(Scan { source: self.origin.open()?, overlay, codec, schema: Arc::clone(&self.desc.schema) })
    }
}

impl fmt::Debug for CollectionStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CollectionStream")
    }
}

impl PartitionStream for CollectionStream {
    fn schema(&self) -> &SchemaRef {
        &self.desc.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.desc.schema);
        match self.open() {
            Ok(mut scan) => {
                let batches = std::iter::from_fn(move || scan.next_batch().transpose());
                let stream = futures::stream::iter(batches.map(|batch| batch.map_err(external)));
                Box::pin(RecordBatchStreamAdapter::new(schema, stream))
            }
            Err(error) => {
                let failed = futures::stream::once(std::future::ready(Err(error)));
                Box::pin(RecordBatchStreamAdapter::new(schema, failed))
            }
        }
    }
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
