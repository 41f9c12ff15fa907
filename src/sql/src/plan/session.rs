//! Statements about the session: checked as far as that needs no session, and handed on.

use super::privileges::check_superuser;
use super::resolver::Dependencies;
use super::{ConstraintKind, Plan, PlanContext};
use crate::bind::{self, Params, coerce};
use crate::names::{effective_search_path, resolve_item, unknown_relation};
use crate::vars::{canonical_name, unrecognized};
use datafusion::common::DFSchema;
use datafusion::logical_expr::Expr;
use engine::error::{PlanNotice, SqlError};
use pgrepr::options::EncodeOptions;
use repr::sqlstate::SqlState;
use repr::{Datum, PgType, RelationDesc};
use sql_syntax::ast::{Deferral, SetConstraints, Statement, Upkeep};
use sqlparser::ast as sp;
use std::sync::Arc;
use std::time::Duration;

pub(super) fn plan_session(ctx: &PlanContext<'_>, statement: &Statement) -> Result<Plan, SqlError> {
    const SYSTEM: &str = "permission denied to set a system parameter";
    Ok(match statement {
        Statement::ShowVariable(name) => plan_show_variable(name)?,
        Statement::ShowIsolationLevel => Plan::ShowIsolationLevel { desc: one_text("transaction_isolation") },
        Statement::ShowAll => Plan::ShowAll {
            desc: Arc::new(RelationDesc::new(
                ["name", "setting", "description"].map(|name| (name.to_owned(), PgType::Text, false)),
            )),
        },
        Statement::Set { variable, value, local } => {
            Plan::Set { variable: variable.clone(), value: value.clone(), local: *local }
        }
        Statement::SetTransaction(modes) => Plan::SetTransaction(*modes),
        Statement::SetConstraints(set) => plan_set_constraints(ctx, set)?,
        Statement::SetSessionCharacteristics(modes) => Plan::SetSessionCharacteristics(*modes),
        Statement::Reset(name) => Plan::Reset(name.clone()),
        Statement::AlterSystemSet { variable, value } => {
            check_superuser(ctx, SYSTEM)?;
            if canonical_name(variable) == Some("role") {
                return Err(SqlError::unsupported("ALTER SYSTEM SET role"));
            }
            Plan::AlterSystemSet { variable: variable.clone(), value: value.clone() }
        }
        Statement::AlterSystemReset(name) => {
            check_superuser(ctx, SYSTEM)?;
            if let Some(name) = name
                && canonical_name(name).is_none()
            {
                return Err(unrecognized(name));
            }
            Plan::AlterSystemReset(name.clone())
        }
        Statement::Begin(modes) => Plan::Begin(*modes),
        Statement::Commit { chain } => Plan::Commit { chain: *chain },
        Statement::Rollback { chain } => Plan::Rollback { chain: *chain },
        Statement::Savepoint(name) => Plan::Savepoint(name.clone()),
        Statement::ReleaseSavepoint(name) => Plan::ReleaseSavepoint(name.clone()),
        Statement::RollbackToSavepoint(name) => Plan::RollbackToSavepoint(name.clone()),
        Statement::Prepare { name, types, statement, sql } => {
            Plan::Prepare { name: name.clone(), types: types.clone(), statement: statement.clone(), sql: sql.clone() }
        }
        Statement::Execute { name, arguments } => Plan::Execute { name: name.clone(), arguments: arguments.clone() },
        Statement::Deallocate(name) => Plan::Deallocate(name.clone()),
        Statement::Fetch { name, count, skip, timeout } => {
            let timeout = timeout.as_deref().map(plan_timeout).transpose()?;
            Plan::Fetch { name: name.clone(), count: *count, skip: *skip, timeout }
        }
        Statement::Close(name) => Plan::Close(name.clone()),
        Statement::Discard(target) => Plan::Discard(*target),
        Statement::Unlisten(_) => Plan::NoOp { tag: "UNLISTEN", notices: Vec::new() },
        Statement::Listen(_) => {
            // Registering would promise notifications that never come.
            return Err(SqlError::unsupported("LISTEN"));
        }
        other => return Err(SqlError::internal(format!("{} was not planned", other.name()))),
    })
}

/// FETCH … WITH (TIMEOUT = interval).
fn plan_timeout(text: &str) -> Result<Duration, SqlError> {
    let invalid = || SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid FETCH timeout: \"{text}\""));
    let datum = pgrepr::text::decode_text(&PgType::Interval, text, &EncodeOptions::default()).map_err(|_| invalid())?;
    let Datum::Interval(months, days, micros) = datum else { return Err(invalid()) };
    let days = i64::from(months) * 30 + i64::from(days);
    let micros = days.checked_mul(86_400_000_000).and_then(|of_days| of_days.checked_add(micros));
    micros.and_then(|micros| u64::try_from(micros).ok()).map(Duration::from_micros).ok_or_else(invalid)
}

