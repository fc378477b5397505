// SPDX-License-Identifier: Apache-2.0
//! The switch as a pure thing: frames and time in, frames and events out. No sockets, no clock.
use crate::trace::TraceSender;
use crate::traffic_manager::{Count, NS_PER_S, Refused, TrafficManager};
use flow_hash::flow_hash;
use std::collections::{BTreeMap, VecDeque};
use std::hash::RandomState;
use std::sync::Arc;
use tokio::sync::mpsc;
use tracing::{info, warn};
use weir_p4::bytecode::program::Program;
use weir_p4::exec::DigestData;
use weir_p4::v1model::{Arriving, DROP_PORT, EgressOut, IngressOut, Notes, Queued, Switch};

mod flow_hash;

/// Events that wait for controllers at most.
pub const EVENTS: usize = 4096;

/// Packets that wait to be parsed again at most, as in simple_switch.
const AGAIN_PACKETS: usize = 1024;

/// Packets from controllers that wait for their turn at most.
const INJECTED_PACKETS: usize = 1024;

/// Passes through ingress or egress in one call at most: a program that resubmits forever must not keep the others
/// (frames that arrive, controllers) waiting.
const PASSES: usize = 256;

/// Steps of the program in one iteration, between two checks of everything else: some milliseconds, and the packet that
/// is being run.
const TURN_STEPS: u64 = 4_000_000;

/// Cost of a received frame beside its program, in steps, and of each sent frame. A step is about a nanosecond; rings
/// and system calls take 70 % of the time of a frame that a small program forwards.
const RECEIVE_STEPS: u64 = 400;
const SEND_STEPS: u64 = 1500;

/// Packets that a program failed on, of which the log speaks.
const FAULTS_SAID: u64 = 10;

/// Device to controllers.
#[derive(Debug)]
pub enum Event {
    /// A digest of the program.
    Digest {
        /// The program that sent it, as [`Device::set_pipeline`] numbers them.
        generation: u64,
        /// Nanoseconds since the start.
        at_ns: u64,
        /// The digest's index, and its values.
        data: DigestData,
    },
    /// A frame sent to the CPU port, as deparsed (with its controller header in front, if the program has one).
    PacketIn {
        /// The program that sent it.
        generation: u64,
        /// The frame.
        bytes: Vec<u8>,
    },
    /// A port has come up or gone down.
    PortStatus {
        /// Its number.
        port: u32,
        /// Whether it is up now.
        up: bool,
    },
}

/// Where frames go.
pub trait Sink {
    /// A frame leaves by `port`. False: the port takes no more until [`Device::release`].
    fn frame(&mut self, port: u32, bytes: &[u8]) -> bool;

    /// Reason for which `port` takes no frames, for traces, as `is down`.
    fn refusal(&self, _port: u32) -> Option<&'static str> {
        None
    }
}

impl Sink for Vec<(u32, Vec<u8>)> {
    fn frame(&mut self, port: u32, bytes: &[u8]) -> bool {
        self.push((port, bytes.to_vec()));
        true
    }
}

/// The program that runs.
pub struct Pipeline {
    /// The program, its tables and its state.
    pub switch: Switch,
    /// Counts the programs that this device has had.
    pub generation: u64,
}

/// Packets and bytes of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Given to the program.
    pub received: Count,
    /// Given to the [`Sink`], or to controllers.
    pub sent: Count,
}

/// Packets that went no further, by reason. Tail drops are counted with the queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// No program was there.
    pub no_pipeline: u64,
    /// The program dropped them, or failed on them.
    pub ingress: u64,
    /// Dropped in egress, likewise.
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

/// Configuration of a device.
#[derive(Clone, Debug)]
pub struct Config {
    /// Queues of each port.
    pub priorities: usize,
    /// The port whose packets go to controllers, and come from them.
    pub cpu_port: Option<u32>,
    /// The egress port that means that a packet is dropped.
    pub drop_port: u32,
    /// Starts the programs' `random`.
    pub seed: u64,
    /// Programs run as native code, where the system and the program allow it.
    pub is_native: bool,
    /// Key of the hash of flows.
    pub flow_key: RandomState,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            priorities: 1,
            cpu_port: None,
            drop_port: DROP_PORT,
            seed: 1,
            is_native: true,
            flow_key: RandomState::new(),
        }
    }
}

/// Makes a device's switches, in any thread.
#[derive(Clone, Copy, Debug)]
pub struct SwitchMaker {
    seed: u64,
    is_native: bool,
    is_traced: bool,
}

impl SwitchMaker {
    /// A switch for the program; where it is interpreted against the configuration, the log gives the reason.
    pub fn switch(&self, program: Arc<Program>) -> Switch {
        if self.is_traced {
            return Switch::traced(program, self.seed);
        }
        if !self.is_native {
            return Switch::new(program, self.seed);
        }
        let switch = Switch::compiled(program, self.seed);
        if let Err(reason) = switch.native() {
            warn!("the program is interpreted: {reason}");
        }
        switch
    }
}

