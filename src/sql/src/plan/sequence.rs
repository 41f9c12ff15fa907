//! CREATE and ALTER SEQUENCE, and the DEFAULTs that name sequences.
//!
//! A DEFAULT names its sequence by the oid (`nextval('20001'::regclass)`), so that it follows when the sequence is renamed, and is shown with
//! the name that the sequence has.

use super::{CatalogView, ItemKind, ItemRef, PlanContext, TableSchema};
use crate::names::{resolve_item, unknown_relation};
use crate::sequence::{SequenceDef, SequenceOwner, SequenceParams};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Expr;
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use repr::{GlobalId, PgType, RelationDesc};
use sql_functions::registry::hidden;
use sql_functions::sequence::nextval_of;
use sql_syntax::ast::Identity;
use sql_syntax::ast::visit::visit_expressions_mut;
use sql_syntax::names::{FullName, Name};
use sql_syntax::parser::parse_expr;
use sqlparser::ast as sp;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

/// The functions whose first argument is a sequence.
const FUNCTIONS: [&str; 3] = ["nextval", "currval", "setval"];

/// The columns that a sequence has as a relation.
pub static COLUMNS: LazyLock<Arc<RelationDesc>> = LazyLock::new(|| {
    let column = |name: &str, ty| (name.to_owned(), ty, false);
    Arc::new(RelationDesc::new([
        column("last_value", PgType::Int8),
        column("log_cnt", PgType::Int8),
        column("is_called", PgType::Bool),
    ]))
});

/// CREATE SEQUENCE.
#[derive(Clone, Debug)]
pub struct CreateSequencePlan {
    /// In which schema.
    pub schema: TableSchema,
    /// Its full name.
    pub name: FullName,
    /// What it is.
    pub sequence: SequenceDef,
    /// Whether IF NOT EXISTS was given, should the name be taken meanwhile.
    pub if_not_exists: bool,
}

/// ALTER SEQUENCE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterSequencePlan {
    /// Which sequence.
    pub id: GlobalId,
    /// What it is then.
    pub sequence: SequenceDef,
    /// The value that it gives next, if it begins again.
    pub restart: Option<i64>,
}

/// A sequence that comes with a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSequence {
    /// Its name, in the table's schema.
    pub name: String,
    /// Which values it gives.
    pub params: SequenceParams,
    /// Whether the column is an identity column.
    pub identity: Option<Identity>,
}

/// The DEFAULT of a column whose values are those of a sequence.
pub fn default_sql(sequence: u32) -> String {
    format!("nextval('{sequence}'::regclass)")
}

/// The sequence that is owned by a column of a table.
pub fn owned_by(catalog: &dyn CatalogView, table: GlobalId, column: usize) -> Vec<(Arc<ItemRef>, SequenceOwner)> {
    let owned = owned_sequences(catalog, table).into_iter();
    owned.filter(|(_, owner)| owner.column == column).collect()
}

/// The sequences that are owned by columns of a table, in order of id.
pub fn owned_sequences(catalog: &dyn CatalogView, table: GlobalId) -> Vec<(Arc<ItemRef>, SequenceOwner)> {
    let dependents = catalog.dependents(table).into_iter().filter_map(|id| catalog.item(id));
    let owner = |item: Arc<ItemRef>| match &item.kind {
        ItemKind::Sequence(SequenceDef { owner: Some(owner), .. }) if owner.table == table => {
            let owner = *owner;
            Some((item, owner))
        }
        _ => None,
    };
    dependents.filter_map(owner).collect()
}

/// Whether a column is an identity column, and of which kind.
pub fn identity(catalog: &dyn CatalogView, table: GlobalId, column: usize) -> Option<Identity> {
    owned_by(catalog, table, column).into_iter().find_map(|(_, owner)| owner.identity)
}

/// The DEFAULT of an identity column, for which nobody needs privileges on its sequence.
pub(super) fn of_identity(default: sp::Expr) -> sp::Expr {
    match default {
        sp::Expr::Function(call) if call.name.to_string() == "nextval" => {
            let name = vec![sp::Ident::with_quote('"', hidden("nextval_of_identity"))];
            sp::Expr::Function(sp::Function { name: sp::ObjectName::from(name), ..call })
        }
        other => other,
    }
}

/// An expression in which sequences are named by their oids. Errors: 42P01.
pub(super) fn by_oid(ctx: &PlanContext<'_>, expr: &sp::Expr) -> Result<sp::Expr, SqlError> {
    let mut changed = expr.clone();
    let visited = visit_expressions_mut(&mut changed, |expr| match sequence_argument(expr) {
        Some(argument) => match named(argument) {
            Some(text) if text.parse::<u32>().is_err() => match oid_of(ctx, &text) {
                Ok(oid) => {
                    *argument = regclass(&oid.to_string());
                    ControlFlow::Continue(())
                }
                Err(error) => ControlFlow::Break(error),
            },
            _ => ControlFlow::Continue(()),
        },
        None => ControlFlow::Continue(()),
    });
    match visited {
        ControlFlow::Continue(()) => Ok(changed),
        ControlFlow::Break(error) => Err(error),
    }
}

