//! GROUP BY: which expressions rows are grouped by, in which sets, and the plan node that does it.
//!
//! Every item of GROUP BY stands for a list of grouping sets: a plain expression for one set of one key, ROLLUP for its
//! prefixes, CUBE for all subsets. The items' lists are multiplied; most queries end with one set. Only with several does
//! the plan have grouping sets, whose number tells `grouping()` which keys are missing from a row.

use super::Binder;
use super::query::{nth, position, refuse_constant};
use super::scope::{Clause, Role, Scope, fold};
use super::select::{Items, Parts};
use crate::bind::columns::columns_of_plan;
use crate::bind::cx::Cx;
use arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ExprSchema, ScalarValue};
use datafusion::functions_aggregate::grouping::grouping_udaf;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::expr::{AggregateFunction, Exists, GroupingSet, InSubquery, SetComparison};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Operator, Projection, binary_expr, lit, when};
use engine::error::SqlError;
use engine::rewrite::collect;
use repr::PgType;
use repr::sqlstate::SqlState;
use sql_functions::TypedExpr;
use sql_functions::order::is_exact;
use sqlparser::ast::{self, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr};
use sqlparser::tokenizer::Span;
use std::sync::Arc;

/// Postgres's limit on the elements of a CUBE.
const CUBE_MAX: usize = 12;
/// Postgres's limit on grouping sets.
const SETS_MAX: usize = 4_096;
/// Postgres's limit on the arguments of `grouping()`, and ours on keys, which are bits of the set's number.
const KEYS_MAX: usize = 31;
/// `54011 too_many_columns`.
const TOO_MANY_COLUMNS: SqlState = SqlState("54011");

/// The sets of keys of a GROUP BY, and of the keys whose equal values can be stored differently, what rows are grouped by instead.
pub(super) struct Grouping {
    sets: Vec<Vec<Expr>>,
    inexact: Vec<(TypedExpr, Expr)>,
}

