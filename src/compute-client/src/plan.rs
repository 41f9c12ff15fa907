//! Which SELECTs a peek can answer, and how.
//!
//! A plan qualifies when it is a chain of filter, projection, sort and limit over one indexed collection. The chain is
//! folded into one [`PeekPlan`] over the stored row: predicates, output expressions, sort keys, limit. Predicates that fix
//! the first columns of an index's key become look-ups; the rest stays as a residual filter. If nothing is left but
//! columns, the rows go to the wire as they are stored ([`Output::Columns`]).

mod fold;
mod keys;
pub mod lir;
pub mod lower;
pub mod reuse;
pub mod share;

use crate::index::IndexHandle;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::DFSchemaRef;
use datafusion::logical_expr::{Expr, LogicalPlan, SortExpr};
use repr::{Datum, GlobalId};
use std::sync::Arc;

pub use keys::LOOKUPS_MAX;

/// An index as the planner sees it.
pub struct IndexInfo {
    /// Where it is read.
    pub handle: Arc<IndexHandle>,
    /// Its name, for EXPLAIN.
    pub name: String,
    /// Its cluster, which is preferred when it is the session's.
    pub cluster: String,
    /// For each component of the key: the column it is, or `None` for an expression.
    pub key: Vec<Option<usize>>,
    /// The columns of its rows.
    pub schema: SchemaRef,
}

/// A SELECT that reads one index.
pub struct PeekPlan {
    /// The index.
    pub index: Arc<IndexInfo>,
    /// The types of its rows.
    pub row_types: Arc<[DataType]>,
    /// Its rows' columns, for expressions.
    pub schema: DFSchemaRef,
    /// Which keys are read.
    pub access: Access,
    /// What the rows must satisfy besides.
    pub residual: Vec<Expr>,
    /// What becomes of a row.
    pub output: Output,
    /// ORDER BY, over the stored columns.
    pub sort: Vec<SortExpr>,
    /// OFFSET.
    pub skip: usize,
    /// LIMIT.
    pub fetch: Option<usize>,
}

/// Which keys a peek reads.
#[derive(Clone, Debug, PartialEq)]
pub enum Access {
    /// All of them.
    Scan,
    /// For each of the first key columns, the values it may have; one look-up per combination.
    Lookup(Vec<Vec<KeyValue>>),
}

/// A value that a key column is compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyValue {
    /// Where it comes from.
    pub source: KeySource,
    /// The key column's type.
    pub data_type: DataType,
}

/// Where a key's value comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum KeySource {
    /// The statement's text.
    Constant(Datum<'static>),
    /// Parameter `$n`, from 0.
    Parameter(usize),
    /// Parameter `$n`, from 0, as a char of that length.
    Padded(usize, u32),
}

/// The columns of a peek's result.
pub enum Output {
    /// Stored columns, in this order: rows are decoded straight to the wire.
    Columns(Arc<[usize]>),
    /// Expressions over the stored columns, and the schema of the result.
    Expressions(Vec<Expr>, SchemaRef),
}

/// The indexes of a collection.
pub type IndexesOf<'a> = &'a dyn Fn(GlobalId) -> Vec<Arc<IndexInfo>>;

/// The peek that answers an optimised plan, if there is one. Between indexes that serve equally well, one in `cluster` wins.
pub fn peek_plan(plan: &LogicalPlan, indexes: IndexesOf<'_>, cluster: &str) -> Option<PeekPlan> {
    let chain = fold::fold(plan)?;
    let (access, consumed, index) = indexes(chain.collection)
        .into_iter()
        .map(|index| {
            let (access, consumed) = keys::access(&index, &chain.predicates);
            (access, consumed, index)
        })
        .max_by_key(|(access, _, index)| (keys::rank(access, index), index.cluster == cluster))?;
    let residual = chain
        .predicates
        .into_iter()
        .enumerate()
        .filter(|(position, _)| !consumed.contains(position))
        .map(|(_, predicate)| predicate)
        .collect();
    let row_types = index.schema.fields().iter().map(|field| field.data_type().clone()).collect();
    let schema = fold::stored_schema(&index.schema)?;
    let output = match fold::as_columns(&chain.output, &index.schema) {
        Some(columns) => Output::Columns(columns),
        None => Output::Expressions(chain.output, Arc::new(plan.schema().as_arrow().clone())),
    };
    Some(PeekPlan {
        index,
        row_types,
        schema,
        access,
        residual,
        output,
        sort: chain.sort,
        skip: chain.skip,
        fetch: chain.fetch,
    })
}

