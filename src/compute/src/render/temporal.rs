//! Temporal filters: rows that are there for as long as conditions on the time are true of them.
//!
//! The conditions of a row bound the times at which it is there, from a first one to one at which it no longer is. So an
//! update of the input becomes one at the first of these times, or now if that has passed, and its opposite at the end. Both
//! are known at once, and those to come are held until their time: whoever is downstream sees a row when it comes and when
//! it goes.
//!
//! # Invariants
//! - What happens when stands in the schedule before a time is passed on that is after it.

use crate::render::mfp::{contained, decode, evaluate_all, types};
use crate::render::{Builder, Rows, ScopeTime};
use arrangement::allowance::Allowance;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Decimal128Type, Decimal256Type, Float64Type, Int64Type, SchemaRef, TimestampMicrosecondType, i256,
};
use compute_client::error::encode_error;
use compute_client::plan::lir::{Lir, TimeBound};
use compute_client::schedule::Slot;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use differential_dataflow::AsCollection;
use differential_dataflow::collection::concatenate;
use repr::row::{RowCodec, RowError};
use repr::{Diff, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::core::OkErr;
use timely::dataflow::operators::{Capability, Operator as _};

/// From when on a row is there, and from when on it no longer is; [`Timestamp::MAX`] is never.
type Span = (Timestamp, Timestamp);
/// A row, or an error, when it changes.
type Update<T> = (Vec<u8>, T, Diff);

impl<'scope, T: ScopeTime> Builder<'scope, T> {
    /// The rows of the input at the times at which its bounds allow them.
    pub(super) fn temporal(&mut self, input: &Lir, bounds: &[TimeBound]) -> Result<Rows<'scope, T>, RowError> {
        let conditions = Conditions::new(&input.schema, bounds)?;
        let rows = self.rows(input)?;
        // Where there are no tables below, time goes on with the clock.
        let rows = concatenate(self.scope, std::iter::once(rows).chain(self.clock.clone()));
        let slot = self.schedule.as_ref().map(|schedule| schedule.claim()).expect("a plan with filters has a schedule");
        let evaluated =
            rows.inner.unary_frontier::<CapacityContainerBuilder<Vec<Result<Update<T>, Update<T>>>>, _, _, _>(
                Pipeline,
                "TemporalFilter",
                move |_, _| {
                    let mut agenda = Agenda { slot, last: 0, to_come: BTreeSet::new() };
                    move |(input, frontier), output| {
                        input.for_each(|capability, batch| {
                            let mut session = output.session(&capability);
                            conditions.apply(batch, |update, span| {
                                let (row, time, diff) = update;
                                match span {
                                    Ok(span) => {
                                        agenda.lay_out(row, &time, diff, span, |update| session.give(Ok(update)))
                                    }
                                    Err(error) => session.give(Err((error, time, diff))),
                                }
                            });
                        });
                        let passed = frontier.frontier().iter().map(ScopeTime::when).min().unwrap_or(Timestamp::MAX);
                        agenda.pass(passed);
                    }
                },
            );
        let (oks, errs) = evaluated.ok_err(|result| result);
        self.errs.push(errs.as_collection());
        Ok(T::hold(&self.memory, oks.as_collection()))
    }
}

/// The times at which something changes.
struct Agenda {
    slot: Slot,
    last: Timestamp,
    to_come: BTreeSet<Timestamp>,
}

impl Agenda {
    /// What becomes of an update of a row that is there during `span`.
    fn lay_out<T: ScopeTime>(
        &mut self,
        row: Vec<u8>,
        time: &T,
        diff: Diff,
        (from, until): Span,
        mut give: impl FnMut(Update<T>),
    ) {
        let now = time.when();
        let from = from.max(now);
        if from >= until {
            return;
        }
        if until < Timestamp::MAX {
            self.to_come.insert(until);
            give((row.clone(), time.put_off(until), -diff));
        }
        if from > now {
            self.to_come.insert(from);
        }
        give((row, time.put_off(from), diff));
    }

    /// Notes that nothing more happens before `upper`.
    fn pass(&mut self, upper: Timestamp) {
        let later = self.to_come.split_off(&upper);
        let passed = std::mem::replace(&mut self.to_come, later);
        self.last = self.last.max(passed.last().copied().unwrap_or(0));
        self.slot.set(self.last, self.to_come.first().copied().unwrap_or(Timestamp::MAX));
    }
}

/// What an update that is held takes beside its row.
const ENTRY_BYTES: usize = 64;

