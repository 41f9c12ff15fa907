//! TPC-H: after every batch of random changes to all tables, each of the 22 queries gives the same rows from the index on
//! its view, run ad hoc, and from PostgreSQL; with indexes on the tables and without.
//!
//! `TPCH_SEED` replays a run, `TPCH_ONLY=q05` restricts it to one query, `TPCH_STEPS` and `TPCH_SCALE` make it longer and
//! larger.

use glimpse_test::amount;
use glimpse_test::views::{Comparison, View, corpus, say, script, setting};
use tpch::{Changes, Data, Mix, Row, Table, statements};

const SCALE: f64 = 0.001;
const STEPS: u64 = 5;
/// Changes between two comparisons.
const CHANGES: usize = 30;
/// Rows of one INSERT while loading.
const ROWS_PER_INSERT: usize = 500;

fn views() -> Vec<View> {
    corpus(tpch::QUERIES, std::env::var("TPCH_ONLY").ok().as_deref())
}

fn load(both: &mut Comparison, data: &Data) -> anyhow::Result<()> {
    for sql in script(tpch::SCHEMA) {
        both.execute(sql)?;
    }
    for table in Table::ALL {
        let rows: Vec<&Row> = data.rows(table).collect();
        for some in rows.chunks(ROWS_PER_INSERT) {
            let values: Vec<String> = some.iter().map(|row| row.values()).collect();
            both.execute(&format!("INSERT INTO {} VALUES {}", table.name(), values.join(", ")))?;
        }
    }
    Ok(())
}

/// Makes changes and compares after each batch of them.
fn run(seed: u64, table_indexes: bool) -> anyhow::Result<()> {
    let mut both = Comparison::start()?;
    let data = Data::generate(setting("TPCH_SCALE").unwrap_or(SCALE));
    load(&mut both, &data)?;
    if table_indexes {
        for table in Table::ALL {
            let key: Vec<&str> = table.key().iter().map(|at| table.columns()[*at]).collect();
            both.glimpse.execute(&format!("CREATE INDEX ON {} ({})", table.name(), key.join(", ")))?;
        }
    }
    let views = views();
    for view in &views {
        both.create(view)?;
    }
    let mut changes = Changes::new(data, seed, Mix::Anything);
    let mut row_count = both.compare_all(&views, "step 0")?;
    let steps = setting("TPCH_STEPS").unwrap_or_else(|| amount(STEPS));
    for step in 1..=steps {
        for _ in 0..CHANGES {
            for sql in statements(&changes.next_change()) {
                both.execute(&sql)?;
            }
        }
        row_count += both.compare_all(&views, &format!("step {step}"))?;
    }
    for table in Table::ALL {
        let count = both.glimpse.rows(&format!("SELECT count(*) FROM {}", table.name()))?;
        let expected = changes.data().rows(table).count().to_string();
        anyhow::ensure!(count == [[Some(expected)]], "{} has {count:?} rows", table.name());
    }
    say(&format!("{} queries compared {} times, {row_count} rows, TPCH_SEED={seed}", views.len(), steps + 1));
    Ok(())
}

/// Queries that find nothing prove nothing.
#[test]
fn every_query_finds_rows() {
    let mut both = Comparison::start().expect("servers start");
    load(&mut both, &Data::generate(SCALE)).expect("rows are loaded");
    for view in views() {
        let rows = both.glimpse.rows(&view.query).expect("the query runs");
        assert!(rows.iter().flatten().any(Option::is_some), "{} finds nothing", view.name);
    }
}

#[test]
fn queries_are_maintained() {
    let seed = setting("TPCH_SEED").unwrap_or_else(rand::random);
    if let Err(error) = run(seed, false) {
        panic!("TPCH_SEED={seed}\n{error:#}");
    }
}

#[test]
fn queries_over_indexed_tables_are_maintained() {
    let seed = setting("TPCH_SEED").unwrap_or_else(rand::random);
    if let Err(error) = run(seed, true) {
        panic!("TPCH_SEED={seed}\n{error:#}");
    }
}
