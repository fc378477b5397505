// SPDX-License-Identifier: Apache-2.0
//! Idle timeouts of entries (9.1.7), and their notifications.
use super::net::*;
use tonic::Code;
use weir_switch::p4runtime::proto::p4::v1::{
    self as v1, entity::Entity as E, set_forwarding_pipeline_config_request::Action,
    stream_message_response::Update as Tell, table_entry::IdleTimeout, update::Type, write_request::Atomicity,
};

const S: i64 = 1_000_000_000;

fn program() -> String {
    PROGRAM.replace("counters = route_hits;", "counters = route_hits; support_timeout = true;")
}

async fn ready() -> (Net, Controller) {
    let net = Net::start();
    let mut c = Controller::primary(&net, 1).await;
    c.set_program(&program()).await.unwrap();
    (net, c)
}

/// An entry with an idle timeout.
fn idle(c: &Controller, top: u8, idle_timeout_ns: i64) -> v1::TableEntry {
    v1::TableEntry { idle_timeout_ns, ..route(c, top, action(c, "forward", &[&[2]])) }
}

async fn notification(c: &mut Controller) -> Vec<v1::TableEntry> {
    match c.next().await {
        Tell::IdleTimeoutNotification(n) => {
            assert!(n.timestamp > 0);
            n.table_entry
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn primaries_are_notified_of_idle_entries_until_they_are_hit_or_deleted() {
    let (net, mut c) = ready().await;
    let mut backup = Controller::open(&net, "", Some(0)).await;
    assert_ne!(backup.status().await, Code::Ok as i32);
    let mut first = idle(&c, 1, 1);
    first.controller_metadata = 77;
    first.metadata = b"mine".to_vec();
    let (second, later, never) = (idle(&c, 2, S / 1000), idle(&c, 3, 3600 * S), idle(&c, 4, 0));
    let all = [&first, &second, &later, &never].map(|e| update(Type::Insert, E::TableEntry(e.clone())));
    c.write_with(all.into(), Atomicity::ContinueOnError).await.unwrap();
    // Of one table, at about one time: one message, with the keys and the controllers' part.
    let key = |e: &v1::TableEntry| v1::TableEntry { action: None, ..e.clone() };
    assert_eq!(notification(&mut c).await, [key(&first), key(&second)]);
    // The timeout has begun again (16.4).
    assert_eq!(notification(&mut c).await, [key(&first), key(&second)]);
    c.modify(E::TableEntry(v1::TableEntry { idle_timeout_ns: 0, ..first })).await;
    // One notification may have been on its way.
    while notification(&mut c).await != [key(&second)] {}
    c.write(Type::Delete, E::TableEntry(second)).await.unwrap();
    // The backup has got none of them: the next message is the answer to its message.
    backup.to.send(v1::StreamMessageRequest { update: None }).await.unwrap();
    assert!(matches!(backup.next().await, Tell::Error(_)));
}

#[tokio::test]
async fn entries_of_a_saved_program_age_from_its_commit() {
    let (net, mut c) = ready().await;
    let config = v1::ForwardingPipelineConfig { p4_device_config: program().into_bytes().into(), ..Default::default() };
    c.set(Action::VerifyAndSave, Some(config)).await.unwrap();
    c.insert(E::TableEntry(idle(&c, 1, 1))).await;
    let late = idle(&c, 2, 0);
    c.insert(E::TableEntry(late.clone())).await;
    net.pass(3600 * S as u64).await;
    c.set(Action::Commit, None).await.unwrap();
    assert_eq!(elapsed(&mut c, &late).await, Some(0));
    net.pass(S as u64).await;
    assert_eq!(notification(&mut c).await.len(), 1);
}

/// Time since an entry's last match, read with the entry.
async fn elapsed(c: &mut Controller, e: &v1::TableEntry) -> Option<i64> {
    let ask = v1::TableEntry { action: None, time_since_last_hit: Some(IdleTimeout::default()), ..e.clone() };
    match &c.read(E::TableEntry(ask)).await[..] {
        [E::TableEntry(e)] => e.time_since_last_hit.map(|t| t.elapsed_ns),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_read_has_the_timeout_and_where_asked_the_time_since_the_last_hit() {
    let (net, mut c) = ready().await;
    // The device's clock stands still between the steps of the test.
    net.pass(3600 * S as u64).await;
    let (aging, ageless) = (idle(&c, 0xaa, 3600 * S), idle(&c, 0xbb, 0));
    c.insert(E::TableEntry(aging.clone())).await;
    c.insert(E::TableEntry(ageless.clone())).await;
    let ask = v1::TableEntry { action: None, ..aging.clone() };
    assert_eq!(c.read(E::TableEntry(ask)).await, [E::TableEntry(aging.clone())]);
    net.pass(3 * S as u64).await;
    assert_eq!((elapsed(&mut c, &aging).await, elapsed(&mut c, &ageless).await), (Some(3 * S), Some(3 * S)));
    net.frame(1, ethernet(0xbb00_0000_0000, 1, 0x800)).await;
    net.pass(2 * S as u64).await;
    assert_eq!((elapsed(&mut c, &aging).await, elapsed(&mut c, &ageless).await), (Some(5 * S), Some(2 * S)));
    // As in BMv2 the same timeout goes on, another one begins anew.
    c.modify(E::TableEntry(aging.clone())).await;
    assert_eq!(elapsed(&mut c, &aging).await, Some(5 * S));
    // A batch that is taken back changes nothing.
    let other = v1::TableEntry { idle_timeout_ns: 60 * S, ..aging.clone() };
    let wrong = v1::TableEntry { idle_timeout_ns: -1, ..aging.clone() };
    let batch = [&other, &wrong].map(|e| update(Type::Modify, E::TableEntry(e.clone())));
    c.write_with(batch.into(), Atomicity::RollbackOnError).await.unwrap_err();
    assert_eq!(elapsed(&mut c, &aging).await, Some(5 * S));
    c.modify(E::TableEntry(other.clone())).await;
    assert_eq!(elapsed(&mut c, &other).await, Some(0));
    // A wildcard has the time where there is one.
    let all = v1::TableEntry { time_since_last_hit: Some(IdleTimeout::default()), ..Default::default() };
    for e in c.read(E::TableEntry(all)).await {
        let E::TableEntry(e) = e else { panic!("{e:?}") };
        assert_eq!(e.time_since_last_hit.is_some(), e.table_id == aging.table_id);
    }
}

#[tokio::test]
async fn idle_fields_where_they_must_not_be() {
    let (_net, mut c) = ready().await;
    let asked = Some(IdleTimeout::default());
    let bare = |name: &str, is_default_action| v1::TableEntry {
        table_id: c.id(name),
        is_default_action,
        ..Default::default()
    };
    // Another table without support; the default entry of one with it.
    for bad in [bare("acl", false), bare("acl", true), bare("route", true)] {
        let timed = v1::TableEntry { idle_timeout_ns: S, ..bad.clone() };
        let hit = v1::TableEntry { time_since_last_hit: asked, ..bad };
        for e in [timed, hit] {
            let status = c.try_read(vec![E::TableEntry(e.clone())]).await.unwrap_err();
            assert_eq!(errors(&status)[0].0, Code::InvalidArgument, "{e:?}");
            assert_eq!(c.refused(Type::Modify, E::TableEntry(e)).await.0, Code::InvalidArgument);
        }
    }
    let hit = v1::TableEntry { time_since_last_hit: asked, ..idle(&c, 1, S) };
    for e in [idle(&c, 1, -1), hit] {
        assert_eq!(c.refused(Type::Insert, E::TableEntry(e)).await.0, Code::InvalidArgument);
    }
}
