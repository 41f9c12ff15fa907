//! Syntax trees made by hand, for the queries inside UPDATE and DELETE, and small questions about given ones.

use crate::bind::scope::ROW_NUMBER;
use crate::plan::ItemRef;
use engine::error::SqlError;
use sql_syntax::ast::visit::walk;
use sql_syntax::names::Name;
use sql_syntax::parser::fold;
use sqlparser::ast as sp;
use sqlparser::tokenizer::Span;
use std::ops::ControlFlow;

/// The target of an UPDATE or DELETE.
pub(super) struct Target {
    /// Its name.
    pub(super) name: Name,
    /// Its alias, if it has one.
    alias: Option<String>,
    /// Where it stands in the text.
    pub(super) span: Span,
}

impl Target {
    /// The target as the statement writes it.
    pub(super) fn of(relation: &sp::TableFactor) -> Result<Target, SqlError> {
        let sp::TableFactor::Table { name, alias, args: None, .. } = relation else {
            return Err(SqlError::unsupported("an UPDATE or DELETE whose target is no table"));
        };
        if alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) {
            return Err(SqlError::unsupported("a list of column aliases for the target of UPDATE or DELETE"));
        }
        let alias = alias.as_ref().map(|alias| fold(&alias.name));
        Ok(Target { name: name_of(name)?, alias, span: span_of(name) })
    }

    /// A target without an alias.
    pub(super) fn named(name: Name) -> Target {
        Target { name, alias: None, span: Span::empty() }
    }

    /// What its columns are qualified with.
    pub(super) fn alias_or(&self, table: &ItemRef) -> String {
        self.alias.clone().unwrap_or_else(|| table.name.item.clone())
    }
}

/// `SELECT projection FROM target AS alias, others WHERE selection`.
///
/// With other relations a row of the target may match several times, but is changed once, as in Postgres: its rows are
/// numbered before the join, and one match is taken of each.
pub(super) fn select(
    target: &Target,
    alias: &str,
    projection: Vec<sp::Expr>,
    others: Vec<sp::TableWithJoins>,
    selection: Option<sp::Expr>,
) -> sp::Query {
    let table = table_factor(&target.name);
    let (relation, distinct) = if others.is_empty() {
        (with_alias(table, alias), None)
    } else {
        let numbered = plain_select(
            vec![
                sp::SelectItem::Wildcard(sp::WildcardAdditionalOptions::default()),
                sp::SelectItem::ExprWithAlias { expr: row_number(), alias: ident(ROW_NUMBER) },
            ],
            vec![sp::TableWithJoins { relation: table, joins: Vec::new() }],
            None,
            None,
        );
        let derived = sp::TableFactor::Derived {
            lateral: false,
            subquery: Box::new(query(numbered)),
            alias: Some(table_alias(alias)),
            sample: None,
        };
        (derived, Some(sp::Distinct::On(vec![column_ref(alias, ROW_NUMBER)])))
    };
    let mut from = vec![sp::TableWithJoins { relation, joins: Vec::new() }];
    from.extend(others);
    let items = projection.into_iter().map(sp::SelectItem::UnnamedExpr).collect();
    query(plain_select(items, from, selection, distinct))
}

/// `SELECT relation.* FROM others`
pub(super) fn all_of(relation: &str, others: Vec<sp::TableWithJoins>) -> sp::Query {
    let name = sp::ObjectName(vec![sp::ObjectNamePart::Identifier(ident(relation))]);
    let all = sp::SelectItem::QualifiedWildcard(
        sp::SelectItemQualifiedWildcardKind::ObjectName(name),
        sp::WildcardAdditionalOptions::default(),
    );
    query(plain_select(vec![all], others, None, None))
}

/// What a statement reads to decide which rows of its target it changes, and to what.
pub(super) struct Reading<'a> {
    /// The target.
    pub(super) target: &'a Target,
    /// What its columns are qualified with.
    pub(super) alias: &'a str,
    /// What is assigned.
    pub(super) values: Vec<sp::Expr>,
    /// The other relations.
    pub(super) others: &'a [sp::TableWithJoins],
    /// WHERE.
    pub(super) selection: Option<&'a sp::Expr>,
}

impl Reading<'_> {
    /// All of that as a query, of which the target is the first relation.
    pub(super) fn query(self) -> sp::Query {
        let relation = with_alias(table_factor(&self.target.name), self.alias);
        let mut from = vec![sp::TableWithJoins { relation, joins: Vec::new() }];
        from.extend_from_slice(self.others);
        let items = self.values.into_iter().chain([null()]).map(sp::SelectItem::UnnamedExpr).collect();
        query(plain_select(items, from, self.selection.cloned(), None))
    }
}

/// `alias.column`, quoted.
pub(super) fn column_ref(alias: &str, column: &str) -> sp::Expr {
    sp::Expr::CompoundIdentifier(vec![ident(alias), ident(column)])
}

/// NULL.
pub(super) fn null() -> sp::Expr {
    sp::Expr::Value(sp::Value::Null.with_empty_span())
}

