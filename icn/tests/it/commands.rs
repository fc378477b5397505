// SPDX-License-Identifier: Apache-2.0
//! Output of `weir-icn` at its start.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use weir_io::cert;

/// Standard error of an edge server with these options, up to when it listens.
fn said_by_edge(options: &[&str]) -> String {
    let mut edge = Command::new(env!("CARGO_BIN_EXE_weir-icn"))
        .args(["edge", "--of", "127.0.0.1:9", "--listen", "127.0.0.1:0"])
        .args(options)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(edge.stdout.take().unwrap()).read_line(&mut line).unwrap();
    edge.kill().unwrap();
    edge.wait().unwrap();
    let mut said = String::new();
    edge.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(line.starts_with("listening 127.0.0.1:"), "{line}{said}");
    said
}

#[test]
fn an_edge_server_tells_of_a_private_key_in_what_it_trusts() {
    let dir = tempfile::tempdir().unwrap();
    cert::load_or_make(dir.path(), &["localhost".to_owned()]).unwrap();
    let of = |file| said_by_edge(&["--ephemeral", "--ca", dir.path().join(file).to_str().unwrap()]);
    let said = of("weir-server.pem");
    assert!(said.contains("weir-server.pem: has a private key in it"), "{said}");
    assert_eq!(of("weir-server-ca.pem"), "");
}

#[test]
fn a_server_tells_what_a_certificate_that_was_kept_is_not_for() {
    let dir = tempfile::tempdir().unwrap();
    cert::load_or_make(dir.path(), &["127.0.0.1".to_owned(), "a.example".to_owned()]).unwrap();
    let (state, ca) = (dir.path().to_str().unwrap(), dir.path().join("weir-server-ca.pem"));
    let of = |host| said_by_edge(&["--ca", ca.to_str().unwrap(), "--state-dir", state, "--host", host]);
    let said = of("b.example");
    assert!(said.contains("the certificate is not for b.example: subscribers"), "{said}");
    assert!(!of("a.example").contains("is not for"));
}

/// Exit code and standard error of a `get` on an interface that there is not.
fn got(output: &str, events: &str, folder: &std::path::Path) -> (Option<i32>, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_weir-icn"))
        .args(["get", "/a/film", "--from", "127.0.0.1:9", "--interface", "none0", "--json"])
        .args(["--output", output, "--events", events])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(done.stdout.is_empty());
    (done.status.code(), String::from_utf8(done.stderr).unwrap())
}

#[test]
fn events_are_not_written_among_content() {
    let dir = tempfile::tempdir().unwrap();
    for (output, events, named) in [
        ("-", "-", "-"),
        ("out", "./out", "out"),
        ("out", "out.part", "out.part"),
        (".", "film.part.json", "film.part.json"),
    ] {
        let (code, said) = got(output, events, dir.path());
        assert_eq!(code, Some(2), "{said}");
        let both = format!("--output and --events would both write to {named}: expected a file for each");
        assert!(said.contains(&both) || said.contains(&both.replace("to ", "to ./")), "{said}");
    }
    for (output, events) in [("out", "-"), ("-", "out"), (".", "events")] {
        let (code, said) = got(output, events, dir.path());
        assert_eq!(code, Some(8), "{said}");
        assert!(said.contains("there is no such interface"), "{said}");
    }
}