/// Holds updates of later times until their time has come: an arrangement would look at all of them again and again.
pub(super) fn hold<'scope>(memory: &Arc<Allowance>, rows: Rows<'scope>) -> Rows<'scope> {
    let held = rows.inner.unary_frontier::<CapacityContainerBuilder<Vec<Update<Timestamp>>>, _, _, _>(
        Pipeline,
        "Hold",
        |_, _| {
            let mut held: BTreeMap<(Timestamp, Vec<u8>), Diff> = BTreeMap::new();
            let (mut byte_count, mut memory) = (0, memory.nothing());
            // At or before the first time that is held.
            let mut kept: Option<Capability<Timestamp>> = None;
            move |(input, frontier), output| {
                input.for_each(|capability, batch| {
                    let earliest = *capability.least().expect("updates travel under a capability");
                    let mut session = output.session(&capability);
                    for (row, time, diff) in batch.drain(..) {
                        if time == earliest {
                            session.give((row, time, diff));
                        } else {
                            let bytes = ENTRY_BYTES + row.len();
                            if memory.cover(byte_count + bytes) {
                                match add(&mut held, (time, row), diff) {
                                    Added::New => byte_count += bytes,
                                    Added::More => {}
                                    Added::Gone => byte_count = byte_count.saturating_sub(bytes),
                                }
                            }
                        }
                    }
                    drop(session);
                    if !held.is_empty() && kept.as_ref().is_none_or(|kept| earliest < *kept.time()) {
                        kept = capability.retain_least(0);
                    }
                });
                if let Some(capability) = &mut kept {
                    let frontier = frontier.frontier();
                    let mut session = output.session(&*capability);
                    while let Some(first) = held.first_entry()
                        && !frontier.less_equal(&first.key().0)
                    {
                        let ((time, row), diff) = first.remove_entry();
                        byte_count = byte_count.saturating_sub(ENTRY_BYTES + row.len());
                        session.give((row, time, diff));
                    }
                    drop(session);
                    memory.fall_to(byte_count);
                    match held.first_key_value() {
                        Some(((time, _), _)) => capability.downgrade(time),
                        None => kept = None,
                    }
                }
            }
        },
    );
    held.as_collection()
}

/// What became of an update that was added to those that are held.
enum Added {
    New,
    More,
    Gone,
}

fn add(held: &mut BTreeMap<(Timestamp, Vec<u8>), Diff>, key: (Timestamp, Vec<u8>), diff: Diff) -> Added {
    match held.entry(key) {
        std::collections::btree_map::Entry::Vacant(entry) => {
            entry.insert(diff);
            Added::New
        }
        std::collections::btree_map::Entry::Occupied(mut entry) => {
            *entry.get_mut() += diff;
            if *entry.get() == 0 {
                entry.remove();
                return Added::Gone;
            }
            Added::More
        }
    }
}

/// Bounds over rows.
struct Conditions {
    codec: RowCodec,
    schema: SchemaRef,
    ops: Vec<Operator>,
    with: Vec<Arc<dyn PhysicalExpr>>,
}

impl Conditions {
    fn new(schema: &SchemaRef, bounds: &[TimeBound]) -> Result<Conditions, RowError> {
        let (ops, with) = bounds.iter().map(|bound| (bound.op, Arc::clone(&bound.with))).unzip();
        Ok(Conditions { codec: RowCodec::new(&types(schema))?, schema: Arc::clone(schema), ops, with })
    }

    /// Takes all updates out of `batch` and gives each whose row is ever there with when it is, or with the error that it is.
    fn apply<T>(&self, batch: &mut Vec<Update<T>>, mut give: impl FnMut(Update<T>, Result<Span, Vec<u8>>)) {
        match contained(|| self.spans(batch)) {
            Ok(spans) => {
                for (update, span) in batch.drain(..).zip(spans) {
                    if let Some(span) = span {
                        give(update, Ok(span));
                    }
                }
            }
            // Only those that fail become errors.
            Err(_) => {
                for update in batch.drain(..) {
                    let one = [update];
                    let spans = contained(|| self.spans(&one));
                    let [update] = one;
                    match spans.map(|spans| spans.into_iter().next().flatten()) {
                        Ok(None) => {}
                        Ok(Some(span)) => give(update, Ok(span)),
                        Err(error) => give(update, Err(encode_error(error))),
                    }
                }
            }
        }
    }

    /// When each row is there; `None` is never.
    fn spans<T>(&self, updates: &[Update<T>]) -> Result<Vec<Option<Span>>, DataFusionError> {
        let rows = updates.iter().map(|(row, _, _)| row.as_slice());
        let batch = decode(&self.codec, &self.schema, rows)?;
        let times = evaluate_all(&self.with, &batch)?;
        let span = |at: usize| {
            self.ops.iter().zip(&times).try_fold((0, Timestamp::MAX), |(from, until), (op, times)| {
                let (first, end) = bounded(*op, time(times, at)?);
                let span = (from.max(first), until.min(end));
                (span.0 < span.1).then_some(span)
            })
        };
        Ok((0..updates.len()).map(span).collect())
    }
}

/// A time that may lie between two of ours: the last at or before it, and whether it is that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Moment {
    floor: i128,
    is_whole: bool,
}

impl Moment {
    fn whole(floor: i128) -> Moment {
        Moment { floor, is_whole: true }
    }

