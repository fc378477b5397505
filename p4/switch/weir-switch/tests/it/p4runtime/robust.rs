// SPDX-License-Identifier: Apache-2.0
//! Controllers that go wrong: the others and the packets go on.
use super::certificates::{Authority, pem};
use super::net::*;
use proptest::prelude::*;
use std::io::{Read, Write};
use tonic::Code;
use weir_p4::p4info::Preambled;
use weir_switch::device::{Config, Device};
use weir_switch::p4runtime::proto::p4::v1::{self as v1, entity::Entity as E};
use weir_switch::p4runtime::{ServeConfig, Tls, fuzz, fuzz_body, fuzz_config, fuzz_stream, listen};

#[tokio::test]
#[ignore = "long tier"]
async fn garbage_on_the_port() {
    let (net, mut c) = Net::ready().await;
    let addr = net.running.addr;
    let garbage = tokio::task::spawn_blocking(move || {
        for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 4096], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\xff\xff"] {
            let mut s = std::net::TcpStream::connect(addr).unwrap();
            // The server may answer or reset the connection at any time.
            let _ = s.write_all(bytes);
            let _ = s.shutdown(std::net::Shutdown::Write);
            let _ = s.read_to_end(&mut Vec::new());
        }
    });
    garbage.await.unwrap();
    c.insert(E::TableEntry(route(&c, 1, action(&c, "forward", &[&[2]])))).await;
    assert_eq!(net.frame(1, ethernet(1 << 40, 1, 1)).await.len(), 1);
}

#[tokio::test]
#[ignore = "long tier"]
async fn a_controller_that_vanishes_in_the_middle_of_a_write() {
    let (net, mut c) = Net::ready().await;
    let mut entries = Vec::new();
    for i in 0..4000u16 {
        let [a, b] = i.to_be_bytes();
        let mut e = route(&c, 1, action(&c, "forward", &[&[2]]));
        e.r#match = vec![lpm(&[1, a, b, 0, 0, 0], 24)];
        entries.push(update(v1::update::Type::Insert, E::TableEntry(e)));
    }
    // Its batch is all in or not at all, wherever it was cut off.
    let mut other = Controller::open(&net, "", Some(2)).await;
    assert_eq!(other.status().await, Code::Ok as i32);
    other.info = c.info.clone();
    let write = other.write_with(entries, v1::write_request::Atomicity::DataplaneAtomic);
    let _ = tokio::time::timeout(std::time::Duration::from_millis(3), write).await;
    drop(other);
    while c.status().await != Code::NotFound as i32 {}
    c.to.send(arbitration("", Some(3))).await.unwrap();
    assert_eq!(c.status().await, Code::Ok as i32);
    c.election = 3;
    let n = c.read(E::TableEntry(v1::TableEntry { table_id: c.id("route"), ..Default::default() })).await.len();
    assert!(n == 0 || n == 4000, "{n} of 4000");
    c.insert(E::TableEntry(route(&c, 9, action(&c, "forward", &[&[2]])))).await;
    assert_eq!(net.frame(1, ethernet(9 << 40, 1, 1)).await.len(), 1);
}

#[tokio::test]
#[ignore = "long tier"]
async fn many_writes_at_once_are_all_answered() {
    let (net, mut c) = Net::ready().await;
    let held = net.hold();
    let one = |i: u8| {
        let mut e = route(&c, 1, action(&c, "forward", &[&[2]]));
        e.r#match = vec![lpm(&[1, i, 0, 0, 0, 0], 24)];
        let request = v1::WriteRequest {
            device_id: DEVICE,
            election_id: c.election_id(),
            updates: vec![update(v1::update::Type::Insert, E::TableEntry(e))],
            ..Default::default()
        };
        let mut client = c.client.clone();
        tokio::spawn(async move { client.write(request).await.map(drop) })
    };
    let writes: Vec<_> = (0..24).map(one).collect();
    // Sent on the same connection after the Writes, so that the server has them all when this is answered.
    let mut client = c.client.clone();
    let last = tokio::spawn(async move { client.capabilities(v1::CapabilitiesRequest::default()).await.map(drop) });
    last.await.unwrap().unwrap();
    drop(held);
    for write in writes {
        write.await.unwrap().unwrap();
    }
    let all = c.read(E::TableEntry(v1::TableEntry { table_id: c.id("route"), ..Default::default() })).await;
    assert_eq!(all.len(), 24);
}

