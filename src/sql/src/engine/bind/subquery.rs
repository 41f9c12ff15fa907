//! Subqueries in expressions: scalar, EXISTS, IN, and comparisons with ANY and ALL.
//!
//! DataFusion runs an uncorrelated scalar subquery once and checks that it has one row. A correlated one it turns into
//! a join, for which it wants proof of a single row: an aggregate of ours that fails on a second row gives it.

use super::expr::{Cx, balanced};
use super::query::{columns_of, project, unique_names};
use super::{Binder, BoundQuery, Settle};
use crate::engine::{TypedExpr, types};
use crate::error::SqlError;
use arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Operator, Subquery};
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
            return Err(SqlError::unsupported("LIMIT in a correlated subquery").at(query.span()));
        }
        let bound = if correlated && !is_aggregated(&bound.plan) { self.at_most_one(bound)? } else { bound };
        Ok(TypedExpr::new(Expr::ScalarSubquery(as_subquery(bound.plan)), ty, data_type))
    }

    /// Reduces a query to one row, or NULL; more than one row is 21000.
    fn at_most_one(&mut self, bound: BoundQuery) -> Result<BoundQuery, SqlError> {
        let columns = columns_of(&bound);
        let column = columns.into_iter().next().ok_or_else(|| SqlError::internal("one column"))?;
        let (ty, data_type) = (column.ty.clone(), column.data_type.clone());
        let list = self.internal_name("list");
        let aggregate = crate::functions::aggregate::collect_list(column.expr)?.alias(&list);
        let aggregated = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(bound.plan), vec![], vec![aggregate])?);
        let collected = TypedExpr::new(
            Expr::Column(Column::from_name(list)),
            PgType::Array(Box::new(ty.clone())),
            DataType::new_list(data_type.clone(), true),
        );
        let single = crate::functions::array::single_value(collected, &ty, &data_type);
        let names = unique_names(bound.columns.iter().map(|column| column.name.as_str()));
        let plan = project(aggregated, vec![single.expr], &names)?;
        Ok(BoundQuery { plan, columns: bound.columns })
    }

    /// EXISTS
    pub fn exists(&mut self, query: &Query, negated: bool, cx: &Cx<'_>) -> Result<TypedExpr, SqlError> {
        let bound = self.query(query, Some(cx.frame), Settle::Text)?;
        let expr = Expr::Exists(Exists { subquery: as_subquery(bound.plan), negated });
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
        if matches!(left, ast::Expr::Tuple(_)) {
            return Err(SqlError::unsupported("IN of a row and a subquery"));
        }
        let (left, bound) = self.comparable(left, query, cx, "=")?;
        let expr = Expr::InSubquery(InSubquery {
            expr: Box::new(left.expr),
            subquery: as_subquery(bound.plan),
            negated,
        });
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
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                "op ANY/ALL (array) requires array on right side",
            )
            .at(span));
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
