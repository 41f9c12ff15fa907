//! `TABLE t`, which is `SELECT * FROM t` wherever a query may stand: its word is replaced by those.

use crate::keywords::is_reserved;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// What a query may stand behind, beside the start of the statement and what an INSERT begins with.
const BEFORE_QUERIES: [Keyword; 10] = [
    Keyword::UNION,
    Keyword::INTERSECT,
    Keyword::EXCEPT,
    Keyword::ALL,
    Keyword::DISTINCT,
    Keyword::AS,
    Keyword::FOR,
    Keyword::EXPLAIN,
    Keyword::ANALYZE,
    Keyword::VERBOSE,
];

/// What may stand behind a query, or behind its body.
const BEHIND_QUERIES: [Keyword; 11] = [
    Keyword::UNION,
    Keyword::INTERSECT,
    Keyword::EXCEPT,
    Keyword::ORDER,
    Keyword::LIMIT,
    Keyword::OFFSET,
    Keyword::FETCH,
    Keyword::FOR,
    Keyword::WITH,
    Keyword::ON,
    Keyword::RETURNING,
];

/// Replaces the word in the tokens of a statement. Most statements do not have it and stay as they are.
pub(super) fn rewrite(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| keyword(&token.token) == Some(Keyword::TABLE)) {
        return tokens;
    }
    let solid: Vec<usize> = (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_))).collect();
    let token = |nth: usize| solid.get(nth).map(|at| &tokens[*at].token);
    let is_insert = token(0).and_then(keyword) == Some(Keyword::INSERT);
    let begins_query = |nth: usize| match nth.checked_sub(1).and_then(token) {
        None | Some(Token::LParen | Token::RParen) => true,
        Some(before) => {
            keyword(before).is_some_and(|word| BEFORE_QUERIES.contains(&word) || is_insert && word != Keyword::INTO)
        }
    };
    // What stands behind the name, which begins here.
    let ends_query = |nth: usize| {
        let parts = (nth..).step_by(2).take_while(|nth| token(nth + 1) == Some(&Token::Period)).count();
        match token(nth + 2 * parts + 1) {
            None | Some(Token::RParen) => true,
            Some(behind) => keyword(behind).is_some_and(|word| BEHIND_QUERIES.contains(&word)),
        }
    };
    let mut commands = (0..solid.len()).filter(|nth| {
        token(*nth).and_then(keyword) == Some(Keyword::TABLE)
            && token(nth + 1).is_some_and(is_name)
            && begins_query(*nth)
            && ends_query(*nth + 1)
    });
    let mut next = commands.next();
    let mut rewritten = Vec::with_capacity(tokens.len() + 4);
    for (at, token) in tokens.iter().enumerate() {
        if next.is_some_and(|nth| solid[nth] == at) {
            let words = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
            rewritten.extend(words.map(|word| TokenWithSpan { token: word, span: token.span }));
            next = commands.next();
        } else {
            rewritten.push(token.clone());
        }
    }
    rewritten
}

/// What a word is to the parser; one in quotes, or of no meaning, is no keyword.
pub(super) fn keyword(token: &Token) -> Option<Keyword> {
    match token {
        Token::Word(word) => Some(word.keyword),
        _ => None,
    }
}

/// Whether a token may be a table's name, or what stands before one. `TABLE` is a name itself behind AS; no name comes next then.
fn is_name(token: &Token) -> bool {
    match token {
        Token::Word(word) => word.quote_style.is_some() || !is_reserved(&word.value.to_ascii_lowercase()),
        _ => false,
    }
}
