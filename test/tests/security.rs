//! Who gets in, and how: TLS, passwords, host-based rules.
//!
//! What a client library never does is sent over raw sockets; what libraries and programs do is done by them.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use glimpse_test::programs::{self, client, program, run, try_run};
use glimpse_test::secured::{Secured, client_tls, tls_file};
use glimpse_test::target::Target;
use glimpse_test::wire::message::Message;
use glimpse_test::wire::{Wire, frontend};
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256};

fn secured() -> Secured {
    Secured::start(None).expect("the server starts")
}

fn startup() -> Vec<u8> {
    frontend::startup(&[("user", "materialize"), ("database", "materialize")])
}

fn assert_alive(wire: &mut Wire) {
    assert_eq!(wire.rows("SELECT 1").expect("the session goes on"), [[Some("1".to_owned())]]);
}

/// Polls until something holds; for what a signal changes.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A psql that says over what it is connected, to `localhost`, whose name is in the certificate.
fn conninfo(target: &Target, sslmode: &str) -> Option<Command> {
    let psql = program("psql", "GLIMPSE_PSQL")?;
    let mut command = client(&psql, target);
    command.env("PGHOST", "localhost").env("PGSSLMODE", sslmode).env("PGSSLROOTCERT", tls_file("ca.crt"));
    command.args(["-X", "-c", "\\conninfo"]);
    Some(command)
}

// ---- TLS

#[test]
fn tls_in_all_modes_of_psql() {
    let server = secured();
    for (mode, is_encrypted) in [
        ("disable", false),
        ("allow", false),
        ("prefer", true),
        ("require", true),
        ("verify-ca", true),
        ("verify-full", true),
    ] {
        let Some(mut command) = conninfo(&server.target, mode) else { return };
        let said = run(&mut command);
        assert_eq!(said.contains("SSL connection (protocol: TLSv1.3"), is_encrypted, "{mode}: {said}");
    }
    // The certificate is for a name, not for an address.
    let Some(mut command) = conninfo(&server.target, "verify-full") else { return };
    let said = try_run(command.env("PGHOST", "127.0.0.1")).expect_err("another name");
    assert!(said.contains("does not match host name"), "{said}");
    let Some(mut command) = conninfo(&server.target, "require") else { return };
    let said = run(command.env("PGSSLMAXPROTOCOLVERSION", "TLSv1.2"));
    assert!(said.contains("SSL connection (protocol: TLSv1.2"), "{said}");
}

#[test]
fn a_server_without_a_certificate_offers_no_tls() {
    let target = Target::start().expect("the server starts");
    for mode in ["disable", "allow", "prefer"] {
        let Some(mut command) = conninfo(&target, mode) else { return };
        // Without this, libpq wants a file of authorities for nothing to be checked by.
        let said = run(command.env_remove("PGSSLROOTCERT"));
        assert!(!said.contains("SSL connection"), "{mode}: {said}");
    }
    let Some(mut command) = conninfo(&target, "require") else { return };
    let said = try_run(&mut command).expect_err("there is no TLS");
    assert!(said.contains("server does not support SSL, but SSL was required"), "{said}");
}

#[test]
fn tls_from_psycopg() {
    let Some(python) = programs::python("psycopg") else { return };
    let server = secured();
    let script = glimpse_test::manifest_dir().join("clients/python/tls.py");
    let mut command = client(&python, &server.target);
    command.env("PGHOST", "localhost").env("PGSSLROOTCERT", tls_file("ca.crt"));
    if server.target.is_glimpse() {
        // PostgreSQL has it since 17.
        command.env("DIRECT_TLS", "yes");
    }
    let said = run(command.arg(script));
    assert!(said.trim_end().ends_with("ok"), "{said}");
}

