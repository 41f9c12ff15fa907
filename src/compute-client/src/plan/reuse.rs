//! Joins that read what an index holds already, instead of arranging a table once more.
//!
//! A join needs its inputs arranged by what must be equal. Where an input is a table of which an index is arranged by just that, the
//! join reads the index: nothing is fed, nothing is arranged, and no memory is taken. What would have been done to the table's
//! rows before an inner join (leave some out, cut columns) is done to the pairs. Of other joins it is the right input that is read
//! so, if all of its rows count; of the left one they need the rows by themselves.
//!
//! # Invariants
//! - Only conditions that fail for no row move behind the join: the error of a row without partner would be lost.
//! - An index holds rows whose key is NULL. A join to which NULL equals nothing reads two indexes only if one of them has no such
//!   rows, as every pair of them would be made; and it tests that, as a table may be altered.

use crate::plan::lir::{Join, JoinKind, Lir, Node, Stage, column, moved};
use crate::plan::lower::{concatenated, mfp};
use arrow::datatypes::SchemaRef;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use repr::GlobalId;
use std::collections::BTreeSet;
use std::sync::Arc;

/// An index over a table whose arrangement can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrangement {
    /// The index.
    pub index: GlobalId,
    /// The columns that it is arranged by.
    pub key: Vec<usize>,
    /// Whether any of these may be NULL.
    pub has_nulls: bool,
}

/// The arrangements of a table.
pub type ArrangementsOf<'a> = &'a dyn Fn(GlobalId) -> Vec<Arrangement>;

/// The same plan, with joins reading arrangements where there are some. Those inside recursion, whose times have rounds, make
/// their own.
#[must_use]
pub fn reuse(lir: Lir, of: ArrangementsOf<'_>) -> Lir {
    let Lir { node, schema } = lir;
    if matches!(node, Node::LetRec(_)) {
        return Lir { node, schema };
    }
    match node.map_inputs(&mut |input| reuse(input, of)) {
        Node::Mfp { input, stages } => Lir { schema, ..mfp(*input, stages) },
        Node::Join(join) => Lir { schema: Arc::clone(&schema), ..joined(*join, schema, of) },
        node => Lir { node, schema },
    }
}

fn joined(join: Join, schema: SchemaRef, of: ArrangementsOf<'_>) -> Lir {
    let (left, right) = (Side::of(&join.left), Side::of(&join.right));
    let (reads_left, reads_right) = match join.kind {
        JoinKind::Inner => (true, true),
        // Rows that are left out have no partner, which is known before there are pairs.
        JoinKind::Left | JoinKind::Semi | JoinKind::Anti | JoinKind::Mark => (false, right.is_whole()),
        JoinKind::Full | JoinKind::NotIn => (false, false),
    };
    let mut lefts = left.choices(join.on.iter().map(|(left, _)| left), of);
    let mut rights = right.choices(join.on.iter().map(|(_, right)| right), of);
    lefts.retain(|_| reads_left);
    rights.retain(|_| reads_right);
    let fit = |l: &Choice, r: &Choice| {
        l.order == r.order && (join.nulls_match || !l.arrangement.has_nulls || !r.arrangement.has_nulls)
    };
    let both = lefts.iter().find_map(|l| rights.iter().find(|r| fit(l, r)).map(|r| (Some(l), Some(r))));
    let of_left = || lefts.first().map(|l| (Some(l), None));
    let Some((l, r)) = both.or_else(of_left).or_else(|| rights.first().map(|r| (None, Some(r)))) else {
        return Lir { schema, node: Node::Join(Box::new(join)) };
    };
    let order = l.or(r).map(|choice| choice.order.clone()).unwrap_or_default();
    let on = order.into_iter().map(|at| join.on[at].clone());
    let on = on.map(|(of_left, of_right)| {
        let of_left = if l.is_some() { left.base(&of_left) } else { of_left };
        (of_left, if r.is_some() { right.base(&of_right) } else { of_right })
    });
    let on: Vec<_> = on.collect();
    let is_not_null =
        |(key, _): &(Arc<dyn PhysicalExpr>, _)| Arc::new(IsNotNullExpr::new(Arc::clone(key))) as Arc<dyn PhysicalExpr>;
    let mut conditions: Vec<_> = match l.is_some() && r.is_some() && !join.nulls_match {
        true => on.iter().map(is_not_null).collect(),
        false => Vec::new(),
    };
    let left = if let Some(choice) = l { left.read_from(choice) } else { Read::whole(join.left) };
    let right = if let Some(choice) = r { right.read_from(choice) } else { Read::whole(join.right) };
    let width = left.lir.schema.fields().len();
    let pair = concatenated(&left.lir.schema, &right.lir.schema);
    let behind = |at: usize| width + at;
    conditions.extend(left.conditions);
    conditions.extend(right.conditions.iter().map(|expr| moved(expr, &behind)));
    let columns: Vec<usize> = left.columns.into_iter().chain(right.columns.into_iter().map(behind)).collect();
    // What must be true of pairs for them to be partners is a matter of the join, if it gives more than pairs.
    let (filter, last) = match join.kind {
        JoinKind::Inner => (None, join.filter),
        _ => (join.filter.map(|filter| moved(&filter, &|at| columns[at])), None),
    };
    let mut stages = Vec::new();
    if !conditions.is_empty() {
        stages.push(Stage::Filter(conjunction(conditions)));
    }
    let gives_pairs = matches!(join.kind, JoinKind::Inner | JoinKind::Left);
    if gives_pairs && !columns.iter().copied().eq(0..pair.fields().len()) {
        let exprs = columns.iter().map(|at| reference(&pair, *at)).collect();
        stages.push(Stage::Project(exprs, Arc::clone(&join.pair)));
    }
    stages.extend(last.map(Stage::Filter));
    let schema = if gives_pairs { Arc::clone(&pair) } else { schema };
    let (kind, nulls_match) = (join.kind, join.nulls_match);
    let node = Join { kind, left: left.lir, right: right.lir, on, nulls_match, filter, pair };
    mfp(Lir { node: Node::Join(Box::new(node)), schema }, stages)
}

