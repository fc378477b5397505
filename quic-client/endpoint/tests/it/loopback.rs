// SPDX-License-Identifier: Apache-2.0
//! The two programs against each other over loopback: results, reports, and exit codes of failures.

use crate::common::{CLIENT, SERVER, Server, bad, client, ended, endless, good, lines};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::process::{Command, Stdio};

#[test]
fn payloads_of_every_size_allowed_arrive() {
    for payload in ["1200", "1472", "9000", "16383"] {
        let s = Server::start(&["--max-payload", payload]);
        for (upload, gso) in [(false, "auto"), (false, "off"), (true, "auto"), (true, "off")] {
            let url = s.url("");
            let ca = s.ca();
            let mut args = vec![&*url, "--ca", &ca, "--bytes", "3MB", "--max-payload", payload, "--gso", gso];
            args.extend(upload.then_some("--upload"));
            let r = good(&args);
            let f = &r["flows"][0];
            assert_eq!((&f["bytes"], &f["exit"]), (&3_000_000.into(), &"complete".into()), "{args:?}");
        }
        s.finish();
    }
}

#[test]
fn downloads_over_both_protocols() {
    let s = Server::start(&[]);
    for alpn in ["h3", "hq-interop"] {
        for (size, bytes) in [("0", 0), ("1", 1), ("1350", 1350), ("3MB", 3_000_000)] {
            let url = s.url(&format!("/bytes/{size}"));
            let r = good(&[&url, "--ca", &s.ca(), "--alpn", alpn]);
            let f = &r["flows"][0];
            assert_eq!((&f["bytes"], &f["exit"]), (&bytes.into(), &"complete".into()), "{alpn} {size}");
            assert!(f["handshake_us"].as_u64() <= f["duration_us"].as_u64());
            assert!(f["rtt_min_us"].as_u64().unwrap() > 0);
            assert_eq!(r["recv_buffer"]["asked_bytes"], 4 << 20);
            assert!(r["recv_buffer"]["granted_bytes"].as_u64().unwrap() > 0);
        }
    }
    assert!(s.finish().iter().any(|l| l["k"] == "end" && l["reason"] == "closed by client"));
}

#[test]
fn many_tasks_on_one_connection() {
    let s = Server::start(&[]);
    let dir = tempfile::tempdir().unwrap();
    let events = dir.path().join("events");
    for alpn in ["h3", "hq-interop"] {
        // More streams than the server's first limit of 100 allows.
        for (parallel, upload) in [("1", false), ("7", false), ("1", true), ("3", true)] {
            let url = s.url("");
            let file = events.to_str().unwrap();
            let more = ["--insecure", "--bytes", "5kB", "--requests", "250", "--parallel", parallel, "--events", file];
            let upload: &[&str] = if upload { &["--upload"] } else { &[] };
            let r = good(&[&[url.as_str(), "--alpn", alpn, "--flow-label", "4"][..], &more, upload].concat());
            let f = &r["flows"][0];
            assert_eq!((&f["bytes"], &f["exit"]), (&1_250_000.into(), &"complete".into()), "{alpn} {parallel}");
            assert_eq!((&f["tasks"]["done"], &f["tasks"]["failed"]), (&250.into(), &0.into()));
            let tasks: Vec<_> = lines(&events).into_iter().filter(|l| l["k"] == "task").collect();
            let mut numbers: Vec<_> = tasks.iter().map(|t| t["task"].as_u64().unwrap()).collect();
            if parallel == "1" {
                assert!(numbers.is_sorted());
            }
            numbers.sort_unstable();
            assert!(numbers.iter().copied().eq(0..250));
            for t in &tasks {
                assert_eq!((&t["flow"], &t["bytes"], &t["outcome"]), (&4.into(), &5000.into(), &"complete".into()));
                let (start, tct) = (t["start_us"].as_u64().unwrap(), t["tct_us"].as_u64().unwrap());
                assert!(start + tct <= t["t_us"].as_u64().unwrap() + 1, "{t}");
            }
            let sum: u64 = tasks.iter().map(|t| t["tct_us"].as_u64().unwrap()).sum();
            let mean = f["tasks"]["tct_mean_us"].as_u64().unwrap();
            assert!(mean.abs_diff(sum / 250) <= 1, "{mean} {sum}");
        }
    }
}

