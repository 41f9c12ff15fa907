//! The first rows in an order, of all or of each group.
//!
//! A value is the row behind its sort key, so that values stand in the order asked for and the first ones are found by
//! counting ([`super::first`]). With several workers, each finds the first of its share before one finds the first of all.

use crate::render::first::Counted;
use crate::render::mfp::{contained, decode, evaluate_all, types, write_key};
use crate::render::{Builder, Keyed, Rows, ScopeTime, arrange};
use arrangement::spine::RowUpdate;
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::row::{RowConverter, SortField};
use compute_client::error::encode_error;
use compute_client::index::key_hash;
use compute_client::plan::lir::{Lir, SortKey};
use datafusion::error::DataFusionError;
use datafusion::physical_expr::PhysicalExpr;
use differential_dataflow::AsCollection;
use repr::Diff;
use repr::row::{RowCodec, RowError};
use std::sync::Arc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::Operator;
use timely::dataflow::operators::core::OkErr;

/// The bytes behind the sort key and the row that say where the row begins.
const TRAILER_BYTES: usize = 4;

impl<'scope, T: ScopeTime> Builder<'scope, T> {
    /// Renders LIMIT and OFFSET, of all rows or of each group.
    pub(super) fn top_k(
        &mut self,
        input: &Lir,
        key: &[Arc<dyn PhysicalExpr>],
        order: &[SortKey],
        skip: usize,
        fetch: Option<usize>,
    ) -> Result<Rows<'scope, T>, RowError> {
        let rows = self.rows(input)?;
        let mut values = self.sortable(rows, input, key, order)?;
        let wanted = fetch.map_or(Diff::MAX, |fetch| as_diff(fetch.saturating_add(skip)));
        let peers = u64::try_from(self.scope.peers()).expect("workers are few");
        if key.is_empty() && peers > 1 && fetch.is_some() {
            let shares = values.map(move |(_, value)| ((key_hash(&value) % peers).to_be_bytes().to_vec(), value));
            let first_of_share = T::first(
                &self.memory,
                arrange(&self.memory, shares, "TopK share"),
                "TopK share",
                wanted,
                move |_, values, output| {
                    first(values, 0, Some(wanted), output);
                },
            );
            values = first_of_share.map(|(_, value)| (Vec::new(), value));
        }
        let (skip, fetch) = (as_diff(skip), fetch.map(as_diff));
        let logic = move |_: &[u8], values: &[Counted<'_>], output: &mut Vec<_>| first(values, skip, fetch, output);
        Ok(T::first(&self.memory, arrange(&self.memory, values, "TopK input"), "TopK", wanted, logic)
            .map(|(_, value)| row(&value).to_vec()))
    }

    /// Rows behind their sort keys, under the keys of their groups.
    fn sortable(
        &mut self,
        rows: Rows<'scope, T>,
        input: &Lir,
        key: &[Arc<dyn PhysicalExpr>],
        order: &[SortKey],
    ) -> Result<Keyed<'scope, T>, RowError> {
        let sortable = Sortable::new(input, key, order)?;
        type Update<T> = (Vec<u8>, T, Diff);
        let sorted = rows.inner.unary::<CapacityContainerBuilder<Vec<Result<RowUpdate<T>, Update<T>>>>, _, _, _>(
            Pipeline,
            "Sort keys",
            move |_, _| {
                move |stream, output| {
                    stream.for_each(|capability, batch: &mut Vec<Update<T>>| {
                        let mut session = output.session(&capability);
                        let rows = batch.iter().map(|(row, _, _)| row.as_slice()).collect::<Vec<_>>();
                        if let Ok(keyed) = sortable.values(&rows) {
                            for (keyed, (_, time, diff)) in keyed.into_iter().zip(batch.drain(..)) {
                                session.give(Ok((keyed, time, diff)));
                            }
                            return;
                        }
                        // Something fails: find out which.
                        for (row, time, diff) in batch.drain(..) {
                            match sortable.values(&[&row]) {
                                Ok(keyed) => keyed.into_iter().for_each(|keyed| {
                                    session.give(Ok((keyed, time.clone(), diff)));
                                }),
                                Err(error) => session.give(Err((encode_error(error), time, diff))),
                            }
                        }
                    });
                }
            },
        );
        let (oks, errs) = sorted.ok_err(|result| result);
        self.errs.push(errs.as_collection());
        Ok(oks.as_collection())
    }
}

