// SPDX-License-Identifier: Apache-2.0
//! The library's interfaces against weir-server, over two local addresses.

use crate::common::{CLIENT, Server};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_core::choice::{PathId, Question, Strategy};
use weir_core::report::events::Event;
use weir_quic::{Builder, Client, Connection, ErrorKind, Request};

fn settings(server: &Server) -> Builder {
    Client::builder().ca(server.ca()).path("127.0.0.2").path("127.0.0.3")
}

fn connect(server: &Server) -> Connection {
    settings(server).build().unwrap().connect(&server.url("/")).unwrap()
}

/// Threads of this process that are named as a client's.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    tasks.filter(|task| std::fs::read_to_string(task.path().join("comm")).is_ok_and(|c| c == "weir-quic\n")).count()
}

#[test]
fn many_requests_at_once_over_two_paths() {
    let server = Server::start(&[]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let observer = move |_: u64, _: std::time::Instant, event: &Event| sink.lock().unwrap().push(event.clone());
    let connection = settings(&server).observer(observer).build().unwrap().connect(&server.url("/")).unwrap();
    std::thread::scope(|scope| {
        for n in 1..=20u64 {
            let connection = connection.clone();
            scope.spawn(move || {
                let bytes = n * 10_000;
                let response = connection.request(Request::get(format!("/bytes/{bytes}"))).unwrap();
                assert_eq!(response.status(), 200);
                assert_eq!(response.headers()["content-length"], bytes.to_string());
                assert_eq!(response.bytes(1_000_000).unwrap().len() as u64, bytes);
            });
        }
    });
    // One after the other: each may take another path.
    for _ in 0..20 {
        assert_eq!(connection.request(Request::get("/bytes/5kB")).unwrap().bytes(5000).unwrap().len(), 5000);
    }
    assert!(["127.0.0.2", "127.0.0.3"].contains(&connection.status().path.as_str()));
    connection.close();
    let seen = seen.lock().unwrap();
    let ended = seen.iter().filter(|e| matches!(e, Event::Task { outcome: "complete", .. })).count();
    assert_eq!(ended, 40);
    assert!(seen.iter().any(|e| matches!(e, Event::Path { event: "validated", .. })), "{seen:?}");
}

/// Each path in turn, by the numbers of tasks.
#[derive(Debug)]
struct Turns(Arc<Mutex<Vec<String>>>);

impl Strategy for Turns {
    fn choose(&mut self, question: &Question<'_>, _: &mut fastrand::Rng) -> (PathId, &'static str) {
        (question.usable[question.task as usize % question.usable.len()], "turn")
    }

    fn named(&mut self, _: PathId, name: &str) {
        self.0.lock().unwrap().push(name.to_owned());
    }
}

#[test]
fn a_strategy_has_state_of_the_program() {
    let server = Server::start(&[]);
    let names = Arc::new(Mutex::new(Vec::new()));
    let shared = Arc::clone(&names);
    let client = settings(&server).strategy_by(move |_| Box::new(Turns(Arc::clone(&shared)))).build().unwrap();
    let connection = client.connect(&server.url("/")).unwrap();
    while connection.status().switches < 3 {
        connection.request(Request::get("/bytes/100")).unwrap().bytes(100).unwrap();
    }
    // The first path is drawn by the seed.
    names.lock().unwrap().sort();
    assert_eq!(*names.lock().unwrap(), ["127.0.0.2", "127.0.0.3"]);
}

#[test]
fn a_status_is_no_error_and_a_header_arrives() {
    let server = Server::start(&[]);
    let connection = connect(&server);
    let response = connection.request(Request::get("/none").header("x-a", "b")).unwrap();
    assert_eq!(response.status(), 404);
    let refused = connection.request(Request::get("/").header("connection", "close")).err().unwrap();
    assert!(refused.kind() == ErrorKind::Usage && refused.to_string().contains("connection"), "{refused}");
    let refused = connection.request(Request::get("no slash")).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Usage);
}