#[test]
fn tasks_keep_their_times() {
    let s = Server::start(&[]);
    let dir = tempfile::tempdir().unwrap();
    let events = dir.path().join("events");
    let (_, now_us) = weir_io::wait::moment();
    let start_us = now_us + 300_000;
    let (url, start) = (s.url("/bytes/1kB"), start_us.to_string());
    let pace = ["--requests", "8", "--interval-ms", "20", "--start-at-us", &start, "--flows", "2"];
    good(&[&[url.as_str(), "--insecure", "--events", events.to_str().unwrap()][..], &pace].concat());
    let tasks: Vec<_> = lines(&events).into_iter().filter(|l| l["k"] == "task").collect();
    assert_eq!(tasks.len(), 16);
    for t in tasks {
        let due_us = start_us + 20_000 * t["task"].as_u64().unwrap();
        assert!(t["start_us"].as_u64().unwrap() >= due_us, "{t} before {due_us}");
    }
}

#[test]
fn a_pause_longer_than_the_idle_timeout_between_tasks() {
    let s = Server::start(&["--idle-timeout-ms", "300"]);
    let r = good(&[&s.url("/bytes/1kB"), "--insecure", "--requests", "2", "--interval-ms", "1000"]);
    assert_eq!(r["total"]["bytes"], 2000);
}

#[test]
fn a_failed_task_does_not_end_the_others() {
    let s = Server::start(&[]);
    for alpn in ["h3", "hq-interop"] {
        let url = s.url("/nothing");
        let out = bad(&[&url, "--insecure", "--alpn", alpn, "--requests", "5", "--json"], 7, "/nothing");
        let r: Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!((&r["flows"][0]["tasks"]["failed"], &r["flows"][0]["tasks"]["done"]), (&5.into(), &0.into()));
    }
}

