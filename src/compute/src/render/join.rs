//! Joins. All of them are made of pairs of rows with equal keys; an outer, semi, anti or mark join then needs to know which
//! rows are in a pair.
//!
//! Rows that are equal have the same partners, so "in a pair" is a set of rows: the distinct left parts of the pairs, or,
//! where equal keys are all that counts, the left rows whose key the other side has.

use crate::render::mfp::{NullKeys, contained, decode, is_true, types};
use crate::render::{ArrangedRows, Builder, Rows, ScopeTime, arrange, reduced};
use arrow::datatypes::{DataType, SchemaRef};
use compute_client::error::encode_error;
use compute_client::plan::lir::{Join, JoinKind, Lir};
use compute_client::protocol::KeyExpr;
use datafusion::error::DataFusionError;
use datafusion::physical_expr::PhysicalExpr;
use differential_dataflow::{AsCollection, VecCollection};
use repr::row::{RowCodec, RowError, write_datum};
use repr::{Datum, Diff};
use std::sync::Arc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::Operator;
use timely::dataflow::operators::vec::ResultStream;

/// A left row followed by a right one, and where the right one begins.
type Pairs<'scope, T> = VecCollection<'scope, T, (Vec<u8>, usize), Diff>;

/// One side of a join.
struct Side<'scope, T: ScopeTime> {
    rows: Rows<'scope, T>,
    /// The rows that may have a partner, by key.
    by_key: ArrangedRows<'scope, T>,
    types: Vec<DataType>,
}

