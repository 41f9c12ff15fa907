//! CREATE SOURCE … FROM WEBHOOK; other sources are refused by name.

use super::cursor::Cursor;
use crate::ast::{
    BodyFormat, CheckInput, CheckOf, CreateWebhook, CsvBody, HeaderFilter, MappedHeader, Statement, WebhookCheck,
};
use crate::names::Name;
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use sqlparser::tokenizer::Token;

/// Columns of CSV at most.
const COLUMNS_MAX: u64 = 1_600;

/// What follows CREATE SOURCE.
pub(super) fn parse_create(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let if_not_exists = cursor.if_not_exists();
    let name = cursor.name()?;
    let cluster = if cursor.eat(&["IN", "CLUSTER"]) { Some(cursor.ident()?) } else { None };
    cursor.expect(&["FROM"])?;
    if !cursor.eat(&["WEBHOOK"]) {
        return match cursor.word() {
            Some(word) => Err(cursor.unsupported(format!("CREATE SOURCE … FROM {word}"))),
            None => Err(cursor.unexpected()),
        };
    }
    cursor.expect(&["BODY", "FORMAT"])?;
    let body = parse_body(cursor)?;
    let (mut headers, mut mapped) = (None, Vec::new());
    while cursor.eat(&["INCLUDE"]) {
        if cursor.eat(&["HEADERS"]) {
            if headers.is_some() {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "INCLUDE HEADERS more than once").at(cursor.span()));
            }
            headers = Some(parse_filter(cursor)?);
        } else {
            cursor.expect(&["HEADER"])?;
            let header = parse_header(cursor)?;
            cursor.expect(&["AS"])?;
            mapped.push(MappedHeader { header, column: cursor.ident()?, bytes: cursor.eat(&["BYTES"]) });
        }
    }
    let check = if cursor.eat(&["CHECK"]) { Some(parse_check(cursor)?) } else { None };
    if cursor.peek("WITH") {
        return Err(cursor.unsupported("CREATE SOURCE … WITH"));
    }
    Ok(Statement::CreateWebhook(CreateWebhook { name, if_not_exists, cluster, body, headers, mapped, check }))
}

fn parse_body(cursor: &mut Cursor<'_>) -> Result<BodyFormat, SqlError> {
    if cursor.eat(&["JSON", "ARRAY"]) {
        return Ok(BodyFormat::JsonArray);
    }
    let formats = [("TEXT", BodyFormat::Text), ("JSON", BodyFormat::Json), ("BYTES", BodyFormat::Bytes)];
    if let Some((_, format)) = formats.into_iter().find(|(word, _)| cursor.eat(&[word])) {
        return Ok(format);
    }
    if cursor.eat(&["CSV"]) {
        return Ok(BodyFormat::Csv(parse_csv(cursor)?));
    }
    match cursor.word() {
        Some(word) => Err(cursor.unsupported(format!("BODY FORMAT {word}"))),
        None => Err(cursor.unexpected()),
    }
}

/// `WITH n COLUMNS`, `WITH HEADER (a, b)`; `DELIMITED BY ';'`.
fn parse_csv(cursor: &mut Cursor<'_>) -> Result<CsvBody, SqlError> {
    cursor.expect(&["WITH"])?;
    let header = cursor.eat(&["HEADER"]);
    let columns = if header {
        cursor.parenthesized(Cursor::ident)?
    } else {
        let span = cursor.span();
        let count = cursor.unsigned()?;
        if !(1..=COLUMNS_MAX).contains(&count) {
            let message = format!("CSV has 1 to {COLUMNS_MAX} columns");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).at(span));
        }
        cursor.expect(&["COLUMNS"])?;
        (1..=count).map(|number| format!("column{number}")).collect()
    };
    let mut delimiter = ',';
    if cursor.eat(&["DELIMITED", "BY"]) {
        let span = cursor.span();
        let text = cursor.string()?;
        let mut chars = text.chars();
        delimiter = match (chars.next(), chars.next()) {
            (Some(one), None) if one.is_ascii() && !matches!(one, '\r' | '\n' | '"' | '\0') => one,
            _ => {
                let message = "a CSV delimiter is one character of ASCII, and no quote or end of a line";
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).at(span));
            }
        };
    }
    Ok(CsvBody { columns, header, delimiter })
}

/// The name of a header, which has no case.
fn parse_header(cursor: &mut Cursor<'_>) -> Result<String, SqlError> {
    let span = cursor.span();
    let name = cursor.string_or_ident()?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
    match is_name {
        true => Ok(name.to_ascii_lowercase()),
        false => {
            let message = format!("\"{name}\" is no name of a header");
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).at(span))
        }
    }
}

fn parse_filter(cursor: &mut Cursor<'_>) -> Result<HeaderFilter, SqlError> {
    let mut filter = HeaderFilter::default();
    if *cursor.token(0) == Token::LParen {
        cursor.parenthesized(|cursor| {
            let names = if cursor.eat(&["NOT"]) { &mut filter.unwanted } else { &mut filter.wanted };
            names.push(parse_header(cursor)?);
            Ok(())
        })?;
    }
    Ok(filter)
}

