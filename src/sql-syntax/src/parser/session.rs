//! Statements about the session: variables, transactions, DISCARD.

use super::constraint;
use super::cursor::Cursor;
use crate::ast::{DiscardTarget, IsolationLevel, SetValue, Statement, TransactionModes};
use engine::error::SqlError;
use sqlparser::tokenizer::Token;

/// SET in all its forms.
pub(super) fn parse_set(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.expect(&["SET"])?;
    if cursor.eat(&["SESSION", "CHARACTERISTICS", "AS", "TRANSACTION"]) {
        return Ok(Statement::SetSessionCharacteristics(parse_modes(cursor, true)?));
    }
    if cursor.eat(&["TRANSACTION"]) {
        if cursor.peek("SNAPSHOT") {
            return Err(cursor.unsupported("SET TRANSACTION SNAPSHOT"));
        }
        return Ok(Statement::SetTransaction(parse_modes(cursor, true)?));
    }
    // A variable could be called `local` or `session`; then = or TO follows.
    let assigned = *cursor.token(1) == Token::Eq || cursor.peek_nth(1, "TO");
    let local = !assigned && cursor.eat(&["LOCAL"]);
    if !assigned && !local {
        cursor.eat(&["SESSION"]);
    }
    if !assigned && cursor.eat(&["CONSTRAINTS"]) {
        return Ok(Statement::SetConstraints(constraint::parse_set(cursor)?));
    }
    if cursor.peek("ROLE") && *cursor.token(1) != Token::Eq && !cursor.peek_nth(1, "TO") {
        cursor.advance();
        let value = SetValue::Values(vec![cursor.string_or_ident()?]);
        return Ok(Statement::Set { variable: "role".to_owned(), value, local });
    }
    if cursor.peek("AUTHORIZATION") {
        return Err(cursor.unsupported("SET SESSION AUTHORIZATION"));
    }
    if cursor.eat(&["TIME", "ZONE"]) {
        let value = parse_time_zone(cursor)?;
        return Ok(Statement::Set { variable: "timezone".to_owned(), value, local });
    }
    if cursor.eat(&["NAMES"]) {
        let value = if cursor.at_end() || cursor.eat(&["DEFAULT"]) {
            SetValue::Default
        } else {
            SetValue::Values(vec![cursor.string_or_ident()?])
        };
        return Ok(Statement::Set { variable: "client_encoding".to_owned(), value, local });
    }
    let (variable, value) = parse_assignment(cursor)?;
    Ok(Statement::Set { variable, value, local })
}

/// `x = v, …` or `x TO v, …`, also `SCHEMA 'x'` for the search path.
pub(super) fn parse_assignment(cursor: &mut Cursor<'_>) -> Result<(String, SetValue), SqlError> {
    if cursor.peek("SCHEMA") && matches!(cursor.token(1), Token::SingleQuotedString(_)) {
        cursor.advance();
        return Ok(("search_path".to_owned(), SetValue::Values(vec![cursor.string()?])));
    }
    let variable = parse_variable(cursor)?;
    if !cursor.eat_token(&Token::Eq) {
        cursor.expect(&["TO"])?;
    }
    if cursor.eat(&["DEFAULT"]) {
        return Ok((variable, SetValue::Default));
    }
    let values = cursor.comma_separated(parse_value)?;
    Ok((variable, SetValue::Values(values)))
}

/// A variable's name, which may have dots, and may be two words for the time zone and the isolation level.
pub(super) fn parse_variable(cursor: &mut Cursor<'_>) -> Result<String, SqlError> {
    if cursor.eat(&["TIME", "ZONE"]) {
        return Ok("timezone".to_owned());
    }
    if cursor.eat(&["TRANSACTION", "ISOLATION", "LEVEL"]) {
        return Ok("transaction_isolation".to_owned());
    }
    if cursor.eat(&["SESSION", "AUTHORIZATION"]) {
        return Ok("session_authorization".to_owned());
    }
    Ok(cursor.name()?.to_string().to_lowercase())
}

/// A word, a string or a signed number, as text.
fn parse_value(cursor: &mut Cursor<'_>) -> Result<String, SqlError> {
    let sign = if cursor.eat_token(&Token::Minus) {
        "-"
    } else {
        cursor.eat_token(&Token::Plus);
        ""
    };
    match cursor.token(0) {
        Token::Number(digits, _) => {
            let text = format!("{sign}{digits}");
            cursor.advance();
            // `SET x = 5s` reads as a number and a word.
            Ok(text)
        }
        _ if sign.is_empty() => cursor.string_or_ident(),
        _ => Err(cursor.unexpected()),
    }
}

/// A string, a name, a number of hours, INTERVAL '…' [HOUR TO MINUTE], LOCAL or DEFAULT.
fn parse_time_zone(cursor: &mut Cursor<'_>) -> Result<SetValue, SqlError> {
    if cursor.eat(&["LOCAL"]) || cursor.eat(&["DEFAULT"]) {
        return Ok(SetValue::Default);
    }
    if cursor.peek("INTERVAL") {
        return parse_interval_zone(cursor);
    }
    Ok(SetValue::Values(vec![parse_value(cursor)?]))
}