#[test]
fn a_session_over_tls_moves_large_results_and_requests() {
    let server = secured();
    let mut wire = server.encrypted().expect("TLS");
    wire.send(&startup()).expect("send");
    wire.finish_startup().expect("a session");
    let rows = wire.rows("SELECT repeat('x', 1000) FROM generate_series(1, 20000)").expect("rows");
    assert_eq!(rows.len(), 20_000);
    let own = "SELECT ssl::text, version, bits > 100, client_dn FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(wire.rows(own).expect("a row"), [[text("true"), text("TLSv1.3"), text("t"), None]]);
    let mut plain = server.target.wire().expect("a session");
    assert_eq!(plain.rows(own).expect("a row"), [[text("false"), None, None, None]]);
    let long = "y".repeat(3 << 20);
    let rows = wire.rows(&format!("SELECT length('{long}')")).expect("a row");
    assert_eq!(rows, [[Some((3 << 20).to_string())]]);
    // Many messages in one record, and one message in many.
    let batch: Vec<u8> = (0..100).flat_map(|_| frontend::query("SELECT 1")).collect();
    wire.send(&batch).expect("send");
    for _ in 0..100 {
        wire.until_ready().expect("an answer");
    }
    for byte in frontend::query("SELECT 1") {
        wire.send(&[byte]).expect("send");
    }
    wire.until_ready().expect("an answer");
    assert_alive(&mut wire);
}

#[test]
fn a_query_is_cancelled_over_tls() {
    let server = secured();
    let mut wire = server.encrypted().expect("TLS");
    wire.send(&startup()).expect("send");
    wire.finish_startup().expect("a session");
    let key = wire.cancel_key.expect("a key");
    let slow = "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b";
    wire.send(&frontend::query(slow)).expect("send");
    let is_done = AtomicBool::new(false);
    let code = std::thread::scope(|scope| {
        // Until it has begun, there is nothing to cancel.
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let mut other = server.encrypted().expect("TLS");
                other.send(&frontend::cancel_request(key)).expect("send");
                other.until_closed().expect("no answer");
            }
        });
        let messages = wire.until_ready();
        is_done.store(true, Ordering::Relaxed);
        messages.expect("an answer").iter().find_map(Message::error).map(|error| error.code)
    });
    assert_eq!(code.as_deref(), Some("57014"));
}

#[test]
fn direct_tls_names_the_protocol() {
    let server = secured();
    if !server.target.is_glimpse() {
        return; // PostgreSQL has it since 17.
    }
    let mut wire = Wire::connect(server.addr()).expect("a socket");
    wire.upgrade(client_tls(Some("postgresql")).expect("a client")).expect("TLS");
    wire.send(&startup()).expect("send");
    wire.finish_startup().expect("a session");
    assert_alive(&mut wire);
    // Without a protocol, it may be meant for somebody else.
    let mut wire = Wire::connect(server.addr()).expect("a socket");
    wire.upgrade(client_tls(None).expect("a client")).expect("TLS");
    wire.send(&startup()).expect("send");
    let messages = wire.until_closed().expect("an end");
    let error = messages.iter().find_map(Message::error).expect("an error");
    assert_eq!((error.severity.as_str(), error.code.as_str()), ("FATAL", "08P01"), "{error}");
    // With another, it certainly is.
    let mut wire = Wire::connect(server.addr()).expect("a socket");
    assert!(wire.upgrade(client_tls(Some("http/1.1")).expect("a client")).is_err());
}

#[test]
fn encryption_begins_once() {
    let server = secured();
    for request in [frontend::ssl_request(), frontend::gssenc_request()] {
        let mut wire = server.encrypted().expect("TLS");
        wire.send(&request).expect("send");
        let messages = wire.until_closed().expect("an end");
        if server.target.is_glimpse() {
            let error = messages.iter().find_map(Message::error).expect("an error");
            assert_eq!((error.severity.as_str(), error.code.as_str()), ("FATAL", "08P01"), "{error}");
        }
    }
}

/// CVE-2021-23214: what stands in plaintext behind SSLRequest is never taken for something that came encrypted.
#[test]
fn plaintext_behind_an_ssl_request_ends_the_connection() {
    let server = secured();
    for stuffing in [startup(), frontend::query("SELECT 1"), vec![0x16]] {
        let mut wire = Wire::connect(server.addr()).expect("a socket");
        wire.send(&[frontend::ssl_request(), stuffing].concat()).expect("send");
        let messages = wire.until_closed().unwrap_or_default();
        assert!(messages.iter().all(|message| message.tag == b'E'), "{messages:?}");
    }
    // Too late to be seen behind the request, it is no TLS either.
    let mut wire = Wire::connect(server.addr()).expect("a socket");
    wire.send(&frontend::ssl_request()).expect("send");
    assert_eq!(wire.receive_bytes(1).expect("an answer"), b"S");
    wire.send(&startup()).expect("send");
    // An alert, in clear: not one message.
    let said = wire.receive_bytes(1).unwrap_or_default();
    assert!(said.is_empty() || said == [0x15], "{said:?}");
    assert_alive(&mut server.target.wire().expect("a session"));
}

