//! Two tenants of one role: what their tokens say is what they see, by every door that takes tokens.

use crate::cube_api::followed::{Socket, asked};
use crate::{by_arrow, by_rest, http, ok, post};
use glimpse_test::http::Http;
use glimpse_test::server::Server;
use glimpse_test::tokens::signed;
use glimpse_test::wire::Wire;
use serde_json::{Value, json};

const SECRET: &str = "a secret of at least thirty-two bytes";
const LATER: u64 = 4_102_444_800;
const MODEL: &str = "
cubes:
  - name: invoices
    sql_table: raw.invoices
    dimensions:
      - {name: id, sql: id, type: number, primary_key: true, public: true}
      - {name: tenant, sql: tenant, type: string}
      - {name: note, sql: note, type: string}
    measures:
      - {name: count, type: count}
      - {name: total, sql: amount, type: sum}
      - {name: secret, sql: amount * 7, type: sum}
    access_policy:
      - group: '*'
        member_level: {excludes: [secret]}
        row_level: {filters: [{member: tenant, operator: equals, values: ['{ security_context.tenant }']}]}
      - group: boss
        row_level: {allow_all: true}
";

struct Office {
    server: Server,
    admin: Wire,
    _dir: tempfile::TempDir,
}

impl Office {
    fn open() -> Office {
        let dir = tempfile::tempdir().expect("a directory");
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).expect("a file");
            path.to_str().expect("a path").to_owned()
        };
        let (secret, rules) = (file("secret", SECRET), file("rules", "host all all 127.0.0.0/8 scram-sha-256\n"));
        let flags =
            ["--jwt-secret-file", &secret, "--hba-file", &rules, "--jwt-role-claim=db_role", "--jwt-default-role=app"];
        let server = Server::start_with(&flags).expect("a server");
        let mut admin = Wire::start(server.internal_sql_addr(), "mz_system", "materialize").expect("a session");
        let tables = "CREATE SCHEMA raw; CREATE TABLE raw.invoices (id int PRIMARY KEY, tenant text, amount numeric(10, 2), note text);
            INSERT INTO raw.invoices SELECT g, (ARRAY['a', 'b'])[1 + g % 2], g, 'note of ' || g FROM generate_series(1, 100) g";
        admin.execute(tables).expect("the tables");
        admin.execute(&format!("CREATE SEMANTIC MODEL billing AS $${MODEL}$$")).expect("the model");
        for statement in ["CREATE ROLE app LOGIN", "CREATE ROLE other LOGIN", "GRANT SELECT ON invoices TO app, other"]
        {
            admin.execute(statement).expect(statement);
        }
        Office { server, admin, _dir: dir }
    }

    /// What a client of Cube's sends as `Authorization`.
    fn token(&mut self, claims: Value) -> String {
        let mut claims = claims;
        claims["exp"] = json!(LATER);
        signed(&mut self.admin, SECRET, &claims)
    }
}

fn load(http: &mut Http, token: &str, query: &Value) -> Value {
    ok(&post(http, "load", &[("Authorization", token)], &json!({"query": query})))
}

const NAMES: [&str; 3] = ["invoices.tenant", "invoices.count", "invoices.total"];

fn by_tenant() -> Value {
    json!({"measures": ["invoices.count", "invoices.total"], "dimensions": ["invoices.tenant"]})
}

/// What a tenant sees by [`by_tenant`].
fn expected(tenant: &str) -> Vec<Vec<Option<String>>> {
    let total = if tenant == "a" { "2550" } else { "2500" };
    vec![[tenant, "50", total].map(|text| Some(text.to_owned())).to_vec()]
}

/// The tokens of two tenants.
fn two(office: &mut Office) -> [String; 2] {
    [json!({"tenant": "a"}), json!({"u": {"tenant": "b"}})].map(|claims| office.token(claims))
}

fn rows(result: &Value) -> Vec<Vec<Option<String>>> {
    by_rest(result, &NAMES.map(str::to_owned))
}

