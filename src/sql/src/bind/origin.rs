//! Where the columns of a result come from: a column of a relation, if that is all that they are.
//!
//! Clients are told in RowDescription. The answer is read off the bound plan, before the optimizer has moved anything: a
//! column that is handed on unchanged is followed down to the scan, or to the view, of which it is a column.

use super::Binder;
use datafusion::common::JoinType;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan};
use engine::recursion::LetRec;
use repr::GlobalId;

/// A column of a relation that the statement names: the relation, and the column's position.
pub type Origin = (GlobalId, usize);

impl Binder<'_> {
    /// For each column of a plan, the column of a relation that it is.
    pub(super) fn origins(&self, plan: &LogicalPlan) -> Vec<Option<Origin>> {
        (0..plan.schema().fields().len()).map(|at| self.origin(plan, at)).collect()
    }

    fn origin(&self, plan: &LogicalPlan, at: usize) -> Option<Origin> {
        match plan {
            LogicalPlan::TableScan(scan) => {
                let id = self.reads.relation(scan.table_name.table())?;
                let column = scan.projection.as_ref().map_or(Some(&at), |columns| columns.get(at))?;
                Some((id, *column))
            }
            LogicalPlan::SubqueryAlias(alias) => match self.reads.relation(alias.alias.table()) {
                Some(view) => Some((view, at)),
                None => self.origin(&alias.input, at),
            },
            LogicalPlan::Projection(projection) => self.of_expr(projection.expr.get(at)?, &projection.input),
            LogicalPlan::Filter(filter) => self.origin(&filter.input, at),
            LogicalPlan::Sort(sort) => self.origin(&sort.input, at),
            LogicalPlan::Limit(limit) => self.origin(&limit.input, at),
            LogicalPlan::Distinct(Distinct::All(input)) => self.origin(input, at),
            // What it computes stands behind what it reads.
            LogicalPlan::Window(window) if at < window.input.schema().fields().len() => self.origin(&window.input, at),
            LogicalPlan::Aggregate(aggregate) => match aggregate.group_expr.as_slice() {
                [Expr::GroupingSet(sets)] => self.of_expr(sets.distinct_expr().get(at)?, &aggregate.input),
                keys => self.of_expr(keys.get(at)?, &aggregate.input),
            },
            LogicalPlan::Unnest(unnest) => {
                let input = *unnest.dependency_indices.get(at)?;
                let is_element = unnest.list_type_columns.iter().any(|(list, _)| *list == input);
                if is_element { None } else { self.origin(&unnest.input, input) }
            }
            LogicalPlan::Join(join)
                if matches!(join.join_type, JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full) =>
            {
                let width = join.left.schema().fields().len();
                if at < width { self.origin(&join.left, at) } else { self.origin(&join.right, at - width) }
            }
            plan => self.origin(&LetRec::of(plan)?.body, at),
        }
    }

    fn of_expr(&self, expr: &Expr, input: &LogicalPlan) -> Option<Origin> {
        match expr {
            Expr::Alias(alias) => self.of_expr(&alias.expr, input),
            Expr::Column(column) => self.origin(input, input.schema().maybe_index_of_column(column)?),
            _ => None,
        }
    }
}
