//! Joins. All of them are made of pairs of rows with equal keys; an outer, semi, anti or mark join then needs to know which
//! rows are in a pair.
//!
//! Rows that are equal have the same partners, so "in a pair" is a set of rows: the distinct left parts of the pairs, or,
//! where equal keys are all that counts, the left rows whose key the other side has.

use crate::render::flow::{self, Flow, PackedRows};
use crate::render::mfp::{NullKeys, RowPlan, Scratch, contained, external, is_true, narrow, types};
use crate::render::pairs::pairs;
use crate::render::{ArrangedRows, Builder, Keyed, Rows, ScopeTime, arrange, arrange_packed, fallible, reduced};
use arrangement::allowance::Allowance;
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, SchemaRef};
use compute_client::error::encode_error;
use compute_client::plan::lir::{self, Join, JoinKind, Lir, Node};
use compute_client::protocol::KeyExpr;
use datafusion::error::DataFusionError;
use datafusion::physical_expr::PhysicalExpr;
use differential_dataflow::{AsCollection, VecCollection};
use repr::columns::ColumnDecoder;
use repr::row::{RowError, write_datum};
use repr::{Datum, Diff};
use std::collections::BTreeSet;
use std::sync::Arc;
use timely::container::PushInto;

/// A left row followed by a right one, and where the right one begins.
type Pairs<'scope, T> = VecCollection<'scope, T, (Vec<u8>, usize), Diff>;

/// One side of a join.
struct Side<'scope, T: ScopeTime> {
    rows: Rows<'scope, T>,
    /// The rows that may have a partner, by key.
    by_key: ArrangedRows<'scope, T>,
}

