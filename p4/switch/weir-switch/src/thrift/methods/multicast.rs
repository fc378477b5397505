// SPDX-License-Identifier: Apache-2.0
//! Multicast groups and their nodes. A group's handle is its id.
use super::Call;
use crate::p4runtime::{Node, Nodes, Reader, Writer, lock};
use crate::thrift::failure::{Done, Failure, declared, internal, multicast as code};
use crate::thrift::output::ANSWER_BYTES;
use serde_json::json;

/// Nodes at most; BMv2 has 4096.
const MAX_NODES: usize = 65_536;
/// Groups or nodes read without a packet in between.
const PIECE: usize = 512;
/// Ports of v1model, and LAGs.
const MAX_PORTS: usize = 512;
/// Ids of groups have 16 bits.
const GROUPS: std::ops::RangeInclusive<i32> = 1..=0xffff;

/// The numbers whose bits are 1, the last character is bit 0.
fn bits(map: &[u8], what: &str) -> Result<Vec<u32>, Failure> {
    let mut set = Vec::new();
    for (n, bit) in map.iter().rev().enumerate() {
        match bit {
            b'0' => {}
            b'1' if n < MAX_PORTS => set.push(n as u32),
            b'1' => return declared(code::ERROR, format!("{what} {n} is above {}", MAX_PORTS - 1)),
            _ => return declared(code::ERROR, format!("the map of {what}s has characters other than 0 and 1")),
        }
    }
    Ok(set)
}

/// Ports and LAGs of two arguments; clients of `simple_pre` send no LAGs.
fn maps(call: &Call<'_>, first: i16) -> Result<(Vec<u32>, Vec<u32>), Failure> {
    let ports = bits(call.arguments.bytes(first)?, "port")?;
    let lags = match call.arguments.get(first + 1) {
        Some(_) => bits(call.arguments.bytes(first + 1)?, "LAG")?,
        None => Vec::new(),
    };
    Ok((ports, lags))
}

fn node(w: &Writer<'_>, handle: i32) -> Result<u32, Failure> {
    match w.controller.nodes.node(handle as u32) {
        Some(_) => Ok(handle as u32),
        None => declared(code::INVALID_L1_HANDLE, format!("there is no node with handle {handle}")),
    }
}

fn group(w: &Writer<'_>, id: i32) -> Result<u32, Failure> {
    match w.controller.nodes.group(id as u32) {
        Some(_) => Ok(id as u32),
        None => declared(code::INVALID_MGRP_HANDLE, format!("there is no multicast group {id}")),
    }
}

pub fn create_group(call: &mut Call<'_>) -> Done {
    let id = call.arguments.i32(2)?;
    if !GROUPS.contains(&id) {
        return declared(code::INVALID_MGID, format!("{id} is not between 1 and 65535"));
    }
    call.change(move |w| {
        w.controller.nodes.create_group(id as u32);
        w.refresh_group(id as u32);
        Ok(())
    })?;
    call.out.i32(0, id);
    Ok(())
}

/// As in BMv2, a group that does not exist is no error.
pub fn destroy_group(call: &mut Call<'_>) -> Done {
    let id = call.arguments.i32(2)?;
    call.change(move |w| {
        if GROUPS.contains(&id) {
            w.controller.nodes.destroy_group(id as u32);
            w.refresh_group(id as u32);
        }
        Ok(())
    })
}

pub fn create_node(call: &mut Call<'_>) -> Done {
    let rid = call.arguments.i32(2)?;
    let (ports, lags) = maps(call, 3)?;
    let Ok(rid) = u16::try_from(rid) else {
        return declared(code::ERROR, format!("replication id {rid} does not fit 16 bits"));
    };
    let handle = call.change(move |w| {
        if w.controller.nodes.len() >= MAX_NODES {
            return declared(code::TABLE_FULL, format!("there are {MAX_NODES} nodes"));
        }
        Ok(w.controller.nodes.create(Node { rid: rid.into(), ports, lags, group: None }))
    })?;
    call.out.i32(0, handle as i32);
    Ok(())
}

pub fn update_node(call: &mut Call<'_>) -> Done {
    let handle = call.arguments.i32(2)?;
    let (ports, lags) = maps(call, 3)?;
    call.change(move |w| {
        let handle = node(w, handle)?;
        let group = w.controller.nodes.update(handle, ports, lags);
        group.into_iter().for_each(|g| w.refresh_group(g));
        Ok(())
    })
}

