// SPDX-License-Identifier: Apache-2.0
//! A packet's bytes in a buffer that is used again, with room in front so that headers can grow without moving the
//! payload.

/// Bytes free in front of a fresh packet: two VLAN tags, an IPv6 header and a tunnel fit.
const HEADROOM_BYTES: usize = 128;

/// A packet's bytes.
#[derive(Clone, Debug, Default)]
pub struct Packet {
    buffer: Vec<u8>,
    start: usize,
}

impl Packet {
    /// The bytes from the first to the last.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// Whether there is anything to use again.
    pub(crate) fn has_buffer(&self) -> bool {
        self.buffer.capacity() > 0
    }

    /// Puts `bytes` in place of the old content; allocates only when the buffer has never held as many.
    pub fn fill(&mut self, bytes: &[u8]) {
        if self.buffer.len() < HEADROOM_BYTES {
            self.buffer.resize(HEADROOM_BYTES, 0);
        }
        self.buffer.truncate(HEADROOM_BYTES);
        self.buffer.extend_from_slice(bytes);
        self.start = HEADROOM_BYTES;
    }

    /// Gives up the first `n` bytes.
    pub fn advance(&mut self, n: usize) {
        self.start += n.min(self.len());
    }

    /// Keeps at most the first `n` bytes.
    pub fn truncate(&mut self, n: usize) {
        self.buffer.truncate(self.start.saturating_add(n));
    }

    /// Puts `head` in front.
    pub fn prepend(&mut self, head: &[u8]) {
        if head.len() > self.start {
            let more = head.len() - self.start + HEADROOM_BYTES;
            self.buffer.splice(0..0, std::iter::repeat_n(0, more));
            self.start += more;
        }
        self.start -= head.len();
        self.buffer[self.start..self.start + head.len()].copy_from_slice(head);
    }
}

impl From<&[u8]> for Packet {
    fn from(bytes: &[u8]) -> Packet {
        let mut p = Packet::default();
        p.fill(bytes);
        p
    }
}

impl std::ops::Deref for Packet {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.bytes()
    }
}

impl PartialEq for Packet {
    fn eq(&self, o: &Packet) -> bool {
        self.bytes() == o.bytes()
    }
}

impl Eq for Packet {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_grow_and_shrink_in_front_of_the_payload() {
        let mut p = Packet::from(&b"headpayload"[..]);
        p.advance(4);
        assert_eq!(p.bytes(), b"payload");
        p.prepend(b"longer head ");
        assert_eq!(p.bytes(), b"longer head payload");
        p.prepend(&[7; 1000]);
        assert_eq!(p.len(), 1019);
        assert_eq!(&p[..1000], &[7; 1000]);
        assert_eq!(&p[1000..], b"longer head payload");
        p.truncate(3);
        assert_eq!(p.bytes(), [7; 3]);
        p.advance(10);
        assert!(p.is_empty());
        p.fill(b"again");
        assert_eq!(p.bytes(), b"again");
    }
}