/// An input of a join, if it is a table of whose rows some may be left out and some columns cut.
struct Side(Option<Table>);

struct Table {
    id: GlobalId,
    schema: SchemaRef,
    /// What must be true of its rows.
    conditions: Vec<Arc<dyn PhysicalExpr>>,
    /// The columns that are given.
    columns: Vec<usize>,
}

/// An arrangement that serves a join, and which of the join's equalities are its key, in its order.
struct Choice {
    arrangement: Arrangement,
    order: Vec<usize>,
}

/// An input as the join shall read it, and what is to be done to it behind the join.
struct Read {
    lir: Lir,
    conditions: Vec<Arc<dyn PhysicalExpr>>,
    columns: Vec<usize>,
}

impl Side {
    fn of(lir: &Lir) -> Side {
        let (get, stages) = match &lir.node {
            Node::Mfp { input, stages } => (input.as_ref(), stages.as_slice()),
            _ => (lir, [].as_slice()),
        };
        let Node::Get(id) = get.node else { return Side(None) };
        let schema = Arc::clone(&get.schema);
        let mut columns: Vec<usize> = (0..schema.fields().len()).collect();
        let mut conditions = Vec::new();
        for stage in stages {
            match stage {
                Stage::Filter(predicate) if is_total(predicate) => {
                    conditions.push(moved(predicate, &|at| columns[at]));
                }
                Stage::Project(exprs, output) => {
                    let origin = |(at, expr): (usize, &Arc<dyn PhysicalExpr>)| {
                        let origin = columns[column(expr)?];
                        // Only the spelling of a type may differ, but then its encoding may, too.
                        (schema.field(origin).data_type() == output.field(at).data_type()).then_some(origin)
                    };
                    match exprs.iter().enumerate().map(origin).collect() {
                        Some(origins) => columns = origins,
                        None => return Side(None),
                    }
                }
                _ => return Side(None),
            }
        }
        Side(Some(Table { id, schema, conditions, columns }))
    }

    /// Whether it is a table with all of its rows.
    fn is_whole(&self) -> bool {
        self.0.as_ref().is_some_and(|table| table.conditions.is_empty())
    }

    /// The arrangements by these columns, in any order.
    fn choices<'a>(
        &self,
        keys: impl Iterator<Item = &'a Arc<dyn PhysicalExpr>>,
        of: ArrangementsOf<'_>,
    ) -> Vec<Choice> {
        let Some(table) = &self.0 else { return Vec::new() };
        let Some(keys) = keys.map(|key| column(key).map(|at| table.columns[at])).collect::<Option<Vec<_>>>() else {
            return Vec::new();
        };
        let choice = |arrangement: Arrangement| {
            let place = |column: &usize| keys.iter().position(|key| key == column);
            let order = arrangement.key.iter().map(place).collect::<Option<Vec<_>>>()?;
            let is_all = order.len() == keys.len() && order.iter().collect::<BTreeSet<_>>().len() == keys.len();
            (is_all && !keys.is_empty()).then_some(Choice { arrangement, order })
        };
        of(table.id).into_iter().filter_map(choice).collect()
    }

    /// A column of the input as one of the table.
    fn base(&self, expr: &Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
        match &self.0 {
            Some(table) => moved(expr, &|at| table.columns[at]),
            None => Arc::clone(expr),
        }
    }

    fn read_from(self, choice: &Choice) -> Read {
        let table = self.0.expect("only a table has arrangements");
        let Arrangement { index, key, .. } = choice.arrangement.clone();
        let lir = Lir { node: Node::GetArranged { table: table.id, index, key }, schema: table.schema };
        Read { lir, conditions: table.conditions, columns: table.columns }
    }
}

impl Read {
    fn whole(lir: Lir) -> Read {
        let columns = (0..lir.schema.fields().len()).collect();
        Read { lir, conditions: Vec::new(), columns }
    }
}

fn reference(schema: &SchemaRef, at: usize) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(schema.field(at).name(), at))
}

/// Whether a condition has a value for every row.
fn is_total(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let is_comparison = |op: &Operator| {
        matches!(
            op,
            Operator::Eq
                | Operator::NotEq
                | Operator::Lt
                | Operator::LtEq
                | Operator::Gt
                | Operator::GtEq
                | Operator::IsDistinctFrom
                | Operator::IsNotDistinctFrom
                | Operator::And
                | Operator::Or
        )
    };
    let is_known = expr.downcast_ref::<Column>().is_some()
        || expr.downcast_ref::<Literal>().is_some()
        || expr.downcast_ref::<IsNullExpr>().is_some()
        || expr.downcast_ref::<IsNotNullExpr>().is_some()
        || expr.downcast_ref::<NotExpr>().is_some()
        || expr.downcast_ref::<InListExpr>().is_some()
        || expr.downcast_ref::<BinaryExpr>().is_some_and(|binary| is_comparison(binary.op()));
    is_known && expr.children().into_iter().all(is_total)
}
