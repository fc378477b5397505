// SPDX-License-Identifier: Apache-2.0
//! End of a session whose server has fallen silent, in virtual time: it closes its connection at once and stands still
//! nowhere, however slowly the congestion control paced by then.

use crate::world::{Link, MS, World};
use std::rc::Rc;
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
