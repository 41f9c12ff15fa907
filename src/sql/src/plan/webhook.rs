//! Webhooks: the condition, bound over one row of what it reads, and the statement that makes one; and secrets.

use super::constraint::bind_check;
use super::{CatalogView, PlanContext};
use crate::secret::SecretBytes;
use crate::webhook::{InputDef, WebhookCheckDef, WebhookDef};
use datafusion::common::DFSchema;
use datafusion::logical_expr::Expr;
use engine::SessionInfo;
use engine::error::SqlError;
use engine::names::SchemaId;
use repr::GlobalId;
use sql_syntax::ast::visit::visit_expressions_mut;
use sql_syntax::ast::{BodyFormat, CheckOf, HeaderFilter, MappedHeader};
use sql_syntax::names::{FullName, quote_ident, quote_literal};
use sql_syntax::parser::fold;
use sqlparser::ast as sp;
use std::ops::ControlFlow;
use std::sync::Arc;

/// CREATE SECRET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateSecretPlan {
    /// In which schema.
    pub schema: SchemaId,
    /// Its full name.
    pub name: FullName,
    /// Its value.
    pub value: SecretBytes,
    /// Whether IF NOT EXISTS was given, should the name be taken meanwhile.
    pub if_not_exists: bool,
}

/// ALTER SECRET … AS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterSecretPlan {
    /// Which.
    pub id: GlobalId,
    /// Its new value.
    pub value: SecretBytes,
}

/// A condition, over the columns of [`WebhookCheckDef::desc`]. Errors: those of a CHECK.
pub fn plan_webhook_check(ctx: &PlanContext<'_>, check: &WebhookCheckDef) -> Result<Expr, SqlError> {
    let session = SessionInfo { locale: check.locale, ..ctx.session.clone() };
    let ctx = PlanContext { session: &session, ..*ctx };
    let schema = DFSchema::try_from(Arc::clone(&check.desc().schema))?;
    let mut condition = sql_syntax::parser::parse_expr(&check.sql)?;
    let headers = check.inputs.iter().filter(|input| input.of == CheckOf::Headers);
    let headers: Vec<&str> = headers.map(|input| input.name.as_str()).collect();
    as_texts(&mut condition, &headers);
    bind_check(&ctx, &condition, &schema)
}

/// Has `headers -> name` be a text: headers are texts, and in Materialize a map of these.
fn as_texts(condition: &mut sp::Expr, headers: &[&str]) {
    let _never = visit_expressions_mut(condition, |expr| {
        if let sp::Expr::BinaryOp { left, op: op @ sp::BinaryOperator::Arrow, .. } = expr
            && matches!(left.as_ref(), sp::Expr::Identifier(name) if headers.contains(&fold(name).as_str()))
        {
            *op = sp::BinaryOperator::LongArrow;
        }
        ControlFlow::<()>::Continue(())
    });
}

/// What stands behind `CREATE SOURCE name`.
pub(super) fn webhook_sql(catalog: &dyn CatalogView, webhook: &WebhookDef) -> String {
    let mut sql = format!("FROM WEBHOOK BODY FORMAT {}", body_sql(&webhook.body));
    if let Some(HeaderFilter { wanted, unwanted }) = &webhook.headers {
        sql += " INCLUDE HEADERS";
        let wanted = wanted.iter().map(|name| quote_literal(name));
        let unwanted = unwanted.iter().map(|name| format!("NOT {}", quote_literal(name)));
        let names: Vec<String> = wanted.chain(unwanted).collect();
        if !names.is_empty() {
            sql += &format!(" ({})", names.join(", "));
        }
    }
    for MappedHeader { header, column, bytes } in &webhook.mapped {
        let bytes = if *bytes { " BYTES" } else { "" };
        sql += &format!(" INCLUDE HEADER {} AS {}{bytes}", quote_literal(header), quote_ident(column));
    }
    if let Some(check) = &webhook.check {
        let inputs: Vec<String> = check.inputs.iter().map(|input| input_sql(catalog, input)).collect();
        let with = if inputs.is_empty() { String::new() } else { format!("WITH ({}) ", inputs.join(", ")) };
        sql += &format!(" CHECK ({with}{})", check.sql);
    }
    sql
}

fn body_sql(body: &BodyFormat) -> String {
    match body {
        BodyFormat::Text => "TEXT".to_owned(),
        BodyFormat::Json => "JSON".to_owned(),
        BodyFormat::JsonArray => "JSON ARRAY".to_owned(),
        BodyFormat::Bytes => "BYTES".to_owned(),
        BodyFormat::Csv(csv) => {
            let columns: Vec<String> = csv.columns.iter().map(|name| quote_ident(name)).collect();
            let columns = match csv.header {
                true => format!("HEADER ({})", columns.join(", ")),
                false => format!("{} COLUMNS", columns.len()),
            };
            let delimiter = match csv.delimiter {
                ',' => String::new(),
                other => format!(" DELIMITED BY {}", quote_literal(&other.to_string())),
            };
            format!("CSV WITH {columns}{delimiter}")
        }
    }
}

fn input_sql(catalog: &dyn CatalogView, input: &InputDef) -> String {
    let of = match input.of {
        CheckOf::Body => "BODY".to_owned(),
        CheckOf::Headers => "HEADERS".to_owned(),
        CheckOf::Secret(id) => {
            format!("SECRET {}", catalog.item(id).map(|item| item.name.to_string()).unwrap_or_default())
        }
    };
    format!("{of} AS {}{}", quote_ident(&input.name), if input.bytes { " BYTES" } else { "" })
}
