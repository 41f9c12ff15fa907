//! Function calls: scalar, set-returning, aggregate and window.

use super::Binder;
use super::arguments::in_order;
use super::grouping::contains_aggregate;
use super::scope::Clause;
use super::window::BoundWindow;
use crate::bind::aggregate::{self, AggregateArgs, ValueOrder};
use crate::bind::cx::Cx;
use crate::bind::name::object_name;
use crate::bind::relation::TableCall;
use arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::expr::{
    AggregateFunction, AggregateFunctionParams, NullTreatment, ScalarFunction, Sort, Unnest, WindowFunction,
    WindowFunctionParams,
};
use datafusion::logical_expr::{
    Aggregate, AggregateUDF, Expr, LogicalPlan, Operator, WindowFunctionDefinition, lit, when,
};
use engine::error::SqlError;
use pgrepr::length::LengthRule;
use repr::sqlstate::SqlState;
use repr::types::{NUMERIC, NUMERIC_PRECISION, NUMERIC_SCALE, NumericDisplay};
use repr::{PgType, Reg};
use sql_functions::decimals::{decimal, precision_and_scale};
use sql_functions::library::{Choice, NumericRule, Returns};
use sql_functions::record::make_set_row;
use sql_functions::registry::{self, function_missing};
use sql_functions::row::RowFunction;
use sql_functions::{TypedExpr, ordered_set, types, waiting};
use sql_syntax::types::by_name;
use sqlparser::ast::{
    self, DuplicateTreatment, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments,
    Spanned,
};
use sqlparser::tokenizer::Span;
use std::sync::Arc;

/// The function by which JDBC drivers take keys apart.
const EXPAND_ARRAY: &str = "_pg_expandarray";

/// What a call gives.
enum Called {
    /// A value.
    Value(TypedExpr),
    /// A set, as the list of its values, and the name of their column if it has one of its own.
    Set(TypedExpr, Option<String>),
    /// Rows of several named columns, each as the list of its values.
    Rows(Vec<(String, TypedExpr)>),
}

/// The syntax of a call, taken apart.
pub(super) struct Parsed<'a> {
    pub(super) name: String,
    args: Vec<&'a ast::Expr>,
    star: bool,
    pub(super) distinct: bool,
    pub(super) order_by: &'a [ast::OrderByExpr],
    null_treatment: Option<ast::NullTreatment>,
    pub(super) span: Span,
}

/// An aggregate call over a group or a window.
struct AggregateSite {
    distinct: bool,
    filter: Option<Box<Expr>>,
    order_by: Vec<Sort>,
    window: Option<BoundWindow>,
}

