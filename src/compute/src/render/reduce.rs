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
use crate::render::part::{Part, internal, parts, unsupported};
use crate::render::sums::slots;
use crate::render::tally::Tally;
use crate::render::{Below, Builder, Keyed, Rows, SUCCEEDED, ScopeTime, arrange, outcome, reduced};
use arrow::datatypes::{DataType, Field, Schema};
use compute_client::plan::lir::{Reduce, Stage, Strategy};
use compute_client::protocol::KeyExpr;
use datafusion::error::DataFusionError;
use repr::row::{RowError, is_key_exact, read_datum, skip_datum, write_key_datum};
use std::ops::Range;
use std::sync::Arc;

/// Marks a value that is a row; the marker of a group that is always there is an empty value.
pub(super) const ROW: u8 = 1;

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

fn incomplete() -> DataFusionError {
    internal("a part of a group's aggregates is missing")
}
