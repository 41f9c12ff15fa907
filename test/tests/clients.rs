//! Real clients, over TLS and with a password: each suite of `test/clients` against a server of its own.
//!
//! `bin/test` installs the clients beforehand, into the directory that `GLIMPSE_CLIENTS` names. A client that is not there is
//! named on one line that starts with `SKIPPED`, which `bin/test` counts. psql's answers are compared with PostgreSQL's.

mod clients {
    pub(crate) mod psql;
    pub(crate) mod tokio;
}

use std::path::{Path, PathBuf};
use std::process::Command;

use glimpse_test::programs::{client, program, run};
use glimpse_test::secured::{Secured, tls_file};
use glimpse_test::target::Target;

/// Nobody gets in but over TLS and with a password.
const RULES: &str = "hostssl all all 127.0.0.1/32 scram-sha-256\n";
const PASSWORD: &str = "pencil";

/// A server for one suite.
fn server(rules: &str) -> Secured {
    with_roles(Secured::start(Some(rules)).expect("the server starts"))
}

/// A PostgreSQL in its place.
fn referee(rules: &str) -> Secured {
    with_roles(Secured::start_postgres(Some(rules)).expect("PostgreSQL starts"))
}

fn with_roles(server: Secured) -> Secured {
    let mut admin = server.target.admin().expect("a session starts");
    admin.execute(&format!("ALTER ROLE materialize CREATEDB PASSWORD '{PASSWORD}'")).expect("the role has a password");
    admin.execute("CREATE ROLE reader").expect("the role is made");
    // From which tools make and drop others, as Django's tests do.
    let has_postgres = admin.rows("SELECT 1 FROM pg_database WHERE datname = 'postgres'").expect("databases are shown");
    if has_postgres.is_empty() {
        admin.execute("CREATE DATABASE postgres").expect("the database is made");
    }
    server
}

/// A command that connects as the user, checking who the server is.
fn secure(program: &Path, target: &Target) -> Command {
    let mut command = client(program, target);
    command
        .env("PGHOST", "localhost")
        .env("PGPASSWORD", PASSWORD)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PGSSLMODE", "verify-full")
        .env("PGSSLROOTCERT", tls_file("ca.crt"));
    command
}

/// A suite's data.
fn suite(path: &str) -> PathBuf {
    glimpse_test::manifest_dir().join("clients").join(path)
}

/// Where something is that `bin/test` installs, or `None` and a line that says so.
fn installed(path: &str) -> Option<PathBuf> {
    let found = std::env::var_os("GLIMPSE_CLIENTS").map(|clients| PathBuf::from(clients).join(path));
    let found = found.filter(|path| path.exists());
    if found.is_none() {
        eprintln!("SKIPPED: no {path} in GLIMPSE_CLIENTS, which bin/test sets");
    }
    found
}

/// Runs a suite that says so at its end, beside what its client may warn of, and hands on what it printed.
fn passes(command: &mut Command) {
    let said = run(command);
    assert!(said.lines().any(|line| line == "ok"), "{said}");
    eprintln!("{said}");
}

fn python(script: &str) {
    let Some(python) = installed("python/bin/python") else { return };
    let server = server(RULES);
    passes(secure(&python, &server.target).arg(suite("python").join(script)));
}

/// Signs the tokens of Cube's clients.
const SECRET: &str = "a secret of at least thirty-two bytes";

/// A server with the model of `test/cubes`, whose tokens are those of one role.
fn with_cubes() -> (Secured, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let secret = directory.path().join("secret");
    std::fs::write(&secret, SECRET).expect("a file");
    let secret = secret.to_str().expect("a path");
    let flags = ["--jwt-secret-file", secret, "--jwt-default-role=materialize"];
    let server = with_roles(Secured::start_with(Some(RULES), &flags).expect("the server starts"));
    let cubes =
        |name: &str| std::fs::read_to_string(glimpse_test::manifest_dir().join("cubes").join(name)).expect("a file");
    let mut admin = server.target.admin().expect("a session starts");
    for statement in [
        cubes("reference.sql"),
        format!("CREATE SEMANTIC MODEL reference AS $${}$$", cubes("reference.yml")),
        "ALTER SCHEMA raw OWNER TO materialize; GRANT ALL ON ALL TABLES IN SCHEMA raw TO materialize".to_owned(),
        "GRANT SELECT ON orders, customers, items, payments, sales TO materialize".to_owned(),
    ] {
        admin.execute(&statement).expect("it is made");
    }
    (server, directory)
}