impl Binder<'_> {
    /// A call in an expression.
    pub fn function(&mut self, function: &Function, cx: &Cx<'_>) -> Result<TypedExpr, SqlError> {
        let parsed = parse(function)?;
        if parsed.name == "grouping" && function.over.is_none() {
            check_site(&parsed, false, cx.clause)?;
            return self.grouping_call(&parsed.args, cx, parsed.span);
        }
        if !function.within_group.is_empty() {
            return self.ordered_set_call(function, parsed, cx);
        }
        if aggregate::is_aggregate(&parsed.name) {
            return self.aggregate_call(function, parsed, cx);
        }
        if let Some(over) = &function.over {
            if !aggregate::is_window(&parsed.name) {
                return Err(SqlError::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("OVER specified, but {} is not a window function nor an aggregate function", parsed.name),
                )
                .at(parsed.span));
            }
            let refused = [(function.filter.is_some(), "FILTER"), (parsed.distinct, "DISTINCT")];
            if let Some((_, what)) = refused.iter().find(|(present, _)| *present) {
                let message = format!("{what} is not implemented for non-aggregate window functions");
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).at(parsed.span));
            }
            let window = self.window(over, cx)?;
            return self.window_call(parsed, window, cx);
        }
        if aggregate::is_window(&parsed.name) {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("window function {} requires an OVER clause", parsed.name),
            )
            .at(parsed.span));
        }
        let only_aggregates = [
            (parsed.star, format!("{}(*)", parsed.name)),
            (parsed.distinct, "DISTINCT".to_owned()),
            (!parsed.order_by.is_empty(), "ORDER BY".to_owned()),
            (function.filter.is_some(), "FILTER".to_owned()),
        ];
        if let Some((_, what)) = only_aggregates.iter().find(|(present, _)| *present) {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("{what} specified, but {} is not an aggregate function", parsed.name),
            )
            .at(parsed.span));
        }
        if parsed.name == "array" && matches!(function.args, FunctionArguments::Subquery(_)) {
            return self.array_of_query(function, cx);
        }
        let mut args = Vec::with_capacity(parsed.args.len());
        for (at, arg) in parsed.args.iter().enumerate() {
            args.push(match (parsed.name.as_str(), at, *arg) {
                // A key word.
                ("normalize", 1, ast::Expr::Identifier(form)) if form.quote_style.is_none() => {
                    TypedExpr::constant(&repr::Datum::Text(form.value.clone().into()), PgType::Text)?
                }
                _ => self.expr(arg, cx)?,
            });
        }
        let typed = self.call(&parsed.name, args, parsed.span)?;
        if is_set(&typed.expr) && !matches!(cx.clause, Clause::Select) {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("set-returning functions are not allowed in {}", cx.clause.name()),
            )
            .at(parsed.span));
        }
        Ok(typed)
    }

    /// `ARRAY(SELECT …)`
    fn array_of_query(&mut self, function: &Function, cx: &Cx<'_>) -> Result<TypedExpr, SqlError> {
        let FunctionArguments::Subquery(query) = &function.args else {
            return Err(SqlError::internal("an array of a query"));
        };
        let bound = self.query(query, Some(cx.frame), super::Settle::Text)?;
        let [column] = bound.columns.as_slice() else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "subquery must return only one column"));
        };
        let item = column.ty.clone();
        let (plan, input, order_by) = super::subquery::ordered_input(bound)?;
        let input = self.coercer.store_as(input, &item, &item.data_type())?;
        let name = self.internal_name("list");
        let collected = aggregate::collect_ordered(input.expr, order_by).alias(&name);
        let plan = LogicalPlan::Aggregate(Aggregate::try_new(plan, vec![], vec![collected])?);
        let ty = PgType::Array(Box::new(item.clone()));
        let data_type = DataType::new_list(item.data_type(), true);
        let subquery = Expr::ScalarSubquery(super::subquery::as_subquery(plan)?);
        let array = TypedExpr::new(subquery, ty.clone(), data_type);
        self.call("array_or_empty", vec![array], Span::empty())
    }

    /// A call by name with bound arguments; set-returning functions become `Unnest`.
    pub fn call(&mut self, name: &str, args: Vec<TypedExpr>, span: Span) -> Result<TypedExpr, SqlError> {
        let called = match name {
            "coalesce" => self.coalesce(args),
            "nullif" => self.null_if(args, span),
            "greatest" | "least" if args.iter().any(|arg| arg.ty == PgType::Record) => {
                Err(SqlError::unsupported(format!("{name} of rows")))
            }
            // An aggregate stays there, because it makes one row of many.
            "pg_typeof" if args.len() == 1 && !contains_aggregate(&args[0].expr) => {
                // An undecided literal shows that it is one.
                let oid = args.first().map_or(0, |arg| pgrepr::types::oid(&arg.ty));
                TypedExpr::constant(&repr::Datum::Oid(oid), PgType::Reg(Reg::Type))
            }
            _ if waiting::is_waiting(name) => self.waiting(name, args),
            "generate_subscripts" | "array_lower" | "array_upper"
                if args.first().is_some_and(|list| list.ty.vector_item().is_some()) =>
            {
                self.call(&format!("vector_{name}"), args, span)
            }
            _ => self.listed(name, args).map(|called| match called {
                Called::Value(typed) => typed,
                Called::Set(list, _) => unnest(list),
                Called::Rows(columns) => record_of_rows(columns),
            }),
        };
        called.map_err(|error| error.at(span))
    }

    /// A function in FROM: its rows as a list, or a list for each of its columns, which then have names.
    pub fn table_function(
        &mut self,
        call: &TableCall<'_>,
        cx: &Cx<'_>,
    ) -> Result<Vec<(Option<String>, TypedExpr)>, SqlError> {
        let name = function_name(&object_name(call.name)?)?;
        let span = call.name.0.first().and_then(|part| part.as_ident()).map_or(Span::empty(), |ident| ident.span);
        let mut args = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            args.push(self.expr(arg, cx)?);
        }
        let called = match waiting::is_waiting(&name) {
            true => self.waiting(&name, args).map(Called::Value),
            false => self.listed(&name, args),
        };
        Ok(match called.map_err(|error| error.at(span))? {
            Called::Value(typed) => {
                let item = types::base(&typed.ty);
                vec![(None, self.make_array(vec![typed], &item)?)]
            }
            Called::Set(list, column) => vec![(column, list)],
            Called::Rows(columns) => columns.into_iter().map(|(name, list)| (Some(name), list)).collect(),
        })
    }

    /// The list of a set-returning function of one argument.
    pub(super) fn set(&mut self, name: &str, arg: TypedExpr) -> Result<TypedExpr, SqlError> {
        match self.listed(name, vec![arg])? {
            Called::Set(list, _) => Ok(list),
            _ => Err(SqlError::internal("the function returns a set")),
        }
    }

    /// A scalar call.
    fn listed(&mut self, name: &str, args: Vec<TypedExpr>) -> Result<Called, SqlError> {
        let args: Vec<TypedExpr> = args.into_iter().map(TypedExpr::vector_as_array).collect();
        let actual: Vec<PgType> = args.iter().map(|arg| arg.ty.clone()).collect();
        if !registry::exists(name) {
            return match (by_name(name), args.len()) {
                (Some(ty), 1) => {
                    let arg = args.into_iter().next().unwrap_or_else(super::literal::null);
                    Ok(Called::Value(self.coercer.explicit(arg, &ty)?))
                }
                _ => Err(function_missing(name, &actual)),
            };
        }
        let choice = registry::choose(name, &actual)?;
        let mut exprs = Vec::with_capacity(args.len());
        let mut typed_args = Vec::with_capacity(args.len());
        for (arg, target) in args.into_iter().zip(&choice.args) {
            let arg = self.coercer.cast(arg, target, LengthRule::Cast)?;
            let arg = match target {
                PgType::Array(_) => self.coercer.store_as(arg, target, &target.data_type())?,
                _ => arg,
            };
            exprs.push(arg.expr.clone());
            typed_args.push(arg);
        }
        let declared: Vec<PgType> = typed_args.iter().map(|arg| arg.ty.clone()).collect();
        let column = |at: usize, ty: PgType, data_type: DataType| {
            let udf = RowFunction::column_udf(choice.overload, at, &declared, &ty, &data_type);
            let expr = Expr::ScalarFunction(ScalarFunction::new_udf(udf, exprs.clone()));
            TypedExpr::new(expr, ty, data_type)
        };
        let list = |at: usize, item: PgType, data_type: DataType| {
            let field = Field::new("item", data_type, true);
            column(at, PgType::Array(Box::new(item)), DataType::List(Arc::new(field)))
        };
        if !choice.columns.is_empty() {
            let columns = choice.columns.iter().enumerate();
            let lists = columns.map(|(at, (name, ty))| (name.clone(), list(at, ty.clone(), ty.data_type())));
            return Ok(Called::Rows(lists.collect()));
        }
        let (ty, data_type) = result_type(&choice, &typed_args);
        Ok(match choice.overload.set {
            true => Called::Set(list(0, ty, data_type), choice.overload.column.clone()),
            false => Called::Value(column(0, ty, data_type)),
        })
    }

    fn waiting(&mut self, name: &str, args: Vec<TypedExpr>) -> Result<TypedExpr, SqlError> {
        let actual: Vec<PgType> = args.iter().map(|arg| arg.ty.clone()).collect();
        let choice = registry::choose(name, &actual)?;
        let args = args.into_iter().zip(&choice.args);
        let args = args.map(|(arg, ty)| Ok(self.coercer.cast(arg, ty, LengthRule::Cast)?.expr));
        let args = args.collect::<Result<_, SqlError>>()?;
        let expr = Expr::ScalarFunction(ScalarFunction::new_udf(waiting::udf(&choice), args));
        Ok(TypedExpr::new(expr, PgType::Void, PgType::Void.data_type()))
    }

    fn coalesce(&mut self, args: Vec<TypedExpr>) -> Result<TypedExpr, SqlError> {
        if args.is_empty() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "COALESCE needs an argument"));
        }
        let (args, ty, data_type) = self.coercer.unify(args, "COALESCE")?;
        let exprs = args.into_iter().map(|arg| arg.expr).collect();
        let udf = datafusion::functions::core::coalesce();
        Ok(TypedExpr::new(Expr::ScalarFunction(ScalarFunction::new_udf(udf, exprs)), ty, data_type))
    }

    fn null_if(&mut self, args: Vec<TypedExpr>, span: Span) -> Result<TypedExpr, SqlError> {
        let [left, right] = <[TypedExpr; 2]>::try_from(args)
            .map_err(|args| function_missing("nullif", &args.iter().map(|arg| arg.ty.clone()).collect::<Vec<_>>()))?;
        let left = self.coercer.settle_as_other(left, &right)?;
        // The value has the type that it is compared as, if an operator of other types has to be found for that.
        let left = match super::operator::comparison_type(&left.ty, &right.ty) {
            Some(ty @ (PgType::Numeric(_) | PgType::Float8)) => self.coercer.cast(left, &ty, LengthRule::Cast)?,
            _ => left,
        };
        let equal = self.compare(Operator::Eq, left.clone(), right, span)?;
        let null = Expr::Literal(ScalarValue::try_from(&left.data_type)?, None);
        let expr = when(equal.expr, null).otherwise(left.expr)?;
        Ok(TypedExpr::new(expr, left.ty, left.data_type))
    }

    fn aggregate_call(&mut self, function: &Function, parsed: Parsed<'_>, cx: &Cx<'_>) -> Result<TypedExpr, SqlError> {
        let site_clause = if function.over.is_some() { Clause::Window } else { Clause::Aggregate };
        check_site(&parsed, function.over.is_some(), cx.clause)?;
        let inner = cx.within(site_clause);
        let window = function.over.as_ref().map(|over| self.window(over, cx)).transpose()?;
        let mut args = Vec::with_capacity(parsed.args.len());
        for arg in &parsed.args {
            args.push(self.expr(arg, &inner)?);
        }
        let filter = match &function.filter {
            Some(filter) => Some(Box::new(self.condition(filter, &inner, "FILTER")?)),
            None => None,
        };
        if window.is_none()
            && let Some(measure) = self.measure_call(&parsed, &args, filter.as_deref())?
        {
            return Ok(measure);
        }
        let (mut order_by, mut distinct) = (Vec::new(), parsed.distinct.then(ValueOrder::default));
        let mut of_argument = false;
        for item in parsed.order_by {
            // What repeats an argument is that argument, subqueries included.
            let argument = parsed.args.iter().position(|arg| **arg == item.expr);
            let expr = match argument {
                Some(at) => args[at].clone(),
                None => self.expr(&item.expr, &inner)?,
            };
            let argument = args.iter().position(|arg| arg.expr == expr.expr);
            let sort = self.sort_expr(expr, item)?;
            match (&mut distinct, argument) {
                (None, _) => order_by.push(sort),
                (Some(_), None) => {
                    let message = "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
                    return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message).at(parsed.span));
                }
                (Some(order), Some(0)) if !of_argument => {
                    of_argument = true;
                    *order = ValueOrder { descending: !sort.asc, nulls_first: sort.nulls_first };
                }
                (Some(_), Some(_)) => {}
            }
        }
        if ordered_set::function(&parsed.name).is_some() {
            let message = format!("WITHIN GROUP is required for ordered-set aggregate {}", parsed.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).at(parsed.span));
        }
        if window.is_some() && parsed.distinct {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "DISTINCT is not implemented for window functions",
            )
            .at(parsed.span));
        }
        if window.is_some() && !order_by.is_empty() {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "aggregate ORDER BY is not implemented for window functions",
            )
            .at(parsed.span));
        }
        let arguments = args.iter().map(|arg| &arg.expr).chain(filter.as_deref());
        if window.is_none() && is_of_outer_query(arguments.chain(order_by.iter().map(|sort| &sort.expr))) {
            return Err(SqlError::unsupported("an aggregate of an outer query in a subquery").at(parsed.span));
        }
        let is_windowed = window.is_some();
        // An aggregate of no row at all.
        let filter = match &window {
            Some(window) if window.is_empty => Some(Box::new(lit(false))),
            _ => filter,
        };
        let site = AggregateSite { distinct: parsed.distinct, filter, order_by, window };
        let call = AggregateArgs { name: &parsed.name, star: parsed.star, distinct, args, is_windowed };
        aggregate::build(self, call, &|func, args| site.expr(func, args)).map_err(|error| error.at(parsed.span))
    }

    /// `percentile_cont(0.5) WITHIN GROUP (ORDER BY x)` and its kin.
    fn ordered_set_call(
        &mut self,
        function: &Function,
        parsed: Parsed<'_>,
        cx: &Cx<'_>,
    ) -> Result<TypedExpr, SqlError> {
        check_site(&parsed, false, cx.clause)?;
        let refused = |state: SqlState, message: String| Err(SqlError::new(state, message).at(parsed.span));
        if ordered_set::function(&parsed.name).is_none() {
            let message = format!("{} is not an ordered-set aggregate, so it cannot have WITHIN GROUP", parsed.name);
            return refused(SqlState::WRONG_OBJECT_TYPE, message);
        }
        if parsed.distinct {
            return refused(SqlState::SYNTAX_ERROR, "cannot use DISTINCT with WITHIN GROUP".to_owned());
        }
        if !parsed.order_by.is_empty() {
            return refused(
                SqlState::SYNTAX_ERROR,
                "cannot use multiple ORDER BY clauses with WITHIN GROUP".to_owned(),
            );
        }
        if function.over.is_some() {
            let message = format!("OVER is not supported for ordered-set aggregate {}", parsed.name);
            return refused(SqlState::FEATURE_NOT_SUPPORTED, message);
        }
        let [item] = function.within_group.as_slice() else {
            return Err(SqlError::unsupported(format!("{} over several expressions", parsed.name)).at(parsed.span));
        };
        let inner = cx.within(Clause::Aggregate);
        // Direct arguments are evaluated once for each group, over what it is grouped by.
        let mut direct = Vec::with_capacity(parsed.args.len());
        for arg in &parsed.args {
            direct.push(self.expr(arg, &inner)?);
        }
        let value = self.expr(&item.expr, &inner)?;
        let descending = !item.options.asc.unwrap_or(true);
        let order = ValueOrder { descending, nulls_first: item.options.nulls_first.unwrap_or(descending) };
        let filter = match &function.filter {
            Some(filter) => Some(Box::new(self.condition(filter, &inner, "FILTER")?)),
            None => None,
        };
        if is_of_outer_query([&value.expr].into_iter().chain(filter.as_deref())) {
            return Err(SqlError::unsupported("an aggregate of an outer query in a subquery").at(parsed.span));
        }
        let site = AggregateSite { distinct: false, filter, order_by: Vec::new(), window: None };
        aggregate::ordered_set(self, &parsed.name, direct, value, order, &|func, args| site.expr(func, args))
            .map_err(|error| error.at(parsed.span))
    }

    fn window_call(&mut self, parsed: Parsed<'_>, window: BoundWindow, cx: &Cx<'_>) -> Result<TypedExpr, SqlError> {
        if !matches!(cx.clause, Clause::Select | Clause::OrderBy) {
            return Err(no_window_here(cx.clause).at(parsed.span));
        }
        let inner = cx.within(Clause::Window);
        let mut args = Vec::with_capacity(parsed.args.len());
        for arg in &parsed.args {
            args.push(self.expr(arg, &inner)?);
        }
        if parsed.null_treatment.is_some() {
            return Err(SqlError::unsupported("IGNORE/RESPECT NULLS").at(parsed.span));
        }
        let (udf, args, ty, data_type, cast_to) =
            aggregate::window(self, &parsed.name, args).map_err(|error| error.at(parsed.span))?;
        if window.is_empty && matches!(parsed.name.as_str(), "first_value" | "last_value" | "nth_value") {
            return Ok(TypedExpr::new(Expr::Literal(ScalarValue::try_from(&data_type)?, None), ty, data_type));
        }
        let params = WindowFunctionParams {
            args,
            partition_by: window.partition_by,
            order_by: window.order_by,
            window_frame: window.frame,
            filter: None,
            null_treatment: None,
            distinct: false,
        };
        let call = WindowFunction { fun: WindowFunctionDefinition::WindowUDF(udf), params };
        let expr = Expr::WindowFunction(Box::new(call));
        let expr = match cast_to {
            Some(to) => Expr::Cast(datafusion::logical_expr::Cast::new(Box::new(expr), to)),
            None => expr,
        };
        Ok(TypedExpr::new(expr, ty, data_type))
    }
}

