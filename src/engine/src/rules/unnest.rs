//! Turns subqueries that refer to the query around them, and EXISTS, IN, ANY and ALL, into joins.
//!
//! A subquery gives rows for every combination of the outer columns that it reads, so it is a relation in which those
//! columns, its *keys*, are columns too; the outer query joins that relation on them. Inner subqueries come first, so that
//! what is joined has no subqueries of its own. There are three ways to the relation, from the cheapest:
//!
//! 1. [`pull`]: for a predicate, a subquery of filters over something that reads no outer column is that something, and the
//!    filters are the condition of a semi, anti or mark join.
//! 2. [`scalar`]: an aggregate over everything is an aggregate by the keys; what is made of it is made by the outer query,
//!    which also knows what an aggregate of no rows is.
//! 3. [`dependent`]: anything else is rewritten node by node to carry the keys along. They come from an equality with an
//!    inner column where there is one, else from the *domain*: the distinct keys of the outer rows.
//!
//! The rest is bookkeeping: [`predicate`] says what NULL means to a predicate where it stands, and `ON` conditions have
//! two inputs to extend ([`join_on`]).
//!
//! A scalar subquery that reads no outer column stays an expression, which both engines calculate once.
//!
//! # Invariants
//! - The rewritten plan has the columns of the original one, in order, under the same names, and besides those scalar
//!   subqueries no subquery and no reference to an outer query.
//! - Relations made here have qualifiers that no statement can spell by accident, each used once.
//! - Errors: rows of a subquery are calculated for keys that the outer query has, unless nothing in it is likely to fail.

mod dependent;
mod join_on;
mod keys;
mod predicate;
mod pull;
mod scalar;

use super::guard;
use crate::error::SqlError;
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    EmptyRelation, Expr, Filter, LogicalPlan, Projection, Subquery, SubqueryAlias, Union, Values,
};
use keys::has_outer;
use predicate::Null;
use repr::sqlstate::SqlState;
use std::collections::HashSet;
use std::sync::Arc;

type Result<T> = std::result::Result<T, SqlError>;

/// Relations that a statement's subqueries may become; nested ones multiply.
const RELATIONS_MAX: usize = 2_000;

/// Rewrites a plan.
pub fn unnest(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = Unnesting::default().plan(plan)?;
    if has_outer(&plan) {
        return Err(SqlError::internal("a subquery refers to a query that is not around it"));
    }
    Ok(plan)
}

/// The state of rewriting one statement.
#[derive(Default)]
struct Unnesting {
    names: usize,
}

