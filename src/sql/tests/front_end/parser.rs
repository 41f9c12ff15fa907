//! The parser, against a file of statements and what becomes of them, and against hostile input.
//!
//! `testdata/parser.txt` holds blocks of a statement, a line `----`, and what the parser makes of it: the name of each
//! statement, or `SQLSTATE message (position)`. `REWRITE=1` writes the file anew.

use pgrepr::copy::CopyFormat;
use sql_syntax::ast::Statement;
use sql_syntax::parser::{parse, parse_query};
use std::fmt::Write;

/// What a text parses to, on one line per statement.
fn check(text: &str) -> String {
    match parse(text) {
        Ok(statements) if statements.is_empty() => "nothing".to_owned(),
        Ok(statements) => statements
            .iter()
            .map(|statement| match &statement.ast {
                Statement::Query(query) => format!("SELECT {query}").replace('\0', "\\0"),
                // Debug output of our own types is ours and stable; sqlparser's is long, and full of places.
                other => match format!("{other:?}") {
                    foreign if foreign.contains("Span(") => format!("{} {}", other.name(), statement.sql),
                    ours => format!("{} {ours}", other.name()),
                },
            })
            .collect::<Vec<_>>()
            .join("\n"),
        Err(error) => {
            let position = error.position.map_or(String::new(), |position| format!(" ({position})"));
            format!("{} {}{position}", error.sqlstate, error.message)
        }
    }
}

#[test]
fn statements() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/testdata/parser.txt");
    let file = std::fs::read_to_string(path).expect("the test data is there");
    let mut rewritten = String::new();
    let mut wrong = String::new();
    for block in file.split("\n\n").filter(|block| !block.trim().is_empty()) {
        let (text, expected) =
            block.trim_matches('\n').split_once("\n----\n").unwrap_or((block.trim_matches('\n'), ""));
        let actual = check(text);
        write!(rewritten, "{text}\n----\n{actual}\n\n").expect("writing to a string");
        if actual != expected.trim_matches('\n') {
            write!(wrong, "{text}\n  expected: {expected}\n  actual:   {actual}\n").expect("writing to a string");
        }
    }
    if std::env::var("REWRITE").is_ok() {
        std::fs::write(path, rewritten).expect("the test data can be written");
    } else {
        assert!(wrong.is_empty(), "{wrong}");
    }
}

/// Runs on a thread with the stack that the server's threads have.
fn on_small_stack<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(f)
        .expect("a thread can be spawned")
        .join()
        .expect("the parser does not panic")
}

#[test]
fn hostile_nesting_is_refused() {
    let repeat = |text: &str, n: usize| text.repeat(n);
    let n = 10_000;
    let texts = [
        format!("SELECT {}1{}", repeat("(", n), repeat(")", n)),
        format!("SELECT {}1{}", repeat("ARRAY[", n), repeat("]", n)),
        format!("SELECT {}1", repeat("NOT ", n)),
        format!("SELECT {}1", repeat("- ", n)),
        format!("SELECT 1{}", repeat(" + 1", n)),
        format!("SELECT a{}", repeat(" OR a = 1", n)),
        format!("SELECT a{} )", repeat(" AND a = 1", 2_400)),
        format!("SELECT 1{}", repeat("::int", n)),
        format!("SELECT a{}", repeat(" IS NULL", n)),
        format!("SELECT {}1{}", repeat("CASE WHEN a THEN ", n), repeat(" END", n)),
        format!("SELECT 1{}", repeat(" UNION ALL SELECT 1", n)),
        format!("SELECT * FROM t{}", repeat(" JOIN t ON true", n)),
        format!("SELECT * FROM {}t{}", repeat("(SELECT * FROM ", n), repeat(")", n)),
        format!("SELECT {}", repeat("f(", n)),
        format!("{}SELECT 1", repeat("EXPLAIN ", n)),
        format!("SELECT {}", repeat("(", n)),
        format!("CREATE TABLE t (a int DEFAULT {}1{})", repeat("(", n), repeat(")", n)),
    ];
    for text in texts {
        let shown = text[..60].to_owned();
        let error = on_small_stack(move || parse(&text).map(|_| ()).expect_err("it is too deep"));
        assert!(["54001", "42601", "0A000"].contains(&error.sqlstate.code()), "{shown}: {error}");
    }
}

