//! Queries around their bodies: WITH, set operations, VALUES, ORDER BY and LIMIT.

use super::columns::{columns_of, columns_of_plan, project, unique_names};
use super::parentheses::merged;
use super::scope::{Clause, Frame, Scope, ScopeColumn};
use super::{Binder, BoundQuery, OutputColumn, Settle};
use crate::bind::coerce::assign;
use crate::bind::cx::Cx;
use crate::bind::relation::aliased_columns;
use crate::row_count::RowCount;
use arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{Sort, WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::{
    Distinct, Expr, Limit, LogicalPlan, LogicalPlanBuilder, Union, Values, Window, WindowFrame,
    WindowFunctionDefinition, lit,
};
use engine::error::SqlError;
use repr::PgType;
use repr::sqlstate::SqlState;
use sql_functions::TypedExpr;
use sql_functions::order::is_exact;
use sqlparser::ast::{self, Fetch, LimitClause, OrderByExpr, OrderByKind, Query, SetExpr, SetOperator, SetQuantifier};
use std::collections::HashMap;
use std::sync::Arc;

impl Binder<'_> {
    /// Binds a query with everything around its body.
    pub fn query(
        &mut self,
        query: &Query,
        outer: Option<&Frame<'_>>,
        settle: Settle<'_>,
    ) -> Result<BoundQuery, SqlError> {
        self.deeper()?;
        if outer.map_or(0, Frame::depth) > super::SUBQUERY_DEPTH_MAX {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
                .with_detail(format!("Subqueries in expressions nest at most {} deep.", super::SUBQUERY_DEPTH_MAX)));
        }
        refuse_query_clauses(query)?;
        let merged = merged(query)?;
        let query = merged.as_ref().unwrap_or(query);
        self.queries += 1;
        let mut recursion = None;
        if let Some(with) = &query.with {
            self.ctes.push(HashMap::new());
            recursion = self.with(with, outer)?;
        }
        let order_by = order_by_exprs(query)?;
        let ordered = match (query.body.as_ref(), order_by.is_empty()) {
            (SetExpr::Select(select), _) => self.select(select, order_by, outer, settle)?,
            (body, true) => self.set_expr(body, outer, settle)?,
            (body, false) => {
                let bound = self.set_expr(body, outer, settle)?;
                self.order_output(bound, order_by)?
            }
        };
        self.check_locks(query, &ordered.plan)?;
        let mut bound = self.limit(ordered, query, outer)?;
        if query.with.is_some() {
            self.ctes.pop();
        }
        if let Some(recursion) = recursion {
            bound.plan = recursion.around(bound.plan);
        }
        self.queries -= 1;
        if self.queries == 0 {
            bound.plan = self.after_once(bound.plan)?;
            bound.plan = self.expanded(bound.plan)?;
        }
        self.shallower();
        Ok(bound)
    }

    pub(super) fn set_expr(
        &mut self,
        body: &SetExpr,
        outer: Option<&Frame<'_>>,
        settle: Settle<'_>,
    ) -> Result<BoundQuery, SqlError> {
        match body {
            SetExpr::Select(select) => self.select(select, &[], outer, settle),
            SetExpr::Query(query) => self.query(query, outer, settle),
            SetExpr::SetOperation { op, set_quantifier, left, right } => {
                self.deeper()?;
                let bound = self.set_operation(*op, *set_quantifier, left, right, outer)?;
                self.shallower();
                self.settle_columns(bound, settle)
            }
            SetExpr::Values(values) => {
                let bound = self.values(values, outer, settle)?;
                self.settle_columns(bound, settle)
            }
            // The parser has made a SELECT of it, unless what follows is no name.
            SetExpr::Table(_) => Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"TABLE\"")),
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                Err(SqlError::unsupported("a data-modifying statement in WITH"))
            }
        }
    }

    /// UNION, INTERSECT and EXCEPT.
    fn set_operation(
        &mut self,
        op: SetOperator,
        quantifier: SetQuantifier,
        left: &SetExpr,
        right: &SetExpr,
        outer: Option<&Frame<'_>>,
    ) -> Result<BoundQuery, SqlError> {
        let all = match quantifier {
            SetQuantifier::All => true,
            SetQuantifier::None | SetQuantifier::Distinct => false,
            _ => return Err(SqlError::unsupported(format!("{op} {quantifier}"))),
        };
        let left = self.set_expr(left, outer, Settle::Later)?;
        let right = self.set_expr(right, outer, Settle::Later)?;
        let (left, right) = self.unify_columns(left, right, &op.to_string())?;
        let columns = left.columns.clone();
        if !(op == SetOperator::Union && all) {
            for column in &columns {
                self.require_distinct(&column.ty)?;
            }
            if !columns.iter().all(|column| is_exact(&column.ty)) {
                return self.set_operation_by_keys(op, all, left, right);
            }
        }
        let (mut l, mut r) = (left.plan, right.plan);
        // All rows without columns are the same one.
        let is_bare = columns.is_empty() && !all;
        if is_bare {
            let first = |plan| LogicalPlanBuilder::from(plan).limit(0, Some(1))?.build();
            (l, r) = (first(l)?, first(r)?);
        }
        let plan = match (op, all || is_bare) {
            (SetOperator::Union, true) if is_bare => {
                let union = LogicalPlan::Union(Union::try_new_with_loose_types(vec![Arc::new(l), Arc::new(r)])?);
                LogicalPlanBuilder::from(union).limit(0, Some(1))?.build()?
            }
            (SetOperator::Union, true) => {
                LogicalPlan::Union(Union::try_new_with_loose_types(vec![Arc::new(l), Arc::new(r)])?)
            }
            (SetOperator::Union, false) => {
                let union = LogicalPlan::Union(Union::try_new_with_loose_types(vec![Arc::new(l), Arc::new(r)])?);
                LogicalPlan::Distinct(Distinct::All(Arc::new(union)))
            }
            (SetOperator::Intersect, false) => LogicalPlanBuilder::intersect(l, r, false)?,
            (SetOperator::Except, false) => LogicalPlanBuilder::except(l, r, false)?,
            (SetOperator::Intersect | SetOperator::Except, true) => self.counted(op, l, r)?,
            (op, _) => return Err(SqlError::unsupported(op.to_string())),
        };
        Ok(BoundQuery { plan, columns })
    }

    /// INTERSECT ALL and EXCEPT ALL: DataFusion's forms keep or drop all copies of a row together, so the copies are
    /// numbered and the numbers compared with them.
    fn counted(&mut self, op: SetOperator, left: LogicalPlan, right: LogicalPlan) -> Result<LogicalPlan, SqlError> {
        let shown = columns_of_plan(&left);
        let name = self.internal_name("copy");
        let (left, right) = (numbered(left, &name)?, numbered(right, &name)?);
        let plan = match op {
            SetOperator::Except => LogicalPlanBuilder::except(left, right, false)?,
            _ => LogicalPlanBuilder::intersect(left, right, false)?,
        };
        let columns: Vec<Expr> = columns_of_plan(&plan).into_iter().take(shown.len()).collect();
        let names: Vec<String> = plan.schema().fields().iter().map(|field| field.name().clone()).collect();
        project(plan, columns, &names)
    }

    /// Converts the columns of two queries to common types, under the left one's names.
    fn unify_columns(
        &mut self,
        left: BoundQuery,
        right: BoundQuery,
        op: &str,
    ) -> Result<(BoundQuery, BoundQuery), SqlError> {
        if left.columns.len() != right.columns.len() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("each {op} query must have the same number of columns"),
            ));
        }
        let (mut lefts, mut rights, mut columns) = (Vec::new(), Vec::new(), Vec::new());
        for (i, (l, r)) in columns_of(&left).into_iter().zip(columns_of(&right)).enumerate() {
            let (unified, ty, data_type) = self.coercer.unify(vec![l, r], op)?;
            let [l, r] = <[TypedExpr; 2]>::try_from(unified).map_err(|_| SqlError::internal("two went in"))?;
            lefts.push(l.expr);
            rights.push(r.expr);
            columns.push(OutputColumn { name: left.columns[i].name.clone(), ty, data_type });
        }
        let names = unique_names(columns.iter().map(|column| column.name.as_str()));
        let left = project(left.plan, lefts, &names)?;
        let right = project(right.plan, rights, &names)?;
        Ok((BoundQuery { plan: left, columns: columns.clone() }, BoundQuery { plan: right, columns }))
    }

    /// Gives columns of undecided type their types.
    pub fn settle_columns(&mut self, bound: BoundQuery, settle: Settle<'_>) -> Result<BoundQuery, SqlError> {
        match settle {
            Settle::Later => return Ok(bound),
            Settle::Text if bound.columns.iter().all(|column| column.ty != PgType::Unknown) => return Ok(bound),
            _ => {}
        }
        let exprs = columns_of(&bound);
        let names: Vec<String> = bound.columns.iter().map(|column| column.name.clone()).collect();
        let (exprs, columns) = self.settle_exprs(exprs, &names, settle)?;
        let unique = unique_names(columns.iter().map(|column| column.name.as_str()));
        let plan = project(bound.plan, exprs, &unique)?;
        Ok(BoundQuery { plan, columns })
    }

    /// Gives expressions of undecided type their types.
    pub fn settle_exprs(
        &mut self,
        exprs: Vec<TypedExpr>,
        names: &[String],
        settle: Settle<'_>,
    ) -> Result<(Vec<Expr>, Vec<OutputColumn>), SqlError> {
        if let Settle::Assign(targets) = settle
            && exprs.len() > targets.len()
        {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "INSERT has more expressions than target columns"));
        }
        let (mut out, mut columns) = (Vec::new(), Vec::new());
        for (i, expr) in exprs.into_iter().enumerate() {
            let name = names[i].clone();
            match settle {
                Settle::Assign(targets) => {
                    let (target, ty) = &targets[i];
                    out.push(assign(expr, ty, target, self.coercer.params, self.coercer.tables)?);
                    columns.push(OutputColumn { name, ty: ty.clone(), data_type: ty.data_type() });
                }
                Settle::Text | Settle::Later => {
                    let expr = if matches!(settle, Settle::Text) { self.coercer.settle(expr)? } else { expr };
                    columns.push(OutputColumn { name, ty: expr.ty, data_type: expr.data_type });
                    out.push(expr.expr);
                }
            }
        }
        Ok((out, columns))
    }

    /// VALUES: its rows are brought to common types.
    fn values(
        &mut self,
        values: &ast::Values,
        outer: Option<&Frame<'_>>,
        settle: Settle<'_>,
    ) -> Result<BoundQuery, SqlError> {
        let width = values.rows.first().map_or(0, |row| row.len());
        let scope = Scope::default();
        let frame = Frame { scope: &scope, outer };
        let cx = Cx::new(&frame, Clause::Values);
        let mut columns: Vec<Vec<TypedExpr>> = vec![Vec::with_capacity(values.rows.len()); width];
        for row in &values.rows {
            if row.len() != width {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "VALUES lists must all be the same length"));
            }
            for (column, expr) in columns.iter_mut().zip(row.iter()) {
                column.push(self.expr(expr, &cx)?);
            }
        }
        let (mut outputs, mut fields, mut unified) = (Vec::new(), Vec::new(), Vec::new());
        for (i, column) in columns.into_iter().enumerate() {
            let name = format!("column{}", i + 1);
            let undecided = column.iter().all(|expr| expr.ty == PgType::Unknown);
            let (exprs, ty, data_type) = match settle {
                Settle::Later if undecided && column.iter().all(|e| e.as_literal().is_some()) => undecided_text(column),
                Settle::Assign(targets) if i < targets.len() => {
                    let (target, ty) = &targets[i];
                    let mut exprs = Vec::with_capacity(column.len());
                    for expr in column {
                        let data_type = ty.data_type();
                        let expr = assign(expr, ty, target, self.coercer.params, self.coercer.tables)?;
                        exprs.push(TypedExpr::new(expr, ty.clone(), data_type));
                    }
                    (exprs, ty.clone(), ty.data_type())
                }
                _ => self.coercer.unify(column, "VALUES")?,
            };
            fields.push(Field::new(&name, data_type.clone(), true));
            outputs.push(OutputColumn { name, ty, data_type });
            unified.push(exprs.into_iter().map(|expr| expr.expr).collect::<Vec<_>>());
        }
        let rows = (0..values.rows.len())
            .map(|row| unified.iter_mut().map(|column| std::mem::take(&mut column[row])).collect())
            .collect();
        let schema = Arc::new(DFSchema::from_unqualified_fields(fields.into(), HashMap::new())?);
        Ok(BoundQuery { plan: LogicalPlan::Values(Values { schema, values: rows }), columns: outputs })
    }

    /// ORDER BY of a set operation or VALUES: output names and positions only.
    fn order_output(&mut self, bound: BoundQuery, order_by: &[OrderByExpr]) -> Result<BoundQuery, SqlError> {
        let exprs = columns_of(&bound);
        let scope = Scope {
            columns: bound
                .columns
                .iter()
                .zip(&exprs)
                .map(|(column, value)| ScopeColumn::new(None, column.name.clone(), value.clone()))
                .collect(),
        };
        let mut sorts = Vec::new();
        for item in order_by {
            let expr = match position(&item.expr) {
                Some(n) => nth(&exprs, n, "ORDER BY")?,
                None => {
                    if !matches!(item.expr, ast::Expr::Identifier(_)) {
                        return Err(SqlError::new(
                            SqlState::FEATURE_NOT_SUPPORTED,
                            "invalid UNION/INTERSECT/EXCEPT ORDER BY clause",
                        )
                        .with_detail("Only result column names can be used, not expressions or functions.")
                        .with_hint(
                            "Add the expression/function to every SELECT, or move the UNION into a FROM clause.",
                        ));
                    }
                    let frame = Frame { scope: &scope, outer: None };
                    self.expr(&item.expr, &Cx::new(&frame, Clause::OrderBy))?
                }
            };
            sorts.push(self.sort_expr(expr, item)?);
        }
        let plan = LogicalPlanBuilder::from(bound.plan).sort(sorts)?.build()?;
        Ok(BoundQuery { plan, columns: bound.columns })
    }

    /// One ORDER BY item, by Postgres's default: NULLs are larger than everything.
    pub fn sort_expr(&mut self, expr: TypedExpr, item: &OrderByExpr) -> Result<Sort, SqlError> {
        if item.with_fill.is_some() {
            return Err(SqlError::unsupported("WITH FILL"));
        }
        let expr = self.coercer.settle(expr)?;
        let key = self.order_key(expr)?;
        let asc = item.options.asc.unwrap_or(true);
        Ok(Sort { expr: key, asc, nulls_first: item.options.nulls_first.unwrap_or(!asc) })
    }

    fn limit(&mut self, bound: BoundQuery, query: &Query, outer: Option<&Frame<'_>>) -> Result<BoundQuery, SqlError> {
        let (mut limit, mut offset) = match &query.limit_clause {
            None => (None, None),
            Some(LimitClause::LimitOffset { limit_by, .. }) if !limit_by.is_empty() => {
                return Err(SqlError::unsupported("LIMIT BY"));
            }
            Some(LimitClause::LimitOffset { limit, offset, .. }) => {
                (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
            }
            Some(LimitClause::OffsetCommaLimit { .. }) => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "LIMIT #,# syntax is not supported")
                    .with_hint("Use separate LIMIT and OFFSET clauses."));
            }
        };
        let one = ast::Expr::value(ast::Value::Number("1".to_owned(), false));
        match &query.fetch {
            None => {}
            Some(Fetch { with_ties: true, .. }) => return Err(SqlError::unsupported("FETCH … WITH TIES")),
            Some(Fetch { percent: true, .. }) => return Err(SqlError::unsupported("FETCH … PERCENT")),
            Some(_) if limit.is_some() => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"FETCH\""));
            }
            Some(Fetch { quantity, .. }) => limit = Some(quantity.as_ref().unwrap_or(&one)),
        }
        if limit.is_none() && offset.is_none() {
            return Ok(bound);
        }
        let skip = offset.take().map(|expr| self.row_count(expr, RowCount::Offset, outer)).transpose()?;
        let fetch = limit.take().map(|expr| self.row_count(expr, RowCount::Limit, outer)).transpose()?;
        let plan = LogicalPlan::Limit(Limit {
            skip: skip.flatten().map(Box::new),
            fetch: fetch.flatten().map(Box::new),
            input: Arc::new(bound.plan),
        });
        Ok(BoundQuery { plan, columns: bound.columns })
    }

    /// A count of rows, constant or from parameters; NULL is no limit.
    fn row_count(
        &mut self,
        expr: &ast::Expr,
        what: RowCount,
        outer: Option<&Frame<'_>>,
    ) -> Result<Option<Expr>, SqlError> {
        let scope = Scope::default();
        let frame = Frame { scope: &scope, outer };
        let typed = match self.expr(expr, &Cx::new(&frame, Clause::Limit)) {
            Err(error) if error.sqlstate == SqlState::UNDEFINED_COLUMN => {
                return Err(SqlError::new(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    format!("argument of {} must not contain variables", what.clause()),
                ));
            }
            other => other?,
        };
        let typed = self.coercer.implicit_or_assign(typed, &PgType::Int8, &format!("argument of {}", what.clause()))?;
        // What has no value yet is checked when it has one: whoever runs the plan computes it.
        match engine::fold::fold(&typed.expr) {
            Some(value) => Ok(what.of(&value)?.map(lit)),
            None => Ok(Some(typed.expr)),
        }
    }
}

