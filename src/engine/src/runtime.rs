//! The engine: DataFusion's optimizer, physical planner and executor, configured for us.
//!
//! One session state is built at start and cloned for each execution with that execution's session and reader, and in as many
//! partitions as that is worth ([`super::partitions`]).

use super::analyze::{PlanFormat, analyzed};
use super::collection::{CollectionReader, ReaderExtension};
use super::faults::with_faults;
use super::fold::{physical, value_of};
use super::key_filters::{self, with_key_filters};
use super::memory::Pool;
use super::pace::Pace;
use super::partitions::{Crew, Together, is_large, partitions, sees_order};
use super::physical::physical_plan;
use super::session::SessionInfo;
use super::sorted_joins::SortedJoins;
use crate::dialect::Dialects;
use crate::error::SqlError;
use datafusion::common::config::{ConfigNonZeroUsize, ConfigOptions};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::execution::context::{ExecutionProps, SessionConfig, SessionState};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{SendableRecordBatchStream, TaskContext, TempFileFactory};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{Optimizer, OptimizerContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{LoweredAggregate, LoweredAggregateBuilder};
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, displayable, execute_stream};
use datafusion::physical_planner::create_window_expr;
use futures::StreamExt;
use ore::clock::Clock;
use ore::memory::Share;
use repr::sqlstate::SqlState;
use std::sync::Arc;

/// Plans and runs queries. Immutable; one per process, shared.
#[derive(Debug)]
pub struct Engine {
    state: SessionState,
    /// For plans from whose answer the order of their rows can be told: nothing of it depends on who else has memory.
    ordered: SessionState,
    optimizer: Optimizer,
    for_constants: Optimizer,
    options: Arc<ConfigOptions>,
    dialects: Dialects,
    crew: Arc<Crew>,
    /// For what queries keep beside DataFusion's operators.
    memory: Arc<Share>,
}

impl Engine {
    /// An engine with its optimizer, for plans of these dialects, whose queries may take all memory there is.
    pub fn new(dialects: Dialects) -> Engine {
        Engine::with(dialects, Share::root(usize::MAX, None), 1, None)
    }

