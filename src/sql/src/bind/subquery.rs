//! Subqueries in expressions: scalar, EXISTS, IN, and comparisons with ANY and ALL.
//!
//! They stay expressions here; [`engine::rules::unnest`] makes joins of them, except of scalar subqueries that refer to no outer
//! query, which are run once. A second row of a scalar subquery is an error only where its value is asked for: unless its
//! form says that there is one row at most, its rows are collected in a list, of which the single element is taken.

use super::logic::balanced;
use super::{Binder, BoundQuery, Settle};
use crate::bind::columns::{columns_of, project, unique_names};
use crate::bind::cx::Cx;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, ScalarValue};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::{Aggregate, Distinct, Expr, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, lit};
use engine::error::SqlError;
use pgrepr::length::LengthRule;
use repr::PgType;
use repr::sqlstate::SqlState;
use sql_functions::{TypedExpr, types};
use sql_syntax::ast::visit::visit_expressions;
use sqlparser::ast::{self, BinaryOperator, Query, Spanned};
use std::ops::ControlFlow;
use std::sync::Arc;

impl Binder<'_> {
    /// `(SELECT …)` as a value.
    pub fn scalar_subquery(&mut self, query: &Query, cx: &Cx<'_>) -> Result<TypedExpr, SqlError> {
        let bound = self.query(query, Some(cx.frame), Settle::Text)?;
        let [column] = bound.columns.as_slice() else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "subquery must return only one column"));
        };
        let (ty, data_type) = (column.ty.clone(), column.data_type.clone());
        if !is_one_row(&bound.plan) {
            return self.at_most_one(bound, ty, data_type);
        }
        let plan = self.or_null(bound)?;
        Ok(TypedExpr::new(Expr::ScalarSubquery(as_subquery(plan)?), ty, data_type))
    }

    /// A subquery without rows is NULL, although its column may not be nullable.
    fn or_null(&mut self, bound: BoundQuery) -> Result<LogicalPlan, SqlError> {
        let required = bound.plan.schema().fields().iter().any(|field| !field.is_nullable());
        if !required {
            return Ok(bound.plan);
        }
        let mut exprs = Vec::new();
        for column in columns_of(&bound) {
            exprs.push(column.nullable().expr);
        }
        let names = unique_names(bound.columns.iter().map(|column| column.name.as_str()));
        project(bound.plan, exprs, &names)
    }

    /// The one row of a query, or NULL; more than one row is 21000.
    ///
    /// The rows are collected in the subquery and counted outside it: the join that it becomes collects for every
    /// value of the outer columns, also for those that no outer row has.
    fn at_most_one(&mut self, bound: BoundQuery, ty: PgType, data_type: DataType) -> Result<TypedExpr, SqlError> {
        let collected = self.collected(bound, &ty, &data_type)?;
        Ok(sql_functions::internal::single_value(collected, &ty, &data_type))
    }

    /// All rows of a query of one column, as a list; NULL when there are none.
    fn collected(&mut self, bound: BoundQuery, ty: &PgType, data_type: &DataType) -> Result<TypedExpr, SqlError> {
        let column = columns_of(&bound).into_iter().next().ok_or_else(|| SqlError::internal("one column"))?;
        let list = self.internal_name("list");
        let aggregate = crate::bind::aggregate::collect_list(column.expr)?.alias(list);
        let plan = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(bound.plan), vec![], vec![aggregate])?);
        let array = PgType::Array(Box::new(ty.clone()));
        let data_type = DataType::new_list(data_type.clone(), true);
        Ok(TypedExpr::new(Expr::ScalarSubquery(as_subquery(plan)?), array, data_type))
    }

    /// EXISTS
    pub fn exists(&mut self, query: &Query, negated: bool, cx: &Cx<'_>) -> Result<TypedExpr, SqlError> {
        let bound = self.query(query, Some(cx.frame), Settle::Text)?;
        let expr = Expr::Exists(Exists { subquery: as_subquery(rows_of(bound.plan)?)?, negated });
        Ok(TypedExpr { expr, ty: PgType::Bool, data_type: DataType::Boolean, nullable: false })
    }

    /// `x IN (SELECT …)`
    pub fn in_subquery(
        &mut self,
        left: &ast::Expr,
        query: &Query,
        negated: bool,
        cx: &Cx<'_>,
    ) -> Result<TypedExpr, SqlError> {
        if let Some(fields) = super::expr::row_items(left) {
            return self.row_in(&fields, query, negated, cx);
        }
        let (left, bound) = self.comparable(left, query, cx, "=")?;
        let expr =
            Expr::InSubquery(InSubquery { expr: Box::new(left.expr), subquery: as_subquery(bound.plan)?, negated });
        Ok(TypedExpr::new(expr, PgType::Bool, DataType::Boolean))
    }

    /// Brings the left side and the subquery's column to one type.
    fn comparable(
        &mut self,
        left: &ast::Expr,
        query: &Query,
        cx: &Cx<'_>,
        symbol: &str,
    ) -> Result<(TypedExpr, BoundQuery), SqlError> {
        let span = left.span();
        let left = self.expr(left, cx)?;
        let bound = self.query(query, Some(cx.frame), Settle::Text)?;
        let mut columns = columns_of(&bound);
        if columns.len() != 1 {
            let problem = if columns.len() > 1 { "many" } else { "few" };
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("subquery has too {problem} columns")).at(span));
        }
        let right = columns.remove(0);
        let target = super::operator::comparison_type(&left.ty, &right.ty)
            .ok_or_else(|| sql_functions::registry::operator_missing(symbol, &left.ty, &right.ty).at(span))?;
        self.require_equality(&target, &target)?;
        let unchanged = right.clone();
        let declared = [left.ty.clone(), right.ty.clone()];
        let left = self.coercer.cast(left, &target, LengthRule::Cast)?;
        let right = self.coercer.cast(right, &target, LengthRule::Cast)?;
        let (pair, ..) = self.coercer.unify(vec![left, right], "IN")?;
        let mut keys = self.comparison_keys(pair, &declared)?;
        let right = keys.remove(1);
        let left = keys.remove(0);
        if right.expr == unchanged.expr {
            return Ok((left, bound));
        }
        let names = unique_names(bound.columns.iter().map(|column| column.name.as_str()));
        let plan = project(bound.plan, vec![right.expr], &names)?;
        Ok((left, BoundQuery { plan, columns: bound.columns }))
    }

    /// `x op ANY (…)` and `x op ALL (…)` over a subquery or an array.
    pub fn quantified(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
        all: bool,
        cx: &Cx<'_>,
    ) -> Result<TypedExpr, SqlError> {
        let mut right = right;
        while let ast::Expr::Nested(inner) = right {
            right = inner;
        }
        let subquery = match right {
            ast::Expr::Subquery(query) => Some(query),
            _ => None,
        };
        let Some(query) = subquery else { return self.quantified_array(left, op, right, all, cx) };
        let operator = match op {
            BinaryOperator::Eq if !all => return self.in_subquery(left, query, false, cx),
            BinaryOperator::NotEq if all => return self.in_subquery(left, query, true, cx),
            BinaryOperator::Eq => Operator::Eq,
            BinaryOperator::NotEq => Operator::NotEq,
            BinaryOperator::Lt => Operator::Lt,
            BinaryOperator::LtEq => Operator::LtEq,
            BinaryOperator::Gt => Operator::Gt,
            BinaryOperator::GtEq => Operator::GtEq,
            other => return Err(SqlError::unsupported(format!("{other} ANY/ALL over a subquery"))),
        };
        let (left, bound) = self.comparable(left, query, cx, &op.to_string())?;
        let expr = Expr::SetComparison(SetComparison {
            expr: Box::new(left.expr),
            subquery: as_subquery(bound.plan)?,
            op: operator,
            quantifier: if all { SetQuantifier::All } else { SetQuantifier::Any },
        });
        Ok(TypedExpr::new(expr, PgType::Bool, DataType::Boolean))
    }

    fn quantified_array(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
        all: bool,
        cx: &Cx<'_>,
    ) -> Result<TypedExpr, SqlError> {
        // A list that is written out becomes plain comparisons, which can use an index.
        if let ast::Expr::Array(array) = right
            && !array.elem.is_empty()
        {
            let left = self.copied(array.elem.len(), left, cx)?;
            let mut items = array.elem.iter().map(|element| self.expr(element, cx)).collect::<Result<Vec<_>, _>>()?;
            // What nothing in the array has decided is text, whatever it is compared with.
            if items.iter().all(|item| item.ty == PgType::Unknown) {
                items = items.into_iter().map(|item| self.coercer.settle(item)).collect::<Result<_, _>>()?;
            }
            let mut each = Vec::new();
            for (item, element) in items.into_iter().zip(&array.elem) {
                each.push(self.binary(op, left.clone(), item, element.span())?.expr);
            }
            let expr = balanced(each, if all { Operator::And } else { Operator::Or });
            return Ok(TypedExpr::new(expr, PgType::Bool, DataType::Boolean));
        }
        let (left_span, span) = (left.span(), right.span());
        let left = self.expr(left, cx)?;
        let array = self.expr(right, cx)?;
        let array = match array.ty {
            PgType::Unknown => {
                let item = if left.ty == PgType::Unknown { PgType::Text } else { types::base(&left.ty) };
                self.coercer.cast(array, &PgType::Array(Box::new(item)), LengthRule::Cast)?
            }
            _ => array.vector_as_array(),
        };
        let PgType::Array(item) = &array.ty else {
            return Err(
                SqlError::new(SqlState::WRONG_OBJECT_TYPE, "op ANY/ALL (array) requires array on right side").at(span)
            );
        };
        let symbol = match op {
            BinaryOperator::PGCustomBinaryOperator(parts) => parts.last().cloned().unwrap_or_default(),
            other => other.to_string(),
        };
        let symbol = if symbol == "!=" { "<>".to_owned() } else { symbol };
        let target = super::operator::comparison_type(&left.ty, item)
            .ok_or_else(|| sql_functions::registry::operator_missing(&symbol, &left.ty, item).at(left_span))?;
        let target = types::base(&target);
        let left = self.coercer.cast(left, &target, LengthRule::Cast)?;
        let left = self.coercer.store_as(left, &target, &target.data_type())?;
        let array = self.coercer.cast(array, &PgType::Array(Box::new(target.clone())), LengthRule::Cast)?;
        sql_functions::internal::quantified(&symbol, all, left, array).map_err(|error| error.at(span))
    }
}