/// Columns of a VALUES list whose type the query around it decides.
fn undecided_text(column: Vec<TypedExpr>) -> (Vec<TypedExpr>, PgType, DataType) {
    let exprs = column
        .into_iter()
        .map(|expr| match expr.as_literal() {
            Some(ScalarValue::Utf8View(_)) => expr,
            _ => TypedExpr {
                expr: Expr::Literal(ScalarValue::Utf8View(None), None),
                data_type: DataType::Utf8View,
                ..expr
            },
        })
        .collect();
    (exprs, PgType::Unknown, DataType::Utf8View)
}

/// Numbers the copies of each row.
fn numbered(plan: LogicalPlan, name: &str) -> Result<LogicalPlan, SqlError> {
    let call = WindowFunction {
        fun: WindowFunctionDefinition::WindowUDF(datafusion::functions_window::row_number::row_number_udwf()),
        params: WindowFunctionParams {
            args: Vec::new(),
            partition_by: columns_of_plan(&plan),
            order_by: Vec::new(),
            window_frame: WindowFrame::new(None),
            filter: None,
            null_treatment: None,
            distinct: false,
        },
    };
    let number = Expr::WindowFunction(Box::new(call)).alias(name);
    Ok(LogicalPlan::Window(Window::try_new(vec![number], Arc::new(plan))?))
}