impl<'scope, T: ScopeTime> Builder<'scope, T> {
    /// Renders a join.
    pub(super) fn join(&mut self, join: &Join) -> Result<Rows<'scope, T>, RowError> {
        match join.kind {
            JoinKind::Inner if join.filter.is_none() => Ok(flow::rows(self.plain_pairs(join)?)),
            JoinKind::Inner => {
                let (left, right) = self.keyed_sides(join)?;
                Ok(self.pairs(join, left, right)?.map(|(row, _)| row))
            }
            JoinKind::Semi if join.filter.is_none() => {
                let (left, right) = self.keyed_sides(join)?;
                Ok(with_partner(&self.memory, left, right))
            }
            JoinKind::Left | JoinKind::Semi | JoinKind::Anti | JoinKind::Mark => self.of_left_rows(join),
            JoinKind::Full => self.full_join(join),
            JoinKind::NotIn => self.not_in(join),
        }
    }

    /// A join that gives something of every left row, or of every one that has a partner or none.
    fn of_left_rows(&mut self, join: &Join) -> Result<Rows<'scope, T>, RowError> {
        let (left_key, right_key, null_keys) = keys(join)?;
        let left = self.side(&join.left, &left_key, null_keys)?;
        let right = self.arranged_by(&join.right, &right_key, null_keys, "Join input")?;
        if join.kind == JoinKind::Left {
            let pairs = self.pairs(join, left.by_key.clone(), right.clone())?;
            let lonely = unmatched(&left.rows, &self.matched(join, &left, &right, Some(&pairs))?);
            let nulls = nulls(&join.right.types())?;
            return Ok(pairs.map(|(row, _)| row).concat(lonely.map(move |row| [row, nulls.clone()].concat())));
        }
        let matched = self.matched(join, &left, &right, None)?;
        if join.kind == JoinKind::Semi {
            return Ok(matched);
        }
        let lonely = unmatched(&left.rows, &matched);
        if join.kind == JoinKind::Anti {
            return Ok(lonely);
        }
        let mark = |value: bool| {
            let mut bytes = Vec::new();
            write_datum(&mut bytes, &DataType::Boolean, &Datum::Bool(value)).map(|()| bytes)
        };
        let (yes, no) = (mark(true)?, mark(false)?);
        Ok(matched
            .map(move |row| [row, yes.clone()].concat())
            .concat(lonely.map(move |row| [row, no.clone()].concat())))
    }

    fn full_join(&mut self, join: &Join) -> Result<Rows<'scope, T>, RowError> {
        let (left, right) = self.sides(join)?;
        let pairs = self.pairs(join, left.by_key.clone(), right.by_key.clone())?;
        let lonely = unmatched(&left.rows, &self.matched(join, &left, &right.by_key, Some(&pairs))?);
        let right_parts = distinct(&self.memory, pairs.clone().map(|(row, at)| row[at..].to_vec()), "Matched right");
        let lonely_right = unmatched(&right.rows, &among(&self.memory, &right.rows, &right_parts));
        let (left_nulls, right_nulls) = (nulls(&join.left.types())?, nulls(&join.right.types())?);
        Ok(pairs
            .map(|(row, _)| row)
            .concat(lonely.map(move |row| [row, right_nulls.clone()].concat()))
            .concat(lonely_right.map(move |row| [left_nulls.clone(), row].concat())))
    }

    fn not_in(&mut self, join: &Join) -> Result<Rows<'scope, T>, RowError> {
        let (left, right) = self.sides(join)?;
        let lonely = unmatched(&left.rows, &self.matched(join, &left, &right.by_key, None)?);
        // Left rows whose key is NULL are among the lonely; they stay only if there is nothing to compare with.
        let with_key = left.by_key.clone().as_collection(|_, row| row.to_vec());
        let without_key = unmatched(&left.rows, &with_key);
        let lonely_with_key = unmatched(&lonely, &without_key);
        let all = right.rows.clone().map(|_| (Vec::new(), Vec::new()));
        let keyless = unmatched(&right.rows, &right.by_key.clone().as_collection(|_, row| row.to_vec()));
        let exists = |rows| {
            let memory = &self.memory;
            arrange(memory, exists(memory, arrange(memory, rows, "Exists"), "Exists"), "Exists")
        };
        let any = exists(all);
        let any_null = exists(keyless.map(|_| (Vec::new(), Vec::new())));
        let kept = unmatched(&lonely_with_key, &when(&self.memory, &lonely_with_key, &any_null));
        Ok(kept.concat(unmatched(&without_key, &when(&self.memory, &without_key, &any))))
    }

    /// The pairs of a plain join.
    pub(super) fn plain_pairs(&mut self, join: &Join) -> Result<PackedRows<'scope, T>, RowError> {
        let (left, right) = self.keyed_sides(join)?;
        Ok(packed_pairs(&self.memory, left, right, |pair, give| give(&[], pair)))
    }

    /// The pairs of a plain join, cut and put under keys.
    pub(super) fn pairs_by(&mut self, join: &Join, plan: RowPlan) -> Result<PackedRows<'scope, T>, RowError> {
        let (left, right) = self.keyed_sides(join)?;
        let mut scratch = Scratch::default();
        Ok(packed_pairs(&self.memory, left, right, move |pair, give| plan.cut(pair, &mut scratch, give)))
    }

    /// The rows of both sides that may have a partner, by key.
    fn keyed_sides(&mut self, join: &Join) -> Result<(ArrangedRows<'scope, T>, ArrangedRows<'scope, T>), RowError> {
        let (left_key, right_key, null_keys) = keys(join)?;
        let left = self.arranged_by(&join.left, &left_key, null_keys, "Join input")?;
        Ok((left, self.arranged_by(&join.right, &right_key, null_keys, "Join input")?))
    }

    /// Both sides, where the rows without a partner count as well.
    fn sides(&mut self, join: &Join) -> Result<(Side<'scope, T>, Side<'scope, T>), RowError> {
        let (left_key, right_key, null_keys) = keys(join)?;
        let left = self.side(&join.left, &left_key, null_keys)?;
        Ok((left, self.side(&join.right, &right_key, null_keys)?))
    }

    fn side(&mut self, lir: &Lir, key: &[KeyExpr], null_keys: NullKeys) -> Result<Side<'scope, T>, RowError> {
        let rows = self.rows(lir)?;
        if matches!(lir.node, Node::Get(_) | Node::GetShared(_)) {
            // Others may have it arranged.
            return Ok(Side { rows, by_key: self.arranged_by(lir, key, null_keys, "Join input")? });
        }
        let plan = RowPlan::new(&lir.schema, &[], key, null_keys)?;
        let keyed = self.packed(Flow::Rows(rows.clone()), plan);
        let by_key = arrange_packed(&self.memory, keyed, "Join input");
        Ok(Side { rows, by_key })
    }

    /// The pairs with equal keys that the filter lets pass.
    fn pairs(
        &mut self,
        join: &Join,
        left: ArrangedRows<'scope, T>,
        right: ArrangedRows<'scope, T>,
    ) -> Result<Pairs<'scope, T>, RowError> {
        let pairs =
            flow::each(side_by_side(&self.memory, left, right), |left, right| ([left, right].concat(), left.len()));
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
        // Only what the filter reads is decoded.
        let read: BTreeSet<usize> = lir::columns(&filter).collect();
        let filter = narrow::over(&filter, &read);
        let decoder = ColumnDecoder::new(&types(&schema), read.clone())?;
        let schema = narrow::project(&schema, &read);
        type Update<T> = ((Vec<u8>, usize), T, Diff);
        let mask = move |updates: &[Update<T>]| {
            contained(|| {
                let options = RecordBatchOptions::new().with_row_count(Some(updates.len()));
                let columns =
                    decoder.decode(updates.iter().map(|((row, _), _, _)| row.as_slice())).map_err(external)?;
                let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?;
                is_true(filter.as_ref(), &batch)
            })
        };
        let (filtered, errs) = fallible(pairs.inner, "Join filter", move |batch: &mut Vec<Update<T>>, give| {
            if let Ok(mask) = mask(batch) {
                for (update, kept) in batch.drain(..).zip(mask.iter()) {
                    if kept == Some(true) {
                        give(Ok(update));
                    }
                }
                return;
            }
            // Something fails: find out which.
            for update in batch.drain(..) {
                match mask(std::slice::from_ref(&update)) {
                    Ok(mask) if mask.value(0) => give(Ok(update)),
                    Ok(_) => {}
                    Err(error) => give(Err((encode_error(error), update.1, update.2))),
                }
            }
        });
        self.errs.push(errs);
        Ok(filtered.as_collection())
    }

    /// The left rows that are in a pair, as often as they are there.
    fn matched(
        &mut self,
        join: &Join,
        left: &Side<'scope, T>,
        right: &ArrangedRows<'scope, T>,
        pairs: Option<&Pairs<'scope, T>>,
    ) -> Result<Rows<'scope, T>, RowError> {
        if join.filter.is_none() {
            return Ok(with_partner(&self.memory, left.by_key.clone(), right.clone()));
        }
        let pairs = match pairs {
            Some(pairs) => pairs.clone(),
            None => self.pairs(join, left.by_key.clone(), right.clone())?,
        };
        let parts = distinct(
            &self.memory,
            pairs.map(|(mut row, at)| {
                row.truncate(at);
                row
            }),
            "Matched left",
        );
        Ok(among(&self.memory, &left.rows, &parts))
    }

    /// The only row of an input, NULLs if there is none.
    pub(super) fn single(&mut self, input: &Lir) -> Result<Rows<'scope, T>, RowError> {
        let rows = self.rows(input)?.map(|row| (Vec::new(), [&[1], row.as_slice()].concat()));
        // A value that is always there, so that there is a group without rows as well.
        let marker = self.constant(vec![(vec![0], 1)]).map(|row| (Vec::new(), row));
        let nulls = nulls(&input.types())?;
        let all = arrange(&self.memory, rows.concat(marker), "Single");
        // The marker and two rows tell everything.
        let single = T::first(&self.memory, all, "Single", 3, move |_, values, output| {
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

/// What is given of each pair of values of a key, the left one followed by the right one.
fn packed_pairs<'scope, T: ScopeTime>(
    memory: &Arc<Allowance>,
    left: ArrangedRows<'scope, T>,
    right: ArrangedRows<'scope, T>,
    mut make: impl FnMut(&[u8], &mut dyn FnMut(&[u8], &[u8])) + 'static,
) -> PackedRows<'scope, T> {
    let mut pair = Vec::new();
    pairs(memory, left, right, move |_, left, right, time, diff, output| {
        pair.clear();
        pair.extend_from_slice(left);
        pair.extend_from_slice(right);
        make(&pair, &mut |key, row| output.push_into((key, row, time.clone(), diff)));
    })
}

