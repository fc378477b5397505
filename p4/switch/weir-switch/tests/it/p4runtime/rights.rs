// SPDX-License-Identifier: Apache-2.0
//! Rights by the subjects of certificates, and the audit of clients' changes and refusals.
use super::certificates::Authority;
use super::net::*;
use serde_json::Value;
use std::path::PathBuf;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use weir_switch::p4runtime::proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use weir_switch::p4runtime::proto::p4::v1::{self as v1, entity::Entity as E, stream_message_response::Update as Tell};
use weir_switch::p4runtime::{Access, Audit};

const RULES: &str = r#"
[[client]]
subject = { CN = "owner" }
rights = ["read", "write", "pipeline"]
[[client]]
subject = { CN = "writer", O = "Example" }
rights = ["read", "write"]
[[client]]
subject = { CN = "watcher" }
rights = ["read"]
"#;

struct Guarded {
    net: Net,
    authority: Authority,
    lines: PathBuf,
}

impl Guarded {
    fn start(test: &str) -> Guarded {
        let lines = std::env::temp_dir().join(format!("weir-rights-{}-{test}.jsonl", std::process::id()));
        let authority = Authority::new();
        let access = Access::read("rules", RULES.into()).unwrap();
        let audit = Audit::open(&lines, 1 << 20).unwrap();
        let net = Net::for_clients(Some(authority.server()), Some(access), audit);
        Guarded { net, authority, lines }
    }

    async fn client(&self, name: &str) -> P4RuntimeClient<Channel> {
        let url = format!("https://{}", self.net.running.addr);
        let tls = self.authority.client(Some(&self.authority.sign(name)));
        let endpoint = Endpoint::from_shared(url).unwrap().tls_config(tls).unwrap();
        P4RuntimeClient::new(endpoint.connect().await.unwrap())
    }

    async fn controller(&self, name: &str, election: Option<u64>) -> Controller {
        Controller::over(self.client(name).await, "", election).await
    }

    fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.lines).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // Another test shows that the file was never made.
        let _ = std::fs::remove_file(&self.lines);
    }
}

fn denied<T: std::fmt::Debug>(result: Result<T, Status>, want: &str) {
    let status = result.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
    assert!(status.message().contains(want), "{status:?}");
}

#[tokio::test]
async fn each_may_do_what_its_certificate_allows() {
    let guarded = Guarded::start("each");
    let mut owner = guarded.controller("owner", Some(1)).await;
    assert_eq!(owner.status().await, Code::Ok as i32);
    owner.set_program(PROGRAM).await.unwrap();
    let entry = |c: &Controller| E::TableEntry(route(c, 1, action(c, "forward", &[&[2]])));
    owner.insert(entry(&owner)).await;

    // A client with the right to write takes over, and may not bring another program.
    let mut writer = guarded.controller("writer", Some(2)).await;
    assert_eq!(writer.status().await, Code::Ok as i32);
    writer.info = owner.info.clone();
    writer.write(v1::update::Type::Delete, entry(&writer)).await.unwrap();
    let said =
        "SetForwardingPipelineConfig needs the right `pipeline`; this client (O=Example,CN=writer) has `read`, `write`";
    denied(writer.set_program(PROGRAM).await, said);

    // A client with the right to read reads, listens, and never becomes primary.
    let mut watcher = guarded.controller("watcher", None).await;
    assert_eq!(watcher.status().await, Code::AlreadyExists as i32);
    watcher.info = owner.info.clone();
    let table = || E::TableEntry(v1::TableEntry { table_id: owner.id("route"), ..Default::default() });
    assert_eq!(watcher.try_read(vec![table()]).await.unwrap(), []);
    denied(watcher.write(v1::update::Type::Insert, entry(&owner)).await, "Write needs the right `write`");
    watcher.to.send(arbitration("", Some(9))).await.unwrap();
    denied(watcher.from.message().await, "a claim to be primary, needs the right `write` or `pipeline`");
    writer.insert(entry(&writer)).await;

    // A stranger with a good certificate may nothing.
    let mut stranger = guarded.client("stranger").await;
    denied(stranger.capabilities(v1::CapabilitiesRequest::default()).await, "(O=Example,CN=stranger) has none");
    denied(stranger.read(v1::ReadRequest::default()).await, "needs the right `read`");
    denied(stranger.stream_channel(tokio_stream::empty()).await, "needs the right `read`");
    assert_eq!(guarded.net.frame(1, ethernet(1 << 40, 1, 1)).await.len(), 1);
}

