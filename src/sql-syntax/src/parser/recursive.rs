//! `WITH MUTUALLY RECURSIVE [([RETURN AT | ERROR AT] RECURSION LIMIT n)] …`, wherever a query may stand: its first words are
//! replaced by what sqlparser understands (see [`mark`]).

use crate::ast::mark;
use engine::error::SqlError;
use engine::recursion::{AtLimit, ROUNDS_DEFAULT, RecursionLimit};
use repr::sqlstate::SqlState;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Replaces the clause in the tokens of a statement. Most statements have none and stay as they are.
pub(super) fn rewrite(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>, SqlError> {
    if !tokens.iter().any(|token| is_word(token, "MUTUALLY")) {
        return Ok(tokens);
    }
    let mut rewritten = Vec::with_capacity(tokens.len() + 8);
    let mut rest = Rest { tokens: &tokens, at: 0 };
    while let Some(token) = rest.tokens.get(rest.at) {
        let mut ahead = rest;
        rest.at += 1;
        let is_clause = is_word(token, "WITH") && ahead.eat("WITH") && ahead.eat("MUTUALLY") && ahead.eat("RECURSIVE");
        if !is_clause {
            rewritten.push(token.clone());
            continue;
        }
        let limit = ahead.limit()?;
        rest = ahead;
        let mark = Token::make_word(&mark(limit), Some('"'));
        let words = [
            Token::make_word("WITH", None),
            Token::make_word("RECURSIVE", None),
            mark,
            Token::make_word("AS", None),
            Token::LParen,
            Token::make_word("SELECT", None),
            Token::make_word("NULL", None),
            Token::RParen,
            Token::Comma,
        ];
        rewritten.extend(words.map(|word| TokenWithSpan { token: word, span: token.span }));
    }
    Ok(rewritten)
}

/// Tokens that have not been looked at.
#[derive(Clone, Copy)]
struct Rest<'a> {
    tokens: &'a [TokenWithSpan],
    at: usize,
}

impl<'a> Rest<'a> {
    /// The next token that is not blank.
    fn next(&mut self) -> Option<&'a TokenWithSpan> {
        loop {
            let token = self.tokens.get(self.at)?;
            self.at += 1;
            if !matches!(token.token, Token::Whitespace(_)) {
                return Some(token);
            }
        }
    }

    fn eat_if(&mut self, wanted: impl Fn(&TokenWithSpan) -> bool) -> bool {
        let mut ahead = *self;
        let found = ahead.next().is_some_and(wanted);
        if found {
            *self = ahead;
        }
        found
    }

    fn eat(&mut self, word: &str) -> bool {
        self.eat_if(|token| is_word(token, word))
    }

    fn expect(&mut self, what: impl Fn(&TokenWithSpan) -> bool) -> Result<(), SqlError> {
        if self.eat_if(what) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn unexpected(&self) -> SqlError {
        match self.peek() {
            None => SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at end of input"),
            Some(token) => {
                let message = format!("syntax error at or near \"{}\"", token.token);
                SqlError::new(SqlState::SYNTAX_ERROR, message).at(token.span)
            }
        }
    }

    /// The parenthesis behind the words, if there is one.
    fn limit(&mut self) -> Result<RecursionLimit, SqlError> {
        if !self.eat_if(|token| token.token == Token::LParen) {
            return Ok(RecursionLimit { rounds: ROUNDS_DEFAULT, then: AtLimit::Error });
        }
        let then = if self.eat("RETURN") { AtLimit::Return } else { AtLimit::Error };
        if then == AtLimit::Return || self.eat("ERROR") {
            self.expect(|token| is_word(token, "AT"))?;
        }
        self.expect(|token| is_word(token, "RECURSION"))?;
        self.expect(|token| is_word(token, "LIMIT"))?;
        let rounds = match self.peek().map(|token| &token.token) {
            Some(Token::Number(digits, _)) => digits.parse::<u64>().ok(),
            _ => return Err(self.unexpected()),
        };
        let Some(rounds) = rounds.filter(|rounds| *rounds > 0) else {
            let message = "a RECURSION LIMIT must be a number of rounds, at least 1";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        };
        self.next();
        self.expect(|token| token.token == Token::RParen)?;
        Ok(RecursionLimit { rounds, then })
    }

    fn peek(&self) -> Option<&'a TokenWithSpan> {
        let mut ahead = *self;
        ahead.next()
    }
}

fn is_word(token: &TokenWithSpan, expected: &str) -> bool {
    matches!(&token.token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(expected))
}
