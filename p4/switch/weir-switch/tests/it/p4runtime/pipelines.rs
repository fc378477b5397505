// SPDX-License-Identifier: Apache-2.0
//! Programs: verified, saved, committed, read back; fully in or not at all.
use super::net::*;
use tonic::Code;
use weir_p4::p4info::proto::P4Info;
use weir_switch::p4runtime::proto::p4::v1::{
    self as v1, entity::Entity as E, forwarding_pipeline_config::Cookie,
    get_forwarding_pipeline_config_request::ResponseType, set_forwarding_pipeline_config_request::Action,
    stream_message_response::Update as Tell,
};

fn config(text: &str) -> Option<v1::ForwardingPipelineConfig> {
    Some(v1::ForwardingPipelineConfig { p4_device_config: text.to_string().into(), ..Default::default() })
}

/// The program with another port for special frames, as its mark.
fn other() -> String {
    let text = PROGRAM.replace("s.egress_spec = 9;", "s.egress_spec = 8;");
    assert_ne!(text, PROGRAM);
    text
}

#[tokio::test]
async fn before_a_program_is_set() {
    let net = Net::start();
    let mut c = Controller::primary(&net, 1).await;
    assert_eq!(c.get(ResponseType::All).await, None);
    let entry = E::TableEntry(v1::TableEntry::default());
    assert_eq!(c.try_read(vec![entry.clone()]).await.unwrap_err().code(), Code::FailedPrecondition);
    assert_eq!(c.write(v1::update::Type::Insert, entry).await.unwrap_err().code(), Code::FailedPrecondition);
    let capabilities = c.client.capabilities(v1::CapabilitiesRequest { device_id: DEVICE }).await.unwrap();
    assert_eq!(capabilities.into_inner().p4runtime_api_version, "1.4.0");
    let unknown = c.client.capabilities(v1::CapabilitiesRequest { device_id: 1 }).await.unwrap_err();
    assert_eq!((unknown.code(), unknown.message()), (Code::NotFound, "device_id is 1, this switch is device 3"));
}

#[tokio::test]
async fn what_was_set_is_read_back_in_parts() {
    let net = Net::start();
    let mut c = Controller::primary(&net, 1).await;
    let cookie = Some(Cookie { cookie: 42 });
    let given = v1::ForwardingPipelineConfig { cookie, ..config(PROGRAM).unwrap() };
    c.set(Action::VerifyAndCommit, Some(given)).await.unwrap();
    let all = c.get(ResponseType::All).await.unwrap();
    assert_eq!((all.p4_device_config.as_ref(), all.cookie), (PROGRAM.as_bytes(), cookie));
    let p4info = all.p4info.clone().unwrap();
    assert!(p4info.tables.iter().any(|t| t.preamble.as_ref().unwrap().name == "I.route"));
    let cut = |p4info, config: bool| v1::ForwardingPipelineConfig {
        p4info,
        p4_device_config: if config { PROGRAM.into() } else { Default::default() },
        cookie,
    };
    assert_eq!(c.get(ResponseType::CookieOnly).await, Some(cut(None, false)));
    assert_eq!(c.get(ResponseType::P4infoAndCookie).await, Some(cut(Some(p4info.clone()), false)));
    assert_eq!(c.get(ResponseType::DeviceConfigAndCookie).await, Some(cut(None, true)));
    // Its own P4Info fits, and documentation may differ; anything else is named.
    let mut given = all.clone();
    given.p4info.as_mut().unwrap().pkg_info = None;
    c.set(Action::Verify, Some(given)).await.unwrap();
    type Change = fn(&mut weir_p4::p4info::proto::P4Info);
    let cases: [(Change, &str); 7] = [
        (|p| p.tables[0].match_fields[0].bitwidth = 32, "bitwidth of match field 1 of table I.route"),
        (
            |p| p.tables[0].preamble.as_mut().unwrap().name = "I.other".into(),
            "is I.other in it, I.route in the program",
        ),
        (|p| drop(p.counters.pop()), "of the program is missing from it"),
        (|p| p.registers[0].preamble.as_mut().unwrap().id = 0, "register I.words has no id"),
        (|p| p.registers[1].preamble = p.registers[0].preamble.clone(), "I.words and of another"),
        (|p| p.actions.iter_mut().flat_map(|a| &mut a.params).for_each(|x| x.id = 0), "has no id"),
        (
            |p| p.actions.iter_mut().flat_map(|a| &mut a.params).for_each(|x| x.bitwidth = 8),
            "bitwidth of parameter 1 of action I.",
        ),
    ];
    for (change, wanted) in cases {
        let mut given = all.clone();
        change(given.p4info.as_mut().unwrap());
        let status = c.set(Action::Verify, Some(given)).await.unwrap_err();
        assert!(
            status.code() == Code::InvalidArgument && status.message().contains(wanted),
            "{} lacks {wanted}",
            status.message()
        );
    }
}

