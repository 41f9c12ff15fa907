//! What RETURNING tells of the relations beside the target: those of `UPDATE … FROM` and `DELETE … USING`.
//!
//! The statement's query, which finds the rows to change, gives their columns as well, as far as RETURNING names them.

use super::build;
use crate::bind::{self, Params};
use crate::plan::resolver::Resolver;
use datafusion::common::{DFSchema, TableReference};
use engine::error::SqlError;
use repr::PgType;
use repr::sqlstate::SqlState;
use sql_syntax::ast::visit::walk;
use sql_syntax::parser::fold;
use sqlparser::ast as sp;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A column of another relation.
pub(super) struct Other {
    /// The alias of the relation.
    pub(super) relation: String,
    /// Its name.
    pub(super) name: String,
    /// Its type.
    pub(super) ty: PgType,
    data_type: arrow::datatypes::DataType,
}

/// The columns of other relations that RETURNING may name.
pub(super) fn returned(
    items: Option<&[sp::SelectItem]>,
    others: &[sp::TableWithJoins],
    resolver: &Resolver<'_>,
    params: &mut Params,
) -> Result<Vec<Other>, SqlError> {
    let Some(items) = items.filter(|_| !others.is_empty()) else { return Ok(Vec::new()) };
    let mut named = Named::default();
    for item in items {
        if let sp::SelectItem::Wildcard(_) | sp::SelectItem::QualifiedWildcard(..) = item {
            named.wildcards.push(wildcard(item)?);
        }
        let _walked = walk(item, &mut named);
    }
    let mut columns = Vec::new();
    for relation in others.iter().flat_map(relations) {
        let query = build::all_of(&relation, others.to_vec());
        // The statement's own query asks for the privileges on what is named.
        let planned = bind::describe(&query, resolver, params)?;
        let fields = planned.plan.schema().fields().iter().zip(planned.desc.columns);
        columns.extend(fields.map(|(field, column)| Other {
            relation: relation.clone(),
            name: column.name,
            ty: column.ty,
            data_type: field.data_type().clone(),
        }));
    }
    for (relation, name) in &named.columns {
        let Some(relation) = relation else { continue };
        let mut of_relation = columns.iter().filter(|column| column.relation == *relation).peekable();
        if of_relation.peek().is_some() && of_relation.all(|column| column.name != *name) {
            let message = format!("column {relation}.{name} does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
        }
    }
    named.check(&columns, others)?;
    columns.retain(|column| named.may_be(column));
    Ok(columns)
}

/// The columns as expressions over the statement's query.
pub(super) fn references(columns: &[Other]) -> impl Iterator<Item = sp::Expr> {
    columns.iter().map(|column| build::column_ref(&column.relation, &column.name))
}

/// The columns as a relation of each.
pub(super) fn schema(columns: &[Other]) -> Result<DFSchema, SqlError> {
    let fields = columns.iter().map(|column| {
        let field = column.ty.field(&column.name, true).with_data_type(column.data_type.clone());
        (Some(TableReference::bare(column.relation.clone())), Arc::new(field))
    });
    Ok(DFSchema::new_with_metadata(fields.collect(), HashMap::new())?)
}

/// The relation whose columns a wildcard stands for; all of them if it names none.
pub(super) fn wildcard(item: &sp::SelectItem) -> Result<Option<String>, SqlError> {
    match item {
        sp::SelectItem::QualifiedWildcard(sp::SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
            Ok(build::name_of(name)?.parts.pop())
        }
        sp::SelectItem::QualifiedWildcard(..) => Err(SqlError::unsupported(format!("RETURNING {item}"))),
        _ => Ok(None),
    }
}

/// The names under which relations can be referred to.
fn relations(item: &sp::TableWithJoins) -> Vec<String> {
    let mut factors = std::iter::once(&item.relation).chain(item.joins.iter().map(|join| &join.relation));
    factors.by_ref().flat_map(aliases).collect()
}

fn aliases(factor: &sp::TableFactor) -> Vec<String> {
    match factor {
        sp::TableFactor::NestedJoin { table_with_joins, alias: None } => relations(table_with_joins),
        sp::TableFactor::Table { alias: Some(alias), .. }
        | sp::TableFactor::Derived { alias: Some(alias), .. }
        | sp::TableFactor::Function { alias: Some(alias), .. }
        | sp::TableFactor::UNNEST { alias: Some(alias), .. } => vec![fold(&alias.name)],
        sp::TableFactor::Table { name, .. } | sp::TableFactor::Function { name, .. } => {
            build::name_of(name).ok().and_then(|mut name| name.parts.pop()).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// What RETURNING names.
#[derive(Default)]
struct Named {
    wildcards: Vec<Option<String>>,
    columns: Vec<(Option<String>, String)>,
}

impl Named {
    fn may_be(&self, column: &Other) -> bool {
        let is = |relation: &Option<String>| relation.as_ref().is_none_or(|relation| *relation == column.relation);
        self.wildcards.iter().any(is)
            || self.columns.iter().any(|(relation, name)| is(relation) && *name == column.name)
    }

    /// What is not told: the whole row of another relation, and the columns that a join has merged.
    fn check(&self, columns: &[Other], others: &[sp::TableWithJoins]) -> Result<(), SqlError> {
        for (_, name) in self.columns.iter().filter(|(relation, _)| relation.is_none()) {
            if columns.iter().any(|column| column.relation == *name)
                && columns.iter().all(|column| column.name != *name)
            {
                return Err(SqlError::unsupported(format!("the whole row of \"{name}\" in RETURNING")));
            }
        }
        if self.wildcards.contains(&None) && others.iter().any(merges) {
            return Err(SqlError::unsupported("RETURNING * of a join by USING or NATURAL"));
        }
        Ok(())
    }
}

fn merges(item: &sp::TableWithJoins) -> bool {
    let by_name = |join: &sp::Join| {
        use sp::JoinOperator::{FullOuter, Inner, Join, Left, LeftOuter, Right, RightOuter};
        match &join.join_operator {
            Join(by) | Inner(by) | Left(by) | LeftOuter(by) | Right(by) | RightOuter(by) | FullOuter(by) => {
                matches!(by, sp::JoinConstraint::Using(_) | sp::JoinConstraint::Natural)
            }
            _ => false,
        }
    };
    let nested = |factor: &sp::TableFactor| match factor {
        sp::TableFactor::NestedJoin { table_with_joins, .. } => merges(table_with_joins),
        _ => false,
    };
    nested(&item.relation) || item.joins.iter().any(|join| by_name(join) || nested(&join.relation))
}

impl sp::Visitor for Named {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &sp::Expr) -> ControlFlow<()> {
        match expr {
            sp::Expr::Identifier(name) => self.columns.push((None, fold(name))),
            sp::Expr::CompoundIdentifier(parts) => {
                let mut last = parts.iter().rev().map(fold);
                if let (Some(name), relation) = (last.next(), last.next()) {
                    self.columns.push((relation, name));
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
