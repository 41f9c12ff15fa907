//! Cubes in SQL: every question to a cube has the answer that hand-written SQL over its tables has, ad hoc and maintained, before and after
//! changes; what a model does not let be asked is refused, with what to write instead; models live in the catalog like views do.

use glimpse_test::server::Server;
use glimpse_test::wire::{Message, Wire};

const TABLES: &str = include_str!("../cubes/tables.sql");
const MODEL: &str = include_str!("../cubes/shop.yml");
const QUESTIONS: &str = include_str!("../cubes/questions.sql");

const TENANTS: &str = include_str!("../cubes/tenants.sql");
const TENANTS_MODEL: &str = include_str!("../cubes/tenants.yml");

/// Into a bucket and a group that are there, into new ones, from one to another, out of a group that then is empty, and the largest.
const CHANGES: [&str; 6] = [
    "INSERT INTO raw.orders VALUES (1001, 7, 'paid', 400, '2023-12-05 12:00+00'), (1002, 8, 'open', NULL, NULL)",
    "INSERT INTO raw.orders VALUES (1003, 7, 'new', 12.34, '2031-02-03 04:05:06.999999+00'); INSERT INTO raw.customers VALUES (45, 'Zug', 1)",
    "UPDATE raw.orders SET status = 'open', placed_at = placed_at + interval '40 days', customer_id = 3 WHERE id % 7 = 0",
    "DELETE FROM raw.orders WHERE status = 'new'",
    "DELETE FROM raw.orders WHERE amount = (SELECT max(amount) FROM raw.orders)",
    "DELETE FROM raw.items WHERE product = 'nut'; UPDATE raw.products SET price = price + 1; DELETE FROM raw.customers WHERE id % 3 = 0",
];

type Rows = Vec<Vec<Option<String>>>;

/// A question to a cube, and the same over the tables.
struct Question {
    cube: String,
    tables: String,
}

fn questions() -> Vec<Question> {
    let statement = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with("--"));
        lines.collect::<Vec<_>>().join("\n").trim().to_owned()
    };
    let pairs = QUESTIONS.split("\n\n").map(|block| {
        let statements: Vec<String> =
            block.split(";\n").map(|text| statement(text.trim_end_matches([';', '\n']))).collect();
        let statements: Vec<String> = statements.into_iter().filter(|text| !text.is_empty()).collect();
        let [cube, tables] = <[String; 2]>::try_from(statements).unwrap_or_else(|all| panic!("not a pair: {all:?}"));
        Question { cube, tables }
    });
    pairs.collect()
}

/// The rows in an order of their own, with numbers as short as they can be printed: how many digits an average has is not the question.
fn rows(wire: &mut Wire, sql: &str) -> Rows {
    let shortened = |text: String| match text.contains('.') && text.parse::<f64>().is_ok() {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    };
    let mut rows = wire.rows(sql).unwrap_or_else(|error| panic!("{error}\n{sql}"));
    rows.iter_mut().flatten().for_each(|cell| *cell = cell.take().map(shortened));
    rows.sort();
    rows
}

fn server() -> (Server, Wire) {
    let server = Server::start().expect("a server");
    let mut wire = Wire::start(server.sql_addr(), "materialize", "materialize").expect("a session");
    wire.execute(TABLES).expect("the tables");
    wire.execute(&format!("CREATE SEMANTIC MODEL shop AS $${MODEL}$$")).expect("the model");
    (server, wire)
}

/// What is said of a statement that fails: SQLSTATE, message and hint.
fn refusal(wire: &mut Wire, sql: &str) -> String {
    let messages = wire.query(sql).expect("an answer");
    let error = messages.iter().find_map(Message::error).unwrap_or_else(|| panic!("it was not refused: {sql}"));
    [error.code, error.message, error.detail.unwrap_or_default(), error.hint.unwrap_or_default()].join(" | ")
}

