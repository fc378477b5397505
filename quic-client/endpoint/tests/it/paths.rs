// SPDX-License-Identifier: Apache-2.0
//! Tasks over several paths, which are addresses of loopback here, and interfaces of namespaces where we may make them.

use crate::common::{CLIENT, SERVER, Server, bad, client, good, lines};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

const THREE: [&str; 6] = ["--path", "127.0.0.2", "--path", "127.0.0.3", "--path", "127.0.0.4"];

fn of<'a>(all: &'a [Value], kind: &str) -> Vec<&'a Value> {
    all.iter().filter(|l| l["k"] == kind).collect()
}

/// A run over three paths; gives its report and its events.
fn run(s: &Server, more: &[&str]) -> (Value, Vec<Value>) {
    let dir = tempfile::tempdir().unwrap();
    let events = dir.path().join("events");
    let url = s.url("/bytes/5kB");
    let args = [&url, "--insecure", "--seed", "7", "--events", events.to_str().unwrap()];
    let r = good(&[&args[..], &THREE, more].concat());
    (r, lines(&events))
}

fn now_plus_ms(ms: u64) -> String {
    (weir_io::wait::moment().1 + 1000 * ms).to_string()
}

#[test]
fn polling_takes_the_paths_in_turn() {
    let s = Server::start(&[]);
    for (alpn, upload) in [("h3", false), ("hq-interop", false), ("h3", true)] {
        let upload: &[&str] = if upload { &["--upload", "--bytes", "5kB"] } else { &[] };
        let start = now_plus_ms(300);
        let pace = ["--strategy", "polling", "--requests", "30", "--interval-ms", "5", "--start-at-us", &start];
        let dir = tempfile::tempdir().unwrap();
        let events = dir.path().join("events");
        let url = if upload.is_empty() { s.url("/bytes/5kB") } else { s.url("") };
        let args = [&url, "--insecure", "--alpn", alpn, "--events", events.to_str().unwrap()];
        let r = good(&[&args[..], &THREE, &pace, upload].concat());
        let f = &r["flows"][0];
        assert_eq!((&f["tasks"]["done"], &f["bytes"]), (&30.into(), &150_000.into()));
        for path in f["paths"].as_array().unwrap() {
            assert_eq!((&path["tasks"], &path["bytes"]), (&10.into(), &50_000.into()), "{path}");
        }
        let all = lines(&events);
        let cid = of(&all, "cid");
        assert_eq!(cid.len(), 1);
        assert_eq!(
            (&cid[0]["wanted"], &cid[0]["usable"], &cid[0]["migration_allowed"]),
            (&3.into(), &3.into(), &true.into())
        );
        // The others were validated before the first task, so no switch waits for that.
        let tasks = of(&all, "task");
        assert!(tasks.iter().all(|t| t["cold"] == false && t["outcome"] == "complete"));
        assert!(tasks.iter().skip(1).all(|t| t["switched"] == true));
        let choices = of(&all, "choice");
        assert_eq!(choices.len(), 30);
        for (task, choice) in tasks.iter().zip(&choices) {
            assert_eq!((&task["task"], &task["path"]), (&choice["task"], &choice["path"]));
        }
        // Ready before the first task: two validated beside the one in use.
        let first = choices[0]["t_us"].as_u64().unwrap();
        let ready =
            of(&all, "path").into_iter().filter(|p| p["event"] == "validated" && p["t_us"].as_u64() < Some(first));
        assert_eq!(ready.count(), 2);
    }
}

#[test]
fn every_strategy_gets_its_work_done() {
    let s = Server::start(&[]);
    let dir = tempfile::tempdir().unwrap();
    let plan = dir.path().join("plan");
    fs::write(&plan, "{\"task\":0,\"path\":\"127.0.0.3\"}\n{\"task\":10,\"path\":\"127.0.0.4\"}\n").unwrap();
    for strategy in ["weir", "ops", "pps", "epsilon-greedy", "polling", "best-single", "oracle"] {
        let start = now_plus_ms(300);
        let pace = ["--requests", "20", "--interval-ms", "2", "--start-at-us", &start];
        let oracle: &[&str] = if strategy == "oracle" { &["--oracle-plan", plan.to_str().unwrap()] } else { &[] };
        let (r, all) = run(&s, &[&["--strategy", strategy][..], &pace, oracle].concat());
        assert_eq!(r["flows"][0]["tasks"]["done"], 20, "{strategy}");
        if strategy == "oracle" {
            for t in of(&all, "task") {
                let want = if t["task"].as_u64() < Some(10) { "127.0.0.3" } else { "127.0.0.4" };
                assert_eq!(t["path"], want, "{t}");
            }
        }
    }
}