/// SHOW x. Parameters with a dot may be a session's own, which the adapter knows.
fn plan_show_variable(name: &str) -> Result<Plan, SqlError> {
    let variable = match canonical_name(name) {
        Some(name) => name.to_owned(),
        None if name.contains('.') => name.to_owned(),
        None => return Err(unrecognized(name)),
    };
    let desc = one_text(&variable);
    Ok(Plan::ShowVariable { variable, desc })
}

fn one_text(column: &str) -> Arc<RelationDesc> {
    Arc::new(RelationDesc::new([(column.to_owned(), PgType::Text, false)]))
}

pub(super) fn plan_argument(ctx: &PlanContext<'_>, argument: &sp::Expr, ty: &PgType) -> Result<Expr, SqlError> {
    let dependencies = Dependencies::new();
    let resolver = dependencies.resolver(ctx);
    let mut params = Params::none();
    let typed = bind::plan_expr(argument, &DFSchema::empty(), &mut params, &resolver)?;
    if !dependencies.all().is_empty() {
        return Err(SqlError::unsupported("a subquery in an EXECUTE argument"));
    }
    let from = typed.ty.clone();
    coerce::assign(typed, ty, "", &mut params, &resolver).map_err(|error| {
        if error.sqlstate != SqlState::DATATYPE_MISMATCH {
            return error;
        }
        SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!("parameter of type {} cannot be coerced to the expected type {}", from.name(), ty.name()),
        )
        .with_hint("You will need to rewrite or cast the expression.")
    })
}

/// SET CONSTRAINTS. A name without a schema is looked for along the search path. Errors: 42704; 42809 for a constraint that is not
/// deferrable.
fn plan_set_constraints(ctx: &PlanContext<'_>, set: &SetConstraints) -> Result<Plan, SqlError> {
    let Some(names) = &set.names else {
        return Ok(Plan::SetConstraints { constraints: None, to: set.to });
    };
    let path = effective_search_path(ctx.catalog, ctx.scope());
    let mut constraints = Vec::new();
    for name in names {
        let schemas = match name.parts.as_slice() {
            [_] => path.clone(),
            [.., schema, _] => {
                let database = ctx.catalog.database_by_name(&ctx.session.database).map(|database| database.id);
                let found = ctx.catalog.schema_by_name(database, schema);
                vec![found.ok_or_else(|| {
                    let message = format!("schema \"{schema}\" does not exist");
                    SqlError::new(SqlState::INVALID_SCHEMA_NAME, message)
                })?]
            }
            [] => Vec::new(),
        };
        let mut found = Vec::new();
        for schema in schemas {
            let items = ctx.catalog.items(schema.id);
            let all = items.iter().flat_map(|item| item.constraints().iter());
            found.extend(all.filter(|constraint| constraint.name == name.item()).cloned());
            if !found.is_empty() {
                break;
            }
        }
        if found.is_empty() {
            let message = format!("constraint \"{}\" does not exist", name.item());
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        }
        for constraint in found {
            match constraint.kind {
                ConstraintKind::Foreign(foreign) if foreign.deferral != Deferral::Never => {
                    constraints.push(constraint.oid);
                }
                _ if set.to == Deferral::Immediate => {}
                _ => {
                    let message = format!("constraint \"{}\" is not deferrable", constraint.name);
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                }
            }
        }
    }
    Ok(Plan::SetConstraints { constraints: Some(constraints), to: set.to })
}

/// VACUUM and ANALYZE: batches are compacted as they are written, and the planner needs no statistics.
pub(super) fn plan_upkeep(ctx: &PlanContext<'_>, upkeep: &Upkeep) -> Result<Plan, SqlError> {
    for name in &upkeep.tables {
        resolve_item(ctx.catalog, ctx.scope(), name)?.ok_or_else(|| unknown_relation(name))?;
    }
    let notice = PlanNotice {
        sqlstate: SqlState::SUCCESSFUL_COMPLETION,
        message: format!("{} has nothing to do", upkeep.verb),
        detail: Some("What is stored is compacted all the time, and plans do not depend on statistics.".to_owned()),
    };
    Ok(Plan::NoOp { tag: upkeep.verb, notices: vec![notice] })
}
