// SPDX-License-Identifier: Apache-2.0
//! A face on a network interface: a packet socket (packet(7)) for our EtherType alone, with our group address joined.

use super::{Face, FaceCounts};
use crate::packet::{ETHERTYPE, GROUP_ADDRESS, HEADER_BYTES, Header, MAX_PAYLOAD_BYTES};
use std::ffi::CString;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::Arc;

/// Packets of one system call at most.
const BATCH: usize = 64;
const ETHERNET_BYTES: usize = 14;
const FRAME_BYTES: usize = ETHERNET_BYTES + HEADER_BYTES + MAX_PAYLOAD_BYTES;
/// Room for one incoming frame. A longer one was not made by our rules, and reads as malformed.
const SLOT_BYTES: usize = 2048;
/// Socket buffers asked for: the interface's own queue is to decide on drops, not the socket.
const BUFFER_BYTES: libc::c_int = 8 << 20;
/// The MTU that packets need.
const LEAST_MTU: i32 = (HEADER_BYTES + MAX_PAYLOAD_BYTES) as i32;

/// Why a face can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum FaceError {
    /// A name that no interface can have.
    #[error("interface '{0}': a name has 1 to 15 bytes")]
    BadName(String),
    /// No such interface.
    #[error("interface '{0}': there is no such interface; `ip link` lists them")]
    Missing(String),
    /// No permission for packet sockets.
    #[error(
        "interface '{0}': not permitted: packets by name need CAP_NET_RAW. Run it as root, or give the program the right: sudo setcap cap_net_raw+ep \"$(readlink -f \"$(command -v weir-icn)\")\""
    )]
    NotPermitted(String),
    /// Not an Ethernet.
    #[error("interface '{0}' carries no Ethernet frames, which packets by name are sent in")]
    NotEthernet(String),
    /// Frames of it are too short.
    #[error(
        "interface '{0}' has an MTU of {1} bytes; packets by name need {LEAST_MTU}: ip link set {0} mtu {LEAST_MTU}"
    )]
    SmallMtu(String, i32),
    /// Any other error of the system.
    #[error("interface '{0}': {1}")]
    System(String, io::Error),
}

/// A face on a network interface.
pub struct PacketSocket {
    receiving: Receiving,
    sending: Sending,
}

/// Where packets arrive.
pub struct Receiving {
    fd: Arc<OwnedFd>,
    interface: CString,
    index: libc::c_int,
    counts: FaceCounts,
    bytes: Vec<u8>,
    messages: Messages,
}

/// Where packets leave.
pub struct Sending {
    fd: Arc<OwnedFd>,
    ethernet: [u8; ETHERNET_BYTES],
    counts: FaceCounts,
    bytes: Vec<u8>,
    lengths: Vec<usize>,
    messages: Messages,
}

/// Arguments of one system call on a batch of messages.
struct Messages {
    iovs: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

// SAFETY: the pointers in `iovs` and `headers` are written before each system call and never read after it.
unsafe impl Send for Messages {}

impl Messages {
    fn new() -> Messages {
        // SAFETY: all zeros are valid values of these plain C structures.
        let (iov, header) = unsafe { (zeroed(), zeroed()) };
        Messages { iovs: vec![iov; BATCH], headers: vec![header; BATCH] }
    }

