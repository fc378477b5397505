// SPDX-License-Identifier: Apache-2.0
//! The switch as a pure thing: frames and time in, frames and events out. No sockets, no clock.
use crate::tm::{Count, NS_PER_S, TrafficManager};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::sync::mpsc;
use tracing::{info, warn};
use weir_p4::bytecode::program::Program;
use weir_p4::exec::DigestData;
use weir_p4::v1model::{Arriving, DROP_PORT, EgressOut, IngressOut, Notes, Queued, Switch};

/// Events that wait for controllers at most.
pub const EVENTS: usize = 4096;

/// Packets that wait to be parsed again at most, as in simple_switch.
const AGAIN_PACKETS: usize = 1024;

/// Packets from controllers that wait for their turn at most.
const INJECTED_PACKETS: usize = 1024;

/// Passes through ingress or egress in one call at most: a program that resubmits forever must not keep the others
/// (frames that arrive, controllers) waiting.
const PASSES: usize = 256;

/// Steps of the program in one turn, between two looks at everything else: some milliseconds, and the packet that is
/// being run.
const TURN_STEPS: u64 = 4_000_000;

/// Packets that a program failed on, of which the log speaks.
const FAULTS_SAID: u64 = 10;

/// Device to controllers.
#[derive(Debug)]
pub enum Event {
    Digest {
        generation: u64,
        at_ns: u64,
        data: DigestData,
    },
    /// A frame sent to the CPU port, as deparsed (with its controller header in front, if the program has one).
    PacketIn {
        generation: u64,
        bytes: Vec<u8>,
    },
    PortStatus {
        port: u32,
        up: bool,
    },
}

/// Where frames go.
pub trait Sink {
    fn frame(&mut self, port: u32, bytes: &[u8]);
}

impl Sink for Vec<(u32, Vec<u8>)> {
    fn frame(&mut self, port: u32, bytes: &[u8]) {
        self.push((port, bytes.to_vec()));
    }
}

pub struct Pipeline {
    pub switch: Switch,
    pub generation: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    pub received: Count,
    pub sent: Count,
}

/// Packets that went no further, by reason. Tail drops are counted with the queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// No program was there.
    pub no_pipeline: u64,
    /// The program dropped them, or failed on them.
    pub ingress: u64,
    pub egress: u64,
    /// Queued under a program that was replaced.
    pub swap: u64,
    /// Resubmitted or recirculated while 1024 already waited.
    pub again: u64,
    /// Sent by controllers while 1024 already waited.
    pub injected: u64,
    /// The program failed on them; counted with `ingress` or `egress` too.
    pub faults: u64,
}

#[derive(Clone, Debug)]
pub struct Config {
    pub priorities: usize,
    pub cpu_port: Option<u32>,
    pub drop_port: u32,
    /// Starts the programs' `random`.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Config { priorities: 1, cpu_port: None, drop_port: DROP_PORT, seed: 1 }
    }
}

pub struct Device {
    pub pipeline: Option<Pipeline>,
    pub tm: TrafficManager<Queued>,
    pub cpu_port: Option<u32>,
    pub drop_port: u32,
    pub drops: Drops,
    pub events_lost: u64,
    pub port_counters: BTreeMap<u32, PortCounters>,
    /// Ports that are up, as the I/O last said.
    pub ports_up: BTreeMap<u32, bool>,
    events: Option<mpsc::Sender<Event>>,
    again: VecDeque<Arriving>,
    injected: VecDeque<Vec<u8>>,
    notes: Notes,
    after_ingress: IngressOut,
    after_egress: EgressOut,
    seed: u64,
    generation: u64,
    now_ns: u64,
    /// Steps since the turn began.
    spent: u64,
}

impl Device {
    pub fn new(config: Config) -> Device {
        Device {
            pipeline: None,
            tm: TrafficManager::new(config.priorities),
            cpu_port: config.cpu_port,
            drop_port: config.drop_port,
            drops: Drops::default(),
            events_lost: 0,
            port_counters: BTreeMap::new(),
            ports_up: BTreeMap::new(),
            events: None,
            again: VecDeque::new(),
            injected: VecDeque::new(),
            notes: Notes::default(),
            after_ingress: IngressOut::default(),
            after_egress: EgressOut::default(),
            seed: config.seed,
            generation: 0,
            now_ns: 0,
            spent: 0,
        }
    }

