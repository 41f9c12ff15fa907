//! Random queries over cubes: each gives the same rows from the index on its view, ad hoc, and from PostgreSQL, which is asked what it means
//! over the tables; before and after random changes.
//!
//! What PostgreSQL is asked says what a measure is in the plainest way there is: for each measure the rows of its own table that belong to
//! a group, each once, by DISTINCT; all joins are made. `CUBE_QUERIES_SEED=n` begins with that round, `CUBE_QUERIES=n` makes so many.

use glimpse_test::amount;
use glimpse_test::choices::Choices;
use glimpse_test::views::{Comparison, View, say, setting};
use std::collections::BTreeSet;

const TABLES: &str = include_str!("../cubes/tables.sql");
const MODEL: &str = include_str!("../cubes/shop.yml");

const QUERIES: u64 = 250;
const SEED: u64 = 1;
/// Views that are maintained at the same time.
const ROUND: u64 = 25;
const BATCHES: usize = 2;

/// A table by its alias, and how it is joined to those before it.
const JOINS: [(char, &str); 5] = [
    ('o', "raw.orders o"),
    ('c', "LEFT JOIN raw.customers c ON c.id = o.customer_id AND c.id > 0"),
    ('i', "LEFT JOIN raw.items i ON i.order_id = o.id"),
    ('p', "LEFT JOIN raw.products p ON p.name = i.product"),
    ('y', "LEFT JOIN raw.payments y ON y.order_id = o.id"),
];

const SIZE: &str = "CASE WHEN o.amount > 500 THEN 'large' WHEN o.amount > 100 THEN 'middle' ELSE 'small' END";

/// A dimension of the view `sales`, and what it is over the tables that it needs.
const DIMENSIONS: [(&str, &str, &str); 9] = [
    ("status", "o.status", "o"),
    ("city", "c.city", "oc"),
    ("customers_city", "c.city", "oc"),
    ("product", "i.product", "oi"),
    ("maker", "p.maker", "oip"),
    ("size", SIZE, "o"),
    ("amount", "o.amount", "o"),
    (
        "is_large",
        "(CASE WHEN o.amount > 500 THEN 'large' WHEN o.amount > 100 THEN 'middle' ELSE 'small' END = 'large')",
        "o",
    ),
    ("month", "date_trunc('month', o.placed_at)", "o"),
];

/// A measure, the table whose rows it counts, its columns of a row, the aggregate over these, and what it needs beside its own table. `FILTER`
/// stands where a condition on rows goes.
const MEASURES: [(&str, char, &str, &str, &str); 15] = [
    ("count", 'o', "o.id", "count(id) FILTER", ""),
    ("total", 'o', "o.id, o.amount", "sum(amount) FILTER", ""),
    ("average", 'o', "o.id, o.amount", "avg(amount) FILTER", ""),
    ("smallest", 'o', "o.id, o.amount", "min(amount) FILTER", ""),
    ("latest", 'o', "o.id, o.placed_at", "max(placed_at) FILTER", ""),
    ("buyers", 'o', "o.id, o.customer_id", "count(DISTINCT customer_id) FILTER", ""),
    (
        "paid",
        'o',
        "o.id, o.status, o.amount",
        "sum(CASE WHEN status = 'paid' AND amount > 50 THEN amount END) FILTER",
        "",
    ),
    ("paid_count", 'o', "o.id, o.status", "count(CASE WHEN status = 'paid' THEN 1 END) FILTER", ""),
    (
        "share",
        'o',
        "o.id, o.status, o.amount",
        "sum(CASE WHEN status = 'paid' AND amount > 50 THEN amount END) FILTER / nullif(sum(amount) FILTER, 0)",
        "",
    ),
    ("median", 'o', "o.id, o.amount", "percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) FILTER", ""),
    ("customers_n", 'c', "c.id", "count(id) FILTER", "c"),
    ("customers_credit", 'c', "c.id, c.credit", "sum(credit) FILTER", "c"),
    ("quantity", 'i', "i.id, i.quantity", "sum(quantity) FILTER", "i"),
    ("revenue", 'i', "i.id, i.quantity, p.price", "sum(quantity * price) FILTER", "ip"),
    ("received", 'y', "y.id, y.amount", "sum(amount) FILTER", "y"),
];

