//! One statement's tokens, and a place among them.
//!
//! Wraps sqlparser's parser, which reads queries, expressions and types, and adds what our own statements need: words
//! compared by text (many of ours are no keywords of sqlparser's), folded names, and Postgres's wording of errors.

use super::dialect::BoundedDialect;
use crate::keywords::is_reserved;
use crate::names::{Name, truncate_identifier};
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use sqlparser::ast::{self as sp, Ident};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::{Parser, ParserError, ParserOptions};
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan};

/// How deep expressions and queries may nest. Postgres's own limit is its stack; ours keeps parsing, planning and
/// dropping a statement well inside a 2 MiB thread stack.
pub(crate) const DEPTH_MAX: usize = 200;

pub(crate) static DIALECT: PostgreSqlDialect = PostgreSqlDialect {};

/// A parser in the middle of one statement.
pub(super) struct Cursor<'a> {
    /// sqlparser's own parser.
    parser: Parser<'a>,
    /// The text from which the tokens come, for error messages.
    text: &'a str,
    /// Bounds the work.
    dialect: &'a BoundedDialect,
    /// The `;` that ended the statement, if one did.
    terminator: Option<Span>,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(
        text: &'a str,
        dialect: &'a BoundedDialect,
        tokens: Vec<TokenWithSpan>,
        terminator: Option<Span>,
    ) -> Cursor<'a> {
        let options = ParserOptions::new().with_trailing_commas(false).with_unescape(true);
        let parser = Parser::new(dialect)
            .with_recursion_limit(DEPTH_MAX)
            .with_options(options)
            .with_tokens_with_locations(tokens);
        Cursor { parser, text, dialect, terminator }
    }

    /// A cursor over some of this one's tokens.
    pub(super) fn sub_cursor(&self, tokens: Vec<TokenWithSpan>) -> Cursor<'a> {
        Cursor::new(self.text, self.dialect, tokens, self.terminator)
    }

    /// A type; `integer ARRAY` and `integer ARRAY[3]` are `integer[]`.
    pub(super) fn data_type(&mut self) -> Result<sp::DataType, SqlError> {
        let of = self.run(|parser| parser.parse_data_type())?;
        if !self.eat(&["ARRAY"]) {
            return Ok(of);
        }
        if self.eat_token(&Token::LBracket) {
            self.unsigned()?;
            self.expect_token(&Token::RBracket)?;
        }
        Ok(sp::DataType::Array(sp::ArrayElemTypeDef::SquareBracket(Box::new(of), None)))
    }

    /// Runs one of sqlparser's own productions.
    pub(super) fn run<T>(
        &mut self,
        production: impl FnOnce(&mut Parser<'a>) -> Result<T, ParserError>,
    ) -> Result<T, SqlError> {
        match production(&mut self.parser) {
            Ok(value) => Ok(value),
            Err(error) => Err(self.translate(&error)),
        }
    }

    /// The next token is the word `word` (in capitals, unquoted).
    pub(super) fn peek(&self, word: &str) -> bool {
        is_word(self.parser.peek_token_ref(), word)
    }

    /// The next token but `n` is the word.
    pub(super) fn peek_nth(&self, n: usize, word: &str) -> bool {
        is_word(self.parser.peek_nth_token_ref(n), word)
    }

    /// The next token but `n`.
    pub(super) fn token(&self, n: usize) -> &Token {
        &self.parser.peek_nth_token_ref(n).token
    }

    /// The next token's text in capitals if it is an unquoted word.
    pub(super) fn word(&self) -> Option<String> {
        match &self.parser.peek_token_ref().token {
            Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_ascii_uppercase()),
            _ => None,
        }
    }

    /// Where the next token is.
    pub(super) fn span(&self) -> Span {
        self.parser.peek_token_ref().span
    }

    /// The text from the next token to the end of the statement.
    pub(super) fn rest(&self) -> &'a str {
        let start = offset_of(self.text, self.span().start);
        let end = match self.terminator {
            Some(span) => offset_of(self.text, span.start),
            None => self.text.len(),
        };
        self.text.get(start..end).unwrap_or_default().trim_end()
    }

    /// The text from a place to the end of the last token that was taken.
    pub(super) fn text_since(&self, start: Location) -> &'a str {
        let end = self.parser.get_current_token().span.end;
        self.text.get(offset_of(self.text, start)..offset_of(self.text, end)).unwrap_or_default()
    }

    /// Moves past the words if they come next.
    pub(super) fn eat(&mut self, words: &[&str]) -> bool {
        let found = words.iter().enumerate().all(|(n, word)| self.peek_nth(n, word));
        if found {
            for _ in words {
                self.parser.advance_token();
            }
        }
        found
    }

    /// `= true`, `true`, or nothing, which is true.
    pub(super) fn switch(&mut self) -> Result<bool, SqlError> {
        self.eat_token(&Token::Eq);
        if self.eat(&["TRUE"]) || self.eat(&["ON"]) {
            Ok(true)
        } else if self.eat(&["FALSE"]) || self.eat(&["OFF"]) {
            Ok(false)
        } else if matches!(self.token(0), Token::Comma | Token::RParen) {
            Ok(true)
        } else {
            Err(self.unexpected())
        }
    }

    /// Moves past the token if it comes next.
    pub(super) fn eat_token(&mut self, token: &Token) -> bool {
        self.parser.consume_token(token)
    }

    /// Moves past the next token.
    pub(super) fn advance(&mut self) -> TokenWithSpan {
        self.parser.next_token()
    }

    /// Moves past the words, which must come next.
    pub(super) fn expect(&mut self, words: &[&str]) -> Result<(), SqlError> {
        for word in words {
            if !self.eat(&[word]) {
                return Err(self.unexpected());
            }
        }
        Ok(())
    }

    /// Moves past the token, which must come next.
    pub(super) fn expect_token(&mut self, token: &Token) -> Result<(), SqlError> {
        if self.eat_token(token) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Nothing may follow.
    pub(super) fn expect_end(&self) -> Result<(), SqlError> {
        if self.at_end() { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Whether the statement is over.
    pub(super) fn at_end(&self) -> bool {
        self.parser.peek_token_ref().token == Token::EOF
    }

    /// A name of one part, folded.
    pub(super) fn ident(&mut self) -> Result<String, SqlError> {
        let TokenWithSpan { token, span } = self.parser.peek_token_ref();
        match token {
            Token::Word(word) if word.quote_style.is_some() => {
                if word.value.is_empty() {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        "zero-length delimited identifier at or near \"\"\"\"",
                    )
                    .at(*span));
                }
                let name = truncate_identifier(word.value.clone());
                self.parser.advance_token();
                Ok(name)
            }
            Token::Word(word) => {
                let name = word.value.to_lowercase();
                if is_reserved(&name) {
                    return Err(self.unexpected());
                }
                self.parser.advance_token();
                Ok(truncate_identifier(name))
            }
            _ => Err(self.unexpected()),
        }
    }

    /// A dotted name, folded. After a dot even a reserved word is a name.
    pub(super) fn name(&mut self) -> Result<Name, SqlError> {
        let mut parts = vec![self.ident()?];
        while self.eat_token(&Token::Period) {
            let token = self.parser.peek_token_ref();
            match &token.token {
                Token::Word(word) => {
                    let ident = Ident { value: word.value.clone(), quote_style: word.quote_style, span: token.span };
                    parts.push(fold(&ident));
                    self.parser.advance_token();
                }
                _ => return Err(self.unexpected()),
            }
        }
        Ok(Name { parts })
    }

    /// A string constant.
    pub(super) fn string(&mut self) -> Result<String, SqlError> {
        let text = match &self.parser.peek_token_ref().token {
            Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) | Token::UnicodeStringLiteral(text) => {
                text.clone()
            }
            Token::DollarQuotedString(quoted) => quoted.value.clone(),
            _ => return Err(self.unexpected()),
        };
        self.parser.advance_token();
        Ok(text)
    }

    /// A string constant or a name, as options take them.
    pub(super) fn string_or_ident(&mut self) -> Result<String, SqlError> {
        match &self.parser.peek_token_ref().token {
            Token::Word(word) => {
                let text = if word.quote_style.is_some() { word.value.clone() } else { word.value.to_lowercase() };
                self.parser.advance_token();
                Ok(text)
            }
            _ => self.string(),
        }
    }

    /// A non-negative integer.
    pub(super) fn unsigned(&mut self) -> Result<u64, SqlError> {
        match &self.parser.peek_token_ref().token {
            Token::Number(digits, _) => match digits.parse() {
                Ok(number) => {
                    self.parser.advance_token();
                    Ok(number)
                }
                Err(_) => Err(self.unexpected()),
            },
            _ => Err(self.unexpected()),
        }
    }

    /// One or more, separated by commas.
    pub(super) fn comma_separated<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, SqlError>,
    ) -> Result<Vec<T>, SqlError> {
        let mut items = vec![item(self)?];
        while self.eat_token(&Token::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// One or more in parentheses, separated by commas.
    pub(super) fn parenthesized<T>(
        &mut self,
        item: impl FnMut(&mut Self) -> Result<T, SqlError>,
    ) -> Result<Vec<T>, SqlError> {
        self.expect_token(&Token::LParen)?;
        let items = self.comma_separated(item)?;
        self.expect_token(&Token::RParen)?;
        Ok(items)
    }

    /// An expression.
    pub(super) fn expr(&mut self) -> Result<sp::Expr, SqlError> {
        self.run(Parser::parse_expr)
    }

    /// A query.
    pub(super) fn query(&mut self) -> Result<Box<sp::Query>, SqlError> {
        self.run(Parser::parse_query)
    }

    /// IF EXISTS.
    pub(super) fn if_exists(&mut self) -> bool {
        self.eat(&["IF", "EXISTS"])
    }

    /// IF NOT EXISTS.
    pub(super) fn if_not_exists(&mut self) -> bool {
        self.eat(&["IF", "NOT", "EXISTS"])
    }

    /// `syntax error at or near "…"` for the next token.
    pub(super) fn unexpected(&self) -> SqlError {
        let token = self.parser.peek_token_ref();
        if token.token == Token::EOF { self.unexpected_end() } else { self.unexpected_at(token.span) }
    }

    /// `… is not supported` with the place of the next token.
    pub(super) fn unsupported(&self, what: impl AsRef<str>) -> SqlError {
        SqlError::unsupported(what).at(self.span())
    }

    fn unexpected_at(&self, span: Span) -> SqlError {
        let start = offset_of(self.text, span.start);
        let end = offset_of(self.text, span.end).max(start);
        let text = self.text.get(start..end).unwrap_or_default();
        SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{text}\"")).at(span)
    }

    fn unexpected_end(&self) -> SqlError {
        match self.terminator {
            Some(span) => SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \";\"").at(span),
            None => SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at end of input")
                .with_position(self.text.chars().count() + 1),
        }
    }

    /// sqlparser's errors name the place of the offending token and describe it in words of their own.
    fn translate(&self, error: &ParserError) -> SqlError {
        let message = match error {
            ParserError::RecursionLimitExceeded => return too_deep(),
            ParserError::ParserError(message) | ParserError::TokenizerError(message) => message,
        };
        let Some(place) = location_in(message) else { return self.unexpected_end() };
        for n in 0.. {
            let Some(token) = self.tokens_from_start(n) else { break };
            if token.span.start == place {
                return match token.token {
                    Token::EOF => self.unexpected_end(),
                    _ => self.unexpected_at(token.span),
                };
            }
        }
        self.unexpected_at(Span::new(place, place))
    }

    fn tokens_from_start(&self, n: usize) -> Option<&TokenWithSpan> {
        let token = self.parser.token_at(n);
        (token.token != Token::EOF).then_some(token)
    }
}