/// Over one connection, in turns: plans and sessions are kept for who they are of.
#[test]
fn tenants_see_their_rows_by_every_door() {
    let mut office = Office::open();
    let tokens = two(&mut office);
    let mut http = http(&office.server);
    let sql = json!({"query": "SELECT tenant, MEASURE(count), MEASURE(total) FROM invoices GROUP BY 1"});
    for _ in 0..3 {
        for (token, tenant) in tokens.iter().zip(["a", "b"]) {
            assert_eq!(rows(&load(&mut http, token, &by_tenant())), expected(tenant));
            let bearer = format!("Bearer {token}");
            let body = json!({"query": by_tenant(), "format": "arrow"});
            let arrow = post(&mut http, "load", &[("Authorization", &bearer)], &body);
            assert_eq!(by_arrow(&arrow).1, expected(tenant));
            let headers = [("X-Cube-Authorization", token.as_str()), ("Authorization", "Basic eDp5")];
            let lines = post(&mut http, "cubesql", &headers, &sql).text();
            let cells = expected(tenant)[0].iter().flatten().map(|cell| format!("\"{cell}\"")).collect::<Vec<_>>();
            assert!(lines.ends_with(&format!("{{\"data\":[[{}]]}}\n", cells.join(","))), "{lines}");
            let headers = [("Content-Type", "application/json"), ("Authorization", bearer.as_str())];
            let own = http.ask("POST", "/api/sql", &headers, sql.to_string().as_bytes()).expect("an answer");
            assert_eq!(own.json().expect("JSON")["results"][0]["rows"][0][0], json!(tenant));
        }
    }
}

#[test]
fn tenants_do_not_get_at_others() {
    let mut office = Office::open();
    let [token, _] = two(&mut office);
    let mut http = http(&office.server);
    let other = |filter: Value| json!({"measures": ["invoices.count"], "filters": [filter]});
    for attack in [
        other(json!({"member": "invoices.tenant", "operator": "equals", "values": ["b"]})),
        other(json!({"or": [{"member": "invoices.tenant", "operator": "equals", "values": ["b"]}]})),
        other(json!({"member": "invoices.note", "operator": "contains", "values": ["note of 1\' OR true"]})),
        other(json!({"member": "invoices.id", "operator": "equals", "values": ["1"]})),
    ] {
        assert_eq!(load(&mut http, &token, &attack)["data"], json!([{"invoices.count": "0"}]), "{attack}");
    }
    let ungrouped = json!({"dimensions": ["invoices.id", "invoices.tenant"], "ungrouped": true, "total": true});
    let result = load(&mut http, &token, &ungrouped);
    assert_eq!(result["total"], json!(50));
    assert!(result["data"].as_array().expect("rows").iter().all(|row| row["invoices.tenant"] == json!("a")));
    // What is hidden is not told, and not asked.
    let meta = ok(&post(&mut http, "meta", &[("Authorization", &token)], &json!({}))).to_string();
    assert!(meta.contains("invoices.total") && !meta.contains("invoices.secret"));
    let hidden = json!({"query": {"measures": ["invoices.secret"]}});
    for method in ["load", "dry-run", "sql"] {
        assert_eq!(post(&mut http, method, &[("Authorization", &token)], &hidden).status, 403, "{method}");
    }
    // The tables themselves are nobody's here.
    for sql in ["SELECT * FROM raw.invoices", "SET ROLE mz_system", "EXPLAIN ANALYZE SELECT * FROM raw.invoices"] {
        let answer = post(&mut http, "cubesql", &[("Authorization", &token)], &json!({"query": sql}));
        assert!(answer.status >= 400, "{sql}: {}", answer.text());
    }
}

/// No claim is no row; a list is any of it; groups of a token count.
#[test]
fn claims_say_who_somebody_is() {
    let mut office = Office::open();
    let [good, _] = two(&mut office);
    let mut http = http(&office.server);
    let count = json!({"measures": ["invoices.count"]});
    for (claims, rows) in [
        (json!({}), "0"),
        (json!({"tenant": null}), "0"),
        (json!({"tenant": {"a": 1}}), "0"),
        (json!({"tenant": []}), "0"),
        (json!({"tenant": ["a", "b"]}), "100"),
        (json!({"tenant": "a", "groups": ["boss"]}), "100"),
        (json!({"tenant": "a", "groups": "boss"}), "100"),
        (json!({"tenant": "a", "db_role": "other"}), "50"),
    ] {
        let token = office.token(claims.clone());
        assert_eq!(load(&mut http, &token, &count)["data"], json!([{"invoices.count": rows}]), "{claims}");
    }
    for (token, error) in [
        (String::new(), "a name and a password are needed, or a token"),
        ("undefined".to_owned(), "a name and a password are needed, or a token"),
        (format!("{good}x"), "the token is not valid"),
        (office.token(json!({"tenant": "a", "db_role": "nobody"})), "role \"nobody\" does not exist"),
        (office.token(json!({"tenant": "a", "db_role": ["app"]})), "the token is not valid"),
    ] {
        let answer = post(&mut http, "load", &[("Authorization", &token)], &json!({"query": count}));
        let told = answer.json().expect("JSON");
        assert!(answer.status == 403 && told["error"].as_str().is_some_and(|told| told.starts_with(error)), "{told}");
    }
}

