//! FROM: relations, functions and joins become a plan and the scope of its columns.

use super::arguments::in_order;
use super::columns::{alias_plan, columns_of, columns_of_plan, project};
use super::scope::{Clause, Frame, Role, Scope, ScopeColumn, Source, fold};
use super::{Binder, BoundQuery, OutputColumn, Settle, cube, json_rows};
use crate::bind::ResolvedTable;
use crate::bind::cx::Cx;
use crate::bind::name::object_name;
use crate::bind::relation::{Relation, TableCall, aliased_columns};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, JoinType};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Operator, binary_expr, lit, when};
use engine::CollectionTable;
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use repr::{GlobalId, PgType, RelationDesc};
use sql_functions::TypedExpr;
use sql_functions::internal::{at_least_one, ordinality as ordinality_of};
use sql_syntax::names::FullName;
use sqlparser::ast::{JoinConstraint, JoinOperator, ObjectName, TableAlias, TableFactor, TableWithJoins};
use sqlparser::tokenizer::Span;
use std::sync::Arc;

impl Binder<'_> {
    /// The FROM clause; without one, a single row of no columns.
    pub fn from(&mut self, from: &[TableWithJoins], outer: Option<&Frame<'_>>) -> Result<Relation, SqlError> {
        let mut joined: Option<Relation> = None;
        for item in from {
            joined = Some(self.table_with_joins(item, joined, outer)?);
        }
        Ok(joined.unwrap_or_else(|| Relation {
            plan: LogicalPlanBuilder::empty(true).plan().clone(),
            scope: Scope::default(),
        }))
    }

    fn table_with_joins(
        &mut self,
        item: &TableWithJoins,
        left: Option<Relation>,
        outer: Option<&Frame<'_>>,
    ) -> Result<Relation, SqlError> {
        // A comma binds less tightly than JOIN, but LATERAL sees everything to its left.
        let mut here = match &left {
            Some(left) if is_function(&item.relation) && item.joins.is_empty() => {
                return self.function_over(left.clone(), &item.relation, JoinType::Inner, outer);
            }
            Some(left) => match self.computed(left, &item.relation, outer)? {
                Some(joined) if item.joins.is_empty() => return Ok(joined),
                _ => self.factor(&item.relation, Some(&left.scope), outer)?,
            },
            None => self.factor(&item.relation, None, outer)?,
        };
        for join in &item.joins {
            here = self.join(here, &join.relation, &join.join_operator, outer)?;
        }
        match left {
            Some(left) => self.cross(left, here),
            None => Ok(here),
        }
    }

    fn cross(&mut self, left: Relation, right: Relation) -> Result<Relation, SqlError> {
        check_aliases(&left.scope, &right.scope)?;
        let plan = LogicalPlanBuilder::from(left.plan).cross_join(right.plan)?.build()?;
        let mut columns = left.scope.columns;
        columns.extend(right.scope.columns);
        Ok(Relation { plan, scope: Scope { columns } })
    }

    fn join(
        &mut self,
        left: Relation,
        factor: &TableFactor,
        operator: &JoinOperator,
        outer: Option<&Frame<'_>>,
    ) -> Result<Relation, SqlError> {
        let (join_type, constraint) = match operator {
            JoinOperator::Join(c) | JoinOperator::Inner(c) => (JoinType::Inner, c),
            JoinOperator::Left(c) | JoinOperator::LeftOuter(c) => (JoinType::Left, c),
            JoinOperator::Right(c) | JoinOperator::RightOuter(c) => (JoinType::Right, c),
            JoinOperator::FullOuter(c) => (JoinType::Full, c),
            JoinOperator::CrossJoin(c) => (JoinType::Inner, c),
            _ => return Err(SqlError::unsupported("this kind of join")),
        };
        let is_true = |constraint: &JoinConstraint| match constraint {
            JoinConstraint::None => true,
            JoinConstraint::On(expr) => expr.to_string().eq_ignore_ascii_case("true"),
            _ => false,
        };
        if is_function(factor) && matches!(join_type, JoinType::Inner | JoinType::Left) && is_true(constraint) {
            return self.function_over(left, factor, join_type, outer);
        }
        if matches!(join_type, JoinType::Inner | JoinType::Left)
            && is_true(constraint)
            && let Some(joined) = self.computed(&left, factor, outer)?
        {
            return Ok(joined);
        }
        if let (JoinConstraint::On(expr), JoinType::Inner) = (constraint, join_type)
            && is_function(factor)
            && self.is_lateral_function(factor, &Frame { scope: &left.scope, outer }, outer)?
        {
            return self.function_where(left, factor, expr, outer);
        }
        let mut right = self.factor(factor, Some(&left.scope), outer)?;
        let mut left = left;
        if matches!(join_type, JoinType::Left | JoinType::Full) {
            right = self.with_presence(right)?;
        }
        if matches!(join_type, JoinType::Right | JoinType::Full) {
            left = self.with_presence(left)?;
        }
        match constraint {
            JoinConstraint::None if matches!(operator, JoinOperator::CrossJoin(_)) => self.cross(left, right),
            JoinConstraint::None => {
                Err(SqlError::new(SqlState::SYNTAX_ERROR, "a join must have a condition: ON or USING"))
            }
            JoinConstraint::On(expr) => {
                check_aliases(&left.scope, &right.scope)?;
                let mut columns = left.scope.columns.clone();
                columns.extend(right.scope.columns.clone());
                let scope = Scope { columns };
                let frame = Frame { scope: &scope, outer };
                let cx = Cx::new(&frame, Clause::JoinOn);
                let condition = self.condition(expr, &cx, "JOIN/ON")?;
                let plan = LogicalPlanBuilder::from(left.plan).join_on(right.plan, join_type, [condition])?.build()?;
                Ok(Relation { plan, scope: optional_sides(scope, left.scope.columns.len(), join_type) })
            }
            JoinConstraint::Using(names) => {
                let names: Vec<String> = names.iter().filter_map(|name| name.0.last()?.as_ident().map(fold)).collect();
                if let Some(name) =
                    names.iter().enumerate().find_map(|(at, name)| names[..at].contains(name).then_some(name))
                {
                    let message = format!("column name \"{name}\" appears more than once in USING clause");
                    return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
                }
                self.join_using(left, right, join_type, &names)
            }
            JoinConstraint::Natural => {
                let names = common_names(&left.scope, &right.scope);
                self.join_using(left, right, join_type, &names)
            }
        }
    }

    /// JOIN of a function that sees the left side, ON a condition.
    fn function_where(
        &mut self,
        left: Relation,
        factor: &TableFactor,
        condition: &sqlparser::ast::Expr,
        outer: Option<&Frame<'_>>,
    ) -> Result<Relation, SqlError> {
        let Relation { plan, scope } = self.function_over(left, factor, JoinType::Inner, outer)?;
        let frame = Frame { scope: &scope, outer };
        let condition = self.condition(condition, &Cx::new(&frame, Clause::JoinOn), "JOIN/ON")?;
        let plan = LogicalPlanBuilder::from(plan).filter(condition)?.build()?;
        Ok(Relation { plan, scope })
    }

    /// JOIN USING: one column for each name, first in the scope.
    fn join_using(
        &mut self,
        left: Relation,
        right: Relation,
        join_type: JoinType,
        names: &[String],
    ) -> Result<Relation, SqlError> {
        check_aliases(&left.scope, &right.scope)?;
        let width = left.scope.columns.len();
        let mut columns = left.scope.columns.clone();
        columns.extend(right.scope.columns.clone());
        let mut conditions = Vec::new();
        let mut merged = Vec::new();
        for name in names {
            let l = using_column(&left.scope, name, "left")?;
            let r = using_column(&right.scope, name, "right")?;
            let sides = [l, r].map(|column| column.reference(0, &mut self.reads));
            let (pair, ty, data_type) = self.coercer.unify(sides.into(), "JOIN/USING")?;
            let [lk, rk] = <[TypedExpr; 2]>::try_from(pair).map_err(|_| SqlError::internal("two went in"))?;
            let equal = self.compare(Operator::Eq, lk.clone(), rk.clone(), Span::empty())?;
            conditions.push(equal.expr);
            let expr = match join_type {
                JoinType::Right => rk.expr,
                JoinType::Full => when(lk.expr.clone().is_not_null(), lk.expr).otherwise(rk.expr)?,
                _ => lk.expr,
            };
            for column in columns.iter_mut().filter(|column| column.name == *name) {
                column.unqualified = false;
                column.star = false;
            }
            merged.push(ScopeColumn::new(None, name.clone(), TypedExpr::new(expr, ty, data_type)));
        }
        let left_plan = LogicalPlanBuilder::from(left.plan);
        let plan = match (conditions.is_empty(), join_type) {
            (true, JoinType::Inner) => left_plan.cross_join(right.plan)?.build()?,
            (true, _) => left_plan.join_on(right.plan, join_type, [lit(true)])?.build()?,
            (false, _) => left_plan.join_on(right.plan, join_type, conditions)?.build()?,
        };
        let scope = optional_sides(Scope { columns }, width, join_type);
        merged.extend(scope.columns);
        Ok(Relation { plan, scope: Scope { columns: merged } })
    }

    fn factor(
        &mut self,
        factor: &TableFactor,
        left: Option<&Scope>,
        outer: Option<&Frame<'_>>,
    ) -> Result<Relation, SqlError> {
        if let Some((args, alias, span)) = loaded(factor)? {
            return self.cube_load(&args, alias, span);
        }
        match factor {
            TableFactor::Table { args: Some(_), .. } | TableFactor::Function { .. } | TableFactor::UNNEST { .. } => {
                if let Some(left) = left {
                    let probe = Frame { scope: left, outer };
                    // To the right of an outer join with a condition it cannot see the left side.
                    if self.is_lateral_function(factor, &probe, outer)? {
                        return Err(SqlError::unsupported("a lateral function in this join"));
                    }
                }
                let empty = self.from(&[], outer)?;
                self.function_over(empty, factor, JoinType::Inner, outer)
            }
            TableFactor::Table { name, alias, version, sample, partitions, json_path, .. } => {
                if version.is_some() || sample.is_some() || !partitions.is_empty() || json_path.is_some() {
                    return Err(SqlError::unsupported("TABLESAMPLE, a version or a partition of a table"));
                }
                let names = object_name(name)?;
                let span = name.0.first().and_then(|part| part.as_ident()).map_or(Span::empty(), |ident| ident.span);
                self.relation(&names, alias.as_ref(), span)
            }
            TableFactor::Derived { lateral, subquery, alias, sample: None } => {
                let bound = if *lateral {
                    let empty = Scope::default();
                    let frame = Frame { scope: left.unwrap_or(&empty), outer };
                    // What it refers to on its left is found there when subqueries become joins.
                    self.query(subquery, Some(&frame), Settle::Text)?
                } else {
                    self.query(subquery, outer, Settle::Text)?
                };
                self.derived(bound, alias.as_ref(), "unnamed_subquery")
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                self.table_with_joins(table_with_joins, None, outer)
            }
            TableFactor::NestedJoin { .. } => Err(SqlError::unsupported("an alias of a join")),
            _ => Err(SqlError::unsupported("this kind of table expression")),
        }
    }

    /// LATERAL (SELECT …) without FROM: columns computed from those to its left, which needs no join.
    fn computed(
        &mut self,
        left: &Relation,
        factor: &TableFactor,
        outer: Option<&Frame<'_>>,
    ) -> Result<Option<Relation>, SqlError> {
        let TableFactor::Derived { lateral: true, subquery, alias: Some(alias), .. } = factor else { return Ok(None) };
        let frame = Frame { scope: &left.scope, outer };
        let bound = self.query(subquery, Some(&frame), Settle::Text)?;
        let LogicalPlan::Projection(projection) = &bound.plan else { return Ok(None) };
        if !matches!(projection.input.as_ref(), LogicalPlan::EmptyRelation(empty) if empty.produce_one_row) {
            return Ok(None);
        }
        let visible = fold(&alias.name);
        let mut exprs: Vec<Expr> = columns_of_plan(&left.plan);
        let mut inner = Vec::new();
        for (expr, column) in projection.expr.iter().zip(&bound.columns) {
            let name = self.internal_name("lateral");
            exprs.push(inward(expr.clone().unalias(), &left.plan)?.alias(&name));
            inner.push((Expr::Column(Column::from_name(name)), column.clone()));
        }
        let plan = LogicalPlanBuilder::from(left.plan.clone()).project(exprs)?.build()?;
        let mut columns = left.scope.columns.clone();
        let mut names: Vec<String> = inner.iter().map(|(_, column)| column.name.clone()).collect();
        let aliases = column_aliases(alias)?;
        aliased_columns(&visible, names.len(), &aliases)?;
        for (name, alias) in names.iter_mut().zip(aliases) {
            *name = alias;
        }
        for ((expr, column), name) in inner.into_iter().zip(names) {
            let value = TypedExpr::new(expr, column.ty, column.data_type);
            columns.push(ScopeColumn::new(Some(visible.clone()), name, value));
        }
        Ok(Some(Relation { plan, scope: Scope { columns } }))
    }

    /// A named relation: a CTE, or what the catalog knows.
    pub fn relation(&mut self, names: &[String], alias: Option<&TableAlias>, span: Span) -> Result<Relation, SqlError> {
        if let [name] = names
            && let Some(cte) = self.cte(name)
        {
            let bound = cte.clone();
            self.coercer.tables.check_copy(&bound.plan)?;
            return self.derived(bound, alias, name);
        }
        let last = names.last().cloned().unwrap_or_default();
        let of_catalog = |name: Option<FullName>, mut relation: Relation| {
            let Some(name) = name else { return relation };
            let is_aliased = alias.is_some_and(|alias| fold(&alias.name) != name.item);
            let source = Arc::new(Source { name, is_aliased });
            relation.scope.columns.iter_mut().for_each(|column| column.source = Some(Arc::clone(&source)));
            relation
        };
        match self.coercer.tables.resolve(names).map_err(|error| error.at(span))? {
            ResolvedTable::View { name, id, query: view } => {
                let columns = output_columns(&view.desc);
                let plan = self.adopted(view.plan)?;
                let relation = self.derived_of(Some(id), BoundQuery { plan, columns }, alias, &last)?;
                Ok(of_catalog(name, relation))
            }
            ResolvedTable::Cube { name, cube, desc } => {
                let visible = alias.map_or(last, |alias| fold(&alias.name));
                let qualifier = self.qualifier(&visible);
                self.note_cube(&qualifier, &cube)?;
                let id = cube.id;
                let table = datafusion::common::TableReference::bare(qualifier.clone());
                let source = cube::source(cube, Arc::clone(&desc));
                let plan = LogicalPlanBuilder::scan(table, source, None)?.build()?;
                self.reads.mention(&qualifier, id, plan.schema());
                let relation = scoped(BoundQuery { plan, columns: output_columns(&desc) }, &visible, alias)?;
                Ok(of_catalog(name, relation))
            }
            ResolvedTable::Collection { name, id, desc, columns: seen, names, primary_key } => {
                let visible = alias.map_or(last, |alias| fold(&alias.name));
                let qualifier = self.qualifier(&visible);
                let source = CollectionTable::source(id, Arc::clone(&desc));
                let table = datafusion::common::TableReference::bare(qualifier.clone());
                let projection = (seen < desc.arity()).then(|| (0..seen).collect());
                let plan = LogicalPlanBuilder::scan(table, source, projection)?.build()?;
                let mut columns = output_columns(&desc);
                columns.truncate(seen);
                let relation = if names.is_empty() {
                    self.reads.mention(&qualifier, id, plan.schema());
                    scoped(BoundQuery { plan, columns }, &visible, alias)?
                } else {
                    // A view sees the columns under the names that they had when it was created.
                    for (column, name) in columns.iter_mut().zip(&names) {
                        column.name.clone_from(name);
                    }
                    let own = columns_of_plan(&plan);
                    let plan = project(plan, own, &names)?;
                    self.derived_of(Some(id), BoundQuery { plan, columns }, alias, &visible)?
                };
                self.note_primary_key(&relation.scope, &primary_key);
                Ok(of_catalog(name, relation))
            }
        }
    }

    /// A subquery under an alias.
    pub(super) fn derived(
        &mut self,
        bound: BoundQuery,
        alias: Option<&TableAlias>,
        default: &str,
    ) -> Result<Relation, SqlError> {
        self.derived_of(None, bound, alias, default)
    }

    /// A subquery, which may be that of a view, under an alias.
    fn derived_of(
        &mut self,
        view: Option<GlobalId>,
        bound: BoundQuery,
        alias: Option<&TableAlias>,
        default: &str,
    ) -> Result<Relation, SqlError> {
        let visible = alias.map_or_else(|| default.to_owned(), |alias| fold(&alias.name));
        let qualifier = self.qualifier(&visible);
        let plan = alias_plan(bound.plan, &qualifier)?;
        self.note_measures(&plan);
        if let Some(view) = view {
            self.reads.mention(&qualifier, view, plan.schema());
        }
        scoped(BoundQuery { plan, columns: bound.columns }, &visible, alias)
    }

    /// A set-returning or scalar function in FROM, over the rows of what stands to its left, which a left join keeps if it gives none.
    fn function_over(
        &mut self,
        left: Relation,
        factor: &TableFactor,
        join_type: JoinType,
        outer: Option<&Frame<'_>>,
    ) -> Result<Relation, SqlError> {
        let (calls, alias, ordinality, name) = function_calls(factor)?;
        let optional = join_type == JoinType::Left;
        if let [call] = calls.as_slice()
            && let Some(source) = json_rows::source(&name)
        {
            return self.json_rows(left, (source, call), (alias, ordinality, optional), outer);
        }
        let (mut named, mut listed) = (Vec::new(), Vec::new());
        {
            let frame = Frame { scope: &left.scope, outer };
            let cx = Cx::new(&frame, Clause::From);
            for call in &calls {
                for (column, list) in self.table_function(call, &cx)? {
                    named.push(column);
                    listed.push(list);
                }
            }
        }
        let visible = alias.map_or_else(|| name.clone(), |alias| fold(&alias.name));
        if left.scope.columns.iter().any(|column| column.table.as_deref() == Some(visible.as_str())) {
            return Err(duplicate_alias(&visible));
        }
        // A function of one column gives its alias to the column.
        let of_one = match alias {
            Some(alias) if listed.len() == 1 => fold(&alias.name),
            _ => name.clone(),
        };
        let role = if !ordinality && listed.len() == 1 { Role::Value } else { Role::Column };
        let mut names: Vec<String> = named.into_iter().map(|column| column.unwrap_or_else(|| of_one.clone())).collect();
        if ordinality {
            names.push("ordinality".to_owned());
            listed.push(ordinality_of(&listed)?);
        }
        if let Some(alias) = alias {
            let aliases = column_aliases(alias)?;
            aliased_columns(&visible, names.len(), &aliases)?;
            for (name, alias) in names.iter_mut().zip(aliases) {
                *name = alias;
            }
        }
        if optional {
            listed[0] = at_least_one(&listed)?;
        }
        let unnested = self.unnest_over(left.plan, listed)?;
        let mut columns = left.scope.columns;
        for (name, (column, ty, data_type)) in names.into_iter().zip(unnested.1) {
            let column = ScopeColumn::new(Some(visible.clone()), name, TypedExpr::new(column, ty, data_type));
            columns.push(ScopeColumn { role, optional, ..column });
        }
        Ok(Relation { plan: unnested.0, scope: Scope { columns } })
    }

    /// Adds one row per element of the given lists; several lists advance together.
    pub fn unnest_over(
        &mut self,
        input: LogicalPlan,
        lists: Vec<TypedExpr>,
    ) -> Result<(LogicalPlan, Vec<(Expr, PgType, arrow::datatypes::DataType)>), SqlError> {
        let mut exprs: Vec<Expr> =
            input.schema().iter().map(|(q, field)| Expr::Column(Column::new(q.cloned(), field.name()))).collect();
        let mut columns = Vec::new();
        let mut out = Vec::new();
        for list in lists {
            let name = self.internal_name("set");
            let (PgType::Array(item), arrow::datatypes::DataType::List(field)) = (&list.ty, &list.data_type) else {
                return Err(SqlError::internal("a set is made of a list"));
            };
            exprs.push(list.expr.alias(&name));
            out.push((Expr::Column(Column::from_name(&name)), item.as_ref().clone(), field.data_type().clone()));
            columns.push(Column::from_name(name));
        }
        let options = datafusion::common::UnnestOptions::new().with_preserve_nulls(false);
        let plan =
            LogicalPlanBuilder::from(input).project(exprs)?.unnest_columns_with_options(columns, options)?.build()?;
        Ok((plan, out))
    }

    /// Whether a function sees the left side of its join.
    fn is_lateral_function(
        &mut self,
        factor: &TableFactor,
        probe: &Frame<'_>,
        outer: Option<&Frame<'_>>,
    ) -> Result<bool, SqlError> {
        let (calls, ..) = function_calls(factor)?;
        let empty = Scope::default();
        for call in &calls {
            let alone = self.table_function(call, &Cx::new(&Frame { scope: &empty, outer }, Clause::From));
            if alone.is_err() && self.table_function(call, &Cx::new(probe, Clause::From)).is_ok() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The names of columns that both sides of a join have.
fn common_names(left: &Scope, right: &Scope) -> Vec<String> {
    let is_visible = |name: &str| right.columns.iter().any(|column| column.unqualified && column.name == name);
    let both = left.columns.iter().filter(|column| column.unqualified && is_visible(&column.name));
    both.map(|column| column.name.clone()).collect()
}

/// Turns references to the outer query into plain columns where the plan has them.
fn inward(expr: Expr, plan: &LogicalPlan) -> Result<Expr, SqlError> {
    let turned = expr.transform_up(|expr| {
        Ok(match expr {
            Expr::OuterReferenceColumn(_, column) if plan.schema().has_column(&column) => {
                Transformed::yes(Expr::Column(column))
            }
            other => Transformed::no(other),
        })
    })?;
    Ok(turned.data)
}

type Loaded<'a> = (Vec<&'a sqlparser::ast::Expr>, Option<&'a TableAlias>, Span);
type Calls<'a> = (Vec<TableCall<'a>>, Option<&'a TableAlias>, bool, String);

static UNNEST: std::sync::LazyLock<ObjectName> =
    std::sync::LazyLock::new(|| ObjectName::from(sqlparser::ast::Ident::new("unnest")));

fn function_calls(factor: &TableFactor) -> Result<Calls<'_>, SqlError> {
    match factor {
        TableFactor::Table { name, args: Some(args), alias, with_ordinality, .. } => {
            let call = TableCall { name, args: in_order(&last_name(name), &args.args)? };
            Ok((vec![call], alias.as_ref(), *with_ordinality, last_name(name)))
        }
        TableFactor::Function { name, args, alias, with_ordinality, .. } => {
            let args = in_order(&last_name(name), args)?;
            let calls = match last_name(name).as_str() {
                "unnest" => args.into_iter().map(|arg| TableCall { name, args: vec![arg] }).collect(),
                _ => vec![TableCall { name, args }],
            };
            Ok((calls, alias.as_ref(), *with_ordinality, last_name(name)))
        }
        TableFactor::UNNEST { alias, array_exprs, with_offset: false, with_ordinality, .. } => {
            let calls = array_exprs.iter().map(|expr| TableCall { name: &UNNEST, args: vec![expr] }).collect();
            Ok((calls, alias.as_ref(), *with_ordinality, "unnest".to_owned()))
        }
        _ => Err(SqlError::unsupported("this kind of table expression")),
    }
}

/// The arguments of [`LOAD`], which is a query in itself.
fn loaded(factor: &TableFactor) -> Result<Option<Loaded<'_>>, SqlError> {
    let TableFactor::Table { name, args: Some(args), alias, .. } = factor else { return Ok(None) };
    if last_name(name) != cube::LOAD {
        return Ok(None);
    }
    let span = name.0.first().and_then(|part| part.as_ident()).map_or(Span::empty(), |ident| ident.span);
    Ok(Some((in_order(cube::LOAD, &args.args)?, alias.as_ref(), span)))
}

