//! INSERT, UPDATE, DELETE, TRUNCATE.
//!
//! INSERT of VALUES becomes expressions, one per column and row. Everything else becomes a query: INSERT … SELECT one whose
//! columns are assigned to the table's, UPDATE and DELETE one that reads the rows in question and computes what replaces
//! them. The queries are put together as syntax trees and bound like any other.

mod build;
mod defaults;
mod insert;
mod on_conflict;
mod others;
mod rights;

use super::privileges::{check_item, check_owner, check_schema, system_item};
use super::resolver::{Dependencies, Resolver};
use super::sequence::{identity, of_identity, owned_sequences};
use super::{
    AlterSequencePlan, ItemKind, ItemRef, Plan, PlanContext, ReadThenWriteKind, ReadThenWritePlan, Returning,
    TruncatePlan,
};
use crate::bind::{self, Params, coerce};
use crate::names::{resolve_item, unknown_relation};
use arrow::datatypes::Schema;
use build::{Reading, Target, column_ref, name_of};
use datafusion::common::{DFSchema, TableReference};
use engine::error::SqlError;
use engine::names::{ObjectId, ObjectKind, Privilege};
use others::Other;
use repr::sqlstate::SqlState;
use repr::{GlobalId, PgType, RelationDesc};
use sql_syntax::ast::visit::walk;
use sql_syntax::ast::{Identity, Truncate};
use sql_syntax::names::{FullName, Name};
use sql_syntax::parser::fold;
use sqlparser::ast as sp;
use sqlparser::tokenizer::Span;
use std::ops::ControlFlow;
use std::sync::Arc;

pub(super) use crate::plan::dml::defaults::default_exprs;
pub(super) use insert::{plan_insert, target_columns};
pub(super) use rights::check_writes;

/// Finds the table that a statement changes; whether it may is for the caller to check. Errors: 42P01, 42809, 55000, and
/// 42501 for what nobody changes or this role may not name.
pub(super) fn resolve_target(
    ctx: &PlanContext<'_>,
    name: &Name,
    span: Span,
    verb: &str,
) -> Result<Arc<ItemRef>, SqlError> {
    let item = resolve_item(ctx.catalog, ctx.scope(), name)?.ok_or_else(|| unknown_relation(name).at(span))?;
    check_schema(ctx.catalog, ctx.role, &item)?;
    match item.object_kind() {
        ObjectKind::Table => {}
        ObjectKind::View => {
            return Err(SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("cannot {verb} view \"{}\"", item.name.item),
            )
            .with_detail("Views are not automatically updatable."));
        }
        kind @ (ObjectKind::MaterializedView
        | ObjectKind::Sequence
        | ObjectKind::Source
        | ObjectKind::Secret
        | ObjectKind::SemanticModel
        | ObjectKind::Cube) => {
            let name = &item.name.item;
            let message = match verb {
                "copy to" => format!("cannot copy to {kind} \"{name}\""),
                "truncate" => format!("\"{name}\" is not a table"),
                _ => format!("cannot change {kind} \"{name}\""),
            };
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        _ => {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("cannot open relation \"{}\"", item.name.item),
            )
            .with_detail("This operation is not supported for indexes."));
        }
    }
    if matches!(item.id, GlobalId::System(_)) {
        return Err(system_item(&item));
    }
    Ok(item)
}