#[tokio::test]
async fn every_change_has_a_line_with_who_and_what() {
    let guarded = Guarded::start("lines");
    let mut owner = guarded.controller("owner", Some(7)).await;
    assert_eq!(owner.status().await, Code::Ok as i32);
    owner.set_program(PROGRAM).await.unwrap();
    let entry = |top| E::TableEntry(route(&owner, top, action(&owner, "forward", &[&[2]])));
    let updates = [1, 2, 2].map(|top| update(v1::update::Type::Insert, entry(top))).to_vec();
    owner.write_with(updates, v1::write_request::Atomicity::ContinueOnError).await.unwrap_err();
    owner.read(E::TableEntry(v1::TableEntry::default())).await;
    let mut watcher = guarded.client("watcher").await;
    denied(watcher.write(v1::WriteRequest { device_id: DEVICE, ..Default::default() }).await, "Write needs");

    let lines = guarded.lines();
    let told: Vec<_> = lines
        .iter()
        .map(|l| (&l["call"], &l["who"], &l["result"]))
        .map(|t| {
            let text = |v: &Value| v.as_str().unwrap().to_string();
            (text(t.0), text(t.1), text(t.2))
        })
        .collect();
    let want = [
        ("arbitration", "O=Example,CN=owner", "OK"),
        ("SetForwardingPipelineConfig", "O=Example,CN=owner", "OK"),
        ("Write", "O=Example,CN=owner", "UNKNOWN"),
        ("Write", "O=Example,CN=watcher", "PERMISSION_DENIED"),
    ];
    assert_eq!(told, want.map(|(a, b, c)| (a.to_string(), b.to_string(), c.to_string())), "a read is no change");
    assert_eq!((&lines[0]["election_id"], &lines[0]["primary"]), (&"7".into(), &true.into()));
    assert_eq!(lines[1]["action"], "VERIFY_AND_COMMIT");
    assert_eq!(lines[1]["program_bytes"], PROGRAM.len());
    let inserts = lines[2]["updates"].as_object().unwrap();
    assert_eq!(
        inserts.iter().map(|(name, n)| (name.as_str(), n.as_u64())).collect::<Vec<_>>(),
        [("INSERT I.route", Some(3))]
    );
    assert_eq!(lines[2]["failed"], 1);
    assert!(lines.iter().all(|l| l["at_unix_ms"].as_u64() > Some(1_600_000_000_000)));
    assert!(lines.iter().all(|l| l["from"].as_str().unwrap().starts_with("127.0.0.1:")));
}

#[tokio::test]
async fn a_packet_from_who_may_not_write_goes_nowhere() {
    let guarded = Guarded::start("packet");
    let mut owner = guarded.controller("owner", Some(1)).await;
    assert_eq!(owner.status().await, Code::Ok as i32);
    owner.set_program(PROGRAM).await.unwrap();
    let mut watcher = guarded.controller("watcher", None).await;
    assert_eq!(watcher.status().await, Code::AlreadyExists as i32);
    let packet = v1::PacketOut { payload: ethernet(1 << 40, 1, 1).into(), metadata: Vec::new() };
    let message = v1::StreamMessageRequest { update: Some(v1::stream_message_request::Update::Packet(packet)) };
    watcher.to.send(message).await.unwrap();
    let Tell::Error(e) = watcher.next().await else { panic!("it is an error") };
    assert_eq!(e.canonical_code, Code::PermissionDenied as i32);
    assert!(e.message.contains("packet-out needs the right `write`"), "{}", e.message);
}