    /// Starts the programs' `random`.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Whether packets have had their share of this turn, which [`Device::poll`] ends.
    pub fn is_tired(&self) -> bool {
        self.spent >= TURN_STEPS
    }

    /// Opens the road to controllers: at most [`EVENTS`] wait, what does not fit is counted in `events_lost`.
    pub fn subscribe(&mut self) -> mpsc::Receiver<Event> {
        let (sender, receiver) = mpsc::channel(EVENTS);
        self.events = Some(sender);
        receiver
    }

    fn event(&mut self, event: Event) {
        if let Some(events) = &self.events
            && events.try_send(event).is_err()
        {
            self.events_lost += 1;
        }
    }

    /// Tells the device what time it is, in nanoseconds since it started.
    pub fn tick(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
    }

    /// Nanoseconds since the start, as of the last packet or tick.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Microseconds since the start, as of the last packet or tick.
    pub fn now_us(&self) -> u64 {
        self.now_ns / (NS_PER_S / 1_000_000)
    }

    /// Replaces the running program as a whole; tables, registers and queues start fresh. Gives its generation.
    pub fn set_pipeline(&mut self, program: Arc<Program>) -> u64 {
        let switch = Switch::new(program, self.seed);
        self.install(switch).0
    }

    /// As [`Device::set_pipeline`], for a switch that was made elsewhere: that may take long, and so may getting rid of
    /// the one that is given back.
    pub fn install(&mut self, mut switch: Switch) -> (u64, Option<Pipeline>) {
        self.generation += 1;
        self.drops.swap += self.tm.purge() + self.again.len() as u64;
        self.again.clear();
        switch.drop_port = self.drop_port;
        let old = self.pipeline.replace(Pipeline { switch, generation: self.generation });
        (self.generation, old)
    }

    /// A port came up or went down.
    pub fn port_status(&mut self, port: u32, up: bool) {
        if self.ports_up.insert(port, up) != Some(up) {
            self.event(Event::PortStatus { port, up });
        }
    }

    /// A frame came in on `port`.
    pub fn arrive(&mut self, bytes: &[u8], port: u32, now_ns: u64, out: &mut dyn Sink) {
        self.tick(now_ns);
        self.port_counters.entry(port).or_default().received.add(bytes.len() as u64);
        let Some(pipeline) = &mut self.pipeline else {
            self.drops.no_pipeline += 1;
            return;
        };
        let packet = pipeline.switch.packet(bytes);
        self.ingress(Arriving::new(packet, port));
        self.run(out);
    }

    /// A frame from a controller, as if it had come in on the CPU port.
    pub fn packet_out(&mut self, bytes: &[u8], now_ns: u64, out: &mut dyn Sink) {
        self.arrive(bytes, self.cpu_port.unwrap_or(0), now_ns, out);
    }

    /// Keeps a frame from a controller for the next [`Device::poll`], for jobs, which have no sink. When so many wait
    /// already that a program takes too long over them, it is dropped and counted.
    pub fn inject(&mut self, bytes: Vec<u8>) {
        if self.injected.len() < INJECTED_PACKETS {
            self.injected.push_back(bytes);
        } else {
            self.drops.injected += 1;
        }
    }

    /// Lets out what is due; gives the time at which it wants to be called again.
    pub fn poll(&mut self, now_ns: u64, out: &mut dyn Sink) -> Option<u64> {
        self.tick(now_ns);
        // What came in has had its share; what controllers send and what is queued have their own.
        self.spent = 0;
        while let Some(bytes) = if self.is_tired() { None } else { self.injected.pop_front() } {
            self.packet_out(&bytes, now_ns, out);
        }
        self.spent = 0;
        self.run(out);
        self.spent = 0;
        if self.again.is_empty() && self.injected.is_empty() { self.tm.next_ns() } else { Some(self.now_ns) }
    }

    fn ingress(&mut self, arriving: Arriving) {
        let now_us = self.now_us();
        let Some(pipeline) = &mut self.pipeline else { return };
        pipeline.switch.ingress(arriving, now_us, &mut self.notes, &mut self.after_ingress);
        self.spent += pipeline.switch.spent();
        for q in self.after_ingress.queued.drain(..) {
            Self::enqueue(&mut self.tm, &mut pipeline.switch, q, self.now_ns);
        }
        if let Some(a) = self.after_ingress.again.take() {
            self.again(a);
        }
        self.take_notes();
    }

