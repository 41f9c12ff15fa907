//! What is told beside rows: members, what a query means, limits, totals, comparisons, and what is refused in which words.

use crate::{by_rest, by_sql, http, loaded, ok, post, server};
use glimpse_test::http::Answer;
use serde_json::{Value, json};

fn refused(answer: &Answer) -> (u16, String) {
    let told = answer.json().expect("JSON");
    (answer.status, told["error"].as_str().expect("an error").to_owned())
}

#[test]
fn a_request_stands_in_the_address_or_in_the_body() {
    let (server, _) = server(&[]);
    let mut http = http(&server);
    let query = "%7B%22measures%22%3A%5B%22orders.count%22%5D%7D";
    for headers in [&[][..], &[("Content-Type", "application/json")], &[("x-request-id", "a-span-1")]] {
        let answer = http.ask("GET", &format!("/cubejs-api/v1/load?query={query}"), headers, b"").expect("an answer");
        assert_eq!(ok(&answer)["data"], json!([{"orders.count": "2006"}]));
    }
    // A query may be its text, in a body too; `subscribe` by HTTP is to be asked again.
    let text = json!({"query": "{\"measures\": [\"orders.count\"]}", "queryType": "multi", "cache": "no-cache"});
    for method in ["load", "subscribe"] {
        let answer = ok(&post(&mut http, method, &[], &text));
        assert_eq!(answer["results"][0]["data"], json!([{"orders.count": "2006"}]));
        assert_eq!(
            (&answer["queryType"], &answer["pivotQuery"]["queryType"]),
            (&json!("regularQuery"), &json!("regularQuery"))
        );
    }
}

#[test]
fn requests_are_refused_in_cubes_words() {
    let (server, _) = server(&[]);
    let mut http = http(&server);
    for (body, error) in [
        (json!({}), "Query param is required"),
        (json!({"query": "{"}), "Unable to decode query param as JSON"),
        (json!({"query": {"measures": ["orders.count"]}, "queryTyp": "multi"}), "\"queryTyp\" is not known here"),
        (json!({"query": {"measures": ["orders.count"]}, "queryType": "single"}), "\"queryType\" is \"multi\""),
        (json!({"query": {"measures": ["orders.count"]}, "cache": "always"}), "\"cache\" is one of"),
        (json!({"query": {"measures": ["orders.count"], "x": 1}}), "Invalid query format: \"x\" is not allowed"),
        (json!({"query": {"measures": ["orders.foo"]}}), "'orders.foo' not found for path 'orders.foo'"),
        (json!({"query": {"measures": ["nothing.count"]}}), "relation \"nothing\" does not exist"),
        (
            json!({"query": {"filters": []}}),
            "Query should contain either measures, dimensions or timeDimensions with granularities in order to be valid",
        ),
        (json!({"query": {"measures": ["orders.count"], "limit": 50_001}}), "The query limit has been exceeded."),
        (json!({"query": [{"measures": ["orders.count"]}]}), "Data blending is not supported"),
        (
            json!({"query": {"dimensions": ["orders.id"], "filters": [{"member": "orders.id", "operator": "equals", "values": ["x"]}]}}),
            "invalid input syntax",
        ),
    ] {
        let (status, told) = refused(&post(&mut http, "load", &[], &body));
        assert!(status == 400 && told.starts_with(error), "{body}: {status} {told}");
    }
    let text = json!({"query": {"measures": ["orders.count"]}});
    let foreign = [("Origin", "https://evil.example")];
    assert_eq!(post(&mut http, "load", &foreign, &text).status, 403);
    let plain = http.ask("POST", "/cubejs-api/v1/load", &[("Content-Type", "text/plain")], b"{}").expect("an answer");
    assert_eq!(plain.status, 415);
    for (path, health) in [("/livez", "HEALTH"), ("/readyz", "HEALTH")] {
        assert_eq!(ok(&http.ask("GET", path, &[], b"").expect("an answer"))["health"], health);
    }
}

