//! The plan of a maintained collection: what a dataflow is rendered from, and what EXPLAIN prints.
//!
//! A tree of few operators over rows. Scalar expressions are compiled: they are evaluated on Arrow batches of the rows that
//! an operator reads. Everything here is owned and immutable, so that one plan serves all workers of a cluster.
//!
//! # Invariants
//! - Every column of every schema may be NULL: what a table forbids, an outer join above it brings back.
//! - A row is the concatenation of its columns' encodings, so the row of a join is its left row followed by its right one,
//!   and the row of a group is its key followed by its aggregates.

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::LoweredAggregate;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::window::WindowExpr;
use engine::recursion::{AtLimit, RecursionLimit};
use repr::{GlobalId, Updates};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// An operator with its inputs, and the rows that it gives.
pub struct Lir {
    /// What it does.
    pub node: Node,
    /// The columns of its rows.
    pub schema: SchemaRef,
}

/// The operators.
pub enum Node {
    /// Rows that never change.
    Constant(Arc<Updates>),
    /// A table.
    Get(GlobalId),
    /// A table, as an index holds it already.
    GetArranged {
        /// The table.
        table: GlobalId,
        /// The index.
        index: GlobalId,
        /// The columns that it is arranged by.
        key: Vec<usize>,
    },
    /// What a recursion around this defines.
    GetLocal(LocalId),
    /// Collections that are defined in terms of each other.
    LetRec(Box<LetRec>),
    /// What a [`Node::Shared`] above this makes.
    GetShared(SharedId),
    /// Collections that are made once and read several times. Only a whole plan is one.
    Shared(Box<Shared>),
    /// Filters, maps and multiplies rows one by one.
    Mfp {
        /// The rows.
        input: Box<Lir>,
        /// What happens to each, in order.
        stages: Vec<Stage>,
    },
    /// Rows for as long as conditions on the time are true of them.
    Temporal {
        /// The rows.
        input: Box<Lir>,
        /// The conditions, all of which must be true.
        bounds: Vec<TimeBound>,
    },
    /// Pairs of rows.
    Join(Box<Join>),
    /// One row per group.
    Reduce(Box<Reduce>),
    /// The only row of the input, NULLs if there is none, an error if there are several.
    Single(Box<Lir>),
    /// The first rows of each group in some order.
    TopK {
        /// The rows.
        input: Box<Lir>,
        /// What they are grouped by; empty makes one group.
        key: Vec<Arc<dyn PhysicalExpr>>,
        /// The order; ties are broken by the rows' bytes.
        order: Vec<SortKey>,
        /// Rows left out at the front.
        skip: usize,
        /// Rows given, after those.
        fetch: Option<usize>,
    },
    /// Every row with the results of window functions behind it.
    Window {
        /// The rows.
        input: Box<Lir>,
        /// The functions, which have partition and order in common.
        functions: Vec<Arc<dyn WindowExpr>>,
    },
    /// All rows of all inputs.
    Union(Vec<Lir>),
}

/// A collection of a recursion, in its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalId(pub usize);

/// A collection that is made once, in its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharedId(pub usize);

/// Collections that are made once and read several times, and what is made of them.
pub struct Shared {
    /// The collections and what they are, each of which may read those before it.
    pub parts: Vec<(SharedId, Lir)>,
    /// What is asked for.
    pub body: Lir,
}

/// Collections that are defined in terms of each other, evaluated in rounds until nothing changes, and what is asked of them
/// then.
///
/// In a round, a collection sees those before it as they are in this round, and itself and those behind it as they were
/// in the round before; in the first, as empty.
pub struct LetRec {
    /// The collections and what they are.
    pub bindings: Vec<(LocalId, Lir)>,
    /// How many rounds there may be.
    pub limit: RecursionLimit,
    /// What is asked for.
    pub body: Lir,
}

/// A step of a map/filter/project.
#[derive(Clone)]
pub enum Stage {
    /// Keeps the rows for which this is true.
    Filter(Arc<dyn PhysicalExpr>),
    /// Replaces the row.
    Project(Vec<Arc<dyn PhysicalExpr>>, SchemaRef),
    /// Replaces the row by several, one for each list of expressions.
    Expand(Vec<Vec<Arc<dyn PhysicalExpr>>>, SchemaRef),
    /// Replaces the row by as many as the longest of the lists in these columns has items: each with one item of every list,
    /// NULL where a list has ended.
    Unnest(Vec<usize>, SchemaRef),
}

