//! How what is maintained follows from what it reads: the plans of indexes, materialized views and subscriptions.

use crate::error::CommitError;
use crate::published::Published;
use catalog::state::State;
use catalog::transact::{Prepared, StateDiff};
use compute_client::plan::lir::{Lir, Node};
use compute_client::plan::lower::lower;
use compute_client::plan::reuse::Arrangement;
use compute_client::plan::unqualified;
use compute_client::protocol::KeyExpr;
use datafusion::common::DFSchema;
use engine::{Engine, SessionInfo};
use repr::GlobalId;
use repr::sqlstate::SqlState;
use sql::plan::{CatalogView, IndexKey, ItemKind, ItemRef, PlanContext, plan_index_keys, plan_view};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whether the committer writes down what is maintained.
pub enum Durable {
    /// It goes when its cluster goes.
    No,
    /// It is a materialized view.
    Yes,
}

/// What a subscription needs maintained.
pub struct Target {
    /// What its rows are.
    pub plan: Lir,
    /// The name of the cluster.
    pub cluster: String,
}

/// How an index or a materialized view is maintained.
pub struct Planned {
    pub(crate) on: Arc<ItemRef>,
    pub(crate) plan: Lir,
    pub(crate) keys: Vec<KeyExpr>,
    pub(crate) columns: Vec<Option<usize>>,
    pub(crate) durable: Durable,
}

/// By what is maintained: how.
pub type Plans = BTreeMap<GlobalId, Planned>;

/// How those are maintained that a change creates. Errors: one of them cannot be, with which one.
pub fn plan_created(engine: &Engine, prepared: &Prepared) -> Result<Plans, (Arc<ItemRef>, CommitError)> {
    let mut plans = Plans::new();
    for change in &prepared.diff {
        let (StateDiff::IndexCreated(id) | StateDiff::MaterializedViewCreated(id)) = change else { continue };
        let Some(item) = prepared.state.item(*id) else { continue };
        let planned = planned(engine, &prepared.state, &item).map_err(|why| (item, why))?;
        plans.insert(*id, planned);
    }
    Ok(plans)
}

/// Errors: what is maintained by this index or materialized view cannot be.
pub(crate) fn planned(engine: &Engine, state: &State, item: &Arc<ItemRef>) -> Result<Planned, CommitError> {
    let missing = |what: &str| CommitError::internal(format!("{} has no {what}", item.id));
    let info = SessionInfo::default();
    let ctx = context(engine, state, &info, item);
    match &item.kind {
        ItemKind::Index(index) => {
            let on = state.item(index.on).ok_or_else(|| missing("relation"))?;
            let plan = maintained(&ctx, &on)?;
            let keys = key_exprs(engine, &plan_index_keys(&ctx, &on, &index.keys)?, &on, &info)?;
            let columns = index.keys.iter().map(|key| key.column).collect();
            Ok(Planned { on, plan, keys, columns, durable: Durable::No })
        }
        ItemKind::MaterializedView(_) => {
            // By all of its columns: any first ones can be looked up.
            let width = item.desc.arity();
            let (keys, columns) = ((0..width).map(KeyExpr::Column).collect(), (0..width).map(Some).collect());
            let plan = maintained_view(&ctx, item)?;
            Ok(Planned { on: Arc::clone(item), plan, keys, columns, durable: Durable::Yes })
        }
        _ => Err(missing("dataflow")),
    }
}

/// The plan by which a relation's rows are maintained. Error 0A000 names what cannot be.
pub fn maintained(ctx: &PlanContext<'_>, on: &ItemRef) -> Result<Lir, CommitError> {
    match &on.kind {
        ItemKind::Table { .. } | ItemKind::MaterializedView(_) => {
            Ok(Lir { node: Node::Get(on.id), schema: Arc::clone(&on.desc.schema) })
        }
        ItemKind::View(_) => maintained_view(ctx, on),
        _ => Err(CommitError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("an index on \"{}\" is not supported", on.name.item),
        )),
    }
}

/// The plan by which the rows of a view, materialized or not, follow from what it reads. Error 0A000 names what cannot be.
pub fn maintained_view(ctx: &PlanContext<'_>, view: &ItemRef) -> Result<Lir, CommitError> {
    let select = plan_view(ctx, view)?;
    let system = select.depends_on.iter().filter(|id| matches!(id, GlobalId::System(_)));
    if let Some(item) = system.filter_map(|id| ctx.catalog.item(*id)).next() {
        return Err(engine::error::SqlError::unsupported(format!(
            "system relation {} in a maintained view",
            item.name
        ))
        .into());
    }
    let mut plan = lower(&select.logical, ctx.engine)?;
    // Under the names by which readers know its columns.
    plan.schema = Arc::clone(&view.desc.schema);
    Ok(plan)
}

/// Plans as the owner of `item`, whose rights were checked when it was created.
fn context<'a>(engine: &'a Engine, state: &'a State, info: &'a SessionInfo, item: &ItemRef) -> PlanContext<'a> {
    PlanContext { engine, catalog: state, session: info, role: item.owner, cluster: "", from_tables: true }
}

/// Compiles an index's key.
fn key_exprs(
    engine: &Engine,
    keys: &[IndexKey],
    on: &ItemRef,
    info: &SessionInfo,
) -> Result<Vec<KeyExpr>, CommitError> {
    let schema = DFSchema::try_from(Arc::clone(&on.desc.schema)).map_err(engine::error::SqlError::from)?;
    keys.iter()
        .map(|key| match key.def.column {
            Some(column) => Ok(KeyExpr::Column(column)),
            None => {
                let expr = unqualified(key.expr.clone())
                    .ok_or_else(|| CommitError::internal("an index key is an expression over its relation"))?;
                let expr = engine.create_physical_expr(&expr, &schema, info)?;
                Ok(KeyExpr::Expr(expr, key.ty.data_type()))
            }
        })
        .collect()
}

/// The arrangements of a table, each given by its index and its columns.
pub fn described(
    published: &Published,
    table: GlobalId,
    arrangements: impl IntoIterator<Item = (GlobalId, Vec<usize>)>,
) -> Vec<Arrangement> {
    let Some(item) = published.state.item(table) else { return Vec::new() };
    let described = |(index, key): (GlobalId, Vec<usize>)| {
        let has_nulls = key.iter().any(|column| item.desc.columns[*column].nullable);
        Arrangement { index, key, has_nulls }
    };
    arrangements.into_iter().map(described).collect()
}
