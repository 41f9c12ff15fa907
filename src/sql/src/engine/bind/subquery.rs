//! Subqueries in expressions: scalar, EXISTS, IN, and comparisons with ANY and ALL.
//!
//! DataFusion runs an uncorrelated scalar subquery once and checks that it has one row. A correlated one it turns into
//! a join, for which it wants proof of a single row: an aggregate of ours that fails on a second row gives it.

use super::expr::{Cx, balanced};
use super::query::{columns_of, project, unique_names};
use super::scope::Clause;
use super::{Binder, BoundQuery, Settle};
use crate::engine::{TypedExpr, types};
use crate::error::SqlError;
use arrow::datatypes::DataType;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Operator, Subquery, lit};
use datafusion::sql::sqlparser::ast::{self, BinaryOperator, Query, Spanned};
use pgrepr::length::LengthRule;
use repr::PgType;
use repr::sqlstate::SqlState;
use std::sync::Arc;

impl Binder<'_> {
    /// `(SELECT …)` as a value.
    pub fn scalar_subquery(&mut self, query: &Query, cx: &Cx<'_>) -> Result<TypedExpr, SqlError> {
        let bound = self.query(query, Some(cx.frame), Settle::Text)?;
        let [column] = bound.columns.as_slice() else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "subquery must return only one column"));
        };
        let (ty, data_type) = (column.ty.clone(), column.data_type.clone());
        let correlated = !bound.plan.all_out_ref_exprs().is_empty();
        if correlated && (query.limit_clause.is_some() || query.fetch.is_some()) {
            return self.first_row(query, cx, ty, data_type);
        }
        if correlated && !is_aggregated(&bound.plan) {
            return self.at_most_one(bound, ty, data_type);
        }
        let plan = self.or_null(bound)?;
        Ok(TypedExpr::new(Expr::ScalarSubquery(as_subquery(plan)), ty, data_type))
    }

    /// A subquery without rows is NULL, although its column may not be nullable.
    fn or_null(&mut self, bound: BoundQuery) -> Result<LogicalPlan, SqlError> {
        let required = bound.plan.schema().fields().iter().any(|field| !field.is_nullable());
        if !required || is_aggregated(&bound.plan) {
            return Ok(bound.plan);
        }
        let mut exprs = Vec::new();
        for column in columns_of(&bound) {
            exprs.push(crate::functions::array::nullable(column)?.expr);
        }
        let names = unique_names(bound.columns.iter().map(|column| column.name.as_str()));
        project(bound.plan, exprs, &names)
    }

    /// A correlated subquery with LIMIT 1: the first of the ordered list of its rows.
    fn first_row(
        &mut self,
        query: &Query,
        cx: &Cx<'_>,
        ty: PgType,
        data_type: DataType,
    ) -> Result<TypedExpr, SqlError> {
        let one = |expr: &Option<ast::Expr>| expr.as_ref().and_then(super::query::position) == Some(1);
        let is_first = match (&query.limit_clause, &query.fetch) {
            (Some(ast::LimitClause::LimitOffset { limit, offset: None, .. }), None) => one(limit),
            _ => false,
        };
        if !is_first {
            return Err(SqlError::unsupported("LIMIT in a correlated subquery").at(query.span()));
        }
        let unlimited = Query { limit_clause: None, ..query.clone() };
        let bound = self.query(&unlimited, Some(cx.frame), Settle::Text)?;
        let (plan, input, order_by) = ordered_input(bound)?;
        let list = self.internal_name("list");
        let aggregate = crate::functions::aggregate::collect_ordered(input.expr, order_by).alias(list);
        let plan = LogicalPlan::Aggregate(Aggregate::try_new(plan, vec![], vec![aggregate])?);
        let array = PgType::Array(Box::new(ty.clone()));
        let list = DataType::new_list(data_type.clone(), true);
        let collected = TypedExpr::new(Expr::ScalarSubquery(as_subquery(plan)), array, list);
        Ok(crate::functions::array::first_value(collected, &ty, &data_type))
    }

    /// The one row of a query, or NULL; more than one row is 21000.
    ///
    /// The rows are collected in the subquery and counted outside it: the join that it becomes collects for every
    /// value of the outer columns, also for those that no outer row has.
    fn at_most_one(&mut self, bound: BoundQuery, ty: PgType, data_type: DataType) -> Result<TypedExpr, SqlError> {
        let collected = self.collected(bound, &ty, &data_type)?;
        Ok(crate::functions::array::single_value(collected, &ty, &data_type))
    }

    /// All rows of a query of one column, as a list; NULL when there are none.
    fn collected(&mut self, bound: BoundQuery, ty: &PgType, data_type: &DataType) -> Result<TypedExpr, SqlError> {
        let column = columns_of(&bound).into_iter().next().ok_or_else(|| SqlError::internal("one column"))?;
        let list = self.internal_name("list");
        let aggregate = crate::functions::aggregate::collect_list(column.expr)?.alias(list);
        let plan = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(bound.plan), vec![], vec![aggregate])?);
        let array = PgType::Array(Box::new(ty.clone()));
        let data_type = DataType::new_list(data_type.clone(), true);
        Ok(TypedExpr::new(Expr::ScalarSubquery(as_subquery(plan)), array, data_type))
    }

    /// EXISTS
    pub fn exists(&mut self, query: &Query, negated: bool, cx: &Cx<'_>) -> Result<TypedExpr, SqlError> {
        let bound = self.query(query, Some(cx.frame), Settle::Text)?;
        if !is_filter(cx.clause) {
            return self.exists_as_count(bound, negated);
        }
        let expr = Expr::Exists(Exists { subquery: as_subquery(bound.plan), negated });
        Ok(TypedExpr { expr, ty: PgType::Bool, data_type: DataType::Boolean, nullable: false })
    }

    /// Outside filters, where DataFusion has no join for it, EXISTS is a count.
    fn exists_as_count(&mut self, bound: BoundQuery, negated: bool) -> Result<TypedExpr, SqlError> {
        let name = self.internal_name("count");
        let count = crate::functions::aggregate::count_star()?.alias(&name);
        let plan = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(bound.plan), vec![], vec![count])?);
        let subquery = Expr::ScalarSubquery(as_subquery(plan));
        let expr = if negated { subquery.eq(lit(0_i64)) } else { subquery.gt(lit(0_i64)) };
        Ok(TypedExpr::new(expr, PgType::Bool, DataType::Boolean))
    }

    /// `x IN (SELECT …)`
    pub fn in_subquery(
        &mut self,
        left: &ast::Expr,
        query: &Query,
        negated: bool,
        cx: &Cx<'_>,
    ) -> Result<TypedExpr, SqlError> {
        if matches!(left, ast::Expr::Tuple(_)) {
            return Err(SqlError::unsupported("IN of a row and a subquery"));
        }
        let (left, bound) = self.comparable(left, query, cx, "=")?;
        if !is_filter(cx.clause) {
            let found = self.quantified_rows(if negated { "<>" } else { "=" }, negated, left, bound)?;
            return Ok(found);
        }
        let expr =
            Expr::InSubquery(InSubquery { expr: Box::new(left.expr), subquery: as_subquery(bound.plan), negated });
        Ok(TypedExpr::new(expr, PgType::Bool, DataType::Boolean))
    }

    /// Outside filters, a comparison with a subquery's rows is one with the array of them.
    fn quantified_rows(
        &mut self,
        symbol: &str,
        all: bool,
        left: TypedExpr,
        bound: BoundQuery,
    ) -> Result<TypedExpr, SqlError> {
        let ty = left.ty.clone();
        let planned = bound.plan.schema().field(0).data_type().clone();
        let collected = self.collected(bound, &ty, &planned)?;
        let collected =
            self.call("array_or_empty", vec![collected], datafusion::sql::sqlparser::tokenizer::Span::empty())?;
        crate::functions::array::quantified(symbol, all, left, collected)
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
            .ok_or_else(|| super::operator::operator_missing(symbol, &left.ty, &right.ty).at(span))?;
        self.require_equality(&target, &target)?;
        let unchanged = right.clone();
        let left = self.coercer.cast(left, &target, LengthRule::Cast)?;
        let right = self.coercer.cast(right, &target, LengthRule::Cast)?;
        let (mut pair, ..) = self.coercer.unify(vec![left, right], "IN")?;
        let right = self.comparison_key(pair.remove(1))?;
        let left = self.comparison_key(pair.remove(0))?;
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
        if !is_filter(cx.clause) {
            let symbol = op.to_string();
            return self.quantified_rows(if symbol == "!=" { "<>" } else { &symbol }, all, left, bound);
        }
        let expr = Expr::SetComparison(SetComparison {
            expr: Box::new(left.expr),
            subquery: as_subquery(bound.plan),
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
            let left = self.expr(left, cx)?;
            let mut each = Vec::new();
            for element in &array.elem {
                let item = self.expr(element, cx)?;
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
            _ => array,
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
            .ok_or_else(|| super::operator::operator_missing(&symbol, &left.ty, item).at(left_span))?;
        let target = types::base(&target);
        let left = self.coercer.cast(left, &target, LengthRule::Cast)?;
        let left = self.coercer.store_as(left, &target, &target.data_type())?;
        let array = self.coercer.cast(array, &PgType::Array(Box::new(target.clone())), LengthRule::Cast)?;
        crate::functions::array::quantified(&symbol, all, left, array).map_err(|error| error.at(span))
    }
}

/// Clauses whose subqueries become joins.
fn is_filter(clause: Clause) -> bool {
    matches!(clause, Clause::Where | Clause::Having | Clause::JoinOn)
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
pub fn as_subquery(plan: LogicalPlan) -> Subquery {
    let outer_ref_columns = plan.all_out_ref_exprs();
    Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: Default::default() }
}

/// Whether the plan is an aggregate without groups, below projections.
fn is_aggregated(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_aggregated(&projection.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        _ => false,
    }
}