pub(super) fn rename(columns: &mut [OutputColumn], aliases: &[String], table: &str) -> Result<(), SqlError> {
    aliased_columns(table, columns.len(), aliases).map_err(|mut error| {
        error.message = error.message.replacen("table", "WITH query", 1);
        error
    })?;
    for (column, alias) in columns.iter_mut().zip(aliases) {
        column.name.clone_from(alias);
    }
    Ok(())
}

/// The 1-based position that an integer constant in ORDER BY or GROUP BY stands for.
pub fn position(expr: &ast::Expr) -> Option<i64> {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(text, _) => text.parse::<i32>().ok().map(i64::from),
            _ => None,
        },
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => position(expr).map(|n| -n),
        _ => None,
    }
}

/// Error 42601 if what a clause goes by is a constant. One that is a whole number is a position and no constant.
pub fn refuse_constant(expr: &ast::Expr, clause: &str) -> Result<(), SqlError> {
    match expr {
        ast::Expr::Value(value) if !matches!(value.value, ast::Value::Placeholder(_)) => {
            Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("non-integer constant in {clause}")))
        }
        _ => Ok(()),
    }
}

/// The select item at a position.
pub fn nth(exprs: &[TypedExpr], n: i64, clause: &str) -> Result<TypedExpr, SqlError> {
    usize::try_from(n).ok().and_then(|n| exprs.get(n.wrapping_sub(1))).cloned().ok_or_else(|| {
        SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, format!("{clause} position {n} is not in select list"))
    })
}

fn order_by_exprs(query: &Query) -> Result<&[OrderByExpr], SqlError> {
    match &query.order_by {
        None => Ok(&[]),
        Some(order_by) if order_by.interpolate.is_some() => Err(SqlError::unsupported("INTERPOLATE")),
        Some(order_by) => match &order_by.kind {
            OrderByKind::Expressions(exprs) => Ok(exprs),
            OrderByKind::All(_) => Err(SqlError::unsupported("ORDER BY ALL")),
        },
    }
}

fn refuse_query_clauses(query: &Query) -> Result<(), SqlError> {
    let refused = [
        (query.for_clause.is_some(), "FOR XML/JSON"),
        (query.settings.is_some(), "SETTINGS"),
        (query.format_clause.is_some(), "FORMAT"),
        (!query.pipe_operators.is_empty(), "a pipe operator"),
    ];
    match refused.iter().find(|(present, _)| *present) {
        Some((_, what)) => Err(SqlError::unsupported(what)),
        None => Ok(()),
    }
}
