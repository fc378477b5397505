// SPDX-License-Identifier: Apache-2.0
//! Each kind of entity: written, seen by packets, read back, refused.
use super::net::*;
use tonic::Code;
use weir_switch::p4runtime::proto::p4::v1::{
    self as v1, entity::Entity as E, field_match::FieldMatchType as M, update::Type,
};

fn table(e: v1::TableEntry) -> E {
    E::TableEntry(e)
}

fn field(field_id: u32, m: M) -> v1::FieldMatch {
    v1::FieldMatch { field_id, field_match_type: Some(m) }
}

fn index(index: i64) -> Option<v1::Index> {
    Some(v1::Index { index })
}

#[tokio::test]
async fn an_entry_is_inserted_hit_modified_read_and_deleted() {
    let (net, mut c) = Net::ready().await;
    let frame = || ethernet(0xaa00_0000_0001, 2, 0x800);
    assert!(net.frame(1, frame()).await.is_empty(), "the default drops");
    let mut e = route(&c, 0xaa, action(&c, "forward", &[&[2]]));
    e.controller_metadata = 77;
    e.metadata = b"mine".to_vec();
    c.insert(table(e.clone())).await;
    assert_eq!(net.frame(1, frame()).await, [(2, frame())]);
    assert_eq!(c.read(table(v1::TableEntry { table_id: e.table_id, ..Default::default() })).await, [table(e.clone())]);
    assert_eq!(c.refused(Type::Insert, table(e.clone())).await.0, Code::AlreadyExists);
    e.action = run(action(&c, "forward", &[&[3]]));
    c.modify(table(e.clone())).await;
    assert_eq!(net.frame(1, frame()).await, [(3, frame())]);
    // The counter is read with the entry on request, and by itself.
    let mut ask = e.clone();
    ask.action = None;
    ask.counter_data = Some(v1::CounterData::default());
    let counted = v1::CounterData { packet_count: 2, byte_count: 2 * frame().len() as i64 };
    assert_eq!(c.read(table(ask)).await, [table(v1::TableEntry { counter_data: Some(counted), ..e.clone() })]);
    let key = v1::TableEntry { action: None, controller_metadata: 0, metadata: Vec::new(), ..e.clone() };
    let direct = |data| E::DirectCounterEntry(v1::DirectCounterEntry { table_entry: Some(key.clone()), data });
    assert_eq!(c.read(direct(None)).await, [direct(Some(counted))]);
    let five = v1::CounterData { packet_count: 5, byte_count: 6 };
    c.modify(direct(Some(five))).await;
    assert_eq!(c.read(direct(None)).await, [direct(Some(five))]);
    assert_eq!(c.refused(Type::Insert, direct(None)).await.0, Code::InvalidArgument);
    // Only the key counts when deleting.
    c.write(Type::Delete, table(key.clone())).await.unwrap();
    assert!(net.frame(1, frame()).await.is_empty());
    assert_eq!(c.refused(Type::Delete, table(key.clone())).await.0, Code::NotFound);
    assert_eq!(c.refused(Type::Modify, table(e)).await.0, Code::NotFound);
    assert_eq!(c.refused(Type::Modify, direct(Some(five))).await.0, Code::NotFound);
}

