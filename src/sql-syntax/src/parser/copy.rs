//! COPY, with its options in the parenthesised form and in the older bare form.

use super::cursor::Cursor;
use super::query::check_query;
use crate::ast::{Copy, CopyDirection, CopySource, Forced, ForcedColumns, Statement};
use engine::error::SqlError;
use pgrepr::copy::{CopyFormat, CopyOptions};
use repr::sqlstate::SqlState;
use sqlparser::tokenizer::{Span, Token};

/// Options as given.
#[derive(Default)]
struct Given {
    format: Option<String>,
    delimiter: Option<String>,
    null: Option<String>,
    header: Option<bool>,
    quote: Option<String>,
    escape: Option<String>,
    encoding: Option<String>,
    forced: Vec<(Forced, ForcedColumns)>,
}

pub(super) fn parse_copy(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let span = cursor.span();
    cursor.expect(&["COPY"])?;
    let mut given = Given::default();
    // `COPY BINARY t …`, unless that is the table.
    if cursor.peek("BINARY")
        && !cursor.peek_nth(1, "FROM")
        && !cursor.peek_nth(1, "TO")
        && *cursor.token(1) != Token::LParen
    {
        cursor.advance();
        given.format = Some("binary".to_owned());
    }
    let source = parse_source(cursor)?;
    let direction = parse_direction(cursor, &source)?;
    cursor.eat(&["WITH"]);
    if *cursor.token(0) == Token::LParen {
        cursor.parenthesized(|cursor| parse_option(cursor, &mut given))?;
    } else {
        parse_bare_options(cursor, &mut given)?;
    }
    if cursor.peek("WHERE") {
        return Err(cursor.unsupported("COPY … WHERE"));
    }
    let forced = std::mem::take(&mut given.forced);
    let options = finish(given).map_err(|error| error.at(span))?;
    check_forced(&forced, options.format, direction).map_err(|error| error.at(span))?;
    Ok(Statement::Copy(Copy { source, direction, options, forced }))
}

fn parse_source(cursor: &mut Cursor<'_>) -> Result<CopySource, SqlError> {
    if cursor.eat_token(&Token::LParen) {
        let query = if cursor.peek("SUBSCRIBE") {
            super::subscribe::parse_subscribe(cursor)?
        } else {
            let query = cursor.query()?;
            check_query(&query)?;
            Statement::Query(query)
        };
        cursor.expect_token(&Token::RParen)?;
        return Ok(CopySource::Query(Box::new(query)));
    }
    let name = cursor.name()?;
    let columns = if *cursor.token(0) == Token::LParen { cursor.parenthesized(Cursor::ident)? } else { Vec::new() };
    Ok(CopySource::Table { name, columns })
}

fn parse_direction(cursor: &mut Cursor<'_>, source: &CopySource) -> Result<CopyDirection, SqlError> {
    if cursor.peek("FROM") && matches!(source, CopySource::Query(_)) {
        return Err(cursor.unexpected());
    }
    let (direction, stream) = if cursor.eat(&["FROM"]) {
        (CopyDirection::FromStdin, "STDIN")
    } else {
        cursor.expect(&["TO"])?;
        (CopyDirection::ToStdout, "STDOUT")
    };
    // Postgres takes either word in either direction.
    if cursor.eat(&[stream]) || cursor.eat(&["STDIN"]) || cursor.eat(&["STDOUT"]) {
        return Ok(direction);
    }
    if cursor.peek("PROGRAM") {
        return Err(cursor.unsupported("COPY to or from an external program"));
    }
    match cursor.token(0) {
        Token::SingleQuotedString(_) => Err(cursor
            .unsupported("COPY to or from a file")
            .with_hint("Use COPY … FROM STDIN or TO STDOUT, or psql's \\copy.")),
        _ => Err(cursor.unexpected()),
    }
}

