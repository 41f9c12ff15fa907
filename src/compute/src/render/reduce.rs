//! Grouping. Each aggregate has a strategy, and each strategy does only its own work: totals are added up
//! ([`super::accumulate`]), least and greatest values are looked up ([`super::extreme`]), and the rest is computed again
//! from the rows of a group that changed ([`super::regroup`]). What they give for a group is put together by its key.
//!
//! A row is reduced to what the aggregates read of it, and each part of the work takes its own columns of that.
//!
//! # Invariants
//! - Every part gives one value, an outcome, for every group that exists, so that together they give one row.

use crate::render::mfp::{NullKeys, RowPlan, contained, types};
use crate::render::numbers::Numbers;
use crate::render::sums::slots;
use crate::render::tally::Tally;
use crate::render::{Below, Builder, Keyed, Rows, SUCCEEDED, ScopeTime, arrange, outcome, reduced};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use compute_client::plan::lir::{Aggregate, Reduce, Stage, Strategy};
use compute_client::protocol::KeyExpr;
use datafusion::error::DataFusionError;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::CastExpr;
use repr::row::{RowError, is_key_exact, read_datum, skip_datum, write_key_datum};
use std::ops::Range;
use std::sync::Arc;

/// Marks a value that is a row; the marker of a group that is always there is an empty value.
pub(super) const ROW: u8 = 1;

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
    strategy: Strategy,
    /// Which ones, among those of the grouping.
    members: Vec<usize>,
    pub(super) steps: Vec<Step>,
    /// What they read.
    pub(super) schema: SchemaRef,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
}

impl<'scope, T: ScopeTime> Builder<'scope, T> {
    /// Renders a grouping.
    pub(super) fn reduce(&mut self, reduce: &Reduce) -> Result<Rows<'scope, T>, RowError> {
        let input_schema = &reduce.input.schema;
        let parts = parts(&reduce.aggregates, input_schema)?;
        let key_types = reduce.key.iter().map(|expr| expr.data_type(input_schema).map_err(unsupported));
        let key_types = key_types.collect::<Result<Vec<_>, RowError>>()?;
        // Keys are made of the rows as they come, next to the values: one projection of both.
        let values: Vec<_> = parts.iter().flat_map(|part| part.exprs.iter().cloned()).collect();
        let value_types: Vec<DataType> = parts.iter().flat_map(|part| types(&part.schema)).collect();
        let all_types = value_types.iter().chain(&key_types).enumerate();
        let fields: Vec<_> = all_types.map(|(at, ty)| Field::new(at.to_string(), ty.clone(), true)).collect();
        let key: Vec<KeyExpr> = (values.len()..fields.len()).map(KeyExpr::Column).collect();
        let all = values.into_iter().chain(reduce.key.iter().cloned()).collect();
        let Below { rows, schema, stages } = self.below(&reduce.input)?;
        let stages = [stages, [Stage::Project(all, Arc::new(Schema::new(fields)))].as_slice()].concat();
        let markers = reduce.always.iter().map(|(key, diff)| (key.to_vec(), diff)).collect();
        let markers = (!reduce.always.is_empty()).then(|| self.constant(markers));
        if let [part] = parts.as_slice()
            && part.is_of_sums()
        {
            let (slots, width) = slots(part);
            let numbers = Numbers::new(schema, &stages, &key, &slots);
            let plan = RowPlan::of_columns(schema, &stages, &key, part.exprs.len())?;
            let groups = self.accumulate_rows(rows, Tally { plan, numbers, slots, width }, markers);
            return Ok(self.outcomes(groups));
        }
        let keyed = self.keyed(rows, RowPlan::new(schema, &stages, &key, NullKeys::Keep)?);
        let markers = markers.map(|markers| markers.map(|key| (key, Vec::new())));
        let (mut first, mut outcomes) = (0, Vec::with_capacity(parts.len()));
        for part in &parts {
            let columns = first..first + part.exprs.len();
            first = columns.end;
            let value_types = value_types.clone();
            let mut of_part = keyed.clone().map(move |(key, row)| {
                let value = [&[ROW], cut(&row, &value_types, columns.clone())].concat();
                (key, value)
            });
            of_part = markers.iter().cloned().fold(of_part, |rows, markers| rows.concat(markers));
            outcomes.push(match part.strategy {
                Strategy::Totals => self.accumulate(of_part, &key_types, part)?,
                Strategy::First => self.extreme(of_part, part)?,
                Strategy::Regroup => self.regroup(of_part, part)?,
            });
        }
        let combined = match <[_; 1]>::try_from(outcomes) {
            Ok([only]) => only,
            Err(several) => self.combine(several, &parts),
        };
        // Its key comes before its aggregates.
        let rows = combined.map(|(key, value)| match value.split_first() {
            Some((&SUCCEEDED, aggregates)) => [&[SUCCEEDED], key.as_slice(), aggregates].concat(),
            _ => value,
        });
        Ok(self.outcomes(rows))
    }

    /// Puts the outcomes of several parts together, each aggregate in its place.
    fn combine(&self, outcomes: Vec<Keyed<'scope, T>>, parts: &[Part]) -> Keyed<'scope, T> {
        let numbered = outcomes.into_iter().zip(0_u8..).map(|(outcomes, number)| {
            outcomes.map(move |(key, outcome)| (key, [&[number], outcome.as_slice()].concat()))
        });
        let all = differential_dataflow::collection::concatenate(self.scope, numbered);
        let outputs: Vec<Vec<DataType>> =
            parts.iter().map(|part| part.steps.iter().map(|step| step.output.clone()).collect()).collect();
        let mut places: Vec<(usize, usize, usize)> = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            places.extend(part.members.iter().enumerate().map(|(at, member)| (*member, number, at)));
        }
        places.sort_unstable();
        let combined = reduced(
            &self.memory,
            arrange(&self.memory, all, "Reduce parts"),
            "Reduce parts",
            move |_, values, output| {
                if let Some((failed, _)) = values.iter().find(|(value, _)| value[1] != SUCCEEDED) {
                    output.push((failed[1..].to_vec(), 1));
                    return;
                }
                let is_whole = values.len() == outputs.len() && values.iter().all(|(_, count)| *count == 1);
                if !is_whole {
                    output.push((outcome(Err(incomplete())), 1));
                    return;
                }
                let mut row = vec![SUCCEEDED];
                for (_, part, at) in &places {
                    row.extend_from_slice(cut(&values[*part].0[2..], &outputs[*part], *at..at + 1));
                }
                output.push((row, 1));
            },
        );
        combined.as_collection(|key, value| (key.to_vec(), value.to_vec()))
    }
}