/// `([WITH (…)] condition)`.
fn parse_check(cursor: &mut Cursor<'_>) -> Result<WebhookCheck, SqlError> {
    cursor.expect_token(&Token::LParen)?;
    let inputs = if cursor.eat(&["WITH"]) { cursor.parenthesized(parse_input)? } else { Vec::new() };
    let condition = Box::new(cursor.expr()?);
    cursor.expect_token(&Token::RParen)?;
    Ok(WebhookCheck { inputs, condition })
}

fn parse_input(cursor: &mut Cursor<'_>) -> Result<CheckInput<Name>, SqlError> {
    let of = if cursor.eat(&["BODY"]) {
        CheckOf::Body
    } else if cursor.eat(&["HEADERS"]) {
        CheckOf::Headers
    } else {
        cursor.expect(&["SECRET"])?;
        CheckOf::Secret(cursor.name()?)
    };
    let alias = if cursor.eat(&["AS"]) { Some(cursor.ident()?) } else { None };
    let span = cursor.span();
    let bytes = cursor.eat(&["BYTES"]);
    if bytes && of == CheckOf::Headers {
        return Err(SqlError::unsupported("HEADERS … BYTES in CHECK").at(span));
    }
    Ok(CheckInput { of, alias, bytes })
}

#[cfg(test)]
mod tests {
    use crate::ast::{BodyFormat, CheckOf, CreateWebhook, Statement};
    use crate::parser::parse;

    fn webhook(rest: &str) -> Result<CreateWebhook, String> {
        let mut statements = parse(&format!("CREATE SOURCE s FROM WEBHOOK {rest}")).map_err(|error| error.message)?;
        match statements.pop().expect("one statement").ast {
            Statement::CreateWebhook(webhook) => Ok(webhook),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn bodies_have_formats() {
        let body = |format: &str| webhook(&format!("BODY FORMAT {format}")).map(|webhook| webhook.body);
        assert_eq!(body("JSON ARRAY"), Ok(BodyFormat::JsonArray));
        assert_eq!(body("bytes"), Ok(BodyFormat::Bytes));
        let Ok(BodyFormat::Csv(csv)) = body("CSV WITH HEADER (a, \"B\") DELIMITED BY ';'") else { panic!("it is CSV") };
        assert_eq!((csv.columns, csv.header, csv.delimiter), (vec!["a".to_owned(), "B".to_owned()], true, ';'));
        let Ok(BodyFormat::Csv(csv)) = body("CSV WITH 2 COLUMNS") else { panic!("it is CSV") };
        assert_eq!((csv.columns, csv.header), (vec!["column1".to_owned(), "column2".to_owned()], false));
        for refused in ["AVRO", "CSV WITH 0 COLUMNS", "CSV WITH 2 COLUMNS DELIMITED BY 'ab'", "", "JSON WITH (X = 1)"] {
            assert!(body(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn headers_are_named_without_case() {
        let source = webhook(
            "BODY FORMAT TEXT INCLUDE HEADER 'X-Id' AS id BYTES INCLUDE HEADERS (NOT 'Cookie', accept)
             INCLUDE HEADER date AS d",
        );
        let source = source.expect("it is one");
        let filter = source.headers.expect("there is one");
        assert_eq!((filter.wanted, filter.unwanted), (vec!["accept".to_owned()], vec!["cookie".to_owned()]));
        let mapped: Vec<_> =
            source.mapped.iter().map(|it| (it.header.as_str(), it.column.as_str(), it.bytes)).collect();
        assert_eq!(mapped, [("x-id", "id", true), ("date", "d", false)]);
        assert!(webhook("BODY FORMAT TEXT INCLUDE HEADERS INCLUDE HEADERS").is_err());
        assert!(webhook("BODY FORMAT TEXT INCLUDE HEADER 'a b' AS c").is_err());
    }

    #[test]
    fn a_check_says_what_it_reads() {
        let check = "CHECK (WITH (HEADERS, BODY AS b BYTES, SECRET x.s AS k) constant_time_eq(headers->'x', k))";
        let check = webhook(&format!("BODY FORMAT JSON {check}")).expect("it is one").check.expect("there is one");
        let [headers, body, secret] = &check.inputs[..] else { panic!("there are three") };
        assert_eq!((&headers.of, &headers.alias), (&CheckOf::Headers, &None));
        assert_eq!((&body.of, body.alias.as_deref(), body.bytes), (&CheckOf::Body, Some("b"), true));
        assert!(matches!(&secret.of, CheckOf::Secret(name) if name.parts == ["x", "s"]));
        assert!(webhook("BODY FORMAT JSON CHECK (WITH (HEADERS BYTES) true)").is_err());
        assert!(webhook("BODY FORMAT JSON CHECK ()").is_err());
    }

    #[test]
    fn secrets_are_not_shown() {
        for (sql, is_one) in [
            ("CREATE SECRET s AS 'hidden'", true),
            ("CREATE SECRET IF NOT EXISTS a.s AS decode('hidden', 'base64')", true),
            ("ALTER SECRET s AS 'hidden'", true),
            ("CREATE SECRET s AS 'hidden' || 'x'", false),
            ("CREATE SECRET s AS upper('hidden')", false),
            ("CREATE SECRET s AS 7", false),
        ] {
            let parsed = parse(sql);
            assert_eq!(parsed.is_ok(), is_one, "{sql}");
            let shown = match &parsed {
                Ok(statements) => format!("{:?}", statements[0].ast),
                Err(error) => error.message.clone(),
            };
            assert!(!shown.contains("hidden"), "{shown}");
        }
    }
}
