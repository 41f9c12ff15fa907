//! sqlparser's PostgreSQL dialect with a bound on work.
//!
//! sqlparser tries some productions twice: a word such as CAST first as itself and, if that fails, as a function's name. On a
//! syntax error inside n nested ones this takes 2ⁿ steps, so a line of text could keep a thread busy for ever. Every such
//! step parses a prefix of an expression, for which the dialect is asked first; so the dialect counts, and when the count
//! is far beyond what the statement's length explains, it refuses.
//!
//! It also reads what sqlparser reads otherwise than Postgres: ISNULL is an operator, BETWEEN may be SYMMETRIC, the right side of `IS DISTINCT FROM` ends before AND, and the
//! query of ANY and ALL may begin with a parenthesis of its own. Everything else is sqlparser's own dialect.

use super::prefix;
use sqlparser::ast::{BinaryOperator, Expr, Ident};
use sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;
use std::any::TypeId;
use std::cell::Cell;

/// Steps that any statement may take.
const STEPS_BASE: usize = 10_000;
/// Further steps for each of its tokens; well-formed statements take about one.
const STEPS_PER_TOKEN: usize = 32;

/// What stands before the lower bound of a BETWEEN whose bounds may come in either order.
pub const SYMMETRIC: &str = "SYMMETRIC";

/// The dialect for one statement.
#[derive(Debug)]
pub(super) struct BoundedDialect {
    inner: PostgreSqlDialect,
    steps_left: Cell<usize>,
}

impl BoundedDialect {
    /// A dialect for a statement of this many tokens.
    pub(super) fn new(tokens_count: usize) -> BoundedDialect {
        let steps = tokens_count.saturating_mul(STEPS_PER_TOKEN).saturating_add(STEPS_BASE);
        BoundedDialect { inner: PostgreSqlDialect {}, steps_left: Cell::new(steps) }
    }
}

/// Passes flags on to the dialect inside.
macro_rules! same {
    ($($flag:ident),* $(,)?) => {
        $(fn $flag(&self) -> bool {
            self.inner.$flag()
        })*
    };
}

impl Dialect for BoundedDialect {
    // sqlparser asks for the dialect's type in places where it has no flag.
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }

    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        match self.steps_left.get().checked_sub(1) {
            Some(left) => {
                self.steps_left.set(left);
                prefix::parse(self, parser)
            }
            None => Some(Err(ParserError::RecursionLimitExceeded)),
        }
    }

    fn parse_infix(&self, parser: &mut Parser<'_>, left: &Expr, _precedence: u8) -> Option<Result<Expr, ParserError>> {
        if is_isnull(parser) {
            parser.advance_token();
            return Some(Ok(Expr::IsNull(Box::new(left.clone()))));
        }
        symmetric(self, parser, left)
            .or_else(|| distinct_from(self, parser, left))
            .or_else(|| quantified(parser, left).transpose())
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        self.inner.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        self.inner.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        self.inner.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        self.inner.is_identifier_part(ch)
    }

    fn is_reserved_for_identifier(&self, kw: Keyword) -> bool {
        self.inner.is_reserved_for_identifier(kw)
    }

    fn is_custom_operator_part(&self, ch: char) -> bool {
        self.inner.is_custom_operator_part(ch)
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        if is_isnull(parser) {
            return Some(Ok(self.prec_value(Precedence::Is)));
        }
        self.inner.get_next_precedence(parser)
    }

    fn prec_value(&self, prec: Precedence) -> u8 {
        self.inner.prec_value(prec)
    }

    same!(
        supports_unicode_string_literal,
        supports_filter_during_aggregation,
        supports_group_by_expr,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_listen_notify,
        supports_factorial_operator,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_colon_operator,
        supports_named_fn_args_with_expr_name,
        supports_empty_projections,
        supports_nested_comments,
        supports_string_escape_constant,
        supports_numeric_literal_underscores,
        supports_array_typedef_with_brackets,
        supports_geometric_types,
        supports_set_names,
        supports_alter_column_type_using,
        supports_notnull_operator,
        supports_interval_options,
        supports_insert_table_alias,
        supports_create_table_like_parenthesized,
        supports_select_wildcard_with_alias,
        supports_comma_separated_trim,
        supports_xml_expressions,
        supports_comment_optimizer_hint,
    );
}