#[test]
fn cubes_answer_as_their_tables_do() {
    let (_server, mut wire) = server();
    let questions = questions();
    assert!(questions.len() >= 30);
    let mut maintained = Vec::new();
    for (at, Question { cube, .. }) in questions.iter().enumerate() {
        // Names for columns that have none of their own.
        let width = rows(&mut wire, cube).first().map_or(1, Vec::len);
        let names: Vec<String> = (0..width).map(|column| format!("c{column}")).collect();
        let create = format!("CREATE MATERIALIZED VIEW m{at} ({}) AS {cube}", names.join(", "));
        match wire.sqlstate(&create).expect("an answer").as_deref() {
            None => maintained.push(at),
            // What the maintained path does not take, whatever it is over.
            Some("0A000") => {}
            Some(other) => panic!("{other}: {create}"),
        }
    }
    assert!(maintained.len() >= 25, "{} of {} are maintained", maintained.len(), questions.len());
    let mut answered = 0;
    for change in std::iter::once(&"SELECT 1").chain(&CHANGES) {
        wire.execute(change).expect("a change");
        for (at, Question { cube, tables }) in questions.iter().enumerate() {
            let expected = rows(&mut wire, tables);
            answered += usize::from(!expected.is_empty());
            assert_eq!(rows(&mut wire, cube), expected, "after {change}:\n{cube}");
            if maintained.contains(&at) {
                let found = rows(&mut wire, &format!("SELECT * FROM m{at}"));
                assert_eq!(found, expected, "maintained, after {change}:\n{cube}");
            }
        }
    }
    // That nothing is nothing says little.
    assert!(answered >= 6 * questions.len(), "{answered}");
}

#[test]
fn what_a_model_does_not_let_be_asked_is_refused_with_what_to_write() {
    let (_server, mut wire) = server();
    let refused = [
        (
            "SELECT AVG(total) FROM orders",
            "42809 | measure aggregation type doesn't match: \"total\" is sum()",
            "MEASURE(total)",
        ),
        ("SELECT COUNT(buyers) FROM orders", "42809", "MEASURE(buyers)"),
        (
            "SELECT MEASURE(status) FROM orders",
            "42809 | the argument of MEASURE is no measure",
            "declares as a measure",
        ),
        ("SELECT MEASURE(total + 1) FROM orders", "42809", "nothing around it"),
        ("SELECT MEASURE(DISTINCT total) FROM orders", "0A000", ""),
        ("SELECT MEASURE(total) OVER () FROM orders", "0A000", "sum(MEASURE(m)) OVER"),
        (
            "SELECT status, total FROM orders GROUP BY 1",
            "42803 | column \"orders.total\" must appear",
            "Write MEASURE(total).",
        ),
        ("SELECT status, MEASURE(count) FROM orders WHERE total > 5 GROUP BY 1", "42803 | measure \"total\"", "HAVING"),
        ("SELECT total, MEASURE(count) FROM orders GROUP BY 1", "42803 | measure \"total\"", "sub-query"),
        (
            "SELECT MEASURE(o.total) FROM orders o JOIN raw.regions r ON o.total = 1",
            "42803 | measure \"total\"",
            "HAVING",
        ),
        (
            "SELECT MEASURE(o.total), MEASURE(c.count) FROM orders o JOIN customers c ON o.city = c.city",
            "42803",
            "Declare a view",
        ),
        ("SELECT MEASURE(total) FROM (SELECT total FROM orders LIMIT 3) t", "42809", ""),
        ("SELECT count(*) FROM sales GROUP BY city", "", ""),
        ("SELECT status, MEASURE(total) FROM orders GROUP BY ROLLUP (status)", "0A000", "UNION ALL"),
        ("SELECT lines FROM keyless", "42803", "primary_key"),
        ("SELECT MEASURE(month_to_date) FROM orders", "0A000 | the rolling window of measure \"month_to_date\"", ""),
        ("SELECT * FROM products", "42P01", ""),
        ("SELECT id FROM orders", "42703", ""),
        ("INSERT INTO orders (status) VALUES ('x')", "42809 | cannot change cube", ""),
        ("CREATE INDEX i ON orders (status)", "42809", ""),
        ("SELECT * FROM shop", "42809 | \"shop\" is a semantic model", ""),
        ("SELECT * FROM orders FOR UPDATE", "42809", ""),
    ];
    for (sql, begins, ends) in refused {
        if begins.is_empty() {
            // The measure of that name.
            wire.execute(sql).expect("a count");
            continue;
        }
        let said = refusal(&mut wire, sql);
        assert!(said.starts_with(begins) && said.contains(ends), "{sql}\n{said}");
    }
}

