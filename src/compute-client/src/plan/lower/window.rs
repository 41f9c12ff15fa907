//! Lowers window functions, and what is asked of the number of a row.
//!
//! `row_number() <= k` wants the first `k` rows of each partition (DISTINCT ON is of this form too), and these are found without
//! numbering the others: they are taken before the window, which then numbers no more than it has to.

use super::{Input, Lowering, concatenated, has_subquery, mfp, nullable, positional};
use crate::plan::fold;
use crate::plan::lir::{Lir, Node, SortKey, Stage};
use arrow::datatypes::Schema;
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, LogicalPlan, Operator, Window, WindowFunctionDefinition};
use datafusion::physical_expr::window::WindowExpr;
use engine::error::SqlError;
use std::sync::Arc;

impl Lowering<'_> {
    /// The results of window functions behind the rows; with `first`, of the first so many rows of each partition only.
    pub(super) fn window(&self, window: &Window, first: Option<usize>) -> Result<Lir, SqlError> {
        let (input, exprs) = self.input(&window.input, window.window_expr.clone())?;
        let (width, widened) = (window.input.schema().fields().len(), input.schema.fields().len());
        let functions = exprs
            .iter()
            .map(|expr| {
                self.check(expr)?;
                self.engine.create_window(expr, &input.schema, &self.session)
            })
            .collect::<Result<Vec<_>, SqlError>>()?;
        let mut lir = input.lir;
        let alike = |a: &Arc<dyn WindowExpr>, b: &Arc<dyn WindowExpr>| {
            a.partition_by() == b.partition_by() && a.order_by() == b.order_by()
        };
        for functions in functions.chunk_by(alike) {
            if let (Some(fetch), [function, ..]) = (first, functions) {
                lir = first_of_each(lir, function.as_ref(), fetch);
            }
            let fields = functions.iter().map(|function| function.field()).collect::<Result<Vec<_>, _>>()?;
            let results = Arc::new(Schema::new(fields));
            lir = Lir {
                schema: concatenated(&lir.schema, &results),
                node: Node::Window { input: Box::new(lir), functions: functions.to_vec() },
            };
        }
        let schema = nullable(window.schema.inner());
        if widened == width {
            lir.schema = schema;
            return Ok(lir);
        }
        // Without the columns of its subqueries.
        let stored = fold::stored_schema(&positional(&lir.schema))
            .ok_or_else(|| SqlError::internal("a schema is not a schema"))?;
        let exprs = (0..width)
            .chain(widened..lir.schema.fields().len())
            .map(|at| self.compile(&Expr::Column(Column::from(stored.qualified_field(at))), &stored))
            .collect::<Result<_, _>>()?;
        Ok(mfp(lir, vec![Stage::Project(exprs, schema)]))
    }

    /// The input of a filter, if the filter bounds the number of a row in it: without rows that are behind that bound.
    pub(super) fn numbered(&self, filter: &Filter) -> Result<Option<Lir>, SqlError> {
        if has_subquery(&filter.predicate) {
            return Ok(None);
        }
        for conjunct in split_conjunction(&filter.predicate) {
            if let Some((column, first)) = bound(conjunct)
                && let Some(at) = filter.input.schema().maybe_index_of_column(&column)
                && let Some(lir) = self.first_rows(&filter.input, at, first)?
            {
                return Ok(Some(lir));
            }
        }
        Ok(None)
    }

    /// The rows of a plan of which column `at`, the number of a row in its partition, is at most `first`, and perhaps others;
    /// `None` if that column is no such number.
    fn first_rows(&self, plan: &LogicalPlan, at: usize, first: usize) -> Result<Option<Lir>, SqlError> {
        match plan {
            LogicalPlan::SubqueryAlias(alias) => self.first_rows(&alias.input, at, first),
            LogicalPlan::Projection(projection) if !projection.expr.iter().any(has_subquery) => {
                let schema = Arc::clone(projection.input.schema());
                let Some(column) = column_of(&projection.expr[at]) else { return Ok(None) };
                let Some(below) = schema.maybe_index_of_column(column) else { return Ok(None) };
                let Some(lir) = self.first_rows(&projection.input, below, first)? else { return Ok(None) };
                self.project(Input { lir, schema }, &projection.expr, plan.schema()).map(Some)
            }
            LogicalPlan::Window(window) => {
                let width = window.input.schema().fields().len();
                let numbers = window.window_expr.iter().all(is_row_number);
                if at < width || !numbers || window.window_expr.len() > 1 {
                    return Ok(None);
                }
                self.window(window, Some(first)).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// The first rows of each partition of a window function.
fn first_of_each(input: Lir, function: &dyn WindowExpr, fetch: usize) -> Lir {
    let order = function.order_by().iter().map(|key| SortKey {
        expr: Arc::clone(&key.expr),
        descending: key.options.descending,
        nulls_first: key.options.nulls_first,
    });
    let (key, order, schema) = (function.partition_by().to_vec(), order.collect(), Arc::clone(&input.schema));
    Lir { schema, node: Node::TopK { input: Box::new(input), key, order, skip: 0, fetch: Some(fetch) } }
}

/// A column that a condition bounds from above, and the bound: `c <= 3`, `c < 4`, `c = 3`.
fn bound(condition: &Expr) -> Option<(Column, usize)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return None };
    let (column, number, op) = match (column_of(left), right.as_ref()) {
        (Some(column), Expr::Literal(number, _)) => (column, number, *op),
        _ => match (left.as_ref(), column_of(right)) {
            (Expr::Literal(number, _), Some(column)) => (column, number, op.swap()?),
            _ => return None,
        },
    };
    let number = match number {
        ScalarValue::Int16(number) => i64::from((*number)?),
        ScalarValue::Int32(number) => i64::from((*number)?),
        ScalarValue::Int64(number) => (*number)?,
        ScalarValue::UInt64(number) => i64::try_from((*number)?).ok()?,
        _ => return None,
    };
    let most = match op {
        Operator::LtEq | Operator::Eq => number,
        Operator::Lt => number.checked_sub(1)?,
        _ => return None,
    };
    Some((column.clone(), usize::try_from(most.max(0)).ok()?))
}

/// The column that an expression is, perhaps as another type of integer.
fn column_of(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Column(column) => Some(column),
        Expr::Alias(alias) => column_of(&alias.expr),
        Expr::Cast(cast) => column_of(&cast.expr),
        _ => None,
    }
}

fn is_row_number(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_row_number(&alias.expr),
        Expr::WindowFunction(call) => {
            matches!(&call.fun, WindowFunctionDefinition::WindowUDF(function) if function.name() == "row_number")
        }
        _ => false,
    }
}
