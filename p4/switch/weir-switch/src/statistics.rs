// SPDX-License-Identifier: Apache-2.0
//! Counters of the whole switch as one JSON object.
use crate::device::Device;
use crate::files;
use crate::ports::Ports;
use crate::traffic_manager::Count;
use serde_json::{Map, Value, json};
use std::path::Path;

fn add(to: &mut Map<String, Value>, name: &str, count: Count) {
    to.insert(format!("{name}_packets"), count.packets.into());
    to.insert(format!("{name}_bytes"), count.bytes.into());
}

/// All counters. `sent` counts the frames that an interface took, `send_drops` those that it did not take, `waiting`
/// those that wait for it.
pub fn report(device: &Device, ports: &mut Ports) -> Value {
    let mut queues = Vec::new();
    let mut no_priority = 0;
    for (port, stats, bad_priority) in device.traffic_manager.stats() {
        no_priority += bad_priority;
        let settings = device.traffic_manager.settings(Some(port));
        for (priority, (q, limits)) in stats.iter().zip(&settings.queues).enumerate() {
            let mut queue = Map::new();
            queue.insert("port".into(), port.into());
            queue.insert("priority".into(), priority.into());
            queue.insert("rate_bit_s".into(), settings.rate_bps.into());
            queue.insert("rate_packets_s".into(), limits.rate_pps.into());
            let limit = |n: u64| if n == u64::MAX { Value::Null } else { n.into() };
            queue.insert("depth_packets".into(), limit(limits.depth_packets));
            queue.insert("depth_bytes".into(), limit(limits.depth_bytes));
            add(&mut queue, "enqueued", q.enqueued);
            add(&mut queue, "dequeued", q.dequeued);
            add(&mut queue, "tail_dropped", q.tail_dropped);
            add(&mut queue, "head_dropped", q.head_dropped);
            add(&mut queue, "purged", q.purged);
            add(&mut queue, "backlog", q.backlog);
            if let Some(flows) = device.traffic_manager.flow_stats(port, priority) {
                queue.insert("flows_active".into(), flows.active.into());
                queue.insert("flows_begun".into(), flows.begun.into());
            }
            queues.push(Value::Object(queue));
        }
    }
    let mut of_ports = Map::new();
    for p in ports.report() {
        let counters = device.port_counters.get(&p.port).copied().unwrap_or_default();
        let (r, s) = (p.receive_drops, p.send_drops);
        let mut port = Map::new();
        port.insert("interface".into(), p.interface.into());
        port.insert("up".into(), device.ports_up.get(&p.port).copied().unwrap_or(false).into());
        add(&mut port, "received", counters.received);
        add(&mut port, "sent", p.sent);
        port.insert("waiting_packets".into(), p.waiting_packets.into());
        let receive = json!({"ring_full": r.ring_full, "too_long": r.too_long, "segments": r.segments,
            "bad_checksum_offset": r.bad_checksum_offset});
        port.insert("receive_drops".into(), receive);
        let send = json!({"down": s.down, "too_long": s.too_long, "queue_full": s.queue_full, "other": s.other});
        port.insert("send_drops".into(), send);
        of_ports.insert(p.port.to_string(), Value::Object(port));
    }
    let d = device.drops;
    json!({
        "time_us": device.now_us(),
        "generation": device.pipeline.as_ref().map(|p| p.generation),
        "ports": of_ports,
        "queues": queues,
        "drops": {
            "no_pipeline": d.no_pipeline, "ingress": d.ingress, "egress": d.egress, "swap": d.swap, "again": d.again,
            "injected": d.injected, "faults": d.faults, "no_priority": no_priority, "no_interface": ports.senders.no_interface,
        },
        "events_lost": device.events_lost,
    })
}

/// Writes [`report`] to a file, which is there whole or not at all.
///
/// # Errors
/// The file that can't be written, and the reason.
pub fn write(path: &Path, device: &Device, ports: &mut Ports) -> Result<(), String> {
    files::replace(path, format!("{:#}\n", report(device, ports)).as_bytes())
        .map_err(|e| format!("--stats-json {}: {}", path.display(), weir_p4::source::explain(path, &e)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_can_not_be_is_an_error_and_leaves_nothing() {
        let folder = std::env::temp_dir().join(format!("weir-switch-stats-{}", std::process::id()));
        let taken = folder.join("taken");
        std::fs::create_dir_all(&taken).unwrap();
        files::replace(&folder.join("missing/stats.json"), b"{}").unwrap_err();
        files::replace(&taken, b"{}").unwrap_err();
        files::replace(&folder.join("stats.json"), b"{}").unwrap();
        let mut names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(names, ["stats.json", "taken"]);
    }
}