impl AggregateSite {
    /// The aggregate as a DataFusion call.
    fn expr(&self, func: Arc<AggregateUDF>, args: Vec<Expr>) -> Expr {
        let null_treatment: Option<NullTreatment> = None;
        match &self.window {
            None => Expr::AggregateFunction(AggregateFunction {
                func,
                params: AggregateFunctionParams {
                    args,
                    distinct: self.distinct,
                    filter: self.filter.clone(),
                    order_by: self.order_by.clone(),
                    null_treatment,
                },
            }),
            Some(window) => Expr::WindowFunction(Box::new(WindowFunction {
                fun: WindowFunctionDefinition::AggregateUDF(func),
                params: WindowFunctionParams {
                    args,
                    partition_by: window.partition_by.clone(),
                    order_by: window.order_by.clone(),
                    window_frame: window.frame.clone(),
                    filter: self.filter.clone(),
                    null_treatment,
                    distinct: false,
                },
            })),
        }
    }
}

/// An aggregate belongs to the innermost query whose columns it reads.
fn is_of_outer_query<'e>(exprs: impl Iterator<Item = &'e Expr>) -> bool {
    let (mut inner, mut outer) = (false, false);
    for expr in exprs {
        inner |= !expr.column_refs().is_empty();
        outer |= expr.exists(|expr| Ok(matches!(expr, Expr::OuterReferenceColumn(..)))).unwrap_or(false);
    }
    outer && !inner
}

