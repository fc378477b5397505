// SPDX-License-Identifier: Apache-2.0
//! The sending half over pairs of Unix sockets, which are full like an interface behind a qdisc.
use super::*;
use rustix::event::{PollFd, PollFlags, poll};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

const PORTS: u32 = 3;

fn senders(threads: usize) -> (Senders, Vec<UnixDatagram>) {
    let mut senders = Senders::new().unwrap();
    let mut far = Vec::new();
    for port in 0..PORTS {
        let (near, other) = UnixDatagram::pair().unwrap();
        other.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        senders.add(port, format!("p{port}"), None);
        senders.renew(port as usize, Some(near.into())).unwrap();
        far.push(other);
    }
    senders.start_threads(threads).unwrap();
    (senders, far)
}

/// Waits for a full port as the packet thread does.
fn until_writable(senders: &mut Senders, at: usize) {
    while senders.senders[at].is_full {
        let line = senders.senders[at].line.clone();
        let socket = line.lock().fd().unwrap().try_clone().unwrap();
        poll(&mut [PollFd::new(&socket, PollFlags::OUT)], None).unwrap();
        senders.writable(at);
    }
}

/// Frames of a port whose fate is counted: each once.
fn counted(senders: &Senders, at: usize) -> u64 {
    let (sent, d, waiting) = senders.fates(at);
    sent.packets + d.down + d.too_long + d.queue_full + d.other + waiting as u64
}

/// Numbers of the frames that come out of each port, when `frames` have been sent to all in turn.
fn numbers(threads: usize, frames: u32, at_once: u32) {
    let (mut senders, far) = senders(threads);
    let readers: Vec<_> = far
        .into_iter()
        .map(|socket| {
            std::thread::spawn(move || {
                let mut bytes = [0; 64];
                (0..frames).for_each(|number| {
                    let n = socket.recv(&mut bytes).expect("a frame");
                    assert_eq!((n, &bytes[..4]), (60, number.to_be_bytes().as_slice()));
                });
            })
        })
        .collect();
    for number in 0..frames {
        for port in 0..PORTS {
            let mut frame = [0; 60];
            frame[..4].copy_from_slice(&number.to_be_bytes());
            let takes_more = senders.frame(port, &frame);
            assert_eq!(takes_more, !senders.senders[port as usize].is_full);
            assert_eq!(counted(&senders, port as usize), u64::from(number) + 1);
            until_writable(&mut senders, port as usize);
        }
        if number % at_once == 0 {
            senders.flush();
            senders.heard();
            (0..PORTS as usize).for_each(|at| until_writable(&mut senders, at));
        }
    }
    senders.flush();
    (0..PORTS as usize).for_each(|at| until_writable(&mut senders, at));
    while senders.senders.iter().any(|s| s.line.handed() > 0) {
        std::thread::yield_now();
    }
    senders.heard();
    (0..PORTS as usize).for_each(|at| until_writable(&mut senders, at));
    senders.finish();
    let sent = Count { packets: frames.into(), bytes: 60 * u64::from(frames) };
    (0..PORTS as usize).for_each(|at| assert_eq!(senders.fates(at), (sent, SendDrops::default(), 0)));
    readers.into_iter().for_each(|reader| reader.join().unwrap());
}

#[test]
fn each_port_s_frames_come_out_whole_and_in_order() {
    for threads in [0, 1, 2] {
        for at_once in [1, 20, 500] {
            numbers(threads, 5_000, at_once);
        }
    }
}

#[test]
fn a_full_port_keeps_few_frames_and_counts_them_at_the_end() {
    let (mut senders, _far) = senders(0);
    let mut taken = 0;
    while senders.frame(1, &[0; 1000]) {
        taken += 1;
    }
    // The socket's own space, and a frame that it did not take.
    assert!((1..=40).contains(&taken), "{taken} frames");
    assert_eq!(counted(&senders, 1), taken + 1);
    assert!(senders.frame(0, &[0; 1000]), "another port takes frames");
    let mut device = Device::new(Default::default());
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    senders.settle(&mut device, &epoll).unwrap();
    assert!(senders.senders[1].is_polled);
    senders.renew(1, None).unwrap();
    senders.settle(&mut device, &epoll).unwrap();
    assert!(!senders.senders[1].is_polled && senders.frame(1, &[0; 1000]));
    assert_eq!(senders.refusal(0), None);
    assert_eq!((senders.refusal(1), senders.refusal(PORTS)), (Some("is down"), Some("has no interface")));
    senders.finish();
    let (_, drops, waiting) = senders.fates(1);
    assert!(drops.down >= 1);
    assert_eq!((waiting, counted(&senders, 1)), (0, taken + 2));

    while senders.frame(2, &[0; 1000]) {}
    let all = counted(&senders, 2);
    senders.finish();
    assert_eq!((senders.fates(2).2, counted(&senders, 2)), (0, all));
}