/// A condition in SQL over the view, the same over the tables that it needs, and in Cube's JSON.
const CONDITIONS: [(&str, &str, &str, &str); 10] = [
    (
        "status = 'paid'",
        "o.status = 'paid'",
        "o",
        r#"{"member": "sales.status", "operator": "equals", "values": ["paid"]}"#,
    ),
    ("status IS NULL", "o.status IS NULL", "o", r#"{"member": "sales.status", "operator": "notSet"}"#),
    (
        "NOT is_large",
        "o.amount IS DISTINCT FROM NULL AND NOT o.amount > 500 OR o.amount IS NULL",
        "o",
        r#"{"member": "sales.size", "operator": "notEquals", "values": ["large"]}"#,
    ),
    (
        "(city = 'Bern' OR city IS NULL)",
        "(c.city = 'Bern' OR c.city IS NULL)",
        "oc",
        r#"{"member": "sales.customers_city", "operator": "equals", "values": ["Bern", null]}"#,
    ),
    (
        "city ILIKE '%er%'",
        "c.city ILIKE '%er%'",
        "oc",
        r#"{"member": "sales.city", "operator": "contains", "values": ["eR"]}"#,
    ),
    (
        "product IN ('apple', 'nut')",
        "i.product IN ('apple', 'nut')",
        "oi",
        r#"{"member": "sales.product", "operator": "in", "values": ["apple", "nut"]}"#,
    ),
    (
        "(maker <> 'Hans' OR maker IS NULL)",
        "(p.maker <> 'Hans' OR p.maker IS NULL)",
        "oip",
        r#"{"member": "sales.maker", "operator": "notEquals", "values": ["Hans"]}"#,
    ),
    (
        "amount >= 250.5",
        "o.amount >= 250.5",
        "o",
        r#"{"member": "sales.amount", "operator": "gte", "values": ["250.5"]}"#,
    ),
    (
        "placed_at >= '2023-12-01 00:00+00' AND placed_at < '2024-02-01 00:00+00'",
        "o.placed_at >= '2023-12-01 00:00+00' AND o.placed_at < '2024-02-01 00:00+00'",
        "o",
        r#"{"member": "sales.placed_at", "operator": "inDateRange", "values": ["2023-12-01", "2024-01-31"]}"#,
    ),
    ("amount IS NOT NULL", "o.amount IS NOT NULL", "o", r#"{"member": "sales.amount", "operator": "set"}"#),
];

/// A query: positions in the lists above.
struct Query {
    dimensions: Vec<usize>,
    /// With a condition for FILTER.
    measures: Vec<(usize, Option<usize>)>,
    conditions: Vec<usize>,
    /// Whether one of the conditions is enough.
    is_any: bool,
    /// A condition on the first measure.
    having: bool,
    form: Form,
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Plain,
    /// Through a sub-query that has all columns.
    Nested,
    Json,
}

fn distinct(choices: &mut Choices, max: usize, of: usize) -> Vec<usize> {
    let count = choices.pick(max + 1);
    let mut picked: Vec<usize> = Vec::new();
    for _ in 0..count {
        let next = choices.pick(of);
        if !picked.contains(&next) {
            picked.push(next);
        }
    }
    picked
}

fn generate(choices: &mut Choices) -> Query {
    let form = choices.of(&[Form::Plain, Form::Nested, Form::Json]);
    let dimensions = distinct(choices, 3, DIMENSIONS.len());
    let mut measures = distinct(choices, 4, MEASURES.len());
    if measures.is_empty() && dimensions.is_empty() {
        measures.push(choices.pick(MEASURES.len()));
    }
    let measures = measures.into_iter().map(|measure| {
        let filter = (form != Form::Json && choices.chance(15)).then(|| choices.pick(CONDITIONS.len()));
        (measure, filter)
    });
    let measures: Vec<_> = measures.collect();
    let conditions = distinct(choices, 2, CONDITIONS.len());
    let (is_any, having) = (choices.chance(40), choices.chance(20) && !measures.is_empty());
    Query { dimensions, measures, conditions, is_any, having, form }
}

/// Times of a query in JSON are local ones.
fn zoned(column: &str) -> &'static str {
    if column == "month" { " AT TIME ZONE 'UTC'" } else { "" }
}

impl Query {
    /// Over the cubes. A measure that is compared is a number.
    fn asked(&self) -> String {
        let names = self.names();
        if self.form == Form::Json {
            let member = |name: &str| format!("\"sales.{name}\"");
            let list = |names: Vec<String>| names.join(", ");
            let dimensions = self.dimensions.iter().map(|at| member(DIMENSIONS[*at].0)).collect();
            let measures = self.measures.iter().map(|(at, _)| member(MEASURES[*at].0)).collect();
            let conditions: Vec<&str> = self.conditions.iter().map(|at| CONDITIONS[*at].3).collect();
            let mut filters = match (self.is_any, conditions.is_empty()) {
                (true, false) => vec![format!("{{\"or\": [{}]}}", conditions.join(", "))],
                _ => conditions.into_iter().map(str::to_owned).collect(),
            };
            if self.having {
                let measure = MEASURES[self.measures[0].0].0;
                filters.push(format!("{{\"member\": \"sales.{measure}\", \"operator\": \"set\"}}"));
            }
            let query = format!(
                "{{\"dimensions\": [{}], \"measures\": [{}], \"filters\": [{}], \"order\": []}}",
                list(dimensions),
                list(measures),
                filters.join(", ")
            );
            let columns = self.dimensions.iter().map(|at| DIMENSIONS[*at].0);
            let columns = columns.chain(self.measures.iter().map(|(at, _)| MEASURES[*at].0));
            let columns: Vec<String> = columns
                .zip(&names)
                .map(|(column, name)| format!("\"sales.{column}\"{} AS {name}", zoned(column)))
                .collect();
            return format!("SELECT {} FROM cube_load('{query}')", columns.join(", "));
        }
        let keys: Vec<&str> = self.dimensions.iter().map(|at| DIMENSIONS[*at].0).collect();
        let measure = |(at, filter): &(usize, Option<usize>)| {
            let filter = filter.map(|at| format!(" FILTER (WHERE {})", CONDITIONS[at].0));
            format!("MEASURE({}){}", MEASURES[*at].0, filter.unwrap_or_default())
        };
        let measures: Vec<String> = self.measures.iter().map(measure).collect();
        let columns = keys.iter().map(|key| (*key).to_owned()).chain(measures.clone());
        let columns: Vec<String> = columns.zip(&names).map(|(column, name)| format!("{column} AS {name}")).collect();
        let from = if self.form == Form::Nested { "(SELECT * FROM sales) s" } else { "sales" };
        let mut sql = format!("SELECT {} FROM {from}", columns.join(", "));
        if let Some(condition) = self.condition(|at| CONDITIONS[at].0) {
            sql += &format!(" WHERE {condition}");
        }
        if !keys.is_empty() {
            sql += &format!(" GROUP BY {}", keys.join(", "));
        }
        if self.having {
            sql += &format!(" HAVING {} IS NOT NULL", measures[0]);
        }
        sql
    }

    fn names(&self) -> Vec<String> {
        (0..self.dimensions.len() + self.measures.len()).map(|at| format!("c{at}")).collect()
    }

    fn condition(&self, form: impl Fn(usize) -> &'static str) -> Option<String> {
        let all: Vec<String> = self.conditions.iter().map(|at| format!("({})", form(*at))).collect();
        (!all.is_empty()).then(|| all.join(if self.is_any { " OR " } else { " AND " }))
    }

    /// FROM and WHERE with what keys, conditions and something else need.
    fn rows(&self, more: &str) -> String {
        let needed = self.dimensions.iter().map(|at| DIMENSIONS[*at].2);
        let needed = needed.chain(self.conditions.iter().map(|at| CONDITIONS[*at].2)).chain([more, "o"]);
        let needed: BTreeSet<char> = needed.flat_map(str::chars).collect();
        let joins: Vec<&str> =
            JOINS.iter().filter(|(alias, _)| needed.contains(alias)).map(|(_, join)| *join).collect();
        let condition = self.condition(|at| CONDITIONS[at].1).map(|condition| format!(" WHERE {condition}"));
        format!("FROM {}{}", joins.join(" "), condition.unwrap_or_default())
    }

    /// Over the tables.
    fn meant(&self) -> String {
        let keys: Vec<String> = (0..self.dimensions.len()).map(|at| format!("k{at}")).collect();
        let named = self.dimensions.iter().zip(&keys).map(|(at, key)| format!("{} AS {key}", DIMENSIONS[*at].1));
        let named: Vec<String> = named.collect();
        let groups = match keys.is_empty() {
            true => "(SELECT 1 AS one) g".to_owned(),
            false => format!("(SELECT DISTINCT {} {}) g", named.join(", "), self.rows("")),
        };
        let mut from = groups;
        for (number, (at, filter)) in self.measures.iter().enumerate() {
            let (_, _, columns, aggregate, more) = MEASURES[*at];
            let more = format!("{more}{}", filter.map_or("", |at| CONDITIONS[at].2));
            let passes = filter.map(|at| format!(", ({}) AS passes", CONDITIONS[at].1)).unwrap_or_default();
            let filter = if filter.is_some() { "FILTER (WHERE passes)" } else { "" };
            let aggregate = aggregate.replace("FILTER", filter);
            let list = |more: &str| named.iter().map(String::as_str).chain([more]).collect::<Vec<_>>().join(", ");
            let rows = format!("SELECT DISTINCT {}{passes} {}", list(columns), self.rows(&more));
            let grouped = if keys.is_empty() { String::new() } else { format!(" GROUP BY {}", keys.join(", ")) };
            let columns: Vec<&str> = keys.iter().map(String::as_str).collect();
            let columns = columns.into_iter().chain([aggregate.as_str()]).collect::<Vec<_>>().join(", ");
            let on: Vec<String> =
                keys.iter().map(|key| format!("g.{key} IS NOT DISTINCT FROM m{number}.{key}")).collect();
            let on = if on.is_empty() { "true".to_owned() } else { on.join(" AND ") };
            let names: Vec<String> = keys.iter().cloned().chain(["v".to_owned()]).collect();
            from += &format!(
                " LEFT JOIN (SELECT {columns} FROM ({rows}) x{grouped}) m{number} ({}) ON {on}",
                names.join(", ")
            );
        }
        let columns = keys.iter().map(|key| format!("g.{key}"));
        let columns: Vec<String> = columns.chain((0..self.measures.len()).map(|at| format!("m{at}.v"))).collect();
        let having = if self.having { " WHERE m0.v IS NOT NULL" } else { "" };
        format!("SELECT {} FROM {from}{having}", columns.join(", "))
    }
}

/// A change of the tables.
fn change(choices: &mut Choices) -> String {
    let id = choices.pick(60);
    match choices.pick(9) {
        0 => format!("DELETE FROM raw.orders WHERE id % 60 = {id}"),
        1 => format!("UPDATE raw.orders SET status = 'paid', amount = amount + {id} WHERE id % 40 = {}", id % 40),
        2 => format!(
            "INSERT INTO raw.orders SELECT max(id) + 1, {id}, 'open', {id} * 20.5, timestamptz '2023-12-30 00:00+00' + {id} * interval '1 day' FROM raw.orders"
        ),
        3 => format!("UPDATE raw.orders SET customer_id = {id}, placed_at = NULL WHERE id % 50 = {}", id % 50),
        4 => format!("INSERT INTO raw.items SELECT max(id) + 1, {id}, 'apple', {id} FROM raw.items"),
        5 => format!("DELETE FROM raw.items WHERE id % 30 = {}", id % 30),
        6 => format!("UPDATE raw.products SET price = price + {id}, maker = 'Anna' WHERE name = 'pear'"),
        7 => format!("UPDATE raw.customers SET city = 'Bern', credit = NULL WHERE id % 20 = {}", id % 20),
        _ => format!("UPDATE raw.payments SET order_id = {id} WHERE id % 25 = {}", id % 25),
    }
}

#[test]
fn random_queries_over_cubes_agree() {
    let seed: u64 = setting("CUBE_QUERIES_SEED").unwrap_or(SEED);
    let rounds = setting("CUBE_QUERIES").unwrap_or_else(|| amount(QUERIES)).div_ceil(ROUND);
    let mut both = Comparison::start().expect("servers");
    for sql in TABLES.split(";\n").filter(|sql| !sql.trim().is_empty()) {
        both.execute(sql).expect("a table");
    }
    both.glimpse.execute(&format!("CREATE SEMANTIC MODEL shop AS $${MODEL}$$")).expect("the model");
    let (mut compared, mut maintained, mut rows) = (0, 0, 0);
    for round in seed..seed + rounds {
        let mut choices = Choices::random(round);
        let views: Vec<View> = (0..ROUND)
            .map(|number| {
                let query = generate(&mut choices);
                View { name: format!("v{number}"), query: query.asked(), referee: Some(query.meant()) }
            })
            .collect();
        for view in &views {
            match both.create(view) {
                Ok(()) => maintained += 1,
                // What depends on the session's time zone is not maintained, whatever it is over.
                Err(error) if format!("{error:#}").contains("date_trunc() in a maintained view") => {}
                Err(error) => panic!("CUBE_QUERIES_SEED={round}: {error:#}"),
            }
        }
        for batch in 0..=BATCHES {
            if batch > 0 {
                for _ in 0..4 {
                    both.execute(&change(&mut choices)).expect("a change");
                }
            }
            let when = format!("CUBE_QUERIES_SEED={round}, batch {batch}");
            rows += both.compare_all(&views, &when).unwrap_or_else(|error| panic!("{error:#}"));
        }
        compared += views.len();
        for view in &views {
            both.glimpse.execute(&format!("DROP VIEW {} CASCADE", view.name)).expect("a view");
        }
    }
    say(&format!("CUBE_QUERIES_SEED={seed}: {compared} queries compared, {maintained} maintained, {rows} rows"));
    assert!(maintained * 2 > compared, "{maintained} of {compared} are maintained");
}
