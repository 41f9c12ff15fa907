//! About how many rows a plan gives, and how many different values its columns have.
//!
//! What is known of stored rows is what their collection says ([`CollectionReader::statistics`](crate::CollectionReader)). From there
//! the usual assumptions lead on: values are spread evenly, columns know nothing of each other, and of two columns that are joined the
//! values of the one with fewer are among those of the other. Nothing is right because of an estimate: it decides what is done first.

use arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, ScalarValue, Statistics};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, Between, BinaryExpr, Distinct, Expr, Join, JoinType, LogicalPlan, Operator, TableScan,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What part of the rows passes a condition of which nothing is known.
const SELECTIVITY: f64 = 0.2;
/// The same of an equality, of a range, and of a pattern.
const EQUAL: f64 = 0.05;
const RANGE: f64 = 1.0 / 3.0;
const PATTERN: f64 = 0.1;
/// What part of the values of a column are NULL of which nothing is known.
const NULLS: f64 = 0.02;

/// Plans and conditions that are deeper are not looked into: they may be deeper than a thread's stack.
const DEPTH_MAX: usize = 200;

/// What is known of the rows of collections.
pub(crate) type Known<'a> = &'a dyn Fn(&TableScan) -> Option<Arc<Statistics>>;

/// What a plan gives.
#[derive(Clone, Debug)]
pub(crate) struct Estimate {
    /// How many rows.
    pub(crate) rows: f64,
    /// What is known of the values of each column.
    columns: Vec<Values>,
}

/// What is known of the values of a column.
#[derive(Clone, Copy, Debug, Default)]
struct Values {
    distinct: Option<f64>,
    nulls: Option<f64>,
    range: Option<(f64, f64)>,
}

impl Estimate {
    /// Of a plan; `None` if nothing is known of something that it reads, or it is deep.
    pub(crate) fn of(plan: &LogicalPlan, known: Known<'_>) -> Option<Estimate> {
        Estimate::within(plan, known, DEPTH_MAX)
    }

