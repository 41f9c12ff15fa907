//! The planner, over a small catalog: names, privileges, column lists, dependencies, and the words of errors.
//!
//! `testdata/plan.txt` holds blocks of `role> statement`, a line `----`, and what planning makes of it. `REWRITE=1`
//! writes the file anew.

use crate::catalog::Catalog;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use engine::error::SqlError;
use engine::{Engine, SessionInfo};
use glimpse_sql::bind::Params;
use glimpse_sql::dialect::DIALECTS;
use glimpse_sql::plan::{CatalogView, Explained, InsertSource, Plan, PlanContext, SelectPlan, plan};
use repr::RelationDesc;
use sql_syntax::parser::parse;
use std::fmt::Write;

fn plan_as(engine: &Engine, catalog: &Catalog, role: &str, text: &str) -> Result<Plan, SqlError> {
    let statement = parse(text)?.remove(0);
    let session = SessionInfo { user: role.to_owned(), session_user: role.to_owned(), ..SessionInfo::default() };
    let role = catalog.role_by_name(role).expect("a role of the test catalog").id;
    let ctx = PlanContext { engine, catalog, session: &session, role, cluster: "quickstart", from_tables: false };
    plan(&ctx, &statement.ast, &mut Params::declared(Vec::new())).map_err(|error| error.locate(text))
}

fn describe(result: Result<Plan, SqlError>) -> String {
    match result {
        Ok(plan) => describe_plan(&plan),
        Err(error) => {
            let mut text = format!("{} {}", error.sqlstate, error.message);
            for (name, value) in [("detail", error.detail), ("hint", error.hint)] {
                if let Some(value) = value {
                    write!(text, "\n{name}: {}", value.replace('\n', "; ")).expect("writing to a string");
                }
            }
            text
        }
    }
}

fn columns(desc: &RelationDesc) -> String {
    desc.columns.iter().map(|column| format!("{} {}", column.name, column.ty)).collect::<Vec<_>>().join(", ")
}