impl PeekPlan {
    /// A plan that reads an index without filter, order or limit.
    pub fn scan(index: Arc<IndexInfo>, access: Access, output: Output) -> Option<PeekPlan> {
        let row_types = index.schema.fields().iter().map(|field| field.data_type().clone()).collect();
        let schema = fold::stored_schema(&index.schema)?;
        let (residual, sort) = (Vec::new(), Vec::new());
        Some(PeekPlan { index, row_types, schema, access, residual, output, sort, skip: 0, fetch: None })
    }

    /// Whether rows can go from the snapshot to the wire without being evaluated.
    pub fn is_direct(&self) -> bool {
        self.residual.is_empty() && self.sort.is_empty() && matches!(self.output, Output::Columns(_))
    }

    /// How many columns of the key are looked up.
    pub fn lookup_width(&self) -> usize {
        match &self.access {
            Access::Scan => 0,
            Access::Lookup(columns) => columns.len(),
        }
    }

    /// One line that says what is read and how.
    pub fn describe(&self) -> String {
        let access = match &self.access {
            Access::Scan => "full scan".to_owned(),
            Access::Lookup(columns) => {
                let of = |position: usize| {
                    let column = self.index.key[position].map_or("?", |column| self.index.schema.field(column).name());
                    let values: Vec<String> = columns[position].iter().map(describe_value).collect();
                    match values.as_slice() {
                        [one] => format!("{column} = {one}"),
                        many => format!("{column} IN ({})", many.join(", ")),
                    }
                };
                let parts: Vec<String> = (0..columns.len()).map(of).collect();
                let kind = if columns.len() == self.index.key.len() { "lookup" } else { "prefix lookup" };
                format!("{kind} {}", parts.join(" AND "))
            }
        };
        format!("{} ({access})", self.index.name)
    }
}

fn describe_value(value: &KeyValue) -> String {
    match &value.source {
        KeySource::Parameter(position) | KeySource::Padded(position, _) => format!("${}", position + 1),
        KeySource::Constant(Datum::Text(text)) => format!("'{text}'"),
        KeySource::Constant(Datum::Bool(v)) => v.to_string(),
        KeySource::Constant(Datum::Int2(v)) => v.to_string(),
        KeySource::Constant(Datum::Int4(v)) => v.to_string(),
        KeySource::Constant(Datum::Int8(v)) => v.to_string(),
        KeySource::Constant(other) => format!("{other:?}"),
    }
}

/// The best index and access for a scan under filters that will be applied again above it.
pub fn scan_access(
    indexes: impl Iterator<Item = Arc<IndexInfo>>,
    filters: &[Expr],
) -> Option<(Arc<IndexInfo>, Access)> {
    let filters: Vec<Expr> = filters.iter().cloned().filter_map(fold::unqualified).collect();
    indexes
        .map(|index| (keys::access(&index, &filters).0, index))
        // A parameter that has no value yet cannot be looked up.
        .filter(|(access, _)| !access.has_parameters())
        .max_by_key(|(access, index)| keys::rank(access, index))
        .map(|(access, index)| (index, access))
}

impl Access {
    fn has_parameters(&self) -> bool {
        match self {
            Access::Scan => false,
            Access::Lookup(columns) => {
                columns.iter().flatten().any(|value| !matches!(value.source, KeySource::Constant(_)))
            }
        }
    }
}

/// An expression over one relation with its columns unqualified, as the schemas of stored rows have them.
pub fn unqualified(expr: Expr) -> Option<Expr> {
    fold::unqualified(expr)
}