impl Stage {
    /// The columns of the rows that it gives; `None` if they are those of its input.
    pub fn schema(&self) -> Option<&SchemaRef> {
        match self {
            Stage::Filter(_) => None,
            Stage::Project(_, schema) | Stage::Expand(_, schema) | Stage::Unnest(_, schema) => Some(schema),
        }
    }

    /// The columns of its input that are needed for these of the rows that it gives.
    pub fn needs(&self, given: &BTreeSet<usize>) -> BTreeSet<usize> {
        let of = |exprs: &[Arc<dyn PhysicalExpr>]| given.iter().flat_map(|at| columns(&exprs[*at])).collect::<Vec<_>>();
        match self {
            Stage::Filter(predicate) => given.iter().copied().chain(columns(predicate)).collect(),
            Stage::Project(exprs, _) => of(exprs).into_iter().collect(),
            Stage::Expand(rows, _) => rows.iter().flat_map(|exprs| of(exprs)).collect(),
            Stage::Unnest(lists, _) => given.iter().chain(lists).copied().collect(),
        }
    }
}

/// A condition on the time: `mz_now()` compared with something.
#[derive(Clone)]
pub struct TimeBound {
    /// How the time compares: one of `=`, `<`, `<=`, `>`, `>=`.
    pub op: Operator,
    /// With what, over the row: microseconds since the epoch, or a timestamp.
    pub with: Arc<dyn PhysicalExpr>,
}

/// A join.
pub struct Join {
    /// Which rows it gives.
    pub kind: JoinKind,
    /// The left rows.
    pub left: Lir,
    /// The right rows.
    pub right: Lir,
    /// What must be equal: over the left row, over the right row. Empty joins every pair.
    pub on: Vec<(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)>,
    /// Whether NULL equals NULL.
    pub nulls_match: bool,
    /// What must be true of a pair besides, over the left row followed by the right one.
    pub filter: Option<Arc<dyn PhysicalExpr>>,
    /// The columns of a pair.
    pub pair: SchemaRef,
}

impl Join {
    /// Whether it gives every pair with equal keys and nothing else.
    pub fn is_plain(&self) -> bool {
        self.kind == JoinKind::Inner && self.filter.is_none()
    }
}

/// Which rows a join gives. RIGHT joins are LEFT joins with the columns put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// The pairs.
    Inner,
    /// The pairs, and left rows without partner.
    Left,
    /// The pairs, and rows of both sides without partner.
    Full,
    /// Left rows with a partner.
    Semi,
    /// Left rows without partner.
    Anti,
    /// Left rows of which NOT IN is true: as `Anti`, but no row if a right key is NULL, and a left row whose key is NULL
    /// only if there is no right row.
    NotIn,
    /// Left rows, with whether they have a partner.
    Mark,
}

/// A grouping.
pub struct Reduce {
    /// The rows.
    pub input: Lir,
    /// What they are grouped by.
    pub key: Vec<Arc<dyn PhysicalExpr>>,
    /// The keys of the groups that exist even without rows, as rows.
    pub always: Arc<Updates>,
    /// What is computed of each group.
    pub aggregates: Vec<Aggregate>,
}

/// An aggregate of a grouping.
pub struct Aggregate {
    /// What it computes.
    pub call: LoweredAggregate,
    /// How it is kept up to date.
    pub strategy: Strategy,
}

/// How an aggregate is kept up to date when rows of its group change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strategy {
    /// It follows from sums, to which the rows that change are added; with DISTINCT, those that become the first of their
    /// kind or were the last.
    Totals,
    /// It is the first value of the group in an order: the least one or the greatest.
    First,
    /// It is computed again from all rows of the group.
    Regroup,
}

impl Aggregate {
    fn name(&self) -> &str {
        let aggregate = &self.call.aggregate;
        aggregate.human_display().unwrap_or(aggregate.name())
    }
}

