//! What a query is said to read: the columns that its text refers to, and never less than its plan takes from a relation.

use datafusion::logical_expr::LogicalPlan;
use engine::error::SqlError;
use engine::reads::{Read, of_plan};
use engine::{Engine, SessionInfo};
use glimpse_sql::bind::{Params, ResolvedTable, TableResolver, plan_query};
use glimpse_sql::dialect::DIALECTS;
use repr::sqlstate::SqlState;
use repr::types::NumericDisplay;
use repr::{GlobalId, PgType, RelationDesc};
use sql_syntax::names::FullName;
use sql_syntax::parser::parse_query;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The tables of `answers.rs`, as collections, and what was read of them.
#[derive(Default)]
struct Tables {
    reads: Mutex<Vec<Read>>,
}

const NAMES: [&str; 3] = ["t", "u", "empty"];

fn desc(table: &str) -> RelationDesc {
    let numeric = PgType::Numeric(NumericDisplay::Declared(10, 2));
    let columns = match table {
        "t" => vec![
            ("a", PgType::Int4),
            ("b", PgType::Int8),
            ("c", PgType::Text),
            ("d", numeric),
            ("e", PgType::Float8),
            ("f", PgType::Date),
            ("g", PgType::Timestamp),
            ("h", PgType::Bool),
        ],
        _ => vec![("a", PgType::Int4), ("s", PgType::Text)],
    };
    RelationDesc::new(columns.into_iter().map(|(name, ty)| (name.to_owned(), ty, true)))
}

fn id(table: &str) -> Option<GlobalId> {
    (1..).zip(NAMES).find(|(_, name)| *name == table).map(|(number, _)| GlobalId::User(number))
}

impl TableResolver for Tables {
    fn resolve(&self, name: &[String]) -> Result<ResolvedTable, SqlError> {
        let table = name.last().map(String::as_str).unwrap_or_default();
        let Some(id) = id(table) else {
            let message = format!("relation \"{}\" does not exist", name.join("."));
            return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
        };
        let desc = Arc::new(desc(table));
        let name = Some(FullName { database: None, schema: "public".to_owned(), item: table.to_owned() });
        Ok(ResolvedTable::Collection {
            name,
            id,
            columns: desc.arity(),
            desc,
            names: Vec::new(),
            primary_key: Vec::new(),
        })
    }

    fn check_reads(&self, reads: &[Read]) -> Result<(), SqlError> {
        self.reads.lock().expect("nobody panics while holding it").extend_from_slice(reads);
        Ok(())
    }
}

/// What a query reads, and its plan.
fn bind(query: &str) -> Result<(Vec<Read>, LogicalPlan), SqlError> {
    let tables = Tables::default();
    let planned = plan_query(&*parse_query(query)?, &tables, &mut Params::none())?;
    Ok((tables.reads.into_inner().expect("nobody panicked"), planned.plan))
}

#[test]
fn what_the_text_refers_to_is_read() {
    let cases = [
        ("SELECT a FROM t WHERE b > 1 ORDER BY c", "t(abc)"),
        ("SELECT count(*) FROM t", "t()"),
        ("SELECT * FROM u", "u(as)"),
        ("TABLE u", "u(as)"),
        ("SELECT x.* FROM t, u AS x", "t() u(as)"),
        ("SELECT q.z FROM t AS q (x, y, z)", "t(c)"),
        ("SELECT count(a) OVER (PARTITION BY b ORDER BY e) FROM t", "t(abe)"),
        ("SELECT max(a) FROM t GROUP BY h HAVING min(b) > 0", "t(abh)"),
        ("SELECT q.a FROM (SELECT a, b FROM t) AS q", "t(ab)"),
        ("WITH q AS (SELECT a, b FROM t) SELECT 1 FROM q", "t(ab)"),
        ("SELECT a FROM t JOIN u USING (a)", "t(a) u(a)"),
        ("SELECT s FROM t NATURAL JOIN u", "t(a) u(as)"),
        ("SELECT 1 FROM t JOIN u ON t.b = u.a", "t(b) u(a)"),
        ("SELECT 1 FROM t AS x, t AS y WHERE x.a = y.b", "t(a) t(b)"),
        ("SELECT a FROM t WHERE EXISTS (SELECT FROM u WHERE u.a = t.b)", "t(ab) u(a)"),
        ("SELECT (SELECT max(s) FROM u) FROM t", "t() u(s)"),
        ("SELECT a FROM t UNION SELECT b FROM t", "t(a) t(b)"),
        // What the plan carries along is not read.
        ("SELECT i FROM t, generate_series(1, a) AS i", "t(a)"),
        ("SELECT unnest(ARRAY[a, 1]) FROM t", "t(a)"),
        ("SELECT z FROM t, LATERAL (SELECT b + 1 AS z) AS l", "t(b)"),
        ("SELECT DISTINCT ON (b) a FROM t", "t(ab)"),
    ];
    for (query, expected) in cases {
        let (reads, _) = bind(query).expect(query);
        let said = reads.iter().map(|read| {
            let (_, table) = (1..).zip(NAMES).find(|(number, _)| read.id == GlobalId::User(*number)).expect("a table");
            let columns: String = read.columns.iter().map(|at| desc(table).columns[*at].name.clone()).collect();
            format!("{table}({columns})")
        });
        assert_eq!(said.collect::<Vec<_>>().join(" "), expected, "{query}");
    }
}

#[test]
fn a_plan_takes_nothing_that_is_not_read() {
    let engine = Engine::new(DIALECTS);
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testdata/answers");
    let mut checked = 0;
    for file in std::fs::read_dir(&directory).expect("the test data exists") {
        let text = std::fs::read_to_string(file.expect("a directory entry").path()).expect("a test file is text");
        let heads = text.split("\n\n").filter_map(|case| case.split_once("\n----\n"));
        for query in heads.filter_map(|(head, _)| head.lines().last()) {
            let Ok((reads, plan)) = bind(query) else { continue };
            let Ok(plan) = engine.optimize(plan, &SessionInfo::default()) else { continue };
            for Read { id, columns } in of_plan(&plan).expect("the plan is walked") {
                let of_table = reads.iter().filter(|read| read.id == id);
                let read: BTreeSet<usize> = of_table.flat_map(|read| &read.columns).copied().collect();
                assert!(columns.is_subset(&read), "{query}: {columns:?} of {id} are taken, {read:?} are read");
                checked += 1;
            }
        }
    }
    assert!(checked > 100, "only {checked} reads");
}
