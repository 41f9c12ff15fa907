//! The internal HTTP port: health, metrics and profiles.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use glimpse_test::target::Target;

/// The metrics that the contract names.
const METRICS: [&str; 6] = [
    "mz_frontend_peek_seconds",
    "mz_time_to_first_row_seconds",
    "mz_ts_oracle_started_count",
    "mz_append_table_duration_seconds",
    "mz_connection_status",
    "mz_slow_message_handling_count",
];

fn get(addr: SocketAddr, path: &str) -> (String, String) {
    glimpse_test::http::get(addr, path).expect("an answer")
}

#[test]
fn health_metrics_and_profiles_are_served() {
    let target = Target::start().expect("the server starts");
    let Target::Glimpse(server) = &target else { return };
    let addr = server.internal_http_addr();
    for path in ["/api/livez", "/api/readyz"] {
        assert!(get(addr, path).0.contains("200"), "{path}");
    }
    let mut wire = target.admin().expect("a session starts");
    wire.execute("CREATE TABLE t (a int4)").expect("the table is made");
    wire.execute("CREATE INDEX t_a ON t (a)").expect("the index is made");
    wire.execute("INSERT INTO t VALUES (1)").expect("the row is stored");
    for _ in 0..200 {
        wire.rows("SELECT * FROM t WHERE a = 1").expect("a row");
    }
    let (status, body) = get(addr, "/metrics");
    assert!(status.contains("200"), "{status}");
    for name in METRICS {
        assert!(body.contains(name), "no metric {name}");
    }
    let hits = body.lines().any(|line| line.contains("plan_cache") && line.contains("hit") && !line.ends_with(" 0"));
    assert!(hits, "repeated queries hit the plan cache");
    // An idle server has nothing to sample.
    let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stop = std::sync::Arc::clone(&done);
    let load = std::thread::spawn(move || {
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            wire.rows("SELECT * FROM t WHERE a = 1").expect("a row");
        }
    });
    let (status, body) = get(addr, "/prof/cpu?seconds=1");
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    load.join().expect("the load ends");
    assert!(status.contains("200") && body.contains("<svg"), "a flamegraph: {status}");
    assert!(get(addr, "/nosuch").0.contains("404"));
}

/// Half a request each.
const HALF_OPEN: u64 = 1_000;

#[test]
fn half_open_requests_touch_nobody_else() {
    let target = Target::start().expect("the server starts");
    let Target::Glimpse(server) = &target else { return };
    let mut wire = target.admin().expect("a session starts");
    let addr = server.internal_http_addr();
    let mut open = Vec::new();
    for _ in 0..glimpse_test::amount(HALF_OPEN) {
        // One that is refused, or closed at once, is one that does no harm.
        let Ok(mut stream) = std::net::TcpStream::connect(addr) else { continue };
        let _closed = stream.write_all(b"GET /api/livez HTTP/1.1\r\nHost: half");
        open.push(stream);
    }
    assert_eq!(wire.rows("SELECT 1").expect("a row").len(), 1);
    let mut other = target.admin().expect("sessions begin");
    assert_eq!(other.rows("SELECT 1").expect("a row").len(), 1);
    // They go by themselves, although their clients do not.
    let deadline = Instant::now() + Duration::from_secs(60);
    while !glimpse_test::http::get(addr, "/api/livez").is_ok_and(|(status, _)| status.contains("200")) {
        assert!(Instant::now() < deadline, "the half requests have not gone");
        std::thread::sleep(Duration::from_millis(200));
    }
    drop(open);
    let mut stream = std::net::TcpStream::connect(addr).expect("a connection");
    let head = format!("GET /api/livez HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "x".repeat(1 << 20));
    let _closed = stream.write_all(head.as_bytes());
    let mut answer = Vec::new();
    let _reset = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"), "a head of a megabyte was read");
}
