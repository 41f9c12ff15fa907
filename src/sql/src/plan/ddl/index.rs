//! CREATE INDEX.

use super::operator_class::operator_class;
use super::{check_create_in, check_owner, resolve_cluster};
use crate::bind::{self, Params};
use crate::names::{resolve_item, unknown_relation};
use crate::plan::constraint::check_key_type;
use crate::plan::ddl::name::{already_exists, full_name};
use crate::plan::ddl::plural;
use crate::plan::resolver::Dependencies;
use crate::plan::{IndexKeyDef, ItemKind, ItemRef, Plan, PlanContext};
use datafusion::common::{DFSchema, TableReference};
use datafusion::logical_expr::Expr;
use engine::error::SqlError;
use engine::names::{ClusterId, ObjectId, ObjectKind, SchemaId};
use repr::sqlstate::SqlState;
use repr::{GlobalId, PgType, RelationDesc};
use sql_syntax::ast::visit::visit_expressions_mut;
use sql_syntax::ast::{CreateIndex, KeyOptions};
use sql_syntax::names::{FullName, quote_ident, truncate_identifier};
use sqlparser::ast as sp;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Postgres's limit on an index's columns applies to keys that are written out, not to default indexes.
const KEYS_MAX: usize = 32;

/// CREATE INDEX.
#[derive(Clone, Debug)]
pub struct CreateIndexPlan {
    /// In which schema: the relation's.
    pub schema: SchemaId,
    /// Its full name.
    pub name: FullName,
    /// The relation.
    pub on: GlobalId,
    /// The cluster.
    pub cluster: ClusterId,
    /// Whether no two rows may have the same key.
    pub unique: bool,
    /// The key.
    pub keys: Vec<IndexKey>,
    /// The key's columns, for the catalog.
    pub desc: Arc<RelationDesc>,
    /// Whether IF NOT EXISTS was given.
    pub if_not_exists: bool,
}

/// One expression of an index's key, bound.
#[derive(Clone, Debug)]
pub struct IndexKey {
    /// As it goes into the catalog.
    pub def: IndexKeyDef,
    /// Over the relation's columns.
    pub expr: Expr,
    /// Its type.
    pub ty: PgType,
}

pub(in crate::plan) fn plan_create_index(ctx: &PlanContext<'_>, create: &CreateIndex) -> Result<Plan, SqlError> {
    let on = resolve_item(ctx.catalog, ctx.scope(), &create.on)?.ok_or_else(|| unknown_relation(&create.on))?;
    if let kind @ (ObjectKind::Index
    | ObjectKind::Sequence
    | ObjectKind::Secret
    | ObjectKind::SemanticModel
    | ObjectKind::Cube) = on.object_kind()
    {
        return Err(SqlError::new(
            SqlState::WRONG_OBJECT_TYPE,
            format!("cannot create index on relation \"{}\"", on.name.item),
        )
        .with_detail(format!("This operation is not supported for {}.", plural(kind))));
    }
    check_owner(ctx, ObjectId::Item(on.id), on.object_kind(), &on.name.item)?;
    if let ItemKind::View(view) = &on.kind {
        let dependencies = Dependencies::new();
        dependencies.trusted(&PlanContext { from_tables: true, ..*ctx }).view(view, on.owner)?;
        dependencies.check_no_policies("an index on a view")?;
    }
    let schema = ctx
        .catalog
        .schema(on.schema)
        .ok_or_else(|| SqlError::internal(format!("the schema of {} is missing", on.name)))?;
    check_create_in(ctx, &schema)?;
    let cluster = resolve_cluster(ctx, create.cluster.as_deref())?;
    let keys = match &create.keys {
        Some(parts) if parts.len() > KEYS_MAX => {
            return Err(SqlError::new(
                SqlState("54011"),
                format!("cannot use more than {KEYS_MAX} columns in an index"),
            ));
        }
        Some(parts) => {
            let exprs: Vec<sp::Expr> = parts.iter().map(|(expr, _)| expr.clone()).collect();
            let mut keys = bind_keys(ctx, &on, &exprs)?;
            for (key, (_, options)) in keys.iter_mut().zip(parts) {
                let class = options.class.as_deref().map(|class| operator_class(class, &key.ty)).transpose()?;
                key.def.options = KeyOptions { class: class.flatten(), ..options.clone() };
            }
            // No condition compares json. A default index, of all columns, holds it by its text.
            if keys.iter().any(|key| key.ty == PgType::Json) {
                return Err(not_comparable(&PgType::Json));
            }
            keys
        }
        None => default_keys(&on),
    };
    if create.unique {
        check_unique(&on, &keys)?;
    }
    let item = match &create.name {
        Some(name) => {
            if ctx.catalog.item_by_name(on.schema, name).is_some() {
                return already_exists(name, create.if_not_exists, "CREATE INDEX");
            }
            name.clone()
        }
        None => free_name(ctx, &on, create.keys.as_ref().map(|_| keys.as_slice())),
    };
    Ok(Plan::CreateIndex(CreateIndexPlan {
        schema: on.schema,
        name: full_name(ctx, &schema, item),
        on: on.id,
        cluster,
        unique: create.unique,
        desc: Arc::new(describe(&on, &keys)),
        keys,
        if_not_exists: create.if_not_exists,
    }))
}

/// Whether the rows of a relation can be kept from having the same key. Errors: 0A000, 42704.
fn check_unique(on: &ItemRef, keys: &[IndexKey]) -> Result<(), SqlError> {
    if !matches!(on.kind, ItemKind::Table { .. }) {
        return Err(SqlError::unsupported(format!("a unique index on a {}", on.object_kind())));
    }
    if keys.iter().any(|key| key.def.column.is_none()) {
        return Err(SqlError::unsupported("a unique index over an expression"));
    }
    keys.iter().try_for_each(|key| check_key_type(&key.ty))
}

