// SPDX-License-Identifier: Apache-2.0
//! The seams of path MTU discovery (RFC 8899), and the sizes of packets that loss recovery acknowledges or declares lost.

use super::Seam;

pub const SEAMS: &[Seam] = &[
    Seam {
        name: "mtu-handshake",
        file: "src/lib.rs",
        from: "                let size = if self.handshake_confirmed || self.handshake_completed
                {",
        to: "                let size = if crate::hooks::may_probe_mtu(self.handshake_confirmed, self.handshake_completed) {",
    },
    Seam {
        name: "mtu-probe-path",
        file: "src/lib.rs",
        from: "            if let Ok(active_path) = self.paths.get_active_mut() {
                let should_probe_pmtu =",
        to: "            if let Some(active_path) = crate::hooks::mtu_probe_path(self.paths.get_mut(send_pid)?) {
                let should_probe_pmtu =",
    },
    Seam {
        name: "acked-size",
        file: "src/recovery/congestion/recovery.rs",
        from: "                        acked_bytes += unacked.size;
",
        to: "                        acked_bytes += unacked.size;
                        crate::hooks::acked_size(unacked.size);
",
    },
    Seam {
        name: "acked-size-bbr2",
        file: "src/recovery/gcongestion/recovery.rs",
        from: "                                acked_bytes += sent_bytes;
",
        to: "                                acked_bytes += sent_bytes;
                                crate::hooks::acked_size(sent_bytes);
",
    },
    Seam {
        name: "lost-size",
        file: "src/recovery/congestion/recovery.rs",
        from: "                if unacked.in_flight {
                    lost_bytes += unacked.size;
",
        to: "                if unacked.in_flight {
                    crate::hooks::lost_size(unacked.size);
                    lost_bytes += unacked.size;
",
    },
    Seam {
        name: "lost-size-bbr2",
        file: "src/recovery/gcongestion/recovery.rs",
        from: "                            lost_bytes += sent_bytes;
                        }
",
        to: "                            lost_bytes += sent_bytes;
                            crate::hooks::lost_size(sent_bytes);
                        }
",
    },
];
