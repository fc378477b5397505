// SPDX-License-Identifier: Apache-2.0
//! Limits on a run and on an answer, and a server's words on the user's terminal.

use crate::common::{CLIENT, SERVER, Server, bad, client, endless, good, lines_so_far};
use serde_json::Value;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use weir_core::congestion::CONTROLS;

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().count() == 0
}

#[test]
#[ignore = "long tier"]
fn a_run_that_takes_too_long_is_given_up() {
    let s = Server::start(&[]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x").to_str().unwrap().to_owned();
    let slow = ["--insecure", "-q", "--max-time", "0.5"];
    let out = bad(&[&[&*s.url("/bytes/unlimited"), "-o", &file][..], &slow].concat(), 5, "--max-time is over");
    assert!(is_empty(dir.path()) && !out.stdout.is_empty(), "the report is there, the file is not");
    // Its other paths are not tried then.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/x", silent.local_addr().unwrap());
    bad(&[&[&*url][..], &slow].concat(), 5, "--max-time is over");
    bad(&[&[&*url, "--path", "127.0.0.2", "--path", "127.0.0.3"][..], &slow].concat(), 5, "--max-time is over");
    good(&[&s.url("/bytes/1MB"), "--insecure", "--max-time", "3600"]);
    assert_eq!(client(&[&url, "--max-time", "0"]).status.code(), Some(2));
}

#[test]
#[ignore = "long tier"]
fn a_reader_that_takes_nothing_does_not_hold_a_run_either() {
    let s = Server::start(&[]);
    let words = [&*s.url("/bytes/unlimited"), "--insecure", "-q", "--max-time", "0.2", "-o", "-"];
    let mut child = Command::new(CLIENT).args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Not read before it is over.
    assert_eq!(child.wait().unwrap().code(), Some(5));
    let out = child.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&out.stderr).contains("--max-time is over"));
}

#[test]
#[ignore = "long tier"]
fn an_answer_that_is_too_large_is_refused() {
    let s = Server::start(&[]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x").to_str().unwrap().to_owned();
    for (alpn, path) in [("h3", "/bytes/1MB"), ("hq-interop", "/bytes/1MB"), ("h3", "/bytes/unlimited")] {
        let url = s.url(path);
        let line = [&*url, "--insecure", "--alpn", alpn, "--max-size", "999999", "-o", &file, "--json"];
        let out = bad(&line, 10, "999999");
        assert!(is_empty(dir.path()), "{alpn} {path}");
        let report: Value = serde_json::from_slice(&out.stdout).unwrap();
        let flow = &report["flows"][0];
        assert_eq!(flow["exit"], "too_large");
        let bytes = flow["bytes"].as_u64().unwrap();
        assert!(bytes <= 999_999, "{bytes}");
        if (alpn, path) == ("h3", "/bytes/1MB") {
            assert_eq!(bytes, 0, "its length was told beforehand");
        }
        good(&[&s.url("/bytes/999999"), "--insecure", "--alpn", alpn, "--max-size", "999999"]);
    }
    // Each answer for itself.
    good(&[&s.url("/bytes/10kB"), "--insecure", "--max-size", "10kB", "--requests", "3"]);
    let e = client(&[&s.url(""), "--upload", "--bytes", "1", "--max-size", "1"]);
    assert_eq!(e.status.code(), Some(2));
}

#[test]
fn the_list_of_congestion_controls_is_the_table() {
    let out = client(&["--list-cc", "--json"]);
    assert!(out.status.success());
    let rows: Value = serde_json::from_slice(&out.stdout).unwrap();
    let listed: Vec<_> =
        rows.as_array().unwrap().iter().map(|r| (r["name"].as_str(), r["learned"].as_bool())).collect();
    let table: Vec<_> = CONTROLS.iter().map(|kind| (Some(kind.name), Some(kind.profile.is_some()))).collect();
    assert_eq!(listed, table);
    let text = String::from_utf8(client(&["--list-cc"]).stdout).unwrap();
    let firsts: Vec<_> = text.lines().map(|line| line.split_whitespace().next()).collect();
    assert_eq!(firsts, CONTROLS.iter().map(|kind| Some(kind.name)).collect::<Vec<_>>());
    assert_eq!(client(&["--list-cc", "https://localhost"]).status.code(), Some(2));
    assert_eq!(client(&[]).status.code(), Some(2));
}

/// A server that closes each connection with this reason as soon as it can.
fn closing_with(reason: &'static [u8]) -> (String, std::thread::JoinHandle<()>) {
    let made = weir_io::cert::make(&["localhost".to_owned()]).unwrap();
    let mut ctx = boring::ssl::SslContextBuilder::new(boring::ssl::SslMethod::tls()).unwrap();
    ctx.set_certificate(&made.chain[0]).unwrap();
    ctx.set_private_key(&made.key).unwrap();
    let mut config = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, ctx).unwrap();
    config.set_application_protos(&[b"h3"]).unwrap();
    config.set_initial_max_data(1 << 20);
    config.set_initial_max_stream_data_uni(1 << 20);
    config.set_initial_max_streams_uni(3);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let local = socket.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let mut bytes = [0; 65536];
        let (mut n, from) = socket.recv_from(&mut bytes).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let scid = quiche::ConnectionId::from_ref(&[7; 16]);
        let mut quic = quiche::accept(&scid, None, local, from, &mut config).unwrap();
        loop {
            let _ = quic.recv(&mut bytes[..n], quiche::RecvInfo { from, to: local });
            if quic.is_established() {
                // Done once, it is done.
                let _ = quic.close(true, 0x1234, reason);
            }
            while let Ok((n, _)) = quic.send(&mut bytes) {
                socket.send_to(&bytes[..n], from).unwrap();
            }
            if quic.is_draining() || quic.is_closed() {
                return;
            }
            n = socket.recv(&mut bytes).unwrap_or_else(|_| {
                quic.on_timeout();
                0
            });
        }
    });
    (format!("https://{local}/x"), server)
}

