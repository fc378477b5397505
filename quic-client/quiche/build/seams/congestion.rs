// SPDX-License-Identifier: Apache-2.0
//! The seams through which a congestion control of ours works.

use super::Seam;

pub const SEAMS: &[Seam] = &[
    Seam {
        name: "congestion-window",
        file: "src/recovery/congestion/mod.rs",
        from: "pub(crate) fn congestion_window(&self) -> usize {
        self.congestion_window
    }",
        to: "pub(crate) fn congestion_window(&self) -> usize {
        crate::hooks::congestion_window(self.congestion_window)
    }",
    },
    Seam {
        name: "congestion-window-bbr2",
        file: "src/recovery/gcongestion/bbr2.rs",
        from: "fn get_congestion_window(&self) -> usize {
        self.cwnd
    }",
        to: "fn get_congestion_window(&self) -> usize {
        crate::hooks::congestion_window(self.cwnd)
    }",
    },
    Seam {
        name: "pacing-rate",
        file: "src/recovery/gcongestion/bbr2.rs",
        from: "    ) -> Bandwidth {
        self.pacing_rate
    }",
        to: "    ) -> Bandwidth {
        crate::hooks::pacing_rate(self.pacing_rate)
    }",
    },
    Seam {
        name: "rtt-sample",
        file: "src/recovery/rtt.rs",
        from: "        self.latest_rtt = latest_rtt;",
        to: "        self.latest_rtt = crate::hooks::rtt_sample(latest_rtt);",
    },
    Seam {
        name: "pacer-debt",
        file: "src/recovery/gcongestion/pacer.rs",
        from: "        self.ideal_next_packet_send_time.set_max(sent_time);
",
        to: "        if crate::hooks::is_paced_elsewhere() {
            self.ideal_next_packet_send_time = ReleaseTime::Immediate;
        }
        self.ideal_next_packet_send_time.set_max(sent_time);
",
    },
];
