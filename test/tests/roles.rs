//! Who may do what: privileges and who has them, roles and their members, default privileges.

use glimpse_test::target::Target;
use glimpse_test::wire::message::Message;
use glimpse_test::wire::{Wire, frontend};

/// A user's session over the wire.
fn session(target: &Target, user: &str) -> Wire {
    Wire::start(target.addr(), user, "materialize").expect("a session")
}

fn assert_sqlstates(wire: &mut Wire, expectations: &[(&str, Option<&str>)]) {
    for (sql, expected) in expectations {
        assert_eq!(wire.sqlstate(sql).expect("an answer").as_deref(), *expected, "{sql}");
    }
}

fn value(wire: &mut Wire, sql: &str) -> String {
    wire.rows(sql).expect(sql)[0][0].clone().expect("a value")
}

/// What a user needs a privilege for, by the letters of the statements that it may then run.
const NEEDS: [(&str, &str); 8] = [
    ("SELECT", "a b k l"),
    ("INSERT", "c"),
    ("UPDATE", "e"),
    ("DELETE", "h"),
    ("SELECT, INSERT", "a b c d k l"),
    ("SELECT, UPDATE", "a b e f g j k l"),
    ("SELECT, DELETE", "a b h i k l"),
    ("ALL", "a b c d e f g h i j k l"),
];
const STATEMENTS: [(&str, &str); 12] = [
    ("a", "SELECT * FROM s.t"),
    ("b", "SELECT count(*) FROM s.t"),
    ("c", "INSERT INTO s.t VALUES (1, 1)"),
    ("d", "INSERT INTO s.t VALUES (1, 1) RETURNING id"),
    ("e", "UPDATE s.t SET v = 1"),
    ("f", "UPDATE s.t SET v = v + 1"),
    ("g", "UPDATE s.t SET v = 1 WHERE id = 1"),
    ("h", "DELETE FROM s.t"),
    ("i", "DELETE FROM s.t WHERE id = 1"),
    ("j", "UPDATE s.t SET v = (SELECT max(v) FROM s.t)"),
    ("k", "SUBSCRIBE s.t UP TO 5"),
    ("l", "COPY s.t TO STDOUT"),
];

#[test]
fn statements_take_privileges() {
    let target = Target::start().expect("the server starts");
    let mut admin = target.admin().expect("a session");
    for sql in [
        "CREATE ROLE rita LOGIN",
        "CREATE ROLE crew",
        "CREATE ROLE inner_crew",
        "GRANT inner_crew TO crew",
        "GRANT crew TO rita",
        "CREATE SCHEMA s",
        "CREATE TABLE s.t (id int4, v int4)",
        "CREATE VIEW s.w AS SELECT v FROM s.t",
    ] {
        admin.execute(sql).expect(sql);
    }
    let mut rita = session(&target, "rita");
    let allowed = |wire: &mut Wire| {
        let mut letters = Vec::new();
        for (letter, sql) in STATEMENTS {
            match wire.sqlstate(sql).expect("an answer").as_deref() {
                None => letters.push(letter),
                code => assert_eq!(code, Some("42501"), "{sql}"),
            }
        }
        letters.join(" ")
    };
    // To the user, to everybody, and to a role of a role of which it is a member.
    for grantee in ["rita", "PUBLIC", "inner_crew"] {
        for (privileges, letters) in NEEDS {
            admin.execute(&format!("GRANT {privileges} ON s.t TO {grantee}")).expect("it is granted");
            assert_eq!(allowed(&mut rita), "", "{privileges} without the schema");
            admin.execute(&format!("GRANT USAGE ON SCHEMA s TO {grantee}")).expect("it is granted");
            assert_eq!(allowed(&mut rita), letters, "{privileges} to {grantee}");
            admin.execute(&format!("REVOKE ALL ON s.t FROM {grantee}")).expect("it is revoked");
            assert_eq!(allowed(&mut rita), "", "{privileges} revoked from {grantee}");
            admin.execute(&format!("REVOKE USAGE ON SCHEMA s FROM {grantee}")).expect("it is revoked");
        }
    }
    // A view is read with its owner's rights.
    for sql in ["GRANT USAGE ON SCHEMA s TO rita", "GRANT SELECT ON s.w TO rita"] {
        admin.execute(sql).expect(sql);
    }
    assert_sqlstates(
        &mut rita,
        &[
            ("SELECT * FROM s.w", None),
            ("SELECT * FROM s.t", Some("42501")),
            // Who may use something may not give it away, change it, or make others like it.
            ("GRANT SELECT ON s.t TO crew", Some("42501")),
            ("DROP VIEW s.w", Some("42501")),
            ("CREATE TABLE s.mine (id int4)", Some("42501")),
            ("CREATE SCHEMA mine", Some("42501")),
            ("CREATE DATABASE mine", Some("42501")),
            ("CREATE INDEX i ON s.t (id)", Some("42501")),
            ("ALTER TABLE s.t OWNER TO rita", Some("42501")),
            ("ALTER TABLE s.t RENAME TO u", Some("42501")),
            ("DROP SCHEMA s CASCADE", Some("42501")),
            ("DROP ROLE crew", Some("42501")),
            ("GRANT inner_crew TO rita", Some("42501")),
        ],
    );
    for (question, expected) in [
        ("has_table_privilege('s.w', 'SELECT')", "t"),
        ("has_table_privilege('s.t', 'SELECT')", "f"),
        ("has_table_privilege('s.t', 'SELECT, INSERT')", "f"),
        ("has_schema_privilege('s', 'USAGE')", "t"),
        ("has_schema_privilege('s', 'CREATE')", "f"),
        ("has_database_privilege('materialize', 'CONNECT')", "t"),
        ("pg_has_role('inner_crew', 'USAGE')", "t"),
    ] {
        assert_eq!(value(&mut rita, &format!("SELECT {question}")), expected, "{question}");
    }
}

