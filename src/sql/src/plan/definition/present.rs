//! The text of a view's query, in words that mean today what they meant when the view was created.
//!
//! What the query names may be called otherwise by now, something else may be found under the name, or more columns may have
//! come, or be called otherwise. The view itself goes by what it has recorded ([`ViewDef::reads`]), but its text would not do
//! as a definition any more. Then it is printed anew: a table `t` that was renamed is `public.t2 AS t`, a view `v` that was
//! replaced by one with more columns is `(SELECT a, b FROM v) AS v`, and a table whose column `b` was renamed to `c` is
//! `(SELECT a, c AS b FROM t) AS t`.

use super::within_database;
use crate::bind::name::object_name;
use crate::bind::scope::fold;
use crate::names::resolve_item;
use crate::plan::{CatalogView, ViewDef, ViewRead};
use engine::names::Scope;
use repr::ColumnDesc;
use sql_syntax::ast::print_query;
use sql_syntax::ast::visit::walk_mut;
use sql_syntax::names::{FullName, Name, quote_ident};
use sql_syntax::parser::parse_query;
use sqlparser::ast::{Query, SetExpr, TableFactor, VisitorMut};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// The query of the view called `name`.
pub(super) fn query(catalog: &dyn CatalogView, name: &FullName, view: &ViewDef) -> String {
    let present = |read: &ViewRead| Some((read.name.parts.clone(), present_form(catalog, name, view, read)?));
    let forms: BTreeMap<Vec<String>, String> = view.context.reads.iter().filter_map(present).collect();
    if forms.is_empty() {
        return view.query.clone();
    }
    // The text was parsed when the view was created.
    let Ok(mut query) = parse_query(&view.query) else { return view.query.clone() };
    let _done = walk_mut(&mut query, &mut Printer { forms, ctes: Vec::new() });
    print_query(&query)
}

/// What to write after FROM in place of a name; `None` if that still does.
fn present_form(catalog: &dyn CatalogView, view: &FullName, def: &ViewDef, read: &ViewRead) -> Option<String> {
    let item = catalog.item(read.id)?;
    let scope =
        Scope { database: &def.context.database, search_path: &def.context.search_path, user: "", temporary: None };
    let is_found = resolve_item(catalog, scope, &read.name).is_ok_and(|found| found.is_some_and(|f| f.id == read.id));
    let name = match is_found {
        true => quoted(&read.name),
        false if item.name.database.is_none() || item.name.database == view.database => within_database(&item.name),
        false => item.name.to_string(),
    };
    if read.columns < item.desc.arity() || !read.names.is_empty() {
        let column = |(at, column): (usize, &ColumnDesc)| match read.names.get(at) {
            Some(name) if *name != column.name => format!("{} AS {}", quote_ident(&column.name), quote_ident(name)),
            _ => quote_ident(&column.name),
        };
        let columns: Vec<String> = item.desc.columns.iter().take(read.columns).enumerate().map(column).collect();
        return Some(format!("(SELECT {} FROM {name})", columns.join(", ")));
    }
    (!is_found).then_some(name)
}

fn quoted(name: &Name) -> String {
    name.parts.iter().map(|part| quote_ident(part)).collect::<Vec<_>>().join(".")
}

/// Replaces names of relations, except where they are those of a WITH.
struct Printer {
    forms: BTreeMap<Vec<String>, String>,
    ctes: Vec<With>,
}

/// The WITH of a query around the current place.
struct With {
    names: Vec<String>,
    /// How many of them can be seen: each only behind its own query, which are visited first and in order.
    visible: usize,
}

impl Printer {
    fn form(&self, parts: &[String]) -> Option<&String> {
        if let [name] = parts
            && self.ctes.iter().any(|with| with.names[..with.visible].contains(name))
        {
            return None;
        }
        self.forms.get(parts)
    }
}

impl VisitorMut for Printer {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let with = query.with.as_ref();
        let names: Vec<String> =
            with.iter().flat_map(|with| &with.cte_tables).map(|cte| fold(&cte.alias.name)).collect();
        let visible = if with.is_some_and(|with| with.recursive) { names.len() } else { 0 };
        self.ctes.push(With { names, visible });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.ctes.pop();
        if let Some(around) = self.ctes.last_mut() {
            around.visible = around.names.len().min(around.visible + 1);
        }
        ControlFlow::Continue(())
    }

    // Afterwards, so that what is put there is not visited.
    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, alias, args: None, .. } = &*factor else { return ControlFlow::Continue(()) };
        let Ok(parts) = object_name(name) else { return ControlFlow::Continue(()) };
        let Some(form) = self.form(&parts) else { return ControlFlow::Continue(()) };
        let alias = match alias {
            Some(alias) => alias.to_string(),
            None => quote_ident(parts.last().map_or("", String::as_str)),
        };
        let alias = alias.trim_start_matches("AS ");
        if let Some(relation) = select_from(&format!("{form} AS {alias}"))
            .and_then(|body| body.as_select().and_then(|select| select.from.first().map(|from| from.relation.clone())))
        {
            *factor = relation;
        }
        ControlFlow::Continue(())
    }
}

fn select_from(relation: &str) -> Option<SetExpr> {
    parse_query(&format!("SELECT * FROM {relation}")).ok().map(|query| *query.body)
}