pub(super) fn plan_update(ctx: &PlanContext<'_>, update: &sp::Update, params: &mut Params) -> Result<Plan, SqlError> {
    let target = Target::of(&update.table.relation)?;
    let table = resolve_target(ctx, &target.name, target.span, "update")?;
    let alias = target.alias_or(&table);
    let from = match &update.from {
        Some(sp::UpdateTableFromKind::AfterSet(from)) => from.clone(),
        _ => Vec::new(),
    };
    let assigned = assignments(ctx, &table, &update.assignments)?;
    for (_, value) in &assigned {
        value.iter().try_for_each(refuse_windows)?;
    }
    let mut projection: Vec<sp::Expr> =
        table.desc.columns.iter().map(|column| column_ref(&alias, &column.name)).collect();
    let mut targets: Vec<(String, PgType)> =
        table.desc.columns.iter().map(|column| (column.name.clone(), column.ty.clone())).collect();
    targets.extend(targets.clone());
    for (index, column) in table.desc.columns.iter().enumerate() {
        projection.push(match assigned.iter().find(|(position, _)| *position == index) {
            Some((_, None)) => default_of(ctx, &table, index)?.unwrap_or_else(build::null),
            Some((_, Some(expr))) => expr.clone(),
            None => column_ref(&alias, &column.name),
        });
    }
    let dependencies = Dependencies::new();
    dependencies.add(table.id);
    let resolver = dependencies.resolver(ctx).exempting(table.id);
    let returned = others::returned(update.returning.as_deref(), &from, &resolver, params)?;
    projection.extend(others::references(&returned));
    targets.extend(returned.iter().map(|column| (column.name.clone(), column.ty.clone())));
    let query = build::select(&target, &alias, projection, from.clone(), update.selection.clone());
    let planned = bind::plan_source(&query, &targets, &resolver, params)?;
    let selection = ctx.engine.optimize(planned.plan, ctx.session)?;
    let items = update.returning.as_deref();
    let returning = plan_returning(ctx, (&table, &alias), items, &returned, &resolver, params)?;
    check_writes(ctx, &table, Privilege::Update, assigned.iter().map(|(position, _)| *position))?;
    let values = assigned.into_iter().filter_map(|(_, value)| value).chain(others::references(&returned)).collect();
    let reading =
        Reading { target: &target, alias: &alias, values, others: &from, selection: update.selection.as_ref() };
    rights::check_reading(ctx, &table, reading, params)?;
    Ok(Plan::ReadThenWrite(ReadThenWritePlan {
        table: table.id,
        name: table.name.clone(),
        desc: Arc::clone(&table.desc),
        kind: ReadThenWriteKind::Update,
        selection,
        returning,
        params: params.finish()?,
        depends_on: dependencies.all(),
    }))
}

pub(super) fn plan_delete(ctx: &PlanContext<'_>, delete: &sp::Delete, params: &mut Params) -> Result<Plan, SqlError> {
    let sp::FromTable::WithFromKeyword(from) = &delete.from else {
        return Err(SqlError::internal("DELETE without FROM was parsed"));
    };
    let [relation] = from.as_slice() else { return Err(SqlError::internal("DELETE from several tables was parsed")) };
    let target = Target::of(&relation.relation)?;
    let table = resolve_target(ctx, &target.name, target.span, "delete from")?;
    let alias = target.alias_or(&table);
    let using = delete.using.clone().unwrap_or_default();
    let dependencies = Dependencies::new();
    dependencies.add(table.id);
    let resolver = dependencies.resolver(ctx).exempting(table.id);
    let returned = others::returned(delete.returning.as_deref(), &using, &resolver, params)?;
    let old = table.desc.columns.iter().map(|column| column_ref(&alias, &column.name));
    let projection = old.chain(others::references(&returned)).collect();
    let query = build::select(&target, &alias, projection, using.clone(), delete.selection.clone());
    let planned = bind::plan_query(&query, &resolver, params)?;
    let selection = ctx.engine.optimize(planned.plan, ctx.session)?;
    let items = delete.returning.as_deref();
    let returning = plan_returning(ctx, (&table, &alias), items, &returned, &resolver, params)?;
    check_item(ctx.catalog, ctx.role, &table, Privilege::Delete)?;
    let (values, others) = (others::references(&returned).collect(), using.as_slice());
    let reading = Reading { target: &target, alias: &alias, values, others, selection: delete.selection.as_ref() };
    rights::check_reading(ctx, &table, reading, params)?;
    Ok(Plan::ReadThenWrite(ReadThenWritePlan {
        table: table.id,
        name: table.name.clone(),
        desc: Arc::clone(&table.desc),
        kind: ReadThenWriteKind::Delete,
        selection,
        returning,
        params: params.finish()?,
        depends_on: dependencies.all(),
    }))
}

