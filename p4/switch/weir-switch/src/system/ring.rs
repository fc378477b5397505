// SPDX-License-Identifier: Apache-2.0
//! A receive ring: frames in memory that is shared with the kernel.
use super::{Link, bind, packet_socket, promiscuous, set, set_packet_option};
use std::io::{Error, Result};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

/// One frame in a [`Ring`].
#[derive(Debug, PartialEq, Eq)]
pub struct RingFrame<'a> {
    /// Room of [`ROOM`] bytes, then the frame; a cut-off part is missing.
    pub bytes: &'a mut [u8],
    /// Length on the wire.
    pub length: usize,
    /// Part of the frame that the kernel took out, to be put back: protocol and control of the VLAN tag.
    pub vlan: Option<(u16, u16)>,
    /// Remaining work on the frame.
    pub offload: Offload,
}

/// Work that the sender left to missing hardware.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Where the checksum starts and where in it the result goes.
    pub checksum: Option<(usize, usize)>,
    /// Several packets in one.
    pub segments: bool,
}

/// Bytes free before each frame: a VLAN tag.
pub const ROOM: usize = 4;

/// `struct virtio_net_hdr`.
const VNET_BYTES: usize = 10;
const VNET_NEEDS_CSUM: u8 = 1;

/// A TPACKET_V2 receive ring. V3's blocks would be handed over full or late; here each frame is visible at once.
pub struct Ring {
    fd: OwnedFd,
    memory: NonNull<u8>,
    frame_bytes: usize,
    frames: usize,
    at: usize,
}

/// Most memory of a ring. At 2 kB a frame, 3 ms of 300,000 packets/s.
const RING_BYTES: usize = 2 << 20;
const BLOCK_BYTES: usize = 64 << 10;
/// Frames for which each ring has room, whatever its share of the memory is.
const FRAMES_LEAST: usize = 16;

/// The memory of each of so many rings that share a budget. The ring reports a budget that is too small.
pub fn ring_share_bytes(budget_bytes: usize, rings: usize) -> usize {
    RING_BYTES.min(budget_bytes / rings.max(1))
}

/// Request to the kernel for a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    frame_bytes: usize,
    block_bytes: usize,
    blocks: usize,
}

impl Shape {
    /// The largest of at most `bytes`, but with room for [`FRAMES_LEAST`] frames of `mtu` bytes.
    fn of(mtu: u32, bytes: usize) -> Shape {
        let longest = mtu as usize + 14 + 2 * 4;
        let frame_bytes = (libc::TPACKET2_HDRLEN + 32 + ROOM + VNET_BYTES + longest).next_power_of_two();
        let block_bytes = BLOCK_BYTES.max(frame_bytes);
        let least = (FRAMES_LEAST * frame_bytes).div_ceil(block_bytes);
        Shape { frame_bytes, block_bytes, blocks: (bytes / block_bytes).max(least) }
    }

    fn frames(self) -> usize {
        self.bytes() / self.frame_bytes
    }

    fn bytes(self) -> usize {
        self.blocks * self.block_bytes
    }
}

// SAFETY: the memory is the ring's alone, wherever it is.
unsafe impl Send for Ring {}