#[test]
fn columns_take_privileges() {
    let mut target = Target::start().expect("the server starts");
    let mut admin = target.admin().expect("a session");
    for sql in [
        "CREATE ROLE rita LOGIN",
        "CREATE TABLE people (id int4, name text, salary int4)",
        "INSERT INTO people VALUES (1, 'ann', 100)",
        "CREATE INDEX ON people (id)",
        "CREATE VIEW names AS SELECT id, name FROM people",
        "CREATE MATERIALIZED VIEW sums AS SELECT count(*) AS n, sum(salary) AS total FROM people",
        "GRANT SELECT (id, name), INSERT (id), UPDATE (name) ON people TO rita",
        "GRANT SELECT (name) ON names TO rita",
        "GRANT SELECT (n) ON sums TO PUBLIC",
    ] {
        admin.execute(sql).expect(sql);
    }
    let check = |target: &Target| {
        let mut rita = session(target, "rita");
        assert_sqlstates(
            &mut rita,
            &[
                // By the index, by the ad hoc engine, and what changes.
                ("SELECT name FROM people WHERE id = 1", None),
                ("SELECT salary FROM people WHERE id = 1", Some("42501")),
                ("SELECT name FROM people WHERE salary > 1", Some("42501")),
                ("SELECT name FROM names", None),
                ("SELECT id FROM names", Some("42501")),
                ("SELECT n FROM sums", None),
                ("SELECT * FROM sums", Some("42501")),
                ("SUBSCRIBE (SELECT id FROM people) UP TO 5", None),
                ("SUBSCRIBE (SELECT salary FROM people) UP TO 5", Some("42501")),
                ("SUBSCRIBE people UP TO 5", Some("42501")),
                ("SELECT name FROM people AS OF AT LEAST 0", None),
                ("SELECT salary FROM people AS OF AT LEAST 0", Some("42501")),
                ("COPY people (id, name) TO STDOUT", None),
                ("COPY people TO STDOUT", Some("42501")),
                ("COPY (SELECT salary FROM people) TO STDOUT", Some("42501")),
                ("EXPLAIN SELECT salary FROM people", Some("42501")),
                ("PREPARE p AS SELECT salary FROM people", Some("42501")),
                ("CREATE VIEW mine AS SELECT salary FROM people", Some("42501")),
                ("CREATE VIEW mine AS SELECT id FROM people", None),
                ("SELECT * FROM mine", None),
                ("DROP VIEW mine", None),
            ],
        );
        for (columns, expected) in [("(id)", None), ("(name)", Some("42501")), ("", Some("42501"))] {
            rita.send(&frontend::query(&format!("COPY people {columns} FROM STDIN"))).expect("send");
            rita.send(&frontend::copy_done()).expect("send");
            let answered = rita.until_ready().expect("an answer");
            let code = answered.iter().find_map(Message::error).map(|error| error.code);
            assert_eq!(code.as_deref(), expected, "COPY {columns}");
        }
        let refused = rita.rows("SELECT * FROM people").expect_err("salaries are secret").to_string();
        assert!(refused.contains("42501: permission denied for table people"), "{refused}");
    };
    check(&target);
    target.kill9().expect("it is killed");
    target.restart().expect("it starts");
    check(&target);
    // Columns come and go, also while a session has its plans.
    let (mut admin, mut rita) = (target.admin().expect("a session"), session(&target, "rita"));
    let read = "SELECT name FROM people WHERE id = 1";
    assert_sqlstates(&mut rita, &[(read, None)]);
    assert_sqlstates(&mut admin, &[("REVOKE SELECT (name) ON people FROM rita", None)]);
    assert_sqlstates(&mut rita, &[(read, Some("42501"))]);
    assert_sqlstates(&mut admin, &[("DROP ROLE rita", Some("2BP01")), ("GRANT SELECT ON people TO rita", None)]);
    assert_sqlstates(&mut rita, &[(read, None), ("SELECT * FROM people", None)]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "one story")]
