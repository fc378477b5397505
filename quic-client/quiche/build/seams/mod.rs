// SPDX-License-Identifier: Apache-2.0
//! The seams: replacements in quiche's source. Pure, so that tests can move one.

mod amplification;
mod congestion;
mod memory;
mod path_mtu;
mod timestamps;

/// One replacement.
pub struct Seam {
    /// Name in messages and in the README.
    pub name: &'static str,
    /// File in quiche's package.
    pub file: &'static str,
    /// Text that must be there exactly once.
    pub from: &'static str,
    /// Replacement.
    pub to: &'static str,
}

/// All of them. Those with a rule call `hooks`, which by default behaves as quiche.
pub fn all() -> impl Iterator<Item = &'static Seam> {
    [SEAMS, amplification::SEAMS, congestion::SEAMS, memory::SEAMS, path_mtu::SEAMS, timestamps::SEAMS]
        .into_iter()
        .flatten()
}

const SEAMS: &[Seam] = &[
    Seam {
        name: "stream",
        file: "src/lib.rs",
        from: "stream.recv.autotune_window(now, path.recovery.rtt());",
        to: "crate::hooks::for_stream(stream_id, stream.recv.max_off(), || \
             stream.recv.autotune_window(now, path.recovery.rtt()));",
    },
    Seam {
        name: "rule",
        file: "src/flowcontrol.rs",
        from: "if let Some(last_update) = self.last_update {",
        to: "if let Some(window) = crate::hooks::next(now, rtt, self.last_update, self.window, self.max_window, \
             self.consumed, self.max_data, &mut self.due) { self.set_window(window); } \
             else if let Some(last_update) = self.last_update {",
    },
    Seam {
        name: "due",
        file: "src/flowcontrol.rs",
        from: "    last_update: Option<Instant>,
}",
        to: "    last_update: Option<Instant>,

    /// Said by a rule: an update is due whatever is left of the window. Until it is written.
    pub(crate) due: bool,
}",
    },
    Seam {
        name: "due-asked",
        file: "src/flowcontrol.rs",
        from: "        available_window < (self.window / 2)",
        to: "        self.due || available_window < (self.window / 2)",
    },
    Seam {
        name: "due-done",
        file: "src/flowcontrol.rs",
        from: "        self.last_update = Some(now);",
        to: "        self.last_update = Some(now);
        self.due = false;",
    },
    Seam {
        name: "due-connection",
        file: "src/lib.rs",
        from: "                flow_control.max_data() < flow_control.max_data_next()
            {",
        to: "                (flow_control.due || flow_control.max_data() < flow_control.max_data_next())
            {",
    },
    Seam {
        name: "due-for-nothing",
        file: "src/lib.rs",
        from: "                flow_control.autotune_window(now, path.recovery.rtt());
                self.should_send_max_data = true;",
        to: "                flow_control.autotune_window(now, path.recovery.rtt());
                if flow_control.max_data() < flow_control.max_data_next() {
                    self.should_send_max_data = true;
                } else {
                    flow_control.due = false;
                }",
    },
    Seam {
        name: "lower-bound",
        file: "src/flowcontrol.rs",
        from: "if min_window > self.window {",
        to: "let min_window = crate::hooks::lower_bound(self.window, self.max_window, min_window);
        if min_window > self.window {",
    },
    Seam {
        name: "no-way-back",
        file: "src/flowcontrol.rs",
        from: "self.consumed + self.window",
        to: "crate::hooks::limit(self.max_data, self.consumed + self.window)",
    },
    Seam {
        name: "left-behind-known",
        file: "src/recovery/congestion/recovery.rs",
        from: "    largest_acked_packet: Option<u64>,
",
        to: "    largest_acked_packet: Option<u64>,

    /// The same, of whichever path it was sent on.
    largest_acked_anywhere: Option<u64>,
",
    },
    Seam {
        name: "left-behind",
        file: "src/recovery/congestion/recovery.rs",
        from: "        if self.newly_acked.is_empty() {
            return Ok(OnAckReceivedOutcome::default());",
        to: "        let anywhere = self.epochs[epoch].largest_acked_anywhere;
        self.epochs[epoch].largest_acked_anywhere = anywhere.max(peer_sent_ack_ranges.last());
        if self.newly_acked.is_empty() {
            let (lost_packets, lost_bytes) = crate::hooks::left_behind!(self, epoch, now, trace_id);
            if self.epochs[epoch].loss_time.is_some() || lost_packets > 0 {
                self.set_loss_detection_timer(handshake_status, now);
            }
            return Ok(OnAckReceivedOutcome { lost_packets, lost_bytes, ..Default::default() });",
    },
    Seam {
        name: "left-behind-acked",
        file: "src/recovery/congestion/recovery.rs",
        from: "        let (lost_packets, lost_bytes) =
            self.detect_lost_packets(epoch, now, trace_id);

        self.congestion.on_packets_acked(",
        to: "        let (mut lost_packets, mut lost_bytes) =
            self.detect_lost_packets(epoch, now, trace_id);
        let (packets, bytes) = crate::hooks::left_behind!(self, epoch, now, trace_id);
        lost_packets += packets;
        lost_bytes += bytes;

        self.congestion.on_packets_acked(",
    },
    Seam {
        name: "left-behind-timeout",
        file: "src/recovery/congestion/recovery.rs",
        from: "            let (lost_packets, lost_bytes) =
                self.detect_lost_packets(epoch, now, trace_id);

            self.set_loss_detection_timer(",
        to: "            let (mut lost_packets, mut lost_bytes) =
                self.detect_lost_packets(epoch, now, trace_id);
            let (packets, bytes) = crate::hooks::left_behind!(self, epoch, now, trace_id);
            lost_packets += packets;
            lost_bytes += bytes;

            self.set_loss_detection_timer(",
    },
    Seam {
        name: "left-behind-moved",
        file: "src/recovery/congestion/recovery.rs",
        from: "        // Time threshold loss detection.
        self.detect_lost_packets(epoch, now, trace_id)
    }",
        to: "        crate::hooks::left_behind_moved!(
            self,
            epoch,
            crate::hooks::left_behind!(self, epoch, now, trace_id),
            self.detect_lost_packets(epoch, now, trace_id)
        )
    }",
    },
    Seam {
        name: "left-behind-bbr2-known",
        file: "src/recovery/gcongestion/recovery.rs",
        from: "    largest_acked_packet: Option<u64>,
",
        to: "    largest_acked_packet: Option<u64>,

    /// The same, of whichever path it was sent on.
    largest_acked_anywhere: Option<u64>,
",
    },
    Seam {
        name: "left-behind-bbr2",
        file: "src/recovery/gcongestion/recovery.rs",
        from: "        if self.newly_acked.is_empty() {
            return Ok(OnAckReceivedOutcome {
                acked_bytes,
                spurious_losses,
                ..Default::default()
            });",
        to: "        let anywhere = self.epochs[epoch].largest_acked_anywhere;
        self.epochs[epoch].largest_acked_anywhere = anywhere.max(peer_sent_ack_ranges.last());
        if self.newly_acked.is_empty() {
            let (lost_packets, lost_bytes) = crate::hooks::left_behind_bbr2!(self, epoch, now);
            if self.epochs[epoch].loss_time.is_some() || lost_packets > 0 {
                self.set_loss_detection_timer(handshake_status, now);
            }
            return Ok(OnAckReceivedOutcome { lost_packets, lost_bytes, acked_bytes, spurious_losses });",
    },
    Seam {
        name: "left-behind-bbr2-acked",
        file: "src/recovery/gcongestion/recovery.rs",
        from: "        self.pto_count = 0;
        self.lost_count += lost_packets;
",
        to: "        self.pto_count = 0;
        self.lost_count += lost_packets;
        let (packets, bytes) = crate::hooks::left_behind_bbr2!(self, epoch, now);
        let (lost_packets, lost_bytes) = (lost_packets + packets, lost_bytes + bytes);
",
    },
    Seam {
        name: "left-behind-bbr2-timeout",
        file: "src/recovery/gcongestion/recovery.rs",
        from: "            self.lost_count += lost_packets;

            self.set_loss_detection_timer(handshake_status, now);

            trace!(\"{trace_id} {self:?}\");
            return OnLossDetectionTimeoutOutcome {
                lost_packets,
                lost_bytes,
            };",
        to: "            self.lost_count += lost_packets;
            let (packets, bytes) = crate::hooks::left_behind_bbr2!(self, epoch, now);

            self.set_loss_detection_timer(handshake_status, now);

            trace!(\"{trace_id} {self:?}\");
            return OnLossDetectionTimeoutOutcome {
                lost_packets: lost_packets + packets,
                lost_bytes: lost_bytes + bytes,
            };",
    },
    Seam {
        name: "left-behind-bbr2-moved",
        file: "src/recovery/gcongestion/recovery.rs",
        from: "        let (lost_bytes, lost_packets) =
            self.detect_and_remove_lost_packets(epoch, now);

        (lost_packets, lost_bytes)
    }",
        to: "        crate::hooks::left_behind_moved!(
            self,
            epoch,
            crate::hooks::left_behind_bbr2!(self, epoch, now),
            {
                let (lost_bytes, lost_packets) = self.detect_and_remove_lost_packets(epoch, now);
                (lost_packets, lost_bytes)
            }
        )
    }",
    },
    Seam {
        name: "timeout-packets",
        file: "src/recovery/congestion/recovery.rs",
        from: "impl RecoveryEpoch {
",
        to: "impl RecoveryEpoch {
    /// Whether each packet in flight carries CRYPTO or STREAM, and its frames.
    fn open(&self) -> impl Iterator<Item = (bool, &[frame::Frame])> {
        let open = self.sent_packets.iter().filter(|p| p.time_acked.is_none() && p.time_lost.is_none());
        open.map(|p| (p.has_data, &p.frames[..]))
    }

",
    },
    Seam {
        name: "timeout",
        file: "src/recovery/congestion/recovery.rs",
        from: "        self.pto_count += 1;
",
        to: "        self.pto_count += 1;
        crate::hooks::probe_all_spaces!(self, epoch, handshake_status, in_flight_count);
",
    },
    Seam {
        name: "timeout-packets-bbr2",
        file: "src/recovery/gcongestion/recovery.rs",
        from: "impl RecoveryEpoch {
",
        to: "impl RecoveryEpoch {
    /// Whether each packet in flight carries CRYPTO or STREAM, and its frames.
    fn open(&self) -> impl Iterator<Item = (bool, &[frame::Frame])> {
        self.sent_packets.iter().filter_map(|p| match &p.status {
            SentStatus::Sent { has_data, frames, .. } => Some((*has_data, &frames[..])),
            _ => None,
        })
    }

",
    },
    Seam {
        name: "timeout-bbr2",
        file: "src/recovery/gcongestion/recovery.rs",
        from: "        self.pto_count += 1;
",
        to: "        self.pto_count += 1;
        crate::hooks::probe_all_spaces!(self, epoch, handshake_status, pkts_in_flight);
",
    },
    Seam {
        name: "timeout-apart",
        file: "src/lib.rs",
        from: "                if self.paths.get_mut(send_pid)?.recovery.loss_probes(epoch) > 0 {",
        to: "                if crate::hooks::owes_a_probe(&self.paths.get(send_pid)?.recovery) {",
    },
    Seam {
        name: "coalesced",
        file: "src/lib.rs",
        from: "                    Error::CryptoFail,
                    self.recv_count,
                    self.is_server,
                    &self.trace_id,
                );

                return Err(e);",
        to: "                    Error::CryptoFail,
                    self.recv_count,
                    self.is_server,
                    &self.trace_id,
                );

                return crate::hooks::passed_over(e, hdr.ty, b.off() + payload_len);",
    },
    Seam {
        name: "keys-gone",
        file: "src/recovery/congestion/recovery.rs",
        from: "        epoch.loss_probes = 0;
        epoch.in_flight_count = 0;
",
        to: "        epoch.loss_probes = 0;
        epoch.in_flight_count = 0;
        self.pto_count = 0;
",
    },
    Seam {
        name: "keys-gone-bbr2",
        file: "src/recovery/gcongestion/recovery.rs",
        from: "            .saturating_subtract(epoch.discard(&mut self.pacer), now);
",
        to: "            .saturating_subtract(epoch.discard(&mut self.pacer), now);
        self.pto_count = 0;
",
    },
    Seam {
        name: "probe-room",
        file: "src/lib.rs",
        from: "                .filter(|(_, p)| p.probing_required())
                .map(|(pid, _)| pid);",
        to: "                .filter(|(_, p)| p.probing_required())
                .filter(|(_, p)| !p.validation_requested() || crate::hooks::has_room(p.recovery.cwnd_available()))
                .filter(|_| self.local_error.is_none())
                .map(|(pid, _)| pid);",
    },
    Seam {
        name: "answer-room",
        file: "src/lib.rs",
        from: "            path.recovery.cwnd_available().saturating_sub(overhead);",
        to: "            crate::hooks::room_to_tell(path.probing_required() || is_closing, path.recovery.cwnd_available())
                .saturating_sub(overhead);",
    },
    Seam {
        name: "late-id",
        file: "src/lib.rs",
        from: "        let (in_scid_seq, mut in_scid_pid) =
            ids.find_scid_seq(dcid).ok_or(Error::InvalidState)?;",
        to: "        let (in_scid_seq, mut in_scid_pid) = match (ids.find_scid_seq(dcid), recv_pid) {
            (Some(found), _) => found,
            (None, Some(pid)) => return Ok(pid),
            (None, None) => return Err(Error::Done),
        };",
    },
    Seam {
        name: "id-once",
        file: "src/cid.rs",
        from: "        if advertise {
            self.advertise_new_scid_seqs.push_back(scid_seq);
        } else",
        to: "        if advertise {
            crate::hooks::add_once(&mut self.advertise_new_scid_seqs, scid_seq);
        } else",
    },
    Seam {
        name: "gone-id-new",
        file: "src/lib.rs",
        from: "                let frame = self.ids.get_new_connection_id_frame_for(seq_num)?;",
        to: "                let Ok(frame) = self.ids.get_new_connection_id_frame_for(seq_num) else {
                    self.ids.mark_advertise_new_scid_seq(seq_num, false);
                    continue;
                };",
    },
    Seam {
        name: "gone-id-used",
        file: "src/lib.rs",
        from: "        let scid = if let Some(scid_seq) = path.active_scid_seq {",
        to: "        let known = path.active_scid_seq.filter(|seq| self.ids.get_scid(*seq).is_ok());
        let scid = if let Some(scid_seq) = known {",
    },
    Seam {
        name: "empty-data",
        file: "src/h3/mod.rs",
        from: "            if read == 0 || fin {",
        to: "            if crate::hooks::nothing_left(read, stream.state() == stream::State::Data) || fin {",
    },
    Seam {
        name: "failed-path",
        file: "src/path.rs",
        from: "        new_active_path.active = true;
",
        to: "        new_active_path.active = true;
        crate::hooks::failed_path!(new_active_path, is_server);
",
    },
    Seam {
        name: "challenge-time-field",
        file: "src/path.rs",
        from: "    /// The maximum challenge size that got acknowledged.
",
        to: "    pub(crate) answered_challenge: Option<Instant>,

    /// The maximum challenge size that got acknowledged.
",
    },
    Seam {
        name: "challenge-time-start",
        file: "src/path.rs",
        from: "            in_flight_challenges: VecDeque::new(),
",
        to: "            in_flight_challenges: VecDeque::new(),
            answered_challenge: None,
",
    },
    Seam {
        name: "challenge-time",
        file: "src/path.rs",
        from: "        self.in_flight_challenges.retain(|(d, s, _)| {
            if *d == data {
",
        to: "        let answered = &mut self.answered_challenge;
        self.in_flight_challenges.retain(|(d, s, sent)| {
            if *d == data {
                *answered = Some(*sent);
",
    },
    Seam {
        name: "qlog-schema",
        file: "src/lib.rs",
        from: "vec![QUIC_URI.to_string(), HTTP3_URI.to_string()],",
        to: "vec![QUIC_URI.to_string(), HTTP3_URI.to_string(), crate::hooks::QLOG_SCHEMA.to_string()],",
    },
    Seam {
        name: "given-up",
        file: "src/path.rs",
        from: "    pub active_dcid_seq: Option<u64>,",
        to: "    pub active_dcid_seq: Option<u64>,
    /// Left for good, see `crate::hooks::give_up`.
    pub given_up: bool,",
    },
    Seam {
        name: "given-up-not",
        file: "src/path.rs",
        from: "            active_scid_seq,
            active_dcid_seq,",
        to: "            active_scid_seq,
            active_dcid_seq,
            given_up: crate::hooks::NOT_GIVEN_UP,",
    },
    Seam {
        name: "given-up-no-cid",
        file: "src/lib.rs",
        from: "        let no_dcid = self
            .paths
            .iter_mut()
            .filter(|(_, p)| p.active_dcid_seq.is_none());",
        to: "        for (pid, p) in self.paths.iter_mut() {
            crate::hooks::retire_given_up(p, pid, &mut self.ids);
        }
        let no_dcid = self.paths.iter_mut().filter(|(_, p)| crate::hooks::lacks_cid(p));",
    },
    Seam {
        name: "given-up-by-peer",
        file: "src/lib.rs",
        from: "                        path.active_scid_seq = None;",
        to: "                        path.active_scid_seq = None;
                        crate::hooks::given_up_by_peer(path, self.is_server);",
    },
    Seam {
        name: "given-up-back",
        file: "src/lib.rs",
        from: "recv_path.active_scid_seq = Some(in_scid_seq);",
        to: "recv_path.active_scid_seq = Some(in_scid_seq);
                crate::hooks::taken_up(recv_path);",
    },
    Seam {
        name: "qlog-tuple-received",
        file: "src/lib.rs",
        from: "                    raw: Some(qlog_raw_info),
                    ..Default::default()
                },
            );

            q.add_event_data_with_instant(ev_data, now).ok();
        });

        qlog_with_type!(QLOG_METRICS, self.qlog, q, {
            let recv_path",
        to: "                    raw: Some(qlog_raw_info),
                    ..Default::default()
                },
            );

            crate::hooks::log_packet(q, ev_data, now, self.paths.get_mut(recv_pid)?);
        });

        qlog_with_type!(QLOG_METRICS, self.qlog, q, {
            let recv_path",
    },
    Seam {
        name: "qlog-tuple-sent",
        file: "src/lib.rs",
        from: "                        send_at_time: Some(send_at_time),
                        ..Default::default()
                    });

                q.add_event_data_with_instant(ev_data, now).ok();",
        to: "                        send_at_time: Some(send_at_time),
                        ..Default::default()
                    });

                crate::hooks::log_packet(q, ev_data, now, path);",
    },
    Seam {
        name: "qlog-tuple",
        file: "src/path.rs",
        from: "    /// The current validation state of the path.
    state: PathState,",
        to: "    /// Whether its qlog knows it.
    pub(crate) in_qlog: bool,

    /// The current validation state of the path.
    state: PathState,",
    },
    Seam {
        name: "qlog-tuple-start",
        file: "src/path.rs",
        from: "            recovery: recovery::Recovery::new_with_config(recovery_config),
",
        to: "            recovery: recovery::Recovery::new_with_config(recovery_config),
            in_qlog: false,
",
    },
    Seam {
        name: "qlog-ssthresh",
        file: "src/recovery/congestion/recovery.rs",
        from: "ssthresh: Some(self.congestion.ssthresh.get() as u64),",
        to: "ssthresh: crate::hooks::known_ssthresh(self.congestion.ssthresh.get()),",
    },
    Seam {
        name: "id-replaced",
        file: "src/lib.rs",
        from: "                for (dcid_seq, pid) in retired_path_ids {",
        to: "                for (dcid_seq, pid) in crate::hooks::without_id(&self.paths, &self.ids) {",
    },
    Seam {
        name: "reset-token",
        file: "src/lib.rs",
        from: "        match self.peer_transport_params.stateless_reset_token {
            Some(token) => {",
        to: "        let first = self.peer_transport_params.stateless_reset_token;
        let last = &buf[buf_len - 16..];
        match crate::hooks::reset_token(&self.paths, &self.ids, first, last) {
            Some(token) => {",
    },
    Seam {
        name: "answers-field",
        file: "src/path.rs",
        from: "    /// Total number of bytes received over this path.
    pub recv_bytes: u64,

    /// Total number of bytes retransmitted from this path.
    /// This counts only STREAM and CRYPTO data.
    pub stream_retrans_bytes: u64,

    /// Total number of bytes the server can send",
        to: "    /// Total number of bytes received over this path.
    pub recv_bytes: u64,

    /// Packets and bytes received over it that are no part of a path's validation.
    pub(crate) answers: crate::hooks::Answers,

    /// Total number of bytes retransmitted from this path.
    /// This counts only STREAM and CRYPTO data.
    pub stream_retrans_bytes: u64,

    /// Total number of bytes the server can send",
    },
    Seam {
        name: "answers-start",
        file: "src/path.rs",
        from: "            recv_bytes: 0,
",
        to: "            recv_bytes: 0,
            answers: crate::hooks::Answers::default(),
",
    },
    Seam {
        name: "answers-frames",
        file: "src/lib.rs",
        from: "        let mut probing = true;
",
        to: "        let mut probing = true;
        let mut validates = false;
",
    },
    Seam {
        name: "answers-frame",
        file: "src/lib.rs",
        from: "            if !frame.probing() {
",
        to: "            validates |= crate::hooks::validates(&frame);
            if !frame.probing() {
",
    },
    Seam {
        name: "answers",
        file: "src/lib.rs",
        from: "        self.paths.get_mut(recv_pid)?.recv_bytes += read as u64;
",
        to: "        self.paths.get_mut(recv_pid)?.recv_bytes += read as u64;
        if !probing && !validates {
            self.paths.get_mut(recv_pid)?.answers.count(read);
        }
",
    },
];

/// One file of quiche's package `version` with its seams in; the crate's root also without what can't be included.
pub fn apply(version: &str, file: &str, text: &str) -> Result<String, String> {
    let mut text = text.to_owned();
    for seam in all().filter(|seam| seam.file == file) {
        text = replace_once(&text, seam.from, seam.to)
            .map_err(|found| moved(version, seam.name, file, &format!("its text is there {found} times")))?;
    }
    if file == "src/lib.rs" {
        let log = "#[macro_use]\nextern crate log;\n";
        text = replace_once(&text, log, "")
            .map_err(|found| moved(version, "root", file, &format!("`extern crate log` is there {found} times")))?;
        // Attributes and documentation of the whole crate, which only its first file may carry.
        text = text.split_inclusive('\n').filter(|line| !line.starts_with("//!") && !line.starts_with("#![")).collect();
    }
    Ok(text)
}

/// Replaces `from`, which must be there exactly once; else tells how often it was.
pub fn replace_once(text: &str, from: &str, to: &str) -> Result<String, usize> {
    match text.matches(from).count() {
        1 => Ok(text.replacen(from, to, 1)),
        found => Err(found),
    }
}

/// The message about a seam that does not fit.
pub fn moved(version: &str, seam: &str, file: &str, what: &str) -> String {
    format!(
        "seam '{seam}' does not fit {file} of quiche {version}: {what}, where once is right. Read what quiche does \
         there now and correct the seam in quic-client/quiche/build/seams/ (see the README beside it, Upgrading)"
    )
}
