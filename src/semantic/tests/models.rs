//! Models as their authors write them: what is read of them, and what is said of those that are wrong.

use glimpse_semantic::model::Model;
use glimpse_semantic::model::cube::Source;
use glimpse_semantic::model::dimension::{DimensionValue, KeyPart};
use glimpse_semantic::model::measure::MeasureKind;
use glimpse_semantic::model::member::Visibility;
use glimpse_semantic::model::rollup::PreAggregationKind;
use glimpse_semantic::report::Report;
use glimpse_semantic::security::Security;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

fn read(files: &[(&str, &str)]) -> (Option<Model>, Report) {
    let files: BTreeMap<Arc<str>, String> =
        files.iter().map(|(name, text)| (Arc::from(*name), (*text).to_owned())).collect();
    let mut report = Report::default();
    let model = Model::read(&files, &mut report);
    (model, report)
}

fn model(files: &[(&str, &str)]) -> Model {
    let (model, report) = read(files);
    model.unwrap_or_else(|| panic!("{:#?}", report.problems))
}

/// The problems of one file.
fn problems(text: &str) -> Vec<String> {
    let (model, report) = read(&[("m.yml", text)]);
    assert_eq!(model.is_none(), !report.problems.is_empty());
    report.problems.iter().map(ToString::to_string).collect()
}

const SHOP: &str = include_str!("shop.yml");

#[test]
fn a_model_is_read() {
    let model = model(&[("shop.yml", SHOP)]);
    let orders = model.cube("orders").expect("it is there");
    assert!(matches!(&orders.source, Source::Table(name) if name.tree.to_string() == "public.orders"));
    let id = orders.dimension("id").expect("it is there");
    assert_eq!((id.key, id.described.visibility), (KeyPart::Primary, Visibility::Hidden));
    assert_eq!(orders.dimension("placed_at").map(|dimension| dimension.described.title.as_str()), Some("Placed at"));
    assert!(
        matches!(orders.dimension("size").map(|size| &size.value), Some(DimensionValue::Case { whens, .. }) if whens.len() == 2)
    );
    let total = orders.measure("total").expect("it is there");
    assert_eq!((total.kind, total.currency.as_deref()), (MeasureKind::Sum, Some("EUR")));
    let [daily] = &orders.pre_aggregations[..] else { panic!("one") };
    assert!(matches!(&daily.kind, PreAggregationKind::Rollup(rollup) if rollup.dimensions.len() == 2));
    let customers = model.cube("customers").expect("it is there");
    let Source::Query(query) = &customers.source else { panic!("a query") };
    assert_eq!(query.tree.to_string(), "SELECT * FROM customers WHERE true");
    assert_eq!(customers.dimension("id").map(|id| id.described.visibility), Some(Visibility::Public));
    assert_eq!(model.view("sales").map(|view| view.described.title.as_str()), Some("What we sold"));
}

#[test]
fn keys_without_effect_are_told_once() {
    let (_, report) = read(&[("shop.yml", SHOP), ("more.yml", "view_groups: [{name: a, includes: [b]}]\n")]);
    let notices: Vec<String> = report.notices.iter().map(ToString::to_string).collect();
    let expected = [
        "more.yml:1:14: `view_groups` has no effect: no client here shows views in groups",
        "shop.yml:40:22: `refresh_key` has no effect: a pre-aggregation is a maintained view, always complete and fresh",
        "shop.yml:39:32: `partition_granularity` has no effect: a pre-aggregation is a maintained view, always complete and fresh",
        "shop.yml:4:18: `refresh_key` has no effect: answers are always fresh",
    ];
    assert_eq!(notices, expected);
}

#[test]
fn a_cube_that_extends_another_is_that_and_more() {
    let model = model(&[
        (
            "a.yml",
            "cubes:\n  - {name: child, extends: base, sql: SELECT 1 AS a, measures: [{name: n, type: count, title: M}]}\n",
        ),
        (
            "b.yml",
            "cubes:\n  - name: base\n    sql_table: t\n    public: false\n    dimensions: [{name: a, sql: a, type: number}]\n    \
             measures: [{name: n, type: count, description: x}, {name: s, sql: a, type: sum}]\n",
        ),
    ]);
    let child = model.cube("child").expect("it is there");
    assert!(matches!(child.source, Source::Query(_)));
    assert_eq!(child.described.visibility, Visibility::Hidden);
    let names: Vec<&str> = child.members().map(|member| member.name.as_str()).collect();
    assert_eq!(names, ["a", "n", "s"]);
    assert_eq!(child.measure("n").map(|n| (n.described.title.as_str(), &n.described.description)), Some(("M", &None)));
}

