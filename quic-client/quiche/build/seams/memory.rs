// SPDX-License-Identifier: Apache-2.0
//! The seams for what a connection keeps in memory until it is acknowledged.

use super::Seam;

pub const SEAMS: &[Seam] = &[
    Seam {
        name: "unacknowledged",
        file: "src/stream/mod.rs",
        from: "    /// Map of streams indexed by stream ID.
    streams: ",
        to: "    /// Map of streams indexed by stream ID. `crate::hooks::unacknowledged` looks at all of them.
    pub(crate) streams: ",
    },
    Seam {
        name: "sent-room",
        file: "src/recovery/congestion/recovery.rs",
        from: "            self.sent_packets.pop_front();
        }
",
        to: "            self.sent_packets.pop_front();
        }
        crate::hooks::give_room_back(&mut self.sent_packets);
",
    },
    Seam {
        name: "sent-room-bbr2",
        file: "src/recovery/gcongestion/recovery.rs",
        from: "            self.sent_packets.pop_front();
        }
",
        to: "            self.sent_packets.pop_front();
        }
        crate::hooks::give_room_back(&mut self.sent_packets);
",
    },
];
