//! Webhooks: a request that others send by HTTP, checked, becomes rows.
//!
//! There is no session: whoever sends a request has a signature that the webhook's CHECK knows, and nothing else.
//!
//! # Invariants
//! - A request that does not satisfy the CHECK leaves nothing, and learns nothing of why: an error could show a secret.

use crate::error::AdapterError;
use arrow::array::{AsArray, RecordBatch, RecordBatchOptions};
use committer::constraint::TableConstraints;
use committer::published::Published;
use datafusion::common::DFSchema;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::PhysicalExpr;
use engine::error::SqlError;
use engine::rules::guard::is_immutable;
use engine::{Engine, SessionInfo};
use ore::clock::Clock;
use ore::memory::Reservation;
use parking_lot::Mutex;
use pgrepr::copy::reader::{CopyError, CopyReader};
use pgrepr::copy::{CopyFormat, CopyOptions};
use pgrepr::error::PgReprError;
use pgrepr::options::EncodeOptions;
use pgrepr::text::decode_text;
use pgrepr::utf8;
use repr::row::{RowCodec, write_datum};
use repr::sqlstate::SqlState;
use repr::{Datum, PgType, RelationDesc, Updates};
use serde_json::value::RawValue;
use sql::plan::{CatalogView, ItemKind, ItemRef, PlanContext, plan_webhook_check};
use sql::webhook::{WebhookCheckDef, WebhookDef};
use sql_functions::row::has_long;
use sql_syntax::ast::{BodyFormat, CheckOf, CsvBody, HeaderFilter};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// Headers that say who somebody is, and are kept only where they are asked for by name.
const CREDENTIALS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// Webhooks as they are in the catalog of one revision, by name.
#[derive(Default)]
pub(crate) struct Webhooks(Mutex<(u64, HashMap<[String; 3], Arc<Webhook>>)>);

/// What a condition needs of the server.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) engine: Arc<Engine>,
    pub(crate) clock: Clock,
    /// When it started, in microseconds since 1970.
    pub(crate) started_us: i64,
}

/// A webhook, ready to take requests.
pub struct Webhook {
    pub(crate) item: Arc<ItemRef>,
    def: WebhookDef,
    pub(crate) constraints: Arc<TableConstraints>,
    check: Option<Check>,
}

/// A condition, with the secrets that it reads.
struct Check {
    condition: Expr,
    /// What it was compiled to, if requests alone decide what it says.
    compiled: Option<Arc<dyn PhysicalExpr>>,
    schema: DFSchema,
    desc: RelationDesc,
    codec: RowCodec,
    inputs: Vec<Input>,
    server: Server,
}

struct Input {
    of: CheckOf<Vec<u8>>,
    is_bytes: bool,
}

/// A request.
pub struct Sent {
    /// Its headers, if the webhook reads them: name, in lower case, and value. Of a name that comes more than once the values are one, with commas between.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Webhooks {
    /// The one with this name. Error 42P01.
    pub(crate) fn named(
        &self,
        published: &Published,
        name: &[String; 3],
        server: impl FnOnce() -> Server,
    ) -> Result<Arc<Webhook>, AdapterError> {
        let revision = published.state.revision();
        let known = |(of, webhooks): &(u64, HashMap<_, Arc<Webhook>>)| {
            webhooks.get(name).filter(|_| *of == revision).map(Arc::clone)
        };
        if let Some(known) = known(&self.0.lock()) {
            return Ok(known);
        }
        // Planned while others find theirs.
        let webhook = Arc::new(Webhook::of(&server(), published, name)?);
        let mut webhooks = self.0.lock();
        if webhooks.0 != revision {
            *webhooks = (revision, HashMap::new());
        }
        webhooks.1.insert(name.clone(), Arc::clone(&webhook));
        Ok(webhook)
    }
}

impl Webhook {
    fn of(server: &Server, published: &Published, name: &[String; 3]) -> Result<Webhook, AdapterError> {
        let (state, [database, schema, item]) = (&published.state, name);
        let database = state.database_by_name(database);
        let schema = database.and_then(|database| state.schema_by_name(Some(database.id), schema));
        let item = schema.and_then(|schema| state.item_by_name(schema.id, item));
        let def = item.as_ref().and_then(|item| item.webhook()).cloned();
        let (Some(item), Some(def)) = (item, def) else { return Err(unknown(&name.join("."))) };
        let table = published.tables.get(&item.id);
        let table = table.ok_or_else(|| AdapterError::internal(format!("{} has no rows", item.name)))?;
        let check = match &def.check {
            Some(check) => Some(Check::of(server, published, &item, check)?),
            None => None,
        };
        let constraints = Arc::clone(&table.constraints);
        Ok(Webhook { item, def, constraints, check })
    }