impl Ring {
    /// A ring for frames up to the interface's MTU and two VLAN tags, in at most so many bytes if [`FRAMES_LEAST`] of
    /// them go into those. Nothing comes in before [`Ring::start`].
    pub fn open(link: Link, bytes: usize) -> Result<Ring> {
        let fd = packet_socket()?;
        let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
        set_packet_option(&fd, libc::PACKET_VERSION, &version)?;
        set_packet_option(&fd, libc::PACKET_VNET_HDR, &1i32)?;
        set_packet_option(&fd, libc::PACKET_RESERVE, &(ROOM as u32))?;
        set_packet_option(&fd, libc::PACKET_IGNORE_OUTGOING, &1i32)?;
        let shape = Shape::of(link.mtu, bytes);
        let request = libc::tpacket_req {
            tp_block_size: shape.block_bytes as u32,
            tp_block_nr: shape.blocks as u32,
            tp_frame_size: shape.frame_bytes as u32,
            tp_frame_nr: shape.frames() as u32,
        };
        set_packet_option(&fd, libc::PACKET_RX_RING, &request)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let memory = unsafe { libc::mmap(null_mut(), shape.bytes(), protection, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
        let memory = NonNull::new(memory.cast::<u8>()).filter(|m| m.as_ptr().cast() != libc::MAP_FAILED);
        let memory = memory.ok_or_else(Error::last_os_error)?;
        let ring = Ring { fd, memory, frame_bytes: shape.frame_bytes, frames: shape.frames(), at: 0 };
        promiscuous(&ring.fd, link.index)?;
        Ok(ring)
    }

    /// Takes in all frames of an interface from now on.
    pub fn start(&self, link: Link) -> Result<()> {
        bind(&self.fd, link.index, libc::ETH_P_ALL as u16)
    }

    /// Takes in no more; frames there can still be read. Unlike unbinding it does not wait in the kernel, so that
    /// another ring can go on where this one ends.
    pub fn stop(&self) -> Result<()> {
        let mut nothing = libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };
        let program = libc::sock_fprog { len: 1, filter: &mut nothing };
        set(self.fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// Readable when there are frames.
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Shows the next frame to `f`, then gives its place back to the kernel. `None`: there is no next one.
    pub fn next<R>(&mut self, f: impl FnOnce(RingFrame<'_>) -> R) -> Option<R> {
        // SAFETY: `at` is below `frames`, so the slot is in the mapping. The kernel leaves it alone from the moment
        // its status says USER (read with acquire) until the status is KERNEL again (written with release), and
        // headers and offsets that it writes lie within the slot.
        unsafe {
            let slot = self.memory.as_ptr().add(self.at * self.frame_bytes);
            let status_at = AtomicU32::from_ptr(slot.cast());
            let status = status_at.load(Ordering::Acquire);
            if status & libc::TP_STATUS_USER == 0 {
                return None;
            }
            let header: libc::tpacket2_hdr = slot.cast::<libc::tpacket2_hdr>().read();
            let (mac, snapped) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
            let vnet = std::slice::from_raw_parts(slot.add(mac - VNET_BYTES), VNET_BYTES);
            let word = |at: usize| usize::from(u16::from_ne_bytes([vnet[at], vnet[at + 1]]));
            let offload = Offload {
                checksum: (vnet[0] & VNET_NEEDS_CSUM != 0).then(|| (word(6), word(8))),
                segments: vnet[1] != 0,
            };
            let vlan = (status & libc::TP_STATUS_VLAN_VALID != 0).then(|| {
                let known = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
                (if known { header.tp_vlan_tpid } else { 0x8100 }, header.tp_vlan_tci)
            });
            let bytes = std::slice::from_raw_parts_mut(slot.add(mac - ROOM), snapped + ROOM);
            let result = f(RingFrame { bytes, length: header.tp_len as usize, vlan, offload });
            status_at.store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.at = (self.at + 1) % self.frames;
            Some(result)
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `open`, which nothing refers to any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.frame_bytes * self.frames) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_of_few_ports_are_large_and_those_of_many_share() {
        let budget = 64 << 20;
        assert_eq!(ring_share_bytes(budget, 1), 2 << 20);
        assert_eq!(ring_share_bytes(budget, 32), 2 << 20);
        for rings in [33, 100, 255, 511] {
            let bytes = rings * Shape::of(1500, ring_share_bytes(budget, rings)).bytes();
            assert!(bytes <= budget && bytes > budget / 3, "{rings} rings: {bytes} bytes");
        }
    }

    #[test]
    fn each_ring_has_room_for_some_frames_of_its_interface() {
        assert_eq!(Shape::of(1500, 2 << 20), Shape { frame_bytes: 2048, block_bytes: 64 << 10, blocks: 32 });
        for (mtu, bytes) in [(68, 0), (1500, 0), (9000, 0), (9000, 128 << 10), (65_535, 0), (65_535, 2 << 20)] {
            let shape = Shape::of(mtu, bytes);
            assert!(shape.frames() >= FRAMES_LEAST, "MTU {mtu}: {shape:?}");
            assert!(shape.frame_bytes > mtu as usize && shape.block_bytes.is_multiple_of(shape.frame_bytes));
        }
    }
}
