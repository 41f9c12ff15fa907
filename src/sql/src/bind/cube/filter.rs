//! Conditions of queries and policies as expressions.

use super::instances::Instances;
use crate::bind::expr::text_literal;
use crate::bind::logic::balanced;
use chrono::{NaiveDateTime, TimeZone};
use chrono_tz::Tz;
use datafusion::logical_expr::{Expr, Operator, lit};
use engine::error::SqlError;
use repr::types::NUMERIC;
use repr::{Datum, PgType};
use semantic::query::dates::behind;
use semantic::query::{Condition, Filter, Name, Placement};
use sql_functions::TypedExpr;
use sql_functions::types::{is_integer, is_stringlike};
use sqlparser::tokenizer::Span;

impl Instances<'_, '_, '_> {
    /// A filter as a condition on rows; `value` says what a member is there, or of one that counts rows whether it counts one.
    pub(super) fn filter(
        &mut self,
        filter: &Filter,
        zone: Tz,
        value: &mut dyn FnMut(&mut Self, &Name, &Condition) -> Result<TypedExpr, SqlError>,
    ) -> Result<Expr, SqlError> {
        let (filters, op, none) = match filter {
            Filter::And(filters) => (filters, Operator::And, true),
            Filter::Or(filters) => (filters, Operator::Or, false),
            Filter::Member(name, condition) => {
                let value = value(self, name, condition)?;
                return self.meets(value, condition, zone);
            }
        };
        let all = filters.iter().map(|filter| self.filter(filter, zone, value)).collect::<Result<Vec<_>, _>>()?;
        Ok(if all.is_empty() { lit(none) } else { balanced(all, op) })
    }

    /// Whether a value meets a condition.
    fn meets(&mut self, value: TypedExpr, condition: &Condition, zone: Tz) -> Result<Expr, SqlError> {
        let null = value.expr.clone().is_null();
        Ok(match condition {
            Condition::Equals(values) => {
                let mut any = self.compared(Operator::Eq, &value, values.iter().flatten())?;
                any.extend(values.contains(&None).then_some(null));
                if any.is_empty() { lit(false) } else { balanced(any, Operator::Or) }
            }
            Condition::NotEquals(values) => {
                let all = self.compared(Operator::NotEq, &value, values.iter().flatten())?;
                let differs = if all.is_empty() { lit(true) } else { balanced(all, Operator::And) };
                if values.contains(&None) { differs.and(value.expr.is_not_null()) } else { differs.or(null) }
            }
            Condition::Contains(texts, placement) => balanced(self.alike(value, texts, *placement)?, Operator::Or),
            Condition::NotContains(texts, placement) => {
                let any = balanced(self.alike(value, texts, *placement)?, Operator::Or);
                Expr::Not(Box::new(any)).or(null)
            }
            Condition::Greater(text) => self.compared_with(Operator::Gt, &value, text)?,
            Condition::GreaterOrEqual(text) => self.compared_with(Operator::GtEq, &value, text)?,
            Condition::Less(text) => self.compared_with(Operator::Lt, &value, text)?,
            Condition::LessOrEqual(text) => self.compared_with(Operator::LtEq, &value, text)?,
            Condition::IsSet => value.expr.is_not_null(),
            Condition::IsNotSet => null,
            Condition::In(range) => {
                let begun = self.at_time(Operator::GtEq, &value, range.from, zone)?;
                begun.and(self.at_time(Operator::Lt, &value, range.until(), zone)?)
            }
            Condition::NotIn(range) => {
                let before = self.at_time(Operator::Lt, &value, range.from, zone)?;
                before.or(self.at_time(Operator::GtEq, &value, range.until(), zone)?).or(null)
            }
            Condition::Before(time) => self.at_time(Operator::Lt, &value, *time, zone)?,
            Condition::UpTo(time) => self.at_time(Operator::Lt, &value, behind(*time), zone)?,
            Condition::After(time) => self.at_time(Operator::GtEq, &value, behind(*time), zone)?,
            Condition::From(time) => self.at_time(Operator::GtEq, &value, *time, zone)?,
            Condition::Counted => value.expr,
        })
    }

    fn compared<'v>(
        &mut self,
        op: Operator,
        value: &TypedExpr,
        texts: impl Iterator<Item = &'v String>,
    ) -> Result<Vec<Expr>, SqlError> {
        texts.map(|text| self.compared_with(op, value, text)).collect()
    }

    /// A comparison with what a text stands for beside the value.
    fn compared_with(&mut self, op: Operator, value: &TypedExpr, text: &str) -> Result<Expr, SqlError> {
        let ty = match &value.ty {
            ty if is_stringlike(ty) => PgType::Text,
            // Whole numbers are compared with any number.
            ty if is_integer(ty) && text.trim().parse::<i64>().is_err() => NUMERIC,
            ty if is_integer(ty) => PgType::Int8,
            PgType::Numeric(_) => NUMERIC,
            ty => ty.clone(),
        };
        let other = self.binder.coercer.explicit(text_literal(text), &ty)?;
        Ok(self.binder.compare(op, value.clone(), other, Span::empty())?.expr)
    }

    /// Whether texts are in the value, each by itself, whatever the case.
    fn alike(&mut self, value: TypedExpr, texts: &[String], placement: Placement) -> Result<Vec<Expr>, SqlError> {
        let value = self.binder.coercer.explicit(value, &PgType::Text)?;
        let mut all = Vec::with_capacity(texts.len());
        for text in texts {
            let escaped = text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
            let pattern = match placement {
                Placement::Anywhere => format!("%{escaped}%"),
                Placement::Start => format!("{escaped}%"),
                Placement::End => format!("%{escaped}"),
            };
            let args = vec![value.clone(), text_literal(&pattern)];
            all.push(self.binder.call("ilike", args, Span::empty())?.expr);
        }
        Ok(all)
    }

    /// A comparison with the instant that is a local time of a zone. A value without a zone is of Greenwich, as for Cube.
    fn at_time(&mut self, op: Operator, value: &TypedExpr, time: NaiveDateTime, zone: Tz) -> Result<Expr, SqlError> {
        let instant = Datum::Timestamp(micros_at(time, zone));
        let (value, ty) = match value.ty {
            PgType::Timestamptz => (value.clone(), PgType::Timestamptz),
            _ => (self.binder.coercer.explicit(value.clone(), &PgType::Timestamp)?, PgType::Timestamp),
        };
        let instant = TypedExpr::constant(&instant, ty)?;
        Ok(self.binder.compare(op, value, instant, Span::empty())?.expr)
    }
}

/// Microseconds from 1970 to a local time: to the first of two, and where the clocks are put forward, to when they are.
fn micros_at(time: NaiveDateTime, zone: Tz) -> i64 {
    let mut later = time;
    loop {
        match zone.from_local_datetime(&later).earliest() {
            Some(instant) => return instant.timestamp_micros(),
            None => later += chrono::Duration::minutes(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_times_are_instants() {
        let zone: Tz = "America/Los_Angeles".parse().expect("a zone");
        let at = |text: &str| {
            let time = NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M").expect("a time");
            chrono::DateTime::from_timestamp_micros(micros_at(time, zone)).expect("a time").to_rfc3339()
        };
        assert_eq!(at("2024-01-01 00:00"), "2024-01-01T08:00:00+00:00");
        // Not there, and there twice.
        assert_eq!(at("2024-03-10 02:30"), "2024-03-10T10:00:00+00:00");
        assert_eq!(at("2024-11-03 01:30"), "2024-11-03T08:30:00+00:00");
    }
}
