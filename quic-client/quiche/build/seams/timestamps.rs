// SPDX-License-Identifier: Apache-2.0
//! The seams that send and receive TIMESTAMP frames (draft-huitema-quic-ts).

use super::Seam;

pub const SEAMS: &[Seam] = &[
    Seam {
        name: "timestamps-parameter",
        file: "src/transport_params.rs",
        from: "    pub max_datagram_frame_size: Option<u64>,
",
        to: "    pub max_datagram_frame_size: Option<u64>,
    /// TIMESTAMP frames.
    pub(crate) timestamps: crate::hooks::Timestamps,
",
    },
    Seam {
        name: "timestamps-parameter-start",
        file: "src/transport_params.rs",
        from: "            max_datagram_frame_size: None,
",
        to: "            max_datagram_frame_size: None,
            timestamps: crate::hooks::Timestamps::Off,
",
    },
    Seam {
        name: "timestamps-parameter-read",
        file: "src/transport_params.rs",
        from: "                0x0020 => {
",
        to: "                crate::hooks::TIMESTAMPS_PARAMETER => {
                    tp.timestamps = crate::hooks::Timestamps::of(val.get_varint()?)?;
                },

                0x0020 => {
",
    },
    Seam {
        name: "timestamps-parameter-write",
        file: "src/transport_params.rs",
        from: "        let out_len = b.off();
",
        to: "        if let Some(value) = tp.timestamps.value() {
            TransportParams::encode_param(&mut b, crate::hooks::TIMESTAMPS_PARAMETER, octets::varint_len(value))?;
            b.put_varint(value)?;
        }

        let out_len = b.off();
",
    },
    Seam {
        name: "timestamps-parameter-room",
        file: "src/tls/mod.rs",
        from: "let mut raw_params = [0; 128];",
        to: "let mut raw_params = [0; crate::hooks::PARAMETERS_BYTES];",
    },
    Seam {
        name: "timestamps-epoch-field",
        file: "src/lib.rs",
        from: "    /// Local transport parameters.
    local_transport_params: TransportParams,

    /// TLS handshake state.
",
        to: "    /// Local transport parameters.
    local_transport_params: TransportParams,

    /// When it was made: timestamps count from here.
    epoch: Instant,

    /// TLS handshake state.
",
    },
    Seam {
        name: "timestamps-epoch-start",
        file: "src/lib.rs",
        from: "            local_transport_params: config.local_transport_params.clone(),

            handshake: tls,
",
        to: "            local_transport_params: config.local_transport_params.clone(),

            epoch: Instant::now(),

            handshake: tls,
",
    },
    Seam {
        name: "timestamps-sent",
        file: "src/lib.rs",
        from: "                if push_frame_to_pkt!(b, frames, frame, left) {
                    pkt_space.ack_elicited = false;
                }
            }
        }

        // Limit output packet size by congestion window size.
",
        to: "                if push_frame_to_pkt!(b, frames, frame, left) {
                    pkt_space.ack_elicited = false;
                    let (ours, theirs) = (&self.local_transport_params, &self.peer_transport_params);
                    if pkt_type == Type::Short && ours.timestamps.to_send(theirs.timestamps) {
                        let since = now.saturating_duration_since(self.epoch);
                        left -= crate::hooks::write_timestamp(&mut b, left, since, ours.ack_delay_exponent)?;
                    }
                }
            }
        }

        // Limit output packet size by congestion window size.
",
    },
    Seam {
        name: "timestamps-received",
        file: "src/lib.rs",
        from: "        while payload.cap() > 0 {
            let frame = frame::Frame::from_bytes(&mut payload, hdr.ty)?;
",
        to: "        while payload.cap() > 0 {
            let wanted = hdr.ty == Type::Short && self.local_transport_params.timestamps.wanted();
            if wanted && crate::hooks::begins_timestamp(&mut payload) {
                let exponent = self.peer_transport_params.ack_delay_exponent;
                let since = now.saturating_duration_since(self.epoch);
                crate::hooks::read_timestamp(&mut payload, since, exponent)?;
                qlog_with_type!(QLOG_PACKET_RX, self.qlog, _q, {
                    qlog_frames.push(crate::hooks::timestamp_in_qlog());
                });
                continue;
            }

            let frame = frame::Frame::from_bytes(&mut payload, hdr.ty)?;
",
    },
];
