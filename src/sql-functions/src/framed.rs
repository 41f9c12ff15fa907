//! Sums, averages and deviations of floats over window frames.
//!
//! What a frame leaves behind cannot be taken out of a float again: of `1e20 + 1 - 1e20` nothing is left, and a NaN stays. So
//! these keep the values of the frame, and add them up anew for each row, in the order and by the recurrence of PostgreSQL
//! (Youngs and Cramer, for deviations): every digit is the same. A frame that only grows goes on from where it was.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use std::collections::VecDeque;
use std::sync::Arc;

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Of {
    /// The sum of float8 values.
    Sum,
    /// That of float4 values, each step of it rounded to float4.
    NarrowSum,
    /// Their average.
    Avg,
    /// The variance of a population.
    VarPop,
    /// That of a sample.
    VarSamp,
    /// The standard deviation of a population.
    StddevPop,
    /// That of a sample.
    StddevSamp,
}

/// The aggregate, of one column of Float64; its result is one, too.
pub fn framed(of: Of) -> Arc<AggregateUDF> {
    let signature = Signature::exact(vec![DataType::Float64], Volatility::Immutable);
    Arc::new(AggregateUDF::new_from_impl(Framed { of, signature }))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Framed {
    of: Of,
    signature: Signature,
}

impl AggregateUDFImpl for Framed {
    fn name(&self) -> &str {
        match self.of {
            Of::Sum => "framed_sum",
            Of::NarrowSum => "framed_float4_sum",
            Of::Avg => "framed_avg",
            Of::VarPop => "framed_var_pop",
            Of::VarSamp => "framed_var_samp",
            Of::StddevPop => "framed_stddev_pop",
            Of::StddevSamp => "framed_stddev_samp",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _args: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn accumulator(&self, _args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Growing { of: self.of, moments: Moments::default() }))
    }

    fn create_sliding_accumulator(&self, _args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Sliding { of: self.of, values: VecDeque::new() }))
    }

    fn state_fields(&self, _args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(["count", "sum", "squares"].map(|name| Arc::new(Field::new(name, DataType::Float64, false))).to_vec())
    }
}

/// Number of values, their sum, and the sum of the squares of their distances from their average.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, of: Of, value: f64) -> Result<()> {
        let Moments { count: count_before, sum: sum_before, .. } = *self;
        self.count += 1.0;
        match of {
            Of::NarrowSum => self.sum = f64::from((sum_before + value) as f32),
            _ => self.sum += value,
        }
        if self.sum.is_infinite() && sum_before.is_finite() && value.is_finite() {
            return Err(overflow());
        }
        if matches!(of, Of::Sum | Of::NarrowSum) {
            return Ok(());
        }
        if count_before > 0.0 {
            let distance = value * self.count - self.sum;
            self.squares += distance * distance / (self.count * count_before);
            if self.squares.is_infinite() {
                if sum_before.is_finite() && value.is_finite() {
                    return Err(overflow());
                }
                self.squares = f64::NAN;
            }
        } else if !value.is_finite() {
            self.squares = f64::NAN;
        }
        Ok(())
    }

    fn result(&self, of: Of) -> ScalarValue {
        let samples = |least: f64| (self.count >= least).then_some(self);
        ScalarValue::Float64(match of {
            Of::Sum | Of::NarrowSum => samples(1.0).map(|of| of.sum),
            Of::Avg => samples(1.0).map(|of| of.sum / of.count),
            Of::VarPop => samples(1.0).map(|of| of.squares / of.count),
            Of::VarSamp => samples(2.0).map(|of| of.squares / (of.count - 1.0)),
            Of::StddevPop => samples(1.0).map(|of| (of.squares / of.count).sqrt()),
            Of::StddevSamp => samples(2.0).map(|of| (of.squares / (of.count - 1.0)).sqrt()),
        })
    }
}

fn overflow() -> datafusion::error::DataFusionError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow").into()
}

/// The values of a column that are not NULL.
fn values(columns: &[ArrayRef]) -> impl Iterator<Item = f64> {
    columns[0].as_primitive::<Float64Type>().iter().flatten()
}

/// A frame whose first row stays.
#[derive(Debug)]
struct Growing {
    of: Of,
    moments: Moments,
}

impl Accumulator for Growing {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        values(columns).try_for_each(|value| self.moments.add(self.of, value))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.moments.result(self.of))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        unmergeable()
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        unmergeable()
    }
}

/// A frame that rows leave.
#[derive(Debug)]
struct Sliding {
    of: Of,
    values: VecDeque<f64>,
}

impl Accumulator for Sliding {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.values.extend(values(columns));
        Ok(())
    }

    fn retract_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let column = &columns[0];
        self.values.drain(..column.len() - column.null_count());
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut moments = Moments::default();
        self.values.iter().try_for_each(|value| moments.add(self.of, *value))?;
        Ok(moments.result(self.of))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<f64>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        unmergeable()
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        unmergeable()
    }
}

/// A window is computed in one piece.
fn unmergeable<T>() -> Result<T> {
    datafusion::common::internal_err!("an aggregate of a window has no parts")
}
