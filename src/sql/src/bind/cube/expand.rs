//! Plans over tables in the place of scans of cubes.

use super::answer::COUNT;
use super::around::{self, Inside};
use super::ask::{Ask, columns_in};
use super::measure::measured_in;
use super::{CubeScan, answer, scanned};
use crate::bind::{Binder, Params};
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use engine::error::SqlError;
use repr::GlobalId;
use std::collections::{BTreeSet, HashMap};

/// By qualifier, the columns that a statement refers to anywhere.
type Used = HashMap<String, BTreeSet<String>>;

impl Binder<'_> {
    /// A bound statement without scans of cubes.
    ///
    /// Errors: 42803 for what the model does not let be asked, 0A000.
    pub(in crate::bind) fn expanded(&mut self, plan: LogicalPlan) -> Result<LogicalPlan, SqlError> {
        if !self.has_cubes {
            return Ok(plan);
        }
        let mut used = Used::new();
        plan.apply_with_subqueries(|node| {
            for column in node.expressions().iter().flat_map(mentioned) {
                if let Some(qualifier) = &column.relation {
                    used.entry(qualifier.table().to_owned()).or_default().insert(column.name.clone());
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        let expanded = plan.transform_down_with_subqueries(|node| {
            let replaced = self.replacement(&node, &used)?;
            Ok(match replaced {
                // There can be other cubes beside that one.
                Some(replaced) => Transformed::new(replaced, true, TreeNodeRecursion::Continue),
                None => Transformed::no(node),
            })
        })?;
        // Whether a column can be NULL is not always what the scan said.
        let settled =
            expanded.data.transform_up_with_subqueries(|node| Ok(Transformed::yes(node.recompute_schema()?)))?;
        Ok(settled.data)
    }

    /// What takes the place of a node, if it asks something of a cube.
    fn replacement(&mut self, node: &LogicalPlan, used: &Used) -> Result<Option<LogicalPlan>, SqlError> {
        if let LogicalPlan::Aggregate(aggregate) = node
            && let Some(ask) = Ask::of(aggregate)?
            && !self.is_of_values(&ask)
        {
            if ask.counts_rows() {
                // It stands for the measure of that name, if there is one.
                self.reads.note(&Expr::Column(Column::new(Some(ask.qualifier.as_str()), COUNT)));
            }
            return self.in_model(ask.scan.cube.id, |binder| answer::answer(binder, &ask)).map(Some);
        }
        if let LogicalPlan::Aggregate(aggregate) = node
            && let Some(inside) = self.measures_inside(aggregate, used)?
        {
            return self.in_model(inside.scan.cube.id, |binder| around::around(binder, aggregate, &inside)).map(Some);
        }
        let (LogicalPlan::TableScan(node), Some(scan)) = (node, CubeScan::of(node)) else { return Ok(None) };
        let qualifier = node.table_name.table();
        let none = BTreeSet::new();
        let used = used.get(qualifier).unwrap_or(&none);
        self.in_model(scan.cube.id, |binder| answer::rows(binder, scan, qualifier, used)).map(Some)
    }

    /// Whether aggregates are of the values that measures have in rows, and no measure is asked for.
    fn is_of_values(&self, ask: &Ask) -> bool {
        let is_measure = |column: &Column| self.measures.contains_key(&(ask.qualifier.clone(), column.name.clone()));
        let none_asked = ask.calls.iter().all(|call| measured_in(call).is_none());
        none_asked && ask.calls.iter().flat_map(columns_in).any(|column| is_measure(&column))
    }

    /// The cube whose measures are among the calls of an Aggregate node. Errors: 42803, there are several, or what is below the node goes
    /// by a measure.
    fn measures_inside(&self, aggregate: &Aggregate, used: &Used) -> Result<Option<Inside>, SqlError> {
        let input = aggregate.input.as_ref();
        let source = |column: &Column| scanned(input, input.schema().maybe_index_of_column(column)?);
        let mut calls = Vec::with_capacity(aggregate.aggr_expr.len());
        let mut qualifiers = BTreeSet::new();
        for call in &aggregate.aggr_expr {
            let member = measured_in(call).and_then(|(column, _)| source(column));
            if measured_in(call).is_some() && member.is_none() {
                return Err(super::refused(
                    "a measure cannot be evaluated over rows that a function has made of its cube's",
                    "Evaluate it in a sub-query with GROUP BY over the cube, and go on from its result.",
                ));
            }
            qualifiers
                .extend(member.iter().filter_map(|column| column.relation.as_ref()).map(|of| of.table().to_owned()));
            calls.push(member.map(|column| column.name));
        }
        let Some(qualifier) = qualifiers.pop_first() else { return Ok(None) };
        if !qualifiers.is_empty() {
            return Err(super::refused(
                "measures of two cubes are asked for over one join",
                "Declare a view over both cubes, or evaluate each in a sub-query with GROUP BY, and join the results.",
            ));
        }
        self.check_no_measures(&aggregate.group_expr, input)?;
        let mut found = None;
        input.apply(|node| {
            match (node, CubeScan::of(node)) {
                (LogicalPlan::TableScan(node), Some(scan)) if node.table_name.table() == qualifier => {
                    found = Some(scan.clone());
                }
                (LogicalPlan::Filter(_) | LogicalPlan::Join(_), _) => {
                    let inputs = node.inputs().into_iter();
                    inputs.into_iter().try_for_each(|input| self.check_no_measures(&node.expressions(), input))?;
                }
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        let scan = found.ok_or_else(|| SqlError::internal("a measure is of no scan"))?;
        let used = used.get(&qualifier).cloned().unwrap_or_default();
        Ok(Some(Inside { scan, qualifier, used, calls }))
    }

    fn check_no_measures(&self, exprs: &[Expr], input: &LogicalPlan) -> Result<(), SqlError> {
        for column in exprs.iter().flat_map(columns_in) {
            let at = input.schema().maybe_index_of_column(&column);
            if at.is_some_and(|at| self.measure_of(input, at).is_some()) {
                return Err(answer::no_value_of_a_row(&column.name));
            }
        }
        Ok(())
    }

    /// Binds in the scope and by the rights of a cube's model, under qualifiers that nothing else of this statement has.
    pub(super) fn in_model<T>(
        &mut self,
        cube: GlobalId,
        bind: impl Fn(&mut Binder<'_>) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let mut bound = None;
        let asker = self.coercer.tables;
        let (mut qualifiers, mut counter) = (std::mem::take(&mut self.qualifiers), self.counter);
        let done = self.coercer.tables.in_model(cube, &mut |tables| {
            let mut params = Params::none();
            let mut binder = Binder::new(tables, &mut params);
            binder.asker = Some(asker);
            binder.qualifiers = std::mem::take(&mut qualifiers);
            binder.counter = counter;
            let plan = bind(&mut binder);
            (qualifiers, counter) = (std::mem::take(&mut binder.qualifiers), binder.counter);
            bound = Some(plan?);
            binder.check_reads()
        });
        (self.qualifiers, self.counter) = (qualifiers, counter);
        done?;
        bound.ok_or_else(|| SqlError::internal("a model calls back"))
    }
}

/// The columns in an expression, also those of a query around it.
fn mentioned(expr: &Expr) -> Vec<Column> {
    let mut found = columns_in(expr);
    expr.apply(|expr| {
        if let Expr::OuterReferenceColumn(_, column) = expr {
            found.push(column.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .expect("the visitor does not fail");
    found
}
