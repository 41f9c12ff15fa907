//! How a query is read: now, as of a given time, or followed from there.

use super::resolver::Dependencies;
use super::{PlanContext, SelectPlan, query};
use crate::bind::{self, Params, coerce};
use crate::names::{resolve_item, unknown_relation};
use arrow::compute::SortOptions;
use arrow::datatypes::{Field, FieldRef, Schema};
use datafusion::common::DFSchema;
use datafusion::logical_expr::Expr;
use engine::error::SqlError;
use engine::names::ObjectKind;
use repr::relation::ColumnOrigin;
use repr::sqlstate::SqlState;
use repr::types::NumericDisplay;
use repr::{GlobalId, PgType, RelationDesc};
use sql_syntax::ast::{AsOf, Envelope, OrderBy, Statement, Subscribe, SubscribeTo};
use sqlparser::ast as sp;
use std::sync::Arc;

/// A query and how it is read.
#[derive(Clone, Debug)]
pub struct ReadPlan {
    /// The query.
    pub select: SelectPlan,
    /// How.
    pub how: How,
    /// What the client sees.
    pub desc: Arc<RelationDesc>,
}

/// How a query is read.
#[derive(Clone, Debug)]
pub enum How {
    /// As every query.
    Now,
    /// As of a time.
    AsOf(TimePlan),
    /// Followed.
    Subscribe(Box<SubscribePlan>),
}

/// A time: an expression without columns, whose value is microseconds since the epoch or a timestamp with time zone.
#[derive(Clone, Debug)]
pub struct TimePlan {
    /// The time.
    pub at: Expr,
    /// AT LEAST: or the earliest readable time after it.
    pub at_least: bool,
}

/// SUBSCRIBE.
#[derive(Clone, Debug)]
pub struct SubscribePlan {
    /// The relation, if that is all that is followed.
    pub object: Option<GlobalId>,
    /// The form of changes.
    pub envelope: EnvelopePlan,
    /// Whether it begins with what is there.
    pub snapshot: bool,
    /// Whether it tells how far time has come.
    pub progress: bool,
    /// Where it begins; now, if not given.
    pub as_of: Option<TimePlan>,
    /// Before which time it ends.
    pub up_to: Option<TimePlan>,
}

/// The form in which changes are given; columns by position.
#[derive(Clone, Debug, PartialEq)]
pub enum EnvelopePlan {
    /// Rows with multiplicities.
    Diff,
    /// Those of one time in this order.
    Within(Vec<(SortColumn, SortOptions)>),
    /// By key: the row it has now.
    Upsert(Keyed),
    /// By key: the row before and after.
    Debezium(Keyed),
}

/// What changes of one time are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortColumn {
    /// The multiplicity.
    Diff,
    /// A column.
    Row(usize),
}

/// The columns of a row, taken apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Keyed {
    /// Those of the key, as they were listed.
    pub key: Vec<usize>,
    /// All others.
    pub value: Vec<usize>,
}

impl ReadPlan {
    /// For each column of the result that is one of a relation, which it is. Those of SUBSCRIBE are its own.
    pub fn origins(&self) -> &[Option<ColumnOrigin>] {
        match self.how {
            How::Now | How::AsOf(_) => &self.select.origins,
            How::Subscribe(_) => &[],
        }
    }

    /// A query, read as every query.
    pub fn now(select: SelectPlan) -> ReadPlan {
        let desc = Arc::clone(&select.desc);
        ReadPlan { select, how: How::Now, desc }
    }
}

/// Plans a query, with or without AS OF, or SUBSCRIBE.
pub(super) fn plan_read(
    ctx: &PlanContext<'_>,
    statement: &Statement,
    params: &mut Params,
) -> Result<ReadPlan, SqlError> {
    match statement {
        Statement::Query(query) => Ok(ReadPlan::now(query::plan_select(ctx, query, params)?)),
        Statement::QueryAsOf { query, as_of } => {
            let read = ReadPlan::now(query::plan_select(ctx, query, params)?);
            Ok(ReadPlan { how: How::AsOf(plan_as_of(ctx, as_of)?), ..read })
        }
        Statement::Subscribe(subscribe) => plan_subscribe(ctx, subscribe),
        other => Err(SqlError::internal(format!("{} is not read", other.name()))),
    }
}

fn plan_as_of(ctx: &PlanContext<'_>, as_of: &AsOf) -> Result<TimePlan, SqlError> {
    Ok(TimePlan { at: plan_time(ctx, &as_of.at, "AS OF")?, at_least: as_of.at_least })
}

/// Binds a time: numbers become int8, everything else timestamptz.
fn plan_time(ctx: &PlanContext<'_>, time: &sp::Expr, clause: &str) -> Result<Expr, SqlError> {
    let dependencies = Dependencies::new();
    let resolver = dependencies.resolver(ctx);
    let mut params = Params::none();
    let typed = bind::plan_expr(time, &DFSchema::empty(), &mut params, &resolver)?;
    let ty = match typed.ty {
        PgType::Int2 | PgType::Int4 | PgType::Int8 | PgType::Numeric(_) => PgType::Int8,
        _ => PgType::Timestamptz,
    };
    if !dependencies.all().is_empty() {
        return Err(SqlError::unsupported(format!("a subquery in {clause}")));
    }
    coerce::assign(typed, &ty, "", &mut params, &resolver).map_err(|error| {
        if error.sqlstate != SqlState::DATATYPE_MISMATCH {
            return error;
        }
        SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!("{clause} takes microseconds since the epoch or a timestamp"),
        )
    })
}

