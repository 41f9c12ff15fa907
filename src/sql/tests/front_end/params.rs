//! Parameters take their types from their context, and simple plans keep the shape that the index paths look for.

use engine::error::SqlError;
use engine::{Engine, SessionInfo};
use glimpse_sql::bind::{Params, ResolvedTable, TableResolver, plan_query};
use glimpse_sql::dialect::DIALECTS;
use repr::sqlstate::SqlState;
use repr::types::NumericDisplay;
use repr::{GlobalId, PgType, RelationDesc};
use sql_syntax::parser::parse_query;
use sqlparser::ast::{Query, Statement};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use std::sync::Arc;

struct OneTable;

impl TableResolver for OneTable {
    fn resolve(&self, name: &[String]) -> Result<ResolvedTable, SqlError> {
        if name.last().map(String::as_str) != Some("t") {
            return Err(SqlError::new(SqlState::UNDEFINED_TABLE, "no such table"));
        }
        let desc = RelationDesc::new([
            ("id".to_owned(), PgType::Text, true),
            ("value".to_owned(), PgType::Int4, true),
            ("big".to_owned(), PgType::Int8, true),
            ("price".to_owned(), PgType::Numeric(NumericDisplay::Declared(10, 2)), true),
            ("code".to_owned(), PgType::Varchar(Some(8)), true),
            ("day".to_owned(), PgType::Date, true),
            ("blank".to_owned(), PgType::Bpchar(Some(4)), true),
        ]);
        let columns = desc.arity();
        Ok(ResolvedTable::Collection {
            name: None,
            id: GlobalId::User(1),
            desc: Arc::new(desc),
            columns,
            names: Vec::new(),
            primary_key: Vec::new(),
        })
    }
}

fn parse(text: &str) -> Query {
    let statements = Parser::parse_sql(&PostgreSqlDialect {}, text).expect("the test's SQL parses");
    match statements.into_iter().next() {
        Some(Statement::Query(query)) => *query,
        _ => panic!("the test's SQL is a query: {text}"),
    }
}

/// The types of the parameters, and the optimised plan.
fn plan(text: &str) -> Result<(Vec<PgType>, String), SqlError> {
    let engine = Engine::new(DIALECTS);
    let mut params = Params::declared(Vec::new());
    let planned = plan_query(&parse(text), &OneTable, &mut params)?;
    let optimized = engine.optimize(planned.plan, &SessionInfo::default())?;
    Ok((params.finish()?, optimized.display_indent().to_string()))
}

