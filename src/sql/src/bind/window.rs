//! Windows: their definitions, and the calls over them.

use super::Binder;
use super::scope::{Clause, fold};
use crate::bind::cx::Cx;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::{Expr, WindowFrame, WindowFrameBound, WindowFrameUnits};
use engine::error::SqlError;
use engine::fold::fold as fold_constant;
use engine::value::from_scalar;
use pgrepr::length::LengthRule;
use repr::sqlstate::SqlState;
use repr::{Datum, PgType};
use sql_functions::interval::{out_of_range, total_us};
use sql_functions::{TypedExpr, types};
use sqlparser::ast::{self, NamedWindowExpr, WindowSpec, WindowType};
use sqlparser::tokenizer::Span;

/// A window ready for a call.
#[derive(Clone, Debug)]
pub struct BoundWindow {
    /// PARTITION BY
    pub partition_by: Vec<Expr>,
    /// ORDER BY
    pub order_by: Vec<Sort>,
    /// What ORDER BY names, before it is brought under a key.
    ordered: Vec<TypedExpr>,
    /// The frame, or Postgres's default one.
    pub frame: WindowFrame,
    /// Whether the frame has no row, whatever the row is that it is of: it ends before it begins.
    pub is_empty: bool,
}

impl Binder<'_> {
    /// The window of an OVER clause.
    pub fn window(&mut self, over: &WindowType, cx: &Cx<'_>) -> Result<BoundWindow, SqlError> {
        let cx = cx.within(Clause::Window);
        match over {
            WindowType::NamedWindow(name) => {
                let spec = cx.windows.find(name)?;
                self.window_spec(spec, &cx)
            }
            WindowType::WindowSpec(spec) => self.window_spec(spec, &cx),
        }
    }

    /// Binds the windows of the WINDOW clause, whether they are used or not.
    pub(super) fn check_windows(&mut self, cx: &Cx<'_>) -> Result<(), SqlError> {
        for (_, definition) in &cx.windows.windows {
            if let NamedWindowExpr::WindowSpec(spec) = definition {
                self.window_spec(spec, &cx.within(Clause::Window))?;
            }
        }
        Ok(())
    }

    fn window_spec(&mut self, spec: &WindowSpec, cx: &Cx<'_>) -> Result<BoundWindow, SqlError> {
        let (mut partition_by, mut order_by, mut ordered) = (Vec::new(), Vec::new(), Vec::new());
        if let Some(name) = &spec.window_name {
            let definition = cx.windows.find(name)?;
            let base = self.window_spec(definition, cx)?;
            let refused = [
                (!spec.partition_by.is_empty(), "override PARTITION BY clause of", ""),
                (!spec.order_by.is_empty() && !base.order_by.is_empty(), "override ORDER BY clause of", ""),
                (definition.window_frame.is_some(), "copy", " because it has a frame clause"),
            ];
            if let Some((_, what, why)) = refused.iter().find(|(present, ..)| *present) {
                let message = format!("cannot {what} window \"{}\"{why}", fold(name));
                return Err(SqlError::new(SqlState::WINDOWING_ERROR, message).at(name.span));
            }
            (partition_by, order_by, ordered) = (base.partition_by, base.order_by, base.ordered);
        }
        for expr in &spec.partition_by {
            let typed = self.expr(expr, cx)?;
            let typed = self.coercer.settle(typed)?;
            partition_by.push(self.comparison_key(typed)?.expr);
        }
        for item in &spec.order_by {
            let typed = self.expr(&item.expr, cx)?;
            ordered.push(typed.clone());
            order_by.push(self.sort_expr(typed, item)?);
        }
        let mut frame = match &spec.window_frame {
            Some(frame) => self.window_frame(frame, &mut order_by, &ordered, cx)?,
            None => WindowFrame::new((!order_by.is_empty()).then_some(false)),
        };
        let is_empty = ends_before_it_begins(&frame);
        if is_empty {
            let here = || WindowFrameBound::CurrentRow;
            frame = WindowFrame::new_bounds(WindowFrameUnits::Rows, here(), here());
        }
        Ok(BoundWindow { partition_by, order_by, ordered, frame, is_empty })
    }

    fn window_frame(
        &mut self,
        frame: &ast::WindowFrame,
        order_by: &mut [Sort],
        ordered: &[TypedExpr],
        cx: &Cx<'_>,
    ) -> Result<WindowFrame, SqlError> {
        let units = match frame.units {
            ast::WindowFrameUnits::Rows => WindowFrameUnits::Rows,
            ast::WindowFrameUnits::Range => WindowFrameUnits::Range,
            ast::WindowFrameUnits::Groups => WindowFrameUnits::Groups,
        };
        if units == WindowFrameUnits::Groups && order_by.is_empty() {
            return Err(SqlError::new(SqlState::WINDOWING_ERROR, "GROUPS mode requires an ORDER BY clause"));
        }
        let offset = match (units, has_offset(frame)) {
            (WindowFrameUnits::Range, true) => self.range_offset(order_by, ordered)?,
            _ => Offset::Plain(PgType::Int8),
        };
        let start = self.frame_bound(&frame.start_bound, units, &offset, cx)?;
        let end = match &frame.end_bound {
            Some(bound) => self.frame_bound(bound, units, &offset, cx)?,
            None => WindowFrameBound::CurrentRow,
        };
        let refused = match (&start, &end) {
            (WindowFrameBound::Following(value), _) if value.is_null() => "frame start cannot be UNBOUNDED FOLLOWING",
            (_, WindowFrameBound::Preceding(value)) if value.is_null() => "frame end cannot be UNBOUNDED PRECEDING",
            (WindowFrameBound::CurrentRow, WindowFrameBound::Preceding(_)) => {
                "frame starting from current row cannot have preceding rows"
            }
            (WindowFrameBound::Following(_), WindowFrameBound::Preceding(_) | WindowFrameBound::CurrentRow) => {
                "frame starting from following row cannot have preceding rows"
            }
            _ => return Ok(WindowFrame::new_bounds(units, start, end)),
        };
        Err(SqlError::new(SqlState::WINDOWING_ERROR, refused))
    }

    /// How far a RANGE reaches is added to what rows are ordered by, which becomes something that can be added to.
    fn range_offset(&mut self, order_by: &mut [Sort], ordered: &[TypedExpr]) -> Result<Offset, SqlError> {
        let ([sort], [typed]) = (order_by, ordered) else {
            return Err(SqlError::new(
                SqlState::WINDOWING_ERROR,
                "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column",
            ));
        };
        let (key, offset) = match &typed.ty {
            ty if types::is_number(ty) => return Ok(Offset::Plain(ty.clone())),
            PgType::Timestamp | PgType::Timestamptz => return Ok(Offset::Plain(PgType::Interval)),
            PgType::Date => (
                self.coercer.cast(typed.clone(), &PgType::Timestamp, LengthRule::Cast)?,
                Offset::Plain(PgType::Interval),
            ),
            PgType::Time => (self.call("range_key", vec![typed.clone()], Span::empty())?, Offset::TimeOfDay),
            PgType::Interval => (self.call("range_key", vec![typed.clone()], Span::empty())?, Offset::Length),
            other => {
                let message =
                    format!("RANGE with offset PRECEDING/FOLLOWING is not supported for column type {}", other.name());
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
        };
        sort.expr = key.expr;
        Ok(offset)
    }

    fn frame_bound(
        &mut self,
        bound: &ast::WindowFrameBound,
        units: WindowFrameUnits,
        offset: &Offset,
        cx: &Cx<'_>,
    ) -> Result<WindowFrameBound, SqlError> {
        let unbounded = ScalarValue::UInt64(None);
        Ok(match bound {
            ast::WindowFrameBound::CurrentRow => WindowFrameBound::CurrentRow,
            ast::WindowFrameBound::Preceding(None) => WindowFrameBound::Preceding(unbounded),
            ast::WindowFrameBound::Following(None) => WindowFrameBound::Following(unbounded),
            ast::WindowFrameBound::Preceding(Some(expr)) => {
                WindowFrameBound::Preceding(self.frame_offset(expr, units, offset, cx)?)
            }
            ast::WindowFrameBound::Following(Some(expr)) => {
                WindowFrameBound::Following(self.frame_offset(expr, units, offset, cx)?)
            }
        })
    }

    fn frame_offset(
        &mut self,
        expr: &ast::Expr,
        units: WindowFrameUnits,
        offset: &Offset,
        cx: &Cx<'_>,
    ) -> Result<ScalarValue, SqlError> {
        // A bare string is read as an interval, and one with a cast as an interval of that.
        let typed = match expr {
            ast::Expr::Interval(interval) if interval.leading_field.is_none() => self.expr(&interval.value, cx)?,
            expr => self.expr(expr, cx)?,
        };
        let target = match offset {
            Offset::Plain(ty) => ty,
            Offset::TimeOfDay | Offset::Length => &PgType::Interval,
        };
        let typed: TypedExpr = self.coercer.implicit_or_assign(typed, target, "frame offset")?;
        let Some(scalar) = fold_constant(&typed.expr) else {
            return Err(SqlError::unsupported("a window frame offset that is not a constant"));
        };
        let value = from_scalar(&scalar)?;
        let negative = match &value {
            Datum::Null => {
                return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "frame offset must not be null"));
            }
            Datum::Int8(n) => *n < 0,
            Datum::Int4(n) => *n < 0,
            Datum::Int2(n) => *n < 0,
            Datum::Float8(n) => *n < 0.0 || n.is_nan(),
            Datum::Float4(n) => *n < 0.0 || n.is_nan(),
            Datum::Numeric(n, _) => n.is_negative(),
            Datum::Interval(m, d, us) => total_us(*m, *d, *us) < 0,
            _ => false,
        };
        if negative {
            let message = match units {
                WindowFrameUnits::Range => "invalid preceding or following size in window function",
                _ => "frame starting offset must not be negative",
            };
            return Err(SqlError::new(SqlState("22013"), message));
        }
        Ok(match (units, offset, value) {
            // Of an interval, a time of day moves by what is less than a day.
            (_, Offset::TimeOfDay, Datum::Interval(.., us)) => ScalarValue::Int64(Some(us)),
            (_, Offset::Length, Datum::Interval(m, d, us)) => {
                let total = i64::try_from(total_us(m, d, us)).map_err(|_| out_of_range())?;
                ScalarValue::Int64(Some(total))
            }
            (WindowFrameUnits::Range, ..) => scalar,
            (_, _, Datum::Int8(n)) => ScalarValue::UInt64(Some(n.unsigned_abs())),
            _ => scalar,
        })
    }
}

/// What is added to the place of a row to find an end of its frame.
enum Offset {
    /// A value of a type.
    Plain(PgType),
    /// An interval, to a time in microseconds.
    TimeOfDay,
    /// An interval, to another.
    Length,
}

fn has_offset(frame: &ast::WindowFrame) -> bool {
    let is_offset = |bound: &ast::WindowFrameBound| {
        matches!(bound, ast::WindowFrameBound::Preceding(Some(_)) | ast::WindowFrameBound::Following(Some(_)))
    };
    is_offset(&frame.start_bound) || frame.end_bound.as_ref().is_some_and(is_offset)
}

/// Whether both ends of a frame are on one side, and the wrong way round.
fn ends_before_it_begins(frame: &WindowFrame) -> bool {
    // NULL is unbounded.
    let is_less = |a: &ScalarValue, b: &ScalarValue| !a.is_null() && !b.is_null() && a < b;
    match (&frame.start_bound, &frame.end_bound) {
        (WindowFrameBound::Preceding(start), WindowFrameBound::Preceding(end)) => is_less(start, end),
        (WindowFrameBound::Following(start), WindowFrameBound::Following(end)) => is_less(end, start),
        _ => false,
    }
}