#[test]
fn cube_http_client() {
    let Some(python) = installed("python/bin/python") else { return };
    let (server, _directory) = with_cubes();
    let mut command = secure(&python, &server.target);
    let Some(command) = over_http(&mut command, &server) else { return };
    passes(command.env("GLIMPSE_JWT_SECRET", SECRET).arg(suite("python").join("cube_suite.py")));
}

#[test]
fn bi_tools_over_sqlalchemy() {
    let Some(python) = installed("python/bin/python") else { return };
    let (server, _directory) = with_cubes();
    let statements = glimpse_test::manifest_dir().join("cubes/bi.sql");
    let mut command = secure(&python, &server.target);
    passes(command.env("CUBE_BI", statements).arg(suite("python").join("cube_bi_suite.py")));
}

/// What BI tools send over cubes is answered as the same over the tables.
#[test]
fn bi_tools_over_psql() {
    let Some(psql) = program("psql", "GLIMPSE_PSQL") else { return };
    let (server, _directory) = with_cubes();
    let statements = std::fs::read_to_string(glimpse_test::manifest_dir().join("cubes/bi.sql")).expect("a file");
    let pairs: Vec<Vec<&str>> =
        statements.split("\n\n").map(|block| block.lines().filter(|line| !line.starts_with("--")).collect()).collect();
    assert!(pairs.len() >= 15);
    for pair in pairs {
        let answers: Vec<String> = pair
            .iter()
            .map(|statement| {
                run(secure(&psql, &server.target).args(["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", statement]))
            })
            .collect();
        assert!(
            answers.len() == 2 && !answers[0].trim().is_empty() && answers[0] == answers[1],
            "{pair:?}: {answers:?}"
        );
    }
}

#[test]
fn cubes_clients() {
    let Some(node) = program("node", "GLIMPSE_NODE") else { return };
    let (server, _directory) = with_cubes();
    let Some((mut command, _scripts)) = node_suite(&node, &server, "cube.mjs") else { return };
    passes(command.env("GLIMPSE_JWT_SECRET", SECRET));
}

#[test]
fn psycopg_3() {
    python("psycopg3_suite.py");
}

#[test]
fn psycopg_2() {
    python("psycopg2_suite.py");
}

#[test]
fn asyncpg() {
    python("asyncpg_suite.py");
}

#[test]
fn sqlalchemy() {
    python("sqlalchemy_suite.py");
}

#[test]
fn alembic() {
    python("alembic_suite.py");
}

#[test]
fn django() {
    python("django_suite.py");
}

fn node(script: &str) {
    let Some(node) = program("node", "GLIMPSE_NODE") else { return };
    let server = server(RULES);
    let Some((mut command, _scripts)) = node_suite(&node, &server, script) else { return };
    passes(&mut command);
}

/// A command that runs a script for a server, and where the script is. `None` without its modules, or of a server without HTTP.
fn node_suite(node: &Path, server: &Secured, script: &str) -> Option<(Command, tempfile::TempDir)> {
    let modules = installed("node/node_modules")?;
    // Modules are looked for beside the script.
    let directory = tempfile::tempdir().expect("a directory");
    for file in ["common.mjs", script] {
        std::fs::copy(suite("node").join(file), directory.path().join(file)).expect("copied");
    }
    std::os::unix::fs::symlink(modules, directory.path().join("node_modules")).expect("linked");
    let mut command = secure(node, &server.target);
    over_http(&mut command, server)?;
    command.arg(directory.path().join(script));
    Some((command, directory))
}