    /// Points message `i` at `len` bytes from `base` on.
    fn describe(&mut self, i: usize, base: *mut u8, len: usize) {
        self.iovs[i] = libc::iovec { iov_base: base.cast(), iov_len: len };
        let header = &mut self.headers[i].msg_hdr;
        header.msg_iov = &mut self.iovs[i];
        header.msg_iovlen = 1;
    }
}

impl PacketSocket {
    /// Opens a face on an interface.
    ///
    /// # Errors
    /// The interface can't be used, or the right to do so is missing, with the remedy.
    pub fn open(interface: &str) -> Result<PacketSocket, FaceError> {
        let system = |e: io::Error| FaceError::System(interface.to_owned(), e);
        let name = match CString::new(interface) {
            Ok(name) if (1..libc::IFNAMSIZ).contains(&interface.len()) => name,
            _ => return Err(FaceError::BadName(interface.to_owned())),
        };
        // SAFETY: the name is a C string.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) } as libc::c_int;
        if index == 0 {
            return Err(FaceError::Missing(interface.to_owned()));
        }
        let fd = new_socket().map_err(|e| match e.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => FaceError::NotPermitted(interface.to_owned()),
            _ => system(e),
        })?;
        let address = bound(&fd, index).map_err(system)?;
        if !matches!(address.sll_hatype, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK) {
            return Err(FaceError::NotEthernet(interface.to_owned()));
        }
        let mtu = mtu(&fd, &name).map_err(system)?;
        if mtu < LEAST_MTU {
            return Err(FaceError::SmallMtu(interface.to_owned(), mtu));
        }
        join_group(&fd, index).map_err(system)?;
        let mut ethernet = [0; ETHERNET_BYTES];
        ethernet[..6].copy_from_slice(&GROUP_ADDRESS);
        ethernet[6..12].copy_from_slice(&address.sll_addr[..6]);
        ethernet[12..].copy_from_slice(&ETHERTYPE.to_be_bytes());
        let fd = Arc::new(fd);
        Ok(PacketSocket {
            receiving: Receiving {
                fd: Arc::clone(&fd),
                interface: name,
                index,
                counts: FaceCounts::default(),
                bytes: vec![0; BATCH * SLOT_BYTES],
                messages: Messages::new(),
            },
            sending: Sending {
                fd,
                ethernet,
                counts: FaceCounts::default(),
                bytes: Vec::with_capacity(BATCH * FRAME_BYTES),
                lengths: Vec::with_capacity(BATCH),
                messages: Messages::new(),
            },
        })
    }

    /// Both halves, for who sends while what arrived is looked at.
    pub fn split(&mut self) -> (&mut Receiving, &mut Sending) {
        (&mut self.receiving, &mut self.sending)
    }
}

impl Sending {
    /// Takes a packet, which leaves when the batch is full, and at [`Sending::flush`] at the latest.
    pub fn push(&mut self, header: &Header, payload: &[u8]) {
        self.bytes.extend_from_slice(&self.ethernet);
        self.bytes.extend_from_slice(&header.bytes(payload.len()));
        self.bytes.extend_from_slice(payload);
        self.lengths.push(ETHERNET_BYTES + HEADER_BYTES + payload.len());
        if self.lengths.len() == BATCH {
            self.flush();
        }
    }

    /// Sends the pushed packets. Those that the system rejects are dropped and counted, as a full queue would.
    pub fn flush(&mut self) {
        let count = self.lengths.len();
        let mut at = 0;
        for i in 0..count {
            let len = self.lengths[i];
            let base = self.bytes[at..].as_mut_ptr();
            self.messages.describe(i, base, len);
            at += len;
        }
        let mut first = 0;
        while first < count {
            // SAFETY: `describe` made each header point at bytes of `self` with their true lengths.
            let sent = unsafe {
                let headers = self.messages.headers[first..].as_mut_ptr();
                libc::sendmmsg(self.fd.as_raw_fd(), headers, (count - first) as _, 0)
            };
            if sent > 0 {
                let sent = sent as usize;
                self.counts.sent_packets += sent as u64;
                self.counts.sent_bytes += self.lengths[first..first + sent].iter().sum::<usize>() as u64;
                first += sent;
                continue;
            }
            match io::Error::last_os_error().raw_os_error() {
                Some(libc::EINTR) => {}
                // The buffer is full.
                Some(libc::EAGAIN) => {
                    self.counts.send_dropped_packets += (count - first) as u64;
                    break;
                }
                // The queue dropped this one (ENOBUFS), or the interface is down: the others may pass.
                _ => {
                    self.counts.send_dropped_packets += 1;
                    first += 1;
                }
            }
        }
        self.bytes.clear();
        self.lengths.clear();
    }
}