/// By WebSocket each is told of its own, until it is not allowed any more.
#[test]
fn tenants_follow_their_rows() {
    let mut office = Office::open();
    let tokens = two(&mut office);
    let follow = asked(1, "subscribe", json!({"query": by_tenant(), "queryType": "multi"}));
    let mut sockets = tokens.each_ref().map(|token| Socket::greeted(&office.server, token));
    for (socket, tenant) in sockets.iter_mut().zip(["a", "b"]) {
        socket.send(&follow);
        assert_eq!(rows(&socket.next()["message"]["results"][0]), expected(tenant));
    }
    office.admin.execute("INSERT INTO raw.invoices VALUES (101, 'a', 1, '')").expect("a row");
    assert_eq!(sockets[0].next()["message"]["results"][0]["data"][0]["invoices.count"], json!("51"));
    // A group that the role comes into, or leaves, is news as well.
    for (change, count) in [("CREATE ROLE boss; GRANT boss TO app", 2), ("REVOKE boss FROM app", 1)] {
        office.admin.execute(change).expect(change);
        for socket in &mut sockets {
            let told = rows(&socket.next()["message"]["results"][0]);
            assert_eq!(told.len(), count, "{told:?}");
        }
    }
    office.admin.execute("REVOKE SELECT ON invoices FROM app").expect("it is revoked");
    for socket in &mut sockets {
        assert_eq!(socket.error(1), (403, "42501".to_owned()));
    }
    office.admin.execute("GRANT SELECT ON invoices TO app").expect("it is granted");
    for (socket, tenant) in sockets.iter_mut().zip(["a", "b"]) {
        let told = rows(&socket.next()["message"]["results"][0]);
        assert_eq!((told.len(), told[0][0].as_deref()), (1, Some(tenant)));
    }
}

/// Of the same role, and no business of each other's.
#[test]
fn tenants_do_not_see_each_other_at_work() {
    let mut office = Office::open();
    let tokens = two(&mut office);
    let filter = json!({"member": "invoices.note", "operator": "equals", "values": ["a tenant's own words"]});
    let query = json!({"query": {"measures": ["invoices.count"], "filters": [filter]}, "queryType": "multi"});
    let mut socket = Socket::greeted(&office.server, &tokens[0]);
    socket.send(&asked(1, "subscribe", query));
    assert_eq!(socket.next()["status"], json!(200));
    let mut http = http(&office.server);
    let mut ask = |token: &str, sql: &str| {
        let headers = [("Content-Type", "application/json"), ("Authorization", token)];
        let body = json!({"query": sql}).to_string();
        http.ask("POST", "/api/sql", &headers, body.as_bytes()).expect("an answer").text()
    };
    let [own, other] = tokens.each_ref().map(|token| format!("Bearer {token}"));
    let seen = "SELECT query FROM pg_stat_activity WHERE query LIKE '%own words%' AND pid <> pg_backend_pid()";
    assert!(ask(&own, seen).contains("own words"));
    for sql in [seen, "SELECT sql FROM mz_internal.mz_recent_activity_log", "SELECT * FROM mz_internal.mz_sessions"] {
        assert!(!ask(&other, sql).contains("own words"), "{sql}");
    }
    let end =
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app' AND pid <> pg_backend_pid()";
    assert!(ask(&other, end).contains("42501"), "{}", ask(&other, end));
    assert!(ask(&other, "SHOW CREATE SEMANTIC MODEL billing").contains("42501"));
    office.admin.execute("INSERT INTO raw.invoices VALUES (102, 'a', 1, 'a tenant''s own words')").expect("a row");
    assert_eq!(socket.next()["message"]["results"][0]["data"][0]["invoices.count"], json!("1"));
}
