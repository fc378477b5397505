// SPDX-License-Identifier: Apache-2.0
//! The device by itself: frames and times in, frames and events out.
use super::*;
use crate::traffic_manager::{PortSettings, QueueSettings};

/// A program of one header of a byte and these bodies of ingress and egress.
fn program(ingress: &str, egress: &str) -> Arc<Program> {
    let text = format!(
        "#include <core.p4>
        #include <v1model.p4>
        header byte_t {{ bit<8> v; }}
        header queue_t {{ bit<32> enq; bit<32> delta; bit<32> depths; bit<48> arrived; bit<48> left; }}
        struct h_t {{ byte_t b; queue_t q; }}
        struct m_t {{ @field_list(1) bit<8> turns; }}
        parser P(packet_in p, out h_t h, inout m_t m, inout standard_metadata_t s) {{
            state start {{ p.extract(h.b); transition accept; }}
        }}
        control V(inout h_t h, inout m_t m) {{ apply {{ }} }}
        control I(inout h_t h, inout m_t m, inout standard_metadata_t s) {{ apply {{ {ingress} }} }}
        control E(inout h_t h, inout m_t m, inout standard_metadata_t s) {{ apply {{ {egress} }} }}
        control C(inout h_t h, inout m_t m) {{ apply {{ }} }}
        control D(packet_out p, in h_t h) {{ apply {{ p.emit(h); }} }}
        V1Switch(P(), V(), I(), E(), C(), D()) main;"
    );
    Arc::new(weir_p4::compile("test.p4", &text, &[]).unwrap_or_else(|e| panic!("{e}")))
}

fn device(ingress: &str, egress: &str) -> Device {
    let mut d = Device::new(Config { cpu_port: Some(64), priorities: 2, ..Config::default() });
    d.set_pipeline(program(ingress, egress));
    d
}

fn paced(d: &mut Device, rate_bps: u64) {
    d.traffic_manager.set(Some(2), &PortSettings { rate_bps, queues: vec![QueueSettings::default(); 2] }, 0);
}

#[test]
fn a_device_runs_native_code_or_interprets_as_it_is_configured() {
    for is_native in [true, false] {
        let mut d = Device::new(Config { is_native, ..Config::default() });
        d.set_pipeline(program("s.egress_spec = 2;", ""));
        assert_eq!(d.pipeline.is_some_and(|p| p.switch.native().is_ok()), is_native);
    }
}

#[test]
fn without_limits_a_frame_goes_through_at_once() {
    let mut d = device("s.egress_spec = 2;", "h.b.v = h.b.v + 1;");
    let mut out = Vec::new();
    d.arrive(&[1, 7, 7], 1, 0, &mut out);
    assert_eq!(out, [(2, vec![2, 7, 7])]);
    assert_eq!(d.poll(0, &mut out), None);
    let one = Count { packets: 1, bytes: 3 };
    assert_eq!(d.port_counters[&1], PortCounters { received: one, sent: Count::default() });
    assert_eq!(d.port_counters[&2], PortCounters { received: Count::default(), sent: one });
}

#[test]
fn what_a_frame_costs_grows_with_what_becomes_of_it() {
    let cost = |ingress: &str| {
        let mut d = device(ingress, "");
        d.arrive(&[1], 1, 0, &mut Vec::new());
        d.work()
    };
    let (dropped, sent) = (cost("mark_to_drop(s);"), cost("s.egress_spec = 2;"));
    assert!(dropped >= RECEIVE_STEPS && sent >= dropped + SEND_STEPS, "{dropped} steps, {sent} steps");
}

#[test]
fn a_queue_s_delay_reaches_the_program_in_microseconds() {
    let fill = "h.q.setValid(); h.q.enq = s.enq_timestamp; h.q.delta = s.deq_timedelta; \
         h.q.depths = (bit<32>)s.enq_qdepth << 16 | (bit<32>)s.deq_qdepth; \
         h.q.arrived = s.ingress_global_timestamp; h.q.left = s.egress_global_timestamp;";
    let mut d = device("s.egress_spec = 2;", fill);
    // A byte a millisecond.
    paced(&mut d, 8_000);
    let mut out = Vec::new();
    for at_us in [0, 10, 20] {
        d.arrive(&[at_us as u8], 1, at_us * 1000, &mut out);
    }
    assert_eq!(out.len(), 1);
    let mut next = d.poll(30_000, &mut out);
    while let Some(at) = next {
        next = d.poll(at, &mut out);
    }
    let word = |b: &[u8], at: usize, n: usize| b[at..at + n].iter().fold(0u64, |v, x| v << 8 | u64::from(*x));
    let seen = |b: &[u8]| [word(b, 1, 4), word(b, 5, 4), word(b, 9, 4), word(b, 13, 6), word(b, 19, 6)];
    let seen: Vec<_> = out.iter().map(|(_, b)| seen(b)).collect();
    let want = [[0, 0, 0, 0, 0], [10, 990, 1, 10, 1000], [20, 1980, 1 << 16, 20, 2000]];
    assert_eq!(seen, want, "enqueued at, waited, depths, arrived, left");
}

