//! FOR UPDATE and its kin, as the parser below knows them: of two strengths, with one relation to a clause, behind LIMIT.
//!
//! Weaker locks become the stronger ones of their kind: FOR NO KEY UPDATE is FOR UPDATE, and FOR KEY SHARE is FOR SHARE.

use super::table_command::keyword;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Span, Token, TokenWithSpan};
use std::ops::Range;

/// Replaces the clauses in the tokens of a statement. Most statements have none and stay as they are.
pub(super) fn rewrite(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| keyword(&token.token) == Some(Keyword::FOR)) {
        return tokens;
    }
    let is_solid = |at: &usize| !matches!(tokens[*at].token, Token::Whitespace(_));
    let statement = Solid { solid: (0..tokens.len()).filter(is_solid).collect(), tokens: &tokens };
    let mut rewritten = Vec::with_capacity(tokens.len());
    let (mut copied, mut nth) = (0, 0);
    while nth < statement.solid.len() {
        let Some((clauses, end)) = statement.clauses(nth) else {
            nth += 1;
            continue;
        };
        rewritten.extend_from_slice(&tokens[copied..statement.solid[nth]]);
        let limit = statement.limit(end);
        rewritten.extend(limit.clone().map(|nth| tokens[statement.solid[nth]].clone()));
        clauses.iter().for_each(|clause| statement.write(clause, &mut rewritten));
        nth = limit.end;
        copied = statement.solid.get(nth).copied().unwrap_or(tokens.len());
    }
    rewritten.extend_from_slice(&tokens[copied..]);
    rewritten
}

/// A statement's tokens without the space between them.
struct Solid<'t> {
    tokens: &'t [TokenWithSpan],
    solid: Vec<usize>,
}

/// One clause, by the places of its tokens.
struct Clause {
    /// UPDATE or SHARE; none for READ ONLY, which locks nothing.
    strength: Option<&'static str>,
    of: Vec<Range<usize>>,
    /// NOWAIT or SKIP LOCKED.
    nonblock: Range<usize>,
    span: Span,
}

impl Solid<'_> {
    fn token(&self, nth: usize) -> Option<&Token> {
        self.solid.get(nth).map(|at| &self.tokens[*at].token)
    }

    fn says(&self, nth: usize, words: &[Keyword]) -> bool {
        words.iter().enumerate().all(|(offset, word)| self.token(nth + offset).and_then(keyword) == Some(*word))
    }

    /// All clauses that begin here, and where they end.
    fn clauses(&self, nth: usize) -> Option<(Vec<Clause>, usize)> {
        let (first, mut end) = self.clause(nth)?;
        let mut clauses = vec![first];
        while let Some((next, behind)) = self.clause(end) {
            clauses.push(next);
            end = behind;
        }
        Some((clauses, end))
    }

    fn clause(&self, nth: usize) -> Option<(Clause, usize)> {
        const FORMS: [(&[Keyword], Option<&str>); 5] = [
            (&[Keyword::FOR, Keyword::UPDATE], Some("UPDATE")),
            (&[Keyword::FOR, Keyword::NO, Keyword::KEY, Keyword::UPDATE], Some("UPDATE")),
            (&[Keyword::FOR, Keyword::SHARE], Some("SHARE")),
            (&[Keyword::FOR, Keyword::KEY, Keyword::SHARE], Some("SHARE")),
            (&[Keyword::FOR, Keyword::READ, Keyword::ONLY], None),
        ];
        let (words, strength) = FORMS.into_iter().find(|(words, _)| self.says(nth, words))?;
        let span = self.tokens[self.solid[nth]].span;
        let mut at = nth + words.len();
        let mut of = Vec::new();
        if strength.is_some() && self.says(at, &[Keyword::OF]) {
            loop {
                let name = at + 1;
                at = name + 1;
                while self.token(at) == Some(&Token::Period) {
                    at += 2;
                }
                of.push(name..at.min(self.solid.len()));
                if self.token(at) != Some(&Token::Comma) {
                    break;
                }
            }
        }
        let waits_not: &[&[Keyword]] = &[&[Keyword::NOWAIT], &[Keyword::SKIP, Keyword::LOCKED]];
        let said = waits_not.iter().find(|words| strength.is_some() && self.says(at, words));
        let nonblock = at..at + said.map_or(0, |words| words.len());
        let end = nonblock.end;
        Some((Clause { strength, of, nonblock, span }, end))
    }

    /// LIMIT, OFFSET and FETCH behind the clauses.
    fn limit(&self, nth: usize) -> Range<usize> {
        let begins = [Keyword::LIMIT, Keyword::OFFSET, Keyword::FETCH].iter().any(|word| self.says(nth, &[*word]));
        let ends = [Keyword::ON, Keyword::RETURNING, Keyword::WITH];
        let (mut end, mut depth) = (nth, 0_usize);
        while begins && let Some(token) = self.token(end) {
            match token {
                Token::LParen => depth += 1,
                Token::RParen if depth > 0 => depth -= 1,
                Token::RParen | Token::SemiColon => break,
                token if depth == 0 && keyword(token).is_some_and(|word| ends.contains(&word)) => break,
                _ => {}
            }
            end += 1;
        }
        nth..end
    }

    fn write(&self, clause: &Clause, out: &mut Vec<TokenWithSpan>) {
        let Some(strength) = clause.strength else { return };
        let mut write = |of: Option<&Range<usize>>| {
            let words = ["FOR", strength].into_iter().chain(of.map(|_| "OF"));
            out.extend(words.map(|word| TokenWithSpan { token: Token::make_keyword(word), span: clause.span }));
            let rest = of.cloned().into_iter().flatten().chain(clause.nonblock.clone());
            out.extend(rest.map(|nth| self.tokens[self.solid[nth]].clone()));
        };
        if clause.of.is_empty() {
            write(None);
        }
        clause.of.iter().for_each(|name| write(Some(name)));
    }
}
