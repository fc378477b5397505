// SPDX-License-Identifier: Apache-2.0
//! Congestion controls that are not quiche's, on real connections in virtual time: a fixed window and a fixed rate.

use crate::world::{Link, MS, World};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use weir_core::congestion::{Acked, CongestionControl, Interval, Lost, RttSamples, Sent};

const PACKET_BYTES: usize = 1350;

/// Reports that a control received.
#[derive(Debug, Default)]
struct Told {
    sent_bytes: u64,
    acked_bytes: u64,
    lost_bytes: u64,
    most_in_flight_bytes: u64,
    rtt: Vec<RttSamples>,
    intervals: Vec<Interval>,
}

/// Decides the same for ever.
struct Fixed {
    window_bytes: usize,
    rate_bytes_s: Option<u64>,
    interval: Option<Duration>,
    told: Rc<RefCell<Told>>,
}

impl CongestionControl for Fixed {
    fn window_bytes(&self) -> Option<usize> {
        Some(self.window_bytes)
    }

    fn pacing_rate_bytes_s(&self) -> Option<u64> {
        self.rate_bytes_s
    }

    fn interval(&self) -> Option<Duration> {
        self.interval
    }

    fn on_packet_sent(&mut self, sent: &Sent) {
        self.told.borrow_mut().sent_bytes += sent.bytes;
    }

    fn on_ack(&mut self, acked: &Acked) {
        let mut told = self.told.borrow_mut();
        told.acked_bytes += acked.bytes;
        // Bytes in flight before these acknowledgements.
        told.most_in_flight_bytes = told.most_in_flight_bytes.max(acked.in_flight_bytes + acked.bytes);
    }

    fn on_loss(&mut self, lost: &Lost) {
        self.told.borrow_mut().lost_bytes += lost.bytes;
    }

    fn on_rtt_samples(&mut self, samples: &RttSamples) {
        self.told.borrow_mut().rtt.push(*samples);
    }

    fn on_interval(&mut self, interval: &Interval) {
        self.told.borrow_mut().intervals.push(*interval);
    }
}

/// Downloads `bytes` over a path of 100 ms there and back, the server's control being fixed.
fn download(
    bytes: u64,
    mbit_s: Option<f64>,
    window_packets: usize,
    rate_bytes_s: Option<u64>,
    interval: Option<Duration>,
) -> (Duration, Told) {
    let told = Rc::new(RefCell::new(Told::default()));
    let shared = told.clone();
    let control = move || {
        let (window_bytes, told) = (window_packets * PACKET_BYTES, shared.clone());
        Box::new(Fixed { window_bytes, rate_bytes_s, interval, told }) as Box<dyn CongestionControl>
    };
    let links = vec![Link { delay_ms: 50, mbit_s }];
    let seen = World { links, bytes, control: Rc::new(control), ..World::default() }.run();
    let told = told.take();
    (seen.took, told)
}

#[test]
fn a_fixed_window_bounds_what_is_in_flight_and_with_it_the_rate() {
    let (ten, told) = download(1_000_000, None, 10, None, None);
    // A window each round trip: some 76 of them, whatever the headers take.
    assert!((7_400 * MS..9_000 * MS).contains(&ten), "{ten:?}");
    assert!(told.most_in_flight_bytes <= 10 * PACKET_BYTES as u64, "{told:?}");
    assert!(told.most_in_flight_bytes > 8 * PACKET_BYTES as u64, "{told:?}");
    let (forty, _) = download(1_000_000, None, 40, None, None);
    assert!((1_900 * MS..2_600 * MS).contains(&forty), "{forty:?}");
    // Less than two packets count as two.
    let (_, none) = download(20_000, None, 0, None, None);
    assert!((1..=2 * PACKET_BYTES as u64).contains(&none.most_in_flight_bytes), "{none:?}");
}

#[test]
fn a_fixed_rate_paces() {
    let (took, told) = download(1_000_000, None, 1000, Some(250_000), None);
    // 1 MB and its headers at 250 kB/s, and two round trips.
    assert!((4_000 * MS..4_700 * MS).contains(&took), "{took:?}");
    assert_eq!(told.lost_bytes, 0);
    // A rate of nothing counts as a packet a second, so that the connection goes on.
    let (slow, _) = download(5_000, None, 1000, Some(0), None);
    assert!((2_000 * MS..20_000 * MS).contains(&slow), "{slow:?}");
}