/// The postfix operator ISNULL, which sqlparser takes for a name.
fn is_isnull(parser: &Parser<'_>) -> bool {
    matches!(&parser.peek_token_ref().token,
        Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("isnull"))
}

/// `[NOT] BETWEEN SYMMETRIC`, whose bounds may come in either order; sqlparser takes the word for a bound. Here it becomes the
/// lower bound's prefix. `ASYMMETRIC` says nothing.
fn symmetric(dialect: &dyn Dialect, parser: &mut Parser<'_>, left: &Expr) -> Option<Result<Expr, ParserError>> {
    let negated = matches!(&parser.peek_nth_token_ref(0).token, Token::Word(word) if word.keyword == Keyword::NOT);
    let is_word = |at: usize, expected: &str| match &parser.peek_nth_token_ref(usize::from(negated) + at).token {
        Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(expected),
        _ => false,
    };
    let symmetric = is_word(1, SYMMETRIC);
    if !is_word(0, "BETWEEN") || !(symmetric || is_word(1, "ASYMMETRIC")) {
        return None;
    }
    for _ in 0..2 + usize::from(negated) {
        parser.advance_token();
    }
    let precedence = dialect.prec_value(Precedence::Between);
    let mut bounds = || {
        let low = parser.parse_subexpr(precedence)?;
        parser.expect_keyword_is(Keyword::AND)?;
        Ok((low, parser.parse_subexpr(precedence)?))
    };
    Some(bounds().map(|(low, high)| {
        let low = match symmetric {
            true => Expr::Prefixed { prefix: Ident::new(SYMMETRIC), value: Box::new(low) },
            false => low,
        };
        Expr::Between { expr: Box::new(left.clone()), negated, low: Box::new(low), high: Box::new(high) }
    }))
}

/// `IS [NOT] DISTINCT FROM`, whose right side binds as tightly as IS.
fn distinct_from(dialect: &dyn Dialect, parser: &mut Parser<'_>, left: &Expr) -> Option<Result<Expr, ParserError>> {
    let is_negated = if parser.parse_keywords(&[Keyword::IS, Keyword::DISTINCT, Keyword::FROM]) {
        false
    } else if parser.parse_keywords(&[Keyword::IS, Keyword::NOT, Keyword::DISTINCT, Keyword::FROM]) {
        true
    } else {
        return None;
    };
    let right = parser.parse_subexpr(dialect.prec_value(Precedence::Is));
    let (left, make) =
        (Box::new(left.clone()), if is_negated { Expr::IsNotDistinctFrom } else { Expr::IsDistinctFrom });
    Some(right.map(|right| make(left, Box::new(right))))
}

/// `op ANY ((SELECT …) UNION …)` and its kin.
fn quantified(parser: &mut Parser<'_>, left: &Expr) -> Result<Option<Expr>, ParserError> {
    let compare_op = match parser.peek_nth_token_ref(0).token {
        Token::Eq => BinaryOperator::Eq,
        Token::Neq => BinaryOperator::NotEq,
        Token::Lt => BinaryOperator::Lt,
        Token::LtEq => BinaryOperator::LtEq,
        Token::Gt => BinaryOperator::Gt,
        Token::GtEq => BinaryOperator::GtEq,
        _ => return Ok(None),
    };
    let Token::Word(word) = &parser.peek_nth_token_ref(1).token else { return Ok(None) };
    let keyword = word.keyword;
    let parens = (2..4).all(|at| parser.peek_nth_token_ref(at).token == Token::LParen);
    if !matches!(keyword, Keyword::ANY | Keyword::ALL | Keyword::SOME) || !parens {
        return Ok(None);
    }
    parser.maybe_parse(|parser| {
        for _ in 0..3 {
            parser.advance_token();
        }
        let right = Box::new(Expr::Subquery(parser.parse_query()?));
        parser.expect_token(&Token::RParen)?;
        let left = Box::new(left.clone());
        Ok(match keyword {
            Keyword::ALL => Expr::AllOp { left, compare_op: compare_op.clone(), right },
            _ => Expr::AnyOp { left, compare_op: compare_op.clone(), right, is_some: keyword == Keyword::SOME },
        })
    })
}
