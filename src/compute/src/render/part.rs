//! The parts of a grouping: aggregates that are computed together, and what they read of a row.

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use compute_client::plan::lir::{Aggregate, Strategy};
use datafusion::error::DataFusionError;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::CastExpr;
use repr::row::RowError;
use std::ops::Range;
use std::sync::Arc;

/// How an aggregate finds what it reads.
#[derive(Clone)]
pub(super) struct Step {
    /// Its arguments, then what it is ordered by, among the columns of its part.
    pub(super) columns: Range<usize>,
    /// The column of its FILTER.
    pub(super) filter: Option<usize>,
    pub(super) function: Arc<AggregateFunctionExpr>,
    pub(super) output: DataType,
}

/// Aggregates that are computed together.
pub(super) struct Part {
    pub(super) strategy: Strategy,
    /// Which ones, among those of the grouping.
    pub(super) members: Vec<usize>,
    pub(super) steps: Vec<Step>,
    /// What they read.
    pub(super) schema: SchemaRef,
    pub(super) exprs: Vec<Arc<dyn PhysicalExpr>>,
}

impl Part {
    /// Whether every row counts for itself: nothing but totals, of all values.
    pub(super) fn is_of_sums(&self) -> bool {
        self.strategy == Strategy::Totals && !self.steps.iter().any(|step| step.function.is_distinct())
    }

    fn new(
        strategy: Strategy,
        members: Vec<usize>,
        aggregates: &[Aggregate],
        input: &SchemaRef,
    ) -> Result<Part, RowError> {
        let (mut exprs, mut steps) = (Vec::new(), Vec::new());
        for member in &members {
            let call = &aggregates[*member].call;
            let first = exprs.len();
            let arguments = call.aggregate.expressions().into_iter();
            exprs.extend(arguments.map(|argument| match strategy {
                Strategy::Totals => unwidened(argument, input),
                _ => argument,
            }));
            // To totals and extremes the order of their values is nothing.
            if strategy == Strategy::Regroup {
                exprs.extend(call.order_bys.iter().map(|key| Arc::clone(&key.expr)));
            }
            let columns = first..exprs.len();
            let filter = call.filter.as_ref().map(|filter| {
                exprs.push(Arc::clone(filter));
                exprs.len() - 1
            });
            let function = Arc::clone(&call.aggregate);
            let output = function.field().data_type().clone();
            steps.push(Step { columns, filter, function, output });
        }
        let fields = exprs
            .iter()
            .enumerate()
            .map(|(at, expr)| Ok(Field::new(at.to_string(), expr.data_type(input).map_err(unsupported)?, true)));
        let schema = Arc::new(Schema::new(fields.collect::<Result<Vec<_>, RowError>>()?));
        Ok(Part { strategy, members, steps, schema, exprs })
    }
}

/// A decimal without a cast that gives it more digits before the point: sums have room for them.
fn unwidened(argument: Arc<dyn PhysicalExpr>, input: &SchemaRef) -> Arc<dyn PhysicalExpr> {
    let Some(cast) = argument.downcast_ref::<CastExpr>() else { return argument };
    let is_wider = match (cast.expr().data_type(input), cast.cast_type()) {
        (Ok(DataType::Decimal128(from, scale)), DataType::Decimal128(to, same)) => from <= *to && scale == *same,
        _ => false,
    };
    if is_wider { Arc::clone(cast.expr()) } else { argument }
}

pub(super) fn negative() -> DataFusionError {
    internal("a group has rows that were taken away more often than they were added")
}

/// Sorts aggregates by what computes them: all totals together, each least or greatest value by itself, all others together.
/// A grouping without aggregates is one of totals: how many rows there are says which groups there are.
pub(super) fn parts(aggregates: &[Aggregate], input: &SchemaRef) -> Result<Vec<Part>, RowError> {
    let of = |strategy: Strategy| {
        let members = aggregates.iter().enumerate().filter(move |(_, aggregate)| aggregate.strategy == strategy);
        members.map(|(at, _)| at).collect::<Vec<_>>()
    };
    let mut parts = Vec::new();
    let totals = of(Strategy::Totals);
    if !totals.is_empty() || aggregates.is_empty() {
        parts.push(Part::new(Strategy::Totals, totals, aggregates, input)?);
    }
    for extreme in of(Strategy::First) {
        parts.push(Part::new(Strategy::First, vec![extreme], aggregates, input)?);
    }
    let rest = of(Strategy::Regroup);
    if !rest.is_empty() {
        parts.push(Part::new(Strategy::Regroup, rest, aggregates, input)?);
    }
    Ok(parts)
}

pub(super) fn unsupported(_: DataFusionError) -> RowError {
    RowError::UnsupportedType(DataType::Null)
}

pub(super) fn internal(message: &str) -> DataFusionError {
    DataFusionError::External(Box::new(engine::error::SqlError::internal(message)))
}
