//! Lifting literals out of a statement, so that statements that differ only in them share a plan.
//!
//! 1. [`lift`] runs over the bytes once and replaces candidates (a number or plain string right after a comparison, a
//!    parenthesis, a comma, BETWEEN or AND; in what writes, after an arithmetic operator as well) by `$l1`, `$l2`, …: the *shape*. It knows nothing of grammar; it only must never
//!    mistake one token for another, and gives up where it could.
//! 2. [`parse_lifted`], on the first statement of a shape, parses the shape and decides by position: the operand of a
//!    comparison with a column, a bound of BETWEEN and an item of IN over a column, an item of INSERT … VALUES and the value
//!    of an assignment, or the integer that it adds to a column, stay parameters, because any value gives the same plan. Every other literal is put back, and its text
//!    becomes part of the plan's key.
//!
//! # Invariants
//! - Whether a literal is a parameter depends on the shape alone.
//! - Putting every literal back gives the statement that was lifted (tested).

use engine::error::SqlError;
use repr::PgType;
use repr::types::{NUMERIC_SCALE, NumericDisplay};
use sql_syntax::ast::Statement;
use sql_syntax::ast::visit::visit_expressions_mut;
use sqlparser::ast as sp;
use std::borrow::Cow;
use std::ops::{ControlFlow, Range};

/// What begins a statement that can be lifted.
const VERBS: [&str; 6] = ["select", "insert", "update", "delete", "with", "values"];
/// Those that assign.
const WRITING: [&str; 2] = ["insert", "update"];
/// Statements longer than this are seldom sent twice.
const BYTES_MAX: usize = 64 << 10;
/// Literals beyond this make a bulk statement, whose shape is its own.
const LITERALS_MAX: usize = 256;
/// What marks a lifted literal in a shape.
const MARK: &str = "$l";

/// A shape and the literals taken out of it. Reused from statement to statement, so that lifting does not allocate.
#[derive(Clone, Debug, Default)]
pub struct Lifted {
    /// The text with marks in place of literals.
    pub shape: String,
    /// The literals in order.
    pub literals: Vec<Literal>,
}

/// A literal of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    /// Where it stands, in bytes, quotes and sign included.
    pub range: Range<usize>,
    /// What it is.
    pub kind: LiteralKind,
}

/// What a literal is, which decides the type that planning gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LiteralKind {
    /// An integer that fits int4.
    Int4,
    /// An integer that fits int8.
    Int8,
    /// Any other number.
    Numeric,
    /// A string, whose type the context decides.
    String,
}

/// A parsed shape.
#[derive(Clone, Debug)]
pub struct LiftedStatement {
    /// The statement with `$1`, `$2`, … for its parameters.
    pub statement: Statement,
    /// The parameters, by number.
    pub parameters: Vec<LiftedParameter>,
}

/// A literal that is a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiftedParameter {
    /// Which literal, from 0.
    pub literal: usize,
    /// Which parameter, from 1.
    pub number: usize,
    /// Its type; `None` if the context decides.
    pub ty: Option<PgType>,
}

/// Lifts the literals of `sql`; false if it is not a single statement of a kind that can be lifted.
pub fn lift(sql: &str, lifted: &mut Lifted) -> bool {
    lifted.shape.clear();
    lifted.literals.clear();
    if sql.len() > BYTES_MAX {
        return false;
    }
    let mut scanner = Scanner { bytes: sql.as_bytes(), at: 0 };
    if !scanner.skip_blank() || !scanner.at_one_of(&VERBS) {
        return false;
    }
    let may_add = scanner.at_one_of(&WRITING);
    let mut copied = scanner.at;
    let mut may_lift = false;
    while scanner.at < scanner.bytes.len() {
        let start = scanner.at;
        let token = match scanner.next() {
            Some(token) => token,
            None => return false,
        };
        match token {
            Token::End => {
                lifted.shape.push_str(&sql[copied..start]);
                return true;
            }
            Token::Blank => {}
            Token::Word => may_lift = is_introducer(&sql.as_bytes()[start..scanner.at]),
            Token::Other => may_lift = false,
            Token::Introducer => may_lift = true,
            Token::Operator => may_lift = may_add,
            Token::Minus => {
                // A sign belongs to the number if nothing could stand before it that it would be subtracted from.
                if may_lift && scanner.bytes.get(scanner.at).is_some_and(u8::is_ascii_digit) {
                    let Some(Token::Number) = scanner.next() else { return false };
                    // -1::t is -(1::t), which no literal is.
                    let scale = fraction_digits(&sql[start..scanner.at]);
                    if scanner.rest_starts_with(b':') || scale > NUMERIC_SCALE as usize {
                        return false;
                    }
                    push(lifted, sql, &mut copied, start..scanner.at);
                    may_lift = false;
                } else {
                    may_lift = may_add;
                }
            }
            Token::Number | Token::String => {
                // A literal with more digits after the point than a parameter holds stays part of the shape.
                if may_lift && fraction_digits(&sql[start..scanner.at]) <= NUMERIC_SCALE as usize {
                    push(lifted, sql, &mut copied, start..scanner.at);
                }
                if lifted.literals.len() > LITERALS_MAX {
                    return false;
                }
                may_lift = false;
            }
        }
    }
    lifted.shape.push_str(&sql[copied..]);
    true
}

