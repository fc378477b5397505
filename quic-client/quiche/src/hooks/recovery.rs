// SPDX-License-Identifier: Apache-2.0
//! The patches of loss recovery: packets left behind on a path, and packets of a probe timeout.

use crate::recovery::RecoveryOps;

// Patch `left-behind`. quiche keeps loss recovery per path, and searches for losses on a path only when a packet sent
// on that path is acknowledged. After a migration none is any more, so what was lost there in flight is never sent
// again (quiche issue 2452). But all paths share one packet number space, so by RFC 9002 6.1 a packet is lost when one
// sent later, on whichever path, was acknowledged, and it is itself older than the time threshold of its path. (The
// packet threshold is not used, because packets of different paths have no order.) Younger packets are checked again
// when they have that age: the largest number acknowledged on any path is remembered, and the loss timer runs. At a
// migration the packets on the old path that are older are declared lost at once, because there may never be another
// acknowledgement. The threshold is made of the smoothed RTT, not of the latest: the first acknowledgement after an
// outage has waited for its end.
//
// The path's latest challenge is excepted: its probe timeout decides whether it is lost; then quiche counts it, sends
// another or gives the validation up. A path with nothing in flight has no such timeout.
//
// Macros, because the fields are private to quiche's modules. On a single path the largest number acknowledged anywhere
// is its own, and nothing changes.
macro_rules! left_behind {
    ($recovery:expr, $epoch:expr, $now:expr, $trace_id:expr) => {{
        let (recovery, epoch, now) = (&mut *$recovery, $epoch, $now);
        let own = recovery.epochs[epoch].largest_acked_packet;
        let anywhere = recovery.epochs[epoch].largest_acked_anywhere;
        if crate::hooks::finds_left_behind() && own < anywhere {
            let own_loss_time = recovery.epochs[epoch].loss_time;
            // Passed over if it is held for lost; the time keeps it from being dropped.
            let challenge =
                recovery.epochs[epoch].sent_packets.iter().rposition(|p| crate::hooks::challenges(&p.frames));
            let challenge = challenge.filter(|n| {
                let packet = &mut recovery.epochs[epoch].sent_packets[*n];
                let waits = packet.time_acked.is_none() && packet.time_lost.is_none();
                if waits {
                    packet.time_lost = Some(now + Duration::from_secs(1));
                }
                waits
            });
            let number = challenge.map(|n| recovery.epochs[epoch].sent_packets[n].pkt_num);
            let packets = std::mem::replace(&mut recovery.pkt_thresh, u64::MAX / 2);
            let latest = std::mem::take(&mut recovery.rtt_stats.latest_rtt);
            recovery.epochs[epoch].largest_acked_packet = anywhere;
            let lost = recovery.detect_lost_packets(epoch, now, $trace_id);
            let space = &mut recovery.epochs[epoch];
            space.largest_acked_packet = own;
            recovery.rtt_stats.latest_rtt = latest;
            recovery.pkt_thresh = packets;
            // Lost ones before it may be missing from the list.
            if let Some(packet) = space.sent_packets.iter_mut().find(|p| Some(p.pkt_num) == number) {
                packet.time_lost = None;
            }
            space.loss_time = own_loss_time.into_iter().chain(space.loss_time).min();
            lost
        } else {
            (0, 0)
        }
    }};
}

macro_rules! left_behind_bbr2 {
    ($recovery:expr, $epoch:expr, $now:expr) => {{
        let (recovery, epoch, now) = (&mut *$recovery, $epoch, $now);
        let own = recovery.epochs[epoch].largest_acked_packet;
        let anywhere = recovery.epochs[epoch].largest_acked_anywhere;
        if crate::hooks::finds_left_behind() && own < anywhere {
            let prior_in_flight = recovery.bytes_in_flight.get();
            let delay = recovery.rtt_stats.rtt().mul_f64(recovery.loss_thresh.time_thresh());
            let delay = delay.max(std::time::Duration::from_millis(1));
            let space = &mut recovery.epochs[epoch];
            let own_loss_time = space.loss_time;
            let challenge = space.sent_packets.iter().rposition(
                |p| matches!(&p.status, SentStatus::Sent { frames, .. } if crate::hooks::challenges(frames)),
            );
            // Passed over if it is held for lost; nothing is dropped from the list meanwhile.
            let kept = challenge.map(|n| (n, space.sent_packets[n].status.lose()));
            space.largest_acked_packet = anywhere;
            let lost = space.detect_and_remove_lost_packets(delay, None, now, &mut recovery.lost_reuse);
            space.largest_acked_packet = own;
            if let Some((n, status)) = kept {
                space.sent_packets[n].status = status;
            }
            space.loss_time = own_loss_time.into_iter().chain(space.loss_time).min();
            recovery.bytes_in_flight.saturating_subtract(lost.lost_bytes + lost.pmtud_lost_bytes, now);
            for packet in lost.pmtud_lost_packets {
                recovery.pacer.on_packet_neutered(packet);
            }
            if lost.lost_packets > 0 {
                recovery.lost_count += lost.lost_packets;
                recovery.pacer.on_congestion_event(
                    false,
                    prior_in_flight,
                    recovery.bytes_in_flight.get(),
                    now,
                    &[],
                    &recovery.lost_reuse,
                    recovery.epochs[epoch].least_unacked(),
                    &recovery.rtt_stats,
                    &mut recovery.recovery_stats,
                );
            }
            (lost.lost_packets, lost.lost_bytes)
        } else {
            (0, 0)
        }
    }};
}