/// Has a command find the HTTP port. `None` of a server that has none.
fn over_http<'c>(command: &'c mut Command, server: &Secured) -> Option<&'c mut Command> {
    let Target::Glimpse(glimpse) = &server.target else { return None };
    let address = format!("https://localhost:{}", glimpse.http_addr().port());
    Some(command.env("GLIMPSE_HTTP", address).env("NODE_EXTRA_CA_CERTS", tls_file("ca.crt")))
}

/// Has a command find the Flight port. `None` of a server that has none.
fn over_flight<'c>(command: &'c mut Command, server: &Secured) -> Option<&'c mut Command> {
    let Target::Glimpse(glimpse) = &server.target else { return None };
    Some(command.env("GLIMPSE_FLIGHT", format!("grpc+tls://localhost:{}", glimpse.flight_addr().port())))
}

fn frames(script: &str, finds: impl FnOnce(&mut Command, &Secured) -> bool) {
    let Some(python) = installed("frames/bin/python") else { return };
    let server = server(RULES);
    let mut command = secure(&python, &server.target);
    if finds(&mut command, &server) {
        passes(command.arg(suite("frames").join(script)));
    }
}

#[test]
fn frames_over_http() {
    frames("http_suite.py", |command, server| over_http(command, server).is_some());
}

#[test]
fn frames_over_flight() {
    frames("flight_suite.py", |command, server| over_flight(command, server).is_some());
}

#[test]
fn fetch_and_websocket() {
    node("http.mjs");
}

#[test]
fn curl() {
    let Some(curl) = program("curl", "GLIMPSE_CURL") else { return };
    let server = server(RULES);
    let ask = |options: &[&str]| {
        let mut command = secure(&curl, &server.target);
        over_http(&mut command, &server)?;
        let Target::Glimpse(glimpse) = &server.target else { return None };
        let url = format!("https://localhost:{}/api/sql", glimpse.http_addr().port());
        command.arg("-sS").arg("--cacert").arg(tls_file("ca.crt")).args(["-H", "Content-Type: application/json"]);
        command.args(["-w", " %{http_code} %{http_version}"]).args(options).arg(url);
        Some(run(&mut command))
    };
    let user = format!("materialize:{PASSWORD}");
    let query = "{\"query\": \"SELECT x FROM generate_series(1, 3) x\"}";
    for (version, said) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let Some(answer) = ask(&[version, "-u", &user, "-d", query]) else { return };
        let rows = "\"rows\":[[\"1\"],[\"2\"],[\"3\"]]";
        assert!(answer.contains(rows) && answer.ends_with(&format!(" 200 {said}")), "{answer}");
        let csv =
            ask(&[version, "--compressed", "-u", &user, "-H", "Accept: text/csv", "-d", query]).unwrap_or_default();
        assert_eq!(csv, format!("x\n1\n2\n3\n 200 {said}"));
        for (user, status) in [("materialize:wrong", 401), ("nobody:x", 401), ("mz_system:", 401)] {
            let refused = ask(&[version, "-u", user, "-d", query]).unwrap_or_default();
            assert!(refused.ends_with(&format!(" {status} {said}")), "{user}: {refused}");
        }
        let refused = ask(&[version, "-d", query]).unwrap_or_default();
        assert!(refused.contains("28P01") && refused.ends_with(&format!(" 401 {said}")), "{refused}");
    }
}

#[test]
fn node_postgres() {
    node("node_postgres.mjs");
}

#[test]
fn postgres_js() {
    node("postgres_js.mjs");
}

#[test]
fn sequelize() {
    node("sequelize.mjs");
}

fn go(package: &str) {
    let Some(go) = program("go", "GLIMPSE_GO") else { return };
    let fetched = Command::new(&go).current_dir(suite("go")).args(["mod", "download"]).output();
    if !fetched.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: the modules of {package} could not be downloaded, or this Go is too old for them");
        return;
    }
    let server = server(RULES);
    run(secure(&go, &server.target).current_dir(suite("go")).args(["test", "-count=1", &format!("./{package}/...")]));
}

#[test]
fn pgx() {
    go("pgx");
}

#[test]
fn lib_pq() {
    go("libpq");
}

#[test]
fn gorm() {
    go("gorm");
}

