//! What a sequence is, and which values it gives.
//!
//! Where it stands is no part of the catalog: it goes on with every value, whatever becomes of the transaction.

use engine::error::SqlError;
use engine::session::Position;
use repr::sqlstate::SqlState;
use repr::{GlobalId, PgType};
use sql_syntax::ast::{Bound, Identity, SequenceOptions};

/// A sequence's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceDef {
    /// Which values it gives.
    pub params: SequenceParams,
    /// The column with which it goes.
    pub owner: Option<SequenceOwner>,
}

/// The column that owns a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceOwner {
    /// Its table.
    pub table: GlobalId,
    /// Its position.
    pub column: usize,
    /// Whether it is an identity column.
    pub identity: Option<Identity>,
}

/// Which values a sequence gives.
///
/// # Invariants
/// - `min < max`, both in the range of the type; `start` is between them; `increment` is not 0, `cache` at least 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceParams {
    /// `int2`, `int4` or `int8`.
    pub ty: PgType,
    /// The first value.
    pub start: i64,
    /// What is added for the next.
    pub increment: i64,
    /// The smallest value.
    pub min: i64,
    /// The largest value.
    pub max: i64,
    /// As many values a session of Postgres takes at once. Here all sessions take theirs from one reserve.
    pub cache: i64,
    /// Whether it begins again where it has ended.
    pub cycle: bool,
}

impl SequenceParams {
    /// What CREATE SEQUENCE makes of its options, without a type a sequence of `ty`. Errors: 22023.
    pub fn new(options: &SequenceOptions, ty: PgType) -> Result<SequenceParams, SqlError> {
        SequenceParams::resolve(options, None, ty)
    }

    /// The same with other options. What they do not say stays, as far as it goes with the type. Errors: 22023.
    pub fn altered(&self, options: &SequenceOptions) -> Result<SequenceParams, SqlError> {
        SequenceParams::resolve(options, Some(self), self.ty.clone())
    }

    fn resolve(
        options: &SequenceOptions,
        old: Option<&SequenceParams>,
        ty: PgType,
    ) -> Result<SequenceParams, SqlError> {
        let ty = options.ty.clone().unwrap_or(ty);
        let (low, high) =
            range(&ty).ok_or_else(|| invalid("sequence type must be smallint, integer, or bigint".to_owned()))?;
        let increment = options.increment.or(old.map(|old| old.increment)).unwrap_or(1);
        if increment == 0 {
            return Err(invalid("INCREMENT must not be zero".to_owned()));
        }
        // What was the type's own bound becomes that of the new type.
        let old_range = old.and_then(|old| range(&old.ty));
        let is_new_type = options.ty.is_some();
        let kept = |of: fn(&SequenceParams) -> i64, own: Option<i64>| {
            old.map(of).filter(|bound| !(is_new_type && own == Some(*bound)))
        };
        let max = match options.max {
            Some(Bound::At(max)) => max,
            given => {
                let kept = kept(|old| old.max, old_range.map(|(_, high)| high)).filter(|_| given.is_none());
                kept.unwrap_or(if increment > 0 { high } else { -1 })
            }
        };
        let min = match options.min {
            Some(Bound::At(min)) => min,
            given => {
                let kept = kept(|old| old.min, old_range.map(|(low, _)| low)).filter(|_| given.is_none());
                kept.unwrap_or(if increment > 0 { 1 } else { low })
            }
        };
        for (what, bound) in [("MAXVALUE", max), ("MINVALUE", min)] {
            if !(low..=high).contains(&bound) {
                return Err(invalid(format!("{what} ({bound}) is out of range for sequence data type {}", ty.name())));
            }
        }
        if min >= max {
            return Err(invalid(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})")));
        }
        let first = if increment > 0 { min } else { max };
        let start = options.start.or(old.map(|old| old.start)).unwrap_or(first);
        check_between("START", start, min, max)?;
        let cache = options.cache.or(old.map(|old| old.cache)).unwrap_or(1);
        if cache <= 0 {
            return Err(invalid(format!("CACHE ({cache}) must be greater than zero")));
        }
        let cycle = options.cycle.or(old.map(|old| old.cycle)).unwrap_or(false);
        Ok(SequenceParams { ty, start, increment, min, max, cache, cycle })
    }

    /// Where it stands before it has given a value.
    pub fn first(&self) -> Position {
        Position { last: self.start, is_called: false }
    }