/// One option of the parenthesised form.
fn parse_option(cursor: &mut Cursor<'_>, given: &mut Given) -> Result<(), SqlError> {
    let span = cursor.span();
    let option = cursor.string_or_ident()?;
    match option.as_str() {
        "format" => set(&mut given.format, cursor.string_or_ident()?, &option, span),
        "delimiter" => set(&mut given.delimiter, cursor.string()?, &option, span),
        "null" => set(&mut given.null, cursor.string()?, &option, span),
        "header" => {
            let on = parse_boolean(cursor)?;
            set(&mut given.header, on, &option, span)
        }
        "quote" => set(&mut given.quote, cursor.string()?, &option, span),
        "escape" => set(&mut given.escape, cursor.string()?, &option, span),
        "encoding" => set(&mut given.encoding, cursor.string_or_ident()?, &option, span),
        // Asks for rows to be visible at once; they are anyway.
        "freeze" => parse_boolean(cursor).map(drop),
        "force_quote" => {
            let columns = match cursor.eat_token(&Token::Mul) {
                true => ForcedColumns::All,
                false => ForcedColumns::Named(cursor.parenthesized(Cursor::ident)?),
            };
            force(given, Forced::Quote, columns, span)
        }
        "force_not_null" => {
            let columns = ForcedColumns::Named(cursor.parenthesized(Cursor::ident)?);
            force(given, Forced::NotNull, columns, span)
        }
        "force_null" => {
            let columns = ForcedColumns::Named(cursor.parenthesized(Cursor::ident)?);
            force(given, Forced::Null, columns, span)
        }
        "default" | "on_error" | "log_verbosity" | "oids" => {
            Err(SqlError::unsupported(format!("the COPY option {}", option.to_uppercase())).at(span))
        }
        _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("option \"{option}\" not recognized")).at(span)),
    }
}

/// `DELIMITER [AS] '|' NULL [AS] '' CSV HEADER …`
fn parse_bare_options(cursor: &mut Cursor<'_>, given: &mut Given) -> Result<(), SqlError> {
    loop {
        let span = cursor.span();
        let Some(word) = cursor.word() else { return Ok(()) };
        let option = word.to_ascii_lowercase();
        match option.as_str() {
            "csv" | "binary" => {
                cursor.advance();
                set(&mut given.format, option, "format", span)?;
            }
            "header" => {
                cursor.advance();
                set(&mut given.header, true, &option, span)?;
            }
            "freeze" => {
                cursor.advance();
            }
            "delimiter" | "delimiters" | "null" | "quote" | "escape" | "encoding" => {
                cursor.advance();
                cursor.eat(&["AS"]);
                let value = cursor.string()?;
                let target = match option.as_str() {
                    "null" => &mut given.null,
                    "quote" => &mut given.quote,
                    "escape" => &mut given.escape,
                    "encoding" => &mut given.encoding,
                    _ => &mut given.delimiter,
                };
                set(target, value, &option, span)?;
            }
            "force" => {
                cursor.advance();
                parse_bare_force(cursor, given, span)?;
            }
            _ => return Ok(()),
        }
    }
}

/// `QUOTE * | QUOTE a, b | NOT NULL a, b | NULL a, b`
fn parse_bare_force(cursor: &mut Cursor<'_>, given: &mut Given, span: Span) -> Result<(), SqlError> {
    let forced = if cursor.eat(&["QUOTE"]) {
        Forced::Quote
    } else if cursor.eat(&["NOT", "NULL"]) {
        Forced::NotNull
    } else {
        cursor.expect(&["NULL"])?;
        Forced::Null
    };
    let columns = match forced == Forced::Quote && cursor.eat_token(&Token::Mul) {
        true => ForcedColumns::All,
        false => ForcedColumns::Named(cursor.comma_separated(Cursor::ident)?),
    };
    force(given, forced, columns, span)
}

fn force(given: &mut Given, forced: Forced, columns: ForcedColumns, span: Span) -> Result<(), SqlError> {
    let before = given.forced.iter().any(|(before, _)| *before == forced);
    set(&mut before.then_some(()), (), &forced.name().to_lowercase(), span)?;
    given.forced.push((forced, columns));
    Ok(())
}

/// Where an option has a meaning.
fn check_forced(
    forced: &[(Forced, ForcedColumns)],
    format: CopyFormat,
    direction: CopyDirection,
) -> Result<(), SqlError> {
    for (forced, _) in forced {
        let (words, only, direction_only) = match forced {
            Forced::Quote => ("force quote", "COPY TO", CopyDirection::ToStdout),
            Forced::NotNull => ("force not null", "COPY FROM", CopyDirection::FromStdin),
            Forced::Null => ("force null", "COPY FROM", CopyDirection::FromStdin),
        };
        let refuse = |message| Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        if format != CopyFormat::Csv {
            return refuse(format!("COPY {words} available only in CSV mode"));
        }
        if direction != direction_only {
            return refuse(format!("COPY {words} only available using {only}"));
        }
    }
    Ok(())
}