/// A Java that finds the drivers, and the server that it is for.
fn java() -> Option<(Command, Secured)> {
    let java = program("java", "GLIMPSE_JAVA")?;
    let jars = installed("java")?;
    let server = server(RULES);
    let mut command = secure(&java, &server.target);
    // A program of a few seconds is over before its machine code would have been improved.
    command.args(["-XX:TieredStopAtLevel=1", "-cp"]).arg(jars.join("*"));
    Some((command, server))
}

fn java_suite(source: &str) {
    let Some((mut command, _server)) = java() else { return };
    passes(command.arg(suite("java").join(source)));
}

#[test]
fn pgjdbc() {
    java_suite("PgJdbc.java");
}

#[test]
fn flight_sql_jdbc() {
    let Some((mut command, server)) = java() else { return };
    let Some(command) = over_flight(&mut command, &server) else { return };
    // Arrow takes memory that Java does not manage.
    command.arg("--add-opens=java.base/java.nio=ALL-UNNAMED");
    passes(command.arg(suite("java").join("FlightJdbc.java")));
}

#[test]
fn hibernate() {
    java_suite("Hibernate.java");
}

#[test]
fn sqlx() {
    let Some(cargo) = program("cargo", "CARGO") else { return };
    let Some(built) = installed("rust/target") else { return };
    let server = server(RULES);
    // Its packages are there; the suite is compiled again if it has changed.
    let mut command = secure(&cargo, &server.target);
    command.args(["run", "--quiet", "--offline", "--manifest-path"]).arg(suite("rust/Cargo.toml"));
    passes(command.arg("--target-dir").arg(built));
}

#[test]
fn dbt() {
    let Some(dbt) = installed("dbt/bin/dbt") else { return };
    let server = server(RULES);
    // It writes beside its project.
    let project = tempfile::tempdir().expect("a directory");
    run(Command::new("cp").arg("-r").arg(suite("dbt/.")).arg(project.path()));
    // The second build finds everything there and replaces it.
    for arguments in [&["debug"][..], &["build"], &["build"], &["docs", "generate"]] {
        let mut command = secure(&dbt, &server.target);
        command.current_dir(project.path()).args(arguments).args(["--profiles-dir", "."]);
        let said = run(&mut command);
        assert!(arguments != ["build"] || said.contains("ERROR=0 SKIP=0"), "{said}");
    }
    let mut wire = server.target.admin().expect("a session starts");
    let rows = wire.rows("SELECT customer, total FROM analytics.totals ORDER BY 1 LIMIT 1").expect("the rows");
    assert_eq!(rows, [[Some("ann".to_owned()), Some("17.75".to_owned())]]);
}

#[test]
fn pgbench_in_all_modes() {
    let Some(pgbench) = program("pgbench", "GLIMPSE_PGBENCH") else { return };
    let server = server(RULES);
    let pgbench = |arguments: &[&str]| run(secure(&pgbench, &server.target).args(arguments));
    // Its own tables and rows.
    pgbench(&["-i"]);
    let mut wire = server.target.admin().expect("a session starts");
    for (table, key) in [("accounts", "aid"), ("branches", "bid"), ("tellers", "tid")] {
        wire.execute(&format!("CREATE INDEX {table}_key ON pgbench_{table} ({key})")).expect("the index is made");
    }
    for mode in ["simple", "extended", "prepared"] {
        let said =
            pgbench(&["-n", "-M", mode, "-c", "4", "-j", "2", "-t", "10", "--max-tries", "100", "-b", "tpcb-like"]);
        assert!(said.contains("number of transactions actually processed: 40/40"), "{mode}: {said}");
        let said = pgbench(&["-n", "-M", mode, "-c", "4", "-j", "2", "-t", "25", "-b", "select-only"]);
        assert!(said.contains("number of transactions actually processed: 100/100"), "{mode}: {said}");
    }
    let sums = "SELECT (SELECT count(*) FROM pgbench_history), \
                (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history), \
                (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT sum(tbalance) FROM pgbench_tellers)";
    let row = ["120", "t", "t"].map(|value| Some(value.to_owned()));
    assert_eq!(wire.rows(sums).expect("the sums"), [row]);
}