    /// The same of a plan of at most this depth.
    fn within(plan: &LogicalPlan, known: Known<'_>, depth: usize) -> Option<Estimate> {
        let depth = depth.checked_sub(1)?;
        let of = |input: &LogicalPlan| Estimate::within(input, known, depth);
        match plan {
            LogicalPlan::TableScan(scan) => Estimate::of_scan(scan, known),
            LogicalPlan::EmptyRelation(empty) => {
                Some(Estimate::unknown(plan, if empty.produce_one_row { 1.0 } else { 0.0 }))
            }
            LogicalPlan::Values(values) => Some(Estimate::unknown(plan, values.values.len() as f64)),
            LogicalPlan::Filter(filter) => {
                let input = of(&filter.input)?;
                let conditions = split_conjunction(&filter.predicate);
                Some(input.filtered(filter.input.schema(), &conditions))
            }
            LogicalPlan::Projection(projection) => {
                let (input, schema) = (of(&projection.input)?, projection.input.schema());
                let columns = projection.expr.iter().map(|expr| input.values(schema, expr)).collect();
                Some(Estimate { rows: input.rows, columns })
            }
            LogicalPlan::Aggregate(aggregate) => Estimate::of_groups(aggregate, &of(&aggregate.input)?),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let input = of(input)?;
                Some(Estimate { rows: groups(input.rows, input.columns.iter().map(|of| of.distinct)), ..input })
            }
            LogicalPlan::Join(join) => Estimate::of_join(join, &of(&join.left)?, &of(&join.right)?),
            LogicalPlan::Union(union) => {
                let inputs = union.inputs.iter().map(|input| of(input));
                let rows: f64 = inputs.map(|input| input.map(|input| input.rows)).sum::<Option<f64>>()?;
                Some(Estimate::unknown(plan, rows))
            }
            LogicalPlan::Limit(limit) => {
                let input = of(&limit.input)?;
                let most = match limit.fetch.as_deref() {
                    Some(Expr::Literal(value, _)) => number(value).unwrap_or(f64::INFINITY),
                    _ => f64::INFINITY,
                };
                Some(input.at_most(most))
            }
            LogicalPlan::SubqueryAlias(alias) => of(&alias.input),
            LogicalPlan::Sort(sort) => of(&sort.input),
            LogicalPlan::Window(window) => {
                let input = of(&window.input)?;
                let mut columns = input.columns;
                columns.resize(plan.schema().fields().len(), Values::default());
                Some(Estimate { rows: input.rows, columns })
            }
            _ => None,
        }
    }

    /// Of which nothing but the number of rows is known.
    fn unknown(plan: &LogicalPlan, rows: f64) -> Estimate {
        Estimate { rows, columns: vec![Values::default(); plan.schema().fields().len()] }
    }

    fn of_scan(scan: &TableScan, known: Known<'_>) -> Option<Estimate> {
        let all = Estimate::of_rows(known(scan)?.as_ref())?;
        let conditions: Vec<&Expr> = scan.filters.iter().flat_map(split_conjunction).collect();
        let schema = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema()).ok()?;
        let passed = all.filtered(&schema, &conditions).at_most(scan.fetch.map_or(f64::INFINITY, |rows| rows as f64));
        Some(match &scan.projection {
            Some(columns) => Estimate {
                columns: columns.iter().map(|at| passed.columns.get(*at).copied().unwrap_or_default()).collect(),
                ..passed
            },
            None => passed,
        })
    }

    /// Of all rows of a collection.
    pub(crate) fn of_rows(statistics: &Statistics) -> Option<Estimate> {
        let rows = *statistics.num_rows.get_value()? as f64;
        let columns = statistics.column_statistics.iter().map(|column| {
            let least = column.min_value.get_value().and_then(number);
            let greatest = column.max_value.get_value().and_then(number);
            let nulls = column.null_count.get_value().map(|nulls| (*nulls as f64 / rows.max(1.0)).min(1.0));
            let counted = column.distinct_count.get_value().map(|count| *count as f64);
            // Of whole numbers there are no more than there is room for.
            let width = column.min_value.get_value().map(ScalarValue::data_type).filter(is_whole);
            let fitting = width.and(least.zip(greatest)).map(|(least, greatest)| greatest - least + 1.0);
            let distinct = counted.into_iter().chain(fitting).reduce(f64::min);
            let distinct = distinct.map(|distinct| distinct.clamp(1.0, rows.max(1.0)));
            Values { distinct, nulls, range: least.zip(greatest) }
        });
        Some(Estimate { rows, columns: columns.collect() })
    }

    /// The rows that pass all of these conditions on rows with this schema.
    pub(crate) fn filtered(&self, schema: &DFSchema, conditions: &[&Expr]) -> Estimate {
        self.filtered_within(schema, conditions, DEPTH_MAX)
    }

    fn filtered_within(&self, schema: &DFSchema, conditions: &[&Expr], depth: usize) -> Estimate {
        let mut passing = 1.0;
        let mut ranges: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        for condition in conditions {
            match self.range_of(schema, condition) {
                Some((column, (low, high))) => {
                    let range = ranges.entry(column).or_insert((f64::NEG_INFINITY, f64::INFINITY));
                    *range = (range.0.max(low), range.1.min(high));
                }
                None => passing *= self.selectivity(schema, condition, depth),
            }
        }
        for (column, (low, high)) in ranges {
            passing *= self.columns[column].within(low, high, self.rows);
        }
        // What came last may be beyond what is known: that nothing passes is never said.
        let rows = (self.rows * passing).max(1.0).min(self.rows);
        Estimate { rows, ..self.clone() }.at_most(f64::INFINITY)
    }

    /// What part of the rows passes these filters on rows with this schema.
    pub(crate) fn passing(&self, schema: &DFSchema, filters: &[Expr]) -> f64 {
        let conditions: Vec<&Expr> = filters.iter().flat_map(split_conjunction).collect();
        self.filtered(schema, &conditions).rows / self.rows.max(1.0)
    }

    /// The same rows, of which there are no more than so many.
    fn at_most(mut self, rows: f64) -> Estimate {
        self.rows = self.rows.min(rows);
        for column in &mut self.columns {
            column.distinct = column.distinct.map(|distinct| distinct.min(self.rows).max(1.0));
        }
        self
    }

    fn of_groups(aggregate: &Aggregate, input: &Estimate) -> Option<Estimate> {
        let schema = aggregate.input.schema();
        let mut columns: Vec<Values> = aggregate.group_expr.iter().map(|expr| input.values(schema, expr)).collect();
        let rows = match columns.is_empty() {
            true => 1.0,
            false => groups(input.rows, columns.iter().map(|of| of.distinct)),
        };
        columns.resize(aggregate.schema.fields().len(), Values::default());
        Some(Estimate { rows, columns }.at_most(f64::INFINITY))
    }

    fn of_join(join: &Join, left: &Estimate, right: &Estimate) -> Option<Estimate> {
        let key = join
            .on
            .iter()
            .map(|(one, other)| (left.distinct(join.left.schema(), one), right.distinct(join.right.schema(), other)));
        let (of_left, of_right) = key_values(key.clone(), left.rows, right.rows);
        let mut inner = left.rows * right.rows * equal_pairs(key, left.rows, right.rows);
        if let Some(filter) = &join.filter {
            inner *= SELECTIVITY.powi(i32::try_from(split_conjunction(filter).len()).unwrap_or(1));
        }
        // Of the rows of one side, the part for which there is one on the other.
        let matched = |of: f64, others: f64| if join.on.is_empty() { 1.0 } else { (others / of).min(1.0) };
        let (one, other) = (matched(of_left, of_right), matched(of_right, of_left));
        let both = || left.columns.iter().chain(&right.columns).copied().collect();
        let (rows, columns) = match join.join_type {
            JoinType::Inner => (inner, both()),
            JoinType::Left => (inner.max(left.rows), both()),
            JoinType::Right => (inner.max(right.rows), both()),
            JoinType::Full => (inner.max(left.rows).max(right.rows), both()),
            JoinType::LeftSemi => (left.rows * one, left.columns.clone()),
            JoinType::RightSemi => (right.rows * other, right.columns.clone()),
            JoinType::LeftAnti => (left.rows * (1.0 - one).max(SELECTIVITY), left.columns.clone()),
            JoinType::RightAnti => (right.rows * (1.0 - other).max(SELECTIVITY), right.columns.clone()),
            _ => return None,
        };
        Some(Estimate { rows, columns }.at_most(f64::INFINITY))
    }

    /// What is known of the values of an expression over rows with this schema.
    fn values(&self, schema: &DFSchema, expr: &Expr) -> Values {
        match expr {
            Expr::Column(column) => self.column(schema, column).copied().unwrap_or_default(),
            Expr::Alias(alias) => self.values(schema, &alias.expr),
            Expr::Literal(..) => Values { distinct: Some(1.0), ..Values::default() },
            // A function of one column has no more values than the column.
            computed => match computed.column_refs().into_iter().collect::<Vec<_>>().as_slice() {
                [column] => {
                    Values { distinct: self.column(schema, column).and_then(|of| of.distinct), ..Values::default() }
                }
                _ => Values::default(),
            },
        }
    }

    fn column(&self, schema: &DFSchema, column: &Column) -> Option<&Values> {
        self.columns.get(schema.maybe_index_of_column(column)?)
    }

    /// How many different values an expression has; where nothing is known, as many as there are rows.
    pub(crate) fn distinct(&self, schema: &DFSchema, expr: &Expr) -> f64 {
        self.values(schema, expr).distinct.unwrap_or(self.rows).clamp(1.0, self.rows.max(1.0))
    }

    /// The column and the values of it, if a condition says that these lie between two.
    fn range_of(&self, schema: &DFSchema, condition: &Expr) -> Option<(usize, (f64, f64))> {
        let column = |expr: &Expr| {
            let at = schema.maybe_index_of_column(plain(expr)?)?;
            self.columns.get(at)?.range.map(|_| at)
        };
        match condition {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let (at, value, op) = match (literal(left), literal(right)) {
                    (None, Some(value)) => (column(left)?, value, *op),
                    (Some(value), None) => (column(right)?, value, op.swap()?),
                    _ => return None,
                };
                let value = number(value)?;
                match op {
                    Operator::Lt | Operator::LtEq => Some((at, (f64::NEG_INFINITY, value))),
                    Operator::Gt | Operator::GtEq => Some((at, (value, f64::INFINITY))),
                    _ => None,
                }
            }
            Expr::Between(Between { expr, negated: false, low, high }) => {
                Some((column(expr)?, (number(literal(low)?)?, number(literal(high)?)?)))
            }
            _ => None,
        }
    }

    /// What part of rows with this schema passes a condition of at most this depth.
    fn selectivity(&self, schema: &DFSchema, condition: &Expr, depth: usize) -> f64 {
        let Some(depth) = depth.checked_sub(1) else { return SELECTIVITY };
        let of = |expr: &Expr| self.selectivity(schema, expr, depth);
        let values = |expr: &Expr| plain(expr).and_then(|column| self.column(schema, column)).copied();
        let passing = match condition {
            Expr::Literal(ScalarValue::Boolean(value), _) => f64::from(u8::from(*value == Some(true))),
            Expr::Alias(alias) => of(&alias.expr),
            Expr::Not(inner) | Expr::IsNotTrue(inner) | Expr::IsFalse(inner) => 1.0 - of(inner),
            Expr::IsTrue(inner) | Expr::IsNotFalse(inner) => of(inner),
            Expr::IsNull(inner) => values(inner).and_then(|values| values.nulls).unwrap_or(NULLS),
            Expr::IsNotNull(inner) => 1.0 - values(inner).and_then(|values| values.nulls).unwrap_or(NULLS),
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
                let all = split_conjunction(left).into_iter().chain(split_conjunction(right)).collect::<Vec<_>>();
                return self.filtered_within(schema, &all, depth).rows / self.rows.max(1e-9);
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
                1.0 - (1.0 - of(left)) * (1.0 - of(right))
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let equal = || match (values(left), values(right)) {
                    (Some(one), Some(other)) => {
                        1.0 / [one.distinct, other.distinct].into_iter().flatten().fold(1.0 / EQUAL, f64::max)
                    }
                    (Some(of), None) => of.equal(literal(right)),
                    (None, Some(of)) => of.equal(literal(left)),
                    (None, None) => EQUAL,
                };
                match op {
                    Operator::Eq | Operator::IsNotDistinctFrom => equal(),
                    Operator::NotEq | Operator::IsDistinctFrom => 1.0 - equal(),
                    Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => {
                        match self.range_of(schema, condition) {
                            Some((at, (low, high))) => self.columns[at].within(low, high, self.rows),
                            None => RANGE,
                        }
                    }
                    _ => SELECTIVITY,
                }
            }
            Expr::Between(between) => match self.range_of(schema, condition) {
                Some((at, (low, high))) => self.columns[at].within(low, high, self.rows),
                None if between.negated => 1.0 - RANGE * RANGE,
                None => RANGE * RANGE,
            },
            Expr::InList(InList { expr, list, negated }) => {
                let of = values(expr).unwrap_or_default();
                let among = list.iter().map(|item| of.equal(literal(item))).sum::<f64>().min(1.0);
                if *negated { 1.0 - among } else { among }
            }
            Expr::ScalarFunction(call) if matches!(call.name(), "like" | "ilike" | "starts_with") => PATTERN,
            _ => SELECTIVITY,
        };
        passing.clamp(0.0, 1.0)
    }
}

