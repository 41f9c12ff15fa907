//! From text to statements.
//!
//! The text is tokenised once; the tokens are cut into statements at semicolons; each statement is parsed by itself, by
//! sqlparser's PostgreSQL productions for queries, data changes, expressions and types, and by productions of ours for
//! everything else, which either understand a statement completely or refuse it by name (0A000).
//!
//! Errors are Postgres's: `syntax error at or near "x"` with the position in the whole text. Text that nests too deeply,
//! or chains too many operators, is refused before anything recurses over it (54001).
//!
//! # Invariants
//! - Work is linear in the length of the text.
//! - Places in the AST (spans) count lines and columns of the whole text that was given to [`parse`].

mod alter_table;
mod balance;
mod column;
mod complexity;
mod constraint;
mod copy;
mod cursor;
mod data;
mod ddl;
mod dialect;
mod foreign;
mod grant;
mod locking;
mod model;
mod prefix;
mod query;
mod recursive;
mod secret;
mod sequence;
mod session;
mod show;
mod statement;
mod storage;
mod subscribe;
mod table_command;
mod upkeep;
mod webhook;

use crate::ast::Statement;
use cursor::{Cursor, DIALECT};
use dialect::BoundedDialect;
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use sqlparser::ast as sp;
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer, TokenizerError};

pub use cursor::fold;
pub use dialect::SYMMETRIC;
pub use model::ONLY_FILE;

/// A statement and its own text.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedStatement {
    /// What it says.
    pub ast: Statement,
    /// Its text, without surrounding space and comments and without its semicolon.
    pub sql: String,
}

/// Bytes that a text takes for each of its own, and for each of its tokens: an item of a list takes the more the more is made of it.
const BYTES_PER_BYTE: usize = 4;
const BYTES_PER_TOKEN: usize = 600;

/// Parses all statements of a text. Empty ones are dropped, so the result may be empty.
///
/// Errors: 42601 with a position, 0A000 for what is not supported, 54001 for what is too complex.
pub fn parse(sql: &str) -> Result<Vec<ParsedStatement>, SqlError> {
    parse_all(sql).map_err(|error| error.locate(sql))
}

/// About how many bytes a text takes until it has been planned: its tokens, its syntax tree, its plan. Measured on long lists.
pub fn estimated_bytes(sql: &str) -> usize {
    let (mut tokens, mut before) = (0_usize, b' ');
    let mut bytes = sql.bytes();
    while let Some(byte) = bytes.next() {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | 0x80..);
        match byte {
            // What a literal has in it is one token, however long.
            b'\'' | b'"' => {
                tokens += 1;
                bytes.by_ref().find(|inside| *inside == byte);
            }
            byte if byte.is_ascii_whitespace() || (is_word(byte) && is_word(before)) => {}
            _ => tokens += 1,
        }
        before = byte;
    }
    sql.len() * BYTES_PER_BYTE + tokens * BYTES_PER_TOKEN
}

/// Parses exactly one query: a view's definition.
pub fn parse_query(sql: &str) -> Result<Box<sp::Query>, SqlError> {
    single(sql, |cursor| {
        let mut query = cursor.query()?;
        query::check_query(&query)?;
        balance::balance_query(&mut query);
        Ok(query)
    })
}

/// Parses exactly one expression: a default, an index key.
pub fn parse_expr(sql: &str) -> Result<sp::Expr, SqlError> {
    single(sql, |cursor| cursor.expr())
}

/// Parses exactly one type name.
pub fn parse_data_type(sql: &str) -> Result<sp::DataType, SqlError> {
    single(sql, |cursor| cursor.run(|parser| parser.parse_data_type()))
}

fn parse_all(sql: &str) -> Result<Vec<ParsedStatement>, SqlError> {
    let mut statements = Vec::new();
    let mut places = Places::new(sql);
    for mut piece in split(tokenize(sql)?) {
        let start = places.offset(piece.start);
        let end = places.offset(piece.end);
        let chain = complexity::check(&piece.tokens)?;
        let dialect = BoundedDialect::new(piece.tokens.len());
        let as_of = subscribe::cut_as_of(&mut piece.tokens);
        let mut cursor = Cursor::new(sql, &dialect, rewrite(piece.tokens)?, piece.terminator);
        let mut ast = statement::parse_statement(&mut cursor)?;
        cursor.expect_end()?;
        if let Some(tokens) = as_of {
            let mut cursor = cursor.sub_cursor(tokens);
            let as_of = subscribe::parse_as_of(&mut cursor)?;
            cursor.expect_end()?;
            ast = statement::with_as_of(ast, Box::new(as_of))?;
        }
        if chain >= balance::CHAIN_MIN {
            balance::balance(&mut ast);
        }
        statements.push(ParsedStatement { ast, sql: sql[start..end].to_owned() });
    }
    Ok(statements)
}

