//! Sequences: what they are made of, the values that they give, and the DEFAULTs that name them.
//!
//! Where a sequence stands is no part of the catalog: it goes on with every value, whatever becomes of the transaction. A
//! DEFAULT names its sequence by the oid (`nextval('20001'::regclass)`), so that it follows when the sequence is renamed, and
//! is shown with the name that the sequence has.

use super::{CatalogView, ItemKind, ItemRef, PlanContext, TableSchema};
use crate::ast::visit::visit_expressions_mut;
use crate::ast::{Bound, Identity, SequenceOptions};
use crate::error::SqlError;
use crate::functions::registry::hidden;
use crate::functions::sequence::nextval_of;
use crate::names::{FullName, Name, resolve_item, unknown_relation};
use crate::parser::parse_expr;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Expr;
use repr::sqlstate::SqlState;
use repr::{GlobalId, PgType, RelationDesc};
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

/// A sequence's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceDef {
    /// Which values it gives.
    pub params: SequenceParams,
    /// The column with which it goes.
    pub owner: Option<SequenceOwner>,
}

/// The column that owns a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceOwner {
    /// Its table.
    pub table: GlobalId,
    /// Its position.
    pub column: usize,
    /// Whether it is an identity column.
    pub identity: Option<Identity>,
}

/// Which values a sequence gives.
///
/// # Invariants
/// - `min < max`, both in the range of the type; `start` is between them; `increment` is not 0, `cache` at least 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceParams {
    /// `int2`, `int4` or `int8`.
    pub ty: PgType,
    /// The first value.
    pub start: i64,
    /// What is added for the next.
    pub increment: i64,
    /// The smallest value.
    pub min: i64,
    /// The largest value.
    pub max: i64,
    /// As many values a session of Postgres takes at once. Here all sessions take theirs from one reserve.
    pub cache: i64,
    /// Whether it begins again where it has ended.
    pub cycle: bool,
}

/// Where a sequence stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The last value, or the one to be given first.
    pub last: i64,
    /// Which of the two.
    pub is_called: bool,
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

impl SequenceParams {
    /// What CREATE SEQUENCE makes of its options, without a type a sequence of `ty`. Errors: 22023.
    pub fn new(options: &SequenceOptions, ty: PgType) -> Result<SequenceParams, SqlError> {
        SequenceParams::resolve(options, None, ty)
    }

    /// The same with other options. What they do not say stays, as far as it goes with the type. Errors: 22023.
    pub fn altered(&self, options: &SequenceOptions) -> Result<SequenceParams, SqlError> {
        SequenceParams::resolve(options, Some(self), self.ty.clone())
    }

    fn resolve(
        options: &SequenceOptions,
        old: Option<&SequenceParams>,
        ty: PgType,
    ) -> Result<SequenceParams, SqlError> {
        let ty = options.ty.clone().unwrap_or(ty);
        let (low, high) =
            range(&ty).ok_or_else(|| invalid("sequence type must be smallint, integer, or bigint".to_owned()))?;
        let increment = options.increment.or(old.map(|old| old.increment)).unwrap_or(1);
        if increment == 0 {
            return Err(invalid("INCREMENT must not be zero".to_owned()));
        }
        // What was the type's own bound becomes that of the new type.
        let old_range = old.and_then(|old| range(&old.ty));
        let is_new_type = options.ty.is_some();
        let kept = |of: fn(&SequenceParams) -> i64, own: Option<i64>| {
            old.map(of).filter(|bound| !(is_new_type && own == Some(*bound)))
        };
        let max = match options.max {
            Some(Bound::At(max)) => max,
            given => {
                let kept = kept(|old| old.max, old_range.map(|(_, high)| high)).filter(|_| given.is_none());
                kept.unwrap_or(if increment > 0 { high } else { -1 })
            }
        };
        let min = match options.min {
            Some(Bound::At(min)) => min,
            given => {
                let kept = kept(|old| old.min, old_range.map(|(low, _)| low)).filter(|_| given.is_none());
                kept.unwrap_or(if increment > 0 { 1 } else { low })
            }
        };
        for (what, bound) in [("MAXVALUE", max), ("MINVALUE", min)] {
            if !(low..=high).contains(&bound) {
                return Err(invalid(format!("{what} ({bound}) is out of range for sequence data type {}", ty.name())));
            }
        }
        if min >= max {
            return Err(invalid(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})")));
        }
        let first = if increment > 0 { min } else { max };
        let start = options.start.or(old.map(|old| old.start)).unwrap_or(first);
        check_between("START", start, min, max)?;
        let cache = options.cache.or(old.map(|old| old.cache)).unwrap_or(1);
        if cache <= 0 {
            return Err(invalid(format!("CACHE ({cache}) must be greater than zero")));
        }
        let cycle = options.cycle.or(old.map(|old| old.cycle)).unwrap_or(false);
        Ok(SequenceParams { ty, start, increment, min, max, cache, cycle })
    }