/// CVE-2026-25949: the deadline of the handshake is one, whatever has been said by then.
#[test]
fn a_handshake_that_stops_half_way_is_cut_off() {
    let server = Secured::start_impatient(None).expect("the server starts");
    let mut hello = Vec::new();
    client_tls(None).expect("a client").write_tls(&mut hello).expect("a hello");
    let half_hello = hello[..hello.len() / 2].to_vec();
    let asked = || {
        let mut wire = Wire::connect(server.addr()).expect("a socket");
        wire.send(&frontend::ssl_request()).expect("send");
        assert_eq!(wire.receive_bytes(1).expect("an answer"), b"S");
        wire
    };
    let (silent, mut half, mut encrypted) = (asked(), asked(), server.encrypted().expect("TLS"));
    half.send(&half_hello).expect("send");
    encrypted.send(&startup()[..6]).expect("send");
    for mut wire in [silent, half, encrypted] {
        // The read has a deadline of its own, which fails the test.
        while wire.receive_bytes(1).is_ok() {}
        assert!(wire.is_closed());
    }
}

#[test]
fn a_certificate_is_renewed_without_a_restart() {
    let server = secured();
    let shown = || {
        let wire = server.encrypted().expect("TLS");
        wire.server_certificate().expect("a certificate").to_vec()
    };
    let mut before = server.encrypted().expect("TLS");
    before.send(&startup()).expect("send");
    before.finish_startup().expect("a session");
    let first = shown();
    server.change_certificate("renewed").expect("a signal");
    eventually("the new certificate", || shown() != first);
    // Sessions go on, and nonsense changes nothing.
    assert_alive(&mut before);
    let second = shown();
    server.break_certificate().expect("a signal");
    eventually("the refusal", || server.log().contains(if server.target.is_glimpse() { "left as it was" } else { "" }));
    assert_eq!(shown(), second);
    server.change_certificate("server").expect("a signal");
    eventually("the old certificate", || shown() == first);
}

// ---- passwords

/// Everybody who comes to the users' port has to know a password.
const PASSWORDS: &str = "host all all all scram-sha-256\n";
/// What PostgreSQL stores for the password `pencil`.
const PENCIL: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

/// A server with these rules, and roles of every kind.
fn with_roles(rules: &str) -> Secured {
    has_roles(Secured::start(Some(rules)).expect("the server starts"))
}

fn has_roles(server: Secured) -> Secured {
    let mut admin = server.target.admin().expect("a session");
    for sql in [
        "CREATE ROLE alice LOGIN PASSWORD 'open sesame'",
        "CREATE ROLE bob LOGIN PASSWORD 'bébé'",
        "CREATE ROLE carol LOGIN PASSWORD 'carol'",
        "CREATE ROLE mallory LOGIN PASSWORD 'mallory'",
        "CREATE ROLE bare LOGIN",
        "CREATE ROLE staff PASSWORD 'staff'",
        "GRANT staff TO carol",
    ] {
        admin.execute(sql).expect(sql);
    }
    server
}

/// A psql of this user that says over what it is connected.
fn login(server: &Secured, user: &str, password: &str, sslmode: &str) -> Option<Command> {
    let mut command = conninfo(&server.target, sslmode)?;
    command.env("PGUSER", user).env("PGPASSWORD", password);
    Some(command)
}