fn is_function(factor: &TableFactor) -> bool {
    if matches!(factor, TableFactor::Table { name, args: Some(_), .. } if last_name(name) == cube::LOAD) {
        return false;
    }
    matches!(
        factor,
        TableFactor::Table { args: Some(_), .. } | TableFactor::Function { .. } | TableFactor::UNNEST { .. }
    )
}

fn last_name(name: &ObjectName) -> String {
    name.0.last().and_then(|part| part.as_ident()).map(fold).unwrap_or_default()
}

/// The columns of a relation of the catalog.
fn output_columns(desc: &RelationDesc) -> Vec<OutputColumn> {
    let column = |column: &repr::ColumnDesc| OutputColumn {
        name: column.name.clone(),
        ty: column.ty.clone(),
        data_type: column.data_type.clone(),
    };
    desc.columns.iter().map(column).collect()
}

fn scoped(bound: BoundQuery, visible: &str, alias: Option<&TableAlias>) -> Result<Relation, SqlError> {
    let mut names: Vec<String> = bound.columns.iter().map(|column| column.name.clone()).collect();
    if let Some(alias) = alias {
        let aliases = column_aliases(alias)?;
        aliased_columns(visible, names.len(), &aliases)?;
        for (name, alias) in names.iter_mut().zip(aliases) {
            *name = alias;
        }
    }
    let columns = columns_of(&bound)
        .into_iter()
        .zip(names)
        .map(|(value, name)| ScopeColumn::new(Some(visible.to_owned()), name, value))
        .collect();
    Ok(Relation { plan: bound.plan, scope: Scope { columns } })
}