    fn enqueue(tm: &mut TrafficManager<Queued>, switch: &mut Switch, q: Queued, now_ns: u64) {
        let (port, priority, length) = (q.port, usize::from(q.priority), u64::from(q.length));
        // The traffic manager has counted what it refuses.
        if let Err((_, refused)) = tm.enqueue(port, priority, length, q, now_ns) {
            switch.discard(refused);
        }
    }

    fn again(&mut self, a: Arriving) {
        if self.again.len() < AGAIN_PACKETS {
            self.again.push_back(a);
        } else {
            self.drops.again += 1;
        }
    }

    /// Egress for what is due, then what is to be parsed again, until nothing is left or others had to wait enough.
    fn run(&mut self, out: &mut dyn Sink) {
        for _ in 0..PASSES {
            if self.is_tired() {
                return;
            }
            if let Some(departure) = self.tm.dequeue(self.now_ns) {
                let mut q = departure.item;
                q.enq_us = departure.enq_ns / 1000;
                q.enq_qdepth = departure.enq_qdepth;
                q.deq_us = self.now_us();
                q.deq_qdepth = departure.deq_qdepth;
                self.egress(q, out);
            } else if let Some(arriving) = self.again.pop_front() {
                self.ingress(arriving);
            } else {
                return;
            }
        }
    }

    fn egress(&mut self, q: Queued, out: &mut dyn Sink) {
        let now_us = self.now_us();
        let Some(pipeline) = &mut self.pipeline else { return };
        pipeline.switch.egress(q, now_us, &mut self.notes, &mut self.after_egress);
        self.spent += pipeline.switch.spent();
        for q in self.after_egress.clones.drain(..) {
            Self::enqueue(&mut self.tm, &mut pipeline.switch, q, self.now_ns);
        }
        let sent = self.after_egress.sent.take();
        if let Some(sent) = &sent {
            self.port_counters.entry(sent.port).or_default().sent.add(sent.packet.len() as u64);
            if Some(sent.port) != self.cpu_port {
                out.frame(sent.port, &sent.packet);
            }
        }
        let to_controllers = sent.and_then(|sent| {
            let wanted = Some(sent.port) == self.cpu_port;
            let bytes = wanted.then(|| sent.packet.to_vec());
            pipeline.switch.recycle(sent.packet);
            bytes
        });
        if let Some(bytes) = to_controllers {
            self.event(Event::PacketIn { generation: self.generation, bytes });
        }
        if let Some(a) = self.after_egress.again.take() {
            self.again(a);
        }
        self.take_notes();
    }

    fn take_notes(&mut self) {
        self.drops.ingress += u64::from(std::mem::take(&mut self.notes.ingress_drops));
        self.drops.egress += u64::from(std::mem::take(&mut self.notes.egress_drops));
        let at_ns = self.now_ns;
        // `take` leaves an empty list, which costs nothing: most packets have no digest.
        for data in std::mem::take(&mut self.notes.digests) {
            self.event(Event::Digest { generation: self.generation, at_ns, data });
        }
        for line in self.notes.log.drain(..) {
            info!(target: "log_msg", "{line}");
        }
        for fault in self.notes.faults.drain(..) {
            self.drops.faults += 1;
            // A program that fails on one packet may fail on every one.
            if self.drops.faults <= FAULTS_SAID {
                let last = if self.drops.faults == FAULTS_SAID { "; further ones are only counted" } else { "" };
                warn!("packet dropped: {fault}{last}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tm::{PortSettings, QueueSettings};

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
        d.tm.set(Some(2), &PortSettings { rate_bps, queues: vec![QueueSettings::default(); 2] }, 0);
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
        assert_eq!(d.tm.stats().map(|(_, _, bad)| bad).sum::<u64>(), 1);
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
        assert_eq!(d.tm.settings(Some(2)).rate_bps, 8_000, "limits of queues are the operator's, not the program's");
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
        d.tm.set(Some(2), &PortSettings { rate_bps: 8_000, queues: vec![QueueSettings::default()] }, 0);
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
}