/// Logs in by SCRAM, by hand. All messages up to ReadyForQuery or a FATAL error.
fn scram(wire: &mut Wire, user: &str, password: &str, mechanism: &str, binding: ChannelBinding) -> Vec<Message> {
    wire.send(&frontend::startup(&[("user", user), ("database", "materialize")])).expect("send");
    let mut messages = vec![wire.receive().expect("an answer")];
    let mut exchange = ScramSha256::new(password.as_bytes(), binding);
    wire.send(&frontend::sasl_initial(mechanism, exchange.message())).expect("send");
    let challenge = wire.receive().expect("an answer");
    messages.push(challenge.clone());
    if challenge.tag == b'R' {
        exchange.update(&challenge.body[4..]).expect("a challenge");
        wire.send(&frontend::authentication(exchange.message())).expect("send");
        messages.extend(wire.until_ready().expect("an answer"));
    }
    messages
}

fn plain_scram(server: &Secured, user: &str, password: &str) -> Vec<Message> {
    let mut wire = Wire::connect(server.addr()).expect("a socket");
    scram(&mut wire, user, password, SCRAM_SHA_256, ChannelBinding::unsupported())
}

/// The SQLSTATE with which a login ended, if it failed.
fn refusal(messages: &[Message]) -> Option<String> {
    let error = messages.iter().find_map(Message::error)?;
    assert_eq!(error.severity, "FATAL", "{error}");
    Some(error.code)
}

#[test]
fn passwords_from_psql_and_drivers() {
    let server = with_roles(PASSWORDS);
    for mode in ["disable", "verify-full"] {
        for (user, password) in [("alice", "open sesame"), ("bob", "bébé"), ("carol", "carol")] {
            let Some(mut command) = login(&server, user, password, mode) else { return };
            let said = run(&mut command);
            assert!(said.contains(&format!("as user \"{user}\"")), "{said}");
            let Some(mut command) = login(&server, user, "wrong", mode) else { return };
            let said = try_run(&mut command).expect_err("a wrong password");
            assert!(said.contains(&format!("password authentication failed for user \"{user}\"")), "{said}");
        }
    }
    // Bound to a certificate that is signed with SHA-256, and to one that is signed with SHA-384.
    for certificate in ["server", "renewed"] {
        server.change_certificate(certificate).expect("a signal");
        let Some(mut command) = login(&server, "alice", "open sesame", "verify-full") else { return };
        let said = run(command.env("PGCHANNELBINDING", "require"));
        assert!(said.contains("SSL connection"), "{said}");
    }
    let mut config = server.target.config();
    let mut session = config.user("alice").password("open sesame").connect(postgres::NoTls).expect("a session");
    assert_eq!(session.query_one("SELECT current_user::text", &[]).expect("a row").get::<_, String>(0), "alice");
    let error = config.password("wrong").connect(postgres::NoTls).err().expect("a wrong password");
    assert_eq!(error.code().expect("a database error").code(), "28P01");
}

/// Whatever is wrong with a user, the conversation is the same: what the server says differs in nothing but what is random
/// or came from the client. (The work is the same, too: see `adapter::password`.)
#[test]
fn nobody_can_tell_who_exists() {
    let mut server = with_roles(PASSWORDS);
    let conversation = |server: &Secured, user: &str| {
        let mut salt = String::new();
        let mut said = Vec::new();
        for message in plain_scram(server, user, "wrong") {
            let text = String::from_utf8_lossy(&message.body).replace(user, "USER");
            // Before the salt is the nonce.
            said.push(match text.split_once(",s=") {
                Some((_, rest)) => {
                    let (found, iterations) = rest.split_once(',').expect("iterations");
                    found.clone_into(&mut salt);
                    iterations.to_owned()
                }
                None => text,
            });
        }
        (said, salt)
    };
    let (expected, _) = conversation(&server, "alice");
    assert_eq!(expected.len(), 3, "{expected:?}");
    assert!(expected[2].contains("28P01"), "{expected:?}");
    let mut salts = Vec::new();
    for user in ["alice", "bob", "bare", "staff", "nobody"] {
        let (said, salt) = conversation(&server, user);
        assert_eq!(said, expected, "{user}");
        assert_eq!(salt.len(), 24, "{user}");
        assert_eq!(conversation(&server, user).1, salt, "{user} is asked with the same salt each time");
        salts.push((user, salt));
    }
    server.target.sigterm().expect("it stops");
    server.target.restart().expect("it starts");
    for (user, salt) in salts {
        assert_eq!(conversation(&server, user).1, salt, "{user} is asked with the same salt after a restart");
    }
    // The right password of a role that may not log in says no more than that.
    assert_eq!(refusal(&plain_scram(&server, "staff", "staff")).as_deref(), Some("28000"));
    assert_eq!(refusal(&plain_scram(&server, "alice", "open sesame")), None);
}

