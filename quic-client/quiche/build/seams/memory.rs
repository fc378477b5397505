// SPDX-License-Identifier: Apache-2.0
//! The seams for the memory of a connection: until it is acknowledged, or until it can be read.

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
        name: "unread",
        file: "src/stream/recv_buf.rs",
        from: "    /// the application, ordered by offset.
    data: ",
        to: "    /// the application, ordered by offset. `crate::hooks::unread` counts them.
    pub(crate) data: ",
    },
    Seam {
        name: "unread-alone",
        file: "src/stream/recv_buf.rs",
        from: "                self.data.insert(buf.max_off(), buf);",
        to: "                self.data.insert(buf.max_off(), crate::hooks::alone(buf));",
    },
    Seam {
        name: "unread-frames",
        file: "src/h3/stream.rs",
        from: "    state_buf: Vec<u8>,",
        to: "    /// `crate::hooks::unread_frames_bytes` counts it.
    pub(crate) state_buf: Vec<u8>,",
    },
    Seam {
        name: "unread-frames-streams",
        file: "src/h3/mod.rs",
        from: "    streams: crate::stream::StreamIdHashMap<stream::Stream>,",
        to: "    /// `crate::hooks::unread_frames_bytes` looks at all of them.
    pub(crate) streams: crate::stream::StreamIdHashMap<stream::Stream>,",
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