pub fn destroy_node(call: &mut Call<'_>) -> Done {
    let handle = call.arguments.i32(2)?;
    call.change(move |w| {
        let handle = node(w, handle)?;
        let group = w.controller.nodes.destroy(handle);
        group.into_iter().for_each(|g| w.refresh_group(g));
        Ok(())
    })
}

fn regroup(call: &Call<'_>, f: fn(&mut Writer<'_>, u32, u32) -> bool, failed: &'static str) -> Done {
    let (id, handle) = (call.arguments.i32(2)?, call.arguments.i32(3)?);
    call.change(move |w| {
        let (handle, id) = (node(w, handle)?, group(w, id)?);
        if !f(w, id, handle) {
            return declared(code::ERROR, failed);
        }
        w.refresh_group(id);
        Ok(())
    })
}

pub fn associate(call: &mut Call<'_>) -> Done {
    regroup(call, |w, id, handle| w.controller.nodes.associate(id, handle), "the node is in a group")
}

pub fn dissociate(call: &mut Call<'_>) -> Done {
    regroup(call, |w, id, handle| w.controller.nodes.dissociate(id, handle), "the node is not in the group")
}

pub fn set_lag(call: &mut Call<'_>) -> Done {
    let lag = call.arguments.i16(2)?;
    let ports = bits(call.arguments.bytes(3)?, "port")?;
    let Some(lag) = u32::try_from(lag).ok().filter(|n| (*n as usize) < MAX_PORTS) else {
        return declared(code::ERROR, format!("LAG {lag} is not between 0 and {}", MAX_PORTS - 1));
    };
    call.change(move |w| {
        let groups = w.controller.nodes.set_lag(lag, ports);
        groups.into_iter().for_each(|g| w.refresh_group(g));
        Ok(())
    })
}

/// Appends elements of a JSON array; `first` is whether it has none yet.
fn push(text: &mut String, first: &mut bool, elements: impl Iterator<Item = serde_json::Value>) {
    for e in elements {
        if !std::mem::replace(first, false) {
            text.push(',');
        }
        text.push_str(&e.to_string());
    }
}

/// An array of BMv2's JSON: its name, numbers of its objects, and an object of a number.
type Array = (&'static str, fn(&Nodes) -> Vec<u32>, fn(&Nodes, u32) -> Option<serde_json::Value>);

const ARRAYS: [Array; 4] = [
    ("mgrps", |n| n.groups().map(|(id, _)| id).collect(), |n, id| Some(json!({"id": id, "l1_handles": n.group(id)?}))),
    ("l1_handles", handles, |n, h| Some(json!({"handle": h, "rid": n.node(h)?.rid, "l2_handle": h}))),
    ("l2_handles", handles, |n, h| {
        let node = n.node(h)?;
        Some(json!({"handle": h, "ports": node.ports, "lags": node.lags}))
    }),
    ("lags", |n| n.lags().map(|(id, _)| id).collect(), |n, id| Some(json!({"id": id, "ports": n.lag(id)?}))),
];

fn handles(nodes: &Nodes) -> Vec<u32> {
    nodes.nodes().map(|(handle, _)| handle).collect()
}

pub fn entries(call: &mut Call<'_>) -> Done {
    let _one = lock(&call.server.texts);
    let (runtime, control) = (call.runtime, &call.server.control);
    let text = runtime.block_on(async {
        let reading = control.read().await;
        let mut text = String::from("{");
        for (name, numbers, object) in ARRAYS {
            let all = reading.step(move |r| numbers(&r.controller.nodes)).await?;
            text.push_str(&format!("{}\"{name}\":[", if text.len() > 1 { "," } else { "" }));
            let mut first = true;
            for some in all.chunks(PIECE) {
                let some = some.to_vec();
                let piece = move |r: &Reader<'_>| {
                    some.into_iter().filter_map(|n| object(&r.controller.nodes, n)).collect::<Vec<_>>()
                };
                push(&mut text, &mut first, reading.step(piece).await?.into_iter());
                if text.len() > ANSWER_BYTES {
                    return Err(internal("there are too many nodes for an answer"));
                }
            }
            text.push(']');
        }
        text.push('}');
        Ok(text)
    })?;
    call.out.text(0, &text)
}