/// What would take a stack or a memory without end is refused.
#[test]
fn what_extends_or_refers_without_end_is_refused() {
    let chain: String = (0..2_000).map(|at| format!("  - {{name: c{at}, extends: c{}}}\n", at + 1)).collect();
    let found = problems(&format!("cubes:\n{chain}  - {{name: c2000, sql_table: t}}\n"));
    assert!(
        found.iter().any(|found| found.contains("more than 64 cubes that extend each other")),
        "{:?}",
        found.first()
    );
    let chain: String =
        (0..2_000).map(|at| format!("      - {{name: d{at}, sql: \"{{d{}}}\", type: number}}\n", at + 1)).collect();
    let last = "      - {name: d2000, sql: a, type: number}\n";
    let found = problems(&format!("cubes:\n  - name: c\n    sql_table: t\n    dimensions:\n{chain}{last}"));
    assert!(found.iter().any(|found| found.contains("more than 100 members")), "{:?}", found.first());
    // Comparing two names takes the product of their lengths.
    let [meant, written] = ["x", "y"].map(|name| name.repeat(200_000));
    let found = two(&format!(
        "    dimensions: [{{name: {meant}, sql: a, type: number}}, {{name: z, sql: \"{{{written}}}\", type: number}}]"
    ));
    assert!(found.iter().any(|found| found.contains("unknown member of cube `a`")));
}

#[test]
fn jinja_makes_members() {
    let model = model(&[
        (
            "t.yml.jinja",
            "{% from 'lib/m.jinja' import sums %}cubes:\n  - name: c\n    sql_table: t\n    measures:\n{{ sums(['a', 'b']) }}",
        ),
        (
            "lib/m.jinja",
            "{% macro sums(names) %}{% for name in names %}      - {name: {{ name }}, sql: {{ name | safe }}, type: sum}\n{% endfor %}{% endmacro %}",
        ),
        ("README.md", "{% no template %}"),
    ]);
    assert_eq!(model.cube("c").map(|cube| cube.measures.len()), Some(2));
}

