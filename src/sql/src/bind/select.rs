//! One SELECT: windows, sets, DISTINCT and ORDER BY as plan nodes.
//!
//! All expressions are bound over the FROM clause's scope first, with aggregate and window calls inside them. Then
//! each layer of the plan computes its share and the expressions are rewritten to refer to it:
//! FROM → WHERE → Aggregate → HAVING → Window → Unnest → Projection → DISTINCT → ORDER BY.

use super::columns::{columns_of_plan, project, unique_names};
use super::presence::names_alone;
use super::query::{nth, position, refuse_constant};
use super::reads::Reads;
use super::scope::{Clause, Frame, RelationName, Scope, ScopeColumn, fold};
use super::subquery::has_subquery;
use super::{Binder, BoundQuery, OutputColumn, Settle, name};
use crate::bind::cx::{Cx, NamedWindows};
use datafusion::common::Column;
use datafusion::logical_expr::expr::{Sort, WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::{
    Distinct, Expr, Filter, LogicalPlan, LogicalPlanBuilder, Projection, Window, WindowFrame, WindowFunctionDefinition,
    lit,
};
use engine::error::SqlError;
use engine::rewrite::{collect, replace};
use repr::PgType;
use repr::sqlstate::SqlState;
use sql_functions::TypedExpr;
use sql_functions::order::is_ordered_as_stored;
use sqlparser::ast::{self, GroupByExpr, OrderByExpr, Select, SelectItem, SelectItemQualifiedWildcardKind};
use std::sync::Arc;

/// A select list: expressions and their output names.
#[derive(Default)]
pub(super) struct Items {
    pub(super) exprs: Vec<TypedExpr>,
    names: Vec<String>,
}

/// The parts of a SELECT that later layers rewrite together.
pub(super) struct Parts {
    items: Vec<TypedExpr>,
    pub(super) having: Option<Expr>,
    sorts: Vec<Sort>,
    distinct_on: Vec<TypedExpr>,
}

impl Parts {
    pub(super) fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let items = self.items.iter().map(|item| &item.expr);
        items
            .chain(self.having.as_ref())
            .chain(self.sorts.iter().map(|sort| &sort.expr))
            .chain(self.distinct_on.iter().map(|on| &on.expr))
    }

    pub(super) fn rewrite(&mut self, map: &[(Expr, Expr)]) -> Result<(), SqlError> {
        for expr in self.items.iter_mut().chain(self.distinct_on.iter_mut()).map(|typed| &mut typed.expr) {
            *expr = replace(std::mem::take(expr), map)?;
        }
        for sort in &mut self.sorts {
            sort.expr = replace(std::mem::take(&mut sort.expr), map)?;
        }
        if let Some(having) = self.having.take() {
            self.having = Some(replace(having, map)?);
        }
        Ok(())
    }
}

