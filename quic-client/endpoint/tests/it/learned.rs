// SPDX-License-Identifier: Apache-2.0
//! A congestion control that learns, in both programs: its weights, its output, and rejected options.

use crate::common::{CLIENT, SERVER, Server, bad, endless, good, lines};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const WEIGHTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../core/tests/pbq/paper.weights");
const PAPER: [&str; 4] = ["--cc", "pbq-paper", "--cc-weights", WEIGHTS];

/// A trajectory: its steps, after its first and its last line were looked at.
fn steps(path: &Path, side: &str) -> Vec<Value> {
    let lines = lines(path);
    let (head, end) = (&lines[0], &lines[lines.len() - 1]);
    let sum = fs::read_to_string(WEIGHTS).unwrap()[26..90].to_owned();
    assert_eq!((&head["k"], &head["side"]), (&"trajectory".into(), &side.into()));
    assert_eq!((&head["weights"], &head["explore_seed"]), (&Value::from(sum), &7.into()));
    let steps = lines[1..lines.len() - 1].to_vec();
    assert_eq!((&end["k"], &end["steps"]), (&"end".into(), &steps.len().into()));
    assert!(!steps.is_empty() && steps.iter().all(|step| step["k"] == "step" && step["noise"] != 0.0), "{steps:?}");
    steps
}

/// The decisions in a qlog file.
fn logged(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let events = text.split('\u{1e}').filter_map(|record| serde_json::from_str::<Value>(record).ok());
    events.filter(|event| event["name"] == "weir:congestion_decision").map(|event| event["data"].clone()).collect()
}

#[test]
fn a_server_that_sends_decides_and_writes_it_down() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().to_str().unwrap();
    let more = ["--cc-explore", "7", "--cc-trajectories", at, "--qlog-dir", at];
    let s = Server::start(&[&PAPER[..], &more].concat());
    good(&[&s.url("/bytes/unlimited"), "--insecure", "--duration-s", "1"]);
    let stats = s.finish();
    let steps = steps(&dir.path().join("trajectory-server-conn-0.jsonl"), "server");
    let end = stats.iter().find(|line| line["k"] == "end").unwrap();
    assert_eq!((&end["decisions"]["made"], &end["decisions"]["by_bbr"]), (&steps.len().into(), &0.into()), "{end}");
    let logged = logged(&dir.path().join("server-conn-0.sqlog"));
    assert_eq!(logged.len(), steps.len());
    for (event, step) in logged.iter().zip(&steps) {
        for name in ["n", "state", "action", "window_bytes", "used_bytes", "by", "outside"] {
            assert_eq!(event[name], step[name], "{name}");
        }
    }
}

#[test]
fn a_client_that_sends_does_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let s = Server::start(&[]);
    let more = ["--cc-explore", "7", "--cc-trajectories", &at("."), "--events", &at("events"), "--stats", &at("stats")];
    let upload = [&s.url("/upload"), "--insecure", "--upload", "--bytes", "1GB", "--duration-s", "1"];
    good(&[&upload[..], &PAPER, &more].concat());
    let steps = steps(&dir.path().join("trajectory-client-flow-0.jsonl"), "client");
    let events = lines(&dir.path().join("events"));
    assert_eq!(events.iter().filter(|event| event["k"] == "decision").count(), steps.len());
    let end = lines(&dir.path().join("stats")).pop().unwrap();
    assert_eq!(end["decisions"]["made"], steps.len(), "{end}");
    drop(s);
}

#[test]
fn another_program_can_decide() {
    let (dir, asked) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = |dir: &tempfile::TempDir| dir.path().to_str().unwrap().to_owned();
    let more = ["--cc-agent", &at(&asked), "--cc-trajectories", &at(&dir)];
    let mut command = Command::new(SERVER);
    command.stderr(Stdio::piped());
    let mut s = Server::start_by(command, tempfile::tempdir().unwrap(), &[&PAPER[..], &more].concat());
    let (mut download, _stats) = endless(&s, &["--quiet"]);
    let mut seen = Vec::new();
    for (n, answer) in ["0.5", "-1", "0.25", "end"].iter().enumerate() {
        let state = asked.path().join(format!("state-{n}"));
        while !state.exists() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        seen.extend(lines(&state));
        fs::write(asked.path().join("mine"), answer).unwrap();
        fs::rename(asked.path().join("mine"), asked.path().join(format!("action-{n}"))).unwrap();
    }
    // BBR has it now, and the server goes on.
    good(&[&s.url("/bytes/1MB"), "--insecure"]);
    download.kill().unwrap();
    download.wait().unwrap();
    s.signal("TERM");
    assert_eq!(s.child.wait().unwrap().code(), Some(0));
    let mut text = String::new();
    std::io::Read::read_to_string(&mut s.child.stderr.take().unwrap(), &mut text).unwrap();
    assert!(text.contains("--cc-agent: no decision any more") && text.lines().count() == 1, "{text}");
    let all = lines(&dir.path().join("trajectory-server-conn-0.jsonl"));
    let steps: Vec<_> = all.iter().filter(|line| line["k"] == "step").collect();
    let column = |name: &str| steps.iter().take(3).map(|step| step[name].clone()).collect::<Vec<_>>();
    assert_eq!(column("action"), [0.5, -1.0, 0.25]);
    assert_eq!(column("by"), ["policy"; 3]);
    assert!(steps[3..].iter().all(|step| step["by"] == "not-finite"), "{:?}", steps[3]);
    for (step, seen) in steps.iter().zip(&seen) {
        assert_eq!(seen["by"], "policy"); // before it was known that there would be no number
        for (name, value) in seen.as_object().unwrap().iter().filter(|(name, _)| *name != "by") {
            assert_eq!(&step[name], value, "{name}");
        }
    }
}