#[test]
fn an_output_file_is_whole_or_absent() {
    let s = Server::start(&[]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("body");
    let target = file.to_str().unwrap();
    let left = || fs::read_dir(dir.path()).unwrap().count();
    for alpn in ["h3", "hq-interop"] {
        good(&[&s.url("/bytes/3MB"), "--insecure", "--alpn", alpn, "-o", target]);
        assert_eq!(fs::read(&file).unwrap(), vec![0; 3_000_000]);
        fs::remove_file(&file).unwrap();
        bad(&[&s.url("/nothing"), "--insecure", "--alpn", alpn, "-o", target], 7, "/nothing");
        assert_eq!(left(), 0);
    }
    let url = s.url("/bytes/1");
    let missing = fs::metadata("/nonexistent/x").unwrap_err().to_string();
    bad(&[&url, "--insecure", "-o", "/nonexistent/x"], 8, "/nonexistent/x");
    bad(&[&url, "--insecure", "-o", "/nonexistent/x"], 8, &missing);
    bad(&[&url, "--insecure", "-o", "/dev/null"], 8, "not a plain file");
    bad(&[&url, "--insecure", "-o", target, "--requests", "2"], 2, "--output takes one");
    for signal in ["INT", "TERM", "HUP", "KILL"] {
        let (child, _dir) = endless(&s, &["-o", target]);
        let status = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap();
        assert!(status.success());
        let (code, err) = ended(child);
        assert!(!file.exists());
        if signal != "KILL" {
            assert_eq!((code, left()), (Some(130), 0), "{signal}");
            assert!(err.lines().any(|l| l.ends_with("flow 0: interrupted")), "{err}");
        }
    }
}

#[test]
fn every_congestion_control_and_offload() {
    let s = Server::start(&[]);
    let bbr = Server::start(&["--cc", "bbr2_gcongestion", "--gso", "off"]);
    for cc in ["reno", "cubic", "bbr2_gcongestion"] {
        for gso in ["auto", "off"] {
            for server in [&s, &bbr] {
                let r = good(&[&server.url("/bytes/300kB"), "--insecure", "--cc", cc, "--gso", gso]);
                assert_eq!(r["total"]["bytes"], 300_000);
            }
            let r = good(&[&s.url(""), "--upload", "--bytes", "300kB", "--insecure", "--cc", cc, "--gso", gso]);
            assert_eq!(r["total"]["bytes"], 300_000);
        }
    }
}

#[test]
fn uploads_are_counted_over_both_protocols() {
    let s = Server::start(&[]);
    for alpn in ["h3", "hq-interop"] {
        for bytes in [0, 1, 2_000_000] {
            let r = good(&[&s.url(""), "--upload", "--bytes", &bytes.to_string(), "--insecure", "--alpn", alpn]);
            assert_eq!((&r["total"]["bytes"], &r["upload"]), (&bytes.into(), &true.into()), "{alpn}");
        }
    }
    let taken_in: u64 = s.finish().iter().filter(|l| l["k"] == "end").map(|l| l["bytes"].as_u64().unwrap()).sum();
    assert_eq!(taken_in, 2 * 2_000_001);
}

#[test]
fn many_flows_to_two_servers_join_by_label() {
    let (a, b) = (Server::start(&[]), Server::start(&[]));
    let stats = a.dir.path().join("client-stats");
    let (ua, ub) = (a.url("/bytes/400kB"), b.url("/bytes/400kB"));
    let more = ["--flow-label", "100", "--start-spread-ms", "50", "--stats-every-ms", "5", "--clock", "turn"];
    let files = ["--insecure", "--stats", stats.to_str().unwrap()];
    let r = good(&[&[ua.as_str(), &ub, "--flows", "30"][..], &more, &files].concat());
    assert_eq!((&r["total"]["flows"], &r["total"]["bytes"]), (&30.into(), &12_000_000.into()));
    let starts: Vec<_> = r["flows"].as_array().unwrap().iter().map(|f| f["start_us"].as_u64().unwrap()).collect();
    assert!(starts.iter().all(|&us| us < 50_000) && starts.windows(2).any(|w| w[0] != w[1]), "{starts:?}");

    let client_lines = lines(&stats);
    let mut server_lines = a.finish();
    server_lines.extend(b.finish());
    for flow in 100..130 {
        for (side, all) in [("client", &client_lines), ("server", &server_lines)] {
            let end: Vec<_> = all.iter().filter(|l| l["k"] == "end" && l["flow"] == flow).collect();
            assert_eq!(end.len(), 1, "{side} {flow}");
            assert_eq!((&end[0]["bytes"], &end[0]["side"]), (&400_000.into(), &side.into()));
        }
        let samples: Vec<_> = client_lines.iter().filter(|l| l["k"] == "flow" && l["flow"] == flow).collect();
        let grows = |name: &str| samples.windows(2).all(|w| w[0][name].as_u64() <= w[1][name].as_u64());
        assert!(!samples.is_empty() && ["t_us", "bytes", "sent", "recv", "lost"].iter().all(|n| grows(n)));
    }
}

#[test]
fn a_duration_stops_downloads_and_uploads() {
    let s = Server::start(&[]);
    for extra in [&[][..], &["--upload"], &["--alpn", "hq-interop"], &["--cc", "bbr2_gcongestion"]] {
        let r = good(&[&[s.url("").as_str(), "--duration-s", "0.2", "--flows", "2", "--insecure"], extra].concat());
        for f in r["flows"].as_array().unwrap() {
            assert_eq!(f["exit"], "stopped");
            assert!(f["bytes"].as_u64().unwrap() > 0);
        }
        assert!(r["total"]["duration_us"].as_u64().unwrap() >= 200_000);
    }
}

#[test]
fn ecn_is_counted_on_arrival() {
    let s = Server::start(&["--ecn", "classic"]);
    let r = good(&[&s.url("/bytes/1MB"), "--insecure"]);
    let f = &r["flows"][0];
    assert!(f["ect0_packets"].as_u64().unwrap() > 70, "{f}");
    assert_eq!(f["ce_packets"], 0);
}

#[test]
fn qlogs_are_written_on_both_sides() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path().to_str().unwrap();
    let s = Server::start(&["--qlog-dir", d]);
    let tasks = ["--requests", "3", "--path", "127.0.0.2", "--path", "127.0.0.3", "--interval-ms", "50"];
    let url = s.url("/bytes/300kB");
    let small = ["--insecure", "--qlog-dir", d, "--flow-label", "7", "--stream-window", "64kB", "--window", "fast"];
    good(&[&[url.as_str()], &small[..], &tasks].concat());
    s.finish();
    for name in ["client-flow-7.sqlog", "server-conn-0.sqlog"] {
        let text = fs::read_to_string(dir.path().join(name)).unwrap();
        let records: Vec<Value> = text
            .split('\u{1e}')
            .filter(|t| !t.trim().is_empty())
            .map(|t| serde_json::from_str(t).unwrap_or_else(|e| panic!("{name}: {e}")))
            .collect();
        assert_eq!(records[0]["file_schema"], "urn:ietf:params:qlog:file:sequential");
        assert!(records.len() > 10, "{name}");
        // Each in the one clock that the file has, none before its start.
        let times: Vec<f64> = records[1..].iter().map(|e| e["time"].as_f64().unwrap()).collect();
        assert!(times.iter().all(|t| (0.0..60_000.0).contains(t)), "{name}");
        assert!(times.is_sorted(), "{name}");
        let schemas = records[0]["trace"]["event_schemas"].as_array().unwrap();
        assert!(schemas.iter().any(|s| s.as_str().unwrap().contains(":weir#")), "{schemas:?}");
        assert!(records[1..].iter().all(|e| e["name"].as_str().unwrap().contains(':') && e["data"].is_object()));
        // Each packet has its path, and each path its addresses before that; a threshold that is not set yet is left
        // out.
        let mut paths = Vec::new();
        for record in &records[1..] {
            match record["name"].as_str().unwrap() {
                "quic:tuple_assigned" => {
                    assert_eq!(record["data"]["tuple_local"]["ip_v4"].as_str().unwrap().split('.').next(), Some("127"));
                    paths.push(&record["data"]["tuple_id"]);
                }
                "quic:packet_sent" | "quic:packet_received" => assert!(paths.contains(&&record["tuple"]), "{record}"),
                _ => {}
            }
        }
        assert_eq!(paths.len(), 2, "{name}");
        assert!(!text.contains("18446744073709551615"), "{name}");
        let ours = |name: &str| records[1..].iter().filter(|e| e["name"] == name).count();
        if name.starts_with("client") {
            assert_eq!((ours("weir:path_chosen"), ours("weir:task_ended"), ours("weir:cid_budget")), (3, 3, 1));
            assert!(ours("weir:window_updated") > 0 && ours("weir:path_updated") > 2);
        }
    }
}