    /// The same with a share of the memory for what its queries sort, group and join, all of them together: what does not fit is put
    /// aside where `spill` says, or gets 53200. A large query is run in so many partitions, each of which can be another thread's.
    pub fn with(
        dialects: Dialects,
        share: Arc<Share>,
        partitions: usize,
        spill: Option<Arc<dyn TempFileFactory>>,
    ) -> Engine {
        let mut config = SessionConfig::new()
            .with_target_partitions(1)
            .with_batch_size(8192)
            .with_information_schema(false)
            .with_create_default_catalog_and_schema(false);
        let options = config.options_mut();
        options.execution.enable_ansi_mode = true;
        options.execution.collect_statistics = false;
        // The check compares more of the schemas than their names and types, and fails plans that are right.
        options.execution.skip_physical_aggregate_schema_check = true;
        // Kept for the end of a sort, whether it ever puts anything aside or not.
        options.execution.sort_spill_reservation_bytes = 1 << 20;
        // A file for each batch of rows that go from partition to partition and do not fit: with two writers of larger ones a reader
        // waits for the one, and both for the reader (DataFusion 55.2, https://github.com/apache/datafusion/issues/24883).
        options.execution.max_spill_file_size_bytes = ConfigNonZeroUsize::try_new(1).expect("one");
        options.optimizer.max_passes = 3;
        // Filters that operators find out while they run are theirs to make right, and are not (DataFusion 55.2): a minimum that is
        // still NULL, zeros of two signs, arrays, columns of one name, rows below a LIMIT. Those of joins are ours: `key_filters`.
        options.optimizer.enable_dynamic_filter_pushdown = false;
        options.optimizer.enable_join_dynamic_filter_pushdown = false;
        options.optimizer.enable_topk_dynamic_filter_pushdown = false;
        options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
        options.sql_parser.map_string_types_to_utf8view = false;
        let options = Arc::new(options.clone());
        let state = |spill: Option<Arc<dyn TempFileFactory>>| {
            let pool = match &spill {
                Some(_) => Pool::that_spills(Arc::clone(&share)),
                None => Pool::new(Arc::clone(&share)),
            };
            let mut rules = super::checked::rules();
            if spill.is_some() {
                super::checked::before_placing(&mut rules, Arc::new(SortedJoins { memory: Arc::clone(&share) }));
            }
            let mode = spill.map_or(DiskManagerMode::Disabled, DiskManagerMode::Custom);
            let runtime = RuntimeEnvBuilder::new()
                .with_memory_pool(Arc::new(pool))
                .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(mode))
                .build_arc()
                .expect("neither directories nor caches are asked for");
            SessionStateBuilder::new()
                .with_config(config.clone())
                .with_runtime_env(runtime)
                .with_analyzer_rules(vec![])
                .with_optimizer_rules(vec![])
                .with_physical_optimizer_rules(rules)
                .with_physical_optimizer_rule(Arc::new(Pace { dialects }))
                .build()
        };
        let (state, ordered) = (state(spill), state(None));
        let (optimizer, for_constants) = (crate::rules::optimizer(), crate::rules::for_constants());
        let crew = Crew::new(partitions, share.limit());
        Engine { state, ordered, optimizer, for_constants, options, dialects, crew, memory: share }
    }

    /// Optimises a bound plan. Of the session, what is folded depends on nothing but its locale. Errors: 54001 if that takes more than
    /// the session's effort may be; 57014.
    pub fn optimize(&self, plan: LogicalPlan, session: &SessionInfo) -> Result<LogicalPlan, SqlError> {
        if let Some(effort) = &session.effort {
            effort.plan(&plan)?;
        }
        let plan = crate::rules::prepare(plan, self.dialects)?;
        crate::rules::finish(self.optimized(plan, &self.optimizer, session, 3)?)
    }

    fn optimized(
        &self,
        plan: LogicalPlan,
        optimizer: &Optimizer,
        session: &SessionInfo,
        passes: u8,
    ) -> Result<LogicalPlan, SqlError> {
        let options = Arc::new(self.options_of(&SessionInfo { now_us: None, folds: true, ..session.clone() }));
        let context = OptimizerContext::new_with_config_options(options).without_query_execution_start_time();
        let context = context.with_max_passes(passes);
        optimizer.optimize(plan, &context, |_, _| {}).map_err(|error| unplannable(error.into()))
    }

    /// Compiles an expression over one relation's columns.
    pub fn create_physical_expr(
        &self,
        expr: &Expr,
        schema: &DFSchema,
        session: &SessionInfo,
    ) -> Result<Arc<dyn PhysicalExpr>, SqlError> {
        // Only functions ask for the session; columns, constants, comparisons and casts are most of what is compiled.
        let is_call = |expr: &Expr| matches!(expr, Expr::ScalarFunction(_) | Expr::HigherOrderFunction(_));
        let calls = expr.exists(|expr| Ok(is_call(expr))).unwrap_or(true);
        let props = if calls { self.props(session) } else { ExecutionProps::new() };
        Ok(physical(expr.clone(), schema, &props)?)
    }

    /// The value of an expression without columns, in a session.
    pub fn compute(&self, expr: &Expr, session: &SessionInfo) -> Result<ScalarValue, SqlError> {
        let physical = self.create_physical_expr(expr, &DFSchema::empty(), session)?;
        Ok(value_of(physical.as_ref())?)
    }

    /// What functions find their session in.
    fn props(&self, session: &SessionInfo) -> ExecutionProps {
        let mut props = ExecutionProps::new();
        props.mark_start_execution(Arc::new(self.options_of(session)));
        props
    }

    fn options_of(&self, session: &SessionInfo) -> ConfigOptions {
        let mut options = self.options.as_ref().clone();
        options.extensions.insert(session.clone());
        options
    }

    /// Compiles a call of an aggregate over one relation's columns.
    pub fn create_aggregate(
        &self,
        expr: &Expr,
        schema: &DFSchema,
        session: &SessionInfo,
    ) -> Result<LoweredAggregate, SqlError> {
        let props = self.props(session);
        let context = PhysicalPlanningContext::default();
        let schema_of_rows = schema.as_arrow();
        Ok(LoweredAggregateBuilder::new(expr, schema, schema_of_rows, &props, &context).build()?)
    }

    /// Compiles a call of a window function over one relation's columns.
    pub fn create_window(
        &self,
        expr: &Expr,
        schema: &DFSchema,
        session: &SessionInfo,
    ) -> Result<Arc<dyn WindowExpr>, SqlError> {
        let context = PhysicalPlanningContext::default();
        Ok(create_window_expr(expr, schema, &self.props(session), &context)?)
    }

    /// Runs an optimised plan whose parameters have been replaced.
    ///
    /// # Cancellation
    /// Dropping the future or the stream stops the query.
    pub async fn execute(
        &self,
        plan: LogicalPlan,
        session: &SessionInfo,
        reader: Arc<dyn CollectionReader>,
    ) -> Result<SendableRecordBatchStream, SqlError> {
        Ok(self.run(plan, session, reader).await?.1)
    }

    /// The same of which nothing is given but what its operators did, when it is over: see [`Analysis`](crate::Analysis). Of what is
    /// recursive these are the operators of the last step.
    ///
    /// # Cancellation
    /// As [`Engine::execute`].
    pub async fn analyze(
        &self,
        plan: LogicalPlan,
        session: &SessionInfo,
        reader: Arc<dyn CollectionReader>,
        format: PlanFormat,
    ) -> Result<SendableRecordBatchStream, SqlError> {
        let started = Clock::system().monotonic();
        let (physical, running) = self.run(plan, session, reader).await?;
        Ok(analyzed(physical, running, format, started))
    }

    /// The operators of a plan, and the rows that they have begun to give.
    async fn run(
        &self,
        plan: LogicalPlan,
        session: &SessionInfo,
        reader: Arc<dyn CollectionReader>,
    ) -> Result<(Arc<dyn ExecutionPlan>, SendableRecordBatchStream), SqlError> {
        let (plan, mut state, together) = self.ready(plan, session, reader)?;
        let (plan, bindings) = super::fixpoint::solve(plan, self.dialects, &state).await?;
        if !bindings.is_empty() {
            state.config_mut().set_extension(Arc::new(bindings));
        }
        let physical = physical_plan(plan, self.dialects, &state).await?;
        let rows_min = if ore::sometimes(50) { 0 } else { key_filters::ROWS_MIN };
        let physical = with_faults(with_key_filters(physical, &self.memory, rows_min)?)?;
        let stream = execute_stream(Arc::clone(&physical), Arc::new(TaskContext::from(&state)))?;
        let Some(together) = together else { return Ok((physical, stream)) };
        let schema = stream.schema();
        let batches = stream.inspect(move |_| {
            let _until_it_ends = &together;
        });
        Ok((physical, Box::pin(RecordBatchStreamAdapter::new(schema, batches))))
    }

    /// The operators that would run, one per line, each below the one that it gives rows to. Of what is recursive it is the plan that is
    /// shown: the operators depend on what each round gives.
    ///
    /// # Cancellation
    /// Safe to drop.
    pub async fn explain(
        &self,
        plan: LogicalPlan,
        session: &SessionInfo,
        reader: Arc<dyn CollectionReader>,
    ) -> Result<String, SqlError> {
        if super::fixpoint::is_recursive(&plan)? {
            return Ok(plan.display_indent().to_string());
        }
        let (plan, state, _together) = self.ready(plan, session, reader)?;
        let physical = physical_plan(plan, self.dialects, &state).await?;
        let physical = with_key_filters(physical, &self.memory, key_filters::ROWS_MIN)?;
        Ok(displayable(physical.as_ref()).indent(false).to_string())
    }

    /// What is run of a plan, with what, and by what right in several partitions, if in several. Of a large plan the conditions are seen to
    /// once more: constants may have taken the place of parameters since it was optimised.
    fn ready(
        &self,
        plan: LogicalPlan,
        session: &SessionInfo,
        reader: Arc<dyn CollectionReader>,
    ) -> Result<(LogicalPlan, SessionState, Option<Together>), SqlError> {
        let sees_order = sees_order(&plan)?;
        let mut state = self.session_state(session, sees_order);
        let is_large = is_large(&plan, reader.as_ref())?;
        state.config_mut().set_extension(Arc::new(ReaderExtension { reader, is_large }));
        if !is_large {
            return Ok((plan, state, None));
        }
        let plan = self.optimized(plan, &self.for_constants, session, 1)?;
        let (count, together) = match sees_order {
            true => (1, None),
            false => partitions(&plan, self.dialects, &self.crew)?,
        };
        let options = state.config_mut().options_mut();
        options.execution.target_partitions = count;
        if ore::sometimes(30) {
            // As joins with more rows are: both sides in partitions.
            options.optimizer.hash_join_single_partition_threshold = 0;
            options.optimizer.hash_join_single_partition_threshold_rows = 0;
        }
        Ok((plan, state, together))
    }

    fn session_state(&self, session: &SessionInfo, sees_order: bool) -> SessionState {
        let mut state = if sees_order { self.ordered.clone() } else { self.state.clone() };
        state.config_mut().options_mut().extensions.insert(session.clone());
        // Functions find the session in the options that their physical expression was made with.
        let options = Arc::clone(state.config().options());
        state.execution_props_mut().mark_start_execution(options);
        state
    }
}

/// The query was bound, so the user's names are right: one that the optimizer cannot find is our mistake.
fn unplannable(error: SqlError) -> SqlError {
    match error.sqlstate {
        SqlState::UNDEFINED_COLUMN | SqlState::AMBIGUOUS_COLUMN | SqlState::DUPLICATE_COLUMN => {
            SqlError::internal(error.message)
        }
        _ => error,
    }
}