#[test]
#[ignore = "long tier"]
fn a_servers_words_do_nothing_to_a_terminal() {
    let (url, server) = closing_with(b"no \x1b]0;owned\x07\x1b[2J\xc2\x9b31m\r\nweir-client: all is well");
    let out = client(&[&url, "--insecure"]);
    server.join().unwrap();
    let (err, table) = (String::from_utf8(out.stderr).unwrap(), String::from_utf8(out.stdout).unwrap());
    let shown = r"no \u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{d}\u{a}weir-client: all is well";
    assert!(err.contains(shown) && err.lines().count() == 1, "{err:?}");
    assert!(!(err + &table).contains(|c: char| c.is_control() && c != '\n'));
}

/// Reason of a connection closed in favour of others.
const GAVE_WAY: &str = "gave way: held memory that others needed";

/// A client that has begun to download without end, and stands still; killed when it goes out of scope.
struct Stopped {
    child: Child,
    _dir: TempDir,
}

impl Stopped {
    fn start(s: &Server, extra: &[&str]) -> Stopped {
        let (child, _dir) = endless(s, extra);
        assert!(Command::new("kill").args(["-s", "STOP", &child.id().to_string()]).status().unwrap().success());
        Stopped { child, _dir }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Received bytes in a download's report.
fn came(report: &Value) -> u64 {
    report["total"]["bytes"].as_u64().unwrap()
}

#[test]
#[ignore = "long tier"]
fn a_download_alone_has_room_in_the_least_memory_there_is() {
    let s = Server::start(&["--send-memory-mib", "1"]);
    for alpn in ["h3", "hq-interop"] {
        let url = s.url("/bytes/3MB");
        let words = [&*url, "--insecure", "--alpn", alpn, "--requests", "8", "--parallel", "8"];
        assert_eq!(came(&good(&words)), 24_000_000, "{alpn}");
    }
    assert!(s.finish().iter().all(|line| line["reason"] != GAVE_WAY));
    let refused = Command::new(SERVER).args(["--send-memory-mib", "0"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
}

// More than its window nobody can hold, so that a client alone is never in the way, whatever a busy machine loses.
#[test]
#[ignore = "long tier"]
fn an_upload_alone_has_room_in_the_least_memory_there_is() {
    let narrow = ["--conn-window", "512KiB", "--max-conn-window", "512KiB"];
    let s = Server::start(&[&["--receive-memory-mib", "1"][..], &narrow].concat());
    for alpn in ["h3", "hq-interop"] {
        let url = s.url("");
        let words = ["--insecure", "--upload", "--bytes", "3MB", "--alpn", alpn, "--requests", "8", "--parallel", "8"];
        assert_eq!(came(&good(&[&[&*url][..], &words].concat())), 24_000_000, "{alpn}");
    }
    assert!(s.finish().iter().all(|line| line["k"] != "end" || line["reason"] == "closed by client"));
    let refused = Command::new(SERVER).args(["--receive-memory-mib", "0"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
}

// Six stopped clients are given all of the memory, by halves; it is less than one of them could hold.
#[test]
#[ignore = "long tier"]
fn clients_that_stop_reading_give_way_to_those_who_read() {
    let s = Server::start(&["--send-memory-mib", "1", "--initial-window-packets", "2000"]);
    let wide = ["--max-stream-window", "64MiB", "--stream-window", "64MiB", "--max-conn-window", "64MiB"];
    let wide = [&wide[..], &["--conn-window", "64MiB"]].concat();
    let stopped: Vec<Stopped> = (0..6).map(|_| Stopped::start(&s, &wide)).collect();
    let gone = loop {
        // None of these is ever ended for others, though they have the least when they begin.
        assert_eq!(came(&good(&[&s.url("/bytes/5MB"), "--insecure"])), 5_000_000);
        let lines = lines_so_far(&s.dir.path().join("stats"));
        if let Some(end) = lines.into_iter().find(|line| line["reason"] == GAVE_WAY) {
            break end;
        }
    };
    assert!(gone["conn"].as_u64().unwrap() < stopped.len() as u64, "{gone}");
}
