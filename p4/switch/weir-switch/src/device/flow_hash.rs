// SPDX-License-Identifier: Apache-2.0
//! The flow of a frame, for flow queues: addresses, protocol and ports. The key of the hash is random, so that nobody
//! can choose flows that share a queue.
use std::hash::{BuildHasher, RandomState};

const ETHER_TYPE_VLAN: u16 = 0x8100;
const ETHER_TYPE_VLAN_OUTER: u16 = 0x88a8;
const ETHER_TYPE_IPV4: u16 = 0x0800;
const ETHER_TYPE_IPV6: u16 = 0x86dd;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;
/// TCP, UDP, DCCP, SCTP and UDP-Lite: ports are their first four bytes.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

const MOST_TAGS: usize = 2;
const MOST_EXTENSIONS: usize = 8;

/// Equal for all frames of a flow. Fragments have no ports: only the first would.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Flow {
    /// VLAN of each tag.
    vlans: [u16; MOST_TAGS],
    ether_type: u16,
    protocol: u8,
    source: [u8; 16],
    destination: [u8; 16],
    ports: [u8; 4],
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]))
}

fn fill(to: &mut [u8], from: Option<&[u8]>) -> Option<()> {
    let from = from?;
    to.get_mut(..from.len())?.copy_from_slice(from);
    Some(())
}

impl Flow {
    fn of(frame: &[u8]) -> Flow {
        let mut flow = Flow::default();
        let mut at = 12;
        for vlan in &mut flow.vlans {
            match u16_at(frame, at) {
                Some(ETHER_TYPE_VLAN | ETHER_TYPE_VLAN_OUTER) => {
                    *vlan = u16_at(frame, at + 2).unwrap_or(0) & 0xfff;
                    at += 4;
                }
                _ => break,
            }
        }
        flow.ether_type = u16_at(frame, at).unwrap_or(0);
        let packet = frame.get(at + 2..).unwrap_or(&[]);
        let stations = Flow { ..flow };
        let known = match flow.ether_type {
            ETHER_TYPE_IPV4 => flow.ipv4(packet),
            ETHER_TYPE_IPV6 => flow.ipv6(packet),
            _ => None,
        };
        if known.is_none() {
            flow = stations;
            // As much of the addresses as a short frame has.
            let addresses = frame.get(..12).unwrap_or(frame);
            let (destination, source) = addresses.split_at(addresses.len().min(6));
            flow.destination[..destination.len()].copy_from_slice(destination);
            flow.source[..source.len()].copy_from_slice(source);
        }
        flow
    }

    fn ipv4(&mut self, packet: &[u8]) -> Option<()> {
        let header_bytes = usize::from(packet.first()? & 0xf) * 4;
        fill(&mut self.source, packet.get(12..16))?;
        fill(&mut self.destination, packet.get(16..20))?;
        self.protocol = packet[9];
        // More fragments, and the offset of this one.
        if u16_at(packet, 6)? & 0x3fff == 0 {
            self.read_ports(packet, header_bytes);
        }
        Some(())
    }

    fn ipv6(&mut self, packet: &[u8]) -> Option<()> {
        fill(&mut self.source, packet.get(8..24))?;
        fill(&mut self.destination, packet.get(24..40))?;
        self.protocol = packet[6];
        let mut at = 40;
        for _ in 0..MOST_EXTENSIONS {
            match self.protocol {
                HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => {
                    let Some([next, length]) = packet.get(at..at + 2) else { return Some(()) };
                    self.protocol = *next;
                    at += 8 + usize::from(*length) * 8;
                }
                FRAGMENT => {
                    self.protocol = packet.get(at).copied().unwrap_or(FRAGMENT);
                    return Some(());
                }
                _ => break,
            }
        }
        self.read_ports(packet, at);
        Some(())
    }

    fn read_ports(&mut self, packet: &[u8], at: usize) {
        if WITH_PORTS.contains(&self.protocol) {
            // A packet cut before its ports has none.
            let _ = fill(&mut self.ports, packet.get(at..at + 4));
        }
    }
}

