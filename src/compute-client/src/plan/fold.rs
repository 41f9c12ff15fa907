//! Folds a chain of filter, projection, sort and limit over one collection into expressions over the stored row.

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, DFSchemaRef};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Expr, FetchType, LogicalPlan, SkipType, SortExpr};
use engine::CollectionTable;
use repr::GlobalId;
use std::sync::Arc;

/// A folded chain. All expressions are over the collection's columns, unqualified.
pub(super) struct Chain {
    pub(super) collection: GlobalId,
    /// Conjuncts that rows must satisfy.
    pub(super) predicates: Vec<Expr>,
    pub(super) sort: Vec<SortExpr>,
    pub(super) skip: usize,
    pub(super) fetch: Option<usize>,
    pub(super) output: Vec<Expr>,
}

/// The chain that `plan` is, if it is one.
#[expect(clippy::too_many_lines, reason = "a line or two for each operator")]
pub(super) fn fold(plan: &LogicalPlan) -> Option<Chain> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let table = CollectionTable::from_source(&scan.source)?;
            let columns = table.desc.schema.fields();
            let output = match &scan.projection {
                Some(projection) => projection.iter().map(|at| column(columns[*at].name())).collect(),
                None => columns.iter().map(|field| column(field.name())).collect(),
            };
            let predicates = scan.filters.iter().cloned().map(unqualified).collect::<Option<Vec<_>>>()?;
            let predicates = predicates.into_iter().flat_map(split_conjunction_owned).collect();
            let skip = 0;
            Some(Chain { collection: table.id, predicates, sort: Vec::new(), skip, fetch: scan.fetch, output })
        }
        LogicalPlan::SubqueryAlias(alias) => fold(&alias.input),
        LogicalPlan::Projection(projection) => {
            let mut chain = fold(&projection.input)?;
            let schema = projection.input.schema();
            chain.output = projection
                .expr
                .iter()
                .map(|expr| substitute(expr.clone().unalias_nested().data, schema, &chain.output))
                .collect::<Option<Vec<_>>>()?;
            Some(chain)
        }
        LogicalPlan::Filter(filter) => {
            let mut chain = fold(&filter.input)?;
            if chain.fetch.is_some() || chain.skip > 0 {
                return None;
            }
            let predicate = substitute(filter.predicate.clone(), filter.input.schema(), &chain.output)?;
            chain.predicates.extend(split_conjunction_owned(predicate));
            // A filter that the scan was told of as a hint is there twice.
            let mut distinct: Vec<Expr> = Vec::new();
            for predicate in chain.predicates {
                if !distinct.contains(&predicate) {
                    distinct.push(predicate);
                }
            }
            chain.predicates = distinct;
            Some(chain)
        }
        LogicalPlan::Sort(sort) => {
            let mut chain = fold(&sort.input)?;
            if chain.fetch.is_some() || chain.skip > 0 {
                return None;
            }
            chain.sort = sort
                .expr
                .iter()
                .map(|key| {
                    let expr = substitute(key.expr.clone(), sort.input.schema(), &chain.output)?;
                    Some(SortExpr { expr, asc: key.asc, nulls_first: key.nulls_first })
                })
                .collect::<Option<Vec<_>>>()?;
            chain.fetch = sort.fetch;
            Some(chain)
        }
        LogicalPlan::Limit(limit) => {
            let mut chain = fold(&limit.input)?;
            let (SkipType::Literal(skip), FetchType::Literal(fetch)) =
                (limit.get_skip_type().ok()?, limit.get_fetch_type().ok()?)
            else {
                return None;
            };
            if chain.skip > 0 {
                return None;
            }
            // What is below stops early at `skip + fetch` rows at the least, as the optimizer arranges it.
            let needed = fetch.map(|fetch| fetch.saturating_add(skip));
            if chain.fetch.is_some_and(|below| needed.is_none_or(|needed| below < needed)) {
                return None;
            }
            (chain.skip, chain.fetch) = (skip, fetch);
            Some(chain)
        }
        _ => None,
    }
}

/// The stored columns as a schema without qualifier.
pub(super) fn stored_schema(schema: &SchemaRef) -> Option<DFSchemaRef> {
    DFSchema::try_from(Arc::clone(schema)).ok().map(Arc::new)
}

/// The positions of the stored columns that `output` consists of, if it consists of nothing else.
pub(super) fn as_columns(output: &[Expr], schema: &SchemaRef) -> Option<Arc<[usize]>> {
    output
        .iter()
        .map(|expr| match expr {
            Expr::Column(column) => schema.index_of(&column.name).ok(),
            _ => None,
        })
        .collect()
}

fn column(name: &str) -> Expr {
    Expr::Column(Column::new_unqualified(name))
}

/// Replaces the columns of `expr`, which are over `schema`, by the expressions they stand for.
fn substitute(expr: Expr, schema: &DFSchema, columns: &[Expr]) -> Option<Expr> {
    let mut known = true;
    let replaced = expr
        .transform_down(|node| match &node {
            Expr::Column(column) => match schema.maybe_index_of_column(column) {
                Some(at) => Ok(Transformed::new(
                    columns[at].clone(),
                    true,
                    datafusion::common::tree_node::TreeNodeRecursion::Jump,
                )),
                None => {
                    known = false;
                    Ok(Transformed::no(node))
                }
            },
            Expr::ScalarSubquery(_)
            | Expr::InSubquery(_)
            | Expr::Exists(_)
            | Expr::OuterReferenceColumn(..)
            | Expr::AggregateFunction(_)
            | Expr::WindowFunction(_)
            | Expr::Unnest(_) => {
                known = false;
                Ok(Transformed::no(node))
            }
            _ => Ok(Transformed::no(node)),
        })
        .ok()?
        .data;
    known.then_some(replaced)
}

pub(super) fn unqualified(expr: Expr) -> Option<Expr> {
    expr.transform(|node| match node {
        Expr::Column(column) => Ok(Transformed::yes(Expr::Column(Column::new_unqualified(column.name)))),
        other => Ok(Transformed::no(other)),
    })
    .ok()
    .map(|transformed| transformed.data)
}