impl Binder<'_> {
    /// GROUP BY, if there is one.
    pub(super) fn group_by(
        &mut self,
        group_by: &GroupByExpr,
        items: &Items,
        cx: &Cx<'_>,
    ) -> Result<Option<Grouping>, SqlError> {
        let exprs = match group_by {
            GroupByExpr::Expressions(exprs, modifiers) if modifiers.is_empty() => exprs,
            GroupByExpr::Expressions(..) => return Err(SqlError::unsupported("a modifier of GROUP BY")),
            GroupByExpr::All(_) => return Err(SqlError::unsupported("GROUP BY ALL")),
        };
        if exprs.is_empty() {
            return Ok(None);
        }
        let cx = cx.within(Clause::GroupBy);
        let mut sets: Vec<Vec<Expr>> = vec![Vec::new()];
        let mut inexact = Vec::new();
        for expr in exprs {
            let factor = self.grouping_sets(expr, items, &cx, &mut inexact)?;
            if sets.len().saturating_mul(factor.len()) > SETS_MAX {
                return Err(SqlError::new(
                    SqlState::STATEMENT_TOO_COMPLEX,
                    format!("too many grouping sets present (maximum {SETS_MAX})"),
                ));
            }
            sets = sets.iter().flat_map(|set| factor.iter().map(|more| union(set, more))).collect();
        }
        Ok(Some(Grouping { sets, inexact }))
    }

    /// The sets that one item of GROUP BY stands for.
    fn grouping_sets(
        &mut self,
        expr: &ast::Expr,
        items: &Items,
        cx: &Cx<'_>,
        inexact: &mut Vec<(TypedExpr, Expr)>,
    ) -> Result<Vec<Vec<Expr>>, SqlError> {
        match expr {
            ast::Expr::Tuple(keys) => Ok(vec![self.group_keys(keys, items, cx, inexact)?]),
            ast::Expr::Rollup(parts) => Ok(rollup(&self.grouping_parts(parts, items, cx, inexact)?)),
            ast::Expr::Cube(parts) => cube(&self.grouping_parts(parts, items, cx, inexact)?),
            ast::Expr::GroupingSets(sets) => {
                let mut all = Vec::new();
                for set in sets {
                    // ROLLUP and CUBE inside GROUPING SETS are read as calls.
                    match nested(set) {
                        Some((name, parts)) => {
                            let parts = self.grouping_parts(&parts, items, cx, inexact)?;
                            all.extend(if name == "rollup" { rollup(&parts) } else { cube(&parts)? });
                        }
                        None => all.push(self.group_keys(set, items, cx, inexact)?),
                    }
                }
                Ok(all)
            }
            expr => Ok(vec![vec![self.group_key(expr, items, cx, inexact)?]]),
        }
    }

    fn grouping_parts(
        &mut self,
        parts: &[Vec<ast::Expr>],
        items: &Items,
        cx: &Cx<'_>,
        inexact: &mut Vec<(TypedExpr, Expr)>,
    ) -> Result<Vec<Vec<Expr>>, SqlError> {
        parts.iter().map(|part| self.group_keys(part, items, cx, inexact)).collect()
    }

    fn group_keys(
        &mut self,
        keys: &[ast::Expr],
        items: &Items,
        cx: &Cx<'_>,
        inexact: &mut Vec<(TypedExpr, Expr)>,
    ) -> Result<Vec<Expr>, SqlError> {
        let keys = keys.iter().map(|key| self.group_key(key, items, cx, inexact)).collect::<Result<Vec<_>, _>>()?;
        Ok(union(&[], &keys))
    }

    /// A key: a position, an input column, an output name, or an expression.
    fn group_key(
        &mut self,
        expr: &ast::Expr,
        items: &Items,
        cx: &Cx<'_>,
        inexact: &mut Vec<(TypedExpr, Expr)>,
    ) -> Result<Expr, SqlError> {
        let typed = match (position(expr), expr) {
            (Some(n), _) => nth(&items.exprs, n, "GROUP BY")?,
            (None, ast::Expr::Identifier(ident)) => {
                let wanted = fold(ident);
                match cx.frame.scope.find(None, &wanted, ident)? {
                    Some(column) => column.reference(0, &mut self.reads),
                    None => match items.named(&wanted, "GROUP BY")? {
                        Some(item) => item,
                        None => self.expr(expr, cx)?,
                    },
                }
            }
            _ => {
                refuse_constant(expr, "GROUP BY")?;
                self.expr(expr, cx)?
            }
        };
        let typed = self.coercer.settle(typed)?;
        if contains_aggregate(&typed.expr) {
            return Err(SqlError::new(SqlState::GROUPING_ERROR, "aggregate functions are not allowed in GROUP BY"));
        }
        self.require_distinct(&typed.ty)?;
        if !is_exact(&typed.ty) {
            let key = self.comparison_key(typed.clone())?.expr;
            inexact.push((typed.clone(), key));
        }
        Ok(typed.expr)
    }

    /// `grouping(…)`, which the Aggregate node's number of the set will replace.
    pub(super) fn grouping_call(
        &mut self,
        args: &[&ast::Expr],
        cx: &Cx<'_>,
        span: Span,
    ) -> Result<TypedExpr, SqlError> {
        if args.len() > KEYS_MAX {
            return Err(
                SqlError::new(SqlState::TOO_MANY_ARGUMENTS, "GROUPING must have fewer than 32 arguments").at(span)
            );
        }
        let cx = cx.within(Clause::Aggregate);
        let args = args.iter().map(|arg| Ok(self.expr(arg, &cx)?.expr)).collect::<Result<Vec<_>, SqlError>>()?;
        let call = AggregateFunction::new_udf(grouping_udaf(), args, false, None, vec![], None);
        let (expr, ty) = (Expr::AggregateFunction(call), PgType::Int4);
        Ok(TypedExpr { expr, ty, data_type: DataType::Int32, nullable: false })
    }

    /// The primary key of a table in FROM, as far as a view sees it.
    pub(super) fn note_primary_key(&mut self, table: &Scope, key: &[usize]) {
        let columns: Option<Vec<Expr>> =
            key.iter().map(|at| table.columns.get(*at).map(|column| column.expr.clone())).collect();
        if let Some(columns) = columns
            && let Some(Expr::Column(Column { relation: Some(qualifier), .. })) = columns.first()
        {
            self.primary_keys.insert(qualifier.table().to_owned(), columns);
        }
    }

    /// The columns beside aggregates that no set has, and that depend on keys which all sets have: their table's primary key.
    fn dependent_columns(&self, sets: &[Vec<Expr>], parts: &Parts, scope: &Scope) -> Result<Vec<Expr>, SqlError> {
        let in_all = |key: &Expr| sets.iter().all(|set| set.contains(key));
        let in_any = |key: &Expr| sets.iter().any(|set| set.contains(key));
        let mut found = Vec::new();
        if !self.primary_keys.values().any(|columns| columns.iter().all(in_all)) {
            return Ok(found);
        }
        let mut note = |column: &Column| {
            let expr = Expr::Column(column.clone());
            let mut keys = self.keys_beneath(&expr, scope).into_iter();
            if keys.any(|columns| columns.iter().all(in_all)) && !in_any(&expr) && !found.contains(&expr) {
                found.push(expr);
            }
        };
        for expr in parts.exprs() {
            expr.apply(|expr| {
                match expr {
                    Expr::AggregateFunction(_) => return Ok(TreeNodeRecursion::Jump),
                    key if in_any(key) => return Ok(TreeNodeRecursion::Jump),
                    Expr::Column(column) => note(column),
                    expr => outer_columns(expr).into_iter().for_each(&mut note),
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(found)
    }

    /// The primary keys on which a column depends: its table's, or those of the tables that it says are there.
    fn keys_beneath(&self, column: &Expr, scope: &Scope) -> Vec<&Vec<Expr>> {
        let key_of = |column: &Expr| match column {
            Expr::Column(Column { relation: Some(qualifier), .. }) => self.primary_keys.get(qualifier.table()),
            _ => None,
        };
        let marks = scope.columns.iter().filter(|mark| mark.role == Role::Presence && mark.expr == *column);
        let marked = marks.flat_map(|mark| scope.columns.iter().filter(|other| other.table == mark.table));
        key_of(column).into_iter().chain(marked.filter_map(|column| key_of(&column.expr))).collect()
    }

    /// The Aggregate node, if the query groups.
    pub(super) fn aggregate(
        &mut self,
        plan: LogicalPlan,
        grouping: Option<Grouping>,
        parts: &mut Parts,
        scope: &Scope,
    ) -> Result<LogicalPlan, SqlError> {
        let mut calls: Vec<Expr> = Vec::new();
        for expr in parts.exprs() {
            collect(expr, &mut calls, |expr| matches!(expr, Expr::AggregateFunction(_)))?;
        }
        if calls.is_empty() && parts.having.is_none() && grouping.is_none() {
            return Ok(plan);
        }
        let Grouping { sets, inexact } =
            grouping.unwrap_or_else(|| Grouping { sets: vec![Vec::new()], inexact: Vec::new() });
        // Rows that agree in the primary key are one row, however its columns compare.
        let dependent = self.dependent_columns(&sets, parts, scope)?;
        let stated = union(&[], &sets.concat());
        let sets: Vec<Vec<Expr>> = sets.iter().map(|set| union(set, &dependent)).collect();
        let keys = union(&[], &sets.concat());
        if sets.len() > 1 && keys.len() > KEYS_MAX {
            return Err(SqlError::unsupported(format!("more than {KEYS_MAX} keys in grouping sets")));
        }
        let (plan, columns) = self.key_columns(plan, &keys, &inexact, sets.len() > 1)?;
        let named = |set: &Vec<Expr>| set.iter().map(|key| column_for(key, &keys, &columns)).collect::<Vec<Expr>>();
        let group_exprs: Vec<Expr> = match sets.as_slice() {
            [_] => columns.clone(),
            sets => vec![Expr::GroupingSet(GroupingSet::GroupingSets(sets.iter().map(named).collect()))],
        };
        let mut map: Vec<(Expr, Expr)> =
            keys.iter().zip(&columns).map(|(key, column)| (key.clone(), output_of(column))).collect();
        let (questions, mut calls): (Vec<Expr>, Vec<Expr>) = calls.into_iter().partition(is_grouping_call);
        if group_exprs.is_empty() && calls.is_empty() {
            calls.push(crate::bind::aggregate::count_star()?);
        }
        let mut aggregate_exprs = Vec::new();
        for (typed, _) in &inexact {
            let Some((_, column)) = map.iter_mut().find(|(key, _)| *key == typed.expr) else { continue };
            let (choice, chosen) = self.representative(typed)?;
            aggregate_exprs.push(choice);
            // Where the key is missing from the set, so is its value.
            let none = Expr::Literal(ScalarValue::try_from(&typed.data_type)?, None);
            *column = when(column.clone().is_null(), none).otherwise(chosen)?;
        }
        for call in calls {
            let name = self.internal_name("aggregate");
            map.push((call.clone(), Expr::Column(Column::from_name(&name))));
            aggregate_exprs.push(call.alias(name));
        }
        let aggregate = Aggregate::try_new(Arc::new(plan), group_exprs, aggregate_exprs)?;
        for question in questions {
            let answer = grouping_answer(&question, (&stated, &keys), (sets.len() > 1).then_some(&aggregate))?;
            map.push((question, answer));
        }
        let allowed: Vec<Expr> = map.iter().map(|(_, column)| column.clone()).collect();
        parts.rewrite(&map)?;
        let inexact: Vec<Expr> = inexact.into_iter().map(|(typed, _)| typed.expr).collect();
        for expr in parts.exprs() {
            check_grouped(expr, (&allowed, &inexact), scope).map_err(|error| self.with_measure(error, expr))?;
        }
        Ok(LogicalPlan::Aggregate(aggregate))
    }

    /// The aggregate that gives the value which stands for all that are equal to it, always the same of them, whatever order they
    /// come in; and that value, above the Aggregate node.
    pub(super) fn representative(&mut self, typed: &TypedExpr) -> Result<(Expr, Expr), SqlError> {
        let func = match typed.ty {
            // With all its blanks.
            PgType::Bpchar(_) => max_udaf(),
            _ => min_udaf(),
        };
        // The aggregate loses what is noted of the items of a list.
        let kept = match &typed.data_type {
            DataType::List(item) => {
                DataType::List(Arc::new(Field::new(item.name(), item.data_type().clone(), item.is_nullable())))
            }
            other => other.clone(),
        };
        let value = self.coercer.store_as(typed.clone(), &typed.ty, &kept)?.expr;
        let name = self.internal_name("chosen");
        let call = AggregateFunction::new_udf(func, vec![value], false, None, vec![], None);
        let chosen = TypedExpr::new(Expr::Column(Column::from_name(&name)), typed.ty.clone(), kept);
        let chosen = self.coercer.store_as(chosen, &typed.ty, &typed.data_type)?.expr;
        Ok((Expr::AggregateFunction(call).alias(name), chosen))
    }

    /// What the Aggregate node groups by: the keys as columns, or under names of their own. Grouping sets are made of columns
    /// only, so that what is computed comes below them.
    fn key_columns(
        &mut self,
        plan: LogicalPlan,
        keys: &[Expr],
        inexact: &[(TypedExpr, Expr)],
        in_sets: bool,
    ) -> Result<(LogicalPlan, Vec<Expr>), SqlError> {
        let mut below = Vec::new();
        let mut columns = Vec::with_capacity(keys.len());
        for key in keys {
            let key = inexact.iter().find(|(typed, _)| typed.expr == *key).map_or(key, |(_, instead)| instead);
            if matches!(key, Expr::Column(_)) {
                columns.push(key.clone());
                continue;
            }
            let name = self.internal_name("group");
            if in_sets {
                columns.push(Expr::Column(Column::from_name(&name)));
                below.push(key.clone().alias(name));
            } else {
                columns.push(key.clone().alias(name));
            }
        }
        if below.is_empty() {
            return Ok((plan, columns));
        }
        let exprs = columns_of_plan(&plan).into_iter().chain(below).collect();
        Ok((LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?), columns))
    }
}

/// Both lists, each expression once.
fn union(left: &[Expr], right: &[Expr]) -> Vec<Expr> {
    let mut all: Vec<Expr> = Vec::with_capacity(left.len() + right.len());
    for expr in left.iter().chain(right) {
        if !all.contains(expr) {
            all.push(expr.clone());
        }
    }
    all
}

/// The prefixes, longest first.
fn rollup(parts: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    (0..=parts.len()).rev().map(|length| union(&[], &parts[..length].concat())).collect()
}

/// The subsets.
fn cube(parts: &[Vec<Expr>]) -> Result<Vec<Vec<Expr>>, SqlError> {
    if parts.len() > CUBE_MAX {
        return Err(SqlError::new(TOO_MANY_COLUMNS, format!("CUBE is limited to {CUBE_MAX} elements")));
    }
    let chosen = |subset: usize| {
        let parts = parts.iter().enumerate().filter(|(at, _)| subset & (1 << at) != 0);
        union(&[], &parts.flat_map(|(_, part)| part.clone()).collect::<Vec<_>>())
    };
    Ok((0..1 << parts.len()).rev().map(chosen).collect())
}

/// ROLLUP or CUBE as the only item of a grouping set, and its parts.
fn nested(set: &[ast::Expr]) -> Option<(String, Vec<Vec<ast::Expr>>)> {
    let [ast::Expr::Function(function)] = set else { return None };
    let [part] = function.name.0.as_slice() else { return None };
    let name = part.as_ident().filter(|ident| ident.quote_style.is_none()).map(fold)?;
    let FunctionArguments::List(args) = &function.args else { return None };
    if !matches!(name.as_str(), "rollup" | "cube") {
        return None;
    }
    let parts = args.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(ast::Expr::Tuple(keys))) => Some(keys.clone()),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(ast::Expr::Nested(key))) => Some(vec![key.as_ref().clone()]),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(key)) => Some(vec![key.clone()]),
        _ => None,
    });
    Some((name, parts.collect::<Option<_>>()?))
}