    /// Whether a request shows by itself that it may write.
    pub fn has_check(&self) -> bool {
        self.check.is_some()
    }

    /// Whether the headers of a request become columns, or are checked.
    pub fn reads_headers(&self) -> bool {
        let is_checked = |check: &Check| check.inputs.iter().any(|input| matches!(input.of, CheckOf::Headers));
        self.has_header_columns() || self.check.as_ref().is_some_and(is_checked)
    }

    fn has_header_columns(&self) -> bool {
        self.def.headers.is_some() || !self.def.mapped.is_empty()
    }

    /// Whether a request is to be read where nobody waits.
    pub fn is_long(&self, sent: &Sent) -> bool {
        const LONG: usize = 64 << 10;
        // Each row has them.
        let headers =
            sent.headers.iter().filter(|_| self.has_header_columns()).map(|(name, value)| name.len() + value.len());
        let bytes = sent.body.len().saturating_mul(1 + headers.sum::<usize>());
        bytes > LONG || self.check.as_ref().is_some_and(|check| has_long(&check.condition))
    }

    /// The rows that a request becomes, within this memory beside what that has already. Errors: 42501 of one that does not satisfy the
    /// CHECK, 22P02 and the like of a body that is not of the format, 53200.
    pub fn rows(&self, sent: &Sent, memory: &mut Reservation) -> Result<Updates, AdapterError> {
        if let Some(check) = &self.check
            && !check.holds(sent).unwrap_or(false)
        {
            let message = format!("the request does not satisfy the CHECK of source {}", self.item.name.item);
            return Err(AdapterError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        let (rest, before) = (self.beside_body(sent)?, memory.bytes());
        let mut rows = Rows { rest, desc: &self.item.desc, updates: Updates::new(), memory, before };
        match &self.def.body {
            BodyFormat::Bytes => rows.push(&[Datum::Bytes(Cow::Borrowed(&sent.body))])?,
            BodyFormat::Text => rows.push(&[Datum::Text(Cow::Borrowed(text(&sent.body)?))])?,
            BodyFormat::Json => rows.json(&sent.body, false)?,
            BodyFormat::JsonArray => rows.json(&sent.body, true)?,
            BodyFormat::Csv(csv) => rows.csv(&sent.body, csv)?,
        }
        Ok(rows.updates)
    }

    /// The values of the columns behind those of the body.
    fn beside_body(&self, sent: &Sent) -> Result<Vec<Datum<'static>>, AdapterError> {
        let mut values = Vec::new();
        if let Some(filter) = &self.def.headers {
            values.push(headers_as_json(&sent.headers, |name| is_kept(filter, name))?);
        }
        for mapped in &self.def.mapped {
            let value = sent.headers.iter().find(|(name, _)| *name == mapped.header).map(|(_, value)| value.clone());
            values.push(match (value, mapped.bytes) {
                (None, _) => Datum::Null,
                (Some(value), true) => Datum::Bytes(Cow::Owned(value.into_bytes())),
                (Some(value), false) => Datum::Text(Cow::Owned(value)),
            });
        }
        Ok(values)
    }
}

impl Check {
    fn of(
        server: &Server,
        published: &Published,
        item: &ItemRef,
        check: &WebhookCheckDef,
    ) -> Result<Check, AdapterError> {
        let (state, session) = (published.state.as_ref(), SessionInfo::default());
        let (catalog, engine, role): (&dyn CatalogView, _, _) = (state, &server.engine, item.owner);
        let ctx = PlanContext { engine, catalog, session: &session, role, cluster: "", from_tables: true };
        let secret = |of: &CheckOf<repr::GlobalId>| match of {
            CheckOf::Body => Ok(CheckOf::Body),
            CheckOf::Headers => Ok(CheckOf::Headers),
            CheckOf::Secret(id) => match catalog.item(*id).as_deref() {
                Some(ItemRef { kind: ItemKind::Secret(value), .. }) => Ok(CheckOf::Secret(value.reveal().to_vec())),
                _ => Err(AdapterError::internal(format!("{} reads a secret that is none", item.name))),
            },
        };
        let input = |input: &sql::webhook::InputDef| Ok(Input { of: secret(&input.of)?, is_bytes: input.bytes });
        let desc = check.desc();
        let types: Vec<_> = desc.columns.iter().map(|column| column.data_type.clone()).collect();
        let condition = plan_webhook_check(&ctx, check)?;
        let schema = DFSchema::try_from(Arc::clone(&desc.schema)).map_err(SqlError::from)?;
        // What cannot be compiled is not, for each request: why is nothing that its sender may learn.
        let compile = || engine.create_physical_expr(&condition, &schema, &session).ok();
        let compiled = is_immutable(&condition).then(compile).flatten();
        Ok(Check {
            condition,
            compiled,
            schema,
            codec: RowCodec::new(&types)?,
            inputs: check.inputs.iter().map(input).collect::<Result<_, AdapterError>>()?,
            desc,
            server: server.clone(),
        })
    }