#[test]
fn higher_priorities_leave_first() {
    let mut d = device("s.egress_spec = 2; s.priority = (bit<3>)h.b.v;", "");
    paced(&mut d, 8_000);
    let mut out = Vec::new();
    for v in [0, 0, 1, 2] {
        d.arrive(&[v], 1, 0, &mut out);
    }
    while let Some(at) = d.poll(d.now_ns(), &mut out).filter(|_| out.len() < 3) {
        d.tick(at);
    }
    assert_eq!(out.iter().map(|(_, b)| b[0]).collect::<Vec<_>>(), [0, 1, 0]);
    // There is no priority 2.
    assert_eq!(d.traffic_manager.stats().map(|(_, _, bad)| bad).sum::<u64>(), 1);
}

#[test]
fn a_new_program_starts_afresh_and_what_waited_is_counted() {
    let mut d = device("s.egress_spec = 2;", "");
    paced(&mut d, 8_000);
    let mut out = Vec::new();
    for _ in 0..3 {
        d.arrive(&[1], 1, 0, &mut out);
    }
    assert_eq!(d.set_pipeline(program("s.egress_spec = 3;", "")), 2);
    d.arrive(&[5], 1, 0, &mut out);
    assert_eq!(d.poll(10_000_000, &mut out), None);
    assert_eq!(out, [(2, vec![1]), (3, vec![5])]);
    assert_eq!(d.drops, Drops { swap: 2, ..Drops::default() });
    assert_eq!(
        d.traffic_manager.settings(Some(2)).rate_bps,
        8_000,
        "limits of queues are the operator's, not the program's"
    );
}

#[test]
fn frames_to_and_from_controllers_use_the_cpu_port() {
    let mut d = device("s.egress_spec = s.ingress_port == 64 ? (bit<9>)2 : 64;", "");
    let mut events = d.subscribe();
    let mut out = Vec::new();
    d.arrive(&[1], 1, 0, &mut out);
    assert!(out.is_empty());
    let Ok(Event::PacketIn { generation: 1, bytes }) = events.try_recv() else { panic!("no packet-in") };
    assert_eq!(bytes, [1]);
    d.inject(vec![9]);
    d.poll(0, &mut out);
    assert_eq!(out, [(2, vec![9])]);
}

#[test]
fn events_that_nobody_takes_are_counted() {
    let mut d = device("s.egress_spec = 64;", "");
    let events = d.subscribe();
    for _ in 0..EVENTS + 3 {
        d.arrive(&[1], 1, 0, &mut Vec::new());
    }
    assert_eq!((events.len(), d.events_lost), (EVENTS, 3));
}

#[test]
fn ports_are_reported_when_they_change() {
    let mut d = Device::new(Config::default());
    let mut events = d.subscribe();
    for up in [true, true, false] {
        d.port_status(1, up);
    }
    let seen = std::iter::from_fn(|| events.try_recv().ok());
    let seen: Vec<_> = seen.map(|e| matches!(e, Event::PortStatus { port: 1, up: true })).collect();
    assert_eq!(seen, [true, false]);
}

#[test]
fn without_a_program_frames_are_dropped_and_counted() {
    let mut d = Device::new(Config::default());
    d.arrive(&[1], 1, 0, &mut Vec::new());
    assert_eq!(d.drops, Drops { no_pipeline: 1, ..Drops::default() });
}

#[test]
fn a_program_that_resubmits_forever_lets_others_have_their_turn() {
    let mut d = device("if (h.b.v == 0) { resubmit_preserving_field_list(1); } else { s.egress_spec = 2; }", "");
    let mut out = Vec::new();
    d.arrive(&[0], 1, 0, &mut out);
    d.arrive(&[1], 1, 5, &mut out);
    assert_eq!(out, [(2, vec![1])]);
    assert_eq!(d.poll(9, &mut out), Some(9), "wants to go on at once");
}