/// Somebody in between takes PLUS out of the server's offer: the client, which can, says so, and both find out.
#[test]
fn a_downgrade_of_scram_is_found_out() {
    let server = with_roles(PASSWORDS);
    let mut wire = server.encrypted().expect("TLS");
    let messages = scram(&mut wire, "alice", "open sesame", SCRAM_SHA_256, ChannelBinding::unrequested());
    assert_eq!(refusal(&messages).as_deref(), Some("28000"));
    // One that cannot may go on, and without TLS there is nothing to be bound to.
    let mut wire = server.encrypted().expect("TLS");
    let messages = scram(&mut wire, "alice", "open sesame", SCRAM_SHA_256, ChannelBinding::unsupported());
    assert_eq!(refusal(&messages), None);
    let mut wire = Wire::connect(server.addr()).expect("a socket");
    let messages = scram(&mut wire, "alice", "open sesame", SCRAM_SHA_256, ChannelBinding::unrequested());
    assert_eq!(refusal(&messages), None);
    // What was not offered cannot be chosen.
    let mut wire = Wire::connect(server.addr()).expect("a socket");
    let binding = ChannelBinding::tls_server_end_point(vec![0; 32]);
    let messages = scram(&mut wire, "alice", "open sesame", SCRAM_SHA_256_PLUS, binding);
    assert_eq!(refusal(&messages).as_deref(), Some("08P01"));
}

/// Somebody in between has a certificate of his own, which the client saw.
#[test]
fn another_certificate_than_ours_is_refused() {
    let server = with_roles(PASSWORDS);
    let mut wire = server.encrypted().expect("TLS");
    let binding = ChannelBinding::tls_server_end_point(vec![7; 32]);
    let messages = scram(&mut wire, "alice", "open sesame", SCRAM_SHA_256_PLUS, binding);
    assert_eq!(refusal(&messages).as_deref(), Some("28000"));
}

/// CVE-2026-6664, and frames of a gibibyte before anybody is known.
#[test]
fn lengths_before_authentication_are_not_believed() {
    let server = with_roles(PASSWORDS);
    let sasl = |length: u32, data: &[u8]| {
        frontend::authentication(&[b"SCRAM-SHA-256\0", &length.to_be_bytes()[..], data].concat())
    };
    let huge = [&b"p"[..], &((1_u32 << 30) - 1).to_be_bytes(), b"SCRAM-SHA-256\0"].concat();
    let negative = [&b"p"[..], &(-5_i32).to_be_bytes(), b"SCRAM-SHA-256\0"].concat();
    for attack in [
        huge,
        negative,
        sasl(0x7fff_fff0, b"n,,n=,r=abc"),
        sasl(0xffff_fff0, b"n,,n=,r=abc"),
        sasl(3, b"n,,n=,r=abc"),
        frontend::authentication(b"SCRAM-SHA-256"),
        frontend::authentication(b""),
        frontend::query("SELECT 1"),
    ] {
        let mut wire = Wire::connect(server.addr()).expect("a socket");
        wire.send(&frontend::startup(&[("user", "alice"), ("database", "materialize")])).expect("send");
        assert_eq!(wire.receive().expect("an answer").tag, b'R');
        wire.send(&attack).expect("send");
        let messages = wire.until_closed().expect("an end");
        assert!(messages.iter().all(|message| message.tag == b'E'), "{messages:?}");
        if server.target.is_glimpse() {
            assert_eq!(refusal(&messages).as_deref(), Some("08P01"));
        }
    }
    assert_eq!(refusal(&plain_scram(&server, "alice", "open sesame")), None);
}

