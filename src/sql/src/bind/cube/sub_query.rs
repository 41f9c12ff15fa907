//! Dimensions that are measures of other cubes, for each row of their own.

use super::groups::{Grouped, Rows};
use super::instances::{At, Instances, ROOT, equal};
use super::policies::Seen;
use crate::bind::columns::alias_plan;
use crate::bind::scope::Clause;
use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use semantic::model::fragment::Fragment;
use sql_functions::TypedExpr;
use sqlparser::ast;
use std::sync::Arc;

/// Sub-queries in each other at most.
const NESTED_MAX: usize = 8;

impl<'m> Instances<'_, '_, 'm> {
    /// The value of a measure for each row of an instance: a question of its own, by the key of the cube, which is joined.
    pub(super) fn sub_query(&mut self, at: At, sql: &'m Fragment<ast::Expr>) -> Result<TypedExpr, SqlError> {
        let (model, cube) = (self.model(), self.cube(at));
        self.binder.sub_queries += 1;
        if self.binder.sub_queries > NESTED_MAX {
            let message = format!("sub-queries of dimensions nest more than {NESTED_MAX} deep, or in a circle");
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
        }
        let own_key = self.key(at, &sql.text)?;
        let mut apart = Instances::new(self.binder, model, cube)?;
        let value = apart.value(ROOT, sql, Clause::Select)?;
        apart.check_no_window()?;
        let value = apart.binder.coercer.settle(value)?;
        let over_leaves = apart.over_leaves(ROOT, value.expr.clone(), None, &sql.text, &sql.place)?;
        let key: Vec<Expr> = apart.key(ROOT, &sql.text)?.into_iter().map(|part| part.expr).collect();
        let rows = Rows::default();
        // A row of the cube stays, whatever of the others may be seen.
        let filter = apart.policies(&Seen::new())?.into_iter().reduce(Expr::and);
        let leaves = apart.leaves().iter().map(|leaf| leaf.but(filter.clone())).collect();
        let part = Grouped { rows: &rows, keys: &key, conditions: &[], leaves }.plan(&mut apart)?;
        let mut exprs = Vec::with_capacity(key.len() + 1);
        let mut names = Vec::with_capacity(key.len());
        for key in &part.keys {
            let name = apart.binder.internal_name("part");
            exprs.push(key.clone().alias(&name));
            names.push(name);
        }
        let name = apart.binder.internal_name("value");
        exprs.push(part.over(&over_leaves).alias(&name));
        let plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(part.plan))?);
        let qualifier = self.binder.qualifier("sub_query");
        let column = |name: &String| Expr::Column(Column::new(Some(qualifier.as_str()), name));
        let on = names.iter().zip(own_key).map(|(name, own)| equal(own.expr, column(name)));
        let on = on.reduce(Expr::and).ok_or_else(|| SqlError::internal("a key has parts"))?;
        let value = TypedExpr { expr: column(&name), nullable: true, ..value };
        self.binder.sub_queries -= 1;
        self.attach(at, alias_plan(plan, &qualifier)?, qualifier.clone(), on);
        Ok(value)
    }
}
