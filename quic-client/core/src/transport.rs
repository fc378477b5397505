// SPDX-License-Identifier: Apache-2.0
//! Transport options and the `quiche::Config` they make.

use crate::congestion::ControlKind;
use crate::congestion::pbq::Profile;
use crate::request::Alpn;
use crate::scone::SconeUse;
use quiche::hooks::{self, BASE_MTU_BYTES, Timestamps};
use std::time::Duration;

/// Length of our connection IDs, in bytes; fixed, because a short header does not carry it.
pub const CID_BYTES: usize = 16;
/// Number of the peer's connection IDs that we accept (RFC 9000 18.2), and with them of paths.
pub const CID_LIMIT: u64 = 8;
/// Largest UDP payload that we send or accept, in bytes. Large packets save time on loopback and with jumbo frames.
/// quiche writes the length of a STREAM frame in two bytes, which sets this bound (RFC 9000 16).
pub const MAX_PAYLOAD_BYTES: usize = 16_383;

/// Options of the transport, the same on both sides.
#[derive(Debug, Clone)]
pub struct Transport {
    /// Protocols offered, or accepted, in order of preference.
    pub alpn: Vec<Alpn>,
    /// Congestion control.
    pub cc: ControlKind,
    /// HyStart++ for reno and cubic (RFC 9406).
    pub hystart: bool,
    /// Timestamps with acknowledgements (draft-huitema-quic-ts), for a peer that wants them, and from the peer if the
    /// congestion control has a use for them.
    pub timestamps: bool,
    /// Throughput advice of the network.
    pub scone: SconeUse,
    /// Largest UDP payload sent, in bytes; at least 1200 (RFC 9000 14). Each path begins there and is probed up to this.
    pub max_payload_bytes: usize,
    /// Initial congestion window, in packets.
    pub initial_window_packets: usize,
    /// Receive window of a stream at the start, in bytes.
    pub stream_window_bytes: u64,
    /// Limit of quiche's doubling rule for it.
    pub max_stream_window_bytes: u64,
    /// Receive window of the connection at the start, in bytes.
    pub conn_window_bytes: u64,
    /// Limit of quiche's doubling rule for it.
    pub max_conn_window_bytes: u64,
    /// A connection is given up after so long without a packet.
    pub idle_timeout: Duration,
}

impl Transport {
    /// Writes the options into a config made with its certificates.
    pub fn apply(&self, config: &mut quiche::Config) -> Result<(), quiche::Error> {
        let wire: Vec<&[u8]> = self.alpn.iter().map(|a| a.wire()).collect();
        config.set_application_protos(&wire)?;
        config.set_cc_algorithm(self.cc.algorithm);
        config.enable_hystart(self.hystart);
        hooks::set_timestamps(config, self.what_of_timestamps());
        hooks::set_scone(config, self.scone != SconeUse::Off);
        config.set_max_send_udp_payload_size(self.max_payload_bytes);
        config.discover_pmtu(self.max_payload_bytes > BASE_MTU_BYTES);
        config.set_max_recv_udp_payload_size(MAX_PAYLOAD_BYTES);
        config.set_initial_congestion_window_packets(self.initial_window_packets);
        config.set_initial_max_data(self.conn_window_bytes);
        config.set_max_connection_window(self.max_conn_window_bytes);
        config.set_initial_max_stream_data_bidi_local(self.stream_window_bytes);
        config.set_initial_max_stream_data_bidi_remote(self.stream_window_bytes);
        config.set_initial_max_stream_data_uni(self.stream_window_bytes);
        config.set_max_stream_window(self.max_stream_window_bytes);
        config.set_initial_max_streams_bidi(100);
        config.set_initial_max_streams_uni(100);
        config.set_max_idle_timeout(self.idle_timeout.as_millis() as u64);
        config.set_active_connection_id_limit(CID_LIMIT);
        Ok(())
    }

    fn what_of_timestamps(&self) -> Timestamps {
        match (self.timestamps, self.cc.profile) {
            (false, _) => Timestamps::Off,
            // The paper has round-trip times alone.
            (true, None | Some(Profile::Paper)) => Timestamps::Offered,
            (true, Some(Profile::Own)) => Timestamps::WantedAndOffered,
        }
    }
}
