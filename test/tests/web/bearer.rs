//! Bearer tokens: who has one is the role that it names, as far as the rules let that in.

use crate::{JSON, admin};
use glimpse_test::http::{Answer, Http};
use glimpse_test::server::Server;
use glimpse_test::tokens::{encoded, signed};
use serde_json::{Value, json};

const SECRET: &str = "a secret of at least thirty-two bytes";
/// When the tokens expire that do not matter: in 2100.
const LATER: u64 = 4_102_444_800;

fn ask(http: &mut Http, authorization: &str) -> Answer {
    let body = json!({ "query": "SELECT current_user" }).to_string();
    http.ask("POST", "/api/sql", &[JSON, ("Authorization", authorization)], body.as_bytes()).expect("an answer")
}

fn user(answer: &Answer) -> Value {
    answer.json().expect("results")["results"][0]["rows"][0][0].clone()
}

#[test]
fn a_token_is_a_role() {
    let dir = tempfile::tempdir().expect("a directory");
    let (secret, rules) = (dir.path().join("secret"), dir.path().join("rules"));
    std::fs::write(&secret, SECRET).expect("a file");
    std::fs::write(&rules, "host all joe,materialize 127.0.0.0/8 scram-sha-256\nhost all ann 127.0.0.0/8 trust\n")
        .expect("a file");
    let path = |path: &std::path::Path| path.to_str().expect("a path").to_owned();
    let (secret, rules) = (path(&secret), path(&rules));
    let server = Server::start_with(&["--jwt-secret-file", &secret, "--hba-file", &rules]).expect("the server starts");
    let mut own = admin(&server);
    for role in ["joe LOGIN PASSWORD 'pass'", "ann LOGIN", "bob LOGIN", "shut"] {
        own.execute(&format!("CREATE ROLE {role}")).expect("it is made");
    }
    let mut http = Http::connect(server.http_addr()).expect("a connection");
    let bearer = |claims: Value| format!("Bearer {}", signed(&mut admin(&server), SECRET, &claims));
    let of = |role: &str| bearer(json!({ "sub": role, "exp": LATER }));
    for role in ["joe", "ann"] {
        let answer = ask(&mut http, &of(role));
        assert_eq!((answer.status, user(&answer)), (200, json!(role)));
    }
    // Beside a password, over the same connection.
    assert_eq!(user(&ask(&mut http, "Basic am9lOnBhc3M=")), json!("joe"));
    assert_eq!(ask(&mut http, "Basic am9lOndyb25n").status, 401);
    // No rule, no login, no such role; the system's user is of another port.
    for role in ["bob", "shut", "nobody", "mz_system"] {
        assert_eq!(ask(&mut http, &of(role)).status, 403, "{role}");
    }
    // Expired, without an end, of another, of nobody, for others, unsigned, none.
    let good = of("joe");
    let unsigned = format!("Bearer {}.{}.", encoded("{\"alg\":\"none\"}"), good.split('.').nth(1).expect("claims"));
    for wrong in [
        bearer(json!({ "sub": "joe", "exp": 1_000_000_000 })),
        bearer(json!({ "sub": "joe" })),
        format!(
            "Bearer {}",
            signed(&mut admin(&server), "another secret of thirty-two bytes", &json!({ "sub": "joe", "exp": LATER }))
        ),
        bearer(json!({ "exp": LATER })),
        bearer(json!({ "sub": "joe", "exp": LATER, "aud": "others" })),
        unsigned,
        format!("{good}x"),
        "Bearer x".to_owned(),
        "Bearer ..".to_owned(),
        "Digest x".to_owned(),
    ] {
        let answer = ask(&mut http, &wrong);
        assert_eq!(answer.status, 401, "{wrong}: {}", answer.text());
        assert!(answer.header("www-authenticate").is_some());
    }
    // Another secret from now on.
    let other = "another secret of thirty-two bytes";
    std::fs::write(&secret, other).expect("a file");
    server.signal("HUP").expect("it is told");
    let fresh = format!("Bearer {}", signed(&mut admin(&server), other, &json!({ "sub": "joe", "exp": LATER })));
    crate::eventually("the secret is read again", || ask(&mut http, &fresh).status == 200);
    assert_eq!(ask(&mut http, &good).status, 401);
    // What was refused is not in the log.
    let log = server.log();
    assert!(
        log.contains("a token was refused") && !log.contains(good.split('.').nth(2).expect("a signature")),
        "{log}"
    );
}