#[test]
fn a_login_that_stops_half_way_is_cut_off() {
    let server = has_roles(Secured::start_impatient(Some(PASSWORDS)).expect("the server starts"));
    let asked = || {
        let mut wire = Wire::connect(server.addr()).expect("a socket");
        wire.send(&frontend::startup(&[("user", "alice"), ("database", "materialize")])).expect("send");
        assert_eq!(wire.receive().expect("an answer").tag, b'R');
        wire
    };
    let (mut silent, mut half, mut challenged) = (asked(), asked(), asked());
    half.send(&frontend::sasl_initial(SCRAM_SHA_256, b"n,,n=,r=abc")[..20]).expect("send");
    challenged.send(&frontend::sasl_initial(SCRAM_SHA_256, b"n,,n=,r=abc")).expect("send");
    assert_eq!(challenged.receive().expect("a challenge").tag, b'R');
    for wire in [&mut silent, &mut half, &mut challenged] {
        while wire.receive().is_ok() {}
        assert!(wire.is_closed());
    }
}

/// CVE-2017-7546: nobody logs in with an empty password, however it was set.
#[test]
fn an_empty_password_is_none() {
    let server = with_roles(PASSWORDS);
    let mut admin = server.target.admin().expect("a session");
    let empty = postgres_protocol::password::scram_sha_256(b"");
    for (sql, has_notice) in [
        ("ALTER ROLE alice PASSWORD ''".to_owned(), true),
        (format!("ALTER ROLE alice PASSWORD '{empty}'"), true),
        ("ALTER ROLE alice PASSWORD NULL".to_owned(), false),
    ] {
        admin.execute("ALTER ROLE alice PASSWORD 'open sesame'").expect("a password");
        assert_eq!(refusal(&plain_scram(&server, "alice", "open sesame")), None);
        let messages = admin.query(&sql).expect("an answer");
        assert_eq!(messages.iter().any(|message| message.tag == b'N'), has_notice, "{sql}");
        for password in ["", "open sesame"] {
            assert_eq!(refusal(&plain_scram(&server, "alice", password)).as_deref(), Some("28P01"), "{sql}");
        }
    }
}

/// Who may set a password of their own must not keep the server busy with it, nor those who log in.
#[test]
fn huge_numbers_of_iterations_are_refused() {
    let server = with_roles(PASSWORDS);
    if !server.target.is_glimpse() {
        return; // PostgreSQL stores any number, and leaves it to its clients.
    }
    let mut admin = server.target.admin().expect("a session");
    let with = |iterations: &str| format!("ALTER ROLE alice PASSWORD '{}'", PENCIL.replacen("4096", iterations, 1));
    for iterations in
        ["1000001", "2147483647", "2147483648", "4294967295", "4294967296", "99999999999999999999", "0", "-1"]
    {
        let code = admin.sqlstate(&with(iterations)).expect("an answer");
        assert_eq!(code.as_deref(), Some("22023"), "{iterations}");
        assert_eq!(refusal(&plain_scram(&server, "alice", "open sesame")), None, "{iterations}");
    }
    admin.execute(&with("4096")).expect("what PostgreSQL stores");
    assert_eq!(refusal(&plain_scram(&server, "alice", "pencil")), None);
}

