//! CREATE SOURCE … FROM WEBHOOK, and CREATE and ALTER SECRET.

use super::relation::{check_column_count, check_distinct};
use super::{check_object, check_owner, missing, resolve_cluster};
use crate::names::{resolve_item, unknown_relation};
use crate::plan::ddl::name::{already_exists, new_item};
use crate::plan::webhook::plan_webhook_check;
use crate::plan::{
    AlterSecretPlan, CreateSecretPlan, CreateTablePlan, ItemKind, ItemRef, Plan, PlanContext, TableSchema,
};
use crate::secret::SecretBytes;
use crate::webhook::{BODY, HEADERS, InputDef, WebhookCheckDef, WebhookDef};
use engine::error::SqlError;
use engine::names::{ObjectId, ObjectKind, Privilege};
use repr::RelationDesc;
use repr::sqlstate::SqlState;
use sql_syntax::ast::{AlterSecret, CheckInput, CheckOf, CreateSecret, CreateWebhook, SecretValue, WebhookCheck};
use sql_syntax::names::Name;
use std::sync::Arc;

/// Bytes of a secret at most.
const SECRET_BYTES_MAX: usize = 64 << 10;

pub(in crate::plan) fn plan_create_webhook(ctx: &PlanContext<'_>, create: &CreateWebhook) -> Result<Plan, SqlError> {
    let (schema, name, existing) = new_item(ctx, &create.name)?;
    if existing.is_some() {
        return already_exists(&name.item, create.if_not_exists, "CREATE SOURCE");
    }
    if let Some(cluster) = &create.cluster {
        resolve_cluster(ctx, Some(cluster))?;
    }
    let check = create.check.as_ref().map(|check| plan_check(ctx, check)).transpose()?;
    let webhook =
        WebhookDef { body: create.body.clone(), headers: create.headers.clone(), mapped: create.mapped.clone(), check };
    let columns = webhook.columns();
    check_column_count(columns.len())?;
    check_distinct(columns.iter().map(|(name, ..)| name.as_str()))?;
    Ok(Plan::CreateTable(CreateTablePlan {
        schema: TableSchema::Existing(schema.id),
        name,
        defaults: vec![None; columns.len()],
        desc: Arc::new(RelationDesc::new(columns)),
        constraints: Vec::new(),
        key_index: true,
        sequences: Vec::new(),
        webhook: Some(Box::new(webhook)),
        if_not_exists: create.if_not_exists,
    }))
}

fn plan_check(ctx: &PlanContext<'_>, check: &WebhookCheck) -> Result<WebhookCheckDef, SqlError> {
    let mut inputs = Vec::with_capacity(check.inputs.len());
    for CheckInput { of, alias, bytes } in &check.inputs {
        let (of, name) = match of {
            CheckOf::Body => (CheckOf::Body, BODY.to_owned()),
            CheckOf::Headers => (CheckOf::Headers, HEADERS.to_owned()),
            CheckOf::Secret(name) => {
                let secret = resolve_secret(ctx, name)?;
                let object = ObjectId::Item(secret.id);
                check_object(ctx, object, Privilege::Usage, ObjectKind::Secret, &secret.name.item)?;
                // Under this name for good, should the secret get another.
                (CheckOf::Secret(secret.id), secret.name.item.clone())
            }
        };
        inputs.push(InputDef { of, name: alias.clone().unwrap_or(name), bytes: *bytes });
    }
    check_distinct(inputs.iter().map(|input: &InputDef| input.name.as_str()))?;
    let locale = ctx.session.locale.for_reading();
    let check = WebhookCheckDef { inputs, sql: check.condition.to_string(), locale };
    plan_webhook_check(ctx, &check)?;
    Ok(check)
}

pub(in crate::plan) fn plan_create_secret(ctx: &PlanContext<'_>, create: &CreateSecret) -> Result<Plan, SqlError> {
    let (schema, name, existing) = new_item(ctx, &create.name)?;
    if existing.is_some() {
        return already_exists(&name.item, create.if_not_exists, "CREATE SECRET");
    }
    let (value, if_not_exists) = (value(&create.value)?, create.if_not_exists);
    Ok(Plan::CreateSecret(CreateSecretPlan { schema: schema.id, name, value, if_not_exists }))
}

pub(in crate::plan) fn plan_alter_secret(ctx: &PlanContext<'_>, alter: &AlterSecret) -> Result<Plan, SqlError> {
    let secret = match resolve_secret(ctx, &alter.name) {
        Ok(secret) => secret,
        Err(error) => return missing(ObjectKind::Secret, &alter.name, alter.if_exists, "ALTER SECRET", error),
    };
    check_owner(ctx, ObjectId::Item(secret.id), ObjectKind::Secret, &secret.name.item)?;
    Ok(Plan::AlterSecret(AlterSecretPlan { id: secret.id, value: value(&alter.value)? }))
}

/// Errors: 42704 if there is none, 42809 if it is something else.
fn resolve_secret(ctx: &PlanContext<'_>, name: &Name) -> Result<Arc<ItemRef>, SqlError> {
    let unknown = || SqlError::new(SqlState::UNDEFINED_OBJECT, format!("secret \"{name}\" does not exist"));
    let item = resolve_item(ctx.catalog, ctx.scope(), name).map_err(|_| unknown_relation(name))?;
    let item = item.ok_or_else(unknown)?;
    match item.kind {
        ItemKind::Secret(_) => Ok(item),
        _ => Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not a secret", item.name.item))),
    }
}

/// The bytes of a secret. What is wrong with them is not shown.
fn value(value: &SecretValue) -> Result<SecretBytes, SqlError> {
    let SecretValue { text, encoding } = value;
    let bytes = match encoding {
        Some(encoding) => sql_functions::decode(text.reveal(), encoding).map_err(|_| {
            let message = "the value of the secret cannot be decoded";
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        })?,
        None => pgrepr::bytea::decode_bytea(text.reveal()).map_err(|_| {
            let message = "the value of the secret is no literal of type bytea, in which \\ begins an escape";
            SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
        })?,
    };
    if bytes.len() > SECRET_BYTES_MAX {
        let message = format!("a secret has at most {SECRET_BYTES_MAX} bytes");
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    Ok(SecretBytes::new(bytes))
}
