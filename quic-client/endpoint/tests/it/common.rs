// SPDX-License-Identifier: Apache-2.0
//! The two programs, started by tests.
#![allow(dead_code, missing_docs, reason = "each test program uses a part of it")]

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

pub const CLIENT: &str = env!("CARGO_BIN_EXE_weir-client");
pub const SERVER: &str = env!("CARGO_BIN_EXE_weir-server");

/// A server with a state folder of its own; killed when it goes out of scope.
pub struct Server {
    pub child: Child,
    pub addr: String,
    pub dir: TempDir,
}

impl Server {
    pub fn start(extra: &[&str]) -> Server {
        Server::start_in(tempfile::tempdir().unwrap(), extra)
    }

    pub fn start_in(dir: TempDir, extra: &[&str]) -> Server {
        Server::start_by(Command::new(SERVER), dir, extra)
    }

    /// Started by `command`, to which the server's arguments are added.
    pub fn start_by(mut command: Command, dir: TempDir, extra: &[&str]) -> Server {
        let state = dir.path().join("state");
        let mut child = command
            .args(["--listen", "127.0.0.1:0", "--state-dir", state.to_str().unwrap()])
            .args(["--stats", dir.path().join("stats").to_str().unwrap(), "--stats-every-ms", "10"])
            .args(extra)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let addr = line.trim().strip_prefix("listening ").unwrap_or_else(|| panic!("said '{line}'")).to_owned();
        Server { child, addr, dir }
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.addr)
    }

    pub fn ca(&self) -> String {
        self.dir.path().join("state/weir-server.pem").to_str().unwrap().to_owned()
    }

    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// The first line of this kind in its statistics, as soon as it is there.
    pub fn wait_for(&self, kind: &str) -> Value {
        loop {
            let lines = lines_so_far(&self.dir.path().join("stats"));
            if let Some(line) = lines.into_iter().find(|l| l["k"] == kind) {
                return line;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Ends it in good order and gives its lines.
    pub fn finish(mut self) -> Vec<Value> {
        self.signal("TERM");
        assert!(self.child.wait().unwrap().success());
        lines(&self.dir.path().join("stats"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn lines(path: &Path) -> Vec<Value> {
    fs::read_to_string(path).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

/// The whole lines of a file that is still written, if it is there yet.
pub fn lines_so_far(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    // The last line may be half written.
    text.lines().filter_map(|l| serde_json::from_str(l).ok()).collect()
}

pub fn client(args: &[&str]) -> Output {
    Command::new(CLIENT).args(args).output().unwrap()
}

/// Runs a client that must succeed and gives its JSON document.
pub fn good(args: &[&str]) -> Value {
    let out = client(&[args, &["--json"]].concat());
    assert!(out.status.success(), "{:?}: {}", args, String::from_utf8_lossy(&out.stderr));
    assert!(out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// Runs a client that must fail with `code` and one line on standard error that holds `text`.
pub fn bad(args: &[&str], code: i32, text: &str) -> Output {
    let out = client(args);
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(code), "{args:?}: {err}");
    assert!(err.contains(text), "{args:?}: {err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    out
}

/// Starts a client that downloads without end and waits until bytes flow.
#[expect(clippy::zombie_processes, reason = "the caller gets the child and waits for it")]
pub fn endless(s: &Server, extra: &[&str]) -> (Child, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let stats = dir.path().join("stats");
    // Under nohup a SIGHUP would be ignored, rightly, and the download fill the disk.
    let child = Command::new("env")
        .args(["--default-signal=HUP", CLIENT])
        .args([&s.url("/bytes/unlimited"), "--insecure", "--stats", stats.to_str().unwrap()])
        .args(["--stats-every-ms", "10"])
        .args(extra)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    loop {
        let text = fs::read_to_string(&stats).unwrap_or_default();
        let flowing = |l: &str| serde_json::from_str::<Value>(l).is_ok_and(|l| l["bytes"].as_u64() > Some(0));
        if text.lines().any(flowing) {
            return (child, dir);
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

pub fn ended(child: Child) -> (Option<i32>, String) {
    let out = child.wait_with_output().unwrap();
    (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
}