impl Binder<'_> {
    /// Binds one SELECT and the ORDER BY that belongs to it.
    pub fn select(
        &mut self,
        select: &Select,
        order_by: &[OrderByExpr],
        outer: Option<&Frame<'_>>,
        settle: Settle<'_>,
    ) -> Result<BoundQuery, SqlError> {
        refuse_select_clauses(select)?;
        self.alone.push(names_alone(select, order_by));
        let relation = self.from(&select.from, outer)?;
        let scope = relation.scope;
        let frame = Frame { scope: &scope, outer };
        let mut plan = relation.plan;
        if let Some(selection) = &select.selection {
            let predicate = self.condition(selection, &Cx::new(&frame, Clause::Where), "WHERE")?;
            plan = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(plan))?);
        }
        let windows = NamedWindows::new(&select.named_window)?;
        let keys = self.keys_with_subqueries(&select.group_by, &frame)?;
        let cx = Cx { windows: &windows, keys: &keys, ..Cx::new(&frame, Clause::Select) };
        let items = self.items(select, &cx)?;
        self.check_windows(&cx)?;
        let grouping = self.group_by(&select.group_by, &items, &cx)?;
        let having = match &select.having {
            Some(having) => Some(self.condition(having, &cx.within(Clause::Having), "HAVING")?),
            None => None,
        };
        let (exprs, columns) = match settle {
            Settle::Later => {
                let columns = items.names.iter().zip(&items.exprs).map(|(name, expr)| column_of(name, expr)).collect();
                (items.exprs.iter().map(|item| item.expr.clone()).collect(), columns)
            }
            settle => self.settle_exprs(items.exprs.clone(), &items.names, settle)?,
        };
        let settled: Vec<TypedExpr> = exprs
            .into_iter()
            .zip(&columns)
            .map(|(expr, column)| TypedExpr::new(expr, column.ty.clone(), column.data_type.clone()))
            .collect();
        let list = Items { exprs: settled, names: items.names };
        let mut sorts = Vec::with_capacity(order_by.len());
        for item in order_by {
            let expr = self.output_or_input(&item.expr, &list, &cx.within(Clause::OrderBy), "ORDER BY")?;
            sorts.push(self.sort_expr(expr, item)?);
        }
        let mut distinct_on = Vec::new();
        if let Some(ast::Distinct::On(exprs)) = &select.distinct {
            for expr in exprs {
                let bound = self.output_or_input(expr, &list, &cx.within(Clause::OrderBy), "SELECT DISTINCT ON")?;
                let bound = self.coercer.settle(bound)?;
                let key = self.order_key(bound.clone())?;
                distinct_on.push(TypedExpr { expr: key, ..bound });
            }
        }
        let mut parts = Parts { items: list.exprs, having, sorts, distinct_on };
        plan = self.aggregate(plan, grouping, &mut parts, &scope)?;
        if let Some(having) = parts.having.take() {
            plan = LogicalPlan::Filter(Filter::try_new(having, Arc::new(plan))?);
        }
        plan = self.windows(plan, &mut parts)?;
        plan = self.sets(plan, &mut parts)?;
        let plan = match &select.distinct {
            None | Some(ast::Distinct::All) => self.project_and_sort(plan, &columns, parts)?,
            Some(ast::Distinct::Distinct) => self.distinct(plan, &columns, parts)?,
            Some(ast::Distinct::On(_)) => self.distinct_on(plan, &columns, parts)?,
        };
        self.alone.pop();
        Ok(BoundQuery { plan, columns })
    }

    fn items(&mut self, select: &Select, cx: &Cx<'_>) -> Result<Items, SqlError> {
        let mut items = Items::default();
        for item in &select.projection {
            match item {
                SelectItem::UnnamedExpr(expr) => {
                    items.exprs.push(self.expr(expr, cx)?);
                    items.names.push(name::output_name(expr));
                }
                SelectItem::ExprWithAlias { alias, .. } if alias.quote_style == Some('\'') => {
                    let message = format!("syntax error at or near \"'{}'\"", alias.value);
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(alias.span));
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    items.exprs.push(self.expr(expr, cx)?);
                    items.names.push(fold(alias));
                }
                SelectItem::Wildcard(options) => {
                    refuse_wildcard_options(options)?;
                    if cx.frame.scope.columns.is_empty() {
                        return Err(SqlError::new(
                            SqlState::SYNTAX_ERROR,
                            "SELECT * with no tables specified is not valid",
                        ));
                    }
                    items.extend(cx.frame.scope, |column| column.star, &mut self.reads);
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(object), options) => {
                    refuse_wildcard_options(options)?;
                    let names = name::object_name(object)?;
                    let relation = RelationName::new(&names)?;
                    let before = items.exprs.len();
                    items.extend(cx.frame.scope, |column| column.is_of(relation), &mut self.reads);
                    if items.exprs.len() == before {
                        return Err(cx.frame.missing_relation(relation, "*"));
                    }
                }
                _ => return Err(SqlError::unsupported("this kind of select item")),
            }
        }
        Ok(items)
    }

    /// The keys of GROUP BY in which there are subqueries, bound once for all places that repeat them.
    fn keys_with_subqueries(
        &mut self,
        group_by: &GroupByExpr,
        frame: &Frame<'_>,
    ) -> Result<Vec<(ast::Expr, TypedExpr)>, SqlError> {
        let GroupByExpr::Expressions(exprs, _) = group_by else { return Ok(Vec::new()) };
        let mut keys = Vec::new();
        for expr in exprs.iter().flat_map(keys_of).filter(|expr| has_subquery(expr)) {
            let bound = self.expr(expr, &Cx::new(frame, Clause::GroupBy))?;
            keys.push((expr.clone(), self.coercer.settle(bound)?));
        }
        Ok(keys)
    }

    /// ORDER BY and DISTINCT ON: positions, then output names, then expressions over the input.
    fn output_or_input(
        &mut self,
        expr: &ast::Expr,
        items: &Items,
        cx: &Cx<'_>,
        clause: &str,
    ) -> Result<TypedExpr, SqlError> {
        if let Some(n) = position(expr) {
            return nth(&items.exprs, n, clause);
        }
        if let ast::Expr::Identifier(ident) = expr
            && let Some(item) = items.named(&fold(ident), clause)?
        {
            return Ok(item);
        }
        refuse_constant(expr, clause)?;
        self.expr(expr, cx)
    }

    /// One Window node for each distinct partitioning and ordering.
    fn windows(&mut self, mut plan: LogicalPlan, parts: &mut Parts) -> Result<LogicalPlan, SqlError> {
        let mut calls: Vec<Expr> = Vec::new();
        for expr in parts.exprs() {
            collect(expr, &mut calls, |expr| matches!(expr, Expr::WindowFunction(_)))?;
        }
        let mut map = Vec::new();
        while let Some(first) = calls.first() {
            let spec = window_spec(first);
            let (same, rest): (Vec<_>, Vec<_>) = calls.iter().cloned().partition(|call| window_spec(call) == spec);
            calls = rest;
            let mut exprs = Vec::new();
            for call in same {
                let name = self.internal_name("window");
                map.push((call.clone(), Expr::Column(Column::from_name(&name))));
                exprs.push(call.alias(name));
            }
            plan = LogicalPlan::Window(Window::try_new(exprs, Arc::new(plan))?);
        }
        parts.rewrite(&map)?;
        Ok(plan)
    }

    /// Set-returning functions of the select list.
    fn sets(&mut self, plan: LogicalPlan, parts: &mut Parts) -> Result<LogicalPlan, SqlError> {
        let mut sets: Vec<Expr> = Vec::new();
        for expr in parts.exprs() {
            collect(expr, &mut sets, |expr| matches!(expr, Expr::Unnest(_)))?;
        }
        if sets.is_empty() {
            return Ok(plan);
        }
        let mut lists = Vec::new();
        for set in &sets {
            let Expr::Unnest(unnest) = set else { continue };
            let data_type =
                datafusion::logical_expr::ExprSchemable::get_type(unnest.expr.as_ref(), plan.schema().as_ref())?;
            let ty = PgType::from_data_type(&data_type);
            lists.push(TypedExpr::new(unnest.expr.as_ref().clone(), ty, data_type));
        }
        let (plan, columns) = self.unnest_over(plan, lists)?;
        let map: Vec<_> = sets.into_iter().zip(columns.into_iter().map(|(column, ..)| column)).collect();
        parts.rewrite(&map)?;
        Ok(plan)
    }

    /// The select list with what ORDER BY needs beside it, sorted, then without it.
    fn project_and_sort(
        &mut self,
        plan: LogicalPlan,
        columns: &[OutputColumn],
        parts: Parts,
    ) -> Result<LogicalPlan, SqlError> {
        let names = unique_names(columns.iter().map(|column| column.name.as_str()));
        let items: Vec<Expr> = parts.items.into_iter().map(|item| item.expr).collect();
        if parts.sorts.is_empty() {
            return project(plan, items, &names);
        }
        let visible = items.len();
        let mut exprs = named(items, &names);
        let mut sorts = Vec::new();
        for sort in parts.sorts {
            let at = match exprs.iter().position(|expr| unalias(expr) == &sort.expr) {
                Some(at) => at,
                None => {
                    let name = self.internal_name("sort");
                    exprs.push(sort.expr.alias(name));
                    exprs.len() - 1
                }
            };
            sorts.push((at, sort.asc, sort.nulls_first));
        }
        let hidden = exprs.len() > visible;
        let projected = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?);
        let outputs = columns_of_plan(&projected);
        let sorts: Vec<Sort> = sorts
            .into_iter()
            .map(|(at, asc, nulls_first)| Sort { expr: outputs[at].clone(), asc, nulls_first })
            .collect();
        let sorted = LogicalPlanBuilder::from(projected).sort(sorts)?.build()?;
        if !hidden {
            return Ok(sorted);
        }
        let shown = outputs.into_iter().take(visible).collect();
        project(sorted, shown, &names)
    }

    fn distinct(
        &mut self,
        plan: LogicalPlan,
        columns: &[OutputColumn],
        mut parts: Parts,
    ) -> Result<LogicalPlan, SqlError> {
        for column in columns {
            self.require_distinct(&column.ty)?;
        }
        let is_sorted = !parts.sorts.is_empty();
        let keyed = |column: &OutputColumn| match column.ty {
            PgType::Bpchar(Some(_)) => is_sorted,
            ref ty => !is_ordered_as_stored(ty),
        };
        if columns.iter().any(keyed) {
            // Equal values of these types can be stored differently, or are ordered by their keys: the first row of each set of
            // keys is taken.
            for item in parts.items.clone() {
                let key = self.order_key(item.clone())?;
                parts.distinct_on.push(TypedExpr { expr: key, ..item });
            }
            if parts.sorts.iter().any(|sort| !parts.distinct_on.iter().any(|key| key.expr == sort.expr)) {
                return Err(not_in_select_list());
            }
            return self.first_of_each(plan, columns, parts);
        }
        let names = unique_names(columns.iter().map(|column| column.name.as_str()));
        let items: Vec<Expr> = parts.items.into_iter().map(|item| item.expr).collect();
        let keys: Vec<Option<usize>> =
            parts.sorts.iter().map(|sort| items.iter().position(|item| *item == sort.expr)).collect();
        if keys.iter().any(Option::is_none) {
            return Err(not_in_select_list());
        }
        let projected = project(plan, items, &names)?;
        let distinct = LogicalPlan::Distinct(Distinct::All(Arc::new(projected)));
        let outputs = columns_of_plan(&distinct);
        let sorts: Vec<Sort> = parts
            .sorts
            .into_iter()
            .zip(keys.into_iter().flatten())
            .map(|(sort, at)| Sort { expr: outputs[at].clone(), ..sort })
            .collect();
        if sorts.is_empty() {
            return Ok(distinct);
        }
        Ok(LogicalPlanBuilder::from(distinct).sort(sorts)?.build()?)
    }

    fn distinct_on(
        &mut self,
        plan: LogicalPlan,
        columns: &[OutputColumn],
        parts: Parts,
    ) -> Result<LogicalPlan, SqlError> {
        let on: Vec<Expr> = parts.distinct_on.iter().map(|on| on.expr.clone()).collect();
        let leading = parts.sorts.iter().take(on.len()).all(|sort| on.contains(&sort.expr));
        if !leading {
            return Err(SqlError::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
            ));
        }
        self.first_of_each(plan, columns, parts)
    }

    /// The first row of each group, in the order asked for.
    fn first_of_each(
        &mut self,
        plan: LogicalPlan,
        columns: &[OutputColumn],
        mut parts: Parts,
    ) -> Result<LogicalPlan, SqlError> {
        // What is shown, partitioned and ordered by are columns. With expressions over the results of other windows, the
        // optimizer would calculate them before those; and what a subquery in one of them gives is the same for all three.
        let items = parts.items.iter().map(|item| item.expr.clone()).collect();
        let (plan, map) = self.as_columns(plan, items)?;
        parts.rewrite(&map)?;
        let keys = parts.distinct_on.iter().map(|on| &on.expr).chain(parts.sorts.iter().map(|sort| &sort.expr));
        let (plan, map) = self.as_columns(plan, keys.cloned().collect())?;
        parts.rewrite(&map)?;
        let on = parts.distinct_on.iter().map(|on| on.expr.clone()).collect();
        let order_by = parts.sorts.clone();
        let name = self.internal_name("distinct");
        let call = WindowFunction {
            fun: WindowFunctionDefinition::WindowUDF(datafusion::functions_window::row_number::row_number_udwf()),
            params: WindowFunctionParams {
                args: Vec::new(),
                partition_by: on,
                window_frame: WindowFrame::new((!order_by.is_empty()).then_some(false)),
                order_by,
                filter: None,
                null_treatment: None,
                distinct: false,
            },
        };
        let numbered = Expr::WindowFunction(Box::new(call)).alias(&name);
        let plan = LogicalPlan::Window(Window::try_new(vec![numbered], Arc::new(plan))?);
        let first = Expr::Column(Column::from_name(name)).eq(lit(1_u64));
        let plan = LogicalPlan::Filter(Filter::try_new(first, Arc::new(plan))?);
        self.project_and_sort(plan, columns, parts)
    }

    /// A plan that has expressions as columns beside its own, and what stands for what.
    fn as_columns(
        &mut self,
        plan: LogicalPlan,
        exprs: Vec<Expr>,
    ) -> Result<(LogicalPlan, Vec<(Expr, Expr)>), SqlError> {
        let mut computed = columns_of_plan(&plan);
        let mut map: Vec<(Expr, Expr)> = Vec::new();
        for expr in exprs {
            let is_there = matches!(expr, Expr::Column(_) | Expr::Literal(..));
            if !is_there && !map.iter().any(|(known, _)| *known == expr) {
                let name = self.internal_name("key");
                computed.push(expr.clone().alias(&name));
                map.push((expr, Expr::Column(Column::from_name(name))));
            }
        }
        Ok((LogicalPlan::Projection(Projection::try_new(computed, Arc::new(plan))?), map))
    }
}