#[test]
fn while_an_agent_does_not_answer_others_go_on() {
    let asked = tempfile::tempdir().unwrap();
    let at = |name: &str| asked.path().join(name);
    let wait_for = |name: &str| {
        while !at(name).exists() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    };
    // Patience enough that no answer is given up during the test.
    let more = ["--cc-agent", asked.path().to_str().unwrap(), "--idle-timeout-ms", "600000"];
    let mut s = Server::start(&[&PAPER[..], &more].concat());
    let (mut download, stats) = endless(&s, &["--quiet"]);
    wait_for("state-0");
    // Another connection of the same server is served whole, and the one whose agent is silent goes on as well.
    let report = good(&[&s.url("/bytes/1MB"), "--insecure"]);
    assert_eq!((&report["flows"][0]["exit"], &report["total"]["bytes"]), (&"complete".into(), &1_000_000.into()));
    let received = || {
        let text = fs::read_to_string(stats.path().join("stats")).unwrap();
        let samples = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        samples.filter_map(|line| line["bytes"].as_u64()).max().unwrap()
    };
    let before = received();
    while received() == before {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(at("state-0").exists() && !at("state-1").exists(), "there is no second question before the first answer");
    fs::write(at("mine"), "0.5").unwrap();
    fs::rename(at("mine"), at("action-0")).unwrap();
    wait_for("state-1");
    assert!(!at("action-0").exists(), "it was taken");
    // A silent agent keeps no server from its end either.
    download.kill().unwrap();
    download.wait().unwrap();
    s.signal("TERM");
    assert_eq!(s.child.wait().unwrap().code(), Some(0));
}

#[test]
fn without_a_file_the_built_in_policy_decides() {
    for cc in ["pbq", "pbq-paper"] {
        let s = Server::start(&["--cc", cc]);
        let down = good(&[&s.url("/bytes/unlimited"), "--insecure", "--duration-s", "1"]);
        assert!(down["flows"][0]["decisions"].is_null(), "a receiver decides nothing: {down}");
        let upload = [&s.url("/upload"), "--insecure", "--upload", "--bytes", "1GB", "--duration-s", "1", "--cc", cc];
        let counts = good(&upload)["flows"][0]["decisions"].clone();
        let stats = s.finish();
        let served = stats.iter().find(|line| line["k"] == "end").unwrap()["decisions"].clone();
        for counts in [counts, served] {
            let [made, outside, by_bbr] = ["made", "outside", "by_bbr"].map(|name| counts[name].as_u64().unwrap());
            assert!(made > 0 && outside <= made && by_bbr <= made, "{cc}: {counts}");
        }
    }
}

#[test]
fn with_no_weights_at_all_it_is_bbr_and_says_so() {
    let mut command = Command::new(SERVER);
    command.stderr(Stdio::piped());
    let none = ["--cc", "pbq", "--cc-weights", "none"];
    let s = Server::start_by(command, tempfile::tempdir().unwrap(), &none);
    let get = [&s.url("/bytes/1MB"), "--insecure", "--quiet"];
    let out = Command::new(CLIENT).args([&get[..], &none].concat()).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    let note = "weir-client: --cc pbq: no weights: connections run plain BBR (bbr2_gcongestion)\n";
    assert_eq!((out.status.code(), said.as_str()), (Some(0), note));
    s.signal("TERM");
    let mut s = s;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut s.child.stderr.take().unwrap(), &mut text).unwrap();
    assert_eq!(text, note.replace("client", "server"));
}

