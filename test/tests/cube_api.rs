//! Cube's API: what a query in Cube's JSON asks has the same rows by every door, and they are those of SQL over the tables, before and after
//! changes; what is told beside the rows; who sees what by a token's claims; and what is followed.

mod cube_api {
    mod described;
    mod followed;
    mod lines;
    mod tenants;
}

use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow_ipc::reader::StreamReader;
use glimpse_test::http::{Answer, Http};
use glimpse_test::server::Server;
use glimpse_test::wire::Wire;
use serde_json::{Map, Value, json};

const TABLES: &str = include_str!("../cubes/reference.sql");
const MODEL: &str = include_str!("../cubes/reference.yml");
const LOADS: &str = include_str!("../cubes/loads.sql");

/// Into a bucket that is there, into a new one, from one bucket and market to others, the only row of a group, the largest.
const CHANGES: [&str; 5] = [
    "INSERT INTO raw.orders VALUES (4001, 'DE', 'Acme', '2024-01-10 12:00+00', '2024-01-10 12:00+00', 5, 700.5, 41, 1)",
    "INSERT INTO raw.orders VALUES (4002, 'UK', NULL, '2027-05-06 07:08:09.123+00', '2027-05-06 00:00+00', 6, 300, 3, 2)",
    "UPDATE raw.orders SET updated_at = updated_at + interval '33 days', market_code = 'SE' WHERE id % 10 = 3",
    "DELETE FROM raw.orders WHERE market_code = 'FI'",
    "DELETE FROM raw.orders WHERE total_amount = (SELECT max(total_amount) FROM raw.orders)",
];

type Rows = Vec<Vec<Option<String>>>;

/// A query, and the same over the tables.
struct Load {
    query: Map<String, Value>,
    tables: String,
    /// Whether the order of its rows is told, and total.
    is_ordered: bool,
}

fn loads() -> Vec<Load> {
    let blocks = LOADS.split("\n\n").map(|block| {
        let is_ordered = block.lines().any(|line| line == "-- ordered");
        let lines: Vec<&str> = block.lines().filter(|line| !line.starts_with("--")).collect();
        let [query, tables] = lines.as_slice() else { panic!("not a pair: {block}") };
        let query =
            serde_json::from_str(query.trim_end_matches(';')).unwrap_or_else(|error| panic!("{error}: {query}"));
        Load { query, tables: tables.trim_end_matches(';').to_owned(), is_ordered }
    });
    blocks.collect()
}

fn server(flags: &[&str]) -> (Server, Wire) {
    let server = Server::start_with(flags).expect("a server");
    let mut wire = Wire::start(server.sql_addr(), "materialize", "materialize").expect("a session");
    wire.execute(TABLES).expect("the tables");
    wire.execute(&format!("CREATE SEMANTIC MODEL reference AS $${MODEL}$$")).expect("the model");
    (server, wire)
}

fn http(server: &Server) -> Http {
    Http::connect(server.http_addr()).expect("a connection")
}

/// Asks for something of Cube's API, by POST.
fn post(http: &mut Http, method: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    let headers = [&[("Content-Type", "application/json")], headers].concat();
    let path = format!("/cubejs-api/v1/{method}");
    http.ask("POST", &path, &headers, body.to_string().as_bytes()).expect("an answer")
}

fn ok(answer: &Answer) -> Value {
    assert_eq!((answer.status, answer.is_whole), (200, true), "{}", answer.text());
    answer.json().expect("JSON")
}

/// The result of a query.
fn loaded(http: &mut Http, query: &Value) -> Value {
    ok(&post(http, "load", &[], &json!({ "query": query })))
}