pub(super) fn plan_truncate(ctx: &PlanContext<'_>, truncate: &Truncate) -> Result<Plan, SqlError> {
    let (names, mut restarts) = (&truncate.names, Vec::new());
    let mut plans: Vec<ReadThenWritePlan> = Vec::with_capacity(names.len());
    let mut waiting = Vec::new();
    for name in names {
        waiting.push((resolve_target(ctx, name, Span::empty(), "truncate")?, Target::named(name.clone())));
    }
    waiting.reverse();
    let mut children = Vec::new();
    while let Some((table, target)) = waiting.pop() {
        if plans.iter().any(|other| other.table == table.id) {
            continue;
        }
        plans.push(truncate_one(ctx, &table, target)?);
        restarts.extend(if truncate.restart { plan_restarts(ctx, table.id)? } else { Vec::new() });
        for child in ctx.catalog.children(table.id).into_iter().filter_map(|child| ctx.catalog.item(child)) {
            if truncate.cascade {
                let FullName { database, schema, item } = child.name.clone();
                let parts = database.into_iter().chain([schema, item]).collect();
                waiting.push((Arc::clone(&child), Target::named(Name { parts })));
            }
            children.push((Arc::clone(&table), child));
        }
    }
    let stays = |(_, child): &&(Arc<ItemRef>, Arc<ItemRef>)| plans.iter().all(|plan| plan.table != child.id);
    if let Some((table, child)) = children.iter().find(stays) {
        let message = "cannot truncate a table referenced in a foreign key constraint";
        let (table, child) = (&table.name.item, &child.name.item);
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
            .with_detail(format!("Table \"{child}\" references \"{table}\"."))
            .with_hint(format!("Truncate table \"{child}\" at the same time, or use TRUNCATE ... CASCADE.")));
    }
    Ok(match <[ReadThenWritePlan; 1]>::try_from(plans) {
        Ok([plan]) if restarts.is_empty() => Plan::ReadThenWrite(plan),
        Ok([plan]) => Plan::TruncateSeveral(TruncatePlan { tables: vec![plan], restarts }),
        Err(tables) => Plan::TruncateSeveral(TruncatePlan { tables, restarts }),
    })
}

/// RESTART IDENTITY. Errors: 42501 for the sequence of somebody else.
fn plan_restarts(ctx: &PlanContext<'_>, table: GlobalId) -> Result<Vec<AlterSequencePlan>, SqlError> {
    let restart = |(item, _): (Arc<ItemRef>, _)| {
        check_owner(ctx, ObjectId::Item(item.id), ObjectKind::Sequence, &item.name.item)?;
        let ItemKind::Sequence(sequence) = &item.kind else { return Err(SqlError::internal("it is a sequence")) };
        let restart = Some(sequence.params.start);
        Ok(AlterSequencePlan { id: item.id, sequence: sequence.clone(), restart })
    };
    owned_sequences(ctx.catalog, table).into_iter().map(restart).collect()
}

fn truncate_one(ctx: &PlanContext<'_>, table: &Arc<ItemRef>, target: Target) -> Result<ReadThenWritePlan, SqlError> {
    check_item(ctx.catalog, ctx.role, table, Privilege::Truncate)?;
    let alias = target.alias_or(table);
    let projection = table.desc.columns.iter().map(|column| column_ref(&alias, &column.name)).collect();
    let query = build::select(&target, &alias, projection, Vec::new(), None);
    let dependencies = Dependencies::new();
    let resolver = dependencies.resolver(ctx).exempting(table.id);
    let planned = bind::plan_query(&query, &resolver, &mut Params::none())?;
    Ok(ReadThenWritePlan {
        table: table.id,
        name: table.name.clone(),
        desc: Arc::clone(&table.desc),
        kind: ReadThenWriteKind::Truncate,
        selection: ctx.engine.optimize(planned.plan, ctx.session)?,
        returning: None,
        params: Vec::new(),
        depends_on: dependencies.all(),
    })
}

