//! Who gets in, and how: TLS, passwords, host-based rules.
//!
//! What a client library never does is sent over raw sockets; what libraries and programs do is done by them.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use glimpse_test::programs::{self, client, program, run, try_run};
use glimpse_test::secured::{Secured, client_tls, tls_file};
use glimpse_test::target::Target;
use glimpse_test::wire::message::Message;
use glimpse_test::wire::{Wire, frontend};

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
    let script = glimpse_test::manifest_dir().join("drivers/tls_test.py");
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
    let server = secured();
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