/// `stack depth limit exceeded`.
pub(super) fn too_deep() -> SqlError {
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
        .with_hint("Reduce the number of nested parentheses, subqueries and operators in the statement.")
}

/// An identifier as Postgres folds it.
pub fn fold(ident: &Ident) -> String {
    truncate_identifier(match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    })
}

/// The byte offset of a place in a text.
pub(super) fn offset_of(text: &str, place: Location) -> usize {
    if place.line == 0 {
        return text.len();
    }
    let line_start: usize = text.split_inclusive('\n').take(place.line as usize - 1).map(str::len).sum();
    let line = &text[line_start..];
    let column = (place.column as usize).saturating_sub(1);
    line.char_indices().nth(column).map_or(text.len(), |(offset, _)| line_start + offset)
}

/// Whether this is the word, unquoted.
pub(super) fn is_word(token: &TokenWithSpan, expected: &str) -> bool {
    matches!(&token.token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(expected))
}

/// The `Line: l, Column: c` at the end of one of sqlparser's messages.
fn location_in(message: &str) -> Option<Location> {
    let (_, place) = message.rsplit_once(" at Line: ")?;
    let (line, column) = place.split_once(", Column: ")?;
    Some(Location::new(line.parse().ok()?, column.trim().parse().ok()?))
}