/// Functions of which each calls the one before twice; `f{levels}` takes 2^levels steps and more.
fn doubling(levels: usize) -> Arc<Program> {
    let mut text = String::from("bit<32> f0(in bit<32> x) { return x + 1; }\n");
    for i in 1..=levels {
        text += &format!("bit<32> f{i}(in bit<32> x) {{ return f{0}(f{0}(x)); }}\n", i - 1);
    }
    let program = format!(
        "#include <core.p4>
        #include <v1model.p4>
        {text}
        header byte_t {{ bit<8> v; }}
        struct h_t {{ byte_t b; }}
        struct m_t {{ bit<32> sum; }}
        parser P(packet_in p, out h_t h, inout m_t m, inout standard_metadata_t s) {{
            state start {{ p.extract(h.b); transition accept; }}
        }}
        control V(inout h_t h, inout m_t m) {{ apply {{ }} }}
        control I(inout h_t h, inout m_t m, inout standard_metadata_t s) {{
            apply {{ if (h.b.v == 0) {{ m.sum = f{levels}(0); }} s.egress_spec = 2; }}
        }}
        control E(inout h_t h, inout m_t m, inout standard_metadata_t s) {{ apply {{ }} }}
        control C(inout h_t h, inout m_t m) {{ apply {{ }} }}
        control D(packet_out p, in h_t h) {{ apply {{ p.emit(h); }} }}
        V1Switch(P(), V(), I(), E(), C(), D()) main;"
    );
    Arc::new(weir_p4::compile("doubling.p4", &program, &[]).unwrap_or_else(|e| panic!("{e}")))
}

#[test]
fn a_packet_has_so_many_steps_and_is_dropped_and_counted_when_it_wants_more() {
    let mut d = Device::new(Config::default());
    // Would take hours.
    d.set_pipeline(doubling(40));
    let mut out = Vec::new();
    d.arrive(&[0], 1, 0, &mut out);
    assert_eq!((out.len(), d.drops.faults, d.drops.ingress), (0, 1, 1));
    d.poll(1, &mut out);
    d.arrive(&[1], 1, 2, &mut out);
    assert_eq!(out, [(2, vec![1])], "the next one is as if nothing had been");
    // A few thousand steps are nothing.
    d.set_pipeline(doubling(10));
    d.arrive(&[0], 1, 3, &mut out);
    assert_eq!((out.len(), d.drops.faults), (2, 1));
}

#[test]
fn packets_together_have_so_many_steps_in_a_turn() {
    let mut d = Device::new(Config::default());
    d.set_pipeline(doubling(40));
    let mut out = Vec::new();
    let mut taken = 0;
    while !d.is_tired() {
        d.arrive(&[0], 1, 0, &mut out);
        taken += 1;
    }
    assert!(taken < 64, "{taken} packets");
    d.poll(1, &mut out);
    assert!(!d.is_tired(), "a new turn");
    d.set_pipeline(program("s.egress_spec = 2;", ""));
    (0..64).for_each(|i| d.arrive(&[1], 1, i, &mut out));
    assert!(!d.is_tired(), "small ones are not held up");
}

#[test]
fn controllers_packets_that_a_program_is_slow_with_are_bounded_and_let_others_leave() {
    let mut d = Device::new(Config { cpu_port: Some(64), ..Config::default() });
    d.set_pipeline(doubling(40));
    d.traffic_manager.set(Some(2), &PortSettings { rate_bps: 8_000, queues: vec![QueueSettings::default()] }, 0);
    let mut out = Vec::new();
    // The first leaves at once, the second a millisecond later.
    d.arrive(&[1], 1, 0, &mut out);
    d.arrive(&[2], 1, 0, &mut out);
    for _ in 0..INJECTED_PACKETS + 3 {
        d.inject(vec![0]);
    }
    assert_eq!((d.injected.len(), d.drops.injected), (INJECTED_PACKETS, 3));
    assert_eq!(d.poll(1_000_000, &mut out), Some(1_000_000), "more of them wait");
    assert!(!d.injected.is_empty());
    assert_eq!(out, [(2, vec![1]), (2, vec![2])]);
}

#[test]
fn copies_that_feed_on_themselves_are_bounded() {
    // Every packet that leaves port 2 is cloned to port 2 again.
    let mut d = device("s.egress_spec = 2;", "clone(CloneType.E2E, 5);");
    let mirror = weir_p4::exec::Mirror { port: Some(2), ..Default::default() };
    d.pipeline.as_mut().unwrap().switch.state.mirrors.insert(5, mirror);
    let mut out = Vec::new();
    d.arrive(&[0], 1, 0, &mut out);
    assert_eq!(out.len(), PASSES);
    assert_eq!(d.poll(1, &mut out), Some(1), "the next copy is due");
}
