// SPDX-License-Identifier: Apache-2.0
//! Batches: the outcome of each update, all or nothing, and how fast they are.
use super::net::*;
use tonic::Code;
use weir_switch::p4runtime::proto::p4::v1::{self as v1, entity::Entity as E, update::Type, write_request::Atomicity};

/// Everything a controller can read that it can write.
async fn everything(c: &mut Controller) -> Vec<E> {
    use v1::packet_replication_engine_entry::Type as T;
    let pre = |t| E::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type: Some(t) });
    let with_counters = v1::TableEntry {
        counter_data: Some(v1::CounterData::default()),
        meter_config: Some(v1::MeterConfig::default()),
        ..Default::default()
    };
    let defaults = v1::TableEntry { is_default_action: true, ..with_counters.clone() };
    let mut all = c
        .try_read(vec![
            E::TableEntry(with_counters),
            E::TableEntry(defaults),
            E::ActionProfileMember(v1::ActionProfileMember::default()),
            E::ActionProfileGroup(v1::ActionProfileGroup::default()),
            E::CounterEntry(v1::CounterEntry::default()),
            E::MeterEntry(v1::MeterEntry::default()),
            E::RegisterEntry(v1::RegisterEntry::default()),
            pre(T::MulticastGroupEntry(v1::MulticastGroupEntry::default())),
            pre(T::CloneSessionEntry(v1::CloneSessionEntry::default())),
            E::ValueSetEntry(v1::ValueSetEntry::default()),
            E::DigestEntry(v1::DigestEntry::default()),
        ])
        .await
        .unwrap();
    // An entry that was taken out and put back is younger; P4Runtime knows no order of entries.
    all.sort_by_key(|e| format!("{e:?}"));
    all
}

fn cell(c: &Controller, i: i64, v: u8) -> E {
    let data = Some(v1::P4Data { data: Some(v1::p4_data::Data::Bitstring(vec![v])) });
    E::RegisterEntry(v1::RegisterEntry { register_id: c.id("words"), index: Some(v1::Index { index: i }), data })
}

