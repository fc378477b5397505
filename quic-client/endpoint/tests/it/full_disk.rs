// SPDX-License-Identifier: Apache-2.0
//! A server whose disk fills up: its logs end, it does not.

use crate::common::{SERVER, Server, good};
use std::io::Read;
use std::net::UdpSocket;
use std::process::{Command, Stdio};

/// A server in a mount namespace of its own whose folder, where its --stats is, has 64 KiB; `None`, and says why, where
/// that can't be.
fn on_a_small_disk(options: &[&str]) -> Option<Server> {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"mount -t tmpfs -o size=64k none . && cd "$PWD""#;
    let unshare = ["-rm", "sh", "-c"];
    let able = Command::new("unshare").args(unshare).arg(script).current_dir(dir.path()).output();
    if !able.as_ref().is_ok_and(|out| out.status.success()) {
        eprintln!("SKIP: needs unshare with the right to mount a small tmpfs: {able:?}");
        return None;
    }
    let mut command = Command::new("unshare");
    let script = format!(r#"{script} && exec "$0" "$@""#);
    command.args(unshare).args([&script, SERVER]).current_dir(dir.path()).stderr(Stdio::piped());
    Some(Server::start_by(command, dir, options))
}

/// Ends it and gives its messages on `option`.
fn complaints(mut s: Server, option: &str) -> Vec<String> {
    s.signal("TERM");
    let status = s.child.wait().unwrap();
    let mut text = String::new();
    s.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(status.code(), Some(8), "{text}");
    text.lines().filter(|l| l.contains(option)).map(str::to_owned).collect()
}

#[test]
#[ignore = "long tier"]
fn a_full_disk_ends_the_stats_and_not_the_server() {
    let Some(s) = on_a_small_disk(&[]) else { return };
    // Each connection ends with a line.
    for _ in 0..4 {
        good(&[&s.url("/bytes/1"), "--insecure", "--flows", "200"]);
    }
    let said = complaints(s, "--stats");
    assert!(said.len() == 2 && said[0].contains("/stats: No space left"), "{said:?}");
    assert!(said[1].contains("lines could not be written"), "{said:?}");
}

#[test]
#[ignore = "long tier"]
fn a_full_disk_ends_the_qlogs_and_not_the_server() {
    let Some(s) = on_a_small_disk(&["--qlog-dir", "."]) else { return };
    for _ in 0..3 {
        good(&[&s.url("/bytes/1MB"), "--insecure", "--flows", "3"]);
    }
    let said = complaints(s, "--qlog-dir");
    assert!(said.len() == 2 && said[0].contains(".sqlog: No space left"), "{said:?}");
    assert!(said[1].contains("connections have no qlog"), "{said:?}");
}

#[test]
#[ignore = "long tier"]
fn only_connections_lack_a_qlog() {
    let dir = tempfile::tempdir().unwrap();
    let logs = dir.path().join("logs");
    std::fs::create_dir(&logs).unwrap();
    let mut command = Command::new(SERVER);
    command.stderr(Stdio::piped());
    let s = Server::start_by(command, dir, &["--qlog-dir", logs.to_str().unwrap()]);
    std::fs::remove_dir(&logs).unwrap();
    // Initial packets that no client made.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for id in 0..20 {
        let mut noise = vec![id; 1200];
        noise[..7].copy_from_slice(&[0xc3, 0, 0, 0, 1, 8, id]);
        noise[14] = 8;
        noise[23..26].copy_from_slice(&[0, 0x44, 0x96]);
        socket.send_to(&noise, &s.addr).unwrap();
    }
    good(&[&s.url("/bytes/1"), "--insecure"]);
    let said = complaints(s, "--qlog-dir");
    assert!(said.len() == 2 && said[1].contains(" 1 connections have no qlog"), "{said:?}");
}

#[test]
#[ignore = "long tier"]
fn logs_that_were_never_possible_are_a_fault_at_the_start() {
    for (option, value) in [("--qlog-dir", "/nonexistent"), ("--qlog-dir", "/dev/null"), ("--stats", "/nonexistent/x")]
    {
        let out =
            Command::new(SERVER).args(["--listen", "127.0.0.1:0", "--ephemeral", option, value]).output().unwrap();
        let err = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(8), "{err}");
        assert!(err.contains(option) && err.contains(value) && err.lines().count() == 1, "{err}");
        assert!(out.stdout.is_empty(), "it never said that it listens");
    }
}