/// The value of a literal's text: a number as it stands, a string without its quotes.
pub fn literal_text(text: &str, kind: LiteralKind) -> Cow<'_, str> {
    match kind {
        LiteralKind::String => {
            let inner = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
            if inner.contains('\'') { Cow::Owned(inner.replace("''", "'")) } else { Cow::Borrowed(inner) }
        }
        _ => Cow::Borrowed(text),
    }
}

/// Parses a shape and decides which literals are parameters; the others are put back from `texts`.
///
/// Errors: those of the parser, and an internal one for a mark in a place where no expression can stand.
pub fn parse_lifted(shape: &str, texts: &[&str], kinds: &[LiteralKind]) -> Result<LiftedStatement, SqlError> {
    let mut statements = sql_syntax::parser::parse(shape)?;
    let (Some(parsed), true) = (statements.pop(), statements.is_empty()) else {
        return Err(SqlError::internal("a shape is one statement"));
    };
    let mut statement = parsed.ast;
    let mut parameters = Vec::new();
    mark_parameters(&mut statement, kinds, &mut parameters);
    let mut unknown = false;
    // Nothing breaks the walk, so there is no result to look at.
    let _walked = visit(&mut statement, &mut |expr| {
        if let Some(literal) = marked(expr) {
            match (texts.get(literal), kinds.get(literal)) {
                (Some(text), Some(kind)) => *expr = literal_expr(text, *kind),
                _ => unknown = true,
            }
        } else if let sp::Expr::Value(value) = expr
            && let sp::Value::Placeholder(name) = &mut value.value
            && let Some(number) = name.strip_prefix("$#")
        {
            *name = format!("${number}");
        }
        ControlFlow::Continue(())
    });
    if unknown || format!("{statement:?}").contains(MARK) {
        return Err(SqlError::internal("a literal was lifted from where no expression stands"));
    }
    Ok(LiftedStatement { statement, parameters })
}

/// Renames the marks that stay parameters to `$#n`.
fn mark_parameters(statement: &mut Statement, kinds: &[LiteralKind], parameters: &mut Vec<LiftedParameter>) {
    let mut keep = |expr: &mut sp::Expr| {
        let Some(literal) = marked(expr) else { return };
        let Some(kind) = kinds.get(literal) else { return };
        let number = parameters.len() + 1;
        let ty = match kind {
            LiteralKind::Int4 => Some(PgType::Int4),
            LiteralKind::Int8 => Some(PgType::Int8),
            LiteralKind::Numeric => Some(PgType::Numeric(NumericDisplay::Trimmed)),
            LiteralKind::String => None,
        };
        parameters.push(LiftedParameter { literal, number, ty });
        *expr = placeholder(format!("$#{number}"));
    };
    let mut assigned = |value: &mut sp::Expr| match value {
        sp::Expr::BinaryOp { left, op, right } if is_arithmetic(op) && is_column(left) && is_integer(right, kinds) => {
            keep(right);
        }
        value => keep(value),
    };
    match statement {
        Statement::Insert(insert, _) => {
            if let Some(source) = &mut insert.source
                && let sp::SetExpr::Values(values) = source.body.as_mut()
            {
                values.rows.iter_mut().flat_map(|row| row.content.iter_mut()).for_each(&mut assigned);
            }
            if let Some(sp::OnInsert::OnConflict(on)) = &mut insert.on
                && let sp::OnConflictAction::DoUpdate(update) = &mut on.action
            {
                update.assignments.iter_mut().for_each(|set| assigned(&mut set.value));
            }
        }
        Statement::Update(update) => {
            update.assignments.iter_mut().for_each(|set| assigned(&mut set.value));
        }
        _ => {}
    }
    // Nothing breaks the walk, so there is no result to look at.
    let _walked = visit(statement, &mut |expr| {
        match expr {
            sp::Expr::BinaryOp { left, op, right } if is_comparison(op) => {
                if is_column(left) {
                    keep(right);
                } else if is_column(right) {
                    keep(left);
                }
            }
            sp::Expr::Between { expr, low, high, .. } if is_column(expr) => {
                keep(low);
                keep(high);
            }
            sp::Expr::InList { expr, list, .. } if is_column(expr) => list.iter_mut().for_each(&mut keep),
            _ => {}
        }
        ControlFlow::Continue(())
    });
}