#[test]
fn a_control_is_told_all_that_happens() {
    // 2 Mbit/s with a queue of 150 ms: 100 packets do not fit.
    let (_, told) = download(1_000_000, Some(2.0), 100, None, Some(100 * MS));
    assert!(told.lost_bytes > 0, "{told:?}");
    assert!(told.acked_bytes >= 1_000_000 && told.sent_bytes >= told.acked_bytes, "{told:?}");
    assert!(told.rtt.iter().all(|s| s.count > 0 && s.least <= s.mean && s.least >= 100 * MS), "{told:?}");
    assert!(told.rtt.iter().any(|s| s.latest > 200 * MS), "the queue shows in the round-trip times: {told:?}");
}

#[test]
fn intervals_add_up_to_what_happened() {
    let (took, told) = download(500_000, Some(2.0), 60, None, Some(100 * MS));
    let sum = |f: fn(&Interval) -> u64| told.intervals.iter().map(f).sum::<u64>();
    // Events after the last interval are in none.
    let rest = 30_000;
    assert!((0..=rest).contains(&(told.sent_bytes - sum(|i| i.sent_bytes))), "{told:?}");
    assert!((0..=rest).contains(&(told.acked_bytes - sum(|i| i.acked_bytes))), "{told:?}");
    assert!(told.intervals.iter().all(|i| i.length >= 100 * MS && i.window_bytes == 60 * PACKET_BYTES as u64));
    let length: Duration = told.intervals.iter().map(|i| i.length).sum();
    assert!(length <= took && took - length < 250 * MS, "{length:?} of {took:?}");
    // In the midst of it the bottleneck is full.
    let middle = &told.intervals[told.intervals.len() / 2];
    assert!((200_000.0..=260_000.0).contains(&middle.delivery_rate_bytes_s()), "{middle:?}");
    assert!(middle.rtt.is_some_and(|rtt| rtt.mean > 100 * MS) && middle.loss_share() < 1.0, "{middle:?}");
}

/// Notes the reports on each path that becomes the active one.
struct PathByPath(Rc<RefCell<Vec<Told>>>);

impl CongestionControl for PathByPath {
    fn on_packet_sent(&mut self, sent: &Sent) {
        self.0.borrow_mut().last_mut().unwrap().sent_bytes += sent.bytes;
    }

    fn on_ack(&mut self, acked: &Acked) {
        let mut paths = self.0.borrow_mut();
        let told = paths.last_mut().unwrap();
        told.acked_bytes += acked.bytes;
        assert!(told.acked_bytes <= told.sent_bytes, "of this path: {} of {}", told.acked_bytes, told.sent_bytes);
    }

    fn on_rtt_samples(&mut self, samples: &RttSamples) {
        self.0.borrow_mut().last_mut().unwrap().rtt.push(*samples);
    }

    fn on_path_change(&mut self) {
        self.0.borrow_mut().push(Told::default());
    }
}

#[test]
fn what_came_of_another_path_is_not_told() {
    let told = Rc::new(RefCell::new(vec![Told::default()]));
    let shared = told.clone();
    // 20 ms there and back, with a queue of 150 ms, and 240 ms: the download begins on the first and moves to the second.
    let links = [(10, 1.83), (120, 25.0)].map(|(delay_ms, mbit_s)| Link { delay_ms, mbit_s: Some(mbit_s) }).to_vec();
    let control = move || Box::new(PathByPath(shared.clone())) as Box<dyn CongestionControl>;
    let algorithm = "bbr2_gcongestion".parse().unwrap();
    let seen = World { links, bytes: 8_000_000, control: Rc::new(control), algorithm, ..World::default() }.run();
    let told = told.take();
    assert!(told.len() >= 2 && seen.share(1) > 0.5, "{} paths, {}", told.len(), seen.share(1));
    let ends = |told: &Told| {
        let rtt = || told.rtt.iter().map(|samples| samples.latest);
        (rtt().min(), rtt().max())
    };
    for (least, most) in told.iter().map(ends) {
        // An acknowledgement waits for 25 ms at most.
        assert!(most < Some(215 * MS) || least >= Some(240 * MS), "of one path: {least:?} to {most:?}");
    }
    assert!(told.iter().any(|told| ends(told).0 >= Some(240 * MS)), "{} paths", told.len());
}
