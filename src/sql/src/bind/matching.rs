//! Set operations over columns whose equal values can be stored differently: char(n), interval, jsonb.
//!
//! DataFusion's set operations match rows as they are stored. Here rows are matched by the keys of their columns, and of rows that
//! are equal one that does not depend on their order is shown.

use super::{Binder, BoundQuery};
use crate::bind::columns::{columns_of, columns_of_plan, project, unique_names};
use datafusion::common::{Column, JoinType, NullEquality};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, LogicalPlanBuilder, Projection, Union};
use engine::error::SqlError;
use sql_functions::order::is_exact;
use sqlparser::ast::SetOperator;
use std::sync::Arc;

impl Binder<'_> {
    /// A set operation whose rows are matched by keys, because equal values of some column's type can be stored differently.
    pub(super) fn set_operation_by_keys(
        &mut self,
        op: SetOperator,
        all: bool,
        left: BoundQuery,
        right: BoundQuery,
    ) -> Result<BoundQuery, SqlError> {
        let inexact = left.columns.iter().find(|column| !is_exact(&column.ty));
        if let (Some(column), true) = (inexact, all) {
            return Err(SqlError::unsupported(format!("{op} ALL of type {}", column.ty.name())));
        }
        let columns = left.columns.clone();
        let plan = match op {
            SetOperator::Union => {
                let inputs = vec![Arc::new(left.plan), Arc::new(right.plan)];
                let union = LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?);
                self.one_of_each(BoundQuery { plan: union, columns: columns.clone() })?
            }
            op => {
                let left = BoundQuery { plan: self.one_of_each(left)?, columns: columns.clone() };
                let shown = columns_of_plan(&left.plan);
                // Names of its own for either side: a maintained join's columns have no qualifiers.
                let (left_keys, right_keys) = (self.keys_of(&left)?, self.keys_of(&right)?);
                let (left_keys, outer) = self.named_keys(left_keys);
                let (right_keys, inner) = self.named_keys(right_keys);
                let left_exprs = shown.iter().cloned().chain(left_keys).collect();
                let left = LogicalPlan::Projection(Projection::try_new(left_exprs, Arc::new(left.plan))?);
                let right = LogicalPlan::Projection(Projection::try_new(right_keys, Arc::new(right.plan))?);
                let kind = if op == SetOperator::Except { JoinType::LeftAnti } else { JoinType::LeftSemi };
                let joined = LogicalPlanBuilder::from(left)
                    .join_detailed(right, kind, (outer, inner), None, NullEquality::NullEqualsNull)?
                    .build()?;
                let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
                project(joined, shown, &unique_names(names.iter().map(String::as_str)))?
            }
        };
        Ok(BoundQuery { plan, columns })
    }

    /// Keys under names that nothing else has, and these names.
    fn named_keys(&mut self, keys: Vec<Expr>) -> (Vec<Expr>, Vec<Column>) {
        let names: Vec<String> = keys.iter().map(|_| self.internal_name("match")).collect();
        let columns = names.iter().map(Column::from_name).collect();
        (keys.into_iter().zip(names).map(|(key, name)| key.alias(name)).collect(), columns)
    }

    /// What the columns of a query are matched by.
    fn keys_of(&mut self, bound: &BoundQuery) -> Result<Vec<Expr>, SqlError> {
        columns_of(bound).into_iter().map(|column| Ok(self.comparison_key(column)?.expr)).collect()
    }

    /// One row of those that are equal.
    fn one_of_each(&mut self, bound: BoundQuery) -> Result<LogicalPlan, SqlError> {
        let keys = self.keys_of(&bound)?;
        let columns = columns_of(&bound);
        let mut names = Vec::with_capacity(keys.len());
        let (mut groups, mut shown) = (Vec::with_capacity(keys.len()), Vec::new());
        for (key, column) in keys.into_iter().zip(columns) {
            let name = self.internal_name("key");
            let expr = if is_exact(&column.ty) {
                Expr::Column(Column::from_name(&name))
            } else {
                let (choice, chosen) = self.representative(&column)?;
                shown.push(choice);
                chosen
            };
            groups.push(key.alias(name));
            names.push(expr);
        }
        let labels: Vec<String> = bound.plan.schema().fields().iter().map(|field| field.name().clone()).collect();
        let aggregate = Aggregate::try_new(Arc::new(bound.plan), groups, shown)?;
        project(LogicalPlan::Aggregate(aggregate), names, &labels)
    }
}