impl Strategy {
    /// The best one for an aggregate over rows of this schema.
    pub fn of(call: &LoweredAggregate, schema: &SchemaRef) -> Strategy {
        let function = &call.aggregate;
        let argument = function.expressions().first().and_then(|argument| argument.data_type(schema).ok());
        match (function.fun().name(), argument, function.field().data_type()) {
            ("count" | "bool_and" | "bool_or", ..) => Strategy::Totals,
            ("sum", Some(DataType::Int64), DataType::Int64) => Strategy::Totals,
            ("sum", Some(DataType::Decimal128(_, from)), DataType::Decimal128(_, to))
            | ("sum", Some(DataType::Decimal256(_, from)), DataType::Decimal256(_, to))
                if from == *to =>
            {
                Strategy::Totals
            }
            ("min" | "max", Some(argument), result) if argument == *result => Strategy::First,
            _ => Strategy::Regroup,
        }
    }
}

/// A key of an order.
#[derive(Clone)]
pub struct SortKey {
    /// What is compared.
    pub expr: Arc<dyn PhysicalExpr>,
    /// Largest first.
    pub descending: bool,
    /// NULLs before everything else.
    pub nulls_first: bool,
}

impl Lir {
    /// The types of its columns.
    pub fn types(&self) -> Vec<DataType> {
        self.schema.fields().iter().map(|field| field.data_type().clone()).collect()
    }

    /// The tables that it reads, also those that indexes hold for it.
    pub fn tables(&self) -> BTreeSet<GlobalId> {
        self.ids(|node| match node {
            Node::Get(table) | Node::GetArranged { table, .. } => Some(*table),
            _ => None,
        })
    }

    /// The tables whose rows it is fed.
    pub fn fed(&self) -> BTreeSet<GlobalId> {
        self.ids(|node| if let Node::Get(table) = node { Some(*table) } else { None })
    }

    /// The indexes whose arrangements it reads.
    pub fn arrangements(&self) -> BTreeSet<GlobalId> {
        self.ids(|node| if let Node::GetArranged { index, .. } = node { Some(*index) } else { None })
    }

    /// The columns of a table that anything is made of, where it is fed the table's rows; `None` if these may be all.
    pub fn columns_of(&self, table: GlobalId) -> Option<BTreeSet<usize>> {
        let of_table = |lir: &Lir| matches!(lir.node, Node::Get(id) if id == table);
        match &self.node {
            _ if of_table(self) => None,
            Node::Mfp { input, stages } if of_table(input) => {
                let given = (0..self.schema.fields().len()).collect();
                Some(stages.iter().rev().fold(given, |given, stage| stage.needs(&given)))
            }
            _ => self.inputs().into_iter().try_fold(BTreeSet::new(), |mut all, input| {
                all.extend(input.columns_of(table)?);
                Some(all)
            }),
        }
    }

    fn ids(&self, of: impl Fn(&Node) -> Option<GlobalId>) -> BTreeSet<GlobalId> {
        let mut ids = BTreeSet::new();
        self.visit(&mut |lir| ids.extend(of(&lir.node)));
        ids
    }

    /// Whether it reads a collection of a recursion.
    pub fn reads(&self, id: LocalId) -> bool {
        let mut found = false;
        self.visit(&mut |lir| found |= matches!(lir.node, Node::GetLocal(local) if local == id));
        found
    }

    /// The collections of recursions that it reads, those that it defines included.
    pub fn locals(&self) -> BTreeSet<LocalId> {
        let mut locals = BTreeSet::new();
        self.visit(&mut |lir| {
            if let Node::GetLocal(id) = lir.node {
                locals.insert(id);
            }
        });
        locals
    }

    /// How many temporal filters it has.
    pub fn temporal_count(&self) -> usize {
        let mut count = 0;
        self.visit(&mut |lir| count += usize::from(matches!(lir.node, Node::Temporal { .. })));
        count
    }

    fn visit(&self, visit: &mut impl FnMut(&Lir)) {
        visit(self);
        for input in self.inputs() {
            input.visit(visit);
        }
    }

    /// Its inputs, in the order in which EXPLAIN shows them.
    pub fn inputs(&self) -> Vec<&Lir> {
        match &self.node {
            Node::Constant(_) | Node::Get(_) | Node::GetArranged { .. } | Node::GetLocal(_) | Node::GetShared(_) => {
                Vec::new()
            }
            Node::LetRec(recursion) => {
                recursion.bindings.iter().map(|(_, value)| value).chain([&recursion.body]).collect()
            }
            Node::Shared(shared) => shared.parts.iter().map(|(_, part)| part).chain([&shared.body]).collect(),
            Node::Mfp { input, .. } | Node::TopK { input, .. } | Node::Window { input, .. } => vec![input],
            Node::Single(input) | Node::Temporal { input, .. } => vec![input],
            Node::Join(join) => vec![&join.left, &join.right],
            Node::Reduce(reduce) => vec![&reduce.input],
            Node::Union(inputs) => inputs.iter().collect(),
        }
    }