fn a_role_is_set_by_its_members() {
    let target = Target::start().expect("the server starts");
    let mut admin = target.admin().expect("a session");
    for sql in [
        "CREATE ROLE rita LOGIN NOINHERIT",
        "CREATE ROLE writers",
        "CREATE ROLE others",
        "GRANT writers TO rita",
        "GRANT CREATE ON SCHEMA public TO writers",
        "CREATE TABLE notes (id int4)",
        "GRANT SELECT, INSERT ON TABLE notes TO writers",
    ] {
        admin.execute(sql).expect(sql);
    }
    let mut rita = session(&target, "rita");
    assert_sqlstates(
        &mut rita,
        &[
            // Without inheritance, a member has nothing until it sets the role.
            ("SELECT * FROM notes", Some("42501")),
            ("SET ROLE others", Some("42501")),
            ("SET role TO others", Some("42501")),
            ("SET ROLE nobody", Some("22023")),
            ("SET ROLE writers", None),
            ("SELECT * FROM notes", None),
            ("INSERT INTO notes VALUES (1)", None),
            ("DELETE FROM notes", Some("42501")),
            ("CREATE ROLE more", Some("42501")),
        ],
    );
    assert_eq!(value(&mut rita, "SELECT current_user || ' ' || session_user"), "writers rita");
    assert_eq!(value(&mut rita, "SHOW role"), "writers");
    // What is asked for is what the user may set, not the role that was set.
    assert_sqlstates(&mut rita, &[("SET ROLE rita", None), ("SET ROLE writers", None), ("RESET ALL", None)]);
    assert_eq!(value(&mut rita, "SELECT current_user"), "writers");
    assert_sqlstates(&mut rita, &[("RESET ROLE", None), ("SELECT * FROM notes", Some("42501"))]);
    // A transaction takes it back, and SET LOCAL ends with its own.
    for (sql, end, expected) in [
        ("SET ROLE writers", "ROLLBACK", "rita"),
        ("SET LOCAL ROLE writers", "COMMIT", "rita"),
        ("SET ROLE 'writers'", "COMMIT", "writers"),
        ("SET ROLE NONE", "COMMIT", "rita"),
    ] {
        rita.execute("BEGIN").expect("a block");
        rita.execute(sql).expect(sql);
        assert_eq!(value(&mut rita, "SELECT count(*) FROM pg_class WHERE relname = 'notes'"), "1");
        rita.execute(end).expect(end);
        assert_eq!(value(&mut rita, "SELECT current_user"), expected, "{sql} {end}");
    }
    // What was prepared as one is not run as the other.
    assert_sqlstates(
        &mut rita,
        &[
            ("SET ROLE writers", None),
            ("PREPARE p AS SELECT * FROM notes", None),
            ("EXECUTE p", None),
            ("SET ROLE NONE", None),
            ("EXECUTE p", Some("42501")),
            ("SET ROLE writers", None),
            ("EXECUTE p", None),
            ("DISCARD ALL", None),
            ("SELECT * FROM notes", Some("42501")),
        ],
    );
    // What it creates is the role's.
    rita.execute("SET ROLE writers").expect("a member");
    rita.execute("CREATE TABLE drafts (id int4)").expect("a table");
    let owner = "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = 'drafts'";
    assert_eq!(value(&mut rita, owner), "writers");
    // Nor does it own before that what the role owns.
    assert_sqlstates(
        &mut rita,
        &[("RESET ROLE", None), ("DROP TABLE drafts", Some("42501")), ("SELECT * FROM drafts", Some("42501"))],
    );
    for (privilege, expected) in [("MEMBER", "t"), ("USAGE", "f"), ("USAGE, MEMBER", "t")] {
        assert_eq!(value(&mut rita, &format!("SELECT pg_has_role('writers', '{privilege}')")), expected);
    }
    // The system's user may be anybody.
    admin.execute("SET ROLE rita").expect("a superuser");
    assert_eq!(value(&mut admin, "SHOW is_superuser"), "off");
    assert_sqlstates(&mut admin, &[("DROP TABLE drafts", Some("42501")), ("RESET ROLE", None)]);
    assert_eq!(value(&mut admin, "SHOW is_superuser"), "on");
    // At startup, too, it has to be allowed.
    let with_role = |role: &str| {
        let mut wire = Wire::connect(target.addr()).expect("a socket");
        let parameters = [("user", "rita"), ("database", "materialize"), ("role", role)];
        wire.send(&frontend::startup(&parameters)).expect("send");
        wire.finish_startup().map(|_| value(&mut wire, "SELECT current_user")).ok()
    };
    assert_eq!(with_role("writers").as_deref(), Some("writers"));
    assert_eq!(with_role("others"), None);
}

