// SPDX-License-Identifier: Apache-2.0
//! The few calls of Linux's packet sockets that no crate wraps, each a thin safe function.
mod owners;
mod privileges;
mod ring;

pub use owners::{listener_at, packet_user};
pub use privileges::{become_user, give_up_capabilities};
pub use ring::{Offload, ROOM, Ring, RingFrame, ring_share_bytes};

use std::ffi::CString;
use std::io::{Error, Result};
use std::mem::{MaybeUninit, size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::null_mut;

fn checked(result: libc::c_int) -> Result<libc::c_int> {
    if result < 0 {
        return Err(Error::last_os_error());
    }
    Ok(result)
}

/// Fixes the limits of free memory that glibc's allocator keeps, at its own initial 128 KiB: they would grow with the largest
/// block that was freed, in an arena for each thread. Other allocators are left as they are.
pub fn limit_free_memory() {
    #[cfg(target_env = "gnu")]
    for limit in [libc::M_TRIM_THRESHOLD, libc::M_MMAP_THRESHOLD] {
        // SAFETY: the call takes no pointers. Where it fails, the limit stays as it is.
        unsafe {
            libc::mallopt(limit, 128 << 10);
        }
    }
}

/// Gives free memory back to the kernel: compilers of large programs leave tens of megabytes in the arenas of their threads.
pub fn return_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call takes no pointers, and any thread may make it.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// A raw packet socket that receives nothing until it is bound with a protocol.
pub fn packet_socket() -> Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the call takes no pointers, and the descriptor it gives is ours alone.
    unsafe { Ok(OwnedFd::from_raw_fd(checked(libc::socket(libc::AF_PACKET, kind, 0))?)) }
}

/// A socket to ask about interfaces with, which needs no privilege.
pub fn query_socket() -> Result<OwnedFd> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes no pointers, and the descriptor it gives is ours alone.
    unsafe { Ok(OwnedFd::from_raw_fd(checked(libc::socket(libc::AF_UNIX, kind, 0))?)) }
}

fn set<T>(fd: RawFd, level: libc::c_int, name: libc::c_int, value: &T) -> Result<()> {
    // SAFETY: `value` is a plain structure of that size for the length of the call.
    let result = unsafe {
        libc::setsockopt(fd, level, name, std::ptr::from_ref(value).cast(), size_of::<T>() as libc::socklen_t)
    };
    checked(result).map(drop)
}

/// Sets an option of a packet socket.
pub fn set_packet_option<T>(fd: &OwnedFd, name: libc::c_int, value: &T) -> Result<()> {
    set(fd.as_raw_fd(), libc::SOL_PACKET, name, value)
}

/// Send buffer, past the system's limit when allowed; gives the size that the kernel has chosen. The kernel counts a frame
/// with its buffer, and doubles what it is given.
///
/// # Errors
/// The kernel sets or gives no size.
pub fn set_send_buffer(fd: &OwnedFd, bytes: usize) -> Result<usize> {
    let half = libc::c_int::try_from(bytes / 2).unwrap_or(libc::c_int::MAX);
    set(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &half)
        .or_else(|_| set(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, &half))?;
    let (mut chosen, mut length) = (0 as libc::c_int, size_of::<libc::c_int>() as libc::socklen_t);
    let to = std::ptr::from_mut(&mut chosen).cast();
    // SAFETY: both pointers are to variables of the sizes given.
    checked(unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, to, &mut length) })?;
    Ok(usize::try_from(chosen).unwrap_or(0))
}

/// Bytes of kernel memory in frames of a socket that its interface has not sent yet.
///
/// # Errors
/// The kernel gives no number.
pub fn unsent_bytes(fd: &OwnedFd) -> Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the call writes one int.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ as _, &mut bytes) })?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// Binds a packet socket to an interface; `protocol` 0 receives nothing.
pub fn bind(fd: &OwnedFd, index: u32, protocol: u16) -> Result<()> {
    // SAFETY: sockaddr_ll is plain data, zeroes are valid.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index as libc::c_int;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address is complete and lives as long as the call.
    checked(unsafe { libc::bind(fd.as_raw_fd(), std::ptr::from_ref(&address).cast(), length) }).map(drop)
}

/// `struct fanout_args` of linux/if_packet.h on a little-endian machine.
#[repr(C)]
struct Fanout {
    id: u16,
    kind: u16,
    max_members: u32,
}

/// Makes a bound packet socket the only member of a fanout group of this network namespace.
///
/// # Errors
/// `ENOSPC`: another socket of the same protocol is the member. `EINVAL`: it is a group of another kind.
pub fn join_alone(fd: &OwnedFd, id: u16) -> Result<()> {
    let group = Fanout { id, kind: libc::PACKET_FANOUT_LB as u16, max_members: 1 };
    set_packet_option(fd, libc::PACKET_FANOUT, &group)
}

/// Makes an interface take frames for other stations too, for as long as the socket is open.
pub fn promiscuous(fd: &OwnedFd, index: u32) -> Result<()> {
    // SAFETY: packet_mreq is plain data, zeroes are valid.
    let mut request: libc::packet_mreq = unsafe { zeroed() };
    request.mr_ifindex = index as libc::c_int;
    request.mr_type = libc::PACKET_MR_PROMISC as u16;
    set_packet_option(fd, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// The error that waits on a socket, which clears it.
pub fn take_error(fd: &OwnedFd) -> Result<()> {
    let (mut code, mut length) = (0 as libc::c_int, size_of::<libc::c_int>() as libc::socklen_t);
    let to = std::ptr::from_mut(&mut code).cast();
    // SAFETY: both pointers are to variables of the sizes given.
    checked(unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ERROR, to, &mut length) })?;
    if code == 0 { Ok(()) } else { Err(Error::from_raw_os_error(code)) }
}