/// The names that an alias gives to columns. Error 42601 if it gives types.
fn column_aliases(alias: &TableAlias) -> Result<Vec<String>, SqlError> {
    match alias.columns.iter().find(|column| column.data_type.is_some()) {
        Some(column) => {
            let message = "a column definition list is only allowed for functions returning \"record\"";
            Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(column.name.span))
        }
        None => Ok(alias.columns.iter().map(|column| fold(&column.name)).collect()),
    }
}

fn check_aliases(left: &Scope, right: &Scope) -> Result<(), SqlError> {
    for column in &right.columns {
        if let Some(table) = &column.table
            && left.columns.iter().any(|other| other.table.as_ref() == Some(table))
        {
            return Err(duplicate_alias(table));
        }
    }
    Ok(())
}

fn duplicate_alias(table: &str) -> SqlError {
    SqlError::new(SqlState::DUPLICATE_ALIAS, format!("table name \"{table}\" specified more than once"))
}

fn using_column<'s>(scope: &'s Scope, name: &str, side: &str) -> Result<&'s ScopeColumn, SqlError> {
    let mut found = scope.columns.iter().filter(|column| column.unqualified && column.name == name);
    match (found.next(), found.next()) {
        (Some(column), None) => Ok(column),
        (None, _) => Err(SqlError::new(
            SqlState::UNDEFINED_COLUMN,
            format!("column \"{name}\" specified in USING clause does not exist in {side} table"),
        )),
        (Some(_), Some(_)) => Err(SqlError::new(
            SqlState::AMBIGUOUS_COLUMN,
            format!("common column name \"{name}\" appears more than once in {side} table"),
        )),
    }
}

fn optional_sides(mut scope: Scope, left_width: usize, join_type: JoinType) -> Scope {
    for (i, column) in scope.columns.iter_mut().enumerate() {
        let is_left = i < left_width;
        column.optional |= match join_type {
            JoinType::Left => !is_left,
            JoinType::Right => is_left,
            JoinType::Full => true,
            _ => false,
        };
    }
    scope
}

/// `left op right` over plan expressions.
pub fn operator(left: Expr, op: Operator, right: Expr) -> Expr {
    binary_expr(left, op, right)
}