/// How rows become values that stand in the order asked for.
struct Sortable {
    codec: RowCodec,
    schema: SchemaRef,
    /// What rows are grouped by, then what they are ordered by.
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    key_width: usize,
    order: RowConverter,
}

impl Sortable {
    fn new(input: &Lir, key: &[Arc<dyn PhysicalExpr>], order: &[SortKey]) -> Result<Sortable, RowError> {
        let fields = order
            .iter()
            .map(|key| {
                let data_type =
                    key.expr.data_type(&input.schema).map_err(|_| RowError::UnsupportedType(DataType::Null))?;
                let options = SortOptions { descending: key.descending, nulls_first: key.nulls_first };
                Ok(SortField::new_with_options(data_type, options))
            })
            .collect::<Result<Vec<_>, RowError>>()?;
        Ok(Sortable {
            codec: RowCodec::new(&types(&input.schema))?,
            schema: Arc::clone(&input.schema),
            exprs: key.iter().chain(order.iter().map(|key| &key.expr)).cloned().collect(),
            key_width: key.len(),
            order: RowConverter::new(fields)?,
        })
    }

    /// The group's key and the value of each row.
    fn values(&self, rows: &[&[u8]]) -> Result<Vec<(Vec<u8>, Vec<u8>)>, DataFusionError> {
        let value = |order: &[u8], row: &[u8]| {
            let length = u32::try_from(order.len()).expect("sort keys are shorter than messages");
            [order, row, &length.to_be_bytes()].concat()
        };
        if self.exprs.is_empty() {
            return Ok(rows.iter().map(|row| (Vec::new(), value(&[], row))).collect());
        }
        contained(|| {
            let batch = decode(&self.codec, &self.schema, rows.iter().copied())?;
            let columns = evaluate_all(&self.exprs, &batch)?;
            let (keys, order) = columns.split_at(self.key_width);
            let order = if order.is_empty() { None } else { Some(self.order.convert_columns(order)?) };
            let mut values = Vec::with_capacity(rows.len());
            for (at, row) in rows.iter().enumerate() {
                let mut key = Vec::new();
                for column in keys {
                    write_key(&mut key, column.as_ref(), at)
                        .map_err(|error| DataFusionError::External(Box::new(error)))?;
                }
                values.push((key, value(order.as_ref().map_or(&[], |order| order.row(at).data()), row)));
            }
            Ok(values)
        })
    }
}

/// Gives the values from position `skip` on, `fetch` of them, copies counted.
fn first(values: &[Counted<'_>], mut skip: Diff, fetch: Option<Diff>, output: &mut Vec<(Vec<u8>, Diff)>) {
    let mut left = fetch.unwrap_or(Diff::MAX);
    for (value, count) in values {
        let skipped = skip.min(*count).max(0);
        skip -= skipped;
        let taken = (count - skipped).min(left);
        if taken > 0 {
            output.push((value.to_vec(), taken));
            left -= taken;
        }
        if left == 0 {
            return;
        }
    }
}

fn as_diff(count: usize) -> Diff {
    Diff::try_from(count).unwrap_or(Diff::MAX)
}

fn row(value: &[u8]) -> &[u8] {
    let (rest, trailer) = value.split_last_chunk::<TRAILER_BYTES>().expect("every value ends with its trailer");
    &rest[u32::from_be_bytes(*trailer) as usize..]
}

#[cfg(test)]
mod tests {
    use super::first;

    #[test]
    fn copies_count() {
        let values: [(&[u8], i64); 3] = [(b"a", 2), (b"b", 3), (b"c", 1)];
        let take = |skip, fetch| {
            let mut output = Vec::new();
            first(&values, skip, fetch, &mut output);
            output.into_iter().map(|(value, count)| (value[0], count)).collect::<Vec<_>>()
        };
        assert_eq!(take(0, Some(3)), [(b'a', 2), (b'b', 1)]);
        assert_eq!(take(1, Some(2)), [(b'a', 1), (b'b', 1)]);
        assert_eq!(take(4, None), [(b'b', 1), (b'c', 1)]);
        assert_eq!(take(9, Some(1)), []);
        assert_eq!(take(0, Some(0)), []);
    }
}