#[test]
fn every_mistake_of_a_file_is_told_with_its_place() {
    let found = problems(
        "cubes:
  - name: orders
    sql_tabel: orders
    dimensions:
      - {name: id, sql: id, typ: number}
      - {name: 1st, sql: id, type: number}
      - {name: at, sql: at, type: tme, granularities: [{name: odd, interval: 5 months}]}
      - {name: broken, sql: \"{CUBE}.a +\", type: string}
      - {name: where, type: geo, latitude: {sql: a}, longitude: {sql: b}}
    measures:
      - {name: total, type: sum}
      - {name: late, sql: a, type: sum, multi_stage: true, time_shift: [{interval: 1 year, type: prior}]}
      - {name: week, sql: a, type: sum, rolling_window: {trailing: 7 dayz}}
    pre_aggregations:
      - {name: lambda, type: rollup_lambda, rollups: [a]}
",
    );
    let expected = [
        "m.yml:2:5: a cube has `sql_table` or `sql`, and here is neither",
        "m.yml:3:5: unknown key of cube `orders` `sql_tabel` (did you mean `sql_table`?)",
        "m.yml:5:9: dimension `id` has no `type`",
        "m.yml:5:29: unknown key of dimension `id` `typ` (did you mean `type`?)",
        "m.yml:6:16: `1st` is no name: letters, digits and underscores",
        "m.yml:7:35: unknown `type` of dimension `at` `tme` (did you mean `time`?)",
        "m.yml:7:78: `5 months` does not divide a longer unit (give an `origin`: a date from which buckets are counted)",
        "m.yml:8:29: syntax error at end of input",
    ];
    assert_eq!(found[..expected.len()], expected, "{found:#?}");
    let others = [
        "`geo` and `switch` are not supported",
        "unless it is a `count`",
        "`multi_stage` is not supported",
        "`time_shift` is not supported",
        "`7 dayz` is no interval",
        "pre-aggregations of this type are not supported",
    ];
    for other in others {
        assert!(found.iter().any(|problem| problem.contains(other)), "{other}: {found:#?}");
    }
}

/// Two cubes, of which the first has these lines too.
fn two(lines: &str) -> Vec<String> {
    problems(&format!(
        "cubes:
  - name: a
    sql_table: a
{lines}
  - name: b
    sql_table: b
    dimensions: [{{name: id, sql: id, type: number, primary_key: true}}, {{name: at, sql: at, type: time}}]
    measures: [{{name: n, type: count}}]
  - {{name: far, sql_table: far, measures: [{{name: n, type: count}}]}}
"
    ))
}

/// Lines of the first cube, and what is wrong with them.
const MISFITS: &[(&str, &str)] = &[
    ("    joins: [{name: c, relationship: many_to_one, sql: \"true\"}]", "unknown cube to join `c`"),
    ("    joins: [{name: a, relationship: many_to_one, sql: \"true\"}]", "not joined to itself"),
    (
        "    joins: [{name: b, relationship: many_to_one, sql: \"{CUBE}.x = {far}.y\"}]",
        "no join leads from cube `a` to cube `far`",
    ),
    ("    dimensions: [{name: x, sql: \"{b.id}\", type: number}]", "no join leads from cube `a` to cube `b`"),
    ("    dimensions: [{name: x, sql: \"{y}\", type: number}]", "unknown member of cube `a` `y`"),
    ("    dimensions: [{name: x, sql: \"{b.idd}\", type: number}]", "did you mean `id`?"),
    ("    dimensions: [{name: x, sql: \"{CUBE}\", type: number}]", "`{CUBE}` is a cube: one of its columns follows"),
    ("    dimensions: [{name: x, sql: \"{x}.y\", type: number}]", "`{x}` is a member: no column follows"),
    (
        "    dimensions: [{name: x, sql: \"{y} + 1\", type: number}, {name: y, sql: \"{x}\", type: number}]",
        "is made of itself",
    ),
    (
        "    dimensions: [{name: x, sql: \"{n}\", type: number}]\n    measures: [{name: n, type: count}]",
        "`{n}` is a measure, and here are rows",
    ),
    (
        "    measures: [{name: n, type: count}, {name: s, sql: \"{n}\", type: sum}]",
        "`{n}` is a measure, and here are rows",
    ),
    (
        "    dimensions: [{name: x, sql: \"{n}\", type: number, sub_query: true}]\n    measures: [{name: n, type: count}]",
        "a measure of another cube in it",
    ),
    (
        "    dimensions: [{name: x, sql: x, type: number}, {name: x, sql: y, type: number}]",
        "there is a member `x` already, at m.yml:4:",
    ),
    (
        "    joins: [{name: b, relationship: many_to_one, sql: \"{CUBE}.x = {b}.y\"}]\n    measures: [{name: n, type: count}]",
        "cube `a` is joined and has no primary key",
    ),
    (
        "    joins: [{name: b, relationship: many_to_one, sql: \"{CUBE}.x = {b}.y\"}]\n    dimensions: [{name: x, sql: \"{b.at.dai}\", type: time}]",
        "unknown granularity `dai` (did you mean `day`?)",
    ),
    (
        "    dimensions: [{name: x, sql: x, type: number}]\n    pre_aggregations: [{name: p, measures: [x]}]",
        "`x`: no measure",
    ),
    (
        "    measures: [{name: n, type: count}]\n    pre_aggregations: [{name: p, measures: [n], indexes: [{name: i, columns: [n, m]}]}]",
        "`m`: the pre-aggregation has no such member",
    ),
    (
        "    dimensions: [{name: x, sql: x, type: number}]\n    access_policy: [{group: g, row_level: {filters: [{member: x, operator: equal, values: [1]}]}}]",
        "`equal` (did you mean `equals`?)",
    ),
    (
        "    access_policy: [{group: g, member_level: {includes: [z]}}]\n    measures: [{name: n, type: count}]",
        "unknown member `z`",
    ),
    (
        "    measures: [{name: n, type: count}]\n    pre_aggregations: [{name: p, type: original_sql, measures: [n]}]",
        "keeps the rows of its cube, and no members",
    ),
    ("    access_policy: [{group: g, row_level: {}}]", "`row_level` has `filters`, or `allow_all: true`"),
    ("    access_policy: [{group: g, conditions: [{if: \"true\"}]}]", "`conditions` is not supported"),
    (
        "    dimensions: [{name: x, sql: x, type: number}]\n    access_policy: [{group: g, row_level: }]",
        "`row_level` of an access policy has no value",
    ),
    (
        "    dimensions: [{name: x, sql: x, type: number}]\n    access_policy: [{group: g, row_level: {filters: [{member: x, operator: notEquals, values: [\"t-{ security_context.t }\"]}]}}]",
        "is no value of the security context",
    ),
    (
        "    dimensions: [{name: x, sql: x, type: number}]\n    access_policy: [{group: g, row_level: {filters: [{member: b.id, operator: set}]}}]",
        "unknown dimension of `a` `b.id`",
    ),
    (
        "    dimensions: [{name: x, sql: x, type: string}]\n    pre_aggregations: [{name: p, time_dimension: x, granularity: day}]",
        "`x` is no dimension of type `time`",
    ),
    (
        "    measures: [{name: n, type: count}]\n    pre_aggregations: [{name: p, measures: [n, far.n]}]",
        "the cubes of these members are not joined to each other",
    ),
    (
        "    dimensions: [{name: x, sql: x, type: time, granularities: [{name: g, interval: 2 days, origin: soon}]}]",
        "`soon` is no date",
    ),
    (
        "    joins: [{name: b, relationship: many_to_one, sql: \"{CUBE}.x = {b}.y\"}, {name: b, relationship: one_to_one, sql: \"true\"}]",
        "there is a join to `b` already",
    ),
    ("    dimensions: [{name: CUBE, sql: x, type: number}]", "`CUBE` is no name"),
    ("    extends: z", "unknown cube or view to extend `z`"),
    ("    extends: a", "`a` extends itself"),
];

#[test]
fn what_cubes_say_of_each_other_has_to_fit() {
    for (lines, problem) in MISFITS {
        let found = two(lines);
        assert!(found.iter().any(|found| found.contains(problem)), "{lines}\n{problem}\n{found:#?}");
    }
    let right = [
        "    dimensions: [{name: x, sql: x, type: number}]",
        "    dimensions: [{name: x, sql: \"{CUBE}.tags[1]\", type: number}, {name: y, sql: \"{TABLE}.y\", type: string, primaryKey: true}]",
        // The other cube is joined to this one, and this one not to it.
        "    dimensions: [{name: b, sql: b, type: number}, {name: y, sql: \"{CUBE.b} + {a.b}\", type: number}]",
        "    measures: [{name: n, type: count, drill_members: [far.n]}]\n    preAggregations: [{name: p, type: original_sql, timeDimension: n, partitionGranularity: month}]",
        "    dimensions: [{name: x, sql: x, type: number}]\n    access_policy: [{group: g, memberLevel: {includes: [a.x]}, row_level: {filters: [{member: CUBE.x, operator: equals, values: security_context.x}]}}]",
    ];
    for lines in right {
        assert_eq!(two(lines), Vec::<String>::new(), "{lines}");
    }
}

#[test]
fn a_view_has_members_of_joined_cubes_each_under_a_name_of_its_own() {
    let with_view = |view: &str| {
        let (_, report) = read(&[("shop.yml", SHOP), ("v.yml", view)]);
        report.problems.iter().map(ToString::to_string).collect::<Vec<String>>()
    };
    let cases = [
        ("cubes: [{join_path: customers.orders, includes: \"*\"}]", None),
        ("cubes: [{join_path: order, includes: \"*\"}]", Some("unknown cube `order` (did you mean `orders`?)")),
        (
            "cubes: [{join_path: orders.orders, includes: \"*\"}]",
            Some("no join leads from cube `orders` to cube `orders`"),
        ),
        ("cubes: [{join_path: orders, includes: [state]}]", Some("unknown member of cube `orders` `state`")),
        (
            "cubes: [{join_path: orders, includes: [count]}, {join_path: orders.customers, includes: [count]}]",
            Some("view `v` has a member `count` already"),
        ),
        ("cubes: [{join_path: orders, includes: all}]", Some("`includes` is \"*\" or a list, and here is a text")),
        ("cubes: [{join_path: orders, includes: \"*\", split: true}]", Some("`split` is not supported")),
        ("cubes: []", Some("a view has `cubes`")),
        (
            "cubes: [{join_path: orders, includes: [{name: status, alias: state}], excludes: [status]}]\n    access_policy: [{group: g, row_level: {filters: [{member: state, operator: set}]}}]",
            Some("unknown dimension of `v` `state`"),
        ),
        (
            "cubes: [{join_path: orders, includes: [{name: status, alias: state}]}]\n    access_policy: [{group: g, row_level: {filters: [{member: state, operator: set}]}}]",
            None,
        ),
        (
            "default_filters: [{member: status, operator: set}]\n    cubes: [{join_path: orders, includes: \"*\"}]",
            Some("`default_filters` is not supported"),
        ),
    ];
    for (view, problem) in cases {
        let found = with_view(&format!("views:\n  - name: v\n    {view}\n"));
        match problem {
            None => assert_eq!(found, Vec::<String>::new()),
            Some(problem) => assert!(found.iter().any(|found| found.contains(problem)), "{view}: {found:#?}"),
        }
    }
    assert_eq!(
        with_view("views: [{name: orders, cubes: []}]")[0],
        "v.yml:1:16: `orders` is declared already, at shop.yml:2:11"
    );
}

#[test]
fn clients_are_told_of_cubes_and_views() {
    let model = model(&[("shop.yml", SHOP)]);
    let (admin, nobody) = (security(&["admin"]), security(&[]));
    let orders = model.meta("orders", &admin).expect("it is there");
    assert_eq!(orders["type"], "cube");
    assert_eq!(orders["connectedComponent"], 1);
    let names = |list: &Value| -> Vec<String> {
        let names = list.as_array().expect("a list").iter().map(|member| member["name"].as_str().expect("a name"));
        names.map(str::to_owned).collect()
    };
    // The key is hidden.
    assert_eq!(names(&orders["dimensions"]), ["orders.status", "orders.size", "orders.placed_at"]);
    let total = &orders["measures"][1];
    let expected = json!({
        "name": "orders.total", "title": "Orders Total", "shortTitle": "Total", "isVisible": true, "public": true,
        "format": "currency", "formatDescription": {"name": "currency", "specifier": "$,.2~f", "currency": "EUR"}, "currency": "EUR",
        "cumulativeTotal": false, "cumulative": false, "type": "number", "aggType": "sum", "drillMembers": [],
        "drillMembersGrouped": {"measures": [], "dimensions": []},
    });
    assert_eq!(*total, expected);
    let count = &orders["measures"][0];
    assert_eq!(count["drillMembers"], json!(["orders.id", "customers.city"]));
    assert_eq!(count["formatDescription"], json!({"name": "number", "specifier": ",.2~f"}));
    assert_eq!(orders["measures"][4]["cumulative"], true);
    let granularities = &orders["dimensions"][2]["granularities"];
    let fortnight =
        json!({"name": "fortnight", "title": "Fortnight", "interval": "2 weeks", "origin": "2024-01-01T00:00:00.000"});
    assert_eq!(granularities[1], fortnight);
    assert_eq!(granularities[0]["offset"], "3 months");
    assert_eq!(names(&orders["segments"]), ["orders.large"]);

    let sales = model.meta("sales", &nobody).expect("everybody sees it");
    assert_eq!(sales["type"], "view");
    assert_eq!(sales["title"], "What we sold");
    assert_eq!(sales.get("connectedComponent"), None);
    let buyers = sales["measures"].as_array().expect("a list").last().expect("a measure");
    assert_eq!(buyers["name"], "sales.customers_n");
    assert_eq!(buyers["title"], "What we sold Buyers");
    assert_eq!(buyers["aliasMember"], "customers.count");
    assert_eq!(model.meta("nothing", &admin), None);
}

#[test]
fn whom_no_policy_is_for_is_told_of_nothing() {
    let text = "cubes: [{name: c, sql_table: t, dimensions: [{name: a, sql: a, type: string}, {name: b, sql: b, type: number, format: percent_1}], \
                access_policy: [{group: few, member_level: {includes: [a]}}, {group: all}]}]";
    let model = model(&[("m.yml", text)]);
    let told = |groups: &[&str]| {
        let meta = model.meta("c", &security(groups))?;
        Some(
            meta["dimensions"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|known| known["name"].clone())
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(told(&[]), None);
    assert_eq!(told(&["few"]), Some(vec![json!("c.a")]));
    assert_eq!(told(&["few", "all"]), Some(vec![json!("c.a"), json!("c.b")]));
    let format = json!({"type": "custom-numeric", "value": ".1~%", "alias": "percent_1"});
    assert_eq!(model.meta("c", &security(&["all"])).expect("it is there")["dimensions"][1]["format"], format);
}

fn security(groups: &[&str]) -> Security {
    Security { groups: groups.iter().map(|group| (*group).to_owned()).collect(), ..Security::default() }
}