/// Frames that did not fit the ring since the last call.
pub fn ring_drops(fd: &OwnedFd) -> Result<u32> {
    // SAFETY: tpacket_stats is plain data, zeroes are valid.
    let mut stats: libc::tpacket_stats = unsafe { zeroed() };
    let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    let to = std::ptr::from_mut(&mut stats).cast();
    // SAFETY: both pointers are to variables of the sizes given.
    checked(unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, to, &mut length) })?;
    Ok(stats.tp_drops)
}

/// Properties of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The kernel's number for the interface.
    pub index: u32,
    /// The longest frame, without its Ethernet header, in bytes.
    pub mtu: u32,
    /// It is up, and so is the other end.
    pub up: bool,
    /// The kernel's number of its link type, `ARPHRD_...`.
    pub hardware: u16,
}

/// Looks an interface up by its name; any socket will do.
pub fn link(fd: &OwnedFd, name: &str) -> Result<Link> {
    let no_such = || Error::from_raw_os_error(libc::ENODEV);
    let c_name = CString::new(name).map_err(|_| no_such())?;
    if c_name.as_bytes_with_nul().len() > libc::IFNAMSIZ {
        return Err(no_such());
    }
    // SAFETY: ifreq is plain data; the name with its end fits it, as just checked; each call fills the member read.
    unsafe {
        let mut request: libc::ifreq = zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(c_name.as_bytes_with_nul()) {
            *to = *from as libc::c_char;
        }
        checked(libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFINDEX as _, &mut request))?;
        let index = request.ifr_ifru.ifru_ifindex as u32;
        checked(libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFMTU as _, &mut request))?;
        let mtu = request.ifr_ifru.ifru_mtu as u32;
        checked(libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFFLAGS as _, &mut request))?;
        let up = libc::IFF_UP | libc::IFF_RUNNING;
        let up = i32::from(request.ifr_ifru.ifru_flags) & up == up;
        checked(libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFHWADDR as _, &mut request))?;
        Ok(Link { index, mtu, up, hardware: request.ifr_ifru.ifru_hwaddr.sa_family })
    }
}

/// A netlink socket that becomes readable when a link of this network namespace changes.
pub fn link_changes() -> Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the descriptor is ours alone; the address is complete and lives as long as the call.
    unsafe {
        let fd = OwnedFd::from_raw_fd(checked(libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE))?);
        let mut address: libc::sockaddr_nl = zeroed();
        address.nl_family = libc::AF_NETLINK as u16;
        address.nl_groups = libc::RTMGRP_LINK as u32;
        let length = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
        checked(libc::bind(fd.as_raw_fd(), std::ptr::from_ref(&address).cast(), length))?;
        Ok(fd)
    }
}

/// Reads and drops the queue of a socket.
pub fn discard(fd: &OwnedFd) {
    let mut buffer = [0u8; 8192];
    // SAFETY: the buffer has the given length. ENOBUFS (messages were lost) is as good as a message here.
    while unsafe { libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) } > 0
        || Error::last_os_error().raw_os_error() == Some(libc::ENOBUFS)
    {}
}

/// Blocks these signals for this thread and those it starts, and gives a descriptor to read them from.
pub fn signals(which: &[libc::c_int]) -> Result<OwnedFd> {
    // SAFETY: the set is initialised by sigemptyset before use; the descriptor is ours alone.
    unsafe {
        let mut set: libc::sigset_t = zeroed();
        libc::sigemptyset(&mut set);
        for signal in which {
            libc::sigaddset(&mut set, *signal);
        }
        let code = libc::pthread_sigmask(libc::SIG_BLOCK, &set, null_mut());
        if code != 0 {
            return Err(Error::from_raw_os_error(code));
        }
        Ok(OwnedFd::from_raw_fd(checked(libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))?))
    }
}

/// The next signal that came.
pub fn next_signal(fd: &OwnedFd) -> Option<libc::c_int> {
    // SAFETY: signalfd_siginfo is plain data, and read only when all of it was written.
    unsafe {
        let mut info: libc::signalfd_siginfo = zeroed();
        let size = size_of::<libc::signalfd_siginfo>();
        let n = libc::read(fd.as_raw_fd(), std::ptr::from_mut(&mut info).cast(), size);
        (n == size as isize).then_some(info.ssi_signo as libc::c_int)
    }
}

/// Sends frames of one buffer, given as ranges, until one is not taken; gives the number sent.
///
/// # Errors
/// Why the first was not taken.
pub fn send_batch(fd: &OwnedFd, buffer: &[u8], frames: &[std::ops::Range<usize>]) -> Result<usize> {
    const AT_ONCE: usize = 64;
    let n = frames.len().min(AT_ONCE);
    let mut vectors = [const { MaybeUninit::<libc::iovec>::uninit() }; AT_ONCE];
    let mut messages = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; AT_ONCE];
    for ((range, vector), message) in frames.iter().zip(&mut vectors).zip(&mut messages) {
        let frame = &buffer[range.clone()];
        let vector = vector.write(libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() });
        // SAFETY: plain data, zeroes are valid.
        let message = message.write(unsafe { zeroed() });
        message.msg_hdr.msg_iov = vector;
        message.msg_hdr.msg_iovlen = 1;
    }
    // SAFETY: the first `n` messages are written; each points at its own vector, each vector into `buffer`, and the kernel
    // only reads them.
    checked(unsafe { libc::sendmmsg(fd.as_raw_fd(), messages.as_mut_ptr().cast(), n as u32, libc::MSG_DONTWAIT as _) })
        .map(|n| n as usize)
}
