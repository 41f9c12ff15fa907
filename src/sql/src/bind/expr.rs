//! Scalar expressions, by the form of their syntax.

use super::Binder;
use super::logic::balanced;
use super::scope::{RelationName, fold};
use crate::bind::cx::Cx;
use crate::bind::name::object_name;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Case, Expr, Operator, lit};
use engine::error::SqlError;
use engine::rules::guard::{as_number, can_fail};
use pgrepr::length::LengthRule;
use repr::sqlstate::SqlState;
use repr::{Datum, PgType};
use sql_functions::{TypedExpr, internal, types};
use sql_syntax::parser::SYMMETRIC;
use sql_syntax::types::from_ast;
use sqlparser::ast::{
    self, AccessExpr, BinaryOperator, CastKind, CeilFloorKind, Ident, Spanned, Subscript, TrimWhereField, UnaryOperator,
};

impl Binder<'_> {
    /// Binds an expression. Its type is `Unknown` where the context has to decide.
    pub fn expr(&mut self, expr: &ast::Expr, cx: &Cx<'_>) -> Result<TypedExpr, SqlError> {
        if let Some((_, key)) = cx.keys.iter().find(|(key, _)| key == expr) {
            return Ok(key.clone());
        }
        self.coercer.tables.check_interrupts()?;
        self.deeper()?;
        let bound = self.dispatch(expr, cx);
        self.shallower();
        bound
    }

    pub(super) fn boolean(&mut self, typed: TypedExpr, what: &str, at: &ast::Expr) -> Result<TypedExpr, SqlError> {
        let span = at.span();
        self.coercer.implicit(typed, &PgType::Bool, &format!("argument of {what}")).map_err(|error| error.at(span))
    }

    #[expect(clippy::too_many_lines, reason = "a line or two for each form of expression")]
    fn dispatch(&mut self, expr: &ast::Expr, cx: &Cx<'_>) -> Result<TypedExpr, SqlError> {
        match expr {
            ast::Expr::Nested(inner) => self.expr(inner, cx),
            ast::Expr::Identifier(ident) => self.identifier(ident, cx),
            ast::Expr::CompoundIdentifier(parts) => self.compound_identifier(parts, cx),
            ast::Expr::Value(value) => self.literal(value),
            ast::Expr::TypedString(typed) => self.typed_string(typed),
            ast::Expr::Interval(interval) => self.interval(interval),
            ast::Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } => {
                self.logical(expr, op, cx)
            }
            ast::Expr::BinaryOp { left, op, right } => self.operator_spine(left, op, right, cx),
            ast::Expr::UnaryOp { op, expr } => self.unary_op(*op, expr, cx),
            ast::Expr::Cast { kind, expr, data_type, format, .. } => {
                if format.is_some() || !matches!(kind, CastKind::Cast | CastKind::DoubleColon) {
                    return Err(SqlError::unsupported("this form of CAST"));
                }
                self.cast(expr, data_type, cx)
            }
            ast::Expr::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref(), cx)
            }
            ast::Expr::IsNull(inner) => self.null_test(inner, cx, true),
            ast::Expr::IsNotNull(inner) => self.null_test(inner, cx, false),
            ast::Expr::IsTrue(inner) => self.boolean_test(inner, cx, "IS TRUE", Expr::IsTrue),
            ast::Expr::IsNotTrue(inner) => self.boolean_test(inner, cx, "IS NOT TRUE", Expr::IsNotTrue),
            ast::Expr::IsFalse(inner) => self.boolean_test(inner, cx, "IS FALSE", Expr::IsFalse),
            ast::Expr::IsNotFalse(inner) => self.boolean_test(inner, cx, "IS NOT FALSE", Expr::IsNotFalse),
            ast::Expr::IsUnknown(inner) => self.boolean_test(inner, cx, "IS UNKNOWN", Expr::IsUnknown),
            ast::Expr::IsNotUnknown(inner) => self.boolean_test(inner, cx, "IS NOT UNKNOWN", Expr::IsNotUnknown),
            ast::Expr::IsNormalized { expr, form, negated } => {
                let form = form.map_or_else(|| "NFC".to_owned(), |form| form.to_string());
                let form = TypedExpr::constant(&Datum::Text(form.into()), PgType::Text)?;
                let value = self.expr(expr, cx)?;
                let is_normal = self.call("is_normalized", vec![value, form], expr.span())?;
                Ok(if *negated {
                    TypedExpr::new(Expr::Not(Box::new(is_normal.expr)), PgType::Bool, DataType::Boolean)
                } else {
                    is_normal
                })
            }
            ast::Expr::IsDistinctFrom(left, right) => self.distinct_from(left, right, Operator::IsDistinctFrom, cx),
            ast::Expr::IsNotDistinctFrom(left, right) => {
                self.distinct_from(left, right, Operator::IsNotDistinctFrom, cx)
            }
            ast::Expr::InList { expr, list, negated } => self.in_list(expr, list, *negated, cx),
            ast::Expr::Between { expr, negated, low, high } => self.between(expr, *negated, low, high, cx),
            ast::Expr::Like { negated, any: false, expr, pattern, escape_char } => {
                self.like(expr, pattern, escape_char.as_ref(), "like", *negated, cx)
            }
            ast::Expr::ILike { negated, any: false, expr, pattern, escape_char } => {
                self.like(expr, pattern, escape_char.as_ref(), "ilike", *negated, cx)
            }
            ast::Expr::SimilarTo { negated, expr, pattern, escape_char } => {
                self.like(expr, pattern, escape_char.as_ref(), "similar", *negated, cx)
            }
            ast::Expr::Subquery(query) => self.scalar_subquery(query, cx),
            ast::Expr::Exists { subquery, negated } => self.exists(subquery, *negated, cx),
            ast::Expr::InSubquery { expr, subquery, negated } => self.in_subquery(expr, subquery, *negated, cx),
            ast::Expr::AnyOp { left, compare_op, right, .. } => self.quantified(left, compare_op, right, false, cx),
            ast::Expr::AllOp { left, compare_op, right } => self.quantified(left, compare_op, right, true, cx),
            ast::Expr::Function(function) => match self.row(expr, cx)? {
                Some(row) => Ok(row),
                None => self.function(function, cx),
            },
            ast::Expr::Array(array) => self.array(&array.elem, cx),
            ast::Expr::CompoundFieldAccess { root, access_chain } => self.access(root, access_chain, cx),
            ast::Expr::Collate { expr, collation } => self.collate(expr, collation, cx),
            other => match self.row(other, cx)? {
                Some(row) => Ok(row),
                None => self.keyword_function(other, cx),
            },
        }
    }

    /// Functions with a syntax of their own.
    fn keyword_function(&mut self, expr: &ast::Expr, cx: &Cx<'_>) -> Result<TypedExpr, SqlError> {
        let (name, args): (&str, Vec<&ast::Expr>) = match expr {
            ast::Expr::AtTimeZone { timestamp, time_zone } => ("timezone", vec![time_zone, timestamp]),
            ast::Expr::Ceil { expr, field: CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
                ("ceil", vec![expr])
            }
            ast::Expr::Floor { expr, field: CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
                ("floor", vec![expr])
            }
            ast::Expr::Position { expr, r#in } => ("position", vec![r#in, expr]),
            ast::Expr::Substring { expr, substring_from, substring_for, .. } => {
                return self.substring(expr, substring_from.as_deref(), substring_for.as_deref(), cx);
            }
            ast::Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                let mut args = vec![expr.as_ref(), overlay_what.as_ref(), overlay_from.as_ref()];
                args.extend(overlay_for.as_deref());
                ("overlay", args)
            }
            ast::Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
                let name = match trim_where {
                    Some(TrimWhereField::Leading) => "ltrim",
                    Some(TrimWhereField::Trailing) => "rtrim",
                    _ => "btrim",
                };
                let mut args = vec![expr.as_ref()];
                args.extend(trim_what.as_deref());
                args.extend(trim_characters.iter().flatten());
                (name, args)
            }
            ast::Expr::Extract { field, expr, .. } => {
                let field = field.to_string().to_lowercase();
                let field = text_literal(field.trim_matches(|c| c == '\'' || c == '"'));
                let value = self.expr(expr, cx)?;
                return self.call("extract", vec![field, value], expr.span());
            }
            other => return Err(SqlError::unsupported(format!("the expression {other}"))),
        };
        let mut bound = Vec::with_capacity(args.len());
        for arg in args {
            bound.push(self.expr(arg, cx)?);
        }
        self.call(name, bound, expr.span())
    }

    fn substring(
        &mut self,
        expr: &ast::Expr,
        from: Option<&ast::Expr>,
        length: Option<&ast::Expr>,
        cx: &Cx<'_>,
    ) -> Result<TypedExpr, SqlError> {
        let mut args = vec![self.expr(expr, cx)?];
        match from {
            Some(from) => args.push(self.expr(from, cx)?),
            None => args.push(TypedExpr::constant(&Datum::Int4(1), PgType::Int4)?),
        }
        if let Some(length) = length {
            args.push(self.expr(length, cx)?);
        }
        self.call("substring", args, expr.span())
    }

    fn identifier(&mut self, ident: &Ident, cx: &Cx<'_>) -> Result<TypedExpr, SqlError> {
        let name = fold(ident);
        match cx.frame.resolve(None, &name, ident, &mut self.reads) {
            Err(error) if error.sqlstate == SqlState::UNDEFINED_COLUMN => {
                // Functions that are called without parentheses.
                let bare = [
                    "current_user",
                    "session_user",
                    "user",
                    "current_role",
                    "current_catalog",
                    "current_schema",
                    "current_date",
                    "current_time",
                    "current_timestamp",
                    "localtime",
                    "localtimestamp",
                ];
                if ident.quote_style.is_none() && bare.contains(&name.as_str()) {
                    return self.call(&name, Vec::new(), ident.span);
                }
                cx.frame.row(&name, &mut self.reads)?.ok_or(error)
            }
            other => other,
        }
    }

    fn compound_identifier(&mut self, parts: &[Ident], cx: &Cx<'_>) -> Result<TypedExpr, SqlError> {
        let [relation @ .., column] = parts else {
            return Err(SqlError::internal("a compound identifier has two parts"));
        };
        if relation.len() > 3 {
            let names = parts.iter().map(fold).collect::<Vec<_>>().join(".");
            let message = format!("improper qualified name (too many dotted names): {names}");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(parts[0].span));
        }
        let names: Vec<String> = relation.iter().map(fold).collect();
        cx.frame.resolve(Some(RelationName::new(&names)?), &fold(column), &parts[0], &mut self.reads)
    }

    fn operator_spine(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
        cx: &Cx<'_>,
    ) -> Result<TypedExpr, SqlError> {
        if let (Some(lefts), Some(rights)) = (row_items(left), row_items(right)) {
            if *op == BinaryOperator::Overlaps {
                return self.overlaps(&lefts, &rights, left.span(), cx);
            }
            return self.row_comparison(&lefts, op, &rights, cx);
        }
        // The operators of a long chain are applied in a loop, not by recursion.
        let mut chain = vec![(op, right)];
        let mut rest = left;
        while let ast::Expr::BinaryOp { left, op, right } = rest
            && !matches!(op, BinaryOperator::And | BinaryOperator::Or)
            && !matches!(left.as_ref(), ast::Expr::Tuple(_))
        {
            chain.push((op, right));
            rest = left;
        }
        let mut bound = self.expr(rest, cx)?;
        if chain.len() > super::DEPTH_MAX {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded"));
        }
        for (op, right) in chain.into_iter().rev() {
            let span = right.span();
            let right = self.expr(right, cx)?;
            bound = self.binary(op, bound, right, span)?;
        }
        Ok(bound)
    }

    /// `(start, end) OVERLAPS (start, end)`.
    fn overlaps(
        &mut self,
        lefts: &[ast::Expr],
        rights: &[ast::Expr],
        span: sqlparser::tokenizer::Span,
        cx: &Cx<'_>,
    ) -> Result<TypedExpr, SqlError> {
        for (side, items) in [("left", lefts), ("right", rights)] {
            if items.len() != 2 {
                let message = format!("wrong number of parameters on {side} side of OVERLAPS expression");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(span));
            }
        }
        let items = lefts.iter().chain(rights).map(|item| self.expr(item, cx));
        let items = items.collect::<Result<_, _>>()?;
        self.call("overlaps", items, span)
    }

    /// `(a, b) = (c, d)` and its kin.
    fn row_comparison(
        &mut self,
        lefts: &[ast::Expr],
        op: &BinaryOperator,
        rights: &[ast::Expr],
        cx: &Cx<'_>,
    ) -> Result<TypedExpr, SqlError> {
        let is_ordered = !matches!(op, BinaryOperator::Eq | BinaryOperator::NotEq);
        let pairs = self.row_pairs(lefts, rights, if is_ordered { 2 } else { 1 }, cx)?;
        let span = lefts.first().map(|expr| expr.span()).unwrap_or_else(sqlparser::tokenizer::Span::empty);
        let (strict, last) = match op {
            BinaryOperator::Eq => return self.all_pairs(pairs, Operator::Eq, Operator::And, span),
            BinaryOperator::NotEq => return self.all_pairs(pairs, Operator::NotEq, Operator::Or, span),
            BinaryOperator::Lt => (Operator::Lt, Operator::Lt),
            BinaryOperator::LtEq => (Operator::Lt, Operator::LtEq),
            BinaryOperator::Gt => (Operator::Gt, Operator::Gt),
            BinaryOperator::GtEq => (Operator::Gt, Operator::GtEq),
            other => return Err(SqlError::unsupported(format!("the operator {other} on rows"))),
        };
        // a < c OR (a = c AND (b < d OR ...))
        let mut result: Option<Expr> = None;
        for (left, right) in pairs.into_iter().rev() {
            result = Some(match result {
                None => self.compare(last, left, right, span)?.expr,
                Some(rest) => {
                    let first = self.compare(strict, left.clone(), right.clone(), span)?.expr;
                    let equal = self.compare(Operator::Eq, left, right, span)?.expr;
                    first.or(equal.and(rest))
                }
            });
        }
        let expr = result.ok_or_else(|| SqlError::internal("a row has columns"))?;
        Ok(TypedExpr::new(expr, PgType::Bool, DataType::Boolean))
    }

    /// The fields of two rows.
    fn row_pairs(
        &mut self,
        lefts: &[ast::Expr],
        rights: &[ast::Expr],
        times: usize,
        cx: &Cx<'_>,
    ) -> Result<Vec<(TypedExpr, TypedExpr)>, SqlError> {
        if lefts.len() != rights.len() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "unequal number of entries in row expressions"));
        }
        if lefts.is_empty() {
            return Err(SqlError::unsupported("comparing rows of zero length"));
        }
        let pair = |(left, right)| Ok((self.copied(times, left, cx)?, self.copied(times, right, cx)?));
        lefts.iter().zip(rights).map(pair).collect()
    }

    fn all_pairs(
        &mut self,
        pairs: Vec<(TypedExpr, TypedExpr)>,
        op: Operator,
        join: Operator,
        span: sqlparser::tokenizer::Span,
    ) -> Result<TypedExpr, SqlError> {
        let mut all = Vec::new();
        for (left, right) in pairs {
            all.push(self.compare(op, left, right, span)?.expr);
        }
        Ok(TypedExpr::new(balanced(all, join), PgType::Bool, DataType::Boolean))
    }

    fn unary_op(&mut self, op: UnaryOperator, expr: &ast::Expr, cx: &Cx<'_>) -> Result<TypedExpr, SqlError> {
        if op == UnaryOperator::Minus
            && let Some(rotated) = minus_before_power(expr)
        {
            return self.expr(&rotated, cx);
        }
        if op == UnaryOperator::Minus
            && let Some(number) = super::literal::negative_number(expr)
        {
            return super::literal::number(&number);
        }
        let typed = self.expr(expr, cx)?;
        match op {
            UnaryOperator::Not => {
                let typed = self.boolean(typed, "NOT", expr)?;
                Ok(TypedExpr { expr: Expr::Not(Box::new(typed.expr)), ..typed })
            }
            UnaryOperator::Plus => self.call("+", vec![typed], expr.span()),
            UnaryOperator::Minus => self.call("-", vec![typed], expr.span()),
            UnaryOperator::BitwiseNot => self.call("~", vec![typed], expr.span()),
            UnaryOperator::PGAbs => self.call("abs", vec![typed], expr.span()),
            UnaryOperator::PGSquareRoot => self.call("sqrt", vec![typed], expr.span()),
            UnaryOperator::PGCubeRoot => self.call("cbrt", vec![typed], expr.span()),
            other => Err(SqlError::unsupported(format!("the operator {other}"))),
        }
    }

    fn cast(&mut self, expr: &ast::Expr, to: &ast::DataType, cx: &Cx<'_>) -> Result<TypedExpr, SqlError> {
        let to = from_ast(to)?;
        // An array literal takes its item type from the cast around it. It is the only array that can become a vector.
        let vector_item = to.vector_item();
        let item = match &to {
            PgType::Array(item) => Some(item.as_ref()),
            _ => vector_item.as_ref(),
        };
        if let (ast::Expr::Array(array), Some(item)) = (expr, item) {
            let mut items = Vec::new();
            for element in &array.elem {
                let bound = self.expr(element, cx)?;
                items.push(self.coercer.explicit(bound, item)?);
            }
            let made = self.make_array(items, item)?;
            return Ok(if vector_item.is_some() { TypedExpr { ty: to, ..made } } else { made });
        }
        let typed = match (super::literal::number_text(expr), types::is_float(&to)) {
            // A float reads its own digits, of which a numeric may not have enough.
            (Some(text), true) => super::literal::unknown(&text),
            _ => self.expr(expr, cx)?,
        };
        let span = expr.span();
        let typed = self.now_as(typed, &to)?;
        self.coercer.explicit(typed, &to).map_err(|error| error.at(span))
    }

    fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        else_result: Option<&ast::Expr>,
        cx: &Cx<'_>,
    ) -> Result<TypedExpr, SqlError> {
        let operand = operand.map(|operand| self.copied(conditions.len(), operand, cx)).transpose()?;
        let mut whens = Vec::new();
        // Postgres gives the type of ELSE the first say.
        let mut results = vec![match else_result {
            Some(result) => self.expr(result, cx)?,
            None => TypedExpr::constant(&Datum::Null, PgType::Unknown)?,
        }];
        for when in conditions {
            let condition = self.expr(&when.condition, cx)?;
            whens.push(match &operand {
                Some(operand) => self.compare(Operator::Eq, operand.clone(), condition, when.condition.span())?,
                None => self.boolean(condition, "CASE/WHEN", &when.condition)?,
            });
            results.push(self.expr(&when.result, cx)?);
        }
        let (mut results, ty, data_type) = self.coercer.unify(results, "CASE")?;
        let mut otherwise = results.remove(0);
        // See `as_number` for why a boolean CASE is calculated in numbers.
        let guarded =
            ty == PgType::Bool && results.iter().chain([&otherwise]).chain(&whens).any(|branch| can_fail(&branch.expr));
        if guarded {
            for branch in results.iter_mut().chain([&mut otherwise]) {
                branch.expr = as_number(std::mem::take(&mut branch.expr));
            }
        }
        let pairs = whens.into_iter().zip(results);
        let expr = Expr::Case(Case {
            expr: None,
            when_then_expr: pairs.map(|(when, then)| (Box::new(when.expr), Box::new(then.expr))).collect(),
            else_expr: Some(Box::new(otherwise.expr)),
        });
        let expr = if guarded { expr.eq(lit(1_i32)) } else { expr };
        Ok(TypedExpr::new(expr, ty, data_type))
    }

    fn null_test(&mut self, inner: &ast::Expr, cx: &Cx<'_>, is_null: bool) -> Result<TypedExpr, SqlError> {
        // Of a row it is asked of every field.
        let items = row_items(inner);
        let is_row = items.is_some();
        let fields = items.unwrap_or_else(|| vec![inner.clone()]);
        let mut tests = Vec::with_capacity(fields.len());
        for field in &fields {
            let typed = self.expr(field, cx)?;
            let typed = self.coercer.settle(typed)?;
            tests.push(match typed.ty {
                PgType::Record if !is_row => internal::null_test(typed, is_null)?.expr,
                _ if is_null => typed.expr.is_null(),
                _ => typed.expr.is_not_null(),
            });
        }
        let expr = if tests.is_empty() { lit(true) } else { balanced(tests, Operator::And) };
        Ok(TypedExpr { expr, ty: PgType::Bool, data_type: DataType::Boolean, nullable: false })
    }

    fn boolean_test(
        &mut self,
        inner: &ast::Expr,
        cx: &Cx<'_>,
        what: &str,
        test: impl Fn(Box<Expr>) -> Expr,
    ) -> Result<TypedExpr, SqlError> {
        let typed = self.expr(inner, cx)?;
        let typed = self.boolean(typed, what, inner)?;
        let expr = test(Box::new(typed.expr));
        Ok(TypedExpr { expr, ty: PgType::Bool, data_type: DataType::Boolean, nullable: false })
    }

    fn distinct_from(
        &mut self,
        left: &ast::Expr,
        right: &ast::Expr,
        op: Operator,
        cx: &Cx<'_>,
    ) -> Result<TypedExpr, SqlError> {
        if let (Some(lefts), Some(rights)) = (row_items(left), row_items(right)) {
            let join = if op == Operator::IsDistinctFrom { Operator::Or } else { Operator::And };
            let pairs = self.row_pairs(&lefts, &rights, 1, cx)?;
            return self.all_pairs(pairs, op, join, right.span());
        }
        let l = self.expr(left, cx)?;
        let r = self.expr(right, cx)?;
        self.compare(op, l, r, right.span())
    }

    /// IN: one list when all items take the type of the tested expression, else a chain of comparisons.
    fn in_list(
        &mut self,
        expr: &ast::Expr,
        list: &[ast::Expr],
        negated: bool,
        cx: &Cx<'_>,
    ) -> Result<TypedExpr, SqlError> {
        if let Some(lefts) = row_items(expr) {
            let mut any = Vec::new();
            for item in list {
                let Some(rights) = row_items(item) else {
                    return Err(SqlError::unsupported("IN of a row and an expression"));
                };
                any.push(self.row_comparison(&lefts, &BinaryOperator::Eq, &rights, cx)?.expr);
            }
            let expr = balanced(any, Operator::Or);
            let expr = if negated { Expr::Not(Box::new(expr)) } else { expr };
            return Ok(TypedExpr::new(expr, PgType::Bool, DataType::Boolean));
        }
        let mut all = vec![self.copied(list.len(), expr, cx)?];
        for item in list {
            all.push(self.expr(item, cx)?);
        }
        let types_of: Vec<PgType> = all.iter().map(|typed| typed.ty.clone()).collect();
        if types::common(&types_of, "IN").is_err() {
            // Each comparison finds, or misses, its own operator.
            let left = all.remove(0);
            let mut any = Vec::new();
            for (item, at) in all.into_iter().zip(list) {
                any.push(self.compare(Operator::Eq, left.clone(), item, at.span())?.expr);
            }
            let expr = balanced(any, Operator::Or);
            let expr = if negated { Expr::Not(Box::new(expr)) } else { expr };
            return Ok(TypedExpr::new(expr, PgType::Bool, DataType::Boolean));
        }
        let (unified, ty, _) = self.coercer.unify(all, "IN")?;
        self.require_equality(&ty, &ty)?;
        let mut keys = self.comparison_keys(unified, &types_of)?.into_iter().map(|key| key.expr);
        let expr = Box::new(keys.next().ok_or_else(|| SqlError::internal("IN tests nothing"))?);
        let expr = Expr::InList(InList { expr, list: keys.collect(), negated });
        Ok(TypedExpr::new(expr, PgType::Bool, DataType::Boolean))
    }

    fn between(
        &mut self,
        expr: &ast::Expr,
        negated: bool,
        low: &ast::Expr,
        high: &ast::Expr,
        cx: &Cx<'_>,
    ) -> Result<TypedExpr, SqlError> {
        let (low, is_symmetric) = match low {
            ast::Expr::Prefixed { prefix, value } if prefix.value == SYMMETRIC => (value.as_ref(), true),
            low => (low, false),
        };
        let times = if is_symmetric { 2 } else { 1 };
        let value = self.copied(2 * times, expr, cx)?;
        let (lower, upper) = (self.copied(times, low, cx)?, self.copied(times, high, cx)?);
        let mut within = |from: &TypedExpr, to: &TypedExpr| -> Result<Expr, SqlError> {
            let from = self.compare(Operator::GtEq, value.clone(), from.clone(), low.span())?.expr;
            Ok(from.and(self.compare(Operator::LtEq, value.clone(), to.clone(), high.span())?.expr))
        };
        let mut expr = within(&lower, &upper)?;
        if is_symmetric {
            expr = expr.or(within(&upper, &lower)?);
        }
        let expr = if negated { Expr::Not(Box::new(expr)) } else { expr };
        Ok(TypedExpr::new(expr, PgType::Bool, DataType::Boolean))
    }

    fn array(&mut self, elements: &[ast::Expr], cx: &Cx<'_>) -> Result<TypedExpr, SqlError> {
        let mut items = Vec::new();
        for element in elements {
            items.push(self.expr(element, cx)?);
        }
        if items.is_empty() {
            return Err(SqlError::new(SqlState::INDETERMINATE_DATATYPE, "cannot determine type of empty array")
                .with_hint("Explicitly cast to the desired type, for example ARRAY[]::integer[]."));
        }
        let (items, ty, _) = self.coercer.unify(items, "ARRAY")?;
        if matches!(ty, PgType::Array(_)) {
            return Err(SqlError::unsupported("an array of more than one dimension"));
        }
        self.make_array(items, &types::base(&ty))
    }

    /// An array of items that have its item type.
    pub fn make_array(&mut self, items: Vec<TypedExpr>, item: &PgType) -> Result<TypedExpr, SqlError> {
        let mut stored = Vec::with_capacity(items.len());
        for typed in items {
            stored.push(self.coercer.store_as(typed, item, &item.data_type())?);
        }
        internal::make_array(stored, item)
    }

    /// Subscripts count from 1; fields of records are not supported.
    fn access(&mut self, root: &ast::Expr, chain: &[AccessExpr], cx: &Cx<'_>) -> Result<TypedExpr, SqlError> {
        // `t.c[1]` is read as a chain that begins at `t`.
        let mut names = match root {
            ast::Expr::Identifier(name) => vec![name.clone()],
            ast::Expr::CompoundIdentifier(names) => names.clone(),
            _ => Vec::new(),
        };
        let is_name = |access: &&AccessExpr| matches!(access, AccessExpr::Dot(ast::Expr::Identifier(_)));
        let (leading, chain) = match names.is_empty() {
            true => (&[][..], chain),
            false => chain.split_at(chain.iter().take_while(is_name).count()),
        };
        names.extend(leading.iter().filter_map(|access| match access {
            AccessExpr::Dot(ast::Expr::Identifier(name)) => Some(name.clone()),
            _ => None,
        }));
        let mut value = match leading {
            [] => self.expr(root, cx)?,
            _ => self.compound_identifier(&names, cx)?,
        };
        for access in chain {
            value = match access {
                AccessExpr::Subscript(Subscript::Index { index }) => {
                    let position = self.expr(index, cx)?;
                    let position = self.coercer.implicit(position, &PgType::Int4, "array subscript")?;
                    let from_zero = value.ty.vector_item().is_some();
                    let value = value.vector_as_array();
                    if !matches!(value.ty, PgType::Array(_)) {
                        return Err(SqlError::new(
                            SqlState::DATATYPE_MISMATCH,
                            format!(
                                "cannot subscript type {} because it does not support subscripting",
                                value.ty.name()
                            ),
                        ));
                    }
                    let subscript = if from_zero { "vector_array_subscript" } else { "array_subscript" };
                    self.call(subscript, vec![value, position], index.span())?
                }
                AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride: None }) => {
                    let mut args = vec![value];
                    for (bound, furthest) in [(lower_bound, i32::MIN), (upper_bound, i32::MAX)] {
                        args.push(match bound {
                            Some(bound) => self.expr(bound, cx)?,
                            None => TypedExpr::constant(&Datum::Int4(furthest), PgType::Int4)?,
                        });
                    }
                    self.call("array_slice", args, root.span())?
                }
                AccessExpr::Dot(ast::Expr::Identifier(field)) => field_of(value, field)?,
                _ => return Err(SqlError::unsupported("a field of a composite value")),
            };
        }
        Ok(value)
    }

    fn collate(&mut self, expr: &ast::Expr, collation: &ast::ObjectName, cx: &Cx<'_>) -> Result<TypedExpr, SqlError> {
        let names = object_name(collation)?;
        let typed = self.expr(expr, cx)?;
        let typed = self.coercer.settle(typed)?;
        match names.last().map(String::as_str) {
            Some("C" | "default" | "POSIX" | "ucs_basic") if types::is_stringlike(&typed.ty) => Ok(typed),
            Some(other) if types::is_stringlike(&typed.ty) => Err(SqlError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("collation \"{other}\" for encoding \"UTF8\" does not exist"),
            )),
            _ => Err(SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                format!("collations are not supported by type {}", typed.ty.name()),
            )),
        }
    }

    /// Brings an expression to one exact type, as an argument.
    pub fn argument(&mut self, typed: TypedExpr, to: &PgType) -> Result<TypedExpr, SqlError> {
        self.coercer.cast(typed, to, LengthRule::Cast)
    }
}

