//! What a webhook is: a relation whose rows are what others send by HTTP.

use pgrepr::options::Locale;
use repr::{GlobalId, PgType, RelationDesc};
use sql_syntax::ast::{BodyFormat, CheckOf, HeaderFilter, MappedHeader};

/// The columns of the body and of the headers, and what a condition calls these unless it says something else.
pub const BODY: &str = "body";
/// See [`BODY`].
pub const HEADERS: &str = "headers";

/// What a webhook takes, and of whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookDef {
    /// What its body is.
    pub body: BodyFormat,
    /// Which headers it has in a column, if it has that.
    pub headers: Option<HeaderFilter>,
    /// The headers that have a column each.
    pub mapped: Vec<MappedHeader>,
    /// What a request has to satisfy; without one, whoever sends it needs INSERT.
    pub check: Option<WebhookCheckDef>,
}

/// What a request has to satisfy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookCheckDef {
    /// What the condition reads.
    pub inputs: Vec<InputDef>,
    /// The condition as SQL text that [`sql_syntax::parser::parse_expr`] reads.
    pub sql: String,
    /// That of who made it, by which its literals are read.
    pub locale: Locale,
}

/// Something that a condition reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputDef {
    /// What it is.
    pub of: CheckOf<GlobalId>,
    /// Its name, unlike that of any other.
    pub name: String,
    /// As bytes, otherwise as text.
    pub bytes: bool,
}

impl WebhookCheckDef {
    /// The secrets that it reads.
    pub fn secrets(&self) -> impl Iterator<Item = GlobalId> {
        self.inputs.iter().filter_map(|input| match input.of {
            CheckOf::Secret(id) => Some(id),
            CheckOf::Body | CheckOf::Headers => None,
        })
    }

    /// The condition's inputs as a relation of one row.
    pub fn desc(&self) -> RelationDesc {
        RelationDesc::new(self.inputs.iter().map(|input| (input.name.clone(), type_of(input), true)))
    }
}

fn type_of(input: &InputDef) -> PgType {
    match input.of {
        CheckOf::Headers => PgType::Jsonb,
        _ if input.bytes => PgType::Bytea,
        _ => PgType::Text,
    }
}

impl WebhookDef {
    /// The columns of its rows: name, type, nullability.
    pub fn columns(&self) -> Vec<(String, PgType, bool)> {
        let body = |ty| vec![(BODY.to_owned(), ty, false)];
        let mut columns = match &self.body {
            BodyFormat::Text => body(PgType::Text),
            BodyFormat::Json | BodyFormat::JsonArray => body(PgType::Jsonb),
            BodyFormat::Bytes => body(PgType::Bytea),
            BodyFormat::Csv(csv) => csv.columns.iter().map(|name| (name.clone(), PgType::Text, true)).collect(),
        };
        columns.extend(self.headers.as_ref().map(|_| (HEADERS.to_owned(), PgType::Jsonb, false)));
        columns.extend(
            self.mapped
                .iter()
                .map(|mapped| (mapped.column.clone(), if mapped.bytes { PgType::Bytea } else { PgType::Text }, true)),
        );
        columns
    }
}
