//! `mz_recent_activity_log`: what was run is there, as it was, for whom it concerns, and nobody's passwords.

use glimpse_test::target::Target;
use glimpse_test::wire::{Wire, frontend};

/// A server of ours: PostgreSQL has no such thing.
fn target() -> Option<Target> {
    let target = Target::start().expect("the server starts");
    target.is_glimpse().then_some(target)
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// What the log has of the statements that match a pattern, the oldest first.
fn log(wire: &mut Wire, columns: &str, like: &str) -> Vec<Vec<Option<String>>> {
    let sql = format!(
        "SELECT {columns} FROM mz_internal.mz_recent_activity_log
         WHERE sql LIKE '{like}' AND sql NOT LIKE '%recent_activity_log%' ORDER BY began_at"
    );
    wire.rows(&sql).expect("the log")
}

#[test]
fn statements_are_there_with_how_they_were_answered_and_ended() {
    let Some(target) = target() else { return };
    let mut wire = target.wire().expect("a session");
    for sql in [
        "SET statement_logging_sample_rate = 1",
        "SET application_name = 'history'",
        "CREATE TABLE t (k int4, v text)",
        "CREATE INDEX t_k ON t (k)",
        "INSERT INTO t VALUES (1, 'one'), (2, 'two')",
    ] {
        wire.execute(sql).expect(sql);
    }
    // An index that is not there yet is not read.
    let is_hydrated = "SELECT bool_and(hydrated) FROM mz_internal.mz_hydration_statuses";
    while wire.rows(is_hydrated).expect("an answer") != [[text("t")]] {}
    for sql in ["SELECT k, v FROM t WHERE k = 1", "SELECT count(*) FROM t a, t b WHERE a.k <= b.k", "SELECT 1 + 1"] {
        wire.execute(sql).expect(sql);
    }
    assert_eq!(wire.sqlstate("SELECT 1/0 FROM t").expect("an answer").as_deref(), Some("22012"));
    wire.execute("SET statement_timeout = '300ms'").expect("a setting");
    assert_eq!(wire.sqlstate("SELECT pg_sleep(1000)").expect("an answer").as_deref(), Some("57014"));
    wire.execute("RESET statement_timeout").expect("a setting");
    let messages = [
        frontend::parse("s", "SELECT v FROM t WHERE k = $1 AND v <> $2", &[]),
        frontend::bind("", "s", &[], &[Some(b"2"), None], &[]),
        frontend::execute("", 0),
        frontend::sync(),
    ];
    wire.send(&messages.concat()).expect("send");
    wire.until_ready().expect("an answer");
    let columns = "execution_strategy, finished_status, rows_returned, statement_type";
    for (like, expected) in [
        ("SELECT count%", [text("standard"), text("success"), text("1"), text("select")]),
        ("SELECT 1 +%", [text("constant"), text("success"), text("1"), text("select")]),
        ("CREATE TABLE%", [None, text("success"), None, text("create_table")]),
        ("INSERT%", [None, text("success"), None, text("insert")]),
        ("SELECT pg_sleep%", [text("constant"), text("canceled"), None, text("select")]),
    ] {
        assert_eq!(log(&mut wire, columns, like), [expected], "{like}");
    }
    // A build for tests takes the ad hoc path now and then (`ore::sometimes`) where an index would do.
    for (like, way, status, rows) in [
        ("SELECT k, v%", text("fast-path"), "success", text("1")),
        ("SELECT v%", text("fast-path"), "success", text("0")),
        ("SELECT 1/0%", None, "error", None),
    ] {
        let logged = log(&mut wire, columns, like);
        assert!(logged.len() == 1 && [way, text("standard")].contains(&logged[0][0]), "{logged:?}");
        assert_eq!(logged[0][1..], [text(status), rows, text("select")]);
    }
    let columns = "params, prepared_statement_name, application_name, initial_application_name, authenticated_user,
        cluster_name, database_name, search_path, sample_rate, error_message";
    let expected = ["{2,NULL}", "s", "history", "", "materialize", "quickstart", "materialize", "{public}", "1"];
    let expected: Vec<_> = expected.into_iter().map(text).chain([None]).collect();
    assert_eq!(log(&mut wire, columns, "SELECT v%"), [expected]);
    let columns = "error_message, began_at <= finished_at, result_size, session_id = (SELECT pg_backend_pid()::text)";
    assert_eq!(log(&mut wire, columns, "SELECT 1/0%"), [[text("division by zero"), text("t"), None, text("t")]]);
    // A DataRow of an int4 and three letters.
    assert_eq!(log(&mut wire, "result_size", "SELECT k, v%"), [[text("19")]]);
    // What asks is there, and not over.
    let own = "SELECT finished_status FROM mz_internal.mz_recent_activity_log WHERE finished_at IS NULL";
    assert_eq!(wire.rows(own).expect("the log"), [[None]]);
    assert_eq!(log(&mut wire, "sql", "nothing").len(), 0);
}

#[test]
fn nobody_sees_what_others_run_and_nobody_a_password() {
    let Some(target) = target() else { return };
    let mut admin = target.admin().expect("a session");
    for sql in [
        "SET statement_logging_sample_rate = 1",
        "CREATE ROLE other LOGIN",
        "CREATE ROLE secretive LOGIN PASSWORD 'xyzzy'",
        "ALTER ROLE secretive PASSWORD 'xyzzy'",
        "SELECT 'of the admin'",
    ] {
        admin.execute(sql).expect(sql);
    }
    let mut wire = target.wire().expect("a session");
    wire.execute("SET statement_logging_sample_rate = 1").expect("a setting");
    wire.execute("SELECT 'of materialize'").expect("a row");
    let mut other = Wire::start(target.addr(), "other", "materialize").expect("a session");
    assert_eq!(log(&mut admin, "sql", "SELECT %of%").len(), 2);
    assert_eq!(log(&mut wire, "sql", "SELECT %of%"), [[text("SELECT 'of materialize'")]]);
    assert_eq!(log(&mut other, "sql", "%").len(), 0);
    assert_eq!(log(&mut admin, "sql", "%xyzzy%").len(), 0);
    assert_eq!(log(&mut admin, "sql", "% ROLE").len(), 2);
}

#[test]
fn the_server_has_the_last_word_on_how_much_is_noted() {
    let Some(target) = target() else { return };
    let mut admin = target.admin().expect("a session");
    let mut wire = target.wire().expect("a session");
    let noted = |admin: &mut Wire, wire: &mut Wire, mark: &str| {
        for _ in 0..200 {
            wire.execute(&format!("SELECT '{mark}'")).expect("a row");
        }
        log(admin, "sql", &format!("%{mark}%")).len()
    };
    wire.execute("SET statement_logging_sample_rate = 1").expect("a setting");
    assert_eq!(noted(&mut admin, &mut wire, "all"), 200);
    wire.execute("SET statement_logging_sample_rate = 0.5").expect("a setting");
    // Of a fair coin, one run in 10^12 is beyond this.
    assert!((50..150).contains(&noted(&mut admin, &mut wire, "half")));
    wire.execute("SET statement_logging_sample_rate = 0").expect("a setting");
    assert_eq!(noted(&mut admin, &mut wire, "none"), 0);
    wire.execute("SET statement_logging_sample_rate = 1").expect("a setting");
    admin.execute("ALTER SYSTEM SET statement_logging_max_sample_rate = 0").expect("a setting");
    assert_eq!(noted(&mut admin, &mut wire, "forbidden"), 0);
    admin.execute("ALTER SYSTEM RESET statement_logging_max_sample_rate").expect("a setting");
    assert_eq!(wire.sqlstate("SET statement_logging_sample_rate = 2").expect("an answer").as_deref(), Some("22023"));
    // What new sessions begin with.
    admin.execute("ALTER SYSTEM SET statement_logging_default_sample_rate = 1").expect("a setting");
    let mut later = target.wire().expect("a session");
    assert_eq!(noted(&mut admin, &mut later, "later"), 200);
    admin.execute("ALTER SYSTEM SET statement_logging_sample_rate = 0").expect("a setting");
    let mut last = target.wire().expect("a session");
    assert_eq!(noted(&mut admin, &mut last, "last"), 0);
}