#[test]
fn moderate_nesting_is_accepted() {
    for (text, n) in [("(", 60), ("((SELECT ", 6)] {
        let close = ")".repeat(text.matches('(').count() * n);
        let sql = format!("SELECT {}1{close}", text.repeat(n));
        on_small_stack(move || parse(&sql).map(|_| ()).expect("it is not too deep"));
    }
    let sum = format!("SELECT 1{}", " + 1".repeat(900));
    on_small_stack(move || drop(parse(&sum).expect("a sum of 900")));
    let chain = format!("SELECT a{}", " OR a + 1 = 2".repeat(2_400));
    on_small_stack(move || drop(parse(&chain).expect("a chain of 2,400")));
    let list = format!("SELECT * FROM t WHERE a IN ({}1)", "1, ".repeat(60_000));
    on_small_stack(move || drop(parse(&list).expect("a long list")));
}

/// Backtracking must not make errors exponentially expensive: without a bound on its work the parser would not come back
/// from these at all.
#[test]
fn errors_do_not_explode() {
    let texts = [
        format!("SELECT {}", "cast(".repeat(60)),
        format!("SELECT {}", "case when ".repeat(60)),
        format!("SELECT {}", "position(".repeat(60)),
        format!("SELECT {}", "exists(select ".repeat(40)),
        format!("SELECT {}", "substring(".repeat(60)),
        format!("SELECT {}", "extract(year from ".repeat(60)),
        format!("SELECT * FROM {}", "((select * from ".repeat(40)),
        format!("SELECT * FROM {}", "(select * from ".repeat(40)),
        format!("SELECT * FROM {}a", "(".repeat(60)),
        format!("SELECT {}", "trim(".repeat(60)),
        format!("SELECT {}", "array[".repeat(60)),
        format!("SELECT {}", "a.b(".repeat(60)),
    ];
    for text in texts {
        let error = on_small_stack(move || parse(&text).map(|_| ()).expect_err(&text));
        assert!(["54001", "42601"].contains(&error.sqlstate.code()), "{error}");
    }
}

#[test]
fn many_statements_are_linear_work() {
    let text = "select 1;".repeat(100_000);
    let statements = parse(&text).expect("valid");
    assert_eq!(statements.len(), 100_000);
    assert!(statements.iter().all(|statement| statement.sql == "select 1"));
}

#[test]
fn a_long_string_is_one_value() {
    let text = format!("select '{}'", "x".repeat(8 << 20));
    assert_eq!(parse(&text).expect("valid").len(), 1);
}

#[test]
fn statements_know_their_own_text() {
    let texts: Vec<String> =
        parse("  select 'ä;' ; -- nothing; here\n\n/* a; /* b */ c */ select 2 /* end */ ;;\ntable t  ")
            .expect("valid")
            .into_iter()
            .map(|statement| statement.sql)
            .collect();
    assert_eq!(texts, ["select 'ä;'", "select 2", "table t"]);
}

#[test]
fn views_keep_their_text() {
    let mut statements = parse("create view v as select 'A' as \"B\" -- why\n;").expect("valid");
    let Some(Statement::CreateView(view)) = statements.pop().map(|statement| statement.ast) else {
        panic!("a view was created");
    };
    assert_eq!(parse_query(&view.sql).expect("the text is a query"), view.query);
}

#[test]
fn copy_options_have_defaults() {
    let options = |text: &str| match parse(text).expect(text).remove(0).ast {
        Statement::Copy(copy) => copy.options,
        other => panic!("{other:?}"),
    };
    let text = options("copy t from stdin");
    assert_eq!((text.format, text.delimiter, text.null.as_str()), (CopyFormat::Text, b'\t', "\\N"));
    let csv = options("copy t from stdin with (format csv, header, quote '''', delimiter ';')");
    assert_eq!((csv.format, csv.delimiter, csv.null.as_str()), (CopyFormat::Csv, b';', ""));
    assert_eq!((csv.header, csv.quote, csv.escape), (true, b'\'', b'\''));
    let old = options("copy t (a, b) to stdout delimiter '|' null as 'x' csv header");
    assert_eq!((old.format, old.delimiter, old.null.as_str(), old.header), (CopyFormat::Csv, b'|', "x", true));
    assert_eq!(options("copy pgbench_accounts from stdin with (freeze on)").format, CopyFormat::Text);
}