#[test]
fn a_cold_path_is_probed_as_part_of_its_task() {
    let s = Server::start(&[]);
    let start = now_plus_ms(200);
    let pace = ["--requests", "6", "--interval-ms", "5", "--start-at-us", &start, "--strategy", "polling"];
    let (r, all) = run(&s, &[&pace[..], &["--standby", "cold"]].concat());
    assert_eq!(r["flows"][0]["tasks"]["done"], 6);
    let tasks = of(&all, "task");
    assert!(tasks.iter().all(|t| t["switched"] == t["cold"]), "{tasks:?}");
    assert!(tasks.iter().filter(|t| t["cold"] == true).count() >= 4);
}

#[test]
fn the_first_path_is_drawn_by_the_seed() {
    let s = Server::start(&[]);
    let first = |seed: &str| {
        let url = s.url("/bytes/1");
        let r = good(&[&[&url, "--insecure", "--seed", seed][..], &THREE].concat());
        let paths = r["flows"][0]["paths"].as_array().unwrap().clone();
        paths.iter().find(|p| p["tasks"] == 1).unwrap()["path"].as_str().unwrap().to_owned()
    };
    let drawn: Vec<_> = (0..12).map(|seed| first(&seed.to_string())).collect();
    assert_eq!(drawn[0], first("0"));
    for path in ["127.0.0.2", "127.0.0.3", "127.0.0.4"] {
        assert!(drawn.iter().any(|d| d == path), "{drawn:?}");
    }
}

#[test]
fn a_server_that_forbids_migration_is_respected_and_reported() {
    let s = Server::start(&["--forbid-migration"]);
    let pace = ["--requests", "6", "--interval-ms", "5", "--strategy", "polling"];
    let (r, all) = run(&s, &pace);
    let f = &r["flows"][0];
    assert_eq!((&f["tasks"]["done"], &f["cid"]["migration_allowed"]), (&6.into(), &false.into()));
    assert_eq!(f["paths"].as_array().unwrap().iter().filter(|p| p["tasks"].as_u64() > Some(0)).count(), 1);
    assert_eq!(of(&all, "cid").len(), 1);
    assert!(of(&all, "path").iter().all(|p| p["event"] == "added"), "{all:?}");
}

#[test]
fn too_few_connection_ids_are_reported() {
    let s = Server::start(&["--max-cids", "2"]);
    let start = now_plus_ms(300);
    let (r, _) = run(&s, &["--requests", "8", "--interval-ms", "5", "--strategy", "polling", "--start-at-us", &start]);
    let f = &r["flows"][0];
    assert_eq!((&f["tasks"]["done"], &f["cid"]["wanted"], &f["cid"]["usable"]), (&8.into(), &3.into(), &2.into()));
}

#[test]
fn tasks_at_once_share_a_path() {
    let s = Server::start(&[]);
    let (r, all) = run(&s, &["--requests", "40", "--parallel", "4", "--strategy", "polling"]);
    assert_eq!(r["flows"][0]["tasks"]["done"], 40);
    assert!(of(&all, "choice").len() < 40);
}

#[test]
fn paths_that_are_not_there() {
    let s = Server::start(&[]);
    let url = s.url("/bytes/1");
    let path = |paths: &[&str]| paths.iter().flat_map(|p| ["--path", p]).map(str::to_owned).collect::<Vec<_>>();
    for (paths, text) in [
        (&["nosuch0"][..], "--path nosuch0: no such interface; this machine has"),
        (&["192.0.2.77"], "no interface has this address; this machine has"),
        (&["127.0.0.2", "127.0.0.2"], "given twice"),
        (&["::1"], "--path ::1 and the server's 127.0.0.1"),
        (&["127.0.0.2", "::1"], "no address family in common"),
        (&["auto", "127.0.0.2"], "no other --path"),
    ] {
        let paths = path(paths);
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        bad(&[&[url.as_str(), "--insecure"][..], &paths].concat(), 9, text);
    }
    let plan = tempfile::NamedTempFile::new().unwrap();
    let file = plan.path().to_str().unwrap();
    let oracle = [&url, "--insecure", "--path", "127.0.0.2", "--strategy", "oracle", "--oracle-plan"];
    fs::write(file, "{\"task\": 0, \"path\": \"eth7\"}\n").unwrap();
    bad(&[&oracle[..], &[file]].concat(), 9, "no path 'eth7'; the paths are 127.0.0.2");
    fs::write(file, "nonsense\n").unwrap();
    bad(&[&oracle[..], &[file]].concat(), 8, "line 1: expected {\"task\"");
    bad(&[&oracle[..], &["/nonexistent/p"]].concat(), 8, "/nonexistent/p");
    for args in [
        &["--path", "lo", "--bind", "127.0.0.1"][..],
        &["--strategy", "polling"],
        &["--path", "lo", "--strategy", "best"],
        &["--path", "lo", "--strategy", "oracle"],
        &["--path", "lo", "--app", "web-browsing", "--weight-a", "0.5"],
        &["--path", "lo", "--app", "chess"],
        &["--path", "lo", "--epsilon", "1.5"],
    ] {
        assert_eq!(client(&[&[url.as_str()], args].concat()).status.code(), Some(2), "{args:?}");
    }
}