/// Whether an expression marks an integer.
fn is_integer(expr: &sp::Expr, kinds: &[LiteralKind]) -> bool {
    let kind = marked(expr).and_then(|literal| kinds.get(literal));
    matches!(kind, Some(LiteralKind::Int4 | LiteralKind::Int8))
}

/// Calls `f` on every expression of a statement that can be lifted.
fn visit(statement: &mut Statement, f: &mut impl FnMut(&mut sp::Expr) -> ControlFlow<()>) -> ControlFlow<()> {
    match statement {
        Statement::Query(query) => visit_expressions_mut(query.as_mut(), f),
        Statement::Insert(insert, _) => visit_expressions_mut(insert.as_mut(), f),
        Statement::Update(update) => visit_expressions_mut(update.as_mut(), f),
        Statement::Delete(delete) => visit_expressions_mut(delete.as_mut(), f),
        _ => ControlFlow::Continue(()),
    }
}

fn is_comparison(op: &sp::BinaryOperator) -> bool {
    use sp::BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

fn is_arithmetic(op: &sp::BinaryOperator) -> bool {
    use sp::BinaryOperator::{Minus, Multiply, Plus};
    matches!(op, Plus | Minus | Multiply)
}

fn is_column(expr: &sp::Expr) -> bool {
    matches!(expr, sp::Expr::Identifier(_) | sp::Expr::CompoundIdentifier(_))
}

/// The literal that an expression marks, from 0.
fn marked(expr: &sp::Expr) -> Option<usize> {
    let sp::Expr::Value(value) = expr else { return None };
    let sp::Value::Placeholder(name) = &value.value else { return None };
    name.strip_prefix(MARK)?.parse::<usize>().ok()?.checked_sub(1)
}

fn placeholder(name: String) -> sp::Expr {
    sp::Expr::Value(sp::Value::Placeholder(name).into())
}

fn literal_expr(text: &str, kind: LiteralKind) -> sp::Expr {
    let value = |value: sp::Value| sp::Expr::Value(value.into());
    match kind {
        LiteralKind::String => value(sp::Value::SingleQuotedString(literal_text(text, kind).into_owned())),
        _ => match text.strip_prefix('-') {
            Some(digits) => sp::Expr::UnaryOp {
                op: sp::UnaryOperator::Minus,
                expr: Box::new(value(sp::Value::Number(digits.to_owned(), false))),
            },
            None => value(sp::Value::Number(text.to_owned(), false)),
        },
    }
}

fn push(lifted: &mut Lifted, sql: &str, copied: &mut usize, range: Range<usize>) {
    lifted.shape.push_str(&sql[*copied..range.start]);
    *copied = range.end;
    let text = &sql[range.clone()];
    let kind = if text.starts_with('\'') {
        LiteralKind::String
    } else if text.parse::<i32>().is_ok() {
        LiteralKind::Int4
    } else if text.parse::<i64>().is_ok() {
        LiteralKind::Int8
    } else {
        LiteralKind::Numeric
    };
    lifted.literals.push(Literal { range, kind });
    lifted.shape.push_str(MARK);
    lifted.shape.push_str(itoa::Buffer::new().format(lifted.literals.len()));
}

/// How many digits a number has after its point; a string has none.
fn fraction_digits(text: &str) -> usize {
    match text.split_once('.') {
        Some((whole, fraction)) if !whole.starts_with('\'') => fraction.len(),
        _ => 0,
    }
}

/// A word after which a literal is an operand.
fn is_introducer(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"between") || word.eq_ignore_ascii_case(b"and")
}