/// Binds an index's stored key again, as whoever maintains the index needs it after a restart.
pub fn plan_index_keys(ctx: &PlanContext<'_>, on: &ItemRef, keys: &[IndexKeyDef]) -> Result<Vec<IndexKey>, SqlError> {
    let exprs = keys.iter().map(|key| sql_syntax::parser::parse_expr(&key.sql)).collect::<Result<Vec<_>, _>>()?;
    bind_keys(ctx, on, &exprs)
}

/// The columns of an index, from its stored key.
pub fn describe_index(ctx: &PlanContext<'_>, on: &ItemRef, keys: &[IndexKeyDef]) -> Result<RelationDesc, SqlError> {
    Ok(describe(on, &plan_index_keys(ctx, on, keys)?))
}

fn bind_keys(ctx: &PlanContext<'_>, on: &ItemRef, exprs: &[sp::Expr]) -> Result<Vec<IndexKey>, SqlError> {
    let schema = schema_of(on)?;
    let dependencies = Dependencies::new();
    let resolver = dependencies.resolver(ctx);
    let mut keys = Vec::with_capacity(exprs.len());
    for expr in exprs {
        let typed = bind::plan_expr(expr, &schema, &mut Params::none(), &resolver)?;
        if !dependencies.all().is_empty() {
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "cannot use subquery in index expression"));
        }
        if typed.expr.is_volatile() {
            return Err(SqlError::new(SqlState("42P17"), "functions in index expression must be marked IMMUTABLE"));
        }
        if matches!(typed.ty, PgType::Unknown | PgType::Record | PgType::Void) {
            return Err(not_comparable(&typed.ty));
        }
        keys.push(match column_of(&typed.expr, on) {
            Some(column) => column_key(on, column),
            None => {
                let def = IndexKeyDef {
                    column: None,
                    sql: without_qualifiers(expr).to_string(),
                    options: KeyOptions::default(),
                };
                IndexKey { def, expr: typed.expr, ty: typed.ty }
            }
        });
    }
    Ok(keys)
}

/// The expression in words that stay true when the relation is renamed: it is over one relation's columns.
pub(in crate::plan) fn without_qualifiers(expr: &sp::Expr) -> sp::Expr {
    let mut expr = expr;
    while let sp::Expr::Nested(inner) = expr {
        expr = inner;
    }
    let mut expr = expr.clone();
    let _done = visit_expressions_mut(&mut expr, |expr| {
        if let sp::Expr::CompoundIdentifier(parts) = expr
            && let Some(column) = parts.pop()
        {
            *expr = sp::Expr::Identifier(column);
        }
        ControlFlow::<()>::Continue(())
    });
    expr
}

fn not_comparable(ty: &PgType) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_OBJECT,
        format!("data type {} has no default operator class for access method \"arrangement\"", ty.name()),
    )
}

fn default_keys(on: &ItemRef) -> Vec<IndexKey> {
    (0..on.desc.arity()).map(|column| column_key(on, column)).collect()
}

fn column_key(on: &ItemRef, column: usize) -> IndexKey {
    let described = &on.desc.columns[column];
    let qualifier = Some(TableReference::bare(on.name.item.clone()));
    IndexKey {
        def: IndexKeyDef { column: Some(column), sql: quote_ident(&described.name), options: KeyOptions::default() },
        expr: Expr::Column(datafusion::common::Column::new(qualifier, &described.name)),
        ty: described.ty.clone(),
    }
}

fn column_of(expr: &Expr, on: &ItemRef) -> Option<usize> {
    match expr {
        Expr::Column(column) => on.desc.position(&column.name),
        _ => None,
    }
}

/// The relation's columns, qualified with its own name.
fn schema_of(on: &ItemRef) -> Result<DFSchema, SqlError> {
    let qualifier = TableReference::bare(on.name.item.clone());
    Ok(DFSchema::try_from_qualified_schema(qualifier, &on.desc.schema)?)
}

fn describe(on: &ItemRef, keys: &[IndexKey]) -> RelationDesc {
    RelationDesc::new(keys.iter().enumerate().map(|(index, key)| match key.def.column {
        Some(column) => {
            let column = &on.desc.columns[column];
            (column.name.clone(), column.ty.clone(), column.nullable)
        }
        None if index == 0 => ("expr".to_owned(), key.ty.clone(), true),
        None => (format!("expr{index}"), key.ty.clone(), true),
    }))
}

/// `t_a_b_idx` as Postgres makes it, `t_primary_idx` for a default index; a number is added when that is taken.
fn free_name(ctx: &PlanContext<'_>, on: &ItemRef, keys: Option<&[IndexKey]>) -> String {
    let middle = match keys {
        None => "primary".to_owned(),
        Some(keys) => keys
            .iter()
            .map(|key| match key.def.column {
                Some(column) => on.desc.columns[column].name.as_str(),
                None => "expr",
            })
            .collect::<Vec<_>>()
            .join("_"),
    };
    let base = format!("{}_{middle}", on.name.item);
    (0..)
        .map(|n: usize| {
            let suffix = if n == 0 { "_idx".to_owned() } else { format!("_idx{n}") };
            let mut stem = base.clone();
            while stem.len() + suffix.len() > sql_syntax::names::IDENTIFIER_BYTES_MAX {
                stem.pop();
            }
            truncate_identifier(stem + &suffix)
        })
        .find(|name| ctx.catalog.item_by_name(on.schema, name).is_none())
        .expect("the numbers do not end")
}