#[tokio::test]
#[ignore = "long tier"]
async fn a_controller_that_does_not_read() {
    let (net, mut c) = Net::ready().await;
    c.insert(E::TableEntry(route(&c, 1, action(&c, "to_cpu", &[&[1]])))).await;
    c.insert(E::TableEntry(route(&c, 2, action(&c, "forward", &[&[2]])))).await;
    // More than all buffers between here and there take.
    let mut frame = ethernet(1 << 40, 1, 1);
    frame.resize(1400, 0);
    for _ in 0..6000 {
        net.frame(1, frame.clone()).await;
    }
    // Writes and packets of others are not held up by it.
    c.insert(E::TableEntry(route(&c, 3, action(&c, "drop", &[])))).await;
    assert_eq!(net.frame(1, ethernet(2 << 40, 1, 1)).await.len(), 1);
    let mut backup = Controller::open(&net, "", Some(0)).await;
    assert_eq!(backup.status().await, Code::AlreadyExists as i32);
}

#[tokio::test]
#[ignore = "long tier"]
async fn streams_are_bounded() {
    let net = Net::start();
    let mut open = Vec::new();
    let refused = loop {
        let mut client = net.client().await;
        let (to, rx) = tokio::sync::mpsc::channel::<v1::StreamMessageRequest>(1);
        match client.stream_channel(tokio_stream::wrappers::ReceiverStream::new(rx)).await {
            Ok(stream) => open.push((to, stream, client)),
            Err(status) => break status,
        }
        assert!(open.len() < 1000);
    };
    assert_eq!(refused.code(), Code::ResourceExhausted);
    open.clear();
    // Their places are free again as soon as the server has seen them go.
    loop {
        let mut c = Controller::open(&net, "", Some(1)).await;
        if let Ok(Some(_)) = c.from.message().await {
            break;
        }
    }
}

#[test]
#[ignore = "long tier"]
fn an_address_in_use_and_bad_certificates_are_said_at_once() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let start = |tls| {
        let addr = taken.local_addr().unwrap();
        let config = ServeConfig {
            addr,
            device_id: 1,
            cpu_port: None,
            tls,
            max_state_bytes: weir_switch::p4runtime::STATE_BYTES,
            access: None,
        };
        listen(config).err().unwrap()
    };
    let e = start(None);
    assert!(e.contains("listens there") && e.contains(&taken.local_addr().unwrap().to_string()), "{e}");
    let (ours, other) = (Authority::new(), Authority::new().sign("localhost"));
    let own = ours.sign("localhost");
    let tls = |certificate: &str, key: &str, authority: Option<&str>| {
        let certificate = pem("--cert c.pem", certificate);
        start(Some(Tls {
            certificate,
            key: pem("--key k.pem", key),
            client_authority: authority.map(|a| pem("--ca a", a)),
        }))
    };
    let (certificate, key) = (own.0.as_str(), own.1.as_str());
    let no_certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (said, want) in [
        (
            tls("none", key, None),
            "--cert c.pem: there is no certificate in it; it is to hold one certificate or more in PEM",
        ),
        (tls(key, key, None), "--cert c.pem: there is no certificate"),
        (tls(certificate, "none", None), "--key k.pem: there is no key in it"),
        (tls(certificate, certificate, None), "it is to hold a key in PEM"),
        (tls(no_certificate, key, None), "--cert c.pem with --key k.pem: "),
        (tls(certificate, &other.1, None), "--cert c.pem with --key k.pem: "),
        (tls(certificate, key, Some("none")), "--ca a: there is no certificate"),
        (tls(certificate, key, Some(no_certificate)), "--ca a: "),
        (tls(certificate, key, Some(&ours.pem)), "listens there"),
    ] {
        assert!(said.contains(want), "{said}");
    }
}

