//! The numbers of LIMIT and OFFSET.

use datafusion::common::ScalarValue;
use engine::error::SqlError;
use repr::sqlstate::SqlState;

/// More rows than any result has. DataFusion adds limits and offsets up, those of subqueries too, with 64 bits.
const ROWS_MAX: i64 = 1 << 55;

/// Which of the two clauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowCount {
    /// LIMIT or FETCH
    Limit,
    /// OFFSET
    Offset,
}

impl RowCount {
    /// The clause's name.
    pub fn clause(self) -> &'static str {
        match self {
            RowCount::Limit => "LIMIT",
            RowCount::Offset => "OFFSET",
        }
    }

    /// The number of rows that a value of the clause stands for; `None` if it says nothing: a NULL, or a limit beyond all results.
    /// Errors: negative ones, 2201W and 2201X.
    pub fn of(self, value: &ScalarValue) -> Result<Option<i64>, SqlError> {
        match (value, self) {
            (ScalarValue::Int64(None), _) => Ok(None),
            (ScalarValue::Int64(Some(n)), _) if *n < 0 => {
                let state = match self {
                    RowCount::Limit => SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE,
                    RowCount::Offset => SqlState::INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE,
                };
                Err(SqlError::new(state, format!("{} must not be negative", self.clause())))
            }
            (ScalarValue::Int64(Some(n)), RowCount::Limit) => Ok((*n < ROWS_MAX).then_some(*n)),
            (ScalarValue::Int64(Some(n)), RowCount::Offset) => Ok(Some(*n.min(&ROWS_MAX))),
            (other, _) => Err(SqlError::internal(format!("{} of {other}", self.clause()))),
        }
    }
}