/// 42P20 for a window function outside the subqueries of an assigned value.
fn refuse_windows(value: &sp::Expr) -> Result<(), SqlError> {
    let mut finder = WindowFinder { depth: 0, found: None };
    // What broke the walk is in `found`.
    let _walked = walk(value, &mut finder);
    match finder.found {
        None => Ok(()),
        Some(span) => {
            Err(SqlError::new(SqlState::WINDOWING_ERROR, "window functions are not allowed in UPDATE").at(span))
        }
    }
}

/// Stops at a window function that is at no query's depth.
struct WindowFinder {
    depth: usize,
    found: Option<Span>,
}

impl sp::Visitor for WindowFinder {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &sp::Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &sp::Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &sp::Expr) -> ControlFlow<()> {
        match expr {
            sp::Expr::Function(function) if self.depth == 0 && function.over.is_some() => {
                self.found = Some(sp::Spanned::span(function));
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Which columns SET sets, and to what; `None` is DEFAULT. Errors: 42703, 42601, 428C9.
fn assignments(
    ctx: &PlanContext<'_>,
    table: &ItemRef,
    assignments: &[sp::Assignment],
) -> Result<Vec<(usize, Option<sp::Expr>)>, SqlError> {
    let mut assigned: Vec<(usize, Option<sp::Expr>)> = Vec::new();
    let mut assign = |target: &sp::ObjectName, value: &sp::Expr| {
        let position = assigned_column(table, target)?;
        if assigned.iter().any(|(other, _)| *other == position) {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("multiple assignments to same column \"{}\"", table.desc.columns[position].name),
            ));
        }
        assigned.push((position, if build::is_default(value) { None } else { Some(value.clone()) }));
        Ok(())
    };
    for assignment in assignments {
        match (&assignment.target, &assignment.value) {
            (sp::AssignmentTarget::ColumnName(name), value) => assign(name, value)?,
            (sp::AssignmentTarget::Tuple(names), value) => {
                let values = match (build::row_items(value), build::subqueries(value)) {
                    (Some(items), _) => items.into_iter().cloned().collect(),
                    (None, Some(columns)) => columns,
                    (None, None) => {
                        return Err(SqlError::unsupported("UPDATE … SET (…) = an expression or a query of this form"));
                    }
                };
                if values.len() != names.len() {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        "number of columns does not match number of values",
                    ));
                }
                for (name, value) in names.iter().zip(&values) {
                    assign(name, value)?;
                }
            }
        }
    }
    for (column, _) in assigned.iter().filter(|(_, value)| value.is_some()) {
        if identity(ctx.catalog, table.id, *column) == Some(Identity::Always) {
            let name = &table.desc.columns[*column].name;
            let message = format!("column \"{name}\" can only be updated to DEFAULT");
            return Err(SqlError::new(SqlState::GENERATED_ALWAYS, message)
                .with_detail(format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS.")));
        }
    }
    Ok(assigned)
}

fn assigned_column(table: &ItemRef, target: &sp::ObjectName) -> Result<usize, SqlError> {
    let name = name_of(target)?;
    let span = build::span_of(target);
    if name.parts.len() > 1 {
        // `SET t.a = 1` means field a of column t to Postgres.
        return Err(unknown_column(table, &name.parts[0]).at(span));
    }
    table.desc.position(name.item()).ok_or_else(|| unknown_column(table, name.item()).at(span))
}

/// `column "x" of relation "t" does not exist`.
pub fn unknown_column(table: &ItemRef, column: &str) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_COLUMN,
        format!("column \"{column}\" of relation \"{}\" does not exist", table.name.item),
    )
}