/// Whether an expression is the word DEFAULT.
pub(super) fn is_default(expr: &sp::Expr) -> bool {
    matches!(expr, sp::Expr::Identifier(ident)
        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// The items of `(a, b)` or `ROW(a, b)`.
pub(super) fn row_items(expr: &sp::Expr) -> Option<Vec<&sp::Expr>> {
    match expr {
        sp::Expr::Tuple(items) => Some(items.iter().collect()),
        sp::Expr::Nested(inner) if !matches!(**inner, sp::Expr::Subquery(_)) => Some(vec![inner]),
        sp::Expr::Function(function) if name_of(&function.name).is_ok_and(|name| name.parts == ["row"]) => {
            let sp::FunctionArguments::List(list) = &function.args else { return None };
            let item = |arg| match arg {
                &sp::FunctionArg::Unnamed(sp::FunctionArgExpr::Expr(ref item)) => Some(item),
                _ => None,
            };
            list.args.iter().map(item).collect()
        }
        _ => None,
    }
}

/// The columns of `(SELECT a, b …)`, each as a subquery of its own; `None` where that would mean something else.
pub(super) fn subqueries(expr: &sp::Expr) -> Option<Vec<sp::Expr>> {
    let query = match expr {
        sp::Expr::Subquery(query) => query,
        sp::Expr::Nested(inner) => return subqueries(inner),
        _ => return None,
    };
    let sp::SetExpr::Select(select) = query.body.as_ref() else { return None };
    let is_expr =
        |item: &sp::SelectItem| matches!(item, sp::SelectItem::UnnamedExpr(_) | sp::SelectItem::ExprWithAlias { .. });
    // Without its neighbours a column must be what it is with them: these may refer to what is selected, or depend on how many rows
    // there are or how often they are asked for, as functions may.
    let groups = match &select.group_by {
        sp::GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
        sp::GroupByExpr::All(_) => true,
    };
    let stands_alone = select.distinct.is_none()
        && query.order_by.is_none()
        && query.with.is_none()
        && !groups
        && select.having.is_none()
        && select.from.iter().all(is_of_tables)
        && select.projection.iter().all(is_expr)
        && !has_calls(query);
    let only = |item: &sp::SelectItem| {
        let mut query = query.clone();
        if let sp::SetExpr::Select(select) = query.body.as_mut() {
            select.projection = vec![item.clone()];
        }
        sp::Expr::Subquery(query)
    };
    stands_alone.then(|| select.projection.iter().map(only).collect())
}

/// Whether a FROM item joins nothing but tables and queries.
fn is_of_tables(item: &sp::TableWithJoins) -> bool {
    let is_table = |factor: &sp::TableFactor| {
        matches!(factor, sp::TableFactor::Table { args: None, .. } | sp::TableFactor::Derived { lateral: false, .. })
    };
    is_table(&item.relation) && item.joins.iter().all(|join| is_table(&join.relation))
}

/// Whether a query calls a function, or reads rows of one.
fn has_calls(query: &sp::Query) -> bool {
    struct Calls;
    impl sp::Visitor for Calls {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &sp::Expr) -> ControlFlow<()> {
            if matches!(expr, sp::Expr::Function(_)) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }

        fn pre_visit_table_factor(&mut self, factor: &sp::TableFactor) -> ControlFlow<()> {
            let is_call = matches!(
                factor,
                sp::TableFactor::Table { args: Some(_), .. }
                    | sp::TableFactor::Function { .. }
                    | sp::TableFactor::UNNEST { .. }
            );
            if is_call { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    walk(query, &mut Calls).is_break()
}

/// The parts of a dotted name, folded.
pub(super) fn name_of(name: &sp::ObjectName) -> Result<Name, SqlError> {
    let parts = name
        .0
        .iter()
        .map(|part| match part {
            sp::ObjectNamePart::Identifier(ident) => Ok(fold(ident)),
            sp::ObjectNamePart::Function(_) => Err(SqlError::unsupported("a function call in a name")),
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Name { parts })
}

/// Where a name is in the text.
pub(super) fn span_of(name: &sp::ObjectName) -> Span {
    match name.0.first() {
        Some(sp::ObjectNamePart::Identifier(ident)) => ident.span,
        _ => Span::empty(),
    }
}

fn ident(name: &str) -> sp::Ident {
    sp::Ident::with_quote('"', name)
}

fn table_factor(name: &Name) -> sp::TableFactor {
    sp::TableFactor::Table {
        name: sp::ObjectName(name.parts.iter().map(|part| sp::ObjectNamePart::Identifier(ident(part))).collect()),
        alias: None,
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    }
}

fn with_alias(mut table: sp::TableFactor, name: &str) -> sp::TableFactor {
    if let sp::TableFactor::Table { alias, .. } = &mut table {
        *alias = Some(table_alias(name));
    }
    table
}

fn table_alias(name: &str) -> sp::TableAlias {
    sp::TableAlias { explicit: true, name: ident(name), columns: Vec::new(), at: None }
}

fn row_number() -> sp::Expr {
    sql_syntax::parser::parse_expr("row_number() OVER ()").expect("the text is a valid expression")
}

fn plain_select(
    projection: Vec<sp::SelectItem>,
    from: Vec<sp::TableWithJoins>,
    selection: Option<sp::Expr>,
    distinct: Option<sp::Distinct>,
) -> sp::Select {
    // sqlparser's struct has two dozen fields of other dialects; a parsed one has them all empty.
    let empty = sql_syntax::parser::parse_query("SELECT 1").expect("the text is a valid query");
    let sp::SetExpr::Select(mut select) = *empty.body else {
        unreachable!("SELECT parses to a select");
    };
    select.projection = projection;
    select.from = from;
    select.selection = selection;
    select.distinct = distinct;
    *select
}

fn query(select: sp::Select) -> sp::Query {
    sp::Query {
        with: None,
        body: Box::new(sp::SetExpr::Select(Box::new(select))),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}