#[test]
fn a_database_lets_in_who_may_connect() {
    let target = Target::start().expect("the server starts");
    let mut admin = target.admin().expect("a session");
    for sql in ["CREATE ROLE rita LOGIN", "CREATE DATABASE vault", "REVOKE CONNECT ON DATABASE vault FROM PUBLIC"] {
        admin.execute(sql).expect(sql);
    }
    let comes_in = || Wire::start(target.addr(), "rita", "vault").map(drop).map_err(|error| error.to_string());
    let refused = comes_in().expect_err("no privilege");
    assert!(refused.contains("42501: permission denied for database \"vault\""), "{refused}");
    admin.execute("GRANT CONNECT ON DATABASE vault TO rita").expect("a privilege");
    assert_eq!(comes_in(), Ok(()));
}

#[test]
#[expect(clippy::too_many_lines, reason = "one story")]
fn default_privileges_are_granted_on_what_is_created() {
    let mut target = Target::start().expect("the server starts");
    let mut admin = target.admin().expect("a session");
    for sql in [
        "CREATE ROLE owner LOGIN",
        "CREATE ROLE reader LOGIN",
        "CREATE ROLE other LOGIN",
        "GRANT CREATE ON SCHEMA public TO owner",
        "GRANT CREATE ON DATABASE materialize TO owner",
        "CREATE SCHEMA shop AUTHORIZATION owner",
        "GRANT USAGE ON SCHEMA shop TO PUBLIC",
    ] {
        admin.execute(sql).expect(sql);
    }
    let mut owner = session(&target, "owner");
    assert_sqlstates(
        &mut owner,
        &[
            ("CREATE TABLE before (id int4)", None),
            ("ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO reader", None),
            ("ALTER DEFAULT PRIVILEGES IN SCHEMA shop GRANT INSERT, DELETE ON TABLES TO PUBLIC", None),
            ("ALTER DEFAULT PRIVILEGES FOR ROLE owner IN SCHEMA shop REVOKE DELETE ON TABLES FROM PUBLIC", None),
            ("ALTER DEFAULT PRIVILEGES FOR USER owner GRANT USAGE ON SCHEMAS TO reader", None),
            // Of others only their members say.
            ("ALTER DEFAULT PRIVILEGES FOR ROLE other GRANT SELECT ON TABLES TO reader", Some("42501")),
            ("ALTER DEFAULT PRIVILEGES FOR ROLE nobody GRANT SELECT ON TABLES TO reader", Some("42704")),
            ("ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO nobody", Some("42704")),
            ("ALTER DEFAULT PRIVILEGES IN SCHEMA nosuch GRANT SELECT ON TABLES TO reader", Some("3F000")),
            ("ALTER DEFAULT PRIVILEGES IN SCHEMA shop GRANT USAGE ON SCHEMAS TO reader", Some("0LP01")),
            ("ALTER DEFAULT PRIVILEGES GRANT USAGE ON TABLES TO reader", Some("0LP01")),
            ("ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES", Some("42601")),
            ("CREATE TABLE after (id int4)", None),
            ("CREATE VIEW seen AS SELECT * FROM before", None),
            ("CREATE TABLE shop.orders (id int4)", None),
            ("CREATE SCHEMA annex", None),
            ("CREATE TABLE annex.more (id int4)", None),
        ],
    );
    let check = |target: &Target| {
        assert_sqlstates(
            &mut session(target, "reader"),
            &[
                ("SELECT * FROM before", Some("42501")),
                ("SELECT * FROM after", None),
                ("SELECT * FROM seen", None),
                ("SELECT * FROM shop.orders", None),
                ("SELECT * FROM annex.more", None),
                ("INSERT INTO after VALUES (1)", Some("42501")),
            ],
        );
        assert_sqlstates(
            &mut session(target, "other"),
            &[
                ("INSERT INTO shop.orders VALUES (1)", None),
                ("DELETE FROM shop.orders WHERE true", Some("42501")),
                ("SELECT * FROM shop.orders", Some("42501")),
                ("SELECT * FROM annex.more", Some("42501")),
            ],
        );
    };
    check(&target);
    // They are kept, and hold for what is created later.
    target.kill9().expect("it is killed");
    target.restart().expect("it starts");
    check(&target);
    let mut owner = session(&target, "owner");
    owner.execute("CREATE TABLE later (id int4)").expect("a table");
    assert_sqlstates(&mut session(&target, "reader"), &[("SELECT * FROM later", None)]);
    let sql = "SELECT defaclobjtype::text || ' ' || coalesce(nspname, '-') || ' ' || d.defaclacl::text FROM pg_default_acl d \
               LEFT JOIN pg_namespace n ON n.oid = d.defaclnamespace WHERE defaclnamespace <> 0";
    assert_eq!(value(&mut owner, sql), "r shop {=a/owner}");
    // A role that they are for, or of, stays; without them, it goes.
    let mut admin = target.admin().expect("a session");
    assert_sqlstates(
        &mut admin,
        &[
            ("CREATE ROLE mine", None),
            ("CREATE ROLE theirs", None),
            ("ALTER DEFAULT PRIVILEGES FOR ROLE mine GRANT SELECT ON TABLES TO theirs", None),
            ("DROP ROLE mine", Some("2BP01")),
            ("DROP ROLE theirs", Some("2BP01")),
            ("ALTER DEFAULT PRIVILEGES FOR ROLE mine REVOKE ALL ON TABLES FROM theirs", None),
            ("DROP ROLE mine, theirs", None),
        ],
    );
}

