// SPDX-License-Identifier: Apache-2.0
//! [`Reactor`]: flows and their timers. The caller waits; the reactor handles the result of the wait.

use super::{Context, Flow, from_token};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;
use weir_core::client::Outcome;
use weir_io::fault::Fault;
use weir_io::interfaces::{self, Interface, Monitor};
use weir_io::wait::Waiter;

/// Token of the interfaces' monitor in the wait.
pub const INTERFACES: u64 = u64::MAX - 1;

/// Subject of errors of the interfaces' list or monitor.
pub const NETLINK: &str = "network interfaces (rtnetlink)";

/// A monitor of the interfaces, in `waiter` under [`INTERFACES`], and the list of them.
///
/// # Errors
/// The interfaces can't be listed.
pub fn watch_interfaces(waiter: &Waiter) -> Result<(Monitor, Vec<Interface>), Fault> {
    // The monitor first: it reports changes after the list is read.
    let monitor = Monitor::new().map_err(Fault::io(NETLINK))?;
    waiter.add(monitor.fd(), INTERFACES).map_err(Fault::io("epoll"))?;
    Ok((monitor, interfaces::list().map_err(Fault::io(NETLINK))?))
}

/// A flow and its entry in the timers.
struct Slot {
    flow: Flow,
    timer: Option<Instant>,
    /// It is over, and its resources are freed.
    retired: bool,
}

/// Flows, by their numbers.
pub struct Reactor {
    /// Their shared state.
    pub context: Context,
    slots: BTreeMap<usize, Slot>,
    timers: BTreeSet<(Instant, usize)>,
    monitor: Option<Monitor>,
    /// Flows that something happened to, in the order of that.
    touched: VecDeque<usize>,
}

impl Reactor {
    /// Without flows. `monitor` is that of [`watch_interfaces`], if there are requested paths.
    pub fn new(context: Context, monitor: Option<Monitor>) -> Reactor {
        Reactor { context, slots: BTreeMap::new(), timers: BTreeSet::new(), monitor, touched: VecDeque::new() }
    }

    /// Adds a flow that starts at its time. Its index must be free.
    pub fn insert(&mut self, flow: Flow) {
        self.timers.insert((flow.start, flow.index));
        self.slots.insert(flow.index, Slot { timer: Some(flow.start), flow, retired: false });
    }

    /// Takes out a flow that is retired.
    pub fn remove(&mut self, index: usize) -> Option<Flow> {
        self.slots.remove(&index).map(|slot| slot.flow)
    }

    /// A flow.
    pub fn flow_mut(&mut self, index: usize) -> Option<&mut Flow> {
        self.slots.get_mut(&index).map(|slot| &mut slot.flow)
    }

    /// A flow that is not retired, with the shared state.
    pub fn live_mut(&mut self, index: usize) -> Option<(&mut Flow, &mut Context)> {
        let slot = self.slots.get_mut(&index).filter(|slot| !slot.retired)?;
        Some((&mut slot.flow, &mut self.context))
    }

    /// All flows, in the order of their numbers.
    pub fn flows(&self) -> impl Iterator<Item = &Flow> + Clone {
        self.slots.values().map(|slot| &slot.flow)
    }

    /// The shared state and all flows, in the order of their numbers.
    pub fn finish(self) -> (Context, Vec<Flow>) {
        (self.context, self.slots.into_values().map(|slot| slot.flow).collect())
    }

    /// When [`Reactor::fire_timer`] has something to do.
    pub fn next_timer(&self) -> Option<Instant> {
        self.timers.first().map(|(t, _)| *t)
    }

    /// Something happened to a flow.
    pub fn touch(&mut self, index: usize) {
        self.touched.push_back(index);
    }

    /// The next flow to be served in this iteration.
    pub fn next_touched(&mut self) -> Option<usize> {
        self.touched.pop_front()
    }

    /// The socket with this token is readable.
    pub fn receive(&mut self, token: u64, now: Instant) {
        let (index, path) = from_token(token);
        if let Some(slot) = self.slots.get_mut(&index) {
            slot.flow.receive(path, &mut self.context, now);
            self.touched.push_back(index);
        }
    }

    /// Handles one timer that is due, and gives the flow and the result; `None`: there is no more.
    pub fn fire_timer(&mut self, now: Instant) -> Option<(usize, Result<(), Fault>)> {
        let &(_, index) = self.timers.first().filter(|(t, _)| *t <= now)?;
        self.timers.pop_first();
        let slot = self.slots.get_mut(&index)?;
        slot.timer = None;
        self.touched.push_back(index);
        Some((index, slot.flow.on_timer(&mut self.context, now)))
    }

    /// Interfaces, addresses or routes may have changed: every flow is notified.
    ///
    /// # Errors
    /// The interfaces can't be listed.
    pub fn interfaces_changed(&mut self, now: Instant) -> Result<(), Fault> {
        let Some(monitor) = &mut self.monitor else { return Ok(()) };
        if !monitor.drain().map_err(Fault::io(NETLINK))? {
            return Ok(());
        }
        // Also if the list is the same: a new route may have come to a server that an interface did not lead to.
        self.context.interfaces = interfaces::list().map_err(Fault::io(NETLINK))?;
        for (&index, slot) in &mut self.slots {
            if slot.flow.refresh_paths(&mut self.context, now) {
                self.touched.push_back(index);
            }
        }
        Ok(())
    }

    /// Lets a flow act, and sets its timer anew. True if it is over: [`Reactor::retire`] must follow.
    ///
    /// # Errors
    /// See [`Flow::serve`].
    pub fn serve(&mut self, index: usize, now: Instant) -> Result<bool, Fault> {
        let Some(Slot { flow, timer, retired }) = self.slots.get_mut(&index) else { return Ok(false) };
        flow.serve(&mut self.context, now)?;
        if flow.is_running() {
            let next = flow.next_timer();
            if next != *timer {
                timer.map(|t| self.timers.remove(&(t, index)));
                next.map(|t| self.timers.insert((t, index)));
                *timer = next;
            }
        }
        Ok(flow.is_over() && !*retired)
    }

    /// Frees the resources of a flow that is over.
    ///
    /// # Errors
    /// A socket can't be taken out of the wait.
    pub fn retire(&mut self, index: usize) -> Result<(), Fault> {
        let Some(Slot { flow, timer, retired }) = self.slots.get_mut(&index) else { return Ok(()) };
        *retired = true;
        timer.take().map(|t| self.timers.remove(&(t, index)));
        flow.release(&mut self.context)
    }

    /// Ends all flows that have not ended with this outcome.
    pub fn end_all(&mut self, outcome: &Outcome, now: Instant) {
        for (&index, slot) in &mut self.slots {
            slot.flow.end(outcome, now);
            self.touched.push_back(index);
        }
    }
}