/// The plan with nothing in its rows, as far as that decides nothing about whether there are any: EXISTS does not compute its
/// select list.
fn rows_of(plan: LogicalPlan) -> Result<LogicalPlan, SqlError> {
    let mut input = &plan;
    loop {
        input = match input {
            LogicalPlan::Projection(projection) => &projection.input,
            LogicalPlan::Distinct(Distinct::All(input)) => input,
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => &sort.input,
            _ => break,
        };
    }
    if std::ptr::eq(input, &plan) {
        return Ok(plan);
    }
    Ok(LogicalPlanBuilder::from(input.clone()).project([lit(1)])?.build()?)
}

/// Whether an expression contains a query.
pub fn has_subquery(expr: &ast::Expr) -> bool {
    visit_expressions(expr, |expr| match expr {
        ast::Expr::Subquery(_) | ast::Expr::Exists { .. } | ast::Expr::InSubquery { .. } => ControlFlow::Break(()),
        ast::Expr::Function(function) if matches!(function.args, ast::FunctionArguments::Subquery(_)) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// What an aggregate over an ordered query of one column reads: the order moves into the aggregate, because the
/// optimizer drops a sort below one.
pub fn ordered_input(
    bound: BoundQuery,
) -> Result<(Arc<LogicalPlan>, TypedExpr, Vec<datafusion::logical_expr::expr::Sort>), SqlError> {
    let mut input = columns_of(&bound).into_iter().next().ok_or_else(|| SqlError::internal("a query has a column"))?;
    Ok(match bound.plan {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => (sort.input, input, sort.expr),
        LogicalPlan::Projection(projection) => match projection.input.as_ref() {
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                input.expr = projection.expr[0].clone().unalias();
                (Arc::clone(&sort.input), input, sort.expr.clone())
            }
            _ => (Arc::new(LogicalPlan::Projection(projection)), input, Vec::new()),
        },
        plan => (Arc::new(plan), input, Vec::new()),
    })
}

/// A plan as a subquery, with the outer columns it reads.
pub fn as_subquery(plan: LogicalPlan) -> Result<Subquery, SqlError> {
    let outer_ref_columns = free_references(&plan)?;
    Ok(Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: Default::default() })
}

/// The references to columns of queries around a plan, those of its subqueries to itself left out.
pub fn free_references(plan: &LogicalPlan) -> Result<Vec<Expr>, SqlError> {
    let mut free = Vec::new();
    let mut bound_here = Vec::new();
    for input in plan.inputs() {
        let mut references = free_references(input)?;
        // What stands to the right of LATERAL refers to the left, which came before.
        references.retain(|reference| !is_column_of(reference, &bound_here));
        free.extend(references);
        bound_here.push(input.schema());
    }
    for expr in plan.expressions() {
        expr.apply(|expr| {
            match expr {
                Expr::OuterReferenceColumn(..) => free.push(expr.clone()),
                Expr::ScalarSubquery(subquery)
                | Expr::Exists(Exists { subquery, .. })
                | Expr::InSubquery(InSubquery { subquery, .. })
                | Expr::SetComparison(SetComparison { subquery, .. }) => {
                    let references = subquery.outer_ref_columns.iter();
                    free.extend(references.filter(|reference| !is_column_of(reference, &bound_here)).cloned());
                }
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(free)
}

fn is_column_of(reference: &Expr, schemas: &[&DFSchemaRef]) -> bool {
    match reference {
        Expr::OuterReferenceColumn(_, column) => schemas.iter().any(|schema| schema.has_column(column)),
        _ => false,
    }
}

/// Whether a plan has at most one row by its form: an aggregate without groups, or LIMIT 1.
fn is_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_one_row(&projection.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Limit(limit) => {
            matches!(limit.fetch.as_deref(), Some(Expr::Literal(ScalarValue::Int64(Some(..=1)), _)))
        }
        _ => false,
    }
}
