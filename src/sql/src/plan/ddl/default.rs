//! DEFAULTs: what they may be, and the text that the catalog keeps.
//!
//! What a literal stands for is decided when the DEFAULT is made, as in Postgres. Its text is bound again for every statement
//! that needs it, whose session may have other styles and another time zone, so a literal that these decide about is kept in
//! the form that means the same to all: `'2020-01-02'::date`. What is read or printed when a row is made, such as
//! `now()::text`, is a matter of that session.

use crate::bind::{self, Params, coerce};
use crate::plan::PlanContext;
use crate::plan::resolver::Dependencies;
use crate::plan::sequence::by_oid;
use datafusion::common::DFSchema;
use datafusion::logical_expr::Expr;
use engine::error::SqlError;
use engine::value::from_scalar;
use pgrepr::options::EncodeOptions;
use repr::sqlstate::SqlState;
use repr::{Datum, PgType};
use sql_functions::TypedExpr;
use sql_functions::types::base;
use sql_syntax::ast::visit::{visit_expressions, walk_mut};
use sql_syntax::parser::parse_expr;
use sqlparser::ast as sp;
use std::ops::ControlFlow;

/// The types whose literals a session decides about. What becomes another one unasked stands behind that: a date would do in
/// place of many a timestamp, but not in every time zone.
static STYLED: [PgType; 4] = [PgType::Timestamptz, PgType::Timestamp, PgType::Date, PgType::Interval];

/// The text of a DEFAULT as the catalog keeps it. Errors: those of [`check_default`], and 42P01 of a sequence.
pub(super) fn kept_default(
    ctx: &PlanContext<'_>,
    column: &str,
    ty: &PgType,
    default: &sp::Expr,
) -> Result<String, SqlError> {
    let bound = check_default(ctx, column, ty, default)?;
    let mut kept = by_oid(ctx, default)?;
    let types: &[PgType] = if is_text(unnested(&kept)) { std::slice::from_ref(ty) } else { &STYLED };
    let means_the_same = |text: &str| {
        let again = parse_expr(text).and_then(|expr| check_default(ctx, column, ty, &expr));
        again.is_ok_and(|again| again == bound)
    };
    let whole = whole_constant(ctx, ty, unnested(&kept)).map(|constant| constant.to_string());
    if let Some(whole) = whole.filter(|whole| means_the_same(whole)) {
        return Ok(whole);
    }
    let mut at = 0;
    while let Some(literal) = Literals::new(at).found(&mut kept) {
        for constant in constants(ctx, &literal, types) {
            let mut changed = kept.clone();
            Literals { with: Some(constant), ..Literals::new(at) }.found(&mut changed);
            if means_the_same(&changed.to_string()) {
                kept = changed;
                break;
            }
        }
        at += 1;
    }
    Ok(kept.to_string())
}

/// What a DEFAULT is that is nothing but a text in quotes or a negative number, as Postgres prints it: tools that read schemas
/// look for `'x'::text` and `true`.
fn whole_constant(ctx: &PlanContext<'_>, ty: &PgType, default: &sp::Expr) -> Option<sp::Expr> {
    let typed = match default {
        text if is_text(text) => bound_alone(ctx, &cast(text.clone(), &base(ty)))?,
        sp::Expr::UnaryOp { op: sp::UnaryOperator::Minus, expr } if matches!(expr.as_ref(), sp::Expr::Value(_)) => {
            bound_alone(ctx, default)?
        }
        _ => return None,
    };
    let value = from_scalar(typed.as_literal()?).ok()?;
    let mut text = Vec::new();
    pgrepr::text::encode_text(&typed.ty, &value, &EncodeOptions::default(), &mut text);
    let text = String::from_utf8(text).ok()?;
    let is_whole_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let is_fraction = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && !is_whole_number;
    Some(match (&typed.ty, value) {
        (_, Datum::Null) => return None,
        (_, Datum::Bool(value)) => sp::Expr::value(sp::Value::Boolean(value)),
        (PgType::Int4, _) if is_whole_number => sp::Expr::value(sp::Value::Number(text, false)),
        (PgType::Numeric(_), _) if is_fraction => sp::Expr::value(sp::Value::Number(text, false)),
        (ty, _) => cast(sp::Expr::value(sp::Value::SingleQuotedString(text)), ty),
    })
}

/// What a literal may stand for, in a form that means the same to every session: if its type is undecided, one of these.
fn constants(ctx: &PlanContext<'_>, literal: &sp::Expr, types: &[PgType]) -> Vec<sp::Expr> {
    if !is_text(literal) {
        return bound_alone(ctx, literal).and_then(|typed| constant(&typed)).into_iter().collect();
    }
    let of_type = |ty: &PgType| constant(&bound_alone(ctx, &cast(literal.clone(), ty))?);
    types.iter().filter_map(of_type).collect()
}

fn bound_alone(ctx: &PlanContext<'_>, expr: &sp::Expr) -> Option<TypedExpr> {
    let dependencies = Dependencies::new();
    let expr = parse_expr(&expr.to_string()).ok()?;
    bind::plan_expr(&expr, &DFSchema::empty(), &mut Params::none(), &dependencies.resolver(ctx)).ok()
}

