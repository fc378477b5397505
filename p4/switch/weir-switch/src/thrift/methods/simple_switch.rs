// SPDX-License-Identifier: Apache-2.0
//! Clone sessions, queues and times of simple_switch.
use super::Call;
use crate::device::Device;
use crate::p4runtime::Writer;
use crate::thrift::failure::{Done, Failure, declared, internal};
use crate::traffic_manager::{PortSettings, QueueSettings};
use std::time::{SystemTime, UNIX_EPOCH};
use weir_p4::exec::Mirror;

/// MirroringOperationErrorCode.
const SESSION_NOT_FOUND: i32 = 1;
/// Ports of v1model.
const MAX_PORT: u32 = 511;
const MAX_RATE_PPS: u64 = 1_000_000_000;

fn session_id(call: &Call<'_>) -> Result<u32, Failure> {
    let id = call.arguments.i32(1)?;
    u32::try_from(id).map_err(|_| internal(format!("clone session {id} is negative")))
}

fn port(n: i32) -> Result<u32, Failure> {
    let port = u32::try_from(n).ok().filter(|p| *p <= MAX_PORT);
    port.ok_or_else(|| internal(format!("port {n} is not between 0 and {MAX_PORT}")))
}

fn put(call: &Call<'_>, port: Option<u32>, group: Option<u32>) -> Done {
    let id = session_id(call)?;
    call.change(move |w| {
        w.set_mirror(id, Some(Mirror { port, group, truncate_bytes: None }));
        Ok(())
    })
}

pub fn add_session(call: &mut Call<'_>) -> Done {
    let config = call.arguments.fields(2)?;
    let (of_port, of_group) = (config.get(1).is_some(), config.get(2).is_some());
    let group = |n: i32| u16::try_from(n).map_err(|_| internal(format!("multicast group {n} does not fit 16 bits")));
    let to = of_port.then(|| port(config.i32(1)?)).transpose()?;
    let group = of_group.then(|| group(config.i32(2)?)).transpose()?;
    put(call, to, group.map(u32::from))
}

pub fn add_mapping(call: &mut Call<'_>) -> Done {
    let to = port(call.arguments.i32(2)?)?;
    put(call, Some(to), None)?;
    call.out.i32(0, 0);
    Ok(())
}

fn remove(call: &Call<'_>) -> Result<bool, Failure> {
    let id = session_id(call)?;
    call.change(move |w| Ok(w.set_mirror(id, None)))
}

pub fn delete_session(call: &mut Call<'_>) -> Done {
    match remove(call)? {
        true => Ok(()),
        false => declared(SESSION_NOT_FOUND, "there is no such clone session"),
    }
}

/// As in BMv2, the result is 1 when there was a session.
pub fn delete_mapping(call: &mut Call<'_>) -> Done {
    let removed = remove(call)?;
    call.out.i32(0, i32::from(removed));
    Ok(())
}

type Session = (Option<u32>, Option<u32>);