fn column_for(key: &Expr, keys: &[Expr], columns: &[Expr]) -> Expr {
    let at = keys.iter().position(|other| other == key).expect("the keys are those of all sets");
    columns[at].clone()
}

/// A key as the nodes above the Aggregate name it.
fn output_of(column: &Expr) -> Expr {
    match column {
        Expr::Alias(alias) => Expr::Column(Column::from_name(&alias.name)),
        other => other.clone(),
    }
}

fn is_grouping_call(expr: &Expr) -> bool {
    matches!(expr, Expr::AggregateFunction(call) if call.func.name() == grouping_udaf().name())
}

/// What `grouping(…)` is for a row of the Aggregate node: a bit for each argument, the last one lowest, set if the row's
/// grouping set is without it. Without several sets it is 0.
fn grouping_answer(
    call: &Expr,
    (stated, keys): (&[Expr], &[Expr]),
    sets: Option<&Aggregate>,
) -> Result<Expr, SqlError> {
    let Expr::AggregateFunction(call) = call else { return Err(SqlError::internal("a call of grouping()")) };
    let mut answer = lit(0_i32);
    for (place, arg) in call.params.args.iter().rev().enumerate() {
        let Some(at) = keys.iter().position(|key| key == arg).filter(|_| stated.contains(arg)) else {
            return Err(SqlError::new(
                SqlState::GROUPING_ERROR,
                "arguments to GROUPING must be grouping expressions of the associated query level",
            ));
        };
        let Some(aggregate) = sets else { continue };
        let number = Column::from_name(Aggregate::INTERNAL_GROUPING_ID);
        let data_type = aggregate.schema.field_from_column(&number)?.data_type().clone();
        // In the set's number, the last key is the lowest bit.
        let bit = |set: u64| ScalarValue::UInt64(Some(set)).cast_to(&data_type).map(|bit| Expr::Literal(bit, None));
        let missing = binary_expr(Expr::Column(number), Operator::BitwiseAnd, bit(1 << (keys.len() - 1 - at))?);
        let digit = when(missing.eq(bit(0)?), lit(0_i32)).otherwise(lit(1_i32 << place))?;
        answer = if answer == lit(0_i32) { digit } else { binary_expr(answer, Operator::Plus, digit) };
    }
    Ok(answer)
}

