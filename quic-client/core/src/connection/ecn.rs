// SPDX-License-Identifier: Apache-2.0
//! ECN of a connection, for its samples and reports.

use super::Conn;
use crate::report::samples::{EcnPathReport, EcnReport, EcnSample};
use quiche::hooks::{self, Codepoint, EcnMode, EcnState};

impl Conn {
    /// Sets the use of ECN, before the first datagram.
    pub fn set_ecn(&mut self, mode: EcnMode) {
        hooks::set_ecn(&mut self.quic, mode);
    }

    /// A datagram arrived with this TOS or traffic class byte.
    pub(super) fn arrived_with(&mut self, tos: u8) {
        self.ecn.count(tos);
        hooks::received_with(&mut self.quic, Codepoint::of_tos(tos));
    }

    /// ECN of the packets sent so far.
    pub(super) fn ecn_sample(&self) -> EcnSample {
        let (mode, total) = hooks::ecn_totals(&self.quic);
        EcnSample {
            state: hooks::ecn_state(&self.quic).map_or("off", EcnState::name),
            sent_ect0: if mode == EcnMode::Classic { total.sent } else { 0 },
            sent_ect1: if mode == EcnMode::L4s { total.sent } else { 0 },
            acked: total.acked,
            acked_ce: total.ce,
            failed: total.failures,
        }
    }

    /// The same, with each path that is known.
    pub fn ecn_report(&self) -> EcnReport {
        let total = self.ecn_sample();
        let paths = if total.state == "off" { Vec::new() } else { hooks::ecn_of_paths(&self.quic) };
        let paths = paths.into_iter().map(|path| EcnPathReport {
            local: path.local.to_string(),
            peer: path.peer.to_string(),
            state: path.state.name(),
            failure: path.failure.map(hooks::EcnFailure::name),
            sent: path.sent,
            acked: path.acked,
            lost: path.lost,
            ce: path.ce,
        });
        EcnReport { total, paths: paths.collect() }
    }
}