    /// Where it stands before it has given a value.
    pub fn first(&self) -> Position {
        Position { last: self.start, is_called: false }
    }

    /// Errors: 22023 if it cannot stand at this value.
    pub fn check_restart(&self, value: i64) -> Result<(), SqlError> {
        check_between("RESTART", value, self.min, self.max)
    }

    /// Where it stands after the next value, which is the last one then; `None` if there is none.
    pub fn next(&self, from: Position) -> Option<Position> {
        let at = |last| Some(Position { last, is_called: true });
        if !from.is_called {
            return at(from.last);
        }
        let next = from.last.checked_add(self.increment);
        match next.filter(|next| if self.increment > 0 { *next <= self.max } else { *next >= self.min }) {
            Some(next) => at(next),
            None if self.cycle => at(if self.increment > 0 { self.min } else { self.max }),
            None => None,
        }
    }

    /// Where it stands after at most `count` values, of which only the first may begin again, and how many these are;
    /// `None` if there are none.
    pub fn advance(&self, from: Position, count: u64) -> Option<(Position, u64)> {
        let first = self.next(from)?;
        let distance = if self.increment > 0 { self.max.abs_diff(first.last) } else { first.last.abs_diff(self.min) };
        let steps = count.saturating_sub(1).min(distance / self.increment.unsigned_abs());
        // No overflow: it stays between the bounds.
        let moved = i128::from(first.last) + i128::from(steps) * i128::from(self.increment);
        let last = i64::try_from(moved).unwrap_or(first.last);
        Some((Position { last, is_called: true }, steps + 1))
    }

    /// How DDL writes it, as far as it is not what it would be anyway.
    pub fn sql(&self) -> String {
        let SequenceParams { ty, start, increment, min, max, cache, cycle } = self;
        let cycle = if *cycle { "CYCLE" } else { "NO CYCLE" };
        format!(
            "AS {} START WITH {start} INCREMENT BY {increment} MINVALUE {min} MAXVALUE {max} CACHE {cache} {cycle}",
            ty.name()
        )
    }
}

fn invalid(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn check_between(what: &str, value: i64, min: i64, max: i64) -> Result<(), SqlError> {
    if value < min {
        return Err(invalid(format!("{what} value ({value}) cannot be less than MINVALUE ({min})")));
    }
    if value > max {
        return Err(invalid(format!("{what} value ({value}) cannot be greater than MAXVALUE ({max})")));
    }
    Ok(())
}

/// The values of a type that a sequence can have.
fn range(ty: &PgType) -> Option<(i64, i64)> {
    match ty {
        PgType::Int2 => Some((i16::MIN.into(), i16::MAX.into())),
        PgType::Int4 => Some((i32::MIN.into(), i32::MAX.into())),
        PgType::Int8 => Some((i64::MIN, i64::MAX)),
        _ => None,
    }
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
    use super::{Position, SequenceParams, named_in, shown};
    use crate::ast::{Bound, SequenceOptions};
    use repr::PgType;

    fn params(options: &SequenceOptions) -> SequenceParams {
        SequenceParams::new(options, PgType::Int8).expect("the options are sound")
    }

    fn at(last: i64) -> Position {
        Position { last, is_called: true }
    }

    #[test]
    fn values_are_given_in_order_and_end() {
        let options = SequenceOptions { max: Some(Bound::At(3)), ..SequenceOptions::default() };
        let three = params(&options);
        assert_eq!(three.next(three.first()), Some(at(1)));
        assert_eq!(three.advance(three.first(), 33), Some((at(3), 3)));
        assert_eq!(three.next(at(3)), None);
        let again = params(&SequenceOptions { cycle: Some(true), ..options });
        assert_eq!(again.next(at(3)), Some(at(1)));
        assert_eq!(again.advance(at(2), 33), Some((at(3), 1)), "only the first value begins again");
        assert_eq!(again.advance(at(3), 2), Some((at(2), 2)));
    }

    #[test]
    fn descending_values_and_the_ends_of_the_type() {
        let down = params(&SequenceOptions { increment: Some(-10), ..SequenceOptions::default() });
        assert_eq!(down.first().last, -1);
        assert_eq!(down.advance(down.first(), 3), Some((at(-21), 3)));
        assert_eq!(down.next(at(i64::MIN + 3)), None);
        let up = params(&SequenceOptions::default());
        assert_eq!(up.next(at(i64::MAX)), None);
        assert_eq!(up.advance(at(i64::MAX - 5), 100), Some((at(i64::MAX), 5)));
    }

    #[test]
    fn defaults_are_shown_by_name() {
        let default = "nextval('20001'::regclass)";
        assert_eq!(named_in(default), [20_001]);
        assert_eq!(shown(default, |_| Some("s.t_seq".to_owned())), "nextval('s.t_seq'::regclass)");
        assert_eq!(shown("1 + 1", |_| None), "1 + 1");
        assert!(named_in("'20001'::regclass").is_empty());
    }
}
