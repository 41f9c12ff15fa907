//! Random queries, valid by construction, whose answer does not depend on the order in which rows are met.
//!
//! A query is a text made by recursive descent over the forms of SELECT ([`query`], [`from`]) and of expressions ([`expr`]);
//! every expression is asked for by its type. What SQL leaves open is avoided: LIMIT, ROWS frames and numberings come
//! with an order by everything that shows; floats are sums and products of numbers that a float holds exactly.
//!
//! Arithmetic that may fail is drawn too. Which rows it is evaluated for is left open by SQL everywhere but in the select
//! list of the whole query, so a query that has it elsewhere is marked ([`Generated::order_matters`]).

mod call;
mod expr;
mod from;
mod query;
mod schema;
mod select;

use crate::choices::Choices;

pub use schema::{Changes, TABLES, Table, Ty, setup};

/// A random query.
#[derive(Clone, Debug)]
pub struct Generated {
    /// Its text.
    pub sql: String,
    /// Whether it depends on the order of evaluation if it fails.
    pub order_matters: bool,
}

/// Draws a query.
pub fn generate(choices: &mut Choices) -> Generated {
    let mut generator = Generator { choices, fuel: FUEL, names: 0, ctes: Vec::new(), inside: 0, order_matters: false };
    let width = 1 + generator.choices.pick(4);
    let types: Vec<Ty> = (0..width).map(|_| generator.any_type()).collect();
    let sql = generator.query(&types, None);
    Generated { sql, order_matters: generator.order_matters }
}

/// How many relations and subqueries a query has at most, about.
const FUEL: usize = 7;

/// The state of one query's generation.
struct Generator<'c> {
    choices: &'c mut Choices,
    fuel: usize,
    names: usize,
    ctes: Vec<Relation>,
    /// How deep in clauses in which the order of evaluation is open.
    inside: usize,
    order_matters: bool,
}

/// A relation that FROM can name.
#[derive(Clone)]
struct Relation {
    name: String,
    columns: Vec<(String, Ty)>,
}

/// Something that stands for a value where it is in scope.
#[derive(Clone, Debug)]
struct Column {
    /// Its text.
    text: String,
    ty: Ty,
    /// Whether it is a column, which subqueries can refer to, and not a call.
    plain: bool,
}

/// What is in scope, and around it.
#[derive(Clone, Copy)]
struct Scope<'s> {
    columns: &'s [Column],
    outer: Option<&'s Scope<'s>>,
}

impl Generator<'_> {
    fn any_type(&mut self) -> Ty {
        self.choices.of(&schema::TYPES)
    }

    /// A name that nothing else in the query has.
    fn fresh(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    /// Whether there is fuel for another relation or subquery, and the dice say so.
    fn may(&mut self, percent: usize) -> bool {
        self.fuel > 0 && self.choices.chance(percent)
    }
}