#[tokio::test]
async fn a_bad_program_leaves_the_good_one_running() {
    let (net, mut c) = Net::ready().await;
    c.insert(E::TableEntry(route(&c, 0xaa, action(&c, "forward", &[&[2]])))).await;
    let cases = [
        ("control", "config.p4_device_config: the program does not compile:\nmain.p4:1:"),
        ("{\"header_types\": []}", "config.p4_device_config: the program does not load: has no `"),
        ("", "config.p4_device_config: is empty"),
        ("#include \"/etc/hostname\"\n", "is not found"),
    ];
    for (text, wanted) in cases {
        let status = c.set(Action::VerifyAndCommit, config(text)).await.unwrap_err();
        assert!(
            status.code() == Code::InvalidArgument && status.message().contains(wanted),
            "{} lacks {wanted}",
            status.message()
        );
        let frame = ethernet(0xaa00_0000_0000, 1, 1);
        assert_eq!(net.frame(1, frame.clone()).await, [(2, frame)]);
        assert_eq!(c.get(ResponseType::All).await.unwrap().p4_device_config.as_ref(), PROGRAM.as_bytes());
    }
    assert_eq!(c.set(Action::VerifyAndCommit, None).await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(c.set(Action::Unspecified, config(PROGRAM)).await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(c.set(Action::Commit, None).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(c.set(Action::Commit, config(PROGRAM)).await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_saved_program_is_written_to_before_it_runs() {
    let (net, mut c) = Net::ready().await;
    let frame = ethernet(0xaa00_0000_0000, 1, 1);
    c.insert(E::TableEntry(route(&c, 0xaa, action(&c, "forward", &[&[2]])))).await;
    c.set(Action::Verify, config(&other())).await.unwrap();
    c.set(Action::VerifyAndSave, config(&other())).await.unwrap();
    // Reads and writes refer to the saved one, packets to the other.
    let all = E::TableEntry(v1::TableEntry { table_id: c.id("route"), ..Default::default() });
    assert!(c.read(all.clone()).await.is_empty());
    c.insert(E::TableEntry(route(&c, 0xaa, action(&c, "forward", &[&[5]])))).await;
    assert_eq!(net.frame(1, frame.clone()).await, [(2, frame.clone())]);
    c.set(Action::Commit, None).await.unwrap();
    assert_eq!(net.frame(1, frame.clone()).await, [(5, frame)]);
    assert_eq!(c.read(all).await.len(), 1);
    assert_eq!(c.get(ResponseType::All).await.unwrap().p4_device_config, other());
    assert_eq!(c.set(Action::Commit, None).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn a_saved_program_has_the_same_random_numbers() {
    let text = PROGRAM.replace("acl.apply();", "random(h.ethernet.src, 0, 0xffffffffffff); acl.apply();");
    assert_ne!(text, PROGRAM);
    let mut frames = Vec::new();
    for save in [false, true] {
        let (net, mut c) = Net::ready().await;
        let first = if save { Action::VerifyAndSave } else { Action::VerifyAndCommit };
        c.set(first, config(&text)).await.unwrap();
        c.insert(E::TableEntry(route(&c, 0xaa, action(&c, "forward", &[&[2]])))).await;
        if save {
            c.set(Action::Commit, None).await.unwrap();
        }
        frames.push(net.frame(1, ethernet(0xaa00_0000_0000, 1, 1)).await);
    }
    assert_eq!(frames[0].len(), 1);
    assert_eq!(frames[0], frames[1]);
}

#[tokio::test]
async fn a_new_program_starts_fresh() {
    let (net, mut c) = Net::ready().await;
    c.insert(E::TableEntry(route(&c, 0xaa, action(&c, "forward", &[&[2]])))).await;
    c.set_program(&other()).await.unwrap();
    assert!(c.read(E::TableEntry(v1::TableEntry { table_id: c.id("route"), ..Default::default() })).await.is_empty());
    assert!(net.frame(1, ethernet(0xaa00_0000_0000, 1, 1)).await.is_empty());
}

/// Other ids for all that a P4Info has, as another compiler or a controller's author may choose them.
fn renumbered(p: &P4Info) -> P4Info {
    let mut p = p.clone();
    let other = |id: &mut u32| *id = if *id == 0 { 0 } else { *id & 0xff00_0000 | 0x1000 | (*id & 0xfff) };
    for t in &mut p.tables {
        t.match_fields.iter_mut().for_each(|f| f.id += 40);
        t.action_refs.iter_mut().for_each(|a| other(&mut a.id));
        if let Some(a) = &mut t.initial_default_action {
            other(&mut a.action_id);
            a.arguments.iter_mut().for_each(|x| x.param_id += 50);
        }
        other(&mut t.const_default_action_id);
        other(&mut t.implementation_id);
        t.direct_resource_ids.iter_mut().for_each(other);
    }
    p.actions.iter_mut().flat_map(|a| &mut a.params).for_each(|x| x.id += 50);
    p.action_profiles.iter_mut().flat_map(|x| &mut x.table_ids).for_each(other);
    p.direct_counters.iter_mut().for_each(|x| other(&mut x.direct_table_id));
    p.direct_meters.iter_mut().for_each(|x| other(&mut x.direct_table_id));
    p.controller_packet_metadata.iter_mut().flat_map(|x| &mut x.metadata).for_each(|x| x.id += 60);
    p.value_sets.iter_mut().flat_map(|x| &mut x.r#match).for_each(|x| x.id += 40);
    let preambles = (p.tables.iter_mut().map(|x| &mut x.preamble))
        .chain(p.actions.iter_mut().map(|x| &mut x.preamble))
        .chain(p.action_profiles.iter_mut().map(|x| &mut x.preamble))
        .chain(p.counters.iter_mut().map(|x| &mut x.preamble))
        .chain(p.direct_counters.iter_mut().map(|x| &mut x.preamble))
        .chain(p.meters.iter_mut().map(|x| &mut x.preamble))
        .chain(p.direct_meters.iter_mut().map(|x| &mut x.preamble))
        .chain(p.controller_packet_metadata.iter_mut().map(|x| &mut x.preamble))
        .chain(p.value_sets.iter_mut().map(|x| &mut x.preamble))
        .chain(p.registers.iter_mut().map(|x| &mut x.preamble))
        .chain(p.digests.iter_mut().map(|x| &mut x.preamble));
    preambles.flatten().for_each(|x| other(&mut x.id));
    p
}

#[tokio::test]
async fn a_p4info_with_ids_of_its_own_is_matched_by_name() {
    let (net, mut c) = Net::ready().await;
    let own = c.get(ResponseType::All).await.unwrap();
    let p4info = renumbered(own.p4info.as_ref().unwrap());
    let given = v1::ForwardingPipelineConfig { p4info: Some(p4info.clone()), ..own.clone() };
    c.set(Action::VerifyAndCommit, Some(given)).await.unwrap();
    assert_eq!(c.get(ResponseType::All).await.unwrap().p4info, Some(p4info.clone()));
    let before = std::mem::replace(&mut c.info, p4info.clone());
    // Tables, match fields, actions and parameters in writes and reads; the program's default action too.
    let mut e = route(&c, 0xaa, action(&c, "forward", &[&[2]]));
    e.r#match[0].field_id += 40;
    if let Some(v1::table_action::Type::Action(a)) = &mut e.action.as_mut().unwrap().r#type {
        a.params[0].param_id += 50;
    }
    assert_ne!(e.table_id, before.tables[0].preamble.as_ref().unwrap().id);
    c.insert(E::TableEntry(e.clone())).await;
    let frame = ethernet(0xaa00_0000_0000, 1, 1);
    assert_eq!(net.frame(1, frame.clone()).await, [(2, frame.clone())]);
    let all = v1::TableEntry { table_id: e.table_id, ..Default::default() };
    assert_eq!(c.read(E::TableEntry(all.clone())).await, [E::TableEntry(e.clone())]);
    let default = v1::TableEntry { is_default_action: true, ..all };
    let drops = v1::TableEntry { action: run(action(&c, "drop", &[])), ..default.clone() };
    assert_eq!(c.read(E::TableEntry(default)).await, [E::TableEntry(drops)]);
    // The old ids are nobody's.
    let old = before.tables[0].preamble.as_ref().unwrap().id;
    let status = c.try_read(vec![E::TableEntry(v1::TableEntry { table_id: old, ..Default::default() })]).await;
    assert_eq!(errors(&status.unwrap_err())[0].0, Code::NotFound);
    // Members of a profile, arrays, digests, value sets.
    let ids: Vec<u32> = p4info.registers.iter().map(|r| r.preamble.as_ref().unwrap().id).collect();
    let all = v1::RegisterEntry { index: Some(v1::Index { index: 0 }), ..Default::default() };
    for register_id in ids {
        let one = E::RegisterEntry(v1::RegisterEntry { register_id, ..all.clone() });
        assert!(matches!(&c.read(one).await[..], [E::RegisterEntry(r)] if r.register_id == register_id));
    }
    let (action_profile_id, member_id) = (c.id("paths"), 1);
    let mut forward = action(&c, "forward", &[&[5]]);
    forward.params[0].param_id += 50;
    let member = v1::ActionProfileMember { action_profile_id, member_id, action: Some(forward) };
    c.insert(E::ActionProfileMember(member.clone())).await;
    assert_eq!(
        c.read(E::ActionProfileMember(v1::ActionProfileMember { action: None, ..member.clone() })).await,
        [E::ActionProfileMember(member)]
    );
    // Packets to and from the controller.
    let mut to_cpu = route(&c, 0xbb, action(&c, "to_cpu", &[&[7]]));
    to_cpu.r#match[0].field_id += 40;
    if let Some(v1::table_action::Type::Action(a)) = &mut to_cpu.action.as_mut().unwrap().r#type {
        a.params[0].param_id += 50;
    }
    c.insert(E::TableEntry(to_cpu)).await;
    net.frame(1, ethernet(0xbb00_0000_0000, 1, 1)).await;
    match c.next().await {
        Tell::Packet(p) => {
            let ids: Vec<u32> = p.metadata.iter().map(|m| m.metadata_id).collect();
            assert_eq!(ids, [61, 62]);
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn bmv2_s_json_runs_with_a_controller_s_p4info() {
    const SOURCE: &str = include_str!("../../../../weir-p4/tests/bmv2/forward.p4");
    const JSON: &str = include_str!("../../../../weir-p4/tests/bmv2/forward.json");
    let net = Net::start();
    let mut c = Controller::primary(&net, 1).await;
    c.set(Action::VerifyAndCommit, config(SOURCE)).await.unwrap();
    let p4info = c.get(ResponseType::All).await.unwrap().p4info;
    let given = v1::ForwardingPipelineConfig { p4info: p4info.clone(), ..config(JSON).unwrap() };
    c.set(Action::VerifyAndCommit, Some(given.clone())).await.unwrap();
    let all = c.get(ResponseType::All).await.unwrap();
    assert_eq!((all.p4_device_config.as_ref(), &all.p4info), (JSON.as_bytes(), &p4info));
    // Without one the names give the same ids.
    c.set(Action::VerifyAndCommit, config(JSON)).await.unwrap();
    let own = c.get(ResponseType::All).await.unwrap().p4info.unwrap();
    let ids = |p: &P4Info| p.tables.iter().map(|t| t.preamble.as_ref().unwrap().id).collect::<Vec<_>>();
    assert_eq!(ids(&own), ids(p4info.as_ref().unwrap()));
    let mut wrong = given;
    wrong.p4info.as_mut().unwrap().tables[0].match_fields.clear();
    let status = c.set(Action::Verify, Some(wrong)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("config.p4info"), "{}", status.message());
}
