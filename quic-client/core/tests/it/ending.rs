// SPDX-License-Identifier: Apache-2.0
//! End of a session whose server has fallen silent, in virtual time: it closes its connection at once and stands still
//! nowhere, however slowly the congestion control paced by then.

use crate::world::{Link, MS, World};
use std::rc::Rc;
use std::time::Duration;
use weir_core::client::Action;
use weir_core::congestion::pbq::{Pbq, Profile, built_in};
use weir_core::congestion::{CongestionControl, QuicheOwn, Setup};

/// Stops uploads over three paths, at many times before and after the server fell silent.
fn stop(name: &str, algorithm: &str, control: Rc<dyn Fn() -> Box<dyn CongestionControl>>) {
    let links = [(3, 25.0), (30, 6.0), (20, 4.0)].map(|(delay_ms, mbit_s)| Link { delay_ms, mbit_s: Some(mbit_s) });
    for silent_ms in [200, 1000, 3000] {
        for stop_ms in (400..8000).step_by(1511) {
            let world = World {
                links: links.to_vec(),
                action: Action::Upload(None),
                algorithm: algorithm.parse().unwrap(),
                control: control.clone(),
                silent_from: Some(silent_ms * MS),
                stop_at: Some(stop_ms * MS),
                ..World::default()
            };
            assert_eq!(world.run().over, stop_ms * MS, "{name}, silent after {silent_ms} ms");
        }
    }
}

/// A restarted server answers with a stateless reset once a packet reaches it (RFC 9000 10.3).
#[test]
fn a_download_that_falls_silent_asks_soon_whether_its_server_is_there() {
    let silent = Duration::from_secs(1);
    let world = World {
        links: vec![Link { delay_ms: 5, mbit_s: Some(10.0) }],
        bytes: 50_000_000,
        silent_from: Some(silent),
        stop_at: Some(Duration::from_secs(20)),
        routed: false,
        ..World::default()
    };
    let sent = world.run().sent;
    let asks: Vec<_> = sent.iter().filter(|t| **t > silent + Duration::from_secs(1)).collect();
    assert!(asks.first().is_some_and(|first| **first <= silent + Duration::from_secs(6)), "{asks:?}");
}

#[test]
fn an_upload_that_is_stopped_ends_at_once_with_its_server_dead() {
    for algorithm in ["cubic", "bbr2_gcongestion"] {
        stop(algorithm, algorithm, Rc::new(|| Box::new(QuicheOwn)));
    }
    let (weights, setup) = (
        Rc::new(built_in(Profile::Own).unwrap()),
        Setup { packet_bytes: 1350, initial_window_bytes: 13_500, ..Setup::default() },
    );
    stop("pbq", "bbr2_gcongestion", Rc::new(move || Box::new(Pbq::new(weights.clone(), &setup))));
}