fn ids<T: std::fmt::Display>(ids: &[T]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn select(select: &SelectPlan) -> String {
    let params = ids(&select.params);
    format!("({}) params [{params}] reads [{}]", columns(&select.desc), ids(&select.depends_on))
}

fn describe_plan(plan: &Plan) -> String {
    match plan {
        Plan::Select(plan) => format!("select {}", select(plan)),
        Plan::Declare { name, read, .. } => format!("declare {name} {}", select(&read.select)),
        Plan::CopyTo(plan) => format!("copy to {}", select(&plan.read.select)),
        Plan::CopyFrom(plan) => {
            let defaults: Vec<String> = plan.defaults.iter().map(|(at, expr)| format!("{at}={expr}")).collect();
            format!("copy from into {} columns {:?} defaults [{}]", plan.table, plan.columns, defaults.join(", "))
        }
        Plan::Insert(plan) => {
            let source = match &plan.source {
                InsertSource::Values { rows } => rows
                    .iter()
                    .map(|row| format!("({})", row.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")))
                    .collect::<Vec<_>>()
                    .join(", "),
                InsertSource::Query(plan) => {
                    let types: Vec<String> =
                        plan.schema().fields().iter().map(|field| field.data_type().to_string()).collect();
                    format!("query ({})", types.join(", "))
                }
            };
            let returning = plan.returning.as_ref().map(|r| format!(" returning ({})", columns(&r.desc)));
            format!(
                "insert into {} {source}{} params [{}] uses [{}]",
                plan.table,
                returning.unwrap_or_default(),
                ids(&plan.params),
                ids(&plan.depends_on)
            )
        }
        Plan::ReadThenWrite(plan) => {
            let returning = plan.returning.as_ref().map(|r| format!(" returning ({})", columns(&r.desc)));
            let types: Vec<String> =
                plan.selection.schema().fields().iter().map(|field| field.data_type().to_string()).collect();
            format!(
                "{:?} {} over ({}){} params [{}] uses [{}]",
                plan.kind,
                plan.table,
                types.join(", "),
                returning.unwrap_or_default(),
                ids(&plan.params),
                ids(&plan.depends_on)
            )
        }
        Plan::CreateTable(plan) => {
            format!("create table {} ({}) defaults {:?}", plan.name, columns(&plan.desc), plan.defaults)
        }
        Plan::CreateView(plan) => {
            let reads = plan.view.context.reads.iter().map(|read| format!("{} {}", read.name, read.id));
            format!(
                "create {}view {} ({}) on [{}] replacing {:?}",
                plan.cluster.map_or(String::new(), |cluster| format!("materialized (cluster {cluster}) ")),
                plan.name,
                columns(&plan.desc),
                reads.collect::<Vec<_>>().join(", "),
                plan.replace
            )
        }
        Plan::CreateIndex(plan) => {
            let keys: Vec<String> = plan.keys.iter().map(|key| format!("{} {}", key.def.sql, key.ty)).collect();
            format!("create index {} on {} ({})", plan.name, plan.on, keys.join(", "))
        }
        Plan::ShowVariable { variable, desc } => format!("show {variable} ({})", columns(desc)),
        Plan::Explain(plan) => match &plan.of {
            Explained::Plan(of) => format!("explain {:?} {}", plan.stage, describe_plan(of)),
            Explained::Object(id) => format!("explain {:?} {id}", plan.stage),
        },
        other => format!("{other:?}"),
    }
}

#[test]
fn statements() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/testdata/plan.txt");
    let file = std::fs::read_to_string(path).expect("the test data is there");
    let (engine, catalog) = (Engine::new(DIALECTS), Catalog::new());
    let (mut rewritten, mut wrong) = (String::new(), String::new());
    for block in file.split("\n\n").filter(|block| !block.trim().is_empty()) {
        let (statement, expected) =
            block.trim_matches('\n').split_once("\n----\n").unwrap_or((block.trim_matches('\n'), ""));
        let (role, text) = statement.trim().split_once("> ").expect("role> statement");
        let actual = describe(plan_as(&engine, &catalog, role, text));
        write!(rewritten, "{}\n----\n{actual}\n\n", statement.trim()).expect("writing to a string");
        if actual != expected.trim_matches('\n') {
            write!(wrong, "{statement}\n  expected: {expected}\n  actual:   {actual}\n").expect("writing to a string");
        }
    }
    if std::env::var("REWRITE").is_ok() {
        std::fs::write(path, rewritten).expect("the test data can be written");
    } else {
        assert!(wrong.is_empty(), "{wrong}");
    }
}

/// Planning the deepest statements that parse must fit the server's stacks.
#[test]
fn deep_statements_fit_the_stack() {
    let texts = [
        format!("select {}1{}", "(".repeat(60), ")".repeat(60)),
        format!("select 1{}", " + 1".repeat(150)),
        format!("select 1 where a{}", " = a or a".repeat(2)),
        format!("select 1{}", " union all select 1".repeat(100)),
    ];
    for text in texts {
        let planned = std::thread::Builder::new()
            .stack_size(2 << 20)
            .spawn(move || plan_as(&Engine::new(DIALECTS), &Catalog::new(), "mz_system", &text).map(|_| ()))
            .expect("a thread can be spawned")
            .join();
        // Refusing is fine; overflowing the stack would have ended the process.
        assert!(planned.is_ok(), "planning does not panic");
    }
    let text = format!("select * from t where {}", vec!["a = 1 and b = 'x'"; 1000].join(" or "));
    let planned = plan_as(&Engine::new(DIALECTS), &Catalog::new(), "mz_system", &text);
    assert!(planned.is_ok(), "{:?}", planned.err());
}

/// The keys of a query's joins.
fn join_keys(text: &str) -> Vec<String> {
    let Ok(Plan::Select(plan)) = plan_as(&Engine::new(DIALECTS), &Catalog::new(), "mz_system", text) else {
        panic!("{text} is a query")
    };
    let mut keys = Vec::new();
    plan.logical
        .apply(|node| {
            if let LogicalPlan::Join(join) = node {
                keys.extend(join.on.iter().map(|(left, right)| format!("{left} = {right}")));
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .expect("the walk does not fail");
    keys
}

#[test]
fn an_equality_in_every_alternative_is_a_join_key() {
    let alternatives = [
        "(x.a = y.a and x.b = 'p' and y.a < 1 + 40) or (y.b = 'q' and x.a = y.a)",
        "(x.a = y.a and x.b = 'p' and x.a / y.a > 3) or (x.a = y.a and 3 / y.a = 1) or (x.a = y.a)",
        "(x.a = y.a and 1 / y.a = 1) or (x.a = y.a and x.b = y.b and 2 / x.a = 2)",
        "x.b is not null and ((x.a = y.a and 1 / y.a = 1) or (x.a = y.a and x.b = y.b))",
    ];
    for condition in alternatives {
        let keys = join_keys(&format!("select 1 from t x, t y where {condition}"));
        assert_eq!(keys, ["x.a = y.a"], "{condition}");
    }
    let keys = join_keys("select 1 from t x, t y where (x.a = y.a and x.b = 'p') or (1 / x.a = 1 and x.b = y.b)");
    assert_eq!(keys, Vec::<String>::new());
}