fn types(text: &str) -> Vec<PgType> {
    plan(text).map(|(types, _)| types).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn parameters_take_the_type_of_their_context() {
    assert_eq!(types("select $1 + 1"), [PgType::Int4]);
    assert_eq!(types("select $1"), [PgType::Text]);
    assert_eq!(types("select * from t where value = $1 and id = $2"), [PgType::Int4, PgType::Text]);
    assert_eq!(types("select * from t where big in ($1, $2)"), [PgType::Int8, PgType::Int8]);
    assert_eq!(types("select $1::int8, upper($2)"), [PgType::Int8, PgType::Text]);
    assert_eq!(types("select * from t where day > $1 limit $2"), [PgType::Date, PgType::Int8]);
    assert_eq!(types("select case when $1 then $2 else 1.5 end")[0], PgType::Bool);
    assert_eq!(types("select * from t where value = any ($1)"), [PgType::Array(Box::new(PgType::Int4))]);
    assert_eq!(types("values ($1, 1), ('2020-01-01', $2)"), [PgType::Text, PgType::Int4]);
}

#[test]
fn an_unused_parameter_has_no_type() {
    let error = plan("select $2 + 1").expect_err("$1 has no type");
    assert_eq!(error.sqlstate, SqlState::INDETERMINATE_DATATYPE);
    let mut none = Params::none();
    let error = plan_query(&parse("select $1"), &OneTable, &mut none).expect_err("no parameters here");
    assert_eq!(error.sqlstate, SqlState::UNDEFINED_PARAMETER);
}

#[test]
fn a_table_is_a_bare_scan() {
    let (_, shown) = plan("select * from t").expect("it plans");
    assert_eq!(shown, "TableScan: t projection=[id, value, big, price, code, day, blank]");
}

#[test]
fn comparisons_leave_the_column_alone() {
    let filter = |condition: &str| {
        let (_, shown) = plan(&format!("select id from t where {condition}")).expect("it plans");
        shown.lines().find_map(|line| line.split_once("Filter: ").map(|(_, filter)| filter.to_owned())).unwrap_or(shown)
    };
    for (condition, expected) in [
        ("id = 'hello'", "t.id = Utf8View(\"hello\")"),
        ("value = 5", "t.value = Int32(5)"),
        ("value = 5::int8", "t.value = Int32(5)"),
        ("big = 5", "t.big = Int64(5)"),
        ("code = 'x'", "t.code = Utf8View(\"x\")"),
        ("day = '2020-01-01'", "t.day = Date32(\"2020-01-01\")"),
        ("value = $1", "t.value = $1"),
        ("price = 1.5", "t.price = Decimal128(1.50,10,2)"),
        ("price = 2", "t.price = Decimal128(2.00,10,2)"),
    ] {
        assert_eq!(filter(condition), expected, "{condition}");
    }
}

/// Runs on the stack that a server's thread has.
fn on_a_small_stack(run: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(run).expect("a thread starts");
    thread.join().expect("the stack is deep enough");
}

#[test]
fn nesting_ends_in_an_error_and_not_in_the_stack() {
    on_a_small_stack(|| {
        for (open, close) in [("(", ")"), ("case when true then ", " end"), ("1 + (", ")"), ("(select ", ")")] {
            for depth in [20, 45] {
                let text = format!("select {}1{}", open.repeat(depth), close.repeat(depth));
                let Ok(statements) = Parser::new(&PostgreSqlDialect {})
                    .with_recursion_limit(400)
                    .try_with_sql(&text)
                    .and_then(|mut p| p.parse_statements())
                else {
                    continue;
                };
                let Some(Statement::Query(query)) = statements.into_iter().next() else { panic!("a query") };
                let planned = plan_query(&query, &OneTable, &mut Params::none());
                let planned =
                    planned.and_then(|planned| Engine::new(DIALECTS).optimize(planned.plan, &SessionInfo::default()));
                if let Err(error) = planned {
                    assert_eq!(error.sqlstate, SqlState::STATEMENT_TOO_COMPLEX, "{open} {depth}: {error}");
                }
            }
        }
    });
}

/// Each of these stands in the plan more often than in the text; in each other they would fill the memory.
#[test]
fn what_is_compared_twice_nests_only_so_deep() {
    on_a_small_stack(|| {
        for (open, close) in [
            ("(", " between 0 and 2)::int"),
            ("(", " not between symmetric 2 and 0)::int"),
            ("(1 between symmetric ", " and 0)::int"),
            ("(", " = any(array[1, 2]))::int"),
            ("case ", " when 1 then 2 when 2 then 1 end"),
            ("((", ", 1) < (2, 3))::int"),
        ] {
            let plan = |depth: usize| {
                let text = format!("select {}value{} from t", open.repeat(depth), close.repeat(depth));
                let query = parse_query(&text).expect("a query");
                plan_query(&query, &OneTable, &mut Params::none())
            };
            plan(4).unwrap_or_else(|error| panic!("{open}…{close}: {error}"));
            let error = plan(30).map(|_| ()).expect_err(close);
            assert_eq!(error.sqlstate, SqlState::STATEMENT_TOO_COMPLEX, "{open}…{close}: {error}");
        }
    });
}

#[test]
fn a_long_chain_of_conditions_is_bound() {
    on_a_small_stack(|| {
        let any: Vec<String> = (0..2_000).map(|n| format!("value = {n}")).collect();
        let text = format!("select id from t where {}", any.join(" or "));
        let statements = Parser::new(&PostgreSqlDialect {})
            .with_recursion_limit(100)
            .try_with_sql(&text)
            .and_then(|mut p| p.parse_statements());
        let Ok(statements) = statements else { return };
        let Some(Statement::Query(query)) = statements.into_iter().next() else { panic!("a query") };
        let planned = plan_query(&query, &OneTable, &mut Params::none()).expect("it binds");
        Engine::new(DIALECTS).optimize(planned.plan, &SessionInfo::default()).expect("it optimises");
    });
}