/// The expressions that an item of GROUP BY groups by.
fn keys_of(item: &ast::Expr) -> Vec<&ast::Expr> {
    match item {
        ast::Expr::Tuple(keys) => keys.iter().collect(),
        ast::Expr::GroupingSets(sets) | ast::Expr::Cube(sets) | ast::Expr::Rollup(sets) => {
            sets.iter().flatten().collect()
        }
        key => vec![key],
    }
}

fn not_in_select_list() -> SqlError {
    SqlError::new(
        SqlState::INVALID_COLUMN_REFERENCE,
        "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
    )
}

impl Items {
    fn extend(&mut self, scope: &Scope, include: impl Fn(&ScopeColumn) -> bool, reads: &mut Reads) {
        for column in scope.columns.iter().filter(|column| include(column)) {
            self.exprs.push(column.reference(0, reads));
            self.names.push(column.name.clone());
        }
    }

    /// The one item with an output name; 42702 when different items share it.
    pub(super) fn named(&self, name: &str, clause: &str) -> Result<Option<TypedExpr>, SqlError> {
        let mut found = self.exprs.iter().zip(&self.names).filter(|(_, n)| *n == name).map(|(expr, _)| expr);
        let Some(first) = found.next() else { return Ok(None) };
        if found.any(|other| other.expr != first.expr) {
            return Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, format!("{clause} \"{name}\" is ambiguous")));
        }
        Ok(Some(first.clone()))
    }
}

