// SPDX-License-Identifier: Apache-2.0
//! Path MTU discovery of whole sessions, in virtual time with real quiche at both ends: paths that shrink and grow, in
//! silence or with EMSGSIZE, and that lose packets of any size besides.

use crate::world::{Link, MS, World};
use proptest::prelude::*;
use std::rc::Rc;
use std::time::Duration;
use weir_core::client::Action;

const LINK: Link = Link { delay_ms: 10, mbit_s: Some(20.0) };
const BYTES: u64 = 2_000_000;

fn action(upload: bool) -> Action {
    if upload { Action::Upload(Some(BYTES)) } else { Action::Download }
}

#[test]
fn a_size_that_the_kernel_refuses_is_left_at_once() {
    for upload in [false, true] {
        for mtu_bytes in [1200, 1252, 1300] {
            let shrinks_at = 300 * MS;
            let world = World {
                links: vec![LINK],
                bytes: BYTES,
                action: action(upload),
                mtu_bytes: Rc::new(move |at| if at < shrinks_at { 1350 } else { mtu_bytes }),
                refuses: true,
                ..World::default()
            };
            let seen = world.run();
            assert!(seen.sizes[usize::from(!upload)] <= mtu_bytes, "{:?}", seen.sizes);
            // Probes of other sizes follow one at a time; no data is refused twice.
            let full: Vec<_> = seen.oversized.iter().filter(|(_, bytes)| **bytes == 1350).collect();
            assert_eq!(full.len(), 1, "upload: {upload}, {mtu_bytes}: {:?}", seen.oversized);
        }
    }
}

/// From one time on a path carries this much.
type Step = (u64, usize);

fn at(steps: &[Step], now: Duration) -> usize {
    steps.iter().rev().find(|(ms, _)| Duration::from_millis(*ms) <= now).map_or(1350, |(_, bytes)| *bytes)
}

proptest! {
    #[test]
    fn transfers_end_whatever_a_path_carries(
        upload in any::<bool>(),
        refuses in any::<bool>(),
        algorithm in prop::sample::select(&["cubic", "bbr2_gcongestion"][..]),
        loss in prop_oneof![Just(0.0), 0.0..0.15],
        seed in any::<u64>(),
        steps in prop::collection::vec((0u64..4000, prop::sample::select(&[1200usize, 1201, 1228, 1252, 1300, 1350][..])), 0..6),
    ) {
        let mut steps = steps;
        steps.sort();
        let mtu_bytes = Rc::new(move |now| at(&steps, now));
        let action = action(upload);
        let algorithm = algorithm.parse().unwrap();
        // It fails where it takes minutes.
        World { links: vec![LINK], bytes: BYTES, action, algorithm, mtu_bytes, refuses, loss: (loss, seed), ..World::default() }.run();
    }
}