/// The pairs of values of a key, the left one as key of the right one.
fn side_by_side<'scope, T: ScopeTime>(
    memory: &Arc<Allowance>,
    left: ArrangedRows<'scope, T>,
    right: ArrangedRows<'scope, T>,
) -> PackedRows<'scope, T> {
    pairs(memory, left, right, |_, left, right, time, diff, output| {
        output.push_into((left, right, time, diff));
    })
}

/// The left value of each pair of values of a key.
fn left_values<'scope, T: ScopeTime>(
    memory: &Arc<Allowance>,
    left: ArrangedRows<'scope, T>,
    right: ArrangedRows<'scope, T>,
) -> Rows<'scope, T> {
    let values =
        pairs(memory, left, right, |_, left, _, time, diff, output| output.push_into((&[][..], left, time, diff)));
    flow::rows(values)
}

/// The left values whose key the right side has.
fn with_partner<'scope, T: ScopeTime>(
    memory: &Arc<Allowance>,
    left: ArrangedRows<'scope, T>,
    right: ArrangedRows<'scope, T>,
) -> Rows<'scope, T> {
    let keys = arrange(memory, exists(memory, right, "Distinct keys"), "Distinct keys");
    left_values(memory, left, keys)
}

/// The keys of both sides, over their rows.
fn keys(join: &Join) -> Result<(Vec<KeyExpr>, Vec<KeyExpr>, NullKeys), RowError> {
    let key = |expr: &Arc<dyn PhysicalExpr>, lir: &Lir| {
        let data_type = expr.data_type(&lir.schema).map_err(|_| RowError::UnsupportedType(DataType::Null))?;
        Ok(KeyExpr::Expr(Arc::clone(expr), data_type))
    };
    let left = join.on.iter().map(|(left, _)| key(left, &join.left)).collect::<Result<_, RowError>>()?;
    let right = join.on.iter().map(|(_, right)| key(right, &join.right)).collect::<Result<_, RowError>>()?;
    // NULL equals nothing if the NULLs of either side are left out; those of the left side are still needed.
    Ok((left, right, if join.nulls_match { NullKeys::Keep } else { NullKeys::Drop }))
}