#[test]
fn passwords_are_set_and_kept_and_not_shown() {
    let mut server = with_roles(PASSWORDS);
    let mut admin = server.target.admin().expect("a session");
    admin.execute(&format!("CREATE USER pen ENCRYPTED PASSWORD '{PENCIL}'")).expect("a verifier");
    assert_eq!(refusal(&plain_scram(&server, "pen", "pencil")), None);
    // Everybody changes their own and nobody else's.
    let mut wire = Wire::connect(server.addr()).expect("a socket");
    let binding = ChannelBinding::unsupported();
    assert_eq!(refusal(&scram(&mut wire, "alice", "open sesame", SCRAM_SHA_256, binding)), None);
    wire.execute("ALTER ROLE alice PASSWORD 'xyzzy-new'").expect("one's own");
    for sql in ["ALTER ROLE bob PASSWORD 'x'", "ALTER ROLE alice PASSWORD 'x' CREATEDB", "CREATE ROLE x"] {
        assert_eq!(wire.sqlstate(sql).expect("an answer").as_deref(), Some("42501"), "{sql}");
    }
    // What was refused, or rolled back, was not done.
    let mut block = server.target.admin().expect("a session");
    block.execute("BEGIN").expect("a block");
    block.execute("ALTER ROLE bob PASSWORD 'never'").expect("a password");
    block.execute("ROLLBACK").expect("the end");
    let state = |server: &Secured| {
        [("alice", "open sesame"), ("alice", "xyzzy-new"), ("bob", "x"), ("bob", "never"), ("bob", "bébé")]
            .map(|(user, password)| refusal(&plain_scram(server, user, password)).is_none())
    };
    assert_eq!(state(&server), [false, true, false, false, true]);
    server.target.kill9().expect("it is killed");
    server.target.restart().expect("it starts");
    assert_eq!(state(&server), [false, true, false, false, true]);
    // A role of the same name is another role.
    let mut admin = server.target.admin().expect("a session");
    admin.execute("DROP ROLE pen").expect("it goes");
    admin.execute("CREATE ROLE pen LOGIN").expect("it comes");
    assert_eq!(refusal(&plain_scram(&server, "pen", "pencil")).as_deref(), Some("28P01"));
    for (sql, code) in [
        ("ALTER ROLE bob PASSWORD 'a' PASSWORD 'b'", "42601"),
        ("ALTER ROLE bob PASSWORD", "42601"),
        ("ALTER ROLE bob PASSWORD b", "42601"),
        ("ALTER ROLE nobody PASSWORD 'b'", "42704"),
    ] {
        assert_eq!(admin.sqlstate(sql).expect("an answer").as_deref(), Some(code), "{sql}");
    }
    if server.target.is_glimpse() {
        check_nothing_is_shown(&server, &mut admin);
    }
}

/// Neither passwords nor what is stored for them are in the system's relations, in the log, or in clear on the disk.
fn check_nothing_is_shown(server: &Secured, admin: &mut Wire) {
    for (sql, code) in [
        ("ALTER ROLE bob PASSWORD 'md5d41d8cd98f00b204e9800998ecf8427e'", "0A000"),
        ("ALTER ROLE bob PASSWORD 'SCRAM-SHA-256$4096:AAAA$AAAA:AAAA'", "22023"),
    ] {
        assert_eq!(admin.sqlstate(sql).expect("an answer").as_deref(), Some(code), "{sql}");
    }
    for (sql, expected) in [
        ("SELECT rolpassword FROM pg_authid WHERE rolname = 'alice'", Some("********")),
        ("SELECT rolpassword FROM pg_authid WHERE rolname = 'bare'", None),
        ("SELECT passwd FROM pg_shadow WHERE usename = 'alice'", Some("********")),
        ("SELECT rolpassword FROM pg_roles WHERE rolname = 'alice'", Some("********")),
    ] {
        assert_eq!(admin.rows(sql).expect(sql)[0][0].as_deref(), expected, "{sql}");
    }
    let secret = "correct horse battery staple";
    admin.execute("ALTER SYSTEM SET log_filter = 'debug'").expect("a filter");
    admin.execute(&format!("ALTER ROLE alice PASSWORD '{secret}'")).expect("a password");
    let code = admin.sqlstate(&format!("ALTER ROLE alice PASSWORD '{secret}' NONSENSE")).expect("an answer");
    assert_eq!(code.as_deref(), Some("0A000"));
    assert_eq!(refusal(&plain_scram(server, "alice", secret)), None);
    assert!(!server.log().contains(secret));
    let Target::Glimpse(process) = &server.target else { return };
    assert!(!holds(process.directory(), secret.as_bytes()), "the password is on the disk");
}

/// Whether a file below this directory holds these bytes.
fn holds(directory: &Path, bytes: &[u8]) -> bool {
    std::fs::read_dir(directory).expect("a directory").flatten().any(|entry| match entry.path() {
        path if path.is_dir() => holds(&path, bytes),
        path => std::fs::read(path).is_ok_and(|text| text.windows(bytes.len()).any(|window| window == bytes)),
    })
}