    #[expect(clippy::too_many_lines, reason = "a line or two for each operator")]
    fn fmt_at(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        write!(f, "{:indent$}", "", indent = depth * 2)?;
        match &self.node {
            Node::Constant(rows) => write!(f, "Constant ({} rows)", rows.len())?,
            Node::Get(id) => write!(f, "Get {id}")?,
            Node::GetArranged { table, index, key } => {
                let key: Vec<&str> = key.iter().map(|at| self.schema.field(*at).name().as_str()).collect();
                write!(f, "Get {table} from index {index}, arranged by ({})", key.join(", "))?;
            }
            Node::GetLocal(id) => write!(f, "Get {id}")?,
            Node::GetShared(id) => write!(f, "Get {id}")?,
            Node::Shared(shared) => {
                let ids: Vec<String> = shared.parts.iter().map(|(id, _)| id.to_string()).collect();
                write!(f, "Shared {}", ids.join(", "))?;
            }
            Node::LetRec(recursion) => {
                let ids: Vec<String> = recursion.bindings.iter().map(|(id, _)| id.to_string()).collect();
                let then = if recursion.limit.then == AtLimit::Return { "return" } else { "error" };
                write!(f, "LetRec {} limit={} ({then})", ids.join(", "), recursion.limit.rounds)?;
            }
            Node::Mfp { stages, .. } => {
                f.write_str("Map/Filter/Project")?;
                stages.iter().try_for_each(|stage| write!(f, " {stage}"))?;
            }
            Node::Temporal { bounds, .. } => {
                let bounds: Vec<String> =
                    bounds.iter().map(|bound| format!("mz_now() {} {}", bound.op, bound.with)).collect();
                write!(f, "TemporalFilter ({})", bounds.join(" AND "))?;
            }
            Node::Join(join) => {
                write!(f, "Join {:?}", join.kind)?;
                let on: Vec<String> = join.on.iter().map(|(left, right)| format!("{left} = {right}")).collect();
                if !on.is_empty() {
                    write!(f, " on=({})", on.join(" AND "))?;
                }
                if let Some(filter) = &join.filter {
                    write!(f, " filter=({filter})")?;
                }
            }
            Node::Reduce(reduce) => {
                write!(f, "Reduce key=({})", list(&reduce.key))?;
                let parts =
                    [(Strategy::Totals, "totals"), (Strategy::First, "first"), (Strategy::Regroup, "regrouped")];
                for (strategy, label) in parts {
                    let of_part = reduce.aggregates.iter().filter(|aggregate| aggregate.strategy == strategy);
                    let names: Vec<&str> = of_part.map(Aggregate::name).collect();
                    if !names.is_empty() {
                        write!(f, " {label}=({})", names.join(", "))?;
                    }
                }
            }
            Node::Single(_) => f.write_str("Single")?,
            Node::TopK { key, order, skip, fetch, .. } => {
                let order: Vec<String> = order
                    .iter()
                    .map(|key| format!("{}{}", key.expr, if key.descending { " desc" } else { "" }))
                    .collect();
                f.write_str("TopK")?;
                if !key.is_empty() {
                    write!(f, " key=({})", list(key))?;
                }
                write!(f, " order=({}) offset={skip}", order.join(", "))?;
                if let Some(fetch) = fetch {
                    write!(f, " limit={fetch}")?;
                }
            }
            Node::Window { functions, .. } => {
                f.write_str("Window")?;
                if let Some(first) = functions.first() {
                    let order: Vec<String> = first.order_by().iter().map(ToString::to_string).collect();
                    write!(f, " partition=({}) order=({})", list(first.partition_by()), order.join(", "))?;
                }
                let names: Vec<&str> = functions.iter().map(|function| function.name()).collect();
                write!(f, " functions=({})", names.join(", "))?;
            }
            Node::Union(_) => f.write_str("Union")?,
        }
        for input in self.inputs() {
            f.write_str("\n")?;
            input.fmt_at(f, depth + 1)?;
        }
        Ok(())
    }
}