fn parse_boolean(cursor: &mut Cursor<'_>) -> Result<bool, SqlError> {
    match cursor.token(0) {
        Token::Comma | Token::RParen => Ok(true),
        Token::Number(digits, _) if digits == "0" || digits == "1" => {
            let on = digits == "1";
            cursor.advance();
            Ok(on)
        }
        _ => {
            let span = cursor.span();
            match cursor.string_or_ident()?.as_str() {
                "true" | "on" => Ok(true),
                "false" | "off" => Ok(false),
                "match" => Err(SqlError::unsupported("COPY HEADER MATCH").at(span)),
                _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, "a COPY option requires a Boolean value").at(span)),
            }
        }
    }
}

fn set<T>(slot: &mut Option<T>, value: T, option: &str, span: Span) -> Result<(), SqlError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(SqlError::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options")
            .with_detail(format!("The option {option} is given more than once."))
            .at(span)),
    }
}

/// Checks the options against each other, with Postgres's rules, and fills in defaults.
fn finish(given: Given) -> Result<CopyOptions, SqlError> {
    let format = match given.format.as_deref() {
        None | Some("text") => CopyFormat::Text,
        Some("csv") => CopyFormat::Csv,
        Some("binary") => CopyFormat::Binary,
        Some(other) => {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("COPY format \"{other}\" not recognized"),
            ));
        }
    };
    let mut options = CopyOptions::new(format);
    if format == CopyFormat::Binary {
        let syntax_error = SqlState::SYNTAX_ERROR;
        for (is_given, option, sqlstate) in [
            (given.delimiter.is_some(), "DELIMITER", syntax_error),
            (given.null.is_some(), "NULL", syntax_error),
            (given.header == Some(true), "HEADER", SqlState::FEATURE_NOT_SUPPORTED),
        ] {
            if is_given {
                return Err(SqlError::new(sqlstate, format!("cannot specify {option} in BINARY mode")));
            }
        }
    }
    if let Some(encoding) = given.encoding
        && !matches!(encoding.to_ascii_lowercase().as_str(), "utf8" | "utf-8" | "unicode")
    {
        return Err(SqlError::unsupported(format!("the COPY encoding \"{encoding}\"")));
    }
    if let Some(delimiter) = given.delimiter {
        options.delimiter = one_byte(&delimiter, "COPY delimiter must be a single one-byte character")?;
    }
    if let Some(null) = given.null {
        options.null = null;
    }
    if format != CopyFormat::Csv && (given.quote.is_some() || given.escape.is_some()) {
        let option = if given.quote.is_some() { "quote" } else { "escape" };
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("COPY {option} available only in CSV mode"),
        ));
    }
    if let Some(quote) = given.quote {
        options.quote = one_byte(&quote, "COPY quote must be a single one-byte character")?;
        options.escape = options.quote;
    }
    if let Some(escape) = given.escape {
        options.escape = one_byte(&escape, "COPY escape must be a single one-byte character")?;
    }
    options.header = given.header.unwrap_or(false);
    if format != CopyFormat::Binary {
        check(&options)?;
    }
    Ok(options)
}

fn check(options: &CopyOptions) -> Result<(), SqlError> {
    let refuse = |message: &str| Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    let invalid = |message: &str| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    if matches!(options.delimiter, b'\n' | b'\r') {
        return invalid("COPY delimiter cannot be newline or carriage return");
    }
    if options.null.contains(['\n', '\r']) {
        return invalid("COPY null representation cannot use newline or carriage return");
    }
    let ambiguous = b"\\.abcdefghijklmnopqrstuvwxyz0123456789";
    if options.format == CopyFormat::Text && ambiguous.contains(&options.delimiter) {
        return invalid(&format!("COPY delimiter cannot be \"{}\"", options.delimiter as char));
    }
    if options.format == CopyFormat::Csv && options.delimiter == options.quote {
        return invalid("COPY delimiter and quote must be different");
    }
    if options.null.as_bytes().contains(&options.delimiter) {
        return refuse("COPY delimiter must not appear in the NULL specification");
    }
    if options.format == CopyFormat::Csv && options.null.as_bytes().contains(&options.quote) {
        return refuse("CSV quote character must not appear in the NULL specification");
    }
    Ok(())
}

fn one_byte(text: &str, message: &str) -> Result<u8, SqlError> {
    match text.as_bytes() {
        [byte] => Ok(*byte),
        _ => Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)),
    }
}