#[test]
fn window_rules_and_their_memory() {
    let s = Server::start(&[]);
    let dir = tempfile::tempdir().unwrap();
    let events = dir.path().join("events");
    let file = events.to_str().unwrap();
    for rule in ["static", "double", "fast", "weir"] {
        let url = s.url("/bytes/4MB");
        let windows = ["--stream-window", "64kB", "--conn-window", "128kB", "--max-stream-window", "1MB"];
        let more = ["--insecure", "--window", rule, "--flows", "3", "--events", file];
        let budget: &[&str] = if rule == "weir" { &["--memory-budget", "1MB"] } else { &[] };
        let budget_bytes = if rule == "weir" { 1_000_000 } else { 64 << 20 };
        let r = good(&[&[url.as_str(), "--max-conn-window", "2MB"][..], &windows, &more, budget].concat());
        assert_eq!(r["total"]["bytes"], 12_000_000, "{rule}");
        let all = lines(&events);
        let steps: Vec<_> = all.iter().filter(|l| l["k"] == "window").collect();
        assert!(steps.iter().any(|w| w["stream"] == 0) && steps.iter().any(|w| w["stream"].is_null()), "{rule}");
        for w in &steps {
            let bound = if w["stream"].is_null() { 2_000_000 } else { 1_000_000 };
            let window = w["window_bytes"].as_u64().unwrap();
            assert!(window <= bound && (rule != "static" || window == 64_000 || window == 128_000), "{rule}: {w}");
        }
        let promised: Vec<_> = all.iter().filter(|l| l["k"] == "promised").collect();
        let peak = promised.last().unwrap()["peak_bytes"].as_u64().unwrap();
        assert_eq!(r["total"]["promised_peak_bytes"], peak);
        assert!(promised.iter().all(|p| p["flow"].is_null() && p["budget_bytes"] == budget_bytes));
        assert!(rule != "weir" || peak <= 1_000_000, "{peak}");
        assert_eq!(promised.last().unwrap()["promised_bytes"], 0);
    }
    let url = s.url("/bytes/1");
    let many = ["--insecure", "--window", "weir", "--memory-budget", "32KiB", "--flows", "2"];
    bad(&[&[url.as_str()][..], &many].concat(), 3, "raise it, or open fewer connections");
}

