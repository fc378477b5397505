// SPDX-License-Identifier: Apache-2.0
//! Bytes to an address that is not validated (RFC 9000 8.1, MUST: at most three times those that came from it).
//!
//! To report upstream: in quiche 0.30 `send_on_path` (`lib.rs`) pads a datagram that carries an Initial packet to 1200
//! bytes after `send_single` has taken the packets themselves off `max_send_bytes`. The padding is taken off nowhere. A
//! first flight of 1200 bytes whose sender is silent brings up to five times as many, and with our seam `timeout-apart`,
//! which pads more datagrams, up to nine. The padding belongs to the datagram's bytes: it has to be taken off too.

use super::Seam;

pub const SEAMS: &[Seam] = &[Seam {
    name: "padding",
    file: "src/lib.rs",
    from: "            done += pad_len;
",
    to: "            done += pad_len;
            let path = self.paths.get_mut(send_pid)?;
            path.max_send_bytes = path.max_send_bytes.saturating_sub(pad_len);
",
}];