    /// Errors: 22023 if it cannot stand at this value.
    pub fn check_restart(&self, value: i64) -> Result<(), SqlError> {
        check_between("RESTART", value, self.min, self.max)
    }

    /// Where it stands after the next value, which is the last one then; `None` if there is none.
    pub fn next(&self, from: Position) -> Option<Position> {
        let at = |last| Some(Position { last, is_called: true });
        if !from.is_called {
            return at(from.last);
        }
        let next = from.last.checked_add(self.increment);
        match next.filter(|next| if self.increment > 0 { *next <= self.max } else { *next >= self.min }) {
            Some(next) => at(next),
            None if self.cycle => at(if self.increment > 0 { self.min } else { self.max }),
            None => None,
        }
    }

    /// Where it stands after at most `count` values, of which only the first may begin again, and how many these are;
    /// `None` if there are none.
    pub fn advance(&self, from: Position, count: u64) -> Option<(Position, u64)> {
        let first = self.next(from)?;
        let distance = if self.increment > 0 { self.max.abs_diff(first.last) } else { first.last.abs_diff(self.min) };
        let steps = count.saturating_sub(1).min(distance / self.increment.unsigned_abs());
        // No overflow: it stays between the bounds.
        let moved = i128::from(first.last) + i128::from(steps) * i128::from(self.increment);
        let last = i64::try_from(moved).unwrap_or(first.last);
        Some((Position { last, is_called: true }, steps + 1))
    }

    /// How DDL writes it, as far as it is not what it would be anyway.
    pub fn sql(&self) -> String {
        let SequenceParams { ty, start, increment, min, max, cache, cycle } = self;
        let cycle = if *cycle { "CYCLE" } else { "NO CYCLE" };
        format!(
            "AS {} START WITH {start} INCREMENT BY {increment} MINVALUE {min} MAXVALUE {max} CACHE {cache} {cycle}",
            ty.name()
        )
    }
}

fn invalid(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn check_between(what: &str, value: i64, min: i64, max: i64) -> Result<(), SqlError> {
    if value < min {
        return Err(invalid(format!("{what} value ({value}) cannot be less than MINVALUE ({min})")));
    }
    if value > max {
        return Err(invalid(format!("{what} value ({value}) cannot be greater than MAXVALUE ({max})")));
    }
    Ok(())
}

/// The values of a type that a sequence can have.
fn range(ty: &PgType) -> Option<(i64, i64)> {
    match ty {
        PgType::Int2 => Some((i16::MIN.into(), i16::MAX.into())),
        PgType::Int4 => Some((i32::MIN.into(), i32::MAX.into())),
        PgType::Int8 => Some((i64::MIN, i64::MAX)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Position, SequenceParams};
    use repr::PgType;
    use sql_syntax::ast::{Bound, SequenceOptions};

    fn params(options: &SequenceOptions) -> SequenceParams {
        SequenceParams::new(options, PgType::Int8).expect("the options are sound")
    }

    fn at(last: i64) -> Position {
        Position { last, is_called: true }
    }

    #[test]
    fn values_are_given_in_order_and_end() {
        let options = SequenceOptions { max: Some(Bound::At(3)), ..SequenceOptions::default() };
        let three = params(&options);
        assert_eq!(three.next(three.first()), Some(at(1)));
        assert_eq!(three.advance(three.first(), 33), Some((at(3), 3)));
        assert_eq!(three.next(at(3)), None);
        let again = params(&SequenceOptions { cycle: Some(true), ..options });
        assert_eq!(again.next(at(3)), Some(at(1)));
        assert_eq!(again.advance(at(2), 33), Some((at(3), 1)), "only the first value begins again");
        assert_eq!(again.advance(at(3), 2), Some((at(2), 2)));
    }

    #[test]
    fn descending_values_and_the_ends_of_the_type() {
        let down = params(&SequenceOptions { increment: Some(-10), ..SequenceOptions::default() });
        assert_eq!(down.first().last, -1);
        assert_eq!(down.advance(down.first(), 3), Some((at(-21), 3)));
        assert_eq!(down.next(at(i64::MIN + 3)), None);
        let up = params(&SequenceOptions::default());
        assert_eq!(up.next(at(i64::MAX)), None);
        assert_eq!(up.advance(at(i64::MAX - 5), 100), Some((at(i64::MAX), 5)));
    }
}
