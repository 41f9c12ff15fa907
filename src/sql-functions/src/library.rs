//! Declarations of functions.

use crate::call::Call;
use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::logical_expr::ColumnarValue;
use engine::error::SqlError;
use repr::{Datum, PgType};
use sql_syntax::types;
use std::hash::{Hash, Hasher};

/// The body of a function.
pub type Body = fn(&Call<'_>, &[Datum<'_>]) -> Result<Datum<'static>, SqlError>;

/// A second body, over whole columns, that gives one of this type: `None` of arguments that it is not for.
pub type ColumnBody = fn(&[ColumnarValue], &DataType) -> Result<Option<ArrayRef>, SqlError>;

/// What an argument may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// One type.
    Exact(PgType),
    /// Any type; undecided becomes text.
    Any,
    /// The item type shared by all such arguments.
    Element,
    /// An array of that item type.
    Array,
}

/// How the scale of a numeric result follows from the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumericRule {
    /// As the first argument.
    Same,
    /// No digits after the point.
    Integer,
    /// As many as the second argument says, if it is a constant.
    Digits,
    /// A quotient.
    Quotient,
    /// As the date or time field that the first argument names.
    Field,
    /// Whatever the value has.
    Free,
}

/// What a function gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Returns {
    /// One type.
    Exact(PgType),
    /// A numeric.
    Numeric(NumericRule),
    /// The item type.
    Element,
    /// An array of the item type.
    Array,
    /// Rows of several named columns.
    Columns(Vec<(String, Returns)>),
}

/// One declared function. Two are the same if they have the same number.
#[derive(Debug)]
pub struct Overload {
    /// Its number in the library, which is its identity.
    pub id: usize,
    /// Its name, or an operator's symbol.
    pub name: String,
    /// Its arguments.
    pub args: Vec<Pattern>,
    /// Whether the last argument may repeat.
    pub variadic: bool,
    /// Its result.
    pub returns: Returns,
    /// Whether it gives a set; the body gives its rows as a list, of several columns those of [`Call::column`].
    pub set: bool,
    /// Whether it is NULL whenever an argument is.
    pub strict: bool,
    /// Whether it reads the session.
    pub session: bool,
    /// Whether it gives a new value for each row.
    pub each: bool,
    /// Whether its result may be many times as large as its arguments are, or take much longer than reading them.
    pub long: bool,
    /// Whether no client can call it.
    pub hidden: bool,
    /// The name of the only column of its rows, if an alias of the rows does not name that.
    pub column: Option<String>,
    /// What it computes.
    pub body: Body,
    /// The same of columns, where that is worth it.
    pub column_body: Option<ColumnBody>,
}

impl PartialEq for Overload {
    fn eq(&self, other: &Overload) -> bool {
        self.id == other.id
    }
}

impl Eq for Overload {}

impl Hash for Overload {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

/// Collects declarations.
#[derive(Default)]
pub struct Library {
    overloads: Vec<Overload>,
}

impl Library {
    /// Declares a function: `name(type, …, variadic type) [setof] type [!null] [!session] [!each] [!long] [!hidden]
    /// [!column=name]`. Rows of several columns are `setof (name type, …)`. A set is always `!long`.
    ///
    /// Result types `same`, `integer`, `digits` and `free` after `numeric:` give the scale of a numeric.
    pub fn add(&mut self, declaration: &str, body: Body) {
        let parsed = parse(declaration, body, self.overloads.len());
        self.overloads.push(parsed.unwrap_or_else(|| panic!("a declaration is well formed: {declaration}")));
    }

    /// Gives the function that was declared last a second body, for columns. It gives what the first one does, value by value.
    pub fn has_column_body(&mut self, body: ColumnBody) {
        self.overloads.last_mut().expect("a function was declared").column_body = Some(body);
    }

    /// What was declared so far, each at its number.
    pub fn overloads(&self) -> &[Overload] {
        &self.overloads
    }

    /// What was declared.
    pub fn into_overloads(self) -> Vec<Overload> {
        self.overloads
    }
}

fn parse(declaration: &str, body: Body, id: usize) -> Option<Overload> {
    let open = declaration.find('(')?;
    let close = declaration.find(')')?;
    let (mut args, mut variadic) = (Vec::new(), false);
    for arg in declaration[open + 1..close].split(',').map(str::trim).filter(|arg| !arg.is_empty()) {
        let name = arg.strip_prefix("variadic ");
        variadic = name.is_some();
        args.push(match name.unwrap_or(arg) {
            "any" => Pattern::Any,
            "anyelement" => Pattern::Element,
            "anyarray" => Pattern::Array,
            ty => Pattern::Exact(types::by_name(ty)?),
        });
    }
    let (mut returns, mut set) = (None, false);
    let (mut strict, mut session, mut each, mut long, mut hidden) = (true, false, false, false, false);
    let mut named = None;
    let mut rest = declaration[close + 1..].trim();
    if let Some((columns, after)) = rest.strip_prefix("setof (").and_then(|rest| rest.split_once(')')) {
        let column = |column: &str| {
            let (name, ty) = column.trim().split_once(' ')?;
            Some((name.to_owned(), parse_returns(ty)?))
        };
        returns = Some(Returns::Columns(columns.split(',').map(column).collect::<Option<_>>()?));
        (set, rest) = (true, after);
    }
    for word in rest.split_whitespace() {
        match word {
            "setof" => set = true,
            "!null" => strict = false,
            "!session" => session = true,
            "!each" => each = true,
            "!long" => long = true,
            "!hidden" => hidden = true,
            word => match word.strip_prefix("!column=") {
                Some(column) => named = Some(column.to_owned()),
                None => returns = Some(parse_returns(word)?),
            },
        }
    }
    let name = declaration[..open].trim().to_owned();
    Some(Overload {
        id,
        name,
        args,
        variadic,
        returns: returns?,
        set,
        strict,
        session,
        each,
        long: long || set,
        hidden,
        column: named,
        body,
        column_body: None,
    })
}

fn parse_returns(word: &str) -> Option<Returns> {
    Some(match word {
        "anyelement" => Returns::Element,
        "anyarray" => Returns::Array,
        "numeric:same" => Returns::Numeric(NumericRule::Same),
        "numeric:integer" => Returns::Numeric(NumericRule::Integer),
        "numeric:digits" => Returns::Numeric(NumericRule::Digits),
        "numeric:quotient" => Returns::Numeric(NumericRule::Quotient),
        "numeric:field" => Returns::Numeric(NumericRule::Field),
        "numeric" | "numeric:free" => Returns::Numeric(NumericRule::Free),
        ty => Returns::Exact(types::by_name(ty)?),
    })
}

/// An overload for given arguments.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The function.
    pub overload: &'static Overload,
    /// The type of each argument.
    pub args: Vec<PgType>,
    /// The type of the result; `record` for several columns.
    pub returns: PgType,
    /// The names and types of several columns.
    pub columns: Vec<(String, PgType)>,
}
