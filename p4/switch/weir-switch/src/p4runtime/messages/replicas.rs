// SPDX-License-Identifier: Apache-2.0
//! Ports of multicast groups and clone sessions.
use super::bytes::value;
use super::error::{At, Res, invalid, unimplemented};
use crate::p4runtime::proto::p4::v1 as pb;
use std::collections::{BTreeMap, BTreeSet};
use tonic::Code;

/// Bits of a port number in v1model.
const PORT_BITS: u32 = 9;

/// Port and instance of a replica.
fn replica(r: &pb::Replica) -> Res<(u32, u32)> {
    use pb::replica::PortKind;
    if !r.backup_replicas.is_empty() {
        return Err(unimplemented("backup_replicas: ports of a group are not watched"));
    }
    let port = match &r.port_kind {
        Some(PortKind::Port(bytes)) => {
            value(bytes, PORT_BITS).map_err(|e| e.with_code(Code::InvalidArgument)).at(|| "port")?.low() as u32
        }
        Some(PortKind::EgressPort(p)) if *p < 1 << PORT_BITS => *p,
        Some(PortKind::EgressPort(p)) => {
            return Err(invalid(format!("{p} does not fit {PORT_BITS} bits")).under("egress_port"));
        }
        None => return Err(invalid("is unset").under("port")),
    };
    if r.instance > 0xffff {
        return Err(invalid(format!("{} does not fit 16 bits", r.instance)).under("instance"));
    }
    Ok((port, r.instance))
}

/// Ports by instance, as the replication engine of BMv2 goes through them.
pub fn replicas(list: &[pb::Replica]) -> Res<Vec<(u32, Vec<u32>)>> {
    let mut by_instance: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for (i, r) in list.iter().enumerate() {
        let place = || format!("replicas[{i}]");
        let (port, instance) = replica(r).at(place)?;
        if !by_instance.entry(instance).or_default().insert(port) {
            return Err(invalid(format!("port {port} with instance {instance} is there twice")).under(place()));
        }
    }
    Ok(by_instance.into_iter().map(|(rid, ports)| (rid, ports.into_iter().collect())).collect())
}