/// A peer of one packet: answers the first with the result of `answer`.
fn peer(answer: impl FnOnce(&[u8]) -> Vec<u8> + Send + 'static) -> (String, std::thread::JoinHandle<UdpSocket>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = socket.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || {
        let mut bytes = [0; 2048];
        let (n, from) = socket.recv_from(&mut bytes).unwrap();
        socket.send_to(&answer(&bytes[..n]), from).unwrap();
        socket
    });
    (addr, thread)
}

#[test]
fn a_server_of_other_versions_only() {
    // RFC 9000 17.2.1: the connection IDs change places; versions 0x1a2a3a4a and 0xff000001 are nobody's.
    let (addr, thread) = peer(|initial| {
        let (dcid_len, rest) = (initial[5] as usize, &initial[6..]);
        let (dcid, rest) = rest.split_at(dcid_len);
        let scid = &rest[1..1 + rest[0] as usize];
        let mut packet = vec![0x80, 0, 0, 0, 0, scid.len() as u8];
        packet.extend_from_slice(scid);
        packet.push(dcid.len() as u8);
        packet.extend_from_slice(dcid);
        packet.extend_from_slice(&[0x1a, 0x2a, 0x3a, 0x4a, 0xff, 0, 0, 1]);
        packet
    });
    bad(&[&format!("https://{addr}/bytes/1"), "--insecure"], 4, "version negotiation failed");
    drop(thread.join().unwrap());
}

#[test]
fn a_server_that_forgot_the_connection() {
    let key = weir_io::cert::make(&["localhost".to_owned()]).unwrap();
    let mut ctx = boring::ssl::SslContextBuilder::new(boring::ssl::SslMethod::tls()).unwrap();
    ctx.set_certificate(&key.chain[0]).unwrap();
    ctx.set_private_key(&key.key).unwrap();
    let mut config = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, ctx).unwrap();
    config.set_application_protos(&[b"hq-interop"]).unwrap();
    config.set_initial_max_data(1000);
    config.set_initial_max_streams_bidi(1);
    config.set_initial_max_stream_data_bidi_remote(1000);
    let token = 0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978_u128;
    config.set_stateless_reset_token(Some(token));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let local = socket.local_addr().unwrap();
    let forgetful = std::thread::spawn(move || {
        let mut bytes = [0; 2048];
        let (mut n, from) = socket.recv_from(&mut bytes).unwrap();
        let scid = quiche::ConnectionId::from_ref(&[7; 16]);
        let mut quic = quiche::accept(&scid, None, local, from, &mut config).unwrap();
        // Until the request is there; then everything is lost.
        while quic.readable().next().is_none() {
            let _ = quic.recv(&mut bytes[..n], quiche::RecvInfo { from, to: local });
            while let Ok((n, _)) = quic.send(&mut bytes) {
                socket.send_to(&bytes[..n], from).unwrap();
            }
            n = socket.recv(&mut bytes).unwrap();
        }
        // RFC 9000 10.3: has the form of a packet with a short header, and ends in the token.
        let mut reset = vec![0x5a; 40];
        reset.extend_from_slice(&token.to_be_bytes());
        socket.send_to(&reset, from).unwrap();
        socket
    });
    bad(&[&format!("https://{local}/bytes/1"), "--insecure", "--alpn", "hq-interop"], 6, "stateless reset");
    drop(forgetful.join().unwrap());
}

#[test]
fn a_full_disk_leaves_no_file() {
    let s = Server::start(&[]);
    let dir = tempfile::tempdir().unwrap();
    let script = r#"mount -t tmpfs -o size=64k none . && cd "$PWD" || exit 77
        "$0" "$@" -o body; code=$?; ls -A >&2; exit $code"#;
    let url = s.url("/bytes/1MB");
    let line = ["-rm", "sh", "-c", script, CLIENT, &url, "--insecure", "-q"];
    let out = Command::new("unshare").args(line).current_dir(dir.path()).output();
    // In a namespace of users of its own the network is the same.
    match out {
        Ok(out) if out.status.code() != Some(77) && out.status.code() != Some(1) => {
            let err = String::from_utf8_lossy(&out.stderr);
            assert_eq!(out.status.code(), Some(8), "{err}");
            assert!(err.contains("body: No space left") && err.lines().count() == 1, "{err}");
        }
        other => eprintln!("SKIP: needs unshare with the right to mount a small tmpfs: {other:?}"),
    }
}