/// Where aggregates may stand.
fn check_site(parsed: &Parsed<'_>, windowed: bool, clause: Clause) -> Result<(), SqlError> {
    let error = match (clause, windowed) {
        (Clause::Select | Clause::OrderBy, _) | (Clause::Having, false) | (Clause::Window, false) => return Ok(()),
        (Clause::Aggregate, false) => {
            SqlError::new(SqlState::GROUPING_ERROR, "aggregate function calls cannot be nested")
        }
        (Clause::Aggregate, true) => {
            SqlError::new(SqlState::GROUPING_ERROR, "aggregate function calls cannot contain window function calls")
        }
        (Clause::Window, true) => SqlError::new(SqlState::WINDOWING_ERROR, "window function calls cannot be nested"),
        (clause, true) => no_window_here(clause),
        (clause, false) => {
            SqlError::new(SqlState::GROUPING_ERROR, format!("aggregate functions are not allowed in {}", clause.name()))
        }
    };
    Err(error.at(parsed.span))
}

fn no_window_here(clause: Clause) -> SqlError {
    match clause {
        Clause::Aggregate => {
            SqlError::new(SqlState::GROUPING_ERROR, "aggregate function calls cannot contain window function calls")
        }
        Clause::Window => SqlError::new(SqlState::WINDOWING_ERROR, "window function calls cannot be nested"),
        clause => {
            SqlError::new(SqlState::WINDOWING_ERROR, format!("window functions are not allowed in {}", clause.name()))
        }
    }
}

