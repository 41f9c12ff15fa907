//! Refuses statements over which a recursion could overflow its stack, before anything recurses.
//!
//! Trees get deep in two ways: by nesting (parentheses, brackets, CASE), and by chains of operators, which parse to trees
//! that lean to the left (`1 + 1 + 1 …`, `SELECT … UNION SELECT … UNION …`). Both can be counted on the tokens: nesting as
//! open brackets, chains as operators since the last comma or clause at the same nesting.

use super::cursor::{DEPTH_MAX, too_deep};
use engine::error::SqlError;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The longest chain of operators other than AND and OR.
const CHAIN_MAX: usize = 1000;
/// The longest chain of AND and OR, which is balanced afterwards.
const LOGICAL_MAX: usize = 2500;
/// The longest chain of UNION, INTERSECT, EXCEPT and JOIN.
const SET_OPERATIONS_MAX: usize = 250;
/// How deep `FROM ((SELECT` may nest: on a syntax error inside, sqlparser tries each such level twice.
const AMBIGUOUS_MAX: usize = 8;

/// What is counted at one nesting.
#[derive(Default)]
struct Level {
    operators: usize,
    /// AND and OR; the operators between two of them nest below these, not below each other.
    logical: usize,
    set_operations: usize,
    /// Opened directly inside another parenthesis that follows FROM, JOIN or a comma.
    ambiguous: bool,
}

/// Errors with 54001 when the statement is too complex. Returns the length of its longest chain of AND and OR.
pub(super) fn check(tokens: &[TokenWithSpan]) -> Result<usize, SqlError> {
    let mut logical_max = 0;
    let mut levels = vec![Level::default()];
    let mut ambiguous = 0;
    let mut previous_opens = false;
    for TokenWithSpan { token, .. } in tokens {
        let level = levels.last_mut().expect("the outermost level is never closed");
        let opens = matches!(token, Token::LParen);
        match token {
            Token::Whitespace(_) => continue,
            Token::LParen | Token::LBracket | Token::LBrace => {
                let nested = opens && previous_opens;
                levels.push(Level { ambiguous: nested, ..Level::default() });
                ambiguous += usize::from(nested);
            }
            Token::RParen | Token::RBracket | Token::RBrace => close(&mut levels, &mut ambiguous),
            Token::Comma => (level.operators, level.logical) = (0, 0),
            Token::Word(word) if word.quote_style.is_none() => match Meaning::of(&word.value) {
                Meaning::Open => levels.push(Level::default()),
                Meaning::Close => close(&mut levels, &mut ambiguous),
                Meaning::Clause => (level.operators, level.logical) = (0, 0),
                Meaning::Operator => level.operators += 1,
                Meaning::Logical => (level.operators, level.logical) = (0, level.logical + 1),
                Meaning::SetOperation => level.set_operations += 1,
                Meaning::Other => {}
            },
            other if is_operand(other) => {}
            _ => level.operators += 1,
        }
        previous_opens = opens;
        let level = levels.last().expect("the outermost level is never closed");
        logical_max = logical_max.max(level.logical);
        if level.operators > CHAIN_MAX
            || level.logical > LOGICAL_MAX
            || level.set_operations > SET_OPERATIONS_MAX
            || levels.len() > DEPTH_MAX
            || (ambiguous > AMBIGUOUS_MAX && looks_like_query(token))
        {
            return Err(too_deep());
        }
    }
    Ok(logical_max)
}

fn close(levels: &mut Vec<Level>, ambiguous: &mut usize) {
    if levels.len() > 1
        && let Some(level) = levels.pop()
    {
        *ambiguous -= usize::from(level.ambiguous);
    }
}

/// What a word does to the counts.
enum Meaning {
    Open,
    Close,
    Clause,
    Operator,
    Logical,
    SetOperation,
    Other,
}

impl Meaning {
    fn of(word: &str) -> Meaning {
        // Words are compared without allocating: a statement may have millions.
        let is = |words: &[&str]| words.iter().any(|candidate| candidate.eq_ignore_ascii_case(word));
        match word.len() {
            2 if is(&["OR"]) => Meaning::Logical,
            2 if is(&["IS", "IN", "AT"]) => Meaning::Operator,
            3 if is(&["AND"]) => Meaning::Logical,
            3 if is(&["NOT"]) => Meaning::Operator,
            3 if is(&["END"]) => Meaning::Close,
            4 if is(&["CASE"]) => Meaning::Open,
            4 if is(&["LIKE"]) => Meaning::Operator,
            4 if is(&["JOIN"]) => Meaning::SetOperation,
            4 if is(&["WHEN", "THEN", "ELSE"]) => Meaning::Clause,
            5 if is(&["ILIKE"]) => Meaning::Operator,
            5 if is(&["UNION"]) => Meaning::SetOperation,
            5 if is(&["WHERE", "GROUP", "ORDER", "LIMIT"]) => Meaning::Clause,
            6 if is(&["EXCEPT"]) => Meaning::SetOperation,
            6 if is(&["SELECT", "HAVING"]) => Meaning::Clause,
            6 if is(&["ISNULL"]) => Meaning::Operator,
            7 if is(&["COLLATE", "BETWEEN", "SIMILAR", "NOTNULL"]) => Meaning::Operator,
            9 if is(&["INTERSECT"]) => Meaning::SetOperation,
            _ => Meaning::Other,
        }
    }
}

fn looks_like_query(token: &Token) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("SELECT"))
}

fn is_operand(token: &Token) -> bool {
    matches!(
        token,
        Token::Word(_)
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::DollarQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::Placeholder(_)
            | Token::Period
            | Token::EOF
    )
}
