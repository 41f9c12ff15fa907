//! What a map/filter/project computes with.
//!
//! Most columns only pass through: the bytes of such a column go from the input row to the output row as they are. Only what
//! a predicate or an expression reads is decoded, and only what an expression makes is encoded.

use arrow::datatypes::{Field, Schema, SchemaRef};
use compute_client::plan::lir::{self, Stage, moved};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A stage over a batch that has the columns that are still needed, and no others.
pub(super) enum Step {
    /// Keeps the rows for which this is true, and these of the columns.
    Filter(Arc<dyn PhysicalExpr>, Vec<usize>),
    /// Replaces the row.
    Project(Vec<Arc<dyn PhysicalExpr>>, SchemaRef),
    /// Replaces the row by several.
    Expand(Vec<Vec<Arc<dyn PhysicalExpr>>>, SchemaRef),
    /// Replaces the row by one for each item of these lists, and keeps these of the columns.
    Unnest(Vec<usize>, SchemaRef, Vec<usize>),
}

/// For each column behind the last stage: the input's column whose value it has.
pub(super) fn origins(width: usize, stages: &[Stage]) -> Vec<Option<usize>> {
    let mut origins: Vec<Option<usize>> = (0..width).map(Some).collect();
    let of = |expr: &Arc<dyn PhysicalExpr>, origins: &[Option<usize>]| lir::column(expr).and_then(|at| origins[at]);
    for stage in stages {
        origins = match stage {
            Stage::Filter(_) => origins,
            Stage::Project(exprs, _) => exprs.iter().map(|expr| of(expr, &origins)).collect(),
            Stage::Expand(rows, schema) => (0..schema.fields().len())
                .map(|at| {
                    let mut all = rows.iter().map(|exprs| of(&exprs[at], &origins));
                    let first = all.next().flatten();
                    first.filter(|_| all.all(|other| other == first))
                })
                .collect(),
            Stage::Unnest(lists, _) => {
                origins.into_iter().enumerate().map(|(at, origin)| origin.filter(|_| !lists.contains(&at))).collect()
            }
        };
    }
    origins
}

/// The stages over those columns alone that are needed for the `wanted` ones behind the last of them, and which columns of
/// the input these are.
pub(super) fn narrow(stages: &[Stage], wanted: &BTreeSet<usize>) -> (BTreeSet<usize>, Vec<Step>) {
    let mut present = wanted.clone();
    let mut steps = Vec::with_capacity(stages.len());
    for stage in stages.iter().rev() {
        let before = stage.needs(&present);
        steps.push(match stage {
            Stage::Filter(predicate) => Step::Filter(over(predicate, &before), places(&present, &before)),
            Stage::Project(exprs, schema) => {
                let exprs = present.iter().map(|at| over(&exprs[*at], &before)).collect();
                Step::Project(exprs, project(schema, &present))
            }
            Stage::Expand(rows, schema) => {
                let narrowed = |exprs: &Vec<_>| present.iter().map(|at| over(&exprs[*at], &before)).collect();
                Step::Expand(rows.iter().map(narrowed).collect(), project(schema, &present))
            }
            Stage::Unnest(lists, schema) => {
                let lists = lists.iter().map(|list| place(*list, &before)).collect();
                Step::Unnest(lists, project(schema, &before), places(&present, &before))
            }
        });
        present = before;
    }
    steps.reverse();
    (present, steps)
}

/// The columns behind the last stage as expressions over the input, unless stages do more than replace rows.
pub fn flattened(input: &SchemaRef, stages: &[Stage]) -> Option<Vec<Arc<dyn PhysicalExpr>>> {
    let column = |(at, field): (usize, &Arc<Field>)| Arc::new(Column::new(field.name(), at)) as Arc<dyn PhysicalExpr>;
    let mut columns: Vec<Arc<dyn PhysicalExpr>> = input.fields().iter().enumerate().map(column).collect();
    for stage in stages {
        let Stage::Project(exprs, _) = stage else { return None };
        let put_in = |expr: &Arc<dyn PhysicalExpr>| {
            let put_in = Arc::clone(expr).transform_up(|expr| {
                Ok(match lir::column(&expr) {
                    Some(column) => Transformed::yes(Arc::clone(&columns[column])),
                    None => Transformed::no(expr),
                })
            });
            put_in.ok().map(|transformed| transformed.data)
        };
        columns = exprs.iter().map(put_in).collect::<Option<_>>()?;
    }
    Some(columns)
}

/// Where a column stands among those that are present.
pub(super) fn place(column: usize, present: &BTreeSet<usize>) -> usize {
    present.range(..column).count()
}

fn places(columns: &BTreeSet<usize>, present: &BTreeSet<usize>) -> Vec<usize> {
    columns.iter().map(|column| place(*column, present)).collect()
}

/// The expression over a batch that has these columns alone.
pub fn over(expr: &Arc<dyn PhysicalExpr>, present: &BTreeSet<usize>) -> Arc<dyn PhysicalExpr> {
    moved(expr, &|column| place(column, present))
}

/// Some of a schema's columns.
pub fn project(schema: &SchemaRef, columns: &BTreeSet<usize>) -> SchemaRef {
    let fields: Vec<_> = columns.iter().map(|at| Arc::clone(&schema.fields()[*at])).collect();
    Arc::new(Schema::new(fields))
}