fn plan_subscribe(ctx: &PlanContext<'_>, subscribe: &Subscribe) -> Result<ReadPlan, SqlError> {
    let (object, query) = match &subscribe.to {
        SubscribeTo::Query(query) => (None, query.clone()),
        SubscribeTo::Object(name) => {
            let item = resolve_item(ctx.catalog, ctx.scope(), name)?.ok_or_else(|| unknown_relation(name))?;
            if item.object_kind() == ObjectKind::Index {
                let message = format!("\"{}\" is an index", item.name.item);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            (Some(item.id), sql_syntax::parser::parse_query(&format!("SELECT * FROM {}", item.name))?)
        }
    };
    // What is followed is maintained, from tables as a view is.
    let ctx = PlanContext { from_tables: true, ..*ctx };
    let select = query::plan_select(&ctx, &query, &mut Params::none())?;
    let envelope = plan_envelope(&select.desc, &subscribe.envelope)?;
    let desc = Arc::new(describe(&select.desc, &envelope, subscribe.progress));
    let as_of = subscribe.as_of.as_ref().map(|as_of| plan_as_of(&ctx, as_of)).transpose()?;
    let up_to = match &subscribe.up_to {
        Some(up_to) => Some(TimePlan { at: plan_time(&ctx, up_to, "UP TO")?, at_least: false }),
        None => None,
    };
    let (snapshot, progress) = (subscribe.snapshot, subscribe.progress);
    let plan = SubscribePlan { object, envelope, snapshot, progress, as_of, up_to };
    Ok(ReadPlan { select, how: How::Subscribe(Box::new(plan)), desc })
}

fn plan_envelope(desc: &RelationDesc, envelope: &Envelope) -> Result<EnvelopePlan, SqlError> {
    let position = |name: &String| {
        desc.columns
            .iter()
            .position(|column| column.name == *name)
            .ok_or_else(|| SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist")))
    };
    let keyed = |names: &[String]| {
        let key = names.iter().map(position).collect::<Result<Vec<_>, _>>()?;
        let value = (0..desc.arity()).filter(|at| !key.contains(at)).collect();
        Ok::<_, SqlError>(Keyed { key, value })
    };
    let sorted = |OrderBy { column, descending, nulls_first }: &OrderBy| {
        let by = if column == DIFF { SortColumn::Diff } else { SortColumn::Row(position(column)?) };
        Ok::<_, SqlError>((by, SortOptions { descending: *descending, nulls_first: *nulls_first }))
    };
    Ok(match envelope {
        Envelope::Diff => EnvelopePlan::Diff,
        Envelope::Within(order) => EnvelopePlan::Within(order.iter().map(sorted).collect::<Result<_, _>>()?),
        Envelope::Upsert(names) => EnvelopePlan::Upsert(keyed(names)?),
        Envelope::Debezium(names) => EnvelopePlan::Debezium(keyed(names)?),
    })
}

const DIFF: &str = "mz_diff";

/// The columns of a SUBSCRIBE's result.
fn describe(rows: &RelationDesc, envelope: &EnvelopePlan, progress: bool) -> RelationDesc {
    let own = |name: &str, ty: PgType| Arc::new(ty.field(name, true));
    let column = |at: &usize| -> FieldRef {
        let field = &rows.schema.fields()[*at];
        Arc::new(Field::clone(field).with_nullable(true))
    };
    let prefixed = |prefix: &str, at: &usize| {
        let field = Field::clone(&column(at));
        let name = format!("{prefix}{}", field.name());
        Arc::new(field.with_name(name))
    };
    let mut fields = vec![own("mz_timestamp", PgType::Numeric(NumericDisplay::Declared(20, 0)))];
    if progress {
        fields.push(own("mz_progressed", PgType::Bool));
    }
    match envelope {
        EnvelopePlan::Diff | EnvelopePlan::Within(_) => {
            fields.push(own(DIFF, PgType::Int8));
            fields.extend((0..rows.arity()).map(|at| column(&at)));
        }
        EnvelopePlan::Upsert(keyed) => {
            fields.push(own("mz_state", PgType::Text));
            fields.extend(keyed.key.iter().chain(&keyed.value).map(column));
        }
        EnvelopePlan::Debezium(keyed) => {
            fields.push(own("mz_state", PgType::Text));
            fields.extend(keyed.key.iter().map(column));
            fields.extend(keyed.value.iter().map(|at| prefixed("before_", at)));
            fields.extend(keyed.value.iter().map(|at| prefixed("after_", at)));
        }
    }
    RelationDesc::from_schema(Arc::new(Schema::new(fields)))
}