    /// The condition as of now, if it asks for the time.
    fn compiled(&self) -> Result<Arc<dyn PhysicalExpr>, AdapterError> {
        if let Some(compiled) = &self.compiled {
            return Ok(Arc::clone(compiled));
        }
        let now_us = i64::try_from(self.server.clock.now_us()).unwrap_or(i64::MAX);
        let session = SessionInfo {
            now_us: Some(now_us),
            statement_now_us: now_us,
            started_us: self.server.started_us,
            ..SessionInfo::default()
        };
        Ok(self.server.engine.create_physical_expr(&self.condition, &self.schema, &session)?)
    }

    /// Whether a request satisfies it. What cannot be told is an error, which is not to be shown.
    fn holds(&self, sent: &Sent) -> Result<bool, AdapterError> {
        let internal = |error: &dyn std::fmt::Display| AdapterError::internal(error.to_string());
        let mut row = Vec::new();
        for (input, column) in self.inputs.iter().zip(&self.desc.columns) {
            let bytes = match &input.of {
                CheckOf::Body => &sent.body,
                CheckOf::Secret(value) => value,
                CheckOf::Headers => {
                    write_datum(&mut row, &column.data_type, &headers_as_json(&sent.headers, |_| true)?)?;
                    continue;
                }
            };
            let datum = match input.is_bytes {
                true => Datum::Bytes(Cow::Borrowed(bytes)),
                false => Datum::Text(Cow::Borrowed(text(bytes)?)),
            };
            write_datum(&mut row, &column.data_type, &datum)?;
        }
        let columns = self.codec.decode([row.as_slice()])?;
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.desc.schema), columns, &options);
        let batch = batch.map_err(|error| internal(&error))?;
        let value = self.compiled()?.evaluate(&batch).and_then(|value| value.into_array(1)).map_err(SqlError::from)?;
        let value = value.as_boolean_opt().ok_or_else(|| internal(&"a CHECK is no condition"))?;
        Ok(arrow::array::Array::is_valid(value, 0) && value.value(0))
    }
}

/// Rows that are being made.
struct Rows<'w> {
    /// The values behind those of the body, the same in all.
    rest: Vec<Datum<'static>>,
    desc: &'w RelationDesc,
    updates: Updates,
    memory: &'w mut Reservation,
    /// What it had before.
    before: usize,
}

