//! Cubes and views of a semantic model as relations of a query.
//!
//! A cube in FROM is a scan that nobody can run: its columns are the members that the model offers, and it is there so that a query
//! over cubes is bound like any other. Once a whole statement is bound, [`expand`] puts plans over tables in the place of the scans:
//! 1. A grouped query over a cube, with nothing but conditions and projections between, is one question ([`ask::Ask`]): keys,
//!    conditions, measures. It is answered as a whole ([`answer`]), in place of the Aggregate node, so that a measure is counted over the
//!    rows of its own cube, however many of them a join has made.
//! 2. A grouped query over a join of a cube with other relations ([`around`]) finds the rows of the cube for each group by the join, each
//!    once, and evaluates the measures over these.
//! 3. Any other scan gives rows: dimensions of each row, and measures as if grouped by the primary key.
//!
//! What the model says in SQL is bound by [`instances`], over the tables of each cube, by the rights of the model's owner.
//!
//! # Invariants
//! - What takes a node's place has the same columns, of the same types.
//! - A measure is evaluated by an Aggregate node that stands over its scan, or as the value of a row, and nowhere else: where something
//!   between hides which, a column of a measure is an ordinary column ([`Binder::note_measures`]).

mod answer;
mod around;
mod ask;
mod buckets;
pub(super) mod describe;
mod expand;
mod filter;
mod groups;
mod instances;
mod load;
mod measure;
mod policies;
mod sub_query;

pub(super) use load::LOAD;
pub(super) use measure::MEASURE;

use super::Binder;
use super::columns::columns_of_plan;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Column, JoinType};
use datafusion::datasource::TableType;
use datafusion::logical_expr::{Expr, LogicalPlan, TableSource};
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use repr::{GlobalId, RelationDesc};
use semantic::model::Model;
use semantic::model::measure::MeasureKind;
use semantic::model::offer::Member;
use std::collections::HashMap;
use std::sync::Arc;

/// A cube or a view of a model, as the catalog resolves it.
#[derive(Clone, Debug)]
pub struct CubeRef {
    /// Its id.
    pub id: GlobalId,
    /// What the model calls it.
    pub name: String,
    /// The model.
    pub model: Arc<Model>,
}

/// The measures that columns of a plan are, by qualifier and name.
pub(super) type Measures = HashMap<(String, String), MeasureKind>;

/// A cube in a plan, until it is expanded.
#[derive(Clone)]
struct CubeScan {
    cube: CubeRef,
    desc: Arc<RelationDesc>,
}

impl TableSource for CubeScan {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.desc.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }
}

impl CubeScan {
    /// The cube that a node scans.
    fn of(plan: &LogicalPlan) -> Option<&CubeScan> {
        let LogicalPlan::TableScan(scan) = plan else { return None };
        (scan.source.as_ref() as &dyn std::any::Any).downcast_ref()
    }
}

/// The table of a scan of a cube, whose columns are those of `desc`.
pub(super) fn source(cube: CubeRef, desc: Arc<RelationDesc>) -> Arc<dyn TableSource> {
    Arc::new(CubeScan { cube, desc })
}

impl Binder<'_> {
    /// A cube is scanned as `qualifier`: notes which of the columns are measures.
    pub(super) fn note_cube(&mut self, qualifier: &str, cube: &CubeRef) -> Result<(), SqlError> {
        self.has_cubes = true;
        let missing = || SqlError::internal(format!("the model has no cube \"{}\" that clients see", cube.name));
        let offer = cube.model.offer(&cube.name).ok_or_else(missing)?;
        for member in &offer.members {
            if let Member::Measure(measure) = member.member {
                self.measures.insert((qualifier.to_owned(), member.name.clone()), measure.kind);
            }
        }
        Ok(())
    }

    /// What is a measure in a sub-query is one outside as well, as long as nothing but projections and conditions are between.
    pub(super) fn note_measures(&mut self, plan: &LogicalPlan) {
        if !self.has_cubes {
            return;
        }
        for (at, column) in columns_of_plan(plan).into_iter().enumerate() {
            if let (Some(kind), Expr::Column(Column { relation: Some(qualifier), name, .. })) =
                (self.measure_of(plan, at), column)
            {
                self.measures.insert((qualifier.table().to_owned(), name), kind);
            }
        }
    }

    /// The kind of the measure that a column of a plan is.
    fn measure_of(&self, plan: &LogicalPlan, at: usize) -> Option<MeasureKind> {
        let Column { relation, name, .. } = scanned(plan, at)?;
        self.measures.get(&(relation?.table().to_owned(), name)).copied()
    }
}

/// The column of a scan that a column of a plan is, if nothing but projections, conditions and joins are between.
fn scanned(plan: &LogicalPlan, at: usize) -> Option<Column> {
    match plan {
        LogicalPlan::TableScan(_) => {
            let (qualifier, field) = plan.schema().qualified_field(at);
            Some(Column::new(qualifier.cloned(), field.name()))
        }
        LogicalPlan::SubqueryAlias(alias) => scanned(&alias.input, at),
        LogicalPlan::Filter(filter) => scanned(&filter.input, at),
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => scanned(&sort.input, at),
        LogicalPlan::Projection(projection) => {
            let mut expr = projection.expr.get(at)?;
            while let Expr::Alias(alias) = expr {
                expr = &alias.expr;
            }
            let Expr::Column(column) = expr else { return None };
            scanned(&projection.input, projection.input.schema().maybe_index_of_column(column)?)
        }
        LogicalPlan::Join(join) if keeps_both(join.join_type) => {
            let width = join.left.schema().fields().len();
            if at < width { scanned(&join.left, at) } else { scanned(&join.right, at - width) }
        }
        _ => None,
    }
}

/// Whether a join's columns are those of both sides.
fn keeps_both(join_type: JoinType) -> bool {
    matches!(join_type, JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full)
}

/// What a query over cubes may not ask, and what to write instead.
fn refused(message: impl Into<String>, hint: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::GROUPING_ERROR, message).with_hint(hint)
}