#[test]
fn sessions_are_ended_by_those_who_may() {
    let target = Target::start().expect("the server starts");
    let mut admin = target.admin().expect("a session");
    for sql in ["CREATE ROLE rita LOGIN", "CREATE ROLE otto LOGIN"] {
        admin.execute(sql).expect(sql);
    }
    let (mut rita, mut own, mut otto) = (session(&target, "rita"), session(&target, "rita"), session(&target, "otto"));
    let pid = |wire: &mut Wire| value(wire, "SELECT pg_backend_pid()");
    let (of_admin, of_own, of_otto) = (pid(&mut admin), pid(&mut own), pid(&mut otto));
    for function in ["pg_cancel_backend", "pg_terminate_backend"] {
        let call = |pid: &str| format!("SELECT {function}({pid})");
        assert_sqlstates(&mut rita, &[(&call(&of_admin), Some("42501")), (&call(&of_otto), Some("42501"))]);
        // Nobody has this number.
        assert_eq!(value(&mut rita, &call("2147483647")), "f");
    }
    assert_eq!(value(&mut own, "SELECT 1"), "1");
    // A session that runs nothing is not harmed by what cancels statements.
    assert_eq!(value(&mut rita, &format!("SELECT pg_cancel_backend({of_own})")), "t");
    assert_eq!(value(&mut own, "SELECT 1"), "1");
    assert_eq!(value(&mut rita, &format!("SELECT pg_terminate_backend({of_own})")), "t");
    assert!(own.rows("SELECT 1").is_err(), "it has ended");
    // A member of the role may what the role may, and a superuser everything.
    admin.execute("GRANT otto TO rita").expect("granted");
    assert_eq!(value(&mut rita, &format!("SELECT pg_terminate_backend({of_otto})")), "t");
    assert!(otto.rows("SELECT 1").is_err(), "it has ended");
    let of_rita = pid(&mut rita);
    assert_eq!(value(&mut admin, &format!("SELECT pg_terminate_backend({of_rita})")), "t");
    assert!(rita.rows("SELECT 1").is_err(), "it has ended");
}

