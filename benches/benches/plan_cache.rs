//! From the text of a statement to its plan and the values of its literals: what every simple query does before it reads.
//!
//! A hit in the session's own map, a hit in the map that all sessions share (the first time a connection sends a statement
//! that others have sent), and a miss, which is planning.

use adapter::client::{Client, Config, Running};
use adapter::response::Response;
use adapter::session::Session;
use adapter::startup::StartupParams;
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use ore::clock::Clock;
use ore::metrics::Registry;
use persist::PersistClient;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;
use timestamp_oracle::local::LocalOracle;

const POINT: &str = "select * from kv where id = ";

/// A server without sockets.
struct Server {
    runtime: tokio::runtime::Runtime,
    client: Client,
    _running: Running,
    _data_dir: tempfile::TempDir,
}

fn server() -> Server {
    let data_dir = tempfile::tempdir().expect("a temporary directory");
    let persist = PersistClient::open(data_dir.path()).expect("an empty directory");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("threads");
    let clock = Clock::system();
    let (client, running) = Client::start(Config {
        oracle: Arc::new(LocalOracle::open(&persist, clock.clone()).expect("no time yet")),
        persist,
        spawner: Box::new(compute::LocalWorkers),
        adhoc: runtime.handle().clone(),
        memory: ore::memory::Share::root(usize::MAX, None),
        adhoc_statements: 4,
        adhoc_memory: usize::MAX,
        spill: None,
        maintained_memory: usize::MAX,
        clock,
        registry: Registry::new(),
        system_defaults: Vec::new(),
        retain: Duration::from_secs(1),
    })
    .expect("starts from nothing");
    let server = Server { runtime, client, _running: running, _data_dir: data_dir };
    let mut session = server.session();
    for sql in
        ["create table kv (id int4, v text)", "create index kv_id on kv (id)", "insert into kv values (1, 'one')"]
    {
        server.run(&mut session, sql);
    }
    server
}

impl Server {
    fn session(&self) -> Session {
        let startup = StartupParams {
            user: "mz_system".to_owned(),
            database: Some("materialize".to_owned()),
            internal: true,
            options: Vec::new(),
            claims: None,
            peer: None,
            local: None,
            encryption: None,
        };
        self.client.connect(startup).expect("the user exists")
    }

    fn run(&self, session: &mut Session, sql: &str) {
        self.runtime.block_on(async {
            let mut script = session.start_script(sql).expect("valid SQL");
            while !script.is_done() {
                let response = session.next_in_script(&mut script).await.expect("valid SQL");
                if let Response::Rows { mut rows, .. } = response {
                    while rows.next(1024).await.expect("readable").is_some() {}
                }
            }
            session.finish_script(&script).await.expect("commits");
        });
    }
}

fn plan_cache(criterion: &mut Criterion) {
    let server = server();
    let mut group = criterion.benchmark_group("plan_cache");
    let mut session = server.session();
    server.run(&mut session, &format!("{POINT}1"));
    let texts: Vec<String> = (0..1_000).map(|id| format!("{POINT}{}", id * 997)).collect();
    let mut next = texts.iter().cycle();
    group.bench_function("hit in the session", |bencher| {
        bencher.iter(|| {
            let sql = next.next().expect("endless");
            drop(black_box(session.start_script(black_box(sql)).expect("planned before")));
        });
    });
    group.bench_function("hit among all sessions", |bencher| {
        bencher.iter_batched_ref(
            || server.session(),
            |session| drop(black_box(session.start_script(&texts[1]).expect("planned before"))),
            BatchSize::SmallInput,
        );
    });
    let mut columns = 0;
    group.bench_function("miss", |bencher| {
        bencher.iter(|| {
            // An alias is part of the shape: this text was never planned.
            columns += 1;
            let sql = format!("select id, v as v{columns} from kv where id = 7");
            drop(black_box(session.start_script(&sql).expect("valid SQL")));
        });
    });
    group.finish();
}

criterion_group!(stages, plan_cache);
criterion_main!(stages);