fn oid_of(ctx: &PlanContext<'_>, text: &str) -> Result<u32, SqlError> {
    let parts =
        crate::vars::split_qualified(text).ok_or_else(|| SqlError::new(SqlState("42602"), "invalid name syntax"))?;
    let name = Name { parts };
    Ok(resolve_item(ctx.catalog, ctx.scope(), &name)?.ok_or_else(|| unknown_relation(&name))?.oid)
}

/// The first argument of a call of a function of sequences.
fn sequence_argument(expr: &mut sp::Expr) -> Option<&mut sp::Expr> {
    let sp::Expr::Function(call) = expr else { return None };
    let name = call.name.to_string().to_lowercase();
    if !FUNCTIONS.contains(&name.trim_start_matches("pg_catalog.")) {
        return None;
    }
    let sp::FunctionArguments::List(list) = &mut call.args else { return None };
    match list.args.first_mut()? {
        sp::FunctionArg::Unnamed(sp::FunctionArgExpr::Expr(argument)) => Some(argument),
        _ => None,
    }
}

/// The text of a constant, perhaps one that is cast to `regclass`.
fn named(expr: &sp::Expr) -> Option<String> {
    match expr {
        sp::Expr::Value(value) => match &value.value {
            sp::Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        sp::Expr::Cast { expr, data_type, .. } if data_type.to_string().eq_ignore_ascii_case("regclass") => named(expr),
        _ => None,
    }
}

/// `'name'::regclass`, as Postgres prints it.
fn regclass(name: &str) -> sp::Expr {
    let constant = sp::Value::SingleQuotedString(name.to_owned());
    sp::Expr::Cast {
        kind: sp::CastKind::DoubleColon,
        expr: Box::new(sp::Expr::value(constant)),
        data_type: sp::DataType::Custom(sp::ObjectName::from(vec![sp::Ident::new("regclass")]), Vec::new()),
        array: false,
        format: None,
    }
}

/// The oids of the sequences that a DEFAULT names.
pub fn named_in(default: &str) -> Vec<u32> {
    let mut oids = Vec::new();
    if !default.contains("::regclass") {
        return oids;
    }
    let Ok(mut expr) = parse_expr(default) else { return oids };
    let _done = visit_expressions_mut(&mut expr, |expr| {
        oids.extend(sequence_argument(expr).and_then(|argument| named(argument)?.parse::<u32>().ok()));
        ControlFlow::<()>::Continue(())
    });
    oids
}

/// A DEFAULT with the names that its sequences have; `name_of` knows these.
pub fn shown(default: &str, name_of: impl Fn(u32) -> Option<String>) -> String {
    if named_in(default).is_empty() {
        return default.to_owned();
    }
    let Ok(mut expr) = parse_expr(default) else { return default.to_owned() };
    let _done = visit_expressions_mut(&mut expr, |expr| {
        if let Some(argument) = sequence_argument(expr)
            && let Some(name) = named(argument).and_then(|text| name_of(text.parse().ok()?))
        {
            *argument = regclass(&name);
        }
        ControlFlow::<()>::Continue(())
    });
    expr.to_string()
}

/// The tables whose DEFAULTs name a sequence, with the columns.
pub fn defaults_naming(catalog: &dyn CatalogView, oid: u32) -> Vec<(Arc<ItemRef>, usize)> {
    let schemas = catalog.databases().into_iter().flat_map(|database| catalog.schemas(Some(database.id)));
    let mut found = Vec::new();
    for table in schemas.flat_map(|schema| catalog.items(schema.id)) {
        let ItemKind::Table { defaults, .. } = &table.kind else { continue };
        let naming = defaults.iter().enumerate().filter_map(|(at, default)| Some((at, default.as_ref()?)));
        let naming = naming.filter(|(_, default)| named_in(default).contains(&oid));
        let naming: Vec<usize> = naming.map(|(column, _)| column).collect();
        found.extend(naming.into_iter().map(|column| (Arc::clone(&table), column)));
    }
    found
}

/// How many values of which sequences expressions take: by oid. What is no constant is not counted.
pub fn values_taken<'e>(exprs: impl IntoIterator<Item = &'e Expr>) -> BTreeMap<u32, u64> {
    let mut taken = BTreeMap::new();
    for expr in exprs {
        let _done = expr.apply(|expr| {
            if let Some(oid) = nextval_of(expr).flatten() {
                *taken.entry(oid).or_default() += 1;
            }
            Ok(TreeNodeRecursion::Continue)
        });
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::{named_in, shown};

    #[test]
    fn defaults_are_shown_by_name() {
        let default = "nextval('20001'::regclass)";
        assert_eq!(named_in(default), [20_001]);
        assert_eq!(shown(default, |_| Some("s.t_seq".to_owned())), "nextval('s.t_seq'::regclass)");
        assert_eq!(shown("1 + 1", |_| None), "1 + 1");
        assert!(named_in("'20001'::regclass").is_empty());
    }
}