    /// The first time at or after it.
    fn ceiling(self) -> i128 {
        if self.is_whole { self.floor } else { self.after() }
    }

    /// The first time after it.
    fn after(self) -> i128 {
        self.floor.saturating_add(1)
    }
}

/// The times that compare so with a moment: from when on, and until when.
fn bounded(op: Operator, moment: Moment) -> Span {
    let clamp = |time: i128| Timestamp::try_from(time.max(0)).unwrap_or(Timestamp::MAX);
    match op {
        Operator::Lt => (0, clamp(moment.ceiling())),
        Operator::LtEq => (0, clamp(moment.after())),
        Operator::Gt => (clamp(moment.after()), Timestamp::MAX),
        Operator::GtEq => (clamp(moment.ceiling()), Timestamp::MAX),
        // `=`: the plan has no others.
        _ => (clamp(moment.ceiling()), clamp(moment.after())),
    }
}

/// A value as a moment; `None` for NULL, with which nothing compares.
fn time(times: &ArrayRef, at: usize) -> Option<Moment> {
    if times.is_null(at) {
        return None;
    }
    Some(match times.data_type() {
        DataType::Int64 => Moment::whole(times.as_primitive::<Int64Type>().value(at).into()),
        DataType::Timestamp(..) => Moment::whole(times.as_primitive::<TimestampMicrosecondType>().value(at).into()),
        DataType::Float64 => {
            let value = times.as_primitive::<Float64Type>().value(at);
            // NaN is greater than every number. The conversion keeps to the ends of what there is.
            match value.is_nan() {
                true => Moment::whole(i128::MAX),
                false => Moment { floor: value.floor() as i128, is_whole: value.fract() == 0.0 },
            }
        }
        DataType::Decimal128(_, scale) => {
            decimal(i256::from_i128(times.as_primitive::<Decimal128Type>().value(at)), *scale)
        }
        DataType::Decimal256(_, scale) => decimal(times.as_primitive::<Decimal256Type>().value(at), *scale),
        // The plan has no others.
        _ => return None,
    })
}

fn decimal(value: i256, scale: i8) -> Moment {
    let one = i256::from_i128(10).wrapping_pow(u32::try_from(scale).unwrap_or(0));
    let (quotient, rest) = (value.wrapping_div(one), value.wrapping_rem(one));
    let floor = if rest < i256::ZERO { quotient.wrapping_sub(i256::ONE) } else { quotient };
    let end = if floor < i256::ZERO { i128::MIN } else { i128::MAX };
    Moment { floor: floor.to_i128().unwrap_or(end), is_whole: rest == i256::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Decimal128Array, Float64Array};

    const OPS: [Operator; 5] = [Operator::Eq, Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq];

    /// Whether a time, in tenths, compares so.
    fn compares(op: Operator, now: i128, with: i128) -> bool {
        match op {
            Operator::Eq => now == with,
            Operator::Lt => now < with,
            Operator::LtEq => now <= with,
            Operator::Gt => now > with,
            _ => now >= with,
        }
    }

    #[test]
    fn a_span_has_the_times_that_compare_so() {
        for tenths in -25..=45_i128 {
            let values: [ArrayRef; 2] = [
                Arc::new(Decimal128Array::from(vec![tenths]).with_precision_and_scale(10, 1).expect("it fits")),
                Arc::new(Float64Array::from(vec![tenths as f64 / 10.0])),
            ];
            for (values, op) in values.iter().flat_map(|values| OPS.map(|op| (values, op))) {
                let (from, until) = bounded(op, time(values, 0).expect("it is not NULL"));
                for now in 0..6_u64 {
                    let expected = compares(op, i128::from(now) * 10, tenths);
                    assert_eq!((from..until).contains(&now), expected, "{now} {op} {tenths} tenths");
                }
            }
        }
    }

    #[test]
    fn what_is_beyond_all_times_is_never_or_always() {
        let far = [f64::NAN, f64::INFINITY, 1e30, f64::NEG_INFINITY, -1e30];
        let values: ArrayRef = Arc::new(Float64Array::from(far.to_vec()));
        for (at, value) in far.into_iter().enumerate() {
            let span = |op| bounded(op, time(&values, at).expect("it is not NULL"));
            let (below, above) = (span(Operator::LtEq), span(Operator::GtEq));
            let is_late = at < 3;
            assert_eq!(below.1 == Timestamp::MAX, is_late, "{value}");
            assert_eq!(below.0 >= below.1, !is_late, "{value}");
            assert_eq!(above.0 >= above.1, is_late, "{value}");
        }
        let huge = decimal(i256::MAX, 0);
        assert_eq!(bounded(Operator::Lt, huge), (0, Timestamp::MAX));
        assert_eq!(bounded(Operator::Gt, decimal(i256::MIN, 3)), (0, Timestamp::MAX));
    }
}
