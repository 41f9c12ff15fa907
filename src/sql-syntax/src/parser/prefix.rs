//! How expressions begin, where what sqlparser makes of it does not read back as what was written.
//!
//! - A sign before a sign is printed next to it: `- -5` as `--5`, which is a comment. The inner one gets parentheses.
//! - An operator like `~` binds less tightly than `+`: `~1 + 1` is `~(1 + 1)`.
//! - A string that begins an end of a window's frame is read as an interval and nothing more, so `'1 day'::interval` is no offset.
//!   Its cast is read with it.

use sqlparser::ast::{CastKind, Expr, UnaryOperator};
use sqlparser::dialect::{Dialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

/// The beginning of an expression, if it is one of these.
pub(super) fn parse(dialect: &dyn Dialect, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
    let (first, second) = (&parser.peek_nth_token_ref(0).token, &parser.peek_nth_token_ref(1).token);
    let is_nested = sign(second).is_some();
    if let Some((op, precedence)) = sign(first)
        && (is_nested || matches!(precedence, Precedence::PgOther))
    {
        parser.advance_token();
        let inner = parser.parse_subexpr(dialect.prec_value(precedence));
        return Some(inner.map(|inner| {
            let inner = if is_nested { Expr::Nested(Box::new(inner)) } else { inner };
            Expr::UnaryOp { op, expr: Box::new(inner) }
        }));
    }
    if matches!((first, second), (Token::SingleQuotedString(_), Token::DoubleColon)) && begins_frame(parser) {
        return Some(cast_string(parser));
    }
    None
}

/// The operator that a token is before its operand, and how tightly it binds.
fn sign(token: &Token) -> Option<(UnaryOperator, Precedence)> {
    Some(match token {
        Token::Minus => (UnaryOperator::Minus, Precedence::MulDivModOp),
        Token::Plus => (UnaryOperator::Plus, Precedence::MulDivModOp),
        Token::Tilde => (UnaryOperator::BitwiseNot, Precedence::PgOther),
        Token::AtSign => (UnaryOperator::PGAbs, Precedence::PgOther),
        Token::PGSquareRoot => (UnaryOperator::PGSquareRoot, Precedence::PgOther),
        Token::PGCubeRoot => (UnaryOperator::PGCubeRoot, Precedence::PgOther),
        _ => return None,
    })
}

/// Whether the word before the next token is one that stands before an end of a frame. Elsewhere a cast read early is the cast
/// that it would have been.
fn begins_frame(parser: &Parser<'_>) -> bool {
    matches!(&parser.get_current_token().token,
        Token::Word(word) if matches!(word.keyword,
            Keyword::RANGE | Keyword::ROWS | Keyword::GROUPS | Keyword::BETWEEN | Keyword::AND))
}

fn cast_string(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    let mut expr = Expr::Value(parser.parse_value()?);
    while parser.consume_token(&Token::DoubleColon) {
        expr = Expr::Cast {
            kind: CastKind::DoubleColon,
            expr: Box::new(expr),
            data_type: parser.parse_data_type()?,
            array: false,
            format: None,
        };
    }
    Ok(expr)
}