/// A column's DEFAULT, if it has one.
fn default_of(ctx: &PlanContext<'_>, table: &ItemRef, column: usize) -> Result<Option<sp::Expr>, SqlError> {
    let ItemKind::Table { defaults, .. } = &table.kind else { return Ok(None) };
    let Some(text) = defaults.get(column).and_then(Option::as_ref) else { return Ok(None) };
    let default = sql_syntax::parser::parse_expr(text)?;
    Ok(Some(match identity(ctx.catalog, table.id, column) {
        Some(_) => of_identity(default),
        None => default,
    }))
}

/// RETURNING over a row of the table, which has an alias, and these columns of other relations.
fn plan_returning(
    ctx: &PlanContext<'_>,
    (table, alias): (&ItemRef, &str),
    items: Option<&[sp::SelectItem]>,
    others: &[Other],
    resolver: &Resolver<'_>,
    params: &mut Params,
) -> Result<Option<Returning>, SqlError> {
    let Some(items) = items else { return Ok(None) };
    let qualifier = TableReference::bare(alias.to_owned());
    let own = DFSchema::try_from_qualified_schema(qualifier, &table.desc.schema)?;
    let schema = own.join(&others::schema(others)?)?;
    let mut exprs = Vec::new();
    let mut fields = Vec::new();
    let mut types = Vec::new();
    let mut origins = Vec::new();
    let mut add = |expr: &sp::Expr, name: String, params: &mut Params| {
        if bind::subquery::has_subquery(expr) {
            return Err(SqlError::unsupported("a subquery in RETURNING"));
        }
        let mut typed = bind::plan_expr(expr, &schema, params, resolver)?;
        if typed.ty == PgType::Unknown {
            let data_type = PgType::Text.data_type();
            let expr = coerce::assign(typed, &PgType::Text, &name, params, resolver)?;
            typed = sql_functions::TypedExpr { expr, ty: PgType::Text, data_type, nullable: true };
        }
        fields.push(typed.ty.field(&name, true).with_data_type(typed.data_type));
        types.push(typed.ty);
        origins.push(match &typed.expr {
            datafusion::logical_expr::Expr::Column(column)
                if column.relation.as_ref().is_some_and(|relation| relation.table() == alias) =>
            {
                table.desc.position(&column.name).and_then(|at| ctx.column_origin(table.id, at))
            }
            _ => None,
        });
        exprs.push(typed.expr);
        Ok(())
    };
    for item in items {
        match item {
            sp::SelectItem::UnnamedExpr(expr) => add(expr, bind::name::output_name(expr), params)?,
            sp::SelectItem::ExprWithAlias { expr, alias } => add(expr, fold(alias), params)?,
            sp::SelectItem::Wildcard(_) | sp::SelectItem::QualifiedWildcard(..) => {
                let of = others::wildcard(item)?;
                let own = table.desc.columns.iter().map(|column| (alias, &column.name));
                let columns = own.chain(others.iter().map(|column| (column.relation.as_str(), &column.name)));
                let mut columns =
                    columns.filter(|(relation, _)| of.as_ref().is_none_or(|of| of == relation)).peekable();
                if columns.peek().is_none() {
                    let message = format!("missing FROM-clause entry for table \"{}\"", of.unwrap_or_default());
                    return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
                }
                columns.try_for_each(|(relation, name)| add(&column_ref(relation, name), name.clone(), params))?;
            }
            other => return Err(SqlError::unsupported(format!("RETURNING {other}"))),
        }
    }
    rights::check_exprs(ctx, table, alias, &exprs)?;
    let mut desc = RelationDesc::from_schema(Arc::new(Schema::new(fields)));
    for (column, ty) in desc.columns.iter_mut().zip(types) {
        column.ty = ty;
    }
    Ok(Some(Returning { exprs, schema: Arc::new(schema), desc: Arc::new(desc), origins }))
}