impl<'scope, T: ScopeTime> Builder<'scope, T> {
    /// Renders a join.
    pub(super) fn join(&mut self, join: &Join) -> Result<Rows<'scope, T>, RowError> {
        // NULL equals nothing if the NULLs of either side are left out; those of the left side are still needed.
        let null_keys = if join.nulls_match { NullKeys::Keep } else { NullKeys::Drop };
        let keys = |pick: fn(&(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)) -> &Arc<dyn PhysicalExpr>, lir: &Lir| {
            join.on
                .iter()
                .map(|on| {
                    let expr = pick(on);
                    let data_type =
                        expr.data_type(&lir.schema).map_err(|_| RowError::UnsupportedType(DataType::Null))?;
                    Ok(KeyExpr::Expr(Arc::clone(expr), data_type))
                })
                .collect::<Result<Vec<_>, RowError>>()
        };
        let left = self.side(&join.left, &keys(|(left, _)| left, &join.left)?, null_keys)?;
        let right = self.side(&join.right, &keys(|(_, right)| right, &join.right)?, null_keys)?;
        match join.kind {
            JoinKind::Inner => Ok(self.pairs(join, &left, &right)?.map(|(row, _)| row)),
            JoinKind::Left => {
                let pairs = self.pairs(join, &left, &right)?;
                let lonely = unmatched(&left.rows, &self.matched(join, &left, &right, Some(&pairs))?);
                let nulls = nulls(&right.types)?;
                Ok(pairs.map(|(row, _)| row).concat(lonely.map(move |row| [row, nulls.clone()].concat())))
            }
            JoinKind::Full => {
                let pairs = self.pairs(join, &left, &right)?;
                let lonely = unmatched(&left.rows, &self.matched(join, &left, &right, Some(&pairs))?);
                let right_parts = distinct(pairs.clone().map(|(row, at)| row[at..].to_vec()), "Matched right");
                let lonely_right = unmatched(&right.rows, &among(&right.rows, &right_parts));
                let (left_nulls, right_nulls) = (nulls(&left.types)?, nulls(&right.types)?);
                Ok(pairs
                    .map(|(row, _)| row)
                    .concat(lonely.map(move |row| [row, right_nulls.clone()].concat()))
                    .concat(lonely_right.map(move |row| [left_nulls.clone(), row].concat())))
            }
            JoinKind::Semi => self.matched(join, &left, &right, None),
            JoinKind::Anti => Ok(unmatched(&left.rows, &self.matched(join, &left, &right, None)?)),
            JoinKind::Mark => {
                let matched = self.matched(join, &left, &right, None)?;
                let lonely = unmatched(&left.rows, &matched);
                let mark = |value: bool| {
                    let mut bytes = Vec::new();
                    write_datum(&mut bytes, &DataType::Boolean, &Datum::Bool(value)).map(|()| bytes)
                };
                let (yes, no) = (mark(true)?, mark(false)?);
                Ok(matched
                    .map(move |row| [row, yes.clone()].concat())
                    .concat(lonely.map(move |row| [row, no.clone()].concat())))
            }
            JoinKind::NotIn => {
                let lonely = unmatched(&left.rows, &self.matched(join, &left, &right, None)?);
                // Left rows whose key is NULL are among the lonely; they stay only if there is nothing to compare with.
                let with_key = left.by_key.clone().as_collection(|_, row| row.to_vec());
                let without_key = unmatched(&left.rows, &with_key);
                let lonely_with_key = unmatched(&lonely, &without_key);
                let all = right.rows.clone().map(|_| (Vec::new(), Vec::new()));
                let keyless = unmatched(&right.rows, &right.by_key.clone().as_collection(|_, row| row.to_vec()));
                let exists = |rows| arrange(exists(arrange(rows, "Exists"), "Exists"), "Exists");
                let any = exists(all);
                let any_null = exists(keyless.map(|_| (Vec::new(), Vec::new())));
                let kept = unmatched(&lonely_with_key, &when(&lonely_with_key, &any_null));
                Ok(kept.concat(unmatched(&without_key, &when(&without_key, &any))))
            }
        }
    }

    fn side(&mut self, lir: &Lir, key: &[KeyExpr], null_keys: NullKeys) -> Result<Side<'scope, T>, RowError> {
        let rows = self.rows(lir)?;
        let by_key = self.arranged(rows.clone(), lir, &[], key, null_keys, "Join input")?;
        Ok(Side { rows, by_key, types: lir.types() })
    }

    /// The pairs with equal keys that the filter lets pass.
    fn pairs(
        &mut self,
        join: &Join,
        left: &Side<'scope, T>,
        right: &Side<'scope, T>,
    ) -> Result<Pairs<'scope, T>, RowError> {
        let pairs = left
            .by_key
            .clone()
            .join_core(right.by_key.clone(), |_, left, right| Some(([left, right].concat(), left.len())));
        match &join.filter {
            None => Ok(pairs),
            Some(filter) => self.filtered(pairs, Arc::clone(filter), Arc::clone(&join.pair)),
        }
    }

    fn filtered(
        &mut self,
        pairs: Pairs<'scope, T>,
        filter: Arc<dyn PhysicalExpr>,
        schema: SchemaRef,
    ) -> Result<Pairs<'scope, T>, RowError> {
        let codec = RowCodec::new(&types(&schema))?;
        type Update<T> = ((Vec<u8>, usize), T, Diff);
        type Failure<T> = (Vec<u8>, T, Diff);
        let mask = move |updates: &[Update<T>]| {
            contained(|| {
                let batch = decode(&codec, &schema, updates.iter().map(|((row, _), _, _)| row.as_slice()))?;
                is_true(filter.as_ref(), &batch)
            })
        };
        let filtered = pairs.inner.unary::<CapacityContainerBuilder<Vec<Result<Update<T>, Failure<T>>>>, _, _, _>(
            Pipeline,
            "Join filter",
            move |_, _| {
                move |input, output| {
                    input.for_each(|capability, batch: &mut Vec<Update<T>>| {
                        let mut session = output.session(&capability);
                        if let Ok(mask) = mask(batch) {
                            for (update, kept) in batch.drain(..).zip(mask.iter()) {
                                if kept == Some(true) {
                                    session.give(Ok(update));
                                }
                            }
                            return;
                        }
                        // Something fails: find out which.
                        for update in batch.drain(..) {
                            match mask(std::slice::from_ref(&update)) {
                                Ok(mask) if mask.value(0) => session.give(Ok(update)),
                                Ok(_) => {}
                                Err(error) => session.give(Err((encode_error(error), update.1, update.2))),
                            }
                        }
                    });
                }
            },
        );
        self.errs.push(filtered.clone().err().as_collection());
        Ok(filtered.ok().as_collection())
    }

    /// The left rows that are in a pair, as often as they are there.
    fn matched(
        &mut self,
        join: &Join,
        left: &Side<'scope, T>,
        right: &Side<'scope, T>,
        pairs: Option<&Pairs<'scope, T>>,
    ) -> Result<Rows<'scope, T>, RowError> {
        if join.filter.is_none() {
            let keys = arrange(exists(right.by_key.clone(), "Distinct keys"), "Distinct keys");
            return Ok(left.by_key.clone().join_core(keys, |_, row, _| Some(row.to_vec())));
        }
        let pairs = match pairs {
            Some(pairs) => pairs.clone(),
            None => self.pairs(join, left, right)?,
        };
        let parts = distinct(
            pairs.map(|(mut row, at)| {
                row.truncate(at);
                row
            }),
            "Matched left",
        );
        Ok(among(&left.rows, &parts))
    }

    /// The only row of an input, NULLs if there is none.
    pub(super) fn single(&mut self, input: &Lir) -> Result<Rows<'scope, T>, RowError> {
        let rows = self.rows(input)?.map(|row| (Vec::new(), [&[1], row.as_slice()].concat()));
        // A value that is always there, so that there is a group without rows as well.
        let marker = self.constant(vec![(vec![0], 1)]).map(|row| (Vec::new(), row));
        let nulls = nulls(&input.types())?;
        let all = arrange(rows.concat(marker), "Single");
        // The marker and two rows tell everything.
        let single = T::first(all, "Single", 3, move |_, values, output| {
            let rows: Vec<_> = values.iter().filter(|(value, _)| value[0] == 1).collect();
            let result = match rows.as_slice() {
                [] => Ok(nulls.clone()),
                [(row, 1)] => Ok(row[1..].to_vec()),
                _ => Err(several_rows()),
            };
            output.push((super::outcome(result), 1));
        });
        Ok(self.outcomes(single.map(|(_, value)| value)))
    }
}