/// Hash of the flow of a frame.
pub(super) fn flow_hash(key: &RandomState, frame: &[u8]) -> u32 {
    key.hash_one(Flow::of(frame)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UDP: u8 = 17;

    fn ethernet(ether_type: u16, tags: &[u16], rest: &[u8]) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        for vlan in tags {
            frame.extend([0x81, 0, (vlan >> 8) as u8, *vlan as u8]);
        }
        frame.extend(ether_type.to_be_bytes());
        frame.extend(rest);
        frame
    }

    fn ipv4(protocol: u8, fragment: u16, port: u8, ttl: u8) -> Vec<u8> {
        let mut p = vec![0x46, 0, 0, 32, 0, ttl, (fragment >> 8) as u8, fragment as u8, ttl, protocol, 0, 0];
        p.extend([10, 0, 0, 1, 10, 0, 0, 2, 1, 1, 1, 1, 0, port, 0, 53, 0, 8, ttl, ttl]);
        p
    }

    fn ipv6(extensions: &[(u8, u8)], port: u8) -> Vec<u8> {
        let mut p = vec![0x60, 0, 0, port, 0, 8, extensions.first().map_or(UDP, |e| e.0), 64];
        p.extend([0x20; 16]);
        p.extend([0x21; 16]);
        for (i, (_, length)) in extensions.iter().enumerate() {
            p.extend([extensions.get(i + 1).map_or(UDP, |e| e.0), *length]);
            p.extend(vec![port; 6 + usize::from(*length) * 8]);
        }
        p.extend([0, port, 0, 53, 0, 8, 0, 0]);
        p
    }

    fn same(a: &[u8], b: &[u8]) -> bool {
        Flow::of(a) == Flow::of(b)
    }

    #[test]
    fn ports_tell_flows_apart_and_other_fields_do_not() {
        let v4 = |port, ttl| ethernet(ETHER_TYPE_IPV4, &[], &ipv4(UDP, 0x4000, port, ttl));
        assert!(same(&v4(1, 1), &v4(1, 2)) && !same(&v4(1, 1), &v4(2, 1)));
        for extensions in [&[][..], &[(HOP_BY_HOP, 0)], &[(HOP_BY_HOP, 1), (ROUTING, 2), (DESTINATION_OPTIONS, 0)]] {
            let v6 = |port| ethernet(ETHER_TYPE_IPV6, &[], &ipv6(extensions, port));
            assert!(!same(&v6(1), &v6(2)), "{extensions:?}");
            assert_eq!(Flow::of(&v6(1)).ports, [0, 1, 0, 53]);
        }
        let icmp = |port| ethernet(ETHER_TYPE_IPV4, &[], &ipv4(1, 0, port, 1));
        assert!(same(&icmp(1), &icmp(2)));
    }

    #[test]
    fn fragments_of_two_hosts_are_one_flow() {
        let v4 = |fragment, port| ethernet(ETHER_TYPE_IPV4, &[], &ipv4(UDP, fragment, port, 1));
        assert!(same(&v4(0x2000, 1), &v4(0x0005, 9)), "the first and the last");
        let v6 = |port| ethernet(ETHER_TYPE_IPV6, &[], &ipv6(&[(HOP_BY_HOP, 0), (FRAGMENT, 0)], port));
        assert!(same(&v6(1), &v6(2)));
        assert_eq!(Flow::of(&v6(1)).protocol, UDP);
    }

    #[test]
    fn tags_tell_networks_apart() {
        let v4 = |tags: &[u16]| ethernet(ETHER_TYPE_IPV4, tags, &ipv4(UDP, 0, 1, 1));
        let flows: std::collections::HashSet<_> = [&[][..], &[7], &[8], &[7, 8]].map(|t| Flow::of(&v4(t))).into();
        assert_eq!(flows.len(), 4);
        assert_eq!(Flow::of(&v4(&[7, 8])).ports, [0, 1, 0, 53]);
        // The priority of a tag is not its network.
        assert!(same(&v4(&[7]), &v4(&[0xe007])));
    }

    #[test]
    fn other_frames_are_told_apart_by_stations_and_type() {
        let arp = ethernet(0x0806, &[], &[1; 28]);
        let mut other = arp.clone();
        other[11] = 9;
        assert!(same(&arp, &ethernet(0x0806, &[], &[2; 28])) && !same(&arp, &other));
        assert!(!same(&arp, &ethernet(0x0807, &[], &[1; 28])));
        // An IP header that is cut short is one of these.
        assert!(same(&ethernet(ETHER_TYPE_IPV4, &[], &[0x45; 19]), &ethernet(ETHER_TYPE_IPV4, &[], &[0x46; 5])));
    }

    #[test]
    fn the_hash_depends_on_the_key() {
        let frame = ethernet(ETHER_TYPE_IPV4, &[], &ipv4(UDP, 0, 1, 1));
        let keys: Vec<_> = (0..4).map(|_| RandomState::new()).collect();
        assert!(keys.iter().any(|key| flow_hash(key, &frame) != flow_hash(&keys[0], &frame)));
        assert_eq!(flow_hash(&keys[0], &frame), flow_hash(&keys[0].clone(), &frame));
    }

    proptest! {
        /// Any bytes have a flow, and it does not depend on what follows the ports.
        #[test]
        fn any_bytes_have_a_flow(
            ether_type in prop_oneof![Just(ETHER_TYPE_IPV4), Just(ETHER_TYPE_IPV6), any::<u16>()],
            tags in prop::collection::vec(0..4096u16, 0..3),
            rest in prop::collection::vec(any::<u8>(), 0..80),
            cut in 0..120usize,
        ) {
            let mut frame = ethernet(ether_type, &tags, &rest);
            frame.truncate(cut);
            Flow::of(&frame);
        }
    }
}