/// As much of a token as lifting needs to know.
enum Token {
    Blank,
    Word,
    Number,
    String,
    Minus,
    /// A comparison, an opening parenthesis or a comma.
    Introducer,
    /// An arithmetic operator that is no minus.
    Operator,
    Other,
    /// A semicolon with nothing behind it.
    End,
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    /// Moves past spaces and comments; false if a comment does not end.
    fn skip_blank(&mut self) -> bool {
        loop {
            match self.bytes.get(self.at..).unwrap_or_default() {
                [b' ' | b'\t' | b'\n' | b'\r' | b'\x0c', ..] => self.at += 1,
                [b'-', b'-', rest @ ..] => match memchr::memchr(b'\n', rest) {
                    Some(end) => self.at += end + 3,
                    None => self.at = self.bytes.len(),
                },
                // Nested comments are rare enough to be left to the parser.
                [b'/', b'*', ..] => return false,
                _ => return true,
            }
        }
    }

    fn at_one_of(&self, verbs: &[&str]) -> bool {
        let rest = &self.bytes[self.at..];
        verbs.iter().any(|verb| {
            rest.get(..verb.len()).is_some_and(|word| word.eq_ignore_ascii_case(verb.as_bytes()))
                && !rest.get(verb.len()).is_some_and(|next| is_word_byte(*next))
        })
    }