/// `(value).field`
fn field_of(value: TypedExpr, field: &Ident) -> Result<TypedExpr, SqlError> {
    let name = fold(field);
    let DataType::Struct(fields) = &value.data_type else {
        let message =
            format!("column notation .{name} applied to type {}, which is not a composite type", value.ty.name());
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
    };
    let Some(found) = fields.iter().find(|of| *of.name() == name) else {
        let message = format!("could not identify column \"{name}\" in record data type");
        return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message).at(field.span));
    };
    let (ty, data_type) = (PgType::from_field(found), found.data_type().clone());
    Ok(TypedExpr::new(datafusion::functions::core::expr_fn::get_field(value.expr, name), ty, data_type))
}

/// A string constant whose type is decided.
pub fn text_literal(text: &str) -> TypedExpr {
    TypedExpr {
        expr: Expr::Literal(ScalarValue::Utf8View(Some(text.to_owned())), None),
        ty: PgType::Text,
        data_type: DataType::Utf8View,
        nullable: false,
    }
}

/// `-a ^ b` is `(-a) ^ b` in Postgres, where the parser reads `-(a ^ b)`.
fn minus_before_power(expr: &ast::Expr) -> Option<ast::Expr> {
    let ast::Expr::BinaryOp { left, op: BinaryOperator::PGExp, right } = expr else { return None };
    let negated =
        minus_before_power(left).unwrap_or_else(|| ast::Expr::UnaryOp { op: UnaryOperator::Minus, expr: left.clone() });
    Some(ast::Expr::BinaryOp { left: Box::new(negated), op: BinaryOperator::PGExp, right: right.clone() })
}

/// The items of `(a, b)` or `ROW(a, b)`.
pub(super) fn row_items(expr: &ast::Expr) -> Option<Vec<ast::Expr>> {
    match expr {
        ast::Expr::Nested(inner) => row_items(inner),
        ast::Expr::Tuple(items) => Some(items.clone()),
        ast::Expr::Function(function) if function.over.is_none() => {
            let name = object_name(&function.name).ok()?;
            let ast::FunctionArguments::List(list) = &function.args else { return None };
            if name != ["row"] {
                return None;
            }
            list.args
                .iter()
                .map(|arg| match arg {
                    ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                    _ => None,
                })
                .collect()
        }
        _ => None,
    }
}
