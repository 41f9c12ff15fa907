//! How collections are scanned: a leaf of physical plans that does only what is asked.
//!
//! A scan knows which columns are wanted, which filters the rows have to pass, and how many rows are enough. The columns of the first
//! filter are decoded first; those of the next, and in the end those that are wanted, only of the rows that have passed
//! ([`stages`]). Several partitions share one reading, of which each takes a morsel at a time ([`shared`]): whoever is quicker takes
//! more, and no row has to be moved.
//!
//! The filters that a query has come to the scan in its plan ([`super::physical`]).

mod shared;
mod stages;

use crate::morsels::{Collection, Morsels, Wanted};
use arrow::array::RecordBatch;
use arrow::compute::BatchCoalescer;
use arrow::datatypes::{Field, Fields, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::projection::{ProjectionExec, all_alias_free_columns, new_projections_for_columns};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use parking_lot::Mutex;
use repr::GlobalId;
use shared::Readings;
use stages::Stages;
use std::fmt;
use std::sync::Arc;
use std::task::Poll;

/// What part of the rows a filter leaves, as long as nothing is known of them: DataFusion's guess.
const SELECTIVITY: f64 = 0.2;
/// Bytes of a value of variable width, as long as nothing is known of them.
const WIDTH: usize = 32;
/// Bytes that say where such a value is.
const VIEW_WIDTH: usize = 16;

/// What is known of the rows of a collection before they are read.
#[derive(Clone, Debug, Default)]
pub(super) struct Hints {
    /// How many of the filters cannot fail, until the first that can.
    pub(super) certain: usize,
    /// What those that pass the filters pass.
    pub(super) wanted: Arc<Wanted>,
    /// What part of all passes them.
    pub(super) selectivity: Option<f64>,
    /// The values of all of its columns.
    pub(super) columns: Option<Arc<Statistics>>,
}

/// A scan of a collection.
#[derive(Debug)]
pub(super) struct CollectionExec {
    id: GlobalId,
    collection: Arc<dyn Collection>,
    /// The columns of the collection that it gives.
    projection: Vec<usize>,
    /// What the rows have to pass, in this order, over the columns of the collection.
    filters: Vec<Arc<dyn PhysicalExpr>>,
    /// How many rows of each partition are enough.
    fetch: Option<usize>,
    known: Hints,
    readings: Readings,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl CollectionExec {
    /// A scan in one partition.
    pub(super) fn new(
        id: GlobalId,
        collection: Arc<dyn Collection>,
        projection: Vec<usize>,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        fetch: Option<usize>,
        known: Hints,
    ) -> Result<CollectionExec> {
        let properties = properties(collection.as_ref(), &projection, 1)?;
        let (readings, metrics) = (Readings::new(1), ExecutionPlanMetricsSet::new());
        Ok(CollectionExec { id, collection, projection, filters, fetch, known, readings, properties, metrics })
    }

    /// The same scan, to be changed before it runs.
    fn copy(&self) -> CollectionExec {
        CollectionExec {
            id: self.id,
            collection: Arc::clone(&self.collection),
            projection: self.projection.clone(),
            filters: self.filters.clone(),
            fetch: self.fetch,
            known: self.known.clone(),
            readings: Readings::new(self.partitions()),
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The same scan of rows that pass one more condition in the end, which cannot fail.
    pub(super) fn with_last_filter(&self, filter: Arc<dyn PhysicalExpr>) -> CollectionExec {
        let mut scan = self.copy();
        if scan.known.certain == scan.filters.len() {
            scan.known.certain += 1;
        }
        scan.filters.push(filter);
        scan
    }

    /// The column of the collection that one of its own is.
    pub(super) fn stored(&self, column: usize) -> Option<(usize, &Field)> {
        let stored = *self.projection.get(column)?;
        Some((stored, self.collection.schema().field(stored)))
    }

    /// Whether there are at least so many rows to read.
    pub(super) fn has_rows(&self, rows: usize) -> bool {
        self.collection.row_count().get_value().is_some_and(|count| *count >= rows)
    }

    fn partitions(&self) -> usize {
        self.properties.partitioning.partition_count()
    }

    /// About how many bytes its rows have.
    fn width(&self) -> usize {
        let all = self.collection.schema();
        let fixed =
            |fields: &Fields| -> usize { fields.iter().filter_map(|field| field.data_type().primitive_width()).sum() };
        let variable =
            |fields: &Fields| fields.iter().filter(|field| field.data_type().primitive_width().is_none()).count();
        let known = self.known.columns.as_ref().and_then(|known| {
            let (bytes, rows) = (known.total_byte_size.get_value()?, known.num_rows.get_value()?);
            let of_row = bytes.checked_div(*rows)?;
            // What is not of fixed width has the rest, in equal parts, and where it is.
            Some(of_row.saturating_sub(fixed(all.fields())) / variable(all.fields()).max(1) + VIEW_WIDTH)
        });
        let fields = self.schema_ref().fields();
        fixed(fields) + variable(fields) * known.unwrap_or(WIDTH)
    }

    /// How many rows it gives.
    fn row_count(&self) -> Precision<usize> {
        let all = self.collection.row_count();
        let passed = if self.filters.is_empty() {
            all
        } else {
            all.with_estimated_selectivity(self.known.selectivity.unwrap_or(SELECTIVITY))
        };
        match self.fetch {
            Some(fetch) => passed.min(&Precision::Exact(fetch)),
            None => passed,
        }
    }
}

impl DisplayAs for CollectionExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.schema_ref().fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "{}: {}, columns=[{}]", self.name(), self.id, names.join(", "))?;
        let filters: Vec<String> = self.filters.iter().map(ToString::to_string).collect();
        if !filters.is_empty() {
            write!(f, ", filters=[{}]", filters.join(", "))?;
        }
        if let Some(fetch) = self.fetch {
            write!(f, ", fetch={fetch}")?;
        }
        write!(f, ", partitions={}", self.partitions())
    }
}

impl CollectionExec {
    fn schema_ref(&self) -> &SchemaRef {
        self.properties.eq_properties.schema()
    }
}

impl ExecutionPlan for CollectionExec {
    fn name(&self) -> &'static str {
        "CollectionExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut recursion = TreeNodeRecursion::Continue;
        for filter in &self.filters {
            recursion = recursion.visit_sibling(|| f(filter))?;
        }
        Ok(recursion)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("a scan has no children"),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.copy()))
    }

    fn repartitioned(&self, partitions: usize, _config: &ConfigOptions) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if partitions <= self.partitions() || self.fetch.is_some() {
            return Ok(None);
        }
        let properties = properties(self.collection.as_ref(), &self.projection, partitions)?;
        Ok(Some(Arc::new(CollectionExec { readings: Readings::new(partitions), properties, ..self.copy() })))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let stages = Stages::new(self.collection.schema(), &self.filters, self.known.certain, &self.projection)?;
        let source = self.readings.join(partition, || {
            let reading = self.collection.read(stages.columns(), &self.known.wanted)?;
            let (left_out, groups) = reading.left_out();
            let count = |name| MetricBuilder::new(&self.metrics).counter(name, partition);
            count("row_groups").add(groups);
            count("row_groups_left_out").add(left_out);
            Ok(reading)
        })?;
        let (schema, rows) = (Arc::clone(self.schema_ref()), context.session_config().batch_size());
        let mut batches = BatchCoalescer::new(Arc::clone(&schema), rows);
        batches.set_biggest_coalesce_batch_size(Some(rows / 2));
        let left = self.fetch.unwrap_or(usize::MAX);
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let mut scan = Scan {
            source,
            stages,
            schema: Arc::clone(&schema),
            batches,
            left,
            is_over: false,
            has_others: self.partitions() > 1,
            gives_way: false,
            metrics,
        };
        let stream = futures::stream::poll_fn(move |context| {
            // Another partition that has waited for the same thing may be next on this thread, where no other takes it.
            let step = if std::mem::take(&mut scan.gives_way) { Ok(Poll::Pending) } else { scan.step() };
            if matches!(step, Ok(Poll::Pending)) {
                scan.gives_way = false;
                context.waker().wake_by_ref();
            }
            step.map_or_else(|error| Poll::Ready(Some(Err(error))), |step| step.map(|batch| batch.map(Ok)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let all = self.row_count();
        let num_rows = match args.partition() {
            Some(_) if self.partitions() > 1 => all.with_estimated_selectivity(1.0 / self.partitions() as f64),
            _ => all,
        };
        let width = self.width();
        let total_byte_size = num_rows.map(|rows| rows.saturating_mul(width)).to_inexact();
        // Not the least and the greatest values: DataFusion takes those for bounds, and rows that are not in files have others.
        let column = |at: &usize| {
            let known = self.known.columns.as_ref().and_then(|known| known.column_statistics.get(*at));
            known.map_or_else(ColumnStatistics::new_unknown, |all| ColumnStatistics {
                // Of some rows there are not more different values than there are rows.
                distinct_count: all.distinct_count.min(&num_rows).to_inexact(),
                null_count: all.null_count.min(&num_rows).to_inexact(),
                ..ColumnStatistics::new_unknown()
            })
        };
        let column_statistics = self.projection.iter().map(column).collect();
        Ok(Arc::new(Statistics { num_rows, total_byte_size, column_statistics }))
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(CollectionExec { fetch, ..self.copy() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if !all_alias_free_columns(projection.expr()) {
            return Ok(None);
        }
        let columns = new_projections_for_columns(projection.expr(), &self.projection);
        let properties = properties(self.collection.as_ref(), &columns, self.partitions())?;
        Ok(Some(Arc::new(CollectionExec { projection: columns, properties, ..self.copy() })))
    }
}

/// What is known of a scan that gives these columns.
fn properties(collection: &dyn Collection, projection: &[usize], partitions: usize) -> Result<Arc<PlanProperties>> {
    let order = EquivalenceProperties::new(Arc::new(collection.schema().project(projection)?));
    let parts = Partitioning::UnknownPartitioning(partitions);
    Ok(Arc::new(PlanProperties::new(order, parts, EmissionType::Incremental, Boundedness::Bounded)))
}

/// A partition of a scan, running.
struct Scan {
    source: Arc<Mutex<Box<dyn Morsels>>>,
    stages: Stages,
    schema: SchemaRef,
    batches: BatchCoalescer,
    /// How many rows are still wanted.
    left: usize,
    is_over: bool,
    /// Whether there are other partitions.
    has_others: bool,
    /// Whether a morsel has been worked on since these had a turn.
    gives_way: bool,
    metrics: BaselineMetrics,
}

impl Scan {
    /// Does the work of a morsel at the most: a batch, none at the end, or pending if there is more to do before there is one.
    fn step(&mut self) -> Result<Poll<Option<RecordBatch>>> {
        let time = self.metrics.elapsed_compute().clone();
        let _timer = time.timer();
        if let Some(batch) = self.batches.next_completed_batch() {
            return Ok(Poll::Ready(Some(self.counted(batch))));
        }
        if self.is_over {
            return Ok(Poll::Ready(None));
        }
        let next = if self.left == 0 { None } else { self.source.lock().next()? };
        let Some(morsel) = next else {
            self.is_over = true;
            self.batches.finish_buffered_batch()?;
            return Ok(Poll::Pending);
        };
        self.gives_way = self.has_others;
        for batch in self.stages.run(morsel.as_ref(), &self.schema)? {
            let batch = batch.slice(0, batch.num_rows().min(self.left));
            self.left -= batch.num_rows();
            // Of rows without columns there is nothing to put together, and no more than one batch.
            if batch.num_columns() == 0 && batch.num_rows() > 0 {
                return Ok(Poll::Ready(Some(self.counted(batch))));
            }
            self.batches.push_batch(batch)?;
        }
        Ok(match self.batches.next_completed_batch() {
            Some(batch) => Poll::Ready(Some(self.counted(batch))),
            None => Poll::Pending,
        })
    }

    fn counted(&self, batch: RecordBatch) -> RecordBatch {
        batch.record_output(&self.metrics)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collection::{CollectionReader, CollectionTable};
    use crate::morsels::{InMemory, Morsel, Places};
    use crate::{Engine, SessionInfo};
    use arrow::array::{ArrayRef, AsArray, BooleanArray, Int32Array, StringViewArray};
    use arrow::datatypes::Int32Type;
    use async_trait::async_trait;
    use datafusion::common::ScalarValue;
    use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, col, lit};
    use futures::TryStreamExt;
    use ore::memory::Share;
    use proptest::prelude::{any, prop, prop_assert_eq, proptest};
    use repr::{PgType, RelationDesc};
    use std::collections::BTreeSet;

    const ID: GlobalId = GlobalId::User(1);

    type Row = (Option<i32>, String, Option<i32>);

    fn desc() -> Arc<RelationDesc> {
        let columns = [("a", PgType::Int4, true), ("t", PgType::Text, false), ("b", PgType::Int4, true)];
        Arc::new(RelationDesc::new(columns.map(|(name, ty, nullable)| (name.to_owned(), ty, nullable))))
    }

    /// Rows in morsels.
    #[derive(Clone, Debug)]
    struct Rows(SchemaRef, Vec<Vec<Row>>);

    struct Reading(std::vec::IntoIter<Box<dyn Morsel>>);

    /// Rows that are kept as columns, where some may have gone.
    struct Kept {
        whole: Box<dyn Morsel>,
        there: Option<BooleanArray>,
    }

    impl Morsel for Kept {
        fn len(&self) -> usize {
            self.there.as_ref().map_or(self.whole.len(), BooleanArray::true_count)
        }

        fn columns(&self, stage: usize, rows: Option<&[usize]>) -> Result<Vec<ArrayRef>> {
            let Some(there) = &self.there else { return self.whole.columns(stage, rows) };
            let own: Vec<usize> = there.values().set_indices().collect();
            let places = rows.map(|rows| rows.iter().map(|row| own[*row]).collect());
            self.whole.columns(stage, Some(&places.unwrap_or(own)))
        }

        fn kept(&self, stage: usize) -> Result<Option<(Vec<ArrayRef>, Option<BooleanArray>)>> {
            Ok(Some((self.whole.columns(stage, None)?, self.there.clone())))
        }

        fn kept_some(&self, stage: usize, places: Places<'_>) -> Result<Vec<ArrayRef>> {
            match places {
                Places::Where(start, mask) => {
                    let rows: Vec<usize> = mask.values().set_indices().map(|row| start + row).collect();
                    self.whole.columns(stage, Some(&rows))
                }
                Places::At(rows) => self.whole.columns(stage, Some(rows)),
            }
        }
    }

    impl Morsels for Reading {
        fn next(&mut self) -> Result<Option<Box<dyn Morsel>>> {
            Ok(self.0.next())
        }
    }

    impl Collection for Rows {
        fn schema(&self) -> &SchemaRef {
            &self.0
        }

        fn row_count(&self) -> Precision<usize> {
            Precision::Exact(self.1.iter().map(Vec::len).sum())
        }

        fn read(&self, stages: &[BTreeSet<usize>], wanted: &Wanted) -> Result<Box<dyn Morsels>> {
            let mut morsels = Vec::new();
            for (at, rows) in self.1.iter().enumerate() {
                // Of every third one half of the rows have gone, which would pass as well.
                let gone = usize::from(at % 3 == 1);
                let rows: Vec<&Row> = rows.iter().flat_map(|row| std::iter::repeat_n(row, 1 + gone)).collect();
                let columns: Vec<ArrayRef> = vec![
                    Arc::new(rows.iter().map(|row| row.0).collect::<Int32Array>()),
                    Arc::new(StringViewArray::from_iter_values(rows.iter().map(|row| row.1.as_str()))),
                    Arc::new(rows.iter().map(|row| row.2).collect::<Int32Array>()),
                ];
                let mut whole = InMemory(RecordBatch::try_new(Arc::clone(&self.0), columns)?).read(stages, wanted)?;
                let there = BooleanArray::from_iter((0..rows.len()).map(|row| Some(row % (1 + gone) == 0)));
                morsels.extend(whole.next()?.map(|whole| match at % 3 {
                    0 => whole,
                    _ => Box::new(Kept { whole, there: (gone > 0).then_some(there) }) as Box<dyn Morsel>,
                }));
            }
            Ok(Box::new(Reading(morsels.into_iter())))
        }
    }

    #[async_trait]
    impl CollectionReader for Rows {
        fn row_count(&self, _id: GlobalId, _filters: &[Expr]) -> Option<usize> {
            Some(self.1.iter().map(Vec::len).sum())
        }

        fn statistics(&self, _id: GlobalId) -> Option<Arc<Statistics>> {
            None
        }

        async fn open(&self, id: GlobalId, _filters: &[Expr]) -> Result<Arc<dyn Collection>> {
            assert_eq!(id, ID);
            Ok(Arc::new(self.clone()))
        }
    }

    /// Runs a plan in so many partitions, and gives its rows as text.
    async fn run(plan: &LogicalPlan, rows: &Rows, partitions: usize) -> Vec<String> {
        let engine = Engine::with(&[], Share::root(usize::MAX, None), partitions, None);
        let session = SessionInfo::default();
        let plan = engine.optimize(plan.clone(), &session).expect("it is a plan");
        let stream = engine.execute(plan, &session, Arc::new(rows.clone())).await.expect("it runs");
        let batches: Vec<RecordBatch> = stream.try_collect().await.expect("it runs to its end");
        let text = |batch: &RecordBatch, at: usize| {
            let values = batch.columns().iter().map(|column| match column.as_string_view_opt() {
                Some(texts) => texts.value(at).to_owned(),
                None => format!("{:?}", column.as_primitive::<Int32Type>().iter().nth(at).flatten()),
            });
            values.collect::<Vec<_>>().join(" ")
        };
        let rows = batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |at| text(batch, at)));
        rows.collect()
    }

    proptest! {
        #[test]
        fn rows_that_pass_come_once_with_what_is_wanted(
            morsels in prop::collection::vec(
                prop::collection::vec((any::<Option<i32>>(), "[a-c]{0,20}", prop::option::of(0..4_i32)), 0..30), 0..8),
            wanted in prop::collection::btree_set(0..3_usize, 0..3),
            (least, text, number) in
                (prop::option::of(any::<i32>()), prop::option::of("[a-c]"), prop::option::of(0..4_i32)),
            partitions in 1..8_usize) {
            let rows = Rows(Arc::clone(&desc().schema), morsels);
            let mut plan = LogicalPlanBuilder::scan("r", CollectionTable::source(ID, desc()), None).expect("it is a table");
            let mut filters = Vec::new();
            filters.extend(least.map(|least| col("a").gt_eq(lit(least))));
            filters.extend(text.as_ref().map(|text| col("t").gt(lit(ScalarValue::Utf8View(Some(text.clone()))))));
            filters.extend(number.map(|number| col("b").eq(lit(number)).or(col("a").eq(col("b")))));
            if let Some(filter) = filters.into_iter().reduce(Expr::and) {
                plan = plan.filter(filter).expect("sound");
            }
            let names = ["a", "t", "b"];
            plan = plan.project(wanted.iter().map(|at| col(names[*at]))).expect("sound");
            let passes = |(a, t, b): &&Row| {
                least.is_none_or(|least| a.is_some_and(|a| a >= least))
                    && text.as_ref().is_none_or(|text| t > text)
                    && number.is_none_or(|number| *b == Some(number) || (b.is_some() && a == b))
            };
            let print = |(a, t, b): &Row| {
                let values = [format!("{a:?}"), t.clone(), format!("{b:?}")];
                wanted.iter().map(|at| values[*at].clone()).collect::<Vec<_>>().join(" ")
            };
            let expected: Vec<String> = rows.1.iter().flatten().filter(passes).map(print).collect();
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("it starts");
            let plan = plan.build().expect("sound");
            let mut found = runtime.block_on(run(&plan, &rows, partitions));
            // In one partition they come in their order.
            prop_assert_eq!(&runtime.block_on(run(&plan, &rows, 1)), &expected);
            let mut expected = expected;
            found.sort();
            expected.sort();
            prop_assert_eq!(found, expected);
        }
    }

    #[tokio::test]
    async fn a_limit_takes_the_first_rows() {
        let row = |a: i32| (Some(a), String::new(), None);
        let rows = Rows(Arc::clone(&desc().schema), vec![(0..10).map(row).collect(), (10..20).map(row).collect()]);
        let scan =
            || LogicalPlanBuilder::scan("r", CollectionTable::source(ID, desc()), Some(vec![0])).expect("a table");
        for (fetch, expected) in [(0, 0..0), (3, 12..15), (100, 12..20)] {
            let plan = scan().filter(col("a").gt_eq(lit(12))).and_then(|plan| plan.limit(0, Some(fetch)));
            let plan = plan.and_then(LogicalPlanBuilder::build).expect("sound");
            let expected: Vec<String> = expected.map(|a| format!("{:?}", Some(a))).collect();
            assert_eq!(run(&plan, &rows, 4).await, expected);
        }
    }
}
