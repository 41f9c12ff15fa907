//! All functions that are declared, and the choice among overloads.
//!
//! The choice follows "Function Type Resolution" of Postgres's manual: an exact match, else the candidates that
//! implicit casts can reach, narrowed by exact matches, preferred types and the categories of undecided arguments.

use crate::library::{Choice, Library, Overload, Pattern, Returns};
use crate::types::{self, Category, category, implicitly, is_preferred};
use engine::error::SqlError;
use repr::PgType;
use repr::sqlstate::SqlState;
use repr::types::NUMERIC;
use std::collections::HashMap;
use std::sync::LazyLock;

struct Index {
    overloads: Vec<Overload>,
    by_name: HashMap<String, Vec<usize>>,
}

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let mut library = Library::default();
    super::string::declare(&mut library);
    super::period::declare(&mut library);
    super::bytea::declare(&mut library);
    super::hash::declare(&mut library);
    super::signature::declare(&mut library);
    super::format::declare(&mut library);
    super::pattern::declare(&mut library);
    super::math::declare(&mut library);
    super::numeric::declare(&mut library);
    super::datetime::declare(&mut library);
    super::interval::declare(&mut library);
    super::array::declare(&mut library);
    super::order::declare(&mut library);
    super::ordered_set::declare(&mut library);
    super::regression::declare(&mut library);
    super::json::declare(&mut library);
    super::record::declare(&mut library);
    super::session::declare(&mut library);
    super::sequence::declare(&mut library);
    super::advisory::declare(&mut library);
    super::waiting::declare(&mut library);
    super::catalog::declare(&mut library);
    super::keywords::declare(&mut library);
    let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
    for overload in library.overloads() {
        let name = if overload.hidden { hidden(&overload.name) } else { overload.name.clone() };
        by_name.entry(name).or_default().push(overload.id);
    }
    Index { overloads: library.into_overloads(), by_name }
});

/// The name by which statements that the planner makes can call a hidden function; no client can send it.
pub fn hidden(name: &str) -> String {
    format!("\0{name}")
}

/// Whether a function of that name exists.
pub fn exists(name: &str) -> bool {
    INDEX.by_name.contains_key(name)
}

/// All declared functions.
pub fn all() -> &'static [Overload] {
    &INDEX.overloads
}

/// The first function with this name, hidden or not. Error: XX000.
pub fn internal(name: &str) -> Result<&'static Overload, SqlError> {
    let found = all().iter().find(|overload| overload.name == name);
    found.ok_or_else(|| SqlError::internal(format!("there is no {name}")))
}

/// The overload for these argument types; 42883 or 42725 when there is not exactly one.
pub fn choose(name: &str, actual: &[PgType]) -> Result<Choice, SqlError> {
    let ids = INDEX.by_name.get(name).map(Vec::as_slice).unwrap_or_default();
    let reachable: Vec<Choice> = ids.iter().filter_map(|id| reach(&INDEX.overloads[*id], actual)).collect();
    let bases: Vec<PgType> = actual.iter().map(types::base).collect();
    if let Some(exact) = reachable.iter().find(|choice| choice.args == bases) {
        return Ok(exact.clone());
    }
    match narrow(reachable, &bases) {
        Narrowed::One(choice) => Ok(*choice),
        Narrowed::None => Err(missing(name, actual)),
        Narrowed::Many => Err(ambiguous(name, actual)),
    }
}

enum Narrowed {
    None,
    One(Box<Choice>),
    Many,
}

fn narrow(mut candidates: Vec<Choice>, actual: &[PgType]) -> Narrowed {
    let known = |i: usize| actual[i] != PgType::Unknown;
    let positions = 0..actual.len();
    keep_best(&mut candidates, |choice| {
        positions.clone().filter(|i| known(*i) && choice.args[*i] == actual[*i]).count()
    });
    if candidates.len() > 1 {
        keep_best(&mut candidates, |choice| {
            let good = |i: &usize| {
                let same_category = category(&choice.args[*i]) == category(&actual[*i]);
                choice.args[*i] == actual[*i] || (is_preferred(&choice.args[*i]) && same_category)
            };
            positions.clone().filter(|i| known(*i)).filter(good).count()
        });
    }
    if candidates.len() > 1 {
        for i in positions.clone().filter(|i| !known(*i)) {
            let wanted = candidates.iter().map(|choice| category(&choice.args[i]));
            let chosen = if wanted.clone().any(|c| c == Category::String) {
                Some(Category::String)
            } else {
                let mut wanted = wanted;
                let first = wanted.next();
                first.filter(|first| wanted.all(|other| other == *first))
            };
            let Some(chosen) = chosen else { break };
            let preferred = candidates.iter().any(|c| category(&c.args[i]) == chosen && is_preferred(&c.args[i]));
            candidates.retain(|c| category(&c.args[i]) == chosen && (!preferred || is_preferred(&c.args[i])));
        }
    }
    if candidates.len() > 1 {
        // Let undecided arguments have the type of the decided ones, if those agree.
        let mut decided = positions.clone().filter(|i| known(*i)).map(|i| &actual[i]);
        if let Some(first) = decided.next()
            && decided.all(|ty| ty == first)
            && positions.clone().any(|i| !known(i))
        {
            let same: Vec<Choice> = candidates
                .iter()
                .filter(|choice| choice.args.iter().all(|wanted| implicitly(first, wanted)))
                .cloned()
                .collect();
            if same.len() == 1 {
                candidates = same;
            }
        }
    }
    if candidates.len() > 1 {
        // A function of one type is meant before one of any type.
        let plain = |choice: &Choice| choice.overload.args.iter().all(|arg| matches!(arg, Pattern::Exact(_)));
        if candidates.iter().any(plain) {
            candidates.retain(plain);
        }
    }
    match candidates.len() {
        0 => Narrowed::None,
        1 => candidates.pop().map_or(Narrowed::None, |choice| Narrowed::One(Box::new(choice))),
        _ => Narrowed::Many,
    }
}