#[test]
fn a_body_is_streamed_while_it_is_written() {
    let server = Server::start(&[]);
    let connection = connect(&server);
    let (mut body, pending) = connection.open(Request::post("/upload")).unwrap();
    for _ in 0..100 {
        body.write_all(&[7; 100_000]).unwrap();
    }
    body.finish();
    let mut text = String::new();
    pending.wait().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text.trim(), "10000000");
    let whole = connection.request(Request::post("/upload").body(vec![1; 12_345])).unwrap().bytes(64).unwrap();
    assert_eq!(whole.trim_ascii(), b"12345");
}

#[test]
fn a_slow_reader_stops_the_server() {
    let server = Server::start(&[]);
    let client = settings(&server).stream_window_bytes(1 << 20, 1 << 20).build().unwrap();
    let connection = client.connect(&server.url("/")).unwrap();
    let mut slow = connection.request(Request::get("/bytes/100MB")).unwrap();
    assert!(slow.chunk().unwrap().is_some());
    // The server has had time for all of it, as another request of the same size shows.
    let mut fast = connection.request(Request::get("/bytes/100MB")).unwrap();
    let mut bytes = 0;
    while let Some(part) = fast.chunk().unwrap() {
        bytes += part.len();
    }
    assert_eq!(bytes, 100_000_000);
    // Observations are as of the last iteration of the driver, which may be behind its readers.
    let taken = (0..10_000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(1));
        connection.status().bytes.checked_sub(bytes as u64).filter(|taken| *taken > 0)
    });
    assert!(taken.is_some_and(|taken| taken < 2_000_000), "{taken:?} bytes of the slow one are in memory");
    drop(slow);
    assert_eq!(connection.request(Request::get("/bytes/1")).unwrap().bytes(1).unwrap().len(), 1);
}

#[test]
fn dropping_cancels() {
    let server = Server::start(&[]);
    let connection = connect(&server);
    // More than the server's limit of streams at once.
    for _ in 0..300 {
        drop(connection.request(Request::get("/bytes/unlimited")).unwrap());
    }
    let (body, pending) = connection.open(Request::post("/upload")).unwrap();
    drop(body);
    assert_eq!(pending.wait().err().unwrap().kind(), ErrorKind::Closed);
    drop(connection);
    let lines = server.finish();
    assert!(lines.iter().any(|line| line["k"] == "end"), "{lines:?}");
}

#[test]
fn a_dead_server_ends_requests_and_connection() {
    let mut server = Server::start(&[]);
    let client = settings(&server).idle_timeout(Duration::from_millis(1500)).build().unwrap();
    let connection = client.connect(&server.url("/")).unwrap();
    let mut response = connection.request(Request::get("/bytes/unlimited")).unwrap();
    server.child.kill().unwrap();
    let failed = std::io::copy(&mut response, &mut std::io::sink()).unwrap_err();
    assert!(failed.to_string().contains("fell silent"), "{failed}");
    assert_eq!(connection.request(Request::get("/")).err().unwrap().kind(), ErrorKind::Timeout);
    assert_eq!(connection.ended().unwrap().kind(), ErrorKind::Timeout);
}

#[test]
fn what_can_not_connect_has_a_kind() {
    let server = Server::start(&[]);
    let kind = |builder: Builder, url: &str| {
        builder.build().and_then(|client| client.connect(url)).map(|_| ()).unwrap_err().kind()
    };
    assert_eq!(kind(Client::builder(), &server.url("/")), ErrorKind::Tls);
    assert_eq!(kind(Client::builder(), "http://127.0.0.1/"), ErrorKind::Usage);
    assert_eq!(kind(Client::builder(), "https://no-such-host.invalid/"), ErrorKind::Connect);
    assert_eq!(kind(Client::builder().path("no-such-if"), &server.url("/")), ErrorKind::Paths);
    assert_eq!(kind(Client::builder().path("::1"), &server.url("/")), ErrorKind::Paths);
    assert_eq!(kind(Client::builder().ca("/nonexistent"), &server.url("/")), ErrorKind::Io);
    // Settings have the names that this program has for them.
    let text = |builder: Builder| builder.build().and_then(|c| c.connect(&server.url("/"))).err().unwrap().to_string();
    assert!(text(Client::builder().ca("/nonexistent")).starts_with("ca /nonexistent: "));
    assert!(text(Client::builder()).ends_with("; ca FILE trusts a certificate, insecure accepts any"));
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(kind(Client::builder(), &format!("https://{free}/")), ErrorKind::Connect);
}