#[test]
fn queries_are_refused_or_made_plain() {
    let (server, _) = server(&[]);
    let mut http = http(&server);
    for (query, error) in [
        (
            json!({"segments": ["orders.market_code"], "measures": ["orders.count"]}),
            "\"orders.market_code\" is no segment",
        ),
        (json!({"segments": ["orders.is_large"], "measures": ["orders.count"]}), "\"orders.is_large\" is no segment"),
        (
            json!({"segments": ["orders.avg_amount"], "measures": ["orders.count"]}),
            "\"orders.avg_amount\" is no segment",
        ),
        (json!({"dimensions": ["orders.count"]}), "\"orders.count\" is a measure"),
        (json!({"measures": ["orders.taxed"]}), "\"orders.taxed\" is no measure"),
        (
            json!({"timeDimensions": [{"dimension": "orders.updated_at", "granularity": ""}]}),
            "Invalid query format: \"granularity\"",
        ),
        (
            json!({"timeDimensions": [{"dimension": "orders.updated_at", "granularity": "eon"}]}),
            "Granularity \"eon\" does not exist",
        ),
        (
            json!({"measures": ["orders.count"], "timeDimensions": [{"dimension": "orders.updated_at", "dateRange": "last 3000 years"}]}),
            "Can't parse date: 'last 3000 years'",
        ),
    ] {
        let (status, told) = refused(&post(&mut http, "load", &[], &json!({"query": query})));
        assert!(status == 400 && told.starts_with(error), "{query}: {status} {told}");
    }
    let many = |count: usize| {
        let filters =
            (0..count).map(|at| json!({"member": "orders.brand_code", "operator": "notEquals", "values": [at]}));
        json!({"query": {"measures": ["orders.count"], "filters": filters.collect::<Vec<_>>()}})
    };
    assert_eq!(ok(&post(&mut http, "load", &[], &many(500)))["data"], json!([{"orders.count": "2006"}]));
    let too_many = post(&mut http, "load", &[], &many(501)).json().expect("JSON");
    assert_eq!(too_many["code"], json!("54001"), "{too_many}");
    // As in Cube: what is asked for twice comes once, and what is not asked for is no order.
    let twice = json!({"query": {
        "measures": ["orders.count", "orders.count"], "dimensions": ["orders.is_large", "orders.is_large", "orders.updated_at.year"],
        "timeDimensions": [{"dimension": "orders.updated_at", "granularity": "year", "dateRange": "2024-01-01"}],
        "order": {"orders.market_code": "asc", "orders.count": "desc", "orders.updated_at.month": "asc"},
    }});
    let told = ok(&post(&mut http, "load", &[], &twice));
    assert_eq!(told["query"]["order"], json!([{"id": "orders.count", "desc": true}]));
    assert_eq!(
        (told["query"]["measures"].as_array().map(Vec::len), told["query"]["timeDimensions"].as_array().map(Vec::len)),
        (Some(1), Some(1))
    );
}