    /// Moves past the next token; `None` where lifting gives up.
    fn next(&mut self) -> Option<Token> {
        let byte = self.bytes[self.at];
        let next = self.bytes.get(self.at + 1).copied();
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' | b'\x0c' => {
                self.at += 1;
                Some(Token::Blank)
            }
            b'-' if next == Some(b'-') => self.skip_blank().then_some(Token::Blank),
            b'/' if next == Some(b'*') => None,
            b'-' => {
                self.at += 1;
                Some(Token::Minus)
            }
            b'0'..=b'9' => self.number(),
            b'.' if next.is_some_and(|next| next.is_ascii_digit()) => None,
            b'\'' => self.string(),
            b'"' => self.quoted(b'"').then_some(Token::Other),
            b'$' | b'\\' | b'\0' => None,
            b';' => {
                self.at += 1;
                (self.skip_blank() && self.at == self.bytes.len()).then_some(Token::End)
            }
            b'=' | b'<' | b'>' | b'(' | b',' => {
                self.at += 1;
                Some(Token::Introducer)
            }
            b'+' | b'*' => {
                self.at += 1;
                Some(Token::Operator)
            }
            _ if is_word_byte(byte) => {
                while self.bytes.get(self.at).is_some_and(|byte| is_word_byte(*byte)) {
                    self.at += 1;
                }
                // E'…', B'…', U&'…': strings with other rules.
                (!matches!(self.bytes.get(self.at), Some(b'\'' | b'&'))).then_some(Token::Word)
            }
            _ => {
                self.at += 1;
                Some(Token::Other)
            }
        }
    }

    fn number(&mut self) -> Option<Token> {
        let digits = |scanner: &mut Self| {
            while scanner.bytes.get(scanner.at).is_some_and(u8::is_ascii_digit) {
                scanner.at += 1;
            }
        };
        digits(self);
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            digits(self);
        }
        // An exponent, a base (0x), an underscore, a word: left to the parser.
        (!self.bytes.get(self.at).is_some_and(|byte| is_word_byte(*byte) || *byte == b'.')).then_some(Token::Number)
    }

    /// Whether the next byte that is no space is this one.
    fn rest_starts_with(&self, byte: u8) -> bool {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&byte)
    }

    /// A plain string, if no other follows that would continue it.
    fn string(&mut self) -> Option<Token> {
        if !self.quoted(b'\'') {
            return None;
        }
        (!self.rest_starts_with(b'\'')).then_some(Token::String)
    }

    /// Moves past what is between two quotes, where a doubled quote is one; false if it does not end.
    fn quoted(&mut self, quote: u8) -> bool {
        self.at += 1;
        while let Some(end) = memchr::memchr(quote, self.bytes.get(self.at..).unwrap_or_default()) {
            self.at += end + 1;
            if self.bytes.get(self.at) != Some(&quote) {
                return true;
            }
            self.at += 1;
        }
        false
    }
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::{Lifted, LiteralKind, lift, parse_lifted};

    fn lifted(sql: &str) -> Option<Lifted> {
        let mut lifted = Lifted::default();
        lift(sql, &mut lifted).then_some(lifted)
    }

    #[test]
    fn shapes() {
        for (sql, shape) in [
            ("select * from t where id = 42", "select * from t where id = $l1"),
            ("SELECT a FROM t WHERE id=-7 AND b > 'x''y' LIMIT 5;", "SELECT a FROM t WHERE id=$l1 AND b > $l2 LIMIT 5"),
            ("insert into t values (1, 'a'), (2,'b')", "insert into t values ($l1, $l2), ($l3,$l4)"),
            ("update t set a = a+ -5, b = b -6", "update t set a = a+ $l1, b = b -$l2"),
            (
                "select a - 5 from t -- why 5?\nwhere b in (1, 2)",
                "select a - 5 from t -- why 5?\nwhere b in ($l1, $l2)",
            ),
            (
                "select \"a = 1\" from t where d = date '2020-01-01'",
                "select \"a = 1\" from t where d = date '2020-01-01'",
            ),
        ] {
            assert_eq!(lifted(sql).map(|lifted| lifted.shape).as_deref(), Some(shape), "{sql}");
        }
    }

    #[test]
    fn gives_up() {
        for sql in [
            "begin",
            "select 1; select 2",
            "select $1",
            "select $$x$$",
            "select E'\\n'",
            "select 'a",
            "selected",
            "select 'a'\n'b'",
            "select 1e5",
            "select /* x */ 1",
            "select (0x1F)",
            "",
            "select a = -1::int2 from t",
        ] {
            assert!(lifted(sql).is_none(), "{sql}");
        }
    }

    #[test]
    fn positions_decide() {
        for (sql, parameter_count) in [
            ("select * from t where id = 42", 1),
            ("select (1), a from t where (2 > b) and c between 3 and 4 and d in (5, 6)", 5),
            ("insert into t (a, b) values (1, coalesce(2, 3))", 1),
            ("update t set a = 1, b = b + (2) where c = 'x'", 2),
            ("update t set a = a + 1, b = b - 2, c = t.c * -3, d = d + 1.5, e = 1 + 2 where f = -4", 4),
            ("update t set a = a + -1, b = a - -2 where c + 3 = 4", 2),
            ("insert into t values (1) on conflict (a) do update set b = t.b + 1, c = excluded.c - 2", 3),
            ("delete from t where a = (3) and lower('x') = 'y'", 0),
            ("select substr(a, 2, 3) from t where b <> 1.50", 1),
        ] {
            let lifted = lifted(sql).expect(sql);
            let texts: Vec<&str> = lifted.literals.iter().map(|literal| &sql[literal.range.clone()]).collect();
            let kinds: Vec<LiteralKind> = lifted.literals.iter().map(|literal| literal.kind).collect();
            let parsed = parse_lifted(&lifted.shape, &texts, &kinds).expect(sql);
            assert_eq!(parsed.parameters.len(), parameter_count, "{sql}: {:?}", parsed.statement);
        }
    }

    #[test]
    fn what_is_put_back_is_what_was_there() {
        for sql in [
            "select (1), -2, 'it''s', a from t",
            "select f(1, 'x', -3.5) from t where g(a, 2) is null order by 1 limit 3",
            "with x as (select (1) as a) select * from x where (a, 2) = (1, 2)",
        ] {
            let lifted = lifted(sql).expect(sql);
            let texts: Vec<&str> = lifted.literals.iter().map(|literal| &sql[literal.range.clone()]).collect();
            let kinds: Vec<LiteralKind> = lifted.literals.iter().map(|literal| literal.kind).collect();
            let parsed = parse_lifted(&lifted.shape, &texts, &kinds).expect(sql);
            assert!(parsed.parameters.is_empty());
            let sql_syntax::ast::Statement::Query(query) = parsed.statement else { panic!("{sql}") };
            let direct = sql_syntax::parser::parse_query(sql).expect(sql);
            assert_eq!(query.to_string(), direct.to_string());
        }
    }
}
