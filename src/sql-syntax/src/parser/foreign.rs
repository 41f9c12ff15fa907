//! Words that mean something to sqlparser because another dialect has them, and nothing to Postgres: here they are names.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Each of them stops sqlparser from taking a name for one: in `SELECT top.x FROM t top`, `FROM t sample`, `SELECT 1 minus`.
const WORDS: [Keyword; 24] = [
    Keyword::ANTI,
    Keyword::ASOF,
    Keyword::CONNECT,
    Keyword::DISTRIBUTE,
    Keyword::DIV,
    Keyword::FORMAT,
    Keyword::MATCH_CONDITION,
    Keyword::MATCH_RECOGNIZE,
    Keyword::MEMBER,
    Keyword::MINUS,
    Keyword::OPEN,
    Keyword::OUTPUT,
    Keyword::PIVOT,
    Keyword::PREWHERE,
    Keyword::QUALIFY,
    Keyword::REGEXP,
    Keyword::RLIKE,
    Keyword::SAMPLE,
    Keyword::SEMI,
    Keyword::SETTINGS,
    Keyword::SORT,
    Keyword::TOP,
    Keyword::UNPIVOT,
    Keyword::XOR,
];

/// Makes names of them.
pub(super) fn rewrite(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for token in &mut tokens {
        if let Token::Word(word) = &mut token.token
            && WORDS.contains(&word.keyword)
        {
            word.keyword = Keyword::NoKeyword;
        }
    }
    tokens
}