fn keep_best(candidates: &mut Vec<Choice>, score: impl Fn(&Choice) -> usize) {
    let best = candidates.iter().map(&score).max().unwrap_or(0);
    candidates.retain(|choice| score(choice) == best);
}

/// The overload applied to these types, if implicit casts can reach it.
fn reach(overload: &'static Overload, actual: &[PgType]) -> Option<Choice> {
    let fixed = overload.args.len();
    let fits = if overload.variadic { actual.len() >= fixed } else { actual.len() == fixed };
    if !fits {
        return None;
    }
    let pattern = |i: usize| &overload.args[i.min(fixed - 1)];
    let mut elements = Vec::new();
    for (i, ty) in actual.iter().enumerate() {
        match (pattern(i), ty) {
            (Pattern::Element, ty) => elements.push(types::base(ty)),
            (Pattern::Array, PgType::Array(item)) => elements.push(types::base(item)),
            (Pattern::Array, PgType::Unknown) => elements.push(PgType::Unknown),
            (Pattern::Array, _) => return None,
            _ => {}
        }
    }
    let element = types::common(&elements, "argument").ok()?;
    if elements.iter().any(|ty| !implicitly(ty, &element)) {
        return None;
    }
    let mut args = Vec::with_capacity(actual.len());
    for (i, ty) in actual.iter().enumerate() {
        args.push(match pattern(i) {
            Pattern::Exact(wanted) if implicitly(ty, wanted) => wanted.clone(),
            Pattern::Exact(_) => return None,
            Pattern::Any if *ty == PgType::Unknown => PgType::Text,
            Pattern::Any => types::base(ty),
            Pattern::Element => element.clone(),
            Pattern::Array => PgType::Array(Box::new(element.clone())),
        });
    }
    let columns = match &overload.returns {
        Returns::Columns(columns) => {
            columns.iter().map(|(name, ty)| (name.clone(), result_type(ty, &element))).collect()
        }
        _ => Vec::new(),
    };
    Some(Choice { overload, args, returns: result_type(&overload.returns, &element), columns })
}

fn result_type(returns: &Returns, element: &PgType) -> PgType {
    match returns {
        Returns::Exact(ty) => ty.clone(),
        Returns::Numeric(_) => NUMERIC,
        Returns::Element => element.clone(),
        Returns::Array => PgType::Array(Box::new(element.clone())),
        Returns::Columns(_) => PgType::Record,
    }
}

/// The argument types as error messages list them.
pub fn type_list(actual: &[PgType]) -> String {
    actual.iter().map(PgType::name).collect::<Vec<_>>().join(", ")
}

fn is_symbol(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

fn missing(name: &str, actual: &[PgType]) -> SqlError {
    let (message, hint) = match (is_symbol(name), actual) {
        (true, [left, right]) => {
            return operator_missing(name, left, right);
        }
        (true, _) => (
            format!("operator does not exist: {name} {}", type_list(actual)),
            "No operator matches the given name and argument type. You might need to add an explicit type cast.",
        ),
        (false, _) => (
            format!("function {name}({}) does not exist", type_list(actual)),
            "No function matches the given name and argument types. You might need to add explicit type casts.",
        ),
    };
    SqlError::new(SqlState::UNDEFINED_FUNCTION, message).with_hint(hint)
}

/// 42883 for a function call.
pub fn function_missing(name: &str, actual: &[PgType]) -> SqlError {
    missing(name, actual)
}

fn ambiguous(name: &str, actual: &[PgType]) -> SqlError {
    let (message, hint) = match (is_symbol(name), actual) {
        (true, [left, right]) => (
            format!("operator is not unique: {} {name} {}", left.name(), right.name()),
            "Could not choose a best candidate operator. You might need to add explicit type casts.",
        ),
        (true, _) => (
            format!("operator is not unique: {name} {}", type_list(actual)),
            "Could not choose a best candidate operator. You might need to add explicit type casts.",
        ),
        (false, _) => (
            format!("function {name}({}) is not unique", type_list(actual)),
            "Could not choose a best candidate function. You might need to add explicit type casts.",
        ),
    };
    SqlError::new(SqlState::AMBIGUOUS_FUNCTION, message).with_hint(hint)
}

/// 42883 for an operator.
pub fn operator_missing(symbol: &str, left: &PgType, right: &PgType) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("operator does not exist: {} {symbol} {}", left.name(), right.name()),
    )
    .with_hint("No operator matches the given name and argument types. You might need to add explicit type casts.")
}

#[cfg(test)]
mod tests {
    use super::choose;
    use repr::PgType;

    #[test]
    fn the_library_is_well_formed() {
        assert!(!super::all().is_empty());
    }

    #[test]
    fn an_undecided_argument_prefers_text() {
        let choice = choose("length", &[PgType::Unknown]).expect("length of text");
        assert_eq!(choice.args, [PgType::Text]);
    }
}