/// The server's answers to one of the paths are lost.
const SILENT: &str = r#"
ip -n $NAME-s route add blackhole 10.99.1.1/32
for seed in 1 2 3 4 5 6; do
    "$CLIENT_BIN" https://10.99.9.9:4433/bytes/5kB --insecure --path wan1 --path wan2 --seed $seed \
        --events events-$seed.jsonl -q > /dev/null
done
"#;

/// Two interfaces to one server in network namespaces; the commands may fail where namespaces can't be made.
const NAMESPACES: &str = r#"
set -e
NAME=weir$$
ip netns add $NAME-s || exit 77
trap 'ip netns del $NAME-s; kill $SERVER 2>/dev/null || true' EXIT
for i in 1 2; do
    ip link add wan$i type veth peer name srv$i netns $NAME-s
    ip addr add 10.99.$i.1/24 dev wan$i
    ip link set wan$i up
    ip -n $NAME-s addr add 10.99.$i.2/24 dev srv$i
    ip -n $NAME-s link set srv$i up
done
ip -n $NAME-s addr add 10.99.9.9/32 dev srv1
ip -n $NAME-s link set lo up
for i in 1 2; do
    ip route add 10.99.9.9/32 via 10.99.$i.2 dev wan$i metric $i
done
ip netns exec $NAME-s "$SERVER_BIN" --listen 0.0.0.0:4433 --ephemeral > server.txt &
SERVER=$!
until grep -q listening server.txt; do sleep 0.05; done
"#;

const HANDOVER: &str = r#"
"$CLIENT_BIN" https://10.99.9.9:4433/bytes/5kB --insecure --path wan1 --path wan2 --strategy best-single --seed 1 \
    --requests 400 --interval-ms 10 --events events.jsonl --json > report.json &
CLIENT=$!
sleep 1
ip link set wan1 down
sleep 1
ip link set wan1 up
ip route add 10.99.9.9/32 via 10.99.1.2 dev wan1 metric 1
wait $CLIENT
"#;

/// `wan2` changes its address twenty times under a client that takes turns, then under one with a plan: each time when the
/// client has added and validated the address before. The clients end when they have used the last one. Loopback leads to
/// no server elsewhere.
const RENUMBERED: &str = r#"
# Lines of wan2 in events $1 that have $2.
count() { grep '"path":"wan2"' "$1" 2> /dev/null | grep -c "$2" || true; }
# Waits until events $1 have more than $3 of them.
more() {
    tries=0
    while [ "$(count "$1" "$2")" -le "$3" ]; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || { echo "no more than $3 $2 in $1" >&2; kill $CLIENT; exit 1; }
        sleep 0.05
    done
}
# Gives wan2 the address $2 in place of $3, under the client with events $1.
change() {
    added=$(count "$1" '"event":"added"')
    validated=$(count "$1" '"event":"validated"')
    ip addr del 10.99.2.$3/24 dev wan2
    ip addr add 10.99.2.$2/24 dev wan2
    ip route replace 10.99.9.9/32 via 10.99.2.2 dev wan2 metric 2
    more "$1" '"event":"added"' $added
    more "$1" '"event":"validated"' $validated
}
renumber() {
    more "$1" '"k":"task"' 1
    last=1
    for n in $(seq 11 $2); do
        change "$1" $n $last
        last=$n
    done
    change "$1" 1 $last
    more "$1" '"k":"task"' "$(($(count "$1" '"k":"task"') + 4))"
    kill -INT $CLIENT
    wait $CLIENT || [ $? = 130 ]
}
"$CLIENT_BIN" https://10.99.9.9:4433/bytes/5kB --insecure --path auto --strategy polling --requests 1000000 --interval-ms 10 \
    --stats-every-ms 20 --events events.jsonl --json > report.json &
CLIENT=$!
renumber events.jsonl 30
echo '{"task": 0, "path": "wan2"}' > plan.jsonl
"$CLIENT_BIN" https://10.99.9.9:4433/bytes/5kB --insecure --path wan1 --path wan2 --strategy oracle --oracle-plan plan.jsonl \
    --requests 1000000 --interval-ms 10 --stats-every-ms 20 --events oracle.jsonl --json > oracle.json &