/// `INTERVAL '-08:00' HOUR TO MINUTE`, as drivers write it: hours and minutes east of Greenwich.
fn parse_interval_zone(cursor: &mut Cursor<'_>) -> Result<SetValue, SqlError> {
    let refused = cursor.unsupported("this time zone interval");
    cursor.expect(&["INTERVAL"])?;
    let text = cursor.string()?;
    cursor.eat(&["HOUR", "TO", "MINUTE"]);
    let (sign, digits) = match text.trim().strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.trim().trim_start_matches('+')),
    };
    let (hours, minutes) = digits.split_once(':').unwrap_or((digits, "0"));
    match (hours.parse::<u8>(), minutes.parse::<u8>()) {
        (Ok(hours), Ok(minutes)) if hours < 16 && minutes < 60 => {
            let offset = sign * (f64::from(hours) + f64::from(minutes) / 60.0);
            Ok(SetValue::Values(vec![offset.to_string()]))
        }
        _ => Err(refused),
    }
}

pub(super) fn parse_reset(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    cursor.expect(&["RESET"])?;
    if cursor.eat(&["ALL"]) {
        return Ok(Statement::Reset(None));
    }
    Ok(Statement::Reset(Some(parse_variable(cursor)?)))
}

/// BEGIN [WORK | TRANSACTION] [modes], START TRANSACTION [modes].
pub(super) fn parse_begin(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    if cursor.eat(&["START"]) {
        cursor.expect(&["TRANSACTION"])?;
    } else {
        cursor.expect(&["BEGIN"])?;
        if !cursor.eat(&["WORK"]) {
            cursor.eat(&["TRANSACTION"]);
        }
    }
    Ok(Statement::Begin(parse_modes(cursor, false)?))
}

/// Transaction modes, separated by commas or nothing.
fn parse_modes(cursor: &mut Cursor<'_>, required: bool) -> Result<TransactionModes, SqlError> {
    let mut modes = TransactionModes::default();
    let mut any = false;
    while !cursor.at_end() {
        if any {
            cursor.eat_token(&Token::Comma);
        }
        if cursor.eat(&["ISOLATION", "LEVEL"]) {
            modes.isolation = Some(parse_isolation(cursor)?);
        } else if cursor.eat(&["READ", "ONLY"]) {
            modes.read_only = Some(true);
        } else if cursor.eat(&["READ", "WRITE"]) {
            modes.read_only = Some(false);
        } else if cursor.eat(&["NOT", "DEFERRABLE"]) {
            modes.deferrable = Some(false);
        } else if cursor.eat(&["DEFERRABLE"]) {
            modes.deferrable = Some(true);
        } else {
            return Err(cursor.unexpected());
        }
        any = true;
    }
    if required && !any {
        return Err(cursor.unexpected());
    }
    Ok(modes)
}

fn parse_isolation(cursor: &mut Cursor<'_>) -> Result<IsolationLevel, SqlError> {
    let levels: [(&[&str], IsolationLevel); 5] = [
        (&["READ", "UNCOMMITTED"], IsolationLevel::ReadUncommitted),
        (&["READ", "COMMITTED"], IsolationLevel::ReadCommitted),
        (&["REPEATABLE", "READ"], IsolationLevel::RepeatableRead),
        (&["SERIALIZABLE"], IsolationLevel::Serializable),
        (&["STRICT", "SERIALIZABLE"], IsolationLevel::StrictSerializable),
    ];
    match levels.into_iter().find(|(words, _)| cursor.eat(words)) {
        Some((_, level)) => Ok(level),
        None => Err(cursor.unexpected()),
    }
}

/// COMMIT | END | ROLLBACK | ABORT [WORK | TRANSACTION] [AND [NO] CHAIN], ROLLBACK TO.
pub(super) fn parse_transaction_end(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let commit = cursor.eat(&["COMMIT"]) || cursor.eat(&["END"]);
    if !commit {
        cursor.advance();
    }
    if cursor.peek("PREPARED") {
        return Err(cursor.unsupported("two-phase commit"));
    }
    if !cursor.eat(&["WORK"]) {
        cursor.eat(&["TRANSACTION"]);
    }
    if !commit && cursor.eat(&["TO"]) {
        cursor.eat(&["SAVEPOINT"]);
        return Ok(Statement::RollbackToSavepoint(cursor.ident()?));
    }
    let chain = cursor.eat(&["AND", "CHAIN"]);
    if !chain {
        cursor.eat(&["AND", "NO", "CHAIN"]);
    }
    Ok(if commit { Statement::Commit { chain } } else { Statement::Rollback { chain } })
}

pub(super) fn parse_savepoint(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    if cursor.eat(&["SAVEPOINT"]) {
        return Ok(Statement::Savepoint(cursor.ident()?));
    }
    cursor.expect(&["RELEASE"])?;
    cursor.eat(&["SAVEPOINT"]);
    Ok(Statement::ReleaseSavepoint(cursor.ident()?))
}

/// DISCARD, LISTEN, UNLISTEN.
pub(super) fn parse_miscellaneous(cursor: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    if cursor.eat(&["LISTEN"]) {
        return Ok(Statement::Listen(cursor.ident()?));
    }
    if cursor.eat(&["UNLISTEN"]) {
        let all = cursor.eat_token(&Token::Mul);
        return Ok(Statement::Unlisten(if all { None } else { Some(cursor.ident()?) }));
    }
    cursor.expect(&["DISCARD"])?;
    let targets: [(&str, DiscardTarget); 5] = [
        ("ALL", DiscardTarget::All),
        ("PLANS", DiscardTarget::Plans),
        ("SEQUENCES", DiscardTarget::Sequences),
        ("TEMP", DiscardTarget::Temporary),
        ("TEMPORARY", DiscardTarget::Temporary),
    ];
    match targets.into_iter().find(|(word, _)| cursor.eat(&[word])) {
        Some((_, target)) => Ok(Statement::Discard(target)),
        None => Err(cursor.unexpected()),
    }
}