/// Whether an aggregate call is inside, windows aside.
pub(super) fn contains_aggregate(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(matches!(expr, Expr::AggregateFunction(_)))).unwrap_or(false)
}

/// 42803 for a column that is neither grouped nor aggregated, also where a subquery refers to it.
fn check_grouped(expr: &Expr, (allowed, inexact): (&[Expr], &[Expr]), scope: &Scope) -> Result<(), SqlError> {
    let mut refused = None;
    expr.apply(|expr| {
        if allowed.contains(expr) {
            return Ok(TreeNodeRecursion::Jump);
        }
        if matches!(expr, Expr::Column(_)) {
            let name = scope.describe(expr);
            refused = Some(SqlError::new(
                SqlState::GROUPING_ERROR,
                format!("column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function"),
            ));
            return Ok(TreeNodeRecursion::Stop);
        }
        let columns = outer_columns(expr).into_iter().map(|column| Expr::Column(column.clone()));
        let is_ungrouped = |column: &Expr| !allowed.contains(column) && scope.columns.iter().any(|c| c.expr == *column);
        if let Some(column) = columns.into_iter().find(is_ungrouped) {
            let name = scope.describe(&column);
            refused = Some(match inexact.contains(&column) {
                true => SqlError::unsupported(format!("the grouped column \"{name}\" in a subquery, by its type,")),
                false => SqlError::new(
                    SqlState::GROUPING_ERROR,
                    format!("subquery uses ungrouped column \"{name}\" from outer query"),
                ),
            });
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    refused.map_or(Ok(()), Err)
}

/// The columns of the queries around a subquery, if the expression is one, that it refers to.
pub(super) fn outer_columns(expr: &Expr) -> Vec<&Column> {
    let (Expr::ScalarSubquery(subquery)
    | Expr::Exists(Exists { subquery, .. })
    | Expr::InSubquery(InSubquery { subquery, .. })
    | Expr::SetComparison(SetComparison { subquery, .. })) = expr
    else {
        return Vec::new();
    };
    let columns = subquery.outer_ref_columns.iter().filter_map(|reference| match reference {
        Expr::OuterReferenceColumn(_, column) => Some(column),
        _ => None,
    });
    columns.collect()
}