impl Receiving {
    /// Hands what waits to `take`, packet by packet: as many as one system call gives. Whether there may be more.
    ///
    /// # Errors
    /// The interface was removed. One that is down is no error: it may come back.
    pub fn receive(&mut self, take: &mut dyn FnMut(&Header, &[u8])) -> io::Result<bool> {
        let base = self.bytes.as_mut_ptr();
        for i in 0..BATCH {
            self.messages.describe(i, base.wrapping_add(i * SLOT_BYTES), SLOT_BYTES);
        }
        // SAFETY: every header points at its slot of `bytes` with its true length.
        let received = unsafe {
            let flags = libc::MSG_DONTWAIT;
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                self.messages.headers.as_mut_ptr(),
                BATCH as _,
                flags as _,
                ptr::null_mut(),
            )
        };
        if received < 0 {
            let e = io::Error::last_os_error();
            return match e.raw_os_error() {
                Some(libc::EAGAIN) => Ok(false),
                Some(libc::EINTR) => Ok(true),
                Some(libc::ENETDOWN) if !self.is_gone() => Ok(true),
                Some(libc::ENETDOWN) => {
                    let text = format!("interface '{}' is gone", self.interface.to_string_lossy());
                    Err(io::Error::new(io::ErrorKind::NotFound, text))
                }
                _ => Err(e),
            };
        }
        for i in 0..received as usize {
            let frame = &self.bytes[i * SLOT_BYTES..][..self.messages.headers[i].msg_len as usize];
            match read_frame(frame) {
                Some((header, payload)) => {
                    self.counts.received_packets += 1;
                    self.counts.received_bytes += (ETHERNET_BYTES + HEADER_BYTES + payload.len()) as u64;
                    take(&header, payload);
                }
                None => self.counts.malformed_frames += 1,
            }
        }
        Ok(received as usize == BATCH)
    }

    fn is_gone(&self) -> bool {
        // SAFETY: the name is a C string.
        unsafe { libc::if_nametoindex(self.interface.as_ptr()) as libc::c_int != self.index }
    }
}

impl Face for PacketSocket {
    fn push(&mut self, header: &Header, payload: &[u8]) {
        self.sending.push(header, payload);
    }

    fn flush(&mut self) {
        self.sending.flush();
    }

    fn receive(&mut self, take: &mut dyn FnMut(&Header, &[u8])) -> io::Result<bool> {
        self.receiving.receive(take)
    }

    fn fd(&self) -> RawFd {
        self.receiving.fd.as_raw_fd()
    }

    fn counts(&self) -> FaceCounts {
        let (received, sent) = (&self.receiving.counts, &self.sending.counts);
        FaceCounts {
            sent_packets: sent.sent_packets,
            sent_bytes: sent.sent_bytes,
            send_dropped_packets: sent.send_dropped_packets,
            ..*received
        }
    }
}

/// The packet in an Ethernet frame, if it holds one.
pub(crate) fn read_frame(frame: &[u8]) -> Option<(Header, &[u8])> {
    Header::read(frame.get(ETHERNET_BYTES..)?).ok()
}

/// A packet socket that receives nothing yet (protocol 0).
fn new_socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers involved; the descriptor returned is ours alone.
    let fd = unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    for (force, plain) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)] {
        // The forced one needs CAP_NET_ADMIN; the plain one is cut down to the system's limit.
        if set(&fd, libc::SOL_SOCKET, force, &BUFFER_BYTES).is_err() {
            set(&fd, libc::SOL_SOCKET, plain, &BUFFER_BYTES)?;
        }
    }
    Ok(fd)
}

fn set<T>(fd: &OwnedFd, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the pointer and length describe `value`, which outlives the call.
    let rc = unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, name, ptr::from_ref(value).cast(), size_of::<T>() as libc::socklen_t)
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Binds to our EtherType on the interface; gives the interface's own address and kind of hardware.
fn bound(fd: &OwnedFd, index: libc::c_int) -> io::Result<libc::sockaddr_ll> {
    // SAFETY: all zeros are a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as _;
    address.sll_protocol = ETHERTYPE.to_be();
    address.sll_ifindex = index;
    let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the pointers describe `address` and its length, which outlive the calls.
    let rc = unsafe {
        match libc::bind(fd.as_raw_fd(), ptr::from_ref(&address).cast(), len) {
            0 => libc::getsockname(fd.as_raw_fd(), ptr::from_mut(&mut address).cast(), &mut len),
            failed => failed,
        }
    };
    if rc == 0 { Ok(address) } else { Err(io::Error::last_os_error()) }
}

fn mtu(fd: &OwnedFd, interface: &CString) -> io::Result<i32> {
    // SAFETY: all zeros are a valid ifreq; the name is shorter than its room; the kernel fills in the MTU.
    unsafe {
        let mut request: libc::ifreq = zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(interface.as_bytes()) {
            *to = *from as libc::c_char;
        }
        match libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFMTU as _, &mut request) {
            0 => Ok(request.ifr_ifru.ifru_mtu),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn join_group(fd: &OwnedFd, index: libc::c_int) -> io::Result<()> {
    let mut address = [0; 8];
    address[..6].copy_from_slice(&GROUP_ADDRESS);
    let request = libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_MULTICAST as _,
        mr_alen: 6,
        mr_address: address,
    };
    set(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
}
