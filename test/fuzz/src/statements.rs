//! Statements: the parser, the lifting of literals, and the planner over the small catalog of its own tests.

use crate::catalog::Catalog;
use engine::{Engine, SessionInfo};
use sql::bind::Params;
use sql::plan::lift::{self, Lifted, LiteralKind};
use sql::plan::{CatalogView, PlanContext};
use std::sync::OnceLock;

/// What statements are made of.
#[rustfmt::skip]
pub const WORDS: &[&str] = &[
    "select", "from", "where", "group by", "order by", "limit", "offset", "having", "union all", "except", "intersect", "distinct",
    "on", "join", "left join", "lateral", "using", "natural", "cross join", "with", "recursive", "mutually recursive", "as", "values",
    "insert into", "update", "delete from", "returning", "set", "on conflict", "do update", "create table", "create view",
    "create index", "create materialized view", "alter table", "drop", "copy", "explain", "subscribe", "declare c cursor for",
    "grant select on", "to", "case when", "then", "else", "end", "exists", "in", "any", "all", "array[", "]", "row(", "(", ")", ",",
    ".", ";", "::", "'", "\"", "$$", "$1", "$2", "--", "/*", "*/", "e'\\", "*", "+", "-", "/", "%", "^", "||", "->", "->>", "@>", "~",
    "like", "ilike", "similar to", "is null", "is not distinct from", "between", "and", "or", "not", "null", "true", "0", "1", "-1",
    "2147483648", "9223372036854775808", "1e400", "0.1", "'x'", "interval '1 day'", "date '2024-01-01'", "now()", "mz_now()",
    "count(*)", "sum(a)", "over (partition by a order by b)", "rows between 1 preceding and current row", "filter (where a > 1)",
    "generate_series(1, 3)", "unnest(array[1, 2])", "t", "v", "m", "secret", "mine", "a", "b", "\"C d\"", "n", "x", "int4", "text",
    "numeric(10, 2)", "timestamptz", "jsonb", "int4[]", "coalesce(", "nullif(", "cast(", "extract(year from", "collate \"C\"",
    "grouping sets ((a), ())", "rollup (a, b)", "for update", "fetch first 1 row with ties", "tablesample", "as of 5", "default",
];

/// The parser. What it reads it can print, and the name of a statement is not empty.
pub fn parse(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(statements) = sql_syntax::parser::parse(text) {
        for statement in statements {
            assert!(!statement.ast.name().is_empty(), "a statement without a name");
            assert!(text.contains(&statement.sql), "the text of a statement is none of what was parsed");
        }
    }
    drop(sql_syntax::parser::parse_expr(text));
    drop(sql_syntax::parser::parse_data_type(text));
}

/// Literals taken out of a text: they are where they say they are, and what is left parses whenever the text does.
pub fn lift(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut lifted = Lifted::default();
    if !lift::lift(text, &mut lifted) {
        return;
    }
    for literal in &lifted.literals {
        let part = text.get(literal.range.clone()).expect("a literal is a part of the text");
        drop(lift::literal_text(part, literal.kind));
    }
    let texts: Vec<&str> = lifted.literals.iter().map(|literal| &text[literal.range.clone()]).collect();
    let kinds: Vec<LiteralKind> = lifted.literals.iter().map(|literal| literal.kind).collect();
    if let Ok(parsed) = lift::parse_lifted(&lifted.shape, &texts, &kinds) {
        assert!(parsed.parameters.len() <= texts.len(), "more parameters than literals");
    }
}

/// The planner, as the system's own user and as one with few privileges.
pub fn plan(bytes: &[u8]) {
    static SHARED: OnceLock<(Engine, Catalog)> = OnceLock::new();
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(statements) = sql_syntax::parser::parse(text) else { return };
    let (engine, catalog) = SHARED.get_or_init(|| (Engine::new(sql::dialect::DIALECTS), Catalog::new()));
    let user = if bytes.len().is_multiple_of(4) { "materialize" } else { "mz_system" };
    let role = catalog.role_by_name(user).expect("a role of the test catalog").id;
    let session = SessionInfo { user: user.to_owned(), session_user: user.to_owned(), ..SessionInfo::default() };
    let ctx = PlanContext { engine, catalog, session: &session, role, cluster: "quickstart", from_tables: false };
    // A text of many statements is planned one by one, and the first ones say enough.
    for statement in statements.iter().take(3) {
        let planned = sql::plan::plan(&ctx, &statement.ast, &mut Params::declared(Vec::new()));
        if let Err(error) = planned {
            assert!(!error.message.is_empty(), "an error without a word");
            assert!(error.sqlstate.code() != "XX000", "an internal error: {}", error.message);
        }
    }
}

/// The statements of the parser's own tests.
pub fn parser_seeds() -> Vec<Vec<u8>> {
    let file = include_str!("../../../src/sql/tests/testdata/parser.txt");
    blocks(file).map(|text| text.as_bytes().to_vec()).chain(plan_seeds()).collect()
}

/// The statements of the planner's own tests.
pub fn plan_seeds() -> Vec<Vec<u8>> {
    let file = include_str!("../../../src/sql/tests/testdata/plan.txt");
    blocks(file).filter_map(|block| Some(block.split_once("> ")?.1.as_bytes().to_vec())).collect()
}

fn blocks(file: &str) -> impl Iterator<Item = &str> {
    file.split("\n\n").filter_map(|block| Some(block.trim().split_once("\n----")?.0))
}