fn several_rows() -> DataFusionError {
    let message = "more than one row returned by a subquery used as an expression";
    let error = engine::error::SqlError::new(repr::sqlstate::SqlState::CARDINALITY_VIOLATION, message);
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
pub(super) fn distinct<'scope, T: ScopeTime>(
    memory: &Arc<Allowance>,
    rows: Rows<'scope, T>,
    name: &str,
) -> ArrangedRows<'scope, T> {
    let by_row = arrange(memory, rows.map(|row| (row, Vec::new())), name);
    reduced(memory, by_row, name, |_, values, output| {
        if values.iter().any(|(_, count)| *count > 0) {
            output.push((Vec::new(), 1));
        }
    })
}

/// The rows that are in a set, as often as they are there.
fn among<'scope, T: ScopeTime>(
    memory: &Arc<Allowance>,
    rows: &Rows<'scope, T>,
    set: &ArrangedRows<'scope, T>,
) -> Rows<'scope, T> {
    let by_row = arrange(memory, rows.clone().map(|row| (row, Vec::new())), "Members");
    let rows = pairs(memory, by_row, set.clone(), |row, _, _, time, diff, output| {
        output.push_into((&[][..], row, time, diff));
    });
    flow::rows(rows)
}

/// The rows without those.
fn unmatched<'scope, T: ScopeTime>(rows: &Rows<'scope, T>, matched: &Rows<'scope, T>) -> Rows<'scope, T> {
    rows.clone().concat(matched.clone().negate())
}

/// The keys that have any value.
fn exists<'scope, T: ScopeTime>(
    memory: &Arc<Allowance>,
    by_key: ArrangedRows<'scope, T>,
    name: &str,
) -> Keyed<'scope, T> {
    T::first(memory, by_key, name, 1, |_, values, output| {
        if values.iter().any(|(_, count)| *count > 0) {
            output.push((Vec::new(), 1));
        }
    })
}

/// The rows if the condition, a set of one empty key, holds.
fn when<'scope, T: ScopeTime>(
    memory: &Arc<Allowance>,
    rows: &Rows<'scope, T>,
    condition: &ArrangedRows<'scope, T>,
) -> Rows<'scope, T> {
    let all = arrange(memory, rows.clone().map(|row| (Vec::new(), row)), "When");
    left_values(memory, all, condition.clone())
}