CLIENT=$!
renumber oracle.jsonl 12
ip link set lo up
"$CLIENT_BIN" https://10.99.9.9:4433/bytes/5kB --insecure --path lo 2> lo.txt || echo $? >> lo.txt
# Linux sends from ::1 to other hosts.
if ip -6 addr add 2001:db8:9::2/64 dev wan1 nodad; then
    "$CLIENT_BIN" https://[2001:db8:9::9]:4433/bytes/5kB --insecure --path lo --max-time 5 2> lo6.txt || echo $? >> lo6.txt
fi
"#;

/// Runs a script between the namespaces in a folder; false where they can't be made.
fn between_namespaces(dir: &Path, script: &str) -> bool {
    let out = Command::new("unshare")
        .args(["-rnm", "sh", "-c", &format!("mount -t tmpfs none /run && {NAMESPACES}{script}")])
        .env("CLIENT_BIN", CLIENT)
        .env("SERVER_BIN", SERVER)
        .current_dir(dir)
        .output();
    let why = match &out {
        Ok(out) if dir.join("server.txt").exists() => {
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
            return true;
        }
        Ok(out) => String::from_utf8_lossy(&out.stderr).into_owned(),
        Err(e) => e.to_string(),
    };
    eprintln!("SKIP: needs unshare and ip with the right to make namespaces: {why}");
    false
}

#[test]
fn a_connection_that_does_not_come_up_on_one_path_starts_on_another() {
    let dir = tempfile::tempdir().unwrap();
    if !between_namespaces(dir.path(), SILENT) {
        return;
    }
    let mut failed = 0;
    for seed in 1..=6 {
        let all = lines(&dir.path().join(format!("events-{seed}.jsonl")));
        let tasks = of(&all, "task");
        assert_eq!((&tasks[0]["path"], &tasks[0]["outcome"]), (&"wan2".into(), &"complete".into()), "seed {seed}");
        failed += of(&all, "path").iter().filter(|p| p["path"] == "wan1" && p["event"] == "failed").count();
    }
    assert!((1..6).contains(&failed), "{failed} of 6 seeds start on wan1");
}

#[test]
fn an_interface_changes_its_address_again_and_again() {
    let dir = tempfile::tempdir().unwrap();
    if !between_namespaces(dir.path(), RENUMBERED) {
        return;
    }
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    let all = lines(&dir.path().join("events.jsonl"));
    // The last one was under way when the client was to end.
    let tasks = of(&all, "task");
    let ended = &tasks[..tasks.len() - 1];
    assert!(ended.iter().all(|t| t["outcome"] == "complete"), "{tasks:?}");
    let seen = |event: &str| of(&all, "path").iter().filter(|p| p["path"] == "wan2" && p["event"] == event).count();
    // More addresses than the eight connection IDs that a path could use up.
    assert!(seen("added") > 20 && seen("removed") > 9, "{:?}", of(&all, "path"));
    // The last address is as good as the first.
    assert!(ended.iter().rev().take(4).any(|t| t["path"] == "wan2"), "{:?}", of(&all, "path"));
    let oracle = lines(&dir.path().join("oracle.jsonl"));
    assert!(of(&oracle, "path").iter().filter(|p| p["path"] == "wan2" && p["event"] == "added").count() > 1);
    let last = of(&oracle, "choice").pop().unwrap().clone();
    assert_eq!((&last["path"], &last["reason"]), (&"wan2".into(), &"plan".into()), "{:?}", of(&oracle, "path"));
    let lo = read("lo.txt");
    assert!(lo.contains("--path lo to 10.99.9.9:4433: loopback reaches") && lo.ends_with("\n9\n"), "{lo}");
    if let Ok(lo) = fs::read_to_string(dir.path().join("lo6.txt")) {
        assert!(lo.contains("--path lo to [2001:db8:9::9]:4433") && lo.ends_with("\n9\n"), "{lo}");
    }
}

#[test]
fn an_interface_goes_down_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    if !between_namespaces(dir.path(), HANDOVER) {
        return;
    }
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    let r: Value = serde_json::from_str(&read("report.json")).unwrap();
    let tasks = &r["flows"][0]["tasks"];
    assert_eq!((&tasks["done"], &tasks["failed"]), (&400.into(), &0.into()), "{r}");
    let all = lines(Path::new(&dir.path().join("events.jsonl")));
    let seen = |event: &str| of(&all, "path").iter().any(|p| p["path"] == "wan1" && p["event"] == event);
    for event in ["interface-down", "lost", "interface-up", "validated"] {
        assert!(seen(event), "{event}: {:?}", of(&all, "path"));
    }
    assert!(r["flows"][0]["paths"].as_array().unwrap().iter().all(|p| p["tasks"].as_u64() > Some(0)), "{r}");
}