impl Rows<'_> {
    fn push(&mut self, body: &[Datum<'_>]) -> Result<(), AdapterError> {
        let Rows { rest, desc, updates, memory, before } = self;
        debug_assert_eq!(body.len() + rest.len(), desc.arity(), "each column has a value");
        updates.push_with(1, |out| {
            let values = body.iter().chain(rest.iter());
            for (column, datum) in desc.columns.iter().zip(values) {
                write_datum(out, &column.data_type, datum)?;
            }
            Ok::<_, AdapterError>(())
        })?;
        // They are there twice while they grow.
        Ok(memory.cover(*before + 2 * updates.memory()).map_err(SqlError::from)?)
    }

    /// Any number of values one behind the other; of an array each item, if it is to be taken apart.
    fn json(&mut self, body: &[u8], takes_apart: bool) -> Result<(), AdapterError> {
        let malformed = |error: serde_json::Error| {
            let message = format!("the body is not JSON: {error}");
            AdapterError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
        };
        let body = text(body)?;
        for value in serde_json::Deserializer::from_str(body).into_iter::<&RawValue>() {
            let value = value.map_err(malformed)?.get();
            if takes_apart && value.starts_with('[') {
                let items: Vec<&RawValue> = serde_json::from_str(value).map_err(malformed)?;
                items.into_iter().try_for_each(|item| self.json_value(item.get()))?;
            } else {
                self.json_value(value)?;
            }
        }
        match self.updates.is_empty() && body.trim_ascii().is_empty() {
            true => Err(AdapterError::new(SqlState::INVALID_TEXT_REPRESENTATION, "the body is empty, and not JSON")),
            false => Ok(()),
        }
    }

    fn json_value(&mut self, text: &str) -> Result<(), AdapterError> {
        let datum = decode_text(&PgType::Jsonb, text, &EncodeOptions::default()).map_err(SqlError::from)?;
        self.push(&[datum])
    }

    fn csv(&mut self, body: &[u8], csv: &CsvBody) -> Result<(), AdapterError> {
        let delimiter = u8::try_from(csv.delimiter).unwrap_or(b',');
        let options = CopyOptions { delimiter, ..CopyOptions::new(CopyFormat::Csv) };
        let (mut reader, mut is_named) = (CopyReader::new(options, body.len() + 1), !csv.header);
        let mut row = |line: u64, fields: &[Option<Cow<'_, str>>]| {
            if !std::mem::replace(&mut is_named, true) {
                let named = fields.iter().map(|field| field.as_deref().unwrap_or_default());
                return match named.eq(csv.columns.iter().map(String::as_str)) {
                    true => Ok(()),
                    false => Err(wrong_line(line, "it does not name the columns of the source")),
                };
            }
            if fields.len() != csv.columns.len() {
                let message = format!("it has {} fields, and not {}", fields.len(), csv.columns.len());
                return Err(wrong_line(line, &message));
            }
            let datum = |field: &Option<Cow<'_, str>>| match field {
                Some(text) => Datum::Text(Cow::Owned(text.clone().into_owned())),
                None => Datum::Null,
            };
            let values: Vec<Datum<'static>> = fields.iter().map(datum).collect();
            self.push(&values).map_err(Wrong)
        };
        reader.push(body, &mut row).and_then(|()| reader.finish(&mut row)).map_err(|Wrong(error)| error)
    }
}

/// What is wrong with CSV.
struct Wrong(AdapterError);

impl From<CopyError> for Wrong {
    fn from(CopyError { sqlstate, message, line, .. }: CopyError) -> Wrong {
        Wrong(AdapterError::new(sqlstate, format!("line {line} of the body: {message}")))
    }
}

fn wrong_line(line: u64, why: &str) -> Wrong {
    Wrong(AdapterError::new(SqlState::BAD_COPY_FILE_FORMAT, format!("line {line} of the body: {why}")))
}

/// 42P01.
pub(crate) fn unknown(name: &str) -> AdapterError {
    AdapterError::new(SqlState::UNDEFINED_TABLE, format!("source \"{name}\" does not exist"))
}

/// Bytes as a text. Error 22021.
fn text(bytes: &[u8]) -> Result<&str, AdapterError> {
    Ok(utf8::text(bytes).map_err(PgReprError::from)?)
}

fn is_kept(HeaderFilter { wanted, unwanted }: &HeaderFilter, name: &str) -> bool {
    let is_in = |names: &[String]| names.iter().any(|known| known == name);
    match wanted.is_empty() {
        true => !is_in(unwanted) && !CREDENTIALS.contains(&name),
        false => is_in(wanted) && !is_in(unwanted),
    }
}

/// Headers as an object.
fn headers_as_json(
    headers: &[(String, String)],
    is_kept: impl Fn(&str) -> bool,
) -> Result<Datum<'static>, AdapterError> {
    let kept = headers.iter().filter(|(name, _)| is_kept(name));
    let object: serde_json::Map<_, _> = kept.map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    let text = serde_json::Value::Object(object).to_string();
    Ok(decode_text(&PgType::Jsonb, &text, &EncodeOptions::default()).map_err(SqlError::from)?)
}