fn column_of(name: &str, expr: &TypedExpr) -> OutputColumn {
    OutputColumn { name: name.to_owned(), ty: expr.ty.clone(), data_type: expr.data_type.clone() }
}

fn named(exprs: Vec<Expr>, names: &[String]) -> Vec<Expr> {
    exprs
        .into_iter()
        .zip(names)
        .map(|(expr, name)| match expr {
            Expr::Column(column) if column.name == *name => Expr::Column(column),
            expr => expr.alias(name),
        })
        .collect()
}

fn unalias(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => alias.expr.as_ref(),
        other => other,
    }
}

fn window_spec(expr: &Expr) -> Option<(&[Expr], &[Sort])> {
    match expr {
        Expr::WindowFunction(window) => Some((&window.params.partition_by, &window.params.order_by)),
        _ => None,
    }
}

fn refuse_wildcard_options(options: &ast::WildcardAdditionalOptions) -> Result<(), SqlError> {
    let plain = options.opt_ilike.is_none()
        && options.opt_exclude.is_none()
        && options.opt_except.is_none()
        && options.opt_replace.is_none()
        && options.opt_rename.is_none()
        && options.opt_alias.is_none();
    if plain { Ok(()) } else { Err(SqlError::unsupported("an option of *")) }
}

fn refuse_select_clauses(select: &Select) -> Result<(), SqlError> {
    let refused = [
        (select.top.is_some(), "TOP"),
        (select.exclude.is_some(), "EXCLUDE"),
        (select.into.is_some(), "SELECT INTO"),
        (!select.lateral_views.is_empty(), "LATERAL VIEW"),
        (select.prewhere.is_some(), "PREWHERE"),
        (!select.connect_by.is_empty(), "CONNECT BY"),
        (!select.cluster_by.is_empty(), "CLUSTER BY"),
        (!select.distribute_by.is_empty(), "DISTRIBUTE BY"),
        (!select.sort_by.is_empty(), "SORT BY"),
        (select.qualify.is_some(), "QUALIFY"),
        (select.value_table_mode.is_some(), "AS STRUCT/VALUE"),
        (select.select_modifiers.as_ref().is_some_and(|m| m.is_any_set()), "a SELECT modifier"),
    ];
    match refused.iter().find(|(present, _)| *present) {
        Some((_, what)) => Err(SqlError::unsupported(what)),
        None => Ok(()),
    }
}