fn parse(function: &Function) -> Result<Parsed<'_>, SqlError> {
    let names = object_name(&function.name)?;
    let span = function.name.0.first().and_then(|part| part.as_ident()).map_or(Span::empty(), |ident| ident.span);
    let name = function_name(&names).map_err(|error| error.at(span))?;
    if function.parameters != FunctionArguments::None || function.uses_odbc_syntax {
        return Err(SqlError::unsupported(format!("this form of a call of {name}")).at(span));
    }
    let mut parsed = Parsed {
        name,
        args: Vec::new(),
        star: false,
        distinct: false,
        order_by: &[],
        null_treatment: function.null_treatment,
        span,
    };
    let FunctionArguments::List(list) = &function.args else { return Ok(parsed) };
    parsed.distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
    for arg in &list.args {
        match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => parsed.star = true,
            _ if parsed.star => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \",\"").at(span));
            }
            _ => {}
        }
    }
    if !parsed.star {
        parsed.args = in_order(&parsed.name, &list.args).map_err(|error| error.at(span))?;
    }
    for clause in &list.clauses {
        match clause {
            FunctionArgumentClause::OrderBy(items) => parsed.order_by = items,
            FunctionArgumentClause::IgnoreOrRespectNulls(treatment) => parsed.null_treatment = Some(*treatment),
            _ => return Err(SqlError::unsupported("this clause of an argument list").at(span)),
        }
    }
    if parsed.null_treatment.is_some() && aggregate::is_aggregate(&parsed.name) {
        return Err(SqlError::unsupported("IGNORE/RESPECT NULLS").at(function.span()));
    }
    Ok(parsed)
}