/// A value as every door's is written here: as few digits as there are, times to the millisecond.
fn plain(text: String) -> String {
    let is_time = text.as_bytes().get(4) == Some(&b'-') && text.len() >= 19;
    match text.contains('.') && text.parse::<f64>().is_ok() {
        _ if is_time => {
            let text = text.replacen('T', " ", 1);
            let (second, fraction) = text.split_once('.').unwrap_or((&text, ""));
            format!("{second}.{:0<3}", &fraction[..fraction.len().min(3)])
        }
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn cell(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(plain(text.clone())),
        Value::Bool(flag) => Some(if *flag { "t" } else { "f" }.to_owned()),
        other => panic!("no cell: {other}"),
    }
}

fn by_sql(wire: &mut Wire, sql: &str) -> Rows {
    let mut rows = wire.rows(sql).unwrap_or_else(|error| panic!("{error}\n{sql}"));
    rows.iter_mut().flatten().for_each(|cell| *cell = cell.take().map(plain));
    rows
}

/// The rows of a result, whose columns are those with these names.
fn by_rest(result: &Value, columns: &[String]) -> Rows {
    let data = &result["data"];
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let place = |name: &String| list(&data["members"]).iter().position(|member| member == name).expect("a member");
    match result["query"]["responseFormat"].as_str() {
        None => {
            let row = |row: &Value| columns.iter().map(|name| cell(row.get(name).expect("a cell"))).collect();
            list(data).iter().map(row).collect()
        }
        Some("compact") => {
            let row = |row: &Value| columns.iter().map(|name| cell(&row[place(name)])).collect();
            list(&data["dataset"]).iter().map(row).collect()
        }
        Some("columnar") => {
            let all: Vec<Vec<Value>> = columns.iter().map(|name| list(&data["columns"][place(name)])).collect();
            let count = all.first().map_or(0, Vec::len);
            assert!(all.iter().all(|column| column.len() == count));
            (0..count).map(|row| all.iter().map(|column| cell(&column[row])).collect()).collect()
        }
        Some(other) => panic!("{other}"),
    }
}

fn by_arrow(answer: &Answer) -> (Vec<String>, Rows) {
    assert_eq!((answer.status, answer.is_whole), (200, true), "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/vnd.apache.arrow.stream"));
    let reader = StreamReader::try_new(&answer.body[..], None).expect("a stream");
    let names = reader.schema().fields().iter().map(|field| field.name().clone()).collect();
    let mut rows = Vec::new();
    for batch in reader {
        let batch = batch.expect("a batch");
        let options = FormatOptions::default();
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options).expect("it is shown"))
            .collect();
        for row in 0..batch.num_rows() {
            let cell = |(column, shown): (&arrow::array::ArrayRef, &ArrayFormatter<'_>)| {
                let text = shown.value(row).to_string();
                let text = match text.as_str() {
                    "true" => "t".to_owned(),
                    "false" => "f".to_owned(),
                    _ => plain(text),
                };
                column.is_valid(row).then_some(text)
            };
            rows.push(batch.columns().iter().zip(&columns).map(cell).collect());
        }
    }
    (names, rows)
}

fn sorted(mut rows: Rows) -> Rows {
    rows.sort();
    rows
}

#[test]
fn rows_are_those_of_the_tables_by_every_door() {
    let (server, mut wire) = server(&[]);
    let (mut http, loads) = (http(&server), loads());
    assert!(loads.len() >= 40, "{}", loads.len());
    let mut count = 0;
    for change in std::iter::once(None).chain(CHANGES.map(Some)) {
        if let Some(change) = change {
            wire.execute(change).expect(change);
        }
        for Load { query, tables, is_ordered } in &loads {
            let query = Value::Object(query.clone());
            let about = format!("{query}\nafter {change:?}");
            let expected = by_sql(&mut wire, tables);
            let compared = |rows: &Rows, by: &str| match is_ordered {
                true => assert_eq!(*rows, expected, "by {by}: {about}"),
                false => assert_eq!(sorted(rows.clone()), sorted(expected.clone()), "by {by}: {about}"),
            };
            let asked = format!("SELECT * FROM cube_load('{}')", query.to_string().replace('\'', "''"));
            let rows = by_sql(&mut wire, &asked);
            compared(&rows, "SQL");
            let arrow = post(
                &mut http,
                "load",
                &[("Accept", "application/vnd.apache.arrow.stream")],
                &json!({ "query": query }),
            );
            let (names, arrow) = by_arrow(&arrow);
            compared(&arrow, "Arrow");
            for format in ["default", "compact", "columnar"] {
                let mut query = query.clone();
                query["responseFormat"] = json!(format);
                let result = loaded(&mut http, &query);
                compared(&by_rest(&result, &names), format);
                assert_eq!(result["truncated"], json!(false), "{about}");
                assert!(result["lastRefreshTime"].as_str().is_some_and(|time| time.ends_with('Z')), "{about}");
            }
            count += 1;
        }
    }
    assert_eq!(count, loads.len() * 6);
}
