//! Answers, types, output names and errors, against expectations recorded from PostgreSQL 15.
//!
//! A case in `testdata/answers/*.txt` is one query on one line, `----`, and what PostgreSQL answers: a line with each column's
//! name and type, then the rows as text, or `ERROR` with the SQLSTATE and the message. Cases are separated by blank
//! lines; `#` starts a comment. `differs: reason` before a query marks an expectation that is ours and not
//! PostgreSQL's. `REWRITE=1` records our answers, for cases whose expectation is to be read and argued.

use async_trait::async_trait;
use datafusion::common::Statistics;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::Expr;
use engine::error::SqlError;
use engine::{Collection, CollectionReader, Engine, SessionInfo};
use futures::StreamExt;
use glimpse_sql::bind::{Params, PlannedQuery, ResolvedTable, TableResolver, plan_query};
use glimpse_sql::dialect::DIALECTS;
use pgrepr::options::EncodeOptions;
use repr::sqlstate::SqlState;
use repr::{GlobalId, RelationDesc};
use sql_syntax::names::FullName;
use sql_syntax::parser::parse_query;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// The tables of the cases, as queries.
const TABLES: [(&str, &str); 3] = [
    (
        "t",
        "SELECT a, b, c, d::numeric(10,2) AS d, e, f, g, h FROM (VALUES
            (1::int4, 10::int8, 'one'::text, 1.10::numeric(10,2), 1.5::float8, '2020-01-31'::date, '2020-01-31 10:20:30.5'::timestamp, true),
            (2, 20, 'two', 2.25, -2.5, '2020-02-29', '2020-02-29 00:00:00', false),
            (3, NULL, 'three', NULL, NULL, '1999-12-31', '1999-12-31 23:59:59', NULL),
            (4, 40, NULL, -4.00, 1e10, NULL, NULL, true)) AS v(a, b, c, d, e, f, g, h)",
    ),
    ("u", "SELECT * FROM (VALUES (1::int4, 'x'::text), (2, 'y'), (2, 'z'), (5, NULL)) AS v(a, s)"),
    ("empty", "SELECT 1::int4 AS a, 'x'::text AS s WHERE false"),
];

struct Tables;

impl TableResolver for Tables {
    fn resolve(&self, name: &[String]) -> Result<ResolvedTable, SqlError> {
        let wanted = name.last().map(String::as_str).unwrap_or_default();
        match TABLES.iter().find(|(table, _)| *table == wanted) {
            Some((_, text)) => {
                let view = plan_query(&*parse_query(text)?, self, &mut Params::none())?;
                let name = Some(FullName { database: None, schema: "public".to_owned(), item: wanted.to_owned() });
                Ok(ResolvedTable::View { name, id: GlobalId::User(1), query: Box::new(view) })
            }
            None => {
                Err(SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{}\" does not exist", name.join("."))))
            }
        }
    }
}

struct NoCollections;

#[async_trait]
impl CollectionReader for NoCollections {
    fn row_count(&self, _id: GlobalId, _filters: &[Expr]) -> Option<usize> {
        None
    }

    fn statistics(&self, _id: GlobalId) -> Option<Arc<Statistics>> {
        None
    }

    async fn open(&self, id: GlobalId, _filters: &[Expr]) -> DfResult<Arc<dyn Collection>> {
        Err(SqlError::internal(format!("there is no collection {id}")).into())
    }
}

fn session() -> SessionInfo {
    SessionInfo {
        user: "alice".to_owned(),
        session_user: "alice".to_owned(),
        database: "materialize".to_owned(),
        // 2020-06-15 12:34:56.789
        now_us: Some(1_592_224_496_789_000),
        statement_now_us: 1_592_224_496_789_000,
        ..SessionInfo::default()
    }
}

async fn run(engine: &Engine, text: &str) -> Result<String, SqlError> {
    let PlannedQuery { plan, desc, .. } = plan_query(&*parse_query(text)?, &Tables, &mut Params::none())?;
    let session = session();
    let optimized = engine.optimize(plan, &session)?;
    let mut stream = engine.execute(optimized, &session, Arc::new(NoCollections)).await?;
    let mut rows = Vec::new();
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            rows.push(row_text(&desc, &batch, row)?);
        }
    }
    let header: Vec<String> = desc.columns.iter().map(|column| format!("{}:{}", column.name, column.ty)).collect();
    Ok(std::iter::once(header.join("|")).chain(rows).collect::<Vec<_>>().join("\n"))
}

fn row_text(desc: &RelationDesc, batch: &arrow::array::RecordBatch, row: usize) -> Result<String, SqlError> {
    let mut cells = Vec::new();
    for (column, described) in batch.columns().iter().zip(&desc.columns) {
        let value = repr::datum::from_array(column.as_ref(), row)
            .ok_or_else(|| SqlError::internal("a column has a type without values"))?;
        let mut out = Vec::new();
        if value.is_null() {
            out.extend_from_slice("∅".as_bytes());
        } else {
            pgrepr::text::encode_text(&described.ty, &value, &EncodeOptions::default(), &mut out);
        }
        cells.push(String::from_utf8_lossy(&out).replace('\n', "\\n"));
    }
    Ok(cells.join("|"))
}

fn answer(engine: &Engine, runtime: &tokio::runtime::Runtime, query: &str) -> String {
    match runtime.block_on(run(engine, query)) {
        Ok(answer) => answer,
        Err(error) => format!("ERROR {} {}", error.sqlstate.code(), error.message),
    }
}

#[test]
fn answers_are_those_of_postgres() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testdata/answers");
    let rewrite = std::env::var_os("REWRITE").is_some();
    let only = std::env::var("ONLY").unwrap_or_default();
    let engine = Engine::new(DIALECTS);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    let mut files: Vec<_> = std::fs::read_dir(&directory)
        .expect("the test data exists")
        .map(|entry| entry.expect("a directory entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .filter(|path| path.to_string_lossy().contains(&only))
        .collect();
    assert!(!files.is_empty(), "no file of answers contains {only:?} in its path");
    files.sort();
    let (mut count, mut failures) = (0, String::new());
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a test file is text");
        let mut rewritten = String::new();
        for case in text.split("\n\n") {
            let Some((head, expected)) = case.split_once("\n----\n") else {
                rewritten.push_str(case.trim_end());
                rewritten.push_str("\n\n");
                continue;
            };
            let query = head.lines().last().unwrap_or_default();
            let actual = answer(&engine, &runtime, query);
            count += 1;
            if actual.trim_end() != expected.trim_end() {
                let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                writeln!(
                    failures,
                    "{name}: {query}\n  expected: {}\n  actual:   {}",
                    expected.trim_end(),
                    actual.trim_end()
                )
                .expect("a string takes text");
            }
            write!(rewritten, "{head}\n----\n{}\n\n", actual.trim_end()).expect("a string takes text");
        }
        if rewrite {
            std::fs::write(&file, format!("{}\n", rewritten.trim_end())).expect("the test data can be written");
        }
    }
    assert!(count > 0, "there are cases in {}", directory.display());
    assert!(
        rewrite || failures.is_empty(),
        "{} of {count} cases\n{failures}",
        failures.matches("\n  expected").count()
    );
}