/// Functions live in the catalog schemas.
fn function_name(names: &[String]) -> Result<String, SqlError> {
    match names {
        [name] => Ok(name.clone()),
        [schema, name] if ["pg_catalog", "mz_catalog", "mz_internal"].contains(&schema.as_str()) => Ok(name.clone()),
        [schema, name] if schema == "information_schema" && name == EXPAND_ARRAY => Ok(name.clone()),
        _ => Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function {} does not exist", names.join(".")))),
    }
}

/// Whether an expression is a set-returning call.
fn is_set(expr: &Expr) -> bool {
    match expr {
        Expr::Unnest(_) => true,
        // A record of several columns that are unnested together.
        Expr::ScalarFunction(function) => function.args.iter().any(|arg| matches!(arg, Expr::Unnest(_))),
        _ => false,
    }
}

/// The rows of several columns as records.
fn record_of_rows(columns: Vec<(String, TypedExpr)>) -> TypedExpr {
    make_set_row(columns.into_iter().map(|(name, list)| (name, unnest(list))).collect())
}

fn unnest(list: TypedExpr) -> TypedExpr {
    let (PgType::Array(item), DataType::List(field)) = (&list.ty, &list.data_type) else { return list };
    let (ty, data_type) = (item.as_ref().clone(), field.data_type().clone());
    TypedExpr::new(Expr::Unnest(Unnest::new(list.expr)), ty, data_type)
}