fn device() -> Device {
    let mut d = Device::new(Config { cpu_port: Some(CPU), ..Default::default() });
    let files = std::collections::BTreeMap::from([("main.p4".to_string(), PROGRAM.to_string())]);
    d.set_pipeline(std::sync::Arc::new(
        weir_p4::compile_package("main.p4", &files, &weir_p4::syntax::options::Macros::default()).unwrap(),
    ));
    d
}

/// Bytes that are often a message of the right form: tags and small numbers are likelier than chance.
fn message() -> impl Strategy<Value = Vec<u8>> {
    use prost::Message;
    let ids = device().pipeline.unwrap().switch.program.info.tables.iter().map(|t| t.id()).collect::<Vec<_>>();
    let m = (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..8), -2..60i32, 0..5u32);
    let entry =
        (proptest::sample::select(ids), proptest::collection::vec(m, 0..4), any::<i32>(), any::<bool>(), any::<u32>());
    let update = (entry, 0..4i32, 0..3u8).prop_map(|((table_id, fields, priority, default, id), kind, action)| {
        use v1::{field_match::FieldMatchType as M, table_action::Type as A};
        let one = |(kind, value, n, field_id): (u8, Vec<u8>, i32, u32)| v1::FieldMatch {
            field_id,
            field_match_type: Some(match kind % 5 {
                0 => M::Exact(v1::field_match::Exact { value }),
                1 => M::Lpm(v1::field_match::Lpm { value, prefix_len: n }),
                2 => M::Ternary(v1::field_match::Ternary { mask: value.clone(), value }),
                3 => M::Range(v1::field_match::Range { low: value.clone(), high: value }),
                _ => M::Optional(v1::field_match::Optional { value }),
            }),
        };
        let action = match action {
            0 => A::ActionProfileMemberId(id),
            1 => A::ActionProfileGroupId(id),
            _ => A::Action(v1::Action { action_id: id, params: Vec::new() }),
        };
        let e = v1::TableEntry {
            table_id,
            r#match: fields.into_iter().map(one).collect(),
            priority,
            is_default_action: default,
            action: Some(v1::TableAction { r#type: Some(action) }),
            ..Default::default()
        };
        v1::Update { r#type: kind, entity: Some(v1::Entity { entity: Some(E::TableEntry(e)) }) }
    });
    let whole = (0..2u8, proptest::collection::vec(update, 1..6)).prop_map(|(kind, updates)| {
        let mut bytes = vec![kind];
        bytes.extend(v1::WriteRequest { updates, ..Default::default() }.encode_to_vec());
        bytes
    });
    prop_oneof![proptest::collection::vec(any::<u8>(), 0..200), whole]
}

#[test]
#[ignore = "long tier"]
fn any_bytes_are_refused_or_applied() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 500,
        failure_persistence: None,
        ..Default::default()
    });
    let device = std::cell::RefCell::new(device());
    runner
        .run(&message(), |bytes| {
            let mut d = device.borrow_mut();
            fuzz(&mut d, &bytes);
            let mut out: Vec<(u32, Vec<u8>)> = Vec::new();
            d.arrive(&ethernet(1, 2, 3), 1, 0, &mut out);
            Ok(())
        })
        .unwrap();
}