#[test]
fn a_full_disk_under_qlog_is_told() {
    let s = Server::start(&[]);
    let dir = tempfile::tempdir().unwrap();
    let script = r#"mount -t tmpfs -o size=64k none . && cd "$PWD" || exit 77
        "$0" "$@" --qlog-dir ."#;
    let url = s.url("/bytes/3MB");
    let line = ["-rm", "sh", "-c", script, CLIENT, &url, "--insecure", "-q"];
    match Command::new("unshare").args(line).current_dir(dir.path()).output() {
        Ok(out) if out.status.code() != Some(77) && out.status.code() != Some(1) => {
            let err = String::from_utf8_lossy(&out.stderr);
            assert_eq!(out.status.code(), Some(8), "{err}");
            assert!(err.contains("client-flow-0.sqlog: No space left") && err.lines().count() == 1, "{err}");
        }
        other => eprintln!("SKIP: needs unshare with the right to mount a small tmpfs: {other:?}"),
    }
}

#[test]
fn an_answer_to_standard_output() {
    let s = Server::start(&[]);
    let url = s.url("/bytes/300kB");
    let out = client(&[&url, "--insecure", "-o", "-"]);
    let err = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && out.stdout == vec![0; 300_000], "{} bytes, {err}", out.stdout.len());
    assert!(err.contains("Mbit/s"), "the table: {err}");
    bad(&[&url, "--insecure", "-o", "-", "--json"], 2, "--json and --output -");
}

#[test]
fn options_that_cannot_both_hold() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (a, b) = (path("zz"), path("./zz"));
    let url = "https://127.0.0.1:1/bytes/1";
    bad(&[url, "--events", &a, "-o", &b], 2, "--output and --events are both");
    bad(&[url, "--events", &a, "--stats", &b], 2, "--events and --stats are both");
    bad(&[url, "--events", "-", "-o", "-"], 2, "--output and --events are both -");
    bad(&[url, "--window", "fast", "--memory-budget", "1MB"], 2, "--window fast has no budget");
    bad(&[url, "--memory-budget", "1MB"], 2, "--window double has no budget");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn what_is_not_served_is_told_apart() {
    let s = Server::start(&[]);
    for alpn in ["h3", "hq-interop"] {
        bad(&[&s.url("/nothing"), "--insecure", "--alpn", alpn], 7, "/nothing");
        bad(&[&s.url("/bytes/many"), "--insecure", "--alpn", alpn], 7, "/bytes/many");
        bad(&[&s.url("/upload"), "--insecure", "--alpn", alpn], 7, "/upload");
    }
    bad(&[&s.url("/nothing"), "--upload", "--duration-s", "5", "--insecure"], 7, "status 404");
}

#[test]
fn certificates_are_checked() {
    let s = Server::start(&[]);
    let other = Server::start(&[]);
    let url = s.url("/bytes/1");
    bad(&[&url], 4, "unknown authority");
    // The options that help are named.
    bad(&[&url], 4, "--ca FILE");
    bad(&[&url], 4, "--insecure");
    bad(&[&url, "--ca", &other.ca()], 4, "--ca FILE");
    good(&[&url, "--ca", &s.ca()]);
    good(&["https://localhost/bytes/1", "--connect", &s.addr, "--ca", &s.ca()]);
    bad(&["https://example.org/bytes/1", "--connect", &s.addr, "--ca", &s.ca()], 4, "refused by us");
    bad(&["https://127.0.0.9/bytes/1", "--connect", &s.addr, "--ca", &s.ca()], 4, "--insecure");
    bad(&[&url, "--ca", "/dev/null"], 8, "/dev/null");
    bad(&[&url, "--ca", "/nonexistent"], 8, "/nonexistent");
}