/// The switch, between its ports and its controllers.
pub struct Device {
    /// The program that runs, if there is one.
    pub pipeline: Option<Pipeline>,
    /// Packets between ingress and egress.
    pub traffic_manager: TrafficManager<Queued>,
    /// See [`Config::cpu_port`].
    pub cpu_port: Option<u32>,
    /// See [`Config::drop_port`].
    pub drop_port: u32,
    /// Packets that went no further.
    pub drops: Drops,
    /// Events that did not fit.
    pub events_lost: u64,
    /// By port number.
    pub port_counters: BTreeMap<u32, PortCounters>,
    /// Ports that are up, as last reported by the I/O.
    pub ports_up: BTreeMap<u32, bool>,
    events: Option<mpsc::Sender<Event>>,
    trace: Option<TraceSender>,
    again: VecDeque<Arriving>,
    injected: VecDeque<Vec<u8>>,
    notes: Notes,
    after_ingress: IngressOut,
    after_egress: EgressOut,
    seed: u64,
    is_native: bool,
    flow_key: RandomState,
    generation: u64,
    now_ns: u64,
    /// Steps since the turn began.
    spent: u64,
    work: u64,
}

impl Device {
    /// A device without a program.
    pub fn new(config: Config) -> Device {
        Device {
            pipeline: None,
            traffic_manager: TrafficManager::new(config.priorities),
            cpu_port: config.cpu_port,
            drop_port: config.drop_port,
            drops: Drops::default(),
            events_lost: 0,
            port_counters: BTreeMap::new(),
            ports_up: BTreeMap::new(),
            events: None,
            trace: None,
            again: VecDeque::new(),
            injected: VecDeque::new(),
            notes: Notes::default(),
            after_ingress: IngressOut::default(),
            after_egress: EgressOut::default(),
            seed: config.seed,
            is_native: config.is_native,
            flow_key: config.flow_key,
            generation: 0,
            now_ns: 0,
            spent: 0,
            work: 0,
        }
    }

    /// Traces the packets of programs from now on; the switches that run them must be [`Switch::traced`].
    pub fn trace_to(&mut self, trace: TraceSender) {
        self.trace = Some(trace);
    }

    /// Ends the trace.
    pub fn end_trace(&mut self) {
        self.trace = None;
    }

    /// Whether packets are traced.
    pub fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    /// Makes switches as this device runs them. Each takes long: packets should not wait for it.
    pub fn switch_maker(&self) -> SwitchMaker {
        SwitchMaker { seed: self.seed, is_native: self.is_native, is_traced: self.is_traced() }
    }

    /// Whether packets have had their share of this iteration, which [`Device::poll`] ends.
    pub fn is_tired(&self) -> bool {
        self.spent >= TURN_STEPS
    }

    /// The work for all frames so far: steps of programs, and the cost of receiving and sending, in steps.
    pub fn work(&self) -> u64 {
        self.work
    }

    /// Opens the queue of events to controllers: at most [`EVENTS`] wait, others are counted in `events_lost`.
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

