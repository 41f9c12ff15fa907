//! The messages of webhooks. A number once given to a field is never given to another.

use super::locale::{decode_locale, encode_locale};
use repr::GlobalId;
use sql::webhook::{InputDef, WebhookCheckDef, WebhookDef};
use sql_syntax::ast::{BodyFormat, CheckOf, CsvBody, HeaderFilter, MappedHeader};

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct WebhookProto {
    #[prost(oneof = "BodyProto", tags = "1, 2")]
    body: Option<BodyProto>,
    #[prost(message, optional, tag = "3")]
    headers: Option<FilterProto>,
    #[prost(message, repeated, tag = "4")]
    mapped: Vec<MappedProto>,
    #[prost(message, optional, tag = "5")]
    check: Option<WebhookCheckProto>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum BodyProto {
    /// One of [`PLAIN`].
    #[prost(string, tag = "1")]
    Plain(String),
    #[prost(message, tag = "2")]
    Csv(CsvProto),
}

#[derive(Clone, PartialEq, prost::Message)]
struct CsvProto {
    #[prost(string, repeated, tag = "1")]
    columns: Vec<String>,
    #[prost(bool, tag = "2")]
    header: bool,
    #[prost(string, tag = "3")]
    delimiter: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct FilterProto {
    #[prost(string, repeated, tag = "1")]
    wanted: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    unwanted: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct MappedProto {
    #[prost(string, tag = "1")]
    header: String,
    #[prost(string, tag = "2")]
    column: String,
    #[prost(bool, tag = "3")]
    bytes: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WebhookCheckProto {
    #[prost(message, repeated, tag = "1")]
    inputs: Vec<InputProto>,
    #[prost(string, tag = "2")]
    sql: String,
    /// The time zone, the date style and the interval style.
    #[prost(string, repeated, tag = "3")]
    locale: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct InputProto {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(bool, tag = "2")]
    bytes: bool,
    /// Otherwise the body or the headers.
    #[prost(uint64, optional, tag = "3")]
    secret: Option<u64>,
    #[prost(bool, tag = "4")]
    is_headers: bool,
}

const PLAIN: [(&str, BodyFormat); 4] = [
    ("text", BodyFormat::Text),
    ("json", BodyFormat::Json),
    ("json array", BodyFormat::JsonArray),
    ("bytes", BodyFormat::Bytes),
];

pub(super) fn encode(webhook: &WebhookDef) -> WebhookProto {
    let body = match &webhook.body {
        BodyFormat::Csv(CsvBody { columns, header, delimiter }) => {
            BodyProto::Csv(CsvProto { columns: columns.clone(), header: *header, delimiter: delimiter.to_string() })
        }
        plain => {
            let name = PLAIN.iter().find(|(_, format)| format == plain).map_or("", |(name, _)| name);
            BodyProto::Plain(name.to_owned())
        }
    };
    let mapped = |MappedHeader { header, column, bytes }: &MappedHeader| MappedProto {
        header: header.clone(),
        column: column.clone(),
        bytes: *bytes,
    };
    let input = |InputDef { of, name, bytes }: &InputDef| InputProto {
        name: name.clone(),
        bytes: *bytes,
        secret: if let CheckOf::Secret(id) = of { Some(id.to_u64()) } else { None },
        is_headers: *of == CheckOf::Headers,
    };
    WebhookProto {
        body: Some(body),
        headers: webhook.headers.as_ref().map(|HeaderFilter { wanted, unwanted }| FilterProto {
            wanted: wanted.clone(),
            unwanted: unwanted.clone(),
        }),
        mapped: webhook.mapped.iter().map(mapped).collect(),
        check: webhook.check.as_ref().map(|check| WebhookCheckProto {
            inputs: check.inputs.iter().map(input).collect(),
            sql: check.sql.clone(),
            locale: encode_locale(check.locale).to_vec(),
        }),
    }
}

/// The inverse of [`encode`].
pub(super) fn decode(proto: WebhookProto) -> Result<WebhookDef, &'static str> {
    let body = match proto.body.ok_or("a webhook has no body")? {
        BodyProto::Plain(name) => {
            let known = PLAIN.into_iter().find(|(known, _)| *known == name);
            known.ok_or("a webhook has an unknown body")?.1
        }
        BodyProto::Csv(CsvProto { columns, header, delimiter }) => {
            let delimiter = delimiter.chars().next().ok_or("CSV has no delimiter")?;
            BodyFormat::Csv(CsvBody { columns, header, delimiter })
        }
    };
    let input = |InputProto { name, bytes, secret, is_headers }| {
        let of = match secret {
            Some(id) => CheckOf::Secret(GlobalId::from_u64(id)),
            None if is_headers => CheckOf::Headers,
            None => CheckOf::Body,
        };
        InputDef { of, name, bytes }
    };
    let check = |check: WebhookCheckProto| {
        let [time_zone, date, interval] = check.locale.as_slice() else {
            return Err("a webhook's CHECK has no locale");
        };
        let locale = decode_locale([time_zone, date, interval])?;
        Ok(WebhookCheckDef { inputs: check.inputs.into_iter().map(input).collect(), sql: check.sql, locale })
    };
    Ok(WebhookDef {
        body,
        headers: proto.headers.map(|FilterProto { wanted, unwanted }| HeaderFilter { wanted, unwanted }),
        mapped: proto
            .mapped
            .into_iter()
            .map(|MappedProto { header, column, bytes }| MappedHeader { header, column, bytes })
            .collect(),
        check: proto.check.map(check).transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgrepr::options::Locale;

    #[test]
    fn webhooks_are_read_back() {
        let csv = CsvBody { columns: vec!["a".to_owned(), "b".to_owned()], header: true, delimiter: ';' };
        let bodies = PLAIN.into_iter().map(|(_, format)| format).chain([BodyFormat::Csv(csv)]);
        for (at, body) in bodies.enumerate() {
            let of = [CheckOf::Body, CheckOf::Headers, CheckOf::Secret(GlobalId::User(7))];
            let input = |of: CheckOf<GlobalId>| InputDef { bytes: of == CheckOf::Body, name: format!("{of:?}"), of };
            let inputs = of.into_iter().map(input).collect();
            let check = WebhookCheckDef { inputs, sql: "true".to_owned(), locale: Locale::default() };
            let mapped = MappedHeader { header: "x".to_owned(), column: "y".to_owned(), bytes: true };
            let webhook = WebhookDef {
                body,
                headers: (at % 2 == 0).then(|| HeaderFilter { wanted: vec!["a".to_owned()], unwanted: Vec::new() }),
                mapped: vec![mapped; at],
                check: (at > 0).then_some(check),
            };
            assert_eq!(decode(encode(&webhook)), Ok(webhook));
        }
    }
}
