//! Windows: their definitions, and the calls over them.

use super::Binder;
use super::expr::Cx;
use super::scope::{Clause, fold};
use crate::engine::TypedExpr;
use crate::error::SqlError;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::{Expr, WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::sql::sqlparser::ast::{self, NamedWindowDefinition, NamedWindowExpr, WindowSpec, WindowType};
use repr::PgType;
use repr::sqlstate::SqlState;

/// The WINDOW clause.
#[derive(Clone, Debug, Default)]
pub struct NamedWindows<'a> {
    windows: Vec<(String, &'a NamedWindowExpr)>,
}

/// A window ready for a call.
#[derive(Clone, Debug)]
pub struct BoundWindow {
    /// PARTITION BY
    pub partition_by: Vec<Expr>,
    /// ORDER BY
    pub order_by: Vec<Sort>,
    /// The frame, or Postgres's default one.
    pub frame: WindowFrame,
}

impl<'a> NamedWindows<'a> {
    /// No named windows.
    pub const fn none() -> NamedWindows<'static> {
        NamedWindows { windows: Vec::new() }
    }

    /// The windows of a WINDOW clause.
    pub fn new(definitions: &'a [NamedWindowDefinition]) -> Result<NamedWindows<'a>, SqlError> {
        let mut windows: Vec<(String, &NamedWindowExpr)> = Vec::new();
        for NamedWindowDefinition(name, definition) in definitions {
            let folded = fold(name);
            if windows.iter().any(|(other, _)| *other == folded) {
                return Err(SqlError::new(
                    SqlState::WINDOWING_ERROR,
                    format!("window \"{folded}\" is already defined"),
                )
                .at(name.span));
            }
            windows.push((folded, definition));
        }
        Ok(NamedWindows { windows })
    }

    fn find(&self, name: &ast::Ident) -> Result<&'a WindowSpec, SqlError> {
        let wanted = fold(name);
        match self.windows.iter().find(|(name, _)| *name == wanted) {
            Some((_, NamedWindowExpr::WindowSpec(spec))) => Ok(spec),
            Some((_, NamedWindowExpr::NamedWindow(other))) => self.find(other),
            None => {
                Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("window \"{wanted}\" does not exist"))
                    .at(name.span))
            }
        }
    }
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

    fn window_spec(&mut self, spec: &WindowSpec, cx: &Cx<'_>) -> Result<BoundWindow, SqlError> {
        let (mut partition_by, mut order_by) = (Vec::new(), Vec::new());
        if let Some(name) = &spec.window_name {
            let base = self.window_spec(cx.windows.find(name)?, cx)?;
            if !spec.partition_by.is_empty() {
                return Err(SqlError::new(
                    SqlState::WINDOWING_ERROR,
                    format!("cannot override PARTITION BY clause of window \"{}\"", fold(name)),
                ));
            }
            partition_by = base.partition_by;
            order_by = base.order_by;
        }
        for expr in &spec.partition_by {
            let typed = self.expr(expr, cx)?;
            let typed = self.coercer.settle(typed)?;
            partition_by.push(self.comparison_key(typed)?.expr);
        }
        let mut order_type = None;
        for item in &spec.order_by {
            let typed = self.expr(&item.expr, cx)?;
            order_type = Some(typed.ty.clone());
            order_by.push(self.sort_expr(typed, item)?);
        }
        let frame = match &spec.window_frame {
            Some(frame) => self.window_frame(frame, &order_by, order_type, cx)?,
            None => WindowFrame::new((!order_by.is_empty()).then_some(false)),
        };
        Ok(BoundWindow { partition_by, order_by, frame })
    }

    fn window_frame(
        &mut self,
        frame: &ast::WindowFrame,
        order_by: &[Sort],
        order_type: Option<PgType>,
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
        let offset_type = match units {
            WindowFrameUnits::Range => order_type.unwrap_or(PgType::Int8),
            _ => PgType::Int8,
        };
        let start = self.frame_bound(&frame.start_bound, units, &offset_type, cx)?;
        let end = match &frame.end_bound {
            Some(bound) => self.frame_bound(bound, units, &offset_type, cx)?,
            None => WindowFrameBound::CurrentRow,
        };
        match (&start, &end) {
            (WindowFrameBound::Following(value), _) if value.is_null() => {
                return Err(SqlError::new(SqlState::WINDOWING_ERROR, "frame start cannot be UNBOUNDED FOLLOWING"));
            }
            (_, WindowFrameBound::Preceding(value)) if value.is_null() => {
                return Err(SqlError::new(SqlState::WINDOWING_ERROR, "frame end cannot be UNBOUNDED PRECEDING"));
            }
            (WindowFrameBound::CurrentRow, WindowFrameBound::Preceding(_)) => {
                return Err(SqlError::new(
                    SqlState::WINDOWING_ERROR,
                    "frame starting from current row cannot have preceding rows",
                ));
            }
            (WindowFrameBound::Following(_), WindowFrameBound::Preceding(_) | WindowFrameBound::CurrentRow) => {
                return Err(SqlError::new(
                    SqlState::WINDOWING_ERROR,
                    "frame starting from following row cannot have preceding rows",
                ));
            }
            _ => {}
        }
        Ok(WindowFrame::new_bounds(units, start, end))
    }

    fn frame_bound(
        &mut self,
        bound: &ast::WindowFrameBound,
        units: WindowFrameUnits,
        offset_type: &PgType,
        cx: &Cx<'_>,
    ) -> Result<WindowFrameBound, SqlError> {
        let unbounded = ScalarValue::UInt64(None);
        Ok(match bound {
            ast::WindowFrameBound::CurrentRow => WindowFrameBound::CurrentRow,
            ast::WindowFrameBound::Preceding(None) => WindowFrameBound::Preceding(unbounded),
            ast::WindowFrameBound::Following(None) => WindowFrameBound::Following(unbounded),
            ast::WindowFrameBound::Preceding(Some(expr)) => {
                WindowFrameBound::Preceding(self.frame_offset(expr, units, offset_type, cx)?)
            }
            ast::WindowFrameBound::Following(Some(expr)) => {
                WindowFrameBound::Following(self.frame_offset(expr, units, offset_type, cx)?)
            }
        })
    }

    fn frame_offset(
        &mut self,
        expr: &ast::Expr,
        units: WindowFrameUnits,
        offset_type: &PgType,
        cx: &Cx<'_>,
    ) -> Result<ScalarValue, SqlError> {
        let typed = self.expr(expr, cx)?;
        let target = match (units, offset_type) {
            (WindowFrameUnits::Range, PgType::Date | PgType::Timestamp | PgType::Timestamptz | PgType::Interval) => {
                PgType::Interval
            }
            (_, other) => other.clone(),
        };
        let typed: TypedExpr = self.coercer.implicit_or_assign(typed, &target, "frame offset")?;
        let Some(scalar) = typed.as_literal() else {
            return Err(SqlError::unsupported("a window frame offset that is not a constant"));
        };
        let negative = match scalar {
            ScalarValue::Int64(Some(n)) => *n < 0,
            ScalarValue::Int32(Some(n)) => *n < 0,
            ScalarValue::Int16(Some(n)) => *n < 0,
            ScalarValue::Float64(Some(n)) => *n < 0.0,
            scalar if scalar.is_null() => {
                return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "frame offset must not be null"));
            }
            _ => false,
        };
        if negative {
            return Err(SqlError::new(SqlState("22013"), "frame starting offset must not be negative"));
        }
        Ok(match (units, scalar) {
            (WindowFrameUnits::Range, scalar) => scalar.clone(),
            (_, ScalarValue::Int64(Some(n))) => ScalarValue::UInt64(Some(n.unsigned_abs())),
            (_, other) => other.clone(),
        })
    }
}