/// Sorts aggregates by what computes them: all totals together, each least or greatest value by itself, all others together.
/// A grouping without aggregates is one of totals: how many rows there are says which groups there are.
fn parts(aggregates: &[Aggregate], input: &SchemaRef) -> Result<Vec<Part>, RowError> {
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

impl Part {
    /// Whether every row counts for itself: nothing but totals, of all values.
    fn is_of_sums(&self) -> bool {
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

/// The bytes of some of a row's columns.
pub(super) fn cut<'a>(row: &'a [u8], types: &[DataType], columns: Range<usize>) -> &'a [u8] {
    let skip = |rest: &mut &'a [u8], types: &[DataType]| {
        for ty in types {
            skip_datum(rest, ty);
        }
    };
    let mut rest = row;
    skip(&mut rest, &types[..columns.start]);
    let from = rest;
    skip(&mut rest, &types[columns]);
    &from[..from.len() - rest.len()]
}

/// Whether the bytes of a FILTER's column say that a row passes.
pub(super) fn passes(filter: &[u8]) -> bool {
    // Valid, and true.
    filter == [1, 1]
}

/// A value's bytes as those of a key: equal for equal values.
pub(super) fn normal(value: &[u8], ty: &DataType) -> Vec<u8> {
    if is_key_exact(ty) {
        return value.to_vec();
    }
    let (mut rest, mut scratch, mut bytes) = (value, Vec::new(), Vec::new());
    let datum = read_datum(&mut rest, ty, &mut scratch);
    write_key_datum(&mut bytes, ty, &datum).expect("a value can be written as it was read");
    bytes
}

/// What a part's logic gives for a group: an outcome, whatever happens while it is computed.
pub(super) fn outcome_of(logic: impl FnOnce() -> Result<Vec<u8>, DataFusionError>) -> Vec<u8> {
    outcome(contained(logic))
}

fn unsupported(_: DataFusionError) -> RowError {
    RowError::UnsupportedType(DataType::Null)
}

fn incomplete() -> DataFusionError {
    internal("a part of a group's aggregates is missing")
}

pub(super) fn negative() -> DataFusionError {
    internal("a group has rows that were taken away more often than they were added")
}

fn internal(message: &str) -> DataFusionError {
    DataFusionError::External(Box::new(sql::error::SqlError::internal(message)))
}