impl Values {
    /// What part of the values equals one.
    fn equal(&self, value: Option<&ScalarValue>) -> f64 {
        let here = 1.0 - self.nulls.unwrap_or(0.0);
        let is_outside =
            self.range.zip(value.and_then(number)).is_some_and(|((low, high), value)| value < low || value > high);
        match self.distinct {
            _ if is_outside => 0.0,
            Some(distinct) => here / distinct.max(1.0),
            None => EQUAL,
        }
    }

    /// What part of the values of so many rows lies between two.
    fn within(&self, low: f64, high: f64, rows: f64) -> f64 {
        let here = 1.0 - self.nulls.unwrap_or(0.0);
        let Some((least, greatest)) = self.range else { return RANGE };
        let (low, high) = (low.max(least), high.min(greatest));
        let least_part = 1.0 / self.distinct.unwrap_or(rows).max(1.0);
        match greatest > least {
            _ if low > high => 0.0,
            true => here * ((high - low) / (greatest - least)).clamp(least_part.min(1.0), 1.0),
            false => here,
        }
    }
}

/// How many different values the columns of a key have together on each side of a join with so many rows: no more than there are rows.
fn key_values(key: impl Iterator<Item = (f64, f64)>, left: f64, right: f64) -> (f64, f64) {
    let (of_left, of_right) = key.fold((1.0, 1.0), |(one, other), (left, right)| (one * left, other * right));
    (of_left.min(left).max(1.0), of_right.min(right).max(1.0))
}

