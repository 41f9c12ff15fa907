//! `-0.0` and `0.0` are one value where rows are ordered, numbered and put into partitions.
//!
//! DataFusion compares and groups floats as Postgres does, but sorts `-0.0` before `0.0`, and windows take for peers and for one
//! partition what a sort does. So floats are sorted by their [`OneZero`].
//!
//! What windows go by becomes columns below them: the physical planner forgets that expressions over constant columns are
//! constant, and then takes its own plan for wrong.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::utils::normalize_float_zero;
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, Projection, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, Window,
};
use std::sync::{Arc, LazyLock};

static ONE_ZERO: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::new_from_impl(OneZero::new())));
/// The relation that the columns below windows are of: nobody else's have it.
const RELATION: &str = "__one_zero";

/// Rewrites what the sorts, windows and ordered aggregates of a plan and its subqueries go by.
pub fn one_zero(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|plan| match plan {
        LogicalPlan::Sort(ref sort) => {
            let schema = Arc::clone(sort.input.schema());
            plan.map_expressions(|key| match zeroed(&key, &schema)? {
                Some(zeroed) => Ok(Transformed::yes(zeroed)),
                None => Ok(Transformed::no(key)),
            })
        }
        LogicalPlan::Aggregate(ref aggregate) => {
            let (schema, names) = (Arc::clone(aggregate.input.schema()), NamePreserver::new(&plan));
            let mut key = |key: &Expr| zeroed(key, &schema);
            plan.map_expressions(|expr| {
                let name = names.save(&expr);
                Ok(expr.transform_up(|expr| called(expr, &mut key))?.update_data(|expr| name.restore(expr)))
            })
        }
        LogicalPlan::Window(window) => in_window(window),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(rewritten.data)
}

/// A window over its input and what floats of the input are sorted by.
fn in_window(window: Window) -> Result<Transformed<LogicalPlan>> {
    let shown = |schema: &DFSchema| schema.columns().into_iter().map(Expr::Column).collect::<Vec<_>>();
    let (schema, mut zeros) = (Arc::clone(window.input.schema()), Vec::new());
    let mut key = |key: &Expr| {
        let Some(zeroed) = zeroed(key, &schema)? else { return Ok(None) };
        let at = zeros.iter().position(|known| *known == zeroed).unwrap_or(zeros.len());
        if at == zeros.len() {
            zeros.push(zeroed);
        }
        Ok(Some(Expr::Column(Column::new(Some(RELATION), at.to_string()))))
    };
    let names = NamePreserver::new_for_projection();
    let rewritten = window.window_expr.iter().map(|expr| {
        let name = names.save(expr);
        Ok(name.restore(expr.clone().transform_up(|expr| called(expr, &mut key))?.data))
    });
    let exprs = rewritten.collect::<Result<Vec<_>>>()?;
    if zeros.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let mut columns = shown(&schema);
    columns
        .extend(zeros.into_iter().enumerate().map(|(at, zero)| zero.alias_qualified(Some(RELATION), at.to_string())));
    let above = shown(&window.schema);
    let below = LogicalPlan::Projection(Projection::try_new(columns, window.input)?);
    let window = LogicalPlan::Window(Window::try_new(exprs, Arc::new(below))?);
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(above, Arc::new(window))?)))
}

/// A call with the keys of its window or order rewritten, those for which there is something else.
fn called(mut expr: Expr, key: &mut impl FnMut(&Expr) -> Result<Option<Expr>>) -> Result<Transformed<Expr>> {
    let (partition_by, order_by) = match &mut expr {
        Expr::WindowFunction(call) => (&mut call.params.partition_by[..], &mut call.params.order_by),
        Expr::AggregateFunction(call) => (&mut [][..], &mut call.params.order_by),
        _ => return Ok(Transformed::no(expr)),
    };
    let mut changed = false;
    for by in partition_by.iter_mut().chain(order_by.iter_mut().map(|sort| &mut sort.expr)) {
        if let Some(other) = key(by)? {
            (*by, changed) = (other, true);
        }
    }
    Ok(Transformed::new_transformed(expr, changed))
}

/// What a float is sorted by; `None` of what is none.
fn zeroed(key: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let is_float = matches!(key.get_type(schema)?, DataType::Float32 | DataType::Float64);
    Ok(is_float.then(|| ONE_ZERO.call(vec![key.clone()])))
}

/// A float, with `0.0` in place of `-0.0`. Not `x + 0.0`, of whose order the optimizer believes that it is the order of x.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OneZero {
    signature: Signature,
}

impl OneZero {
    fn new() -> OneZero {
        let floats = vec![DataType::Float32, DataType::Float64];
        OneZero { signature: Signature::uniform(1, floats, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for OneZero {
    fn name(&self) -> &str {
        "one_zero"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        Ok(args[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Array(normalize_float_zero(&args.args[0].to_array(args.number_rows)?)))
    }
}
