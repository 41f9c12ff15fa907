//! Lowers what groups rows: GROUP BY with its grouping sets, and DISTINCT.

use super::{Input, Lowering, mfp, nullable, positional, refused};
use crate::plan::fold;
use crate::plan::lir::{self, Lir, Node, Reduce, Stage, Strategy};
use arrow::datatypes::{Field, Schema};
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::logical_expr::expr::GroupingSet;
use datafusion::logical_expr::{Aggregate, Expr};
use datafusion::physical_expr::PhysicalExpr;
use engine::error::SqlError;
use repr::Updates;
use std::collections::HashMap;
use std::sync::Arc;

impl Lowering<'_> {
    /// Each row once.
    pub(super) fn distinct(&self, input: Lir) -> Result<Lir, SqlError> {
        let schema = Arc::clone(&input.schema);
        let stored =
            fold::stored_schema(&positional(&schema)).ok_or_else(|| SqlError::internal("a schema is not a schema"))?;
        let columns = stored.columns().into_iter().map(Expr::Column);
        let key = columns.map(|column| self.compile(&column, &stored)).collect::<Result<_, _>>()?;
        let always = Arc::new(Updates::new());
        Ok(Lir { node: Node::Reduce(Box::new(Reduce { input, key, always, aggregates: Vec::new() })), schema })
    }

    /// GROUP BY and aggregates.
    pub(super) fn aggregate(&self, aggregate: &Aggregate) -> Result<Lir, SqlError> {
        let (keys, sets) = match aggregate.group_expr.as_slice() {
            [Expr::GroupingSet(set)] => {
                let GroupingSet::GroupingSets(sets) = set else {
                    return Err(refused("this kind of grouping sets in a maintained view"));
                };
                (set.distinct_expr().into_iter().cloned().collect(), Some(sets))
            }
            keys => (keys.to_vec(), None),
        };
        let all = keys.iter().chain(&aggregate.aggr_expr).cloned().collect();
        let (input, exprs) = self.input(&aggregate.input, all)?;
        let (group_exprs, aggr_exprs) = exprs.split_at(keys.len());
        let group_exprs = group_exprs
            .iter()
            .map(|expr| self.compile(&expr.clone().unalias_nested().data, &input.schema))
            .collect::<Result<Vec<_>, _>>()?;
        let mut always = Updates::new();
        let (input, key) = match sets {
            Some(sets) => {
                let sets: Vec<Vec<bool>> =
                    sets.iter().map(|set| keys.iter().map(|key| set.contains(key)).collect()).collect();
                self.expand(aggregate, input, &group_exprs, &sets, &mut always)?
            }
            None => {
                // Without GROUP BY there is one group, whatever there is in it.
                if keys.is_empty() {
                    always.push(&[], 1);
                }
                (input, group_exprs)
            }
        };
        let aggregates = aggr_exprs
            .iter()
            .map(|expr| {
                self.check(expr)?;
                let call = self.engine.create_aggregate(expr, &input.schema, &self.session)?;
                let strategy = Strategy::of(&call, &input.lir.schema);
                Ok(lir::Aggregate { call, strategy })
            })
            .collect::<Result<_, SqlError>>()?;
        Ok(Lir {
            schema: nullable(aggregate.schema.inner()),
            node: Node::Reduce(Box::new(Reduce { input: input.lir, key, always: Arc::new(always), aggregates })),
        })
    }

    /// Puts a copy of each row into every grouping set: the set's keys, NULL for the others, and the set's number come
    /// before the row. These are the key.
    fn expand(
        &self,
        aggregate: &Aggregate,
        input: Input,
        keys: &[Arc<dyn PhysicalExpr>],
        sets: &[Vec<bool>],
        always: &mut Updates,
    ) -> Result<(Input, Vec<Arc<dyn PhysicalExpr>>), SqlError> {
        let fields: Vec<Field> = aggregate.schema.fields()[..=keys.len()]
            .iter()
            .enumerate()
            .map(|(at, field)| Field::new(format!("grouping key {at}"), field.data_type().clone(), true))
            .collect();
        let nulls = fields[..keys.len()]
            .iter()
            .map(|field| Ok(Expr::Literal(ScalarValue::try_from(field.data_type())?, None)))
            .collect::<Result<Vec<_>, SqlError>>()?;
        let key_schema = Arc::new(Schema::new(fields));
        let columns = self.every_column(&input.schema)?;
        let mut copies: HashMap<&[bool], u64> = HashMap::new();
        let mut rows = Vec::with_capacity(sets.len());
        for set in sets {
            let copy = copies.entry(set.as_slice()).and_modify(|copy| *copy += 1).or_insert(0);
            let number = set_number(set, *copy).cast_to(key_schema.field(keys.len()).data_type())?;
            let number = Expr::Literal(number, None);
            if !set.contains(&true) {
                let mut row = nulls.clone();
                row.push(number.clone());
                self.constant_row(&row, &key_schema, always)?;
            }
            let mut exprs = Vec::with_capacity(keys.len() + 1 + columns.len());
            for ((key, null), is_in) in keys.iter().zip(&nulls).zip(set) {
                exprs.push(if *is_in { Arc::clone(key) } else { self.compile(null, &input.schema)? });
            }
            exprs.push(self.compile(&number, &input.schema)?);
            exprs.extend(columns.iter().cloned());
            rows.push(exprs);
        }
        let schema = Arc::new(DFSchema::try_from(key_schema)?.join(&input.schema)?);
        let lir = mfp(input.lir, vec![Stage::Expand(rows, nullable(schema.inner()))]);
        let key = (0..=keys.len())
            .map(|at| self.compile(&Expr::Column(Column::from(schema.qualified_field(at))), &schema))
            .collect::<Result<_, _>>()?;
        Ok((Input { lir, schema }, key))
    }
}

/// The number of a grouping set, as the ad hoc engine gives it: a bit for each key that is not in the set, the first key
/// highest, and above them how many equal sets came before.
fn set_number(set: &[bool], copy: u64) -> ScalarValue {
    let missing = set.iter().fold(0, |number, is_in| (number << 1) | u64::from(!is_in));
    ScalarValue::UInt64(Some(missing | (copy << set.len())))
}