impl Node {
    /// The same operator over other inputs that give the same rows.
    #[must_use]
    pub fn map_inputs(self, map: &mut impl FnMut(Lir) -> Lir) -> Node {
        match self {
            Node::Constant(_) | Node::Get(_) | Node::GetArranged { .. } | Node::GetLocal(_) | Node::GetShared(_) => {
                self
            }
            Node::Shared(shared) => {
                let Shared { parts, body } = *shared;
                let parts = parts.into_iter().map(|(id, part)| (id, map(part))).collect();
                Node::Shared(Box::new(Shared { parts, body: map(body) }))
            }
            Node::LetRec(recursion) => {
                let LetRec { bindings, limit, body } = *recursion;
                let bindings = bindings.into_iter().map(|(id, value)| (id, map(value))).collect();
                Node::LetRec(Box::new(LetRec { bindings, limit, body: map(body) }))
            }
            Node::Mfp { input, stages } => Node::Mfp { input: Box::new(map(*input)), stages },
            Node::Temporal { input, bounds } => Node::Temporal { input: Box::new(map(*input)), bounds },
            Node::Join(join) => {
                let Join { kind, left, right, on, nulls_match, filter, pair } = *join;
                let (left, right) = (map(left), map(right));
                Node::Join(Box::new(Join { kind, left, right, on, nulls_match, filter, pair }))
            }
            Node::Reduce(reduce) => {
                let Reduce { input, key, always, aggregates } = *reduce;
                Node::Reduce(Box::new(Reduce { input: map(input), key, always, aggregates }))
            }
            Node::Single(input) => Node::Single(Box::new(map(*input))),
            Node::TopK { input, key, order, skip, fetch } => {
                Node::TopK { input: Box::new(map(*input)), key, order, skip, fetch }
            }
            Node::Window { input, functions } => Node::Window { input: Box::new(map(*input)), functions },
            Node::Union(inputs) => Node::Union(inputs.into_iter().map(map).collect()),
        }
    }
}

/// The column that an expression is, if it is one.
pub fn column(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}

/// The columns that an expression reads.
pub fn columns(expr: &Arc<dyn PhysicalExpr>) -> impl Iterator<Item = usize> {
    collect_columns(expr).into_iter().map(|column| column.index())
}

/// An expression over rows in which its columns are at other places.
pub fn moved(expr: &Arc<dyn PhysicalExpr>, to: &dyn Fn(usize) -> usize) -> Arc<dyn PhysicalExpr> {
    with_columns(expr, &|column| Column::new(column.name(), to(column.index())))
}

/// Whether expressions compute the same, whatever their columns are called.
pub fn is_same(left: &Arc<dyn PhysicalExpr>, right: &Arc<dyn PhysicalExpr>) -> bool {
    let nameless = |expr| with_columns(expr, &|column| Column::new("", column.index()));
    nameless(left) == nameless(right)
}

fn with_columns(expr: &Arc<dyn PhysicalExpr>, of: &dyn Fn(&Column) -> Column) -> Arc<dyn PhysicalExpr> {
    let changed = Arc::clone(expr).transform_down(|expr| {
        Ok(match expr.downcast_ref::<Column>() {
            Some(column) => Transformed::yes(Arc::new(of(column)) as Arc<dyn PhysicalExpr>),
            None => Transformed::no(expr),
        })
    });
    changed.expect("an expression takes other columns of the same types").data
}

impl fmt::Display for LocalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "l{}", self.0)
    }
}

impl fmt::Display for SharedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

impl fmt::Display for Lir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_at(f, 0)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stage::Filter(predicate) => write!(f, "filter=({predicate})"),
            Stage::Project(exprs, _) => write!(f, "project=({})", list(exprs)),
            Stage::Expand(rows, _) => {
                let rows: Vec<String> = rows.iter().map(|exprs| format!("({})", list(exprs))).collect();
                write!(f, "expand=({})", rows.join(", "))
            }
            Stage::Unnest(columns, _) => {
                let columns: Vec<String> = columns.iter().map(|column| format!("#{column}")).collect();
                write!(f, "unnest=({})", columns.join(", "))
            }
        }
    }
}

fn list(exprs: &[Arc<dyn PhysicalExpr>]) -> String {
    exprs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