/// The result's type; numerics get their scale.
fn result_type(choice: &Choice, args: &[TypedExpr]) -> (PgType, DataType) {
    let Returns::Numeric(rule) = choice.overload.returns else {
        return (choice.returns.clone(), choice.returns.data_type());
    };
    let free = (NUMERIC, DataType::Decimal256(NUMERIC_PRECISION, NUMERIC_SCALE));
    let Some(first) = args.first() else { return free };
    let (precision, scale) = precision_and_scale(&first.data_type);
    let scaled = PgType::Numeric(NumericDisplay::Scale);
    match rule {
        NumericRule::Same => {
            let ty = match &first.ty {
                PgType::Numeric(NumericDisplay::Declared(..)) => scaled,
                other => other.clone(),
            };
            (ty, first.data_type.clone())
        }
        NumericRule::Integer => (scaled, decimal((precision.saturating_sub(scale as u8)).saturating_add(1), 0)),
        NumericRule::Digits => match args.get(1).and_then(|arg| arg.as_literal()) {
            Some(ScalarValue::Int32(Some(digits))) => {
                let target = (*digits).clamp(0, 38) as i8;
                let whole = precision.saturating_sub(scale as u8).saturating_add(1);
                (scaled, decimal(whole.saturating_add(target as u8).min(NUMERIC_PRECISION), target))
            }
            _ => free,
        },
        NumericRule::Quotient => (PgType::Numeric(NumericDisplay::Quotient), free.1),
        NumericRule::Field => {
            let scale = match (first.as_literal(), args.get(1).map(|arg| &arg.ty)) {
                (Some(ScalarValue::Utf8View(Some(field))), Some(ty)) => field_scale(field, ty),
                _ => return free,
            };
            (scaled, decimal(38, scale))
        }
        NumericRule::Free => free,
    }
}

/// The digits after the point of a date or time field.
fn field_scale(field: &str, ty: &PgType) -> i8 {
    match field.to_lowercase().as_str() {
        "epoch" if *ty == PgType::Date => 0,
        "epoch" | "second" | "seconds" => 6,
        "millisecond" | "milliseconds" => 3,
        _ => 0,
    }
}

impl crate::bind::coerce::Coercer<'_> {
    /// An undecided expression takes the type of its partner.
    pub fn settle_as_other(&mut self, expr: TypedExpr, other: &TypedExpr) -> Result<TypedExpr, SqlError> {
        match (&expr.ty, &other.ty) {
            (PgType::Unknown, PgType::Unknown) => self.settle(expr),
            (PgType::Unknown, ty) => {
                let ty = types::base(ty);
                self.cast(expr, &ty, LengthRule::Cast)
            }
            _ => Ok(expr),
        }
    }
}
