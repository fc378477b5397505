// SPDX-License-Identifier: Apache-2.0
//! Messages on streams: arbitration, packets, digests, errors.
use super::net::*;
use tonic::Code;
use weir_switch::p4runtime::proto::p4::v1::{
    self as v1, entity::Entity as E, stream_message_request::Update as Ask, stream_message_response::Update as Tell,
    update::Type,
};

const OK: i32 = Code::Ok as i32;
const BACKUP: i32 = Code::AlreadyExists as i32;
const NONE: i32 = Code::NotFound as i32;

fn ask(update: Ask) -> v1::StreamMessageRequest {
    v1::StreamMessageRequest { update: Some(update) }
}

#[tokio::test]
async fn one_primary_by_election_id() {
    let net = Net::start();
    let mut a = Controller::primary(&net, 5).await;
    let mut b = Controller::open(&net, "", Some(4)).await;
    assert_eq!(b.status().await, BACKUP);
    a.set_program(PROGRAM).await.unwrap();
    let refused = b.set_program(PROGRAM).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert_eq!(refused.message(), "election_id 4 is not that of the primary of the default role, which is 5");
    // A third takes over; both others hear of it, and the first can write no more.
    let mut third = Controller::open(&net, "", Some(6)).await;
    assert_eq!((a.status().await, b.status().await, third.status().await), (BACKUP, BACKUP, OK));
    let entry = E::TableEntry(route(&a, 1, action(&a, "drop", &[])));
    assert_eq!(a.write(Type::Insert, entry.clone()).await.unwrap_err().code(), Code::PermissionDenied);
    third.insert(entry).await;
    // It vanishes: nobody is primary until somebody asks with an id that is high enough.
    drop(third);
    assert_eq!((a.status().await, b.status().await), (NONE, NONE));
    a.to.send(arbitration("", Some(5))).await.unwrap();
    assert_eq!(a.status().await, NONE);
    a.to.send(arbitration("", Some(7))).await.unwrap();
    assert_eq!((a.status().await, b.status().await), (OK, BACKUP));
}

#[tokio::test]
async fn arbitration_that_ends_the_stream() {
    let net = Net::start();
    let _a = Controller::primary(&net, 5).await;
    let code = |mut c: Controller| async move { c.from.message().await.unwrap_err().code() };
    assert_eq!(code(Controller::open(&net, "", Some(5)).await).await, Code::InvalidArgument);
    let mut other = arbitration("", Some(9));
    if let Some(Ask::Arbitration(a)) = &mut other.update {
        a.device_id = 99;
    }
    let b = Controller::open(&net, "", None).await;
    let mut b = b;
    assert_eq!(b.status().await, BACKUP);
    b.to.send(other).await.unwrap();
    assert_eq!(code(b).await, Code::FailedPrecondition);
}

#[tokio::test]
async fn named_roles_have_primaries_of_their_own() {
    let (net, mut c) = Net::ready().await;
    let mut qos = Controller::open(&net, "qos", Some(1)).await;
    assert_eq!(qos.status().await, OK);
    qos.info = c.info.clone();
    qos.insert(E::TableEntry(route(&c, 1, action(&c, "drop", &[])))).await;
    c.insert(E::TableEntry(route(&c, 2, action(&c, "drop", &[])))).await;
    c.role = "acl".into();
    let status = c.write(Type::Insert, E::TableEntry(v1::TableEntry::default())).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::NotFound, "role: no controller has ever asked for role `acl`")
    );
}

#[tokio::test]
async fn packets_in_and_out() {
    let (net, mut c) = Net::ready().await;
    let mut backup = Controller::open(&net, "", Some(0)).await;
    assert_eq!(backup.status().await, BACKUP);
    c.insert(E::TableEntry(route(&c, 0xaa, action(&c, "to_cpu", &[&[0x55]])))).await;
    let frame = ethernet(0xaa00_0000_0000, 1, 2);
    assert!(net.frame(0x101, frame.clone()).await.is_empty(), "the CPU port has no interface");
    let metadata = |list: &[(u32, &[u8])]| {
        list.iter().map(|(id, v)| v1::PacketMetadata { metadata_id: *id, value: v.to_vec() }).collect::<Vec<_>>()
    };
    match c.next().await {
        Tell::Packet(p) => {
            assert_eq!(p.payload, frame);
            assert_eq!(p.metadata, metadata(&[(1, &[1, 1]), (2, &[0x55])]));
        }
        other => panic!("{other:?}"),
    }
    let out =
        |m: &[(u32, &[u8])]| ask(Ask::Packet(v1::PacketOut { payload: frame.clone().into(), metadata: metadata(m) }));
    c.to.send(out(&[(1, &[1, 2]), (2, &[0])])).await.unwrap();
    assert_eq!(net.sent().await, [(0x102, frame.clone())]);
    // A faulty packet is reported to its sender, with the packet.
    c.to.send(out(&[(1, &[1])])).await.unwrap();
    match c.next().await {
        Tell::Error(e) => {
            assert_eq!(
                (e.canonical_code, e.message.as_str()),
                (Code::InvalidArgument as i32, "packet.metadata: field 2 (pad) is missing")
            );
            assert!(matches!(
                e.details,
                Some(v1::stream_error::Details::PacketOut(v1::PacketOutError { packet_out: Some(_) }))
            ));
        }
        other => panic!("{other:?}"),
    }
    backup.to.send(out(&[(1, &[1, 2]), (2, &[0])])).await.unwrap();
    match backup.next().await {
        Tell::Error(e) => assert_eq!(e.canonical_code, Code::PermissionDenied as i32),
        other => panic!("{other:?}"),
    }
    backup.to.send(v1::StreamMessageRequest { update: None }).await.unwrap();
    assert!(matches!(backup.next().await, Tell::Error(_)));
}