#[tokio::test]
async fn wildcards_and_filters() {
    let (_net, mut c) = Net::ready().await;
    for (top, port, cookie) in [(1, 1u8, 5), (2, 2, 6), (3, 2, 5)] {
        let mut e = route(&c, top, action(&c, "forward", &[&[port]]));
        e.controller_metadata = cookie;
        c.insert(table(e)).await;
    }
    let mut any = route(&c, 0, action(&c, "drop", &[]));
    any.r#match.clear();
    c.insert(table(any)).await;
    let all = v1::TableEntry { table_id: c.id("route"), ..Default::default() };
    assert_eq!(c.read(table(all.clone())).await.len(), 4);
    // The constant entry of another table is among all of them.
    assert_eq!(c.read(table(v1::TableEntry::default())).await.len(), 5);
    assert_eq!(c.read(table(v1::TableEntry { controller_metadata: 5, ..all.clone() })).await.len(), 2);
    let drops = v1::Action { action_id: c.id("drop"), params: Vec::new() };
    assert_eq!(c.read(table(v1::TableEntry { action: run(drops), ..all.clone() })).await.len(), 1);
    let one = v1::TableEntry { r#match: vec![lpm(&[2, 0, 0, 0, 0, 0], 8)], ..all.clone() };
    assert_eq!(c.read(table(one)).await.len(), 1);
    let none = v1::TableEntry { r#match: vec![lpm(&[9, 0, 0, 0, 0, 0], 8)], ..all.clone() };
    assert!(c.read(table(none)).await.is_empty());
    let counters = v1::DirectCounterEntry { table_entry: Some(v1::TableEntry::default()), data: None };
    assert_eq!(c.read(E::DirectCounterEntry(counters)).await.len(), 4);
    let unknown = c.try_read(vec![table(v1::TableEntry { table_id: 0x0200_0001, ..Default::default() })]).await;
    assert_eq!(errors(&unknown.unwrap_err())[0].0, Code::NotFound);
}

#[tokio::test]
async fn ternary_range_and_optional_by_priority_with_a_direct_meter() {
    let (net, mut c) = Net::ready().await;
    c.insert(table(route(&c, 0xaa, action(&c, "forward", &[&[2]])))).await;
    let ternary =
        |v: &[u8], m: &[u8]| field(1, M::Ternary(v1::field_match::Ternary { value: v.to_vec(), mask: m.to_vec() }));
    let range = |l: &[u8], h: &[u8]| field(2, M::Range(v1::field_match::Range { low: l.to_vec(), high: h.to_vec() }));
    let optional = |v: &[u8]| field(3, M::Optional(v1::field_match::Optional { value: v.to_vec() }));
    let acl = |c: &Controller, m: Vec<v1::FieldMatch>, priority: i32, name: &str| v1::TableEntry {
        table_id: c.id("acl"),
        r#match: m,
        priority,
        action: run(action(c, name, &[])),
        ..Default::default()
    };
    let low = acl(&c, vec![ternary(&[5], &[0xff]), range(&[8, 0], &[9, 0]), optional(&[1])], 1, "drop");
    c.insert(table(low.clone())).await;
    let frame = ethernet(0xaa00_0000_0000, 5, 0x800);
    assert!(net.frame(1, frame.clone()).await.is_empty());
    assert_eq!(net.frame(3, frame.clone()).await.len(), 1, "another port");
    assert_eq!(net.frame(1, ethernet(0xaa00_0000_0000, 5, 0x901)).await.len(), 1, "above the range");
    let config = v1::MeterConfig { cir: 10, cburst: 3, pir: 20, pburst: 4, eburst: 0 };
    let mut high = acl(&c, vec![ternary(&[5], &[0xff])], 2, "metered");
    high.meter_config = Some(config);
    c.insert(table(high.clone())).await;
    assert_eq!(net.frame(1, frame).await.len(), 1, "the higher priority wins");
    let mut ask = high.clone();
    (ask.action, ask.meter_config) = (None, Some(v1::MeterConfig::default()));
    assert_eq!(c.read(table(ask)).await, [table(high.clone())]);
    let key = v1::TableEntry { action: None, meter_config: None, ..high.clone() };
    let direct = |config| {
        E::DirectMeterEntry(v1::DirectMeterEntry { table_entry: Some(key.clone()), config, counter_data: None })
    };
    assert_eq!(c.read(direct(None)).await, [direct(Some(config))]);
    c.modify(direct(None)).await;
    assert_eq!(c.read(direct(None)).await, [direct(None)]);
    // A third entry fills the table.
    c.insert(table(acl(&c, vec![], 3, "learn"))).await;
    let (code, message) = c.refused(Type::Insert, table(acl(&c, vec![], 4, "drop"))).await;
    assert_eq!(code, Code::ResourceExhausted, "{message}");
    let cases = [
        (acl(&c, vec![], 0, "drop"), Code::InvalidArgument, "priority: 0 is not above 0"),
        (
            acl(&c, vec![ternary(&[5], &[0])], 9, "drop"),
            Code::InvalidArgument,
            "match[0] (h.ethernet.src): mask 0 matches everything",
        ),
        (acl(&c, vec![ternary(&[5], &[4])], 9, "drop"), Code::InvalidArgument, "outside its mask"),
        (
            acl(&c, vec![range(&[9], &[8])], 9, "drop"),
            Code::InvalidArgument,
            "match[0] (h.ethernet.type): low is above high",
        ),
        (acl(&c, vec![range(&[0], &[255, 255])], 9, "drop"), Code::InvalidArgument, "the whole range"),
        (
            acl(&c, vec![optional(&[2, 0])], 9, "drop"),
            Code::InvalidArgument,
            "match[0] (s.ingress_port).value: value 0x0200 does not fit 9 bits",
        ),
        (acl(&c, vec![optional(&[2]), optional(&[2])], 9, "drop"), Code::InvalidArgument, "field 3 is given twice"),
        (acl(&c, vec![exact(1, &[2])], 9, "drop"), Code::InvalidArgument, "the match is exact, the field's is ternary"),
    ];
    for (e, code, wanted) in cases {
        let got = c.refused(Type::Insert, table(e)).await;
        assert!(got.0 == code && got.1.contains(wanted), "{got:?} lacks {wanted}");
    }
}

#[tokio::test]
async fn the_smallest_priority_wins_where_the_program_says_so() {
    let own = "largest_priority_wins = false; entries = { priority = 5: (_, _, _): drop(); }";
    let text = PROGRAM.replace("meters = acl_limit;", &format!("meters = acl_limit; {own}"));
    assert_ne!(text, PROGRAM);
    let (net, mut c) = Net::ready().await;
    c.set_program(&text).await.unwrap();
    c.insert(table(route(&c, 0xaa, action(&c, "forward", &[&[2]])))).await;
    let acl = |c: &Controller, priority: i32, name: &str| {
        table(v1::TableEntry {
            table_id: c.id("acl"),
            priority,
            action: run(action(c, name, &[])),
            ..Default::default()
        })
    };
    let all = table(v1::TableEntry { table_id: c.id("acl"), ..Default::default() });
    let frame = ethernet(0xaa00_0000_0000, 5, 0x800);
    assert!(net.frame(1, frame.clone()).await.is_empty(), "the program's entry drops");
    c.insert(acl(&c, 6, "NoAction")).await;
    assert!(net.frame(1, frame.clone()).await.is_empty(), "5 is before 6");
    c.insert(acl(&c, 4, "NoAction")).await;
    assert_eq!(net.frame(1, frame.clone()).await.len(), 1, "4 is before 5");
    let entries = c.read(all).await;
    let priorities = entries.iter().map(|e| match e {
        E::TableEntry(e) => e.priority,
        other => panic!("{other:?}"),
    });
    assert_eq!(priorities.collect::<Vec<_>>(), [5, 6, 4]);
    assert_eq!(c.read(acl(&c, 6, "NoAction")).await, [acl(&c, 6, "NoAction")]);
    c.modify(acl(&c, 5, "NoAction")).await;
    c.write(Type::Delete, acl(&c, 4, "NoAction")).await.unwrap();
    assert_eq!(net.frame(1, frame.clone()).await.len(), 1, "5 no longer drops");
    c.write(Type::Delete, acl(&c, 5, "NoAction")).await.unwrap();
    c.modify(acl(&c, 6, "drop")).await;
    assert!(net.frame(1, frame).await.is_empty(), "6 is what is left");
}

#[tokio::test]
async fn what_is_wrong_with_an_entry_is_said() {
    let (_net, mut c) = Net::ready().await;
    let forward = action(&c, "forward", &[&[2]]);
    let good = route(&c, 1, forward.clone());
    let with = |f: &dyn Fn(&mut v1::TableEntry)| {
        let mut e = good.clone();
        f(&mut e);
        table(e)
    };
    let port = |name: &str, ids: &[(u32, &[u8])]| {
        let params = ids.iter().map(|(id, v)| v1::action::Param { param_id: *id, value: v.to_vec() }).collect();
        run(v1::Action { action_id: c.id(name), params })
    };
    let (no_action, acl_action) = (port("NoAction", &[]), port("metered", &[]));
    let (wide, none, two, extra, empty) = (
        port("forward", &[(1, &[2, 0])]),
        port("forward", &[]),
        port("forward", &[(1, &[1]), (1, &[1])]),
        port("forward", &[(1, &[1]), (2, &[1])]),
        port("forward", &[(1, &[])]),
    );
    let mac = [1u8, 0, 0, 0, 0, 0];
    use Code::*;
    let cases = [
        (with(&|e| e.table_id = 0), InvalidArgument, "table_entry: table_id is unset"),
        (with(&|e| e.table_id = 0x0212_3456), NotFound, "no table with id 0x02123456"),
        (
            with(&|e| e.r#match = vec![lpm(&mac, 49)]),
            InvalidArgument,
            "updates[0].table_entry.match[0] (h.ethernet.dst): prefix length 49 is above 48",
        ),
        (with(&|e| e.r#match = vec![lpm(&mac, -1)]), InvalidArgument, "prefix length -1 is negative"),
        (with(&|e| e.r#match = vec![lpm(&mac, 0)]), InvalidArgument, "leave the field out instead"),
        (with(&|e| e.r#match = vec![lpm(&[1, 0, 0, 0, 0, 1], 8)]), InvalidArgument, "outside its prefix of 8 bits"),
        (
            with(&|e| e.r#match = vec![lpm(&[1; 7], 8)]),
            InvalidArgument,
            "match[0] (h.ethernet.dst).value: value 0x01010101010101 does not fit 48 bits",
        ),
        (with(&|e| e.r#match = vec![lpm(&[], 8)]), InvalidArgument, "value is empty"),
        (
            with(&|e| e.r#match[0].field_id = 9),
            InvalidArgument,
            "match[0].field_id: table I.route has no match field 9",
        ),
        (with(&|e| e.r#match[0].field_match_type = None), InvalidArgument, "no kind of match"),
        (with(&|e| e.priority = 1), InvalidArgument, "priority: must be unset"),
        (with(&|e| e.action = None), InvalidArgument, "action: is unset"),
        (
            with(&|e| e.action = no_action.clone()),
            PermissionDenied,
            "action.action_id: NoAction is for the default only",
        ),
        (with(&|e| e.action = acl_action.clone()), InvalidArgument, "is no action of table I.route"),
        (
            with(&|e| e.action = wide.clone()),
            InvalidArgument,
            "action.params[0] (port).value: value 0x0200 does not fit 9 bits",
        ),
        (with(&|e| e.action = none.clone()), InvalidArgument, "parameter 1 (port) of action I.forward is missing"),
        (with(&|e| e.action = two.clone()), InvalidArgument, "parameter 1 is given twice"),
        (with(&|e| e.action = extra.clone()), InvalidArgument, "action I.forward has no parameter 2"),
        (with(&|e| e.action = empty.clone()), InvalidArgument, "value is empty"),
        (
            with(&|e| {
                e.action = Some(v1::TableAction { r#type: Some(v1::table_action::Type::ActionProfileMemberId(1)) })
            }),
            InvalidArgument,
            "has no action profile",
        ),
        (with(&|e| e.is_const = true), InvalidArgument, "is_const: must be false"),
        (with(&|e| e.idle_timeout_ns = 5), InvalidArgument, "idle_timeout_ns: must be unset"),
        (
            with(&|e| e.meter_config = Some(v1::MeterConfig::default())),
            InvalidArgument,
            "meter_config: table I.route has no direct meter",
        ),
        (
            with(&|e| e.counter_data = Some(v1::CounterData { packet_count: -1, byte_count: 0 })),
            InvalidArgument,
            "counter_data.packet_count: -1 is negative",
        ),
        (with(&|e| e.meter_counter_data = Some(v1::MeterCounterData::default())), Unimplemented, "meter_counter_data"),
        (
            table(v1::TableEntry {
                table_id: c.id("ports_in"),
                r#match: vec![exact(1, &[1])],
                action: run(action(&c, "drop", &[])),
                ..Default::default()
            }),
            InvalidArgument,
            "field 2 (h.ethernet.type) is missing",
        ),
        (
            table(v1::TableEntry {
                table_id: c.id("nokey"),
                action: run(action(&c, "drop", &[])),
                ..Default::default()
            }),
            InvalidArgument,
            "has no key",
        ),
        (
            table(v1::TableEntry {
                table_id: c.id("fixed"),
                r#match: vec![exact(1, &[1])],
                action: run(action(&c, "drop", &[])),
                ..Default::default()
            }),
            PermissionDenied,
            "the entries of table I.fixed are constant",
        ),
        (E::ExternEntry(v1::ExternEntry::default()), Unimplemented, "extern_entry"),
    ];
    for (e, code, wanted) in cases {
        let got = c.refused(Type::Insert, e).await;
        assert!(got.0 == code && got.1.contains(wanted), "{got:?} lacks {code:?} {wanted}");
    }
    let fixed =
        v1::TableEntry { table_id: c.id("fixed"), r#match: vec![exact(1, &[0x88, 0xcc])], ..Default::default() };
    assert_eq!(c.refused(Type::Delete, table(fixed.clone())).await.0, Code::PermissionDenied);
    let [E::TableEntry(read)] = &c.read(table(fixed)).await[..] else { panic!("one entry") };
    assert!(read.is_const);
    let (code, message) = c.refused(Type::Unspecified, table(good)).await;
    assert_eq!(
        (code, message.as_str()),
        (InvalidArgument, "updates[0].type: is unset; it must be INSERT, MODIFY or DELETE")
    );
}

#[tokio::test]
async fn the_default_entry() {
    let (net, mut c) = Net::ready().await;
    let frame = ethernet(1, 2, 3);
    let default = v1::TableEntry { table_id: c.id("route"), is_default_action: true, ..Default::default() };
    let mut e = default.clone();
    e.action = run(action(&c, "forward", &[&[4]]));
    e.metadata = b"x".to_vec();
    c.modify(table(e.clone())).await;
    assert_eq!(net.frame(1, frame.clone()).await, [(4, frame.clone())]);
    assert_eq!(c.read(table(default.clone())).await, [table(e.clone())]);
    assert_eq!(c.refused(Type::Insert, table(e.clone())).await.0, Code::InvalidArgument);
    assert_eq!(c.refused(Type::Delete, table(e.clone())).await.0, Code::InvalidArgument);
    let keyed = v1::TableEntry { r#match: vec![lpm(&[1, 0, 0, 0, 0, 0], 8)], ..e.clone() };
    assert_eq!(c.refused(Type::Modify, table(keyed)).await.0, Code::InvalidArgument);
    let fixed = v1::TableEntry { table_id: c.id("ports_in"), action: run(action(&c, "drop", &[])), ..default.clone() };
    assert_eq!(c.refused(Type::Modify, table(fixed)).await.0, Code::PermissionDenied);
    let of_entries = v1::TableEntry { table_id: c.id("acl"), action: run(action(&c, "learn", &[])), ..default.clone() };
    let (code, message) = c.refused(Type::Modify, table(of_entries)).await;
    assert!(code == Code::PermissionDenied && message.contains("for entries only"), "{message}");
    // Without an action it is the program's own again.
    c.modify(table(default.clone())).await;
    assert!(net.frame(1, frame).await.is_empty());
    let drops = v1::TableEntry { action: run(action(&c, "drop", &[])), ..default };
    assert_eq!(c.read(table(v1::TableEntry { action: None, ..drops.clone() })).await, [table(drops)]);
}

#[tokio::test]
async fn members_groups_and_one_shot_sets() {
    let (net, mut c) = Net::ready().await;
    let profile = c.id("paths");
    let member = |c: &Controller, member_id: u32, port: u8| {
        let action = Some(action(c, "forward", &[&[port]]));
        E::ActionProfileMember(v1::ActionProfileMember { action_profile_id: profile, member_id, action })
    };
    let group = |group_id: u32, members: &[(u32, i32)], max_size: i32| {
        let one = |(member_id, weight): &(u32, i32)| v1::action_profile_group::Member {
            member_id: *member_id,
            weight: *weight,
            watch_kind: None,
        };
        let members = members.iter().map(one).collect();
        E::ActionProfileGroup(v1::ActionProfileGroup { action_profile_id: profile, group_id, members, max_size })
    };
    use v1::table_action::Type as A;
    let entry = |c: &Controller, kind: u16, a: A| {
        table(v1::TableEntry {
            table_id: c.id("balance"),
            r#match: vec![exact(1, &kind.to_be_bytes())],
            action: Some(v1::TableAction { r#type: Some(a) }),
            ..Default::default()
        })
    };
    assert_eq!(c.refused(Type::Insert, entry(&c, 0x800, A::ActionProfileMemberId(1))).await.0, Code::NotFound);
    c.insert(member(&c, 1, 5)).await;
    c.insert(member(&c, 2, 6)).await;
    assert_eq!(c.refused(Type::Insert, member(&c, 1, 5)).await.0, Code::AlreadyExists);
    assert_eq!(c.refused(Type::Modify, member(&c, 3, 5)).await.0, Code::NotFound);
    assert_eq!(c.refused(Type::Insert, member(&c, 0, 5)).await.0, Code::InvalidArgument);
    c.insert(entry(&c, 0x800, A::ActionProfileMemberId(1))).await;
    let ports = |frames: Frames| frames.iter().map(|(p, _)| *p).collect::<Vec<_>>();
    assert_eq!(ports(net.frame(1, ethernet(1, 1, 0x800)).await), [5]);
    c.modify(member(&c, 1, 7)).await;
    assert_eq!(ports(net.frame(1, ethernet(1, 1, 0x800)).await), [7]);
    let (code, message) = c.refused(Type::Delete, member(&c, 1, 0)).await;
    assert!(code == Code::FailedPrecondition && message.contains("an entry of table I.balance"), "{message}");
    // Groups: limits of the program and of the group itself.
    let cases = [
        (group(1, &[(1, 1)], 0), Code::InvalidArgument, "max_size: is unset"),
        (group(1, &[(1, 1)], 9), Code::InvalidArgument, "max_size: 9 is above"),
        (group(1, &[(1, 3), (2, 2)], 4), Code::ResourceExhausted, "above max_size, 4"),
        (group(1, &[(1, 0)], 4), Code::InvalidArgument, "members[0].weight: 0 is not above 0"),
        (group(1, &[(1, 1), (1, 1)], 4), Code::InvalidArgument, "members[1].member_id: member 1 is in the group twice"),
        (group(1, &[(9, 1)], 4), Code::NotFound, "members[0].member_id"),
    ];
    for (e, code, wanted) in cases {
        let got = c.refused(Type::Insert, e).await;
        assert!(got.0 == code && got.1.contains(wanted), "{got:?} lacks {wanted}");
    }
    c.insert(group(1, &[(2, 3)], 4)).await;
    assert_eq!(c.refused(Type::Modify, group(1, &[(2, 3)], 5)).await.0, Code::InvalidArgument);
    let (code, message) = c.refused(Type::Delete, member(&c, 2, 0)).await;
    assert!(code == Code::FailedPrecondition && message.contains("group 1 has member 2"), "{message}");
    c.modify(entry(&c, 0x800, A::ActionProfileGroupId(1))).await;
    assert_eq!(ports(net.frame(1, ethernet(1, 1, 0x800)).await), [6]);
    assert_eq!(c.refused(Type::Delete, group(1, &[], 0)).await.0, Code::FailedPrecondition);
    assert_eq!(c.read(group(0, &[], 0)).await, [group(1, &[(2, 3)], 4)]);
    // A one-shot set is read as it was written, and its members are nobody else's.
    let of = |c: &Controller, weights: &[(u8, i32)]| {
        let one = |(port, weight): &(u8, i32)| v1::ActionProfileAction {
            action: Some(action(c, "forward", &[&[*port]])),
            weight: *weight,
            watch_kind: None,
        };
        A::ActionProfileActionSet(v1::ActionProfileActionSet {
            action_profile_actions: weights.iter().map(one).collect(),
            ..Default::default()
        })
    };
    let shot = entry(&c, 0x801, of(&c, &[(8, 2), (9, 1)]));
    // A selector's entries are of one style (9.2.3).
    assert_eq!(c.refused(Type::Insert, shot.clone()).await.0, Code::InvalidArgument);
    assert_eq!(c.refused(Type::Modify, entry(&c, 0x800, of(&c, &[(8, 1)]))).await.0, Code::InvalidArgument);
    for (style, e) in [
        ("group", entry(&c, 0x800, A::ActionProfileGroupId(1))),
        ("group", group(1, &[], 0)),
        ("member", member(&c, 1, 0)),
    ] {
        c.write(Type::Delete, e).await.unwrap();
        assert_eq!(c.refused(Type::Insert, shot.clone()).await.0, Code::InvalidArgument, "after a {style}");
    }
    c.write(Type::Delete, member(&c, 2, 0)).await.unwrap();
    c.insert(shot.clone()).await;
    assert_eq!(c.refused(Type::Insert, member(&c, 1, 5)).await.0, Code::InvalidArgument);
    assert_eq!(c.refused(Type::Insert, group(1, &[], 4)).await.0, Code::InvalidArgument);
    assert!(matches!(ports(net.frame(1, ethernet(1, 1, 0x801)).await)[..], [8] | [9]));
    let members = E::ActionProfileMember(v1::ActionProfileMember::default());
    assert!(c.read(members.clone()).await.is_empty());
    let balance = || table(v1::TableEntry { ..Default::default() });
    assert!(c.read(balance()).await.contains(&shot));
    let (code, message) = c.refused(Type::Insert, entry(&c, 0x802, of(&c, &[(8, 8), (9, 1)]))).await;
    assert!(code == Code::InvalidArgument && message.contains("above the group's limit of 8"), "{message}");
    // The set's 2 leave room for 6 of 8.
    let (code, message) = c.refused(Type::Insert, entry(&c, 0x802, of(&c, &[(1, 1); 7]))).await;
    assert!(code == Code::ResourceExhausted && message.contains("room for 8"), "{message}");
    c.write(Type::Delete, shot).await.unwrap();
    c.insert(entry(&c, 0x802, of(&c, &[(1, 1); 5]))).await;
    c.insert(entry(&c, 0x803, of(&c, &[(1, 1); 2]))).await;
    // The set that is replaced makes room for the new one.
    c.modify(entry(&c, 0x802, of(&c, &[(2, 1); 6]))).await;
    assert_eq!(ports(net.frame(1, ethernet(1, 1, 0x802)).await), [2]);
    let (code, message) = c.refused(Type::Modify, entry(&c, 0x802, of(&c, &[(1, 1); 7]))).await;
    assert!(code == Code::ResourceExhausted && message.contains("room for 8"), "{message}");
    // A profile that is no selector.
    let hop = |a: A| {
        table(v1::TableEntry {
            table_id: c.id("hop"),
            r#match: vec![exact(1, &[1])],
            action: Some(v1::TableAction { r#type: Some(a) }),
            ..Default::default()
        })
    };
    let (of_group, of_action) = (hop(A::ActionProfileGroupId(1)), hop(A::Action(action(&c, "drop", &[]))));
    assert_eq!(c.refused(Type::Insert, of_group).await.0, Code::InvalidArgument);
    assert_eq!(c.refused(Type::Insert, of_action).await.0, Code::InvalidArgument);
}

#[tokio::test]
async fn counters() {
    let (net, mut c) = Net::ready().await;
    let counter_id = c.id("ports");
    let entry = |i: Option<i64>, data: Option<(i64, i64)>| {
        let data = data.map(|(packet_count, byte_count)| v1::CounterData { packet_count, byte_count });
        E::CounterEntry(v1::CounterEntry { counter_id, index: i.and_then(index), data })
    };
    net.frame(2, ethernet(1, 1, 1)).await;
    assert_eq!(c.read(entry(Some(2), None)).await, [entry(Some(2), Some((1, 21)))]);
    c.modify(entry(Some(2), Some((7, 8)))).await;
    assert_eq!(c.read(entry(None, None)).await[2], entry(Some(2), Some((7, 8))));
    c.modify(entry(None, Some((1, 1)))).await;
    assert_eq!(
        c.read(E::CounterEntry(v1::CounterEntry::default())).await,
        (0..4).map(|i| entry(Some(i), Some((1, 1)))).collect::<Vec<_>>()
    );
    assert_eq!(c.refused(Type::Modify, entry(Some(4), Some((1, 1)))).await.0, Code::OutOfRange);
    assert_eq!(c.refused(Type::Modify, entry(Some(-1), Some((1, 1)))).await.0, Code::InvalidArgument);
    assert_eq!(c.refused(Type::Insert, entry(Some(1), Some((1, 1)))).await.0, Code::InvalidArgument);
    let status = c.try_read(vec![entry(Some(4), None)]).await.unwrap_err();
    assert_eq!(
        errors(&status),
        [(Code::OutOfRange, "entities[0].counter_entry.index: 4 is above the last, 3".to_string())]
    );
}

#[tokio::test]
async fn meters() {
    let (_net, mut c) = Net::ready().await;
    let meter_id = c.id("rates");
    let entry = |i: Option<i64>, config| {
        E::MeterEntry(v1::MeterEntry { meter_id, index: i.and_then(index), config, counter_data: None })
    };
    let config = v1::MeterConfig { cir: 1_250_001, cburst: 3000, pir: 1_250_003, pburst: 4000, eburst: 0 };
    assert_eq!(c.read(entry(Some(1), None)).await, [entry(Some(1), None)]);
    c.modify(entry(Some(1), Some(config))).await;
    assert_eq!(c.read(entry(Some(1), None)).await, [entry(Some(1), Some(config))]);
    c.modify(entry(None, Some(config))).await;
    assert_eq!(c.read(entry(None, None)).await, (0..4).map(|i| entry(Some(i), Some(config))).collect::<Vec<_>>());
    c.modify(entry(Some(1), None)).await;
    assert_eq!(c.read(entry(Some(1), None)).await, [entry(Some(1), None)]);
    let cases = [
        (entry(Some(4), Some(config)), Code::OutOfRange, "index"),
        (entry(Some(1), Some(v1::MeterConfig { eburst: 1, ..config })), Code::InvalidArgument, "config.eburst"),
        (
            entry(Some(1), Some(v1::MeterConfig { pir: 1, ..config })),
            Code::InvalidArgument,
            "config.pir: 1 is below cir 1250001",
        ),
        (
            entry(Some(1), Some(v1::MeterConfig { cburst: -1, ..config })),
            Code::InvalidArgument,
            "config.cburst: -1 is negative",
        ),
        (entry(Some(1), Some(v1::MeterConfig { pir: i64::MAX, ..config })), Code::OutOfRange, "config.pir"),
    ];
    for (e, code, wanted) in cases {
        let got = c.refused(Type::Modify, e).await;
        assert!(got.0 == code && got.1.contains(wanted), "{got:?} lacks {wanted}");
    }
    assert_eq!(c.refused(Type::Delete, entry(Some(1), None)).await.0, Code::InvalidArgument);
}

#[tokio::test]
async fn registers() {
    let (net, mut c) = Net::ready().await;
    let bits = |b: &[u8]| Some(v1::P4Data { data: Some(v1::p4_data::Data::Bitstring(b.to_vec())) });
    let entry = |register_id: u32, i: Option<i64>, data| {
        E::RegisterEntry(v1::RegisterEntry { register_id, index: i.and_then(index), data })
    };
    let (words, signed) = (c.id("words"), c.id("signed"));
    c.modify(entry(words, Some(3), bits(&[0, 0, 0, 1, 0]))).await;
    net.frame(3, ethernet(1, 1, 1)).await;
    assert_eq!(c.read(entry(words, Some(3), None)).await, [entry(words, Some(3), bits(&[1, 1]))]);
    // The data plane takes one from 0.
    assert_eq!(c.read(entry(signed, Some(0), None)).await, [entry(signed, Some(0), bits(&[0xff]))]);
    c.modify(entry(signed, Some(0), bits(&[0xff, 0xff, 0x80, 0]))).await;
    assert_eq!(c.read(entry(signed, Some(0), None)).await, [entry(signed, Some(0), bits(&[0x80, 0]))]);
    c.modify(entry(words, None, bits(&[9]))).await;
    let all = c.read(entry(words, None, None)).await;
    assert_eq!(all.len(), 1000);
    assert!(all.iter().enumerate().all(|(i, e)| *e == entry(words, Some(i as i64), bits(&[9]))));
    assert_eq!(c.read(E::RegisterEntry(v1::RegisterEntry::default())).await.len(), 1002);
    let cases = [
        (entry(words, Some(1000), bits(&[1])), Code::OutOfRange, "index: 1000 is above the last, 999"),
        (entry(words, Some(-1), bits(&[1])), Code::InvalidArgument, "index: -1 is negative"),
        (
            entry(words, Some(0), bits(&[1, 0, 0, 0, 0])),
            Code::OutOfRange,
            "data: value 0x0100000000 does not fit 32 bits",
        ),
        (entry(words, Some(0), bits(&[])), Code::OutOfRange, "value is empty"),
        (entry(words, Some(0), None), Code::InvalidArgument, "data: is unset"),
        (
            entry(words, Some(0), Some(v1::P4Data { data: Some(v1::p4_data::Data::Bool(true)) })),
            Code::InvalidArgument,
            "bitstring is needed here",
        ),
        (entry(signed, Some(0), bits(&[0x80, 0x00, 0x00])), Code::OutOfRange, "does not fit 16 bits"),
        (entry(0x1600_0001, Some(0), bits(&[1])), Code::NotFound, "no register with id 0x16000001"),
    ];
    for (e, code, wanted) in cases {
        let got = c.refused(Type::Modify, e).await;
        assert!(got.0 == code && got.1.contains(wanted), "{got:?} lacks {wanted}");
    }
}

fn replica(port: &[u8], instance: u32) -> v1::Replica {
    v1::Replica { port_kind: Some(v1::replica::PortKind::Port(port.to_vec())), instance, backup_replicas: Vec::new() }
}

fn pre(t: v1::packet_replication_engine_entry::Type) -> E {
    E::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type: Some(t) })
}

#[tokio::test]
async fn multicast_groups_and_clone_sessions() {
    use v1::packet_replication_engine_entry::Type as T;
    let (net, mut c) = Net::ready().await;
    let group = |id: u32, replicas: Vec<v1::Replica>| {
        pre(T::MulticastGroupEntry(v1::MulticastGroupEntry {
            multicast_group_id: id,
            replicas,
            metadata: b"m".to_vec(),
        }))
    };
    let session = |id: u32, replicas: Vec<v1::Replica>, length: i32| {
        let s = v1::CloneSessionEntry { session_id: id, replicas, class_of_service: 0, packet_length_bytes: length };
        pre(T::CloneSessionEntry(s))
    };
    c.insert(table(route(&c, 1, action(&c, "copy", &[&[5]])))).await;
    c.insert(table(route(&c, 2, action(&c, "mirror", &[])))).await;
    let copied = ethernet(0x0100_0000_0000, 1, 1);
    assert!(net.frame(1, copied.clone()).await.is_empty(), "no such group");
    c.insert(group(5, vec![replica(&[2], 1), replica(&[3], 2)])).await;
    assert_eq!(net.frame(1, copied.clone()).await, [(2, copied.clone()), (3, copied.clone())]);
    c.modify(group(5, vec![replica(&[4], 1)])).await;
    assert_eq!(net.frame(1, copied.clone()).await, [(4, copied.clone())]);
    assert_eq!(c.read(group(0, vec![])).await, [group(5, vec![replica(&[4], 1)])]);
    c.write(Type::Delete, group(5, vec![])).await.unwrap();
    assert!(net.frame(1, copied).await.is_empty());
    let mirrored = ethernet(0x0200_0000_0000, 1, 1);
    c.insert(session(7, vec![replica(&[6], 1)], 10)).await;
    let sent = net.frame(1, mirrored.clone()).await;
    let clone = sent.iter().find(|(p, _)| *p == 6).expect("a clone");
    assert_eq!(clone.1, mirrored[..10]);
    assert_eq!(c.read(session(0, vec![], 0)).await, [session(7, vec![replica(&[6], 1)], 10)]);
    c.write(Type::Delete, session(7, vec![], 0)).await.unwrap();
    assert!(!net.frame(1, mirrored).await.iter().any(|(p, _)| *p == 6));
    let backup = v1::Replica { backup_replicas: vec![v1::BackupReplica::default()], ..replica(&[1], 1) };
    let cases = [
        (group(0, vec![]), Code::InvalidArgument, "multicast_group_id: 0 is not between"),
        (group(70_000, vec![]), Code::InvalidArgument, "multicast_group_id: 70000 is not between"),
        (
            group(1, vec![replica(&[1], 1), replica(&[0, 1], 1)]),
            Code::InvalidArgument,
            "replicas[1]: port 1 with instance 1 is there twice",
        ),
        (
            group(1, vec![replica(&[2, 0], 1)]),
            Code::InvalidArgument,
            "replicas[0].port: value 0x0200 does not fit 9 bits",
        ),
        (
            group(1, vec![replica(&[1], 70_000)]),
            Code::InvalidArgument,
            "replicas[0].instance: 70000 does not fit 16 bits",
        ),
        (group(1, vec![backup]), Code::Unimplemented, "backup_replicas"),
        (session(0, vec![], 0), Code::InvalidArgument, "session_id: 0 is not between"),
        (session(1, vec![], -1), Code::InvalidArgument, "packet_length_bytes: -1 is negative"),
    ];
    for (e, code, wanted) in cases {
        let got = c.refused(Type::Insert, e).await;
        assert!(got.0 == code && got.1.contains(wanted), "{got:?} lacks {wanted}");
    }
    assert_eq!(c.refused(Type::Modify, group(9, vec![])).await.0, Code::NotFound);
    assert_eq!(c.refused(Type::Delete, session(9, vec![], 0)).await.0, Code::NotFound);
}

#[tokio::test]
async fn value_sets() {
    let (net, mut c) = Net::ready().await;
    let value_set_id = c.id("specials");
    let set = |kinds: &[u16]| {
        let member = |k: &u16| v1::ValueSetMember { r#match: vec![exact(1, &k.to_be_bytes())] };
        E::ValueSetEntry(v1::ValueSetEntry { value_set_id, members: kinds.iter().map(member).collect() })
    };
    let frame = ethernet(1, 1, 0x1234);
    assert!(net.frame(1, frame.clone()).await.is_empty());
    c.modify(set(&[0x1234, 0x5678])).await;
    assert_eq!(net.frame(1, frame.clone()).await, [(9, frame.clone())]);
    assert_eq!(c.read(E::ValueSetEntry(v1::ValueSetEntry::default())).await, [set(&[0x1234, 0x5678])]);
    assert_eq!(c.refused(Type::Modify, set(&[1, 2, 3])).await.0, Code::ResourceExhausted);
    assert_eq!(c.refused(Type::Modify, set(&[1, 1])).await.0, Code::AlreadyExists);
    assert_eq!(c.refused(Type::Insert, set(&[1])).await.0, Code::InvalidArgument);
    c.modify(set(&[])).await;
    assert!(net.frame(1, frame).await.is_empty());
}