/// Queries in Cube's JSON, and their rows in order over the tables.
const ORDERED: [(&str, &str); 4] = [
    // By itself by the first measure, the largest first.
    (
        r#"{"measures": ["orders.count", "orders.total"], "dimensions": ["orders.city", "orders.size"], "limit": 3}"#,
        "SELECT * FROM (SELECT city, CASE WHEN amount > 500 THEN 'large' WHEN amount > 100 THEN 'middle' ELSE 'small' END AS size, count(*) AS n, sum(amount) \
      FROM raw.orders o LEFT JOIN raw.customers c ON c.id = o.customer_id GROUP BY 1, 2) x ORDER BY n DESC LIMIT 3",
    ),
    (
        r#"{"measures": ["orders.total"], "dimensions": ["orders.status"], "order": {"orders.status": "desc"}, "limit": 2, "offset": 1}"#,
        "SELECT status, sum(amount) FROM raw.orders GROUP BY 1 ORDER BY 1 DESC LIMIT 2 OFFSET 1",
    ),
    (
        r#"{"measures": ["orders.count"], "timeDimensions": [{"dimension": "orders.placed_at", "granularity": "month"}], "dimensions": ["orders.status"],
         "order": [["orders.placed_at", "asc"], ["orders.status", "asc"]]}"#,
        "SELECT status, date_trunc('month', placed_at AT TIME ZONE 'UTC'), count(*) FROM raw.orders GROUP BY 1, 2 ORDER BY 2, 1",
    ),
    (r#"{"dimensions": ["items.product"]}"#, "SELECT DISTINCT product FROM raw.items ORDER BY 1"),
];

