//! The first rows in an order.
//!
//! A value is the row behind its sort key, so that values stand in the order asked for and the first ones are found by
//! counting ([`super::first`]). With several workers, each finds the first of its share before one finds the first of all.

use crate::render::first::Counted;
use crate::render::mfp::{contained, decode, evaluate_all, types};
use crate::render::{Builder, Rows, ScopeTime, arrange};
use arrow::compute::SortOptions;
use arrow::row::{RowConverter, SortField};
use compute_client::error::encode_error;
use compute_client::index::key_hash;
use compute_client::plan::lir::{Lir, SortKey};
use datafusion::error::DataFusionError;
use differential_dataflow::AsCollection;
use repr::Diff;
use repr::row::{RowCodec, RowError};
use std::sync::Arc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::Operator;
use timely::dataflow::operators::vec::ResultStream;

/// The bytes behind the sort key and the row that say where the row begins.
const TRAILER_BYTES: usize = 4;

impl<'scope, T: ScopeTime> Builder<'scope, T> {
    /// Renders LIMIT and OFFSET.
    pub(super) fn top_k(
        &mut self,
        input: &Lir,
        order: &[SortKey],
        skip: usize,
        fetch: Option<usize>,
    ) -> Result<Rows<'scope, T>, RowError> {
        let rows = self.rows(input)?;
        let mut values = self.sortable(rows, input, order)?;
        let wanted = fetch.map_or(Diff::MAX, |fetch| as_diff(fetch.saturating_add(skip)));
        let peers = u64::try_from(self.scope.peers()).expect("workers are few");
        if peers > 1 && fetch.is_some() {
            let shares = values.map(move |value| ((key_hash(&value) % peers).to_be_bytes().to_vec(), value));
            let first_of_share =
                T::first(arrange(shares, "TopK share"), "TopK share", wanted, move |_, values, output| {
                    first(values, 0, Some(wanted), output);
                });
            values = first_of_share.map(|(_, value)| value);
        }
        let all = arrange(values.map(|value| (Vec::new(), value)), "TopK input");
        let (skip, fetch) = (as_diff(skip), fetch.map(as_diff));
        let values = T::first(all, "TopK", wanted, move |_, values, output| first(values, skip, fetch, output));
        Ok(values.map(|(_, value)| row(&value).to_vec()))
    }

    /// Rows behind their sort keys.
    fn sortable(&mut self, rows: Rows<'scope, T>, input: &Lir, order: &[SortKey]) -> Result<Rows<'scope, T>, RowError> {
        let exprs: Vec<_> = order.iter().map(|key| Arc::clone(&key.expr)).collect();
        let fields = order
            .iter()
            .map(|key| {
                let data_type = key
                    .expr
                    .data_type(&input.schema)
                    .map_err(|_| RowError::UnsupportedType(arrow::datatypes::DataType::Null))?;
                let options = SortOptions { descending: key.descending, nulls_first: key.nulls_first };
                Ok(SortField::new_with_options(data_type, options))
            })
            .collect::<Result<Vec<_>, RowError>>()?;
        let converter = RowConverter::new(fields)?;
        let (codec, schema) = (RowCodec::new(&types(&input.schema))?, Arc::clone(&input.schema));
        type Update<T> = (Vec<u8>, T, Diff);
        let sort_keys = move |updates: &[Update<T>]| -> Result<Option<arrow::row::Rows>, DataFusionError> {
            if exprs.is_empty() {
                return Ok(None);
            }
            contained(|| {
                let batch = decode(&codec, &schema, updates.iter().map(|(row, _, _)| row.as_slice()))?;
                let columns = evaluate_all(&exprs, &batch)?;
                Ok(Some(converter.convert_columns(&columns)?))
            })
        };
        let value = |key: &[u8], row: &[u8]| {
            let length = u32::try_from(key.len()).expect("sort keys are shorter than messages");
            [key, row, &length.to_be_bytes()].concat()
        };
        let sorted = rows.inner.unary::<CapacityContainerBuilder<Vec<Result<Update<T>, Update<T>>>>, _, _, _>(
            Pipeline,
            "Sort keys",
            move |_, _| {
                move |stream, output| {
                    stream.for_each(|capability, batch: &mut Vec<Update<T>>| {
                        let mut session = output.session(&capability);
                        if let Ok(keys) = sort_keys(batch) {
                            for (at, (row, time, diff)) in batch.drain(..).enumerate() {
                                let key = keys.as_ref().map_or(&[][..], |keys| keys.row(at).data());
                                session.give(Ok((value(key, &row), time, diff)));
                            }
                            return;
                        }
                        for update in batch.drain(..) {
                            let keys = sort_keys(std::slice::from_ref(&update));
                            let (row, time, diff) = update;
                            match keys {
                                Ok(keys) => {
                                    let key = keys.as_ref().map_or(&[][..], |keys| keys.row(0).data());
                                    session.give(Ok((value(key, &row), time, diff)));
                                }
                                Err(error) => session.give(Err((encode_error(error), time, diff))),
                            }
                        }
                    });
                }
            },
        );
        self.errs.push(sorted.clone().err().as_collection());
        Ok(sorted.ok().as_collection())
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