#[test]
fn what_does_not_fit_ends_the_program_at_its_start() {
    let dir = tempfile::tempdir().unwrap();
    let short = dir.path().join("short");
    let whole = fs::read(WEIGHTS).unwrap();
    fs::write(&short, &whole[..whole.len() - 7]).unwrap();
    let (url, short) = ("https://127.0.0.1:1", short.to_str().unwrap());
    let refused = |words: &[&str], code, text: &str| drop(bad(&[&[url], words].concat(), code, text));
    refused(&["--cc", "pbq-paper", "--cc-weights", short], 2, "short: checksum: the first line says ");
    refused(
        &["--cc", "pbq", "--cc-weights", WEIGHTS],
        2,
        "profile: 'pbq-paper', expected 'pbq', the congestion control's",
    );
    refused(&["--cc", "cubic", "--cc-weights", WEIGHTS], 2, "--cc cubic uses no weights, expected pbq or pbq-paper");
    refused(&["--cc", "pbq", "--cc-weights", "/nonexistent"], 8, "--cc-weights /nonexistent: No such file");
    refused(&[&PAPER[..], &["--cc-trajectories", WEIGHTS]].concat(), 8, "expected a folder that exists");
    refused(&[&PAPER[..], &["--cc-agent", "/nonexistent"]].concat(), 8, "--cc-agent /nonexistent: expected a folder");
    refused(&["--cc-explore", "1"], 2, "--cc-explore: cubic has no policy, expected --cc pbq or pbq-paper");
    let none = ["--cc", "pbq", "--cc-weights", "none", "--cc-trajectories", "."];
    refused(&none, 2, "--cc-trajectories: --cc-weights none has no policy");
    let server = Command::new(SERVER).args(["--cc", "pbq", "--cc-weights", WEIGHTS]).output().unwrap();
    assert_eq!(server.status.code(), Some(2), "{server:?}");
}

#[test]
fn a_trajectory_that_cannot_be_written_ends_and_not_the_server() {
    let dir = tempfile::tempdir().unwrap();
    // In the place of the first connection's file; the others' can be made, but no more are.
    std::os::unix::fs::symlink("/dev/full", dir.path().join("trajectory-server-conn-0.jsonl")).unwrap();
    let mut command = Command::new(SERVER);
    command.stderr(Stdio::piped());
    let more = ["--cc-trajectories", dir.path().to_str().unwrap()];
    let mut s = Server::start_by(command, tempfile::tempdir().unwrap(), &[&PAPER[..], &more].concat());
    for _ in 0..2 {
        good(&[&s.url("/bytes/1"), "--insecure"]);
        // Its end is known to the server once a next one is served.
    }
    s.signal("TERM");
    let status = s.child.wait().unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut s.child.stderr.take().unwrap(), &mut text).unwrap();
    let said: Vec<_> = text.lines().collect();
    assert_eq!((status.code(), said.len()), (Some(8), 2), "{text}");
    assert!(said[0].contains("trajectory-server-conn-0.jsonl: No space left"), "{text}");
    assert!(said[1].contains("--cc-trajectories: ") && said[1].contains("have none, or none that is whole"), "{text}");
}

#[test]
fn a_client_whose_trajectory_cannot_be_written_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/full", dir.path().join("trajectory-client-flow-0.jsonl")).unwrap();
    let s = Server::start(&[]);
    let upload = [&s.url("/upload"), "--insecure", "--upload", "--bytes", "1MB", "--json"];
    let more = ["--cc-trajectories", dir.path().to_str().unwrap()];
    let out = Command::new(CLIENT).args([&upload[..], &PAPER, &more].concat()).output().unwrap();
    let text = String::from_utf8(out.stderr).unwrap();
    let said: Vec<_> = text.lines().collect();
    assert_eq!((out.status.code(), said.len()), (Some(8), 2), "{text}");
    assert!(said[0].contains("trajectory-client-flow-0.jsonl: No space left"), "{text}");
    assert!(said[1].contains("--cc-trajectories: 1 connections have none, or none that is whole"), "{text}");
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((&report["flows"][0]["exit"], &report["total"]["bytes"]), (&"complete".into(), &1_000_000.into()));
}

/// A server that asks an agent in this folder, with its messages until its end.
fn without_an_answer(asked: &Path, before: impl FnOnce()) -> String {
    let mut command = Command::new(SERVER);
    command.stderr(Stdio::piped());
    let more = ["--cc-agent", asked.to_str().unwrap(), "--idle-timeout-ms", "2000"];
    let mut s = Server::start_by(command, tempfile::tempdir().unwrap(), &[&PAPER[..], &more].concat());
    before();
    let report = good(&[&s.url("/bytes/unlimited"), "--insecure", "--duration-s", "3"]);
    assert!(report["total"]["bytes"].as_u64() > Some(1_000_000), "{report}");
    s.signal("TERM");
    assert_eq!(s.child.wait().unwrap().code(), Some(0));
    let mut text = String::new();
    std::io::Read::read_to_string(&mut s.child.stderr.take().unwrap(), &mut text).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.lines().nth(1).unwrap().ends_with("the connection runs plain BBR"), "{text}");
    text
}

#[test]
fn an_agent_that_gives_no_answer_is_not_waited_for_for_ever() {
    let asked = tempfile::tempdir().unwrap();
    let said = without_an_answer(asked.path(), || {});
    assert!(said.contains("/action-0 in 1 s"), "{said}");
    assert!(asked.path().join("state-0").exists() && !asked.path().join("state-1").exists());
}

#[test]
fn an_agent_that_cannot_be_asked_is_not_asked_again() {
    let asked = tempfile::tempdir().unwrap();
    let said = without_an_answer(asked.path(), || fs::remove_dir(asked.path()).unwrap());
    assert!(said.contains("No such file"), "{said}");
}