/// Messages of controllers' streams, each behind its stream and its length, as the fuzz target takes them.
fn stream_messages() -> impl Strategy<Value = Vec<u8>> {
    use prost::Message;
    use v1::stream_message_request::Update as Ask;
    let arbitration = (0..4u64, 0..2u64, "[ab]?").prop_map(|(low, high, name)| {
        let role = (!name.is_empty()).then(|| v1::Role { name, ..Default::default() });
        let election_id = Some(v1::Uint128 { high, low });
        Ask::Arbitration(v1::MasterArbitrationUpdate { device_id: 1, role, election_id, status: None })
    });
    let field = (0..4u32, proptest::collection::vec(any::<u8>(), 0..3));
    let packet = (proptest::collection::vec(field, 0..3), proptest::collection::vec(any::<u8>(), 0..60)).prop_map(
        |(fields, payload)| {
            let one = |(metadata_id, value)| v1::PacketMetadata { metadata_id, value };
            Ask::Packet(v1::PacketOut { payload: payload.into(), metadata: fields.into_iter().map(one).collect() })
        },
    );
    let ack = (any::<u32>(), 0..9u64)
        .prop_map(|(digest_id, list_id)| Ask::DigestAck(v1::DigestListAck { digest_id, list_id }));
    let whole = prop_oneof![arbitration, packet, ack]
        .prop_map(|update| v1::StreamMessageRequest { update: Some(update) }.encode_to_vec());
    let one = (any::<u8>(), prop_oneof![whole, proptest::collection::vec(any::<u8>(), 0..40)]);
    proptest::collection::vec(one, 0..8).prop_map(|messages| {
        let framed = |(stream, m): (u8, Vec<u8>)| [&[stream, m.len().min(255) as u8], &m[..m.len().min(255)]].concat();
        messages.into_iter().flat_map(framed).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_messages_of_streams(data in stream_messages()) {
        fuzz_stream(&mut device(), &data);
    }

    #[test]
    fn any_body_of_a_request(data in message(), frame_bytes in any::<u8>()) {
        fuzz_body(&data);
        let message = data.get(1..).unwrap_or_default();
        let length = (message.len() as u32).to_be_bytes();
        fuzz_body(&[&[frame_bytes, 0][..], &length, message].concat());
    }

    #[test]
    fn any_program(data in proptest::collection::vec(any::<u8>(), 0..2000)) {
        fuzz_config(&data);
    }
}

#[tokio::test]
#[ignore = "long tier"]
async fn tls_with_certificates_of_clients() {
    use tonic::transport::{ClientTlsConfig, Endpoint};
    use v1::p4_runtime_client::P4RuntimeClient;
    let (ours, theirs) = (Authority::new(), Authority::new());
    let (our_client, their_client) = (ours.sign("controller"), theirs.sign("controller"));
    let net = Net::with(Some(ours.server()));
    let url = format!("https://{}", net.running.addr);
    let ask = |tls: ClientTlsConfig| {
        let endpoint = Endpoint::from_shared(url.clone()).unwrap().tls_config(tls).unwrap();
        async move {
            let channel = endpoint.connect().await.map_err(|e| e.to_string())?;
            let request = v1::CapabilitiesRequest { device_id: DEVICE };
            let response = P4RuntimeClient::new(channel).capabilities(request).await.map_err(|e| e.to_string())?;
            Ok::<_, String>(response.into_inner().p4runtime_api_version)
        }
    };
    assert!(ask(ours.client(None)).await.is_err(), "a client without a certificate");
    assert!(ask(ours.client(Some(&their_client))).await.is_err(), "a stranger's certificate");
    assert!(ask(theirs.client(Some(&our_client))).await.is_err(), "the client trusts another");
    let plain = Endpoint::from_shared(format!("http://{}", net.running.addr)).unwrap().connect_lazy();
    let plain = P4RuntimeClient::new(plain).capabilities(v1::CapabilitiesRequest::default()).await;
    assert!(plain.is_err(), "no TLS");
    assert_eq!(ask(ours.client(Some(&our_client))).await, Ok("1.4.0".to_string()));
}