    /// Sets the device's time, in nanoseconds since it started.
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
        let switch = self.switch_maker().switch(program);
        self.install(switch).0
    }

    /// As [`Device::set_pipeline`], for a switch that was made elsewhere: that may take long, and so may getting rid of
    /// the one that is given back.
    pub fn install(&mut self, mut switch: Switch) -> (u64, Option<Pipeline>) {
        self.generation += 1;
        self.drops.swap += self.traffic_manager.purge() + self.again.len() as u64;
        self.again.clear();
        switch.drop_port = self.drop_port;
        switch.state.started_us = self.now_us();
        if let Some(old) = &self.pipeline {
            switch.resume_trace(old.switch.trace_numbers());
        }
        let old = self.pipeline.replace(Pipeline { switch, generation: self.generation });
        (self.generation, old)
    }

    /// A port came up or went down.
    pub fn port_status(&mut self, port: u32, up: bool) {
        if self.ports_up.insert(port, up) != Some(up) {
            self.event(Event::PortStatus { port, up });
        }
    }

    /// Packets to a port wait from now on: its interface takes no more.
    pub fn hold(&mut self, port: u32) {
        self.traffic_manager.hold(port);
    }

    /// The packets that wait for a port may leave.
    pub fn release(&mut self, port: u32) {
        self.traffic_manager.release(port, self.now_ns);
    }

    /// A frame came in on `port`.
    pub fn arrive(&mut self, bytes: &[u8], port: u32, now_ns: u64, out: &mut dyn Sink) {
        self.tick(now_ns);
        self.port_counters.entry(port).or_default().received.add(bytes.len() as u64);
        self.work += RECEIVE_STEPS;
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

    /// Sends the packets that are due; gives the time at which it wants to be called again.
    pub fn poll(&mut self, now_ns: u64, out: &mut dyn Sink) -> Option<u64> {
        self.tick(now_ns);
        // Received frames have had their share; packets from controllers and queued ones have their own.
        self.spent = 0;
        while let Some(bytes) = if self.is_tired() { None } else { self.injected.pop_front() } {
            self.packet_out(&bytes, now_ns, out);
        }
        self.spent = 0;
        self.run(out);
        self.spent = 0;
        if self.again.is_empty() && self.injected.is_empty() {
            self.traffic_manager.next_ns()
        } else {
            Some(self.now_ns)
        }
    }

    fn ingress(&mut self, arriving: Arriving) {
        let now_us = self.now_us();
        // Of the frame as it came in: a flow stays the same flow when the program changes its headers.
        let flow = if self.traffic_manager.has_flows() { flow_hash(&self.flow_key, &arriving.packet) } else { 0 };
        let Some(pipeline) = &mut self.pipeline else { return };
        pipeline.switch.ingress(arriving, now_us, &mut self.notes, &mut self.after_ingress);
        let steps = pipeline.switch.spent();
        self.spent += steps;
        self.work += steps;
        for q in self.after_ingress.queued.drain(..) {
            Self::enqueue(&mut self.traffic_manager, &mut pipeline.switch, q, flow, self.now_ns);
        }
        if let Some(trace) = &self.trace {
            trace.send(pipeline.switch.take_trace());
        }
        if let Some(a) = self.after_ingress.again.take() {
            self.again(a);
        }
        self.take_notes();
    }

    fn enqueue(tm: &mut TrafficManager<Queued>, switch: &mut Switch, q: Queued, flow: u32, now_ns: u64) {
        let (port, priority, length) = (q.port, usize::from(q.priority), u64::from(q.length));
        // The traffic manager has counted the rejected packets.
        if let Err((why, refused)) = tm.enqueue(port, priority, length, flow, q, now_ns) {
            let reason = match why {
                Refused::Full => "the queue is full",
                Refused::Priority => "the port has no queue of this priority",
            };
            switch.trace_queue_drop(&refused, now_ns / 1000, reason);
            switch.discard(refused);
        }
        while let Some(dropped) = tm.next_dropped() {
            switch.trace_queue_drop(&dropped, now_ns / 1000, "the queue is full and its flow is the fattest");
            switch.discard(dropped);
        }
    }

    fn again(&mut self, a: Arriving) {
        if self.again.len() < AGAIN_PACKETS {
            self.again.push_back(a);
        } else {
            self.drops.again += 1;
            if let (Some(trace), Some(pipeline)) = (&self.trace, &mut self.pipeline) {
                let reason = format!("{AGAIN_PACKETS} packets wait to be parsed again");
                pipeline.switch.trace_again_drop(&a, self.now_ns / 1000, &reason);
                trace.send(pipeline.switch.take_trace());
            }
        }
    }

    /// Egress for packets that are due, then packets to be parsed again, until none is left or others had to wait
    /// enough.
    fn run(&mut self, out: &mut dyn Sink) {
        for _ in 0..PASSES {
            if self.is_tired() {
                return;
            }
            if let Some(departure) = self.traffic_manager.dequeue(self.now_ns) {
                let mut q = departure.item;
                q.enq_us = departure.enq_ns / 1000;
                q.enq_qdepth = departure.enq_qdepth;
                q.deq_us = self.now_us();
                q.deq_qdepth = departure.deq_qdepth;
                self.egress(q, departure.flow, out);
            } else if let Some(arriving) = self.again.pop_front() {
                self.ingress(arriving);
            } else {
                return;
            }
        }
    }

    fn egress(&mut self, q: Queued, flow: u32, out: &mut dyn Sink) {
        let now_us = self.now_us();
        let Some(pipeline) = &mut self.pipeline else { return };
        if self.trace.is_some() {
            pipeline.switch.trace_refusal(if Some(q.port) == self.cpu_port { None } else { out.refusal(q.port) });
        }
        pipeline.switch.egress(q, now_us, &mut self.notes, &mut self.after_egress);
        let steps = pipeline.switch.spent();
        self.spent += steps;
        self.work += steps;
        for q in self.after_egress.clones.drain(..) {
            Self::enqueue(&mut self.traffic_manager, &mut pipeline.switch, q, flow, self.now_ns);
        }
        if let Some(trace) = &self.trace {
            trace.send(pipeline.switch.take_trace());
        }
        let sent = self.after_egress.sent.take();
        if let Some(sent) = &sent {
            self.port_counters.entry(sent.port).or_default().sent.add(sent.packet.len() as u64);
            if Some(sent.port) != self.cpu_port {
                self.work += SEND_STEPS;
                if !out.frame(sent.port, &sent.packet) {
                    self.traffic_manager.hold(sent.port);
                }
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
mod tests;