fn single<T>(sql: &str, production: impl FnOnce(&mut Cursor<'_>) -> Result<T, SqlError>) -> Result<T, SqlError> {
    let parse = || {
        let tokens = tokenize(sql)?;
        complexity::check(&tokens)?;
        let dialect = BoundedDialect::new(tokens.len());
        let mut cursor = Cursor::new(sql, &dialect, rewrite(tokens)?, None);
        let value = production(&mut cursor)?;
        cursor.expect_end()?;
        Ok(value)
    };
    parse().map_err(|error: SqlError| error.locate(sql))
}

/// Replaces what sqlparser does not understand, or not in every place, or understands otherwise.
fn rewrite(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>, SqlError> {
    recursive::rewrite(table_command::rewrite(locking::rewrite(foreign::rewrite(tokens))))
}

/// The tokens of one statement, which is not empty.
struct Piece {
    tokens: Vec<TokenWithSpan>,
    start: Location,
    end: Location,
    terminator: Option<Span>,
}

/// Cuts tokens at semicolons and drops what is empty.
fn split(tokens: Vec<TokenWithSpan>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut current: Option<Piece> = None;
    for token in tokens {
        match (&token.token, &mut current) {
            (Token::SemiColon, _) => {
                if let Some(mut piece) = current.take() {
                    piece.terminator = Some(token.span);
                    pieces.push(piece);
                }
            }
            (Token::Whitespace(_), None) => {}
            // Comments inside a statement stay: hints are comments.
            (Token::Whitespace(_), Some(piece)) => piece.tokens.push(token),
            (_, None) => {
                let Span { start, end } = token.span;
                current = Some(Piece { tokens: vec![token], start, end, terminator: None });
            }
            (_, Some(piece)) => {
                piece.end = token.span.end;
                piece.tokens.push(token);
            }
        }
    }
    pieces.extend(current);
    pieces
}

fn tokenize(sql: &str) -> Result<Vec<TokenWithSpan>, SqlError> {
    let tokens = Tokenizer::new(&DIALECT, sql).tokenize_with_location().map_err(|error| lexical_error(sql, &error))?;
    let is_nameless =
        |token: &Token| matches!(token, Token::Word(word) if word.quote_style.is_some() && word.value.is_empty());
    match tokens.iter().find(|token| is_nameless(&token.token)) {
        Some(nameless) => {
            let message = "zero-length delimited identifier at or near \"\"\"\"";
            Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(nameless.span))
        }
        None => Ok(tokens),
    }
}

/// Postgres's words for what the tokeniser stumbled over.
fn lexical_error(sql: &str, error: &TokenizerError) -> SqlError {
    let rest = &sql[cursor::offset_of(sql, error.location)..];
    let message = error.message.to_ascii_lowercase();
    let kind = if message.contains("dollar") {
        "unterminated dollar-quoted string"
    } else if message.contains("comment") {
        "unterminated /* comment"
    } else if message.contains("string literal") {
        "unterminated quoted string"
    } else if message.contains("close delimiter") {
        "unterminated quoted identifier"
    } else {
        "syntax error"
    };
    let message =
        if rest.is_empty() { format!("{kind} at end of input") } else { format!("{kind} at or near \"{rest}\"") };
    SqlError::new(SqlState::SYNTAX_ERROR, message).at(Span::new(error.location, error.location))
}

/// Turns places into byte offsets; the places must come in ascending order, so that the text is walked once.
struct Places<'a> {
    text: &'a str,
    at: Location,
    offset: usize,
}

impl<'a> Places<'a> {
    fn new(text: &'a str) -> Places<'a> {
        Places { text, at: Location::new(1, 1), offset: 0 }
    }

    fn offset(&mut self, place: Location) -> usize {
        let mut chars = self.text[self.offset..].chars();
        while (self.at.line, self.at.column) < (place.line, place.column) {
            let Some(c) = chars.next() else { break };
            self.offset += c.len_utf8();
            if c == '\n' {
                self.at = Location::new(self.at.line + 1, 1);
            } else {
                self.at.column += 1;
            }
        }
        self.offset
    }
}