fn several_rows() -> DataFusionError {
    let message = "more than one row returned by a subquery used as an expression";
    let error = sql::error::SqlError::new(repr::sqlstate::SqlState::CARDINALITY_VIOLATION, message);
    DataFusionError::External(Box::new(error))
}

/// One NULL of each type.
fn nulls(types: &[DataType]) -> Result<Vec<u8>, RowError> {
    let mut bytes = Vec::new();
    for data_type in types {
        write_datum(&mut bytes, data_type, &Datum::Null)?;
    }
    Ok(bytes)
}

/// The rows that are there at all, once each.
pub(super) fn distinct<'scope, T: ScopeTime>(rows: Rows<'scope, T>, name: &str) -> ArrangedRows<'scope, T> {
    let by_row = arrange(rows.map(|row| (row, Vec::new())), name);
    reduced(by_row, name, |_, values, output| {
        if values.iter().any(|(_, count)| *count > 0) {
            output.push((Vec::new(), 1));
        }
    })
}

/// The rows that are in a set, as often as they are there.
fn among<'scope, T: ScopeTime>(rows: &Rows<'scope, T>, set: &ArrangedRows<'scope, T>) -> Rows<'scope, T> {
    let by_row = arrange(rows.clone().map(|row| (row, Vec::new())), "Members");
    by_row.join_core(set.clone(), |row, _, _| Some(row.to_vec()))
}

/// The rows without those.
fn unmatched<'scope, T: ScopeTime>(rows: &Rows<'scope, T>, matched: &Rows<'scope, T>) -> Rows<'scope, T> {
    rows.clone().concat(matched.clone().negate())
}

/// The keys that have any value.
fn exists<'scope, T: ScopeTime>(by_key: ArrangedRows<'scope, T>, name: &str) -> super::Keyed<'scope, T> {
    T::first(by_key, name, 1, |_, values, output| {
        if values.iter().any(|(_, count)| *count > 0) {
            output.push((Vec::new(), 1));
        }
    })
}

/// The rows if the condition, a set of one empty key, holds.
fn when<'scope, T: ScopeTime>(rows: &Rows<'scope, T>, condition: &ArrangedRows<'scope, T>) -> Rows<'scope, T> {
    let all = arrange(rows.clone().map(|row| (Vec::new(), row)), "When");
    all.join_core(condition.clone(), |_, row, _| Some(row.to_vec()))
}