fn find(call: &Call<'_>) -> Result<Option<Session>, Failure> {
    let id = session_id(call)?;
    call.change(move |w: &mut Writer<'_>| Ok(w.mirror(id)))
}

pub fn session(call: &mut Call<'_>) -> Done {
    let Some((port, group)) = find(call)? else {
        return declared(SESSION_NOT_FOUND, "there is no such clone session");
    };
    call.out.nested(0, |out| {
        port.into_iter().for_each(|p| out.i32(1, p as i32));
        group.into_iter().for_each(|g| out.i32(2, g as i32));
    });
    Ok(())
}

pub fn mapping(call: &mut Call<'_>) -> Done {
    let port = find(call)?.and_then(|(port, _)| port);
    call.out.i32(0, port.map_or(-1, |p| p as i32));
    Ok(())
}

/// Changes queues: those of a priority or all, of a port or of all ports.
fn set(
    call: &mut Call<'_>,
    port: Option<u32>,
    priority: Option<i32>,
    change: impl Fn(&mut QueueSettings) + Send + 'static,
) -> Done {
    let done = call.device(move |d: &mut Device| {
        let now_ns = d.now_ns();
        let tm = &mut d.traffic_manager;
        let priorities = tm.priorities();
        let chosen = priority.map(|n| usize::try_from(n).ok().filter(|n| *n < priorities));
        if chosen == Some(None) {
            return Err(internal(format!("there are {priorities} priorities, from 0 (see --priority-queues)")));
        }
        let chosen = chosen.flatten();
        let changed = |mut settings: PortSettings| {
            let queues = settings.queues.iter_mut().enumerate();
            queues.filter(|(n, _)| chosen.is_none_or(|c| c == *n)).for_each(|(_, q)| change(q));
            settings
        };
        match port {
            Some(_) => {
                let settings = changed(tm.settings(port).clone());
                tm.set(port, &settings, now_ns);
            }
            None => {
                let default = changed(tm.settings(None).clone());
                let ports: Vec<_> = (0..=MAX_PORT).map(|p| changed(tm.settings(Some(p)).clone())).collect();
                let of = |p: Option<u32>| p.and_then(|p| ports.get(p as usize)).unwrap_or(&default).clone();
                tm.set_all(of, [], now_ns);
            }
        }
        Ok(())
    })?;
    done?;
    call.out.i32(0, 0);
    Ok(())
}

fn depth(call: &mut Call<'_>, port: Option<u32>, priority: Option<i32>, packets: i32) -> Done {
    let Ok(packets) = u64::try_from(packets) else {
        return Err(internal(format!("a depth of {packets} packets is negative")));
    };
    set(call, port, priority, move |q| (q.depth_packets, q.depth_bytes) = (packets, u64::MAX))
}

/// A rate of 0 is none, as in BMv2.
fn rate(call: &mut Call<'_>, port: Option<u32>, priority: Option<i32>, pps: i64) -> Done {
    let Some(pps) = u64::try_from(pps).ok().filter(|r| *r <= MAX_RATE_PPS) else {
        return Err(internal(format!("a rate of {pps} packets/s is not between 0 and {MAX_RATE_PPS}")));
    };
    set(call, port, priority, move |q| q.rate_pps = pps)
}

pub fn depth_of_priority(call: &mut Call<'_>) -> Done {
    let (at, priority, packets) = (call.arguments.i32(1)?, call.arguments.i32(2)?, call.arguments.i32(3)?);
    depth(call, Some(port(at)?), Some(priority), packets)
}

pub fn depth_of_port(call: &mut Call<'_>) -> Done {
    let (at, packets) = (call.arguments.i32(1)?, call.arguments.i32(2)?);
    depth(call, Some(port(at)?), None, packets)
}

pub fn depth_of_all(call: &mut Call<'_>) -> Done {
    let packets = call.arguments.i32(1)?;
    depth(call, None, None, packets)
}

pub fn rate_of_priority(call: &mut Call<'_>) -> Done {
    let (at, priority, pps) = (call.arguments.i32(1)?, call.arguments.i32(2)?, call.arguments.i64(3)?);
    rate(call, Some(port(at)?), Some(priority), pps)
}

pub fn rate_of_port(call: &mut Call<'_>) -> Done {
    let (at, pps) = (call.arguments.i32(1)?, call.arguments.i64(2)?);
    rate(call, Some(port(at)?), None, pps)
}

pub fn rate_of_all(call: &mut Call<'_>) -> Done {
    let pps = call.arguments.i64(1)?;
    rate(call, None, None, pps)
}

pub fn elapsed(call: &mut Call<'_>) -> Done {
    let us = call.device(|d| d.now_us())?;
    call.out.i64(0, us as i64);
    Ok(())
}

pub fn since_epoch(call: &mut Call<'_>) -> Done {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    call.out.i64(0, since.as_micros() as i64);
    Ok(())
}
