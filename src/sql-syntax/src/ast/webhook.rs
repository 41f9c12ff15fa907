//! CREATE SOURCE … FROM WEBHOOK.

use crate::names::Name;
use sqlparser::ast as sp;

/// CREATE SOURCE … FROM WEBHOOK.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateWebhook {
    /// Its name.
    pub name: Name,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// IN CLUSTER.
    pub cluster: Option<String>,
    /// BODY FORMAT.
    pub body: BodyFormat,
    /// INCLUDE HEADERS.
    pub headers: Option<HeaderFilter>,
    /// INCLUDE HEADER … AS.
    pub mapped: Vec<MappedHeader>,
    /// CHECK.
    pub check: Option<WebhookCheck>,
}

/// What the body of a request is taken for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyFormat {
    /// A text.
    Text,
    /// JSON values, each of which is a row.
    Json,
    /// The same, and of an array each item.
    JsonArray,
    /// Whatever it is.
    Bytes,
    /// Lines of fields, each of which is a row.
    Csv(CsvBody),
}

/// CSV.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvBody {
    /// The columns, which are texts.
    pub columns: Vec<String>,
    /// Whether the first line names them.
    pub header: bool,
    /// What is between two fields.
    pub delimiter: char,
}

/// Which headers of a request are kept: all that are wanted, or all if none is named as such, but for those that are not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderFilter {
    /// Their names, in lower case.
    pub wanted: Vec<String>,
    /// NOT.
    pub unwanted: Vec<String>,
}

/// A header that has a column of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedHeader {
    /// Its name, in lower case.
    pub header: String,
    /// The column.
    pub column: String,
    /// BYTES: as bytes, otherwise as text.
    pub bytes: bool,
}

/// What a request has to satisfy.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookCheck {
    /// WITH: what the condition reads.
    pub inputs: Vec<CheckInput<Name>>,
    /// The condition.
    pub condition: Box<sp::Expr>,
}

/// Something that a condition reads, under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckInput<S> {
    /// What it is.
    pub of: CheckOf<S>,
    /// AS.
    pub alias: Option<String>,
    /// BYTES: as bytes, otherwise as text.
    pub bytes: bool,
}

/// What a condition can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckOf<S> {
    /// The body of the request.
    Body,
    /// Its headers.
    Headers,
    /// A secret.
    Secret(S),
}