/// The constant that an expression is, if it is one of a type with styles.
fn constant(typed: &TypedExpr) -> Option<sp::Expr> {
    let item = match &typed.ty {
        PgType::Array(item) => item.as_ref(),
        ty => ty,
    };
    let value = from_scalar(typed.as_literal().filter(|_| STYLED.contains(item))?).ok()?;
    let mut text = Vec::new();
    pgrepr::text::encode_text(&typed.ty, &value, &EncodeOptions::default(), &mut text);
    let text = sp::Value::SingleQuotedString(String::from_utf8(text).ok()?);
    (!value.is_null()).then(|| cast(sp::Expr::value(text), &typed.ty))
}

/// `expr::type`, with the type's name as Postgres prints it.
fn cast(expr: sp::Expr, ty: &PgType) -> sp::Expr {
    // By the other name of the type it would have one character.
    let name = if *ty == PgType::Bpchar(None) { "bpchar".to_owned() } else { ty.name() };
    sp::Expr::Cast {
        kind: sp::CastKind::DoubleColon,
        expr: Box::new(expr),
        data_type: sp::DataType::Custom(sp::ObjectName::from(vec![sp::Ident::new(name)]), Vec::new()),
        array: false,
        format: None,
    }
}

/// Whether an expression is a text in quotes, whose type nothing has decided.
fn is_text(expr: &sp::Expr) -> bool {
    matches!(expr, sp::Expr::Value(value) if value.value.clone().into_string().is_some())
}

fn unnested(expr: &sp::Expr) -> &sp::Expr {
    match expr {
        sp::Expr::Nested(inner) => unnested(inner),
        expr => expr,
    }
}

/// Finds one of the literals of an expression: texts in quotes, each together with the type that is written beside it.
struct Literals {
    /// How many of them come before it.
    at: usize,
    /// What takes its place.
    with: Option<sp::Expr>,
    found: Option<sp::Expr>,
    /// Whether the text that comes next belongs to the type before it.
    has_type: bool,
}

impl Literals {
    fn new(at: usize) -> Literals {
        Literals { at, with: None, found: None, has_type: false }
    }

    fn found(mut self, expr: &mut sp::Expr) -> Option<sp::Expr> {
        let _done = walk_mut(expr, &mut self);
        self.found
    }
}

impl sp::VisitorMut for Literals {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut sp::Expr) -> ControlFlow<()> {
        if self.has_type {
            self.has_type = !is_text(expr);
            return ControlFlow::Continue(());
        }
        match &*expr {
            sp::Expr::Cast { expr, .. } if is_text(unnested(expr)) => self.has_type = true,
            sp::Expr::Interval(_) => self.has_type = true,
            sp::Expr::TypedString(_) => {}
            expr if is_text(expr) => {}
            _ => return ControlFlow::Continue(()),
        }
        if self.at > 0 {
            self.at -= 1;
            return ControlFlow::Continue(());
        }
        self.found = Some(expr.clone());
        if let Some(with) = self.with.take() {
            *expr = with;
        }
        ControlFlow::Break(())
    }
}

/// Binds a DEFAULT, as it is assigned to its column. Errors: 0A000 if it refers to a column or a relation, 42804.
pub(super) fn check_default(
    ctx: &PlanContext<'_>,
    column: &str,
    ty: &PgType,
    default: &sp::Expr,
) -> Result<Expr, SqlError> {
    let refused = visit_expressions(default, |expr| match expr {
        sp::Expr::Identifier(_) | sp::Expr::CompoundIdentifier(_) => {
            ControlFlow::Break("cannot use column reference in DEFAULT expression")
        }
        sp::Expr::Subquery(_) | sp::Expr::Exists { .. } | sp::Expr::InSubquery { .. } => {
            ControlFlow::Break("cannot use subquery in DEFAULT expression")
        }
        sp::Expr::Value(value) if matches!(value.value, sp::Value::Placeholder(_)) => {
            ControlFlow::Break("cannot use a parameter in DEFAULT expression")
        }
        _ => ControlFlow::Continue(()),
    });
    let dependencies = Dependencies::new();
    let resolver = dependencies.resolver(ctx);
    let mut params = Params::none();
    let typed = match bind::plan_expr(default, &DFSchema::empty(), &mut params, &resolver) {
        Ok(typed) => typed,
        // Words such as current_date parse as identifiers but bind as functions; real columns do not bind.
        Err(error) => {
            return Err(match refused {
                ControlFlow::Break(message) => SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message),
                ControlFlow::Continue(()) => error,
            });
        }
    };
    if let ControlFlow::Break(message) = refused
        && message.contains("subquery")
    {
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    let from = typed.ty.clone();
    coerce::assign(typed, ty, column, &mut params, &resolver).map_err(|error| {
        if error.sqlstate != SqlState::DATATYPE_MISMATCH {
            return error;
        }
        SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!("column \"{column}\" is of type {} but default expression is of type {}", ty.name(), from.name()),
        )
        .with_hint("You will need to rewrite or cast the expression.")
    })
}