impl Unnesting {
    /// A name that nothing else has.
    fn name(&mut self, kind: &str) -> Result<String> {
        self.names += 1;
        if self.names > RELATIONS_MAX {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
                .with_detail("Its subqueries become too many joins."));
        }
        Ok(format!("__{kind}#{}", self.names))
    }

    /// A plan under a qualifier of its own, and its columns.
    fn aliased(&mut self, plan: LogicalPlan, kind: &str) -> Result<(LogicalPlan, Vec<Expr>)> {
        let names: HashSet<&String> = plan.schema().fields().iter().map(|field| field.name()).collect();
        let plan = match names.len() == plan.schema().fields().len() {
            true => plan,
            false => {
                let renamed = columns(&plan).into_iter().enumerate().map(|(at, column)| column.alias(format!("c{at}")));
                project(plan.clone(), renamed.collect())?
            }
        };
        let plan = LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(plan), self.name(kind)?)?);
        let columns = columns(&plan);
        Ok((plan, columns))
    }

    /// Rewrites a plan from its inputs up.
    fn plan(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let plan = plan.map_children(|child| Ok(Transformed::yes(self.plan(child).map_err(external)?)))?.data;
        let plan = self.inner_subqueries(plan)?;
        match plan {
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Filter(filter) if has_open_subquery(&filter.predicate) => self.filter(filter),
            // Constant rows are made when a statement is planned for running, before its subqueries are run.
            LogicalPlan::Values(values) if values.values.iter().flatten().any(guard::has_subquery) => {
                let union = rows_as_projections(values)?;
                self.plan(union)
            }
            plan if plan.expressions().iter().any(has_open_subquery) => self.node(plan),
            plan => Ok(plan),
        }
    }

    /// Rewrites the subqueries of a node's expressions, each for itself.
    fn inner_subqueries(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let mut rewrite = |subquery: Subquery| -> datafusion::common::Result<Subquery> {
            let plan = self.plan(Arc::unwrap_or_clone(subquery.subquery)).map_err(external)?;
            let outer_ref_columns = if has_outer(&plan) { plan.all_out_ref_exprs() } else { Vec::new() };
            Ok(Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: subquery.spans })
        };
        let rewritten = plan.map_expressions(|expr| {
            expr.transform_up(|expr| {
                Ok(Transformed::yes(match expr {
                    Expr::ScalarSubquery(subquery) => Expr::ScalarSubquery(rewrite(subquery)?),
                    Expr::Exists(mut exists) => {
                        exists.subquery = rewrite(exists.subquery)?;
                        Expr::Exists(exists)
                    }
                    Expr::InSubquery(mut within) => {
                        within.subquery = rewrite(within.subquery)?;
                        Expr::InSubquery(within)
                    }
                    Expr::SetComparison(mut comparison) => {
                        comparison.subquery = rewrite(comparison.subquery)?;
                        Expr::SetComparison(comparison)
                    }
                    other => return Ok(Transformed::no(other)),
                }))
            })
        })?;
        Ok(rewritten.data)
    }

    /// A node of one input: its subqueries become columns of the input.
    fn node(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let [input] = plan.inputs()[..] else {
            return Err(SqlError::unsupported(format!("a subquery in {}", plan.display())));
        };
        let mut input = input.clone();
        let width = input.schema().fields().len();
        let mut exprs = Vec::new();
        for expr in plan.expressions() {
            exprs.push(self.expr(expr, &mut input, Null::Matters)?);
        }
        if let LogicalPlan::Projection(_) = &plan {
            for (expr, (qualifier, field)) in exprs.iter_mut().zip(plan.schema().iter()) {
                if expr.schema_name().to_string() != *field.name() {
                    *expr = std::mem::take(expr).unalias().alias_qualified(qualifier.cloned(), field.name());
                }
            }
        }
        let widened = input.schema().fields().len() > width;
        let shown = columns(&plan);
        let rebuilt = plan.with_new_exprs(exprs, vec![input])?;
        match rebuilt {
            LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) => Ok(rebuilt),
            other if widened => project(other, shown),
            other => Ok(other),
        }
    }

    fn filter(&mut self, filter: Filter) -> Result<LogicalPlan> {
        let shown = columns(&filter.input);
        let filtered = self.filtered(Arc::unwrap_or_clone(filter.input), filter.predicate)?;
        if filtered.schema().fields().len() == shown.len() { Ok(filtered) } else { project(filtered, shown) }
    }
}

/// Whether an expression has a subquery that is to become a join.
fn has_open_subquery(expr: &Expr) -> bool {
    expr.exists(|expr| {
        Ok(match expr {
            Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => true,
            Expr::ScalarSubquery(subquery) => has_outer(&subquery.subquery),
            _ => false,
        })
    })
    .unwrap_or(true)
}

/// VALUES as the union of its rows.
fn rows_as_projections(values: Values) -> Result<LogicalPlan> {
    let names: Vec<String> = values.schema.fields().iter().map(|field| field.name().clone()).collect();
    let row = |row: Vec<Expr>| -> Result<Arc<LogicalPlan>> {
        let empty = EmptyRelation { produce_one_row: true, schema: Arc::new(datafusion::common::DFSchema::empty()) };
        let exprs = row.into_iter().zip(&names).map(|(expr, name)| expr.alias(name)).collect();
        Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(LogicalPlan::EmptyRelation(empty)))?)))
    };
    let mut rows = values.values.into_iter().map(row).collect::<Result<Vec<_>>>()?;
    match (rows.pop(), rows.is_empty()) {
        (Some(only), true) => Ok(Arc::unwrap_or_clone(only)),
        (last, _) => {
            rows.extend(last);
            Ok(LogicalPlan::Union(Union::try_new_with_loose_types(rows)?))
        }
    }
}

/// The columns of a plan.
fn columns(plan: &LogicalPlan) -> Vec<Expr> {
    plan.schema().iter().map(|(qualifier, field)| Expr::Column(Column::new(qualifier.cloned(), field.name()))).collect()
}

fn project(plan: LogicalPlan, exprs: Vec<Expr>) -> Result<LogicalPlan> {
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?))
}

/// For closures that DataFusion calls.
fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