#[test]
fn requests_beyond_the_limit_are_rejected() {
    let server = Server::start(&[]);
    let client = settings(&server).most_requests(1, 2).build().unwrap();
    let connection = client.connect(&server.url("/")).unwrap();
    let _running = connection.request(Request::get("/bytes/unlimited")).unwrap();
    let open = || connection.open(Request::post("/upload"));
    let waiting = [open().unwrap(), open().unwrap()];
    assert_eq!(open().err().unwrap().kind(), ErrorKind::Busy);
    drop(waiting);
}

#[test]
fn no_thread_is_left() {
    let server = Server::start(&[]);
    let run = "WEIR_TEST_OF_THREADS";
    if std::env::var_os(run).is_none() {
        // In a process of its own, without the threads of other tests.
        let me = std::env::current_exe().unwrap();
        let test = ["--exact", "library::no_thread_is_left"];
        assert!(std::process::Command::new(me).args(test).env(run, "1").status().unwrap().success());
        return;
    }
    let connection = connect(&server);
    let response = connection.request(Request::get("/bytes/unlimited")).unwrap();
    assert_eq!(threads(), 1);
    drop(connection);
    assert_eq!(threads(), 1, "a response holds its connection");
    drop(response);
    assert_eq!(threads(), 0);
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

#[test]
fn futures() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = Server::start(&[]);
    let client = settings(&server).build().unwrap();
    run(async {
        let connection = weir_quic::tokio::connect(&client, &server.url("/")).await.unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for n in 1..=10u64 {
            let connection = connection.clone();
            tasks.spawn(async move {
                let mut response = connection.request(Request::get(format!("/bytes/{}", n * 100_000))).await.unwrap();
                let mut whole = Vec::new();
                response.read_to_end(&mut whole).await.unwrap();
                assert_eq!(whole.len() as u64, n * 100_000);
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        let (mut body, pending) = connection.open(Request::post("/upload")).unwrap();
        for _ in 0..50 {
            body.write_all(&[7; 100_000]).await.unwrap();
        }
        body.shutdown().await.unwrap();
        assert_eq!(pending.wait().await.unwrap().bytes(64).await.unwrap().trim_ascii(), b"5000000");
        connection.close();
    });
}

#[test]
fn a_dropped_future_cancels() {
    let server = Server::start(&[]);
    let client = settings(&server).build().unwrap();
    run(async {
        let connection = weir_quic::tokio::connect(&client, &server.url("/")).await.unwrap();
        for _ in 0..300 {
            let mut endless = connection.request(Request::get("/bytes/unlimited")).await.unwrap();
            let part = endless.chunk().await.unwrap();
            assert!(part.is_some());
        }
        let reset = connection.request(Request::get("/bytes/1")).await.unwrap();
        assert_eq!(reset.bytes(1).await.unwrap().len(), 1);
    });
}

#[test]
fn a_panic_of_an_observer_ends_connections_and_requests() {
    let server = Server::start(&[]);
    // The second request's end, while the first one is waited for.
    let observer = |_: u64, _: std::time::Instant, event: &Event| assert!(!matches!(event, Event::Task { .. }));
    let client = settings(&server).observer(observer).build().unwrap();
    let connection = client.connect(&server.url("/")).unwrap();
    let mut endless = connection.request(Request::get("/bytes/unlimited")).unwrap();
    let (_body, unanswered) = connection.open(Request::post("/upload")).unwrap();
    let _ = connection.request(Request::get("/bytes/1"));
    let failed = std::io::copy(&mut endless, &mut std::io::sink()).unwrap_err();
    assert!(failed.to_string().contains("panic"), "{failed}");
    let unfinished = unanswered.wait().and_then(|response| response.bytes(64));
    assert_eq!(unfinished.unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(connection.request(Request::get("/")).err().unwrap().kind(), ErrorKind::Io);
    assert_eq!(client.connect(&server.url("/")).err().unwrap().kind(), ErrorKind::Io);
    connection.close();
}

#[test]
fn an_observer_can_not_wait_for_its_own_thread() {
    let server = Server::start(&[]);
    let held = Arc::new(Mutex::new(None::<Connection>));
    let (sender, refused) = std::sync::mpsc::channel();
    let mine = Arc::clone(&held);
    let observer = move |_: u64, _: std::time::Instant, event: &Event| {
        let ended = matches!(event, Event::Task { .. });
        if let Some(connection) = mine.lock().unwrap().take_if(|_| ended) {
            sender.send(connection.request(Request::get("/bytes/1")).err()).unwrap();
            connection.close();
        }
    };
    let connection = settings(&server).observer(observer).build().unwrap().connect(&server.url("/")).unwrap();
    *held.lock().unwrap() = Some(connection.clone());
    connection.request(Request::get("/bytes/1")).unwrap().bytes(1).unwrap();
    assert_eq!(refused.recv().unwrap().unwrap().kind(), ErrorKind::Usage);
}

#[test]
fn a_head_beyond_the_congestion_window_fails_alone() {
    let server = Server::start(&[]);
    let connection = connect(&server);
    let large = connection.request(Request::get("/bytes/1").header("x", vec![b'a'; 60_000]));
    assert_eq!(large.err().unwrap().kind(), ErrorKind::TooLarge);
    assert_eq!(connection.request(Request::get("/bytes/1")).unwrap().bytes(1).unwrap().len(), 1);
    let wrong = connection.request(Request::post("/upload").header("content-length", "5").body("four"));
    assert_eq!(wrong.err().unwrap().kind(), ErrorKind::Usage);
}

#[test]
fn tasks_share_a_body() {
    let server = Server::start(&[]);
    let client = settings(&server).build().unwrap();
    run(async {
        let connection = weir_quic::tokio::connect(&client, &server.url("/")).await.unwrap();
        let (body, pending) = connection.open(Request::post("/upload")).unwrap();
        let body = Arc::new(body);
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let body = Arc::clone(&body);
            tasks.spawn(async move {
                for _ in 0..100 {
                    assert!(body.send(vec![0; 20_000]).await.unwrap());
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        Arc::into_inner(body).unwrap().finish();
        assert_eq!(pending.wait().await.unwrap().bytes(64).await.unwrap().trim_ascii(), b"16000000");
    });
}

/// An example of the library, which a test run of the workspace builds.
fn example(name: &str, server: &Server) -> String {
    let program = Path::new(CLIENT).with_file_name("examples").join(name);
    assert!(program.exists(), "{}: cargo test builds it for the whole workspace", program.display());
    let args = [&server.url("/bytes/10kB"), &server.ca(), "127.0.0.2", "127.0.0.3"];
    let out = std::process::Command::new(program).args(args).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn examples_run_and_the_guide_has_the_first() {
    let server = Server::start(&[]);
    let out = example("get", &server);
    assert_eq!(out.lines().filter(|line| line.starts_with("200 OK: 10000 bytes over 127.0.0.")).count(), 10, "{out}");
    assert_eq!(example("get_tokio", &server).lines().filter(|line| line.starts_with("10000 bytes")).count(), 10);
    let program = include_str!("../../../library/examples/get.rs");
    let (_, code) = program.split_once("\n\n").unwrap();
    assert!(include_str!("../../../../docs/use/library.md").contains(code));
}