#[test]
fn queries_in_cubes_json_have_their_order_and_are_refused_in_cubes_words() {
    let (_server, mut wire) = server();
    for (query, tables) in ORDERED {
        let found = wire.rows(&format!("SELECT * FROM cube_load($${query}$$)")).expect("rows");
        assert_eq!(found, wire.rows(tables).expect("rows"), "{query}");
    }
    let columns = wire.query(
        "SELECT * FROM cube_load('{\"measures\": [\"orders.count\"], \"dimensions\": [\"orders.placed_at.week\"]}')",
    );
    let columns = columns.expect("rows").iter().find(|message| message.tag == b'T').expect("a description").columns();
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["orders.placed_at.week", "orders.count"]);
    let refused = [
        (r#"{"measures": ["orders.nothing"]}"#, "42703 | 'orders.nothing' not found for path 'orders.nothing'"),
        (r#"{"measures": ["orders.id"]}"#, "42703"),
        (r#"{"measures": ["nowhere.count"]}"#, "42P01"),
        (r#"{"measures": ["orders.status"]}"#, "22023 | \"orders.status\" is no measure"),
        (r#"{"dimensions": ["orders.total"]}"#, "22023 | \"orders.total\" is a measure"),
        (r#"{"measures": ["orders.count"], "x": 1}"#, "22023 | Invalid query format: \"x\" is not allowed"),
        (r#"{"measures": []}"#, "22023 | Query should contain either measures"),
        (r#"{"measures": ["#, "22023"),
        (r#"{"measures": ["orders.count", "payments.received", "keyless.lines"]}"#, "42803 | Can't find join path"),
        (r#"{"measures": ["orders.count", "sales.total"]}"#, "42803"),
        (
            r#"{"measures": ["orders.count"], "dimensions": ["orders.placed_at.fortnite"]}"#,
            "22023 | Granularity \"fortnite\"",
        ),
        (
            r#"{"measures": ["orders.count"], "filters": [{"or": [{"member": "orders.count", "operator": "gt", "values": ["1"]}, {"member": "orders.status", "operator": "set"}]}]}"#,
            "22023 | You cannot use dimension and measure filters",
        ),
        // What is relative would be as of when it was planned.
        (
            r#"{"measures": ["orders.count"], "timeDimensions": [{"dimension": "orders.placed_at", "dateRange": "last week"}]}"#,
            "22023 | Can't parse date",
        ),
        (r#"{"measures": ["orders.month_to_date"]}"#, "0A000"),
    ];
    for (query, begins) in refused {
        let said = refusal(&mut wire, &format!("SELECT * FROM cube_load($${query}$$)"));
        assert!(said.starts_with(begins), "{query}\n{said}");
    }
    for (sql, begins) in [
        ("SELECT * FROM cube_load($1)", "0A000"),
        ("SELECT * FROM cube_load('{}' || '')", "0A000"),
        ("SELECT cube_load('{}')", "42883"),
    ] {
        assert!(refusal(&mut wire, sql).starts_with(begins), "{sql}: {}", refusal(&mut wire, sql));
    }
}

/// A model with so many dimensions, each made of the one before it.
fn chain(count: usize, next: &str) -> String {
    let next = |at: usize| next.replace("dN", &format!("d{}", at - 1));
    let dimension = |at: usize| {
        let sql = if at == 0 { "id".to_owned() } else { next(at) };
        format!("{{name: d{at}, sql: \"{sql}\", type: number}}")
    };
    let dimensions: Vec<String> = (0..count).map(dimension).collect();
    format!(
        "CREATE SEMANTIC MODEL m AS $$cubes: [{{name: c, sql_table: raw.orders, dimensions: [{}]}}]$$",
        dimensions.join(", ")
    )
}

#[test]
fn what_is_wrong_with_a_model_is_said_and_what_it_needs_stays() {
    let (_server, mut wire) = server();
    let (long, doubled) = (chain(500, "{CUBE.dN} + 1"), chain(40, "{CUBE.dN} + {CUBE.dN}"));
    let refused = [
        ("CREATE SEMANTIC MODEL shop AS $$cubes: []$$", "42P07"),
        (
            "CREATE SEMANTIC MODEL again AS $$cubes: [{name: orders, sql_table: raw.orders}]$$",
            "42P07 | relation \"orders\"",
        ),
        ("CREATE TABLE sales (a int)", "42P07"),
        (
            "CREATE SEMANTIC MODEL m AS $$cubes: [{name: c, sql_tabel: t}]$$",
            "42P17 | the semantic model has 2 mistakes | model.yml:1:9",
        ),
        (
            "CREATE SEMANTIC MODEL m AS $$cubes: [{name: c, sql_table: t}]$$",
            "42P01 | relation \"t\" does not exist, at model.yml",
        ),
        (
            "CREATE SEMANTIC MODEL m AS $$cubes: [{name: c, sql_table: raw.orders, measures: [{name: s, sql: statuss, type: sum}]}]$$",
            "42703 | column \"statuss\" does not exist, at model.yml",
        ),
        (
            "CREATE SEMANTIC MODEL m AS $$cubes: [{name: c, sql_table: raw.orders, measures: [{name: s, sql: status, type: sum}]}]$$",
            "42883",
        ),
        (
            "CREATE SEMANTIC MODEL m AS $$cubes: [{name: c, sql_table: raw.orders, dimensions: [{name: s, sql: status, type: time}]}]$$",
            "42804",
        ),
        ("CREATE SEMANTIC MODEL m AS $$cubes: [{name: c, sql_table: orders}]$$", "0A000"),
        (
            "DROP TABLE raw.orders",
            "2BP01 | cannot drop table raw.orders because other objects depend on it | semantic model shop",
        ),
        ("ALTER TABLE raw.orders DROP COLUMN amount", "2BP01 | cannot drop column amount"),
        ("ALTER TABLE raw.orders ALTER COLUMN amount TYPE int8", "0A000"),
        ("DROP TABLE orders", "42809"),
        ("DROP VIEW orders", "42809"),
        ("ALTER TABLE orders RENAME TO x", "42809"),
        ("ALTER TABLE orders OWNER TO mz_system", "42809"),
        ("DROP SEMANTIC MODEL nowhere", "42P01"),
        ("ALTER SEMANTIC MODEL raw.orders AS $$cubes: []$$", "42809"),
        ("GRANT SELECT ON shop TO mz_system", "42809"),
        // Members without end.
        (long.as_str(), "54001"),
        (doubled.as_str(), "54001"),
        (
            "CREATE SEMANTIC MODEL m AS $$cubes: [{name: a1, sql: SELECT 1 AS id, joins: [{name: b1, relationship: one_to_many, sql: \"{CUBE.s} = {b1}.id\"}], \
          dimensions: [{name: id, sql: id, type: number, primary_key: true}, {name: s, sql: \"{b1.m}\", type: number, sub_query: true}]}, \
          {name: b1, sql: SELECT 1 AS id, dimensions: [{name: id, sql: id, type: number, primary_key: true}], measures: [{name: m, type: count}]}]$$",
            "54001",
        ),
        (
            "CREATE SEMANTIC MODEL m AS $$cubes: [{name: c, sql_table: raw.orders, measures: [{name: s, sql: \"generate_series(1, sum(id)::int)\", type: number}]}]$$",
            "0A000",
        ),
    ];
    for (sql, begins) in refused {
        let said = refusal(&mut wire, sql);
        assert!(said.starts_with(begins), "{sql}\n{said}");
    }
    // Names of what it reads, and columns beside those that it reads, may become others.
    wire.execute("ALTER TABLE raw.orders RENAME COLUMN amount TO price").expect("it is renamed");
    wire.execute("ALTER TABLE raw.orders ADD COLUMN quantity int").expect("it is added");
    wire.execute("ALTER TABLE raw.orders RENAME TO placed").expect("it is renamed");
    let total = "SELECT MEASURE(total), MEASURE(count) FROM orders";
    let expected = rows(&mut wire, "SELECT sum(price), count(*) FROM raw.placed");
    assert_eq!(rows(&mut wire, total), expected);
}

const TOTAL: &str = "SELECT MEASURE(total), MEASURE(count) FROM orders";
const BY_STATUS: &str = "SELECT status, MEASURE(total) FROM orders GROUP BY 1";

#[test]
fn cubes_are_relations_of_the_catalog_with_privileges() {
    let (mut server, mut wire) = server();
    // As relations, with comments and privileges.
    let column = "SELECT format_type(atttypid, atttypmod), col_description(attrelid, attnum), obj_description(attrelid, 'pg_class'), relkind \
                  FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid WHERE relname = 'orders' AND attname = 'amount' AND relkind <> 'r'";
    let found = rows(&mut wire, column);
    let [row] = found.as_slice() else { panic!("{found:?}") };
    let row: Vec<&str> = row.iter().map(|cell| cell.as_deref().expect("a text")).collect();
    assert!(row[0].starts_with("numeric"), "{row:?}");
    assert_eq!(row[1..], ["How much", "What customers have ordered", "v"]);
    let sql = wire.rows("SHOW CREATE SEMANTIC MODEL shop").expect("a statement")[0][1].clone().expect("a text");
    assert!(sql.starts_with("CREATE SEMANTIC MODEL materialize.public.shop AS '") && sql.contains("median"), "{sql}");

    let mut system = Wire::start(server.internal_sql_addr(), "mz_system", "materialize").expect("a session");
    system.execute("CREATE ROLE reader LOGIN").expect("a role");
    let mut reader = Wire::start(server.sql_addr(), "reader", "materialize").expect("a session");
    assert!(refusal(&mut reader, TOTAL).starts_with("42501"));
    wire.execute("GRANT SELECT (status, total) ON orders TO reader").expect("granted");
    // The tables are read by the rights of the model's owner.
    reader.execute(BY_STATUS).expect("allowed");
    assert!(refusal(&mut reader, TOTAL).starts_with("42501"));
    assert!(refusal(&mut reader, "SELECT * FROM raw.orders").starts_with("42501"));
    assert!(refusal(&mut reader, "DROP SEMANTIC MODEL shop").starts_with("42501"));

    // Nothing is lost in a kill.
    let expected = rows(&mut wire, TOTAL);
    server.kill9().expect("it is killed");
    server.restart().expect("it starts");
    let mut wire = Wire::start(server.sql_addr(), "materialize", "materialize").expect("a session");
    assert_eq!(rows(&mut wire, TOTAL), expected);
    let mut reader = Wire::start(server.sql_addr(), "reader", "materialize").expect("a session");
    reader.execute(BY_STATUS).expect("allowed");
    assert_eq!(rows(&mut wire, "SHOW CREATE SEMANTIC MODEL shop")[0][1].as_deref(), Some(sql.as_str()));
}

#[test]
fn a_model_is_altered_and_dropped() {
    let (server, mut wire) = server();
    let mut system = Wire::start(server.internal_sql_addr(), "mz_system", "materialize").expect("a session");
    system.execute("CREATE ROLE reader LOGIN").expect("a role");
    wire.execute("GRANT SELECT (status, total) ON orders TO reader").expect("granted");
    wire.execute("CREATE VIEW over AS SELECT status, MEASURE(total) AS total FROM orders GROUP BY 1").expect("a view");
    // Another one in its place: cubes that stay keep what was granted.
    let other = "ALTER SEMANTIC MODEL shop AS FILE 'a.yml' $$cubes: [{name: orders, sql_table: raw.orders, refresh_key: {every: 1 hour}, \
                 dimensions: [{name: status, sql: status, type: string}], measures: [{name: total, sql: amount * 2, type: sum}]}]$$, \
                 FILE 'b.yml' $$views: [{name: more, cubes: [{join_path: orders, includes: \"*\"}]}]$$";
    let said = refusal(&mut wire, other);
    assert!(
        said.starts_with("2BP01 | cannot change semantic model shop")
            && said.contains("view over depends on cube orders"),
        "{said}"
    );
    wire.execute("DROP VIEW over").expect("dropped");
    let messages = wire.query(other).expect("an answer");
    let notice = messages.iter().find_map(Message::notice).expect("a notice");
    assert!(notice.message.contains("`refresh_key` has no effect"), "{notice}");
    assert_eq!(wire.sqlstate("SELECT * FROM sales").expect("an answer").as_deref(), Some("42P01"));
    let mut reader = Wire::start(server.sql_addr(), "reader", "materialize").expect("a session");
    reader.execute(BY_STATUS).expect("allowed");
    assert_eq!(
        rows(&mut wire, "SELECT SUM(total) FROM more"),
        rows(&mut wire, "SELECT sum(amount * 2) FROM raw.orders")
    );

    // In a transaction, and gone with its schema.
    wire.execute("BEGIN; DROP SEMANTIC MODEL shop").expect("dropped");
    wire.execute("ROLLBACK; SELECT MEASURE(total) FROM orders").expect("it is there");
    wire.execute("CREATE SCHEMA s; CREATE SEMANTIC MODEL s.m AS $$cubes: [{name: c, sql_table: raw.items}]$$")
        .expect("a model");
    assert!(refusal(&mut wire, "DROP SCHEMA s").starts_with("2BP01"));
    wire.execute("DROP SCHEMA s CASCADE; DROP SEMANTIC MODEL shop; DROP TABLE raw.orders").expect("dropped");
    assert_eq!(wire.rows("SHOW SEMANTIC MODELS").expect("rows"), Rows::new());
    wire.execute("CREATE TABLE orders (a int)").expect("the name is free");
}

/// Roles, their groups, and which invoices each may see.
const READERS: [(&str, &[&str], &str); 6] = [
    ("amy", &["tenant_a"], "tenant = 'a'"),
    ("bob", &["tenant_b"], "(tenant = 'b' OR amount > 900.5 AND note ILIKE '%50\\%\\_%') AND sent_at >= '2024-01-02'"),
    ("eve", &["tenant_a", "named"], "tenant IN ('a', 'eve')"),
    ("ann", &["named"], "tenant = 'ann'"),
    ("max", &["boss", "tenant_a"], "true"),
    // The policy is by something that nobody says here.
    ("zoe", &["claimed"], "false"),
];

/// Questions, and the same over the invoices that the role may see.
const SEEN: [(&str, &str); 14] = [
    ("SELECT MEASURE(count), MEASURE(total) FROM invoices", "SELECT count(*), sum(amount) FROM i"),
    ("SELECT tenant, MEASURE(count) FROM invoices GROUP BY 1", "SELECT tenant, count(*) FROM i GROUP BY 1"),
    (
        "SELECT tenant, amount, client FROM invoices",
        "SELECT tenant, amount, name FROM i LEFT JOIN raw.clients c ON c.id = i.client_id",
    ),
    (
        "SELECT amount, total FROM invoices WHERE tenant IS NOT NULL",
        "SELECT amount, amount FROM i WHERE tenant IS NOT NULL",
    ),
    (
        "SELECT clients_name, MEASURE(total), MEASURE(clients_count) FROM billing GROUP BY 1",
        "SELECT name, sum(amount), count(DISTINCT c.id) FROM i LEFT JOIN raw.clients c ON c.id = i.client_id GROUP BY 1",
    ),
    (
        "SELECT name, invoices_sent FROM clients",
        "SELECT name, count(i.id) FROM raw.clients c LEFT JOIN i ON c.id = i.client_id GROUP BY c.id, name",
    ),
    ("SELECT name, notes FROM clients", "SELECT name, note FROM raw.clients c JOIN i ON c.id = i.client_id"),
    ("SELECT MEASURE(billed) FROM clients", "SELECT sum(amount) FROM raw.clients c JOIN i ON c.id = i.client_id"),
    (
        "SELECT name, MEASURE(total) FROM notes GROUP BY 1",
        "SELECT name, sum(amount) FROM raw.clients c JOIN i ON c.id = i.client_id WHERE name <> 'client 3' OR current_user = 'max' GROUP BY 1",
    ),
    (
        "SELECT MEASURE(i.total) FROM invoices i JOIN clients c ON i.client = c.name OR true",
        "SELECT CASE WHEN (SELECT count(*) FROM raw.clients) > 0 THEN sum(amount) END FROM i",
    ),
    (
        "SELECT MEASURE(total) FILTER (WHERE tenant = 'c' OR true) FROM invoices WHERE true OR tenant = 'b'",
        "SELECT sum(amount) FROM i",
    ),
    (
        "SELECT * FROM cube_load('{\"measures\": [\"invoices.total\"], \"dimensions\": [\"clients.name\"], \"order\": []}')",
        "SELECT name, sum(amount) FROM i LEFT JOIN raw.clients c ON c.id = i.client_id GROUP BY 1",
    ),
    (
        "SELECT * FROM cube_load('{\"measures\": [\"notes.total\"], \"dimensions\": [\"notes.name\"], \"order\": []}')",
        "SELECT name, sum(amount) FROM raw.clients c JOIN i ON c.id = i.client_id WHERE name <> 'client 3' OR current_user = 'max' GROUP BY 1",
    ),
    (
        "SELECT count(*) FROM (SELECT tenant FROM invoices WHERE tenant = 'c' UNION ALL SELECT tenant FROM billing WHERE tenant = 'c') x",
        "SELECT 2 * count(*) FROM i WHERE tenant = 'c'",
    ),
];

/// A server with the tenants' model, and a session of its superuser.
fn tenants() -> (Server, Wire) {
    let server = Server::start().expect("a server");
    let mut system = Wire::start(server.internal_sql_addr(), "mz_system", "materialize").expect("a session");
    system.execute(TENANTS).expect("the tables");
    system.execute(&format!("CREATE SEMANTIC MODEL tenants AS $${TENANTS_MODEL}$$")).expect("the model");
    system.execute("GRANT SELECT ON invoices, clients, billing, notes TO PUBLIC").expect("granted");
    system.execute("GRANT CREATE ON SCHEMA public TO PUBLIC").expect("granted");
    for group in ["tenant_a", "tenant_b", "boss", "named", "claimed"] {
        system.execute(&format!("CREATE ROLE {group}")).expect("a role");
    }
    system.execute("CREATE ROLE nobody LOGIN; CREATE ROLE ghost LOGIN").expect("roles");
    for (role, groups, _) in READERS {
        system.execute(&format!("CREATE ROLE {role} LOGIN; GRANT {} TO {role}", groups.join(", "))).expect("a role");
    }
    (server, system)
}

#[test]
fn nobody_sees_rows_of_others_through_a_cube() {
    let (server, mut system) = tenants();
    for (role, _, condition) in READERS {
        let mut wire = Wire::start(server.sql_addr(), role, "materialize").expect("a session");
        for (cube, tables) in SEEN {
            let tables = format!("WITH i AS (SELECT * FROM raw.invoices WHERE {condition}) {tables}");
            let tables = tables.replace("current_user", &format!("'{role}'"));
            assert_eq!(rows(&mut wire, cube), rows(&mut system, &tables), "{role}: {cube}");
        }
        // The same, prepared before the role is another one.
        wire.execute("PREPARE p AS SELECT tenant, MEASURE(total) FROM invoices GROUP BY 1").expect("prepared");
        let tables = format!("SELECT tenant, sum(amount) FROM raw.invoices WHERE {condition} GROUP BY 1");
        assert_eq!(rows(&mut wire, "EXECUTE p"), rows(&mut system, &tables), "{role}");
        if role == "max" {
            wire.execute("SET ROLE tenant_a").expect("allowed");
            let own = "SELECT tenant, sum(amount) FROM raw.invoices WHERE tenant = 'a' GROUP BY 1";
            assert_eq!(rows(&mut wire, "EXECUTE p"), rows(&mut system, own));
            wire.execute("RESET ROLE").expect("its own");
        }
        // A view shows its owner's rows. Who may see what changes, and so nothing of it is maintained.
        let query = "SELECT tenant, MEASURE(total) AS t FROM invoices GROUP BY 1";
        wire.execute(&format!("CREATE VIEW v_{role} AS {query}")).expect("a view");
        assert_eq!(rows(&mut system, &format!("SELECT * FROM v_{role}")), rows(&mut system, &tables), "{role}");
        let maintained =
            [format!("CREATE MATERIALIZED VIEW m AS {query}"), format!("CREATE DEFAULT INDEX ON v_{role}")];
        for sql in maintained {
            assert!(refusal(&mut wire, &sql).starts_with("0A000"), "{sql}");
        }
    }
}

#[test]
fn errors_and_refusals_tell_of_no_row_and_no_member() {
    let (server, mut system) = tenants();
    // No error tells of a row that may not be seen.
    let mut bob = Wire::start(server.sql_addr(), "bob", "materialize").expect("a session");
    let probe = "CASE WHEN tenant = 'c' AND amount < 900 THEN tenant || ':' || amount ELSE '1' END::int";
    let all = rows(&mut bob, "SELECT MEASURE(count) FROM invoices");
    for sql in [
        format!("SELECT MEASURE(count) FROM invoices WHERE ({probe}) = 1"),
        format!("SELECT count(*) FROM (SELECT tenant, amount FROM invoices) x WHERE ({probe}) = 1"),
        format!("SELECT sum({probe}) FROM invoices"),
        format!("SELECT MEASURE(i.count) FROM invoices i JOIN (VALUES (1)) v (one) ON ({probe}) = one"),
    ] {
        assert_eq!(rows(&mut bob, &sql), all, "{sql}");
    }
    // Without a group that a policy is for there is nothing to see, whichever way; nor members that a policy hides.
    let mut nobody = Wire::start(server.sql_addr(), "nobody", "materialize").expect("a session");
    for (sql, _) in SEEN.iter().filter(|(sql, _)| *sql != "SELECT name, MEASURE(count) FROM clients GROUP BY 1") {
        let said = refusal(&mut nobody, sql);
        assert!(said.starts_with("42501 | permission denied for cube \"invoices\""), "{sql}\n{said}");
    }
    nobody.execute("SELECT name, MEASURE(count) FROM clients GROUP BY 1").expect("no policy is in the way");
    let mut amy = Wire::start(server.sql_addr(), "amy", "materialize").expect("a session");
    for sql in [
        "SELECT MEASURE(margin) FROM invoices",
        "SELECT margin FROM billing",
        "SELECT note FROM notes",
        "SELECT * FROM invoices",
    ] {
        assert!(refusal(&mut amy, sql).starts_with("42501"), "{sql}");
    }
    // count(*) is the measure of that name, which has to be granted.
    system.execute("SET search_path = public; REVOKE SELECT ON invoices FROM PUBLIC; GRANT SELECT (tenant, total) ON invoices TO amy").expect("granted");
    assert!(refusal(&mut amy, "SELECT count(*) FROM invoices").starts_with("42501"));
    amy.execute("SELECT tenant, MEASURE(total) FROM invoices GROUP BY 1").expect("granted");
    system.execute("GRANT SELECT ON invoices TO PUBLIC").expect("granted");
}

#[test]
fn policies_go_with_roles_and_end() {
    let (server, mut system) = tenants();
    let mut nobody = Wire::start(server.sql_addr(), "nobody", "materialize").expect("a session");
    let mut amy = Wire::start(server.sql_addr(), "amy", "materialize").expect("a session");
    // What clients are told of: cubes and members that a policy shows.
    let told = "SELECT name, jsonb_array_length(meta->'measures'), meta->>'title' FROM mz_internal.mz_cubes ORDER BY 1";
    let text = |text: &str| Some(text.to_owned());
    let row = |name: &str, measures: &str, title: &str| vec![text(name), text(measures), text(title)];
    let of_nobody = vec![row("billing", "1", "Billing"), row("clients", "2", "Clients"), row("notes", "0", "Notes")];
    assert_eq!(rows(&mut nobody, told), of_nobody);
    let of_amy = vec![
        row("billing", "3", "Billing"),
        row("clients", "2", "Clients"),
        row("invoices", "2", "Invoices"),
        row("notes", "1", "Notes"),
    ];
    assert_eq!(rows(&mut amy, told), of_amy);
    let mut ghost = Wire::start(server.sql_addr(), "ghost", "materialize").expect("a session");
    system.execute("REVOKE SELECT ON clients FROM PUBLIC").expect("revoked");
    assert_eq!(rows(&mut ghost, told).len(), 2);
    system.execute("GRANT SELECT ON clients TO PUBLIC").expect("granted");
    // A policy that leads back to itself, and as many filters as there may be, are refused or answered.
    system.execute("CREATE SCHEMA deep; SET search_path = deep; CREATE SEMANTIC MODEL m AS $$cubes: [{name: pa, sql: SELECT 1 AS id, \
                    joins: [{name: pb, relationship: one_to_many, sql: \"{CUBE}.id = {pb}.id\"}], \
                    dimensions: [{name: id, sql: id, type: number, primary_key: true}, {name: s, sql: \"{pb.m}\", type: number, sub_query: true}], \
                    access_policy: [{group: \"*\", row_level: {filters: [{member: s, operator: set}]}}]}, \
                    {name: pb, sql: SELECT 1 AS id, dimensions: [{name: id, sql: id, type: number, primary_key: true}], measures: [{name: m, type: count}]}]$$").expect("a model");
    assert!(refusal(&mut system, "SELECT count(*) FROM pa").starts_with("54001"));
    let filters = vec![
        r#"{"member": "invoices.amount", "operator": "set"}, {"member": "invoices.total", "operator": "set"}"#;
        250
    ]
    .join(", ");
    let sql = format!("SELECT * FROM cube_load('{{\"measures\": [\"invoices.count\"], \"filters\": [{filters}]}}')");
    assert_eq!(rows(&mut amy, &sql), rows(&mut amy, "SELECT MEASURE(count) FROM invoices"));
    // What is granted and taken away counts at once.
    let before = rows(&mut amy, "SELECT MEASURE(count) FROM invoices");
    system.execute("GRANT boss TO amy").expect("granted");
    assert_eq!(
        rows(&mut amy, "SELECT MEASURE(count) FROM invoices"),
        rows(&mut system, "SELECT count(*) FROM raw.invoices")
    );
    system.execute("REVOKE boss FROM amy").expect("revoked");
    assert_eq!(rows(&mut amy, "SELECT MEASURE(count) FROM invoices"), before);
    assert!(refusal(&mut amy, "SET ROLE boss").starts_with("42501"));
}