#[test]
fn members_are_told() {
    let (server, mut wire) = server(&[]);
    let mut http = http(&server);
    let meta = ok(&post(&mut http, "meta", &[], &json!({})));
    let names = |meta: &Value| -> Vec<String> {
        let cubes = meta["cubes"].as_array().expect("cubes").iter();
        cubes.map(|cube| cube["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(names(&meta), ["orders", "customers", "items", "payments", "sales"]);
    let known = by_sql(&mut wire, "SELECT meta FROM mz_internal.mz_cubes WHERE name = 'orders'");
    let known: Value = serde_json::from_str(known[0][0].as_deref().expect("a text")).expect("JSON");
    assert_eq!(meta["cubes"][0], known);
    let views = ok(&http.ask("GET", "/cubejs-api/v1/meta?onlyViews=true", &[], b"").expect("an answer"));
    assert_eq!(names(&views), ["sales"]);
    assert_eq!(refused(&post(&mut http, "meta", &[], &json!({"extended": true}))).0, 400);
    // Where nobody looks, there is nothing.
    wire.execute("CREATE SCHEMA aside; CREATE SEMANTIC MODEL aside.other AS $$cubes: [{name: hidden, sql_table: raw.items, measures: [{name: n, type: count}]}]$$").expect("a model");
    assert_eq!(names(&ok(&post(&mut http, "meta", &[], &json!({})))).len(), 5);

    let query = json!({
        "measures": ["sales.count"], "dimensions": ["sales.customers_name"], "segments": ["sales.taxed"],
        "timeDimensions": [{"dimension": "sales.updated_at", "granularity": "month", "dateRange": ["2024-01-01", "2024-03-31"]}],
    });
    let result = loaded(&mut http, &query);
    let annotation = &result["annotation"];
    let month = json!({"name": "month", "title": "month", "interval": "1 month"});
    assert_eq!(annotation["timeDimensions"]["sales.updated_at.month"]["granularity"], month);
    assert_eq!(annotation["timeDimensions"]["sales.updated_at"]["type"], json!("time"));
    assert_eq!(annotation["measures"]["sales.count"]["drillMembers"], json!(["sales.market_code"]));
    assert_eq!(annotation["dimensions"]["sales.customers_name"]["title"], json!("Sales Name"));
    assert_eq!(annotation["segments"]["sales.taxed"]["shortTitle"], json!("Taxed"));
    let range = json!(["2024-01-01T00:00:00.000", "2024-03-31T23:59:59.999"]);
    assert_eq!(result["query"]["timeDimensions"][0]["dateRange"], range);
    assert_eq!((&result["query"]["limit"], &result["query"]["rowLimit"]), (&json!(10_000), &json!(10_000)));
    let row = &result["data"][0];
    assert_eq!(row["sales.updated_at"], row["sales.updated_at.month"]);
    let fiscal = json!({"measures": ["orders.count"], "timeDimensions": [{"dimension": "orders.updated_at", "granularity": "fiscal_year"}]});
    let granularity =
        &loaded(&mut http, &fiscal)["annotation"]["timeDimensions"]["orders.updated_at.fiscal_year"]["granularity"];
    assert_eq!(granularity["interval"], json!("1 year"));
}

#[test]
fn a_query_says_what_it_means() {
    let (server, mut wire) = server(&[]);
    let mut http = http(&server);
    let query = json!({"measures": ["orders.count"], "dimensions": ["orders.market_code"]});
    let told = ok(&post(&mut http, "dry-run", &[], &json!({"query": query})));
    assert_eq!(told["queryOrder"], json!([{"orders.count": "desc"}]));
    assert_eq!(
        (&told["queryType"], &told["normalizedQueries"][0]["timezone"]),
        (&json!("regularQuery"), &json!("UTC"))
    );
    assert_eq!(told["pivotQuery"]["dimensions"], json!(["orders.market_code"]));
    assert_eq!(refused(&post(&mut http, "dry-run", &[], &json!({"query": {"measures": ["orders.foo"]}}))).0, 400);
    // The statement that is told has the same rows.
    let told = ok(&post(&mut http, "sql", &[], &json!({"query": query})));
    let rows = by_sql(&mut wire, told["sql"]["sql"][0].as_str().expect("a statement"));
    let names = ["orders.market_code", "orders.count"].map(str::to_owned);
    assert_eq!(rows, by_rest(&loaded(&mut http, &query), &names));
    let check = |sql: &str| json!({"query": sql, "format": "sql"});
    let told = ok(&post(&mut http, "sql", &[], &check("SELECT MEASURE(count) FROM orders")));
    assert_eq!((&told["sql"]["status"], &told["sql"]["query_type"]), (&json!("ok"), &json!("regular")));
    let told = ok(&post(&mut http, "sql", &[], &check("SELECT MEASURE(nothing) FROM orders")));
    assert_eq!((&told["sql"]["status"], &told["sql"]["details"]["code"]), (&json!("error"), &json!("42703")));
}

#[test]
fn what_is_cut_off_and_how_much_there_is_are_told() {
    let (server, _) = server(&["--cube-default-limit=5", "--cube-limit-max=20"]);
    let mut http = http(&server);
    let query = |limit: Value| json!({"dimensions": ["orders.id"], "limit": limit, "total": true, "offset": 2});
    for format in ["default", "compact", "columnar"] {
        for (limit, rows, is_cut) in [(Value::Null, 5, true), (json!(7), 7, false), (json!(0), 0, false)] {
            let mut query = query(limit);
            query["responseFormat"] = json!(format);
            let result = loaded(&mut http, &query);
            let all = by_rest(&result, &["orders.id".to_owned()]);
            assert_eq!(
                (all.len(), &result["truncated"], &result["total"]),
                (rows, &json!(is_cut), &json!(2006)),
                "{query}"
            );
            assert!(all.first().is_none_or(|first| first[0].as_deref() == Some("3")));
        }
    }
    // As many as there are is no cut.
    let few =
        json!({"dimensions": ["orders.id"], "filters": [{"member": "orders.id", "operator": "lte", "values": ["5"]}]});
    let result = loaded(&mut http, &few);
    assert_eq!((result["data"].as_array().map(Vec::len), &result["truncated"]), (Some(5), &json!(false)));
    assert_eq!(refused(&post(&mut http, "load", &[], &json!({"query": query(json!(21))}))).0, 400);
    // Arrow cuts nothing, and tells as much.
    let arrow = post(
        &mut http,
        "load",
        &[],
        &json!({"query": {"dimensions": ["orders.id"], "total": true}, "format": "arrow"}),
    );
    assert_eq!(crate::by_arrow(&arrow).1.len(), 2006);
    let reader = arrow_ipc::reader::StreamReader::try_new(&arrow.body[..], None).expect("a stream");
    let told: Value = serde_json::from_str(&reader.schema().metadata()["cube.response"]).expect("JSON");
    assert_eq!(
        (&told["total"], &told["annotation"]["dimensions"]["orders.id"]["type"]),
        (&json!(2006), &json!("number"))
    );
    assert!(told["lastRefreshTime"].is_string());
}

#[test]
fn ranges_are_compared() {
    let (server, mut wire) = server(&[]);
    let mut http = http(&server);
    let ranges = json!([["2024-01-01", "2024-01-31"], ["2024-02-01", "2024-02-29"], "2024-03-01"]);
    for format in ["default", "compact", "columnar"] {
        let query = json!({
            "measures": ["orders.count"], "responseFormat": format,
            "timeDimensions": [{"dimension": "orders.updated_at", "granularity": "day", "compareDateRange": ranges}],
        });
        let answer = ok(&post(&mut http, "load", &[], &json!({"query": query, "queryType": "multi"})));
        assert_eq!(answer["queryType"], json!("compareDateRangeQuery"));
        assert_eq!(answer["pivotQuery"]["dimensions"], json!(["compareDateRange"]));
        let results = answer["results"].as_array().expect("results");
        let times: Vec<&Value> = results.iter().map(|result| &result["lastRefreshTime"]).collect();
        assert!(
            results.len() == 3 && times[0].is_string() && times.iter().all(|time| *time == times[0]),
            "at one time: {times:?}"
        );
        for (result, (from, last)) in results.iter().zip([
            ("2024-01-01", "2024-01-31"),
            ("2024-02-01", "2024-02-29"),
            ("2024-03-01", "2024-03-01"),
        ]) {
            let names = ["orders.updated_at.day", "orders.count", "compareDateRange"].map(str::to_owned);
            let sql = format!(
                "SELECT date_trunc('day', updated_at AT TIME ZONE 'UTC'), count(*), '{from}T00:00:00.000 - {last}T23:59:59.999'
                 FROM raw.orders WHERE updated_at >= '{from} 00:00+00' AND updated_at < timestamptz '{last} 00:00+00' + interval '1 day' GROUP BY 1 ORDER BY 1"
            );
            assert_eq!(by_rest(result, &names), by_sql(&mut wire, &sql), "{format} {from}");
        }
        let alone = post(&mut http, "load", &[], &json!({"query": query}));
        assert!(refused(&alone).1.starts_with("'compareDateRangeQuery' query type is not supported by the client."));
    }
}

/// While rows are written, all that one answer tells is of one time.
#[test]
fn an_answer_is_of_one_time() {
    let (server, _) = server(&[]);
    let mut http = http(&server);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (server, stop) = (&server, &stop);
        let writer = scope.spawn(move || {
            let mut wire =
                glimpse_test::wire::Wire::start(server.sql_addr(), "materialize", "materialize").expect("a session");
            let mut id = 10_000;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                wire.execute(&format!("INSERT INTO raw.orders (id, market_code) VALUES ({id}, 'M{id}')"))
                    .expect("a row");
                id += 1;
            }
            id - 10_000
        });
        for _ in 0..60 {
            let query = json!({"dimensions": ["orders.id"], "total": true, "limit": 50_000});
            let result = loaded(&mut http, &query);
            let count = result["data"].as_array().expect("rows").len();
            assert_eq!(result["total"], json!(count));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(writer.join().expect("it wrote") > 0);
    });
}

/// As many conditions as a statement may have are planned, over tables and over cubes.
#[test]
fn many_conditions_are_planned() {
    let (_server, mut wire) = server(&[]);
    let all: Vec<String> = (0..2400).map(|at| format!("(brand_code <> 'x{at}' OR brand_code IS NULL)")).collect();
    let all = all.join(" AND ");
    for sql in [
        format!("SELECT count(*) FROM raw.orders WHERE {all}"),
        format!("SELECT MEASURE(count) FROM orders WHERE {all}"),
    ] {
        assert_eq!(by_sql(&mut wire, &sql), [[Some("2006".to_owned())]]);
    }
}