/// What part of all pairs of rows of two sides agrees in a key, by how many different values each of its columns has on each side. The values
/// of the side with fewer are among the other's; where several columns are the key, rows bound how many there are on the side that refers
/// to the other, so it is the other that counts.
pub(crate) fn equal_pairs(key: impl Iterator<Item = (f64, f64)> + Clone, left: f64, right: f64) -> f64 {
    let (of_left, of_right) = key_values(key.clone(), left, right);
    match key.count() {
        0 | 1 => 1.0 / of_left.max(of_right),
        _ => 1.0 / of_left.min(of_right),
    }
}

/// How many groups so many rows make, by columns with so many values.
fn groups(rows: f64, distinct: impl Iterator<Item = Option<f64>>) -> f64 {
    distinct.map(|of| of.unwrap_or(rows)).product::<f64>().min(rows)
}

/// The column that an expression is, under casts and names.
fn plain(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Column(column) => Some(column),
        Expr::Cast(cast) => plain(&cast.expr),
        Expr::TryCast(cast) => plain(&cast.expr),
        Expr::Alias(alias) => plain(&alias.expr),
        _ => None,
    }
}

fn literal(expr: &Expr) -> Option<&ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value),
        Expr::Cast(cast) => literal(&cast.expr),
        Expr::Alias(alias) => literal(&alias.expr),
        _ => None,
    }
}

fn is_whole(ty: &DataType) -> bool {
    ty.is_integer() || *ty == DataType::Date32
}

/// A value as a point on a line, if its type has one.
fn number(value: &ScalarValue) -> Option<f64> {
    match value {
        ScalarValue::Int16(value) => value.map(f64::from),
        ScalarValue::Int32(value) | ScalarValue::Date32(value) => value.map(f64::from),
        ScalarValue::Int64(value)
        | ScalarValue::Time64Microsecond(value)
        | ScalarValue::TimestampMicrosecond(value, _) => value.map(|value| value as f64),
        ScalarValue::UInt32(value) => value.map(f64::from),
        ScalarValue::UInt64(value) => value.map(|value| value as f64),
        ScalarValue::Float32(value) => value.map(f64::from),
        ScalarValue::Float64(value) => *value,
        ScalarValue::Decimal128(value, _, scale) => value.map(|value| value as f64 / 10_f64.powi(i32::from(*scale))),
        ScalarValue::Decimal256(value, _, scale) => {
            value.map(|value| value.to_string().parse::<f64>().unwrap_or(0.0) / 10_f64.powi(i32::from(*scale)))
        }
        _ => None,
    }
    .filter(|number| number.is_finite())
}