#[tokio::test]
async fn digests_with_acknowledgement() {
    let (net, mut c) = Net::ready().await;
    let digest_id = c.info.digests[0].preamble.as_ref().unwrap().id;
    c.insert(E::TableEntry(route(&c, 1, action(&c, "learn", &[])))).await;
    let entry = |max_timeout_ns, max_list_size, ack_timeout_ns| {
        let config = v1::digest_entry::Config { max_timeout_ns, max_list_size, ack_timeout_ns };
        E::DigestEntry(v1::DigestEntry { digest_id, config: Some(config) })
    };
    let seen = |src: u64| net.frame(4, ethernet(1 << 40, src, 1));
    // Not enabled: nothing comes of it.
    seen(1).await;
    assert_eq!(c.refused(Type::Modify, entry(0, 1, 0)).await.0, Code::NotFound);
    // Lists of two, the same not again for an hour unless acknowledged.
    let hour = 3600 * 1_000_000_000;
    c.insert(entry(hour, 2, hour)).await;
    assert_eq!(c.refused(Type::Insert, entry(0, 1, 0)).await.0, Code::AlreadyExists);
    assert_eq!(
        c.refused(Type::Modify, entry(-1, 1, 0)).await,
        (Code::InvalidArgument, "updates[0].digest_entry.config.max_timeout_ns: -1 is negative".into())
    );
    assert_eq!(c.read(entry(0, 0, 0)).await, [entry(hour, 2, hour)]);
    for src in [0x11, 0x11, 0x22] {
        seen(src).await;
    }
    let bits = |b: &[u8]| v1::P4Data { data: Some(v1::p4_data::Data::Bitstring(b.to_vec())) };
    let data = |src: &[u8]| v1::P4Data {
        data: Some(v1::p4_data::Data::Struct(v1::P4StructLike { members: vec![bits(src), bits(&[4])] })),
    };
    async fn list(c: &mut Controller) -> v1::DigestList {
        match c.next().await {
            Tell::Digest(d) => d,
            other => panic!("{other:?}"),
        }
    }
    let first = list(&mut c).await;
    assert_eq!((first.digest_id, first.list_id, first.data), (digest_id, 1, vec![data(&[0x11]), data(&[0x22])]));
    assert!(first.timestamp > 0);
    let ack = |list_id| ask(Ask::DigestAck(v1::DigestListAck { digest_id, list_id }));
    // 0x11 is unacknowledged, so only 0x33 and 0x44 make the next list.
    for src in [0x11, 0x33, 0x44] {
        seen(src).await;
    }
    assert_eq!(list(&mut c).await.data, [data(&[0x33]), data(&[0x44])]);
    c.to.send(ack(1)).await.unwrap();
    // An acknowledgement of a missing list draws an error, by which the one before is known to be done.
    c.to.send(ask(Ask::DigestAck(v1::DigestListAck { digest_id: 5, list_id: 1 }))).await.unwrap();
    assert!(matches!(c.next().await, Tell::Error(e) if e.canonical_code == Code::InvalidArgument as i32));
    for src in [0x33, 0x11, 0x22] {
        seen(src).await;
    }
    assert_eq!(list(&mut c).await.data, [data(&[0x11]), data(&[0x22])]);
    // By time: one message goes out although its list is not full.
    c.modify(entry(1_000_000, 100, 0)).await;
    seen(0x55).await;
    assert_eq!(list(&mut c).await.data, [data(&[0x55])]);
    c.write(Type::Delete, entry(0, 0, 0)).await.unwrap();
    let status = c.try_read(vec![entry(0, 0, 0)]).await.unwrap_err();
    assert_eq!(errors(&status)[0].0, Code::NotFound);
}