#[test]
fn a_session_that_asks_for_its_own_end_is_told_nothing_else() {
    let target = Target::start().expect("the server starts");
    let mut wire = target.admin().expect("a session starts");
    assert_sqlstates(&mut wire, &[("SELECT pg_cancel_backend(pg_backend_pid())", Some("57014"))]);
    wire.send(&frontend::query("SELECT pg_terminate_backend(pg_backend_pid())")).expect("send");
    let messages = wire.until_closed().expect("the server closes the connection");
    assert!(messages.iter().all(|message| matches!(message.tag, b'T' | b'E')), "{messages:?}");
    let error = messages.iter().find_map(Message::error).expect("an error");
    assert_eq!(error.code, "57P01");
}

#[test]
fn sessions_are_seen_by_those_who_may() {
    let target = Target::start().expect("the server starts");
    let mut admin = target.admin().expect("a session");
    for sql in ["CREATE ROLE rita LOGIN", "CREATE ROLE otto LOGIN"] {
        admin.execute(sql).expect(sql);
    }
    let (mut rita, mut otto) = (session(&target, "rita"), session(&target, "otto"));
    let pid = value(&mut otto, "SELECT pg_backend_pid()");
    for sql in ["SET application_name = 'a test'", "BEGIN"] {
        otto.execute(sql).expect(sql);
    }
    let look = format!(
        "SELECT datname, usename, application_name, state, query, xact_start >= backend_start, client_addr \
         FROM pg_stat_activity WHERE pid = {pid}"
    );
    let all = ["materialize", "otto", "a test", "idle in transaction", "BEGIN", "t", "127.0.0.1"];
    let some = |shown: &[&str]| shown.iter().map(|value| Some((*value).to_owned())).collect::<Vec<_>>();
    if target.is_glimpse() {
        assert_eq!(admin.rows(&look).expect("its row"), [some(&all)]);
        let ends = "SELECT inet_client_addr(), inet_server_addr(), inet_client_port() = client_port, inet_server_port() > 0 \
                    FROM pg_stat_activity WHERE pid = pg_backend_pid()";
        assert_eq!(otto.rows(ends).expect("its row"), [some(&["127.0.0.1", "127.0.0.1", "t", "t"])]);
    }
    let hidden = rita.rows(&look).expect("its row").remove(0);
    assert_eq!(hidden[1..3], some(&all[1..3]));
    assert_eq!(hidden[3..], [None, Some("<insufficient privilege>".to_owned()), None, None]);
    assert_eq!(otto.sqlstate("SELECT nothing").expect("an answer").as_deref(), Some("42703"));
    let state = format!("SELECT state, xact_start IS NULL FROM pg_stat_activity WHERE pid = {pid}");
    assert_eq!(admin.rows(&state).expect("its row")[0], some(&["idle in transaction (aborted)", "f"]));
    otto.execute("ROLLBACK").expect("it ends");
    assert_eq!(admin.rows(&state).expect("its row")[0], some(&["idle", "t"]));
    let own = "SELECT state, query FROM pg_stat_activity WHERE pid = pg_backend_pid()";
    assert_eq!(admin.rows(own).expect("its row")[0], some(&["active", own]));
    drop(otto);
    let gone = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}");
    let forgotten = (0..1000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        value(&mut admin, &gone) == "0"
    });
    assert!(forgotten, "a session that has ended is not listed");
}

#[test]
fn nobody_reads_another_table_in_place_of_one_of_the_catalog() {
    let target = Target::start().expect("the server starts");
    let mut user = session(&target, "materialize");
    for sql in ["CREATE TABLE mz_tables (name text)", "INSERT INTO public.mz_tables VALUES ('made up')"] {
        user.execute(sql).expect(sql);
    }
    let mut admin = target.admin().expect("a session");
    for wire in [&mut user, &mut admin] {
        assert_eq!(value(wire, "SELECT count(*) FROM mz_tables WHERE name = 'made up'"), "0");
        assert_eq!(value(wire, "SELECT name FROM public.mz_tables"), "made up");
        let path = "{pg_catalog,mz_catalog,mz_internal,mz_introspection,public}";
        assert_eq!(value(wire, "SELECT current_schemas(true)"), path);
        assert_eq!(value(wire, "SELECT current_schemas(false)"), "{public}");
    }
    // Who says so is given what it names.
    user.execute("SET search_path = public, mz_catalog").expect("it is set");
    assert_eq!(value(&mut user, "SELECT name FROM mz_tables"), "made up");
    let path = "{pg_catalog,mz_internal,mz_introspection,public,mz_catalog}";
    assert_eq!(value(&mut user, "SELECT current_schemas(true)"), path);
}