// At a migration: packets that are old by any later packet, then those that quiche would find. Its timer knows of that
// alone.
macro_rules! left_behind_moved {
    ($recovery:expr, $epoch:expr, $left_behind:expr, $own:expr) => {{
        let known = $recovery.epochs[$epoch].largest_acked_anywhere;
        let sent = $recovery.epochs[$epoch].sent_packets.back().map(|p| p.pkt_num);
        $recovery.epochs[$epoch].largest_acked_anywhere = known.max(sent);
        let (packets, bytes) = $left_behind;
        $recovery.epochs[$epoch].largest_acked_anywhere = known;
        let (own_packets, own_bytes) = $own;
        (packets + own_packets, bytes + own_bytes)
    }};
}

/// Whether a packet with these frames challenges its path.
pub(crate) fn challenges(frames: &[crate::frame::Frame]) -> bool {
    frames.iter().any(|frame| matches!(frame, crate::frame::Frame::PathChallenge { .. }))
}

// Patches `pto-content` and `pto-datagrams`. When a probe timeout fires, quiche repeats the packets that have waited longest of those with CRYPTO
// or STREAM, two at most, in the packet number space whose timer it was. Two things are added.
//
// The frames that a peer can't do without are repeated wherever they stand (RFC 9002 6.2.4 allows any frame in a probe).
// Otherwise a NEW_CONNECTION_ID waits until a later packet is acknowledged, and a peer that has no ID for a new path
// can't answer there: if the only path dies before, the connection is lost.
//
// The other spaces with packets in flight send a probe as well (6.2.4, SHOULD). Otherwise the spaces take turns, each
// doubling the time for both, and a server that lacks the client's Finished can use only every other probe.
macro_rules! probe_all_spaces {
    ($recovery:expr, $due:expr, $handshake:expr, $in_flight:ident) => {
        use crate::packet::Epoch::{Application, Handshake, Initial};
        for epoch in [Initial, Handshake, Application] {
            let probes = crate::hooks::MAX_PTO_PROBES.min($recovery.pto_count as usize);
            let space = &mut $recovery.epochs[epoch];
            // Nothing of the application's before the handshake is complete (RFC 9002 6.2.1).
            let open = space.$in_flight > 0 && (epoch != Application || $handshake.completed);
            let probes = if epoch == $due { probes } else { space.loss_probes.max(usize::from(open)) };
            space.loss_probes = probes;
            // quiche adds nothing.
            if probes > 0 && space.lost_frames_pto.is_empty() {
                let frames = crate::hooks::repeated_at_timeout(space.open(), probes);
                space.lost_frames_pto.extend(frames);
            }
        }
    };
}

/// Patch `pto-datagrams`: whether a probe is still to be sent on a path, which then gets a datagram of its own. A quiche
/// without the patch `coalesced` could not read it behind another.
pub(crate) fn owes_a_probe(recovery: &crate::recovery::Recovery) -> bool {
    use crate::packet::Epoch::{Application, Handshake, Initial};
    [Initial, Handshake, Application].iter().any(|epoch| recovery.loss_probes(*epoch) > 0)
}

/// RFC 9002 6.2.4.
pub(crate) const MAX_PTO_PROBES: usize = 2;

/// Patches `pto-content` and `pto-datagrams`: frames that a space sends again, each once. Of each packet in
/// flight it is given whether it carries CRYPTO or STREAM, and its frames; `oldest` of those that do are repeated as a
/// whole, as quiche does.
pub(crate) fn repeated_at_timeout<'a>(
    in_flight: impl Iterator<Item = (bool, &'a [crate::frame::Frame])>,
    mut oldest: usize,
) -> Vec<crate::frame::Frame> {
    use crate::frame::Frame::{
        DatagramHeader, HandshakeDone, MaxData, MaxStreamData, MaxStreamsBidi, MaxStreamsUni, NewConnectionId,
        ResetStream, RetireConnectionId, StopSending,
    };
    let mut repeated = Vec::new();
    for (has_data, frames) in in_flight {
        let whole = has_data && oldest > 0;
        oldest -= usize::from(whole);
        for frame in frames {
            let wanted = match frame {
                DatagramHeader { .. } => false,
                HandshakeDone
                | MaxData { .. }
                | MaxStreamData { .. }
                | MaxStreamsBidi { .. }
                | MaxStreamsUni { .. }
                | NewConnectionId { .. }
                | ResetStream { .. }
                | RetireConnectionId { .. }
                | StopSending { .. } => true,
                _ => whole,
            };
            if wanted && !repeated.contains(frame) {
                repeated.push(frame.clone());
            }
        }
    }
    repeated
}

pub(crate) use {left_behind, left_behind_bbr2, left_behind_moved, probe_all_spaces};