#[test]
fn no_protocol_in_common() {
    // Ours always speaks both, so this server is quiche itself, with another protocol and just as much of a handshake.
    let key = weir_io::cert::make(&["localhost".to_owned()]).unwrap();
    let mut ctx = boring::ssl::SslContextBuilder::new(boring::ssl::SslMethod::tls()).unwrap();
    ctx.set_certificate(&key.chain[0]).unwrap();
    ctx.set_private_key(&key.key).unwrap();
    let mut config = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, ctx).unwrap();
    config.set_application_protos(&[b"other"]).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let local = socket.local_addr().unwrap();
    let answer = std::thread::spawn(move || {
        let mut bytes = [0; 2048];
        let (mut n, from) = socket.recv_from(&mut bytes).unwrap();
        let scid = quiche::ConnectionId::from_ref(&[7; 16]);
        let mut quic = quiche::accept(&scid, None, local, from, &mut config).unwrap();
        loop {
            let _ = quic.recv(&mut bytes[..n], quiche::RecvInfo { from, to: local });
            while let Ok((n, _)) = quic.send(&mut bytes) {
                socket.send_to(&bytes[..n], from).unwrap();
            }
            if quic.is_draining() {
                break;
            }
            n = socket.recv(&mut bytes).unwrap();
        }
        socket
    });
    bad(&[&format!("https://{local}/bytes/1"), "--insecure"], 4, "no application protocol in common");
    // The socket lives until here: a closed port would be another failure.
    drop(answer.join().unwrap());
}

#[test]
fn a_closed_port_is_refused_and_a_silent_one_times_out() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = silent.local_addr().unwrap();
    bad(&[&format!("https://{addr}/bytes/1"), "--insecure", "--idle-timeout-ms", "200"], 5, "no answer from");
    drop(silent);
    bad(&[&format!("https://{addr}/bytes/1"), "--insecure"], 3, "refused");
    bad(&["https://no-such-host.invalid/bytes/1"], 3, "no-such-host.invalid");
}

#[test]
fn a_server_killed_in_mid_transfer_is_a_timeout() {
    let s = Server::start(&[]);
    let (child, _dir) = endless(&s, &["--idle-timeout-ms", "300"]);
    s.signal("KILL");
    let (code, err) = ended(child);
    assert_eq!(code, Some(5), "{err}");
    assert!(err.contains("fell silent"), "{err}");
}

#[test]
fn a_server_that_goes_away_leaves_a_transfer_incomplete() {
    let s = Server::start(&[]);
    // Data in flight fits the socket's buffer, so that the one CONNECTION_CLOSE is not lost behind it.
    let small = ["--stream-window", "1MiB", "--max-stream-window", "1MiB", "--conn-window", "1MiB"];
    let (child, _dir) = endless(&s, &[&small[..], &["--max-conn-window", "1MiB"]].concat());
    let end = s.finish();
    let (code, err) = ended(child);
    assert_eq!(code, Some(6), "{err}");
    assert!(err.contains("server going away"), "{err}");
    assert_eq!(end.last().unwrap()["k"], "end");
}

#[test]
fn an_interrupted_client_closes_its_connection() {
    let s = Server::start(&[]);
    // Few ACKs are under way, so that the one CONNECTION_CLOSE is not lost behind them in the server's socket.
    let small = ["--stream-window", "64KiB", "--max-stream-window", "64KiB", "--conn-window", "64KiB"];
    let (child, dir) = endless(&s, &[&small[..], &["--max-conn-window", "64KiB"]].concat());
    let status = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    assert_eq!(ended(child).0, Some(130));
    let last = lines(&dir.path().join("stats")).pop().unwrap();
    assert_eq!((&last["k"], &last["reason"]), (&"end".into(), &"interrupted".into()));
    // The server would end the connection itself if it were stopped before it has read the client's word.
    let end = s.wait_for("end");
    assert!(end["reason"].as_str().unwrap().contains("interrupted"), "{end}");
    s.finish();
}