#[tokio::test]
async fn updates_that_fail_leave_the_others_be() {
    let (_net, mut c) = Net::ready().await;
    let bad = v1::TableEntry { r#match: vec![lpm(&[1], 60)], ..route(&c, 1, action(&c, "drop", &[])) };
    let batch = vec![
        update(Type::Insert, E::TableEntry(bad)),
        update(Type::Modify, cell(&c, 1, 5)),
        update(Type::Modify, cell(&c, 5000, 5)),
    ];
    let status = c.write_with(batch, Atomicity::ContinueOnError).await.unwrap_err();
    assert!(
        status.message().starts_with("2 of 3 updates failed; the first: updates[0].table_entry.match[0]"),
        "{status}"
    );
    let codes: Vec<Code> = errors(&status).into_iter().map(|e| e.0).collect();
    assert_eq!(codes, [Code::InvalidArgument, Code::Ok, Code::OutOfRange]);
    assert_eq!(c.read(cell(&c, 1, 0)).await, [cell(&c, 1, 5)]);
}

#[tokio::test]
async fn a_batch_that_must_be_whole_is_taken_back_whole() {
    taken_back_whole(false).await;
    taken_back_whole(true).await;
}

/// With a selector's entries of one style and of the other.
async fn taken_back_whole(one_shots: bool) {
    use v1::packet_replication_engine_entry::Type as T;
    use v1::table_action::Type as A;
    let (net, c) = Net::ready().await;
    let (profile, balance) = (c.id("paths"), c.id("balance"));
    let member = |c: &Controller, member_id, port: u8| {
        let action = Some(action(c, "forward", &[&[port]]));
        E::ActionProfileMember(v1::ActionProfileMember { action_profile_id: profile, member_id, action })
    };
    let group = |weight| {
        let members = vec![v1::action_profile_group::Member { member_id: 1, weight, watch_kind: None }];
        E::ActionProfileGroup(v1::ActionProfileGroup { action_profile_id: profile, group_id: 1, members, max_size: 4 })
    };
    let entry = |kind: u8, a: A| {
        let action = Some(v1::TableAction { r#type: Some(a) });
        E::TableEntry(v1::TableEntry {
            table_id: balance,
            r#match: vec![exact(1, &[kind])],
            action,
            ..Default::default()
        })
    };
    let shot = |c: &Controller, port: u8| {
        let one =
            v1::ActionProfileAction { action: Some(action(c, "forward", &[&[port]])), weight: 1, watch_kind: None };
        A::ActionProfileActionSet(v1::ActionProfileActionSet {
            action_profile_actions: vec![one],
            ..Default::default()
        })
    };
    let multicast = |port: u8| {
        let replicas =
            vec![v1::Replica { port_kind: Some(v1::replica::PortKind::Port(vec![port])), ..Default::default() }];
        let g = v1::MulticastGroupEntry { multicast_group_id: 3, replicas, metadata: Vec::new() };
        E::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type: Some(T::MulticastGroupEntry(g)) })
    };
    let clone = |port: u8| {
        let replicas =
            vec![v1::Replica { port_kind: Some(v1::replica::PortKind::Port(vec![port])), ..Default::default() }];
        let s = v1::CloneSessionEntry { session_id: 7, replicas, ..Default::default() };
        E::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type: Some(T::CloneSessionEntry(s)) })
    };
    let digest = |max_list_size| {
        let config = Some(v1::digest_entry::Config { max_list_size, ..Default::default() });
        E::DigestEntry(v1::DigestEntry { digest_id: c.info.digests[0].preamble.as_ref().unwrap().id, config })
    };
    let meter = |cir| {
        let config = Some(v1::MeterConfig { cir, pir: cir, cburst: 1, pburst: 1, eburst: 0 });
        E::MeterEntry(v1::MeterEntry { meter_id: c.id("rates"), index: None, config, counter_data: None })
    };
    let counter = |packet_count| {
        let data = Some(v1::CounterData { packet_count, byte_count: 0 });
        E::CounterEntry(v1::CounterEntry { counter_id: c.id("ports"), index: None, data })
    };
    let set = |kind: u8| {
        let members = vec![v1::ValueSetMember { r#match: vec![exact(1, &[kind])] }];
        E::ValueSetEntry(v1::ValueSetEntry { value_set_id: c.id("specials"), members })
    };
    let default = |port: u8| {
        let action = run(action(&c, "forward", &[&[port]]));
        E::TableEntry(v1::TableEntry { table_id: c.id("route"), is_default_action: true, action, ..Default::default() })
    };
    let of_route = |top: u8, port: u8, metadata: &[u8]| {
        E::TableEntry(v1::TableEntry {
            metadata: metadata.to_vec(),
            ..route(&c, top, action(&c, "forward", &[&[port]]))
        })
    };
    let counted = |top: u8, packet_count| {
        let table_entry = Some(v1::TableEntry { action: None, ..route(&c, top, action(&c, "drop", &[])) });
        let data = Some(v1::CounterData { packet_count, byte_count: 1 });
        E::DirectCounterEntry(v1::DirectCounterEntry { table_entry, data })
    };
    let (i, m, d) = (Type::Insert, Type::Modify, Type::Delete);
    let mut before = vec![
        update(i, of_route(1, 1, b"a")),
        update(i, of_route(2, 1, b"b")),
        update(m, counted(1, 100)),
        update(i, multicast(1)),
        update(i, clone(1)),
        update(i, digest(1)),
        update(m, meter(1000)),
        update(m, counter(10)),
        update(m, set(1)),
        update(m, default(1)),
        update(m, cell(&c, 1, 1)),
    ];
    let change = |c: &Controller| {
        let mut list = if one_shots {
            vec![update(m, entry(2, shot(c, 2))), update(d, entry(3, shot(c, 1)))]
        } else {
            vec![
                update(m, member(c, 1, 2)),
                update(m, group(2)),
                update(m, entry(2, A::ActionProfileMemberId(1))),
                update(d, entry(2, shot(c, 1))),
                update(d, entry(3, shot(c, 1))),
                update(d, group(2)),
                update(d, member(c, 1, 2)),
            ]
        };
        list.extend([
            update(i, entry(4, shot(c, 4))),
            update(m, counted(1, 200)),
            update(m, of_route(1, 2, b"c")),
            update(d, of_route(1, 2, b"")),
            update(i, of_route(1, 3, b"d")),
            update(d, of_route(2, 1, b"")),
            update(i, of_route(3, 3, b"e")),
            update(m, multicast(2)),
            update(d, multicast(2)),
            update(m, clone(2)),
            update(m, digest(2)),
            update(d, digest(2)),
            update(m, meter(2000)),
            update(m, counter(20)),
            update(m, set(2)),
            update(m, default(2)),
            update(m, cell(c, 1, 2)),
            update(m, cell(c, 2, 2)),
        ]);
        list
    };
    before.extend(if one_shots {
        vec![update(i, entry(2, shot(&c, 1))), update(i, entry(3, shot(&c, 1)))]
    } else {
        vec![
            update(i, member(&c, 1, 1)),
            update(i, group(1)),
            update(i, entry(2, A::ActionProfileGroupId(1))),
            update(i, entry(3, A::ActionProfileMemberId(1))),
        ]
    });
    let changes = change(&c);
    // Made before anything borrows the controller again.
    let wrong = update(m, cell(&c, 1000, 1));
    let mut c2 = c;
    c2.write_with(before, Atomicity::ContinueOnError).await.unwrap();
    let as_it_was = everything(&mut c2).await;
    for atomicity in [Atomicity::RollbackOnError, Atomicity::DataplaneAtomic] {
        let mut batch = changes.clone();
        batch.push(wrong.clone());
        let failed = format!("updates[{}] failed", changes.len());
        let status = c2.write_with(batch, atomicity).await.unwrap_err();
        let errors = errors(&status);
        assert_eq!(errors[changes.len()].0, Code::OutOfRange);
        assert!(
            errors[..changes.len()].iter().all(|(code, m)| *code == Code::Aborted && m.contains(&failed)),
            "{errors:?}"
        );
        assert_eq!(everything(&mut c2).await, as_it_was);
    }
    // The data plane too is as it was: the group's member, the member, the one-shot sets'.
    assert_eq!(net.frame(1, ethernet(9 << 40, 1, 2)).await[0].0, 1);
    assert_eq!(net.frame(1, ethernet(9 << 40, 1, 3)).await[0].0, 1);
    // Without the wrong one it goes in.
    c2.write_with(changes, Atomicity::DataplaneAtomic).await.unwrap();
    assert_ne!(everything(&mut c2).await, as_it_was);
    assert_eq!(net.frame(1, ethernet(9 << 40, 1, 4)).await[0].0, 4);
}

#[tokio::test]
async fn ten_thousand_writes_in_batches_of_500() {
    let (_net, mut c) = Net::ready().await;
    let forward = run(action(&c, "forward", &[&[2]]));
    let table_id = c.id("route");
    let entry = |i: u32| {
        let mut value = i.to_be_bytes().to_vec();
        value.extend([0, 0]);
        let r#match = vec![lpm(&value, 32)];
        update(
            Type::Insert,
            E::TableEntry(v1::TableEntry { table_id, r#match, action: forward.clone(), ..Default::default() }),
        )
    };
    let start = std::time::Instant::now();
    for batch in 0..20 {
        let updates = (0..500).map(|i| entry(batch * 500 + i)).collect();
        c.write_with(updates, Atomicity::ContinueOnError).await.unwrap();
    }
    println!("10,000 table writes in batches of 500: {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
    let start = std::time::Instant::now();
    let all = c.read(E::TableEntry(v1::TableEntry { table_id, ..Default::default() })).await;
    println!("10,000 entries read: {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
    assert_eq!(all.len(), 10_000);
    // A batch of which all fail says so of each, in headers that a client can take.
    let updates: Vec<_> = (0..500).map(entry).collect();
    let status = c.write_with(updates, Atomicity::ContinueOnError).await.unwrap_err();
    assert!(errors(&status).iter().all(|e| e.0 == Code::AlreadyExists));
}