#[test]
fn a_password_in_clear_is_asked_for_over_tls_only() {
    let server = with_roles("hostssl all all all password\n");
    let Some(mut command) = login(&server, "alice", "open sesame", "require") else { return };
    run(&mut command);
    for (user, password) in [("alice", "wrong"), ("bare", "x"), ("nobody", "x"), ("staff", "wrong")] {
        let Some(mut command) = login(&server, user, password, "require") else { return };
        let said = try_run(&mut command).expect_err("it is refused");
        assert!(said.contains(&format!("password authentication failed for user \"{user}\"")), "{said}");
    }
    let Some(mut command) = login(&server, "alice", "open sesame", "disable") else { return };
    let said = try_run(&mut command).expect_err("there is no TLS");
    assert!(said.contains("no pg_hba.conf entry for host") && said.contains("no encryption"), "{said}");
    if server.target.is_glimpse() {
        let refused = Secured::start(Some("host all all all password\n")).expect_err("it would be seen");
        let said = format!("{refused:#}");
        assert!(said.contains("line 1: method \"password\" is for hostssl rules only"), "{said}");
    }
}

// ---- host-based rules

#[test]
fn the_first_rule_that_fits_decides() {
    let rules = r#"
# first fit
host    all                  mallory  all                  reject
hostssl all                  +staff   127.0.0.1/32         scram-sha-256
hostnossl materialize,"other" bob     127.0.0.0 255.0.0.0  trust
host    all                  all      10.0.0.0/8           trust
"#;
    let server = with_roles(rules);
    let login = |user: &str, is_encrypted: bool| {
        let wire = if is_encrypted { server.encrypted() } else { Wire::connect(server.addr()) };
        let mut wire = wire.expect("a connection");
        wire.send(&frontend::startup(&[("user", user), ("database", "materialize")])).expect("send");
        let first = wire.receive().expect("an answer");
        match first.error() {
            Some(error) => format!("{} {}", error.code, error.message),
            None => match first.body[..4] {
                [0, 0, 0, 0] => "trust".to_owned(),
                [0, 0, 0, 10] => "scram".to_owned(),
                _ => panic!("{first:?}"),
            },
        }
    };
    let refused = |how: &str, user: &str, encryption: &str| {
        format!("28000 pg_hba.conf {how} host \"127.0.0.1\", user \"{user}\", database \"materialize\", {encryption}")
            .replace("28000 pg_hba.conf no entry", "28000 no pg_hba.conf entry")
    };
    let none = |user: &str, encryption: &str| refused("no entry for", user, encryption);
    assert_eq!(login("mallory", true), refused("rejects connection for", "mallory", "SSL encryption"));
    assert_eq!(login("mallory", false), refused("rejects connection for", "mallory", "no encryption"));
    assert_eq!(login("carol", true), "scram");
    assert_eq!(login("carol", false), none("carol", "no encryption"));
    assert_eq!(login("alice", true), none("alice", "SSL encryption"));
    assert_eq!(login("bob", false), "trust");
    assert_eq!(login("bob", true), none("bob", "SSL encryption"));
    // A group is who is in it now.
    let mut admin = server.target.admin().expect("a session");
    admin.execute("GRANT staff TO alice").expect("a member");
    eventually("membership", || login("alice", true) == "scram");
    admin.execute("REVOKE staff FROM alice, carol").expect("no members");
    eventually("no membership", || login("carol", true) == none("carol", "SSL encryption"));
    // Other rules are read on a signal, and such as cannot be read change nothing.
    server.change_rules("host all bob all reject\n").expect("a signal");
    eventually("the new rules", || login("bob", false).starts_with("28000 pg_hba.conf rejects"));
    server.change_rules("host all bob all nonsense\n").expect("a signal");
    if server.target.is_glimpse() {
        eventually("the refusal", || server.log().contains("authentication method \"nonsense\" is not supported"));
    }
    assert!(login("bob", false).starts_with("28000 pg_hba.conf rejects"));
    server.change_rules("host all bob all trust\n").expect("a signal");
    eventually("the last rules", || login("bob", false) == "trust");
}

#[test]
fn the_system_user_comes_in_through_the_internal_port_only() {
    let target = Target::start().expect("the server starts");
    if !target.is_glimpse() {
        return; // PostgreSQL has one port.
    }
    assert_alive(&mut target.admin().expect("a session"));
    let mut wire = Wire::connect(target.addr()).expect("a socket");
    wire.send(&frontend::startup(&[("user", "mz_system"), ("database", "materialize")])).expect("send");
    let messages = wire.until_closed().expect("an end");
    assert_eq!(refusal(&messages).as_deref(), Some("28000"));
}