#[test]
fn nonsense_on_the_wire_does_not_disturb_the_server() {
    let s = Server::start(&[]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut long = vec![0xc0, 0xfa, 0xce, 0xb0, 0x0c, 8, 1, 2, 3, 4, 5, 6, 7, 8, 8, 1, 2, 3, 4, 5, 6, 7, 8];
    long.resize(1200, 0);
    for datagram in [&b""[..], b"x", &[0xff; 1500], &[0x40; 100], &long[..100], &long] {
        socket.send_to(datagram, &s.addr).unwrap();
    }
    // The last one asked for a version nobody speaks: the answer lists those we do (RFC 9000 6).
    let mut answer = [0; 1500];
    let (n, _) = socket.recv_from(&mut answer).unwrap();
    assert_eq!((answer[0] & 0x80, &answer[1..5]), (0x80, &[0; 4][..]));
    assert!(answer[..n].windows(4).any(|w| w == 1u32.to_be_bytes()));
    good(&[&s.url("/bytes/1"), "--insecure"]);
}

#[test]
fn windows_too_small_for_a_packet_still_carry_everything() {
    let s = Server::start(&[]);
    let small = ["--stream-window", "1000", "--max-stream-window", "1000", "--conn-window", "1000"];
    let r = good(&[&[s.url("/bytes/30kB").as_str(), "--insecure", "--max-conn-window", "1000"][..], &small].concat());
    assert_eq!(r["total"]["bytes"], 30_000);
}

#[test]
fn servers_started_at_once_share_one_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let start = || {
        let mut child = Command::new(SERVER)
            .args(["--listen", "127.0.0.1:0", "--state-dir", state.to_str().unwrap()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = child.stdout.take().unwrap();
        (child, out)
    };
    let servers: Vec<_> = (0..4).map(|_| start()).collect();
    let mut result = Vec::new();
    let mut children = Vec::new();
    for (child, out) in servers {
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).unwrap();
        let addr = line.trim().trim_start_matches("listening ").to_owned();
        let ca = state.join("weir-server-ca.pem");
        result.push(client(&[&format!("https://{addr}/bytes/1"), "--ca", ca.to_str().unwrap()]));
        children.push(child);
    }
    for mut child in children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(result.iter().all(|out| out.status.success()), "{result:?}");
    let names = fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(
        names.collect::<std::collections::BTreeSet<_>>(),
        ["weir-server-ca.pem", "weir-server.pem"].map(String::from).into()
    );
}

#[test]
fn usage_errors_name_what_would_be_right() {
    for (args, text) in [
        (&["https://127.0.0.1/a", "--bind", "fe80::1%lo"][..], "--bind fe80::1%lo"),
        (&["https://[fe80::1%25lo]/a", "--bind", "127.0.0.1"], "--bind 127.0.0.1"),
        (&["http://h/x"], "expected https://"),
        (&["https://127.0.0.1"], "--bytes"),
        (&["https://127.0.0.1/a", "https://127.0.0.1/b", "--flows", "1"], "2 URLs"),
        (&["https://127.0.0.1", "--upload"], "--duration-s"),
        (&["https://127.0.0.1/a", "--stream-window", "32MiB"], "--max-stream-window"),
    ] {
        bad(args, 2, text);
    }
    // clap's own messages take more than one line.
    for args in [
        &["https://127.0.0.1/a", "--max-payload", "1199"][..],
        &["https://127.0.0.1/a", "--cc", "vegas"],
        &["https://127.0.0.1/a", "--alpn", "h2"],
        &["https://127.0.0.1/a", "--flows", "0"],
        &["https://127.0.0.1/a", "--duration-s", "-1"],
        &["https://127.0.0.1/a", "--bytes", "1.5MB"],
        &["https://127.0.0.1/a", "--conn-window", "0"],
        &["https://127.0.0.1/a", "--socket-buffer", "4"],
        &["https://127.0.0.1/a", "--memory-budget", "64"],
        &["https://127.0.0.1/a", "--insecure", "--ca", "x"],
        &[],
    ] {
        let out = client(args);
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(!out.stderr.is_empty() && out.stdout.is_empty());
    }
}

#[test]
fn files_that_cannot_be_written_are_named() {
    let s = Server::start(&[]);
    let url = s.url("/bytes/1");
    bad(&[&url, "--insecure", "--stats", "/nonexistent/x"], 8, "/nonexistent/x");
    bad(&[&url, "--insecure", "--stats", "/dev/full"], 8, "/dev/full");
    bad(&[&url, "--insecure", "--qlog-dir", "/nonexistent"], 8, "/nonexistent/client-flow-0.sqlog");
    let server = |args: &[&str]| {
        let out = Command::new(SERVER).args(args).output().unwrap();
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let (code, err) = server(&["--listen", &s.addr, "--ephemeral"]);
    assert!(code == Some(8) && err.contains(&s.addr) && err.lines().count() == 1, "{err}");
    let (code, err) = server(&["--cert", "/nonexistent/c", "--key", "/nonexistent/k"]);
    assert!(code == Some(8) && err.contains("/nonexistent/k"), "{err}");
    let mut junk = tempfile::NamedTempFile::new().unwrap();
    junk.write_all(b"junk").unwrap();
    let path = junk.path().to_str().unwrap();
    let (code, err) = server(&["--cert", path, "--key", path]);
    assert!(code == Some(8) && err.contains("PEM"), "{err}");
}
